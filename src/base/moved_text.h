/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text that a program has moved to anonymous memory at the same addresses, mostly huge pages: V8's
 * --use-largepages, Intel's iodlr, HHVM. /proc/PID/maps then has anonymous executable memory in a
 * hole of the file. Its bytes tell whether it is the file's.
 */
#ifndef BASE_MOVED_TEXT_H
#define BASE_MOVED_TEXT_H

#include "base/process_maps.h"

enum moved_text {
    MOVED_TEXT_NONE,  /* no memory in a hole of a file, or it cannot be compared */
    MOVED_TEXT_OTHER, /* its bytes are not the file's */
    MOVED_TEXT_EQUAL,
};

/* Look at the mapping of this index. `ret`: the same memory as a mapping of the file, if it is
 * MOVED_TEXT_EQUAL; its path points into `maps`. Compares 256 MiB at most. */
enum moved_text moved_text_look(pid_t pid, const struct process_maps *maps, size_t index,
                                struct process_map *ret);

/* Replace each mapping of moved text, and of copies of a part of it, by one of its file. */
void moved_text_restore(pid_t pid, struct process_maps *maps);

#endif
