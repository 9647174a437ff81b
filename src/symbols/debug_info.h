/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inlined functions and positions from DWARF 2 to 5. Each compilation unit that is hit is read
 * once, by our own reader (libdw costs ms an address and is not thread-safe), into sorted
 * tables: address -> innermost function, address -> line.
 */
#ifndef SYMBOLS_DEBUG_INFO_H
#define SYMBOLS_DEBUG_INFO_H

#include "base/intern.h"
#include "symbols/shown.h"
#include "symbols/symbols.h"

struct dwarf;

/* NULL: no debug info, or memory is out. Strings of answers are kept by `strings`; names are shown
 * as `shown` shows them. `lines`: files and lines are wanted, too. */
struct dwarf *dwarf_create(struct dso *dso, struct intern *strings, struct shown *shown,
                           bool lines);
void dwarf_free(struct dwarf *d);

enum { DWARF_MAX_FRAMES = 256 }; /* deeper inlining is cut at the outer end */

/* What stands at `vaddr`, innermost first; the last one is the real function (name NULL when no
 * function covers it). `inlines` false: one frame, the innermost position. Returns how many [0:
 * nothing known]. Any thread. */
unsigned dwarf_find(struct dwarf *d, uint64_t vaddr, bool inlines,
                    struct source_frame ret[DWARF_MAX_FRAMES]);

#endif
