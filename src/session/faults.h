/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For how many faults each sampled one of a recording stands. Private to session/
 * (recorded_memory.h). All zeros: there are none.
 *
 * - A fault of a page that had one before stands for none: the page was copied, or given back and
 * touched again, so resident memory did not grow by it for good.
 * - A sample's period is the number of faults from it to the next sample of the same thread and
 * cpu: perf_swevent_set_period() of the kernel counts off the period that it has just reported. So
 * the faults between two samples are known in number only. Half of them count as the first sample's
 * kind, half as the second's: sums are then right where pages of another size begin, too.
 */
#ifndef SESSION_FAULTS_H
#define SESSION_FAULTS_H

#include "base/table.h"
#include "base/vec.h"
#include "perfdata/resident.h"

#include <stdbool.h>
#include <stdint.h>

struct page_fault {
    uint64_t page, time; /* ns */
    uint32_t pid;
    uint64_t halves; /* of faults; sealed: 0 if the page had a fault before */
};

struct faults {
    VEC(struct page_fault) all; /* sealed: sorted */
    VEC(struct page_fault) execs;
    struct table last; /* thread and cpu -> the period of its last sample, in the pointer's bits */
};

/* Add a sample of a fault, of each cpu in order; an exec, after which a process has other memory.
 * Returns false when memory is out, as the next one does. */
bool faults_take(struct faults *f, const struct sample *s, const struct resident_fault *fault);
bool faults_exec(struct faults *f, uint32_t pid, uint64_t time);
void faults_seal(struct faults *f);
void faults_free(struct faults *f);

/* Get for how many halves of faults a sample stands. Returns false if it is not known. */
bool faults_halves(const struct faults *f, const struct sample *s,
                   const struct resident_fault *fault, uint64_t *ret);

#endif
