/* SPDX-License-Identifier: GPL-2.0-only */
/* See compiler.h. All that is read is hostile: each prototype and each trace is checked as for a
 * walk, and a place that does not lie in a prototype's bytecode is no place. */
#include "unwind/luajit/compiler.h"
#include "base/vec.h"
#include "unwind/luajit/names_bytecode.h"
#include "unwind/luajit/names_proto.h"
#include "unwind/luajit/names_scan.h"
#include "unwind/luajit/trace.h"
#include "unwind/luajit/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PENALTIES = 64,
    STUB_GROUPS_BYTES = 16 * 8, /* J->exitstubgroup of x86-64, up to the penalties */
    PARAMS_20 = 14,             /* parameters of 2.0: it has no minstitch */
    PARAMS_21 = 15,
    PROTOS_MAX = 4096,
    FACTS_MAX = 1 << 14,
    ABORTS_MAX = 1024,
    HEADS_MAX = 4096,     /* places that such searches look at more closely */
    TRACES_MAX = 1 << 15, /* that are looked at in one reading; an exit counts for EXIT_COST */
    EXIT_COST = 4,
    SEARCHES_MAX = 64,      /* for unknown prototypes, in one reading */
    FLAG_NOJIT = 8,         /* GCproto.flags: jit.off(function) */
    FLAG_ILOOP = 0x10,      /* it has blocked instructions */
    JIT_ON = 1,             /* J->flags */
    BYTECODE_MAX = 1 << 18, /* bytes of a prototype that are searched for blocked instructions */
};

/* Offsets from J->L, in bytes: pointers of the jit_State have 8 bytes in both modes. */
enum {
    FROM_L_PC = 8,
    FROM_L_PT = 24,
    FROM_L_FLAGS = 40,
    FROM_L_STATE = 0x6c,
    FROM_L_STATE_20 = 0x5c
};

struct code_range {
    uint64_t start, end, proto;
};

/* The end of the last recording that was seen. */
struct last_recording {
    uint64_t start, pc;
    uint32_t value; /* of its penalty */
};

typedef VEC(struct luajit_fact) fact_list;

struct luajit_compiler {
    struct luajit_vm vm;
    VEC(struct code_range) codes; /* in order of `start` */
    fact_list facts, before, aborts;
    struct luajit_compiler_state state, state_before;
    struct last_recording last;
    int32_t linktype; /* offset in a GCtrace; 0: no trace has told it */
};

/* One reading. */
struct compiler_reading {
    struct luajit_compiler *c;
    const struct luajit_layout *l;
    struct luajit_reader r;
    struct luajit_inlined in;
    unsigned searches, heads, traces; /* that are left */
    uint8_t penalties[PENALTIES * 16];
    bool has_penalties, failed; /* failed: memory is out */
};

/* ---- reasons --------------------------------------------------------------------------------- */

const char *luajit_abort_text(uint8_t reason)
{
    static const char *const texts[LUAJIT_NR_ABORTS] = {
        [LUAJIT_ABORT_RECERR] = "error thrown or hook called during recording",
        [LUAJIT_ABORT_TRACEUV] = "trace too short",
        [LUAJIT_ABORT_TRACEOV] = "trace too long",
        [LUAJIT_ABORT_STACKOV] = "trace too deep",
        [LUAJIT_ABORT_SNAPOV] = "too many snapshots",
        [LUAJIT_ABORT_BLACKL] = "blacklisted",
        [LUAJIT_ABORT_RETRY] = "retry recording",
        [LUAJIT_ABORT_NYIBC] = "NYI: bytecode",
        [LUAJIT_ABORT_LLEAVE] = "leaving loop in root trace",
        [LUAJIT_ABORT_LINNER] = "inner loop in root trace",
        [LUAJIT_ABORT_LUNROLL] = "loop unroll limit reached",
        [LUAJIT_ABORT_BADTYPE] = "bad argument type",
        [LUAJIT_ABORT_CJITOFF] = "JIT compilation disabled for function",
        [LUAJIT_ABORT_CUNROLL] = "call unroll limit reached",
        [LUAJIT_ABORT_DOWNREC] = "down-recursion, restarting",
        [LUAJIT_ABORT_NYIFFU] = "NYI: unsupported variant of FastFunc",
        [LUAJIT_ABORT_NYIRETL] = "NYI: return to lower frame",
        [LUAJIT_ABORT_STORENN] = "store with nil or NaN key",
        [LUAJIT_ABORT_NOMM] = "missing metamethod",
        [LUAJIT_ABORT_IDXLOOP] = "looping index lookup",
        [LUAJIT_ABORT_NYITMIX] = "NYI: mixed sparse/dense table",
        [LUAJIT_ABORT_NOCACHE] = "symbol not in cache",
        [LUAJIT_ABORT_NYICONV] = "NYI: unsupported C type conversion",
        [LUAJIT_ABORT_NYICALL] = "NYI: unsupported C function type",
        [LUAJIT_ABORT_GFAIL] = "guard would always fail",
        [LUAJIT_ABORT_PHIOV] = "too many PHIs",
        [LUAJIT_ABORT_TYPEINS] = "persistent type instability",
        [LUAJIT_ABORT_MCODEAL] = "failed to allocate mcode memory",
        [LUAJIT_ABORT_MCODEOV] = "machine code too long",
        [LUAJIT_ABORT_MCODELM] = "hit mcode limit (retrying)",
        [LUAJIT_ABORT_SPILLOV] = "too many spill slots",
        [LUAJIT_ABORT_BADRA] = "inconsistent register allocation",
        [LUAJIT_ABORT_NYIIR] = "NYI: cannot assemble IR instruction",
        [LUAJIT_ABORT_NYIPHI] = "NYI: PHI shuffling too complex",
        [LUAJIT_ABORT_NYICOAL] = "NYI: register coalescing too complex",
        [LUAJIT_ABORT_NYICF] = "NYI: C function",
        [LUAJIT_ABORT_NYIFF] = "NYI: FastFunc",
    };
    return reason < LUAJIT_NR_ABORTS ? texts[reason] : "for a reason that is not known";
}

/* A reason in the numbers of this VM's version, as enum luajit_abort. */
static uint8_t reason_of(const struct luajit_layout *l, uint32_t number)
{
    static const uint8_t of_20[] = {
        LUAJIT_ABORT_RECERR,  LUAJIT_ABORT_TRACEOV, LUAJIT_ABORT_STACKOV, LUAJIT_ABORT_SNAPOV,
        LUAJIT_ABORT_BLACKL,  LUAJIT_ABORT_NYIBC,   LUAJIT_ABORT_LLEAVE,  LUAJIT_ABORT_LINNER,
        LUAJIT_ABORT_LUNROLL, LUAJIT_ABORT_BADTYPE, LUAJIT_ABORT_CJITOFF, LUAJIT_ABORT_CUNROLL,
        LUAJIT_ABORT_DOWNREC, LUAJIT_ABORT_NYICF,   LUAJIT_ABORT_NYIFF,
    };
    enum { NR = sizeof(of_20) / sizeof(*of_20) };
    uint32_t reason = number;
    if (l->bytecode == LUAJIT_BC_20) /* behind these, the lists are the same */
        reason = number < NR ? of_20[number] : number - NR + LUAJIT_ABORT_NYIFFU;
    bool known = reason <= LUAJIT_ABORT_NYICOAL ||
                 (l->bytecode == LUAJIT_BC_20 && number < NR && reason < LUAJIT_NR_ABORTS);
    return known ? (uint8_t)reason : LUAJIT_ABORT_UNKNOWN;
}

/* ---- the object ------------------------------------------------------------------------------ */

struct luajit_compiler *luajit_compiler_create(const struct luajit_vm *vm)
{
    const struct luajit_layout *l = vm->layout;
    if (l->trace == LUAJIT_UNKNOWN || l->J == LUAJIT_UNKNOWN || l->J_L == LUAJIT_UNKNOWN ||
        l->exitno == LUAJIT_UNKNOWN || l->exitstubgroup == LUAJIT_UNKNOWN)
        return NULL;
    struct luajit_compiler *c = calloc(1, sizeof(*c));
    if (c)
        c->vm = *vm;
    return c;
}

void luajit_compiler_free(struct luajit_compiler *c)
{
    if (!c)
        return;
    vec_free(&c->codes);
    vec_free(&c->facts);
    vec_free(&c->before);
    vec_free(&c->aborts);
    free(c);
}

const struct luajit_compiler_state *luajit_compiler_state(const struct luajit_compiler *c)
{
    return &c->state;
}

const struct luajit_fact *luajit_compiler_facts(const struct luajit_compiler *c, size_t *nr)
{
    *nr = c->facts.nr;
    return c->facts.at;
}

static void begin(struct compiler_reading *d, struct luajit_compiler *c, const struct memory *m)
{
    memset(&d->r, 0, sizeof(d->r));
    d->c = c;
    d->l = c->vm.layout;
    d->searches = SEARCHES_MAX;
    d->heads = HEADS_MAX;
    d->traces = TRACES_MAX;
    d->has_penalties = d->failed = false;
    luajit_reader_begin(&d->r, m);
    luajit_reader_use(&d->r, d->l);
}

static uint64_t field(const struct compiler_reading *d, int32_t offset)
{
    return d->c->vm.g + (uint64_t)offset;
}

static void add_fact(struct compiler_reading *d, const struct luajit_fact *f)
{
    if (d->c->facts.nr < FACTS_MAX && !vec_push(&d->c->facts, *f))
        d->failed = true;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Index of the first range that ends behind `pc`. */
static size_t range_at(const struct luajit_compiler *c, uint64_t pc)
{
    size_t from = 0, to = c->codes.nr;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (c->codes.at[middle].end > pc)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

static void forget_range(struct luajit_compiler *c, size_t at)
{
    c->codes.nr--;
    memmove(c->codes.at + at, c->codes.at + at + 1, (c->codes.nr - at) * sizeof(*c->codes.at));
}

/* Note a prototype with this bytecode, in place of all that lie in the same memory. */
static void note_range(struct luajit_compiler *c, const struct code_range *range)
{
    size_t at = range_at(c, range->start);
    while (at < c->codes.nr && c->codes.at[at].start < range->end)
        forget_range(c, at);
    if (c->codes.nr >= PROTOS_MAX || !vec_push(&c->codes, *range))
        return;
    memmove(c->codes.at + at + 1, c->codes.at + at, (c->codes.nr - 1 - at) * sizeof(*c->codes.at));
    c->codes.at[at] = *range;
}

void luajit_compiler_note(struct luajit_compiler *c, uint64_t proto)
{
    uint64_t start = proto + (uint64_t)c->vm.layout->proto_size;
    size_t at = range_at(c, start);
    if (at < c->codes.nr && c->codes.at[at].proto == proto)
        return;
    /* Its size is read with the rest. Until then it holds its first instruction. */
    const struct code_range range = {start, start + 4, proto};
    note_range(c, &range);
}

/* Whether the prototype's bytecode holds `pc`. If so, it is noted. */
static bool is_in(struct compiler_reading *d, uint64_t proto, uint64_t pc, uint32_t *position)
{
    uint64_t code;
    uint32_t size;
    if (!proto || !luajit_code_read(&d->r, proto, &code, &size) || pc % 4 || pc < code ||
        (pc - code) / 4 >= size)
        return false;
    *position = (uint32_t)((pc - code) / 4);
    const struct code_range range = {code, code + 4 * (uint64_t)size, proto};
    size_t at = range_at(d->c, code);
    if (at == d->c->codes.nr || d->c->codes.at[at].proto != proto ||
        d->c->codes.at[at].end != range.end)
        note_range(d->c, &range);
    return true;
}

/* Is this the first instruction of a Lua function? */
static bool is_function(const struct compiler_reading *d, uint32_t instruction)
{
    uint8_t op = bc_decode(instruction, d->l->bytecode).op;
    return op >= BC_FUNCF && op <= BC_JFUNCV;
}

/* Is this the head of a prototype whose bytecode holds `pc`? Its first instruction says that a
 * function begins. */
static bool is_head(struct compiler_reading *d, uint64_t proto, uint64_t pc, uint32_t *position)
{
    struct luajit_proto_head head;
    enum provenance ignored = PROVENANCE_EXACT;
    uint32_t first;
    if (!luajit_proto_head_read(d->r.m, d->l, proto, &head, &ignored) ||
        proto + (uint64_t)d->l->proto_size > pc ||
        (pc - proto - (uint64_t)d->l->proto_size) / 4 >= head.sizebc ||
        !luajit_read_u32(&d->r, proto + (uint64_t)d->l->proto_size, &first))
        return false;
    return is_function(d, first) && is_in(d, proto, pc, position);
}

/* Search the memory before `pc` for the head of its prototype. Returns 0 if there is none. */
static uint64_t search_head(struct compiler_reading *d, uint64_t pc, uint32_t *position)
{
    enum { CHUNK = 4096, MOST = 128 << 10, TYPE_MAX = 16 };
    uint8_t bytes[CHUNK + TYPE_MAX];
    uint64_t end = (pc - (uint64_t)d->l->proto_size) & ~(uint64_t)7;
    if (!d->searches || end < MOST || end > pc || d->l->gct >= TYPE_MAX)
        return 0;
    d->searches--;
    for (uint64_t at = end, least = end - MOST, start = 0; at >= least; at -= 8) {
        if (at == end || at < start) {
            start = at - CHUNK + 8;
            if (!luajit_read(&d->r, start, bytes, sizeof(bytes)))
                return 0;
        }
        if (bytes[at - start + (unsigned)d->l->gct] != LUAJIT_GCT_PROTO)
            continue;
        if (!d->heads)
            return 0;
        d->heads--;
        if (is_head(d, at, pc, position))
            return at;
    }
    return 0;
}

/* Find the prototype that has the instruction at `pc`. `hint`: one that may have it; 0: none.
 * Returns 0 if none is found. */
static uint64_t find_place(struct compiler_reading *d, uint64_t hint, uint64_t pc,
                           uint32_t *position)
{
    struct luajit_compiler *c = d->c;
    if (is_in(d, hint, pc, position))
        return hint;
    size_t at = range_at(c, pc);
    if (at < c->codes.nr && c->codes.at[at].start <= pc) {
        uint64_t proto = c->codes.at[at].proto;
        if (is_in(d, proto, pc, position))
            return proto;
        forget_range(c, at);
    }
    return search_head(d, pc, position);
}

/* The same, of an instruction at which root traces begin: a loop's or a function's. Any other means
 * that the prototype is another one, which got the memory of the one that was there. */
static uint64_t find_start(struct compiler_reading *d, uint64_t hint, uint64_t pc,
                           uint32_t *position)
{
    uint32_t instruction;
    uint64_t proto = find_place(d, hint, pc, position);
    if (!proto || !luajit_read_u32(&d->r, pc, &instruction))
        return 0;
    uint8_t op = bc_decode(instruction, d->l->bytecode).op;
    bool starts = (op >= BC_FORI && op <= BC_JLOOP) || (op >= BC_FUNCF && op <= BC_JFUNCV) ||
                  op == BC_ITERC || op == BC_ITERN;
    return starts ? proto : 0;
}

/* ---- the whole compiler ---------------------------------------------------------------------- */

static void read_parameters(struct compiler_reading *d)
{
    struct luajit_compiler_state *s = &d->c->state;
    bool is_20 = d->l->bytecode == LUAJIT_BC_20;
    unsigned nr = is_20 ? PARAMS_20 : PARAMS_21, hot = is_20 ? 5 : 6;
    uint32_t words[PARAMS_21 + 1];
    if (!luajit_read(&d->r, field(d, d->l->exitstubgroup) - sizeof(words), words, sizeof(words)))
        return;
    /* The pointers behind the parameters are aligned: the last word may be a gap. */
    const uint32_t *p = words + PARAMS_21 + 1 - nr - !words[PARAMS_21];
    bool sane = p[0] && p[0] < LUAJIT_TRACES_MAX && p[hot] && p[hot + 1] && p[nr - 2] &&
                p[nr - 2] <= p[nr - 1] && p[nr - 1] < 1 << 24;
    if (!sane)
        return;
    s->max_traces = p[0];
    s->hot_loop = p[hot];
    s->hot_exit = p[hot + 1];
    s->try_side = p[hot + 2];
    s->max_mcode_kib = p[nr - 1];
}

/* J->mcarea and the fields behind it. Since March 2021 J->exitcode stands before them. */
struct mcode_fields {
    uint64_t area, top, bottom, size, all, least, most;
};

static bool is_mcode(const struct mcode_fields *f)
{
    enum { PAGE = 4096 };
    return f->area && f->area % PAGE == 0 && f->size && f->size % PAGE == 0 && f->size < 1 << 26 &&
           f->top - f->area <= f->size && f->bottom - f->area <= f->size && f->all >= f->size;
}

/* Find where J->errinfo is; 0: no machine code was ever made. */
static uint64_t read_mcode(struct compiler_reading *d, struct mcode_fields *ret)
{
    enum { BEFORE_2103 = 0x14, SINCE_2103 = 0x1c, TO_RANGE = 0x28, TO_ERRINFO = 0x38 };
    uint64_t at = field(d, d->l->exitno) + SINCE_2103;
    if (!luajit_read(&d->r, at, ret, sizeof(*ret)) || !is_mcode(ret)) {
        at = field(d, d->l->exitno) + BEFORE_2103;
        if (!luajit_read(&d->r, at, ret, sizeof(*ret)) || !is_mcode(ret))
            return 0;
    }
    /* Since November 2025 the range of addresses for machine code stands before errinfo. */
    bool range = ret->least && ret->least <= ret->area && ret->area < ret->most &&
                 ret->most <= UINT64_C(1) << 47;
    return at + (range ? TO_ERRINFO : TO_RANGE);
}

static void read_state(struct compiler_reading *d)
{
    struct luajit_compiler_state *s = &d->c->state;
    struct mcode_fields mcode;
    uint32_t flags;
    *s = (struct luajit_compiler_state){.blob = d->c->vm.blob, .flushes = d->c->state.flushes};
    if (luajit_read_u32(&d->r, field(d, d->l->J_L) + FROM_L_FLAGS, &flags))
        s->on = flags & JIT_ON;
    read_parameters(d);
    if (read_mcode(d, &mcode))
        s->mcode_kib = (uint32_t)(mcode.all >> 10);
}

/* ---- penalties ------------------------------------------------------------------------------- */

struct penalty {
    uint64_t pc; /* 0: the slot is free */
    uint16_t value;
    uint8_t reason; /* enum luajit_abort */
};

static bool has_penalties(struct compiler_reading *d)
{
    size_t size = d->l->gc64 ? 16 : 8;
    if (!d->has_penalties)
        d->has_penalties = luajit_read(&d->r, field(d, d->l->exitstubgroup) + STUB_GROUPS_BYTES,
                                       d->penalties, PENALTIES * size);
    return d->has_penalties;
}

static struct penalty penalty_at(const struct compiler_reading *d, unsigned i)
{
    const uint8_t *at = d->penalties + (size_t)(d->l->gc64 ? 16 : 8) * i;
    const uint8_t *rest = at + d->l->ref_size;
    return (struct penalty){luajit_load_ref(d->l, at), load_u16(rest, false),
                            reason_of(d->l, load_u16(rest + 2, false))};
}

/* Get the penalty of an instruction; all 0 if it has none. */
static struct penalty penalty_of(struct compiler_reading *d, uint64_t pc)
{
    for (unsigned i = 0; has_penalties(d) && i < PENALTIES; i++) {
        struct penalty p = penalty_at(d, i);
        if (p.pc == pc)
            return p;
    }
    return (struct penalty){.reason = LUAJIT_ABORT_UNKNOWN};
}

static void read_penalties(struct compiler_reading *d)
{
    for (unsigned i = 0; has_penalties(d) && i < PENALTIES; i++) {
        struct penalty p = penalty_at(d, i);
        struct luajit_fact f = {.kind = LUAJIT_FACT_PENALTY, .what = p.reason, .count = p.value};
        f.proto = p.pc ? find_start(d, 0, p.pc, &f.position) : 0;
        if (f.proto)
            add_fact(d, &f);
    }
}

/* ---- the last recording ---------------------------------------------------------------------- */

/* Where GCtrace.linktype is: it moved when snapshots got 12 bytes (January 2019). */
static int32_t linktype_of(const struct luajit_layout *l, const struct luajit_trace *t)
{
    return t->snap_size == 12 ? l->trace_root + 8 : l->gct + 2;
}

/* A trace tells it: any of them. Without a trace, no recording has become one. */
static void learn_linktype(struct compiler_reading *d)
{
    enum { TRIED = 64 };
    struct luajit_trace t;
    uint32_t nr = 0;
    if (d->c->linktype)
        return;
    luajit_read_u32(&d->r, field(d, d->l->sizetrace), &nr);
    for (uint32_t i = 1; i < nr && i <= TRIED; i++) {
        if (!luajit_trace_read(&d->r, d->c->vm.g, i, &t))
            continue;
        d->c->linktype = linktype_of(d->l, &t);
        return;
    }
}

/* Decode J->errinfo: a function or a number. */
static void read_errinfo(struct compiler_reading *d, struct luajit_fact *f)
{
    enum { TAG_FUNCTION = ~8, OPS_MAX = 256 };
    struct mcode_fields ignored;
    uint64_t at = read_mcode(d, &ignored), word, function = 0;
    uint8_t head[0x30];
    double number;
    if (!at || !luajit_read_u64(&d->r, at, &word))
        return;
    if (d->l->gc64 ? (int64_t)word >> 47 == TAG_FUNCTION : (int32_t)(word >> 32) == TAG_FUNCTION)
        function = d->l->gc64 ? word & LUAJIT_REF_MASK : (uint32_t)word;
    memcpy(&number, &word, sizeof(number));
    if (!function) {
        if (!(number >= 0 && number < OPS_MAX))
            return;
        bool is_ir = f->what == LUAJIT_ABORT_NYIIR;
        f->names = is_ir ? LUAJIT_NAMES_IR : LUAJIT_NAMES_OPCODE;
        f->detail = is_ir ? (uint64_t)number : bc_decode((uint32_t)number, d->l->bytecode).op;
        return;
    }
    size_t size = (size_t)d->l->func_c + 8;
    if (size > sizeof(head) || !luajit_read(&d->r, function, head, size) ||
        head[d->l->gct] != LUAJIT_GCT_FUNC || !head[d->l->func_ffid])
        return;
    bool is_c = head[d->l->func_ffid] == 1;
    f->names = is_c ? LUAJIT_NAMES_C_FUNCTION : LUAJIT_NAMES_BUILTIN;
    f->detail = is_c ? load_u64(head + d->l->func_c, false) : head[d->l->func_ffid];
}

static bool names_something(uint8_t reason)
{
    return reason == LUAJIT_ABORT_NYIBC || reason == LUAJIT_ABORT_NYIFF ||
           reason == LUAJIT_ABORT_NYIFFU || reason == LUAJIT_ABORT_NYICF ||
           reason == LUAJIT_ABORT_NYIIR;
}

/* Keep the abort, unless a known one differs in its penalty only. Returns false if there are too
 * many. */
static bool keep_abort(struct luajit_compiler *c, const struct luajit_fact *f)
{
    vec_foreach (known, &c->aborts) {
        if (known->proto != f->proto || known->position != f->position ||
            known->other_proto != f->other_proto || known->other_position != f->other_position ||
            known->what != f->what || known->detail != f->detail || known->trace != f->trace)
            continue;
        known->count = f->count > known->count ? f->count : known->count;
        return true;
    }
    return c->aborts.nr < ABORTS_MAX && vec_push(&c->aborts, *f);
}

/* The words of the jit_State that tell how the last recording went. */
struct recording_words {
    uint64_t start, start_proto, pc, proto;
    uint16_t number, root;
    uint8_t link;
};

/* Returns false if a recording is under way, if there was none, or if it became a trace. */
static bool read_recording(struct compiler_reading *d, struct recording_words *ret)
{
    enum { J_MAX = 0x180, CUR_MAX = 0x78 };
    const struct luajit_layout *l = d->l;
    const int32_t to_L = l->J_L - l->J;
    const int32_t to_state =
        l->state != LUAJIT_UNKNOWN
            ? l->state - l->J
            : to_L + (l->bytecode == LUAJIT_BC_20 ? FROM_L_STATE_20 : FROM_L_STATE);
    uint8_t j[J_MAX];
    if (to_L < 0 || to_L + FROM_L_FLAGS > J_MAX || to_state < 0 || to_state + 4 > J_MAX ||
        l->trace_size > to_L || l->trace_size > CUR_MAX ||
        !luajit_read(&d->r, field(d, l->J), j, sizeof(j)) || load_u32(j + to_state, false))
        return false;
    *ret = (struct recording_words){.start = luajit_load_ref(l, j + l->trace_startpc),
                                    .start_proto = luajit_load_ref(l, j + l->trace_startpt),
                                    .pc = load_u64(j + to_L + FROM_L_PC, false),
                                    .proto = load_u64(j + to_L + FROM_L_PT, false),
                                    .number = load_u16(j + l->trace_traceno, false),
                                    .root = load_u16(j + l->trace_root, false),
                                    .link = d->c->linktype ? j[d->c->linktype] : 0};
    return ret->start && !ret->number && !ret->link;
}

/* Has the compiler refused to begin another recording since? It has noted its place, but no start:
 * in a function with jit.off(), or because there was no free number for a trace and all traces were
 * thrown away. */
static bool is_refused(struct compiler_reading *d, const struct recording_words *w, uint8_t reason)
{
    enum { TO_FREETRACE = 8 };
    uint8_t flags;
    uint32_t freetrace;
    return !luajit_read(&d->r, w->proto + (uint64_t)d->l->proto_flags, &flags, 1) ||
           (flags & FLAG_NOJIT && reason != LUAJIT_ABORT_CJITOFF) ||
           !luajit_read_u32(&d->r, field(d, d->l->trace) + TO_FREETRACE, &freetrace) || !freetrace;
}

/* Is it still the last recording? If not, its penalty may be one of a later recording. */
static bool is_still(struct compiler_reading *d, const struct recording_words *w)
{
    struct recording_words now;
    return read_recording(d, &now) && now.start == w->start && now.pc == w->pc &&
           now.proto == w->proto;
}

/* Is the VM still there? */
static bool is_alive(const struct luajit_compiler *c, const struct memory *m)
{
    enum provenance ignored = PROVENANCE_EXACT;
    return luajit_vm_check(m, &c->vm, &ignored);
}

bool luajit_compiler_poll(struct luajit_compiler *c, const struct memory *m)
{
    struct compiler_reading d;
    struct recording_words w;
    begin(&d, c, m);
    if (!is_alive(c, m))
        return false;
    learn_linktype(&d);
    if (!read_recording(&d, &w))
        return false;
    struct penalty p = penalty_of(&d, w.start);
    if (is_refused(&d, &w, p.reason) || !is_still(&d, &w))
        return false;
    if (c->last.start == w.start && c->last.pc == w.pc && c->last.value == p.value)
        return false;
    c->last = (struct last_recording){w.start, w.pc, p.value};
    /* Only root traces get a penalty. One that has none became a trace, or another side of one. */
    if (!w.root && !p.pc)
        return false;
    struct luajit_fact f = {.kind = LUAJIT_FACT_ABORT,
                            .what = w.root ? LUAJIT_ABORT_UNKNOWN : p.reason,
                            .trace = w.root,
                            .count = w.root ? 0 : p.value};
    f.proto = w.root ? find_place(&d, w.start_proto, w.start, &f.position)
                     : find_start(&d, w.start_proto, w.start, &f.position);
    f.other_proto = find_place(&d, w.proto, w.pc, &f.other_position);
    if (!w.root && names_something(f.what))
        read_errinfo(&d, &f);
    return f.proto && keep_abort(c, &f);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void read_exit(struct compiler_reading *d, const struct luajit_trace *t, uint32_t number,
                      uint8_t count)
{
    struct luajit_fact f = {
        .kind = LUAJIT_FACT_EXIT, .trace = t->number, .exit = (uint16_t)number, .count = count};
    if (!luajit_snapshot_frames(&d->r, t, number, &d->in))
        return;
    uint64_t pc = d->in.nr ? d->in.frames[0].pc : d->in.start_pc;
    uint64_t func = d->in.nr ? d->in.frames[0].func : d->in.start_func;
    uint64_t proto = func ? luajit_function_read(&d->r, func)->proto : t->startpt;
    if (pc >= 4) /* it is that of the next instruction */
        f.proto = find_place(d, proto, pc - 4, &f.position);
    if (f.proto)
        add_fact(d, &f);
}

/* Read the exits that were taken often, and have no side trace (their count would be 255). */
static void read_exits(struct compiler_reading *d, const struct luajit_trace *t)
{
    enum { SNAPSHOTS_MAX = 1024, DONE = 255, BYTES_MAX = 12 };
    uint8_t bytes[SNAPSHOTS_MAX * BYTES_MAX];
    const uint32_t at = t->snap_size == 8 ? 7 : t->has_mcofs ? 11 : 9;
    uint32_t hot = d->c->state.hot_exit;
    if (!hot || t->nsnap > SNAPSHOTS_MAX ||
        !luajit_read(&d->r, t->snap, bytes, (size_t)t->nsnap * t->snap_size))
        return;
    for (uint32_t i = 0; i < t->nsnap; i++) {
        uint8_t count = bytes[i * t->snap_size + at];
        if (count < hot || count == DONE)
            continue;
        if (d->traces < EXIT_COST)
            return;
        d->traces -= EXIT_COST;
        read_exit(d, t, i, count);
    }
}

/* Find the call that a stitched trace stops at: the innermost Lua function of its last snapshot
 * makes it. */
static void read_stitch(struct compiler_reading *d, const struct luajit_trace *t,
                        struct luajit_fact *f)
{
    if (!t->nsnap || !luajit_snapshot_frames(&d->r, t, t->nsnap - 1, &d->in))
        return;
    for (unsigned i = 0; i < d->in.nr && !f->other_proto; i++) {
        uint64_t func = d->in.frames[i].func, pc = d->in.frames[i].pc;
        uint64_t proto = func ? luajit_function_read(&d->r, func)->proto : 0;
        if (pc >= 4)
            f->other_proto = find_place(d, proto, pc - 4, &f->other_position);
    }
    if (!f->other_proto && d->in.start_pc >= 4)
        f->other_proto = find_place(d, t->startpt, d->in.start_pc - 4, &f->other_position);
}

static void read_trace(struct compiler_reading *d, uint32_t number)
{
    struct luajit_trace t;
    if (!luajit_trace_read(&d->r, d->c->vm.g, number, &t))
        return;
    d->c->linktype = linktype_of(d->l, &t);
    uint8_t ends = 0;
    struct luajit_fact f = {
        .kind = LUAJIT_FACT_TRACE, .trace = t.number, .count = t.szmcode, .detail = t.mcode};
    luajit_read(&d->r, t.address + (uint64_t)d->l->trace_link, &f.link, sizeof(f.link));
    luajit_read(&d->r, t.address + (uint64_t)d->c->linktype, &ends, 1);
    luajit_trace_parent(&d->r, &t, &f.parent, &f.exit);
    f.what = ends < LUAJIT_NR_ENDS ? ends : LUAJIT_ENDS_UNKNOWN;
    f.proto = find_place(d, t.startpt, t.startpc, &f.position);
    if (f.what == LUAJIT_ENDS_IN_STITCH)
        read_stitch(d, &t, &f);
    d->c->state.traces++;
    add_fact(d, &f);
    read_exits(d, &t);
}

static const struct luajit_fact *next_trace(const fact_list *list, size_t *at)
{
    while (*at < list->nr && list->at[*at].kind != LUAJIT_FACT_TRACE)
        ++*at;
    return *at < list->nr ? &list->at[(*at)++] : NULL;
}

/* How many traces of the reading before are still there. Both lists are in order of numbers. */
static uint32_t count_kept(const struct luajit_compiler *c)
{
    size_t at_old = 0, at_new = 0;
    const struct luajit_fact *old = next_trace(&c->before, &at_old),
                             *new = next_trace(&c->facts, &at_new);
    uint32_t kept = 0;
    while (old && new) {
        kept += old->trace == new->trace && old->proto == new->proto &&
                old->position == new->position && old->count == new->count;
        bool later = old->trace > new->trace;
        if (!later)
            old = next_trace(&c->before, &at_old);
        else
            new = next_trace(&c->facts, &at_new);
    }
    return kept;
}

static void read_traces(struct compiler_reading *d)
{
    uint32_t nr = 0;
    luajit_read_u32(&d->r, field(d, d->l->sizetrace), &nr);
    for (uint32_t i = 1; i < nr && d->traces; i++) {
        d->traces--;
        read_trace(d, i);
    }
    d->c->state.flushes += 2 * count_kept(d->c) < d->c->state_before.traces;
}

/* ---- blocked instructions -------------------------------------------------------------------- */

static bool is_blocked(uint8_t op)
{
    return op == BC_IFORL || op == BC_IITERL || op == BC_ILOOP || op == BC_IFUNCF ||
           op == BC_IFUNCV;
}

/* Returns false if the memory does not hold a prototype any more. */
static bool read_blocked(struct compiler_reading *d, uint64_t proto)
{
    uint64_t code;
    uint32_t size, first;
    uint8_t flags;
    if (!luajit_code_read(&d->r, proto, &code, &size) ||
        !luajit_read(&d->r, proto + (uint64_t)d->l->proto_flags, &flags, 1) ||
        !luajit_read_u32(&d->r, code, &first) || !is_function(d, first))
        return false;
    struct luajit_fact f = {.kind = LUAJIT_FACT_BLOCKED, .proto = proto, .what = BC_NONE};
    if (flags & FLAG_NOJIT)
        add_fact(d, &f);
    if (!(flags & FLAG_ILOOP) || size > BYTECODE_MAX / 4)
        return true;
    uint32_t *words = malloc(4 * (size_t)size);
    bool got = words && luajit_read(&d->r, code, words, 4 * (size_t)size);
    for (uint32_t i = 0; got && i < size; i++) {
        f.what = bc_decode(words[i], d->l->bytecode).op;
        f.position = i;
        if (is_blocked(f.what))
            add_fact(d, &f);
    }
    d->failed |= !words;
    free(words);
    return true;
}

static void read_all_blocked(struct compiler_reading *d)
{
    for (size_t i = 0; i < d->c->codes.nr;) {
        if (read_blocked(d, d->c->codes.at[i].proto))
            i++;
        else
            forget_range(d->c, i);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is_changed(const struct luajit_compiler *c)
{
    return memcmp(&c->state, &c->state_before, sizeof(c->state)) || c->facts.nr != c->before.nr ||
           (c->facts.nr && memcmp(c->facts.at, c->before.at, c->facts.nr * sizeof(*c->facts.at)));
}

static void keep_before(struct luajit_compiler *c)
{
    fact_list spare = c->before;
    c->before = c->facts;
    c->facts = spare;
    c->facts.nr = 0;
    c->state_before = c->state;
}

int luajit_compiler_read(struct luajit_compiler *c, const struct memory *m, struct error *err)
{
    struct compiler_reading d;
    if (!is_alive(c, m))
        return 0;
    begin(&d, c, m);
    keep_before(c);
    read_state(&d);
    read_traces(&d);
    (void)luajit_compiler_poll(c, m);
    read_penalties(&d);
    read_all_blocked(&d);
    vec_foreach (abort, &c->aborts)
        add_fact(&d, abort);
    c->state.nr_facts = (uint32_t)c->facts.nr;
    return d.failed ? error_no_memory(err) : is_changed(c);
}

bool luajit_called(const struct memory *m, const struct luajit_layout *l, uint64_t proto,
                   uint32_t position, char *name, size_t size)
{
    struct luajit_proto p;
    char buffer[PROTO_NAME_MAX];
    if (!luajit_proto_read(m, l, proto, &p))
        return false;
    bool found = luajit_call_name(&p, m, position, buffer) != LUAJIT_NAME_NONE;
    luajit_proto_free(&p);
    if (found)
        snprintf(name, size, "%s", buffer);
    return found;
}
