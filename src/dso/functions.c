/* SPDX-License-Identifier: GPL-2.0-only */
/* Where functions begin and end by a file's symbols: for code without CFI. */
#include "base/sort.h"
#include "dso/dso_internal.h"
#include "dso/functions.h"

#include <elf.h>
#include <stdlib.h>

struct functions {
    size_t nr;
    struct function {
        uint64_t start, size; /* size 0: not known */
    } at[];
};

/* The symbols of one table that are functions with an address. */
struct table {
    struct elf_section symbols;
    size_t nr;
};

static struct table open_table(const struct elf_image *image, const char *name)
{
    struct table t = {0};
    if (image && image->is64 && !image->swapped && elf_image_section(image, name, &t.symbols) &&
        t.symbols.bytes)
        t.nr = t.symbols.size / sizeof(Elf64_Sym);
    return t;
}

static bool read_function(const struct table *t, size_t i, struct function *ret)
{
    Elf64_Sym s;
    memcpy(&s, t->symbols.bytes + i * sizeof(s), sizeof(s));
    *ret = (struct function){s.st_value, s.st_size};
    return ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF && s.st_value &&
           s.st_size <= UINT32_MAX;
}

static size_t add_keys(const struct table *t, struct sort_key *keys, size_t nr)
{
    for (size_t i = 0; i < t->nr; i++) {
        struct function f;
        if (read_function(t, i, &f))
            keys[nr++] = (struct sort_key){.key = f.start, .extra = (uint32_t)f.size};
    }
    return nr;
}

/* Of several symbols at one address the largest tells the size. */
static struct functions *make(const struct sort_key *keys, size_t nr)
{
    struct functions *f = malloc(sizeof(*f) + nr * sizeof(f->at[0]));
    if (!f)
        return NULL;
    f->nr = 0;
    for (size_t i = 0; i < nr; i++) {
        struct function *last = f->nr ? &f->at[f->nr - 1] : NULL;
        if (!last || last->start != keys[i].key)
            f->at[f->nr++] = (struct function){keys[i].key, keys[i].extra};
        else if (keys[i].extra > last->size)
            last->size = keys[i].extra;
    }
    return f;
}

struct functions *functions_load(const struct elf_image *image, const struct elf_image *debug)
{
    const struct table tables[] = {open_table(debug ? debug : image, ".symtab"),
                                   open_table(image, ".dynsym")};
    size_t nr = tables[0].nr + tables[1].nr;
    struct sort_key *keys = nr ? malloc(nr * sizeof(*keys)) : NULL;
    if (!keys)
        return NULL;
    nr = add_keys(&tables[1], keys, add_keys(&tables[0], keys, 0));
    struct functions *f = sort_keys(keys, nr) ? make(keys, nr) : NULL;
    free(keys);
    return f;
}

void functions_free(struct functions *f)
{
    free(f);
}

bool functions_find(const struct functions *f, uint64_t address, uint64_t *start, uint64_t *end)
{
    size_t low = 0, high = f ? f->nr : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->at[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low || (f->at[low - 1].size && address - f->at[low - 1].start >= f->at[low - 1].size))
        return false;
    *start = f->at[low - 1].start;
    *end = f->at[low - 1].size ? *start + f->at[low - 1].size : 0;
    return true;
}
