/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files that a recording was read with, as one tar: laid out as below --symfs, with a build-id
 * cache (.debug) for what has no path (vdso, kallsyms) or shares one.
 */
#ifndef OUTPUT_ARCHIVE_H
#define OUTPUT_ARCHIVE_H

#include "output/tar.h"
#include "replay/replay.h"

struct archive_result {
    uint64_t files, bytes;
    uint64_t missing; /* files that were asked for and are not in it; each was said */
};

/* A sink that asks for all that a report with lines and inlined functions asks for. */
struct replay_sink archive_sink(void);
/* After the run: all files that were opened. `say` is called with a line for each that is missing.
 */
int archive_write(struct tar *tar, const struct replay *r, void (*say)(const char *line),
                  struct archive_result *ret, struct error *err);

#endif
