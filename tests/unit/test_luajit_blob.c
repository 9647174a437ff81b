/* SPDX-License-Identifier: GPL-2.0-only */
/* Steps out of the interpreter's C frame on a handmade stack: which frame takes its place. */
#include "memory_fixture.h"
#include "unwind/arch_aarch64.h"
#include "unwind/arch_x86_64.h"
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/walk.h"
#include "unwind/native/cfi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Addresses: the VM's memory, the C stack, the interpreter and its caller. */
enum {
    ORIGIN = 0x10000,
    SIZE = 0x4000,
    STATE = ORIGIN + 0x100,
    FUNCTION = ORIGIN + 0x200,
    G = ORIGIN + 0x1000,
    LUA_STACK = ORIGIN + 0x2000,
    SLOTS = 64,
    C_STACK = 0x80000,
    BLOB = 0x400000,
    CALLER = 0x500000,
    RETURN_C = 0x2000,
};

struct fixture {
    uint8_t bytes[SIZE], stack[256];
    struct luajit_layout l;
    struct cfi cfi;
    struct memory_layer layer;
    struct unwind_input input;
    struct unwind_stack out;
    struct registers registers;
};

static bool read_fixture(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    const struct fixture *f = context;
    answer->provenance = PROVENANCE_EXACT;
    return memory_fixture_read(f->bytes, ORIGIN, SIZE, q->address, to, q->size);
}

static bool look_up(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    const struct fixture *f = context;
    (void)time;
    *ret = (struct code){.owner = CODE_ELF, .executable = true, .start = pc, .end = pc + 1};
    if (pc - BLOB < f->l.blob_size + f->l.ffi_call_size)
        ret->cfi = &f->cfi;
    return true;
}

static void put(struct fixture *f, uint64_t address, uint64_t value, size_t size)
{
    memcpy(f->bytes + (address - ORIGIN), &value, size);
}

static void put_stack(struct fixture *f, int32_t offset, uint64_t value)
{
    memcpy(f->stack + offset, &value, sizeof(value));
}

/* The layout of a GC64 build. Entries and helpers are behind all bytecode instructions. */
static struct luajit_layout layout(void)
{
    struct luajit_layout l;
    int32_t *fields = (int32_t *)&l;
    memset(&l, 0, sizeof(l));
    for (unsigned i = 0; i < LUAJIT_NR_FIELDS; i++)
        fields[i] = LUAJIT_UNKNOWN;
    l.gc64 = true, l.blob = BLOB, l.blob_size = 0x4000;
    l.ref_size = 8, l.frame_slots = 2, l.gct = l.L_gct = 9;
    l.L_glref = 0x10, l.L_base = 0x20, l.L_top = 0x28, l.L_maxstack = 0x30, l.L_stack = 0x38;
    l.L_cframe = 0x50, l.L_stacksize = 0x58, l.L_used = 0x60;
    l.func_ffid = 0xa, l.func_pc = 0x20, l.func_c = 0x28;
    l.op_call = 0x42, l.op_callm = 0x41, l.op_iterc = 0x45, l.op_itern = 0x46;
    l.frame_size = 0x50, l.frame_L = 0x10, l.frame_pc = 0x18, l.frame_prev = 0x20;
    l.frame_nres = 0x28, l.g2disp = 0x100;
    l.return_c = RETURN_C, l.return_c_base = RETURN_C + 8, l.return_c_stored = RETURN_C + 0x10;
    l.return_c_end = RETURN_C + 0x20;
    l.resume = 0x3000, l.pcall = 0x3100, l.call = 0x3200, l.cpcall = 0x3300;
    l.resume_linked = 0x3040, l.call_linked = 0x3240, l.cpcall_linked = 0x3340;
    l.call_entered = 0x3260, l.call_dispatch = 0x3250, l.cpcall_return = 0x3350;
    return l;
}

/* A C function has called into the VM: its frame is the lowest but one, and L->base is `base`. */
static struct fixture *make(uint64_t base)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->l = layout();
    f->cfi.runtimes[0].runtime = &luajit_runtime;
    f->cfi.runtimes[0].layout = &f->l;
    f->cfi.nr_runtimes = 1;
    f->layer = (struct memory_layer){.read = read_fixture, .context = f};
    f->input.memory = (struct memory){.stack = f->stack,
                                      .stack_start = C_STACK,
                                      .stack_size = sizeof(f->stack),
                                      .layers = &f->layer,
                                      .nr_layers = 1};
    f->input.code = (struct codemap){.lookup = look_up, .context = f};
    put(f, STATE + 9, 6, 1);
    put(f, STATE + 0x10, G, 8);
    put(f, STATE + 0x20, base, 8);
    put(f, STATE + 0x38, LUA_STACK, 8);
    put(f, STATE + 0x30, LUA_STACK + 8 * (SLOTS - 9), 8);
    put(f, STATE + 0x50, C_STACK, 8);
    put(f, STATE + 0x58, SLOTS, 4);
    put(f, G + 0x100, BLOB + 0x10, 8);
    put(f, G + 0x108, BLOB + 0x20, 8);
    put(f, LUA_STACK, STATE, 8); /* the lowest frame: the thread itself */
    put_stack(f, 0x10, STATE);
    put_stack(f, 0x48, CALLER);
    return f;
}

/* The walker's step from an innermost frame with the fixture's registers. */
static enum walker_result step_leaf(struct fixture *f)
{
    const struct luajit_process process = {0};
    const struct walker walker = luajit_walker(&process);
    struct walker_state *state = calloc(1, walker.state_size);
    enum provenance provenance = PROVENANCE_EXACT;
    unsigned left = 16;
    assert_non_null(state);
    f->out.frames.nr = 0;
    struct walker_step step = {.input = &f->input,
                               .value = f->registers.value,
                               .known = &f->registers.known,
                               .flags = FRAME_LEAF,
                               .provenance = &provenance,
                               .frames_left = &left,
                               .out = &f->out};
    assert_true(look_up(f, registers_pc(&f->registers), 0, &step.code));
    enum walker_result got = walker.step(walker.context, state, &step);
    free(state);
    return got;
}

/* Interrupts the thread at an offset of the blob. Returns the kind of the single frame that the
 * block gets. */
static enum frame_kind step_at(struct fixture *f, uint64_t offset)
{
    f->input.registers.arch = &arch_x86_64;
    f->registers =
        (struct registers){.arch = &arch_x86_64, .known = 1u << DWARF_RIP | 1u << DWARF_RSP};
    f->registers.value[DWARF_RIP] = BLOB + offset;
    f->registers.value[DWARF_RSP] = C_STACK;
    assert_int_equal(step_leaf(f), WALKER_STEPPED);
    assert_int_equal(f->registers.value[DWARF_RIP], CALLER);
    assert_int_equal(f->out.frames.nr, 1);
    return f->out.frames.at[0].kind;
}

static void destroy(struct fixture *f)
{
    vec_free(&f->out.frames);
    free(f);
}

/* L->base was stored before a function was called. It is the thread's own frame: no Lua function is
 * on it. */
static void bytecode_has_its_function(void **state)
{
    (void)state;
    struct fixture *f = make(LUA_STACK + 16);
    assert_int_equal(step_at(f, 0x800), FRAME_LUA);
    assert_int_equal(f->out.frames.at[0].function, 0); /* the function is unknown */
    destroy(f);
}

/* In a helper, a C function called by the host leaves the same state. */
static void a_helper_may_have_none(void **state)
{
    (void)state;
    struct fixture *f = make(LUA_STACK + 16);
    assert_int_equal(step_at(f, RETURN_C + 0x400), FRAME_NATIVE);
    destroy(f);
}

/* ---- AArch64 -------------------------------------------------------------------------------- */

enum { FFI_CALL = BLOB + 0x4000, FFI_CALL_SIZE = 0x80, X19 = 19, X20 = 20 };

/* The same interpreter, as a machine with a link register has it. */
static struct fixture *make_a64(void)
{
    struct fixture *f = make(LUA_STACK + 16);
    f->l.machine = LUAJIT_ON_AARCH64;
    f->l.frame_size = 0xd0;
    f->l.leave = 0x3800;
    f->l.ffi_call = FFI_CALL;
    f->l.ffi_call_size = FFI_CALL_SIZE;
    f->l.ffi_call_ret = FFI_CALL + FFI_CALL_SIZE - 4;
    f->input.registers.arch = &arch_aarch64;
    return f;
}

/* Interrupts the thread there. The registers are the caller's, but for those that are said. */
static enum walker_result step_a64(struct fixture *f, uint64_t pc, uint64_t lr, uint64_t fp)
{
    f->registers =
        (struct registers){.arch = &arch_aarch64, .known = arch_all_registers(&arch_aarch64.reg)};
    f->registers.value[AARCH64_PC] = pc;
    f->registers.value[AARCH64_SP] = C_STACK;
    f->registers.value[AARCH64_LR] = lr;
    f->registers.value[AARCH64_FP] = fp;
    f->registers.value[X19] = 0x1919;
    f->registers.value[X20] = 0x2020;
    return step_leaf(f);
}

static void expect_caller(const struct fixture *f, uint64_t sp, uint64_t fp)
{
    assert_int_equal(f->registers.value[AARCH64_PC], CALLER);
    assert_int_equal(f->registers.value[AARCH64_SP], sp);
    assert_int_equal(f->registers.value[AARCH64_FP], fp);
    assert_int_equal(f->out.frames.nr, 1);
    assert_int_equal(f->out.frames.at[0].kind, FRAME_NATIVE);
    assert_int_equal(f->registers.known & REG_BIT(AARCH64_LR), 0);
}

/* Until its x29 is set, and where it is the caller's again, the return address is in lr. */
static void an_aarch64_ffi_call_is_left_at_each_instruction(void **state)
{
    (void)state;
    struct fixture *f = make_a64();
    const uint64_t ret = f->l.ffi_call_ret;
    for (uint64_t o = 0; o < 12; o += 4) {
        assert_int_equal(step_a64(f, FFI_CALL + o, CALLER, 0xf9), WALKER_STEPPED);
        expect_caller(f, C_STACK + (o ? 32 : 0), 0xf9);
        assert_int_equal(f->registers.value[X19], 0x1919);
    }
    for (uint64_t pc = FFI_CALL + 12; pc < ret - 4; pc += 4)
        assert_int_equal(step_a64(f, pc, CALLER, 0xf9), WALKER_NO); /* by the unwind entry */
    put_stack(f, 0, 0x20);
    put_stack(f, 8, 0x19);
    assert_int_equal(step_a64(f, ret - 4, CALLER, 0xf9), WALKER_STEPPED);
    expect_caller(f, C_STACK + 32, 0xf9);
    assert_int_equal(f->registers.value[X20], 0x20);
    assert_int_equal(f->registers.value[X19], 0x19);
    assert_int_equal(step_a64(f, ret, CALLER, 0xf9), WALKER_STEPPED);
    expect_caller(f, C_STACK, 0xf9);
    assert_int_equal(f->registers.value[X19], 0x1919);
    destroy(f);
}

/* The entries save registers before they change them. */
static void an_aarch64_entry_is_left_by_the_link_register(void **state)
{
    (void)state;
    struct fixture *f = make_a64();
    put_stack(f, 0xc0, 0xf9);
    for (int32_t o = 0; o < 12 * 4; o += 4) {
        uint64_t fp = o < 12 ? 0xf9 : C_STACK + 0xc0; /* add x29, sp, #0xc0 */
        assert_int_equal(step_a64(f, BLOB + (uint64_t)(f->l.call + o), CALLER, fp), WALKER_STEPPED);
        expect_caller(f, C_STACK + (o ? 0xd0 : 0), 0xf9);
    }
    assert_int_equal(step_a64(f, BLOB + (uint64_t)f->l.leave + 11 * 4, CALLER, 0xf9),
                     WALKER_STEPPED);
    expect_caller(f, C_STACK, 0xf9);
    destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytecode_has_its_function),
        cmocka_unit_test(a_helper_may_have_none),
        cmocka_unit_test(an_aarch64_ffi_call_is_left_at_each_instruction),
        cmocka_unit_test(an_aarch64_entry_is_left_by_the_link_register),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
