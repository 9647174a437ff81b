/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a recording holds of a process's memory besides the samples' own stacks, as layers of a
 * struct memory: the copy of the VM's stack that belongs to one sample, and the log of what the
 * recorder read at other times. perfdata/vmevent.h is how both stand in the recording.
 */
#ifndef SESSION_RECORDED_MEMORY_H
#define SESSION_RECORDED_MEMORY_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "perfdata/vmevent.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A payload of ljperf's in a bpf-output sample; false: it is something else's. */
bool vmevent_of_sample(const struct sample *s, struct vmevent *ret);

/* ---- the copy of one sample --------------------------------------------------------------- */

enum { VMSTACK_ENTRIES_MAX = 2048, VMSTACK_VMS_MAX = 4 }; /* more are passed over */

/* The entries of one VMEVENT_STACK, by address; they point into its payload. */
struct vmstack_entry {
    uint64_t address;
    const uint8_t *bytes;
    uint32_t length;
    uint8_t kind; /* enum vmentry_kind */
};
enum { VMSTACK_PAGE_BITS = 512, VMSTACK_LINE_SLOTS = 1024 };
struct vmstack {
    struct vmstack_entry entries[VMSTACK_ENTRIES_MAX];
    uint64_t
        pages[VMSTACK_PAGE_BITS / 64];  /* a bit for each hash of a page that long ones are in */
    uint16_t lines[VMSTACK_LINE_SLOTS]; /* a short one, + 1, by a hash of 64 bytes that it is in; 0:
                                      none of these is in them */
    uint32_t nr;
    uint32_t reason; /* enum vmevent_reason */
    uint32_t flags;  /* VMEVENT_FULL, ... */
    uint32_t nr_vms;
    uint64_t g[VMSTACK_VMS_MAX]; /* global_States of the VMs on the thread, innermost first */
};

/* Read the payload of a copy. False: it is not that of this sample (its thread, user IP and SP
 * differ), or it is malformed. */
bool vmstack_open(struct vmstack *copy, const uint8_t *payload, size_t size, uint32_t tid,
                  uint64_t user_ip, uint64_t user_sp);

/* The layer over it: exact. `copy` must stay as long as the layer is used. */
struct memory_layer vmstack_layer(const struct vmstack *copy);

/* ---- the log ------------------------------------------------------------------------------ */

/*
 * Versions of memory, by process and time. What was read equal before and after a moment is exact
 * at it; what was read after it only, `image`; what was read before it only, `guess`; of two that
 * differ what was read after, unless that was long after, and the other is nearer. An object
 * that does not change while it lives (VMENTRY_OBJECT) is exact when it was read within 0.2 s
 * after, and `image` else: walkers ask for it because the sample's stack names it, so it lived, and
 * check what they get. A running Lua stack (VMENTRY_STACK) is never more than `image`: a program
 * comes to the same place again and again. A fork's child has what its parent had, as `image`; an
 * exec begins anew.
 *
 * First everything is added, then the log is sealed, then it is read by any thread.
 */
struct memory_log;

struct memory_log_stats {
    uint64_t entries;  /* ranges with bytes */
    uint64_t marks;    /* ranges told to be unchanged */
    uint64_t versions; /* different contents kept */
    uint64_t bytes;    /* of them */
    uint64_t orphans;  /* marks whose range was never told: passed over */
    uint64_t over;     /* versions beyond what is kept: passed over */
    uint64_t bad;      /* payloads that lie, as far as they do */
};

/* How its times stand to those of the samples. */
enum memory_log_order {
    VMLOG_RECORDED, /* with the samples, by the rules above */
    VMLOG_BESIDE,   /* on the same clock, but not for these samples: only what was read equal before
                       and   after is exact, the rest `image` */
    VMLOG_APART,    /* on another clock: the newest is taken, all is `image` */
};

/* Contents are kept in an unnamed temporary file. VMLOG_RECORDED, until that is set. */
int memory_log_create(struct memory_log **ret, struct error *err);
void memory_log_set_order(struct memory_log *log, enum memory_log_order order);
void memory_log_free(struct memory_log *log);

/* Take over a VMEVENT_MEM or VMEVENT_CLOSE (others are passed over). */
int memory_log_add(struct memory_log *log, struct vmevent *e, struct error *err);
/* A process became another at `time` (ns of the recording's clock): exec, or forked by
 * `parent`. Any order. */
int memory_log_exec(struct memory_log *log, uint32_t pid, uint64_t time, struct error *err);
int memory_log_fork(struct memory_log *log, uint32_t parent, uint32_t pid, uint64_t time,
                    struct error *err);
/* Every payload of a recording, and its execs and forks. `pd` is read to its end. */
int memory_log_add_all(struct memory_log *log, struct perfdata *pd, struct error *err);
int memory_log_seal(struct memory_log *log, struct error *err);

/* Everything of a recording: reads it once from the start to the end. NULL: there is no event that
 * could hold a log, and nothing was read. */
int memory_log_read(const struct perfdata *pd, struct memory_log **ret, struct error *err);

struct memory_log_stats memory_log_stats(const struct memory_log *log);

/* What else was noted of a process, once sealed: global_States of its Lua VMs; and of V8 what
 * function a BytecodeArray may be of (both tagged). How many there are; as many as `max` are told.
 */
size_t memory_log_globals(const struct memory_log *log, uint32_t pid, uint64_t *ret, size_t max);
size_t memory_log_functions(const struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t *ret, size_t max);
/* Note one of the latter; a Lua VM; a LuaJIT prototype's block. */
int memory_log_add_function(struct memory_log *log, uint32_t pid, uint64_t bytecode,
                            uint64_t function, struct error *err);
int memory_log_add_global(struct memory_log *log, uint32_t pid, uint64_t g, struct error *err);
int memory_log_add_prototype(struct memory_log *log, uint32_t pid, uint64_t address, uint64_t size,
                             struct error *err);
/* The LuaJIT prototype that has this address in its block; 0: none was noted. */
uint64_t memory_log_prototype(const struct memory_log *log, uint32_t pid, uint64_t address);

/* Where one thread's readings of a log found their bytes: a place for each hash of an address. */
enum { VMLOG_RECENT = 4096 };
struct memory_log_recent {
    uint64_t address;
    uint32_t pid;
    uint32_t version; /* index + 1; 0: free */
    uint32_t run; /* of versions, + 1: no other has the byte at `address`; 0: that is not known */
};

/* The log as a process had it at the time that is asked for. */
struct memory_log_view {
    const struct memory_log *log;
    uint32_t pid;
    struct memory_log_recent *recent; /* VMLOG_RECENT of them, zero at first; NULL: none */
    struct memory_span *span;         /* narrowed by each reading; NULL: nobody asks */
    /* All that is asked for is of objects that do not change while they live (VMENTRY_OBJECT), and
     * whoever asks has two words of the stack that must agree on them. NULL: it is not. */
    const bool *objects;
    bool *soon; /* set by a reading that is exact only as such an object's; NULL: nobody asks */
    const enum memory_side *side; /* struct memory's; NULL: MEMORY_NEAREST */
};
/* `view` must stay as long as the layer is used. */
struct memory_layer memory_log_layer(const struct memory_log_view *view);

#endif
