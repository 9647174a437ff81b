/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorded events: their ids and names, and where their records hold the time and the id. */
#include "perfdata/perfdata_internal.h"

#include "base/hash.h"

#include <stdlib.h>

struct event *event_add(struct perfdata *pd, const struct perf_event_attr *attr, struct error *err)
{
    if (pd->nr_events >= EVENTS_MAX) {
        error_set(err, ERROR_UNSUPPORTED, "%s: more than %d events", pd->path, EVENTS_MAX);
        return NULL;
    }
    struct event **block = &pd->blocks[pd->nr_events / EVENT_BLOCK];
    if (!*block)
        *block = calloc(EVENT_BLOCK, sizeof(**block));
    if (!*block) {
        error_no_memory(err);
        return NULL;
    }
    struct event *e = event_at(pd, pd->nr_events);
    e->pub.attr = *attr;
    e->pub.index = e->pub.leader = (unsigned)pd->nr_events;
    e->pub.name = "";
    e->pub.scale = 1;
    e->pub.is_tracepoint = attr->type == PERF_TYPE_TRACEPOINT;
    pd->nr_events++;
    return e;
}

/* Returns the index of the event in `known_ids`; HASH_TABLE_NONE: no event has the id. */
static uint32_t id_find(const struct perfdata *pd, uint64_t id)
{
    return hash_table_find(&pd->id_table, hash_u64(id), i, pd->known_ids.at[i].id == id);
}

int event_add_id(struct perfdata *pd, struct event *e, uint64_t id, struct error *err)
{
    const struct known_id owner = {id, e->pub.index};
    /* An id that occurs twice belongs to the first event. */
    uint32_t n = hash_table_intern(&pd->id_table, hash_u64(id), &pd->known_ids, i,
                                   pd->known_ids.at[i].id == id, owner);
    if (n == HASH_TABLE_NONE || !vec_push(&e->ids, id))
        return error_no_memory(err);
    e->pub.ids = e->ids.at;
    e->pub.nr_ids = e->ids.nr;
    return 0;
}

struct event *event_by_id(struct perfdata *pd, uint64_t id)
{
    if (pd->last_event && pd->last_id == id)
        return event_at(pd, pd->last_event - 1);
    uint32_t n = id_find(pd, id);
    if (n == HASH_TABLE_NONE)
        return NULL;
    pd->last_id = id;
    pd->last_event = pd->known_ids.at[n].event + 1;
    return event_at(pd, pd->last_event - 1);
}

const struct perfdata_event *perfdata_event_by_id(const struct perfdata *pd, uint64_t id)
{
    uint32_t n = id_find(pd, id);
    return n != HASH_TABLE_NONE ? &event_at(pd, pd->known_ids.at[n].event)->pub : NULL;
}

int event_set_name(struct event *e, const char *name, size_t size, struct error *err)
{
    char *copy = strndup(name, size);
    if (!copy)
        return error_no_memory(err);
    free(e->name);
    e->pub.name = e->name = copy;
    return 0;
}

int events_name(struct perfdata *pd, struct error *err)
{
    for (size_t i = 0; i < pd->nr_events; i++) {
        struct event *e = event_at(pd, i);
        if (e->name)
            continue;
        if (e->pub.is_tracepoint && pd->tracing)
            e->name = tracing_event_name(pd->tracing, e->pub.attr.config);
        if (!e->name)
            e->name = attr_name(&e->pub.attr);
        if (!e->name)
            return error_no_memory(err);
        e->pub.name = e->name;
    }
    return 0;
}

/* ---- where records hold time and id ------------------------------------------------------- */

/* Returns the offset in a SAMPLE of the field with bit `wanted`. Only fields of fixed size come
 * before it. */
static uint16_t sample_offset(uint64_t type, uint64_t wanted)
{
    static const uint64_t ORDER[] = {PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
                                     PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID};
    uint16_t at = RECORD_HEADER;
    if (!(type & wanted))
        return 0;
    for (size_t i = 0; ORDER[i] != wanted; i++)
        at += type & ORDER[i] ? 8 : 0;
    return at;
}

static const uint64_t TRAILER[] = {PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
                                   PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER};
enum { TRAILER_FIELDS = sizeof(TRAILER) / sizeof(TRAILER[0]) };

/* Returns the distance from a record's end to the trailer field with bit `wanted`. */
static uint16_t trailer_offset(uint64_t type, uint64_t wanted)
{
    uint16_t back = 0;
    if (!(type & wanted))
        return 0;
    for (size_t i = TRAILER_FIELDS; i-- > 0;) {
        back += type & TRAILER[i] ? 8 : 0;
        if (TRAILER[i] == wanted)
            break;
    }
    return back;
}

uint16_t trailer_size(uint64_t type)
{
    uint16_t size = 0;
    for (size_t i = 0; i < TRAILER_FIELDS; i++)
        size += type & TRAILER[i] ? 8 : 0;
    return size;
}

static void event_lay_out(struct event *e)
{
    uint64_t type = e->pub.attr.sample_type;
    uint64_t id = type & PERF_SAMPLE_IDENTIFIER ? PERF_SAMPLE_IDENTIFIER : PERF_SAMPLE_ID;
    e->time_at = sample_offset(type, PERF_SAMPLE_TIME);
    e->id_at = sample_offset(type, id);
    e->time_back = e->id_back = e->trailer = 0;
    if (!e->pub.attr.sample_id_all)
        return;
    e->time_back = trailer_offset(type, PERF_SAMPLE_TIME);
    e->id_back = trailer_offset(type, id);
    e->trailer = trailer_size(type);
}

int events_complete(struct perfdata *pd, struct error *err)
{
    bool all_identified = true;
    pd->layouts_differ = pd->backward = false;
    pd->no_time = true;
    for (size_t i = 0; i < pd->nr_events; i++) {
        struct event *e = event_at(pd, i);
        const struct perf_event_attr *attr = &e->pub.attr, *first = &event_at(pd, 0)->pub.attr;
        event_lay_out(e);
        pd->no_time &= !(attr->sample_type & PERF_SAMPLE_TIME);
        pd->backward |= attr->write_backward;
        pd->layouts_differ |=
            attr->sample_type != first->sample_type || attr->sample_id_all != first->sample_id_all;
        all_identified &= (attr->sample_type & PERF_SAMPLE_IDENTIFIER) != 0;
    }
    if (pd->layouts_differ && !all_identified)
        return error_set(err, ERROR_FORMAT,
                         "%s: the events' sample_types differ and no identifier tells their "
                         "records apart",
                         pd->path);
    return 0;
}

static struct event *sample_event(struct perfdata *pd, const struct record *rec)
{
    struct event *first = event_at(pd, 0);
    if (pd->nr_events == 1 || !first->id_at)
        return first;
    if (rec->size < first->id_at + 8u)
        return NULL;
    return event_by_id(pd, load_u64(rec->data + first->id_at, pd->swap));
}

/* Returns the event that defines the trailer of a record that is not a sample. Synthesized records
 * have id 0 and the layout of the first event. */
static struct event *trailer_event(struct perfdata *pd, const struct record *rec)
{
    struct event *first = event_at(pd, 0), *e = NULL;
    if (!pd->layouts_differ)
        return first;
    if (first->id_back && rec->size >= RECORD_HEADER + 8u)
        e = event_by_id(pd, load_u64(rec->data + rec->size - 8, pd->swap));
    return e ? e : first;
}

void record_locate(struct perfdata *pd, struct record *rec)
{
    rec->event = PERFDATA_NO_EVENT;
    rec->time = 0;
    if (rec->type >= PERF_RECORD_USER_TYPE_START || !pd->nr_events)
        return;
    if (rec->type == PERF_RECORD_SAMPLE) {
        const struct event *e = sample_event(pd, rec);
        if (!e)
            return;
        rec->event = (uint16_t)e->pub.index;
        if (e->time_at && rec->size >= e->time_at + 8u)
            rec->time = load_u64(rec->data + e->time_at, pd->swap);
        return;
    }
    const struct event *e = trailer_event(pd, rec);
    if (pd->layouts_differ)
        rec->event = (uint16_t)e->pub.index;
    if (e->time_back && rec->size >= RECORD_HEADER + (uint32_t)e->trailer)
        rec->time = load_u64(rec->data + rec->size - e->time_back, pd->swap);
}

size_t perfdata_nr_events(const struct perfdata *pd)
{
    return pd->nr_events;
}

const struct perfdata_event *perfdata_event(const struct perfdata *pd, size_t index)
{
    return index < pd->nr_events ? &event_at(pd, index)->pub : NULL;
}

void events_free(struct perfdata *pd)
{
    for (size_t i = 0; i < pd->nr_events; i++) {
        struct event *e = event_at(pd, i);
        free(e->name);
        free(e->unit);
        vec_free(&e->ids);
    }
    for (size_t i = 0; i < EVENT_BLOCKS; i++)
        free(pd->blocks[i]);
    vec_free(&pd->known_ids);
    hash_table_free(&pd->id_table);
}
