/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of machines: that each one's tables agree with each other, what AArch64's tests of
 * instructions accept, and walks of AArch64 stacks. Their module is at 10000, with code and call
 * frame information that are written here; the stack is at 70000. tests/unit/test_unwind.c walks
 * x86-64.
 */
#include "base/hash.h"
#include "unwind/arch_x86_64.h"
#include "unwind/native/rule.h"
#include "unwind/unwind.h"
#include "unwind/walker.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cfi_fixture.h"

static const struct arch *const rows[] = {&arch_x86_64, &arch_aarch64};
enum { NR_ROWS = sizeof(rows) / sizeof(*rows) };

/* ---- rows ---------------------------------------------------------------------------------- */

static void a_machine_is_found_by_what_data_says(void **state)
{
    (void)state;
    assert_ptr_equal(arch_by_name("x86_64"), &arch_x86_64);
    assert_ptr_equal(arch_by_name("aarch64"), &arch_aarch64);
    assert_null(arch_by_name("riscv64"));
    assert_null(arch_by_name(""));
    assert_ptr_equal(arch_by_elf(EM_X86_64, true), &arch_x86_64);
    assert_ptr_equal(arch_by_elf(EM_AARCH64, true), &arch_aarch64);
    assert_null(arch_by_elf(EM_X86_64, false)); /* x32 */
    assert_null(arch_by_elf(EM_386, false));
    assert_null(arch_by_elf(EM_RISCV, true));
}

static void a_rows_registers_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < NR_ROWS; i++) {
        const struct arch_registers *r = &rows[i]->reg;
        uint64_t saved = 0;
        assert_true(r->nr <= ARCH_REGISTERS_MAX && r->columns <= r->nr);
        assert_true(r->pc < r->nr && r->sp < r->columns && r->fp < r->columns &&
                    r->ra < r->columns);
        assert_true(r->nr_saved <= (arch_has_link(r) ? ARCH_SAVED_MAX : RULE_PUSHED_SAVED));
        for (unsigned k = 0; k < r->nr_saved; k++)
            saved |= REG_BIT(r->saved[k]);
        assert_int_equal(saved, r->callee_saved);
        assert_int_equal(r->survives, saved | REG_BIT(r->sp) | REG_BIT(r->pc));
        assert_true(saved & REG_BIT(r->fp));
        assert_int_equal(arch_has_link(r), rows[i] == &arch_aarch64);
    }
}

/* Every register comes once from perf, and once from the kernel. */
static void a_rows_tables_have_every_register(void **state)
{
    (void)state;
    for (size_t i = 0; i < NR_ROWS; i++) {
        const struct arch *a = rows[i];
        uint64_t by_perf = 0, by_kernel = 0;
        for (unsigned k = 0; k < a->nr_perf; k++) {
            uint64_t bit = a->perf[k].reg < a->reg.nr ? REG_BIT(a->perf[k].reg) : 0;
            assert_false(by_perf & bit);
            assert_non_null(a->perf[k].name);
            by_perf |= bit;
        }
        for (unsigned k = 0; k < a->nr_user_regs; k++) {
            uint64_t bit = a->user_regs[k] < a->reg.nr ? REG_BIT(a->user_regs[k]) : 0;
            assert_false(by_kernel & bit);
            by_kernel |= bit;
        }
        assert_int_equal(by_perf, arch_all_registers(&a->reg));
        assert_int_equal(by_kernel, arch_all_registers(&a->reg));
        assert_int_equal(a->perf[a->perf_sp].reg, a->reg.sp);
        bool is_own = true;
        for (unsigned k = 0; k < a->nr_perf; k++)
            is_own &= a->perf[k].reg == k;
        assert_int_equal(is_own, a->perf_is_own);
        for (unsigned reg = 0; reg < a->reg.nr; reg++) {
            assert_true(a->sigcontext[reg] != 0 && a->sigcontext[reg] % 8 == 0);
            for (unsigned other = 0; other < reg; other++)
                assert_int_not_equal(a->sigcontext[other], a->sigcontext[reg]);
        }
    }
}

static void a_rows_sizes_fit_their_buffers(void **state)
{
    (void)state;
    for (size_t i = 0; i < NR_ROWS; i++) {
        const struct arch *a = rows[i];
        assert_true(a->call_min <= a->call_max && a->call_max <= ARCH_CALL_MAX);
        assert_true(a->sigreturn_size <= ARCH_SIGRETURN_MAX);
        assert_true(a->nr_sigreturn_into <= sizeof(a->sigreturn_into));
        assert_true(a->point_before + a->point_after <= ARCH_POINT_MAX);
        assert_true(a->nop_size <= sizeof(a->nop));
    }
}

/* ---- AArch64's instructions ----------------------------------------------------------------- */

static bool is_call(uint32_t word)
{
    return arch_aarch64.is_call((const uint8_t *)&word + 4, 4);
}

static bool is_indirect(uint32_t word)
{
    return arch_aarch64.is_indirect_call((const uint8_t *)&word + 4, 4);
}

static void aarch64_calls_are_recognised(void **state)
{
    (void)state;
    const uint32_t blr_x8 = 0xd63f0100, blraa = 0xd73f0909, blraaz = 0xd63f091f,
                   br_x16 = 0xd61f0200, ret = 0xd65f03c0, b = 0x14000001;
    assert_true(is_call(0x94000001) && !is_indirect(0x94000001));
    assert_true(is_call(blr_x8) && is_indirect(blr_x8));
    assert_true(is_indirect(blraa) && is_indirect(blraaz));
    assert_false(is_call(br_x16) || is_call(ret) || is_call(b));
    assert_false(arch_aarch64.is_call((const uint8_t *)&blr_x8 + 4, 3));
}

static void an_aarch64_calls_target_is_relative_to_the_call(void **state)
{
    (void)state;
    const uint32_t ahead = 0x94000003, back = 0x97fffffe;
    uint64_t to;
    assert_true(arch_aarch64.direct_call((const uint8_t *)&ahead + 4, 4, 0x1004, &to));
    assert_int_equal(to, 0x100c);
    assert_true(arch_aarch64.direct_call((const uint8_t *)&back + 4, 4, 0x1004, &to));
    assert_int_equal(to, 0xff8);
}

static void aarch64_functions_begin_and_end_without_a_frame(void **state)
{
    (void)state;
    const uint32_t frameless[] = {0xd503233f, 0xd503245f, 0xa9bd7bfd, 0xd65f03c0,
                                  0x90000090, 0xf9407211, 0x91038210, 0xd61f0220};
    const uint32_t others[] = {0xd503201f, 0xa9007bfd, 0xa9bf7bf0, 0x910003fd};
    for (size_t i = 0; i < sizeof(frameless) / sizeof(*frameless); i++)
        assert_int_equal(arch_aarch64.point((const uint8_t *)&frameless[i]), ARCH_POINT_ENTRY);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_int_equal(arch_aarch64.point((const uint8_t *)&others[i]), ARCH_POINT_BODY);
}

/* adrp x16, +0x10 pages; ldr x17, [x16, #0xf8]; add x16, x16, #0xf8; br x17 */
#define SLOT_CODE 0x90000090, 0xf9407e11, 0x9103e210, 0xd61f0220
static const uint32_t push_x16_lr = 0xa9bf7bf0, bti_c = 0xd503245f, nop = 0xd503201f;

static bool in_slot(const uint32_t *code, size_t at, size_t nr, unsigned *pushed)
{
    return arch_aarch64.in_import_slot((const uint8_t *)(code + at), 4 * at, 4 * (nr - at), pushed);
}

static void aarch64_slots_of_imported_functions_are_recognised(void **state)
{
    (void)state;
    const uint32_t plain[] = {nop, SLOT_CODE, nop}, first[] = {push_x16_lr, SLOT_CODE, nop},
                   marked[] = {bti_c, SLOT_CODE, nop}, two[] = {nop, SLOT_CODE, SLOT_CODE, nop},
                   other[] = {nop, 0x90000090, 0xf9407e11, 0x9103e210, 0xd61f0200, nop};
    uint64_t slot;
    unsigned pushed;
    for (size_t at = 1; at <= 4; at++) {
        assert_true(in_slot(plain, at, 6, &pushed));
        assert_int_equal(pushed, 0);
        assert_true(in_slot(first, at, 6, &pushed));
        assert_int_equal(pushed, 16);
        assert_true(in_slot(marked, at, 6, &pushed));
        assert_int_equal(pushed, 0);
        assert_false(in_slot(other, at, 6, &pushed));
        assert_false(in_slot(plain, at, 4, &pushed)); /* cut before its end */
    }
    for (size_t at = 1; at <= 8; at++) /* one slot behind another */
        assert_true(in_slot(two, at, 10, &pushed) && pushed == 0);
    assert_true(in_slot(first, 0, 6, &pushed) && pushed == 0);
    assert_true(in_slot(marked, 0, 6, &pushed));
    assert_false(in_slot(plain, 0, 6, &pushed) || in_slot(plain, 5, 6, &pushed));
    for (size_t with_mark = 0; with_mark < 2; with_mark++) {
        const uint32_t *code = with_mark ? marked : marked + 1;
        assert_true(arch_aarch64.jump_by_slot((const uint8_t *)code, 20, 0x12340, &slot));
        assert_int_equal(slot, 0x220f8);
    }
    assert_false(arch_aarch64.jump_by_slot((const uint8_t *)(plain + 1), 12, 0x12340, &slot));
    assert_false(arch_aarch64.jump_by_slot((const uint8_t *)plain, 20, 0x12340, &slot));
}

static bool begins(uint32_t a, uint32_t b)
{
    const uint32_t code[] = {a, b};
    return arch_aarch64.begins_function((const uint8_t *)code, sizeof(code), 0x1000);
}

static void aarch64_functions_begin_as_compilers_write_them(void **state)
{
    (void)state;
    const uint32_t paciasp = 0xd503233f, push = 0xa9bd7bfd, store = 0xa9007bfd, pop = 0xa8c37bfd;
    assert_true(begins(paciasp, nop) && begins(bti_c, nop) && begins(push, nop));
    assert_true(begins(nop, push)); /* behind padding */
    assert_false(begins(store, nop) || begins(pop, nop) || begins(nop, nop));
}

/* ---- AArch64's stacks ----------------------------------------------------------------------- */

enum { MODULE = 0x10000, VDSO = 0x20000, UNREAD = 0x30000, STACK = 0x70000, REGION = 0x2000 };
enum { X19 = 19, X28 = 28, FP = 29, LR = 30, SP = 31, PC = 32 };

enum {
    START = MODULE + 0x100,    /* the outermost: return address undefined */
    LEAF = MODULE + 0x200,     /* no rule for lr */
    FRAMED = MODULE + 0x300,   /* stp x29,x30,[sp,#-32]!; str x19,[sp,#16] */
    MANY = MODULE + 0x400,     /* as FRAMED with 96 bytes, and saves x28, too */
    ANY = MODULE + 0x1000,     /* NR_ANY functions of 8 bytes that save any registers anywhere */
    SIGNED = MODULE + 0x500,   /* paciasp; as FRAMED */
    FAR = MODULE + 0x600,      /* a frame of 3 KiB, lr at its bottom */
    RESOLVER = MODULE + 0x700, /* glibc's: 208 bytes, lr 8 above them */
};

enum { NR_ANY = 256, STACK_WORDS = 128 };

/* Where a function of ANY saves registers, in words below the CFA; 0: it does not. */
struct any {
    unsigned frame; /* words */
    uint8_t saved[LR + 1];
};

struct target {
    struct bytes section;
    struct any any[NR_ANY];
    struct cfi *cfi;
    struct unwinder *u;
    struct unwind_stack out;
    uint8_t code[REGION], vdso[REGION];
    uint64_t stack[STACK_WORDS];
    struct unwind_input in;
    struct memory_layer layer;
};

/* Puts a function whose registers are saved in random words of a part of its frame. */
static void put_any(struct bytes *b, unsigned i, struct any *any)
{
    uint64_t random = hash_u64(i);
    uint8_t program[3 + 2 * (LR + 1)];
    size_t nr = 0;
    any->frame = 2 + (unsigned)(random >> 8) % (STACK_WORDS - 2);
    unsigned part = 1 + (unsigned)(random >> 16) % (i % 2 ? 12 : 48);
    unsigned from = (unsigned)(random >> 24) % any->frame;
    program[nr++] = 0x0e;
    program[nr++] = (uint8_t)(8 * any->frame | 0x80);
    program[nr++] = (uint8_t)(8 * any->frame >> 7);
    for (unsigned reg = X19; reg <= LR; reg++) {
        random = hash_u64(random);
        if (random % 3 == 0)
            continue;
        unsigned at = from + (unsigned)(random >> 8) % part;
        any->saved[reg] = (uint8_t)(1 + (at < any->frame ? at : any->frame - 1));
        program[nr++] = (uint8_t)(0x80 | reg);
        program[nr++] = any->saved[reg]; /* below 128: one byte of LEB128 */
    }
    put_fde(b, ANY - MODULE + 8 * i, 8, program, nr);
}

static void put_functions(struct bytes *b)
{
    /* version 1, no augmentation, alignments 4 and -8, return address 30; def_cfa r31+0 */
    static const uint8_t cie[] = {14, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0x78, 30, 0x0c, 31, 0, 0, 0};
    put(b, cie, sizeof(cie));
    FDE(b, START, "\x07\x1e");
    FDE(b, LEAF, "");
    FDE(b, FRAMED, "\x0e\x20\x9d\x04\x9e\x03\x93\x02");
    FDE(b, MANY, "\x0e\x60\x9d\x0c\x9e\x0b\x93\x0a\x9c\x01");
    FDE(b, SIGNED, "\x2d\x0e\x20\x9d\x04\x9e\x03\x93\x02\x48\x08");
    FDE(b, FAR, "\x0e\x80\x18\x9d\x80\x03\x9e\xff\x02");
    FDE(b, RESOLVER, "\x0e\xd0\x01\x11\x1e\x7f");
}

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    const struct target *t = context;
    (void)time;
    if (pc - MODULE < REGION) {
        *ret = (struct code){.owner = CODE_ELF,
                             .start = MODULE,
                             .end = MODULE + REGION,
                             .executable = true,
                             .bias = MODULE,
                             .cfi = t->cfi,
                             .cfi_id = 1};
        return true;
    }
    uint64_t start = pc < UNREAD ? VDSO : UNREAD; /* code whose bytes are not known */
    *ret = (struct code){.owner = CODE_ELF,
                         .start = start,
                         .end = start + REGION,
                         .executable = true,
                         .bias = start};
    return pc - start < REGION;
}

static bool read_code(void *context, const struct memory_query *query, void *to,
                      struct memory_answer *answer)
{
    struct target *t = context;
    (void)answer;
    uint64_t start = query->address >= VDSO ? VDSO : MODULE, at = query->address - start;
    if (query->address >= UNREAD || at >= REGION || REGION - at < query->size)
        return false;
    memcpy(to, (start == VDSO ? t->vdso : t->code) + at, query->size);
    return true;
}

static int setup(void **state)
{
    struct target *t = calloc(1, sizeof(*t));
    put_functions(&t->section);
    for (unsigned i = 0; i < NR_ANY; i++)
        put_any(&t->section, i, &t->any[i]);
    t->cfi = create_cfi(&t->section, &arch_aarch64, 1);
    t->u = unwinder_create(NULL);
    t->layer = (struct memory_layer){.read = read_code, .context = t};
    t->in = (struct unwind_input){
        .registers.arch = &arch_aarch64,
        .registers.known = arch_all_registers(&arch_aarch64.reg),
        .registers.value[SP] = STACK,
        .memory = {.stack = (const uint8_t *)t->stack,
                   .stack_start = STACK,
                   .stack_size = sizeof(t->stack),
                   .layers = &t->layer,
                   .nr_layers = 1},
        .code = {.lookup = lookup, .context = t},
        .max_frames = 32,
    };
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct target *t = *state;
    vec_free(&t->out.frames);
    unwinder_free(t->u);
    cfi_free(t->cfi);
    free(t->section.at);
    free(t);
    return 0;
}

static uint64_t slot(size_t i)
{
    return STACK + 8 * i;
}

/* Puts a call (bl) before an address, which thereby is a return address. */
static uint64_t called(struct target *t, uint64_t address)
{
    const uint32_t bl = 0x94000000;
    memcpy(t->code + (address - MODULE) - 4, &bl, 4);
    return address;
}

static void walk(struct target *t, uint64_t pc)
{
    t->in.registers.value[PC] = pc;
    t->out.frames.nr = 0;
    assert_int_equal(unwind(t->u, &t->in, &t->out, NULL), 0);
}

static void expect_frames(const struct target *t, const uint64_t *pcs, size_t nr)
{
    assert_int_equal(t->out.frames.nr, nr);
    for (size_t i = 0; i < nr; i++)
        assert_int_equal(t->out.frames.at[i].pc, pcs[i]);
}

static void a_leafs_return_address_is_in_the_link_register(void **state)
{
    struct target *t = *state;
    t->in.registers.value[LR] = START + 8;
    walk(t, LEAF + 4);
    expect_frames(t, (uint64_t[]){LEAF + 4, START + 8}, 2);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    assert_int_equal(t->out.frames.at[0].cfa, STACK);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
}

/* The frame record is at the frame's bottom. */
static void saved_registers_come_from_a_frame(void **state)
{
    struct target *t = *state;
    t->stack[0] = 0xf9;
    t->stack[1] = FRAMED + 0x20;
    t->stack[2] = 0x1919;
    t->stack[4] = 0xf99;
    t->stack[5] = START + 8;
    t->stack[6] = 0x191919;
    t->in.registers.value[X28] = 0x2828;
    walk(t, FRAMED + 0x10);
    expect_frames(t, (uint64_t[]){FRAMED + 0x10, FRAMED + 0x20, START + 8}, 3);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    const struct registers *r = &t->out.registers;
    assert_int_equal(registers_sp(r), slot(8));
    assert_int_equal(registers_pc(r), START + 8);
    assert_int_equal(r->value[FP], 0xf99);
    assert_int_equal(r->value[X19], 0x191919);
    assert_int_equal(r->value[X28], 0x2828);
    assert_int_equal(r->known, arch_aarch64.reg.survives); /* not lr: the call has changed it */
}

static void all_callee_saved_registers_are_restored(void **state)
{
    struct target *t = *state;
    t->stack[0] = 0xf9;
    t->stack[1] = START + 8;
    t->stack[2] = 0x1919;
    t->stack[11] = 0x2828;
    walk(t, MANY + 0x10);
    expect_frames(t, (uint64_t[]){MANY + 0x10, START + 8}, 2);
    assert_int_equal(t->out.registers.value[X28], 0x2828);
    assert_int_equal(t->out.registers.value[X19], 0x1919);
    assert_int_equal(registers_sp(&t->out.registers), slot(12));
    assert_int_equal(t->out.registers.known, arch_aarch64.reg.survives);
}

/* Every word of the stack has a value of its own, which leads to START as a return address. */
static void registers_are_restored_from_anywhere(void **state)
{
    struct target *t = *state;
    for (unsigned k = 0; k < STACK_WORDS; k++)
        t->stack[k] = START + 8 + ((uint64_t)(k + 1) << 48);
    for (unsigned i = 0; i < NR_ANY; i++) {
        const struct any *any = &t->any[i];
        for (unsigned reg = 0; reg <= LR; reg++)
            t->in.registers.value[reg] = START + 8 + ((uint64_t)(1000 + reg) << 48);
        walk(t, ANY + 8 * i);
        expect_frames(t, (uint64_t[]){ANY + 8 * i, START + 8}, 2);
        assert_int_equal(t->out.registers.known, arch_aarch64.reg.survives);
        assert_int_equal(t->out.registers.value[SP], slot(any->frame));
        for (unsigned reg = X19; reg <= FP; reg++)
            assert_int_equal(t->out.registers.value[reg],
                             any->saved[reg] ? t->stack[any->frame - any->saved[reg]]
                                             : t->in.registers.value[reg]);
    }
}

static enum rule_kind kind_of(const struct target *t, uint64_t pc, struct rule *ret)
{
    struct cfi_row row;
    assert_true(rule_row(t->cfi, pc - MODULE, &row));
    *ret = rule_lower(&row);
    return ret->kind;
}

static void rules_of_link_registers_are_compact(void **state)
{
    struct target *t = *state;
    const struct arch_registers *r = &arch_aarch64.reg;
    struct rule rule;
    unsigned compact = 0;
    assert_int_equal(kind_of(t, START, &rule), RULE_ENDS);
    assert_int_equal(kind_of(t, LEAF, &rule), RULE_OFFSETS);
    assert_int_equal(rule_ra(r, &rule), 0);
    assert_int_equal(rule.deepest, 0);
    assert_int_equal(kind_of(t, FRAMED, &rule), RULE_OFFSETS);
    assert_int_equal(rule_ra(r, &rule), 3);
    assert_int_equal(rule_saved(r, &rule, 0), 4);
    assert_int_equal(rule_saved(r, &rule, 1), 2);
    assert_int_equal(rule_saved(r, &rule, 2), 0);
    assert_int_equal(kind_of(t, FAR, &rule), RULE_OFFSETS);
    assert_int_equal(rule_ra(r, &rule), 383);
    assert_int_equal(kind_of(t, RESOLVER, &rule), RULE_ROW); /* lr is above the CFA */
    for (unsigned i = 0; i < NR_ANY; i++) {
        unsigned deepest = 0, nearest = UINT8_MAX;
        for (unsigned reg = X19; reg <= LR; reg++) {
            unsigned saved = t->any[i].saved[reg];
            deepest = saved > deepest ? saved : deepest;
            nearest = saved && saved < nearest ? saved : nearest;
        }
        bool fits = deepest == 0 || deepest - nearest < 31;
        assert_int_equal(kind_of(t, ANY + 8 * i, &rule), fits ? RULE_OFFSETS : RULE_ROW);
        compact += fits;
    }
    assert_true(compact > NR_ANY / 2 && compact < NR_ANY);
}

static void a_frame_may_be_large(void **state)
{
    struct target *t = *state;
    uint64_t large[0xc00 / 8 + 1] = {0xf9, START + 8};
    t->in.memory.stack = (const uint8_t *)large;
    t->in.memory.stack_size = sizeof(large);
    walk(t, FAR + 0x10);
    expect_frames(t, (uint64_t[]){FAR + 0x10, START + 8}, 2);
    assert_int_equal(registers_sp(&t->out.registers), STACK + 0xc00);
    assert_int_equal(t->out.registers.value[FP], 0xf9);
    t->in.memory.stack_size = 16; /* only the slots of the frame were recorded */
    walk(t, FAR + 0x10);
    expect_frames(t, (uint64_t[]){FAR + 0x10, START + 8}, 2);
    assert_int_equal(t->out.registers.value[FP], 0xf9);
    t->in.memory.stack_size = 8;
    walk(t, FAR + 0x10);
    expect_frames(t, (uint64_t[]){FAR + 0x10}, 1);
    assert_int_equal(t->out.end, STACK_TRUNCATED);
}

static void a_return_addresss_signature_is_removed(void **state)
{
    struct target *t = *state;
    const uint64_t signature = UINT64_C(0x2b) << 48;
    t->stack[1] = (LEAF + 0x10) | signature;
    walk(t, SIGNED + 0x10);
    assert_int_equal(t->out.frames.at[1].pc, LEAF + 0x10);
    t->stack[1] = (START + 8) | signature; /* by a row: lr, before it is saved */
    t->in.registers.value[LR] = (START + 8) | signature;
    walk(t, LEAF + 4);
    expect_frames(t, (uint64_t[]){LEAF + 4, START + 8}, 2);
    walk(t, SIGNED + 0x10); /* and by a compact rule */
    expect_frames(t, (uint64_t[]){SIGNED + 0x10, START + 8}, 2);
}

/* Only the innermost frame has its return address in the register: a call has changed it. */
static void the_link_register_of_a_caller_is_not_known(void **state)
{
    struct target *t = *state;
    t->in.registers.value[LR] = LEAF + 8;
    t->in.registers.value[FP] = 1; /* no frame pointer */
    walk(t, LEAF + 4);
    expect_frames(t, (uint64_t[]){LEAF + 4, LEAF + 8}, 2);
    assert_int_equal(t->out.end, STACK_NO_CFI);
}

static void a_stack_without_cfi_ends_where_the_frame_pointer_was_set_to_zero(void **state)
{
    struct target *t = *state;
    const uint32_t clear = 0xd280001d; /* mov x29, #0 */
    t->in.registers.value[LR] = 0;
    t->in.registers.value[FP] = 0;
    walk(t, MODULE + 0x900);
    assert_int_equal(t->out.end, STACK_NO_CFI); /* 0 alone proves nothing */
    t->in.registers.value[LR] = called(t, MODULE + 0x920);
    walk(t, LEAF + 4);
    assert_int_equal(t->out.end, STACK_NO_CFI);
    memcpy(t->code + 0x910, &clear, sizeof(clear));
    walk(t, LEAF + 4);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    expect_frames(t, (uint64_t[]){LEAF + 4, MODULE + 0x920}, 2);
}

static void a_chain_of_frame_pointers_is_a_guess(void **state)
{
    struct target *t = *state;
    t->in.registers.value[FP] = slot(2);
    t->in.registers.value[LR] = MODULE + 0x910; /* old: it is of a call from here */
    t->stack[2] = 0;
    t->stack[3] = called(t, START + 8);
    walk(t, MODULE + 0x920);
    expect_frames(t, (uint64_t[]){MODULE + 0x920, START + 8}, 2);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_GUESS);
}

/* The vdso's functions have no CFI and no frame, and the frame pointer is their caller's. */
static void code_without_cfi_is_left_by_a_link_register_that_leads_elsewhere(void **state)
{
    struct target *t = *state;
    t->in.registers.value[FP] = slot(2);
    t->in.registers.value[LR] = called(t, FRAMED + 0x20);
    t->stack[1] = START + 8;
    t->stack[2] = 0;
    t->stack[3] = called(t, START + 8);
    walk(t, VDSO + 0x20);
    expect_frames(t, (uint64_t[]){VDSO + 0x20, FRAMED + 0x20, START + 8}, 3);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_GUESS);
}

/* A handler returns to the trampoline; the kernel's frame is at the stack pointer there. */
static void a_signal_frame_gives_all_registers(void **state)
{
    struct target *t = *state;
    const uint32_t trampoline[] = {0xd503201f, 0xd2801168, 0xd4000001};
    enum { RETURN = VDSO + 0x44, FRAME = 4 };
    memcpy(t->vdso + 0x40, trampoline, sizeof(trampoline));
    t->stack[1] = RETURN;
    uint64_t *saved = &t->stack[FRAME + 312 / 8];
    for (unsigned reg = 0; reg < 31; reg++)
        saved[reg] = 0x100 + reg;
    saved[LR] = START + 8;
    saved[SP] = slot(100);
    saved[PC] = LEAF; /* exact: the first instruction */
    walk(t, FRAMED + 0x10);
    expect_frames(t, (uint64_t[]){FRAMED + 0x10, RETURN, LEAF, START + 8}, 4);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    assert_true(t->out.frames.at[2].flags & FRAME_SIGNAL);
    assert_int_equal(t->out.frames.at[3].provenance, PROVENANCE_EXACT);
    assert_int_equal(t->out.registers.value[X19], 0x100 + X19);
    assert_int_equal(registers_sp(&t->out.registers), slot(100));
}

/* Elsewhere there is no image of the vdso: a signal frame is known by what is in it. */
static void a_signal_frame_without_its_trampolines_code_is_a_guess(void **state)
{
    struct target *t = *state;
    enum { RETURN = UNREAD + 0x44, FRAME = 4 };
    t->stack[0] = slot(60); /* x29, by which a step would lose the interrupted function */
    t->stack[1] = RETURN;
    t->stack[60] = 0;
    t->stack[61] = called(t, START + 8);
    uint64_t *saved = &t->stack[FRAME + 312 / 8];
    saved[LR] = START + 8;
    saved[SP] = slot(100);
    saved[PC] = LEAF;
    walk(t, FRAMED + 0x10);
    expect_frames(t, (uint64_t[]){FRAMED + 0x10, RETURN, LEAF, START + 8}, 4);
    assert_true(t->out.frames.at[2].flags & FRAME_SIGNAL);
    assert_int_equal(t->out.frames.at[2].provenance, PROVENANCE_GUESS);
    saved[PC] = 0x50000; /* no code: then it is no signal frame */
    walk(t, FRAMED + 0x10);
    expect_frames(t, (uint64_t[]){FRAMED + 0x10, RETURN, START + 8}, 3);
}

/* A PLT's first slot has pushed x16 and lr, and its CFI leaves that out. */
static void glibcs_resolver_is_left_with_what_the_plt_has_pushed(void **state)
{
    struct target *t = *state;
    t->stack[27] = START + 8;
    walk(t, RESOLVER + 0x10);
    expect_frames(t, (uint64_t[]){RESOLVER + 0x10, START + 8}, 2);
    assert_int_equal(registers_sp(&t->out.registers), slot(28));
}

/* Nothing covers a PLT, but its bytes tell all. */
static void a_slot_of_imported_functions_is_left_exactly(void **state)
{
    struct target *t = *state;
    const uint32_t slots[] = {push_x16_lr, SLOT_CODE, nop, nop, nop, SLOT_CODE};
    memcpy(t->vdso + 0x100, slots, sizeof(slots));
    for (unsigned at = 0; at < 12; at++) {
        if (at > 4 && at < 8)
            continue;
        t->in.registers.value[LR] = called(t, START + 8) | UINT64_C(0x2b) << 48;
        walk(t, VDSO + 0x100 + 4 * at);
        expect_frames(t, (uint64_t[]){VDSO + 0x100 + 4 * at, START + 8}, 2);
        assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
        assert_int_equal(registers_sp(&t->out.registers), slot(at > 0 && at < 5 ? 2 : 0));
    }
}

/* The code up to the return shows that nothing was pushed. */
static void code_without_cfi_is_left_exactly_where_its_instructions_say_how(void **state)
{
    struct target *t = *state;
    /* mov x0, #1; cbz x1, the end; autiasp; ret */
    const uint32_t leaf[] = {0xd2800020, 0xb4000041, 0xd50323bf, 0xd65f03c0};
    memcpy(t->vdso + 0x20, leaf, sizeof(leaf));
    t->in.registers.value[LR] = called(t, START + 8) | UINT64_C(0x2b) << 48;
    t->in.registers.value[FP] = 0xf9;
    walk(t, VDSO + 0x20);
    expect_frames(t, (uint64_t[]){VDSO + 0x20, START + 8}, 2);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
    assert_int_equal(registers_sp(&t->out.registers), STACK);
    assert_int_equal(t->out.registers.value[FP], 0xf9);
}

/* A caller without CFI: what it pushed is above its stack pointer, and lr is not its own any more.
 */
static void a_caller_without_cfi_is_left_by_its_instructions(void **state)
{
    struct target *t = *state;
    /* stp x29, x30, [sp, #-32]!; mov x29, sp; str x19, [sp, #16]; blr x8; ldr x19, [sp, #16];
     * ldp x29, x30, [sp], #32; ret */
    const uint32_t framed[] = {0xa9be7bfd, 0x910003fd, 0xf9000bf3, 0xd63f0100,
                               0xf9400bf3, 0xa8c27bfd, 0xd65f03c0};
    enum { RETURN = VDSO + 0x20 + 16 };
    memcpy(t->vdso + 0x20, framed, sizeof(framed));
    t->in.registers.value[LR] = RETURN;
    t->in.registers.value[FP] = STACK;
    t->stack[0] = 0xf9;
    t->stack[1] = called(t, START + 8);
    t->stack[2] = 0x1919;
    walk(t, LEAF + 4);
    expect_frames(t, (uint64_t[]){LEAF + 4, RETURN, START + 8}, 3);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    assert_int_equal(t->out.frames.at[2].provenance, PROVENANCE_EXACT);
    assert_int_equal(t->out.registers.value[FP], 0xf9);
    assert_int_equal(t->out.registers.value[X19], 0x1919);
    assert_int_equal(registers_sp(&t->out.registers), slot(4));
}

/* A call on the way to the return may not return: the caller's call must lead here. The link
 * register is no proof behind the loop's call, though the way from the entry has not changed it. */
static void a_function_without_cfi_is_proven_by_its_callers_call(void **state)
{
    struct target *t = *state;
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; loop: cbz x0, end; bl elsewhere; b loop; end: bl
     * elsewhere; ldp x29, x30, [sp], #16; ret */
    const uint32_t looping[] = {0xa9bf7bfd, 0x910003fd, 0xb4000060, 0x94000100,
                                0x17fffffe, 0x940000fe, 0xa8c17bfd, 0xd65f03c0};
    const uint32_t bl = 0x94000000 | ((VDSO + 0x20 - (START + 4)) / 4 & 0x3ffffff);
    memcpy(t->vdso + 0x20, looping, sizeof(looping));
    memcpy(t->code + (START + 4 - MODULE), &bl, sizeof(bl));
    t->in.registers.value[LR] = VDSO + 0x30; /* behind the loop's call */
    t->in.registers.value[FP] = STACK;
    t->stack[0] = 0xf9;
    t->stack[1] = START + 8;
    walk(t, VDSO + 0x28);
    expect_frames(t, (uint64_t[]){VDSO + 0x28, START + 8}, 2);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
    assert_int_equal(t->out.registers.value[FP], 0xf9);
    assert_int_equal(registers_sp(&t->out.registers), slot(2));
}

/* ---- two machines --------------------------------------------------------------------------- */

/* A file of another machine (below a wrong --symfs) must not lead the walk. */
static void a_walk_uses_no_cfi_of_another_machine(void **state)
{
    struct target *t = *state;
    /* version 1, no augmentation, alignments 1 and -8, return address 16; def_cfa r7+8, r16 c-8 */
    static const uint8_t cie[] = {18,   0,  0,    0, 0, 0,    0, 0, 1, 0, 1,
                                  0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0};
    cfi_free(t->cfi);
    t->section.nr = 0;
    put(&t->section, cie, sizeof(cie));
    FDE(&t->section, LEAF, "");
    t->cfi = create_cfi(&t->section, &arch_x86_64, 1);
    t->in.registers.value[7] = STACK;
    t->in.registers.value[FP] = 1;
    t->stack[0] = START + 8;
    walk(t, LEAF + 4);
    expect_frames(t, (uint64_t[]){LEAF + 4}, 1);
    assert_int_equal(t->out.end, STACK_NO_CFI);
}

static bool wants_all(const void *context, const struct code *code)
{
    (void)context, (void)code;
    return true;
}

static enum walker_result count_step(const void *context, struct walker_state *state,
                                     struct walker_step *step)
{
    (void)state, (void)step;
    ++*(unsigned *)(uintptr_t)context;
    return WALKER_NO;
}

static void a_walk_asks_no_walker_of_another_machine(void **state)
{
    struct target *t = *state;
    unsigned steps = 0;
    struct walker walker = {.arch = &arch_x86_64,
                            .wants = wants_all,
                            .step = count_step,
                            .state_size = sizeof(struct walker_state),
                            .context = &steps};
    t->in.walker = &walker;
    t->in.registers.value[LR] = START + 8;
    walk(t, LEAF + 4);
    assert_int_equal(steps, 0);
    walker.arch = &arch_aarch64;
    walk(t, LEAF + 4);
    assert_int_equal(steps, 2);
}

/* One unwinder, and one batch, may walk both. */
static void two_machines_may_be_walked_side_by_side(void **state)
{
    struct target *t = *state;
    struct unwind_input in[2] = {t->in, t->in};
    struct unwind_stack out[2] = {0};
    in[0].registers.value[LR] = START + 8;
    in[0].registers.value[PC] = LEAF + 4;
    in[1].registers.arch = &arch_x86_64;
    in[1].registers.known = arch_all_registers(&arch_x86_64.reg);
    in[1].registers.value[DWARF_RSP] = STACK;
    in[1].registers.value[DWARF_RIP] = LEAF + 4;
    in[1].registers.value[DWARF_RBP] = 0;
    assert_int_equal(unwind_batch(t->u, in, out, 2, NULL), 0);
    assert_int_equal(out[0].end, STACK_COMPLETE);
    assert_int_equal(out[0].frames.nr, 2);
    assert_int_equal(out[1].frames.nr, 1); /* its frame has no CFI of x86-64 */
    assert_ptr_equal(out[1].registers.arch, &arch_x86_64);
    vec_free(&out[0].frames);
    vec_free(&out[1].frames);
}

#define WALK(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_is_found_by_what_data_says),
        cmocka_unit_test(a_rows_registers_agree),
        cmocka_unit_test(a_rows_tables_have_every_register),
        cmocka_unit_test(a_rows_sizes_fit_their_buffers),
        cmocka_unit_test(aarch64_calls_are_recognised),
        cmocka_unit_test(an_aarch64_calls_target_is_relative_to_the_call),
        cmocka_unit_test(aarch64_functions_begin_and_end_without_a_frame),
        cmocka_unit_test(aarch64_slots_of_imported_functions_are_recognised),
        cmocka_unit_test(aarch64_functions_begin_as_compilers_write_them),
        WALK(a_leafs_return_address_is_in_the_link_register),
        WALK(saved_registers_come_from_a_frame),
        WALK(all_callee_saved_registers_are_restored),
        WALK(registers_are_restored_from_anywhere),
        WALK(rules_of_link_registers_are_compact),
        WALK(a_frame_may_be_large),
        WALK(a_return_addresss_signature_is_removed),
        WALK(the_link_register_of_a_caller_is_not_known),
        WALK(a_stack_without_cfi_ends_where_the_frame_pointer_was_set_to_zero),
        WALK(a_chain_of_frame_pointers_is_a_guess),
        WALK(code_without_cfi_is_left_by_a_link_register_that_leads_elsewhere),
        WALK(a_signal_frame_gives_all_registers),
        WALK(a_signal_frame_without_its_trampolines_code_is_a_guess),
        WALK(glibcs_resolver_is_left_with_what_the_plt_has_pushed),
        WALK(a_slot_of_imported_functions_is_left_exactly),
        WALK(code_without_cfi_is_left_exactly_where_its_instructions_say_how),
        WALK(a_caller_without_cfi_is_left_by_its_instructions),
        WALK(a_function_without_cfi_is_proven_by_its_callers_call),
        WALK(a_walk_uses_no_cfi_of_another_machine),
        WALK(a_walk_asks_no_walker_of_another_machine),
        WALK(two_machines_may_be_walked_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
