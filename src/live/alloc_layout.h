/* SPDX-License-Identifier: GPL-2.0-only */
/* What the eBPF programs for allocations (alloc.bpf.h) and the recorder share. Structures and
 * constants only. */
#ifndef LIVE_ALLOC_LAYOUT_H
#define LIVE_ALLOC_LAYOUT_H

#include <stdint.h>

/* How a function allocates, in one word, the probe's cookie: numbers of arguments, from 1; 0: none.
 * Its low byte tells functions of one process apart. */
enum {
    ALLOC_ARGUMENT_MASK = 7,
    ALLOC_SIZE = 8,    /* place of: the argument that is the size, in bytes; none: it only frees */
    ALLOC_TIMES = 11,  /* another one by which the size is multiplied */
    ALLOC_OLD = 14,    /* the block that is freed */
    ALLOC_OUT = 17,    /* where the block's address is stored, else it is returned */
    ALLOC_ORIGIN = 20, /* which of V8's arguments says for whom it allocates */
    ALLOC_KIND = 24,   /* enum alloc_kind */
    ALLOC_KIND_MASK = 7,
    ALLOC_NUMBER = 40, /* of an ALLOC_USDT: which of alloc_usdts it is */
    ALLOC_NUMBER_MASK = 63,
    ALLOC_RETURNS = 1 << 28, /* blocks of this function are freed by functions that are probed */
    ALLOC_NOTES = 1 << 29,   /* it allocates by functions that are probed: note for whom */
    /* It is called with a further area of a heap (argument 1), from argument 2 to argument 3, for
     * whom was noted. What was allocated is what the heap's last area had up to then. */
    ALLOC_AREA = 1 << 30,
};
/* The same: it returns the area, in memory: the two addresses, then whether there is one. */
#define ALLOC_RETURNS_AREA (UINT64_C(1) << 31)
/* The probe exists for a moment only. */
#define ALLOC_BURST (UINT64_C(1) << 32)
/* A LuaJIT's allocator (lua_Alloc): a call may allocate, free, or both. */
#define ALLOC_OF_LUA (UINT64_C(1) << 33)
/* A probe of the allocator's own (alloc_usdt.h): each hit is a sample, or the free of one. */
#define ALLOC_USDT (UINT64_C(1) << 34)
/* The function is of a file with such probes. */
#define ALLOC_BEHIND_USDT (UINT64_C(1) << 35)
/* In the key of a pending call of V8's: such calls allocate by malloc, which may become a sample,
 * too. */
#define ALLOC_V8_PENDING (UINT64_C(1) << 63)
/* In the serial numbers of LuaJIT's samples. */
#define ALLOC_SERIAL_LUA (UINT64_C(1) << 43)

/* What becomes a sample is followed until it is freed (perfdata/alloc.h). */
#define ALLOC_FOLLOWED (UINT64_C(1) << 46)
/* V8 calls it in a collection: enum alloc_collection stands in the place of the size. */
#define ALLOC_COLLECTS (UINT64_C(1) << 47)

/* It allocates objects of V8's heap; memory of its buffers. Both are followed where V8's
 * collections are seen. */
#define ALLOC_V8_OBJECT (UINT64_C(1) << 48)
#define ALLOC_V8_BUFFER (UINT64_C(1) << 49)
/* Of those that are called with areas: only areas of the old space count; argument 1 is a policy of
 * the heap's allocator, not the allocator. */
#define ALLOC_OLD_AREA (UINT64_C(1) << 50)
#define ALLOC_OF_POLICY (UINT64_C(1) << 51)
/* It ends the area of such an allocator (argument 1 is its policy), whose rest was not used. */
#define ALLOC_ENDS_AREA (UINT64_C(1) << 52)
/* It allocates in V8's heap, notes for whom that is done, or is called in collections of it. */
#define ALLOC_OF_V8 (UINT64_C(1) << 53)

/* The moments of V8's collections at which its objects are looked at (alloc_v8.bpf.h). */
enum alloc_collection {
    ALLOC_BEGINS = 1,
    ALLOC_SCAVENGED, /* young objects that live were copied, or those of a full collection */
    ALLOC_MARKED,    /* all objects that live are marked */
    ALLOC_EVACUATED, /* those that move were copied */
    ALLOC_ENDS,
    ALLOC_TORN_DOWN,   /* the whole heap ends */
    ALLOC_COLLECTIONS, /* one more than the last */
};

enum {
    ALLOC_FUNCTIONS = 64,                /* of one process that are probed */
    ALLOC_PROCESSES = 1024,              /* that are recorded at once */
    ALLOC_PENDINGS = 4096,               /* sampled calls at once */
    ALLOC_BLOCKS = 1 << 17,              /* sampled blocks that are not freed */
    ALLOC_AREAS = 4096,                  /* heaps whose areas are known */
    ALLOC_USDTS = ALLOC_NUMBER_MASK + 1, /* forms of allocators' own probes */
    ALLOC_COLLECTING = 1024,             /* collections at once, twice */
    /* Sampled objects of V8: young ones, and others. Collections walk all places of these tables.
     * An area has 256 KiB, a large object half of that: there cannot be many more in 4 GiB. */
    ALLOC_V8_YOUNG = 1 << 11,
    ALLOC_V8_OLD = 1 << 14,
    ALLOC_UNWRITTEN = 1 << 14, /* frees for which the ring had no room */
    ALLOC_SERIAL_CPU = 44,     /* a serial number has the cpu from this bit on */
};
/* Bytes of one block at most. */
#define ALLOC_SIZE_MAX (UINT64_C(1) << 46)

/* Of V8: more bytes than one area has (it lies in a page of 256 KiB), and the origin of what its
 * collector allocates (AllocationOrigin::kGC of src/common/globals.h). */
enum { ALLOC_AREA_MAX = 1 << 20, ALLOC_BY_GC = 2 };

struct alloc_settings {
    uint64_t mean;     /* bytes, on average, between two samples */
    uint64_t burst;    /* the same of functions with ALLOC_BURST */
    uint64_t v8_burst; /* the same of those that are V8's, too */
    uint64_t round;    /* changes with these */
    uint64_t on;
};

/* Where a number is that a probe tells. */
enum { PLACE_CONSTANT, PLACE_REGISTER, PLACE_MEMORY };
struct alloc_place {
    uint8_t kind, size; /* PLACE_...; bytes */
    uint8_t is_signed, zero;
    uint32_t at;   /* offset of the register among the user's, as the kernel keeps them */
    int64_t value; /* the number, or what is added to the register for its address */
};

/* An allocator's own probe. */
struct alloc_usdt {
    uint64_t frees; /* only the block is told */
    struct alloc_place block, size, weight;
};

/* The code of a process's functions that are probed. */
struct alloc_code {
    uint64_t low, high; /* of all of them */
    uint64_t nr;
    uint64_t told; /* samples by probes of the allocator's own */
    struct {
        uint64_t start, end;
    } functions[ALLOC_FUNCTIONS];
};

struct alloc_pending {
    uint64_t serial, sp, out; /* out: address of the block's address; 0: it is returned */
};

struct alloc_block {
    uint64_t pid, address;
};

/* The area of a heap in which new objects are put side by side; its key is a struct alloc_block. */
struct alloc_area {
    uint64_t start, end;
};
struct alloc_heap {
    struct alloc_area area;
    uint64_t carried;   /* bytes that were allocated before it, and did not count */
    uint64_t is_copies; /* it was handed out in a collection */
};

/* How a process's V8 lays out the chunks of its heap: offsets, of unwind/v8/layout.h's fields. */
struct alloc_v8 {
    uint32_t known; /* whether this is: else its objects are not followed */
    uint32_t flags;
    uint32_t description, described; /* where its address is, unless it is the chunk itself (0) */
    uint32_t heap, marks;            /* in the description */
};

/* A sampled object of V8 that lives, as far as is known. */
struct alloc_object {
    uint64_t heap, address;
    uint32_t pid, tid; /* of the thread that allocated it */
};

/* A heap that collects garbage, by its thread (address 0), and by its process and address. */
struct alloc_collecting {
    uint64_t heap;
    uint64_t marked;    /* it is a full collection */
    uint64_t scavenged; /* its young objects have been looked at */
};

/* Flags of a chunk: its objects are young, and a collection has begun to copy them elsewhere, or
 * copies others into it. The same in all versions. */
enum { ALLOC_CHUNK_FROM = 8, ALLOC_CHUNK_TO = 16 };
#define ALLOC_CHUNK_MASK UINT64_C(0x3ffff)

/* The payload of a sample in the ring. */
struct alloc_sample {
    uint64_t serial, size, function;
    uint64_t mean; /* that was in force; with ALLOC_USDT: the bytes that the sample stands for */
};

#endif
