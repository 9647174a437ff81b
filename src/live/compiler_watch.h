/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks at the JIT compilers of a process's LuaJITs while it runs, and writes what they have done
 * into the recording (unwind/luajit/compiler.h). The looks are seldom: together they take at most a
 * hundredth of the time.
 */
#ifndef LIVE_COMPILER_WATCH_H
#define LIVE_COMPILER_WATCH_H

#include "base/error.h"
#include "live/object_log.h"
#include "unwind/luajit/layout.h"

struct compiler_watch;

/* Returns NULL when memory is out. */
struct compiler_watch *compiler_watch_create(void);
void compiler_watch_free(struct compiler_watch *w);

/* Note that a function of this VM is on the stack of a sample. Does nothing when memory is out, or
 * if too many VMs are known. */
void compiler_watch_note(struct compiler_watch *w, const struct luajit_vm *vm, uint64_t proto);

/* Note that this VM is there. */
void compiler_watch_list(struct compiler_watch *w, const struct luajit_vm *vm);

/* Look at the last recording of each VM that was noted since the last call; and, if it is time to,
 * at everything of the VMs that were noted or listed. `log`: what is read, and where it is written.
 * Returns -1 when memory is out. */
int compiler_watch_look(struct compiler_watch *w, struct object_log *log, struct error *err);

/* The recording ends: look at everything once more, for up to half a second. */
int compiler_watch_finish(struct compiler_watch *w, struct object_log *log, struct error *err);

/* Another file begins: everything must be written again. */
void compiler_watch_rewrite(struct compiler_watch *w);

#endif
