/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by process_watch.c, which runs in the recorder, and process_look.c, which runs in its
 * reader (reader.h). Where the reader is a process it has a copy of the struct: what it notes there
 * stays its own, and what the recorder notes is not seen by it.
 */
#ifndef LIVE_PROCESS_WATCH_INTERNAL_H
#define LIVE_PROCESS_WATCH_INTERNAL_H

#include "live/alloc.h"
#include "live/code_watch.h"
#include "live/copier.h"
#include "live/lua_watch.h"
#include "live/off_cpu.h"
#include "live/process_watch.h"
#include "live/reader.h"
#include "live/runtime_files.h"
#include "live/watch.h"
#include "base/table.h"
#include "session/vmstack_pairing.h"

#include <stdatomic.h>
#include <time.h>

enum {
    WATCH_MS = 1000000,          /* ns */
    READ_RINGS_SEARCHING_MS = 1, /* ms between readings of the rings while VMs are expected */
    READ_RINGS_MS = 10,          /* ms between readings of the rings later */
    READ_RINGS_IDLE_MS = 100,    /* ms, at most, where every record wakes the recorder */
    READ_RINGS_REST_MS = 30,     /* ms, at least, there: three samples at 99 Hz cost one wake-up */
};

/* What the recorder lets the reader do (reader_call). */
enum { CALL_LOOK, CALL_REWRITE, CALL_END_FILE, CALL_FINISH };
/* What the reader writes (reader_write). */
enum { PIECE_LOG, PIECE_EMPTY_FILES, PIECE_WAITING, PIECE_ALLOCATORS };

/* A record that the recorder puts into the reader's queue: a thread whose stack is to be read. The
 * answer, PIECE_WAITING, is its `of`, and the stack. The kernel has no such type. */
enum { RECORD_WAITING = 0x4c4a5001 };
struct waiting_record {
    struct perf_event_header header;
    struct off_cpu_thread of;
};

/* What the reader tells the recorder while both run. */
struct hints {
    atomic_uint interval; /* ms: READ_RINGS_SEARCHING_MS, READ_RINGS_MS or READ_RINGS_IDLE_MS */
    atomic_uint beside;   /* 1 + the cpu whose samples the reader follows */
};

struct process_watch {
    struct capture_hooks hooks;
    /* It walks and reads. The members below belong to it while it runs: as a process it has a copy
     * of them, and those of the recorder stay as they were before. */
    struct reader *reader;
    enum reader_form form;
    struct hints *hints; /* in memory that both have */
    const struct capture_plan *plan;
    struct table shunned; /* pid + 1 -> itself: processes at which a reader was lost */
    unsigned losses;
    uint64_t last_loss; /* CLOCK_MONOTONIC ns */
    struct process_watch_options options;
    process_watch_say say;
    void *say_context;
    struct capture *capture;         /* the recorder's, once recording has begun */
    struct copier *copier;           /* NULL: refused, or not wanted */
    struct error refusal;            /* why the copier was refused */
    struct off_cpu *off_cpu;         /* NULL: time off the cpu is not recorded */
    struct alloc *alloc;             /* NULL: allocations are not recorded */
    struct alloc_files *alloc_files; /* the reader's */
    struct {
        uint64_t threads, ns; /* that waited at the end */
        uint64_t left_out;    /* of these threads: not in the recording */
    } waiting;
    struct watch_tools tools;
    struct table tasks;      /* pid + 1 -> a struct task, in the bits of one word */
    size_t tasks_left;       /* number of tasks after the last search for ended ones */
    struct table targets;    /* pid + 1 -> struct lua_watch, of processes with LuaJIT */
    struct watches *watches; /* of the runtimes but LuaJIT */
    struct code_watch *code; /* perf maps and jitdumps */
    struct vmstack_pairing copies;
    struct vmstack_ref bytes; /* of the vmstack below */
    struct vmstack copy;      /* of the current sample */
    uint64_t last_pass, last_new, last_gone;
    bool capture_begun; /* the reader was started */
    bool logs;          /* the recording's clock can be read: readings have times */
    clockid_t clockid;  /* the recording's clock */
    bool said_full;     /* we said that the copier's table is full */
    bool behind;        /* samples are not walked until the queue is empty */
    uint64_t late;      /* samples that were too old to be walked */
    uint64_t logged;    /* bytes of the log in the current file */
    bool said_limit;    /* we said that the log has reached its limit */
    bool eager;         /* search files when they are mapped */
    bool wakes_early;   /* every record wakes the recorder */
    /* `here`: the `beside` that the recorder follows; `elsewhere`: samples on other cpus since. */
    unsigned here, elsewhere;
    struct process_watch_stats stats; /* of targets that have ended */
    uint8_t record[MEM_RECORD_MAX];   /* used by the recorder only */
};

/* Print a line for the user; NULL: none. */
void watch_say(const struct process_watch *watch, bool detail, const char *line);
/* The clock of the samples, ns; 0 when user space cannot read it. */
uint64_t watch_now(const struct process_watch *watch);
/* Run the calling thread on one cpu only from now on. */
void watch_stay_on(unsigned cpu);

/* process_look.c: what the reader does, and where its log goes. */
struct reader_work process_look_work(struct process_watch *watch);
struct log_sink process_look_sink(struct process_watch *watch);

#endif
