/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A runtime: an implementation of a managed language. All that the program knows of one is in the
 * runtime's own folder below unwind/, and reaches the rest through one `struct runtime`. The table
 * `runtimes` has a row for each (unwind/runtimes/table.c). docs/adding.md adds one, step by step.
 */
#ifndef UNWIND_RUNTIME_H
#define UNWIND_RUNTIME_H

#include "base/error.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- finding a runtime in a file --------------------------------------------------------- */

/* A loaded segment of an ELF file, as far as its bytes are in the file. Addresses are the file's
 * own (vaddr). */
struct runtime_segment {
    uint64_t address, size;
    bool executable, writable;
};

/* One symbol table, as it stands in the file: `nr` entries of the type Elf64_Sym, of which the
 * first `nr_local` are local ones (a .dynsym has `nr_local` == `nr`: its order says nothing).
 * `strings` ends with a zero byte; no name's offset has been checked. */
struct runtime_symbols {
    const uint8_t *entries;
    size_t nr, nr_local;
    const char *strings;
    size_t strings_size; /* bytes */
};

/* An ELF file of this machine's byte order, as discovery sees it. */
struct runtime_image {
    const char *name; /* for messages */
    bool stays; /* bytes and names live as long as the layout that is made of them; false: only
                   during the call, so the layout may not refer to them */
    const struct cfi *cfi; /* the file's unwind rules; NULL: it has none */
    /* Returns `size` bytes at an address; NULL: they are not in the file. */
    const uint8_t *(*bytes)(void *context, uint64_t address, size_t size);
    /* Get the address of an exported symbol. Returns false: it is not exported. */
    bool (*exported)(void *context, const char *name, uint64_t *address);
    /* Get the index-th loaded segment. Returns false: no more. */
    bool (*segment)(void *context, size_t index, struct runtime_segment *ret);
    /* Returns the word at an address as the loader leaves it (relocated); 0: there is none. */
    uint64_t (*word)(void *context, uint64_t address);
    /* Get the symbol tables: .dynsym, .symtab, the debug file's .symtab. Tables that do not exist
     * have nr 0. Opens the debug file if the file itself has no .symtab. */
    void (*symbols)(void *context, struct runtime_symbols ret[static 3]);
    void *context;
};

/* A runtime in a process: its layout, and where its file is loaded. */
struct runtime_instance {
    const void *layout;
    uint64_t bias;       /* address in the process minus address in the file */
    uint64_t start, end; /* the executable mapping of the file */
};

/* ---- a row ------------------------------------------------------------------------------- */

struct runtime {
    const char *name; /* as messages call it: "LuaJIT" */

    /* Returns whether a file may hold the runtime, by a test that costs less than discovery. NULL:
     * discovery itself is fast enough. */
    bool (*may_hold)(const struct runtime_image *image);
    /* Find the runtime in a file. Returns 1 and its layout; 0: the file has none; -1: it has one
     * whose layout cannot be read, and the error says what is missing. */
    int (*discover)(const struct runtime_image *image, void **layout, struct error *err);
    void (*layout_free)(void *layout);
    /* Returns the address in the file where the runtime's own code begins: only the mapping that
     * holds it is the runtime's. NULL: any executable mapping of the file will do. */
    uint64_t (*code_start)(const void *layout);
};

/* All runtimes. The order is the order in which walkers are asked. */
enum { RUNTIMES_MAX = 8 };
extern const struct runtime *const runtimes[];
extern const size_t nr_runtimes; /* at most RUNTIMES_MAX */

/* Returns the runtime's number in the table. It must be in it. */
size_t runtime_index(const struct runtime *rt);

#endif
