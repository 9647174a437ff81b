/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings and names that the kernel shows as files of one line. */
#ifndef BASE_FIRST_LINE_H
#define BASE_FIRST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The file's first line, without its newline, as far as it fits into `size` bytes with a NUL
 * behind; false: it cannot be read, or is empty. */
bool first_line(const char *path, char *to, size_t size);

#endif
