/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process in a core file, with the files that it had mapped, as the unwinder needs it. Pages that
 * the core leaves out are read from the files (gcore leaves out pages that equal the file). A file
 * whose build id differs from the one in the core is not used.
 */
#ifndef SESSION_CORE_PROCESS_H
#define SESSION_CORE_PROCESS_H

#include "dso/core.h"
#include "session/session.h"

/* Paths in the core that begin with `from` are looked up with `to` in its place. */
struct path_replacement {
    const char *from, *to;
};

struct core_process_options {
    const struct path_replacement *replace; /* the first one that fits is used */
    size_t nr_replace;
    const struct dso_options *dso; /* NULL: none */
};

struct core_process {
    struct core *core;
    struct dsos *dsos;
    struct session *session;
    struct thread_context thread;
    struct memory_layer layers[2]; /* the core's memory, then the files */
    struct codemap code;
};

/* Open the core `path`. The caller owns the process and frees it with core_process_free(). What the
 * process owns does not move, and the layers point only there, so the struct itself may be
 * copied. */
int core_process_open(const char *path, const struct core_process_options *options,
                      struct core_process *ret, struct error *err);
void core_process_free(struct core_process *p);

#endif
