/* SPDX-License-Identifier: GPL-2.0-only */
/* See private_file.h. */
#include "base/other_file.h"
#include "base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MODE = 0600 };

/* Read a user's or group's number; false: there is none. */
static bool number_of(const char *variable, unsigned *ret)
{
    const char *text = getenv(variable);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    *ret = (unsigned)value;
    return !errno && !*end && value < UINT_MAX;
}

/* Get who called sudo; false: nobody did. */
static bool caller_of_sudo(uid_t *user, gid_t *group)
{
    return geteuid() == 0 && number_of("SUDO_UID", user) && number_of("SUDO_GID", group);
}

bool has_callers_rights_only(void)
{
    const char *doas = getenv("DOAS_USER");
    unsigned user;
    if (getauxval(AT_SECURE) || geteuid() != getuid() || getegid() != getgid())
        return false;
    if (geteuid() != 0)
        return true;
    return !((number_of("SUDO_UID", &user) && user != 0) ||
             (number_of("PKEXEC_UID", &user) && user != 0) || (doas && strcmp(doas, "root") != 0));
}

static bool is_callers(uid_t owner)
{
    uid_t user;
    gid_t group;
    return owner == geteuid() || (caller_of_sudo(&user, &group) && owner == user);
}

/* Make an existing file empty and private. Returns 0 or what errno is. */
static int take_over(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    if (!is_callers(st.st_uid))
        return EPERM;
    return fchmod(fd, MODE) < 0 || ftruncate(fd, 0) < 0 ? errno : 0;
}

/* The kernel judges by the thread's own ids for files. (setgroups() of the C library would change
 * all threads.) */
int callers_file_open(const char *path)
{
    enum { NOBODY = 65534, GROUPS_MOST = 1024 };
    gid_t groups[GROUPS_MOST];
    uid_t user = NOBODY;
    gid_t group = NOBODY, own = getegid();
    if (geteuid() != 0)
        return other_file_open(path);
    if (!caller_of_sudo(&user, &group) || user == 0)
        user = group = NOBODY;
    int nr = getgroups(GROUPS_MOST, groups);
    if (nr < 0 || syscall(SYS_setgroups, 0, NULL) < 0)
        return -1;
    setfsgid(group);
    setfsuid(user);
    int fd = setfsuid((uid_t)-1) == (int)user ? other_file_open(path) : -1, why = errno;
    setfsuid(0);
    setfsgid(own);
    syscall(SYS_setgroups, nr, groups);
    errno = why;
    return fd;
}

FILE *callers_file_create(const char *path)
{
    enum { ANYBODY = 0666 };
    uid_t user;
    gid_t group;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, ANYBODY);
    if (fd < 0)
        return errno == EEXIST ? fopen(path, "we") : NULL;
    if (caller_of_sudo(&user, &group))
        (void)!fchown(fd, user, group);
    FILE *file = fdopen(fd, "w");
    if (!file)
        close(fd);
    return file;
}

int private_file_create(const char *path)
{
    uid_t user;
    gid_t group;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, MODE);
    if (fd >= 0 && caller_of_sudo(&user, &group))
        (void)!fchown(fd, user, group); /* else it is root's, which is private, too */
    if (fd >= 0 || errno != EEXIST)
        return fd;
    fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    int why = fd < 0 ? errno : take_over(fd);
    if (why && fd >= 0)
        close(fd);
    errno = why;
    return why ? -1 : fd;
}

int file_write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}
