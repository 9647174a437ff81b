/* SPDX-License-Identifier: GPL-2.0-only */
/* The values that instructions are done on, the same for all machines. */
#include "unwind/execution.h"

enum { WORD = EXECUTION_WORD };

const struct held held_unknown = {.kind = HELD_UNKNOWN};

struct held held_number(int64_t n)
{
    return (struct held){.kind = HELD_NUMBER, .reg = ARCH_NO_REGISTER, .add = n};
}

int64_t held_sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct held held_plus(struct held v, int64_t by)
{
    if (v.kind == HELD_TABLE_WORD || v.kind == HELD_TABLE_TARGET)
        return by ? held_unknown : v;
    v.add = held_sum(v.add, by);
    return v;
}

struct held held_add(struct held a, struct held b)
{
    if (a.kind == HELD_NUMBER && b.kind == HELD_TABLE_WORD) {
        const struct held swap = a;
        a = b;
        b = swap;
    }
    if (a.kind == HELD_TABLE_WORD && b.kind == HELD_NUMBER && a.reg == 4 && a.add == b.add) {
        a.kind = HELD_TABLE_TARGET;
        return a;
    }
    if (b.kind == HELD_NUMBER)
        return held_plus(a, b.add);
    return a.kind == HELD_NUMBER ? held_plus(b, a.add) : held_unknown;
}

struct held held_subtract(struct held a, struct held b)
{
    if (b.kind == HELD_NUMBER)
        return held_plus(a, (int64_t)(0 - (uint64_t)b.add));
    bool same = a.kind == b.kind && a.kind == HELD_REGISTER && a.reg == b.reg;
    return same ? held_number((int64_t)((uint64_t)a.add - (uint64_t)b.add)) : held_unknown;
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Get the place of an address that can have stored values: it is relative to a first value. */
static bool place_of(struct held address, struct stored *ret)
{
    if (address.kind != HELD_REGISTER || address.add != (int32_t)address.add)
        return false;
    ret->reg = address.reg;
    ret->at = (int32_t)address.add;
    return true;
}

/* Do `size` bytes at `a` overlap the word at `b`? */
static bool overlap(const struct stored *a, unsigned size, const struct stored *b)
{
    return a->reg == b->reg && (int64_t)a->at - b->at < WORD && (int64_t)b->at - a->at < size;
}

/* Store at most a word. */
static void store_word(struct execution *x, const struct stored *to, unsigned size)
{
    for (unsigned i = 0; i < x->nr_stored;) {
        if (overlap(to, size, &x->stored[i]))
            x->stored[i] = x->stored[--x->nr_stored];
        else
            i++;
    }
    if (x->nr_stored == EXECUTION_STORES) {
        x->stores_lost = true;
        return;
    }
    x->stored[x->nr_stored++] = *to;
}

void execution_store(struct execution *x, struct held address, struct held v, unsigned size)
{
    struct stored to = {.value = size == WORD ? v : held_unknown};
    for (unsigned done = 0; done < size; done += WORD) {
        if (place_of(held_plus(address, done), &to))
            store_word(x, &to, size - done < WORD ? size - done : WORD);
    }
}

struct held execution_load(struct execution *x, struct held address)
{
    struct stored from = {0};
    uint64_t word;
    if (address.kind == HELD_SLOT && x->read && x->read(x->context, address, &word)) {
        x->has_read = true;
        return held_number((int64_t)word);
    }
    if (!place_of(address, &from))
        return held_unknown;
    for (unsigned i = 0; i < x->nr_stored; i++) {
        const struct stored *s = &x->stored[i];
        if (overlap(&from, WORD, s))
            return s->at == from.at ? s->value : held_unknown;
    }
    return x->stores_lost ? held_unknown
                          : (struct held){.kind = HELD_SLOT, .reg = from.reg, .at = from.at};
}

void execution_begin(struct execution *x, const struct arch *arch, uint64_t pc)
{
    x->pc = pc;
    x->nr_stored = 0;
    x->unsure = x->has_read = x->stores_lost = false;
    x->read = NULL;
    x->context = NULL;
    for (unsigned reg = 0; reg < arch->reg.nr; reg++)
        x->reg[reg] = (struct held){.kind = HELD_REGISTER, .reg = (uint8_t)reg};
}
