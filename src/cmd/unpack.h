/* SPDX-License-Identifier: GPL-2.0-only */
/* Recordings that are compressed, or in an archive of `ljperf archive --all`. */
#ifndef CMD_UNPACK_H
#define CMD_UNPACK_H

#include "base/error.h"

#include <stdbool.h>

/* A recording that was unpacked into a folder of its own, which only we can enter. */
struct unpacked;

/* Unpack the file at `path`, if gzip, zstd, xz or bzip2 has compressed it, or if it is a tar. The
 * folder is in $TMPDIR or /var/tmp; it goes with unpacked_free(), or with this process, however
 * that ends. *ret is NULL if the file is none of these (or cannot be read: who opens it says so).
 * Returns -1 if it is damaged, too large, or a tar without a recording. */
int unpack(const char *path, struct unpacked **ret, struct error *err);
void unpacked_free(struct unpacked *u);

/* Whether there is a file at `path` that begins as a recording does, or a packed file: no function
 * has such a name. */
bool looks_like_recording(const char *path);

/* The recording. Valid as long as `u` is. */
const char *unpacked_recording(const struct unpacked *u);
/* The root of the other files (as --symfs); NULL: it was no tar. */
const char *unpacked_root(const struct unpacked *u);

#endif
