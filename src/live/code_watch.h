/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeps the perf maps and jitdumps of recorded processes whose files will not be found later: those
 * of other namespaces (a container's /tmp is gone when it ends, and its pids are others), and those
 * that are deleted when their process has ended. They go into the recording (VMENTRY_PERF_MAP,
 * VMENTRY_JITDUMP). The files are held open, so that their last lines are read after the process
 * has ended. Also says of processes that have moved their text whether its bytes are the file's
 * (VMENTRY_TEXT).
 */
#ifndef LIVE_CODE_WATCH_H
#define LIVE_CODE_WATCH_H

#include "base/error.h"
#include "live/mem_writer.h"

struct code_watch;
/* `sink` is copied. Returns NULL when memory is out. */
struct code_watch *code_watch_create(const struct log_sink *sink);
void code_watch_free(struct code_watch *w); /* may be NULL */

/* The process has memory for generated code. Returns -1 when memory is out. */
int code_watch_begin(struct code_watch *w, pid_t pid, struct error *err);
/* The process has mapped a file executable: a jitdump is announced so. Returns -1 when memory is
 * out. */
int code_watch_mapped(struct code_watch *w, pid_t pid, const char *name, struct error *err);
/* Look for files that are not open yet, and write what files of other namespaces have more. Does
 * something only now and then. Returns -1 when the log cannot be written. */
int code_watch_poll(struct code_watch *w, struct error *err);
/* The process has ended, or executes another program: write what is left to be kept. */
int code_watch_end(struct code_watch *w, pid_t pid, struct error *err);
/* The recording ends. The same for all processes. */
int code_watch_finish(struct code_watch *w, struct error *err);
/* Returns of how many files the log has something. */
size_t code_watch_kept(const struct code_watch *w);
/* Returns whether a process has written such a file by now, and lives in namespaces of its own. */
bool code_watch_would_keep(pid_t pid);
/* Returns a line about what is not kept; NULL: no more. */
const char *code_watch_problem(struct code_watch *w);
/* Another file begins: everything must be written again. */
void code_watch_rewrite(struct code_watch *w);

#endif
