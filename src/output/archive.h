/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Put the files that a recording was read with into one tar. The tar is laid out like a --symfs
 * root. It has a build-id cache (.debug) for files that have no path (vdso, kallsyms) or that share
 * a path.
 */
#ifndef OUTPUT_ARCHIVE_H
#define OUTPUT_ARCHIVE_H

#include "output/tar.h"
#include "replay/replay.h"

struct archive_result {
    uint64_t files, bytes;
    uint64_t missing; /* files that were needed but are not in the tar; each was reported */
};

/* A sink that asks for everything that a report with lines and inlined functions asks for. */
struct replay_sink archive_sink(void);
/* Add all files that were opened during the run. Call it after the run. `say` gets one line for
 * each missing file. */
int archive_write(struct tar *tar, const struct replay *r, void (*say)(const char *line),
                  struct archive_result *ret, struct error *err);

#endif
