/* SPDX-License-Identifier: GPL-2.0-only */
/* The boxes of a flame graph, before they are drawn: stacks merged by what users see of them. */
#ifndef OUTPUT_FLAMEGRAPH_TREE_H
#define OUTPUT_FLAMEGRAPH_TREE_H

#include "base/intern.h"
#include "base/vec.h"
#include "output/flamegraph.h"
#include "stacks/tree.h"

enum { FLAME_TIERS = TIER_TURBOFAN + 1 };

struct flame {
    uint32_t parent, first_child, next;
    uint32_t tiers;       /* index in flame_tree.tiers; 0: no managed frame's */
    uint64_t start;       /* where it begins, in units of weight from the left */
    uint64_t weight;      /* itself and everything below */
    uint64_t base_weight; /* the same in what is compared with */
    uint64_t doubtful;    /* of the weight: in stacks with a frame that is not exact */
    const char *name;
    const struct function *function; /* NULL: the root or a command */
    uint8_t provenance;
};

struct flame_tree {
    VEC(struct flame) flames; /* 0: the root; parents stand before their children */
    VEC(struct flame_weights { uint64_t of[FLAME_TIERS]; }) tiers;
    struct stack_tree index; /* of children by key */
    struct intern *strings;
    uint64_t samples, base_samples; /* in all */
};

/* Merge the stacks, and those of `base` when it is not NULL. */
int flame_tree_init(struct flame_tree *t, const struct stacks *s, const struct stacks *base,
                    const struct flamegraph_options *options, struct error *err);
void flame_tree_free(struct flame_tree *t);

/* Link the flames with at least this weight as children, in the order of their names. -1: memory
 * is out. */
int flame_tree_link(struct flame_tree *t, double least_weight);

#endif
