/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording's samples one by one, with stacks interned down to code addresses and positions.
 * Exports are written from it. Memory: 48 bytes a sample, plus the parts in which the stacks
 * differ.
 */
#ifndef STACKS_PROFILE_H
#define STACKS_PROFILE_H

#include "base/error.h"
#include "base/intern.h"
#include "base/vec.h"
#include "replay/replay.h"
#include "stacks/stacks.h"

/* Strings are interned and valid UTF-8: invalid bytes and control characters are written as %XX. */

/* A function as users tell functions apart: by name, module and kind. */
struct profile_function {
    const char *symbol;    /* NULL: unknown */
    const char *name;      /* the symbol; of an unknown function "[module]", as fold writes it */
    const char *module;    /* NULL: in no mapping */
    const char *file;      /* where it is defined, or a file of its code; NULL: unknown */
    uint32_t line, column; /* where a managed function is defined; 0: unknown */
    uint8_t kind;          /* enum frame_kind */
};

/* A function at a position. */
struct profile_line {
    uint32_t function;
    const char *file; /* where it executes; NULL: unknown */
    uint32_t line, column;
    bool inlined;
};

/* One frame: an address with the functions that are there, innermost first. The others are inlined
 * in the last one. There is always at least one. */
struct profile_location {
    uint64_t address; /* replay_name()'s */
    uint32_t first_line, nr_lines;
    uint32_t dso; /* id; 0: none */
    uint16_t trace;
    uint8_t kind, tier, provenance;
    bool plain_lua;    /* of plain Lua; of other Lua functions false: of LuaJIT */
    bool name_guessed; /* managed_name_is_guessed() */
};

struct profile_thread {
    const char *comm;
    uint32_t pid, tid;
};

struct profile_node {
    uint32_t parent, location; /* node 0 is the root; parents come before their children */
    uint8_t weakest;           /* provenance of the weakest frame from the root to here */
};

struct profile_sample {
    uint64_t time, period; /* ns of the recording's clock; in the event's units */
    uint64_t wait;         /* private: struct replay_sample's */
    uint32_t node;         /* innermost frame; 0: no frame */
    uint32_t thread, cpu;
    uint16_t event;
    uint16_t worker; /* private */
    uint8_t end;     /* enum stack_end, if unwound */
    bool unwound;
};

/* What else a sample of an allocation says (perfdata/alloc.h). */
struct profile_block {
    uint64_t objects; /* that it stands for */
    uint64_t freed;   /* ns of the recording's clock; 0: the block was not freed */
    uint64_t known;   /* up to when this is known (replay_allocation_known()) */
    bool followed;    /* else its free would not be seen */
};

struct profile_worker;

/* To be read after profile_finish(). It is the same for any number of threads. */
struct profile {
    VEC(struct profile_function) functions;
    VEC(struct profile_line) lines;
    VEC(struct profile_location) locations;
    VEC(struct profile_node) nodes;
    VEC(struct profile_thread) threads;
    VEC(struct profile_sample) samples; /* in order of time */
    VEC(struct profile_block) blocks;   /* of each sample, if they were asked for */
    struct intern *strings;
    VEC(struct profile_worker *) workers; /* private, until it is finished */
    const struct managed_names *managed;
    bool wants_blocks;
    const struct replay *replay; /* private, until it is finished */
};

/* `blocks`: what samples of allocations say is kept, too. Returns NULL when out of memory. */
struct profile *profile_create(bool blocks);
void profile_free(struct profile *p);
/* Returns the sink that collects into `p`; run it with replay_run(). */
struct replay_sink profile_sink(struct profile *p);
/* To be called after the run, while the replay exists. Idle waits are left out. */
int profile_finish(struct profile *p, struct error *err);

static inline bool profile_is_managed(uint8_t kind)
{
    return frame_language(kind) != NULL;
}

#endif
