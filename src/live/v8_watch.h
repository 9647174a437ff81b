/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder's view of running processes with a V8. Each sample is walked as offline, over the
 * process's memory right after the sample. What the walk and the naming read is logged
 * (object_log.h): functions, their scopes, scripts with their sources, tables of bytecode and code.
 */
#ifndef LIVE_V8_WATCH_H
#define LIVE_V8_WATCH_H

#include "live/watch.h"

extern const struct watch_kind v8_watch_kind;

#endif
