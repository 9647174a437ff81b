/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a recording through the whole pipeline: reads records in order, keeps the session, unwinds
 * and joins samples, and hands finished samples to a sink.
 *
 * Threads: batches of records are read one after the other (reading changes the session), unwound
 * by any thread, joined in the recording's order (truncated stacks), and given to the sink worker
 * of any thread, which is then flushed. So a sink worker sees the samples of one batch in order,
 * texts are written in the recording's order, and the result does not depend on the number of
 * threads. Half of the threads prefer to read and unwind; the others prefer to name and sum up
 * (pipeline.c).
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "base/error.h"
#include "dso/dso.h"
#include "base/text.h"
#include "perfdata/alloc.h"
#include "perfdata/perfdata.h"
#include "session/session.h"
#include "symbols/symbols.h"
#include "unwind/managed.h"
#include "unwind/luajit/listing.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Half-open range of sample times, ns. */
struct time_range {
    uint64_t from, until;
};

/* The same as shares of the time from the first sample to the last, 0 to 1. */
struct share_range {
    double from, until;
};

typedef VEC(uint32_t) number_list;

enum weight_unit { UNIT_COUNT, UNIT_NS, UNIT_BYTES };

struct replay_options {
    const char *input; /* NULL: perf.data */
    unsigned threads;  /* 0: as many as there are processors */
    unsigned max_stack;
    bool no_join;
    bool awaits;   /* stacks of JavaScript have the functions that await the result, too */
    bool explains; /* the sink calls replay_explain() */
    /* Filters; an empty list passes everything. Samples that do not pass are not unwound. */
    name_list comms;
    name_list events;
    number_list pids;
    number_list tids;
    number_list cpus;
    VEC(struct time_range) times;
    VEC(struct share_range) shares; /* of time; the recording must say when it begins and ends */
    /* What takes the place of the period: a number of a tracepoint's payload, or of an allocation
     * one of the names of enum alloc_weight; NULL: nothing does. A sample without it, or with one
     * below 1, is left out. */
    const char *weight;
    enum weight_unit weight_unit;
    /* Time on the cpu and off it is one weight, under one event: the first that counts ns. Samples
     * of other events are left out. */
    bool wall;
    /* Sinks that sum up take idle waits, too, which otherwise are folded away (idle.h). */
    bool idle;
    struct dso_options dso;
    struct symbols_options symbols;
    struct session_options session;
    /* Files, symbols and unwind rules that several replays of one machine share, one after the
     * other; NULL: the replay has its own. */
    struct replay_means *means;
    const char *const *snapshots; /* memory read outside the recording (session/snapshots.h) */
    size_t nr_snapshots;
    /* Called now and then, by the one thread that reads; total 0: unknown. May be NULL. */
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *progress_context;
};

/* What a sample of an allocation may weigh, by the names that profile stores have. */
enum alloc_weight {
    ALLOC_WEIGHT_NONE,
    ALLOC_WEIGHT_SPACE,         /* "alloc_space": bytes; the period */
    ALLOC_WEIGHT_OBJECTS,       /* "alloc_objects": calls */
    ALLOC_WEIGHT_INUSE_SPACE,   /* "inuse_space": the same of blocks that were not freed while */
    ALLOC_WEIGHT_INUSE_OBJECTS, /* "inuse_objects": ... the recording ran */
    ALLOC_WEIGHT_PEAK_SPACE,    /* "peak_space": the same of blocks in use when most was in use */
    ALLOC_WEIGHT_PEAK_OBJECTS,  /* "peak_objects" */
};
/* Returns which of them has this name; ALLOC_WEIGHT_NONE: none has. */
enum alloc_weight alloc_weight_named(const char *name);

/* Returns whether a sample passes the filters of the options. `comm`: its thread's command. */
bool replay_passes(const struct replay_options *o, const struct sample *head, const char *comm);

struct vmstack_ref;

/* Where a joined frame was seen. */
struct replay_sighting {
    uint64_t number, time; /* of the sample */
};

/* Why a truncated stack was not continued. */
enum join_failure {
    JOIN_NOT_TRIED,
    JOIN_NO_PLACE,  /* its last frame's place or function is not known, or it is a guess */
    JOIN_NOT_SEEN,  /* no earlier complete stack of the thread had its last frame */
    JOIN_NOT_WHOLE, /* the frame was seen, but not all of its callers up to the entry */
    JOIN_DISPUTED,  /* the frame, or one of its callers, was seen with different callers */
};

/* One sample with its whole stack. Valid during the call that gets it. */
struct replay_sample {
    const struct sample *sample;
    const char *comm;
    const struct thread_context *thread;
    const struct frame *frames; /* kernel, then user; innermost first */
    size_t nr_frames;
    /* The outermost frames that are byte for byte those of the sample that the sink's worker got
     * before. More frames may be equal. */
    size_t nr_same;
    const struct arch *arch; /* the machine; NULL: its stacks cannot be unwound */
    bool unwound;            /* user frames come from the stack copy, not from the callchain */
    bool has_user;           /* there was a user stack to walk */
    enum stack_end end;      /* of the user stack, if unwound */
    uint64_t end_pc, end_address;
    const struct mapping *end_mapping; /* module at end_pc; NULL: none */
    /* The number of its batch in the recording: it decides which names of managed functions
     * count. */
    uint64_t batch_number;
    const struct vmstack_ref *copy; /* private: the vmstack that came with the sample; NULL: none */
    uint64_t number;  /* of the sample in the recording, from 1; filters do not change it */
    size_t nr_kernel; /* frames of the kernel's callchain, which come first */
    size_t nr_own;    /* frames of the walk itself, before traces of an agent are replaced */
    size_t nr_joined; /* frames of an earlier stack, which come last */
    /* With options.explains: where each joined frame was seen, innermost first. */
    const struct replay_sighting *sightings;
    enum join_failure join_failure; /* if it was not continued, but truncated */
    bool copy_differs;              /* a vmstack came, but is of another moment: it was not used */
    /* enum runtime_activity (unwind/runtime.h) of the innermost Lua frame's VM: by its own word,
     * which came with the sample, or by the native frames inside. */
    uint8_t vmstate;
    uint16_t event; /* index of the event that it counts for (replay_event()) */
    /* Of a sample of a wait (offcpu-time), else 0: enum wait_reason (perfdata/offcpu.h), and 1 +
     * the number of the system call that waited. */
    uint8_t wait_reason;
    uint16_t wait_syscall;
    /* Of a wait that may be idle, else 0: a number for replay_is_idle(), the same for all waits of
     * the thread with this stack that one worker gets. */
    uint64_t wait;
};

struct replay_worker;

/* Where the samples go. All functions return 0, or -1, which ends the run with an error. write may
 * return 1: no more is wanted, and the run ends. */
struct replay_sink {
    void *context;
    int (*worker_create)(void *context, struct replay_worker *w, void **ret, struct error *err);
    void (*worker_free)(void *worker);
    /* Parallel: take one sample. */
    int (*sample)(void *worker, const struct replay_sample *s, struct error *err);
    /* Parallel: take any record, samples included, in the recording's order. A sample that passes
     * the filters goes to sample() right afterwards. May be NULL. */
    int (*record)(void *worker, const struct record *rec, struct error *err);
    /* Parallel: the batch given to this worker is complete. With `write`, exchange the batch's text
     * for the empty text in `text` (without `write`, `text` is NULL). May be NULL. */
    int (*flush)(void *worker, struct text *text, struct error *err);
    /* In order, one call at a time, by any thread: write a batch's text, which is emptied
     * afterwards. May be NULL. */
    int (*write)(void *context, struct text *text, struct error *err);
    /* After the run, it leaves out the samples for whose `wait` replay_is_idle() is true. */
    bool folds_idle;
};

/* Statistics of a run: counts of samples, unless said otherwise. */
struct replay_stats {
    uint64_t samples;             /* read, before filters */
    uint64_t passed;              /* after filters */
    uint64_t first, last;         /* least and greatest time of these, ns */
    uint64_t user;                /* with a user stack to walk */
    uint64_t ends[STACK_NR_ENDS]; /* of these: by how they ended (after joining) */
    uint64_t joined;              /* truncated stacks continued by an earlier one */
    uint64_t guessed;             /* with at least one frame marked guess */
    uint64_t bad;                 /* malformed samples; ignored */
    /* With a sink that folds idle waits: of samples of waits and of those that are idle, the
     * numbers and the sums of periods, ns. */
    uint64_t waits, waits_ns, idle, idle_ns;
    uint64_t weightless;      /* left out: without options.weight, or no time for options.wall */
    uint64_t unsupported_abi; /* 32-bit or foreign user registers, or addresses of too many bits:
                                 not unwound */
    uint64_t unsupported_machine; /* of a recording of a machine that cannot be unwound */
    uint64_t frames;              /* user frames walked */
    uint64_t copies;              /* vmstacks that came with samples */
    uint64_t copies_unused;       /* vmstacks without their sample, or that do not match it */
    uint64_t readings_over;       /* readings of VMs' memory beyond the limit; ignored */
    uint64_t readings_bad;        /* malformed readings of VMs' memory; ignored */
    /* The following are counted only if there is neither a memory log nor a snapshot. */
    uint64_t lua_untold; /* samples with a Lua frame whose function is not known */
    uint64_t js_untold;  /* samples of V8 with generated code that nothing describes */
};

/* What replays need besides the recording. The first replay that gets it fills it: the options of
 * its files (`dso`) count for all. It must live longer than all of them. NULL: out of memory. */
struct replay_means *replay_means_create(void);
void replay_means_free(struct replay_means *m);

struct replay;
int replay_create(const struct replay_options *options, struct replay **ret, struct error *err);
void replay_free(struct replay *r);
int replay_run(struct replay *r, const struct replay_sink *sink, struct error *err);
/* For a caller that goes on, after the run, with what the sink kept. Afterwards only the
 * recording's header, the stats and the number of threads of the replay may be used. If the replay
 * has several threads, the rest is freed in parallel to the caller's work. */
void replay_let_go(struct replay *r);

const struct perfdata *replay_perfdata(const struct replay *r);
/* Returns what records told that is printed as it is (session/lists.h). It may be used after
 * replay_let_go(), too. */
const struct session_lists *replay_lists(const struct replay *r);
/* Returns how many threads the replay works with. */
unsigned replay_threads(const struct replay *r);
const struct session *replay_session(const struct replay *r);
/* Returns a line for stderr about snapshots; NULL: no more. */
const char *replay_warning(const struct replay *r, size_t index);
struct dsos *replay_dsos(const struct replay *r);
/* Returns a line about a file whose runtime is not understood: of the files from number *index on,
 * whose number it sets. NULL: no more. To be called after the run. */
const char *replay_runtime_problem(const struct replay *r, size_t *index);
/* Returns the functions of managed languages that frames refer to. */
struct managed_names *replay_managed_names(const struct replay *r);
const struct replay_options *replay_options(const struct replay *r);
/* Returns what periods of an event count: options.weight_unit if there is a weight; ns for clocks
 * and waits. */
enum weight_unit replay_unit(const struct replay *r, unsigned event);
/* Get what a sample of an allocation weighs: 0 if it does not count. Returns false if it is no such
 * sample. */
bool replay_alloc_weight(const struct replay *r, const struct sample *s, enum alloc_weight which,
                         uint64_t *ret);
/* Get when the block of a sampled allocation was freed, ns. Returns false if it was not, as far as
 * the recording tells. */
bool replay_freed(const struct replay *r, const struct sample *s, uint64_t *ret);
/* Returns the time at which most of the recorded allocations of a kind is in use, ns; 0: there are
 * none. */
uint64_t replay_allocations_peak(const struct replay *r, enum alloc_kind kind);
/* Get up to when it is known whether the block of a sampled allocation is in use, ns: for V8's
 * objects, the last full collection. 0: it is not known; UINT64_MAX: to the end. Returns false if
 * it is no such sample, or its free would not be seen. */
bool replay_allocation_known(const struct replay *r, const struct sample *s, uint64_t *ret);
/* Get the time from which on no allocations were recorded, ns. Returns false if they were up to the
 * end. */
bool replay_allocations_end(const struct replay *r, uint64_t *ret);
/* Returns the index of the event that a sample counts for: with options.wall one for all. */
unsigned replay_event(const struct replay *r, const struct sample *s);
/* Get how many bytes of memory a sampled fault has made resident (perfdata/resident.h): none in
 * mappings of files, and none at a page that had a sampled fault before. Returns false if the
 * sample is no such fault. */
bool replay_resident_weight(const struct replay *r, const struct sample *s,
                            const struct thread_context *thread, uint64_t *ret);
/* Returns the name of what periods of an event count: the weight's, else the event's. */
const char *replay_weight_name(const struct replay *r, unsigned event);
/* Write who woke the thread of a sample of a wait, as users see it (offcpu_waker_name()). Returns
 * false, and writes nothing, if it is not known, or it is another sample. */
enum { REPLAY_WAKER_NAME = 64 };
bool replay_waker(const struct replay_sample *s, char ret[REPLAY_WAKER_NAME]);
/* Returns whether the wait of this number (struct replay_sample) is idle. To be called after the
 * run, before replay_let_go(). */
bool replay_is_idle(const struct replay *r, uint64_t wait);
/* To be called after replay_run(). */
const struct replay_stats *replay_stats(const struct replay *r);

/* Where stacks that did not reach their entry point ended, most frequent first. */
struct replay_incomplete_end {
    enum stack_end end;
    const char *module; /* NULL: no mapping */
    uint64_t address;   /* file offset in module, or pc */
    uint64_t count;
};
const struct replay_incomplete_end *replay_incomplete_ends(const struct replay *r, size_t *nr);

/* ---- naming a frame -------------------------------------------------------------------------- */

struct named_frame {
    uint64_t address;         /* as perf script prints it: for user code in the file, else the pc */
    const char *symbol;       /* NULL: unknown */
    bool by_place;            /* no symbol is known; `symbol` says where the function begins */
    const char *build;        /* with by_place, the file's build id in hex; NULL: not known */
    uint64_t offset;          /* of `address` from the symbol's start */
    const char *module;       /* path or name as perf prints it; NULL: no mapping */
    const char *short_module; /* without directories; NULL: no mapping */
    const struct resolved *resolved; /* inlined functions and lines; NULL: none known */
    const char *file; /* position that executes in the outermost function; NULL: unknown */
    uint32_t line, column;
    uint32_t dso; /* id of the dso; 0: none */
    uint8_t kind; /* enum frame_kind */
};
/* Of a managed frame: `symbol` is managed_symbol()'s, with the name that is known up to the
 * sample's batch; module and short_module are the file as the program names it; file and line are
 * the position that executes; there is no offset; and the address is the frame's pc. */

/* Name one frame of a sample, with the calling worker's cache. */
int replay_name(struct replay_worker *w, const struct replay_sample *s, const struct frame *f,
                struct named_frame *ret, struct error *err);
/* Get the function of a managed frame, with the name that is known up to the sample's batch. If the
 * frame's function is not known (its memory was not recorded), the result says so. */
void replay_managed(const struct replay_worker *w, const struct replay_sample *s,
                    const struct frame *f, struct managed_function *ret);
/* Get the LuaJIT trace whose machine code contains an address of the sample's process, as the
 * recording has it at the sample's time. Returns 1; 0: it is not recorded; -1: out of memory. */
int replay_trace(struct replay_worker *w, const struct replay_sample *s, uint32_t number,
                 uint64_t address, struct luajit_listing *ret, struct error *err);

/* ---- JIT compilers --------------------------------------------------------------------------- */

struct luajit_layout;
struct luajit_named;
struct luajit_fact;
struct luajit_compiler_state;

/* What the recorder found of a VM's JIT compiler (unwind/luajit/compiler.h), or a part of it: the
 * parts of one reading have the same time. Nothing in it is checked. */
struct replay_compiler {
    uint64_t g, time; /* ns */
    uint32_t pid;
    const struct luajit_compiler_state *state; /* NULL: the entry is malformed */
    const struct luajit_layout *layout;        /* NULL: no sample of the process ran this LuaJIT */
    const struct luajit_fact *facts;
    size_t nr;
};
/* Get number `index`, in the recording's order. To be called after the run. Returns false if there
 * are no more. */
bool replay_compiler(const struct replay *r, size_t index, struct replay_compiler *ret);
/* Name the function and the line of an instruction in a prototype, as the recording has it at the
 * time of the reading. `c` must have a layout. To be called by one thread. Returns -1 when memory
 * is out. */
int replay_place(struct replay *r, const struct replay_compiler *c, uint64_t proto,
                 uint32_t position, struct luajit_named *ret, struct error *err);
/* Get the name by which the instruction there calls a function. Returns false if it calls none, or
 * one without a name. */
enum { REPLAY_CALLED_MAX = 128 };
bool replay_called(const struct replay *r, const struct replay_compiler *c, uint64_t proto,
                   uint32_t position, char name[REPLAY_CALLED_MAX]);

struct v8_fact;
struct v8_named;

/* What the recorder found of V8's compilers in a process (unwind/v8/compiler.h), or a part of it.
 * Nothing in it is checked. */
struct replay_v8_facts {
    uint64_t time; /* ns */
    uint32_t pid;
    const struct v8_fact *facts;
    size_t nr; /* 0: the entry is LuaJIT's */
};
/* Get number `index`, in the recording's order. To be called after the run. Returns false if there
 * are no more. */
bool replay_v8_facts(const struct replay *r, size_t index, struct replay_v8_facts *ret);
/* Name a function of V8 (tagged SharedFunctionInfo), and the line of a place in its source (-1:
 * none), as the recording has it at `time`. `identity`: v8_sfi_identity(). *ret has function 0 if
 * it is not known, or if another function is at that address. To be called by one thread. Returns
 * -1 when memory is out. */
struct replay_v8_function {
    uint64_t sfi, time;
    uint32_t pid, identity;
};
int replay_v8_place(struct replay *r, const struct replay_v8_function *f, int32_t offset,
                    struct v8_named *ret, struct error *err);

/* ---- explaining a stack ---------------------------------------------------------------------- */

/* One read of memory in a walk. */
struct replay_read {
    uint64_t address;
    size_t size;
    const uint8_t *bytes; /* NULL: recorded nowhere */
    const char *source;   /* which memory had them; static */
    enum provenance provenance;
    struct memory_span when; /* when they were read, first and last; empty: not known, or at once
                                with the sample */
};

struct unwind_trace;
struct replay_explainer {
    const struct unwind_trace *trace;
    void (*read)(void *context, const struct replay_read *read);
    void *context;
};
/* Walk the user stack of a sample once more as it was walked, and tell what the walk decides and
 * reads. To be called by a sink, in its `sample`. `ret`: the frames of the walk, before stacks are
 * joined and traces of an agent are replaced; the caller frees ret->frames. */
int replay_explain(struct replay_worker *w, const struct replay_sample *s,
                   const struct replay_explainer *e, struct unwind_stack *ret, struct error *err);
/* Returns how many frames of the output a frame of the walk became: more than 1 where the agent's
 * jitdump describes a trace. */
size_t replay_frames_of(const struct frame *f);

/* ---- without a recording --------------------------------------------------------------------- */

/* Make a worker for stacks that do not change: of a core, or of a stopped process. Of the options,
 * `symbols` and `awaits` are used. */
int replay_stopped_create(struct dsos *dsos, const struct replay_options *options,
                          struct replay_worker **ret, struct error *err);
void replay_stopped_free(struct replay_worker *w);
/* Walk one thread's stack, including managed frames. The walker of `input` is set here; `vms` are
 * the process's VMs. `places`: where the frames' variables are, for replay_stopped_variables();
 * NULL: nobody asks. `sample` and the result are for replay_name() and for printing; they are valid
 * until the next walk. */
struct variable_places;
int replay_stopped_walk(struct replay_worker *w, const struct thread_context *thread,
                        const struct unwind_input *input, const runtime_vm_list *vms,
                        struct variable_places *places, const struct sample *sample,
                        struct replay_sample *ret, struct error *err);
/* List the variables of a frame of the last walk, which had `places`. `m` is the memory of its
 * input. `ret` was begun. */
struct variables;
int replay_stopped_variables(struct replay_worker *w, const struct memory *m, size_t index,
                             struct variables *ret, struct error *err);

/* Identifies a frame's code independently of its process: for caches of names. */
struct frame_key {
    /* A struct dso or a struct jit_function; NULL: in no mapping, or a managed frame. */
    const void *owner;
    /* The address of replay_name(); of jit code, the offset in the function; of a managed frame,
     * the id of its function. */
    uint64_t address;
    /* The address to look up: `address`, or one less for a return address; of a managed frame, the
     * line that executes, with its column from bit 32 on. */
    uint64_t lookup;
};
struct frame_key replay_frame_key(const struct frame *f);
struct replay *replay_of(const struct replay_worker *w);

#endif
