/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files that are mapped for reading, though others may change them. Whoever may write a file may
 * cut it at any time, and the kernel then sends SIGBUS to the reader of a page that is gone
 * (mmap(2)). Here such pages become zero instead, and the map says so.
 *
 * The handler of SIGBUS is the process's, and the list of maps that it searches is, too: a signal
 * carries no other context. Faults outside these maps go to the handler that was there before.
 */
#ifndef BASE_FILE_MAP_H
#define BASE_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Map the first `size` bytes (more than 0) of a regular file. Returns NULL when that fails; errno
 * says why. A thread that reads the map must not block SIGBUS. The caller gives the map back by
 * file_unmap(), with the same size. */
void *file_map(int fd, size_t size);
void file_unmap(void *map, size_t size);

/* Was the file found shorter than the map, so that bytes read from the map were zero? */
bool file_map_was_cut(const void *map);

#endif
