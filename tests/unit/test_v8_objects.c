/* SPDX-License-Identifier: GPL-2.0-only */
/* V8's heap objects in a small handmade heap: strings of all kinds, functions, position tables, and
 * the same with damage. Also where callers are in machine code. */
#include "memory_fixture.h"
#include "unwind/managed.h"
#include "unwind/v8/async.h"
#include "unwind/v8/builtin.h"
#include "unwind/v8/compiler.h"
#include "unwind/v8/machine.h"
#include "unwind/v8/names.h"
#include "unwind/v8/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEAP = 0x10000, SIZE = 0x4000, TYPE_MAP = 255, TYPE_BYTES = 190, TYPE_ARRAY = 175 };
enum { MOVED = 5000000 }; /* ns; at this time, `instead` is in place of `moved` */

struct heap {
    uint8_t bytes[SIZE];
    uint64_t used, moved, instead, moved_size;
    /* the only moment at which `instead` is not there; 0: MOVED is the only one at which it is */
    uint64_t only;
    uint64_t watched, readings; /* an address, and how often it was read */
    enum provenance provenance; /* of all reads */
    enum provenance moving;     /* of reads of memory that is written all the time */
    uint64_t maps[512];
    struct v8_layout layout;
    struct memory_layer layer;
    struct memory memory;
    struct v8_reader r;
};

static bool read_heap(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    uint64_t address = q->address;
    size_t size = q->size;
    struct heap *h = context;
    if (h->provenance > answer->provenance)
        answer->provenance = h->provenance;
    if (q->kind == MEMORY_MOVING && h->moving > answer->provenance)
        answer->provenance = h->moving;
    answer->by_one_reading = true;
    h->readings += h->watched - address < size;
    if ((h->only ? q->time != h->only : q->time == MOVED) && address - h->moved < h->moved_size)
        address += h->instead - h->moved;
    return memory_fixture_read(h->bytes, HEAP, SIZE, address, to, size);
}

static bool heap_version(void *context, uint64_t address, uint64_t time, bool later, uint64_t *ret)
{
    const struct heap *h = context;
    (void)address;
    *ret = h->only;
    return later ? h->only > time : h->only < time;
}

static void put(struct heap *h, uint64_t object, int offset, uint64_t value, size_t size)
{
    memcpy(h->bytes + ((object & ~UINT64_C(3)) - HEAP) + offset, &value, size);
}

static uint64_t room(struct heap *h, size_t size)
{
    uint64_t at = HEAP + h->used;
    h->used += (size + 7) & ~(size_t)7;
    assert_true(h->used <= SIZE);
    return at | 1;
}

static uint64_t smi(int32_t value)
{
    return (uint64_t)(uint32_t)value << 32;
}

/* Makes an object of a type, with a map of its own; the map's map is a map whose map is itself. */
static uint64_t make(struct heap *h, unsigned type, size_t size)
{
    if (!h->maps[type]) {
        h->maps[type] = room(h, 16);
        put(h, h->maps[type], 12, type, 2);
        put(h, h->maps[type], 0, h->maps[TYPE_MAP] ? h->maps[TYPE_MAP] : h->maps[type], 8);
    }
    uint64_t object = room(h, size);
    put(h, object, 0, h->maps[type], 8);
    return object;
}

static uint64_t make_text(struct heap *h, const void *characters, size_t nr, bool wide)
{
    uint64_t s = make(h, wide ? 0x20 : 0x28, 16 + nr * (wide ? 2 : 1));
    put(h, s, 12, nr, 4);
    memcpy(h->bytes + ((s & ~UINT64_C(3)) - HEAP) + 16, characters, nr * (wide ? 2 : 1));
    return s;
}

static uint64_t make_string(struct heap *h, unsigned type, size_t nr, uint64_t a, uint64_t b)
{
    uint64_t s = make(h, type, 32);
    put(h, s, 12, nr, 4);
    put(h, s, 16, a, 8);
    put(h, s, 24, b, 8);
    return s;
}

static uint64_t make_table(struct heap *h, const uint8_t *bytes, size_t nr)
{
    uint64_t t = make(h, TYPE_BYTES, 16 + nr);
    put(h, t, 8, smi((int32_t)nr), 8);
    memcpy(h->bytes + ((t & ~UINT64_C(3)) - HEAP) + 16, bytes, nr);
    return t;
}

static int setup(void **state)
{
    struct heap *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    h->layout = (struct v8_layout){.machine = &v8_machine_x86_64,
                                   .map_type = 12,
                                   .array_length = 8,
                                   .array_data = 16,
                                   .string_length = 12,
                                   .nonstring = 128,
                                   .type_map = TYPE_MAP,
                                   .type_bytes = TYPE_BYTES,
                                   .type_trusted_bytes = V8_UNKNOWN,
                                   .type_array = TYPE_ARRAY,
                                   .scope_data = 8,
                                   .scope_first = 3,
                                   .scope_function = 12,
                                   .scope_inferred = 14,
                                   .scope_saved_class = 10,
                                   .scope_receiver = V8_UNKNOWN,
                                   .scope_names_max = 75,
                                   .scope_module = V8_UNKNOWN,
                                   .positions_first = -1};
    h->layer = (struct memory_layer){.read = read_heap, .context = h};
    h->memory = (struct memory){.layers = &h->layer, .nr_layers = 1};
    h->r = (struct v8_reader){.memory = &h->memory, .layout = &h->layout};
    h->used = 64;
    (void)make(h, TYPE_MAP, 16);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void assert_text(struct heap *h, uint64_t string, const char *want)
{
    struct text t = {0};
    assert_true(v8_string(&h->r, string, 1000, &t));
    assert_int_equal(t.size, strlen(want));
    assert_memory_equal(t.at, want, t.size);
    text_free(&t);
}

static void test_strings(void **state)
{
    struct heap *h = *state;
    const uint16_t wide[] = {0x434, 0xd83d, 0xde00, 0xd800, 'x'};
    uint64_t one = make_text(h, "caf\xe9", 4, false);
    uint64_t two = make_text(h, wide, 5, true);
    assert_text(h, one, "caf\xc3\xa9");
    assert_text(h, two, "\xd0\xb4\xf0\x9f\x98\x80\xef\xbf\xbdx");
    uint64_t cons = make_string(h, 0x21, 9, one, two);
    assert_text(h, cons, "caf\xc3\xa9\xd0\xb4\xf0\x9f\x98\x80\xef\xbf\xbdx");
    assert_text(h, make_string(h, 0x25, 9, cons, 0),
                "caf\xc3\xa9\xd0\xb4\xf0\x9f\x98\x80\xef\xbf\xbdx");
    assert_text(h, make_string(h, 0x23, 3, cons, smi(2)), "f\xc3\xa9\xd0\xb4");
    uint64_t data = room(h, 8);
    memcpy(h->bytes + (data - 1 - HEAP), "external", 8);
    assert_text(h, make_string(h, 0x2a, 8, 0, data - 1), "external");
}

static void test_strings_that_lie(void **state)
{
    struct heap *h = *state;
    struct text t = {0};
    uint64_t one = make_text(h, "abc", 3, false);
    /* made of itself; longer than its parts; a slice behind its parent's end; not a string */
    uint64_t self = make_string(h, 0x21, 6, 0, 0);
    put(h, self, 16, self, 8);
    put(h, self, 24, self, 8);
    assert_false(v8_string(&h->r, self, 1000, &t));
    assert_false(v8_string(&h->r, make_string(h, 0x21, 9, one, one), 1000, &t));
    assert_false(v8_string(&h->r, make_string(h, 0x23, 3, one, smi(1)), 1000, &t));
    assert_false(v8_string(&h->r, make_string(h, 0x23, 3, one, smi(-1)), 1000, &t));
    assert_false(v8_string(&h->r, make_string(h, 0x3a, 3, 0, one), 1000, &t));
    assert_false(v8_string(&h->r, make(h, TYPE_BYTES, 32), 1000, &t));
    assert_false(v8_string(&h->r, HEAP + SIZE - 7, 1000, &t));
    uint64_t thin = make_string(h, 0x25, 3, 0, 0);
    put(h, thin, 16, thin, 8);
    assert_false(v8_string(&h->r, thin, 1000, &t));
    text_free(&t);
}

static void test_positions(void **state)
{
    struct heap *h = *state;
    /* zig-zag: offset 3 -> raw 20, offset 10 -> raw 12, as an expression: -(7 + 1) */
    const uint8_t old[] = {8, 40, 15, 15};
    const uint8_t two_bits[] = {4 << 2 | 2, 40, 7 << 2 | 3, 15};
    uint64_t raw, table = make_table(h, old, sizeof(old));
    for (unsigned i = 0; i < 2; i++) {
        assert_false(v8_position_find(&h->r, table, 2, &raw));
        assert_true(v8_position_find(&h->r, table, 3, &raw));
        assert_int_equal(raw, 20);
        assert_int_equal(v8_position_offset(raw), 9);
        assert_int_equal(v8_position_inlining(raw), -1);
        assert_true(v8_position_find(&h->r, table, 9, &raw));
        assert_int_equal(raw, 20);
        assert_true(v8_position_find(&h->r, table, 10, &raw));
        assert_int_equal(raw, 12);
        h->layout.positions_kind = 1;
        table = make_table(h, two_bits, sizeof(two_bits));
    }
    const uint8_t endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    assert_false(v8_position_find(&h->r, make_table(h, endless, sizeof(endless)), 2, &raw));
    const uint8_t far[] = {8, 40, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 40};
    for (h->layout.positions_kind = 0; h->layout.positions_kind < 2; h->layout.positions_kind++)
        assert_false(v8_position_find(&h->r, make_table(h, far, sizeof(far)), INT64_MAX, &raw));
    uint64_t beyond = make_table(h, old, sizeof(old));
    put(h, beyond, 8, smi(1 << 30), 8);
    assert_false(v8_position_find(&h->r, beyond, INT64_MAX, &raw));
}

/* Positions as TurboFan of V8 8.4 and before writes them: a call's position may be behind the call,
 * at the return address, before the position of what comes next. Deoptimization data tells which
 * bytecode called. */
static void test_call_positions(void **state)
{
    struct heap *h = *state;
    /* 3 -> 20, 10 -> 30, 10 -> 40 */
    const uint8_t bytes[] = {8, 40, 14, 20, 0, 20};
    uint64_t raw[2], table = make_table(h, bytes, sizeof(bytes));
    assert_int_equal(v8_position_call(&h->r, table, 2, raw), 0);
    assert_int_equal(v8_position_call(&h->r, table, 3, raw), 1);
    assert_int_equal(raw[0], 20);
    assert_int_equal(v8_position_call(&h->r, table, 9, raw), 1);
    assert_int_equal(raw[0], 20);
    assert_int_equal(v8_position_call(&h->r, table, 10, raw), 2);
    assert_int_equal(raw[0], 30);
    assert_int_equal(raw[1], 20);
    assert_int_equal(v8_position_call(&h->r, table, 11, raw), 1);
    assert_int_equal(raw[0], 40);
    assert_int_equal(v8_position_call(&h->r, smi(1), 10, raw), 0);

    enum { HEAD = 2, PLACES = 3 };
    const int32_t places[PLACES][3] = {{176, 0, -1}, {299, 45, 10}, {7, 90, 33}};
    uint64_t deopt = make(h, TYPE_ARRAY, 16 + 8 * (HEAD + 3 * PLACES));
    put(h, deopt, 8, smi(HEAD + 3 * PLACES), 8);
    for (unsigned i = 0; i < 3 * PLACES; i++)
        put(h, deopt, (int)(16 + 8 * (HEAD + i)), smi(places[i / 3][i % 3]), 8);
    struct v8_code code = {.start = 0x1000, .size = 64, .deopt = deopt};
    int32_t offset = 0;
    h->layout.deopt_entries = V8_UNKNOWN;
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 + 10, &offset));
    h->layout.deopt_entries = HEAD;
    assert_true(v8_turbofan_offset(&h->r, &code, 0x1000 + 10, &offset));
    assert_int_equal(offset, 299);
    assert_true(v8_turbofan_offset(&h->r, &code, 0x1000 + 33, &offset));
    assert_int_equal(offset, 7);
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 + 34, &offset));
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 - 1, &offset));
    /* longer than the memory: it ends where the memory ends */
    put(h, deopt, 8, smi(1 << 30), 8);
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 + 34, &offset));
    put(h, deopt, 8, smi(1), 8);
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 + 10, &offset));
    code.deopt = table;
    assert_false(v8_turbofan_offset(&h->r, &code, 0x1000 + 10, &offset));
}

static void test_scope(void **state)
{
    struct heap *h = *state;
    struct v8_scope s;
    uint64_t name = make_text(h, "f", 1, false), inferred = make_text(h, "o.f", 3, false);
    uint64_t scope = make(h, TYPE_ARRAY, 200);
    put(h, scope, 8, smi(1 << 12 | 1 << 14), 8); /* flags: a name, an inferred name */
    put(h, scope, 24, smi(2), 8);                /* two context variables */
    put(h, scope, 8 + 8 * 7, name, 8);
    put(h, scope, 8 + 8 * 9, inferred, 8);
    put(h, scope, 8 + 8 * 10, smi(17), 8);
    put(h, scope, 8 + 8 * 11, smi(99), 8);
    assert_true(v8_scope_read(&h->r, scope, &s));
    assert_int_equal(s.name, name);
    assert_int_equal(s.inferred, inferred);
    assert_int_equal(s.start, 17);
    assert_int_equal(s.end, 99);
    put(h, scope, 24, smi(-2), 8);
    assert_false(v8_scope_read(&h->r, scope, &s));
    put(h, scope, 24, smi(1 << 19), 8);
    assert_false(v8_scope_read(&h->r, scope, &s));
}

/* Makes a script `a.js`, number 7, with this source. */
static uint64_t make_script(struct heap *h, uint64_t source)
{
    enum { SCRIPT = 180 };
    h->layout.type_script = SCRIPT;
    h->layout.script_source = 8;
    h->layout.script_name = 16;
    h->layout.script_line = 24;
    h->layout.script_column = 32;
    h->layout.script_line_ends = 56;
    h->layout.script_id = 64;
    h->layout.script_url = 112;
    uint64_t script = make(h, SCRIPT, 128);
    put(h, script, 8, source, 8);
    put(h, script, 16, make_text(h, "a.js", 4, false), 8);
    put(h, script, 64, smi(7), 8);
    return script;
}

enum { LENGTH = 200, START = 65, END = 99, CALL = 76 }; /* of the text, and of `middle` in it */

static uint64_t make_source(struct heap *h)
{
    char text[LENGTH + 1];
    (void)snprintf(text, sizeof(text), "%-*s", LENGTH,
                   "function outer(n, x) { return middle(n, x) + 1; }\n"
                   "function middle(n, x) { return victim(x, n) + 1; }\n");
    return make_text(h, text, LENGTH, false);
}

/* Makes the scope info of the function `middle`. */
static uint64_t make_scope(struct heap *h)
{
    uint64_t scope = make(h, TYPE_ARRAY, 80);
    put(h, scope, 8, smi(1 << 12), 8); /* flags: a name */
    put(h, scope, 8 + 8 * 3, make_text(h, "middle", 6, false), 8);
    put(h, scope, 8 + 8 * 5, smi(START), 8);
    put(h, scope, 8 + 8 * 6, smi(END), 8);
    return scope;
}

/* A GC has put the text of evaluated code, in which all brackets close, where a script's source
 * was. Lines must come from the text that has the function, which is read at another moment. */
static void test_moved_source(void **state)
{
    struct heap *h = *state;
    char evaluated[LENGTH + 1];
    (void)snprintf(
        evaluated, sizeof(evaluated), "%-*s", LENGTH,
        "(function anonymous(\n) {\nreturn function victim(x, n) { let s = 0; for (;;) x; "
        "return s }\n})");
    uint64_t source = make_source(h);
    h->instead = make_text(h, evaluated, LENGTH, false);
    h->moved = source & ~UINT64_C(3);
    h->instead &= ~UINT64_C(3);
    h->moved_size = 16 + LENGTH;
    h->layer.has_moments = true;
    h->memory.time = MOVED;
    uint64_t script = make_script(h, source), scope = make_scope(h);
    struct managed_names *managed = managed_names_create();
    struct v8_names *names = v8_names_create(managed);
    const struct v8_sfi sfi = {.sfi = HEAP | 1, .script = script, .scope = scope};
    struct v8_named got;
    struct managed_function function;
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_int_equal(got.line, 2);
    assert_int_equal(got.column, CALL - 50 + 1);
    assert_true(managed_get(managed, got.function, 1, &function));
    assert_int_equal(function.line, 2);
    assert_int_equal(function.column, 16);
    v8_names_free(names);
    managed_names_free(managed);
}

/* A GC was under way when the source's head was read, which then had another meaning, and no other
 * moment is exact: the text gives lines all the same. */
static void test_source_amid_collection(void **state)
{
    struct heap *h = *state;
    uint64_t source = make_source(h), script = make_script(h, source), scope = make_scope(h);
    h->moved = source & ~UINT64_C(3);
    h->instead = room(h, 16) & ~UINT64_C(3);
    h->moved_size = 16;
    put(h, h->instead, 0, h->moved, 8); /* the address it was moved to: untagged */
    h->layer.has_moments = true;
    h->memory.time = MOVED;
    h->provenance = PROVENANCE_STALE;
    struct managed_names *managed = managed_names_create();
    struct v8_names *names = v8_names_create(managed);
    const struct v8_sfi sfi = {.sfi = HEAP | 1, .script = script, .scope = scope};
    struct v8_named got;
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_int_equal(got.line, 2);
    v8_names_free(names);
    managed_names_free(managed);
}

/* A script's name is read at one moment only, far from the sample and at no round distance. Whoever
 * asks first for a function of the script, in whichever turn, finds that moment. */
static void test_name_of_another_moment(void **state)
{
    struct heap *h = *state;
    uint64_t script = make_script(h, make_source(h)), scope = make_scope(h), name;
    memcpy(&name, h->bytes + ((script & ~UINT64_C(3)) - HEAP) + 16, 8);
    h->moved = name & ~UINT64_C(3);
    h->instead = room(h, 32) & ~UINT64_C(3);
    h->moved_size = 24;
    h->only = 3333333;
    h->layer.has_moments = true;
    h->memory.time = 2000000000;
    struct managed_names *managed = managed_names_create();
    struct v8_names *names = v8_names_create(managed);
    const struct v8_sfi sfi = {.sfi = HEAP | 1, .script = script, .scope = scope};
    struct v8_named got;
    struct managed_function function;
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_int_equal(got.function, 0);
    h->layer.version = heap_version;
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_int_equal(got.function, 0); /* once per turn */
    assert_int_equal(v8_names_function(names, &h->r, 1, 2, &sfi, CALL, &got), 0);
    assert_true(managed_get(managed, got.function, 2, &function));
    assert_string_equal(function.file, "a.js");
    assert_int_equal(got.line, 2);
    v8_names_free(names);
    managed_names_free(managed);
}

/* A namer that only reads for others, in a running process, reads a source once, though nothing in
 * it is proven; but it reads again and again when the script is at another place each time. */
static void test_source_for_others(void **state)
{
    enum { MOVES = 6 };
    struct heap *h = *state;
    uint64_t source = make_source(h), scope = make_scope(h);
    struct managed_names *managed = managed_names_create();
    struct v8_names *names = v8_names_create(managed);
    struct v8_named got;
    v8_names_only_read(names);
    h->provenance = PROVENANCE_STALE;
    h->watched = (source & ~UINT64_C(3)) + 16 + CALL;
    for (unsigned i = 0; i < MOVES; i++) {
        const struct v8_sfi sfi = {
            .sfi = HEAP | 1, .script = make_script(h, source), .scope = scope};
        h->readings = 0;
        assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
        assert_int_not_equal(got.function, 0);
        assert_int_equal(got.line, 0);
        if (i + 1 < MOVES)
            assert_in_range(h->readings, 1, i < 3 ? 1 : 100);
        else
            assert_in_range(h->readings, 16, 100);
    }
    v8_names_free(names);
    managed_names_free(managed);
}

/* Makes the table behind code of these kinds, for two calls: they return to 10 and 20, or to 50 and
 * 57 when the code is no longer used. */
static struct v8_code make_safepoints(struct heap *h, enum v8_code_kind kind, uint32_t nr,
                                      unsigned pc_size)
{
    enum { CODE = 60, ROOM = 128, BEHIND = 4, PLACE_SIZE = 1 };
    static const uint8_t of_maglev[] = {10, 0, 4, 51, 0, 9, 20, 0, 0, 58, 0, 9};
    static const uint8_t of_turbofan[] = {10, 0, 4, 51, 0, 20, 0, 0, 58, 0};
    const bool maglev = kind == V8_CODE_MAGLEV;
    uint64_t code = room(h, ROOM), table = code + CODE + BEHIND;
    h->layout.safepoints = BEHIND;
    h->layout.safepoints_first = 12;
    put(h, table, 0, nr, 4);
    put(h, table, 4, 1 | pc_size << 4 | PLACE_SIZE << 7, 4);
    memcpy(h->bytes + ((table & ~UINT64_C(3)) - HEAP) + (maglev ? 12 : 8),
           maglev ? of_maglev : of_turbofan, maglev ? sizeof(of_maglev) : sizeof(of_turbofan));
    return (struct v8_code){.start = code & ~UINT64_C(3), .size = CODE, .kind = kind};
}

static void test_safepoints(void **state)
{
    struct heap *h = *state;
    struct v8_safepoint s;
    for (unsigned i = 0; i < 2; i++) {
        const bool maglev = i;
        struct v8_code c = make_safepoints(h, maglev ? V8_CODE_MAGLEV : V8_CODE_TURBOFAN, 2, 2);
        assert_int_equal(v8_safepoint_find(&h->r, &c, c.start + 10, &s), 1);
        assert_int_equal(s.place, 3);
        assert_int_equal(v8_safepoint_find(&h->r, &c, c.start + 57, &s), 1);
        assert_int_equal(s.pc, 20);
        assert_int_equal(s.place, -1);
        assert_int_equal(v8_safepoint_find(&h->r, &c, c.start + 11, &s), 0);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 10), c.start + 10);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 11), c.start + 11);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 50), c.start + 10);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 57), c.start + 20);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 58), c.start + 58);
        assert_int_equal(v8_safepoints_end(&h->r, &c), c.start + 64 + (maglev ? 12 + 12 : 8 + 10));
    }
}

/* The same in the form of V8 7.8 to 9.4; `inside`: the table is inside the code. */
static struct v8_code make_wide_safepoints(struct heap *h, bool inside, uint32_t first_pc,
                                           uint32_t nr, uint32_t live_size)
{
    enum { CODE = 64, ROOM = 160, OBJECT = 56, PLACE = 48 };
    const uint32_t table[] = {nr, live_size, first_pc, 3, 50, 20, UINT32_MAX, 57};
    uint64_t object = room(h, OBJECT), code = room(h, ROOM) & ~UINT64_C(3);
    h->layout.safepoints_form = 1;
    h->layout.code_safepoints = inside ? PLACE : V8_UNKNOWN;
    put(h, object, PLACE, CODE, 4);
    memcpy(h->bytes + (code + CODE - HEAP), table, sizeof(table));
    return (struct v8_code){.code = object,
                            .start = code,
                            .size = inside ? CODE + sizeof(table) + 2 * 3 : CODE,
                            .kind = V8_CODE_TURBOFAN};
}

static void test_wide_safepoints(void **state)
{
    struct heap *h = *state;
    struct v8_safepoint s;
    for (unsigned inside = 0; inside < 2; inside++) {
        struct v8_code c = make_wide_safepoints(h, inside, 10, 2, 3);
        assert_int_equal(v8_safepoint_find(&h->r, &c, c.start + 57, &s), 1);
        assert_int_equal(s.pc, 20);
        assert_int_equal(s.place, -1);
        assert_int_equal(v8_safepoint_find(&h->r, &c, c.start + 11, &s), 0);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 10), c.start + 10);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 50), c.start + 10);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 57), c.start + 20);
        assert_int_equal(v8_code_call(&h->r, &c, c.start + 58), c.start + 58);
        assert_int_equal(v8_safepoints_end(&h->r, &c), c.start + 64 + 8 + 2 * 12 + 2 * 3);
    }
    struct v8_code all = make_wide_safepoints(h, true, UINT32_MAX, 1, 3); /* one for every pc */
    assert_int_equal(v8_code_call(&h->r, &all, all.start + 50), all.start + 50);
}

static void test_wide_safepoints_that_lie(void **state)
{
    struct heap *h = *state;
    struct v8_code many = make_wide_safepoints(h, false, 10, UINT32_MAX, 3);
    assert_int_equal(v8_code_call(&h->r, &many, many.start + 50), 0);
    struct v8_code wide = make_wide_safepoints(h, false, 10, 2, UINT32_MAX);
    assert_int_equal(v8_code_call(&h->r, &wide, wide.start + 50), 0);
    struct v8_code beyond = make_wide_safepoints(h, true, 10, 2, 3);
    beyond.size = 60; /* the table is behind this size */
    assert_int_equal(v8_code_call(&h->r, &beyond, beyond.start + 50), 0);
    struct v8_code other = make_wide_safepoints(h, false, 10, 2, 3);
    other.kind = V8_CODE_BASELINE;
    assert_int_equal(v8_code_call(&h->r, &other, other.start + 50), 0);
    assert_int_equal(v8_safepoints_end(&h->r, &other), other.start + other.size);
}

static void test_safepoints_that_lie(void **state)
{
    struct heap *h = *state;
    struct v8_safepoint s;
    struct v8_code wide = make_safepoints(h, V8_CODE_TURBOFAN, 2, 7);
    assert_int_equal(v8_safepoint_find(&h->r, &wide, wide.start + 10, &s), -1);
    assert_int_equal(v8_code_call(&h->r, &wide, wide.start + 10), 0);
    struct v8_code many = make_safepoints(h, V8_CODE_TURBOFAN, UINT32_MAX, 2);
    assert_int_equal(v8_code_call(&h->r, &many, many.start + 50), 0);
    many = make_safepoints(h, V8_CODE_MAGLEV, 1 << 16, 2); /* beyond what can be read */
    assert_int_equal(v8_code_call(&h->r, &many, many.start + 50), 0);
    struct v8_code other = make_safepoints(h, V8_CODE_BASELINE, 2, 2);
    assert_int_equal(v8_safepoint_find(&h->r, &other, other.start + 10, &s), -1);
    assert_int_equal(v8_safepoints_end(&h->r, &other), other.start + other.size);
}

/* The name of a script cannot be read when it is read again, however often: the script has its name
 * once the name can be read. */
static void test_name_that_is_lost(void **state)
{
    struct heap *h = *state;
    uint64_t source = make_source(h), script = make_script(h, source), scope = make_scope(h), name;
    struct managed_names *managed = managed_names_create();
    struct v8_names *names = v8_names_create(managed);
    const struct v8_sfi sfi = {.sfi = HEAP | 1, .script = script, .scope = scope};
    const struct v8_wasm wasm = {.script = script};
    struct v8_named got;
    struct managed_function function;
    v8_names_only_read(names);
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_true(v8_slot(&h->r, script, 16, &name));
    put(h, script, 16, HEAP + 8 * SIZE + 1, 8);
    v8_names_again(names);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(v8_names_wasm(names, &h->r, 1, 1, &wasm, &got), 0);
        assert_int_equal(got.function, 0);
        assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
        assert_int_equal(got.function, 0);
    }
    put(h, script, 16, name, 8);
    assert_int_equal(v8_names_function(names, &h->r, 1, 1, &sfi, CALL, &got), 0);
    assert_true(managed_get(managed, got.function, 1, &function));
    assert_string_equal(function.file, "a.js");
    v8_names_free(names);
    managed_names_free(managed);
}

/* An array that claims to be longer than any: its elements end where memory ends. */
static void test_array_that_lies(void **state)
{
    struct heap *h = *state;
    uint64_t array = make(h, TYPE_ARRAY, 32), element;
    put(h, array, 8, smi(INT32_MAX), 8);
    put(h, array, 16, smi(11), 8);
    put(h, array, 24, smi(12), 8);
    assert_true(v8_array_element(&h->r, array, 1, &element));
    assert_int_equal(element, smi(12));
    assert_false(v8_array_element(&h->r, array, 1 << 29, &element)); /* 2^32 bytes ahead */
    assert_false(v8_array_element(&h->r, array, INT32_MAX, &element));
    assert_false(v8_array_element(&h->r, array, -1, &element));
}

/* With any bytes, each function ends and reads only what exists (the sanitizers check). */
static void test_random(void **state)
{
    struct heap *h = *state;
    uint64_t x = 88172645463325252u, raw;
    struct text t = {0};
    struct v8_scope scope;
    struct v8_code code;
    h->layout.type_stream = 3;
    h->layout.type_code = 4;
    h->layout.stream_code = 8;
    h->layout.stream_first = 32;
    h->layout.code_first = V8_UNKNOWN;
    for (unsigned round = 0; round < 2000; round++) {
        for (size_t i = 64; i + 8 <= SIZE; i += 8) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            /* half of the words are pointers into the heap, types are small */
            uint64_t word =
                x & 1 ? HEAP + ((x >> 8 & (SIZE - 1)) & ~UINT64_C(7)) + 1 : (x >> 8) % 256 << 32;
            memcpy(h->bytes + i, &word, 8);
        }
        for (uint64_t object = HEAP + 65; object < HEAP + SIZE; object += 1024) {
            t.size = 0;
            (void)v8_string(&h->r, object, 1000, &t);
            (void)v8_scope_read(&h->r, object, &scope);
            (void)v8_position_find(&h->r, object, 1000, &raw);
            (void)v8_code_find(&h->r, object + 40, HEAP, &code);
        }
    }
    text_free(&t);
}

/* ---- machine code -------------------------------------------------------------------------- */

static void assert_state(const uint8_t *code, size_t size, size_t at, enum v8_state_kind kind,
                         int offset)
{
    struct v8_state s = v8_code_state(&v8_machine_x86_64, code, size, at);
    assert_int_equal(s.kind, kind);
    if (kind != V8_STATE_UNKNOWN && kind != V8_STATE_FRAMED)
        assert_int_equal(s.offset, offset);
    struct v8_code_states *known = v8_code_states_create();
    for (int i = 0; i < 2; i++) { /* followed, then known */
        struct v8_state again = v8_code_states_get(known, &v8_machine_x86_64, code, size, at);
        assert_int_equal(again.kind, s.kind);
        assert_int_equal(again.offset, s.offset);
    }
    v8_code_states_free(known);
    /* A result from a few bytes must be that of following the code; there need not be one. */
    size_t before = at < size ? at : size;
    before = before < V8_BYTES_BEFORE ? before : V8_BYTES_BEFORE;
    if (v8_machine_x86_64.has_frame(code, size, at, code + at - before, before))
        assert_true(s.kind == V8_STATE_FRAMED || (at < size && s.kind == V8_STATE_UNKNOWN));
}

static void test_code(void **state)
{
    (void)state;
    const uint8_t framed[] = {
        0x55,                   /*  0 push rbp */
        0x48, 0x89, 0xe5,       /*  1 mov rbp, rsp */
        0x56,                   /*  4 push rsi */
        0x74, 0x03,             /*  5 je 10 */
        0x48, 0xff, 0xc0,       /*  7 inc rax */
        0x48, 0x8b, 0xe5,       /* 10 mov rsp, rbp */
        0x5d,                   /* 13 pop rbp */
        0x59,                   /* 14 pop rcx */
        0x48, 0x83, 0xc4, 0x10, /* 15 add rsp, 16 */
        0x51,                   /* 19 push rcx */
        0xc3,                   /* 20 ret */
        0x90,                   /* 21 never reached */
    };
    assert_state(framed, sizeof(framed), 0, V8_STATE_SP, 8);
    assert_state(framed, sizeof(framed), 1, V8_STATE_PUSHED, 16);
    assert_state(framed, sizeof(framed), 4, V8_STATE_FRAMED, 0);
    assert_state(framed, sizeof(framed), 10, V8_STATE_FRAMED, 0);
    assert_state(framed, sizeof(framed), 14, V8_STATE_SP, 8);
    assert_state(framed, sizeof(framed), 15, V8_STATE_SP, 0);
    assert_int_equal(v8_code_state(&v8_machine_x86_64, framed, sizeof(framed), 15).return_register,
                     2);
    assert_state(framed, sizeof(framed), 21, V8_STATE_UNKNOWN, 0);
    assert_state(framed, sizeof(framed), sizeof(framed), V8_STATE_UNKNOWN, 0);
    for (size_t at = 0; at < sizeof(framed); at++)
        assert_state(framed, sizeof(framed), at,
                     v8_code_state(&v8_machine_x86_64, framed, sizeof(framed), at).kind,
                     v8_code_state(&v8_machine_x86_64, framed, sizeof(framed), at).offset);
    assert_true(v8_machine_x86_64.has_frame(framed, sizeof(framed), 10, framed, 10));
    assert_false(v8_machine_x86_64.has_frame(framed, sizeof(framed), 13, framed, 13));
    assert_false(v8_machine_x86_64.has_frame(framed, sizeof(framed), 3, framed, 3));
    assert_false(v8_machine_x86_64.has_frame(framed + 1, sizeof(framed) - 1, 9, framed + 1, 9));
    const uint8_t pushes[] = {0x50, 0x48, 0x83, 0xec, 0x18, 0x90,
                              0x48, 0x83, 0xc4, 0x18, 0x58, 0xc3};
    assert_state(pushes, sizeof(pushes), 1, V8_STATE_SP, 16);
    assert_state(pushes, sizeof(pushes), 5, V8_STATE_SP, 40);
    assert_state(pushes, sizeof(pushes), 10, V8_STATE_SP, 16);
    assert_state(pushes, sizeof(pushes), 11, V8_STATE_SP, 8);
}

/* ---- what the compilers did ------------------------------------------------------------------ */

/* Relocation information of a function of two lines, as TurboFan of Node 20 wrote it (V8 11.3). Its
 * --trace-deopt says of the exit at 384: wrong map; the place in the source was 191. */
static const uint8_t relocations[] = {
    0x00, 0x00, 0x00, 0x06, 0x00, 0x47, 0x2b, 0x00, 0x43, 0xff, 0xff, 0xff, 0xff, 0x00, 0x3f,
    0x00, 0x00, 0x00, 0xa4, 0x04, 0x3b, 0x00, 0x00, 0x00, 0x05, 0x00, 0x47, 0x2b, 0x00, 0x43,
    0xff, 0xff, 0xff, 0xff, 0x00, 0x3f, 0x00, 0x00, 0x00, 0xa4, 0x04, 0x3b, 0x00, 0x00, 0x00,
    0x04, 0x00, 0x47, 0x2b, 0x00, 0x43, 0xff, 0xff, 0xff, 0xff, 0x00, 0x3f, 0x00, 0x00, 0x00,
    0x96, 0x04, 0x3b, 0x00, 0x00, 0x00, 0x03, 0x00, 0x47, 0x25, 0x00, 0x43, 0xff, 0xff, 0xff,
    0xff, 0x00, 0x3f, 0x00, 0x00, 0x00, 0xbf, 0x04, 0x3b, 0x00, 0x00, 0x00, 0x02, 0x00, 0x47,
    0x31, 0x00, 0x43, 0xff, 0xff, 0xff, 0xff, 0x00, 0x3f, 0x00, 0x00, 0x00, 0xbf, 0x04, 0x3b,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x47, 0x31, 0x00, 0x43, 0xff, 0xff, 0xff, 0xff, 0x00, 0x3f,
    0x00, 0x00, 0x00, 0xbf, 0x04, 0x3b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x47, 0x26, 0x00, 0x43,
    0xff, 0xff, 0xff, 0xff, 0x00, 0x3f, 0x00, 0x00, 0x00, 0xbf, 0x12, 0x3b, 0x44, 0x09, 0x2f,
    0xa0, 0x28, 0x09, 0x2f, 0x6c, 0x18, 0x2f, 0xa0, 0x02, 0x53, 0xb0, 0x0a, 0x2f,
};

enum {
    TYPE_CODE = 245,
    TYPE_SFI = 262,
    TYPE_BYTECODE = 191,
    CODE_START = 0x7000000,
    CODE_SIZE = 404
};
enum {
    AT_RELOCATIONS = 8,
    AT_DEOPT = 16,
    AT_POSITIONS = 24,
    AT_START = 40,
    AT_FLAGS = 48,
    AT_MARK = 52,
    AT_SIZE = 56
};
enum { EXIT_MAP = 384, PLACE_MAP = 191, EXIT_LAST = 404 };

/* Makes a Code object with these relocations. */
static uint64_t make_code(struct heap *h, uint64_t sfi, uint64_t table)
{
    struct v8_layout *l = &h->layout;
    l->verified = true;
    l->column = 4;
    l->type_code = TYPE_CODE;
    l->type_sfi = TYPE_SFI;
    l->type_bytecode = TYPE_BYTECODE;
    l->type_wrapper = l->code_first = l->code_container = l->stream_relocations = V8_UNKNOWN;
    l->type_weak_array = l->type_protected_array = V8_UNKNOWN;
    l->code_relocations = AT_RELOCATIONS;
    l->code_deopt = AT_DEOPT;
    l->code_positions = AT_POSITIONS;
    l->code_start = AT_START;
    l->code_flags = AT_FLAGS;
    l->code_size = AT_SIZE;
    l->code_marked = AT_MARK;
    l->code_marked_bit = 16;
    l->kind_mask = 15;
    l->kind_turbofan = 13;
    l->relocation_deopt = 14;
    l->relocation_jump = 20;
    l->deopt_id = 5;
    l->deopt_sfi = 6;
    l->deopt_inlining = 7;
    l->sfi_flags = 48;
    l->sfi_disabled = 19;
    uint64_t deopt = make(h, TYPE_ARRAY, 16 + 8 * 12), code = make(h, TYPE_CODE, 96);
    put(h, deopt, 8, smi(12), 8);
    put(h, deopt, 16 + 8 * l->deopt_id, smi(3), 8);
    put(h, deopt, 16 + 8 * l->deopt_sfi, sfi, 8);
    put(h, code, AT_RELOCATIONS, table, 8);
    put(h, code, AT_DEOPT, deopt, 8);
    put(h, code, AT_START, CODE_START, 8);
    put(h, code, AT_FLAGS, 13, 4);
    put(h, code, AT_SIZE, CODE_SIZE, 4);
    return code;
}

static struct v8_code read_made(struct heap *h, uint64_t code)
{
    struct v8_code c;
    assert_true(v8_code_read(&h->r, code, &c));
    assert_int_equal(c.kind, V8_CODE_TURBOFAN);
    return c;
}

static void test_exits(void **state)
{
    struct heap *h = *state;
    uint64_t sfi = make(h, TYPE_SFI, 64);
    const uint64_t table = make_table(h, relocations, sizeof(relocations));
    struct v8_code c = read_made(h, make_code(h, sfi, table));
    struct v8_exit e;
    assert_true(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP, &e));
    assert_string_equal(v8_deopt_text(e.reason), "wrong map");
    assert_int_equal(e.sfi, sfi);
    assert_int_equal(e.offset, PLACE_MAP);
    /* exits are 4 bytes long, the first ends at 380 */
    const char *const reasons[] = {"Smi", "wrong map", "wrong map", "overflow"};
    for (unsigned i = 0; i < 4; i++) {
        assert_true(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP - 4 + 4 * i, &e));
        assert_string_equal(v8_deopt_text(e.reason), reasons[i]);
    }
    assert_false(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP - 8, &e));
    assert_false(v8_exit_find(&h->r, &c, CODE_START - 4, &e));
    assert_false(v8_exit_find(&h->r, &c, CODE_START + CODE_SIZE + 1, &e));
    h->layout.relocation_behind = 1; /* as in V8 14.6: then these are the exits before */
    assert_true(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP - 8, &e));
    assert_string_equal(v8_deopt_text(e.reason), "Smi");
    assert_false(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP + 1, &e));
    h->layout.verified = false;
    assert_false(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP - 8, &e));
}

/* Any bytes: an answer or none, and reasons that have words. */
static void test_exits_that_lie(void **state)
{
    struct heap *h = *state;
    uint8_t bytes[sizeof(relocations)];
    uint64_t random = 1;
    uint64_t table = make_table(h, relocations, sizeof(relocations));
    struct v8_code c = read_made(h, make_code(h, make(h, TYPE_SFI, 64), table));
    struct v8_exit e;
    for (int size = -1; size < (int)sizeof(relocations); size++) { /* the end is what is missing */
        put(h, table, 8, smi(size), 8);
        (void)v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP, &e);
    }
    put(h, table, 8, smi(1 << 30), 8);
    assert_false(v8_exit_find(&h->r, &c, CODE_START + EXIT_MAP, &e));
    put(h, table, 8, smi(sizeof(relocations)), 8);
    for (unsigned i = 0; i < 20000; i++) {
        for (size_t k = 0; k < sizeof(bytes); k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = i % 4 ? relocations[k] : (uint8_t)(random >> 33);
        }
        bytes[(random >> 40) % sizeof(bytes)] = (uint8_t)(random >> 33);
        memcpy(h->bytes + (table - 1 - HEAP) + 16, bytes, sizeof(bytes));
        if (v8_exit_find(&h->r, &c, CODE_START + random % (CODE_SIZE + 8), &e))
            assert_true(e.reason == V8_REASON_NONE || v8_deopt_text(e.reason));
    }
}

/* Code that is deoptimized, code that goes away, a function that V8 does not optimize. */
static void test_compiler(void **state)
{
    struct heap *h = *state;
    uint64_t bytecode = make(h, TYPE_BYTECODE, 64);
    const struct v8_sfi function = {.sfi = make(h, TYPE_SFI, 64), .bytecode = bytecode};
    const uint64_t sfi = function.sfi;
    uint64_t code = make_code(h, sfi, make_table(h, relocations, sizeof(relocations)));
    struct v8_compiler *c = v8_compiler_create(&h->layout);
    struct v8_code read = read_made(h, code);
    size_t nr;
    assert_non_null(c);
    put(h, bytecode, 8, smi(100), 8);
    v8_compiler_note_function(c, &h->r, &function);
    assert_int_equal(v8_compiler_note_code(c, &h->r, &read, 0, false, 7), 0);
    assert_int_equal(v8_compiler_note_code(c, &h->r, &read, 0, false, 8), 0);
    v8_compiler_read(c, &h->memory, 9, true);
    const struct v8_fact *f = v8_compiler_news(c, &nr);
    assert_int_equal(nr, 2);
    assert_int_equal(f[0].kind, V8_FACT_CODE);
    assert_int_equal(f[0].sfi, sfi);
    assert_int_equal(f[0].id, 3);
    assert_int_equal(f[0].flags, V8_FACT_CAN_TELL);
    assert_int_equal(f[1].kind, V8_FACT_FUNCTION);
    assert_int_equal(f[1].offset, 100);
    assert_int_equal(f[1].reason, V8_REASON_NONE);
    v8_compiler_told(c);

    put(h, code, AT_MARK, 1 << 16, 4);
    put(h, sfi, 48, 12u << 19, 4); /* kNeverOptimize of V8 11.3 */
    v8_compiler_read(c, &h->memory, 10, true);
    v8_compiler_read(c, &h->memory, 11, true); /* nothing new */
    f = v8_compiler_news(c, &nr);
    assert_int_equal(nr, 2);
    assert_int_equal(f[0].flags, V8_FACT_CAN_TELL | V8_FACT_MARKED);
    assert_int_equal(f[0].time, 10);
    assert_string_equal(v8_disabled_text(f[1].reason), "Optimization is always disabled");
    v8_compiler_told(c);

    assert_int_equal(v8_compiler_note_code(c, &h->r, &read, CODE_START + EXIT_MAP, false, 12), sfi);
    v8_compiler_note_resumed(c, &h->r, &function, 5, 13);
    f = v8_compiler_news(c, &nr);
    assert_int_equal(nr, 2);
    assert_int_equal(f[0].kind, V8_FACT_EXIT);
    assert_int_equal(f[0].flags, V8_FACT_PLACED);
    assert_string_equal(v8_deopt_text(f[0].reason), "wrong map");
    assert_int_equal(f[1].kind, V8_FACT_RESUMED);

    /* another file: what lives is told again; other code at the same place is not that code */
    v8_compiler_tell_again(c);
    (void)v8_compiler_news(c, &nr);
    assert_int_equal(nr, 1);
    v8_compiler_free(c);
}

static void test_compiler_code_that_is_gone(void **state)
{
    struct heap *h = *state;
    uint64_t sfi = make(h, TYPE_SFI, 64);
    uint64_t code = make_code(h, sfi, make_table(h, relocations, sizeof(relocations)));
    struct v8_compiler *c = v8_compiler_create(&h->layout);
    struct v8_code read = read_made(h, code);
    size_t nr;
    assert_non_null(c);
    (void)v8_compiler_note_code(c, &h->r, &read, 0, false, 7);
    v8_compiler_told(c);
    put(h, code, AT_SIZE, CODE_SIZE + 4, 4); /* other code is at the address, */
    put(h, code, AT_MARK, 1 << 16, 4);       /* which was deoptimized */
    v8_compiler_read(c, &h->memory, 8, true);
    put(h, code, AT_SIZE, CODE_SIZE, 4);
    v8_compiler_read(c, &h->memory, 9, true);
    (void)v8_compiler_news(c, &nr);
    assert_int_equal(nr, 0);
    v8_compiler_free(c);
}

/* ---- functions that await -------------------------------------------------------------------- */

enum {
    ASYNC_FUNCTION = 300, /* types */
    ASYNC_CONTEXT,
    ASYNC_GENERATOR,
    ASYNC_GENERATOR_OF_MANY,
    ASYNC_REQUEST,
    ASYNC_PROMISE,
    ASYNC_CAPABILITY,
    ASYNC_REACTION,
    ASYNC_SFI,
    ASYNC_BYTECODE,
    ASYNC_UNDEFINED,
    SHARED = 32,
    CONTEXT_OF = 40,
    NEXT = 16,
    AWAITED_AT = 7, /* offset of a bytecode */
    BYTECODES = 64, /* its first byte in the object */
    FULFILLED = 1,
};

static void lay_out_async(struct heap *h)
{
    struct v8_layout *l = &h->layout;
    l->type_function = l->type_function_last = ASYNC_FUNCTION;
    l->type_async_function = ASYNC_GENERATOR;
    l->type_async_generator = ASYNC_GENERATOR_OF_MANY;
    l->type_async_request = ASYNC_REQUEST;
    l->type_promise = ASYNC_PROMISE;
    l->type_capability = ASYNC_CAPABILITY;
    l->type_reaction = ASYNC_REACTION;
    l->type_sfi = ASYNC_SFI;
    l->type_bytecode = ASYNC_BYTECODE;
    l->fn_shared = SHARED;
    l->fn_context = CONTEXT_OF;
    l->reaction_next = NEXT;
    l->bytecode_data = BYTECODES;
    l->sfi_data = 8;
    l->sfi_untrusted = l->type_script = l->type_scope = l->type_wrapper = V8_UNKNOWN;
    l->sfi_name = 24;
    l->sfi_script = 40;
}

/* Makes a function of the program (`written`), or a builtin. */
static uint64_t make_function(struct heap *h, bool written, uint64_t context)
{
    uint64_t f = make(h, ASYNC_FUNCTION, 56), sfi = make(h, ASYNC_SFI, 64);
    put(h, f, SHARED, sfi, 8);
    put(h, f, CONTEXT_OF, context, 8);
    put(h, sfi, 8, written ? make(h, ASYNC_BYTECODE, 64) : smi(5), 8);
    put(h, sfi, 40, make(h, ASYNC_UNDEFINED, 8), 8); /* it has no script */
    return f;
}

static uint64_t make_context(struct heap *h, uint64_t first, uint64_t second)
{
    uint64_t c = make(h, ASYNC_CONTEXT, 48);
    put(h, c, 32, first, 8);
    put(h, c, 40, second, 8);
    return c;
}

/* Makes a promise to which nothing reacts. */
static uint64_t make_promise(struct heap *h)
{
    return make(h, ASYNC_PROMISE, 48);
}

/* Makes the reaction to a promise: `handler` is called, and settles `settles`. */
static uint64_t react(struct heap *h, uint64_t promise, uint64_t handler, uint64_t settles)
{
    uint64_t r = make(h, ASYNC_REACTION, 56);
    put(h, promise, 24, r, 8);
    put(h, r, NEXT + 16, handler, 8);
    put(h, r, NEXT + 24, settles, 8);
    return r;
}

/* Makes a suspended async function; `promise`: its own. */
static uint64_t make_awaiting(struct heap *h, uint64_t promise)
{
    uint64_t g = make(h, ASYNC_GENERATOR, 88);
    put(h, g, 24, make_function(h, true, make_context(h, 0, 0)), 8);
    put(h, g, 48, smi(AWAITED_AT + BYTECODES - 1), 8);
    put(h, g, 80, promise, 8);
    return g;
}

static uint64_t function_of(struct heap *h, uint64_t generator)
{
    uint64_t f = 0, sfi = 0;
    assert_true(v8_slot(&h->r, generator, 24, &f) && v8_slot(&h->r, f, SHARED, &sfi));
    return sfi;
}

/* Lets the generator await the promise. */
static uint64_t await_promise(struct heap *h, uint64_t promise, uint64_t generator)
{
    return react(h, promise, make_function(h, false, make_context(h, generator, 0)), smi(0));
}

static enum v8_await next(struct heap *h, uint64_t *promise, struct v8_awaiter *ret)
{
    h->r.provenance = PROVENANCE_EXACT;
    return v8_await_next(&h->r, promise, ret);
}

/* An async function is awaited by one that is awaited through a callback of then(), the function
 * that resolves a promise, and Promise.all(), by a generator; nobody awaits that. */
static void test_await_chain(void **state)
{
    struct heap *h = *state;
    struct v8_awaiter a;
    lay_out_async(h);
    uint64_t ran = make_promise(h), of_first = make_promise(h), then = make_promise(h);
    uint64_t resolved = make_promise(h), all = make_promise(h), at, resumed;
    uint64_t first = make_awaiting(h, of_first), many = make_awaiting(h, 0);
    uint64_t capability = make(h, ASYNC_CAPABILITY, 32), request = make(h, ASYNC_REQUEST, 48);
    resumed = make_context(h, make_awaiting(h, ran), 0);
    await_promise(h, ran, first);
    react(h, of_first, make_function(h, true, make_context(h, first, 0)), then);
    react(h, then, make_function(h, false, make_context(h, resolved, 0)), smi(0));
    put(h, capability, 8, all, 8);
    react(h, resolved, make_function(h, false, make_context(h, smi(2), capability)), smi(0));
    (void)make(h, ASYNC_GENERATOR_OF_MANY, 8);
    put(h, many, 0, h->maps[ASYNC_GENERATOR_OF_MANY], 8);
    put(h, many, 80, request, 8);
    put(h, request, 32, make_promise(h), 8);
    await_promise(h, all, many);

    assert_int_equal(v8_await_resumed(&h->r, resumed, &at), V8_AWAIT_FOUND);
    assert_int_equal(at, ran);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_FOUND);
    assert_int_equal(a.sfi.sfi, function_of(h, first));
    assert_int_equal(a.offset, AWAITED_AT);
    assert_int_equal(at, of_first);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_FOUND);
    assert_int_equal(a.sfi.sfi, function_of(h, many));
    assert_int_equal(next(h, &at, &a), V8_AWAIT_END);

    /* a callback settles a promise, or what has its capability */
    assert_int_equal(v8_await_reaction(&h->r, then, &at), V8_AWAIT_FOUND);
    assert_int_equal(at, then);
    assert_int_equal(v8_await_reaction(&h->r, capability, &at), V8_AWAIT_FOUND);
    assert_int_equal(at, all);
    assert_int_equal(v8_await_reaction(&h->r, first, &at), V8_AWAIT_END);
}

/* Chains that end, and memory of another moment. */
static void test_await_chain_that_ends(void **state)
{
    struct heap *h = *state;
    struct v8_awaiter a;
    lay_out_async(h);
    uint64_t ran = make_promise(h), at = ran;
    uint64_t waits = make_awaiting(h, make_promise(h));
    uint64_t reaction = await_promise(h, ran, waits);
    put(h, reaction, NEXT, await_promise(h, make_promise(h), waits), 8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_END); /* two wait */
    put(h, reaction, NEXT, smi(0), 8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_FOUND);

    put(h, waits, 64, smi(-2), 8); /* it runs, so it does not wait */
    at = ran;
    assert_int_equal(next(h, &at, &a), V8_AWAIT_UNREAD);
    put(h, waits, 64, smi(0), 8);
    put(h, ran, 32, smi(FULFILLED), 8); /* what runs has settled nothing yet */
    assert_int_equal(next(h, &at, &a), V8_AWAIT_UNREAD);
    put(h, ran, 32, smi(0), 8);
    put(h, ran, 24, reaction + 8, 8); /* no object */
    assert_int_equal(next(h, &at, &a), V8_AWAIT_UNREAD);
    put(h, ran, 24, reaction, 8);

    /* what cannot be read may lead on: a handler, or what its context has */
    put(h, reaction, NEXT + 16, (HEAP + SIZE) | 1, 8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_UNREAD);
    put(h, reaction, NEXT + 16, make_function(h, false, make_context(h, (HEAP + SIZE) | 1, smi(0))),
        8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_UNREAD);

    /* a function of the program may have any object in its context; it settles nothing */
    put(h, reaction, NEXT + 16, make_function(h, true, make_context(h, waits, 0)), 8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_END);
    /* a promise further on that is settled is just that; a circle has an end */
    uint64_t other = make_promise(h);
    put(h, reaction, NEXT + 24, other, 8);
    put(h, other, 32, smi(FULFILLED), 8);
    assert_int_equal(next(h, &at, &a), V8_AWAIT_END);
    put(h, reaction, NEXT + 24, ran, 8);
    at = ran;
    assert_int_equal(next(h, &at, &a), V8_AWAIT_END);
}

/* Objects that were read at another moment may be others of their kind. */
static void test_await_chain_of_another_moment(void **state)
{
    struct heap *h = *state;
    struct v8_awaiter a;
    lay_out_async(h);
    uint64_t ran = make_promise(h), at = ran;
    await_promise(h, ran, make_awaiting(h, make_promise(h)));
    assert_int_equal(next(h, &at, &a), V8_AWAIT_FOUND);
    assert_int_equal(h->r.provenance, PROVENANCE_EXACT);
    h->moving = PROVENANCE_STALE;
    at = ran;
    assert_int_equal(next(h, &at, &a), V8_AWAIT_FOUND);
    assert_int_equal(h->r.provenance, PROVENANCE_STALE);
    assert_false(h->r.moving);
    (void)v8_function_sfi(&h->r, make_function(h, false, 0));
    h->r.provenance = PROVENANCE_EXACT;
    assert_int_not_equal(v8_function_sfi(&h->r, make_function(h, false, 0)), 0);
    assert_int_equal(h->r.provenance, PROVENANCE_EXACT); /* of other objects it is asked as ever */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings_that_lie, setup, teardown),
        cmocka_unit_test_setup_teardown(test_positions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_call_positions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scope, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_source, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_of_another_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_source_amid_collection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_source_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_safepoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_safepoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_safepoints_that_lie, setup, teardown),
        cmocka_unit_test_setup_teardown(test_safepoints_that_lie, setup, teardown),
        cmocka_unit_test_setup_teardown(test_name_that_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_array_that_lies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exits_that_lie, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compiler, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compiler_code_that_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_await_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_await_chain_that_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_await_chain_of_another_moment, setup, teardown),
        cmocka_unit_test(test_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
