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
#include "unwind/v8/compiler.h"

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

/* A JavaScript function, and the weight of samples whose innermost function of a managed language
 * it is, by the tier in which it ran (enum frame_tier). */
struct traced_js {
    uint32_t function;  /* id of the managed function */
    const char *symbol; /* afterwards: interned; NULL: not known */
    uint64_t weight[NR_TIERS];
};

/* What one worker has collected, or all of them. */
struct traces_sum {
    VEC(struct traced_function) functions;
    struct hash_table function_table;
    VEC(struct traced_code) codes;
    struct hash_table code_table;
    VEC(struct traced_process) processes;
    VEC(struct traced_js) js;
    struct hash_table js_table;
    uint64_t js_weight;            /* of samples that ran JavaScript */
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

/* How optimized code was left. */
enum js_exit_kind {
    JS_EXIT_EAGER,
    JS_EXIT_LAZY,    /* a call returned to code that had been deoptimized before */
    JS_EXIT_UNKNOWN, /* one of these: it had just been left */
};

/* Samples that were taken while code was left for the interpreter. */
struct js_exit {
    struct traced_place at; /* perhaps in an inlined function; function 0: not known */
    uint8_t reason;         /* v8_deopt_text() */
    uint8_t kind;           /* enum js_exit_kind */
    uint64_t samples;
};

/* What the recorder found of a JavaScript function. */
struct js_facts {
    uint32_t function;
    unsigned codes[NR_TIERS];  /* pieces of optimized code that were seen, by tier */
    unsigned marked[NR_TIERS]; /* of these: deoptimized */
    uint32_t bytecode;         /* bytes of bytecode; 0: not known */
    uint8_t reason;            /* v8_disabled_text() of the last reading */
    bool reason_told;          /* whether there is a reason is known */
    bool marks_told;           /* this version tells what was deoptimized */
    uint64_t time;             /* ns: of the last reading of the function */
    VEC(struct js_exit) exits; /* most samples first */
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
    VEC(struct js_facts) js_facts; /* sorted by function */
    bool has_js_facts;             /* the recorder has looked at a V8 */
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

/* ---- V8 (traces_v8.c; it is printed by traces_v8_print.c) ------------------------------------ */

/* Count a sample for the JavaScript function that is its innermost one. False: memory is out. */
bool traces_js_take(struct traces_sum *sum, const struct frame *f, uint64_t weight);
/* Add what another worker has collected. */
bool traces_js_add(struct traces_sum *to, const struct traces_sum *from);
/* Put functions with the same symbol together. */
int traces_js_merge(struct traces *t, struct error *err);
int traces_js_read_facts(struct traces *t, struct error *err);
void traces_js_free(struct traces *t);
/* Append what is known about a function: lines that begin with `margin`. */
void traces_js_put_reasons(const struct traces *t, uint32_t function, const char *margin,
                           struct text *out);
void traces_js_put_text(const struct traces *t, struct text *out);
/* Append the key "v8", if a sample ran JavaScript. */
void traces_js_put_json(const struct traces *t, struct json *j);

/* Append a function's symbol without line breaks; false: it is not known (traces_print.c). */
bool traces_put_function(const struct traces *t, uint32_t function, struct text *out);
/* Append "line 12", and in which function if it is not `in`. */
void traces_put_place(const struct traces *t, const struct traced_place *at, uint32_t in,
                      struct text *out);
/* Append "node 1234". */
void traces_put_process(const struct traces *t, uint32_t pid, struct text *out);
/* Append the line that says that the recording has no facts of a VM, with the margin. */
void traces_put_no_facts(const char *margin, struct text *out);
/* Append how many functions with reasons are below the limit and not printed, if any is. */
void traces_put_left_out(const struct traces *t, size_t nr, struct text *out);
/* Append an object with the function and the line. */
void traces_key_place(struct json *j, const struct traces *t, const char *key,
                      const struct traced_place *at);
void traces_key_function(struct json *j, const struct traces *t, const char *key,
                         uint32_t function);

#endif
