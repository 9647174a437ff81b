/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The payload of `ljperf:vmstack` and `ljperf:mem` events as it stands in a recording: what the
 * eBPF copier fills in the kernel and vmevent.c reads. Included by both, so it holds structures
 * and constants only and needs nothing but <stdint.h>.
 *
 * A payload is one struct vmevent_header, then `nr_entries` entries. An entry is one struct
 * vmevent_entry_header, two u64 times (before and after its read) when it is VMENTRY_TIMED, then
 * `length` bytes padded to a multiple of 8 unless it is VMENTRY_UNCHANGED or VMENTRY_FAILED.
 * What stands behind `size` is padding of the ring. Every number is in the producer's byte
 * order, which the magic shows.
 */
#ifndef PERFDATA_VMEVENT_LAYOUT_H
#define PERFDATA_VMEVENT_LAYOUT_H

#include <stdint.h>

enum {
    VMEVENT_MAGIC = 0x564d4a4c, /* "LJMV" in memory, little endian; anything else: other order */
    VMEVENT_VERSION = 1,
    VMEVENT_LITTLE = 1, /* values of `order` */
    VMEVENT_BIG = 2,
    /* A record has 65,535 bytes; this leaves room for its header and the sample's fields. */
    VMEVENT_MAX = 64512,
};

/* What a payload is. */
enum vmevent_kind {
    VMEVENT_STACK = 1, /* copied in the sample's interrupt: belongs to one sample */
    VMEVENT_MEM = 2,   /* read from a process at times of its own */
    VMEVENT_CLOSE = 3, /* what was logged of a process ends here (reason: enum vmevent_close) */
};

/* Why a VMEVENT_STACK holds no VM. */
enum vmevent_reason {
    VMEVENT_MATCHED = 0,
    VMEVENT_NO_VM,        /* the process is known and has no VM */
    VMEVENT_ELSEWHERE,    /* no VM of the process runs on this thread's stack */
    VMEVENT_BAD_READ,     /* words of every VM could not be read (unmapped or swapped out) */
    VMEVENT_NO_USER_REGS, /* taken in kernel mode and the kernel does not give the user's */
    VMEVENT_NR_REASONS,
};

/* Why a process's log closes, in `reason` of a VMEVENT_CLOSE. */
enum vmevent_close {
    VMEVENT_CLOSE_EXEC = 1,
    VMEVENT_CLOSE_EXIT,
    VMEVENT_CLOSE_FORK, /* `other` is the new child, which has from here on what `pid` has */
};

/* Bits of vmevent_header.flags. */
enum {
    VMEVENT_FULL = 1,         /* more would have been copied, had it fitted */
    VMEVENT_KERNEL_MODE = 2,  /* the sample was taken in kernel mode */
    VMEVENT_MORE_LEVELS = 4,  /* more coroutines lie outward than are followed */
    VMEVENT_BROKEN_LINKS = 8, /* a coroutine's resumer was not found: a C function resumed it, and
                                 was called by none, or is far up the stack */
};

struct vmevent_header {
    uint32_t magic;
    uint8_t version;
    uint8_t order;     /* VMEVENT_LITTLE or VMEVENT_BIG */
    uint8_t word_size; /* of the target, bytes: 8 */
    uint8_t kind;      /* enum vmevent_kind */
    uint32_t size;     /* of the payload with this header, bytes */
    uint16_t reason;
    uint16_t nr_entries;
    uint32_t cpu;
    uint32_t flags;
    uint32_t pid, tid; /* in the recorder's pid namespace */
    uint32_t other;    /* VMEVENT_CLOSE_FORK: the child */
    uint32_t reserved;
    uint64_t sequence; /* counts a cpu's VMEVENT_STACKs, or a writer's VMEVENT_MEMs */
    uint64_t user_ip;  /* VMEVENT_STACK: the user's registers as the sample has them */
    uint64_t user_sp;
    uint64_t before, after; /* CLOCK_MONOTONIC ns around the reading of all entries */
};

/* What an entry's bytes are: a hint, the address says it, too. */
enum vmentry_kind {
    VMENTRY_BYTES = 0,
    VMENTRY_GLOBAL,   /* words of the global_State, from g up */
    VMENTRY_JIT,      /* words of the jit_State */
    VMENTRY_STATE,    /* a lua_State */
    VMENTRY_STACK,    /* its stack, or the newest part (VMENTRY_CUT) */
    VMENTRY_TRACE,    /* the running trace's slot in the trace array, or its GCtrace */
    VMENTRY_OBJECT,   /* VMEVENT_MEM: a whole object that does not change while it lives (string,
                         prototype, function, trace, machine code), recognised by its header */
    VMENTRY_FUNCTION, /* VMEVENT_STACK: the head of a function that a slot of the stack names */
    VMENTRY_INDEX,    /* VMEVENT_MEM: no memory (address 0), but two u64 that belong together: V8's
                         tagged BytecodeArray, and the SharedFunctionInfo it is of; or the address
                         of a LuaJIT prototype, and its bytes */
    VMENTRY_HEAD,     /* VMEVENT_STACK: the head of an object that is needed whole: of a function's
                         prototype, of the string that names its chunk */
    VMENTRY_DIGEST,   /* VMEVENT_STACK: no memory, but what a trace's instructions, snapshots and
                         map, which are not copied, come to (u64), at VMENTRY_DIGEST_OF */
};

/* Where the digest of the trace at an address stands: no program has memory there. */
#define VMENTRY_DIGEST_OF(address) ((address) | UINT64_C(1) << 63)

/* A digest: of each 4 bytes in turn, from VMDIGEST_BEGIN on. Of the snapshots' 12 (or 8) bytes each
 * the third (second) word is masked: LuaJIT counts exits in there. */
#define VMDIGEST_BEGIN UINT64_C(0x9e3779b97f4a7c15)
#define VMDIGEST_ADD(digest, word) (((digest) ^ (word)) * UINT64_C(0xff51afd7ed558ccd))
#define VMDIGEST_MIX(digest) ((digest) ^ (digest) >> 32)
#define VMDIGEST_MASK_12 UINT32_C(0x00ff00ff)
#define VMDIGEST_MASK_8 UINT32_C(0x00ffffff)

/* Bits of vmevent_entry_header.flags. */
enum {
    VMENTRY_CUT = 1,       /* older slots, below `address`, were left out */
    VMENTRY_TIMED = 2,     /* two u64 times follow the header */
    VMENTRY_UNCHANGED = 4, /* no bytes: the same as this process had at this address before */
    VMENTRY_FAILED = 8,    /* no bytes: could not be read */
};

struct vmevent_entry_header {
    uint64_t address;
    uint32_t length; /* bytes that are told of */
    uint8_t kind;    /* enum vmentry_kind */
    uint8_t flags;
    uint8_t vm;    /* VMEVENT_STACK: which of the VMs on this thread, 0 the innermost */
    uint8_t level; /* and which of its states, 0 the running one, 1 the one that resumed it, ... */
};

#endif
