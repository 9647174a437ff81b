/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names native and kernel code: symbol, inlined functions, file and line. The tables of a dso are
 * built at first use and shared; results are cached per thread.
 */
#ifndef SYMBOLS_SYMBOLS_H
#define SYMBOLS_SYMBOLS_H

#include "base/error.h"
#include "dso/dso.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols_options {
    bool no_demangle;
    bool inlines; /* resolve inlined functions from DWARF */
    bool lines;   /* file and line of each function, or of the innermost one without `inlines` */
};

/* One function and a position in its source. The strings live as long as the symbols. */
struct source_frame {
    const char *name; /* NULL: unknown */
    const char *file; /* NULL: unknown */
    uint32_t line, column;
};

/* The result for one address. */
struct resolved {
    const char *symbol; /* demangled unless disabled; NULL: no symbol covers the address */
    uint64_t offset;    /* from the symbol's start */
    uint64_t symbol_size;
    struct source_frame outer;          /* position in the outermost (real) function */
    const struct source_frame *inlined; /* innermost first; [nr_inlined] */
    uint32_t nr_inlined;
};

struct symbols;
struct symbols *symbols_create(struct dsos *dsos, const struct symbols_options *options);
void symbols_free(struct symbols *s);

/* One thread's cache over the shared tables. */
struct symbol_cache;
struct symbol_cache *symbol_cache_create(struct symbols *s);
void symbol_cache_free(struct symbol_cache *c);

/* Resolve `address`: the file offset (pc - mapping start + pgoff) of a user dso, the pc for
 * DSO_KERNEL, the mapping offset for DSO_KMODULE. `lookup` is the address to look up (for a return
 * address, address - 1); the offset is counted from `address`. Returns NULL only when out of
 * memory. The result is valid until the cache is freed. */
const struct resolved *symbols_resolve(struct symbol_cache *c, struct dso *dso, uint64_t address,
                                       uint64_t lookup);

#endif
