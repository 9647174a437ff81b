/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decodes PERF_RECORD_SAMPLE. The fields are in the order of the kernel's perf_output_sample().
 * Each field is present if its bit of sample_type is set.
 */
#include "base/bits.h"
#include "perfdata/perfdata_internal.h"
#include "perfdata/sample.h"

#define READ_LOST (1u << 4)        /* PERF_FORMAT_LOST */
#define HW_INDEX (1u << 17)        /* PERF_SAMPLE_BRANCH_HW_INDEX */
#define BRANCH_COUNTERS (1u << 19) /* PERF_SAMPLE_BRANCH_COUNTERS */

enum { BRANCH_ENTRY = 24 };

/* Read an array of `nr` entries of `size` bytes. Returns NULL, and marks the cursor as failed, if
 * it does not fit. */
static const uint8_t *array_take(struct cursor *c, uint64_t nr, uint64_t size)
{
    if (nr > cursor_left(c) / size) {
        c->failed = true;
        return NULL;
    }
    return cursor_bytes(c, nr * size);
}

/* Read a word of the head; the caller has checked that all bytes are there. */
static inline uint64_t head_word(const uint8_t **p, bool swap)
{
    *p += 8;
    return load_u64(*p - 8, swap);
}

static inline void head_pair(const uint8_t **p, bool swap, uint32_t *first, uint32_t *second)
{
    *first = load_u32(*p, swap);
    *second = load_u32(*p + 4, swap);
    *p += 8;
}

/* The first fields, one word each. */
enum {
    HEAD_FIELDS = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                  PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
                  PERF_SAMPLE_PERIOD,
    HEAD_MAX = 9 * 8
};

/* The bounds are checked only once, because this runs three times for every sample. */
static void head_parse(struct cursor *c, uint64_t type, struct sample *s)
{
    uint32_t reserved;
    bool swap = c->swap;
    const uint8_t *p = c->at;
    if (cursor_left(c) < HEAD_MAX && cursor_left(c) < 8 * (size_t)bits_count(type & HEAD_FIELDS)) {
        c->failed = true;
        return;
    }
    if (type & PERF_SAMPLE_IDENTIFIER)
        s->id = head_word(&p, swap);
    if (type & PERF_SAMPLE_IP)
        s->ip = head_word(&p, swap);
    if (type & PERF_SAMPLE_TID)
        head_pair(&p, swap, &s->pid, &s->tid);
    if (type & PERF_SAMPLE_TIME)
        s->time = head_word(&p, swap);
    if (type & PERF_SAMPLE_ADDR)
        s->addr = head_word(&p, swap);
    if (type & PERF_SAMPLE_ID)
        s->id = head_word(&p, swap);
    if (type & PERF_SAMPLE_STREAM_ID)
        s->stream_id = head_word(&p, swap);
    if (type & PERF_SAMPLE_CPU)
        head_pair(&p, swap, &s->cpu, &reserved);
    if (type & PERF_SAMPLE_PERIOD)
        s->period = head_word(&p, swap);
    cursor_skip(c, (uint64_t)(p - c->at));
}

void read_block_take(struct cursor *c, uint64_t format, const uint8_t **ret, size_t *size)
{
    uint64_t each = 8 + (format & PERF_FORMAT_ID ? 8 : 0) + (format & READ_LOST ? 8 : 0);
    uint64_t times = (format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 8 : 0) +
                     (format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 8 : 0);
    const uint8_t *start = c->at;
    if (format & PERF_FORMAT_GROUP) {
        uint64_t nr = cursor_u64(c);
        cursor_skip(c, times);
        array_take(c, nr, each);
    } else {
        cursor_skip(c, each + times);
    }
    *ret = c->failed ? NULL : start;
    *size = (size_t)(c->at - start);
}

static void branches_parse(struct cursor *c, uint64_t branch_type, struct sample *s)
{
    s->nr_branches = cursor_u64(c);
    if (branch_type & HW_INDEX)
        cursor_skip(c, 8);
    s->branches = array_take(c, s->nr_branches, BRANCH_ENTRY);
    if (branch_type & BRANCH_COUNTERS)
        array_take(c, s->nr_branches, 8);
}

static const uint8_t *regs_parse(struct cursor *c, uint64_t mask, uint64_t *abi)
{
    *abi = cursor_u64(c);
    return *abi ? cursor_bytes(c, 8 * (uint64_t)bits_count(mask)) : NULL;
}

/* Returns where the file has the rest of a stack of which the record holds `stack_near` bytes;
 * NULL: nowhere. */
static const uint8_t *stack_rest(const struct perfdata *pd, const struct record *rec,
                                 const struct sample *s)
{
    const struct stream *from = &pd->streams.at[rec->stream];
    uint64_t at = rec->offset + (uint64_t)(s->stack - rec->data) + s->stack_near;
    uint64_t size = s->stack_dyn_size - s->stack_near;
    if (!from->skim.on || at > from->map_size || from->map_size - at < size)
        return NULL;
    return from->map + at;
}

/* `trimmed` bytes at the end of the copy were left out when the record was kept (chunk.c,
 * skim.c). */
static void stack_parse(const struct perfdata *pd, const struct record *rec, struct cursor *c,
                        uint64_t trimmed, struct sample *s)
{
    s->stack_size = cursor_u64(c);
    if (!s->stack_size)
        return;
    if (trimmed > s->stack_size) {
        c->failed = true;
        return;
    }
    s->stack = cursor_bytes(c, s->stack_size - trimmed);
    s->stack_dyn_size = s->stack_near = cursor_u64(c);
    if (s->stack_dyn_size <= s->stack_size - trimmed || c->failed)
        return;
    s->stack_near = s->stack_size - trimmed;
    s->stack_far = trimmed && s->stack_dyn_size <= s->stack_size ? stack_rest(pd, rec, s) : NULL;
    c->failed = !s->stack_far;
}

static void tail_parse(struct cursor *c, const struct perf_event_attr *attr, struct sample *s)
{
    uint64_t type = attr->sample_type;
    if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
        s->weight = cursor_u64(c);
    if (type & PERF_SAMPLE_DATA_SRC)
        s->data_src = cursor_u64(c);
    if (type & PERF_SAMPLE_TRANSACTION)
        s->transaction = cursor_u64(c);
    if (type & PERF_SAMPLE_REGS_INTR) {
        s->intr_mask = attr->sample_regs_intr;
        s->intr_regs = regs_parse(c, s->intr_mask, &s->intr_abi);
    }
    if (type & PERF_SAMPLE_PHYS_ADDR)
        s->phys_addr = cursor_u64(c);
    if (type & PERF_SAMPLE_CGROUP)
        s->cgroup = cursor_u64(c);
    if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
        s->data_page_size = cursor_u64(c);
    if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
        s->code_page_size = cursor_u64(c);
    if (type & PERF_SAMPLE_AUX) {
        s->aux_size = cursor_u64(c);
        s->aux = cursor_bytes(c, s->aux_size);
    }
}

static void middle_parse(struct cursor *c, const struct perf_event_attr *attr, struct sample *s)
{
    uint64_t type = attr->sample_type;
    if (type & PERF_SAMPLE_READ)
        read_block_take(c, attr->read_format, &s->read, &s->read_size);
    if (type & PERF_SAMPLE_CALLCHAIN) {
        s->nr_callchain = cursor_u64(c);
        s->callchain = array_take(c, s->nr_callchain, 8);
    }
    if (type & PERF_SAMPLE_RAW) {
        s->raw_size = cursor_u32(c);
        s->raw = cursor_bytes(c, s->raw_size);
    }
    if (type & PERF_SAMPLE_BRANCH_STACK)
        branches_parse(c, attr->branch_sample_type, s);
    if (type & PERF_SAMPLE_REGS_USER) {
        s->user_mask = attr->sample_regs_user;
        s->user_regs = regs_parse(c, s->user_mask, &s->user_abi);
    }
}

static int sample_start(const struct perfdata *pd, const struct record *rec, struct cursor *c,
                        struct sample *ret, struct error *err)
{
    memset(ret, 0, sizeof(*ret));
    if (rec->type != PERF_RECORD_SAMPLE)
        return (void)record_error(pd, rec, err, "is no sample"), -1;
    if (rec->event >= pd->nr_events)
        return (void)record_error(pd, rec, err, "its id belongs to no event"), -1;
    ret->event = &event_at(pd, rec->event)->pub;
    ret->present = ret->event->attr.sample_type;
    ret->misc = rec->misc;
    ret->swapped = pd->swap;
    if (!(ret->present & PERF_SAMPLE_PERIOD)) /* the fixed period (-c), as perf does */
        ret->period = ret->event->attr.sample_period;
    *c = record_cursor(pd, rec);
    head_parse(c, ret->present, ret);
    return 0;
}

int perfdata_sample_head(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                         struct error *err)
{
    struct cursor c;
    if (sample_start(pd, rec, &c, ret, err) < 0)
        return -1;
    return c.failed ? record_error(pd, rec, err, "ends inside its fixed fields") : 0;
}

/* header.size has 16 bits. The kernel chooses the size of the stack copy to fill the record, and
 * then adds the interrupt registers: the sum wraps, and the ring holds as many bytes as the wrapped
 * size says. */
static int overrun_error(const struct perfdata *pd, const struct record *rec,
                         const struct sample *s, struct error *err)
{
    const uint64_t regs = PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_STACK_USER;
    if ((s->present & regs) != regs)
        return record_error(pd, rec, err, "its fields run past its end");
    int nr = __builtin_popcountll(s->event->attr.sample_regs_intr);
    char text[144];
    snprintf(text, sizeof(text),
             "its stack copy was lost to a 16-bit size; record --intr-regs with "
             "--call-graph=dwarf,%d or less",
             (65528 - 8 * (nr + 2)) & ~7);
    return record_error(pd, rec, err, text);
}

int perfdata_sample(const struct perfdata *pd, const struct record *rec, struct sample *ret,
                    struct error *err)
{
    struct cursor c;
    if (sample_start(pd, rec, &c, ret, err) < 0)
        return -1;
    middle_parse(&c, &ret->event->attr, ret);
    uint64_t size = load_u16(rec->data + offsetof(struct perf_event_header, size), pd->swap);
    if (ret->present & PERF_SAMPLE_STACK_USER)
        stack_parse(pd, rec, &c, size > rec->size ? size - rec->size : 0, ret);
    tail_parse(&c, &ret->event->attr, ret);
    if (c.failed)
        return overrun_error(pd, rec, ret, err);
    if (cursor_left(&c) && !(ret->present & ~(uint64_t)SAMPLE_TYPE_KNOWN))
        return record_error(pd, rec, err, "is longer than its fields");
    return 0;
}

bool sample_stack_at(const struct perfdata *pd, const struct record *rec, size_t have,
                     size_t *ret_at, uint64_t *ret_size)
{
    struct sample s;
    struct cursor c;
    struct record head = *rec;
    head.size = (uint32_t)have;
    if (rec->event == PERFDATA_NO_EVENT || sample_start(pd, &head, &c, &s, NULL) < 0 ||
        !(s.present & PERF_SAMPLE_STACK_USER))
        return false;
    middle_parse(&c, &s.event->attr, &s);
    *ret_size = cursor_u64(&c);
    *ret_at = (size_t)(c.at - rec->data);
    return !c.failed && *ret_size > 0;
}

int perfdata_sample_parse(const struct perfdata_event *event, const void *data, size_t size,
                          struct sample *ret, struct error *err)
{
    struct cursor c = cursor_make(data, size, false, "sample", "sample", 0);
    memset(ret, 0, sizeof(*ret));
    ret->event = event;
    ret->present = event->attr.sample_type;
    cursor_skip(&c, offsetof(struct perf_event_header, misc));
    ret->misc = cursor_u16(&c);
    uint16_t whole = cursor_u16(&c);
    if (c.failed || whole < RECORD_HEADER || whole > size)
        return error_set(err, ERROR_FORMAT, "a sample's size is not its header's");
    c.end = c.start + whole;
    head_parse(&c, ret->present, ret);
    middle_parse(&c, &event->attr, ret);
    if (ret->present & PERF_SAMPLE_STACK_USER)
        stack_parse(NULL, NULL, &c, 0, ret); /* the sample is whole: no file is needed */
    tail_parse(&c, &event->attr, ret);
    return c.failed ? error_set(err, ERROR_TRUNCATED, "a sample's fields run past its end") : 0;
}

bool sample_user_reg(const struct sample *s, unsigned bit, uint64_t *ret)
{
    if (!s->user_regs || bit > 63)
        return false;
    uint64_t mask = s->user_mask;
    if (!(mask >> bit & 1))
        return false;
    unsigned before = bits_count(mask & ((UINT64_C(1) << bit) - 1));
    *ret = load_u64(s->user_regs + 8 * (size_t)before, s->swapped);
    return true;
}

bool sample_value(const struct sample *s, size_t i, struct sample_value *ret)
{
    uint64_t format = s->event->attr.read_format;
    bool group = format & PERF_FORMAT_GROUP;
    struct cursor c = cursor_make(s->read, s->read_size, s->swapped, "", "", 0);
    uint64_t nr = group ? cursor_u64(&c) : 1;
    uint64_t times = (format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 8 : 0) +
                     (format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 8 : 0);
    uint64_t each = 8 + (format & PERF_FORMAT_ID ? 8 : 0) + (format & READ_LOST ? 8 : 0);
    if (i >= nr || i > s->read_size / 8)
        return false;
    if (group) { /* the times are before the values, not behind the single value */
        cursor_skip(&c, times + i * each);
        times = 0;
    }
    ret->value = cursor_u64(&c);
    cursor_skip(&c, times);
    ret->id = format & PERF_FORMAT_ID ? cursor_u64(&c) : 0;
    return !c.failed;
}

uint64_t sample_callchain_at(const struct sample *s, uint64_t i)
{
    return i < s->nr_callchain ? load_u64(s->callchain + 8 * i, s->swapped) : 0;
}

/* Compilers for big-endian machines put the first bit field into the highest bits. */
static uint64_t big_endian_flags(uint64_t v)
{
    return v >> 63 | (v >> 62 & 1) << 1 | (v >> 61 & 1) << 2 | (v >> 60 & 1) << 3 |
           (v >> 44 & 0xffff) << 4 | (v >> 40 & 15) << 20;
}

bool sample_branch_at(const struct sample *s, uint64_t i, struct sample_branch *ret)
{
    if (i >= s->nr_branches)
        return false;
    const uint8_t *at = s->branches + BRANCH_ENTRY * i;
    ret->from = load_u64(at, s->swapped);
    ret->to = load_u64(at + 8, s->swapped);
    ret->flags = load_u64(at + 16, s->swapped);
    if (s->swapped)
        ret->flags = big_endian_flags(ret->flags);
    return true;
}

uint64_t perfdata_user_registers(void)
{
#if defined(__x86_64__)
    return UINT64_C(0xff0fff); /* all but the segment registers ds, es, fs, gs */
#elif defined(__aarch64__)
    return (UINT64_C(1) << 33) - 1;
#else
    return 0;
#endif
}
