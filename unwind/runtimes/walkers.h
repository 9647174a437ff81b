/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The walkers of all runtimes, as one. A process may have several runtimes, and a stack frames of
 * all of them: each piece of code is offered to the runtimes in the order of the table.
 */
#ifndef UNWIND_RUNTIMES_WALKERS_H
#define UNWIND_RUNTIMES_WALKERS_H

#include "unwind/managed.h"
#include "unwind/runtime.h"

/* What all runtimes keep for one of our threads: struct runtime's tables. */
struct runtime_tables;
/* Returns NULL when memory is out. `managed` must outlive the result. */
struct runtime_tables *runtime_tables_create(struct managed_names *managed, bool has_log);
void runtime_tables_free(struct runtime_tables *t); /* may be NULL */
/* Returns the tables of one runtime. */
void *runtime_tables_of(struct runtime_tables *t, const struct runtime *rt);

/* The walks of a sample, one of each runtime. Reused for one sample after another. */
struct runtime_walkers;
struct runtime_walkers *runtime_walkers_create(void); /* NULL when memory is out */
void runtime_walkers_free(struct runtime_walkers *w); /* may be NULL */
/* Begin the walks of a sample. Returns the walker for its unwind_input. `s` is copied; what it
 * refers to, and `t`, must stay until the walk has ended. */
const struct walker *runtime_walkers_begin(struct runtime_walkers *w, struct runtime_tables *t,
                                           const struct runtime_sample *s);
/* Returns what the VM of the innermost managed frame did (struct runtime's `activity`); 0: not
 * known. Of several runtimes on one stack, the first of the table that knows. */
uint8_t runtime_walkers_activity(const struct runtime_walkers *w);
/* List the variables of a frame of the walk that has ended, whose sample had `places`. `index`: of
 * the frame `f` in the walk's result. `ret` was begun. Where nothing is known, `ret->unknown` says
 * why. Returns -1 when memory is out. */
int runtime_walkers_variables(const struct runtime_walkers *w, const struct memory *m, size_t index,
                              const struct frame *f, struct variables *ret);

#endif
