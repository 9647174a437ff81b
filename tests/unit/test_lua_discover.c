/* SPDX-License-Identifier: GPL-2.0-only */
/* Finding plain Lua in machine code: jumps by an opcode, and values on their way through code. The
 * instructions are those that compilers made of Lua's interpreter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/arch_x86_64.h"
#include "unwind/lua/discover_internal.h"

#include <stdlib.h>
#include <string.h>

enum { START = 0x1000 };

#define CODE(...)   \
    {               \
        __VA_ARGS__ \
    }

static bool dispatch_of(const uint8_t *bytes, size_t size, struct lua_dispatch *ret)
{
    return lua_dispatch_at((struct lua_range){START, START + size}, bytes, START, ret);
}

static void addresses_are_jumped_by(void **state)
{
    (void)state;
    /* and eax, 0x7f; jmp [r13 + rax * 8] */
    static const uint8_t code[] = CODE(0x83, 0xe0, 0x7f, 0x41, 0xff, 0x64, 0xc5, 0x00);
    struct lua_dispatch d;
    assert_true(dispatch_of(code, sizeof(code), &d));
    assert_int_equal(d.mask, 0x7f);
    assert_int_equal(d.entry_size, 8);
    assert_int_equal(d.nr_opcodes, 0);
    assert_int_equal(d.table, 0);
    assert_int_equal(d.jump, START + 3);
    /* The same by another register is no dispatch. */
    static const uint8_t other[] = CODE(0x83, 0xe1, 0x7f, 0x41, 0xff, 0x64, 0xc5, 0x00);
    assert_false(dispatch_of(other, sizeof(other), &d));
}

static void distances_are_jumped_by(void **state)
{
    (void)state;
    /* and edx, 0x3f; other work; cmp edx, 0x25; ja; movsxd rdx, [r12 + rdx * 4]; add rdx, r12;
     * jmp rdx */
    uint8_t code[] = CODE(0x83, 0xe2, 0x3f, 0x40, 0x0f, 0xb6, 0xc5, 0x48, 0x89, 0xc5, 0x48, 0xc1,
                          0xe0, 0x04, 0x4c, 0x8d, 0x34, 0x01, 0x83, 0xfa, 0x25, 0x0f, 0x87, 0xa5,
                          0x01, 0x00, 0x00, 0x49, 0x63, 0x14, 0x94, 0x4c, 0x01, 0xe2, 0xff, 0xe2);
    struct lua_dispatch d;
    assert_true(dispatch_of(code, sizeof(code), &d));
    assert_int_equal(d.nr_opcodes, 38);
    assert_int_equal(d.entry_size, 4);
    assert_int_equal(lua_version_of(d.nr_opcodes, d.mask), 51);
    /* A call on the way: another function's result. */
    memcpy(code + 3, (const uint8_t[]){0xe8, 0, 0, 0, 0}, 5);
    assert_false(dispatch_of(code, sizeof(code), &d));
}

static void unoptimized_code_spills(void **state)
{
    (void)state;
    /* and eax, 0x3f; mov [rbp - 0x3c8], rax; sub eax, 0x25; ja; mov rax, [rbp - 0x3c8];
     * lea rcx, [table]; movsxd rax, [rcx + rax * 4]; add rax, rcx; jmp rax */
    static const uint8_t by_clang[] =
        CODE(0x83, 0xe0, 0x3f, 0x48, 0x89, 0x85, 0x38, 0xfc, 0xff, 0xff, 0x83, 0xe8, 0x25, 0x0f,
             0x87, 0xe5, 0x28, 0x00, 0x00, 0x48, 0x8b, 0x85, 0x38, 0xfc, 0xff, 0xff, 0x48, 0x8d,
             0x0d, 0x22, 0x5d, 0x00, 0x00, 0x48, 0x63, 0x04, 0x81, 0x48, 0x01, 0xc8, 0xff, 0xe0);
    struct lua_dispatch d;
    assert_true(dispatch_of(by_clang, sizeof(by_clang), &d));
    assert_int_equal(d.nr_opcodes, 38);
    assert_int_equal(d.table, START + 33 + 0x5d22);
    /* and eax, 0x7f; mov eax, eax; mov ecx, eax; lea rax, [table]; mov rax, [rax + rcx * 8];
     * mov [rbp - 0xcd0], rax; jmp +0; mov rax, [rbp - 0xcd0]; jmp rax */
    static const uint8_t by_jump[] =
        CODE(0x83, 0xe0, 0x7f, 0x89, 0xc0, 0x89, 0xc1, 0x48, 0x8d, 0x05, 0x84, 0xb2, 0x01, 0x00,
             0x48, 0x8b, 0x04, 0xc8, 0x48, 0x89, 0x85, 0x30, 0xf3, 0xff, 0xff, 0xe9, 0x00, 0x00,
             0x00, 0x00, 0x48, 0x8b, 0x85, 0x30, 0xf3, 0xff, 0xff, 0xff, 0xe0);
    assert_true(dispatch_of(by_jump, sizeof(by_jump), &d));
    assert_int_equal(d.entry_size, 8);
    assert_int_equal(d.table, START + 14 + 0x1b284);
}

static void opcodes_tell_the_version(void **state)
{
    (void)state;
    assert_int_equal(lua_version_of(38, 0x3f), 51);
    assert_int_equal(lua_version_of(40, 0x3f), 52);
    assert_int_equal(lua_version_of(46, 0x3f), 53);
    assert_int_equal(lua_version_of(83, 0x7f), 54);
    assert_int_equal(lua_version_of(85, 0x7f), 55);
    assert_int_equal(lua_version_of(38, 0x7f), 0);
    assert_int_equal(lua_version_of(83, 0x3f), 0);
    assert_int_equal(lua_version_of(48, 0x3f), 0);
}

/* ---- values ---------------------------------------------------------------------------------- */

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    (void)size;
    return (const uint8_t *)context + (address - START);
}

static void values_are_followed(void **state)
{
    (void)state;
    /* push rbx; mov rbx, rdi; sub rsp, 0x20; mov [rsp + 8], rdi; mov [rsp + 0x1c], esi;
     * mov rax, [rdi + 0x20]; mov rax, [rax]; lea r12, [rax + 0x38]; mov ecx, [r12 + 4]; call */
    static const uint8_t code[] =
        CODE(0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x20, 0x48, 0x89, 0x7c, 0x24, 0x08, 0x89,
             0x74, 0x24, 0x1c, 0x48, 0x8b, 0x47, 0x20, 0x48, 0x8b, 0x00, 0x4c, 0x8d, 0x60, 0x38,
             0x41, 0x8b, 0x4c, 0x24, 0x04, 0xe8, 0x00, 0x00, 0x00, 0x00, 0xc3);
    const struct runtime_image image = {.bytes = bytes_at, .context = (void *)code};
    struct flow_code c = {0};
    struct flow_trail *t = malloc(sizeof(*t));
    assert_non_null(t);
    assert_int_equal(
        flow_add_part(&c, &image, (struct lua_range){START, START + sizeof(code)}, NULL), 0);
    flow_trail_begin(t, &c);
    const struct flow_insn *i = flow_trail_run(t, &c);
    assert_non_null(i);
    assert_int_equal(i->at, START + 33);
    assert_true(flow_value_is(&t->regs[FLOW_RBX].value, FLOW_ARGUMENT_1, 0, NULL));
    assert_int_equal(t->regs[FLOW_RBX].set_by, START + 4);
    assert_int_equal(t->frame.sp, -8 - 8 - 0x20);
    bool first = false, second = false;
    for (unsigned s = 0; s < t->nr_slots; s++) {
        const struct flow_value *v = &t->slots[s].held.value;
        first |=
            t->slots[s].offset == t->frame.sp + 8 && flow_value_is(v, FLOW_ARGUMENT_1, 0, NULL);
        second |=
            t->slots[s].offset == t->frame.sp + 0x1c && flow_value_is(v, FLOW_ARGUMENT_2, 0, NULL);
    }
    assert_true(first && second);
    const int16_t path[] = {0x20, 0};
    const struct flow_access *last = &t->accesses[t->nr_accesses - 1];
    assert_true(flow_value_is(&last->base, FLOW_ARGUMENT_1, 2, path));
    assert_int_equal(last->disp, 0x38 + 4);
    assert_int_equal(last->size, 4);
    /* A call leaves what calls preserve. */
    flow_trail_call(t, &c);
    assert_int_equal(t->regs[FLOW_RDI].value.root, FLOW_UNKNOWN);
    assert_int_equal(t->regs[FLOW_RBX].value.root, FLOW_ARGUMENT_1);
    assert_null(flow_trail_run(t, &c));
    free(t);
    flow_free(&c);
}

/* ---- fetches --------------------------------------------------------------------------------- */

static struct lua_fetch fetch_of(const uint8_t *code, size_t size, size_t fetch)
{
    const struct runtime_image image = {.bytes = bytes_at, .context = (void *)code};
    struct flow_code c = {0};
    struct lua_layout *l = calloc(1, sizeof(*l));
    assert_non_null(l);
    assert_int_equal(flow_add_part(&c, &image, (struct lua_range){START, START + size}, NULL), 0);
    lua_add_fetch(&c, fetch, l);
    assert_int_equal(l->nr_fetches, 1);
    const struct lua_fetch ret = l->fetches[0];
    assert_ptr_equal(lua_fetch_at(l, ret.end - 1), &l->fetches[0]);
    assert_null(lua_fetch_at(l, ret.end));
    flow_free(&c);
    free(l);
    return ret;
}

static void a_shared_fetch_begins_where_ways_join(void **state)
{
    (void)state;
    /* mov r14, r13; jmp +0; movzx eax, [rbp + 0x64]; mov ebx, [r14]; lea r13, [r14 + 4];
     * test al, 0xc; ret */
    static const uint8_t code[] = CODE(0x4d, 0x89, 0xee, 0xeb, 0x00, 0x0f, 0xb6, 0x45, 0x64, 0x41,
                                       0x8b, 0x1e, 0x4d, 0x8d, 0x6e, 0x04, 0xa8, 0x0c, 0xc3);
    struct lua_fetch f = fetch_of(code, sizeof(code), 3);
    assert_int_equal(f.start, START + 5);
    assert_int_equal(f.end, START + 18 + 1);
    assert_int_equal(f.reg, DWARF_R14);
}

static void a_fetch_begins_behind_arithmetic(void **state)
{
    (void)state;
    /* mov rcx, rax; lea r13, [r13 + rax * 4]; mov ebx, [r13]; add r13, 4; ret */
    static const uint8_t code[] = CODE(0x48, 0x89, 0xc1, 0x4d, 0x8d, 0x6c, 0x85, 0x00, 0x41, 0x8b,
                                       0x5d, 0x00, 0x49, 0x83, 0xc5, 0x04, 0xc3);
    struct lua_fetch f = fetch_of(code, sizeof(code), 2);
    assert_int_equal(f.start, START + 8);
    assert_int_equal(f.end, START + 12 + 1);
    assert_int_equal(f.reg, DWARF_R13);
}

static void a_copy_does_not_begin_a_fetch(void **state)
{
    (void)state;
    /* mov r14, r13; mov [r12], rax; mov ebx, [r14 - 4]; ret */
    static const uint8_t code[] =
        CODE(0x4d, 0x89, 0xee, 0x49, 0x89, 0x04, 0x24, 0x41, 0x8b, 0x5e, 0xfc, 0xc3);
    struct lua_fetch f = fetch_of(code, sizeof(code), 2);
    assert_int_equal(f.start, START + 7);
    assert_int_equal(f.disp, -4);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct lua_site site_of(const uint8_t *code, size_t size, size_t fetch)
{
    const struct runtime_image image = {.bytes = bytes_at, .context = (void *)code};
    const struct flow_frame frame = {0};
    struct flow_trail *entry = calloc(1, sizeof(*entry));
    struct lua_layout *l = calloc(1, sizeof(*l));
    struct flow_code c = {0};
    bool fetches[16] = {0};
    assert_true(entry && l);
    assert_int_equal(flow_add_part(&c, &image, (struct lua_range){START, START + size}, NULL), 0);
    l->version = 54;
    l->nr_pc = 1;
    l->pc[0] = (struct lua_place){.kind = LUA_IN_REGISTER, .reg = DWARF_R13, .survives = true};
    fetches[fetch] = true;
    lua_find_sites(&c, &frame, entry, fetches, l);
    assert_int_equal(l->nr_sites, 1);
    const struct lua_site ret = l->sites[0];
    assert_int_equal(ret.pc.reg, DWARF_R13);
    flow_free(&c);
    free(entry);
    free(l);
    return ret;
}

static void a_call_that_gets_the_pc_is_before_a_fetch(void **state)
{
    (void)state;
    /* mov rsi, r13; mov rdi, r15; call; mov ebx, [r13]; add r13, 4; ret */
    static const uint8_t traces[] =
        CODE(0x4c, 0x89, 0xee, 0x4c, 0x89, 0xff, 0xe8, 0x00, 0x10, 0x00, 0x00, 0x41, 0x8b, 0x5d,
             0x00, 0x49, 0x83, 0xc5, 0x04, 0xc3);
    assert_true(site_of(traces, sizeof(traces), 3).before_fetch);
    /* The same with mov rsi, r12. */
    static const uint8_t other[] = CODE(0x4c, 0x89, 0xe6, 0x4c, 0x89, 0xff, 0xe8, 0x00, 0x10, 0x00,
                                        0x00, 0x41, 0x8b, 0x5d, 0x00, 0x49, 0x83, 0xc5, 0x04, 0xc3);
    assert_false(site_of(other, sizeof(other), 3).before_fetch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_jumped_by),
        cmocka_unit_test(distances_are_jumped_by),
        cmocka_unit_test(unoptimized_code_spills),
        cmocka_unit_test(opcodes_tell_the_version),
        cmocka_unit_test(values_are_followed),
        cmocka_unit_test(a_shared_fetch_begins_where_ways_join),
        cmocka_unit_test(a_fetch_begins_behind_arithmetic),
        cmocka_unit_test(a_copy_does_not_begin_a_fetch),
        cmocka_unit_test(a_call_that_gets_the_pc_is_before_a_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
