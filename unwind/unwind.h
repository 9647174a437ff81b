/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registers + memory + code map -> frames. This is the public header of unwind/; frame.h, memory.h
 * and codemap.h define its types.
 *
 * What they are on each machine is in arch.h.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/arch.h"
#include "unwind/codemap.h"
#include "unwind/frame.h"
#include "unwind/memory.h"

#include <stddef.h>
#include <stdint.h>

struct registers {
    const struct arch *arch; /* the machine that the numbers of registers belong to */
    uint64_t value[ARCH_REGISTERS_MAX];
    uint64_t known; /* one bit per register; a caller-saved register is unknown after one step */
};

static inline uint64_t registers_pc(const struct registers *r)
{
    return r->value[r->arch->reg.pc];
}

static inline uint64_t registers_sp(const struct registers *r)
{
    return r->value[r->arch->reg.sp];
}

/* ---- CFI of one module ------------------------------------------------------------------- */

struct cfi_section {
    const uint8_t *bytes; /* NULL: absent; must outlive the cfi */
    size_t size;
    uint64_t address; /* load address in the module's own terms (vaddr) */
};

struct cfi_source {
    const char *name;        /* for error messages; copied */
    const struct arch *arch; /* the module's machine */
    struct cfi_section eh_frame, eh_frame_hdr, debug_frame;
    uint64_t text_address; /* base of DW_EH_PE_textrel; 0: none */
    uint64_t data_address; /* base of DW_EH_PE_datarel in .eh_frame; 0: none */
    uint64_t entry;        /* where the kernel starts a program of this file; 0: nowhere */
    bool swapped;          /* the byte order is not ours */
    uint32_t id;           /* unique, not 0: identifies this module in rule caches */
};

/* Read what is needed to find FDEs fast: the header's table, or an index made by one pass over the
 * section. Without any section the cfi covers no address: the file has no CFI. Fails if the data is
 * damaged beyond use. */
int cfi_create(const struct cfi_source *source, struct cfi **ret, struct error *err);
void cfi_free(struct cfi *cfi);
/* Returns whether any address has CFI. `cfi` may be NULL. */
bool cfi_has_rules(const struct cfi *cfi);

/* Add a runtime that was found in the module (runtime.h), before others see the cfi. The cfi owns
 * the layout from then on, and frees it by the runtime's `layout_free`. Returns -1, and frees the
 * layout, when there are too many. */
struct runtime;
int cfi_add_runtime(struct cfi *cfi, const struct runtime *rt, void *layout, struct error *err);
/* Returns the layout of that runtime in the module; NULL: it has none. `cfi` may be NULL. */
const void *cfi_runtime(const struct cfi *cfi, const struct runtime *rt);
/* Get the addresses at which the FDE begins and ends that covers `address`: of a function, or of a
 * part that its compiler has put elsewhere. `end` may be NULL. Returns false if none does. */
bool cfi_function(const struct cfi *cfi, uint64_t address, uint64_t *begin, uint64_t *end);
/* Returns whether an address is in the first instructions of the program: nobody has called them.
 */
bool cfi_is_entry(const struct cfi *cfi, uint64_t address);

/* ---- walking ----------------------------------------------------------------------------- */

struct walker;
struct unwind_trace;
struct unwind_input {
    struct registers registers; /* at the sample: all recorded registers. Their machine is the
                                   walk's: it uses no CFI of another one */
    struct memory memory;
    struct codemap code;
    unsigned max_frames; /* with more frames the walk ends with STACK_LIMIT */
    /* Asked first where code may belong to a VM (walker.h). NULL: all frames are native. Any
     * thread. */
    const struct walker *walker;
    /* Inputs with the same key (NULL equals nothing), given between two calls of unwinder_forget(),
     * have the same code, the same memory behind the stack and the same walker at all their times:
     * only registers and stack differ. If memory.reads is set too, a walk may then reuse what an
     * earlier walk of the same `thread` saw. The result is the same. */
    const void *context_key;
    uint32_t thread;
    /* Gets told what unwind() decides and why (trace.h). NULL: nobody asks. */
    const struct unwind_trace *trace;
};

/* Result of a walk, innermost frame first. It can be reused for the next walk. */
struct unwind_stack {
    VEC(struct frame) frames;
    enum stack_end end;
    uint64_t end_pc;            /* where the walk stopped (NO_CFI, NO_CODE, BAD_READ) */
    uint64_t end_address;       /* the address that could not be read (TRUNCATED, BAD_READ) */
    struct registers registers; /* of the frame outside the last in `frames`, or of the last
                                   frame if the walk could not step out of it */
};

/* The rules for unwinding code, collected as they are found. Unwinders of several threads may share
 * them; free all these unwinders before the rules. */
struct unwind_rules;
struct unwind_rules *unwind_rules_create(void); /* NULL when memory is out */
void unwind_rules_free(struct unwind_rules *u); /* may be NULL */

/* One per thread of ours. `rules`: shared with other unwinders; NULL: the unwinder has its own. */
struct unwinder;
struct unwinder *unwinder_create(struct unwind_rules *rules); /* NULL when memory is out */
void unwinder_free(struct unwinder *u);
/* Begin a new epoch: context keys of earlier inputs, and pointers in their frames, become
 * invalid. */
void unwinder_forget(struct unwinder *u);

/* Walk one stack and append its frames to ret->frames. The walk always ends, for any input. Returns
 * -1 only when out of memory. frame.cfa is the DWARF canonical frame address of the frame itself:
 * the value of the caller's stack pointer after the frame has returned. Every frame to which CFI
 * could be applied has one, even the last frame of a truncated stack. If another sample of the
 * thread has a frame with the same (pc, cfa), both are the same activation. 0: a frame without CFI,
 * or with a CFA that could not be computed. */
int unwind(struct unwinder *u, const struct unwind_input *input, struct unwind_stack *ret,
           struct error *err);

/* Walk `nr` stacks side by side, so that the memory of one is fetched while others work. ret[i]
 * belongs to inputs[i]. The result is the same as that of nr calls of unwind(). */
enum { UNWIND_LANES = 16 };
int unwind_batch(struct unwinder *u, const struct unwind_input *inputs, struct unwind_stack *ret,
                 size_t nr, struct error *err);

/* Hint that the next walk will read this stack: start to fetch the cache lines it reads first. */
void unwind_prefetch(const struct unwind_input *next);

struct unwinder_stats {
    uint64_t frames, rule_hits, rule_misses, guesses;
};
struct unwinder_stats unwinder_stats(const struct unwinder *u);

#endif
