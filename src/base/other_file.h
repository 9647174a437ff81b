/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one way to open files that others own: programs and libraries that a process has mapped, and
 * what it has written about its code. Their owner may put a link, a FIFO, a device or another file
 * in their place at any time. So nothing here waits for another process, opens a device, asks a
 * file system that another user provides (base/mounts.h), or follows a link out of the root of the
 * process whose file it is. What is opened is a regular file, and it stays the one that was
 * checked.
 *
 * tests/opens (part of `make check`) fails when the rooms that look at processes open files
 * elsewhere.
 */
#ifndef BASE_OTHER_FILE_H
#define BASE_OTHER_FILE_H

#include "base/process_maps.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Open a regular file for reading. Links in the path are followed. Returns a descriptor that the
 * caller closes; -1: there is none (errno says why; ENOTSUP: it is not a regular file). */
int other_file_open(const char *path);

/* stat() of what the path leads to, whatever it is. Returns false also where that is not ours to
 * ask. */
bool other_file_stat(const char *path, struct stat *ret);

/* The same as other_file_open() in a folder where everybody may write, such as /tmp: a link at the
 * end of the path counts only if its owner is also the owner of what it leads to (errno ENOTSUP
 * otherwise). */
int other_file_open_shared(const char *path);

/* Open a regular file at an absolute path as the process sees it, or as /proc/PID/maps tells us of
 * a file below another root. No link in the path leads out of the process's root, and none of the
 * kernel's own links is followed. Returns as above; ENOSYS: Linux before 5.6. */
int other_file_open_in_root(pid_t pid, const char *path);

/* stat() of what such a path leads to, whatever it is. */
bool other_file_stat_in_root(pid_t pid, const char *path, struct stat *ret);

/* Open the file of a mapping, whatever its path leads to by now. `gone`: its path leads to it no
 * more, so nobody finds it when the process has ended. NULL: nobody asks. Returns as above. */
int other_file_open_mapped(pid_t pid, const struct process_map *map, bool *gone);

#endif
