/* SPDX-License-Identifier: GPL-2.0-only */
/* LuaJIT's row in the table of runtimes. */
#ifndef UNWIND_LUAJIT_RUNTIME_H
#define UNWIND_LUAJIT_RUNTIME_H

#include "unwind/luajit/discover.h"
#include "unwind/luajit/vm.h"
#include "unwind/runtime.h"

extern const struct runtime luajit_runtime;

/* Returns the layout of the LuaJIT in a module; NULL: it has none, or one whose layout could not be
 * read. `cfi` may be NULL. */
static inline const struct luajit_layout *luajit_of_module(const struct cfi *cfi)
{
    return cfi_runtime(cfi, &luajit_runtime);
}

/* Returns the interpreter of a LuaJIT in a process. */
static inline struct luajit_blob luajit_blob_of(const struct runtime_instance *i)
{
    const struct luajit_layout *l = i->layout;
    return (struct luajit_blob){.layout = l, .address = l->blob + i->bias};
}

/* Returns the part of an image that discovery and the cross check use. */
static inline struct luajit_image luajit_image_of(const struct runtime_image *image)
{
    return (struct luajit_image){.name = image->name,
                                 .cfi = image->cfi,
                                 .bytes = image->bytes,
                                 .symbol = image->exported,
                                 .context = image->context};
}

/* describe.c: as struct runtime says. */
void luajit_describe(const void *layout, const struct runtime_image *image, struct text *out);
void luajit_describe_vm(const struct memory *m, const struct runtime_vm *which, struct text *out);

#endif
