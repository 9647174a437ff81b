/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints what `ljperf traces` found, as text and as JSON. */
#include "output/output.h"
#include "output/traces_internal.h"

#include <inttypes.h>
#include <string.h>

#define MARGIN "                      "

static double share(const struct traces *t, uint64_t weight)
{
    return t->sum.weight ? 100.0 * (double)weight / (double)t->sum.weight : 0;
}

bool traces_put_function(const struct traces *t, uint32_t function, struct text *out)
{
    struct managed_function f;
    struct text symbol = {0};
    if (!function || !managed_get(replay_managed_names(t->replay), function, UINT64_MAX, &f))
        return false;
    managed_symbol(&symbol, &f);
    text_char(&symbol, 0);
    if (symbol.failed)
        out->failed = true;
    else
        text_managed_symbol(out, symbol.at);
    text_free(&symbol);
    return true;
}

void traces_put_place(const struct traces *t, const struct traced_place *at, uint32_t in,
                      struct text *out)
{
    if (at->line)
        text_printf(out, "line %" PRIu32, at->line);
    else
        text_string(out, "an unknown line");
    if (at->function == in)
        return;
    text_string(out, " of ");
    if (!traces_put_function(t, at->function, out))
        text_string(out, "an unknown function");
}

/* ---- reasons --------------------------------------------------------------------------------- */

static void put_detail(const struct traced_abort *a, struct text *out)
{
    if (a->name) {
        text_char(out, ' ');
        text_name(out, a->name);
    } else if (a->names == LUAJIT_NAMES_C_FUNCTION) {
        text_printf(out, " (the C function at 0x%" PRIx64 ")", a->detail);
    } else if (a->names) {
        text_printf(out, " %" PRIu64, a->detail);
    }
}

/* Append "NYI: bytecode UCLO, at line 9 of g app.lua:7". */
static void put_abort(const struct traces *t, const struct traced_start *s,
                      const struct traced_abort *a, struct text *out)
{
    bool elsewhere =
        a->at.function && (a->at.function != s->at.function || a->at.line != s->at.line);
    text_string(out, a->reason == LUAJIT_ABORT_UNKNOWN ? "for a reason that is not kept"
                                                       : luajit_abort_text(a->reason));
    put_detail(a, out);
    if (elsewhere) {
        text_string(out, ", at ");
        traces_put_place(t, &a->at, s->at.function, out);
    }
}

static const char *start_name(const struct traced_start *s)
{
    static const char *const names[] = {[START_OF_FUNCTION] = "the function",
                                        [START_OF_LOOP] = "the loop",
                                        [START_OF_SIDE] = "an exit"};
    return names[s->kind];
}

static bool is_worth_telling(const struct traced_start *s)
{
    if (s->off)
        return s->kind == START_OF_FUNCTION;
    return s->blocked || (s->aborts.nr && !s->compiled);
}

static void put_verdict(const struct traces *t, const struct traced_start *s, struct text *out)
{
    unsigned nr = traces_attempts(t, s->value);
    if (s->off)
        text_string(out, "jit.off() was called for it");
    else if (s->blocked && s->kind == START_OF_LOOP)
        text_string(out, "blacklisted: LuaJIT will not try this loop again");
    else if (s->blocked)
        text_string(out, "blacklisted: LuaJIT will not try this function again");
    else if (nr)
        text_printf(out, "given up %u time%s", nr, nr == 1 ? "" : "s");
    else
        text_string(out, "given up");
}

static void put_start(const struct traces *t, const struct traced_start *s, struct text *out)
{
    text_string(out, start_name(s));
    if (s->kind != START_OF_FUNCTION && s->at.line)
        text_printf(out, " at line %" PRIu32, s->at.line);
    text_string(out, ": ");
    put_verdict(t, s, out);
    for (size_t i = 0; i < s->aborts.nr; i++) {
        text_string(out, i ? "; " : ": ");
        put_abort(t, s, &s->aborts.at[i], out);
    }
    text_char(out, '\n');
}

static void put_exit(const struct traced_exit *e, struct text *out)
{
    text_printf(out,
                "exit %u of trace %u to line %" PRIu32 ": taken %" PRIu32
                " times, and has no trace of its own\n",
                e->exit, e->trace, e->to.line, e->count);
}

/* A side trace that only leads to the interpreter stands for attempts that failed. */
static void put_given_up(const struct traces *t, const struct traced_trace *one, struct text *out)
{
    uint32_t nr = t->vms.at[one->vm].state.try_side;
    text_printf(out,
                "exit %u of trace %u to line %" PRIu32
                ": given up after %u attempts: the interpreter goes on there\n",
                one->fact.exit, one->fact.parent, one->start.line, nr);
}

static void put_stitch(const struct traced_trace *one, struct text *out)
{
    text_printf(out, "trace %u stops at line %" PRIu32 " for a call", one->fact.trace,
                one->end.line);
    if (one->called) {
        text_string(out, " of ");
        text_name(out, one->called);
    }
    text_string(out, ", which cannot be compiled (stitched)\n");
}

/* Find a line (`size`: with its end) from here on; NULL: there is none. */
static const char *find_line(const struct text *lines, const char *from, const char *line,
                             size_t size)
{
    const char *all = lines->at + lines->size;
    while ((from = memmem(from, (size_t)(all - from), line, size)) && from != lines->at &&
           from[-1] != '\n')
        from++;
    return from;
}

/* Append lines behind a margin. Processes that run the same program have the same reasons: of equal
 * lines one is put, with their number. Returns the number of lines that were put. */
static unsigned put_lines(const struct text *lines, const char *margin, struct text *out)
{
    unsigned put = 0;
    size_t size;
    for (const char *line = lines->at; line < lines->at + lines->size; line += size) {
        unsigned equal = 0;
        size = (size_t)((const char *)rawmemchr(line, '\n') - line) + 1;
        if (find_line(lines, lines->at, line, size) != line)
            continue;
        for (const char *at = line; (at = find_line(lines, at, line, size)); at += size)
            equal++;
        text_string(out, margin);
        text_bytes(out, line, size - 1);
        if (equal > 1)
            text_printf(out, " (in %u VMs)", equal);
        text_char(out, '\n');
        put++;
    }
    return put;
}

/* Append what is known about a function. Returns the number of lines. */
static unsigned put_reasons(const struct traces *t, uint32_t function, const char *margin,
                            struct text *out)
{
    struct text lines = {0};
    for (size_t i = FIRST_OF(&t->starts, at.function, function);
         i < t->starts.nr && t->starts.at[i].at.function == function; i++) {
        if (is_worth_telling(&t->starts.at[i]))
            put_start(t, &t->starts.at[i], &lines);
    }
    for (size_t i = FIRST_OF(&t->reasons, function, function);
         i < t->reasons.nr && t->reasons.at[i].function == function; i++) {
        const struct traced_trace *one = &t->traces.at[t->reasons.at[i].trace];
        if (one->fact.what == LUAJIT_ENDS_IN_INTERPRETER)
            put_given_up(t, one, &lines);
        else
            put_stitch(one, &lines);
    }
    for (size_t i = FIRST_OF(&t->exits, to.function, function);
         i < t->exits.nr && t->exits.at[i].to.function == function; i++)
        put_exit(&t->exits.at[i], &lines);
    out->failed |= lines.failed;
    unsigned nr = lines.failed || !lines.size ? 0 : put_lines(&lines, margin, out);
    text_free(&lines);
    return nr;
}

void traces_put_reasons(const struct traces *t, const char *symbol, const char *margin,
                        struct text *out)
{
    const char *key = intern_string(t->symbols, symbol);
    const void *function = key ? table_get(&t->same, (uintptr_t)key) : NULL;
    if (!function)
        return;
    (void)put_reasons(t, (uint32_t)(uintptr_t)function, margin, out);
    traces_js_put_reasons(t, (uint32_t)(uintptr_t)function, margin, out);
}

/* ---- the head -------------------------------------------------------------------------------- */

void traces_put_process(const struct traces *t, uint32_t pid, struct text *out)
{
    const struct traced_process *p = traces_process(t, pid);
    if (p && p->comm)
        text_name(out, p->comm);
    else
        text_string(out, "process");
    text_printf(out, " %" PRIu32, pid);
}

static void put_vm(const struct traces *t, const struct traced_vm *vm, const char *margin,
                   struct text *out)
{
    const struct luajit_compiler_state *s = &vm->state;
    text_string(out, margin);
    traces_put_process(t, vm->pid, out);
    text_printf(out, ": %" PRIu32 " traces", s->traces);
    if (s->max_traces)
        text_printf(out, " of at most %" PRIu32, s->max_traces);
    text_printf(out, ": %u root, %u side; %u stitched, %u given up", s->traces - vm->sides,
                vm->sides, vm->stitched, vm->given_up);
    if (s->mcode_kib)
        text_printf(out, "; machine code: %" PRIu32 " KiB", s->mcode_kib);
    if (s->mcode_kib && s->max_mcode_kib)
        text_printf(out, " of at most %" PRIu32, s->max_mcode_kib);
    if (!s->on)
        text_string(out, "; THE COMPILER IS OFF (jit.off)");
    text_char(out, '\n');
    if (s->flushes)
        text_printf(out,
                    "%sall traces were thrown away %" PRIu32
                    " times or more: too many traces, too much machine code, or jit.flush()\n",
                    margin, s->flushes);
    if (s->max_traces && 10 * (uint64_t)s->traces >= 9 * (uint64_t)s->max_traces)
        text_printf(out,
                    "%sthe number of traces is near its limit, at which all are thrown away "
                    "(jit.opt.start(\"maxtrace=N\"))\n",
                    margin);
    if (s->max_mcode_kib && 10 * (uint64_t)s->mcode_kib >= 9 * (uint64_t)s->max_mcode_kib)
        text_printf(out,
                    "%smachine code is near its limit, at which all traces are thrown away "
                    "(jit.opt.start(\"maxmcode=N\"))\n",
                    margin);
}

void traces_put_vms(const struct traces *t, const char *margin, struct text *out)
{
    enum { VMS_TOLD = 8 };
    for (size_t i = 0; i < t->vms.nr && i < VMS_TOLD; i++)
        put_vm(t, &t->vms.at[i], margin, out);
    if (t->vms.nr > VMS_TOLD)
        text_printf(out, "%sand %zu more VMs\n", margin, t->vms.nr - VMS_TOLD);
}

static const char *const activity_texts[ACTIVITIES] = {
    [RUNTIME_IN_GC] = "collecting garbage",     [RUNTIME_IN_EXIT] = "leaving traces",
    [RUNTIME_IN_RECORDER] = "recording traces", [RUNTIME_IN_OPTIMIZER] = "optimizing them",
    [RUNTIME_IN_ASSEMBLER] = "assembling them",
};

void traces_put_no_facts(const char *margin, struct text *out)
{
    text_printf(out,
                "%sThe recording does not tell why: it was not made by ljperf record, or by an "
                "older one, or the process could not be read\n",
                margin);
}

void traces_put_left_out(const struct traces *t, size_t nr, struct text *out)
{
    if (nr)
        text_printf(out,
                    "# %zu more functions with reasons have less than %g %% of the time: "
                    "--percent-limit 0 prints them\n",
                    nr, t->options.least);
}

static void put_head(const struct traces *t, struct text *out)
{
    text_printf(
        out,
        "# LuaJIT ran in %.1f %% of the samples' time. Of that, %.1f %% was compiled, %.1f %% "
        "was interpreted",
        t->sum.all ? 100.0 * (double)t->sum.weight / (double)t->sum.all : 0, share(t, t->compiled),
        share(t, t->interpreted));
    bool any = false;
    for (int i = 0; i < ACTIVITIES; i++) {
        if (!activity_texts[i] || share(t, t->sum.activity[i]) < 0.05)
            continue;
        text_printf(out, "%s %.1f %% %s", any ? "," : ";", share(t, t->sum.activity[i]),
                    activity_texts[i]);
        any = true;
    }
    text_string(out, any ? " (part of both)\n" : "\n");
    traces_put_vms(t, "# ", out);
    if (!t->vms.nr)
        traces_put_no_facts("# ", out);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_functions(const struct traces *t, struct text *out)
{
    size_t left_out = 0;
    text_string(out, "\n# Interpreted  Compiled  Function\n");
    vec_foreach (f, &t->sum.functions) {
        size_t at = out->size;
        text_printf(out, "    %8.2f%% %8.2f%%  ", share(t, f->interpreted), share(t, f->compiled));
        if (!traces_put_function(t, f->function, out))
            text_string(out, "(unknown function)");
        text_char(out, '\n');
        unsigned nr = put_reasons(t, f->function, MARGIN, out);
        if (share(t, f->interpreted + f->compiled) >= t->options.least)
            continue;
        left_out += nr != 0;
        out->size = at;
    }
    if (t->nameless)
        text_printf(out,
                    "# %zu reason%s of functions that the recording does not have: not printed\n",
                    t->nameless, t->nameless == 1 ? "" : "s");
    traces_put_left_out(t, left_out, out);
}

static void put_end(const struct traced_trace *one, struct text *out)
{
    const struct luajit_fact *f = &one->fact;
    switch (f->what) {
    case LUAJIT_ENDS_IN_LOOP:
        text_string(out, "its own loop");
        break;
    case LUAJIT_ENDS_IN_TAILREC:
        text_string(out, "itself, by a tail call");
        break;
    case LUAJIT_ENDS_IN_UPREC:
        text_string(out, "itself, by recursion");
        break;
    case LUAJIT_ENDS_IN_DOWNREC:
        text_string(out, "itself, by returning");
        break;
    case LUAJIT_ENDS_IN_ROOT:
        text_printf(out, "trace %u", f->link);
        break;
    case LUAJIT_ENDS_IN_INTERPRETER:
        text_string(out, "the interpreter (given up)");
        break;
    case LUAJIT_ENDS_IN_RETURN:
        text_string(out, "the interpreter, by returning");
        break;
    case LUAJIT_ENDS_IN_STITCH:
        text_string(out, "a call that cannot be compiled");
        break;
    default:
        text_string(out, "unknown");
    }
}

static void put_traces(const struct traces *t, struct text *out)
{
    bool several = t->sum.processes.nr > 1;
    if (!t->traces.nr)
        return;
    text_string(out, "\n# Share  Trace  From           Start, and where it goes on\n");
    vec_foreach (one, &t->traces) {
        char from[32] = "-";
        if (share(t, one->weight) < t->options.least || (!one->weight && t->options.least > 0))
            continue;
        if (one->fact.parent)
            snprintf(from, sizeof(from), "%u exit %u", one->fact.parent, one->fact.exit);
        text_printf(out, "%6.2f%% %6u  %-13s  ", share(t, one->weight), one->fact.trace, from);
        traces_put_place(t, &one->start, 0, out);
        text_string(out, " -> ");
        put_end(one, out);
        if (one->gone)
            text_string(out, " (thrown away meanwhile)");
        if (several) {
            text_string(out, " [");
            traces_put_process(t, t->vms.at[one->vm].pid, out);
            text_char(out, ']');
        }
        text_char(out, '\n');
    }
    if (share(t, t->no_trace) >= 0.005)
        text_printf(out, "%6.2f%%      ?  -              traces that the recorder has not seen\n",
                    share(t, t->no_trace));
}

void traces_put_text(const struct traces *t, struct text *out)
{
    if (t->sum.weight) {
        put_head(t, out);
        put_functions(t, out);
        put_traces(t, out);
    }
    if (t->sum.weight && t->sum.js_weight)
        text_char(out, '\n');
    traces_js_put_text(t, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void key_share(struct json *j, const struct traces *t, const char *key, uint64_t weight)
{
    json_key(j, key);
    json_share(j, share(t, weight));
}

void traces_key_function(struct json *j, const struct traces *t, const char *key, uint32_t function)
{
    struct text name = {0};
    bool known = traces_put_function(t, function, &name);
    text_char(&name, 0);
    json_key_string(j, key, known && !name.failed ? name.at : NULL);
    text_free(&name);
}

void traces_key_place(struct json *j, const struct traces *t, const char *key,
                      const struct traced_place *at)
{
    json_key(j, key);
    json_object(j);
    traces_key_function(j, t, "function", at->function);
    if (at->line)
        json_key_uint(j, "line", at->line);
    json_object_end(j);
}

static void json_vm(struct json *j, const struct traces *t, const struct traced_vm *vm)
{
    const struct luajit_compiler_state *s = &vm->state;
    char g[32];
    (void)t;
    snprintf(g, sizeof(g), "0x%" PRIx64, vm->g);
    json_object(j);
    json_key_uint(j, "pid", vm->pid);
    json_key_string(j, "vm", g);
    json_key(j, "on");
    json_bool(j, s->on);
    json_key_uint(j, "traces", s->traces);
    json_key_uint(j, "max_traces", s->max_traces);
    json_key_uint(j, "side_traces", vm->sides);
    json_key_uint(j, "stitched", vm->stitched);
    json_key_uint(j, "given_up", vm->given_up);
    json_key_uint(j, "machine_code_kib", s->mcode_kib);
    json_key_uint(j, "max_machine_code_kib", s->max_mcode_kib);
    json_key_uint(j, "flushes", s->flushes);
    json_object_end(j);
}

static void json_abort(struct json *j, const struct traces *t, const struct traced_abort *a)
{
    struct text detail = {0};
    json_object(j);
    json_key_string(j, "reason",
                    a->reason == LUAJIT_ABORT_UNKNOWN ? NULL : luajit_abort_text(a->reason));
    put_detail(a, &detail);
    text_char(&detail, 0);
    if (a->names && !detail.failed)
        json_key_string(j, "what", detail.at + 1);
    text_free(&detail);
    if (a->at.function)
        traces_key_place(j, t, "at", &a->at);
    json_object_end(j);
}

static void json_start(struct json *j, const struct traces *t, const struct traced_start *s)
{
    static const char *const kinds[] = {
        [START_OF_FUNCTION] = "function", [START_OF_LOOP] = "loop", [START_OF_SIDE] = "exit"};
    json_object(j);
    json_key_string(j, "kind", kinds[s->kind]);
    if (s->at.line)
        json_key_uint(j, "line", s->at.line);
    json_key_string(j, "state",
                    s->off        ? "off"
                    : s->blocked  ? "blacklisted"
                    : s->compiled ? "compiled"
                                  : "given up");
    if (s->value)
        json_key_uint(j, "attempts", traces_attempts(t, s->value));
    json_key(j, "aborts");
    json_array(j);
    vec_foreach (a, &s->aborts)
        json_abort(j, t, a);
    json_array_end(j);
    json_object_end(j);
}

static void json_function(struct json *j, const struct traces *t, const struct traced_function *f)
{
    json_object(j);
    traces_key_function(j, t, "function", f->function);
    key_share(j, t, "interpreted", f->interpreted);
    key_share(j, t, "compiled", f->compiled);
    json_key(j, "starts");
    json_array(j);
    for (size_t i = FIRST_OF(&t->starts, at.function, f->function);
         i < t->starts.nr && t->starts.at[i].at.function == f->function; i++)
        if (t->starts.at[i].kind != START_OF_SIDE || t->starts.at[i].aborts.nr)
            json_start(j, t, &t->starts.at[i]);
    json_array_end(j);
    json_key(j, "exits");
    json_array(j);
    for (size_t i = FIRST_OF(&t->exits, to.function, f->function);
         i < t->exits.nr && t->exits.at[i].to.function == f->function; i++) {
        const struct traced_exit *e = &t->exits.at[i];
        json_object(j);
        json_key_uint(j, "trace", e->trace);
        json_key_uint(j, "exit", e->exit);
        json_key_uint(j, "line", e->to.line);
        json_key_uint(j, "taken", e->count);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void json_trace(struct json *j, const struct traces *t, const struct traced_trace *one)
{
    static const char *const ends[LUAJIT_NR_ENDS] = {
        [LUAJIT_ENDS_IN_ROOT] = "root",       [LUAJIT_ENDS_IN_LOOP] = "loop",
        [LUAJIT_ENDS_IN_TAILREC] = "tailrec", [LUAJIT_ENDS_IN_UPREC] = "uprec",
        [LUAJIT_ENDS_IN_DOWNREC] = "downrec", [LUAJIT_ENDS_IN_INTERPRETER] = "interpreter",
        [LUAJIT_ENDS_IN_RETURN] = "return",   [LUAJIT_ENDS_IN_STITCH] = "stitch",
    };
    const struct luajit_fact *f = &one->fact;
    json_object(j);
    json_key_uint(j, "pid", t->vms.at[one->vm].pid);
    json_key_uint(j, "trace", f->trace);
    if (f->parent) {
        json_key_uint(j, "parent", f->parent);
        json_key_uint(j, "exit", f->exit);
    }
    key_share(j, t, "share", one->weight);
    traces_key_place(j, t, "start", &one->start);
    json_key_string(j, "ends", f->what < LUAJIT_NR_ENDS ? ends[f->what] : NULL);
    if (f->link)
        json_key_uint(j, "link", f->link);
    if (one->end.function)
        traces_key_place(j, t, "stops_at", &one->end);
    if (one->called)
        json_key_string(j, "calls", one->called);
    json_key(j, "gone");
    json_bool(j, one->gone);
    json_object_end(j);
}

void traces_put_json_traces(const struct traces *t, struct json *j)
{
    json_array(j);
    vec_foreach (one, &t->traces)
        json_trace(j, t, one);
    json_array_end(j);
}

void traces_put_json(const struct traces *t, struct json *j)
{
    json_object(j);
    key_share(j, t, "compiled", t->compiled);
    key_share(j, t, "interpreted", t->interpreted);
    json_key(j, "activities");
    json_object(j);
    static const char *const names[ACTIVITIES] = {
        [RUNTIME_IN_GC] = "gc",
        [RUNTIME_IN_EXIT] = "exit",
        [RUNTIME_IN_RECORDER] = "recorder",
        [RUNTIME_IN_OPTIMIZER] = "optimizer",
        [RUNTIME_IN_ASSEMBLER] = "assembler",
    };
    for (int i = 0; i < ACTIVITIES; i++) {
        if (names[i])
            key_share(j, t, names[i], t->sum.activity[i]);
    }
    json_object_end(j);
    json_key(j, "vms");
    json_array(j);
    vec_foreach (vm, &t->vms)
        json_vm(j, t, vm);
    json_array_end(j);
    json_key(j, "functions");
    json_array(j);
    vec_foreach (f, &t->sum.functions)
        json_function(j, t, f);
    json_array_end(j);
    json_key(j, "traces");
    traces_put_json_traces(t, j);
    json_key_uint(j, "nameless", t->nameless);
    traces_js_put_json(t, j);
    json_object_end(j);
}
