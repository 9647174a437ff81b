/* SPDX-License-Identifier: GPL-2.0-only */
/* What symtab.c (order and choice) and those that load tables (ELF, kallsyms) share. */
#ifndef SYMBOLS_SYMTAB_INTERNAL_H
#define SYMBOLS_SYMTAB_INTERNAL_H

#include "base/vec.h"
#include "dso/elf_image.h"
#include "base/sort.h"
#include "symbols/symtab.h"

#include <pthread.h>

/* What the symbols of a section are (symtab_elf.c). */
struct section_use;

/* A symbol table in an ELF file, and what its values mean. */
struct elf_symbols {
    const struct elf_image *e;          /* has the table */
    const struct elf_image *runtime;    /* has the program headers; its sections have bytes */
    struct elf_section entries, names;  /* names end in a NUL */
    uint32_t nr, nr_names, nr_sections; /* nr_names: names begin at bytes from 1 up to it */
    bool kernel;                        /* values are addresses, to which `bias` is added */
    bool module;                        /* values are offsets in .text */
    uint64_t bias;
    struct section_use *sections; /* [e's nr_sections] */
};

enum { TABLE_SYMTAB, TABLE_DYNSYM, TABLE_PLT };

struct plt_entry {
    const char *name;
    uint64_t place;
    uint32_t size;
};

/* The symbols of one bucket, in order. A key is where a symbol stands, which it is (`index`), and
 * how far it reaches (`extra`, a size; UINT32_MAX: as much or more). Of ELF files indexes count
 * through .symtab, .dynsym and PLT entries; of kallsyms they are offsets of lines in the text, and
 * while loading `extra` tells whether it is a module's. */
struct symtab_part {
    struct sort_key *keys;
    _Atomic(struct symbol *) *made; /* [nr] at first need */
    size_t nr;
    uint32_t bucket;
    bool nested; /* some symbol reaches beyond the start of another */
};

/* Symbols of neighbouring addresses: of the hundreds of thousands that a file has a recording names
 * some hundred, so that only those around what is asked for are ever put in order. */
struct symtab_bucket {
    uint32_t head;  /* 0: none; number of a symbol + 1 (the others by `next`); SETTLED + a part:
                       read without the lock, too */
    uint32_t reach; /* the last bucket that one of its symbols reaches into; 0: none beyond itself;
                       BUCKET_FAR: all, or while loading that some symbol has no size */
};
enum { BUCKET_WIDE = 4, BUCKET_WIDER = 8 };
#define BUCKET_SETTLED (UINT32_C(1) << 31)
#define BUCKET_FAR UINT32_MAX

struct symtab_buckets {
    struct symtab_bucket *at;
    uint32_t *wide, *wider; /* the most that 16 buckets in a row reach, and 256 */
    uint32_t *before;       /* the most that anything before those 16 reaches */
    uint32_t nr;
    unsigned shift; /* a bucket is 1 << shift bytes; the first and the last have all beyond, too */
    uint64_t base;
    VEC(uint32_t) next; /* by a symbol's index: number + 1 of another one in its bucket, 0: none */
    struct symtab_part **parts; /* [nr] places, which stay where they are */
    uint32_t nr_parts;          /* that are taken */
};

struct symtab {
    struct elf_symbols tables[2];
    VEC(struct plt_entry) plt;
    struct kallsyms_text text;  /* empty: ELF */
    VEC(struct sort_key) lines; /* of kallsyms, while loading */
    bool any;                   /* symbols that count were found */
    pthread_mutex_t lock;       /* of all that follows; what is once made is read without it */
    struct symtab_buckets buckets;
    VEC(struct symbol *) list;
    VEC(char *) copies; /* of names that stand in no file: kallsyms', resolvers' */
    /* The kernel's own lines of a text that stands in order: symbols are looked up in it, there are
     * no buckets, and `list` is sorted by start. Empty: all symbols are loaded. */
    struct kallsyms_text core;
    uint64_t bias;                  /* added to the core's addresses */
    _Atomic(struct symtab *) whole; /* for what the core does not tell; made at first need */
    struct dso *dso;                /* to make it */
    struct kallsyms_files *files;
    bool demangle;
    bool no_memory;
};

/* Size in a key. */
static inline uint32_t symtab_size(uint64_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static inline unsigned symtab_table(const struct symtab *t, uint32_t index)
{
    return t->text.at || index < t->tables[0].nr       ? TABLE_SYMTAB
           : index < t->tables[0].nr + t->tables[1].nr ? TABLE_DYNSYM
                                                       : TABLE_PLT;
}

/* symtab_buckets.c. Buckets for about `nr` symbols most of which stand in `size` bytes from `base`
 * on; false: memory is out. */
bool symtab_buckets_make(struct symtab_buckets *b, size_t nr, uint64_t base, uint64_t size);
void symtab_buckets_free(struct symtab_buckets *b);
/* All symbols of ELF files are in their buckets; false: memory is out. */
bool symtab_buckets_close(struct symtab *t);
/* All of them are one bucket, of these keys, which it takes over, also when it fails. */
bool symtab_buckets_adopt(struct symtab *t, struct sort_key *keys, size_t nr);
/* The symbols of a bucket, in order; NULL: there are none, or memory is out. Under the lock. */
struct symtab_part *symtab_part_get(struct symtab *t, uint32_t bucket);
/* The same without the lock; false: they must be put in order first. */
bool symtab_part_ready(const struct symtab_buckets *b, uint32_t bucket, struct symtab_part **ret);
/* The last bucket before `from` out of which something reaches into bucket `into`; `ret` is it. */
bool symtab_bucket_before(const struct symtab_buckets *b, uint32_t from, uint32_t into,
                          uint32_t *ret);
/* Where the next symbol elsewhere stands up to which one without a size reaches; false: none. */
bool symtab_bound(const struct symtab *t, const struct symtab_part *part, size_t i, uint64_t *ret);

static inline uint32_t symtab_bucket_of(const struct symtab_buckets *b, uint64_t place)
{
    uint64_t at = place > b->base ? (place - b->base) >> b->shift : 0;
    return at < b->nr ? (uint32_t)at : b->nr - 1;
}

/* A symbol goes into its bucket; there is room for it in `next`. */
void symtab_bucket_add(struct symtab_buckets *b, uint32_t index, uint64_t place, uint64_t size);

/* symtab_elf.c: the symbols of a user dso or module, of a vmlinux. */
void symtab_load_elf(struct symtab *t, struct dso *dso);
void symtab_load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux);
/* The key of a symbol, with size 0 if it has none. */
struct sort_key symtab_elf_key(const struct symtab *t, uint32_t index);
/* It will be asked for soon. */
void symtab_elf_prefetch(const struct symtab *t, uint32_t index);
void symtab_elf_free(struct symtab *t);
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
