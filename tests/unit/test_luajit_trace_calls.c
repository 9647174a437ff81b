/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls of C from traces, with handmade machine code, snapshots and constants. */
#include "trace_fixture.h"
#include "unwind/luajit/trace_calls.h"

enum {
    CODE = ORIGIN, /* bytecode */
    IR = 0x10200,  /* address of REF_BIAS; constants are below */
    SNAP = 0x10600,
    MCODE = 0x10a00,
    KGC_PROTO = 7,
    OWN = 0x7000000, /* LuaJIT's own code */
};

static void snap(struct fixture *f, uint16_t mcofs)
{
    put(f, SNAP + 12 * (uint64_t)f->t.nsnap++ + 6, mcofs, 2);
}

static void code(struct fixture *f, uint32_t offset, const char *bytes, size_t size)
{
    memcpy(f->bytes + (MCODE - ORIGIN) + offset, bytes, size);
}

/* Two calls through registers in each part, with helpers in between. */
static void begin(struct fixture *f)
{
    fixture_begin(f, true, IR, SNAP, 12);
    memset(f->bytes + (MCODE - ORIGIN), 0x90, 0x400);
    f->t.mcode = MCODE;
    f->t.szmcode = 0x100;
    f->t.mcloop = 0x80;
    code(f, 0x10, "\xff\xd5", 2);     /* call rbp */
    code(f, 0x30, "\x41\xff\xd5", 3); /* call r13 */
    code(f, 0x90, "\xff\xd5", 2);
    code(f, 0xa0, "\xe8\xeb\x5b\x00\x07", 5); /* call of LuaJIT's own code */
    code(f, 0xb0, "\x41\xff\xd5", 3);
    snap(f, 0), snap(f, 0x20), snap(f, 0x40), snap(f, 0x84), snap(f, 0xf0);
}

static void snapshots_behind_calls(void **state)
{
    struct fixture f;
    uint32_t ret[CALL_SNAPSHOTS];
    (void)state;
    begin(&f);
    /* In the first part each call has its own snapshot. */
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x12, 0, OWN, ret), 1);
    assert_int_equal(ret[0], 1);
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x33, 1, OWN, ret), 1);
    assert_int_equal(ret[0], 2);
    /* In the loop both calls share a snapshot, which identifies neither; those of the first part
     * do. */
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x92, 3, OWN, ret), 1);
    assert_int_equal(ret[0], 1);
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0xb3, 3, OWN, ret), 1);
    assert_int_equal(ret[0], 2);
    /* A helper's call does not count. Without the second call, the loop's own snapshot tells,
     * too. */
    code(&f, 0xb0, "\x90\x90\x90", 3);
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x92, 3, OWN, ret), 2);
    assert_int_equal(ret[0], 4);
    assert_int_equal(ret[1], 1);
    /* An address that is not behind a call; a call that one part has more often than the other. */
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x93, 3, OWN, ret), 0);
    code(&f, 0x50, "\xff\xd5", 2);
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x92, 3, OWN, ret), 1);
    assert_int_equal(ret[0], 4);
    /* Code that is not recorded, offsets behind its end, a last snapshot. */
    f.t.mcode = 8;
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x12, 0, OWN, ret), 0);
    f.t.mcode = MCODE;
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0xf8, 4, OWN, ret), 0);
    f.t.mcloop = UINT32_MAX;
    f.t.szmcode = 0x11;
    assert_int_equal(luajit_call_snapshots(&f.r, &f.t, 0x12, 0, OWN, ret), 0);
}

/* If functions are in the same file as LuaJIT, those that the FFI calls are constants of the
 * trace. */
static void calls_by_the_ffi(void **state)
{
    const uint64_t called = MCODE + 0xa5 + 0x7005beb;
    struct fixture f;
    (void)state;
    begin(&f);
    assert_false(luajit_call_by_ffi(&f.r, &f.t, 0xa5));
    assert_true(luajit_call_by_ffi(&f.r, &f.t, 0x12)); /* its callee is unknown */
    f.t.nk = REF_BIAS - 2;
    put(&f, IR - 8, called + 1, 8);
    assert_false(luajit_call_by_ffi(&f.r, &f.t, 0xa5));
    put(&f, IR - 8, called, 8);
    assert_true(luajit_call_by_ffi(&f.r, &f.t, 0xa5));
    assert_true(luajit_trace_names(&f.r, &f.t, called));
    /* no call of the trace */
    assert_false(luajit_call_by_ffi(&f.r, &f.t, f.t.szmcode + 1));
}

static void functions_a_trace_knows(void **state)
{
    struct fixture f;
    const uint64_t known[] = {0x55000}, both[] = {0x66000, 0x55000};
    (void)state;
    begin(&f);
    assert_false(luajit_trace_knows_others(&f.r, &f.t, NULL, 0));
    for (uint64_t i = 1; i <= 2; i++) { /* a constant's head, then its pointer */
        put(&f, IR - 16 * i + 4, KGC_PROTO, 1);
        put(&f, IR - 16 * i + 8, i == 1 ? known[0] : both[0], 8);
    }
    f.t.nk = REF_BIAS - 2;
    assert_true(luajit_trace_knows_others(&f.r, &f.t, NULL, 0));
    assert_false(luajit_trace_knows_others(&f.r, &f.t, known, 1));
    f.t.nk = REF_BIAS - 4;
    assert_true(luajit_trace_knows_others(&f.r, &f.t, known, 1));
    assert_false(luajit_trace_knows_others(&f.r, &f.t, both, 2));
    /* a pointer whose bytes look like a constant's head */
    put(&f, IR - 8, UINT64_C(0x0700066000), 8);
    put(&f, IR - 16 + 4, 0, 1);
    assert_false(luajit_trace_knows_others(&f.r, &f.t, both, 2));
    f.t.nk = 0; /* more constants than any compiler makes, or not recorded */
    assert_true(luajit_trace_knows_others(&f.r, &f.t, both, 2));
}

static void the_call_before(void **state)
{
    struct fixture f;
    const struct luajit_function function = {.code = CODE, .sizebc = 8, .lua = true};
    (void)state;
    begin(&f);
    static const uint32_t bytecode[] = {BC_FUNCF, BC_UGET, BC_CALLM + 1, BC_MOV, BC_ISLT, BC_JMP};
    memcpy(f.bytes, bytecode, sizeof(bytecode));
    assert_int_equal(luajit_call_pc(&f.r, &function, CODE + 4 * 5), CODE + 4 * 3);
    assert_int_equal(luajit_call_pc(&f.r, &function, CODE + 4 * 4), CODE + 4 * 3);
    /* no call before it */
    assert_int_equal(luajit_call_pc(&f.r, &function, CODE + 4 * 3), CODE + 4 * 3);
    assert_int_equal(luajit_call_pc(&f.r, &function, CODE), CODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_behind_calls),
        cmocka_unit_test(calls_by_the_ffi),
        cmocka_unit_test(functions_a_trace_knows),
        cmocka_unit_test(the_call_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
