/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading and checking single objects. */
#include "unwind/luajit/object.h"

#include "base/cursor.h"

enum { TAG_SHIFT = 47 };

void luajit_reader_begin(struct luajit_reader *r, const struct memory *m)
{
    r->m = m;
    r->layout = NULL;
    r->provenance = PROVENANCE_EXACT;
    r->digested = 0;
    r->block = NULL;
    r->budget = 1 << 20; /* 65,500 frames, and every trace looked at some times */
}

void luajit_reader_use(struct luajit_reader *r, const struct luajit_layout *layout)
{
    if (r->layout == layout)
        return;
    r->layout = layout;
    r->window_size = 0;
    if (++r->serial == 0) { /* begun anew: what was read long ago must not look fresh */
        memset(r->of, 0, sizeof(r->of));
        r->serial = 1;
    }
}

/* ---- bytes --------------------------------------------------------------------------------- */

bool luajit_read(struct luajit_reader *r, uint64_t address, void *to, size_t size)
{
    return memory_read(r->m, address, to, size, &r->provenance);
}

bool luajit_read_u64(struct luajit_reader *r, uint64_t address, uint64_t *ret)
{
    return luajit_read(r, address, ret, sizeof(*ret));
}

bool luajit_read_u32(struct luajit_reader *r, uint64_t address, uint32_t *ret)
{
    return luajit_read(r, address, ret, sizeof(*ret));
}

uint64_t luajit_load_ref(const struct luajit_layout *l, const uint8_t *at)
{
    return l->gc64 ? load_u64(at, false) : load_u32(at, false);
}

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

/* ---- states -------------------------------------------------------------------------------- */

bool luajit_read_state(struct luajit_reader *r, uint64_t address, struct luajit_state *ret)
{
    enum { USED_MAX = 0x60, EXTRA_MAX = 64 };
    const struct luajit_layout *l = r->layout;
    uint8_t bytes[USED_MAX];
    if (address == 0 || address & 3 || !luajit_read(r, address, bytes, (size_t)l->L_used) ||
        bytes[l->L_gct] != LUAJIT_GCT_THREAD)
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
    uint8_t bytes[0x10]; /* up to sizebc */
    if (proto == 0 || proto & 3 ||
        !luajit_read(r, proto, bytes, (size_t)l->proto_sizebc + sizeof(uint32_t)) ||
        bytes[l->gct] != LUAJIT_GCT_PROTO)
        return false;
    *sizebc = load_u32(bytes + l->proto_sizebc, false);
    *code = proto + (uint64_t)l->proto_size;
    return *sizebc > 0 && *sizebc<LUAJIT_SIZEBC_MAX && * code> proto;
}

/* What stands there is no function: in memory of a later moment, one that is gone since. */
static void no_function(const struct luajit_reader *r, uint64_t address, struct luajit_function *f)
{
    bool gone = r->provenance != PROVENANCE_EXACT;
    *f = (struct luajit_function){.unread = gone, .address = gone ? address : 0};
}

static void read_function(struct luajit_reader *r, uint64_t address, struct luajit_function *f)
{
    const struct luajit_layout *l = r->layout;
    uint8_t bytes[0x30];
    size_t size = (size_t)l->func_c + 8;
    *f = (struct luajit_function){0};
    if (address == 0 || address & 3 || size > sizeof(bytes))
        return;
    if (!luajit_read(r, address, bytes, size)) {
        size -= 8; /* a Lua function without upvalues ends before */
        if (!luajit_read(r, address, bytes, size)) {
            f->unread = true;
            f->address = address;
            return;
        }
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

static size_t function_slot(uint64_t address)
{
    return (address >> 3 ^ address >> 9) % READER_FUNCTIONS;
}

const struct luajit_function *luajit_function_read(struct luajit_reader *r, uint64_t address)
{
    static const struct luajit_function none;
    size_t slot = function_slot(address);
    struct luajit_function *f = &r->functions[slot];
    if (r->of[slot] != r->serial || f->address != address) {
        enum provenance before = r->provenance;
        r->provenance = PROVENANCE_EXACT;
        read_function(r, address, f);
        f->provenance = (uint8_t)r->provenance;
        r->provenance = before;
        r->of[slot] = f->address ? r->serial : 0;
        if (f->address == 0)
            return &none;
    }
    if (f->provenance > r->provenance)
        r->provenance = f->provenance;
    return f;
}

/* A function's head: is it of a function of that prototype (or builtin)? */
static enum memory_likeness function_likeness(const void *context, uint64_t address,
                                              const uint8_t *bytes, size_t size,
                                              const struct memory_span *when)
{
    const struct luajit_reader *r = context;
    const struct luajit_layout *l = r->layout;
    const struct luajit_function *f = &r->functions[function_slot(address)];
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

/* Move the window so that it ends behind [address, address + size). */
static bool window_fill(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                        uint64_t size)
{
    uint64_t start =
        address + size - L->stack > READER_WINDOW ? address + size - READER_WINDOW : L->stack;
    enum provenance provenance = PROVENANCE_EXACT;
    r->window_start = start;
    r->window_size = address + size - start;
    /* Where a large read finds no exact bytes a small one may: the copy of a stack can be cut. */
    if (memory_read(r->m, start, r->window, r->window_size, &provenance) &&
        provenance == PROVENANCE_EXACT)
        return true;
    r->window_size = 0;
    return false;
}

static __attribute__((noinline)) bool stack_read_anew(struct luajit_reader *r,
                                                      const struct luajit_state *L,
                                                      uint64_t address, void *to, uint64_t size)
{
    if (address < L->stack || address > L->end || L->end - address < size)
        return false;
    if (!window_fill(r, L, address, size))
        return luajit_read(r, address, to, size); /* a part of the stack was recorded */
    memcpy(to, r->window + (address - r->window_start), size);
    return true;
}

static inline bool stack_read(struct luajit_reader *r, const struct luajit_state *L,
                              uint64_t address, void *to, uint64_t size)
{
    uint64_t at = address - r->window_start;
    if (at >= r->window_size || r->window_size - at < size || address < L->stack ||
        address > L->end || L->end - address < size)
        return stack_read_anew(r, L, address, to, size);
    memcpy(to, r->window + at, size);
    return true;
}

bool luajit_slot_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t address,
                      uint64_t *ret)
{
    return stack_read(r, L, address, ret, sizeof(*ret));
}

bool luajit_header_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                        struct luajit_header *ret)
{
    uint64_t words[2], size = 8 * (uint64_t)r->layout->frame_slots;
    if (base % 8 != 0 || base < size)
        return false;
    if (!r->layout->gc64) {
        if (!stack_read(r, L, base - 8, words, 8))
            return false;
        ret->func = (uint32_t)words[0];
        ret->link = words[0] >> 32;
        return true;
    }
    if (!stack_read(r, L, base - 16, words, 16))
        return false;
    ret->func = words[0] & ((UINT64_C(1) << TAG_SHIFT) - 1);
    ret->link = words[1];
    return true;
}
