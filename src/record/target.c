/* SPDX-License-Identifier: GPL-2.0-only */
/* Starting the command and listing tasks. */
#include "record/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS_MAX = 1 << 20 };

/* ---- descriptors --------------------------------------------------------------------------- */

struct rlimit descriptors_allow(void)
{
    enum { WANTED = 1 << 16 };
    const struct rlimit most = {WANTED, WANTED};
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return (struct rlimit){0};
    const struct rlimit all = {now.rlim_max, now.rlim_max};
    if (now.rlim_max >= WANTED || setrlimit(RLIMIT_NOFILE, &most) < 0)
        (void)setrlimit(RLIMIT_NOFILE, &all);
    return now;
}

/* ---- the command --------------------------------------------------------------------------- */

/* In the child: wait for a byte from the recorder, then execute the command. */
static void child_run(char **command, bool to_stderr, const struct rlimit *descriptors, int go,
                      int failed)
{
    char word;
    sigset_t none;
    if (read(go, &word, 1) != 1)
        _exit(0); /* the recorder has died, or has cancelled the command */
    /* Undo the recorder's signal settings: the command must not inherit them. */
    sigemptyset(&none);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (descriptors && descriptors->rlim_max)
        (void)setrlimit(RLIMIT_NOFILE, descriptors);
    if (to_stderr)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    execvp(command[0], command);
    int why = errno;
    _exit(write(failed, &why, sizeof(why)) == sizeof(why) ? 127 : 126);
}

int child_fork(char **command, bool to_stderr, const struct rlimit *descriptors, struct child *ret,
               struct error *err)
{
    int go[2], failed[2];
    *ret = (struct child){0};
    if (pipe2(go, O_CLOEXEC) < 0)
        return error_system(err, errno, "a pipe cannot be created");
    if (pipe2(failed, O_CLOEXEC) < 0) {
        close(go[0]);
        close(go[1]);
        return error_system(err, errno, "a pipe cannot be created");
    }
    fflush(NULL);
    ret->pid = fork();
    if (ret->pid == 0) {
        close(go[1]);
        close(failed[0]);
        child_run(command, to_stderr, descriptors, go[0], failed[1]);
    }
    int why = errno;
    close(go[0]);
    close(failed[1]);
    ret->go = go[1];
    ret->failed = failed[0];
    if (ret->pid > 0)
        return 0;
    close(go[1]);
    close(failed[0]);
    *ret = (struct child){0};
    return error_system(err, why, "%s: cannot be started", command[0]);
}

char *program_of(const char *command)
{
    const char *folders = getenv("PATH");
    char path[PATH_MAX];
    if (strchr(command, '/'))
        return realpath(command, NULL);
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        int n = snprintf(path, sizeof(path), "%.*s/%s", (int)length, folders, command);
        if (n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0)
            return realpath(path, NULL);
        folders += length + (folders[length] == ':');
    }
    return NULL;
}

int child_start(struct child *c)
{
    int why = 0;
    if (write(c->go, "x", 1) != 1)
        why = errno;
    close(c->go);
    /* A successful exec closes the pipe; after a failed one, errno comes. */
    while (read(c->failed, &why, sizeof(why)) < 0 && errno == EINTR)
        ;
    close(c->failed);
    c->go = c->failed = -1;
    return why;
}

void child_reap(struct child *c, bool block)
{
    if (c->pid <= 0 || c->ended)
        return;
    pid_t got;
    while ((got = waitpid(c->pid, &c->status, block ? 0 : WNOHANG)) < 0 && errno == EINTR)
        ;
    c->ended = got == c->pid || (got < 0 && errno == ECHILD);
}

void child_reap_soon(struct child *c, unsigned ms)
{
    for (; c->pid > 0 && !c->ended && ms; ms--) {
        child_reap(c, false);
        if (!c->ended)
            usleep(1000);
    }
}

bool child_end(struct child *c)
{
    if (c->pid <= 0 || c->ended)
        return false;
    bool begun = c->go <= 0;
    if (begun) {
        kill(c->pid, SIGTERM);
    } else {
        close(c->go); /* it waits for a byte that does not come */
        close(c->failed);
        c->go = c->failed = -1;
    }
    child_reap(c, true);
    return begun;
}

/* ---- tasks --------------------------------------------------------------------------------- */

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

/* Sort ascending, and keep each once. */
static void pids_unique(pid_vec *v)
{
    size_t kept = 0;
    if (v->nr)
        qsort(v->at, v->nr, sizeof(*v->at), compare_pids);
    for (size_t i = 0; i < v->nr; i++)
        if (!kept || v->at[kept - 1] != v->at[i])
            v->at[kept++] = v->at[i];
    v->nr = kept;
}

/* Returns 1: added, 0: no such process, -1: no memory. */
static int process_add(pid_t pid, pid_vec *tids, pid_vec *pids, struct error *err)
{
    char path[64];
    bool ok = true;
    size_t before = tids->nr;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (struct dirent *d; ok && (d = readdir(dir)) && tids->nr < TASKS_MAX;) {
        pid_t tid = atoi(d->d_name);
        if (tid > 0)
            ok = vec_push(tids, tid);
    }
    closedir(dir);
    if (!ok || (tids->nr > before && !vec_push(pids, pid)))
        return error_no_memory(err);
    return tids->nr > before;
}

static pid_t process_of(pid_t tid)
{
    char path[64], line[256];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "Tgid: %d", &pid) != 1)
        ;
    if (f)
        fclose(f);
    return pid;
}

static int user_add(const char *user, pid_vec *tids, pid_vec *pids, struct error *err)
{
    char *end;
    unsigned long uid = strtoul(user, &end, 10);
    const struct passwd *entry = *end ? getpwnam(user) : NULL;
    if (*end && !entry)
        return error_set(err, ERROR_NOT_FOUND, "-u %s: there is no such user", user);
    if (entry)
        uid = entry->pw_uid;
    DIR *dir = opendir("/proc");
    int r = 0;
    for (struct dirent *d; dir && r >= 0 && (d = readdir(dir));) {
        struct stat st;
        pid_t pid = atoi(d->d_name);
        if (pid > 0 && pid != getpid() && fstatat(dirfd(dir), d->d_name, &st, 0) == 0 &&
            st.st_uid == uid)
            r = process_add(pid, tids, pids, err);
    }
    if (dir)
        closedir(dir);
    if (r >= 0 && !tids->nr)
        return error_set(err, ERROR_NOT_FOUND, "-u %s: this user has no processes", user);
    return r < 0 ? -1 : 0;
}

/* Append all that was asked for; some tasks may be there more than once. */
static int tasks_add(const struct record_options *o, pid_vec *tids, pid_vec *pids,
                     struct error *err)
{
    vec_foreach (pid, &o->pids) {
        int r = process_add(*pid, tids, pids, err);
        if (r < 0)
            return -1;
        if (!r)
            return error_set(err, ERROR_NOT_FOUND, "-p %d: there is no such process", (int)*pid);
    }
    vec_foreach (tid, &o->tids) {
        pid_t pid = process_of(*tid);
        if (!pid)
            return error_set(err, ERROR_NOT_FOUND, "-t %d: there is no such thread", (int)*tid);
        if (!vec_push(tids, *tid) || !vec_push(pids, pid))
            return error_no_memory(err);
    }
    return o->uid ? user_add(o->uid, tids, pids, err) : 0;
}

int tasks_list(const struct record_options *o, pid_vec *tids, pid_vec *pids, struct error *err)
{
    tids->nr = pids->nr = 0;
    int failed = tasks_add(o, tids, pids, err);
    pids_unique(tids);
    pids_unique(pids);
    return failed;
}

int tasks_threads(const pid_t *pids, size_t nr, pid_vec *ret, struct error *err)
{
    pid_vec found = {0};
    int r = 0;
    for (size_t i = 0; i < nr && r >= 0; i++)
        r = process_add(pids[i], ret, &found, err);
    vec_free(&found);
    return r < 0 ? -1 : 0;
}

bool tasks_of_others(const pid_vec *pids)
{
    vec_foreach (pid, pids) {
        char path[64];
        struct stat st;
        snprintf(path, sizeof(path), "/proc/%d", (int)*pid);
        if (stat(path, &st) == 0 && st.st_uid != geteuid())
            return true;
    }
    return false;
}

static bool has_pid(const pid_vec *v, pid_t pid)
{
    vec_foreach (p, v)
        if (*p == pid)
            return true;
    return false;
}

/* Append the children that a process's threads have made (proc(5): /proc/PID/task/TID/children). */
static bool add_children(pid_t pid, const pid_vec *known, pid_vec *ret)
{
    char path[96];
    pid_vec tids = {0}, pids = {0};
    bool ok = process_add(pid, &tids, &pids, NULL) >= 0;
    for (size_t i = 0; i < tids.nr && ok; i++) {
        int child;
        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tids.at[i]);
        FILE *f = fopen(path, "re");
        while (f && ok && fscanf(f, "%d", &child) == 1 && ret->nr < TASKS_MAX)
            ok = has_pid(known, child) || has_pid(ret, child) || vec_push(ret, child);
        if (f)
            fclose(f);
    }
    vec_free(&tids);
    vec_free(&pids);
    return ok;
}

int tasks_children(const pid_vec *pids, pid_vec *ret, struct error *err)
{
    bool ok = true;
    vec_foreach (pid, pids)
        ok = ok && add_children(*pid, pids, ret);
    for (size_t i = 0; i < ret->nr && ok; i++)
        ok = add_children(ret->at[i], pids, ret);
    return ok ? 0 : error_no_memory(err);
}
