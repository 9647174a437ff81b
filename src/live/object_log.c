/* SPDX-License-Identifier: GPL-2.0-only */
/* The object log. See object_log.h. */
#include "live/object_log.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "live/object_size.h"
#include "perfdata/vmevent.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

enum {
    BAD_PAGES = 4096,      /* unmapped pages that are remembered */
    BAD_PASSES = 4,        /* passes for which a page counts as unmapped: a heap grows */
    LINE = 64,             /* bytes of a line: memory outside known objects is logged by lines */
    PAGE = 4096,           /* bytes of a page: objects are found, and memory is read, by pages */
    COPIES = 512,          /* pages that are kept as they were read */
    GROUP_PAGES = 8,       /* adjacent pages that are read at once where reads wait */
    GROUPED_READINGS = 64, /* reads done in groups after a read that waited */
    OBJECTS_MAX = 1 << 16, /* objects known at once */
    CACHED_MAX = 64 << 20, /* bytes of the known objects */
    CHANGES_MAX = 4,       /* changes of an object: bytecode and traces are patched now and then */
    HEAD_MAX = 256,        /* bytes: a larger read is not a read of an object's head */
    EQUAL_FORGIVES_CHANGE = 64, /* equal readings that make up for a change */
    RETIRED_PASSES = 512,       /* passes for which a retired address is not taken for an object */
    STABLE_AFTER_EQUAL = 8,     /* equal readings after which changes are rare */
    IDLE_BUDGET = 64,           /* objects not used lately that are read in a pass */
    BYTES_PER_BUDGET_UNIT = 1024, /* bytes of an object that cost one more unit of a budget */
    RECENT_PASSES = 64, /* passes after which an object does not count as used lately any more */
};

/* Interval at which marks are written, and its maximum. Marks are written regularly because a
 * recorder may be killed. The interval grows so that marks do not fill a recording of hours. */
static const uint64_t REWRITE_MARKS_NS = UINT64_C(5000000000),
                      REWRITE_MARKS_MAX_NS = UINT64_C(120000000000);

/* Longest time of a pass, and of the last pass of a recording. Each read may wait tens of ms for a
 * program that maps and protects memory all the time, and samples wait behind the read. */
static const uint64_t PASS_NS = 10000000, LAST_PASS_NS = 1000000000;

/* A pass does not read again what was read within this time before it: walks have just read the
 * objects that are in use. */
static const uint64_t FRESH_NS = 5000000;

struct object {
    uint64_t address;
    uint8_t *bytes;
    const struct luajit_layout *layout; /* layout by which it was recognised; NULL: plain memory */
    uint64_t before, after;             /* times around the last reading that gave `bytes` */
    uint64_t written;                   /* `before` of the last reading that was written; 0: none */
    uint64_t first_before, first_after; /* pending: times of the first reading of `bytes` */
    uint32_t length;
    uint32_t touched;     /* pass of the last use by a walk */
    uint8_t kind;         /* enum vmentry_kind */
    uint8_t changes;      /* readings that differed, counted to CHANGES_MAX + 1 at most */
    uint8_t equal_since;  /* equal readings that count towards EQUAL_FORGIVES_CHANGE */
    uint8_t equal_streak; /* equal readings in a row, counted to STABLE_AFTER_EQUAL at most */
    bool gone;
    bool pending; /* a pass found these bytes, and no walk has asked for them since */
    bool retired; /* it changes too often for an object: written by lines from now on */
};

/* The objects that have bytes in one page. */
struct page {
    VEC(uint32_t) objects; /* indexes into object_log.objects */
    /* For each line: index + 1 of its newest object if that holds all of the line, else 0. */
    uint32_t newest[PAGE / LINE];
    bool parts; /* some objects hold only part of a line: `newest` may miss them */
};

/* A page of the process as it was read. Many small objects lie in few pages. */
struct copied_page {
    uint64_t number; /* address / PAGE + 1; 0: none */
    uint64_t before, after;
    uint8_t bytes[PAGE];
};

/* A read that takes longer than this, in ns, had to wait. Threads that map and protect memory all
 * the time hold the lock that the read needs, some of them while they do not run. */
static const uint64_t WAITED_NS = 500000;

/* A page that could not be read in a pass. Entries are overwritten by other pages. */
struct bad_page {
    uint64_t number; /* page number + 1; 0: none */
    uint32_t pass;
};

struct object_log {
    struct process_memory *memory;
    VEC(const struct luajit_layout *) layouts;
    VEC(struct object) objects;
    struct table pages; /* address / PAGE -> struct page */
    uint32_t pass;
    size_t sweep_at, late_sweep_at;       /* objects at which the sweeps continue */
    uint64_t read_at;                     /* ns: when the process was last read */
    uint64_t rewritten_at, rewrite_after; /* ns: when marks were last written, and the interval */
    struct object_log_stats stats;
    struct bad_page bad[BAD_PAGES];
    struct copied_page copies[COPIES]; /* indexed by page number modulo COPIES */
    uint32_t waiting;                  /* coming reads that will be done in groups of GROUP_PAGES */
    struct mem_writer out;
};

/* ---- creating ------------------------------------------------------------------------------ */

int object_log_create(pid_t pid, struct process_memory *memory, const struct log_sink *sink,
                      struct object_log **ret, struct error *err)
{
    struct object_log *p = calloc(1, sizeof(*p));
    if (!p) {
        process_memory_close(memory);
        return error_no_memory(err);
    }
    p->out.pid = pid;
    p->out.sink = *sink;
    p->memory = memory;
    p->rewritten_at = sink->now(sink->context);
    p->rewrite_after = REWRITE_MARKS_NS;
    *ret = p;
    return 0;
}

static void forget_all(struct object_log *p)
{
    vec_foreach (o, &p->objects)
        free(o->bytes);
    p->objects.nr = 0;
    vec_foreach (slot, &p->pages) {
        struct page *page = slot->value;
        vec_free(&page->objects);
        free(page);
    }
    table_free(&p->pages);
    p->pages = (struct table){0};
    p->stats.objects = p->stats.cached = 0;
    p->sweep_at = p->late_sweep_at = 0;
}

void object_log_free(struct object_log *p)
{
    if (!p)
        return;
    forget_all(p);
    vec_free(&p->objects);
    vec_free(&p->layouts);
    process_memory_close(p->memory);
    free(p);
}

int object_log_layout(struct object_log *p, const struct luajit_layout *layout, struct error *err)
{
    vec_foreach (l, &p->layouts) {
        if (*l == layout)
            return 0;
    }
    return vec_push(&p->layouts, layout) ? 0 : error_no_memory(err);
}

uint64_t object_log_read_at(const struct object_log *p)
{
    return p->read_at;
}

struct object_log_stats object_log_stats(const struct object_log *p)
{
    struct object_log_stats stats = p->stats;
    stats.bytes = p->out.bytes;
    return stats;
}

struct process_memory *object_log_memory(struct object_log *p)
{
    return p->memory;
}

static uint64_t now(const struct object_log *p)
{
    return mem_writer_now(&p->out);
}

uint64_t object_log_now(const struct object_log *p)
{
    return now(p);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Write an entry for `o`. `flags`: VMENTRY_UNCHANGED for a mark. Contents that a full log does not
 * take are counted, and never get a mark. */
static void tell(struct object_log *p, struct object *o, uint8_t flags)
{
    if (!(flags & VMENTRY_UNCHANGED) && p->out.sink.full && p->out.sink.full(p->out.sink.context)) {
        p->stats.unwritten++;
        o->written = 0;
        return;
    }
    const struct vmevent_entry entry = {.address = o->address,
                                        .length = o->length,
                                        .kind = o->kind,
                                        .flags = flags,
                                        .before = o->before,
                                        .after = o->after,
                                        .bytes = o->bytes};
    mem_writer_put(&p->out, &entry);
    p->stats.written += !(flags & VMENTRY_UNCHANGED);
    p->stats.marks += (flags & VMENTRY_UNCHANGED) != 0;
    o->written = o->before;
}

void object_log_put(struct object_log *p, const struct vmevent_entry *entry)
{
    if (!p->out.sink.full || !p->out.sink.full(p->out.sink.context))
        mem_writer_put(&p->out, entry);
}

/* Write a mark for the last reading that was equal, if it is not written yet. */
static void tell_mark(struct object_log *p, struct object *o)
{
    if (o->written && o->written != o->before)
        tell(p, o, VMENTRY_UNCHANGED);
}

/* Note that a walk uses the object. Changes that a pass found in plain memory are written only now,
 * with the time at which they were found: walks do not ask for most of that memory again, and a
 * program that generates code for ever would fill the log. */
static void touch(struct object_log *p, struct object *o)
{
    o->touched = p->pass;
    if (!o->pending)
        return;
    uint64_t before = o->before, after = o->after;
    o->pending = false;
    o->before = o->first_before;
    o->after = o->first_after;
    tell(p, o, 0);
    o->before = before;
    o->after = after;
}

int object_log_flush(struct object_log *p, struct error *err)
{
    vec_foreach (o, &p->objects)
        tell_mark(p, o);
    p->rewritten_at = now(p);
    return mem_writer_send(&p->out, err);
}

void object_log_rewrite(struct object_log *p)
{
    mem_writer_drop(&p->out);
    forget_all(p);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Whether the page is known to be unmapped: walks that search try the same unmapped addresses again
 * and again. */
static bool is_known_bad(const struct object_log *p, uint64_t address)
{
    uint64_t number = address / PAGE;
    const struct bad_page *b = &p->bad[hash_u64(number) % BAD_PAGES];
    return b->number == number + 1 && p->pass - b->pass < BAD_PASSES;
}

static void note_bad(struct object_log *p, uint64_t address)
{
    uint64_t number = address / PAGE;
    p->bad[hash_u64(number) % BAD_PAGES] = (struct bad_page){number + 1, p->pass};
}

static void note_waiting(struct object_log *p, uint64_t before)
{
    if (p->read_at - before > WAITED_NS)
        p->waiting = GROUPED_READINGS;
    else if (p->waiting)
        p->waiting--;
}

/* Read the page together with its neighbours: walks ask for many objects in them next. */
static bool copy_group(struct object_log *p, uint64_t number)
{
    uint8_t bytes[GROUP_PAGES * PAGE];
    uint64_t first = number - number % GROUP_PAGES, before = now(p);
    p->stats.reads++;
    bool got = process_memory_read(p->memory, first * PAGE, bytes, sizeof(bytes));
    p->read_at = now(p);
    note_waiting(p, before);
    for (uint64_t i = 0; got && i < GROUP_PAGES; i++) {
        struct copied_page *c = &p->copies[(first + i) % COPIES];
        c->number = first + i + 1;
        c->before = before;
        c->after = p->read_at;
        memcpy(c->bytes, bytes + i * PAGE, PAGE);
    }
    return got;
}

/* Returns the page as it was at `since` or later; NULL: it cannot be read. */
static const struct copied_page *copy_page(struct object_log *p, uint64_t number, uint64_t since)
{
    struct copied_page *c = &p->copies[number % COPIES];
    if (c->number == number + 1 && c->before >= since)
        return c;
    if (is_known_bad(p, number * PAGE))
        return NULL;
    if (p->waiting && copy_group(p, number))
        return c;
    c->number = 0;
    c->before = now(p);
    p->stats.reads++;
    bool got = process_memory_read(p->memory, number * PAGE, c->bytes, PAGE);
    p->read_at = now(p);
    note_waiting(p, c->before);
    if (!got) {
        note_bad(p, number * PAGE);
        return NULL;
    }
    c->after = p->read_at;
    c->number = number + 1;
    return c;
}

/* A reading of the process, at `since` or later. */
struct reading {
    uint64_t since;
    uint64_t before, after; /* times around the reading */
};

static bool fetch(struct object_log *p, uint64_t address, void *to, size_t size, struct reading *r)
{
    uint64_t number = address / PAGE;
    if (size <= PAGE / 2 && (address + size - 1) / PAGE == number) {
        const struct copied_page *c = copy_page(p, number, r->since);
        if (!c)
            return false;
        memcpy(to, c->bytes + address % PAGE, size);
        r->before = c->before;
        r->after = c->after;
        return true;
    }
    p->stats.reads++;
    r->before = now(p);
    bool got = process_memory_read(p->memory, address, to, size);
    r->after = p->read_at = now(p);
    return got;
}

static bool is_same(const struct object *o, const uint8_t *bytes)
{
    return o->layout ? object_same(o->layout, o->bytes, bytes, o->length)
                     : !memcmp(o->bytes, bytes, o->length);
}

static struct page *page_of(struct object_log *p, uint64_t number)
{
    struct page *page = table_get(&p->pages, number + 1);
    if (page)
        return page;
    page = calloc(1, sizeof(*page));
    if (page && table_put(&p->pages, number + 1, page))
        return page;
    free(page);
    return NULL;
}

static void note_lines(struct page *page, uint64_t start, const struct object *o, uint32_t index)
{
    uint64_t end = o->address + o->length;
    for (uint64_t at = start; at < start + PAGE; at += LINE) {
        if (at >= o->address && at + LINE <= end) {
            page->newest[(at - start) / LINE] = index + 1;
        } else if (at < end && at + LINE > o->address) {
            page->newest[(at - start) / LINE] = 0;
            page->parts = true;
        }
    }
}

/* Note that an object no longer holds its lines of this page. */
static void forget_lines(struct page *page, uint32_t index)
{
    for (unsigned i = 0; i < PAGE / LINE; i++) {
        if (page->newest[i] == index + 1)
            page->newest[i] = 0;
    }
    page->parts = true;
}

static bool note_pages(struct object_log *p, const struct object *o, uint32_t index)
{
    for (uint64_t n = o->address / PAGE; n <= (o->address + o->length - 1) / PAGE; n++) {
        struct page *page = page_of(p, n);
        if (!page || !vec_push(&page->objects, index))
            return false;
        note_lines(page, n * PAGE, o, index);
    }
    return true;
}

struct head_reader {
    struct object_log *process;
    uint64_t since;
};

/* Read for object_size(), from a kept page. The object itself comes from that page, too. */
static bool read_head(void *reader, uint64_t address, void *to, size_t size)
{
    const struct head_reader *h = reader;
    struct reading r = {.since = h->since};
    return fetch(h->process, address, to, size, &r);
}

/* How to read known objects again. `for_later`: plain memory that differs is written when a walk
 * asks for it; everything else that differs is written at once. */
struct pass {
    uint64_t since, until;
    uint8_t *spare; /* buffer for one object */
    bool for_later;
};

/* Read an object that has replaced a known one of another size: all of it, to its own end, so that
 * the caller can write it. False: it cannot be read, or there is no room. */
static bool renew(struct object_log *p, struct object *o, uint32_t length, uint64_t since)
{
    struct reading r = {.since = since};
    uint8_t *bytes = p->stats.cached + length <= CACHED_MAX ? malloc(length) : NULL;
    if (!bytes || !fetch(p, o->address, bytes, length, &r)) {
        free(bytes);
        return false;
    }
    for (uint64_t n = o->address / PAGE; n <= (o->address + o->length - 1) / PAGE; n++) {
        struct page *page = table_get(&p->pages, n + 1);
        if (page)
            forget_lines(page, (uint32_t)(o - p->objects.at));
    }
    p->stats.cached += (uint64_t)length - o->length;
    free(o->bytes);
    o->bytes = bytes;
    o->length = length;
    o->before = r.before;
    o->after = r.after;
    (void)note_pages(p, o, (uint32_t)(o - p->objects.at)); /* on failure it is learnt again */
    return true;
}

/* Returns the size of the object that is now at the address of `o`; the size of `o` where this
 * cannot be found. */
static uint32_t length_now(struct object_log *p, const struct object *o, uint64_t since)
{
    struct head_reader head = {p, since};
    const struct object_reader reader = {.read = read_head, .context = &head};
    uint64_t length = o->layout ? object_size(&reader, o->layout, o->address) : 0;
    return length && length <= OBJECT_MAX ? (uint32_t)length : o->length;
}

/* Read a known object again, as it was at `since` or later. If it is equal, its times are updated;
 * if it differs, it is written. */
static void refresh(struct object_log *p, struct object *o, const struct pass *pass)
{
    struct reading r = {.since = pass->since};
    uint8_t *spare = pass->spare;
    if (!fetch(p, o->address, spare, o->length, &r)) {
        tell_mark(p, o);
        p->stats.gone += !o->gone;
        o->gone = true;
        return;
    }
    o->gone = false;
    if (is_same(o, spare)) {
        o->before = r.before;
        o->after = r.after;
        o->equal_since = o->equal_since < EQUAL_FORGIVES_CHANGE ? o->equal_since + 1 : 0;
        o->changes -= o->changes && !o->equal_since;
        o->equal_streak += o->equal_streak < STABLE_AFTER_EQUAL;
        return;
    }
    p->stats.changed_after_stable += o->equal_streak == STABLE_AFTER_EQUAL;
    o->equal_streak = 0;
    tell_mark(p, o);
    uint32_t length = length_now(p, o, pass->since);
    if (length == o->length || !renew(p, o, length, pass->since)) {
        memcpy(o->bytes, spare, o->length);
        o->before = r.before;
        o->after = r.after;
    }
    p->stats.changed++;
    o->pending = false;
    o->changes += o->changes <= CHANGES_MAX;
    if (o->kind == VMENTRY_OBJECT && o->changes > CHANGES_MAX) {
        o->retired = true;
        o->written = 0; /* the new bytes are not written: no mark may call them unchanged */
        o->touched = p->pass;
        return;
    }
    if (pass->for_later && o->kind == VMENTRY_BYTES) {
        o->pending = true;
        o->first_before = r.before;
        o->first_after = r.after;
        o->written = 0;
        return;
    }
    tell(p, o, 0);
}

static bool refresh_one(struct object_log *p, struct object *o, uint64_t since)
{
    const struct pass pass = {.since = since, .spare = malloc(o->length)};
    if (!pass.spare)
        return false;
    refresh(p, o, &pass);
    free(pass.spare);
    return !o->gone && !o->retired;
}

/* Read a range that is not known yet, and log it. Returns NULL when it cannot be read, or there is
 * no room. */
static struct object *learn(struct object_log *p, uint64_t address, uint32_t length, uint8_t kind,
                            uint64_t since)
{
    struct reading r = {.since = since};
    struct object o = {.address = address, .length = length, .kind = kind, .touched = p->pass};
    if (p->objects.nr >= OBJECTS_MAX || p->stats.cached + length > CACHED_MAX) {
        p->stats.refused++;
        return NULL;
    }
    o.bytes = malloc(length);
    if (!o.bytes || !fetch(p, address, o.bytes, length, &r)) {
        free(o.bytes);
        return NULL;
    }
    o.before = r.before;
    o.after = r.after;
    if (!vec_push(&p->objects, o)) {
        free(o.bytes);
        return NULL;
    }
    struct object *known = &p->objects.at[p->objects.nr - 1];
    (void)note_pages(p, known, (uint32_t)p->objects.nr - 1); /* on failure it is learnt again */
    p->stats.objects++;
    p->stats.cached += length;
    tell(p, known, 0);
    return known;
}

static bool holds(const struct object *o, uint64_t address, size_t size)
{
    uint64_t into = address - o->address;
    return into < o->length && size <= o->length - into;
}

/* Returns the known object that holds the whole range. */
static struct object *find(const struct object_log *p, uint64_t address, size_t size)
{
    const struct page *page = table_get(&p->pages, address / PAGE + 1);
    uint32_t newest = page ? page->newest[address % PAGE / LINE] : 0;
    struct object *first = newest ? &p->objects.at[newest - 1] : NULL;
    if (first && !first->retired && holds(first, address, size))
        return first;
    if (!first && page && !page->parts) /* no object is in the line */
        return NULL;
    for (size_t i = page ? page->objects.nr : 0; i-- > 0;) {
        struct object *o = &p->objects.at[page->objects.at[i]];
        if (!o->retired && holds(o, address, size))
            return o;
    }
    return NULL;
}

/* Returns the known object that begins at `address`. It may be shorter than the range that a walk
 * asked for. */
static struct object *find_at(const struct object_log *p, uint64_t address)
{
    struct object *o = find(p, address, 1);
    return o && o->kind == VMENTRY_OBJECT && o->address == address ? o : NULL;
}

static bool is_retired(const struct object_log *p, uint64_t address)
{
    const struct page *page = table_get(&p->pages, address / PAGE + 1);
    for (size_t i = page ? page->objects.nr : 0; i-- > 0;) {
        const struct object *o = &p->objects.at[page->objects.at[i]];
        if (o->retired && o->address == address && p->pass - o->touched < RETIRED_PASSES)
            return true;
    }
    return false;
}

static struct object *learn_object(struct object_log *p, uint64_t address, size_t size,
                                   uint64_t since)
{
    vec_foreach (layout, &p->layouts) {
        struct head_reader head = {p, since};
        const struct object_reader reader = {.read = read_head, .context = &head};
        if (is_retired(p, address))
            break;
        uint64_t length = size <= HEAD_MAX ? object_size(&reader, *layout, address) : 0;
        if (!length || length > OBJECT_MAX)
            continue;
        struct object *o = learn(p, address, (uint32_t)length, VMENTRY_OBJECT, since);
        if (o)
            o->layout = *layout;
        struct object_extra extra;
        if (o && object_extra(*layout, o->bytes, o->length, &extra) &&
            !find(p, extra.address, extra.length)) {
            size_t index = (size_t)(o - p->objects.at);
            (void)learn(p, extra.address, extra.length, VMENTRY_OBJECT, since); /* a trace's code */
            o = &p->objects.at[index];
        }
        if (o)
            return o;
    }
    return NULL;
}

static struct object *learn_lines(struct object_log *p, uint64_t address, size_t size,
                                  uint64_t since)
{
    uint64_t start = address & ~(uint64_t)(LINE - 1);
    uint64_t end = (address + size + LINE - 1) & ~(uint64_t)(LINE - 1);
    return end - start <= OBJECT_MAX
               ? learn(p, start, (uint32_t)(end - start), VMENTRY_BYTES, since)
               : NULL;
}

static bool layer_read(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    struct object_log *p = context;
    if (!q->size || q->size > OBJECT_MAX || q->address > UINT64_MAX - OBJECT_MAX - LINE)
        return false;
    struct object *o = find(p, q->address, q->size);
    if (o && (o->gone || o->before < q->time) && !refresh_one(p, o, q->time)) {
        if (!o->retired)
            return false;
        o = NULL;
    }
    if (o && !holds(o, q->address, q->size)) /* replaced by a shorter object */
        o = NULL;
    if (!o && q->size <= HEAD_MAX)
        o = find_at(p, q->address);
    if (!o && is_known_bad(p, q->address))
        return false;
    if (!o && q->size > sizeof(uint64_t)) /* a read of a word is not a read of an object's head */
        o = learn_object(p, q->address, q->size, q->time);
    if (!o)
        o = learn_lines(p, q->address, q->size, q->time);
    if (!o) { /* no room in the log: the walk gets the bytes all the same */
        struct reading r = {.since = q->time};
        answer->provenance = PROVENANCE_STALE;
        return fetch(p, q->address, to, q->size, &r);
    }
    touch(p, o);
    if (q->size > o->length - (q->address - o->address))
        return false; /* the object is shorter: callers that read a head try a smaller one */
    answer->provenance = PROVENANCE_STALE;
    memcpy(to, o->bytes + (q->address - o->address), q->size);
    return true;
}

struct memory_layer object_log_layer(struct object_log *p)
{
    return (struct memory_layer){.name = "live", .read = layer_read, .context = p};
}

void object_log_object(struct object_log *p, uint64_t address, uint64_t time)
{
    struct object *o = find_at(p, address);
    if (!o)
        o = is_known_bad(p, address) ? NULL : learn_object(p, address, HEAD_MAX, time);
    else if (o->before < time)
        (void)refresh_one(p, o, time); /* writes the object if it has changed */
    if (o)
        touch(p, o);
}

bool object_log_range(struct object_log *p, uint64_t address, size_t size, uint64_t time)
{
    if (!size || size > OBJECT_MAX || address > UINT64_MAX - OBJECT_MAX)
        return false;
    struct object *o = find(p, address, size);
    if (o && o->before < time && !refresh_one(p, o, time))
        return false;
    if (!o || !holds(o, address, size))
        return learn(p, address, (uint32_t)size, VMENTRY_STACK, time) != NULL;
    touch(p, o);
    return true;
}

/* ---- passes -------------------------------------------------------------------------------- */

/* When the tables are full, forget everything. Objects in use will be learnt and written again. */
static void make_room(struct object_log *p)
{
    if (p->objects.nr < OBJECTS_MAX && p->stats.cached + OBJECT_MAX < CACHED_MAX)
        return;
    vec_foreach (o, &p->objects)
        tell_mark(p, o);
    forget_all(p);
}

/* Objects that change all the time are read only when a walk asks for them. */
static bool is_steady(const struct object *o)
{
    return o->changes <= CHANGES_MAX && !o->retired;
}

static bool is_late(const struct object_log *p, const struct object *o)
{
    return p->pass - o->touched <= RECENT_PASSES && !o->gone;
}

/* Read the objects that were used lately (`late`), or the others, again, continuing where the last
 * sweep ended. Returns what is left of the budget. */
static size_t sweep(struct object_log *p, bool late, size_t budget, const struct pass *pass,
                    size_t *sweep_at)
{
    for (size_t i = 0; i < p->objects.nr && budget && p->read_at < pass->until; i++) {
        *sweep_at = *sweep_at + 1 < p->objects.nr ? *sweep_at + 1 : 0;
        struct object *o = &p->objects.at[*sweep_at];
        if (!is_steady(o) || is_late(p, o) != late || o->before >= pass->since)
            continue;
        refresh(p, o, pass);
        size_t cost = 1 + o->length / BYTES_PER_BUDGET_UNIT;
        budget -= cost < budget ? cost : budget;
    }
    return budget;
}

int object_log_pass(struct object_log *p, size_t budget, struct error *err)
{
    uint8_t *spare = malloc(OBJECT_MAX);
    if (!spare)
        return error_no_memory(err);
    p->pass++;
    mem_writer_looks(&p->out, p->out.pid);
    make_room(p);
    const uint64_t begin = now(p);
    const struct pass pass = {
        .since = begin - (budget == SIZE_MAX ? 0 : FRESH_NS),
        .until = begin + (budget == SIZE_MAX ? LAST_PASS_NS : PASS_NS),
        .spare = spare,
        .for_later = budget != SIZE_MAX,
    };
    size_t left = sweep(p, true, budget, &pass, &p->late_sweep_at);
    size_t idle = budget == SIZE_MAX || left < IDLE_BUDGET ? left : IDLE_BUDGET;
    sweep(p, false, idle, &pass, &p->sweep_at);
    free(spare);
    if (now(p) - p->rewritten_at > p->rewrite_after) {
        p->rewrite_after = 2 * p->rewrite_after < REWRITE_MARKS_MAX_NS ? 2 * p->rewrite_after
                                                                       : REWRITE_MARKS_MAX_NS;
        return object_log_flush(p, err);
    }
    return mem_writer_send(&p->out, err);
}
