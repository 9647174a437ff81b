/* SPDX-License-Identifier: GPL-2.0-only */
/* Faults of pages. See resident.h. */
#include "perfdata/resident.h"

#include <string.h>

enum { PAGE_SMALLEST = 4096 };

bool perfdata_is_resident(const struct perfdata_event *event)
{
    const size_t size = sizeof(RESIDENT_NAME) - 1;
    return event->attr.type == PERF_TYPE_SOFTWARE &&
           event->attr.config == PERF_COUNT_SW_PAGE_FAULTS_MIN &&
           (event->attr.sample_type & PERF_SAMPLE_ADDR) && event->name &&
           strncmp(event->name, RESIDENT_NAME, size) == 0 &&
           (!event->name[size] || event->name[size] == ':');
}

bool perfdata_resident(const struct sample *s, struct resident_fault *ret)
{
    if (!s->event || !perfdata_is_resident(s->event))
        return false;
    bool says = (s->present & PERF_SAMPLE_DATA_PAGE_SIZE) && s->data_page_size >= PAGE_SMALLEST &&
                !(s->data_page_size & (s->data_page_size - 1));
    ret->bytes = says ? s->data_page_size : PAGE_SMALLEST;
    ret->page = s->addr & ~(ret->bytes - 1);
    return true;
}
