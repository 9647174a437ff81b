/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which line a trace's code was recorded of, where its snapshot tells another one: a snapshot of a
 * comparison or of a loop's step says where the program goes on when the guard fails, which is the
 * branch that was not recorded. Private to unwind/luajit.
 *
 * Facts (lj_record.c: rec_comp_prep, rec_comp_fixup, rec_for; the same from 2.0.5 to August 2026):
 * such a snapshot is taken right before the guard, and the next one when the instruction on the
 * recorded branch is about to be recorded, or merged with one behind it when no guard stands
 * between.
 */
#ifndef UNWIND_LUAJIT_BRANCH_H
#define UNWIND_LUAJIT_BRANCH_H

#include "unwind/luajit/trace.h"

/* Code that snapshot `number` covers, whose innermost frame is of `f` with its next instruction at
 * `pc` (as luajit_snapshot_frames() says): the `pc` to take a line from; 0: it cannot be told which
 * line was recorded. */
uint64_t luajit_recorded_pc(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            const struct luajit_function *f, uint64_t pc);

#endif
