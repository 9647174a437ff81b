/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stacks, interned: a tree of functions from the outermost inwards, with how often each was
 * sampled. What fold, report and the flame graph are printed from.
 */
#ifndef STACKS_STACKS_H
#define STACKS_STACKS_H

#include "base/error.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One function as users tell them apart. Strings are interned: compare pointers. */
struct function {
    const char *symbol; /* NULL: unknown */
    const char *module; /* NULL: in no mapping */
    const char *file;   /* with by_line: position; else NULL */
    uint32_t line;
    uint8_t kind;     /* enum frame_kind */
    uint8_t tier;     /* enum frame_tier; of managed frames only with by_tier, else 0 */
    bool inlined;     /* likewise */
    uint16_t trace;   /* LuaJIT's number of the trace it ran in, with by_trace; else 0 */
    uint64_t address; /* of an unknown function when by_address, a known one's start when by_start
                         (generated code has none: it comes and goes); else 0 */
    uint32_t managed; /* until stacks_finish(): its id (managed.h), which then gave symbol and
                       module; 0 afterwards, and of native code */
};

/* Of a managed language: symbol and module are managed_symbol()'s and managed_module()'s. */
static inline bool function_is_managed(const struct function *f)
{
    return f->kind == FRAME_LUA || f->kind == FRAME_JS || f->kind == FRAME_WASM;
}

static inline bool function_is_kernel(const struct function *f)
{
    return f->kind == FRAME_KERNEL || f->kind == FRAME_GUEST_KERNEL;
}

/* What samples are kept apart by, beside their stack. */
struct stack_group {
    const char *comm; /* NULL: not kept apart */
    uint32_t pid, tid;
    uint32_t cpu;
    uint64_t block; /* with slice_ns; else 0 */
    uint16_t event;
    uint8_t vmstate; /* enum luajit_vmstate, with by_state; else 0 */
};

struct stack_node {
    uint32_t parent;          /* 0: child of the root */
    uint32_t function;        /* index; of a first-level node: of its group */
    uint32_t depth;           /* 1: first level (group) */
    uint64_t samples, period; /* of the stacks that end here */
    uint64_t joined, guessed; /* of those samples, where the weakest frame is one of these */
    uint8_t provenance;       /* weakest of the frames that became this node */
};

struct stacks_options {
    bool by_pid, by_tid, by_cpu; /* keep these apart in groups; comm and event always are */
    bool by_line;                /* functions at different lines are different */
    bool by_address;             /* unknown functions at different addresses are different */
    bool by_start;               /* functions of one name and module at different addresses, too */
    bool by_tier;                /* managed functions that ran in different ways are different */
    bool by_state;               /* what VMs said they were at is kept apart in groups */
    bool by_trace;               /* functions that ran in different traces are different */
    uint64_t slice_ns; /* time is cut into slices of this length, and slice N is kept in group block
                          N modulo STACKS_BLOCKS; 0: not kept apart */
    bool all_slices;   /* slice N is kept in group block N */
};

enum { STACKS_BLOCKS = 32 };

struct stacks;
struct stacks *stacks_create(const struct stacks_options *options);
void stacks_free(struct stacks *s);

/* The sink that collects into `s`; run it with replay_run, then read below. The order of indexes
 * depends on threads: print sorted. */
struct replay_sink stacks_sink(struct stacks *s);

/* After the run, while the replay is alive: managed functions get their final names, and those that
 * then are the same to users become one; two children of a node may then be of one function. -1
 * when memory is out. */
int stacks_finish(struct stacks *s, struct error *err);

/* After stacks_finish. Node 0 is the root; parents stand before their children. */
size_t stacks_nr_nodes(const struct stacks *s);
const struct stack_node *stacks_node(const struct stacks *s, size_t index);
size_t stacks_nr_functions(const struct stacks *s);
const struct function *stacks_function(const struct stacks *s, size_t index);
size_t stacks_nr_groups(const struct stacks *s);
const struct stack_group *stacks_group(const struct stacks *s, size_t index);
/* What was kept apart. */
const struct stacks_options *stacks_kept(const struct stacks *s);
/* `event`, or of -1 the first event that was sampled. */
int stacks_event(const struct stacks *s, int event);

#endif
