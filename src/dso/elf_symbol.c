/* SPDX-License-Identifier: GPL-2.0-only */
#include "dso/elf_symbol.h"

#include "base/cursor.h"

#include <elf.h>
#include <string.h>

struct exports {
    struct elf_section symbols, strings;
    size_t nr;      /* of symbols */
    bool functions; /* no others are wanted */
};

static bool open_exports(const struct elf_image *e, struct exports *ret)
{
    if (!elf_image_section(e, ".dynsym", &ret->symbols) || !ret->symbols.bytes ||
        !elf_image_section(e, ".dynstr", &ret->strings) || !ret->strings.bytes)
        return false;
    ret->nr = ret->symbols.size / sizeof(Elf64_Sym);
    return true;
}

/* Does symbol `i` have this name, and is it defined? `length` includes the name's NUL. */
static bool is_symbol(const struct exports *x, size_t i, const char *name, size_t length,
                      uint64_t *address)
{
    Elf64_Sym s;
    memcpy(&s, x->symbols.bytes + i * sizeof(s), sizeof(s));
    if (s.st_shndx == SHN_UNDEF || (x->functions && ELF64_ST_TYPE(s.st_info) != STT_FUNC) ||
        s.st_name > x->strings.size || x->strings.size - s.st_name < length ||
        memcmp(x->strings.bytes + s.st_name, name, length) != 0)
        return false;
    *address = s.st_value;
    return true;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (const uint8_t *p = (const uint8_t *)name; *p; p++)
        hash = hash * 33 + *p;
    return hash;
}

/* .gnu.hash: four words (buckets, first symbol, words of the filter, the filter's shift), the
 * filter with words of 64 bits, one symbol index for each bucket, one hash for each symbol from the
 * first on. The lowest bit of a hash marks the end of the bucket. */
struct gnu_hash {
    const uint8_t *buckets, *chains;
    uint32_t nr_buckets, first;
    size_t nr_chains;
};

static bool open_hash(const struct elf_image *e, struct gnu_hash *ret)
{
    enum { HEAD = 16 };
    struct elf_section s;
    if (!elf_image_section(e, ".gnu.hash", &s) || !s.bytes || s.size < HEAD)
        return false;
    ret->nr_buckets = load_u32(s.bytes, false);
    ret->first = load_u32(s.bytes + 4, false);
    uint64_t before = HEAD + 8 * (uint64_t)load_u32(s.bytes + 8, false);
    uint64_t buckets = 4 * (uint64_t)ret->nr_buckets;
    if (!ret->nr_buckets || before > s.size || buckets > s.size - before)
        return false;
    ret->buckets = s.bytes + before;
    ret->chains = ret->buckets + buckets;
    ret->nr_chains = (s.size - before - buckets) / 4;
    return true;
}

static bool by_hash(const struct exports *x, const struct gnu_hash *h, const char *name,
                    size_t length, uint64_t *address)
{
    uint32_t hash = hash_of(name);
    size_t i = load_u32(h->buckets + 4 * (size_t)(hash % h->nr_buckets), false);
    if (i < h->first)
        return false;
    for (; i < x->nr && i - h->first < h->nr_chains; i++) {
        uint32_t other = load_u32(h->chains + 4 * (i - h->first), false);
        if ((other | 1) == (hash | 1) && is_symbol(x, i, name, length, address))
            return true;
        if (other & 1)
            return false;
    }
    return false;
}

static bool find_export(const struct elf_image *image, const char *name, bool functions,
                        uint64_t *address)
{
    struct exports x = {.functions = functions};
    struct gnu_hash h;
    size_t length = strlen(name) + 1;
    if (!open_exports(image, &x))
        return false;
    if (open_hash(image, &h))
        return by_hash(&x, &h, name, length, address);
    for (size_t i = 0; i < x.nr; i++)
        if (is_symbol(&x, i, name, length, address))
            return true;
    return false;
}

bool elf_exported_symbol(const struct elf_image *image, const char *name, uint64_t *address)
{
    return find_export(image, name, false, address);
}

bool elf_exported_function(const struct elf_image *image, const char *name, uint64_t *address)
{
    return find_export(image, name, true, address);
}

/* ---- all functions --------------------------------------------------------------------------- */

static bool take_functions(const struct elf_image *image, const char *symbols, const char *strings,
                           elf_take_function take, void *context)
{
    struct elf_section table, names;
    if (!elf_image_section(image, symbols, &table) || !table.bytes ||
        !elf_image_section(image, strings, &names) || !names.bytes || !names.size ||
        names.bytes[names.size - 1])
        return true;
    for (size_t i = 0; i < table.size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;
        memcpy(&s, table.bytes + i * sizeof(s), sizeof(s));
        if (s.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s.st_info) != STT_FUNC ||
            s.st_name >= names.size)
            continue;
        const struct elf_function f = {.name = (const char *)names.bytes + s.st_name,
                                       .address = s.st_value,
                                       .size = s.st_size};
        if (!take(context, &f))
            return false;
    }
    return true;
}

void elf_functions(const struct elf_image *image, elf_take_function take, void *context)
{
    if (!image->is64 || image->swapped)
        return;
    if (take_functions(image, ".symtab", ".strtab", take, context))
        (void)take_functions(image, ".dynsym", ".dynstr", take, context);
}

/* ---- imports ------------------------------------------------------------------------------- */

/* Returns the name of the symbol whose address a relocation of this section puts at `place`; NULL:
 * none does. */
static const char *name_at(const struct exports *x, const struct elf_section *relocations,
                           uint64_t place)
{
    for (size_t i = 0; i < relocations->size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        Elf64_Sym s;
        memcpy(&r, relocations->bytes + i * sizeof(r), sizeof(r));
        if (r.r_offset != place)
            continue;
        uint64_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
        if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || symbol >= x->nr)
            return NULL;
        memcpy(&s, x->symbols.bytes + symbol * sizeof(s), sizeof(s));
        const char *name = (const char *)x->strings.bytes + s.st_name;
        return s.st_name < x->strings.size && memchr(name, 0, x->strings.size - s.st_name) ? name
                                                                                           : NULL;
    }
    return NULL;
}

const char *elf_imported_symbol(const struct elf_image *image, uint64_t place)
{
    static const char *const sections[] = {".rela.plt", ".rela.dyn"};
    struct exports x = {0};
    const char *name = NULL;
    if (image->machine != EM_X86_64 || !image->is64 || image->swapped || !open_exports(image, &x))
        return NULL;
    for (int i = 0; i < 2 && !name; i++) {
        struct elf_section s;
        if (elf_image_section(image, sections[i], &s) && s.bytes)
            name = name_at(&x, &s, place);
    }
    return name;
}
