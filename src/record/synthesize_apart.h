/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Synthesizing processes opens files of strangers and reads their headers. Where the recorder has
 * privileges (base/confine.h), a process without them does it, and sends the records. One that is
 * lost, or that stands still (a file system that does not answer), costs the records of one
 * process: another one goes on with the next.
 */
#ifndef RECORD_SYNTHESIZE_APART_H
#define RECORD_SYNTHESIZE_APART_H

#include "record/synthesize.h"

/* Called with a line for the user. */
typedef void (*synthesize_say)(void *context, const char *line);

/* synthesize_process() of each process. Ends early when a blocked signal waits that ends the
 * recording. */
int synthesize_processes(const struct synthesis *s, const pid_vec *pids, synthesize_say say,
                         void *say_context, struct error *err);

#endif
