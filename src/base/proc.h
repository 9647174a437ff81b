/* SPDX-License-Identifier: GPL-2.0-only */
/* What /proc says of live processes. A process without privileges asks its broker (broker.h). */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Open /proc/PID/NAME for reading. `name`: "maps", "mem", "pagemap" or "status". Returns a
 * descriptor that the caller closes; -1: errno says why. */
int proc_open(pid_t pid, const char *name);

/* What a path leads to. */
struct proc_place {
    uint64_t dev, ino;
    uint32_t uid; /* of its owner */
    bool is_there;
};

/* Look where /proc/PID/NAME leads. `name`: "" (the process itself), "exe", "root/." or "ns/...";
 * pid 0: our own. No file system is asked for it. Returns false if there is nothing, or we may not
 * look (errno says why). */
bool proc_place(pid_t pid, const char *name, struct proc_place *ret);

/* The namespaces of a process, in the order of the kernel's records (PERF_RECORD_NAMESPACES): net,
 * uts, ipc, pid, user, mnt, cgroup. */
enum { PROC_NAMESPACES = 7 };
void proc_namespaces(pid_t pid, struct proc_place ret[PROC_NAMESPACES]);

/* A thread, as /proc/TID/status says. */
struct proc_task {
    pid_t tid;
    uint32_t tgid, ppid;
    char comm[16];
};

/* How many the lists below give at once, at most. */
enum { PROC_TASKS_MAX = 1024, PROC_PIDS_MAX = 4096 };

/* Get the process's first thread, then the others, in the kernel's order: `nr` of them at most,
 * beginning with that of index `from`. Those that end meanwhile are left out, and then one may come
 * again. Returns how many; less than `nr`: no more follow. `nr`: up to PROC_TASKS_MAX. `maps`:
 * takes what proc_open(pid, "maps") returns (one question to the broker less); NULL: that is not
 * asked for. */
size_t proc_tasks(pid_t pid, uint64_t from, struct proc_task *ret, size_t nr, int *maps);

/* Get a thread by its id. Returns false if it is gone. */
bool proc_task(pid_t tid, struct proc_task *ret);

/* Get the ids of processes that are larger than `after`, in ascending order. Returns as above.
 * `nr`: up to PROC_PIDS_MAX. */
size_t proc_processes(pid_t after, pid_t *ret, size_t nr);

/* Returns whether the process is gone. */
bool proc_is_gone(pid_t pid);

/* Returns the pid in the process's own namespace (the last of NSpid, proc(5)); `pid` if the process
 * is gone. */
uint32_t proc_inner_pid(uint32_t pid);

/* Returns whether the process is in another namespace than we are. `which`: "mnt", "pid". Returns
 * false if it is gone. */
bool proc_is_apart(uint32_t pid, const char *which);

/* Returns whether the process has another root directory than we have (chroot). Returns false if
 * it is gone. */
bool proc_has_own_root(uint32_t pid);

#endif
