/* SPDX-License-Identifier: GPL-2.0-only */
/* See source_file.h. */
#include "output/source_file.h"
#include "base/other_file.h"
#include "base/private_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20 };

void source_file_free(struct source_file *s)
{
    free(s->bytes);
    s->bytes = NULL;
}

static bool read_at(struct source_file *s, const struct source_place *place, const char *root,
                    const char *slash, const char *file)
{
    struct stat st;
    if ((size_t)snprintf(s->path, sizeof(s->path), "%s%s%s", root, slash, file) >= sizeof(s->path))
        return false;
    int fd = place->for_others ? callers_file_open(s->path) : other_file_open(s->path);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0)
        close(fd);
    if (!f)
        return false;
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MOST)
        s->bytes = malloc((size_t)st.st_size + 1);
    if (s->bytes) {
        s->size = fread(s->bytes, 1, (size_t)st.st_size, f);
        s->bytes[s->size] = 0;
        s->changed = st.st_mtime;
    }
    fclose(f);
    return s->bytes;
}

bool source_file_read(const struct source_place *place, const char *name, struct source_file *ret)
{
    static const char url[] = "file://";
    if (strncmp(name, url, sizeof(url) - 1) == 0)
        name += sizeof(url) - 1;
    const char *last = strrchr(name, '/');
    const char *slash = *name == '/' ? "" : "/";
    if (place->folder && (read_at(ret, place, place->folder, slash, name) ||
                          read_at(ret, place, place->folder, "/", last ? last + 1 : name)))
        return true;
    return read_at(ret, place, place->symfs && *name == '/' ? place->symfs : "", "", name);
}
