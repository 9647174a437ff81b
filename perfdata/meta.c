/* SPDX-License-Identifier: GPL-2.0-only */
/* Handles records that describe the recording itself: events, features, tracing data, and
 * losses. */
#include "perfdata/perfdata_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int bad(struct perfdata *pd)
{
    pd->loss.records_bad++;
    return 0;
}

/* HEADER_ATTR: attr.size bytes, then ids to the end. */
static int attr_apply(struct perfdata *pd, const struct record *rec, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    struct perf_event_attr attr;
    if (!pd->pipe || pd->started)
        return 0; /* the attrs of a file are in its header */
    if (attr_parse_own(&c, &attr) < 0)
        return bad(pd);
    struct event *e = event_add(pd, &attr, err);
    if (!e)
        return -1;
    while (cursor_left(&c) >= sizeof(uint64_t))
        if (event_add_id(pd, e, cursor_u64(&c), err) < 0)
            return -1;
    return events_complete(pd, err);
}

/* EVENT_UPDATE: u64 type, u64 id, payload. */
static int update_apply(struct perfdata *pd, const struct record *rec, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    uint64_t type = cursor_u64(&c), id = cursor_u64(&c);
    struct event *e = event_by_id(pd, id);
    if (pd->started || !e)
        return 0;
    if (type == PERF_EVENT_UPDATE__SCALE) {
        uint64_t bits = cursor_u64(&c);
        if (!c.failed)
            memcpy(&e->pub.scale, &bits, sizeof(bits));
    } else if (type == PERF_EVENT_UPDATE__NAME || type == PERF_EVENT_UPDATE__UNIT) {
        const char *text = cursor_string(&c);
        if (text && type == PERF_EVENT_UPDATE__NAME)
            return event_set_name(e, text, strlen(text), err);
        if (text) {
            free(e->unit);
            e->pub.unit = e->unit = strdup(text);
            return e->unit ? 0 : error_no_memory(err);
        }
    }
    return c.failed ? bad(pd) : 0;
}

static int feature_apply(struct perfdata *pd, const struct record *rec, struct error *err)
{
    struct cursor c = record_cursor(pd, rec);
    uint64_t number = cursor_u64(&c);
    if (c.failed)
        return bad(pd);
    if (pd->started || number >= FEATURES || !cursor_left(&c) || pd->features[number].present)
        return 0;
    return feature_add(pd, (unsigned)number, c.at, cursor_left(&c), cursor_offset(&c), err);
}

/* Keep the tracing data as a feature section, as a file has it, for code that writes a file. */
static int tracing_keep(struct perfdata *pd, const uint8_t *bytes, uint64_t size, struct error *err)
{
    struct feature *f = &pd->features[HEADER_TRACING_DATA];
    if (f->present)
        return 0;
    uint8_t *owned = malloc(size);
    if (!owned)
        return error_no_memory(err);
    memcpy(owned, bytes, size);
    *f = (struct feature){.bytes = owned, .owned = owned, .size = size, .present = true};
    return 0;
}

/* The payload follows the record. Only the record itself is delivered. */
static int tracing_apply(struct perfdata *pd, struct record *rec, struct error *err)
{
    if (rec->size < RECORD_HEADER + sizeof(uint32_t))
        return bad(pd);
    uint64_t size = load_u32(rec->data + RECORD_HEADER, pd->swap);
    uint64_t own = load_u16(rec->data + 6, pd->swap);
    int r = 0;
    if (rec->size >= own + size && size && !pd->tracing && !pd->started)
        r = tracing_create(rec->data + own, size, &pd->tracing, err) < 0
                ? -1
                : tracing_keep(pd, rec->data + own, size, err);
    rec->size = (uint32_t)own;
    return r;
}

static void time_conv_apply(struct perfdata *pd, const struct record *rec)
{
    struct cursor c = record_cursor(pd, rec);
    struct perfdata_time_conv t = {cursor_u64(&c), cursor_u64(&c), cursor_u64(&c), 0, 0, 0, 0};
    if (c.failed) {
        bad(pd);
        return;
    }
    t.mask = UINT64_MAX; /* the short form, where the counter never wraps */
    if (cursor_left(&c) >= 2 * sizeof(uint64_t) + 2) {
        t.cycles = cursor_u64(&c);
        t.mask = cursor_u64(&c);
        t.cap_zero = cursor_u8(&c);
        t.cap_short = cursor_u8(&c);
    }
    pd->time_conv = t;
    pd->has_time_conv = true;
}

/* Add the count in u64 number `at` of the record to *sum. */
static void count_apply(struct perfdata *pd, const struct record *rec, unsigned at, uint64_t *sum)
{
    struct cursor c = record_cursor(pd, rec);
    cursor_skip(&c, 8 * (uint64_t)at);
    uint64_t lost = cursor_u64(&c);
    if (c.failed)
        bad(pd);
    else if (__builtin_add_overflow(*sum, lost, sum))
        *sum = UINT64_MAX;
}

/* The dummy event takes no samples: what it loses are records of mappings and processes. A program
 * that filters samples (BPF) has wanted those that it drops. */
static void lost_samples_apply(struct perfdata *pd, const struct record *rec)
{
    enum { DROPPED_BY_FILTER = 1 << 15 }; /* PERF_RECORD_MISC_LOST_SAMPLES_BPF */
    /* In a pipe, events may come later. */
    const struct event *first = pd->nr_events ? event_at(pd, 0) : NULL, *e = NULL;
    if (rec->misc & DROPPED_BY_FILTER)
        return;
    if (first && first->id_back && rec->size >= RECORD_HEADER + 2 * sizeof(uint64_t))
        e = event_by_id(pd, load_u64(rec->data + rec->size - 8, pd->swap));
    bool dummy =
        e && e->pub.attr.type == PERF_TYPE_SOFTWARE && e->pub.attr.config == PERF_COUNT_SW_DUMMY;
    count_apply(pd, rec, 0, dummy ? &pd->loss.records_lost : &pd->loss.samples_lost);
}

int meta_apply(struct perfdata *pd, struct record *rec, struct error *err)
{
    switch (rec->type) {
    case PERF_RECORD_LOST:
        count_apply(pd, rec, 1, &pd->loss.events_lost);
        return 0;
    case PERF_RECORD_LOST_SAMPLES:
        lost_samples_apply(pd, rec);
        return 0;
    case PERF_RECORD_THROTTLE:
        pd->loss.throttled++;
        return 0;
    case PERF_RECORD_HEADER_ATTR:
        return attr_apply(pd, rec, err);
    case PERF_RECORD_EVENT_UPDATE:
        return update_apply(pd, rec, err);
    case PERF_RECORD_HEADER_FEATURE:
        return feature_apply(pd, rec, err);
    case PERF_RECORD_HEADER_TRACING_DATA:
        return tracing_apply(pd, rec, err);
    case PERF_RECORD_TIME_CONV:
        time_conv_apply(pd, rec);
        return 0;
    default:
        return 0;
    }
}
