/* SPDX-License-Identifier: GPL-2.0-only */
/* A tar file as it is written, through libarchive. */
#ifndef OUTPUT_TAR_H
#define OUTPUT_TAR_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tar;

/* How the file is compressed, its name says: .tar.zst, .tar.gz, .tgz, .tar.xz, .tar; standard
 * output (path NULL) is .tar.zst. */
int tar_create(const char *path, struct tar **ret, struct error *err);
/* Write the rest. The tar is freed in any case. */
int tar_close(struct tar *t, struct error *err);
/* Give up: what was written is no whole file, and is removed. */
void tar_free(struct tar *t);

/* Add a file. `name` is relative; members belong to root and can be read by everybody. */
int tar_add(struct tar *t, const char *name, const void *bytes, size_t size, struct error *err);
/* The same with the bytes of a file, which may be one of /proc. *ret_size: how many (may be NULL).
 */
int tar_add_file(struct tar *t, const char *name, const char *path, uint64_t *ret_size,
                 struct error *err);

#endif
