/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What LuaJIT's and V8's compilers made of a program (`ljperf traces`): for each function how much
 * of its time was compiled, or ran in which tier, and why the rest was not; LuaJIT's traces; what
 * V8 deoptimized. Times come from the samples, reasons from what the recorder read of the compilers
 * (unwind/luajit/compiler.h, unwind/v8/compiler.h).
 */
#ifndef OUTPUT_TRACES_H
#define OUTPUT_TRACES_H

#include "base/text.h"
#include "output/json.h"
#include "replay/replay.h"

struct traces_options {
    double least; /* functions and traces with a smaller share are left out, percent */
    bool samples; /* count samples, not periods */
};

struct traces;
int traces_create(struct replay *r, const struct traces_options *options, struct traces **ret,
                  struct error *err);
void traces_free(struct traces *t);
struct replay_sink traces_sink(struct traces *t);
/* Put what was collected together. To be called after the run, before printing. */
int traces_finish(struct traces *t, struct error *err);
/* Returns whether no sample ran LuaJIT, or JavaScript in V8: there is nothing to print. */
bool traces_is_empty(const struct traces *t);
/* Create it without samples, after another run of `r`: for traces_put_reasons() and
 * traces_put_vms(). */
int traces_read(struct replay *r, struct traces **ret, struct error *err);
/* Append what is known of the Lua or JavaScript function with this symbol: lines that begin with
 * `margin`. */
void traces_put_reasons(const struct traces *t, const char *symbol, const char *margin,
                        struct text *out);

/* Returns how many samples of other events than *event were left out. */
uint64_t traces_others(const struct traces *t, unsigned *event);

/* Append a few lines on each LuaJIT's compiler, each with the margin; nothing if nothing is known.
 */
void traces_put_vms(const struct traces *t, const char *margin, struct text *out);
/* Append a line, with the margin, on what V8's compilers did, or that the recording does not tell.
 */
void traces_put_v8(const struct traces *t, const char *margin, struct text *out);
/* Write the array of LuaJIT's traces, as traces_put_json() has it. */
void traces_put_json_traces(const struct traces *t, struct json *j);

void traces_put_text(const struct traces *t, struct text *out);
void traces_put_json(const struct traces *t, struct json *j);

#endif
