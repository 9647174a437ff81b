/* SPDX-License-Identifier: GPL-2.0-only */
/* Trees of stacks: a child is found by its parent and its function. */
#ifndef STACKS_TREE_H
#define STACKS_TREE_H

#include "base/hash.h"
#include "base/hash_table.h"
#include "stacks/stacks.h"

/* A tree with a hash over (parent, function). Node 0 is the root. */
struct stack_tree {
    VEC(struct stack_node) nodes;
    struct hash_table children; /* nodes but the root, by parent and function */
};

int stack_tree_init(struct stack_tree *t);
void stack_tree_deinit(struct stack_tree *t);

/* Add a child that the tree does not have. Returns the node; 0 when out of memory. */
uint32_t stack_tree_add(struct stack_tree *t, uint32_t parent, uint32_t function, uint64_t hash);

static inline bool stack_tree_is_child(const struct stack_tree *t, uint32_t node, uint32_t parent,
                                       uint32_t function)
{
    const struct stack_node *n = &t->nodes.at[node];
    return n->parent == parent && n->function == function;
}

/* Returns the child of `parent` for `function`, which is made if it is new; 0 when out of
 * memory. */
static inline uint32_t stack_tree_child(struct stack_tree *t, uint32_t parent, uint32_t function)
{
    uint64_t hash = hash_u64((uint64_t)parent << 32 | function);
    uint32_t node =
        hash_table_find(&t->children, hash, i, stack_tree_is_child(t, i, parent, function));
    return node != HASH_TABLE_NONE ? node : stack_tree_add(t, parent, function, hash);
}

#endif
