/* SPDX-License-Identifier: GPL-2.0-only */
/* See unnamed_file.h. */
#include "base/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

int unnamed_file(const char *what)
{
    const char *dir = getenv("TMPDIR");
    dir = dir && dir[0] == '/' ? dir : "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? memfd_create(what, MFD_CLOEXEC) : fd;
}
