/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares random recordings, with random gates. The comparison must end, probabilities must be
 * probabilities, shares must add up, and a row without a verdict must say so. The same text is also
 * parsed as a gate, and must be accepted or refused.
 */
#include "output/diff.h"
#include "stacks/stacks_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    const uint8_t *at, *end;
};

static uint8_t next(struct bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

/* Reads a length and that many bytes, and parses them as a gate. */
static void read_gate(struct bytes *b, struct diff_options *o, char *text, size_t room)
{
    struct diff_gate gate;
    size_t size = next(b) % room;
    size = size < (size_t)(b->end - b->at) ? size : (size_t)(b->end - b->at);
    memcpy(text, b->at, size);
    text[size] = 0;
    b->at += size;
    if (diff_gate_parse(text, &gate, NULL) < 0)
        return;
    if (!(gate.limit >= 0) || gate.metric >= DIFF_METRICS || !vec_push(&o->gates, gate))
        abort();
}

/* Reads stacks: for each its block, its functions up to a zero, its samples, and how many of these
 * are guesses. */
static void read_stacks(struct bytes *b, struct stacks *s)
{
    static const char *const symbols[] = {
        "f", "g(int)", "h", NULL, "[lua: not recorded]", "x x.lua:3", "x x.lua:9", ""};
    for (unsigned nr = next(b); nr; nr--) {
        struct stack_group g = {.comm = "p", .block = next(b) % STACKS_BLOCKS};
        uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
        for (uint8_t byte; (byte = next(b));) {
            bool lua = (byte & 7) >= 4 && (byte & 7) <= 6;
            struct function f = {.symbol = symbols[byte & 7],
                                 .module = lua        ? "x.lua"
                                           : byte & 8 ? "[kernel.kallsyms]"
                                                      : "/p",
                                 .kind = lua ? FRAME_LUA : FRAME_NATIVE};
            node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
            s->tree.nodes.at[node].provenance = byte >> 6 == 3 ? 2 : byte >> 7;
        }
        struct stack_node *n = &s->tree.nodes.at[node];
        uint8_t samples = next(b);
        n->samples += samples;
        n->guessed += samples ? next(b) % (samples + 1) : 0;
        n->period += samples * (uint64_t)(1 + (samples & 3));
    }
}

static bool read_recording(struct bytes *b, struct diff *d)
{
    uint8_t flags = next(b);
    struct stacks_options options = diff_stacks_options(d->options->level);
    struct stacks *s = stacks_create(&options);
    struct diff_recording r = {.path = "r",
                               .event = "e",
                               .side = flags & 1,
                               .lost = flags & 2 ? next(b) : 0,
                               .complete = 1};
    if (!s)
        return false;
    read_stacks(b, s);
    bool added = diff_add(d, &r, s, NULL) == 0;
    stacks_free(s);
    return added;
}

static void check_rows(const struct diff *d)
{
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++) {
            const struct diff_test *t = &row->test[m];
            if (!(t->p >= 0 && t->p <= 1 && t->adjusted >= 0 && t->adjusted <= 1) ||
                !isfinite(t->margin) || !(fabs(t->change) <= 1 + 1e-9))
                abort();
        }
    vec_foreach (r, &d->recordings)
        if (!(r->unknown >= 0 && r->unknown <= 1 + 1e-9))
            abort();
    struct text t = {0};
    diff_put_text(d, 3, &t);
    diff_put_markdown(d, 0, &t);
    diff_put_junit(d, &t);
    text_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { RECORDINGS = 8, GATES = 3, TEXT = 64 };
    char texts[GATES][TEXT];
    struct bytes b = {data, data + size};
    uint8_t flags = next(&b);
    struct diff_options o = {.level = flags % DIFF_LEVELS,
                             .alpha = flags & 4 ? 0.05 : 0.5,
                             .least_weight = flags & 8 ? 0 : 0.005,
                             .noise = flags & 16 ? 0 : 0.08,
                             .samples = flags & 32};
    struct diff d;
    if (diff_init(&d, &o, NULL) < 0)
        return 0;
    for (int i = 0; i < GATES; i++)
        read_gate(&b, &o, texts[i], TEXT);
    for (int i = 0; i < RECORDINGS && b.at < b.end && read_recording(&b, &d); i++)
        ;
    if (d.nr[DIFF_BASE] && d.nr[DIFF_NEW] && diff_finish(&d, NULL) == 0)
        check_rows(&d);
    diff_free(&d);
    vec_foreach (gate, &o.gates)
        diff_gate_free(gate);
    vec_free(&o.gates);
    return 0;
}
