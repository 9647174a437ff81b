/* SPDX-License-Identifier: GPL-2.0-only */
/* What an object of a LuaJIT heap is, in words. */
#include "unwind/luajit/census_internal.h"

#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_proto.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME = 64, CLASSES_MAX = 4096 /* that are looked for in the registry */ };

bool luajit_heap_string(void *heap, uint64_t address, size_t max, struct text *out)
{
    const struct luajit_heap *h = heap;
    enum provenance ignored = PROVENANCE_EXACT;
    char *bytes = malloc(max + 1);
    uint32_t length = 0;
    bool is = bytes && luajit_string_read(h->m, h->l, address, bytes, max + 1, &length, &ignored);
    if (is)
        text_bytes(out, bytes, length < max ? length : max);
    free(bytes);
    return is;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* Returns where a prototype is defined; "": not known. */
static const char *site_of(struct luajit_heap *h, uint64_t proto)
{
    char file[PROTO_FILE_MAX], site[PROTO_FILE_MAX + 16] = "";
    struct luajit_proto p;
    enum provenance ignored = PROVENANCE_EXACT;
    struct memory_span same = {0, UINT64_MAX};
    bool doubtful = false;
    char *known = table_get(&h->names.sites, proto);
    if (known)
        return known;
    if (!luajit_proto_read(h->m, h->l, proto, &p))
        return "";
    if (luajit_proto_file(&p, h->m, file, &ignored, &same, &doubtful)) {
        if (p.head.firstline > 0)
            snprintf(site, sizeof(site), "%s:%d", file, p.head.firstline);
        else
            snprintf(site, sizeof(site), "%s", file);
    }
    luajit_proto_free(&p);
    known = strdup(site);
    if (known && table_put(&h->names.sites, proto, known))
        return known;
    free(known);
    return "";
}

bool luajit_heap_upvalue(void *heap, uint64_t closure, unsigned number, struct text *out)
{
    struct luajit_heap *h = heap;
    uint8_t head[LUAJIT_HEAD];
    char buffer[PROTO_NAME_MAX];
    struct luajit_proto p;
    if (!luajit_heap_head(h, closure, head) || head[h->l->gct] != LUAJIT_GCT_FUNC ||
        head[h->l->func_ffid] || !number ||
        !luajit_proto_read(h->m, h->l,
                           luajit_load_ref(h->l, head + h->l->func_pc) - (uint64_t)h->l->proto_size,
                           &p))
        return false;
    const char *name = luajit_proto_upvalue(&p, number - 1, buffer);
    if (name)
        text_string(out, name);
    luajit_proto_free(&p);
    return name != NULL;
}

static void describe_function(struct luajit_heap *h, const uint8_t *head, struct text *out)
{
    const struct luajit_layout *l = h->l;
    const unsigned ffid = head[l->func_ffid];
    const struct luajit_builtins *b = ffid > 1 ? luajit_builtins_get(l->builtins) : NULL;
    if (!ffid)
        text_string(out,
                    site_of(h, luajit_load_ref(l, head + l->func_pc) - (uint64_t)l->proto_size));
    else if (ffid == 1)
        text_printf(out, "[C] 0x%llx", (unsigned long long)load_u64(head + l->func_c, false));
    else if (b && *b->name[ffid])
        text_bytes(out, b->name[ffid], strnlen(b->name[ffid], BUILTIN_NAME_MAX));
    else
        text_printf(out, "builtin %u", ffid);
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Finds the name under which the registry has a metatable. */
struct find_class {
    struct luajit_heap *h;
    uint64_t metatable, name;
};

static bool match_class(void *context, uint64_t index, const uint8_t *node)
{
    struct find_class *f = context;
    const struct luajit_slot value = luajit_slot_of(f->h->l, load_u64(node, false));
    const struct luajit_slot key = luajit_slot_of(f->h->l, load_u64(node + LUAJIT_NODE_KEY, false));
    (void)index;
    if (value.tag != LUAJIT_TAG_TAB || value.object != f->metatable || key.tag != LUAJIT_TAG_STR)
        return true;
    f->name = key.object;
    return false;
}

/* Returns a metatable's __name, or its name in the registry; "": it has none. */
static const char *class_of(struct luajit_heap *h, uint64_t metatable)
{
    struct luajit_table t;
    struct text name = {0};
    struct find_class f = {h, metatable, 0};
    const char *known = metatable ? table_get(&h->names.classes, metatable) : "";
    if (known)
        return known;
    if (luajit_heap_table(h, metatable, &t)) {
        const struct luajit_slot v = luajit_heap_field(h, &t, "__name");
        f.name = v.tag == LUAJIT_TAG_STR ? v.object : 0;
    }
    if (!f.name && h->names.classes.nr < CLASSES_MAX && luajit_heap_table(h, h->registry, &t))
        luajit_heap_each(h, t.nodes, t.nr_nodes, LUAJIT_NODE, match_class, &f);
    if (f.name)
        luajit_heap_string(h, f.name, NAME, &name);
    text_char(&name, 0);
    if (!name.failed && table_put(&h->names.classes, metatable, name.at))
        return name.at;
    text_free(&name);
    return "";
}

/* ---- tables -------------------------------------------------------------------------------- */

struct noted_fields {
    struct luajit_heap *h;
    struct census_fields fields;
};

static bool note_field(void *context, uint64_t index, const uint8_t *node)
{
    struct noted_fields *n = context;
    const struct luajit_slot value = luajit_slot_of(n->h->l, load_u64(node, false));
    const struct luajit_slot key = luajit_slot_of(n->h->l, load_u64(node + LUAJIT_NODE_KEY, false));
    (void)index;
    if (value.tag != LUAJIT_TAG_NIL)
        census_fields_add(&n->fields, key.tag == LUAJIT_TAG_STR ? key.object : 0);
    return !n->fields.is_large;
}

static void describe_table(struct luajit_heap *h, const uint8_t *head, struct text *out)
{
    struct luajit_table t;
    if (!luajit_table_of(h->l, head, &t))
        return;
    const char *class = class_of(h, t.metatable);
    if (*class)
        text_printf(out, "%s ", class);
    struct noted_fields n = {
        .h = h, .fields = {.is_array = t.asize > 1, .is_large = t.nr_nodes > 2 * CENSUS_SHAPE_MAX}};
    if (!n.fields.is_large)
        luajit_heap_each(h, t.nodes, t.nr_nodes, LUAJIT_NODE, note_field, &n);
    census_fields_put(&n.fields, luajit_heap_string, h, out);
}

/* ---- C types ------------------------------------------------------------------------------- */

enum {
    CTF_BOOL = 0x08000000,
    CTF_FP = 0x04000000,
    CTF_UNSIGNED = 0x00800000,
    CTF_UNION = CTF_UNSIGNED
};
enum { CTYPE_DEPTH = 8 };

static bool name_of_ctype(struct luajit_heap *h, const struct luajit_ctype *t, struct text *out)
{
    return t->name && luajit_heap_string(h, t->name, NAME, out);
}

/* A structure without a name has that of its typedef. */
static bool typedef_of(struct luajit_heap *h, uint32_t id, struct text *out)
{
    enum { SEARCHED_MAX = 1 << 16 };
    struct luajit_ctype t;
    for (uint32_t i = 1; i < h->nr_ctypes && i < SEARCHED_MAX && luajit_heap_ctype(h, i, &t); i++) {
        if (t.info >> CTYPE_KIND_SHIFT == CT_TYPEDEF && (t.info & CTYPE_ID) == id)
            return name_of_ctype(h, &t, out);
    }
    return false;
}

static void describe_number(const struct luajit_ctype *t, struct text *out)
{
    if (t->info & CTF_BOOL)
        text_string(out, "bool");
    else if (t->info & CTF_FP)
        text_string(out, t->size == 4 ? "float" : "double");
    else
        text_printf(out, "%sint%u_t", t->info & CTF_UNSIGNED ? "u" : "", 8 * t->size);
}

static void describe_ctype(struct luajit_heap *h, uint32_t id, unsigned depth, struct text *out)
{
    struct luajit_ctype t;
    if (!depth || !luajit_heap_ctype(h, id, &t)) {
        text_printf(out, "C type %u", id);
        return;
    }
    const uint32_t kind = t.info >> CTYPE_KIND_SHIFT, of = t.info & CTYPE_ID;
    const char *const word = kind == CT_ENUM ? "enum" : t.info & CTF_UNION ? "union" : "struct";
    if (kind == CT_NUM) {
        describe_number(&t, out);
    } else if (kind == CT_STRUCT || kind == CT_ENUM) {
        struct text name = {0};
        if (name_of_ctype(h, &t, &name))
            text_printf(out, "%s ", word);
        else if (!typedef_of(h, id, &name))
            text_printf(&name, "%s %u", word, id);
        text_bytes(out, name.at, name.size);
        text_free(&name);
    } else if (kind == CT_PTR || kind == CT_ARRAY) {
        describe_ctype(h, of, depth - 1, out);
        text_string(out, kind == CT_PTR ? " *" : "[]");
    } else if (kind == CT_TYPEDEF || kind == CT_ATTRIB) {
        describe_ctype(h, of, depth - 1, out);
    } else {
        text_string(out, kind == CT_FUNC ? "function" : "void");
    }
}

/* ---- all ----------------------------------------------------------------------------------- */

void luajit_heap_describe(void *heap, const struct census_object *o, struct text *out)
{
    struct luajit_heap *h = heap;
    uint8_t head[LUAJIT_HEAD];
    if (!luajit_heap_head(h, o->address, head))
        return;
    switch (o->type) {
    case CENSUS_STRING:
        luajit_heap_string(h, o->address, CENSUS_STRING_SHOWN, out);
        break;
    case CENSUS_FUNCTION:
    case CENSUS_C_FUNCTION:
        describe_function(h, head, out);
        break;
    case CENSUS_PROTO:
        text_string(out, site_of(h, o->address));
        break;
    case CENSUS_TABLE:
        describe_table(h, head, out);
        break;
    case CENSUS_USERDATA:
        text_string(out, class_of(h, luajit_userdata_of(h->l, head).metatable));
        break;
    case CENSUS_TRACE:
        text_printf(out, "trace %u", load_u16(head + h->l->trace_traceno, false));
        break;
    case CENSUS_CDATA:
        describe_ctype(h, load_u16(head + h->l->gct + 1, false), CTYPE_DEPTH, out);
        break;
    default:
        break;
    }
}
