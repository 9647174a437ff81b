/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Outer frames that were walked before. Samples of one thread mostly share the outer part of their
 * stacks: two thirds of all frames of compilers', node's and LuaJIT's recordings stand in the
 * sample before, too. What a walk does from some frame on follows from the registers there, from
 * the words that it reads of the stack, and from code and memory that do not change meanwhile
 * (unwind_input's `steady`). So the last walk of each thread leaves a trail: of each of its steps
 * the registers before it, the words it read, the frames it put out. A later walk that comes to the
 * same registers, and finds the same words in its own stack for all steps from there to the end,
 * takes the rest over. It gives what it would have given without, and private to unwind/.
 *
 * A trail's steps stand outermost first: a new walk's own take the place of the innermost ones.
 */
#ifndef UNWIND_NATIVE_TRAIL_H
#define UNWIND_NATIVE_TRAIL_H

#include "unwind/arch.h"
#include "unwind/unwind.h"

struct walk;

enum {
    TRAILS = 64,      /* threads at a time; a power of two */
    TRAIL_NOTED = 64, /* steps that a walk adds at most: the outermost ones */
    TRAIL_WORDS = 512,
    /* What taking a step over spares, a native one being 1, and how much is worth it: looking at
     * the words of a native frame costs half of what walking it does. */
    TRAIL_MANAGED = 4,
    TRAIL_WORTH = 8,
};

/* The registers before a step. `frames` and `words`: in notes where its own begin, in a trail where
 * they end. */
struct trail_step {
    uint64_t pc, sp;
    uint64_t saved[ARCH_CALLEE_SAVED_NR]; /* 0 where not known */
    uint32_t known;
    uint32_t frames, words;
    uint32_t worth; /* in a trail: of this step and all outer ones (TRAIL_WORTH) */
    uint64_t low;   /* least address of its words; UINT64_MAX: it has none */
};

struct trail {
    const void *steady; /* NULL: free */
    uint64_t turn;
    uint32_t thread;
    uint32_t version; /* another one, another content */
    uint32_t walks;
    VEC(struct trail_step) steps;
    VEC(struct frame) frames;
    VEC(uint64_t) words; /* a struct memory_window, then its words, and so on */
    struct registers end;
    /* All of the stack from the innermost step's words to the outermost's: mostly it is the same,
     * which is seen faster than that single words are. */
    VEC(uint8_t) image;
    uint64_t image_start;
};

/* A walk's use of its trail, and what it notes for it. */
struct trail_walk {
    struct trail *trail;
    uint32_t version;
    size_t at;       /* the trail's outermost steps that the walk may still come to */
    bool compared;   /* with the image */
    size_t verified; /* the outermost steps whose words stand in this stack, */
    size_t limit;    /* and how many may */
    size_t taken;    /* steps that were taken over; 0: none */
    bool noting, open;
    uint32_t nr, nr_words;
    struct trail_step steps[TRAIL_NOTED]; /* innermost first, up to the walk's end */
    uint64_t words[TRAIL_WORDS];
};

/* Begin a walk; `t` is its thread's trail. */
void trail_begin(struct trail_walk *n, struct trail *t, const struct unwind_input *in);
/* The trail of an input's thread among TRAILS; NULL: its walks cannot have one. */
struct trail *trail_of(struct trail *trails, uint64_t turn, const struct unwind_input *in);
void trail_free(struct trail *t);

/* Before a step: whether the rest of the walk was taken over, which has ended then. The walk may
 * have lost its trail. */
bool trail_take(struct walk *w);
/* Before a step: begin to note it; `managed`: it may be a walker's. */
void trail_note(struct walk *w, bool managed);
/* Behind it: what it read stands in the memory's notes. */
void trail_noted(struct walk *w);
/* The walk has ended. Returns how many frames were taken over. */
size_t trail_end(struct walk *w);

/* Whether it may be worth it to call trail_take: the trail knows a frame with this stack pointer.
 */
static inline bool trail_meets(struct trail_walk *n, uint64_t pc, uint64_t sp)
{
    const struct trail *t = n->trail;
    if (n->version != t->version)
        return true;
    while (n->at && t->steps.at[n->at - 1].sp < sp)
        n->at--;
    if (!n->at || n->at > n->limit)
        return false;
    const struct trail_step *s = &t->steps.at[n->at - 1];
    return s->sp == sp && s->pc == pc && s->worth >= TRAIL_WORTH;
}

#endif
