/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the interpreter, and what must be known of it. See discover.h.
 *
 * The interpreter is the function that fetches words of four bytes, jumps by 6 or 7 of their bits
 * through a table, and keeps its first argument. The number of opcodes is the version. This told
 * all of 170 builds, and nothing else in 32 programs and libraries.
 */
#include "unwind/lua/discover_internal.h"

#include "unwind/arch_x86_64.h"
#include "unwind/native/cfi.h"

#include <stdlib.h>
#include <string.h>

enum { OPCODES_MIN = 30 };

/* ---- parts ----------------------------------------------------------------------------------- */

/* Another function begins with its return address alone on the stack; a part that is jumped to has
 * the whole frame from the beginning. */
static bool is_part(const struct cfi *cfi, const struct fde *fde)
{
    struct cfi_row row;
    return fde->size < 1 << 16 && cfi_row(cfi, fde->begin, &row) &&
           (row.cfa_register != DWARF_RSP || row.cfa_offset != 8);
}

/* Add parts that are jumped to and have unwind entries of their own. */
static int add_cold_parts(const struct runtime_image *image, struct flow_code *code,
                          struct error *err)
{
    for (size_t i = 0; i < code->insns.nr && code->nr_parts < LUA_PARTS_MAX; i++) {
        uint64_t target;
        struct fde fde;
        enum insn_way way = flow_way(&code->insns.at[i], &target);
        if ((way != WAY_BRANCH && way != WAY_JUMP) || flow_has(code, target) ||
            !cfi_find_fde(image->cfi, target, &fde) || !is_part(image->cfi, &fde))
            continue;
        if (flow_add_part(code, image, (struct lua_range){fde.begin, fde.begin + fde.size}, err))
            return -1;
    }
    return 0;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* Find a table whose address the function computes somewhere, for dispatches that have it in a
 * register. */
static unsigned longest_table(const struct runtime_image *image, const struct flow_code *code,
                              struct lua_dispatch *d)
{
    unsigned best = 0;
    for (size_t i = 0; i < code->insns.nr; i++) {
        const struct insn_parts *is = &code->insns.at[i].is;
        if (is->map || is->vector || is->opcode != 0x8d || !is->rip_relative)
            continue;
        uint64_t table = flow_end(&code->insns.at[i]) + (uint64_t)(int64_t)is->disp;
        unsigned nr = lua_table_length(image, code, table, d->entry_size);
        if (nr > best) {
            best = nr;
            d->table = table;
        }
    }
    return best;
}

static unsigned count_opcodes(const struct runtime_image *image, const struct flow_code *code,
                              struct lua_dispatch *d)
{
    unsigned length = d->table ? lua_table_length(image, code, d->table, d->entry_size)
                               : longest_table(image, code, d);
    if (d->nr_opcodes && length >= d->nr_opcodes)
        return d->nr_opcodes;
    return lua_version_of(length, d->mask) || !d->nr_opcodes ? length : d->nr_opcodes;
}

/* ---- one function ---------------------------------------------------------------------------- */

struct found {
    struct lua_layout layout;
    struct lua_evidence evidence;
    struct flow_frame frame; /* of the function's body */
    struct error why;        /* why it is not understood; kind ERROR_NONE: it is */
};

struct search {
    const struct runtime_image *image;
    struct found *best, *now; /* best: nr_state 0: none */
    struct error *err;
    bool failed;
};

/* Get the frame of the function's body: as it is at the dispatch. CFI has the last word. */
static struct flow_frame body_frame(const struct cfi *cfi, uint64_t at, struct flow_frame frame)
{
    struct cfi_row row;
    if (!cfi_row(cfi, at, &row) || row.cfa_is_expression)
        return frame;
    if (row.cfa_register == DWARF_RSP) {
        frame.sp_known = true;
        frame.sp = (int32_t)-row.cfa_offset;
    } else if (row.cfa_register == DWARF_RBP) {
        frame.fp_known = true;
        frame.fp = (int32_t)-row.cfa_offset;
    }
    return frame;
}

/* Follow the way from the entry. `entry`: as it is at the first call or jump through a table. */
static void follow_entry(const struct flow_code *code, struct flow_trail *entry,
                         struct lua_evidence *ev)
{
    uint64_t ignored;
    flow_trail_begin(&ev->trail, code);
    const struct flow_insn *i = flow_trail_run(&ev->trail, code);
    *entry = ev->trail;
    while (i && flow_way(i, &ignored) == WAY_CALL) {
        flow_trail_call(&ev->trail, code);
        i = flow_trail_run(&ev->trail, code);
    }
}

/* Find the places in a function that has a dispatch. Returns 1 if it has all that an interpreter
 * has. */
static int find_places(const struct runtime_image *image, struct flow_code *code, bool *fetches,
                       struct flow_trail *entry, struct found *ret)
{
    struct lua_layout *l = &ret->layout;
    struct lua_evidence *ev = &ret->evidence;
    follow_entry(code, entry, ev);
    ret->frame = body_frame(image->cfi, ev->dispatch.jump, ev->trail.frame);
    lua_find_pc(code, &ret->frame, fetches, l, ev);
    if (l->version == 52 || l->version == 53)
        l->nr_pc = 0; /* (see layout.h) */
    if (l->nr_opcodes >= OPCODES_MIN && ev->nr_fetches)
        lua_find_state(code, &ret->frame, entry, l, ev);
    return l->nr_state > 0;
}

/* Note where the function's slots are, for whoever has the registers but not CFI. */
static void note_cfa(const struct cfi *cfi, struct lua_layout *l)
{
    struct cfi_row row;
    if (!cfi_row(cfi, l->body, &row) || row.cfa_is_expression)
        return;
    l->cfa_offset = (int32_t)row.cfa_offset;
    l->cfa_by = row.cfa_register == DWARF_RSP   ? LUA_BY_SP
                : row.cfa_register == DWARF_RBP ? LUA_BY_FP
                                                : LUA_BY_NOTHING;
}

/* Read a function that has a dispatch. */
static int read_function(const struct runtime_image *image, struct flow_code *code,
                         const struct lua_dispatch *dispatch, struct found *ret, struct error *err)
{
    struct lua_layout *l = &ret->layout;
    struct flow_trail *entry = malloc(sizeof(*entry));
    bool *fetches = calloc(code->insns.nr + 1, sizeof(*fetches));
    int got = entry && fetches ? 0 : error_no_memory(err);
    ret->evidence.dispatch = *dispatch;
    l->nr_parts = code->nr_parts;
    memcpy(l->parts, code->parts, sizeof(l->parts));
    if (!got) {
        l->nr_opcodes = (uint8_t)count_opcodes(image, code, &ret->evidence.dispatch);
        l->version = (uint8_t)lua_version_of(l->nr_opcodes, dispatch->mask);
        got = find_places(image, code, fetches, entry, ret);
    }
    if (got > 0 && l->version && !lua_find_fields(image, code, l, &ret->evidence, &ret->why)) {
        lua_find_sites(code, &ret->frame, &ret->evidence.trail, fetches, l);
        lua_find_collector(image, code, l);
        note_cfa(image->cfi, l);
    }
    free(entry);
    free(fetches);
    return got;
}

static bool is_understood(const struct found *f)
{
    return f->layout.version && f->why.kind == ERROR_NONE;
}

static bool is_better(const struct found *a, const struct found *b)
{
    if (is_understood(a) != is_understood(b))
        return is_understood(a);
    return a->evidence.nr_fetches > b->evidence.nr_fetches;
}

static int note_candidate(struct search *s, struct flow_code *code, struct lua_range function,
                          const struct lua_dispatch *dispatch)
{
    struct found *now = s->now;
    memset(now, 0, sizeof(*now));
    if (dispatch->nr_opcodes && dispatch->nr_opcodes < OPCODES_MIN)
        return 0;
    if (flow_add_part(code, s->image, function, s->err) || add_cold_parts(s->image, code, s->err))
        return -1;
    int got = read_function(s->image, code, dispatch, now, s->err);
    if (got <= 0)
        return got;
    if (is_better(now, s->best)) {
        s->now = s->best;
        s->best = now;
    }
    return 0;
}

static bool each_candidate(void *context, struct lua_range function,
                           const struct lua_dispatch *dispatch)
{
    struct search *s = context;
    struct flow_code code = {0};
    s->failed = note_candidate(s, &code, function, dispatch) < 0;
    flow_free(&code);
    return !s->failed;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool exports(const struct runtime_image *image, const char *name)
{
    uint64_t at;
    return image->exported(image->context, name, &at);
}

/* Say what is known of a Lua whose interpreter is not. Returns 0 if the file has no Lua. */
static int not_found(const struct runtime_image *image, const struct found *best, struct error *err)
{
    char release[16];
    if (best->why.kind != ERROR_NONE) {
        *err = best->why;
        return -1;
    }
    if (exports(image, "luau_load"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: Luau is not supported: its virtual machine is not Lua's",
                         image->name);
    bool exported = exports(image, "lua_newstate") && !exports(image, "luaJIT_setmode");
    if (best->layout.nr_state && (exported || lua_find_release(image, 0, release)))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this Lua is unknown: its interpreter at 0x%llx has %u opcodes, which "
                         "is none of the versions 5.1 to 5.5",
                         image->name, (unsigned long long)best->layout.parts[0].start,
                         best->layout.nr_opcodes);
    if (exported)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this Lua is unknown: the file exports lua_newstate, but none of its "
                         "functions has the form of an interpreter",
                         image->name);
    return 0;
}

int lua_discover_with(const struct runtime_image *image, struct lua_layout *ret,
                      struct lua_evidence *ev, struct error *err)
{
    struct error ignored;
    struct found *both = calloc(2, sizeof(*both));
    struct search s = {.image = image, .best = both, .now = both + 1, .err = err ? err : &ignored};
    if (!both)
        return error_no_memory(err);
    lua_each_dispatching(image, each_candidate, &s);
    int got = s.failed ? -1 : is_understood(s.best) ? 1 : not_found(image, s.best, s.err);
    *ret = s.best->layout;
    if (ev)
        *ev = s.best->evidence;
    free(both);
    return got;
}

int lua_discover(const struct runtime_image *image, struct lua_layout *ret, struct error *err)
{
    if (image->cfi && image->cfi->arch != &arch_x86_64)
        return 0; /* its instructions are not those that are looked for */
    return lua_discover_with(image, ret, NULL, err);
}

static bool stop(void *context, struct lua_range function, const struct lua_dispatch *dispatch)
{
    (void)function, (void)dispatch;
    *(bool *)context = true;
    return false;
}

const char *lua_relative(const struct runtime_image *image)
{
    /* An error of luau_load(), VM/src/lvmload.cpp */
    static const char says[] = "%s: bytecode version mismatch (expected [%d..%d], got %d)";
    const char *at, *end;
    for (size_t i = 0; lua_next_constants(image, &i, &at, &end);)
        if (memmem(at, (size_t)(end - at), says, sizeof(says)))
            return "Luau";
    return NULL;
}

bool lua_may_hold(const struct runtime_image *image)
{
    bool found = false;
    lua_each_dispatching(image, stop, &found);
    return found;
}
