/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * File systems that users provide (FUSE). Every question about a file there is answered by a
 * program of that user, or never. Whoever opens others' files asks here first, without touching the
 * file system. A FUSE mount of root's, or of the caller's own, is as good as any other.
 */
#ifndef BASE_MOUNTS_H
#define BASE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the device is a stranger's file system, as the process sees it (0: as we do). Only
 * devices of major number 0 can be. */
bool mounts_is_strangers(pid_t pid, uint32_t major, uint32_t minor);

/* The same for the mount below which an absolute path lies, if no link leads elsewhere. */
bool mounts_path_is_strangers(pid_t pid, const char *path);

#endif
