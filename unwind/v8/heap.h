/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scans a whole V8 heap of which only the memory is known. It finds functions and code by their
 * maps, and maps by the map of maps (the map that is its own map), so it needs neither an isolate
 * nor its roots. For a snapshot or a core file: functions found here can later be looked up by the
 * BytecodeArray on the stack, where a walk of a sample would read them by address.
 */
#ifndef UNWIND_V8_HEAP_H
#define UNWIND_V8_HEAP_H

#include "base/error.h"
#include "unwind/v8/object.h"

/* Callbacks for what the scan finds; false ends the scan. */
struct v8_heap_visitor {
    bool (*function)(void *context, uint64_t sfi); /* tagged; its map is a SharedFunctionInfo's
                                                      map */
    /* A pc in generated code, and where the search for the head of its object may begin. */
    bool (*code)(void *context, uint64_t pc, uint64_t low);
    void *context;
};

/* Reads `ranges` (all private memory that is not from a file) and calls the visitor. Skips memory
 * that cannot be read. Returns -1 when memory is out. */
int v8_heap_scan(const struct memory *m, const struct v8_layout *layout,
                 const struct memory_range *ranges, size_t nr,
                 const struct v8_heap_visitor *visitor, struct error *err);

#endif
