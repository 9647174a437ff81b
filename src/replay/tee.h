/* SPDX-License-Identifier: GPL-2.0-only */
/* One run whose samples go to two sinks: walking them twice would take twice the time. */
#ifndef REPLAY_TEE_H
#define REPLAY_TEE_H

#include "replay/replay.h"

struct replay_tee {
    struct replay_sink main;
    struct replay_sink beside; /* takes samples only: its record, flush and write are NULL */
};

/* Returns the sink to run; `t` must live as long as the run. A worker hands each sample to `main`,
 * then to `beside`. */
struct replay_sink replay_tee_sink(struct replay_tee *t);

#endif
