/* SPDX-License-Identifier: GPL-2.0-only */
/* What a function's instructions do to its stack and registers, one short function at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/arch_x86_64.h"
#include "unwind/execution.h"

#include <string.h>

enum { START = 0x1000 };

/* Do all instructions of the code up to its end, or to the first that is no plain one. Returns the
 * last one's effect. */
static enum effect run(struct execution *x, const char *code, size_t size, struct effect_of *ret)
{
    enum effect effect = EFFECT_NEXT;
    execution_begin(x, &arch_x86_64, START);
    while (effect == EFFECT_NEXT && x->pc - START < size) {
        size_t at = x->pc - START;
        effect = arch_x86_64.execute(x, (const uint8_t *)code + at, size - at, ret);
    }
    return effect;
}

#define RUN(x, code) run(x, code, sizeof(code) - 1, &(struct effect_of){0})

static void expect(const struct execution *x, unsigned reg, enum held_kind kind, unsigned base,
                   int at, int add)
{
    const struct held *v = &x->reg[reg];
    assert_int_equal(v->kind, kind);
    if (kind == HELD_UNKNOWN)
        return;
    assert_int_equal(v->add, add);
    if (kind == HELD_NUMBER)
        return;
    assert_int_equal(v->reg, base);
    if (kind == HELD_SLOT)
        assert_int_equal(v->at, at);
}

static void leaves(void **state)
{
    (void)state;
    struct execution x;
    /* add $0x10,%rsp; pop %r12; pop %rbp; ret */
    assert_int_equal(RUN(&x, "\x48\x83\xc4\x10\x41\x5c\x5d\xc3"), EFFECT_RETURN);
    expect(&x, DWARF_R12, HELD_SLOT, DWARF_RSP, 0x10, 0);
    expect(&x, DWARF_RBP, HELD_SLOT, DWARF_RSP, 0x18, 0);
    expect(&x, DWARF_RIP, HELD_SLOT, DWARF_RSP, 0x20, 0);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RSP, 0, 0x28);
    expect(&x, DWARF_RBX, HELD_REGISTER, DWARF_RBX, 0, 0);
    assert_false(x.unsure);
    /* add $0x100,%rsp; ret $16 */
    assert_int_equal(RUN(&x, "\x48\x81\xc4\x00\x01\x00\x00\xc2\x10\x00"), EFFECT_RETURN);
    expect(&x, DWARF_RIP, HELD_SLOT, DWARF_RSP, 0x100, 0);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RSP, 0, 0x118);
    /* leave; ret */
    assert_int_equal(RUN(&x, "\xc9\xc3"), EFFECT_RETURN);
    expect(&x, DWARF_RIP, HELD_SLOT, DWARF_RBP, 8, 0);
    expect(&x, DWARF_RBP, HELD_SLOT, DWARF_RBP, 0, 0);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RBP, 0, 16);
    /* lea -0x18(%rbp),%rsp; pop %rbx; pop %r12; pop %r13; pop %rbp; ret */
    assert_int_equal(RUN(&x, "\x48\x8d\x65\xe8\x5b\x41\x5c\x41\x5d\x5d\xc3"), EFFECT_RETURN);
    expect(&x, DWARF_RBX, HELD_SLOT, DWARF_RBP, -0x18, 0);
    expect(&x, DWARF_RIP, HELD_SLOT, DWARF_RBP, 8, 0);
}

static void enters_and_leaves(void **state)
{
    (void)state;
    struct execution x;
    /* push %rbp; mov %rsp,%rbp; push %rbx; sub $0x28,%rsp; mov %rdi,%rbx; call; add $0x28,%rsp;
     * pop %rbx; pop %rbp; ret */
    static const char code[] = "\x55\x48\x89\xe5\x53\x48\x83\xec\x28\x48\x89\xfb"
                               "\xe8\x00\x01\x00\x00"
                               "\x48\x83\xc4\x28\x5b\x5d\xc3";
    struct effect_of e;
    assert_int_equal(run(&x, code, sizeof(code) - 1, &e), EFFECT_CALL);
    assert_int_equal(e.target, START + 17 + 0x100);
    assert_true(x.unsure);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RSP, 0, -0x38);
    expect(&x, DWARF_RBP, HELD_REGISTER, DWARF_RSP, 0, -8);
    expect(&x, DWARF_RBX, HELD_REGISTER, DWARF_RDI, 0, 0);
    expect(&x, DWARF_RDI, HELD_UNKNOWN, 0, 0, 0); /* calls keep six registers */
    enum effect effect = EFFECT_NEXT;
    for (size_t at; effect == EFFECT_NEXT;) {
        at = x.pc - START;
        effect = arch_x86_64.execute(&x, (const uint8_t *)code + at, sizeof(code) - 1 - at, &e);
    }
    assert_int_equal(effect, EFFECT_RETURN);
    expect(&x, DWARF_RBX, HELD_REGISTER, DWARF_RBX, 0, 0);
    expect(&x, DWARF_RBP, HELD_REGISTER, DWARF_RBP, 0, 0);
    expect(&x, DWARF_RIP, HELD_SLOT, DWARF_RSP, 0, 0);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RSP, 0, 8);
}

static void what_is_not_known(void **state)
{
    (void)state;
    struct execution x;
    RUN(&x, "\x48\x83\xe4\xf0"); /* and $-16,%rsp */
    expect(&x, DWARF_RSP, HELD_UNKNOWN, 0, 0, 0);
    RUN(&x, "\x48\x29\xc4"); /* sub %rax,%rsp */
    expect(&x, DWARF_RSP, HELD_UNKNOWN, 0, 0, 0);
    RUN(&x, "\x89\xdb"); /* mov %ebx,%ebx: the upper half is lost */
    expect(&x, DWARF_RBX, HELD_UNKNOWN, 0, 0, 0);
    RUN(&x, "\x31\xed"); /* xor %ebp,%ebp */
    expect(&x, DWARF_RBP, HELD_NUMBER, 0, 0, 0);
    RUN(&x, "\xbb\x05\x00\x00\x00"); /* mov $5,%ebx */
    expect(&x, DWARF_RBX, HELD_NUMBER, 0, 0, 5);
    RUN(&x, "\x66\x44\x0f\x6f\xe5"); /* movdqa %xmm5,%xmm12: no general register */
    expect(&x, DWARF_R12, HELD_REGISTER, DWARF_R12, 0, 0);
    RUN(&x, "\x0f\xb6\xdb"); /* movzbl %bl,%ebx */
    expect(&x, DWARF_RBX, HELD_UNKNOWN, 0, 0, 0);
    /* mov %rbx,8(%rsp); movl $0,12(%rsp); mov 8(%rsp),%rbp: half of the word was overwritten */
    RUN(&x, "\x48\x89\x5c\x24\x08\xc7\x44\x24\x0c\x00\x00\x00\x00\x48\x8b\x6c\x24\x08");
    expect(&x, DWARF_RBP, HELD_UNKNOWN, 0, 0, 0);
    /* mov %rbx,8(%rsp); mov 8(%rsp),%rbp */
    RUN(&x, "\x48\x89\x5c\x24\x08\x48\x8b\x6c\x24\x08");
    expect(&x, DWARF_RBP, HELD_REGISTER, DWARF_RBX, 0, 0);
    assert_int_equal(RUN(&x, "\x06"), EFFECT_STOP); /* no instruction */
    assert_int_equal(RUN(&x, "\x0f\x0b"), EFFECT_STOP);
}

static void ways(void **state)
{
    (void)state;
    struct execution x;
    struct effect_of e;
    assert_int_equal(run(&x, "\x74\x10", 2, &e), EFFECT_BRANCH);
    assert_int_equal(e.target, START + 0x12);
    assert_int_equal(run(&x, "\xeb\xfe", 2, &e), EFFECT_JUMP);
    assert_int_equal(e.target, START);
    assert_int_equal(run(&x, "\xff\xe0", 2, &e), EFFECT_JUMP_UNKNOWN);
    /* lea 0x100(%rip),%rax; jmp *%rax */
    assert_int_equal(run(&x, "\x48\x8d\x05\x00\x01\x00\x00\xff\xe0", 9, &e), EFFECT_JUMP);
    assert_int_equal(e.target, START + 0x107);
    /* lea 0x100(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; notrack jmp *%rax */
    static const char pic[] =
        "\x48\x8d\x15\x00\x01\x00\x00\x48\x63\x04\x82\x48\x01\xd0\x3e\xff\xe0";
    assert_int_equal(run(&x, pic, sizeof(pic) - 1, &e), EFFECT_TABLE);
    assert_int_equal(e.table.add, START + 0x107);
    assert_int_equal(e.table.reg, 4);
    /* jmp *0x4000(,%rax,8) */
    assert_int_equal(run(&x, "\xff\x24\xc5\x00\x40\x00\x00", 7, &e), EFFECT_TABLE);
    assert_int_equal(e.table.add, 0x4000);
    assert_int_equal(e.table.reg, 8);
    /* call 1f; 1: pop %rbx: only the pc is wanted */
    RUN(&x, "\xe8\x00\x00\x00\x00\x5b");
    expect(&x, DWARF_RBX, HELD_NUMBER, 0, 0, START + 5);
    expect(&x, DWARF_RSP, HELD_REGISTER, DWARF_RSP, 0, 0);
}

static void more_stores_than_are_kept(void **state)
{
    (void)state;
    struct execution x;
    execution_begin(&x, &arch_x86_64, START);
    struct effect_of e;
    for (int i = 0; i < EXECUTION_STORES + 5; i++) /* push %rbx */
        assert_int_equal(arch_x86_64.execute(&x, (const uint8_t *)"\x53", 1, &e), EFFECT_NEXT);
    arch_x86_64.execute(&x, (const uint8_t *)"\x5d", 1, &e); /* pop %rbp: that store was lost */
    expect(&x, DWARF_RBP, HELD_UNKNOWN, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves),
        cmocka_unit_test(enters_and_leaves),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(ways),
        cmocka_unit_test(more_stores_than_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
