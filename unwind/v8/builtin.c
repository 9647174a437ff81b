/* SPDX-License-Identifier: GPL-2.0-only */
/* Follows the stack pointer, the frame pointer and the return address through machine code. */
#include "unwind/v8/builtin_internal.h"

#include "base/hash.h"
#include "unwind/v8/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static bool same(const struct v8_state *a, const struct v8_state *b)
{
    return a->kind == b->kind && a->return_register == b->return_register &&
           (a->kind == V8_STATE_FRAMED || a->offset == b->offset);
}

void v8_follow_reach(struct v8_follow *f, uint64_t offset, struct v8_state s)
{
    if (offset >= f->states->size || s.kind == V8_STATE_UNKNOWN)
        return;
    struct v8_state *at = &f->states->at[offset];
    if (at->kind != V8_STATE_UNKNOWN) {
        at->doubtful |= !same(at, &s);
        return;
    }
    *at = s;
    if (!vec_push(&f->todo, (uint32_t)offset))
        f->failed = true;
}

static struct v8_states *follow_all(const struct v8_machine *m, const uint8_t *code, size_t size,
                                    struct v8_state start)
{
    struct v8_follow f = {.code = code};
    if (m->liftoff_begun && size >= V8_BYTES_LIFTOFF)
        f.framed = m->liftoff_begun(code);
    f.states = calloc(1, sizeof(*f.states) + size * sizeof(f.states->at[0]));
    if (!f.states)
        return NULL;
    f.states->size = size;
    v8_follow_reach(&f, 0, start);
    while (f.todo.nr && !f.failed)
        m->follow(&f, f.todo.at[--f.todo.nr]);
    vec_free(&f.todo);
    return f.states;
}

struct v8_state v8_frameless(const struct v8_machine *m)
{
    return (struct v8_state){m->frameless_offset, V8_STATE_SP, m->return_register, false};
}

struct v8_state v8_builtin_state(const struct v8_layout *l, struct v8_builtin *b, uint64_t vaddr)
{
    struct v8_state start = v8_frameless(l->machine);
    struct v8_states *s = atomic_load_explicit(&b->states, memory_order_acquire);
    if (b->class == V8_BUILTIN_LEAVE)
        start.kind = V8_STATE_FRAMED;
    if (!s) {
        struct v8_states *none = NULL;
        s = follow_all(l->machine, l->code + (b->start - l->blob), b->size, start);
        if (s && !atomic_compare_exchange_strong(&b->states, &none, s)) {
            free(s);
            s = none;
        }
    }
    if (!s || vaddr - b->start >= s->size)
        return (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
    return s->at[vaddr - b->start];
}

struct v8_state v8_code_state(const struct v8_machine *m, const uint8_t *code, size_t size,
                              size_t at)
{
    struct v8_state got = {0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
    struct v8_states *s = at < size ? follow_all(m, code, size, v8_frameless(m)) : NULL;
    if (s && at < s->size)
        got = s->at[at];
    free(s);
    return got;
}

void v8_states_free(struct v8_states *s)
{
    free(s);
}

/* ---- cache of followed code ---------------------------------------------------------------- */

enum { PLACES = 1024, KNOWN_MAX = 2 << 20 }; /* KNOWN_MAX: bytes of code; each byte needs a state */

struct v8_code_states {
    size_t bytes;
    struct {
        uint64_t hash;
        struct v8_states *states; /* NULL: free */
    } place[PLACES];
};

struct v8_code_states *v8_code_states_create(void)
{
    return calloc(1, sizeof(struct v8_code_states));
}

static void forget_states(struct v8_code_states *c)
{
    for (size_t i = 0; i < PLACES; i++) {
        free(c->place[i].states);
        c->place[i].states = NULL;
    }
    c->bytes = 0;
}

void v8_code_states_free(struct v8_code_states *c)
{
    if (!c)
        return;
    forget_states(c);
    free(c);
}

struct v8_state v8_code_states_get(struct v8_code_states *c, const struct v8_machine *m,
                                   const uint8_t *code, size_t size, size_t at)
{
    uint64_t hash = hash_bytes(code, size);
    size_t place = hash % PLACES;
    struct v8_states *s = c->place[place].states;
    if (!s || c->place[place].hash != hash || s->size != size) {
        if (c->bytes + size > KNOWN_MAX)
            forget_states(c);
        s = follow_all(m, code, size, v8_frameless(m));
        if (!s)
            return (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
        free(c->place[place].states);
        c->place[place].states = s;
        c->place[place].hash = hash;
        c->bytes += size;
    }
    return at < s->size ? s->at[at]
                        : (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
}
