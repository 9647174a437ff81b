/* SPDX-License-Identifier: GPL-2.0-only */
/* Machine code of C functions, and the way of values through it. See flow.h. */
#include "unwind/lua/flow.h"

#include "unwind/native/cfi.h"

#include <stdlib.h>
#include <string.h>

/* ---- instructions -------------------------------------------------------------------------- */

enum { TRAIL_STEPS_MAX = 1500, EXPORTED_MAX = 0x1000 };

int flow_add_part(struct flow_code *c, const struct runtime_image *image, struct lua_range part,
                  struct error *err)
{
    uint64_t size = part.end - part.start;
    const uint8_t *bytes = image->bytes(image->context, part.start, size);
    if (!bytes || c->nr_parts == LUA_PARTS_MAX)
        return 0;
    c->parts[c->nr_parts] = part;
    c->first[c->nr_parts++] = c->insns.nr;
    for (uint64_t at = 0; at < size;) {
        struct flow_insn i = {.at = part.start + at};
        if (!insn_parts(bytes + at, size - at, &i.is)) {
            at++; /* data, or an instruction that is not known: go on behind it */
            continue;
        }
        if (!vec_push(&c->insns, i))
            return error_no_memory(err);
        at += i.is.size;
    }
    c->first[c->nr_parts] = c->insns.nr;
    return 0;
}

bool flow_add_exported(struct flow_code *c, const struct runtime_image *image, const char *name)
{
    struct fde fde;
    uint64_t at;
    if (!image->cfi || !image->exported(image->context, name, &at) ||
        !cfi_find_fde(image->cfi, at, &fde) || fde.begin != at || fde.size > EXPORTED_MAX)
        return false;
    if (flow_add_part(c, image, (struct lua_range){at, at + fde.size}, NULL) == 0)
        return true;
    flow_free(c);
    return false;
}

void flow_free(struct flow_code *c)
{
    vec_free(&c->insns);
}

bool flow_has(const struct flow_code *c, uint64_t address)
{
    for (unsigned p = 0; p < c->nr_parts; p++) {
        if (address >= c->parts[p].start && address < c->parts[p].end)
            return true;
    }
    return false;
}

const struct flow_insn *flow_at(const struct flow_code *c, uint64_t address)
{
    for (unsigned p = 0; p < c->nr_parts; p++) {
        if (address < c->parts[p].start || address >= c->parts[p].end)
            continue;
        size_t low = c->first[p], high = c->first[p + 1];
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            if (c->insns.at[mid].at == address)
                return &c->insns.at[mid];
            if (c->insns.at[mid].at < address)
                low = mid + 1;
            else
                high = mid;
        }
    }
    return NULL;
}

enum insn_way flow_way(const struct flow_insn *i, uint64_t *target)
{
    *target = flow_end(i) + (uint64_t)(int64_t)i->is.value;
    return insn_way(&i->is);
}

/* ---- operands ------------------------------------------------------------------------------ */

bool flow_is_move(const struct insn_parts *is, bool *load)
{
    *load = is->opcode == 0x8b;
    return !is->vector && is->map == 0 && (is->opcode == 0x8b || is->opcode == 0x89) && !is->small;
}

bool flow_is_load(const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    if (is->vector || !is->has_modrm || is->is_register)
        return false;
    return is->map == 0 ? op == 0x8a || op == 0x8b || op == 0x63
                        : is->map == 1 && (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf);
}

static uint32_t bit(unsigned reg)
{
    return UINT32_C(1) << (reg & 15);
}

/* ---- the frame ----------------------------------------------------------------------------- */

bool flow_slot(const struct flow_frame *f, const struct insn_parts *is, int32_t *ret)
{
    if (!is->has_modrm || is->is_register || is->index != INSN_NO_REGISTER)
        return false;
    if (is->base == FLOW_RSP && f->sp_known)
        *ret = f->sp + is->disp;
    else if (is->base == FLOW_RBP && f->fp_known)
        *ret = f->fp + is->disp;
    else
        return false;
    return true;
}

/* Note what an instruction does to the stack pointer and the frame pointer. */
static void move_frame(struct flow_frame *f, const struct insn_parts *is)
{
    uint32_t written = insn_written(is);
    bool load, one = is->map == 0 && !is->vector;
    if (one && is->opcode >= 0x50 && is->opcode <= 0x57)
        f->sp -= 8;
    else if (one && (is->opcode == 0x68 || is->opcode == 0x6a ||
                     (is->opcode == 0xff && (is->reg & 7) == 6)))
        f->sp -= 8;
    else if (one && is->opcode >= 0x58 && is->opcode <= 0x5f)
        f->sp += 8;
    else if (one && (is->opcode == 0x81 || is->opcode == 0x83) && is->is_register &&
             is->rm == FLOW_RSP && ((is->reg & 7) == 0 || (is->reg & 7) == 5))
        f->sp += (is->reg & 7) ? -is->value : is->value;
    else if (one && is->opcode == 0x8d && is->reg == FLOW_RSP && flow_slot(f, is, &f->sp))
        f->sp_known = true;
    else if (written & bit(FLOW_RSP))
        f->sp_known = false;
    if (!(written & bit(FLOW_RBP)))
        return;
    f->fp_known = false;
    if (flow_is_move(is, &load) && is->is_register && is->wide &&
        (load ? is->reg == FLOW_RBP && is->rm == FLOW_RSP
              : is->rm == FLOW_RBP && is->reg == FLOW_RSP)) {
        f->fp_known = f->sp_known;
        f->fp = f->sp;
    } else if (one && is->opcode == 0x8d && is->reg == FLOW_RBP && is->base == FLOW_RSP &&
               is->index == INSN_NO_REGISTER) {
        f->fp_known = f->sp_known;
        f->fp = f->sp + is->disp;
    }
}

/* ---- values -------------------------------------------------------------------------------- */

bool flow_value_is(const struct flow_value *v, enum flow_root root, unsigned nr,
                   const int16_t *offsets)
{
    return v->root == root && v->nr == nr && !v->added &&
           (!nr || !memcmp(v->offsets, offsets, nr * sizeof(*offsets)));
}

static struct flow_held *find_slot(struct flow_trail *t, int32_t offset, bool make)
{
    for (unsigned i = 0; i < t->nr_slots; i++) {
        if (t->slots[i].offset == offset)
            return &t->slots[i].held;
    }
    if (!make || t->nr_slots == FLOW_SLOTS_MAX)
        return NULL;
    t->slots[t->nr_slots].offset = offset;
    t->slots[t->nr_slots].held = (struct flow_held){0};
    return &t->slots[t->nr_slots++].held;
}

/* Returns what the address in a memory operand is relative to. */
static struct flow_value base_of(const struct flow_trail *t, const struct insn_parts *is)
{
    if (!is->has_modrm || is->is_register || is->base == INSN_NO_REGISTER ||
        is->index != INSN_NO_REGISTER)
        return (struct flow_value){0};
    return t->regs[is->base].value;
}

static void note_access(struct flow_trail *t, const struct flow_insn *i, bool store)
{
    struct flow_value base = base_of(t, &i->is);
    if (!base.root || t->nr_accesses == FLOW_ACCESSES_MAX)
        return;
    int32_t disp = base.added + i->is.disp;
    base.added = 0;
    t->accesses[t->nr_accesses++] =
        (struct flow_access){i->at, base, disp, (uint8_t)insn_operand_size(&i->is), store};
}

/* Returns the value that an instruction loads from memory. */
static struct flow_value loaded(struct flow_trail *t, const struct insn_parts *is)
{
    int32_t offset;
    if (flow_slot(&t->frame, is, &offset)) {
        struct flow_held *held = find_slot(t, offset, false);
        if (held)
            return held->value;
        bool unknown = !t->within || t->nr_slots == FLOW_SLOTS_MAX || !is->wide;
        return (struct flow_value){.root = unknown ? FLOW_UNKNOWN : FLOW_SLOT, .which = offset};
    }
    struct flow_value v = base_of(t, is);
    int32_t disp = v.added + is->disp;
    if (!v.root || !is->wide || v.nr == FLOW_PATH_MAX || disp != (int16_t)disp)
        return (struct flow_value){0};
    v.offsets[v.nr++] = (int16_t)disp;
    v.added = 0;
    return v;
}

/* lea of a field's address. */
static struct flow_value address_of(const struct flow_trail *t, const struct insn_parts *is)
{
    struct flow_value v = base_of(t, is);
    int32_t added = v.added + is->disp;
    if (!v.root || !is->wide || added != (int16_t)added)
        return (struct flow_value){0};
    v.added = (int16_t)added;
    return v;
}

static void set_register(struct flow_trail *t, unsigned reg, struct flow_value v, uint64_t by)
{
    t->regs[reg] = (struct flow_held){v, by};
}

static void set_slot(struct flow_trail *t, int32_t offset, struct flow_value v, uint64_t by)
{
    struct flow_held *held = find_slot(t, offset, v.root != FLOW_UNKNOWN || t->within);
    if (held)
        *held = (struct flow_held){v, by};
}

/* A move of a whole register: the value goes with it. The second argument may be an int. */
static bool move_value(struct flow_trail *t, const struct flow_insn *i)
{
    const struct insn_parts *is = &i->is;
    int32_t offset;
    bool load;
    if (!flow_is_move(is, &load))
        return false;
    struct flow_value v =
        load ? is->is_register ? t->regs[is->rm].value : loaded(t, is) : t->regs[is->reg].value;
    if (!is->wide && v.root != FLOW_ARGUMENT_2)
        v = (struct flow_value){0};
    if (load || is->is_register)
        set_register(t, load ? is->reg : is->rm, v, flow_end(i));
    else if (flow_slot(&t->frame, is, &offset))
        set_slot(t, offset, v, flow_end(i));
    return true;
}

static void push_or_pop(struct flow_trail *t, const struct flow_insn *i)
{
    uint8_t op = i->is.opcode;
    if (i->is.map || i->is.vector || op < 0x50 || op > 0x5f || !t->frame.sp_known)
        return;
    if (op < 0x58) { /* (move_frame() comes after this) */
        set_slot(t, t->frame.sp - 8, t->regs[i->is.low].value, flow_end(i));
        return;
    }
    struct flow_held *held = find_slot(t, t->frame.sp, false);
    if (held)
        set_register(t, i->is.low, held->value, flow_end(i));
}

/* add or sub of a small constant, to or from a register that is no stack pointer */
static bool is_constant_addition(const struct insn_parts *is)
{
    unsigned which = is->reg & 7;
    return !is->map && !is->vector && is->wide && is->is_register && is->rm != FLOW_RSP &&
           (is->opcode == 0x83 || is->opcode == 0x81) && (which == 0 || which == 5) &&
           is->value == (int8_t)is->value;
}

static void follow(struct flow_trail *t, const struct flow_insn *i)
{
    const struct insn_parts *is = &i->is;
    bool store = insn_writes_memory(is), lea = !is->map && !is->vector && is->opcode == 0x8d;
    int32_t offset;
    if (is->has_modrm && !is->is_register && !lea)
        note_access(t, i, store);
    if (lea) {
        set_register(t, is->reg, address_of(t, is), flow_end(i));
    } else if (is_constant_addition(is) && t->regs[is->rm].value.root) {
        struct flow_value v = t->regs[is->rm].value;
        v.added = (int16_t)(v.added + ((is->reg & 7) ? -is->value : is->value));
        set_register(t, is->rm, v, flow_end(i));
    } else if (!move_value(t, i)) {
        uint32_t written = insn_written(is);
        struct flow_value keep = {0};
        for (unsigned r = 0; r < FLOW_NR; r++) {
            if (written & bit(r))
                set_register(t, r, keep, flow_end(i));
        }
        if (store && flow_slot(&t->frame, is, &offset))
            set_slot(t, offset, keep, flow_end(i));
        push_or_pop(t, i);
    }
    move_frame(&t->frame, is);
}

/* ---- the way ------------------------------------------------------------------------------- */

void flow_trail_begin(struct flow_trail *t, const struct flow_code *c)
{
    memset(t, 0, sizeof(*t));
    t->at = c->nr_parts ? c->parts[0].start : 0;
    t->frame = (struct flow_frame){.sp_known = true, .sp = -8};
    t->regs[FLOW_RDI].value.root = FLOW_ARGUMENT_1;
    t->regs[FLOW_RSI].value.root = FLOW_ARGUMENT_2;
}

void flow_trail_begin_within(struct flow_trail *t, uint64_t at, const struct flow_frame *frame,
                             const bool *stops)
{
    memset(t, 0, sizeof(*t));
    t->at = at;
    t->frame = *frame;
    t->within = true;
    t->stops = stops;
    for (unsigned r = 0; r < FLOW_NR; r++) {
        bool is_frame_pointer = r == FLOW_RBP && frame->fp_known;
        if (FLOW_SURVIVES & bit(r) && !is_frame_pointer)
            t->regs[r].value = (struct flow_value){.root = FLOW_REGISTER, .which = (int32_t)r};
    }
}

const struct flow_insn *flow_trail_run(struct flow_trail *t, const struct flow_code *c)
{
    const struct flow_insn *i;
    for (; t->at && (i = flow_at(c, t->at)); t->steps++) {
        uint64_t target;
        enum insn_way way = flow_way(i, &target);
        if (way == WAY_CALL || way == WAY_JUMP_INDIRECT || (t->stops && t->stops[i - c->insns.at]))
            return i;
        if (way == WAY_STOP || t->steps == TRAIL_STEPS_MAX)
            break;
        if (way == WAY_NEXT)
            follow(t, i);
        t->at = way == WAY_JUMP ? target : flow_end(i);
    }
    t->at = 0;
    return NULL;
}

void flow_trail_call(struct flow_trail *t, const struct flow_code *c)
{
    const struct flow_insn *i = flow_at(c, t->at);
    for (unsigned r = 0; r < FLOW_NR; r++) {
        if (FLOW_CALLER_SAVED & bit(r))
            t->regs[r] = (struct flow_held){0};
    }
    t->at = i ? flow_end(i) : 0;
}
