/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording as the HTML page reads it. Its size is bounded: samples are summed in slices of time,
 * as few as are needed to keep the rows below a limit; each function and each node of the tree is
 * written once.
 */
#include "base/hash.h"
#include "output/html.h"
#include "stacks/tree.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLICES = 1024,      /* of time, at most: more than a screen has columns */
    ROWS_MOST = 300000, /* rows that fewer slices would make fewer */
};

/* A stack of a process. */
struct pile {
    const char *comm;
    uint32_t node; /* of the profile */
    uint32_t leaf; /* of the page's tree */
    uint8_t tier;  /* of the innermost managed frame */
    uint64_t weight;
};

struct row {
    uint32_t slice, thread, pile, event, samples;
    uint64_t weight;
};

/* What is known of a node of the page's tree. */
struct node_look {
    uint64_t tiers[NR_TIERS]; /* weight by tier */
    uint8_t provenance;       /* the weakest */
    bool inlined;
};

struct maker {
    const struct export *e;
    struct html_data *to;
    VEC(struct pile) piles;
    struct hash_table pile_index;
    VEC(struct row) rows;
    VEC(const char *) comms; /* function number: that of the profile's last + 1 + index */
    struct hash_table comm_index;
    struct stack_tree tree;
    VEC(struct node_look) looks; /* by node */
    node_path path;
    bool failed;
};

/* ---- numbers --------------------------------------------------------------------------------- */

void html_number(struct text *t, uint64_t value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    do {
        text_char(t, digits[(value & 31) | (value > 31 ? 32 : 0)]);
        value >>= 5;
    } while (value);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t pile_of(struct maker *m, const struct profile_sample *s)
{
    const char *comm = m->e->profile->threads.at[s->thread].comm;
    uint64_t hash = hash_u64((uintptr_t)comm ^ hash_u64(s->node));
    uint32_t number =
        hash_table_intern(&m->pile_index, hash, &m->piles, i,
                          m->piles.at[i].node == s->node && m->piles.at[i].comm == comm,
                          (struct pile){.node = s->node, .comm = comm});
    m->failed |= number == HASH_TABLE_NONE;
    return number;
}

static int by_place(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    uint64_t p[] = {x->event, x->slice, x->thread, x->pile};
    uint64_t q[] = {y->event, y->slice, y->thread, y->pile};
    for (int i = 0; i < 4; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

/* Sum the rows of one place. */
static void merge_rows(struct maker *m)
{
    size_t kept = 0;
    qsort(m->rows.at, m->rows.nr, sizeof(*m->rows.at), by_place);
    for (size_t i = 0; i < m->rows.nr; i++) {
        struct row *last = kept ? &m->rows.at[kept - 1] : NULL;
        if (last && by_place(last, &m->rows.at[i]) == 0) {
            last->samples += m->rows.at[i].samples;
            last->weight += m->rows.at[i].weight;
        } else {
            m->rows.at[kept++] = m->rows.at[i];
        }
    }
    m->rows.nr = kept;
}

static uint32_t slice_of(const struct html_data *d, uint64_t time)
{
    uint64_t span = d->last - d->first + 1;
    return (uint32_t)((double)(time - d->first) / (double)span * d->nr_slices);
}

static void find_rows(struct maker *m)
{
    const struct profile *p = m->e->profile;
    struct html_data *d = m->to;
    d->nr_slices = SLICES;
    d->first = UINT64_MAX;
    vec_foreach (s, &p->samples)
        if (s->node) {
            d->first = s->time < d->first ? s->time : d->first;
            d->last = s->time > d->last ? s->time : d->last;
        }
    vec_foreach (s, &p->samples) {
        if (!s->node)
            continue;
        struct row r = {slice_of(d, s->time),  s->thread, pile_of(m, s), s->event, 1,
                        export_weight(m->e, s)};
        if (m->failed || !vec_push(&m->rows, r)) {
            m->failed = true;
            return;
        }
        m->piles.at[r.pile].weight += r.weight;
    }
    merge_rows(m);
    while (m->rows.nr > ROWS_MOST && d->nr_slices > 1) {
        d->nr_slices /= 2;
        vec_foreach (r, &m->rows)
            r->slice /= 2;
        merge_rows(m);
    }
}

static void put_rows(struct maker *m)
{
    struct html_rows *to = NULL;
    uint32_t slice = 0;
    vec_foreach (r, &m->rows) {
        if (!to || to->event != r->event) {
            struct html_rows first = {.event = r->event, .each = r->weight / r->samples};
            if (!vec_push(&m->to->rows, first)) {
                m->failed = true;
                return;
            }
            to = &m->to->rows.at[m->to->rows.nr - 1];
            slice = 0;
        }
        html_number(&to->rows, r->slice - slice);
        html_number(&to->rows, r->thread);
        html_number(&to->rows, m->piles.at[r->pile].leaf);
        html_number(&to->rows, (uint64_t)r->samples << 3 | m->piles.at[r->pile].tier);
        html_number(&to->rows, r->weight == to->each * r->samples ? 0 : r->weight + 1);
        html_number(&to->stacks, r->pile);
        slice = r->slice;
        to->samples += r->samples;
        to->weight += r->weight;
        to->nr++;
        m->failed |= to->rows.failed || to->stacks.failed;
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static uint32_t comm_function(struct maker *m, const char *comm)
{
    uint32_t number = hash_table_intern(&m->comm_index, hash_u64((uintptr_t)comm), &m->comms, i,
                                        m->comms.at[i] == comm, comm);
    m->failed |= number == HASH_TABLE_NONE;
    return (uint32_t)m->e->profile->functions.nr + number;
}

/* Go to a child and add the pile to it. */
static uint32_t step(struct maker *m, const struct pile *pile, uint32_t at, uint32_t function,
                     const struct profile_location *l, bool inlined)
{
    uint32_t child = m->failed ? 0 : stack_tree_child(&m->tree, at, function);
    while (child >= m->looks.nr && !m->failed)
        m->failed |= !vec_push(&m->looks, (struct node_look){0});
    if (!child || m->failed) {
        m->failed = true;
        return 0;
    }
    struct node_look *look = &m->looks.at[child];
    if (!l)
        return child;
    look->tiers[l->tier < NR_TIERS ? l->tier : 0] += pile->weight;
    look->inlined |= inlined;
    if (l->provenance > look->provenance)
        look->provenance = l->provenance;
    return child;
}

static void add_pile(struct maker *m, struct pile *pile)
{
    m->failed |= !vec_push(&m->to->stacks, pile->node);
    const struct profile *p = m->e->profile;
    uint32_t at = step(m, pile, 0, comm_function(m, pile->comm), NULL, false);
    m->failed |= !export_path(p, pile->node, &m->path);
    vec_foreach (n, &m->path) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[*n].location];
        if (profile_is_managed(l->kind))
            pile->tier = l->tier < NR_TIERS ? l->tier : 0;
        for (uint32_t i = l->nr_lines; i-- > 0;) {
            const struct profile_line *line = &p->lines.at[l->first_line + i];
            at = step(m, pile, at, line->function, l, line->inlined);
        }
    }
    pile->leaf = at;
}

static unsigned look_bits(const struct node_look *look)
{
    unsigned tier = 0;
    for (unsigned i = 1; i < NR_TIERS; i++)
        if (look->tiers[i] > look->tiers[tier])
            tier = i;
    return tier | (unsigned)look->provenance << 3 | (look->inlined ? 32U : 0);
}

static void put_nodes(struct maker *m)
{
    struct text *t = &m->to->nodes;
    uint8_t *usual = calloc(m->e->profile->functions.nr + m->comms.nr + 1, 1);
    m->failed |= !usual;
    for (uint32_t i = 1; i < m->tree.nodes.nr && usual; i++) {
        const struct stack_node *n = &m->tree.nodes.at[i];
        uint8_t look = (uint8_t)look_bits(&m->looks.at[i]);
        bool far = n->parent != i - 1, other = look != usual[n->function];
        html_number(t, (uint64_t)n->function << 2 | (other ? 2 : 0) | far);
        if (far)
            html_number(t, i - n->parent);
        if (other)
            html_number(t, look);
        usual[n->function] = look;
    }
    free(usual);
    m->to->nr_nodes = (uint32_t)m->tree.nodes.nr;
    m->failed |= t->failed;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Functions of a VM's libraries are in no file: names.c of the runtimes calls it so. */
static bool is_builtin(const struct profile_function *f)
{
    return !f->file || strncmp(f->file, "[builtin", 8) == 0;
}

static enum html_class class_of(const struct profile_function *f)
{
    static const uint8_t classes[] = {
        [FRAME_NATIVE] = HTML_NATIVE,
        [FRAME_KERNEL] = HTML_KERNEL,
        [FRAME_GUEST_KERNEL] = HTML_KERNEL,
        [FRAME_GUEST_USER] = HTML_NATIVE,
        [FRAME_HYPERVISOR] = HTML_KERNEL,
        [FRAME_JIT] = HTML_GENERATED,
        [FRAME_LUA] = HTML_LUA,
        [FRAME_JS] = HTML_JS,
        [FRAME_WASM] = HTML_WASM,
        [FRAME_MANAGED] = HTML_MANAGED,
        [FRAME_STUB] = HTML_NATIVE,
    };
    if (!f->symbol)
        return HTML_UNKNOWN;
    /* Node's own modules have names that tell. */
    if ((f->kind == FRAME_LUA && is_builtin(f)) ||
        (f->kind == FRAME_JS && f->file && (is_builtin(f) || strncmp(f->file, "node:", 5) == 0)))
        return HTML_RUNTIME;
    return f->kind < sizeof(classes) ? classes[f->kind] : HTML_NATIVE;
}

static uint32_t number_of(struct maker *m, const char *s)
{
    return s ? string_number(&m->to->strings, s) : string_number_of(&m->to->strings, m->e, "");
}

static void put_functions(struct maker *m)
{
    struct text *t = &m->to->functions;
    vec_foreach (f, &m->e->profile->functions) {
        html_number(t, number_of(m, f->name));
        html_number(t, number_of(m, f->module));
        const char *file = f->kind == FRAME_LUA && is_builtin(f) ? NULL : f->file;
        html_number(t, file ? number_of(m, file) + 1 : 0);
        html_number(t, f->line);
        html_number(t, class_of(f));
    }
    vec_foreach (comm, &m->comms) {
        html_number(t, number_of(m, *comm));
        html_number(t, number_of(m, NULL));
        html_number(t, 0);
        html_number(t, 0);
        html_number(t, HTML_PROCESS);
    }
    m->to->nr_functions = (uint32_t)(m->e->profile->functions.nr + m->comms.nr);
    m->failed |= t->failed || m->to->strings.failed;
}

int html_data_make(const struct export *e, struct html_data *ret, struct error *err)
{
    struct maker m = {.e = e, .to = ret};
    m.failed = stack_tree_init(&m.tree) < 0;
    if (!m.failed)
        find_rows(&m);
    for (size_t i = 0; i < m.piles.nr && !m.failed; i++)
        add_pile(&m, &m.piles.at[i]);
    if (!m.failed) {
        put_nodes(&m);
        put_rows(&m);
        put_functions(&m);
    }
    stack_tree_deinit(&m.tree);
    vec_free(&m.piles);
    vec_free(&m.rows);
    vec_free(&m.comms);
    vec_free(&m.looks);
    vec_free(&m.path);
    hash_table_free(&m.pile_index);
    hash_table_free(&m.comm_index);
    return m.failed ? error_no_memory(err) : 0;
}

void html_data_free(struct html_data *d)
{
    string_numbers_free(&d->strings);
    text_free(&d->functions);
    text_free(&d->nodes);
    vec_foreach (r, &d->rows) {
        text_free(&r->rows);
        text_free(&r->stacks);
    }
    vec_free(&d->rows);
    vec_free(&d->stacks);
}
