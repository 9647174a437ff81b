/* SPDX-License-Identifier: GPL-2.0-only */
/* What was lost while recording, in the words of all commands. */
#include "output/output.h"

#include "perfdata/perfdata.h"

#include <inttypes.h>

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
