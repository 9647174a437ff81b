/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code of a file that a process has mapped a second time: V8 maps the part of its file that holds
 * its builtins once more, near its heap, to call them with short jumps. perf looks such addresses
 * up in the file; readers that load a file once for a process (elfutils does, and so hotspot) find
 * no name for them. The same code's address in the mapping that the loader made has one for all.
 */
#ifndef OUTPUT_INJECT_TWIN_H
#define OUTPUT_INJECT_TWIN_H

#include "session/session.h"

#include <stdint.h>

enum { INJECT_TWINS = 64 };

/* What is known of mappings, the last ones that were asked of; zeros at first. */
struct inject_twins {
    struct inject_twin {
        const struct dso *dso;
        uint64_t start, pgoff;             /* of the mapping */
        uint64_t other_start, other_pgoff; /* of the larger one that holds all of it */
        uint32_t pid;
        bool has_other;
    } known[INJECT_TWINS];
};

/* `pc` is in `m`, a mapping of the place. The address of the same byte of the file in the larger
 * mapping that the process has of it; `pc` when there is none. */
uint64_t inject_twin_address(struct inject_twins *t, const struct thread_context *p,
                             const struct mapping *m, uint64_t pc);

#endif
