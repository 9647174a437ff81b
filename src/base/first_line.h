/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings and names that the kernel presents as files of one line. */
#ifndef BASE_FIRST_LINE_H
#define BASE_FIRST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Read the first line of a file, without its newline, cut to fit `size` bytes with a NUL. Returns
 * false when the file cannot be read or is empty. */
bool first_line(const char *path, char *to, size_t size);

#endif
