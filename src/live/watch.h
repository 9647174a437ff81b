/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watches: how the recorder looks at running processes with a runtime, while their samples come.
 * The table (watch.c) has a row for each runtime that needs a watch of its own; all others have
 * runtime_watch.h. LuaJIT's (lua_watch.h) is not in it: process_look.c drives it, together with
 * the eBPF copier.
 */
#ifndef LIVE_WATCH_H
#define LIVE_WATCH_H

#include "dso/dso.h"
#include "live/object_log.h"
#include "perfdata/perfdata.h"
#include "session/recorded_memory.h"
#include "unwind/runtime.h"

struct copier;

/* What a watch works with; outlives it. */
struct watch_means {
    const struct runtime *runtime; /* NULL: none; generated code is kept */
    struct dsos *dsos;
    struct unwinder *unwinder;
    struct log_sink sink;
    /* Is told of threads with V8; what it points to is NULL as long as there is none. */
    struct copier *const *copier;
};

/* A kind of watch. `all` is the watch of all processes with the runtime. */
struct watch_kind {
    /* Age in ns after which a sample is not walked any more. */
    uint64_t late;
    /* `means` is copied. Returns NULL when memory is out. */
    void *(*create)(const struct watch_means *means);
    void (*free)(void *all);
    /* Walk a sample of a process that has the runtime mapped. `copy`: the vmstack that came with
     * it; NULL: none. */
    int (*sample)(void *all, const struct sample *s, const struct vmstack *copy, struct error *err);
    /* Executable memory without a file was mapped. */
    void (*mapped)(void *all, uint32_t pid);
    /* A file was mapped executable: walks must step through it, and it may hold the runtime, too.
     * NULL: the watch reads the mappings again by itself. */
    void (*mapped_file)(void *all, uint32_t pid);
    /* The process has ended, or executes another program. */
    int (*end)(void *all, uint32_t pid, struct error *err);
    /* object_log_pass(), object_log_flush(), object_log_rewrite() of all processes. */
    int (*pass)(void *all, size_t budget, struct error *err);
    int (*flush)(void *all, struct error *err);
    void (*rewrite)(void *all);
};

/* The watches of all runtimes, as one. */
struct watches;
/* `means`: its `runtime` is not used. Returns NULL when memory is out. */
struct watches *watches_create(const struct watch_means *means);
void watches_free(struct watches *w); /* may be NULL */
/* Walk a sample by the watches of the runtimes that its process holds. `copy`: see above; `holds`:
 * bits, see runtime_files.h; `age`: ns since the sample was taken. */
int watches_sample(struct watches *w, const struct sample *s, const struct vmstack *copy,
                   unsigned holds, uint64_t age, struct error *err);
/* The same as in struct watch_kind, for all of them. */
void watches_mapped(struct watches *w, uint32_t pid);
void watches_mapped_file(struct watches *w, uint32_t pid);
int watches_end(struct watches *w, uint32_t pid, struct error *err);
int watches_pass(struct watches *w, size_t budget, struct error *err);
int watches_flush(struct watches *w, struct error *err);
void watches_rewrite(struct watches *w);

#endif
