/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One frame type for every kind of code. A walker fills it; symbols/ and output/ read it.
 */
#ifndef UNWIND_FRAME_H
#define UNWIND_FRAME_H

#include <stdbool.h>
#include <stdint.h>

enum frame_kind {
    FRAME_NATIVE, /* code of an ELF file, or of nobody known */
    FRAME_KERNEL,
    FRAME_GUEST_KERNEL,
    FRAME_GUEST_USER,
    FRAME_HYPERVISOR,
    FRAME_JIT, /* code named by a jitdump or perf map */
    FRAME_LUA,
    FRAME_JS,
    FRAME_WASM,
    FRAME_STUB, /* a VM's own glue: entry, exit, builtins */
};

enum frame_tier {
    TIER_NONE,
    TIER_INTERP,
    TIER_BASELINE,
    TIER_TRACE,
    TIER_MAGLEV,
    TIER_TURBOFAN,
};

enum frame_flags {
    FRAME_INLINED = 1,
    FRAME_SIGNAL =
        2, /* was interrupted by a signal (or is the leaf): pc is exact, not a return address */
    FRAME_LEAF = 4, /* the innermost frame */
};

/* How far a frame's truth is proven (design, section 2). Greater is weaker. */
enum provenance {
    PROVENANCE_EXACT,
    PROVENANCE_STALE, /* from memory read at another time, cross-checked */
    PROVENANCE_GUESS, /* consistent, unproven */
};

struct frame {
    uint64_t pc;       /* the executing instruction (leaf, signal) or the return address */
    uint64_t cfa;      /* canonical frame address, where a native walker knew it; else 0 */
    const void *code;  /* opaque: what the codemap says owns pc (codemap.h); NULL: unknown */
    uint32_t function; /* managed function (managed.h), interned by its walker; 0: none */
    uint32_t line;     /* managed position executing; 0: unknown */
    uint16_t column;
    uint16_t trace; /* LuaJIT trace number */
    uint8_t kind, tier, flags, provenance;
    /* What the caller calls a managed function; interned with it (managed.h). NULL: nothing known.
     */
    const char *callname;
};

/* Code of a managed language: named by `function`, not by `code`. */
static inline bool frame_is_managed(const struct frame *f)
{
    return f->kind == FRAME_LUA || f->kind == FRAME_JS || f->kind == FRAME_WASM;
}

/* An address to look a frame up by: inside the call instruction for return addresses. Kernel
 * frames are looked up by the address itself, as perf does: they may be interrupted code or
 * pushed by a thunk (read_zero+0x0 above asm_sysvec_apic_timer_interrupt was measured), and
 * nothing in a callchain tells which. */
static inline uint64_t frame_lookup_pc(const struct frame *f)
{
    bool exact = f->flags & (FRAME_LEAF | FRAME_SIGNAL) || f->kind == FRAME_KERNEL ||
                 f->kind == FRAME_GUEST_KERNEL;
    return exact || f->pc == 0 ? f->pc : f->pc - 1;
}

/* How a stack ended. */
enum stack_end {
    STACK_COMPLETE,  /* reached the entry point or a thread's start */
    STACK_TRUNCATED, /* the next frame lies beyond the recorded stack */
    STACK_NO_CFI,    /* no unwind information at `pc`, and no guess stood the checks */
    STACK_NO_CODE,   /* `pc` is in no mapping */
    STACK_BAD_READ,  /* an address outside the stack and every known file */
    STACK_LOOP,      /* the CFA did not move up */
    STACK_LIMIT,     /* max_frames */
    STACK_NO_REGS,   /* the sample has no user registers (kernel thread) */
    STACK_NR_ENDS,
};

#endif
