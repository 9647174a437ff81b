/* SPDX-License-Identifier: GPL-2.0-only */
/* The names of the files a recording is written to: perf record's habits. */
#ifndef CAPTURE_OUTPUT_H
#define CAPTURE_OUTPUT_H

#include "base/error.h"

/* An existing recording at `path` becomes `path`.old. Nothing there, or no regular file: nothing to
 * do. */
int output_keep_old(const char *path, struct error *err);
/* Rename a finished file to `path`.YYYYMMDDhhmmsscc (local time, hundredths). *ret: its name,
 * to be freed. */
int output_stamp(const char *path, char **ret, struct error *err);

#endif
