/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Room for one descriptor. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int message_send(int socket, struct iovec *parts, size_t nr, int fd)
{
    union control control = {{0}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = nr};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof(control.bytes);
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* The descriptor that came with a message; -1: none. */
static int descriptor_of(struct msghdr *m)
{
    int fd = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

ssize_t message_receive(int socket, void *to, size_t size, int flags, int *fd)
{
    union control control;
    struct iovec what = {to, size};
    struct msghdr m;
    ssize_t got;
    do {
        m = (struct msghdr){.msg_iov = &what,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
        got = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR && !(flags & MSG_DONTWAIT));
    *fd = got > 0 ? descriptor_of(&m) : -1;
    return got;
}
