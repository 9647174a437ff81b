/* SPDX-License-Identifier: GPL-2.0-only */
/* An ELF file as the discovery of runtimes sees it. See runtime_image.h. */
#include "dso/runtime_image.h"
#include "base/cursor.h"
#include "dso/elf_symbol.h"

#include <elf.h>

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    const struct elf_image *e = ((const struct elf_runtime_image *)context)->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        uint64_t at = address - p->vaddr;
        if (p->type == PT_LOAD && at < p->filesz && p->filesz - at >= size && elf_image_holds(e, p))
            return e->bytes + p->offset + at;
    }
    return NULL;
}

static bool exported(void *context, const char *name, uint64_t *address)
{
    return elf_exported_symbol(((const struct elf_runtime_image *)context)->image, name, address);
}

static bool segment_at(void *context, size_t index, struct runtime_segment *ret)
{
    const struct elf_image *e = ((const struct elf_runtime_image *)context)->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type != PT_LOAD || index--)
            continue;
        uint64_t size = elf_image_holds(e, p) ? p->filesz : 0;
        *ret = (struct runtime_segment){p->vaddr, size, p->flags & PF_X, p->flags & PF_W};
        return true;
    }
    return false;
}

/* The value that the loader writes to the word at `address` is the addend of a relative relocation.
 * .rela.dyn has these first, sorted by address. */
static uint64_t word_at(void *context, uint64_t address)
{
    const struct elf_runtime_image *v = context;
    const struct elf_section *r = &v->relocations;
    const struct arch *arch = arch_by_elf(v->image->machine, v->image->is64);
    size_t low = 0, high = arch && r->bytes ? r->size / sizeof(Elf64_Rela) : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const uint8_t *at = r->bytes + mid * sizeof(Elf64_Rela);
        bool relative = ELF64_R_TYPE(load_u64(at + 8, false)) == arch->elf_relative;
        uint64_t offset = load_u64(at, false);
        if (relative && offset == address)
            return load_u64(at + 16, false);
        if (relative && offset < address)
            low = mid + 1;
        else
            high = mid;
    }
    const uint8_t *bytes = bytes_at(context, address, sizeof(uint64_t));
    return bytes ? load_u64(bytes, false) : 0;
}

static void open_table(const struct elf_image *e, const char *name, const char *strings,
                       struct runtime_symbols *ret)
{
    struct elf_section s, names;
    *ret = (struct runtime_symbols){0};
    if (!elf_image_section(e, name, &s) || !s.bytes || !elf_image_section(e, strings, &names) ||
        !names.bytes || !names.size || names.bytes[names.size - 1] != 0)
        return;
    *ret = (struct runtime_symbols){.entries = s.bytes,
                                    .nr = s.size / sizeof(Elf64_Sym),
                                    .strings = (const char *)names.bytes,
                                    .strings_size = names.size};
    uint32_t nr_local = s.type == SHT_SYMTAB ? e->tables->sections[s.index].info : UINT32_MAX;
    ret->nr_local = nr_local < ret->nr ? nr_local : ret->nr;
}

static void symbols(void *context, struct runtime_symbols ret[static 3])
{
    const struct elf_runtime_image *v = context;
    const struct elf_image *e = v->image;
    open_table(e, ".dynsym", ".dynstr", &ret[0]);
    open_table(e, ".symtab", ".strtab", &ret[1]);
    ret[2] = (struct runtime_symbols){0};
    const struct elf_image *debug = !ret[1].nr && v->debug ? v->debug(v->debug_context) : NULL;
    if (debug && debug != e && debug->machine == e->machine && debug->is64)
        open_table(debug, ".symtab", ".strtab", &ret[2]);
}

struct runtime_image elf_runtime_image(struct elf_runtime_image *of, const struct cfi *cfi)
{
    if (!elf_image_section(of->image, ".rela.dyn", &of->relocations))
        of->relocations = (struct elf_section){0};
    return (struct runtime_image){.name = of->image->path,
                                  .stays = of->stays,
                                  .cfi = cfi,
                                  .bytes = bytes_at,
                                  .exported = exported,
                                  .segment = segment_at,
                                  .word = word_at,
                                  .symbols = symbols,
                                  .context = of};
}
