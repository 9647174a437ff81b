/* SPDX-License-Identifier: GPL-2.0-only */
#include "alloc/replay.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- allocators ---------------------------------------------------------------------------- */

const char *const allocator_names[] = {"glibc", "jemalloc", "tcmalloc", "mimalloc", NULL};
static const char *const libraries[] = {NULL, "libjemalloc.so.2", "libtcmalloc_minimal.so.4",
                                        "libmimalloc.so.2"};

struct allocator allocator_of(const char *name)
{
    for (unsigned i = 0; allocator_names[i]; i++) {
        if (strcmp(name, allocator_names[i]) == 0)
            return (struct allocator){name, libraries[i]};
    }
    return (struct allocator){name, name};
}

/* Whether malloc was in the library that was asked for. The dynamic linker only warns when it finds
 * none. */
static bool is_right(const struct allocator *a, const char *used)
{
    const char *base = text_base_name(used);
    if (a->library)
        return strcmp(base, text_base_name(a->library)) == 0;
    return strncmp(base, "libc.", 5) == 0 ||
           strncmp(base, "ld-", 3) == 0; /* musl's is the loader */
}

void alloc_outcome_free(struct alloc_outcome *o)
{
    vec_free(&o->free);
    vec_free(&o->ordered);
    vec_free(&o->memory);
}

/* ---- the process --------------------------------------------------------------------------- */

static const char *const paces[] = {"free", "ordered", "paced"};

static void run_replayer(const struct alloc_plan *p, const char *replayer, enum alloc_pace pace,
                         const char *library, int result)
{
    char plan[16], to[16];
    snprintf(plan, sizeof(plan), "%d", p->fd);
    snprintf(to, sizeof(to), "%d", result);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (library ? setenv("LD_PRELOAD", library, 1) : unsetenv("LD_PRELOAD"))
        _exit(EXIT_FAILURE);
    if (fcntl(p->fd, F_SETFD, 0) == 0 && fcntl(result, F_SETFD, 0) == 0)
        execl(replayer, "ljperf-replay", plan, to, paces[pace], (char *)NULL);
    dprintf(STDERR_FILENO, "ljperf: %s: %s\n", replayer, strerror(errno));
    _exit(EXIT_FAILURE);
}

static bool read_whole(int fd, void *to, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = read(fd, (char *)to + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static int end_process(pid_t pid, const char *name, bool is_whole, struct error *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        return error_set(err, ERROR_SYSTEM, "the replay with %.100s was ended by signal %d (%s)",
                         name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (status || !is_whole)
        return error_set(err, ERROR_SYSTEM, "the replay with %.100s has failed", name);
    return 0;
}

static int start_process(const struct alloc_plan *p, const char *replayer, enum alloc_pace pace,
                         const char *library, int *result, pid_t *ret, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, errno, "no pipe can be made");
    fflush(NULL);
    *ret = fork();
    if (*ret == 0)
        run_replayer(p, replayer, pace, library, ends[1]);
    const int why = errno;
    close(ends[1]);
    *result = ends[0];
    if (*ret > 0)
        return 0;
    close(ends[0]);
    return error_system(err, why, "no process can be started");
}

/* Check what the process says of its run, and keep it. */
static int keep_run(bool is_ordered, uint64_t requested_peak, struct replay_measure *m,
                    struct alloc_outcome *ret, struct error *err)
{
    m->allocator[sizeof(m->allocator) - 1] = 0;
    if (!is_right(&ret->allocator, m->allocator))
        return error_set(err, ERROR_NOT_FOUND,
                         "%.60s: malloc is that of %.100s: the library is not installed, or has "
                         "no malloc",
                         ret->allocator.library ? ret->allocator.library : ret->allocator.name,
                         m->allocator);
    if (is_ordered && m->requested_peak != requested_peak)
        return error_set(err, ERROR_FORMAT,
                         "the replay with %.60s had blocks of %" PRIu64 " bytes at once, and the "
                         "trace has %" PRIu64,
                         ret->allocator.name, m->requested_peak, requested_peak);
    memcpy(ret->path, m->allocator, sizeof(ret->path));
    const bool kept = is_ordered ? vec_push(&ret->ordered, *m) : vec_push(&ret->free, *m);
    return kept ? 0 : error_no_memory(err);
}

int alloc_replay_run(const struct alloc_plan *p, const char *replayer, enum alloc_pace pace,
                     uint64_t requested_peak, struct alloc_outcome *ret, struct error *err)
{
    struct replay_measure m;
    const uint32_t nr = pace == ALLOC_FREE ? 0 : p->head.samples;
    pid_t pid = 0;
    int result = -1;
    if (!vec_reserve(&ret->memory, nr))
        return error_no_memory(err);
    if (start_process(p, replayer, pace, ret->allocator.library, &result, &pid, err))
        return -1;
    const bool is_whole = read_whole(result, &m, sizeof(m)) &&
                          read_whole(result, ret->memory.at, nr * sizeof(uint64_t));
    close(result);
    if (end_process(pid, ret->allocator.name, is_whole, err))
        return -1;
    ret->memory.nr = nr ? nr : ret->memory.nr;
    return keep_run(pace != ALLOC_FREE, requested_peak, &m, ret, err);
}

/* ---- several runs -------------------------------------------------------------------------- */

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the median of a field of all runs (of an even number the lower one); 0: there are none.
 */
static uint64_t median(const struct replay_measure *runs, size_t nr, size_t field)
{
    uint64_t values[64];
    nr = nr < sizeof(values) / sizeof(*values) ? nr : sizeof(values) / sizeof(*values);
    for (size_t i = 0; i < nr; i++)
        memcpy(&values[i], (const char *)&runs[i] + field, sizeof(*values));
    qsort(values, nr, sizeof(*values), compare_u64);
    return nr ? values[(nr - 1) / 2] : 0;
}

#define MEDIAN(runs, field) median((runs)->at, (runs)->nr, offsetof(struct replay_measure, field))

struct alloc_summary alloc_outcome_sum(const struct alloc_outcome *o, uint64_t calls,
                                       uint64_t requested_peak)
{
    struct alloc_summary s = {.cpu_ns = UINT64_MAX, .peak_least = UINT64_MAX};
    vec_foreach (m, &o->free) {
        if (m->cpu_ns < s.cpu_ns) {
            s.cpu_ns = m->cpu_ns;
            s.wall_ns = m->wall_ns;
        }
        s.failed = m->failed > s.failed ? m->failed : s.failed;
    }
    vec_foreach (m, &o->ordered) {
        s.peak_least = m->peak < s.peak_least ? m->peak : s.peak_least;
        s.peak_most = m->peak > s.peak_most ? m->peak : s.peak_most;
        s.failed = m->failed > s.failed ? m->failed : s.failed;
    }
    s.best_ns = calls ? (double)s.cpu_ns / (double)calls : 0;
    s.median_ns = calls ? (double)MEDIAN(&o->free, cpu_ns) / (double)calls : 0;
    s.base = MEDIAN(&o->ordered, base);
    s.peak = MEDIAN(&o->ordered, peak);
    s.end = MEDIAN(&o->ordered, end);
    s.fragmentation = requested_peak ? (double)s.peak / (double)requested_peak : 0;
    return s;
}
