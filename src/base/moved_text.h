/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text that a program has moved to anonymous memory at the same addresses, mostly huge pages: V8's
 * --use-largepages, Intel's iodlr, HHVM. /proc/PID/maps then has anonymous executable memory in a
 * hole of the file. Its bytes tell whether it is the file's.
 */
#ifndef BASE_MOVED_TEXT_H
#define BASE_MOVED_TEXT_H

#include "base/process_maps.h"

/* Replace each mapping of moved text, and of copies of a part of it, by one of its file, and mark
 * (process_map.text) what was compared. Reads 512 MiB of files at most. */
void moved_text_restore(pid_t pid, struct process_maps *maps);

#endif
