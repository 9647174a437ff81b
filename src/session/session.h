/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes, threads, mappings over time, and the code at each address, as a recording describes
 * them.
 *
 * Call session_apply() with every record that is not a sample, in time order, by one thread at a
 * time; call session_context() between these calls. What a context refers to is immutable, and
 * other threads may use it until the context is released: an address space is copied on write, and
 * only if it really changes (a mapping that equals the present one changes nothing).
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/error.h"
#include "dso/dso.h"
#include "jitdump/jitdump.h"
#include "perfdata/perfdata.h"
#include "unwind/runtime.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping. It is also the token of its code (frame.code), unless the frame's kind is FRAME_JIT.
 * Later mappings may have cut it: pgoff belongs to start. It lives as long as the context that it
 * was looked up in. */
struct mapping {
    uint64_t start, end, pgoff;
    struct dso *dso;
    uint32_t prot, flags;
    const char *symbol; /* the whole mapping is this one function (KSYMBOL); else NULL */
};

struct memory_log;
struct snapshots;
struct session_lists;
struct session_options {
    const char *const *jitdumps; /* extra files to load (--jitdump) */
    size_t nr_jitdumps;
    const char *tmp_dir; /* where perf-PID.map files are; NULL: /tmp (under root and symfs) */
    const char *symfs;
    bool no_jit; /* neither jitdumps nor perf maps */
    bool force;  /* use perf maps that belong to other users as well */
    /* These have the perf maps and jitdumps that were kept while their processes lived, and what is
     * known of moved text. NULL: none. */
    const struct memory_log *log;
    const struct snapshots *snapshots;
    struct session_lists *lists; /* gets what records tell of these (lists.h); NULL: nobody asks */
};

struct session;
/* `pd` is where the records for session_apply() come from; it also has the recording's clock and
 * build ids. NULL: there is no recording, and mappings come through session_map(). */
int session_create(const struct perfdata *pd, struct dsos *dsos,
                   const struct session_options *options, struct session **ret, struct error *err);
void session_free(struct session *s);

/* Apply one record. Fails only when out of memory; a damaged record is counted and ignored. */
int session_apply(struct session *s, const struct record *rec, struct error *err);

/* Add a mapping of a user process that no record describes: of a core file or a live process. */
int session_map(struct session *s, const struct record_mmap *mm, uint64_t time, struct error *err);

/* Returns the PID of ".../jit-PID.dump", the name of a mapping that announces a jitdump; 0: the
 * name is another. */
uint32_t session_announced_pid(const char *name);

/* The thread of a sample and its process, as they were when the sample was taken. */
struct thread_context {
    uint32_t pid, tid;
    const char *comm;            /* at that time; "" before any; ":TID" when never known */
    struct address_space *space; /* counted reference, unless `borrowed` */
    const struct session *session;
    bool borrowed;
};
int session_context(struct session *s, uint32_t pid, uint32_t tid, struct thread_context *ret,
                    struct error *err);
/* The same, for a context that is released no later than `beside` (NULL: none), and that may share
 * the reference of `beside`. */
int session_context_beside(struct session *s, const struct thread_context *beside, uint32_t pid,
                           uint32_t tid, struct thread_context *ret, struct error *err);
/* Get another reference of the same, to be released by itself. Any thread may call it. */
struct thread_context thread_context_hold(const struct thread_context *p);
void thread_context_release(struct thread_context *p);

/* Returns the code of the context's process for the unwinder: its mappings and jit functions. */
struct codemap session_codemap(const struct thread_context *p);
/* Returns a key that two contexts share if their codemap and memory give the same results at all
 * times of the samples that the contexts were made for. The key is valid as long as one of these
 * contexts is held. NULL: there is no such key. */
const void *session_context_key(const struct thread_context *p);
/* Returns where a runtime is mapped in the context's process, up to RUNTIME_INSTANCES_MAX times;
 * none if the process has no generated code: whoever owns a pc then follows from the codemap alone.
 * Valid as long as the context. */
const struct runtime_instance *session_runtime(const struct thread_context *p,
                                               const struct runtime *rt, size_t *nr);
/* Get the runtime in one mapping. Returns false if there is none. */
bool session_runtime_in(const struct mapping *m, const struct runtime *rt,
                        struct runtime_instance *ret);
/* Get the first place where a runtime is mapped, even if it has not generated any code (it has not
 * started, or runs without compilers). Returns false if there is none. This looks into each file:
 * do not call it for each sample. */
bool session_runtime_of_files(const struct thread_context *p, const struct runtime *rt,
                              struct runtime_instance *ret);
/* The runtimes that are mapped in a process, and the VMs that run in them. */
struct session_vms {
    VEC(struct runtime_instance) instances;       /* those of one runtime are neighbours */
    runtime_vm_list vms;                          /* refer to `instances` */
    VEC(struct memory_range) writable, anonymous; /* as in struct runtime_memory */
};
/* Find them in the context's process, which stands still: reads all its writable memory when there
 * is a runtime whose walks must know VMs. `ret` is empty at first; free it with session_vms_free(),
 * in any case. Layouts live as long as the context. Returns -1 when memory is out. */
int session_vms_find(const struct thread_context *p, const struct memory *m,
                     struct session_vms *ret, struct error *err);
void session_vms_free(struct session_vms *v);
/* Returns all of the process's memory as runtimes want it. Valid as long as both. */
struct runtime_memory session_vms_memory(const struct session_vms *v, const struct memory *m);
/* Append the VMs whose objects a census can count (unwind/census.h), after session_vms_find(). They
 * refer to the instances of `v`. */
int session_vms_census(const struct memory *m, const struct session_vms *v, runtime_vm_list *ret,
                       struct error *err);
/* Tell `add` of the objects of all these runtimes (struct runtime's `list_objects`). */
int session_vms_list_objects(const struct memory *m, const struct session_vms *v,
                             runtime_add_object *add, void *context, struct error *err);
/* Returns the layer with the read-only file-backed pages of the context's process. */
struct memory_layer session_memory(const struct thread_context *p);
/* Returns the user mapping at `pc`; NULL: none. */
const struct mapping *session_mapping(const struct thread_context *p, uint64_t pc);
/* Returns the first mapping that ends above `address`; NULL: no more. */
const struct mapping *session_mapping_next(const struct thread_context *p, uint64_t address);
/* Returns the kernel, module or BPF mapping at `pc`; NULL: none. To resolve symbols in a kernel
 * dso, use pc itself for DSO_KERNEL, and pc - start + pgoff for DSO_KMODULE. The mapping never
 * changes once it is returned. */
const struct mapping *session_kernel_mapping(const struct session *s, uint64_t pc, uint64_t time);
/* The same for the guests' kernels. */
const struct mapping *session_guest_mapping(const struct session *s, uint64_t pc, uint64_t time);
/* Returns the jit function at `pc`, even inside an ELF file's mapping: it gives a name where the
 * ELF file has none (V8 lists the builtins that are inside the node binary). NULL: none. */
const struct jit_function *session_jit_function(const struct thread_context *p, uint64_t pc,
                                                uint64_t time);
/* Get the function that each jitdump and perf map of the context's process has at `pc`, up to
 * `max`. Returns how many. */
size_t session_jit_functions(const struct thread_context *p, uint64_t pc, uint64_t time,
                             const struct jit_function **ret, size_t max);

/* A jitdump or perf map that was loaded. `index` counts from 0. Returns false when there are no
 * more. */
struct session_jit_file {
    const char *path; /* where it was found */
    const char *name; /* where the recording says it is; of an added file, its path */
    bool from_map;
    uint64_t device, inode; /* of the file that was loaded: another one may be there by now */
};
bool session_jit_file(const struct session *s, size_t index, struct session_jit_file *ret);

/* Returns a line for stderr about a problem: e.g. a jitdump whose clock does not match. `index`
 * counts from 0. NULL: no more. */
const char *session_warning(const struct session *s, size_t index);

struct session_stats {
    uint64_t processes, threads; /* all that were seen */
    uint64_t maps;               /* mappings that changed an address space */
    uint64_t maps_equal;         /* mappings equal to those already there */
    uint64_t jit_functions, jit_files;
    uint64_t text_pokes;  /* PERF_RECORD_TEXT_POKE: counted, not applied */
    uint64_t records_bad; /* damaged and ignored */
};
struct session_stats session_stats(const struct session *s);

#endif
