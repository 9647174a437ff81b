/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * See inject.h. Addresses are known when all places are known, at the end of the run. Until then,
 * an unnamed file keeps the future output as items, in the recording's order. Each item has the
 * places of its callchain.
 */
#include "output/inject.h"
#include "base/intern.h"
#include "base/unnamed_file.h"
#include "output/inject_record.h"
#include "output/inject_twin.h"
#include "perfdata/features.h"
#include "session/registers.h"
#include "base/table.h"

#include <errno.h>
#include <limits.h>
#include <perf/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ROUND_BYTES = 4 << 20, /* bytes between two marks; readers sort the records between them */
    BUFFER_BYTES = 1 << 20,
};

enum item_kind {
    ITEM_RECORD,
    ITEM_SAMPLE,
    ITEM_RENEWS, /* a record that replaces the process's mappings */
};

/* An item stands before a record's bytes (padded to a multiple of 8). After the bytes follow
 * `nr_places` entries: struct placed as a worker writes them, struct numbered in the unnamed
 * file. */
struct item {
    uint32_t kind, size; /* `size`: bytes of the record */
    uint32_t nr_places;
    uint16_t chain_at, ip_at; /* offsets in the record; 0: none (the address is not changed) */
    struct inject_moment when;
};
struct placed {
    uint64_t at; /* index of the entry in the chain */
    struct inject_place place;
};
struct numbered {
    uint32_t at, place;
};

struct inject {
    struct replay *replay;
    const char *path;
    struct intern *strings;
    struct inject_images *images;
    FILE *items;
    struct inject_stats stats;
};

struct inject_worker {
    struct inject *inject;
    struct replay_worker *worker;
    struct text items, record;
    VEC(uint64_t) chain;
    VEC(struct placed) places;
    struct inject_twins twins;
    struct inject_stats stats;
};

int inject_create(const char *path, struct replay *r, struct inject **ret, struct error *err)
{
    if (perfdata_swapped(replay_perfdata(r)))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: it is of a machine with the other byte order, whose stacks are not "
                         "unwound; perf already shows all of it",
                         perfdata_path(replay_perfdata(r)));
    struct inject *in = calloc(1, sizeof(*in));
    if (!in)
        return error_no_memory(err);
    in->replay = r;
    in->path = path;
    in->strings = intern_create();
    in->images = inject_images_create(replay_managed_names(r));
    int fd = unnamed_file("inject");
    in->items = fd >= 0 ? fdopen(fd, "w+") : NULL;
    int failed = 0;
    if (!in->items) {
        failed = error_system(err, errno, "cannot make a temporary file");
        if (fd >= 0)
            close(fd);
    } else if (!in->strings || !in->images) {
        failed = error_no_memory(err);
    }
    if (failed) {
        inject_free(in);
        return -1;
    }
    setvbuf(in->items, NULL, _IOFBF, BUFFER_BYTES);
    *ret = in;
    return 0;
}

void inject_free(struct inject *in)
{
    if (!in)
        return;
    if (in->items)
        fclose(in->items);
    inject_images_free(in->images);
    intern_free(in->strings);
    free(in);
}

const struct inject_stats *inject_stats(const struct inject *in)
{
    return &in->stats;
}

/* ---- workers: samples and records become items ---------------------------------------------- */

static int worker_create(void *context, struct replay_worker *rw, void **ret, struct error *err)
{
    struct inject_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return error_no_memory(err);
    w->inject = context;
    w->worker = rw;
    *ret = w;
    return 0;
}

static void worker_free(void *worker)
{
    struct inject_worker *w = worker;
    text_free(&w->items);
    text_free(&w->record);
    vec_free(&w->chain);
    vec_free(&w->places);
    free(w);
}

static void put_item(struct inject_worker *w, const struct item *head)
{
    static const char zeros[8];
    struct item item = *head;
    item.size = (uint32_t)w->record.size;
    item.nr_places = (uint32_t)w->places.nr;
    text_bytes(&w->items, (const char *)&item, sizeof(item));
    text_bytes(&w->items, w->record.at, w->record.size);
    text_bytes(&w->items, zeros, -w->record.size & 7);
    text_bytes(&w->items, (const char *)w->places.at, w->places.nr * sizeof(*w->places.at));
    w->record.size = w->places.nr = 0;
}

static int place_code(struct inject_worker *w, const struct replay_sample *s, const struct frame *f,
                      struct inject_place *ret, struct error *err)
{
    struct named_frame n;
    if (replay_name(w->worker, s, f, &n, err) < 0)
        return -1;
    if (!n.symbol || (n.resolved && n.resolved->symbol))
        return 0;
    ret->language = INJECT_CODE;
    ret->symbol = intern_string(w->inject->strings, n.symbol);
    ret->file = n.file ? intern_string(w->inject->strings, n.file) : NULL;
    ret->line = n.file ? n.line : 0;
    return ret->symbol && (ret->file || !n.file) ? 1 : error_no_memory(err);
}

/* Get the place of a frame whose address tells other tools nothing. Returns 1; 0: the address is
 * enough for them; -1: error. */
static int place_frame(struct inject_worker *w, const struct replay_sample *s,
                       const struct frame *f, struct inject_place *ret, struct error *err)
{
    *ret = (struct inject_place){.provenance = f->provenance};
    static const uint8_t languages[] = {[FRAME_LUA] = INJECT_LUA,
                                        [FRAME_JS] = INJECT_JS,
                                        [FRAME_WASM] = INJECT_WASM,
                                        [FRAME_MANAGED] = INJECT_MANAGED};
    switch (f->kind) {
    case FRAME_LUA:
    case FRAME_JS:
    case FRAME_WASM:
    case FRAME_MANAGED:
        ret->language = languages[f->kind];
        ret->function = f->function;
        ret->line = f->line;
        return 1;
    case FRAME_JIT:
        return place_code(w, s, f, ret, err);
    case FRAME_NATIVE: /* V8's builtins have no names in node's own file */
        w->stats.guessed += f->provenance != PROVENANCE_EXACT;
        return f->code && session_jit_function(s->thread, frame_lookup_pc(f), s->sample->time)
                   ? place_code(w, s, f, ret, err)
                   : 0;
    default:
        return 0;
    }
}

static uint64_t context_of(const struct frame *f)
{
    switch (f->kind) {
    case FRAME_KERNEL:
        return PERF_CONTEXT_KERNEL;
    case FRAME_HYPERVISOR:
        return PERF_CONTEXT_HV;
    case FRAME_GUEST_KERNEL:
        return PERF_CONTEXT_GUEST_KERNEL;
    case FRAME_GUEST_USER:
        return PERF_CONTEXT_GUEST_USER;
    default:
        return PERF_CONTEXT_USER;
    }
}

/* In callchains, a caller that was found by unwinding has an address inside its call, where readers
 * look it up. Callers of a recorded chain keep their address. */
static uint64_t chain_address(struct inject_worker *w, const struct replay_sample *s,
                              const struct frame *f)
{
    bool user = context_of(f) == (uint64_t)PERF_CONTEXT_USER;
    uint64_t pc = s->unwound && user ? frame_lookup_pc(f) : f->pc;
    return f->kind == FRAME_NATIVE && f->code
               ? inject_twin_address(&w->twins, s->thread, f->code, pc)
               : pc;
}

static int take_chain(struct inject_worker *w, const struct replay_sample *s, struct error *err)
{
    uint64_t context = 0;
    w->chain.nr = w->places.nr = 0;
    for (size_t i = 0; i < s->nr_frames; i++) {
        const struct frame *f = &s->frames[i];
        struct placed p;
        int placed = place_frame(w, s, f, &p.place, err);
        if (placed < 0)
            return -1;
        if (context_of(f) != context && !vec_push(&w->chain, context = context_of(f)))
            return error_no_memory(err);
        p.at = w->chain.nr;
        if ((placed && !vec_push(&w->places, p)) || !vec_push(&w->chain, chain_address(w, s, f)))
            return error_no_memory(err);
    }
    return 0;
}

static int inject_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    struct inject_worker *w = worker;
    struct item item = {.kind = ITEM_SAMPLE,
                        .when = {s->sample->pid, s->sample->tid, s->sample->cpu, s->sample->time}};
    size_t chain_at, ip_at;
    if (take_chain(w, s, err) < 0)
        return -1;
    size_t nr =
        inject_put_sample(&w->record, s->sample, w->chain.at, w->chain.nr, &chain_at, &ip_at);
    if (w->record.size > UINT16_MAX)
        return error_set(err, ERROR_UNSUPPORTED, "a sample is too large to be rewritten");
    item.chain_at = (uint16_t)chain_at;
    /* The innermost frame is the first entry after its context. */
    if (w->places.nr && w->places.at[0].at == 1)
        item.ip_at = (uint16_t)ip_at;
    else if (ip_at && s->nr_frames && s->frames[0].kind == FRAME_NATIVE && !w->record.failed)
        memcpy(w->record.at + ip_at, &w->chain.at[1], sizeof(*w->chain.at));
    w->stats.samples++;
    w->stats.cut += chain_at && nr < w->chain.nr;
    if (!chain_at)
        w->places.nr = item.ip_at != 0;
    while (chain_at && w->places.nr && w->places.at[w->places.nr - 1].at >= nr)
        w->places.nr--;
    w->stats.frames += w->places.nr;
    put_item(w, &item);
    return w->items.failed || w->record.failed ? error_no_memory(err) : 0;
}

/* Whether records of this type are kept: the kernel's, and those made by perf that are still
 * true. */
static bool is_kept_type(uint32_t type)
{
    return type < PERF_RECORD_USER_TYPE_START || type == PERF_RECORD_HEADER_BUILD_ID ||
           type == PERF_RECORD_TIME_CONV || type == PERF_RECORD_THREAD_MAP ||
           type == PERF_RECORD_CPU_MAP;
}

static enum item_kind kind_of(const struct perfdata *pd, const struct record *rec, uint32_t *pid)
{
    struct error ignored;
    struct record_comm comm;
    struct record_task task;
    if (rec->type == PERF_RECORD_COMM && perfdata_comm(pd, rec, &comm, &ignored) == 0 && comm.exec)
        return *pid = comm.pid, ITEM_RENEWS;
    if (rec->type == PERF_RECORD_FORK && perfdata_task(pd, rec, &task, &ignored) == 0 &&
        task.pid != task.ppid)
        return *pid = task.pid, ITEM_RENEWS;
    return ITEM_RECORD;
}

static int inject_record(void *worker, const struct record *rec, struct error *err)
{
    struct inject_worker *w = worker;
    const struct perfdata *pd = replay_perfdata(w->inject->replay);
    const struct perfdata_event *e = perfdata_event(pd, rec->event);
    struct item item = {0};
    bool own = e && inject_event_is_own(e);
    w->stats.own += own;
    if (own || rec->type == PERF_RECORD_SAMPLE)
        return 0;
    if (!is_kept_type(rec->type) || rec->size > UINT16_MAX) {
        w->stats.left_out++;
        return 0;
    }
    item.kind = kind_of(pd, rec, &item.when.pid);
    text_bytes(&w->record, (const char *)rec->data, rec->size);
    put_item(w, &item);
    return w->items.failed || w->record.failed ? error_no_memory(err) : 0;
}

/* Called in the batch's turn. Swaps the worker's text with the batch's text. */
static int flush(void *worker, struct text *text, struct error *err)
{
    struct inject_worker *w = worker;
    struct inject_stats *to = &w->inject->stats;
    struct text mine = w->items;
    (void)err;
    w->items = *text;
    *text = mine;
    __atomic_fetch_add(&to->samples, w->stats.samples, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->frames, w->stats.frames, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->cut, w->stats.cut, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->guessed, w->stats.guessed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->own, w->stats.own, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->left_out, w->stats.left_out, __ATOMIC_RELAXED);
    w->stats = (struct inject_stats){0};
    return 0;
}

/* ---- in order: items go to the unnamed file ------------------------------------------------- */

static int keep(struct inject *in, const void *bytes, size_t size, struct error *err)
{
    if (size && fwrite(bytes, 1, size, in->items) != size)
        return error_system(err, errno, "a temporary file cannot be written");
    return 0;
}

static int keep_items(void *context, struct text *text, struct error *err)
{
    struct inject *in = context;
    for (size_t at = 0; at < text->size;) {
        struct item item;
        memcpy(&item, text->at + at, sizeof(item));
        size_t size = sizeof(item) + item.size + (-item.size & 7);
        if (keep(in, text->at + at, size, err) < 0)
            return -1;
        at += size;
        for (uint32_t i = 0; i < item.nr_places; i++, at += sizeof(struct placed)) {
            struct placed p;
            memcpy(&p, text->at + at, sizeof(p));
            struct numbered n = {.at = (uint32_t)p.at};
            if (inject_images_add(in->images, &p.place, &n.place, err) < 0 ||
                keep(in, &n, sizeof(n), err) < 0)
                return -1;
        }
    }
    text->size = 0;
    return 0;
}

struct replay_sink inject_sink(struct inject *in)
{
    return (struct replay_sink){
        .context = in,
        .worker_create = worker_create,
        .worker_free = worker_free,
        .sample = inject_sample,
        .record = inject_record,
        .flush = flush,
        .write = keep_items,
    };
}

/* ---- at the end: write the recording -------------------------------------------------------- */

struct output_file {
    struct inject *inject;
    struct perfdata_writer *writer;
    const struct perfdata_event *event; /* as recorded; our own records carry its id */
    struct table mapped;                /* processes that have the images mapped */
    struct text map;
    VEC(struct numbered) places;
    uint64_t round; /* bytes written up to the last mark */
};

static int write_maps(struct output_file *o, const struct inject_moment *when, struct error *err)
{
    const struct inject_image *image;
    if (table_get(&o->mapped, when->pid))
        return 0;
    for (size_t i = 0; (image = inject_images_at(o->inject->images, i)); i++) {
        o->map.size = 0;
        inject_put_map(&o->map, image, when, o->event);
        if (o->map.failed)
            return error_no_memory(err);
        if (perfdata_writer_record(o->writer, o->map.at, o->map.size, err) < 0)
            return -1;
    }
    return table_put(&o->mapped, when->pid, o) ? 0 : error_no_memory(err);
}

/* Write a mark: readers may sort what precedes it and then forget it. */
static int write_round(struct output_file *o, struct error *err)
{
    const struct perf_event_header mark = {PERF_RECORD_FINISHED_ROUND, 0, sizeof(mark)};
    if (perfdata_writer_bytes(o->writer) - o->round < ROUND_BYTES)
        return 0;
    o->round = perfdata_writer_bytes(o->writer);
    return perfdata_writer_record(o->writer, &mark, sizeof(mark), err);
}

static void set_addresses(const struct output_file *o, const struct item *item, uint8_t *record)
{
    vec_foreach (n, &o->places) {
        uint64_t address = inject_images_address(o->inject->images, n->place);
        if (item->chain_at)
            memcpy(record + item->chain_at + 8 * (size_t)n->at, &address, sizeof(address));
        if (item->ip_at && n == o->places.at)
            memcpy(record + item->ip_at, &address, sizeof(address));
    }
}

static int write_item(struct output_file *o, const struct item *item, uint8_t *record,
                      struct error *err)
{
    set_addresses(o, item, record);
    if (o->places.nr && write_maps(o, &item->when, err) < 0)
        return -1;
    if (item->kind == ITEM_RENEWS)
        table_remove(&o->mapped, item->when.pid);
    if (perfdata_writer_record(o->writer, record, item->size, err) < 0)
        return -1;
    return write_round(o, err);
}

static bool take(FILE *f, void *to, size_t size)
{
    return fread(to, 1, size, f) == size;
}

static int write_items(struct output_file *o, struct error *err)
{
    FILE *f = o->inject->items;
    uint8_t record[INJECT_RECORD_MAX + 8];
    struct item item;
    if (fflush(f) != 0 || fseeko(f, 0, SEEK_SET) < 0)
        return error_system(err, errno, "a temporary file cannot be written");
    while (take(f, &item, sizeof(item))) {
        if (!vec_reserve(&o->places, item.nr_places))
            return error_no_memory(err);
        o->places.nr = item.nr_places;
        if (item.size > UINT16_MAX || !take(f, record, item.size + (-item.size & 7)) ||
            !take(f, o->places.at, item.nr_places * sizeof(*o->places.at)))
            break;
        if (write_item(o, &item, record, err) < 0)
            return -1;
    }
    return ferror(f) || !feof(f) ? error_system(err, errno, "a temporary file cannot be read") : 0;
}

/* Sections that are made again, or that describe what the output does not have, are not kept. Event
 * groups name their leader by its index among the events. */
static bool is_kept_feature(unsigned number, bool events_as_before)
{
    switch (number) {
    case HEADER_EVENT_DESC:
    case HEADER_AUXTRACE:
    case HEADER_STAT:
    case HEADER_DIR_FORMAT:
    case HEADER_COMPRESSED:
        return false;
    case HEADER_GROUP_DESC:
        return events_as_before;
    default:
        return true;
    }
}

static int write_features(struct output_file *o, bool events_as_before, struct error *err)
{
    const struct perfdata *pd = replay_perfdata(o->inject->replay);
    for (unsigned i = 1; i < PERFDATA_FEATURES; i++) {
        size_t size;
        const void *bytes = perfdata_feature(pd, i, &size);
        if (bytes && is_kept_feature(i, events_as_before) &&
            perfdata_writer_feature(o->writer, i, bytes, size, err) < 0)
            return -1;
    }
    return 0;
}

/* Readers reject a file that has tracepoints without the formats of their fields. */
static int check_tracepoint(const struct perfdata *pd, const struct perfdata_event *e,
                            struct error *err)
{
    size_t size;
    if (!e->is_tracepoint || perfdata_feature(pd, HEADER_TRACING_DATA, &size))
        return 0;
    return error_set(err, ERROR_UNSUPPORTED,
                     "%s: it has tracepoints, but not the formats of their fields",
                     perfdata_path(pd));
}

static int open_output(struct output_file *o, struct error *err)
{
    const struct perfdata *pd = replay_perfdata(o->inject->replay);
    size_t nr = perfdata_nr_events(pd), kept = 0;
    bool as_before = true;
    struct perfdata_event *events = calloc(nr + 1, sizeof(*events));
    int failed = 0;
    if (!events)
        return error_no_memory(err);
    for (size_t i = 0; i < nr && !failed; i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        if (inject_event_is_own(e))
            continue;
        as_before &= kept == i;
        o->event = o->event ? o->event : e;
        events[kept] = *e;
        events[kept++].attr = inject_attr(&e->attr);
        failed = check_tracepoint(pd, e, err);
    }
    if (!failed && !kept)
        failed = error_set(err, ERROR_FORMAT, "%s: it has no events except ljperf's own",
                           perfdata_path(pd));
    if (!failed)
        failed = perfdata_writer_create(o->inject->path, &(struct perfdata_writer_options){0},
                                        events, kept, &o->writer, err);
    free(events);
    return failed ? -1 : write_features(o, as_before, err);
}

static int write_output(struct inject *in, struct error *err)
{
    struct output_file o = {.inject = in};
    int failed = open_output(&o, err) < 0 || write_items(&o, err) < 0 ||
                 perfdata_writer_finish(o.writer, err) < 0;
    perfdata_writer_destroy(o.writer);
    table_free(&o.mapped);
    text_free(&o.map);
    vec_free(&o.places);
    return failed ? -1 : 0;
}

int inject_finish(struct inject *in, struct error *err)
{
    char folder[PATH_MAX];
    const struct inject_image *image;
    if ((size_t)snprintf(folder, sizeof(folder), "%s.d", in->path) >= sizeof(folder))
        return error_set(err, ERROR_FORMAT, "%s: the name is too long", in->path);
    if (inject_images_write(in->images, recording_arch(replay_perfdata(in->replay)), folder, err) <
        0)
        return -1;
    for (size_t i = 0; (image = inject_images_at(in->images, i)); i++) {
        in->stats.images++;
        in->stats.functions += image->nr_functions;
        in->stats.places += image->nr_places;
    }
    return write_output(in, err);
}
