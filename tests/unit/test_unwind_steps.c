/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A child is single-stepped through real code (this file's, libc's, the dynamic linker's lazy
 * binding and its PLT), and its stack is walked before each instruction. The truth is a shadow
 * stack kept from the call and return instructions alone: return addresses, and the callee-saved
 * registers at each call. So each instruction of each prologue and epilogue on the way is tried.
 */
#include "unwind_self.h"

#include "unwind/arch_x86_64.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 60000, DEPTH_MAX = 512, STACK_COPY = 16384 };

struct call {
    uint64_t pc, sp; /* return address, and stack pointer behind its slot */
    uint64_t saved[X86_64_SAVED_NR];
};

struct stepper {
    pid_t child;
    struct self *self;
    struct unwinder *u;
    struct unwind_stack stack;
    struct call calls[DEPTH_MAX];
    size_t depth;
    uint64_t sp;
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

static bool read_child(const struct stepper *s, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(s->child, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Reads what a recording has besides the stack copy: files, but not the stack below its pointer. */
static bool read_file_backed(void *context, const struct memory_query *q, void *to,
                             struct memory_answer *answer)
{
    const struct stepper *s = context;
    enum { STACK_MAX = 8 << 20 };
    (void)answer;
    return q->address - (s->sp - STACK_MAX) >= 2 * STACK_MAX &&
           read_child(s, q->address, to, q->size);
}

static struct registers child_registers(const struct user_regs_struct *r)
{
    return (struct registers){.arch = &arch_x86_64,
                              .known = (1u << DWARF_NR) - 1,
                              .value = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp,
                                        r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13,
                                        r->r14, r->r15, r->rip}};
}

static void saved_registers(const struct registers *r, uint64_t *to)
{
    for (unsigned i = 0; i < X86_64_SAVED_NR; i++)
        to[i] = r->value[arch_x86_64.reg.saved[i]];
}

/* Checks the frame `back` steps out: caller-saved registers are lost, callee-saved registers must
 * be as they were at the call, or unknown. */
static void check_registers(struct stepper *s, struct unwind_input *in, size_t back)
{
    const struct call *call = &s->calls[s->depth - back];
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

static void check_stack(struct stepper *s, const struct registers *r)
{
    static uint8_t copy[STACK_COPY];
    struct iovec local = {copy, sizeof(copy)};
    struct iovec remote = {(void *)(uintptr_t)r->value[DWARF_RSP], sizeof(copy)};
    ssize_t size = process_vm_readv(s->child, &local, 1, &remote, 1, 0);
    assert_true(size > 0);
    s->sp = r->value[DWARF_RSP];
    struct memory_layer layer = {.read = read_file_backed, .context = s};
    struct unwind_input in = {
        .registers = *r,
        .memory = {.stack = copy,
                   .stack_start = r->value[DWARF_RSP],
                   .stack_size = (size_t)size,
                   .layers = &layer,
                   .nr_layers = 1},
        .code = self_codemap(s->self),
        .max_frames = (unsigned)s->depth + 1,
    };
    s->stack.frames.nr = 0;
    assert_int_equal(unwind(s->u, &in, &s->stack, NULL), 0);
    if (s->stack.frames.nr != s->depth + 1)
        fail_msg("pc 0x%lx: %zu frames, not %zu; end %d at 0x%lx", r->value[DWARF_RIP],
                 s->stack.frames.nr, s->depth + 1, s->stack.end, s->stack.end_address);
    for (size_t i = 1; i <= s->depth; i++) {
        const struct call *call = &s->calls[s->depth - i];
        if (s->stack.frames.at[i].pc != call->pc || s->stack.frames.at[i - 1].cfa != call->sp ||
            s->stack.frames.at[i].provenance != PROVENANCE_EXACT)
            fail_msg("pc 0x%lx, frame %zu: pc 0x%lx cfa 0x%lx, not 0x%lx 0x%lx",
                     r->value[DWARF_RIP], i, s->stack.frames.at[i].pc,
                     s->stack.frames.at[i - 1].cfa, call->pc, call->sp);
    }
    s->walks++;
    s->frames += s->depth;
    check_registers(s, &in, 1);
    check_registers(s, &in, s->depth);
}

/* Follows one instruction: was it a call (the next instruction's address was pushed), or did the
 * stack pointer pass return addresses? */
static void follow(struct stepper *s, const struct registers *before, const struct registers *now)
{
    uint8_t code[8];
    uint64_t top = 0, sp = now->value[DWARF_RSP], pc = before->value[DWARF_RIP];
    while (s->depth > 0 && s->calls[s->depth - 1].sp <= sp)
        s->depth--;
    if (sp != before->value[DWARF_RSP] - 8 || now->value[DWARF_RIP] - pc < 8 ||
        !read_child(s, sp, &top, sizeof(top)) || top - pc > 8 || top == pc ||
        !read_child(s, top - ARCH_CALL_MAX, code, ARCH_CALL_MAX) ||
        !x86_64_is_call(code + ARCH_CALL_MAX, ARCH_CALL_MAX))
        return;
    assert_true(s->depth < DEPTH_MAX);
    struct call *call = &s->calls[s->depth++];
    call->pc = top;
    call->sp = sp + 8;
    saved_registers(before, call->saved);
}

static struct registers get_registers(struct stepper *s)
{
    struct user_regs_struct r;
    assert_int_equal(ptrace(PTRACE_GETREGS, s->child, NULL, &r), 0);
    return child_registers(&r);
}

static bool step(struct stepper *s)
{
    int status;
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->child, NULL, NULL), 0);
    assert_int_equal(waitpid(s->child, &status, 0), s->child);
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

static void child(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    _exit(work() == 0);
}

static void every_instruction(void **state)
{
    (void)state;
    static struct stepper s;
    s = (struct stepper){.self = self_create(), .u = unwinder_create(NULL)};
    s.child = fork();
    if (s.child == 0)
        child();
    int status;
    assert_int_equal(waitpid(s.child, &status, 0), s.child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) {
        print_message("no ptrace here\n");
        skip();
    }
    bool working = false;
    struct registers before = get_registers(&s), now;
    for (int i = 0; i < STEPS && step(&s); i++, before = now) {
        now = get_registers(&s);
        if (now.value[DWARF_RIP] == (uint64_t)(uintptr_t)work)
            working = true;
        if (!working)
            continue;
        follow(&s, &before, &now);
        if (s.depth == 0 && s.walks > 0)
            break; /* work() returned */
        check_stack(&s, &now);
    }
    kill(s.child, SIGKILL);
    waitpid(s.child, &status, 0);
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
