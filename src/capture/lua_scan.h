/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The Lua VMs of a live process: which of its mapped files hold a LuaJIT, and where the VMs are.
 * The process is read through /proc/PID/mem while it runs; it is never stopped.
 */
#ifndef CAPTURE_LUA_SCAN_H
#define CAPTURE_LUA_SCAN_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/luajit/vm.h"
#include "unwind/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- reading a process ------------------------------------------------------------------- */

struct process_memory;

/* Errors: no such process, not permitted (says the cure). */
int process_memory_open(pid_t pid, struct process_memory **ret, struct error *err);
void process_memory_close(struct process_memory *p);

/* Read bytes as they stand now; false: not mapped, or the process is gone or has executed another
 * program since. Any thread. */
bool process_memory_read(const struct process_memory *p, uint64_t address, void *to, size_t size);

/* The same for walkers; what it yields is PROVENANCE_STALE. Good as long as `p` is open. */
struct memory_layer process_memory_layer(struct process_memory *p);

/* ---- mappings ---------------------------------------------------------------------------- */

/* A line of /proc/PID/maps. */
struct process_map {
    uint64_t start, end, pgoff; /* bytes */
    uint64_t inode;
    uint32_t major, minor;
    uint32_t prot; /* PROT_* */
    bool shared;
    const char *path; /* "" for anonymous memory; in process_maps.text */
};

struct process_maps {
    VEC(struct process_map) maps;
    char *text;
};

int process_maps_read(pid_t pid, struct process_maps *ret, struct error *err);
void process_maps_free(struct process_maps *maps);

/* ---- VMs --------------------------------------------------------------------------------- */

/* A VM, and the main lua_State that stands before it. */
struct lua_scan_vm {
    struct luajit_vm vm;
    uint64_t main_L;
};

typedef VEC(struct lua_scan_vm) lua_scan_vm_list;
typedef VEC(struct luajit_blob) lua_scan_blob_list;
typedef VEC(struct memory_range) lua_scan_range_list;

/* Append all private memory of a process that is no file's and was ever written, read-only memory
 * and code included, in pieces of some MiB that overlap. Errors: as process_maps_read. */
int lua_scan_ranges(pid_t pid, lua_scan_range_list *ret, struct error *err);

/* Knows files it has looked into already, for all processes. */
struct lua_scan;
struct lua_scan *lua_scan_create(void); /* NULL when memory is out */
void lua_scan_free(struct lua_scan *s);
struct runtime_files *lua_scan_files(struct lua_scan *s);

/* What the files of a process hold (`*holds`: HOLDS_LUAJIT, HOLDS_V8), and its LuaJITs, appended
 * to `ret`; their layouts live as long as `s`. A file that looks like one and cannot be understood
 * is told by lua_scan_problem. Errors: as process_maps_read. */
int lua_scan_look(struct lua_scan *s, pid_t pid, unsigned *holds, lua_scan_blob_list *ret,
                  struct error *err);
/* The LuaJITs alone. */
int lua_scan_blobs(struct lua_scan *s, pid_t pid, lua_scan_blob_list *ret, struct error *err);

/* A search for the VMs of a process, in steps: all of its writable memory is read when there is a
 * LuaJIT, else only its list of mappings. */
struct lua_scan_job;
int lua_scan_begin(struct lua_scan *s, pid_t pid, struct lua_scan_job **ret, struct error *err);
/* Read about `budget` bytes on, and append what is found: 1: there is more to read, 0: that was
 * all, -1: memory is out. */
int lua_scan_step(struct lua_scan_job *job, uint64_t budget, lua_scan_vm_list *ret,
                  struct error *err);
void lua_scan_end(struct lua_scan_job *job);

/* The same in one go. */
int lua_scan_process(struct lua_scan *s, pid_t pid, lua_scan_vm_list *ret, struct error *err);

/* The main lua_State of a VM, which stands right before g; 0: there is none. */
uint64_t lua_scan_main_state(const struct memory *m, const struct luajit_vm *vm);

/* One line about a file whose LuaJIT could not be understood, each told once; NULL: no more. */
const char *lua_scan_problem(struct lua_scan *s);

#endif
