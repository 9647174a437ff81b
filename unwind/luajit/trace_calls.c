/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/trace_calls.h"

#include "base/cursor.h"
#include "unwind/arch_x86_64.h"
#include "unwind/insn_x86_64.h"
#include "unwind/luajit/names_bytecode.h"

/* ---- functions that a trace knows ------------------------------------------------------------ */

static bool is_among(uint64_t proto, const uint64_t *protos, unsigned nr)
{
    for (unsigned i = 0; i < nr; i++)
        if (protos[i] == proto)
            return true;
    return false;
}

bool luajit_trace_constant(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                           struct luajit_constant *ret)
{
    enum { TYPE = 4, PIECE = 16 };
    const bool gc64 = r->layout->gc64;
    const uint64_t address = t->ir + 8 * (uint64_t)ref;
    uint8_t copy[PIECE];
    size_t size = gc64 ? PIECE : PIECE / 2;
    enum provenance ignored = PROVENANCE_EXACT;
    const uint8_t *bytes = luajit_trace_bytes(r, t, address, size);
    if (!bytes && !memory_read(r->m, address, copy, size, &ignored))
        return false;
    bytes = bytes ? bytes : copy;
    ret->value = gc64 ? load_u64(bytes + 8, false) : load_u32(bytes, false);
    ret->type = bytes[TYPE] & IRT_MASK;
    ret->object =
        (ret->type == IRT_PROTO || ret->type == IRT_FUNC) && !(gc64 && load_u32(bytes, false));
    return true;
}

/* The prototype that constant `ref` stands for; 0: none. */
static uint64_t constant_proto(struct luajit_reader *r, const struct luajit_trace *t, uint32_t ref,
                               bool *unknown)
{
    struct luajit_constant k;
    if (!luajit_trace_constant(r, t, ref, &k)) {
        *unknown = true;
        return 0;
    }
    if (!k.object || k.type == IRT_PROTO)
        return k.object ? k.value : 0;
    const struct luajit_function *f = luajit_function_read(r, k.value);
    *unknown |= !f->address || f->unread;
    return f->lua ? f->proto : 0;
}

bool luajit_trace_knows_others(struct luajit_reader *r, const struct luajit_trace *t,
                               const uint64_t *protos, unsigned nr)
{
    enum provenance before = r->provenance;
    bool others = LUAJIT_REF_BIAS - t->nk > LUAJIT_CONSTANTS_MAX;
    for (uint32_t ref = t->nk; ref < LUAJIT_REF_BIAS && !others; ref++) {
        uint64_t proto = luajit_spend(r) ? constant_proto(r, t, ref, &others) : 1;
        others |= proto && !is_among(proto, protos, nr);
    }
    r->provenance = before; /* a frame's provenance rests on its snapshot and its functions */
    return others;
}

bool luajit_trace_names(struct luajit_reader *r, const struct luajit_trace *t, uint64_t function)
{
    enum provenance before = r->provenance;
    bool named = false;
    uint32_t nr = LUAJIT_REF_BIAS - t->nk, ref = t->nk;
    if (!r->layout->gc64 || nr > LUAJIT_CONSTANTS_MAX)
        return false;
    const uint8_t *bytes = luajit_trace_bytes(r, t, t->ir + 8 * (uint64_t)ref, 8 * (size_t)nr);
    for (uint32_t i = 0; bytes && i < nr; i++)
        named |= load_u64(bytes + 8 * (size_t)i, false) == function;
    for (; !bytes && ref < LUAJIT_REF_BIAS && !named && luajit_spend(r); ref++) {
        uint64_t value;
        named = luajit_read_u64(r, t->ir + 8 * (uint64_t)ref, &value) && value == function;
    }
    r->provenance = before;
    return named;
}

bool luajit_call_by_ffi(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset)
{
    enum { CALL = X86_64_DIRECT_CALL };
    uint8_t code[CALL];
    uint64_t target;
    enum provenance ignored = PROVENANCE_EXACT;
    if (!r->layout->gc64 || offset < CALL || offset > t->szmcode ||
        !memory_read(r->m, t->mcode + offset - CALL, code, CALL, &ignored))
        return false;
    return !x86_64_direct_call(code + CALL, CALL, t->mcode + offset, &target) ||
           luajit_trace_names(r, t, target);
}

/* ---- calls in machine code ------------------------------------------------------------------- */

/* A call: where it returns to, and its target: an address, or the bytes that name a register or a
 * place in memory. */
struct call {
    uint32_t offset;
    uint64_t what;
    bool helper; /* the target is a helper of LuaJIT itself */
};

/* Iterates over the calls from `at` up to `end`. */
struct calls {
    struct luajit_reader *r;
    const struct luajit_trace *t;
    uint64_t own;
    uint32_t at, end;
    bool lost; /* code is not recorded, or bytes are no code */
};

enum { INSN_MAX = 15, HELPERS_REACH = 4 << 20 };

static bool as_call(const struct calls *c, const uint8_t *code, uint8_t size, struct call *ret)
{
    enum { GROUP5 = 0xff, REX = 0x40 };
    ret->offset = c->at + size;
    ret->helper = false;
    if (size == X86_64_DIRECT_CALL &&
        x86_64_direct_call(code + size, size, c->t->mcode + ret->offset, &ret->what)) {
        ret->helper = ret->what - c->own + HELPERS_REACH < 2 * HELPERS_REACH &&
                      !luajit_trace_names(c->r, c->t, ret->what);
        return true;
    }
    unsigned prefix = (code[0] & 0xf0) == REX;
    ret->what = load_u64(code, false) & (size >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1);
    return code[prefix] == GROUP5 && (code[prefix + 1] & 0x38) == 0x10;
}

static bool next_call(struct calls *c, struct call *ret)
{
    while (c->at < c->end && !c->lost) {
        uint8_t code[INSN_MAX + 1] = {0};
        uint32_t left = c->t->szmcode - c->at;
        struct insn i;
        enum provenance ignored = PROVENANCE_EXACT;
        size_t size = left < INSN_MAX ? left : INSN_MAX;
        c->lost = !luajit_spend(c->r) ||
                  !memory_read(c->r->m, c->t->mcode + c->at, code, size, &ignored) ||
                  !insn_decode(code, size, &i) || i.size > left;
        if (c->lost)
            return false;
        bool is = as_call(c, code, i.size, ret);
        c->at += i.size;
        if (is)
            return true;
    }
    return false;
}

static struct calls calls_between(struct luajit_reader *r, const struct luajit_trace *t,
                                  uint64_t own, uint32_t from, uint32_t to)
{
    return (struct calls){.r = r, .t = t, .own = own, .at = from, .end = to};
}

/* Count the calls of the same target in a range, and (behind) how many of them return to `offset`
 * or behind it. false: the code cannot be read. */
static bool count_calls(struct calls c, const struct call *like, unsigned *nr, unsigned *behind)
{
    struct call call;
    *nr = *behind = 0;
    while (next_call(&c, &call)) {
        *nr += call.what == like->what;
        *behind += call.what == like->what && call.offset >= like->offset;
    }
    return !c.lost;
}

/* Replace `call`, which is in the loop of a trace, by the call in the trace's first part from which
 * it was made. */
static bool find_twin(struct luajit_reader *r, const struct luajit_trace *t, uint64_t own,
                      struct call *call)
{
    unsigned nr, behind, first, ignored;
    struct calls c = calls_between(r, t, own, 0, t->mcloop);
    if (!count_calls(calls_between(r, t, own, t->mcloop, t->szmcode), call, &nr, &behind) ||
        !count_calls(c, call, &first, &ignored) || nr != first)
        return false;
    struct call twin;
    while (next_call(&c, &twin)) {
        if (twin.what == call->what && nr-- == behind) {
            *call = twin;
            return true;
        }
    }
    return false;
}

/* ---- which snapshot -------------------------------------------------------------------------- */

uint64_t luajit_call_pc(struct luajit_reader *r, const struct luajit_function *f, uint64_t pc)
{
    enum { NEAR = 32 };
    enum provenance ignored = PROVENANCE_EXACT;
    for (uint64_t at = pc - 8; pc - at <= 4 * NEAR && at > f->code; at -= 4) {
        uint32_t instruction;
        if (!memory_read(r->m, at, &instruction, sizeof(instruction), &ignored))
            break;
        struct bc b = bc_decode(instruction, r->layout->bytecode);
        if (bc_calls(b.op))
            return at + 4;
    }
    return pc;
}

/* The snapshot behind the one that covers `call`; false: another call of C stands between. */
static bool snapshot_behind(struct luajit_reader *r, const struct luajit_trace *t, uint64_t own,
                            const struct call *call, uint32_t covering, uint32_t *ret)
{
    uint32_t start, end;
    struct call other;
    if (!luajit_snapshot_start(r, t, covering, &start) ||
        !luajit_snapshot_start(r, t, covering + 1, &end))
        return false;
    struct calls c = calls_between(r, t, own, start, end);
    while (next_call(&c, &other))
        if (!other.helper && other.offset != call->offset)
            return false;
    *ret = covering + 1;
    return !c.lost;
}

/* Is the call at `offset` the first call of C in the range? */
static bool is_first_from(struct calls c, uint32_t offset)
{
    struct call call;
    while (next_call(&c, &call))
        if (!call.helper)
            return call.offset == offset;
    return false;
}

bool luajit_call_is_first(struct luajit_reader *r, const struct luajit_trace *t, uint32_t offset,
                          uint64_t own)
{
    struct call call;
    bool in_loop = t->mcloop && offset > t->mcloop, found = false;
    struct calls c = calls_between(r, t, own, in_loop ? t->mcloop : 0, offset);
    if (!is_first_from(c, offset))
        return false;
    while (in_loop && !found && next_call(&c, &call))
        found = call.offset == offset;
    return !in_loop || (found && find_twin(r, t, own, &call) &&
                        is_first_from(calls_between(r, t, own, 0, t->mcloop), call.offset));
}

unsigned luajit_call_snapshots(struct luajit_reader *r, const struct luajit_trace *t,
                               uint32_t offset, uint32_t covering, uint64_t own,
                               uint32_t ret[CALL_SNAPSHOTS])
{
    struct call call;
    uint32_t start;
    unsigned nr = 0;
    bool guess;
    if (!t->has_mcofs || !luajit_snapshot_start(r, t, covering, &start) || start >= offset)
        return 0;
    struct calls c = calls_between(r, t, own, start, offset);
    bool found = false;
    while (next_call(&c, &call))
        found = call.offset == offset;
    if (!found)
        return 0;
    nr += snapshot_behind(r, t, own, &call, covering, &ret[nr]);
    if (t->mcloop && offset > t->mcloop && find_twin(r, t, own, &call) &&
        luajit_snapshot_at(r, 0, t, call.offset - 1, &covering, &guess))
        nr += snapshot_behind(r, t, own, &call, covering, &ret[nr]);
    return nr;
}
