/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Going through a whole V8 heap, of which nothing but memory is known: functions and code are
 * found by their maps, maps by the map that is its own, so that neither an isolate nor its roots
 * are needed. For a snapshot, or a core: what a walk of a sample reads by address can later be
 * told by the BytecodeArray that stands on the stack.
 */
#ifndef UNWIND_V8_HEAP_H
#define UNWIND_V8_HEAP_H

#include "base/error.h"
#include "unwind/v8/object.h"

/* What was found; false ends the search. */
struct v8_heap_visitor {
    bool (*function)(void *context, uint64_t sfi); /* tagged; its map is a SharedFunctionInfo's */
    bool (*code)(void *context, uint64_t pc, uint64_t low); /* some pc in generated code, and where
                                                               the search for its head may begin */
    void *context;
};

/* Read `ranges` (all private memory that is no file's) and visit. What cannot be read is passed
 * over. -1: memory is out. */
int v8_heap_scan(const struct memory *m, const struct v8_layout *layout,
                 const struct memory_range *ranges, size_t nr,
                 const struct v8_heap_visitor *visitor, struct error *err);

#endif
