/* SPDX-License-Identifier: GPL-2.0-only */
/* The V8 in an ELF file: passes its symbols and bytes to unwind/v8. */
#include "base/cursor.h"
#include "dso/elf_symbol.h"
#include "dso/dso_internal.h"
#include "unwind/v8/layout.h"

#include <elf.h>
#include <string.h>

/* Symbol tables that are searched: the file's own two, and its debug file's. */
enum { EXPORTED, TABLES = 3 };
struct table {
    struct elf_section symbols, strings;
    /* `nr_likely` leaves out the global symbols of .symtab, which come last. */
    size_t nr, nr_likely;
};
struct source {
    const struct elf_image *image;
    struct table tables[TABLES];
    struct elf_section relocations; /* .rela.dyn: relative relocations first, sorted by address */
    uint64_t blob, blob_size;       /* address range of the builtins; size 0: not known */
};

static void open_table(const struct elf_image *e, const char *name, const char *strings,
                       struct table *ret)
{
    *ret = (struct table){0};
    if (elf_image_section(e, name, &ret->symbols) && ret->symbols.bytes &&
        elf_image_section(e, strings, &ret->strings) && ret->strings.bytes && ret->strings.size &&
        ret->strings.bytes[ret->strings.size - 1] == 0)
        ret->nr = ret->symbols.size / sizeof(Elf64_Sym);
    ret->nr_likely = ret->nr;
    if (ret->nr && ret->symbols.type == SHT_SYMTAB) {
        uint32_t nr_local = e->tables->sections[ret->symbols.index].info;
        ret->nr_likely = nr_local < ret->nr ? nr_local : ret->nr;
    }
}

/* Symbols of V8 that matter are local functions, and data: numbers of 4 bytes, and a table of three
 * rows with one or four bytes for each bytecode. The names of all other symbols are not read, which
 * saves a cache miss each; undefined symbols are skipped too. */
static bool may_be_v8(const struct table *t, const uint8_t *at)
{
    enum { BYTECODES_MIN = 100, ROWS = 3 };
    bool local = ELF64_ST_BIND(at[4]) == STB_LOCAL;
    uint64_t size = load_u64(at + 16, false);
    switch (ELF64_ST_TYPE(at[4])) {
    case STT_FUNC:
        if (!local)
            return false;
        break;
    case STT_OBJECT:
        if (size != 4 && (size < ROWS * BYTECODES_MIN || size % ROWS))
            return false;
        break;
    default:
        break;
    }
    return (at[6] || at[7]) && load_u32(at, false) < t->strings.size; /* at[6], at[7]: st_shndx */
}

/* Metadata, versions and tables are exported data. Builtins are local functions of the one object
 * file that contains the blob, among ten times as many other local functions. */
static bool is_likely(const struct source *s, size_t table, const uint8_t *at)
{
    return table == EXPORTED ? at[4] == ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT)
                             : at[4] == ELF64_ST_INFO(STB_LOCAL, STT_FUNC) &&
                                   load_u64(at + 8, false) - s->blob < s->blob_size;
}

static bool symbol_next(void *context, bool all, size_t *index, struct v8_symbol *ret)
{
    const struct source *s = context;
    size_t first = 0; /* index of the table's first symbol */
    for (size_t i = 0; (all || s->blob_size) && i < TABLES; first += s->tables[i++].nr) {
        const struct table *t = &s->tables[i];
        size_t from = *index > first ? *index - first : 0;
        for (size_t n = from; n < (all ? t->nr : t->nr_likely); n++) {
            const uint8_t *at = t->symbols.bytes + n * sizeof(Elf64_Sym);
            if ((!all && !is_likely(s, i, at)) || !may_be_v8(t, at))
                continue;
            *ret = (struct v8_symbol){(const char *)t->strings.bytes + load_u32(at, false),
                                      load_u64(at + 8, false), load_u64(at + 16, false)};
            *index = first + n + 1;
            return true;
        }
    }
    return false;
}

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    const struct elf_image *e = ((const struct source *)context)->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        uint64_t at = address - p->vaddr;
        if (p->type == PT_LOAD && at < p->filesz && p->filesz - at >= size && elf_image_holds(e, p))
            return e->bytes + p->offset + at;
    }
    return NULL;
}

/* Get the value that the loader's relocation writes to the word at `address`: the addend of a
 * relative relocation. Returns false when there is none. */
static bool relocated(const struct source *s, uint64_t address, uint64_t *ret)
{
    size_t low = 0, high = s->relocations.bytes ? s->relocations.size / sizeof(Elf64_Rela) : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const uint8_t *at = s->relocations.bytes + mid * sizeof(Elf64_Rela);
        bool relative = ELF64_R_TYPE(load_u64(at + 8, false)) == R_X86_64_RELATIVE;
        uint64_t offset = load_u64(at, false);
        if (relative && offset == address) {
            *ret = load_u64(at + 16, false);
            return true;
        }
        if (relative && offset < address)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

static uint64_t word_at(void *context, uint64_t address)
{
    uint64_t word;
    if (relocated(context, address, &word))
        return word;
    const uint8_t *bytes = bytes_at(context, address, sizeof(word));
    return bytes ? load_u64(bytes, false) : 0;
}

static bool segment_at(void *context, size_t index, struct v8_segment *ret)
{
    const struct elf_image *e = ((const struct source *)context)->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type != PT_LOAD || index--)
            continue;
        uint64_t size = elf_image_holds(e, p) ? p->filesz : 0;
        *ret = (struct v8_segment){p->vaddr, size, p->flags & PF_X, p->flags & PF_W};
        return true;
    }
    return false;
}

/* ---- where the blob is --------------------------------------------------------------------- */

static bool begins_with(const uint8_t *at, const char *bytes, size_t size)
{
    return memcmp(at, bytes, size) == 0;
}

/* Get the value that a function without arguments returns if all it does is load a constant, an
 * address or, with `load`, a number of four bytes. Returns false for any other function. */
static bool returned(struct source *s, const char *name, bool load, uint64_t *ret)
{
    enum { MOST = 24 };
    uint64_t address;
    const uint8_t *start =
        elf_exported_symbol(s->image, name, &address) ? bytes_at(s, address, MOST) : NULL;
    if (!start)
        return false;
    const uint8_t *at = start;
    at += begins_with(at, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0; /* endbr64 */
    at += begins_with(at, "\x55\x48\x89\xe5", 4) ? 4 : 0; /* push rbp; mov rbp, rsp */
    size_t head = *at == 0xb8 ? 1 : begins_with(at, "\x8b\x05", 2) ? 2 : 3;
    uint64_t next = address + (uint64_t)(at - start) + head + 4;
    int64_t number = (int32_t)load_u32(at + head, false);
    if (head == 1) { /* mov eax, N */
        *ret = (uint32_t)number;
    } else if (head == 2) { /* mov eax, [rip + N] */
        const uint8_t *value = load ? bytes_at(s, next + (uint64_t)number, 4) : NULL;
        if (!value)
            return false;
        *ret = load_u32(value, false);
    } else if (begins_with(at, "\x48\xc7\xc0", 3)) { /* mov rax, N */
        *ret = (uint64_t)number;
    } else if (begins_with(at, "\x48\x8d\x05", 3)) { /* lea rax, [rip + N] */
        *ret = next + (uint64_t)number;
    } else {
        return false;
    }
    at += head + 4;
    return at[*at == 0x5d] == 0xc3; /* pop rbp; ret */
}

/* V8 8.5 and later export functions that return the address and the size of the blob. */
static void find_blob(struct source *s)
{
    if (!returned(s, "_ZN2v88internal23DefaultEmbeddedBlobCodeEv", false, &s->blob) ||
        !returned(s, "_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv", true, &s->blob_size))
        s->blob_size = 0;
}

void dso_find_v8(struct dso_entry *d, const struct elf_image *e, struct cfi *cfi)
{
    struct source s = {.image = e};
    struct v8_layout *layout = NULL;
    struct error err;
    if (!elf_has_v8(e))
        return;
    open_table(e, ".dynsym", ".dynstr", &s.tables[0]);
    open_table(e, ".symtab", ".strtab", &s.tables[1]);
    const struct elf_image *debug = s.tables[1].nr ? e : dso_debug_image(&d->dso);
    if (debug && debug != e && debug->machine == e->machine && debug->is64)
        open_table(debug, ".symtab", ".strtab", &s.tables[2]);
    if (!elf_image_section(e, ".rela.dyn", &s.relocations))
        s.relocations = (struct elf_section){0};
    find_blob(&s);
    const struct v8_image image = {e->path, symbol_next, bytes_at, word_at, segment_at, &s};
    int found = v8_layout_create(&image, &layout, &err);
    if (found > 0)
        cfi_set_v8(cfi, layout);
    else if (found < 0)
        dso_set_problem(d, "%s", err.text);
}
