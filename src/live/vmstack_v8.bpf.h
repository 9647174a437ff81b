/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The copier's part for V8: who awaits the result of the JavaScript that runs (unwind/v8/async.h).
 * Included by vmstack.bpf.c.
 *
 * V8 keeps the microtask that runs in a root of its isolate, whose address the recorder has learnt
 * from an earlier sample of the thread. From there the chain leads through young objects, which a
 * reader that comes a millisecond later may not find any more. They are copied as memory: what they
 * mean is decided offline. Types are looked at here only to find the way, so an object that is
 * misunderstood costs a few bytes.
 */
#include "unwind/v8/async_layout.h"

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH); /* threads end without a word */
    __uint(max_entries, VMSTACK_V8_THREADS);
    __type(key, uint32_t); /* a thread's id */
    __type(value, struct vmstack_v8);
} v8_threads SEC(".maps");

enum {
    V8_MAP_TYPE = 12,
    /* Bytes of objects that are copied: */
    V8_TYPE = 8,   /* the map, which shows what an object is not */
    V8_SMALL = 56, /* of a promise, a reaction, a job, a context's begin, a request */
    V8_FUNCTION = 64,
    V8_GENERATOR = 96,
};

int v8_type(uint64_t object);
uint64_t v8_promise_of(uint64_t generator, int type);
uint64_t v8_settled_by(uint64_t word);
uint64_t v8_through(uint64_t handler);
uint64_t v8_step(uint64_t promise);
uint64_t v8_begin(uint64_t job);

static __always_inline int v8_is_pointer(uint64_t word)
{
    return (word & 3) == 1;
}

/* Returns the instance type of an object; 0: it is none. (Type 0 is that of a string.) */
__noinline int v8_type(uint64_t object)
{
    uint16_t type = 0;
    uint64_t map = v8_is_pointer(object) ? read_u64(object - 1) : 0;
    if (!v8_is_pointer(map))
        return 0;
    bpf_probe_read_user(&type, sizeof(type), (const void *)(map - 1 + V8_MAP_TYPE));
    return type;
}

static __always_inline void v8_copy(uint64_t object, uint32_t size)
{
    copy(object - 1, size, VMENTRY_BYTES);
}

/* Copy a generator, and return the promise that its function will settle; 0: none. */
__noinline uint64_t v8_promise_of(uint64_t generator, int type)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    v8_copy(generator, V8_GENERATOR);
    v8_copy(read_u64(generator - 1 + V8_GENERATOR_FUNCTION), V8_FUNCTION);
    uint64_t word = read_u64(generator - 1 + V8_GENERATOR_PROMISE);
    if (type == s->v8.async_function || !v8_is_pointer(word))
        return word;
    v8_copy(word, V8_SMALL); /* the first request of an async generator */
    return read_u64(word - 1 + V8_REQUEST_PROMISE);
}

/* Returns the promise of a word that is a promise, or its capability; 0: it is neither. */
__noinline uint64_t v8_settled_by(uint64_t word)
{
    struct scratch *s = scratch_get();
    int type = v8_type(word);
    if (!s || !type)
        return 0;
    if (type == s->v8.promise)
        return word;
    v8_copy(word, type == s->v8.capability ? V8_SMALL : V8_TYPE);
    if (type != s->v8.capability)
        return 0;
    return read_u64(word - 1 + V8_CAPABILITY_PROMISE);
}

/* Go on through the context of a handler. Returns the next promise; 0: the handler leads nowhere.
 */
__noinline uint64_t v8_through(uint64_t handler)
{
    struct scratch *s = scratch_get();
    if (!s || !v8_is_pointer(handler))
        return 0;
    v8_copy(handler, V8_FUNCTION);
    uint64_t context = read_u64(handler - 1 + s->v8.fn_context);
    if (!v8_is_pointer(context))
        return 0;
    v8_copy(context, V8_SMALL);
    uint64_t first = read_u64(context - 1 + V8_CONTEXT_FIRST);
    int type = v8_type(first);
    if (type && (type == s->v8.async_function || type == s->v8.async_generator))
        return v8_promise_of(first, type);
    if (type && type == s->v8.promise)
        return first;
    if (type)
        v8_copy(first, V8_TYPE);
    uint64_t second = read_u64(context - 1 + V8_CONTEXT_SECOND);
    type = v8_type(second);
    if (type == s->v8.capability)
        return v8_settled_by(second);
    if (type)
        v8_copy(second, V8_TYPE);
    return 0;
}

/* Returns the promise behind the handlers of a reaction, or of its job; 0: there is none. */
static __always_inline uint64_t v8_after(uint64_t handlers)
{
    uint64_t next = v8_through(read_u64(handlers + V8_REACTION_FULFILL));
    return next ? next : v8_settled_by(read_u64(handlers + V8_REACTION_PROMISE));
}

/* Copy a promise and the reaction to it. Returns the next promise; 0: there is none. */
__noinline uint64_t v8_step(uint64_t promise)
{
    struct scratch *s = scratch_get();
    if (!s || !v8_is_pointer(promise))
        return 0;
    v8_copy(promise, V8_SMALL);
    uint64_t reaction = read_u64(promise - 1 + V8_PROMISE_REACTIONS);
    if (v8_type(reaction) != s->v8.reaction)
        return 0;
    v8_copy(reaction, V8_SMALL);
    return v8_after(reaction - 1 + s->v8.reaction_next);
}

/* Copy the job of a reaction, which has the same fields. Returns the first promise. */
__noinline uint64_t v8_begin(uint64_t job)
{
    struct scratch *s = scratch_get();
    if (!s)
        return 0;
    uint64_t fields = job - 1 + s->v8.reaction_next;
    if (v8_type(job) == s->v8.thenable_job)
        return read_u64(fields + V8_JOB_PROMISE);
    return v8_after(fields);
}

/* Copy the chain that begins at the job which runs. */
static __always_inline void v8_chain(uint64_t job)
{
    uint64_t promise = v8_begin(job);
    for (int i = 0; i < VMSTACK_V8_STEPS; i++) {
        if (!promise)
            break;
        promise = v8_step(promise);
    }
}

/* Returns the job of a promise that the thread runs; 0: it runs none, or is not known. */
static __always_inline uint64_t v8_job(const struct vmstack_v8 *v8, uint32_t pid)
{
    if (!v8 || v8->pid != pid)
        return 0;
    uint64_t task = read_u64(v8->running);
    int type = v8_type(task);
    return type && (type == v8->fulfill_job || type == v8->reject_job || type == v8->thenable_job)
               ? task
               : 0;
}
