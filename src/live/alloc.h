/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocations of memory of recorded processes, as samples with the stacks that allocated
 * (perfdata/alloc.h). Probes at the functions that allocate (alloc_functions.h) run eBPF programs
 * (alloc.bpf.h), and the kernel writes the samples, through a bpf-output event, into the rings of
 * the recording.
 *
 *     alloc_open       when the recording's events are open
 *     alloc_attach     for each process, as soon as the reader has found its functions
 *     alloc_fork, alloc_exit
 *     alloc_rewrite    for each sample, before it is written
 *     alloc_follow     now and then
 *
 * A probe costs a trap at each call, sampled or not. How much a trap costs on this machine is
 * measured first, at a function of our own. While the recording runs, the calls are counted: where
 * the traps take more than a share of the time of the processes, the probes of malloc, or those of
 * LuaJIT's allocator, are removed, and that is said. From then on these are probed for a moment now
 * and then (alloc_burst.h). LuaJIT's allocator is probed all the time again when such moments have
 * few calls.
 */
#ifndef LIVE_ALLOC_H
#define LIVE_ALLOC_H

#include "base/error.h"
#include "live/alloc_functions.h"
#include "live/copier.h"
#include "perfdata/trim.h"
#include "record/record.h"

#include <stdbool.h>
#include <stdint.h>

struct alloc;

struct alloc_options {
    uint64_t mean; /* bytes between two samples; 0: nothing is recorded */
    bool force;    /* keep the probes, whatever they cost */
};

/* Load the programs, but probe nothing yet. Samples have stacks as those of the plan's first event.
 * The copier must have been created for it, and must outlive it. Errors: as bpf_load(). */
int alloc_open(struct copier *copier, const struct capture_plan *plan,
               const struct alloc_options *options, struct alloc **ret, struct error *err);
void alloc_free(struct alloc *a);

/* Whether the probes are events, for which the kernel wants more privileges. */
bool alloc_opens_events(const struct alloc *a);

/* Append the events to be written into the recording; their pointers are valid as long as `a`. */
int alloc_events(const struct alloc *a, perfdata_event_vec *ret, struct error *err);

/* Probe the functions of a process that are not probed yet. A process that was not recorded from
 * the plan on, or forked by such a one, is passed over: the reader is not trusted. Errors are of
 * the kernel; what could be probed stays. */
int alloc_attach(struct alloc *a, const struct alloc_functions *functions, size_t size,
                 struct error *err);
/* Returns what is not followed of this process, as a line for the user; NULL: nothing, or he was
 * told. Valid until the next call. */
const char *alloc_limit(struct alloc *a, const struct alloc_functions *functions);
/* A recorded process has created another one, which has the same functions. */
int alloc_fork(struct alloc *a, pid_t parent, pid_t child, struct error *err);
void alloc_exit(struct alloc *a, pid_t pid);

/* Begin (`on`), or end. */
void alloc_enable(struct alloc *a, bool on);

/* Give a sample its form: alloc_form_sample(). */
int alloc_rewrite(struct alloc *a, const struct perfdata_event *event,
                  const struct perf_event_header *record, struct sample *s, struct trimmed *t);

/* Compare what the probes cost with what the processes take, and remove the probes if it is too
 * much. Returns a line for the user; NULL: nothing has changed. Valid until the next call. */
const char *alloc_follow(struct alloc *a);

/* Probe for a moment what is not probed all the time, if it is time for that. To be called now and
 * then. */
int alloc_bursts(struct alloc *a, struct error *err);

/* Write what says from when on which frees are not seen, if probes have been removed since the last
 * call. `now`: of the recording's clock. */
typedef int (*alloc_take)(void *context, const struct perf_event_header *record, struct error *err);
int alloc_write_ends(struct alloc *a, uint64_t now, alloc_take take, void *context,
                     struct error *err);

/* Write the frees that found no room in the rings. To be called at the end. `now`: of the
 * recording's clock. */
int alloc_write_rest(struct alloc *a, uint64_t now, alloc_take take, void *context,
                     struct error *err);

/* Returns what was done, as a line for the user, and sets whether it needs to be known. Valid until
 * the next call. */
const char *alloc_summary(struct alloc *a, bool *ret_matters);

#endif
