/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/proc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint32_t proc_inner_pid(uint32_t pid)
{
    char path[64], line[256];
    uint32_t ret = pid;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last)
            ret = (uint32_t)strtoul(last, NULL, 10);
    }
    if (f)
        fclose(f);
    return ret;
}

bool proc_is_apart(uint32_t pid, const char *which)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/ns/%s", pid, which);
    if (stat(path, &theirs) < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/ns/%s", which);
    return stat(path, &ours) == 0 && theirs.st_ino != ours.st_ino;
}

/* Which folder a path leads to, without asking a file system that a user provides (base/mounts.h).
 */
static bool folder_of(const char *path, struct statx *ret)
{
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, ret) == 0;
}

bool proc_has_own_root(uint32_t pid)
{
    char path[64];
    struct statx theirs, ours;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root/.", pid);
    return folder_of(path, &theirs) && folder_of("/proc/self/root/.", &ours) &&
           (theirs.stx_ino != ours.stx_ino || theirs.stx_dev_major != ours.stx_dev_major ||
            theirs.stx_dev_minor != ours.stx_dev_minor);
}
