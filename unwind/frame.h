/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One frame type for every kind of code. Walkers fill it; symbols/ and output/ read it.
 */
#ifndef UNWIND_FRAME_H
#define UNWIND_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
    FRAME_NATIVE, /* code of an ELF file, or of unknown origin */
    FRAME_KERNEL,
    FRAME_GUEST_KERNEL,
    FRAME_GUEST_USER,
    FRAME_HYPERVISOR,
    FRAME_JIT, /* code named by a jitdump or perf map */
    FRAME_LUA,
    FRAME_JS,
    FRAME_WASM,
    FRAME_MANAGED, /* a managed language that has no kind of its own */
    FRAME_STUB,    /* glue code of a VM: entry, exit, builtins */
};

enum frame_tier {
    TIER_NONE,
    TIER_INTERP,
    TIER_BASELINE,
    TIER_TRACE,
    TIER_MAGLEV,
    TIER_TURBOFAN,
    TIER_ASYNC, /* it does not run, and is not on the stack: it awaits the result of the frames
                   before it */
    NR_TIERS,
};

enum frame_flags {
    FRAME_INLINED = 1,
    FRAME_SIGNAL = 2, /* interrupted by a signal (or the leaf): pc is exact, not a return address */
    FRAME_LEAF = 4,   /* the innermost frame */
    FRAME_MADE = 8,   /* nothing has called from here: pc is where a signal's handler returns to, or
                         the outermost function of a stack that the program made. It is exact */
    FRAME_PLAIN_LUA = 16, /* FRAME_LUA: of plain (PUC-Rio) Lua, not of LuaJIT */
};

/* How well a frame is proven (docs/provenance.md). A greater value is a weaker proof. */
enum provenance {
    PROVENANCE_EXACT,
    PROVENANCE_STALE, /* read from memory of another time, and cross-checked */
    PROVENANCE_GUESS, /* consistent, but unproven */
};

struct frame {
    uint64_t pc;       /* the executing instruction (leaf, signal), or the return address */
    uint64_t cfa;      /* canonical frame address, if a native walker knew it; else 0 */
    const void *code;  /* opaque: the codemap's token for pc's code (codemap.h); NULL: unknown */
    uint32_t function; /* id of the managed function (managed.h), interned by its walker; 0: none */
    uint32_t line;     /* line that executes in the managed function; of WebAssembly the byte in the
                          module, since its code has no lines; 0: unknown */
    uint16_t column;
    uint16_t trace; /* LuaJIT trace number */
    uint8_t kind, tier, flags, provenance;
    /* The name by which the caller calls a managed function, interned with the function
     * (managed.h). NULL: unknown. */
    const char *callname;
};

/* Returns the name of a managed language, as output prints it; NULL: frames of that kind are of no
 * managed language. */
static inline const char *frame_language(uint8_t kind)
{
    switch (kind) {
    case FRAME_LUA:
        return "lua";
    case FRAME_JS:
        return "js";
    case FRAME_WASM:
        return "wasm";
    case FRAME_MANAGED:
        return "managed";
    default:
        return NULL;
    }
}

/* Returns whether the frame is of a managed language: `function` names it, not `code`. */
static inline bool frame_is_managed(const struct frame *f)
{
    return f->kind >= FRAME_LUA && f->kind <= FRAME_MANAGED;
}

/* Returns the address by which to look up a frame. For a return address it lies inside the call
 * instruction. Kernel frames are looked up by the address itself, as perf does, because they may be
 * interrupted code or pushed by a thunk (read_zero+0x0 above asm_sysvec_apic_timer_interrupt was
 * measured), and a callchain does not show which. */
static inline uint64_t frame_lookup_pc(const struct frame *f)
{
    bool exact = f->flags & (FRAME_LEAF | FRAME_SIGNAL | FRAME_MADE) || f->kind == FRAME_KERNEL ||
                 f->kind == FRAME_GUEST_KERNEL;
    return exact || f->pc == 0 ? f->pc : f->pc - 1;
}

/* How the walk of a stack ended. */
enum stack_end {
    STACK_COMPLETE,  /* it reached the entry point or the start of a thread */
    STACK_TRUNCATED, /* the next frame is beyond the recorded stack */
    STACK_NO_CFI,    /* no unwind information for `pc`, and no guess passed the checks */
    STACK_NO_CODE,   /* `pc` is in no mapping */
    STACK_BAD_READ,  /* an address is outside the stack and every known file */
    STACK_LOOP,      /* the CFA did not move up */
    STACK_LIMIT,     /* max_frames was reached */
    STACK_NO_REGS,   /* the sample has no user registers (kernel thread) */
    STACK_NR_ENDS,
};

#endif
