/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints text like that of perf script. The line of a frame is made once per code address and
 * worker and then copied: a recording has few addresses and many frames.
 */
#include "base/arena.h"
#include "base/cursor.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "output/script_internal.h"
#include "output/syscall_name.h"
#include "perfdata/offcpu.h"
#include "session/lists.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_CACHE_BYTES = 8 << 20, /* text kept per worker; a full cache starts again empty */
    /* Beside the fields in a line's key: the frame was found by unwinding. A caller is then shown
     * by an address inside its call, but a caller of the kernel's own callchain as the kernel gave
     * it. */
    LINE_WALKED = 1 << 30,
};

static const struct {
    const char *name;
    uint32_t field;
} field_names[] = {
    {"comm", FIELD_COMM},
    {"tid", FIELD_TID},
    {"pid", FIELD_PID},
    {"time", FIELD_TIME},
    {"cpu", FIELD_CPU},
    {"event", FIELD_EVENT},
    {"trace", FIELD_TRACE},
    {"ip", FIELD_IP},
    {"sym", FIELD_SYM},
    {"dso", FIELD_DSO},
    {"addr", FIELD_ADDR},
    {"symoff", FIELD_SYMOFF},
    {"srcline", FIELD_SRCLINE},
    {"period", FIELD_PERIOD},
    {"weight", FIELD_WEIGHT},
    {"misc", FIELD_MISC},
    {"phys_addr", FIELD_PHYS_ADDR},
    {"uregs", FIELD_UREGS},
    {"unwind", FIELD_UNWIND},
    {"callname", FIELD_CALLNAME},
    {"sample", FIELD_SAMPLE},
    {"insn", FIELD_INSN},
    {"insnlen", FIELD_INSNLEN},
    {"brstack", FIELD_BRSTACK},
    {"cgroup", FIELD_CGROUP},
};

uint32_t script_field(const char *name)
{
    for (size_t i = 0; i < sizeof(field_names) / sizeof(*field_names); i++)
        if (strcmp(name, field_names[i].name) == 0)
            return field_names[i].field;
    return 0;
}

const char *script_field_names(void)
{
    return "comm,tid,pid,time,cpu,event,trace,ip,sym,dso,addr,symoff,srcline,period,weight,misc,"
           "phys_addr,uregs,insn,insnlen,brstack,cgroup,unwind,callname,sample";
}

/* ---- which fields an event shows ----------------------------------------------------------- */

struct event_style {
    uint32_t fields;
    bool has_callchain;
};

struct script {
    struct script_options options;
    struct replay *replay;
    struct event_style *styles; /* one per event, as many as there were at the start */
    size_t nr_styles;
    unsigned name_width;
    uint64_t since; /* options.relative or .deltas: the time that is 0 */
    bool has_since;
    bool closed; /* only script_write changes it */
};

static uint32_t default_fields(const struct perfdata_event *e)
{
    const struct perf_event_attr *attr = &e->attr;
    bool chain = attr->sample_type & PERF_SAMPLE_CALLCHAIN;
    uint32_t fields = FIELD_COMM | FIELD_TID | FIELD_CPU | FIELD_TIME | FIELD_EVENT;
    if (e->is_tracepoint)
        return fields | FIELD_TRACE | (chain ? FIELD_CALLCHAIN_DEFAULTS : 0);
    fields |= FIELD_CALLCHAIN_DEFAULTS | FIELD_PERIOD;
    if (attr->type == PERF_TYPE_RAW)
        fields |= FIELD_ADDR | FIELD_WEIGHT | FIELD_PHYS_ADDR;
    return fields;
}

/* Fields whose value was not recorded are not shown. */
static uint32_t recorded_fields(const struct perf_event_attr *attr)
{
    static const struct {
        uint64_t type;
        uint32_t fields;
    } need[] = {
        {PERF_SAMPLE_TID, FIELD_TID | FIELD_PID},
        {PERF_SAMPLE_TIME, FIELD_TIME},
        {PERF_SAMPLE_CPU, FIELD_CPU},
        {PERF_SAMPLE_ADDR, FIELD_ADDR},
        {PERF_SAMPLE_WEIGHT_TYPE, FIELD_WEIGHT},
        {PERF_SAMPLE_PHYS_ADDR, FIELD_PHYS_ADDR},
        {PERF_SAMPLE_REGS_USER, FIELD_UREGS},
        {PERF_SAMPLE_BRANCH_STACK, FIELD_BRSTACK},
        {PERF_SAMPLE_CGROUP, FIELD_CGROUP},
    };
    uint32_t fields = UINT32_MAX;
    for (size_t i = 0; i < sizeof(need) / sizeof(*need); i++)
        if (!(attr->sample_type & need[i].type))
            fields &= ~need[i].fields;
    return fields;
}

static struct event_style style_of(const struct script *s, const struct perfdata_event *e)
{
    const struct script_options *o = &s->options;
    uint32_t fields = o->fields ? o->fields : default_fields(e);
    fields = ((fields | o->add) & ~o->remove) & recorded_fields(&e->attr);
    bool chain = !o->no_callchain && (e->attr.sample_type & PERF_SAMPLE_CALLCHAIN);
    return (struct event_style){fields, chain};
}

/* While a pipe is read, new events may still be announced. Their style is made when it is
 * needed. */
static struct event_style event_style(const struct script *s, const struct perfdata_event *e)
{
    return e->index < s->nr_styles ? s->styles[e->index] : style_of(s, e);
}

/* What is recorded only if it is asked for is missed by who asks for it here. Other fields are left
 * out where they were not recorded. A pipe may announce its events later. */
static int check_fields(const struct script_options *o, const struct perfdata *pd,
                        struct error *err)
{
    static const struct {
        uint32_t field;
        const char *text;
    } asked[] = {
        {FIELD_BRSTACK, "no branches for the field brstack: record with perf record -b, on a "
                        "processor that keeps them"},
        {FIELD_CGROUP, "no control groups for the field cgroup: record with --all-cgroups"},
    };
    const size_t nr = perfdata_nr_events(pd);
    uint32_t recorded = 0;
    for (size_t i = 0; i < nr; i++)
        recorded |= recorded_fields(&perfdata_event(pd, i)->attr);
    for (size_t i = 0; nr && i < sizeof(asked) / sizeof(*asked); i++)
        if ((o->fields | o->add) & ~o->remove & ~recorded & asked[i].field)
            return error_set(err, ERROR_FORMAT, "the recording has %s", asked[i].text);
    return 0;
}

int script_create(const struct script_options *options, struct replay *r, struct script **ret,
                  struct error *err)
{
    const struct perfdata *pd = replay_perfdata(r);
    if (check_fields(options, pd, err) < 0)
        return -1;
    struct script *s = calloc(1, sizeof(*s));
    if (!s)
        return error_no_memory(err);
    s->options = *options;
    s->replay = r;
    s->nr_styles = perfdata_nr_events(pd);
    s->styles = calloc(s->nr_styles + 1, sizeof(*s->styles));
    if (!s->styles) {
        free(s);
        return error_no_memory(err);
    }
    for (size_t i = 0; i < s->nr_styles; i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        unsigned width = (unsigned)strlen(e->name);
        s->styles[i] = style_of(s, e);
        s->name_width = width > s->name_width ? width : s->name_width;
    }
    *ret = s;
    return 0;
}

void script_free(struct script *s)
{
    if (!s)
        return;
    free(s->styles);
    free(s);
}

/* ---- one worker: its text and its cache of frame lines ------------------------------------- */

/* What the line of a managed frame depends on beside the frame's key. Equal strings have equal
 * pointers. */
struct managed_key {
    uint64_t pc;
    const char *name, *callname;
    uint16_t trace;
    bool inlined;
    bool name_guessed;
};

struct line_key {
    struct frame_key key;
    struct managed_key managed; /* for a managed frame; else zeros */
    uint32_t fields;
    uint8_t kind, tier, provenance;
};

struct line {
    struct line_key key;
    uint32_t size;
    char text[];
};

/* A frame of the previous sample, and where its line begins in `out`. */
struct printed {
    struct frame frame;
    size_t at;
};

struct script_worker {
    struct script *script;
    struct replay_worker *worker;
    struct text out;
    struct text made; /* buffer for a line that is then put into `lines` */
    struct arena lines;
    VEC(const struct line *) known_lines; /* in `lines` */
    struct hash_table table;              /* of known lines */
    /* The previous sample's frames, outermost last. The next sample mostly has the same outer
     * frames, so their text is copied whole. The frames are valid for one batch only: after it, a
     * frame's code pointer may mean something else. */
    VEC(struct printed) printed;
    size_t printed_end; /* end of their text in `out` */
    uint32_t printed_fields;
};

static struct managed_key managed_key(const struct script_worker *w, const struct replay_sample *s,
                                      const struct frame *f)
{
    struct managed_function g;
    if (!frame_is_managed(f))
        return (struct managed_key){0};
    replay_managed(w->worker, s, f, &g);
    return (struct managed_key){.pc = f->pc,
                                .name = g.name,
                                .callname = f->callname,
                                .trace = f->trace,
                                .inlined = f->flags & FRAME_INLINED,
                                .name_guessed = managed_name_is_guessed(&g)};
}

/* Whether both keys give the same text. */
static bool same_key(const struct line_key *a, const struct line_key *b)
{
    return a->key.address == b->key.address && a->key.owner == b->key.owner &&
           a->key.lookup == b->key.lookup && a->fields == b->fields && a->kind == b->kind &&
           a->tier == b->tier && a->provenance == b->provenance && a->managed.pc == b->managed.pc &&
           a->managed.name == b->managed.name && a->managed.callname == b->managed.callname &&
           a->managed.trace == b->managed.trace && a->managed.inlined == b->managed.inlined &&
           a->managed.name_guessed == b->managed.name_guessed;
}

static uint64_t hash_of(const struct line_key *l)
{
    const struct frame_key *k = &l->key;
    return hash_combine((uintptr_t)k->owner ^ l->managed.pc,
                        k->address * 2 + (k->address == k->lookup));
}

/* ---- frames -------------------------------------------------------------------------------- */

static void put_symbol(struct text *t, const char *symbol, uint64_t offset, uint32_t fields)
{
    text_char(t, ' ');
    if (!symbol) {
        text_bytes(t, "[unknown]", 9);
        return;
    }
    text_symbol(t, symbol);
    if (fields & FIELD_SYMOFF) {
        text_bytes(t, "+0x", 3);
        text_hex(t, offset, 0);
    }
}

static void put_managed_symbol(struct text *t, const char *symbol)
{
    text_char(t, ' ');
    text_managed_symbol(t, symbol);
}

static void put_module(struct text *t, const char *module)
{
    text_bytes(t, " (", 2);
    text_module(t, module ? module : "[unknown]");
    text_char(t, ')');
}

static void put_srcline(struct text *t, const struct named_frame *n, const char *file,
                        uint32_t line)
{
    text_bytes(t, "\n  ", 3);
    if (file) {
        const char *slash = strrchr(file, '/');
        text_string(t, slash ? slash + 1 : file);
        text_char(t, ':');
        text_dec(t, line, 0);
    } else if (n->short_module && n->kind != FRAME_KERNEL) {
        text_bytes(t, "??:0", 4);
    } else if (n->short_module) {
        text_string(t, n->short_module);
        text_char(t, '[');
        text_hex(t, n->address, 0);
        text_char(t, ']');
    }
}

static void put_doubt(struct text *t, const struct frame *f, const char *lead)
{
    static const char *const words[] = {NULL, "image", "guess"};
    if (f->provenance > PROVENANCE_GUESS || !words[f->provenance])
        return;
    text_string(t, lead);
    text_string(t, words[f->provenance]);
}

static void put_annotation(struct text *t, const struct frame *f)
{
    put_doubt(t, f, " [");
    if (f->provenance != PROVENANCE_EXACT)
        text_char(t, ']');
}

static void put_tier(struct text *t, const struct frame *f)
{
    static const char *const tiers[] = {
        [TIER_INTERP] = " interp",     [TIER_BASELINE] = " baseline", [TIER_MAGLEV] = " maglev",
        [TIER_TURBOFAN] = " turbofan", [TIER_ASYNC] = " async",
    };
    if (f->tier == TIER_TRACE)
        text_printf(t, " trace=%u", f->trace);
    else if (f->tier < sizeof(tiers) / sizeof(*tiers) && tiers[f->tier])
        text_string(t, tiers[f->tier]);
}

/* Append a note such as " [lua trace=17 line=12 inlined image]". */
static void put_managed_note(struct text *t, const struct frame *f, bool name_guessed,
                             uint32_t fields)
{
    text_string(t, " [");
    text_string(t, frame_language(f->kind));
    put_tier(t, f);
    if (f->line)
        text_printf(t, f->kind == FRAME_WASM ? " byte=0x%" PRIx32 : " line=%" PRIu32, f->line);
    if (f->line && f->column)
        text_printf(t, ":%u", f->column);
    if ((fields & FIELD_CALLNAME) && f->callname) {
        text_string(t, " call=");
        text_word(t, f->callname);
    }
    if (f->flags & FRAME_INLINED)
        text_string(t, " inlined");
    put_doubt(t, f, " ");
    if (name_guessed)
        text_string(t, " guess-name");
    text_char(t, ']');
}

static void put_address(struct text *t, uint64_t address, char lead)
{
    text_char(t, lead);
    text_hex(t, address, 16);
}

static void put_inlined(struct text *t, const struct named_frame *n, const struct source_frame *in,
                        uint32_t fields, char lead)
{
    if (fields & FIELD_IP)
        put_address(t, n->address, lead);
    if (fields & FIELD_SYM)
        put_symbol(t, in->name, n->offset, fields);
    if (fields & FIELD_SRCLINE)
        put_srcline(t, n, in->file, in->line);
    text_bytes(t, " (inlined)\n", 11);
}

/* `name_guessed`: of a managed frame. */
static void put_frame(struct text *t, const struct named_frame *n, const struct frame *f,
                      bool name_guessed, uint32_t fields, bool inlined)
{
    uint32_t nr_inlined = inlined && n->resolved ? n->resolved->nr_inlined : 0;
    bool managed = frame_is_managed(f);
    for (uint32_t i = 0; i < nr_inlined; i++)
        put_inlined(t, n, &n->resolved->inlined[i], fields, '\t');
    if (fields & FIELD_IP)
        put_address(t, n->address, '\t');
    if ((fields & FIELD_SYM) && managed)
        put_managed_symbol(t, n->symbol);
    else if (fields & FIELD_SYM)
        put_symbol(t, n->symbol, n->offset, fields);
    if (fields & FIELD_DSO)
        put_module(t, n->module);
    if (managed)
        put_managed_note(t, f, name_guessed, fields);
    else
        put_annotation(t, f);
    if (fields & FIELD_SRCLINE && (n->file || !(fields & FIELD_KNOWN_LINE)))
        put_srcline(t, n, n->file, n->line);
    text_char(t, '\n');
}

int script_put_frame(struct text *t, struct replay_worker *w, const struct replay_sample *s,
                     const struct frame *f, uint32_t fields, bool inlined, struct error *err)
{
    struct named_frame n;
    struct managed_function g;
    bool guessed = false;
    if (replay_name(w, s, f, &n, err) < 0)
        return -1;
    if (frame_is_managed(f)) {
        replay_managed(w, s, f, &g);
        guessed = managed_name_is_guessed(&g);
    }
    put_frame(t, &n, f, guessed, fields, inlined);
    return t->failed ? error_no_memory(err) : 0;
}

/* Returns NULL on errors, with `err` set. */
static const struct line *make_line(struct script_worker *w, const struct replay_sample *s,
                                    const struct frame *f, const struct line_key *key,
                                    struct error *err)
{
    struct named_frame n;
    if (replay_name(w->worker, s, f, &n, err) < 0)
        return NULL;
    w->made.size = 0;
    put_frame(&w->made, &n, f, key->managed.name_guessed, key->fields,
              w->script->options.show_inlined);
    struct line *line = w->made.failed ? NULL : arena_get(&w->lines, sizeof(*line) + w->made.size);
    if (!line) {
        error_no_memory(err);
        return NULL;
    }
    line->key = *key;
    line->size = (uint32_t)w->made.size;
    memcpy(line->text, w->made.at, w->made.size);
    return line;
}

static int add_frame(struct script_worker *w, const struct replay_sample *s, const struct frame *f,
                     uint32_t fields, struct error *err)
{
    const struct line_key key = {.key = replay_frame_key(f),
                                 .managed = managed_key(w, s, f),
                                 .fields = fields,
                                 .kind = f->kind,
                                 .tier = f->tier,
                                 .provenance = f->provenance};
    if (w->lines.size > LINE_CACHE_BYTES) {
        hash_table_clear(&w->table);
        w->known_lines.nr = 0;
        arena_free(&w->lines);
    }
    uint64_t hash = hash_of(&key);
    uint32_t n = hash_table_find(&w->table, hash, i, same_key(&w->known_lines.at[i]->key, &key));
    const struct line *line =
        n != HASH_TABLE_NONE ? w->known_lines.at[n] : make_line(w, s, f, &key, err);
    if (!line)
        return -1;
    if (n == HASH_TABLE_NONE && !(vec_push(&w->known_lines, line) &&
                                  hash_table_add(&w->table, hash, w->known_lines.nr - 1)))
        return error_no_memory(err);
    text_bytes(&w->out, line->text, line->size);
    return 0;
}

static bool same_printed(const struct frame *p, const struct frame *f)
{
    return p->pc == f->pc && p->code == f->code && p->kind == f->kind && p->tier == f->tier &&
           p->flags == f->flags && p->provenance == f->provenance && p->function == f->function &&
           p->line == f->line && p->column == f->column && p->trace == f->trace &&
           p->callname == f->callname;
}

static size_t shared_frames(const struct script_worker *w, const struct replay_sample *s,
                            uint32_t fields)
{
    size_t old = w->printed.nr;
    size_t nr = 0;
    if (w->printed_fields != fields)
        return 0;
    while (nr < old && nr < s->nr_frames &&
           same_printed(&w->printed.at[old - 1 - nr].frame, &s->frames[s->nr_frames - 1 - nr]))
        nr++;
    return nr;
}

static int add_frames(struct script_worker *w, const struct replay_sample *s, uint32_t fields,
                      struct error *err)
{
    size_t shared = shared_frames(w, s, fields);
    size_t own = s->nr_frames - shared;
    size_t from = shared ? w->printed.at[w->printed.nr - shared].at : w->printed_end;
    size_t size = w->printed_end - from;
    if (!vec_reserve(&w->printed, s->nr_frames))
        return error_no_memory(err);
    memmove(w->printed.at + own, w->printed.at + w->printed.nr - shared,
            shared * sizeof(struct printed));
    for (size_t i = 0; i < own; i++) {
        const struct frame *f = &s->frames[i];
        w->printed.at[i] = (struct printed){*f, w->out.size};
        if (add_frame(w, s, f, fields, err) < 0)
            return -1;
    }
    size_t moved = w->out.size - from;
    if (text_room(&w->out, size))
        text_bytes(&w->out, w->out.at + from, size);
    for (size_t i = own; i < s->nr_frames; i++)
        w->printed.at[i].at += moved;
    w->printed.nr = s->nr_frames;
    w->printed_end = w->out.size;
    w->printed_fields = fields;
    return 0;
}

/* ---- the line above the frames ------------------------------------------------------------- */

static void put_comm(struct text *t, const char *comm, bool padded)
{
    size_t size = strlen(comm);
    for (size_t i = size; padded && i < 16; i++)
        text_char(t, ' ');
    text_name(t, comm);
    text_char(t, ' ');
}

static void put_ids(struct text *t, const struct sample *s, uint32_t fields)
{
    if ((fields & FIELD_PID) && (fields & FIELD_TID)) {
        size_t from;
        text_dec(t, s->pid, 5);
        text_char(t, '/');
        from = t->size;
        text_dec(t, s->tid, 0);
        while (!t->failed && t->size - from < 5)
            text_char(t, ' ');
    } else if (fields & FIELD_PID) {
        text_dec(t, s->pid, 5);
    } else if (fields & FIELD_TID) {
        text_dec(t, s->tid, 5);
    } else {
        return;
    }
    text_char(t, ' ');
}

static void put_misc(struct text *t, uint16_t misc)
{
    static const char modes[] = " KUHGg";
    unsigned mode = misc & PERF_RECORD_MISC_CPUMODE_MASK;
    text_char(t, mode && mode < sizeof(modes) - 1 ? modes[mode] : ' ');
    text_bytes(t, "     ", 5);
}

static void put_time(struct text *t, uint64_t time, bool nanoseconds)
{
    if (nanoseconds) {
        text_dec(t, time / 1000000000, 5);
        text_char(t, '.');
        text_dec_zeros(t, time % 1000000000, 9);
    } else {
        text_dec(t, time / 1000000000, 5);
        text_char(t, '.');
        text_dec_zeros(t, time % 1000000000 / 1000, 6);
    }
    text_bytes(t, ": ", 2);
}

static void put_event(struct text *t, const char *name, unsigned width)
{
    size_t size = strlen(name);
    for (size_t i = size; i < width; i++)
        text_char(t, ' ');
    text_bytes(t, name, size);
    text_bytes(t, ": ", 2);
}

/* Registers of a machine without a row have numbers for names. */
static void put_uregs(struct text *t, const struct sample *s, const struct arch *arch)
{
    text_printf(t, " ABI:%" PRIu64 " ", s->user_abi);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t value;
        if (!sample_user_reg(s, i, &value))
            continue;
        if (arch && i < arch->nr_perf)
            text_printf(t, "%5s:0x%" PRIx64 " ", arch->perf[i].name, value);
        else if (!arch)
            text_printf(t, "%5u:0x%" PRIx64 " ", i, value);
    }
}

/* Append what a wait says of its end. */
static void put_wake(struct text *t, const struct sample *s)
{
    struct offcpu_wake wake;
    char name[OFFCPU_WAKER_NAME];
    if (!perfdata_offcpu_wake(s, &wake))
        return;
    if (wake.has_runqueue)
        text_printf(t, " runqueue=%" PRIu64, wake.runqueue);
    offcpu_waker_name(&wake, name);
    if (*name) {
        text_string(t, " waker=");
        text_clean(t, name);
    }
}

/* Append what a tracepoint, or a wait, says of itself. */
static void put_payload(const struct script_worker *w, struct text *t, const struct sample *s)
{
    const struct perfdata *pd = replay_perfdata(w->script->replay);
    struct offcpu_wait wait;
    perfdata_print_tracepoint(pd, s, t);
    if (!perfdata_offcpu(s, &wait))
        return;
    text_printf(t, " waited=%" PRIu64 " waits=%u reason=%s syscall=", wait.waited, wait.nr,
                wait_reason_name(wait.reason));
    if (wait.syscall >= 0)
        text_syscall(t, perfdata_arch(pd), (unsigned)wait.syscall);
    else
        text_string(t, "none");
    put_wake(t, s);
}

/* The time to print for a sample. */
static uint64_t shown_time(struct script *s, uint64_t time)
{
    const struct script_options *o = &s->options;
    if (!o->relative && !o->deltas)
        return time;
    if (!s->has_since)
        s->since = time;
    s->has_since = true;
    uint64_t shown = time - s->since;
    if (o->deltas)
        s->since = time;
    return shown;
}

static void put_head(const struct script_worker *w, struct text *t, const struct replay_sample *rs,
                     struct event_style style)
{
    const struct sample *s = rs->sample;
    uint32_t fields = style.fields;
    if (fields & FIELD_COMM)
        put_comm(t, rs->comm, !((fields & FIELD_IP) && style.has_callchain));
    put_ids(t, s, fields);
    if (fields & FIELD_CPU) {
        text_char(t, '[');
        text_dec_zeros(t, s->cpu, 3);
        text_bytes(t, "] ", 2);
    }
    if (fields & FIELD_MISC)
        put_misc(t, s->misc);
    if (fields & FIELD_TIME)
        put_time(t, shown_time(w->script, s->time), w->script->options.nanoseconds);
    if (fields & FIELD_PERIOD) {
        text_dec(t, s->period, 10);
        text_char(t, ' ');
    }
    if (fields & FIELD_EVENT)
        put_event(t, s->event->name, w->script->name_width);
    if (fields & FIELD_SAMPLE)
        text_printf(t, "sample=%" PRIu64 ": ", rs->number);
    if (fields & FIELD_TRACE)
        put_payload(w, t, s);
    if (fields & FIELD_ADDR)
        text_hex(t, s->addr, 16);
    if (fields & FIELD_WEIGHT)
        text_dec(t, s->weight, 16);
    if (fields & FIELD_CGROUP) {
        const char *path = session_cgroup(replay_lists(w->script->replay), s->cgroup);
        text_char(t, ' ');
        text_module(t, path ? path : "unknown");
    }
}

static const char *const end_names[STACK_NR_ENDS] = {
    [STACK_COMPLETE] = "complete",
    [STACK_TRUNCATED] = "truncated",
    [STACK_NO_CFI] = "no unwind information",
    [STACK_NO_CODE] = "no code",
    [STACK_BAD_READ] = "bad read",
    [STACK_LOOP] = "loop",
    [STACK_LIMIT] = "limit",
    [STACK_NO_REGS] = "no registers",
};

const char *script_end_word(enum stack_end end)
{
    return end_names[end];
}

/* Append e.g. "# stack: truncated at 0x7ffc...; pc 0x1234 (/usr/bin/x)". */
void script_put_end(struct text *t, const struct replay_sample *s)
{
    if (!s->unwound) {
        text_string(t, "# stack: not unwound\n");
        return;
    }
    text_printf(t, "# stack: %s", end_names[s->end]);
    if (s->end == STACK_TRUNCATED || s->end == STACK_BAD_READ)
        text_printf(t, " at 0x%" PRIx64, s->end_address);
    if (s->end != STACK_COMPLETE && s->end_mapping)
        text_printf(t, "; pc 0x%" PRIx64 " (%s)",
                    s->end_pc - s->end_mapping->start + s->end_mapping->pgoff,
                    s->end_mapping->dso->name);
    else if (s->end != STACK_COMPLETE)
        text_printf(t, "; pc 0x%" PRIx64, s->end_pc);
    text_char(t, '\n');
}

/* Without a callchain, the only address follows the head on the same line. */
static int put_single(struct script_worker *w, const struct replay_sample *s, uint32_t fields,
                      struct error *err)
{
    struct named_frame n = {.address = s->sample->ip};
    if (s->nr_frames && replay_name(w->worker, s, &s->frames[0], &n, err) < 0)
        return -1;
    put_address(&w->out, s->sample->ip, ' ');
    if ((fields & FIELD_SYM) && s->nr_frames && frame_is_managed(&s->frames[0]))
        put_managed_symbol(&w->out, n.symbol);
    else if (fields & FIELD_SYM)
        put_symbol(&w->out, n.symbol, n.offset, fields);
    if (fields & FIELD_DSO)
        put_module(&w->out, n.module);
    if (fields & FIELD_SRCLINE)
        put_srcline(&w->out, &n, n.file, n.line);
    return 0;
}

/* Is the sample in one of the functions that are asked for? Returns -1 when memory is out. */
static int is_listed(struct script_worker *w, const struct replay_sample *s, struct error *err)
{
    struct named_frame named;
    if (!s->nr_frames)
        return 0;
    if (replay_name(w->worker, s, &s->frames[0], &named, err) < 0)
        return -1;
    vec_foreach (n, &w->script->options.symbols) {
        size_t size = strlen(*n);
        bool same = named.symbol && strncmp(named.symbol, *n, size) == 0;
        if (same &&
            (!named.symbol[size] || (frame_is_managed(&s->frames[0]) && named.symbol[size] == ' ')))
            return 1;
    }
    return 0;
}

static int script_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    struct script_worker *w = worker;
    struct event_style style = event_style(w->script, s->sample->event);
    if (!style.fields)
        return 0;
    int listed = w->script->options.symbols.nr ? is_listed(w, s, err) : 1;
    if (listed <= 0)
        return listed;
    put_head(w, &w->out, s, style);
    if ((style.fields & FIELD_IP) && style.has_callchain) {
        text_char(&w->out, '\n');
        if (style.fields & FIELD_UNWIND)
            script_put_end(&w->out, s);
        if (add_frames(w, s, style.fields | (s->unwound ? LINE_WALKED : 0), err) < 0)
            return -1;
    } else if ((style.fields & FIELD_IP) && put_single(w, s, style.fields, err) < 0) {
        return -1;
    }
    if (style.fields & FIELD_UREGS)
        put_uregs(&w->out, s->sample, s->arch);
    if (style.fields & FIELD_BRSTACK)
        script_put_branches(&w->out, s, replay_session(w->script->replay), style.fields);
    if (style.fields & (FIELD_INSN | FIELD_INSNLEN))
        script_put_instruction(&w->out, s, style.fields);
    if (style.fields & FIELD_PHYS_ADDR)
        text_hex(&w->out, s->sample->phys_addr, 16);
    text_char(&w->out, '\n');
    return 0;
}

static int script_flush(void *worker, struct text *text, struct error *err)
{
    struct script_worker *w = worker;
    struct text whole = w->out;
    (void)err;
    w->printed.nr = w->printed_end = 0;
    w->out = *text;
    *text = whole;
    return 0;
}

static int script_write(void *context, struct text *text, struct error *err)
{
    struct script *s = context;
    if (s->closed)
        return 1;
    if (text_write(text, s->options.fd, &s->closed, err) < 0)
        return -1;
    return s->closed;
}

static int script_worker_create(void *context, struct replay_worker *rw, void **ret,
                                struct error *err)
{
    struct script_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return error_no_memory(err);
    w->script = context;
    w->worker = rw;
    *ret = w;
    return 0;
}

static void script_worker_free(void *worker)
{
    struct script_worker *w = worker;
    text_free(&w->out);
    text_free(&w->made);
    arena_free(&w->lines);
    vec_free(&w->printed);
    vec_free(&w->known_lines);
    hash_table_free(&w->table);
    free(w);
}

struct replay_sink script_sink(struct script *s)
{
    return (struct replay_sink){.context = s,
                                .worker_create = script_worker_create,
                                .worker_free = script_worker_free,
                                .sample = script_sample,
                                .flush = script_flush,
                                .write = script_write};
}
