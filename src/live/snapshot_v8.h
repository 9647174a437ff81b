/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's part of a snapshot: every function with the objects that give its name and lines (scope,
 * script, source, bytecode with its tables), all generated code with its tables, and which function
 * owns each BytecodeArray.
 */
#ifndef LIVE_SNAPSHOT_V8_H
#define LIVE_SNAPSHOT_V8_H

#include "live/page_log.h"
#include "unwind/v8/layout.h"

struct snapshot_v8_stats {
    uint64_t functions, code; /* found in this round */
};

/* Call in a round of the page log. Returns -1 if memory is out, or the process is gone. */
int snapshot_v8(pid_t pid, const struct v8_layout *layout, struct page_log *pages,
                struct snapshot_v8_stats *ret, struct error *err);

#endif
