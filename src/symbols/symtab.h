/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The symbols of one dso: which there are, how far each reaches and which of several at one
 * address is taken follows perf 6.1, so that names compare equal. Loading only puts addresses in
 * order; names are looked at where an address is asked for.
 */
#ifndef SYMBOLS_SYMTAB_H
#define SYMBOLS_SYMTAB_H

#include "base/intern.h"
#include "dso/dso.h"
#include "symbols/kallsyms.h"
#include "symbols/shown.h"

#include <stdatomic.h>

struct symbol {
    uint64_t start, end;         /* in the terms of symbols_resolve's address */
    const char *name;            /* as the file has it */
    _Atomic(const char *) shown; /* as printed; made at first need */
    size_t first;                /* number of the first of all symbols at its address */
    uint8_t binding;
    bool plt;
    bool label; /* has neither type nor size */
};

struct symtab;

/* Never fails for want of a file or a table: then it is empty. NULL when memory is out. */
struct symtab *symtab_create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle);
void symtab_free(struct symtab *t);

/* The innermost symbol that covers the address, a label only where nothing else does (of the two
 * perf takes either); NULL: none, or memory is out. It lives as long as the table. Any thread. */
struct symbol *symtab_find(struct symtab *t, uint64_t address);
/* Its name as printed, kept by `strings`; NULL when memory is out. `shown` is for those that may be
 * mangled. */
const char *symtab_name(const struct symtab *t, struct symbol *s, struct intern *strings,
                        struct shown *shown);

#endif
