/* SPDX-License-Identifier: GPL-2.0-only */
/* What dso.c (identities), file.c (finds the code's file) and debug.c (finds the files that
 * debuggers read) share. */
#ifndef DSO_DSO_INTERNAL_H
#define DSO_DSO_INTERNAL_H

#include "base/hash_table.h"
#include "base/vec.h"
#include "dso/elf_image.h"

#include <stdatomic.h>

/* A value loaded once. `done` is read without a lock; `value` is published before `done` is set. */
struct once_value {
    _Atomic(bool) done;
    void *value;
};

/* A related file (dwo) that was already asked for. */
struct related {
    char *path;
    struct elf_image *image; /* NULL: not found */
};

struct dso_entry {
    struct dso dso; /* must be first: the public part */
    struct dsos *all;
    uint32_t root;
    pthread_mutex_t lock; /* held while loading; recursive: a debug image needs the image */
    struct once_value image, debug, alt, dwp, cfi, functions, kallsyms;
    struct elf_image *mini; /* owned; the debug image when nothing better is found */
    _Atomic(const char *) problem, runtime_problem;
    _Atomic(const char *) live_path; /* see dso_add_path(); NULL: none */
    _Atomic(uint64_t) inode;         /* of the recorded file; 0: not known */
    const char *reference_symbol;
    uint64_t reference_address;
    bool frozen; /* loaded or being loaded: its build id is final (under all->lock) */
    bool proven; /* the image's build id is the recorded one */
    bool apart;  /* never gets a build id (under all->lock) */
    /* Time from which the build id may be another file's; UINT64_MAX: never. */
    _Atomic(uint64_t) doubted_from;
    VEC(struct related) related;
};

struct dsos {
    struct dso_options options; /* strings are interned */
    struct intern *strings;
    pthread_mutex_t lock;
    VEC(struct dso_entry *) entries;
    struct hash_table table; /* of entries, by kind and name */
    void *debuginfod;        /* struct debuginfod *, made at first need */
    bool debuginfod_tried;
    pthread_mutex_t debuginfod_lock;
};

static inline struct dso_entry *dso_entry(const struct dso *dso)
{
    return (struct dso_entry *)dso;
}

/* Set the text of dso_problem(); the dsos own it. Only the first problem is kept. */
void dso_set_problem(struct dso_entry *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Find and open. The caller holds d->lock. */
struct elf_image *dso_find_image(struct dso_entry *d);
struct elf_image *dso_find_debug_image(struct dso_entry *d, const struct elf_image *image);
const char *dso_find_kallsyms(struct dso_entry *d);

/* Returns the path of an entry of the build-id cache (file: "elf", "vdso", "debug", "kallsyms").
 * The caller frees it. */
char *dso_cache_path(struct dsos *all, const struct build_id *id, const char *file);
/* Returns a path of the recording under --symfs. The caller frees it. */
char *dso_symfs_path(struct dsos *all, const char *path);

/* Returns the path of a debuginfod server's file for the id; NULL: none. The caller frees it. */
enum debuginfod_what { DEBUGINFOD_EXECUTABLE, DEBUGINFOD_DEBUGINFO };
char *dso_debuginfod(struct dsos *all, const struct build_id *id, enum debuginfod_what what);
void dso_debuginfod_free(struct dsos *all);

#endif
