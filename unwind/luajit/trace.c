/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds traces and their snapshots. */
#include "unwind/luajit/trace.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "perfdata/vmevent_layout.h"
#include "unwind/arch_x86_64.h"

enum {
    STUB_GROUPS = 16,
    STUBS_IN_GROUP = 32,
    STUB_TAIL = 126, /* offset in a group: the push of the number's high part */
    STUB_GROUP_SIZE = 144,
    SZMCODE_MAX = 1 << 26,
    DIGEST_MAX = 8 << 10, /* maximum size of each part in bytes */
};

enum { HEAD_MAX = 0x78 }; /* maximum head of a GCtrace, in bytes */

/* ---- proof --------------------------------------------------------------------------------- */

static bool is_equal(const uint8_t *a, const uint8_t *b, int32_t from, int32_t to)
{
    return memcmp(a + from, b + from, (size_t)(to - from)) == 0;
}

/* A trace's head that came with the sample. */
struct trace_head {
    const struct luajit_layout *layout;
    uint64_t address;
    uint8_t bytes[HEAD_MAX];
};

/* Are the bytes the head of the same trace? The addresses of its parts, its number and its start do
 * not change while it lives. The collector's list, the fields of patched exits and of side traces
 * do change. */
static enum memory_likeness head_likeness(const void *context, uint64_t address,
                                          const uint8_t *bytes, size_t size,
                                          const struct memory_span *when)
{
    const struct trace_head *h = context;
    const struct luajit_layout *l = h->layout;
    (void)when;
    if (address != h->address || size < (size_t)l->trace_size)
        return MEMORY_ANOTHER;
    bool same = bytes[l->gct] == LUAJIT_GCT_TRACE &&
                is_equal(bytes, h->bytes, l->trace_ir, l->trace_mcloop) &&
                is_equal(bytes, h->bytes, l->trace_spadjust, l->trace_spadjust + 2) &&
                is_equal(bytes, h->bytes, l->trace_traceno, l->trace_traceno + 2) &&
                is_equal(bytes, h->bytes, l->trace_root, l->trace_root + 2);
    return same ? MEMORY_SAME : MEMORY_ANOTHER;
}

/* Is nothing else known to have been at the head's address, and was the head read near enough in
 * time? */
static bool is_near(const struct luajit_reader *r, const struct trace_head *head)
{
    const struct memory_compare compare = {head_likeness, head};
    struct memory_proof proof = memory_prove(r->m, head->address, (size_t)head->layout->trace_size,
                                             &compare, PROVENANCE_GUESS);
    return (proof.provenance == PROVENANCE_EXACT && !proof.another) || memory_is_near(&proof);
}

static bool is_usable(const struct luajit_layout *l)
{
    return l->trace_ir >= 0 && l->trace_mcloop >= l->trace_ir && l->trace_size <= HEAD_MAX &&
           l->trace_mcloop <= l->trace_size;
}

/* Is the trace of this moment the same that was read at another moment? */
static bool is_pinned(const struct luajit_reader *r, const struct luajit_trace *t)
{
    struct trace_head head = {.layout = r->layout, .address = t->address};
    if (t->runs)
        return true;
    return is_usable(r->layout) &&
           memory_read_instant(r->m, t->address, head.bytes, (size_t)r->layout->trace_size) &&
           is_near(r, &head);
}

/* ---- a trace's digest ---------------------------------------------------------------------- */

/* The digest of src/live/vmstack.bpf.c, over whole words. In each `each`th word (0: none) only
 * the bits of `mask` count. */
static uint64_t digest_bytes(const uint8_t *bytes, size_t size, uint32_t each, uint32_t mask,
                             uint64_t digest)
{
    uint32_t in = 0;
    for (size_t i = 0; i < size; i += 4) {
        uint32_t word = load_u32(bytes + i, false);
        if (++in == each) {
            word &= mask;
            in = 0;
        }
        digest = VMDIGEST_ADD(digest, word);
        digest = VMDIGEST_MIX(digest);
    }
    return digest;
}

/* The parts of a trace that its digest covers, which lie one behind the other. `part`: where each
 * begins, relative to `first`, and where all end. false: the parts are malformed. */
static bool digest_parts(const struct luajit_trace *t, uint64_t *first, uint32_t part[4])
{
    uint64_t ends[4];
    *first = ends[0] = t->ir + 8 * (uint64_t)t->nk;
    ends[1] = t->snap;
    ends[2] = t->snapmap;
    ends[3] = t->snapmap + 4 * (uint64_t)t->nsnapmap;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t size = i ? ends[i] - ends[i - 1] : 0;
        if (size > DIGEST_MAX || size % 4)
            return false;
        part[i] = (uint32_t)(ends[i] - *first);
    }
    return true;
}

static uint64_t digest_block(const uint8_t *bytes, const uint32_t part[4], bool is_12)
{
    uint64_t digest = digest_bytes(bytes, part[1], 0, 0, VMDIGEST_BEGIN);
    digest = digest_bytes(bytes + part[1], part[2] - part[1], is_12 ? 3 : 2,
                          is_12 ? VMDIGEST_MASK_12 : VMDIGEST_MASK_8, digest);
    return digest_bytes(bytes + part[2], part[3] - part[2], 0, 0, digest);
}

/* Digest of bytes in place, cached: the bytes are the same from walk to walk. */
static uint64_t digest_in_place(struct luajit_reader *r, const uint8_t *bytes,
                                const uint32_t part[4], bool is_12)
{
    struct luajit_digest *d = &r->digests[hash_u64((uintptr_t)bytes) % READER_DIGESTS];
    if (d->bytes != bytes || d->snap != part[1] || d->map != part[2] || d->size != part[3] ||
        d->is_12 != is_12)
        *d = (struct luajit_digest){.bytes = bytes,
                                    .snap = part[1],
                                    .map = part[2],
                                    .size = part[3],
                                    .is_12 = is_12,
                                    .value = digest_block(bytes, part, is_12)};
    return d->value;
}

static enum luajit_digested compare_digest(struct luajit_reader *r, const struct luajit_trace *t)
{
    uint8_t copy[3 * DIGEST_MAX];
    uint64_t then, now, first;
    uint32_t part[4];
    bool is_12 = t->snap_size == 12;
    enum provenance any = PROVENANCE_EXACT;
    r->block = NULL;
    if (!memory_read_instant(r->m, VMENTRY_DIGEST_OF(t->address), &then, sizeof(then)))
        return LUAJIT_DIGEST_NONE;
    if (!digest_parts(t, &first, part))
        return LUAJIT_DIGEST_OTHER;
    const uint8_t *bytes = memory_peek(r->m, first, part[3], &any);
    if (bytes)
        now = digest_in_place(r, bytes, part, is_12);
    else if (memory_read(r->m, first, copy, part[3], &any))
        now = digest_block(copy, part, is_12);
    else
        return LUAJIT_DIGEST_OTHER;
    if (now != then)
        return LUAJIT_DIGEST_OTHER;
    r->block = bytes;
    r->block_start = first;
    r->block_size = part[3];
    return LUAJIT_DIGEST_SAME;
}

/* Compare the trace's parts, which were read at other times, with the digest that came with the
 * sample. */
enum luajit_digested luajit_trace_digest(struct luajit_reader *r, const struct luajit_trace *t)
{
    if (r->digested != t->address) {
        r->digest = (uint8_t)compare_digest(r, t);
        r->digested = t->address;
    }
    return (enum luajit_digested)r->digest;
}

/* ---- its parts ----------------------------------------------------------------------------- */

/* Known bytes. In each piece of `each` bytes the byte at offset `count` is a counter, which is not
 * compared; each 0: all bytes are compared. */
struct known_bytes {
    uint64_t address;
    const uint8_t *bytes;
    uint32_t each, count;
};

static enum memory_likeness bytes_likeness(const void *context, uint64_t address,
                                           const uint8_t *bytes, size_t size,
                                           const struct memory_span *when)
{
    const struct known_bytes *k = context;
    uint64_t from = address - k->address;
    (void)when;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != k->bytes[from + i] && !(k->each && (from + i) % k->each == k->count))
            return MEMORY_ANOTHER;
    }
    return MEMORY_SAME;
}

static bool read_part_anew(struct luajit_reader *r, const struct luajit_trace *t, uint64_t address,
                           void *to, size_t size, const struct known_bytes *counts)
{
    enum provenance before = r->provenance;
    r->provenance = PROVENANCE_EXACT;
    bool got = luajit_read(r, address, to, size);
    if (got && r->provenance != PROVENANCE_EXACT) {
        const struct known_bytes known = {address, to, counts ? counts->each : 0,
                                          counts ? counts->count : 0};
        const struct memory_compare compare = {bytes_likeness, &known};
        struct memory_proof proof = memory_prove(r->m, address, size, &compare, r->provenance);
        bool near = memory_is_near(&proof) && is_pinned(r, t);
        r->provenance = near ? PROVENANCE_EXACT : proof.provenance;
    }
    if (got) {
        enum luajit_digested digest = luajit_trace_digest(r, t);
        if (digest == LUAJIT_DIGEST_SAME)
            r->provenance = PROVENANCE_EXACT;
        else if (digest == LUAJIT_DIGEST_OTHER && r->provenance == PROVENANCE_EXACT)
            r->provenance = PROVENANCE_STALE;
    }
    r->provenance = before > r->provenance ? before : r->provenance;
    return got;
}

/* A part of the trace's block: in place, or in `to`. It does not change while the trace lives,
 * except for counters. NULL: it is not recorded. */
static inline const void *take_part(struct luajit_reader *r, const struct luajit_trace *t,
                                    uint64_t address, void *to, size_t size,
                                    const struct known_bytes *counts)
{
    const uint8_t *bytes = luajit_trace_bytes(r, t, address, size);
    if (bytes)
        return bytes;
    return read_part_anew(r, t, address, to, size, counts) ? to : NULL;
}

/* As take_part(), but always copies. */
static inline bool read_part(struct luajit_reader *r, const struct luajit_trace *t,
                             uint64_t address, void *to, size_t size)
{
    const void *bytes = take_part(r, t, address, to, size, NULL);
    if (bytes && bytes != to)
        memcpy(to, bytes, size);
    return bytes != NULL;
}

static bool read_part_u64(struct luajit_reader *r, const struct luajit_trace *t, uint64_t address,
                          uint64_t *ret)
{
    return read_part(r, t, address, ret, sizeof(*ret));
}

/* ---- the object ---------------------------------------------------------------------------- */

static bool counts_fit(struct luajit_trace *t, uint32_t nsnap, uint32_t nsnapmap, uint16_t size)
{
    if (nsnap == 0 || t->snapmap - t->snap != (uint64_t)nsnap * size)
        return false;
    t->nsnap = nsnap;
    t->nsnapmap = nsnapmap;
    t->snap_size = size;
    return true;
}

/* Find nsnap and nsnapmap, and the form of the snapshots: 8 bytes up to January 2019, then 12
 * bytes. Since March 2021 a snapshot of 12 bytes has the offset of its machine code, which is 0 in
 * the first snapshot. The older form has nslots and topslot in these bytes, which are not both
 * 0. */
static bool read_counts(struct luajit_reader *r, const uint8_t *bytes, struct luajit_trace *t)
{
    bool gc64 = r->layout->gc64;
    const uint8_t *old = bytes + (gc64 ? 0x2c : 0x1c);
    const uint8_t *nsnap = bytes + (gc64 ? 0xa : 6);
    uint16_t mcofs;
    if (!counts_fit(t, load_u16(nsnap, false), load_u32(old, false), 12))
        return counts_fit(t, load_u16(old, false), load_u16(old + 2, false), 8);
    if (!read_part(r, t, t->snap + 6, &mcofs, sizeof(mcofs)))
        return false;
    t->has_mcofs = mcofs == 0;
    return true;
}

static bool read_object(struct luajit_reader *r, uint64_t address, uint32_t number,
                        struct luajit_trace *t)
{
    const struct luajit_layout *l = r->layout;
    uint8_t bytes[HEAD_MAX];
    if (address == 0 || address & 3 || !luajit_read(r, address, bytes, (size_t)l->trace_size) ||
        bytes[l->gct] != LUAJIT_GCT_TRACE || load_u16(bytes + l->trace_traceno, false) != number)
        return false;
    *t = (struct luajit_trace){
        .address = address,
        .mcode = load_u64(bytes + l->trace_mcode, false),
        .ir = load_u64(bytes + l->trace_ir, false),
        .snap = load_u64(bytes + l->trace_snap, false),
        .snapmap = load_u64(bytes + l->trace_snapmap, false),
        .startpt = luajit_load_ref(l, bytes + l->trace_startpt),
        .startpc = luajit_load_ref(l, bytes + l->trace_startpc),
        .szmcode = load_u32(bytes + l->trace_szmcode, false),
        .mcloop = is_usable(l) ? load_u32(bytes + l->trace_mcloop, false) : 0,
        .nins = load_u32(bytes + l->trace_nins, false),
        .nk = load_u32(bytes + l->trace_nk, false),
        .number = (uint16_t)number,
        .root = load_u16(bytes + l->trace_root, false),
        .spadjust = load_u16(bytes + l->trace_spadjust, false),
    };
    return t->szmcode <= SZMCODE_MAX && t->nk <= LUAJIT_REF_BIAS && t->nins >= LUAJIT_REF_BIAS &&
           t->nins < 2 * LUAJIT_REF_BIAS && read_counts(r, bytes, t);
}

/* Read J->trace and J->sizetrace. */
static bool read_array(struct luajit_reader *r, uint64_t g, uint64_t *array, uint32_t *nr)
{
    const struct luajit_layout *l = r->layout;
    return l->trace != LUAJIT_UNKNOWN && luajit_read_u64(r, g + (uint64_t)l->trace, array) &&
           luajit_read_u32(r, g + (uint64_t)l->sizetrace, nr) && *nr <= LUAJIT_TRACES_MAX;
}

bool luajit_trace_read(struct luajit_reader *r, uint64_t g, uint32_t number,
                       struct luajit_trace *ret)
{
    uint64_t array, address;
    uint32_t nr;
    return number != 0 && read_array(r, g, &array, &nr) && number < nr &&
           luajit_read_ref(r, array + (uint64_t)r->layout->ref_size * number, &address) &&
           read_object(r, address, number, ret);
}

static bool holds(const struct luajit_trace *t, uint64_t pc)
{
    return pc - t->mcode < t->szmcode;
}

/* The VM's words do not name a trace that has called the collector, so its head does not come with
 * the sample. But the trace runs, so it was not freed. Check what was read at another moment: is it
 * a trace with a call before the return address `pc` + 1, and is nothing else known at its
 * address? */
static bool is_running(const struct luajit_reader *r, const struct luajit_trace *t, uint64_t pc)
{
    struct trace_head head = {.layout = r->layout, .address = t->address};
    enum provenance ignored = PROVENANCE_EXACT;
    uint8_t code[X86_64_CALL_MAX];
    return pc + 1 - t->mcode >= sizeof(code) && is_usable(r->layout) &&
           memory_read(r->m, pc + 1 - sizeof(code), code, sizeof(code), &ignored) &&
           x86_64_is_call(code + sizeof(code), sizeof(code)) &&
           memory_read(r->m, t->address, head.bytes, (size_t)r->layout->trace_size, &ignored) &&
           head.bytes[r->layout->gct] == LUAJIT_GCT_TRACE && is_near(r, &head);
}

/* The first slot from `i` on that may have come with the sample: of the many slots, mostly none or
 * one has. */
static uint32_t next_instant(struct luajit_reader *r, uint64_t array, uint32_t nr, uint32_t i)
{
    enum { LOOKED_AT = 64 };
    const uint64_t each = (uint64_t)r->layout->ref_size;
    for (; i < nr && luajit_spend(r); i += LOOKED_AT) {
        if (!memory_has_instant(r->m, array + each * i, each * LOOKED_AT))
            continue;
        for (uint32_t half = LOOKED_AT / 2; half; half /= 2) {
            if (!memory_has_instant(r->m, array + each * i, each * half))
                i += half;
        }
        return i;
    }
    return nr;
}

/* Find the trace whose head came with the sample although the VM's words do not name it (the
 * collector runs). */
static bool find_instant(struct luajit_reader *r, uint64_t array, uint32_t nr, uint64_t pc,
                         struct luajit_trace *ret)
{
    uint8_t ref[8], head[HEAD_MAX];
    const struct luajit_layout *l = r->layout;
    if (!is_usable(l))
        return false;
    for (uint32_t i = next_instant(r, array, nr, 1); i < nr;
         i = next_instant(r, array, nr, i + 1)) {
        enum provenance before = r->provenance;
        if (!memory_read_instant(r->m, array + (uint64_t)l->ref_size * i, ref, (size_t)l->ref_size))
            continue;
        uint64_t address = luajit_load_ref(l, ref);
        if (memory_read_instant(r->m, address, head, (size_t)l->trace_size) &&
            read_object(r, address, i, ret) && holds(ret, pc))
            return true;
        r->provenance = before;
    }
    return false;
}

/* Does the head say that this is trace `number`, with code at `pc`? Only one of many traces
 * does. */
static bool is_candidate(struct luajit_reader *r, uint64_t address, uint32_t number, uint64_t pc)
{
    const struct luajit_layout *l = r->layout;
    uint8_t bytes[HEAD_MAX];
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(r->m, address, bytes, (size_t)l->trace_size, &ignored) &&
           bytes[l->gct] == LUAJIT_GCT_TRACE &&
           load_u16(bytes + l->trace_traceno, false) == number &&
           pc - load_u64(bytes + l->trace_mcode, false) < load_u32(bytes + l->trace_szmcode, false);
}

bool luajit_trace_find(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t hint,
                       struct luajit_trace *ret)
{
    uint64_t array;
    uint32_t nr;
    if (hint && luajit_trace_read(r, g, hint, ret) && holds(ret, pc))
        return true;
    if (!read_array(r, g, &array, &nr))
        return false;
    if (find_instant(r, array, nr, pc, ret))
        return true;
    /* Only the trace that is found counts: the other reads on the way prove nothing. The array's
     * slot proves nothing either, if the trace has the number and the code. */
    enum provenance before = r->provenance;
    for (uint32_t i = 1; i < nr && luajit_spend(r); i++) {
        uint64_t address;
        bool got = luajit_read_ref(r, array + (uint64_t)r->layout->ref_size * i, &address);
        r->provenance = before;
        if (!got || !address || !is_candidate(r, address, i, pc) ||
            !read_object(r, address, i, ret))
            continue;
        ret->runs = r->provenance != before && is_running(r, ret, pc);
        if (ret->runs) {
            uint8_t first[8];
            r->provenance = before;
            return read_part(r, ret, ret->snap, first, sizeof(first));
        }
        return true;
    }
    r->provenance = before;
    return false;
}

bool luajit_trace_parent(struct luajit_reader *r, const struct luajit_trace *t, uint16_t *parent,
                         uint16_t *exitno)
{
    uint16_t ops[2]; /* operands of the first instruction, REF_BASE */
    if (t->root == 0 || !read_part(r, t, t->ir + 8 * (uint64_t)LUAJIT_REF_BIAS, ops, sizeof(ops)))
        return false;
    *parent = ops[0];
    *exitno = ops[1];
    return true;
}

/* ---- exit stubs ---------------------------------------------------------------------------- */

/* Find the group of exit stubs that an address is in: its number and start. */
static bool find_stub_group(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t *group,
                            uint64_t *start)
{
    uint64_t groups[STUB_GROUPS];
    if (r->layout->exitstubgroup == LUAJIT_UNKNOWN ||
        !luajit_read(r, g + (uint64_t)r->layout->exitstubgroup, groups, sizeof(groups)))
        return false;
    for (uint32_t i = 0; i < STUB_GROUPS; i++) {
        if (groups[i] != 0 && pc - groups[i] < STUB_GROUP_SIZE) {
            *group = i;
            *start = groups[i];
            return true;
        }
    }
    return false;
}

/* A group has 32 times "push low byte", with jumps to the tail between. The tail is "push high
 * byte", in 32 bit builds a store of DISPATCH, and a jump to lj_vm_exit_handler. */
bool luajit_exit_stub(struct luajit_reader *r, uint64_t g, uint64_t pc, uint32_t *exitno,
                      unsigned *pushes)
{
    uint64_t start;
    uint32_t group;
    uint8_t bytes[2];
    if (!find_stub_group(r, g, pc, &group, &start) || !luajit_read(r, start, bytes, 2) ||
        bytes[0] != 0x6a)
        return false;
    uint64_t at = pc - start;
    *pushes = at > STUB_TAIL ? 2 : at < STUB_TAIL && at % 4 == 0 ? 0 : 1;
    *exitno = at < STUB_TAIL ? STUBS_IN_GROUP * group + (uint32_t)at / 4 : UINT32_MAX;
    return true;
}

/* ---- snapshots ----------------------------------------------------------------------------- */

/* Read some of a trace's snapshots, in place or to `to`. */
static const uint8_t *take_snapshots(struct luajit_reader *r, const struct luajit_trace *t,
                                     uint32_t first, uint32_t nr, uint8_t *to)
{
    const struct known_bytes counts = {.each = t->snap_size,
                                       .count = t->snap_size == 8 ? 7
                                                : t->has_mcofs    ? 0xb
                                                                  : 9};
    return take_part(r, t, t->snap + (uint64_t)t->snap_size * first, to, (size_t)t->snap_size * nr,
                     &counts);
}

/* ---- snapshots by offset ------------------------------------------------------------------- */

/* Returns the bytes of a unit of machine code, in which snapshots count offsets. */
static uint32_t code_unit(const struct luajit_reader *r)
{
    return r->layout->machine == LUAJIT_ON_X86_64 ? 1 : 4;
}

/* Builds that store machine code offsets: the last snapshot that begins at or before `offset`. */
static bool snapshot_by_mcofs(struct luajit_reader *r, const struct luajit_trace *t,
                              uint32_t offset, uint32_t *ret)
{
    enum { PIECE = 64 };
    uint8_t copy[12 * PIECE];
    *ret = 0;
    for (uint32_t from = 0; from < t->nsnap; from += PIECE) {
        uint32_t nr = t->nsnap - from < PIECE ? t->nsnap - from : PIECE;
        const uint8_t *bytes = take_snapshots(r, t, from, nr, copy);
        if (!bytes)
            return false;
        for (uint32_t i = 0; i < nr; i++) {
            if (load_u16(bytes + 12 * (size_t)i + 6, false) * code_unit(r) > offset)
                return true;
            *ret = from + i;
        }
    }
    return true;
}

bool luajit_snapshot_start(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           uint32_t *ret)
{
    uint8_t copy[12];
    const uint8_t *bytes =
        t->has_mcofs && number < t->nsnap ? take_snapshots(r, t, number, 1, copy) : NULL;
    if (!bytes)
        return false;
    *ret = load_u16(bytes + 6, false) * code_unit(r);
    return true;
}

bool luajit_trace_target(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                         uint64_t target, uint32_t *exitno, uint16_t *side)
{
    uint64_t start;
    uint32_t group;
    struct luajit_trace other;
    uint16_t parent, number;
    *side = 0;
    *exitno = UINT32_MAX;
    if (find_stub_group(r, g, target, &group, &start)) {
        *exitno = STUBS_IN_GROUP * group + (uint32_t)(target - start) / 4;
        return (target - start) % 4 == 0 && target - start < STUB_TAIL;
    }
    if (!luajit_trace_find(r, g, target, 0, &other))
        return false;
    *side = other.number;
    if (other.mcode == target && luajit_trace_parent(r, &other, &parent, &number) &&
        parent == t->number)
        *exitno = number;
    return true;
}

/* The exit that a guard's jump leads to: a stub's number, or the exit that a side trace
 * replaces. */
static bool exit_of_target(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                           uint64_t target, uint32_t *ret)
{
    uint16_t side;
    return target - t->mcode >= t->szmcode && /* otherwise it is a jump within the trace */
           luajit_trace_target(r, g, t, target, ret, &side) && *ret != UINT32_MAX;
}

/* Older builds: the next guard behind `offset` tells the snapshot that it would exit to. (Only
 * x86-64's guards are read.) */
static bool snapshot_by_guard(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                              uint32_t offset, uint32_t *ret)
{
    enum { PIECE = 512, JCC = 6 };
    uint8_t code[PIECE];
    unsigned tried = 0;
    if (r->layout->machine != LUAJIT_ON_X86_64)
        return false;
    for (uint32_t from = offset; from < t->szmcode; from += PIECE - JCC) {
        uint32_t size = t->szmcode - from < PIECE ? t->szmcode - from : PIECE;
        if (!luajit_read(r, t->mcode + from, code, size))
            return false;
        for (uint32_t i = 0; i + JCC <= size && i < PIECE - JCC; i++) {
            if (code[i] != 0x0f || (code[i + 1] & 0xf0) != 0x80)
                continue;
            uint64_t target = t->mcode + from + i + JCC +
                              (uint64_t)(int64_t)(int32_t)load_u32(code + i + 2, false);
            if (exit_of_target(r, g, t, target, ret) && *ret < t->nsnap)
                return true;
            if (++tried == 64)
                return false;
        }
    }
    *ret = t->nsnap - 1;
    return true;
}

bool luajit_snapshot_at(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                        uint32_t offset, uint32_t *ret, bool *guess)
{
    *guess = !t->has_mcofs;
    if (t->has_mcofs)
        return snapshot_by_mcofs(r, t, offset, ret);
    return snapshot_by_guard(r, g, t, offset, ret);
}

/* ---- constants ----------------------------------------------------------------------------- */

static bool is_constant(const struct luajit_trace *t, uint32_t ref)
{
    return ref < LUAJIT_REF_BIAS && ref >= t->nk;
}

/* Read a constant's value. GC64 builds keep it in the slot behind the instruction. */
static bool read_constant(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                          uint64_t *ret)
{
    if (!is_constant(t, ref))
        return false;
    if (r->layout->gc64)
        return read_part_u64(r, t, t->ir + 8 * ((uint64_t)ref + 1), ret);
    uint32_t half;
    bool got = read_part(r, t, t->ir + 8 * (uint64_t)ref, &half, sizeof(half));
    *ret = half;
    return got;
}

uint64_t luajit_trace_proto_of(struct luajit_reader *r, const struct luajit_trace *t, uint64_t pc)
{
    enum { LOOKED_AT = 4096 };
    /* Only the prototype that is found counts: the other reads on the way prove nothing. */
    enum provenance before = r->provenance;
    for (uint32_t i = 0, ref = t->nk; ref < LUAJIT_REF_BIAS && i < LOOKED_AT && luajit_spend(r);
         ref++, i++) {
        uint64_t value, code;
        uint32_t sizebc;
        r->provenance = before;
        if (i == 0 && pc - t->startpt < 4 * LUAJIT_SIZEBC_MAX &&
            luajit_code_read(r, t->startpt, &code, &sizebc) && pc >= code &&
            pc - code <= 4 * (uint64_t)sizebc)
            return t->startpt;
        if (read_constant(r, t, ref, &value) && value < pc && pc - value < 4 * LUAJIT_SIZEBC_MAX &&
            luajit_code_read(r, value, &code, &sizebc) && pc >= code &&
            pc - code <= 4 * (uint64_t)sizebc)
            return value;
    }
    r->provenance = before;
    return 0;
}

uint64_t luajit_traces_proto_of(struct luajit_reader *r, uint64_t g, const struct luajit_trace *t,
                                uint64_t pc)
{
    enum { PARENTS = 32 };
    struct luajit_trace side = *t;
    for (unsigned i = 0; i < PARENTS; i++) {
        uint16_t parent, exitno;
        uint64_t proto = luajit_trace_proto_of(r, &side, pc);
        if (proto || !luajit_trace_parent(r, &side, &parent, &exitno) ||
            !luajit_trace_read(r, g, parent, &side))
            return proto;
    }
    return 0;
}

/* ---- a snapshot's frames ------------------------------------------------------------------- */

enum {
    ENTRY_FRAME = 0x10000,
    ENTRY_CONT = 0x20000,
    ENTRY_UNCHANGED = 0x40000, /* SNAP_NORESTORE */
    ENTRIES_MAX = 256,
    LINKS_MAX = 2 * LUAJIT_INLINED_MAX,
};

struct snapshot {
    uint32_t entries[ENTRIES_MAX + LINKS_MAX]; /* slot << 24 | flags | ref; behind the entries the
                                                  frame data */
    uint32_t nent, nlinks;
};

static uint32_t entry_slot(uint32_t entry)
{
    return entry >> 24;
}

/* Read where a snapshot's map begins, and its number of entries. */
static bool read_head(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                      uint32_t *mapofs, uint32_t *nent)
{
    uint8_t copy[12];
    const uint8_t *bytes = number < t->nsnap ? take_snapshots(r, t, number, 1, copy) : NULL;
    if (!bytes)
        return false;
    *mapofs = t->snap_size == 8 ? load_u16(bytes, false) : load_u32(bytes, false);
    *nent = bytes[t->snap_size == 8 ? 6 : t->has_mcofs ? 0xa : 8];
    return *mapofs < t->nsnapmap;
}

static bool read_snapshot(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                          struct snapshot *ret)
{
    uint32_t mapofs, end = t->nsnapmap, ignored;
    if (!read_head(r, t, number, &mapofs, &ret->nent))
        return false;
    if (number + 1 < t->nsnap && !read_head(r, t, number + 1, &end, &ignored))
        return false;
    if (end > t->nsnapmap || end < mapofs || end - mapofs < ret->nent + 1 ||
        end - mapofs - ret->nent > LINKS_MAX)
        return false;
    ret->nlinks = end - mapofs - ret->nent;
    return read_part(r, t, t->snapmap + 4 * (uint64_t)mapofs, ret->entries,
                     4 * (size_t)(end - mapofs));
}

static const uint32_t *find_entry(const struct snapshot *s, uint32_t slot)
{
    for (uint32_t i = 0; i < s->nent; i++) {
        if (entry_slot(s->entries[i]) == slot)
            return &s->entries[i];
    }
    return NULL;
}

static bool entry_value(struct luajit_reader *r, const struct luajit_trace *t,
                        const struct snapshot *s, uint32_t slot, uint64_t *ret)
{
    const uint32_t *entry = find_entry(s, slot);
    return entry && read_constant(r, t, *entry & 0xffff, ret);
}

static bool add_frame(struct luajit_inlined *in, uint64_t func, uint64_t pc, uint32_t slot)
{
    if (in->nr == LUAJIT_INLINED_MAX)
        return false;
    in->frames[in->nr].func = func;
    in->frames[in->nr].pc = pc;
    in->frames[in->nr++].base_slot = slot;
    return true;
}

static uint32_t call_distance(struct luajit_reader *r, uint64_t pc)
{
    const uint64_t anywhere = UINT64_C(1) << 40;
    uint64_t base = luajit_caller_base(r, anywhere, pc);
    return base ? (uint32_t)((anywhere - base) / 8) : 0;
}

enum { GC64_REF_MASK_BITS = 47 };

/* FR2: slots 0 and 1 are the start frame's header. Each frame's function and link are in the
 * entries of its own two header slots. The pc and the depth follow the entries. */
static bool frames_fr2(struct luajit_reader *r, const struct luajit_trace *t,
                       const struct snapshot *s, struct luajit_inlined *ret)
{
    uint64_t last;
    if (s->nlinks < 2)
        return false;
    memcpy(&last, s->entries + s->nent, sizeof(last));
    uint64_t pc = (last >> 8) + 4; /* the stored pc is that of the instruction, not of the next
                                      one */
    uint32_t cur = (uint32_t)(last & 0xff) + 2;
    ret->depth = cur - 2;
    while (cur > 2) {
        uint64_t link, func = 0;
        if (!entry_value(r, t, s, cur - 1, &link))
            return false;
        if (entry_value(r, t, s, cur - 2, &func))
            func &= (UINT64_C(1) << GC64_REF_MASK_BITS) - 1;
        unsigned type = luajit_link_type(link);
        if (type != LUAJIT_LINK_VARG && !add_frame(ret, func, pc, cur - 2))
            return false;
        uint32_t step = type == LUAJIT_LINK_LUA ? call_distance(r, link) : (uint32_t)link / 8;
        if (type == LUAJIT_LINK_LUA)
            pc = link;
        else if (type == LUAJIT_LINK_CONT && !(cur >= 3 && entry_value(r, t, s, cur - 3, &pc)))
            return false;
        else if (type != LUAJIT_LINK_CONT && type != LUAJIT_LINK_VARG)
            pc = 0;
        if (step == 0 || step > cur - 2)
            return false;
        cur -= step;
    }
    ret->start_pc = pc;
    if (entry_value(r, t, s, 0, &ret->start_func))
        ret->start_func &= (UINT64_C(1) << GC64_REF_MASK_BITS) - 1;
    return true;
}

/* One header slot per frame: functions are in the entries. The links follow the pc, innermost
 * first. */
static bool frames_fr1(struct luajit_reader *r, const struct luajit_trace *t,
                       const struct snapshot *s, struct luajit_inlined *ret)
{
    const uint32_t *links = s->entries + s->nent + 1;
    uint32_t left = s->nlinks - 1, next = 0;
    uint64_t pc = (uint64_t)s->entries[s->nent] + 4;
    for (uint32_t i = s->nent; i-- > 0;) {
        uint32_t entry = s->entries[i], slot = entry_slot(entry);
        uint64_t func = 0;
        if (!(entry & ENTRY_FRAME) || slot == 0)
            continue;
        if (next == left)
            return false;
        uint32_t link = links[next++];
        unsigned type = luajit_link_type(link);
        if (ret->depth == 0)
            ret->depth = slot;
        read_constant(r, t, entry & 0xffff, &func);
        if (type != LUAJIT_LINK_VARG && !add_frame(ret, func, pc, slot))
            return false;
        if (type == LUAJIT_LINK_LUA) {
            pc = link;
        } else if (type == LUAJIT_LINK_CONT) {
            if (next == left)
                return false;
            pc = links[next++];
        } else if (type != LUAJIT_LINK_VARG) {
            pc = 0;
        }
    }
    ret->start_pc = pc;
    entry_value(r, t, s, 0, &ret->start_func);
    return true;
}

bool luajit_snapshot_frames(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                            struct luajit_inlined *ret)
{
    struct snapshot s;
    ret->nr = 0;
    ret->start_pc = ret->start_func = 0;
    ret->depth = 0;
    if (!read_snapshot(r, t, number, &s))
        return false;
    return r->layout->gc64 ? frames_fr2(r, t, &s, ret) : frames_fr1(r, t, &s, ret);
}

/* ---- a snapshot's slots ---------------------------------------------------------------------- */

/* Put a constant together as a slot holds it. */
static bool constant_word(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                          uint64_t *ret)
{
    enum { IRT_TRUE = 2, IRT_LIGHTUD = 3, IRT_UDATA = 12 };
    const bool gc64 = r->layout->gc64;
    uint8_t ins[8];
    uint64_t value;
    if (!read_part(r, t, t->ir + 8 * (uint64_t)ref, ins, sizeof(ins)))
        return false;
    const unsigned type = ins[4] & IRT_MASK;
    if (type == IRT_NUM && gc64)
        return read_constant(r, t, ref, ret);
    if (type == IRT_NUM)
        return read_constant(r, t, ref, &value) && luajit_read_u64(r, value, ret);
    if (type == IRT_INT) {
        const double number = (int32_t)load_u32(ins, false);
        memcpy(ret, &number, sizeof(*ret));
        return true;
    }
    if (type > IRT_UDATA || type == IRT_LIGHTUD)
        return false;
    value = gc64 ? LUAJIT_REF_MASK : UINT32_MAX;
    if (type > IRT_TRUE && !read_constant(r, t, ref, &value))
        return false;
    *ret = gc64 ? ~(uint64_t)type << 47 | (value & LUAJIT_REF_MASK)
                : (uint64_t)~type << 32 | (uint32_t)value;
    return true;
}

enum luajit_slot_place luajit_snapshot_slot(struct luajit_reader *r, const struct luajit_trace *t,
                                            uint32_t number, uint32_t slot, uint64_t *value)
{
    struct snapshot s;
    const uint32_t *entry = read_snapshot(r, t, number, &s) ? find_entry(&s, slot) : NULL;
    if (!entry || *entry & (ENTRY_FRAME | ENTRY_CONT))
        return LUAJIT_SLOT_UNTOLD;
    if (*entry & ENTRY_UNCHANGED)
        return LUAJIT_SLOT_ON_STACK;
    const uint32_t ref = *entry & 0xffff;
    if (!is_constant(t, ref))
        return LUAJIT_SLOT_IN_CODE;
    return constant_word(r, t, ref, value) ? LUAJIT_SLOT_CONSTANT : LUAJIT_SLOT_UNTOLD;
}

/* ---- a snapshot's place ---------------------------------------------------------------------- */

bool luajit_snapshot_refs(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                          uint32_t *from, uint32_t *to)
{
    uint8_t copy[2 * 12];
    size_t each = t->snap_size, ref = each == 8 ? 2 : 4;
    bool last = number + 1 == t->nsnap;
    const uint8_t *bytes =
        number < t->nsnap ? take_snapshots(r, t, number, last ? 1 : 2, copy) : NULL;
    if (!bytes)
        return false;
    *from = load_u16(bytes + ref, false);
    *to = last ? t->nins : load_u16(bytes + each + ref, false);
    return true;
}

bool luajit_snapshot_point(struct luajit_reader *r, const struct luajit_trace *t, uint32_t number,
                           struct luajit_point *ret)
{
    uint32_t mapofs, nent, end = t->nsnapmap, ignored, low;
    uint64_t last;
    if (!read_head(r, t, number, &mapofs, &nent) ||
        (number + 1 < t->nsnap && !read_head(r, t, number + 1, &end, &ignored)))
        return false;
    uint64_t at = (uint64_t)mapofs + nent, words = r->layout->gc64 ? 2 : 1;
    if (at + words > end || end > t->nsnapmap)
        return false;
    if (!r->layout->gc64) {
        ret->depth = end - (uint32_t)at; /* number of link words */
        bool got = read_part(r, t, t->snapmap + 4 * at, &low, sizeof(low));
        ret->pc = low;
        return got;
    }
    if (!read_part(r, t, t->snapmap + 4 * at, &last, sizeof(last)))
        return false;
    ret->pc = last >> 8;
    ret->depth = last & 0xff;
    return true;
}

bool luajit_first_guard(struct luajit_reader *r, const struct luajit_trace *t, uint32_t from,
                        uint32_t to, struct luajit_guard *ret)
{
    enum { PIECE = 32, TYPE = 4, OPCODE = 5, GUARD = 0x80 };
    uint8_t copy[8 * PIECE];
    *ret = (struct luajit_guard){0};
    while (from >= LUAJIT_REF_BIAS && from < to && to <= t->nins) {
        uint32_t nr = to - from < PIECE ? to - from : PIECE;
        const uint8_t *bytes =
            take_part(r, t, t->ir + 8 * (uint64_t)from, copy, 8 * (size_t)nr, NULL);
        if (!bytes)
            return false;
        for (uint32_t i = 0; i < nr; i++) {
            const uint8_t *at = bytes + 8 * (size_t)i;
            if (at[TYPE] & GUARD) {
                *ret = (struct luajit_guard){load_u16(at, false), load_u16(at + 2, false),
                                             at[OPCODE], at[TYPE] & IRT_MASK};
                return true;
            }
        }
        from += nr;
    }
    return false;
}

bool luajit_integer_constant(struct luajit_reader *r, const struct luajit_trace *t, uint16_t ref,
                             int32_t *ret)
{
    return is_constant(t, ref) && read_part(r, t, t->ir + 8 * (uint64_t)ref, ret, sizeof(*ret));
}
