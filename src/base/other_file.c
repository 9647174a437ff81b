/* SPDX-License-Identifier: GPL-2.0-only */
/* Opens files that others own. See other_file.h. */
#include "base/other_file.h"

#include "base/broker.h"
#include "base/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- by a broker ---------------------------------------------------------------------------- */

/* Ask to open a file of a path. */
static int ask_open(enum broker_what what, pid_t pid, const char *path)
{
    struct broker_request q = {.what = what, .pid = pid};
    struct broker_answer a;
    return broker_ask(&q, path, &a);
}

/* The same for stat(). */
static bool ask_stat(enum broker_what what, pid_t pid, const char *path, struct stat *ret)
{
    struct broker_request q = {.what = what, .pid = pid};
    struct broker_answer a;
    (void)broker_ask(&q, path, &a);
    if (a.why == 0)
        *ret = a.of.st;
    return a.why == 0;
}

static int ask_mapped(pid_t pid, const struct process_map *map, bool *gone)
{
    struct broker_request q = {.what = BROKER_MAPPED,
                               .pid = pid,
                               .start = map->start,
                               .end = map->end,
                               .inode = map->inode};
    struct broker_answer a;
    int fd = broker_ask(&q, map->path, &a);
    if (gone)
        *gone = fd < 0 || a.gone;
    return fd;
}

/* ---- by ourselves --------------------------------------------------------------------------- */

enum { OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

/* Open the path once more, if it still leads to the same file. */
static int open_same(const char *path, const struct stat *st)
{
    struct stat now;
    int fd = open(path, OPEN_FLAGS);
    if (fd < 0 || (fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino))
        return fd;
    close(fd);
    errno = ENOENT;
    return -1;
}

/* A descriptor of O_PATH, whose file system then was asked for nothing yet if all of the path is
 * known to the kernel (RESOLVE_CACHED: Linux 5.12). Else the mount that the path leads to by its
 * name must not be a stranger's. */
static int find(int folder, pid_t pid, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags, .resolve = resolve};
    how.resolve |= RESOLVE_CACHED;
    int place = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
    if (place >= 0 || (errno != EAGAIN && errno != EINVAL))
        return place;
    if (path[0] == '/' && mounts_path_is_strangers(pid, path)) {
        errno = ENOTSUP;
        return -1;
    }
    how.resolve = resolve;
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof(how));
}

/* The same for a path as we see it. */
static int find_here(const char *path, uint64_t flags)
{
    int place = find(AT_FDCWD, 0, path, flags, 0);
    return place < 0 && errno == ENOSYS ? open(path, O_PATH | O_CLOEXEC | (int)flags) : place;
}

/* What `place` (O_PATH) is, if that can be said without asking a stranger. */
static bool look_at(int place, pid_t pid, struct stat *ret)
{
    struct statx st;
    if (statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
        return false;
    errno = ENOTSUP;
    return !mounts_is_strangers(pid, st.stx_dev_major, st.stx_dev_minor) && fstat(place, ret) == 0;
}

/* Open for reading what `place` (O_PATH) is, if it is a regular file. A descriptor of O_PATH is not
 * open: not even a device or a FIFO notices it. `pid`: who sees it at its place (0: we). `path`:
 * where it was found, for a root without /proc. Closes `place`. */
static int reopen(int place, pid_t pid, const char *path)
{
    char link[32];
    struct stat st;
    int fd = -1, why = 0;
    if (place < 0)
        return -1;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
    if (!look_at(place, pid, &st) || !S_ISREG(st.st_mode))
        why = ENOTSUP;
    else if ((fd = open(link, OPEN_FLAGS)) < 0 && (errno != ENOENT || !path))
        why = errno;
    else if (fd < 0 && (fd = open_same(path, &st)) < 0)
        why = errno;
    close(place);
    errno = why;
    return fd;
}

int other_file_open(const char *path)
{
    if (broker_is_there())
        return ask_open(BROKER_FILE, 0, path);
    return reopen(find_here(path, 0), 0, path);
}

/* stat() of what `place` is (-1: nothing). Closes it. */
static bool stat_of(int place, pid_t pid, struct stat *ret)
{
    bool is = place >= 0 && look_at(place, pid, ret);
    if (place >= 0)
        close(place);
    return is;
}

bool other_file_stat(const char *path, struct stat *ret)
{
    if (broker_is_there())
        return ask_stat(BROKER_STAT, 0, path, ret);
    return stat_of(find_here(path, 0), 0, ret);
}

int other_file_open_shared(const char *path)
{
    struct stat link, file;
    if (broker_is_there())
        return ask_open(BROKER_SHARED, 0, path);
    int place = find_here(path, O_NOFOLLOW);
    if (place < 0 || !look_at(place, 0, &link) || !S_ISLNK(link.st_mode))
        return reopen(place, 0, path);
    close(place);
    int fd = other_file_open(path);
    if (fd < 0 || (fstat(fd, &file) == 0 && file.st_uid == link.st_uid))
        return fd;
    close(fd);
    errno = ENOTSUP;
    return -1;
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

/* Returns a descriptor of O_PATH. */
static int find_in_root(pid_t pid, const char *path)
{
    enum { RESOLVE = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    char at[64];
    snprintf(at, sizeof(at), "/proc/%d/root", (int)pid);
    int root = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    int place = find(root, pid, path, O_NOFOLLOW, RESOLVE);
    const size_t length = place < 0 ? behind_root(at, path) : 0;
    if (length)
        place = find(root, pid, path + length, O_NOFOLLOW, RESOLVE);
    int why = errno;
    close(root);
    errno = why;
    return place;
}

int other_file_open_in_root(pid_t pid, const char *path)
{
    if (broker_is_there())
        return ask_open(BROKER_IN_ROOT, pid, path);
    return reopen(find_in_root(pid, path), pid, NULL);
}

bool other_file_stat_in_root(pid_t pid, const char *path, struct stat *ret)
{
    if (broker_is_there())
        return ask_stat(BROKER_STAT_IN_ROOT, pid, path, ret);
    return stat_of(find_in_root(pid, path), pid, ret);
}

/* Returns `fd` if it is the file of that inode, else -1. Devices are not compared: overlayfs and
 * btrfs tell others in /proc/PID/maps than in stat(). */
static int only_inode(int fd, uint64_t inode)
{
    struct stat st;
    if (fd < 0 || (fstat(fd, &st) == 0 && st.st_ino == inode))
        return fd;
    close(fd);
    errno = ENOENT;
    return -1;
}

static int open_link(pid_t pid, const char *link, uint64_t inode)
{
    char path[96];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, link);
    return only_inode(reopen(open(path, O_PATH | O_CLOEXEC), pid, NULL), inode);
}

/* Open it by its path: in the process's root, or, where we may not look into that, in ours. */
static int open_by_path(pid_t pid, const struct process_map *map)
{
    int fd = only_inode(other_file_open_in_root(pid, map->path), map->inode);
    return fd >= 0 ? fd : only_inode(other_file_open(map->path), map->inode);
}

int other_file_open_mapped(pid_t pid, const struct process_map *map, bool *gone)
{
    char link[64];
    if (broker_is_there())
        return ask_mapped(pid, map, gone);
    int fd = map->path[0] == '/' ? open_by_path(pid, map) : -1;
    if (gone)
        *gone = fd < 0;
    if (fd >= 0)
        return fd;
    fd = open_link(pid, "exe", map->inode);
    if (fd >= 0)
        return fd;
    snprintf(link, sizeof(link), "map_files/%" PRIx64 "-%" PRIx64, map->start, map->end);
    return open_link(pid, link, map->inode);
}
