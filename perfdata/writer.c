/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes recordings that perf can read. The file form is: header, ids, attrs, records, feature
 * table, sections. The pipe form begins with HEADER_ATTR, EVENT_UPDATE (names) and HEADER_FEATURE
 * records; therefore all features must be set before the first record.
 *
 * With compression, the kernel's records are collected and pushed through one zstd stream as
 * COMPRESSED records. The stream is flushed at the end of each of them. perf's own records stay
 * uncompressed, in their place.
 */
#include "perfdata/perfdata_internal.h"
#include "base/private_file.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

enum {
    FILE_HEADER = 104,
    DATA_SIZE_AT = 48, /* in the header: see file_header() */
    ATTR_ENTRY = sizeof(struct perf_event_attr) + ID_ENTRY,
    FEATURE_HEAD = sizeof(struct perf_record_header_feature),
    LAST_FEATURE = HEADER_PMU_CAPS + 1, /* the mark behind the last feature of a pipe */
    RECORD_MAX = UINT16_MAX,
    COLLECT = 128 << 10, /* bytes to compress at once */
    STRING_ALIGN = 64,
    NAME_RECORD = sizeof(struct perf_event_header) + 16,
    BUFFER = 1 << 20,         /* bytes to write at once */
    SALVAGE_ROOM = 256 << 10, /* bytes that must be freed on a full disk to write the features */
};

struct section {
    uint64_t at, size;
};

struct writer_event {
    struct perf_event_attr attr;
    char *name;
    uint64_t *ids;
    size_t nr_ids;
};

struct perfdata_writer {
    FILE *out;
    char *path;
    struct perfdata_writer_options options;
    struct writer_event *events;
    size_t nr_events;
    byte_vec features[FEATURES];
    bool has_feature[FEATURES];
    bool started; /* a record was written */
    uint64_t data_at, data_size;
    ZSTD_CStream *zstd;
    byte_vec collected;
    uint64_t plain_bytes, compressed_bytes;
    char *buffer;       /* stdio buffer of `out` */
    uint64_t flushed;   /* data_size at the last flush */
    uint64_t mark;      /* data_size at an earlier flush */
    uint64_t safe_size; /* data_size at a flush at least SALVAGE_ROOM before `mark`; 0: none */
};

static bool u32_add(byte_vec *v, uint32_t value)
{
    return vec_append(v, &value, sizeof(value));
}

static bool string_add(byte_vec *v, const char *s)
{
    static const char zeros[STRING_ALIGN];
    size_t size = strlen(s) + 1, padded = (size + STRING_ALIGN - 1) & ~(size_t)(STRING_ALIGN - 1);
    return u32_add(v, (uint32_t)padded) && vec_append(v, s, size) &&
           vec_append(v, zeros, padded - size);
}

static int put(struct perfdata_writer *w, const void *p, size_t size, struct error *err)
{
    if (size && fwrite(p, 1, size, w->out) != size)
        return error_system(err, errno, "%s: cannot be written", w->path);
    return 0;
}

/* Write bytes of records, which count as data section. */
static int put_record(struct perfdata_writer *w, const void *p, size_t size, struct error *err)
{
    w->data_size += size;
    return put(w, p, size, err);
}

/* ---- compression -------------------------------------------------------------------------- */

/* Write the collected records as COMPRESSED records. */
static int compress_flush(struct perfdata_writer *w, struct error *err)
{
    ZSTD_inBuffer in = {w->collected.at, w->collected.nr, 0};
    uint8_t record[RECORD_MAX];
    size_t left = w->collected.nr != 0;
    while (left) {
        ZSTD_outBuffer out = {record + RECORD_HEADER, sizeof(record) - RECORD_HEADER, 0};
        left = ZSTD_compressStream2(w->zstd, &out, &in, ZSTD_e_flush);
        if (ZSTD_isError(left))
            return error_set(err, ERROR_SYSTEM, "%s: zstd: %s", w->path, ZSTD_getErrorName(left));
        struct perf_event_header h = {PERF_RECORD_COMPRESSED, 0,
                                      (uint16_t)(RECORD_HEADER + out.pos)};
        memcpy(record, &h, sizeof(h));
        if (put_record(w, record, h.size, err) < 0)
            return -1;
        w->compressed_bytes += out.pos;
    }
    w->plain_bytes += w->collected.nr;
    w->collected.nr = 0;
    return 0;
}

/* COMPRESSED: version, type zstd, level, ratio, the most bytes one record may decompress to. */
static int compressed_feature(struct perfdata_writer *w, struct error *err)
{
    uint32_t ratio = w->compressed_bytes ? (uint32_t)(w->plain_bytes / w->compressed_bytes) : 1;
    const uint32_t words[] = {1, 1, (uint32_t)w->options.zstd_level, ratio, COLLECT + RECORD_MAX};
    return perfdata_writer_feature(w, HEADER_COMPRESSED, words, sizeof(words), err);
}

static int compress_record(struct perfdata_writer *w, const struct iovec *parts, int nr,
                           struct error *err)
{
    for (int i = 0; i < nr; i++)
        if (!vec_append(&w->collected, parts[i].iov_base, parts[i].iov_len))
            return error_no_memory(err);
    return w->collected.nr >= COLLECT ? compress_flush(w, err) : 0;
}

/* ---- events ------------------------------------------------------------------------------- */

/* EVENT_DESC tells readers the names of the events. */
static int event_desc_feature(struct perfdata_writer *w, struct error *err)
{
    byte_vec v = {0};
    bool ok = u32_add(&v, (uint32_t)w->nr_events) && u32_add(&v, sizeof(struct perf_event_attr));
    for (size_t i = 0; ok && i < w->nr_events; i++) {
        const struct writer_event *e = &w->events[i];
        ok = vec_append(&v, &e->attr, sizeof(e->attr)) && u32_add(&v, (uint32_t)e->nr_ids) &&
             string_add(&v, e->name) && vec_append(&v, e->ids, e->nr_ids * sizeof(*e->ids));
    }
    int r =
        ok ? perfdata_writer_feature(w, HEADER_EVENT_DESC, v.at, v.nr, err) : error_no_memory(err);
    vec_free(&v);
    return r;
}

static int event_copy(struct writer_event *to, const struct perfdata_event *from)
{
    to->attr = from->attr;
    to->attr.size = sizeof(to->attr);
    to->name = from->name && *from->name ? strdup(from->name) : attr_name(&from->attr);
    to->nr_ids = from->nr_ids;
    to->ids = malloc(from->nr_ids * sizeof(*to->ids) + 1);
    if (!to->name || !to->ids)
        return -1;
    if (from->nr_ids)
        memcpy(to->ids, from->ids, from->nr_ids * sizeof(*to->ids));
    return 0;
}

/* ---- the frame of the file form ----------------------------------------------------------- */

/* Write the header. Until the file is finished, it has no features and data size 0; a flush then
 * writes the size so far (see tell_size()). */
static int file_header(struct perfdata_writer *w, uint64_t attrs_at, bool finished,
                       struct error *err)
{
    struct {
        uint64_t magic, size, attr_size;
        struct section attrs, data, types;
        uint64_t bitmap[FEATURES / 64];
    } h = {.magic = PERFDATA_MAGIC,
           .size = FILE_HEADER,
           .attr_size = ATTR_ENTRY,
           .attrs = {attrs_at, w->nr_events * ATTR_ENTRY},
           .data = {w->data_at, finished ? w->data_size : 0}};
    _Static_assert(sizeof(h) == FILE_HEADER, "the layout of perf_file_header");
    for (unsigned i = 0; finished && i < FEATURES; i++) /* features are behind the records */
        if (w->has_feature[i])
            h.bitmap[i / 64] |= UINT64_C(1) << (i % 64);
    return put(w, &h, sizeof(h), err);
}

static uint64_t ids_bytes(const struct perfdata_writer *w)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->nr_events; i++)
        bytes += w->events[i].nr_ids * sizeof(uint64_t);
    return bytes;
}

static int file_start(struct perfdata_writer *w, struct error *err)
{
    uint64_t at = FILE_HEADER, attrs_at = FILE_HEADER + ids_bytes(w);
    w->data_at = attrs_at + w->nr_events * ATTR_ENTRY;
    if (file_header(w, attrs_at, false, err) < 0)
        return -1;
    for (size_t i = 0; i < w->nr_events; i++)
        if (put(w, w->events[i].ids, w->events[i].nr_ids * sizeof(uint64_t), err) < 0)
            return -1;
    for (size_t i = 0; i < w->nr_events; i++) {
        struct section ids = {at, w->events[i].nr_ids * sizeof(uint64_t)};
        if (put(w, &w->events[i].attr, sizeof(struct perf_event_attr), err) < 0 ||
            put(w, &ids, sizeof(ids), err) < 0)
            return -1;
        at += ids.size;
    }
    return 0;
}

/* Write the feature table and the sections behind the records, then the header that refers to
 * them. */
static int file_finish(struct perfdata_writer *w, struct error *err)
{
    uint64_t at = w->data_at + w->data_size;
    for (unsigned i = 0; i < FEATURES; i++)
        at += w->has_feature[i] ? sizeof(struct section) : 0;
    for (unsigned i = 0; i < FEATURES; i++) {
        struct section s = {at, w->features[i].nr};
        if (w->has_feature[i] && put(w, &s, sizeof(s), err) < 0)
            return -1;
        at += s.size;
    }
    for (unsigned i = 0; i < FEATURES; i++)
        if (w->has_feature[i] && put(w, w->features[i].at, w->features[i].nr, err) < 0)
            return -1;
    if (fseeko(w->out, 0, SEEK_SET) < 0)
        return error_system(err, errno, "%s: cannot be written", w->path);
    return file_header(w, FILE_HEADER + ids_bytes(w), true, err);
}

/* ---- the frame of the pipe form ----------------------------------------------------------- */

static int pipe_attr(struct perfdata_writer *w, const struct writer_event *e, struct error *err)
{
    size_t size = RECORD_HEADER + sizeof(e->attr) + e->nr_ids * sizeof(uint64_t);
    if (size > RECORD_MAX)
        return error_set(err, ERROR_UNSUPPORTED, "%s: event %s has too many ids for a pipe",
                         w->path, e->name);
    struct perf_event_header h = {PERF_RECORD_HEADER_ATTR, 0, (uint16_t)size};
    return put(w, &h, sizeof(h), err) < 0 || put(w, &e->attr, sizeof(e->attr), err) < 0 ||
                   put(w, e->ids, e->nr_ids * sizeof(uint64_t), err) < 0
               ? -1
               : 0;
}

/* Write an EVENT_UPDATE with the name, for the event with the first id. */
static int pipe_name(struct perfdata_writer *w, const struct writer_event *e, struct error *err)
{
    static const char zeros[8];
    size_t length = strlen(e->name) + 1, padded = (length + 7) & ~(size_t)7;
    if (!e->nr_ids || padded > RECORD_MAX - NAME_RECORD)
        return 0;
    struct perf_event_header h = {PERF_RECORD_EVENT_UPDATE, 0, (uint16_t)(NAME_RECORD + padded)};
    const uint64_t words[] = {PERF_EVENT_UPDATE__NAME, e->ids[0]};
    return put(w, &h, sizeof(h), err) < 0 || put(w, words, sizeof(words), err) < 0 ||
                   put(w, e->name, length, err) < 0 || put(w, zeros, padded - length, err) < 0
               ? -1
               : 0;
}

static int pipe_feature(struct perfdata_writer *w, uint64_t number, const byte_vec *v,
                        struct error *err)
{
    static const char zeros[8];
    size_t size = v ? v->nr : 0, padded = (size + 7) & ~(size_t)7;
    if (padded > RECORD_MAX - FEATURE_HEAD) /* too long for a record: readers do without it */
        return 0;
    struct perf_event_header h = {PERF_RECORD_HEADER_FEATURE, 0, (uint16_t)(FEATURE_HEAD + padded)};
    return put(w, &h, sizeof(h), err) < 0 || put(w, &number, sizeof(number), err) < 0 ||
                   put(w, v ? v->at : NULL, size, err) < 0 || put(w, zeros, padded - size, err) < 0
               ? -1
               : 0;
}

/* Write the tracing data, which follows its record. */
static int pipe_tracing(struct perfdata_writer *w, const byte_vec *v, struct error *err)
{
    static const char zeros[8];
    size_t padded = (v->nr + 7) & ~(size_t)7;
    struct perf_record_header_tracing_data t = {
        .header = {PERF_RECORD_HEADER_TRACING_DATA, 0, sizeof(t)}, .size = (uint32_t)padded};
    return put(w, &t, sizeof(t), err) < 0 || put(w, v->at, v->nr, err) < 0 ||
                   put(w, zeros, padded - v->nr, err) < 0
               ? -1
               : 0;
}

static int pipe_start(struct perfdata_writer *w, struct error *err)
{
    const uint64_t head[] = {PERFDATA_MAGIC, 2 * sizeof(uint64_t)};
    if (put(w, head, sizeof(head), err) < 0)
        return -1;
    for (size_t i = 0; i < w->nr_events; i++)
        if (pipe_attr(w, &w->events[i], err) < 0)
            return -1;
    for (size_t i = 0; i < w->nr_events; i++)
        if (pipe_name(w, &w->events[i], err) < 0)
            return -1;
    for (unsigned i = HEADER_BUILD_ID + 1; i < FEATURES; i++)
        if (w->has_feature[i] && pipe_feature(w, i, &w->features[i], err) < 0)
            return -1;
    if (pipe_feature(w, LAST_FEATURE, NULL, err) < 0)
        return -1;
    return w->has_feature[HEADER_TRACING_DATA]
               ? pipe_tracing(w, &w->features[HEADER_TRACING_DATA], err)
               : 0;
}

/* ---- the interface ------------------------------------------------------------------------ */

static int writer_start(struct perfdata_writer *w, struct error *err)
{
    if (w->started)
        return 0;
    w->started = true;
    if (w->zstd && compressed_feature(w, err) < 0)
        return -1;
    return w->options.pipe ? pipe_start(w, err) : file_start(w, err);
}

static int not_seekable(const struct perfdata_writer *w, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     "%s: this is not a regular file; only the pipe form can be written there",
                     w->path);
}

static int writer_open(struct perfdata_writer *w, struct error *err)
{
    struct stat st;
    /* opening a FIFO would wait for a reader */
    if (!w->options.pipe && stat(w->path, &st) == 0 && S_ISFIFO(st.st_mode))
        return not_seekable(w, err);
    int fd = strcmp(w->path, "-") == 0 ? dup(STDOUT_FILENO) : private_file_create(w->path);
    w->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!w->out) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return why == EPERM ? error_set(err, ERROR_SYSTEM,
                                        "%s: this file belongs to another user, who could read the "
                                        "recording; remove it, or give another name",
                                        w->path)
                            : error_system(err, why, "%s", w->path);
    }
    if (!w->options.pipe && fseeko(w->out, 0, SEEK_CUR) < 0)
        return not_seekable(w, err);
    w->buffer = malloc(BUFFER);
    if (w->buffer)
        setvbuf(w->out, w->buffer, _IOFBF, BUFFER);
    if (w->options.zstd_level <= 0)
        return 0;
    w->zstd = ZSTD_createCStream();
    if (!w->zstd)
        return error_no_memory(err);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->options.zstd_level);
    return 0;
}

int perfdata_writer_create(const char *path, const struct perfdata_writer_options *options,
                           const struct perfdata_event *events, size_t nr_events,
                           struct perfdata_writer **ret, struct error *err)
{
    struct perfdata_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return error_no_memory(err);
    int r = 0;
    w->options = *options;
    w->path = strdup(path);
    w->events = calloc(nr_events + 1, sizeof(*w->events));
    if (!w->path || !w->events) {
        perfdata_writer_destroy(w);
        return error_no_memory(err);
    }
    for (size_t i = 0; !r && i < nr_events; i++, w->nr_events++)
        if (event_copy(&w->events[i], &events[i]) < 0)
            r = error_no_memory(err);
    if (!r)
        r = writer_open(w, err);
    if (!r)
        r = event_desc_feature(w, err);
    if (r < 0) {
        perfdata_writer_destroy(w);
        return -1;
    }
    *ret = w;
    return 0;
}

int perfdata_writer_parts(struct perfdata_writer *w, const struct iovec *parts, int nr,
                          struct error *err)
{
    struct perf_event_header h = {0};
    size_t size = 0;
    for (int i = 0; i < nr; i++)
        size += parts[i].iov_len;
    if (nr && parts[0].iov_len >= sizeof(h))
        memcpy(&h, parts[0].iov_base, sizeof(h));
    if (size < RECORD_HEADER || h.size != size)
        return error_set(err, ERROR_FORMAT, "%s: a record's size is not its header's", w->path);
    if (writer_start(w, err) < 0)
        return -1;
    if (w->zstd && h.type < PERF_RECORD_USER_TYPE_START)
        return compress_record(w, parts, nr, err);
    if (w->zstd && compress_flush(w, err) < 0)
        return -1;
    for (int i = 0; i < nr; i++)
        if (put_record(w, parts[i].iov_base, parts[i].iov_len, err) < 0)
            return -1;
    return 0;
}

int perfdata_writer_record(struct perfdata_writer *w, const void *record, size_t size,
                           struct error *err)
{
    return perfdata_writer_parts(w, &(struct iovec){(void *)record, size}, 1, err);
}

int perfdata_writer_feature(struct perfdata_writer *w, unsigned number, const void *bytes,
                            size_t size, struct error *err)
{
    if (!number || number >= FEATURES)
        return error_set(err, ERROR_UNSUPPORTED, "%s: there is no feature %u", w->path, number);
    byte_vec v = {0};
    if (!vec_append(&v, bytes, size))
        return error_no_memory(err);
    vec_free(&w->features[number]);
    w->features[number] = v;
    w->has_feature[number] = true;
    /* It is too late to put it at the start of the pipe, so give it its own record. */
    return w->options.pipe && w->started && number != HEADER_COMPRESSED
               ? pipe_feature(w, number, &w->features[number], err)
               : 0;
}

/* Write the size of the whole records so far, for readers of the file in case the recorder is
 * killed: without it perf reads no record. */
static int tell_size(const struct perfdata_writer *w, struct error *err)
{
    const uint64_t size = w->data_size;
    if (w->options.pipe || !w->started)
        return 0;
    return pwrite(fileno(w->out), &size, sizeof(size), DATA_SIZE_AT) == sizeof(size)
               ? 0
               : error_system(err, errno, "%s: cannot be written", w->path);
}

int perfdata_writer_flush(struct perfdata_writer *w, struct error *err)
{
    if (w->zstd && compress_flush(w, err) < 0)
        return -1;
    if (fflush(w->out) != 0)
        return error_system(err, errno, "%s: cannot be written", w->path);
    if (tell_size(w, err) < 0)
        return -1;
    if (w->data_size - w->mark >= SALVAGE_ROOM) {
        w->safe_size = w->mark;
        w->mark = w->data_size;
    }
    w->flushed = w->data_size;
    return 0;
}

uint64_t perfdata_writer_bytes(const struct perfdata_writer *w)
{
    return w->data_size;
}

/* Close the output. Only bytes in stdio's buffer may still be missing in the file. */
static int writer_close(struct perfdata_writer *w, struct error *err)
{
    if (fflush(w->out) != 0)
        return error_system(err, errno, "%s: cannot be written", w->path);
    FILE *out = w->out;
    w->out = NULL;
    return fclose(out) ? error_system(err, errno, "%s: cannot be written", w->path) : 0;
}

int perfdata_writer_salvage(struct perfdata_writer *w, uint64_t *lost, struct error *err)
{
    uint64_t had = w->data_size;
    if (w->options.pipe || !w->started || !w->out)
        return error_set(err, ERROR_UNSUPPORTED, "%s: nothing can be saved", w->path);
    __fpurge(w->out);
    clearerr(w->out);
    /* If no flush leaves enough room, give up the features: the records are worth more. */
    bool room = w->safe_size != 0;
    w->data_size = room ? w->safe_size : w->flushed;
    *lost = had - w->data_size;
    if (!room)
        memset(w->has_feature, 0, sizeof(w->has_feature));
    else if (w->zstd && compressed_feature(w, err) < 0)
        return -1;
    if (ftruncate(fileno(w->out), (off_t)(w->data_at + w->data_size)) < 0 ||
        fseeko(w->out, (off_t)(w->data_at + w->data_size), SEEK_SET) < 0)
        return error_system(err, errno, "%s: cannot be cut back", w->path);
    return file_finish(w, err) < 0 ? -1 : writer_close(w, err);
}

int perfdata_writer_finish(struct perfdata_writer *w, struct error *err)
{
    if (writer_start(w, err) < 0 || (w->zstd && compress_flush(w, err) < 0))
        return -1;
    if (w->zstd && compressed_feature(w, err) < 0) /* now the ratio is known */
        return -1;
    if (!w->options.pipe && file_finish(w, err) < 0)
        return -1;
    return writer_close(w, err);
}

void perfdata_writer_destroy(struct perfdata_writer *w)
{
    if (!w)
        return;
    if (w->out)
        fclose(w->out);
    for (size_t i = 0; w->events && i <= w->nr_events; i++) { /* the last: half copied, or zeros */
        free(w->events[i].name);
        free(w->events[i].ids);
    }
    for (unsigned i = 0; i < FEATURES; i++)
        vec_free(&w->features[i]);
    free(w->events);
    free(w->path);
    vec_free(&w->collected);
    free(w->buffer);
    ZSTD_freeCStream(w->zstd);
    free(w);
}
