/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the GNU build id among ELF notes: of a file, in a process's memory, of the kernel itself. */
#ifndef DSO_NOTES_H
#define DSO_NOTES_H

#include "base/cursor.h"
#include "perfdata/perfdata.h"

/* Returns false when there is none. */
bool notes_build_id(struct cursor notes, struct build_id *ret);
/* Read the build id from a file that contains only notes in this machine's byte order (those in
 * /sys do). Size 0: none, or the file cannot be read. */
struct build_id notes_file_build_id(const char *path);

#endif
