/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interned stacks: a tree of functions, from the outermost inwards, with how often each was
 * sampled. fold, report and the flame graph are printed from it.
 */
#ifndef STACKS_STACKS_H
#define STACKS_STACKS_H

#include "base/error.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One function as users tell functions apart. Strings are interned: compare pointers. */
struct function {
    const char *symbol; /* NULL: unknown */
    const char *module; /* NULL: in no mapping */
    const char *file;   /* with by_line: the file of the position; else NULL */
    uint32_t line;
    uint8_t kind;      /* enum frame_kind */
    uint8_t tier;      /* enum frame_tier; of managed frames only with by_tier, else 0 */
    bool inlined;      /* of managed frames only with by_tier, else false */
    bool by_place;     /* no symbol names it: `symbol` says where in its file it begins */
    const char *build; /* with by_place, the file's build id in hex; NULL: not known */
    uint16_t trace;    /* LuaJIT's number of the trace that it ran in, with by_trace; else 0 */
    /* With by_address, the address of an unknown function; with by_start, the start of a known one
     * (generated code has none: it comes and goes); else 0. */
    uint64_t address;
    /* Until stacks_finish(), the id of a managed function (managed.h), which then gives symbol and
     * module. 0 afterwards, and for native code. */
    uint32_t managed;
    uint32_t offset; /* with by_offset, of the address in native code that has a symbol; else 0 */
};

/* Returns whether a function is of a managed language: its symbol and module are managed_symbol()'s
 * and managed_module()'s. */
static inline bool function_is_managed(const struct function *f)
{
    return frame_language(f->kind) != NULL;
}

static inline bool function_is_kernel(const struct function *f)
{
    return f->kind == FRAME_KERNEL || f->kind == FRAME_GUEST_KERNEL;
}

/* What samples are grouped by, besides their stack. */
struct stack_group {
    const char *comm; /* NULL: not grouped by it */
    uint32_t pid, tid;
    uint32_t cpu;
    uint64_t block; /* with slice_ns; else 0 */
    uint16_t event;
    uint8_t vmstate; /* enum runtime_activity, with by_state; else 0 */
    /* With by_wait, else 0: enum wait_reason, and 1 + the number of the system call that waited. */
    uint8_t reason;
    uint16_t syscall;
    uint64_t cgroup; /* with by_cgroup: its id; else 0 */
    /* With by_waker, who woke the thread (replay_waker()); NULL: it is not known, or the
     * thread did not wait. Interned. */
    const char *waker;
    /* Until stacks_finish(), the number of a wait that may be idle (struct replay_sample). 0
     * afterwards. */
    uint64_t wait;
};

struct stack_node {
    uint32_t parent;          /* 0: child of the root */
    uint32_t function;        /* index; in a first-level node, of its group */
    uint32_t depth;           /* 1: first level (group) */
    uint64_t samples, period; /* of the stacks that end here */
    uint64_t joined, guessed; /* of these samples, those whose weakest frame is joined or guessed */
    uint8_t provenance;       /* the weakest of the frames that became this node */
};

struct stacks_options {
    bool by_pid, by_tid, by_cpu; /* group by these; comm and event always count */
    bool by_line;                /* functions at different lines are different */
    bool by_address;             /* unknown functions at different addresses are different */
    /* Known functions of one name and module at different addresses are different, too. */
    bool by_start;
    bool by_tier;   /* managed functions that ran in different ways are different */
    bool by_state;  /* group by what VMs said they were doing */
    bool by_wait;   /* group by why a thread waited (offcpu-time) */
    bool by_waker;  /* group by who woke the threads */
    bool by_cgroup; /* group by the control groups of the threads */
    bool by_offset; /* functions at different offsets are different */
    bool by_trace;  /* functions that ran in different traces are different */
    /* Time is cut into slices of this length, and slice N is in group block N modulo STACKS_BLOCKS.
     * 0: no slices. */
    uint64_t slice_ns;
    bool all_slices; /* slice N is in group block N */
};

/* Returns whether both keep the same apart. */
bool stacks_options_equal(const struct stacks_options *a, const struct stacks_options *b);

enum { STACKS_BLOCKS = 32 };

struct stacks;
struct stacks *stacks_create(const struct stacks_options *options);
void stacks_free(struct stacks *s);

/* Returns the sink that collects into `s`. Run it with replay_run(), then read as below. The order
 * of indexes depends on threads: sort before printing. */
struct replay_sink stacks_sink(struct stacks *s);

/* To be called after the run, while the replay exists. Idle waits are left out. Managed functions
 * get their final names, and functions that are then the same to users become one; so two children
 * of a node may be of one function. Returns -1 when out of memory. */
int stacks_finish(struct stacks *s, struct error *err);

/* Add the stacks of the time slices from `first` up to but not including `end` (slice N: those in
 * group block N). Both stacks are finished. `from` has been collected with all_slices and otherwise
 * the options of `to`; if `to` keeps no slices, they are joined. Returns -1 when out of memory. */
int stacks_add_slices(struct stacks *to, const struct stacks *from, uint64_t first, uint64_t end,
                      struct error *err);

/* To be used after stacks_finish(). Node 0 is the root; parents come before their children. */
size_t stacks_nr_nodes(const struct stacks *s);
const struct stack_node *stacks_node(const struct stacks *s, size_t index);
size_t stacks_nr_functions(const struct stacks *s);
const struct function *stacks_function(const struct stacks *s, size_t index);
size_t stacks_nr_groups(const struct stacks *s);
const struct stack_group *stacks_group(const struct stacks *s, size_t index);
/* Returns the options that the stacks were collected with. */
const struct stacks_options *stacks_kept(const struct stacks *s);
/* Returns `event`; for -1, the first event that was sampled. */
int stacks_event(const struct stacks *s, int event);

#endif
