/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which executable files hold a VM. Each file is searched once for all processes. Files without a
 * VM are remembered for later recordings, too. Most processes of a machine have no VM: their files
 * are then known, and they cost nothing more.
 */
#ifndef LIVE_RUNTIME_FILES_H
#define LIVE_RUNTIME_FILES_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/runtime.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a file or a process holds: a bit for each runtime, by its number in the table
 * (unwind/runtime.h). */
enum {
    HOLDS_UNKNOWN = 1 << RUNTIMES_MAX,   /* the file was not searched yet */
    HOLDS_GENERATED = 2 * HOLDS_UNKNOWN, /* of a process: executable memory that is no file's */
    HOLDS_MASK = 2 * HOLDS_GENERATED - 1,
};

/* Returns the runtime's bit. */
static inline unsigned holds_bit(const struct runtime *rt)
{
    return 1U << runtime_index(rt);
}

/* Names a file as records and lists of mappings do: by its build id, else by its place. */
struct runtime_file_key {
    struct build_id build_id; /* size 0: not known */
    uint64_t inode;           /* 0: not known */
    uint32_t major, minor;
};

struct runtime_file {
    unsigned holds;
    /* Of the runtimes whose discovery is fast (`may_hold` is NULL); NULL: not in the file. */
    const void *layouts[RUNTIMES_MAX];
    uint64_t code_offset[RUNTIMES_MAX]; /* bytes: file offset of the runtime's `code_start` */
};

struct process_map;
struct runtime_files;

/* Returns NULL when memory is out. */
struct runtime_files *runtime_files_create(void);
void runtime_files_free(struct runtime_files *f);

/* Load what earlier recordings kept, and let runtime_files_save() keep this one's findings at the
 * end. The file is in the user's cache (XDG_CACHE_HOME, else ~/.cache: ljperf/no-vm). It is trusted
 * only when it belongs to the user, and only lists build ids of files that hold nothing. */
void runtime_files_load(struct runtime_files *f);
void runtime_files_save(struct runtime_files *f);

/* For a process that looks at files but may not keep anything: the build ids of files that hold
 * nothing, newest first (`ret`: room for `max`; returns their number), and taking them over in the
 * process that may. Ids that no file has are left out. */
size_t runtime_files_empty(const struct runtime_files *f, struct build_id *ret, size_t max);
int runtime_files_add_empty(struct runtime_files *f, const struct build_id *ids, size_t nr,
                            struct error *err);
enum { RUNTIME_FILES_KEPT = 8192 }; /* build ids that are kept, at most */

/* What is known of a file, without searching it. */
unsigned runtime_files_find(const struct runtime_files *f, const struct runtime_file_key *key);

/* The same for a file that a process has mapped, searching it if needed. Layouts live as long as
 * `f`. A file that cannot be opened holds nothing. Returns -1 when memory is out. */
int runtime_files_look(struct runtime_files *f, pid_t pid, const struct process_map *map,
                       struct runtime_file *ret, struct error *err);

/* One line about a file whose runtime could not be understood. Returns each line once; NULL: no
 * more. */
const char *runtime_files_problem(struct runtime_files *f);

/* Number of files searched so far. */
uint64_t runtime_files_looks(const struct runtime_files *f);

#endif
