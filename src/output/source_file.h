/* SPDX-License-Identifier: GPL-2.0-only */
/* Source files of recorded programs, as far as they are on this machine. */
#ifndef OUTPUT_SOURCE_FILE_H
#define OUTPUT_SOURCE_FILE_H

#include "replay/replay.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Where to look. */
struct source_place {
    const char *folder; /* looked into first; NULL: none */
    const char *symfs;  /* below it are absolute paths; NULL: the root folder */
    /* Open only what the caller of sudo may read, or for root itself what everybody may: for output
     * that leaves this machine. The recorded program chose the names. */
    bool for_others;
};

struct source_file {
    char path[PATH_MAX];
    char *bytes; /* followed by a NUL; NULL: not found */
    size_t size;
    time_t changed;
};

/* Find and read the program's source file `name`. It is searched for in the folder first, by its
 * whole name and by its last part; then at its own path. `ret` is zeros; the caller frees it in any
 * case. Returns false if there is no such file, or it is too large. */
bool source_file_read(const struct source_place *place, const char *name, struct source_file *ret);
void source_file_free(struct source_file *s);

#endif
