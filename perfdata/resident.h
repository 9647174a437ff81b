/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples of memory that becomes resident (`record --rss`): faults of pages.
 *
 * The event is the kernel's minor-faults, with the address of the fault and the size of the page
 * that stands there (PERF_SAMPLE_DATA_PAGE_SIZE, since Linux 5.11). Unlike page-faults, which x86
 * counts when a fault begins, it is counted when the page is there. A sample's period is a number
 * of faults.
 */
#ifndef PERFDATA_RESIDENT_H
#define PERFDATA_RESIDENT_H

#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stdint.h>

#define RESIDENT_NAME "resident"
/* The name of its weight, as `--weight` and profile stores know it. */
#define RESIDENT_WEIGHT "resident_space"

/* Whether an event's samples are such faults. */
bool perfdata_is_resident(const struct perfdata_event *event);

/* One fault, with what it brought. */
struct resident_fault {
    uint64_t page;  /* address of the page */
    uint64_t bytes; /* of the page; the smallest size if the sample does not say */
};
/* Get it of a sample. Returns false if it is no such sample. */
bool perfdata_resident(const struct sample *s, struct resident_fault *ret);

#endif
