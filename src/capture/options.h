/* SPDX-License-Identifier: GPL-2.0-only */
/* What `ljperf record` was asked for: perf record's options, parsed. */
#ifndef CAPTURE_OPTIONS_H
#define CAPTURE_OPTIONS_H

#include "capture/event_parse.h"

#include <stdint.h>
#include <sys/types.h>

enum callgraph { CALLGRAPH_NONE, CALLGRAPH_FP, CALLGRAPH_DWARF };

enum { STACK_MAX = 65528 }; /* the most that perf copies of a stack, bytes */

typedef VEC(pid_t) pid_vec;

enum switch_mode { SWITCH_NEVER, SWITCH_SIGNAL, SWITCH_SIZE, SWITCH_TIME };

struct record_options {
    event_spec_vec events; /* empty: the default */
    uint64_t frequency;    /* samples a second */
    bool max_frequency;    /* -F max: whatever the machine allows */
    bool user_frequency;   /* -F was given: tracepoints take it, too */
    uint64_t period;       /* events a sample; 0: by frequency */
    pid_vec pids, tids;
    const char *uid;  /* -u: user name or number, NULL: not asked for */
    const char *cpus; /* -C list, NULL: all */
    bool all_cpus;
    enum callgraph callgraph;
    uint32_t stack_size; /* bytes copied; a multiple of 8 */
    bool use_clockid;
    int clockid;
    int zstd_level; /* 0: plain */
    const char *output;
    uint64_t ring_bytes; /* of each cpu's ring, a power of two of pages; 0: chosen */
    uint64_t delay_ms;
    bool no_inherit;
    enum switch_mode switch_mode;
    uint64_t switch_size; /* bytes */
    uint64_t switch_ns;
    uint64_t switch_files; /* so many of the last are kept; 0: all */
    bool timestamp_name;   /* the file's name ends in the time of its end */
    bool strict_frequency; /* one that the machine does not allow is an error */
    int realtime;          /* SCHED_FIFO priority of the recorder; 0: none */
    bool dry_run;
    const char *overridden; /* what is not followed, and why, as perf says it; NULL: nothing */
    uint64_t max_size;      /* bytes; 0: no limit */
    uint64_t max_log;       /* bytes of VM memory in a file */
    bool quiet, verbose;
    bool all_user, all_kernel;
    bool exclude_self;
    bool no_vm;
    /* Not the user's: every sample wakes the recorder, since it has to read a process then; or
     * every record does where samples are few, since it looks at processes. */
    bool wake_each, wake_early;
    bool help;
    char **command; /* NULL-terminated, in argv; NULL: none */
    int argc;       /* the whole command line, for the header */
    char **argv;
};

/* Parse. -1: bad usage, `err` says what. The options point into argv. */
int record_options_parse(int argc, char **argv, struct record_options *ret, struct error *err);
void record_options_free(struct record_options *o);

extern const char record_usage[];

/* Whether perf record has an option of that name (as "-b" or "--aio=3") that is not here. */
bool perf_record_option(const char *name);

/* Values: also for tests. */

/* "512", "16M", "4K", "2G" (perf's: B, K, M, G) to bytes; *unit: whether there was one. */
int size_parse(const char *text, uint64_t *ret, bool *unit);
/* A ring of `text` (pages, or bytes with a unit): bytes, a power of two of `page` at least. */
int ring_size_parse(const char *text, uint64_t page, uint64_t *ret, struct error *err);

#endif
