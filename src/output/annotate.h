/* SPDX-License-Identifier: GPL-2.0-only */
/* One function's source, or machine code, with what each line of it weighs. */
#ifndef OUTPUT_ANNOTATE_H
#define OUTPUT_ANNOTATE_H

#include "output/export.h"

#include <stdint.h>

struct annotate_options {
    const char *symbol;     /* NULL: the function with the most samples of its own */
    const char *source_dir; /* where sources are looked for first; NULL: where they were */
    bool samples;           /* count samples, not periods */
};

/* `profile` is finished, and has lines. Errors: no such function (says which are like it). */
int annotate_print(const struct annotate_options *options, struct profile *profile,
                   const struct replay *r, FILE *out, struct error *err);

#endif
