/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/code_files.h"

#include "base/unnamed_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { FILE_MAX = 256 << 20, FILES_MAX = 4096 };

static struct code_file *find(const struct code_files *f, uint32_t pid, uint8_t kind)
{
    vec_foreach (file, &f->at) {
        if (file->pid == pid && file->kind == kind)
            return file;
    }
    return NULL;
}

static struct code_file *make(struct code_files *f, uint32_t pid, uint8_t kind, struct error *err)
{
    struct code_file file = {.pid = pid, .kind = kind, .fd = unnamed_file("ljperf-code")};
    if (file.fd < 0) {
        error_system(err, errno, "a temporary file for lists of code cannot be created");
        return NULL;
    }
    if (vec_push(&f->at, file))
        return &f->at.at[f->at.nr - 1];
    close(file.fd);
    error_no_memory(err);
    return NULL;
}

int code_files_add(struct code_files *f, uint32_t pid, const struct vmevent_entry *entry,
                   struct error *err)
{
    struct code_file *file = find(f, pid, entry->kind);
    if (!entry->bytes || entry->address > FILE_MAX || entry->length > FILE_MAX - entry->address ||
        (!file && f->at.nr == FILES_MAX))
        return 0;
    if (!file && !(file = make(f, pid, entry->kind, err)))
        return -1;
    if (pwrite(file->fd, entry->bytes, entry->length, (off_t)entry->address) !=
        (ssize_t)entry->length)
        return error_system(err, errno, "a temporary file for lists of code cannot be written");
    return 0;
}

void code_files_free(struct code_files *f)
{
    vec_foreach (file, &f->at)
        close(file->fd);
    vec_free(&f->at);
}

bool code_files_path(const struct code_files *f, uint32_t pid, uint8_t kind, char path[32])
{
    const struct code_file *file = find(f, pid, kind);
    if (file)
        snprintf(path, 32, "/proc/self/fd/%d", file->fd);
    return file != NULL;
}
