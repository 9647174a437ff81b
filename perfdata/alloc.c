/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples of allocations. See alloc.h. */
#include "perfdata/alloc.h"

#include "base/hash.h"
#include "perfdata/vmevent_layout.h"

#include <math.h>
#include <string.h>

static const char *const names[ALLOC_KINDS] = {
    [ALLOC_MALLOC] = "malloc",           [ALLOC_JS] = "js-heap",
    [ALLOC_JS_EXTERNAL] = "js-external", [ALLOC_LUA] = "lua-heap",
    [ALLOC_BURSTS] = "malloc-bursts",    [ALLOC_JS_BURSTS] = "js-bursts"};

const char *alloc_event_name(enum alloc_kind kind)
{
    return names[kind];
}

bool perfdata_alloc_kind(const struct perfdata_event *event, enum alloc_kind *ret)
{
    if (event->attr.type != PERF_TYPE_SOFTWARE || event->attr.config != PERF_COUNT_SW_BPF_OUTPUT ||
        !event->name)
        return false;
    for (int i = 0; i < ALLOC_KINDS; i++) {
        *ret = (enum alloc_kind)i;
        if (strcmp(event->name, names[i]) == 0)
            return true;
    }
    return false;
}

bool alloc_is_followed(const struct sample *s, enum alloc_kind kind)
{
    return kind == ALLOC_MALLOC || s->addr & VMEVENT_FOLLOWED;
}

uint64_t alloc_weight(uint64_t size, uint64_t mean)
{
    if (!size || !mean)
        return size;
    return (uint64_t)llround((double)size / -expm1(-(double)size / (double)mean));
}

/* Returns a number from 0 to 1 that looks as if it was drawn. */
static double share_of(uint64_t serial)
{
    return (double)(hash_u64(serial) >> 11) / (double)(UINT64_C(1) << 53);
}

uint64_t alloc_objects(const struct sample *s)
{
    if (!s->weight || !(s->present & PERF_SAMPLE_WEIGHT))
        return 0;
    double exact = (double)s->period / (double)s->weight, whole = floor(exact);
    return (uint64_t)whole + (share_of(s->addr) < exact - whole);
}
