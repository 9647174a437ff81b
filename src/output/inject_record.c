/* SPDX-License-Identifier: GPL-2.0-only */
/* See inject_record.h. Layouts: linux/perf_event.h, PERF_RECORD_SAMPLE and PERF_RECORD_MMAP2. */
#include "output/inject_record.h"
#include "perfdata/vmevent.h"

#include <string.h>
#include <sys/mman.h>

enum { BRANCH_ENTRY = 24 };
#define BRANCH_NOT_KEPT ((uint64_t)1 << 17 | (uint64_t)1 << 19) /* HW_INDEX, COUNTERS */
/* The fields that a rewritten sample may have. READ is dropped, since each member of a group gets a
 * sample of its own. */
static const uint64_t KEPT =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
    PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
    PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK |
    PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC |
    PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_CGROUP |
    PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE;

bool inject_event_is_own(const struct perfdata_event *e)
{
    return vmevent_may_be(&e->attr) &&
           (strcmp(e->name, VMEVENT_STACK_NAME) == 0 || strcmp(e->name, VMEVENT_MEM_NAME) == 0);
}

static uint64_t new_type(uint64_t type)
{
    uint64_t now = type & KEPT;
    if (type & PERF_SAMPLE_STACK_USER)
        now |= PERF_SAMPLE_CALLCHAIN;
    if (type & PERF_SAMPLE_READ)
        now |= PERF_SAMPLE_PERIOD;
    return now;
}

struct perf_event_attr inject_attr(const struct perf_event_attr *from)
{
    struct perf_event_attr attr = *from;
    attr.sample_type = new_type(from->sample_type);
    attr.sample_regs_user = 0;
    attr.sample_stack_user = 0;
    attr.exclude_callchain_user = 0;
    attr.branch_sample_type &= ~BRANCH_NOT_KEPT;
    return attr;
}

static void put_u64(struct text *t, uint64_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void put_pair(struct text *t, uint32_t a, uint32_t b)
{
    const uint32_t pair[] = {a, b};
    text_bytes(t, (const char *)pair, sizeof(pair));
}

/* Append the fields of one word, in order: those before the callchain or those after it. */
static void put_words(struct text *t, const struct sample *s, uint64_t type, bool front)
{
    const struct {
        uint64_t bits, value;
        bool front;
    } words[] = {
        {PERF_SAMPLE_ADDR, s->addr, true},
        {PERF_SAMPLE_ID, s->id, true},
        {PERF_SAMPLE_STREAM_ID, s->stream_id, true},
        {PERF_SAMPLE_CPU, s->cpu, true},
        {PERF_SAMPLE_PERIOD, s->period, true},
        {PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT, s->weight, false},
        {PERF_SAMPLE_DATA_SRC, s->data_src, false},
        {PERF_SAMPLE_TRANSACTION, s->transaction, false},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (words[i].front == front && (type & words[i].bits))
            put_u64(t, words[i].value);
}

static void put_tail(struct text *t, const struct sample *s, uint64_t type)
{
    if (type & PERF_SAMPLE_RAW) {
        const uint32_t size = s->raw_size;
        text_bytes(t, (const char *)&size, sizeof(size));
        text_bytes(t, (const char *)s->raw, size);
    }
    if (type & PERF_SAMPLE_BRANCH_STACK) {
        put_u64(t, s->nr_branches);
        text_bytes(t, (const char *)s->branches, s->nr_branches * BRANCH_ENTRY);
    }
    put_words(t, s, type, false);
    if (type & PERF_SAMPLE_REGS_INTR) {
        /* A group's leader may have other registers than the member for which this is written. */
        bool has = s->intr_regs && s->intr_mask == s->event->attr.sample_regs_intr;
        put_u64(t, has ? s->intr_abi : PERF_SAMPLE_REGS_ABI_NONE);
        if (has)
            text_bytes(t, (const char *)s->intr_regs,
                       8 * (size_t)__builtin_popcountll(s->intr_mask));
    }
    if (type & PERF_SAMPLE_PHYS_ADDR)
        put_u64(t, s->phys_addr);
    if (type & PERF_SAMPLE_CGROUP)
        put_u64(t, s->cgroup);
    if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
        put_u64(t, s->data_page_size);
    if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
        put_u64(t, s->code_page_size);
}

static void set_size(struct text *t, size_t start, uint32_t type, uint16_t misc)
{
    const struct perf_event_header h = {type, misc, (uint16_t)(t->size - start)};
    if (!t->failed)
        memcpy(t->at + start, &h, sizeof(h));
}

size_t inject_put_sample(struct text *t, const struct sample *s, const uint64_t *chain, size_t nr,
                         size_t *ret_chain_at, size_t *ret_ip_at)
{
    const struct perf_event_header none = {0};
    uint64_t type = new_type(s->present);
    size_t start = t->size;
    *ret_chain_at = *ret_ip_at = 0;
    text_bytes(t, (const char *)&none, sizeof(none));
    if (type & PERF_SAMPLE_IDENTIFIER)
        put_u64(t, s->id);
    if (type & PERF_SAMPLE_IP) {
        *ret_ip_at = t->size - start;
        put_u64(t, s->ip);
    }
    if (type & PERF_SAMPLE_TID)
        put_pair(t, s->pid, s->tid);
    if (type & PERF_SAMPLE_TIME)
        put_u64(t, s->time);
    put_words(t, s, type, true);
    if (type & PERF_SAMPLE_CALLCHAIN) {
        struct text tail = {0};
        put_tail(&tail, s, type);
        size_t used = t->size - start + sizeof(uint64_t) + tail.size;
        size_t room = used < INJECT_RECORD_MAX ? (INJECT_RECORD_MAX - used) / 8 : 0;
        nr = nr < room ? nr : room;
        t->failed |= tail.failed;
        put_u64(t, nr);
        *ret_chain_at = t->size - start;
        text_bytes(t, (const char *)chain, nr * sizeof(*chain));
        text_free(&tail);
    } else {
        nr = 0;
    }
    put_tail(t, s, type);
    set_size(t, start, PERF_RECORD_SAMPLE, s->misc);
    return nr;
}

/* Append the fields that follow records other than samples (sample_id_all). */
static void put_ids(struct text *t, const struct inject_moment *when,
                    const struct perfdata_event *e)
{
    uint64_t id = e->nr_ids ? e->ids[0] : 0, type = e->attr.sample_type;
    if (!e->attr.sample_id_all)
        return;
    if (type & PERF_SAMPLE_TID)
        put_pair(t, when->pid, when->tid);
    if (type & PERF_SAMPLE_TIME)
        put_u64(t, when->time);
    if (type & PERF_SAMPLE_ID)
        put_u64(t, id);
    if (type & PERF_SAMPLE_STREAM_ID)
        put_u64(t, id);
    if (type & PERF_SAMPLE_CPU)
        put_u64(t, when->cpu);
    if (type & PERF_SAMPLE_IDENTIFIER)
        put_u64(t, id);
}

void inject_put_map(struct text *t, const struct inject_image *image,
                    const struct inject_moment *when, const struct perfdata_event *event)
{
    static const char zeros[8];
    const struct perf_event_header none = {0};
    uint8_t id[4 + BUILD_ID_MAX] = {image->build_id.size};
    size_t start = t->size, name = strlen(image->path) + 1;
    memcpy(id + 4, image->build_id.bytes, BUILD_ID_MAX);
    text_bytes(t, (const char *)&none, sizeof(none));
    put_pair(t, when->pid, when->tid);
    put_u64(t, image->start);
    put_u64(t, image->size);
    put_u64(t, 0); /* offset in the file */
    text_bytes(t, (const char *)id, sizeof(id));
    put_pair(t, PROT_READ | PROT_EXEC, MAP_PRIVATE);
    text_bytes(t, image->path, name);
    text_bytes(t, zeros, -name & 7);
    put_ids(t, when, event);
    set_size(t, start, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID);
}
