/* SPDX-License-Identifier: GPL-2.0-only */
/* The log of the memory of processes that was read: versions by address and time. */
#include "base/bytes.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/unnamed_file.h"
#include "perfdata/vmevent.h"
#include "session/allocations.h"
#include "session/faults.h"
#include "session/renewals.h"
#include "base/table.h"
#include "session/recorded_memory.h"
#include "session/code_files.h"
#include "unwind/provenance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    VERSIONS_MAX = 1 << 22, /* 256 MiB of index: for some 1 GB of contents, --max-log */
    BUFFER_SIZE = 256 << 10,
    TEXTS_MAX = 4096,
    COMPILERS_MAX = 64 << 20, /* bytes of all readings of JIT compilers */
    FORKS_MAX = 16,           /* ancestors that are searched */
};

/* One content of one range. It was seen at least once, and did not change up to the last time. */
struct version {
    uint64_t address;
    uint64_t content; /* offset in the file */
    uint64_t first_before, first_after, last_before, last_after;
    uint32_t length;
    uint32_t life;
    uint8_t kind; /* enum vmentry_kind */
};

/* A process from its start (or an exec) on. */
struct life {
    uint32_t pid;
    uint32_t parent; /* the life that it was forked from: index + 1; 0: none */
    uint64_t from;
    size_t first, nr; /* its versions, once sealed */
};

/* Two words that belong together: of V8 (VMENTRY_INDEX), a BytecodeArray and a function; a
 * prototype's address and size in bytes (VMENTRY_OBJECT); or a VM's address and 0
 * (VMENTRY_GLOBAL). */
struct note {
    uint64_t from, to;
    uint32_t pid;
    uint8_t kind; /* enum vmentry_kind */
};

/* Memory that was compared with a file. */
struct moved {
    uint32_t pid;
    uint64_t start;
    struct vmentry_text text;
};

struct lives {
    VEC(uint32_t) at; /* in order of `from` */
};

/* For each version, once sealed. Versions that begin at one address are a run, in order of time. */
struct neighbours {
    uint32_t run;     /* index of its run */
    uint32_t objects; /* whole objects in the run up to and including this version */
    /* How many versions right before it have the same range, and were each read last before the
     * next one was read at all. */
    uint32_t older;
};

struct memory_log {
    VEC(struct version) versions;
    VEC(struct life) lives;
    VEC(struct note) notes; /* sealed: sorted, without duplicates */
    VEC(struct moved) texts;
    VEC(struct memory_log_compiler) compilers;
    size_t compilers_size; /* bytes */
    struct code_files files;
    struct renewals renewals;
    struct allocations allocations;
    struct faults faults;
    enum memory_log_order order;
    struct table processes;   /* pid -> struct lives */
    struct hash_table newest; /* the newest version of each range */
    uint64_t *ends; /* sealed: the greatest end of the versions of the same life up to this one */
    struct neighbours *neighbours; /* sealed: one for each version */
    uint32_t *runs; /* sealed: the first version of each run, then the end of the last run */
    size_t nr_runs;
    /* Sealed: a tree of the greatest ends of runs. Its root is at 1; each of its `leaves` is one
     * run. */
    uint64_t *reaches;
    size_t leaves;
    int fd;
    uint8_t *buffer;
    uint64_t written; /* bytes in the file; those in the buffer follow */
    size_t buffered;
    const uint8_t *contents; /* sealed: the file, mapped */
    size_t contents_size;
    struct memory_log_stats stats;
};

/* ---- creating ------------------------------------------------------------------------------ */

int memory_log_create(struct memory_log **ret, struct error *err)
{
    struct memory_log *log = calloc(1, sizeof(*log));
    if (!log)
        return error_no_memory(err);
    log->fd = unnamed_file("ljperf-memory");
    log->buffer = malloc(BUFFER_SIZE);
    if (log->fd < 0 || !log->buffer) {
        int failed =
            log->fd < 0 ? error_system(err, errno, "a temporary file for objects cannot be created")
                        : error_no_memory(err);
        memory_log_free(log);
        return failed;
    }
    *ret = log;
    return 0;
}

void memory_log_set_order(struct memory_log *log, enum memory_log_order order)
{
    log->order = order;
}

void memory_log_free(struct memory_log *log)
{
    if (!log)
        return;
    vec_foreach (slot, &log->processes) {
        struct lives *l = slot->value;
        vec_free(&l->at);
        free(l);
    }
    table_free(&log->processes);
    if (log->contents)
        munmap((void *)(uintptr_t)log->contents, log->contents_size);
    if (log->fd >= 0)
        close(log->fd);
    vec_free(&log->versions);
    vec_free(&log->lives);
    vec_free(&log->notes);
    vec_free(&log->texts);
    vec_foreach (c, &log->compilers)
        free((void *)(uintptr_t)c->bytes);
    vec_free(&log->compilers);
    renewals_free(&log->renewals);
    allocations_free(&log->allocations);
    faults_free(&log->faults);
    hash_table_free(&log->newest);
    free(log->ends);
    free(log->neighbours);
    free(log->runs);
    free(log->reaches);
    free(log->buffer);
    code_files_free(&log->files);
    free(log);
}

/* ---- contents ------------------------------------------------------------------------------ */

static int contents_flush(struct memory_log *log, struct error *err)
{
    for (size_t done = 0; done < log->buffered;) {
        ssize_t n =
            pwrite(log->fd, log->buffer + done, log->buffered - done, (off_t)(log->written + done));
        if (n < 0 && errno != EINTR)
            return error_system(err, errno,
                                "the temporary file of objects in TMPDIR cannot be written");
        done += n > 0 ? (size_t)n : 0;
    }
    log->written += log->buffered;
    log->buffered = 0;
    return 0;
}

static int contents_add(struct memory_log *log, const uint8_t *bytes, uint32_t size, uint64_t *ret,
                        struct error *err)
{
    if (log->buffered + size > BUFFER_SIZE && contents_flush(log, err) < 0)
        return -1;
    *ret = log->written + log->buffered;
    memcpy(log->buffer + log->buffered, bytes, size); /* entries are smaller than a record */
    log->buffered += size;
    return 0;
}

/* Returns whether a version has these bytes. */
static bool contents_equal(const struct memory_log *log, const struct version *v,
                           const uint8_t *bytes)
{
    uint8_t there[VMEVENT_MAX];
    if (v->content >= log->written)
        return !memcmp(log->buffer + (v->content - log->written), bytes, v->length);
    return v->length <= sizeof(there) &&
           pread(log->fd, there, v->length, (off_t)v->content) == (ssize_t)v->length &&
           !memcmp(there, bytes, v->length);
}

/* ---- lives --------------------------------------------------------------------------------- */

static struct lives *lives_of(struct memory_log *log, uint32_t pid, struct error *err)
{
    struct lives *l = table_get(&log->processes, pid);
    if (l)
        return l;
    l = calloc(1, sizeof(*l));
    if (!l || !table_put(&log->processes, pid, l)) {
        free(l);
        error_no_memory(err);
        return NULL;
    }
    return l;
}

static int life_begin(struct memory_log *log, uint32_t pid, uint64_t from, uint32_t parent,
                      struct error *err)
{
    struct lives *l = lives_of(log, pid, err);
    const struct life life = {.pid = pid, .parent = parent, .from = from};
    if (!l)
        return -1;
    if (log->lives.nr >= VERSIONS_MAX)
        return 0;
    if (!vec_push(&log->lives, life) || !vec_push(&l->at, (uint32_t)log->lives.nr - 1))
        return error_no_memory(err);
    for (size_t i = l->at.nr - 1; i && log->lives.at[l->at.at[i - 1]].from > from; i--) {
        uint32_t swap = l->at.at[i];
        l->at.at[i] = l->at.at[i - 1];
        l->at.at[i - 1] = swap;
    }
    return 0;
}

/* Returns whether a process has had only one life, from its start: the same life at any time. `l`:
 * its lives; NULL: none is known. */
static bool is_one_life(const struct memory_log *log, const struct lives *l)
{
    return l && l->at.nr == 1 && !log->lives.at[l->at.at[0]].parent;
}

static bool has_one_life(const struct memory_log *log, uint32_t pid)
{
    return is_one_life(log, table_get(&log->processes, pid));
}

/* Returns the one of these lives at a time: index + 1; 0: nothing is known of the process. A time
 * before the first known life gives that life. */
static uint32_t life_among(const struct memory_log *log, const struct lives *l, uint64_t time)
{
    size_t i = l ? l->at.nr : 0;
    if (!i)
        return 0;
    while (i > 1 && log->lives.at[l->at.at[i - 1]].from > time)
        i--;
    return l->at.at[i - 1] + 1;
}

static uint32_t life_at(const struct memory_log *log, uint32_t pid, uint64_t time)
{
    return life_among(log, table_get(&log->processes, pid), time);
}

int memory_log_exec(struct memory_log *log, uint32_t pid, uint64_t time, struct error *err)
{
    return life_begin(log, pid, time, 0, err);
}

int memory_log_fork(struct memory_log *log, uint32_t parent, uint32_t pid, uint64_t time,
                    struct error *err)
{
    return life_begin(log, pid, time, life_at(log, parent, time), err);
}

/* ---- adding -------------------------------------------------------------------------------- */

static uint64_t range_hash(uint32_t life, uint64_t address, uint32_t length)
{
    return hash_combine(hash_u64(address), (uint64_t)life << 32 | length);
}

static bool is_of(const struct version *v, uint32_t life, uint64_t address, uint32_t length)
{
    return v->life == life && v->address == address && v->length == length;
}

/* The same content was read once more. */
static void extend(struct version *v, const struct vmevent_entry *e)
{
    if (e->before < v->first_before) {
        v->first_before = e->before;
        v->first_after = e->after;
    }
    if (e->before > v->last_before) {
        v->last_before = e->before;
        v->last_after = e->after;
    }
}

/* ---- notes --------------------------------------------------------------------------------- */

static int note_add(struct memory_log *log, struct note note, struct error *err)
{
    if (log->notes.nr >= VERSIONS_MAX) {
        log->stats.over++;
        return 0;
    }
    return vec_push(&log->notes, note) ? 0 : error_no_memory(err);
}

int memory_log_add_function(struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t function, struct error *err)
{
    return note_add(log, (struct note){bytecode, function, pid, VMENTRY_INDEX}, err);
}

int memory_log_add_global(struct memory_log *log, uint32_t pid, uint64_t g, struct error *err)
{
    return note_add(log, (struct note){.from = g, .pid = pid, .kind = VMENTRY_GLOBAL}, err);
}

int memory_log_add_prototype(struct memory_log *log, uint32_t pid, uint64_t address, uint64_t size,
                             struct error *err)
{
    return note_add(log, (struct note){address, size, pid, VMENTRY_OBJECT}, err);
}

/* Add an entry that is not an address range. */
static int add_index(struct memory_log *log, uint32_t pid, const struct vmevent_entry *e,
                     struct error *err)
{
    uint64_t pair[2];
    if (e->length != sizeof(pair) || !e->bytes)
        return 0;
    memcpy(pair, e->bytes, sizeof(pair));
    if (pair[0] & 1)
        return memory_log_add_function(log, pid, pair[0], pair[1], err);
    return memory_log_add_prototype(log, pid, pair[0], pair[1], err);
}

/* Add an entry about a JIT compiler. */
static int add_compiler(struct memory_log *log, uint32_t pid, const struct vmevent_entry *e,
                        struct error *err)
{
    struct memory_log_compiler c = {
        .g = e->address, .time = e->before, .pid = pid, .size = e->length, .kind = e->kind};
    if (!e->bytes || !e->length)
        return 0;
    if (log->compilers_size + e->length > COMPILERS_MAX) {
        log->stats.over++;
        return 0;
    }
    uint8_t *bytes = malloc(e->length);
    if (bytes)
        memcpy(bytes, e->bytes, e->length);
    c.bytes = bytes;
    if (!bytes || !vec_push(&log->compilers, c)) {
        free(bytes);
        return error_no_memory(err);
    }
    log->compilers_size += e->length;
    return 0;
}

/* Add an entry about text that was moved. */
static int add_text(struct memory_log *log, uint32_t pid, const struct vmevent_entry *e,
                    struct error *err)
{
    struct vmentry_text text;
    if (e->length != sizeof(text) || !e->bytes)
        return 0;
    if (log->texts.nr >= TEXTS_MAX) {
        log->stats.over++;
        return 0;
    }
    memcpy(&text, e->bytes, sizeof(text));
    const struct moved moved = {pid, e->address, text};
    return vec_push(&log->texts, moved) ? 0 : error_no_memory(err);
}

static int by_note(const void *a, const void *b)
{
    const struct note *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static void sort_notes(struct memory_log *log)
{
    size_t nr = 0;
    if (log->notes.nr)
        qsort(log->notes.at, log->notes.nr, sizeof(*log->notes.at), by_note);
    for (size_t i = 0; i < log->notes.nr; i++)
        if (!nr || by_note(&log->notes.at[nr - 1], &log->notes.at[i]) != 0)
            log->notes.at[nr++] = log->notes.at[i];
    log->notes.nr = nr;
}

/* Returns the index of the first note that is not before `like`. */
static size_t note_from(const struct memory_log *log, struct note like)
{
    size_t low = 0, high = log->notes.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_note(&log->notes.at[mid], &like) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

size_t memory_log_functions(const struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t *ret, size_t max)
{
    const struct note like = {.from = bytecode, .pid = pid, .kind = VMENTRY_INDEX};
    size_t nr = 0;
    for (size_t i = note_from(log, like); i < log->notes.nr; i++) {
        const struct note *n = &log->notes.at[i];
        if (n->pid != pid || n->kind != VMENTRY_INDEX || n->from != bytecode)
            break;
        if (nr++ < max)
            ret[nr - 1] = n->to;
    }
    return nr;
}

uint64_t memory_log_prototype(const struct memory_log *log, uint32_t pid, uint64_t address)
{
    enum { BACK = 8 }; /* prototypes that were at one address are told apart by their sizes */
    const struct note like = {
        .from = address, .to = UINT64_MAX, .pid = pid, .kind = VMENTRY_OBJECT};
    size_t at = note_from(log, like);
    for (unsigned i = 0; i < BACK && at-- > 0; i++) {
        const struct note *n = &log->notes.at[at];
        if (n->pid != pid || n->kind != VMENTRY_OBJECT)
            break;
        if (address - n->from < n->to)
            return n->from;
    }
    return 0;
}

size_t memory_log_globals(const struct memory_log *log, uint32_t pid, uint64_t *ret, size_t max)
{
    const struct note like = {.pid = pid, .kind = VMENTRY_GLOBAL};
    size_t nr = 0;
    for (size_t i = note_from(log, like); i < log->notes.nr; i++) {
        const struct note *n = &log->notes.at[i];
        if (n->pid != pid || n->kind != VMENTRY_GLOBAL)
            break;
        if (nr++ < max)
            ret[nr - 1] = n->from;
    }
    return nr;
}

const struct memory_log_compiler *memory_log_compiler(const struct memory_log *log, size_t index)
{
    return log && index < log->compilers.nr ? &log->compilers.at[index] : NULL;
}

const struct vmentry_text *memory_log_text(const struct memory_log *log, uint32_t pid,
                                           uint64_t start, uint64_t end)
{
    const struct vmentry_text *found = NULL;
    for (size_t i = 0; log && i < log->texts.nr; i++) {
        const struct moved *m = &log->texts.at[i];
        if (m->pid == pid && m->start == start && m->text.end == end)
            found = found && found->offset != VMENTRY_TEXT_OTHER ? found : &m->text;
    }
    return found;
}

/* ---- versions ------------------------------------------------------------------------------ */

static int add_version(struct memory_log *log, uint32_t life, const struct vmevent_entry *e,
                       uint32_t before, struct error *err)
{
    uint64_t hash = range_hash(life, e->address, e->length);
    struct version v = {.address = e->address,
                        .length = e->length,
                        .life = life,
                        .kind = e->kind,
                        .first_before = e->before,
                        .first_after = e->after,
                        .last_before = e->before,
                        .last_after = e->after};
    if (log->versions.nr >= VERSIONS_MAX) {
        log->stats.over++;
        return 0;
    }
    if (contents_add(log, e->bytes, e->length, &v.content, err) < 0)
        return -1;
    uint32_t now = (uint32_t)log->versions.nr;
    if (!vec_push(&log->versions, v) ||
        (before == HASH_TABLE_NONE && !hash_table_add(&log->newest, hash, now)))
        return error_no_memory(err);
    if (before != HASH_TABLE_NONE)
        hash_table_replace(&log->newest, hash, before, now);
    log->stats.bytes += e->length;
    return e->kind == VMENTRY_GLOBAL
               ? memory_log_add_global(log, log->lives.at[life].pid, e->address, err)
               : 0;
}

/* ---- entries ------------------------------------------------------------------------------- */

static int add_entry(struct memory_log *log, uint32_t pid, const struct vmevent_entry *e,
                     struct error *err)
{
    uint32_t life = life_at(log, pid, e->before);
    if (e->kind == VMENTRY_INDEX)
        return add_index(log, pid, e, err);
    if (e->kind == VMENTRY_TEXT)
        return add_text(log, pid, e, err);
    if (e->kind == VMENTRY_COMPILER || e->kind == VMENTRY_V8_COMPILER)
        return add_compiler(log, pid, e, err);
    if (e->kind == VMENTRY_PERF_MAP || e->kind == VMENTRY_JITDUMP) {
        log->stats.entries++;
        return code_files_add(&log->files, pid, e, err);
    }
    if (e->after < e->before || !e->length || e->flags & VMENTRY_FAILED) {
        log->stats.bad += e->after < e->before;
        return 0;
    }
    if (!life && life_begin(log, pid, 0, 0, err) < 0)
        return -1;
    if (!life && !(life = life_at(log, pid, e->before)))
        return 0;
    uint32_t before = hash_table_find(&log->newest, range_hash(life - 1, e->address, e->length), i,
                                      is_of(&log->versions.at[i], life - 1, e->address, e->length));
    struct version *v = before != HASH_TABLE_NONE ? &log->versions.at[before] : NULL;
    log->stats.marks += !e->bytes;
    log->stats.entries += e->bytes != NULL;
    if (!e->bytes && !v)
        log->stats.orphans++;
    else if (!e->bytes || (v && contents_equal(log, v, e->bytes)))
        extend(v, e);
    else
        return add_version(log, life - 1, e, before, err);
    return 0;
}

static int add_close(struct memory_log *log, const struct vmevent_header *h, struct error *err)
{
    if (h->reason == VMEVENT_CLOSE_FORK)
        return memory_log_fork(log, h->pid, h->other, h->before, err);
    return memory_log_exec(log, h->pid, h->before, err);
}

int memory_log_add(struct memory_log *log, struct vmevent *e, struct error *err)
{
    struct vmevent_entry entry;
    struct error ignored;
    int got;
    if (e->head.kind == VMEVENT_CLOSE)
        return add_close(log, &e->head, err);
    if (e->head.kind != VMEVENT_MEM)
        return 0;
    while ((got = vmevent_next(e, &entry, &ignored)) > 0) {
        if (add_entry(log, e->head.pid, &entry, err) < 0)
            return -1;
    }
    log->stats.bad += got < 0;
    return 0;
}

/* ---- sealing ------------------------------------------------------------------------------ */

static int by_address(const void *a, const void *b)
{
    const struct version *x = a, *y = b;
    if (x->life != y->life)
        return x->life < y->life ? -1 : 1;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->first_before < y->first_before ? -1 : x->first_before > y->first_before;
}

static void link_neighbours(struct memory_log *log, size_t i)
{
    const struct version *v = &log->versions.at[i], *u = v - 1;
    struct neighbours *n = &log->neighbours[i];
    bool same_run = i && u->life == v->life && u->address == v->address;
    bool follows = same_run && u->length == v->length && u->last_after < v->first_before;
    if (!same_run)
        log->runs[log->nr_runs++] = (uint32_t)i;
    n->run = (uint32_t)log->nr_runs - 1;
    n->objects = (same_run ? n[-1].objects : 0) + (v->kind == VMENTRY_OBJECT);
    n->older = follows ? n[-1].older + 1 : 0;
}

/* Fill the ends of runs; each inner node of the tree gets the greater end of its two children. */
static bool build_reaches(struct memory_log *log)
{
    log->runs[log->nr_runs] = (uint32_t)log->versions.nr;
    for (log->leaves = 1; log->leaves <= log->nr_runs;) /* one stays free, to search back from */
        log->leaves *= 2;
    log->reaches = calloc(2 * log->leaves, sizeof(*log->reaches));
    if (!log->reaches)
        return false;
    for (size_t i = 0; i < log->versions.nr; i++) {
        const struct version *v = &log->versions.at[i];
        uint64_t *reach = &log->reaches[log->leaves + log->neighbours[i].run];
        *reach = v->address + v->length > *reach ? v->address + v->length : *reach;
    }
    for (size_t i = log->leaves; i-- > 1;) {
        const uint64_t *of = &log->reaches[2 * i];
        log->reaches[i] = of[0] > of[1] ? of[0] : of[1];
    }
    return true;
}

static int map_contents(struct memory_log *log, struct error *err)
{
    if (contents_flush(log, err) < 0)
        return -1;
    log->contents_size = log->written;
    if (!log->written)
        return 0;
    void *map = mmap(NULL, log->contents_size, PROT_READ, MAP_SHARED, log->fd, 0);
    if (map == MAP_FAILED)
        return error_system(err, errno, "the temporary file of objects cannot be mapped");
    log->contents = map;
    return 0;
}

int memory_log_seal(struct memory_log *log, struct error *err)
{
    size_t nr = log->versions.nr;
    hash_table_free(&log->newest);
    log->stats.versions = nr;
    sort_notes(log);
    faults_seal(&log->faults);
    if (!renewals_seal(&log->renewals) || !allocations_seal(&log->allocations))
        return error_no_memory(err);
    if (nr)
        qsort(log->versions.at, nr, sizeof(*log->versions.at), by_address);
    log->ends = calloc(nr + 1, sizeof(*log->ends));
    log->neighbours = calloc(nr + 1, sizeof(*log->neighbours));
    log->runs = calloc(nr + 1, sizeof(*log->runs));
    if (!log->ends || !log->neighbours || !log->runs)
        return error_no_memory(err);
    for (size_t i = 0; i < nr; i++) {
        const struct version *v = &log->versions.at[i];
        struct life *life = &log->lives.at[v->life];
        uint64_t end = v->address + v->length;
        if (!life->nr++)
            life->first = i;
        else if (log->ends[i - 1] > end)
            end = log->ends[i - 1];
        log->ends[i] = end;
        link_neighbours(log, i);
    }
    return build_reaches(log) ? map_contents(log, err) : error_no_memory(err);
}

struct memory_log_stats memory_log_stats(const struct memory_log *log)
{
    return log->stats;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The versions that contain a byte, by their relation to the time that is asked for. */
struct found {
    const struct version *around; /* read equal before and after it */
    const struct version *after;  /* the first one read at or after it */
    const struct version *before; /* the last one read before it */
    const struct version *object; /* like `after`, but the first one that is a whole object */
    struct memory_span same;      /* all times at which these are the same */
    uint32_t run; /* index + 1 of the only run with the byte; 0: there are others, or none */
};

/* Narrow a span around `time`: at `begin` something changes. */
static void span_bound(struct memory_span *span, uint64_t time, uint64_t begin)
{
    if (begin > time)
        span->to = begin - 1 < span->to ? begin - 1 : span->to;
    else
        span->from = begin > span->from ? begin : span->from;
}

static bool has_byte(const struct version *v, uint64_t address)
{
    return address - v->address < v->length;
}

/* Returns whether readings of this log tell what was there before a sample and what after it. */
static bool has_moments(const struct memory_log *log)
{
    return log->order == MEMORY_LOG_RECORDED;
}

/* Returns how many bytes the version has from `address` on; 0: it does not contain `address`. */
static uint64_t from_on(const struct version *v, uint64_t address)
{
    return has_byte(v, address) ? v->length - (address - v->address) : 0;
}

/* Returns whether `v` was read before `than`, or at the same instant and has more bytes. */
static bool is_sooner(const struct version *v, const struct version *than, uint64_t address)
{
    return !than || v->first_before < than->first_before ||
           (v->first_before == than->first_before && from_on(v, address) > from_on(than, address));
}

/* Returns whether `v` was read equal in a shorter time around the moment than `than`, or in the
 * same time and has more bytes. What is equal at two far moments may have been different in
 * between. */
static bool is_tighter(const struct version *v, const struct version *than, uint64_t address)
{
    uint64_t of = v->last_before - v->first_after, other = than->last_before - than->first_after;
    return of < other || (of == other && from_on(v, address) > from_on(than, address));
}

static void consider(struct found *f, const struct version *v, uint64_t address, uint64_t time)
{
    span_bound(&f->same, time, v->first_after);
    span_bound(&f->same, time, v->last_before + 1);
    span_bound(&f->same, time, v->last_after);
    if (v->first_after <= time && v->last_before >= time) {
        if (!f->around || is_tighter(v, f->around, address))
            f->around = v;
    } else if (v->last_after > time) {
        if (is_sooner(v, f->after, address))
            f->after = v;
        if (v->kind == VMENTRY_OBJECT && is_sooner(v, f->object, address))
            f->object = v;
    } else if (!f->before || v->last_after > f->before->last_after) {
        f->before = v;
    }
}

/* Returns the first version of [low, high) that begins above `address`, or (`at` true) that begins
 * at it and was read after `time`; `high`: none. */
static size_t version_behind(const struct memory_log *log, size_t low, size_t high,
                             uint64_t address, bool at, uint64_t time)
{
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct version *v = &log->versions.at[mid];
        if (v->address < address || (v->address == address && (!at || v->first_before <= time)))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Of the versions [from, to), which were all read after the moment, consider those that were read
 * soonest and contain the byte. With `objects`, the soonest one must be a whole object. */
static void consider_soonest(struct found *f, const struct memory_log *log, size_t from, size_t to,
                             uint64_t address, uint64_t time, bool objects)
{
    const struct version *v = log->versions.at;
    size_t i = from;
    while (i < to && (!has_byte(&v[i], address) || (objects && v[i].kind != VMENTRY_OBJECT)))
        i++;
    size_t end = i;
    while (end < to && v[end].first_before == v[i].first_before)
        end++;
    while (end-- > i)
        if (has_byte(&v[end], address))
            consider(f, &v[end], address, time);
}

/* Consider a run whose last version is at `end` - 1. A stack that was read every few ms has
 * thousands of versions, in order of time; those around the moment are enough. After the moment
 * only the soonest version counts. Before it, only the last two versions of a range count, if they
 * follow each other. */
static void consider_run(struct found *f, const struct memory_log *log, size_t begin, size_t end,
                         uint64_t address, uint64_t time)
{
    enum { NEAR = 64 };
    const struct version *versions = log->versions.at;
    const struct neighbours *last = &log->neighbours[end - 1];
    size_t at = version_behind(log, begin, end, versions[begin].address, true, time);
    bool many = end - begin > 2 * NEAR;
    if (at > begin)
        span_bound(&f->same, time, versions[at - 1].first_before);
    if (at < end)
        span_bound(&f->same, time, versions[at].first_before);
    size_t low = many && at - begin > NEAR ? at - NEAR : begin;
    size_t high = many && end - at > NEAR ? at + NEAR : end;
    consider_soonest(f, log, at, high, address, time, false);
    if (last->objects != (at > begin ? log->neighbours[at - 1].objects : 0))
        consider_soonest(f, log, at, high, address, time, true);
    for (size_t i = at; i-- > low;) {
        size_t older = log->neighbours[i].older;
        if (!has_byte(&versions[i], address))
            continue;
        consider(f, &versions[i], address, time);
        if (older > 1 && i - 1 >= low)
            consider(f, &versions[i - 1], address, time);
        if (older > 1)
            i = i - older > low ? i - older : low;
    }
}

static void consider_all(struct found *f, const struct memory_log *log, size_t begin, size_t end,
                         uint64_t address, uint64_t time)
{
    if (end - begin > 1)
        consider_run(f, log, begin, end, address, time);
    else
        consider(f, &log->versions.at[begin], address, time);
}

/* Returns the last run before `run` that has a version ending above `address`; SIZE_MAX: none. */
static size_t run_before(const struct memory_log *log, size_t run, uint64_t address)
{
    size_t at = run + log->leaves;
    while (at > 1 && (at % 2 == 0 || log->reaches[at - 1] <= address))
        at /= 2;
    if (at <= 1)
        return SIZE_MAX;
    for (at--; at < log->leaves;)
        at = 2 * at + (log->reaches[2 * at + 1] > address);
    return at - log->leaves;
}

/* Find the versions that contain a byte. Versions are sorted by address, so these are in runs that
 * begin at or below the byte. In the heap of a program that makes and drops objects for an hour,
 * thousands of runs may lie between the byte and the largest object that ever contained it: the
 * tree leads past them. */
static struct found find(const struct memory_log *log, const struct life *life, uint64_t address,
                         uint64_t time)
{
    struct found f = {.same = {0, UINT64_MAX}};
    size_t first = life->first, nr = 0;
    size_t low = version_behind(log, first, first + life->nr, address, false, 0);
    if (low == first)
        return f;
    size_t run = (size_t)log->neighbours[low - 1].run + 1, least = log->neighbours[first].run;
    while ((run = run_before(log, run, address)) != SIZE_MAX && run >= least) {
        size_t begin = log->runs[run], end = log->runs[run + 1];
        f.run = !nr++ ? (uint32_t)run + 1 : 0;
        consider_all(&f, log, begin, end, address, time);
    }
    return f;
}

static const uint8_t *bytes_at(const struct memory_log *log, const struct version *v,
                               uint64_t address)
{
    return log->contents + v->content + (address - v->address);
}

/* Returns whether the program writes this memory as it runs: if it is equal before and after, it
 * may still have changed in between. */
static bool is_moving(const struct version *v)
{
    return v->kind == VMENTRY_STACK || v->kind == VMENTRY_STATE || v->kind == VMENTRY_GLOBAL ||
           v->kind == VMENTRY_JIT;
}

static bool was_renewed(const struct memory_log *log, uint32_t pid, const struct version *v,
                        uint64_t from, uint64_t to)
{
    return renewals_between(&log->renewals, pid, v->address, v->address + v->length, from, to);
}

/* Returns whether the memory was renewed between one reading and a moment. `same` is narrowed to
 * the moments that have the same answer. The nearer a moment is to the reading, the less has come
 * between. What was not renewed since the farthest moment of `same`, which holds `time`, was not
 * renewed since `time`: one question is mostly enough. */
static bool was_renewed_since(const struct memory_log *log, uint32_t pid, const struct version *v,
                              bool after, uint64_t time, struct memory_span *same)
{
    bool is_known = same->from <= same->to;
    if (is_known && !(after ? was_renewed(log, pid, v, same->from, v->first_before)
                            : was_renewed(log, pid, v, v->last_after, same->to)))
        return false;
    if (after ? was_renewed(log, pid, v, time, v->first_before)
              : was_renewed(log, pid, v, v->last_after, time)) {
        span_bound(same, time, after ? time + 1 : time);
        return true;
    }
    if (is_known)
        span_bound(same, time, after ? time : time + 1);
    return false;
}

/* Returns how far bytes are proven that were read on one side of the moment only. An object that
 * does not change while it lives, and that was read soon after the moment, is the object that the
 * sample had, if the sample kept it alive and it is of the kind that is looked for: the walker asks
 * for objects that the stack refers to, and checks them. `object`: the asker says that it is such
 * an object (MEMORY_OBJECT), and a reading shortly before the moment is as good. `same` is narrowed
 * to the times that have the same answer. */
static enum provenance one_sided(const struct memory_log *log, uint32_t pid,
                                 const struct version *v, bool after, uint64_t time, bool object,
                                 struct memory_span *same)
{
    const uint64_t enough = object ? PROOF_KEPT_OBJECT_NS : PROOF_OBJECT_AFTER_NS;
    uint64_t from = after ? time : v->last_after, to = after ? v->first_before : time;
    if (log->order != MEMORY_LOG_RECORDED)
        return PROVENANCE_STALE;
    if (v->kind != VMENTRY_OBJECT && (!object || is_moving(v)))
        return after ? PROVENANCE_STALE : PROVENANCE_GUESS;
    span_bound(same, time, after ? to - (enough < to ? enough : to) : from + enough + 1);
    if ((!after && !object) || to - from > enough)
        return PROVENANCE_STALE;
    return was_renewed_since(log, pid, v, after, time, same)
               ? PROVENANCE_STALE /* another object came into its place */
               : PROVENANCE_EXACT;
}

static bool is_same_piece(const struct memory_log *log, const struct version *a,
                          const struct version *b, uint64_t address, uint64_t size)
{
    return a && b && from_on(a, address) >= size && from_on(b, address) >= size &&
           !memcmp(bytes_at(log, a, address), bytes_at(log, b, address), size);
}

/* Where bytes were found. */
struct hit {
    const uint8_t *bytes;
    enum provenance provenance;
    const struct version *around; /* equal before and after the time asked for; NULL: not so */
    bool by_one_reading;          /* exact because it is an object that was read near */
    const struct version *of;     /* the version that has the bytes */
    struct memory_span same;      /* all times at which this result is the same */
};

/* A running stack that is equal before and after may have been different in between. */
static enum provenance around_provenance(const struct version *v)
{
    return is_moving(v) ? PROVENANCE_STALE : PROVENANCE_EXACT;
}

/* Choose between the readings after and before the moment. Plain memory had changed when it was
 * read again. If that was long after the moment, the sample more likely had the bytes that were
 * read before it. (A recorder that walked similar frames a moment ago does not read again for each
 * sample; then a GC moves the objects.) */
static const struct version *nearer(struct found *f, uint64_t time)
{
    const struct version *a = f->after, *b = f->before;
    if (!a || !b || a->kind != VMENTRY_BYTES || b->kind != VMENTRY_BYTES)
        return a ? a : b;
    span_bound(&f->same, time,
               a->first_before -
                   (PROOF_LATER_READING_NS < a->first_before ? PROOF_LATER_READING_NS - 1 : 0));
    span_bound(&f->same, time, b->last_after + (a->first_before - b->last_after) / 2 + 1);
    if (a->first_before - time < PROOF_LATER_READING_NS ||
        a->first_before - time < time - b->last_after)
        return a ? a : b;
    return b;
}

/* The sample says that this object is the right one. Returns whether the reading was so near to the
 * moment that nothing has moved. */
static bool is_near(const struct version *v, uint64_t time, struct memory_span *same)
{
    span_bound(same, time,
               v->first_before -
                   (PROOF_NEAR_NS < v->first_before ? PROOF_NEAR_NS : v->first_before));
    span_bound(same, time, v->last_after + PROOF_NEAR_NS + 1);
    return v->first_before > time ? v->first_before - time <= PROOF_NEAR_NS
                                  : time - v->last_after <= PROOF_NEAR_NS;
}

/* Returns what was read on one side of the moment, for a reader that looks at both sides; NULL:
 * nothing. */
static const struct version *at_side(const struct memory_log *log, const struct found *f,
                                     uint64_t time, enum memory_moment side, struct hit *ret)
{
    const struct version *v = side == MEMORY_BEFORE ? f->before : f->after;
    if (!v)
        return NULL;
    uint64_t away = side == MEMORY_BEFORE    ? time - v->last_after
                    : v->first_before > time ? v->first_before - time
                                             : 0;
    bool counts = log->order == MEMORY_LOG_RECORDED && !is_moving(v) && away <= PROOF_SIDE_NS;
    *ret = (struct hit){.provenance = counts ? PROVENANCE_EXACT : PROVENANCE_STALE};
    return v;
}

static size_t recent_place(uint64_t address)
{
    return hash_u64(address) % MEMORY_LOG_RECENT;
}

/* Like find(); remembers which run of versions has the byte. */
static struct found find_again(const struct memory_log_view *view, const struct life *life,
                               uint64_t address, uint64_t time)
{
    const struct memory_log *log = view->log;
    struct memory_log_recent *r = view->recent ? &view->recent[recent_place(address)] : NULL;
    bool known = r && r->address == address && r->pid == view->pid;
    if (known && r->run) {
        size_t begin = log->runs[r->run - 1], end = log->runs[r->run];
        if (&log->lives.at[log->versions.at[begin].life] == life) {
            struct found f = {.same = {0, UINT64_MAX}, .run = r->run};
            consider_all(&f, log, begin, end, address, time);
            return f;
        }
    }
    struct found f = find(log, life, address, time);
    if (r && f.run)
        *r = (struct memory_log_recent){address, view->pid, known ? r->version : 0, f.run,
                                        known ? r->same : f.same};
    return f;
}

/* Judge the first `there` bytes of version `v`, which were not read equal before and after the
 * moment. */
static void judge(const struct memory_log *log, const struct life *life, const struct found *f,
                  const struct version *v, const struct memory_query *q, uint64_t there,
                  struct hit *ret)
{
    const uint64_t address = q->address, time = q->time;
    if (f->after) /* a reading that had already begun has no distance */
        span_bound(&ret->same, time, f->after->first_before);
    if (f->after && f->after->first_before <= time)
        memory_span_empty(&ret->same);
    /* A word of bytecode is read before it is known which object it belongs to. After the line that
     * the word was read in, the whole object was read, and it has the same bytes. */
    bool of_object = !is_moving(v) && is_same_piece(log, v, f->object, address, there);
    ret->provenance = one_sided(log, life->pid, of_object ? f->object : v, v != f->before, time,
                                q->kind == MEMORY_OBJECT, &ret->same);
    ret->by_one_reading = ret->provenance == PROVENANCE_EXACT;
    if (!is_moving(v) && f->after && is_same_piece(log, f->after, f->before, address, there)) {
        ret->provenance = PROVENANCE_EXACT; /* recorded with other lengths, but the same */
        ret->by_one_reading = false;
    } else if (f->after && f->before && from_on(f->before, address) >= there &&
               ret->provenance == PROVENANCE_EXACT && !(q->alive && is_near(v, time, &ret->same)))
        ret->provenance = PROVENANCE_STALE; /* it changed, perhaps before the moment */
}

/* Narrow a span to the times at which `around` was equal before and after. */
static void span_narrow(struct memory_span *span, const struct version *around)
{
    memory_span_narrow(span, &(struct memory_span){around->first_after, around->last_before});
}

/* Get some of the bytes that are asked for, from the first on. Returns how many (0: none); `ret`
 * says where they are and how far they are proven. */
static uint64_t piece(const struct memory_log_view *view, const struct life *life,
                      const struct memory_query *q, struct hit *ret)
{
    const struct memory_log *log = view->log;
    struct found f = find_again(view, life, q->address, q->time);
    bool one_side = !f.around && q->moment != MEMORY_NEAREST;
    const struct version *v = f.around   ? f.around
                              : one_side ? at_side(log, &f, q->time, q->moment, ret)
                                         : nearer(&f, q->time);
    if (!v)
        return 0;
    uint64_t there = from_on(v, q->address) < q->size ? from_on(v, q->address) : q->size;
    const uint8_t *bytes = bytes_at(log, v, q->address);
    if (one_side) {
        ret->bytes = bytes;
        ret->of = v;
        memory_span_empty(&ret->same);
        return there;
    }
    *ret = (struct hit){.bytes = bytes,
                        .provenance = around_provenance(v),
                        .around = f.around,
                        .of = v,
                        .same = f.same};
    if (f.around) /* at other times another version may count */
        span_narrow(&ret->same, f.around);
    else
        judge(log, life, &f, v, q, there, ret);
    return there;
}

static uint64_t piece_of_family(const struct memory_log_view *view, uint32_t life,
                                const struct memory_query *query, struct hit *ret)
{
    const struct memory_log *log = view->log;
    const struct memory_query *q = query;
    struct memory_query earlier;
    for (int i = 0; life && i < FORKS_MAX; i++) {
        const struct life *l = &log->lives.at[life - 1];
        uint64_t there = piece(view, l, q, ret);
        if (there) {
            if (i && ret->provenance == PROVENANCE_EXACT)
                ret->provenance = PROVENANCE_STALE; /* the child may have changed it since */
            if (i && ret->around) {
                ret->around = NULL;
                memory_span_empty(&ret->same);
            }
            return there;
        }
        if (q->time > l->from) {
            earlier = *q;
            earlier.time = l->from;
            q = &earlier;
        }
        life = l->parent;
    }
    return 0;
}

/* Returns bytes that an earlier reading found and that are equal before and after this time, too;
 * NULL: there are none. */
static const uint8_t *find_recent(const struct memory_log_view *view, const struct memory_query *q,
                                  struct memory_answer *answer)
{
    const struct memory_log_recent *r =
        view->recent ? &view->recent[recent_place(q->address)] : NULL;
    if (!r || !r->version || r->address != q->address || r->pid != view->pid)
        return NULL;
    const struct version *v = &view->log->versions.at[r->version - 1];
    if (r->same.from > q->time || r->same.to < q->time || from_on(v, q->address) < q->size)
        return NULL;
    answer->provenance = around_provenance(v);
    answer->same = r->same;
    answer->read = (struct memory_span){v->first_before, v->last_after};
    return bytes_at(view->log, v, q->address);
}

/* A reading that is in progress. */
struct reading {
    const struct memory_log_view *view;
    struct memory_query left; /* what is still to be read */
    struct memory_answer *answer;
    uint32_t life;
};

static void reading_begin(struct reading *r, const struct memory_log_view *view,
                          const struct memory_query *q, struct memory_answer *answer)
{
    bool other_clock = view->log->order == MEMORY_LOG_OTHER_CLOCK;
    *r = (struct reading){view, *q, answer, 0};
    if (other_clock)
        r->left.time = UINT64_MAX;
    answer->provenance = other_clock ? PROVENANCE_STALE : PROVENANCE_EXACT;
    answer->same = (struct memory_span){0, UINT64_MAX};
    const struct lives *lives = table_get(&view->log->processes, view->pid);
    r->life = life_among(view->log, lives, r->left.time);
    if (!is_one_life(view->log, lives)) /* bytes that one life lacks may be in another */
        memory_span_empty(&answer->same);
}

/* Read the next piece. Returns its size in bytes; 0: it is not recorded. */
static uint64_t reading_next(struct reading *r, struct hit *hit)
{
    struct memory_answer *a = r->answer;
    uint64_t part = piece_of_family(r->view, r->life, &r->left, hit);
    if (!part)
        return 0;
    if (hit->provenance > a->provenance)
        a->provenance = hit->provenance;
    a->by_one_reading |= hit->by_one_reading;
    memory_span_narrow(&a->same, &hit->same);
    bool first = a->read.from > a->read.to;
    if (first || hit->of->first_before < a->read.from)
        a->read.from = hit->of->first_before;
    if (first || hit->of->last_after > a->read.to)
        a->read.to = hit->of->last_after;
    r->left.address += part;
    r->left.size -= part;
    return part;
}

static void note_recent(const struct memory_log_view *view, uint64_t address, const struct hit *hit)
{
    struct memory_log_recent *r = view->recent ? &view->recent[recent_place(address)] : NULL;
    if (!r || !hit->around)
        return;
    if (r->address != address || r->pid != view->pid)
        *r = (struct memory_log_recent){.address = address, .pid = view->pid};
    r->version = (uint32_t)(hit->around - view->log->versions.at) + 1;
    r->same = hit->same;
}

/* Read what no earlier reading has found. Out of line, so that the others, which are most, do not
 * pay for its registers. */
static __attribute__((noinline)) bool read_anew(const struct memory_log_view *view,
                                                const struct memory_query *q, void *to,
                                                struct memory_answer *answer)
{
    uint8_t *out = to;
    struct reading r;
    reading_begin(&r, view, q, answer);
    while (r.left.size) {
        struct hit hit;
        uint64_t part = reading_next(&r, &hit);
        if (!part) {
            memory_answer_begin(answer, q);
            return false;
        }
        bytes_copy(out, hit.bytes, part);
        if (part == q->size)
            note_recent(view, q->address, &hit);
        out += part;
    }
    return true;
}

static bool log_read(void *context, const struct memory_query *q, void *to,
                     struct memory_answer *answer)
{
    const struct memory_log_view *view = context;
    const uint8_t *recent = find_recent(view, q, answer);
    if (!recent)
        return read_anew(view, q, to, answer);
    bytes_copy(to, recent, q->size);
    return true;
}

static const uint8_t *log_peek(void *context, const struct memory_query *q,
                               struct memory_answer *answer)
{
    const struct memory_log_view *view = context;
    const uint8_t *recent = find_recent(view, q, answer);
    struct reading r;
    struct hit hit;
    if (recent)
        return recent;
    reading_begin(&r, view, q, answer);
    if (reading_next(&r, &hit) != q->size)
        return NULL;
    note_recent(view, q->address, &hit);
    return hit.bytes;
}

/* ---- proof --------------------------------------------------------------------------------- */

/* A piece of the bytes that are to be proven, and the comparison to use. */
struct proof {
    const struct memory_log *log;
    const struct memory_compare *compare;
    uint64_t address, size, time;
};

/* A version that lacks a part of the piece may have been something else. */
static enum memory_likeness likeness_of(const struct proof *p, const struct version *v)
{
    const struct memory_span when = {v->first_before, v->last_after};
    if (from_on(v, p->address) < p->size)
        return MEMORY_ANOTHER;
    return p->compare->likeness(p->compare->context, p->address, bytes_at(p->log, v, p->address),
                                p->size, &when);
}

static bool says_same(const struct proof *p, const struct version *v)
{
    return likeness_of(p, v) == MEMORY_SAME;
}

/* Returns whether another content was in this version's range shortly before (`step` -1) or after
 * (`step` 1). Then the other content may have been there in between, too, however often this one
 * was read: a program that makes the same two things in turn does so. Versions of a range follow
 * each other in time. */
static bool had_another(const struct proof *p, const struct version *v, int step)
{
    enum { LOOK = 16, COMPARE = 4 };
    const struct version *first = p->log->versions.at, *end = first + p->log->versions.nr;
    const struct version *u = v;
    for (unsigned i = 0, compared = 0; i < LOOK && compared < COMPARE; i++) {
        if ((step < 0 && u == first) || (step > 0 && u + 1 == end))
            return false;
        u += step;
        if (u->address != v->address || u->life != v->life)
            return false;
        if (u->length != v->length && (u->kind != VMENTRY_OBJECT || v->kind != VMENTRY_OBJECT))
            continue;
        if (u->last_after + PROOF_OTHER_CONTENT_NS < p->time ||
            u->first_before > p->time + PROOF_OTHER_CONTENT_NS)
            return false;
        enum memory_likeness likeness = likeness_of(p, u);
        if (likeness == MEMORY_ANOTHER)
            return true;
        compared += likeness == MEMORY_SAME;
    }
    return false;
}

/* Returns whether a version is of something else, though its bytes may be the same. Only a version
 * that is not alone at its address is compared. */
static bool is_apart(const struct proof *p, const struct version *v)
{
    const struct version *first = p->log->versions.at, *end = first + p->log->versions.nr;
    bool others = (v > first && (v - 1)->address == v->address) ||
                  (v + 1 < end && (v + 1)->address == v->address);
    return others && likeness_of(p, v) == MEMORY_APART;
}

/* Returns how far (ns) from the moment an object was read, if it was read on one side of the moment
 * only, and too far away to be believed by itself; else 0. (A program's last moments have no
 * reading after them.) */
static uint64_t how_far(const struct proof *p, uint32_t pid, const struct version *v, bool after)
{
    uint64_t from = after ? p->time : v->last_after, to = after ? v->first_before : p->time;
    if (p->log->order != MEMORY_LOG_RECORDED || v->kind != VMENTRY_OBJECT || from >= to ||
        renewals_between(&p->log->renewals, pid, v->address, v->address + v->length, from, to))
        return 0;
    return to - from;
}

static struct memory_proof prove_piece(const struct proof *p, uint32_t pid, const struct found *f,
                                       const struct version *v)
{
    struct memory_proof ret = {.provenance = PROVENANCE_EXACT};
    bool both = f->after && f->before && from_on(f->before, p->address) >= p->size;
    enum memory_likeness before = both ? likeness_of(p, f->before) : MEMORY_APART;
    bool equal = before == MEMORY_SAME;
    if (f->around || is_moving(v))
        ret.provenance = around_provenance(v);
    else if (!equal) {
        const struct version *object = f->object && says_same(p, f->object) ? f->object : v;
        struct memory_span ignored = {0, UINT64_MAX};
        ret.provenance = one_sided(p->log, pid, object, f->after != NULL, p->time, false, &ignored);
        if (ret.provenance == PROVENANCE_STALE)
            ret.far = how_far(p, pid, object, f->after != NULL);
    }
    ret.another =
        (!f->around && before == MEMORY_ANOTHER) || had_another(p, v, -1) || had_another(p, v, 1);
    if (is_apart(p, v)) {
        ret.another = true;
        ret.far = 0;
    }
    if (ret.another && ret.provenance == PROVENANCE_EXACT)
        ret.provenance = PROVENANCE_STALE;
    return ret;
}

/* Returns whether `v` is the only version that has the first of the bytes, and the only one at its
 * address. Then only its times say how far the bytes are proven, whatever the other versions
 * hold. */
static bool is_alone(const struct memory_log *log, const struct life *life, const struct version *v,
                     uint64_t address, size_t size)
{
    enum { LOOK = 64 };
    const uint32_t *run = &log->runs[log->neighbours[v - log->versions.at].run];
    size_t first = life->first;
    size_t low = version_behind(log, first, first + life->nr, address, false, 0);
    if (run[1] - run[0] != 1) /* others at its address count even if they are too short */
        return false;
    for (unsigned i = 0; low-- > first && log->ends[low] > address; i++) {
        const struct version *u = &log->versions.at[low];
        if (i == LOOK || (u != v && has_byte(u, address)))
            return false;
    }
    return from_on(v, address) >= size;
}

/* As long as this version was equal, the proof is the same, if equality is all that it rests on. */
static void span_narrow_proof(struct memory_span *span, const struct memory_log_view *view,
                              const struct life *life, const struct found *f, uint64_t address,
                              size_t size)
{
    bool same = has_moments(view->log) && f->around && !is_moving(f->around) &&
                has_one_life(view->log, view->pid) &&
                is_alone(view->log, life, f->around, address, size);
    if (same)
        span_narrow(span, f->around);
    else
        memory_span_empty(span);
}

/* Like log_read, but for the parts of the bytes that matter to the caller. It is not proven that a
 * child still has its parent's bytes: false. */
static bool log_prove(void *context, uint64_t address, size_t size, uint64_t time,
                      const struct memory_compare *compare, struct memory_proof *ret)
{
    const struct memory_log_view *view = context;
    const struct memory_log *log = view->log;
    uint32_t life = life_at(log, view->pid, time);
    *ret = (struct memory_proof){.provenance = PROVENANCE_EXACT, .same = {0, UINT64_MAX}};
    if (log->order == MEMORY_LOG_OTHER_CLOCK || !life)
        return false;
    for (size_t all = size; size;) {
        const struct life *l = &log->lives.at[life - 1];
        struct found f = find(log, l, address, time);
        const struct version *v = f.around ? f.around : f.after ? f.after : f.before;
        if (size == all) /* other versions count as well, if there are any */
            span_narrow_proof(&ret->same, view, l, &f, address, size);
        if (!v)
            return false;
        uint64_t part = from_on(v, address) < size ? from_on(v, address) : size;
        const struct proof p = {log, compare, address, part, time};
        struct memory_proof piece = prove_piece(&p, l->pid, &f, v);
        bool was_far = ret->provenance == PROVENANCE_EXACT || ret->far;
        bool is_far = piece.provenance == PROVENANCE_EXACT || piece.far;
        uint64_t far = piece.far > ret->far ? piece.far : ret->far;
        ret->far = was_far && is_far ? far : 0;
        ret->another |= piece.another;
        if (piece.provenance > ret->provenance)
            ret->provenance = piece.provenance;
        address += part;
        size -= part;
    }
    return true;
}

/* Returns whether this version was read in that time. */
static bool was_read_in(const struct version *v, const struct memory_span *when)
{
    return v->first_before <= when->to && v->last_after >= when->from;
}

/* Narrow a span to the moments that give the same answer. If the moment moves, `when` moves with
 * it. The answer is the same as long as this version stays inside `when` (or outside), and stays
 * read by the moment (or not yet read). */
static void span_narrow_window(struct memory_span *span, uint64_t time, const struct version *v,
                               const struct memory_span *when)
{
    struct memory_span same = {0, UINT64_MAX};
    if (v->first_before > when->to) {
        same.to = time + (v->first_before - when->to - 1);
    } else if (v->last_after < when->from) {
        uint64_t ago = when->from - v->last_after - 1;
        same.from = ago < time ? time - ago : 0;
    } else {
        uint64_t ago = when->to - v->first_before, until = v->last_after - when->from;
        same.from = ago < time ? time - ago : 0;
        same.to = until < UINT64_MAX - time ? time + until : UINT64_MAX;
        if (v->first_before <= time)
            same.from = same.from > v->first_before ? same.from : v->first_before;
        else
            same.to = same.to < v->first_before ? same.to : v->first_before - 1;
    }
    memory_span_narrow(span, &same);
}

/* What is known of a range in a time, and whether any of it is the same. */
struct unlike {
    bool known, same;
};

/* Only versions that have the whole range count. If there are too many to look at all, nothing is
 * known. */
static struct unlike unlike_in_life(const struct memory_log *log, const struct life *life,
                                    uint64_t address, size_t size, uint64_t time,
                                    const struct memory_span *when,
                                    const struct memory_compare *compare, struct memory_span *span)
{
    enum { LOOK = 256 };
    const struct proof p = {log, compare, address, size, when->from};
    struct unlike u = {0};
    size_t first = life->first, end = first + life->nr;
    size_t low = version_behind(log, first, end, address, true, when->to);
    if (low < end && log->versions.at[low].address == address)
        span_narrow_window(span, time, &log->versions.at[low], when);
    for (unsigned i = 0; !u.same && low-- > first && log->ends[low] > address; i++) {
        const struct version *v = &log->versions.at[low];
        if (i == LOOK) {
            memory_span_empty(span);
            return (struct unlike){0};
        }
        if (from_on(v, address) < size)
            continue;
        span_narrow_window(span, time, v, when);
        if (!was_read_in(v, when))
            continue;
        u.same = says_same(&p, v);
        u.known = true;
    }
    return u;
}

/* The memory that a process had before its fork is that of its parent. */
static bool log_unlike(void *context, uint64_t address, size_t size, uint64_t time,
                       const struct memory_span *when, const struct memory_compare *compare,
                       struct memory_span *same)
{
    const struct memory_log_view *view = context;
    const struct memory_log *log = view->log;
    struct memory_span left = *when;
    uint32_t life = log->order == MEMORY_LOG_OTHER_CLOCK ? 0 : life_at(log, view->pid, time);
    bool known = false;
    if (!when->from || !has_one_life(log, view->pid))
        memory_span_empty(same);
    for (unsigned i = 0; life && i < FORKS_MAX; i++) {
        const struct life *l = &log->lives.at[life - 1];
        struct unlike u = unlike_in_life(log, l, address, size, time, &left, compare, same);
        if (u.same)
            return false;
        known |= u.known;
        left.to = l->from < left.to ? l->from : left.to;
        life = l->parent;
    }
    return known;
}

/* Find a version in one life, up to `until`: the memory that a process had before its fork is that
 * of its parent. */
static bool version_in_life(const struct memory_log *log, const struct life *life, uint64_t until,
                            uint64_t address, uint64_t time, bool later, uint64_t *ret)
{
    size_t first = life->first;
    size_t low = version_behind(log, first, first + life->nr, address, false, 0);
    bool found = false;
    if (low == first)
        return false;
    size_t run = (size_t)log->neighbours[low - 1].run + 1, least = log->neighbours[first].run;
    while ((run = run_before(log, run, address)) != SIZE_MAX && run >= least) {
        for (size_t i = log->runs[run]; i < log->runs[run + 1]; i++) {
            const struct version *v = &log->versions.at[i];
            uint64_t at = later ? v->first_before : v->last_before;
            if (!has_byte(v, address) || at > until || (later ? at <= time : at >= time) ||
                (found && (later ? at >= *ret : at <= *ret)))
                continue;
            *ret = at;
            found = true;
        }
    }
    return found;
}

/* The nearest life that has a version decides: later readings are of the process itself. */
static bool log_version(void *context, uint64_t address, uint64_t time, bool later, uint64_t *ret)
{
    const struct memory_log_view *view = context;
    const struct memory_log *log = view->log;
    uint64_t until = UINT64_MAX;
    uint32_t life = log->order == MEMORY_LOG_OTHER_CLOCK ? 0 : life_at(log, view->pid, time);
    for (unsigned i = 0; life && i < FORKS_MAX; i++) {
        const struct life *l = &log->lives.at[life - 1];
        if (version_in_life(log, l, until, address, time, later, ret))
            return true;
        until = l->from < until ? l->from : until;
        life = l->parent;
    }
    return false;
}

struct memory_layer memory_log_layer(const struct memory_log_view *view)
{
    return (struct memory_layer){.name = view->log->order == MEMORY_LOG_RECORDED ? "memory log"
                                                                                 : "snapshot",
                                 .read = log_read,
                                 .peek = log_peek,
                                 .context = (void *)(uintptr_t)view,
                                 .when = MEMORY_OF_OTHER_TIMES,
                                 .has_moments = has_moments(view->log),
                                 .prove = log_prove,
                                 .unlike = log_unlike,
                                 .version = log_version};
}

/* ---- whole recordings ---------------------------------------------------------------------- */

static bool may_hold_log(const struct perfdata *pd)
{
    for (size_t i = 0; i < perfdata_nr_events(pd); i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        if (vmevent_may_be(&e->attr) || perfdata_is_resident(e))
            return true;
    }
    return false;
}

static int take_sample(struct memory_log *log, const struct perfdata *pd, const struct record *rec,
                       struct error *err)
{
    const struct perfdata_event *event = perfdata_event(pd, rec->event);
    const struct perf_event_attr *a = &event->attr;
    struct resident_fault fault;
    struct sample s;
    struct vmevent e;
    struct error ignored;
    bool resident = perfdata_is_resident(event);
    if (!resident && (a->type != PERF_TYPE_SOFTWARE || a->config != PERF_COUNT_SW_BPF_OUTPUT))
        return 0;
    if (perfdata_sample(pd, rec, &s, &ignored) < 0)
        return 0;
    if (resident && perfdata_resident(&s, &fault))
        return faults_take(&log->faults, &s, &fault) ? 0 : error_no_memory(err);
    if (!vmevent_of_sample(&s, &e))
        return allocations_take(&log->allocations, &s) ? 0 : error_no_memory(err);
    if (e.head.kind == VMEVENT_FREED)
        return allocations_freed(&log->allocations, e.head.sequence, rec->time)
                   ? 0
                   : error_no_memory(err);
    if (e.head.kind == VMEVENT_COLLECTED)
        return allocations_collected(&log->allocations, e.head.pid, e.head.tid, rec->time)
                   ? 0
                   : error_no_memory(err);
    return memory_log_add(log, &e, err);
}

bool memory_log_freed(const struct memory_log *log, uint64_t serial, uint64_t *ret)
{
    return allocations_when_freed(&log->allocations, serial, ret);
}

uint64_t memory_log_peak(const struct memory_log *log, enum alloc_kind kind)
{
    return log->allocations.peaks[kind];
}

uint64_t memory_log_known(const struct memory_log *log, enum alloc_kind kind, uint32_t pid,
                          uint32_t tid)
{
    return allocations_known(&log->allocations, kind, pid, tid);
}

bool memory_log_faults(const struct memory_log *log, const struct sample *s,
                       const struct resident_fault *fault, uint64_t *ret)
{
    return faults_halves(&log->faults, s, fault, ret);
}

static int take_mapping(struct memory_log *log, const struct perfdata *pd, const struct record *rec,
                        struct error *err)
{
    enum { DATA_RIGHTS = PROT_READ | PROT_WRITE };
    struct record_mmap map;
    struct error ignored;
    if (perfdata_mmap(pd, rec, &map, &ignored) < 0 || strcmp(map.filename, "//anon") != 0)
        return 0;
    const struct renewal n = {.time = rec->time,
                              .from = map.addr,
                              .to = map.addr + map.len,
                              .pid = map.pid,
                              .kind = !map.is_data                              ? RENEWAL_CODE
                                      : (map.prot & DATA_RIGHTS) == DATA_RIGHTS ? RENEWAL_DATA
                                                                                : RENEWAL_SHUT};
    return renewals_add(&log->renewals, &n) ? 0 : error_no_memory(err);
}

static int take_record(struct memory_log *log, const struct perfdata *pd, const struct record *rec,
                       struct error *err)
{
    struct record_comm comm;
    struct record_task task;
    struct error ignored;
    if (rec->type == PERF_RECORD_SAMPLE)
        return rec->event == PERFDATA_NO_EVENT ? 0 : take_sample(log, pd, rec, err);
    if (rec->type == PERF_RECORD_COMM && perfdata_comm(pd, rec, &comm, &ignored) == 0 && comm.exec)
        return faults_exec(&log->faults, comm.pid, rec->time)
                   ? memory_log_exec(log, comm.pid, rec->time, err)
                   : error_no_memory(err);
    if (rec->type == PERF_RECORD_FORK && perfdata_task(pd, rec, &task, &ignored) == 0 &&
        task.pid != task.ppid && !task.synthesized)
        return memory_log_fork(log, task.ppid, task.pid, rec->time, err);
    if (rec->type == PERF_RECORD_MMAP2)
        return take_mapping(log, pd, rec, err);
    return 0;
}

int memory_log_add_all(struct memory_log *log, struct perfdata *pd, struct error *err)
{
    enum { AT_ONCE = 256 };
    struct record_batch batch = {0};
    int failed = 0;
    for (size_t nr = 1; nr && !failed;) {
        failed = perfdata_read(pd, AT_ONCE, &batch, err);
        nr = batch.nr;
        for (size_t i = 0; i < nr && !failed; i++)
            failed = take_record(log, pd, &batch.records[i], err);
        perfdata_release(pd, &batch);
    }
    record_batch_free(&batch);
    return failed;
}

int memory_log_read(const struct perfdata *pd, struct memory_log **ret, struct error *err)
{
    const struct perfdata_options options = {.unordered = true};
    struct perfdata *again = NULL;
    *ret = NULL;
    if (!may_hold_log(pd) || !perfdata_again(pd))
        return 0;
    if (memory_log_create(ret, err) < 0)
        return -1;
    int failed = perfdata_open(perfdata_again(pd), &options, &again, err);
    if (!failed)
        failed = memory_log_add_all(*ret, again, err);
    if (!failed)
        failed = memory_log_seal(*ret, err);
    perfdata_close(again);
    if (failed) {
        memory_log_free(*ret);
        *ret = NULL;
    }
    return failed;
}

bool memory_log_code_file(const struct memory_log *log, uint32_t pid, uint8_t kind, char path[32])
{
    return log && code_files_path(&log->files, pid, kind, path);
}
