/* SPDX-License-Identifier: GPL-2.0-only */
/* Handwritten stacks. */
#include "stacks_fixture.h"
#include "stacks/stacks_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct stacks *stacks_make(void)
{
    struct stacks_options options = {
        .by_tid = true, .by_tier = true, .by_trace = true, .by_line = true, .by_state = true};
    struct stacks *s = stacks_create(&options);
    assert_non_null(s);
    return s;
}

void stacks_add(struct stacks *s, const char *stack, uint64_t samples, uint64_t period)
{
    char *copy = strdup(stack);
    char *rest = copy;
    struct stack_group g = {.comm = strsep(&rest, ";"), .pid = 10, .tid = 11};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    for (char *name; (name = strsep(&rest, ";"));) {
        bool kernel = strncmp(name, "k_", 2) == 0;
        struct function f = {.symbol = name,
                             .module = kernel ? "[kernel.kallsyms]" : "/bin/prog",
                             .kind = kernel ? FRAME_KERNEL : FRAME_NATIVE,
                             .inlined = strncmp(name, "i_", 2) == 0};
        if (*name == '?') {
            f.symbol = NULL;
            f.address = strtoul(name + 1, NULL, 16);
        }
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    }
    s->tree.nodes.at[node].samples += samples;
    s->tree.nodes.at[node].period += period;
    free(copy);
}

void stacks_add_managed(struct stacks *s, const char *stack, uint64_t block, uint64_t period)
{
    char *copy = strdup(stack);
    char *rest = copy;
    struct stack_group g = {.comm = "p", .pid = 10, .tid = 11, .block = block};
    uint32_t node = stack_tree_child(&s->tree, 0, stacks_intern_group(s, &g));
    for (char *name; (name = strsep(&rest, ";"));) {
        struct function f = {.symbol = name, .module = "/bin/prog", .kind = FRAME_NATIVE};
        if (*name == 'L') {
            f = (struct function){.kind = FRAME_LUA, .module = "a.lua", .tier = TIER_INTERP};
            f.trace = (uint16_t)strtoul(name + 1, &name, 10);
            f.symbol = name + 1;
            f.inlined = f.trace;
            f.tier = f.trace ? TIER_TRACE : TIER_INTERP;
        }
        node = stack_tree_child(&s->tree, node, stacks_intern_function(s, &f));
    }
    s->tree.nodes.at[node].samples++;
    s->tree.nodes.at[node].period += period;
    free(copy);
}
