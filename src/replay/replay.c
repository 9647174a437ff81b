/* SPDX-License-Identifier: GPL-2.0-only */
/* The run: threads, turns and batches. See replay.h for how they fit together. */
#include "replay/internal.h"
#include "base/threads.h"
#include "unwind/luajit/names.h"
#include "unwind/v8/names.h"
#include "unwind/v8/seen.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- creating ------------------------------------------------------------------------------ */

static unsigned default_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned)n;
}

/* unwind/ knows x86-64 only; a recording that does not name its machine is taken for ours. */
static bool machine_is_known(const struct perfdata *pd)
{
    const char *arch = perfdata_arch(pd);
    return !perfdata_swapped(pd) && (!arch || strcmp(arch, "x86_64") == 0);
}

static int open_parts(struct replay *r, struct error *err)
{
    const struct perfdata_options reading = {.split_stacks = true, .spool_logs = true};
    const char *path = r->options.input ? r->options.input : "perf.data";
    if (perfdata_open(path, &reading, &r->pd, err) < 0 || vmlog_read(r->pd, &r->log, err) < 0)
        return -1;
    if (r->log) {
        r->stats.readings_over = vmlog_stats(r->log).over;
        r->stats.readings_bad = vmlog_stats(r->log).bad;
    }
    r->dsos = dsos_create(&r->options.dso);
    if (!r->dsos)
        return error_no_memory(err);
    if (r->options.nr_snapshots &&
        snapshots_open(r->options.snapshots, r->options.nr_snapshots, r->pd, r->dsos,
                       &r->options.dso, &r->snapshots, err) < 0)
        return -1;
    if (session_create(r->pd, r->dsos, &r->options.session, &r->session, err) < 0)
        return -1;
    r->symbols = symbols_create(r->dsos, &r->options.symbols);
    r->strings = intern_create();
    r->guests = guests_create();
    r->rules = unwind_rules_create();
    r->joins = join_table_create();
    r->copies = copy_table_create();
    r->stops = stop_table_create();
    r->members = member_table_create();
    if (!r->copies || !r->symbols || !r->strings || !r->guests || !r->rules || !r->joins ||
        !r->stops || !r->members)
        return error_no_memory(err);
    return 0;
}

int replay_create(const struct replay_options *options, struct replay **ret, struct error *err)
{
    struct replay *r = calloc(1, sizeof(*r));
    if (!r)
        return error_no_memory(err);
    r->options = *options;
    if (!r->options.max_stack)
        r->options.max_stack = REPLAY_MAX_STACK;
    r->nr_threads = options->threads ? options->threads : default_threads();
    if (r->nr_threads > WORKERS_MAX)
        r->nr_threads = WORKERS_MAX;
    r->nr_outputs = r->nr_threads + OUTPUTS_SPARE;
    pthread_mutex_init(&r->read_lock, NULL);
    lock_init_short(&r->turn_lock);
    pthread_cond_init(&r->turned, NULL);
    if (open_parts(r, err) < 0) {
        replay_free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

/* What reading, walking and naming needed. */
static void free_means(struct replay *r)
{
    symbols_free(r->symbols);
    vmlog_free(r->log);
    snapshots_free(r->snapshots);
    copy_table_free(r->copies);
    session_free(r->session);
    dsos_free(r->dsos);
    unwind_rules_free(r->rules);
    join_table_free(r->joins);
    stop_table_free(r->stops);
    member_table_free(r->members);
}

static void *let_go(void *context)
{
    struct replay *r = context;
    perfdata_forget(r->pd);
    free_means(r);
    return NULL;
}

void replay_let_go(struct replay *r)
{
    r->lets_go = r->nr_threads > 1 && pthread_create(&r->letting_go, NULL, let_go, r) == 0;
}

void replay_free(struct replay *r)
{
    if (!r)
        return;
    if (r->lets_go)
        pthread_join(r->letting_go, NULL);
    else
        free_means(r);
    perfdata_close(r->pd);
    intern_free(r->strings);
    guests_free(r->guests);
    for (size_t i = 0; i < r->nr_outputs; i++)
        text_free(&r->outputs[i].text);
    pthread_mutex_destroy(&r->read_lock);
    pthread_mutex_destroy(&r->turn_lock);
    pthread_cond_destroy(&r->turned);
    free(r);
}

/* ---- reading: under the read lock ---------------------------------------------------------- */

static int take_member(struct replay *r, struct job *job, struct job_sample *s, struct error *err)
{
    if (s->member.event)
        s->sample.event = s->member.event;
    const struct job_sample *before =
        job->samples.nr ? &job->samples.at[job->samples.nr - 1] : NULL;
    if (session_place_beside(r->session, before ? &before->place : NULL, s->sample.pid,
                             s->sample.tid, &s->place, err) < 0) {
        sample_copy_release(&s->copy);
        return -1;
    }
    bool passes = sample_passes(r, &s->sample, s->place.comm);
    if (passes && vec_push(&job->samples, *s))
        return 0;
    session_place_release(&s->place);
    sample_copy_release(&s->copy);
    return passes ? error_no_memory(err) : 0;
}

/* A sample that carries the values of its group's counters. */
static int take_group(struct replay *r, struct job *job, const struct job_sample *s,
                      struct read_counts *counts, struct error *err)
{
    struct member members[MEMBERS_MAX];
    struct sample whole;
    struct error bad;
    size_t nr;
    if (perfdata_sample(r->pd, s->record, &whole, &bad) < 0) {
        counts->samples++;
        counts->bad++;
        return 0;
    }
    if (member_table_split(r->members, r->pd, &whole, members, &nr, err) < 0)
        return -1;
    counts->samples += nr;
    int failed = 0;
    for (size_t i = 0; i < nr && !failed; i++) {
        struct job_sample one = *s;
        one.member = members[i];
        failed = sample_copy_share(&s->copy, &one.copy, err);
        if (!failed)
            failed = take_member(r, job, &one, err);
    }
    return failed;
}

static int take_sample(struct replay *r, struct job *job, const struct record *rec,
                       struct read_counts *counts, struct error *err)
{
    struct job_sample s = {.record = rec};
    struct error bad;
    if (perfdata_sample_head(r->pd, rec, &s.sample, &bad) < 0) {
        counts->samples++;
        counts->bad++;
        return 0;
    }
    int own = copy_table_take(r->copies, r->pd, rec, s.sample.event, counts, err);
    if (own)
        return own < 0 ? -1 : 0;
    copy_table_give(r->copies, &s.sample, &s.copy, counts);
    bool read = s.sample.present & PERF_SAMPLE_READ;
    if (read && s.sample.event->attr.read_format & PERF_FORMAT_ID) {
        int failed = take_group(r, job, &s, counts, err);
        sample_copy_release(&s.copy);
        return failed;
    }
    counts->samples++;
    return take_member(r, job, &s, err);
}

static int sort_records(struct replay *r, struct job *job, struct read_counts *counts,
                        struct error *err)
{
    for (size_t i = 0; i < job->batch.nr; i++) {
        const struct record *rec = &job->batch.records[i];
        int failed = rec->type == PERF_RECORD_SAMPLE ? take_sample(r, job, rec, counts, err)
                                                     : session_apply(r->session, rec, err);
        if (failed)
            return -1;
    }
    return copy_table_keep(r->copies, err);
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

/* Read until a batch has samples to work on. Returns 1 with one, 0 at the end. */
static int read_job(struct replay *r, struct job *job, struct read_counts *counts,
                    struct error *err)
{
    while (!r->at_end) {
        if (perfdata_read(r->pd, JOB_RECORDS, &job->batch, err) < 0)
            return -1;
        if (job->batch.nr == 0) {
            r->at_end = true;
            break;
        }
        if (sort_records(r, job, counts, err) < 0)
            return -1;
        report_progress(r);
        if (job->samples.nr || r->gives_records) {
            job->turn = r->next_turn++;
            job->can_unwind = machine_is_known(r->pd); /* a pipe says it late */
            return 1;
        }
        perfdata_release(r->pd, &job->batch);
    }
    return 0;
}

static void release_job(struct replay *r, struct job *job)
{
    vec_foreach (s, &job->samples) {
        session_place_release(&s->place);
        sample_copy_release(&s->copy);
    }
    perfdata_release(r->pd, &job->batch);
    job->samples.nr = 0;
    job->frames.nr = 0;
}

static void release_over(struct replay_worker *w)
{
    if (w->over)
        release_job(w->replay, w->over);
    w->over = NULL;
}

/* ---- turns --------------------------------------------------------------------------------- */

static void fail(struct replay *r, const struct error *err)
{
    pthread_mutex_lock(&r->turn_lock);
    if (!r->failed)
        r->error = *err;
    r->failed = true;
    pthread_cond_broadcast(&r->turned);
    pthread_mutex_unlock(&r->turn_lock);
}

/* Wait for the job's turn to join; false: the run has failed. Returns with the lock held. */
static bool await_turn(struct replay *r, uint64_t turn)
{
    unsigned tries = 0;
    while (r->join_turn != turn && !r->failed && lock_try_again(&tries))
        ;
    pthread_mutex_lock(&r->turn_lock);
    while (r->join_turn != turn && !r->failed)
        pthread_cond_wait(&r->turned, &r->turn_lock);
    return !r->failed;
}

static void end_turn(struct replay *r)
{
    r->join_turn++;
    pthread_cond_broadcast(&r->turned);
    pthread_mutex_unlock(&r->turn_lock);
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
    return s->end == STACK_NO_REGS ? NULL : session_mapping(&s->place, s->end_pc);
}

/* What a sample's frames tell together: how many frames, from the outermost on, there are up to the
 * first that tells it; 0: none does. */
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

/* Of the frames of the sample before, those that this one has as well are not looked at again. */
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

/* Parallel; after joining. */
static void count_job(struct replay_worker *w, struct job *job)
{
    struct replay_stats *st = &w->stats;
    struct seen seen = {0};
    bool untold = !w->replay->log && !w->replay->snapshots;
    vec_foreach (s, &job->samples) {
        st->bad += s->bad;
        st->copies_unused += s->copy_differs;
        if (s->bad)
            continue;
        see_frames(job, s, &seen);
        s->has_trace = seen.trace;
        st->passed++;
        st->unsupported_abi += !s->unwound && s->sample.stack && s->sample.user_abi != 0;
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

/* In turn: where stacks ended. */
static int count_stops(struct replay *r, const struct job *job, struct error *err)
{
    vec_foreach (s, &job->samples)
        if (s->unwound && s->end != STACK_COMPLETE &&
            stop_table_add(r->stops, s->end, end_mapping(s), s->end_pc, err) < 0)
            return -1;
    return 0;
}

/* What a worker counted, when its thread has ended. */
static void add_stats(struct replay_stats *to, const struct replay_stats *st)
{
    to->passed += st->passed;
    to->user += st->user;
    to->guessed += st->guessed;
    to->bad += st->bad;
    to->unsupported_abi += st->unsupported_abi;
    to->frames += st->frames;
    to->copies_unused += st->copies_unused;
    to->lua_untold += st->lua_untold;
    to->js_untold += st->js_untold;
    for (size_t i = 0; i < STACK_NR_ENDS; i++)
        to->ends[i] += st->ends[i];
}

static void add_counts(struct replay_stats *st, const struct read_counts *counts)
{
    st->samples += counts->samples;
    st->bad += counts->bad;
    st->copies += counts->copies;
    st->copies_unused += counts->copies_lost;
}

/* The serial part in the middle: joining, in the recording's order. */
static int settle_job(struct replay *r, struct job *job, struct error *err)
{
    if (!await_turn(r, job->turn)) {
        pthread_mutex_unlock(&r->turn_lock);
        return 0;
    }
    int failed = 0;
    add_counts(&r->stats, &job->counts);
    if (!r->options.no_join)
        failed = join_job(r->joins, job, &r->stats.joined, err);
    if (!failed)
        failed = count_stops(r, job, err);
    end_turn(r);
    return failed;
}

/* The batch's records from `*next` up to and with `last`, to a sink that wants them. */
static int give_records(struct replay_worker *w, const struct record **next,
                        const struct record *last, struct error *err)
{
    while (w->sink->record && *next <= last)
        if (w->sink->record(w->sink_worker, (*next)++, err) < 0)
            return -1;
    return 0;
}

static int give_job(struct replay_worker *w, const struct job *job, struct error *err)
{
    const struct record *next = job->batch.records;
    bool replaced = false; /* frames of the sample before were */
    vec_foreach (s, &job->samples) {
        if (give_records(w, &next, s->record, err) < 0)
            return -1;
        if (s->bad)
            continue;
        struct replay_sample given = {
            .sample = &s->sample,
            .comm = s->place.comm,
            .place = &s->place,
            .frames = job->frames.at + s->first_frame,
            .nr_frames = s->nr_frames,
            .nr_same = s->has_trace || replaced ? 0 : s->nr_same,
            .unwound = s->unwound,
            .has_user = s->has_user,
            .end = s->end,
            .end_pc = s->end_pc,
            .end_address = s->end_address,
            .end_mapping = s->unwound && s->end != STACK_COMPLETE ? end_mapping(s) : NULL,
            .turn = job->turn,
            .copy = s->copy.bytes && !s->copy_differs ? &s->copy : NULL,
            .vmstate = s->vmstate,
        };
        replaced = s->has_trace;
        if (replaced && trace_frames_expand(&w->traces, w->replay->guests, &given, err) < 0)
            return -1;
        if (w->sink->sample(w->sink_worker, &given, err) < 0)
            return -1;
    }
    return job->batch.nr ? give_records(w, &next, &job->batch.records[job->batch.nr - 1], err) : 0;
}

/* Under the turn lock: write what is ready, in order. Other threads go on meanwhile, and leave what
 * they have to the one that writes. Returns 1 when nobody wants more. */
static int write_outputs(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    int status = 0;
    r->writing = true;
    struct output *next;
    while (status == 0 && (next = &r->outputs[r->write_turn % r->nr_outputs])->ready) {
        pthread_mutex_unlock(&r->turn_lock);
        status = w->sink->write(w->sink->context, &next->text, err);
        pthread_mutex_lock(&r->turn_lock);
        next->text.size = 0;
        next->ready = false;
        r->write_turn++;
        pthread_cond_broadcast(&r->turned);
    }
    r->writing = false;
    return status;
}

/* The batch's text goes to where it waits for its turn. */
static int flush_text(struct replay_worker *w, uint64_t turn, struct error *err)
{
    struct replay *r = w->replay;
    struct output *mine = &r->outputs[turn % r->nr_outputs];
    int status = 0;
    pthread_mutex_lock(&r->turn_lock);
    while (turn >= r->write_turn + r->nr_outputs && !r->failed)
        pthread_cond_wait(&r->turned, &r->turn_lock);
    if (!r->failed)
        status = w->sink->flush(w->sink_worker, &mine->text, err);
    if (!r->failed && status == 0) {
        mine->ready = true;
        status = r->writing ? 0 : write_outputs(w, err);
    }
    pthread_mutex_unlock(&r->turn_lock);
    return status;
}

static int flush_job(struct replay_worker *w, uint64_t turn, struct error *err)
{
    struct replay *r = w->replay;
    if (!w->sink->flush)
        return 0;
    if (!w->sink->write)
        return w->sink->flush(w->sink_worker, NULL, err);
    int status = flush_text(w, turn, err);
    if (status <= 0)
        return status;
    pthread_mutex_lock(&r->read_lock);
    r->at_end = true;
    pthread_mutex_unlock(&r->read_lock);
    return 0;
}

/* Read and walk a job. Returns 0 at the end. */
static int begin_job(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    struct job *job = &w->jobs[(w->first + w->nr_jobs) % JOBS];
    w->job = job;
    job->counts = (struct read_counts){0};
    if (w->over) { /* its frames' memory is in the caches, and wanted no more */
        frame_vec hot = w->over->frames;
        w->over->frames = job->frames;
        job->frames = hot;
        job->frames.nr = 0;
    }
    if (pthread_mutex_trylock(&r->read_lock) != 0) {
        release_over(w);
        lock_patiently(&r->read_lock);
    }
    stack_use_add(&r->use, &w->use);
    perfdata_stack_used(r->pd, stack_use_choose(&r->use));
    int got = r->failed ? 0 : read_job(r, job, &job->counts, err);
    if (got == 0) {
        pthread_mutex_lock(&r->turn_lock);
        add_counts(&r->stats, &job->counts);
        r->stats.copies_unused += copy_table_end(r->copies);
        pthread_mutex_unlock(&r->turn_lock);
    }
    pthread_mutex_unlock(&r->read_lock);
    release_over(w);
    w->nr_jobs += got > 0;
    if (got <= 0)
        release_job(r, job);
    return got > 0 && walk_job(w, err) < 0 ? -1 : got;
}

/* Bring the oldest job to its end, when its turn comes. */
static int end_job(struct replay_worker *w, struct error *err)
{
    struct replay *r = w->replay;
    struct job *job = &w->jobs[w->first];
    int failed = settle_job(r, job, err) < 0;
    if (!failed) {
        count_job(w, job);
        failed = give_job(w, job, err) < 0 || flush_job(w, job->turn, err) < 0;
    }
    release_over(w);
    w->over = job;
    if (r->nr_threads == 1)
        release_over(w); /* so that what is read next takes its place in the caches */
    w->nr_jobs--;
    w->first = w->nr_jobs || w->over ? (w->first + 1) % JOBS : 0; /* one that is enough stays one */
    return failed ? -1 : 0;
}

static bool is_turn(const struct replay_worker *w)
{
    return w->replay->join_turn == w->jobs[w->first].turn;
}

/* ---- threads ------------------------------------------------------------------------------- */

static int worker_init(struct replay_worker *w, struct error *err)
{
    w->unwinder = unwinder_create(w->replay->rules);
    w->symbols = symbol_cache_create(w->replay->symbols);
    w->names = luajit_names_create(w->replay->guests);
    w->js_names = v8_names_create(w->replay->guests);
    bool log = w->replay->log;
    if (log) {
        w->js_seen = v8_seen_create(0);
        w->recent = calloc(VMLOG_RECENT, sizeof(*w->recent));
    }
    if (!w->unwinder || !w->symbols || !w->names || !w->js_names ||
        (log && (!w->js_seen || !w->recent)))
        return error_no_memory(err);
    if (w->sink->worker_create(w->sink->context, w, &w->sink_worker, err) < 0)
        return -1;
    w->sink_made = true;
    return 0;
}

static void worker_deinit(struct replay_worker *w)
{
    if (w->sink_made && w->sink->worker_free)
        w->sink->worker_free(w->sink_worker);
    symbol_cache_free(w->symbols);
    unwinder_free(w->unwinder);
    luajit_names_free(w->names);
    v8_names_free(w->js_names);
    v8_seen_free(w->js_seen);
    free(w->recent);
    free(w->copies);
    for (size_t i = 0; i < WALK_GROUP; i++)
        vec_free(&w->stacks[i].frames);
    for (size_t i = 0; i < JOBS; i++) {
        vec_free(&w->jobs[i].samples);
        vec_free(&w->jobs[i].frames);
        record_batch_free(&w->jobs[i].batch);
    }
    trace_frames_free(&w->traces);
}

/* A thread whose oldest job must wait for another's goes on with the next: so that none sleeps only
 * because another one's processor was taken away. */
static int work(struct replay_worker *w, struct error *err)
{
    int got = 1;
    while (got > 0 || w->nr_jobs) {
        bool end = w->nr_jobs && (got == 0 || w->nr_jobs == JOBS_AHEAD || is_turn(w));
        if (end && end_job(w, err) < 0)
            return -1;
        if (!end && (got = begin_job(w, err)) < 0)
            return -1;
    }
    return 0;
}

static void *worker_main(void *arg)
{
    struct replay_worker *w = arg;
    struct error err = {0};
    if (work(w, &err) < 0)
        fail(w->replay, &err);
    release_over(w);
    for (; w->nr_jobs; w->nr_jobs--, w->first = (w->first + 1) % JOBS)
        release_job(w->replay, &w->jobs[w->first]);
    return NULL;
}

int replay_run(struct replay *r, const struct replay_sink *sink, struct error *err)
{
    struct replay_worker *workers = calloc(r->nr_threads, sizeof(*workers));
    if (!workers)
        return error_no_memory(err);
    int failed = 0;
    r->gives_records = sink->record;
    for (unsigned i = 0; i < r->nr_threads && !failed; i++) {
        workers[i].replay = r;
        workers[i].sink = sink;
        failed = worker_init(&workers[i], err);
    }
    if (!failed) {
        threads_run(worker_main, workers, sizeof(*workers), r->nr_threads);
        if (r->failed) {
            if (err)
                *err = r->error;
            failed = -1;
        }
    }
    for (unsigned i = 0; i < r->nr_threads; i++)
        if (workers[i].replay) {
            add_stats(&r->stats, &workers[i].stats);
            worker_deinit(&workers[i]);
        }
    free(workers);
    return failed;
}

/* ---- asking -------------------------------------------------------------------------------- */

const char *replay_warning(const struct replay *r, size_t index)
{
    return snapshots_warning(r->snapshots, index);
}

unsigned replay_threads(const struct replay *r)
{
    return r->nr_threads;
}

const struct perfdata *replay_perfdata(const struct replay *r)
{
    return r->pd;
}

const struct session *replay_session(const struct replay *r)
{
    return r->session;
}

struct guests *replay_guests(const struct replay *r)
{
    return r->guests;
}

struct dsos *replay_dsos(const struct replay *r)
{
    return r->dsos;
}

const struct replay_options *replay_options(const struct replay *r)
{
    return &r->options;
}

const struct replay_stats *replay_stats(const struct replay *r)
{
    return &r->stats;
}

const struct replay_stop *replay_stops(const struct replay *r, size_t *nr)
{
    return stop_table_sorted(r->stops, nr);
}

struct replay *replay_of(const struct replay_worker *w)
{
    return w->replay;
}
