/* SPDX-License-Identifier: GPL-2.0-only */
/* Old recordings are kept once; parts of a switched one carry the time. */
#include "capture/output.h"

#include <errno.h>
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

int output_stamp(const char *path, char **ret, struct error *err)
{
    struct timespec now;
    struct tm tm;
    char stamp[32];
    char *name;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    strftime(stamp, sizeof(stamp), "%Y%m%d%H%M%S", &tm);
    if (asprintf(&name, "%s.%s%02ld", path, stamp, now.tv_nsec / 10000000) < 0)
        return error_no_memory(err);
    if (rename(path, name) < 0) {
        int why = errno;
        free(name);
        return error_system(err, why, "%s: cannot be renamed", path);
    }
    *ret = name;
    return 0;
}
