/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints variables of managed frames (unwind/variable.h), as text and as JSON. */
#ifndef OUTPUT_VARIABLES_H
#define OUTPUT_VARIABLES_H

#include "base/text.h"
#include "output/json.h"
#include "unwind/variable.h"

/* Get the symbol of a C function at an address; NULL: unknown. */
struct variables_symbols {
    const char *(*symbol)(void *context, uint64_t address);
    void *context;
};

/* Append one line for each variable, behind tabs: "local x = 5". Fields are one tab further in. */
void variables_put_text(struct text *out, const struct variables *v,
                        const struct variables_symbols *symbols);
/* Write the members "variables", "variables_cut" and "variables_unknown" of a frame's object. */
void variables_put_json(struct json *j, const struct variables *v,
                        const struct variables_symbols *symbols);

#endif
