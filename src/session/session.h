/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes, threads, mappings over time, and what code stands where: the recording's world.
 *
 * session_apply() is called with every record that is not a sample, in time order, by one thread
 * at a time; session_context() between them. What a context refers to is immutable and may be used
 * by other threads until the context is released: an address space is copied on write, and only
 * when it really changes (an equal map is no event).
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/error.h"
#include "dso/dso.h"
#include "jitdump/jitdump.h"
#include "perfdata/perfdata.h"
#include "unwind/luajit/vm.h"
#include "unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping; the token of its code (frame.code) unless the frame's kind is FRAME_JIT. Later
 * mappings may have cut it: pgoff belongs to start. Lives as long as the context it was asked of.
 */
struct mapping {
    uint64_t start, end, pgoff;
    struct dso *dso;
    uint32_t prot, flags;
    const char *symbol; /* the whole mapping is this one function (KSYMBOL); else NULL */
};

struct session_options {
    const char *const *jitdumps; /* extra files to load (--jitdump) */
    size_t nr_jitdumps;
    const char *tmp_dir; /* where perf-PID.map files are; NULL: /tmp (under root and symfs) */
    const char *symfs;
    bool no_jit; /* neither jitdumps nor perf maps */
    bool force;  /* use perf maps that belong to another user, too */
};

struct session;
/* `pd`: where records come from that session_apply() is given, and what the recording says of its
 * clock and build ids; NULL: there is none, mappings come through session_map(). */
int session_create(const struct perfdata *pd, struct dsos *dsos,
                   const struct session_options *options, struct session **ret, struct error *err);
void session_free(struct session *s);

/* Fails only when memory is out; a record that is damaged is counted and passed over. */
int session_apply(struct session *s, const struct record *rec, struct error *err);

/* A mapping of a user process that no record told of: a core file's, a live process's. */
int session_map(struct session *s, const struct record_mmap *mm, uint64_t time, struct error *err);

/* The thread that a sample is of, and its process, as they were when it was taken. */
struct thread_context {
    uint32_t pid, tid;
    const char *comm;            /* at that time; "" before any; ":TID" when never known */
    struct address_space *space; /* counted reference, unless `borrowed` */
    const struct session *session;
    bool borrowed;
};
int session_context(struct session *s, uint32_t pid, uint32_t tid, struct thread_context *ret,
                    struct error *err);
/* The same, for a context that is released no later than `beside` (NULL: none) and may share its
 * reference. */
int session_context_beside(struct session *s, const struct thread_context *beside, uint32_t pid,
                           uint32_t tid, struct thread_context *ret, struct error *err);
void thread_context_release(struct thread_context *p);

/* Code of the context's process, mappings and jit functions, for the unwinder. */
struct codemap session_codemap(const struct thread_context *p);
/* What two contexts have in common, as long as one of them is held, when their codemap and memory
 * give the same at all times of the samples that they were made for. NULL: nothing. */
const void *session_context_key(const struct thread_context *p);
/* LuaJIT's interpreters in the context's process, for its walker; none where no code is generated.
 * Valid as long as the context. */
const struct luajit_blob *session_luajit(const struct thread_context *p, size_t *nr);
/* The V8 whose generated code the context's process may run; NULL: none, or no code is generated.
 */
const struct v8_layout *session_v8(const struct thread_context *p);
/* The first V8 among the files whose code is mapped, though it may not have generated any (it has
 * not begun, or runs without compilers); NULL: none. Looks into each file: not for each sample. */
const struct v8_layout *session_v8_of_files(const struct thread_context *p);
/* The interpreter that stands in a mapping; false: none. */
bool session_luajit_in(const struct mapping *m, struct luajit_blob *ret);
/* Read-only file-backed pages of the context's process. */
struct memory_layer session_memory(const struct thread_context *p);
/* The user mapping at `pc`; NULL: none. */
const struct mapping *session_mapping(const struct thread_context *p, uint64_t pc);
/* The first mapping that ends behind `address`; NULL: no more. */
const struct mapping *session_mapping_next(const struct thread_context *p, uint64_t address);
/* The kernel, module or BPF mapping at `pc`; NULL: none. In a kernel dso the address to resolve
 * symbols with is pc itself for DSO_KERNEL, pc - start + pgoff for DSO_KMODULE. Never changes
 * once returned. */
const struct mapping *session_kernel_mapping(const struct session *s, uint64_t pc, uint64_t time);
/* The same of the guests' kernels. */
const struct mapping *session_guest_mapping(const struct session *s, uint64_t pc, uint64_t time);
/* The jit function at `pc`, even inside an ELF file's mapping (V8 lists the builtins that stand in
 * the node binary): a name where the ELF has none. NULL: none. */
const struct jit_function *session_jit_function(const struct thread_context *p, uint64_t pc,
                                                uint64_t time);
/* What each jitdump and perf map of the context's process has there: up to `max`. How many. */
size_t session_jit_functions(const struct thread_context *p, uint64_t pc, uint64_t time,
                             const struct jit_function **ret, size_t max);

/* A jitdump or perf map that was loaded; index from 0. False: no more. */
struct session_jit_file {
    const char *path; /* where it was found */
    const char *name; /* where the recording says it is; of an added one the path */
    bool from_map;
};
bool session_jit_file(const struct session *s, size_t index, struct session_jit_file *ret);

/* What went wrong or deserves a line on stderr: e.g. a jitdump whose clock does not match. Index
 * from 0; NULL: no more. */
const char *session_warning(const struct session *s, size_t index);

struct session_stats {
    uint64_t processes, threads; /* seen in all */
    uint64_t maps;               /* mappings that changed an address space */
    uint64_t maps_equal;         /* mappings equal to what was there */
    uint64_t jit_functions, jit_files;
    uint64_t text_pokes;  /* PERF_RECORD_TEXT_POKE: counted, not applied */
    uint64_t records_bad; /* damaged, passed over */
};
struct session_stats session_stats(const struct session *s);

#endif
