/* SPDX-License-Identifier: GPL-2.0-only */
/* Records of samples of allocations. See alloc_record.h. */
#include "live/alloc_record.h"

#include "live/alloc_layout.h"
#include "live/copier.h"

#include <string.h>

/* The kernel uses no ids above 2^63. */
static const uint64_t FIRST_ID = UINT64_C(0xa000000000000010);

void alloc_form_set(struct alloc_form *f, const struct perf_event_attr *first)
{
    f->ring = copier_sample_attr(first);
    f->ring.sample_type |= PERF_SAMPLE_RAW;
    f->ring.exclude_callchain_kernel = 1; /* the chain is empty, and says that there are stacks */
    f->attr = f->ring;
    f->attr.sample_type &= ~(uint64_t)PERF_SAMPLE_RAW;
    f->attr.sample_type |= PERF_SAMPLE_WEIGHT;
}

uint64_t alloc_form_id(enum alloc_kind kind)
{
    return FIRST_ID + (uint64_t)kind;
}

static size_t put(uint8_t *to, size_t at, const void *from, size_t size)
{
    memcpy(to + at, from, size);
    return at + size;
}

/* Write the record up to the registers, in the order of PERF_RECORD_SAMPLE in linux/perf_event.h.
 */
static size_t put_head(struct alloc_form *f, const struct sample *s, const struct alloc_sample *of)
{
    const enum alloc_kind kind = (enum alloc_kind)(of->function >> ALLOC_KIND & ALLOC_KIND_MASK);
    const uint64_t id = kind == ALLOC_MALLOC ? s->id : alloc_form_id(kind);
    const uint64_t weight = of->function & ALLOC_USDT ? of->mean : alloc_weight(of->size, of->mean);
    const uint64_t no_chain = 0;
    const uint32_t ids[] = {s->pid, s->tid}, cpu[] = {s->cpu, 0};
    size_t at = sizeof(struct perf_event_header);
    at = put(f->head, at, &id, sizeof(id));
    at = put(f->head, at, &s->ip, sizeof(s->ip));
    at = put(f->head, at, ids, sizeof(ids));
    at = put(f->head, at, &s->time, sizeof(s->time));
    at = put(f->head, at, &of->serial, sizeof(of->serial));
    at = put(f->head, at, cpu, sizeof(cpu));
    at = put(f->head, at, &weight, sizeof(weight));
    if (f->attr.sample_type & PERF_SAMPLE_CALLCHAIN)
        at = put(f->head, at, &no_chain, sizeof(no_chain));
    return at;
}

int alloc_form_sample(struct alloc_form *f, const struct perfdata_event *event,
                      const struct perf_event_header *record, struct sample *s, struct trimmed *t)
{
    const struct perfdata_event in_ring = {.attr = f->ring, .name = event->name};
    struct alloc_sample of;
    enum alloc_kind kind;
    if (!perfdata_alloc_kind(event, &kind))
        return 0;
    if (perfdata_sample_parse(&in_ring, record, record->size, s, NULL) < 0 || s->nr_callchain ||
        s->raw_size < sizeof(of))
        return -1;
    memcpy(&of, s->raw, sizeof(of));
    if ((of.function >> ALLOC_KIND & ALLOC_KIND_MASK) >= ALLOC_KINDS)
        return -1;
    sample_trim(record, s, t);
    size_t front = (size_t)(s->raw + s->raw_size - (const uint8_t *)record);
    size_t rest = t->header.size - front;
    struct perf_event_header header = *record;
    header.misc &= (uint16_t)~PERF_RECORD_MISC_CPUMODE_MASK;
    header.misc |= PERF_RECORD_MISC_USER;
    size_t size = put_head(f, s, &of);
    header.size = (uint16_t)(size + rest + sizeof(f->size));
    (void)put(f->head, 0, &header, sizeof(header));
    trimmed_replace_front(t, front, f->head, size);
    f->size = of.size;
    t->parts[t->nr++] = (struct iovec){&f->size, sizeof(f->size)};
    s->event = event;
    return 1;
}
