/* SPDX-License-Identifier: GPL-2.0-only */
/* Damages a core's memory at random, for the fuzz targets of walkers. */
#ifndef FUZZ_DAMAGE_H
#define FUZZ_DAMAGE_H

#include "base/hash.h"
#include "session/core_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DAMAGE_POINTERS = 512 };

struct damage {
    const struct core_process *process;
    /* DAMAGE_POINTERS pointers found in the process's memory, to be put elsewhere */
    const uint64_t *pointers;
    uint64_t seed;
    /* one 64-byte line in 1 << (rate - 1) has a damaged word; 0: none */
    unsigned rate;
};

static inline bool damage_is_at(const struct damage *d, uint64_t hash)
{
    return d->rate != 0 && (hash & ((UINT64_C(1) << (d->rate - 1)) - 1)) == 0;
}

static inline uint64_t damage_word(const struct damage *d, uint64_t address, uint64_t word,
                                   uint64_t h)
{
    uint64_t other = d->pointers[(h >> 16) % DAMAGE_POINTERS];
    switch (h >> 60) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
    case 3:
        return word + 8 * ((h >> 20 & 0xff) - 128);
    case 4:
        return word ^ UINT64_C(1) << (h >> 20 & 63);
    case 5:
        return h;
    case 6:
        return other << 32 | (uint32_t)word;
    case 7:
        return address; /* a pointer to the word itself */
    case 8:
        return (word & ~UINT64_C(0xff)) | (h >> 20 & 0xff);
    default:
        return other;
    }
}

static inline bool damage_read_whole(const struct damage *d, uint64_t address, void *to,
                                     size_t size, enum provenance *provenance)
{
    const struct memory m = {.layers = d->process->layers, .nr_layers = 2};
    return memory_read(&m, address, to, size, provenance);
}

/* Code of a file does not change, and what its bytes say is kept across walks. */
static inline bool damage_is_code(const struct damage *d, uint64_t address)
{
    const struct core *c = d->process->core;
    for (size_t i = 0; i < core_nr_mappings(c); i++) {
        const struct core_mapping *m = core_mapping(c, i);
        if (address >= m->start && address < m->end)
            return m->file && m->prot & PROT_EXEC;
    }
    return false;
}

static inline void damage_put(const struct damage *d, uint64_t at, uint64_t h, uint64_t address,
                              void *to, size_t size, enum provenance *provenance)
{
    uint64_t word = 0, from = at < address ? address : at;
    uint64_t end = at + 8 < address + size ? at + 8 : address + size;
    if (from >= end || damage_is_code(d, at))
        return;
    damage_read_whole(d, at, &word, 8, provenance);
    word = damage_word(d, at, word, h);
    memcpy((uint8_t *)to + (from - address), (uint8_t *)&word + (from - at), end - from);
}

/* For rare damage: returns the number of the only line of `page` that has damage; -1: check each
 * line by itself; -2: no line has damage. */
static inline int damage_line_of_page(const struct damage *d, uint64_t page)
{
    enum { LINES_BITS = 6 }; /* lines of 64 bytes in a page of 4096 */
    if (d->rate <= LINES_BITS)
        return -1;
    uint64_t h = hash_combine(d->seed, page | 1);
    bool has = (h & ((UINT64_C(1) << (d->rate - 1 - LINES_BITS)) - 1)) == 0;
    return has ? (int)(h >> 58) : -2;
}

/* Whether a word is damaged does not depend on who reads it or on the size of the read. At most one
 * word of a line is damaged, which is quick to find for the pages that walkers search. */
static inline bool damage_bytes(const struct damage *d, uint64_t address, void *to, size_t size,
                                enum provenance *provenance)
{
    enum { LINE = 64, PAGE = 4096 };
    if (!damage_read_whole(d, address, to, size, provenance))
        return false;
    for (uint64_t line = address & ~(uint64_t)(LINE - 1); d->rate && line < address + size;
         line += LINE) {
        uint64_t page = line & ~(uint64_t)(PAGE - 1);
        int only = damage_line_of_page(d, page);
        uint64_t h = hash_combine(d->seed, line);
        if (only == -2 || (only >= 0 && line > page + LINE * (uint64_t)only))
            line = page + PAGE - LINE; /* no more damage in this page */
        else if (only >= 0 ? line == page + LINE * (uint64_t)only : damage_is_at(d, h))
            damage_put(d, line + (h >> 50 & 7) * 8, hash_u64(h), address, to, size, provenance);
    }
    return true;
}

static inline bool damage_read(void *context, const struct memory_query *q, void *to,
                               struct memory_answer *answer)
{
    return damage_bytes(context, q->address, to, q->size, &answer->provenance);
}

/* Returns whether two stacks are equal. `names`: compare functions and provenance, too. */
static inline bool stacks_equal(const struct unwind_stack *a, const struct unwind_stack *b,
                                bool names)
{
    if (a->end != b->end || a->frames.nr != b->frames.nr || a->end_pc != b->end_pc)
        return false;
    for (size_t i = 0; i < a->frames.nr; i++) {
        const struct frame *x = &a->frames.at[i], *y = &b->frames.at[i];
        if (x->pc != y->pc || x->cfa != y->cfa || x->kind != y->kind || x->trace != y->trace ||
            x->flags != y->flags ||
            (names && (x->provenance != y->provenance || x->function != y->function)))
            return false;
    }
    return true;
}

/* Prints where two stacks differ, and ends. */
static inline void stacks_differ(const struct unwind_stack *a, const struct unwind_stack *b)
{
    size_t nr = a->frames.nr < b->frames.nr ? a->frames.nr : b->frames.nr;
    fprintf(stderr, "%zu frames, end %d at %#lx; %zu frames, end %d at %#lx\n", a->frames.nr,
            a->end, (unsigned long)a->end_pc, b->frames.nr, b->end, (unsigned long)b->end_pc);
    for (size_t i = 0; i < nr; i++) {
        const struct frame *x = &a->frames.at[i], *y = &b->frames.at[i];
        fprintf(stderr,
                "%3zu: kind %d pc %#lx cfa %#lx flags %d; kind %d pc %#lx cfa %#lx flags %d\n", i,
                x->kind, (unsigned long)x->pc, (unsigned long)x->cfa, x->flags, y->kind,
                (unsigned long)y->pc, (unsigned long)y->cfa, y->flags);
    }
    abort();
}

/* Walks `nr` contexts in a batch, and every `step`th alone. Both results must be equal and within
 * the limits. `names`: as in stacks_equal(). */
static inline void damage_walk(struct unwinder *u, const struct unwind_input *inputs,
                               struct unwind_stack *stacks, unsigned nr, unsigned step, bool names)
{
    static struct unwind_stack single;
    for (unsigned i = 0; i < nr; i++)
        stacks[i].frames.nr = 0;
    if (unwind_batch(u, inputs, stacks, nr, NULL))
        return;
    for (unsigned i = 0; i < nr; i += step) {
        single.frames.nr = 0;
        if (stacks[i].frames.nr > inputs[i].max_frames || unwind(u, &inputs[i], &single, NULL) ||
            !stacks_equal(&stacks[i], &single, names))
            stacks_differ(&stacks[i], &single);
    }
}

#endif
