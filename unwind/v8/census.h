/* SPDX-License-Identifier: GPL-2.0-only */
/* The objects of a V8 isolate, for the census of heaps (unwind/census.h). Private to unwind/v8. */
#ifndef UNWIND_V8_CENSUS_H
#define UNWIND_V8_CENSUS_H

#include "unwind/census.h"

extern const struct census_heap v8_census;

#endif
