/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/names_call.h"

#include "unwind/luajit/names_scan.h"
#include "unwind/luajit/object.h"

enum {
    SCAN_BUDGET = 1 << 12, /* instructions and variables that are looked at */
    READ_BUDGET = 128,     /* words that are read */
    NESTING_MAX = 4,       /* a.b.c.f() */
    CHAIN_MAX = 16,        /* keys in one chain of a hash part */
    METATABLES_MAX = 4,
    TAG_SHIFT = 47,
    NODE = 24, /* bytes of a node of a hash part; it begins with its value */
    KEY = 8,
    NEXT = 16,
};

/* Types of values, as in their upper bits. */
static const uint32_t TAG_STR = ~4u, TAG_FUNC = ~8u, TAG_TAB = ~11u, TAG_UDATA = ~12u;

struct check {
    struct luajit_scan scan;
    const struct luajit_layout *l;
    const struct luajit_frame *f;
    enum provenance weakest;
    unsigned reads;
    unsigned depth;
};

/* A value: the tag of its type, and its object. */
struct value {
    uint32_t tag;
    uint64_t object;
};

/* ---- values -------------------------------------------------------------------------------- */

static bool read_bytes(struct check *c, uint64_t address, void *to, size_t size,
                       enum provenance *provenance)
{
    return c->reads && c->reads-- && memory_read(c->scan.m, address, to, size, provenance);
}

static bool read_ref(struct check *c, uint64_t address, uint64_t *ret)
{
    uint8_t bytes[8];
    enum provenance ignored = PROVENANCE_EXACT;
    if (!read_bytes(c, address, bytes, (size_t)c->l->ref_size, &ignored))
        return false;
    *ret = luajit_load_ref(c->l, bytes);
    return true;
}

static bool read_u32(struct check *c, uint64_t address, uint32_t *ret)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return read_bytes(c, address, ret, sizeof(*ret), &ignored);
}

static struct value value_of(const struct luajit_layout *l, uint64_t word)
{
    if (!l->gc64)
        return (struct value){(uint32_t)(word >> 32), (uint32_t)word};
    return (struct value){(uint32_t)((int64_t)word >> TAG_SHIFT),
                          word & ((UINT64_C(1) << TAG_SHIFT) - 1)};
}

static bool read_value(struct check *c, uint64_t address, struct value *ret)
{
    uint64_t word;
    enum provenance ignored = PROVENANCE_EXACT;
    if (!read_bytes(c, address, &word, sizeof(word), &ignored))
        return false;
    *ret = value_of(c->l, word);
    return true;
}

/* Read a slot of the caller. The recorded slot must be of the walk's moment. */
static bool read_slot(struct check *c, uint64_t slot, struct value *ret)
{
    uint64_t word;
    enum provenance provenance = PROVENANCE_EXACT;
    if (!c->f->caller_base ||
        !read_bytes(c, c->f->caller_base + 8 * slot, &word, sizeof(word), &provenance) ||
        provenance > c->weakest)
        return false;
    *ret = value_of(c->l, word);
    return true;
}

static bool read_upvalue(struct check *c, unsigned index, struct value *ret)
{
    uint64_t uv, v;
    uint64_t at = c->f->caller_func + (uint64_t)c->l->func_upvalues;
    return c->f->caller_func && read_ref(c, at + index * (uint64_t)c->l->ref_size, &uv) && uv &&
           read_ref(c, uv + (uint64_t)c->l->upval_v, &v) && v && read_value(c, v, ret);
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Find the key's value among the keys that share a place in the table. `hash` is the key's hash. */
static bool find_in_chain(struct check *c, uint64_t nodes, uint32_t hmask, uint32_t hash,
                          uint64_t key, struct value *ret)
{
    uint64_t node = nodes + (uint64_t)(hash & hmask) * NODE;
    struct value at;
    for (unsigned i = 0; node && i < CHAIN_MAX; i++) {
        if (!read_value(c, node + KEY, &at))
            return false;
        if (at.tag == TAG_STR && at.object == key)
            return read_value(c, node, ret);
        if (!read_ref(c, node + NEXT, &node))
            return false;
    }
    return false;
}

/* Find a table's field. The table places strings by their hash, or (2.1 since 2020) by their
 * number. */
static bool find_field(struct check *c, uint64_t table, uint64_t key, struct value *ret)
{
    const struct luajit_layout *l = c->l;
    uint64_t nodes;
    uint32_t hmask, hash;
    for (int32_t at = l->str_len - 4; at >= l->str_len - 8; at -= 4) {
        if (read_u32(c, table + (uint64_t)l->tab_hmask, &hmask) &&
            read_ref(c, table + (uint64_t)l->tab_node, &nodes) &&
            read_u32(c, key + (uint64_t)at, &hash) &&
            find_in_chain(c, nodes, hmask, hash, key, ret))
            return true;
    }
    return false;
}

/* Find a metatable's field by name: the address of the name's string is not known. */
static bool find_named(struct check *c, uint64_t meta, const char *wanted, struct value *ret)
{
    enum { NODES_MAX = 32 };
    uint64_t nodes;
    uint32_t hmask, length;
    char name[16];
    enum provenance ignored = PROVENANCE_EXACT;
    if (!read_u32(c, meta + (uint64_t)c->l->tab_hmask, &hmask) || hmask >= NODES_MAX ||
        !read_ref(c, meta + (uint64_t)c->l->tab_node, &nodes))
        return false;
    for (uint32_t i = 0; i <= hmask; i++) {
        struct value key;
        uint64_t node = nodes + (uint64_t)i * NODE;
        if (!read_value(c, node + KEY, &key))
            return false;
        if (key.tag == TAG_STR &&
            luajit_string_read(c->scan.m, c->l, key.object, name, sizeof(name), &length,
                               &ignored) &&
            strcmp(name, wanted) == 0)
            return read_value(c, node, ret);
    }
    return false;
}

/* Read the metatable of a table or userdata (0: none). Both types have it at the same offset.
 * false: the value is neither. */
static bool read_metatable(struct check *c, struct value of, uint64_t *ret)
{
    uint8_t gct = 0, wanted = of.tag == TAG_TAB ? LUAJIT_GCT_TAB : LUAJIT_GCT_UDATA;
    enum provenance ignored = PROVENANCE_EXACT;
    return (of.tag == TAG_TAB || of.tag == TAG_UDATA) &&
           read_bytes(c, of.object + (uint64_t)c->l->gct, &gct, 1, &ignored) && gct == wanted &&
           read_ref(c, of.object + (uint64_t)(c->l->tab_node - c->l->ref_size), ret);
}

/* Find a metamethod of a table or userdata. */
static bool find_meta(struct check *c, struct value of, const char *name, struct value *ret)
{
    uint64_t meta;
    return read_metatable(c, of, &meta) && meta && find_named(c, meta, name, ret);
}

/* The result of indexing the table with the string. */
static bool index_table(struct check *c, struct value table, uint64_t key, struct value *ret)
{
    for (unsigned i = 0; key && i < METATABLES_MAX; i++) {
        uint64_t ignored;
        if (table.tag != TAG_TAB || !read_metatable(c, table, &ignored))
            return false;
        if (find_field(c, table.object, key, ret))
            return true;
        if (!find_meta(c, table, "__index", &table))
            return false;
    }
    return false;
}

/* The table of the caller's global variables. */
static bool read_env(struct check *c, struct value *ret)
{
    uint64_t at = c->f->caller_func + (uint64_t)(c->l->func_pc - 2 * c->l->ref_size);
    ret->tag = TAG_TAB;
    return c->f->caller_func && read_ref(c, at, &ret->object);
}

static bool read_global(struct check *c, uint64_t key, struct value *ret)
{
    struct value env;
    return read_env(c, &env) && index_table(c, env, key, ret);
}

/* ---- what an instruction finds ------------------------------------------------------------- */

/* The value of a slot of the caller when the caller reached `position`, if the value also stands
 * elsewhere. */
static bool value_at(struct check *c, uint32_t position, unsigned slot, struct value *ret)
{
    char ignored[PROTO_NAME_MAX];
    const struct luajit_proto *p = c->scan.p;
    struct bc bc;
    struct value table;
    if (c->depth++ >= NESTING_MAX)
        return false;
    switch (luajit_find_writer(&c->scan, &position, &slot, &bc, ignored)) {
    case LUAJIT_FOUND_LOCAL:
        return read_slot(c, slot, ret);
    case LUAJIT_FOUND_WRITE:
        break;
    default:
        return false;
    }
    if (bc.op >= BC_KSTR && bc.op <= BC_KPRI) { /* a constant: it is not called or indexed */
        *ret = (struct value){0};
        return true;
    }
    if (bc.op == BC_UGET)
        return read_upvalue(c, bc.d, ret);
    if (bc.op == BC_GGET)
        return read_global(c, luajit_proto_constant(p, bc.d), ret);
    return bc.op == BC_TGETS && value_at(c, position, bc.b, &table) &&
           index_table(c, table, luajit_proto_constant(p, bc.c), ret);
}

/* ---- what an operator finds ---------------------------------------------------------------- */

/* Read an operand. In a trace the operand may be in a register, and its slot may hold an older
 * value: so the place from which the value came is read first. The slots of the operands of ".."
 * are not read, because the call itself needs these slots. */
static bool read_operand(struct check *c, uint32_t position, unsigned slot, struct value *ret)
{
    bool is_cat = luajit_proto_bc(c->scan.p, position).op == BC_CAT;
    c->depth = 0;
    return ((is_cat || c->f->inlined) && value_at(c, position, slot, ret)) ||
           (!is_cat && read_slot(c, slot, ret));
}

/* Find the metamethod of the first operand that has it. */
static bool find_operator(struct check *c, uint32_t position, unsigned first, unsigned second,
                          const char *name, struct value *ret)
{
    struct value of;
    if (!read_operand(c, position, first, &of))
        return false;
    return find_meta(c, of, name, ret) ||
           (read_operand(c, position, second, &of) && find_meta(c, of, name, ret));
}

/* "__index" and "__newindex" follow tables up to the one whose metamethod is a function. */
static bool find_indexing(struct check *c, struct value table, const char *name, struct value *ret)
{
    for (unsigned i = 0; i < METATABLES_MAX; i++) {
        if (!find_meta(c, table, name, ret))
            return false;
        if (ret->tag == TAG_FUNC)
            return true;
        table = *ret;
    }
    return false;
}

static bool is_in(uint8_t op, enum bc_op first, enum bc_op last)
{
    return op >= first && op <= last;
}

/* Find the metamethod that the instruction calls, by its operands, none of which it has overwritten
 * yet. (Finalizers run wherever memory is allocated: their objects are not known.) */
static bool find_metamethod(struct check *c, uint32_t position, const struct bc *bc,
                            const char *name, struct value *ret)
{
    struct value of;
    if (is_in(bc->op, BC_TGETV, BC_TGETR) || is_in(bc->op, BC_TSETV, BC_TSETR))
        return read_operand(c, position, bc->b, &of) && find_indexing(c, of, name, ret);
    if (bc->op == BC_GGET || bc->op == BC_GSET)
        return read_env(c, &of) && find_indexing(c, of, name, ret);
    if (bc->op == BC_UNM || bc->op == BC_LEN)
        return read_operand(c, position, bc->d, &of) && find_meta(c, of, name, ret);
    if (is_in(bc->op, BC_ADDVN, BC_ADDVV - 1)) /* the other operand is a number */
        return read_operand(c, position, bc->b, &of) && find_meta(c, of, name, ret);
    if (is_in(bc->op, BC_ADDVV, BC_POW) || (bc->op == BC_CAT && bc->b + 1 == bc->c))
        return find_operator(c, position, bc->b, bc->c, name, ret);
    if (is_in(bc->op, BC_ISLT, BC_ISNEV)) /* "__le" may be "__lt" with exchanged operands */
        return find_operator(c, position, bc->a, bc->d, name, ret) ||
               (strcmp(name, "__le") == 0 && find_operator(c, position, bc->d, bc->a, "__lt", ret));
    return false;
}

/* Find what a call instruction calls: a function, or a table that has a "__call". */
static bool find_called(struct check *c, uint32_t position, const struct bc *bc, struct value *ret)
{
    struct value of;
    if (bc->op == BC_ITERC && bc->a < 3)
        return false;
    unsigned slot = bc->op == BC_ITERC ? bc->a - 3u : bc->a;
    if (!value_at(c, position, slot, ret))
        return false;
    of = *ret;
    return of.tag == TAG_FUNC || find_meta(c, of, "__call", ret);
}

static bool is_supported(const struct luajit_layout *l)
{
    const int32_t needed[] = {l->upval_v, l->func_upvalues, l->tab_node,  l->tab_hmask,
                              l->str_len, l->func_pc,       l->proto_size};
    for (unsigned i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        if (needed[i] == LUAJIT_UNKNOWN)
            return false;
    return l->ref_size == 4 || l->ref_size == 8;
}

enum luajit_callee luajit_callee_check(const struct luajit_proto *caller, const struct memory *m,
                                       const struct luajit_frame *f, uint32_t position,
                                       enum provenance weakest)
{
    uint32_t budget = SCAN_BUDGET;
    struct check c = {.scan = {caller, m, &budget},
                      .l = caller->layout,
                      .f = f,
                      .weakest = weakest,
                      .reads = READ_BUDGET};
    struct bc call = luajit_proto_bc(caller, position);
    const char *meta = bc_metamethod(call.op);
    struct value value;
    uint64_t code;
    if (!f->proto || !meta || !is_supported(c.l))
        return LUAJIT_CALLEE_UNTOLD;
    bool found = *meta == '_' ? find_metamethod(&c, position, &call, meta, &value)
                              : find_called(&c, position, &call, &value);
    if (!found || value.tag != TAG_FUNC)
        return LUAJIT_CALLEE_UNTOLD;
    if (f->func && value.object == f->func)
        return LUAJIT_CALLEE_SAME;
    /* Many closures have one prototype. A name belongs to the prototype. */
    if (!read_ref(&c, value.object + (uint64_t)c.l->func_pc, &code))
        return LUAJIT_CALLEE_UNTOLD;
    if (code - (uint64_t)c.l->proto_size == f->proto)
        return LUAJIT_CALLEE_SAME;
    return LUAJIT_CALLEE_ANOTHER;
}
