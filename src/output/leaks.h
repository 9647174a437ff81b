/* SPDX-License-Identifier: GPL-2.0-only */
/* Which code allocates memory that is not freed. See docs/man/ljperf-leaks.1. */
#ifndef OUTPUT_LEAKS_H
#define OUTPUT_LEAKS_H

#include "base/error.h"
#include "base/text.h"
#include "output/json.h"
#include "perfdata/alloc.h"
#include "stacks/profile.h"

#include <stdint.h>

struct leaks_options {
    double least;   /* leave out sites with less of the memory in use, percent */
    unsigned top;   /* sites that are told; 0: all */
    unsigned depth; /* callers of a site that are told */
};

struct leaks;

/* The times that matter, ns of the recording's clock. */
struct leaks_times {
    uint64_t from, until; /* of the recording */
};

/* An event of allocations. */
struct leaks_event {
    unsigned index;
    enum alloc_kind kind;
    uint64_t peak;  /* time at which most was in use; 0: not known */
    uint64_t until; /* from when on it was not recorded any more */
};

/* Sum up a finished profile that has blocks. It and the events must outlive the result. NULL:
 * memory is out. */
struct leaks *leaks_create(const struct profile *p, const struct leaks_event *events, size_t nr,
                           const struct leaks_times *times, const struct leaks_options *options);
void leaks_free(struct leaks *l);

void leaks_put_text(const struct leaks *l, struct text *out);
void leaks_put_json(const struct leaks *l, struct json *j);

#endif
