/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes a tar file through libarchive. */
#ifndef OUTPUT_TAR_H
#define OUTPUT_TAR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tar;

/* Create a tar. The end of its name selects the compression: .tar.zst, .tar.gz, .tgz, .tar.xz,
 * .tar. Standard output (path NULL) is .tar.zst. */
int tar_create(const char *path, struct tar **ret, struct error *err);
/* Write the rest. The tar is freed, also on errors. */
int tar_close(struct tar *t, struct error *err);
/* Give up. The file that was written is incomplete, and is removed. */
void tar_free(struct tar *t);

/* Add a file. `name` must be relative. Members belong to root and everybody can read them. */
int tar_add(struct tar *t, const char *name, const void *bytes, size_t size, struct error *err);
/* The same with the bytes of a regular file, open or by its path, which may be in /proc. *ret_size:
 * number of bytes (may be NULL). */
int tar_add_open(struct tar *t, const char *name, int fd, uint64_t *ret_size, struct error *err);
int tar_add_file(struct tar *t, const char *name, const char *path, uint64_t *ret_size,
                 struct error *err);

#endif
