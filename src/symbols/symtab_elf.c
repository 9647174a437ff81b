/* SPDX-License-Identifier: GPL-2.0-only */
/* Symbols out of ELF files: which of a table's entries count, and where they stand. */
#include "base/cursor.h"
#include "symbols/symtab_internal.h"

#include <elf.h>
#include <string.h>

struct raw_symbol {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
};

static size_t entry_size(const struct elf_image *e)
{
    return e->is64 ? 24 : 16;
}

static inline struct raw_symbol raw_symbol_at(const uint8_t *p, bool is64, bool swap)
{
    struct raw_symbol s = {.name = load_u32(p, swap)};
    if (is64) {
        s.info = p[4];
        s.other = p[5];
        s.section = load_u16(p + 6, swap);
        s.value = load_u64(p + 8, swap);
        s.size = load_u64(p + 16, swap);
    } else {
        s.value = load_u32(p + 4, swap);
        s.size = load_u32(p + 8, swap);
        s.info = p[12];
        s.other = p[13];
        s.section = load_u16(p + 14, swap);
    }
    return s;
}

/* An entry of a table in which it is known to be. */
static struct raw_symbol raw_symbol(const struct elf_symbols *from, size_t i)
{
    const struct elf_image *e = from->e;
    return raw_symbol_at(from->entries.bytes + i * entry_size(e), e->is64, e->swapped);
}

/* A string table that can be read without looking for ends: what follows its last NUL is cut. */
static struct elf_section string_table(const struct elf_image *e, uint64_t index)
{
    struct elf_section s;
    if (index > UINT32_MAX || !elf_image_section_at(e, (uint32_t)index, &s) || !s.bytes)
        return (struct elf_section){0};
    const uint8_t *nul = s.size ? memrchr(s.bytes, 0, s.size) : NULL;
    s.size = nul ? (size_t)(nul - s.bytes) + 1 : 0;
    return s;
}

/* ---- sections ---------------------------------------------------------------------------- */

/* What the symbols of a section are. */
struct section_use {
    bool loaded;
    bool labels;        /* those without a type count */
    bool text;          /* is .text */
    uint64_t to_offset; /* added to an address gives the file's offset, if no segment does */
    /* Addresses in it that one segment alone holds, and what gives their offsets. */
    uint64_t from, size, by_segment;
};

/* Where a table is read from and what its values mean. */
struct source {
    const struct elf_image *e;       /* has the table */
    const struct elf_image *runtime; /* has the program headers; its sections have bytes */
    bool kernel;                     /* values are addresses */
    bool module;                     /* offsets in .text */
    struct section_use *sections;    /* [e's nr_sections] */
};

static uint64_t segment_size(const struct elf_phdr *p)
{
    return p->memsz > p->filesz ? p->memsz : p->filesz;
}

/* Whether no segment before segment `i` holds one of its addresses. */
static bool is_first(const struct elf_tables *t, uint32_t i)
{
    const struct elf_phdr *p = &t->segments[i];
    for (uint32_t k = 0; k < i; k++) {
        const struct elf_phdr *o = &t->segments[k];
        if (o->type == PT_LOAD &&
            (p->vaddr - o->vaddr < segment_size(o) || o->vaddr - p->vaddr < segment_size(p)))
            return false;
    }
    return true;
}

/* Number of the first segment that holds the address; the number of segments: none does. */
static uint32_t first_segment(const struct elf_tables *t, uint64_t address)
{
    uint32_t i = 0;
    while (i < t->nr_segments && (t->segments[i].type != PT_LOAD ||
                                  address - t->segments[i].vaddr >= segment_size(&t->segments[i])))
        i++;
    return i;
}

/* The part of a section's addresses that its segment alone holds. */
static void find_segment(const struct elf_tables *t, uint64_t addr, uint64_t size,
                         struct section_use *ret)
{
    uint32_t i = first_segment(t, addr);
    if (i == t->nr_segments)
        return;
    const struct elf_phdr *p = &t->segments[i];
    uint64_t left = segment_size(p) - (addr - p->vaddr);
    ret->from = addr;
    ret->size = is_first(t, i) ? size < left ? size : left : 0;
    ret->by_segment = p->offset - p->vaddr;
}

static bool read_sections(struct source *src)
{
    const struct elf_tables *tables = src->e->tables, *runtime = src->runtime->tables;
    src->sections = calloc(tables->nr_sections + (size_t)1, sizeof(*src->sections));
    for (uint32_t i = 0; src->sections && i < tables->nr_sections; i++) {
        const struct elf_shdr *s = &tables->sections[i];
        bool loaded = s->flags & SHF_ALLOC;
        if (s->type == SHT_NOBITS && i < runtime->nr_sections)
            s = &runtime->sections[i];
        src->sections[i] =
            (struct section_use){.loaded = loaded,
                                 .labels = strstr(s->name, "text") || strstr(s->name, "data"),
                                 .text = strcmp(s->name, ".text") == 0,
                                 .to_offset = s->offset - s->addr};
        if (loaded)
            find_segment(runtime, s->addr, s->size, &src->sections[i]);
    }
    return src->sections != NULL;
}

/* Virtual address to file offset by the first segment that holds it, else by the section. */
static uint64_t find_offset(const struct source *src, uint64_t value,
                            const struct section_use *section)
{
    const struct elf_tables *t = src->runtime->tables;
    uint32_t i = first_segment(t, value);
    return value +
           (i < t->nr_segments ? t->segments[i].offset - t->segments[i].vaddr : section->to_offset);
}

static inline uint64_t file_offset(const struct source *src, uint64_t value,
                                   const struct section_use *section)
{
    return value - section->from < section->size ? value + section->by_segment
                                                 : find_offset(src, value, section);
}

/* ---- tables ------------------------------------------------------------------------------ */

/* Functions, indirect functions, objects; labels of text and data that are visible. */
static bool is_label(const struct raw_symbol *s)
{
    return ELF64_ST_TYPE(s->info) == STT_NOTYPE && ELF64_ST_VISIBILITY(s->other) != STV_HIDDEN &&
           ELF64_ST_VISIBILITY(s->other) != STV_INTERNAL;
}

static bool is_arm_mapping(const struct elf_image *e, const char *name)
{
    return (e->machine == EM_ARM || e->machine == EM_AARCH64) && name[0] == '$' && name[1] &&
           strchr("adtx", name[1]) && (!name[2] || name[2] == '.');
}

/* Does the symbol count? Its name is not looked at but on ARM: that would read all of them. */
static inline bool is_wanted(const struct source *src, const struct elf_symbols *from,
                             const struct raw_symbol *s)
{
    enum { TYPES = 1 << STT_FUNC | 1 << STT_GNU_IFUNC | 1 << STT_OBJECT };
    bool label = is_label(s);
    if (!s->name || s->name >= from->names.size ||
        (!(TYPES >> ELF64_ST_TYPE(s->info) & 1) && !label) || s->section == SHN_UNDEF ||
        s->section >= src->e->tables->nr_sections)
        return false;
    const struct section_use *section = &src->sections[s->section];
    if (!section->loaded || (label && !section->labels) || (src->module && !section->text))
        return false;
    bool arm = src->e->machine == EM_ARM || src->e->machine == EM_AARCH64;
    return !arm || !is_arm_mapping(src->e, (const char *)from->names.bytes + s->name);
}

static inline uint64_t place_of(const struct source *src, const struct raw_symbol *s)
{
    uint64_t value = s->value;
    if (src->e->machine == EM_ARM && ELF64_ST_TYPE(s->info) == STT_FUNC)
        value &= ~UINT64_C(1);
    return src->kernel || src->module ? value : file_offset(src, value, &src->sections[s->section]);
}

/* A program's table has hundreds of thousands of entries, of which a recording names some hundred:
 * each instruction here counts. */
static inline __attribute__((always_inline)) void add_entries(struct symtab *t,
                                                              const struct source *src,
                                                              const struct elf_symbols *from,
                                                              size_t base, bool is64, bool swap)
{
    const struct source held = *src;
    const struct elf_symbols table = *from;
    const uint8_t *p = table.entries.bytes;
    struct sort_key *to = t->keys.at + t->keys.nr; /* there is room */
    for (size_t i = 0; i < table.nr; i++, p += is64 ? 24 : 16) {
        struct raw_symbol raw = raw_symbol_at(p, is64, swap);
        if (is_wanted(&held, &table, &raw))
            *to++ = symtab_key(place_of(&held, &raw), base + i, raw.size);
    }
    t->keys.nr = (size_t)(to - t->keys.at);
}

static void add_table(struct symtab *t, struct source *src, unsigned table)
{
    struct elf_symbols *from = &t->tables[table];
    struct elf_section s;
    bool dynamic = table == TABLE_DYNSYM;
    if (!elf_image_section(src->e, dynamic ? ".dynsym" : ".symtab", &s) || !s.bytes ||
        s.type != (dynamic ? SHT_DYNSYM : SHT_SYMTAB))
        return;
    size_t nr = s.size / entry_size(src->e), base = dynamic ? t->tables[0].nr : 0;
    if (nr >= UINT32_MAX / 4)
        return;
    *from = (struct elf_symbols){src->e, s, string_table(src->e, s.link), (uint32_t)nr};
    if (!read_sections(src) || !vec_reserve(&t->keys, t->keys.nr + nr))
        t->no_memory = true;
    else if (src->e->is64 && !src->e->swapped)
        add_entries(t, src, from, base, true, false);
    else
        add_entries(t, src, from, base, src->e->is64, src->e->swapped);
    free(src->sections);
    src->sections = NULL;
}

bool symtab_elf_symbol(const struct symtab *t, const struct sort_key *k, struct symbol *ret)
{
    *ret = (struct symbol){.start = k->key, .end = k->key + k->extra};
    uint32_t index = k->index;
    unsigned table = symtab_table(t, index);
    if (table == TABLE_PLT) {
        ret->name = t->plt.at[index - t->tables[0].nr - t->tables[1].nr];
        ret->binding = STB_GLOBAL;
        ret->plt = true;
    } else {
        const struct elf_symbols *from = &t->tables[table];
        struct raw_symbol raw = raw_symbol(from, index - (table ? t->tables[0].nr : 0));
        ret->name = (const char *)from->names.bytes + raw.name;
        ret->binding = ELF64_ST_BIND(raw.info);
        ret->label = ELF64_ST_TYPE(raw.info) == STT_NOTYPE && !raw.size;
        if (k->extra == UINT32_MAX)
            ret->end = k->key + raw.size;
    }
    if (ret->end < ret->start)
        ret->end = UINT64_MAX;
    return ret->plt || *ret->name;
}

/* ---- PLT --------------------------------------------------------------------------------- */

/* Sizes of the PLT's first and further entries. */
static void plt_sizes(const struct elf_image *e, const struct elf_shdr *plt, uint64_t *first,
                      uint64_t *entry)
{
    switch (e->machine) {
    case EM_ARM:
        *first = 20;
        *entry = 12;
        break;
    case EM_AARCH64:
        *first = 32;
        *entry = 16;
        break;
    default:
        *first = *entry = plt->entsize;
    }
}

static const struct elf_shdr *section_header(const struct elf_image *e, const char *name,
                                             uint32_t *index)
{
    for (uint32_t i = 1; i < e->tables->nr_sections; i++)
        if (strcmp(e->tables->sections[i].name, name) == 0) {
            *index = i;
            return &e->tables->sections[i];
        }
    return NULL;
}

/* The symbols that the n-th entries of .rela.plt name stand at the n-th entries of .plt. */
static void add_plt(struct symtab *t, const struct elf_image *e)
{
    uint32_t index, dynsym_index;
    struct elf_section rel, dynsym;
    const struct elf_shdr *plt = section_header(e, ".plt", &index);
    const struct elf_shdr *dyn = section_header(e, ".dynsym", &dynsym_index);
    bool rela = elf_image_section(e, ".rela.plt", &rel);
    if (!plt || !dyn || (!rela && !elf_image_section(e, ".rel.plt", &rel)) || !rel.bytes ||
        rel.link != dynsym_index || !elf_image_section_at(e, dynsym_index, &dynsym) ||
        !dynsym.bytes)
        return;
    struct elf_section names = string_table(e, dynsym.link);
    uint64_t first, size;
    plt_sizes(e, plt, &first, &size);
    size_t word = e->is64 ? 8 : 4, rel_size = rela ? 3 * word : 2 * word;
    if (size == 0 || size > 4096)
        return;
    for (size_t i = 0; i < rel.size / rel_size && !t->no_memory; i++) {
        const uint8_t *info_at = rel.bytes + i * rel_size + word;
        uint64_t symbol =
            e->is64 ? load_u64(info_at, e->swapped) >> 32 : load_u32(info_at, e->swapped) >> 8;
        if (symbol >= dynsym.size / entry_size(e))
            continue;
        uint32_t name = load_u32(dynsym.bytes + symbol * entry_size(e), e->swapped);
        symtab_add(t, plt->offset + first + i * size,
                   t->tables[0].nr + (size_t)t->tables[1].nr + t->plt.nr, size);
        if (!vec_push(&t->plt, name < names.size ? (const char *)names.bytes + name : ""))
            t->no_memory = true;
    }
}

/* ---- the files of a dso ------------------------------------------------------------------ */

static bool has_table(const struct elf_image *e, const char *name, uint32_t type)
{
    struct elf_section s;
    return elf_image_section(e, name, &s) && s.bytes && s.type == type;
}

void symtab_load_elf(struct symtab *t, struct dso *dso)
{
    const struct elf_image *image = dso_image(dso), *debug = dso_debug_image(dso);
    if (!image)
        return;
    const struct elf_image *from = debug && has_table(debug, ".symtab", SHT_SYMTAB) ? debug : image;
    struct source src = {.e = from, .runtime = image, .module = dso->kind == DSO_KMODULE};
    add_table(t, &src, TABLE_SYMTAB);
    /* With a separate debug file perf takes no .dynsym (the debug file's has no bytes).
     * MiniDebugInfo, whose path is its host's, leaves out what .dynsym has. */
    if (strcmp(from->path, image->path) == 0) {
        src.e = image;
        add_table(t, &src, TABLE_DYNSYM);
    }
    if (t->keys.nr && dso->kind != DSO_KMODULE)
        add_plt(t, image);
}

void symtab_load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux)
{
    const char *reference;
    uint64_t recorded, bias = 0;
    struct source src = {.e = vmlinux, .runtime = vmlinux, .kernel = true};
    add_table(t, &src, TABLE_SYMTAB);
    if (!dso_reference(dso, &reference, &recorded))
        return;
    vec_foreach (k, &t->keys) {
        struct symbol s;
        if (symtab_elf_symbol(t, k, &s) && strcmp(s.name, reference) == 0)
            bias = recorded - k->key;
    }
    vec_foreach (k, &t->keys)
        k->key += bias;
}
