/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time off the cpu: samples of the waits of recorded threads, with the stacks that waited. eBPF
 * programs see each switch of threads (off_cpu.bpf.h); the kernel writes the samples, through a
 * bpf-output event, into the rings of the recording; here they get the form of other samples, with
 * the ns of the wait as period. The event has perf's name for it, `offcpu-time`.
 *
 *     off_cpu_open      when the recording's events are open
 *     off_cpu_enable    when the recording begins, and ends
 *     off_cpu_rewrite   for each sample, before it is written
 *     off_cpu_follow    now and then
 *     off_cpu_list ...  at the end: the threads that still wait are samples, too
 */
#ifndef LIVE_OFF_CPU_H
#define LIVE_OFF_CPU_H

#include "base/error.h"
#include "live/copier.h"
#include "perfdata/trim.h"
#include "record/record.h"

#include <stdbool.h>
#include <stdint.h>

struct off_cpu;

struct off_cpu_options {
    uint64_t
        mean; /* ns, up to UINT32_MAX: waits that are as long or longer are all sampled, shorter
                 ones by chance, with `mean` as weight; 0: time off the cpu is not recorded */
    bool runqueue; /* samples tell for how long the thread waited for a cpu only */
    bool waker;    /* samples tell who woke the thread, and that, too */
};

/* Load the programs and let them see switches, but record nothing yet. Samples have stacks as those
 * of the plan's first event. The copier must have been created for it, and must outlive it. Errors:
 * as bpf_load(). */
int off_cpu_open(struct copier *copier, const struct capture_plan *plan,
                 const struct off_cpu_options *options, struct off_cpu **ret, struct error *err);
void off_cpu_free(struct off_cpu *o);

/* Returns the event to be written into the recording; valid as long as `o`. */
struct perfdata_event off_cpu_event(const struct off_cpu *o);

/* Begin (`on`), or end. */
void off_cpu_enable(struct off_cpu *o, bool on);

/* Threads without rseq report their waits at the end of system calls, which costs the whole machine
 * a little: it is done in the first second, and as soon as there is such a thread. To be called now
 * and then. */
int off_cpu_follow(struct off_cpu *o, struct error *err);

/* Give a sample its form: off_cpu_form_sample(). */
int off_cpu_rewrite(struct off_cpu *o, const struct perfdata_event *event,
                    const struct perf_event_header *record, struct sample *s, struct trimmed *t);

/* ---- who waits at the end -------------------------------------------------------------------- */

/* Call `take` for each recorded thread that waits now. To be called before off_cpu_enable(false).
 * Returns -1 if they cannot be listed, or `take` has. */
typedef int (*off_cpu_take)(void *context, const struct off_cpu_thread *t, struct error *err);
int off_cpu_list(struct off_cpu *o, off_cpu_take take, void *context, struct error *err);
/* Returns for how many ns of the recording it has waited. */
uint64_t off_cpu_waited(const struct off_cpu *o, const struct off_cpu_thread *t);

/* Read the stack of such a thread, from its stack pointer on. Returns how many bytes `to` has now.
 * It may wait for pages of a stranger: to be called by the reader (reader.h). */
size_t off_cpu_read_stack(const struct off_cpu *o, const struct off_cpu_thread *t, void *to,
                          size_t room);
/* Returns the record of such a thread with its stack; valid until the next call. NULL: the thread
 * has gone on meanwhile, so that the stack may be of another moment, or it runs no 64-bit code.
 * `time`: now, of the recording's clock. */
const struct perf_event_header *off_cpu_waiting(struct off_cpu *o, const struct off_cpu_thread *t,
                                                const void *stack, size_t size, uint64_t time);

#endif
