/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The symbols of one dso. Which symbols exist, how far each one reaches and which of several at one
 * address is chosen follow perf 6.1, so that names compare equal. Loading only sorts addresses;
 * names are read when an address is looked up.
 */
#ifndef SYMBOLS_SYMTAB_H
#define SYMBOLS_SYMTAB_H

#include "base/intern.h"
#include "dso/dso.h"
#include "symbols/kallsyms.h"
#include "symbols/shown.h"

#include <stdatomic.h>

struct symbol {
    uint64_t start, end;         /* in the same units as symbols_resolve's address */
    const char *name;            /* as in the file */
    _Atomic(const char *) shown; /* as printed; made at first need */
    size_t first;                /* key number of the first symbol at its address */
    uint8_t binding;
    bool plt;
    bool label; /* has neither type nor size */
    bool sized; /* the file tells its size, or (kallsyms) it is the last at its address; else it
                   reaches to the next symbol */
};

struct symtab;

/* A missing file or table is no error: the table is empty then. NULL: out of memory. */
struct symtab *symtab_create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle);
void symtab_free(struct symtab *t);

/* Returns the innermost symbol that covers the address, and a label only where nothing else does
 * (perf takes either of the two); NULL: none, or out of memory. It lives as long as the table. Any
 * thread may call it. */
struct symbol *symtab_find(struct symtab *t, uint64_t address);
/* Returns the symbol's name as printed, owned by `strings`; NULL: out of memory. `shown` is used
 * for names that may be mangled. */
const char *symtab_name(const struct symtab *t, struct symbol *s, struct intern *strings,
                        struct shown *shown);

#endif
