/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The broker: the process that opens for a reader what the reader may not open itself.
 *
 *     a reader (no capability, no call that opens)        its broker (capabilities to read)
 *     other_file_open() ... -> broker_ask() -> a socket -> broker_serve() -> other_file_open() ...
 *     a descriptor         <-               <-          <-
 *
 * A reader parses what strangers own, so a stranger may take it over. The broker parses nothing of
 * theirs: it takes requests of fixed form, and answers with descriptors for reading. It gives away
 * only what a recorder reads: some files of /proc/PID, and regular files that are programs, or code
 * that a program has written down (ELF, jitdumps, perf maps). So a reader that was taken over gets
 * no other file of the machine.
 *
 * Who uses base/other_file.h or base/proc.h needs not know whether there is a broker.
 */
#ifndef BASE_BROKER_H
#define BASE_BROKER_H

#include "base/error.h"
#include "base/proc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum broker_what {
    BROKER_FILE,         /* other_file_open(path) */
    BROKER_SHARED,       /* other_file_open_shared(path) */
    BROKER_IN_ROOT,      /* other_file_open_in_root(pid, path) */
    BROKER_MAPPED,       /* other_file_open_mapped(pid, { start, end, inode, path }) */
    BROKER_STAT,         /* other_file_stat(path) */
    BROKER_STAT_IN_ROOT, /* other_file_stat_in_root(pid, path) */
    BROKER_PROC,         /* proc_open(pid, path) */
    BROKER_PLACES,       /* proc_place(pid, path), for each word of the path */
    BROKER_TASKS,        /* proc_tasks(pid, start); with maps if `end` is not 0 */
    BROKER_PROCESSES,    /* proc_processes(start) */
};

/* A request; a path with its end follows, of less than PATH_MAX bytes. */
struct broker_request {
    uint32_t what; /* enum broker_what */
    int32_t pid;
    uint64_t start, end, inode;
};

enum { BROKER_PLACES_MAX = 8 };

struct broker_answer {
    int32_t why;   /* errno; 0: it was done */
    uint32_t gone; /* BROKER_MAPPED: the file is gone from its place */
    uint32_t nr;   /* of what follows, where that is a list */
    union {        /* (only what is used is sent) */
        struct stat st;
        struct proc_place places[BROKER_PLACES_MAX];
        struct proc_task tasks[PROC_TASKS_MAX];
        pid_t pids[PROC_PIDS_MAX];
    } of;
};

/* Whether this process must ask. */
bool broker_is_there(void);

/* Ask with this path (NULL: ""). Returns the descriptor that came with the answer, which the caller
 * closes; -1: none came (errno: as the answer says; EPIPE: the broker is gone). */
int broker_ask(const struct broker_request *q, const char *path, struct broker_answer *ret);

/* For a process that is to give up its privileges: begin its broker, and ask it from now on.
 * `confine` is called in the broker, with its socket, before it serves; if it returns -1, the
 * broker ends. Returns the socket to the broker; -1: it cannot begin. */
int broker_begin(int (*confine)(int socket, struct error *err), struct error *err);

/* Let the broker end, and wait for it. Nothing can be asked any more. */
void broker_end(void);

/* What the broker does: answer until the other end is closed, or asks what cannot be. */
void broker_serve(int socket);

#endif
