/* SPDX-License-Identifier: GPL-2.0-only */
/* Any bytes as the payload of one of ljperf's own events: all bytes that an entry refers to must
 * exist. */
#include "perfdata/vmevent.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct vmevent e;
    struct vmevent_entry entry;
    unsigned nr = 0;
    volatile uint8_t sum = 0;
    if (vmevent_open(bytes, size, &e, NULL) < 0)
        return 0;
    while (vmevent_next(&e, &entry, NULL) > 0) {
        for (uint32_t i = 0; entry.bytes && i < entry.length; i++)
            sum ^= entry.bytes[i];
        if (entry.address + entry.length < entry.address || ++nr > e.head.nr_entries)
            abort();
    }
    (void)sum;
    return vmevent_reason_text(e.head.reason) ? 0 : -1;
}
