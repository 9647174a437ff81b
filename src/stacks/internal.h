/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef STACKS_INTERNAL_H
#define STACKS_INTERNAL_H

#include "base/intern.h"
#include "stacks/stacks.h"

#include <pthread.h>

/* A tree with a hash over (parent, function). Node 0 is the root. */
struct stack_tree {
    VEC(struct stack_node) nodes;
    uint32_t *slots; /* node index; 0: free */
    size_t nr_slots;
};

int stack_tree_init(struct stack_tree *t);
void stack_tree_deinit(struct stack_tree *t);
/* The child of `parent` for `function`, made if new; 0 when memory is out. */
uint32_t stack_tree_child(struct stack_tree *t, uint32_t parent, uint32_t function);
/* Add all of `from` to `to`. */
int stack_tree_merge(struct stack_tree *to, const struct stack_tree *from, struct error *err);

struct stacks {
    struct stacks_options options;
    pthread_mutex_t lock; /* functions and groups while collecting, tree while merging */
    struct intern *strings;
    VEC(struct function) functions;
    VEC(struct stack_group) groups;
    uint32_t *function_slots; /* index + 1 */
    size_t nr_function_slots;
    struct stack_tree tree;
    const struct guests *guests; /* of the replay; NULL: nothing was collected */
    struct error error;          /* of a merge */
};

/* By pointers, not by what the strings say. */
bool function_equal(const struct function *a, const struct function *b);
uint64_t function_hash(const struct function *f);

/* Any thread; UINT32_MAX when memory is out. */
uint32_t stacks_intern_function(struct stacks *s, const struct function *f);
uint32_t stacks_intern_group(struct stacks *s, const struct stack_group *g);

#endif
