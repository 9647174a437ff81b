/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder's view of running processes with a runtime that has no watch of its own. Each sample
 * is walked as offline, over the process's memory right after the sample, and what the walk and the
 * naming read is logged (object_log.h). The walker of such a runtime must find its stack in the
 * copy of the native stack, or in the vmstack that came with the sample: memory that changes all
 * the time is not exact when it is read later.
 */
#ifndef LIVE_RUNTIME_WATCH_H
#define LIVE_RUNTIME_WATCH_H

#include "live/watch.h"

/* The watch of any runtime: see struct watch_kind. */
extern const struct watch_kind runtime_watch_kind;

#endif
