/* SPDX-License-Identifier: GPL-2.0-only */
/* V8's row in the table of runtimes. */
#ifndef UNWIND_V8_RUNTIME_H
#define UNWIND_V8_RUNTIME_H

#include "unwind/runtime.h"
#include "unwind/v8/layout.h"

extern const struct runtime v8_runtime;

/* Returns the layout of the V8 in a module; NULL: it has none, or one that is not supported. `cfi`
 * may be NULL. */
static inline const struct v8_layout *v8_of_module(const struct cfi *cfi)
{
    return cfi_runtime(cfi, &v8_runtime);
}

/* describe.c: as struct runtime says. */
void v8_describe(const void *layout, const struct runtime_image *image, struct text *out);

#endif
