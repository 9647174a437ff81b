/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The Lua VMs of a live process: which of its mapped files hold a LuaJIT, and where the VMs are.
 * The process is read through /proc/PID/mem while it runs; it is never stopped.
 */
#ifndef CAPTURE_VMSCAN_H
#define CAPTURE_VMSCAN_H

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

/* The same for walkers; what it yields is PROVENANCE_IMAGE. Good as long as `p` is open. */
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
struct vmscan_vm {
    struct luajit_vm vm;
    uint64_t main_L;
};

typedef VEC(struct vmscan_vm) vmscan_vm_list;
typedef VEC(struct luajit_blob) vmscan_blob_list;
typedef VEC(struct memory_range) vmscan_range_list;

/* Append all private memory of a process that is no file's and was ever written, read-only memory
 * and code included, in pieces of some MiB that overlap. Errors: as process_maps_read. */
int vmscan_ranges(pid_t pid, vmscan_range_list *ret, struct error *err);

/* Knows files it has looked into already, for all processes. */
struct vmscan;
struct vmscan *vmscan_create(void); /* NULL when memory is out */
void vmscan_free(struct vmscan *s);
struct vmfiles *vmscan_files(struct vmscan *s);

/* What the files of a process hold (`*holds`: VMFILE_LUAJIT, VMFILE_V8), and its LuaJITs, appended
 * to `ret`; their layouts live as long as `s`. A file that looks like one and cannot be understood
 * is told by vmscan_problem. Errors: as process_maps_read. */
int vmscan_look(struct vmscan *s, pid_t pid, unsigned *holds, vmscan_blob_list *ret,
                struct error *err);
/* The LuaJITs alone. */
int vmscan_blobs(struct vmscan *s, pid_t pid, vmscan_blob_list *ret, struct error *err);

/* A search for the VMs of a process, in steps: all of its writable memory is read when there is a
 * LuaJIT, else only its list of mappings. */
struct vmscan_job;
int vmscan_begin(struct vmscan *s, pid_t pid, struct vmscan_job **ret, struct error *err);
/* Read about `budget` bytes on, and append what is found: 1: there is more to read, 0: that was
 * all, -1: memory is out. */
int vmscan_step(struct vmscan_job *job, uint64_t budget, vmscan_vm_list *ret, struct error *err);
void vmscan_end(struct vmscan_job *job);

/* The same in one go. */
int vmscan_process(struct vmscan *s, pid_t pid, vmscan_vm_list *ret, struct error *err);

/* The main lua_State of a VM, which stands right before g; 0: there is none. */
uint64_t vmscan_main_state(const struct memory *m, const struct luajit_vm *vm);

/* One line about a file whose LuaJIT could not be understood, each told once; NULL: no more. */
const char *vmscan_problem(struct vmscan *s);

#endif
