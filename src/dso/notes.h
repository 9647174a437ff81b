/* SPDX-License-Identifier: GPL-2.0-only */
/* The GNU build id among ELF notes: a file's, those in a process's memory, the kernel's own. */
#ifndef DSO_NOTES_H
#define DSO_NOTES_H

#include "base/cursor.h"
#include "perfdata/perfdata.h"

/* false: there is none. */
bool notes_build_id(struct cursor notes, struct build_id *ret);
/* Of a file that is nothing but notes of this machine's byte order (those in /sys are); size 0:
 * none, or it cannot be read. */
struct build_id notes_file_build_id(const char *path);

#endif
