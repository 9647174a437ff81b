/* SPDX-License-Identifier: GPL-2.0-only */
#include "perfdata_fixture.h"

#include <byteswap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_EVENTS = 8, MAX_FEATURES = 256, MAX_IDS = 8, ENTRY = 144, HEADER = 104 };

struct bytes {
    uint8_t *at;
    size_t size, cap;
};

struct fixture {
    bool swap;
    struct perf_event_attr attrs[MAX_EVENTS];
    uint64_t ids[MAX_EVENTS][MAX_IDS];
    size_t nr_ids[MAX_EVENTS], nr_events;
    struct bytes features[MAX_FEATURES];
    bool has_feature[MAX_FEATURES];
    struct bytes data;
    size_t record; /* offset of the current record */
};

const struct perf_event_attr fixture_attr = {
    .type = PERF_TYPE_SOFTWARE,
    .size = sizeof(struct perf_event_attr),
    .config = PERF_COUNT_SW_CPU_CLOCK,
    .sample_period = 1,
    .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
    .sample_id_all = 1,
    .exclude_guest = 1,
};

static void add(struct bytes *b, const void *p, size_t size)
{
    if (b->size + size > b->cap) {
        b->cap = 2 * b->cap + size;
        b->at = realloc(b->at, b->cap);
        if (!b->at)
            abort();
    }
    if (size)
        memcpy(b->at + b->size, p, size);
    b->size += size;
}

#define ADD(bits)                                                         \
    static void add_u##bits(struct bytes *b, bool swap, uint##bits##_t v) \
    {                                                                     \
        if (swap)                                                         \
            v = bswap_##bits(v);                                          \
        add(b, &v, sizeof(v));                                            \
    }                                                                     \
    void fixture_u##bits(struct fixture *f, uint##bits##_t v)             \
    {                                                                     \
        add_u##bits(&f->data, f->swap, v);                                \
    }
ADD(16)
ADD(32)
ADD(64)
#undef ADD

void fixture_u8(struct fixture *f, uint8_t value)
{
    add(&f->data, &value, 1);
}

void fixture_bytes(struct fixture *f, const void *bytes, size_t size)
{
    add(&f->data, bytes, size);
}

static void add_padded(struct bytes *b, const char *text, size_t align)
{
    static const char zeros[64];
    size_t size = strlen(text) + 1;
    add(b, text, size);
    add(b, zeros, (align - size % align) % align);
}

void fixture_string(struct fixture *f, const char *text)
{
    add_padded(&f->data, text, 8);
}

struct fixture *fixture_create(bool swap)
{
    struct fixture *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    f->swap = swap;
    return f;
}

void fixture_free(struct fixture *f)
{
    for (size_t i = 0; i < MAX_FEATURES; i++)
        free(f->features[i].at);
    free(f->data.at);
    free(f);
}

void fixture_event(struct fixture *f, const struct perf_event_attr *attr, const uint64_t *ids,
                   size_t nr_ids)
{
    size_t i = f->nr_events++;
    if (i >= MAX_EVENTS || nr_ids > MAX_IDS)
        abort();
    f->attrs[i] = *attr;
    f->nr_ids[i] = nr_ids;
    if (nr_ids)
        memcpy(f->ids[i], ids, nr_ids * sizeof(*ids));
}

void fixture_feature(struct fixture *f, unsigned number, const void *bytes, size_t size)
{
    f->has_feature[number] = true;
    add(&f->features[number], bytes, size);
}

void fixture_feature_string(struct fixture *f, unsigned number, const char *text)
{
    f->has_feature[number] = true;
    add_u32(&f->features[number], f->swap, (uint32_t)((strlen(text) + 1 + 63) / 64 * 64));
    add_padded(&f->features[number], text, 64);
}

/* ---- records ------------------------------------------------------------------------------ */

void fixture_begin(struct fixture *f, uint32_t type, uint16_t misc)
{
    f->record = f->data.size;
    fixture_u32(f, type);
    fixture_u16(f, misc);
    fixture_u16(f, 0);
}

void fixture_end(struct fixture *f)
{
    uint16_t size = (uint16_t)(f->data.size - f->record);
    if (f->swap)
        size = bswap_16(size);
    memcpy(f->data.at + f->record + 6, &size, sizeof(size));
}

size_t fixture_last_record(const struct fixture *f)
{
    return f->record;
}

void fixture_trailer(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time, uint32_t cpu)
{
    const struct perf_event_attr *a = &f->attrs[0];
    uint64_t id = f->nr_ids[0] ? f->ids[0][0] : 0;
    if (!a->sample_id_all)
        return;
    if (a->sample_type & PERF_SAMPLE_TID) {
        fixture_u32(f, pid);
        fixture_u32(f, tid);
    }
    if (a->sample_type & PERF_SAMPLE_TIME)
        fixture_u64(f, time);
    if (a->sample_type & PERF_SAMPLE_ID)
        fixture_u64(f, id);
    if (a->sample_type & PERF_SAMPLE_STREAM_ID)
        fixture_u64(f, 0);
    if (a->sample_type & PERF_SAMPLE_CPU) {
        fixture_u32(f, cpu);
        fixture_u32(f, 0);
    }
    if (a->sample_type & PERF_SAMPLE_IDENTIFIER)
        fixture_u64(f, id);
}

static void comm(struct fixture *f, uint16_t misc, uint32_t pid, uint32_t tid, const char *name,
                 uint64_t time)
{
    fixture_begin(f, PERF_RECORD_COMM, misc);
    fixture_u32(f, pid);
    fixture_u32(f, tid);
    fixture_string(f, name);
    fixture_trailer(f, pid, tid, time, 0);
    fixture_end(f);
}

void fixture_comm(struct fixture *f, uint32_t pid, uint32_t tid, const char *name, uint64_t time)
{
    comm(f, 0, pid, tid, name, time);
}

void fixture_exec(struct fixture *f, uint32_t pid, const char *name, uint64_t time)
{
    comm(f, PERF_RECORD_MISC_COMM_EXEC, pid, pid, name, time);
}

static void task(struct fixture *f, uint32_t type, const uint32_t ids[4], uint64_t time)
{
    fixture_begin(f, type, 0);
    for (int i = 0; i < 4; i++)
        fixture_u32(f, ids[i]);
    fixture_u64(f, time);
    fixture_trailer(f, ids[0], ids[2], time, 0);
    fixture_end(f);
}

void fixture_fork(struct fixture *f, uint32_t ppid, uint32_t pid, uint32_t tid, uint64_t time)
{
    task(f, PERF_RECORD_FORK, (uint32_t[]){pid, ppid, tid, ppid}, time);
}

void fixture_exit(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time)
{
    task(f, PERF_RECORD_EXIT, (uint32_t[]){pid, pid, tid, tid}, time);
}

void fixture_mmap2(struct fixture *f, const struct fixture_mmap *m)
{
    fixture_begin(f, PERF_RECORD_MMAP2,
                  (uint16_t)(PERF_RECORD_MISC_USER | (m->data ? PERF_RECORD_MISC_MMAP_DATA : 0) |
                             (m->build_id || m->false_bit ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0)));
    fixture_u32(f, m->pid);
    fixture_u32(f, m->tid);
    fixture_u64(f, m->addr);
    fixture_u64(f, m->len);
    fixture_u64(f, m->pgoff);
    if (m->build_id) {
        fixture_bytes(f, (uint8_t[]){20, 0, 0, 0}, 4);
        fixture_bytes(f, m->build_id, 20);
    } else {
        fixture_u32(f, m->major);
        fixture_u32(f, m->minor);
        fixture_u64(f, m->inode);
        fixture_u64(f, m->generation);
    }
    fixture_u32(f, m->prot ? m->prot : m->data ? PROT_READ : PROT_READ | PROT_EXEC);
    fixture_u32(f, m->flags ? m->flags : MAP_PRIVATE);
    fixture_string(f, m->filename);
    fixture_trailer(f, m->pid, m->tid, m->time, 0);
    fixture_end(f);
}

void fixture_round(struct fixture *f)
{
    fixture_begin(f, 68, 0);
    fixture_end(f);
}

static void regs(struct fixture *f, uint64_t mask, const uint64_t *values)
{
    fixture_u64(f, values ? 2 : 0);
    for (int i = 0; values && i < __builtin_popcountll(mask); i++)
        fixture_u64(f, values[i]);
}

static void sample_head(struct fixture *f, uint64_t type, const struct fixture_sample *s)
{
    if (type & PERF_SAMPLE_IDENTIFIER)
        fixture_u64(f, s->id);
    if (type & PERF_SAMPLE_IP)
        fixture_u64(f, s->ip);
    if (type & PERF_SAMPLE_TID) {
        fixture_u32(f, s->pid);
        fixture_u32(f, s->tid ? s->tid : s->pid);
    }
    if (type & PERF_SAMPLE_TIME)
        fixture_u64(f, s->time);
    if (type & PERF_SAMPLE_ADDR)
        fixture_u64(f, s->addr);
    if (type & PERF_SAMPLE_ID)
        fixture_u64(f, s->id);
    if (type & PERF_SAMPLE_STREAM_ID)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_CPU) {
        fixture_u32(f, s->cpu);
        fixture_u32(f, 0);
    }
    if (type & PERF_SAMPLE_PERIOD)
        fixture_u64(f, s->period);
}

/* Writes the READ field: value, enabled, running, id, lost, or two values of a group. */
static void sample_read(struct fixture *f, uint64_t format, uint64_t value)
{
    bool group = format & PERF_FORMAT_GROUP;
    fixture_u64(f, group ? 2 : value);
    if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
        fixture_u64(f, 11);
    if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
        fixture_u64(f, 12);
    for (int i = 0; i < (group ? 2 : 1); i++) {
        if (group)
            fixture_u64(f, value);
        if (format & PERF_FORMAT_ID)
            fixture_u64(f, 13);
        if (format & 16)
            fixture_u64(f, 14);
    }
}

static void sample_tail(struct fixture *f, const struct perf_event_attr *a,
                        const struct fixture_sample *s)
{
    uint64_t type = a->sample_type;
    if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_DATA_SRC)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_TRANSACTION)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_REGS_INTR)
        regs(f, a->sample_regs_intr, s->intr_regs);
    if (type & PERF_SAMPLE_PHYS_ADDR)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_CGROUP)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
        fixture_u64(f, s->other);
    if (type & PERF_SAMPLE_AUX) {
        fixture_u64(f, 8);
        fixture_u64(f, s->other);
    }
}

static void sample_stack(struct fixture *f, const struct perf_event_attr *a,
                         const struct fixture_sample *s)
{
    fixture_u64(f, s->stack ? a->sample_stack_user : 0);
    if (!s->stack)
        return;
    fixture_bytes(f, s->stack, a->sample_stack_user);
    fixture_u64(f, s->stack_dyn_size);
}

void fixture_sample(struct fixture *f, const struct fixture_sample *s)
{
    const struct perf_event_attr *a = &f->attrs[s->event];
    uint64_t type = a->sample_type;
    fixture_begin(f, PERF_RECORD_SAMPLE, s->misc ? s->misc : PERF_RECORD_MISC_USER);
    sample_head(f, type, s);
    if (type & PERF_SAMPLE_READ)
        sample_read(f, a->read_format, s->other);
    if (type & PERF_SAMPLE_CALLCHAIN) {
        fixture_u64(f, s->nr_callchain);
        for (uint64_t i = 0; i < s->nr_callchain; i++)
            fixture_u64(f, s->callchain[i]);
    }
    if (type & PERF_SAMPLE_RAW) {
        fixture_u32(f, s->raw_size);
        fixture_bytes(f, s->raw, s->raw_size);
    }
    if (type & PERF_SAMPLE_BRANCH_STACK) {
        fixture_u64(f, 1);
        if (a->branch_sample_type & 1 << 17)
            fixture_u64(f, 0);
        for (int i = 0; i < 3; i++)
            fixture_u64(f, s->other);
        if (a->branch_sample_type & 1 << 19)
            fixture_u64(f, s->other);
    }
    if (type & PERF_SAMPLE_REGS_USER)
        regs(f, a->sample_regs_user, s->user_regs);
    if (type & PERF_SAMPLE_STACK_USER)
        sample_stack(f, a, s);
    sample_tail(f, a, s);
    fixture_end(f);
}

/* ---- the recording ------------------------------------------------------------------------ */

/* Returns an attr's bit fields in the layout of the other byte order. */
static uint64_t swap_bits(uint64_t flags)
{
    uint64_t r = 0;
    for (int i = 0; i < 64; i++)
        if (flags >> i & 1)
            r |= UINT64_C(1) << ((i & ~7) + 7 - (i & 7));
    return r;
}

static void add_attr(struct bytes *b, bool swap, const struct perf_event_attr *a)
{
    uint64_t flags;
    memcpy(&flags, (const uint8_t *)a + 40, sizeof(flags));
    if (swap)
        flags = swap_bits(flags);
    add_u32(b, swap, a->type);
    add_u32(b, swap, sizeof(*a));
    add_u64(b, swap, a->config);
    add_u64(b, swap, a->sample_period);
    add_u64(b, swap, a->sample_type);
    add_u64(b, swap, a->read_format);
    add(b, &flags, sizeof(flags));
    add_u32(b, swap, a->wakeup_events);
    add_u32(b, swap, a->bp_type);
    add_u64(b, swap, a->config1);
    add_u64(b, swap, a->config2);
    add_u64(b, swap, a->branch_sample_type);
    add_u64(b, swap, a->sample_regs_user);
    add_u32(b, swap, a->sample_stack_user);
    add_u32(b, swap, (uint32_t)a->clockid);
    add_u64(b, swap, a->sample_regs_intr);
    add_u32(b, swap, a->aux_watermark);
    add_u16(b, swap, a->sample_max_stack);
    add_u16(b, swap, 0);
    add_u32(b, swap, a->aux_sample_size);
    add_u32(b, swap, 0);
    add_u64(b, swap, a->sig_data);
}

static void add_record_head(struct bytes *b, bool swap, uint32_t type, size_t size)
{
    add_u32(b, swap, type);
    add_u16(b, swap, 0);
    add_u16(b, swap, (uint16_t)size);
}

static void build_pipe(struct fixture *f, struct bytes *b)
{
    add_u64(b, f->swap, UINT64_C(0x32454c4946524550));
    add_u64(b, f->swap, 16);
    for (size_t i = 0; i < f->nr_events; i++) {
        add_record_head(b, f->swap, 64, 8 + sizeof(f->attrs[i]) + 8 * f->nr_ids[i]);
        add_attr(b, f->swap, &f->attrs[i]);
        for (size_t j = 0; j < f->nr_ids[i]; j++)
            add_u64(b, f->swap, f->ids[i][j]);
    }
    for (size_t i = 0; i < MAX_FEATURES; i++) {
        if (!f->has_feature[i])
            continue;
        add_record_head(b, f->swap, 80, 16 + f->features[i].size);
        add_u64(b, f->swap, i);
        add(b, f->features[i].at, f->features[i].size);
    }
    add(b, f->data.at, f->data.size);
}

static size_t ids_size(const struct fixture *f)
{
    size_t size = 0;
    for (size_t i = 0; i < f->nr_events; i++)
        size += 8 * f->nr_ids[i];
    return size;
}

size_t fixture_data_offset(const struct fixture *f)
{
    return HEADER + ids_size(f) + f->nr_events * ENTRY;
}

static void build_header(struct fixture *f, struct bytes *b)
{
    uint64_t bitmap[4] = {0};
    for (size_t i = 0; i < MAX_FEATURES; i++)
        if (f->has_feature[i])
            bitmap[i / 64] |= UINT64_C(1) << (i % 64);
    const uint64_t words[] = {UINT64_C(0x32454c4946524550),
                              HEADER,
                              ENTRY,
                              HEADER + ids_size(f),
                              f->nr_events * ENTRY,
                              fixture_data_offset(f),
                              f->data.size,
                              0,
                              0,
                              bitmap[0],
                              bitmap[1],
                              bitmap[2],
                              bitmap[3]};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        add_u64(b, f->swap, words[i]);
}

static void build_file(struct fixture *f, struct bytes *b)
{
    uint64_t at = HEADER;
    build_header(f, b);
    for (size_t i = 0; i < f->nr_events; i++)
        for (size_t j = 0; j < f->nr_ids[i]; j++)
            add_u64(b, f->swap, f->ids[i][j]);
    for (size_t i = 0; i < f->nr_events; i++) {
        add_attr(b, f->swap, &f->attrs[i]);
        add_u64(b, f->swap, at);
        add_u64(b, f->swap, 8 * f->nr_ids[i]);
        at += 8 * f->nr_ids[i];
    }
    add(b, f->data.at, f->data.size);
    at = b->size;
    for (size_t i = 0; i < MAX_FEATURES; i++)
        at += f->has_feature[i] ? 16 : 0;
    for (size_t i = 0; i < MAX_FEATURES; i++) {
        if (!f->has_feature[i])
            continue;
        add_u64(b, f->swap, at);
        add_u64(b, f->swap, f->features[i].size);
        at += f->features[i].size;
    }
    for (size_t i = 0; i < MAX_FEATURES; i++)
        add(b, f->features[i].at, f->features[i].size);
}

uint8_t *fixture_build(struct fixture *f, bool pipe, size_t *size)
{
    struct bytes b = {0};
    if (pipe)
        build_pipe(f, &b);
    else
        build_file(f, &b);
    *size = b.size;
    return b.at;
}

char *fixture_write_bytes(const void *bytes, size_t size)
{
    char *path = strdup("/tmp/perfdata-test-XXXXXX");
    int fd = path ? mkstemp(path) : -1;
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    close(fd);
    return path;
}

char *fixture_write(struct fixture *f, bool pipe)
{
    size_t size;
    uint8_t *bytes = fixture_build(f, pipe, &size);
    char *path = fixture_write_bytes(bytes, size);
    free(bytes);
    return path;
}
