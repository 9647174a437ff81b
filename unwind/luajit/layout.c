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
