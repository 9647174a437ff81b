/* SPDX-License-Identifier: GPL-2.0-only */
/* Creates a cfi, and finds the FDE of an address. */
#include "unwind/native/cfi.h"

#include "base/vec.h"

#include <stdlib.h>

/* ---- .eh_frame_hdr ------------------------------------------------------------------------- */

static int32_t load_s32(const struct cfi *cfi, const uint8_t *at)
{
    return (int32_t)load_u32(at, cfi->swapped);
}

/* Can the table be used in place? It can if it is sorted (a search of an unsorted table may find
 * anything). One pass. */
static bool entries_sorted(const struct cfi *cfi, const uint8_t *entries, size_t nr)
{
    for (size_t i = 1; i < nr; i++) {
        if (load_s32(cfi, entries + 8 * (i - 1)) > load_s32(cfi, entries + 8 * i))
            return false;
    }
    return true;
}

/* Uses the header's search table if it has the one form that linkers write: pairs of 4-byte offsets
 * from the header. */
static bool use_header(struct cfi *cfi, struct cfi_table *table, const struct cfi_section *header)
{
    if (!header->bytes)
        return false;
    struct cursor c =
        cursor_make(header->bytes, header->size, cfi->swapped, cfi->name, ".eh_frame_hdr", 0);
    uint8_t version = cursor_u8(&c), frame_encoding = cursor_u8(&c);
    uint8_t count_encoding = cursor_u8(&c), table_encoding = cursor_u8(&c);
    uint64_t frame, nr;
    if (version != 1 || table_encoding != (PE_DATAREL | PE_SDATA4) || count_encoding == PE_OMIT ||
        !cfi_read_pointer(cfi, &c, header->address, frame_encoding, 8, &frame) ||
        !cfi_read_pointer(cfi, &c, header->address, count_encoding, 8, &nr))
        return false;
    if (nr == 0 || nr > cursor_left(&c) / 8 || !entries_sorted(cfi, c.at, nr))
        return false;
    table->entries = c.at;
    table->nr = nr;
    table->base = header->address;
    return true;
}

/* ---- index --------------------------------------------------------------------------------- */

void cfi_walk(const struct cfi *cfi, const struct cfi_table *table,
              bool (*each)(void *context, const struct fde *fde, uint64_t offset), void *context)
{
    uint64_t next;
    for (uint64_t offset = 0; offset < table->section.size; offset = next) {
        struct fde fde;
        if (cfi_read_fde(cfi, table, offset, &fde, &next) && fde.size > 0 &&
            !each(context, &fde, offset))
            return;
    }
}

struct index_builder {
    VEC(struct fde_place) places;
    bool no_memory;
};

static bool index_add(void *context, const struct fde *fde, uint64_t offset)
{
    struct index_builder *b = context;
    b->no_memory = !vec_push(&b->places, (struct fde_place){fde->begin, offset});
    return !b->no_memory;
}

static int compare_places(const void *a, const void *b)
{
    const struct fde_place *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int build_index(struct cfi *cfi, struct cfi_table *table, struct error *err)
{
    struct index_builder b = {0};
    cfi_walk(cfi, table, index_add, &b);
    if (b.no_memory) {
        vec_free(&b.places);
        return error_no_memory(err);
    }
    if (b.places.nr > 0)
        qsort(b.places.at, b.places.nr, sizeof(*b.places.at), compare_places);
    table->index = b.places.at;
    table->nr = b.places.nr;
    return 0;
}

/* ---- create -------------------------------------------------------------------------------- */

static uint64_t entry_begin(const struct cfi *cfi, const struct cfi_table *table, size_t i)
{
    if (table->index)
        return table->index[i].begin;
    return table->base + (uint64_t)(int64_t)load_s32(cfi, table->entries + 8 * i);
}

static int add_table(struct cfi *cfi, const struct cfi_section *section, bool is_eh,
                     const struct cfi_section *header, struct error *err)
{
    if (!section->bytes || section->size == 0)
        return 0;
    struct cfi_table *table = &cfi->tables[cfi->nr_tables];
    *table = (struct cfi_table){.section = *section, .is_eh = is_eh};
    if ((!header || !use_header(cfi, table, header)) && build_index(cfi, table, err))
        return -1;
    if (!table->entries && !table->index)
        return 0; /* the section has no FDE */
    cfi->nr_tables++;
    uint64_t low = entry_begin(cfi, table, 0);
    if (low < cfi->low)
        cfi->low = low;
    return 0;
}

int cfi_create(const struct cfi_source *source, struct cfi **ret, struct error *err)
{
    if (!source->arch)
        return error_set(err, ERROR_UNSUPPORTED, "%s: this module is of an unknown machine",
                         source->name ? source->name : "?");
    struct cfi *cfi = calloc(1, sizeof(*cfi));
    if (!cfi || !(cfi->name = strdup(source->name ? source->name : "?"))) {
        free(cfi);
        return error_no_memory(err);
    }
    cfi->text_address = source->text_address;
    cfi->data_address = source->data_address;
    cfi->entry = source->entry;
    cfi->swapped = source->swapped;
    cfi->id = source->id;
    cfi->arch = source->arch;
    cfi->low = UINT64_MAX;
    if (add_table(cfi, &source->eh_frame, true, &source->eh_frame_hdr, err) ||
        add_table(cfi, &source->debug_frame, false, NULL, err)) {
        cfi_free(cfi);
        return -1;
    }
    if (cfi->nr_tables == 0 && !source->eh_frame.bytes && !source->debug_frame.bytes)
        cfi->low = 0; /* a file without CFI: its entry and its runtimes are known */
    else if (cfi->nr_tables == 0) {
        error_set(err, ERROR_FORMAT, "%s: the file has no usable call frame information",
                  cfi->name);
        cfi_free(cfi);
        return -1;
    }
    *ret = cfi;
    return 0;
}

void cfi_free(struct cfi *cfi)
{
    if (!cfi)
        return;
    for (unsigned i = 0; i < cfi->nr_tables; i++)
        free(cfi->tables[i].index);
    for (unsigned i = 0; i < cfi->nr_runtimes; i++)
        cfi->runtimes[i].runtime->layout_free(cfi->runtimes[i].layout);
    free(cfi->name);
    free(cfi);
}

bool cfi_has_rules(const struct cfi *cfi)
{
    return cfi && cfi->nr_tables;
}

int cfi_add_runtime(struct cfi *cfi, const struct runtime *rt, void *layout, struct error *err)
{
    if (cfi->nr_runtimes == RUNTIMES_MAX) {
        rt->layout_free(layout);
        return error_set(err, ERROR_UNSUPPORTED, "%s: the file has more than %d runtimes",
                         cfi->name, RUNTIMES_MAX);
    }
    cfi->runtimes[cfi->nr_runtimes].runtime = rt;
    cfi->runtimes[cfi->nr_runtimes++].layout = layout;
    return 0;
}

bool cfi_is_entry(const struct cfi *cfi, uint64_t address)
{
    return cfi->entry && address - cfi->entry < cfi->arch->start_size;
}

const void *cfi_runtime(const struct cfi *cfi, const struct runtime *rt)
{
    for (unsigned i = 0; cfi && i < cfi->nr_runtimes; i++) {
        if (cfi->runtimes[i].runtime == rt)
            return cfi->runtimes[i].layout;
    }
    return NULL;
}

/* ---- find ---------------------------------------------------------------------------------- */

/* Returns the offset in the section that entry `i` gives. */
static uint64_t entry_offset(const struct cfi *cfi, const struct cfi_table *table, size_t i)
{
    if (table->index)
        return table->index[i].offset;
    uint64_t at = table->base + (uint64_t)(int64_t)load_s32(cfi, table->entries + 8 * i + 4);
    return at - table->section.address;
}

bool cfi_fde_at(const struct cfi *cfi, const struct cfi_table *table, uint64_t address,
                uint64_t *ret)
{
    size_t low = 0, nr = table->nr;
    while (nr > 0) {
        size_t half = nr / 2;
        bool right = entry_begin(cfi, table, low + half) <= address;
        low = right ? low + half + 1 : low;
        nr = right ? nr - half - 1 : half;
    }
    if (low == 0)
        return false;
    *ret = entry_offset(cfi, table, low - 1);
    return true;
}

/* Returns the first entry from `i` on that begins at least `least` bytes before the next one, or
 * the last entry. */
static size_t find_large(const struct cfi *cfi, const struct cfi_table *table, size_t i,
                         uint64_t least)
{
    const struct cfi_table t = *table;
    bool swapped = cfi->swapped;
    if (t.index) {
        while (i + 1 < t.nr && t.index[i + 1].begin - t.index[i].begin < least)
            i++;
        return i;
    }
    uint32_t begin = load_u32(t.entries + 8 * i, swapped);
    for (; i + 1 < t.nr; i++) {
        uint32_t next = load_u32(t.entries + 8 * i + 8, swapped);
        if (next - begin >= least)
            break;
        begin = next;
    }
    return i;
}

void cfi_walk_large(const struct cfi *cfi, const struct cfi_table *table, uint64_t least,
                    bool (*each)(void *context, const struct fde *fde, uint64_t offset),
                    void *context)
{
    for (size_t i = 0; i < table->nr; i++) {
        struct fde fde;
        i = find_large(cfi, table, i, least);
        uint64_t offset = entry_offset(cfi, table, i);
        if (cfi_read_fde(cfi, table, offset, &fde, NULL) && fde.size >= least &&
            !each(context, &fde, offset))
            return;
    }
}

const struct cfi_table *cfi_find_fde(const struct cfi *cfi, uint64_t address, struct fde *ret)
{
    for (unsigned i = 0; i < cfi->nr_tables; i++) {
        const struct cfi_table *table = &cfi->tables[i];
        uint64_t offset;
        if (cfi_fde_at(cfi, table, address, &offset) &&
            cfi_read_fde(cfi, table, offset, ret, NULL) && address - ret->begin < ret->size)
            return table;
    }
    return NULL;
}

bool cfi_row(const struct cfi *cfi, uint64_t address, struct cfi_row *ret)
{
    struct fde fde;
    const struct cfi_table *table = cfi_find_fde(cfi, address, &fde);
    return table && fde.cie.ra_register == cfi->arch->reg.ra &&
           cfi_run(cfi, table, &fde, address, ret);
}

bool cfi_function(const struct cfi *cfi, uint64_t address, uint64_t *begin, uint64_t *end)
{
    struct fde fde;
    bool found = cfi_find_fde(cfi, address, &fde) != NULL;
    if (found)
        *begin = fde.begin;
    if (found && end)
        *end = fde.begin + fde.size;
    return found;
}
