/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A trace in readable form: its machine code, the bytecode and source of each part of the code, and
 * where its exits lead.
 */
#ifndef UNWIND_LUAJIT_LISTING_H
#define UNWIND_LUAJIT_LISTING_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/luajit/layout.h"
#include "unwind/luajit/names.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stdint.h>

enum { LISTING_BYTECODE = 40 };

/* An instruction of a Lua function. */
struct luajit_listing_place {
    uint32_t function;               /* id of the managed function; 0: not known */
    uint32_t line;                   /* 0: not known */
    char bytecode[LISTING_BYTECODE]; /* about as luajit -bl prints it; "": not known */
};

/* A snapshot: where the interpreter goes on when a guard between this snapshot and the next
 * fails. */
struct luajit_listing_exit {
    uint32_t offset;  /* where its machine code begins; 0 also when the build does not store it */
    uint32_t inlined; /* number of functions that the trace has inlined there */
    struct luajit_listing_place place;
};

enum luajit_listing_target { LISTING_EXIT, LISTING_TRACE, LISTING_INTERPRETER };
/* A possible jump out of the code: a reader that disassembles knows if there really is a jump. */
struct luajit_listing_jump {
    uint32_t offset;
    uint8_t target; /* enum luajit_listing_target */
    uint16_t trace; /* trace that the jump leads to; 0: none */
    uint32_t exit;  /* exit that the jump is for; UINT32_MAX: none */
};

struct luajit_listing {
    uint64_t address;             /* address of the machine code */
    uint8_t *code;                /* `size` bytes */
    uint32_t size, loop;          /* loop: offset where the loop begins; 0: no loop */
    uint16_t number, root, link;  /* link: the trace that follows; itself: a loop; 0: none */
    uint16_t parent, parent_exit; /* parent of a side trace; parent 0: not known, or a root trace */
    bool has_offsets;             /* exits have the offset where their code begins */
    uint8_t provenance;           /* weakest of all reads */
    struct luajit_listing_place start;
    VEC(struct luajit_listing_exit) exits;
    VEC(struct luajit_listing_jump) jumps;
};

/* Read trace `number` of source->vm from source->memory. Returns 1 if `pc` is in its machine code;
 * 0: the trace is not recorded, or is another; -1: memory is out. The caller frees the result with
 * luajit_listing_free(). */
int luajit_listing_read(const struct luajit_names_source *source, struct luajit_names *names,
                        uint32_t number, uint64_t pc, struct luajit_listing *ret,
                        struct error *err);
void luajit_listing_free(struct luajit_listing *l);

#endif
