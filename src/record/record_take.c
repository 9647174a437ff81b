/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes each record between a ring and the file: trims samples, counts losses, calls the
 * hooks. */
#include "record/capture.h"
#include "perfdata/trim.h"

static int event_of(struct capture *c, const struct record *rec)
{
    uint64_t id;
    if (!perfdata_record_identifier(rec, &id))
        return -1;
    if (id != c->last_id || c->last_event < 0) {
        c->last_id = id;
        c->last_event = events_by_id(&c->events, id);
    }
    return c->last_event;
}

/* How a sample is written. */
enum form {
    FORM_DROPPED, /* damaged, and readers would not see that */
    FORM_AS_IT_IS,
    FORM_OF_HOOKS, /* the hooks have parsed it and described what is written */
    FORM_TRIMMED,
};

static enum form form_of(struct capture *c, int event, const struct perf_event_header *h,
                         struct sample *s, struct trimmed *t)
{
    bool own = event >= 0 && (size_t)event >= c->events.nr;
    if (own && c->hooks && c->hooks->rewrite) {
        int r = c->hooks->rewrite(c->hooks->context, &c->all.at[event], h, s, t);
        if (r)
            return r < 0 ? FORM_DROPPED : FORM_OF_HOOKS;
    }
    if (event < 0 || perfdata_sample_parse(&c->all.at[event], h, h->size, s, NULL) < 0)
        return FORM_AS_IT_IS;
    sample_trim(h, s, t);
    return FORM_TRIMMED;
}

static int take_sample(struct capture *c, const struct perf_event_header *h,
                       const struct record *rec, struct error *err)
{
    int event = event_of(c, rec);
    struct sample s;
    struct trimmed t;
    enum form form = form_of(c, event, h, &s, &t);
    if (form == FORM_DROPPED || form == FORM_AS_IT_IS) {
        c->out->bad++;
        return form == FORM_DROPPED ? 0 : capture_put(c, h, h->size, err);
    }
    if (c->o->exclude_self &&
        (s.pid == (uint32_t)c->self || (c->helper && s.pid == (uint32_t)c->helper)))
        return 0;
    if (perfdata_writer_parts(c->w, t.parts, t.nr, err) < 0) {
        c->write_failed = true;
        return -1;
    }
    if (form == FORM_OF_HOOKS || (size_t)event < c->events.nr) {
        c->out->samples++;
        c->first = s.time < c->first ? s.time : c->first;
        c->last = s.time > c->last ? s.time : c->last;
    }
    return c->hooks && c->hooks->sample ? c->hooks->sample(c->hooks->context, c, &s, err) : 0;
}

/* Track which processes exist, for the start of the next file. */
static int follow_task(struct capture *c, const struct record *rec, struct error *err)
{
    struct record_task task;
    if (perfdata_task(NULL, rec, &task, NULL) < 0)
        return 0;
    if (rec->type == PERF_RECORD_FORK)
        return task.pid == task.ppid || vec_push(&c->live, (pid_t)task.pid) ? 0
                                                                            : error_no_memory(err);
    if (task.pid != task.tid)
        return 0;
    for (size_t i = 0; i < c->live.nr; i++)
        if (c->live.at[i] == (pid_t)task.pid) {
            c->live.at[i] = c->live.at[--c->live.nr];
            break;
        }
    return 0;
}

int capture_take(void *capture, int cpu, const struct perf_event_header *h, struct error *err)
{
    struct capture *c = capture;
    struct record rec;
    struct record_lost lost;
    (void)cpu;
    if (perfdata_record_parse(h, h->size, &rec, err) < 0)
        return -1;
    if (rec.type == PERF_RECORD_SAMPLE)
        return take_sample(c, h, &rec, err);
    if (rec.type == PERF_RECORD_LOST && perfdata_lost(NULL, &rec, &lost, NULL) == 0)
        c->lost_records += lost.lost;
    c->out->throttled += h->type == PERF_RECORD_THROTTLE;
    if ((h->type == PERF_RECORD_FORK || h->type == PERF_RECORD_EXIT) &&
        c->o->switch_mode != SWITCH_NEVER && !c->system_wide && follow_task(c, &rec, err) < 0)
        return -1;
    if (capture_put(c, h, h->size, err) < 0)
        return -1;
    return c->hooks && c->hooks->record ? c->hooks->record(c->hooks->context, c, h, err) : 0;
}
