/* SPDX-License-Identifier: GPL-2.0-only */
/* Machine code: finds the object that contains a pc, and reads its tables. */
#include "base/cursor.h"
#include "unwind/v8/machine.h"
#include "unwind/v8/object.h"

enum { CODE_MAX = 1 << 20, ALIGNMENT = 32 };

static enum v8_code_kind kind_of(const struct v8_layout *l, uint32_t flags)
{
    int32_t kind = (int32_t)(flags & (uint32_t)l->kind_mask) >> l->kind_shift;
    if (kind == l->kind_turbofan)
        return V8_CODE_TURBOFAN;
    if (kind == l->kind_maglev)
        return V8_CODE_MAGLEV;
    if (kind == l->kind_baseline)
        return V8_CODE_BASELINE;
    if (kind == l->kind_regexp)
        return V8_CODE_REGEXP;
    if (kind == l->kind_js_to_wasm)
        return V8_CODE_JS_TO_WASM;
    return kind == l->kind_interpreted ? V8_CODE_INTERPRETED : V8_CODE_OTHER;
}

bool v8_code_read(struct v8_reader *r, uint64_t code, struct v8_code *ret)
{
    const struct v8_layout *l = r->layout;
    uint32_t flags, size;
    *ret = (struct v8_code){.code = code};
    if (!v8_is(r, code, l->type_code) ||
        !v8_read(r, v8_address(code) + (uint64_t)l->code_flags, &flags, 4) ||
        !v8_read(r, v8_address(code) + (uint64_t)l->code_size, &size, 4) ||
        !v8_slot(r, code, l->code_deopt, &ret->deopt) ||
        !v8_slot(r, code, l->code_positions, &ret->positions))
        return false;
    ret->start = v8_address(code) + (uint64_t)l->code_first;
    if (l->code_first == V8_UNKNOWN && !v8_slot(r, code, l->code_start, &ret->start))
        return false;
    ret->size = size;
    ret->kind = kind_of(l, flags);
    return true;
}

bool v8_code_contains(struct v8_reader *r, uint64_t code, uint64_t pc)
{
    struct v8_code c;
    return v8_code_read(r, code, &c) && pc - c.start < c.size;
}

/* Does the InstructionStream at `header` name this Code object? A collection moves instructions:
 * the Code object names the new place then, while old return addresses are still on the stack. */
static bool is_stream_of(struct v8_reader *r, uint64_t header, uint64_t code)
{
    uint64_t other;
    return v8_is(r, header | 1, r->layout->type_stream) &&
           v8_slot(r, header | 1, r->layout->stream_code, &other) && v8_is_same(r, other, code);
}

/* Is there code at `header` whose instructions contain the pc? (The object's map is its first
 * word.) */
static bool check_header(struct v8_reader *r, uint64_t header, uint64_t pc, struct v8_code *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t object = header | 1, code = object;
    int32_t first = l->code_first;
    if (first == V8_UNKNOWN) {
        first = l->stream_first;
        if (!v8_is(r, object, l->type_stream) || !v8_slot(r, object, l->stream_code, &code))
            return false;
    }
    if (!v8_code_read(r, code, ret))
        return false;
    uint64_t start = header + (uint64_t)first;
    if (code != object && ret->start != start &&
        is_stream_of(r, ret->start - (uint64_t)first, code))
        ret->start = start;
    return ret->start == start && pc - start < ret->size && ret->size <= CODE_MAX;
}

/* Could an object begin with this word: a map, or where a collection has moved the object to? */
static bool may_be_first(const struct v8_layout *l, uint64_t word)
{
    return ((word & 3) == 1 || v8_moved_to(word)) && !(word >> l->machine->address_bits);
}

bool v8_code_find(struct v8_reader *r, uint64_t pc, uint64_t low, struct v8_code *ret)
{
    enum { PIECE = 4096 };
    const struct v8_layout *l = r->layout;
    int32_t first = l->code_first == V8_UNKNOWN ? l->stream_first : l->code_first;
    uint8_t bytes[PIECE];
    uint64_t have = 0; /* address of `bytes`; 0: none */
    uint64_t start = pc & ~(uint64_t)(ALIGNMENT - 1);
    if (pc - low > CODE_MAX)
        low = pc - CODE_MAX;
    for (; start >= low + (uint64_t)first; start -= ALIGNMENT) {
        uint64_t header = start - (uint64_t)first, page = header & ~(uint64_t)(PIECE - 1);
        enum provenance provenance = r->provenance;
        if (page != have) {
            if (!v8_read(r, page, bytes, PIECE))
                return false;
            r->provenance = provenance; /* what is found is read again */
            have = page;
        }
        if (!may_be_first(r->layout, load_u64(bytes + (header - page), false)))
            continue;
        r->by_one_reading = false; /* earlier readings do not matter */
        if (check_header(r, header, pc, ret))
            return true;
        r->provenance = provenance;
    }
    return false;
}

/* ---- deoptimization data ------------------------------------------------------------------- */

static bool is_array(struct v8_reader *r, uint64_t object)
{
    const struct v8_layout *l = r->layout;
    const int32_t types[] = {l->type_array, l->type_trusted_array, l->type_protected_array,
                             l->type_weak_array, l->type_trusted_weak_array};
    int32_t type = v8_type(r, object);
    for (size_t i = 0; type >= 0 && i < sizeof(types) / sizeof(*types); i++) {
        if (type == types[i])
            return true;
    }
    return false;
}

bool v8_array_element(struct v8_reader *r, uint64_t array, int32_t index, uint64_t *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t length;
    return is_array(r, array) && v8_slot(r, array, l->array_length, &length) && v8_is_smi(length) &&
           index >= 0 && index < v8_smi(length) &&
           v8_word(r, v8_address(array) + (uint64_t)l->array_data + 8 * (uint64_t)index, ret);
}

bool v8_deopt_element(struct v8_reader *r, const struct v8_code *c, int32_t index, uint64_t *ret)
{
    return v8_array_element(r, c->deopt, index, ret);
}

uint64_t v8_code_sfi(struct v8_reader *r, const struct v8_code *c)
{
    const struct v8_layout *l = r->layout;
    uint64_t sfi;
    if (!v8_deopt_element(r, c, l->deopt_sfi, &sfi))
        return 0;
    if (v8_is(r, sfi, l->type_wrapper) && !v8_slot(r, sfi, l->wrapper_sfi, &sfi))
        return 0;
    return v8_is(r, sfi, l->type_sfi) ? sfi : 0;
}

/* Finds the table of inlining positions, and its size in bytes. */
static bool inlining_table(struct v8_reader *r, const struct v8_code *c, uint64_t *table,
                           int32_t *size)
{
    const struct v8_layout *l = r->layout;
    uint64_t length;
    if (!v8_deopt_element(r, c, l->deopt_inlining, table) ||
        (!v8_is(r, *table, l->type_bytes) && !v8_is(r, *table, l->type_trusted_bytes)) ||
        !v8_slot(r, *table, l->array_length, &length) || !v8_is_smi(length))
        return false;
    *size = v8_smi(length);
    return true;
}

bool v8_code_inlines_none(struct v8_reader *r, const struct v8_code *c)
{
    uint64_t table;
    int32_t size;
    return inlining_table(r, c, &table, &size) && size == 0;
}

/* Reads entry `id` of the inlining positions: the position of the call, and the inlined
 * function. */
static bool inlining(struct v8_reader *r, const struct v8_code *c, int32_t id, uint64_t *raw,
                     uint64_t *sfi)
{
    enum { ENTRY = 16 };
    const struct v8_layout *l = r->layout;
    uint64_t table, word, literals;
    int32_t size;
    if (!inlining_table(r, c, &table, &size) || id < 0 || size / ENTRY <= id ||
        !v8_slot(r, table, l->array_data + ENTRY * id, raw) ||
        !v8_slot(r, table, l->array_data + ENTRY * id + 8, &word))
        return false;
    int32_t function = (int32_t)(uint32_t)word;
    if (function == -1) {
        *sfi = v8_code_sfi(r, c);
        return *sfi != 0;
    }
    return v8_deopt_element(r, c, l->deopt_literals, &literals) &&
           v8_array_element(r, literals, function, sfi) && v8_is(r, *sfi, l->type_sfi);
}

unsigned v8_code_inlined(struct v8_reader *r, const struct v8_code *c, uint64_t raw,
                         struct v8_inlined ret[V8_INLINED_MAX])
{
    for (unsigned nr = 0; nr < V8_INLINED_MAX; nr++) {
        int32_t id = v8_position_inlining(raw);
        struct v8_inlined *f = &ret[nr];
        *f = (struct v8_inlined){.offset = v8_position_offset(raw), .inlined = id >= 0};
        if (id < 0) {
            f->sfi = v8_code_sfi(r, c);
            return f->sfi ? nr + 1 : 0;
        }
        if (!inlining(r, c, id, &raw, &f->sfi))
            return 0;
    }
    return 0;
}

/* An array's elements, read several at a time; where not all of these are recorded, one at a
 * time. */
struct elements {
    struct v8_reader *r;
    uint64_t first; /* address */
    int32_t nr, at;
    uint64_t piece[64];
    int32_t piece_at, piece_size;
};

static bool elements_open(struct v8_reader *r, uint64_t array, struct elements *ret)
{
    const struct v8_layout *l = r->layout;
    uint64_t length;
    if (!is_array(r, array) || !v8_slot(r, array, l->array_length, &length) || !v8_is_smi(length))
        return false;
    ret->r = r;
    ret->first = v8_address(array) + (uint64_t)l->array_data;
    ret->nr = v8_smi(length);
    ret->at = ret->piece_at = ret->piece_size = 0;
    return true;
}

static bool elements_next(struct elements *e, uint64_t *ret)
{
    enum { PIECE = sizeof(e->piece) / sizeof(*e->piece) };
    if (e->at >= e->nr)
        return false;
    int32_t left = e->nr - e->at;
    if (e->at - e->piece_at >= e->piece_size) {
        uint64_t address = e->first + 8 * (uint64_t)e->at;
        e->piece_at = e->at;
        e->piece_size = left < PIECE ? left : PIECE;
        if (!v8_read(e->r, address, e->piece, 8 * (size_t)e->piece_size))
            e->piece_size = v8_word(e->r, address, e->piece);
        if (!e->piece_size)
            return false;
    }
    *ret = e->piece[e->at++ - e->piece_at];
    return true;
}

bool v8_turbofan_offset(struct v8_reader *r, const struct v8_code *c, uint64_t pc, int32_t *ret)
{
    enum { BYTECODE_OFFSET, TRANSLATION, PC, PER_PLACE, ELEMENTS_MAX = 1 << 18 };
    struct elements e;
    uint64_t place[PER_PLACE];
    if (r->layout->deopt_entries == V8_UNKNOWN || !elements_open(r, c->deopt, &e))
        return false;
    e.at = e.piece_at = r->layout->deopt_entries;
    while (e.at < ELEMENTS_MAX) {
        for (unsigned i = 0; i < PER_PLACE; i++) {
            if (!elements_next(&e, &place[i]) || !v8_is_smi(place[i]))
                return false;
        }
        *ret = v8_smi(place[BYTECODE_OFFSET]);
        if (v8_smi(place[PC]) >= 0 && (uint64_t)v8_smi(place[PC]) == pc - c->start)
            return true;
    }
    return false;
}

enum { CONSTANTS_MAX = 1024 };

bool v8_constant_function(struct v8_reader *r, uint64_t maker, uint64_t bytecode,
                          struct v8_sfi *ret)
{
    struct elements e;
    uint64_t constants, element;
    if (!v8_slot(r, maker, r->layout->bytecode_constants, &constants) ||
        !elements_open(r, constants, &e))
        return false;
    while (e.at < CONSTANTS_MAX && elements_next(&e, &element)) {
        if (v8_is_pointer(element) && v8_is(r, element, r->layout->type_sfi) &&
            v8_sfi_bytecode(r, element) == bytecode && v8_sfi_read(r, element, ret))
            return true;
    }
    return false;
}

unsigned v8_constants_read(struct v8_reader *r, uint64_t maker)
{
    struct elements e;
    uint64_t constants, element;
    struct v8_sfi sfi;
    unsigned nr = 0;
    if (!v8_slot(r, maker, r->layout->bytecode_constants, &constants) ||
        !elements_open(r, constants, &e))
        return 1;
    while (e.at < CONSTANTS_MAX && elements_next(&e, &element)) {
        int32_t type = v8_is_pointer(element) ? v8_type(r, element) : 0;
        if (type == r->layout->type_sfi)
            (void)v8_sfi_read(r, element, &sfi);
        nr += type < 0 || type == r->layout->type_sfi;
    }
    return nr;
}
