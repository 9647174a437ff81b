/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registers + memory + code map -> frames. This is the room's public header; frame.h, memory.h
 * and codemap.h are its vocabulary.
 *
 * x86-64 only, so far: arch.h is the one place that knows register numbers.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/codemap.h"
#include "unwind/frame.h"
#include "unwind/memory.h"

#include <stddef.h>
#include <stdint.h>

/* Registers in DWARF numbering of x86-64: 0 rax, 1 rdx, 2 rcx, 3 rbx, 4 rsi, 5 rdi, 6 rbp, 7 rsp,
 * 8-15 r8-r15, 16 the return address column = rip. (REG_RBX and so on are <signal.h>'s.) */
enum {
    DWARF_RBX = 3,
    DWARF_RBP = 6,
    DWARF_RSP = 7,
    DWARF_R12 = 12,
    DWARF_R13,
    DWARF_R14,
    DWARF_R15,
    DWARF_RIP,
    DWARF_NR
};

struct registers {
    uint64_t value[DWARF_NR];
    uint32_t known; /* bit per register; a caller-saved register is unknown after one step */
};

/* ---- CFI of one module ------------------------------------------------------------------- */

struct cfi_section {
    const uint8_t *bytes; /* NULL: absent; must outlive the cfi */
    size_t size;
    uint64_t address; /* where it is loaded, in the module's own terms (vaddr) */
};

struct cfi_source {
    const char *name; /* for errors; copied */
    struct cfi_section eh_frame, eh_frame_hdr, debug_frame;
    uint64_t text_address; /* base of DW_EH_PE_textrel, 0 when none */
    uint64_t data_address; /* base of DW_EH_PE_datarel in .eh_frame, 0 when none */
    bool swapped;          /* not in our byte order */
    uint32_t id;           /* unique, not 0: names this module in rule caches */
};

/* Read what is needed to find FDEs fast (the header's table, or an index made by one walk of the
 * section). Errors: damaged beyond use. */
int cfi_create(const struct cfi_source *source, struct cfi **ret, struct error *err);
void cfi_free(struct cfi *cfi);

/* The LuaJIT in the module (luajit/layout.h), whose interpreter no CFI describes wholly. Set once,
 * before others see the cfi; the layout is copied. -1: memory is out. */
struct luajit_layout;
int cfi_set_luajit(struct cfi *cfi, const struct luajit_layout *layout, struct error *err);
/* NULL: there is none, or none whose layout is known. */
const struct luajit_layout *cfi_luajit(const struct cfi *cfi);

/* The V8 in the module (v8/layout.h), whose builtins no CFI describes. Set once, before others see
 * the cfi, which owns the layout from then on. */
struct v8_layout;
void cfi_set_v8(struct cfi *cfi, struct v8_layout *layout);
/* NULL: there is none, or none whose layout is known. */
const struct v8_layout *cfi_v8(const struct cfi *cfi);

/* ---- walking ----------------------------------------------------------------------------- */

struct walker;
struct unwind_input {
    struct registers registers; /* at the sample: all that were recorded */
    struct memory memory;
    struct codemap code;
    unsigned max_frames; /* more end the walk with STACK_LIMIT */
    /* Asked first where code may be a VM's (walker.h); NULL: all frames are native. Any thread. */
    const struct walker *walker;
    /* Two inputs with the same key (NULL equals nothing), given between two calls of
     * unwinder_forget(), have the same code, the same memory behind the stack and the same walker,
     * at all their times: they differ in registers and stack alone. Then, and if memory.reads is
     * set, a walk may take over what an earlier walk of the same `thread` saw. The result is the
     * same. */
    const void *context_key;
    uint32_t thread;
};

/* Result of a walk, innermost frame first. Reused from walk to walk. */
struct unwind_stack {
    VEC(struct frame) frames;
    enum stack_end end;
    uint64_t end_pc;            /* where the walk stopped (NO_CFI, NO_CODE, BAD_READ) */
    uint64_t end_address;       /* the address that could not be read (TRUNCATED, BAD_READ) */
    struct registers registers; /* of the frame behind the last in `frames`, or of the last where
                                   the walk could not step out of it */
};

/* The rules by which code is unwound, as they are found: those of unwinders of several threads,
 * which all of them must have been freed before it is. */
struct unwind_rules;
struct unwind_rules *unwind_rules_create(void); /* NULL when memory is out */
void unwind_rules_free(struct unwind_rules *u); /* may be NULL */

/* One per thread of ours. `rules`: shared with others; NULL: its own. */
struct unwinder;
struct unwinder *unwinder_create(struct unwind_rules *rules); /* NULL when memory is out */
void unwinder_free(struct unwinder *u);
/* Begin a new epoch: context keys of earlier inputs, and pointers in their frames, are void. */
void unwinder_forget(struct unwinder *u);

/* Walk one stack; appends to ret->frames. Always ends, whatever the input. Returns -1 only when
 * memory is out.
 *
 * frame.cfa is the DWARF canonical frame address of that very frame: the value of its caller's
 * stack pointer once it has returned. Every frame that CFI could be applied to has one, be the
 * stack complete or not: the last frame of a truncated stack has its own, too, and (pc, cfa)
 * proves it the same activation as a frame of another sample of the thread. 0: a frame without
 * CFI, or with a CFA that could not be computed. */
int unwind(struct unwinder *u, const struct unwind_input *input, struct unwind_stack *ret,
           struct error *err);

/* The same for `nr` stacks, walked side by side so that one's memory is fetched while others
 * work; ret[i] belongs to inputs[i]. The result is that of nr calls of unwind(). */
enum { UNWIND_LANES = 16 };
int unwind_batch(struct unwinder *u, const struct unwind_input *inputs, struct unwind_stack *ret,
                 size_t nr, struct error *err);

/* Hint that the next walk will read this stack: starts fetching the lines it will touch first. */
void unwind_prefetch(const struct unwind_input *next);

struct unwinder_stats {
    uint64_t frames, rule_hits, rule_misses, guesses;
};
struct unwinder_stats unwinder_stats(const struct unwinder *u);

#endif
