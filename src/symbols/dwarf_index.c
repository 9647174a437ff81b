/* SPDX-License-Identifier: GPL-2.0-only */
/* Walks a unit's entries: first only to find its functions, then one function to find the calls
 * inlined into it. */
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <stdlib.h>

struct walk {
    struct dwarf_unit *u;
    const struct dwarf_abbrevs *abbrevs;
    uint64_t low, high; /* bounds of the code */
    size_t max_ranges;
    uint32_t owner;        /* owner of the ranges that are being read */
    size_t function_depth; /* depth in `parents` of the outermost open function; 0: none */
    bool no_memory;
    struct unit_index *x;
    struct function_tree *tree; /* the tree to build; NULL: build the index's list of functions */
    bool deep;                  /* look for functions inside functions too */
};

static struct walk walk_make(struct unit_index *x)
{
    struct dwarf_unit *u = x->entries;
    struct walk w = {.u = u, .x = x, .low = x->low, .high = x->high, .abbrevs = dwarf_abbrevs(u)};
    x->ranges.nr = x->parents.nr = 0;
    const struct dwarf_file *ranges_in = u->skeleton ? u->skeleton->file : u->file;
    w.max_ranges = 1024 + (u->end - u->offset + u->file->sec[SEC_RNGLISTS].size +
                           ranges_in->sec[SEC_RANGES].size) /
                              2;
    return w;
}

static void add_range(void *context, uint64_t low, uint64_t high)
{
    struct walk *w = context;
    if (low < w->low || low >= w->high || w->x->ranges.nr >= w->max_ranges)
        return;
    if (!vec_push(&w->x->ranges, (struct segment_range){low, high, w->owner}))
        w->no_memory = true;
}

struct function_attrs {
    struct dwarf_value at[SLOT_NR];
};

static bool read_function(struct walk *w, struct cursor *c, const struct dwarf_abbrev *a,
                          struct function_attrs *f)
{
    const struct dwarf_attr *attr = w->abbrevs->attrs.at + a->first_attr;
    *f = (struct function_attrs){0};
    for (uint32_t i = 0; i < a->nr_attrs; i++, attr++) {
        if (attr->slot == SLOT_NONE && attr->size != NOT_FIXED)
            cursor_skip(c, attr->size);
        else if (!dwarf_read_attr(w->u, c, attr, &f->at[attr->slot]))
            return false;
    }
    return !c->failed;
}

/* Add the ranges of an entry for `owner`. Returns false when it has none. */
static bool add_ranges(struct walk *w, uint32_t owner, const struct function_attrs *f)
{
    struct dwarf_pcs pcs = {f->at[SLOT_LOW], f->at[SLOT_HIGH], f->at[SLOT_RANGES]};
    size_t before = w->x->ranges.nr;
    w->owner = owner;
    dwarf_pc_ranges(w->u, &pcs, add_range, w);
    return w->x->ranges.nr > before;
}

/* Returns where the entry's children end, from its sibling attribute; 0: it has none. */
static uint64_t read_sibling(struct walk *w, const struct cursor *c, const struct dwarf_abbrev *a)
{
    struct cursor at = *c;
    struct dwarf_value v;
    struct dwarf_file *file;
    uint64_t sibling;
    if (!a->children || a->sibling == NO_ATTR)
        return 0;
    dwarf_skip_some(w->u, &at, w->abbrevs, a, a->sibling);
    bool given = dwarf_read_value(w->u, &at, &w->abbrevs->attrs.at[a->first_attr + a->sibling], &v);
    return given && dwarf_reference(w->u, &v, &file, &sibling) && file == w->u->file ? sibling : 0;
}

/* Continue behind the entry's children. The jump must go forward and stay within the unit. */
static void jump(struct walk *w, struct cursor *c, uint64_t sibling)
{
    if (sibling > cursor_offset(c) && sibling < w->u->end)
        c->at = w->u->file->sec[SEC_INFO].bytes + sibling;
    else
        c->failed = true;
}

static void open_children(struct walk *w, uint32_t node)
{
    if (!vec_push(&w->x->parents, node))
        w->no_memory = true;
}

/* ---- the functions of a unit ------------------------------------------------------------- */

static bool may_hold_code(uint16_t tag)
{
    switch (tag) {
    case DW_TAG_compile_unit:
    case DW_TAG_partial_unit:
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
    case DW_TAG_common_block:
        return true;
    default:
        return false;
    }
}

static bool in_function(struct walk *w)
{
    if (w->x->parents.nr < w->function_depth)
        w->function_depth = 0;
    return w->function_depth > 0;
}

/* Add an out-of-line function to the unit's list, wherever its entry is. `c` does not move. */
static void add_function(struct walk *w, const struct cursor *c, uint64_t die,
                         const struct dwarf_abbrev *a)
{
    struct function_attrs f;
    struct cursor at = *c;
    size_t nr = w->x->functions.nr;
    if (!a->has_code || !read_function(w, &at, a, &f) || nr >= NO_NODE ||
        !add_ranges(w, (uint32_t)nr, &f))
        return;
    if (!vec_push(&w->x->functions, (struct unit_function){.die = die}))
        w->no_memory = true;
}

/* Skip entries that cannot hold code: types and declarations. Also skip the inside of functions,
 * although a class inside (a lambda's) holds its methods' code, even if the function around the
 * class is abstract. For such classes the unit is walked again, with `deep`, if no function is
 * found at an address. */
static bool visit_function(struct walk *w, struct cursor *c, uint64_t die,
                           const struct dwarf_abbrev *a)
{
    bool inside = in_function(w), function = a->tag == DW_TAG_subprogram;
    bool jumps = function ? !w->deep : !inside && !may_hold_code(a->tag);
    if (function)
        add_function(w, c, die, a);
    uint64_t sibling = jumps ? read_sibling(w, c, a) : 0;
    if (sibling) {
        w->x->jumped |= function;
        jump(w, c, sibling);
        return !c->failed;
    }
    if (function && !inside && a->children)
        w->function_depth = w->x->parents.nr + 1;
    dwarf_skip(w->u, c, w->abbrevs, a);
    if (a->children)
        open_children(w, NO_NODE);
    return !c->failed;
}

/* ---- calls inlined into a function ------------------------------------------------------- */

/* Add a node for a function or inlined call with code. Returns the node for its children. */
static uint32_t add_node(struct walk *w, uint64_t die, bool inlined, uint32_t parent,
                         const struct function_attrs *f)
{
    uint32_t nr = (uint32_t)w->tree->nodes.nr;
    if (nr == NO_NODE || !add_ranges(w, nr, f))
        return parent;
    struct function_node n = {.parent = inlined ? parent : NO_NODE,
                              .call_file = (uint32_t)f->at[SLOT_CALL_FILE].number,
                              .call_line = (uint32_t)f->at[SLOT_CALL_LINE].number,
                              .call_column = (uint32_t)f->at[SLOT_CALL_COLUMN].number,
                              .die = die};
    if (!vec_push(&w->tree->nodes, n)) {
        w->no_memory = true;
        return parent;
    }
    return nr;
}

static bool visit_inlined(struct walk *w, struct cursor *c, uint64_t die,
                          const struct dwarf_abbrev *a)
{
    uint32_t parent = w->x->parents.nr ? w->x->parents.at[w->x->parents.nr - 1] : NO_NODE,
             node = parent;
    bool inlined = a->tag == DW_TAG_inlined_subroutine;
    if (a->has_code && (inlined || a->tag == DW_TAG_subprogram)) {
        struct function_attrs f;
        if (!read_function(w, c, a, &f))
            return false;
        node = add_node(w, die, inlined, parent, &f);
    } else {
        dwarf_skip(w->u, c, w->abbrevs, a);
    }
    if (a->children)
        open_children(w, node);
    return !c->failed;
}

/* ---- walking ----------------------------------------------------------------------------- */

/* Walk one entry and all entries below it. */
static void walk(struct walk *w, struct cursor *c)
{
    do {
        uint64_t die = cursor_offset(c), code = cursor_uleb128(c);
        if (c->failed)
            return;
        if (code == 0) {
            if (w->x->parents.nr)
                w->x->parents.nr--;
            continue;
        }
        const struct dwarf_abbrev *a = dwarf_abbrev_find(w->abbrevs, code);
        if (a && a->is_leaf) {
            dwarf_skip(w->u, c, w->abbrevs, a);
            continue;
        }
        if (!a || !(w->tree ? visit_inlined(w, c, die, a) : visit_function(w, c, die, a)))
            return;
    } while (w->x->parents.nr && !w->no_memory && !c->failed && cursor_left(c));
}

static void functions_free(struct unit_index *x)
{
    vec_foreach (f, &x->functions) {
        if (!f->tree)
            continue;
        vec_free(&f->tree->nodes);
        segments_free(&f->tree->segments);
        free(f->tree);
    }
    vec_free(&x->functions);
    segments_free(&x->segments);
}

static void functions_find(struct unit_index *x, bool deep)
{
    struct walk w = walk_make(x);
    functions_free(x);
    x->walked = true;
    x->jumped = false;
    w.deep = deep;
    if (w.abbrevs) {
        struct cursor c = dwarf_cursor(w.u, w.u->die);
        walk(&w, &c);
        /* An inner function follows the outer one in `ranges`: the later of two is the inner
         * one. */
        if (w.no_memory || !segments_make(&x->segments, x->ranges.at, x->ranges.nr))
            functions_free(x);
    }
}

static struct function_tree *tree_read(struct unit_index *x, uint64_t die)
{
    struct walk w = walk_make(x);
    struct function_tree *tree = w.abbrevs ? calloc(1, sizeof(*tree)) : NULL;
    if (!tree)
        return NULL;
    struct cursor c = dwarf_cursor(w.u, die);
    const uint8_t *from = c.at;
    if (cursor_left(&c) > x->budget)
        c.end = c.at + x->budget;
    w.tree = tree;
    walk(&w, &c);
    x->budget -= (uint64_t)(c.at - from);
    if (w.no_memory || !segments_make(&tree->segments, x->ranges.at, x->ranges.nr)) {
        vec_free(&tree->nodes);
        free(tree);
        tree = NULL;
    }
    return tree;
}

struct function_tree *unit_index_tree(struct unit_index *x, uint64_t address)
{
    if (!x->walked)
        functions_find(x, false);
    uint32_t at = segments_find(&x->segments, address);
    if (at == NO_OWNER && x->jumped) {
        functions_find(x, true);
        at = segments_find(&x->segments, address);
    }
    if (at == NO_OWNER)
        return NULL;
    struct unit_function *f = &x->functions.at[at];
    if (!f->tree)
        f->tree = tree_read(x, f->die);
    return f->tree;
}

/* ---- the index --------------------------------------------------------------------------- */

struct unit_index *unit_index_create(struct dwarf_unit *entries, const struct dwarf_unit *lines_of,
                                     uint64_t low, uint64_t high)
{
    struct unit_index *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    x->entries = entries;
    x->lines_of = lines_of;
    x->low = low;
    x->high = high;
    /* A function is read once, and again for each function around it: few in real files. */
    x->budget = (1 << 20) + 32 * (entries->end - entries->die);
    return x;
}

struct line_table *unit_index_lines(struct unit_index *x)
{
    if (!x->has_lines && !line_table_read(&x->lines, x->lines_of, x->low, x->high))
        line_table_free(&x->lines);
    x->has_lines = true;
    return &x->lines;
}

void unit_index_free(struct unit_index *x)
{
    if (!x)
        return;
    functions_free(x);
    vec_free(&x->ranges);
    vec_free(&x->parents);
    line_table_free(&x->lines);
    free(x);
}
