/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading the objects of a plain Lua. See object.h. */
#include "unwind/lua/object.h"

#include "base/hash.h"

#include <string.h>

/* Of an object that the collector knows, what is behind its type and the collector's own byte. The
 * collector writes that byte and the link before the type all the time: readings of other moments
 * differ by them, so they are not asked for. */
enum { OBJECT_BODY = 10 };

bool lua_read(struct lua_reader *r, uint64_t address, void *to, size_t size)
{
    if (!r->budget)
        return false;
    r->budget--;
    return memory_read(r->m, address, to, size, &r->provenance);
}

bool lua_read_moving(struct lua_reader *r, uint64_t address, void *to, size_t size)
{
    if (!r->budget)
        return false;
    r->budget--;
    const uint8_t *piece = memory_piece(r->m, address, size, NULL);
    if (!piece)
        return memory_read_moving(r->m, address, to, size, &r->provenance);
    memcpy(to, piece, size);
    return true;
}

const uint8_t *lua_take_anew(struct lua_reader *r, struct lua_window *w, uint64_t address,
                             void *copy, size_t size)
{
    struct memory_piece found;
    if (!r->budget)
        return NULL;
    r->budget--;
    const uint8_t *piece = memory_piece(r->m, address, size, &found);
    if (piece) {
        *w = (struct lua_window){found.start, found.size, piece - (address - found.start)};
        return piece;
    }
    return memory_read_moving(r->m, address, copy, size, &r->provenance) ? copy : NULL;
}

struct lua_value lua_value_of(const struct lua_fields *f, const uint8_t *bytes)
{
    struct lua_value v = {.bits = lua_u64(bytes, 0)};
    v.tag = f->value_tag_size == 1 ? bytes[f->value_tag] : lua_u32(bytes, f->value_tag);
    return v;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* How objects of a function are read. */
struct asker {
    struct lua_reader *r;
    bool alive;          /* the sample shows that the function was alive */
    bool by_one_reading; /* see struct memory_answer */
    enum provenance provenance;
    struct memory_span same;
};

static bool ask(struct asker *a, uint64_t address, void *to, size_t size)
{
    const struct memory *m = a->r->m;
    const struct memory_query q = {.address = address,
                                   .size = size,
                                   .time = m->time,
                                   .kind = a->alive ? MEMORY_OBJECT : MEMORY_DATA,
                                   .alive = a->alive};
    struct memory_answer answer;
    if (!a->r->budget)
        return false;
    a->r->budget--;
    if (!memory_ask(m, &q, to, &answer))
        return false;
    if (answer.provenance > a->provenance)
        a->provenance = answer.provenance;
    a->by_one_reading |= answer.by_one_reading;
    memory_span_narrow(&a->same, &answer.same);
    return true;
}

/* The same for the head of an object that the collector knows. Returns the bytes, which may be in
 * `copy`; NULL: they are not recorded. */
static const uint8_t *ask_head(struct asker *a, uint64_t address, uint8_t *copy, size_t size)
{
    const struct memory *m = a->r->m;
    const uint8_t *piece = memory_piece(m, address, size, NULL);
    if (piece) { /* it came with the sample: exact, for this time alone */
        memory_span_narrow(&a->same, &(struct memory_span){m->time, m->time});
        return piece;
    }
    memset(copy, 0, OBJECT_BODY);
    bool is = ask(a, address + LUA_OBJECT_TAG, copy + LUA_OBJECT_TAG, 1) &&
              ask(a, address + OBJECT_BODY, copy + OBJECT_BODY, size - OBJECT_BODY);
    return is ? copy : NULL;
}

static bool read_head(struct lua_reader *r, uint64_t address, uint8_t *to, size_t size)
{
    if (memory_piece(r->m, address, size, NULL))
        return lua_read(r, address, to, size);
    memset(to, 0, OBJECT_BODY);
    return lua_read(r, address + LUA_OBJECT_TAG, to + LUA_OBJECT_TAG, 1) &&
           lua_read(r, address + OBJECT_BODY, to + OBJECT_BODY, size - OBJECT_BODY);
}

/* Read where a prototype's code is. */
static void code_of(struct asker *a, struct lua_function *f)
{
    const struct lua_fields *l = &a->r->layout->fields;
    uint8_t copy[LUA_PROTO_MAX];
    const uint8_t *bytes = ask_head(a, f->proto, copy, l->proto.size);
    if (!bytes || (bytes[LUA_OBJECT_TAG] & LUA_TAG_MASK) != l->proto.tag)
        return;
    uint32_t nr = lua_u32(bytes, l->proto.size_code);
    f->nr_code = nr <= LUA_CODE_MAX ? nr : 0;
    f->code = f->nr_code ? lua_u64(bytes, l->proto.code) : 0;
}

static bool closure_read(struct asker *a, uint64_t address, uint8_t tag, struct lua_function *ret)
{
    const struct lua_fields *f = &a->r->layout->fields;
    uint8_t copy[LUA_CLOSURE_HEAD];
    const uint8_t *head =
        lua_is_address(address) ? ask_head(a, address, copy, LUA_CLOSURE_HEAD) : NULL;
    if (!head)
        return false;
    bool told = f->closure.is_c != LUA_NO_FIELD;
    bool is_c = told ? head[f->closure.is_c] != 0 : tag == f->closure.tag_c;
    /* With a byte that tells, the object's own tag tells nothing. */
    uint8_t own = told ? f->closure.tag_lua : tag;
    uint64_t function = lua_u64(head, f->closure.function);
    if ((head[LUA_OBJECT_TAG] & LUA_TAG_MASK) != own || !function)
        return false;
    *ret = (struct lua_function){.kind = is_c ? LUA_FUNCTION_C : LUA_FUNCTION_LUA,
                                 .closure = address,
                                 .proto = is_c ? 0 : function,
                                 .native = is_c ? function : 0,
                                 .nr_upvalues = head[f->closure.nr_upvalues]};
    if (!is_c && lua_is_address(function))
        code_of(a, ret);
    ret->provenance = (uint8_t)a->provenance;
    ret->by_one_reading = a->by_one_reading;
    return is_c || lua_is_address(function);
}

static const struct lua_function none = {.kind = LUA_FUNCTION_NONE};

static bool function_of(struct lua_reader *r, struct lua_value v, bool alive,
                        struct memory_span *same, struct lua_function *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    struct asker a = {.r = r, .alive = alive, .same = {0, UINT64_MAX}};
    uint32_t tag = v.tag & LUA_TAG_MASK;
    *ret = none;
    *same = (struct memory_span){0, UINT64_MAX};
    if (tag == f->closure.tag_light && v.bits) {
        ret->kind = LUA_FUNCTION_C;
        ret->native = v.bits;
        return true;
    }
    bool is = (tag == f->closure.tag_lua || tag == f->closure.tag_c) &&
              closure_read(&a, v.bits, (uint8_t)tag, ret);
    if (!is)
        *ret = none;
    *same = a.same;
    return is;
}

bool lua_function_of(struct lua_reader *r, struct lua_value v, struct lua_function *ret)
{
    struct memory_span same;
    bool is = function_of(r, v, false, &same, ret);
    if (ret->provenance > r->provenance)
        r->provenance = (enum provenance)ret->provenance;
    return is;
}

bool lua_called_function(struct lua_reader *r, struct lua_value v, struct lua_function *ret)
{
    struct memory_span same;
    if (!r->closures || (v.tag & LUA_TAG_MASK) == r->layout->fields.closure.tag_light)
        return function_of(r, v, true, &same, ret);
    __typeof__(&r->closures->at[0]) k = &r->closures->at[hash_u64(v.bits) % LUA_CLOSURES_KEPT];
    const uint64_t time = r->m->time;
    if (k->function.closure == v.bits && k->space == r->space && k->layout == r->layout &&
        k->tag == v.tag && k->valid.from <= time && time <= k->valid.to && k->function.kind) {
        *ret = k->function;
        return true;
    }
    bool is = function_of(r, v, true, &same, ret);
    if (is && ret->closure) {
        k->function = *ret;
        k->layout = r->layout;
        k->space = r->space;
        k->tag = v.tag;
        k->valid = same;
    }
    return is;
}

uint64_t lua_main_thread(struct lua_reader *r, uint64_t global)
{
    const struct lua_fields *f = &r->layout->fields;
    uint64_t thread = 0;
    if (f->global.main_thread == LUA_NO_FIELD)
        return 0;
    if (f->global.main_is_embedded)
        return global + f->global.main_thread;
    return lua_read(r, global + f->global.main_thread, &thread, sizeof(thread)) ? thread : 0;
}

/* ---- prototypes ---------------------------------------------------------------------------- */

static uint32_t count_at(const uint8_t *bytes, uint16_t at)
{
    return at == LUA_NO_FIELD ? 0 : lua_u32(bytes, at);
}

static uint64_t address_at(const uint8_t *bytes, uint16_t at)
{
    return at == LUA_NO_FIELD ? 0 : lua_u64(bytes, at);
}

/* The sizes and the order of lines are of one function, as a compiler of Lua writes them. */
static bool is_sound(const struct lua_fields *f, const struct lua_proto *p)
{
    bool lines = p->nr_lineinfo == 0 || p->nr_lineinfo == p->nr_code;
    return lua_is_address(p->code - p->code % 8) && p->code % 4 == 0 && p->nr_code &&
           p->nr_code <= LUA_CODE_MAX && lines && p->nr_k <= LUA_CODE_MAX &&
           p->nr_protos <= LUA_CODE_MAX && p->nr_locvars <= LUA_CODE_MAX &&
           p->nr_abslineinfo <= p->nr_code && p->nr_upvalues <= 255 &&
           p->line_defined <= INT32_MAX &&
           (p->last_line_defined >= p->line_defined || f->proto.last_line_defined == LUA_NO_FIELD ||
            p->line_defined == 0 || p->last_line_defined == 0);
}

bool lua_proto_of(const struct lua_layout *layout, uint64_t address, const uint8_t *bytes,
                  struct lua_proto *ret)
{
    const struct lua_fields *f = &layout->fields;
    if ((bytes[LUA_OBJECT_TAG] & LUA_TAG_MASK) != f->proto.tag)
        return false;
    *ret = (struct lua_proto){
        .address = address,
        .k = lua_u64(bytes, f->proto.k),
        .code = lua_u64(bytes, f->proto.code),
        .lineinfo = lua_u64(bytes, f->proto.lineinfo),
        .abslineinfo = address_at(bytes, f->proto.abslineinfo),
        .locvars = lua_u64(bytes, f->proto.locvars),
        .upvalues = lua_u64(bytes, f->proto.upvalues),
        .protos = lua_u64(bytes, f->proto.protos),
        .source = lua_u64(bytes, f->proto.source),
        .nr_k = lua_u32(bytes, f->proto.size_k),
        .nr_code = lua_u32(bytes, f->proto.size_code),
        .nr_lineinfo = lua_u32(bytes, f->proto.size_lineinfo),
        .nr_abslineinfo = count_at(bytes, f->proto.size_abslineinfo),
        .nr_locvars = lua_u32(bytes, f->proto.size_locvars),
        .nr_upvalues = lua_u32(bytes, f->proto.size_upvalues),
        .nr_protos = lua_u32(bytes, f->proto.size_protos),
        .line_defined = lua_u32(bytes, f->proto.line_defined),
        .last_line_defined = count_at(bytes, f->proto.last_line_defined),
        .nr_params = bytes[f->proto.nr_params],
        .is_vararg = bytes[f->proto.is_vararg],
    };
    return is_sound(f, ret);
}

bool lua_proto_read(struct lua_reader *r, uint64_t address, struct lua_proto *ret)
{
    const size_t size = r->layout->fields.proto.size;
    uint8_t bytes[LUA_PROTO_MAX];
    return lua_is_address(address) && size <= sizeof(bytes) && read_head(r, address, bytes, size) &&
           lua_proto_of(r->layout, address, bytes, ret);
}

/* ---- userdata ------------------------------------------------------------------------------ */

uint64_t lua_userdata_head(struct lua_reader *r, uint64_t address)
{
    enum { NR_VALUES = 0xa, OLD_HEAD = 0x28, HEAD = 0x20, HEAD_WITH_VALUES = 0x28, VALUE = 16 };
    uint8_t nr[2];
    if (r->layout->version < 54 || !lua_read(r, address + NR_VALUES, nr, sizeof(nr)))
        return OLD_HEAD;
    uint64_t values = nr[0] | (uint64_t)nr[1] << 8;
    return values ? HEAD_WITH_VALUES + VALUE * values : HEAD;
}

/* ---- strings ------------------------------------------------------------------------------- */

enum { STRING_HEAD = 0x20, STRING_LENGTH_MAX = 1 << 30, SHORT_MAX = 40 };

/* Where a string's text is, and its length. */
struct text_place {
    uint64_t at, size;
};

static bool ends_with_zero(struct lua_reader *r, struct text_place p)
{
    uint8_t end;
    return p.size <= STRING_LENGTH_MAX && lua_read(r, p.at + p.size, &end, 1) && end == 0;
}

/* In Lua 5.3.0 the header has 32 bytes and all strings have a word for their length; in 5.3.1 it is
 * as later. No code of execute tells the two apart, but the file's own text does, or the zero
 * behind the string's text. */
static bool place_in_53(struct lua_reader *r, uint64_t address, const uint8_t *head, bool is_short,
                        struct text_place *ret)
{
    uint64_t length = lua_u64(head, 0x10);
    const struct text_place early = {address + 0x20, length};
    const struct text_place later = {address + 0x18, is_short ? head[0xb] : length};
    if (*r->layout->release) {
        *ret = strcmp(r->layout->release, "5.3.0") == 0 ? early : later;
        return true;
    }
    bool short_enough = !is_short || length <= SHORT_MAX;
    if (!is_short && ends_with_zero(r, later)) {
        *ret = later;
        return true;
    }
    *ret = short_enough && ends_with_zero(r, early) ? early : later;
    return true;
}

static bool place_of(struct lua_reader *r, uint64_t address, struct text_place *ret)
{
    const struct lua_fields *f = &r->layout->fields;
    uint8_t head[STRING_HEAD];
    if (!lua_is_address(address) || !read_head(r, address, head, STRING_HEAD))
        return false;
    uint8_t tag = head[LUA_OBJECT_TAG] & LUA_TAG_MASK;
    if (tag != f->string.short_tag && tag != f->string.long_tag)
        return false;
    bool is_short = f->string.short_length != LUA_NO_FIELD && tag == f->string.short_tag;
    if (r->layout->version == 53 && f->ci.fresh_if_clear)
        return place_in_53(r, address, head, tag == f->string.short_tag, ret);
    ret->size = is_short ? head[f->string.short_length] : lua_u64(head, f->string.length);
    ret->at = address + f->string.text;
    if (f->string.long_is_pointer && !is_short)
        ret->at = lua_u64(head, f->string.text);
    return true;
}

size_t lua_string_place(struct lua_reader *r, uint64_t address, uint64_t *text)
{
    struct text_place p;
    if (!place_of(r, address, &p) || p.size > STRING_LENGTH_MAX)
        return SIZE_MAX;
    *text = p.at;
    return p.size;
}

size_t lua_string_read(struct lua_reader *r, uint64_t address, char *to, size_t size)
{
    struct text_place p;
    if (!place_of(r, address, &p) || p.size > STRING_LENGTH_MAX)
        return SIZE_MAX;
    size_t nr = p.size < size ? p.size : size;
    if (nr && !lua_read(r, p.at, to, nr))
        return SIZE_MAX;
    to[nr] = 0;
    return p.size;
}
