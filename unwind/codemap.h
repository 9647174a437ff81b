/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Says which code is at an address at a given time. unwind/ asks; session/ answers from mappings,
 * ELF files and jitdumps.
 */
#ifndef UNWIND_CODEMAP_H
#define UNWIND_CODEMAP_H

#include <stdbool.h>
#include <stdint.h>

struct cfi;

enum code_owner {
    CODE_NONE, /* the address is in no mapping */
    CODE_ELF,  /* an ELF file's mapping */
    CODE_JIT,  /* a jitdump or perf-map entry */
    CODE_ANON, /* executable anonymous memory that nothing describes */
    CODE_KERNEL,
};

/* The answer, which holds for every pc in [start, end). */
struct code {
    enum code_owner owner;
    uint64_t start, end;
    uint64_t bias;         /* pc - bias is the address as the CFI uses it (ELF: vaddr; jit:
                              offset) */
    const struct cfi *cfi; /* unwind rules, valid as long as the codemap; NULL: none */
    uint32_t cfi_id;       /* unique per cfi in a run; 0 when cfi is NULL */
    bool executable;       /* the mapping is executable: a return address may point here */
    const void *token;     /* copied to frame.code; opaque here */
};

struct codemap {
    /* Returns false, with owner CODE_NONE, if nothing is known at `pc`. Any thread. */
    bool (*lookup)(void *context, uint64_t pc, uint64_t time, struct code *ret);
    void *context;
    /* Get where the function begins and ends that contains `pc`, by a symbol of its file or its
     * compiler's list: for code without CFI. `end` is 0 if it is not known. Returns false if
     * nothing names the function. NULL: nothing ever does. Any thread. */
    bool (*function)(void *context, uint64_t pc, uint64_t time, uint64_t *start, uint64_t *end);
    /* Get the function that a file's word at `slot` leads to: its linker has put the address of a
     * function of another file there. Returns false if it is not known. NULL: it never is. Any
     * thread. */
    bool (*imported)(void *context, uint64_t slot, uint64_t *function);
};

static inline bool codemap_lookup(const struct codemap *m, uint64_t pc, uint64_t time,
                                  struct code *ret)
{
    return m->lookup(m->context, pc, time, ret);
}

#endif
