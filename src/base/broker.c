/* SPDX-License-Identifier: GPL-2.0-only */
/* The reader's side of the broker. See broker.h. */
#include "base/broker.h"

#include "base/message.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a process may do is a state of the process, as its capabilities are: so is whom it asks. Set
 * once, while the process has one thread. */
static struct {
    pid_t pid; /* 0: there is no broker */
    int socket;
} broker;

bool broker_is_there(void)
{
    return broker.pid != 0;
}

int broker_ask(const struct broker_request *q, const char *path, struct broker_answer *ret)
{
    path = path ? path : "";
    const size_t length = strlen(path);
    int fd;
    if (length >= PATH_MAX) {
        ret->why = errno = ENAMETOOLONG;
        return -1;
    }
    struct iovec what[] = {{(void *)(uintptr_t)q, sizeof(*q)},
                           {(void *)(uintptr_t)path, length + 1}};
    if (message_send(broker.socket, what, 2, -1) < 0 ||
        message_receive(broker.socket, ret, sizeof(*ret), 0, &fd) <
            (ssize_t)offsetof(struct broker_answer, of)) {
        ret->why = errno = EPIPE;
        return -1;
    }
    errno = ret->why;
    return fd;
}

static void be_broker(int socket, pid_t reader, int (*confine)(int, struct error *))
{
    struct error err;
    broker.pid = 0; /* (the one that there was before) */
    (void)prctl(PR_SET_NAME, "ljperf-broker");
    if (confine(socket, &err) >= 0 && getppid() == reader)
        broker_serve(socket);
    _exit(0);
}

int broker_begin(int (*confine)(int socket, struct error *err), struct error *err)
{
    int ends[2];
    const pid_t reader = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_system(err, errno, "a socket cannot be created");
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        be_broker(ends[1], reader, confine);
    }
    int why = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return error_system(err, why, "a process cannot be created");
    }
    broker.pid = pid;
    broker.socket = ends[0];
    return ends[0];
}

void broker_end(void)
{
    if (!broker.pid)
        return;
    close(broker.socket);
    while (waitpid(broker.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    broker.socket = -1; /* (whoever still asks is told that the broker is gone) */
}
