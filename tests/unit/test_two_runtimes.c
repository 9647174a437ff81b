/* SPDX-License-Identifier: GPL-2.0-only */
/* A process in which LuaJIT and V8 both run: what one reads of the memory log is judged by what it
 * asks, however the other has read of the same memory in the same walk. */
#include "base/text.h"
#include "perfdata/vmevent.h"
#include "session/recorded_memory.h"
#include "unwind/luajit/names_proto.h"
#include "unwind/luajit/object.h"
#include "unwind/v8/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MS = 1000000, PID = 7, SAMPLE = 5000 /* ms */ };
enum { LUA = 0x10000, V8 = 0x20000, MAP = 0x30000 };

static const struct luajit_layout lua_layout = {.str_size = 24, .str_len = 20, .gct = 9};
static const struct v8_layout v8_layout = {
    .map_type = 12, .string_length = 12, .nonstring = 128, .type_map = 255};

/* The process's memory at one sample. */
struct scene {
    struct memory_log *log;
    struct memory_log_view view;
    struct memory_layer layer;
    struct memory memory;
};

/* Adds a reading of an object, at `ms` after the sample. */
static void add_object(struct memory_log *log, uint64_t address, const void *bytes, uint16_t size,
                       int ms)
{
    uint8_t payload[256];
    struct vmevent_writer w;
    struct vmevent e;
    vmevent_begin(&w, payload, sizeof(payload),
                  &(struct vmevent_header){.kind = VMEVENT_MEM, .pid = PID});
    uint64_t at = (uint64_t)(SAMPLE + ms) * MS;
    assert_true(vmevent_add(&w, &(struct vmevent_entry){.address = address,
                                                        .length = size,
                                                        .kind = VMENTRY_OBJECT,
                                                        .flags = VMENTRY_TIMED,
                                                        .before = at,
                                                        .after = at + 10,
                                                        .bytes = bytes}));
    assert_true(vmevent_open(payload, vmevent_end(&w, 0), &e, NULL) == 0);
    assert_int_equal(memory_log_add(log, &e, NULL), 0);
}

/* Lua's string "lua" was read once, and so was V8's string "v8js", whose map was read before the
 * sample and after it. */
static void scene_begin(struct scene *s, int lua_ms, int v8_ms)
{
    uint8_t lua[28] = {[9] = LUAJIT_GCT_STR, [20] = 3, [24] = 'l', 'u', 'a'};
    uint8_t v8[24] = {0}, map[16] = {[12] = 255}, string_map[16] = {[12] = 0x28};
    const uint64_t map_word = MAP | 1, string_map_word = (MAP + 16) | 1;
    memcpy(map, &map_word, 8);
    memcpy(string_map, &map_word, 8);
    memcpy(v8, &string_map_word, 8);
    v8[12] = 4;
    memcpy(v8 + 16, "v8js", 4);
    assert_int_equal(memory_log_create(&s->log, NULL), 0);
    add_object(s->log, LUA, lua, sizeof(lua), lua_ms);
    add_object(s->log, V8, v8, sizeof(v8), v8_ms);
    for (int ms = -1000; ms <= 1000; ms += 2000) {
        add_object(s->log, MAP, map, sizeof(map), ms);
        add_object(s->log, MAP + 16, string_map, sizeof(string_map), ms);
    }
    assert_int_equal(memory_log_seal(s->log, NULL), 0);
    s->view = (struct memory_log_view){.log = s->log, .pid = PID};
    s->layer = memory_log_layer(&s->view);
    s->memory = (struct memory){.layers = &s->layer, .nr_layers = 1, .time = (uint64_t)SAMPLE * MS};
}

static enum provenance read_lua(const struct scene *s)
{
    char text[16];
    uint32_t length;
    enum provenance provenance = PROVENANCE_EXACT;
    assert_true(
        luajit_string_read(&s->memory, &lua_layout, LUA, text, sizeof(text), &length, &provenance));
    assert_string_equal(text, "lua");
    return provenance;
}

static struct v8_reader read_v8(const struct scene *s)
{
    struct v8_reader r = {.memory = &s->memory, .layout = &v8_layout};
    struct text text = {0};
    assert_true(v8_string(&r, V8 | 1, 16, &text));
    assert_int_equal(text.size, 4);
    assert_memory_equal(text.at, "v8js", 4);
    text_free(&text);
    return r;
}

/* Half a second after the sample is near enough for V8, whose objects the stack names by two words.
 * For Lua it is not. */
static void each_asks_for_its_own_proof(void **state)
{
    (void)state;
    struct scene s;
    scene_begin(&s, 500, 500);
    assert_int_equal(read_lua(&s), PROVENANCE_STALE);
    assert_int_equal(read_v8(&s).provenance, PROVENANCE_EXACT);
    assert_int_equal(read_lua(&s), PROVENANCE_STALE); /* V8 was met: this was exact */
    memory_log_free(s.log);
}

/* V8 doubts code whose object was read only once. That a Lua object was read once is no reason. */
static void one_reading_of_lua_is_none_of_v8(void **state)
{
    (void)state;
    struct scene s;
    scene_begin(&s, 100, 500);
    struct v8_reader r = {.memory = &s.memory, .layout = &v8_layout};
    assert_int_equal(v8_type(&r, (MAP + 16) | 1), 255); /* read before and after */
    assert_int_equal(read_lua(&s), PROVENANCE_EXACT);
    assert_int_equal(r.provenance, PROVENANCE_EXACT);
    assert_false(r.by_one_reading);
    assert_true(read_v8(&s).by_one_reading);
    memory_log_free(s.log);
}

/* V8 asks for what was there before the sample. Lua asks for the nearest reading all the same. */
static void sides_are_asked_for_by_one(void **state)
{
    (void)state;
    struct scene s;
    scene_begin(&s, 100, 100);
    struct v8_reader before = {.memory = &s.memory, .layout = &v8_layout, .moment = MEMORY_BEFORE};
    uint64_t word;
    assert_false(v8_word(&before, V8, &word));
    assert_int_equal(read_lua(&s), PROVENANCE_EXACT);
    memory_log_free(s.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_asks_for_its_own_proof),
        cmocka_unit_test(one_reading_of_lua_is_none_of_v8),
        cmocka_unit_test(sides_are_asked_for_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
