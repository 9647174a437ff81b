/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Follows code without CFI on all its ways (unwind/execution.h): from a frame's pc to the returns,
 * and from a function's entry to the pc. Bounded in instructions and ways. Private to
 * unwind/native.
 */
#ifndef UNWIND_NATIVE_EXPLORE_H
#define UNWIND_NATIVE_EXPLORE_H

#include "unwind/execution.h"
#include "unwind/native/walk.h"

struct explorer;

/* What somebody looks for. */
struct explore_goal {
    uint64_t pc; /* the way is shown when it comes here; 0: when it returns */
    /* Looks at the state. Returns true if it is what was looked for: the exploration ends. */
    bool (*look)(void *context, const struct execution *x);
    void *context;
    /* Reads memory (struct execution); its context is `context`. May be NULL. */
    bool (*read)(void *context, struct held address, uint64_t *ret);
    uint64_t end; /* of the function that begins, if it is known: a call there does not return; else
                     0 */
};

enum explored {
    EXPLORED_FOUND,
    EXPLORED_ALL,  /* all ways were followed, and none is what was looked for */
    EXPLORED_PART, /* some way could not be followed */
};

/* Returns the walk's explorer, made at the first call; NULL: memory is out. */
struct explorer *explorer_of(struct walk *w);
void explorer_free(struct explorer *e); /* may be NULL */
/* Returns the place for what walk_instructions.c remembers; it is freed with the explorer. */
struct way_cache;
struct way_cache **explorer_cache(struct explorer *e);

/* Follow the code from `pc` on, for at most *left instructions, which is reduced by those followed.
 * `provenance` is raised to that of the code's bytes. */
enum explored explore(struct explorer *e, struct walk *w, uint64_t pc,
                      const struct explore_goal *goal, unsigned *left, enum provenance *provenance);

#endif
