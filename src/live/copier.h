/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load and connect the eBPF copier. The copier runs on the sampled events. Right before each
 * sample, it writes a copy of the Lua stacks of the sampled thread into the cpu's ring
 * (vmstack.bpf.c says how; perfdata/vmevent.h says in which format).
 *
 *     copier_create             load the program into the kernel
 *     copier_open_cpu           for each ring: open its own event, redirected into the ring
 *     copier_attach             for each sampling event, before the target runs
 *     copier_set, copier_drop   set or forget a process's VMs, as soon as they are known
 *     copier_set_lua            the same for plain Lua: where its code is
 *     copier_set_v8             the same for a thread with V8
 */
#ifndef LIVE_COPIER_H
#define LIVE_COPIER_H

#include "base/error.h"
#include "live/bpf_load.h"
#include "live/lua_scan.h"
#include "live/vmstack.h"
#include "perfdata/perfdata.h"
#include "unwind/lua/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct copier;

/* Load the program: vmstack_task where eBPF may read kernel memory, else vmstack_plain. `stack`:
 * how many bytes of the native stack are copied by the events that the program will run on. For
 * processes without a VM, the program copies the part of these bytes that lies behind holes (0:
 * nothing). `tables`: bits of what will be recorded, too. Errors: as bpf_load().
 */
enum { COPIER_OFF_CPU = 1 /* off_cpu.h */, COPIER_ALLOC = 2 /* alloc.h */ };
int copier_create(uint32_t stack, unsigned tables, struct copier **ret, struct error *err);
void copier_free(struct copier *c);

/* Returns what the loaded program cannot do on this kernel, with the cure, as one line for stderr;
 * NULL: no limit. */
const char *copier_limit(const struct copier *c);

/* Returns which program was loaded, and how many instructions the verifier processed, as text for
 * the user. */
const char *copier_program(const struct copier *c);

/* Returns the attr of the copier's event. */
struct perf_event_attr copier_attr(bool use_clockid, int clockid);

/* Returns the attr of another bpf-output event whose records become samples: with stacks, clock and
 * wake-ups as `first` has them, an address and a period, and without the user's callchain. */
struct perf_event_attr copier_sample_attr(const struct perf_event_attr *first);

/* Open the copier's event of one cpu and redirect it into that cpu's ring, whose events must have
 * the same clock. The copier keeps the event's id. */
int copier_open_cpu(struct copier *c, int cpu, int ring_fd, const struct perf_event_attr *attr,
                    struct error *err);

/* Returns the ids of the events opened so far; valid as long as the copier lives. */
const uint64_t *copier_ids(const struct copier *c, size_t *nr);

/* Run the program on this sampling event, which has this attr, and on the events that inherit from
 * it. At a tracepoint or probe it runs at each hit. Fails for a tracepoint where the kernel's
 * structures cannot be read (copier_limit()). */
int copier_attach(struct copier *c, int sampling_fd, const struct perf_event_attr *attr,
                  struct error *err);

/* For events that another program has opened. copier_use_output makes the copier write through that
 * program's bpf-output event of the cpu. copier_link runs it on that program's sampling event,
 * until copier_free() (Linux 5.15). The caller keeps the descriptors. */
int copier_use_output(struct copier *c, int cpu, int fd, struct error *err);
int copier_link(struct copier *c, int sampling_fd, struct error *err);

/* What a process has: known VMs, and LuaJITs. Other VMs of these LuaJITs are copied when the
 * sampled thread's DISPATCH register names them (LuaJIT 2.1; in the interpreter and in traces). */
struct copier_vms {
    const struct lua_scan_vm *vms;
    size_t nr;
    const struct luajit_blob *blobs;
    size_t nr_blobs;
};

/* Set the VMs of a process, in place of those set before. If there are none, the process's samples
 * will say so. Of more VMs than VMSTACK_VMS the others are found by the sample's registers only
 * (`*ret_over` counts them; may be NULL). Fails when the table is full (ERROR_UNSUPPORTED). */
int copier_set(struct copier *c, pid_t pid, const struct copier_vms *of, size_t *ret_over,
               struct error *err);
/* A plain Lua in a process. */
struct copier_lua {
    const struct lua_layout *layout;
    uint64_t bias; /* address in the process minus address in the file */
};

/* Set the builds of plain Lua in a process, in place of those set before; builds beyond
 * VMSTACK_LUA_BUILDS are left out. The program finds their VMs and states by itself. Fails when the
 * table is full (ERROR_UNSUPPORTED). */
int copier_set_lua(struct copier *c, pid_t pid, const struct copier_lua *of, size_t nr,
                   struct error *err);
/* Give a process that was forked the builds of its parent, if the parent has any. Fails as
 * copier_set_lua(). */
int copier_fork_lua(struct copier *c, pid_t parent, pid_t pid, struct error *err);
/* Set the V8 of a thread: its chains of awaiting functions are copied from now on. `root`: what the
 * thread's root register has in V8's code. A thread is forgotten when many others have come since.
 * Does nothing where the version's chains are not known. */
struct v8_layout;
void copier_set_v8(struct copier *c, pid_t pid, pid_t tid, const struct v8_layout *layout,
                   uint64_t root);
/* Forget a process that has exited. */
void copier_drop(struct copier *c, pid_t pid);

/* For off_cpu.c: open a bpf-output event of a cpu, redirected into that cpu's ring. `what` names it
 * in errors. Returns its descriptor, which the caller closes, and its id; -1: refused. */
int copier_open_output(const struct perf_event_attr *attr, int cpu, int ring_fd, const char *what,
                       uint64_t *ret_id, struct error *err);
/* Likewise: load further programs of the copier's object, which share its maps. The copier
 * must outlive them. Fails where the kernel's structures cannot be read (copier_limit()). */
int copier_load(struct copier *c, const char *program, const char *const *more,
                struct bpf_loaded *ret, struct error *err);
/* The same for one program that is attached in another way than its section names (enum
 * bpf_attach_type). */
int copier_load_as(struct copier *c, const char *program, int attach_type, struct bpf_loaded *ret,
                   struct error *err);
/* Whether this program is in another pid namespace than the kernel's first one, whose ids eBPF
 * programs see; `ret`: that namespace's file (may be NULL). */
bool copier_namespace(struct stat *ret);
/* Returns the descriptor of a map; negative: there is none of this name. */
int copier_map(const struct copier *c, const char *name);

/* For another process that sets VMs from now on, in place of this one or of one that was lost.
 * copier_renew: call before that process is created; what was set before stays, and all that it
 * sets is newer. copier_maps: the descriptors that it needs (bpf_maps_need_capability()). */
enum { COPIER_MAPS = 4 };
void copier_renew(struct copier *c);
void copier_maps(const struct copier *c, int ret[COPIER_MAPS]);

/* Returns the sums over all cpus since the start; all zeros when they cannot be read. */
struct vmstack_counters copier_counters(const struct copier *c);

#endif
