/* SPDX-License-Identifier: GPL-2.0-only */
/* A layout, field by field. */
#include "unwind/luajit/layout.h"

struct luajit_field_view luajit_layout_field(const struct luajit_layout *l, enum luajit_field f)
{
    static const struct {
        const char *name, *text;
        size_t offset;
    } fields[LUAJIT_NR_FIELDS] = {
#define X(name, text) {#name, text, offsetof(struct luajit_layout, name)},
        LUAJIT_FIELDS(X)
#undef X
    };
    const int32_t *value = (const void *)((const char *)l + fields[f].offset);
    uint64_t evidence = l->evidence[f] ? l->blob + l->evidence[f] - 1 : 0;
    return (struct luajit_field_view){fields[f].name, fields[f].text, *value, evidence};
}

/* FUNCC is six behind FUNCF. The calls are at fixed distances from JLOOP's family. */
bool luajit_layout_opcodes(struct luajit_layout *l)
{
    static const struct {
        uint8_t funcf, callm, call, iterc, itern, jloop;
        enum luajit_bytecode which;
    } known[] = {
        {0x55, 0x3d, 0x3e, 0x41, 0x42, 0x53, LUAJIT_BC_20},
        {0x59, 0x41, 0x42, 0x45, 0x46, 0x57, LUAJIT_BC_21},
        {0x60, 0x41, 0x42, 0x45, 0x46, 0x57, LUAJIT_BC_2607},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (l->op_funcf != known[i].funcf)
            continue;
        l->op_funcc = l->op_funcf + 6;
        l->op_callm = known[i].callm;
        l->op_call = known[i].call;
        l->op_iterc = known[i].iterc;
        l->op_itern = known[i].itern;
        l->op_jloop = known[i].jloop;
        l->bytecode = known[i].which;
        return true;
    }
    return false;
}
