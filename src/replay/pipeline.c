/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which thread does what. A job is read, walked, joined (in the recording's order), given to the
 * sink, and then free for the next batch. One lock protects the state of all jobs; no thread holds
 * it while it works.
 */
#include "replay/idle.h"
#include "replay/replay_internal.h"
#include "perfdata/offcpu.h"
#include "base/threads.h"

#include <string.h>

/* ---- the order of batches -------------------------------------------------------------------- */

/* Called with the lock held: something changed that another thread may wait for. */
static void say_moved(struct replay *r)
{
    if (r->waiting)
        pthread_cond_broadcast(&r->moved);
}

static void wait_moved(struct replay *r)
{
    r->waiting++;
    pthread_cond_wait(&r->moved, &r->lock);
    r->waiting--;
}

static void fail(struct replay *r, const struct error *err)
{
    pthread_mutex_lock(&r->lock);
    if (!r->failed)
        r->error = *err;
    r->failed = true;
    say_moved(r);
    pthread_mutex_unlock(&r->lock);
}

/* ---- what happens to a job ----------------------------------------------------------------- */

static int walk_job(struct replay_worker *w, struct error *err)
{
    struct job *job = w->job;
    unwinder_forget(w->unwinder);
    for (size_t i = 0; i < job->samples.nr; i += WALK_GROUP) {
        size_t left = job->samples.nr - i;
        size_t nr = left < WALK_GROUP ? left : WALK_GROUP;
        if (sample_walk_group(w, &job->samples.at[i], nr, err) < 0)
            return -1;
    }
    return 0;
}

static const struct mapping *end_mapping(const struct job_sample *s)
{
    return s->end == STACK_NO_REGS ? NULL : session_mapping(&s->thread, s->end_pc);
}

/* What a sample's frames show together. Each field says how many frames, from the outermost on,
 * there are up to the first one that shows it; 0: none does. */
struct seen {
    size_t guess;
    size_t lua_untold; /* a Lua frame of an unknown function */
    size_t generated;  /* code that no perf map or jitdump describes */
    size_t trace;      /* machine code of a trace that a jitdump describes */
};

static void see(size_t *what, bool seen, size_t depth)
{
    if (seen && !*what)
        *what = depth;
}

static void see_frame(struct seen *seen, const struct frame *f, size_t depth)
{
    see(&seen->guess, f->provenance == PROVENANCE_GUESS, depth);
    if (f->kind == FRAME_NATIVE) {
        const struct mapping *m = f->code;
        see(&seen->generated, m && m->dso->kind == DSO_PSEUDO, depth);
    } else if (f->kind == FRAME_JIT) {
        see(&seen->guess, !seen->guess && trace_frame_is_guess(f), depth);
        see(&seen->trace, trace_frame_is(f), depth);
    } else if (f->kind == FRAME_LUA) {
        see(&seen->lua_untold, !f->function, depth);
    }
}

/* Frames that the sample before has as well are not looked at again. */
static void see_frames(const struct job *job, const struct job_sample *s, struct seen *seen)
{
    const struct frame *end = job->frames.at + s->first_frame + s->nr_frames;
    size_t *all[] = {&seen->guess, &seen->lua_untold, &seen->generated, &seen->trace};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (*all[i] > s->nr_same)
            *all[i] = 0;
    for (size_t depth = s->nr_same + 1; depth <= s->nr_frames; depth++)
        see_frame(seen, end - depth, depth);
}

static bool runs_node(const struct job *job, const struct job_sample *s)
{
    for (size_t i = s->nr_kernel; i < s->nr_frames; i++) {
        const struct frame *f = &job->frames.at[s->first_frame + i];
        const struct mapping *m = f->kind == FRAME_NATIVE ? f->code : NULL;
        if (m && (strncmp(m->dso->short_name, "node", 4) == 0 ||
                  strncmp(m->dso->short_name, "libnode", 7) == 0))
            return true;
    }
    return false;
}

/* Parallel; called after joining. */
static void count_job(struct replay_worker *w, struct job *job)
{
    struct replay_stats *st = &w->stats;
    struct seen seen = {0};
    bool untold = !w->replay->log && !w->replay->snapshots;
    vec_foreach (s, &job->samples) {
        if (s->witness)
            continue;
        st->bad += s->bad;
        st->copies_unused += s->copy_differs;
        st->weightless += s->weightless;
        if (s->bad || s->weightless)
            continue;
        see_frames(job, s, &seen);
        s->has_trace = seen.trace;
        if (!st->passed++ || s->sample.time < st->first)
            st->first = s->sample.time;
        if (s->sample.time > st->last)
            st->last = s->sample.time;
        bool refused = !s->unwound && s->sample.stack && s->sample.user_abi != 0;
        st->unsupported_abi += refused && job->arch;
        st->unsupported_machine += refused && !job->arch;
        if (!s->unwound)
            continue;
        st->user++;
        st->frames += s->nr_frames - s->nr_kernel;
        st->ends[s->end]++;
        st->guessed += seen.guess != 0;
        st->lua_untold += untold && seen.lua_untold;
        st->js_untold += untold && seen.generated && runs_node(job, s);
    }
}

/* Count where stacks ended. Called in the order of batches. */
static int count_stops(struct replay *r, const struct job *job, struct error *err)
{
    vec_foreach (s, &job->samples)
        if (s->unwound && !s->witness && s->end != STACK_COMPLETE &&
            end_table_add(r->stops, s->end, end_mapping(s), s->end_pc, err) < 0)
            return -1;
    return 0;
}

/* The serial part in the middle: joins, in the recording's order. */
static int join_in_order(struct replay *r, struct job *job, struct error *err)
{
    if (!r->options.no_join && join_job(r->joins, job, &r->joined, err) < 0)
        return -1;
    return count_stops(r, job, err);
}

/* Give the batch's records from `*next` up to and including `last` to a sink that wants them. */
static int give_records(struct replay_worker *w, const struct record **next,
                        const struct record *last, struct error *err)
{
    while (w->sink->record && *next <= last)
        if (w->sink->record(w->sink_worker, (*next)++, err) < 0)
            return -1;
    return 0;
}

static void set_wait(struct replay_sample *s)
{
    struct offcpu_wait wait;
    s->wait_reason = (uint8_t)perfdata_wait_reason(s->sample);
    if (perfdata_offcpu(s->sample, &wait) && wait.syscall >= 0 && wait.syscall < UINT16_MAX)
        s->wait_syscall = (uint16_t)(wait.syscall + 1);
}

static int give_sample(struct replay_worker *w, struct replay_sample *s, bool is_witness,
                       struct error *err)
{
    struct replay *r = w->replay;
    set_wait(s);
    if (r->idle && idle_note(r->idle, w->number, w, s, &s->wait, err) < 0)
        return -1;
    return is_witness ? 0 : w->sink->sample(w->sink_worker, s, err);
}

static int give_job(struct replay_worker *w, const struct job *job, struct error *err)
{
    const struct record *next = job->batch.records;
    bool replaced = false; /* the sample before had frames replaced */
    vec_foreach (s, &job->samples) {
        if (give_records(w, &next, s->record, err) < 0)
            return -1;
        if (s->bad || s->weightless)
            continue;
        struct replay_sample given = {
            .sample = &s->sample,
            .comm = s->thread.comm,
            .thread = &s->thread,
            .frames = job->frames.at + s->first_frame,
            .nr_frames = s->nr_frames,
            .nr_same = s->has_trace || replaced ? 0 : s->nr_same,
            .arch = job->arch,
            .unwound = s->unwound,
            .has_user = s->has_user,
            .end = s->end,
            .end_pc = s->end_pc,
            .end_address = s->end_address,
            .end_mapping = s->unwound && s->end != STACK_COMPLETE ? end_mapping(s) : NULL,
            .batch_number = job->batch_number,
            .copy = s->copy.bytes && !s->copy_differs ? &s->copy : NULL,
            .vmstate = s->vmstate,
            .number = s->number,
            .nr_kernel = s->nr_kernel,
            .nr_own = s->nr_frames - s->nr_kernel - s->nr_joined,
            .nr_joined = s->nr_joined,
            .sightings = job->sightings.nr ? job->sightings.at + s->first_sighting : NULL,
            .join_failure = s->join_failure,
            .copy_differs = s->copy_differs,
            .event = (uint16_t)replay_event(w->replay, &s->sample),
        };
        replaced = s->has_trace;
        if (replaced && trace_frames_expand(&w->traces, w->replay->managed, &given, err) < 0)
            return -1;
        if (give_sample(w, &given, s->witness, err) < 0)
            return -1;
    }
    return job->batch.nr ? give_records(w, &next, &job->batch.records[job->batch.nr - 1], err) : 0;
}

/* Called with the lock held: writes what is ready, in order. Other threads go on meanwhile, and
 * leave their texts to the thread that writes. Returns 1 when no more output is wanted. */
static int write_outputs(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    int status = 0;
    r->writing = true;
    struct output *next;
    while (status == 0 && (next = &r->outputs[r->write_number % r->nr_outputs])->ready) {
        pthread_mutex_unlock(&r->lock);
        status = w->sink->write(w->sink->context, &next->text, err);
        pthread_mutex_lock(&r->lock);
        next->text.size = 0;
        next->ready = false;
        r->write_number++;
        say_moved(r);
    }
    r->writing = false;
    return status;
}

/* Put the batch's text where it waits for its turn. */
static int flush_text(struct replay_worker *w, uint64_t batch_number, struct error *err)
{
    struct replay *r = w->replay;
    struct output *mine = &r->outputs[batch_number % r->nr_outputs];
    int status = 0;
    pthread_mutex_lock(&r->lock);
    while (batch_number >= r->write_number + r->nr_outputs && !r->failed)
        wait_moved(r);
    if (!r->failed)
        status = w->sink->flush(w->sink_worker, &mine->text, err);
    if (!r->failed && status == 0) {
        mine->ready = true;
        status = r->writing ? 0 : write_outputs(w, err);
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

static int flush_job(struct replay_worker *w, uint64_t batch_number, struct error *err)
{
    struct replay *r = w->replay;
    if (!w->sink->flush)
        return 0;
    if (!w->sink->write)
        return w->sink->flush(w->sink_worker, NULL, err);
    int status = flush_text(w, batch_number, err);
    if (status <= 0)
        return status;
    r->at_end = true;
    return 0;
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Each of these is called with the lock held, and releases it while it works. Returns 1: done; 0:
 * there is no such work now. */

static int do_read(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    if (r->reading || r->at_end || !r->nr_free || r->nr_read == READ_AHEAD)
        return 0;
    struct job *job = r->free[--r->nr_free];
    r->reading = true;
    size_t used = stack_use_choose(&r->use);
    pthread_mutex_unlock(&r->lock);
    release_job(r, job); /* a reading thread took this, and its core's caches have it */
    perfdata_stack_used(r->pd, used);
    int got = read_job(r, job, err);
    pthread_mutex_lock(&r->lock);
    r->reading = false;
    if (got > 0) {
        job->batch_number = r->next_number++;
        job->state = JOB_READ;
        r->line[job->batch_number % JOBS_MAX] = job;
        r->nr_read++;
    } else {
        r->free[r->nr_free++] = job;
    }
    say_moved(r);
    return got < 0 ? -1 : 1;
}

static struct job *job_to_walk(const struct replay *r)
{
    for (uint64_t batch_number = r->join_number; batch_number < r->next_number; batch_number++)
        if (r->line[batch_number % JOBS_MAX]->state == JOB_READ)
            return r->line[batch_number % JOBS_MAX];
    return NULL;
}

static int do_walk(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    struct job *job = r->nr_read ? job_to_walk(r) : NULL;
    if (!job)
        return 0;
    job->state = JOB_IN_WORK;
    r->nr_read--;
    w->job = job;
    pthread_mutex_unlock(&r->lock);
    int failed = walk_job(w, err);
    pthread_mutex_lock(&r->lock);
    if (failed)
        return -1;
    stack_use_add(&r->use, &w->use);
    job->state = JOB_WALKED;
    say_moved(r);
    return 1;
}

static int do_join(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    if (r->join_number == r->next_number)
        return 0;
    struct job *job = r->line[r->join_number % JOBS_MAX];
    if (job->state != JOB_WALKED)
        return 0;
    job->state = JOB_IN_WORK;
    pthread_mutex_unlock(&r->lock);
    int failed = join_in_order(r, job, err);
    pthread_mutex_lock(&r->lock);
    if (failed)
        return -1;
    r->join_number++;
    say_moved(r);
    return 1;
}

/* Give the oldest joined job to the sink. The job keeps what it holds until it is read again. */
static int do_end(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    if (r->end_number == r->join_number)
        return 0;
    struct job *job = r->line[r->end_number++ % JOBS_MAX];
    pthread_mutex_unlock(&r->lock);
    count_job(w, job);
    int failed = give_job(w, job, err) < 0 || flush_job(w, job->batch_number, err) < 0;
    pthread_mutex_lock(&r->lock);
    r->free[r->nr_free++] = job;
    say_moved(r);
    return failed ? -1 : 1;
}

/* ---- a thread ------------------------------------------------------------------------------ */

/* Half of the threads prefer to read, the others prefer to bring jobs to their end. So what both
 * kinds of work need - unwind rules, names of code - is made once and stays in one core's caches. A
 * thread that has no work of its own kind helps the others. */
static int work_once(struct replay_worker *w, struct error *err)
{
    enum { STEPS = 4 };
    static int (*const steps[STEPS])(struct replay_worker *, struct error *) = {do_read, do_walk,
                                                                                do_join, do_end};
    int did = 0;
    for (size_t i = 0; i < STEPS && !did; i++)
        did = steps[w->rather_reads ? i : STEPS - 1 - i](w, err);
    return did;
}

static bool is_over(const struct replay *r)
{
    return r->failed || (r->at_end && !r->reading && r->end_number == r->next_number);
}

static int work(struct replay_worker *w, struct processor *p, struct error *err)
{
    struct replay *r = w->replay;
    bool patient = true;
    unsigned tries = 0;
    int did = 0;
    pthread_mutex_lock(&r->lock);
    while (did >= 0 && !is_over(r)) {
        did = work_once(w, err);
        if (did) {
            patient = true;
            tries = 0;
            processor_check(p);
            continue;
        }
        processor_idle(p);
        if (patient) {
            pthread_mutex_unlock(&r->lock);
            patient = lock_try_again(&tries);
            pthread_mutex_lock(&r->lock);
        } else {
            wait_moved(r);
        }
    }
    say_moved(r);
    pthread_mutex_unlock(&r->lock);
    return did;
}

void worker_main(void *worker, struct processor *p)
{
    struct replay_worker *w = worker;
    struct error err = {0};
    if (work(w, p, &err) < 0)
        fail(w->replay, &err);
}
