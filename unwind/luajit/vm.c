/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds VMs by their dispatch tables, and checks them. */
#include "unwind/luajit/vm.h"

#include "base/cursor.h"
#include "unwind/luajit/walk_internal.h"

enum {
    PIECE = 1 << 16,   /* bytes read at a time */
    TABLE_MIN = 80,    /* consecutive pointers that make a dispatch table; real tables have 180 and
                          more */
    STATE_MAX = 0x100, /* upper bound of sizeof(lua_State) */
    STACK_SLOTS_MAX = 1 << 17, /* LuaJIT's limit is a little above 65,500 */
    STACK_EXTRA_MAX = 64,
};

static uint64_t load_ref(const uint8_t *at, int32_t size)
{
    return size == 8 ? load_u64(at, false) : load_u32(at, false);
}

bool luajit_state_check(const struct memory *m, const struct luajit_vm *vm, uint64_t L,
                        enum provenance *provenance)
{
    const struct luajit_layout *l = vm->layout;
    uint8_t state[STATE_MAX];
    if (L & 7 || (size_t)l->L_used > sizeof(state) ||
        !memory_read(m, L, state, (size_t)l->L_used, provenance))
        return false;
    if (state[l->L_gct] != 6 || load_ref(state + l->L_glref, l->ref_size) != vm->g)
        return false;
    uint64_t stack = load_ref(state + l->L_stack, l->ref_size);
    uint64_t maxstack = load_ref(state + l->L_maxstack, l->ref_size);
    uint64_t slots = load_u32(state + l->L_stacksize, false);
    if (stack & 7 || slots > STACK_SLOTS_MAX || maxstack < stack)
        return false;
    uint64_t used = maxstack - stack; /* = 8 x (slots - extra - 1) */
    return used < 8 * slots && 8 * slots - used <= 8 * STACK_EXTRA_MAX;
}

/* The main lua_State stands at the start of GG_State, right before g. Its size differs between
 * forks (it has grown at its end), and nothing in the blob tells it. So each size is tried, and the
 * lua_State's own fields are checked. */
uint64_t luajit_main_thread(const struct memory *m, const struct luajit_vm *vm,
                            enum provenance *provenance)
{
    for (uint64_t size = (uint64_t)vm->layout->L_used; size <= STATE_MAX; size += 8) {
        if (luajit_state_check(m, vm, vm->g - size, provenance))
            return vm->g - size;
    }
    return 0;
}

bool luajit_vm_check(const struct memory *m, const struct luajit_vm *vm,
                     enum provenance *provenance)
{
    uint64_t entries[4];
    if (!memory_read(m, vm->g + (uint64_t)vm->layout->g2disp, entries, sizeof(entries), provenance))
        return false;
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        if (entries[i] - vm->blob >= vm->layout->blob_size)
            return false;
    }
    return luajit_main_thread(m, vm, provenance) != 0;
}

/* ---- the scan ------------------------------------------------------------------------------ */

struct scan {
    const struct memory *m;
    const struct luajit_blob *blobs;
    size_t nr_blobs;
    luajit_vm_list *ret;
    /* The current run of pointers into one blob. */
    const struct luajit_blob *blob;
    uint64_t start, nr;
};

static const struct luajit_blob *blob_of(const struct scan *s, uint64_t pointer)
{
    for (size_t i = 0; i < s->nr_blobs; i++) {
        if (pointer - s->blobs[i].address < s->blobs[i].layout->blob_size)
            return &s->blobs[i];
    }
    return NULL;
}

static bool is_known(const luajit_vm_list *list, uint64_t g)
{
    for (size_t i = 0; i < list->nr; i++) {
        if (list->at[i].g == g)
            return true;
    }
    return false;
}

/* End the run. A word before the table that happens to point into the blob (hot counters) makes the
 * run begin early: then the table begins a few entries later. */
static bool end_run(struct scan *s)
{
    enum { EARLY = 16 };
    bool ok = true;
    for (uint64_t i = 0; s->nr >= TABLE_MIN && i <= EARLY; i++) {
        struct luajit_vm vm = {s->start + 8 * i - (uint64_t)s->blob->layout->g2disp,
                               s->blob->address, s->blob->layout};
        enum provenance ignored = PROVENANCE_EXACT;
        if (!luajit_vm_check(s->m, &vm, &ignored))
            continue;
        ok = is_known(s->ret, vm.g) || vec_push(s->ret, vm);
        break;
    }
    s->blob = NULL;
    s->nr = 0;
    return ok;
}

static bool scan_words(struct scan *s, uint64_t address, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + 8 <= size; at += 8) {
        const struct luajit_blob *blob = blob_of(s, load_u64(bytes + at, false));
        if (blob != s->blob && s->blob && !end_run(s))
            return false;
        if (!blob)
            continue;
        if (!s->blob) {
            s->blob = blob;
            s->start = address + at;
        }
        s->nr++;
    }
    return true;
}

static bool scan_range(struct scan *s, const struct memory_range *range, uint8_t *piece)
{
    enum { PAGE = 4096 };
    uint64_t address = (range->start + 7) & ~UINT64_C(7), size;
    enum provenance ignored = PROVENANCE_EXACT;
    for (; address < range->end && range->end - address >= 8; address += size) {
        size = range->end - address < PIECE ? range->end - address : PIECE;
        size &= ~UINT64_C(7);
        bool read = memory_read(s->m, address, piece, size, &ignored);
        if (!read) { /* a hole: read page by page */
            size = PAGE - address % PAGE < size ? PAGE - address % PAGE : size;
            read = memory_read(s->m, address, piece, size, &ignored);
        }
        if (!read ? s->blob && !end_run(s) : !scan_words(s, address, piece, size))
            return false;
    }
    return !s->blob || end_run(s);
}

int luajit_vms_find(const struct memory *m, const struct memory_range *ranges, size_t nr_ranges,
                    const struct luajit_blob *blobs, size_t nr_blobs, luajit_vm_list *ret,
                    struct error *err)
{
    struct scan s = {.m = m, .blobs = blobs, .nr_blobs = nr_blobs, .ret = ret};
    uint8_t *piece = malloc(PIECE);
    bool ok = piece != NULL;
    for (size_t i = 0; i < nr_ranges && ok && nr_blobs; i++)
        ok = scan_range(&s, &ranges[i], piece);
    free(piece);
    return ok ? 0 : error_no_memory(err);
}

enum runtime_activity luajit_vmstate(const struct luajit_layout *l, int32_t value)
{
    /* Tarantool has used other numbers since it saves the state in the C frame, which has been
     * larger since then. There, Lua functions and builtins in the interpreter have states of their
     * own. */
    enum { UPSTREAM_FRAME = 80, TARANTOOL_FRAME = 96 };
    static const uint8_t upstream[] = {
        RUNTIME_IN_INTERPRETER, RUNTIME_IN_C,         RUNTIME_IN_GC,       RUNTIME_IN_EXIT,
        RUNTIME_IN_RECORDER,    RUNTIME_IN_OPTIMIZER, RUNTIME_IN_ASSEMBLER};
    static const uint8_t tarantool[] = {
        RUNTIME_IN_INTERPRETER, RUNTIME_IN_INTERPRETER, RUNTIME_IN_INTERPRETER,
        RUNTIME_IN_C,           RUNTIME_IN_GC,          RUNTIME_IN_EXIT,
        RUNTIME_IN_RECORDER,    RUNTIME_IN_OPTIMIZER,   RUNTIME_IN_ASSEMBLER};
    uint32_t state = ~(uint32_t)value;
    bool is_upstream = l->frame_size == UPSTREAM_FRAME || l->machine != LUAJIT_ON_X86_64;
    if (value < 0 && is_upstream && state < sizeof(upstream))
        return (enum runtime_activity)upstream[state];
    if (value < 0 && l->frame_size == TARANTOOL_FRAME && state < sizeof(tarantool))
        return (enum runtime_activity)tarantool[state];
    return RUNTIME_IN_UNKNOWN;
}

bool luajit_vm_of_registers(const struct registers *r, const struct luajit_layout *layout,
                            uint64_t *ret_g)
{
    const struct luajit_machine *m = luajit_machine(layout);
    if (r->arch != m->arch || !(r->known & REG_BIT(m->vm)))
        return false;
    *ret_g = r->value[m->vm] - (m->vm_is_g ? 0 : (uint64_t)layout->g2disp);
    return true;
}
