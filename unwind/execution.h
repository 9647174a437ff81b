/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Follows machine code without its data: what a function's instructions do to the stack pointer and
 * to registers, said in terms of the registers at the place where the following began. From a pc on
 * to a return this says where the return address and the caller's registers are, like a row of CFI.
 *
 * A machine's file (execution_x86_64.c) does one instruction; unwind/native/explore.h chooses
 * ways. Calls are taken to return, with the registers that the ABI keeps.
 */
#ifndef UNWIND_EXECUTION_H
#define UNWIND_EXECUTION_H

#include "unwind/arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum held_kind {
    HELD_UNKNOWN,
    HELD_NUMBER,   /* add */
    HELD_REGISTER, /* the register's first value + add */
    HELD_SLOT,     /* the word at (the register's first value + at), + add */
    /* A word of `reg` bytes of the table at `add`, at an unknown index: a distance from the table
     * (4 bytes), or an address (8 bytes). */
    HELD_TABLE_WORD,
    HELD_TABLE_TARGET, /* an address that one of these words tells */
};

/* What a register or a word of memory holds. */
struct held {
    uint8_t kind;
    uint8_t reg;
    int32_t at;
    int64_t add;
};

/* A word that was stored at (the register's first value + at). */
struct stored {
    struct held value;
    uint8_t reg;
    int32_t at;
};

enum { EXECUTION_STORES = 40, EXECUTION_WORD = 8 /* bytes */ };

/* The state on one way through the code. */
struct execution {
    uint64_t pc; /* of the next instruction */
    /* What follows may never be reached: a call is on the way, which may never return, or a jump by
     * a table, whose length is not known. */
    bool unsure;
    bool has_read;    /* `read` gave a word: the values are of this thread's memory alone */
    bool stores_lost; /* there were more stores than are kept */
    unsigned nr_stored;
    /* Reads the word at an address that is a SLOT, as it is at the place where the following began.
     * NULL: such a word is unknown. */
    bool (*read)(void *context, struct held address, uint64_t *ret);
    void *context;
    struct held reg[ARCH_REGISTERS_MAX];
    struct stored stored[EXECUTION_STORES];
};

/* More about an effect. */
struct effect_of {
    uint64_t target;
    struct held table;
};

/* Begin at `pc`, where all registers have their first values. */
void execution_begin(struct execution *x, const struct arch *arch, uint64_t pc);

/* Do the instruction at x->pc, of whose code `left` bytes are at `code` (struct arch's `execute`).
 */
enum effect execution_step_x86_64(struct execution *x, const uint8_t *code, size_t left,
                                  struct effect_of *ret);
enum effect execution_step_aarch64(struct execution *x, const uint8_t *code, size_t left,
                                   struct effect_of *ret);

/* ---- for the machines' files ---------------------------------------------------------------- */

extern const struct held held_unknown;
struct held held_number(int64_t n);
/* Additions wrap, as the machine's do. */
int64_t held_sum(int64_t a, int64_t b);
struct held held_plus(struct held v, int64_t by);
struct held held_add(struct held a, struct held b);
struct held held_subtract(struct held a, struct held b);
/* Store `size` bytes, of which only a whole word has a value. What is stored at an address that is
 * not relative to a first value is passed over: it is taken not to be in the frame. */
void execution_store(struct execution *x, struct held address, struct held v, unsigned size);
struct held execution_load(struct execution *x, struct held address);

#endif
