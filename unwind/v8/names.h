/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names and positions of JavaScript functions. A function is known by its script and the place in
 * it where its parameters begin, as V8's own perf maps write it; its name is the one it was
 * written with, else the one V8 inferred from where it was stored.
 *
 * A table belongs to one thread. It remembers functions and scripts by address, and by what they
 * refer to: an address that was reused for another object is another entry.
 */
#ifndef UNWIND_V8_NAMES_H
#define UNWIND_V8_NAMES_H

#include "unwind/managed.h"
#include "unwind/v8/object.h"
#include "unwind/v8/wasm.h"

struct v8_names;
/* NULL when memory is out. `managed` takes the functions; any number of tables may share it. */
struct v8_names *v8_names_create(struct managed_names *managed);
void v8_names_free(struct v8_names *n);
/* From now on sources are read, and nothing is made of them: their functions have ids, and no
 * lines. For whoever records what is read. */
void v8_names_only_read(struct v8_names *n);
/* Everything is read again when it is asked for: collections move objects. */
void v8_names_forget(struct v8_names *n);
/* The same, but for the lines of scripts that are still the same: their sources are long. */
void v8_names_again(struct v8_names *n);

struct v8_named {
    uint32_t function; /* managed.h; 0: could not be told */
    uint32_t line;     /* of `offset`; 0: unknown */
    uint16_t column;
    bool bare; /* it has neither a name nor a line: nothing of it can be seen to be right */
};

/* `space`: the process, `batch` as in managed_propose_name(); `offset`: in the source, -1: unknown.
 * The reader's provenance is left alone: names, scripts and sources do not change. -1: memory is
 * out.
 */
int v8_names_function(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                      const struct v8_sfi *sfi, int32_t offset, struct v8_named *ret);

/* The same for a function of WebAssembly: it has a number, perhaps a name, no line. */
int v8_names_wasm(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                  const struct v8_wasm *w, struct v8_named *ret);

#endif
