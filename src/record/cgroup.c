/* SPDX-License-Identifier: GPL-2.0-only */
#include "record/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

const char *cgroup_root(void)
{
    static const struct {
        const char *path;
        uint64_t magic;
    } usual[] = {{"/sys/fs/cgroup/perf_event", CGROUP_SUPER_MAGIC},
                 {"/sys/fs/cgroup", CGROUP2_SUPER_MAGIC},
                 {"/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC}};
    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
        struct statfs st;
        if (statfs(usual[i].path, &st) == 0 && (uint64_t)st.f_type == usual[i].magic)
            return usual[i].path;
    }
    return NULL;
}

int cgroup_open(const char *name, struct error *err)
{
    const char *root = cgroup_root();
    char path[PATH_MAX];
    if (!root)
        return error_set(err, ERROR_NOT_FOUND,
                         "-G %.100s: the control groups of perf_event are neither at "
                         "/sys/fs/cgroup/perf_event nor, as version 2, at /sys/fs/cgroup",
                         name);
    const size_t size = strlen(root);
    const bool is_whole = strncmp(name, root, size) == 0 && (!name[size] || name[size] == '/');
    if (snprintf(path, sizeof(path), "%s/%s", root, is_whole ? name + size : name) >=
        (int)sizeof(path))
        return error_set(err, ERROR_FORMAT, "-G: the name is too long");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(err, ERROR_NOT_FOUND,
                         "-G %.100s: there is no such control group below %s (/proc/PID/cgroup "
                         "tells the group of a process)",
                         name, root);
    return fd < 0 ? error_system(err, errno, "-G %.100s: the control group cannot be opened", name)
                  : fd;
}
