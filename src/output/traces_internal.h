/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of `ljperf traces` share. */
#ifndef OUTPUT_TRACES_INTERNAL_H
#define OUTPUT_TRACES_INTERNAL_H

#include "base/hash_table.h"
#include "base/intern.h"
#include "base/table.h"
#include "output/traces.h"
#include "unwind/luajit/compiler.h"
#include "unwind/luajit/vm.h"

#include <pthread.h>

/* A Lua function, and the weight of samples whose innermost Lua function it is. */
struct traced_function {
    uint32_t function; /* id of the managed function */
    uint64_t interpreted, compiled;
};

/* Machine code that samples executed: an address in a trace. */
struct traced_code {
    uint32_t pid;
    uint16_t trace;
    uint64_t pc, weight;
};

/* A process with LuaJIT. */
struct traced_process {
    uint32_t pid;
    const char *comm; /* interned by the replay's session; of the last sample */
};

enum { ACTIVITIES = RUNTIME_IN_ASSEMBLER + 1 };

/* What one worker has collected, or all of them. */
struct traces_sum {
    VEC(struct traced_function) functions;
    struct hash_table function_table;
    VEC(struct traced_code) codes;
    struct hash_table code_table;
    VEC(struct traced_process) processes;
    uint64_t weight;               /* of samples that ran LuaJIT */
    uint64_t all;                  /* of all samples */
    uint64_t activity[ACTIVITIES]; /* of `weight`: what the VM did (enum runtime_activity) */
    uint64_t samples;              /* all of them */
};

enum { TRACES_EVENTS = 16 }; /* further events are left out */

/* A place in a Lua function. */
struct traced_place {
    uint32_t function; /* id of the managed function; 0: not known */
    uint32_t line;     /* 0: not known */
};

/* Why a recording was given up, and where. */
struct traced_abort {
    struct traced_place at; /* function 0: it was not seen */
    uint64_t detail;
    uint8_t reason;   /* enum luajit_abort */
    uint8_t names;    /* enum luajit_detail */
    const char *name; /* what it names: an opcode, a builtin; NULL: see `detail` */
};

/* Where recordings began, in one or more VMs. */
enum start_kind {
    START_OF_FUNCTION, /* its first instruction */
    START_OF_LOOP,
    START_OF_SIDE, /* an exit of a trace */
};
struct traced_start {
    struct traced_place at;
    uint8_t kind;   /* enum start_kind */
    bool blocked;   /* no recording begins there any more */
    bool off;       /* jit.off() was called for the function: that is why its loops are blocked */
    bool compiled;  /* a trace begins there */
    uint32_t value; /* greatest penalty */
    VEC(struct traced_abort) aborts;
};

/* A trace. */
struct traced_trace {
    struct luajit_fact fact;
    uint32_t vm; /* index */
    struct traced_place start;
    struct traced_place end; /* where it stops, if it is stitched; function 0: not known */
    const char *called;      /* what it calls there; NULL: not known */
    uint64_t weight;
    bool gone; /* it is not there any more at the last reading */
};

/* An exit without a side trace. */
struct traced_exit {
    struct traced_place to;
    uint32_t vm;
    uint16_t trace, exit;
    uint32_t count;
};

/* A trace that is a reason: a function's code is left to the interpreter there. */
struct traced_reason {
    uint32_t function;
    uint32_t trace; /* index */
};

struct traced_vm {
    uint32_t pid;
    uint64_t g, time; /* time: of the last reading, ns */
    struct luajit_compiler_state state;
    const struct luajit_layout *layout;
    unsigned sides, stitched, given_up; /* traces: side traces; by how they end */
};

struct traces {
    struct replay *replay;
    struct traces_options options;
    pthread_mutex_t lock;                  /* protects these during the run: */
    struct traces_sum sums[TRACES_EVENTS]; /* by event */
    bool failed;                           /* memory was out */
    /* Afterwards. */
    struct intern *symbols;
    struct table same; /* symbol -> struct traced_symbol */
    unsigned event;    /* the first event that was sampled: everything is about it */
    struct traces_sum sum;
    uint64_t others; /* samples of other events */
    VEC(struct traced_vm) vms;
    VEC(struct traced_start) starts;   /* sorted by function: its own start, then by line */
    VEC(struct traced_trace) traces;   /* most weight first */
    VEC(struct traced_reason) reasons; /* sorted by function */
    VEC(struct traced_exit) exits;     /* sorted by function and line */
    uint64_t compiled, interpreted;    /* weights */
    uint64_t no_trace; /* weight of samples in traces of which the recording knows nothing */
    size_t nameless;   /* facts of the last readings whose function is not known */
};

/* Get the id that stands for all functions with the same symbol: a function of which only the place
 * is known has an id of its own. 0 when memory is out. */
uint32_t traces_same(struct traces *t, uint32_t function);

/* Index of the first element of a list whose member is `wanted`, or greater. The list is sorted by
 * that member. */
#define FIRST_OF(list, member, wanted)                  \
    __extension__({                                     \
        size_t from_ = 0, to_ = (list)->nr;             \
        while (from_ < to_) {                           \
            size_t middle_ = from_ + (to_ - from_) / 2; \
            if ((list)->at[middle_].member < (wanted))  \
                from_ = middle_ + 1;                    \
            else                                        \
                to_ = middle_;                          \
        }                                               \
        from_;                                          \
    })

/* Put the facts of the recording together (traces_facts.c). */
int traces_read_facts(struct traces *t, struct error *err);
const struct traced_process *traces_process(const struct traces *t, uint32_t pid);

/* Returns how often a recording was given up for a penalty of this value, about. */
unsigned traces_attempts(const struct traces *t, uint32_t value);

#endif
