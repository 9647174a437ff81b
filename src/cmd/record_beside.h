/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recorder in a process beside the command, which reads the newest part of what it records.
 * Nothing is written to a disk. A recording grows as long as it lasts: when what must be kept of it
 * is large, a new recorder takes over.
 */
#ifndef CMD_RECORD_BESIDE_H
#define CMD_RECORD_BESIDE_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct record_beside;

/* Start `ljperf record` with these options (up to NULL; the output is chosen here; the words stay
 * the caller's, and must live as long), and wait until it records. Samples are kept for `span_ns`.
 * `messages` gets what it has said by then: why it records less than it should, or nothing. Returns
 * -1 if it cannot record. */
int record_beside_start(char *const *options, uint64_t span_ns, struct text *messages,
                        struct record_beside **ret, struct error *err);
/* Ends the recorder. */
void record_beside_free(struct record_beside *b);

/* What was recorded has ended, or the recorder has. */
bool record_beside_has_ended(const struct record_beside *b);
/* Returns the processor time that the recorder has used, ns. */
uint64_t record_beside_used(const struct record_beside *b);
/* Returns the time of the newest sample, ns of the recording's clock; 0: there is none. */
uint64_t record_beside_newest(const struct record_beside *b);

/* Returns how many samples and records were lost from time `from` on. */
uint64_t record_beside_lost(const struct record_beside *b, uint64_t from);

/* Write the samples from time `from` to `until`, ns, both included, as a recording to the empty
 * file `fd`. Returns -1 if that fails, or if memory was out for the recording. */
int record_beside_write(struct record_beside *b, uint64_t from, uint64_t until, int fd,
                        struct error *err);
/* To be called now and then: lets a new recorder take over, when it is time. */
void record_beside_renew(struct record_beside *b);

#endif
