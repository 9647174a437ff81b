/* SPDX-License-Identifier: GPL-2.0-only */
/* Compares exported functions with the layout, by the displacements of their memory operands. */
#include "unwind/luajit/crosscheck.h"

#include <capstone/capstone.h>
#include <string.h>

enum { OPERANDS_MAX = 64, INSTRUCTIONS_MAX = 80, CODE_MAX = 320 };

/* Memory operands of the beginning of a function: up to its first return or jump. */
struct operands {
    int32_t displacement[OPERANDS_MAX];
    unsigned nr;
    int32_t cleared; /* displacement whose bit 4 is cleared (and [..], ~0x10); 0: none */
};

static void note_operand(const cs_x86 *x, struct operands *ret)
{
    for (unsigned i = 0; i < x->op_count; i++) {
        const cs_x86_op *op = &x->operands[i];
        if (op->type != X86_OP_MEM || op->mem.base == X86_REG_RSP || op->mem.base == X86_REG_RIP ||
            op->mem.base == X86_REG_INVALID)
            continue;
        if (ret->nr < OPERANDS_MAX)
            ret->displacement[ret->nr++] = (int32_t)op->mem.disp;
    }
    /* JIT_STATE's "active" bit: lua_sethook aborts a recording. */
    if (x->op_count == 2 && x->operands[0].type == X86_OP_MEM &&
        x->operands[1].type == X86_OP_IMM && (int32_t)x->operands[1].imm == ~0x10)
        ret->cleared = (int32_t)x->operands[0].mem.disp;
}

static bool read_operands(csh handle, const struct luajit_image *image, const char *name,
                          struct operands *ret)
{
    uint64_t address;
    *ret = (struct operands){0};
    if (!image->symbol(image->context, name, &address))
        return false;
    const uint8_t *code = image->bytes(image->context, address, CODE_MAX);
    size_t size = CODE_MAX;
    cs_insn *insn = code ? cs_malloc(handle) : NULL;
    for (unsigned i = 0; insn && i < INSTRUCTIONS_MAX; i++) {
        if (!cs_disasm_iter(handle, &code, &size, &address, insn))
            break;
        note_operand(&insn->detail->x86, ret);
        if (insn->id == X86_INS_RET || insn->id == X86_INS_JMP)
            break;
    }
    if (insn)
        cs_free(insn, 1);
    return ret->nr > 0;
}

static bool has(const struct operands *o, int32_t value)
{
    for (unsigned i = 0; i < o->nr; i++) {
        if (o->displacement[i] == value)
            return true;
    }
    return false;
}

static void compare(csh handle, const struct luajit_image *image, struct luajit_layout *l)
{
    /* Fields that each function must use. */
    const struct {
        const char *name;
        int32_t fields[3];
    } functions[] = {
        {"lua_status", {l->L_status, LUAJIT_UNKNOWN, LUAJIT_UNKNOWN}},
        {"lua_gettop", {l->L_top, l->L_base, LUAJIT_UNKNOWN}},
        {"lua_atpanic", {l->L_glref, LUAJIT_UNKNOWN, LUAJIT_UNKNOWN}},
        {"lua_gethookmask", {l->L_glref, l->hookmask, LUAJIT_UNKNOWN}},
        {"lua_sethook", {l->L_glref, l->hookmask, LUAJIT_UNKNOWN}},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        struct operands operands;
        if (!read_operands(handle, image, functions[i].name, &operands))
            continue;
        for (unsigned k = 0; k < 3; k++) {
            if (functions[i].fields[k] == LUAJIT_UNKNOWN)
                continue;
            if (has(&operands, functions[i].fields[k])) {
                l->confirmed++;
                continue;
            }
            l->contradicted++;
            if (!l->contradiction)
                l->contradiction = functions[i].name;
        }
        bool in_J =
            l->J != LUAJIT_UNKNOWN && operands.cleared > l->J && operands.cleared < l->g2disp;
        if (in_J && !strcmp(functions[i].name, "lua_sethook"))
            l->state = operands.cleared;
    }
}

void luajit_crosscheck(const struct luajit_image *image, struct luajit_layout *l)
{
    csh handle;
    l->confirmed = l->contradicted = 0;
    l->contradiction = NULL;
    if (!image->symbol || l->machine != LUAJIT_ON_X86_64 ||
        cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
        return;
    if (cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK)
        compare(handle, image, l);
    cs_close(&handle);
}
