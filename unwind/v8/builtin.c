/* SPDX-License-Identifier: GPL-2.0-only */
/* Follows rsp, rbp and the return address through machine code. */
#include "unwind/v8/builtin.h"

#include "base/hash.h"
#include "base/vec.h"
#include "unwind/insn_x86_64.h"
#include "unwind/unwind.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct v8_states {
    size_t size;
    struct v8_state at[]; /* by offset in the code */
};

struct follow {
    const uint8_t *code;
    struct v8_states *states;
    VEC(uint32_t) todo;
    size_t framing_call; /* offset of the call that makes the frame of this code; SIZE_MAX: none */
    bool failed;
};

/* Converts a register number of an instruction to DWARF. rsp and rbp hold no return address. */
static uint8_t dwarf_register(uint8_t reg)
{
    static const uint8_t low[] = {0, 2, 1, 3, V8_RETURN_ON_STACK, V8_RETURN_ON_STACK, 4, 5};
    if (reg == INSN_NO_REGISTER)
        return V8_RETURN_ON_STACK;
    return reg < sizeof(low) ? low[reg] : reg;
}

/* Is the return address kept in a register, while arguments are put where it stood, or taken from
 * there? Then the values pushed next belong to the caller. */
static bool is_in_register(const struct v8_state *s)
{
    return s->kind == V8_STATE_RSP && s->return_register != V8_RETURN_ON_STACK;
}

static struct v8_state moved(struct v8_state s, int64_t by)
{
    if (is_in_register(&s))
        return s;
    if (s.kind == V8_STATE_RSP || s.kind == V8_STATE_PUSHED) {
        int64_t to = s.offset + by;
        if (to < -64 || to > INT16_MAX)
            s.kind = V8_STATE_UNKNOWN;
        else
            s.offset = (int16_t)to;
    }
    return s;
}

static struct v8_state after_push(const struct insn *i, struct v8_state s)
{
    if (i->from == INSN_RBP && s.kind == V8_STATE_RSP && s.offset == 8 &&
        s.return_register == V8_RETURN_ON_STACK)
        s.kind = V8_STATE_PUSHED;
    else if (is_in_register(&s) && dwarf_register(i->from) == s.return_register)
        s.return_register = V8_RETURN_ON_STACK;
    return moved(s, 8);
}

static struct v8_state after_pop(const struct insn *i, struct v8_state s)
{
    if (i->to == INSN_RBP) {
        if (s.kind == V8_STATE_FRAMED) /* after "mov rsp, rbp" */
            return (struct v8_state){8, V8_STATE_RSP, V8_RETURN_ON_STACK, s.doubtful};
        if (s.kind == V8_STATE_PUSHED && s.offset == 16)
            s.kind = V8_STATE_RSP;
        return moved(s, -8);
    }
    if (s.kind == V8_STATE_RSP && s.offset == 8 && s.return_register == V8_RETURN_ON_STACK &&
        i->to != INSN_NO_REGISTER) {
        s.return_register = dwarf_register(i->to);
        s.offset = 0;
        return s;
    }
    return moved(s, -8);
}

/* State after "mov rbp, [rbp]", which takes the frame down for a tail call. The correction of rsp
 * that follows shows how far up the return address is. */
static struct v8_state after_teardown(const uint8_t *next, size_t left, struct v8_state s)
{
    struct v8_state none = {0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
    if (left < 7 || next[0] != 0x48)
        return none;
    bool sub = next[2] == 0xec;
    int32_t imm;
    if (next[1] == 0x83 && (sub || next[2] == 0xc4)) {
        imm = (int8_t)next[3];
    } else if (next[1] == 0x81 && (sub || next[2] == 0xc4)) {
        memcpy(&imm, next + 3, 4);
    } else {
        return none;
    }
    s.kind = V8_STATE_RSP;
    s.return_register = V8_RETURN_ON_STACK;
    s.offset = 0;
    return moved(s, 8 + (sub ? -(int64_t)imm : (int64_t)imm));
}

/* State after "mov rbp, ...". */
static struct v8_state after_frame_set(const struct follow *f, const struct insn *i, size_t next,
                                       struct v8_state s)
{
    if (i->from == INSN_RSP && s.kind == V8_STATE_PUSHED && s.offset == 16)
        s.kind = V8_STATE_FRAMED;
    else if (i->base == INSN_RBP && i->value == 0)
        return after_teardown(f->code + next, f->states->size - next, s);
    else
        s.kind = V8_STATE_UNKNOWN;
    return s;
}

static struct v8_state after(const struct follow *f, const struct insn *i, size_t next,
                             struct v8_state s)
{
    switch (i->op) {
    case INSN_PUSH:
        return after_push(i, s);
    case INSN_POP:
        return after_pop(i, s);
    case INSN_PUSHF:
        return moved(s, 8);
    case INSN_POPF:
        return moved(s, -8);
    case INSN_LEAVE:
        return (struct v8_state){8, V8_STATE_RSP, V8_RETURN_ON_STACK, s.doubtful};
    case INSN_SUB:
    case INSN_ADD:
        if (i->to != INSN_RSP)
            return s;
        if (i->immediate)
            return moved(s, i->op == INSN_SUB ? i->value : -(int64_t)i->value);
        break;
    case INSN_LEA:
        if (i->to != INSN_RSP)
            return s;
        if (i->base == INSN_RSP)
            return moved(s, -(int64_t)i->value);
        break;
    case INSN_MOV:
        if (i->to == INSN_RBP)
            return after_frame_set(f, i, next, s);
        if (i->to != INSN_RSP || i->from == INSN_RBP)
            return s;
        break;
    default:
        return s;
    }
    if (s.kind != V8_STATE_FRAMED && !is_in_register(&s)) /* rsp gets a value from elsewhere */
        s.kind = V8_STATE_UNKNOWN;
    return s;
}

static bool same(const struct v8_state *a, const struct v8_state *b)
{
    return a->kind == b->kind && a->return_register == b->return_register &&
           (a->kind == V8_STATE_FRAMED || a->offset == b->offset);
}

/* A path leads to `offset` with state `s`. The first state that reaches an offset is kept. */
static void reach(struct follow *f, uint64_t offset, struct v8_state s)
{
    if (offset >= f->states->size || s.kind == V8_STATE_UNKNOWN)
        return;
    struct v8_state *at = &f->states->at[offset];
    if (at->kind != V8_STATE_UNKNOWN) {
        at->doubtful |= !same(at, &s);
        return;
    }
    *at = s;
    if (!vec_push(&f->todo, (uint32_t)offset))
        f->failed = true;
}

bool v8_code_is_liftoff(const uint8_t *code)
{
    static const uint8_t first[] = {0x45, 0x33, 0xe4, 0xe8}; /* xor r12d, r12d; call */
    return !memcmp(code, first, sizeof(first)) ||
           (code[0] == 0x41 && code[1] == 0xbc && code[6] == 0xe8);
}

size_t v8_code_liftoff_begun(const uint8_t *code)
{
    enum { XOR = 3, MOV = 6, CALL = 5 };
    if (!v8_code_is_liftoff(code))
        return 0;
    return (code[0] == 0x45 ? XOR : MOV) + CALL;
}

/* Returns the offset of the call by which Liftoff's code has its frame made; SIZE_MAX: other
 * code. */
static size_t liftoff_call(const uint8_t *code, size_t size)
{
    if (size < V8_BYTES_LIFTOFF || !v8_code_is_liftoff(code))
        return SIZE_MAX;
    return code[0] == 0x45 ? 3 : 6;
}

/* Follows one instruction to the places that it leads to. */
static void follow_one(struct follow *f, size_t at)
{
    const struct v8_state s = f->states->at[at];
    struct insn i;
    if (!insn_decode(f->code + at, f->states->size - at, &i) || i.op == INSN_RET ||
        i.op == INSN_TRAP)
        return;
    size_t next = at + i.size;
    if (at == f->framing_call) {
        reach(f, next, (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, false});
        return;
    }
    if ((i.op == INSN_JMP || i.op == INSN_JCC) && i.immediate)
        reach(f, next + (uint64_t)(int64_t)i.value, s);
    if (i.op != INSN_JMP)
        reach(f, next, after(f, &i, next, s));
}

static struct v8_states *follow_all(const uint8_t *code, size_t size, struct v8_state start,
                                    size_t framing_call)
{
    struct follow f = {.code = code, .framing_call = framing_call};
    f.states = calloc(1, sizeof(*f.states) + size * sizeof(f.states->at[0]));
    if (!f.states)
        return NULL;
    f.states->size = size;
    reach(&f, 0, start);
    while (f.todo.nr && !f.failed)
        follow_one(&f, f.todo.at[--f.todo.nr]);
    vec_free(&f.todo);
    return f.states;
}

static const struct v8_state frameless = {8, V8_STATE_RSP, V8_RETURN_ON_STACK, false};

struct v8_state v8_builtin_state(const struct v8_layout *l, struct v8_builtin *b, uint64_t vaddr)
{
    struct v8_state start = frameless;
    struct v8_states *s = atomic_load_explicit(&b->states, memory_order_acquire);
    if (b->class == V8_BUILTIN_LEAVE)
        start.kind = V8_STATE_FRAMED;
    if (!s) {
        struct v8_states *none = NULL;
        s = follow_all(l->code + (b->start - l->blob), b->size, start, SIZE_MAX);
        if (s && !atomic_compare_exchange_strong(&b->states, &none, s)) {
            free(s);
            s = none;
        }
    }
    if (!s || vaddr - b->start >= s->size)
        return (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
    return s->at[vaddr - b->start];
}

struct v8_state v8_code_state(const uint8_t *code, size_t size, size_t at)
{
    struct v8_state got = {0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
    struct v8_states *s =
        at < size ? follow_all(code, size, frameless, liftoff_call(code, size)) : NULL;
    if (s && at < s->size)
        got = s->at[at];
    free(s);
    return got;
}

/* May these bytes, `left` of them, begin an instruction that takes a frame down? "leave", "pop rbp"
 * before a return, "mov rsp, rbp", "mov rbp, [...]". */
static bool may_take_down(const uint8_t *code, size_t left)
{
    if (code[0] == 0xc9 || (code[0] == 0x5d && (left < 2 || code[1] == 0xc3 || code[1] == 0xc2)))
        return true;
    if (left < 3 || code[0] != 0x48)
        return false;
    bool copies = (code[1] == 0x8b && code[2] == 0xe5) || (code[1] == 0x89 && code[2] == 0xec);
    bool loads = code[1] == 0x8b && (code[2] == 0x6d || code[2] == 0x2c);
    return copies || loads;
}

bool v8_code_has_frame(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
                       size_t nr_before)
{
    static const uint8_t prologue[] = {0x55, 0x48, 0x89, 0xe5}; /* push rbp; mov rbp, rsp */
    size_t begin = 0;
    while (begin + sizeof(prologue) <= size &&
           memcmp(code + begin, prologue, sizeof(prologue)) != 0)
        begin++;
    begin += sizeof(prologue);
    if (begin > size || at < begin)
        return false;
    size_t nr = at - begin < nr_before ? at - begin : nr_before;
    for (const uint8_t *p = before + (nr_before - nr); p < before + nr_before; p++) {
        if (may_take_down(p, (size_t)(before + nr_before - p)))
            return false;
    }
    return true;
}

void v8_states_free(struct v8_states *s)
{
    free(s);
}

/* ---- cache of followed code ---------------------------------------------------------------- */

enum { PLACES = 1024, KNOWN_MAX = 2 << 20 }; /* KNOWN_MAX: bytes of code; each byte needs a state */

struct v8_code_states {
    size_t bytes;
    struct {
        uint64_t hash;
        struct v8_states *states; /* NULL: free */
    } place[PLACES];
};

struct v8_code_states *v8_code_states_create(void)
{
    return calloc(1, sizeof(struct v8_code_states));
}

static void forget_states(struct v8_code_states *c)
{
    for (size_t i = 0; i < PLACES; i++) {
        free(c->place[i].states);
        c->place[i].states = NULL;
    }
    c->bytes = 0;
}

void v8_code_states_free(struct v8_code_states *c)
{
    if (!c)
        return;
    forget_states(c);
    free(c);
}

struct v8_state v8_code_states_get(struct v8_code_states *c, const uint8_t *code, size_t size,
                                   size_t at)
{
    uint64_t hash = hash_bytes(code, size);
    size_t place = hash % PLACES;
    struct v8_states *s = c->place[place].states;
    if (!s || c->place[place].hash != hash || s->size != size) {
        if (c->bytes + size > KNOWN_MAX)
            forget_states(c);
        s = follow_all(code, size, frameless, liftoff_call(code, size));
        if (!s)
            return (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
        free(c->place[place].states);
        c->place[place].states = s;
        c->place[place].hash = hash;
        c->bytes += size;
    }
    return at < s->size ? s->at[at]
                        : (struct v8_state){0, V8_STATE_UNKNOWN, V8_RETURN_ON_STACK, false};
}
