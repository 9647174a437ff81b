/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads the records of a file's data section, a pipe or a data.N one after the other, unchanged. */
#include "perfdata/perfdata_internal.h"
#include "base/file_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WINDOW_START = 256 << 10,
    WINDOW_MAX = 64 << 20, /* no valid record or tracing data is larger */
    COMPRESSED2_HEAD = 16,
    AUXTRACE_HEAD = 48,
    TRACING_HEAD = 16,
};

uint64_t stream_offset(const struct stream *s)
{
    return s->fd < 0 ? s->at : s->in.offset;
}

static uint64_t stream_left(const struct stream *s)
{
    return s->fd < 0 ? s->end - s->at : s->in.end - s->in.at;
}

void stream_damage(struct stream *s, uint64_t offset, enum error_kind kind, const char *text)
{
    struct perfdata *pd = s->pd;
    s->ended = true;
    pd->loss.bytes_unread += stream_left(s);
    if (pd->loss.damage.kind == ERROR_NONE)
        error_set(&pd->loss.damage, kind, "%s: offset 0x%" PRIx64 ": %s", s->path, offset, text);
}

/* Make the window hold `want` bytes if the descriptor has them. */
static bool window_fill(struct stream *s, size_t want)
{
    struct window *w = &s->in;
    if (w->cap - w->at < want) {
        if (w->end > w->at)
            memmove(w->bytes, w->bytes + w->at, w->end - w->at);
        w->end -= w->at;
        w->at = 0;
    }
    while (w->end - w->at < want) {
        if (w->end == w->cap) { /* grow as bytes arrive, not as much as a record claims */
            size_t cap = w->cap ? w->cap * 2 : WINDOW_START;
            uint8_t *p = realloc(w->bytes, cap);
            if (!p)
                return false;
            w->bytes = p;
            w->cap = cap;
        }
        ssize_t n = read(s->fd, w->bytes + w->end, w->cap - w->end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            struct error e;
            error_system(&e, errno, "the file cannot be read");
            stream_damage(s, stream_offset(s), ERROR_SYSTEM, e.text);
        }
        if (n <= 0)
            return false;
        w->end += (size_t)n;
    }
    return true;
}

/* Drop bytes that stream_take() could not drop because they were not yet read. */
static void window_skip(struct stream *s)
{
    struct window *w = &s->in;
    while (s->skip) {
        if (w->at == w->end && !window_fill(s, 1))
            return;
        uint64_t n = w->end - w->at < s->skip ? w->end - w->at : s->skip;
        w->at += n;
        w->offset += n;
        s->skip -= n;
    }
}

const uint8_t *stream_peek(struct stream *s, uint64_t want, uint64_t *ret)
{
    if (s->fd >= 0) {
        window_skip(s);
        if (s->in.end - s->in.at < want && want <= WINDOW_MAX)
            window_fill(s, want);
    }
    *ret = stream_left(s);
    if (*ret < want)
        return NULL;
    return s->fd < 0 ? s->map + s->at : s->in.bytes + s->in.at;
}

void stream_take(struct stream *s, uint64_t size)
{
    uint64_t here = stream_left(s) < size ? stream_left(s) : size;
    if (s->fd < 0) {
        s->at += here;
    } else {
        s->in.at += here;
        s->in.offset += here;
        s->skip = size - here;
    }
}

/* End the records here; the last `left` bytes are not a whole record. */
static int stream_cut(struct stream *s, uint64_t left)
{
    s->ended = true;
    if (s->killed)
        s->pd->loss.bytes_unread += left;
    else if (left)
        stream_damage(s, stream_offset(s), ERROR_TRUNCATED, "ends in the middle of a record");
    else if (s->cut)
        stream_damage(s, stream_offset(s), ERROR_TRUNCATED,
                      "ends before the data section its header announces does");
    return 0;
}

/* Returns the bytes that a COMPRESSED2 record takes; 0: its sizes are malformed. If its 16-bit size
 * wrapped (writers of perf 6.16 and later, until fixed), the record is 16 + data_size bytes long
 * and has no padding. */
static uint64_t compressed2_extent(uint16_t size, uint64_t data_size)
{
    if (data_size > WINDOW_MAX)
        return 0;
    uint64_t padded = (COMPRESSED2_HEAD + data_size + 7) & ~UINT64_C(7);
    if (padded <= size)
        return size;
    return (uint16_t)padded == size ? COMPRESSED2_HEAD + data_size : 0;
}

/* Get the number of bytes that follow a record but are not counted in its size. Returns -1 if the
 * record is too short. */
static int payload_size(const struct stream *s, const struct record *rec, uint64_t *ret)
{
    *ret = 0;
    if (rec->type == PERF_RECORD_AUXTRACE) {
        if (rec->size < AUXTRACE_HEAD)
            return -1;
        *ret = load_u64(rec->data + 8, s->pd->swap);
    } else if (rec->type == PERF_RECORD_HEADER_TRACING_DATA) {
        if (rec->size < TRACING_HEAD)
            return -1;
        *ret = load_u32(rec->data + 8, s->pd->swap);
    }
    return 0;
}

/* Find the end of a record that has bytes behind it, or whose size may have wrapped. Returns 1 with
 * rec->size set; for tracing data it includes the payload. */
static int extent_find(struct stream *s, struct record *rec, uint64_t *take)
{
    uint64_t left, payload;
    if (rec->type == RECORD_COMPRESSED2) {
        const uint8_t *p = stream_peek(s, COMPRESSED2_HEAD, &left);
        if (!p)
            return stream_cut(s, left);
        *take = compressed2_extent((uint16_t)rec->size, load_u64(p + 8, s->pd->swap));
        if (*take)
            rec->size = (uint32_t)*take;
    }
    if (rec->size < RECORD_HEADER) {
        stream_damage(s, rec->offset, ERROR_FORMAT, "a record's size is below its header's");
        return 0;
    }
    rec->data = stream_peek(s, rec->size, &left);
    if (!rec->data)
        return stream_cut(s, left);
    if (payload_size(s, rec, &payload) < 0) {
        stream_damage(s, rec->offset, ERROR_FORMAT, "a record is too short for its payload's size");
        return 0;
    }
    *take = rec->size + payload;
    if (payload > UINT64_MAX - rec->size || (s->fd < 0 && *take > left))
        return stream_cut(s, left);
    if (rec->type == PERF_RECORD_HEADER_TRACING_DATA) { /* meta_apply() needs all of it */
        rec->data = stream_peek(s, *take, &left);
        if (!rec->data)
            return stream_cut(s, left);
        rec->size = (uint32_t)*take;
    }
    return 1;
}

static int outer_next(struct stream *s, struct record *rec)
{
    uint64_t left, take = 0;
    if (s->ended)
        return 0;
    const uint8_t *p = stream_peek(s, RECORD_HEADER, &left);
    if (!p)
        return s->ended ? 0 : stream_cut(s, left);
    rec->offset = stream_offset(s);
    rec->stream = s->number;
    rec->type = load_u32(p, s->pd->swap);
    rec->misc = load_u16(p + 4, s->pd->swap);
    rec->size = load_u16(p + 6, s->pd->swap);
    if (rec->type >= PERF_RECORD_USER_TYPE_START || rec->size < RECORD_HEADER) {
        int r = extent_find(s, rec, &take);
        if (r <= 0)
            return r;
    } else {
        take = rec->size;
        rec->data = stream_peek(s, take, &left);
        if (!rec->data)
            return stream_cut(s, left);
    }
    stream_take(s, take);
    return 1;
}

/* Begin to decompress the compressed bytes of a record. */
static int inflate_start(struct stream *s, const struct record *rec, struct error *err)
{
    uint64_t head = rec->type == PERF_RECORD_COMPRESSED ? RECORD_HEADER : COMPRESSED2_HEAD;
    uint64_t size = rec->size - head;
    if (rec->type == RECORD_COMPRESSED2) {
        uint64_t data_size = load_u64(rec->data + 8, s->pd->swap);
        if (rec->size < head || data_size > size) {
            stream_damage(s, rec->offset, ERROR_FORMAT, "a compressed record's sizes contradict");
            return 0;
        }
        size = data_size;
    }
    return inflate_record(s, rec->data + head, size, rec->type == RECORD_COMPRESSED2, rec->offset,
                          err);
}

/* Handle the end of the stream, which may be inside the last record of a compressed record. */
static int stream_end(struct stream *s)
{
    size_t left = inflate_left(s->inflate);
    bool damaged = s->pd->loss.damage.kind != ERROR_NONE;
    s->pd->loss.bytes_unread += left;
    if (left && !s->killed && !damaged)
        stream_damage(s, stream_offset(s), ERROR_TRUNCATED,
                      "the compressed data ends in the middle of a record");
    inflate_free(s->inflate);
    s->inflate = NULL;
    return 0;
}

int stream_next(struct stream *s, struct record *ret, bool *transient, struct error *err)
{
    for (;;) {
        *transient = true;
        int r = s->inflate ? inflate_next(s, ret, err) : 0;
        if (r)
            return r;
        *transient = s->fd >= 0;
        if (s->skim.on && !s->ended && skim_next(s, ret))
            return 1;
        r = outer_next(s, ret);
        if (r <= 0)
            return stream_end(s);
        if (ret->type != PERF_RECORD_COMPRESSED && ret->type != RECORD_COMPRESSED2)
            return 1;
        if (inflate_start(s, ret, err) < 0)
            return -1;
        if (s->pd->options.raw)
            return 1;
    }
}

void stream_close(struct stream *s)
{
    inflate_free(s->inflate);
    skim_stop(s);
    free(s->in.bytes);
    free(s->path);
    if (s->map_owned)
        file_unmap((void *)s->map, s->map_size);
    if (s->fd > STDIN_FILENO)
        close(s->fd);
}
