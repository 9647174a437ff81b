/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/proc.h"

#include "base/broker.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- files --------------------------------------------------------------------------------- */

int proc_open(pid_t pid, const char *name)
{
    static const char *const names[] = {"maps", "mem", "pagemap", "status"};
    char path[48];
    size_t i = 0;
    if (broker_is_there()) {
        struct broker_request q = {.what = BROKER_PROC, .pid = pid};
        struct broker_answer a;
        return broker_ask(&q, name, &a);
    }
    while (i < sizeof(names) / sizeof(*names) && strcmp(names[i], name) != 0)
        i++;
    if (i == sizeof(names) / sizeof(*names)) {
        errno = EINVAL;
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* ---- places -------------------------------------------------------------------------------- */

static bool is_place(const char *name)
{
    return !*name || strcmp(name, "exe") == 0 || strcmp(name, "root/.") == 0 ||
           (strncmp(name, "ns/", 3) == 0 && !strpbrk(name + 3, "./"));
}

/* (A file system that a user provides is not asked: base/mounts.h.) */
static bool look(pid_t pid, const char *name, struct proc_place *ret)
{
    char path[64];
    struct statx st;
    if (!is_place(name)) {
        errno = EINVAL;
        return false;
    }
    if (pid)
        snprintf(path, sizeof(path), "/proc/%d/%.32s", (int)pid, name);
    else
        snprintf(path, sizeof(path), "/proc/self/%.32s", name);
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO | STATX_UID, &st) < 0)
        return false;
    *ret = (struct proc_place){.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
                               .ino = st.stx_ino,
                               .uid = st.stx_uid,
                               .is_there = true};
    return true;
}

/* Ask for the words of `names`. Returns errno of the last that is not there. */
static int ask_places(pid_t pid, const char *names, struct proc_place *ret, size_t nr)
{
    struct broker_request q = {.what = BROKER_PLACES, .pid = pid};
    struct broker_answer a;
    if (broker_ask(&q, names, &a) >= 0 || a.why == EPIPE || a.nr != nr)
        return EPIPE;
    memcpy(ret, a.of.places, nr * sizeof(*ret));
    return a.why;
}

bool proc_place(pid_t pid, const char *name, struct proc_place *ret)
{
    *ret = (struct proc_place){0};
    if (!broker_is_there())
        return look(pid, name, ret);
    errno = ask_places(pid, *name ? name : ".", ret, 1);
    return ret->is_there;
}

void proc_namespaces(pid_t pid, struct proc_place ret[PROC_NAMESPACES])
{
    static const char *const names[PROC_NAMESPACES] = {"ns/net",  "ns/uts", "ns/ipc",   "ns/pid",
                                                       "ns/user", "ns/mnt", "ns/cgroup"};
    memset(ret, 0, PROC_NAMESPACES * sizeof(*ret));
    if (broker_is_there()) {
        (void)ask_places(pid, "ns/net ns/uts ns/ipc ns/pid ns/user ns/mnt ns/cgroup", ret,
                         PROC_NAMESPACES);
        return;
    }
    for (size_t i = 0; i < PROC_NAMESPACES; i++)
        (void)look(pid, names[i], &ret[i]);
}

bool proc_is_gone(pid_t pid)
{
    struct proc_place ignored;
    return !proc_place(pid, "", &ignored) && errno == ENOENT;
}

bool proc_is_apart(uint32_t pid, const char *which)
{
    char name[32];
    struct proc_place theirs, ours;
    snprintf(name, sizeof(name), "ns/%s", which);
    return proc_place((pid_t)pid, name, &theirs) && proc_place(0, name, &ours) &&
           theirs.ino != ours.ino;
}

bool proc_has_own_root(uint32_t pid)
{
    struct proc_place theirs, ours;
    return proc_place((pid_t)pid, "root/.", &theirs) && proc_place(0, "root/.", &ours) &&
           (theirs.ino != ours.ino || theirs.dev != ours.dev);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Open a file of /proc/PID to read its lines. */
static FILE *open_lines(pid_t pid, const char *name)
{
    int fd = proc_open(pid, name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

bool proc_task(pid_t tid, struct proc_task *ret)
{
    char line[256];
    bool named = false;
    *ret = (struct proc_task){.tid = tid};
    FILE *f = open_lines(tid, "status");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "Name:\t", 6) == 0) {
            line[strcspn(line, "\n")] = 0;
            snprintf(ret->comm, sizeof(ret->comm), "%.15s", line + 6);
            named = true;
        }
        if (sscanf(line, "PPid: %" SCNu32, &ret->ppid) == 1)
            break; /* comes after Tgid */
        (void)sscanf(line, "Tgid: %" SCNu32, &ret->tgid);
    }
    if (f)
        fclose(f);
    return named && ret->tgid;
}

uint32_t proc_inner_pid(uint32_t pid)
{
    char line[256];
    uint32_t ret = pid;
    FILE *f = open_lines((pid_t)pid, "status");
    while (f && fgets(line, sizeof(line), f)) {
        const char *last = strncmp(line, "NSpid:", 6) == 0 ? strrchr(line, '\t') : NULL;
        if (last)
            ret = (uint32_t)strtoul(last, NULL, 10);
    }
    if (f)
        fclose(f);
    return ret;
}

/* The next number that a folder of /proc has as a name; 0: none follows. */
static pid_t next_number(DIR *dir)
{
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (isdigit((unsigned char)e->d_name[0]))
            return (pid_t)atoi(e->d_name);
    }
    return 0;
}

static size_t ask_tasks(pid_t pid, uint64_t from, struct proc_task *ret, size_t nr, int *maps)
{
    struct broker_request q = {
        .what = BROKER_TASKS, .pid = pid, .start = from, .end = maps != NULL};
    struct broker_answer a;
    int fd = broker_ask(&q, NULL, &a);
    if (maps)
        *maps = fd;
    size_t got = a.why == EPIPE ? 0 : a.nr < nr ? a.nr : nr;
    memcpy(ret, a.of.tasks, got * sizeof(*ret));
    return got;
}

size_t proc_tasks(pid_t pid, uint64_t from, struct proc_task *ret, size_t nr, int *maps)
{
    char path[48];
    size_t found = 0;
    if (broker_is_there())
        return ask_tasks(pid, from, ret, nr, maps);
    found += !from && nr && proc_task(pid, ret);
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    uint64_t at = 1;
    for (pid_t tid; found < nr && (tid = next_number(dir));) {
        if (tid != pid && at++ >= from)
            found += proc_task(tid, ret + found);
    }
    if (dir)
        closedir(dir);
    if (maps)
        *maps = proc_open(pid, "maps");
    return found;
}

static size_t ask_processes(pid_t after, pid_t *ret, size_t nr)
{
    struct broker_request q = {.what = BROKER_PROCESSES, .start = (uint64_t)after};
    struct broker_answer a;
    (void)broker_ask(&q, NULL, &a);
    size_t got = a.why == EPIPE ? 0 : a.nr < nr ? a.nr : nr;
    memcpy(ret, a.of.pids, got * sizeof(*ret));
    return got;
}

size_t proc_processes(pid_t after, pid_t *ret, size_t nr)
{
    size_t found = 0;
    if (broker_is_there())
        return ask_processes(after, ret, nr);
    DIR *dir = opendir("/proc");
    for (pid_t pid; found < nr && (pid = next_number(dir));) {
        if (pid > after)
            ret[found++] = pid;
    }
    if (dir)
        closedir(dir);
    return found;
}
