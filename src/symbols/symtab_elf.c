/* SPDX-License-Identifier: GPL-2.0-only */
/* Symbols from ELF files: which entries of a table count, and their places. */
#include "base/cursor.h"
#include "symbols/symtab_internal.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Read an entry that is known to be in the table. */
static struct raw_symbol raw_symbol(const struct elf_symbols *from, size_t i)
{
    const struct elf_image *e = from->e;
    return raw_symbol_at(from->entries.bytes + i * entry_size(e), e->is64, e->swapped);
}

/* Returns a string table whose strings all end within it: bytes after the last NUL are cut. */
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

/* How to treat the symbols of a section. */
struct section_use {
    uint32_t types;     /* symbol types that count: bits by STT_* */
    uint64_t to_offset; /* turns an address into a file offset, if no segment does */
    /* The range of addresses in the section that only one segment contains; `by_segment` turns such
     * an address into a file offset. */
    uint64_t from, size, by_segment;
};

static uint64_t segment_size(const struct elf_phdr *p)
{
    return p->memsz > p->filesz ? p->memsz : p->filesz;
}

/* Returns whether no earlier segment overlaps segment `i`. */
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

/* Returns the index of the first segment that contains the address; nr_segments: none does. */
static uint32_t first_segment(const struct elf_tables *t, uint64_t address)
{
    uint32_t i = 0;
    while (i < t->nr_segments && (t->segments[i].type != PT_LOAD ||
                                  address - t->segments[i].vaddr >= segment_size(&t->segments[i])))
        i++;
    return i;
}

/* Find the part of a section's addresses that only its segment contains. */
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

static bool counts(const struct elf_symbols *from, const struct elf_shdr *s)
{
    return s->flags & SHF_ALLOC && (!from->module || strcmp(s->name, ".text") == 0);
}

/* Describe the sections, except the first, which means "no section" (SHN_UNDEF). */
static bool read_sections(struct elf_symbols *from)
{
    const struct elf_tables *tables = from->e->tables, *runtime = from->runtime->tables;
    from->sections = calloc(tables->nr_sections + (size_t)1, sizeof(*from->sections));
    for (uint32_t i = 1; from->sections && i < tables->nr_sections; i++) {
        const struct elf_shdr *s = &tables->sections[i];
        struct section_use *use = &from->sections[i];
        if (!counts(from, s))
            continue;
        if (s->type == SHT_NOBITS && i < runtime->nr_sections)
            s = &runtime->sections[i];
        use->types = 1 << STT_FUNC | 1 << STT_GNU_IFUNC | 1 << STT_OBJECT;
        if (strstr(s->name, "text") || strstr(s->name, "data"))
            use->types |= 1 << STT_NOTYPE;
        use->to_offset = s->offset - s->addr;
        if (from->kernel || from->module)
            use->size = UINT64_MAX;
        else
            find_segment(runtime, s->addr, s->size, use);
    }
    return from->sections != NULL;
}

/* Convert an address to a file offset by the first segment that contains it, else by section. */
static uint64_t find_offset(const struct elf_symbols *from, uint64_t value,
                            const struct section_use *section)
{
    const struct elf_tables *t = from->runtime->tables;
    if (from->kernel || from->module) /* only UINT64_MAX comes here */
        return value + section->by_segment;
    uint32_t i = first_segment(t, value);
    return value +
           (i < t->nr_segments ? t->segments[i].offset - t->segments[i].vaddr : section->to_offset);
}

/* ---- tables ------------------------------------------------------------------------------ */

static bool is_arm(const struct elf_image *e)
{
    return e->machine == EM_ARM || e->machine == EM_AARCH64;
}

static bool is_arm_mapping(const char *name)
{
    return name[0] == '$' && name[1] && strchr("adtx", name[1]) && (!name[2] || name[2] == '.');
}

static bool is_hidden(const struct raw_symbol *s)
{
    unsigned visibility = ELF64_ST_VISIBILITY(s->other);
    return visibility == STV_HIDDEN || visibility == STV_INTERNAL;
}

/* Does the symbol count? Functions, indirect functions and objects do, and visible labels in text
 * and data. Names are not read, except on ARM: otherwise all names would be read. */
static inline __attribute__((always_inline)) bool is_wanted(const struct elf_symbols *from,
                                                            const struct raw_symbol *s, bool arm)
{
    if (s->name - 1U >= from->nr_names || s->section >= from->nr_sections)
        return false;
    unsigned type = ELF64_ST_TYPE(s->info);
    if (!(from->sections[s->section].types >> type & 1) || (type == STT_NOTYPE && is_hidden(s)))
        return false;
    return !arm || !is_arm_mapping((const char *)from->names.bytes + s->name);
}

static inline uint64_t place_of(const struct elf_symbols *from, const struct raw_symbol *s,
                                bool arm)
{
    uint64_t value = s->value;
    if (arm && from->e->machine == EM_ARM && ELF64_ST_TYPE(s->info) == STT_FUNC)
        value &= ~UINT64_C(1);
    const struct section_use *section = &from->sections[s->section];
    return value - section->from < section->size ? value + section->by_segment
                                                 : find_offset(from, value, section);
}

/* A program's table has hundreds of thousands of entries, of which a recording needs some hundred:
 * each instruction here counts. */
static inline __attribute__((always_inline)) void add_entries(struct symtab *t, unsigned number,
                                                              bool is64, bool swap, bool arm)
{
    const struct elf_symbols from = t->tables[number];
    const uint8_t *p = from.entries.bytes;
    struct symtab_bucket *at = t->buckets.at;
    uint32_t *next = t->buckets.next.at, nr_buckets = t->buckets.nr;
    unsigned shift = t->buckets.shift;
    uint64_t base = t->buckets.base;
    enum { USUAL_SIZE = INT32_MAX };
    uint32_t index = number == TABLE_DYNSYM ? t->tables[0].nr : 0, end = index + from.nr;
    for (; index < end; index++, p += is64 ? 24 : 16) {
        struct raw_symbol raw = raw_symbol_at(p, is64, swap);
        if (!is_wanted(&from, &raw, arm))
            continue;
        uint64_t place = place_of(&from, &raw, arm);
        uint64_t first = (place - base) >> shift, last = (place - base + raw.size - 1) >> shift;
        /* Data behind the code goes into the last bucket: no bucket is behind it. */
        if (first >= nr_buckets && place > base) {
            next[index] = at[nr_buckets - 1].head;
            at[nr_buckets - 1].head = index + 1;
            continue;
        }
        if (__builtin_expect(first >= nr_buckets || raw.size - 1 >= USUAL_SIZE, 0)) {
            symtab_bucket_add(&t->buckets, index, place, raw.size);
            continue;
        }
        next[index] = at[first].head;
        at[first].head = index + 1;
        if (first != last && at[first].reach < last)
            at[first].reach = last < nr_buckets ? (uint32_t)last : nr_buckets - 1;
    }
}

static void add_table(struct symtab *t, unsigned number)
{
    const struct elf_image *e = t->tables[number].e;
    if (t->no_memory || !e)
        return;
    if (e->is64 && !e->swapped && !is_arm(e))
        add_entries(t, number, true, false, false);
    else
        add_entries(t, number, e->is64, e->swapped, is_arm(e));
    for (uint32_t i = 0; i < t->buckets.nr && !t->any; i++)
        t->any = t->buckets.at[i].head;
}

/* Open table `number` of `from`, in which the caller has set the images and what values mean.
 * t->tables[number] stays empty if there is no such table. */
static void open_table(struct symtab *t, struct elf_symbols from, unsigned number)
{
    struct elf_section s;
    bool dynamic = number == TABLE_DYNSYM;
    if (!elf_image_section(from.e, dynamic ? ".dynsym" : ".symtab", &s) || !s.bytes ||
        s.type != (dynamic ? SHT_DYNSYM : SHT_SYMTAB) ||
        s.size / entry_size(from.e) >= UINT32_MAX / 4)
        return;
    from.nr = (uint32_t)(s.size / entry_size(from.e));
    from.entries = s;
    from.names = string_table(from.e, s.link);
    from.nr_names = from.names.size <= UINT32_MAX ? (uint32_t)from.names.size : UINT32_MAX;
    from.nr_names -= from.nr_names > 0; /* name 0: symbols without a name */
    from.nr_sections = from.e->tables->nr_sections;
    if (!read_sections(&from))
        t->no_memory = true;
    t->tables[number] = from;
}

/* Find the range that lookups will hit: the executable segments of a file, the text of a module or
 * of a kernel. Symbols outside (mostly data) are only found more slowly. */
static void find_span(const struct elf_symbols *from, uint64_t *base, uint64_t *size)
{
    const struct elf_image *e = from->runtime;
    bool by_section = from->kernel || from->module;
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; !by_section && i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type != PT_LOAD || !(p->flags & PF_X))
            continue;
        low = p->offset < low ? p->offset : low;
        high = p->offset + p->filesz > high ? p->offset + p->filesz : high;
    }
    for (uint32_t i = 0; by_section && i < e->tables->nr_sections; i++) {
        const struct elf_shdr *s = &e->tables->sections[i];
        uint64_t start = from->module ? 0 : s->addr;
        if (!(s->flags & SHF_EXECINSTR) || !counts(from, s))
            continue;
        low = start < low ? start : low;
        high = start + s->size > high ? start + s->size : high;
    }
    *base = low < high ? low : 0;
    *size = low < high && high - low < e->size ? high - low : e->size;
}

/* Returns the largest possible number of PLT entries. */
static size_t count_plt(const struct elf_image *e)
{
    struct elf_section rel;
    bool any = elf_image_section(e, ".rela.plt", &rel) || elf_image_section(e, ".rel.plt", &rel);
    size_t nr = any && rel.bytes ? rel.size / (e->is64 ? 16 : 8) : 0;
    return nr < UINT32_MAX / 4 ? nr : 0;
}

/* Make buckets for the symbols of the opened tables; the first table gives the range. */
static void make_buckets(struct symtab *t)
{
    uint64_t base, size;
    size_t nr = (size_t)t->tables[0].nr + t->tables[1].nr;
    const struct elf_symbols *from = &t->tables[t->tables[0].e ? 0 : 1];
    if (!from->e || t->no_memory)
        return;
    find_span(from, &base, &size);
    t->no_memory = !symtab_buckets_make(&t->buckets, nr, base + from->bias, size) ||
                   !vec_reserve(&t->buckets.next, nr + count_plt(from->runtime));
}

static void close_buckets(struct symtab *t)
{
    t->no_memory = t->no_memory || !symtab_buckets_close(t);
}

struct sort_key symtab_elf_key(const struct symtab *t, uint32_t index)
{
    unsigned table = symtab_table(t, index);
    if (table == TABLE_PLT) {
        const struct plt_entry *plt = &t->plt.at[index - t->tables[0].nr - t->tables[1].nr];
        return (struct sort_key){plt->place, index, plt->size};
    }
    const struct elf_symbols *from = &t->tables[table];
    struct raw_symbol raw = raw_symbol(from, index - (table ? t->tables[0].nr : 0));
    return (struct sort_key){place_of(from, &raw, is_arm(from->e)), index, symtab_size(raw.size)};
}

void symtab_elf_prefetch(const struct symtab *t, uint32_t index)
{
    unsigned table = symtab_table(t, index);
    if (table == TABLE_PLT)
        return;
    const struct elf_symbols *from = &t->tables[table];
    size_t i = index - (table ? t->tables[0].nr : 0);
    __builtin_prefetch(from->entries.bytes + i * entry_size(from->e));
}

bool symtab_elf_symbol(const struct symtab *t, const struct sort_key *k, struct symbol *ret)
{
    *ret = (struct symbol){.start = k->key, .end = k->key + k->extra};
    uint32_t index = k->index;
    unsigned table = symtab_table(t, index);
    if (table == TABLE_PLT) {
        ret->name = t->plt.at[index - t->tables[0].nr - t->tables[1].nr].name;
        ret->binding = STB_GLOBAL;
        ret->plt = ret->sized = true;
    } else {
        const struct elf_symbols *from = &t->tables[table];
        struct raw_symbol raw = raw_symbol(from, index - (table ? t->tables[0].nr : 0));
        ret->name = (const char *)from->names.bytes + raw.name;
        ret->binding = ELF64_ST_BIND(raw.info);
        ret->label = ELF64_ST_TYPE(raw.info) == STT_NOTYPE && !raw.size;
        ret->sized = raw.size != 0;
        if (k->extra == UINT32_MAX)
            ret->end = k->key + raw.size;
    }
    if (ret->end < ret->start)
        ret->end = UINT64_MAX;
    return ret->plt || *ret->name;
}

void symtab_elf_free(struct symtab *t)
{
    free(t->tables[0].sections);
    free(t->tables[1].sections);
    vec_free(&t->plt);
}

/* ---- PLT --------------------------------------------------------------------------------- */

/* Get the sizes of the PLT's first entry and of the further entries. */
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

/* The GOT slot that one relocation of .rela.plt fills. */
struct plt_slot {
    uint64_t got;
    const char *name;
};

static int by_got(const void *a, const void *b)
{
    const struct plt_slot *x = a, *y = b;
    return (x->got > y->got) - (x->got < y->got);
}

static bool is_x86(const struct elf_image *e)
{
    return e->machine == EM_X86_64 || e->machine == EM_386;
}

/* Returns binutils' and perf's name of a function that a resolver in the file chooses. */
static const char *name_resolved(struct symtab *t, uint64_t resolver)
{
    char *name = NULL;
    if (asprintf(&name, "*ABS*+0x%" PRIx64, resolver) < 0)
        name = NULL;
    if (name && vec_push(&t->copies, name))
        return name;
    free(name);
    t->no_memory = true;
    return "";
}

/* The section of relocations, and their symbols. */
struct plt_relocations {
    const struct elf_image *e;
    struct elf_section rel, symbols, names;
    size_t word, size; /* sizes: of a word in the file, of a relocation */
    size_t nr;
};

static bool plt_relocations(const struct elf_image *e, struct plt_relocations *ret)
{
    uint32_t dynsym;
    bool rela = elf_image_section(e, ".rela.plt", &ret->rel);
    if (!section_header(e, ".dynsym", &dynsym) ||
        (!rela && !elf_image_section(e, ".rel.plt", &ret->rel)) || !ret->rel.bytes ||
        ret->rel.link != dynsym || !elf_image_section_at(e, dynsym, &ret->symbols) ||
        !ret->symbols.bytes)
        return false;
    ret->e = e;
    ret->names = string_table(e, ret->symbols.link);
    ret->word = e->is64 ? 8 : 4;
    ret->size = (rela ? 3 : 2) * ret->word;
    ret->nr = ret->rel.size / ret->size;
    return ret->nr < UINT32_MAX / 8;
}

static uint64_t word_at(const struct plt_relocations *r, const uint8_t *p)
{
    return r->e->is64 ? load_u64(p, r->e->swapped) : load_u32(p, r->e->swapped);
}

static struct plt_slot read_slot(struct symtab *t, const struct plt_relocations *r, size_t number)
{
    const uint8_t *at = r->rel.bytes + number * r->size;
    uint64_t info = word_at(r, at + r->word);
    uint64_t symbol = r->e->is64 ? info >> 32 : info >> 8;
    struct plt_slot slot = {word_at(r, at), NULL};
    if (!symbol && is_x86(r->e) && r->size == 3 * r->word) {
        slot.name = name_resolved(t, word_at(r, at + 2 * r->word));
    } else if (symbol < r->symbols.size / entry_size(r->e)) {
        uint32_t name = load_u32(r->symbols.bytes + symbol * entry_size(r->e), r->e->swapped);
        slot.name = name < r->names.size ? (const char *)r->names.bytes + name : "";
    }
    return slot;
}

/* Name the entries of a section that jump through the slots, in the order of the slots. */
static void add_plt_section(struct symtab *t, const struct elf_shdr *plt, uint64_t first,
                            uint64_t size, const struct plt_slot *slots, size_t nr)
{
    size_t tables = (size_t)t->tables[0].nr + t->tables[1].nr;
    if (size == 0 || size > 4096)
        return;
    t->no_memory |= !vec_reserve(&t->buckets.next, tables + t->plt.nr + nr);
    for (size_t i = 0; i < nr && !t->no_memory; i++) {
        if (!slots[i].name)
            continue;
        struct plt_entry entry = {slots[i].name, plt->offset + first + i * size, (uint32_t)size};
        uint32_t number = (uint32_t)(tables + t->plt.nr);
        if (vec_push(&t->plt, entry))
            symtab_bucket_add(&t->buckets, number, entry.place, size);
        else
            t->no_memory = true;
    }
}

/* The n-th entry of .plt jumps through the n-th slot of the GOT. On x86 the n-th relocation may
 * fill another slot: ld puts the relocations of resolvers (IFUNC) last. With branch protection
 * (IBT) callers go to .plt.sec, whose entries are in the same order. */
static void add_plt(struct symtab *t, const struct elf_image *e)
{
    uint32_t index;
    uint64_t first, size;
    struct plt_relocations r;
    const struct elf_shdr *plt = section_header(e, ".plt", &index);
    const struct elf_shdr *second = section_header(e, ".plt.sec", &index);
    struct plt_slot *slots = NULL;
    if (!plt || !plt_relocations(e, &r))
        return;
    slots = malloc((r.nr + 1) * sizeof(*slots));
    t->no_memory |= !slots;
    for (size_t i = 0; i < r.nr && !t->no_memory; i++)
        slots[i] = read_slot(t, &r, i);
    if (is_x86(e) && !t->no_memory)
        qsort(slots, r.nr, sizeof(*slots), by_got);
    plt_sizes(e, plt, &first, &size);
    if (!t->no_memory)
        add_plt_section(t, plt, first, size, slots, r.nr);
    if (second && is_x86(e) && !t->no_memory)
        add_plt_section(t, second, 0, second->entsize, slots, r.nr);
    free(slots);
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
    struct elf_symbols what = {.e = from, .runtime = image, .module = dso->kind == DSO_KMODULE};
    open_table(t, what, TABLE_SYMTAB);
    /* With a separate debug file perf does not read .dynsym (the debug file's .dynsym has no
     * bytes). MiniDebugInfo, whose path equals its host's, leaves out the symbols that are in
     * .dynsym. */
    if (strcmp(from->path, image->path) == 0) {
        what.e = image;
        open_table(t, what, TABLE_DYNSYM);
    }
    make_buckets(t);
    add_table(t, TABLE_SYMTAB);
    add_table(t, TABLE_DYNSYM);
    if (t->any && dso->kind != DSO_KMODULE)
        add_plt(t, image);
    close_buckets(t);
}

/* Returns the number to add to a kernel's addresses if the recording saw the kernel at other
 * addresses, computed from the symbol `reference`. */
static uint64_t find_bias(const struct elf_symbols *from, const char *reference, uint64_t recorded)
{
    bool arm = is_arm(from->e);
    uint64_t bias = 0;
    for (uint32_t i = 0; i < from->nr; i++) {
        struct raw_symbol raw = raw_symbol(from, i);
        if (is_wanted(from, &raw, arm) &&
            strcmp((const char *)from->names.bytes + raw.name, reference) == 0)
            bias = recorded - place_of(from, &raw, arm);
    }
    return bias;
}

void symtab_load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux)
{
    const char *reference;
    uint64_t recorded;
    struct elf_symbols *from = &t->tables[TABLE_SYMTAB];
    open_table(t, (struct elf_symbols){.e = vmlinux, .runtime = vmlinux, .kernel = true},
               TABLE_SYMTAB);
    if (!from->e || t->no_memory)
        return;
    if (dso_reference(dso, &reference, &recorded))
        from->bias = find_bias(from, reference, recorded);
    for (uint32_t i = 0; i < vmlinux->tables->nr_sections; i++)
        from->sections[i].by_segment = from->bias;
    make_buckets(t);
    add_table(t, TABLE_SYMTAB);
    close_buckets(t);
}
