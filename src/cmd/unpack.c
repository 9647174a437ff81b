/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * See unpack.h. libarchive is loaded only when it is needed, as in output/tar.c. The folder is new
 * and ours, and only folders and regular files are made in it: so no name in the tar leads out of
 * it that has no "..".
 */
#include "cmd/unpack.h"
#include "base/archive_library.h"
#include "base/private_file.h"
#include "base/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 512, BLOCK = 256 << 10, MEMBERS_MAX = 1 << 20 };
static const uint64_t UNPACKED_MAX = UINT64_C(256) << 30;

struct unpacked {
    struct archive_library lib;
    struct archive *archive;
    const char *path; /* of the packed file, for errors */
    struct temporary_folder *folder;
    char *recording; /* NULL: not found yet */
    bool is_tar;
    uint64_t bytes, members;
};

static bool begins(const uint8_t *head, size_t size, size_t at, const char *magic, size_t length)
{
    return size >= at + length && memcmp(head + at, magic, length) == 0;
}

static bool begins_as_recording(const uint8_t *head, size_t size)
{
    return begins(head, size, 0, "PERFILE2", 8) || begins(head, size, 0, "2ELIFREP", 8);
}

static bool begins_as_packed(const uint8_t *head, size_t size)
{
    return begins(head, size, 0, "\x1f\x8b", 2) || begins(head, size, 0, "\x28\xb5\x2f\xfd", 4) ||
           begins(head, size, 0,
                  "\xfd"
                  "7zXZ",
                  5) ||
           begins(head, size, 0, "BZh", 3) || begins(head, size, 257, "ustar", 5);
}

/* The first bytes of a regular file; 0: there is none. */
static size_t read_head(const char *path, uint8_t head[HEAD])
{
    struct stat st;
    int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                 : -1;
    ssize_t n = fd < 0 ? 0 : read(fd, head, HEAD);
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

static int damaged(const struct unpacked *u, struct error *err)
{
    const char *why = u->lib.archive_error_string(u->archive);
    return error_set(err, ERROR_FORMAT, "%s: it cannot be unpacked: %s", u->path,
                     why ? why : "it is damaged");
}

/* ---- members ------------------------------------------------------------------------------- */

/* Copy the bytes of the current member. *is_recording: they begin as a recording does. */
static int copy_member(struct unpacked *u, int to, bool *is_recording, struct error *err)
{
    uint8_t *block = malloc(BLOCK);
    bool first = true;
    int failed = block ? 0 : error_no_memory(err);
    while (!failed) {
        la_ssize_t n = u->lib.archive_read_data(u->archive, block, BLOCK);
        if (n < 0)
            failed = damaged(u, err);
        if (n <= 0)
            break;
        if (first)
            *is_recording = begins_as_recording(block, (size_t)n);
        first = false;
        u->bytes += (uint64_t)n;
        if (u->bytes > UNPACKED_MAX)
            failed = error_set(err, ERROR_UNSUPPORTED, "%s: unpacked, it has more than %u GiB",
                               u->path, (unsigned)(UNPACKED_MAX >> 30));
        else if (file_write_all(to, block, (size_t)n) < 0)
            failed = error_system(err, errno,
                                  "%s: it cannot be unpacked into %s (TMPDIR may name "
                                  "another place)",
                                  u->path, temporary_folder_path(u->folder));
    }
    free(block);
    return failed;
}

/* Take the current member, if it is a file. */
static int take_member(struct unpacked *u, struct archive_entry *entry, struct error *err)
{
    const char *name = u->is_tar ? u->lib.archive_entry_pathname(entry) : "perf.data";
    bool is_recording = false;
    if (++u->members > MEMBERS_MAX)
        return error_set(err, ERROR_UNSUPPORTED, "%s: it has more than %d members", u->path,
                         MEMBERS_MAX);
    if (u->is_tar && (!name || u->lib.archive_entry_filetype(entry) != AE_IFREG ||
                      u->lib.archive_entry_hardlink(entry)))
        return 0;
    if (strncmp(name, "./", 2) == 0)
        name += 2;
    int fd = temporary_folder_create(u->folder, name);
    if (fd < 0 && (errno == EEXIST || errno == EINVAL || errno == ENOTDIR || errno == EISDIR))
        return 0; /* twice, or a name that no archive of ours has */
    if (fd < 0)
        return error_system(err, errno, "%s: %.200s cannot be unpacked", u->path, name);
    int failed = copy_member(u, fd, &is_recording, err);
    close(fd);
    if (failed || u->recording || (u->is_tar && (!is_recording || strchr(name, '/'))))
        return failed;
    return asprintf(&u->recording, "%s/%s", temporary_folder_path(u->folder), name) < 0
               ? error_no_memory(err)
               : 0;
}

static int take_all(struct unpacked *u, int fd, struct error *err)
{
    struct archive_library *lib = &u->lib;
    struct archive_entry *entry;
    /* Not all filters: some run other programs. */
    lib->archive_read_support_filter_gzip(u->archive);
    lib->archive_read_support_filter_bzip2(u->archive);
    lib->archive_read_support_filter_xz(u->archive);
    lib->archive_read_support_filter_zstd(u->archive);
    lib->archive_read_support_format_raw(u->archive);
    lib->archive_read_support_format_tar(u->archive);
    if (lib->archive_read_open_fd(u->archive, fd, BLOCK) != ARCHIVE_OK)
        return damaged(u, err);
    for (;;) {
        int r = lib->archive_read_next_header(u->archive, &entry);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            return damaged(u, err);
        u->is_tar =
            (lib->archive_format(u->archive) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
        if (take_member(u, entry, err) < 0)
            return -1;
    }
    if (u->recording)
        return 0;
    return error_set(
        err, ERROR_NOT_FOUND,
        "%s: no recording is in it (ljperf archive --all puts it there); unpack it, and "
        "give its folder with --symfs",
        u->path);
}

/* ---- the interface ------------------------------------------------------------------------- */

static int open_and_take(struct unpacked *u, int fd, struct error *err)
{
    if (archive_library_load(&u->lib, err) < 0)
        return -1;
    u->archive = u->lib.archive_read_new();
    if (!u->archive)
        return error_no_memory(err);
    u->folder = temporary_folder_make();
    if (!u->folder)
        return error_system(err, errno,
                            "%s: a folder to unpack it cannot be made (TMPDIR may name another "
                            "place)",
                            u->path);
    return take_all(u, fd, err);
}

int unpack(const char *path, struct unpacked **ret, struct error *err)
{
    uint8_t head[HEAD];
    *ret = NULL;
    if (!begins_as_packed(head, read_head(path, head)))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    struct unpacked *u = calloc(1, sizeof(*u));
    if (u)
        u->path = path;
    int failed = u ? open_and_take(u, fd, err) : error_no_memory(err);
    close(fd);
    if (u && u->archive)
        u->lib.archive_read_free(u->archive);
    if (u)
        u->archive = NULL;
    if (failed)
        unpacked_free(u);
    else
        *ret = u;
    return failed ? -1 : 0;
}

void unpacked_free(struct unpacked *u)
{
    if (!u)
        return;
    temporary_folder_free(u->folder);
    archive_library_close(&u->lib);
    free(u->recording);
    free(u);
}

bool looks_like_recording(const char *path)
{
    uint8_t head[HEAD];
    size_t size = read_head(path, head);
    return begins_as_recording(head, size) || begins_as_packed(head, size);
}

const char *unpacked_recording(const struct unpacked *u)
{
    return u->recording;
}

const char *unpacked_root(const struct unpacked *u)
{
    return u->is_tar ? temporary_folder_path(u->folder) : NULL;
}
