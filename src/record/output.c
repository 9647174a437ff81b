/* SPDX-License-Identifier: GPL-2.0-only */
/* One old recording is kept. The files of a switched recording have the time in their names. */
#include "record/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int output_keep_old(const char *path, struct error *err)
{
    struct stat st;
    char *old;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
        return 0;
    if (asprintf(&old, "%s.old", path) < 0)
        return error_no_memory(err);
    int r = rename(path, old);
    int why = errno;
    free(old);
    return r < 0 ? error_system(err, why, "%s: the old recording cannot be renamed", path) : 0;
}

/* Rename, but never replace another file: two files may end within a hundredth of a second. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS ? rename(from, to)
                                              : -1; /* file systems without RENAME_NOREPLACE */
}

/* Returns the name for a file that ends now; NULL when memory is out. */
static char *stamped_name(const char *path)
{
    struct timespec now;
    struct tm tm;
    char stamp[32], *name;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y%m%d%H%M%S", &tm);
    return asprintf(&name, "%s.%s%02ld", path, stamp, now.tv_nsec / 10000000) < 0 ? NULL : name;
}

int output_stamp(const char *path, char **ret, struct error *err)
{
    enum { TRIES = 100, PAUSE = 2000 /* us */ };
    for (int i = 0;; i++) {
        char *name = stamped_name(path);
        if (!name)
            return error_no_memory(err);
        if (rename_new(path, name) == 0) {
            *ret = name;
            return 0;
        }
        int why = errno;
        free(name);
        if (why != EEXIST || i >= TRIES)
            return error_system(err, why, "%s: cannot be renamed", path);
        usleep(PAUSE);
    }
}
