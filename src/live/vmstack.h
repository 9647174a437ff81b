/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the eBPF copier and its loader share: the values of its maps. Structures and constants only;
 * needs nothing but <stdint.h>.
 */
#ifndef LIVE_VMSTACK_H
#define LIVE_VMSTACK_H

#include "live/alloc_layout.h"
#include "perfdata/offcpu_layout.h"

#include <stdint.h>

enum {
    VMSTACK_VMS = 64,    /* VMs of one process that are examined in an interrupt */
    VMSTACK_NESTED = 4,  /* VMs on one thread that are copied, innermost first */
    VMSTACK_LEVELS = 64, /* nested coroutines that are followed outward */
    /* Bytes of the native stack that are searched for the state that resumed C, or called it. */
    VMSTACK_BETWEEN = 8 << 10,
    VMSTACK_CHAIN = 32,       /* C frames of one lua_State that are followed */
    VMSTACK_BYTES = 48 << 10, /* bytes of one Lua stack at most */
    VMSTACK_GLOBAL = 512,     /* bytes of global_State, and of jit_State, at most */
    /* Bytes of a lua_State at most, also of a function, or the head of a prototype or string. */
    VMSTACK_STATE = 128,
    VMSTACK_TRACE = 192,    /* bytes of a GCtrace at most */
    VMSTACK_STUBS = 16 * 8, /* bytes: addresses of groups of exit stubs */
    /* Slots above the base. A frame's size is one byte (sheet of facts: GCproto.framesize). */
    VMSTACK_SLOTS_ABOVE = 256,
    VMSTACK_EXTRA = 9,      /* slots behind maxstack at most, and the one it points to */
    VMSTACK_SCANNED = 1024, /* slots below the newest base that are searched for functions */
    VMSTACK_ABOVE = 256,    /* slots above that base that are searched; they may be stale */
    VMSTACK_UPWARD = 16,    /* functions copied from slots above that base */
    VMSTACK_FUNCTIONS = 48, /* functions of one stack that are copied */
    VMSTACK_CALLS = 96,     /* call instructions of one stack that are copied */
    /* Bytes of a prototype's lines up to which all are copied. Of more bytes, only the lines of
     * executing instructions are copied. */
    VMSTACK_LINES = 256,
    VMSTACK_CHUNK = 256, /* bytes of a chunk's name; of longer names no text is copied */
    VMSTACK_RECENT = 4,  /* recent functions, and instructions, that are matched with each other */
    /* Bytes, each, of a trace's instructions, its snapshots, and their map that get a digest. */
    VMSTACK_DIGEST = 8 << 10,
    /* Traces that are remembered, a power of two; and how long a trace is new (ns). The recorder
     * reads a trace that it learns of from a sample within that time. If the VM is closed before,
     * then the trace ran for no longer. */
    VMSTACK_TRACES_MET = 1024,
    VMSTACK_TRACE_NEW_NS = 500 * 1000 * 1000,
    VMSTACK_MCODE = 8 << 10, /* bytes of a new trace's machine code that are copied */
    /* Bytes of the native stack that are searched for the trace that called the collector. */
    VMSTACK_COLLECTOR = 2 << 10,
    VMSTACK_TRACES = 64,       /* traces that are tried in this search */
    VMSTACK_NATIVE = 64 << 10, /* bytes of the native stack that are searched for missing pages */
    VMSTACK_PROCESSES = 1024,
    /* Plain Lua. */
    VMSTACK_LUA_PROCESSES = 256,
    VMSTACK_LUA_BUILDS = 4,          /* of one process; a power of two, at most 8 */
    VMSTACK_LUA_PARTS = 4,           /* of execute's code */
    VMSTACK_LUA_STATES = 16,         /* lua_States of one thread that are copied */
    VMSTACK_STATE_OF_LUA = 0x100,    /* bytes of a lua_State at most */
    VMSTACK_LUA_CLOSURE = 0x28,      /* bytes of a closure's head: of all versions */
    VMSTACK_LUA_LINES = 1024,        /* bytes of a prototype's lines up to which they are copied */
    VMSTACK_LUA_SOURCE = 0x100,      /* bytes of the string that names a chunk; or, where fewer */
    VMSTACK_LUA_SOURCE_LEAST = 0x28, /* can be read, so many */
    VMSTACK_LUA_FRAME = 1 << 16,     /* bytes from execute's registers to its slot with L */
    VMSTACK_LUA_CALLS = 256,         /* CallInfos of one state, newest first */
    VMSTACK_LUA_ALL = 768,           /* the same, of all states of a sample */
    VMSTACK_LUA_ARRAY = 512,         /* the same, of an array (5.1) */
    VMSTACK_LUA_STACK = 16 << 10,    /* bytes of one Lua stack, newest slots */
    VMSTACK_LUA_SEARCHED = 64 << 10, /* bytes of the native stack that are searched for states */
    VMSTACK_LUA_RECENT = 4096,       /* states that are remembered; a power of two */
    VMSTACK_LUA_GLOBALS = 1024,      /* global_States, likewise */
    /* V8. */
    VMSTACK_V8_THREADS = 4096,
    VMSTACK_V8_STEPS = 32, /* promises of a chain that are followed */
    /* Time off the cpu: threads that are followed, and of these such whose wait has just ended. */
    OFF_CPU_THREADS = 1 << 15,
    OFF_CPU_DUES = 4096,
};

/* What depends on the machine. VMSTACK_KEPT: the user's callee-saved registers except LuaJIT's
 * DISPATCH (AArch64: except BASE and GL). OFF_CPU_...: registers by perf's numbers
 * (asm/perf_regs.h). */
enum {
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
    VMSTACK_KEPT = 9,
    OFF_CPU_SP = 31,
    OFF_CPU_IP = 32,
    OFF_CPU_REGISTERS = 33,
#else
    VMSTACK_KEPT = 5,
    OFF_CPU_SP = 7,
    OFF_CPU_IP = 8,
    OFF_CPU_REGISTERS = 24,
#endif
};

/* Bits of vmstack_vm.flags. */
enum {
    VMSTACK_GC64 = 1,  /* references have 8 bytes, else 4 */
    VMSTACK_CUR_L = 2, /* global_State has cur_L; else use `main_L` and the C frames (2.0) */
    VMSTACK_JIT = 4,   /* the offsets into jit_State are known */
};

/* One VM. Offsets are in bytes, from g unless stated otherwise. If g is 0, this is any VM of that
 * LuaJIT which the sampled thread's DISPATCH register names, or which has called the running C
 * function (cur_L must be known). */
struct vmstack_vm {
    uint64_t g;
    uint64_t main_L;
    uint64_t blob, blob_end; /* addresses of the interpreter's code */
    uint32_t flags;
    uint16_t cur_L, jit_base, vmstate, trace, sizetrace;
    uint16_t global_size;   /* bytes from g on */
    uint16_t jit, jit_size; /* of jit_State, copied when a trace is recorded or left */
    uint16_t exit;          /* parent and exitno: 8 bytes */
    uint16_t L_glref, L_base, L_top, L_maxstack, L_stack, L_cframe, L_size; /* in lua_State */
    uint16_t frame_L, frame_prev, frame_size;                               /* in the C frame */
    uint16_t trace_ir, trace_nk, trace_snap, trace_snapmap;                 /* of GCtrace */
    uint16_t trace_size, trace_mcode, trace_szmcode, trace_spadjust;        /* likewise */
    uint16_t function_size; /* bytes of a GCfunc: up to the C function, or its pc */
    uint16_t gct;           /* type byte of any object */
    uint16_t func_ffid, func_pc;
    uint16_t proto_size, proto_chunkname;                 /* of a GCproto: its head */
    uint16_t proto_sizebc, proto_numline, proto_lineinfo; /* numline 0: not known */
    uint16_t frame_pc;                                    /* SAVE_PC in the C frame */
    uint16_t str_size, str_len;                           /* of a GCstr: its head; the length */
    uint16_t stubs;    /* exit stub groups: VMSTACK_STUBS bytes */
    uint16_t dispatch; /* offset of the address in DISPATCH */
};

struct vmstack_process {
    uint32_t nr;    /* number of all VMs */
    uint32_t known; /* number of VMs whose g is known; they come first */
    struct vmstack_vm vms[VMSTACK_VMS];
};

/* Bits of vmstack_lua.flags. */
enum {
    VMSTACK_LUA_BY_SP = 1,          /* execute's slot with L is at its stack pointer + `slot` */
    VMSTACK_LUA_BY_BP = 2,          /* ... at its rbp + `slot` */
    VMSTACK_LUA_EMBEDDED = 4,       /* the main thread is in the global_State (5.5) */
    VMSTACK_LUA_ARRAY_OF_CALLS = 8, /* 5.1 */
};

/* One build of plain Lua in a process. Offsets are in bytes. */
struct vmstack_lua {
    struct {
        uint64_t start, size;
    } parts[VMSTACK_LUA_PARTS]; /* addresses of execute's code */
    int32_t slot;
    uint32_t flags;
    uint16_t main_thread;                                   /* in global_State */
    uint16_t state_size, global, top, ci, stack, base_ci;   /* in lua_State */
    uint16_t call_size, call_func, call_top, call_previous; /* in CallInfo */
    uint16_t closure_size, proto, is_c; /* in a closure; `is_c`: byte, 0: the slot's tag tells */
    /* In a prototype; size_...: 4 bytes. abslineinfo 0: there is none. */
    uint16_t source, lineinfo, size_lineinfo, abslineinfo, size_abslineinfo;
    uint16_t line_size;     /* bytes of an entry of lineinfo */
    uint16_t proto_size;    /* bytes of a prototype's head */
    uint8_t tag_lua, tag_c; /* of a stack slot with a closure, without the bit
                               "collectable" */
};

/* The builds of a process. */
struct vmstack_lua_builds {
    uint64_t low, size; /* the addresses of all their code */
    struct vmstack_lua builds[VMSTACK_LUA_BUILDS];
    uint32_t nr;
    uint32_t version; /* differs from that of all builds set before */
};

struct vmstack_lua_process {
    struct vmstack_lua_builds of;
    uint64_t lowest, highest; /* written by the program: addresses of states */
};

/* The V8 of a thread. Offsets are in bytes; types are V8's instance types. */
struct vmstack_v8 {
    uint64_t running; /* address of the word that names the microtask that runs */
    uint32_t pid;
    uint16_t fn_context;    /* in a JSFunction */
    uint16_t reaction_next; /* in a PromiseReaction; its handlers follow */
    uint16_t fulfill_job, reject_job, thenable_job, async_function, async_generator, promise,
        capability, reaction;
    uint16_t reserved[2];
};

/* Counted per cpu. */
enum vmstack_counter {
    VMSTACK_SAMPLES,    /* runs of the program for a user task */
    VMSTACK_UNKNOWN,    /* of these, runs in processes that are not in the table */
    VMSTACK_COPIED,     /* records with at least one VM */
    VMSTACK_NONE,       /* records that say why there is no VM */
    VMSTACK_LOST,       /* records that did not fit into the ring */
    VMSTACK_BUSY,       /* runs that interrupted another run */
    VMSTACK_CUT,        /* Lua stacks that were cut */
    VMSTACK_FAILED,     /* Lua stacks that could not be read in one piece */
    VMSTACK_WHOLE,      /* records that became full */
    VMSTACK_TIME,       /* ns spent on records with a VM */
    VMSTACK_LUA_COPIED, /* lua_States of plain Lua that were copied */
    VMSTACK_LUA_CUT,    /* lists of CallInfos of plain Lua that were cut */
    VMSTACK_LUA_MISSED, /* return addresses into plain Lua without a lua_State near */
    OFF_CPU_WAITS,      /* waits of recorded threads that have ended */
    OFF_CPU_NS,         /* ns of these */
    OFF_CPU_SAMPLES,    /* samples of waits */
    OFF_CPU_LOST,       /* the same, that did not fit into the ring */
    OFF_CPU_UNSEEN,     /* the same, whose thread ran user code before it could be copied */
    OFF_CPU_OVER,       /* notes that did not fit into a table */
    OFF_CPU_NO_RSEQ,    /* waits of threads without rseq */
    OFF_CPU_MISSED,     /* waits whose end was not seen */
    OFF_CPU_MISSED_NS,  /* the most ns that these can have taken */
    ALLOC_CALLS,        /* calls of allocators' functions that were seen */
    ALLOC_BYTES,        /* bytes that they asked for */
    ALLOC_BURST_BYTES,  /* the same, where probes exist for a moment only */
    ALLOC_INNER,        /* calls that other such functions have made: not counted */
    ALLOC_SAMPLES,      /* calls that are samples */
    ALLOC_LOST,         /* the same, that did not fit into the ring */
    ALLOC_FREED,        /* sampled blocks that were freed */
    ALLOC_OVER,         /* notes that did not fit into a table */
    ALLOC_LUA_CALLS,    /* calls of LuaJIT's allocators that were seen */
    ALLOC_LUA_SEEN,     /* the same, where probes exist for a moment only */
    ALLOC_V8_CALLS,     /* calls of V8's functions that allocate in its heap */
    ALLOC_V8_SEEN,      /* the same, where probes exist for a moment only */
    ALLOC_V8_IN_BURST,  /* bytes that these stand for */
    ALLOC_STRAY,        /* objects of V8 that were lost sight of */

    OFF_CPU_NO_WAKE, /* waits that ended, and nobody was seen to wake the thread */
    VMSTACK_NR_COUNTERS,
};

struct vmstack_counters {
    uint64_t value[VMSTACK_NR_COUNTERS];
};

/* The settings, in the program's read-only data. */
struct vmstack_config {
    uint64_t pidns_dev, pidns_ino; /* the recorder's pid namespace; 0: the first one */
    uint32_t nr_cpus;
    uint32_t stack; /* bytes of the native stack that the sampled events copy; 0: none */
    uint32_t page;  /* bytes of a page of the kernel */
};

/* ---- time off the cpu (off_cpu.bpf.h) -------------------------------------------------------- */

struct off_cpu_settings {
    uint64_t began;  /* CLOCK_MONOTONIC ns; 0: nothing is recorded now */
    uint64_t mean;   /* ns, less than 2^32: shorter waits become samples by chance */
    uint32_t all;    /* whether all threads of the machine are recorded */
    uint32_t kernel; /* whether samples have kernel stacks */
    uint32_t wakes;  /* whether wake-ups are seen */
    uint32_t wakers; /* whether it is noted who wakes */
    /* Kernel addresses on x86-64; 0: not known. The first two are of variables of each cpu, of
     * which a kernel has one: a cpu's own is at the cpu's offset from there. */
    uint64_t preempt_count, pcpu_hot;
    uint64_t cpu_offsets; /* the array of these offsets */
};

/* Who woke a thread. */
struct off_cpu_waker {
    uint32_t flags; /* OFFCPU_WAKER... of perfdata/offcpu_layout.h */
    uint32_t pid, tid;
    char comm[OFFCPU_COMM];
};

/* Of each thread that is followed. */
struct off_cpu_wait {
    uint64_t out; /* CLOCK_MONOTONIC ns at which it left the cpu; 0: it has one */
    uint64_t
        woken; /* the same time at which it was woken since; 0: it was not, or that is not seen */
    uint32_t state;             /* when it left the cpu */
    struct off_cpu_waker waker; /* if `woken` is set */
};

enum { OFF_CPU_FRAMES = 32 }; /* of a kernel stack */

/* A wait that becomes a sample as soon as the thread returns to user code; or some that followed
 * each other. The sample's payload in the ring. */
struct off_cpu_due {
    uint64_t weight;            /* ns that the sample stands for */
    uint64_t waited;            /* ns, in all */
    uint64_t nr;                /* number of waits */
    uint64_t runqueue;          /* ns of `weight` in which it waited for a cpu only */
    struct off_cpu_waker waker; /* of the last of them */
    uint32_t state;             /* OFFCPU_..., of the last of them */
    int32_t syscall;            /* likewise; -1: none */
    uint32_t reserved;
    uint64_t nr_frames;              /* likewise: of the kernel stack */
    uint64_t frames[OFF_CPU_FRAMES]; /* innermost first */
    uint64_t ip, sp;                 /* the user's */
};

/* A thread that waits at the end. */
struct off_cpu_thread {
    uint32_t tid, pid;
    uint64_t out; /* CLOCK_MONOTONIC ns: since when it waits, or since the recording began */
    uint32_t state;
    int32_t syscall;
    uint32_t nr_frames;
    uint32_t is_64bit; /* whether it runs 64-bit code */
    uint64_t registers[OFF_CPU_REGISTERS];
    uint64_t frames[OFF_CPU_FRAMES];
};

#endif
