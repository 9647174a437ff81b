/* SPDX-License-Identifier: GPL-2.0-only */
/* What was lost while recording, in the words of all commands. */
#include "output/output.h"

#include "perfdata/perfdata.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool loss_put(struct text *t, const struct perfdata_loss *l)
{
    const struct {
        uint64_t nr;
        const char *what;
    } parts[] = {
        {l->samples_lost, "samples"},
        {l->records_lost, "records of mappings and processes"},
        {perfdata_lost_unknown(l), "samples or records (perf does not tell which)"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (!parts[i].nr)
            continue;
        text_printf(t, "%s%" PRIu64 " %s", any ? " and " : "", parts[i].nr, parts[i].what);
        any = true;
    }
    return any;
}

/* The value of -m in a command line: MiB of a ring, rounded down; 0: there is none. */
static uint64_t ring_mib(const char *command)
{
    static const char *const names[] = {" -m", " --mmap-pages"};
    const uint64_t pages_of_mib = 256;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *at = strstr(command, names[i]);
        if (!at)
            continue;
        at += strlen(names[i]);
        at += strspn(at, " =");
        char *end;
        uint64_t number = strtoull(at, &end, 10);
        switch (*end & ~0x20) {
        case 'G':
            return number << 10;
        case 'M':
            return number;
        case 'K':
            return number >> 10;
        case 'B':
            return number >> 20;
        default:
            return number / pages_of_mib;
        }
    }
    return 0;
}

void loss_put_cure(struct text *t, const struct perfdata *pd)
{
    enum { USUAL = 16, MOST = 512 }; /* MiB; `ljperf record` itself takes up to USUAL */
    const char *command = perfdata_cmdline(pd) ? perfdata_cmdline(pd) : "";
    uint64_t used = ring_mib(command);
    if (!used && strncmp(command + strcspn(command, " "), " record", 7) == 0 &&
        memmem(command, strcspn(command, " "), "ljperf", 6))
        used = USUAL;
    uint64_t next = used < USUAL ? USUAL : 2 * used;
    if (next <= MOST)
        text_printf(t, "record with a larger buffer (-m %" PRIu64 "M) or a lower -F", next);
    else
        text_string(t, "record with a lower -F");
}
