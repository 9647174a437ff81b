/* SPDX-License-Identifier: GPL-2.0-only */
/* See offline.h. */
#include "record/offline.h"

#include "base/first_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool offline_list_has(const char *list, int cpu)
{
    for (const char *part = list; part && *part; part = strchr(part, ',')) {
        int first, last, end = 0;
        part += *part == ',';
        int nr = sscanf(part, "%d-%d%n", &first, &last, &end);
        if (nr == 1)
            last = first;
        if (nr >= 1 && first <= cpu && cpu <= last)
            return true;
    }
    return false;
}

/* A processor of the rings that is online no more, and was not told yet; -1: none. */
static int find(struct offline *o, const struct events *e, const char *online)
{
    for (size_t i = 0; i < e->rings.nr; i++) {
        int cpu = e->rings.at[i].cpu;
        if (cpu < 0 || o->gone[i] || offline_list_has(online, cpu))
            continue;
        o->gone[i] = true;
        return cpu;
    }
    return -1;
}

int offline_next(struct offline *o, const struct events *e, uint64_t now)
{
    enum { EVERY_NS = 1000000000 };
    char online[4096];
    if (now - o->looked < EVERY_NS)
        return -1;
    if (!o->gone)
        o->gone = calloc(e->rings.nr + 1, sizeof(*o->gone));
    int cpu = o->gone && first_line("/sys/devices/system/cpu/online", online, sizeof(online))
                  ? find(o, e, online)
                  : -1;
    if (cpu < 0)
        o->looked = now;
    return cpu;
}

void offline_free(struct offline *o)
{
    free(o->gone);
    o->gone = NULL;
}
