/* SPDX-License-Identifier: GPL-2.0-only */
/* What must be known of a V8 to follow its objects. See alloc_v8.h. */
#include "live/alloc_v8.h"

#include "dso/dso.h"
#include "unwind/v8/chunk.h"
#include "unwind/v8/runtime.h"

#include <stdio.h>

/* Whether all functions are there at which collections are seen. */
static bool has_collections(const struct alloc_function *f, size_t nr)
{
    uint32_t seen = 1; /* 0 is none */
    for (size_t i = 0; i < nr; i++)
        if (f[i].shape & ALLOC_COLLECTS)
            seen |= 1U << (f[i].shape >> ALLOC_SIZE & ALLOC_ARGUMENT_MASK);
    return seen == (1U << ALLOC_COLLECTIONS) - 1;
}

static bool layout_known(const struct v8_layout *l)
{
    return l && v8_chunks_known(l) && l->chunk_marks != V8_UNKNOWN &&
           l->smi_shift != 0; /* (pointers are whole words) */
}

void alloc_v8_set(const struct v8_layout *layout, const struct alloc_function *f, size_t nr,
                  struct alloc_v8_process *ret)
{
    const struct v8_layout *l = layout;
    *ret = (struct alloc_v8_process){.state = ALLOC_V8_STRIPPED};
    if (!has_collections(f, nr))
        return;
    ret->state = ALLOC_V8_NEW;
    for (int i = 0; l && i < 2; i++)
        ret->version[i] = l->version[i];
    if (!layout_known(l))
        return;
    ret->state = ALLOC_V8_KNOWN;
    ret->layout = (struct alloc_v8){.known = 1,
                                    .flags = (uint32_t)l->chunk_flags,
                                    .heap = (uint32_t)l->chunk_heap,
                                    .marks = (uint32_t)l->chunk_marks};
    if (l->chunk_meta != V8_UNKNOWN) {
        ret->layout.described = 1;
        ret->layout.description = (uint32_t)l->chunk_meta;
    }
}

void alloc_v8_find(struct dso *dso, const struct alloc_function *f, size_t nr,
                   struct alloc_v8_process *ret)
{
    const bool collections = has_collections(f, nr);
    const struct cfi *cfi = collections ? dso_cfi(dso) : NULL;
    alloc_v8_set(cfi ? v8_of_module(cfi) : NULL, f, nr, ret);
}

bool alloc_v8_problem(const struct alloc_v8_process *v8, uint32_t pid, const char *refused,
                      char *ret, size_t size)
{
    char why[200];
    if (v8->state == ALLOC_V8_NONE || (v8->state == ALLOC_V8_KNOWN && !*refused))
        return false;
    if (v8->state == ALLOC_V8_STRIPPED)
        snprintf(why, sizeof(why),
                 "its program has no symbols (.symtab) of the functions that collect garbage");
    else if (v8->state == ALLOC_V8_NEW)
        snprintf(why, sizeof(why), "its version, %d.%d, is not known", v8->version[0],
                 v8->version[1]);
    else
        snprintf(why, sizeof(why), "%.150s", refused);
    snprintf(ret, size,
             "--alloc: process %u: objects of V8's heap are not followed until they are garbage "
             "(ljperf leaks, --weight inuse_space): %s",
             pid, why);
    return true;
}
