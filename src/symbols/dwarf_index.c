/* SPDX-License-Identifier: GPL-2.0-only */
/* Walks a unit's entries once and keeps its functions, their inlined calls and their ranges. */
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <stdlib.h>

struct walk {
    struct dwarf_unit *u;
    const struct dwarf_abbrevs *abbrevs;
    struct unit_index *x;
    uint64_t low, high; /* of code */
    VEC(struct segment_range) ranges;
    VEC(uint32_t) parents; /* the node around each open entry */
    size_t max_ranges;
    uint32_t node;         /* whose ranges are being read */
    size_t function_depth; /* of `parents`, where the outermost open function stands; 0: in none */
    bool no_memory;
};

static void add_range(void *context, uint64_t low, uint64_t high)
{
    struct walk *w = context;
    if (low < w->low || low >= w->high || w->ranges.nr >= w->max_ranges)
        return;
    if (!vec_push(&w->ranges, (struct segment_range){low, high, w->node}))
        w->no_memory = true;
}

struct function_attrs {
    struct dwarf_pcs pcs;
    uint32_t call_file, call_line, call_column;
    uint64_t sibling; /* offset in SEC_INFO; 0: none */
};

static bool read_function(struct walk *w, struct cursor *c, const struct dwarf_abbrev *a,
                          struct function_attrs *f)
{
    *f = (struct function_attrs){0};
    for (uint32_t i = 0; i < a->nr_attrs; i++) {
        const struct dwarf_attr *attr = &w->abbrevs->attrs.at[a->first_attr + i];
        struct dwarf_value v;
        if (!dwarf_read_value(w->u, c, attr, &v))
            return false;
        struct dwarf_file *file;
        switch (attr->name) {
        case DW_AT_low_pc:
            f->pcs.low = v;
            break;
        case DW_AT_high_pc:
            f->pcs.high = v;
            break;
        case DW_AT_ranges:
            f->pcs.ranges = v;
            break;
        case DW_AT_call_file:
            f->call_file = (uint32_t)v.number;
            break;
        case DW_AT_call_line:
            f->call_line = (uint32_t)v.number;
            break;
        case DW_AT_call_column:
            f->call_column = (uint32_t)v.number;
            break;
        case DW_AT_sibling:
            if (a->children &&
                (!dwarf_reference(w->u, &v, &file, &f->sibling) || file != w->u->file))
                f->sibling = 0;
            break;
        default:
            break;
        }
    }
    return true;
}

/* A function's entry: makes a node when it has code. Returns the node for its children. */
static uint32_t add_function(struct walk *w, uint64_t die, bool inlined, uint32_t parent,
                             const struct function_attrs *f)
{
    uint32_t nr = (uint32_t)w->x->nodes.nr;
    size_t before = w->ranges.nr;
    w->node = nr;
    dwarf_ranges(w->u, &f->pcs, add_range, w);
    if (w->ranges.nr == before)
        return parent;
    struct function_node n = {.parent = inlined ? parent : NO_NODE,
                              .call_file = f->call_file,
                              .call_line = f->call_line,
                              .call_column = f->call_column,
                              .die = die};
    if (nr == NO_NODE || !vec_push(&w->x->nodes, n)) {
        w->no_memory = true;
        return parent;
    }
    return nr;
}

/* Skips an entry's attributes; its sibling's offset when it is given (types and declarations: no
 * code stands below them). */
static bool skip_entry(struct walk *w, struct cursor *c, const struct dwarf_abbrev *a,
                       uint64_t *sibling)
{
    *sibling = 0;
    if (!a->children || !a->has_sibling) {
        dwarf_skip(w->u, c, w->abbrevs, a);
        return !c->failed;
    }
    struct function_attrs f;
    if (!read_function(w, c, a, &f))
        return false;
    *sibling = f.sibling;
    return true;
}

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

/* Go on behind the entry's children: forward, and within the unit. */
static void jump(struct walk *w, struct cursor *c, uint64_t sibling)
{
    if (sibling > cursor_offset(c) && sibling < w->u->end)
        c->at = w->u->file->sec[SEC_INFO].bytes + sibling;
    else
        c->failed = true;
}

static bool in_function(struct walk *w)
{
    if (w->parents.nr < w->function_depth)
        w->function_depth = 0;
    return w->function_depth > 0;
}

/* One entry with its attributes; false: the rest cannot be read. */
static bool visit(struct walk *w, struct cursor *c, uint64_t die, const struct dwarf_abbrev *a)
{
    uint32_t parent = w->parents.nr ? w->parents.at[w->parents.nr - 1] : NO_NODE, node = parent;
    uint64_t sibling = 0;
    bool inlined = a->tag == DW_TAG_inlined_subroutine, inside = in_function(w);
    if (inlined || a->tag == DW_TAG_subprogram) {
        struct function_attrs f;
        if (!read_function(w, c, a, &f))
            return false;
        node = add_function(w, die, inlined, parent, &f);
        if (!inside && a->children)
            w->function_depth = w->parents.nr + 1;
    } else if (inside || may_hold_code(a->tag)) {
        /* A class in a function (a lambda's) holds its methods' code, also where the function
         * around it is abstract. */
        dwarf_skip(w->u, c, w->abbrevs, a);
    } else if (!skip_entry(w, c, a, &sibling)) {
        return false;
    }
    if (c->failed)
        return false;
    if (sibling)
        jump(w, c, sibling);
    else if (a->children && !vec_push(&w->parents, node))
        w->no_memory = true;
    return true;
}

static void walk_unit(struct walk *w)
{
    struct cursor c = dwarf_cursor(w->u, w->u->die);
    do {
        uint64_t die = cursor_offset(&c), code = cursor_uleb128(&c);
        if (c.failed)
            return;
        if (code == 0) {
            if (w->parents.nr)
                w->parents.nr--;
            continue;
        }
        const struct dwarf_abbrev *a = dwarf_abbrev_find(w->abbrevs, code);
        if (!a || !visit(w, &c, die, a))
            return;
    } while (!c.failed && w->parents.nr && !w->no_memory && cursor_left(&c));
}

/* ---- the index --------------------------------------------------------------------------- */

struct unit_index *unit_index_create(struct dwarf_unit *u, const struct dwarf_unit *lines_of,
                                     bool functions, uint64_t low, uint64_t high)
{
    struct unit_index *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    bool ok = line_table_read(&x->lines, lines_of, low, high);
    struct walk w = {
        .u = u, .x = x, .low = low, .high = high, .abbrevs = functions ? dwarf_abbrevs(u) : NULL};
    const struct dwarf_file *ranges_in = u->skeleton ? u->skeleton->file : u->file;
    w.max_ranges = 1024 + (u->end - u->offset + u->file->sec[SEC_RNGLISTS].size +
                           ranges_in->sec[SEC_RANGES].size) /
                              2;
    if (ok && w.abbrevs) {
        walk_unit(&w);
        /* Children follow their parents in `ranges`: the later of two is the inner one. */
        ok = !w.no_memory && segments_make(&x->segments, w.ranges.at, w.ranges.nr);
    }
    vec_free(&w.ranges);
    vec_free(&w.parents);
    if (!ok) {
        unit_index_free(x);
        return NULL;
    }
    return x;
}

void unit_index_free(struct unit_index *x)
{
    if (!x)
        return;
    vec_free(&x->nodes);
    segments_free(&x->segments);
    line_table_free(&x->lines);
    free(x);
}

const struct line_row *unit_index_row(const struct unit_index *x, uint64_t address)
{
    size_t low = 0, high = x->lines.rows.nr;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->lines.rows.at[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct line_row *r = low ? &x->lines.rows.at[low - 1] : NULL;
    return r && r->file != ROW_END ? r : NULL;
}
