/* SPDX-License-Identifier: GPL-2.0-only */
/* See temporary_folder.h. */
#include "base/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRIVATE_FILE = 0600, PRIVATE_FOLDER = 0700, WALK_FDS = 16 };

struct temporary_folder {
    char *path;
    int fd;
    int alive; /* the end of a pipe whose other end the child waits at */
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);
}

/* The child: wait until nobody holds the other end of the pipe, and remove the folder. It keeps no
 * other descriptor, because who reads our output waits for its end. */
static void wait_and_remove(const char *path, int wait_at)
{
    char byte;
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (dup2(wait_at, STDIN_FILENO) < 0)
        _exit(1);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    (void)close_range(STDERR_FILENO + 1, UINT_MAX, 0); /* since Linux 5.9 */
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    remove_tree(path);
    _exit(0);
}

static int start_child(struct temporary_folder *f)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        wait_and_remove(f->path, ends[0]);
    }
    close(ends[0]);
    f->alive = ends[1];
    return pid < 0 ? -1 : 0;
}

struct temporary_folder *temporary_folder_make(void)
{
    const char *dir = getenv("TMPDIR");
    struct temporary_folder *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->fd = f->alive = -1;
    if (asprintf(&f->path, "%s/ljperf-XXXXXX", dir && *dir == '/' ? dir : "/var/tmp") < 0)
        f->path = NULL;
    if (!f->path || !mkdtemp(f->path)) {
        free(f->path);
        free(f);
        return NULL;
    }
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0 || start_child(f) < 0) {
        int why = errno;
        temporary_folder_free(f);
        errno = why;
        return NULL;
    }
    return f;
}

void temporary_folder_free(struct temporary_folder *f)
{
    if (!f)
        return;
    remove_tree(f->path);
    if (f->fd >= 0)
        close(f->fd);
    if (f->alive >= 0)
        close(f->alive);
    free(f->path);
    free(f);
}

const char *temporary_folder_path(const struct temporary_folder *f)
{
    return f->path;
}

/* Whether each part between slashes is a name. */
static bool is_plain_path(const char *name)
{
    for (const char *part = name;; part++) {
        size_t size = strcspn(part, "/");
        if (!size || (size <= 2 && strncmp(part, "..", size) == 0))
            return false;
        part += size;
        if (!*part)
            return true;
    }
}

int temporary_folder_create(const struct temporary_folder *f, const char *name)
{
    if (!is_plain_path(name)) {
        errno = EINVAL;
        return -1;
    }
    char *path = strdup(name);
    if (!path)
        return -1;
    for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        (void)mkdirat(f->fd, path, PRIVATE_FOLDER); /* else it is there, or openat() fails */
    }
    int fd =
        openat(f->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, PRIVATE_FILE);
    int why = errno;
    free(path);
    errno = why;
    return fd;
}
