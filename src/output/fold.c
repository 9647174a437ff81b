/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Folded stacks: "comm;outermost;...;leaf COUNT", functions in the order of their names. With
 * `tidy`, names are shortened by the rules of FlameGraph's stackcollapse-perf.pl, so that both
 * print the same lines.
 */
#include "base/bytes.h"
#include "base/hash.h"
#include "base/intern.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 64 }; /* levels one name may make; no name that means something has as many */

struct folder {
    const struct stacks *stacks;
    const struct fold_options *options;
    struct intern *strings;
    const char **names; /* of functions, then of groups; interned */
};

/* The stacks as they print: functions of equal names are one, children stand in order. */
struct name_node {
    const char *name;
    uint32_t parent;
    uint32_t first_child, next; /* 0: none */
    uint64_t count;             /* of stacks that end here */
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

/* What becomes of a name's bytes: most stand as they are, and whole runs of them are copied. */
enum byte_fate { BYTE_KEPT, BYTE_CODED, BYTE_COLON, BYTE_QUOTE };
static const uint8_t fates[256] = {
    [0 ... ' ' - 1] = BYTE_CODED, [0x7f] = BYTE_CODED, [';'] = BYTE_COLON, /* it ends a function */
    ['"'] = BYTE_QUOTE,           ['\''] = BYTE_QUOTE,
};

/* Whether the eight bytes stand as they are. */
static inline bool all_kept(const char *p)
{
    uint64_t word = bytes_load(p);
    return !(bytes_below(word, ' ') | bytes_equal(word, 0x7f) | bytes_equal(word, ';') |
             bytes_equal(word, '"') | bytes_equal(word, '\''));
}

/* A name's bytes as a line may have them. */
static void put_bytes(struct text *t, const char *name, size_t size, bool drop_quotes)
{
    size_t run = 0;
    for (size_t i = 0; i <= size; i++) {
        while (size - i >= 8 && all_kept(name + i))
            i += 8;
        unsigned char c = i < size ? (unsigned char)name[i] : 0;
        enum byte_fate fate = i < size ? fates[c] : BYTE_CODED;
        if (fate == BYTE_KEPT || (fate == BYTE_QUOTE && !drop_quotes))
            continue;
        text_bytes(t, name + run, i - run);
        run = i + 1;
        if (i == size)
            break;
        if (fate == BYTE_COLON)
            text_char(t, ':');
        else if (fate == BYTE_CODED)
            text_printf(t, "%%%02X", c);
    }
}

/* [module], [module <address>], [unknown] */
static void put_unknown(struct text *t, const struct function *f, bool address)
{
    struct text module = {0};
    text_module(&module, f->module ? base_name(f->module) : "unknown");
    text_char(t, '[');
    put_bytes(t, module.at ? module.at : "", module.size, false);
    if (address) {
        text_bytes(t, " <", 2);
        text_hex(t, f->address, 0);
        text_char(t, '>');
    }
    text_char(t, ']');
    t->failed |= module.failed;
    text_free(&module);
}

static bool begins(const char *p, const char *end, const char *what)
{
    size_t size = strlen(what);
    return (size_t)(end - p) >= size && memcmp(p, what, size) == 0;
}

/* Everything from the first parenthesis that opens no "(anonymous namespace)" is noise to
 * stackcollapse-perf.pl, unless it looks like a method of Go ("x.(*T).m"). One that a symbol begins
 * with is no parenthesis in the text that program reads (text_symbol). */
static size_t tidy_size(const char *piece, size_t size, bool first)
{
    const char *end = piece + size;
    const char *go = memmem(piece, size, ".(", 2);
    if (go && memmem(go, (size_t)(end - go), ").", 2))
        return size;
    for (const char *p = piece + (first && size); p < end; p++)
        if (*p == '(' && !begins(p, end, "(anonymous namespace)"))
            return (size_t)(p - piece);
    return size;
}

/* "a->b" is a function and one inlined in it to stackcollapse-perf.pl, as agents of some JITs write
 * them (and C++'s operator-> is taken for the same). The ';' put here becomes a level of the tree.
 */
static void put_tidy(struct text *t, const char *symbol)
{
    const char *end = symbol + strlen(symbol);
    while (end - symbol > 2 && begins(end - 2, end, "->"))
        end -= 2; /* nothing behind it: no piece */
    unsigned nr = 0;
    for (const char *piece = symbol; piece; nr++) {
        size_t left = (size_t)(end - piece);
        const char *arrow = nr < PIECES_MAX ? memmem(piece, left, "->", 2) : NULL;
        size_t size = (size_t)((arrow ? arrow : end) - piece);
        if (nr)
            text_char(t, ';');
        put_bytes(t, piece, tidy_size(piece, size, nr == 0), true);
        if (nr)
            text_bytes(t, "_[i]", 4);
        piece = arrow ? arrow + 2 : NULL;
    }
}

/* As script's text has it, which stackcollapse-perf.pl reads. */
static void put_guest(struct text *t, const char *symbol, bool tidy)
{
    struct text escaped = {0};
    text_guest_symbol(&escaped, symbol);
    text_char(&escaped, 0);
    if (tidy && !escaped.failed)
        put_tidy(t, escaped.at);
    else if (!escaped.failed)
        put_bytes(t, escaped.at, escaped.size - 1, false);
    t->failed |= escaped.failed;
    text_free(&escaped);
}

static void put_function(const struct folder *fo, struct text *t, const struct function *f)
{
    const struct fold_options *o = fo->options;
    if (!f->symbol)
        put_unknown(t, f, o->addresses);
    else if (function_is_guest(f))
        put_guest(t, f->symbol, o->tidy);
    else if (o->tidy)
        put_tidy(t, f->symbol);
    else
        put_bytes(t, f->symbol, strlen(f->symbol), false);
    if (o->kernel && is_kernel(f))
        text_bytes(t, "_[k]", 4);
    else if (o->jit && (f->kind == FRAME_JIT || function_is_guest(f)))
        text_bytes(t, "_[j]", 4);
    else if (o->inlined && f->inlined)
        text_bytes(t, "_[i]", 4);
}

static void put_group(const struct fold_options *o, struct text *t, const struct stack_group *g)
{
    size_t from = t->size;
    put_bytes(t, g->comm, strlen(g->comm), false);
    for (size_t i = from; i < t->size; i++)
        if (t->at[i] == ' ')
            t->at[i] = '_';
    if (o->tid)
        text_printf(t, "-%" PRIu32 "/%" PRIu32, g->pid, g->tid);
    else if (o->pid)
        text_printf(t, "-%" PRIu32, g->pid);
}

static const char *interned(struct folder *fo, struct text *t)
{
    const char *name = t->failed ? NULL : intern_bytes(fo->strings, t->at ? t->at : "", t->size);
    t->size = 0;
    return name;
}

static int make_names(struct folder *fo)
{
    size_t nr = stacks_nr_functions(fo->stacks);
    size_t nr_groups = stacks_nr_groups(fo->stacks);
    struct text t = {0};
    bool failed = false;
    fo->strings = intern_create();
    fo->names = calloc(nr + nr_groups + 1, sizeof(*fo->names));
    for (size_t i = 0; fo->strings && fo->names && !failed && i < nr + nr_groups; i++) {
        if (i < nr)
            put_function(fo, &t, stacks_function(fo->stacks, i));
        else
            put_group(fo->options, &t, stacks_group(fo->stacks, i - nr));
        failed = !(fo->names[i] = interned(fo, &t));
    }
    text_free(&t);
    return failed || !fo->strings || !fo->names ? -1 : 0;
}

/* ---- the tree of names --------------------------------------------------------------------- */

typedef VEC(struct name_node) name_tree;

static uint64_t weight(const struct fold_options *o, const struct stack_node *n)
{
    return o->samples || !n->period ? n->samples : n->period;
}

static const char *name_of(const struct folder *fo, const struct stack_node *n)
{
    size_t groups = stacks_nr_functions(fo->stacks);
    return fo->names[n->depth == 1 ? groups + n->function : n->function];
}

struct child_slots {
    uint32_t *at; /* node index; 0: free */
    size_t nr;    /* a power of two; at least twice the nodes */
};

static uint32_t *find_child(const name_tree *tree, const struct child_slots *slots, uint32_t parent,
                            const char *name)
{
    size_t at = hash_combine(parent, (uintptr_t)name) & (slots->nr - 1);
    for (; slots->at[at]; at = (at + 1) & (slots->nr - 1)) {
        const struct name_node *n = &tree->at[slots->at[at]];
        if (n->parent == parent && n->name == name)
            break;
    }
    return &slots->at[at];
}

static bool grow_slots(const name_tree *tree, struct child_slots *slots)
{
    size_t nr = slots->nr ? slots->nr * 2 : 4096;
    free(slots->at);
    *slots = (struct child_slots){calloc(nr, sizeof(*slots->at)), nr};
    for (uint32_t i = 1; slots->at && i < tree->nr; i++)
        *find_child(tree, slots, tree->at[i].parent, tree->at[i].name) = i;
    return slots->at != NULL;
}

/* The child of `parent` of that name, made if new; 0: out of memory. */
static uint32_t name_child(name_tree *tree, struct child_slots *slots, uint32_t parent,
                           const char *name)
{
    if (tree->nr * 2 >= slots->nr && !grow_slots(tree, slots))
        return 0;
    uint32_t *slot = find_child(tree, slots, parent, name);
    if (!*slot && vec_push(tree, (struct name_node){.name = name, .parent = parent}))
        *slot = (uint32_t)(tree->nr - 1);
    return *slot;
}

/* The node at the end of `name`'s pieces; 0: out of memory. */
static uint32_t name_path(const struct folder *fo, name_tree *tree, struct child_slots *slots,
                          uint32_t parent, const char *name)
{
    const char *end = strchr(name, ';');
    if (!end)
        return name_child(tree, slots, parent, name);
    for (; (end = strchr(name, ';')); name = end + 1) {
        const char *piece = intern_bytes(fo->strings, name, (size_t)(end - name));
        parent = piece ? name_child(tree, slots, parent, piece) : 0;
        if (!parent)
            return 0;
    }
    name = intern_string(fo->strings, name);
    return name ? name_child(tree, slots, parent, name) : 0;
}

static int make_tree(const struct folder *fo, name_tree *tree)
{
    size_t nr = stacks_nr_nodes(fo->stacks);
    int event = stacks_event(fo->stacks, fo->options->event);
    struct child_slots slots = {0};
    uint32_t *index = calloc(nr + 1, sizeof(*index)); /* 0: of another event */
    bool failed = !index || !vec_push(tree, (struct name_node){0});
    for (size_t i = 1; i < nr && !failed; i++) {
        const struct stack_node *n = stacks_node(fo->stacks, i);
        bool skip = n->depth == 1 ? stacks_group(fo->stacks, n->function)->event != event
                                  : index[n->parent] == 0;
        if (skip)
            continue;
        index[i] = name_path(fo, tree, &slots, index[n->parent], name_of(fo, n));
        failed = !index[i];
        /* a sample without any frame is no stack: stackcollapse-perf.pl has none either */
        if (!failed && n->depth > 1)
            tree->at[index[i]].count += weight(fo->options, n);
    }
    free(slots.at);
    free(index);
    return failed ? -1 : 0;
}

struct ordered_node {
    const char *name;
    uint32_t node;
};

static int by_name(const void *a, const void *b)
{
    const struct ordered_node *x = a, *y = b;
    int order = x->name == y->name ? 0 : strcmp(x->name, y->name);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

/* All nodes but the root, siblings side by side: those of parent p are [starts[p], starts[p + 1]).
 */
static void gather_siblings(const name_tree *tree, uint32_t *starts, struct ordered_node *order)
{
    for (size_t i = 1; i < tree->nr; i++)
        starts[tree->at[i].parent]++;
    for (size_t p = 1; p <= tree->nr; p++)
        starts[p] += starts[p - 1]; /* where p's end: filled from there down */
    for (size_t i = tree->nr; i-- > 1;)
        order[--starts[tree->at[i].parent]] = (struct ordered_node){tree->at[i].name, (uint32_t)i};
}

/* Link every node into its parent's list of children, in the order of names. */
static int link_children(name_tree *tree)
{
    struct ordered_node *order = calloc(tree->nr, sizeof(*order));
    uint32_t *starts = calloc(tree->nr + 1, sizeof(*starts));
    if (order && starts)
        gather_siblings(tree, starts, order);
    for (size_t p = 0; order && starts && p < tree->nr; p++) {
        uint32_t from = starts[p], end = starts[p + 1];
        if (end - from > 1)
            qsort(order + from, end - from, sizeof(*order), by_name);
        for (uint32_t i = end; i-- > from;) {
            tree->at[order[i].node].next = tree->at[p].first_child;
            tree->at[p].first_child = order[i].node;
        }
    }
    bool failed = !order || !starts;
    free(order);
    free(starts);
    return failed ? -1 : 0;
}

/* Depth first; `path` always holds the path of the node at hand. */
static int print_tree(const name_tree *tree, FILE *out)
{
    enum { OUTPUT_AT_ONCE = 64 << 10 };
    struct text path = {0}, lines = {0};
    uint32_t node = tree->at[0].first_child;
    while (node && !path.failed && !lines.failed) {
        const struct name_node *n = &tree->at[node];
        if (n->parent)
            text_char(&path, ';');
        text_string(&path, n->name);
        if (n->count && !path.failed) {
            text_bytes(&lines, path.at, path.size);
            text_char(&lines, ' ');
            text_dec(&lines, n->count, 0);
            text_char(&lines, '\n');
        }
        if (lines.size >= OUTPUT_AT_ONCE) {
            fwrite(lines.at, 1, lines.size, out);
            lines.size = 0;
        }
        if (n->first_child) {
            node = n->first_child;
            continue;
        }
        for (; node; node = n->parent) { /* up to a node with a sibling */
            n = &tree->at[node];
            path.size -= strlen(n->name) + (n->parent != 0);
            if (n->next)
                break;
        }
        node = node ? tree->at[node].next : 0;
    }
    if (lines.size)
        fwrite(lines.at, 1, lines.size, out);
    bool failed = path.failed || lines.failed;
    text_free(&path);
    text_free(&lines);
    return failed ? -1 : 0;
}

int fold_print(const struct stacks *s, const struct fold_options *options, FILE *out,
               struct error *err)
{
    struct folder fo = {.stacks = s, .options = options};
    name_tree tree = {0};
    bool failed = make_names(&fo) < 0 || make_tree(&fo, &tree) < 0 || link_children(&tree) < 0 ||
                  print_tree(&tree, out) < 0;
    vec_free(&tree);
    free(fo.names);
    intern_free(fo.strings);
    return failed ? error_no_memory(err) : 0;
}
