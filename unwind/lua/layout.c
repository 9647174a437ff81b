/* SPDX-License-Identifier: GPL-2.0-only */
/* The fields of each version's last release. See layout.h. */
#include "unwind/lua/layout.h"

#include <stddef.h>

/* Fields that a version does not have. */
#define NONE LUA_NO_FIELD

/* Parts that several versions share. */
#define CLOSURE_52                  \
    .closure = {.tag_lua = 6,       \
                .tag_c = 0x26,      \
                .tag_light = 0x16,  \
                .is_c = NONE,       \
                .function = 0x18,   \
                .nr_upvalues = 0xa, \
                .upvalues = 0x20,   \
                .upvalue_v = 0x10}
static const struct lua_fields lua_51 = {
    .state = {.size = 0xb8,
              .status = 0xa,
              .top = 0x10,
              .global = 0x20,
              .ci = 0x28,
              .stack = 0x40,
              .stack_last = 0x38,
              .base_ci = 0x50,
              .hookmask = 0x64,
              .base = 0x18,
              .savedpc = 0x30,
              .open_upvalues = 0x98},
    .ci = {.size = 0x28,
           .base = 0,
           .func = 8,
           .top = 0x10,
           .previous = NONE,
           .next = NONE,
           .savedpc = 0x18,
           .status = NONE,
           .status_size = 0,
           .extra_args = NONE,
           .tail_calls = 0x24,
           .is_array = true},
    .closure = {.tag_lua = 6,
                .tag_c = 6,
                .tag_light = 0xff,
                .is_c = 0xa,
                .function = 0x20,
                .nr_upvalues = 0xb,
                .upvalues = 0x28,
                .upvalue_v = 0x10},
    .proto = {.size = 0x78,
              .k = 0x10,
              .size_k = 0x4c,
              .code = 0x18,
              .size_code = 0x50,
              .lineinfo = 0x28,
              .size_lineinfo = 0x54,
              .abslineinfo = NONE,
              .size_abslineinfo = NONE,
              .line_defined = 0x60,
              .last_line_defined = 0x64,
              .source = 0x40,
              .locvars = 0x30,
              .size_locvars = 0x5c,
              .upvalues = 0x38,
              .size_upvalues = 0x48,
              .upvalue_size = 8,
              .protos = 0x20,
              .size_protos = 0x58,
              .nr_params = 0x71,
              .is_vararg = 0x72,
              .tag = 9},
    .string = {.text = 0x18, .length = 0x10, .short_length = NONE, .short_tag = 4, .long_tag = 4},
    .table = {.array = 0x18,
              .size_array = 0x38,
              .node = 0x20,
              .log2_nodes = 0xb,
              .metatable = 0x10,
              .node_size = 0x28,
              .node_value = 0,
              .node_key = 0x10,
              .node_key_tag = 0x18,
              .node_next = 0x20},
    .global = {.registry = 0xa0, .main_thread = 0xb0, .metatables = 0xe0, .all_objects = 0x28},
    .userdata_metatable = 0x10,
    .value_tag = 8,
    .value_tag_size = 4,
    .value_size = 16,
};

static const struct lua_fields lua_52 = {
    .state = {.size = 0xd0,
              .status = 0xa,
              .top = 0x10,
              .global = 0x18,
              .ci = 0x20,
              .stack = 0x38,
              .stack_last = 0x30,
              .base_ci = 0x80,
              .hookmask = 0x48,
              .base = NONE,
              .savedpc = NONE,
              .open_upvalues = 0x60},
    .ci = {.size = 0x50,
           .base = 0x30,
           .func = 0,
           .top = 8,
           .previous = 0x10,
           .next = 0x18,
           .savedpc = 0x38,
           .status = 0x22,
           .status_size = 1,
           .extra_args = NONE,
           .tail_calls = NONE,
           .lua = 1,
           .fresh = 4,
           .fresh_if_clear = true,
           .tail = 0x40,
           .hooked = 2},
    CLOSURE_52,
    .proto = {.size = 0x80,
              .k = 0x10,
              .size_k = 0x54,
              .code = 0x18,
              .size_code = 0x58,
              .lineinfo = 0x28,
              .size_lineinfo = 0x5c,
              .abslineinfo = NONE,
              .size_abslineinfo = NONE,
              .line_defined = 0x68,
              .last_line_defined = 0x6c,
              .source = 0x48,
              .locvars = 0x30,
              .size_locvars = 0x64,
              .upvalues = 0x38,
              .size_upvalues = 0x50,
              .upvalue_size = 16,
              .protos = 0x20,
              .size_protos = 0x60,
              .nr_params = 0x78,
              .is_vararg = 0x79,
              .tag = 9},
    .string =
        {.text = 0x18, .length = 0x10, .short_length = NONE, .short_tag = 4, .long_tag = 0x14},
    .table = {.array = 0x10,
              .size_array = 0xc,
              .node = 0x18,
              .log2_nodes = 0xb,
              .metatable = 0x28,
              .node_size = 0x28,
              .node_value = 0,
              .node_key = 0x10,
              .node_key_tag = 0x18,
              .node_next = 0x20},
    .global = {.registry = 0x40, .main_thread = 0x108, .metatables = 0x1a8, .all_objects = 0x60},
    .userdata_metatable = 0x10,
    .value_tag = 8,
    .value_tag_size = 4,
    .value_size = 16,
};

static const struct lua_fields lua_53 = {
    .state = {.size = 0xd0,
              .status = 0xc,
              .top = 0x10,
              .global = 0x18,
              .ci = 0x20,
              .stack = 0x38,
              .stack_last = 0x30,
              .base_ci = 0x60,
              .hookmask = 0xc8,
              .base = NONE,
              .savedpc = NONE,
              .open_upvalues = 0x40},
    .ci = {.size = 0x48,
           .base = 0x20,
           .func = 0,
           .top = 8,
           .previous = 0x10,
           .next = 0x18,
           .savedpc = 0x28,
           .status = 0x42,
           .status_size = 2,
           .extra_args = NONE,
           .tail_calls = NONE,
           .lua = 2,
           .fresh = 8,
           .tail = 0x20,
           .hooked = 4,
           .finalizer = 0x100},
    .closure = {.tag_lua = 6,
                .tag_c = 0x26,
                .tag_light = 0x16,
                .is_c = NONE,
                .function = 0x18,
                .nr_upvalues = 0xa,
                .upvalues = 0x20,
                .upvalue_v = 0},
    .proto = {.size = 0x78,
              .k = 0x30,
              .size_k = 0x14,
              .code = 0x38,
              .size_code = 0x18,
              .lineinfo = 0x48,
              .size_lineinfo = 0x1c,
              .abslineinfo = NONE,
              .size_abslineinfo = NONE,
              .line_defined = 0x28,
              .last_line_defined = 0x2c,
              .source = 0x68,
              .locvars = 0x50,
              .size_locvars = 0x24,
              .upvalues = 0x58,
              .size_upvalues = 0x10,
              .upvalue_size = 16,
              .protos = 0x40,
              .size_protos = 0x20,
              .nr_params = 0xa,
              .is_vararg = 0xb,
              .tag = 9},
    .string = {.text = 0x18, .length = 0x10, .short_length = 0xb, .short_tag = 4, .long_tag = 0x14},
    .table = {.array = 0x10,
              .size_array = 0xc,
              .node = 0x18,
              .log2_nodes = 0xb,
              .metatable = 0x28,
              .node_size = 0x20,
              .node_value = 0,
              .node_key = 0x10,
              .node_key_tag = 0x18,
              .node_next = 0x1c},
    .global = {.registry = 0x40, .main_thread = 0xc8, .metatables = 0x1a0, .all_objects = 0x58},
    .userdata_metatable = 0x10,
    .value_tag = 8,
    .value_tag_size = 4,
    .value_size = 16,
};

static const struct lua_fields lua_54 = {
    .state = {.size = 0xc8,
              .status = 0xa,
              .top = 0x10,
              .global = 0x18,
              .ci = 0x20,
              .stack = 0x30,
              .stack_last = 0x28,
              .base_ci = 0x60,
              .hookmask = 0xc0,
              .base = NONE,
              .savedpc = NONE,
              .open_upvalues = 0x38},
    .ci = {.size = 0x40,
           .base = NONE,
           .func = 0,
           .top = 8,
           .previous = 0x10,
           .next = 0x18,
           .savedpc = 0x20,
           .status = 0x3e,
           .status_size = 2,
           .extra_args = 0x2c,
           .tail_calls = NONE,
           .c = 2,
           .fresh = 4,
           .tail = 0x20,
           .hooked = 8,
           .finalizer = 0x80},
    CLOSURE_52,
    .proto = {.size = 0x80,
              .k = 0x38,
              .size_k = 0x14,
              .code = 0x40,
              .size_code = 0x18,
              .lineinfo = 0x58,
              .size_lineinfo = 0x1c,
              .abslineinfo = 0x60,
              .size_abslineinfo = 0x28,
              .line_defined = 0x2c,
              .last_line_defined = 0x30,
              .source = 0x70,
              .locvars = 0x68,
              .size_locvars = 0x24,
              .upvalues = 0x50,
              .size_upvalues = 0x10,
              .upvalue_size = 16,
              .protos = 0x48,
              .size_protos = 0x20,
              .nr_params = 0xa,
              .is_vararg = 0xb,
              .tag = 0xa,
              .signed_lines = true},
    .string = {.text = 0x18, .length = 0x10, .short_length = 0xb, .short_tag = 4, .long_tag = 0x14},
    .table = {.array = 0x10,
              .size_array = 0xc,
              .node = 0x18,
              .log2_nodes = 0xb,
              .metatable = 0x28,
              .node_size = 0x18,
              .node_value = 0,
              .node_key = 0x10,
              .node_key_tag = 9,
              .node_next = 0xc},
    .global = {.registry = 0x40, .main_thread = 0x108, .metatables = 0x1e0, .all_objects = 0x70},
    .userdata_metatable = 0x18,
    .value_tag = 8,
    .value_tag_size = 1,
    .value_size = 16,
};

/* 5.5 has the fields of 5.4, but for these. */
static void change_to_55(struct lua_fields *f)
{
    f->state.size = 0xd0;
    f->state.status = 0xb;
    f->state.hookmask = 0xc4;
    f->ci.status = 0x3c;
    f->ci.status_size = 4;
    f->ci.c = 0x8000;
    f->ci.fresh = 0x10000;
    f->ci.tail = 0x400000;
    f->ci.hooked = 0x100000;
    f->ci.finalizer = 0x1000000;
    f->string.long_is_pointer = true;
    f->table.metatable = 0x20;
    f->table.split_array = true;
    f->global.main_thread = 0x588;
    f->global.main_is_embedded = true;
    f->global.metatables = 0x1d8;
}

bool lua_fields_of(unsigned version, struct lua_fields *ret)
{
    static const struct lua_fields *const all[] = {&lua_51, &lua_52, &lua_53, &lua_54, &lua_54};
    if (version < 51 || version - 51 >= sizeof(all) / sizeof(*all))
        return false;
    *ret = *all[version - 51];
    if (version == 55)
        change_to_55(ret);
    return true;
}

const struct lua_site *lua_site_at(const struct lua_layout *l, uint64_t return_address)
{
    for (unsigned low = 0, high = l->nr_sites; low < high;) {
        unsigned mid = low + (high - low) / 2;
        if (l->sites[mid].at == return_address)
            return &l->sites[mid];
        if (l->sites[mid].at < return_address)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const struct lua_fetch *lua_fetch_at(const struct lua_layout *l, uint64_t at)
{
    for (unsigned i = 0; i < l->nr_fetches; i++) {
        const struct lua_fetch *f = &l->fetches[i];
        if (at >= f->start && at < f->end)
            return f;
    }
    return NULL;
}
