/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the JIT compiler of a VM has done, as the VM's own words tell: which traces there are, where
 * recordings were given up and why, which instructions start no trace any more, which exits have no
 * side trace. The VM is only read. The recorder reads it now and then, and writes what it found
 * (VMENTRY_COMPILER); `ljperf traces` prints it.
 *
 * Sources (lj_jit.h, lj_trace.c, lj_traceerr.h of 2.0.5, beta 3, March 2022, August 2026): 64
 * penalties stand right behind J->exitstubgroup, and the parameters right before it. A penalty has
 * the instruction where a recording began, its value (it doubles each time), and the reason. A
 * value above 60,000 blocks the instruction: LOOP becomes ILOOP. A penalty is overwritten by the
 * 64th that comes after it. J->cur, J->pc, J->pt and J->errinfo keep what they were when the last
 * recording ended.
 */
#ifndef UNWIND_LUAJIT_COMPILER_H
#define UNWIND_LUAJIT_COMPILER_H

#include "base/error.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a recording was given up. Numbers are those of 2.1 (lj_traceerr.h), then those that only 2.0
 * has. */
enum luajit_abort {
    LUAJIT_ABORT_RECERR,
    LUAJIT_ABORT_TRACEUV,
    LUAJIT_ABORT_TRACEOV,
    LUAJIT_ABORT_STACKOV,
    LUAJIT_ABORT_SNAPOV,
    LUAJIT_ABORT_BLACKL,
    LUAJIT_ABORT_RETRY,
    LUAJIT_ABORT_NYIBC,
    LUAJIT_ABORT_LLEAVE,
    LUAJIT_ABORT_LINNER,
    LUAJIT_ABORT_LUNROLL,
    LUAJIT_ABORT_BADTYPE,
    LUAJIT_ABORT_CJITOFF,
    LUAJIT_ABORT_CUNROLL,
    LUAJIT_ABORT_DOWNREC,
    LUAJIT_ABORT_NYIFFU,
    LUAJIT_ABORT_NYIRETL,
    LUAJIT_ABORT_STORENN,
    LUAJIT_ABORT_NOMM,
    LUAJIT_ABORT_IDXLOOP,
    LUAJIT_ABORT_NYITMIX,
    LUAJIT_ABORT_NOCACHE,
    LUAJIT_ABORT_NYICONV,
    LUAJIT_ABORT_NYICALL,
    LUAJIT_ABORT_GFAIL,
    LUAJIT_ABORT_PHIOV,
    LUAJIT_ABORT_TYPEINS,
    LUAJIT_ABORT_MCODEAL,
    LUAJIT_ABORT_MCODEOV,
    LUAJIT_ABORT_MCODELM,
    LUAJIT_ABORT_SPILLOV,
    LUAJIT_ABORT_BADRA,
    LUAJIT_ABORT_NYIIR,
    LUAJIT_ABORT_NYIPHI,
    LUAJIT_ABORT_NYICOAL,
    LUAJIT_ABORT_NYICF, /* 2.0 */
    LUAJIT_ABORT_NYIFF, /* 2.0 */
    LUAJIT_NR_ABORTS,
    LUAJIT_ABORT_UNKNOWN = 0xff,
};

/* Returns a reason in LuaJIT's own words ("leaving loop in root trace"), without what it names. */
const char *luajit_abort_text(uint8_t reason);

/* How a trace ends (TraceLink of lj_jit.h; the same in all versions). */
enum luajit_link {
    LUAJIT_ENDS_UNKNOWN,
    LUAJIT_ENDS_IN_ROOT,        /* jumps to another root trace */
    LUAJIT_ENDS_IN_LOOP,        /* jumps to its own start */
    LUAJIT_ENDS_IN_TAILREC,     /* the same, by tail recursion */
    LUAJIT_ENDS_IN_UPREC,       /* the same, by recursion */
    LUAJIT_ENDS_IN_DOWNREC,     /* the same, by returning */
    LUAJIT_ENDS_IN_INTERPRETER, /* the compiler has given up: the interpreter goes on */
    LUAJIT_ENDS_IN_RETURN,      /* returns to a function that the interpreter runs */
    LUAJIT_ENDS_IN_STITCH, /* calls a function that cannot be compiled; another trace follows */
    LUAJIT_NR_ENDS,
};

enum luajit_fact_kind {
    LUAJIT_FACT_TRACE = 1, /* a trace; the place is its start */
    LUAJIT_FACT_EXIT,      /* an exit that was taken often enough for a side trace and has none; the
                              place is where the interpreter goes on */
    LUAJIT_FACT_BLOCKED,   /* an instruction that starts no trace any more; `what`: its opcode (enum
                              bc_op), or BC_NONE: jit.off() was called for the function */
    LUAJIT_FACT_PENALTY,   /* recordings that began at the place were given up */
    LUAJIT_FACT_ABORT,     /* a recording that began at the place was given up at the other place */
};

/* What the reason of an abort names. */
enum luajit_detail {
    LUAJIT_NAMES_NOTHING,
    LUAJIT_NAMES_OPCODE,     /* enum bc_op */
    LUAJIT_NAMES_IR,         /* an opcode of the compiler's own instructions */
    LUAJIT_NAMES_BUILTIN,    /* a builtin's number (GCfunc.ffid) */
    LUAJIT_NAMES_C_FUNCTION, /* a C function's address */
};

/* One fact. Unused fields are 0. A recording holds it as it stands here. */
struct luajit_fact {
    uint64_t proto;       /* GCproto of the place */
    uint64_t other_proto; /* ABORT: where it was given up; TRACE that is stitched: the call that it
                             stops at; 0: not known */
    uint64_t detail;      /* ABORT: as `names` says. TRACE: address of its machine code */
    uint32_t position, other_position; /* index of the instruction in the bytecode */
    uint32_t count; /* TRACE: bytes of machine code. EXIT: times that it was taken, at most 254.
                       PENALTY, and ABORT of a root trace: the penalty's value. */
    uint16_t trace; /* TRACE, EXIT: its number. ABORT: root of the side trace; 0: of a root trace */
    uint16_t exit;  /* TRACE: exit of its parent. EXIT: number of the exit */
    uint16_t parent, link; /* TRACE: numbers of traces; 0: none */
    uint8_t kind;          /* enum luajit_fact_kind */
    uint8_t what;          /* TRACE: enum luajit_link. PENALTY, ABORT: enum luajit_abort */
    uint8_t names;         /* ABORT: enum luajit_detail */
    uint8_t unused;
};
_Static_assert(sizeof(struct luajit_fact) == 48, "a recording holds it");

/* What holds for the whole compiler. 0: not known. A recording holds it as it stands here. */
struct luajit_compiler_state {
    uint64_t blob;                     /* where the interpreter is loaded */
    uint32_t on;                       /* 1: jit.on(), 0: jit.off() */
    uint32_t traces, max_traces;       /* at `max_traces` all traces are thrown away */
    uint32_t hot_loop, hot_exit;       /* repetitions that start a trace, or a side trace */
    uint32_t try_side;                 /* attempts to compile a side trace */
    uint32_t mcode_kib, max_mcode_kib; /* memory for machine code */
    uint32_t flushes;  /* times that most traces were seen to be gone: a lower bound */
    uint32_t nr_facts; /* of the whole reading */
};
_Static_assert(sizeof(struct luajit_compiler_state) == 48, "a recording holds it");

/* The compiler of one VM, over time. */
struct luajit_compiler;

/* Returns NULL when memory is out, or if the VM was built without the compiler. */
struct luajit_compiler *luajit_compiler_create(const struct luajit_vm *vm);
void luajit_compiler_free(struct luajit_compiler *c);

/* Note a prototype of the VM: its bytecode may have blocked instructions, and a penalty may belong
 * to it. Does nothing when memory is out. */
void luajit_compiler_note(struct luajit_compiler *c, uint64_t proto);

/* If the last recording was given up, and was not seen before: keep it as a fact. Costs a few
 * reads. Returns whether it was kept. */
bool luajit_compiler_poll(struct luajit_compiler *c, const struct memory *m);

/* Read everything. Returns 1 if the facts differ from those of the reading before, 0 if not (or the
 * VM cannot be read), -1 when memory is out. */
int luajit_compiler_read(struct luajit_compiler *c, const struct memory *m, struct error *err);

const struct luajit_compiler_state *luajit_compiler_state(const struct luajit_compiler *c);
const struct luajit_fact *luajit_compiler_facts(const struct luajit_compiler *c, size_t *nr);

/* Find the name by which the instruction at a place calls something. `proto`,
 * `position`: the place. Returns false if it calls nothing, or
 * nothing with a name. */
bool luajit_called(const struct memory *m, const struct luajit_layout *l, uint64_t proto,
                   uint32_t position, char *name, size_t size);

#endif
