/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/snapshot_plain.h"

#include "base/table.h"
#include "perfdata/vmevent.h"
#include "unwind/lua/object.h"

#include <stdlib.h>
#include <string.h>

enum {
    VMS_MAX = 4096,        /* of one process */
    OBJECTS_MAX = 1 << 22, /* of one VM's list */
    STATES_MAX = 1 << 16,  /* of one process */
    RUNNING_MAX = 256,     /* states whose stacks are read at once */
    FUNCTIONS_MAX = 64,    /* on a stack, of which prototypes are read */
    CALLS_MAX = 256,       /* CallInfos of a state */
    ARRAY_MAX = 1 << 20,   /* bytes of an array of a prototype */
    STACK_MAX = 1 << 20,   /* bytes of a Lua stack */
    STRING_BYTES = 0x120,  /* of a string that are read, with its header */
    PIECE = 1 << 16,       /* bytes of memory that are searched at once */
    STATE_HEAD = 48,       /* bytes of a lua_State that a test needs */
    GRAIN = 8,             /* alignment of objects */
};

struct snapshot_plain {
    pid_t pid;
    const struct lua_layout *layout;
    struct page_log *pages;
    VEC(uint64_t) globals, states;
    struct table known; /* global_States found: address + 1 -> any */
};

struct snapshot_plain *snapshot_plain_create(pid_t pid, const struct lua_layout *layout,
                                             struct page_log *pages)
{
    struct snapshot_plain *s = calloc(1, sizeof(*s));
    if (s)
        *s = (struct snapshot_plain){.pid = pid, .layout = layout, .pages = pages};
    return s;
}

void snapshot_plain_free(struct snapshot_plain *s)
{
    if (!s)
        return;
    vec_free(&s->globals);
    vec_free(&s->states);
    table_free(&s->known);
    free(s);
}

size_t snapshot_plain_vms(const struct snapshot_plain *s)
{
    return s->globals.nr;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool peek(struct snapshot_plain *s, uint64_t address, void *to, size_t size)
{
    const struct memory_layer layer = page_log_peek(s->pages);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(&m, address, to, size, &ignored);
}

static uint64_t peek_u64(struct snapshot_plain *s, uint64_t address)
{
    uint64_t value = 0;
    return peek(s, address, &value, sizeof(value)) ? value : 0;
}

static void keep(struct snapshot_plain *s, uint64_t address, uint64_t nr, uint64_t each)
{
    if (address && nr && nr <= ARRAY_MAX / each)
        (void)page_log_keep(s->pages, address, nr * each);
}

/* ---- VMs ----------------------------------------------------------------------------------- */

static bool is_thread(struct snapshot_plain *s, uint64_t L, uint64_t g)
{
    uint8_t tag;
    return lua_is_address(L) && peek(s, L + LUA_OBJECT_TAG, &tag, 1) &&
           (tag & LUA_TAG_MASK) == LUA_TTHREAD &&
           peek_u64(s, L + s->layout->fields.state.global) == g;
}

static uint64_t main_of(struct snapshot_plain *s, uint64_t g)
{
    const struct memory_layer layer = page_log_peek(s->pages);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    struct lua_reader r = {.m = &m, .layout = s->layout, .budget = 1};
    return lua_main_thread(&r, g);
}

/* Note the VM of the lua_State whose head may be at `head`. */
static bool note_vm(struct snapshot_plain *s, const uint8_t *head)
{
    uint64_t g = lua_u64(head, s->layout->fields.state.global);
    if ((head[LUA_OBJECT_TAG] & LUA_TAG_MASK) != LUA_TTHREAD || !lua_is_address(g) ||
        s->globals.nr >= VMS_MAX || table_get(&s->known, g + 1) || !is_thread(s, main_of(s, g), g))
        return true;
    return vec_push(&s->globals, g) && table_put(&s->known, g + 1, s);
}

static bool search(struct snapshot_plain *s, const struct memory_range *range, uint8_t *piece)
{
    for (uint64_t at = range->start; at + STATE_HEAD <= range->end; at += PIECE - STATE_HEAD) {
        size_t size = range->end - at < PIECE ? (size_t)(range->end - at) : PIECE;
        if (!peek(s, at, piece, size))
            continue;
        for (size_t i = 0; i + STATE_HEAD <= size; i += GRAIN)
            if (!note_vm(s, piece + i))
                return false;
    }
    return true;
}

static int find_vms(struct snapshot_plain *s, struct error *err)
{
    lua_scan_range_list ranges = {0};
    uint8_t *piece = malloc(PIECE);
    int failed = piece ? lua_scan_heap(s->pid, &ranges, err) : error_no_memory(err);
    s->globals.nr = 0;
    table_free(&s->known);
    s->known = (struct table){0};
    vec_foreach (range, &ranges)
        if (!failed && !search(s, range, piece))
            failed = error_no_memory(err);
    vec_free(&ranges);
    free(piece);
    return failed;
}

/* ---- objects ------------------------------------------------------------------------------- */

static void keep_string(struct snapshot_plain *s, uint64_t address)
{
    if (lua_is_address(address))
        (void)page_log_keep(s->pages, address, STRING_BYTES);
}

/* Keep the strings that an array names: the first word of each entry. */
static void keep_names(struct snapshot_plain *s, uint64_t at, uint32_t nr, uint32_t each)
{
    enum { NAMES_MAX = 4096 };
    keep(s, at, nr, each);
    for (uint32_t i = 0; i < nr && i < NAMES_MAX; i++)
        keep_string(s, peek_u64(s, at + (uint64_t)i * each));
}

/* Keep the constants, and the strings among them. */
static void keep_constants(struct snapshot_plain *s, uint64_t at, uint32_t nr)
{
    enum { CONSTANTS_MAX = 4096 };
    const struct lua_fields *f = &s->layout->fields;
    keep(s, at, nr, f->value_size);
    for (uint32_t i = 0; i < nr && i < CONSTANTS_MAX; i++) {
        uint8_t value[16];
        if (f->value_size > sizeof(value) ||
            !peek(s, at + (uint64_t)i * f->value_size, value, f->value_size))
            return;
        if ((value[f->value_tag] & 0xf) == LUA_TSTRING)
            keep_string(s, lua_u64(value, 0));
    }
}

static void keep_proto(struct snapshot_plain *s, uint64_t address)
{
    const struct lua_fields *f = &s->layout->fields;
    const struct memory_layer layer = page_log_layer(s->pages);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    struct lua_reader r = {.m = &m, .layout = s->layout, .budget = 64};
    struct lua_proto p;
    if (!lua_proto_read(&r, address, &p))
        return;
    keep(s, address, f->proto.size, 1);
    keep(s, p.code, p.nr_code, 4);
    keep(s, p.lineinfo, p.nr_lineinfo, f->proto.signed_lines ? 1 : 4);
    keep(s, p.abslineinfo, p.nr_abslineinfo, 8);
    keep(s, p.protos, p.nr_protos, 8);
    keep_names(s, p.locvars, p.nr_locvars, 16);
    keep_names(s, p.upvalues, p.nr_upvalues, f->proto.upvalue_size);
    keep_constants(s, p.k, p.nr_k);
    keep_string(s, p.source);
}

static bool take_object(struct snapshot_plain *s, uint64_t address, uint8_t tag)
{
    const struct lua_fields *f = &s->layout->fields;
    tag &= LUA_TAG_MASK;
    if (tag == f->proto.tag)
        keep_proto(s, address);
    else if (tag == f->closure.tag_lua || tag == f->closure.tag_c)
        keep(s, address, LUA_CLOSURE_HEAD, 1);
    else if (tag == LUA_TTHREAD && s->states.nr < STATES_MAX)
        return vec_push(&s->states, address);
    return true;
}

/* The list may change while it is read, and then lead anywhere: it is bounded. */
static bool take_list(struct snapshot_plain *s, uint64_t g)
{
    uint64_t at = peek_u64(s, g + s->layout->fields.global.all_objects);
    for (size_t i = 0; i < OBJECTS_MAX && lua_is_address(at); i++) {
        uint8_t head[16];
        if (!peek(s, at, head, sizeof(head)))
            break;
        if (!take_object(s, at, head[LUA_OBJECT_TAG]))
            return false;
        at = lua_u64(head, 0);
    }
    return true;
}

int snapshot_plain_objects(struct snapshot_plain *s, struct error *err)
{
    if (find_vms(s, err) < 0)
        return -1;
    s->states.nr = 0;
    vec_foreach (g, &s->globals) {
        if (!vec_push(&s->states, main_of(s, *g)) || !take_list(s, *g))
            return error_no_memory(err);
    }
    return 0;
}

/* ---- stacks -------------------------------------------------------------------------------- */

static void keep_calls(struct snapshot_plain *s, uint64_t L, uint64_t ci)
{
    const struct lua_fields *f = &s->layout->fields;
    if (f->ci.is_array) {
        uint64_t base = peek_u64(s, L + f->state.base_ci), size = ci - base + f->ci.size;
        if (ci >= base && size <= (uint64_t)CALLS_MAX * f->ci.size)
            (void)page_log_range(s->pages, base, size, VMENTRY_STATE);
        return;
    }
    for (int i = 0; i < CALLS_MAX && ci; i++) {
        if (!page_log_range(s->pages, ci, f->ci.size, VMENTRY_STATE))
            return;
        ci = peek_u64(s, ci + f->ci.previous);
    }
}

/* Keep the functions that slots name: the collector's list may have been cut. */
static void keep_slots(struct snapshot_plain *s, uint64_t stack, uint64_t top)
{
    const struct lua_fields *f = &s->layout->fields;
    size_t nr = 0;
    for (uint64_t at = stack; at + f->value_size <= top && nr < FUNCTIONS_MAX;
         at += f->value_size) {
        uint8_t value[16];
        if (f->value_size > sizeof(value) || !peek(s, at, value, f->value_size))
            return;
        uint64_t closure = lua_u64(value, 0);
        if ((value[f->value_tag] & LUA_TAG_MASK) != f->closure.tag_lua || !lua_is_address(closure))
            continue;
        nr++;
        keep(s, closure, LUA_CLOSURE_HEAD, 1);
        keep_proto(s, peek_u64(s, closure + f->closure.function));
    }
}

/* Read a state with its calls and its stack. Returns whether it has any calls. */
static bool keep_state(struct snapshot_plain *s, uint64_t L)
{
    const struct lua_fields *f = &s->layout->fields;
    uint8_t state[LUA_STATE_MAX];
    if (f->state.size > sizeof(state) || !peek(s, L, state, f->state.size) ||
        (state[LUA_OBJECT_TAG] & LUA_TAG_MASK) != LUA_TTHREAD)
        return false;
    uint64_t ci = lua_u64(state, f->state.ci), stack = lua_u64(state, f->state.stack);
    uint64_t top = lua_u64(state, f->state.top), ci_top = peek_u64(s, ci + f->ci.top);
    uint64_t base = f->ci.is_array ? lua_u64(state, f->state.base_ci) : 0;
    if (f->ci.is_array ? ci == base : !peek_u64(s, ci + f->ci.previous))
        return false;
    top = ci_top > top ? ci_top : top;
    if (top <= stack || top - stack > STACK_MAX)
        return false;
    (void)page_log_range(s->pages, L, f->state.size, VMENTRY_STATE);
    (void)page_log_range(s->pages, stack, top - stack, VMENTRY_STACK);
    keep_calls(s, L, ci);
    keep_slots(s, stack, top);
    return true;
}

void snapshot_plain_stacks(struct snapshot_plain *s)
{
    size_t nr = 0;
    vec_foreach (L, &s->states)
        if (nr < RUNNING_MAX)
            nr += keep_state(s, *L);
}
