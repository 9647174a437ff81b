/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of replay/ share. */
#ifndef REPLAY_REPLAY_INTERNAL_H
#define REPLAY_REPLAY_INTERNAL_H

#include "base/intern.h"
#include "base/threads.h"
#include "replay/replay.h"
#include "session/snapshots.h"
#include "session/recorded_memory.h"
#include "unwind/managed.h"
#include "unwind/luajit/walk.h"
#include "unwind/v8/walk.h"

#include <pthread.h>

enum {
    WALK_GROUP = 2 * UNWIND_LANES, /* samples walked side by side */
    READ_AHEAD = 3,                /* jobs that may wait to be walked, before no more are read */
    JOBS_SPARE = 4,                /* jobs on their way beside one a thread */
    JOBS_MAX = WORKERS_MAX + JOBS_SPARE,
    JOB_RECORDS = 256,        /* records read at once: bounds the memory a batch may hold */
    REPLAY_MAX_STACK = 65536, /* default of max_stack: no real stack is deeper */
    OUTPUTS_SPARE = 2,        /* texts that may wait to be written, beside one a thread */
};

/* A counter that a sample's READ block says moved. */
enum { MEMBERS_MAX = 256 };
struct member {
    const struct perfdata_event *event;
    uint64_t id, period;
};

/* The payload of the VM copy that came with a sample. */
struct vmstack_ref {
    const uint8_t *bytes; /* NULL: none */
    uint32_t size;
    bool owned; /* else it points into the job's batch */
};

/* A sample on its way through a job. */
struct job_sample {
    const struct record *record;
    struct sample sample;
    struct thread_context thread;
    size_t first_frame, nr_frames; /* in the job's frames */
    size_t nr_kernel;              /* of those, the callchain's part in front */
    size_t nr_same; /* the outermost ones that the sample before it in the job has as well */
    enum stack_end end;
    uint64_t end_pc, end_address;
    struct member member; /* whose sample it is; event NULL: the record's own */
    struct vmstack_ref copy;
    bool bad, has_user, unwound;
    uint8_t vmstate;   /* enum luajit_vmstate */
    bool copy_differs; /* the copy is of another moment of the thread: not used */
    bool has_trace;    /* a frame is machine code that trace_frames_expand() is for */
};

/* What reading counts. */
struct read_counts {
    uint64_t samples, bad;
    uint64_t copies, copies_lost;
};

typedef VEC(struct frame) frame_vec;

/* What a job waits for; one that a thread works on waits for nothing. */
enum job_state { JOB_IN_WORK, JOB_READ, JOB_WALKED };

/* One batch of records and what became of its samples. */
struct job {
    enum job_state state;
    uint64_t batch_number; /* its place in the recording */
    struct record_batch batch;
    VEC(struct job_sample) samples;
    frame_vec frames;
    bool can_unwind; /* the recording's machine is one that unwind/ knows */
};

struct end_table;
struct join_table;
struct member_table;
struct vmstack_pairing;

/* How many walks needed how much of their stack, lately (sample.c). */
enum { USE_STEP = 256, USE_STEPS = 48 };
struct stack_use {
    uint32_t walks[USE_STEPS + 1]; /* by steps of bytes, the last: more */
    uint32_t nr;
};

/* A job's text that waits until it is its turn to be written. */
struct output {
    struct text text;
    bool ready;
};

struct replay {
    struct replay_options options;
    struct perfdata *pd;
    struct dsos *dsos;
    struct session *session;
    struct symbols *symbols;
    struct intern *strings; /* module names of generated code, managed functions' symbols */
    struct managed_names *managed;
    struct unwind_rules *rules;
    unsigned nr_threads;
    pthread_t letting_go; /* of replay_let_go() */
    bool lets_go;

    /* Of whoever reads: the session, too. */
    struct member_table *members;
    struct vmstack_pairing *copies;
    struct memory_log *log;      /* what the recorder read of processes; NULL: nothing */
    struct snapshots *snapshots; /* the same, of others; NULL: none */
    struct read_counts counts;
    bool gives_records; /* a batch without samples is a job, too */
    _Atomic bool at_end;
    /* Of whoever settles. */
    struct join_table *joins;
    struct end_table *stops;
    uint64_t joined; /* samples */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t moved;
    unsigned waiting;                                   /* threads that sleep until a job moves */
    struct job *jobs, *line[JOBS_MAX], *free[JOBS_MAX]; /* line: of batch t at t % JOBS_MAX */
    unsigned nr_jobs, nr_free;
    uint64_t next_number, join_number, end_number; /* of the next job to be read, joined, given */
    unsigned nr_read;                              /* jobs that wait to be walked */
    bool reading;
    struct stack_use use; /* of all workers' walks */
    uint64_t write_number;
    /* Of batch t at t % nr_outputs. */
    struct output outputs[WORKERS_MAX + OUTPUTS_SPARE];
    unsigned nr_outputs;
    bool writing;
    _Atomic bool failed;
    struct error error;
    struct replay_stats stats; /* at the end */
};

/* The walker of one sample (lua.c). */
struct sample_lua {
    struct walker outer, inner;
    struct luajit_process process;
    const struct thread_context *thread;
    struct replay_worker *worker;
    const struct vmstack *copy;            /* NULL: the sample has none */
    struct luajit_vm vms[VMSTACK_VMS_MAX]; /* of the copy's */
    bool asked;                            /* which LuaJITs are mapped */
    bool named;                            /* a frame of Lua was met */
    uint8_t vmstate;                       /* enum luajit_vmstate of the innermost one's VM */
};

/* The walker of one sample for all managed languages (js.c). */
struct sample_js {
    struct walker outer, inner;
    const struct walker *lua;
    struct v8_process process;
    const struct thread_context *thread;
    struct replay_worker *worker;
    bool asked;  /* which V8 is mapped */
    bool is_v8;  /* code of V8 was met: what is read of the process is its objects */
    bool is_lua; /* code that may be LuaJIT's was met: else a step is V8's, and none is asked */
    bool soon;   /* struct memory's */
    enum memory_side side; /* the same */
};

struct luajit_names;
struct v8_names;
struct v8_frame_cache;

/* agent_traces.c: a worker's frames of LuaJIT traces. */
struct trace_name;
struct trace_frames {
    VEC(struct frame) frames; /* of the sample that is being given */
    struct trace_name *names;
    size_t nr, cap; /* of names */
};

struct replay_worker {
    struct replay *replay;
    const struct replay_sink *sink;
    void *sink_worker;
    struct unwinder *unwinder;
    struct symbol_cache *symbols;
    struct unwind_stack stacks[WALK_GROUP];
    struct memory_reads reads[WALK_GROUP];
    /* WALK_GROUP of them, of the group that is being walked; NULL: no sample has had one yet. They
     * are 1.6 MB, and need not be cleared where no recorder made any. */
    struct vmstack *copies;
    struct sample_lua luas[WALK_GROUP];
    struct sample_js jss[WALK_GROUP];
    struct luajit_names *names;
    struct v8_names *js_names;
    struct v8_frame_cache *js_seen;
    struct memory_log_recent *recent;
    struct trace_frames traces;
    bool rather_reads;         /* than it brings jobs to their end */
    struct job *job;           /* at hand */
    struct stack_use use;      /* of the job at hand */
    struct replay_stats stats; /* of the jobs that it brought to their end */
    bool sink_made;
};

/* batch.c: read until a batch has samples to work on: 1; 0: the recording ends. */
int read_job(struct replay *r, struct job *job, struct error *err);
/* Whatever the job holds of the recording is given back. */
void release_job(struct replay *r, struct job *job);

/* pipeline.c: what a thread does; of a struct replay_worker. */
void worker_main(void *worker, struct processor *p);

/* sample.c: decode up to WALK_GROUP samples and fill their frames (the kernel's part of the
 * callchain, then the user stack); sets bad where the record is malformed. */
bool sample_passes(const struct replay *r, const struct sample *head, const char *comm);
/* Move what `from` counted to `to`. */
void stack_use_add(struct stack_use *to, struct stack_use *from);
/* How many bytes of a stack are worth reading before it is walked; 0: nothing is known yet. */
size_t stack_use_choose(struct stack_use *u);
/* The worker's places for WALK_GROUP copies, made at first need; NULL: memory is out. */
struct vmstack *replay_copies(struct replay_worker *w);
int sample_walk_group(struct replay_worker *w, struct job_sample *group, size_t nr,
                      struct error *err);
/* How many of the outermost frames of a sample whose frames are there are, byte for byte, those of
 * the sample before it in the job. 0 when one of them is bad. */
size_t sample_frames_same(const struct job *job, const struct job_sample *s);

/* lua.c: the walker for a sample's Lua; `place` and `ret` must stay until it has been walked. */
const struct walker *sample_walker(struct replay_worker *w, const struct thread_context *thread,
                                   struct sample_lua *ret);

/* lua.c: a copy of the VM came with the sample; it must stay as well. */
void sample_use_copy(struct sample_lua *lua, const struct vmstack *copy);

/* js.c: the walker for a sample's JavaScript, around that for its Lua; both must stay, as `place`.
 */
const struct walker *sample_js_walker(struct replay_worker *w, const struct thread_context *thread,
                                      const struct walker *lua, struct sample_js *ret);

/* join.c: remember complete stacks per thread; continue truncated ones. In the order of batches. */
struct join_table *join_table_create(void);
void join_table_free(struct join_table *t);
/* All samples of the job, in order; frames of joined stacks are appended to job->frames. */
int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err);

/* members.c: samples with a READ block stand for a group's members. Under the read lock. */
struct member_table *member_table_create(void);
void member_table_free(struct member_table *t);
/* Up to MEMBERS_MAX members. */
int member_table_split(struct member_table *t, const struct perfdata *pd, const struct sample *s,
                       struct member *ret, size_t *nr, struct error *err);

/* vmstack_pairing.c: copies of VMs' stacks, as they wait for their samples. Under the read lock. */
struct vmstack_pairing *vmstack_pairing_create(void);
void vmstack_pairing_free(struct vmstack_pairing *t);
/* 1: the record was no sample but something of ljperf's own; it may wait now. 0: it is a sample. */
int vmstack_pairing_take(struct vmstack_pairing *t, const struct perfdata *pd,
                         const struct record *rec, const struct perfdata_event *event,
                         struct read_counts *counts, struct error *err);
/* The sample's copy, if one waits. */
void vmstack_pairing_give(struct vmstack_pairing *t, const struct sample *s,
                          struct vmstack_ref *ret, struct read_counts *counts);
/* The batch ends: what waits is kept beyond it. */
int vmstack_pairing_keep(struct vmstack_pairing *t, struct error *err);
/* The recording ends: drops what still waits, and returns how many. */
uint64_t vmstack_pairing_end(struct vmstack_pairing *t);
/* The same copy for another sample of the job. */
int vmstack_ref_share(const struct vmstack_ref *c, struct vmstack_ref *ret, struct error *err);
void vmstack_ref_release(struct vmstack_ref *c);

/* Whether a frame is machine code of a trace that a jitdump describes. */
bool trace_frame_is(const struct frame *f);
/* Put the Lua functions of such traces in the place of their machine code, in a sample that is
 * about to be given; its frames then are the worker's, up to the next. */
int trace_frames_expand(struct trace_frames *t, struct managed_names *managed,
                        struct replay_sample *s, struct error *err);
/* Whether those would be guesses. */
bool trace_frame_is_guess(const struct frame *f);
void trace_frames_free(struct trace_frames *t);

/* incomplete_ends.c: where stacks ended that did not reach their entry. In the order of batches. */
struct end_table *end_table_create(void);
void end_table_free(struct end_table *t);
int end_table_add(struct end_table *t, enum stack_end end, const struct mapping *at, uint64_t pc,
                  struct error *err);
const struct replay_incomplete_end *end_table_sorted(struct end_table *t, size_t *nr);

#endif
