/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbol tables. Built in perf's steps: take the file's .symtab, fix the sizes of symbols
 * without one, choose among those at one address; the same again with .dynsym added; then the
 * PLT. At the end ranges that overlap are cut into disjoint segments, each owned by its
 * innermost symbol, for one binary search a lookup.
 */
#include "symbols/symtab.h"
#include "base/cursor.h"
#include "base/vec.h"
#include "dso/elf_image.h"
#include "symbols/demangle.h"
#include "symbols/segments.h"
#include "symbols/sort.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct symtab {
    VEC(struct symbol) symbols; /* sorted by start */
    struct segments segments;   /* owned by indexes of symbols */
    char *text;                 /* kallsyms, in which names stand */
    bool demangle;
    bool no_memory;
};

static void add(struct symtab *t, uint64_t start, uint64_t size, const char *name, uint8_t binding,
                bool plt)
{
    uint64_t end = start + size < start ? UINT64_MAX : start + size;
    if (!vec_push(&t->symbols, (struct symbol){start, end, name, NULL, binding, plt}))
        t->no_memory = true;
}

/* ---- order, sizes, duplicates ------------------------------------------------------------ */

static void sort_symbols(struct symtab *t)
{
    size_t nr = t->symbols.nr;
    struct sort_key *keys = malloc((nr + 1) * sizeof(*keys));
    struct symbol *to = malloc((nr + 1) * sizeof(*to));
    bool ok = keys && to && nr < UINT32_MAX;
    for (size_t i = 0; ok && i < nr; i++)
        keys[i] = (struct sort_key){t->symbols.at[i].start, (uint32_t)i};
    if (ok && sort_keys(keys, nr)) {
        for (size_t i = 0; i < nr; i++)
            to[i] = t->symbols.at[keys[i].index];
        free(t->symbols.at);
        t->symbols.at = to;
        t->symbols.cap = nr + 1;
    } else {
        free(to);
        t->no_memory = true;
    }
    free(keys);
}

/* A symbol without a size reaches to the next one; the last one to the end of the next page. In
 * kallsyms nothing reaches from the kernel into a module or from one to another. */
static void fix_sizes(struct symtab *t, bool kallsyms)
{
    struct symbol *s = t->symbols.at;
    size_t nr = t->symbols.nr;
    for (size_t i = 0; i + 1 < nr; i++) {
        if (s[i].end != s[i].start)
            continue;
        bool border = kallsyms && !strchr(s[i].name, '[') != !strchr(s[i + 1].name, '[');
        s[i].end = border ? (s[i].end + 4096 + 4095) & ~UINT64_C(4095) : s[i + 1].start;
    }
    if (nr && s[nr - 1].end == s[nr - 1].start)
        s[nr - 1].end = ((s[nr - 1].start + 4095) & ~UINT64_C(4095)) + 4096;
}

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

static bool is_cold_syscall(const char *name)
{
    return strncmp(name, "SyS", 3) == 0 || strncmp(name, "compat_SyS", 10) == 0;
}

/* A constructor's or destructor's variants (C1, C2...) differ in that digit alone and demangle
 * to the same name: spare demangling both. */
static bool differ_in_variant(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return at > 3 && (a[at - 1] == 'C' || a[at - 1] == 'D') && a[at] >= '0' && a[at] <= '9' &&
           b[at] >= '0' && b[at] <= '9' && strcmp(a + at + 1, b + at + 1) == 0;
}

/* By the printed names: fewer leading underscores, then the longer. */
static bool first_name_is_better(const struct symtab *t, const char *a, const char *b)
{
    struct text text[2] = {0};
    const char *names[2] = {a, b};
    bool mangled = t->demangle && (demangle_may(a) || demangle_may(b));
    if (strcmp(a, b) == 0 || (mangled && differ_in_variant(a, b)))
        return true;
    for (int i = 0; mangled && i < 2; i++)
        if (demangle(names[i], &text[i])) {
            text_char(&text[i], 0);
            names[i] = text[i].failed ? names[i] : text[i].at;
        }
    unsigned under_a = underscores(names[0]), under_b = underscores(names[1]);
    size_t size_a = strlen(names[0]), size_b = strlen(names[1]);
    bool first = under_a != under_b ? under_a < under_b
                 : size_a != size_b ? size_a > size_b
                                    : !is_cold_syscall(names[0]);
    text_free(&text[0]);
    text_free(&text[1]);
    return first;
}

/* Of two symbols at one address: one with a size, not weak, global; then by name. */
static bool first_is_better(const struct symtab *t, const struct symbol *a, const struct symbol *b)
{
    bool sized_a = a->end > a->start, sized_b = b->end > b->start;
    if (sized_a != sized_b)
        return sized_a;
    bool weak_a = a->binding == STB_WEAK, weak_b = b->binding == STB_WEAK;
    if (weak_a != weak_b)
        return weak_b;
    bool global_a = a->binding == STB_GLOBAL, global_b = b->binding == STB_GLOBAL;
    if (global_a != global_b)
        return global_a;
    return first_name_is_better(t, a->name, b->name);
}

static void drop_duplicates(struct symtab *t)
{
    struct symbol *s = t->symbols.at;
    size_t kept = 0;
    for (size_t i = 1; i < t->symbols.nr; i++) {
        if (s[kept].start != s[i].start)
            s[++kept] = s[i];
        else if (!first_is_better(t, &s[kept], &s[i]))
            s[kept] = s[i];
    }
    if (t->symbols.nr)
        t->symbols.nr = kept + 1;
}

static void settle(struct symtab *t, bool kallsyms)
{
    sort_symbols(t);
    if (t->no_memory)
        return;
    fix_sizes(t, kallsyms);
    drop_duplicates(t);
}

/* ---- segments ---------------------------------------------------------------------------- */

static void make_segments(struct symtab *t)
{
    struct segment_range *ranges = malloc((t->symbols.nr + 1) * sizeof(*ranges));
    for (size_t i = 0; ranges && i < t->symbols.nr; i++)
        ranges[i] =
            (struct segment_range){t->symbols.at[i].start, t->symbols.at[i].end, (uint32_t)i};
    if (!ranges || !segments_make(&t->segments, ranges, t->symbols.nr))
        t->no_memory = true;
    free(ranges);
}

struct symbol *symtab_find(const struct symtab *t, uint64_t address)
{
    uint32_t owner = segments_find(&t->segments, address);
    return owner == NO_OWNER ? NULL : &t->symbols.at[owner];
}

const char *symtab_name(const struct symtab *t, struct symbol *s, struct intern *strings)
{
    const char *shown = atomic_load_explicit(&s->shown, memory_order_acquire);
    if (shown)
        return shown;
    struct text text = {0};
    if (!t->demangle || !demangle(s->name, &text))
        text_string(&text, s->name);
    if (s->plt)
        text_string(&text, "@plt");
    if (!text.failed)
        shown = intern_bytes(strings, text.at ? text.at : "", text.size);
    text_free(&text);
    if (shown)
        atomic_store_explicit(&s->shown, shown, memory_order_release);
    return shown;
}

/* ---- ELF --------------------------------------------------------------------------------- */

struct raw_symbol {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
};

static struct raw_symbol read_symbol(struct cursor *c, bool is64)
{
    struct raw_symbol s = {.name = cursor_u32(c)};
    if (!is64) {
        s.value = cursor_u32(c);
        s.size = cursor_u32(c);
    }
    s.info = cursor_u8(c);
    s.other = cursor_u8(c);
    s.section = cursor_u16(c);
    if (is64) {
        s.value = cursor_u64(c);
        s.size = cursor_u64(c);
    }
    return s;
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

/* Functions, indirect functions, objects; labels of text and data that are visible. */
static bool is_label(const struct raw_symbol *s)
{
    return ELF64_ST_TYPE(s->info) == STT_NOTYPE && ELF64_ST_VISIBILITY(s->other) != STV_HIDDEN &&
           ELF64_ST_VISIBILITY(s->other) != STV_INTERNAL;
}

static bool is_wanted(const struct raw_symbol *s)
{
    unsigned type = ELF64_ST_TYPE(s->info);
    return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_OBJECT || is_label(s);
}

static bool is_arm_mapping(const struct elf_image *e, const char *name)
{
    return (e->machine == EM_ARM || e->machine == EM_AARCH64) && name[0] == '$' && name[1] &&
           strchr("adtx", name[1]) && (!name[2] || name[2] == '.');
}

/* Virtual address to file offset by the first segment that holds it, else by the section. */
static uint64_t file_offset(const struct elf_image *runtime, uint64_t value,
                            const struct elf_shdr *section)
{
    const struct elf_tables *t = runtime->tables;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *p = &t->segments[i];
        uint64_t size = p->memsz > p->filesz ? p->memsz : p->filesz;
        if (p->type == PT_LOAD && value >= p->vaddr && value - p->vaddr < size)
            return value - p->vaddr + p->offset;
    }
    return value - section->addr + section->offset;
}

/* Where a table is read from and what its values mean. */
struct source {
    const struct elf_image *e;       /* has the table */
    const struct elf_image *runtime; /* has the program headers; its sections have bytes */
    bool kernel;                     /* values + `bias`, text only */
    bool module;                     /* offsets in .text */
    uint64_t bias;
};

static void add_elf_symbol(struct symtab *t, const struct source *src, const struct raw_symbol *s,
                           const char *name)
{
    const struct elf_tables *tables = src->e->tables, *runtime = src->runtime->tables;
    if (s->section == SHN_UNDEF || s->section >= tables->nr_sections || !is_wanted(s) || !*name ||
        is_arm_mapping(src->e, name))
        return;
    const struct elf_shdr *section = &tables->sections[s->section];
    if (!(section->flags & SHF_ALLOC))
        return;
    if (section->type == SHT_NOBITS && s->section < runtime->nr_sections)
        section = &runtime->sections[s->section];
    if (is_label(s) && !strstr(section->name, "text") && !strstr(section->name, "data"))
        return;
    uint64_t value = s->value;
    if (src->e->machine == EM_ARM && ELF64_ST_TYPE(s->info) == STT_FUNC)
        value &= ~UINT64_C(1);
    if (src->kernel)
        value += src->bias;
    else if (src->module && strcmp(section->name, ".text") != 0)
        return;
    else if (!src->module)
        value = file_offset(src->runtime, value, section);
    add(t, value, s->size, name, ELF64_ST_BIND(s->info), false);
}

static void add_table(struct symtab *t, const struct source *src, const char *table, uint32_t type)
{
    struct elf_section s;
    if (!elf_image_section(src->e, table, &s) || !s.bytes || s.type != type)
        return;
    struct elf_section names = string_table(src->e, s.link);
    size_t entsize = src->e->is64 ? 24 : 16;
    size_t nr = s.size / entsize, before = t->symbols.nr;
    struct cursor c = cursor_make(s.bytes, s.size, src->e->swapped, src->e->path, table, s.offset);
    for (size_t i = 0; i < nr && !t->no_memory; i++) {
        struct raw_symbol raw = read_symbol(&c, src->e->is64);
        if (raw.name && raw.name < names.size)
            add_elf_symbol(t, src, &raw, (const char *)names.bytes + raw.name);
    }
    if (t->symbols.nr > before && !t->no_memory)
        settle(t, false);
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
    size_t word = e->is64 ? 8 : 4, rel_size = rela ? 3 * word : 2 * word,
           sym_size = e->is64 ? 24 : 16;
    if (size == 0 || size > 4096)
        return;
    for (size_t i = 0; i < rel.size / rel_size && !t->no_memory; i++) {
        const uint8_t *info_at = rel.bytes + i * rel_size + word;
        uint64_t symbol =
            e->is64 ? load_u64(info_at, e->swapped) >> 32 : load_u32(info_at, e->swapped) >> 8;
        if (symbol >= dynsym.size / sym_size)
            continue;
        uint32_t name = load_u32(dynsym.bytes + symbol * sym_size, e->swapped);
        add(t, plt->offset + first + i * size, size,
            name < names.size ? (const char *)names.bytes + name : "", STB_GLOBAL, true);
    }
    if (!t->no_memory)
        sort_symbols(t);
}

static bool has_table(const struct elf_image *e, const char *name, uint32_t type)
{
    struct elf_section s;
    return elf_image_section(e, name, &s) && s.bytes && s.type == type;
}

static void load_user(struct symtab *t, struct dso *dso)
{
    const struct elf_image *image = dso_image(dso), *debug = dso_debug_image(dso);
    if (!image)
        return;
    const struct elf_image *from = debug && has_table(debug, ".symtab", SHT_SYMTAB) ? debug : image;
    struct source src = {.e = from, .runtime = image, .module = dso->kind == DSO_KMODULE};
    add_table(t, &src, ".symtab", SHT_SYMTAB);
    /* With a separate debug file perf takes no .dynsym (the debug file's has no bytes).
     * MiniDebugInfo, whose path is its host's, leaves out what .dynsym has. */
    if (strcmp(from->path, image->path) == 0) {
        src.e = image;
        add_table(t, &src, ".dynsym", SHT_DYNSYM);
    }
    if (t->symbols.nr && dso->kind != DSO_KMODULE)
        add_plt(t, image);
}

/* ---- kernel ------------------------------------------------------------------------------ */

/* A whole file of unknown size (/proc), with a NUL behind it; NULL: unreadable. */
static char *read_whole(const char *path, size_t *size)
{
    enum { KALLSYMS_MAX = 256 << 20 };
    char *text = NULL;
    size_t cap = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *size = 0;
    while (fd >= 0 && got > 0 && *size < KALLSYMS_MAX) {
        if (cap - *size < 65536) {
            char *more = realloc(text, cap = cap * 2 + (8 << 20));
            if (!more)
                break;
            text = more;
        }
        got = read(fd, text + *size, cap - *size - 1);
        *size += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    if (!text || got != 0) {
        free(text);
        return NULL;
    }
    text[*size] = 0;
    return text;
}

static uint64_t read_hex(const char **p)
{
    uint64_t v = 0;
    for (;; (*p)++) {
        unsigned c = (unsigned char)**p;
        unsigned digit = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
        if (digit > 15)
            return v;
        v = v << 4 | digit;
    }
}

/* One line: address, type, name, and "\t[module]". Which of them are wanted: the kernel's (with all
 * modules', as perf sorts them together) or one module's. */
static void add_kallsym(struct symtab *t, char *line, const char *module, uint64_t bias)
{
    const char *p = line;
    uint64_t address = read_hex(&p);
    if (p == line || p[0] != ' ' || !p[1] || p[2] != ' ' || !p[3] || p[3] == '$')
        return;
    char type = p[1];
    bool upper = type >= 'A' && type <= 'Z';
    if (!strchr("TWDB", upper ? type : type - 32))
        return;
    char *name = (char *)p + 3, *of = strchr(name, '\t');
    if (module ? !of || strcmp(of + 1, module) != 0 : false)
        return;
    add(t, address + bias, 0, name, type == 'W' ? STB_WEAK : upper ? STB_GLOBAL : STB_LOCAL, false);
}

/* The address of a symbol in kallsyms' text; 0: none. */
static uint64_t kallsyms_address(const char *text, const char *symbol)
{
    size_t size = strlen(symbol);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *p = line;
        uint64_t address = read_hex(&p);
        if (p != line && p[0] == ' ' && p[1] && p[2] == ' ' && strncmp(p + 3, symbol, size) == 0 &&
            (p[3 + size] == '\n' || p[3 + size] == 0))
            return address;
    }
    return 0;
}

static void load_kallsyms(struct symtab *t, struct dso *dso, const char *module)
{
    const char *path = dso_kallsyms(dso), *reference;
    size_t size;
    uint64_t bias = 0, recorded;
    if (!path || !(t->text = read_whole(path, &size)))
        return;
    if (dso->kind == DSO_KERNEL && dso_reference(dso, &reference, &recorded)) {
        uint64_t here = kallsyms_address(t->text, reference);
        bias = here ? recorded - here : 0;
    }
    for (char *line = t->text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        add_kallsym(t, line, module, bias);
    }
    /* Hidden addresses (kptr_restrict) are all zero. */
    settle(t, true);
    if (t->symbols.nr && t->symbols.at[t->symbols.nr - 1].start == 0)
        t->symbols.nr = 0;
    /* What ended a name in the file's line ends the name. */
    vec_foreach (s, &t->symbols) {
        char *tab = strchr(s->name, '\t');
        if (tab)
            *tab = 0;
    }
}

/* A module's symbols from kallsyms, made relative to the page where its text begins. */
static void load_module_kallsyms(struct symtab *t, struct dso *dso)
{
    char module[256];
    const char *name = dso->short_name;
    size_t size = strcspn(name, ".]");
    size_t skip = *name == '[';
    if (size <= skip || size >= sizeof(module) - 2)
        return;
    size_t at = 0;
    module[at++] = '[';
    for (size_t i = skip; i < size; i++)
        module[at++] = name[i] == '-' ? '_' : name[i];
    module[at++] = ']';
    module[at] = 0;
    load_kallsyms(t, dso, module);
    uint64_t base = t->symbols.nr ? t->symbols.at[0].start & ~UINT64_C(4095) : 0;
    vec_foreach (s, &t->symbols) {
        s->start -= base;
        s->end -= base;
    }
}

static void load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux)
{
    const char *reference;
    uint64_t recorded;
    struct source src = {.e = vmlinux, .runtime = vmlinux, .kernel = true};
    add_table(t, &src, ".symtab", SHT_SYMTAB);
    if (!dso_reference(dso, &reference, &recorded))
        return;
    uint64_t bias = 0;
    vec_foreach (s, &t->symbols)
        if (strcmp(s->name, reference) == 0)
            bias = recorded - s->start;
    vec_foreach (s, &t->symbols) {
        s->start += bias;
        s->end += bias;
    }
}

static void load_kernel(struct symtab *t, struct dso *dso)
{
    const struct elf_image *vmlinux = dso_image(dso);
    if (vmlinux)
        load_vmlinux(t, dso, vmlinux);
    if (!t->symbols.nr)
        load_kallsyms(t, dso, NULL);
}

/* ---- the table --------------------------------------------------------------------------- */

struct symtab *symtab_create(struct dso *dso, bool no_demangle)
{
    struct symtab *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->demangle = !no_demangle && dso->kind != DSO_KERNEL && dso->kind != DSO_KMODULE;
    if (dso->kind == DSO_KERNEL)
        load_kernel(t, dso);
    else if (dso->kind != DSO_PSEUDO)
        load_user(t, dso);
    if (dso->kind == DSO_KMODULE && !t->symbols.nr)
        load_module_kallsyms(t, dso);
    if (!t->no_memory)
        make_segments(t);
    if (t->no_memory) {
        symtab_free(t);
        return NULL;
    }
    return t;
}

void symtab_free(struct symtab *t)
{
    if (!t)
        return;
    vec_free(&t->symbols);
    segments_free(&t->segments);
    free(t->text);
    free(t);
}

size_t symtab_size(const struct symtab *t)
{
    return t->symbols.nr;
}
