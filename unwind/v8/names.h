/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names and positions of JavaScript functions. A function is identified by its script and the place
 * in the script where its parameters begin, as in V8's own perf maps. Its name is the one in the
 * source, else the one V8 inferred from where the function was stored.
 *
 * A table belongs to one thread. It keeps functions and scripts by address and by the words they
 * refer to: when an address is reused for another object, the table makes another entry.
 */
#ifndef UNWIND_V8_NAMES_H
#define UNWIND_V8_NAMES_H

#include "unwind/managed.h"
#include "unwind/v8/object.h"
#include "unwind/v8/wasm.h"

struct v8_names;
/* Returns NULL when memory is out. `managed` receives the functions; any number of tables may share
 * it. */
struct v8_names *v8_names_create(struct managed_names *managed);
void v8_names_free(struct v8_names *n);
/* From now on read sources, but do not parse them: functions have ids and no lines. For a recorder,
 * which only records what is read. */
void v8_names_only_read(struct v8_names *n);
/* Forget everything; it is read again on demand, because a GC moves objects. */
void v8_names_forget(struct v8_names *n);
/* The same, but keep the lines of scripts that are still the same, because their sources are
 * long. */
void v8_names_again(struct v8_names *n);

struct v8_named {
    uint32_t function; /* managed.h; 0: unknown */
    uint32_t line;     /* of `offset`; 0: unknown */
    uint16_t column;
    bool bare; /* it has neither a name nor a line: nothing shows that it is right */
};

/* Names a function. `space`: the process; `batch`: as in managed_propose_name(); `offset`: in the
 * source, -1: unknown. The reader's provenance does not change, because names, scripts and sources
 * do not change. Returns -1 when memory is out. */
int v8_names_function(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                      const struct v8_sfi *sfi, int32_t offset, struct v8_named *ret);

/* Returns the function that stands for `function` while it awaits: the name says so. 0: memory is
 * out. */
uint32_t v8_names_awaiting(struct v8_names *n, uint32_t function, uint64_t batch);

/* Appends what managed_symbol() says of a function that was named; nothing if it is not known. */
void v8_names_symbol(const struct v8_names *n, uint32_t function, struct text *to);

/* Returns the function of code that V8 has generated for itself; 0: memory is out. */
uint32_t v8_names_own(struct v8_names *n, const char *name);

/* The same for a WebAssembly function: it has a number, and perhaps a name. Its line is the place
 * in the module's bytes (frame.h). */
int v8_names_wasm(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                  const struct v8_wasm *w, struct v8_named *ret);

#endif
