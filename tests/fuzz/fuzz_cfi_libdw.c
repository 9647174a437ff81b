/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our reader of call frame information against elfutils' (libdw): the input chooses the
 * instructions of a valid CIE and FDE, both readers say how the CFA and each register are found at
 * some addresses, and must agree.
 */
#include "base/hash.h"
#include "unwind/arch_x86_64.h"
#include "unwind/native/cfi.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "small_elf.h"

enum { TEXT = 0x100000, TEXT_SIZE = 0x4000, FRAMES = 0x8000, REGISTERS = 17, PCS = 48, DEPTH = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a program may do next without being invalid. */
struct state {
    unsigned depth;   /* of remembered states */
    bool has_cfa;     /* the CFA is a register and an offset */
    bool is_of_frame; /* of an FDE: may advance and restore */
    int64_t data_align;
    uint64_t at;
};

static void put_expression(struct small_bytes *b, struct small_choices *c)
{
    small_uleb(b, 3);
    small_put(b, DW_OP_breg7, 1);
    small_put(b, small_choice(c) & 0x3f, 1);
    small_put(b, DW_OP_deref, 1);
}

static void advance(struct small_bytes *b, struct small_choices *c, struct state *s)
{
    uint64_t by = small_choice(c);
    s->at += by;
    switch (by % 4) {
    case 0:
        small_put(b, DW_CFA_advance_loc | (by & 0x3f), 1);
        s->at += (by & 0x3f) - by;
        break;
    case 1:
        small_put(b, DW_CFA_advance_loc1, 1);
        small_put(b, by, 1);
        break;
    case 2:
        small_put(b, DW_CFA_advance_loc2, 1);
        small_put(b, by, 2);
        break;
    default:
        small_put(b, DW_CFA_advance_loc4, 1);
        small_put(b, by, 4);
    }
}

static void set_cfa(struct small_bytes *b, struct small_choices *c, struct state *s)
{
    uint8_t how = small_choice(c) % (s->has_cfa ? 6 : 3);
    static const uint8_t codes[] = {
        DW_CFA_def_cfa,          DW_CFA_def_cfa_sf,     DW_CFA_def_cfa_expression,
        DW_CFA_def_cfa_register, DW_CFA_def_cfa_offset, DW_CFA_def_cfa_offset_sf};
    small_put(b, codes[how], 1);
    if (how == 2) {
        put_expression(b, c);
        s->has_cfa = false;
        return;
    }
    if (how != 4 && how != 5)
        small_uleb(b, small_choice(c) % REGISTERS);
    if (how == 0 || how == 4)
        small_uleb(b, small_number(c));
    if (how == 1 || how == 5)
        small_sleb(b, (int64_t)small_number(c) - 100);
    s->has_cfa = true;
}

static void set_register(struct small_bytes *b, struct small_choices *c, const struct state *s)
{
    static const uint8_t codes[] = {DW_CFA_offset_extended, DW_CFA_offset_extended_sf,
                                    DW_CFA_val_offset,      DW_CFA_val_offset_sf,
                                    DW_CFA_undefined,       DW_CFA_same_value,
                                    DW_CFA_register,        DW_CFA_expression,
                                    DW_CFA_val_expression,  DW_CFA_offset,
                                    DW_CFA_restore,         DW_CFA_restore_extended};
    uint8_t code = codes[small_choice(c) % (sizeof(codes) - (s->is_of_frame ? 0 : 2))];
    uint64_t of = small_choice(c) % REGISTERS;
    if (code == DW_CFA_offset || code == DW_CFA_restore) {
        small_put(b, code | of, 1);
    } else {
        small_put(b, code, 1);
        small_uleb(b, of);
    }
    if (code == DW_CFA_offset || code == DW_CFA_offset_extended || code == DW_CFA_val_offset)
        small_uleb(b, small_number(c));
    else if (code == DW_CFA_offset_extended_sf || code == DW_CFA_val_offset_sf)
        small_sleb(b, (int64_t)small_number(c) - 100);
    else if (code == DW_CFA_register)
        small_uleb(b, small_choice(c) % REGISTERS);
    else if (code == DW_CFA_expression || code == DW_CFA_val_expression)
        put_expression(b, c);
}

static void put_program(struct small_bytes *b, struct small_choices *c, struct state *s,
                        unsigned instructions)
{
    bool saved[DEPTH];
    for (unsigned i = 0; i < instructions; i++) {
        switch (small_choice(c) % (s->is_of_frame ? 8 : 4)) {
        case 0:
            set_cfa(b, c, s);
            break;
        case 4:
        case 5:
            advance(b, c, s);
            break;
        case 6:
            if (s->depth == DEPTH)
                break;
            small_put(b, DW_CFA_remember_state, 1);
            saved[s->depth++] = s->has_cfa;
            break;
        case 7:
            if (!s->depth)
                break;
            small_put(b, DW_CFA_restore_state, 1);
            s->has_cfa = saved[--s->depth];
            break;
        default:
            set_register(b, c, s);
        }
    }
}

/* One CIE and one FDE for all of TEXT, as .eh_frame at FRAMES. */
static void put_section(struct small_bytes *b, struct small_choices *c)
{
    struct small_bytes program = {.nr = 0};
    uint8_t aligns = small_choice(c);
    struct state s = {.data_align = aligns & 1 ? -8 : -4};
    const unsigned code_align = 1 + (aligns >> 1 & 3);
    small_put(&program, DW_CFA_def_cfa, 1);
    small_uleb(&program, 7);
    small_uleb(&program, 8);
    s.has_cfa = true;
    put_program(&program, c, &s, small_choice(c) % 8);
    const size_t cie = 4 + 1 + 3 + 1 + 1 + 1 + 1 + 1 + program.nr;
    small_put(b, cie, 4);
    small_put(b, 0, 4);
    small_put(b, 1, 1); /* version */
    small_put(b, 'z' | 'R' << 8, 3);
    small_put(b, code_align, 1);
    small_sleb(b, s.data_align);
    small_put(b, 16, 1); /* return address */
    small_put(b, 1, 1);  /* bytes of augmentation data */
    small_put(b, DW_EH_PE_udata8, 1);
    memcpy(b->at + b->nr, program.at, program.nr);
    b->nr += program.nr;
    program.nr = 0;
    s.is_of_frame = true;
    put_program(&program, c, &s, 4 + small_choice(c) % 40);
    small_put(b, 4 + 16 + 1 + program.nr, 4);
    small_put(b, b->nr, 4); /* back to the CIE, at 0 */
    small_put(b, TEXT, 8);
    small_put(b, TEXT_SIZE, 8);
    small_put(b, 0, 1);
    if (b->nr + program.nr + 4 > sizeof(b->at))
        return;
    memcpy(b->at + b->nr, program.at, program.nr);
    b->nr += program.nr;
    small_put(b, 0, 4);
}

static void differ(uint64_t pc, const char *what, int of, const struct cfi_row *row)
{
    fprintf(stderr, "at %#lx: %s %d: ours: kind %d, offset %ld; CFA %lu %+ld\n", (unsigned long)pc,
            what, of, of >= 0 ? (int)row->regs[of].kind : 0,
            of >= 0 ? (long)row->regs[of].offset : 0, (unsigned long)row->cfa_register,
            (long)row->cfa_offset);
    abort();
}

static void compare_cfa(uint64_t pc, const struct cfi_row *row, Dwarf_Frame *frame)
{
    Dwarf_Op *ops;
    size_t nr;
    if (dwarf_frame_cfa(frame, &ops, &nr) != 0)
        differ(pc, "libdw has no CFA", -1, row);
    bool simple = nr == 1 && (ops[0].atom == DW_OP_bregx ||
                              (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31));
    if (row->cfa_is_expression) {
        if (simple) /* (our expressions have two operations) */
            differ(pc, "an expression for", -1, row);
        return;
    }
    bool by_number = simple && ops[0].atom == DW_OP_bregx;
    uint64_t of = by_number ? ops[0].number : (uint64_t)ops[0].atom - DW_OP_breg0;
    int64_t offset = (int64_t)(by_number ? ops[0].number2 : ops[0].number);
    if (!simple)
        differ(pc, "no expression for", -1, row);
    if (of != row->cfa_register || offset != row->cfa_offset)
        differ(pc, "CFA", -1, row);
}

/* What libdw says of a register, as one of our kinds. */
static enum reg_rule_kind kind_of(const Dwarf_Op *ops, size_t nr, const Dwarf_Op *own,
                                  int64_t *offset)
{
    *offset = 0;
    if (nr == 0)
        return ops == own ? REG_UNDEFINED : REG_SAME;
    if (ops[0].atom == DW_OP_regx || (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)) {
        *offset = ops[0].atom == DW_OP_regx ? (int64_t)ops[0].number : ops[0].atom - DW_OP_reg0;
        return REG_REGISTER;
    }
    bool by_value = ops[nr - 1].atom == DW_OP_stack_value;
    nr -= by_value;
    if (ops[0].atom == DW_OP_call_frame_cfa && nr == 2 && ops[1].atom == DW_OP_plus_uconst)
        *offset = (int64_t)ops[1].number;
    else if (ops[0].atom != DW_OP_call_frame_cfa || nr != 1)
        return by_value ? REG_VAL_EXPRESSION : REG_EXPRESSION;
    return by_value ? REG_VAL_OFFSET : REG_OFFSET;
}

static void compare_register(uint64_t pc, const struct cfi_row *row, Dwarf_Frame *frame, int reg)
{
    Dwarf_Op own[3], *ops;
    size_t nr;
    int64_t offset;
    const struct reg_rule *ours = &row->regs[reg];
    if (ours->kind == REG_UNSPECIFIED) /* libdw puts the ABI's default in its place */
        return;
    if (dwarf_frame_register(frame, reg, own, &ops, &nr) != 0)
        differ(pc, "libdw fails for", reg, row);
    enum reg_rule_kind kind = kind_of(ops, nr, own, &offset);
    bool with_offset = kind == REG_OFFSET || kind == REG_VAL_OFFSET || kind == REG_REGISTER;
    if (kind != ours->kind || (with_offset && offset != ours->offset))
        differ(pc, "register", reg, row);
}

static void compare(const struct cfi *ours, Dwarf_CFI *theirs, uint64_t seed)
{
    for (unsigned i = 0; i < PCS; i++) {
        uint64_t pc = TEXT + hash_combine(seed, i) % (i % 2 ? TEXT_SIZE : 512);
        struct cfi_row row;
        Dwarf_Frame *frame = NULL;
        bool known = cfi_row(ours, pc, &row), there = dwarf_cfi_addrframe(theirs, pc, &frame) == 0;
        if (known != there) {
            fprintf(stderr, "at %#lx: ours %d, libdw %d: %s\n", (unsigned long)pc, known, there,
                    dwarf_errmsg(-1));
            abort();
        }
        if (!known)
            continue;
        compare_cfa(pc, &row, frame);
        for (int reg = 0; reg < REGISTERS; reg++)
            compare_register(pc, &row, frame, reg);
        free(frame);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[SMALL_ELF_MAX];
    struct small_choices c = {data, data + size, hash_bytes(data, size), 0};
    struct small_bytes section = {.nr = 0};
    put_section(&section, &c);
    const struct small_section sections[] = {{".eh_frame", section.at, section.nr, FRAMES}};
    const struct cfi_source source = {.name = "fuzz",
                                      .arch = &arch_x86_64,
                                      .eh_frame = {section.at, section.nr, FRAMES},
                                      .id = 1};
    struct cfi *ours;
    size_t bytes = small_elf(file, sections, 1);
    elf_version(EV_CURRENT);
    Elf *elf = bytes ? elf_memory((char *)file, bytes) : NULL;
    Dwarf_CFI *theirs = elf ? dwarf_getcfi_elf(elf) : NULL;
    if (cfi_create(&source, &ours, NULL) < 0)
        abort();
    if (theirs)
        compare(ours, theirs, hash_bytes(data, size));
    if (theirs)
        dwarf_cfi_end(theirs);
    if (elf)
        elf_end(elf);
    cfi_free(ours);
    return 0;
}
