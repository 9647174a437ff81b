/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording's samples one by one, their stacks interned down to code addresses and positions:
 * what exports are written from. Memory: 40 bytes a sample, and what differs among their stacks.
 */
#ifndef STACKS_PROFILE_H
#define STACKS_PROFILE_H

#include "base/error.h"
#include "base/intern.h"
#include "base/vec.h"
#include "replay/replay.h"
#include "stacks/stacks.h"

/* Strings are interned and valid UTF-8: bytes that are not, and control characters, stand as %XX.
 */

/* A function as users tell them apart: by name, module and kind. */
struct profile_function {
    const char *symbol;    /* NULL: unknown */
    const char *name;      /* the symbol; of an unknown function "[module]", as fold has it */
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

/* One frame: an address with the functions that stand there, innermost first; the last is the one
 * the others are inlined in. Never without any. */
struct profile_location {
    uint64_t address; /* replay_name()'s */
    uint32_t first_line, nr_lines;
    uint32_t dso; /* id; 0: none */
    uint16_t trace;
    uint8_t kind, tier, provenance;
};

struct profile_thread {
    const char *comm;
    uint32_t pid, tid;
};

struct profile_node {
    uint32_t parent, location; /* node 0 is the root; parents stand before their children */
    uint8_t weakest;           /* provenance of the weakest frame from the root to here */
};

struct profile_sample {
    uint64_t time, period; /* ns of the recording's clock; the event's units */
    uint32_t node;         /* innermost frame; 0: there is none */
    uint32_t thread, cpu;
    uint16_t event;
    uint16_t worker; /* private */
    uint8_t end;     /* enum stack_end, when unwound */
    bool unwound;
};

struct profile_worker;

/* To be read after profile_finish(); the same for any number of threads. */
struct profile {
    VEC(struct profile_function) functions;
    VEC(struct profile_line) lines;
    VEC(struct profile_location) locations;
    VEC(struct profile_node) nodes;
    VEC(struct profile_thread) threads;
    VEC(struct profile_sample) samples; /* in order of time */
    struct intern *strings;
    VEC(struct profile_worker *) workers; /* private, until it is finished */
    const struct managed_names *managed;
};

/* NULL when memory is out. */
struct profile *profile_create(void);
void profile_free(struct profile *p);
/* The sink that collects into `p`; run it with replay_run. */
struct replay_sink profile_sink(struct profile *p);
/* After the run, while the replay is alive. */
int profile_finish(struct profile *p, struct error *err);

static inline bool profile_is_managed(uint8_t kind)
{
    return frame_is_managed(&(struct frame){.kind = kind});
}

#endif
