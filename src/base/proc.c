/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/proc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

bool proc_has_own_root(uint32_t pid)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root/.", pid);
    return stat(path, &theirs) == 0 && stat("/proc/self/root/.", &ours) == 0 &&
           (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev);
}

/* Returns where in the path the process's root ends; 0: the path does not lead through it. */
static size_t behind_root(const char *root_link, const char *path)
{
    char root[4096];
    ssize_t length = readlink(root_link, root, sizeof(root));
    bool is_inside = length > 1 && (size_t)length < sizeof(root) &&
                     strncmp(path, root, (size_t)length) == 0 && path[length] == '/';
    return is_inside ? (size_t)length : 0;
}

int proc_open_in_root(uint32_t pid, const char *path)
{
    const struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    char at[64];
    struct stat st;
    snprintf(at, sizeof(at), "/proc/%" PRIu32 "/root", pid);
    int root = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    const size_t length = fd < 0 ? behind_root(at, path) : 0;
    if (length)
        fd = (int)syscall(SYS_openat2, root, path + length, &how, sizeof(how));
    close(root);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    return -1;
}
