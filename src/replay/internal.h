/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of replay/ share. */
#ifndef REPLAY_INTERNAL_H
#define REPLAY_INTERNAL_H

#include "base/intern.h"
#include "replay/replay.h"

#include <pthread.h>

enum {
    WALK_GROUP = 2 * UNWIND_LANES, /* samples walked side by side */
    JOB_RECORDS = 256,             /* records read at once: bounds the memory a batch may hold */
    REPLAY_MAX_STACK = 65536,      /* default of max_stack: no real stack is deeper */
    REPLAY_MAX_THREADS = 64,
};

/* A sample on its way through a job. */
struct job_sample {
    const struct record *record;
    struct sample sample;
    struct session_place place;
    size_t first_frame, nr_frames; /* in the job's frames */
    size_t nr_kernel;              /* of those, the callchain's part in front */
    enum stack_end end;
    uint64_t end_pc, end_address;
    bool bad, has_user, unwound;
};

/* One batch of records and what became of its samples. */
struct job {
    uint64_t turn; /* its place in the recording */
    struct record_batch batch;
    VEC(struct job_sample) samples;
    VEC(struct frame) frames;
    bool can_unwind; /* the recording's machine is one that unwind/ knows */
};

struct stop_table;
struct join_table;

struct replay {
    struct replay_options options;
    struct perfdata *pd;
    struct dsos *dsos;
    struct session *session;
    struct symbols *symbols;
    struct intern *strings; /* module names of generated code */
    unsigned nr_threads;

    pthread_mutex_t read_lock; /* reader, session, turns given out */
    uint64_t next_turn;
    bool at_end;

    pthread_mutex_t turn_lock; /* everything below */
    pthread_cond_t turned;
    uint64_t join_turn, flush_turn;
    _Atomic bool failed;
    struct error error;
    struct replay_stats stats; /* changed in the join turn */
    struct join_table *joins;
    struct stop_table *stops;
};

struct replay_worker {
    struct replay *replay;
    const struct replay_sink *sink;
    void *sink_worker;
    struct unwinder *unwinder;
    struct symbol_cache *symbols;
    struct unwind_stack stacks[WALK_GROUP];
    struct job job;
    bool sink_made;
};

/* sample.c: decode up to WALK_GROUP samples and fill their frames (the kernel's part of the
 * callchain, then the user stack); sets bad where the record lies. */
bool sample_passes(const struct replay *r, const struct sample *head, const char *comm);
int sample_walk_group(struct replay_worker *w, struct job_sample *group, size_t nr,
                      struct error *err);

/* join.c: remember complete stacks per thread; continue truncated ones. In turn. */
struct join_table *join_table_create(void);
void join_table_free(struct join_table *t);
/* All samples of the job, in order; frames of joined stacks are appended to job->frames. */
int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err);

/* stops.c: where stacks ended that did not reach their entry. In turn. */
struct stop_table *stop_table_create(void);
void stop_table_free(struct stop_table *t);
int stop_table_add(struct stop_table *t, enum stack_end end, const struct mapping *at, uint64_t pc,
                   struct error *err);
const struct replay_stop *stop_table_sorted(struct stop_table *t, size_t *nr);

#endif
