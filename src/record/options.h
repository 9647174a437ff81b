/* SPDX-License-Identifier: GPL-2.0-only */
/* The parsed options of `ljperf record`, which are perf record's. */
#ifndef RECORD_OPTIONS_H
#define RECORD_OPTIONS_H

#include "base/options.h"
#include "record/event_parse.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum callgraph { CALLGRAPH_NONE, CALLGRAPH_FP, CALLGRAPH_DWARF };

enum { STACK_MAX = 65528 }; /* bytes of a stack that perf copies at most */

typedef VEC(pid_t) pid_vec;

enum switch_mode { SWITCH_NEVER, SWITCH_SIGNAL, SWITCH_SIZE, SWITCH_TIME };

struct record_options {
    event_spec_vec events; /* empty: the default event */
    uint64_t frequency;    /* samples a second */
    bool max_frequency;    /* -F max: whatever the machine allows */
    bool user_frequency;   /* -F was given: it applies to tracepoints, too */
    uint64_t period;       /* events per sample; 0: sample by frequency */
    pid_vec pids, tids;
    const char *uid;    /* -u: user name or number; NULL: not given */
    const char *cpus;   /* -C: list of cpus; NULL: all */
    const char *cgroup; /* -G: sample only its tasks; NULL: not given */
    bool all_cpus;
    bool data;          /* addresses of data, and where they were found */
    bool weight;        /* what a sample weighs, as the processor tells it: the latency of a load */
    bool stat;          /* counts of each task when it ends */
    bool no_samples;    /* only count */
    bool namespaces;    /* records of tasks' namespaces */
    bool switch_events; /* records of switches of tasks */
    bool all_cgroups;   /* records of control groups, and the sample's */
    enum callgraph callgraph;
    uint32_t stack_size; /* bytes of stack in a sample; a multiple of 8 */
    bool use_clockid;
    int clockid;
    int zstd_level; /* 0: no compression */
    bool zstd_given;
    const char *output;
    uint64_t ring_bytes; /* size of each cpu's ring, a power of two of pages; 0: automatic */
    uint64_t delay_ms;
    uint64_t duration_ns; /* -d: end after this time; 0: no limit */
    uint64_t branches;    /* branch_sample_type; 0: no branches */
    size_t last_events;   /* index of the first event of the last -e: what --filter is about */
    bool no_inherit;
    bool no_buildid_cache;
    enum switch_mode switch_mode;
    uint64_t switch_size; /* bytes */
    uint64_t switch_ns;
    uint64_t switch_files; /* number of latest files to keep; 0: all */
    bool timestamp_name;   /* file names end with the time at which the file ended */
    bool strict_frequency; /* a frequency that the machine does not allow is an error */
    int realtime;          /* SCHED_FIFO priority of the recorder; 0: none */
    bool dry_run;
    const char *overridden; /* which option is ignored, and why, as perf says it; NULL: none */
    uint64_t max_size;      /* bytes; 0: no limit */
    uint64_t max_log;       /* bytes of VM memory in a file at most */
    bool quiet, verbose;
    bool all_user, all_kernel;
    bool exclude_self;
    struct rlimit descriptors; /* that the command may open; zeros: as many as the recorder */
    bool no_vm;
    uint64_t off_cpu_ns;  /* --off-cpu: mean of a sample of waiting; 0: not recorded */
    bool runqueue;        /* of these, time on the runqueue */
    bool waker;           /* of these, who woke */
    bool wall;            /* cpu-clock and off_cpu_ns */
    uint64_t alloc_bytes; /* --alloc: mean bytes between samples; 0: not recorded */
    bool alloc_force;     /* --force: whatever it costs */
    uint64_t resident_hz; /* --rss: faults of pages that are samples, a second; 0: none */
    /* Not set by the user. wake_each: every sample wakes the recorder, which has to read a process
     * then. wake_early: where samples are few, every record wakes the recorder, which looks at
     * processes. */
    bool wake_each, wake_early;
    bool unnamed;   /* the closing lines do not name the file: it has no name for the user */
    char **command; /* NULL-terminated, points into argv; NULL: none */
    int argc;       /* the whole command line, for the header */
    char **argv;
};

extern const struct option_set record_command_line;

/* Parse the command line. Returns -1 for bad usage, which `err` and `parsed` explain. After --help
 * the options are not checked. The options point into argv. */
int record_options_parse(int argc, char **argv, struct record_options *ret,
                         struct options_parsed *parsed, struct error *err);
void record_options_free(struct record_options *o);

/* Record the memory that becomes resident, too: as --rss does, after the options were parsed. */
int record_options_add_resident(struct record_options *o, struct error *err);

/* Returns what to do instead of perf record's option of this name (as "-G" or "--aio=3"), which
 * ljperf record does not have; NULL: perf record has no such option. */
const char *perf_record_instead(const char *name);

/* Parsers of values; public for tests. */

/* Convert "512", "16M", "4K", "2G" (perf's units: B, K, M, G) to bytes; *unit: whether there was a
 * unit. Returns -1 for other text. */
int size_parse(const char *text, uint64_t *ret, bool *unit);
/* Convert a ring size (pages, or bytes with a unit) to bytes, rounded up to a power of two, at
 * least `page`. Returns -1 for other text and for more than 1 GiB. */
int ring_size_parse(const char *text, uint64_t page, uint64_t *ret);

#endif
