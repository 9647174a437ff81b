/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gives each vmstack the time of its sample. A vmstack is in its CPU's ring directly before its
 * sample, but it may have a later time: kernels since 6.2 stamp the sample before the program runs
 * that makes the copy (measured on 6.18: every copy was later, by the 2 us that it takes). Here a
 * vmstack waits for the next sample of its CPU, in file order, and takes the sample's time. So a
 * reader that gets records in time order meets the vmstack first.
 */
#include "perfdata/perfdata_internal.h"
#include "perfdata/vmevent.h"

enum { CPUS_MAX = 1 << 16 };

/* Returns whether the record is a bpf-output sample that carries a vmstack. */
static bool is_copy(const struct perfdata *pd, const struct record *rec, struct sample *ret)
{
    const struct perf_event_attr *a = &event_at(pd, rec->event)->pub.attr;
    struct error ignored;
    if (a->type != PERF_TYPE_SOFTWARE || a->config != PERF_COUNT_SW_BPF_OUTPUT ||
        !(a->sample_type & PERF_SAMPLE_RAW) || !(a->sample_type & PERF_SAMPLE_CPU))
        return false;
    if (perfdata_sample(pd, rec, ret, &ignored) < 0 || ret->raw_size < sizeof(uint64_t))
        return false;
    return load_u32(ret->raw, pd->swap) == VMEVENT_MAGIC && ret->raw[7] == VMEVENT_STACK;
}

/* Deliver a vmstack whose sample never came. Its time is kept, but must not go backward. */
static int orphan(struct perfdata *pd, struct record *rec, copies_push push, struct error *err)
{
    if (rec->time < pd->queue.delivered)
        rec->time = pd->queue.delivered;
    return push(pd, rec, err);
}

/* Returns the place for the vmstack that waits on this CPU. NULL when out of memory. */
static struct held_copy *held_of(struct perfdata *pd, uint32_t cpu, struct error *err)
{
    size_t nr = pd->copies.held.nr;
    if (cpu >= nr) {
        if (!vec_reserve(&pd->copies.held, (size_t)cpu + 1)) {
            error_no_memory(err);
            return NULL;
        }
        memset(pd->copies.held.at + nr, 0, (cpu + 1 - nr) * sizeof(*pd->copies.held.at));
        pd->copies.held.nr = (size_t)cpu + 1;
    }
    return &pd->copies.held.at[cpu];
}

static int hold(struct perfdata *pd, const struct record *rec, const struct sample *s,
                copies_push push, struct error *err)
{
    struct held_copy *h = held_of(pd, s->cpu, err);
    if (!h)
        return -1;
    if (h->held && orphan(pd, &h->record, push, err) < 0)
        return -1;
    pd->copies.nr += !h->held;
    *h = (struct held_copy){.record = *rec, .tid = s->tid, .held = true};
    return 0;
}

static int release(struct perfdata *pd, const struct record *rec, copies_push push,
                   struct error *err)
{
    struct sample s;
    struct error ignored;
    if (perfdata_sample_head(pd, rec, &s, &ignored) < 0 || s.cpu >= pd->copies.held.nr ||
        !pd->copies.held.at[s.cpu].held)
        return 0;
    struct held_copy *h = &pd->copies.held.at[s.cpu];
    h->held = false;
    pd->copies.nr--;
    if (h->tid != s.tid)
        return orphan(pd, &h->record, push, err);
    h->record.time = rec->time;
    return push(pd, &h->record, err);
}

int copies_pass(struct perfdata *pd, const struct record *rec, copies_push push, struct error *err)
{
    struct sample s;
    if (rec->type != PERF_RECORD_SAMPLE || rec->event == PERFDATA_NO_EVENT)
        return push(pd, rec, err);
    if (is_copy(pd, rec, &s) && s.cpu < CPUS_MAX)
        return hold(pd, rec, &s, push, err);
    if (pd->copies.nr && release(pd, rec, push, err) < 0)
        return -1;
    return push(pd, rec, err);
}

int copies_end(struct perfdata *pd, copies_push push, struct error *err)
{
    for (size_t i = 0; i < pd->copies.held.nr && pd->copies.nr; i++) {
        struct held_copy *h = &pd->copies.held.at[i];
        if (!h->held)
            continue;
        h->held = false;
        pd->copies.nr--;
        if (orphan(pd, &h->record, push, err) < 0)
            return -1;
    }
    return 0;
}

void copies_free(struct perfdata *pd)
{
    vec_free(&pd->copies.held);
}
