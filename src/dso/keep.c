/* SPDX-License-Identifier: GPL-2.0-only */
/* Copies a file that will be gone into perf's build-id cache (~/.debug), where dso_image() finds
 * it. */
#include "dso/dso.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEEP_MAX = 512 << 20 }; /* bytes; larger files are not kept */

/* Make the folders of a path behind its first `from` bytes. Returns false if one of them is not a
 * folder of ours: whoever can write there would choose where we write. */
static bool make_folders(char *path, size_t from)
{
    struct stat st;
    bool ours = true;
    for (char *at = path + from; ours && (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(path, 0755); /* it may be there */
        ours = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
               !(st.st_mode & 022);
        *at = '/';
    }
    return ours;
}

static bool copy_all(int from, int to, off_t size)
{
    for (off_t at = 0; size > 0;) {
        ssize_t n = sendfile(to, from, &at, (size_t)size);
        if (n <= 0)
            return false;
        size -= n;
    }
    return true;
}

/* The name is put in place when the copy is whole. */
static bool copy_file(int from, off_t size, const char *to)
{
    char part[PATH_MAX];
    int n = snprintf(part, sizeof(part), "%s.%d", to, (int)getpid());
    int fd = n > 0 && (size_t)n < sizeof(part)
                 ? open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)
                 : -1;
    if (fd < 0)
        return false;
    bool ok = copy_all(from, fd, size);
    ok = close(fd) == 0 && ok && rename(part, to) == 0;
    if (!ok)
        unlink(part);
    return ok;
}

bool dso_keep_copy(int from, const struct build_id *id)
{
    char to[PATH_MAX], hex[2 * BUILD_ID_MAX + 1];
    const char *home = getenv("HOME");
    struct stat st;
    build_id_hex(id, hex);
    if (!home || id->size < 2)
        return false;
    int n = snprintf(to, sizeof(to), "%s/.debug/.build-id/%.2s/%s/elf", home, hex, hex + 2);
    if (n < 0 || (size_t)n >= sizeof(to))
        return false;
    if (access(to, R_OK) == 0)
        return true;
    return fstat(from, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= KEEP_MAX &&
           make_folders(to, strlen(home) + 1) && copy_file(from, st.st_size, to);
}
