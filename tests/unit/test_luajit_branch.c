/* SPDX-License-Identifier: GPL-2.0-only */
/* Lines of traces: snapshots made by hand, in each of their forms, whose PC is where the code was
 * recorded, or the branch that was not. */
#include "trace_fixture.h"
#include "unwind/luajit/branch.h"

enum { CODE = ORIGIN, IR = 0x10200, SNAP = 0x10600, MAP = 0x10800 };
enum { CONSTANT = REF_BIAS - 2, NONE = 0xff, LT = 0, EQ = 8, ABC = 10 };

/* if a < b then x() (3) else y() (5) end; for (9 to 12) ... end; return */
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

/* `size`: of a snapshot, which is 8 bytes only without GC64. */
static void begin(struct fixture *f, bool gc64, uint16_t size)
{
    fixture_begin(f, gc64, IR, SNAP, size);
    f->t.snapmap = MAP;
    memcpy(f->bytes, bytecode, sizeof(bytecode));
    f->f = (struct luajit_function){
        .address = 8, .proto = 8, .code = CODE, .sizebc = SIZEBC, .lua = true};
}

/* One more snapshot: at instruction `index`, its code one guard (NONE: none) behind something else.
 */
static void snap(struct fixture *f, uint32_t index, uint32_t depth, uint8_t guard)
{
    uint64_t pc = CODE + 4 * (uint64_t)index, at = SNAP + f->t.snap_size * (uint64_t)f->t.nsnap++;
    put(f, at, f->t.nsnapmap, f->t.snap_size == 8 ? 2 : 4);
    put(f, at + (f->t.snap_size == 8 ? 2 : 4), f->t.nins, 2);
    uint64_t map = MAP + 4 * (uint64_t)f->t.nsnapmap,
             ir = IR + 8 * (uint64_t)(f->t.nins - REF_BIAS);
    put(f, map, f->l.gc64 ? pc << 8 | depth : pc, f->l.gc64 ? 8 : 4);
    f->t.nsnapmap += f->l.gc64 ? 2 : 1 + depth;
    put(f, ir + 5, 0x40, 1); /* some instruction, no guard */
    if (guard != NONE)
        put(f, ir + 12, 0x80 | (uint64_t)guard << 8, 2);
    f->t.nins += guard != NONE ? 2 : 1;
}

/* The same, in a function that instruction `call` calls. */
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

/* The instruction whose line is shown for what snapshot `number`, at `index`, covers; -1: none. */
static int shown(struct fixture *f, uint32_t number, uint32_t index)
{
    uint64_t pc = luajit_recorded_pc(&f->r, &f->t, number, &f->f, CODE + 4 * (uint64_t)index + 4);
    return pc ? (int)((pc - CODE) / 4) - 1 : -1;
}

/* What is shown for a guard of that opcode, type and second operand (a constant: CONSTANT, its
 * value `k`), where both of a comparison's ways lead on. */
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
    begin(f, gc64, size); /* another way leads to 3, where there may be the FFI's comparison */
    put(f, CODE + 4, BC_ISEQV | 1 << 16, 4);
    put(f, CODE + 4 * 8, BC_JMP | (0x8000 - 6U) << 16, 4);
    assert_int_equal(shown_for(f, EQ, NUM, CONSTANT, 0), -1);
}

static void check_all(struct fixture *f, bool gc64, uint16_t size)
{
    begin(f, gc64, size); /* recorded by 1, 5, 6; the guard's exit goes to 3 */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap(f, 5, 0, ABC), snap(f, 13, 0, NONE);
    assert_int_equal(shown(f, 0, 1), 1);
    assert_int_equal(shown(f, 1, 3), 1);
    assert_int_equal(shown(f, 2, 5), 5);
    assert_int_equal(shown(f, 3, 13), 13);
    begin(f, gc64, size); /* by 1, 3: the comparison's own snapshot says that 3 was recorded */
    snap(f, 1, 0, ABC), snap(f, 5, 0, LT), snap(f, 3, 0, EQ), snap(f, 6, 0, ABC);
    assert_int_equal(shown(f, 1, 5), 1);
    assert_int_equal(shown(f, 2, 3), 3);
    begin(f, gc64, size); /* both ways lead to 6, and nothing tells */
    snap(f, 1, 0, ABC), snap(f, 3, 0, EQ), snap(f, 6, 0, ABC);
    assert_int_equal(shown(f, 1, 3), -1);
    check_guards(f, gc64, size);
    begin(f, gc64, size); /* another guard: no comparison */
    snap(f, 1, 0, ABC), snap(f, 3, 0, ABC), snap(f, 5, 0, ABC);
    assert_int_equal(shown(f, 1, 3), 3);
    begin(f, gc64, size); /* a loop that goes round: its steps' exits lead to 13 */
    snap(f, 10, 0, ABC), snap(f, 13, 0, LT), snap(f, 10, 0, ABC), snap(f, 13, 0, LT);
    assert_int_equal(shown(f, 1, 13), 12);
    assert_int_equal(shown(f, 3, 13), 12);
    begin(f, gc64, size); /* the loop is left: its step's exit leads to 10 */
    snap(f, 11, 0, ABC), snap(f, 10, 0, LT), snap(f, 13, 0, ABC);
    assert_int_equal(shown(f, 1, 10), 12);
    begin(f, gc64, size); /* by 5 into a function that is called: from 3 one comes there no less */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap(f, 1, 3, ABC);
    assert_int_equal(shown(f, 1, 3), -1);
    begin(f, gc64, size); /* into one that 5 calls: its frame says so */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap_in_call(f, 5);
    assert_int_equal(shown(f, 1, 3), 1);
    begin(f, gc64, size); /* that 3 calls */
    snap(f, 1, 0, ABC), snap(f, 3, 0, LT), snap_in_call(f, 3);
    assert_int_equal(shown(f, 1, 3), 3);
    begin(f, gc64, size); /* bytecode that is not recorded */
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

/* Whatever bytecode, snapshots and instructions say, it ends, and reads nothing else. */
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
