/* SPDX-License-Identifier: GPL-2.0-only */
/* Handmade Lua stacks, in both modes: every kind of link, and hostile stacks. */
#include "memory_fixture.h"
#include "unwind/luajit/stack.h"
#include "unwind/luajit/vm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* One block of memory: objects, bytecode, the stack's slots. */
enum { ORIGIN = 0x10000, SIZE = 0x8000, STACK = 0x14000, SLOTS = 512, STATE = 0x10800 };
enum { FUNCTIONS = 4, SIZEBC = 64, TAKEN_MAX = 64 };

struct fixture {
    uint8_t bytes[SIZE];
    struct luajit_layout l;
    struct memory_layer layer;
    struct memory memory;
    struct luajit_reader r;
    struct luajit_state L;
    uint64_t functions[FUNCTIONS], code[FUNCTIONS]; /* 0 to 2: Lua; 3: C */
    enum provenance provenance;
    uint64_t bottom;
};

static bool read_fixture(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    const struct fixture *f = context;
    answer->provenance = f->provenance;
    return memory_fixture_read(f->bytes, ORIGIN, SIZE, q->address, to, q->size);
}

static void put(struct fixture *f, uint64_t address, uint64_t value, size_t size)
{
    uint64_t at = address - ORIGIN;
    if (at > SIZE || SIZE - at < size)
        fail();
    else
        memcpy(f->bytes + at, &value, size);
}

static void put_ref(struct fixture *f, uint64_t address, uint64_t value)
{
    put(f, address, value, (size_t)f->l.ref_size);
}

static struct luajit_layout layout(bool gc64)
{
    struct luajit_layout l = {.gc64 = gc64};
    l.ref_size = gc64 ? 8 : 4;
    l.frame_slots = gc64 ? 2 : 1;
    l.gct = l.L_gct = gc64 ? 9 : 5;
    l.L_glref = gc64 ? 0x10 : 8, l.L_base = gc64 ? 0x20 : 0x10, l.L_top = gc64 ? 0x28 : 0x18;
    l.L_maxstack = gc64 ? 0x30 : 0x20, l.L_stack = gc64 ? 0x38 : 0x24;
    l.L_cframe = gc64 ? 0x50 : 0x30, l.L_stacksize = gc64 ? 0x58 : 0x38;
    l.L_used = gc64 ? 0x60 : 0x40;
    l.func_ffid = gc64 ? 0xa : 6, l.func_pc = gc64 ? 0x20 : 0x10, l.func_c = gc64 ? 0x28 : 0x18;
    l.proto_size = gc64 ? 0x68 : 0x40, l.proto_sizebc = gc64 ? 0xc : 8;
    l.op_call = 0x42, l.op_callm = 0x41, l.op_iterc = 0x45, l.op_itern = 0x46;
    return l;
}

static void add_function(struct fixture *f, unsigned i, uint8_t ffid)
{
    uint64_t func = ORIGIN + 0x100 + 0x40 * i, proto = ORIGIN + 0x1000 + 0x400 * i;
    f->functions[i] = func;
    f->code[i] = proto + (uint64_t)f->l.proto_size;
    put(f, func + (uint64_t)f->l.gct, 8, 1);
    put(f, func + (uint64_t)f->l.func_ffid, ffid, 1);
    put_ref(f, func + (uint64_t)f->l.func_pc, ffid ? 0x7777 : f->code[i]);
    put(f, proto + (uint64_t)f->l.gct, 7, 1);
    put(f, proto + (uint64_t)f->l.proto_sizebc, SIZEBC, 4);
}

static struct fixture *make(bool gc64)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->l = layout(gc64);
    f->layer = (struct memory_layer){.read = read_fixture, .context = f};
    f->memory = (struct memory){.layers = &f->layer, .nr_layers = 1};
    for (unsigned i = 0; i < FUNCTIONS; i++)
        add_function(f, i, i == 3 ? 1 : 0);
    put(f, STATE + (uint64_t)f->l.L_gct, 6, 1);
    put_ref(f, STATE + (uint64_t)f->l.L_glref, 0x12000);
    put_ref(f, STATE + (uint64_t)f->l.L_stack, STACK);
    put_ref(f, STATE + (uint64_t)f->l.L_maxstack, STACK + 8 * (SLOTS - 9));
    put(f, STATE + (uint64_t)f->l.L_stacksize, SLOTS, 4);
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    assert_true(luajit_read_state(&f->r, STATE, &f->L));
    f->bottom = luajit_bottom(&f->r, &f->L);
    return f;
}

/* Makes a call at `position` of function `i`, with operand A `a`. Returns the link behind it. */
static uint64_t call(struct fixture *f, unsigned i, unsigned position, unsigned a)
{
    put(f, f->code[i] + 4 * position, 0x42 | a << 8, 4);
    return f->code[i] + 4 * (position + 1);
}

static void put_header(struct fixture *f, uint64_t base, uint64_t func, uint64_t link)
{
    if (f->l.gc64) {
        put(f, base - 16, func | UINT64_C(0xfffb) << 48, 8);
        put(f, base - 8, link, 8);
    } else {
        put(f, base - 8, func, 4);
        put(f, base - 4, link, 4);
    }
}

struct taken {
    uint64_t func[TAKEN_MAX], pc[TAKEN_MAX];
    unsigned nr;
};

static bool take(void *context, const struct luajit_function *f, struct lua_position at)
{
    struct taken *t = context;
    if (t->nr == TAKEN_MAX)
        return false;
    t->func[t->nr] = f->address;
    t->pc[t->nr++] = at.pc;
    return true;
}

static enum luajit_segment_end walk(struct fixture *f, uint64_t base, uint64_t pc, struct taken *t,
                                    struct lua_position *next)
{
    struct luajit_sink sink = {take, t};
    t->nr = 0;
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    return luajit_segment_walk(&f->r, &f->L, (struct lua_position){base, pc}, NULL, &sink, next);
}

static void each_mode(void (*test)(struct fixture *f))
{
    for (int gc64 = 0; gc64 < 2; gc64++) {
        struct fixture *f = make(gc64);
        test(f);
        free(f);
    }
}

static void check_calls(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t slots = (uint64_t)f->l.frame_slots;
    uint64_t first = f->bottom + 8 * 4, second = first + 8 * (slots + 5);
    uint64_t third = second + 8 * (slots + 2);
    uint64_t link2 = call(f, 0, 7, 5), link3 = call(f, 1, 20, 2);
    put_header(f, first, f->functions[0], (first - f->bottom) | 5); /* lua_pcall */
    put_header(f, second, f->functions[1], link2);
    put_header(f, third, f->functions[3], link3);
    assert_int_equal(walk(f, third, 0, &t, &next), LUAJIT_SEGMENT_C);
    assert_int_equal(t.nr, 3);
    assert_int_equal(t.func[0], f->functions[3]);
    assert_int_equal(t.pc[0], 0);
    assert_int_equal(t.pc[1], link3);
    assert_int_equal(t.func[2], f->functions[0]);
    assert_int_equal(t.pc[2], link2);
    assert_int_equal(next.base, f->bottom);
    assert_int_equal(walk(f, next.base, 0, &t, &next), LUAJIT_SEGMENT_BOTTOM);
    assert_int_equal(t.nr, 0);
}

static void calls(void **state)
{
    (void)state;
    each_mode(check_calls);
}

/* Reads the part of the memory that came with the sample: the lua_State and its stack. */
static bool read_copied(void *context, const struct memory_query *q, void *to,
                        struct memory_answer *answer)
{
    bool state = q->address >= STATE && q->address < STATE + 0x100;
    bool copied = state || (q->address >= STACK && q->address < STACK + 8 * SLOTS);
    return copied && read_fixture(context, q, to, answer);
}

/* Returns the provenance of a segment of two functions with these layers; `of_state`: that of its
 * lua_State. */
static enum provenance proven(struct fixture *f, const struct memory_layer *layers, size_t nr,
                              uint64_t base, enum provenance *of_state)
{
    struct taken t;
    struct lua_position next;
    f->memory.layers = layers;
    f->memory.nr_layers = nr;
    assert_int_equal(walk(f, base, f->code[1] + 8, &t, &next), LUAJIT_SEGMENT_C);
    assert_int_equal(t.nr, 2);
    assert_int_equal(t.func[0], f->functions[1]);
    enum provenance ret = f->r.provenance;
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    assert_true(luajit_read_state(&f->r, STATE, &f->L));
    *of_state = f->r.provenance;
    return ret;
}

/* A coroutine's memory may be another's a moment later: even if a stack was the same before and
 * after the sample, it may have been different in between. */
static void check_other_moments(struct fixture *f)
{
    enum provenance state;
    uint64_t first = f->bottom + 8 * 4, second = first + 8 * ((uint64_t)f->l.frame_slots + 5);
    put_header(f, first, f->functions[0], (first - f->bottom) | 5);
    put_header(f, second, f->functions[1], call(f, 0, 7, 5));
    const struct memory_layer process = f->layer;
    const struct memory_layer log = {
        .read = read_fixture, .context = f, .when = MEMORY_OF_OTHER_TIMES};
    const struct memory_layer copy = {.read = read_copied, .context = f, .when = MEMORY_OF_SAMPLE};
    const struct memory_layer both[] = {copy, log};
    assert_int_equal(proven(f, &process, 1, second, &state), PROVENANCE_EXACT);
    assert_int_equal(state, PROVENANCE_EXACT);
    assert_int_equal(proven(f, both, 2, second, &state), PROVENANCE_EXACT);
    assert_int_equal(state, PROVENANCE_EXACT);
    assert_int_equal(proven(f, &log, 1, second, &state), PROVENANCE_STALE);
    assert_int_equal(state, PROVENANCE_STALE);
    f->memory = (struct memory){.layers = &f->layer, .nr_layers = 1};
}

static void other_moments(void **state)
{
    (void)state;
    each_mode(check_other_moments);
}

/* A vararg function has two headers but is one frame, with its own pc and the lower header's
 * caller. */
static void check_vararg(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t slots = (uint64_t)f->l.frame_slots;
    uint64_t first = f->bottom + 8 * 3, lower = first + 8 * (slots + 1);
    uint64_t upper = lower + 8 * (3 + slots);
    uint64_t link = call(f, 0, 9, 1);
    put_header(f, first, f->functions[0], (first - f->bottom) | 1); /* lua_call */
    put_header(f, lower, f->functions[1], link);
    put_header(f, upper, f->functions[1], (upper - lower) | 3);
    assert_int_equal(walk(f, upper, f->code[1] + 12, &t, &next), LUAJIT_SEGMENT_C);
    assert_int_equal(t.nr, 2);
    assert_int_equal(t.func[0], f->functions[1]);
    assert_int_equal(t.pc[0], f->code[1] + 12);
    assert_int_equal(t.pc[1], link);
}

static void vararg(void **state)
{
    (void)state;
    each_mode(check_vararg);
}

/* A metamethod's frame has its caller's pc below its header; continuation 1 is an FFI callback. */
static void check_continuation(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t first = f->bottom + 8 * 3, meta = first + 8 * 10;
    put_header(f, first, f->functions[0], (first - f->bottom) | 5);
    put_header(f, meta, f->functions[2], (meta - first) | 2);
    for (unsigned callback = 0; callback < 2; callback++) {
        if (f->l.gc64) {
            put(f, meta - 32, callback ? 1 : 0x5555, 8);
            put(f, meta - 24, f->code[0] + 40, 8);
        } else {
            put(f, meta - 16, callback ? 1 : 0x5555, 4);
            put(f, meta - 12, f->code[0] + 40, 4);
        }
        assert_int_equal(walk(f, meta, f->code[2] + 4, &t, &next), LUAJIT_SEGMENT_C);
        assert_int_equal(t.nr, callback ? 1 : 2);
        assert_int_equal(next.base, callback ? first : f->bottom);
        if (!callback)
            assert_int_equal(t.pc[1], f->code[0] + 40);
    }
}

static void continuation(void **state)
{
    (void)state;
    each_mode(check_continuation);
}

/* pcall's own frame needs no pc; a dummy frame (the thread itself) is skipped. */
static void check_pcall_and_dummy(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t first = f->bottom + 8 * 3, dummy = first + 8 * 4, inner = dummy + 8 * 4;
    put_header(f, first, f->functions[3], (first - f->bottom) | 1);
    put_header(f, dummy, STATE, (dummy - first) | 6);
    put_header(f, inner, f->functions[2], (inner - dummy) | 7);
    assert_int_equal(walk(f, inner, f->code[2] + 8, &t, &next), LUAJIT_SEGMENT_C);
    assert_int_equal(t.nr, 2);
    assert_int_equal(t.func[1], f->functions[3]);
    assert_int_equal(t.pc[1], 0);
}

static void pcall_and_dummy(void **state)
{
    (void)state;
    each_mode(check_pcall_and_dummy);
}

/* Links that go up, stay, leave the stack or have no function are not followed. */
static void check_hostile(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t base = f->bottom + 8 * 20;
    const uint64_t links[] = {1,
                              3,
                              8 * 21 | 1,
                              UINT64_MAX,
                              0x80000000 | 2,
                              4,
                              f->code[0] + 4 * 30, /* not behind a call */
                              8 * 3 | 4};
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        put_header(f, base, f->functions[0], links[i]);
        enum luajit_segment_end end = walk(f, base, 0, &t, &next);
        assert_true(end == LUAJIT_SEGMENT_BAD || end == LUAJIT_SEGMENT_UNREAD);
        assert_int_equal(t.nr, 0);
    }
    put_header(f, base, 0x10700, 8 | 1); /* not an object */
    assert_int_equal(walk(f, base, 0, &t, &next), LUAJIT_SEGMENT_BAD);
    assert_int_equal(walk(f, base + 1, 0, &t, &next), LUAJIT_SEGMENT_BAD);
    assert_int_equal(walk(f, f->L.end + 8, 0, &t, &next), LUAJIT_SEGMENT_BAD);
    assert_int_equal(walk(f, 0, 0, &t, &next), LUAJIT_SEGMENT_BAD);
}

static void hostile(void **state)
{
    (void)state;
    each_mode(check_hostile);
}

/* A caller's pc must be in the caller. Otherwise the stack is damaged; but in memory of a later
 * moment, the caller is a function that has gone. */
static void check_replaced_caller(struct fixture *f)
{
    struct taken t;
    struct lua_position next;
    uint64_t slots = (uint64_t)f->l.frame_slots;
    uint64_t first = f->bottom + 8 * 4, second = first + 8 * (slots + 5);
    put_header(f, first, f->functions[2], (first - f->bottom) | 5);
    put_header(f, second, f->functions[1], call(f, 0, 7, 5));
    assert_int_equal(walk(f, second, f->code[1] + 4, &t, &next), LUAJIT_SEGMENT_BAD);
    f->provenance = PROVENANCE_STALE;
    assert_int_equal(walk(f, second, f->code[1] + 4, &t, &next), LUAJIT_SEGMENT_C);
    assert_int_equal(t.nr, 2);
    assert_int_equal(f->r.provenance, PROVENANCE_STALE);
}

static void replaced_caller(void **state)
{
    (void)state;
    each_mode(check_replaced_caller);
}

/* Reads the state in a walk of its own, because each walk sees memory of one instant. */
static bool is_state(struct fixture *f, uint64_t address)
{
    struct luajit_state L;
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    return luajit_read_state(&f->r, address, &L);
}

/* A state with malformed sizes is refused. */
static void check_states(struct fixture *f)
{
    assert_false(is_state(f, STATE + 8));
    assert_false(is_state(f, 0));
    put(f, STATE + (uint64_t)f->l.L_stacksize, SLOTS * 2, 4);
    assert_false(is_state(f, STATE));
    put(f, STATE + (uint64_t)f->l.L_stacksize, UINT32_MAX, 4);
    assert_false(is_state(f, STATE));
    put(f, STATE + (uint64_t)f->l.L_stacksize, SLOTS, 4);
    assert_true(is_state(f, STATE));
    put(f, STATE + (uint64_t)f->l.L_gct, 7, 1);
    assert_false(is_state(f, STATE));
}

/* When a walk reads the same state again, its provenance is that of the first read. */
static void check_known_state(struct fixture *f)
{
    struct luajit_state L;
    f->provenance = PROVENANCE_STALE;
    assert_true(is_state(f, STATE));
    assert_int_equal(f->r.provenance, PROVENANCE_STALE);
    f->r.provenance = PROVENANCE_EXACT;
    assert_true(luajit_read_state(&f->r, STATE, &L));
    assert_int_equal(f->r.provenance, PROVENANCE_STALE);
    assert_int_equal(L.stack, STACK);
}

static void states(void **state)
{
    (void)state;
    each_mode(check_states);
    each_mode(check_known_state);
}

/* A VM is found by its dispatch table, at the place where its main lua_State says that g is. */
static void vms(void **state)
{
    (void)state;
    enum { G = 0x12000, BLOB = 0x500000, ENTRIES = 200 };
    for (int gc64 = 0; gc64 < 2; gc64++) {
        struct fixture *f = make(gc64);
        f->l.g2disp = 0x400;
        f->l.blob_size = 0x4000;
        uint64_t table = G + 0x400, main = G - (uint64_t)f->l.L_used - 0x10;
        for (uint64_t i = 0; i < ENTRIES; i++)
            put(f, table + 8 * i, BLOB + 37 * i, 8);
        memcpy(f->bytes + (main - ORIGIN), f->bytes + (STATE - ORIGIN), (size_t)f->l.L_used);
        const struct memory_range range = {ORIGIN, ORIGIN + SIZE};
        const struct luajit_blob blob = {&f->l, BLOB};
        luajit_vm_list list = {0};
        put(f, table - 8, BLOB + 1, 8); /* a counter that looks like a pointer */
        assert_int_equal(luajit_vms_find(&f->memory, &range, 1, &blob, 1, &list, NULL), 0);
        assert_int_equal(list.nr, 1);
        assert_int_equal(list.at[0].g, G);
        put_ref(f, main + (uint64_t)f->l.L_glref, G + 0x800); /* leads elsewhere */
        list.nr = 0;
        assert_int_equal(luajit_vms_find(&f->memory, &range, 1, &blob, 1, &list, NULL), 0);
        assert_int_equal(list.nr, 0);
        vec_free(&list);
        free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls),         cmocka_unit_test(vararg),
        cmocka_unit_test(continuation),  cmocka_unit_test(pcall_and_dummy),
        cmocka_unit_test(hostile),       cmocka_unit_test(replaced_caller),
        cmocka_unit_test(other_moments), cmocka_unit_test(states),
        cmocka_unit_test(vms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
