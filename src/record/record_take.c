/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes each record between a ring and the file: trims samples, counts losses, calls the
 * hooks. */
#include "record/capture.h"
#include "record/trim.h"

#include <string.h>

static int event_of(struct capture *c, const struct perf_event_header *h)
{
    uint64_t id;
    if (h->size < sizeof(*h) + sizeof(id))
        return -1;
    memcpy(&id, h + 1, sizeof(id)); /* IDENTIFIER comes first */
    if (id != c->last_id || c->last_event < 0) {
        c->last_id = id;
        c->last_event = events_by_id(&c->events, id);
    }
    return c->last_event;
}

static int take_sample(struct capture *c, const struct perf_event_header *h, struct error *err)
{
    int event = event_of(c, h);
    struct sample s;
    struct trimmed t;
    if (event < 0 || perfdata_sample_parse(&c->all.at[event], h, h->size, &s, NULL) < 0) {
        c->out->bad++;
        return capture_put(c, h, h->size, err);
    }
    if (c->o->exclude_self && s.pid == (uint32_t)c->self)
        return 0;
    sample_trim(h, &s, &t);
    if (perfdata_writer_parts(c->w, t.parts, t.nr, err) < 0) {
        c->write_failed = true;
        return -1;
    }
    if ((size_t)event < c->events.nr) {
        c->out->samples++;
        c->first = s.time < c->first ? s.time : c->first;
        c->last = s.time > c->last ? s.time : c->last;
    }
    return c->hooks && c->hooks->sample ? c->hooks->sample(c->hooks->context, c, &s, err) : 0;
}

/* Track which processes exist, for the start of the next file. */
static int follow_task(struct capture *c, const struct perf_event_header *h, struct error *err)
{
    uint32_t ids[4]; /* pid, ppid, tid, ptid */
    if (h->size < sizeof(*h) + sizeof(ids))
        return 0;
    memcpy(ids, h + 1, sizeof(ids));
    if (h->type == PERF_RECORD_FORK)
        return ids[0] == ids[1] || vec_push(&c->live, (pid_t)ids[0]) ? 0 : error_no_memory(err);
    if (ids[0] != ids[2])
        return 0;
    for (size_t i = 0; i < c->live.nr; i++)
        if (c->live.at[i] == (pid_t)ids[0]) {
            c->live.at[i] = c->live.at[--c->live.nr];
            break;
        }
    return 0;
}

int capture_take(void *capture, int cpu, const struct perf_event_header *h, struct error *err)
{
    struct capture *c = capture;
    uint64_t words[2];
    (void)cpu;
    if (h->type == PERF_RECORD_SAMPLE)
        return take_sample(c, h, err);
    if (h->type == PERF_RECORD_LOST && h->size >= sizeof(*h) + sizeof(words)) {
        memcpy(words, h + 1, sizeof(words)); /* id, lost */
        c->lost_records += words[1];
    }
    c->out->throttled += h->type == PERF_RECORD_THROTTLE;
    if ((h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_EXIT) &&
        c->o->switch_mode != SWITCH_NEVER && !c->system_wide && follow_task(c, h, err) < 0)
        return -1;
    if (capture_put(c, h, h->size, err) < 0)
        return -1;
    return c->hooks && c->hooks->record ? c->hooks->record(c->hooks->context, c, h, err) : 0;
}
