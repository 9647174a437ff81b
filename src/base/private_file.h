/* SPDX-License-Identifier: GPL-2.0-only */
/* Files that the program writes, and to whom they belong. Recordings are private: copies of stacks
 * may hold any secret of the programs that were watched. */
#ifndef BASE_PRIVATE_FILE_H
#define BASE_PRIVATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Open a file for writing, empty, that nobody but its owner can read. A new file belongs to the
 * caller: under sudo to the user who called it. A regular file that is there must be the caller's
 * own, or its owner could read what is written; a FIFO or device is opened as it is. Returns a
 * descriptor that the caller closes; -1: errno says why (EPERM: the file belongs to another user).
 */
int private_file_create(const char *path);

/* Open a file for writing, empty, as fopen(path, "w") does. A new file belongs to the caller, as
 * above; who may read it is as usual (umask). NULL: errno says why. */
FILE *callers_file_create(const char *path);

/* Open a regular file for reading, as other_file_open() does, if the caller may read it: under sudo
 * the user who called it. For root itself everybody must be allowed to read it. To be used for what
 * is given to others, where the path comes from elsewhere. Returns as other_file_open(). */
int callers_file_open(const char *path);

/* Whether the program has no more rights than the user who called it: it was started neither by
 * sudo and its like nor as a set-user-id program. */
bool has_callers_rights_only(void);

/* Write all bytes. Returns -1 with errno set if that fails. */
int file_write_all(int fd, const void *bytes, size_t size);

#endif
