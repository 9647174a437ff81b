/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/snapshot_lua.h"

#include "base/cursor.h"
#include "live/object_size.h"
#include "live/vmstack.h"
#include "base/table.h"
#include "unwind/luajit/names_proto.h"
#include "unwind/luajit/object.h"
#include "unwind/luajit/trace.h"

#include <stdlib.h>

enum {
    OBJECTS_MAX = 1 << 22, /* objects of a VM that are walked at once */
    STATES_MAX = 1 << 14,  /* states of a VM that are remembered */
    STACKS_MAX = 64,       /* stacks of a VM that are read at once */
    STACK_BYTES_MAX = 1 << 20,
    STATE_MAX = 256, /* bytes of a lua_State that are described, at most */
    CONSTANTS_MAX = 1 << 16,
    DISPATCH_SIZE = 4096, /* bytes of the dispatch table, with some room */
    HEAD = 16,            /* bytes of an object's head: its link and type */
    TRACE_HEAD = 128,
};

/* A VM, and what is known of it. */
struct vm {
    struct lua_scan_vm at;
    VEC(uint64_t) states;
    VEC(uint64_t) traces; /* by trace number; 0: none */
};

struct snapshot_lua {
    pid_t pid;
    struct runtime_files *files;
    struct page_log *pages;
    struct object_reader sizes; /* measures objects by their heads */
    struct process_memory *memory;
    lua_scan_vm_list list;
    VEC(struct vm) vms;
    struct table protos; /* prototypes that are kept already */
};

static bool read_head(void *memory, uint64_t address, void *to, size_t size)
{
    return process_memory_read(memory, address, to, size);
}

struct snapshot_lua *snapshot_lua_create(pid_t pid, struct runtime_files *files,
                                         struct page_log *pages)
{
    struct snapshot_lua *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    *s = (struct snapshot_lua){.pid = pid, .files = files, .pages = pages};
    if (process_memory_open(pid, &s->memory, NULL) < 0) {
        free(s);
        return NULL;
    }
    s->sizes = (struct object_reader){.read = read_head, .context = s->memory};
    return s;
}

static void forget_vms(struct snapshot_lua *s)
{
    vec_foreach (vm, &s->vms) {
        vec_free(&vm->states);
        vec_free(&vm->traces);
    }
    s->vms.nr = 0;
}

void snapshot_lua_free(struct snapshot_lua *s)
{
    if (!s)
        return;
    forget_vms(s);
    vec_free(&s->vms);
    vec_free(&s->list);
    table_free(&s->protos);
    process_memory_close(s->memory);
    free(s);
}

size_t snapshot_lua_vms(const struct snapshot_lua *s)
{
    return s->vms.nr;
}

const lua_scan_vm_list *snapshot_lua_list(const struct snapshot_lua *s)
{
    return &s->list;
}

int snapshot_lua_scan(struct snapshot_lua *s, struct error *err)
{
    s->list.nr = 0;
    if (lua_scan_process(s->files, s->pid, &s->list, err) < 0)
        return -1;
    bool same = s->list.nr == s->vms.nr;
    for (size_t i = 0; same && i < s->vms.nr; i++)
        same = s->list.at[i].vm.g == s->vms.at[i].at.vm.g;
    if (same)
        return 0;
    forget_vms(s);
    vec_foreach (vm, &s->list)
        if (!vec_push(&s->vms, (struct vm){.at = *vm}))
            return error_no_memory(err);
    return 0;
}

/* ---- objects ------------------------------------------------------------------------------- */

static uint64_t load_ref(const uint8_t *at, const struct luajit_layout *l)
{
    return l->ref_size == 8 ? load_u64(at, false) : load_u32(at, false);
}

static bool peek(const struct snapshot_lua *s, uint64_t address, void *to, size_t size)
{
    enum provenance ignored = PROVENANCE_EXACT;
    const struct memory_layer layer = page_log_peek(s->pages);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    return memory_read(&m, address, to, size, &ignored);
}

static uint64_t peek_ref(const struct snapshot_lua *s, const struct luajit_layout *l,
                         uint64_t address)
{
    uint8_t bytes[8];
    return peek(s, address, bytes, (size_t)l->ref_size) ? load_ref(bytes, l) : 0;
}

static bool is_same_object(const void *layout, const uint8_t *a, const uint8_t *b, size_t size)
{
    return object_same(layout, a, b, size);
}

static uint64_t keep_object(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t address)
{
    uint64_t size = object_size(&s->sizes, l, address);
    bool kept =
        size && size <= OBJECT_MAX && page_log_object(s->pages, address, size, is_same_object, l);
    return kept ? size : 0;
}

/* Keep a string of at most `longest` bytes. */
static void keep_string(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t address,
                        uint32_t longest)
{
    uint8_t head[HEAD];
    uint32_t length;
    if (address && peek(s, address, head, sizeof(head)) && head[l->gct] == LUAJIT_GCT_STR &&
        peek(s, address + (uint64_t)l->str_len, &length, sizeof(length)) && length <= longest)
        (void)keep_object(s, l, address);
}

/* Keep a prototype, and the strings among its constants: names of fields, globals and methods. */
static void keep_proto(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t address)
{
    const struct memory_layer layer = page_log_peek(s->pages);
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    struct luajit_proto p;
    uint64_t size = keep_object(s, l, address);
    if (!size || !luajit_proto_read(&m, l, address, &p))
        return;
    page_log_index(s->pages, address, size);
    keep_string(s, l, p.head.chunkname, OBJECT_MAX);
    for (uint32_t i = 0; i < p.head.sizekgc && i < CONSTANTS_MAX; i++)
        keep_string(s, l, luajit_proto_constant(&p, i), PROTO_NAME_MAX);
    luajit_proto_free(&p);
    (void)table_put(&s->protos, address, s);
}

static void keep_function(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t address,
                          bool with_proto)
{
    uint64_t size = keep_object(s, l, address);
    uint8_t ffid;
    if (!size || !with_proto || !peek(s, address + (uint64_t)l->func_ffid, &ffid, 1) || ffid)
        return;
    uint64_t code = peek_ref(s, l, address + (uint64_t)l->func_pc);
    uint64_t proto = code - (uint64_t)l->proto_size;
    if (code > (uint64_t)l->proto_size && !table_get(&s->protos, proto))
        keep_proto(s, l, proto);
}

static void note_state(struct vm *vm, uint64_t L)
{
    if (L && L != vm->at.main_L && vm->states.nr < STATES_MAX)
        (void)vec_push(&vm->states, L);
}

static void keep_trace(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t address)
{
    struct object_extra extra;
    uint8_t head[TRACE_HEAD];
    if (keep_object(s, l, address) && peek(s, address, head, sizeof(head)) &&
        object_extra(l, head, sizeof(head), &extra))
        (void)page_log_object(s->pages, extra.address, extra.length, NULL, NULL);
}

/* Keep the array of traces as it is, and the traces that are new in it, or all. */
static void keep_traces(struct snapshot_lua *s, struct vm *vm, bool all)
{
    const struct luajit_layout *l = vm->at.vm.layout;
    uint64_t g = vm->at.vm.g, array, ref = (uint64_t)l->ref_size;
    uint32_t nr;
    if (l->trace == LUAJIT_UNKNOWN || l->sizetrace == LUAJIT_UNKNOWN ||
        !(array = peek_ref(s, l, g + (uint64_t)l->trace)) ||
        !peek(s, g + (uint64_t)l->sizetrace, &nr, sizeof(nr)) || !nr || nr > LUAJIT_TRACES_MAX ||
        !page_log_range(s->pages, array, nr * ref, VMENTRY_TRACE) || !vec_reserve(&vm->traces, nr))
        return;
    while (vm->traces.nr < nr)
        vm->traces.at[vm->traces.nr++] = 0;
    for (uint32_t i = 1; i < nr; i++) {
        uint64_t trace = peek_ref(s, l, array + i * ref);
        if (trace && (all || trace != vm->traces.at[i]))
            keep_trace(s, l, trace);
        vm->traces.at[i] = trace;
    }
}

/* Walk the collector's list. The list goes on changing while it is read, so each object is checked.
 * An object that comes again ends the walk, too (Brent: one object is remembered, each time for
 * twice as long). Returns whether the whole list was seen: the VM's first state is its oldest
 * object. */
static bool keep_list(struct snapshot_lua *s, struct vm *vm)
{
    const struct luajit_layout *l = vm->at.vm.layout;
    uint8_t head[HEAD];
    bool whole = false;
    if (l->gc_root == LUAJIT_UNKNOWN || l->gct <= 0 || l->gct >= HEAD)
        return true; /* there is no list to read */
    uint64_t o = peek_ref(s, l, vm->at.vm.g + (uint64_t)l->gc_root), known = 0;
    for (uint32_t i = 0; o && !(o & 7) && i < OBJECTS_MAX; i++) {
        if (o == known || !peek(s, o, head, sizeof(head)) || head[l->gct] < LUAJIT_GCT_STR ||
            head[l->gct] > LUAJIT_GCT_UDATA)
            break;
        whole |= o == vm->at.main_L;
        if (!(i & (i - 1)))
            known = o;
        if (head[l->gct] == LUAJIT_GCT_PROTO)
            keep_proto(s, l, o);
        else if (head[l->gct] == LUAJIT_GCT_FUNC)
            keep_function(s, l, o, false);
        else if (head[l->gct] == LUAJIT_GCT_THREAD)
            note_state(vm, o);
        o = load_ref(head, l);
    }
    return whole;
}

/* Keep the dispatch table, by which a VM is recognised. */
static void keep_dispatch(struct snapshot_lua *s, const struct vm *vm)
{
    const struct luajit_vm *v = &vm->at.vm;
    uint64_t dispatch = v->g + (uint64_t)v->layout->g2disp;
    for (uint64_t at = dispatch; at < dispatch + DISPATCH_SIZE; at += HEAD)
        if (!page_log_keep(s->pages, at, HEAD))
            return;
}

bool snapshot_lua_objects(struct snapshot_lua *s)
{
    bool whole = true;
    table_free(&s->protos);
    s->protos = (struct table){0};
    vec_foreach (vm, &s->vms) {
        vm->states.nr = 0;
        keep_dispatch(s, vm);
        whole &= keep_list(s, vm);
        keep_traces(s, vm, true);
    }
    return whole;
}

/* ---- stacks -------------------------------------------------------------------------------- */

/* Keep the functions that slots name. A slot holds a reference with its type above bit 47, or in
 * its lower half. The object's head shows if it is no function. */
static void keep_slots(struct snapshot_lua *s, const struct luajit_layout *l, uint64_t stack,
                       uint64_t end)
{
    uint8_t head[HEAD];
    for (uint64_t at = stack; at + 8 <= end; at += 8) {
        uint64_t slot;
        if (!peek(s, at, &slot, sizeof(slot)))
            return;
        uint64_t o = l->gc64 ? slot & ((UINT64_C(1) << 47) - 1) : (uint32_t)slot;
        if (!o || o & 7 || !peek(s, o, head, sizeof(head)) || head[l->gct] != LUAJIT_GCT_FUNC)
            continue;
        keep_function(s, l, o, true);
    }
}

/* Read a state and its stack, each in one reading. `waits`: only if it runs or has resumed
 * another. */
static bool keep_state(struct snapshot_lua *s, const struct vm *vm, uint64_t L, bool waits)
{
    const struct luajit_layout *l = vm->at.vm.layout;
    uint8_t state[STATE_MAX];
    if (!L || (size_t)l->L_used > sizeof(state) || !peek(s, L, state, (size_t)l->L_used) ||
        state[l->L_gct] != LUAJIT_GCT_THREAD || load_ref(state + l->L_glref, l) != vm->at.vm.g)
        return false;
    if (waits && !(load_u64(state + l->L_cframe, false) & ~UINT64_C(3)))
        return false;
    uint64_t stack = load_ref(state + l->L_stack, l), top = load_u64(state + l->L_top, false);
    uint64_t end = load_ref(state + l->L_maxstack, l);
    top = (top > stack && top < end ? top : stack) + 8 * VMSTACK_SLOTS_ABOVE;
    end = top < end ? top : end;
    if (end <= stack || end - stack > STACK_BYTES_MAX)
        return false;
    (void)page_log_range(s->pages, L, (uint64_t)l->L_used, VMENTRY_STATE);
    (void)page_log_range(s->pages, stack, end - stack, VMENTRY_STACK);
    keep_slots(s, l, stack, end);
    return true;
}

static void keep_states(struct snapshot_lua *s, const struct vm *vm)
{
    const struct luajit_layout *l = vm->at.vm.layout;
    uint64_t running = 0;
    if (l->cur_L > 0)
        running = peek_ref(s, l, vm->at.vm.g + (uint64_t)l->cur_L);
    (void)keep_state(s, vm, running, false);
    if (vm->at.main_L != running)
        (void)keep_state(s, vm, vm->at.main_L, false);
    size_t nr = 0;
    vec_foreach (L, &vm->states)
        if (*L != running && nr < STACKS_MAX)
            nr += keep_state(s, vm, *L, true);
}

/* Read global_State and jit_State separately, since one of them changes all the time. */
static void keep_words(struct snapshot_lua *s, const struct vm *vm)
{
    const struct luajit_vm *v = &vm->at.vm;
    uint64_t size = v->layout->g2disp > 0 ? (uint64_t)v->layout->g2disp : VMSTACK_GLOBAL;
    uint64_t first = size < VMSTACK_GLOBAL ? size : VMSTACK_GLOBAL;
    (void)page_log_range(s->pages, v->g, first, VMENTRY_GLOBAL);
    if (size > first)
        (void)page_log_range(s->pages, v->g + first, size - first, VMENTRY_JIT);
}

void snapshot_lua_stacks(struct snapshot_lua *s)
{
    vec_foreach (vm, &s->vms) {
        keep_words(s, vm);
        keep_states(s, vm);
        keep_traces(s, vm, false);
    }
}
