/* SPDX-License-Identifier: GPL-2.0-only */
/* Internal definitions that the files of session/ share. */
#ifndef SESSION_SESSION_INTERNAL_H
#define SESSION_SESSION_INTERNAL_H

#include "base/vec.h"
#include "session/regions.h"
#include "session/session.h"
#include "base/table.h"

#include <pthread.h>

/* ---- jit files (jit.c) ------------------------------------------------------------------- */

/* A function's own unwind rules, made at first use. */
struct jit_cfi;
struct jit_cfi_slot {
    _Atomic(struct jit_cfi *) made;
};

/* One loaded jitdump or perf map. It lives as long as the session. */
struct jit_file {
    struct jitcode *code;
    uint64_t device, inode;
    bool from_map;
    bool added;               /* given by --jitdump */
    const char *path, *name;  /* as in struct session_jit_file */
    struct jit_cfi_slot *cfi; /* one for each function */
};

/* The jit files of an address space. A set never changes once it is made. */
struct jit_use {
    struct jit_file *file;
    uint64_t until; /* what the file says about later times belongs to another process (fork) */
};
struct jit_set {
    _Atomic uint32_t refs;
    uint32_t nr;
    struct jit_use uses[]; /* searched in this order */
};

void jit_set_release(struct jit_set *set);
void jit_files_free(struct session *s);
int jit_files_add_options(struct session *s, struct error *err);

struct process;
/* Called for an executable mapping: load the jitdump that the mapping announces, or the perf map
 * that may describe it. */
int jit_on_mapping(struct session *s, struct process *p, const struct record_mmap *mm,
                   enum dso_kind kind, uint64_t time, struct error *err);
/* Use the --jitdump files that name this process. */
int jit_on_process(struct session *s, struct process *p, struct error *err);
/* Make the set that a fork's child keeps of its parent's: everything up to `time`. *ret NULL: there
 * is nothing to keep. */
int jit_set_fork(struct jit_set *from, uint64_t time, struct jit_set **ret, struct error *err);

const struct jit_function *jit_set_lookup(const struct jit_set *set, uint64_t pc, uint64_t time,
                                          struct jit_span *span, struct jit_file **file);
/* The same in each file: gets up to `max` functions. Returns how many. */
size_t jit_set_lookup_all(const struct jit_set *set, uint64_t pc, uint64_t time,
                          const struct jit_function **ret, size_t max);
/* Returns whether lookups give the same result at all times. */
bool jit_set_is_timeless(const struct jit_set *set);
/* Returns the function's own unwind rules; NULL, with id 0: it has none. Any thread may call
 * this. */
const struct cfi *jit_file_cfi(struct session *s, struct jit_file *file,
                               const struct jit_function *f, uint32_t *id);

/* ---- processes and threads (tasks.c) ----------------------------------------------------- */

enum { FOUND_MAX = 64, IMPORTS_MAX = 16 };

/* An address space is shared by its process and by thread contexts. The process changes it only
 * while no context refers to it. */
struct address_space {
    struct regions regions;
    /* Where code was found lately, by a hash of the address. Each change empties it. */
    struct region_slot *_Atomic found[FOUND_MAX];
    /* Where words lead that a linker has filled, likewise: `check` is the word's address ^
     * `function`, so that halves of two answers are no answer. */
    struct {
        _Atomic uint64_t check, function; /* function 0: it is not known */
    } imports[IMPORTS_MAX];
    struct jit_set *jit;                     /* NULL: none */
    struct space_runtimes *_Atomic runtimes; /* NULL: not searched yet */
    struct session *session;
    /* `refs` has a cache line of its own: walks, which read the other fields, do not wait for
     * it. */
    uint8_t apart[64];
    _Atomic uint32_t refs;
};

/* runtimes.c: the runtimes in an address space, found when they are first needed. */
struct space_runtimes {
    bool generated; /* executable memory without a file exists; if not, nothing is searched for */
    struct {
        size_t nr;
        struct runtime_instance at[RUNTIME_INSTANCES_MAX];
    } of[]; /* in the order of the table */
};
void space_runtimes_forget(struct address_space *space);
/* Returns a copy of what was found, if the space has the same with this region put in; the caller
 * owns the copy. Else NULL. */
struct space_runtimes *space_runtimes_beside(const struct address_space *space,
                                             const struct region *r);

struct process {
    uint32_t pid;
    uint32_t inner_pid; /* the pid in its own pid namespace; 0: not known */
    uint32_t threads;   /* known threads that are alive */
    uint32_t root; /* pid for paths of another mount namespace; 0: none; valid with root_known */
    bool root_known;
    bool exited;
    bool perf_map_sought;
    uint64_t pid_ns, mnt_ns; /* inode numbers; 0: not recorded */
    struct address_space *space;
};

struct thread {
    uint32_t tid, pid;
    const char *comm; /* interned; NULL: not needed yet */
    bool named;       /* by a record of this thread or of its parent */
    bool exited;
};

/* Ids of what has exited; the oldest is overwritten. So late samples still find them, and memory
 * stays bounded. */
enum { DEAD_MAX = 1024 };
struct dead_ring {
    uint64_t id[DEAD_MAX];
    uint32_t at;
};

/* The host, or all guests. */
struct machine {
    struct table processes, threads;
    struct dead_ring dead_processes, dead_threads;
};

void machine_free(struct machine *m);
/* These return the process or thread, and make it at the first call. NULL when out of memory. */
struct process *process_get(struct session *s, struct machine *m, uint32_t pid);
struct thread *thread_get(struct session *s, struct machine *m, uint32_t pid, uint32_t tid);
/* Returns the process's address space, to be changed: a copy, if contexts still refer to it. NULL
 * when out of memory. */
struct address_space *process_space(struct session *s, struct process *p);
void space_hold(struct address_space *space); /* another reference */
void space_release(struct address_space *space);

int tasks_fork(struct session *s, struct machine *m, const struct record_task *t, uint64_t time,
               struct error *err);
void tasks_exit(struct session *s, struct machine *m, const struct record_task *t);
int tasks_comm(struct session *s, struct machine *m, const struct record_comm *c,
               struct error *err);
int tasks_namespaces(struct session *s, struct machine *m, const struct record_namespaces *n,
                     bool swapped, struct error *err);
/* Returns the pid whose /proc/PID/root resolves the process's paths; 0: our own root does. */
uint32_t process_root(struct session *s, struct process *p);

/* ---- mappings (maps.c) ------------------------------------------------------------------- */

int maps_apply(struct session *s, struct machine *m, const struct record_mmap *mm, uint64_t time,
               struct error *err);
/* What is known about the files of one name. It is taken for one file as long as nothing speaks
 * against it. */
struct named_file {
    struct build_id id; /* the recording gives it for the name alone; size 0: none */
    uint32_t maj, min;  /* the device of the first file that was mapped */
    uint64_t ino, ino_generation;
    bool id_recorded; /* mappings give the build id of some of the files */
    bool several;     /* there are several files; which of them has `id` is not known */
};
/* Returns the build id that the recording gives for a mapping, or else for its name; NULL: it gives
 * none, or the id may be another file's. */
const struct build_id *build_id_for(const struct session *s, const struct record_mmap *mm,
                                    const char *name);
int build_id_add(struct session *s, const struct record_build_id *b, struct error *err);

/* ---- the kernel (kernel.c) --------------------------------------------------------------- */

struct kernel_map {
    struct mapping map;
    uint64_t from, until;           /* alive in [from, until) */
    const struct kernel_map *below; /* the map that is here again when this one is unregistered */
    struct kernel_map *next;        /* list of all maps, for freeing */
};

struct kernel {
    pthread_rwlock_t lock;
    struct regions regions;
    struct kernel_map *all;
    struct kernel_map *ended[DEAD_MAX]; /* a ring in order of `until` */
    uint64_t nr_ended;
};

void kernel_init(struct kernel *k);
void kernel_free(struct kernel *k);
int kernel_mmap(struct session *s, struct kernel *k, const struct record_mmap *mm,
                struct error *err);
const struct mapping *kernel_lookup(struct kernel *k, uint64_t pc, uint64_t time);
int kernel_ksymbol(struct session *s, struct kernel *k, const struct record_ksymbol *y,
                   uint64_t time, struct error *err);

/* ---- the session ------------------------------------------------------------------------- */

struct session {
    const struct perfdata *pd;
    struct dsos *dsos;
    struct session_options options;
    struct intern *names;
    struct machine host, guests;
    struct kernel kernel, guest_kernel;
    struct table files; /* interned name -> struct named_file */
    VEC(struct jit_file *) jit_files;
    _Atomic uint32_t nr_jit_cfi;
    struct table warned; /* interned path -> itself: one warning for each file */
    VEC(char *) warnings;
    bool clock_is_monotonic;
    bool placed;     /* contexts were made: their mappings may be in use */
    uint64_t mnt_ns; /* of ljperf itself */
    struct session_stats stats;
};

int session_warn(struct session *s, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
