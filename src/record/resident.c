/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits of recorded faults. See resident.h. */
#include "record/resident.h"

#include "base/first_line.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/"

/* Whether a setting is one of those that switch such pages on; `inherited`: what "inherit" means.
 */
static bool is_on(const char *path, bool inherited)
{
    char line[128];
    if (!first_line(path, line, sizeof(line)) || strstr(line, "[never]"))
        return false;
    return !strstr(line, "[inherit]") || inherited;
}

/* Whether one fault may bring several of the pages that page tables tell (Linux 6.8). A huge page
 * of the page tables' own size is told by the sample. */
static bool has_middle_pages(void)
{
    const bool inherited = is_on(HUGE_PAGES "enabled", false);
    char line[32], whole[64] = "";
    glob_t found;
    bool on = false;
    if (first_line(HUGE_PAGES "hpage_pmd_size", line, sizeof(line)))
        snprintf(whole, sizeof(whole), "hugepages-%llukB/", strtoull(line, NULL, 10) >> 10);
    if (glob(HUGE_PAGES "hugepages-*kB/enabled", 0, NULL, &found))
        return false;
    for (size_t i = 0; i < found.gl_pathc && *whole; i++)
        on |= !strstr(found.gl_pathv[i], whole) && is_on(found.gl_pathv[i], inherited);
    globfree(&found);
    return on;
}

void resident_say_limits(record_say say, void *context)
{
    char line[16];
    if (has_middle_pages())
        say(context, false,
            "--rss: one fault may bring several pages here (" HUGE_PAGES
            "hugepages-*kB/enabled): less than what becomes resident is shown");
    if (first_line("/proc/sys/kernel/numa_balancing", line, sizeof(line)) && atoi(line))
        say(context, false,
            "--rss: the kernel lets pages fault to balance them between nodes (sysctl "
            "kernel.numa_balancing): old pages may seem new");
}
