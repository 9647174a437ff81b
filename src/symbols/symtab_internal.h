/* SPDX-License-Identifier: GPL-2.0-only */
/* What symtab.c (order and choice) and those that load tables (ELF, kallsyms) share. */
#ifndef SYMBOLS_SYMTAB_INTERNAL_H
#define SYMBOLS_SYMTAB_INTERNAL_H

#include "base/vec.h"
#include "dso/elf_image.h"
#include "base/sort.h"
#include "symbols/symtab.h"

#include <pthread.h>

/* A symbol table in an ELF file. */
struct elf_symbols {
    const struct elf_image *e;
    struct elf_section entries, names; /* names end in a NUL */
    uint32_t nr;
};

enum { TABLE_SYMTAB, TABLE_DYNSYM, TABLE_PLT };

/* Symbols are keys alone: the address, which symbol it is (`index`), and how far it reaches
 * (`extra`, a size; UINT32_MAX: as much or more; while loading 0: to the next symbol). Of ELF
 * files indexes count through .symtab, .dynsym and PLT entries; of kallsyms they are offsets of
 * lines in the text, and `extra` first tells whether it is a module's. */
struct symtab {
    VEC(struct sort_key) keys; /* sorted */
    struct elf_symbols tables[2];
    VEC(const char *) plt;
    struct kallsyms_text text;      /* empty: ELF */
    bool nested;                    /* some symbol reaches beyond the start of another */
    uint64_t *reach;                /* when nested: tree of maxima of ends, over blocks of keys */
    size_t nr_leaves;               /* a power of two */
    pthread_mutex_t lock;           /* of `list` */
    _Atomic(struct symbol *) *made; /* [keys.nr] made at first need */
    VEC(struct symbol *) list;
    VEC(char *) copies; /* of kallsyms' names */
    /* The kernel's own lines of a text that stands in order: symbols are looked up in it, there are
     * no keys, and `list` is sorted by start. Empty: all keys are loaded. */
    struct kallsyms_text core;
    uint64_t bias;                  /* added to the core's addresses */
    _Atomic(struct symtab *) whole; /* for what the core does not tell; made at first need */
    struct dso *dso;                /* to make it */
    struct kallsyms_files *files;
    bool demangle;
    bool no_memory;
};

static inline struct sort_key symtab_key(uint64_t start, size_t index, uint64_t size)
{
    uint32_t extra = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    return (struct sort_key){start, (uint32_t)index, extra};
}

static inline void symtab_add(struct symtab *t, uint64_t start, size_t index, uint64_t size)
{
    if (index >= UINT32_MAX || !vec_push(&t->keys, symtab_key(start, index, size)))
        t->no_memory = true;
}

static inline unsigned symtab_table(const struct symtab *t, uint32_t index)
{
    return index < t->tables[0].nr                     ? TABLE_SYMTAB
           : index < t->tables[0].nr + t->tables[1].nr ? TABLE_DYNSYM
                                                       : TABLE_PLT;
}

/* symtab_elf.c: the symbols of a user dso or module, of a vmlinux. */
void symtab_load_elf(struct symtab *t, struct dso *dso);
void symtab_load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux);
/* The symbol of a key; false: it has no name. One whose size does not fit in the key has its end at
 * its start where only the next symbol can tell. */
bool symtab_elf_symbol(const struct symtab *t, const struct sort_key *k, struct symbol *ret);

/* symtab_kallsyms.c. With `in_order` a kernel's text that stands in order is not loaded. */
void symtab_load_kallsyms(struct symtab *t, struct dso *dso, struct kallsyms_files *files,
                          bool in_order);
/* Whether the line is a symbol that counts. */
bool symtab_kallsyms_wanted(const struct kallsyms_line *l);
/* The name is copied: under the lock. */
bool symtab_kallsyms_symbol(struct symtab *t, const struct sort_key *k, struct symbol *ret);

/* symtab_ordered.c: symbols are to be looked up in the text; false: it cannot be. */
bool symtab_order_kallsyms(struct symtab *t, uint64_t bias);
/* The symbol that covers the address (NULL: memory is out); false: the whole table must tell. */
bool symtab_ordered_find(struct symtab *t, uint64_t address, struct symbol **ret);

#endif
