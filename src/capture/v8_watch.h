/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes with a V8 as the recorder looks at them while they run: each sample is walked as
 * offline, over the process's memory right after it, and what the walk and the names read is logged
 * (object_log.h): functions, their scopes, scripts with their sources, bytecode's and code's
 * tables.
 */
#ifndef CAPTURE_V8_WATCH_H
#define CAPTURE_V8_WATCH_H

#include "capture/object_log.h"
#include "dso/dso.h"
#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

struct v8_watches;

/* ns after which a sample is not looked at any more: its stack comes with it, and what that refers
 * to stays for long. */
extern const uint64_t V8_WATCH_LATE_NS;

/* `dsos` and `unwinder` must stay; `sink` is copied. NULL when memory is out. */
struct v8_watches *v8_watches_create(struct dsos *dsos, struct unwinder *unwinder,
                                     const struct log_sink *sink);
void v8_watches_free(struct v8_watches *all);

/* Look at a sample. Of a process without V8 only its mappings and the files they
 * are of are looked into, and seldom. */
int v8_watches_sample(struct v8_watches *all, const struct sample *s, struct error *err);
/* Executable memory without a file has come: where its next sample has no V8 yet, or stands in code
 * that is not known, the mappings are looked at again. */
void v8_watches_mapped(struct v8_watches *all, uint32_t pid);
/* The process is gone, or becomes another program. */
int v8_watches_end(struct v8_watches *all, uint32_t pid, struct error *err);

/* object_log_pass(), object_log_flush(), object_log_rewrite() of all. */
int v8_watches_pass(struct v8_watches *all, size_t budget, struct error *err);
int v8_watches_flush(struct v8_watches *all, struct error *err);
void v8_watches_rewrite(struct v8_watches *all);

#endif
