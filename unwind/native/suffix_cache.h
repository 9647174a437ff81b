/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The outer part (the suffix) of a stack that was walked before.
 *
 * Samples of one thread mostly share the outer part of their stacks: two thirds of all frames in
 * recordings of compilers, Node and LuaJIT stand in the sample before, too. What a walk does from
 * some frame on follows from the registers at that frame, from the words that it reads of the
 * stack, and from code and memory that do not change meanwhile (unwind_input.context_key). The
 * cache of a thread keeps the steps of its last walk: the registers before each step, the words
 * that the step read, and the frames that it produced. When a later walk comes to the same
 * registers, and finds the same words in its own stack for all steps from there to the end, it
 * takes the remaining frames from the cache. The result is what the walk would have given without
 * the cache.
 *
 * The steps of a cache stand outermost first: a new walk replaces the innermost ones by its own.
 */
#ifndef UNWIND_NATIVE_SUFFIX_CACHE_H
#define UNWIND_NATIVE_SUFFIX_CACHE_H

#include "unwind/arch.h"
#include "unwind/unwind.h"

struct walk;

enum {
    SUFFIX_CACHES = 64,      /* caches, for threads; a power of two */
    SUFFIX_STEPS_NOTED = 64, /* most steps that a walk adds: the outermost ones */
    SUFFIX_WORDS_NOTED = 512,
    /* `worth`: the cost that is saved by taking over a step; 1 for a native step.
     * SUFFIX_WORTH_MIN is the least worth that pays: comparing the words of a native frame
     * costs half of walking it. */
    SUFFIX_MANAGED = 4,
    SUFFIX_WORTH_MIN = 8,
};

/* The registers before a step. `frames` and `words` are indices: in a walk's notes where the step's
 * own begin, in a cache where they end. */
struct suffix_cache_step {
    uint64_t pc, sp;
    uint64_t saved[ARCH_SAVED_MAX]; /* 0: not known */
    uint64_t known;
    uint32_t frames, words;
    uint32_t worth; /* in a cache: worth of this step and all outer ones (SUFFIX_WORTH_MIN) */
    uint64_t low;   /* lowest address of the step's words; UINT64_MAX: it has none */
};

struct suffix_cache {
    const void *context_key; /* NULL: free */
    uint64_t epoch;
    uint32_t thread;
    uint32_t version; /* changes with the content */
    uint32_t walks;
    VEC(struct suffix_cache_step) steps;
    VEC(struct frame) frames;
    VEC(uint64_t) words; /* for each window a struct memory_window and its words */
    struct registers end;
    /* A copy of the stack from the innermost step's words to the outermost's. It is mostly the same
     * in the next sample, and comparing it is faster than comparing single words. */
    VEC(uint8_t) image;
    uint64_t image_start;
};

/* How one walk uses its thread's cache, and the steps that it will add to it. */
struct suffix_cache_walk {
    struct suffix_cache *suffixes;
    uint32_t version;
    size_t at;       /* number of the cache's outermost steps that the walk may still meet */
    bool compared;   /* the stack was compared with the image */
    size_t verified; /* number of outermost steps whose words are in this stack */
    size_t limit;    /* number of outermost steps whose words may be in this stack */
    size_t taken;    /* number of steps taken over; 0: none */
    bool noting, open;
    uint32_t nr, nr_words;
    struct suffix_cache_step steps[SUFFIX_STEPS_NOTED]; /* innermost first, up to the walk's end */
    uint64_t words[SUFFIX_WORDS_NOTED];
};

/* Begins a walk; `t` is the cache of its thread. */
void suffix_cache_begin(struct suffix_cache_walk *n, struct suffix_cache *t,
                        const struct unwind_input *in);
/* Returns the cache of an input's thread among SUFFIX_CACHES; NULL: its walks cannot use one. */
struct suffix_cache *suffix_cache_of(struct suffix_cache *caches, uint64_t epoch,
                                     const struct unwind_input *in);
void suffix_cache_free(struct suffix_cache *t);

/* Call before a step. Returns true if the rest of the walk was taken over: the walk has then ended.
 * The walk may have lost its cache. */
bool suffix_cache_take(struct walk *w);
/* Call before a step: begins to note it. `managed`: a walker may take the step. */
void suffix_cache_note(struct walk *w, bool managed);
/* Call after the step: its readings are in the memory's notes. */
void suffix_cache_noted(struct walk *w);
/* Call when the walk has ended. Returns how many frames were taken over. */
size_t suffix_cache_end(struct walk *w);

/* Is a call of suffix_cache_take() worthwhile? It is if the cache has a step with this pc and
 * stack pointer that is worth it, or if another walk has changed the cache. */
static inline bool suffix_cache_meets(struct suffix_cache_walk *n, uint64_t pc, uint64_t sp)
{
    const struct suffix_cache *t = n->suffixes;
    if (n->version != t->version)
        return true;
    while (n->at && t->steps.at[n->at - 1].sp < sp)
        n->at--;
    if (!n->at || n->at > n->limit)
        return false;
    const struct suffix_cache_step *s = &t->steps.at[n->at - 1];
    return s->sp == sp && s->pc == pc && s->worth >= SUFFIX_WORTH_MIN;
}

#endif
