/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of a process that a recording holds besides the samples' own stacks, as layers of a
 * struct memory: the copy of the VM's stack that belongs to one sample (vmstack), and the log of
 * what the recorder read at other times (memory log). perfdata/vmevent.h describes how both are
 * recorded.
 */
#ifndef SESSION_RECORDED_MEMORY_H
#define SESSION_RECORDED_MEMORY_H

#include "base/error.h"
#include "perfdata/alloc.h"
#include "perfdata/perfdata.h"
#include "perfdata/vmevent.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Get the ljperf payload of a bpf-output sample. Returns false if the sample is something else. */
bool vmevent_of_sample(const struct sample *s, struct vmevent *ret);

/* ---- the vmstack of one sample ------------------------------------------------------------ */

enum { VMSTACK_ENTRIES_MAX = 2048, VMSTACK_VMS_MAX = 4 }; /* more are ignored */

/* The entries of one VMEVENT_STACK, sorted by address. They point into its payload. */
struct vmstack_entry {
    uint64_t address;
    const uint8_t *bytes;
    uint32_t length;
    uint8_t kind; /* enum vmentry_kind */
};
enum { VMSTACK_PAGE_BITS = 512, VMSTACK_LINE_SLOTS = 1024, VMSTACK_STATES_MAX = 32 };
struct vmstack {
    struct vmstack_entry entries[VMSTACK_ENTRIES_MAX];
    /* Long entries: one bit for each hash of a page that a long entry covers. */
    uint64_t pages[VMSTACK_PAGE_BITS / 64];
    /* Short entries: index + 1 of an entry, by a hash of a 64-byte line that it covers. 0: no short
     * entry covers a line with this hash. */
    uint16_t lines[VMSTACK_LINE_SLOTS];
    uint32_t nr;
    uint32_t reason; /* enum vmevent_reason */
    uint32_t flags;  /* VMEVENT_FULL, ... */
    uint32_t nr_vms;
    uint64_t g[VMSTACK_VMS_MAX]; /* global_States of the VMs on the thread, innermost first */
    uint64_t states[VMSTACK_STATES_MAX]; /* lua_States that were copied whole */
    uint32_t nr_states;                  /* above VMSTACK_STATES_MAX: some are not in the list */
};

/* Read the payload of a vmstack. Returns false if it does not belong to this sample (its thread,
 * user IP or SP differ), or if it is malformed. */
bool vmstack_open(struct vmstack *copy, const uint8_t *payload, size_t size, uint32_t tid,
                  uint64_t user_ip, uint64_t user_sp);

/* Returns the layer over a vmstack; its bytes are exact. `copy` must stay valid as long as the
 * layer is used. */
struct memory_layer vmstack_layer(const struct vmstack *copy);

/* ---- the memory log ----------------------------------------------------------------------- */

/*
 * Versions of memory, by process and time. Bytes that were read equal before and after a moment are
 * exact at that moment. Bytes that were read only after it are `image`; bytes that were read only
 * before it are `guess`. If the readings before and after differ, the later one counts, unless it
 * came long after the moment and the earlier one is nearer. An object that does not change while it
 * lives (VMENTRY_OBJECT) is exact if it was read within 0.2 s after the moment, else `image`:
 * walkers ask for the object because the sample's stack refers to it, so the object was alive, and
 * they check what they get. A running Lua stack (VMENTRY_STACK) is never better than `image`,
 * because a program comes to the same place again and again. A fork's child has the memory of its
 * parent, as `image`; an exec starts with empty memory.
 *
 * First all payloads are added, then the log is sealed, then any thread may read it.
 */
struct memory_log;

struct memory_log_stats {
    uint64_t entries;  /* ranges with bytes, and parts of kept files */
    uint64_t marks;    /* ranges recorded as unchanged */
    uint64_t versions; /* different contents that are kept */
    uint64_t bytes;    /* bytes of these contents */
    uint64_t orphans;  /* marks for a range without recorded bytes: ignored */
    uint64_t over;     /* versions beyond the limit: ignored */
    uint64_t bad;      /* malformed payloads, read up to the malformed entry */
};

/* How the times of a log relate to the times of the samples. */
enum memory_log_order {
    MEMORY_LOG_RECORDED, /* recorded with the samples: the rules above apply */
    /* On the same clock, but not recorded with these samples: bytes are exact only if they were
     * read equal before and after, else `image`. */
    MEMORY_LOG_BESIDE,
    MEMORY_LOG_OTHER_CLOCK, /* on another clock: the newest reading counts, and everything is
                               `image` */
};

/* Create a log. It keeps contents in an unnamed temporary file. Its order is MEMORY_LOG_RECORDED
 * until memory_log_set_order() sets another one. */
int memory_log_create(struct memory_log **ret, struct error *err);
void memory_log_set_order(struct memory_log *log, enum memory_log_order order);
void memory_log_free(struct memory_log *log);

/* Add the entries of a VMEVENT_MEM or VMEVENT_CLOSE payload. Other payloads are ignored. */
int memory_log_add(struct memory_log *log, struct vmevent *e, struct error *err);
/* Note that a process changed at `time` (ns of the recording's clock): by an exec, or because
 * `parent` forked it. The calls may come in any order. */
int memory_log_exec(struct memory_log *log, uint32_t pid, uint64_t time, struct error *err);
int memory_log_fork(struct memory_log *log, uint32_t parent, uint32_t pid, uint64_t time,
                    struct error *err);
/* Add every payload of a recording, and its execs and forks. Reads `pd` to its end. */
int memory_log_add_all(struct memory_log *log, struct perfdata *pd, struct error *err);
int memory_log_seal(struct memory_log *log, struct error *err);

/* Read the whole log of a recording: reads the recording once from start to end. *ret NULL: the
 * recording has no event that could hold a log, and nothing was read. */
int memory_log_read(const struct perfdata *pd, struct memory_log **ret, struct error *err);

struct memory_log_stats memory_log_stats(const struct memory_log *log);

/* Get when the block of a sampled allocation was freed (perfdata/alloc.h), ns. Returns false if it
 * was not. */
bool memory_log_freed(const struct memory_log *log, uint64_t serial, uint64_t *ret);
/* Returns the first time at which most of the sampled allocations' memory of a kind is in use, ns.
 * 0: there are none. */
uint64_t memory_log_peak(const struct memory_log *log, enum alloc_kind kind);
/* Returns up to when it is known whether the blocks of a kind that a thread has allocated are in
 * use, ns. 0: it is not. */
uint64_t memory_log_known(const struct memory_log *log, enum alloc_kind kind, uint32_t pid,
                          uint32_t tid);
/* Get for how many halves of faults of pages a sampled one stands (perfdata/resident.h); 0: its
 * page had another sampled fault before. Returns false if that is not known. */
struct resident_fault;
bool memory_log_faults(const struct memory_log *log, const struct sample *s,
                       const struct resident_fault *fault, uint64_t *ret);

/* Get what else was noted about a process, once the log is sealed: global_States of its Lua VMs;
 * and for V8, the functions that a BytecodeArray may belong to (both addresses tagged). Returns how
 * many there are; writes at most `max` of them. */
size_t memory_log_globals(const struct memory_log *log, uint32_t pid, uint64_t *ret, size_t max);
size_t memory_log_functions(const struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t *ret, size_t max);
/* Add a note: a V8 function of a BytecodeArray; a Lua VM; the block of a LuaJIT prototype. */
int memory_log_add_function(struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t function, struct error *err);
int memory_log_add_global(struct memory_log *log, uint32_t pid, uint64_t g, struct error *err);
int memory_log_add_prototype(struct memory_log *log, uint32_t pid, uint64_t address, uint64_t size,
                             struct error *err);
/* Returns the LuaJIT prototype whose block contains `address`; 0: none was noted. */
uint64_t memory_log_prototype(const struct memory_log *log, uint32_t pid, uint64_t address);

/* Get a path to the perf map (VMENTRY_PERF_MAP) or the jitdump (VMENTRY_JITDUMP) of a process that
 * the recording holds. It is valid as long as the log. Returns false if there is none. `log` may be
 * NULL. */
bool memory_log_code_file(const struct memory_log *log, uint32_t pid, uint8_t kind, char path[32]);

/* Returns what the recorder found when it compared anonymous executable memory with files
 * (VMENTRY_TEXT); NULL: nobody has compared that memory. Memory that was a file's once is believed
 * to be so. `log` may be NULL. */
const struct vmentry_text *memory_log_text(const struct memory_log *log, uint32_t pid,
                                           uint64_t start, uint64_t end);

/* What the JIT compiler of a VM had done at a time (VMENTRY_COMPILER, VMENTRY_V8_COMPILER). */
struct memory_log_compiler {
    uint64_t g, time; /* ns: when it was read. V8: g is 0 */
    uint32_t pid;
    uint32_t size;
    uint8_t kind;         /* enum vmentry_kind */
    const uint8_t *bytes; /* they live as long as the log; aligned as a u64 */
};
/* Returns reading `index`, in the recording's order; NULL: there are no more. */
const struct memory_log_compiler *memory_log_compiler(const struct memory_log *log, size_t index);

/* Where one thread's earlier readings of a log found their bytes: one slot for each hash of an
 * address. */
enum { MEMORY_LOG_RECENT = 4096 };
struct memory_log_recent {
    uint64_t address;
    uint32_t pid;
    uint32_t version; /* index + 1; 0: free */
    /* Index + 1 of the only run of versions with the byte at `address`; 0: not known. */
    uint32_t run;
    struct memory_span same; /* times at which a reading of `address` finds `version` */
};

/* The log of one process at the time of a reading. */
struct memory_log_view {
    const struct memory_log *log;
    uint32_t pid;
    struct memory_log_recent *recent; /* MEMORY_LOG_RECENT entries, all zero at first; NULL: none */
};
/* Returns the layer over a log. `view` must stay valid as long as the layer is used. */
struct memory_layer memory_log_layer(const struct memory_log_view *view);

#endif
