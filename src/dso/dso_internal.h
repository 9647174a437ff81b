/* SPDX-License-Identifier: GPL-2.0-only */
/* What dso.c (identities), file.c (finding the code's file) and debug.c (finding what debuggers
 * read) share. */
#ifndef DSO_DSO_INTERNAL_H
#define DSO_DSO_INTERNAL_H

#include "base/vec.h"
#include "dso/elf_image.h"

#include <stdatomic.h>

/* A value loaded once: `state` is read without a lock; the value is published before it. */
struct once_value {
    _Atomic(bool) done;
    void *value;
};

/* A related file (dwo) already asked for. */
struct related {
    char *path;
    struct elf_image *image; /* NULL: not found */
};

struct dso_entry {
    struct dso dso; /* first: the public part */
    struct dsos *all;
    uint32_t root;
    pthread_mutex_t lock; /* of loading; recursive: a debug image needs the image */
    struct once_value image, debug, alt, dwp, cfi, kallsyms;
    struct elf_image *mini; /* owned; debug image when nothing better is found */
    _Atomic(const char *) problem;
    const char *reference_symbol;
    uint64_t reference_address;
    bool frozen; /* being loaded: its build id changes no more (under all->lock) */
    struct luajit_builtins *builtins; /* of a LuaJIT in it; with the cfi */
    bool proven;                      /* the image's build id is the recorded one */
    bool apart;                       /* no id is told for it (under all->lock) */
    _Atomic(uint64_t) doubted_from;   /* its id may be another file's; UINT64_MAX: never */
    VEC(struct related) related;
};

struct dsos {
    struct dso_options options; /* strings are interned */
    struct intern *strings;
    pthread_mutex_t lock;
    VEC(struct dso_entry *) entries;
    uint32_t *slots; /* open addressing: index + 1 by hash of kind and name */
    size_t nr_slots;
    void *debuginfod; /* struct debuginfod *, made at first need */
    bool debuginfod_tried;
    pthread_mutex_t debuginfod_lock;
};

static inline struct dso_entry *dso_entry(const struct dso *dso)
{
    return (struct dso_entry *)dso;
}

/* "Why not"; the text is kept by the dsos. The first doubt is kept. */
void dso_set_problem(struct dso_entry *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* v8.c: the layout of a V8 in the file goes to the cfi. */
void dso_find_v8(struct dso_entry *d, const struct elf_image *e, struct cfi *cfi);

/* Under d->lock: find and open. */
struct elf_image *dso_find_image(struct dso_entry *d);
struct elf_image *dso_find_debug_image(struct dso_entry *d, const struct elf_image *image);
const char *dso_find_kallsyms(struct dso_entry *d);

/* The path of an entry of the build-id cache (file: "elf", "vdso", "debug", "kallsyms"). */
char *dso_cache_path(struct dsos *all, const struct build_id *id, const char *file);
/* A path of the recording under --symfs. To be freed. */
char *dso_symfs_path(struct dsos *all, const char *path);

/* Path of a file that a debuginfod server has for the id; NULL: none. To be freed. */
enum debuginfod_what { DEBUGINFOD_EXECUTABLE, DEBUGINFOD_DEBUGINFO };
char *dso_debuginfod(struct dsos *all, const struct build_id *id, enum debuginfod_what what);
void dso_debuginfod_free(struct dsos *all);

#endif
