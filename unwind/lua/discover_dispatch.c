/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds functions that cut a number of 6 or 7 bits out of a word and jump by it through a table.
 *
 * The masks are searched as bytes, in functions of some size only. What follows a mask is decoded,
 * and the masked number is followed into the jump. Large files hold some thousand masks, of which
 * few lead to a jump: 4 functions of node's have one.
 */
#include "unwind/lua/discover_internal.h"

#include "unwind/native/cfi.h"

#include <string.h>

enum {
    EXECUTE_MIN = 0x900,   /* bytes; the smallest known has 0x10f0 */
    EXECUTE_MAX = 1 << 19, /* bytes */
    DISPATCH_INSNS = 40,   /* from the mask to the jump; compilers need up to 20 */
    ENTRY_INSNS = 20,      /* from the mask to the load from the table */
    TABLE_MAX = 256,
    SPILLS = 4,
};

/* ---- from a mask to the jump --------------------------------------------------------------- */

/* What registers hold: the masked number, or an entry of the table that it selected. */
struct taint {
    uint32_t index, entry, constant; /* bits of registers */
    uint64_t value[FLOW_NR];         /* of constants: addresses that the code has computed */
    struct {
        uint8_t base;
        int32_t disp;
        bool index, entry;
    } spills[SPILLS];
    unsigned nr_spills;
    int32_t bound; /* the number was compared with it; -1: not */
};

static bool has(uint32_t set, unsigned reg)
{
    return reg < FLOW_NR && set >> reg & 1;
}

static void put(uint32_t *set, unsigned reg, bool in)
{
    *set = (*set & ~(UINT32_C(1) << reg)) | (in ? UINT32_C(1) << reg : 0);
}

static void set_both(struct taint *t, unsigned reg, bool index, bool entry)
{
    put(&t->index, reg, index);
    put(&t->entry, reg, entry);
    put(&t->constant, reg, false);
}

static bool is_frame(const struct insn_parts *is)
{
    return (is->base == FLOW_RSP || is->base == FLOW_RBP) && is->index == INSN_NO_REGISTER;
}

static int find_spill(const struct taint *t, const struct insn_parts *is)
{
    for (unsigned i = 0; i < t->nr_spills; i++) {
        if (t->spills[i].base == is->base && t->spills[i].disp == is->disp)
            return (int)i;
    }
    return -1;
}

static void spill(struct taint *t, const struct insn_parts *is)
{
    int i = find_spill(t, is);
    if (i < 0 && t->nr_spills < SPILLS && (has(t->index, is->reg) || has(t->entry, is->reg)))
        i = (int)t->nr_spills++;
    if (i < 0)
        return;
    t->spills[i].base = is->base;
    t->spills[i].disp = is->disp;
    t->spills[i].index = has(t->index, is->reg);
    t->spills[i].entry = has(t->entry, is->reg);
}

static bool uses_index(const struct taint *t, const struct insn_parts *is)
{
    return has(t->index, is->index) || has(t->index, is->base);
}

/* Note the table that an operand in memory reads from. */
static void note_table(const struct taint *t, const struct flow_insn *i, unsigned entry_size,
                       struct lua_dispatch *ret)
{
    const struct insn_parts *is = &i->is;
    unsigned other = has(t->index, is->index) ? is->base : is->index;
    ret->entry_size = (uint8_t)entry_size;
    ret->table = 0;
    if (other == INSN_NO_REGISTER)
        ret->table = (uint64_t)(int64_t)is->disp;
    else if (has(t->constant, other))
        ret->table = t->value[other] + (uint64_t)(int64_t)is->disp;
}

static void load_entry(struct taint *t, const struct flow_insn *i, struct lua_dispatch *ret)
{
    const struct insn_parts *is = &i->is;
    bool wide = insn_operand_size(is) == 8;
    int at = is_frame(is) ? find_spill(t, is) : -1;
    if (at >= 0) {
        set_both(t, is->reg, t->spills[at].index, t->spills[at].entry);
        return;
    }
    bool entry = uses_index(t, is) && insn_operand_size(is) >= 4;
    if (entry)
        note_table(t, i, wide ? 8 : 4, ret);
    set_both(t, is->reg, false, entry);
}

static void load_address(struct taint *t, const struct flow_insn *i)
{
    const struct insn_parts *is = &i->is;
    bool index = uses_index(t, is);
    set_both(t, is->reg, index, !index && (has(t->entry, is->base) || has(t->entry, is->index)));
    if (is->rip_relative) {
        put(&t->constant, is->reg, true);
        t->value[is->reg] = flow_end(i) + (uint64_t)(int64_t)is->disp;
    }
}

/* add, shl and movzx leave a number what it is for us. */
static bool keeps(const struct insn_parts *is)
{
    uint8_t op = is->opcode;
    if (is->vector || !is->is_register)
        return false;
    if (is->map == 1)
        return op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf;
    return is->map == 0 && (op == 0x01 || op == 0x03 || op == 0x63 || op == 0x89 || op == 0x8b);
}

static void combine(struct taint *t, const struct insn_parts *is)
{
    bool to_rm = is->map == 0 && (is->opcode == 0x01 || is->opcode == 0x89);
    bool adds = is->map == 0 && is->opcode <= 0x03;
    unsigned to = to_rm ? is->rm : is->reg, from = to_rm ? is->reg : is->rm;
    bool index = has(t->index, from), entry = has(t->entry, from);
    if (adds) {
        entry |= has(t->entry, to);
        index |= has(t->index, to);
    }
    bool constant = !adds && has(t->constant, from);
    set_both(t, to, index, entry);
    put(&t->constant, to, constant);
    t->value[to] = t->value[from];
}

/* A comparison of the number with a constant; clang -O0 subtracts. */
static bool is_comparison(const struct taint *t, const struct insn_parts *is, int32_t *bound)
{
    unsigned which = is->reg & 7;
    *bound = is->value;
    if (is->map || is->vector)
        return false;
    if (is->opcode == 0x3c || is->opcode == 0x3d)
        return has(t->index, FLOW_RAX);
    return (is->opcode == 0x80 || is->opcode == 0x81 || is->opcode == 0x83) && is->is_register &&
           (which == 7 || which == 5) && has(t->index, is->rm);
}

static void follow(struct taint *t, const struct flow_insn *i, struct lua_dispatch *ret)
{
    const struct insn_parts *is = &i->is;
    bool load, lea = is->map == 0 && !is->vector && is->opcode == 0x8d && !is->is_register;
    int32_t bound;
    if (is_comparison(t, is, &bound)) {
        t->bound = bound;
    } else if (flow_is_move(is, &load) && !load && !is->is_register) {
        if (is_frame(is))
            spill(t, is);
    } else if (lea) {
        load_address(t, i);
    } else if (flow_is_load(is)) {
        load_entry(t, i, ret);
    } else if (keeps(is)) {
        combine(t, is);
    } else if (!is->map && !is->vector && (is->opcode == 0x98 || is->opcode == 0xc1)) {
        ; /* cdqe, shl: the number stays one */
    } else if (!is->map && !is->vector && is->opcode == 0x03 && uses_index(t, is)) {
        note_table(t, i, 4, ret); /* add of an entry to the table's address */
        put(&t->entry, is->reg, true);
    } else {
        uint32_t kept = ~insn_written(is);
        t->index &= kept, t->entry &= kept, t->constant &= kept;
    }
}

/* An unsigned comparison decides whether the number is in the table. Returns where the way to the
 * table goes on. */
static uint64_t at_branch(const struct taint *t, const struct flow_insn *i, uint64_t target,
                          struct lua_dispatch *ret)
{
    unsigned condition = i->is.opcode & 15; /* 2 b, 3 ae, 6 be, 7 a */
    if (t->bound < 0 || (condition != 2 && condition != 3 && condition != 6 && condition != 7))
        return flow_end(i);
    ret->nr_opcodes = (uint16_t)(t->bound + (condition >= 6 ? 1 : 0));
    return condition == 2 || condition == 6 ? target : flow_end(i);
}

static bool is_dispatching(const struct taint *t, const struct flow_insn *i,
                           struct lua_dispatch *ret)
{
    const struct insn_parts *is = &i->is;
    if ((is->reg & 7) != 4)
        return false;
    ret->jump = i->at;
    if (is->is_register)
        return has(t->entry, is->rm);
    int at = is_frame(is) ? find_spill(t, is) : -1;
    if (at >= 0)
        return t->spills[at].entry;
    if (!uses_index(t, is))
        return false;
    note_table(t, i, 8, ret);
    return true;
}

static bool read_insn(struct lua_range f, const uint8_t *bytes, uint64_t at, struct flow_insn *ret)
{
    ret->at = at;
    return at >= f.start && at < f.end && insn_parts(bytes + (at - f.start), f.end - at, &ret->is);
}

/* `and` of a register and the mask. */
static bool is_mask(const struct insn_parts *is, unsigned *reg)
{
    bool eax = is->opcode == 0x24 || is->opcode == 0x25;
    bool group = is->opcode == 0x80 || is->opcode == 0x81 || is->opcode == 0x83;
    *reg = eax ? FLOW_RAX : is->rm;
    return !is->map && !is->vector && (eax || (group && is->is_register && (is->reg & 7) == 4)) &&
           (is->value == 0x3f || is->value == 0x7f);
}

bool lua_dispatch_at(struct lua_range function, const uint8_t *bytes, uint64_t at,
                     struct lua_dispatch *ret)
{
    struct flow_insn i;
    struct taint t = {.bound = -1};
    unsigned reg;
    if (!read_insn(function, bytes, at, &i) || !is_mask(&i.is, &reg))
        return false;
    *ret = (struct lua_dispatch){.at = at, .mask = (uint8_t)i.is.value};
    put(&t.index, reg, true);
    at = flow_end(&i);
    for (unsigned n = 0; n < DISPATCH_INSNS && read_insn(function, bytes, at, &i); n++) {
        uint64_t target;
        if ((!t.index && !t.entry && !t.nr_spills) || (n >= ENTRY_INSNS && !ret->entry_size))
            return false; /* the number is gone */
        switch (flow_way(&i, &target)) {
        case WAY_NEXT:
            follow(&t, &i, ret);
            at = flow_end(&i);
            break;
        case WAY_BRANCH:
            at = at_branch(&t, &i, target, ret);
            break;
        case WAY_JUMP:
            at = target;
            break;
        case WAY_JUMP_INDIRECT:
            return is_dispatching(&t, &i, ret);
        default:
            return false;
        }
    }
    return false;
}

/* ---- opcodes ------------------------------------------------------------------------------- */

unsigned lua_version_of(unsigned nr_opcodes, unsigned mask)
{
    if (mask != (nr_opcodes < 64 ? 0x3f : 0x7f))
        return 0;
    switch (nr_opcodes) {
    case 38:
        return 51;
    case 39: /* the last opcode does nothing, as unknown ones do */
    case 40:
        return 52;
    case 46:
    case 47:
        return 53;
    case 82:
    case 83:
        return 54;
    case 84:
    case 85:
        return 55;
    default:
        return 0;
    }
}

/* ---- masks --------------------------------------------------------------------------------- */

/* Find the instruction that has the mask at `mask`, an offset into the function. */
static bool dispatch_by_mask(struct lua_range f, const uint8_t *bytes, uint64_t mask,
                             struct lua_dispatch *ret)
{
    uint64_t size = f.end - f.start;
    const uint8_t *m = bytes + mask;
    bool wide = mask + 3 < size && !m[1] && !m[2] && !m[3]; /* of four bytes */
    uint64_t before = 0;
    if (mask >= 2 && (m[-2] == 0x83 || m[-2] == 0x80 || (wide && m[-2] == 0x81)) &&
        (m[-1] & 0xf8) == 0xe0)
        before = 2;
    else if (mask >= 1 && (m[-1] == 0x24 || (wide && m[-1] == 0x25)))
        before = 1;
    if (!before)
        return false;
    uint64_t at = f.start + mask - before;
    if (before == 2 && mask > 2 && (m[-3] & 0xf0) == 0x40 && lua_dispatch_at(f, bytes, at - 1, ret))
        return true;
    return lua_dispatch_at(f, bytes, at, ret);
}

/* How well a dispatch fits: 3 with the opcodes of a version, 2 if nothing is compared, 1. */
static int fitness(const struct lua_dispatch *d)
{
    return lua_version_of(d->nr_opcodes, d->mask) ? 3 : d->nr_opcodes ? 1 : 2;
}

/* The interpreter may have other switches over masked numbers: the tags of values. */
static bool find_dispatch(struct lua_range f, const uint8_t *bytes, struct lua_dispatch *ret)
{
    static const uint8_t masks[] = {0x7f, 0x3f};
    int best = 0;
    for (size_t m = 0; m < sizeof(masks); m++) {
        const uint8_t *at = bytes, *end = bytes + (f.end - f.start);
        for (; best < 3 && (at = memchr(at, masks[m], (size_t)(end - at))); at++) {
            struct lua_dispatch d;
            if (!dispatch_by_mask(f, bytes, (uint64_t)(at - bytes), &d) || fitness(&d) <= best)
                continue;
            best = fitness(&d);
            *ret = d;
        }
    }
    return best > 0;
}

struct search {
    const struct runtime_image *image;
    lua_each_candidate *each;
    void *context;
    bool ended;
};

static bool note_function(void *context, const struct fde *fde, uint64_t offset)
{
    struct search *s = context;
    const struct lua_range f = {fde->begin, fde->begin + fde->size};
    struct lua_dispatch first;
    (void)offset;
    if (fde->size > EXECUTE_MAX)
        return true;
    const uint8_t *bytes = s->image->bytes(s->image->context, f.start, fde->size);
    if (bytes && find_dispatch(f, bytes, &first))
        s->ended = !s->each(s->context, f, &first);
    return !s->ended;
}

void lua_each_dispatching(const struct runtime_image *image, lua_each_candidate *each,
                          void *context)
{
    struct search s = {.image = image, .each = each, .context = context};
    const struct cfi *cfi = image->cfi;
    for (unsigned i = 0; cfi && i < cfi->nr_tables && !s.ended; i++)
        cfi_walk_large(cfi, &cfi->tables[i], EXECUTE_MIN, note_function, &s);
}

/* ---- the table ----------------------------------------------------------------------------- */

/* Returns where an entry leads; 0: it is not in the file. */
static uint64_t table_entry(const struct runtime_image *image, uint64_t table, unsigned entry_size,
                            unsigned n)
{
    if (entry_size == 8)
        return image->word(image->context, table + UINT64_C(8) * n);
    const uint8_t *at = image->bytes(image->context, table + UINT64_C(4) * n, 4);
    int32_t distance;
    if (!at)
        return 0;
    memcpy(&distance, at, 4);
    return table + (uint64_t)(int64_t)distance;
}

/* A compiler that leaves out the comparison fills the table with the default's address. */
unsigned lua_table_length(const struct runtime_image *image, const struct flow_code *code,
                          uint64_t table, unsigned entry_size)
{
    unsigned nr = 0;
    while (nr < TABLE_MAX && flow_at(code, table_entry(image, table, entry_size, nr)))
        nr++;
    if (nr != 64 && nr != 128)
        return nr;
    uint64_t last = table_entry(image, table, entry_size, nr - 1);
    while (nr && table_entry(image, table, entry_size, nr - 1) == last)
        nr--;
    return nr;
}
