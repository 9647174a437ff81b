/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which executable files hold a VM: each is looked into once for all processes, and what holds none
 * is remembered for later recordings, too. Most processes of a machine have none: by their files
 * they are known, and cost nothing more.
 */
#ifndef CAPTURE_RUNTIME_FILES_H
#define CAPTURE_RUNTIME_FILES_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/luajit/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a file holds: bits. */
enum {
    HOLDS_LUAJIT = 1,
    HOLDS_V8 = 2,
    HOLDS_UNKNOWN = 4, /* nobody has looked yet */
};

/* A file as records and lists of mappings name it: by its build id, else by where it lies. */
struct runtime_file_key {
    struct build_id build_id; /* size 0: not known */
    uint64_t inode;           /* 0: not known */
    uint32_t major, minor;
};

struct runtime_file {
    unsigned holds;
    const struct luajit_layout *layout; /* HOLDS_LUAJIT: of the one in it */
    uint64_t blob_offset;               /* bytes: where that one's interpreter lies in the file */
};

struct process_map;
struct runtime_files;

/* NULL when memory is out. */
struct runtime_files *runtime_files_create(void);
void runtime_files_free(struct runtime_files *f);

/* Begin with what earlier recordings have kept, and have this one keep its own at the end. It is in
 * the user's cache (XDG_CACHE_HOME, else ~/.cache: ljperf/no-vm), is believed only when it is the
 * user's own, and only says which build ids hold nothing. */
void runtime_files_load(struct runtime_files *f);
void runtime_files_save(struct runtime_files *f);

/* What is known of a file, without a look. */
unsigned runtime_files_find(const struct runtime_files *f, const struct runtime_file_key *key);

/* The same of a file that a process has mapped, looked into if need be; layouts live as long as
 * `f`. What cannot be opened holds nothing. -1 when memory is out. */
int runtime_files_look(struct runtime_files *f, pid_t pid, const struct process_map *map,
                       struct runtime_file *ret, struct error *err);

/* One line about a file whose LuaJIT could not be understood, each told once; NULL: no more. */
const char *runtime_files_problem(struct runtime_files *f);

/* Files that were looked into, so far. */
uint64_t runtime_files_looks(const struct runtime_files *f);

#endif
