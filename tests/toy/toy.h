/* SPDX-License-Identifier: GPL-2.0-only */
/* The structures of the toy VM, as it has them in memory: for the program and for its walker. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include <stdint.h>

#define TOY_FUNCTION UINT64_C(0x6f7466756e637431)
#define TOY_STATE UINT64_C(0x6f74737461746531)

enum { TOY_NAME = 24, TOY_CODE = 8, TOY_FRAMES = 32 };

/* A function: in the heap, and unchanged while it lives. */
struct toy_function {
    uint64_t magic;
    char name[TOY_NAME], file[TOY_NAME];
    uint32_t line; /* each instruction has a line of its own, from the next one on */
    uint32_t code[TOY_CODE];
};

struct toy_frame {
    uint64_t function; /* address of a struct toy_function */
    uint64_t pc;       /* index of the instruction that executes */
};

/* A run of the interpreter. The struct is in the interpreter's C frame. */
struct toy_state {
    uint64_t magic, self; /* `self`: its own address */
    uint64_t cfa;         /* of the interpreter's C frame */
    uint64_t top;         /* index of the running frame */
    struct toy_frame frames[TOY_FRAMES];
};

/* The exported data by which the VM is found in a file. */
struct toy_about {
    uint64_t start, end; /* the interpreter's code */
};

#endif
