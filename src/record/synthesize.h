/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records for what existed before the recording began: the kernel and its modules, processes with
 * their threads and maps, and the lists that perf also writes. All have time 0. Layouts:
 * linux/perf_event.h and libperf's perf/event.h.
 */
#ifndef RECORD_SYNTHESIZE_H
#define RECORD_SYNTHESIZE_H

#include "base/error.h"
#include "record/events.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Where the records go, and which content they have. */
struct synthesis {
    int (*put)(void *context, const void *record, size_t size, struct error *err);
    void *context;
    bool data_maps;  /* also maps that are not executable */
    bool build_ids;  /* in MMAP2 records */
    bool namespaces; /* also those of processes */
    /* Called with a file that is gone from its place, so that it is kept; NULL: nothing is kept. */
    void (*keep)(void *context, int fd, const struct build_id *id);
    struct id_cache *cache;
};

/* Build ids of files by device and inode. Use it only for one moment, since a file may be replaced
 * by another one that gets its inode. Returns NULL when memory is out. */
struct id_cache *id_cache_create(void);
void id_cache_free(struct id_cache *c);

/* [kernel.kallsyms] and the modules. Writes nothing, and sets *hidden, where the kernel hides its
 * addresses. */
int synthesize_kernel(const struct synthesis *s, bool *hidden, struct error *err);
/* The control groups that exist. */
int synthesize_cgroups(const struct synthesis *s, struct error *err);
/* One process: its threads (FORK, COMM) and its maps. A process that has ended is no error. */
int synthesize_process(const struct synthesis *s, pid_t pid, struct error *err);
/* Only the name of a process. */
int synthesize_comm(const struct synthesis *s, pid_t pid, struct error *err);
/* Append every process that exists. */
int synthesize_list(pid_vec *ret, struct error *err);
/* ID_INDEX, THREAD_MAP, CPU_MAP. `tids` NULL: everything. */
int synthesize_lists(const struct synthesis *s, const struct events *e, const pid_t *tids,
                     size_t nr_tids, struct error *err);

#endif
