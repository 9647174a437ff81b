/* SPDX-License-Identifier: GPL-2.0-only */
/* Where frames are at each instruction of V8's code on AArch64. */
#include "unwind/arch_aarch64.h"
#include "unwind/runtime.h"
#include "unwind/v8/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct v8_state state_at(const uint32_t *code, size_t nr, size_t at)
{
    return v8_code_state(&v8_machine_aarch64, (const uint8_t *)code, nr * sizeof(*code),
                         at * sizeof(*code));
}

/* The frame is the caller's: the CFA is sp + offset, the return address in x30. */
static void assert_caller(const uint32_t *code, size_t nr, size_t at, int offset)
{
    struct v8_state s = state_at(code, nr, at);
    assert_int_equal(s.kind, V8_STATE_SP);
    assert_int_equal(s.offset, offset);
    assert_int_equal(s.return_register, AARCH64_LR);
    assert_false(s.doubtful);
}

static void assert_kind(const uint32_t *code, size_t nr, size_t at, enum v8_state_kind kind)
{
    assert_int_equal(state_at(code, nr, at).kind, kind);
}

enum {
    NOP = 0xd503201f,
    RET = 0xd65f03c0,
    BL = 0x94000100,             /* bl far away */
    PUSH_RECORD = 0xa9bf7bfd,    /* stp x29, x30, [sp, #-16]! */
    SET_FRAME = 0x910003fd,      /* mov x29, sp */
    PUSH_CONTEXT = 0xa9be6fe1,   /* stp x1, x27, [sp, #-32]! */
    STORE_RECORD = 0xa9017bfd,   /* stp x29, x30, [sp, #16] */
    SET_FRAME_16 = 0x910043fd,   /* add x29, sp, #16 */
    TO_FRAME = 0x910003bf,       /* mov sp, x29 */
    POP_RECORD = 0xa8c17bfd,     /* ldp x29, x30, [sp], #16 */
    LOAD_RECORD = 0xa9407bbd,    /* ldp x29, x30, [x29] */
    DROP_ARGUMENTS = 0x8b306fff, /* add sp, sp, x16, lsl #3 */
    PUSH_D = 0x6dbf27e8,         /* stp d8, d9, [sp, #-16]! */
    POP_D = 0x6cc127e8,          /* ldp d8, d9, [sp], #16 */
    SUB_SP = 0xd10083ff,         /* sub sp, sp, #32 */
    PUSH_LINK = 0xa9bf7bff,      /* stp xzr, x30, [sp, #-16]! */
    POP_LINK = 0xa8c17bff,       /* ldp xzr, x30, [sp], #16 */
};

static void a_frame_is_made_and_taken_down(void **state)
{
    static const uint32_t code[] = {NOP,      PUSH_RECORD, SET_FRAME,      SUB_SP, BL,
                                    TO_FRAME, POP_RECORD,  DROP_ARGUMENTS, RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    (void)state;
    assert_caller(code, NR, 0, 0);
    assert_caller(code, NR, 1, 0);
    assert_kind(code, NR, 2, V8_STATE_PUSHED);
    assert_int_equal(state_at(code, NR, 2).offset, 16);
    for (size_t at = 3; at <= 6; at++)
        assert_kind(code, NR, at, V8_STATE_FRAMED);
    assert_caller(code, NR, 7, 0);
    assert_caller(code, NR, 8, 0);
}

/* TurboFan's functions store the context and the function first. */
static void a_frame_is_made_by_two_stores(void **state)
{
    static const uint32_t code[] = {PUSH_CONTEXT, STORE_RECORD, SET_FRAME_16, NOP,
                                    LOAD_RECORD,  NOP,          RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    (void)state;
    assert_caller(code, NR, 1, 32);
    assert_kind(code, NR, 2, V8_STATE_PUSHED);
    assert_int_equal(state_at(code, NR, 2).offset, 32);
    assert_kind(code, NR, 3, V8_STATE_FRAMED);
    assert_kind(code, NR, 4, V8_STATE_FRAMED);
    assert_caller(code, NR, 5, 0);
}

static void without_a_frame_sp_is_followed(void **state)
{
    static const uint32_t code[] = {PUSH_D, SUB_SP, NOP, 0x910083ff /* add sp, sp, #32 */,
                                    POP_D,  RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    (void)state;
    assert_caller(code, NR, 1, 16);
    assert_caller(code, NR, 2, 48);
    assert_caller(code, NR, 4, 16);
    assert_caller(code, NR, 5, 0);
}

static void the_link_is_stored_alone(void **state)
{
    static const uint32_t code[] = {PUSH_LINK, BL, POP_LINK, RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    struct v8_state s;
    (void)state;
    s = state_at(code, NR, 1);
    assert_int_equal(s.kind, V8_STATE_SP);
    assert_int_equal(s.return_register, V8_RETURN_ON_STACK);
    assert_int_equal(s.offset, 16);
    assert_int_equal(state_at(code, NR, 2).offset, 16);
    assert_caller(code, NR, 3, 0);
}

/* A call overwrites x30: what follows is not known, unless another way leads there. */
static void a_call_without_a_frame_loses_the_link(void **state)
{
    static const uint32_t code[] = {0x34000080 /* cbz w0, +16 */, BL, NOP, RET, NOP, RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    (void)state;
    assert_caller(code, NR, 1, 0);
    assert_kind(code, NR, 2, V8_STATE_UNKNOWN);
    assert_caller(code, NR, 4, 0);
}

static void ways_that_disagree_are_doubtful(void **state)
{
    static const uint32_t code[] = {0x36000040 /* tbz w0, #0, +8 */, SUB_SP, NOP, RET};
    enum { NR = sizeof(code) / sizeof(*code) };
    (void)state;
    assert_true(state_at(code, NR, 2).doubtful);
    assert_kind(code, NR, 4, V8_STATE_UNKNOWN); /* outside */
    assert_kind(code, NR, 1, V8_STATE_SP);
}

static void few_bytes_show_a_frame(void **state)
{
    static const uint32_t code[] = {PUSH_RECORD, SET_FRAME, NOP, NOP, TO_FRAME, POP_RECORD, NOP};
    const uint8_t *bytes = (const uint8_t *)code;
    const struct v8_machine *m = &v8_machine_aarch64;
    (void)state;
    assert_false(m->has_frame(bytes, sizeof(code), 4, bytes, 4));
    assert_true(m->has_frame(bytes, sizeof(code), 8, bytes, 8));
    assert_true(m->has_frame(bytes, sizeof(code), 16, bytes, 16));
    assert_false(m->has_frame(bytes, sizeof(code), 20, bytes, 20));
    assert_false(m->has_frame(bytes, sizeof(code), 24, bytes, 24));
    assert_false(m->has_frame(bytes, sizeof(code), 10, bytes, 8)); /* no instruction begins there */
}

static void the_type_of_a_frame_is_in_its_first_instructions(void **state)
{
    static const uint32_t wasm[] = {0xd2800110 /* mov x16, #8 */, 0xa9bf7bfd, NOP};
    static const uint32_t other[] = {NOP, 0xa9bf7bfd, NOP};
    (void)state;
    assert_int_equal(v8_machine_aarch64.made_type(NULL, (const uint8_t *)wasm), 4);
    assert_int_equal(v8_machine_aarch64.made_type(NULL, (const uint8_t *)other), -1);
}

/* ---- functions that return a constant ---------------------------------------------------------
 */

static uint8_t image_bytes[64];

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    (void)context;
    return address >= 0x1000 && address - 0x1000 + size <= sizeof(image_bytes)
               ? image_bytes + (address - 0x1000)
               : NULL;
}

static uint64_t word_at(void *context, uint64_t address)
{
    (void)context;
    return address == 0x3010 ? 0x1020 : 0;
}

static void a_returned_constant_is_read(void **state)
{
    static const uint32_t loads[] = {
        0xd503245f,      /* bti c */
        0xd0000000,      /* adrp x0, 0x3000 (from 0x1000) */
        0xf9400800,      /* ldr x0, [x0, #16] */
        0xb9400400, RET, /* ldr w0, [x0, #4] */
    };
    static const uint32_t calls[] = {NOP, BL, RET, RET, RET};
    const uint32_t size = 0x12345678;
    const struct runtime_image image = {.bytes = bytes_at, .word = word_at};
    uint64_t value;
    (void)state;
    memcpy(image_bytes, loads, sizeof(loads));
    memcpy(image_bytes + 0x24, &size, sizeof(size));
    assert_true(v8_machine_aarch64.returned(&image, 0x1000, true, &value));
    assert_int_equal(value, size);
    memcpy(image_bytes, calls, sizeof(calls));
    assert_false(v8_machine_aarch64.returned(&image, 0x1000, true, &value));
    assert_false(v8_machine_aarch64.returned(&image, 0x5000, true, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_made_and_taken_down),
        cmocka_unit_test(a_frame_is_made_by_two_stores),
        cmocka_unit_test(without_a_frame_sp_is_followed),
        cmocka_unit_test(the_link_is_stored_alone),
        cmocka_unit_test(a_call_without_a_frame_loses_the_link),
        cmocka_unit_test(ways_that_disagree_are_doubtful),
        cmocka_unit_test(few_bytes_show_a_frame),
        cmocka_unit_test(the_type_of_a_frame_is_in_its_first_instructions),
        cmocka_unit_test(a_returned_constant_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
