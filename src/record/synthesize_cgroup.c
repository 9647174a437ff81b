/* SPDX-License-Identifier: GPL-2.0-only */
/* The control groups that exist: their ids, which samples have, and their paths. */
#include "record/cgroup.h"
#include "record/synthesize_internal.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GROUPS_MAX = 1 << 15 }; /* groups that are told */

typedef VEC(char *) path_vec;

/* The id is the number of the folder's inode (cgroup_id() of the kernel, with 64 bits). */
static int put_group(const struct synthesis *s, const char *path, uint64_t id, struct error *err)
{
    struct {
        struct perf_event_header header;
        uint64_t id;
        char path[PATH_MAX];
        uint8_t trailer[SYNTH_TRAILER];
    } r = {.header = {PERF_RECORD_CGROUP, 0, 0}, .id = id};
    size_t size = strlen(path);
    if (size >= sizeof(r.path))
        return 0;
    memcpy(r.path, path, size + 1);
    return synthesize_put(s, &r.header, offsetof(__typeof__(r), path) + size + 1, err);
}

/* Append the groups in a group, by their paths below the root. */
static int list_inner(const char *folder, const char *path, path_vec *ret, struct error *err)
{
    DIR *dir = opendir(folder);
    int r = 0;
    for (struct dirent *d; !r && dir && ret->nr < GROUPS_MAX && (d = readdir(dir));) {
        char *inner;
        if (d->d_type != DT_DIR || *d->d_name == '.')
            continue;
        if (asprintf(&inner, "%s/%s", path, d->d_name) < 0)
            inner = NULL;
        if (!inner || !vec_push(ret, inner)) {
            free(inner);
            r = error_no_memory(err);
        }
    }
    if (dir)
        closedir(dir);
    return r;
}

/* Put the group at `path` ("" is the root), and list those in it. One that is gone is no error. */
static int put_one(const struct synthesis *s, const char *root, const char *path, path_vec *more,
                   struct error *err)
{
    char folder[PATH_MAX];
    struct stat st;
    if (snprintf(folder, sizeof(folder), "%s%s", root, path) >= (int)sizeof(folder) ||
        stat(folder, &st) < 0)
        return 0;
    if (put_group(s, *path ? path : "/", st.st_ino, err) < 0)
        return -1;
    return list_inner(folder, path, more, err);
}

int synthesize_cgroups(const struct synthesis *s, struct error *err)
{
    const char *root = cgroup_root();
    path_vec paths = {0};
    int r = root ? put_one(s, root, "", &paths, err) : 0;
    for (size_t i = 0; !r && i < paths.nr; i++)
        r = put_one(s, root, paths.at[i], &paths, err);
    vec_foreach (path, &paths)
        free(*path);
    vec_free(&paths);
    return r;
}
