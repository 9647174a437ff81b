/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The file format of allocation traces, which the preload library writes (src/alloc/preload) and
 * trace.h reads. All numbers are little-endian.
 *
 * A file is a struct trace_header in a block of TRACE_BLOCK bytes, then chunks up to the end of the
 * file, or up to a place without TRACE_CHUNK_MAGIC (room that was reserved and not used). The
 * library maps a chunk while it writes it, so the file is complete up to the last call however the
 * process ends.
 *
 * A chunk is a struct trace_chunk and `used` bytes of records. Its records are of one writer, in
 * the order of their time; a writer's chunks are in order in the file. A thread has one writer at a
 * time. When the thread ends, another one may take the writer over (TRACE_THREAD), so there are as
 * many writers as threads lived at once.
 *
 * A record is, without gaps:
 *
 *     u16  bits 0-3 the operation, 4-7 bytes of TIME, 8-11 bytes of ADDRESS, 12-15 bytes of SIZE
 *     u16  TRACE_REALLOC and TRACE_ALIGNED only: bits 0-3 bytes of DURATION, 4-7 bytes of OLD,
 *          8-15 the logarithm to the base 2 of the alignment (TRACE_ALIGNED)
 *     TIME, ADDRESS, SIZE, DURATION, OLD: numbers of 0 to 8 bytes
 *
 *     TIME      ticks since the last record of the chunk, or since the chunk's own `ticks`
 *     ADDRESS   of the result, of TRACE_FREE the block; coded as below; no bytes: NULL
 *     SIZE      bytes that were asked for; of TRACE_THREAD the thread's number, from 0
 *     DURATION  of TRACE_REALLOC: ticks from the call to the result. TIME is that of the call, and
 *               the next record's TIME counts from the result
 *     OLD       of TRACE_REALLOC: the old block, coded as an address; no bytes: NULL
 *
 * An address is coded as the difference from the last address of the chunk (from 0 in the
 * beginning), each rotated right by 3 bits, because blocks are aligned. The difference d is stored
 * as d << 1 ^ d >> 63, so that small ones of either sign take few bytes.
 *
 * A block's time is taken before it is freed and after it was allocated: so a block is never
 * allocated by one thread before another thread's free of it, although the threads do not wait for
 * each other.
 */
#ifndef ALLOC_TRACE_FORMAT_H
#define ALLOC_TRACE_FORMAT_H

#include <stdint.h>

#define TRACE_MAGIC "LJALLOC"
#define TRACE_CHUNK_MAGIC UINT32_C(0x4b4e4843) /* "CHNK" */

enum {
    TRACE_VERSION = 1,
    TRACE_BLOCK = 4096,         /* chunks begin at multiples of it */
    TRACE_CHUNK_MIN = 16 << 10, /* bytes of a writer's first chunk; each is twice as large */
    TRACE_CHUNK_MAX = 1 << 20,  /* as the one before, up to this */
    TRACE_RECORD_MAX = 44,      /* bytes */
    TRACE_CLOCK_CALLS = 64,     /* while there is one thread, the clock is read every so many */
};

enum trace_operation {
    TRACE_NONE,
    TRACE_MALLOC,
    TRACE_CALLOC,
    TRACE_REALLOC, /* and reallocarray */
    TRACE_FREE,    /* of a block; free(NULL) is not recorded */
    TRACE_ALIGNED, /* aligned_alloc, posix_memalign, memalign, valloc, pvalloc */
    TRACE_THREAD,  /* the records that follow are of this thread */
    TRACE_OPERATIONS,
};

enum trace_flags {
    TRACE_FORKED = 1,   /* the process was forked from a traced one: its first blocks are unknown */
    TRACE_OWN_NEW = 2,  /* operator new is the allocator's own, so its calls were not seen */
    TRACE_REPLACED = 4, /* malloc is not the C library's */
};

struct trace_header {
    char magic[8];
    uint32_t version;
    uint32_t flags;
    uint32_t pid, parent;
    uint64_t run;                 /* equal for all processes of one `ljperf alloc-trace` */
    uint64_t ticks, ns;           /* both clocks in the beginning; ns: CLOCK_MONOTONIC */
    uint64_t lost_full;           /* calls that were not recorded: no room could be had */
    uint64_t lost_within;         /* the same: from a signal handler that came within a record */
    uint64_t last_ticks, last_ns; /* both clocks at the newest chunk or at the exit */
    uint32_t full_errno;          /* why no room could be had, the last time */
    uint32_t threads;             /* threads with calls */
    uint32_t children_failed;     /* forked processes that could not begin their own trace */
    uint32_t unused;
    char program[256]; /* its path, with a NUL */
};

struct trace_chunk {
    uint32_t magic;
    uint32_t writer; /* from 0 */
    uint32_t size;   /* bytes, with this header: a multiple of TRACE_BLOCK */
    uint32_t used;   /* bytes of records; written after each record */
    uint64_t ticks;  /* from which the first record's TIME counts */
    uint64_t unused;
};

#endif
