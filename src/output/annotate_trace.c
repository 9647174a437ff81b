/* SPDX-License-Identifier: GPL-2.0-only */
/* See annotate_trace.h. A trace is read at the first sample in it, as the recording has it at that
 * time. If a trace is compiled again under the same number, it is a different trace. */
#include "output/annotate_trace.h"
#include "output/annotate_code.h"
#include "output/annotate_internal.h"
#include "output/output.h"
#include "session/registers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MISSES_MAX = 1000 }; /* failed searches, after which no more are made */

struct traced {
    struct luajit_listing listing;
    uint32_t pid;
    const char *comm; /* interned */
    uint64_t *self;   /* weight by offset in the code; one more entry: the sum */
    uint64_t total, samples;
    uint64_t met;
};

struct annotate_traces {
    struct replay *replay;
    const struct annotate_options *options;
    uint32_t number;
    const struct perfdata_event *event; /* the first event that was sampled */
    struct intern *strings;
    VEC(struct traced) traces; /* all traces seen in samples; jumps lead between them */
    uint64_t all, unread;      /* weights: of all samples; of samples in an unrecorded trace */
    uint64_t others;           /* samples of other events */
    unsigned misses;
    struct replay_worker *worker;
};

int annotate_traces_create(struct replay *r, const struct annotate_options *options,
                           uint32_t number, struct annotate_traces **ret, struct error *err)
{
    struct annotate_traces *t = calloc(1, sizeof(*t));
    if (!t)
        return error_no_memory(err);
    t->replay = r;
    t->options = options;
    t->number = number;
    t->strings = intern_create();
    if (!t->strings) {
        free(t);
        return error_no_memory(err);
    }
    *ret = t;
    return 0;
}

void annotate_traces_free(struct annotate_traces *t)
{
    if (!t)
        return;
    vec_foreach (one, &t->traces) {
        luajit_listing_free(&one->listing);
        free(one->self);
    }
    vec_free(&t->traces);
    intern_free(t->strings);
    free(t);
}

/* ---- collecting ----------------------------------------------------------------------------- */

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    struct annotate_traces *t = context;
    (void)err;
    t->worker = w;
    *ret = t;
    return 0;
}

/* Exits get side traces over time. So the newest listing has the most, unless less of it was
 * read. */
static int renew_trace(struct annotate_traces *t, const struct replay_sample *s, uint64_t address,
                       struct traced *one, struct error *err)
{
    struct luajit_listing now;
    one->met++;
    if (one->met & (one->met - 1)) /* rarely, but up to the end: at powers of 2 */
        return 1;
    int got = replay_trace(t->worker, s, one->listing.number, address, &now, err);
    if (got <= 0)
        return got < 0 ? -1 : 1;
    if (now.address != one->listing.address || now.size != one->listing.size ||
        now.jumps.nr < one->listing.jumps.nr) {
        luajit_listing_free(&now);
        return 1;
    }
    luajit_listing_free(&one->listing);
    one->listing = now;
    return 1;
}

static int add_trace(struct annotate_traces *t, const struct replay_sample *s, uint32_t number,
                     uint64_t address, struct error *err)
{
    struct traced new = {.pid = s->thread->pid};
    int got = replay_trace(t->worker, s, number, address, &new.listing, err);
    if (got <= 0)
        return got;
    new.comm = intern_string(t->strings, s->comm);
    new.self = calloc((size_t) new.listing.size + 1, sizeof(*new.self));
    if (new.comm &&new.self && vec_push(&t->traces, new))
        return 1;
    free(new.self);
    luajit_listing_free(&new.listing);
    return error_no_memory(err);
}

/* Returns 1; 0: the trace is not recorded; -1: error. */
static int find_trace(struct annotate_traces *t, const struct replay_sample *s, uint32_t number,
                      uint64_t address, struct traced **ret, struct error *err)
{
    vec_foreach (known, &t->traces) {
        if (known->listing.number != number || known->pid != s->thread->pid ||
            address - known->listing.address >= known->listing.size)
            continue;
        *ret = known;
        return renew_trace(t, s, address, known, err);
    }
    *ret = NULL;
    if (t->misses == MISSES_MAX)
        return 0;
    int got = add_trace(t, s, number, address, err);
    t->misses += got == 0;
    if (got > 0)
        *ret = &t->traces.at[t->traces.nr - 1];
    return got;
}

static void weigh_trace(struct traced *one, const struct frame *f, bool leaf, uint64_t weight)
{
    one->total += weight;
    if (!leaf)
        return;
    one->samples++;
    one->self[frame_lookup_pc(f) - one->listing.address] += weight;
    one->self[one->listing.size] += weight;
}

/* Count the frames that executed a trace's own code: the innermost one of each run of functions in
 * the trace. */
static int take_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    struct annotate_traces *t = worker;
    uint64_t weight = t->options->samples ? 1 : s->sample->period ? s->sample->period : 1;
    size_t counted = SIZE_MAX; /* index of the counted trace; adding a trace moves them */
    t->event = t->event ? t->event : s->sample->event;
    t->others += t->event != s->sample->event;
    if (t->event != s->sample->event)
        return 0;
    t->all += weight;
    for (size_t i = 0; i < s->nr_frames; i++) {
        const struct frame *f = &s->frames[i], *inner = i ? f - 1 : NULL;
        struct traced *one = NULL;
        if (f->kind != FRAME_LUA || f->tier != TIER_TRACE ||
            (inner && (inner->flags & FRAME_INLINED) && inner->trace == f->trace))
            continue;
        int found = find_trace(t, s, f->trace, frame_lookup_pc(f), &one, err);
        if (found < 0)
            return -1;
        size_t index = one ? (size_t)(one - t->traces.at) : SIZE_MAX;
        if (f->trace != t->number || (one && index == counted))
            continue;
        if (one)
            weigh_trace(one, f, i == 0, weight);
        else
            t->unread += weight;
        counted = one ? index : counted;
    }
    return 0;
}

struct replay_sink annotate_traces_sink(struct annotate_traces *t)
{
    return (struct replay_sink){
        .context = t, .worker_create = worker_create, .sample = take_sample};
}

/* ---- printing ------------------------------------------------------------------------------- */

struct trace_printer {
    struct annotate_traces *t;
    const struct traced *trace;
    struct source_files sources;
    size_t exit; /* the next exit whose code was not reached yet */
    FILE *out;
};

static void print_managed(const struct trace_printer *p, const struct luajit_listing_place *place)
{
    struct managed_function g;
    struct text symbol = {0}, shown = {0};
    if (!place->function ||
        !managed_get(replay_managed_names(p->t->replay), place->function, UINT64_MAX, &g)) {
        fputs("(unknown function)", p->out);
        return;
    }
    managed_symbol(&symbol, &g);
    text_char(&symbol, 0);
    if (!symbol.failed)
        text_managed_symbol(&shown, symbol.at);
    fprintf(p->out, "%.*s", (int)shown.size, shown.at ? shown.at : "");
    if (place->line)
        fprintf(p->out, ", line %" PRIu32, place->line);
    text_free(&symbol);
    text_free(&shown);
}

/* Print "; FUNCTION, line N | bytecode | source". */
static void print_place(struct trace_printer *p, const struct luajit_listing_place *place)
{
    struct managed_function g;
    const char *line = NULL;
    print_managed(p, place);
    if (*place->bytecode)
        fprintf(p->out, " | %s", place->bytecode);
    if (place->function && place->line &&
        managed_get(replay_managed_names(p->t->replay), place->function, UINT64_MAX, &g) && g.file)
        line = annotate_line(&p->sources, g.file, place->line);
    if (line) {
        fputs(" | ", p->out);
        annotate_text(p->out, line + strspn(line, " \t"));
    }
    fputc('\n', p->out);
}

static const struct luajit_listing_jump *jump_at(const struct luajit_listing *l, uint32_t offset)
{
    vec_foreach (j, &l->jumps)
        if (j->offset == offset)
            return j;
    return NULL;
}

/* Find the target of a jump to a trace that was seen in samples, but was not known when this trace
 * was read; or of the jump at the trace's end to the trace that it continues with. */
static bool find_jump(const struct trace_printer *p, const struct instruction *i, uint64_t target,
                      struct luajit_listing_jump *ret)
{
    const struct luajit_listing *l = &p->trace->listing;
    *ret = (struct luajit_listing_jump){.target = LISTING_TRACE, .exit = UINT32_MAX};
    vec_foreach (other, &p->t->traces) {
        if (other->pid != p->trace->pid || other->listing.address != target)
            continue;
        if (ret->trace && ret->trace != other->listing.number)
            return false; /* several traces were compiled here: it is unknown which is meant */
        ret->trace = other->listing.number;
        if (other->listing.parent == l->number)
            ret->exit = other->listing.parent_exit;
    }
    if (ret->trace)
        return true;
    bool last = i->address + i->size == l->address + l->size && strcmp(i->name, "jmp") == 0;
    ret->trace = l->link;
    return last && l->link && l->link != l->number;
}

static void print_jump(struct trace_printer *p, const struct luajit_listing_jump *j)
{
    const struct luajit_listing *l = &p->trace->listing;
    bool has_exit = j->exit != UINT32_MAX;
    fputs("   ; -> ", p->out);
    if (j->target == LISTING_INTERPRETER)
        fputs("the interpreter", p->out);
    if (j->target == LISTING_TRACE)
        fprintf(p->out, "trace %u%s", j->trace, has_exit ? " by " : "");
    if (has_exit)
        fprintf(p->out, "exit %" PRIu32, j->exit);
    if (j->exit >= l->exits.nr || !l->exits.at[j->exit].place.function)
        return;
    const struct luajit_listing_place *to = &l->exits.at[j->exit].place;
    fputs(": ", p->out);
    if (to->function == l->start.function && to->line)
        fprintf(p->out, "line %" PRIu32, to->line);
    else
        print_managed(p, to);
}

static void print_target(struct trace_printer *p, const struct instruction *i, uint64_t target)
{
    const struct luajit_listing *l = &p->trace->listing;
    const struct luajit_listing_jump *j = jump_at(l, (uint32_t)(i->address - l->address));
    struct luajit_listing_jump met;
    if (j)
        print_jump(p, j);
    else if (l->loop && target == l->address + l->loop)
        fputs("   ; -> the loop", p->out);
    else if (target - l->address >= l->size && find_jump(p, i, target, &met))
        print_jump(p, &met);
    else if (target - l->address >= l->size)
        fputs("   ; -> unknown", p->out);
}

/* Print what begins at an offset: the loop, or the code of snapshots. */
static void print_marks(struct trace_printer *p, uint32_t offset)
{
    const struct luajit_listing *l = &p->trace->listing;
    if (l->loop && offset == l->loop)
        fputs("          : ---- the loop begins ----\n", p->out);
    for (; l->has_offsets && p->exit < l->exits.nr && l->exits.at[p->exit].offset <= offset;
         p->exit++) {
        fprintf(p->out, "          : ; exit %zu: ", p->exit);
        print_place(p, &l->exits.at[p->exit].place);
    }
}

static void print_instruction(void *context, const struct instruction *i)
{
    struct trace_printer *p = context;
    const struct luajit_listing *l = &p->trace->listing;
    uint32_t offset = (uint32_t)(i->address - l->address);
    uint64_t self = 0;
    for (uint32_t k = 0; k < i->size && offset + k < l->size; k++)
        self += p->trace->self[offset + k];
    print_marks(p, offset);
    annotate_share(p->t->options, p->out, self, p->trace->self[l->size]);
    fprintf(p->out, " :  %" PRIx64 ":  %-7s %s", i->address, i->name, i->operands);
    if (*i->name == 'j')
        print_target(p, i, strtoull(i->operands, NULL, 16));
    fputc('\n', p->out);
}

static void print_kind(const struct trace_printer *p)
{
    const struct luajit_listing *l = &p->trace->listing;
    if (!l->root)
        fputs("# This is a root trace", p->out);
    else if (l->parent)
        fprintf(p->out,
                "# This is a side trace of trace %u, from its exit %u; the root is trace %u",
                l->parent, l->parent_exit, l->root);
    else
        fprintf(p->out, "# This is a side trace; the root is trace %u", l->root);
    if (l->link == l->number)
        fputs("; it loops\n", p->out);
    else if (l->link)
        fprintf(p->out, "; it continues in trace %u\n", l->link);
    else
        fputs("; it continues in the interpreter\n", p->out);
}

/* Print the exits that lead to side traces, found by jumps or by the traces that were seen. */
static void print_sides(const struct trace_printer *p)
{
    const struct luajit_listing *l = &p->trace->listing;
    for (uint32_t exit = 0; exit < l->exits.nr; exit++) {
        uint16_t side = 0, met = 0;
        bool several = false;
        vec_foreach (j, &l->jumps)
            if (j->target == LISTING_TRACE && j->exit == exit)
                side = j->trace;
        vec_foreach (other, &p->t->traces) {
            if (other->pid != p->trace->pid || other->listing.parent != l->number ||
                !other->listing.root || other->listing.parent_exit != exit)
                continue;
            several |= met && met != other->listing.number;
            met = other->listing.number;
        }
        if (!side && !several)
            side = met;
        if (side)
            fprintf(p->out, "# Exit %" PRIu32 " leads to trace %u\n", exit, side);
    }
}

static void print_head(struct trace_printer *p)
{
    const struct traced *one = p->trace;
    struct text comm = {0};
    double all = (double)p->t->all;
    text_name(&comm, one->comm);
    fprintf(p->out, "# Trace %u of %.*s %" PRIu32 ": %" PRIu32 " bytes at 0x%" PRIx64 "\n",
            one->listing.number, (int)comm.size, comm.at ? comm.at : "", one->pid,
            one->listing.size, one->listing.address);
    text_free(&comm);
    fprintf(p->out,
            "# %s: %" PRIu64 " samples in its code, %.2f%% of all; %.2f%% with its callees\n",
            p->t->event->name, one->samples, 100.0 * (double)one->self[one->listing.size] / all,
            100.0 * (double)one->total / all);
    print_kind(p);
    fputs("# It starts in ", p->out);
    print_place(p, &one->listing.start);
    print_sides(p);
    if (one->listing.provenance != PROVENANCE_EXACT)
        fputs("# It was read at another moment than its samples; parts may have changed\n", p->out);
    if (!one->listing.has_offsets)
        fputs("# This build of LuaJIT does not say which exit covers which code\n", p->out);
    fputs("#\n# Percent :  Machine code; comments name the place that an exit leads to\n"
          "# .......\n",
          p->out);
}

static int compare_traces(const void *x, const void *y)
{
    const struct traced *a = x, *b = y;
    if (a->total != b->total)
        return a->total < b->total ? 1 : -1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return (a->listing.address > b->listing.address) - (a->listing.address < b->listing.address);
}

int annotate_traces_print(struct annotate_traces *t, FILE *out, struct error *err)
{
    int failed = 0;
    bool any = false;
    vec_foreach (one, &t->traces)
        any |= one->listing.number == t->number;
    if (!any)
        return error_set(err, ERROR_FORMAT, "trace %" PRIu32 " %s", t->number,
                         t->unread ? "has samples, but its machine code is not in the recording"
                                   : "has no samples");
    qsort(t->traces.at, t->traces.nr, sizeof(*t->traces.at), compare_traces);
    vec_foreach (one, &t->traces) {
        struct trace_printer p = {.t = t, .trace = one, .out = out};
        p.sources.options = t->options;
        p.sources.replay = t->replay;
        if (one->listing.number != t->number)
            continue;
        if (!any)
            fputc('\n', out);
        any = false;
        print_head(&p);
        failed = annotate_instructions(recording_arch(replay_perfdata(t->replay)),
                                       t->options->syntax, one->listing.code, one->listing.size,
                                       one->listing.address, print_instruction, &p, err);
        source_files_free(&p.sources);
        if (failed)
            return -1;
    }
    if (t->unread)
        fprintf(out,
                "#\n# %.2f%% of all is in a trace %" PRIu32
                " whose machine code is not in the recording\n",
                100.0 * (double)t->unread / (double)t->all, t->number);
    if (t->others)
        fprintf(out, "# %" PRIu64 " samples of other events than %s are left out\n", t->others,
                t->event->name);
    return 0;
}
