/* SPDX-License-Identifier: GPL-2.0-only */
/* Copies a pipe with a memory log into a temporary file. The records of the log describe memory for
 * samples that came before them, so the recording has to be read twice. */
#include "base/private_file.h"
#include "base/unnamed_file.h"
#include "perfdata/perfdata_internal.h"
#include "perfdata/vmevent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY = 256 << 10, ATTR_OFFSET = RECORD_HEADER };

/* Returns whether an event of VM memory is announced. The events come first, each in its own
 * record. Reads no further than these records. */
static bool announces_log(struct stream *s)
{
    uint64_t left, at = 0;
    for (;;) {
        struct perf_event_attr attr;
        const uint8_t *p = stream_peek(s, at + RECORD_HEADER, &left);
        if (!p || load_u32(p + at, s->pd->swap) != PERF_RECORD_HEADER_ATTR)
            return false;
        uint16_t size = load_u16(p + at + 6, s->pd->swap);
        p = size > ATTR_OFFSET ? stream_peek(s, at + size, &left) : NULL;
        if (!p)
            return false;
        struct cursor c =
            cursor_make(p + at + ATTR_OFFSET, size - ATTR_OFFSET, s->pd->swap, s->path, "attr", at);
        if (attr_parse_own(&c, &attr) == 0 && vmevent_may_be(&attr))
            return true;
        at += size;
    }
}

static int copy_bytes(struct stream *s, int to, const uint8_t *bytes, size_t size,
                      struct error *err)
{
    if (file_write_all(to, bytes, size) == 0)
        return 0;
    return error_system(err, errno,
                        "%s: it cannot be kept in a temporary file to be read twice (set TMPDIR to "
                        "another place, or record into a file)",
                        s->path);
}

static int copy_rest(struct stream *s, int to, struct error *err)
{
    uint8_t *buffer = malloc(COPY);
    int r = buffer ? 0 : error_no_memory(err);
    while (!r) {
        ssize_t n = read(s->fd, buffer, COPY);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* after a read error, use what was read until then */
            break;
        r = copy_bytes(s, to, buffer, (size_t)n, err);
    }
    free(buffer);
    return r;
}

int stream_spool(struct stream *s, const uint8_t *head, size_t head_size, int *ret,
                 struct error *err)
{
    *ret = -1;
    if (!announces_log(s))
        return 0;
    int fd = unnamed_file("ljperf-pipe");
    if (fd < 0)
        return error_system(err, errno, "%s: a temporary file for it cannot be created", s->path);
    struct window *w = &s->in;
    if (copy_bytes(s, fd, head, head_size, err) < 0 ||
        copy_bytes(s, fd, w->bytes + w->at, w->end - w->at, err) < 0 || copy_rest(s, fd, err) < 0) {
        close(fd);
        return -1;
    }
    w->at = w->end;
    *ret = fd;
    return 0;
}
