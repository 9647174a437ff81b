/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inlined functions and positions from DWARF 2 to 5. Our own reader (libdw costs ms per address and
 * is not thread-safe) reads each compilation unit that is hit, once, into sorted tables:
 * address -> innermost function, address -> line.
 */
#ifndef SYMBOLS_DEBUG_INFO_H
#define SYMBOLS_DEBUG_INFO_H

#include "base/intern.h"
#include "symbols/shown.h"
#include "symbols/symbols.h"

struct dwarf;

/* Returns NULL when there is no debug info, or when out of memory. `strings` owns the strings of
 * results; `shown` decides how names are shown. `lines`: files and lines are wanted too. */
struct dwarf *dwarf_create(struct dso *dso, struct intern *strings, struct shown *shown,
                           bool lines);
void dwarf_free(struct dwarf *d);

enum { DWARF_MAX_FRAMES = 256 }; /* deeper inlining is cut at its outer end */

/* Get the frames at `vaddr`, innermost first; the last one is the real function (name NULL when no
 * function covers the address). `inlines` false: one frame, the innermost position. Returns the
 * number of frames [0: nothing known]. Any thread may call it. */
unsigned dwarf_find(struct dwarf *d, uint64_t vaddr, bool inlines,
                    struct source_frame ret[DWARF_MAX_FRAMES]);

#endif
