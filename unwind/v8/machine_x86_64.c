/* SPDX-License-Identifier: GPL-2.0-only */
/* What V8's code shows on x86-64: how it makes and takes down frames. */
#include "unwind/v8/machine.h"

#include "base/cursor.h"
#include "unwind/arch_x86_64.h"
#include "unwind/insn_x86_64.h"
#include "unwind/runtime.h"
#include "unwind/v8/builtin_internal.h"
#include "unwind/v8/object.h"

#include <string.h>

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
    return s->kind == V8_STATE_SP && s->return_register != V8_RETURN_ON_STACK;
}

static struct v8_state moved(struct v8_state s, int64_t by)
{
    if (is_in_register(&s))
        return s;
    if (s.kind == V8_STATE_SP || s.kind == V8_STATE_PUSHED) {
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
    if (i->from == INSN_RBP && s.kind == V8_STATE_SP && s.offset == 8 &&
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
            return (struct v8_state){8, V8_STATE_SP, V8_RETURN_ON_STACK, s.doubtful};
        if (s.kind == V8_STATE_PUSHED && s.offset == 16)
            s.kind = V8_STATE_SP;
        return moved(s, -8);
    }
    if (s.kind == V8_STATE_SP && s.offset == 8 && s.return_register == V8_RETURN_ON_STACK &&
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
    s.kind = V8_STATE_SP;
    s.return_register = V8_RETURN_ON_STACK;
    s.offset = 0;
    return moved(s, 8 + (sub ? -(int64_t)imm : (int64_t)imm));
}

/* State after "mov rbp, ...". */
static struct v8_state after_frame_set(const struct v8_follow *f, const struct insn *i, size_t next,
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

static struct v8_state after(const struct v8_follow *f, const struct insn *i, size_t next,
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
        return (struct v8_state){8, V8_STATE_SP, V8_RETURN_ON_STACK, s.doubtful};
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

/* Follows one instruction to the places that it leads to. */
static void follow(struct v8_follow *f, size_t at)
{
    const struct v8_state s = f->states->at[at];
    struct insn i;
    if (!insn_decode(f->code + at, f->states->size - at, &i) || i.op == INSN_RET ||
        i.op == INSN_TRAP)
        return;
    size_t next = at + i.size;
    if (next == f->framed) {
        v8_follow_reach(f, next, (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, false});
        return;
    }
    if ((i.op == INSN_JMP || i.op == INSN_JCC) && i.immediate)
        v8_follow_reach(f, next + (uint64_t)(int64_t)i.value, s);
    if (i.op != INSN_JMP)
        v8_follow_reach(f, next, after(f, &i, next, s));
}

/* ---- other code ----------------------------------------------------------------------------- */

/* Liftoff's first call is to the builtin that makes its frame, with the function's number in r12
 * ("mov r12d, number"). */
static bool is_liftoff(const uint8_t *code)
{
    static const uint8_t first[] = {0x45, 0x33, 0xe4, 0xe8}; /* xor r12d, r12d; call */
    return !memcmp(code, first, sizeof(first)) ||
           (code[0] == 0x41 && code[1] == 0xbc && code[6] == 0xe8);
}

static size_t liftoff_begun(const uint8_t *code)
{
    enum { XOR = 3, MOV = 6, CALL = 5 };
    if (!is_liftoff(code))
        return 0;
    return (code[0] == 0x45 ? XOR : MOV) + CALL;
}

/* The state of baseline code. The first builtin that it calls, behind the load of its BytecodeArray
 * into r12, makes its frame. */
static struct v8_state baseline_state(const uint8_t *code, size_t size, size_t at)
{
    enum { HEAD = 64, LOAD = 10 };
    struct v8_state s = {8, V8_STATE_SP, V8_RETURN_ON_STACK, false};
    for (size_t i = 0; i < HEAD && i + LOAD + 7 <= size; i++) {
        if (code[i] != 0x49 || code[i + 1] != 0xbc)
            continue;
        const uint8_t *call = code + i + LOAD;
        size_t length = call[0] == 0xe8 ? 5 : call[0] == 0x41 && call[1] == 0xff ? 7 : 0;
        if (length && at >= i + LOAD + length)
            s.kind = V8_STATE_FRAMED;
        s.doubtful = !length;
        return s;
    }
    s.kind = V8_STATE_FRAMED;
    s.doubtful = true;
    return s;
}

/* Returns the type of the frame that code makes for itself, from its first bytes: "push rbp; mov
 * rbp, rsp; push marker", or a call of the builtin that makes frames for Liftoff's functions. -1:
 * the code begins otherwise. */
static int32_t made_type(const struct v8_layout *l, const uint8_t *code)
{
    static const uint8_t prologue[] = {0x55, 0x48, 0x89, 0xe5, 0x6a};
    if (!memcmp(code, prologue, sizeof(prologue)))
        return code[5] & 0x81 ? -1 : code[5] >> 1;
    return is_liftoff(code) ? l->frame_wasm : -1;
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

static bool has_frame(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
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

/* Code of a regular expression begins with a jump to the place where it makes its frame, by two
 * instructions; it takes the frame down right before it returns. */
static bool stands_in_regexp(struct v8_reader *r, const struct v8_code *c, uint64_t pc)
{
    static const uint8_t makes[] = {0x55, 0x48, 0x89, 0xe5}; /* push rbp; mov rbp, rsp */
    enum { JUMP = 0xe9, JUMP_SIZE = 5, RETURN = 0xc3, RETURN_AND_POP = 0xc2 };
    uint8_t jump[JUMP_SIZE], at_entry[sizeof(makes)], at;
    if (!v8_read(r, c->start, jump, sizeof(jump)) || jump[0] != JUMP || !v8_read(r, pc, &at, 1))
        return false;
    uint64_t entry = c->start + JUMP_SIZE + (uint64_t)(int64_t)(int32_t)load_u32(jump + 1, false);
    return entry - c->start < c->size && v8_read(r, entry, at_entry, sizeof(at_entry)) &&
           memcmp(at_entry, makes, sizeof(makes)) == 0 && pc - c->start >= JUMP_SIZE &&
           pc - entry >= sizeof(makes) && at != RETURN && at != RETURN_AND_POP;
}

static bool begins_with(const uint8_t *at, const char *bytes, size_t size)
{
    return memcmp(at, bytes, size) == 0;
}

static bool returned(const struct runtime_image *image, uint64_t address, bool load, uint64_t *ret)
{
    enum { MOST = 24 };
    const uint8_t *start = image->bytes(image->context, address, MOST);
    if (!start)
        return false;
    const uint8_t *at = start;
    at += begins_with(at, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0; /* endbr64 */
    at += begins_with(at, "\x55\x48\x89\xe5", 4) ? 4 : 0; /* push rbp; mov rbp, rsp */
    size_t head = *at == 0xb8 ? 1 : begins_with(at, "\x8b\x05", 2) ? 2 : 3;
    uint64_t next = address + (uint64_t)(at - start) + head + 4;
    int64_t number = (int32_t)load_u32(at + head, false);
    if (head == 1) { /* mov eax, N */
        *ret = (uint32_t)number;
    } else if (head == 2) { /* mov eax, [rip + N] */
        const uint8_t *value =
            load ? image->bytes(image->context, next + (uint64_t)number, 4) : NULL;
        if (!value)
            return false;
        *ret = load_u32(value, false);
    } else if (begins_with(at, "\x48\xc7\xc0", 3)) { /* mov rax, N */
        *ret = (uint64_t)number;
    } else if (begins_with(at, "\x48\x8d\x05", 3)) { /* lea rax, [rip + N] */
        *ret = next + (uint64_t)number;
    } else {
        return false;
    }
    at += head + 4;
    return at[*at == 0x5d] == 0xc3; /* pop rbp; ret */
}

const struct v8_machine v8_machine_x86_64 = {
    .arch = &arch_x86_64,
    .function = DWARF_RDI,
    .offset = DWARF_R9,
    .array = ARCH_NO_REGISTER,
    .instance = DWARF_RSI,
    .root = DWARF_R13,
    .root_bias = 128,
    .return_register = V8_RETURN_ON_STACK,
    .frameless_offset = 8,
    .address_bits = 47,
    .builtin_makes_frame = true,
    .entry = {.nr = 5,
              .cfa = 16,
              .saved = {{DWARF_R12, -24},
                        {DWARF_R13, -32},
                        {DWARF_R14, -40},
                        {DWARF_R15, -48},
                        {DWARF_RBX, -56}}},
    .follow = follow,
    .has_frame = has_frame,
    .baseline = baseline_state,
    .made_type = made_type,
    .liftoff_begun = liftoff_begun,
    .stands_in_regexp = stands_in_regexp,
    .deopt_saved = {16 * (8 + 8), 16 * (8 + 16)},
    .returned = returned,
};
