/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads a job: a batch of records, which are applied to the session, and its samples. */
#include "replay/replay_internal.h"
#include "session/registers.h"

static int take_member(struct replay *r, struct job *job, struct job_sample *s, struct error *err)
{
    if (s->member.event)
        s->sample.event = s->member.event;
    const struct job_sample *before =
        job->samples.nr ? &job->samples.at[job->samples.nr - 1] : NULL;
    if (session_context_beside(r->session, before ? &before->thread : NULL, s->sample.pid,
                               s->sample.tid, &s->thread, err) < 0) {
        vmstack_ref_release(&s->copy);
        return -1;
    }
    bool passes = replay_passes(&r->options, &s->sample, s->thread.comm);
    if (!passes && r->idle && sample_is_witness(&r->options, &s->sample, s->thread.comm))
        passes = s->witness = true;
    if (passes && vec_push(&job->samples, *s))
        return 0;
    thread_context_release(&s->thread);
    vmstack_ref_release(&s->copy);
    return passes ? error_no_memory(err) : 0;
}

/* Take a sample that carries the values of its group's counters. */
static int take_group(struct replay *r, struct job *job, const struct job_sample *s,
                      struct error *err)
{
    struct member members[MEMBERS_MAX];
    struct sample whole;
    struct error bad;
    size_t nr;
    if (perfdata_sample(r->pd, s->record, &whole, &bad) < 0) {
        r->counts.samples++;
        r->counts.bad++;
        return 0;
    }
    if (member_table_split(r->members, r->pd, &whole, members, &nr, err) < 0)
        return -1;
    r->counts.samples += nr;
    int failed = 0;
    for (size_t i = 0; i < nr && !failed; i++) {
        struct job_sample one = *s;
        one.member = members[i];
        one.number = r->counts.samples - nr + i + 1;
        failed = vmstack_ref_share(&s->copy, &one.copy, err);
        if (!failed)
            failed = take_member(r, job, &one, err);
    }
    return failed;
}

/* Returns 1: the record is not a sample but a payload of ljperf, which may wait now; 0: it is a
 * sample. */
static int take_own(struct replay *r, const struct record *rec, const struct perfdata_event *event,
                    struct error *err)
{
    struct sample s;
    struct vmevent e;
    struct error ignored;
    if (event->attr.type != PERF_TYPE_SOFTWARE || event->attr.config != PERF_COUNT_SW_BPF_OUTPUT)
        return 0;
    if (perfdata_sample(r->pd, rec, &s, &ignored) < 0 || !vmevent_of_sample(&s, &e))
        return 0;
    if (e.head.kind != VMEVENT_STACK)
        return 1; /* it is in the memory log */
    r->counts.copies++;
    return vmstack_pairing_hold(&r->copies, &s, err) < 0 ? -1 : 1;
}

static int take_sample(struct replay *r, struct job *job, const struct record *rec,
                       struct error *err)
{
    struct job_sample s = {.record = rec};
    struct error bad;
    if (perfdata_sample_head(r->pd, rec, &s.sample, &bad) < 0) {
        r->counts.samples++;
        r->counts.bad++;
        return 0;
    }
    int own = take_own(r, rec, s.sample.event, err);
    if (own)
        return own < 0 ? -1 : 0;
    vmstack_pairing_give(&r->copies, &s.sample, &s.copy);
    bool read = s.sample.present & PERF_SAMPLE_READ;
    if (read && s.sample.event->attr.read_format & PERF_FORMAT_ID) {
        int failed = take_group(r, job, &s, err);
        vmstack_ref_release(&s.copy);
        return failed;
    }
    s.number = ++r->counts.samples;
    return take_member(r, job, &s, err);
}

static int sort_records(struct replay *r, struct job *job, struct error *err)
{
    for (size_t i = 0; i < job->batch.nr; i++) {
        const struct record *rec = &job->batch.records[i];
        int failed = rec->type == PERF_RECORD_SAMPLE ? take_sample(r, job, rec, err)
                                                     : session_apply(r->session, rec, err);
        if (failed)
            return -1;
    }
    return vmstack_pairing_keep(&r->copies, err);
}

static void report_progress(const struct replay *r)
{
    uint64_t done = 0;
    uint64_t total = 0;
    if (!r->options.progress)
        return;
    perfdata_progress(r->pd, &done, &total);
    r->options.progress(r->options.progress_context, done, total);
}

/* The first jobs are small: other threads wait for them. */
static size_t job_records(const struct replay *r)
{
    enum { FIRST_RECORDS = 32 };
    return r->next_number < 3 ? FIRST_RECORDS << r->next_number : JOB_RECORDS;
}

int read_job(struct replay *r, struct job *job, struct error *err)
{
    while (!r->at_end) {
        if (perfdata_read(r->pd, job_records(r), &job->batch, err) < 0)
            return -1;
        if (job->batch.nr == 0) {
            r->at_end = true;
            break;
        }
        if (sort_records(r, job, err) < 0)
            return -1;
        report_progress(r);
        if (job->samples.nr || r->gives_records) {
            job->arch = recording_arch(r->pd); /* a pipe names its machine late */
            return 1;
        }
        perfdata_release(r->pd, &job->batch);
    }
    return 0;
}

void release_job(struct replay *r, struct job *job)
{
    vec_foreach (s, &job->samples) {
        thread_context_release(&s->thread);
        vmstack_ref_release(&s->copy);
    }
    perfdata_release(r->pd, &job->batch);
    job->samples.nr = 0;
    job->frames.nr = 0;
    job->sightings.nr = 0;
}
