/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Variables of JavaScript frames: the receiver and the arguments that the caller has passed. They
 * are on the native stack, behind the return address. Local variables are in the interpreter's
 * registers, and nothing in the process has their names.
 */
#ifndef UNWIND_V8_VARIABLES_H
#define UNWIND_V8_VARIABLES_H

#include "unwind/v8/names.h"
#include "unwind/v8/object.h"
#include "unwind/variable.h"

/* How a frame's code keeps its arguments. */
enum v8_arguments {
    V8_ARGUMENTS_HELD,    /* the interpreter and baseline code: the slots are the variables */
    V8_ARGUMENTS_PASSED,  /* optimized code: the slots have what was passed, as far as is known */
    V8_ARGUMENTS_INLINED, /* the function has no frame of its own */
    V8_ARGUMENTS_UNMADE,  /* its frame does not stand (yet) */
};

/* Returns the place for variable_places_note(). `fp`: rbp of the frame; `sfi`: the function. */
struct variable_place v8_variables_place(const struct v8_layout *l, uint64_t fp, uint64_t sfi,
                                         enum v8_arguments how);
/* struct runtime's `variables`. `names`: for functions that are values; `space` and `batch` as in
 * v8_names_function(). */
int v8_variables(struct v8_names *names, uint64_t space, uint64_t batch, const struct memory *m,
                 const struct variable_place *place, struct variables *ret);

#endif
