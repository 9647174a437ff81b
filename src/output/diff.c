/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Computes shares from stacks for each recording, and rows from shares. Each stack counts once for
 * each name on it.
 */
#include "output/diff.h"
#include "stacks/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *diff_level_name(enum diff_level level)
{
    static const char *const names[DIFF_LEVELS] = {"function", "file", "module", "state"};
    return names[level];
}

int diff_init(struct diff *d, const struct diff_options *options, struct error *err)
{
    *d = (struct diff){.options = options, .strings = intern_create()};
    return d->strings ? 0 : error_no_memory(err);
}

void diff_free(struct diff *d)
{
    vec_foreach (shares, &d->shares)
        free(*shares);
    vec_free(&d->shares);
    vec_free(&d->nr_shares);
    vec_free(&d->recordings);
    vec_free(&d->left_out);
    vec_free(&d->names);
    vec_free(&d->rows);
    hash_table_free(&d->by_name);
    free(d->row_shares);
    intern_free(d->strings);
}

/* Samples in one slice of time may depend on each other. */
static const uint64_t SLICE_NS = 50000000;

struct stacks_options diff_stacks_options(enum diff_level level)
{
    return (struct stacks_options){.by_tier = level == DIFF_STATE,
                                   .by_state = level == DIFF_STATE,
                                   .by_line = level == DIFF_FILE,
                                   .slice_ns = SLICE_NS};
}

/* ---- one recording -------------------------------------------------------------------------- */

/* The weight of a name in each block of time. */
struct tally {
    double weight[DIFF_METRICS][STACKS_BLOCKS];
    double doubtful; /* part of the total */
    double guessed;  /* part of self */
    uint32_t on_path;
};

struct tree_links {
    uint32_t first_child, next;
    double below, doubtful; /* weights of itself and everything below */
};

struct counter {
    const struct diff *d;
    const struct stacks *stacks;
    uint32_t *names;   /* per function; per node for states */
    uint32_t *of_file; /* per function: the second name of one without a symbol, or DIFF_NO_NAME */
    struct tree_links *links;
    struct tally *tallies; /* per name */
    double blocks[STACKS_BLOCKS];
    uint32_t block;     /* block of the current node */
    uint32_t stand_ins; /* number of stand-ins on the path to it */
    double unknown;     /* weight of stacks with a stand-in, or that end in a guess */
    uint64_t samples, weight;
    int event;
};

static double node_weight(const struct counter *c, const struct stack_node *n)
{
    return (double)(c->d->options->samples || !n->period ? n->samples : n->period);
}

/* Returns the weight of stacks that end here and have a frame that is not exact. */
static double doubtful_weight(const struct counter *c, const struct stack_node *n)
{
    double share = n->samples ? (double)(n->joined + n->guessed) / (double)n->samples : 0;
    return node_weight(c, n) * share;
}

/* Returns the part of doubtful_weight() where the executing frame is a guess. Frames that come from
 * joined stacks, or that were read at another moment and agreed, are usually right. */
static double guessed_weight(const struct counter *c, const struct stack_node *n)
{
    bool may_be = n->provenance == PROVENANCE_GUESS && n->samples;
    return may_be ? node_weight(c, n) * (double)n->guessed / (double)n->samples : 0;
}

/* Compute each node's children and the weight below it, only for the compared event. */
static void link_tree(struct counter *c)
{
    for (size_t i = stacks_nr_nodes(c->stacks); i-- > 1;) {
        const struct stack_node *n = stacks_node(c->stacks, i);
        struct tree_links *l = &c->links[i];
        struct tree_links *up = &c->links[n->parent];
        if (n->depth == 1 && stacks_group(c->stacks, n->function)->event != c->event)
            continue;
        double weight = node_weight(c, n);
        l->below += weight;
        l->doubtful += doubtful_weight(c, n);
        up->below += l->below;
        up->doubtful += l->doubtful;
        l->next = up->first_child;
        up->first_child = (uint32_t)i;
    }
}

static uint32_t name_of(const struct counter *c, uint32_t node)
{
    const struct stack_node *n = stacks_node(c->stacks, node);
    return c->names[c->d->options->level == DIFF_STATE ? node : n->function];
}

/* A stand-in is shown for samples of which nothing better is known. It is not code that could have
 * become slower. */
bool diff_is_stand_in(const char *name)
{
    static const char end[] = ": not recorded]";
    size_t size = strlen(name);
    return size >= sizeof(end) && strcmp(name + size - (sizeof(end) - 1), end) == 0;
}

static bool node_stands_in(const struct counter *c, const struct stack_node *n)
{
    const struct function *f = n->depth > 1 ? stacks_function(c->stacks, n->function) : NULL;
    return f && f->symbol && diff_is_stand_in(f->symbol);
}

static uint32_t second_name_of(const struct counter *c, uint32_t node)
{
    return c->of_file ? c->of_file[stacks_node(c->stacks, node)->function] : DIFF_NO_NAME;
}

/* The first time that a name is on the path, everything below counts for the name. */
static void tally_enter(struct counter *c, uint32_t node, uint32_t name)
{
    const struct stack_node *n = stacks_node(c->stacks, node);
    struct tally *t = &c->tallies[name];
    t->weight[DIFF_SELF][c->block] += node_weight(c, n);
    t->guessed += guessed_weight(c, n);
    if (c->d->options->level == DIFF_STATE) { /* a state belongs to the stack, not to a frame */
        t->weight[DIFF_TOTAL][c->block] += node_weight(c, n);
    } else if (!t->on_path++) {
        t->weight[DIFF_TOTAL][c->block] += c->links[node].below;
        t->doubtful += c->links[node].doubtful;
    }
}

static void enter(struct counter *c, uint32_t node)
{
    const struct stack_node *n = stacks_node(c->stacks, node);
    c->samples += n->samples;
    c->weight += n->period;
    if (n->depth == 1) {
        c->block = stacks_group(c->stacks, n->function)->block;
        c->blocks[c->block] += c->links[node].below;
        return;
    }
    if (node_stands_in(c, n) && !c->stand_ins++)
        c->unknown += c->links[node].below;
    else if (!c->stand_ins)
        c->unknown += guessed_weight(c, n);
    tally_enter(c, node, name_of(c, node));
    if (second_name_of(c, node) != DIFF_NO_NAME)
        tally_enter(c, node, second_name_of(c, node));
}

static void leave(struct counter *c, uint32_t node)
{
    c->stand_ins -= node_stands_in(c, stacks_node(c->stacks, node));
    if (stacks_node(c->stacks, node)->depth <= 1 || c->d->options->level == DIFF_STATE)
        return;
    c->tallies[name_of(c, node)].on_path--;
    if (second_name_of(c, node) != DIFF_NO_NAME)
        c->tallies[second_name_of(c, node)].on_path--;
}

/* Walk depth first, without recursion, because stacks may be deep. */
static void count_tree(struct counter *c)
{
    for (uint32_t at = c->links[0].first_child; at;) {
        enter(c, at);
        if (c->links[at].first_child) {
            at = c->links[at].first_child;
            continue;
        }
        leave(c, at);
        while (at && !c->links[at].next) {
            at = stacks_node(c->stacks, at)->parent;
            if (at)
                leave(c, at);
        }
        at = at ? c->links[at].next : 0;
    }
}

/* Compute the share over all blocks, and its variance from the differences between blocks. */
static void share_of(const struct counter *c, const struct tally *t, enum diff_metric m,
                     struct diff_share *ret)
{
    double total = c->links[0].below;
    double sum = 0;
    double squares = 0;
    unsigned nr = 0;
    for (int i = 0; i < STACKS_BLOCKS; i++)
        sum += t->weight[m][i];
    double share = total > 0 ? sum / total : 0;
    for (int i = 0; i < STACKS_BLOCKS; i++) {
        double off = total > 0 ? (t->weight[m][i] - share * c->blocks[i]) / total : 0;
        squares += off * off;
        nr += c->blocks[i] > 0;
    }
    ret->share[m] = share;
    ret->variance[m] = nr > 1 ? squares * nr / (nr - 1) : 0;
}

static int keep_shares(struct diff *d, const struct counter *c, uint8_t side)
{
    struct diff_share *shares = calloc(d->names.nr + 1, sizeof(*shares));
    if (!shares || !vec_push(&d->nr_shares, (uint32_t)d->names.nr) ||
        !vec_push(&d->shares, shares)) {
        free(shares);
        return -1;
    }
    for (size_t i = 0; i < d->names.nr; i++) {
        const struct tally *t = &c->tallies[i];
        for (int m = 0; m < DIFF_METRICS; m++)
            share_of(c, t, m, &shares[i]);
        if (c->links[0].below > 0) {
            shares[i].doubtful = t->doubtful / c->links[0].below;
            shares[i].guessed = t->guessed / c->links[0].below;
        }
        d->names.at[i].in[side] |= shares[i].share[DIFF_TOTAL] > 0;
    }
    return 0;
}

static uint32_t name_of_function(struct diff *d, const struct function *f)
{
    const char *source = diff_source(f);
    bool kernel = function_is_kernel(f);
    switch (d->options->level) {
    case DIFF_FILE:
        if (f->file || (f->module && function_is_managed(f)))
            return diff_name_plain(d, f->file ? f->file : f->module, NULL, kernel);
        __attribute__((fallthrough)); /* nothing better is known */
    case DIFF_MODULE:
        return diff_name_plain(d, source ? source : "[unknown]", NULL, kernel);
    default:
        return diff_name_function(d, f);
    }
}

static uint32_t name_of_state(struct diff *d, enum stack_state state)
{
    return diff_name_plain(d, stack_state_name(state), NULL, state == STATE_KERNEL);
}

/* Compute the name of each function, or of each node's state. */
static int make_names(struct diff *d, struct counter *c)
{
    bool states = d->options->level == DIFF_STATE;
    size_t nr = states ? stacks_nr_nodes(c->stacks) : stacks_nr_functions(c->stacks);
    c->names = calloc(nr + 1, sizeof(*c->names));
    c->of_file = states ? NULL : calloc(nr + 1, sizeof(*c->of_file));
    if (!c->names || (!states && !c->of_file))
        return -1;
    for (size_t i = 0; i < nr; i++) {
        c->names[i] = states ? name_of_state(d, stack_state(c->stacks, i))
                             : name_of_function(d, stacks_function(c->stacks, i));
        if (!states)
            c->of_file[i] = diff_name_of_file(d, stacks_function(c->stacks, i));
        if (c->names[i] == UINT32_MAX || (!states && c->of_file[i] == UINT32_MAX))
            return -1;
    }
    return 0;
}

/* Returns the unknown share of all samples, lost ones included. */
static double unknown_share(const struct counter *c, uint64_t lost)
{
    double all = (double)(c->samples + lost);
    double weight = c->links[0].below;
    double there = weight > 0 ? c->unknown / weight * (double)c->samples : 0;
    return all > 0 ? (there + (double)lost) / all : 0;
}

/* The kernel counts lost samples, but does not say of which event they were. */
static uint64_t lost_of_compared(const struct counter *c, const struct diff_recording *r)
{
    return r->read > c->samples
               ? (uint64_t)llround((double)r->lost * (double)c->samples / (double)r->read)
               : r->lost;
}

int diff_add(struct diff *d, const struct diff_recording *r, const struct stacks *s,
             struct error *err)
{
    struct counter c = {.d = d, .stacks = s, .event = stacks_event(s, -1)};
    c.links = calloc(stacks_nr_nodes(s), sizeof(*c.links));
    bool failed = !c.links || make_names(d, &c) < 0 || !vec_push(&d->recordings, *r);
    c.tallies = failed ? NULL : calloc(d->names.nr + 1, sizeof(*c.tallies));
    failed = failed || !c.tallies;
    if (!failed) {
        link_tree(&c);
        count_tree(&c);
        failed = keep_shares(d, &c, r->side) < 0;
        d->nr[r->side]++;
        struct diff_recording *mine = &d->recordings.at[d->recordings.nr - 1];
        mine->samples = c.samples;
        mine->weight = c.weight;
        mine->lost = lost_of_compared(&c, r);
        mine->unknown = unknown_share(&c, mine->lost);
    }
    free(c.links);
    free(c.names);
    free(c.of_file);
    free(c.tallies);
    return failed ? error_no_memory(err) : 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void describe_row(struct diff *d, const struct diff_name *n, int side)
{
    struct diff_row *row = &d->rows.at[n->row[side]];
    row->name = *n->name ? n->name : "[anonymous]";
    row->source = n->source;
    row->line = (uint32_t)(n->place >> 32);
    row->kernel &= n->kernel;
}

/* The new side describes rows last, since its places match the current sources. */
static int make_rows(struct diff *d, uint32_t nr)
{
    size_t width = d->recordings.nr;
    d->row_shares = calloc((size_t)nr * width + 1, sizeof(*d->row_shares));
    if (!d->row_shares || !vec_reserve(&d->rows, (size_t)nr + 1))
        return -1;
    d->rows.nr = nr;
    for (uint32_t i = 0; i < nr; i++)
        d->rows.at[i] = (struct diff_row){.kernel = true, .shares = &d->row_shares[i * width]};
    for (int side = 0; side < DIFF_SIDES; side++)
        vec_foreach (n, &d->names)
            if (n->in[side])
                describe_row(d, n, side);
    for (size_t r = 0; r < width; r++)
        for (uint32_t i = 0; i < d->nr_shares.at[r]; i++) {
            int side = d->recordings.at[r].side;
            const struct diff_name *n = &d->names.at[i];
            if (n->in[side])
                d->rows.at[n->row[side]].shares[r] = d->shares.at[r][i];
        }
    return 0;
}

static void find_doubtful(struct diff *d)
{
    vec_foreach (row, &d->rows) {
        double sums[DIFF_SIDES] = {0};
        for (size_t i = 0; i < d->recordings.nr; i++)
            sums[d->recordings.at[i].side] += row->shares[i].doubtful;
        row->doubtful = fmax(sums[DIFF_BASE] / d->nr[DIFF_BASE], sums[DIFF_NEW] / d->nr[DIFF_NEW]);
    }
}

static double largest_change(const struct diff_row *row)
{
    return fmax(fabs(row->test[DIFF_SELF].change), fabs(row->test[DIFF_TOTAL].change));
}

static int verdict_of(const struct diff_row *row)
{
    int self = row->test[DIFF_SELF].verdict;
    int total = row->test[DIFF_TOTAL].verdict;
    return self > total ? self : total;
}

/* Sorts regressions first, then by change of self, by the largest change, and by name. */
static int by_interest(const void *a, const void *b)
{
    const struct diff_row *x = a;
    const struct diff_row *y = b;
    int order = (verdict_of(y) == DIFF_REGRESSION) - (verdict_of(x) == DIFF_REGRESSION);
    double p = fabs(x->test[DIFF_SELF].change);
    double q = fabs(y->test[DIFF_SELF].change);
    order = order ? order : p < q ? 1 : -(p > q);
    p = largest_change(x);
    q = largest_change(y);
    order = order ? order : p < q ? 1 : -(p > q);
    order = order ? order : strcmp(x->name, y->name);
    order = order ? order : strcmp(x->source ? x->source : "", y->source ? y->source : "");
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

int diff_check_recordings(const struct diff_recording *recordings, size_t nr, struct error *err)
{
    const struct diff_recording *first = recordings;
    for (const struct diff_recording *r = first; r < first + nr; r++) {
        if (!r->samples)
            return error_set(err, ERROR_NOT_FOUND, "%s: there are no samples to compare", r->path);
        if (strcmp(r->event, first->event) != 0)
            return error_set(
                err, ERROR_FORMAT,
                "%s has samples of %s, but %s of %s; choose an event of both with --event",
                first->path, first->event, r->path, r->event);
    }
    return 0;
}

static int by_unknown(const void *a, const void *b)
{
    double x = ((const struct diff_recording *)a)->unknown;
    double y = ((const struct diff_recording *)b)->unknown;
    return x < y ? -1 : x > y;
}

/* Get the largest unknown share in the better half of all recordings. */
static int usual_unknown(const struct diff *d, double *ret, struct error *err)
{
    size_t nr = d->recordings.nr;
    struct diff_recording *sorted = calloc(nr, sizeof(*sorted));
    if (!sorted)
        return error_no_memory(err);
    memcpy(sorted, d->recordings.at, nr * sizeof(*sorted));
    qsort(sorted, nr, sizeof(*sorted), by_unknown);
    *ret = sorted[(nr - 1) / 2].unknown;
    free(sorted);
    return 0;
}

static int leave_out(struct diff *d, struct error *err)
{
    size_t kept = 0;
    double usual = 0;
    if (usual_unknown(d, &usual, err) < 0 || !vec_reserve(&d->left_out, d->recordings.nr))
        return error_no_memory(err);
    for (size_t i = 0; i < d->recordings.nr; i++) {
        const struct diff_recording r = d->recordings.at[i];
        if (r.unknown <= usual + DIFF_UNKNOWN_MOST) {
            d->recordings.at[kept] = r;
            d->shares.at[kept] = d->shares.at[i];
            d->nr_shares.at[kept++] = d->nr_shares.at[i];
            continue;
        }
        free(d->shares.at[i]);
        d->left_out.at[d->left_out.nr++] = r;
        d->nr[r.side]--;
    }
    d->recordings.nr = d->shares.nr = d->nr_shares.nr = kept;
    if (d->nr[DIFF_BASE] && d->nr[DIFF_NEW])
        return 0;
    const struct diff_recording *r = &d->left_out.at[d->left_out.nr - 1];
    return error_set(err, ERROR_NOT_FOUND,
                     "%s: %.0f%% of its samples were lost or are not exact, of others %.0f%%; "
                     "these cannot be compared; record again",
                     r->path, 100 * r->unknown, 100 * usual);
}

int diff_finish(struct diff *d, struct error *err)
{
    if (diff_check_recordings(d->recordings.at, d->recordings.nr, err) < 0 || leave_out(d, err) < 0)
        return -1;
    uint32_t nr = diff_match(d);
    if (nr == UINT32_MAX || make_rows(d, nr) < 0 || diff_test_rows(d) < 0)
        return error_no_memory(err);
    find_doubtful(d);
    diff_judge_whole(d);
    if (d->rows.nr)
        qsort(d->rows.at, d->rows.nr, sizeof(*d->rows.at), by_interest);
    return 0;
}
