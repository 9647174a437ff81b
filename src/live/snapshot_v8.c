/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/snapshot_v8.h"

#include "unwind/v8/heap.h"
#include "unwind/v8/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TABLE_MAX = 1 << 24,    /* bytes of a table of positions, or of bytecode */
    ELEMENTS_MAX = 1 << 16, /* elements of an array of references */
    PAGE = 4096,
};

struct taking {
    struct v8_reader r; /* what it reads is kept */
    struct page_log *pages;
    struct v8_names *names;
    struct snapshot_v8_stats stats;
    bool no_memory;
};

/* Keep an array; `each`: bytes of an element. */
static void keep_array(struct taking *t, uint64_t array, uint64_t each)
{
    uint64_t length;
    if (!v8_is_pointer(array) || v8_type(&t->r, array) < 0 ||
        !v8_slot(&t->r, array, t->r.layout->array_length, &length) || !v8_is_smi(length) ||
        v8_smi(length) <= 0 || (uint64_t)v8_smi(length) > TABLE_MAX / each)
        return;
    (void)page_log_keep(t->pages, v8_address(array) + (uint64_t)t->r.layout->array_data,
                        each * (uint64_t)v8_smi(length));
}

/* Keep the bytecode, which shows where baseline code is, and its table of positions. */
static void keep_bytecode(struct taking *t, uint64_t bytecode)
{
    const struct v8_layout *l = t->r.layout;
    uint64_t length, positions;
    if (!v8_slot(&t->r, bytecode, l->array_length, &length) || !v8_is_smi(length) ||
        v8_smi(length) <= 0 || v8_smi(length) > TABLE_MAX)
        return;
    (void)page_log_keep(t->pages, v8_address(bytecode) + (uint64_t)l->bytecode_data,
                        (uint64_t)v8_smi(length));
    if (v8_slot(&t->r, bytecode, l->bytecode_positions, &positions))
        keep_array(t, positions, 1);
}

static bool take_function(void *context, uint64_t tagged)
{
    struct taking *t = context;
    struct v8_sfi sfi;
    struct v8_named named;
    if (!v8_sfi_read(&t->r, tagged, &sfi))
        return true;
    t->stats.functions++;
    if (v8_names_function(t->names, &t->r, 0, 0, &sfi, 0, &named) < 0) {
        t->no_memory = true;
        return false;
    }
    if (!sfi.bytecode)
        return true;
    keep_bytecode(t, sfi.bytecode);
    page_log_index(t->pages, sfi.bytecode, sfi.sfi);
    return true;
}

/* Keep the deoptimization data, and what it refers to: translations, functions, inlined
 * functions. */
static void keep_deopt(struct taking *t, const struct v8_code *c)
{
    enum { TRANSLATIONS = 0 };
    const struct v8_layout *l = t->r.layout;
    uint64_t element;
    keep_array(t, c->deopt, 8);
    if (c->kind == V8_CODE_MAGLEV && v8_deopt_element(&t->r, c, TRANSLATIONS, &element))
        keep_array(t, element, 1);
    (void)v8_code_sfi(&t->r, c);
    if (v8_deopt_element(&t->r, c, l->deopt_literals, &element))
        keep_array(t, element, 8);
    if (v8_deopt_element(&t->r, c, l->deopt_inlining, &element))
        keep_array(t, element, 1);
}

/* Keep whole pages, because a search for the head of the code reads whole pages. */
static bool take_code(void *context, uint64_t pc, uint64_t low)
{
    struct taking *t = context;
    struct v8_code c;
    if (!v8_code_find(&t->r, pc, low, &c))
        return true;
    t->stats.code++;
    uint64_t start = low & ~(uint64_t)(PAGE - 1);
    uint64_t end = (v8_safepoints_end(&t->r, &c) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    (void)page_log_keep(t->pages, start, end - start);
    keep_array(t, c.positions, 1);
    if (c.kind == V8_CODE_MAGLEV || c.kind == V8_CODE_TURBOFAN)
        keep_deopt(t, &c);
    return true;
}

static int take_all(struct taking *t, const lua_scan_range_list *ranges, struct error *err)
{
    const struct memory_layer peek = page_log_peek(t->pages);
    const struct memory m = {.layers = &peek, .nr_layers = 1};
    const struct v8_heap_visitor visitor = {take_function, take_code, t};
    if (v8_heap_scan(&m, t->r.layout, ranges->at, ranges->nr, &visitor, err) < 0)
        return -1;
    return t->no_memory ? error_no_memory(err) : 0;
}

int snapshot_v8(pid_t pid, const struct v8_layout *layout, struct page_log *pages,
                struct snapshot_v8_stats *ret, struct error *err)
{
    const struct memory_layer kept = page_log_layer(pages);
    const struct memory m = {.layers = &kept, .nr_layers = 1};
    struct taking t = {.r = {.memory = &m, .layout = layout}, .pages = pages};
    lua_scan_range_list ranges = {0};
    struct managed_names *managed = managed_names_create();
    t.names = managed ? v8_names_create(managed) : NULL;
    if (t.names)
        v8_names_only_read(t.names);
    int failed = t.names ? lua_scan_ranges(pid, &ranges, err) : error_no_memory(err);
    if (!failed)
        failed = take_all(&t, &ranges, err);
    v8_names_free(t.names);
    managed_names_free(managed);
    vec_free(&ranges);
    *ret = t.stats;
    return failed;
}
