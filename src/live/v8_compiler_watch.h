/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks at what V8's compilers have done in a process while it runs, and writes what is new into
 * the recording (unwind/v8/compiler.h). The looks are seldom: together they take at most a
 * hundredth of the time.
 */
#ifndef LIVE_V8_COMPILER_WATCH_H
#define LIVE_V8_COMPILER_WATCH_H

#include "live/object_log.h"
#include "unwind/v8/compiler.h"

struct v8_compiler_watch;

/* Returns NULL when memory is out. `layout` must outlive it. */
struct v8_compiler_watch *v8_compiler_watch_create(const struct v8_layout *layout);
void v8_compiler_watch_free(struct v8_compiler_watch *w); /* may be NULL */

/* Returns what the walks of the process's samples note in. */
struct v8_compiler *v8_compiler_watch_of(struct v8_compiler_watch *w);

/* If it is time to, read some of what was noted again. Write what is new. `log`: what is read, and
 * where it is written. */
void v8_compiler_watch_look(struct v8_compiler_watch *w, struct object_log *log);

/* Write what is new, without reading: the process has ended. */
void v8_compiler_watch_flush(struct v8_compiler_watch *w, struct object_log *log);

/* The recording ends: read everything once more, for up to 0.1 s. */
void v8_compiler_watch_finish(struct v8_compiler_watch *w, struct object_log *log);

/* Another file begins: everything must be written again. */
void v8_compiler_watch_rewrite(struct v8_compiler_watch *w);

#endif
