/* SPDX-License-Identifier: GPL-2.0-only */
/* Chains of awaiting functions. See async.h. */
#include "unwind/v8/async.h"

#include "unwind/v8/async_layout.h"

enum { PROMISES_MAX = 64 }; /* between two functions */

/* Reads a slot that holds an object of one type. */
static enum v8_await typed_slot(struct v8_reader *r, uint64_t object, int32_t offset, int32_t type,
                                uint64_t *ret)
{
    if (type == V8_UNKNOWN)
        return V8_AWAIT_END;
    if (!v8_slot(r, object, offset, ret))
        return V8_AWAIT_UNREAD;
    if (!v8_is_pointer(*ret))
        return V8_AWAIT_END;
    const int32_t is = v8_type(r, *ret);
    return is < 0 ? V8_AWAIT_UNREAD : is == type ? V8_AWAIT_FOUND : V8_AWAIT_END;
}

/* Finds the promise that a call of an async function, or the first request of an async generator,
 * has given to its caller. */
static enum v8_await promise_of(struct v8_reader *r, uint64_t generator, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t request;
    if (v8_is(r, generator, l->type_async_function))
        return typed_slot(r, generator, V8_GENERATOR_PROMISE, l->type_promise, ret);
    enum v8_await got =
        typed_slot(r, generator, V8_GENERATOR_PROMISE, l->type_async_request, &request);
    return got != V8_AWAIT_FOUND ? got
                                 : typed_slot(r, request, V8_REQUEST_PROMISE, l->type_promise, ret);
}

/* Reads the generator in the context of a builtin. */
static enum v8_await generator_in(struct v8_reader *r, uint64_t context, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    enum v8_await got = typed_slot(r, context, V8_CONTEXT_FIRST, l->type_async_function, ret);
    return got != V8_AWAIT_END
               ? got
               : typed_slot(r, context, V8_CONTEXT_FIRST, l->type_async_generator, ret);
}

enum v8_await v8_await_resumed(struct v8_reader *r, uint64_t context, uint64_t *promise)
{
    uint64_t generator;
    r->moving = true;
    enum v8_await got = generator_in(r, context, &generator);
    got = got != V8_AWAIT_FOUND ? got : promise_of(r, generator, promise);
    r->moving = false;
    return got;
}

/* The promise of a word that is a promise, or a capability of one. */
static enum v8_await settled_by(struct v8_reader *r, uint64_t word, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    if (l->type_promise == V8_UNKNOWN || !v8_is_pointer(word))
        return V8_AWAIT_END;
    const int32_t type = v8_type(r, word);
    if (type < 0)
        return V8_AWAIT_UNREAD;
    if (type == l->type_capability)
        return typed_slot(r, word, V8_CAPABILITY_PROMISE, l->type_promise, ret);
    *ret = word;
    return type == l->type_promise ? V8_AWAIT_FOUND : V8_AWAIT_END;
}

/* Reads the only reaction to a promise that is not settled. `open`: at the sample it was not. */
static enum v8_await only_reaction(struct v8_reader *r, uint64_t promise, bool open, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t next, flags;
    if (!v8_slot(r, promise, V8_PROMISE_FLAGS, &flags) || !v8_is_smi(flags))
        return V8_AWAIT_UNREAD;
    if (v8_smi(flags) & V8_PROMISE_STATUS)
        return open ? V8_AWAIT_UNREAD : V8_AWAIT_END;
    enum v8_await got = typed_slot(r, promise, V8_PROMISE_REACTIONS, l->type_reaction, ret);
    if (got != V8_AWAIT_FOUND)
        return got;
    if (!v8_slot(r, *ret, l->reaction_next, &next))
        return V8_AWAIT_UNREAD;
    return v8_is_smi(next) ? V8_AWAIT_FOUND : V8_AWAIT_END;
}

/* Is it a builtin's? Its SharedFunctionInfo has a number in place of code. */
static enum v8_await is_builtin(struct v8_reader *r, uint64_t sfi)
{
    const struct v8_layout *l = r->layout;
    uint64_t data, untrusted = 0;
    r->moving = false;
    const bool read =
        v8_slot(r, sfi, l->sfi_data, &data) &&
        (l->sfi_untrusted == V8_UNKNOWN || v8_slot(r, sfi, l->sfi_untrusted, &untrusted));
    r->moving = true;
    if (!read)
        return V8_AWAIT_UNREAD;
    return v8_is_smi(data) && v8_is_smi(untrusted) ? V8_AWAIT_FOUND : V8_AWAIT_END;
}

/* Reads the context of a function, if that is a builtin. */
static enum v8_await builtin_context(struct v8_reader *r, uint64_t function, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    if (!v8_is_pointer(function))
        return V8_AWAIT_END;
    const int32_t type = v8_type(r, function);
    if (type >= 0 && (type < l->type_function || type > l->type_function_last))
        return V8_AWAIT_END;
    const uint64_t sfi = v8_function_sfi(r, function);
    enum v8_await got = sfi ? is_builtin(r, sfi) : V8_AWAIT_UNREAD;
    if (got != V8_AWAIT_FOUND)
        return got;
    return v8_slot(r, function, l->fn_context, ret) ? V8_AWAIT_FOUND : V8_AWAIT_UNREAD;
}

/* The same of a reaction's handler. */
static enum v8_await handler_context(struct v8_reader *r, uint64_t reaction, uint64_t *ret)
{
    uint64_t handler;
    return v8_slot(r, reaction, r->layout->reaction_next + V8_REACTION_FULFILL, &handler)
               ? builtin_context(r, handler, ret)
               : V8_AWAIT_UNREAD;
}

static enum v8_await called_back(struct v8_reader *r, uint64_t word, uint64_t *promise)
{
    uint64_t context;
    enum v8_await got = settled_by(r, word, promise);
    if (got != V8_AWAIT_END)
        return got;
    got = builtin_context(r, word, &context);
    if (got != V8_AWAIT_FOUND)
        return got;
    /* The function that rejects the promise: later its context has lost the promise. */
    got = typed_slot(r, context, V8_CONTEXT_FIRST, r->layout->type_promise, promise);
    return got == V8_AWAIT_FOUND ? got : V8_AWAIT_UNREAD;
}

enum v8_await v8_await_reaction(struct v8_reader *r, uint64_t word, uint64_t *promise)
{
    r->moving = true;
    enum v8_await got = called_back(r, word, promise);
    r->moving = false;
    return got;
}

/* Reads the function of a suspended generator, and where it is. */
static enum v8_await awaiter_of(struct v8_reader *r, uint64_t generator, struct v8_awaiter *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t function, at, continuation;
    if (!v8_slot(r, generator, V8_GENERATOR_FUNCTION, &function) ||
        !v8_slot(r, generator, V8_GENERATOR_OFFSET, &at) ||
        !v8_slot(r, generator, V8_GENERATOR_CONTINUATION, &continuation))
        return V8_AWAIT_UNREAD;
    if (!v8_is_smi(continuation) || v8_smi(continuation) < 0)
        return V8_AWAIT_UNREAD; /* it has been resumed since */
    const uint64_t sfi = v8_function_sfi(r, function);
    r->moving = false;
    const bool read = v8_sfi_read(r, sfi, &ret->sfi);
    r->moving = true;
    if (!read)
        return V8_AWAIT_UNREAD;
    ret->offset = v8_is_smi(at) ? v8_smi(at) - (l->bytecode_data - 1) : -1;
    return V8_AWAIT_FOUND;
}

/* Follows a reaction that is no await to the promise that it settles. `context`: of the builtin
 * that handles it; 0: a function of the program does. */
static enum v8_await next_promise(struct v8_reader *r, uint64_t reaction, uint64_t context,
                                  uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t word;
    enum v8_await got = V8_AWAIT_END;
    if (context) /* the function that resolves a promise */
        got = typed_slot(r, context, V8_CONTEXT_FIRST, l->type_promise, ret);
    if (got != V8_AWAIT_END)
        return got;
    if (context) /* one of several promises that are awaited as one */
        got = typed_slot(r, context, V8_CONTEXT_SECOND, l->type_capability, &word);
    if (got == V8_AWAIT_FOUND)
        return typed_slot(r, word, V8_CAPABILITY_PROMISE, l->type_promise, ret);
    if (got == V8_AWAIT_UNREAD ||
        !v8_slot(r, reaction, l->reaction_next + V8_REACTION_PROMISE, &word))
        return V8_AWAIT_UNREAD;
    return settled_by(r, word, ret);
}

/* Reads a function that awaits, and the promise of its own. */
static enum v8_await awaiter_at(struct v8_reader *r, uint64_t generator, uint64_t *promise,
                                struct v8_awaiter *ret)
{
    enum v8_await got = awaiter_of(r, generator, ret);
    if (got != V8_AWAIT_FOUND)
        return got;
    const enum v8_await its = promise_of(r, generator, promise);
    ret->cut = its == V8_AWAIT_UNREAD;
    if (its != V8_AWAIT_FOUND)
        *promise = 0;
    return got;
}

/* What cannot be read may lead on: the chain does not end there. */
static enum v8_await awaiter_next(struct v8_reader *r, uint64_t *promise, struct v8_awaiter *ret)
{
    for (unsigned i = 0; i < PROMISES_MAX; i++) {
        uint64_t reaction, context = 0, generator;
        /* A function that runs or awaits has not settled its promise. */
        enum v8_await got = only_reaction(r, *promise, i == 0, &reaction);
        if (got != V8_AWAIT_FOUND)
            return got;
        got = handler_context(r, reaction, &context);
        if (got == V8_AWAIT_FOUND)
            got = generator_in(r, context, &generator);
        if (got == V8_AWAIT_FOUND)
            return awaiter_at(r, generator, promise, ret);
        if (got == V8_AWAIT_END)
            got = next_promise(r, reaction, context, promise);
        if (got != V8_AWAIT_FOUND)
            return got;
    }
    return V8_AWAIT_END;
}

enum v8_await v8_await_next(struct v8_reader *r, uint64_t *promise, struct v8_awaiter *ret)
{
    r->moving = true;
    enum v8_await got = awaiter_next(r, promise, ret);
    r->moving = false;
    return got;
}
