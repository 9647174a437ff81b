/* SPDX-License-Identifier: GPL-2.0-only */
/* The unit index: version 2 (GNU, with DWARF 4) and 5. Its hash table is not needed here. */
#include "symbols/dwarf_package.h"
#include "base/cursor.h"

#include <stdlib.h>

/* Section numbers in the index that matter here; the last one exists only in version 5. */
enum { PART_INFO = 1, PART_ABBREV = 3, PART_STR_OFFSETS = 6, PART_RNGLISTS = 8 };

static int by_info(const void *a, const void *b)
{
    const struct dwarf_part *x = a, *y = b;
    return x->info < y->info ? -1 : x->info > y->info;
}

static void set_part(struct dwarf_part *p, uint32_t version, uint32_t section, uint64_t offset)
{
    if (section == PART_INFO)
        p->info = offset;
    else if (section == PART_ABBREV)
        p->abbrev = offset;
    else if (section == PART_STR_OFFSETS)
        p->str_offsets = offset;
    else if (section == PART_RNGLISTS && version == 5)
        p->rnglists = offset;
}

void dwarf_package_read(struct dwarf_package *p, const struct elf_image *image)
{
    struct elf_section s;
    if (!elf_image_section(image, ".debug_cu_index", &s) || !s.bytes)
        return;
    struct cursor c =
        cursor_make(s.bytes, s.size, image->swapped, image->path, ".debug_cu_index", 0);
    /* In version 5 the version number has 16 bits, followed by 16 bits of padding. */
    uint32_t version = s.size >= 4 && load_u16(s.bytes, image->swapped) == 5 ? 5 : 0;
    uint32_t word = cursor_u32(&c), nr_sections = cursor_u32(&c), nr_units = cursor_u32(&c),
             nr_slots = cursor_u32(&c);
    version = version ? version : word;
    cursor_skip(&c, (uint64_t)nr_slots * 12);
    const uint8_t *ids = cursor_bytes(&c, (uint64_t)nr_sections * 4);
    if (c.failed || (version != 2 && version != 5) || nr_sections == 0 || nr_sections > 16)
        return;
    for (uint32_t i = 0; i < nr_units; i++) {
        struct dwarf_part part = {0};
        for (uint32_t k = 0; k < nr_sections; k++)
            set_part(&part, version, load_u32(ids + 4 * (size_t)k, image->swapped), cursor_u32(&c));
        if (c.failed || !vec_push(&p->parts, part))
            break;
    }
    if (p->parts.nr)
        qsort(p->parts.at, p->parts.nr, sizeof(*p->parts.at), by_info);
}

const struct dwarf_part *dwarf_package_find(const struct dwarf_package *p, uint64_t info)
{
    struct dwarf_part key = {.info = info};
    return p->parts.nr ? bsearch(&key, p->parts.at, p->parts.nr, sizeof(key), by_info) : NULL;
}
