/* SPDX-License-Identifier: GPL-2.0-only */
/* Opens a recording: detects its form, reads the header and finds the record streams. */
#include "perfdata/perfdata_internal.h"
#include "base/file_map.h"
#include "base/threads.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_PIPE = 16,
    HEADER_OLD = 72, /* without the feature bitmap */
    HEADER_FILE = 104,
    ATTR_MAX = 4096, /* far larger than any attr; a larger size is damage */
};

static const char MAGIC[9] = "PERFILE2", MAGIC_SWAPPED[9] = "2ELIFREP", MAGIC_OLD[9] = "PERFFILE";

/* ---- naming other kinds of input ---------------------------------------------------------- */

static bool is_text(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isprint(p[i]) && !isspace(p[i]) && p[i] < 0x80)
            return false;
    return true;
}

static const char *looks_like(const uint8_t *p, size_t size)
{
    static const struct {
        const char *magic, *what;
    } KNOWN[] = {{"\177ELF", "an ELF file"},
                 {"\037\213", "gzip data: uncompress it first"},
                 {"\x28\xb5\x2f\xfd", "zstd data: uncompress it first"},
                 {"\xfd"
                  "7zXZ",
                  "xz data: uncompress it first"},
                 {"BZh", "bzip2 data (perf archive's?)"},
                 {"DTiJ", "a jitdump: name it with --jitdump"},
                 {"JiTD", "a jitdump: name it with --jitdump"},
                 {"SIMPLEPERF", "simpleperf's own format"},
                 {"PERFTEXT", "a perf text file"}};
    for (size_t i = 0; i < sizeof(KNOWN) / sizeof(KNOWN[0]); i++)
        if (size >= strlen(KNOWN[i].magic) && !memcmp(p, KNOWN[i].magic, strlen(KNOWN[i].magic)))
            return KNOWN[i].what;
    if (!memcmp(p, MAGIC, size < 8 ? size : 8))
        return "the first bytes of one only";
    if (is_text(p, size))
        return "a text file";
    for (size_t i = 0; i < size; i++)
        if (p[i])
            return "other data";
    return "zeros: its recorder died before it wrote any";
}

static int not_perfdata(const struct perfdata *pd, const uint8_t *p, size_t size, struct error *err)
{
    if (!size)
        return error_set(err, ERROR_TRUNCATED, "%s: the file is empty", pd->path);
    return error_set(err, ERROR_FORMAT, "%s: not a perf.data; it looks like %s", pd->path,
                     looks_like(p, size < 512 ? size : 512));
}

/* ---- the file form's header --------------------------------------------------------------- */

struct section {
    uint64_t at, size;
};

struct header {
    uint64_t size, attr_size;
    struct section attrs, data;
    uint64_t bitmap[FEATURES / 64];
};

/* The old magic does not show the byte order. Only one of both orders gives a valid attr size. */
static bool old_is_swapped(const uint8_t *map)
{
    uint64_t size = load_u64(map + 16, false);
    return size < ATTR_MIN + ID_ENTRY || size > ATTR_MAX;
}

/* A producer with the opposite byte order wrote longs of 64 or of 32 bits. HOSTNAME is always
 * set. */
static void bitmap_read(struct cursor *c, uint64_t bitmap[FEATURES / 64])
{
    for (unsigned i = 0; i < FEATURES / 64; i++)
        bitmap[i] = cursor_u64(c);
    if (!c->swap || bitmap[0] >> HEADER_HOSTNAME & 1)
        return;
    uint64_t first = bitmap[0] >> 32 | bitmap[0] << 32;
    if (!(first >> HEADER_HOSTNAME & 1))
        return;
    for (unsigned i = 0; i < FEATURES / 64; i++)
        bitmap[i] = bitmap[i] >> 32 | bitmap[i] << 32;
}

static int header_read(struct perfdata *pd, const uint8_t *map, uint64_t size, struct header *h,
                       struct error *err)
{
    struct cursor c = cursor_make(map, size, pd->swap, pd->path, "header", 0);
    memset(h, 0, sizeof(*h));
    cursor_skip(&c, sizeof(MAGIC) - 1);
    h->size = cursor_u64(&c);
    h->attr_size = cursor_u64(&c);
    h->attrs = (struct section){cursor_u64(&c), cursor_u64(&c)};
    h->data = (struct section){cursor_u64(&c), cursor_u64(&c)};
    cursor_skip(&c, 16); /* event types */
    if (h->size >= HEADER_FILE)
        bitmap_read(&c, h->bitmap);
    if (c.failed)
        return cursor_error(&c, err, "the file ends inside its header");
    if (h->size < HEADER_OLD)
        return error_set(err, ERROR_FORMAT, "%s: offset 0x8: header size %" PRIu64 " is too small",
                         pd->path, h->size);
    if (h->attr_size < ATTR_MIN + ID_ENTRY || h->attr_size > ATTR_MAX)
        return error_set(err, ERROR_FORMAT,
                         "%s: offset 0x10: an attr entry cannot have %" PRIu64 " bytes", pd->path,
                         h->attr_size);
    if (h->data.at > size || h->data.at < h->size)
        return error_set(err, ERROR_TRUNCATED,
                         "%s: its records start at 0x%" PRIx64 ", the file ends at 0x%" PRIx64,
                         pd->path, h->data.at, size);
    return 0;
}

static int ids_read(struct perfdata *pd, struct event *e, struct section ids, const uint8_t *map,
                    uint64_t size, struct error *err)
{
    if (ids.at > size || ids.size > size - ids.at)
        return error_set(err, ERROR_TRUNCATED,
                         "%s: the ids of event %u (at 0x%" PRIx64 ") are outside the file",
                         pd->path, e->pub.index, ids.at);
    struct cursor c = cursor_make(map + ids.at, ids.size, pd->swap, pd->path, "ids", ids.at);
    while (cursor_left(&c) >= sizeof(uint64_t))
        if (event_add_id(pd, e, cursor_u64(&c), err) < 0)
            return -1;
    return 0;
}

static int attrs_read(struct perfdata *pd, const struct header *h, const uint8_t *map,
                      uint64_t size, struct error *err)
{
    if (h->attrs.at > size || h->attrs.size > size - h->attrs.at)
        return error_set(err, ERROR_TRUNCATED,
                         "%s: its events (at 0x%" PRIx64 ") are outside the file", pd->path,
                         h->attrs.at);
    struct cursor c =
        cursor_make(map + h->attrs.at, h->attrs.size, pd->swap, pd->path, "attrs", h->attrs.at);
    while (cursor_left(&c) >= h->attr_size) {
        struct perf_event_attr attr;
        if (attr_parse(&c, h->attr_size - ID_ENTRY, &attr) < 0)
            return cursor_error(&c, err, "an event's attr is damaged");
        struct section ids = {cursor_u64(&c), cursor_u64(&c)};
        struct event *e = event_add(pd, &attr, err);
        if (!e || ids_read(pd, e, ids, map, size, err) < 0)
            return -1;
    }
    if (!pd->nr_events)
        return error_set(err, ERROR_FORMAT, "%s: it has no event", pd->path);
    return events_complete(pd, err);
}

/* ---- streams ------------------------------------------------------------------------------ */

static struct stream *stream_add(struct perfdata *pd, const char *path, int fd, struct error *err)
{
    struct stream s = {.pd = pd, .fd = fd, .number = (uint16_t)pd->streams.nr};
    s.path = strdup(path);
    if (!s.path || !vec_push(&pd->streams, s)) {
        free(s.path);
        error_no_memory(err);
        return NULL;
    }
    return &pd->streams.at[pd->streams.nr - 1];
}

/* Returns whether the recorder was killed. A killed perf leaves data size 0, and feature bits
 * without a table. A killed ljperf leaves the size of its last flush, and no feature. An empty data
 * section is recognised by its table: the first section follows the table. */
static bool was_killed(const struct perfdata *pd, const struct header *h, const uint8_t *map,
                       uint64_t size)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < FEATURES / 64; i++)
        bits += (uint64_t)__builtin_popcountll(h->bitmap[i]);
    if (h->data.size || size < h->data.at + ID_ENTRY)
        return !h->data.size ||
               (!bits && h->size >= HEADER_FILE && h->data.size <= size - h->data.at);
    return !bits || load_u64(map + h->data.at, pd->swap) != h->data.at + ID_ENTRY * bits;
}

static int file_read(struct perfdata *pd, struct stream *s, struct error *err)
{
    struct header h;
    uint64_t size = s->map_size;
    if (header_read(pd, s->map, size, &h, err) < 0 || attrs_read(pd, &h, s->map, size, err) < 0)
        return -1;
    s->killed = was_killed(pd, &h, s->map, size);
    s->cut = h.data.size > size - h.data.at;
    s->at = h.data.at;
    s->end = s->killed || s->cut ? size : h.data.at + h.data.size;
    pd->header_version = memcmp(s->map, MAGIC_OLD, 8) != 0;
    pd->data_offset = h.data.at;
    pd->data_size = h.data.size;
    pd->feature_offset = h.data.at + h.data.size;
    if (s->killed || s->cut)
        return 0;
    int outside = features_find(pd, h.bitmap, s->map, size);
    if (outside && pd->loss.damage.kind == ERROR_NONE)
        error_set(&pd->loss.damage, ERROR_TRUNCATED,
                  "%s: %d feature sections lie outside the file (of 0x%" PRIx64 " bytes)", pd->path,
                  outside, size);
    return 0;
}

/* Detect the form and the byte order of a mapped file. */
static int form_read(struct perfdata *pd, struct stream *s, struct error *err)
{
    const uint8_t *map = s->map;
    if (s->map_size < HEADER_PIPE)
        return not_perfdata(pd, map, s->map_size, err);
    bool old = !memcmp(map, MAGIC_OLD, 8);
    pd->swap = !memcmp(map, MAGIC_SWAPPED, 8);
    if (!old && !pd->swap && memcmp(map, MAGIC, 8) != 0)
        return not_perfdata(pd, map, s->map_size, err);
    if (old && s->map_size >= HEADER_OLD)
        pd->swap = old_is_swapped(map);
    if (load_u64(map + 8, pd->swap) != HEADER_PIPE || old)
        return file_read(pd, s, err);
    pd->pipe = true;
    s->at = HEADER_PIPE;
    s->end = s->map_size;
    return 0;
}

static int map_file(struct perfdata *pd, struct stream *s, int fd, uint64_t size, struct error *err)
{
    (void)pd;
    void *map = size ? file_map(fd, size) : NULL;
    if (size && !map)
        return error_system(err, errno, "%s: cannot be mapped", s->path);
    s->map = map ? map : (const uint8_t *)"";
    s->map_size = size;
    s->map_owned = map != NULL;
    return 0;
}

static int pipe_read(struct perfdata *pd, struct stream *s, struct error *err)
{
    uint64_t left;
    const uint8_t *p = stream_peek(s, HEADER_PIPE, &left);
    if (!p)
        return not_perfdata(pd, s->in.bytes + s->in.at, left, err);
    pd->swap = !memcmp(p, MAGIC_SWAPPED, 8);
    if (!pd->swap && memcmp(p, MAGIC, 8) != 0)
        return not_perfdata(pd, p, left, err);
    if (load_u64(p + 8, pd->swap) != HEADER_PIPE)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this is a perf.data file, whose end must be read first; give its "
                         "name instead of a pipe",
                         pd->path);
    pd->pipe = true;
    stream_take(s, HEADER_PIPE);
    return 0;
}

/* Copy the pipe into a file, and read that file from now on. */
static int pipe_spool(struct perfdata *pd, struct stream *s, struct error *err)
{
    uint8_t head[HEADER_PIPE] = {0};
    struct stat st;
    int fd;
    memcpy(head, pd->swap ? MAGIC_SWAPPED : MAGIC, 8);
    head[pd->swap ? HEADER_PIPE - 1 : 8] = HEADER_PIPE;
    if (stream_spool(s, head, sizeof(head), &fd, err) < 0)
        return -1;
    if (fd < 0)
        return 0;
    pd->spool_fd = fd;
    if (asprintf(&pd->spool_path, "/proc/self/fd/%d", fd) < 0) {
        pd->spool_path = NULL;
        close(fd);
        return error_no_memory(err);
    }
    if (fstat(fd, &st) < 0)
        return error_system(err, errno, "%s", pd->spool_path);
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    s->fd = -1;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* for skim.c */
    if (map_file(pd, s, fd, (uint64_t)st.st_size, err) < 0)
        return -1;
    if (own >= 0)
        skim_start(s, own);
    return form_read(pd, s, err);
}

/* ---- directories -------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
    return x < y ? -1 : x > y;
}

typedef VEC(unsigned long) numbers;

/* List the N of each data.N. */
static int directory_list(const char *path, numbers *ret, struct error *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return error_system(err, errno, "%s", path);
    for (struct dirent *e; (e = readdir(dir));) {
        char *end;
        if (strncmp(e->d_name, "data.", 5) != 0 || !isdigit((unsigned char)e->d_name[5]))
            continue;
        unsigned long n = strtoul(e->d_name + 5, &end, 10);
        if (!*end && !vec_push(ret, n)) {
            closedir(dir);
            return error_no_memory(err);
        }
    }
    closedir(dir);
    if (ret->nr)
        qsort(ret->at, ret->nr, sizeof(*ret->at), compare_numbers);
    return 0;
}

/* Open without updating the file's access time, if the system lets us (it does for our own files).
 * The update would be checked in each of some ten thousand reads (skim.c), and took a twentieth of
 * their time. */
static int open_quietly(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOATIME | flags);
    return fd < 0 && errno == EPERM ? open(path, O_RDONLY | O_CLOEXEC | flags) : fd;
}

static int map_path(struct perfdata *pd, const char *path, struct error *err)
{
    struct stat st;
    int fd = open_quietly(path, O_NONBLOCK); /* a FIFO has no place in a folder of parts */
    if (fd < 0 || fstat(fd, &st) < 0) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return error_system(err, e, "%s", path);
    }
    struct stream *s = stream_add(pd, path, -1, err);
    int r = s ? map_file(pd, s, fd, (uint64_t)st.st_size, err) : -1;
    close(fd);
    if (s)
        s->end = s->map_size;
    return r;
}

static int directory_parts(struct perfdata *pd, struct error *err)
{
    numbers list = {0};
    int r = directory_list(pd->path, &list, err);
    for (size_t i = 0; !r && i < list.nr; i++) {
        char *path = NULL;
        if (pd->streams.nr >= UINT16_MAX)
            r = error_set(err, ERROR_UNSUPPORTED, "%s: too many data files", pd->path);
        else if (asprintf(&path, "%s/data.%lu", pd->path, list.at[i]) < 0)
            r = error_no_memory(err);
        else
            r = map_path(pd, path, err);
        free(path);
    }
    vec_free(&list);
    return r;
}

static int directory_read_in(struct perfdata *pd, struct error *err)
{
    char *path;
    if (asprintf(&path, "%s/data", pd->path) < 0)
        return error_no_memory(err);
    int r = access(path, F_OK) < 0
                ? error_set(err, ERROR_NOT_FOUND,
                            "%s: this directory has no file `data` of a recording", pd->path)
                : map_path(pd, path, err);
    free(path);
    if (r < 0 || form_read(pd, &pd->streams.at[0], err) < 0)
        return -1;
    return directory_parts(pd, err);
}

/* ---- the interface ------------------------------------------------------------------------ */

static struct perfdata *perfdata_create(const char *path, const struct perfdata_options *options,
                                        struct error *err)
{
    struct perfdata *pd = calloc(1, sizeof(*pd));
    char *copy = strdup(path);
    if (!pd || !copy) {
        free(pd);
        free(copy);
        error_no_memory(err);
        return NULL;
    }
    pd->path = copy;
    if (options)
        pd->options = *options;
    lock_init_short(&pd->chunk_lock);
    return pd;
}

/* Release the chunks of records that were read but not delivered. */
static void waiting_drop(struct perfdata *pd)
{
    const struct queue *q = &pd->queue;
    if (q->records.nr > q->at)
        records_drop(pd, q->records.at + q->at, q->records.nr - q->at);
    if (pd->lead.nr > pd->lead_at)
        records_drop(pd, pd->lead.at + pd->lead_at, pd->lead.nr - pd->lead_at);
    vec_foreach (e, &pd->heap)
        records_drop(pd, &e->record, 1);
}

void perfdata_close(struct perfdata *pd)
{
    if (!pd)
        return;
    waiting_drop(pd);
    vec_foreach (s, &pd->streams)
        stream_close(s);
    vec_free(&pd->streams);
    vec_free(&pd->queue.records);
    vec_free(&pd->queue.spare);
    vec_free(&pd->heap);
    vec_free(&pd->lead);
    copies_free(pd);
    chunks_free(pd);
    tracing_free(pd->tracing);
    features_free(pd);
    events_free(pd);
    pthread_mutex_destroy(&pd->chunk_lock);
    if (pd->spool_path)
        close(pd->spool_fd);
    free(pd->spool_path);
    free(pd->path);
    free(pd);
}

/* Finish opening, once the form is known. */
static int opened(struct perfdata *pd, int r, struct perfdata **ret, struct error *err)
{
    if (r == 0)
        r = lead_in_read(pd, err);
    if (r == 0 && !pd->nr_events)
        r = error_set(err, ERROR_TRUNCATED, "%s: it ends before it describes any event", pd->path);
    if (r == 0)
        r = features_complete(pd, err);
    if (r < 0) {
        perfdata_close(pd);
        return -1;
    }
    *ret = pd;
    return 0;
}

static int descriptor_read(struct perfdata *pd, int fd, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_system(err, errno, "%s", pd->path);
    bool seekable = S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
    struct stream *s = stream_add(pd, pd->path, seekable ? -1 : fd, err);
    if (!s)
        return -1;
    if (!seekable) {
        int r = pipe_read(pd, s, err);
        return r == 0 && pd->options.spool_logs ? pipe_spool(pd, s, err) : r;
    }
    int r = map_file(pd, s, fd, (uint64_t)st.st_size, err);
    if (r == 0 && !pd->options.raw && !pd->options.keep_whole)
        skim_start(s, fd);
    else if (fd > STDIN_FILENO)
        close(fd);
    return r < 0 ? r : form_read(pd, s, err);
}

int perfdata_open(const char *path, const struct perfdata_options *options, struct perfdata **ret,
                  struct error *err)
{
    struct stat st;
    struct perfdata *pd = perfdata_create(path, options, err);
    if (!pd)
        return -1;
    if (!strcmp(path, "-"))
        return opened(pd, descriptor_read(pd, STDIN_FILENO, err), ret, err);
    if (stat(path, &st) < 0)
        return opened(pd, error_system(err, errno, "%s", path), ret, err);
    if (S_ISDIR(st.st_mode))
        return opened(pd, directory_read_in(pd, err), ret, err);
    int fd = open_quietly(path, 0);
    if (fd < 0)
        return opened(pd, error_system(err, errno, "%s", path), ret, err);
    return opened(pd, descriptor_read(pd, fd, err), ret, err);
}

int perfdata_open_memory(const void *bytes, size_t size, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err)
{
    struct perfdata *pd = perfdata_create("memory", options, err);
    if (!pd)
        return -1;
    struct stream *s = stream_add(pd, pd->path, -1, err);
    if (!s)
        return opened(pd, -1, ret, err);
    s->map = bytes;
    s->map_size = size;
    return opened(pd, form_read(pd, s, err), ret, err);
}

int perfdata_open_stream(int fd, const char *path, const struct perfdata_options *options,
                         struct perfdata **ret, struct error *err)
{
    struct perfdata *pd = perfdata_create(path, options, err);
    if (!pd)
        return -1;
    struct stream *s = stream_add(pd, path, fd, err);
    return opened(pd, s ? pipe_read(pd, s, err) : -1, ret, err);
}

const char *perfdata_path(const struct perfdata *pd)
{
    return pd->path;
}

const char *perfdata_again(const struct perfdata *pd)
{
    if (pd->spool_path)
        return pd->spool_path;
    return pd->streams.at[0].fd < 0 ? pd->path : NULL;
}

bool perfdata_is_pipe(const struct perfdata *pd)
{
    return pd->pipe;
}

bool perfdata_swapped(const struct perfdata *pd)
{
    return pd->swap;
}

const struct perfdata_loss *perfdata_loss(const struct perfdata *pd)
{
    return &pd->loss;
}
