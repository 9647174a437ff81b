/* SPDX-License-Identifier: GPL-2.0-only */
/* Lists the variables of all frames of a walk over damaged memory, and checks the bounds. */
#ifndef FUZZ_VARIABLES_H
#define FUZZ_VARIABLES_H

#include "unwind/variable.h"

#include <stdlib.h>

/* As struct runtime's `variables`, without the walk. */
typedef int fuzz_list(void *context, const struct memory *m, const struct variable_place *at,
                      struct variables *ret);

static inline void fuzz_check_variables(const struct variables *v)
{
    if (v->at.nr > v->wanted.variables_max || v->bytes.size > v->wanted.bytes_max)
        abort();
    for (size_t i = 0; i < v->at.nr; i++) {
        const struct variable *of = &v->at.at[i];
        if (of->depth > v->wanted.depth || (i && of->depth > v->at.at[i - 1].depth + 1) ||
            !of->type || (size_t)of->name.at + of->name.size > v->bytes.size ||
            (size_t)of->text.at + of->text.size > v->bytes.size)
            abort();
    }
}

/* Walk once more alone. `places` are those of the input's walker. */
static inline void fuzz_variables(struct unwinder *u, const struct unwind_input *input,
                                  struct variable_places *places, fuzz_list *list, void *context)
{
    static struct unwind_stack stack;
    static struct variables variables;
    const struct variables_wanted wanted = {.temporaries = true,
                                            .depth = 3,
                                            .fields_max = 16,
                                            .string_max = 64,
                                            .variables_max = 128,
                                            .bytes_max = 8192};
    stack.frames.nr = 0;
    variable_places_clear(places);
    if (unwind(u, input, &stack, NULL))
        return;
    for (size_t i = 0; i < stack.frames.nr; i++) {
        const struct variable_place *at = variable_places_find(places, i, &stack.frames.at[i]);
        variables_begin(&variables, &wanted);
        if (at && list(context, &input->memory, at, &variables))
            break;
        fuzz_check_variables(&variables);
    }
}

#endif
