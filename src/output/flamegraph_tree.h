/* SPDX-License-Identifier: GPL-2.0-only */
/* The boxes of a flame graph before they are drawn. Stacks are merged if they look the same to
 * users. */
#ifndef OUTPUT_FLAMEGRAPH_TREE_H
#define OUTPUT_FLAMEGRAPH_TREE_H

#include "base/intern.h"
#include "base/vec.h"
#include "output/flamegraph.h"
#include "stacks/tree.h"

struct flame {
    uint32_t parent, first_child, next;
    uint32_t tiers;       /* index in flame_tree.tiers; 0: not a managed function */
    uint64_t start;       /* left edge, in units of weight */
    uint64_t weight;      /* of itself and everything below */
    uint64_t base_weight; /* the same weight in the base of a comparison */
    uint64_t doubtful;    /* part of the weight in stacks with a frame that is not exact */
    const char *name;
    const struct function *function; /* NULL: the root or a command */
    uint8_t provenance;
};

struct flame_tree {
    VEC(struct flame) flames; /* 0: the root; parents come before their children */
    VEC(struct flame_weights { uint64_t of[NR_TIERS]; }) tiers;
    struct stack_tree index; /* finds children by key */
    struct intern *strings;
    uint64_t samples, base_samples; /* total numbers */
};

/* Merge the stacks of `s`, and those of `base` if it is not NULL. */
int flame_tree_init(struct flame_tree *t, const struct stacks *s, const struct stacks *base,
                    const struct flamegraph_options *options, struct error *err);
void flame_tree_free(struct flame_tree *t);

/* Link the flames with at least this weight as children, in the order of their names. Returns -1 if
 * memory is out. */
int flame_tree_link(struct flame_tree *t, double least_weight);

#endif
