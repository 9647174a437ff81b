/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What records tell that nothing but output asks for: the paths of control groups, and what threads
 * have counted. It outlives the session that fills it.
 */
#ifndef SESSION_LISTS_H
#define SESSION_LISTS_H

#include "base/error.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_lists;
/* NULL: out of memory. */
struct session_lists *session_lists_create(void);
void session_lists_free(struct session_lists *f);

/* Take a record of these: CGROUP, READ. Returns 1: it is malformed; -1: out of memory. */
int session_lists_apply(struct session_lists *f, const struct perfdata *pd,
                        const struct record *rec, struct error *err);

/* Returns the path of the control group with this id (a sample's), as records told it; NULL: none
 * did. Any thread may call it. */
const char *session_cgroup(const struct session_lists *f, uint64_t id);

/* What a thread had counted of an event when it ended. Get number `i`; false: there are no more.
 * After the run. */
struct session_count {
    uint32_t pid, tid, event;
    uint64_t value;
};
bool session_count(const struct session_lists *f, size_t i, struct session_count *ret);

#endif
