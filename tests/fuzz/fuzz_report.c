/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random stack trees through report and flame graph, with random options: both must end, and the
 * report's rows must add up.
 */
#include "output/flamegraph.h"
#include "output/report_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    const uint8_t *at, *end;
};

static uint8_t next(struct bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

static void add_function(struct stacks *s, uint32_t *node, uint8_t byte)
{
    static const char *const symbols[] = {"a", "b<int>", "c&\xff", NULL, "d;\n", "(e)", "f", ""};
    struct function f = {.symbol = symbols[byte & 7],
                         .module = byte & 8 ? "/bin/m" : NULL,
                         .kind = byte & 16 ? FRAME_KERNEL : FRAME_NATIVE,
                         .inlined = byte & 32,
                         .address = byte >> 6};
    *node = stack_tree_child(&s->tree, *node, stacks_intern_function(s, &f));
}

/* Reads stacks: for each a byte for its group, bytes for its functions up to a zero, a byte for its
 * weight. */
static void add_stacks(struct stacks *s, struct bytes *b)
{
    while (b->at < b->end) {
        uint8_t byte = next(b);
        struct stack_group g = {
            .comm = byte & 1 ? "p" : "q", .pid = byte >> 6, .event = byte >> 1 & 1};
        uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
        while ((byte = next(b)))
            add_function(s, &node, byte);
        struct stack_node *n = &s->tree.nodes.at[node];
        n->samples++;
        n->period += next(b);
    }
}

static struct report_options read_options(struct bytes *b)
{
    uint8_t flags = next(b);
    uint8_t more = next(b);
    struct report_options o = {
        .keys = {(enum report_key)(more % KEY_NR), (enum report_key)((more >> 4) % KEY_NR)},
        .nr_keys = 1 + (flags & 1),
        .children = flags & 2,
        .callers_first = flags & 4,
        .graph = (enum report_graph)((flags >> 3) % 3),
        .hide_unresolved = flags & 32,
        .show_samples = flags & 64,
        .separator = flags & 128 ? ";" : NULL,
        .graph_percent = next(b) / 8.0,
    };
    return o;
}

/* What the last byte says: inputs that were kept before there was this mean the same. */
static void read_more_options(struct report_options *o, uint8_t byte)
{
    if (byte & 1)
        o->graph = byte & 2 ? GRAPH_FLAT : GRAPH_FOLDED;
    o->hierarchy = byte & 4;
    o->children &= !o->hierarchy;
    o->graph_value = (enum report_value)((byte >> 3) % 3);
    o->graph_key = (enum report_graph_key)((byte >> 4) % 3);
    o->graph_limit = byte >> 5;
    o->nr_widths = byte >> 6;
    for (unsigned i = 0; i < o->nr_widths; i++)
        o->widths[i] = byte >> i & 7;
}

static void check_rows(const struct stacks *s, const struct report_options *o)
{
    struct report *r;
    uint64_t whole = 0;
    uint64_t rows = 0;
    if (report_create(s, o, &r, NULL) < 0)
        return;
    for (size_t i = 1; i < r->nr_source; i++)
        whole += r->nodes[i].self;
    vec_foreach (row, &r->rows) {
        rows += row->self;
        if (row->children < row->self || row->children > whole || row->open)
            abort();
    }
    if (rows != whole)
        abort();
    report_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, data + size};
    struct report_options o = read_options(&b);
    read_more_options(&o, size ? data[size - 1] : 0);
    struct flamegraph_options f = {
        .width = 400, .least_width = o.graph_percent, .inverted = o.callers_first, .event = -1};
    struct report_event events[2] = {{"e", true}, {"f", true}};
    struct stacks_options kept = {0};
    struct stacks *s = stacks_create(&kept);
    struct text out = {0};
    struct error err;
    if (!s)
        return 0;
    add_stacks(s, &b);
    check_rows(s, &o);
    if (report_print(s, &o, events, 2, 0, &out, &err) < 0)
        abort();
    (void)flamegraph_print(s, NULL, &f, &out, &err);
    (void)flamegraph_print(s, s, &f, &out, &err);
    text_free(&out);
    stacks_free(s);
    return 0;
}
