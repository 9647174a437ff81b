/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of a process that allocate memory: where they are, and which of their arguments
 * say what. The reader finds them (reader.h), by the symbols of the process's files, and tells the
 * recorder, which probes them (alloc.h).
 *
 * Of several files that define malloc, only the first one's functions are taken: it is what a
 * linker takes. The program itself comes first, the C library last. What else allocates by
 * functions of its own names (je_malloc, V8) is taken wherever it is.
 *
 * An allocator may have probes of its own (alloc_usdt.h), which tell more, at less cost. The
 * functions of its file are then marked, so that they are probed only if these do not speak.
 */
#ifndef LIVE_ALLOC_FUNCTIONS_H
#define LIVE_ALLOC_FUNCTIONS_H

#include "base/error.h"
#include "live/alloc_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One function in one mapping of a process. */
struct alloc_function {
    uint64_t start, end;   /* its code, addresses in the process; `end` may be an estimate */
    uint64_t map, map_end; /* the mapping that it is in */
    uint64_t offset;       /* in the file: of the instruction that is to be probed */
    uint64_t shape;        /* ALLOC_..., as in a probe's cookie (alloc_layout.h) */
    uint64_t semaphore;    /* offset in the file; with ALLOC_USDT, and if there is one */
    struct alloc_usdt usdt;
    uint64_t inode;        /* of the file */
    uint32_t major, minor; /* of its device */
};

/* Whether V8's objects are followed. */
enum alloc_v8_state {
    ALLOC_V8_NONE, /* there is no V8 */
    ALLOC_V8_KNOWN,
    ALLOC_V8_STRIPPED, /* the functions are not found that it calls in collections */
    ALLOC_V8_NEW,      /* its version is not known: only its buffers are followed */
};

struct alloc_v8_process {
    struct alloc_v8 layout;
    uint32_t state;     /* enum alloc_v8_state */
    int32_t version[2]; /* major, minor */
    uint32_t reserved;
};

struct alloc_functions {
    uint32_t pid, nr;
    struct alloc_v8_process v8;
    struct alloc_function at[ALLOC_FUNCTIONS];
};

/* Bytes of a struct that has so many functions: what is handed over. */
static inline size_t alloc_functions_size(uint32_t nr)
{
    return offsetof(struct alloc_functions, at) + nr * sizeof(struct alloc_function);
}

struct dsos;
struct lua_scan_vm;
/* Find the allocators that a process's LuaJITs call (lua_Alloc), by `nr` of its VMs. As
 * alloc_functions_find(). */
int alloc_functions_of_luajit(pid_t pid, const struct lua_scan_vm *vms, size_t nr,
                              struct dsos *dsos, struct alloc_functions *ret, struct error *err);

/* What is known of files: each file's symbols are read once. NULL: memory is out. */
struct alloc_files;
struct alloc_files *alloc_files_create(void);
void alloc_files_free(struct alloc_files *files);

/* Find the functions of a process. One that has ended or that cannot be read has none. Returns -1
 * when memory is out. */
int alloc_functions_find(pid_t pid, struct alloc_files *files, struct dsos *dsos,
                         struct alloc_functions *ret, struct error *err);

#endif
