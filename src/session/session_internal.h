/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of session/ share. */
#ifndef SESSION_SESSION_INTERNAL_H
#define SESSION_SESSION_INTERNAL_H

#include "base/vec.h"
#include "session/regions.h"
#include "session/session.h"
#include "session/table.h"

#include <pthread.h>

/* ---- jit files (jit.c) ------------------------------------------------------------------- */

/* A function's own unwind rules, made at first use. */
struct jit_cfi;
struct jit_cfi_slot {
    _Atomic(struct jit_cfi *) made;
};

/* One loaded jitdump or perf map; lives as long as the session. */
struct jit_file {
    struct jitcode *code;
    uint64_t device, inode;
    bool from_map;
    bool added;               /* by --jitdump */
    const char *path, *name;  /* session_jit_file()'s */
    struct jit_cfi_slot *cfi; /* one a function */
};

/* The jit files of an address space; never changed once made. */
struct jit_use {
    struct jit_file *file;
    uint64_t until; /* what the file says of later times is another process's (fork) */
};
struct jit_set {
    _Atomic uint32_t refs;
    uint32_t nr;
    struct jit_use uses[]; /* asked in this order */
};

void jit_set_release(struct jit_set *set);
void jit_files_free(struct session *s);
int jit_files_add_options(struct session *s, struct error *err);

struct process;
/* An executable mapping was made: look for what it announces, or what may describe it. */
int jit_on_mapping(struct session *s, struct process *p, const struct record_mmap *mm,
                   enum dso_kind kind, uint64_t time, struct error *err);
/* Files given by --jitdump that name this process. */
int jit_on_process(struct session *s, struct process *p, struct error *err);
/* What a fork's child keeps of its parent's: everything up to now. NULL with nothing to keep. */
int jit_set_fork(struct jit_set *from, uint64_t time, struct jit_set **ret, struct error *err);

const struct jit_function *jit_set_lookup(const struct jit_set *set, uint64_t pc, uint64_t time,
                                          struct jit_span *span, struct jit_file **file);
/* The same of each file: up to `max`. How many. */
size_t jit_set_lookup_all(const struct jit_set *set, uint64_t pc, uint64_t time,
                          const struct jit_function **ret, size_t max);
/* Whether it gives the same at all times. */
bool jit_set_is_timeless(const struct jit_set *set);
/* The function's own unwind rules; NULL and id 0: it has none. Any thread. */
const struct cfi *jit_file_cfi(struct session *s, struct jit_file *file,
                               const struct jit_function *f, uint32_t *id);

/* ---- processes and threads (tasks.c) ----------------------------------------------------- */

enum { FOUND_MAX = 64 };

/* Shared by its process and by places; the process changes it only while no place has it. */
struct address_space {
    struct regions regions;
    /* Where code was found lately, by a hash of the address; emptied by a change. */
    struct region_slot *_Atomic found[FOUND_MAX];
    struct jit_set *jit;                 /* NULL: none */
    struct space_luajit *_Atomic luajit; /* NULL: nobody asked yet */
    struct session *session;
    /* In a cache line that walks, which read the rest, do not wait for. */
    uint8_t apart[64];
    _Atomic uint32_t refs;
};

/* luajit.c: the interpreters in a space, found at the first question. */
enum { SPACE_LUAJIT_MAX = 8 };
struct space_luajit {
    size_t nr;
    struct luajit_blob blobs[SPACE_LUAJIT_MAX];
    const struct v8_layout *v8; /* of the first V8; NULL: none */
    bool generated;             /* there is executable memory without a file: else none is sought */
};
void space_luajit_forget(struct address_space *space);
/* What was found, for the space with this region put in, where it must be the same there (of the
 * caller); else NULL. */
struct space_luajit *space_luajit_beside(const struct address_space *space, const struct region *r);

struct process {
    uint32_t pid;
    uint32_t inner_pid; /* in its own pid namespace; 0: not known */
    uint32_t threads;   /* known and alive */
    uint32_t root;      /* pid for paths of another mount namespace, 0: none; see root_known */
    bool root_known;
    bool exited;
    bool perf_map_sought;
    uint64_t pid_ns, mnt_ns; /* inode numbers; 0: not recorded */
    struct address_space *space;
};

struct thread {
    uint32_t tid, pid;
    const char *comm; /* interned; NULL: nobody asked yet */
    bool named;       /* by a record, its own or its parent's */
    bool exited;
};

/* Ids of the dead, oldest overwritten: late samples still find them, memory stays bounded. */
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
/* Made at first call; NULL when memory is out. */
struct process *process_get(struct session *s, struct machine *m, uint32_t pid);
struct thread *thread_get(struct session *s, struct machine *m, uint32_t pid, uint32_t tid);
/* The process' address space, to be changed: a copy when places still refer to it. */
struct address_space *process_space(struct session *s, struct process *p);
void space_release(struct address_space *space);

int tasks_fork(struct session *s, struct machine *m, const struct record_task *t, uint64_t time,
               struct error *err);
void tasks_exit(struct session *s, struct machine *m, const struct record_task *t);
int tasks_comm(struct session *s, struct machine *m, const struct record_comm *c,
               struct error *err);
int tasks_namespaces(struct session *s, struct machine *m, const struct record_namespaces *n,
                     bool swapped, struct error *err);
/* The pid whose /proc/PID/root resolves the process' paths; 0: ours do. */
uint32_t process_root(struct session *s, struct process *p);

/* ---- mappings (maps.c) ------------------------------------------------------------------- */

int maps_apply(struct session *s, struct machine *m, const struct record_mmap *mm, uint64_t time,
               struct error *err);
/* What is known of the files of a name: of one, as long as nothing speaks against it. */
struct named_file {
    struct build_id id; /* the recording gives it for the name alone; size 0: none */
    uint32_t maj, min;  /* of the first that was mapped: where it is */
    uint64_t ino, ino_generation;
    bool id_recorded; /* of some, mappings tell the id */
    bool several;     /* which of them has the id is not known */
};
/* The build id the recording gives for a mapping or else for its name; NULL: none, or it may be
 * another file's. */
const struct build_id *build_id_for(const struct session *s, const struct record_mmap *mm,
                                    const char *name);
int build_id_add(struct session *s, const struct record_build_id *b, struct error *err);

/* ---- the kernel (kernel.c) --------------------------------------------------------------- */

struct kernel_map {
    struct mapping map;
    uint64_t from, until;           /* alive in [from, until) */
    const struct kernel_map *below; /* stands here again when this one is unregistered */
    struct kernel_map *next;        /* all of them, for freeing */
};

struct kernel {
    pthread_rwlock_t lock;
    struct regions regions;
    struct kernel_map *all;
    struct kernel_map *ended[DEAD_MAX]; /* a ring, in order of `until` */
    uint64_t nr_ended;
};

void kernel_init(struct kernel *k);
void kernel_free(struct kernel *k);
int kernel_mmap(struct session *s, struct kernel *k, const struct record_mmap *mm,
                struct error *err);
const struct mapping *kernel_lookup(struct kernel *k, uint64_t pc, uint64_t time);
int kernel_ksymbol(struct session *s, struct kernel *k, const struct record_ksymbol *y,
                   uint64_t time, struct error *err);

/* ---- all of it --------------------------------------------------------------------------- */

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
    struct table warned; /* interned path -> itself: one warning a file */
    VEC(char *) warnings;
    bool clock_is_monotonic;
    bool placed;     /* places were asked for: their mappings may be in use */
    uint64_t mnt_ns; /* of this program */
    struct session_stats stats;
};

int session_warn(struct session *s, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
