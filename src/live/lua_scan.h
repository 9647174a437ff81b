/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the Lua VMs of a live process: which of its mapped files contain a LuaJIT, and where the VMs
 * are. The process is read through /proc/PID/mem while it runs; it is never stopped.
 */
#ifndef LIVE_LUA_SCAN_H
#define LIVE_LUA_SCAN_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/luajit/vm.h"
#include "base/process_maps.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- reading a process ------------------------------------------------------------------- */

struct process_memory;

/* Open the memory of a process. Errors: no such process; not permitted (the message names the
 * cure). */
int process_memory_open(pid_t pid, struct process_memory **ret, struct error *err);
void process_memory_close(struct process_memory *p);

/* Read bytes as they are now. Returns false when they are not mapped, or when the process is gone
 * or has executed another program since. May be called from any thread. */
bool process_memory_read(const struct process_memory *p, uint64_t address, void *to, size_t size);

/* The same memory as a layer for walkers; all bytes are PROVENANCE_STALE. Valid as long as `p` is
 * open. */
struct memory_layer process_memory_layer(struct process_memory *p);

/* ---- VMs --------------------------------------------------------------------------------- */

/* A VM, and the main lua_State that lies before it in memory. */
struct lua_scan_vm {
    struct luajit_vm vm;
    uint64_t main_L;
};

typedef VEC(struct lua_scan_vm) lua_scan_vm_list;
typedef VEC(struct luajit_blob) lua_scan_blob_list;
typedef VEC(struct memory_range) lua_scan_range_list;

/* Append all private memory of a process that belongs to no file and was ever written, including
 * read-only memory and code, in overlapping pieces of about 256 KiB. Errors: as
 * process_maps_read. */
int lua_scan_ranges(pid_t pid, lua_scan_range_list *ret, struct error *err);

/* The same for the memory that may hold a VM: writable memory that is private, of files too. */
int lua_scan_heap(pid_t pid, lua_scan_range_list *ret, struct error *err);

struct runtime_files;

/* Returns whether memory of that name, if it is executable, may hold generated code: it is no
 * file's, or that of a file in memory, or of a deleted one. */
bool lua_scan_is_generated(const char *path);

/* Find out what the files of a process hold (`*holds`: bits, see runtime_files.h), and append its
 * LuaJITs to `ret` (NULL: not wanted); their layouts live as long as `files`. runtime_files_problem
 * reports a file that looks like LuaJIT but cannot be understood. Errors: as process_maps_read. */
int lua_scan_look(struct runtime_files *files, pid_t pid, unsigned *holds, lua_scan_blob_list *ret,
                  struct error *err);
/* As lua_scan_look(), for the LuaJITs alone. */
int lua_scan_blobs(struct runtime_files *files, pid_t pid, lua_scan_blob_list *ret,
                   struct error *err);

/* A search for the VMs of a process, in steps. It reads all writable memory of the process when
 * there is a LuaJIT, else only its list of mappings. */
struct lua_scan_job;
int lua_scan_begin(struct runtime_files *files, pid_t pid, struct lua_scan_job **ret,
                   struct error *err);
/* Read about `budget` more bytes, and append the VMs found. Returns 1 when there is more to read, 0
 * at the end, -1 when memory is out. */
int lua_scan_step(struct lua_scan_job *job, uint64_t budget, lua_scan_vm_list *ret,
                  struct error *err);
void lua_scan_end(struct lua_scan_job *job);
/* Returns the bytes of mappings that are too large to be searched, before Linux 6.7. */
uint64_t lua_scan_left_out(const struct lua_scan_job *job);

/* Do the whole search in one call. */
int lua_scan_process(struct runtime_files *files, pid_t pid, lua_scan_vm_list *ret,
                     struct error *err);

/* Returns the main lua_State of a VM, which lies right before g; 0: there is none. */
uint64_t lua_scan_main_state(const struct memory *m, const struct luajit_vm *vm);

#endif
