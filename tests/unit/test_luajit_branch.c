/* SPDX-License-Identifier: GPL-2.0-only */
/* Lines of traces, with handmade snapshots of each form. A snapshot's PC is where the code was
 * recorded, or on the branch that was not recorded. */
#include "trace_fixture.h"
#include "unwind/luajit/branch.h"

enum { CODE = ORIGIN, IR = 0x10200, SNAP = 0x10600, MAP = 0x10800 };
enum { CONSTANT = REF_BIAS - 2, NONE = 0xff, LT = 0, EQ = 8, ABC = 10 };

/* if a < b then x() (3) else y() (5) end; for (9 to 12) ... end; return: (n) is an instruction's
 * number */
static const uint32_t bytecode[] = {
    BC_FUNCF,
    BC_ISLT | 1 << 16,
    BC_JMP | (0x8000 + 2) << 16, /* to 5 */
    BC_CALLM | 1 << 8,
    BC_JMP | (0x8000 + 1) << 16, /* to 6 */
    BC_CALLM | 1 << 8,
    BC_MOV | 2 << 8,
    BC_MOV | 3 << 8,
    BC_MOV | 4 << 8,
    BC_FORI | (0x8000 + 3U) << 16, /* to 13 */
    BC_MOV | 5 << 8,
    BC_MOV | 6 << 8,
    BC_FORL | (0x8000 - 3U) << 16, /* to 10 */
    BC_RET1 | 2 << 16,
};
enum { SIZEBC = sizeof(bytecode) / sizeof(*bytecode) };

/* `size`: size of a snapshot; 8 bytes only without GC64. */
static void begin(struct fixture *f, bool gc64, uint16_t size)
{
    fixture_begin(f, gc64, IR, SNAP, size);
    f->t.snapmap = MAP;
    memcpy(f->bytes, bytecode, sizeof(bytecode));
    f->f = (struct luajit_function){
        .address = 8, .proto = 8, .code = CODE, .sizebc = SIZEBC, .lua = true};
}

/* Adds a snapshot at instruction `index`. Its code is one instruction, then a guard (NONE: no
 * guard). */
static void snap(struct fixture *f, uint32_t index, uint32_t depth, uint8_t guard)
{
    uint64_t pc = CODE + 4 * (uint64_t)index, at = SNAP + f->t.snap_size * (uint64_t)f->t.nsnap++;
    put(f, at, f->t.nsnapmap, f->t.snap_size == 8 ? 2 : 4);
    put(f, at + (f->t.snap_size == 8 ? 2 : 4), f->t.nins, 2);
    uint64_t map = MAP + 4 * (uint64_t)f->t.nsnapmap,
             ir = IR + 8 * (uint64_t)(f->t.nins - REF_BIAS);
    put(f, map, f->l.gc64 ? pc << 8 | depth : pc, f->l.gc64 ? 8 : 4);
    f->t.nsnapmap += f->l.gc64 ? 2 : 1 + depth;
    put(f, ir + 5, 0x40, 1); /* some instruction that is no guard */
    if (guard != NONE)
        put(f, ir + 12, 0x80 | (uint64_t)guard << 8, 2);
    f->t.nins += guard != NONE ? 2 : 1;
}

/* Adds a snapshot in a function that instruction `call` calls. */
static void snap_in_call(struct fixture *f, uint32_t call)
{
    enum { FRAME = 0x10000, DEPTH = 3, FUNC = REF_BIAS - 4, LINK = REF_BIAS - 2 };
    uint64_t pc = 0x10f00, link = CODE + 4 * (uint64_t)call + 4;
    uint64_t at = SNAP + f->t.snap_size * (uint64_t)f->t.nsnap;
    uint64_t map = MAP + 4 * (uint64_t)f->t.nsnapmap;
    snap(f, 0, 0, ABC);
    f->t.nk = FUNC;
    put(f, f->t.ir + 8 * (FUNC + 1), 8, 8);
    put(f, f->t.ir + 8 * (LINK + 1), link, 8);
    put(f, at + (f->t.snap_size == 8 ? 6 : 10), f->l.gc64 ? 2 : 1, 1);
    if (f->l.gc64) {
        put(f, map, (uint64_t)DEPTH << 24 | FUNC, 4);
        put(f, map + 4, (uint64_t)(DEPTH + 1) << 24 | FRAME | LINK, 4);
        put(f, map + 8, pc << 8 | DEPTH, 8);
    } else {
        put(f, map, (uint64_t)DEPTH << 24 | FRAME | FUNC, 4);
        put(f, map + 4, pc, 4);
        put(f, map + 8, link, 4);
    }
    f->t.nsnapmap = (uint32_t)(map - MAP) / 4 + (f->l.gc64 ? 4 : 3);
}

/* Returns the instruction whose line is shown for the code of snapshot `number`, which is at
 * `index`; -1: none. */
static int shown(struct fixture *f, uint32_t number, uint32_t index)
{
    uint64_t pc = luajit_recorded_pc(&f->r, &f->t, number, &f->f, CODE + 4 * (uint64_t)index + 4);
    return pc ? (int)((pc - CODE) / 4) - 1 : -1;
}

/* Returns the instruction shown for a guard with that opcode, type and second operand (CONSTANT: a
 * constant with value `k`), where both branches of the comparison lead on. */
static int shown_for(struct fixture *f, uint64_t guard, uint64_t type, uint64_t second, int32_t k)
{
    snap(f, 1, 0, ABC), snap(f, 3, 0, (uint8_t)guard);
    put(f, f->t.ir + 8 * (uint64_t)(f->t.nins - 1),
        (REF_BIAS + 1) | second << 16 | (0x80 | type) << 32 | guard << 40, 8);
    put(f, f->t.ir + 8 * (uint64_t)CONSTANT, (uint32_t)k, 8);
    f->t.nk = CONSTANT;
    snap(f, 6, 0, ABC);
    return shown(f, 1, 3);
}

static void check_guards(struct fixture *f, bool gc64, uint16_t size)
{
    enum { NE = 9, STR = 4, NUM = 14, INT = 19, VALUE = REF_BIAS + 2 };
    static const struct {
        uint32_t guard, type, second;
        int32_t k;
        int shown;
    } cases[] = {
        {LT, NUM, VALUE, 0, 1},         {LT, NUM, CONSTANT, 0, -1}, {LT, INT, VALUE, 0, -1},
        {NE, INT, VALUE, 0, 1},         {NE, INT, CONSTANT, 2, 1},  {NE, INT, CONSTANT, 0, -1},
        {NE, INT, CONSTANT, -1, -1},    {EQ, INT, CONSTANT, 2, -1}, {EQ, NUM, CONSTANT, 0, 1},
        {NE, STR, CONSTANT, 0, 1},      {EQ, STR, CONSTANT, 0, -1}, {NE, 11, VALUE, 0, -1},
        {EQ, NUM, REF_BIAS + 1, 0, -1}, /* is it a number at all? */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bool equality = cases[i].guard >= EQ;
        begin(f, gc64, size);
        put(f, CODE + 4, (equality ? BC_ISEQV : BC_ISLT) | 1 << 16, 4);
        assert_int_equal(shown_for(f, cases[i].guard, cases[i].type, cases[i].second, cases[i].k),
                         cases[i].shown);
    }
    begin(f, gc64, size); /* another branch leads to 3, where the FFI's comparison may be */
    put(f, CODE + 4, BC_ISEQV | 1 << 16, 4);
    put(f, CODE + 4 * 8, BC_JMP | (0x8000 - 6U) << 16, 4);
    assert_int_equal(shown_for(f, EQ, NUM, CONSTANT, 0), -1);
}

static void check_all(struct fixture *f, bool gc64, uint16_t size)
{
    begin(f, gc64, size); /* recorded 1, 5, 6; the guard's exit goes to 3 */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap(f, 5, 0, ABC), snap(f, 13, 0, NONE);
    assert_int_equal(shown(f, 0, 1), 1);
    assert_int_equal(shown(f, 1, 3), 1);
    assert_int_equal(shown(f, 2, 5), 5);
    assert_int_equal(shown(f, 3, 13), 13);
    /* recorded 1, 3: the comparison's own snapshot says that 3 was recorded */
    begin(f, gc64, size);
    snap(f, 1, 0, ABC), snap(f, 5, 0, LT), snap(f, 3, 0, EQ), snap(f, 6, 0, ABC);
    assert_int_equal(shown(f, 1, 5), 1);
    assert_int_equal(shown(f, 2, 3), 3);
    begin(f, gc64, size); /* both branches lead to 6: nothing tells which was recorded */
    snap(f, 1, 0, ABC), snap(f, 3, 0, EQ), snap(f, 6, 0, ABC);
    assert_int_equal(shown(f, 1, 3), -1);
    check_guards(f, gc64, size);
    begin(f, gc64, size); /* another guard, not a comparison */
    snap(f, 1, 0, ABC), snap(f, 3, 0, ABC), snap(f, 5, 0, ABC);
    assert_int_equal(shown(f, 1, 3), 3);
    begin(f, gc64, size); /* a loop that goes on: the exits of its steps lead to 13 */
    snap(f, 10, 0, ABC), snap(f, 13, 0, LT), snap(f, 10, 0, ABC), snap(f, 13, 0, LT);
    assert_int_equal(shown(f, 1, 13), 12);
    assert_int_equal(shown(f, 3, 13), 12);
    begin(f, gc64, size); /* the loop is left: the exit of its step leads to 10 */
    snap(f, 11, 0, ABC), snap(f, 10, 0, LT), snap(f, 13, 0, ABC);
    assert_int_equal(shown(f, 1, 10), 12);
    /* recorded 5, then a called function, which can be reached from 3 as well */
    begin(f, gc64, size);
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap(f, 1, 3, ABC);
    assert_int_equal(shown(f, 1, 3), -1);
    begin(f, gc64, size); /* a function that 5 calls, as its frame says */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap_in_call(f, 5);
    assert_int_equal(shown(f, 1, 3), 1);
    begin(f, gc64, size); /* a function that 3 calls */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap_in_call(f, 3);
    assert_int_equal(shown(f, 1, 3), 3);
    begin(f, gc64, size); /* the bytecode is not recorded */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap(f, 5, 0, ABC);
    f->f.code = 8;
    put(f, MAP + (gc64 ? 8 : 4), gc64 ? (uint64_t)(8 + 12) << 8 : 8 + 12, gc64 ? 8 : 4);
    assert_int_equal(luajit_recorded_pc(&f->r, &f->t, 1, &f->f, 8 + 16), 0);
}

static void lines_of_branches(void **state)
{
    struct fixture f;
    (void)state;
    check_all(&f, true, 12);
    check_all(&f, false, 12);
    check_all(&f, false, 8);
}

/* Whatever bytecode, snapshots and instructions contain, the search ends and reads nothing else. */
static void hostile(void **state)
{
    struct fixture f;
    uint32_t seed = 1;
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        begin(&f, i & 1, i & 2 && !(i & 1) ? 8 : 12);
        snap(&f, 1, 0, ABC), snap(&f, 3, i & 3, LT), snap(&f, 5, 0, EQ);
        for (unsigned k = 0; k < 24; k++) {
            seed = seed * 1664525 + 1013904223;
            f.bytes[(seed >> 8) % (k & 1 ? sizeof(bytecode) : MAP + 32 - ORIGIN)] =
                (uint8_t)(seed >> 24);
        }
        f.f.sizebc = i % 3 ? SIZEBC : LUAJIT_SIZEBC_MAX;
        for (uint32_t n = 0; n < 4; n++)
            shown(&f, n, n ? 1 + 2 * n : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_branches),
        cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
