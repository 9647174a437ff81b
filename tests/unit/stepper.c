/* SPDX-License-Identifier: GPL-2.0-only */
#include "stepper.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static ssize_t read_some(const struct stepper *s, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(s->child, &local, 1, &remote, 1, 0);
}

bool stepper_read(const struct stepper *s, uint64_t address, void *to, size_t size)
{
    return read_some(s, address, to, size) == (ssize_t)size;
}

static void get_registers(struct stepper *s)
{
    struct user_regs_struct r;
    assert_int_equal(ptrace(PTRACE_GETREGS, s->child, NULL, &r), 0);
    s->registers =
        (struct registers){.arch = &arch_x86_64,
                           .known = (1u << DWARF_NR) - 1,
                           .value = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                     r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip}};
}

/* Follows one instruction: was it a call (the next instruction's address was pushed), or did the
 * stack pointer pass return addresses? */
static void follow(struct stepper *s, const struct registers *before)
{
    const struct registers *now = &s->registers;
    uint8_t code[ARCH_CALL_MAX];
    uint64_t top = 0, sp = now->value[DWARF_RSP], pc = before->value[DWARF_RIP];
    while (s->depth > 0 && s->calls[s->depth - 1].sp <= sp)
        s->depth--;
    if (sp != before->value[DWARF_RSP] - 8 || now->value[DWARF_RIP] - pc < 8 ||
        !stepper_read(s, sp, &top, sizeof(top)) || top - pc > 8 || top == pc ||
        !stepper_read(s, top - ARCH_CALL_MAX, code, ARCH_CALL_MAX) ||
        !x86_64_is_call(code + ARCH_CALL_MAX, ARCH_CALL_MAX))
        return;
    assert_true(s->depth < STEPPER_DEPTH_MAX);
    struct stepper_call *call = &s->calls[s->depth++];
    call->pc = top;
    call->sp = sp + 8;
    for (unsigned i = 0; i < X86_64_SAVED_NR; i++)
        call->saved[i] = before->value[arch_x86_64.reg.saved[i]];
}

bool stepper_start(struct stepper *s, int (*work)(void))
{
    int status;
    s->work = (uint64_t)(uintptr_t)work;
    s->child = fork();
    if (s->child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(work() == 0);
    }
    assert_int_equal(waitpid(s->child, &status, 0), s->child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
        return false;
    get_registers(s);
    return true;
}

bool stepper_step(struct stepper *s)
{
    const struct registers before = s->registers;
    int status;
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->child, NULL, NULL), 0);
    assert_int_equal(waitpid(s->child, &status, 0), s->child);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        return false;
    get_registers(s);
    s->working |= s->registers.value[DWARF_RIP] == s->work;
    if (s->working)
        follow(s, &before);
    return true;
}

void stepper_stop(struct stepper *s)
{
    kill(s->child, SIGKILL);
    waitpid(s->child, NULL, 0);
}

struct unwind_input stepper_sample(const struct stepper *s, uint8_t *copy, size_t max)
{
    uint64_t sp = s->registers.value[DWARF_RSP];
    ssize_t size = read_some(s, sp, copy, max);
    assert_true(size > 0);
    return (struct unwind_input){
        .registers = s->registers,
        .memory = {.stack = copy, .stack_start = sp, .stack_size = (size_t)size}};
}
