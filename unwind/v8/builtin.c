/* SPDX-License-Identifier: GPL-2.0-only */
/* Following rsp, rbp and the return address through machine code. */
#include "unwind/v8/builtin.h"

#include "base/hash.h"
#include "base/vec.h"
#include "unwind/unwind.h"

#include <capstone/capstone.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct v8_states {
    size_t size;
    struct v8_state at[]; /* by offset */
};

struct follow {
    csh cs;
    cs_insn *insn;
    const uint8_t *code;
    struct v8_states *states;
    VEC(uint32_t) todo;
    size_t framing_call; /* offset of a call that makes the caller's frame; SIZE_MAX: none */
    bool failed;
};

static uint8_t dwarf_register(unsigned reg)
{
    switch (reg) {
    case X86_REG_RAX:
        return 0;
    case X86_REG_RDX:
        return 1;
    case X86_REG_RCX:
        return 2;
    case X86_REG_RBX:
        return 3;
    case X86_REG_RSI:
        return 4;
    case X86_REG_RDI:
        return 5;
    case X86_REG_R8:
    case X86_REG_R9:
    case X86_REG_R10:
    case X86_REG_R11:
    case X86_REG_R12:
    case X86_REG_R13:
    case X86_REG_R14:
    case X86_REG_R15:
        return (uint8_t)(8 + (reg - X86_REG_R8));
    default:
        return V8_RETURN_ON_STACK;
    }
}

static bool is_reg(const cs_x86 *x, unsigned i, unsigned reg)
{
    return i < x->op_count && x->operands[i].type == X86_OP_REG && x->operands[i].reg == reg;
}

static bool is_mem(const cs_x86 *x, unsigned i, unsigned base, int64_t *disp)
{
    if (i >= x->op_count || x->operands[i].type != X86_OP_MEM || x->operands[i].mem.base != base ||
        x->operands[i].mem.index != X86_REG_INVALID)
        return false;
    *disp = x->operands[i].mem.disp;
    return true;
}

/* A return address that waits in a register, while arguments are put where it stood, or taken from
 * there: what is pushed next is the caller's. */
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

static struct v8_state after_push(const cs_x86 *x, struct v8_state s)
{
    if (is_reg(x, 0, X86_REG_RBP) && s.kind == V8_STATE_RSP && s.offset == 8 &&
        s.return_register == V8_RETURN_ON_STACK) {
        s.kind = V8_STATE_PUSHED;
    } else if (is_in_register(&s) && x->operands[0].type == X86_OP_REG &&
               dwarf_register(x->operands[0].reg) == s.return_register) {
        s.return_register = V8_RETURN_ON_STACK;
    }
    return moved(s, 8);
}

static struct v8_state after_pop(const cs_x86 *x, struct v8_state s)
{
    if (is_reg(x, 0, X86_REG_RBP)) {
        if (s.kind == V8_STATE_FRAMED) /* behind "mov rsp, rbp" */
            return (struct v8_state){8, V8_STATE_RSP, V8_RETURN_ON_STACK, s.doubtful};
        if (s.kind == V8_STATE_PUSHED && s.offset == 16)
            s.kind = V8_STATE_RSP;
        return moved(s, -8);
    }
    if (s.kind == V8_STATE_RSP && s.offset == 8 && s.return_register == V8_RETURN_ON_STACK &&
        x->operands[0].type == X86_OP_REG) {
        s.return_register = dwarf_register(x->operands[0].reg);
        s.offset = 0;
        return s;
    }
    return moved(s, -8);
}

/* "mov rbp, [rbp]": the frame is torn down for a tail call; the correction of rsp that follows
 * tells how far up the return address is. */
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

static struct v8_state after(const struct follow *f, size_t next, struct v8_state s)
{
    const cs_x86 *x = &f->insn->detail->x86;
    int64_t disp;
    switch (f->insn->id) {
    case X86_INS_PUSH:
        return after_push(x, s);
    case X86_INS_POP:
        return after_pop(x, s);
    case X86_INS_PUSHFQ:
        return moved(s, 8);
    case X86_INS_POPFQ:
        return moved(s, -8);
    case X86_INS_LEAVE:
        return (struct v8_state){8, V8_STATE_RSP, V8_RETURN_ON_STACK, s.doubtful};
    case X86_INS_SUB:
    case X86_INS_ADD:
        if (!is_reg(x, 0, X86_REG_RSP))
            return s;
        if (x->operands[1].type == X86_OP_IMM)
            return moved(s, f->insn->id == X86_INS_SUB ? x->operands[1].imm : -x->operands[1].imm);
        break;
    case X86_INS_LEA:
        if (!is_reg(x, 0, X86_REG_RSP))
            return s;
        if (is_mem(x, 1, X86_REG_RSP, &disp))
            return moved(s, -disp);
        break;
    case X86_INS_MOV:
        if (is_reg(x, 0, X86_REG_RBP)) {
            if (is_reg(x, 1, X86_REG_RSP) && s.kind == V8_STATE_PUSHED && s.offset == 16)
                s.kind = V8_STATE_FRAMED;
            else if (is_mem(x, 1, X86_REG_RBP, &disp) && disp == 0)
                s = after_teardown(f->code + next, f->states->size - next, s);
            else
                s.kind = V8_STATE_UNKNOWN;
            return s;
        }
        if (!is_reg(x, 0, X86_REG_RSP) || is_reg(x, 1, X86_REG_RBP))
            return s;
        break;
    default:
        return s;
    }
    if (s.kind != V8_STATE_FRAMED && !is_in_register(&s)) /* rsp from elsewhere */
        s.kind = V8_STATE_UNKNOWN;
    return s;
}

static bool same(const struct v8_state *a, const struct v8_state *b)
{
    return a->kind == b->kind && a->return_register == b->return_register &&
           (a->kind == V8_STATE_FRAMED || a->offset == b->offset);
}

/* A way leads to `offset` in state `s`: the first that comes is kept. */
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

static bool decode(struct follow *f, size_t at)
{
    const uint8_t *code = f->code + at;
    size_t left = f->states->size - at;
    uint64_t address = at;
    return cs_disasm_iter(f->cs, &code, &left, &address, f->insn);
}

bool v8_code_is_liftoff(const uint8_t *code)
{
    static const uint8_t first[] = {0x45, 0x33, 0xe4, 0xe8}; /* xor r12d, r12d; call */
    return !memcmp(code, first, sizeof(first)) ||
           (code[0] == 0x41 && code[1] == 0xbc && code[6] == 0xe8);
}

/* Offset of the call by which Liftoff's code has its frame made; SIZE_MAX: other code. */
static size_t liftoff_call(const uint8_t *code, size_t size)
{
    if (size < V8_BYTES_LIFTOFF || !v8_code_is_liftoff(code))
        return SIZE_MAX;
    return code[0] == 0x45 ? 3 : 6;
}

/* One instruction; where it leads. */
static void follow_one(struct follow *f, size_t at)
{
    const struct v8_state s = f->states->at[at];
    if (!decode(f, at))
        return;
    const cs_x86 *x = &f->insn->detail->x86;
    if (at == f->framing_call) {
        reach(f, at + f->insn->size,
              (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, false});
        return;
    }
    size_t next = at + f->insn->size;
    bool jump = false, falls = true;
    for (unsigned i = 0; i < f->insn->detail->groups_count; i++)
        jump |= f->insn->detail->groups[i] == CS_GRP_JUMP;
    switch (f->insn->id) {
    case X86_INS_RET:
    case X86_INS_INT3:
    case X86_INS_UD2:
    case X86_INS_HLT:
        return;
    case X86_INS_JMP:
        falls = false;
        break;
    default:
        break;
    }
    if (jump && x->operands[0].type == X86_OP_IMM)
        reach(f, (uint64_t)x->operands[0].imm, s);
    if (falls)
        reach(f, next, after(f, next, s));
}

static struct v8_states *follow_all(const uint8_t *code, size_t size, struct v8_state start,
                                    size_t framing_call)
{
    struct follow f = {.code = code, .framing_call = framing_call};
    f.states = calloc(1, sizeof(*f.states) + size * sizeof(f.states->at[0]));
    if (!f.states || cs_open(CS_ARCH_X86, CS_MODE_64, &f.cs) != CS_ERR_OK)
        return f.states;
    f.states->size = size;
    cs_option(f.cs, CS_OPT_DETAIL, CS_OPT_ON);
    f.insn = cs_malloc(f.cs);
    if (f.insn)
        reach(&f, 0, start);
    while (f.todo.nr && !f.failed)
        follow_one(&f, f.todo.at[--f.todo.nr]);
    vec_free(&f.todo);
    if (f.insn)
        cs_free(f.insn, 1);
    cs_close(&f.cs);
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

/* May these bytes, the last ones of `left`, begin an instruction that takes a frame down? "leave",
 * "pop rbp" before a return, "mov rsp, rbp", "mov rbp, [...]". */
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

/* ---- code that was followed ---------------------------------------------------------------- */

enum { PLACES = 1024, KNOWN_MAX = 2 << 20 }; /* bytes of code, each of which takes a state */

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
