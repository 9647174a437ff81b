/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which executable files hold a VM: each is looked into once for all processes, and what holds none
 * is remembered for later recordings, too. Most processes of a machine have none: by their files
 * they are known, and cost nothing more.
 */
#ifndef CAPTURE_VMFILES_H
#define CAPTURE_VMFILES_H

#include "base/error.h"
#include "perfdata/perfdata.h"
#include "unwind/luajit/layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a file holds: bits. */
enum {
    VMFILE_LUAJIT = 1,
    VMFILE_V8 = 2,
    VMFILE_UNKNOWN = 4, /* nobody has looked yet */
};

/* A file as records and lists of mappings name it: by its build id, else by where it lies. */
struct vmfile_key {
    struct build_id build_id; /* size 0: not known */
    uint64_t inode;           /* 0: not known */
    uint32_t major, minor;
};

struct vmfile {
    unsigned holds;
    const struct luajit_layout *layout; /* VMFILE_LUAJIT: of the one in it */
    uint64_t blob_offset;               /* bytes: where that one's interpreter lies in the file */
};

struct process_map;
struct vmfiles;

/* NULL when memory is out. */
struct vmfiles *vmfiles_create(void);
void vmfiles_free(struct vmfiles *f);

/* Begin with what earlier recordings have kept, and have this one keep its own at the end. It is in
 * the user's cache (XDG_CACHE_HOME, else ~/.cache: ljperf/no-vm), is believed only when it is the
 * user's own, and only says which build ids hold nothing. */
void vmfiles_load(struct vmfiles *f);
void vmfiles_save(struct vmfiles *f);

/* What is known of a file, without a look. */
unsigned vmfiles_find(const struct vmfiles *f, const struct vmfile_key *key);

/* The same of a file that a process has mapped, looked into if need be; layouts live as long as
 * `f`. What cannot be opened holds nothing. -1 when memory is out. */
int vmfiles_look(struct vmfiles *f, pid_t pid, const struct process_map *map, struct vmfile *ret,
                 struct error *err);

/* One line about a file whose LuaJIT could not be understood, each told once; NULL: no more. */
const char *vmfiles_problem(struct vmfiles *f);

/* Files that were looked into, so far. */
uint64_t vmfiles_looks(const struct vmfiles *f);

#endif
