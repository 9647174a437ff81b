/* SPDX-License-Identifier: GPL-2.0-only */
/* The broker itself. What it is asked is a stranger's word: each request is checked. See broker.h.
 */
#include "base/broker.h"

#include "base/message.h"
#include "base/other_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A request with its path, as it comes. */
struct asked {
    struct broker_request of;
    char path[PATH_MAX];
};

/* ---- what is given away -------------------------------------------------------------------- */

/* The part of a path behind the last slash. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "perf-PID.map" */
static bool is_perf_map(const char *path)
{
    unsigned pid;
    int end = 0;
    const char *name = name_of(path);
    return sscanf(name, "perf-%u.map%n", &pid, &end) == 1 && end && !name[end];
}

static bool is_dump(const char *path)
{
    const char *name = name_of(path), *end = strrchr(name, '.');
    return strncmp(name, "jit", 3) == 0 && end && strcmp(end, ".dump") == 0;
}

/* A name proves nothing: who owns the folder can put a link there, or mount another file. So a perf
 * map, which has no mark, must begin with a function: "START SIZE name". */
static bool begins_with_function(const char *head)
{
    char name;
    uint64_t start, size;
    return sscanf(head, "%" SCNx64 "%*[ \t]%" SCNx64 "%*[ \t]%c", &start, &size, &name) == 3;
}

/* Whether the process's user owns the file. */
static bool is_owners(int fd, pid_t pid)
{
    struct stat st;
    struct proc_place process;
    return pid && fstat(fd, &st) == 0 && proc_place(pid, "", &process) && st.st_uid == process.uid;
}

/* Whether a file is a program, or code that a program has written down. What was just created is
 * empty: then it must be the process's user's own. */
static bool is_code(int fd, const struct asked *q)
{
    static const char marks[][5] = {"\177ELF", "JiTD", "DTiJ"};
    char head[64];
    ssize_t got = pread(fd, head, sizeof(head) - 1, 0);
    if (got <= 0)
        return got == 0 && (is_perf_map(q->path) || is_dump(q->path)) && is_owners(fd, q->of.pid);
    head[got] = 0;
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        if (strncmp(head, marks[i], sizeof(marks[i]) - 1) == 0)
            return true;
    }
    return is_perf_map(q->path) && begins_with_function(head);
}

/* Returns the descriptor, if what is open may be given away. */
static int only_code(int fd, const struct asked *q)
{
    if (fd < 0 || is_code(fd, q))
        return fd;
    close(fd);
    errno = ENOTSUP;
    return -1;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Answer with a descriptor, or why there is none. Returns the descriptor. */
static int answer_open(const struct asked *q, struct broker_answer *a)
{
    const struct process_map map = {
        .start = q->of.start, .end = q->of.end, .inode = q->of.inode, .path = q->path};
    bool gone = false;
    int fd = -1;
    switch (q->of.what) {
    case BROKER_FILE:
        fd = only_code(other_file_open(q->path), q);
        break;
    case BROKER_SHARED:
        fd = only_code(other_file_open_shared(q->path), q);
        break;
    case BROKER_IN_ROOT:
        fd = only_code(other_file_open_in_root(q->of.pid, q->path), q);
        break;
    case BROKER_MAPPED:
        fd = only_code(other_file_open_mapped(q->of.pid, &map, &gone), q);
        break;
    default:
        fd = proc_open(q->of.pid, q->path);
        break;
    }
    a->gone = gone;
    a->why = fd < 0 ? errno : 0;
    return fd;
}

/* Answer with a list of what the words of the path lead to. */
static void answer_places(struct asked *q, struct broker_answer *a)
{
    char *rest;
    for (const char *word = strtok_r(q->path, " ", &rest); word && a->nr < BROKER_PLACES_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        struct proc_place *place = &a->of.places[a->nr++];
        if (!proc_place(q->of.pid, strcmp(word, ".") == 0 ? "" : word, place))
            a->why = errno;
    }
}

/* Returns how many bytes the answer has; `fd`: a descriptor that goes with it (-1: none). */
static size_t answer(struct asked *q, struct broker_answer *a, int *fd)
{
    const size_t head = offsetof(struct broker_answer, of);
    bool is = false;
    memset(a, 0, head);
    *fd = -1;
    switch (q->of.what) {
    case BROKER_STAT:
    case BROKER_STAT_IN_ROOT:
        errno = ENOENT;
        is = q->of.what == BROKER_STAT ? other_file_stat(q->path, &a->of.st)
                                       : other_file_stat_in_root(q->of.pid, q->path, &a->of.st);
        a->why = is ? 0 : errno;
        return head + (is ? sizeof(a->of.st) : 0);
    case BROKER_PLACES:
        answer_places(q, a);
        return head + a->nr * sizeof(*a->of.places);
    case BROKER_TASKS:
        a->nr = (uint32_t)proc_tasks(q->of.pid, q->of.start, a->of.tasks, PROC_TASKS_MAX,
                                     q->of.end ? fd : NULL);
        a->why = q->of.end && *fd < 0 ? errno : 0;
        return head + a->nr * sizeof(*a->of.tasks);
    case BROKER_PROCESSES:
        a->nr = (uint32_t)proc_processes((pid_t)q->of.start, a->of.pids, PROC_PIDS_MAX);
        return head + a->nr * sizeof(*a->of.pids);
    default:
        *fd = answer_open(q, a);
        return head;
    }
}

/* Send it; close the descriptor. Returns false if the other end is closed. */
static bool send_answer(int to, struct broker_answer *a, size_t size, int fd)
{
    struct iovec what = {a, size};
    bool sent = message_send(to, &what, 1, fd) == 0;
    if (fd >= 0)
        close(fd);
    return sent;
}

/* Whether the bytes are a request, with a whole path. */
static bool is_request(const struct asked *q, ssize_t got)
{
    const size_t head = offsetof(struct asked, path);
    if (got <= (ssize_t)head || (size_t)got > sizeof(*q) || q->of.what > BROKER_PROCESSES ||
        q->of.pid < 0)
        return false;
    const size_t length = (size_t)got - head - 1;
    return memchr(q->path, 0, length + 1) == &q->path[length];
}

void broker_serve(int socket)
{
    static struct asked q;
    static struct broker_answer a;
    ssize_t got;
    int fd;
    while (true) {
        got = recv(socket, &q, sizeof(q), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (!is_request(&q, got))
            break;
        size_t size = answer(&q, &a, &fd);
        if (!send_answer(socket, &a, size, fd))
            break;
    }
}
