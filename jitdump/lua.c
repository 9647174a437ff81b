/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the LuaJIT agent's records (docs/ljdump.md): Lua functions by the addresses of their
 * bytecode, and traces as LuaJIT's own objects, in the layout that a LAYOUT record gives. The
 * snapshots of a trace show the Lua functions that are inlined at an address of its machine code.
 *
 * Each record counts as later than the records before it. An address in a trace refers to the last
 * function record for it before the trace's record.
 */
#include "base/cursor.h"
#include "jitdump/jitcode.h"
#include "unwind/luajit/branch.h"

#include <string.h>

enum { REF_BASE = 0x8000 }; /* IR references below this are constants (LuaJIT: lj_ir.h) */

/* Offsets in a trace object, in bytes. All of the object's own fields lie below `size`. */
struct layout {
    uint32_t pointer; /* size of a pointer to an object: 8 (then frames have two slots) or 4 */
    uint32_t size, ir, nk, nsnap, snap, map, nmap, nmap_size, startpt, startpc, spadjust, number,
        link, root;
    uint32_t snap_size, mapofs_size, mcofs, nent; /* in a snapshot; mcofs 0: none */
    uint32_t funcf; /* opcode, which shows the numbering; 0: not written (older agent) */
};
enum { LAYOUT_WORDS = sizeof(struct layout) / sizeof(uint32_t), STUB_GROUPS = 16 };

/* Addresses of the exit stubs, in groups of 32; 0: unknown. Traces share them until a flush. */
struct stubs {
    struct stubs *next;
    uint64_t group[STUB_GROUPS];
};

struct trace {
    struct trace *next;
    const struct jit_lua *lua;
    const struct stubs *stubs;
    struct layout layout;
    uint64_t index;   /* code index of its LOAD */
    uint32_t version; /* the trace refers to records before this one */
    const uint8_t *snap, *map, *constants;
    uint64_t address, size; /* the block that begins with the constants, and its size in bytes */
    uint32_t nk, nsnap, nmap;
    uint32_t number, root, parent, exit;
    bool swap;
};

struct jit_lua {
    VEC(struct jit_lua_function) functions;
    struct jitcode *bytecode; /* which bytecode is at an address, by version instead of time */
    struct trace *traces;     /* all traces, the last one first; for freeing */
    struct stubs *stubs;
    struct trace *pending; /* waits for its LOAD */
    struct layout layout;  /* size 0: none so far */
    uint32_t version;
};

void jit_lua_free(struct jit_lua *lua)
{
    if (!lua)
        return;
    while (lua->traces) {
        struct trace *next = lua->traces->next;
        free(lua->traces);
        lua->traces = next;
    }
    while (lua->stubs) {
        struct stubs *next = lua->stubs->next;
        free(lua->stubs);
        lua->stubs = next;
    }
    vec_free(&lua->functions);
    jitcode_free(lua->bytecode);
    free(lua);
}

/* ---- reading records ----------------------------------------------------------------------- */

/* Returns false if a field lies outside the object. */
static bool layout_good(const struct layout *l)
{
    const uint64_t ends[] = {
        l->ir + UINT64_C(8),      l->nk + UINT64_C(4),      l->nsnap + UINT64_C(2),
        l->snap + UINT64_C(8),    l->map + UINT64_C(8),     (uint64_t)l->nmap + l->nmap_size,
        l->startpt + UINT64_C(4), l->startpc + UINT64_C(4), l->spadjust + UINT64_C(2),
        l->number + UINT64_C(2),  l->link + UINT64_C(2),    l->root + UINT64_C(2)};
    bool good = (l->pointer == 4 || l->pointer == 8) && l->size >= 16 && l->size <= 4096 &&
                (l->nmap_size == 2 || l->nmap_size == 4) && l->snap_size >= 8 &&
                l->snap_size <= 64 && (l->mapofs_size == 2 || l->mapofs_size == 4) &&
                l->mcofs <= l->snap_size - 2 && l->nent < l->snap_size;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        good = good && ends[i] <= l->size;
    return good;
}

static bool read_layout(struct jit_lua *lua, struct cursor *c)
{
    uint32_t words[LAYOUT_WORDS];
    for (size_t i = 0; i < LAYOUT_WORDS - 1; i++)
        words[i] = cursor_u32(c);
    words[LAYOUT_WORDS - 1] = cursor_left(c) >= sizeof(*words) ? cursor_u32(c) : 0;
    struct layout l;
    memcpy(&l, words, sizeof(l));
    if (c->failed || !layout_good(&l))
        return false;
    lua->layout = l;
    return true;
}

/* Keep the record's function and the range of its bytecode. */
static int keep_function(struct jit_lua *lua, const struct jit_lua_function *f, struct error *err)
{
    uint64_t size = f->is_builtin ? 1 : (uint64_t)f->instructions * 4;
    if (!jitcode_add(lua->bytecode, f->bytecode, size, lua->version, err))
        return -1;
    return vec_push(&lua->functions, *f) ? 0 : error_no_memory(err);
}

static int read_function(struct jit_lua *lua, struct cursor *c, bool *ret_good, struct error *err)
{
    struct jit_lua_function f = {.bytecode = cursor_u64(c), .swap = c->swap};
    f.instructions = cursor_u32(c);
    f.first_line = cursor_u32(c);
    f.lines = cursor_u32(c);
    f.width = cursor_u32(c);
    f.name_size = cursor_u32(c);
    f.chunk_size = cursor_u32(c);
    f.name = (const char *)cursor_bytes(c, f.name_size);
    f.chunk = (const char *)cursor_bytes(c, f.chunk_size);
    f.is_builtin = f.instructions == 0;
    uint64_t lines = f.is_builtin ? 0 : (uint64_t)f.width * (f.instructions - 1);
    f.line_info = cursor_bytes(c, lines);
    uint64_t code = (uint64_t)f.instructions * 4;
    if (!f.is_builtin && cursor_left(c) >= code)
        f.code = cursor_bytes(c, code);
    *ret_good = !c->failed && (f.width == 0 || f.width == 1 || f.width == 2 || f.width == 4) &&
                f.bytecode < UINT64_MAX / 2 && f.instructions < 1 << 26;
    return *ret_good ? keep_function(lua, &f, err) : 0;
}

static int read_stubs(struct jit_lua *lua, struct cursor *c, bool *ret_good, struct error *err)
{
    uint32_t first = cursor_u32(c);
    uint32_t nr = cursor_u32(c);
    uint64_t address = cursor_u64(c);
    *ret_good = !c->failed && nr == 32 && first % 32 == 0 && first / 32 < STUB_GROUPS;
    if (!*ret_good)
        return 0;
    if (first == 0 || !lua->stubs) { /* the first group since a flush */
        struct stubs *s = calloc(1, sizeof(*s));
        if (!s)
            return error_no_memory(err);
        s->next = lua->stubs;
        lua->stubs = s;
    }
    lua->stubs->group[first / 32] = address;
    return 0;
}

static uint32_t number_at(const uint8_t *at, uint32_t size, bool swap)
{
    return size == 4 ? load_u32(at, swap) : load_u16(at, swap);
}

/* Split a trace object, which is one block: head, constants and instructions, snapshots, snapshot
 * map. The pointers in the head show where each part begins. */
static bool split_object(struct trace *t, const uint8_t *object, uint64_t size)
{
    const struct layout *l = &t->layout;
    if (size < l->size)
        return false;
    t->nk = load_u32(object + l->nk, t->swap);
    t->nsnap = load_u16(object + l->nsnap, t->swap);
    t->nmap = number_at(object + l->nmap, l->nmap_size, t->swap);
    uint64_t ir = load_u64(object + l->ir, t->swap), snap = load_u64(object + l->snap, t->swap);
    if (t->nk > REF_BASE)
        return false;
    uint64_t constants = (uint64_t)(REF_BASE - t->nk) * 8;
    uint64_t before_snap = snap - (ir + (uint64_t)t->nk * 8);
    uint64_t snapshots = (uint64_t)t->nsnap * l->snap_size;
    uint64_t left = size - l->size;
    if (before_snap > left || constants > before_snap || snapshots > left - before_snap ||
        (uint64_t)t->nmap * 4 > left - before_snap - snapshots)
        return false;
    t->address = ir + (uint64_t)t->nk * 8;
    t->size = before_snap + snapshots + (uint64_t)t->nmap * 4;
    t->constants = object + l->size;
    t->snap = t->constants + before_snap;
    t->map = t->snap + snapshots;
    t->number = load_u16(object + l->number, t->swap);
    t->root = load_u16(object + l->root, t->swap);
    if (t->root && before_snap - constants >= 8) { /* the first instruction holds parent and exit */
        t->parent = load_u16(t->constants + constants, t->swap);
        t->exit = load_u16(t->constants + constants + 2, t->swap);
    }
    return true;
}

static int read_trace(struct jit_lua *lua, struct cursor *c, bool *ret_good, struct error *err)
{
    struct trace t = {.lua = lua,
                      .layout = lua->layout,
                      .stubs = lua->stubs,
                      .version = lua->version,
                      .swap = c->swap};
    t.index = cursor_u64(c);
    uint64_t size = cursor_left(c);
    const uint8_t *object = cursor_bytes(c, size);
    lua->pending = NULL;
    *ret_good = !c->failed && lua->layout.size && split_object(&t, object, size);
    if (!*ret_good)
        return 0;
    struct trace *kept = malloc(sizeof(*kept));
    if (!kept)
        return error_no_memory(err);
    *kept = t;
    kept->next = lua->traces;
    lua->traces = lua->pending = kept;
    return 0;
}

static struct jit_lua *lua_create(void)
{
    struct jit_lua *lua = calloc(1, sizeof(*lua));
    if (!lua)
        return NULL;
    lua->bytecode = jitcode_create();
    if (!lua->bytecode) {
        free(lua);
        return NULL;
    }
    return lua;
}

int jit_lua_read(struct jitcode *code, uint32_t id, const struct cursor *record, bool *ret_good,
                 struct error *err)
{
    struct cursor c = *record;
    if (!code->lua)
        code->lua = lua_create();
    if (!code->lua)
        return error_no_memory(err);
    code->lua->version++;
    switch (id) {
    case LUA_FUNCTION:
        return read_function(code->lua, &c, ret_good, err);
    case LUA_STUBS:
        return read_stubs(code->lua, &c, ret_good, err);
    case LUA_TRACE:
        return read_trace(code->lua, &c, ret_good, err);
    default:
        *ret_good = read_layout(code->lua, &c);
        return 0;
    }
}

const void *jit_lua_take(struct jitcode *code, uint64_t index)
{
    struct trace *t = code->lua ? code->lua->pending : NULL;
    if (!t || t->index != index)
        return NULL;
    code->lua->pending = NULL;
    return t;
}

int jit_lua_index(struct jitcode *code, struct error *err)
{
    return code->lua ? jitcode_index_build(code->lua->bytecode, err) : 0;
}

/* ---- finding the snapshot of an address ---------------------------------------------------- */

/* Returns the exit whose stub is at `target`; -1: none. */
static int64_t stub_exit(const struct trace *t, uint64_t target)
{
    for (uint32_t i = 0; t->stubs && i < STUB_GROUPS; i++) {
        uint64_t group = t->stubs->group[i];
        /* There are 31 stubs of 4 bytes; the last has 2 (LuaJIT: asm_exitstub_gen). */
        if (group && target >= group && target - group < 128 && (target - group) % 4 == 0)
            return i * 32 + (int64_t)(target - group) / 4;
    }
    return -1;
}

/* Find the guards around `offset`, for snapshots without addresses. A guard is a conditional jump
 * to the stub with the number of the guard's snapshot. The code as it was loaded, before side
 * traces were attached, has all these jumps. Code belongs to the snapshot of the next guard or to
 * that of the guard before. *before and *after are the exits of these guards; -1: no such guard. */
static void find_guards(const struct trace *t, const struct jit_function *f, uint64_t offset,
                        int64_t *before, int64_t *after)
{
    *before = *after = -1;
    for (uint64_t at = 0; f->code && at + 6 <= f->size; at++) {
        const uint8_t *p = f->code + at;
        if (p[0] != 0x0f || (p[1] & 0xf0) != 0x80)
            continue;
        int64_t to = (int32_t)load_u32(p + 2, false);
        int64_t exit = stub_exit(t, f->start + at + 6 + (uint64_t)to);
        if (exit < 0 || exit >= t->nsnap)
            continue;
        if (at + 6 > offset) { /* a guard itself also runs for its own snapshot */
            *after = exit;
            return;
        }
        *before = exit;
    }
}

/* Returns the last snapshot whose code begins at or before `offset`. */
static uint32_t snapshot_at(const struct trace *t, uint64_t offset)
{
    const uint8_t *mcofs = t->snap + t->layout.mcofs;
    uint32_t found = 0;
    for (uint32_t i = 1; i < t->nsnap; i++)
        if (load_u16(mcofs + (size_t)i * t->layout.snap_size, t->swap) <= offset)
            found = i;
    return found;
}

/* ---- reading a snapshot -------------------------------------------------------------------- */

/* A snapshot entry: slot << 24 | flags | reference. */
enum { ENTRY_FRAME = 0x10000 };
/* The low bits of a frame's link (LuaJIT: lj_frame.h). A call by Lua code has the address of the
 * next instruction as its link; the low two bits are 0. Other links have a type and a distance. */
enum { LINK_TYPE = 7, LINK_CONT = 2, LINK_VARG = 3, LINK_PCALL = 6, LINK_PCALLH = 7 };

struct walk {
    const struct trace *t;
    const uint8_t *entries; /* in descending slot order from the end: the next is [left - 1] */
    uint32_t left;
    struct jit_lua_stack *to;
};

static uint32_t entry_at(const struct walk *w, uint32_t i)
{
    return load_u32(w->entries + (size_t)i * 4, w->t->swap);
}

/* Get a constant: an address or a link. With 8-byte pointers it is in the second of two places. */
static bool constant(const struct trace *t, uint32_t entry, uint64_t *ret)
{
    bool wide = t->layout.pointer == 8;
    uint32_t ref = (entry & 0xffff) + wide;
    if (ref < t->nk + wide || ref >= REF_BASE)
        return false;
    const uint8_t *at = t->constants + (size_t)(ref - t->nk) * 8;
    *ret = wide ? load_u64(at, t->swap) : load_u32(at, t->swap);
    return true;
}

static const struct jit_lua_function *function_at(const struct trace *t, uint64_t address)
{
    const struct jit_function *f = jitcode_lookup(t->lua->bytecode, address, t->version);
    return f ? &t->lua->functions.at[jitcode_index(t->lua->bytecode, f)] : NULL;
}

/* Returns the line of instruction `position`. Line info exists for all instructions but the
 * first. */
static uint32_t line_at(const struct jit_lua_function *f, uint64_t position)
{
    if (f->is_builtin || f->width == 0 || position >= f->instructions)
        return 0;
    if (position == 0)
        return f->first_line;
    const uint8_t *at = f->line_info + (position - 1) * f->width;
    uint32_t line = f->width == 1 ? *at : number_at(at, f->width, f->swap);
    return f->first_line + line;
}

/* A C function whose name is unknown. */
static const struct jit_lua_function c_function = {
    .name = "", .chunk = "=[C]", .chunk_size = 4, .is_builtin = true};

/* Append the frame whose next instruction is at `next`. For a builtin or C function, `object` is
 * its address. A trace that ends in a call of such a function has its frame, and `next` is then
 * outside all bytecode. Bytecode is tried first, because a closure may be where a builtin's object
 * was. */
static void emit(struct walk *w, uint64_t next, uint64_t object)
{
    const struct jit_lua_function *builtin = object ? function_at(w->t, object) : NULL;
    const struct jit_lua_function *lua = next ? function_at(w->t, next - 4) : NULL;
    struct jit_lua_frame frame = {0};
    if (w->to->nr == JIT_LUA_FRAMES_MAX)
        return;
    if (lua && !lua->is_builtin)
        frame = (struct jit_lua_frame){
            .function = lua, .line = line_at(lua, (next - 4 - lua->bytecode) / 4), .pc = next - 4};
    else if (builtin && builtin->is_builtin && builtin->bytecode == object)
        frame = (struct jit_lua_frame){.function = builtin, .pc = object};
    else if (w->to->nr == 0) /* all Lua functions of a trace are known, and it is none of them */
        frame = (struct jit_lua_frame){.function = &c_function, .pc = object};
    w->to->frames[w->to->nr++] = frame;
}

/* Append an unknown frame: nothing is known from here on. */
static void emit_unknown(struct walk *w)
{
    if (w->to->nr < JIT_LUA_FRAMES_MAX)
        w->to->frames[w->to->nr++] = (struct jit_lua_frame){0};
}

/* What a snapshot holds of one frame. */
struct links {
    uint64_t link, object, resume; /* 0: absent */
    uint32_t below;                /* base of the next frame, in slots */
};

/* Take the entries of the frame with this base. Returns false if it has no link. */
static bool take_links(struct walk *w, uint32_t base, struct links *ret)
{
    *ret = (struct links){0};
    while (w->left && entry_at(w, w->left - 1) >> 24 >= base)
        w->left--;
    if (!w->left || entry_at(w, w->left - 1) >> 24 != base - 1 ||
        !constant(w->t, entry_at(w, w->left - 1), &ret->link))
        return false;
    w->left--;
    while (w->left && !(entry_at(w, w->left - 1) & ENTRY_FRAME)) {
        uint32_t e = entry_at(w, --w->left);
        if (e >> 24 == base - 2)
            constant(w->t, e, &ret->object);
        else if (e >> 24 == base - 3)
            constant(w->t, e, &ret->resume);
    }
    ret->object &= UINT64_C(0x7fffffffffff); /* without the tag of the value */
    ret->below = w->left ? (entry_at(w, w->left - 1) >> 24) + 1 : 2;
    ret->below = ret->below < 2 ? 2 : ret->below;
    return true;
}

/* Walk two-slot frames. A frame is named by its base, in slots. Below the base are its link
 * (marked) and its function, and with a continuation also the continuation and an address. The base
 * of the start frame is 2. */
static void walk_wide(struct walk *w, const uint8_t *end)
{
    uint64_t head = load_u64(end, w->t->swap);
    uint64_t next = (head >> 8) + 4;
    uint32_t base = (uint32_t)(head & 0xff) + 2;
    while (base > 2) {
        struct links at;
        bool known = take_links(w, base, &at);
        unsigned type = at.link & LINK_TYPE;
        bool is_lua = (at.link & 3) == 0;
        if (!known || is_lua || type != LINK_VARG)
            emit(w, next, at.object);
        if (!known || (!is_lua && (at.link & ~(uint64_t)LINK_TYPE) / 8 != base - at.below)) {
            emit_unknown(w);
            return;
        }
        if (is_lua)
            next = at.link;
        else if (type == LINK_CONT)
            next = at.resume;
        else if (type != LINK_VARG)
            next = 0;
        base = at.below;
    }
    emit(w, next, 0);
}

/* Walk one-slot frames. Behind the entries are the address of the next instruction and the links,
 * innermost first. Functions are marked entries. The function of the start frame is in slot 0 and
 * has no link. */
static void walk_narrow(struct walk *w, const uint8_t *words, uint32_t nr)
{
    uint64_t next = (uint64_t)load_u32(words, w->t->swap) + 4;
    for (uint32_t i = 1; i < nr; i++) {
        uint32_t link = load_u32(words + (size_t)i * 4, w->t->swap);
        uint64_t object = 0;
        while (w->left && !(entry_at(w, w->left - 1) & ENTRY_FRAME))
            w->left--;
        if (w->left)
            constant(w->t, entry_at(w, --w->left), &object);
        bool is_lua = (link & 3) == 0;
        unsigned type = link & LINK_TYPE;
        if (type != LINK_VARG || is_lua)
            emit(w, next, object);
        if (is_lua)
            next = link;
        else if (type == LINK_CONT)
            next = ++i < nr ? load_u32(words + (size_t)i * 4, w->t->swap) : 0;
        else if (type != LINK_VARG)
            next = 0;
    }
    emit(w, next, 0);
}

/* Returns false if the snapshot is malformed. */
static bool walk_snapshot(const struct trace *t, uint32_t number, struct jit_lua_stack *to)
{
    const struct layout *l = &t->layout;
    const uint8_t *snap = t->snap + (size_t)number * l->snap_size;
    uint64_t mapofs = number_at(snap, l->mapofs_size, t->swap), end = t->nmap;
    uint32_t nent = snap[l->nent];
    if (number + 1 < t->nsnap)
        end = number_at(snap + l->snap_size, l->mapofs_size, t->swap);
    to->nr = 0;
    if (end > t->nmap || mapofs + nent + (l->pointer == 8 ? 2 : 1) > end)
        return false;
    struct walk w = {.t = t, .entries = t->map + mapofs * 4, .left = nent, .to = to};
    const uint8_t *behind = w.entries + (size_t)nent * 4;
    if (l->pointer == 8)
        walk_wide(&w, behind);
    else
        walk_narrow(&w, behind, (uint32_t)(end - mapofs - nent));
    return to->nr > 0;
}

static bool same_functions(const struct jit_lua_stack *a, const struct jit_lua_stack *b)
{
    bool same = a->nr == b->nr;
    for (unsigned i = 0; same && i < a->nr; i++)
        same = a->frames[i].function == b->frames[i].function;
    return same;
}

/* Walk the snapshot that the guards around `offset` select. *ret_number: that snapshot. */
static bool walk_guards(const struct trace *t, const struct jit_function *f, uint64_t offset,
                        uint32_t *ret_number, struct jit_lua_stack *ret)
{
    int64_t before, after;
    struct jit_lua_stack other;
    find_guards(t, f, offset, &before, &after);
    if (before < 0 && after < 0)
        before = after = t->nsnap - 1;
    *ret_number = (uint32_t)(after < 0 ? t->nsnap - 1 : after);
    if (!walk_snapshot(t, *ret_number, ret))
        return false;
    ret->guess = !walk_snapshot(t, (uint32_t)(before < 0 ? 0 : before), &other) ||
                 !same_functions(ret, &other);
    return true;
}

/* ---- the recorded line --------------------------------------------------------------------- */

/* The VM memory that the records hold: the parts of a trace, and the instructions of a function. */
struct recorded {
    const struct trace *t;
    const struct jit_lua_function *f;
};

static bool copy_part(const uint8_t *part, uint64_t start, uint64_t part_size, uint64_t address,
                      void *to, size_t size)
{
    uint64_t at = address - start;
    if (at >= part_size || part_size - at < size)
        return false;
    memcpy(to, part + at, size);
    return true;
}

static bool read_recorded(void *context, const struct memory_query *q, void *to,
                          struct memory_answer *answer)
{
    const struct recorded *r = context;
    (void)answer; /* exact */
    return copy_part(r->t->constants, r->t->address, r->t->size, q->address, to, q->size) ||
           copy_part(r->f->code, r->f->bytecode, (uint64_t)r->f->instructions * 4, q->address, to,
                     q->size);
}

/* Make the trace as it was in the VM. Returns false if its snapshots have an unknown form. */
static bool make_trace(const struct trace *t, struct luajit_trace *ret)
{
    const struct layout *l = &t->layout;
    bool small = l->snap_size == 8;
    uint64_t before_snap = (uint64_t)(t->snap - t->constants);
    *ret = (struct luajit_trace){.ir = t->address - (uint64_t)t->nk * 8,
                                 .snap = t->address + before_snap,
                                 .snapmap = t->address + (uint64_t)(t->map - t->constants),
                                 .nk = t->nk,
                                 .nins = (uint32_t)(t->nk + before_snap / 8),
                                 .nsnap = t->nsnap,
                                 .nsnapmap = t->nmap,
                                 .snap_size = (uint16_t)l->snap_size,
                                 .has_mcofs = l->mcofs != 0};
    return (small || l->snap_size == 12) && l->mapofs_size == (small ? 2 : 4) &&
           l->nent == (small            ? 6
                       : ret->has_mcofs ? 10
                                        : 8);
}

/* Set the innermost frame's line to that of the recorded branch, because a snapshot says where the
 * program continues when its guard fails. The line is 0 if the branch is unknown. */
static void find_recorded_line(const struct trace *t, uint32_t number, struct jit_lua_frame *frame)
{
    enum { STEPS = 1 << 14 };
    const struct recorded context = {t, frame->function};
    const struct memory_layer layer = {
        .name = "jitdump", .read = read_recorded, .context = (void *)&context};
    const struct memory memory = {.layers = &layer, .nr_layers = 1};
    struct luajit_layout layout = {.gc64 = t->layout.pointer == 8,
                                   .frame_slots = t->layout.pointer == 8 ? 2 : 1,
                                   .op_funcf = (int32_t)t->layout.funcf};
    struct luajit_trace trace;
    struct luajit_reader reader = {0};
    if (!frame->function || !frame->function->code || t->swap || number == 0 ||
        !make_trace(t, &trace) || !luajit_layout_opcodes(&layout))
        return;
    const struct luajit_function f = {
        .code = frame->function->bytecode, .sizebc = frame->function->instructions, .lua = true};
    luajit_reader_begin(&reader, &memory);
    luajit_reader_use(&reader, &layout);
    reader.budget = STEPS;
    uint64_t next = luajit_recorded_pc(&reader, &trace, number, &f, frame->pc + 4);
    frame->pc = next ? next - 4 : 0;
    frame->line = next ? line_at(frame->function, (frame->pc - f.code) / 4) : 0;
}

bool jit_function_lua(const struct jit_function *f, uint64_t address, struct jit_lua_stack *ret)
{
    const struct trace *t = f->lua;
    uint64_t offset = address - f->start;
    if (!t || offset >= f->size || t->nsnap == 0)
        return false;
    ret->guess = false;
    uint32_t number = 0;
    bool good = t->layout.mcofs ? walk_snapshot(t, number = snapshot_at(t, offset), ret)
                                : walk_guards(t, f, offset, &number, ret);
    if (good)
        find_recorded_line(t, number, &ret->frames[0]);
    ret->trace = t->number;
    ret->root = t->root;
    ret->parent = t->parent;
    ret->exit = t->exit;
    return good;
}
