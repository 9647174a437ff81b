/* SPDX-License-Identifier: GPL-2.0-only */
/* Notes of probes. See elf_usdt.h. */
#include "dso/elf_usdt.h"

#include "base/cursor.h"

#include <elf.h>
#include <string.h>

enum { NOTE_STAPSDT = 3 };

/* Returns 0 if no segment has the address in the file. */
static uint64_t offset_of(const struct elf_image *image, uint64_t address)
{
    const struct elf_tables *t = image->tables;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *p = &t->segments[i];
        if (p->type == PT_LOAD && address >= p->vaddr && address - p->vaddr < p->filesz)
            return address - p->vaddr + p->offset;
    }
    return 0;
}

/* Read a note's description: three addresses, as they were before a prelink moved `base`, and three
 * strings. */
static bool read_usdt(const struct elf_image *image, uint64_t base, struct cursor c,
                      struct elf_usdt *ret)
{
    uint64_t address = cursor_u64(&c), base_then = cursor_u64(&c), semaphore = cursor_u64(&c);
    uint64_t moved = base ? base - base_then : 0;
    ret->provider = cursor_string(&c);
    ret->name = cursor_string(&c);
    ret->arguments = cursor_string(&c);
    ret->address = address + moved;
    ret->semaphore = semaphore ? offset_of(image, semaphore + moved) : 0;
    return !c.failed;
}

void elf_usdts(const struct elf_image *image, elf_take_usdt take, void *context)
{
    static const char name[] = "stapsdt";
    enum { ALIGNED = 3 };
    struct elf_section notes, base = {0};
    if (!image->is64 || image->swapped || !elf_image_section(image, ".note.stapsdt", &notes) ||
        !notes.bytes)
        return;
    (void)elf_image_section(image, ".stapsdt.base", &base);
    struct cursor c = cursor_make(notes.bytes, notes.size, false, image->path, ".note.stapsdt", 0);
    while (cursor_left(&c) >= sizeof(Elf64_Nhdr)) {
        uint32_t name_size = cursor_u32(&c), size = cursor_u32(&c), type = cursor_u32(&c);
        const uint8_t *of = cursor_bytes(&c, ((uint64_t)name_size + ALIGNED) & ~(uint64_t)ALIGNED);
        const uint8_t *bytes = cursor_bytes(&c, size);
        const uint64_t rest = -(uint64_t)size & ALIGNED;
        cursor_skip(&c, rest < cursor_left(&c) ? rest : cursor_left(&c));
        if (c.failed)
            return;
        struct elf_usdt usdt;
        if (type == NOTE_STAPSDT && name_size == sizeof(name) && !memcmp(of, name, sizeof(name)) &&
            (!read_usdt(image, base.address,
                        cursor_make(bytes, size, false, image->path, ".note.stapsdt", 0), &usdt) ||
             !take(context, &usdt)))
            return;
    }
}
