/* SPDX-License-Identifier: GPL-2.0-only */
/* Trees of stacks: children are found by their parent and what stands there. */
#ifndef STACKS_TREE_H
#define STACKS_TREE_H

#include "base/hash.h"
#include "base/vec.h"
#include "stacks/stacks.h"

/* A tree with a hash over (parent, function). Node 0 is the root. */
struct stack_tree {
    VEC(struct stack_node) nodes;
    uint64_t *slots; /* node index, and in the upper half that of its hash; 0: free */
    size_t nr_slots;
};

int stack_tree_init(struct stack_tree *t);
void stack_tree_deinit(struct stack_tree *t);
/* The child of `parent` for `function`, made if new; 0 when memory is out. */
uint32_t stack_tree_child(struct stack_tree *t, uint32_t parent, uint32_t function);
static inline uint64_t stack_tree_hash(uint32_t parent, uint32_t function)
{
    return hash_u64((uint64_t)parent << 32 | function);
}

/* The same; at its best where the child stands at its hash's own place, as most do. */
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
