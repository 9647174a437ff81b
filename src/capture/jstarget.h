/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes with a V8 as the recorder looks at them while they run: each sample is walked as
 * offline, over the process's memory right after it, and what the walk and the names read is logged
 * (objects.h): functions, their scopes, scripts with their sources, bytecode's and code's tables.
 */
#ifndef CAPTURE_JSTARGET_H
#define CAPTURE_JSTARGET_H

#include "capture/objects.h"
#include "dso/dso.h"
#include "perfdata/perfdata.h"
#include "unwind/unwind.h"

struct js_targets;

/* ns after which a sample is not looked at any more: its stack comes with it, and what that refers
 * to stays for long. */
extern const uint64_t JS_TARGET_LATE;

/* `dsos` and `unwinder` must stay; `sink` is copied. NULL when memory is out. */
struct js_targets *js_targets_create(struct dsos *dsos, struct unwinder *unwinder,
                                     const struct object_sink *sink);
void js_targets_free(struct js_targets *all);

/* Look at a sample. Of a process without V8 only its mappings and the files they
 * are of are looked into, and seldom. */
int js_targets_sample(struct js_targets *all, const struct sample *s, struct error *err);
/* Executable memory without a file has come: where its next sample has no V8 yet, or stands in code
 * that is not known, the mappings are looked at again. */
void js_targets_mapped(struct js_targets *all, uint32_t pid);
/* The process is gone, or becomes another program. */
int js_targets_end(struct js_targets *all, uint32_t pid, struct error *err);

/* object_process_pass(), object_process_flush(), object_process_retell() of all. */
int js_targets_pass(struct js_targets *all, size_t budget, struct error *err);
int js_targets_flush(struct js_targets *all, struct error *err);
void js_targets_retell(struct js_targets *all);

#endif
