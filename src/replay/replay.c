/* SPDX-License-Identifier: GPL-2.0-only */
/* The run: threads and batches. See replay.h for how they fit together. */
#include "replay/idle.h"
#include "replay/replay_internal.h"
#include "base/threads.h"
#include "perfdata/alloc.h"
#include "perfdata/offcpu.h"
#include "perfdata/resident.h"
#include "session/lists.h"
#include "unwind/luajit/names.h"
#include "unwind/v8/names.h"
#include "unwind/v8/frame_cache.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

/* ---- creating ------------------------------------------------------------------------------ */

static unsigned default_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned)n;
}

/* When a recording's file was last written, s since 1970; 0: it is a pipe. */
static int64_t written_at(const struct perfdata *pd)
{
    struct stat st;
    const char *path = perfdata_path(pd);
    bool is_file = path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    return is_file ? (int64_t)st.st_mtime : 0;
}

/* Convert shares of the recording's time to times. As in perf, a range ends before the next one
 * begins. */
static int convert_shares(struct replay *r, struct error *err)
{
    uint64_t first, last;
    const struct replay_options *o = &r->options;
    if (!o->shares.nr)
        return 0;
    if (!perfdata_sample_times(r->pd, &first, &last))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s does not say when its first and last sample were taken (perf record "
                         "--timestamp-boundary does): --time takes seconds for it, no percentages",
                         perfdata_path(r->pd));
    const double all = (double)(last - first);
    vec_foreach (share, &o->shares) {
        struct time_range t = {first + (uint64_t)llround(share->from * all),
                               first + (uint64_t)llround(share->until * all)};
        t.until += t.until == last;
        if (!vec_push(&r->share_times, t))
            return error_no_memory(err);
    }
    r->options.times.at = r->share_times.at;
    r->options.times.nr = r->share_times.nr;
    return 0;
}

struct replay_means {
    struct dsos *dsos;
    struct symbols *symbols;
    struct symbols_options options; /* of `symbols` */
    struct unwind_rules *rules;
};

struct replay_means *replay_means_create(void)
{
    return calloc(1, sizeof(struct replay_means));
}

void replay_means_free(struct replay_means *m)
{
    if (!m)
        return;
    symbols_free(m->symbols);
    dsos_free(m->dsos);
    unwind_rules_free(m->rules);
    free(m);
}

static bool symbols_fit(const struct symbols_options *a, const struct symbols_options *b)
{
    return a->no_demangle == b->no_demangle && a->inlines == b->inlines && a->lines == b->lines;
}

/* Make what is not there yet. */
static int fill_means(struct replay_means *m, const struct replay_options *o, struct error *err)
{
    if (m->symbols && !symbols_fit(&m->options, &o->symbols)) {
        symbols_free(m->symbols);
        m->symbols = NULL;
    }
    m->dsos = m->dsos ? m->dsos : dsos_create(&o->dso);
    m->rules = m->rules ? m->rules : unwind_rules_create();
    if (!m->dsos || !m->rules)
        return error_no_memory(err);
    if (!m->symbols)
        m->symbols = symbols_create(m->dsos, &o->symbols);
    m->options = o->symbols;
    return m->symbols ? 0 : error_no_memory(err);
}

/* Take the means that are shared, or make own ones. */
static int take_means(struct replay *r, struct error *err)
{
    r->means = r->options.means ? r->options.means : replay_means_create();
    if (!r->means)
        return error_no_memory(err);
    if (fill_means(r->means, &r->options, err) < 0)
        return -1;
    r->dsos = r->means->dsos;
    r->symbols = r->means->symbols;
    r->rules = r->means->rules;
    return 0;
}

static int open_parts(struct replay *r, struct error *err)
{
    const struct perfdata_options reading = {.split_stacks = true, .spool_logs = true};
    const char *path = r->options.input ? r->options.input : "perf.data";
    if (perfdata_open(path, &reading, &r->pd, err) < 0 || memory_log_read(r->pd, &r->log, err) < 0)
        return -1;
    if (r->log) {
        r->stats.readings_over = memory_log_stats(r->log).over;
        r->stats.readings_bad = memory_log_stats(r->log).bad;
    }
    if (convert_shares(r, err) < 0)
        return -1;
    r->options.session.log = r->log;
    r->options.dso.release = perfdata_osrelease(r->pd);
    r->options.dso.recorded = written_at(r->pd);
    if (take_means(r, err) < 0)
        return -1;
    if (r->options.nr_snapshots &&
        snapshots_open(r->options.snapshots, r->options.nr_snapshots, r->pd, r->dsos,
                       &r->options.dso, &r->snapshots, err) < 0)
        return -1;
    r->options.session.snapshots = r->snapshots;
    r->lists = r->options.session.lists = session_lists_create();
    if (!r->lists)
        return error_no_memory(err);
    if (session_create(r->pd, r->dsos, &r->options.session, &r->session, err) < 0)
        return -1;
    r->strings = intern_create();
    r->managed = managed_names_create();
    r->joins = join_table_create(r->options.explains);
    r->stops = end_table_create();
    r->members = member_table_create();
    if (!r->strings || !r->managed || !r->joins || !r->stops || !r->members)
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
    lock_init_short(&r->lock);
    pthread_cond_init(&r->moved, NULL);
    if (open_parts(r, err) < 0) {
        replay_free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

/* Free what reading, walking and naming needed. */
static void free_means(struct replay *r)
{
    memory_log_free(r->log);
    snapshots_free(r->snapshots);
    vmstack_pairing_free(&r->copies);
    v8_places_free(&r->v8s);
    session_free(r->session);
    if (!r->options.means)
        replay_means_free(r->means);
    join_table_free(r->joins);
    end_table_free(r->stops);
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
    r->lets_go = r->nr_threads > 1 && thread_beside(&r->letting_go, let_go, r) == 0;
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
    idle_free(r->idle);
    session_lists_free(r->lists);
    intern_free(r->strings);
    luajit_names_free(r->place_names);
    vec_free(&r->luajits.at);
    pthread_mutex_destroy(&r->luajits.lock);
    v8_names_free(r->v8_place_names);
    pthread_mutex_destroy(&r->v8s.lock);
    managed_names_free(r->managed);
    vec_free(&r->share_times);
    for (size_t i = 0; i < r->nr_outputs; i++)
        text_free(&r->outputs[i].text);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->moved);
    free(r);
}

/* ---- threads ------------------------------------------------------------------------------- */

static int worker_init(struct replay_worker *w, struct error *err)
{
    w->unwinder = unwinder_create(w->replay->rules);
    w->symbols = symbol_cache_create(w->replay->symbols);
    bool log = w->replay->log;
    if (log)
        w->recent = calloc(MEMORY_LOG_RECENT, sizeof(*w->recent));
    if (!managed_walks_create(w, w->replay->managed, log) || !w->unwinder || !w->symbols ||
        (log && !w->recent))
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
    managed_walks_free(w);
    free(w->recent);
    free(w->copies);
    for (size_t i = 0; i < WALK_GROUP; i++)
        vec_free(&w->stacks[i].frames);
    trace_frames_free(&w->traces);
}

static int jobs_create(struct replay *r, struct error *err)
{
    r->nr_jobs = r->nr_threads == 1 ? 1 : r->nr_threads + JOBS_SPARE;
    r->jobs = calloc(r->nr_jobs, sizeof(*r->jobs));
    if (!r->jobs)
        return error_no_memory(err);
    for (; r->nr_free < r->nr_jobs; r->nr_free++)
        r->free[r->nr_free] = &r->jobs[r->nr_free];
    return 0;
}

static void jobs_free(struct replay *r)
{
    for (unsigned i = 0; i < r->nr_jobs; i++) {
        release_job(r, &r->jobs[i]);
        vec_free(&r->jobs[i].samples);
        vec_free(&r->jobs[i].frames);
        vec_free(&r->jobs[i].sightings);
        record_batch_free(&r->jobs[i].batch);
    }
    free(r->jobs);
    r->jobs = NULL;
    r->nr_jobs = 0;
}

/* Add what a worker counted, after its thread has ended. */
static void add_stats(struct replay_stats *to, const struct replay_stats *st)
{
    if (st->passed && (!to->passed || st->first < to->first))
        to->first = st->first;
    if (st->last > to->last)
        to->last = st->last;
    to->passed += st->passed;
    to->user += st->user;
    to->guessed += st->guessed;
    to->bad += st->bad;
    to->unsupported_abi += st->unsupported_abi;
    to->weightless += st->weightless;
    to->unsupported_machine += st->unsupported_machine;
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
}

int replay_run(struct replay *r, const struct replay_sink *sink, struct error *err)
{
    struct replay_worker *workers = calloc(r->nr_threads, sizeof(*workers));
    if (!workers)
        return error_no_memory(err);
    int failed = jobs_create(r, err);
    r->gives_records = sink->record;
    if (!failed && sink->folds_idle && !r->options.idle && !(r->idle = idle_create(r->nr_threads)))
        failed = error_no_memory(err);
    for (unsigned i = 0; i < r->nr_threads && !failed; i++) {
        workers[i].replay = r;
        workers[i].sink = sink;
        workers[i].number = i;
        workers[i].rather_reads = r->nr_threads > 1 && i % 2 == 0;
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
    if (!failed && r->idle)
        failed = idle_decide(r->idle, &r->stats, err);
    add_counts(&r->stats, &r->counts);
    r->stats.joined = r->joined;
    r->stats.copies_unused += vmstack_pairing_end(&r->copies);
    jobs_free(r);
    for (unsigned i = 0; i < r->nr_threads; i++)
        if (workers[i].replay) {
            add_stats(&r->stats, &workers[i].stats);
            worker_deinit(&workers[i]);
        }
    free(workers);
    return failed;
}

/* ---- lookups ------------------------------------------------------------------------------- */

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

const struct session_lists *replay_lists(const struct replay *r)
{
    return r->lists;
}

const struct session *replay_session(const struct replay *r)
{
    return r->session;
}

struct managed_names *replay_managed_names(const struct replay *r)
{
    return r->managed;
}

const char *replay_runtime_problem(const struct replay *r, size_t *index)
{
    const char *problem = NULL;
    for (; !problem && *index < dsos_count(r->dsos); ++*index)
        problem = dso_runtime_problem(dsos_at(r->dsos, *index));
    *index -= problem != NULL;
    return problem;
}

struct dsos *replay_dsos(const struct replay *r)
{
    return r->dsos;
}

enum weight_unit replay_unit(const struct replay *r, unsigned event)
{
    if (r->options.weight)
        return r->options.weight_unit;
    if (event >= perfdata_nr_events(r->pd))
        return UNIT_COUNT;
    const struct perfdata_event *e = perfdata_event(r->pd, event);
    bool clock = e->attr.type == PERF_TYPE_SOFTWARE && (e->attr.config == PERF_COUNT_SW_CPU_CLOCK ||
                                                        e->attr.config == PERF_COUNT_SW_TASK_CLOCK);
    enum alloc_kind kind;
    if (perfdata_alloc_kind(e, &kind) || perfdata_is_resident(e))
        return UNIT_BYTES;
    return clock || perfdata_is_offcpu(e) ? UNIT_NS : UNIT_COUNT;
}

enum alloc_weight alloc_weight_named(const char *name)
{
    static const char *const names[] = {
        [ALLOC_WEIGHT_SPACE] = "alloc_space",       [ALLOC_WEIGHT_OBJECTS] = "alloc_objects",
        [ALLOC_WEIGHT_INUSE_SPACE] = "inuse_space", [ALLOC_WEIGHT_INUSE_OBJECTS] = "inuse_objects",
        [ALLOC_WEIGHT_PEAK_SPACE] = "peak_space",   [ALLOC_WEIGHT_PEAK_OBJECTS] = "peak_objects"};
    for (int i = ALLOC_WEIGHT_SPACE; name && i <= ALLOC_WEIGHT_PEAK_OBJECTS; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum alloc_weight)i;
    return ALLOC_WEIGHT_NONE;
}

bool replay_freed(const struct replay *r, const struct sample *s, uint64_t *ret)
{
    return r->log && memory_log_freed(r->log, s->addr, ret);
}

uint64_t replay_allocations_peak(const struct replay *r, enum alloc_kind kind)
{
    return r->log ? memory_log_peak(r->log, kind) : 0;
}

bool replay_allocation_known(const struct replay *r, const struct sample *s, uint64_t *ret)
{
    enum alloc_kind kind;
    *ret = 0;
    if (!r->log || !s->event || !perfdata_alloc_kind(s->event, &kind) ||
        !alloc_is_followed(s, kind))
        return false;
    *ret = memory_log_known(r->log, kind, s->pid, s->tid);
    return true;
}

bool replay_allocations_end(const struct replay *r, uint64_t *ret)
{
    return r->log && memory_log_freed(r->log, ALLOC_SERIAL_END, ret);
}

bool replay_alloc_weight(const struct replay *r, const struct sample *s, enum alloc_weight which,
                         uint64_t *ret)
{
    enum alloc_kind kind;
    uint64_t when, peak;
    bool in_use = which == ALLOC_WEIGHT_INUSE_SPACE || which == ALLOC_WEIGHT_INUSE_OBJECTS;
    bool at_peak = which == ALLOC_WEIGHT_PEAK_SPACE || which == ALLOC_WEIGHT_PEAK_OBJECTS;
    bool objects = which == ALLOC_WEIGHT_OBJECTS || which == ALLOC_WEIGHT_INUSE_OBJECTS ||
                   which == ALLOC_WEIGHT_PEAK_OBJECTS;
    if (which == ALLOC_WEIGHT_NONE || !s->event || !perfdata_alloc_kind(s->event, &kind))
        return false;
    *ret = objects ? alloc_objects(s) : s->period;
    peak = at_peak ? replay_allocations_peak(r, kind) : 0;
    if ((in_use || at_peak) && !alloc_is_followed(s, kind))
        *ret = 0; /* (its free would not be seen) */
    else if (in_use && replay_freed(r, s, &when))
        *ret = 0;
    else if (at_peak && (s->time > peak || (replay_freed(r, s, &when) && when <= peak)))
        *ret = 0;
    return true;
}

/* Whether memory is of a file of a disk: its pages are there for all who map it. */
static bool is_of_file(const struct mapping *m)
{
    static const char shared[] = "/dev/shm/";
    return m && (m->dso->kind == DSO_FILE || m->dso->kind == DSO_VDSO) &&
           strncmp(m->dso->name, shared, sizeof(shared) - 1) != 0;
}

bool replay_resident_weight(const struct replay *r, const struct sample *s,
                            const struct thread_context *thread, uint64_t *ret)
{
    struct resident_fault fault;
    uint64_t halves;
    if (!perfdata_resident(s, &fault))
        return false;
    if (!r->log || !memory_log_faults(r->log, s, &fault, &halves))
        halves = 2 * s->period;
    *ret = is_of_file(session_mapping(thread, s->addr)) ? 0 : halves * (fault.bytes / 2);
    return true;
}

unsigned replay_event(const struct replay *r, const struct sample *s)
{
    unsigned event = s->event ? s->event->index : 0;
    if (r->options.wall)
        for (event = 0; event < perfdata_nr_events(r->pd); event++)
            if (replay_unit(r, event) == UNIT_NS)
                break;
    return event;
}

const char *replay_weight_name(const struct replay *r, unsigned event)
{
    if (r->options.weight)
        return r->options.weight;
    if (r->options.wall)
        return "wall-clock";
    return event < perfdata_nr_events(r->pd) ? perfdata_event(r->pd, event)->name : "samples";
}

bool replay_waker(const struct replay_sample *s, char ret[REPLAY_WAKER_NAME])
{
    _Static_assert((int)REPLAY_WAKER_NAME == (int)OFFCPU_WAKER_NAME, "they hold the same names");
    struct offcpu_wake wake;
    if (!perfdata_offcpu_wake(s->sample, &wake) || !wake.has_waker)
        return false;
    offcpu_waker_name(&wake, ret);
    return true;
}

bool replay_is_idle(const struct replay *r, uint64_t wait)
{
    return r->idle && idle_is(r->idle, wait);
}

const struct replay_options *replay_options(const struct replay *r)
{
    return &r->options;
}

const struct replay_stats *replay_stats(const struct replay *r)
{
    return &r->stats;
}

const struct replay_incomplete_end *replay_incomplete_ends(const struct replay *r, size_t *nr)
{
    return end_table_sorted(r->stops, nr);
}

struct replay *replay_of(const struct replay_worker *w)
{
    return w->replay;
}
