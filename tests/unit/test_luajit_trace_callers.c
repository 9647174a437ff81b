/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds who called C from a trace, with two handmade snapshots, bytecode between them, and
 * constants: what proves the frames of the second snapshot, and what does not. */
#include "trace_fixture.h"
#include "unwind/luajit/trace_callers.h"

enum {
    MAIN = ORIGIN, /* bytecode */
    IR = 0x10200,
    SNAP = 0x10600,
    MAP = 0x10800,
    FUNCTION = 0x11000,
    PROTO = 0x11100,
    PROTO_SIZE = 0x20,
    CODE = PROTO + PROTO_SIZE,
    OTHER = 0x11400,
    OTHER_PROTO = 0x11500,
    TARGET = 0x7654321,
    INT64 = 21,
    CALL = BC_CALLM + 1,
};

/* local x = 1; f(x) ... */
static const uint32_t main_code[] = {
    BC_FUNCF, BC_KSTR | 2 << 8, BC_UGET | 1 << 8, CALL | 1 << 8, BC_MOV, BC_RET1,
};
/* C.name(x) ... */
static const uint32_t code[] = {
    BC_FUNCF,      BC_UGET | 1 << 8, BC_TGETS | 1 << 8 | 1U << 24, BC_MOV, CALL | 1 << 8, BC_MOV,
    CALL | 1 << 8, BC_RET1,
};
enum { IN_MAIN = 3, CALLING = 4, MAIN_SIZE = 6, CODE_SIZE = 8 };

static void constant(struct fixture *f, uint8_t type, uint64_t value)
{
    f->t.nk -= 2;
    put(f, f->t.ir + 8 * (uint64_t)f->t.nk, (uint64_t)type << 32, 8);
    put(f, f->t.ir + 8 * (uint64_t)(f->t.nk + 1), value, 8);
}

static void function(struct fixture *f, uint64_t at, uint64_t proto)
{
    put(f, at + 9, LUAJIT_GCT_FUNC, 1);
    put(f, at + 0x20, proto + PROTO_SIZE, 8);
    put(f, proto + 9, LUAJIT_GCT_PROTO, 1);
    put(f, proto + 0xc, CODE_SIZE, 4);
    memcpy(f->bytes + (proto + PROTO_SIZE - ORIGIN), code, sizeof(code));
}

static void instruction(struct fixture *f, uint64_t function, uint32_t index, uint32_t bytes)
{
    put(f, function + 4 * (uint64_t)index, bytes, 4);
}

/* Adds a snapshot at instruction `index` of the main chunk, or (`inside`) of the function that it
 * called. */
static void snap(struct fixture *f, bool inside, uint32_t index)
{
    enum { DEPTH = 3, FRAME = 0x10000, FUNC = REF_BIAS - 2, LINK = REF_BIAS - 4 };
    uint64_t pc = (inside ? CODE : MAIN) + 4 * (uint64_t)index;
    uint64_t at = SNAP + 12 * (uint64_t)f->t.nsnap++, map = MAP + 4 * (uint64_t)f->t.nsnapmap;
    put(f, at, f->t.nsnapmap, 4);
    put(f, at + 4, REF_BIAS + 1, 2);
    put(f, at + 10, inside ? 2 : 0, 1);
    if (inside) {
        put(f, map, DEPTH << 24 | FUNC, 4);
        put(f, map + 4, (DEPTH + 1) << 24 | FRAME | LINK, 4);
        map += 8;
    }
    put(f, map, pc << 8 | (inside ? DEPTH : 0), 8);
    f->t.nsnapmap += inside ? 4 : 2;
}

static struct luajit_call begin(struct fixture *f)
{
    fixture_begin(f, true, IR, SNAP, 12);
    f->t.snapmap = MAP;
    f->l.gct = 9;
    f->l.func_ffid = 10;
    f->l.func_pc = 0x20;
    f->l.func_c = 0x28;
    f->l.proto_sizebc = 0xc;
    f->l.proto_size = PROTO_SIZE;
    memcpy(f->bytes, main_code, sizeof(main_code));
    function(f, FUNCTION, PROTO);
    function(f, OTHER, OTHER_PROTO);
    constant(f, IRT_FUNC, FUNCTION);
    constant(f, INT64, MAIN + 4 * (IN_MAIN + 1)); /* the frame's link */
    f->t.nins = REF_BIAS + 1;
    snap(f, false, 1);
    snap(f, true, CALLING + 1);
    return (struct luajit_call){
        .target = TARGET,
        .is_first = true,
        .before = 0,
        .behind = 1,
        .from = {.address = 8, .proto = 8, .code = MAIN, .sizebc = MAIN_SIZE, .lua = true}};
}

static bool is_proven(struct fixture *f, const struct luajit_call *call)
{
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    return luajit_caller_is_proven(&f->r, &f->t, call);
}

static void one_way(void **state)
{
    struct fixture f;
    struct luajit_call call = begin(&f);
    (void)state;
    assert_false(is_proven(&f, &call)); /* the callee is no constant of the trace */
    constant(&f, INT64, TARGET);
    assert_true(is_proven(&f, &call));
    /* Only builds that keep addresses in constants can prove it. */
    f.l.gc64 = false;
    assert_false(is_proven(&f, &call));
}

static void functions_known(void **state)
{
    struct fixture f;
    struct luajit_call call = begin(&f);
    (void)state;
    constant(&f, INT64, TARGET);
    /* called later; a later call may be inside it */
    constant(&f, IRT_FUNC, OTHER);
    assert_true(is_proven(&f, &call));
    call.is_first = false;
    assert_false(is_proven(&f, &call));
    call = begin(&f);
    constant(&f, IRT_FUNC, OTHER); /* called before, and perhaps again */
    constant(&f, INT64, TARGET);
    assert_false(is_proven(&f, &call));
    call = begin(&f);
    constant(&f, IRT_PROTO, PROTO); /* stands for any closure */
    constant(&f, INT64, TARGET);
    assert_false(is_proven(&f, &call));
    call = begin(&f);
    constant(&f, IRT_FUNC, FUNCTION + 0x800); /* not recorded */
    constant(&f, INT64, TARGET);
    assert_false(is_proven(&f, &call));
    f.t.nk = 0; /* more constants than any compiler makes, or not recorded */
    assert_false(is_proven(&f, &call));
}

/* Returns whether the call is still proven with this instruction in that place. */
static bool is_proven_with(uint64_t function, uint32_t index, uint32_t bytes)
{
    struct fixture f;
    struct luajit_call call = begin(&f);
    constant(&f, INT64, TARGET);
    instruction(&f, function, index, bytes);
    return is_proven(&f, &call);
}

static void other_ways(void **state)
{
    (void)state;
    /* An earlier call of an unknown function. */
    assert_false(is_proven_with(CODE, 3, CALL | 5 << 8));
    assert_false(is_proven_with(MAIN, 2, CALL | 5 << 8));
    /* A branch, a loop that is patched, a return: control may go elsewhere. */
    assert_false(is_proven_with(CODE, 3, BC_ISLT));
    assert_false(is_proven_with(MAIN, 2, BC_JLOOP));
    assert_false(is_proven_with(MAIN, 1, BC_RET1));
    assert_false(is_proven_with(MAIN, 1, BC_JMP | (0x8000 + 2U) << 16)); /* jumps beyond the call */
    assert_false(is_proven_with(MAIN, 1, BC_JMP | (0x8000 - 1U) << 16)); /* endless loop */
    assert_true(is_proven_with(MAIN, 1, BC_JMP | (0x8000 + 0U) << 16));
    /* The callee is an argument: first the function's own, then C's. */
    assert_false(is_proven_with(CODE, 2, BC_MOV | 1 << 8));
    assert_false(is_proven_with(CODE, 1, BC_MOV | 1 << 8));
    /* indexed by an argument */
    assert_false(is_proven_with(CODE, 2, BC_TGETV | 1 << 8 | 1U << 24));
    assert_false(is_proven_with(CODE, 3, BC_ADDVN | 1 << 8));
    assert_true(is_proven_with(CODE, 3, BC_ADDVN | 3 << 8));
    /* The last address is not behind a call. */
    assert_false(is_proven_with(CODE, CALLING, BC_MOV));
}

static void snapshots_that_disagree(void **state)
{
    struct fixture f;
    struct luajit_call call = begin(&f);
    (void)state;
    constant(&f, INT64, TARGET);
    snap(&f, true, CALLING + 3); /* snapshot 2: behind another call */
    snap(&f, false, IN_MAIN + 1);
    call.behind = 2;
    assert_false(is_proven(&f, &call));
    call.before = 1, call.behind = 0; /* the frame is gone */
    assert_false(is_proven(&f, &call));
    call.before = 0, call.behind = 4; /* no such snapshot */
    assert_false(is_proven(&f, &call));
    /* In the frame itself; but the trace knows another function, which may have made the call. */
    call.behind = 3;
    assert_false(is_proven(&f, &call));
    f.t.nk = REF_BIAS - 2;
    put(&f, f.t.ir + 8 * (uint64_t)f.t.nk, (uint64_t)INT64 << 32, 8);
    put(&f, f.t.ir + 8 * (uint64_t)(f.t.nk + 1), TARGET, 8);
    assert_true(is_proven(&f, &call));
    instruction(&f, MAIN, 2, BC_MOV | 1 << 8);
    assert_false(is_proven(&f, &call));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_way),
        cmocka_unit_test(functions_known),
        cmocka_unit_test(other_ways),
        cmocka_unit_test(snapshots_that_disagree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
