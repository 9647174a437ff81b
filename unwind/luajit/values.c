/* SPDX-License-Identifier: GPL-2.0-only */
/* Values of Lua for a person: what a slot says, and what the object behind it is. */
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_proto.h"
#include "unwind/luajit/size.h"
#include "unwind/luajit/slot.h"
#include "unwind/luajit/variables.h"

#include <stdio.h>

enum {
    READS_MAX = 1 << 16,
    COUNTS_MAX = 1 << 22,
    STRING_READ_MAX = 4096,
};

/* ---- slots --------------------------------------------------------------------------------- */

static bool is_nil(const struct luajit_layout *l, uint64_t word)
{
    return luajit_slot_of(l, word).tag == LUAJIT_TAG_NIL;
}

/* ---- memory -------------------------------------------------------------------------------- */

static bool read_bytes(struct luajit_values *v, uint64_t address, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return v->reads && v->reads-- && memory_read(v->m, address, to, size, &ignored);
}

static bool read_ref(struct luajit_values *v, uint64_t address, uint64_t *ret)
{
    uint8_t bytes[8];
    if (!read_bytes(v, address, bytes, (size_t)v->layout->ref_size))
        return false;
    *ret = luajit_load_ref(v->layout, bytes);
    return true;
}

static bool has_type(struct luajit_values *v, uint64_t object, uint8_t wanted)
{
    uint8_t gct = 0;
    return object && read_bytes(v, object + (uint64_t)v->layout->gct, &gct, 1) && gct == wanted;
}

/* ---- strings and numbers ------------------------------------------------------------------- */

/* Read a string's first bytes. Returns how many; `length`: all of them. -1: it is no string. */
static int read_string(struct luajit_values *v, uint64_t object, char buffer[STRING_READ_MAX],
                       uint32_t *length)
{
    enum provenance ignored = PROVENANCE_EXACT;
    if (!v->reads ||
        !luajit_string_read(v->m, v->layout, object, buffer, STRING_READ_MAX, length, &ignored))
        return -1;
    v->reads--;
    return *length < STRING_READ_MAX - 1 ? (int)*length : STRING_READ_MAX - 1;
}

static void put_string(struct luajit_values *v, struct variable *of, uint64_t object)
{
    char buffer[STRING_READ_MAX];
    uint32_t length;
    int size = read_string(v, object, buffer, &length);
    if (size < 0)
        variable_set_unknown(of, "a string that cannot be read");
    else
        variable_set_string(v->out, of, buffer, (size_t)size, length);
    of->address = object;
}

/* ---- tables -------------------------------------------------------------------------------- */

static bool read_table(struct luajit_values *v, uint64_t object, struct luajit_table *ret)
{
    uint8_t head[LUAJIT_HEAD] = {0};
    return luajit_tables_known(v->layout) && has_type(v, object, LUAJIT_GCT_TAB) &&
           read_bytes(v, object, head, (size_t)v->layout->tab_hmask + sizeof(uint32_t)) &&
           luajit_table_of(v->layout, head, ret);
}

/* Count the words that are not nil among `nr`, `step` bytes apart. Returns false when some were not
 * counted. */
static bool count_words(struct luajit_values *v, uint64_t address, uint64_t nr, size_t step,
                        uint64_t *ret)
{
    uint8_t piece[LUAJIT_NODE * 128];
    const uint64_t in_piece = sizeof(piece) / step;
    for (uint64_t i = 0; i < nr; i += in_piece) {
        const uint64_t here = nr - i < in_piece ? nr - i : in_piece;
        if (v->counts < here || !read_bytes(v, address + i * step, piece, here * step))
            return false;
        v->counts -= here;
        for (uint64_t k = 0; k < here; k++)
            *ret += !is_nil(v->layout, load_u64(piece + k * step, false));
    }
    return true;
}

/* Find the metatable's field `__name`: the class. */
static void put_class(struct luajit_values *v, struct variable *of, uint64_t metatable)
{
    enum { NODES_MAX = 256 };
    static const char wanted[] = "__name";
    struct luajit_table t;
    uint64_t words[2];
    char buffer[STRING_READ_MAX];
    uint32_t length;
    if (!metatable || !read_table(v, metatable, &t))
        return;
    for (uint64_t i = 0; i < t.nr_nodes && i < NODES_MAX; i++) {
        if (!read_bytes(v, t.nodes + i * LUAJIT_NODE, words, sizeof(words)))
            return;
        struct luajit_slot value = luajit_slot_of(v->layout, words[0]),
                           key = luajit_slot_of(v->layout, words[1]);
        if (key.tag != LUAJIT_TAG_STR || value.tag != LUAJIT_TAG_STR ||
            read_string(v, key.object, buffer, &length) != (int)sizeof(wanted) - 1 ||
            memcmp(buffer, wanted, sizeof(wanted) - 1) != 0)
            continue;
        int size = read_string(v, value.object, buffer, &length);
        if (size > 0)
            variable_set_text(v->out, of, buffer,
                              (size_t)size < v->out->wanted.string_max ? (size_t)size
                                                                       : v->out->wanted.string_max);
        return;
    }
}

/* Add a field with the key in its slot's form. Returns NULL when there is no room. */
static struct variable *add_field(struct luajit_values *v, uint64_t key_word, unsigned depth)
{
    static const char *const words[] = {"nil",     "false",  "true",    "light userdata", "string",
                                        "upvalue", "thread", "proto",   "function",       "trace",
                                        "cdata",   "table",  "userdata"};
    char buffer[STRING_READ_MAX];
    uint32_t length;
    const struct luajit_slot key = luajit_slot_of(v->layout, key_word);
    struct variable *of = variables_add(v->out, VARIABLE_FIELD, depth);
    if (!of)
        return NULL;
    int size = key.tag == LUAJIT_TAG_STR ? read_string(v, key.object, buffer, &length) : -1;
    of->name_is_written = size < 0;
    if (size >= 0) {
        variable_set_name(v->out, of, buffer, (size_t)size);
        return of;
    }
    if (key.tag == LUAJIT_TAG_NUM)
        variable_write_number(buffer, VALUE_NUMBER, luajit_slot_number(&key));
    else if (key.tag == LUAJIT_TAG_INT)
        snprintf(buffer, sizeof(buffer), "%d", (int32_t)key.word);
    else if (key.tag <= LUAJIT_TAG_TRUE)
        snprintf(buffer, sizeof(buffer), "%s", words[key.tag]);
    else
        snprintf(buffer, sizeof(buffer), "%s: 0x%llx", words[key.tag],
                 (unsigned long long)key.object);
    variable_set_name(v->out, of, buffer, strlen(buffer));
    return of;
}

/* List the fields of a table that is the last variable of the list, at `index`. */
static void put_fields(struct luajit_values *v, const struct luajit_table *t, size_t index,
                       unsigned depth)
{
    unsigned left = v->out->wanted.fields_max;
    uint64_t words[2];
    for (uint64_t i = 0; left && i < t->asize; i++) {
        if (!read_bytes(v, t->array + i * LUAJIT_SLOT, words, LUAJIT_SLOT))
            break;
        if (is_nil(v->layout, words[0]))
            continue;
        struct variable *of = variables_add(v->out, VARIABLE_FIELD, depth);
        char name[24];
        if (!of)
            break;
        left--;
        of->name_is_written = true;
        snprintf(name, sizeof(name), "%llu", (unsigned long long)i);
        variable_set_name(v->out, of, name, strlen(name));
        luajit_value_put(v, of, words[0]);
    }
    for (uint64_t i = 0; left && i < t->nr_nodes; i++) {
        if (!read_bytes(v, t->nodes + i * LUAJIT_NODE, words, sizeof(words)))
            break;
        if (is_nil(v->layout, words[0]) || is_nil(v->layout, words[1]))
            continue;
        struct variable *of = add_field(v, words[1], depth);
        if (!of)
            break;
        left--;
        luajit_value_put(v, of, words[0]);
    }
    const struct variable *table = &v->out->at.at[index];
    uint64_t listed = v->out->wanted.fields_max - left;
    if (table->is_least || listed < table->array + table->fields)
        v->out->at.at[index].is_cut = true;
}

static void put_table(struct luajit_values *v, struct variable *of, uint64_t object)
{
    struct luajit_table t;
    const unsigned depth = of->depth;
    const size_t index = (size_t)(of - v->out->at.at);
    if (!read_table(v, object, &t)) {
        variable_set_unknown(of, "a table that cannot be read");
        of->address = object;
        return;
    }
    variable_set_object(of, VALUE_TABLE, "table", object);
    const bool array_counted = count_words(v, t.array, t.asize, LUAJIT_SLOT, &of->array);
    of->is_least = !count_words(v, t.nodes, t.nr_nodes, LUAJIT_NODE, &of->fields) || !array_counted;
    put_class(v, of, t.metatable);
    if (variables_wants_fields(v->out, depth))
        put_fields(v, &t, index, depth + 1);
    else
        of->is_cut = of->array + of->fields > 0 || of->is_least;
}

/* ---- functions and other objects ----------------------------------------------------------- */

/* Set where a Lua function is defined. */
static void put_site(struct luajit_values *v, struct variable *of, uint64_t proto)
{
    char file[PROTO_FILE_MAX], site[PROTO_FILE_MAX + 16];
    struct luajit_proto p;
    enum provenance ignored = PROVENANCE_EXACT;
    struct memory_span same = {0, UINT64_MAX};
    bool doubtful = false;
    if (!v->reads || !luajit_proto_read(v->m, v->layout, proto, &p))
        return;
    v->reads--;
    if (luajit_proto_file(&p, v->m, file, &ignored, &same, &doubtful)) {
        int size = p.head.firstline > 0
                       ? snprintf(site, sizeof(site), "%s:%d", file, p.head.firstline)
                       : snprintf(site, sizeof(site), "%s", file);
        variable_set_text(v->out, of, site, (size_t)size);
    }
    luajit_proto_free(&p);
}

static void put_function(struct luajit_values *v, struct variable *of, uint64_t object)
{
    const struct luajit_layout *l = v->layout;
    uint8_t ffid;
    uint64_t pc = 0;
    if (!has_type(v, object, LUAJIT_GCT_FUNC) ||
        !read_bytes(v, object + (uint64_t)l->func_ffid, &ffid, 1)) {
        variable_set_unknown(of, "a function that cannot be read");
        of->address = object;
        return;
    }
    variable_set_object(of, ffid ? VALUE_C_FUNCTION : VALUE_FUNCTION, "function", object);
    if (!ffid && read_ref(v, object + (uint64_t)l->func_pc, &pc))
        put_site(v, of, pc - (uint64_t)l->proto_size);
    else if (ffid == 1)
        read_bytes(v, object + (uint64_t)l->func_c, &of->native, sizeof(of->native));
    const struct luajit_builtins *b = ffid > 1 ? luajit_builtins_get(l->builtins) : NULL;
    if (b)
        variable_set_text(v->out, of, b->name[ffid], strnlen(b->name[ffid], BUILTIN_NAME_MAX));
}

static void put_userdata(struct luajit_values *v, struct variable *of, uint64_t object)
{
    /* Tables and userdata have their metatables at the same offset. The address of its own data is
     * what Lua shows. */
    const struct luajit_layout *l = v->layout;
    const uint64_t at = (uint64_t)(l->tab_node - l->ref_size);
    uint64_t metatable;
    variable_set_object(of, VALUE_USERDATA, "userdata", object + luajit_userdata_data(l));
    if (has_type(v, object, LUAJIT_GCT_UDATA) && read_ref(v, object + at, &metatable))
        put_class(v, of, metatable);
}

/* A cdata tells its type by number. 64-bit integers are told by their value, too: their numbers are
 * the same in every version (lj_ctype.h). */
static void put_cdata(struct luajit_values *v, struct variable *of, uint64_t object)
{
    enum { CTID_INT64 = 11, CTID_UINT64 = 12 };
    const struct luajit_layout *l = v->layout;
    uint16_t id;
    uint64_t value;
    char text[64];
    variable_set_object(of, VALUE_OTHER, "cdata", object);
    if (!read_bytes(v, object + (uint64_t)l->gct + 1, &id, sizeof(id)))
        return;
    snprintf(text, sizeof(text), "C type %u", id);
    if ((id == CTID_INT64 || id == CTID_UINT64) &&
        read_bytes(v, object + luajit_cdata_data(l), &value, sizeof(value)))
        snprintf(text, sizeof(text), id == CTID_INT64 ? "%lldLL" : "%lluULL",
                 (unsigned long long)value);
    variable_set_text(v->out, of, text, strlen(text));
}

/* Up to 2.0, a light userdata has its address in 47 bits. Later versions may keep the upper bits in
 * a table of the VM, and their number in the slot; and loops over a table keep their position in a
 * slot of this type. */
static void put_light(const struct luajit_values *v, struct variable *of, uint64_t word)
{
    const uint32_t position = 0xfffe7fff; /* upper half of the slot: LJ_KEYINDEX */
    if (word >> 32 == position)
        variable_set_unknown(of, "the position of a loop over a table");
    else if (v->layout->bytecode == LUAJIT_BC_20)
        variable_set_object(of, VALUE_POINTER, "light userdata", word & LUAJIT_REF_MASK);
    else
        variable_set_unknown(of, "a light userdata, whose address is encoded");
}

void luajit_values_begin(struct luajit_values *v, const struct memory *m,
                         const struct luajit_layout *l, struct variables *out)
{
    *v = (struct luajit_values){
        .m = m, .layout = l, .out = out, .reads = READS_MAX, .counts = COUNTS_MAX};
}

void luajit_value_put(struct luajit_values *v, struct variable *of, uint64_t word)
{
    const struct luajit_slot value = luajit_slot_of(v->layout, word);
    switch (value.tag) {
    case LUAJIT_TAG_NIL:
        variable_set_nil(of, "nil");
        break;
    case LUAJIT_TAG_FALSE:
    case LUAJIT_TAG_TRUE:
        variable_set_boolean(of, value.tag == LUAJIT_TAG_TRUE);
        break;
    case LUAJIT_TAG_LIGHTUD:
        put_light(v, of, word);
        break;
    case LUAJIT_TAG_STR:
        put_string(v, of, value.object);
        break;
    case LUAJIT_TAG_THREAD:
        variable_set_object(of, VALUE_THREAD, "thread", value.object);
        break;
    case LUAJIT_TAG_FUNC:
        put_function(v, of, value.object);
        break;
    case LUAJIT_TAG_CDATA:
        put_cdata(v, of, value.object);
        break;
    case LUAJIT_TAG_TAB:
        put_table(v, of, value.object);
        break;
    case LUAJIT_TAG_UDATA:
        put_userdata(v, of, value.object);
        break;
    case LUAJIT_TAG_INT:
        variable_set_integer(of, (int32_t)value.word);
        break;
    case LUAJIT_TAG_NUM:
        variable_set_number(of, VALUE_NUMBER, luajit_slot_number(&value));
        break;
    default:
        variable_set_unknown(of, "no value of Lua");
    }
}

void luajit_value_read(struct luajit_values *v, struct variable *of, uint64_t address)
{
    uint64_t word;
    enum provenance provenance = PROVENANCE_EXACT;
    if (!memory_read_moving(v->m, address, &word, sizeof(word), &provenance)) {
        variable_set_unknown(of, "not recorded");
        return;
    }
    if (provenance > of->provenance)
        of->provenance = (uint8_t)provenance;
    luajit_value_put(v, of, word);
}
