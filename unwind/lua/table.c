/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/lua/table.h"

#include <string.h>

enum { TYPE_MASK = 0xf, HEAD_SIZE = 0x48, HEAD_SIZE_53 = 0x38, LOG2_NODES_MAX = 26 };

static bool is_nil(uint32_t tag)
{
    return (tag & TYPE_MASK) == LUA_TNIL;
}

/* ---- the head ------------------------------------------------------------------------------ */

/* Where the fields of a table are. The last free node follows the pointer to the nodes. */
struct form {
    uint16_t array, size_array, node, log2_nodes, metatable;
};

/* Forms that builds of one version have, beyond the one in its layout. No code of execute tells
 * them apart, but the pointer to the last free node does. Sources: lobject.h of 5.2.3, of 5.2.4,
 * and of the 5.1 in Redis 7, whose tables have a flag more. */
static const struct {
    uint8_t version;
    struct form form;
} other_forms[] = {
    {51, {.metatable = 0x18, .array = 0x20, .node = 0x28, .log2_nodes = 0x10, .size_array = 0x40}},
    {52, {.metatable = 0x10, .array = 0x18, .node = 0x20, .log2_nodes = 0xb, .size_array = 0x38}},
    {52, {.metatable = 0x28, .array = 0x10, .node = 0x18, .log2_nodes = 0xb, .size_array = 0xc}},
};

/* The number of places of the array. 5.4 keeps another limit there, if a flag says so: the number
 * of places is then the next power of two. */
static uint32_t array_places(const struct lua_layout *l, const struct form *f, const uint8_t *head)
{
    enum { IS_LIMIT = 0x80 };
    uint32_t nr = lua_u32(head, f->size_array);
    if (l->version != 54 || !(head[f->log2_nodes - 1] & IS_LIMIT) || nr < 2)
        return nr;
    return nr > UINT32_C(1) << 31 ? nr : UINT32_C(1) << (32 - __builtin_clz(nr - 1));
}

/* Do the fields agree with each other? */
static bool is_sound(const struct lua_layout *l, const struct lua_table *t, uint64_t last_free)
{
    const size_t node_size = l->fields.table.node_size;
    uint64_t at = last_free - t->nodes;
    if (!t->array != !t->nr_array || t->array % 8 || t->nodes % 8 || !t->nodes ||
        t->metatable % 8 || (t->metatable && t->metatable < 4096))
        return false;
    return l->version >= 55 || (l->version >= 53 && !last_free && t->nr_nodes == 1) ||
           (at <= t->nr_nodes * node_size && at % node_size == 0);
}

/* The size of a table without its parts. Forms with the number of places at their end are longer.
 */
static uint32_t size_of(const struct lua_layout *l, const struct form *f)
{
    enum { AT_END = 0x30, SINCE_52 = 0x38, SINCE_55 = 0x30 };
    if (f->size_array > AT_END)
        return f->size_array + 8u;
    return l->version >= 55 ? SINCE_55 : SINCE_52;
}

static bool take_head(const struct lua_layout *l, const struct form *f, const uint8_t *head,
                      uint64_t address, struct lua_table *ret)
{
    if (head[f->log2_nodes] > LOG2_NODES_MAX)
        return false;
    *ret = (struct lua_table){.address = address,
                              .array = lua_u64(head, f->array),
                              .nodes = lua_u64(head, f->node),
                              .metatable = lua_u64(head, f->metatable),
                              .nr_array = array_places(l, f, head),
                              .nr_nodes = UINT32_C(1) << head[f->log2_nodes],
                              .head_size = size_of(l, f)};
    return is_sound(l, ret, lua_u64(head, f->node + 8u));
}

bool lua_table_read(struct lua_reader *r, uint64_t address, struct lua_table *ret)
{
    const struct lua_layout *l = r->layout;
    const struct form own = {.array = l->fields.table.array,
                             .size_array = l->fields.table.size_array,
                             .node = l->fields.table.node,
                             .log2_nodes = l->fields.table.log2_nodes,
                             .metatable = l->fields.table.metatable};
    uint8_t head[HEAD_SIZE] = {0};
    size_t size = l->version <= 52 ? HEAD_SIZE : HEAD_SIZE_53;
    /* The greatest form is behind the end of a smaller one's table. */
    if (!lua_is_address(address) ||
        (!lua_read_moving(r, address, head, size) &&
         !lua_read_moving(r, address, head, HEAD_SIZE_53)) ||
        (head[LUA_OBJECT_TAG] & LUA_TAG_MASK) != LUA_TTABLE)
        return false;
    if (take_head(l, &own, head, address, ret))
        return true;
    for (size_t i = 0; i < sizeof(other_forms) / sizeof(*other_forms); i++)
        if (other_forms[i].version == l->version &&
            take_head(l, &other_forms[i].form, head, address, ret))
            return true;
    return false;
}

/* ---- fields -------------------------------------------------------------------------------- */

void lua_table_begin(struct lua_table_walk *w, const struct lua_table *t)
{
    w->table = *t;
    w->next = w->first = w->nr = 0;
}

/* Read as many elements from a place on as fit. */
static bool fill(struct lua_reader *r, struct lua_table_walk *w, uint64_t at, size_t element,
                 uint32_t place, uint32_t nr_places)
{
    size_t most = sizeof(w->bytes) / element;
    size_t nr = nr_places - place < most ? nr_places - place : most;
    w->first = w->next;
    w->nr = 0;
    if (at < 4096 || !lua_read_moving(r, at + (uint64_t)place * element, w->bytes, nr * element))
        return false;
    w->nr = (uint32_t)nr;
    return true;
}

/* 5.5: values stand below the array's address, in falling order; tags above it, behind a word. */
static bool split_value(struct lua_reader *r, const struct lua_table *t, uint32_t place,
                        struct lua_value *ret)
{
    uint8_t tag;
    uint64_t bits;
    if (!lua_read_moving(r, t->array + sizeof(uint32_t) + place, &tag, 1) ||
        !lua_read_moving(r, t->array - 8 * ((uint64_t)place + 1), &bits, sizeof(bits)))
        return false;
    *ret = (struct lua_value){bits, tag};
    return true;
}

/* Get what is in a place of the array. */
static bool array_value(struct lua_reader *r, struct lua_table_walk *w, struct lua_value *key,
                        struct lua_value *value)
{
    const struct lua_fields *f = &r->layout->fields;
    const uint32_t place = w->next;
    *key = (struct lua_value){place + UINT64_C(1), LUA_TAG_INDEX};
    if (f->table.split_array)
        return split_value(r, &w->table, place, value);
    if (place >= w->first + w->nr &&
        !fill(r, w, w->table.array, f->value_size, place, w->table.nr_array))
        return false;
    *value = lua_value_of(f, w->bytes + (size_t)(place - w->first) * f->value_size);
    return true;
}

/* Get what is in a node. */
static bool node_value(struct lua_reader *r, struct lua_table_walk *w, struct lua_value *key,
                       struct lua_value *value)
{
    const struct lua_fields *f = &r->layout->fields;
    const uint32_t place = w->next - w->table.nr_array;
    bool first = place == 0;
    if ((first || w->next >= w->first + w->nr) &&
        !fill(r, w, w->table.nodes, f->table.node_size, place, w->table.nr_nodes))
        return false;
    const uint8_t *node = w->bytes + (size_t)(w->next - w->first) * f->table.node_size;
    *value = lua_value_of(f, node + f->table.node_value);
    key->bits = lua_u64(node, f->table.node_key);
    key->tag =
        f->value_tag_size == 1 ? node[f->table.node_key_tag] : lua_u32(node, f->table.node_key_tag);
    return true;
}

bool lua_table_next(struct lua_reader *r, struct lua_table_walk *w, struct lua_value *key,
                    struct lua_value *value)
{
    const struct lua_table *t = &w->table;
    while (w->next < (uint64_t)t->nr_array + t->nr_nodes) {
        if (!(w->next < t->nr_array ? array_value : node_value)(r, w, key, value))
            return false;
        w->next++;
        if (!is_nil(value->tag) && !is_nil(key->tag))
            return true;
    }
    return false;
}

bool lua_value_is_text(struct lua_reader *r, struct lua_value v, const char *text)
{
    char buffer[32];
    size_t length = strlen(text);
    return (v.tag & TYPE_MASK) == LUA_TSTRING && v.tag < LUA_TAG_INDEX && length < sizeof(buffer) &&
           lua_string_read(r, v.bits, buffer, sizeof(buffer) - 1) == length &&
           memcmp(buffer, text, length) == 0;
}

bool lua_table_find(struct lua_reader *r, uint64_t table, const char *name, uint32_t nodes_max,
                    struct lua_value *ret)
{
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key;
    if (!lua_table_read(r, table, &t))
        return false;
    t.nr_array = 0; /* names are in nodes */
    lua_table_begin(&w, &t);
    while (w.next < nodes_max && lua_table_next(r, &w, &key, ret))
        if (lua_value_is_text(r, key, name))
            return true;
    return false;
}

uint64_t lua_table_name_of(struct lua_reader *r, uint64_t table, uint64_t of, uint32_t nodes_max)
{
    struct lua_table t;
    struct lua_table_walk w;
    struct lua_value key, value;
    if (!lua_table_read(r, table, &t))
        return 0;
    t.nr_array = 0; /* names are in nodes */
    lua_table_begin(&w, &t);
    while (w.next < nodes_max && lua_table_next(r, &w, &key, &value)) {
        if (lua_value_is_table(value) && value.bits == of && (key.tag & TYPE_MASK) == LUA_TSTRING)
            return key.bits;
    }
    return 0;
}
