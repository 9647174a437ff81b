/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On which line a trace's code was recorded, where the trace's snapshot tells another line. A
 * snapshot of a comparison, or of a loop's step, tells where the program goes on when the guard
 * fails: the branch that was not recorded. Private to unwind/luajit.
 *
 * Facts (lj_record.c: rec_comp_prep, rec_comp_fixup, rec_for; the same from 2.0.5 to August 2026):
 * such a snapshot is taken right before the guard. The next snapshot is taken when the instruction
 * on the recorded branch is about to be recorded, or it is merged with a later snapshot when no
 * guard stands between.
 */
#ifndef UNWIND_LUAJIT_BRANCH_H
#define UNWIND_LUAJIT_BRANCH_H

#include "unwind/luajit/trace.h"

/* Find the line of the code that snapshot `number` covers. The snapshot's innermost frame is of
 * `f`, with its next instruction at `pc` (as luajit_snapshot_frames() returns it). Returns the `pc`
 * to take the line from; 0: the recorded line is not certain. */
uint64_t luajit_recorded_pc(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            const struct luajit_function *f, uint64_t pc);

#endif
