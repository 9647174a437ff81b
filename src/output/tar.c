/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/tar.h"

#include "base/archive_library.h"
#include "base/other_file.h"
#include "base/private_file.h"
#include "base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tar {
    struct archive_library lib;
    struct archive *archive;
    struct archive_entry *entry;
    const char *path;
    int fd;
    bool is_path; /* `path` is a file, not standard output */
};

static const struct {
    const char *ending, *function; /* libarchive's function that adds the filter */
} filters[] = {
    {".tar.zst", "archive_write_add_filter_zstd"}, {".tzst", "archive_write_add_filter_zstd"},
    {".tar.gz", "archive_write_add_filter_gzip"},  {".tgz", "archive_write_add_filter_gzip"},
    {".tar.xz", "archive_write_add_filter_xz"},    {".tar", "archive_write_add_filter_none"},
};

static int failed(const struct tar *t, struct error *err)
{
    return error_set(err, ERROR_SYSTEM, "%s: it cannot be written: %s", t->path,
                     t->lib.archive_error_string(t->archive)
                         ? t->lib.archive_error_string(t->archive)
                         : strerror(errno));
}

static int add_filter(struct tar *t, const char *path, struct error *err)
{
    size_t size = strlen(path);
    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
        size_t n = strlen(filters[i].ending);
        if (size > n && strcmp(path + size - n, filters[i].ending) == 0) {
            int (*add)(struct archive *);
            *(void **)&add = dlsym(t->lib.handle, filters[i].function);
            return add && add(t->archive) == ARCHIVE_OK
                       ? 0
                       : error_set(err, ERROR_UNSUPPORTED, "%s: libarchive cannot write %s", path,
                                   filters[i].ending);
        }
    }
    return error_set(err, ERROR_UNSUPPORTED,
                     "%s: the name must end in .tar.zst, .tar.gz, .tgz, .tar.xz or .tar", path);
}

int tar_create(const char *path, struct tar **ret, struct error *err)
{
    struct tar *t = calloc(1, sizeof(*t));
    if (!t)
        return error_no_memory(err);
    *t = (struct tar){.path = path ? path : "standard output", .fd = -1, .is_path = path};
    if (archive_library_load(&t->lib, err) < 0) {
        tar_free(t);
        return -1;
    }
    t->archive = t->lib.archive_write_new();
    t->entry = t->lib.archive_entry_new();
    if (!t->archive || !t->entry) {
        tar_free(t);
        return error_no_memory(err);
    }
    if (add_filter(t, path ? path : "-.tar.zst", err) < 0) {
        tar_free(t);
        return -1;
    }
    t->lib.archive_write_set_format_pax_restricted(t->archive);
    t->fd = path ? private_file_create(path) : dup(STDOUT_FILENO);
    if (t->fd < 0 || t->lib.archive_write_open_fd(t->archive, t->fd) != ARCHIVE_OK) {
        failed(t, err);
        tar_free(t);
        return -1;
    }
    *ret = t;
    return 0;
}

void tar_free(struct tar *t)
{
    struct stat st;
    if (t->fd >= 0 && t->is_path && fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode))
        unlink(t->path);
    if (t->archive) {
        t->lib.archive_write_fail(t->archive);
        t->lib.archive_write_free(t->archive);
    }
    if (t->entry)
        t->lib.archive_entry_free(t->entry);
    if (t->fd >= 0)
        close(t->fd);
    archive_library_close(&t->lib);
    free(t);
}

int tar_close(struct tar *t, struct error *err)
{
    int ret = t->lib.archive_write_close(t->archive) == ARCHIVE_OK ? 0 : failed(t, err);
    if (close(t->fd) < 0 && !ret)
        ret = error_system(err, errno, "%s: it cannot be written", t->path);
    t->fd = -1; /* so that tar_free() does not remove the file */
    tar_free(t);
    return ret;
}

static int begin(struct tar *t, const char *name, uint64_t size, struct error *err)
{
    t->lib.archive_entry_clear(t->entry);
    t->lib.archive_entry_set_pathname(t->entry, name);
    t->lib.archive_entry_set_size(t->entry, (int64_t)size);
    t->lib.archive_entry_set_filetype(t->entry, AE_IFREG);
    t->lib.archive_entry_set_perm(t->entry, 0644);
    t->lib.archive_entry_set_mtime(t->entry, time(NULL), 0);
    return t->lib.archive_write_header(t->archive, t->entry) == ARCHIVE_OK ? 0 : failed(t, err);
}

static int put(struct tar *t, const void *bytes, size_t size, struct error *err)
{
    const char *at = bytes;
    while (size) {
        ssize_t n = t->lib.archive_write_data(t->archive, at, size);
        if (n <= 0)
            return failed(t, err);
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

int tar_add(struct tar *t, const char *name, const void *bytes, size_t size, struct error *err)
{
    return begin(t, name, size, err) < 0 || put(t, bytes, size, err) < 0 ? -1 : 0;
}

enum { CHUNK = 256 << 10 };

/* Add the bytes of a file of known size. If it has become shorter, the rest is zeros, as in tar. */
static int put_file(struct tar *t, int fd, uint64_t size, struct error *err)
{
    char *chunk = calloc(1, CHUNK);
    int ret = chunk ? 0 : error_no_memory(err);
    bool at_end = false;
    while (chunk && size && !ret) {
        size_t want = size < CHUNK ? (size_t)size : CHUNK;
        ssize_t n = at_end ? 0 : read(fd, chunk, want);
        if (n < 0)
            ret = error_system(err, errno, "cannot read");
        at_end |= n == 0;
        if (at_end && !ret) {
            memset(chunk, 0, want);
            n = (ssize_t)want;
        }
        if (!ret)
            ret = put(t, chunk, (size_t)n, err);
        size -= ret ? 0 : (uint64_t)n;
    }
    free(chunk);
    return ret;
}

/* Files in /proc do not state their size. */
static int add_unsized(struct tar *t, const char *name, int fd, uint64_t *ret_size,
                       struct error *err)
{
    struct text all = {0};
    ssize_t n = 1;
    while (n > 0 && text_room(&all, CHUNK))
        if ((n = read(fd, all.at + all.size, CHUNK)) > 0)
            all.size += (size_t)n;
    int ret = all.failed ? error_no_memory(err)
              : n < 0    ? error_system(err, errno, "cannot read")
                         : tar_add(t, name, all.at, all.size, err);
    *ret_size = all.size;
    text_free(&all);
    return ret;
}

int tar_add_open(struct tar *t, const char *name, int fd, uint64_t *ret_size, struct error *err)
{
    struct stat st;
    uint64_t size = 0;
    int ret;
    if (fstat(fd, &st) < 0)
        return error_system(err, errno, "%s", name);
    if (st.st_size) {
        size = (uint64_t)st.st_size;
        ret = begin(t, name, size, err) < 0 ? -1 : put_file(t, fd, size, err);
    } else {
        ret = add_unsized(t, name, fd, &size, err);
    }
    if (ret_size)
        *ret_size = size;
    return ret;
}

int tar_add_file(struct tar *t, const char *name, const char *path, uint64_t *ret_size,
                 struct error *err)
{
    int fd = other_file_open(path);
    if (fd < 0 && errno == ENOTSUP)
        return error_set(err, ERROR_UNSUPPORTED, "%s: this is not a regular file", path);
    if (fd < 0)
        return error_system(err, errno, "%s", path);
    int ret = tar_add_open(t, name, fd, ret_size, err);
    close(fd);
    return ret;
}
