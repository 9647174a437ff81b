/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/backtrace.h"

#include "output/export.h"
#include "output/output.h"
#include "output/variables.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- signals ------------------------------------------------------------------------------- */

bool backtrace_is_crash(uint32_t signal)
{
    switch (signal) {
    case SIGILL:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}

/* Get "SIGSEGV"; a real-time signal is "SIGRTMIN+2". */
static void signal_name(uint32_t number, char ret[32])
{
    const char *name = number < (uint32_t)NSIG ? sigabbrev_np((int)number) : NULL;
    const int first = SIGRTMIN;
    if (name)
        snprintf(ret, 32, "SIG%s", name);
    else if ((int)number >= first && (int)number <= SIGRTMAX)
        snprintf(ret, 32, "SIGRTMIN+%d", (int)number - first);
    else
        snprintf(ret, 32, "signal %" PRIu32, number);
}

/* Returns what the signal's code says (sigaction(2)); NULL: nothing that a reader needs. */
static const char *signal_reason(const struct core_signal *s)
{
    static const struct {
        uint32_t number;
        int32_t code;
        const char *text;
    } table[] = {
        {SIGSEGV, SEGV_MAPERR, "no memory is mapped there"},
        {SIGSEGV, SEGV_ACCERR, "the mapping does not allow it"},
        {SIGSEGV, SI_KERNEL, "no address that the processor can use, or its kind of access"},
        {SIGBUS, BUS_ADRALN, "the address is not aligned"},
        {SIGBUS, BUS_ADRERR, "nothing is behind the mapping: the file is shorter"},
        {SIGFPE, FPE_INTDIV, "integer division by zero, or its result is too large"},
        {SIGFPE, FPE_INTOVF, "integer overflow"},
        {SIGFPE, FPE_FLTDIV, "floating-point division by zero"},
        {SIGILL, ILL_ILLOPC, "an instruction that the processor does not know"},
        {SIGILL, ILL_ILLOPN, "an instruction with a wrong operand"},
        {SIGILL, ILL_PRVOPC, "an instruction for the kernel only"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        if (table[i].number == s->number && table[i].code == s->code)
            return table[i].text;
    }
    if (s->code == SI_USER || s->code == SI_QUEUE)
        return "sent by a process";
    return s->code == SI_TKILL ? "sent to the thread" : NULL;
}

/* Returns all that is known of a thread's signal. */
static struct core_signal signal_of(const struct core_thread *t)
{
    if (t->info.number)
        return t->info;
    return (struct core_signal){.number = t->signal};
}

static void put_signal(struct text *out, const struct core_thread *t)
{
    const struct core_signal s = signal_of(t);
    const char *reason = t->info.number ? signal_reason(&s) : NULL;
    char name[32];
    signal_name(s.number, name);
    text_printf(out, "# signal: %s", name);
    if (s.has_address)
        text_printf(out, " at 0x%" PRIx64, s.address);
    if (reason)
        text_printf(out, " (%s%s", reason, s.sender ? "" : ")");
    if (s.sender)
        text_printf(out, "%s %" PRIu32 ")", reason ? "," : " (by process", s.sender);
    text_char(out, '\n');
}

static void json_address(struct json *j, const char *key, uint64_t address)
{
    char text[24];
    snprintf(text, sizeof(text), "0x%" PRIx64, address);
    json_key_string(j, key, text);
}

static void json_signal(struct json *j, const struct core_thread *t)
{
    const struct core_signal s = signal_of(t);
    const char *reason = t->info.number ? signal_reason(&s) : NULL;
    char name[32];
    signal_name(s.number, name);
    json_object(j);
    json_key_uint(j, "number", s.number);
    json_key_string(j, "name", name);
    if (t->info.number) {
        json_key(j, "code");
        json_int(j, s.code);
    }
    if (reason)
        json_key_string(j, "reason", reason);
    if (s.has_address)
        json_address(j, "address", s.address);
    if (s.sender)
        json_key_uint(j, "sender", s.sender);
    json_key_uint(j, "thread", t->tid);
    json_object_end(j);
}

/* ---- registers ----------------------------------------------------------------------------- */

/* Get the index-th register that perf and the walk both know. Returns false: no more. */
static bool register_at(const struct registers *r, size_t index, const char **name, uint64_t *value)
{
    const struct arch_perf_register *p = index < r->arch->nr_perf ? &r->arch->perf[index] : NULL;
    if (!p)
        return false;
    *name = p->reg == ARCH_NO_REGISTER || !(r->known >> p->reg & 1) ? NULL : p->name;
    if (*name)
        *value = r->value[p->reg];
    return true;
}

static void put_registers(struct text *out, const struct registers *r)
{
    enum { IN_LINE = 4 };
    const char *name;
    uint64_t value;
    unsigned nr = 0;
    for (size_t i = 0; register_at(r, i, &name, &value); i++) {
        if (!name)
            continue;
        text_string(out, nr % IN_LINE ? "  " : "# registers: ");
        text_printf(out, "%4s ", name);
        text_hex_zeros(out, value, 16);
        if (++nr % IN_LINE == 0)
            text_char(out, '\n');
    }
    if (nr % IN_LINE)
        text_char(out, '\n');
}

static void json_registers(struct json *j, const struct registers *r)
{
    const char *name;
    uint64_t value;
    json_key(j, "registers");
    json_object(j);
    for (size_t i = 0; register_at(r, i, &name, &value); i++) {
        if (name)
            json_address(j, name, value);
    }
    json_object_end(j);
}

/* ---- variables ----------------------------------------------------------------------------- */

/* Names C functions that are values of variables. */
struct namer {
    struct backtrace *b;
    const struct backtrace_thread *t;
};

static const char *symbol_at(void *context, uint64_t address)
{
    const struct namer *n = context;
    struct code code;
    struct named_frame named;
    struct error ignored;
    if (!codemap_lookup(n->t->code, address, 0, &code) || code.owner != CODE_ELF)
        return NULL;
    const struct frame f = {
        .pc = address, .code = code.token, .kind = FRAME_NATIVE, .flags = FRAME_LEAF};
    if (replay_name(n->b->worker, n->t->stack, &f, &named, &ignored) < 0 || named.offset)
        return NULL;
    return named.symbol;
}

/* List the variables of a frame; false: it has none. */
static bool list_variables(struct backtrace *b, const struct backtrace_thread *t, size_t index,
                           int *failed, struct error *err)
{
    if (!b->options->variables || !frame_is_managed(&t->stack->frames[index]))
        return false;
    variables_begin(&b->variables, &b->options->wanted);
    *failed = replay_stopped_variables(b->worker, t->memory, index, &b->variables, err);
    return *failed == 0;
}

/* ---- text ---------------------------------------------------------------------------------- */

/* "NAME PID/TID", as the head line of ljperf script. A core does not know names of threads: there
 * it is the process's. */
static void put_head(struct backtrace *b, const struct backtrace_thread *t)
{
    struct text *out = &b->out;
    if (*t->name) {
        text_name(out, t->name);
        text_char(out, ' ');
    } else {
        text_string(out, "thread ");
    }
    text_printf(out, "%" PRIu32 "/%" PRIu32 "\n", b->process->pid, t->thread->tid);
    if (t->is_crashed)
        put_signal(out, t->thread);
    if (b->options->registers || (t->is_crashed && backtrace_is_crash(signal_of(t->thread).number)))
        put_registers(out, &t->thread->registers);
}

static int put_thread(struct backtrace *b, const struct backtrace_thread *t, struct error *err)
{
    struct namer namer = {b, t};
    const struct variables_symbols symbols = {symbol_at, &namer};
    put_head(b, t);
    script_put_end(&b->out, t->stack);
    for (size_t i = 0; i < t->stack->nr_frames; i++) {
        int failed = 0;
        if (script_put_frame(&b->out, b->worker, t->stack, &t->stack->frames[i], b->options->fields,
                             b->options->inlines, err) < 0)
            return -1;
        if (list_variables(b, t, i, &failed, err))
            variables_put_text(&b->out, &b->variables, &symbols);
        if (failed)
            return -1;
    }
    text_char(&b->out, '\n');
    return b->out.failed ? error_no_memory(err) : 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_inlined(struct json *j, const struct named_frame *n, const struct source_frame *in)
{
    json_object(j);
    json_key_string(j, "kind", "native");
    json_key_string(j, "symbol", in->name);
    json_position(j, in->file, in->line, in->column);
    json_key_string(j, "module", n->module);
    json_key(j, "inlined");
    json_bool(j, true);
    json_object_end(j);
}

static void json_managed(struct backtrace *b, const struct backtrace_thread *t,
                         const struct frame *f)
{
    struct managed_function g;
    struct json *j = b->json;
    replay_managed(b->worker, t->stack, f, &g);
    if (g.name)
        json_key_string(j, "function", g.name);
    if (managed_name_is_guessed(&g))
        json_key_string(j, "name_provenance", "guess");
    if (f->callname)
        json_key_string(j, "called_as", f->callname);
    if (g.file) {
        json_key(j, "defined");
        json_object(j);
        json_position(j, g.file, g.line, g.column);
        json_object_end(j);
    }
}

/* The members of a frame up to its variables. */
static void json_frame(struct backtrace *b, const struct backtrace_thread *t, const struct frame *f,
                       const struct named_frame *n)
{
    struct json *j = b->json;
    json_key_string(j, "kind", export_kind(f->kind));
    json_key_string(j, "symbol", n->symbol);
    if (n->symbol && n->offset && !frame_is_managed(f))
        json_key_uint(j, "offset", n->offset);
    if (frame_is_managed(f))
        json_managed(b, t, f);
    export_position(j, f->kind, n->file, n->line, n->column);
    json_key_string(j, "module", n->module);
    json_address(j, "address", n->address);
    json_address(j, "pc", f->pc);
    if (f->cfa)
        json_address(j, "cfa", f->cfa);
    if (export_tier(f->tier))
        json_key_string(j, "tier", export_tier(f->tier));
    if (f->trace)
        json_key_uint(j, "trace", f->trace);
    if (f->flags & FRAME_INLINED) {
        json_key(j, "inlined");
        json_bool(j, true);
    }
    json_key_string(j, "provenance", export_provenance(f->provenance));
}

static int json_frames(struct backtrace *b, const struct backtrace_thread *t, struct error *err)
{
    struct namer namer = {b, t};
    const struct variables_symbols symbols = {symbol_at, &namer};
    for (size_t i = 0; i < t->stack->nr_frames; i++) {
        struct named_frame n;
        int failed = 0;
        if (replay_name(b->worker, t->stack, &t->stack->frames[i], &n, err) < 0)
            return -1;
        for (uint32_t k = 0; b->options->inlines && n.resolved && k < n.resolved->nr_inlined; k++)
            json_inlined(b->json, &n, &n.resolved->inlined[k]);
        json_object(b->json);
        json_frame(b, t, &t->stack->frames[i], &n);
        if (list_variables(b, t, i, &failed, err))
            variables_put_json(b->json, &b->variables, &symbols);
        json_object_end(b->json);
        if (failed)
            return -1;
    }
    return 0;
}

static int json_thread(struct backtrace *b, const struct backtrace_thread *t, struct error *err)
{
    struct json *j = b->json;
    json_object(j);
    json_key_uint(j, "tid", t->thread->tid);
    if (b->process->process && *t->name)
        json_key_string(j, "name", t->name);
    json_key(j, "crashed");
    json_bool(j, t->is_crashed && backtrace_is_crash(signal_of(t->thread).number));
    json_key_string(j, "stack", script_end_word(t->stack->end));
    json_registers(j, &t->thread->registers);
    json_key(j, "frames");
    json_array(j);
    int failed = json_frames(b, t, err);
    json_array_end(j);
    json_object_end(j);
    return failed;
}

static void json_process(struct backtrace *b)
{
    const struct core_thread *crashed = stopped_process_crashed(b->process);
    struct json *j = b->json;
    char command[64];
    stopped_process_command(b->process, b->process->pid, command, sizeof(command));
    json_object(j);
    json_key(j, "process");
    json_object(j);
    json_key_uint(j, "pid", b->process->pid);
    if (*command)
        json_key_string(j, "command", command);
    if (b->process->threads.nr)
        json_key_string(j, "machine", b->process->threads.at[0].registers.arch->name);
    json_key(j, "core");
    json_bool(j, !b->process->process);
    json_object_end(j);
    json_key(j, "signal");
    if (crashed)
        json_signal(j, crashed);
    else
        json_null(j);
    json_key(j, "threads");
    json_array(j);
}

/* ---- both ---------------------------------------------------------------------------------- */

void backtrace_begin(struct backtrace *b)
{
    if (b->options->json)
        json_process(b);
}

int backtrace_thread(struct backtrace *b, const struct backtrace_thread *t, struct error *err)
{
    return b->options->json ? json_thread(b, t, err) : put_thread(b, t, err);
}

void backtrace_end(struct backtrace *b)
{
    if (b->options->json) {
        json_array_end(b->json);
        json_object_end(b->json);
        json_next_line(b->json);
    }
    variables_free(&b->variables);
    variable_places_free(&b->places);
}

struct variable_places *backtrace_places(struct backtrace *b)
{
    return b->options->variables ? &b->places : NULL;
}

struct backtrace_options backtrace_options_default(void)
{
    return (struct backtrace_options){.fields = FIELD_CALLCHAIN_DEFAULTS | FIELD_SRCLINE |
                                                FIELD_KNOWN_LINE,
                                      .wanted = variables_wanted_default()};
}
