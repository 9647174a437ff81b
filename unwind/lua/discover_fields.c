/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds which release's fields a Lua has. Within a version few of them moved; what the
 * interpreter's code does with the fields around tells which.
 *
 * Offsets: the headers of all releases from 5.1 to 5.5.0, compiled for x86-64.
 */
#include "unwind/lua/discover_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NONE = LUA_NO_FIELD };

/* ---- what the code does ---------------------------------------------------------------------- */

static bool is_frame(const struct insn_parts *is)
{
    return is->base == FLOW_RSP || is->base == INSN_NO_REGISTER;
}

static bool is_store(const struct insn_parts *is)
{
    bool load;
    return (flow_is_move(is, &load) && !load) || (!is->map && (is->opcode & 0xfe) == 0xc6);
}

/* Returns how many instructions have an operand in memory with this displacement and one of the
 * sizes (bits: 1, 2, 4, 8), and do more than store to it. `first`: the first one's address. */
static unsigned count_operands(const struct flow_code *code, int32_t disp, unsigned sizes,
                               uint64_t *first)
{
    unsigned nr = 0;
    *first = 0;
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        bool lea = !is->map && is->opcode == 0x8d;
        if (!is->has_modrm || is->is_register || is->vector || lea || is_store(is) ||
            is_frame(is) || is->index != INSN_NO_REGISTER || is->disp != disp ||
            !(insn_operand_size(is) & sizes))
            continue;
        if (!nr++)
            *first = code->insns.at[i].at;
    }
    return nr;
}

/* Find an access of the way from the entry to the first dispatch. */
static const struct flow_access *find_access(const struct flow_trail *t, enum flow_root root,
                                             unsigned nr, const int16_t *offsets, int32_t disp)
{
    for (unsigned i = 0; i < t->nr_accesses; i++) {
        if (t->accesses[i].disp == disp && flow_value_is(&t->accesses[i].base, root, nr, offsets))
            return &t->accesses[i];
    }
    return NULL;
}

/* ---- checks of the version ------------------------------------------------------------------- */

/* L or the CI, to the CI's function, to the closure, to the prototype. */
struct chain {
    enum flow_root root;
    unsigned nr;
    int16_t offsets[4];
    int32_t k;
};

static struct chain chain_of(unsigned version)
{
    switch (version) {
    case 51:
        return (struct chain){FLOW_ARGUMENT_1, 4, {0x28, 8, 0, 0x20}, 0x10};
    case 52:
        return (struct chain){FLOW_ARGUMENT_1, 4, {0x20, 0, 0, 0x18}, 0x10};
    case 53:
        return (struct chain){FLOW_ARGUMENT_1, 4, {0x20, 0, 0, 0x18}, 0x30};
    default:
        return (struct chain){FLOW_ARGUMENT_2, 3, {0, 0, 0x18}, 0x38};
    }
}

/* The interpreter loads the constants' address before the first instruction. Returns false if it
 * does so by other fields. */
static bool check_constants(unsigned version, struct lua_evidence *ev)
{
    const struct chain c = chain_of(version);
    const struct flow_access *k = find_access(&ev->trail, c.root, c.nr, c.offsets, c.k);
    bool others = false;
    for (unsigned i = 0; i < ev->trail.nr_accesses; i++) {
        const struct flow_access *a = &ev->trail.accesses[i];
        others |= a->base.root == c.root && a->base.nr == c.nr && a->size == 8 && !a->store;
    }
    ev->constants_at = k ? k->at : 0;
    return k || !others;
}

/* Find lua_State.hookmask: the interpreter reads it before the first instruction. */
static void find_hookmask(unsigned version, struct lua_evidence *ev)
{
    static const struct {
        uint8_t version, sizes;
        int32_t offset;
    } known[] = {
        {51, 1, 0x62}, {51, 1, 0x64}, {52, 1, 0x48}, {53, 1 | 4, 0xc8},
        {54, 4, 0xc0}, {54, 4, 0xbc}, {54, 4, 0xb8}, {55, 4, 0xc4},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !ev->hookmask; i++) {
        const struct flow_access *a =
            known[i].version == version
                ? find_access(&ev->trail, FLOW_ARGUMENT_1, 0, NULL, known[i].offset)
                : NULL;
        if (a && a->size & known[i].sizes) {
            ev->hookmask = known[i].offset;
            ev->hookmask_at = a->at;
        }
    }
}

/* 5.2, 5.3: the pc is in the CI, and the first thing that is stored there. */
static void find_savedpc(struct lua_evidence *ev)
{
    static const int16_t to_ci[] = {0x20};
    for (unsigned i = 0; i < ev->trail.nr_accesses; i++) {
        const struct flow_access *a = &ev->trail.accesses[i];
        if (a->store && a->size == 8 && flow_value_is(&a->base, FLOW_ARGUMENT_1, 1, to_ci)) {
            ev->memory_at = a->disp;
            ev->fetch = a->at;
            return;
        }
    }
}

/* ---- the releases' fields -------------------------------------------------------------------- */

static void tell(struct lua_evidence *ev, uint64_t at, const char *what)
{
    ev->told_by = at;
    ev->told = what;
}

/* 5.1 to 5.1.1 have no baseCcalls. Redis 7 puts `readonly` into Table. */
static bool fields_51(const struct flow_code *code, struct lua_fields *f, struct lua_evidence *ev)
{
    uint64_t own, moved;
    if (ev->hookmask)
        f->state.hookmask = (uint16_t)ev->hookmask;
    if (ev->hookmask == 0x62)
        tell(ev, ev->hookmask_at, "5.1 or 5.1.1: hookmask is at 0x62");
    unsigned nr_own = count_operands(code, 0x38, 4, &own);
    unsigned nr_moved = count_operands(code, 0x40, 4, &moved);
    if (nr_moved > nr_own) {
        f->table.log2_nodes = 0x10;
        f->table.metatable = 0x18;
        f->table.array = 0x20;
        f->table.node = 0x28;
        f->table.size_array = 0x40;
        tell(ev, moved, "tables have one more field, as Redis' `readonly`: sizearray is at 0x40");
    }
    return true;
}

/* 5.2.0 has one tag for both kinds of closures, and another order of CallInfo's fields. 5.2.4 has
 * another order of Table's: OP_SETLIST compares sizearray. */
static bool fields_52(const struct flow_code *code, struct lua_fields *f, struct lua_evidence *ev)
{
    uint64_t at;
    bool last = count_operands(code, 0xc, 4, &at) > count_operands(code, 0x38, 4, &(uint64_t){0});
    tell(ev, ev->fetch, "5.2.1 to 5.2.3: savedpc is at 0x38, sizearray at 0x38");
    if (ev->memory_at == 0x30) {
        f->ci.base = 0x28;
        f->ci.savedpc = 0x30;
        f->closure.tag_c = 6;
        f->closure.is_c = 0xa;
        f->closure.nr_upvalues = 0xb;
        f->global.registry = 0x38;
        f->global.main_thread = 0xf0;
        f->global.metatables = 0x190;
        f->global.all_objects = 0x50;
        tell(ev, ev->fetch, "5.2.0: savedpc is at 0x30");
    }
    f->table.size_array = last ? 0xc : 0x38;
    f->table.array = last ? 0x10 : 0x18;
    f->table.node = last ? 0x18 : 0x20;
    f->table.metatable = last ? 0x28 : 0x10;
    if (last)
        tell(ev, at, "5.2.4: savedpc is at 0x38, sizearray at 0xc");
    return ev->memory_at == 0x30 || ev->memory_at == 0x38;
}

/* Returns the distance that lua_tolstring adds to a string to get its text; 0: not known. */
static int32_t exported_text(const struct runtime_image *image)
{
    struct flow_code code = {0};
    int32_t found = 0;
    if (!flow_add_exported(&code, image, "lua_tolstring"))
        return 0;
    for (size_t i = 0; i < code.insns.nr; i++) {
        const struct insn_parts *is = &code.insns.at[i].is;
        bool adds = is->opcode == 0x83 && is->is_register && !(is->reg & 7);
        bool lea = is->opcode == 0x8d && is->index == INSN_NO_REGISTER && is->base != FLOW_RSP;
        int32_t value = adds ? is->value : is->disp;
        if (!is->map && !is->vector && is->wide && (adds || lea) &&
            (value == 0x18 || value == 0x20) && !(adds && is->rm == FLOW_RSP))
            found = value;
    }
    flow_free(&code);
    return found;
}

/* Up to 5.3.1 a mark tells that execute does *not* begin there; from 5.3.4 on the status has two
 * bytes. */
static bool fields_53(const struct runtime_image *image, const struct flow_code *code,
                      const char *release, struct lua_fields *f, struct lua_evidence *ev)
{
    static const int16_t to_ci[] = {0x20};
    const struct flow_access *mark = NULL;
    uint64_t at;
    for (unsigned i = 0; i < ev->trail.nr_accesses; i++) {
        const struct flow_access *a = &ev->trail.accesses[i];
        if (a->store && a->disp == 0x42 && flow_value_is(&a->base, FLOW_ARGUMENT_1, 1, to_ci))
            mark = a;
    }
    if (!count_operands(code, 0x42, 2, &at)) {
        f->ci.status_size = 1;
        f->ci.finalizer = 0;
    }
    if (mark) {
        tell(ev, mark->at,
             f->ci.status_size == 2
                 ? "5.3.4 or later: CIST_FRESH is set at the entry, in two bytes"
                 : "5.3.2 or 5.3.3: CIST_FRESH is set at the entry, in one byte");
        return ev->memory_at == 0x28;
    }
    f->ci.status_size = 1;
    f->ci.finalizer = 0;
    f->ci.fresh_if_clear = true;
    f->state.status = 0xa;
    f->global.main_thread = 0xe0;
    f->global.metatables = 0x1b8;
    int32_t text = exported_text(image);
    if (text ? text == 0x20 : !strcmp(release, "5.3.0")) {
        f->string.text = 0x20;
        f->string.short_length = NONE;
    }
    tell(ev, ev->trail.at, "5.3.0 or 5.3.1: CIST_FRESH is not set at the entry");
    return ev->memory_at == 0x28;
}

/* Returns whether the code sets a bit of callstatus. */
static bool sets_status(const struct flow_code *code, int32_t callstatus, int32_t mask)
{
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        bool group = is->opcode == 0x80 || is->opcode == 0x81 || is->opcode == 0x83;
        if (group && !is->map && !is->vector && !is->is_register && !is_frame(is) &&
            is->disp == callstatus && (is->reg & 7) == 1 && is->value == mask)
            return true;
    }
    return false;
}

/* Up to 5.4.1 the interpreter itself does not use callstatus. If it does because the compiler has
 * inlined what does, the bit of a tail call tells. */
static bool is_early_54(const struct flow_code *code, const char *release, uint64_t *at)
{
    bool text = !strcmp(release, "5.4.0") || !strcmp(release, "5.4.1");
    return !count_operands(code, 0x3e, 1 | 2, at) || sets_status(code, 0x3e, 0x10) ||
           (text && !sets_status(code, 0x3e, 0x20));
}

static bool fields_54(const struct flow_code *code, const char *release, struct lua_fields *f,
                      struct lua_evidence *ev)
{
    uint64_t at;
    bool early = is_early_54(code, release, &at);
    int32_t hookmask = ev->hookmask;
    if (!hookmask) /* the text decides */
        hookmask = !strcmp(release, "5.4.1")   ? 0xbc
                   : !strcmp(release, "5.4.2") ? 0xb8
                   : *release                  ? 0xc0
                                               : 0;
    if (early) {
        f->ci.fresh = 0;
        f->ci.fresh_always = true;
        f->ci.tail = 0x10;
        f->ci.hooked = 4;
        f->ci.finalizer = 0x40;
    }
    f->state.hookmask = (uint16_t)hookmask;
    if (hookmask == 0xc0 && early) {
        f->state.stack = 0x38;
        f->state.stack_last = 0x30;
        f->state.open_upvalues = 0x40;
        f->global.main_thread = 0x100;
        f->global.metatables = 0x1d8;
        tell(ev, ev->hookmask_at, "5.4.0: no CIST_FRESH is tested, hookmask is at 0xc0");
    } else if (hookmask == 0xc0) {
        tell(ev, at, "5.4.3 or later: CIST_FRESH is used, hookmask is at 0xc0");
    } else {
        f->state.base_ci = 0x58;
        f->state.size = 0xc0;
        tell(ev, early ? ev->hookmask_at : at,
             early ? "5.4.1: no CIST_FRESH is tested, hookmask is at 0xbc"
                   : "5.4.2: CIST_FRESH is used, hookmask is at 0xb8");
    }
    return hookmask == 0xc0 || hookmask == (early ? 0xbc : 0xb8);
}

int lua_find_fields(const struct runtime_image *image, const struct flow_code *code,
                    struct lua_layout *ret, struct lua_evidence *ev, struct error *err)
{
    unsigned version = ret->version;
    struct lua_fields *f = &ret->fields;
    lua_find_release(image, version, ret->release);
    if (!lua_fields_of(version, f) || !check_constants(version, ev))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this Lua is unknown: it has %u opcodes, as 5.%u, but other fields "
                         "(interpreter at 0x%llx)",
                         image->name, ret->nr_opcodes, version - 50,
                         (unsigned long long)ret->parts[0].start);
    find_hookmask(version, ev);
    if (version == 52 || version == 53)
        find_savedpc(ev);
    bool known = version == 51   ? fields_51(code, f, ev)
                 : version == 52 ? fields_52(code, f, ev)
                 : version == 53 ? fields_53(image, code, ret->release, f, ev)
                 : version == 54 ? fields_54(code, ret->release, f, ev)
                                 : true;
    if (!known)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this Lua 5.%u is unknown: nothing in the interpreter at 0x%llx "
                         "tells which release's fields it has",
                         image->name, version - 50, (unsigned long long)ret->parts[0].start);
    return 0;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* "Lua 5.1.5 Copyright", "Lua 5.4.6  Copyright" */
static bool read_release(const char *at, const char *end, unsigned version, char ret[static 16])
{
    enum { BEHIND = 12 };
    size_t nr = 0;
    at += 4;
    while (at < end && nr < 7 && (isdigit((unsigned char)*at) || *at == '.'))
        ret[nr++] = *at++;
    ret[nr] = 0;
    while (at < end && *at == ' ')
        at++;
    return end - at >= BEHIND && !memcmp(at, "Copyright", 9) && nr >= 3 &&
           (!version || ret[2] == (char)('0' + version - 50)) && (nr == 3 || ret[3] == '.');
}

bool lua_next_constants(const struct runtime_image *image, size_t *i, const char **start,
                        const char **end)
{
    struct runtime_segment s;
    while (image->segment(image->context, (*i)++, &s)) {
        if (s.writable || !s.size)
            continue;
        *start = (const char *)image->bytes(image->context, s.address, s.size);
        *end = *start ? *start + s.size : NULL;
        if (*start)
            return true;
    }
    return false;
}

bool lua_find_release(const struct runtime_image *image, unsigned version, char ret[static 16])
{
    const char *at, *end;
    for (size_t i = 0; lua_next_constants(image, &i, &at, &end);) {
        for (; (at = memmem(at, (size_t)(end - at), "Lua 5.", 6)); at++) {
            if (read_release(at, end, version, ret))
                return true;
        }
    }
    ret[0] = 0;
    return false;
}
