/* SPDX-License-Identifier: GPL-2.0-only */
/* What threads have counted, as perf report -T prints it behind the rows. */
#include "base/hash.h"
#include "base/hash_table.h"
#include "output/output.h"
#include "output/report.h"
#include "session/lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A thread, or what it has counted of one event. */
struct counted {
    uint32_t pid, tid, event;
    uint64_t value;
};

struct counted_list {
    VEC(struct counted) all;
    struct hash_table table;
};

static void counted_list_deinit(struct counted_list *l)
{
    vec_free(&l->all);
    hash_table_free(&l->table);
}

static bool is_same(const struct counted *a, const struct counted *b)
{
    return a->pid == b->pid && a->tid == b->tid && a->event == b->event;
}

static uint64_t hash_of(const struct counted *c)
{
    return hash_combine((uint64_t)c->pid << 32 | c->tid, c->event);
}

static struct counted *find(struct counted_list *l, struct counted c)
{
    if (!l->all.at)
        return NULL;
    uint32_t n = hash_table_find(&l->table, hash_of(&c), i, is_same(&l->all.at[i], &c));
    return n == HASH_TABLE_NONE ? NULL : &l->all.at[n];
}

/* Add a value to those of the same thread and event. */
static bool add(struct counted_list *l, struct counted c)
{
    struct counted *known = find(l, c);
    if (known) {
        known->value += c.value;
        return true;
    }
    return vec_push(&l->all, c) && hash_table_add(&l->table, hash_of(&c), l->all.nr - 1);
}

static unsigned digits(uint64_t value)
{
    unsigned nr = 1;
    for (; value >= 10; value /= 10)
        nr++;
    return nr;
}

/* The columns that a name takes, which may have to be escaped. */
static unsigned shown_size(const char *name)
{
    struct text t = {0};
    text_symbol(&t, name);
    unsigned size = (unsigned)t.size;
    text_free(&t);
    return size;
}

static void widen(unsigned *width, unsigned wanted)
{
    *width = wanted > *width ? wanted : *width;
}

/* The columns: process, thread, and events that were counted (width 0: it was not). */
struct columns {
    unsigned pid, tid, *events;
    size_t nr_events;
};

static void measure(const struct counted_list *counts, const struct report_event *events,
                    struct columns *ret)
{
    vec_foreach (c, &counts->all) {
        widen(&ret->pid, digits(c->pid));
        widen(&ret->tid, digits(c->tid));
        widen(&ret->events[c->event], digits(c->value));
        widen(&ret->events[c->event], shown_size(events[c->event].name));
    }
}

/* Append a title, on the right of its column. */
static void put_right(struct text *t, const char *name, unsigned width)
{
    for (size_t size = shown_size(name); size < width; size++)
        text_char(t, ' ');
    text_symbol(t, name);
}

static void put_table(struct counted_list *counts, const struct counted_list *threads,
                      const struct report_event *events, const struct columns *c, struct text *t)
{
    text_string(t, "# ");
    put_right(t, "PID", c->pid);
    text_string(t, "  ");
    put_right(t, "TID", c->tid);
    for (uint32_t i = 0; i < c->nr_events; i++)
        if (c->events[i]) {
            text_string(t, "  ");
            put_right(t, events[i].name, c->events[i]);
        }
    text_char(t, '\n');
    vec_foreach (thread, &threads->all) {
        text_printf(t, "  %*" PRIu32 "  %*" PRIu32, (int)c->pid, thread->pid, (int)c->tid,
                    thread->tid);
        for (uint32_t i = 0; i < c->nr_events; i++) {
            const struct counted *of =
                c->events[i] ? find(counts, (struct counted){thread->pid, thread->tid, i, 0})
                             : NULL;
            if (c->events[i])
                text_printf(t, "  %*" PRIu64, (int)c->events[i], of ? of->value : 0);
        }
        text_char(t, '\n');
    }
}

int report_put_threads(const struct session_lists *s, const struct report_event *events,
                       size_t nr_events, struct text *out, struct error *err)
{
    struct counted_list counts = {0}, threads = {0};
    struct columns c = {.pid = 3,
                        .tid = 3,
                        .nr_events = nr_events,
                        .events = calloc(nr_events + 1, sizeof(*c.events))};
    bool good = c.events;
    struct session_count one;
    for (size_t i = 0; good && session_count(s, i, &one); i++)
        if (one.event < nr_events)
            good = add(&counts, (struct counted){one.pid, one.tid, one.event, one.value}) &&
                   add(&threads, (struct counted){one.pid, one.tid, 0, 0});
    if (good) {
        measure(&counts, events, &c);
        put_table(&counts, &threads, events, &c, out);
    }
    counted_list_deinit(&counts);
    counted_list_deinit(&threads);
    free(c.events);
    return good && !out->failed ? 0 : error_no_memory(err);
}
