/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading words, types, strings, functions and source positions. */
#include "unwind/v8/object.h"

#include "base/cursor.h"
#include "base/hash.h"

bool v8_read(struct v8_reader *r, uint64_t address, void *to, size_t size)
{
    const struct memory_query q = {.address = address,
                                   .size = size,
                                   .time = r->memory->time,
                                   .kind = r->moving ? MEMORY_MOVING : MEMORY_OBJECT,
                                   .moment = r->moment,
                                   .alive = r->alive};
    struct memory_answer a;
    if (!memory_ask(r->memory, &q, to, &a))
        return false;
    if (a.provenance > r->provenance)
        r->provenance = a.provenance;
    r->by_one_reading |= a.by_one_reading;
    memory_span_narrow(&r->same, &a.same);
    return true;
}

bool v8_word(struct v8_reader *r, uint64_t address, uint64_t *ret)
{
    return v8_read(r, address, ret, sizeof(*ret));
}

bool v8_slot(struct v8_reader *r, uint64_t object, int32_t offset, uint64_t *ret)
{
    return v8_word(r, v8_address(object) + (uint64_t)(int64_t)offset, ret);
}

static bool read_u32(struct v8_reader *r, uint64_t object, int32_t offset, uint32_t *ret)
{
    return v8_read(r, v8_address(object) + (uint64_t)(int64_t)offset, ret, sizeof(*ret));
}

static bool map_type(struct v8_reader *r, uint64_t map, uint16_t *ret)
{
    return (map & 3) == 1 && v8_is_pointer(map) &&
           v8_read(r, v8_address(map) + (uint64_t)r->layout->map_type, ret, sizeof(*ret));
}

bool v8_map_of(struct v8_reader *r, uint64_t object, uint64_t *ret)
{
    if (!v8_slot(r, object, 0, ret))
        return false;
    uint64_t moved = v8_moved_to(*ret);
    return !moved || v8_slot(r, moved, 0, ret);
}

/* Was the object `old` moved to `new_copy`? */
static bool is_moved(struct v8_reader *r, uint64_t old, uint64_t new_copy)
{
    const enum provenance before = r->provenance;
    const struct memory_span same = r->same;
    uint64_t first;
    if (v8_is_pointer(old) && v8_is_pointer(new_copy) && v8_slot(r, old, 0, &first) &&
        v8_address(v8_moved_to(first)) == v8_address(new_copy))
        return true;
    r->provenance = before;
    r->same = same;
    return false;
}

bool v8_is_same(struct v8_reader *r, uint64_t a, uint64_t b)
{
    return a == b || is_moved(r, a, b) || is_moved(r, b, a);
}

/* Reads the type that a map gives; false: `map` is no map. */
static bool map_read(struct v8_reader *r, uint64_t map, struct v8_map *ret)
{
    uint64_t meta;
    uint16_t map_of_map;
    enum provenance before = r->provenance;
    const bool moving = r->moving; /* the object; its map stays what it is */
    const struct memory_span others = r->same;
    r->moving = false;
    r->same = (struct memory_span){0, UINT64_MAX};
    r->provenance = PROVENANCE_EXACT;
    bool is = map_type(r, map, &ret->type) && v8_map_of(r, map, &meta) &&
              map_type(r, meta, &map_of_map) && map_of_map == r->layout->type_map;
    r->moving = moving;
    ret->map = map;
    ret->provenance = (uint8_t)r->provenance;
    ret->same = r->same;
    memory_span_narrow(&r->same, &others);
    r->provenance = is || before > r->provenance ? before : r->provenance;
    return is;
}

int32_t v8_type(struct v8_reader *r, uint64_t object)
{
    uint64_t map;
    struct v8_map got;
    if (!v8_is_pointer(object) || !v8_map_of(r, object, &map))
        return -1;
    struct v8_map *known = &r->maps[hash_u64(map) % (sizeof(r->maps) / sizeof(*r->maps))];
    if (!map || known->map != map) {
        if (!map_read(r, map, &got))
            return -1;
        *known = got;
    } else {
        memory_span_narrow(&r->same, &known->same);
    }
    if (known->provenance > r->provenance)
        r->provenance = (enum provenance)known->provenance;
    return known->type;
}

/* Returns the length of an array, in elements or bytes; -1: not an array. */
static int32_t array_length(struct v8_reader *r, uint64_t array)
{
    uint64_t word;
    if (!v8_slot(r, array, r->layout->array_length, &word) || !v8_is_smi(word) || v8_smi(word) < 0)
        return -1;
    return v8_smi(word);
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Bits of the instance type of a string; the same in all versions. */
enum {
    STRING_REPRESENTATION = 7,
    STRING_SEQUENTIAL = 0,
    STRING_CONS = 1,
    STRING_EXTERNAL = 2,
    STRING_SLICED = 3,
    STRING_THIN = 5,
    STRING_ONE_BYTE = 8,
    STRING_UNCACHED = 0x10,
    STRING_DATA = 16, /* the characters, or the first field of other kinds of strings */
    STRING_SECOND = 24,
};

/* A part of a string that is still to be passed on. */
struct piece {
    uint64_t string;
    size_t from, nr;
};
enum { PIECES_MAX = 64, STEPS_MAX = 4096 };

int64_t v8_string_length(struct v8_reader *r, uint64_t string)
{
    uint32_t length;
    int32_t type = v8_type(r, string);
    if (type < 0 || type >= r->layout->nonstring ||
        !read_u32(r, string, r->layout->string_length, &length) || length > INT32_MAX)
        return -1;
    return length;
}

static bool give_bytes(struct v8_reader *r, uint64_t address, size_t nr, bool wide,
                       const struct v8_characters *to)
{
    uint8_t bytes[2048];
    size_t width = wide ? 2 : 1;
    while (nr) {
        size_t part = nr < sizeof(bytes) / width ? nr : sizeof(bytes) / width;
        if (!v8_read(r, address, bytes, part * width) || !to->take(to->context, bytes, part, wide))
            return false;
        address += part * width;
        nr -= part;
    }
    return true;
}

/* Takes one piece: passes its characters on, or replaces it by the pieces that it consists of. */
static bool give_piece(struct v8_reader *r, struct piece *stack, unsigned *nr,
                       const struct v8_characters *to)
{
    struct piece p = stack[--*nr];
    int64_t length = v8_string_length(r, p.string), first;
    int32_t type = v8_type(r, p.string);
    bool wide = !(type & STRING_ONE_BYTE);
    uint64_t a, b = 0;
    if (length < 0 || p.from > (size_t)length || p.nr > (size_t)length - p.from)
        return false;
    uint64_t skip = p.from * (wide ? 2 : 1);
    if ((type & STRING_REPRESENTATION) == STRING_SEQUENTIAL)
        return give_bytes(r, v8_address(p.string) + STRING_DATA + skip, p.nr, wide, to);
    if (!v8_slot(r, p.string, STRING_DATA, &a))
        return false;
    if ((type & STRING_REPRESENTATION) != STRING_THIN && !v8_slot(r, p.string, STRING_SECOND, &b))
        return false;
    switch (type & STRING_REPRESENTATION) {
    case STRING_EXTERNAL:
        return !(type & STRING_UNCACHED) && give_bytes(r, b + skip, p.nr, wide, to);
    case STRING_THIN:
        stack[(*nr)++] = (struct piece){a, p.from, p.nr};
        return true;
    case STRING_SLICED:
        if (!v8_is_smi(b) || v8_smi(b) < 0)
            return false;
        stack[(*nr)++] = (struct piece){a, p.from + (size_t)v8_smi(b), p.nr};
        return true;
    case STRING_CONS:
        first = v8_string_length(r, a);
        if (first < 0 || *nr + 2 > PIECES_MAX)
            return false;
        if (p.from + p.nr > (size_t)first) {
            size_t from = p.from > (size_t)first ? p.from - (size_t)first : 0;
            stack[(*nr)++] = (struct piece){b, from, p.from + p.nr - (size_t)first - from};
        }
        if (p.from < (size_t)first) {
            size_t left = (size_t)first - p.from;
            stack[(*nr)++] = (struct piece){a, p.from, p.nr < left ? p.nr : left};
        }
        return true;
    default:
        return false;
    }
}

/* Passes the first pieces of the stack on until none is left. */
static bool give_pieces(struct v8_reader *r, struct piece *stack, const struct v8_characters *to)
{
    unsigned nr = 1;
    for (unsigned step = 0; nr; step++) {
        if (step == STEPS_MAX || !give_piece(r, stack, &nr, to))
            return false;
    }
    return true;
}

bool v8_string_each(struct v8_reader *r, uint64_t string, size_t max,
                    const struct v8_characters *to)
{
    struct piece stack[PIECES_MAX];
    int64_t length = v8_string_length(r, string);
    if (length < 0)
        return false;
    stack[0] = (struct piece){string, 0, (size_t)length < max ? (size_t)length : max};
    return give_pieces(r, stack, to);
}

struct utf8 {
    struct text *to;
    uint32_t high; /* the first half of a surrogate pair; 0: none */
};

static void put_utf8(struct text *t, uint32_t c)
{
    if (c < 0x80) {
        text_char(t, (char)c);
        return;
    }
    if (c < 0x800) {
        text_char(t, (char)(0xc0 | c >> 6));
    } else {
        if (c < 0x10000) {
            text_char(t, (char)(0xe0 | c >> 12));
        } else {
            text_char(t, (char)(0xf0 | c >> 18));
            text_char(t, (char)(0x80 | (c >> 12 & 63)));
        }
        text_char(t, (char)(0x80 | (c >> 6 & 63)));
    }
    text_char(t, (char)(0x80 | (c & 63)));
}

/* A lone surrogate becomes U+FFFD, as in V8's own output. */
static void put_unit(struct utf8 *u, uint32_t c)
{
    enum { REPLACEMENT = 0xfffd };
    if (u->high && c >> 10 == 0x37) {
        put_utf8(u->to, 0x10000 + ((u->high & 0x3ff) << 10) + (c & 0x3ff));
        u->high = 0;
        return;
    }
    if (u->high)
        put_utf8(u->to, REPLACEMENT);
    u->high = c >> 10 == 0x36 ? c : 0;
    if (!u->high)
        put_utf8(u->to, c >> 10 == 0x37 ? REPLACEMENT : c);
}

static bool take_utf8(void *context, const uint8_t *bytes, size_t nr, bool wide)
{
    struct utf8 *u = context;
    for (size_t i = 0; i < nr; i++)
        put_unit(u, wide ? load_u16(bytes + 2 * i, false) : bytes[i]);
    return true;
}

void v8_utf8(struct text *to, const uint16_t *units, size_t nr)
{
    struct utf8 u = {.to = to};
    for (size_t i = 0; i < nr; i++)
        put_unit(&u, units[i]);
}

bool v8_string(struct v8_reader *r, uint64_t string, size_t max, struct text *ret)
{
    struct utf8 u = {.to = ret};
    const struct v8_characters to = {take_utf8, &u};
    return v8_string_each(r, string, max, &to) && !ret->failed;
}

bool v8_string_part(struct v8_reader *r, uint64_t string, size_t from, size_t nr, struct text *ret)
{
    struct piece stack[PIECES_MAX];
    struct utf8 u = {.to = ret};
    const struct v8_characters to = {take_utf8, &u};
    const int64_t length = v8_string_length(r, string);
    if (length < 0 || from > (size_t)length)
        return false;
    const size_t left = (size_t)length - from;
    stack[0] = (struct piece){string, from, nr < left ? nr : left};
    return give_pieces(r, stack, &to) && !ret->failed;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* Returns the BytecodeArray behind the object that stands for a function's code; 0: none. */
static uint64_t bytecode_of(struct v8_reader *r, uint64_t data)
{
    enum { INTERPRETER_DATA_BYTECODE = 8, BASELINE_DATA_BYTECODE = 16, DEPTH = 3 };
    const struct v8_layout *l = r->layout;
    for (unsigned i = 0; i < DEPTH; i++) {
        int32_t type = v8_type(r, data);
        if (type < 0)
            return 0;
        if (type == l->type_bytecode)
            return data;
        int32_t offset;
        if (type == l->type_code)
            offset = l->code_deopt;
        else if (type == l->type_interpreter_data)
            offset = INTERPRETER_DATA_BYTECODE;
        else if (type == l->type_baseline_data)
            offset = BASELINE_DATA_BYTECODE;
        else
            return 0;
        if (!v8_slot(r, data, offset, &data))
            return 0;
    }
    return 0;
}

uint64_t v8_sfi_bytecode(struct v8_reader *r, uint64_t sfi)
{
    const struct v8_layout *l = r->layout;
    uint64_t data, bytecode = v8_slot(r, sfi, l->sfi_data, &data) ? bytecode_of(r, data) : 0;
    if (!bytecode && l->sfi_untrusted != V8_UNKNOWN && v8_slot(r, sfi, l->sfi_untrusted, &data))
        bytecode = bytecode_of(r, data);
    return bytecode;
}

/* Reads all of a SharedFunctionInfo except its BytecodeArray. */
static bool read_sfi(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t name;
    *ret = (struct v8_sfi){.sfi = sfi};
    if (!v8_is(r, sfi, l->type_sfi) || !v8_slot(r, sfi, l->sfi_name, &name) ||
        !v8_slot(r, sfi, l->sfi_script, &ret->script))
        return false;
    int32_t type = v8_type(r, ret->script);
    if (type < 0) /* a function without a script has "undefined" there */
        return false;
    if (type != l->type_script)
        ret->script = 0;
    type = v8_is_smi(name) ? -1 : v8_type(r, name);
    if (type < 0 && !v8_is_smi(name))
        return false;
    if (type == l->type_scope)
        ret->scope = name;
    else if (type >= 0 && type < l->nonstring)
        ret->name = name;
    return true;
}

bool v8_sfi_read(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret)
{
    uint64_t data;
    if (!read_sfi(r, sfi, ret) || !v8_slot(r, sfi, r->layout->sfi_data, &data))
        return false;
    ret->bytecode = v8_sfi_bytecode(r, sfi);
    return true;
}

bool v8_sfi_read_name(struct v8_reader *r, uint64_t sfi, struct v8_sfi *ret)
{
    if (!read_sfi(r, sfi, ret))
        return false;
    const enum provenance before = r->provenance;
    ret->bytecode = v8_sfi_bytecode(r, sfi);
    r->provenance = before;
    return true;
}

uint64_t v8_function_sfi(struct v8_reader *r, uint64_t function)
{
    const struct v8_layout *l = r->layout;
    uint64_t sfi;
    int32_t type = v8_type(r, function);
    if (type < l->type_function || type > l->type_function_last ||
        !v8_slot(r, function, l->fn_shared, &sfi))
        return 0;
    const bool moving = r->moving; /* the function; it keeps its SharedFunctionInfo */
    r->moving = false;
    const bool is = v8_is(r, sfi, l->type_sfi);
    r->moving = moving;
    return is ? sfi : 0;
}

static bool scope_element(struct v8_reader *r, uint64_t scope, int32_t i, uint64_t *ret)
{
    return v8_slot(r, scope, r->layout->scope_data + 8 * i, ret);
}

/* Returns the index of the element behind the fixed elements, the context's names and their
 * infos. */
static int32_t scope_tail(const struct v8_layout *l, uint32_t flags, int32_t names)
{
    int32_t i = l->scope_first;
    if (l->scope_module != V8_UNKNOWN && (int32_t)(flags & 15) == l->scope_module)
        i++;
    i += l->scope_names_max != V8_UNKNOWN && names >= l->scope_names_max ? 1 : names;
    i += names;
    if (l->scope_saved_class != V8_UNKNOWN && flags >> l->scope_saved_class & 1)
        i++;
    uint32_t receiver = l->scope_receiver != V8_UNKNOWN ? flags >> l->scope_receiver & 3 : 0;
    return i + (receiver == 1 || receiver == 2);
}

bool v8_scope_read(struct v8_reader *r, uint64_t scope, struct v8_scope *ret)
{
    enum { NAMES_MAX = 1 << 20, POSITIONS_FIXED = 5, KINDS = 31 };
    const struct v8_layout *l = r->layout;
    uint64_t word, names, start, end;
    *ret = (struct v8_scope){.start = -1, .end = -1};
    if (!scope_element(r, scope, 0, &word) || !scope_element(r, scope, 2, &names) ||
        !v8_is_smi(names) || v8_smi(names) < 0 || v8_smi(names) > NAMES_MAX)
        return false;
    uint32_t flags = word >> 32 ? (uint32_t)(word >> 32) : (uint32_t)word;
    if (l->scope_kind != V8_UNKNOWN) {
        int32_t kind = (int32_t)(flags >> l->scope_kind & KINDS);
        int32_t nr = l->scope_statics - l->scope_members;
        ret->members = kind >= l->scope_members && kind < l->scope_statics;
        ret->statics = kind >= l->scope_statics && kind < l->scope_statics + nr;
    }
    int32_t i = scope_tail(l, flags, v8_smi(names));
    if (flags >> l->scope_function & 3) {
        if (!scope_element(r, scope, i, &ret->name))
            return false;
        i += 2;
    }
    if (flags >> l->scope_inferred & 1 && !scope_element(r, scope, i++, &ret->inferred))
        return false;
    int32_t at = l->scope_first == POSITIONS_FIXED ? 3 : i;
    if (!scope_element(r, scope, at, &start) || !scope_element(r, scope, at + 1, &end))
        return false;
    if (v8_is_smi(start) && v8_is_smi(end) && v8_smi(start) >= 0 && v8_smi(end) >= v8_smi(start)) {
        ret->start = v8_smi(start);
        ret->end = v8_smi(end);
    }
    return true;
}

uint32_t v8_identity(uint64_t script_id, uint64_t in_script)
{
    return (uint32_t)hash_combine(hash_u64(script_id), in_script) | 1;
}

uint32_t v8_sfi_identity(struct v8_reader *r, const struct v8_sfi *sfi)
{
    struct v8_scope scope;
    uint64_t id = 0;
    if ((sfi->script && !v8_slot(r, sfi->script, r->layout->script_id, &id)) || !sfi->scope ||
        !v8_scope_read(r, sfi->scope, &scope))
        return 0;
    return v8_identity(id, (uint64_t)(uint32_t)scope.start << 32 | (uint32_t)scope.end);
}

/* ---- positions ----------------------------------------------------------------------------- */

bool v8_stream_open(struct v8_reader *r, uint64_t table, struct v8_stream *ret)
{
    int32_t type = v8_type(r, table), length;
    if (type < 0 || (type != r->layout->type_bytes && type != r->layout->type_trusted_bytes))
        return false;
    length = array_length(r, table);
    if (length < 0)
        return false;
    uint64_t at = v8_address(table) + (uint64_t)r->layout->array_data;
    *ret = (struct v8_stream){.r = r, .at = at, .end = at + (uint64_t)length};
    return true;
}

bool v8_stream_byte(struct v8_stream *s, uint8_t *ret)
{
    if (s->at - s->piece_at >= s->piece_size) {
        uint64_t left = s->end - s->at;
        s->piece_size = left < sizeof(s->piece) ? left : sizeof(s->piece);
        s->piece_at = s->at;
        if (!s->piece_size || !v8_read(s->r, s->at, s->piece, s->piece_size)) {
            s->piece_size = 0;
            return false;
        }
    }
    *ret = s->piece[s->at++ - s->piece_at];
    return true;
}

bool v8_stream_vlq(struct v8_stream *s, uint64_t *ret)
{
    uint8_t byte;
    *ret = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (!v8_stream_byte(s, &byte))
            return false;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static int64_t zigzag(uint64_t u)
{
    return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}

/* Reads the next entry: the place in the code, and the position; false: no more entries. */
static bool next_position(struct v8_stream *s, int64_t *at, uint64_t *position)
{
    uint64_t first, second;
    if (s->at >= s->end || !v8_stream_vlq(s, &first) || !v8_stream_vlq(s, &second))
        return false;
    int64_t delta = s->r->layout->positions_kind ? (int64_t)(first >> 2) : zigzag(first);
    delta = delta < 0 ? -(delta + 1) : delta;
    if (delta > INT32_MAX) /* no code is that long */
        return false;
    *at += delta;
    *position += (uint64_t)zigzag(second);
    return true;
}

static bool find_position(struct v8_stream *s, int64_t offset, uint64_t *raw)
{
    uint64_t position = 0;
    int64_t at = s->r->layout->positions_first;
    bool found = false;
    while (s->at < s->end) {
        if (!next_position(s, &at, &position))
            return false;
        if (at > offset)
            break;
        *raw = position;
        found = true;
    }
    return found;
}

bool v8_position_find(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t *raw)
{
    struct v8_stream s;
    return v8_stream_open(r, table, &s) && find_position(&s, offset, raw);
}

bool v8_position_find_at(struct v8_reader *r, uint64_t address, uint64_t size, int64_t offset,
                         uint64_t *raw)
{
    struct v8_stream s = {.r = r, .at = address, .end = address + size};
    return find_position(&s, offset, raw);
}

unsigned v8_position_call(struct v8_reader *r, uint64_t table, int64_t offset, uint64_t ret[2])
{
    struct v8_stream s;
    uint64_t position = 0, before = 0;
    int64_t at = r->layout->positions_first;
    bool has_before = false, has_behind = false;
    if (!v8_stream_open(r, table, &s))
        return 0;
    while (!has_behind && next_position(&s, &at, &position) && at <= offset) {
        has_behind = at == offset;
        before = has_behind ? before : position;
        has_before |= !has_behind;
    }
    unsigned nr = 0;
    if (has_behind)
        ret[nr++] = position;
    if (has_before)
        ret[nr++] = before;
    return nr;
}

bool v8_baseline_offset(struct v8_reader *r, const struct v8_code *c, uint64_t bytecode,
                        uint64_t pc, int32_t *ret)
{
    const struct v8_layout *l = r->layout;
    struct v8_stream deltas, codes;
    uint64_t delta, end = c->start;
    int32_t length = array_length(r, bytecode), offset = 0;
    uint8_t op;
    if (!l->bytecode_sizes || length < 0 || pc <= c->start ||
        !v8_stream_open(r, c->positions, &deltas))
        return false;
    uint64_t first = v8_address(bytecode) + (uint64_t)l->bytecode_data;
    codes = (struct v8_stream){.r = r, .at = first, .end = first + (uint64_t)length};
    if (!v8_stream_vlq(&deltas, &delta))
        return false;
    end += delta;
    if (pc <= end) {
        *ret = -1;
        return true;
    }
    while (v8_stream_vlq(&deltas, &delta)) {
        end += delta;
        if (!v8_stream_byte(&codes, &op))
            return false;
        if (pc <= end) {
            *ret = offset;
            return true;
        }
        int32_t size = v8_bytecode_size(l, 0, op);
        if (op < 4) { /* Wide, ExtraWide, and their variants for debuggers */
            uint8_t wide = op;
            if (!v8_stream_byte(&codes, &op))
                return false;
            size = 1 + v8_bytecode_size(l, wide & 1 ? 2 : 1, op);
        }
        offset += size;
        if (size < 1 || offset >= length)
            return false;
        codes.at = first + (uint64_t)offset;
    }
    return false;
}
