/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A child that is single-stepped, and a shadow stack of its calls. The shadow stack is kept from
 * the call instructions and the stack pointer alone, so it is the truth for an unwinder. x86-64
 * only.
 */
#ifndef TESTS_UNIT_STEPPER_H
#define TESTS_UNIT_STEPPER_H

#include "unwind/arch_x86_64.h"
#include "unwind/unwind.h"

#include <sys/types.h>

enum { STEPPER_DEPTH_MAX = 512 };

struct stepper_call {
    uint64_t pc, sp; /* return address, and stack pointer behind its slot */
    uint64_t saved[X86_64_SAVED_NR];
};

struct stepper {
    pid_t child;
    uint64_t work; /* address of the child's work: calls are followed from there on */
    bool working;
    struct registers registers; /* before the next instruction */
    struct stepper_call calls[STEPPER_DEPTH_MAX];
    size_t depth;
};

/* Starts a child that stops before it calls work(). Returns false where ptrace is forbidden. */
bool stepper_start(struct stepper *s, int (*work)(void));
/* Lets the child execute one instruction. Returns false if it does not stop behind it. */
bool stepper_step(struct stepper *s);
/* Kills the child. */
void stepper_stop(struct stepper *s);

bool stepper_read(const struct stepper *s, uint64_t address, void *to, size_t size);
/* Returns what a sample has here: registers, and a copy of the stack in `copy`, of at most `max`
 * bytes. */
struct unwind_input stepper_sample(const struct stepper *s, uint8_t *copy, size_t max);

#endif
