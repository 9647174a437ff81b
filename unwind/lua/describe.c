/* SPDX-License-Identifier: GPL-2.0-only */
/* Describes a plain Lua to a person: its layout, with the instruction that told each value. */
#include "unwind/lua/discover_internal.h"

#include "unwind/arch_x86_64.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *register_name(unsigned reg)
{
    static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    return reg < 16 ? names[reg] : "?";
}

static void put_place(struct text *out, const struct lua_place *p)
{
    if (p->kind == LUA_IN_REGISTER)
        text_printf(out, "%s%s", register_name(p->reg),
                    p->survives ? "" : " (only where nothing is called)");
    else if (p->kind == LUA_IN_SLOT)
        text_printf(out, "the slot at CFA%s0x%" PRIx32, p->offset < 0 ? "-" : "+",
                    (uint32_t)(p->offset < 0 ? -(int64_t)p->offset : p->offset));
    else
        text_string(out, "nowhere");
}

static void put_places(struct text *out, const char *name, const struct lua_place *at, unsigned nr,
                       const char *voters)
{
    text_printf(out, "  %s: ", name);
    for (unsigned i = 0; i < nr; i++) {
        text_string(out, i ? ", " : "");
        put_place(out, &at[i]);
        text_printf(out, " (%u %s)", at[i].votes, voters);
    }
    text_string(out, "\n");
}

static void put_interpreter(struct text *out, const struct lua_layout *l)
{
    text_printf(out, "  interpreter (luaV_execute) at 0x%" PRIx64 ", %" PRIu64 " bytes",
                l->parts[0].start, l->parts[0].end - l->parts[0].start);
    for (unsigned i = 1; i < l->nr_parts; i++)
        text_printf(out, "%s0x%" PRIx64 ", %" PRIu64 " bytes",
                    i == 1 ? "; its other parts: " : "; ", l->parts[i].start,
                    l->parts[i].end - l->parts[i].start);
    text_string(out, "\n");
}

static void put_dispatch(struct text *out, const struct lua_layout *l,
                         const struct lua_evidence *ev)
{
    const struct lua_dispatch *d = &ev->dispatch;
    text_printf(out, "  %u opcodes: ", l->nr_opcodes);
    if (d->nr_opcodes)
        text_printf(out, "compared with %u", d->nr_opcodes - 1);
    if (d->table)
        text_printf(out, "%sthe jump table at 0x%" PRIx64 ", %s", d->nr_opcodes ? "; " : "",
                    d->table, d->entry_size == 8 ? "addresses" : "distances");
    text_printf(out, "; masked with 0x%x at 0x%" PRIx64 ", jumped by at 0x%" PRIx64 "\n", d->mask,
                d->at, d->jump);
    text_printf(out, "  instruction fetches: %u, the first at 0x%" PRIx64 "\n", ev->nr_fetches,
                ev->fetch);
    if (!l->nr_fetches)
        return;
    const struct lua_fetch *f = l->fetches;
    text_printf(out,
                "  addresses around fetches: %u, the first 0x%" PRIx64 " to 0x%" PRIx64 ": what "
                "runs next is at %s",
                l->nr_fetches, f->start, f->end - 1, register_name(f->reg));
    if (f->disp)
        text_printf(out, "%+d", f->disp);
    text_string(out, "\n");
}

static bool is_same(const struct lua_place *a, const struct lua_place *b)
{
    return a->kind == b->kind && a->reg == b->reg && a->offset == b->offset;
}

static void put_site_place(struct text *out, const char *what, const struct lua_place *p)
{
    if (!p)
        return;
    text_string(out, what);
    put_place(out, p);
}

/* Calls whose frame keeps L or the pc elsewhere than usual. */
static void put_sites(struct text *out, const struct lua_layout *l)
{
    unsigned saved = 0, state = 0, pc = 0;
    for (unsigned i = 0; i < l->nr_sites; i++) {
        saved += l->sites[i].saved;
        state += l->sites[i].state.kind != LUA_NOWHERE;
        pc += l->sites[i].pc.kind != LUA_NOWHERE;
    }
    text_printf(
        out,
        "  calls out of the interpreter: %u; L's place is told at %u; the pc is saved at %u, "
        "its place is told at %u\n",
        l->nr_sites, state, saved, pc);
    for (unsigned i = 0; i < l->nr_sites; i++) {
        const struct lua_site *s = &l->sites[i];
        bool other_state = s->state.kind && !is_same(&s->state, &l->state[0]);
        bool other_pc = s->pc.kind && !(l->nr_pc && is_same(&s->pc, &l->pc[0]));
        if (!other_state && !other_pc && !(s->saved && l->nr_pc) && !s->before_fetch)
            continue;
        text_printf(out, "    0x%" PRIx64 ":", s->at);
        put_site_place(out, " L in ", other_state ? &s->state : NULL);
        put_site_place(out, " pc in ", other_pc ? &s->pc : NULL);
        text_string(out, s->saved && l->nr_pc ? " pc saved\n"
                         : s->before_fetch    ? " before a fetch\n"
                                              : "\n");
    }
}

static void put_values(struct text *out, const struct lua_layout *l, const struct lua_evidence *ev)
{
    put_places(out, "L", l->state, l->nr_state, "calls");
    text_printf(out, "    from 0x%" PRIx64 " on; before, in rdi\n", l->body);
    if (l->nr_pc)
        put_places(out, "bytecode pc", l->pc, l->nr_pc, "fetches");
    else
        text_printf(out, "  bytecode pc: in the CallInfo at 0x%x\n", l->fields.ci.savedpc);
    if (l->version == 51)
        put_places(out, "nexeccalls", &l->calls, 1, "additions");
    if (ev->constants_at)
        text_printf(out,
                    "  closures and prototypes as in 5.%u: constants are loaded at 0x%" PRIx64 "\n",
                    l->version - 50, ev->constants_at);
    if (ev->hookmask)
        text_printf(out, "  hookmask at 0x%x of lua_State, as 0x%" PRIx64 " reads it\n",
                    (unsigned)ev->hookmask, ev->hookmask_at);
    if (ev->told)
        text_printf(out, "  fields of %s (0x%" PRIx64 ")\n", ev->told, ev->told_by);
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* A structure's fields, by the names that the version's headers give them. */
struct named_field {
    const char *name;
    uint16_t offset;
};

static void put_fields(struct text *out, const char *structure, const struct named_field *f,
                       size_t nr)
{
    bool any = false;
    text_printf(out, "  %s:", structure);
    for (size_t i = 0; i < nr; i++) {
        if (f[i].offset == LUA_NO_FIELD)
            continue;
        text_printf(out, "%s %s 0x%x", any ? "," : "", f[i].name, f[i].offset);
        any = true;
    }
    text_string(out, "\n");
}
#define PUT_FIELDS(out, structure, ...)                                   \
    put_fields(out, structure, (const struct named_field[]){__VA_ARGS__}, \
               sizeof((const struct named_field[]){__VA_ARGS__}) / sizeof(struct named_field))

static void put_collectors(struct text *out, const struct lua_layout *l)
{
    for (unsigned i = 0; i < l->nr_collectors; i++)
        text_printf(out, "  %s at 0x%" PRIx64 ", %" PRIu64 " bytes\n",
                    i ? "which ends with a jump to the function"
                      : "the garbage collector's step (luaC_step)",
                    l->collectors[i].start, l->collectors[i].end - l->collectors[i].start);
}

static void put_state_fields(struct text *out, const struct lua_layout *l)
{
    const struct lua_fields *f = &l->fields;
    bool old = l->version == 51;
    PUT_FIELDS(out, "lua_State", {"status", f->state.status}, {"top", f->state.top},
               {"l_G", f->state.global}, {"ci", f->state.ci}, {"stack", f->state.stack},
               {"stack_last", f->state.stack_last}, {"base_ci", f->state.base_ci},
               {"hookmask", f->state.hookmask}, {"openupval", f->state.open_upvalues},
               {"base", f->state.base}, {"savedpc", f->state.savedpc});
    PUT_FIELDS(out, "CallInfo", {"func", f->ci.func}, {"top", f->ci.top},
               {"previous", f->ci.previous}, {"next", f->ci.next},
               {old ? "savedpc" : "u.l.savedpc", f->ci.savedpc}, {"callstatus", f->ci.status},
               {old ? "base" : "u.l.base", f->ci.base}, {"u.l.nextraargs", f->ci.extra_args},
               {"tailcalls", f->ci.tail_calls});
    PUT_FIELDS(out, "global_State", {"l_registry", f->global.registry},
               {f->global.main_is_embedded ? "mainth.l" : "mainthread", f->global.main_thread},
               {"mt", f->global.metatables}, {old ? "rootgc" : "allgc", f->global.all_objects});
    text_string(out, "  an interpreter's C frame begins ");
    if (old)
        text_string(out, "as many functions ago as nexeccalls says\n");
    else if (f->ci.fresh_always)
        text_string(out, "at each Lua function\n");
    else
        text_printf(out, "where callstatus (%u bytes) has bit 0x%x%s\n", f->ci.status_size,
                    f->ci.fresh, f->ci.fresh_if_clear ? " not set" : " set");
}

static void put_object_fields(struct text *out, const struct lua_layout *l)
{
    const struct lua_fields *f = &l->fields;
    PUT_FIELDS(
        out, "Proto", {"k", f->proto.k}, {"sizek", f->proto.size_k}, {"code", f->proto.code},
        {"sizecode", f->proto.size_code}, {"lineinfo", f->proto.lineinfo},
        {"sizelineinfo", f->proto.size_lineinfo}, {"abslineinfo", f->proto.abslineinfo},
        {"sizeabslineinfo", f->proto.size_abslineinfo}, {"linedefined", f->proto.line_defined},
        {"lastlinedefined", f->proto.last_line_defined}, {"source", f->proto.source},
        {"locvars", f->proto.locvars}, {"sizelocvars", f->proto.size_locvars},
        {"upvalues", f->proto.upvalues}, {"sizeupvalues", f->proto.size_upvalues},
        {"p", f->proto.protos}, {"sizep", f->proto.size_protos}, {"numparams", f->proto.nr_params});
    const char *size = l->version < 54 ? "sizearray" : l->version == 54 ? "alimit" : "asize";
    PUT_FIELDS(out, "Table", {size, f->table.size_array}, {"array", f->table.array},
               {"node", f->table.node}, {"lsizenode", f->table.log2_nodes},
               {"metatable", f->table.metatable});
    text_printf(out, "  text of a string at 0x%x\n", f->string.text);
}

/* ---- exported functions ---------------------------------------------------------------------- */

/* What an exported function does with a field of its lua_State or global_State. */
struct check {
    const char *function, *field;
    bool of_global; /* through L's pointer to the global_State */
    uint8_t sizes;  /* of the access */
    uint16_t offset;
};

enum { CHECKS = 8 };

static unsigned checks_of(const struct lua_layout *l, struct check ret[static CHECKS])
{
    const struct lua_fields *f = &l->fields;
    unsigned nr = 0;
    ret[nr++] = (struct check){"lua_status", "status", false, 1, f->state.status};
    ret[nr++] = (struct check){"lua_gettop", "top", false, 8, f->state.top};
    ret[nr++] = (struct check){"lua_atpanic", "l_G", false, 8, f->state.global};
    ret[nr++] = (struct check){"lua_gethookmask", "hookmask", false, 1 | 4, f->state.hookmask};
    ret[nr++] = (struct check){"lua_getstack", "ci", false, 8, f->state.ci};
    if (l->version == 51)
        ret[nr++] = (struct check){"lua_getstack", "base_ci", false, 8, f->state.base_ci};
    if (!f->global.main_is_embedded)
        ret[nr++] = (struct check){"lua_pushthread", "mainthread", true, 8, f->global.main_thread};
    return nr;
}

/* Follow an exported function from its entry, with calls. Returns false if it is not there. */
static bool follow_exported(const struct runtime_image *image, const char *name,
                            struct flow_trail *ret)
{
    struct flow_code code = {0};
    if (!flow_add_exported(&code, image, name))
        return false;
    flow_trail_begin(ret, &code);
    while (flow_trail_run(ret, &code) && ret->steps < 200)
        flow_trail_call(ret, &code);
    flow_free(&code);
    return true;
}

static bool is_confirmed(const struct lua_layout *l, const struct check *c,
                         const struct flow_trail *t)
{
    const int16_t global = (int16_t)l->fields.state.global;
    for (unsigned i = 0; i < t->nr_accesses; i++) {
        const struct flow_access *a = &t->accesses[i];
        if (a->disp == c->offset && a->size & c->sizes &&
            flow_value_is(&a->base, FLOW_ARGUMENT_1, c->of_global, &global))
            return true;
    }
    return false;
}

static void put_crosscheck(struct text *out, const struct lua_layout *l,
                           const struct runtime_image *image)
{
    struct check checks[CHECKS];
    struct flow_trail *t = malloc(sizeof(*t));
    unsigned nr = t ? checks_of(l, checks) : 0, there = 0, confirmed = 0;
    const struct check *first = NULL;
    for (unsigned i = 0; i < nr; i++) {
        if (!follow_exported(image, checks[i].function, t))
            continue;
        bool ok = is_confirmed(l, &checks[i], t);
        there++;
        confirmed += ok;
        if (!ok && !first)
            first = &checks[i];
    }
    free(t);
    if (!there)
        text_string(out, "  no exported function confirms the fields\n");
    else
        text_printf(out, "  exported functions confirm %u of %u fields%s%s%s%s\n", confirmed, there,
                    first ? "; not confirmed first: " : "", first ? first->field : "",
                    first ? " by " : "", first ? first->function : "");
}

/* ---- all of it ------------------------------------------------------------------------------- */

void lua_describe(const void *layout, const struct runtime_image *image, struct text *out)
{
    const struct lua_layout *l = layout;
    struct lua_layout again;
    struct lua_evidence *ev = image ? malloc(sizeof(*ev)) : NULL;
    text_printf(out, "Lua 5.%u", l->version - 50);
    if (l->release[0])
        text_printf(out, ", by the file's text %s", l->release);
    text_string(out, "\n");
    put_interpreter(out, l);
    if (ev && lua_discover_with(image, &again, ev, NULL) == 1) {
        put_dispatch(out, l, ev);
        put_values(out, l, ev);
        put_sites(out, l);
        put_collectors(out, l);
        put_state_fields(out, l);
        put_object_fields(out, l);
        put_crosscheck(out, l, image);
    }
    free(ev);
}
