/* SPDX-License-Identifier: GPL-2.0-only */
/* A toy VM that runs a toy program: Toy calls Toy, C, and through C Toy again. */
#include "tests/toy/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RETURN, SPIN, CALL, CALL_C }; /* CALL: + 16 * the function's number */

static struct toy_function *functions[8];
static volatile unsigned long sink;

void c_spins(void);
void c_calls_toy(void);
void toy_run(struct toy_function *entry);

__attribute__((noinline)) void c_spins(void)
{
    for (unsigned i = 0; i < 20000; i++)
        sink += i;
}

/* The interpreter: ordinary C, in a section of its own. */
__attribute__((noinline, section("toy_code"))) void toy_run(struct toy_function *entry)
{
    volatile struct toy_state s;
    s.cfa = (uint64_t)__builtin_frame_address(0) + 16;
    s.top = 0;
    s.frames[0].function = (uint64_t)entry;
    s.frames[0].pc = 0;
    s.self = (uint64_t)&s;
    s.magic = TOY_STATE;
    for (;;) {
        volatile struct toy_frame *f = &s.frames[s.top];
        uint32_t op = ((struct toy_function *)f->function)->code[f->pc];
        if (op % 16 == SPIN) {
            for (unsigned i = 0; i < 20000; i++)
                sink += i;
        } else if (op % 16 == CALL) {
            s.frames[s.top + 1].function = (uint64_t)functions[op / 16];
            s.frames[s.top + 1].pc = 0;
            s.top++;
            continue;
        } else if (op % 16 == CALL_C) {
            op / 16 ? c_calls_toy() : c_spins();
        } else if (s.top == 0) {
            s.magic = 0;
            return;
        } else {
            s.top--;
        }
        s.frames[s.top].pc++;
    }
}

__attribute__((noinline)) void c_calls_toy(void)
{
    toy_run(functions[3]);
    sink++;
}

extern char __start_toy_code[], __stop_toy_code[];
__attribute__((visibility("default"), used)) const struct {
    char *start, *end;
} toy_about = {__start_toy_code, __stop_toy_code};

static void define(int number, const char *name, uint32_t line, const uint32_t *code)
{
    struct toy_function *f = calloc(1, sizeof(*f));
    f->magic = TOY_FUNCTION;
    snprintf(f->name, sizeof(f->name), "%s", name);
    snprintf(f->file, sizeof(f->file), "program.toy");
    f->line = line;
    memcpy(f->code, code, sizeof(f->code));
    functions[number] = f;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 2;
    define(0, "start", 10, (uint32_t[TOY_CODE]){CALL + 16, CALL + 16 * 2, RETURN});
    define(1, "leaf", 20, (uint32_t[TOY_CODE]){SPIN, CALL_C, RETURN});
    define(2, "mixed", 30, (uint32_t[TOY_CODE]){CALL + 16, CALL_C + 16, RETURN});
    define(3, "inner", 40, (uint32_t[TOY_CODE]){CALL + 16, RETURN});
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    while (clock() < end)
        toy_run(functions[0]);
    return 0;
}
