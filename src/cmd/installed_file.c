/* SPDX-License-Identifier: GPL-2.0-only */
#include "cmd/installed_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_there(const char *folder, const char *below, const char *name, char *ret)
{
    const int n = snprintf(ret, INSTALLED_PATH_MAX, "%s%s%s", folder, below, name);
    return n > 0 && n < INSTALLED_PATH_MAX && access(ret, R_OK) == 0;
}

int installed_file(const char *name, char ret[INSTALLED_PATH_MAX], struct error *err)
{
    char folder[INSTALLED_PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (n <= 0)
        return error_system(err, errno, "/proc/self/exe");
    folder[n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    if (is_there(folder, "/", name, ret) || is_there(folder, "/../lib/ljperf/", name, ret))
        return 0;
    return error_set(err, ERROR_NOT_FOUND, "%s is not there: neither in %.80s nor in ../lib/ljperf",
                     name, folder);
}
