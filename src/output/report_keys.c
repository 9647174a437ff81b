/* SPDX-License-Identifier: GPL-2.0-only */
/* The keys of rows: their names, texts and order; and the filters. */
#include "output/output.h"
#include "output/report_internal.h"
#include "output/syscall_name.h"
#include "perfdata/offcpu.h"
#include "session/lists.h"
#include "stacks/state.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name, *other, *title;
} keys[KEY_NR] = {
    [KEY_COMM] = {"comm", NULL, "Command"},
    [KEY_DSO] = {"dso", NULL, "Shared Object"},
    [KEY_SYM] = {"sym", "symbol", "Symbol"},
    [KEY_THREAD] = {"pid", "tid", "    Pid:Command"},
    [KEY_PROCESS] = {"tgid", NULL, "   Tgid:Command"},
    [KEY_CPU] = {"cpu", NULL, "CPU"},
    [KEY_SRCLINE] = {"srcline", NULL, "Source:Line"},
    [KEY_SRCFILE] = {"srcfile", "file", "Source File"},
    [KEY_STATE] = {"state", NULL, "VM State"},
    [KEY_TRACE] = {"trace", NULL, "    Pid:Trace"},
    [KEY_TIME] = {"time", NULL, "Time"},
    [KEY_PARENT] = {"parent", NULL, "Parent symbol"},
    [KEY_PACKAGE] = {"package", NULL, "Package"},
    [KEY_OWN] = {"own", NULL, "Own function"},
    [KEY_HANDLER] = {"handler", NULL, "Handler"},
    [KEY_REASON] = {"reason", NULL, "Reason"},
    [KEY_SYSCALL] = {"syscall", NULL, "System Call"},
    [KEY_WAKER] = {"waker", NULL, "Waker"},
    [KEY_SYMOFF] = {"symoff", NULL, "Symbol Offset"},
    [KEY_CGROUP] = {"cgroup", NULL, "Cgroup"},
};

int report_key(const char *name)
{
    for (int i = 0; i < KEY_NR; i++)
        if (strcmp(name, keys[i].name) == 0 || (keys[i].other && strcmp(name, keys[i].other) == 0))
            return i;
    return -1;
}

const char *report_key_names(void)
{
    return "comm,dso,sym,pid,tgid,cpu,srcline,srcfile,state,trace,time,parent,package,own,"
           "handler,reason,syscall,waker,symoff,cgroup,overhead";
}

const char *report_key_title(enum report_key key)
{
    return keys[key].title;
}

struct stacks_options report_needs(const struct report_options *o)
{
    bool time = report_has_key(o, KEY_TIME);
    return (struct stacks_options){
        .by_pid = report_has_key(o, KEY_PROCESS) || report_has_key(o, KEY_TRACE),
        .by_tid = report_has_key(o, KEY_THREAD) || o->one_thread,
        .by_cpu = report_has_key(o, KEY_CPU),
        .by_line = report_has_key(o, KEY_SRCLINE) || report_has_key(o, KEY_SRCFILE) ||
                   o->graph_key != GRAPH_OF_FUNCTIONS,
        .by_address = true,
        .by_start = true,
        .by_tier = report_has_key(o, KEY_STATE) || report_has_key(o, KEY_TRACE),
        .by_state = report_has_key(o, KEY_STATE),
        .by_wait = report_has_key(o, KEY_REASON) || report_has_key(o, KEY_SYSCALL),
        .by_waker = report_has_key(o, KEY_WAKER),
        .by_trace = report_has_key(o, KEY_TRACE),
        .by_offset = report_has_key(o, KEY_SYMOFF) || o->graph_key == GRAPH_OF_ADDRESSES,
        .by_cgroup = report_has_key(o, KEY_CGROUP),
        .slice_ns = time ? o->quantum : 0,
        .all_slices = time,
    };
}

const struct function *report_row_function(const struct report *r, const struct report_row *row)
{
    return row->function == FUNCTION_NONE ? NULL : &r->stacks->functions.at[row->function];
}

const struct report_group *report_row_group(const struct report *r, const struct report_row *row)
{
    return &r->groups.at[row->group];
}

/* ---- text ---------------------------------------------------------------------------------- */

static void put_position(struct text *t, const struct function *f, bool line)
{
    if (f && f->file) {
        text_symbol(t, text_base_name(f->file));
        if (line)
            text_printf(t, f->kind == FRAME_WASM ? ":0x%" PRIx32 : ":%" PRIu32, f->line);
    } else if (line && f && f->symbol) {
        text_symbol(t, f->symbol);
    } else if (line && f && f->module) {
        text_symbol(t, text_base_name(f->module));
        text_printf(t, "[%" PRIx64 "]", f->address);
    } else {
        text_string(t, "??");
    }
}

static void put_time(struct text *t, const struct report *r, const struct report_group *g)
{
    uint64_t ns = g->of.block * r->options->quantum;
    text_printf(t, "%" PRIu64 ".", ns / 1000000000);
    if (r->options->quantum % 1000)
        text_printf(t, "%09" PRIu64, ns % 1000000000);
    else
        text_printf(t, "%06" PRIu64, ns % 1000000000 / 1000);
}

/* A trace's number is meaningful only within its process. */
static void put_trace(struct text *t, const struct report_group *g)
{
    text_printf(t, "%7" PRIu32 ":", g->of.pid);
    if (g->trace)
        text_printf(t, "%u", g->trace);
    else
        text_string(t, "[no trace]");
}

/* `function`: index + 1; 0: none. */
static void put_one_of_stack(struct text *t, const struct report *r, uint32_t function)
{
    if (function)
        report_put_function(t, &r->stacks->functions.at[function - 1], false);
    else
        text_string(t, "[other]");
}

static void put_syscall(struct text *t, const struct report *r, const struct report_group *g)
{
    if (g->of.syscall)
        text_syscall(t, r->options->machine, g->of.syscall - 1u);
    else
        text_string(t, "[none]");
}

/* perf's words for what has none, and for one that no record names. */
static void put_cgroup(struct text *t, const struct report *r, const struct report_group *g)
{
    const struct session_lists *s = r->options->lists;
    const char *path = s ? session_cgroup(s, g->of.cgroup) : NULL;
    text_symbol(t, !g->of.cgroup ? "N/A" : path ? path : "unknown");
}

static void put_group_key(struct text *t, const struct report *r, const struct report_group *g,
                          enum report_key key)
{
    switch (key) {
    case KEY_COMM:
        text_symbol(t, g->of.comm);
        break;
    case KEY_THREAD:
    case KEY_PROCESS:
        text_printf(t, "%7" PRIu32 ":", key == KEY_THREAD ? g->of.tid : g->of.pid);
        text_symbol(t, g->of.comm);
        break;
    case KEY_CPU:
        text_printf(t, "%03" PRIu32, g->of.cpu);
        break;
    case KEY_STATE:
        text_string(t, stack_state_name(g->state));
        break;
    case KEY_TRACE:
        put_trace(t, g);
        break;
    case KEY_TIME:
        put_time(t, r, g);
        break;
    case KEY_PARENT:
        put_one_of_stack(t, r, g->parent);
        break;
    case KEY_OWN:
        put_one_of_stack(t, r, g->own);
        break;
    case KEY_HANDLER:
        put_one_of_stack(t, r, g->handler);
        break;
    case KEY_REASON:
        text_string(t, wait_reason_name((enum wait_reason)g->of.reason));
        break;
    case KEY_SYSCALL:
        put_syscall(t, r, g);
        break;
    case KEY_WAKER:
        text_symbol(t, g->of.waker ? g->of.waker : "[none]");
        break;
    case KEY_CGROUP:
        put_cgroup(t, r, g);
        break;
    default:
        break;
    }
}

void report_put_key(struct text *t, const struct report *r, const struct report_row *row,
                    enum report_key key)
{
    const struct function *f = report_row_function(r, row);
    switch (key) {
    case KEY_DSO:
        text_symbol(t, f && f->module ? report_module(f) : "[unknown]");
        break;
    case KEY_SYM:
        report_put_function(t, f, true);
        break;
    case KEY_SYMOFF:
        report_put_function(t, f, true);
        if (f && f->symbol && !f->inlined && !function_is_managed(f))
            text_printf(t, "+0x%" PRIx32, f->offset);
        break;
    case KEY_PACKAGE:
        text_symbol(t, f ? r->packages[row->function] : "[unknown]");
        break;
    case KEY_SRCLINE:
    case KEY_SRCFILE:
        put_position(t, f, key == KEY_SRCLINE);
        break;
    default:
        put_group_key(t, r, report_row_group(r, row), key);
        break;
    }
}

/* ---- order --------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_row_functions(const struct report *r, const struct report_row *a,
                                 const struct report_row *b)
{
    const struct function *f = report_row_function(r, a);
    const struct function *g = report_row_function(r, b);
    return f && g ? report_compare_functions(f, g) : (f != NULL) - (g != NULL);
}

static int compare_parents(const struct report *r, uint32_t a, uint32_t b)
{
    const struct function *all = r->stacks->functions.at;
    return a && b ? report_compare_functions(&all[a - 1], &all[b - 1]) : (a != 0) - (b != 0);
}

static const char *module_of(const struct report *r, const struct report_row *row)
{
    const struct function *f = report_row_function(r, row);
    return f && f->module ? report_module(f) : "";
}

static int compare_offsets(const struct report *r, const struct report_row *a,
                           const struct report_row *b)
{
    const struct function *f = report_row_function(r, a), *g = report_row_function(r, b);
    int order = compare_row_functions(r, a, b);
    return order || !f || !g ? order : compare_numbers(f->offset, g->offset);
}

/* By file and line; rows without them by their functions. */
static int compare_places(const struct report *r, const struct report_row *a,
                          const struct report_row *b)
{
    const struct function *f = report_row_function(r, a), *g = report_row_function(r, b);
    if (!f || !g || !f->file || !g->file)
        return compare_row_functions(r, a, b);
    int order = strcmp(f->file, g->file);
    return order ? order : compare_numbers(f->line, g->line);
}

int report_compare_key(const struct report *r, const struct report_row *a,
                       const struct report_row *b, enum report_key key)
{
    const struct report_group *x = report_row_group(r, a);
    const struct report_group *y = report_row_group(r, b);
    switch (key) {
    case KEY_COMM:
        return strcmp(x->of.comm, y->of.comm);
    case KEY_THREAD:
        return compare_numbers(x->of.tid, y->of.tid);
    case KEY_PROCESS:
        return compare_numbers(x->of.pid, y->of.pid);
    case KEY_CPU:
        return compare_numbers(x->of.cpu, y->of.cpu);
    case KEY_STATE:
        return compare_numbers(x->state, y->state);
    case KEY_TRACE:
        return compare_numbers((uint64_t)x->of.pid << 16 | x->trace,
                               (uint64_t)y->of.pid << 16 | y->trace);
    case KEY_TIME:
        return compare_numbers(x->of.block, y->of.block);
    case KEY_PARENT:
        return compare_parents(r, x->parent, y->parent);
    case KEY_OWN:
        return compare_parents(r, x->own, y->own);
    case KEY_HANDLER:
        return compare_parents(r, x->handler, y->handler);
    case KEY_REASON:
        return compare_numbers(x->of.reason, y->of.reason);
    case KEY_SYSCALL:
        return compare_numbers(x->of.syscall, y->of.syscall);
    case KEY_WAKER:
        return strcmp(x->of.waker ? x->of.waker : "", y->of.waker ? y->of.waker : "");
    case KEY_CGROUP:
        return compare_numbers(x->of.cgroup, y->of.cgroup);
    case KEY_DSO:
        return strcmp(module_of(r, a), module_of(r, b));
    case KEY_SRCLINE:
    case KEY_SRCFILE:
        return compare_places(r, a, b);
    case KEY_SYMOFF:
        return compare_offsets(r, a, b);
    case KEY_PACKAGE:
        if (!r->packages)
            return 0;
        if (!report_row_function(r, a) || !report_row_function(r, b))
            return compare_row_functions(r, a, b);
        return strcmp(r->packages[a->function], r->packages[b->function]);
    default:
        return compare_row_functions(r, a, b);
    }
}

int report_compare_rows(const struct report *r, const struct report_row *a,
                        const struct report_row *b)
{
    static const enum report_key order[] = {KEY_SYM,     KEY_COMM,   KEY_PROCESS, KEY_THREAD,
                                            KEY_CPU,     KEY_STATE,  KEY_TRACE,   KEY_TIME,
                                            KEY_PARENT,  KEY_OWN,    KEY_HANDLER, KEY_REASON,
                                            KEY_SYSCALL, KEY_SYMOFF, KEY_CGROUP,  KEY_WAKER};
    int ret = 0;
    for (size_t i = 0; !ret && i < sizeof(order) / sizeof(*order); i++)
        ret = report_compare_key(r, a, b, order[i]);
    return ret;
}

/* ---- filters ------------------------------------------------------------------------------- */

static bool listed(const name_list *names, const char *name)
{
    if (!names->nr)
        return true;
    vec_foreach (n, names)
        if (name && strcmp(*n, name) == 0)
            return true;
    return false;
}

static bool symbol_listed(const name_list *names, const struct function *f)
{
    vec_foreach (n, names)
        if (f && f->symbol && symbol_is_named(f->symbol, function_is_managed(f), *n))
            return true;
    return !names->nr;
}

bool report_function_passes(const struct report_options *o, const struct function *f)
{
    const char *module = f && f->module ? f->module : "[unknown]";
    if (!listed(&o->dsos, module) &&
        !(f && f->module && o->dsos.nr && listed(&o->dsos, report_module(f))))
        return false;
    if (o->symbol_filter && !(f && f->symbol && strstr(f->symbol, o->symbol_filter)))
        return false;
    return symbol_listed(&o->symbols, f);
}

bool report_group_passes(const struct report_options *o, const struct report_group *g)
{
    return listed(&o->comms, g->of.comm) && (!o->one_thread || g->of.tid == o->thread) &&
           (!o->exclude_other || g->parent);
}
