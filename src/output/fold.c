/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes folded stacks: "comm;outermost;...;leaf COUNT", with functions in the order of their
 * names. With `tidy`, names are shortened by the rules of FlameGraph's stackcollapse-perf.pl, so
 * that both programs print the same lines.
 */
#include "base/bytes.h"
#include "base/intern.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 64 }; /* most levels that one name may become; no meaningful name has as many */

struct folder {
    const struct stacks *stacks;
    const struct fold_options *options;
    struct intern *strings;
    const char **names; /* of functions, then of groups; interned */
};

enum { PART_OF_ANOTHER = UINT32_MAX };

/* The stacks as they are printed. Functions of equal names are one node, and children are
 * sorted. */
struct name_node {
    const char *name;
    uint32_t parent;            /* PART_OF_ANOTHER: a sibling of the same name stands for it */
    uint32_t first_child, next; /* 0: none */
    uint32_t same;              /* a node that was merged into this one; 0: the last */
    uint32_t size;              /* bytes of its part of the path, while it is printed */
    uint64_t count;             /* weight of stacks that end here */
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What happens to a byte of a name. Most bytes are kept, and runs of them are copied whole. */
enum byte_fate { BYTE_KEPT, BYTE_CODED, BYTE_COLON, BYTE_QUOTE };
static const uint8_t fates[256] = {
    [0 ... ' ' - 1] = BYTE_CODED, [0x7f] = BYTE_CODED, [';'] = BYTE_COLON, /* ends a function */
    ['"'] = BYTE_QUOTE,           ['\''] = BYTE_QUOTE,
};

/* Whether all eight bytes are kept. */
static inline bool all_kept(const char *p)
{
    uint64_t word = bytes_load(p);
    return !(bytes_below(word, ' ') | bytes_equal(word, 0x7f) | bytes_equal(word, ';') |
             bytes_equal(word, '"') | bytes_equal(word, '\''));
}

/* Append a name's bytes as the format allows them in a line. */
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

/* Append [module], [module <address>] or [unknown]. */
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

/* stackcollapse-perf.pl drops everything from the first parenthesis that does not open "(anonymous
 * namespace)", unless the name looks like a method of Go ("x.(*T).m"). A parenthesis at the start
 * of a symbol does not count: it is escaped in the text that the program reads (text_symbol). */
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

/* stackcollapse-perf.pl takes "a->b" for a function and another one inlined in it, which is how
 * agents of some JITs write them (and takes C++'s operator-> for the same). The ';' written here
 * becomes a level of the tree. */
static void put_tidy(struct text *t, const char *symbol)
{
    const char *end = symbol + strlen(symbol);
    while (end - symbol > 2 && begins(end - 2, end, "->"))
        end -= 2; /* no piece follows it */
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

/* Append a managed symbol as in script's text, which stackcollapse-perf.pl reads. */
static void put_managed(struct text *t, const char *symbol, bool tidy)
{
    struct text escaped = {0};
    text_managed_symbol(&escaped, symbol);
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
    else if (function_is_managed(f))
        put_managed(t, f->symbol, o->tidy);
    else if (o->tidy)
        put_tidy(t, f->symbol);
    else
        put_bytes(t, f->symbol, strlen(f->symbol), false);
    if (o->kernel && function_is_kernel(f))
        text_bytes(t, "_[k]", 4);
    else if (o->jit && (f->kind == FRAME_JIT || function_is_managed(f)))
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

/* Returns 0 if memory is out. */
static uint32_t append_name(name_tree *tree, uint32_t parent, const char *name)
{
    return vec_push(tree, (struct name_node){.name = name, .parent = parent})
               ? (uint32_t)(tree->nr - 1)
               : 0;
}

/* Append the nodes of the pieces of `name`. Returns the last node; 0: memory is out. */
static uint32_t append_pieces(const struct folder *fo, name_tree *tree, uint32_t parent,
                              const char *name)
{
    const char *end = fo->options->tidy ? strchr(name, ';') : NULL; /* written by put_tidy */
    for (; end; end = strchr(name, ';')) {
        const char *piece = intern_bytes(fo->strings, name, (size_t)(end - name));
        if (!piece || !(parent = append_name(tree, parent, piece)))
            return 0;
        name = end + 1;
        if (!strchr(name, ';') && !(name = intern_string(fo->strings, name)))
            return 0;
    }
    return append_name(tree, parent, name);
}

/* Make the stacks' tree with names instead of functions. Siblings of one name are not merged
 * yet. */
static int make_tree(const struct folder *fo, name_tree *tree)
{
    size_t nr = stacks_nr_nodes(fo->stacks);
    int event = stacks_event(fo->stacks, fo->options->event);
    uint32_t *index = malloc((nr + 1) * sizeof(*index)); /* 0: of another event */
    bool failed = !index || !vec_reserve(tree, nr) || !vec_push(tree, (struct name_node){0});
    for (size_t i = 1; i < nr && !failed; i++) {
        const struct stack_node *n = stacks_node(fo->stacks, i);
        bool top = n->depth == 1;
        index[i] = 0;
        if (top ? stacks_group(fo->stacks, n->function)->event != event : !index[n->parent])
            continue;
        index[i] = append_pieces(fo, tree, top ? 0 : index[n->parent], name_of(fo, n));
        failed = !index[i];
        /* as in stackcollapse-perf.pl, a sample without any frame is no stack */
        if (!failed && !top)
            tree->at[index[i]].count = weight(fo->options, n);
    }
    free(index);
    return failed ? -1 : 0;
}

/* ---- siblings ------------------------------------------------------------------------------ */

struct sibling {
    const char *name;
    uint32_t node;
};

struct linker {
    name_tree *tree;
    uint32_t *starts; /* the children of node p are children[starts[p]] .. [starts[p + 1]] */
    uint32_t *children;
    VEC(struct sibling) siblings; /* those of the current parent */
};

static int by_name(const void *a, const void *b)
{
    const struct sibling *x = a, *y = b;
    int order = x->name == y->name ? 0 : strcmp(x->name, y->name);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

/* List all nodes except the root, with siblings side by side. */
static void gather_children(const struct linker *l)
{
    const struct name_node *nodes = l->tree->at;
    size_t nr = l->tree->nr;
    for (size_t i = 1; i < nr; i++)
        l->starts[nodes[i].parent]++;
    for (size_t p = 1; p <= nr; p++)
        l->starts[p] += l->starts[p - 1]; /* the end for p; filled downwards from there */
    for (size_t i = nr; i-- > 1;)
        l->children[--l->starts[nodes[i].parent]] = (uint32_t)i;
}

/* Get the children of a node and of the nodes that were merged into it, sorted by name. */
static bool sort_siblings(struct linker *l, uint32_t parent)
{
    const struct name_node *nodes = l->tree->at;
    l->siblings.nr = 0;
    for (uint32_t p = parent;; p = nodes[p].same) {
        for (uint32_t i = l->starts[p]; i < l->starts[p + 1]; i++)
            if (!vec_push(&l->siblings,
                          (struct sibling){nodes[l->children[i]].name, l->children[i]}))
                return false;
        if (!nodes[p].same)
            break;
    }
    if (l->siblings.nr > 1)
        qsort(l->siblings.at, l->siblings.nr, sizeof(*l->siblings.at), by_name);
    return true;
}

/* Link the siblings into their parent's list. Those of one name are merged into the first of
 * them. */
static void link_siblings(struct linker *l, uint32_t parent)
{
    struct name_node *nodes = l->tree->at;
    uint32_t *link = &nodes[parent].first_child;
    struct name_node *last = NULL;
    vec_foreach (s, &l->siblings) {
        struct name_node *n = &nodes[s->node];
        if (last && last->name == s->name) {
            last->count += n->count;
            n->same = last->same;
            last->same = s->node;
            n->parent = PART_OF_ANOTHER;
            continue;
        }
        n->parent = parent;
        *link = s->node;
        link = &n->next;
        last = n;
    }
}

static int link_children(name_tree *tree)
{
    struct linker l = {.tree = tree,
                       .starts = calloc(tree->nr + 1, sizeof(*l.starts)),
                       .children = malloc(tree->nr * sizeof(*l.children))};
    bool failed = !l.starts || !l.children;
    if (!failed)
        gather_children(&l);
    /* parents come before their children, so they have been merged already */
    for (uint32_t p = 0; p < tree->nr && !failed; p++) {
        if (tree->at[p].parent == PART_OF_ANOTHER)
            continue;
        if (l.starts[p] == l.starts[p + 1] && !tree->at[p].same)
            continue;
        failed = !sort_siblings(&l, p);
        if (!failed)
            link_siblings(&l, p);
    }
    free(l.starts);
    free(l.children);
    vec_free(&l.siblings);
    return failed ? -1 : 0;
}

/* Print depth first. `path` always holds the path of the current node. */
static int print_tree(name_tree *tree, FILE *out)
{
    enum { OUTPUT_AT_ONCE = 64 << 10 };
    struct text path = {0}, lines = {0};
    uint32_t node = tree->at[0].first_child;
    while (node && !path.failed && !lines.failed) {
        struct name_node *n = &tree->at[node];
        size_t before = path.size;
        if (n->parent)
            text_char(&path, ';');
        text_string(&path, n->name);
        n->size = (uint32_t)(path.size - before);
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
        for (; node; node = n->parent) { /* go up to a node with a sibling */
            n = &tree->at[node];
            path.size -= n->size;
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
