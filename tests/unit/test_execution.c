/* SPDX-License-Identifier: GPL-2.0-only */
/* What a function's instructions do to its stack and registers, one short function at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/arch_aarch64.h"
#include "unwind/arch_x86_64.h"
#include "unwind/execution.h"

#include <string.h>

enum { START = 0x1000 };

/* Do all instructions of the code from x->pc up to its end, or to the first that is no plain one.
 * Returns the last one's effect. */
static enum effect go_on(const struct arch *arch, struct execution *x, const void *code,
                         size_t size, struct effect_of *ret)
{
    enum effect effect = EFFECT_NEXT;
    while (effect == EFFECT_NEXT && x->pc - START < size) {
        size_t at = x->pc - START;
        effect = arch->execute(x, (const uint8_t *)code + at, size - at, ret);
    }
    return effect;
}

/* The same from the code's begin on. */
static enum effect run(struct execution *x, const char *code, size_t size, struct effect_of *ret)
{
    execution_begin(x, &arch_x86_64, START);
    return go_on(&arch_x86_64, x, code, size, ret);
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
    assert_int_equal(go_on(&arch_x86_64, &x, code, sizeof(code) - 1, &e), EFFECT_RETURN);
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

/* ---- AArch64 -------------------------------------------------------------------------------- */

enum { X0 = 0, X9 = 9, X19 = 19, X20 = 20 };

/* The same as run(), for words of AArch64's code. */
static enum effect run_a64(struct execution *x, const uint32_t *code, size_t nr,
                           struct effect_of *ret)
{
    execution_begin(x, &arch_aarch64, START);
    return go_on(&arch_aarch64, x, code, 4 * nr, ret);
}

#define A64(x, ...)                                                                    \
    run_a64(x, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4, \
            &(struct effect_of){0})

static void a64_leaves(void **state)
{
    (void)state;
    struct execution x;
    /* ldp x19, x20, [sp, #16]; ldp x29, x30, [sp], #32; ret */
    assert_int_equal(A64(&x, 0xa94153f3, 0xa8c27bfd, 0xd65f03c0), EFFECT_RETURN);
    expect(&x, X19, HELD_SLOT, AARCH64_SP, 16, 0);
    expect(&x, X20, HELD_SLOT, AARCH64_SP, 24, 0);
    expect(&x, AARCH64_FP, HELD_SLOT, AARCH64_SP, 0, 0);
    expect(&x, AARCH64_PC, HELD_SLOT, AARCH64_SP, 8, 0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, 32);
    assert_false(x.unsure);
    /* autiasp; ret: a signature is no change */
    assert_int_equal(A64(&x, 0xd50323bf, 0xd65f03c0), EFFECT_RETURN);
    expect(&x, AARCH64_PC, HELD_REGISTER, AARCH64_LR, 0, 0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, 0);
    /* xpaci x30; retaa */
    assert_int_equal(A64(&x, 0xdac143fe, 0xd65f0bff), EFFECT_RETURN);
    expect(&x, AARCH64_PC, HELD_REGISTER, AARCH64_LR, 0, 0);
    /* mov sp, x29; ldr x30, [sp], #16; ret x17 */
    assert_int_equal(A64(&x, 0x910003bf, 0xf84107fe, 0xd65f0220), EFFECT_RETURN);
    expect(&x, AARCH64_LR, HELD_SLOT, AARCH64_FP, 0, 0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_FP, 0, 16);
    expect(&x, AARCH64_PC, HELD_REGISTER, 17, 0, 0);
    /* ld1 {v0.16b}, [sp], #16: moves the stack pointer by what it loads */
    A64(&x, 0x4cdf73e0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, 16);
}

static void a64_enters_and_leaves(void **state)
{
    (void)state;
    struct execution x;
    /* stp x29, x30, [sp, #-32]!; mov x29, sp; stp x19, x20, [sp, #16]; bl; ldp x19, x20, [sp, #16];
     * ldp x29, x30, [sp], #32; ret */
    static const uint32_t code[] = {0xa9be7bfd, 0x910003fd, 0xa90153f3, 0x94000040,
                                    0xa94153f3, 0xa8c27bfd, 0xd65f03c0};
    struct effect_of e;
    assert_int_equal(run_a64(&x, code, 7, &e), EFFECT_CALL);
    assert_int_equal(e.target, START + 12 + 0x100);
    assert_true(x.unsure);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, -32);
    expect(&x, AARCH64_FP, HELD_REGISTER, AARCH64_SP, 0, -32);
    expect(&x, AARCH64_LR, HELD_UNKNOWN, 0, 0, 0);
    expect(&x, X0, HELD_UNKNOWN, 0, 0, 0);
    assert_int_equal(go_on(&arch_aarch64, &x, code, sizeof(code), &e), EFFECT_RETURN);
    expect(&x, X19, HELD_REGISTER, X19, 0, 0);
    expect(&x, AARCH64_FP, HELD_REGISTER, AARCH64_FP, 0, 0);
    expect(&x, AARCH64_PC, HELD_REGISTER, AARCH64_LR, 0, 0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, 0);
}

static void a64_values(void **state)
{
    (void)state;
    struct execution x;
    A64(&x, 0xd14043ff, 0xd10083ff); /* sub sp, sp, #16, lsl #12; sub sp, sp, #32 */
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, -65568);
    /* mov x9, #0x1234; movk x9, #0x5678, lsl #16; sub sp, sp, x9 */
    A64(&x, 0xd2824689, 0xf2aacf09, 0xcb2963ff);
    expect(&x, X9, HELD_NUMBER, 0, 0, 0x56781234);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, -0x56781234);
    A64(&x, 0x9280000a, 0x1280000b); /* mov x10, #-1; mov w11, #-1 */
    expect(&x, 10, HELD_NUMBER, 0, 0, -1);
    assert_int_equal(x.reg[11].add, UINT32_MAX);
    A64(&x, 0x10000103, 0x91002063, 0xb0000090); /* adr x3, 0x20; add x3, x3, #8; adrp x16 */
    expect(&x, 3, HELD_NUMBER, 0, 0, START + 0x28);
    expect(&x, 16, HELD_NUMBER, 0, 0, START + 0x11000);
    A64(&x, 0xf81f83f3, 0xf85f83f4); /* stur x19, [sp, #-8]; ldur x20, [sp, #-8] */
    expect(&x, X20, HELD_REGISTER, X19, 0, 0);
    A64(&x, 0xaa1303f4); /* mov x20, x19 */
    expect(&x, X20, HELD_REGISTER, X19, 0, 0);
}

/* What is not followed makes what it writes unknown, and nothing else. */
static void a64_what_is_not_known(void **state)
{
    (void)state;
    static const struct {
        uint32_t insn;
        uint8_t reg;
        bool known; /* the register still has its first value */
    } rows[] = {
        {0x927ced3f, AARCH64_SP, false}, /* and sp, x9, #-16 */
        {0xcb2943ff, AARCH64_SP, false}, /* sub sp, sp, w9, uxtw */
        {0x8b306fff, AARCH64_SP, false}, /* add sp, sp, x16, lsl #3 */
        {0x9e660013, X19, false},        /* fmov x19, d0 */
        {0x1e612813, X19, true},         /* fadd d19, d0, d1 */
        {0x0e0c3c14, X20, false},        /* mov w20, v0.s[1] */
        {0x9e62001d, AARCH64_FP, true},  /* scvtf d29, x0 */
        {0xb94013f3, X19, false},        /* ldr w19, [sp, #16] */
        {0xb98013f4, X20, false},        /* ldrsw x20, [sp, #16] */
        {0xf98003a0, X0, true},          /* prfm pldl1keep, [x29] */
        {0xf8210053, X19, false},        /* ldadd x1, x19, [x2] */
        {0xc8147c41, X20, false},        /* stxr w20, x1, [x2] */
        {0xc85f7c53, X19, false},        /* ldxr x19, [x2] */
        {0xd53bd053, X19, false},        /* mrs x19, tpidr_el0 */
        {0xeb14027f, AARCH64_SP, true},  /* cmp x19, x20: writes the zero register */
        {0xfa400a60, X0, true},          /* ccmp x19, #0, #0, eq */
        {0xf8296bf3, X19, true},         /* str x19, [sp, x9] */
        {0x58000093, X19, false},        /* ldr x19, 16 bytes ahead */
        {0xca130273, X19, false},        /* eor x19, x19, x19 */
        {0x9b010813, X19, false},        /* madd x19, x0, x1, x2 */
        {0xd4000001, X0, false},         /* svc #0 */
        {0xd4000001, X19, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct execution x;
        assert_int_equal(A64(&x, rows[i].insn), EFFECT_NEXT);
        const struct held *v = &x.reg[rows[i].reg];
        bool known = v->kind == HELD_REGISTER && v->reg == rows[i].reg && !v->add;
        if (known != rows[i].known)
            fail_msg("%08x", rows[i].insn);
    }
    struct execution x;
    /* str x19, [sp, #16]; str wzr, [sp, #20]; ldr x20, [sp, #16]: half of it was overwritten */
    A64(&x, 0xf9000bf3, 0xb90017ff, 0xf9400bf4);
    expect(&x, X20, HELD_UNKNOWN, 0, 0, 0);
    /* x9 = -0x7ffffffc; sub sp, sp, x9; str q0, [sp]: the second word is too far away to be kept */
    A64(&x, 0x929fff69, 0xf2b00009, 0xcb2963ff, 0x3d8003e0);
    expect(&x, AARCH64_SP, HELD_REGISTER, AARCH64_SP, 0, 0x7ffffffc);
    assert_int_equal(x.nr_stored, 1);
    /* str x19, [sp, #24]; str q0, [sp, #16]; ldr x20, [sp, #24] */
    A64(&x, 0xf9000ff3, 0x3d8007e0, 0xf9400ff4);
    expect(&x, X20, HELD_UNKNOWN, 0, 0, 0);
}

static void a64_ways(void **state)
{
    (void)state;
    static const struct {
        uint32_t insn;
        enum effect effect;
        uint64_t target;
    } rows[] = {
        {0x14000010, EFFECT_JUMP, START + 0x40},   /* b */
        {0x54ffff80, EFFECT_BRANCH, START - 0x10}, /* b.eq */
        {0x5400004e, EFFECT_JUMP, START + 8},      /* b.al */
        {0xb4000080, EFFECT_BRANCH, START + 0x10}, /* cbz x0 */
        {0x37280103, EFFECT_BRANCH, START + 0x20}, /* tbnz w3, #5 */
        {0xd61f0220, EFFECT_JUMP_UNKNOWN, 0},      /* br x17 */
        {0xd63f0100, EFFECT_CALL, 0},              /* blr x8 */
        {0xd4200020, EFFECT_STOP, 0},              /* brk #1 */
        {0xd69f03e0, EFFECT_STOP, 0},              /* eret */
        {0x00000000, EFFECT_STOP, 0},              /* udf #0 */
        {0xd503245f, EFFECT_NEXT, 0},              /* bti c */
    };
    struct execution x;
    struct effect_of e;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(run_a64(&x, &rows[i].insn, 1, &e), rows[i].effect);
        assert_int_equal(e.target, rows[i].target);
    }
    execution_begin(&x, &arch_aarch64, START);
    assert_int_equal(arch_aarch64.execute(&x, (const uint8_t *)rows, 3, &e), EFFECT_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves),
        cmocka_unit_test(enters_and_leaves),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(ways),
        cmocka_unit_test(more_stores_than_are_kept),
        cmocka_unit_test(a64_leaves),
        cmocka_unit_test(a64_enters_and_leaves),
        cmocka_unit_test(a64_values),
        cmocka_unit_test(a64_what_is_not_known),
        cmocka_unit_test(a64_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
