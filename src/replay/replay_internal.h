/* SPDX-License-Identifier: GPL-2.0-only */
/* Internal definitions that the files of replay/ share. */
#ifndef REPLAY_REPLAY_INTERNAL_H
#define REPLAY_REPLAY_INTERNAL_H

#include "base/hash_table.h"
#include "base/intern.h"
#include "base/threads.h"
#include "replay/replay.h"
#include "session/snapshots.h"
#include "session/walk_input.h"
#include "session/recorded_memory.h"
#include "session/vmstack_pairing.h"
#include "unwind/managed.h"
#include "unwind/luajit/listing.h"
#include "unwind/luajit/names.h"
#include "unwind/luajit/vm.h"
#include "unwind/runtimes/walkers.h"
#include "unwind/v8/names.h"

#include <pthread.h>

enum {
    WALK_GROUP = 2 * UNWIND_LANES, /* samples walked side by side */
    READ_AHEAD = 3,                /* jobs that may wait to be walked; reading pauses then */
    JOBS_SPARE = 4,                /* jobs in progress, besides one for each thread */
    JOBS_MAX = WORKERS_MAX + JOBS_SPARE,
    JOB_RECORDS = 256,        /* records read at once: limits the memory that a batch may hold */
    REPLAY_MAX_STACK = 65536, /* default of max_stack: no real stack is deeper */
    OUTPUTS_SPARE = 2,        /* texts that may wait to be written, besides one for each thread */
};

/* A counter that has moved, as a sample's READ block says. */
enum { MEMBERS_MAX = 256 };
struct member {
    const struct perfdata_event *event;
    uint64_t id, period;
};

/* A sample that a job processes. */
struct job_sample {
    const struct record *record;
    struct sample sample;
    struct thread_context thread;
    size_t first_frame, nr_frames; /* in the job's frames */
    size_t nr_kernel;              /* of these, the callchain's part, which comes first */
    size_t nr_same; /* the outermost frames that the sample before it in the job has as well */
    enum stack_end end;
    uint64_t end_pc, end_address;
    struct member member; /* the counter that the sample belongs to; event NULL: the record's own */
    struct vmstack_ref copy;
    uint64_t number; /* in the recording, from 1 */
    /* Frames of an earlier stack, outermost; and, for an explanation, where they were seen: indexes
     * in the job's `sightings`. */
    size_t nr_joined, first_sighting;
    uint8_t join_failure; /* enum join_failure */
    bool bad, has_user, unwound;
    bool witness;      /* of an event that is left out: it only tells which waits are idle */
    bool weightless;   /* options.weight, or options.wall, leaves it out */
    uint8_t vmstate;   /* what the VM did: struct runtime's `activity` */
    bool copy_differs; /* the vmstack is of another moment of the thread: not used */
    bool has_trace;    /* a frame is machine code that trace_frames_expand() replaces */
};

/* Counts of what was read. */
struct read_counts {
    uint64_t samples, bad;
    uint64_t copies; /* vmstacks */
};

typedef VEC(struct frame) frame_vec;

/* What a job waits for. A job that a thread works on waits for nothing. */
enum job_state { JOB_IN_WORK, JOB_READ, JOB_WALKED };

/* One batch of records, and its samples. */
struct job {
    enum job_state state;
    uint64_t batch_number; /* number of the batch in the recording */
    struct record_batch batch;
    VEC(struct job_sample) samples;
    frame_vec frames;
    VEC(struct replay_sighting) sightings;
    const struct arch *arch; /* the recording's machine; NULL: its stacks cannot be unwound */
};

struct end_table;
struct join_table;
struct member_table;

/* How many recent walks needed how much of their stack (sample.c). */
enum { USE_STEP = 256, USE_STEPS = 48 };
struct stack_use {
    uint32_t walks[USE_STEPS + 1]; /* in steps of USE_STEP bytes; the last one: more */
    uint32_t nr;
};

/* A job's text that waits for its turn to be written. */
struct output {
    struct text text;
    bool ready;
};

/* Where interpreters of LuaJIT are in processes whose samples were walked. */
struct luajit_place {
    uint32_t pid;
    struct luajit_blob blob;
};
struct luajit_places {
    pthread_mutex_t lock;
    VEC(struct luajit_place) at;
};

/* The V8 in processes whose samples were walked. */
struct v8_place {
    struct thread_context thread; /* of the first one: the texts of Node's own scripts are in its
                                     files */
    const struct v8_layout *layout;
};
struct v8_places {
    pthread_mutex_t lock;
    VEC(struct v8_place) at;
};

struct replay {
    struct replay_options options;
    VEC(struct time_range) share_times; /* what options.shares are; options.times points to it */
    struct perfdata *pd;
    struct replay_means *means; /* of these, and of `rules` */
    struct dsos *dsos;
    struct session *session;
    struct session_lists *lists;
    struct symbols *symbols;
    struct intern *strings; /* module names of generated code, symbols of managed functions */
    struct managed_names *managed;
    struct luajit_names *place_names; /* of replay_place(); NULL: not used yet */
    struct luajit_places luajits;
    struct v8_names *v8_place_names; /* of replay_v8_place(); NULL: not used yet */
    struct v8_places v8s;
    struct unwind_rules *rules;
    unsigned nr_threads;
    struct idle *idle;    /* NULL: the sink does not fold idle waits */
    pthread_t letting_go; /* the thread of replay_let_go() */
    bool lets_go;

    /* For the thread that reads; so is the session. */
    struct member_table *members;
    struct vmstack_pairing copies;
    struct memory_log *log; /* the memory log: what the recorder read of processes; NULL: none */
    struct snapshots *snapshots; /* memory of processes that was read by others; NULL: none */
    struct read_counts counts;
    bool gives_records; /* a batch without samples becomes a job as well */
    _Atomic bool at_end;
    /* For the thread that joins. */
    struct join_table *joins;
    struct end_table *stops;
    uint64_t joined; /* samples that were joined */

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t moved;
    unsigned waiting; /* threads that sleep until a job moves on */
    struct job *jobs, *line[JOBS_MAX], *free[JOBS_MAX]; /* line: batch t is at t % JOBS_MAX */
    unsigned nr_jobs, nr_free;
    uint64_t next_number, join_number, end_number; /* batches to be read, joined, given next */
    unsigned nr_read;                              /* jobs that wait to be walked */
    bool reading;
    struct stack_use use; /* of all workers' walks */
    uint64_t write_number;
    /* Batch t is at t % nr_outputs. */
    struct output outputs[WORKERS_MAX + OUTPUTS_SPARE];
    unsigned nr_outputs;
    bool writing;
    _Atomic bool failed;
    struct error error;
    struct replay_stats stats; /* complete at the end */
};

/* agent_traces.c: a worker's frames of LuaJIT traces. */
/* The managed id of a dump's function. */
struct trace_name {
    const struct jit_lua_function *function;
    uint32_t id;
};
struct trace_frames {
    VEC(struct frame) frames;     /* of the sample that is being given to the sink */
    VEC(struct trace_name) names; /* as they are met */
    struct hash_table table;      /* of names, by functions */
};

/* The process of a sample that is being walked (managed.c). */
struct sample_process {
    const struct replay_worker *worker;
    const struct thread_context *thread;
    struct runtime_vm vms[VMSTACK_VMS_MAX]; /* of the vmstack */
    bool reads_anew;                        /* as in struct runtime_sample */
    struct variable_places *places;         /* the same */
    uint32_t noted_pid;                     /* the process whose LuaJITs were noted last; 0: none */
    uint32_t noted_v8_pid;                  /* the same of V8 */
};

struct replay_worker {
    struct replay *replay;
    const struct replay_sink *sink;
    unsigned number; /* from 0 */
    void *sink_worker;
    struct unwinder *unwinder;
    struct symbol_cache *symbols;
    struct unwind_stack stacks[WALK_GROUP];
    struct memory_reads reads[WALK_GROUP];
    /* WALK_GROUP vmstacks, of the group that is being walked; NULL: no sample has had one yet. They
     * are 1.6 MB, and need not be cleared if no recorder made any. */
    struct vmstack *copies;
    struct runtime_tables *tables;
    struct runtime_walkers *walkers[WALK_GROUP];
    struct sample_process processes[WALK_GROUP];
    struct memory_log_recent *recent;
    struct trace_frames traces;
    bool rather_reads;         /* prefers reading to bringing jobs to their end */
    struct job *job;           /* the current one */
    struct stack_use use;      /* of the current job */
    struct replay_stats stats; /* of the jobs that this worker brought to their end */
    bool sink_made;
};

/* batch.c: read until a batch has samples to work on. Returns 1; 0: the recording ends. */
int read_job(struct replay *r, struct job *job, struct error *err);
/* Give back everything that the job holds of the recording. */
void release_job(struct replay *r, struct job *job);

/* pipeline.c: the main function of a thread; `worker` is a struct replay_worker. */
void worker_main(void *worker, struct processor *p);

/* sample.c: whether a sample fails the filters only because of its event, and waits do not. */
bool sample_is_witness(const struct replay_options *o, const struct sample *head, const char *comm);
/* Make the input for a sample, the `at`th of its group. If the sample has a vmstack, the
 * worker has space for it. */
void sample_input(struct replay_worker *w, struct job_sample *s, size_t at,
                  struct walk_memory *memory, struct unwind_input *ret);
/* Add the counts of `from` to `to`, and clear them. */
void stack_use_add(struct stack_use *to, struct stack_use *from);
/* Returns how many bytes of a stack are worth reading before it is walked; 0: nothing is known
 * yet. */
size_t stack_use_choose(struct stack_use *u);
/* Returns the worker's space for WALK_GROUP vmstacks, made when first needed; NULL: out of
 * memory. */
struct vmstack *replay_copies(struct replay_worker *w);
/* Decode up to WALK_GROUP samples and fill their frames (the kernel's part of the callchain, then
 * the user stack). Sets bad where the record is malformed. */
int sample_walk_group(struct replay_worker *w, struct job_sample *group, size_t nr,
                      struct error *err);
/* Returns how many outermost frames of a sample, whose frames are filled, are byte for byte those
 * of the sample before it in the job; 0 if one of the two is bad. */
size_t sample_frames_same(const struct job *job, const struct job_sample *s);

/* managed.c: let go of what was noted of processes with V8. */
void v8_places_free(struct v8_places *v);
/* Make and free what a worker needs to walk managed frames. Returns false when memory is out; free
 * it then as well. */
bool managed_walks_create(struct replay_worker *w, struct managed_names *managed, bool has_log);
void managed_walks_free(struct replay_worker *w);
/* Returns the walker for the managed frames of a sample, the `at`th of its group. `copy`: the
 * vmstack that came with it; NULL: none. `vms`: VMs that are known otherwise; may be NULL. All that
 * is given must stay valid until the sample has been walked. */
const struct walker *sample_walker(struct replay_worker *w, size_t at,
                                   const struct thread_context *thread, const struct vmstack *copy,
                                   const runtime_vm_list *vms);

/* join.c: remember complete stacks of each thread, and continue truncated ones. Called in the order
 * of batches. */
/* `keeps_sightings`: note in which sample each frame was learned, for explanations. */
struct join_table *join_table_create(bool keeps_sightings);
void join_table_free(struct join_table *t);
/* Join all samples of the job, in order. Frames of joined stacks are appended to job->frames. */
int join_job(struct join_table *t, struct job *job, uint64_t *nr_joined, struct error *err);

/* members.c: a sample with a READ block stands for the members of a group. Called by the thread
 * that reads. */
struct member_table *member_table_create(void);
void member_table_free(struct member_table *t);
/* Split a sample into up to MEMBERS_MAX members. */
int member_table_split(struct member_table *t, const struct perfdata *pd, const struct sample *s,
                       struct member *ret, size_t *nr, struct error *err);

/* Returns whether a frame is machine code of a trace that a jitdump describes. */
bool trace_frame_is(const struct frame *f);
/* Replace the machine code of traces that a jitdump describes with their Lua functions, in a sample
 * that is about to be given to the sink. The sample's frames then belong to the worker, until the
 * next call. */
int trace_frames_expand(struct trace_frames *t, struct managed_names *managed,
                        struct replay_sample *s, struct error *err);
/* Returns whether the Lua functions of such a frame would be guesses. */
bool trace_frame_is_guess(const struct frame *f);
void trace_frames_free(struct trace_frames *t);

/* incomplete_ends.c: where stacks ended that did not reach their entry point. Called in the order
 * of batches. */
struct end_table *end_table_create(void);
void end_table_free(struct end_table *t);
int end_table_add(struct end_table *t, enum stack_end end, const struct mapping *at, uint64_t pc,
                  struct error *err);
const struct replay_incomplete_end *end_table_sorted(struct end_table *t, size_t *nr);

#endif
