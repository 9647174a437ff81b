/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folded stacks: "comm;outermost;...;leaf COUNT", sorted. With `tidy`, names are shortened by the
 * rules of FlameGraph's stackcollapse-perf.pl, so that both print the same lines.
 */
#include "output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct folder {
    const struct stacks *stacks;
    const struct fold_options *options;
    const char **names; /* of functions, made once */
    struct text scratch;
};

static bool is_kernel(const struct function *f)
{
    return f->kind == FRAME_KERNEL || f->kind == FRAME_GUEST_KERNEL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* [module], [module <address>], [unknown] */
static void put_unknown(struct text *t, const struct function *f, bool address)
{
    text_char(t, '[');
    text_string(t, f->module ? base_name(f->module) : "unknown");
    if (address) {
        text_bytes(t, " <", 2);
        text_hex(t, f->address, 0);
        text_char(t, '>');
    }
    text_char(t, ']');
}

/* Everything from the first parenthesis that opens no "(anonymous namespace)" is noise to
 * stackcollapse-perf.pl, unless it looks like a method of Go ("x.(*T).m"). */
static size_t tidy_size(const char *symbol, size_t size)
{
    static const char anonymous[] = "(anonymous namespace)";
    const char *go = strstr(symbol, ".(");
    if (go && strstr(go, ")."))
        return size;
    for (const char *p = symbol; (p = strchr(p, '(')); p++)
        if (strncmp(p, anonymous, sizeof(anonymous) - 1) != 0)
            return (size_t)(p - symbol);
    return size;
}

static void put_symbol(struct text *t, const char *symbol, bool tidy)
{
    size_t size = strlen(symbol);
    if (tidy)
        size = tidy_size(symbol, size);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)symbol[i];
        if (c == ';')
            text_char(t, ':');
        else if (c < ' ' || c == 0x7f)
            text_printf(t, "%%%02X", c);
        else if (!tidy || (c != '"' && c != '\''))
            text_char(t, (char)c);
    }
}

static void put_function(const struct folder *fo, struct text *t, const struct function *f)
{
    const struct fold_options *o = fo->options;
    if (!f->symbol)
        put_unknown(t, f, o->addresses);
    else
        put_symbol(t, f->symbol, o->tidy);
    if (o->kernel && is_kernel(f))
        text_bytes(t, "_[k]", 4);
    else if (o->jit && f->kind == FRAME_JIT)
        text_bytes(t, "_[j]", 4);
    else if (o->inlined && f->inlined)
        text_bytes(t, "_[i]", 4);
}

static int make_names(struct folder *fo)
{
    size_t nr = stacks_nr_functions(fo->stacks);
    size_t *at = calloc(nr + 1, sizeof(*at));
    fo->names = calloc(nr + 1, sizeof(*fo->names));
    if (!at || !fo->names) {
        free(at);
        return -1;
    }
    for (size_t i = 0; i < nr; i++) {
        at[i] = fo->scratch.size;
        put_function(fo, &fo->scratch, stacks_function(fo->stacks, i));
        text_char(&fo->scratch, 0);
    }
    for (size_t i = 0; i < nr; i++)
        fo->names[i] = fo->scratch.failed ? "" : fo->scratch.at + at[i];
    free(at);
    return fo->scratch.failed ? -1 : 0;
}

static void put_group(const struct fold_options *o, struct text *t, const struct stack_group *g)
{
    for (const char *p = g->comm; *p; p++)
        text_char(t, *p == ' ' ? '_' : *p == ';' ? ':' : *p);
    if (o->tid)
        text_printf(t, "-%" PRIu32 "/%" PRIu32, g->pid, g->tid);
    else if (o->pid)
        text_printf(t, "-%" PRIu32, g->pid);
}

/* One folded line: where its text stands, and its count. */
struct folded {
    const char *text;
    size_t size;
    uint64_t count;
};

static int by_text(const void *a, const void *b)
{
    const struct folded *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = memcmp(x->text, y->text, n);
    if (order)
        return order;
    return x->size < y->size ? -1 : x->size > y->size;
}

static uint64_t weight(const struct fold_options *o, const struct stack_node *n)
{
    return o->samples || !n->period ? n->samples : n->period;
}

static void put_stack(const struct folder *fo, struct text *t, size_t node, uint32_t *path)
{
    const struct stack_node *n = stacks_node(fo->stacks, node);
    uint32_t depth = n->depth;
    for (uint32_t d = depth; d-- > 0; n = stacks_node(fo->stacks, n->parent))
        path[d] = n->function;
    put_group(fo->options, t, stacks_group(fo->stacks, path[0]));
    for (uint32_t d = 1; d < depth; d++) {
        text_char(t, ';');
        text_string(t, fo->names[path[d]]);
    }
}

static uint16_t event_of(const struct stacks *s, size_t node)
{
    const struct stack_node *n = stacks_node(s, node);
    while (n->parent)
        n = stacks_node(s, n->parent);
    return stacks_group(s, n->function)->event;
}

/* The event to print: the one asked for, or the lowest that was sampled. */
static int chosen_event(const struct stacks *s, const struct fold_options *o)
{
    int event = o->event;
    for (size_t i = 0; o->event < 0 && i < stacks_nr_groups(s); i++)
        if (event < 0 || stacks_group(s, i)->event < event)
            event = stacks_group(s, i)->event;
    return event;
}

static void print_sorted(struct folded *lines, size_t nr, FILE *out)
{
    if (nr)
        qsort(lines, nr, sizeof(*lines), by_text);
    for (size_t i = 0; i < nr;) {
        uint64_t count = 0;
        size_t first = i;
        do
            count += lines[i++].count;
        while (i < nr && by_text(&lines[first], &lines[i]) == 0);
        fwrite(lines[first].text, 1, lines[first].size, out);
        fprintf(out, " %" PRIu64 "\n", count);
    }
}

static int print_stacks(const struct folder *fo, FILE *out)
{
    VEC(struct folded) lines = {0};
    VEC(uint32_t) path = {0};
    struct text t = {0};
    int event = chosen_event(fo->stacks, fo->options);
    bool failed = false;
    for (size_t i = 1; i < stacks_nr_nodes(fo->stacks) && !failed; i++) {
        const struct stack_node *n = stacks_node(fo->stacks, i);
        /* a sample without any frame is no stack: stackcollapse-perf.pl has none either */
        if (!n->samples || n->depth < 2 || event_of(fo->stacks, i) != event)
            continue;
        size_t from = t.size;
        failed = !vec_reserve(&path, n->depth);
        if (!failed) {
            put_stack(fo, &t, i, path.at);
            struct folded line = {NULL, t.size - from, weight(fo->options, n)};
            failed = !vec_push(&lines, line);
        }
    }
    failed |= t.failed;
    const char *at = t.at;
    for (size_t i = 0; i < lines.nr && !failed; at += lines.at[i++].size)
        lines.at[i].text = at;
    if (!failed)
        print_sorted(lines.at, lines.nr, out);
    vec_free(&lines);
    vec_free(&path);
    text_free(&t);
    return failed ? -1 : 0;
}

int fold_print(const struct stacks *s, const struct fold_options *options, FILE *out,
               struct error *err)
{
    struct folder fo = {.stacks = s, .options = options};
    int failed = make_names(&fo) < 0 || print_stacks(&fo, out) < 0;
    free(fo.names);
    text_free(&fo.scratch);
    return failed ? error_no_memory(err) : 0;
}
