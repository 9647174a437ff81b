/* SPDX-License-Identifier: GPL-2.0-only */
/* Prototypes of Lua 5.1 whose memory others have already: what is left of them is not read. */
#include "tests/unit/memory_fixture.h"
#include "unwind/lua/names_proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* A prototype and its parts, `local t; t.f = 1` or so, at the address ORIGIN. */
enum {
    ORIGIN = 0x10000,
    NR_CODE = 3,
    NR_K = 2,
    RETURN = 30, /* opcode */
    CODE = 0x100,
    LINES = 0x200,
    K = 0x300,
    PROTOS = 0x400,
    SIZE = 0x500,
};

static uint8_t bytes[SIZE];
static struct lua_layout layout;

static void put_u32(size_t at, uint32_t v)
{
    memcpy(bytes + at, &v, sizeof(v));
}

static void put_u64(size_t at, uint64_t v)
{
    memcpy(bytes + at, &v, sizeof(v));
}

static void put_constant(size_t index, uint64_t bits, uint32_t tag)
{
    put_u64(K + index * layout.fields.value_size, bits);
    put_u32(K + index * layout.fields.value_size + layout.fields.value_tag, tag);
}

static int begin(void **state)
{
    (void)state;
    layout.version = 51;
    assert_true(lua_fields_of(51, &layout.fields));
    memset(bytes, 0, sizeof(bytes));
    bytes[LUA_OBJECT_TAG] = layout.fields.proto.tag;
    put_u64(layout.fields.proto.code, ORIGIN + CODE);
    put_u32(layout.fields.proto.size_code, NR_CODE);
    put_u64(layout.fields.proto.lineinfo, ORIGIN + LINES);
    put_u32(layout.fields.proto.size_lineinfo, NR_CODE);
    put_u64(layout.fields.proto.k, ORIGIN + K);
    put_u32(layout.fields.proto.size_k, NR_K);
    put_u64(layout.fields.proto.protos, ORIGIN + PROTOS);
    put_u32(layout.fields.proto.size_protos, 1);
    put_u32(CODE + 4 * (NR_CODE - 1), RETURN);
    for (unsigned i = 0; i < NR_CODE; i++)
        put_u32(LINES + 4 * i, 7 + i);
    put_constant(0, ORIGIN + 0x480, LUA_TSTRING);
    put_constant(1, 0x3ff0000000000000, LUA_TNUMBER);
    put_u64(PROTOS, ORIGIN + 0x490);
    return 0;
}

static bool read_bytes(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    (void)context;
    (void)answer;
    return memory_fixture_read(bytes, ORIGIN, sizeof(bytes), q->address, to, q->size);
}

/* Returns the number of instructions that are read of the prototype, and the second one's line. */
static uint32_t read_code(uint32_t *line)
{
    const struct memory_layer layer = {.read = read_bytes};
    const struct memory memory = {.layers = &layer, .nr_layers = 1};
    struct lua_asker a;
    struct lua_code code;
    lua_asker_begin(&a, &memory, &layout, 100);
    assert_int_equal(lua_code_read(&a, ORIGIN, &code), 1);
    const uint32_t nr = code.nr[LUA_PART_CODE];
    *line = lua_code_line(&code, 1);
    lua_code_free(&code);
    return nr;
}

static void assert_remains(void)
{
    uint32_t line;
    assert_int_equal(read_code(&line), 0);
    assert_int_equal(line, 0);
}

static void a_prototype_is_read(void **state)
{
    uint32_t line;
    (void)state;
    assert_int_equal(read_code(&line), NR_CODE);
    assert_int_equal(line, 8);
}

static void code_that_does_not_return_is_remains(void **state)
{
    (void)state;
    put_u32(CODE + 4 * (NR_CODE - 1), 0x5631);
    assert_remains();
}

static void pointers_are_no_lines(void **state)
{
    (void)state;
    put_u64(LINES, UINT64_C(0x7f5136a86690));
    assert_remains();
    put_u64(LINES, 0);
    assert_remains();
}

static void tables_are_no_constants(void **state)
{
    (void)state;
    put_constant(1, ORIGIN, LUA_TTABLE);
    assert_remains();
    put_constant(1, 3, LUA_TSTRING);
    assert_remains();
}

static void prototypes_have_addresses(void **state)
{
    (void)state;
    put_u64(PROTOS, 0x5678123400000001);
    assert_remains();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_prototype_is_read, begin),
        cmocka_unit_test_setup(code_that_does_not_return_is_remains, begin),
        cmocka_unit_test_setup(pointers_are_no_lines, begin),
        cmocka_unit_test_setup(tables_are_no_constants, begin),
        cmocka_unit_test_setup(prototypes_have_addresses, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
