/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the code and names of a module from an instance. */
#include "unwind/v8/wasm.h"

#include <string.h>

/* ---- code ---------------------------------------------------------------------------------- */

/* Finds the script of an instance, and through it the NativeModule. The Foreign refers to the
 * object that destroys it (managed.h of V8: two links, a size, then the address of the
 * std::shared_ptr). */
static bool find_module(struct v8_reader *r, uint64_t instance, struct v8_wasm *ret)
{
    enum { FOREIGN_ADDRESS = 8, DESTRUCTOR_POINTER = 24 };
    const struct v8_layout *l = r->layout;
    uint64_t module, foreign, destructor, pointer;
    if (l->wasm_instance == V8_UNKNOWN || (instance & 3) != 1 ||
        !v8_slot(r, instance, l->wasm_instance, &module))
        return false;
    if (l->wasm_module != V8_UNKNOWN && !v8_slot(r, module, l->wasm_module, &module))
        return false;
    return v8_is(r, module, l->type_wasm_module) &&
           v8_slot(r, module, l->wasm_script, &ret->script) &&
           v8_is(r, ret->script, l->type_script) &&
           v8_slot(r, ret->script, l->script_native, &foreign) && (foreign & 3) == 1 &&
           v8_slot(r, foreign, FOREIGN_ADDRESS, &destructor) &&
           v8_word(r, destructor + DESTRUCTOR_POINTER, &pointer) &&
           v8_word(r, pointer, &ret->native) && ret->native;
}

static bool read_i32(struct v8_reader *r, uint64_t address, int32_t *ret)
{
    return v8_read(r, address, ret, sizeof(*ret));
}

/* Is `code` a WasmCode of this module, and does it contain the pc? Reads it. */
static bool read_code(struct v8_reader *r, uint64_t code, uint64_t pc, struct v8_wasm *ret)
{
    enum { NATIVE = 0, START = 8, KIND_FUNCTION = 0, TIERS = 3, LIFTOFF = 1, TURBOFAN = 2 };
    const struct v8_layout *l = r->layout;
    uint64_t native;
    int32_t size;
    uint8_t flags;
    if (!v8_word(r, code + NATIVE, &native) || native != ret->native ||
        !v8_word(r, code + START, &ret->start) ||
        !read_i32(r, code + (uint64_t)l->wasm_code_size, &size) || size <= 0 ||
        pc - ret->start >= (uint64_t)size ||
        !read_i32(r, code + (uint64_t)l->wasm_code_index, &ret->index) ||
        !v8_read(r, code + (uint64_t)l->wasm_code_flags, &flags, 1))
        return false;
    ret->code = code;
    ret->size = (uint64_t)size;
    uint8_t kind = flags & ((1u << l->wasm_tier_shift) - 1),
            tier = flags >> l->wasm_tier_shift & TIERS;
    if (kind != KIND_FUNCTION)
        ret->index = -1;
    ret->tier = tier == LIFTOFF ? TIER_BASELINE : tier == TURBOFAN ? TIER_TURBOFAN : TIER_NONE;
    return ret->index >= -1;
}

/* Searches the map by address: takes the last code that does not begin behind the pc. */
static bool find_in_map(struct v8_reader *r, uint64_t pc, struct v8_wasm *ret)
{
    enum { DEPTH_MAX = 64, ROOT = 16, LEFT = 16, RIGHT = 24, KEY = 32, VALUE = 40 };
    uint64_t node, key, best = 0, code;
    if (!v8_word(r, ret->native + (uint64_t)r->layout->native_codes + ROOT, &node))
        return false;
    for (unsigned i = 0; node; i++) {
        if (i == DEPTH_MAX || !v8_word(r, node + KEY, &key))
            return false;
        best = key <= pc ? node : best;
        if (!v8_word(r, node + (key <= pc ? RIGHT : LEFT), &node))
            return false;
    }
    return best && v8_word(r, best + VALUE, &code) && read_code(r, code, pc, ret);
}

/* Searches the code that was compiled lately, newest first. */
static bool find_new(struct v8_reader *r, uint64_t pc, struct v8_wasm *ret)
{
    enum { NEW_MAX = 4096 };
    uint64_t vector = ret->native + (uint64_t)r->layout->native_new, begin, end, code, start;
    if (!v8_word(r, vector, &begin) || !v8_word(r, vector + 8, &end) || end < begin)
        return false;
    uint64_t nr = (end - begin) / 8;
    for (uint64_t i = 0; i < nr && i < NEW_MAX; i++) {
        if (!v8_word(r, end - 8 * (i + 1), &code) || !v8_word(r, code + 8, &start))
            return false;
        if (start <= pc && read_code(r, code, pc, ret))
            return true;
    }
    return false;
}

bool v8_wasm_find(struct v8_reader *r, uint64_t instance, uint64_t pc, struct v8_wasm *ret)
{
    *ret = (struct v8_wasm){.position = -1};
    return find_module(r, instance, ret) && (find_in_map(r, pc, ret) || find_new(r, pc, ret));
}

/* The tables of a WasmCode have this order: protected instructions, relocations, positions, inlined
 * functions. An inlined function has its number, whether it is a tail call, and the position of its
 * call. */
enum { INLINED_ENTRY = 13 };
struct tables {
    uint64_t positions, inlined;
    int32_t positions_size, nr_inlined;
};

static bool find_tables(struct v8_reader *r, const struct v8_wasm *w, struct tables *ret)
{
    enum { RELOCATIONS = 4, POSITIONS = 8, INLINED = 12, PROTECTED = -4 };
    const struct v8_layout *l = r->layout;
    uint64_t sizes = w->code + (uint64_t)l->wasm_code_size, tables;
    int32_t relocations, protected, inlined = 0;
    /* up to V8 10.2 the sizes of the other tables are all that stands before the number */
    bool inlines = l->wasm_code_index - l->wasm_code_size > INLINED + 4;
    if (!v8_word(r, w->code + (uint64_t)l->wasm_code_tables, &tables) ||
        !read_i32(r, sizes + RELOCATIONS, &relocations) ||
        !read_i32(r, sizes + POSITIONS, &ret->positions_size) ||
        (inlines && !read_i32(r, sizes + INLINED, &inlined)) ||
        !read_i32(r, w->code + (uint64_t)(l->wasm_code_index + PROTECTED), &protected) ||
        relocations < 0 || protected < 0 || ret->positions_size < 0 || inlined < 0)
        return false;
    ret->positions = tables + (uint64_t)relocations + (uint64_t) protected;
    ret->inlined = ret->positions + (uint64_t)ret->positions_size;
    ret->nr_inlined = inlined / INLINED_ENTRY;
    return true;
}

/* A function that was inlined as a tail call replaces its caller: the caller has no frame. */
unsigned v8_wasm_places(struct v8_reader *r, const struct v8_wasm *w, uint64_t pc, bool calls,
                        struct v8_wasm_place ret[V8_WASM_INLINED_MAX])
{
    enum { TAIL_CALL = 4, CALLER = 5 };
    struct tables t = {0};
    uint64_t raw = 0;
    unsigned nr = 0;
    uint8_t tail = 0, was_tail;
    bool known = calls;
    if (r->layout->wasm_code_tables != V8_UNKNOWN && !find_tables(r, w, &t))
        return 0;
    if ((calls || t.nr_inlined) && !v8_position_find_at(r, t.positions, (uint64_t)t.positions_size,
                                                        (int64_t)(pc - w->start), &raw))
        raw = 0;
    for (int32_t i = 0, id; (id = t.nr_inlined ? v8_position_inlining(raw) : -1) >= 0; i++) {
        uint64_t entry = t.inlined + INLINED_ENTRY * (uint64_t)(uint32_t)id;
        struct v8_wasm_place *at = &ret[nr];
        at->position = known ? v8_position_offset(raw) : -1;
        if (id >= t.nr_inlined || i + 1 == V8_WASM_INLINED_MAX || !read_i32(r, entry, &at->index) ||
            !v8_read(r, entry + TAIL_CALL, &was_tail, 1) || !v8_word(r, entry + CALLER, &raw) ||
            at->index < 0)
            return 0;
        nr += !tail;
        tail = was_tail;
        known = true;
    }
    if (!tail || !nr)
        ret[nr++] = (struct v8_wasm_place){w->index, known ? v8_position_offset(raw) : -1};
    return nr;
}

/* The NativeModule refers to its WasmModule (and to a source map) before the module's bytes. The
 * WasmModule has for each function its number, and its body's place and length in these bytes. */
uint32_t v8_wasm_offset(struct v8_reader *r, const struct v8_wasm *w)
{
    enum { MODULE = -24, FUNCTION = 32, NUMBER = 8, BODY = 16, BODY_SIZE = 20 };
    const struct v8_layout *l = r->layout;
    uint64_t module, begin, end, entry;
    int32_t number, body, size;
    if (w->position < 0 || l->module_functions == V8_UNKNOWN ||
        !v8_word(r, w->native + (uint64_t)(l->native_wire + MODULE), &module) ||
        !v8_word(r, module + (uint64_t)l->module_functions, &begin) ||
        !v8_word(r, module + (uint64_t)l->module_functions + 8, &end) || end < begin ||
        (uint64_t)w->index >= (end - begin) / FUNCTION)
        return 0;
    entry = begin + FUNCTION * (uint64_t)w->index;
    if (!read_i32(r, entry + NUMBER, &number) || number != w->index ||
        !read_i32(r, entry + BODY, &body) || !read_i32(r, entry + BODY_SIZE, &size) || body <= 0 ||
        w->position >= size || body > INT32_MAX - size)
        return 0;
    return (uint32_t)body + (uint32_t)w->position;
}

/* ---- names --------------------------------------------------------------------------------- */

/* The bytes of a module, read in pieces. */
struct bytes {
    struct v8_reader *r;
    uint64_t at, end;
    uint8_t piece[2048];
    uint64_t piece_at;
    size_t piece_size;
};

static bool take_byte(struct bytes *b, uint8_t *ret)
{
    if (b->at >= b->end)
        return false;
    if (b->at - b->piece_at >= b->piece_size) {
        uint64_t left = b->end - b->at;
        b->piece_size = left < sizeof(b->piece) ? left : sizeof(b->piece);
        b->piece_at = b->at;
        if (!v8_read(b->r, b->at, b->piece, b->piece_size)) {
            b->piece_size = 0;
            return false;
        }
    }
    *ret = b->piece[b->at++ - b->piece_at];
    return true;
}

/* Reads a LEB128 number. */
static bool take_u32(struct bytes *b, uint32_t *ret)
{
    uint8_t byte;
    *ret = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (!take_byte(b, &byte))
            return false;
        *ret |= (uint32_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Reads a length and returns where as many bytes end; false: they do not end before `end`. */
static bool take_extent(struct bytes *b, uint64_t end, uint64_t *ret)
{
    uint32_t size;
    if (!take_u32(b, &size) || b->at > end || size > end - b->at)
        return false;
    *ret = b->at + size;
    return true;
}

/* Reads a name: appends it to `to`, or skips it (NULL). */
static bool take_name(struct bytes *b, uint64_t end, struct text *to)
{
    enum { NAME_BYTES_MAX = 1024 };
    uint64_t stop;
    uint8_t byte;
    if (!take_extent(b, end, &stop))
        return false;
    for (unsigned i = 0; to && b->at < stop && i < NAME_BYTES_MAX; i++) {
        if (!take_byte(b, &byte))
            return false;
        text_char(to, (char)byte);
    }
    b->at = stop;
    return true;
}

/* Reads the parts of a name section: the module's name, then the functions' names. Returns 1: read;
 * 0: the function has no name; -1: the section cannot be read. */
static int read_names(struct bytes *b, uint64_t end, int32_t index, struct text *ret)
{
    enum { OF_MODULE, OF_FUNCTIONS };
    uint64_t stop;
    uint32_t nr, i;
    uint8_t part;
    for (; b->at < end; b->at = stop) {
        if (!take_byte(b, &part) || !take_extent(b, end, &stop))
            return -1;
        if (part == OF_MODULE && !take_name(b, stop, ret))
            return -1;
        if (part != OF_FUNCTIONS)
            continue;
        if (!take_u32(b, &nr))
            return -1;
        for (; nr && b->at < stop; nr--) {
            if (!take_u32(b, &i))
                return -1;
            bool is = i == (uint32_t)index;
            if (is && ret->size)
                text_char(ret, '.');
            if (!take_name(b, stop, is ? ret : NULL))
                return -1;
            if (is)
                return 1;
        }
        return 0;
    }
    return 0;
}

bool v8_wasm_name(struct v8_reader *r, const struct v8_wasm *w, struct text *ret)
{
    enum { HEAD = 8, CUSTOM = 0, MODULE_MAX = 1 << 30 };
    static const uint8_t magic[HEAD] = {0, 'a', 's', 'm', 1, 0, 0, 0};
    uint64_t wire, start, size, stop;
    uint8_t head[HEAD], id;
    if (!v8_word(r, w->native + (uint64_t)r->layout->native_wire, &wire) ||
        !v8_word(r, wire, &start) || !v8_word(r, wire + 8, &size) || size < HEAD ||
        size > MODULE_MAX || !v8_read(r, start, head, HEAD) || memcmp(head, magic, HEAD) != 0)
        return false;
    struct bytes b = {.r = r, .at = start + HEAD, .end = start + size};
    for (; b.at < b.end; b.at = stop) {
        struct text name = {0};
        if (!take_byte(&b, &id) || !take_extent(&b, b.end, &stop))
            return false;
        if (id != CUSTOM)
            continue;
        bool is = take_name(&b, stop, &name) && name.size == 4 && memcmp(name.at, "name", 4) == 0;
        text_free(&name);
        if (is)
            return read_names(&b, stop, w->index, ret) >= 0 && !ret->failed;
    }
    return true;
}
