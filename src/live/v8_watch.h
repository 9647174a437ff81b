/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder's view of running processes with a V8. Each sample is walked as offline, over the
 * process's memory right after the sample. What the walk and the naming read is logged
 * (object_log.h): functions, their scopes, scripts with their sources, tables of bytecode and code.
 */
#ifndef LIVE_V8_WATCH_H
#define LIVE_V8_WATCH_H

#include "live/object_log.h"
#include "dso/dso.h"
#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

struct v8_watches;

/* Age in ns after which a sample is not walked any more. Its stack comes with the sample, and the
 * objects that the stack refers to live long. */
extern const uint64_t V8_WATCH_LATE_NS;

/* `dsos` and `unwinder` must outlive the result; `sink` is copied. Returns NULL when memory is
 * out. */
struct v8_watches *v8_watches_create(struct dsos *dsos, struct unwinder *unwinder,
                                     const struct log_sink *sink);
void v8_watches_free(struct v8_watches *all);

/* Walk a sample. Of a process without V8, only the mappings and the mapped files are examined, and
 * seldom. */
int v8_watches_sample(struct v8_watches *all, const struct sample *s, struct error *err);
/* Executable memory without a file was mapped. If the process's next sample finds no V8 yet, or is
 * in unknown code, the mappings are read again. */
void v8_watches_mapped(struct v8_watches *all, uint32_t pid);
/* The process has ended, or executes another program. */
int v8_watches_end(struct v8_watches *all, uint32_t pid, struct error *err);

/* object_log_pass(), object_log_flush(), object_log_rewrite() of all processes. */
int v8_watches_pass(struct v8_watches *all, size_t budget, struct error *err);
int v8_watches_flush(struct v8_watches *all, struct error *err);
void v8_watches_rewrite(struct v8_watches *all);

#endif
