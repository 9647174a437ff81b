/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/size.h"

#include "unwind/luajit/slot.h"

static uint64_t ref(const struct luajit_layout *l, const uint8_t *head, int32_t at)
{
    return luajit_load_ref(l, head + at);
}

static uint64_t aligned(uint64_t size)
{
    return (size + 7) & ~UINT64_C(7);
}

static bool in_head(const int32_t *offsets, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        if (offsets[i] < 0 || offsets[i] > LUAJIT_HEAD - 8)
            return false;
    }
    return true;
}

bool luajit_sizes_known(const struct luajit_layout *l)
{
    const int32_t offsets[] = {l->gct,          l->str_len,        l->proto_sizept,
                               l->func_ffid,    l->func_nupvalues, l->trace_snapmap,
                               l->trace_mcode,  l->trace_szmcode,  l->proto_k,
                               l->proto_sizebc, l->trace_snap};
    return in_head(offsets, sizeof(offsets) / sizeof(*offsets)) &&
           (l->ref_size == 4 || l->ref_size == 8) && l->func_upvalues > 0 && l->func_c > 0 &&
           l->str_size > 0 && l->proto_size > 0;
}

bool luajit_tables_known(const struct luajit_layout *l)
{
    const int32_t offsets[] = {l->gct,       l->tab_hmask, l->tab_array,
                               l->tab_asize, l->tab_node,  l->tab_node - 3 * l->ref_size,
                               l->upval_v};
    return in_head(offsets, sizeof(offsets) / sizeof(*offsets)) &&
           (l->ref_size == 4 || l->ref_size == 8);
}

uint64_t luajit_function_size(const struct luajit_layout *l, const uint8_t *head)
{
    uint64_t nr = head[l->func_nupvalues];
    if (head[l->func_ffid] == 0)
        return (uint64_t)l->func_upvalues + nr * (uint64_t)l->ref_size;
    return (uint64_t)l->func_c + 8 + nr * LUAJIT_SLOT;
}

uint64_t luajit_proto_size(const struct luajit_layout *l, uint64_t address, const uint8_t *head)
{
    uint64_t size = load_u32(head + l->proto_sizept, false);
    uint64_t k = ref(l, head, l->proto_k) - address;
    uint64_t code = (uint64_t)l->proto_size + 4 * (uint64_t)load_u32(head + l->proto_sizebc, false);
    return code > (uint64_t)l->proto_size && code <= k && k <= size ? size : 0;
}

/* The places of the counts depend on the size of a snapshot: 12 bytes since 2019, 8 bytes before
 * (facts, GCtrace). */
struct luajit_snapshots luajit_snapshots_of(const struct luajit_layout *l, const uint8_t *head)
{
    enum { FORM_2 = 12, FORM_1 = 8, FORM_1_MAP = 2 };
    uint64_t bytes =
        load_u64(head + l->trace_snapmap, false) - load_u64(head + l->trace_snap, false);
    const uint8_t *count = head + (l->gc64 ? 0xa : 6), *other = head + (l->gc64 ? 0x2c : 0x1c);
    if (bytes && bytes == FORM_2 * (uint64_t)load_u16(count, false))
        return (struct luajit_snapshots){bytes, 4 * (uint64_t)load_u32(other, false), FORM_2};
    if (bytes && bytes == FORM_1 * (uint64_t)load_u16(other, false))
        return (struct luajit_snapshots){bytes, 4 * (uint64_t)load_u16(other + FORM_1_MAP, false),
                                         FORM_1};
    return (struct luajit_snapshots){0};
}

uint64_t luajit_trace_size(const struct luajit_layout *l, uint64_t address, const uint8_t *head)
{
    uint64_t snap = load_u64(head + l->trace_snap, false) - address;
    struct luajit_snapshots s = luajit_snapshots_of(l, head);
    return s.each && snap >= LUAJIT_HEAD / 2 && snap <= LUAJIT_TRACE_MAX
               ? snap + s.bytes + s.map_bytes
               : 0;
}

/* Since strings have a longer head (June 2020), their text is padded to whole words. */
uint64_t luajit_string_bytes(const struct luajit_layout *l, uint32_t length)
{
    bool padded = l->str_len >= (l->gc64 ? 0x14 : 0x10);
    return (uint64_t)l->str_size + (padded ? ((uint64_t)length + 4) & ~UINT64_C(3) : length + 1ull);
}

uint64_t luajit_upvalue_bytes(const struct luajit_layout *l)
{
    enum { HASH = 4 }; /* behind the address of the value */
    return aligned((uint64_t)l->upval_v + (uint64_t)l->ref_size + HASH);
}

bool luajit_table_of(const struct luajit_layout *l, const uint8_t *head, struct luajit_table *ret)
{
    enum { COLO = 2, COLO_MASK = 0x7f, COLO_APART = 0x80, HASH_MASK = 4 };
    const uint32_t hmask = load_u32(head + l->tab_hmask, false);
    const uint8_t colo = head[l->gct + COLO]; /* slots of an array that is in the table's block */
    *ret = (struct luajit_table){.array = ref(l, head, l->tab_array),
                                 .nodes = ref(l, head, l->tab_node),
                                 .metatable = ref(l, head, l->tab_node - l->ref_size),
                                 .asize = load_u32(head + l->tab_asize, false),
                                 .nr_nodes = hmask + 1};
    if (ret->asize >= 1u << 31 || hmask >= 1u << 31 || (hmask & (hmask + 1)))
        return false;
    ret->size = (uint64_t)l->tab_hmask + HASH_MASK + (l->gc64 ? (uint64_t)l->ref_size : 0) +
                (uint64_t)LUAJIT_SLOT * (colo & COLO_MASK);
    if (!colo || colo & COLO_APART)
        ret->size += (uint64_t)LUAJIT_SLOT * ret->asize;
    if (hmask)
        ret->size += (uint64_t)LUAJIT_NODE * ret->nr_nodes;
    return true;
}

/* Tables and userdata have their metatables at the same offset. Behind it there are 4 bytes in a
 * userdata, then its own data. */
uint64_t luajit_userdata_data(const struct luajit_layout *l)
{
    enum { MORE = 4 };
    return aligned((uint64_t)l->tab_node + MORE);
}

/* The number of the type follows the object's type. */
uint64_t luajit_cdata_data(const struct luajit_layout *l)
{
    return aligned((uint64_t)l->gct + 1 + sizeof(uint16_t));
}

/* Before the metatable there is the length, and before that the environment. */
struct luajit_userdata luajit_userdata_of(const struct luajit_layout *l, const uint8_t *head)
{
    const int32_t metatable = l->tab_node - l->ref_size;
    const int32_t length = metatable - l->ref_size, environment = length - l->ref_size;
    return (struct luajit_userdata){.metatable = ref(l, head, metatable),
                                    .environment = ref(l, head, environment),
                                    .size =
                                        luajit_userdata_data(l) + load_u32(head + length, false)};
}
