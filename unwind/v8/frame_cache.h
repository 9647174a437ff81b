/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cache of frames that earlier walks read. A frame at the same place of the same code, with the
 * same function, reads the same memory. As long as that memory is known to be unchanged, the step
 * produces the same frames.
 */
#ifndef UNWIND_V8_FRAME_CACHE_H
#define UNWIND_V8_FRAME_CACHE_H

#include "unwind/frame.h"
#include "unwind/v8/builtin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct v8_frame_cache;

/* Identifies a frame: words of the stack, registers, and the process. All zero: the frame cannot be
 * identified. */
struct v8_frame_cache_key {
    uint64_t word[4];
};

/* `keep`: an entry holds for so many ns, even if memory changes (a recorder's walk is made only for
 * its readings, and need not repeat them). 0: an entry holds for the time given to note(). For one
 * thread. Returns NULL when memory is out. */
struct v8_frame_cache *v8_frame_cache_create(uint64_t keep);
void v8_frame_cache_free(struct v8_frame_cache *s);
void v8_frame_cache_forget(struct v8_frame_cache *s);

/* Returns the frames of an entry, innermost first, and how many; NULL: there is no entry for
 * `time`. `bytecode`: of each frame's function (tagged; 0: none). Valid until the next call for
 * this table. */
const struct frame *v8_frame_cache_recall(const struct v8_frame_cache *s,
                                          const struct v8_frame_cache_key *key, uint64_t time,
                                          size_t *nr, const uint64_t **bytecode);
/* Adds an entry: the step produces these frames, and the memory it read is the same from `from` to
 * `to`. `bytecode`: of the first V8_SEEN_FRAMES frames. */
enum { V8_SEEN_FRAMES = 4 };
void v8_frame_cache_note(struct v8_frame_cache *s, const struct v8_frame_cache_key *key,
                         uint64_t from, uint64_t to, const struct frame *frames,
                         const uint64_t *bytecode, size_t nr);

/* Returns the cache of analysed code. */
struct v8_code_states *v8_frame_cache_states(const struct v8_frame_cache *s);

#endif
