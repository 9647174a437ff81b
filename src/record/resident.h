/* SPDX-License-Identifier: GPL-2.0-only */
/* What of this machine makes memory resident without a fault of its own, or faults without memory:
 * what `--rss` (perfdata/resident.h) then does not tell truly. */
#ifndef RECORD_RESIDENT_H
#define RECORD_RESIDENT_H

#include "record/record.h"

/* Say it. */
void resident_say_limits(record_say say, void *context);

#endif
