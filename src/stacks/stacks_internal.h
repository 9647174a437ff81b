/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef STACKS_STACKS_INTERNAL_H
#define STACKS_STACKS_INTERNAL_H

#include "base/hash_table.h"
#include "base/intern.h"
#include "stacks/stacks.h"
#include "stacks/tree.h"

#include <pthread.h>

struct stacks {
    struct stacks_options options;
    pthread_mutex_t lock;      /* for functions and groups, while collecting */
    pthread_mutex_t tree_lock; /* likewise for the tree; held for a batch's samples at a time */
    struct intern *strings;
    VEC(struct function) functions;
    VEC(struct stack_group) groups;
    struct hash_table function_table, group_table; /* of indexes in these */
    struct stack_tree tree;
    const struct managed_names *managed; /* of the replay; NULL: nothing was collected */
    const struct replay *replay;         /* likewise; until stacks_finish() */
};

/* These go by the pointers of strings, not by the contents. */
bool function_equal(const struct function *a, const struct function *b);
uint64_t function_hash(const struct function *f);

/* Any thread may call these. They return UINT32_MAX when out of memory. */
uint32_t stacks_intern_function(struct stacks *s, const struct function *f);
uint32_t stacks_intern_group(struct stacks *s, const struct stack_group *g);

#endif
