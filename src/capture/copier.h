/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The eBPF copier, loaded and wired: it runs on the sampled events, and puts a copy of the Lua
 * stacks of the sampled thread into the cpu's ring right before each sample (vmstack.bpf.c says
 * how, perfdata/vmevent.h what stands there).
 *
 *     copier_create             the program is in the kernel
 *     copier_open_cpu           for each ring: its own event, redirected into it
 *     copier_attach             for each sampling event, before the target runs
 *     copier_set, copier_drop   which VMs a process has, whenever that is learnt
 */
#ifndef CAPTURE_COPIER_H
#define CAPTURE_COPIER_H

#include "base/error.h"
#include "capture/lua_scan.h"
#include "capture/vmstack.h"
#include "perfdata/perfdata.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct copier;

/* Load the program: vmstack_task where the kernel's memory can be read, else vmstack_plain.
 * `stack`: how many bytes of the native stack the events copy that it will run on; of processes
 * without a VM it copies what stands behind holes in there (0: nothing). Errors: bpf_load()'s. */
int copier_create(uint32_t stack, struct copier **ret, struct error *err);
void copier_free(struct copier *c);

/* What it cannot do on this kernel though it is loaded, with the cure, for one line on stderr;
 * NULL: nothing. */
const char *copier_limit(const struct copier *c);

/* Which program it is, and how many instructions the verifier went through, for the user. */
const char *copier_program(const struct copier *c);

/* The attr of the copier's event. */
struct perf_event_attr copier_attr(bool use_clockid, int clockid);

/* Open the event of one cpu and redirect it into that cpu's ring, whose events must have the same
 * clock. The event's id is kept. */
int copier_open_cpu(struct copier *c, int cpu, int ring_fd, const struct perf_event_attr *attr,
                    struct error *err);

/* Ids of the events opened so far, as long as the copier lives. */
const uint64_t *copier_ids(const struct copier *c, size_t *nr);

/* Run on this sampling event and on what it is inherited by. */
int copier_attach(struct copier *c, int sampling_fd, struct error *err);

/* For events that another program has opened: write through its bpf-output event of that cpu; run
 * on its sampling event, until copier_free() (Linux 5.15). The descriptors stay the caller's. */
int copier_use_output(struct copier *c, int cpu, int fd, struct error *err);
int copier_link(struct copier *c, int sampling_fd, struct error *err);

/* What a process has: VMs, and LuaJITs, whose other VMs are copied when the sampled thread's
 * DISPATCH register names them (LuaJIT 2.1; in the interpreter and in traces). */
struct copier_vms {
    const struct lua_scan_vm *vms;
    size_t nr;
    const struct luajit_blob *blobs;
    size_t nr_blobs;
};

/* The VMs of a process, in place of what was known; a process with none is one whose samples are to
 * say so. More than VMSTACK_VMS are cut off (`*ret_over` counts them; may be NULL). Fails when the
 * table is full (ERROR_UNSUPPORTED). */
int copier_set(struct copier *c, pid_t pid, const struct copier_vms *of, size_t *ret_over,
               struct error *err);
/* Forget a process (it has exited). */
void copier_drop(struct copier *c, pid_t pid);

/* Sums over all cpus since the start; zeros when they cannot be read. */
struct vmstack_counters copier_counters(const struct copier *c);

#endif
