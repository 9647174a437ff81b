/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lists the variables of a Lua frame. Which are active, and their names, tells the prototype
 * (GCproto.varinfo, as lj_debug.c reads it); their values are in the frame's slots. In a trace only
 * its snapshot tells where a slot's value is.
 */
#include "unwind/luajit/variables.h"

#include "unwind/luajit/names_proto.h"
#include "unwind/luajit/trace.h"

#include <stdlib.h>

enum {
    SLOT = 8,
    SLOTS_MAX = 256,       /* of a frame: operands of instructions have 8 bits */
    VARARGS_MAX = 1 << 12, /* that are listed */
    FLAG_IN_TRACE = 0x100,
};

/* ---- places -------------------------------------------------------------------------------- */

enum { WORD_FUNC, WORD_PROTO, WORD_BASE, WORD_INNER, WORD_PC, WORD_TRACE, WORD_TRACE_BASE, WORD_L };

struct variable_place luajit_variables_place(const struct luajit_layout *l,
                                             const struct luajit_variables_at *at)
{
    struct variable_place p = {.layout = l};
    const uint32_t flags = at->kind | (at->is_in_trace ? FLAG_IN_TRACE : 0u);
    p.word[WORD_FUNC] = at->func;
    p.word[WORD_PROTO] = at->proto;
    p.word[WORD_BASE] = at->base;
    p.word[WORD_INNER] = at->inner_base;
    p.word[WORD_PC] = (uint32_t)at->position | (uint64_t)flags << 32 | (uint64_t)at->snapshot << 48;
    p.word[WORD_TRACE] = at->trace;
    p.word[WORD_TRACE_BASE] = at->trace_base;
    p.word[WORD_L] = at->L;
    return p;
}

static struct luajit_variables_at unpack(const struct variable_place *p)
{
    return (struct luajit_variables_at){
        .func = p->word[WORD_FUNC],
        .proto = p->word[WORD_PROTO],
        .base = p->word[WORD_BASE],
        .inner_base = p->word[WORD_INNER],
        .position = (int32_t)p->word[WORD_PC],
        .kind = (uint8_t)(p->word[WORD_PC] >> 32),
        .is_in_trace = (p->word[WORD_PC] >> 32 & FLAG_IN_TRACE) != 0,
        .snapshot = (uint32_t)(p->word[WORD_PC] >> 48),
        .trace = p->word[WORD_TRACE],
        .trace_base = p->word[WORD_TRACE_BASE],
        .L = p->word[WORD_L],
    };
}

/* ---- slots --------------------------------------------------------------------------------- */

/* The listing of one frame. */
struct listing {
    struct luajit_variables_at at;
    struct luajit_values values;
    const struct luajit_layout *layout;
    struct luajit_reader *reader; /* of the trace */
    struct luajit_trace trace;    /* address 0: none, or not readable */
    struct luajit_proto proto;    /* address 0: not a Lua function, or not readable */
};

/* Set a variable to the content of the slot at `address`, as the trace's snapshot tells it. */
static void put_traced_slot(struct listing *g, struct variable *of, uint64_t address)
{
    const uint64_t from = g->at.trace_base - SLOT * (uint64_t)g->layout->frame_slots;
    uint64_t word;
    enum luajit_slot_place place = LUAJIT_SLOT_UNTOLD;
    if (address >= from && address - from < SLOT * SLOTS_MAX)
        place = luajit_snapshot_slot(g->reader, &g->trace, g->at.snapshot,
                                     (uint32_t)((address - from) / SLOT), &word);
    if (place == LUAJIT_SLOT_CONSTANT) {
        luajit_value_put(&g->values, of, word);
    } else if (place == LUAJIT_SLOT_IN_CODE) {
        variable_set_unknown(of, "in a register of the trace");
    } else if (place == LUAJIT_SLOT_ON_STACK) {
        luajit_value_read(&g->values, of, address);
    } else if (g->at.base == g->at.trace_base) {
        /* The trace has not changed it, or it has, and does not need the value any more. */
        of->provenance = PROVENANCE_GUESS;
        luajit_value_read(&g->values, of, address);
    } else {
        variable_set_unknown(of, "the trace's snapshot does not tell it");
    }
}

static void put_slot(struct listing *g, struct variable *of, uint64_t address)
{
    if (!g->at.is_in_trace)
        luajit_value_read(&g->values, of, address);
    else if (g->trace.address)
        put_traced_slot(g, of, address);
    else
        variable_set_unknown(of, "in a trace");
}

static uint64_t slot_address(const struct listing *g, uint64_t slot)
{
    return g->at.base + SLOT * slot;
}

/* ---- lists --------------------------------------------------------------------------------- */

/* Returns how many slots are variables that are active: the highest one that has a name. */
static uint32_t nr_named(const struct listing *g, uint32_t nr_slots)
{
    char name[PROTO_NAME_MAX];
    uint32_t nr = nr_slots;
    while (nr) {
        uint32_t budget = UINT32_MAX;
        if (luajit_proto_local(&g->proto, nr - 1, (uint32_t)g->at.position, name, &budget))
            break;
        nr--;
    }
    return nr;
}

/* List the first `nr` slots as variables with names. Those of loops, "(for index)", are none of the
 * program's: they count as temporaries. */
static void put_locals(struct listing *g, uint32_t nr)
{
    struct variables *out = g->values.out;
    for (uint32_t slot = 0; slot < nr; slot++) {
        char buffer[PROTO_NAME_MAX];
        uint32_t budget = UINT32_MAX;
        const char *name =
            luajit_proto_local(&g->proto, slot, (uint32_t)g->at.position, buffer, &budget);
        const bool is_hidden = name && *name == '(';
        if (is_hidden && !out->wanted.temporaries)
            continue;
        struct variable *of =
            variables_add(out, is_hidden ? VARIABLE_TEMPORARY : VARIABLE_LOCAL, 0);
        if (!of)
            return;
        of->number = slot + 1;
        if (name)
            variable_set_name(out, of, name, strlen(name));
        put_slot(g, of, slot_address(g, slot));
    }
}

/* List slots without names: arguments of a stripped function, temporaries. */
static void put_slots(struct listing *g, enum variable_role role, uint32_t from, uint32_t to)
{
    for (uint32_t slot = from; slot < to; slot++) {
        struct variable *of = variables_add(g->values.out, role, 0);
        if (!of)
            return;
        of->number = slot + 1;
        put_slot(g, of, slot_address(g, slot));
    }
}

/* A vararg function copies its parameters to a frame above its arguments, which stay. The link of
 * the upper frame's header has the distance. */
static void put_varargs(struct listing *g)
{
    const struct luajit_layout *l = g->layout;
    const uint64_t header = SLOT * (uint64_t)l->frame_slots;
    uint64_t link;
    enum provenance ignored = PROVENANCE_EXACT;
    if (!memory_read_moving(g->values.m, g->at.base - SLOT, &link, sizeof(link), &ignored))
        return;
    link = l->gc64 ? link : link >> 32;
    const uint64_t distance = link & ~UINT64_C(7);
    if (luajit_link_type(link) != LUAJIT_LINK_VARG || distance < header ||
        distance > SLOT * (uint64_t)LUAJIT_SLOTS_MAX)
        return;
    const uint64_t end = g->at.base - header;
    uint64_t at = g->at.base - distance + SLOT * (uint64_t)g->proto.head.numparams;
    for (uint32_t i = 1; at < end && i <= VARARGS_MAX; i++, at += SLOT) {
        struct variable *of = variables_add(g->values.out, VARIABLE_VARARG, 0);
        if (!of)
            return;
        of->number = i;
        put_slot(g, of, at);
    }
}

/* Read the address of the value of an upvalue of the frame's Lua function. */
static bool upvalue_address(const struct listing *g, uint32_t index, uint64_t *ret)
{
    const struct luajit_layout *l = g->layout;
    uint8_t bytes[8];
    enum provenance ignored = PROVENANCE_EXACT;
    const size_t size = (size_t)l->ref_size;
    const uint64_t at = g->at.func + (uint64_t)l->func_upvalues + index * (uint64_t)l->ref_size;
    if (!memory_read(g->values.m, at, bytes, size, &ignored))
        return false;
    const uint64_t object = luajit_load_ref(l, bytes);
    if (!object || !memory_read(g->values.m, object + (uint64_t)l->upval_v, bytes, size, &ignored))
        return false;
    *ret = luajit_load_ref(l, bytes);
    return true;
}

/* An open upvalue is a slot of the stack, perhaps one that the trace keeps elsewhere. */
static void put_upvalue(struct listing *g, struct variable *of, uint64_t address)
{
    const bool may_be_traced =
        g->at.is_in_trace && g->trace.address && address - g->at.trace_base < SLOT * SLOTS_MAX;
    if (may_be_traced)
        put_traced_slot(g, of, address);
    else
        luajit_value_read(&g->values, of, address);
}

static void put_upvalues(struct listing *g)
{
    for (uint32_t i = 0; i < g->proto.head.sizeuv; i++) {
        char buffer[PROTO_NAME_MAX];
        uint64_t address;
        const char *name = luajit_proto_upvalue(&g->proto, i, buffer);
        struct variable *of = variables_add(g->values.out, VARIABLE_UPVALUE, 0);
        if (!of)
            return;
        of->number = i + 1;
        if (name)
            variable_set_name(g->values.out, of, name, strlen(name));
        if (!g->at.func)
            variable_set_unknown(of, "the trace does not tell which closure runs");
        else if (upvalue_address(g, i, &address))
            put_upvalue(g, of, address);
        else
            variable_set_unknown(of, "not recorded");
    }
}

/* ---- frames -------------------------------------------------------------------------------- */

/* Returns how many slots the frame has at most: up to the frame further in, or as many as the
 * function needs. */
static uint32_t nr_slots(const struct listing *g)
{
    const struct luajit_layout *l = g->layout;
    const uint64_t header = SLOT * (uint64_t)l->frame_slots;
    uint8_t framesize = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    if (g->proto.address)
        memory_read(g->values.m, g->at.proto + (uint64_t)l->proto_framesize, &framesize, 1,
                    &ignored);
    if (g->at.inner_base < g->at.base + header)
        return framesize;
    const uint64_t nr = (g->at.inner_base - header - g->at.base) / SLOT;
    if (g->proto.address && nr > framesize)
        return framesize;
    return nr < SLOTS_MAX ? (uint32_t)nr : SLOTS_MAX;
}

static void put_lua(struct listing *g)
{
    struct variables *out = g->values.out;
    uint32_t nr = nr_slots(g), nr_variables = g->proto.head.numparams;
    if (g->at.base == 0 || g->at.position < 0) {
        out->unknown = "where the function stands, or its place on the Lua stack, is not known";
        put_upvalues(g);
        return;
    }
    if (g->proto.head.varinfo) {
        nr_variables = nr_named(g, SLOTS_MAX);
        put_locals(g, nr_variables);
    } else {
        out->unknown = "the chunk is stripped: it has no names of locals";
        put_slots(g, VARIABLE_ARGUMENT, 0, nr_variables);
    }
    put_varargs(g);
    put_upvalues(g);
    if (out->wanted.temporaries)
        put_slots(g, VARIABLE_TEMPORARY, nr_variables, nr);
}

static void read_trace(struct listing *g)
{
    uint16_t number;
    enum provenance ignored = PROVENANCE_EXACT;
    luajit_reader_begin(g->reader, g->values.m);
    luajit_reader_use(g->reader, g->layout);
    struct luajit_state L;
    if (memory_read(g->values.m, g->at.trace + (uint64_t)g->layout->trace_traceno, &number,
                    sizeof(number), &ignored) &&
        luajit_read_state(g->reader, g->at.L, &L) &&
        !(luajit_trace_read(g->reader, L.g, number, &g->trace) && g->trace.address == g->at.trace))
        g->trace.address = 0;
}

int luajit_variables(const struct memory *m, const struct variable_place *place,
                     struct variables *ret)
{
    struct listing g = {.at = unpack(place), .layout = place->layout};
    luajit_values_begin(&g.values, m, g.layout, ret);
    if (g.at.trace) {
        g.reader = calloc(1, sizeof(*g.reader));
        if (!g.reader)
            return -1;
        read_trace(&g);
    }
    bool is_lua = g.at.kind == LUAJIT_FRAME_LUA && g.at.proto &&
                  luajit_proto_read(m, g.layout, g.at.proto, &g.proto) && g.proto.copy;
    if (is_lua)
        put_lua(&g);
    else if (g.at.kind == LUAJIT_FRAME_LUA || g.at.kind == LUAJIT_FRAME_UNKNOWN)
        ret->unknown = "its function cannot be read";
    else if (ret->wanted.temporaries && g.at.base)
        put_slots(&g, VARIABLE_TEMPORARY, 0, nr_slots(&g));
    luajit_proto_free(&g.proto);
    free(g.reader);
    return ret->failed ? -1 : 0;
}
