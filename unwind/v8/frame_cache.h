/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames that were read before. A frame at the same place of the same code, with the same function,
 * reads the same memory: as long as that is known to be unchanged, its frames out are the same,
 * too.
 */
#ifndef UNWIND_V8_FRAME_CACHE_H
#define UNWIND_V8_FRAME_CACHE_H

#include "unwind/frame.h"
#include "unwind/v8/builtin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct v8_frame_cache;

/* What tells a frame: words of the stack and registers, and the process. All zero: nothing does. */
struct v8_frame_cache_key {
    uint64_t word[4];
};

/* `keep` ns: a frame holds for so long, whatever becomes of the memory (a recorder's walk is made
 * for what it reads, and need not read it again and again). 0: as long as note() was told.
 * One thread's. NULL when memory is out. */
struct v8_frame_cache *v8_frame_cache_create(uint64_t keep);
void v8_frame_cache_free(struct v8_frame_cache *s);
void v8_frame_cache_forget(struct v8_frame_cache *s);

/* The frames out, innermost first, and how many; NULL: it is not known for `time`. `bytecode`: of
 * each one's function (tagged; 0: none). Until the next call for this table. */
const struct frame *v8_frame_cache_recall(const struct v8_frame_cache *s,
                                          const struct v8_frame_cache_key *key, uint64_t time,
                                          size_t *nr, const uint64_t **bytecode);
/* These frames come out of it; memory is the same from `from` to `to`. `bytecode`: of the first
 * V8_SEEN_FRAMES of them. */
enum { V8_SEEN_FRAMES = 4 };
void v8_frame_cache_note(struct v8_frame_cache *s, const struct v8_frame_cache_key *key,
                         uint64_t from, uint64_t to, const struct frame *frames,
                         const uint64_t *bytecode, size_t nr);

/* The states of code that was followed. */
struct v8_code_states *v8_frame_cache_states(const struct v8_frame_cache *s);

#endif
