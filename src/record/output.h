/* SPDX-License-Identifier: GPL-2.0-only */
/* The names of the files of a recording, which follow perf record's rules. */
#ifndef RECORD_OUTPUT_H
#define RECORD_OUTPUT_H

#include "base/error.h"

/* Rename an existing recording at `path` to `path`.old. Does nothing when there is no regular file,
 * or an empty one. */
int output_keep_old(const char *path, struct error *err);
/* Rename a finished file to `path`.YYYYMMDDhhmmsscc (local time; cc: hundredths of a second). *ret:
 * the new name, which the caller frees. */
int output_stamp(const char *path, char **ret, struct error *err);

#endif
