/* SPDX-License-Identifier: GPL-2.0-only */
/* In a sample the stack copy is: u64 size, bytes, u64 dynamic size. Other fields may follow. */
#include "perfdata/trim.h"

static void part_add(struct trimmed *t, const void *at, size_t size)
{
    if (size)
        t->parts[t->nr++] = (struct iovec){(void *)at, size};
}

void sample_trim(const struct perf_event_header *record, const struct sample *s,
                 struct trimmed *ret)
{
    static const uint8_t zeros[8];
    const uint8_t *start = (const uint8_t *)record, *end = start + record->size;
    ret->header = *record;
    ret->nr = 0;
    ret->kept = s->stack ? (s->stack_dyn_size & ~UINT64_C(7)) + 8 : 0;
    if (!s->stack || ret->kept >= s->stack_size) {
        part_add(ret, record, record->size);
        return;
    }
    ret->header.size = (uint16_t)(record->size - (s->stack_size - ret->kept));
    const uint8_t *size_at = s->stack - sizeof(uint64_t);
    part_add(ret, &ret->header, sizeof(ret->header));
    part_add(ret, start + sizeof(*record), (size_t)(size_at - start) - sizeof(*record));
    part_add(ret, &ret->kept, sizeof(ret->kept));
    part_add(ret, s->stack, s->stack_dyn_size);
    part_add(ret, zeros, ret->kept - s->stack_dyn_size); /* 1 to 8 bytes */
    part_add(ret, s->stack + s->stack_size, (size_t)(end - s->stack) - s->stack_size);
}

void trimmed_replace_front(struct trimmed *t, size_t bytes, void *head, size_t size)
{
    const struct trimmed of = *t;
    t->nr = 0;
    t->parts[t->nr++] = (struct iovec){head, size};
    for (int i = 0; i < of.nr; i++) {
        struct iovec part = of.parts[i];
        size_t skipped = bytes < part.iov_len ? bytes : part.iov_len;
        bytes -= skipped;
        part.iov_base = (char *)part.iov_base + skipped;
        part.iov_len -= skipped;
        if (part.iov_len)
            t->parts[t->nr++] = part;
    }
}
