/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages between our own processes, with descriptors: sockets of AF_UNIX and SOCK_SEQPACKET
 * (cmsg(3), SCM_RIGHTS). */
#ifndef BASE_MESSAGE_H
#define BASE_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Send parts as one message, with a descriptor (-1: without), which stays the caller's. Returns -1
 * with errno set if the other end is closed. */
int message_send(int socket, struct iovec *parts, size_t nr, int fd);

/* Receive a message of up to `size` bytes. `flags`: of recvmsg(), such as MSG_DONTWAIT. *fd: the
 * descriptor that came with it, which the caller closes (-1: none came). Returns its bytes; 0: the
 * other end is closed; -1: errno says why. */
ssize_t message_receive(int socket, void *to, size_t size, int flags, int *fd);

#endif
