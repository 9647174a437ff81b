/* SPDX-License-Identifier: GPL-2.0-only */
/* Processors that are taken offline while all tasks of the machine are recorded. The kernel takes
 * their events away, and does not give them back when they come online again. */
#ifndef RECORD_OFFLINE_H
#define RECORD_OFFLINE_H

#include "record/events.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one recording. Begin with zeros. */
struct offline {
    bool *gone;      /* [rings] */
    uint64_t looked; /* CLOCK_MONOTONIC ns */
};

/* Look, at most once a second: at `now`, CLOCK_MONOTONIC ns. Returns a processor that has gone
 * since; -1: none (call again until then). */
int offline_next(struct offline *o, const struct events *e, uint64_t now);
void offline_free(struct offline *o);

/* Whether a list such as "0-3,5" (/sys/devices/system/cpu/online) has a number. */
bool offline_list_has(const char *list, int cpu);

#endif
