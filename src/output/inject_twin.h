/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code of a file that a process has mapped twice: V8 maps the part of its file that holds its
 * builtins again, near its heap, to call them with short jumps. perf looks up addresses in the
 * second mapping in the file. Readers that load a file once per process (elfutils and so hotspot)
 * find no name for them. If the address of the same code in the loader's mapping is written
 * instead, all readers find a name.
 */
#ifndef OUTPUT_INJECT_TWIN_H
#define OUTPUT_INJECT_TWIN_H

#include "session/session.h"

#include <stdint.h>

enum { INJECT_TWINS = 64 };

/* A cache of the mappings that were last asked for. It starts as zeros. */
struct inject_twins {
    struct inject_twin {
        const struct dso *dso;
        uint64_t start, pgoff;             /* of the mapping that was asked for */
        uint64_t other_start, other_pgoff; /* of the larger mapping that contains it */
        uint32_t pid;
        bool has_other;
    } known[INJECT_TWINS];
};

/* `pc` is in the mapping `m`. Returns the address of the same byte of the file in the larger
 * mapping that the process has of it, or `pc` if there is none. */
uint64_t inject_twin_address(struct inject_twins *t, const struct thread_context *p,
                             const struct mapping *m, uint64_t pc);

#endif
