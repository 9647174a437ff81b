/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/code_watch.h"

#include "base/table.h"
#include "live/lua_scan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    POLL_NS = 200000000,  /* between two looks at all files */
    FILE_MAX = 64 << 20,  /* bytes of one file that are kept */
    PROCESSES_MAX = 4096, /* that are watched; each holds up to two files open */
    FILES = 2,
};

/* A process's perf map, or its jitdump. */
struct code_file {
    int fd;           /* -1: not found yet */
    uint64_t written; /* bytes that the recording has */
    char path[PATH_MAX];
};

struct code_process {
    pid_t pid;
    bool apart; /* in namespaces of its own: written while it runs */
    struct code_file file[FILES];
};

static const uint8_t kinds[FILES] = {VMENTRY_PERF_MAP, VMENTRY_JITDUMP};

struct code_watch {
    struct table processes; /* pid + 1 -> struct code_process */
    uint64_t polled;        /* ns: the last time */
    struct mem_writer writer;
};

struct code_watch *code_watch_create(const struct log_sink *sink)
{
    struct code_watch *w = calloc(1, sizeof(*w));
    if (w)
        w->writer.sink = *sink;
    return w;
}

static void process_free(struct code_process *p)
{
    for (int i = 0; i < FILES; i++)
        if (p->file[i].fd >= 0)
            close(p->file[i].fd);
    free(p);
}

void code_watch_free(struct code_watch *w)
{
    if (!w)
        return;
    vec_foreach (slot, &w->processes)
        process_free(slot->value);
    table_free(&w->processes);
    free(w);
}

/* ---- finding ------------------------------------------------------------------------------- */

static bool is_other_namespace(pid_t pid, const char *which)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, which);
    if (stat(path, &theirs) < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/ns/%s", which);
    return stat(path, &ours) == 0 && theirs.st_ino != ours.st_ino;
}

/* Returns the pid in the process's own namespace. */
static unsigned inner_pid(pid_t pid)
{
    char path[64], line[256];
    unsigned ret = (unsigned)pid;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last)
            ret = (unsigned)strtoul(last, NULL, 10);
    }
    if (f)
        fclose(f);
    return ret;
}

/* Open the file that the process has at file->path, if it is a plain one, and the process's user's
 * or root's: another user's would be a lie about this process. */
static void open_file(const struct code_process *p, struct code_file *file)
{
    char path[64];
    struct stat st, of;
    snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
    int fd = open(file->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && stat(path, &of) == 0 &&
        (st.st_uid == of.st_uid || st.st_uid == 0))
        file->fd = fd;
    else
        close(fd);
}

/* Is it the name of a jitdump, ".../jit-PID.dump"? */
static bool is_dump(const char *path)
{
    const char *name = strrchr(path, '/');
    unsigned pid;
    int used = 0;
    return name && sscanf(name, "/jit-%u.dump%n", &pid, &used) == 1 && used && !name[used];
}

static void find_dump(struct code_process *p)
{
    struct process_maps maps;
    struct error ignored;
    struct code_file *file = &p->file[1];
    if (process_maps_read(p->pid, &maps, &ignored) < 0)
        return;
    vec_foreach (map, &maps.maps) {
        if (!is_dump(map->path))
            continue;
        int n = snprintf(file->path, sizeof(file->path), "/proc/%d/root%s", (int)p->pid, map->path);
        if (n > 0 && (size_t)n < sizeof(file->path))
            open_file(p, file);
        break;
    }
    process_maps_free(&maps);
}

static void find_files(struct code_process *p)
{
    struct code_file *map = &p->file[0];
    if (map->fd < 0) {
        snprintf(map->path, sizeof(map->path), "/proc/%d/root/tmp/perf-%u.map", (int)p->pid,
                 inner_pid(p->pid));
        open_file(p, map);
    }
    if (p->file[1].fd < 0)
        find_dump(p);
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool is_full(const struct code_watch *w)
{
    const struct log_sink *sink = &w->writer.sink;
    return sink->full && sink->full(sink->context);
}

/* Write what the recording does not have of a file. */
static void write_rest(struct code_watch *w, const struct code_process *p, int i)
{
    struct code_file *file = &((struct code_process *)(uintptr_t)p)->file[i];
    uint8_t bytes[16 << 10];
    ssize_t n;
    w->writer.pid = p->pid;
    while (file->fd >= 0 && file->written < FILE_MAX && !is_full(w) &&
           (n = pread(file->fd, bytes, sizeof(bytes), (off_t)file->written)) > 0) {
        uint64_t now = mem_writer_now(&w->writer);
        const struct vmevent_entry entry = {.address = file->written,
                                            .length = (uint32_t)n,
                                            .kind = kinds[i],
                                            .before = now,
                                            .after = now,
                                            .bytes = bytes};
        mem_writer_put(&w->writer, &entry);
        file->written += (uint64_t)n;
    }
}

/* Is the file still found where a reader of the recording looks for it? */
static bool will_be_found(const struct code_file *file)
{
    struct stat here, held;
    const char *path = strstr(file->path, "/root/");
    return path && fstat(file->fd, &held) == 0 && stat(path + strlen("/root"), &here) == 0 &&
           here.st_ino == held.st_ino && here.st_dev == held.st_dev;
}

static void write_last(struct code_watch *w, const struct code_process *p)
{
    for (int i = 0; i < FILES; i++)
        if (p->file[i].fd >= 0 && (p->apart || !will_be_found(&p->file[i])))
            write_rest(w, p, i);
}

/* ---- processes ----------------------------------------------------------------------------- */

int code_watch_begin(struct code_watch *w, pid_t pid, struct error *err)
{
    uint64_t key = (uint64_t)(uint32_t)pid + 1;
    struct code_process *p = table_get(&w->processes, key);
    if (p || w->processes.nr >= PROCESSES_MAX)
        return 0;
    p = calloc(1, sizeof(*p));
    if (!p)
        return error_no_memory(err);
    p->pid = pid;
    p->apart = is_other_namespace(pid, "mnt") || is_other_namespace(pid, "pid");
    for (int i = 0; i < FILES; i++)
        p->file[i].fd = -1;
    if (!table_put(&w->processes, key, p)) {
        process_free(p);
        return error_no_memory(err);
    }
    find_files(p);
    return 0;
}

int code_watch_poll(struct code_watch *w, struct error *err)
{
    uint64_t now = mem_writer_now(&w->writer);
    if (!w->processes.nr || now - w->polled < POLL_NS)
        return 0;
    w->polled = now;
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        find_files(p);
        for (int i = 0; i < FILES && p->apart; i++)
            write_rest(w, p, i);
        if (mem_writer_send(&w->writer, err) < 0)
            return -1;
    }
    return 0;
}

int code_watch_end(struct code_watch *w, pid_t pid, struct error *err)
{
    uint64_t key = (uint64_t)(uint32_t)pid + 1;
    struct code_process *p = table_get(&w->processes, key);
    if (!p)
        return 0;
    write_last(w, p);
    table_remove(&w->processes, key);
    process_free(p);
    return mem_writer_send(&w->writer, err);
}

int code_watch_finish(struct code_watch *w, struct error *err)
{
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        find_files(p);
        write_last(w, p);
        if (mem_writer_send(&w->writer, err) < 0)
            return -1;
    }
    return 0;
}

void code_watch_rewrite(struct code_watch *w)
{
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        for (int i = 0; i < FILES; i++)
            p->file[i].written = 0;
    }
}
