/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/lua/names_proto.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- reading ------------------------------------------------------------------------------- */

static struct memory_query of_object(const struct memory_query *q)
{
    struct memory_query object = *q;
    object.kind = MEMORY_OBJECT;
    object.alive = true;
    return object;
}

/* Note a question and its answer. */
static void note(struct lua_proof *p, const struct lua_asker *a, const struct memory_query *q,
                 const void *bytes, const struct memory_answer *answer)
{
    uint8_t *to = p->nr < LUA_ASKED_MAX && q->size <= LUA_CODE_COPY_MAX
                      ? realloc(p->bytes, p->size + q->size + 1)
                      : NULL;
    p->failed |= !to;
    if (!to)
        return;
    memcpy(to + p->size, bytes, q->size);
    p->asked[p->nr++] = (struct lua_asked){.address = q->address,
                                           .size = (uint32_t)q->size,
                                           .at = (uint32_t)p->size,
                                           .same = answer->same,
                                           .provenance = (uint8_t)answer->provenance,
                                           .is_behind = a->is_behind};
    p->bytes = to;
    p->size += q->size;
}

static bool ask(void *context, const struct memory_query *q, void *to, struct memory_answer *answer)
{
    struct lua_asker *a = context;
    const struct memory_query object = a->as_asked ? *q : of_object(q);
    bool got = memory_ask(a->real, &object, to, answer);
    if (got)
        memory_span_narrow(&a->same, &answer->same);
    else
        memory_span_empty(&a->same); /* it may be recorded for other times */
    if (a->proof && got)
        note(a->proof, a, q, to, answer);
    else if (a->proof)
        a->proof->failed = true;
    return got;
}

void lua_proof_free(struct lua_proof *p)
{
    free(p->bytes);
    *p = (struct lua_proof){0};
}

/* Ask a question again. Returns whether the answer is the same. */
static bool holds_anew(struct lua_asked *k, const uint8_t *bytes, const struct memory *m)
{
    const struct memory_query plain = {.address = k->address, .size = k->size, .time = m->time};
    const struct memory_query q = of_object(&plain);
    struct memory_answer answer;
    uint8_t small[512], *to = k->size <= sizeof(small) ? small : malloc(k->size);
    bool is = to && memory_ask(m, &q, to, &answer) && memcmp(to, bytes, k->size) == 0;
    if (is) {
        k->same = answer.same;
        k->provenance = (uint8_t)answer.provenance;
    }
    if (to != small)
        free(to);
    return is;
}

bool lua_proof_holds(struct lua_proof *p, const struct memory *m, uint8_t *weakest)
{
    for (struct lua_asked *k = p->asked; k < p->asked + p->nr; k++) {
        const uint8_t *bytes = p->bytes + k->at;
        const uint8_t *now = k->is_behind ? NULL : memory_piece(m, k->address, k->size, NULL);
        if (now) {
            if (memcmp(now, bytes, k->size) != 0)
                return false;
            continue;
        }
        bool is_kept = k->same.from <= m->time && m->time <= k->same.to &&
                       (k->is_behind || !memory_is_instant(m, k->address) ||
                        !memory_is_instant(m, k->address + k->size - 1));
        if (!is_kept && !holds_anew(k, bytes, m))
            return false;
        *weakest = k->provenance > *weakest ? k->provenance : *weakest;
    }
    return !p->failed;
}

void lua_asker_begin(struct lua_asker *a, const struct memory *m, const struct lua_layout *l,
                     uint32_t budget)
{
    *a = (struct lua_asker){.same = {0, UINT64_MAX},
                            .real = m,
                            .layer = {.when = MEMORY_OF_ANY_TIME, .read = ask, .context = a}};
    a->memory = (struct memory){.time = m->time, .layers = &a->layer, .nr_layers = 1};
    a->reader = (struct lua_reader){.m = &a->memory, .layout = l, .budget = budget};
}

/* The address, and the sizes of all elements and of one, of a part. */
static uint64_t part_of(const struct lua_proto *p, const struct lua_layout *l, enum lua_part part,
                        uint32_t *nr, size_t *element)
{
    enum { INSTRUCTION = 4, LINE = 4, ABSOLUTE_LINE = 8, VARIABLE = 16, POINTER = 8 };
    const struct {
        uint64_t at;
        uint32_t nr;
        size_t element;
    } parts[LUA_NR_PARTS] = {
        [LUA_PART_CODE] = {p->code, p->nr_code, INSTRUCTION},
        [LUA_PART_K] = {p->k, p->nr_k, l->fields.value_size},
        [LUA_PART_LINES] = {p->lineinfo, p->nr_lineinfo, l->fields.proto.signed_lines ? 1 : LINE},
        [LUA_PART_ABSLINES] = {p->abslineinfo, p->nr_abslineinfo, ABSOLUTE_LINE},
        [LUA_PART_LOCALS] = {p->locvars, p->nr_locvars, VARIABLE},
        [LUA_PART_UPVALUES] = {p->upvalues, p->nr_upvalues, l->fields.proto.upvalue_size},
        [LUA_PART_PROTOS] = {p->protos, p->nr_protos, POINTER},
    };
    *nr = parts[part].nr;
    *element = parts[part].element;
    return parts[part].at;
}

/* Give each part its place in the copy. Returns the bytes of all; 0: too many. */
static size_t place_parts(struct lua_code *c)
{
    size_t size = 0;
    for (unsigned i = 0; i < LUA_NR_PARTS; i++) {
        uint32_t nr;
        size_t element;
        part_of(&c->proto, c->layout, (enum lua_part)i, &nr, &element);
        c->at[i] = size;
        size += nr * element;
        size = (size + 7) & ~(size_t)7;
        if (size > LUA_CODE_COPY_MAX)
            return 0;
    }
    return size;
}

static void read_parts(struct lua_asker *a, struct lua_code *c)
{
    for (unsigned i = 0; i < LUA_NR_PARTS; i++) {
        uint32_t nr;
        size_t element;
        uint64_t at = part_of(&c->proto, c->layout, (enum lua_part)i, &nr, &element);
        a->is_behind = i != LUA_PART_LINES && i != LUA_PART_ABSLINES;
        if (nr && at && lua_read(&a->reader, at, c->copy + c->at[i], nr * element))
            c->nr[i] = nr;
    }
    a->is_behind = false;
}

static const uint8_t *element_of(const struct lua_code *c, enum lua_part part, uint32_t index)
{
    uint32_t nr;
    size_t element;
    if (index >= c->nr[part])
        return NULL;
    part_of(&c->proto, c->layout, part, &nr, &element);
    return c->copy + c->at[part] + index * element;
}

/* Can a compiler have written this constant? */
static bool is_constant(const struct lua_code *c, uint32_t index)
{
    enum { TYPE_MASK = 0xf };
    const struct lua_value v = lua_value_of(&c->layout->fields, element_of(c, LUA_PART_K, index));
    switch (v.tag & TYPE_MASK) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
        return true;
    case LUA_TSTRING:
        return lua_is_address(v.bits);
    default:
        return false;
    }
}

/* Are the parts such as a compiler writes? A chunk that ran once and was loaded again is dead soon:
 * its head may be as it was when others already have the memory of its parts. */
static bool are_parts_sound(const struct lua_code *c)
{
    enum { LINE_MAX = 1 << 24 };
    const uint32_t nr_code = c->nr[LUA_PART_CODE];
    bool sound = !nr_code || lua_code_insn(c, nr_code - 1).op == LUA_OP_RETURN;
    for (uint32_t i = 0; i < c->nr[LUA_PART_K] && sound; i++)
        sound = is_constant(c, i);
    for (uint32_t i = 0; i < c->nr[LUA_PART_PROTOS] && sound; i++)
        sound = lua_is_address(lua_code_child(c, i));
    const bool has_whole_lines = !c->layout->fields.proto.signed_lines;
    for (uint32_t i = 0; has_whole_lines && i < c->nr[LUA_PART_LINES] && sound; i++)
        sound = lua_u32(element_of(c, LUA_PART_LINES, i), 0) - 1 < LINE_MAX;
    return sound;
}

int lua_code_read(struct lua_asker *a, uint64_t address, struct lua_code *ret)
{
    *ret = (struct lua_code){.layout = a->reader.layout};
    if (!lua_proto_read(&a->reader, address, &ret->proto))
        return 0;
    size_t size = place_parts(ret);
    if (!size)
        return 1;
    ret->copy = calloc(1, size);
    if (!ret->copy)
        return -1;
    read_parts(a, ret);
    if (!are_parts_sound(ret))
        memset(ret->nr, 0, sizeof(ret->nr));
    return 1;
}

void lua_code_free(struct lua_code *c)
{
    free(c->copy);
    c->copy = NULL;
}

size_t lua_code_size(const struct lua_code *c)
{
    uint32_t nr;
    size_t element;
    part_of(&c->proto, c->layout, LUA_PART_PROTOS, &nr, &element);
    return c->copy ? c->at[LUA_PART_PROTOS] + nr * element : 0;
}

/* Field by field: between them are bytes without meaning. */
static bool is_same_proto(const struct lua_proto *a, const struct lua_proto *b)
{
    return a->address == b->address && a->k == b->k && a->code == b->code &&
           a->lineinfo == b->lineinfo && a->abslineinfo == b->abslineinfo &&
           a->locvars == b->locvars && a->upvalues == b->upvalues && a->protos == b->protos &&
           a->source == b->source && a->nr_k == b->nr_k && a->nr_code == b->nr_code &&
           a->nr_lineinfo == b->nr_lineinfo && a->nr_abslineinfo == b->nr_abslineinfo &&
           a->nr_locvars == b->nr_locvars && a->nr_upvalues == b->nr_upvalues &&
           a->nr_protos == b->nr_protos && a->line_defined == b->line_defined &&
           a->last_line_defined == b->last_line_defined && a->nr_params == b->nr_params;
}

bool lua_code_check_head(struct lua_reader *r, const struct lua_code *c)
{
    struct lua_proto now;
    return lua_proto_read(r, c->proto.address, &now) && is_same_proto(&now, &c->proto);
}

int lua_code_check(struct lua_asker *a, const struct lua_code *c)
{
    struct lua_code now;
    int read = lua_code_read(a, c->proto.address, &now);
    if (read <= 0)
        return read;
    bool same = is_same_proto(&now.proto, &c->proto) && !now.copy == !c->copy &&
                memcmp(now.nr, c->nr, sizeof(c->nr)) == 0 &&
                (!c->copy || memcmp(now.copy, c->copy, lua_code_size(c)) == 0);
    lua_code_free(&now);
    return same;
}

/* ---- code and lines ------------------------------------------------------------------------ */

struct lua_insn lua_code_insn(const struct lua_code *c, uint32_t index)
{
    const uint8_t *at = element_of(c, LUA_PART_CODE, index);
    return at ? lua_insn_decode(lua_u32(at, 0), c->layout->version)
              : (struct lua_insn){.event = LUA_EVENT_NONE};
}

/* Find the last absolute line at or before an instruction. Without one, lines count from the
 * definition, before the first instruction. */
static void absolute_line(const struct lua_code *c, uint32_t index, int64_t *from, int64_t *line)
{
    uint32_t low = 0, high = c->nr[LUA_PART_ABSLINES];
    *from = -1;
    *line = c->proto.line_defined;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const uint8_t *e = element_of(c, LUA_PART_ABSLINES, middle);
        if (lua_u32(e, 0) > index) {
            high = middle;
        } else {
            *from = lua_u32(e, 0);
            *line = lua_u32(e, 4);
            low = middle + 1;
        }
    }
}

uint32_t lua_code_line(const struct lua_code *c, uint32_t index)
{
    int64_t from, line;
    const uint8_t *at = element_of(c, LUA_PART_LINES, index);
    if (index == UINT32_MAX && c->nr[LUA_PART_LINES])
        return c->proto.line_defined;
    if (!at)
        return 0;
    if (c->layout->fields.proto.signed_lines) {
        absolute_line(c, index, &from, &line);
        for (const uint8_t *step = at - (index - from) + 1; step <= at; step++)
            line += (int8_t)*step;
    } else {
        line = (int32_t)lua_u32(at, 0);
    }
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

uint64_t lua_code_child(const struct lua_code *c, uint32_t index)
{
    const uint8_t *at = element_of(c, LUA_PART_PROTOS, index);
    return at ? lua_u64(at, 0) : 0;
}

/* ---- names --------------------------------------------------------------------------------- */

/* A name is text without control characters. */
static const char *as_name(struct lua_asker *a, uint64_t string, char *buffer)
{
    size_t length = string ? lua_string_read(&a->reader, string, buffer, LUA_NAME_SIZE - 1) : 0;
    if (length == 0 || length >= LUA_NAME_SIZE)
        return NULL;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)buffer[i] < ' ' || buffer[i] == 0x7f)
            return NULL;
    return buffer;
}

enum { VARIABLE_START = 8, VARIABLE_END = 12 };

const char *lua_code_variable(struct lua_asker *a, const struct lua_code *c, uint32_t number,
                              uint32_t *first, uint32_t *end, char *buffer)
{
    const uint8_t *at = element_of(c, LUA_PART_LOCALS, number);
    if (!at)
        return NULL;
    *first = lua_u32(at, VARIABLE_START);
    *end = lua_u32(at, VARIABLE_END);
    return as_name(a, lua_u64(at, 0), buffer);
}

const char *lua_code_local(struct lua_asker *a, const struct lua_code *c, uint32_t reg,
                           uint32_t index, uint32_t *budget, char *buffer)
{
    for (uint32_t i = 0; i < c->nr[LUA_PART_LOCALS] && *budget; i++) {
        const uint8_t *at = element_of(c, LUA_PART_LOCALS, i);
        --*budget;
        if (lua_u32(at, VARIABLE_START) > index)
            return NULL;
        if (index < lua_u32(at, VARIABLE_END) && reg-- == 0)
            return as_name(a, lua_u64(at, 0), buffer);
    }
    return NULL;
}

const char *lua_code_upvalue(struct lua_asker *a, const struct lua_code *c, uint32_t index,
                             char *buffer)
{
    const uint8_t *at = element_of(c, LUA_PART_UPVALUES, index);
    return at ? as_name(a, lua_u64(at, 0), buffer) : NULL;
}

const char *lua_code_string(struct lua_asker *a, const struct lua_code *c, uint32_t index,
                            char *buffer)
{
    enum { TYPE_MASK = 0xf };
    const uint8_t *at = element_of(c, LUA_PART_K, index);
    if (!at)
        return NULL;
    struct lua_value v = lua_value_of(&c->layout->fields, at);
    return (v.tag & TYPE_MASK) == LUA_TSTRING ? as_name(a, v.bits, buffer) : NULL;
}

/* ---- telling apart ------------------------------------------------------------------------- */

static uint64_t code_hash(const struct lua_code *c)
{
    uint64_t h = hash_combine(c->proto.nr_code,
                              c->proto.last_line_defined - (uint64_t)c->proto.line_defined);
    h = hash_combine(h, (uint64_t)c->proto.nr_k << 32 | c->proto.nr_protos);
    if (c->nr[LUA_PART_CODE])
        h = hash_combine(
            h, hash_bytes(c->copy + c->at[LUA_PART_CODE], 4 * (size_t)c->nr[LUA_PART_CODE]));
    return h;
}

/* Hash the contents of the constants. The addresses of strings say nothing, because a file may be
 * loaded many times. */
static uint64_t constants_hash(struct lua_asker *a, const struct lua_code *c, uint64_t h)
{
    char buffer[LUA_NAME_SIZE];
    for (uint32_t i = 0; i < c->nr[LUA_PART_K]; i++) {
        struct lua_value v = lua_value_of(&c->layout->fields, element_of(c, LUA_PART_K, i));
        const char *string = lua_code_string(a, c, i, buffer);
        bool is_number = (v.tag & 0xf) == LUA_TNUMBER;
        h = hash_combine(h, string ? hash_bytes(string, strlen(string)) : is_number ? v.bits : 0);
    }
    return h;
}

/* `left`: number of inner functions that may still be read. */
static uint64_t hash_with_twins(struct lua_asker *a, const struct lua_code *c, unsigned *left)
{
    uint64_t h = code_hash(c);
    if (c->proto.line_defined == c->proto.last_line_defined)
        h = constants_hash(a, c, h);
    for (uint32_t i = 0; i < c->nr[LUA_PART_PROTOS] && *left; i++) {
        struct lua_code child;
        struct lua_proto head;
        if (!lua_proto_read(&a->reader, lua_code_child(c, i), &head) ||
            head.line_defined != c->proto.line_defined ||
            lua_code_read(a, head.address, &child) <= 0)
            continue;
        --*left;
        h = hash_combine(h, hash_with_twins(a, &child, left));
        lua_code_free(&child);
    }
    return h;
}

uint64_t lua_code_hash(struct lua_asker *a, const struct lua_code *c)
{
    unsigned left = 16;
    return c->proto.line_defined ? hash_with_twins(a, c, &left) : code_hash(c);
}

uint64_t lua_code_place(const struct lua_code *c)
{
    const struct lua_proto *p = &c->proto;
    const uint32_t sizes[] = {p->nr_code,     p->nr_k,           p->nr_protos,
                              p->nr_lineinfo, p->nr_abslineinfo, p->nr_locvars,
                              p->nr_upvalues, p->nr_params,      p->last_line_defined};
    return hash_bytes(sizes, sizeof(sizes));
}

/* ---- chunk names --------------------------------------------------------------------------- */

/* Lua's rule for source text (LUA_IDSIZE 60): the first line, if it is all of the text and shorter
 * than 45 bytes (5.1: 44); else at most that many bytes of it, and three dots. */
static void source_text(const char *source, size_t length, unsigned version, char *out)
{
    size_t whole = version == 51 ? 43 : 44, cut = version == 51 ? 43 : 45;
    size_t line = strcspn(source, version == 51 ? "\n\r" : "\n");
    bool all = line == length && length <= whole;
    size_t shown = all || line < cut ? line : cut;
    snprintf(out, LUA_FILE_SIZE, "[string \"%.*s%s\"]", (int)shown, source, all ? "" : "...");
}

bool lua_code_file(struct lua_asker *a, const struct lua_code *c, char *buffer)
{
    char source[LUA_FILE_SIZE - 16];
    if (!c->proto.source) {
        snprintf(buffer, LUA_FILE_SIZE, "?");
        return true;
    }
    size_t length = lua_string_read(&a->reader, c->proto.source, source, sizeof(source) - 1);
    if (length == SIZE_MAX)
        return false;
    if (*source == '@' || *source == '=') /* a NUL inside ends the name, as in Lua's messages */
        snprintf(buffer, LUA_FILE_SIZE, "%s%s", source + 1, length >= sizeof(source) ? "..." : "");
    else
        source_text(source, length, c->layout->version, buffer);
    return true;
}
