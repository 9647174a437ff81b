/* SPDX-License-Identifier: GPL-2.0-only */
/* Records of samples of time off the cpu. See off_cpu_record.h. */
#include "live/off_cpu_record.h"

#include "live/copier.h"
#include "perfdata/offcpu.h"

#include <string.h>

enum { RECORD_MAX = UINT16_MAX & ~7 }; /* bytes */

/* Samples have what those of the first event have. Their kernel stack is that of the wait: it comes
 * with the payload. */
void off_cpu_form_set(struct off_cpu_form *o, const struct perf_event_attr *first, bool more)
{
    o->attr = copier_sample_attr(first);
    o->ring = o->attr;
    o->ring.sample_type |= PERF_SAMPLE_RAW;
    o->ring.exclude_callchain_kernel = 1;
    if (more)
        o->attr.sample_type |= PERF_SAMPLE_AUX;
}

static size_t put(uint8_t *to, size_t at, const void *from, size_t size)
{
    memcpy(to + at, from, size);
    return at + size;
}

static size_t put_u64(uint8_t *to, size_t at, uint64_t value)
{
    return put(to, at, &value, sizeof(value));
}

/* Write the record up to the callchain, in the order of PERF_RECORD_SAMPLE in linux/perf_event.h.
 * `nr`: of kernel frames that are written. */
static size_t put_head(struct off_cpu_form *o, const struct sample *s,
                       const struct off_cpu_due *due, unsigned nr)
{
    const struct offcpu_wait wait = {.waited = due->waited,
                                     .nr = due->nr < UINT32_MAX ? (unsigned)due->nr : UINT32_MAX,
                                     .reason = wait_reason_of(due->state),
                                     .syscall = due->syscall};
    const uint32_t ids[] = {s->pid, s->tid}, cpu[] = {s->cpu, 0};
    const uint64_t kernel = PERF_CONTEXT_KERNEL;
    uint8_t *to = o->head;
    size_t at = sizeof(struct perf_event_header);
    at = put_u64(to, at, s->id);
    at = put_u64(to, at, nr ? due->frames[0] : due->ip);
    at = put(to, at, ids, sizeof(ids));
    at = put_u64(to, at, s->time);
    at = put_u64(to, at, offcpu_word(&wait));
    at = put(to, at, cpu, sizeof(cpu));
    at = put_u64(to, at, due->weight);
    if (!(o->attr.sample_type & PERF_SAMPLE_CALLCHAIN))
        return at;
    at = put_u64(to, at, nr ? nr + 1 : 0);
    at = put(to, at, &kernel, nr ? sizeof(kernel) : 0);
    return put(to, at, due->frames, nr * sizeof(*due->frames));
}

/* Write the data of PERF_SAMPLE_AUX, the record's end. Returns its size, with its size word. */
static size_t put_tail(struct off_cpu_form *o, const struct off_cpu_due *due)
{
    struct offcpu_more more = {.flags = due->waker.flags | OFFCPU_RUNQUEUE,
                               .waker_pid = due->waker.pid,
                               .waker_tid = due->waker.tid,
                               .runqueue = due->runqueue};
    memcpy(more.waker, due->waker.comm, OFFCPU_COMM - 1);
    if (!(o->attr.sample_type & PERF_SAMPLE_AUX))
        return 0;
    size_t at = put_u64(o->tail, 0, sizeof(more));
    return put(o->tail, at, &more, sizeof(more));
}

/* Returns how many kernel frames are written: as many as fit into a record beside `rest` bytes. */
static unsigned frames_that_fit(const struct off_cpu_due *due, size_t rest)
{
    size_t room = RECORD_MAX - OFF_CPU_HEAD > rest ? (RECORD_MAX - OFF_CPU_HEAD - rest) / 8 : 0;
    return (unsigned)(room < due->nr_frames ? room : due->nr_frames);
}

int off_cpu_form_sample(struct off_cpu_form *o, const struct perfdata_event *event,
                        const struct perf_event_header *record, struct sample *s, struct trimmed *t)
{
    const struct perfdata_event in_ring = {.attr = o->ring, .name = OFFCPU_NAME};
    struct off_cpu_due due;
    if (strcmp(event->name, OFFCPU_NAME) != 0)
        return 0;
    if (perfdata_sample_parse(&in_ring, record, record->size, s, NULL) < 0 || s->nr_callchain ||
        s->raw_size < sizeof(due))
        return -1;
    memcpy(&due, s->raw, sizeof(due));
    if (due.nr_frames > OFF_CPU_FRAMES)
        return -1;
    sample_trim(record, s, t);
    size_t front = (size_t)(s->raw + s->raw_size - (const uint8_t *)record);
    size_t tail = put_tail(o, &due);
    size_t rest = t->header.size - front + tail;
    unsigned nr = frames_that_fit(&due, rest);
    size_t size = put_head(o, s, &due, nr);
    struct perf_event_header header = *record;
    header.misc &= (uint16_t)~PERF_RECORD_MISC_CPUMODE_MASK;
    header.misc |= nr ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
    header.size = (uint16_t)(size + rest);
    put(o->head, 0, &header, sizeof(header));
    trimmed_replace_front(t, front, o->head, size);
    if (tail)
        t->parts[t->nr++] = (struct iovec){o->tail, tail};
    s->event = event;
    return 1;
}

/* Append the user's registers and stack, in the order of PERF_RECORD_SAMPLE. */
static size_t put_user(struct off_cpu_form *o, size_t at, const struct off_cpu_thread *t,
                       const void *stack, size_t size)
{
    uint8_t *to = o->record;
    if (o->attr.sample_type & PERF_SAMPLE_REGS_USER) {
        at = put_u64(to, at, PERF_SAMPLE_REGS_ABI_64);
        for (unsigned i = 0; i < OFF_CPU_REGISTERS; i++)
            if (o->attr.sample_regs_user >> i & 1)
                at = put_u64(to, at, t->registers[i]);
    }
    if (o->attr.sample_type & PERF_SAMPLE_STACK_USER) {
        /* As in sample_trim(): there is room for more, so the stack has ended, not the copy. */
        uint64_t room = size ? (size & ~UINT64_C(7)) + 8 : 0;
        at = put_u64(to, at, room);
        at = put(to, at, stack, size);
        memset(to + at, 0, room - size);
        at += room - size;
        if (room)
            at = put_u64(to, at, size);
    }
    return at;
}

const struct perf_event_header *off_cpu_form_thread(struct off_cpu_form *o,
                                                    const struct off_cpu_thread *t,
                                                    const struct off_cpu_end *end)
{
    const size_t fixed = OFF_CPU_HEAD + 8 * (1 + OFF_CPU_REGISTERS) + 8 * 3 + OFF_CPU_TAIL;
    const size_t size = end->size < RECORD_MAX - fixed ? end->size : RECORD_MAX - fixed;
    struct off_cpu_due due = {.weight = end->waited,
                              .waited = end->waited,
                              .nr = 1,
                              .state = t->state,
                              .syscall = t->syscall,
                              .nr_frames = t->nr_frames,
                              .ip = t->registers[OFF_CPU_IP]};
    due.runqueue = wait_reason_of(t->state) == WAIT_RUNNABLE ? end->waited : 0;
    if (!t->is_64bit || t->nr_frames > OFF_CPU_FRAMES || !end->waited ||
        end->size > o->attr.sample_stack_user)
        return NULL;
    memcpy(due.frames, t->frames, sizeof(due.frames));
    unsigned nr = frames_that_fit(&due, fixed - OFF_CPU_HEAD + size);
    const struct sample s = {
        .id = end->id, .pid = t->pid, .tid = t->tid, .time = end->time, .cpu = UINT32_MAX};
    size_t at = put_head(o, &s, &due, nr);
    memcpy(o->record, o->head, at);
    at = put_user(o, at, t, end->stack, size);
    size_t tail = put_tail(o, &due);
    at = put(o->record, at, o->tail, tail);
    const struct perf_event_header header = {.type = PERF_RECORD_SAMPLE,
                                             .misc = nr ? PERF_RECORD_MISC_KERNEL
                                                        : PERF_RECORD_MISC_USER,
                                             .size = (uint16_t)at};
    memcpy(o->record, &header, sizeof(header));
    return (const struct perf_event_header *)o->record;
}
