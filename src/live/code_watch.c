/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/code_watch.h"

#include "base/moved_text.h"
#include "base/other_file.h"
#include "base/proc.h"
#include "base/table.h"
#include "base/text.h"
#include "live/lua_scan.h"
#include "session/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    POLL_NS = 200000000,  /* between two looks at all files */
    YOUNG_NS = 10000000,  /* before the first look for the files of a new process */
    FILE_MAX = 64 << 20,  /* bytes of one file that are kept */
    PROCESSES_MAX = 4096, /* that are watched; each holds up to two files open */
    OPEN_TRIES = 5,       /* to open a jitdump that is not at its place */
    TEXT_LOOKS = 5,       /* at most for text that a process moves: it does that when it starts */
    PROBLEMS_MAX = 5,     /* that are told one by one */
};

/* A process's perf map, or its jitdump. */
struct kept_file {
    int fd;           /* -1: not found yet */
    uint64_t written; /* bytes that the recording has */
    char *path;       /* as the process sees it; NULL: it is not known that there is one */
    bool refused;     /* it is another user's */
    unsigned tries;   /* to open it by its mapping */
};

enum { MAP, DUMP, FILES };
static const uint8_t kinds[FILES] = {[MAP] = VMENTRY_PERF_MAP, [DUMP] = VMENTRY_JITDUMP};
static const char *const kind_names[FILES] = {[MAP] = "perf map", [DUMP] = "jitdump"};

struct code_process {
    uint32_t pid;
    bool apart;     /* in namespaces, or below a root, of its own: written while it runs */
    unsigned looks; /* for moved text, which are left */
    uint64_t wait;  /* ns between the last two looks for files while the process is new */
    uint64_t due;   /* ns: the next such look */
    struct kept_file file[FILES];
};

struct code_watch {
    struct table processes; /* pid + 1 -> struct code_process */
    uint64_t polled;        /* ns: the last look at all processes */
    uint64_t polled_young;  /* ns: the last look at new ones */
    struct mem_writer writer;
    VEC(char *) problems;
    size_t told, more;  /* problems: of the list, and beyond it */
    unsigned unwatched; /* processes beyond PROCESSES_MAX */
    size_t kept;        /* files of which the recording has something */
    char last[160];
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
    for (int i = 0; i < FILES; i++) {
        if (p->file[i].fd >= 0)
            close(p->file[i].fd);
        free(p->file[i].path);
    }
    free(p);
}

void code_watch_free(struct code_watch *w)
{
    if (!w)
        return;
    vec_foreach (slot, &w->processes)
        process_free(slot->value);
    table_free(&w->processes);
    vec_foreach (line, &w->problems)
        free(*line);
    vec_free(&w->problems);
    free(w);
}

/* ---- finding ------------------------------------------------------------------------------- */

/* Note what is not kept: the end of the recording says it. (The process has chosen the path.) */
static void note_problem(struct code_watch *w, const struct code_process *p, int i, const char *why)
{
    struct text line = {0};
    if (w->problems.nr == PROBLEMS_MAX) {
        w->more++;
        return;
    }
    text_printf(&line, "the %s ", kind_names[i]);
    text_clean(&line, p->file[i].path);
    text_printf(&line, " of process %" PRIu32 " is not kept: %s%c", p->pid, why, 0);
    if (line.failed || !vec_push(&w->problems, line.at))
        text_free(&line);
}

const char *code_watch_problem(struct code_watch *w)
{
    if (w->told < w->problems.nr)
        return w->problems.at[w->told++];
    if (w->more) {
        snprintf(w->last, sizeof(w->last), "%zu other perf maps and jitdumps are not kept",
                 w->more);
        w->more = 0;
        return w->last;
    }
    if (!w->unwatched)
        return NULL;
    snprintf(w->last, sizeof(w->last),
             "%u processes are beyond the %d whose perf maps and jitdumps are kept", w->unwatched,
             PROCESSES_MAX);
    w->unwatched = 0;
    return w->last;
}

/* Open the jitdump that a process has mapped, and has deleted since. */
static int open_mapped(const struct code_process *p)
{
    struct process_maps maps;
    struct error ignored;
    int fd = -1;
    if (process_maps_read((pid_t)p->pid, &maps, &ignored) < 0)
        return -1;
    vec_foreach (map, &maps.maps)
        if (fd < 0 && session_announced_pid(map->path))
            fd = other_file_open_mapped((pid_t)p->pid, map, NULL);
    process_maps_free(&maps);
    return fd;
}

/* Open a file of a process, if it is the process's user's or root's: another user's would be a lie
 * about this process. */
static void open_file(const struct code_process *p, struct kept_file *file)
{
    struct stat st;
    struct proc_place process;
    if (!file->path || file->fd >= 0)
        return;
    int fd = other_file_open_in_root((pid_t)p->pid, file->path);
    if (fd < 0 && file == &p->file[DUMP] && file->tries++ < OPEN_TRIES)
        fd = open_mapped(p);
    if (fd < 0)
        return;
    bool known = fstat(fd, &st) == 0 && proc_place((pid_t)p->pid, "", &process);
    file->refused = known && st.st_uid != process.uid && st.st_uid != 0;
    if (known && !file->refused)
        file->fd = fd;
    else
        close(fd);
}

static void open_files(struct code_process *p)
{
    for (int i = 0; i < FILES; i++)
        open_file(p, &p->file[i]);
}

/* Returns false when memory is out. */
static bool name_file(struct kept_file *file, const char *path)
{
    if (!file->path)
        file->path = strdup(path);
    return file->path != NULL;
}

/* Name the perf map that the process may write, and the jitdump that it has mapped by now. Returns
 * false when memory is out. */
static bool name_files(struct code_process *p)
{
    char path[48];
    struct process_maps maps;
    struct error ignored;
    snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", proc_inner_pid(p->pid));
    bool ok = name_file(&p->file[MAP], path);
    if (!ok || process_maps_read((pid_t)p->pid, &maps, &ignored) < 0)
        return ok;
    vec_foreach (map, &maps.maps)
        if (session_announced_pid(map->path))
            ok = ok && name_file(&p->file[DUMP], map->path);
    process_maps_free(&maps);
    return ok;
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool is_full(const struct code_watch *w)
{
    const struct log_sink *sink = &w->writer.sink;
    return sink->full && sink->full(sink->context);
}

/* Write what the recording does not have of a file. */
static void write_rest(struct code_watch *w, struct code_process *p, int i)
{
    struct kept_file *file = &p->file[i];
    uint8_t bytes[16 << 10];
    ssize_t n;
    w->writer.pid = (pid_t)p->pid;
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
        w->kept += !file->written;
        file->written += (uint64_t)n;
    }
}

/* Is the file (if it was opened, the same file) still found where a reader of the recording looks
 * for it? */
static bool will_be_found(const struct kept_file *file)
{
    struct stat here, held;
    if (!file->path || !other_file_stat(file->path, &here))
        return false;
    return file->fd < 0 || (fstat(file->fd, &held) == 0 && here.st_ino == held.st_ino &&
                            here.st_dev == held.st_dev);
}

/* An address in an executable mapping of the same file; 0: there is none. */
static uint64_t find_like(const struct process_maps *maps, const struct process_map *m)
{
    vec_foreach (b, &maps->maps)
        if (process_map_same_file(b, m) && b->prot & PROT_EXEC && b->text != MOVED_TEXT_EQUAL)
            return b->start;
    return 0;
}

/* Write whose text a mapping is, or that it is no file's. A reader believes a later finding that it
 * is a file's. */
static void write_text(struct code_watch *w, pid_t pid, const struct process_maps *maps,
                       const struct process_map *m)
{
    struct vmentry_text text = {.end = m->end, .offset = VMENTRY_TEXT_OTHER};
    if (m->text == MOVED_TEXT_EQUAL) {
        text.like = find_like(maps, m);
        text.offset = m->pgoff;
    }
    const uint64_t now = mem_writer_now(&w->writer);
    const struct vmevent_entry entry = {.address = m->start,
                                        .length = sizeof(text),
                                        .kind = VMENTRY_TEXT,
                                        .before = now,
                                        .after = now,
                                        .bytes = (const uint8_t *)&text};
    w->writer.pid = pid;
    mem_writer_put(&w->writer, &entry);
}

/* Look for text that the process has moved. Some is moved later; and what is not equal to the file
 * may be in the middle of the move. */
static void look_for_text(struct code_watch *w, struct code_process *p)
{
    const pid_t pid = (pid_t)p->pid;
    struct process_maps maps;
    struct error ignored;
    if (!p->looks || is_full(w) || process_maps_read(pid, &maps, &ignored) < 0)
        return;
    p->looks--;
    moved_text_restore(pid, &maps);
    vec_foreach (m, &maps.maps)
        if (m->text != MOVED_TEXT_NONE)
            write_text(w, pid, &maps, m);
    process_maps_free(&maps);
}

/* Say what of a file is not in the recording, though it should be. */
static void check_kept(struct code_watch *w, const struct code_process *p, int i)
{
    const struct kept_file *file = &p->file[i];
    struct stat st;
    char why[96];
    if (file->refused) {
        note_problem(w, p, i, "it belongs to another user");
    } else if (file->fd < 0 && i == DUMP && file->path) {
        note_problem(w, p, i, "it could not be opened while the process lived");
    } else if (file->fd >= 0 && fstat(file->fd, &st) == 0 && (uint64_t)st.st_size > file->written) {
        snprintf(why, sizeof(why), "%s after %" PRIu64 " of its %" PRIu64 " bytes",
                 is_full(w) ? "the log was full" : "it was cut", file->written,
                 (uint64_t)st.st_size);
        note_problem(w, p, i, why);
    }
}

static void write_last(struct code_watch *w, struct code_process *p)
{
    for (int i = 0; i < FILES; i++) {
        if (!p->apart && will_be_found(&p->file[i]))
            continue;
        write_rest(w, p, i);
        check_kept(w, p, i);
    }
}

/* ---- processes ----------------------------------------------------------------------------- */

static struct code_process *find_process(const struct code_watch *w, pid_t pid)
{
    return table_get(&w->processes, (uint64_t)(uint32_t)pid + 1);
}

static struct code_process *process_create(pid_t pid)
{
    struct code_process *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->pid = (uint32_t)pid;
    p->apart =
        proc_is_apart(p->pid, "mnt") || proc_is_apart(p->pid, "pid") || proc_has_own_root(p->pid);
    for (int i = 0; i < FILES; i++)
        p->file[i].fd = -1;
    if (name_files(p)) {
        open_files(p);
        return p;
    }
    process_free(p);
    return NULL;
}

bool code_watch_would_keep(pid_t pid)
{
    struct code_process *p = process_create(pid);
    bool would = p && p->apart && (p->file[MAP].fd >= 0 || p->file[DUMP].fd >= 0);
    if (p)
        process_free(p);
    return would;
}

int code_watch_begin(struct code_watch *w, pid_t pid, struct error *err)
{
    if (find_process(w, pid))
        return 0;
    if (w->processes.nr >= PROCESSES_MAX) {
        w->unwatched++;
        return 0;
    }
    struct code_process *p = process_create(pid);
    if (!p || !table_put(&w->processes, (uint64_t)p->pid + 1, p)) {
        if (p)
            process_free(p);
        return error_no_memory(err);
    }
    p->looks = TEXT_LOOKS;
    p->wait = YOUNG_NS;
    p->due = mem_writer_now(&w->writer) + p->wait;
    look_for_text(w, p);
    return 0;
}

int code_watch_mapped(struct code_watch *w, pid_t pid, const char *name, struct error *err)
{
    if (!session_announced_pid(name))
        return 0;
    if (code_watch_begin(w, pid, err) < 0)
        return -1;
    struct code_process *p = find_process(w, pid);
    if (!p)
        return 0;
    if (!name_file(&p->file[DUMP], name))
        return error_no_memory(err);
    open_file(p, &p->file[DUMP]);
    return 0;
}

/* A process may end before the next look at all: a file that is open by then can still be read. A
 * new process is looked at soon, and then ever more seldom. */
static void open_files_of_young(struct code_watch *w, uint64_t now)
{
    if (now - w->polled_young < YOUNG_NS)
        return;
    w->polled_young = now;
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        if (p->wait >= POLL_NS || now < p->due)
            continue;
        mem_writer_looks(&w->writer, (pid_t)p->pid);
        open_files(p);
        p->wait *= 2;
        p->due = now + p->wait;
    }
}

int code_watch_poll(struct code_watch *w, struct error *err)
{
    uint64_t now = mem_writer_now(&w->writer);
    if (!w->processes.nr)
        return 0;
    open_files_of_young(w, now);
    if (now - w->polled < POLL_NS)
        return 0;
    w->polled = now;
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        mem_writer_looks(&w->writer, (pid_t)p->pid);
        open_files(p);
        for (int i = 0; i < FILES && p->apart; i++)
            write_rest(w, p, i);
        look_for_text(w, p);
        if (mem_writer_send(&w->writer, err) < 0)
            return -1;
    }
    return 0;
}

int code_watch_end(struct code_watch *w, pid_t pid, struct error *err)
{
    struct code_process *p = find_process(w, pid);
    if (!p)
        return 0;
    write_last(w, p);
    table_remove(&w->processes, (uint64_t)p->pid + 1);
    process_free(p);
    return mem_writer_send(&w->writer, err);
}

int code_watch_finish(struct code_watch *w, struct error *err)
{
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        mem_writer_looks(&w->writer, (pid_t)p->pid);
        open_files(p);
        write_last(w, p);
        if (mem_writer_send(&w->writer, err) < 0)
            return -1;
    }
    return 0;
}

size_t code_watch_kept(const struct code_watch *w)
{
    return w->kept;
}

void code_watch_rewrite(struct code_watch *w)
{
    vec_foreach (slot, &w->processes) {
        struct code_process *p = slot->value;
        for (int i = 0; i < FILES; i++)
            p->file[i].written = 0;
        p->looks = TEXT_LOOKS;
    }
}
