/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who awaits the result of the JavaScript that runs. An async function that was resumed after an
 * await has no caller on the stack: the event loop has called it. Its caller of old waits for its
 * promise, and V8's objects lead there:
 *
 *   generator (of the function that runs) -> its promise -> the one reaction to that promise ->
 *   the builtin that it calls -> that builtin's context -> generator of the function that awaits
 *
 * Between the two there may be further promises: of Promise.all() and its like, of then(), and of
 * promises that were resolved by a promise. The rules are those by which V8 itself makes the lines
 * "at async f" of an error's stack: a chain ends at a promise that is settled, that nobody waits
 * for, or that several wait for.
 *
 * Most of these objects are young, and their memory soon has others of the same kind. What was not
 * read in the sample's instant is never exact (struct v8_reader: moving).
 */
#ifndef UNWIND_V8_ASYNC_H
#define UNWIND_V8_ASYNC_H

#include "unwind/v8/object.h"

enum v8_await {
    V8_AWAIT_FOUND,
    V8_AWAIT_END,    /* nobody waits, several do, or what waits is no function */
    V8_AWAIT_UNREAD, /* memory was not recorded, or is of another time */
};

/* A function that awaits. */
struct v8_awaiter {
    struct v8_sfi sfi;
    int32_t offset; /* of the bytecode at which it awaits; -1: unknown */
    bool cut;       /* it has a promise, which could not be read */
};

/* Finds the promise of the async function that a builtin resumes. `context`: the builtin's own,
 * tagged: its frame has it. */
enum v8_await v8_await_resumed(struct v8_reader *r, uint64_t context, uint64_t *promise);

/* Finds the promise that a callback of then() settles, or that the then() of a thenable is to
 * settle. `word`: a word of the frame of the builtin that has called it, tagged: the promise, its
 * capability, or the function that resolves or rejects it. */
enum v8_await v8_await_reaction(struct v8_reader *r, uint64_t word, uint64_t *promise);

/* Finds the function that awaits the promise, and replaces the promise by that function's (0: it
 * has none, or is `cut`). */
enum v8_await v8_await_next(struct v8_reader *r, uint64_t *promise, struct v8_awaiter *ret);

#endif
