/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The payload of `ljperf:vmstack` and `ljperf:mem` events in a recording. The eBPF copier fills it
 * in the kernel, and vmevent.c reads it. Both include this file, so it holds only structures and
 * constants and needs nothing but <stdint.h>.
 *
 * A payload is one struct vmevent_header, then `nr_entries` entries. An entry is one struct
 * vmevent_entry_header, then, if it is VMENTRY_TIMED, two u64 times (before and after the read),
 * then, unless it is VMENTRY_UNCHANGED or VMENTRY_FAILED, `length` bytes padded to a multiple of 8.
 * Bytes after `size` are padding of the ring. Every number is in the producer's byte order, which
 * the magic shows.
 */
#ifndef PERFDATA_VMEVENT_LAYOUT_H
#define PERFDATA_VMEVENT_LAYOUT_H

#include <stdint.h>

enum {
    VMEVENT_MAGIC = 0x564d4a4c, /* "LJMV" in memory, little endian; else: the other byte order */
    VMEVENT_VERSION = 1,
    VMEVENT_LITTLE = 1, /* values of `order` */
    VMEVENT_BIG = 2,
    /* A record has 65,535 bytes. This leaves room for its header and the sample's fields. */
    VMEVENT_MAX = 64512,
};

/* Kinds of payloads. */
enum vmevent_kind {
    VMEVENT_STACK = 1, /* copied in the sample's interrupt: belongs to one sample */
    VMEVENT_MEM = 2,   /* read from a process, at other times than the samples */
    VMEVENT_CLOSE = 3, /* the memory log of a process ends here (reason: enum vmevent_close) */
    /* A sampled block of memory was freed at the time `before`. `sequence` is the number that its
     * allocation's sample has as address (perfdata/alloc.h). There are no entries. */
    VMEVENT_FREED = 4,
    /* The V8 of thread `tid` knows all objects that are in use (a full collection has marked them).
     * Sampled objects of V8 that were allocated before, on this thread, and are not freed from then
     * on, are in use at `before`. There are no entries. */
    VMEVENT_COLLECTED = 5,
};

/* A bit of an allocation's number: perfdata/alloc.h. */
#define VMEVENT_FOLLOWED (UINT64_C(1) << 62)

/* Why a VMEVENT_STACK holds no VM. */
enum vmevent_reason {
    VMEVENT_MATCHED = 0,
    VMEVENT_NO_VM,        /* the process is known and has no VM */
    VMEVENT_ELSEWHERE,    /* no VM of the process runs on this thread's stack */
    VMEVENT_BAD_READ,     /* words of every VM could not be read (unmapped or swapped out) */
    VMEVENT_NO_USER_REGS, /* sampled in kernel mode, where the kernel does not provide the user
                             registers */
    VMEVENT_NR_REASONS,
};

/* Why the memory log of a process ends (`reason` of a VMEVENT_CLOSE). */
enum vmevent_close {
    VMEVENT_CLOSE_EXEC = 1,
    VMEVENT_CLOSE_EXIT,
    VMEVENT_CLOSE_FORK, /* `other` is the new child; from here on it has the same memory as `pid` */
};

/* Bits of vmevent_header.flags. */
enum {
    VMEVENT_FULL = 1,        /* not everything that should have been copied did fit */
    VMEVENT_KERNEL_MODE = 2, /* the sample was taken in kernel mode */
    VMEVENT_MORE_LEVELS = 4, /* there are more outer coroutines than the copier follows */
    /* The resumer of a coroutine was not found: a C function resumed the coroutine, and that C
     * function had no caller or is far up the stack. */
    VMEVENT_BROKEN_LINKS = 8,
    VMEVENT_CUT_CALLS = 16, /* a list of CallInfos (plain Lua) was longer than is copied */
};

struct vmevent_header {
    uint32_t magic;
    uint8_t version;
    uint8_t order;     /* VMEVENT_LITTLE or VMEVENT_BIG */
    uint8_t word_size; /* of the target, in bytes: 8 */
    uint8_t kind;      /* enum vmevent_kind */
    uint32_t size;     /* bytes of the payload, including this header */
    uint16_t reason;
    uint16_t nr_entries;
    uint32_t cpu;
    uint32_t flags;
    uint32_t pid, tid; /* in the recorder's pid namespace */
    uint32_t other;    /* VMEVENT_CLOSE_FORK: the child */
    uint32_t reserved;
    uint64_t sequence; /* counts the VMEVENT_STACKs of a CPU, or the VMEVENT_MEMs of a writer */
    uint64_t user_ip;  /* VMEVENT_STACK: user registers, as in the sample */
    uint64_t user_sp;
    uint64_t before, after; /* CLOCK_MONOTONIC ns, before and after all entries were read */
};

/* What the bytes of an entry are. This is a hint; the address says the same. */
enum vmentry_kind {
    VMENTRY_BYTES = 0,
    VMENTRY_GLOBAL,   /* words of the global_State, from g upward */
    VMENTRY_JIT,      /* words of the jit_State */
    VMENTRY_STATE,    /* a lua_State */
    VMENTRY_STACK,    /* the stack of a lua_State, or its newest part (VMENTRY_CUT) */
    VMENTRY_TRACE,    /* the slot of the running trace in the trace array, or its GCtrace */
    VMENTRY_OBJECT,   /* VMEVENT_MEM: a whole object that does not change while it lives
                         (string, prototype, function, trace, machine code), recognised by its
                         header */
    VMENTRY_FUNCTION, /* VMEVENT_STACK: the head of a function that a stack slot refers to */
    VMENTRY_INDEX,    /* VMEVENT_MEM: no memory (address 0), but a pair of u64: V8's tagged
                         BytecodeArray and its SharedFunctionInfo, or a LuaJIT prototype's
                         address and its size in bytes */
    VMENTRY_HEAD,     /* VMEVENT_STACK: the head of an object that is needed whole: a function's
                         prototype, or the string with the name of its chunk (if it is not long:
                         with its text) */
    VMENTRY_DIGEST,   /* VMEVENT_STACK: no memory, but a digest (u64) of a trace's instructions,
                         snapshots and snapshot map, which are copied (VMENTRY_BYTES) only of a
                         trace that is new; its address is VMENTRY_DIGEST_OF */
    VMENTRY_PERF_MAP, /* VMEVENT_MEM: no memory, but a piece of the process's perf map; its address
                         is the offset in the file */
    VMENTRY_JITDUMP,  /* the same of its jitdump */
    VMENTRY_TEXT,     /* VMEVENT_MEM: no memory, but a struct vmentry_text: whose text the anonymous
                         executable memory at the address is */
    VMENTRY_COMPILER, /* VMEVENT_MEM: no memory, but what the JIT compiler of the VM at the address
                         (global_State) has done: a struct luajit_compiler_state, then struct
                         luajit_facts (unwind/luajit/compiler.h). A reading with many facts has
                         several entries, with the same times */
    VMENTRY_V8_COMPILER, /* VMEVENT_MEM: no memory (address 0), but what is new of the process's
                            V8: struct v8_facts (unwind/v8/compiler.h) */
};

/* Bytes of a VMENTRY_TEXT. */
#define VMENTRY_TEXT_OTHER UINT64_MAX
struct vmentry_text {
    uint64_t end;  /* of the memory */
    uint64_t like; /* address in a mapping of the file; 0: the file that was mapped there before */
    uint64_t offset; /* in the file; VMENTRY_TEXT_OTHER: the memory is not a file's */
};

/* The address of a digest entry, for the trace at `address`: no program has memory there. */
#define VMENTRY_DIGEST_OF(address) ((address) | UINT64_C(1) << 63)

/* A digest is computed from each 4 bytes in turn and starts with VMDIGEST_BEGIN. A snapshot has 12
 * (or 8) bytes; its third (second) word is masked, because LuaJIT counts exits there. */
#define VMDIGEST_BEGIN UINT64_C(0x9e3779b97f4a7c15)
#define VMDIGEST_ADD(digest, word) (((digest) ^ (word)) * UINT64_C(0xff51afd7ed558ccd))
#define VMDIGEST_MIX(digest) ((digest) ^ (digest) >> 32)
#define VMDIGEST_MASK_12 UINT32_C(0x00ff00ff)
#define VMDIGEST_MASK_8 UINT32_C(0x00ffffff)

/* Bits of vmevent_entry_header.flags. */
enum {
    VMENTRY_CUT = 1,       /* older slots, below `address`, were left out */
    VMENTRY_TIMED = 2,     /* two u64 times follow the header */
    VMENTRY_UNCHANGED = 4, /* no bytes: this process had the same bytes at this address before */
    VMENTRY_FAILED = 8,    /* no bytes: the memory could not be read */
};

struct vmevent_entry_header {
    uint64_t address;
    uint32_t length; /* bytes that this entry describes */
    uint8_t kind;    /* enum vmentry_kind */
    uint8_t flags;
    uint8_t vm;    /* VMEVENT_STACK: number of the VM among those on this thread, 0: the
                      innermost */
    uint8_t level; /* VMEVENT_STACK: number of the state, 0: the running one, 1: the one that
                      resumed it, ... */
};

#endif
