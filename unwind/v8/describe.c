/* SPDX-License-Identifier: GPL-2.0-only */
/* Describes the V8 of a file to a person: its version, its layout, and the source of each value. */
#include "base/text.h"
#include "unwind/v8/runtime.h"

#include <inttypes.h>
#include <stdio.h>

static void put_field(struct text *out, const struct v8_layout *l, enum v8_field field)
{
    struct v8_field_view f = v8_layout_field(l, field);
    char told[96];
    if (f.value == V8_UNKNOWN) {
        text_printf(out, "  %-22s %6s  %-48s  %s\n", f.name, "-", "", f.text);
        return;
    }
    snprintf(told, sizeof(told), f.metadata ? "v8dbg_%s" : "table: Node %s",
             f.metadata ? f.symbol : l->node);
    text_printf(out, "  %-22s %6" PRId32 "  %-48s  %s\n", f.name, f.value, told, f.text);
}

void v8_describe(const void *layout, const struct runtime_image *image, struct text *out)
{
    const struct v8_layout *l = layout;
    unsigned told = 0;
    (void)image;
    text_printf(
        out, "V8 %" PRId32 ".%" PRId32 ".%" PRId32 ".%" PRId32 ", with the layout of %sNode %s\n",
        l->version[0], l->version[1], l->version[2], l->version[3],
        l->verified ? "" : "the next older known one, ", l->node);
    text_printf(
        out, "  %zu builtins at 0x%" PRIx64 ", %" PRIu64 " bytes; sizes of %" PRIu32 " bytecodes\n",
        l->nr_builtins, l->blob, l->blob_size, l->nr_bytecodes);
    text_printf(out, "  %-22s %6s  %-48s  %s\n", "name", "value", "source", "meaning");
    for (int i = 0; i < V8_NR_FIELDS; i++) {
        told += v8_layout_field(l, (enum v8_field)i).metadata;
        put_field(out, l, (enum v8_field)i);
    }
    text_printf(out, "  %u of %d values are from the file's own metadata\n", told, V8_NR_FIELDS);
}
