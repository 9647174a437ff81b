/* SPDX-License-Identifier: GPL-2.0-only */
/* What symtab.c (order and choice) and the files that load tables (ELF, kallsyms) share. */
#ifndef SYMBOLS_SYMTAB_INTERNAL_H
#define SYMBOLS_SYMTAB_INTERNAL_H

#include "base/vec.h"
#include "dso/elf_image.h"
#include "base/sort.h"
#include "symbols/symtab.h"

#include <pthread.h>

/* How to treat the symbols of a section (symtab_elf.c). */
struct section_use;

/* A symbol table in an ELF file, and the meaning of its values. */
struct elf_symbols {
    const struct elf_image *e;          /* contains the table */
    const struct elf_image *runtime;    /* has the program headers; its sections have bytes */
    struct elf_section entries, names;  /* names ends in a NUL */
    uint32_t nr, nr_names, nr_sections; /* nr_names: a name's offset is from 1 up to it */
    bool kernel;                        /* values are addresses; `bias` is added to them */
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

/* The symbols of one bucket, sorted. A key holds a symbol's place, its number (`index`) and its
 * size (`extra`; UINT32_MAX: that much or more). For ELF files, indexes count through .symtab,
 * .dynsym and PLT entries. For kallsyms they are offsets of lines in the text, and while loading,
 * `extra` says whether the symbol is a module's. */
struct symtab_part {
    struct sort_key *keys;
    _Atomic(struct symbol *) *made; /* [nr], each made at first need */
    size_t nr;
    uint32_t bucket;
    bool nested; /* some symbol reaches beyond the start of another */
};

/* Symbols at neighbouring addresses. Of the hundreds of thousands of symbols in a file a recording
 * needs some hundred, so only the buckets around the addresses looked up are ever sorted. */
struct symtab_bucket {
    /* 0: none; number of a symbol + 1 (the others by `next`); BUCKET_SETTLED + number of a part. It
     * is also read without the lock. */
    uint32_t head;
    /* The last bucket that a symbol of this one reaches into; 0: none beyond itself; BUCKET_FAR:
     * into all buckets; while loading also: some symbol has no size. */
    uint32_t reach;
};
enum { BUCKET_WIDE = 4, BUCKET_WIDER = 8 };
#define BUCKET_SETTLED (UINT32_C(1) << 31)
#define BUCKET_FAR UINT32_MAX

struct symtab_buckets {
    struct symtab_bucket *at;
    uint32_t *wide, *wider; /* highest `reach` of each 16 buckets, and of each 256 */
    uint32_t *before;       /* highest `reach` of all buckets before each 16 */
    uint32_t nr;
    /* A bucket is 1 << shift bytes; the first and the last bucket also hold all symbols beyond. */
    unsigned shift;
    uint64_t base;
    VEC(uint32_t) next; /* by symbol index: number + 1 of the next one in its bucket; 0: none */
    struct symtab_part **parts; /* [nr] pointers; the array never moves */
    uint32_t nr_parts;          /* parts in use */
};

struct symtab {
    struct elf_symbols tables[2];
    VEC(struct plt_entry) plt;
    struct kallsyms_text text;  /* empty: ELF */
    VEC(struct sort_key) lines; /* of kallsyms, only while loading */
    bool any;                   /* some symbol counts */
    pthread_mutex_t lock;       /* protects all below; finished parts are read without it */
    struct symtab_buckets buckets;
    VEC(struct symbol *) list;
    VEC(char *) copies; /* names that are in no file: of kallsyms, of resolvers */
    /* The kernel's own lines of a sorted kallsyms text: symbols are looked up in the text, there
     * are no buckets, and `list` is sorted by start. Empty: all symbols are loaded. */
    struct kallsyms_text core;
    uint64_t bias;                  /* added to the addresses in `core` */
    _Atomic(struct symtab *) whole; /* used where `core` does not suffice; made at first need */
    struct dso *dso;                /* for making `whole` */
    struct kallsyms_files *files;
    bool demangle;
    bool no_memory;
};

/* Returns a size as stored in a key. */
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

/* symtab_buckets.c: make buckets for about `nr` symbols, most of which lie in `size` bytes from
 * `base` on. Returns false when out of memory. */
bool symtab_buckets_make(struct symtab_buckets *b, size_t nr, uint64_t base, uint64_t size);
void symtab_buckets_free(struct symtab_buckets *b);
/* Call it when all symbols of ELF files are in their buckets. Returns false when out of memory. */
bool symtab_buckets_close(struct symtab *t);
/* Make one bucket of these keys. Takes ownership of `keys`, even when it fails. */
bool symtab_buckets_adopt(struct symtab *t, struct sort_key *keys, size_t nr);
/* Returns a bucket's symbols, sorted; NULL: none, or out of memory. Call under the lock. */
struct symtab_part *symtab_part_get(struct symtab *t, uint32_t bucket);
/* Like symtab_part_get(), but without the lock; false: the bucket must be sorted first. */
bool symtab_part_ready(const struct symtab_buckets *b, uint32_t bucket, struct symtab_part **ret);
/* Find the last bucket before `from` with a symbol that reaches into bucket `into`. */
bool symtab_bucket_before(const struct symtab_buckets *b, uint32_t from, uint32_t into,
                          uint32_t *ret);
/* Get the place of the next symbol at another address, up to which a symbol without a size reaches.
 * Returns false when there is none. */
bool symtab_bound(const struct symtab *t, const struct symtab_part *part, size_t i, uint64_t *ret);

static inline uint32_t symtab_bucket_of(const struct symtab_buckets *b, uint64_t place)
{
    uint64_t at = place > b->base ? (place - b->base) >> b->shift : 0;
    return at < b->nr ? (uint32_t)at : b->nr - 1;
}

/* Put a symbol into its bucket; `next` must have room for it. */
void symtab_bucket_add(struct symtab_buckets *b, uint32_t index, uint64_t place, uint64_t size);

/* symtab_elf.c: load the symbols of a user dso or module, or of a vmlinux. */
void symtab_load_elf(struct symtab *t, struct dso *dso);
void symtab_load_vmlinux(struct symtab *t, struct dso *dso, const struct elf_image *vmlinux);
/* Returns the key of a symbol, with size 0 if the symbol has no size. */
struct sort_key symtab_elf_key(const struct symtab *t, uint32_t index);
/* Prefetch a symbol that will be read soon. */
void symtab_elf_prefetch(const struct symtab *t, uint32_t index);
void symtab_elf_free(struct symtab *t);
/* Get the symbol of a key. Returns false when it has no name. If the size does not fit into the key
 * and the file does not give a size, `end` equals `start`: only the next symbol tells the end. */
bool symtab_elf_symbol(const struct symtab *t, const struct sort_key *k, struct symbol *ret);

/* symtab_kallsyms.c. With `in_order` a sorted kernel text is not loaded, but searched in place. */
void symtab_load_kallsyms(struct symtab *t, struct dso *dso, struct kallsyms_files *files,
                          bool in_order);
/* Is the line a symbol that counts? */
bool symtab_kallsyms_wanted(const struct kallsyms_line *l);
/* Copies the name, so call it under the lock. */
bool symtab_kallsyms_symbol(struct symtab *t, const struct sort_key *k, struct symbol *ret);

/* symtab_ordered.c: prepare to look symbols up in the text; false: that is impossible. */
bool symtab_order_kallsyms(struct symtab *t, uint64_t bias);
/* Get the symbol that covers the address (NULL: out of memory). Returns false when only the whole
 * table can tell. */
bool symtab_ordered_find(struct symtab *t, uint64_t address, struct symbol **ret);

#endif
