/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as a LuaJIT heap: naming its prototypes, strings and constants must end and must not
 * read outside of the heap. Every fourth input is made more plausible: a prototype header that fits
 * its block is laid over the bytes, so that its code, constants and debug information are reached.
 *
 * The first byte chooses the mode and the opcode numbering; then come frames (a byte each:
 * prototype, position, caller), then the heap. Also fuzzes the parser of library registrations.
 */
#include "unwind/luajit/names.h"
#include "unwind/luajit/names_builtins.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { HEAP = 0x10000, HEAP_MAX = 4096, FRAMES = 8 };

struct heap {
    uint8_t bytes[HEAP_MAX];
    size_t size;
};

static bool read_heap(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct heap *h = context;
    if (q->address < HEAP || q->address - HEAP > h->size || q->size > h->size - (q->address - HEAP))
        return false;
    memcpy(to, h->bytes + (q->address - HEAP), q->size);
    answer->provenance = PROVENANCE_EXACT;
    return true;
}

/* GCproto and GCstr of both modes, from the tables in luajit.md (strings of 2020 and later). */
static struct luajit_layout layout_of(bool gc64, enum luajit_bytecode bytecode)
{
    struct luajit_layout l = {.gc64 = gc64, .bytecode = bytecode};
    l.ref_size = gc64 ? 8 : 4;
    l.frame_slots = gc64 ? 2 : 1;
    l.gct = gc64 ? 9 : 5;
    l.proto_size = gc64 ? 0x68 : 0x40;
    l.proto_numparams = gc64 ? 0x0a : 0x06;
    l.proto_sizebc = gc64 ? 0x0c : 0x08;
    l.proto_k = gc64 ? 0x20 : 0x10;
    l.proto_sizekgc = gc64 ? 0x30 : 0x18;
    l.proto_sizekn = gc64 ? 0x34 : 0x1c;
    l.proto_sizept = gc64 ? 0x38 : 0x20;
    l.proto_sizeuv = gc64 ? 0x3c : 0x24;
    l.proto_chunkname = gc64 ? 0x40 : 0x28;
    l.proto_firstline = gc64 ? 0x48 : 0x2c;
    l.proto_numline = gc64 ? 0x4c : 0x30;
    l.proto_lineinfo = gc64 ? 0x50 : 0x34;
    l.proto_uvinfo = gc64 ? 0x58 : 0x38;
    l.proto_varinfo = gc64 ? 0x60 : 0x3c;
    l.str_len = gc64 ? 0x14 : 0x10;
    l.str_size = gc64 ? 0x18 : 0x14;
    return l;
}

static void put(struct heap *h, uint64_t at, uint64_t value, size_t size)
{
    if (at + size <= h->size)
        memcpy(h->bytes + at, &value, size);
}

/* Writes two prototypes over one string, the second defined in the first. The bytes decide where
 * their parts are. */
static void put_likely(struct heap *h, const struct luajit_layout *l)
{
    enum { STRING = 0, FIRST = 0x40, SECOND = 0x440, BLOCK = 0x400 };
    const size_t ref = (size_t)l->ref_size;
    put(h, STRING + (uint64_t)l->gct, 4, 1);
    put(h, STRING + (uint64_t)l->str_len, h->bytes[2], 4);
    for (uint64_t at = FIRST; at <= SECOND; at += SECOND - FIRST) {
        uint64_t code_end = at + (uint64_t)l->proto_size + 4 * 64;
        uint64_t k = code_end + 8 * ref, info = k + 64 + (h->bytes[3] & 63);
        put(h, at + (uint64_t)l->gct, 7, 1);
        put(h, at + (uint64_t)l->proto_sizebc, 64, 4);
        put(h, at + (uint64_t)l->proto_k, HEAP + k, ref);
        put(h, at + (uint64_t)l->proto_sizekgc, 8, 4);
        put(h, at + (uint64_t)l->proto_sizept, BLOCK, 4);
        put(h, at + (uint64_t)l->proto_chunkname, HEAP + STRING, ref);
        put(h, at + (uint64_t)l->proto_firstline, at == FIRST ? 0 : 2, 4);
        put(h, at + (uint64_t)l->proto_numline, at == FIRST ? 100 : 7, 4);
        put(h, at + (uint64_t)l->proto_lineinfo, HEAP + info, ref);
        put(h, at + (uint64_t)l->proto_uvinfo, HEAP + info + 64, ref);
        put(h, at + (uint64_t)l->proto_varinfo, HEAP + info + 128, ref);
        put(h, k - ref, HEAP + (h->bytes[4] & 1 ? SECOND : FIRST), ref);
        put(h, k - 2 * ref, HEAP + STRING, ref);
    }
}

static void name_frames(struct luajit_names *n, const struct heap *h, const struct luajit_layout *l,
                        const uint8_t *choice)
{
    const struct memory_layer layer = {.read = read_heap, .context = (void *)h};
    struct memory memory = {.layers = &layer, .nr_layers = 1};
    const struct luajit_vm vm = {.g = 1, .layout = l};
    for (unsigned i = 0; i < FRAMES; i++) {
        const struct luajit_names_source source = {
            .memory = &memory, .vm = &vm, .space = 1, .provenance = choice[i] % 3, .batch = i};
        uint64_t proto = HEAP + (choice[i] & 1 ? 0x40 : 0x440) + (choice[i] & 0x80 ? choice[i] : 0);
        struct luajit_frame f = {.proto = proto,
                                 .position = choice[i] / 2,
                                 .ffid = choice[i],
                                 .kind = choice[i] % 9 ? LUAJIT_FRAME_LUA : choice[i] % 4,
                                 .caller_proto = HEAP + (choice[i] & 2 ? 0x40 : 0x440),
                                 .caller_func = HEAP + 8 * (uint64_t)choice[(i + 1) % FRAMES],
                                 .caller_base = HEAP + 8 * (uint64_t)choice[(i + 2) % FRAMES]};
        f.caller_pc = f.caller_proto + (uint64_t)l->proto_size + 4 * (choice[i] / 4);
        struct luajit_named named;
        memory.time = i / 2;
        if (luajit_names_frame(n, &source, &f, &named, NULL) == 0 && f.kind == LUAJIT_FRAME_LUA &&
            !named.function)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct heap heap = {.size = 0};
    struct luajit_builtins builtins = {.nr = 0};
    if (size < 1 + FRAMES + 8)
        return 0;
    struct luajit_layout l = layout_of(bytes[0] & 1, (bytes[0] >> 1) % 3);
    heap.size = size - 1 - FRAMES < HEAP_MAX ? size - 1 - FRAMES : HEAP_MAX;
    memcpy(heap.bytes, bytes + 1 + FRAMES, heap.size);
    if (bytes[0] & 0xc0)
        put_likely(&heap, &l);
    luajit_builtins_scan(&builtins, heap.bytes, heap.size);
    l.builtins = &builtins;
    struct managed_names *managed = managed_names_create();
    struct luajit_names *n = managed ? luajit_names_create(managed) : NULL;
    if (n)
        name_frames(n, &heap, &l, bytes + 1);
    luajit_names_free(n);
    managed_names_free(managed);
    return 0;
}
