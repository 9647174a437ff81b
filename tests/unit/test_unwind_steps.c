/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A child is single-stepped through real code (this file's, libc's, the dynamic linker's lazy
 * binding and its PLT), and its stack is walked before each instruction. The truth is a shadow
 * stack kept from the call and return instructions alone: return addresses, and the callee-saved
 * registers at each call. So each instruction of each prologue and epilogue on the way is tried.
 */
#include "stepper.h"
#include "unwind_self.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 60000, STACK_COPY = 16384 };

struct check {
    struct stepper stepper;
    struct self *self;
    struct unwinder *u;
    struct unwind_stack stack;
    size_t walks, frames, unknown;
};

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The child's work: library code of many shapes. */
static __attribute__((noinline)) int work(void)
{
    const char *words[] = {"pear", "fig", "apple", "quince", "plum", "medlar", "grape"};
    char text[256];
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        qsort(words, 7, sizeof(*words), compare_words);
        snprintf(text, sizeof(text), "%s %d %5.3f %lx", words[i], i, 2.5 * i, 77ul << i);
        sum += (int)strlen(text) + (int)strtol("1234", NULL, 10) + (int)strtod("2.25e1", NULL);
        char *copy = strdup(text);
        sum += copy[0];
        free(copy);
    }
    return sum;
}

/* Reads what a recording has besides the stack copy: files, but not the stack below its pointer. */
static bool read_file_backed(void *context, const struct memory_query *q, void *to,
                             struct memory_answer *answer)
{
    const struct stepper *s = context;
    enum { STACK_MAX = 8 << 20 };
    (void)answer;
    return q->address - (s->registers.value[DWARF_RSP] - STACK_MAX) >= 2 * STACK_MAX &&
           stepper_read(s, q->address, to, q->size);
}

/* Checks the frame `back` steps out: caller-saved registers are lost, callee-saved registers must
 * be as they were at the call, or unknown. */
static void check_registers(struct check *s, struct unwind_input *in, size_t back)
{
    const struct stepper_call *call = &s->stepper.calls[s->stepper.depth - back];
    in->max_frames = (unsigned)back;
    s->stack.frames.nr = 0;
    assert_int_equal(unwind(s->u, in, &s->stack, NULL), 0);
    for (unsigned i = 0; i < X86_64_SAVED_NR; i++) {
        unsigned reg = arch_x86_64.reg.saved[i];
        if (!(s->stack.registers.known & REG_BIT(reg)))
            s->unknown++;
        else if (s->stack.registers.value[reg] != call->saved[i])
            fail_msg("pc 0x%lx: register %u, %zu frames out, is 0x%lx, not 0x%lx",
                     in->registers.value[DWARF_RIP], reg, back, s->stack.registers.value[reg],
                     call->saved[i]);
    }
}

static void check_stack(struct check *s)
{
    static uint8_t copy[STACK_COPY];
    const size_t depth = s->stepper.depth;
    const uint64_t pc = s->stepper.registers.value[DWARF_RIP];
    struct memory_layer layer = {.read = read_file_backed, .context = &s->stepper};
    struct unwind_input in = stepper_sample(&s->stepper, copy, sizeof(copy));
    in.memory.layers = &layer;
    in.memory.nr_layers = 1;
    in.code = self_codemap(s->self);
    in.max_frames = (unsigned)depth + 1;
    s->stack.frames.nr = 0;
    assert_int_equal(unwind(s->u, &in, &s->stack, NULL), 0);
    if (s->stack.frames.nr != depth + 1)
        fail_msg("pc 0x%lx: %zu frames, not %zu; end %d at 0x%lx", pc, s->stack.frames.nr,
                 depth + 1, s->stack.end, s->stack.end_address);
    for (size_t i = 1; i <= depth; i++) {
        const struct stepper_call *call = &s->stepper.calls[depth - i];
        if (s->stack.frames.at[i].pc != call->pc || s->stack.frames.at[i - 1].cfa != call->sp ||
            s->stack.frames.at[i].provenance != PROVENANCE_EXACT)
            fail_msg("pc 0x%lx, frame %zu: pc 0x%lx cfa 0x%lx, not 0x%lx 0x%lx", pc, i,
                     s->stack.frames.at[i].pc, s->stack.frames.at[i - 1].cfa, call->pc, call->sp);
    }
    s->walks++;
    s->frames += depth;
    check_registers(s, &in, 1);
    check_registers(s, &in, depth);
}

static void every_instruction(void **state)
{
    (void)state;
    static struct check s;
    s = (struct check){.self = self_create(), .u = unwinder_create(NULL)};
    if (!stepper_start(&s.stepper, work)) {
        print_message("no ptrace here\n");
        skip();
    }
    for (int i = 0; i < STEPS && stepper_step(&s.stepper); i++) {
        if (!s.stepper.working)
            continue;
        if (s.stepper.depth == 0 && s.walks > 0)
            break; /* work() returned */
        check_stack(&s);
    }
    stepper_stop(&s.stepper);
    print_message("%zu walks, %zu frames, %zu registers unknown\n", s.walks, s.frames, s.unknown);
    assert_true(s.walks > 5000);
    assert_true(s.frames > 20000);
    vec_free(&s.stack.frames);
    unwinder_free(s.u);
    self_free(s.self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_instruction)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
