/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracing data: the formats of the recorded tracepoints, and payloads as text. Formats are indexed
 * when a recording is opened. libtraceevent parses a format when the first payload needs it.
 *
 * Layout (tools/perf/util/trace-event-info.c): "\027\bDtracing", version NUL, u8 big-endian,
 * u8 long size, u32 page size; header_page, header_event: NUL, u64 size, text; u32 count of
 * ftrace formats (u64 size, text); u32 systems: name NUL, u32 count, formats; u32 size of kallsyms;
 * u32 size of printk formats; u64 size of saved command lines (from version 0.6 on).
 */
#include "perfdata/format.h"
#include "perfdata/offcpu.h"
#include "perfdata/perfdata_internal.h"

#include "base/text.h"

#include <stdlib.h>
#include <traceevent/event-parse.h>

enum { FORMAT_MAX = 1 << 20, FORMATS_MAX = 1 << 20 };

struct format {
    uint64_t id;
    const char *system, *text;
    size_t size;
    bool tried; /* already passed to libtraceevent */
};

struct tracing {
    uint8_t *bytes;
    VEC(struct format) formats; /* sorted by id */
    struct tep_handle *tep;
    pthread_mutex_t lock;
    const char *printk; /* not NUL-terminated */
    size_t printk_size;
    bool printk_done;
};

void tracing_free(struct tracing *t)
{
    if (!t)
        return;
    tep_free(t->tep);
    vec_free(&t->formats);
    pthread_mutex_destroy(&t->lock);
    free(t->bytes);
    free(t);
}

/* Get the number behind "ID:" at the start of a line. */
static bool format_id(const char *text, size_t size, uint64_t *ret)
{
    const char *p = memmem(text, size, "\nID:", 4);
    if (!p)
        return false;
    const char *end = text + size;
    *ret = 0;
    for (p += 4; p < end && *p == ' '; p++)
        ;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        *ret = *ret * 10 + (uint64_t)(*p - '0');
    return true;
}

static bool formats_read(struct tracing *t, struct cursor *c, const char *system)
{
    for (uint32_t nr = cursor_u32(c); nr && !c->failed; nr--) {
        struct format f = {.system = system};
        f.size = cursor_u64(c);
        f.text = (const char *)cursor_bytes(c, f.size);
        if (!f.text || f.size > FORMAT_MAX || !format_id(f.text, f.size, &f.id))
            continue;
        if (t->formats.nr >= FORMATS_MAX)
            return true;
        if (!vec_push(&t->formats, f))
            return false;
    }
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    const struct format *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Read the parts before the formats. The section defines its own byte order. */
static bool head_read(struct tracing *t, struct cursor *c)
{
    const uint8_t *magic = cursor_bytes(c, 10);
    if (!magic || memcmp(magic, "\027\bDtracing", 10) != 0 || !cursor_string(c))
        return false;
    bool big = cursor_u8(c) != 0, here_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    c->swap = big != here_big;
    int longs = cursor_u8(c);
    uint32_t page = cursor_u32(c);
    tep_set_file_bigendian(t->tep, big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
    tep_set_local_bigendian(t->tep, here_big ? TEP_BIG_ENDIAN : TEP_LITTLE_ENDIAN);
    tep_set_long_size(t->tep, longs == 4 ? 4 : 8);
    tep_set_page_size(t->tep, (int)(page & 0xffffff));
    for (int i = 0; i < 2; i++) { /* header_page, header_event */
        const char *name = cursor_string(c);
        uint64_t size = cursor_u64(c);
        const uint8_t *text = cursor_bytes(c, size);
        if (!name || !text)
            return false;
        if (!i && size && size < FORMAT_MAX)
            tep_parse_header_page(t->tep, (char *)text, size, longs == 4 ? 4 : 8);
    }
    return true;
}

/* Read the saved command lines: one "PID COMM" per line. */
static void comms_read(struct tracing *t, struct cursor *c)
{
    uint64_t size = cursor_u64(c);
    const char *p = (const char *)cursor_bytes(c, size), *end = p ? p + size : NULL;
    while (p && p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        char line[64];
        size_t n = (size_t)((line_end ? line_end : end) - p);
        snprintf(line, sizeof(line), "%.*s", (int)(n < 60 ? n : 60), p);
        char *comm;
        long pid = strtol(line, &comm, 10);
        if (*comm == ' ' && pid >= 0)
            tep_register_comm(t->tep, comm + 1, (int)pid);
        p = line_end ? line_end + 1 : NULL;
    }
}

/* Read the section as far as it is intact: damage loses only the formats behind it. */
static bool tracing_read(struct tracing *t, uint64_t size)
{
    struct cursor c = cursor_make(t->bytes, size, false, "", "tracing data", 0);
    if (!head_read(t, &c) || !formats_read(t, &c, "ftrace"))
        return !c.failed;
    for (uint32_t nr = cursor_u32(&c); nr && !c.failed; nr--) {
        const char *system = cursor_string(&c);
        if (system && !formats_read(t, &c, system))
            return false;
    }
    cursor_skip(&c, cursor_u32(&c)); /* kallsyms */
    t->printk_size = cursor_u32(&c);
    t->printk = (const char *)cursor_bytes(&c, t->printk_size);
    comms_read(t, &c);
    if (t->formats.nr)
        qsort(t->formats.at, t->formats.nr, sizeof(*t->formats.at), compare_ids);
    return true;
}

int tracing_create(const uint8_t *bytes, uint64_t size, struct tracing **ret, struct error *err)
{
    struct tracing *t = calloc(1, sizeof(*t));
    if (!t)
        return error_no_memory(err);
    pthread_mutex_init(&t->lock, NULL);
    tep_set_loglevel(TEP_LOG_NONE);
    t->tep = tep_alloc();
    t->bytes = malloc(size + 1);
    if (!t->tep || !t->bytes) {
        tracing_free(t);
        return error_no_memory(err);
    }
    memcpy(t->bytes, bytes, size);
    t->bytes[size] = 0;
    tep_set_flag(t->tep, TEP_NSEC_OUTPUT);
    tracing_read(t, size);
    *ret = t;
    return 0;
}

static struct format *format_find(const struct tracing *t, uint64_t id)
{
    struct format key = {.id = id};
    return t->formats.nr ? bsearch(&key, t->formats.at, t->formats.nr, sizeof(key), compare_ids)
                         : NULL;
}

char *tracing_event_name(const struct tracing *t, uint64_t id)
{
    const struct format *f = format_find(t, id);
    if (!f)
        return NULL;
    const char *name = memmem(f->text, f->size, "name: ", 6);
    if (!name)
        return NULL;
    name += 6;
    const char *end = memchr(name, '\n', (size_t)(f->text + f->size - name));
    char *ret;
    if (!end || asprintf(&ret, "%s:%.*s", f->system, (int)(end - name), name) < 0)
        return NULL;
    return ret;
}

/* ---- payloads ----------------------------------------------------------------------------- */

/* Register the formats of trace_printk() events: one "ADDRESS : "FORMAT"" per line. */
static void printk_register(struct tracing *t)
{
    if (t->printk_done || !t->printk)
        return;
    t->printk_done = true;
    char *copy = strndup(t->printk, t->printk_size), *save = NULL;
    for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *format;
        unsigned long long address = strtoull(line, &format, 16);
        format = strchr(format, ':');
        /* libtraceevent looks at the last three characters between the quotes. */
        if (format && strlen(format) > 6)
            tep_register_print_string(t->tep, format + 2, address);
    }
    free(copy);
}

static struct tep_event *event_find(struct tracing *t, uint64_t id)
{
    struct tep_event *e = id <= INT32_MAX ? tep_find_event(t->tep, (int)id) : NULL;
    if (e)
        return e;
    struct format *f = format_find(t, id);
    if (!f || f->tried)
        return NULL;
    f->tried = true;
    printk_register(t);
    if (format_is_sound(f->text, f->size))
        tep_parse_event(t->tep, f->text, f->size, f->system);
    return tep_find_event(t->tep, (int)id);
}

/* Returns whether all fields are inside the payload. libtraceevent does not check this; it reads
 * fields at the offsets that the format gives. */
static bool payload_fits(struct tep_event *e, const uint8_t *data, uint32_t size)
{
    for (int pass = 0; pass < 2; pass++) {
        struct tep_format_field *f = pass ? e->format.fields : e->format.common_fields;
        for (; f; f = f->next) {
            if (f->offset < 0 || f->size < 0 || (uint32_t)f->offset > size ||
                (uint32_t)f->size > size - (uint32_t)f->offset)
                return false;
            if (!(f->flags & TEP_FIELD_IS_DYNAMIC) || f->size != 4)
                continue;
            uint64_t place = tep_read_number(e->tep, data + f->offset, f->size);
            uint64_t at = place & 0xffff, length = place >> 16 & 0xffff;
            if (f->flags & TEP_FIELD_IS_RELATIVE)
                at += (uint64_t)f->offset + (uint64_t)f->size;
            if (at > size || length > size - at)
                return false;
        }
    }
    return true;
}

bool perfdata_print_tracepoint(const struct perfdata *pd, const struct sample *s, struct text *out)
{
    struct tracing *t = pd->tracing;
    if (!t || !s->event || !s->event->is_tracepoint || !s->raw)
        return false;
    pthread_mutex_lock(&t->lock);
    struct tep_event *e = event_find(t, s->event->attr.config);
    bool ok = e && payload_fits(e, s->raw, s->raw_size);
    if (ok) {
        struct tep_record record = {.cpu = (int)s->cpu, .size = (int)s->raw_size};
        struct trace_seq seq;
        record.data = (void *)s->raw;
        trace_seq_init(&seq);
        tep_print_event(t->tep, &seq, &record, "%s", TEP_PRINT_INFO);
        trace_seq_terminate(&seq);
        text_string(out, seq.buffer);
        trace_seq_destroy(&seq);
    }
    pthread_mutex_unlock(&t->lock);
    return ok;
}

/* ---- numbers ------------------------------------------------------------------------------ */

static bool is_number(const struct tep_format_field *f)
{
    return !(f->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC | TEP_FIELD_IS_STRING)) &&
           (f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
}

static int64_t read_number(const struct tep_event *e, const struct tep_format_field *f,
                           const uint8_t *data)
{
    uint64_t value = tep_read_number(e->tep, data + f->offset, f->size);
    unsigned unused = 64 - 8 * (unsigned)f->size;
    if (f->flags & TEP_FIELD_IS_SIGNED)
        return (int64_t)(value << unused) >> unused;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static bool runqueue_of(const struct sample *s, const char *field, int64_t *ret)
{
    struct offcpu_wake wake;
    if (strcmp(field, OFFCPU_RUNQUEUE_NAME) != 0 || !perfdata_offcpu_wake(s, &wake) ||
        !wake.has_runqueue || wake.runqueue > INT64_MAX)
        return false;
    *ret = (int64_t)wake.runqueue;
    return true;
}

bool perfdata_sample_number(const struct perfdata *pd, const struct sample *s, const char *field,
                            int64_t *ret)
{
    struct tracing *t = pd->tracing;
    if (runqueue_of(s, field, ret))
        return true;
    if (!t || !s->event || !s->event->is_tracepoint || !s->raw)
        return false;
    pthread_mutex_lock(&t->lock);
    struct tep_event *e = event_find(t, s->event->attr.config);
    struct tep_format_field *f = e ? tep_find_any_field(e, field) : NULL;
    bool ok = f && is_number(f) && payload_fits(e, s->raw, s->raw_size);
    if (ok)
        *ret = read_number(e, f, s->raw);
    pthread_mutex_unlock(&t->lock);
    return ok;
}

void perfdata_number_names(const struct perfdata *pd, const struct perfdata_event *event,
                           struct text *out)
{
    struct tracing *t = pd->tracing;
    if (perfdata_is_offcpu(event) && event->attr.sample_type & PERF_SAMPLE_AUX)
        text_string(out, OFFCPU_RUNQUEUE_NAME);
    if (!t || !event->is_tracepoint)
        return;
    pthread_mutex_lock(&t->lock);
    struct tep_event *e = event_find(t, event->attr.config);
    for (struct tep_format_field *f = e ? e->format.fields : NULL; f; f = f->next) {
        if (!is_number(f))
            continue;
        text_string(out, out->size ? ", " : "");
        text_clean(out, f->name);
    }
    pthread_mutex_unlock(&t->lock);
}
