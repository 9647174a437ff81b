/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How well a recording unwinds, and why not better: what was recorded, how and where stacks ended,
 * which files could not help, and what to do about each problem.
 */
#include "output/doctor.h"
#include "output/doctor_names.h"
#include "output/output.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { STOPS_SHOWN = 12, FILES_SHOWN = 24 };

struct event_count {
    uint64_t samples;
    uint64_t with_stack;
};

/* What the samples have of Lua. All fields are counts. */
struct lua_count {
    uint64_t samples;       /* samples with Lua frames */
    uint64_t provenance[3]; /* these samples by their weakest Lua frame, without `unrecorded` */
    uint64_t unrecorded;    /* samples where some or all Lua frames were not recorded */
    uint64_t frames, traced, inlined;
};

typedef VEC(uint64_t) count_list;

/* What the samples consist of. Each worker has one; they are added up at the end. */
struct tally {
    struct diagnosis *diagnosis;
    struct lua_count lua;
    struct name_tally names;
    VEC(struct event_count) events;
    count_list dso_frames;  /* by dso id */
    count_list functions;   /* frames by id of the managed function */
    uint64_t provenance[3]; /* user frames by enum provenance */
    uint64_t jit_frames;
    uint64_t unmapped_frames; /* user code in no mapping, or in a mapping without a file */
    uint64_t full_copies;     /* full stack copies: the stack may go on behind the copy */
    uint64_t holed_copies;    /* truncated at a page boundary: the kernel found no page to copy */
};

struct diagnosis {
    struct replay *replay;
    struct text *out;
    pthread_mutex_t lock;
    struct tally sum;
    bool failed;
    VEC(const char *) advice;
    struct text cure; /* of lost data */
};

/* ---- counting: a sink ---------------------------------------------------------------------- */

#define COUNT_AT(list, index)                                          \
    ({                                                                 \
        bool ok_ = vec_reserve(list, (size_t)(index) + 1);             \
        while (ok_ && (list)->nr <= (size_t)(index))                   \
            memset(&(list)->at[(list)->nr++], 0, sizeof(*(list)->at)); \
        ok_ ? &(list)->at[index] : NULL;                               \
    })

static int count_frame(struct tally *t, const struct frame *f)
{
    bool user = f->kind != FRAME_KERNEL && f->kind != FRAME_GUEST_KERNEL;
    if (user && f->provenance <= PROVENANCE_GUESS)
        t->provenance[f->provenance]++;
    if (f->kind == FRAME_JIT) {
        t->jit_frames++;
        return 0;
    }
    if (frame_is_managed(f)) {
        uint64_t *of = COUNT_AT(&t->functions, f->function);
        if (!of)
            return -1;
        ++*of;
        return 0;
    }
    const struct mapping *m = f->code;
    if (!m) {
        t->unmapped_frames += user;
        return 0;
    }
    uint64_t *frames = COUNT_AT(&t->dso_frames, m->dso->id);
    if (!frames)
        return -1;
    ++*frames;
    return 0;
}

static void count_lua(struct lua_count *l, const struct replay_sample *s)
{
    uint64_t frames = 0;
    unsigned weakest = PROVENANCE_EXACT;
    bool unrecorded = false;
    for (size_t i = 0; i < s->nr_frames; i++) {
        const struct frame *f = &s->frames[i];
        if (f->kind != FRAME_LUA)
            continue;
        frames++;
        unrecorded |= f->function == 0;
        weakest = f->provenance > weakest ? f->provenance : weakest;
        l->traced += f->tier == TIER_TRACE;
        l->inlined += (f->flags & FRAME_INLINED) != 0;
    }
    if (!frames)
        return;
    l->frames += frames;
    l->samples++;
    if (unrecorded)
        l->unrecorded++;
    else if (weakest <= PROVENANCE_GUESS)
        l->provenance[weakest]++;
}

static void add_lua(struct lua_count *to, const struct lua_count *from)
{
    to->samples += from->samples;
    for (int i = 0; i < 3; i++)
        to->provenance[i] += from->provenance[i];
    to->unrecorded += from->unrecorded;
    to->frames += from->frames;
    to->traced += from->traced;
    to->inlined += from->inlined;
}

/* The kernel copies a stack up to the first page that is not in memory. A page that was never
 * written, for example inside a large buffer, ends the copy although the stack goes on behind the
 * page. */
static bool ends_at_hole(const struct replay_sample *s)
{
    uint64_t sp = 0;
    if (s->end != STACK_TRUNCATED || s->sample->stack_dyn_size >= s->sample->stack_size)
        return false;
    sample_user_reg(s->sample, s->arch->perf_sp, &sp);
    return (sp + s->sample->stack_dyn_size) % ARCH_PAGE_MIN == 0;
}

static int take_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    struct tally *t = worker;
    struct event_count *e = s->sample->event ? COUNT_AT(&t->events, s->sample->event->index) : NULL;
    if (s->sample->event && !e)
        return error_no_memory(err);
    if (e) {
        e->samples++;
        e->with_stack += s->sample->stack_size != 0;
    }
    t->full_copies += s->sample->stack_size && s->sample->stack_dyn_size == s->sample->stack_size;
    t->holed_copies += s->unwound && ends_at_hole(s);
    count_lua(&t->lua, s);
    if (!name_tally_take(&t->names, s))
        return error_no_memory(err);
    for (size_t i = 0; i < s->nr_frames; i++)
        if (count_frame(t, &s->frames[i]) < 0)
            return error_no_memory(err);
    return 0;
}

static int tally_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    struct tally *t = calloc(1, sizeof(*t));
    (void)w;
    if (!t)
        return error_no_memory(err);
    t->diagnosis = context;
    *ret = t;
    return 0;
}

static bool add_counts(count_list *to, const count_list *from)
{
    for (size_t i = 0; i < from->nr; i++) {
        uint64_t *count = COUNT_AT(to, i);
        if (!count)
            return false;
        *count += from->at[i];
    }
    return true;
}

static bool tally_add(struct tally *to, const struct tally *from)
{
    for (size_t i = 0; i < from->events.nr; i++) {
        struct event_count *e = COUNT_AT(&to->events, i);
        if (!e)
            return false;
        e->samples += from->events.at[i].samples;
        e->with_stack += from->events.at[i].with_stack;
    }
    if (!add_counts(&to->dso_frames, &from->dso_frames) ||
        !add_counts(&to->functions, &from->functions))
        return false;
    for (int i = 0; i < 3; i++)
        to->provenance[i] += from->provenance[i];
    add_lua(&to->lua, &from->lua);
    if (!name_tally_add(&to->names, &from->names))
        return false;
    to->jit_frames += from->jit_frames;
    to->unmapped_frames += from->unmapped_frames;
    to->full_copies += from->full_copies;
    to->holed_copies += from->holed_copies;
    return true;
}

static void tally_free(void *worker)
{
    struct tally *t = worker;
    struct diagnosis *d = t->diagnosis;
    pthread_mutex_lock(&d->lock);
    d->failed |= !tally_add(&d->sum, t);
    pthread_mutex_unlock(&d->lock);
    vec_free(&t->events);
    vec_free(&t->dso_frames);
    vec_free(&t->functions);
    name_tally_free(&t->names);
    free(t);
}

/* ---- printing ------------------------------------------------------------------------------ */

/* Add a piece of advice, unless it was given before. Advice is printed in the order of first
 * need. */
static void advise(struct diagnosis *d, const char *text)
{
    vec_foreach (known, &d->advice)
        if (*known == text)
            return;
    d->failed |= !vec_push(&d->advice, text);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_field(struct text *t, const char *name, const char *value)
{
    text_printf(t, "  %-14s ", name);
    text_symbol(t, value ? value : "not recorded");
    text_char(t, '\n');
}

static const char *clock_name(const struct perfdata *pd)
{
    static const char *const names[] = {
        [0] = "realtime", [1] = "monotonic", [4] = "monotonic_raw", [7] = "boottime", [11] = "tai"};
    int id;
    if (!perfdata_clockid(pd, &id))
        return "perf's own (not -k mono)";
    bool known = id >= 0 && (size_t)id < sizeof(names) / sizeof(*names) && names[id];
    return known ? names[id] : "another";
}

static void put_event(struct diagnosis *d, size_t index)
{
    const struct perfdata_event *e = perfdata_event(replay_perfdata(d->replay), index);
    struct event_count count = {0};
    if (index < d->sum.events.nr)
        count = d->sum.events.at[index];
    text_string(d->out, "  event          ");
    text_symbol(d->out, e->name);
    text_printf(d->out, ": %" PRIu64 " samples", count.samples);
    if (e->attr.sample_type & PERF_SAMPLE_STACK_USER)
        text_printf(d->out, ", %" PRIu32 " bytes of stack each", e->attr.sample_stack_user);
    else if (count.samples)
        text_string(d->out, ", no copy of the stack");
    text_char(d->out, '\n');
}

static void put_recording(struct diagnosis *d)
{
    const struct perfdata *pd = replay_perfdata(d->replay);
    const struct perfdata_loss *loss = perfdata_loss(pd);
    text_string(d->out, "Recording\n");
    put_field(d->out, "file", perfdata_path(pd));
    put_field(d->out, "command", perfdata_cmdline(pd));
    put_field(d->out, "perf version", perfdata_perf_version(pd));
    put_field(d->out, "machine", perfdata_arch(pd));
    put_field(d->out, "clock", clock_name(pd));
    for (size_t i = 0; i < perfdata_nr_events(pd); i++)
        put_event(d, i);
    text_string(d->out, "  lost           ");
    bool lost = loss_put(d->out, loss);
    text_string(d->out, lost ? "\n" : "nothing\n");
    if (lost) {
        text_string(&d->cure, "data was lost while recording; ");
        loss_put_cure(&d->cure, pd);
        text_string(&d->cure, ", or with smaller stack copies");
        text_char(&d->cure, 0);
        advise(d, d->cure.failed ? "data was lost while recording" : d->cure.at);
    }
    if (loss->throttled)
        advise(d, "the kernel throttled sampling; record with a lower -F, or set sysctl "
                  "kernel.perf_cpu_time_max_percent=0");
    if (loss->damage.kind != ERROR_NONE)
        advise(d, "the file is damaged; these numbers do not include what is behind the damage");
}

/* ---- how stacks ended ---------------------------------------------------------------------- */

static const char *const end_words[STACK_NR_ENDS] = {
    [STACK_COMPLETE] = "complete: the program's entry point or a thread's start was reached",
    [STACK_TRUNCATED] = "truncated: the stack continues behind the end of its copy",
    [STACK_NO_CFI] = "no unwind information",
    [STACK_NO_CODE] = "no code: the address is in no mapping",
    [STACK_BAD_READ] = "bad read: memory was needed that was not recorded",
    [STACK_LOOP] = "loop: the stack pointer did not move up",
    [STACK_LIMIT] = "deeper than --max-stack",
    [STACK_NO_REGS] = "no user registers",
};

static void advise_stacks(struct diagnosis *d)
{
    const struct replay_stats *st = replay_stats(d->replay);
    const struct perfdata *pd = replay_perfdata(d->replay);
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < perfdata_nr_events(pd); i++) {
        const struct perf_event_attr *attr = &perfdata_event(pd, i)->attr;
        if (attr->sample_type & PERF_SAMPLE_STACK_USER && attr->sample_stack_user < least)
            least = attr->sample_stack_user;
    }
    if (!st->user && !st->unsupported_machine)
        advise(d, "no sample has a copy of its stack; record with --call-graph=dwarf,65528");
    else if (st->ends[STACK_TRUNCATED] > d->sum.holed_copies && least < 65528)
        advise(d, "stacks are deeper than their copies; record with --call-graph=dwarf,65528");
    else if (st->ends[STACK_TRUNCATED] > d->sum.holed_copies)
        advise(
            d,
            "stacks are deeper than 64 KiB, the most that perf can copy; record with a higher -F, "
            "so that there are more complete stacks to join to");
    if (st->ends[STACK_NO_CODE] || d->sum.unmapped_frames)
        advise(d,
               "nothing describes some of the generated code; let the program write a jitdump or a "
               "perf map while it runs (node --perf-basic-prof, luajit -jljdump)");
    if (st->unsupported_abi)
        advise(d, "32-bit or foreign code, and code at addresses of too many bits, is not unwound");
    if (st->unsupported_machine)
        advise(d, "the recording is of another machine; only stacks of " ARCH_TITLES
                  " can be unwound");
}

static void put_lua(struct diagnosis *d)
{
    const struct lua_count *l = &d->sum.lua;
    const struct replay_stats *st = replay_stats(d->replay);
    if (!l->samples)
        return;
    text_printf(d->out, "Lua: %" PRIu64 " samples have Lua frames\n", l->samples);
    static const char *const words[] = {"all frames are exact",
                                        "some frames were read at another moment and agree",
                                        "some frames are guessed"};
    for (int i = 0; i < 3; i++)
        if (l->provenance[i])
            text_printf(d->out, "  %10" PRIu64 "  %6.2f%%  %s\n", l->provenance[i],
                        share(l->provenance[i], l->samples), words[i]);
    if (l->unrecorded)
        text_printf(d->out, "  %10" PRIu64 "  %6.2f%%  some or all frames were not recorded\n",
                    l->unrecorded, share(l->unrecorded, l->samples));
    text_printf(d->out,
                "  %" PRIu64 " frames, %.2f%% executed by traces, %.2f%% inlined in them; %" PRIu64
                " vmstacks were recorded, %" PRIu64 " of them belong to no sample\n",
                l->frames, share(l->traced, l->frames), share(l->inlined, l->frames), st->copies,
                st->copies_unused);
    if (l->unrecorded && !st->copies)
        advise(d,
               "Lua functions were not recorded; record with ljperf record as root, which adds a "
               "vmstack to each sample");
}

/* Returns how many frames have a name that nothing proves to be their function's. */
static uint64_t guessed_names(const struct diagnosis *d)
{
    uint64_t frames = 0;
    struct managed_function g;
    for (uint32_t id = 1; id < d->sum.functions.nr; id++)
        if (d->sum.functions.at[id] &&
            managed_get(replay_managed_names(d->replay), id, UINT64_MAX, &g) &&
            managed_name_is_guessed(&g))
            frames += d->sum.functions.at[id];
    return frames;
}

static void put_stacks(struct diagnosis *d)
{
    const struct replay_stats *st = replay_stats(d->replay);
    uint64_t frames = d->sum.provenance[0] + d->sum.provenance[1] + d->sum.provenance[2];
    text_printf(d->out, "\nStacks: %" PRIu64 " of %" PRIu64 " samples have a user stack to walk\n",
                st->user, st->passed);
    for (int i = 0; i < STACK_NR_ENDS; i++)
        if (st->ends[i])
            text_printf(d->out, "  %10" PRIu64 "  %6.2f%%  %s\n", st->ends[i],
                        share(st->ends[i], st->user), end_words[i]);
    if (st->joined)
        text_printf(d->out, "  %10" PRIu64 "  %6.2f%%  were joined to an earlier complete stack\n",
                    st->joined, share(st->joined, st->user));
    if (st->bad)
        text_printf(d->out, "  %10" PRIu64 "           damaged samples were skipped\n", st->bad);
    text_printf(d->out,
                "Frames: %" PRIu64 " of user code: %.2f%% exact, %.2f%% joined%s, %.2f%% guessed; "
                "%.2f%% generated code\n",
                frames, share(d->sum.provenance[PROVENANCE_EXACT], frames),
                share(d->sum.provenance[PROVENANCE_STALE], frames),
                d->sum.lua.samples ? " or read at another moment" : "",
                share(d->sum.provenance[PROVENANCE_GUESS], frames),
                share(d->sum.jit_frames, frames));
    uint64_t guessed = guessed_names(d);
    if (guessed)
        text_printf(d->out, "Names: %" PRIu64 " frames have a name that is a guess\n", guessed);
    if (d->sum.full_copies)
        text_printf(d->out, "Stack copies: %" PRIu64 " are full to the last byte\n",
                    d->sum.full_copies);
    if (d->sum.holed_copies)
        text_printf(d->out,
                    "Stack copies: %" PRIu64
                    " end at a page that the program never wrote; the stack continues behind it\n",
                    d->sum.holed_copies);
    put_lua(d);
    advise_stacks(d);
}

/* ---- where stacks ended -------------------------------------------------------------------- */

static struct dso *find_dso(struct dsos *all, const char *name)
{
    for (size_t i = 0; name && i < dsos_count(all); i++)
        if (dsos_at(all, i)->name == name)
            return dsos_at(all, i);
    return NULL;
}

static void advise_stop(struct diagnosis *d, const struct replay_incomplete_end *stop,
                        const struct dso *dso)
{
    if (stop->end != STACK_NO_CFI)
        return;
    if (dso && dso->kind == DSO_PSEUDO)
        advise(d, "stacks end in generated code without unwind information and frame pointers; for "
                  "LuaJIT use ljperf record, or luajit -jljdump (see man ljdump)");
    else
        advise(d, "stacks end in code without unwind information; build it with "
                  "-fasynchronous-unwind-tables or -fno-omit-frame-pointer");
}

static void put_stop(struct diagnosis *d, const struct replay_incomplete_end *stop,
                     struct symbol_cache *cache)
{
    static const char *const words[STACK_NR_ENDS] = {
        [STACK_TRUNCATED] = "truncated", [STACK_NO_CFI] = "no CFI", [STACK_NO_CODE] = "no mapping",
        [STACK_BAD_READ] = "bad read",   [STACK_LOOP] = "loop",     [STACK_LIMIT] = "too deep",
        [STACK_NO_REGS] = "no registers"};
    struct dso *dso = find_dso(replay_dsos(d->replay), stop->module);
    const struct resolved *r = NULL;
    advise_stop(d, stop, dso);
    if (dso && dso->kind != DSO_PSEUDO)
        r = symbols_resolve(cache, dso, stop->address, stop->address);
    text_printf(d->out, "  %10" PRIu64 "  %-11s ", stop->count,
                words[stop->end] ? words[stop->end] : "");
    text_symbol(d->out, stop->module ? stop->module : "0x");
    text_printf(d->out, stop->module ? "+0x%" PRIx64 : "%" PRIx64, stop->address);
    if (r && r->symbol) {
        text_string(d->out, "  ");
        text_symbol(d->out, r->symbol);
    }
    text_char(d->out, '\n');
}

static int put_stops(struct diagnosis *d, struct error *err)
{
    size_t nr;
    const struct replay_incomplete_end *stops = replay_incomplete_ends(d->replay, &nr);
    const struct symbols_options plain = {0};
    if (!nr)
        return 0;
    struct symbols *symbols = symbols_create(replay_dsos(d->replay), &plain);
    struct symbol_cache *cache = symbols ? symbol_cache_create(symbols) : NULL;
    if (cache) {
        text_printf(d->out, "\nWhere stacks ended early (%zu places)\n", nr);
        for (size_t i = 0; i < nr && i < STOPS_SHOWN; i++)
            put_stop(d, &stops[i], cache);
        symbol_cache_free(cache);
    }
    symbols_free(symbols);
    return cache ? 0 : error_no_memory(err);
}

/* ---- files --------------------------------------------------------------------------------- */

struct dso_use {
    struct dso *dso;
    uint64_t frames;
};

static int by_frames(const void *a, const void *b)
{
    const struct dso_use *x = a;
    const struct dso_use *y = b;
    if (x->frames != y->frames)
        return x->frames < y->frames ? 1 : -1;
    int order = strcmp(x->dso->name, y->dso->name);
    return order ? order : (x->dso->id > y->dso->id) - (x->dso->id < y->dso->id);
}

/* Returns what a file with frames lacks; NULL: nothing. */
static const char *lack_of(struct diagnosis *d, struct dso *dso)
{
    struct elf_section section;
    if (dso->kind == DSO_PSEUDO || dso->kind == DSO_KERNEL || dso->kind == DSO_KMODULE)
        return NULL;
    const struct elf_image *image = dso_image(dso);
    const char *problem = dso_problem(dso);
    if (!image) {
        advise(d,
               "files are missing; analyse the recording where they are, or give their root with "
               "--symfs");
        return problem ? problem : "the file was not found";
    }
    if (problem) {
        advise(d,
               "files changed since they were recorded; record again, or give the old files with "
               "--symfs");
        return problem;
    }
    if (dso->kind == DSO_FILE && !cfi_has_rules(dso_cfi(dso)))
        return "no unwind information";
    if (dso->kind == DSO_FILE && !elf_image_section(dso_debug_image(dso), ".symtab", &section)) {
        advise(d,
               "stripped files name exported functions only; install their debug packages, or set "
               "DEBUGINFOD_URLS");
        return "stripped: only exported functions have names";
    }
    return NULL;
}

static int put_files(struct diagnosis *d, struct error *err)
{
    struct dsos *all = replay_dsos(d->replay);
    VEC(struct dso_use) used = {0};
    size_t shown = 0;
    bool failed = false;
    for (size_t i = 0; i < dsos_count(all) && !failed; i++) {
        struct dso_use use = {.dso = dsos_at(all, i)};
        if (use.dso->id < d->sum.dso_frames.nr)
            use.frames = d->sum.dso_frames.at[use.dso->id];
        failed = use.frames && !vec_push(&used, use);
    }
    if (used.nr)
        qsort(used.at, used.nr, sizeof(*used.at), by_frames);
    for (size_t i = 0; i < used.nr && shown < FILES_SHOWN; i++) {
        const char *lack = lack_of(d, used.at[i].dso);
        if (!lack)
            continue;
        text_string(d->out, shown++ ? "" : "\nProblems of files, by frames in them\n");
        text_printf(d->out, "  %10" PRIu64 " frames  ", used.at[i].frames);
        text_symbol(d->out, used.at[i].dso->name);
        text_string(d->out, ": ");
        text_symbol(d->out, lack);
        text_char(d->out, '\n');
    }
    vec_free(&used);
    return failed ? error_no_memory(err) : 0;
}

/* ---- generated code, warnings, advice ------------------------------------------------------ */

static void put_session(struct diagnosis *d)
{
    const struct session *session = replay_session(d->replay);
    struct session_stats st = session_stats(session);
    const char *warning;
    text_printf(d->out,
                "\nSession: %" PRIu64 " processes, %" PRIu64 " threads, %" PRIu64
                " mappings (%" PRIu64 " repeated), %" PRIu64 " jitdumps and perf maps with %" PRIu64
                " functions\n",
                st.processes, st.threads, st.maps, st.maps_equal, st.jit_files, st.jit_functions);
    for (size_t i = 0; (warning = session_warning(session, i)); i++) {
        text_string(d->out, "  ");
        text_symbol(d->out, warning);
        text_char(d->out, '\n');
    }
    int clock;
    if (st.jit_files && !perfdata_clockid(replay_perfdata(d->replay), &clock))
        advise(d,
               "the recording does not have the monotonic clock of jitdumps; record with -k mono");
}

static void put_advice(struct diagnosis *d)
{
    text_string(d->out, d->advice.nr ? "\nWhat would help\n" : "\nNo problem was found.\n");
    vec_foreach (advice, &d->advice)
        text_printf(d->out, "  - %s\n", *advice);
}

int doctor_file(struct replay *r, struct text *out, struct error *err)
{
    struct diagnosis d = {.replay = r, .out = out};
    struct replay_sink sink = {.context = &d,
                               .worker_create = tally_create,
                               .worker_free = tally_free,
                               .sample = take_sample};
    pthread_mutex_init(&d.lock, NULL);
    int failed = replay_run(r, &sink, err);
    if (!failed) {
        put_recording(&d);
        put_stacks(&d);
        failed = put_stops(&d, err) < 0 || put_files(&d, err) < 0;
        put_session(&d);
        d.failed |= !name_tally_print(&d.sum.names, replay_managed_names(r), out);
        put_advice(&d);
    }
    if (!failed && (d.failed || out->failed))
        failed = error_no_memory(err);
    vec_free(&d.sum.events);
    vec_free(&d.sum.dso_frames);
    vec_free(&d.sum.functions);
    name_tally_free(&d.sum.names);
    vec_free(&d.advice);
    text_free(&d.cure);
    pthread_mutex_destroy(&d.lock);
    return failed ? -1 : 0;
}
