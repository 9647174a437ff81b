/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc says about processes, as the records that the kernel would have written. */
#include "record/synthesize.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/moved_text.h"
#include "base/other_file.h"
#include "base/proc.h"
#include "record/synthesize_internal.h"
#include "dso/elf_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CACHE_MAX = 1 << 15, /* files whose build id is remembered */
    LIST_MAX = 60000,    /* bytes of one list record */
};

/* ---- build ids ----------------------------------------------------------------------------- */

struct id_entry {
    uint64_t dev, ino;
    struct build_id id;
};

struct id_cache {
    VEC(struct id_entry) entries;
    struct hash_table table; /* of entries, by device and inode */
};

struct id_cache *id_cache_create(void)
{
    return calloc(1, sizeof(struct id_cache));
}

void id_cache_free(struct id_cache *c)
{
    if (!c)
        return;
    vec_free(&c->entries);
    hash_table_free(&c->table);
    free(c);
}

/* Read the build id of a mapped file; size 0: it has none. Returns false if the file cannot be read
 * through this process. A file that is gone from its place is kept: nobody finds it when the
 * process has ended. */
static bool build_id_read(const struct synthesis *s, const struct synth_map *m,
                          struct build_id *ret)
{
    const struct process_map map = {
        .start = m->start, .end = m->start + m->size, .inode = m->ino, .path = m->name};
    struct elf_image *image;
    struct error err;
    bool gone;
    *ret = (struct build_id){0};
    int fd = other_file_open_mapped((pid_t)m->pid, &map, &gone), again;
    if (fd < 0)
        return errno == ENOTSUP; /* (no ELF file) */
    again = gone && s->keep ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    bool read = elf_image_take(m->name, fd, &image, &err) == 0;
    if (read) {
        *ret = image->build_id;
        elf_image_free(image);
    }
    if (ret->size && again >= 0)
        s->keep(s->context, again, ret);
    if (again >= 0)
        close(again);
    return read || err.kind == ERROR_FORMAT; /* else no ELF file */
}

static struct build_id build_id_of_map(const struct synthesis *s, const struct synth_map *m)
{
    struct id_cache *c = s->cache;
    struct build_id id;
    uint64_t dev = (uint64_t)m->maj << 32 | m->min;
    if (!m->ino || m->name[0] != '/')
        return (struct build_id){0};
    uint64_t hash = hash_combine(hash_u64(dev), m->ino);
    uint32_t n = hash_table_find(&c->table, hash, i,
                                 c->entries.at[i].dev == dev && c->entries.at[i].ino == m->ino);
    if (n != HASH_TABLE_NONE)
        return c->entries.at[n].id;
    if (c->entries.nr >= CACHE_MAX)
        return (struct build_id){0};
    if (build_id_read(s, m, &id) && vec_push(&c->entries, (struct id_entry){dev, m->ino, id}) &&
        !hash_table_add(&c->table, hash, c->entries.nr - 1))
        c->entries.nr--;
    return id;
}

/* ---- records ------------------------------------------------------------------------------- */

int synthesize_put(const struct synthesis *s, struct perf_event_header *h, size_t size,
                   struct error *err)
{
    size = (size + 7) & ~(size_t)7;
    memset((char *)h + size, 0, SYNTH_TRAILER); /* time 0, cpu 0, no id: before everything */
    h->size = (uint16_t)(size + SYNTH_TRAILER);
    return s->put(s->context, h, h->size, err);
}

int synthesize_map(const struct synthesis *s, struct synth_map *m, struct error *err)
{
    struct {
        struct perf_record_mmap2 r;
        uint8_t trailer[SYNTH_TRAILER + 8];
    } out;
    struct perf_record_mmap2 *r = &out.r;
    size_t length = strnlen(m->name, PATH_MAX - 1);
    memset(r, 0, offsetof(struct perf_record_mmap2, filename));
    *r = (struct perf_record_mmap2){.header = {PERF_RECORD_MMAP2, m->misc, 0},
                                    .pid = m->pid,
                                    .tid = m->tid,
                                    .start = m->start,
                                    .len = m->size,
                                    .pgoff = m->offset,
                                    .maj = m->maj,
                                    .min = m->min,
                                    .ino = m->ino,
                                    .prot = m->prot,
                                    .flags = m->flags};
    if (m->build_id.size) {
        r->header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
        memset(&r->maj, 0,
               offsetof(struct perf_record_mmap2, prot) - offsetof(struct perf_record_mmap2, maj));
        r->build_id_size = m->build_id.size;
        memcpy(r->build_id, m->build_id.bytes, sizeof(r->build_id));
    }
    memset(r->filename, 0, (length + 8) & ~(size_t)7);
    memcpy(r->filename, m->name, length);
    return synthesize_put(s, &r->header, offsetof(struct perf_record_mmap2, filename) + length + 1,
                          err);
}

static struct synth_map map_of(pid_t pid, const struct process_map *m)
{
    const bool is_code = m->prot & PROT_EXEC;
    return (struct synth_map){.pid = (uint32_t)pid,
                              .tid = (uint32_t)pid,
                              .start = m->start,
                              .size = m->end - m->start,
                              .offset = m->pgoff,
                              .ino = m->inode,
                              .maj = m->major,
                              .min = m->minor,
                              .prot = m->prot,
                              .flags = m->shared ? MAP_SHARED : MAP_PRIVATE,
                              .misc = PERF_RECORD_MISC_USER |
                                      (is_code ? 0 : PERF_RECORD_MISC_MMAP_DATA),
                              .name = m->path[0] ? m->path : "//anon"};
}

/* `fd`: of /proc/PID/maps; closes it. */
static int synthesize_maps(const struct synthesis *s, pid_t pid, int fd, struct error *err)
{
    struct process_maps maps;
    struct error gone;
    int r = 0;
    if (process_maps_take(pid, fd, &maps, &gone) < 0)
        return 0;
    moved_text_restore(pid, &maps);
    for (size_t i = 0; i < maps.maps.nr && !r; i++) {
        struct synth_map m = map_of(pid, &maps.maps.at[i]);
        if (!(m.prot & PROT_EXEC) && !s->data_maps)
            continue;
        if (s->build_ids && s->cache)
            m.build_id = build_id_of_map(s, &m);
        r = synthesize_map(s, &m, err);
    }
    process_maps_free(&maps);
    return r;
}

/* ---- processes ----------------------------------------------------------------------------- */

static int put_comm(const struct synthesis *s, const struct proc_task *t, struct error *err)
{
    struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        char comm[16];
        uint8_t trailer[SYNTH_TRAILER];
    } r = {.header = {PERF_RECORD_COMM, PERF_RECORD_MISC_USER, 0},
           .pid = t->tgid,
           .tid = (uint32_t)t->tid};
    memcpy(r.comm, t->comm, sizeof(r.comm));
    return synthesize_put(s, &r.header, offsetof(__typeof__(r), comm) + strlen(t->comm) + 1, err);
}

int synthesize_comm(const struct synthesis *s, pid_t pid, struct error *err)
{
    struct proc_task t;
    return proc_task(pid, &t) ? put_comm(s, &t, err) : 0;
}

static int put_fork(const struct synthesis *s, const struct proc_task *t, struct error *err)
{
    struct {
        struct perf_event_header header;
        uint32_t pid, ppid, tid, ptid;
        uint64_t time;
        uint8_t trailer[SYNTH_TRAILER];
    } r = {.header = {PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC, 0},
           .pid = t->tgid,
           .tid = (uint32_t)t->tid};
    /* A process is created by its parent, a thread by its process. */
    r.ppid = r.ptid = (uint32_t)t->tid == t->tgid ? t->ppid : t->tgid;
    return synthesize_put(s, &r.header, offsetof(__typeof__(r), trailer), err);
}

static int put_task(const struct synthesis *s, const struct proc_task *t, struct error *err)
{
    return put_fork(s, t, err) < 0 || put_comm(s, t, err) < 0 ? -1 : 0;
}

/* Put the namespaces of a process, in the order of the kernel's records; zeros: not known. */
static int put_namespaces(const struct synthesis *s, pid_t pid, struct error *err)
{
    enum { NR = PROC_NAMESPACES };
    struct proc_place places[NR];
    struct {
        struct perf_event_header header;
        uint32_t pid, tid;
        uint64_t nr;
        struct {
            uint64_t dev, ino;
        } at[NR];
        uint8_t trailer[SYNTH_TRAILER];
    } r = {.header = {PERF_RECORD_NAMESPACES, 0, 0},
           .pid = (uint32_t)pid,
           .tid = (uint32_t)pid,
           .nr = NR};
    proc_namespaces(pid, places);
    for (size_t i = 0; i < NR; i++) {
        r.at[i].dev = places[i].dev;
        r.at[i].ino = places[i].ino;
    }
    return synthesize_put(s, &r.header, offsetof(__typeof__(r), trailer), err);
}

/* Put the threads of a process from this index on; the first one is put by itself. */
static int put_threads(const struct synthesis *s, struct proc_task *tasks, size_t nr, pid_t pid,
                       struct error *err)
{
    for (uint64_t from = 0; nr;) {
        for (size_t i = 0; i < nr; i++) {
            if (tasks[i].tid != pid && put_task(s, &tasks[i], err) < 0)
                return -1;
        }
        from += nr;
        nr = nr == PROC_TASKS_MAX ? proc_tasks(pid, from, tasks, PROC_TASKS_MAX, NULL) : 0;
    }
    return 0;
}

int synthesize_process(const struct synthesis *s, pid_t pid, struct error *err)
{
    struct proc_task tasks[PROC_TASKS_MAX];
    int maps;
    size_t nr = proc_tasks(pid, 0, tasks, PROC_TASKS_MAX, &maps);
    int r = nr && tasks[0].tid == pid ? put_task(s, &tasks[0], err) : 0;
    if (!r && s->namespaces)
        r = put_namespaces(s, pid, err);
    if (!r)
        r = synthesize_maps(s, pid, maps, err);
    else if (maps >= 0)
        close(maps);
    return r ? r : put_threads(s, tasks, nr, pid, err);
}

int synthesize_list(pid_vec *ret, struct error *err)
{
    DIR *dir = opendir("/proc");
    bool ok = true;
    if (!dir)
        return error_system(err, errno, "/proc cannot be read");
    for (struct dirent *d; ok && (d = readdir(dir));) {
        pid_t pid = atoi(d->d_name);
        ok = pid <= 0 || vec_push(ret, pid);
    }
    closedir(dir);
    return ok ? 0 : error_no_memory(err);
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Put a list of `nr` entries, in as many records as needed. */
static int put_list(const struct synthesis *s, uint32_t type, const uint8_t *entries, size_t nr,
                    size_t size, struct error *err)
{
    struct {
        struct perf_event_header header;
        uint64_t nr;
        uint8_t entries[LIST_MAX];
    } *r = malloc(sizeof(*r));
    int result = 0;
    if (!r)
        return error_no_memory(err);
    for (size_t at = 0; !result && at < nr; at += (size_t)r->nr) {
        r->nr = nr - at < LIST_MAX / size ? nr - at : LIST_MAX / size;
        size_t bytes = offsetof(__typeof__(*r), entries) + (size_t)r->nr * size;
        r->header = (struct perf_event_header){type, 0, (uint16_t)bytes};
        memcpy(r->entries, entries + at * size, (size_t)r->nr * size);
        result = s->put(s->context, r, bytes, err);
    }
    free(r);
    return result;
}

struct index_entry {
    uint64_t id, idx, cpu, tid;
};

static int put_id_index(const struct synthesis *s, const struct events *e, const pid_t *tids,
                        struct error *err)
{
    VEC(struct index_entry) all = {0};
    for (size_t i = 0; i < e->nr; i++)
        for (size_t j = 0; j < e->at[i].nr_fds; j++) {
            size_t ring = j / e->nr_tasks, task = j % e->nr_tasks;
            struct index_entry entry = {e->at[i].pub.ids[j], ring, (uint64_t)e->rings.at[ring].cpu,
                                        tids ? (uint64_t)tids[task] : UINT64_MAX};
            if (!vec_push(&all, entry)) {
                vec_free(&all);
                return error_no_memory(err);
            }
        }
    int r =
        put_list(s, PERF_RECORD_ID_INDEX, (const uint8_t *)all.at, all.nr, sizeof(*all.at), err);
    vec_free(&all);
    return r;
}

static int put_thread_map(const struct synthesis *s, const pid_t *tids, size_t nr_tids,
                          struct error *err)
{
    struct thread_entry {
        uint64_t pid;
        char comm[16];
    } *all = calloc(nr_tids + 1, sizeof(*all));
    if (!all)
        return error_no_memory(err);
    all[0].pid = UINT64_MAX;
    for (size_t i = 0; tids && i < nr_tids; i++) {
        struct proc_task t;
        all[i].pid = (uint64_t)tids[i];
        if (proc_task(tids[i], &t))
            memcpy(all[i].comm, t.comm, sizeof(t.comm));
    }
    int r = put_list(s, PERF_RECORD_THREAD_MAP, (const uint8_t *)all, tids ? nr_tids : 1,
                     sizeof(*all), err);
    free(all);
    return r;
}

/* Put the cpus as a list of numbers: type 0, count, u16 each. */
static int put_cpu_map(const struct synthesis *s, const struct events *e, struct error *err)
{
    size_t nr = e->rings.nr < LIST_MAX / 2 ? e->rings.nr : LIST_MAX / 2;
    size_t size = (sizeof(struct perf_event_header) + 4 + nr * 2 + 7) & ~(size_t)7;
    struct {
        struct perf_event_header header;
        uint16_t type, nr, cpus[];
    } *r = calloc(1, size);
    if (!r)
        return error_no_memory(err);
    r->header = (struct perf_event_header){PERF_RECORD_CPU_MAP, 0, (uint16_t)size};
    r->nr = (uint16_t)nr;
    for (size_t i = 0; i < nr; i++)
        r->cpus[i] = (uint16_t)e->rings.at[i].cpu;
    int result = s->put(s->context, r, size, err);
    free(r);
    return result;
}

int synthesize_lists(const struct synthesis *s, const struct events *e, const pid_t *tids,
                     size_t nr_tids, struct error *err)
{
    return put_id_index(s, e, tids, err) < 0 || put_thread_map(s, tids, nr_tids, err) < 0 ||
                   put_cpu_map(s, e, err) < 0
               ? -1
               : 0;
}
