/* SPDX-License-Identifier: GPL-2.0-only */
/* Trees of stacks: a child is found by its parent and its function. */
#ifndef STACKS_TREE_H
#define STACKS_TREE_H

#include "base/hash.h"
#include "base/vec.h"
#include "stacks/stacks.h"

/* A tree with a hash over (parent, function). Node 0 is the root. */
struct stack_tree {
    VEC(struct stack_node) nodes;
    uint64_t *slots; /* node index, and the upper half of its hash in the upper half; 0: free */
    size_t nr_slots;
};

int stack_tree_init(struct stack_tree *t);
void stack_tree_deinit(struct stack_tree *t);
/* Returns the child of `parent` for `function`, which is made if it is new; 0 when out of
 * memory. */
uint32_t stack_tree_child(struct stack_tree *t, uint32_t parent, uint32_t function);
static inline uint64_t stack_tree_hash(uint32_t parent, uint32_t function)
{
    return hash_u64((uint64_t)parent << 32 | function);
}

/* The same; fastest if the child is at the slot of its hash, as most are. */
static inline uint32_t stack_tree_step(struct stack_tree *t, uint32_t parent, uint32_t function)
{
    uint64_t hash = stack_tree_hash(parent, function);
    uint64_t slot = t->slots[hash & (t->nr_slots - 1)];
    if (slot && !((slot ^ hash) >> 32)) {
        const struct stack_node *n = &t->nodes.at[(uint32_t)slot];
        if (n->parent == parent && n->function == function)
            return (uint32_t)slot;
    }
    return stack_tree_child(t, parent, function);
}

#endif
