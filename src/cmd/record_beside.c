/* SPDX-License-Identifier: GPL-2.0-only */
/* See record_beside.h. A thread takes what the recorder writes into a pipe. */
#include "cmd/record_beside.h"
#include "base/clock.h"
#include "base/threads.h"
#include "base/unnamed_file.h"
#include "cmd/words.h"
#include "perfdata/recent.h"
#include "record/target.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SAMPLE_BYTES_MAX = 512 << 20,
    KEPT_BYTES_MAX = 64 << 20, /* a new recorder takes over */
    PIPE_BYTES = 1 << 20,
    MESSAGES_MAX = 64 << 10,
};

struct recorder {
    pid_t pid; /* 0: none */
    int said;  /* the file that takes its messages */
    bool has_thread;
    pthread_t thread;
    uint64_t span_ns;
    int pipe;
    atomic_bool is_open, has_ended;
    pthread_mutex_t lock; /* protects these: */
    struct recent *recent;
    struct error error; /* why nothing more is taken */
};

struct record_beside {
    char *const *options;
    struct recorder *now, *next; /* next: NULL, or it takes over when it has samples */
    uint64_t span_ns;
    uint64_t used_before; /* processor time of recorders that have ended, ns */
    bool is_last;         /* no other recorder could be started */
};

/* ---- the thread ------------------------------------------------------------------------------ */

static int take_all(struct recorder *r, struct perfdata *pd, struct error *err)
{
    struct record_batch batch = {0};
    int failed = 0;
    do {
        failed = perfdata_read(pd, 1, &batch, err) < 0; /* 1: do not wait for a second one */
        if (failed || !batch.nr)
            break;
        pthread_mutex_lock(&r->lock);
        failed = recent_take(r->recent, &batch.records[0], err) < 0;
        pthread_mutex_unlock(&r->lock);
        perfdata_release(pd, &batch);
    } while (!failed);
    record_batch_free(&batch);
    return failed ? -1 : 0;
}

static void *read_pipe(void *context)
{
    struct recorder *r = context;
    const struct perfdata_options how = {.unordered = true, .raw = true, .keep_whole = true};
    struct perfdata *pd = NULL;
    struct error err = {0};
    int failed = perfdata_open_stream(r->pipe, "the recorder", &how, &pd, &err);
    if (!failed) {
        r->recent = recent_create(pd, r->span_ns, SAMPLE_BYTES_MAX);
        failed = r->recent ? 0 : error_no_memory(&err);
    }
    if (!failed) {
        atomic_store(&r->is_open, true);
        failed = take_all(r, pd, &err);
    }
    pthread_mutex_lock(&r->lock);
    if (failed)
        r->error = err;
    pthread_mutex_unlock(&r->lock);
    perfdata_close(pd);
    atomic_store(&r->has_ended, true);
    return NULL;
}

/* ---- the process ----------------------------------------------------------------------------- */

static void run_recorder(int out, int said, char *const *options)
{
    struct words words = {0};
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    words_add(&words, "ljperf");
    words_add(&words, "record");
    words_option(&words, "-o", "-");
    words_list(&words, options);
    words_add(&words, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody else would end it */
    if (words.failed || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    /* Not a call of record's function: other threads may have held locks at the fork. */
    execv("/proc/self/exe", words.all.at);
    dprintf(STDERR_FILENO, "ljperf: /proc/self/exe: %s\n", strerror(errno));
    _exit(EXIT_FAILURE);
}

static int start_process(struct recorder *r, char *const *options)
{
    int ends[2];
    r->said = unnamed_file("ljperf-messages");
    if (r->said < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* fewer wake-ups; the default does, too */
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        run_recorder(ends[1], r->said, options);
    const int why = errno;
    close(ends[1]);
    r->pipe = ends[0];
    r->pid = pid > 0 ? pid : 0;
    errno = pid < 0 ? why : thread_without_signals(&r->thread, read_pipe, r);
    r->has_thread = !errno;
    if (!r->has_thread)
        close(r->pipe);
    return r->has_thread ? 0 : -1;
}

static void recorder_free(struct recorder *r)
{
    if (!r)
        return;
    if (r->pid) {
        kill(r->pid, SIGTERM);
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (r->has_thread)
        pthread_join(r->thread, NULL); /* the pipe has ended */
    recent_free(r->recent);
    if (r->said >= 0)
        close(r->said);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static struct recorder *recorder_start(const struct record_beside *b, struct error *err)
{
    struct recorder *r = calloc(1, sizeof(*r));
    if (!r) {
        error_no_memory(err);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    r->span_ns = b->span_ns;
    r->said = -1;
    if (start_process(r, b->options) == 0)
        return r;
    error_system(err, errno, "the recorder cannot be started");
    recorder_free(r);
    return NULL;
}

/* ---- the interface --------------------------------------------------------------------------- */

static void wait_open(const struct recorder *r)
{
    const struct timespec pause = {0, 5000000};
    while (!atomic_load(&r->is_open) && !atomic_load(&r->has_ended))
        nanosleep(&pause, NULL);
}

/* Append what the recorder has said so far. */
static void put_messages(const struct recorder *r, struct text *ret)
{
    char bytes[4096];
    ssize_t n;
    for (off_t at = 0; at < MESSAGES_MAX; at += n) {
        n = pread(r->said, bytes, sizeof(bytes), at);
        if (n <= 0)
            break;
        text_bytes(ret, bytes, (size_t)n);
    }
}

int record_beside_start(char *const *options, uint64_t span_ns, struct text *messages,
                        struct record_beside **ret, struct error *err)
{
    struct record_beside *b = calloc(1, sizeof(*b));
    if (!b)
        return error_no_memory(err);
    b->options = options;
    b->span_ns = span_ns;
    b->now = recorder_start(b, err);
    if (b->now)
        wait_open(b->now);
    bool is_open = b->now && atomic_load(&b->now->is_open);
    if (b->now && !is_open) {
        while (waitpid(b->now->pid, NULL, 0) < 0 && errno == EINTR) /* it has said all */
            ;
        b->now->pid = 0;
        error_set(err, ERROR_SYSTEM, "the recorder has ended");
    }
    if (b->now)
        put_messages(b->now, messages);
    if (is_open) {
        *ret = b;
        return 0;
    }
    record_beside_free(b);
    return -1;
}

void record_beside_free(struct record_beside *b)
{
    if (!b)
        return;
    recorder_free(b->now);
    recorder_free(b->next);
    free(b);
}

bool record_beside_has_ended(const struct record_beside *b)
{
    return atomic_load(&b->now->has_ended);
}

/* The recorder reads strangers' files in processes of its own. */
static uint64_t recorder_used(const struct recorder *r)
{
    pid_vec recorder = {0}, all = {0};
    struct error ignored;
    uint64_t ns = 0;
    if (!r || !r->pid || !vec_push(&recorder, r->pid))
        return 0;
    (void)tasks_children(&recorder, &all, &ignored);
    ns += process_cpu_ns(r->pid);
    vec_foreach (pid, &all)
        ns += process_cpu_ns(*pid);
    vec_free(&recorder);
    vec_free(&all);
    return ns;
}

uint64_t record_beside_used(const struct record_beside *b)
{
    return b->used_before + recorder_used(b->now) + recorder_used(b->next);
}

static struct recent_state state_of(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    struct recent_state s = r->recent ? recent_state(r->recent) : (struct recent_state){0};
    pthread_mutex_unlock(&r->lock);
    return s;
}

uint64_t record_beside_newest(const struct record_beside *b)
{
    return state_of(b->now).newest;
}

uint64_t record_beside_lost(const struct record_beside *b, uint64_t from)
{
    struct recorder *r = b->now;
    pthread_mutex_lock(&r->lock);
    uint64_t lost = r->recent ? recent_lost(r->recent, from) : 0;
    pthread_mutex_unlock(&r->lock);
    return lost;
}

int record_beside_write(struct record_beside *b, uint64_t from, uint64_t until, int fd,
                        struct error *err)
{
    struct recorder *r = b->now;
    pthread_mutex_lock(&r->lock);
    int failed = r->error.kind == ERROR_NO_MEMORY ? error_no_memory(err)
                                                  : recent_write(r->recent, from, until, fd, err);
    pthread_mutex_unlock(&r->lock);
    return failed;
}

void record_beside_renew(struct record_beside *b)
{
    struct error ignored;
    if (!b->next && !b->is_last && state_of(b->now).kept > KEPT_BYTES_MAX &&
        !record_beside_has_ended(b)) {
        b->next = recorder_start(b, &ignored);
        b->is_last = !b->next;
    }
    if (b->next && atomic_load(&b->next->has_ended)) {
        recorder_free(b->next);
        b->next = NULL;
        b->is_last = true;
    }
    if (!b->next || !state_of(b->next).newest)
        return;
    b->used_before += recorder_used(b->now);
    recorder_free(b->now);
    b->now = b->next;
    b->next = NULL;
}
