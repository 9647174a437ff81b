/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/live_memory.h"

struct live_memory live_memory_of(struct object_log *p, const struct sample *s, uint64_t sp,
                                  uint64_t reads, uint64_t age)
{
    enum { BELOW = 256 << 10 };
    return (struct live_memory){.process = p,
                                .limit = object_log_stats(p).reads + reads,
                                .until = s->time + age,
                                .objects = object_log_layer(p),
                                .from = sp > BELOW ? sp - BELOW : 0,
                                .to = sp + s->stack_dyn_size};
}

uint64_t live_memory_left(const struct live_memory *view)
{
    uint64_t reads = object_log_stats(view->process).reads;
    return reads < view->limit ? view->limit - reads : 0;
}

static bool read_heap(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct live_memory *v = context;
    if ((q->address < v->to && q->address + q->size > v->from) ||
        object_log_stats(v->process).reads > v->limit || object_log_read_at(v->process) > v->until)
        return false;
    return v->objects.read(v->objects.context, q, to, answer);
}

struct memory_layer live_memory_layer(const struct live_memory *view)
{
    return (struct memory_layer){.name = "live",
                                 .read = read_heap,
                                 .context = (void *)(uintptr_t)view,
                                 .when = MEMORY_OF_OTHER_TIMES};
}
