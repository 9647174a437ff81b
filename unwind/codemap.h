/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What code stands at an address at a time. unwind asks; session/ answers, over mappings, ELF
 * files and jitdumps.
 */
#ifndef UNWIND_CODEMAP_H
#define UNWIND_CODEMAP_H

#include <stdbool.h>
#include <stdint.h>

struct cfi;

enum code_owner {
    CODE_NONE, /* in no mapping */
    CODE_ELF,  /* an ELF file's mapping */
    CODE_JIT,  /* a jitdump or perf-map entry */
    CODE_ANON, /* executable anonymous memory nobody described */
    CODE_KERNEL,
};

/* The answer; holds for every pc in [start, end). */
struct code {
    enum code_owner owner;
    uint64_t start, end;
    uint64_t bias;         /* pc - bias = address in the CFI's own terms (ELF vaddr; jit: offset) */
    const struct cfi *cfi; /* unwind rules; NULL: none. Lives as long as the codemap */
    uint32_t cfi_id;       /* unique per cfi in a run; 0 when cfi is NULL */
    bool executable;       /* the mapping may be executed: a return address may point here */
    const void *token;     /* goes into frame.code; opaque here */
};

struct codemap {
    /* Returns false (and owner CODE_NONE) when nothing is known at `pc`. Any thread. */
    bool (*lookup)(void *context, uint64_t pc, uint64_t time, struct code *ret);
    void *context;
};

static inline bool codemap_lookup(const struct codemap *m, uint64_t pc, uint64_t time,
                                  struct code *ret)
{
    return m->lookup(m->context, pc, time, ret);
}

#endif
