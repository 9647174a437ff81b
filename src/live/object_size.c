/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/object_size.h"

#include "base/cursor.h"
#include "unwind/luajit/object.h"
#include "unwind/luajit/size.h"

#include <stdlib.h>
#include <string.h>

enum {
    STRING_MAX = 1 << 16,
    SHORT = 32, /* bytes, for a string or function at the end of mapped memory */
};

/* Returns the size of a string, with the NUL behind its text; 0: malformed. */
static uint64_t string_size(const struct object_reader *r, const struct luajit_layout *l,
                            uint64_t address, uint32_t length)
{
    uint64_t size = (uint64_t)l->str_size + length + 1;
    uint8_t nul = 1;
    return length < STRING_MAX && r->read(r->context, address + size - 1, &nul, 1) && !nul ? size
                                                                                           : 0;
}

uint64_t object_size(const struct object_reader *r, const struct luajit_layout *l, uint64_t address)
{
    uint8_t h[LUAJIT_HEAD] = {0};
    if (address & 7 || !luajit_sizes_known(l))
        return 0;
    if (!r->read(r->context, address, h, LUAJIT_HEAD) && !r->read(r->context, address, h, SHORT))
        return 0;
    switch (h[l->gct]) {
    case LUAJIT_GCT_STR:
        return string_size(r, l, address, load_u32(h + l->str_len, false));
    case LUAJIT_GCT_PROTO:
        return luajit_proto_size(l, address, h);
    case LUAJIT_GCT_FUNC:
        return luajit_function_size(l, h);
    case LUAJIT_GCT_TRACE:
        return luajit_trace_size(l, address, h);
    default:
        return 0;
    }
}

/* Returns the offset of the field right behind an object's link in the collector's list of objects
 * still to be traversed; 0: no link (strings have none). Layouts: lj_obj.h; GCproto of GC64 builds
 * has four unused bytes before the link. */
static uint32_t gray_list_end(const struct luajit_layout *l, uint8_t gct)
{
    switch (gct) {
    case LUAJIT_GCT_PROTO:
        return (uint32_t)l->proto_k;
    case LUAJIT_GCT_FUNC:
        return (uint32_t)l->func_pc;
    default:
        return 0;
    }
}

/* Whether the byte at `at` is one in which a running VM counts or links: the closures that a
 * prototype has had, its first trace, or how often a snapshot was exited through (facts: GCproto,
 * SnapShot). */
static bool is_counter(const struct luajit_layout *l, uint8_t gct,
                       const struct luajit_snapshots *snaps, size_t from, size_t at)
{
    enum { COUNT_IN_12 = 9 }; /* in the form without code offsets; else a count is the last byte */
    if (gct == LUAJIT_GCT_PROTO)
        return at == (size_t)l->proto_flags || at - (size_t)l->proto_trace < 2;
    if (!snaps->each || at < from || at - from >= snaps->bytes)
        return false;
    size_t in = (at - from) % snaps->each;
    return in + 1 == snaps->each || (snaps->each == 12 && in == COUNT_IN_12);
}

/* Whether the compiler has patched the bytecode at `at`. The head of a loop or function becomes its
 * I or J form and back, with a trace's number in place of a jump; the opcodes of these forms are
 * adjacent. A return or an ITERN becomes JLOOP (lj_trace.c: trace_stop, trace_unpatch). Order of
 * opcodes, in every version: FORI JFORI FORL IFORL JFORL ITERL IITERL JITERL LOOP ILOOP JLOOP JMP
 * FUNCF IFUNCF JFUNCF FUNCV IFUNCV JFUNCV. */
static bool is_patched(const struct luajit_layout *l, const uint8_t *a, const uint8_t *b, size_t at)
{
    const int32_t jloop = l->op_jloop, fori = jloop - 10, jfuncv = jloop + 7;
    size_t in = at - (size_t)l->proto_size, end = 4 * (size_t)load_u32(a + l->proto_sizebc, false);
    if (at < (size_t)l->proto_size || in >= end || fori < 0)
        return false;
    const uint8_t *x = a + (at - in % 4), *y = b + (at - in % 4); /* opcode, operand A, D */
    if (x[0] == jloop || y[0] == jloop)
        return true;
    bool heads = x[0] >= fori && x[0] <= jfuncv && y[0] >= fori && y[0] <= jfuncv;
    bool traces = x[0] == y[0] &&
                  (x[0] == jloop - 6 || x[0] == jloop - 3 || x[0] == jloop + 4 || x[0] == jfuncv);
    return heads && x[1] == y[1] && (traces || (x[0] != y[0] && abs(x[0] - y[0]) <= 2));
}

static bool same_but_counters(const struct luajit_layout *l, const uint8_t *a, const uint8_t *b,
                              size_t from, size_t end)
{
    struct luajit_snapshots snaps = {0};
    uint8_t gct = a[l->gct];
    if (from >= end || !memcmp(a + from, b + from, end - from))
        return true;
    if (gct == LUAJIT_GCT_TRACE && end >= LUAJIT_HEAD / 2 && luajit_sizes_known(l))
        snaps = luajit_snapshots_of(l, a);
    else if (gct != LUAJIT_GCT_PROTO)
        return false;
    if (snaps.bytes + snaps.map_bytes > end)
        return false;
    size_t first = end - (size_t)(snaps.bytes + snaps.map_bytes);
    for (size_t i = from; i < end; i++) {
        if (a[i] != b[i] && !is_counter(l, gct, &snaps, first, i) &&
            !(gct == LUAJIT_GCT_PROTO && is_patched(l, a, b, i)))
            return false;
    }
    return true;
}

/* A trace is built once, but it counts its exits and gets side traces later. The addresses of its
 * code, instructions and snapshots, its number and its start distinguish it from any other trace (a
 * flush sets the number to 0). */
static bool same_trace(const struct luajit_layout *l, const uint8_t *a, const uint8_t *b,
                       size_t size)
{
    const int32_t pairs[] = {l->trace_spadjust, l->trace_traceno, l->trace_root};
    size_t from = (size_t)l->trace_ir, to = (size_t)l->trace_mcloop;
    size_t head = size < LUAJIT_HEAD ? size : LUAJIT_HEAD;
    if (head < 2 || from >= to || to > head || memcmp(a + from, b + from, to - from))
        return false;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        if (pairs[i] < 0 || (size_t)pairs[i] > head - 2 || memcmp(a + pairs[i], b + pairs[i], 2))
            return false;
    }
    return true;
}

bool object_same(const struct luajit_layout *l, const uint8_t *a, const uint8_t *b, size_t size)
{
    size_t from = (size_t)l->gct; /* nextgc and marked are before it */
    if (size <= from || a[from] != b[from])
        return false;
    if (a[from] == LUAJIT_GCT_TRACE)
        return same_trace(l, a, b, size);
    size_t end = gray_list_end(l, a[from]), list = end - (size_t)l->ref_size;
    if (end > size || end < from + (size_t)l->ref_size)
        return same_but_counters(l, a, b, from, size);
    return !memcmp(a + from, b + from, list - from) && same_but_counters(l, a, b, end, size);
}

bool object_extra(const struct luajit_layout *l, const uint8_t *bytes, size_t size,
                  struct object_extra *ret)
{
    if (size < LUAJIT_HEAD || !luajit_sizes_known(l) || bytes[l->gct] != LUAJIT_GCT_TRACE)
        return false;
    ret->address = load_u64(bytes + l->trace_mcode, false);
    ret->length = load_u32(bytes + l->trace_szmcode, false);
    return ret->address && ret->length && ret->length <= OBJECT_MAX &&
           ret->address < UINT64_MAX - OBJECT_MAX;
}
