/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks of stacks that are small arrays, through code whose bytes and call frame information are
 * written here. The address space:
 *
 *   10000  an ELF module; its functions, 0x100 bytes each, are the enum below
 *   30000  generated code (jitdump), no CFI
 *   40000  executable memory that nothing describes
 *   50000  mapped, not executable
 *   70000  the stack
 */
#include "unwind/arch_x86_64.h"
#include "unwind/native/rule.h"
#include "unwind/trace.h"
#include "unwind/unwind.h"
#include "unwind/walker.h"

#include "base/hash.h"
#include "base/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/cfi_fixture.h"

enum {
    MODULE = 0x10000,
    JIT = 0x30000,
    ANON = 0x40000,
    DATA = 0x50000,
    STACK = 0x70000,
    REGION = 0x1000
};

enum {
    START = MODULE + 0x100,    /* the outermost: return address undefined */
    FRAMED = MODULE + 0x200,   /* push rbp; push rbx; sub $8,rsp */
    LEAF = MODULE + 0x300,     /* nothing pushed */
    PLT = MODULE + 0x400,      /* 16-byte slots, the second half after a push */
    BY_RBP = MODULE + 0x500,   /* push rbp; mov rsp,rbp */
    NO_FDE = MODULE + 0x600,   /* hand-written code */
    DOWN = MODULE + 0x700,     /* CFA below rsp: damaged CFI */
    NORETURN = MODULE + 0x800, /* as FRAMED; ends in a call to abort() */
    NEXT = MODULE + 0x900,     /* as LEAF; the return address of NORETURN's call is its start */
    IN_RAX = MODULE + 0xa00,   /* return address in rax, r12 in rcx, rbx lost */
    VFORK = MODULE + 0xb00,    /* pop rdi: the return address there, rsp already the caller's */
    BY_RAX = MODULE + 0xc00,   /* mov rsp,rax; and $-128,rsp: the CFA is rax + 8 */
    EMPTY_SLOT = 0,
};

/* ---- the module's CFI ----------------------------------------------------------------------- */

static void put_cie(struct bytes *b)
{
    /* version 1, no augmentation, alignments 1 and -8, return address 16; def_cfa r7+8, r16 c-8 */
    static const uint8_t cie[] = {18,   0,  0,    0, 0, 0,    0, 0, 1, 0, 1,
                                  0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0};
    put(b, cie, sizeof(cie));
}

static void put_functions(struct bytes *b)
{
    put_cie(b);
    FDE(b, START, "\x07\x10");
    FDE(b, FRAMED, "\x0e\x20\x86\x02\x83\x03");
    FDE(b, LEAF, "");
    FDE(b, PLT, "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22");
    FDE(b, BY_RBP, "\x0c\x06\x10\x86\x02");
    FDE(b, DOWN, "\x13\x02");
    FDE(b, NORETURN, "\x0e\x20\x86\x02\x83\x03");
    FDE(b, NEXT, "");
    FDE(b, IN_RAX, "\x09\x10\x00\x09\x0c\x02\x07\x03");
    FDE(b, VFORK, "\x0e\x00\x09\x10\x05");
    FDE(b, BY_RAX, "\x0c\x00\x08");
}

/* ---- the target ----------------------------------------------------------------------------- */

struct target {
    struct bytes section;
    struct cfi *cfi;
    struct unwinder *u;
    struct unwind_stack out;
    uint8_t code[4][REGION]; /* code of MODULE, JIT, ANON, DATA */
    uint64_t stack[64];
    struct unwind_input in;
    struct memory_layer layer;
    struct unwinder *traced; /* another one: traced walks do not count in `u` */
};

static const uint64_t regions[4] = {MODULE, JIT, ANON, DATA};

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    const struct target *t = context;
    static const enum code_owner owners[4] = {CODE_ELF, CODE_JIT, CODE_ANON, CODE_NONE};
    (void)time;
    for (int i = 0; i < 4; i++) {
        if (pc - regions[i] >= REGION)
            continue;
        *ret = (struct code){.owner = owners[i],
                             .start = regions[i],
                             .end = regions[i] + REGION,
                             .executable = regions[i] != DATA,
                             .token = t->code[i]};
        if (regions[i] == MODULE) {
            ret->bias = MODULE;
            ret->cfi = t->cfi;
            ret->cfi_id = 1;
        }
        return true;
    }
    return false;
}

static bool read_code(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct target *t = context;
    (void)answer;
    for (int i = 0; i < 4; i++) {
        if (q->address - regions[i] < REGION && regions[i] + REGION - q->address >= q->size) {
            memcpy(to, t->code[i] + (q->address - regions[i]), q->size);
            return true;
        }
    }
    return false;
}

static int setup(void **state)
{
    struct target *t = calloc(1, sizeof(*t));
    put_functions(&t->section);
    t->cfi = create_cfi(&t->section, &arch_x86_64, 1);
    t->u = unwinder_create(NULL);
    t->traced = unwinder_create(NULL);
    t->layer = (struct memory_layer){.read = read_code, .context = t};
    t->in = (struct unwind_input){
        .registers.arch = &arch_x86_64,
        .registers.known = (1u << DWARF_NR) - 1,
        .registers.value[DWARF_RSP] = STACK,
        .memory = {.stack = (const uint8_t *)t->stack,
                   .stack_start = STACK,
                   .stack_size = sizeof(t->stack),
                   .layers = &t->layer,
                   .nr_layers = 1},
        .code = {.lookup = lookup, .context = t},
        .max_frames = 32,
    };
    for (int i = 0; i < 4; i++)
        memset(t->code[i], 0x90, REGION);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct target *t = *state;
    vec_free(&t->out.frames);
    unwinder_free(t->u);
    unwinder_free(t->traced);
    cfi_free(t->cfi);
    free(t->section.at);
    free(t);
    return 0;
}

/* Writes a call instruction that ends at `address`, which thereby is a return address. */
static uint64_t called(struct target *t, uint64_t address)
{
    uint8_t *code = t->code[address >= ANON ? 2 : address >= JIT];
    memcpy(code + (address & (REGION - 1)) - 5, "\xe8\0\0\0", 5);
    return address;
}

/* ---- traces --------------------------------------------------------------------------------- */

/* What a traced walk told. */
struct account {
    VEC(struct trace_event) events; /* those pointed to are gone, but for texts */
    VEC(struct memory_range) reads; /* of the stack */
    uint64_t next_sp;               /* of the last TRACE_NEXT */
    struct cfi_row row;             /* of the last TRACE_RULE */
};

static void take_event(void *context, const struct trace_event *e)
{
    struct account *a = context;
    if (e->kind == TRACE_BACK) /* taken back */
        while (a->events.nr && a->events.at[a->events.nr - 1].frame >= e->frame)
            a->events.nr--;
    if (e->kind == TRACE_RULE)
        a->row = *e->row;
    struct trace_event kept = *e;
    if (e->kind == TRACE_NEXT)
        kept.value = e->registers->value[DWARF_RSP];
    if (e->kind == TRACE_FRAME)
        kept.value = e->registers->value[DWARF_RIP];
    assert_true(vec_push(&a->events, kept));
}

static void take_read(void *context, uint64_t address, size_t size)
{
    struct account *a = context;
    assert_true(vec_push(&a->reads, (struct memory_range){address, address + size}));
}

static void account_free(struct account *a)
{
    vec_free(&a->events);
    vec_free(&a->reads);
}

/* Walk as walk() did, with a trace. */
static void walk_traced(struct target *t, struct account *a, struct unwind_stack *out)
{
    struct memory_reads reads = {.on = true, .watch = take_read, .watch_context = a};
    const struct unwind_trace trace = {take_event, a};
    struct unwind_input in = t->in;
    in.trace = &trace;
    in.memory.reads = &reads;
    assert_int_equal(unwind(t->traced, &in, out, NULL), 0);
}

/* Finds an event whose text contains `text`. */
static const struct trace_event *told(const struct account *a, enum trace_kind kind,
                                      const char *text)
{
    vec_foreach (e, &a->events)
        if (e->kind == kind && (!text || (e->text && strstr(e->text, text))))
            return e;
    return NULL;
}

static bool is_marked(const struct account *a, size_t frame)
{
    vec_foreach (e, &a->events)
        if ((e->kind == TRACE_MARK || e->kind == TRACE_FRAME) && e->frame <= frame &&
            e->provenance >= PROVENANCE_GUESS)
            return true;
    return false;
}

/* A trace changes nothing, and its account fits the frames: each frame has been announced, rules
 * give the frames' CFAs, and each guess has a mark. */
static void check_traced(struct target *t)
{
    struct account a = {.next_sp = 0};
    struct unwind_stack out = {.end = STACK_COMPLETE};
    size_t announced = 0;
    walk_traced(t, &a, &out);
    assert_int_equal(out.frames.nr, t->out.frames.nr);
    assert_int_equal(out.end, t->out.end);
    assert_int_equal(out.end_address, t->out.end_address);
    for (size_t i = 0; i < out.frames.nr; i++) {
        assert_memory_equal(&out.frames.at[i], &t->out.frames.at[i], sizeof(struct frame));
        if (out.frames.at[i].provenance == PROVENANCE_GUESS)
            assert_true(is_marked(&a, i));
    }
    vec_foreach (e, &a.events) {
        if (e->kind == TRACE_FRAME && e->frame < out.frames.nr) {
            assert_int_equal(e->value, out.frames.at[e->frame].pc);
            announced++;
        }
        if (e->kind == TRACE_RULE && e->value)
            assert_int_equal(e->value, out.frames.at[e->frame].cfa);
    }
    if (!t->in.walker)
        assert_int_equal(announced, out.frames.nr);
    vec_free(&out.frames);
    account_free(&a);
}

static void walk(struct target *t, uint64_t pc)
{
    t->in.registers.value[DWARF_RIP] = pc;
    t->out.frames.nr = 0;
    assert_int_equal(unwind(t->u, &t->in, &t->out, NULL), 0);
    check_traced(t);
}

static void expect_frames(const struct target *t, enum stack_end end, size_t nr, ...)
{
    va_list args;
    va_start(args, nr);
    for (size_t i = 0; i < nr && i < t->out.frames.nr; i++) {
        uint64_t pc = va_arg(args, uint64_t);
        if (t->out.frames.at[i].pc != pc)
            fail_msg("frame %zu: 0x%lx, not 0x%lx", i, t->out.frames.at[i].pc, pc);
    }
    va_end(args);
    assert_int_equal(t->out.frames.nr, nr);
    assert_int_equal(t->out.end, end);
}
#define PC(x) ((uint64_t)(x))

static uint64_t slot(unsigned i)
{
    return STACK + 8 * (uint64_t)i;
}

/* ---- by CFI --------------------------------------------------------------------------------- */

/*  70000 return address of LEAF into FRAMED
 *  70008 FRAMED: (8 bytes) rbx rbp, return address into START          CFA of FRAMED: 70028 */
static void chain(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99, START + 5};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_R12] = 0x121212;
    walk(t, LEAF + 3);
    expect_frames(t, STACK_COMPLETE, 3, PC(LEAF + 3), PC(FRAMED + 9), PC(START + 5));
    const struct frame *f = t->out.frames.at;
    assert_int_equal(f[0].cfa, slot(1));
    assert_int_equal(f[1].cfa, slot(5));
    assert_int_equal(f[2].cfa, slot(6));
    assert_int_equal(f[0].flags, FRAME_LEAF);
    assert_int_equal(f[1].flags, 0);
    assert_ptr_equal(f[1].code, t->code[0]);
    assert_int_equal(f[2].provenance, PROVENANCE_EXACT);
    /* in START: registers that FRAMED saved, registers that nobody touched, no caller-saved ones */
    const struct registers *r = &t->out.registers;
    assert_int_equal(r->value[DWARF_RBX], 0xbbb);
    assert_int_equal(r->value[DWARF_RBP], 0xb99);
    assert_int_equal(r->value[DWARF_R12], 0x121212);
    assert_int_equal(r->value[DWARF_RSP], slot(5));
    assert_int_equal(r->known, X86_64_SURVIVES);
}

/* A register that was not recorded stays unknown until a frame has saved it. */
static void unknown_registers(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99, START + 5};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.known = REG_BIT(DWARF_RSP) | REG_BIT(DWARF_RIP);
    walk(t, LEAF);
    expect_frames(t, STACK_COMPLETE, 3, PC(LEAF), PC(FRAMED + 9), PC(START + 5));
    assert_int_equal(t->out.registers.known, REG_BIT(DWARF_RSP) | REG_BIT(DWARF_RIP) |
                                                 REG_BIT(DWARF_RBX) | REG_BIT(DWARF_RBP));
    walk(t, BY_RBP + 9); /* its CFA needs rbp */
    assert_int_equal(t->out.end, STACK_NO_CFI);
    assert_int_equal(t->out.end_pc, BY_RBP + 9);
    t->in.registers.known = REG_BIT(DWARF_RIP);
    walk(t, LEAF);
    expect_frames(t, STACK_NO_REGS, 0);
}

/* A call that does not return ends its function: the return address is in the next function. */
static void noreturn_call(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {NEXT, 0, 0xbbb, 0xb99, START + 5};
    memcpy(t->stack, stack, sizeof(stack));
    walk(t, LEAF);
    expect_frames(t, STACK_COMPLETE, 3, PC(LEAF), PC(NEXT), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].cfa, slot(5));
}

/* jmp *got; push $n (at 6); jmp plt0 (at 11): from there on, one more word is on the stack */
static void plt(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {START + 5, START + 7};
    memcpy(t->stack, stack, sizeof(stack));
    walk(t, PLT + 0x26);
    expect_frames(t, STACK_COMPLETE, 2, PC(PLT + 0x26), PC(START + 5));
    walk(t, PLT + 0x2b);
    expect_frames(t, STACK_COMPLETE, 2, PC(PLT + 0x2b), PC(START + 7));
    assert_int_equal(t->out.frames.at[0].cfa, slot(2));
}

/* The return address is in a register, as in hand-written helpers. */
static void in_registers(void **state)
{
    struct target *t = *state;
    t->in.registers.value[0] = START + 5;
    t->in.registers.value[2] = 0xcc;
    walk(t, IN_RAX + 1);
    expect_frames(t, STACK_COMPLETE, 2, PC(IN_RAX + 1), PC(START + 5));
    assert_int_equal(t->out.registers.value[DWARF_R12], 0xcc);
    assert_false(t->out.registers.known & REG_BIT(DWARF_RBX));
}

/* glibc's vfork: once, out of a leaf, the stack pointer does not move up. */
static void return_address_popped(void **state)
{
    struct target *t = *state;
    t->in.registers.value[5] = LEAF + 5;
    t->stack[0] = START + 5;
    walk(t, VFORK + 2);
    expect_frames(t, STACK_COMPLETE, 3, PC(VFORK + 2), PC(LEAF + 5), PC(START + 5));
    /* when it is a caller, its rdi is unknown: no way out */
    t->stack[0] = VFORK + 2;
    t->in.registers.value[DWARF_RBP] = 0x1000;
    walk(t, LEAF);
    assert_int_not_equal(t->out.end, STACK_COMPLETE);
    assert_int_equal(t->out.frames.nr, 2);
}

static void null_return_address(void **state)
{
    struct target *t = *state;
    walk(t, LEAF);
    expect_frames(t, STACK_COMPLETE, 1, PC(LEAF));
}

/* libcrypto's AES-GCM: its callee keeps rax, though no calling convention says so. The return
 * address there makes the frame a guess. */
static void lost_register(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {BY_RAX + 9, 0xaaa, 0xbbb, called(t, START + 5)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[0 /* rax */] = slot(3);
    t->in.registers.value[DWARF_RBP] = 1; /* neither a frame pointer nor the outermost frame's */
    walk(t, LEAF);
    expect_frames(t, STACK_COMPLETE, 3, PC(LEAF), PC(BY_RAX + 9), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
    assert_int_equal(t->out.frames.at[2].provenance, PROVENANCE_GUESS);
    t->in.registers.value[0 /* rax */] = slot(2); /* no return address there */
    walk(t, LEAF);
    expect_frames(t, STACK_NO_CFI, 2, PC(LEAF), PC(BY_RAX + 9));
    t->in.registers.value[0 /* rax */] = slot(3);
    t->in.registers.value[DWARF_RSP] = slot(1);
    walk(t, BY_RAX + 9); /* in the innermost frame, rax is the sample's own */
    expect_frames(t, STACK_COMPLETE, 2, PC(BY_RAX + 9), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void truncated(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99, START + 5};
    memcpy(t->stack, stack, sizeof(stack));
    for (unsigned size = 0; size < 40; size++) {
        t->in.memory.stack_size = size;
        walk(t, LEAF);
        assert_int_equal(t->out.end, STACK_TRUNCATED);
        assert_int_equal(t->out.frames.nr, size < 8 ? 1 : 2);
        assert_int_equal(t->out.end_address, size < 8 ? slot(0) : slot(4));
        if (size >= 8)
            assert_int_equal(t->out.frames.at[1].cfa, slot(5)); /* joins use it */
    }
}

/* Reads the return address into START, as it was a moment later. */
static bool read_moment_later(void *context, const struct memory_query *q, void *to,
                              struct memory_answer *answer)
{
    const uint64_t word = *(const uint64_t *)context;
    (void)answer;
    if (q->address != slot(4) || q->size != sizeof(word))
        return false;
    memcpy(to, &word, sizeof(word));
    return true;
}

/* Memory that the recorder read at other moments is not used for frames: the page behind the copy's
 * end may hold what a call before or after this one wrote. */
static void not_continued_by_other_moments(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99}, later = START + 5;
    struct memory_layer layer = {.read = read_moment_later, .context = &later};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.memory.stack_size = sizeof(stack);
    t->in.memory.layers = &layer;
    t->in.memory.nr_layers = 1;
    walk(t, LEAF);
    assert_int_equal(t->out.frames.nr, 3); /* for a process that stands still, it counts */
    layer.when = MEMORY_OF_OTHER_TIMES;
    walk(t, LEAF);
    assert_int_equal(t->out.end, STACK_TRUNCATED);
    assert_int_equal(t->out.frames.nr, 2);
    assert_int_equal(t->out.end_address, slot(4));
}

/* Wherever the copy of a stack is split into two pieces, the walk and its end are the same. */
static void two_pieces(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99, START + 5, 7};
    uint8_t far[sizeof(stack)];
    memcpy(t->stack, stack, sizeof(stack));
    for (unsigned near = 0; near <= sizeof(stack); near++) {
        for (unsigned cut = 0; cut < 2; cut++) {
            unsigned size = cut ? 36 : sizeof(stack);
            if (near > size)
                continue;
            memset((uint8_t *)t->stack, 0xee, sizeof(stack));
            memcpy(t->stack, stack, near);
            memcpy(far, (const uint8_t *)stack + near, size - near);
            t->in.memory.stack_size = near;
            t->in.memory.stack_far = far;
            t->in.memory.stack_far_size = size - near;
            walk(t, LEAF + 3);
            if (cut) {
                assert_int_equal(t->out.end, STACK_TRUNCATED);
                assert_int_equal(t->out.end_address, slot(4));
                continue;
            }
            expect_frames(t, STACK_COMPLETE, 3, PC(LEAF + 3), PC(FRAMED + 9), PC(START + 5));
            assert_int_equal(t->out.registers.value[DWARF_RBX], 0xbbb);
            assert_int_equal(t->out.frames.at[2].provenance, PROVENANCE_EXACT);
        }
    }
}

static void bad_read(void **state)
{
    struct target *t = *state;
    t->in.registers.value[DWARF_RBP] = 0x1000; /* below the stack */
    walk(t, BY_RBP + 9);
    expect_frames(t, STACK_BAD_READ, 1, PC(BY_RBP + 9));
    assert_int_equal(t->out.end_address, 0x1008);
    assert_int_equal(t->out.end_pc, BY_RBP + 9);
    t->in.registers.value[DWARF_RBP] = UINT64_MAX - 8;
    walk(t, BY_RBP + 9);
    expect_frames(t, STACK_BAD_READ, 1, PC(BY_RBP + 9));
}

static void loop(void **state)
{
    struct target *t = *state;
    t->in.registers.value[DWARF_RSP] = slot(8);
    t->stack[5] = t->stack[6] = t->stack[7] = DOWN + 3;
    walk(t, DOWN + 3); /* its CFA is rsp - 16 */
    expect_frames(t, STACK_LOOP, 1, PC(DOWN + 3));
}

static void limit(void **state)
{
    struct target *t = *state;
    for (int i = 0; i < 64; i++)
        t->stack[i] = LEAF + 1;
    walk(t, LEAF);
    assert_int_equal(t->out.end, STACK_LIMIT);
    assert_int_equal(t->out.frames.nr, 32);
    t->in.max_frames = 0;
    walk(t, LEAF);
    expect_frames(t, STACK_LIMIT, 0);
}

static void no_code(void **state)
{
    struct target *t = *state;
    t->stack[0] = 0xdead0000;
    walk(t, LEAF);
    expect_frames(t, STACK_NO_CODE, 2, PC(LEAF), PC(0xdead0000));
    assert_null(t->out.frames.at[1].code);
    assert_int_equal(t->out.end_pc, 0xdead0000);
}

/* ---- without CFI ---------------------------------------------------------------------------- */

/* A frame pointer whose return address is behind a call is used, and marked as a guess. */
static void frame_pointer(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {1, 2, slot(5), called(t, JIT + 0x80), 3, 0xb99, called(t, START + 5)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = slot(2);
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_COMPLETE, 3, PC(JIT + 0x20), PC(JIT + 0x80), PC(START + 5));
    const struct frame *f = t->out.frames.at;
    assert_int_equal(f[0].kind, FRAME_JIT);
    assert_int_equal(f[0].provenance, PROVENANCE_EXACT);
    assert_int_equal(f[1].provenance, PROVENANCE_GUESS);
    assert_int_equal(f[2].provenance, PROVENANCE_GUESS);
    assert_int_equal(f[0].cfa, 0);
    assert_int_equal(t->out.registers.value[DWARF_RBP], 0xb99);
    assert_int_equal(unwinder_stats(t->u).guesses, 2);
}

/* Go's goroutines: the outermost frame returns behind a nop, and there is no frame before it. */
static void frame_pointer_to_made_return(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {1, 2, 0, START + 5};
    uint8_t *before = t->code[0] + ((START + 5) & (REGION - 1)) - 1;
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = slot(2);
    *before = 0xcc;
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_NO_CFI, 1, PC(JIT + 0x20));
    *before = 0x90;
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x20), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_GUESS);
    t->stack[2] = slot(5); /* another frame */
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_NO_CFI, 1, PC(JIT + 0x20));
}

/* Writes a call through a register that ends at `address`. */
static uint64_t called_by_register(struct target *t, uint64_t address)
{
    memcpy(t->code[0] + (address & (REGION - 1)) - 2, "\xff\xd6", 2);
    return address;
}

/* pcre2's code has a frame of its own without a frame pointer. Its caller is at the return address
 * of an indirect call from which the walk reaches the entry. All frames from there on are
 * guesses. */
static void past_generated(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {1,
                        called(t, FRAMED + 0x30),             /* not a call through a register */
                        called_by_register(t, FRAMED + 0x40), /* an old word that leads nowhere */
                        3,
                        4,
                        5,
                        6,
                        called_by_register(t, FRAMED + 9),
                        0,
                        0xbbb,
                        0xb99,
                        called(t, START + 5)};
    for (int anonymous = 0; anonymous < 2; anonymous++) {
        uint64_t pc = (anonymous ? ANON : JIT) + 0x20;
        memcpy(t->stack, stack, sizeof(stack));
        t->in.registers.value[DWARF_RBP] = 5;
        walk(t, pc);
        expect_frames(t, STACK_COMPLETE, 3, pc, PC(FRAMED + 9), PC(START + 5));
        assert_int_equal(t->out.frames.at[0].provenance, PROVENANCE_EXACT);
        assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_GUESS);
        assert_int_equal(t->out.frames.at[2].provenance, PROVENANCE_GUESS);
        assert_int_equal(t->out.registers.value[DWARF_RBP], 0xb99);
        t->stack[11] = DATA; /* the entry is not reached */
        walk(t, pc);
        expect_frames(t, STACK_NO_CFI, 1, pc);
        assert_int_equal(t->out.registers.value[DWARF_RBP], 5);
    }
    t->stack[11] = START + 5;
    walk(t, NO_FDE); /* code of a file is not walked this way */
    expect_frames(t, STACK_NO_CFI, 1, PC(NO_FDE));
}

/* Each return address leads to other generated code, and none leads to the entry. The number of
 * attempts must not double with each (31 of them would take an hour). */
static void a_search_within_a_search_ends(void **state)
{
    struct target *t = *state;
    const size_t nr = sizeof(t->stack) / sizeof(*t->stack);
    for (size_t i = 0; i + 1 < nr; i += 2) {
        t->stack[i] = called_by_register(t, LEAF + 0x10);
        t->stack[i + 1] = ANON + 0x100;
    }
    t->in.max_frames = 1 << 15;
    t->in.registers.value[DWARF_RBP] = 1;
    walk(t, ANON + 0x50);
    assert_int_not_equal(t->out.end, STACK_COMPLETE);
}

/* Code that only leaves its frame tells where its caller is: nothing is guessed. */
static void epilogue(void **state)
{
    struct target *t = *state;
    static const uint8_t pushed[] = {0x48, 0x83, 0xc4, 0x10, 0x41, 0x5c, 0x5d, 0xc3};
    uint64_t stack[] = {1, 2, 0xccc, 0xb99, called(t, START + 5)};
    memcpy(t->stack, stack, sizeof(stack));
    memcpy(t->code[1] + 0x20, pushed, sizeof(pushed));
    t->in.registers.value[DWARF_RBX] = 0xbbb;
    t->in.registers.value[DWARF_RBP] = 5; /* no frame pointer */
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x20), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
    assert_int_equal(t->out.registers.value[DWARF_RBX], 0xbbb);
    assert_int_equal(t->out.registers.value[DWARF_R12], 0xccc);
    assert_int_equal(t->out.registers.value[DWARF_RBP], 0xb99);
    t->code[1][0x24] = 0x06; /* no instruction: the way is unknown */
    walk(t, JIT + 0x20);
    assert_int_equal(t->out.end, STACK_NO_CFI);
    memcpy(t->code[1] + 0x20, pushed, sizeof(pushed));
    t->stack[4] = START + 0x80; /* not behind a call */
    walk(t, JIT + 0x20);
    assert_int_equal(t->out.end, STACK_NO_CFI);
}

static void frame_pointer_refused(void **state)
{
    struct target *t = *state;
    const uint64_t not_called = JIT + 0x80, beyond = slot(64);
    const struct {
        uint64_t rbp, return_address;
    } cases[] = {
        {slot(2), not_called},                /* no call before it */
        {slot(2), DATA + 0x80},               /* not executable */
        {slot(2), 0xdead0000},                /* nowhere */
        {slot(2) + 1, called(t, JIT + 0x90)}, /* not aligned */
        {STACK - 64, called(t, JIT + 0x90)},  /* below rsp */
        {beyond, called(t, JIT + 0x90)},      /* not recorded */
        {UINT64_MAX - 7, called(t, JIT + 0x90)},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->stack[3] = cases[i].return_address;
        t->in.registers.value[DWARF_RBP] = cases[i].rbp;
        walk(t, JIT + 0x20);
        expect_frames(t, STACK_NO_CFI, 1, PC(JIT + 0x20));
        assert_int_equal(t->out.end_pc, JIT + 0x20);
    }
}

/* In a prologue or at a return, rbp is the caller's: the return address is at the stack's top. */
static void prologue(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {called(t, START + 5), called(t, START + 0x15), slot(6),
                        called(t, START + 0x25)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = slot(2);
    memcpy(t->code[1] + 0x1f, "\x90\x55\x48\x89\xe5\x90\xc9\xc3",
           8); /* push rbp; mov rsp,rbp; nop; leave; ret */
    walk(t, JIT + 0x20);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x20), PC(START + 5));
    walk(t, JIT + 0x21);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x21), PC(START + 0x15));
    assert_int_equal(t->out.registers.value[DWARF_RBP], START + 5); /* what was pushed */
    walk(t, JIT + 0x24);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x24), PC(START + 0x25));
    walk(t, JIT + 0x26);
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT + 0x26), PC(START + 5));
    walk(t, JIT); /* the first instruction of a function */
    expect_frames(t, STACK_COMPLETE, 2, PC(JIT), PC(START + 5));
}

/* A PLT to which its linker (lld) gave no CFI: jmp *got; push $n; jmp plt0. */
static void plt_without_cfi(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {called(t, START + 5), called(t, START + 0x15)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = 0x1234;
    memcpy(t->code[0] + 0x610, "\xff\x25\0\0\0\0\x68\0\0\0\0\xe9\0\0\0\0", 16);
    walk(t, NO_FDE + 0x10);
    expect_frames(t, STACK_COMPLETE, 2, PC(NO_FDE + 0x10), PC(START + 5));
    walk(t, NO_FDE + 0x16);
    expect_frames(t, STACK_COMPLETE, 2, PC(NO_FDE + 0x16), PC(START + 5));
    walk(t, NO_FDE + 0x1b);
    expect_frames(t, STACK_COMPLETE, 2, PC(NO_FDE + 0x1b), PC(START + 0x15));
    assert_int_equal(t->out.registers.value[DWARF_RBP], 0x1234);
}

/* A call through a null pointer; hand-written code without a frame. */
static void leaf_without_frame(void **state)
{
    struct target *t = *state;
    t->in.registers.value[DWARF_RBP] = 1;
    t->stack[0] = called(t, START + 5);
    walk(t, 0);
    expect_frames(t, STACK_COMPLETE, 2, PC(0), PC(START + 5));
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_GUESS);
    walk(t, NO_FDE + 8);
    expect_frames(t, STACK_COMPLETE, 2, PC(NO_FDE + 8), PC(START + 5));
    t->stack[0] = START + 0x60; /* no call before it */
    walk(t, NO_FDE + 8);
    expect_frames(t, STACK_NO_CFI, 1, PC(NO_FDE + 8));
}

/* rbp 0 may be a number. It marks the outermost frame in code of a file that has set it to 0 right
 * before its call, as _start does. */
static void outermost_without_cfi(void **state)
{
    struct target *t = *state;
    uint8_t *code = t->code[0] + ((NO_FDE + 0x40) & (REGION - 1));
    t->in.registers.value[DWARF_RBP] = 0;
    walk(t, NO_FDE + 8);
    expect_frames(t, STACK_NO_CFI, 1, PC(NO_FDE + 8));
    t->stack[0] = called(t, START + 5);
    walk(t, NO_FDE + 8);
    expect_frames(t, STACK_COMPLETE, 2, PC(NO_FDE + 8), PC(START + 5));
    t->stack[0] = called(t, NO_FDE + 0x40);
    walk(t, LEAF + 2);
    expect_frames(t, STACK_NO_CFI, 2, PC(LEAF + 2), PC(NO_FDE + 0x40));
    memcpy(code - 16, "\x31\xed", 2); /* xor ebp, ebp */
    walk(t, LEAF + 2);
    expect_frames(t, STACK_COMPLETE, 2, PC(LEAF + 2), PC(NO_FDE + 0x40));
}

/* makecontext() puts the address of a function into the stack, which its own function returns to.
 */
static void a_made_stack_begins_at_a_functions_first_byte(void **state)
{
    struct target *t = *state;
    t->stack[0] = DOWN;
    walk(t, LEAF + 2);
    expect_frames(t, STACK_COMPLETE, 2, PC(LEAF + 2), PC(DOWN));
    assert_int_equal(t->out.frames.at[1].flags, FRAME_MADE);
    assert_int_equal(t->out.frames.at[1].provenance, PROVENANCE_EXACT);
}

/* A call of a function that does not return may stand right before another function. */
static void a_call_before_a_function_makes_no_stack(void **state)
{
    struct target *t = *state;
    t->stack[0] = called(t, DOWN);
    walk(t, LEAF + 2);
    expect_frames(t, STACK_NO_CFI, 2, PC(LEAF + 2), PC(DOWN));
    assert_int_equal(t->out.frames.at[1].flags, 0);
}

/* The loader's first function has no CFI: the ELF header tells where it is. */
static void the_entry_is_outermost(void **state)
{
    struct target *t = *state;
    t->cfi->entry = NO_FDE + 0x40 - MODULE;
    t->in.registers.value[DWARF_RBP] = 0xb99;
    t->stack[0] = called(t, NO_FDE + 0x48);
    walk(t, LEAF + 2);
    expect_frames(t, STACK_COMPLETE, 2, PC(LEAF + 2), PC(NO_FDE + 0x48));
    t->stack[0] = called(t, NO_FDE + 0x3f);
    walk(t, LEAF + 2);
    expect_frames(t, STACK_NO_CFI, 2, PC(LEAF + 2), PC(NO_FDE + 0x3f));
}

/* Generated code that has 0 in rbp says nothing, whatever its bytes are. */
static void generated_code_is_no_start(void **state)
{
    struct target *t = *state;
    uint8_t *code = t->code[1] + 0x40;
    t->in.registers.value[DWARF_RBP] = 0;
    memcpy(code - 16, "\x31\xed", 2);
    walk(t, JIT + 0x40);
    expect_frames(t, STACK_NO_CFI, 1, PC(JIT + 0x40));
    t->stack[0] = called(t, JIT + 0x40);
    walk(t, LEAF + 2);
    expect_frames(t, STACK_NO_CFI, 2, PC(LEAF + 2), PC(JIT + 0x40));
}

/* ---- signals -------------------------------------------------------------------------------- */

/* Writes a struct ucontext at word `at` of the stack; registers r8.. in the kernel's order from its
 * word 5. */
static void put_context(struct target *t, unsigned at, uint64_t rip, uint64_t rsp)
{
    for (unsigned i = 0; i < 17; i++)
        t->stack[at + 5 + i] = 0x1000 + i;
    t->stack[at + 5 + 15] = rsp;
    t->stack[at + 5 + 16] = rip;
}

static const uint8_t trampoline[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};

/*  handler LEAF; its return address; ucontext; the interrupted leaf's stack at 30 */
static void sigreturn_by_bytes(void **state)
{
    struct target *t = *state;
    memcpy(t->code[0] + 0x640, trampoline, sizeof(trampoline));
    t->stack[0] = NO_FDE + 0x40;
    /* exactly the first instruction: pc - 1 is in another function */
    put_context(t, 1, LEAF, slot(30));
    t->stack[30] = START + 5;
    walk(t, LEAF + 1);
    expect_frames(t, STACK_COMPLETE, 4, PC(LEAF + 1), PC(NO_FDE + 0x40), PC(LEAF), PC(START + 5));
    const struct frame *f = t->out.frames.at;
    assert_int_equal(f[1].flags, FRAME_MADE);
    assert_int_equal(frame_lookup_pc(&f[1]), NO_FDE + 0x40);
    assert_int_equal(f[2].flags, FRAME_SIGNAL);
    assert_int_equal(f[2].provenance, PROVENANCE_EXACT);
    assert_int_equal(f[3].flags, 0);
    assert_int_equal(t->out.registers.value[DWARF_RBX], 0x1000 + 11);
    assert_int_equal(t->out.registers.value[DWARF_R15], 0x1000 + 7);
    /* interrupted in the trampoline itself, at its system call */
    put_context(t, 0, LEAF, slot(30));
    walk(t, NO_FDE + 0x47);
    expect_frames(t, STACK_COMPLETE, 3, PC(NO_FDE + 0x47), PC(LEAF), PC(START + 5));
    /* in the system call: the pc is behind the trampoline, and the signal frame is there */
    walk(t, NO_FDE + 0x49);
    expect_frames(t, STACK_NO_CFI, 1, PC(NO_FDE + 0x49));
    t->stack[5 + 18] = 0x2b000000000033; /* cs, gs, fs, ss */
    walk(t, NO_FDE + 0x49);
    expect_frames(t, STACK_COMPLETE, 3, PC(NO_FDE + 0x49), PC(LEAF), PC(START + 5));
}

/* A signal frame that claims that it interrupted itself, forever. */
static void signal_loop(void **state)
{
    struct target *t = *state;
    memcpy(t->code[0] + 0x640, trampoline, sizeof(trampoline));
    put_context(t, 0, NO_FDE + 0x40, STACK);
    walk(t, NO_FDE + 0x40);
    assert_int_equal(t->out.end, STACK_LOOP);
    assert_true(t->out.frames.nr < 20);
}

/* The interrupted stack is another stack, which was not recorded. */
static void other_stack(void **state)
{
    struct target *t = *state;
    memcpy(t->code[0] + 0x640, trampoline, sizeof(trampoline));
    t->stack[0] = NO_FDE + 0x40;
    put_context(t, 1, LEAF, 0x7fff12345000);
    walk(t, LEAF + 1);
    expect_frames(t, STACK_TRUNCATED, 3, PC(LEAF + 1), PC(NO_FDE + 0x40), PC(LEAF));
    assert_int_equal(t->out.end_address, 0x7fff12345000);
    put_context(t, 1, LEAF, 0x2000); /* below the recorded stack */
    walk(t, LEAF + 1);
    expect_frames(t, STACK_TRUNCATED, 3, PC(LEAF + 1), PC(NO_FDE + 0x40), PC(LEAF));
}

/* ---- the cache ------------------------------------------------------------------------------ */

enum { MANY = 80000 };

/* Each function has a CFA of its own; every hundredth has a row that is kept whole. */
static struct cfi *many_functions(struct bytes *b)
{
    put_cie(b);
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t program[] = {0x0e,           0x80 | (i & 0x7f),  0x80 | (i >> 7 & 0x7f),
                             i >> 14 & 0x7f, i % 100 ? 0 : 0x82, i % 100 ? 0 : 2};
        put_fde(b, 0x1000 + 16ul * i, 16, program, sizeof(program));
    }
    return create_cfi(b, &arch_x86_64, 1);
}

/* Looks up `nr` addresses in an order of its own. Every answer must be that of the address. */
struct looker {
    struct cfi *cfi;
    struct rule_cache cache;
    uint64_t first, nr;
    size_t hits, wrong;
};

static bool is_answer(const struct looker *l, const struct rule *rule, uint64_t i)
{
    if (!rule || rule->kind != (i % 100 ? RULE_OFFSETS : RULE_ROW))
        return false;
    uint64_t offset = (uint64_t)rule->cfa_offset;
    if (rule->kind == RULE_ROW)
        offset = (uint64_t)rule_cache_row(&l->cache, rule)->cfa_offset;
    return offset == i;
}

static void look_up(void *worker, struct processor *p)
{
    (void)p;
    struct looker *l = worker;
    for (uint64_t n = l->first; n < l->first + l->nr; n++) {
        uint64_t random = hash_u64(n), i = random % (n & 1 ? 5000 : MANY);
        uint32_t id = 1 + (random >> 32) % 3; /* the same code under several ids */
        uint64_t address = 0x1000 + 16 * i + (random >> 40) % 16;
        uint64_t hash = rule_key_hash(id, address - l->cfi->low);
        uint32_t index = rule_find(&l->cache, hash);
        l->hits += index != 0;
        const struct rule *rule =
            index ? &l->cache.rules[index] : rule_miss(&l->cache, l->cfi, address, hash);
        l->wrong += !is_answer(l, rule, i);
    }
}

/* More rules, rows and addresses than the cache holds, again and again: no answer changes. */
static void cache_is_exact(void **state)
{
    (void)state;
    struct bytes section = {0};
    struct looker l = {.cfi = many_functions(&section), .nr = 600000};
    assert_true(rule_cache_init(&l.cache, NULL));
    look_up(&l, NULL);
    assert_int_equal(l.wrong, 0);
    assert_true(l.hits > 50000);
    rule_cache_destroy(&l.cache);
    cfi_free(l.cfi);
    free(section.at);
}

/* The same with threads that share the rules they find, in stores that get full and are renewed. */
static void shared_rules_are_exact(void **state)
{
    (void)state;
    enum { LOOKERS = 4, EACH = 100000 };
    struct bytes section = {0};
    struct cfi *cfi = many_functions(&section);
    struct unwind_rules *rules = unwind_rules_create();
    struct looker all[LOOKERS];
    assert_non_null(rules);
    for (unsigned i = 0; i < LOOKERS; i++) {
        all[i] = (struct looker){.cfi = cfi, .first = i * (EACH / 2), .nr = EACH};
        assert_true(rule_cache_init(&all[i].cache, rules));
    }
    threads_run(look_up, all, sizeof(*all), LOOKERS);
    for (unsigned i = 0; i < LOOKERS; i++) {
        assert_int_equal(all[i].wrong, 0);
        rule_cache_destroy(&all[i].cache);
    }
    unwind_rules_free(rules);
    cfi_free(cfi);
    free(section.at);
}

/* A rule that one has found need not be looked for by another. */
static void shared_rules_are_found(void **state)
{
    (void)state;
    enum { FEW = 1000 };
    struct bytes section = {0};
    struct cfi *cfi = many_functions(&section);
    struct unwind_rules *rules = unwind_rules_create();
    struct looker one = {.cfi = cfi, .nr = FEW}, other = one;
    assert_non_null(rules);
    assert_true(rule_cache_init(&one.cache, rules) && rule_cache_init(&other.cache, rules));
    look_up(&one, NULL);
    look_up(&other, NULL);
    assert_true(one.hits < FEW / 2 && other.hits > FEW / 10 * 9);
    assert_int_equal(one.wrong + other.wrong, 0);
    rule_cache_destroy(&one.cache);
    rule_cache_destroy(&other.cache);
    unwind_rules_free(rules);
    cfi_free(cfi);
    free(section.at);
}

/* Many stacks side by side give the same as each stack alone. */
static void batch_equals_single(void **state)
{
    enum { NR = 3 * UNWIND_LANES + 5, WORDS = 24 };
    static const uint64_t pcs[] = {START + 5,  FRAMED + 9, LEAF,      PLT + 0x2b, BY_RBP + 9,
                                   NO_FDE + 4, DOWN + 3,   VFORK + 2, IN_RAX + 1, NORETURN + 8};
    struct target *t = *state;
    uint64_t stacks[NR][WORDS];
    struct unwind_input in[NR];
    struct unwind_stack out[NR] = {0};
    uint64_t seed = 1;
    for (unsigned i = 0; i < NR; i++) {
        for (unsigned k = 0; k < WORDS; k++) {
            seed = hash_u64(seed + k);
            stacks[i][k] = seed % 4 ? pcs[seed / 4 % 10] : STACK + seed % (8 * WORDS);
        }
        in[i] = t->in;
        in[i].registers.value[DWARF_RIP] = pcs[seed % 10];
        in[i].registers.value[DWARF_RBP] = slot(seed % WORDS);
        in[i].registers.value[0] = in[i].registers.value[5] = pcs[seed / 16 % 10];
        in[i].memory.stack = (const uint8_t *)stacks[i];
        in[i].memory.stack_size = sizeof(stacks[i]);
    }
    assert_int_equal(unwind_batch(t->u, in, out, NR, NULL), 0);
    for (unsigned i = 0; i < NR; i++) {
        t->out.frames.nr = 0;
        assert_int_equal(unwind(t->u, &in[i], &t->out, NULL), 0);
        assert_int_equal(out[i].end, t->out.end);
        assert_int_equal(out[i].end_pc, t->out.end_pc);
        assert_int_equal(out[i].frames.nr, t->out.frames.nr);
        assert_memory_equal(out[i].frames.at, t->out.frames.at,
                            t->out.frames.nr * sizeof(struct frame));
        vec_free(&out[i].frames);
    }
}

/* ---- suffix caches -------------------------------------------------------------------------- */

static bool wants_jit(const void *context, const struct code *code)
{
    (void)context;
    return code->owner == CODE_JIT;
}

/* A managed frame: the caller's rbp is at rbp, the return address above it. The walker remembers
 * its leaf. */
struct by_rbp {
    struct walker_state head;
    bool odd;
};

static enum walker_result step_by_rbp(const void *context, struct walker_state *state,
                                      struct walker_step *s)
{
    struct by_rbp *own = (struct by_rbp *)state;
    uint64_t rbp = s->value[DWARF_RBP];
    struct frame f = {.pc = s->value[DWARF_RIP], .cfa = rbp + 16, .kind = FRAME_JS};
    (void)context;
    if (!own->head.begun)
        *own = (struct by_rbp){.head.begun = true, .odd = f.pc & 1};
    f.function = own->odd;
    if (!memory_read_u64(&s->input->memory, rbp, &s->value[DWARF_RBP], s->provenance) ||
        !memory_read_u64(&s->input->memory, rbp + 8, &s->value[DWARF_RIP], s->provenance))
        return WALKER_NO;
    s->value[DWARF_RSP] = rbp + 16;
    *s->known &= X86_64_SURVIVES;
    if ((*s->frames_left)-- == 0)
        return WALKER_NO;
    return vec_push(&s->out->frames, f) ? WALKER_STEPPED : WALKER_NO_MEMORY;
}

static bool settled_by_rbp(const void *context, const struct walker_state *state)
{
    (void)context;
    return !((const struct by_rbp *)state)->odd;
}

enum { SUFFIX_STACK = 192 };
struct suffix_cache_stack {
    uint64_t words[SUFFIX_STACK]; /* up to STACK + sizeof(words) */
    uint64_t at, rbp, rbx;
};

static void push_word(struct suffix_cache_stack *s, uint64_t word)
{
    s->words[--s->at] = word;
}

/* Makes a stack whose `shared` outermost frames follow from `outer`, the others from `inner`. */
static void make_stack(struct suffix_cache_stack *s, uint64_t outer, uint64_t inner,
                       unsigned shared, unsigned nr)
{
    uint64_t ra = START + 5;
    memset(s->words, 0, sizeof(s->words));
    s->at = SUFFIX_STACK;
    s->rbp = s->rbx = 0;
    for (unsigned i = 0; i < nr; i++) {
        uint64_t choice = hash_u64((i < shared ? outer : inner) + i);
        push_word(s, ra);
        push_word(s, s->rbp);
        if (choice & 1) {
            s->rbp = STACK + 8 * s->at;
            ra = JIT + 0x20;
            continue;
        }
        push_word(s, s->rbx);
        push_word(s, choice >> 8); /* a local variable */
        s->rbx = choice >> 4 & 1;
        ra = FRAMED + 9;
    }
    push_word(s, ra);
}

/* Changes a word of the outer part: a local variable, a saved register, or an address. */
static void change_word(struct suffix_cache_stack *s, uint64_t seed)
{
    uint64_t at = SUFFIX_STACK - 1 - seed % 24;
    if (at > s->at && s->words[at] < MODULE)
        s->words[at] ^= 1;
}

/* Frames taken over from earlier walks change nothing, whichever part of the stacks is the same. */
static void suffix_caches_change_nothing(void **state)
{
    enum { NR = 6 * UNWIND_LANES, ROUNDS = 100 };
    struct target *t = *state;
    static struct suffix_cache_stack stacks[NR];
    struct memory_reads reads[NR];
    struct unwind_input in[NR];
    struct unwind_stack out[NR] = {0};
    struct unwinder *single = unwinder_create(NULL);
    const struct walker walker = {.wants = wants_jit,
                                  .step = step_by_rbp,
                                  .is_stateless = settled_by_rbp,
                                  .state_size = sizeof(struct by_rbp)};
    uint64_t seed = 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unwinder_forget(t->u);
        for (unsigned i = 0; i < NR; i++) {
            struct suffix_cache_stack *s = &stacks[i];
            seed = hash_u64(seed + i);
            make_stack(s, round, seed, 8 + seed % 16, 10 + seed / 16 % 20);
            if (seed % 5 == 0)
                change_word(s, seed >> 8);
            in[i] = t->in;
            in[i].walker = &walker;
            in[i].context_key = t;
            in[i].thread = seed % 7 == 0;
            in[i].max_frames = seed % 11 ? 64 : 12;
            in[i].memory.reads = &reads[i];
            in[i].memory.stack_start = STACK + 8 * s->at;
            in[i].memory.stack = (const uint8_t *)(s->words + s->at);
            in[i].memory.stack_size =
                8 * (SUFFIX_STACK - s->at) - (seed % 13 ? 0 : 8 * (seed % 16));
            in[i].registers.value[DWARF_RIP] = seed % 3 ? LEAF + 3 : JIT + 0x40 + seed % 2;
            in[i].registers.value[DWARF_RSP] = STACK + 8 * s->at;
            in[i].registers.value[DWARF_RBP] = s->rbp;
            in[i].registers.value[DWARF_RBX] = s->rbx;
        }
        assert_int_equal(unwind_batch(t->u, in, out, NR, NULL), 0);
        for (unsigned i = 0; i < NR; i++) {
            t->out.frames.nr = 0;
            assert_int_equal(unwind(single, &in[i], &t->out, NULL), 0);
            assert_int_equal(out[i].end, t->out.end);
            assert_int_equal(out[i].end_pc, t->out.end_pc);
            assert_int_equal(out[i].end_address, t->out.end_address);
            assert_int_equal(out[i].registers.known, t->out.registers.known);
            assert_int_equal(out[i].registers.value[DWARF_RSP], t->out.registers.value[DWARF_RSP]);
            assert_int_equal(out[i].registers.value[DWARF_RBX], t->out.registers.value[DWARF_RBX]);
            assert_int_equal(out[i].frames.nr, t->out.frames.nr);
            assert_memory_equal(out[i].frames.at, t->out.frames.at,
                                t->out.frames.nr * sizeof(struct frame));
            out[i].frames.nr = 0;
        }
    }
    /* and a good part of the frames was taken over */
    uint64_t walked = unwinder_stats(t->u).rule_hits, all = unwinder_stats(single).rule_hits;
    if (walked * 4 > all * 3)
        fail_msg("%lu native frames were walked of %lu", walked, all);
    for (unsigned i = 0; i < NR; i++)
        vec_free(&out[i].frames);
    unwinder_free(single);
}

/* ---- code shared by several walks ----------------------------------------------------------- */

/* An address space: each 32 bytes of the module have an answer of their own. */
struct space {
    struct target *target;
    char tokens[REGION / 32];
    unsigned asked;
};

static bool lookup_in_space(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    struct space *s = context;
    s->asked++;
    if (!lookup(s->target, pc, time, ret))
        return false;
    ret->start = pc & ~UINT64_C(31);
    ret->end = ret->start + 32;
    ret->token = &s->tokens[(pc & (REGION - 1)) / 32];
    return true;
}

static bool wants_jit_asked(const void *context, const struct code *code)
{
    bool *asked = (void *)(uintptr_t)context;
    *asked |= code->owner == CODE_JIT;
    return code->owner == CODE_JIT;
}

static enum walker_result step_if_asked(const void *context, struct walker_state *state,
                                        struct walker_step *s)
{
    assert_true(*(const bool *)context);
    return step_by_rbp(context, state, s);
}

enum { SPACE_WORDS = 24 };

/* A frame of generated code, then twenty of native code without saved registers. */
static void make_space_input(struct space *s, uint64_t seed, uint64_t *stack,
                             struct unwind_input *ret)
{
    *ret = s->target->in;
    for (unsigned k = 0; k < SPACE_WORDS - 1; k++) {
        seed = hash_u64(seed + k);
        stack[k] = (seed & 1 ? LEAF : NEXT) + 1 + (seed >> 8) % 255;
    }
    stack[SPACE_WORDS - 1] = START + 5;
    ret->registers.value[DWARF_RIP] = JIT + 0x40 + (seed >> 20) % 64;
    ret->registers.value[DWARF_RBP] = STACK;
    ret->memory.stack = (const uint8_t *)stack;
    ret->memory.stack_size = SPACE_WORDS * sizeof(*stack);
    ret->code = (struct codemap){.lookup = lookup_in_space, .context = s};
    ret->context_key = s;
}

static void expect_space(const struct unwind_stack *out, const struct space *s)
{
    assert_int_equal(out->end, STACK_COMPLETE);
    assert_int_equal(out->frames.nr, SPACE_WORDS);
    for (size_t i = 1; i < SPACE_WORDS; i++) {
        const struct frame *f = &out->frames.at[i];
        assert_ptr_equal(f->code, &s->tokens[(frame_lookup_pc(f) & (REGION - 1)) / 32]);
    }
}

/* Answers of the code map are shared only by walks of one space, and not after they were forgotten.
 * A walker is asked in each walk that comes to its code. */
static void code_is_not_mixed_up(void **state)
{
    enum { SPACES = 24, NR = 6 * UNWIND_LANES, ROUNDS = 20 };
    static struct space spaces[SPACES];
    static uint64_t stacks[NR][SPACE_WORDS];
    static bool asked[NR];
    struct walker walkers[NR];
    struct unwind_input in[NR];
    struct unwind_stack out[NR] = {0};
    struct target *t = *state;
    for (unsigned i = 0; i < SPACES; i++)
        spaces[i] = (struct space){.target = t};
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned nr_spaces = round % 2 ? SPACES : 1;
        unwinder_forget(t->u);
        for (unsigned i = 0; i < NR; i++) {
            uint64_t seed = hash_u64(round * NR + i);
            make_space_input(&spaces[seed % nr_spaces], seed, stacks[i], &in[i]);
            asked[i] = false;
            walkers[i] = (struct walker){.wants = wants_jit_asked,
                                         .step = step_if_asked,
                                         .state_size = sizeof(struct by_rbp),
                                         .context = &asked[i]};
            in[i].walker = &walkers[i];
            in[i].context_key = seed >> 32 & 1 ? in[i].context_key : NULL;
            out[i].frames.nr = 0;
        }
        assert_int_equal(unwind_batch(t->u, in, out, NR, NULL), 0);
        for (unsigned i = 0; i < NR; i++)
            expect_space(&out[i], in[i].code.context);
    }
    for (unsigned i = 0; i < NR; i++)
        vec_free(&out[i].frames);
}

/* Two parts of a recording have different code at one place; within one part, the code is asked for
 * once. */
static void code_is_asked_for_once(void **state)
{
    struct target *t = *state;
    struct space space = {.target = t};
    struct unwind_input in;
    struct unwind_stack out = {0};
    t->in.code = (struct codemap){.lookup = lookup_in_space, .context = &space};
    t->in.context_key = &space;
    t->in.registers.value[DWARF_RIP] = LEAF;
    t->stack[0] = START + 5;
    for (unsigned i = 0; i < 4; i++) {
        if (i == 2)
            unwinder_forget(t->u);
        in = t->in;
        out.frames.nr = 0;
        assert_int_equal(unwind_batch(t->u, &in, &out, 1, NULL), 0);
        assert_int_equal(out.frames.nr, 2);
        assert_int_equal(space.asked, i < 2 ? 2 : 4);
    }
    vec_free(&out.frames);
}

/* ---- what a trace says ---------------------------------------------------------------------- */

static struct account account_of(struct target *t, uint64_t pc)
{
    struct account a = {.next_sp = 0};
    struct unwind_stack out = {.end = STACK_COMPLETE};
    walk(t, pc);
    walk_traced(t, &a, &out);
    vec_free(&out.frames);
    return a;
}

static bool was_read(const struct account *a, uint64_t address)
{
    vec_foreach (r, &a->reads)
        if (r->start == address)
            return true;
    return false;
}

/* The rule with its registers, each slot that it reads, the CFA as the caller's stack pointer, and
 * why the walk ended. */
static void trace_of_rules(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {FRAMED + 9, 0, 0xbbb, 0xb99, START + 5};
    memcpy(t->stack, stack, sizeof(stack));
    struct account a = account_of(t, LEAF + 3);
    const struct trace_event *e = a.events.at;
    assert_int_equal(e[0].kind, TRACE_FRAME);
    assert_int_equal(e[0].flags, FRAME_LEAF);
    assert_int_equal(e[1].kind, TRACE_RULE);
    assert_int_equal(e[1].value, slot(1));
    assert_int_equal(e[2].kind, TRACE_NEXT);
    assert_int_equal(e[2].value, slot(1));
    assert_int_equal(e[3].kind, TRACE_FRAME);
    assert_int_equal(e[4].kind, TRACE_RULE);
    assert_int_equal(e[4].value, slot(5));
    assert_non_null(told(&a, TRACE_END, "undefined"));
    assert_true(was_read(&a, slot(0)));
    assert_true(was_read(&a, slot(2)) && was_read(&a, slot(3)) && was_read(&a, slot(4)));
    assert_false(was_read(&a, slot(1)));
    account_free(&a);
    /* FRAMED: CFA rsp+32, rbp at CFA-16, rbx at CFA-24 */
    t->in.memory.stack_size = 16;
    t->in.registers.value[DWARF_RSP] = slot(1);
    a = account_of(t, FRAMED + 9);
    assert_int_equal(t->out.end, STACK_TRUNCATED);
    assert_int_equal(a.row.cfa_register, DWARF_RSP);
    assert_int_equal(a.row.cfa_offset, 32);
    assert_int_equal(a.row.regs[DWARF_RIP].kind, REG_OFFSET);
    assert_int_equal(a.row.regs[DWARF_RIP].offset, -8);
    assert_int_equal(a.row.regs[DWARF_RBP].offset, -16);
    assert_int_equal(a.row.regs[DWARF_RBX].offset, -24);
    assert_int_equal(a.row.regs[DWARF_R12].kind, REG_UNSPECIFIED);
    account_free(&a);
}

/* A row that is no plain rule is told whole; so is the PLT's. */
static void trace_of_rows(void **state)
{
    struct target *t = *state;
    t->in.registers.value[0] = START + 5;
    struct account a = account_of(t, IN_RAX + 1);
    assert_non_null(told(&a, TRACE_RULE, "whole row"));
    account_free(&a);
    t->stack[0] = START + 5;
    a = account_of(t, PLT + 0x26);
    assert_non_null(told(&a, TRACE_RULE, "PLT"));
    account_free(&a);
}

/* A guess says what it was made by, and which ways were refused before. */
static void trace_of_guesses(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {1, 2, slot(5), called(t, JIT + 0x80), 3, 0xb99, called(t, START + 5)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = slot(2);
    struct account a = account_of(t, JIT + 0x20);
    const struct trace_event *mark = told(&a, TRACE_MARK, "guessed");
    assert_non_null(told(&a, TRACE_REFUSED, "no CFI"));
    assert_non_null(told(&a, TRACE_WAY, "frame pointer"));
    assert_non_null(mark);
    assert_int_equal(mark->frame, 1);
    assert_int_equal(mark->provenance, PROVENANCE_GUESS);
    assert_int_equal(mark->value, slot(3));
    account_free(&a);
    t->in.registers.value[DWARF_RBP] = 5;
    a = account_of(t, NO_FDE + 1);
    assert_int_equal(t->out.end, STACK_NO_CFI);
    assert_non_null(told(&a, TRACE_REFUSED, "no frame pointer"));
    assert_non_null(told(&a, TRACE_REFUSED, "no return address"));
    assert_null(told(&a, TRACE_MARK, NULL));
    account_free(&a);
}

/* Frames of a search that led nowhere are taken back. */
static void trace_of_a_search(void **state)
{
    struct target *t = *state;
    uint64_t stack[] = {1,     called_by_register(t, FRAMED + 0x40),
                        3,     called_by_register(t, FRAMED + 9),
                        0,     0xbbb,
                        0xb99, called(t, START + 5)};
    memcpy(t->stack, stack, sizeof(stack));
    t->in.registers.value[DWARF_RBP] = 5;
    struct account a = account_of(t, JIT + 0x20);
    assert_int_equal(t->out.end, STACK_COMPLETE);
    assert_non_null(told(&a, TRACE_BACK, NULL));
    assert_non_null(told(&a, TRACE_WAY, "behind an indirect call"));
    account_free(&a);
}

/* A signal frame is exact: its trampoline is named. */
static void trace_of_a_signal(void **state)
{
    struct target *t = *state;
    memcpy(t->code[0] + 0x640, trampoline, sizeof(trampoline));
    put_context(t, 0, LEAF, slot(30));
    t->stack[30] = START + 5;
    struct account a = account_of(t, NO_FDE + 0x47);
    assert_non_null(told(&a, TRACE_WAY, "rt_sigreturn"));
    assert_null(told(&a, TRACE_MARK, NULL));
    account_free(&a);
}

#define WALK(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WALK(chain),
        WALK(unknown_registers),
        WALK(noreturn_call),
        WALK(plt),
        WALK(in_registers),
        WALK(null_return_address),
        WALK(lost_register),
        WALK(truncated),
        WALK(not_continued_by_other_moments),
        WALK(two_pieces),
        WALK(bad_read),
        WALK(loop),
        WALK(limit),
        WALK(no_code),
        WALK(epilogue),
        WALK(trace_of_rules),
        WALK(trace_of_rows),
        WALK(trace_of_guesses),
        WALK(trace_of_a_search),
        WALK(trace_of_a_signal),
        cmocka_unit_test_setup_teardown(past_generated, setup, teardown),
        cmocka_unit_test_setup_teardown(a_search_within_a_search_ends, setup, teardown),
        WALK(frame_pointer),
        WALK(frame_pointer_to_made_return),
        WALK(frame_pointer_refused),
        WALK(prologue),
        WALK(plt_without_cfi),
        WALK(leaf_without_frame),
        WALK(outermost_without_cfi),
        WALK(generated_code_is_no_start),
        WALK(a_made_stack_begins_at_a_functions_first_byte),
        WALK(a_call_before_a_function_makes_no_stack),
        WALK(the_entry_is_outermost),
        WALK(sigreturn_by_bytes),
        WALK(signal_loop),
        WALK(other_stack),
        WALK(return_address_popped),
        WALK(batch_equals_single),
        WALK(suffix_caches_change_nothing),
        WALK(code_is_not_mixed_up),
        WALK(code_is_asked_for_once),
        cmocka_unit_test(cache_is_exact),
        cmocka_unit_test(shared_rules_are_exact),
        cmocka_unit_test(shared_rules_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
