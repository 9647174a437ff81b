/* SPDX-License-Identifier: GPL-2.0-only */
/* See synthesize_apart.h. */
#include "record/synthesize_apart.h"

#include "base/broker.h"
#include "base/clock.h"
#include "base/confine.h"
#include "base/message.h"
#include "record/record.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BATCH = 60000,     /* bytes of records in a message */
    STANDS_MS = 10000, /* ms without a message after which a process is given up */
    LOOK_MS = 50,      /* ms between two looks at what does not wake us */
    LOSSES_MAX = 16,   /* processes that are lost, until the rest is left out */
    END_MS = 50,       /* ms to wait for the end of a process that was ended */
};

/* A message: its kind, the process that is looked at from then on, and what follows. */
enum { MESSAGE_RECORDS, MESSAGE_KEEP /* a build id; and a file */ };
struct message {
    uint32_t kind;
    int32_t at;
    union {
        struct build_id id;
        uint8_t records[BATCH];
    } of;
};
enum { HEAD = offsetof(struct message, of) };

/* ---- the process --------------------------------------------------------------------------- */

struct sender {
    int socket;
    size_t used; /* bytes of records in the message */
    struct message message;
};

/* Send a message, with a file (-1: without). */
static int send_it(int to, struct message *m, size_t size, int fd, struct error *err)
{
    struct iovec what = {m, size};
    return message_send(to, &what, 1, fd) < 0 ? error_system(err, errno, "the recorder is gone")
                                              : 0;
}

/* Send the records that wait, and say which process comes next. */
static int send_records(struct sender *s, pid_t at, struct error *err)
{
    size_t size = s->used;
    s->used = 0;
    s->message.kind = MESSAGE_RECORDS;
    s->message.at = (int32_t)at;
    return send_it(s->socket, &s->message, HEAD + size, -1, err);
}

static int put(void *sender, const void *record, size_t size, struct error *err)
{
    struct sender *s = sender;
    if (size > BATCH)
        return error_set(err, ERROR_UNSUPPORTED, "a record of %zu bytes", size);
    if (s->used + size > BATCH && send_records(s, (pid_t)s->message.at, err) < 0)
        return -1;
    memcpy(s->message.of.records + s->used, record, size);
    s->used += size;
    return 0;
}

static void keep(void *sender, int fd, const struct build_id *id)
{
    const struct sender *s = sender;
    struct message m = {.kind = MESSAGE_KEEP, .at = s->message.at, .of.id = *id};
    (void)send_it(s->socket, &m, HEAD + sizeof(m.of.id), fd, NULL);
}

static int send_all(const struct synthesis *s, struct sender *to, const pid_t *pids, size_t nr)
{
    struct synthesis own = *s;
    struct error err;
    own.put = put;
    own.context = to;
    own.keep = s->keep ? keep : NULL;
    for (size_t i = 0; i < nr; i++) {
        if (send_records(to, pids[i], &err) < 0 || synthesize_process(&own, pids[i], &err) < 0)
            return -1;
    }
    return send_records(to, 0, &err);
}

static void be_process(const struct synthesis *s, int socket, const pid_t *pids, size_t nr)
{
    struct error err;
    struct sender *to = calloc(1, sizeof(*to));
    pid_t recorder = getppid();
    if (!to || confine_reader(&socket, 1, socket, false, &err) < 0)
        _exit(1);
    to->socket = socket;
    int failed = getppid() != recorder || send_all(s, to, pids, nr) < 0;
    broker_end();
    _exit(failed);
}

/* ---- the recorder -------------------------------------------------------------------------- */

struct helper {
    pid_t pid;
    int socket;
    pid_t at; /* the process that it looks at */
    struct message message;
};

static int start(struct helper *h, const struct synthesis *s, const pid_t *pids, size_t nr,
                 struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_system(err, errno, "a socket cannot be created");
    h->pid = fork();
    if (h->pid == 0)
        be_process(s, ends[1], pids, nr);
    int why = errno;
    close(ends[1]);
    h->socket = ends[0];
    h->at = 0;
    if (h->pid > 0)
        return 0;
    close(ends[0]);
    return error_system(err, why, "a process cannot be created");
}

/* Whether bytes of a message are whole records of the kinds that are expected. */
static bool are_records(const uint8_t *at, size_t size)
{
    struct perf_event_header h;
    while (size >= sizeof(h)) {
        memcpy(&h, at, sizeof(h));
        if (h.size < sizeof(h) || h.size > size || h.size % 8 ||
            (h.type != PERF_RECORD_MMAP2 && h.type != PERF_RECORD_COMM &&
             h.type != PERF_RECORD_FORK && h.type != PERF_RECORD_NAMESPACES))
            return false;
        at += h.size;
        size -= h.size;
    }
    return size == 0;
}

static int put_records(const struct synthesis *s, const uint8_t *at, size_t size, struct error *err)
{
    struct perf_event_header h;
    for (; size; at += h.size, size -= h.size) {
        memcpy(&h, at, sizeof(h));
        if (s->put(s->context, at, h.size, err) < 0)
            return -1;
    }
    return 0;
}

/* What came of a look at the socket. */
enum taken {
    TAKEN_NOTHING,
    TAKEN_MESSAGE,
    TAKEN_END,      /* the process has ended */
    TAKEN_NONSENSE, /* what nobody understands */
    TAKEN_FAILED,   /* a record could not be put */
};

/* Do what a message says. */
static enum taken obey(struct helper *h, const struct synthesis *s, size_t size, int fd,
                       struct error *err)
{
    const struct message *m = &h->message;
    h->at = m->at;
    if (m->kind == MESSAGE_KEEP && size == sizeof(m->of.id) && fd >= 0 && s->keep &&
        m->of.id.size <= BUILD_ID_MAX) {
        s->keep(s->context, fd, &m->of.id);
        return TAKEN_MESSAGE;
    }
    if (m->kind == MESSAGE_RECORDS && are_records(m->of.records, size))
        return put_records(s, m->of.records, size, err) < 0 ? TAKEN_FAILED : TAKEN_MESSAGE;
    return TAKEN_NONSENSE;
}

static enum taken take(struct helper *h, const struct synthesis *s, struct error *err)
{
    int fd;
    ssize_t got = message_receive(h->socket, &h->message, sizeof(h->message), MSG_DONTWAIT, &fd);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? TAKEN_NOTHING : TAKEN_END;
    if (got == 0)
        return TAKEN_END;
    enum taken r = got < HEAD ? TAKEN_NONSENSE : obey(h, s, (size_t)got - HEAD, fd, err);
    if (fd >= 0)
        close(fd);
    return r;
}

/* Reap the process, ending it unless it has ended by itself. Returns whether it has done all. */
static bool reap(const struct helper *h, bool has_ended)
{
    int status = 1;
    if (!has_ended)
        kill(h->pid, SIGKILL);
    for (unsigned ms = 0; ms < END_MS || has_ended; ms++) { /* (one may wait in the kernel) */
        pid_t got = waitpid(h->pid, &status, WNOHANG);
        if (got == h->pid)
            return has_ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (got < 0 && errno != EINTR)
            break;
        usleep(1000);
    }
    return false;
}

/* Take all that a process sends. Returns 1: it has done all, or the recording is to end; 0: it is
 * lost; -1: an error. */
static int take_all(struct helper *h, const struct synthesis *s, struct error *err)
{
    const uint64_t most = (uint64_t)STANDS_MS * 1000000;
    uint64_t last = clock_ns(CLOCK_MONOTONIC);
    bool told = false;
    enum taken r = TAKEN_NOTHING;
    while (r == TAKEN_NOTHING && !told && clock_ns(CLOCK_MONOTONIC) - last < most) {
        struct pollfd p = {.fd = h->socket, .events = POLLIN};
        (void)poll(&p, 1, LOOK_MS);
        while ((r = take(h, s, err)) == TAKEN_MESSAGE)
            last = clock_ns(CLOCK_MONOTONIC);
        told = capture_is_told_to_end();
    }
    bool done = reap(h, r == TAKEN_END);
    return r == TAKEN_FAILED ? -1 : told || done;
}

/* The index of the process after the one at which a helper was lost. */
static size_t next_of(const pid_vec *pids, size_t from, pid_t at)
{
    size_t i = from;
    while (i < pids->nr && pids->at[i] != at)
        i++;
    return i < pids->nr ? i + 1 : from + 1;
}

static int synthesize_apart(const struct synthesis *s, const pid_vec *pids, synthesize_say say,
                            void *say_context, struct error *err)
{
    struct helper *h = calloc(1, sizeof(*h));
    unsigned losses = 0;
    int r = h ? 0 : error_no_memory(err);
    for (size_t i = 0; !r && i < pids->nr;) {
        char line[160];
        if ((r = start(h, s, pids->at + i, pids->nr - i, err)) < 0)
            break;
        r = take_all(h, s, err);
        close(h->socket);
        if (r)
            break;
        i = next_of(pids, i, h->at);
        bool is_last = ++losses == LOSSES_MAX;
        snprintf(line, sizeof(line), "what process %d has mapped cannot be read, and is left out%s",
                 (int)h->at, is_last ? ", and so are all that follow" : "");
        say(say_context, line);
        if (is_last)
            break;
    }
    free(h);
    return r < 0 ? -1 : 0;
}

int synthesize_processes(const struct synthesis *s, const pid_vec *pids, synthesize_say say,
                         void *say_context, struct error *err)
{
    if (confine_is_wanted())
        return synthesize_apart(s, pids, say, say_context, err);
    vec_foreach (pid, pids)
        if (synthesize_process(s, *pid, err) < 0)
            return -1;
    return 0;
}
