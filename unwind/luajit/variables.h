/* SPDX-License-Identifier: GPL-2.0-only */
/* Variables of Lua frames: their names by the prototype, their values on the Lua stack. */
#ifndef UNWIND_LUAJIT_VARIABLES_H
#define UNWIND_LUAJIT_VARIABLES_H

#include "unwind/luajit/layout.h"
#include "unwind/memory.h"
#include "unwind/variable.h"

/* Where the variables of a frame are. Fields have the meaning of struct luajit_frame, or: */
struct luajit_variables_at {
    uint64_t L, func, proto;
    uint64_t base;       /* of its slots; 0: on no Lua stack */
    uint64_t inner_base; /* of the next frame further in on the same Lua stack; 0: not known */
    int32_t position;
    uint8_t kind;
    /* The trace that executes the frame (its GCtrace), the snapshot that tells its frames, and the
     * base of the frame that the trace started in. 0: the interpreter, or a trace whose snapshot is
     * not known. */
    uint64_t trace, trace_base;
    uint32_t snapshot;
    bool is_in_trace;
};

/* Returns the place for variable_places_note(). */
struct variable_place luajit_variables_place(const struct luajit_layout *l,
                                             const struct luajit_variables_at *at);
/* struct runtime's `variables`. */
int luajit_variables(const struct memory *m, const struct variable_place *place,
                     struct variables *ret);

/* Reads values for one frame. */
struct luajit_values {
    const struct memory *m;
    const struct luajit_layout *layout;
    struct variables *out;
    unsigned reads;  /* how many objects may still be read */
    uint64_t counts; /* how many slots of tables may still be counted */
};

/* Begin to read values of a frame into `out`. */
void luajit_values_begin(struct luajit_values *v, const struct memory *m,
                         const struct luajit_layout *l, struct variables *out);
/* Set the value of `of`, which is the last of the list, to that of a slot: `word` is the slot's
 * content. Its fields are added behind it as deep as they are wanted. */
void luajit_value_put(struct luajit_values *v, struct variable *of, uint64_t word);
/* Read the slot at `address` and set the value of `of` to it. */
void luajit_value_read(struct luajit_values *v, struct variable *of, uint64_t address);

#endif
