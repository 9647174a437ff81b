/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Offsets of fields in the objects by which async functions wait, in bytes from the object's start.
 * They are the same in all versions that have the types (V8 8.4 to 14.6), and were read from memory
 * of these. Constants only: the eBPF copier includes this, too.
 */
#ifndef UNWIND_V8_ASYNC_LAYOUT_H
#define UNWIND_V8_ASYNC_LAYOUT_H

enum {
    V8_CONTEXT_FIRST = 32,  /* the first variable; of an await's context the generator, of a
                               promise's resolve function the promise */
    V8_CONTEXT_SECOND = 40, /* of Promise.all()'s the capability of its promise */
    V8_GENERATOR_FUNCTION = 24,
    V8_GENERATOR_OFFSET = 48,       /* where it is suspended: offset in the BytecodeArray - 1 */
    V8_GENERATOR_CONTINUATION = 64, /* below 0: it runs, or has ended */
    V8_GENERATOR_PROMISE = 80,      /* of an async generator: its first request */
    V8_REQUEST_PROMISE = 32,
    V8_PROMISE_REACTIONS = 24, /* or its result, once it is settled */
    V8_PROMISE_FLAGS = 32,
    V8_PROMISE_STATUS = 3, /* of the flags; 0: it is not settled */
    V8_CAPABILITY_PROMISE = 8,
    /* From the layout's `reaction_next` on, of reactions and of their jobs: */
    V8_REACTION_FULFILL = 16,
    V8_REACTION_PROMISE = 24,
    V8_JOB_PROMISE = 8, /* of the job that calls a thenable's then() */
};

#endif
