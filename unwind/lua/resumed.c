/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A coroutine that is being resumed, while none of its functions runs: lua_resume is on its way
 * into it or out of it, or the continuation of a C function that had yielded runs in it. No frame
 * of execute is there then, but the coroutine's functions are on the stack, as Lua sees it.
 *
 * Its state is a word of the native frames that are inside the innermost activation. While a state
 * runs, one of its own words (errorJmp) points to a buffer in the frame of the C function that
 * catches its errors, luaD_rawrunprotected: that tells that it runs here, and where its functions
 * belong.
 */
#include "unwind/lua/walk.h"

#include "unwind/arch_x86_64.h"

#include <string.h>

enum { WORDS_MAX = 512 };

static bool is_known(const struct lua_walk *w, uint64_t address)
{
    bool known = false;
    vec_foreach (s, &w->states)
        known |= s->state.address == address;
    return known;
}

/* The states that came with the sample. */
struct came {
    const uint64_t *at;
    uint32_t nr; /* UINT32_MAX: not known */
};

/* Does an activation run each of them? Most samples need no search then. */
static bool are_all_known(const struct lua_walk *w, const struct came *c)
{
    bool known = c->nr != UINT32_MAX;
    for (uint32_t i = 0; i < c->nr && known; i++)
        known = is_known(w, c->at[i]);
    return known;
}

/* Is the state's memory known for this moment? Reading any word as an address would cost too
 * much. */
static bool may_be_state(const struct lua_walk *w, const struct came *c, uint64_t address,
                         size_t size)
{
    const struct memory *m = &w->input->memory;
    if (!lua_is_address(address) || !m->nr_layers)
        return false;
    if (c->nr != UINT32_MAX) {
        bool came = false;
        for (uint32_t i = 0; i < c->nr && !came; i++)
            came = c->at[i] == address;
        return came;
    }
    if (m->layers[0].when == MEMORY_OF_SAMPLE)
        return memory_has_piece(m, address, size);
    return m->layers[0].when == MEMORY_OF_ANY_TIME;
}

/* Returns the word of the state that is an address from `from` up to `to`; 0: there is none. */
static uint64_t word_between(struct lua_walk *w, uint64_t state, uint64_t from, uint64_t to)
{
    uint8_t bytes[LUA_STATE_MAX];
    size_t size = w->reader.layout->fields.state.size;
    if (!lua_read_moving(&w->reader, state, bytes, size))
        return 0;
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word = lua_u64(bytes, at);
        if (word >= from && word < to)
            return word;
    }
    return 0;
}

/* Returns the index of the native frame that holds an address of the stack; `end`: none before
 * it. */
static size_t frame_of(const struct lua_walk *w, uint64_t address, size_t end)
{
    size_t i = 0;
    while (i < end &&
           (w->out->frames.at[i].kind != FRAME_NATIVE || w->out->frames.at[i].cfa <= address))
        i++;
    return i;
}

/* Put an activation without a frame of execute in front of all others. Returns -1 when memory is
 * out. */
static int add(struct lua_walk *w, const struct lua_state *s, size_t frame)
{
    const struct lua_activation first = w->activations.at[0];
    const struct lua_walk_state state = {.state = *s, .layout = first.layout};
    const struct lua_activation a = {.frame = frame,
                                     .layout = first.layout,
                                     .bias = first.bias,
                                     .provenance = w->out->frames.at[frame].provenance,
                                     .state = (int)w->states.nr,
                                     .between = true};
    if (!vec_push(&w->states, state) || !vec_push(&w->activations, a))
        return -1;
    memmove(w->activations.at + 1, w->activations.at,
            (w->activations.nr - 1) * sizeof(*w->activations.at));
    w->activations.at[0] = a;
    return 0;
}

int lua_find_resumed(struct lua_walk *w)
{
    const struct lua_activation *first = w->activations.nr ? w->activations.at : NULL;
    const uint64_t from = w->input->registers.value[DWARF_RSP];
    if (!first || first->state == LUA_NO_STATE || first->value[DWARF_RSP] <= from)
        return 0;
    const uint64_t to = first->value[DWARF_RSP], size = first->layout->fields.state.size;
    const uint64_t global = w->states.at[first->state].state.global;
    struct came came;
    uint64_t word;
    came.nr = memory_states(&w->input->memory, &came.at);
    if (are_all_known(w, &came))
        return 0;
    w->reader.layout = first->layout;
    for (uint64_t at = from & ~UINT64_C(7), n = 0; at < to && n < WORDS_MAX; at += 8, n++) {
        struct lua_state s;
        if (!memory_read_near(&w->input->memory, at, &word, sizeof(word)))
            break;
        if (!may_be_state(w, &came, word, size) || is_known(w, word) ||
            !lua_state_read(&w->reader, word, false, &s) || s.global != global || s.status ||
            !lua_state_has_call(&w->reader, &s))
            continue; /* or a word in an old buffer: a state that is gone */
        uint64_t catcher = word_between(w, word, from, to);
        size_t frame = catcher ? frame_of(w, catcher, first->frame) : first->frame;
        if (frame < first->frame)
            return add(w, &s, frame);
        /* Its errors are caught no more, or not yet (recover() after an error): it is on the stack,
         * but not to be placed. */
        w->activations.at[0].doubted = true;
    }
    return 0;
}
