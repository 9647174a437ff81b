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
};

static inline bool codemap_lookup(const struct codemap *m, uint64_t pc, uint64_t time,
                                  struct code *ret)
{
    return m->lookup(m->context, pc, time, ret);
}

#endif
