/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads and checks single objects. */
#include "unwind/luajit/object.h"

void luajit_reader_begin(struct luajit_reader *r, const struct memory *m)
{
    r->m = m;
    r->layout = NULL;
    r->provenance = PROVENANCE_EXACT;
    r->digested = 0;
    r->block = NULL;
    r->budget = 1 << 20; /* enough for 65,500 frames, and for looking at every trace several
                            times */
}

void luajit_reader_use(struct luajit_reader *r, const struct luajit_layout *layout)
{
    if (r->layout == layout)
        return;
    r->layout = layout;
    r->window_size = 0;
    if (++r->serial == 0) { /* the serial has wrapped: old readings must not look fresh */
        memset(r->of, 0, sizeof(r->of));
        memset(r->states_of, 0, sizeof(r->states_of));
        r->serial = 1;
    }
}

/* ---- bytes --------------------------------------------------------------------------------- */

bool luajit_read_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret)
{
    uint32_t half;
    if (r->layout->gc64)
        return luajit_read_u64(r, address, ret);
    if (!luajit_read_u32(r, address, &half))
        return false;
    *ret = half;
    return true;
}

bool luajit_read_moving_ref(struct luajit_reader *r, uint64_t address, uint64_t *ret)
{
    *ret = 0; /* valid because it is little endian, as LuaJIT with 64 bit pointers is */
    return luajit_read_moving(r, address, ret, r->layout->gc64 ? sizeof(*ret) : sizeof(uint32_t));
}

/* ---- states -------------------------------------------------------------------------------- */

static bool read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret)
{
    enum { USED_MAX = 0x60, EXTRA_MAX = 64 };
    const struct luajit_layout *l = r->layout;
    uint8_t copy[USED_MAX];
    const uint8_t *bytes = luajit_piece(r, address, (size_t)l->L_used);
    if (!bytes && memory_read_moving(r->m, address, copy, (size_t)l->L_used, &r->provenance))
        bytes = copy;
    if (!bytes || bytes[l->L_gct] != LUAJIT_GCT_THREAD)
        return false;
    *ret = (struct luajit_state){
        .address = address,
        .g = luajit_load_ref(l, bytes + l->L_glref),
        .base = load_u64(bytes + l->L_base, false),
        .top = load_u64(bytes + l->L_top, false),
        .maxstack = luajit_load_ref(l, bytes + l->L_maxstack),
        .stack = luajit_load_ref(l, bytes + l->L_stack),
        .cframe = load_u64(bytes + l->L_cframe, false),
    };
    uint64_t slots = load_u32(bytes + l->L_stacksize, false);
    uint64_t used = ret->maxstack - ret->stack; /* = 8 x (slots - extra - 1) */
    ret->end = ret->stack + 8 * slots;
    return ret->stack != 0 && ret->stack % 8 == 0 && slots <= LUAJIT_SLOTS_MAX &&
           used < 8 * slots && 8 * slots - used <= 8 * EXTRA_MAX && ret->end > ret->stack;
}

/* The last states are kept: a step asks for the same state several times, and the next step asks
 * for the same state or its coroutine's parent. */
bool luajit_read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret)
{
    if (address == 0 || address & 3)
        return false;
    enum provenance before = r->provenance;
    for (unsigned i = 0; i < READER_STATES; i++) {
        if (r->states[i].address == address && r->states_of[i] == r->serial) {
            *ret = r->states[i];
            r->provenance = before > r->states_provenance[i] ? before : r->states_provenance[i];
            return true;
        }
    }
    r->provenance = PROVENANCE_EXACT;
    bool got = read_state(r, address, ret);
    if (got) {
        unsigned at = r->next_state++ % READER_STATES;
        r->states[at] = *ret;
        r->states_of[at] = r->serial;
        r->states_provenance[at] = (uint8_t)r->provenance;
    }
    r->provenance = before > r->provenance ? before : r->provenance;
    return got;
}

bool luajit_check_g(struct luajit_reader *r, uint64_t g, uint64_t blob)
{
    uint64_t entries[2];
    enum provenance any =
        PROVENANCE_EXACT; /* pointers into the blob prove themselves at any time */
    return memory_read(r->m, g + (uint64_t)r->layout->g2disp, entries, sizeof(entries), &any) &&
           entries[0] - blob < r->layout->blob_size && entries[1] - blob < r->layout->blob_size;
}

/* ---- functions ----------------------------------------------------------------------------- */

bool luajit_code_read(struct luajit_reader *r, uint64_t proto, uint64_t *code, uint32_t *sizebc)
{
    const struct luajit_layout *l = r->layout;
    uint8_t copy[0x10]; /* up to sizebc */
    size_t size = (size_t)l->proto_sizebc + sizeof(uint32_t);
    if (proto == 0 || proto & 3)
        return false;
    const uint8_t *bytes = luajit_take(r, proto, copy, size);
    if (!bytes || bytes[l->gct] != LUAJIT_GCT_PROTO)
        return false;
    *sizebc = load_u32(bytes + l->proto_sizebc, false);
    *code = proto + (uint64_t)l->proto_size;
    return *sizebc > 0 && *sizebc<LUAJIT_SIZEBC_MAX && * code> proto;
}

/* The memory is no function. In memory of a later moment a function may have been there that is
 * gone since. */
static void no_function(const struct luajit_reader *r, uint64_t address, struct luajit_function *f)
{
    bool gone = r->provenance != PROVENANCE_EXACT;
    *f = (struct luajit_function){.unread = gone, .address = gone ? address : 0};
}

static void read_function(struct luajit_reader *r, uint64_t address, struct luajit_function *f)
{
    const struct luajit_layout *l = r->layout;
    uint8_t copy[0x30];
    size_t size = (size_t)l->func_c + 8;
    *f = (struct luajit_function){0};
    if (address == 0 || address & 3 || size > sizeof(copy))
        return;
    const uint8_t *bytes = luajit_take(r, address, copy, size);
    if (!bytes) {
        size -= 8; /* a Lua function without upvalues ends 8 bytes earlier */
        if (!memory_read(r->m, address, copy, size, &r->provenance)) {
            f->unread = true;
            f->address = address;
            return;
        }
        bytes = copy;
    }
    if (bytes[l->gct] == LUAJIT_GCT_THREAD) {
        f->dummy = true;
        f->address = address;
        return;
    }
    if (bytes[l->gct] != LUAJIT_GCT_FUNC) {
        no_function(r, address, f);
        return;
    }
    f->ffid = bytes[l->func_ffid];
    uint64_t pc = luajit_load_ref(l, bytes + l->func_pc);
    if (f->ffid == 0) {
        f->proto = pc - (uint64_t)l->proto_size;
        f->lua = luajit_code_read(r, f->proto, &f->code, &f->sizebc);
        if (!f->lua) {
            no_function(r, address, f);
            return;
        }
    } else if (size > (size_t)l->func_c) {
        f->code = load_u64(bytes + l->func_c, false);
    }
    f->address = address;
}

const struct luajit_function *luajit_function_read_anew(struct luajit_reader *r, uint64_t address)
{
    static const struct luajit_function none;
    size_t slot = luajit_function_slot(address);
    struct luajit_function *f = &r->functions[slot];
    enum provenance before = r->provenance;
    r->provenance = PROVENANCE_EXACT;
    read_function(r, address, f);
    f->provenance = (uint8_t)r->provenance;
    r->provenance = before;
    r->of[slot] = f->address ? r->serial : 0;
    if (f->address == 0)
        return &none;
    if (f->provenance > r->provenance)
        r->provenance = f->provenance;
    return f;
}

/* Is this the head of a function with the same prototype (or of the same builtin)? */
static enum memory_likeness function_likeness(const void *context, uint64_t address,
                                              const uint8_t *bytes, size_t size,
                                              const struct memory_span *when)
{
    const struct luajit_reader *r = context;
    const struct luajit_layout *l = r->layout;
    const struct luajit_function *f = &r->functions[luajit_function_slot(address)];
    (void)when;
    bool same =
        size >= (size_t)l->func_c && bytes[l->gct] == LUAJIT_GCT_FUNC &&
        bytes[l->func_ffid] == f->ffid &&
        (f->ffid || luajit_load_ref(l, bytes + l->func_pc) - (uint64_t)l->proto_size == f->proto);
    return same ? MEMORY_SAME : MEMORY_ANOTHER;
}

const struct luajit_function *luajit_function_alive(struct luajit_reader *r, uint64_t address)
{
    enum provenance before = r->provenance;
    const struct luajit_function *f = luajit_function_read(r, address);
    if (f->address != address || r->provenance == before)
        return f;
    const struct memory_compare compare = {function_likeness, r};
    struct memory_proof proof =
        memory_prove(r->m, address, (size_t)r->layout->func_c, &compare, f->provenance);
    if (memory_is_near(&proof) || (proof.provenance == PROVENANCE_EXACT && !proof.another))
        r->provenance = before;
    return f;
}

/* ---- the Lua stack ------------------------------------------------------------------------- */

/* Move the window so that it contains [address, address + size). If the window is copied, it ends
 * there. */
static bool window_fill(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                        uint64_t size)
{
    struct memory_piece piece;
    const uint8_t *at = memory_piece(r->m, address, size, &piece);
    if (at) {
        r->window = at - (address - piece.start);
        r->window_start = piece.start;
        r->window_size = piece.size;
        return true;
    }
    uint64_t start =
        address + size - L->stack > READER_WINDOW ? address + size - READER_WINDOW : L->stack;
    enum provenance provenance = PROVENANCE_EXACT;
    r->window = r->copied;
    r->window_start = start;
    r->window_size = address + size - start;
    /* A small read may find exact bytes where a large one does not: the copy of a stack can be
     * cut. */
    if (memory_read_moving(r->m, start, r->copied, r->window_size, &provenance) &&
        provenance == PROVENANCE_EXACT)
        return true;
    r->window_size = 0;
    return false;
}

bool luajit_stack_read_anew(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                            void *to, uint64_t size)
{
    if (address < L->stack || address > L->end || L->end - address < size)
        return false;
    if (!window_fill(r, L, address, size))
        return luajit_read_moving(r, address, to, size); /* only a part of the stack was recorded */
    memcpy(to, r->window + (address - r->window_start), size);
    return true;
}
