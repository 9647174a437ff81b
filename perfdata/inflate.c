/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The zstd stream inside COMPRESSED and COMPRESSED2 records. A file has one stream. The writer
 * flushes it at the end of each such record, but not at the ends of the records inside. An
 * incomplete record is kept until the next compressed record.
 */
#include "perfdata/perfdata_internal.h"

#include <stdlib.h>
#include <zstd.h>

enum {
    OUT_SIZE = 256 << 10, /* at least twice the largest record */
    FIRST_PART = 65519,   /* compressed bytes in each part but the last, if a record was pushed in
                             several parts */
    COMPRESSED2_HEAD = 16,
};

struct inflate {
    ZSTD_DStream *zstd;
    struct window out;
    ZSTD_inBuffer in;
    const uint8_t *rest; /* more type-83 records inside a wrapped record */
    uint64_t rest_size;
    uint64_t offset; /* offset in the file of the record being decompressed */
    bool full;       /* the decompressor may have more output */
};

static struct inflate *inflate_create(void)
{
    struct inflate *z = calloc(1, sizeof(*z));
    if (!z)
        return NULL;
    z->zstd = ZSTD_createDStream();
    z->out.bytes = malloc(OUT_SIZE);
    z->out.cap = OUT_SIZE;
    if (!z->zstd || !z->out.bytes) {
        inflate_free(z);
        return NULL;
    }
    /* perf compresses with windows of at most 8 MiB. Malicious streams may ask for more. */
    ZSTD_DCtx_setParameter(z->zstd, ZSTD_d_windowLogMax, 27);
    return z;
}

void inflate_free(struct inflate *z)
{
    if (!z)
        return;
    ZSTD_freeDStream(z->zstd);
    free(z->out.bytes);
    free(z);
}

size_t inflate_left(const struct inflate *z)
{
    return z ? z->out.end - z->out.at : 0;
}

/* Returns whether the type-83 records from `at` on end exactly at `size`. */
static bool chain_is_whole(const uint8_t *data, uint64_t at, uint64_t size, bool swap)
{
    while (size - at >= COMPRESSED2_HEAD) {
        uint32_t length = load_u16(data + at + 6, swap);
        if (load_u32(data + at, swap) != RECORD_COMPRESSED2 || length < COMPRESSED2_HEAD ||
            length > size - at)
            return false;
        at += length;
    }
    return at == size;
}

int inflate_record(struct stream *s, const uint8_t *data, uint64_t size, bool may_wrap,
                   uint64_t offset, struct error *err)
{
    if (!s->inflate)
        s->inflate = inflate_create();
    struct inflate *z = s->inflate;
    if (!z)
        return error_no_memory(err);
    uint64_t first = size;
    if (may_wrap && size > FIRST_PART) {
        if (!chain_is_whole(data, FIRST_PART, size, s->pd->swap)) {
            stream_damage(s, offset, ERROR_FORMAT, "a compressed record's parts do not add up");
            return 0;
        }
        first = FIRST_PART;
    }
    z->in = (ZSTD_inBuffer){data, first, 0};
    z->rest = data + first;
    z->rest_size = size - first;
    z->offset = offset;
    return 0;
}

/* Continue with the next part of a wrapped record. Returns false if there is none. */
static bool part_next(struct inflate *z, bool swap)
{
    if (!z->rest_size)
        return false;
    uint32_t length = load_u16(z->rest + 6, swap);
    z->in = (ZSTD_inBuffer){z->rest + COMPRESSED2_HEAD, length - COMPRESSED2_HEAD, 0};
    z->rest += length;
    z->rest_size -= length;
    return true;
}

/* Decompress more bytes. Returns 1, or 0 if the input is used up or damaged. */
static int inflate_more(struct stream *s)
{
    struct inflate *z = s->inflate;
    struct window *w = &z->out;
    if (z->in.pos == z->in.size && !z->full && !part_next(z, s->pd->swap))
        return 0;
    memmove(w->bytes, w->bytes + w->at, w->end - w->at);
    w->end -= w->at;
    w->at = 0;
    ZSTD_outBuffer out = {w->bytes, w->cap, w->end};
    size_t r = ZSTD_decompressStream(z->zstd, &out, &z->in);
    if (ZSTD_isError(r)) {
        char text[128];
        snprintf(text, sizeof(text), "a compressed record is damaged (zstd: %s)",
                 ZSTD_getErrorName(r));
        stream_damage(s, z->offset, ERROR_FORMAT, text);
        return 0;
    }
    z->full = out.pos == out.size;
    w->end = out.pos;
    return 1;
}

int inflate_next(struct stream *s, struct record *rec, struct error *err)
{
    struct inflate *z = s->inflate;
    struct window *w = &z->out;
    (void)err;
    for (;;) {
        size_t left = w->end - w->at;
        const uint8_t *p = w->bytes + w->at;
        uint32_t size = left < RECORD_HEADER ? 0 : load_u16(p + 6, s->pd->swap);
        if (left >= RECORD_HEADER && size < RECORD_HEADER) {
            if (!s->ended)
                stream_damage(s, z->offset, ERROR_FORMAT,
                              "a record inside a compressed one has a size below its header's");
            return 0;
        }
        if (left >= RECORD_HEADER && size <= left) {
            *rec = (struct record){.data = p, .offset = w->offset, .size = size};
            rec->type = load_u32(p, s->pd->swap);
            rec->misc = load_u16(p + 4, s->pd->swap);
            rec->stream = s->number;
            w->at += size;
            w->offset += size;
            return 1;
        }
        if (s->ended || !inflate_more(s))
            return 0;
    }
}
