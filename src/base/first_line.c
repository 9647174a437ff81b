/* SPDX-License-Identifier: GPL-2.0-only */
/* See first_line.h. */
#include "base/first_line.h"

#include <stdio.h>
#include <string.h>

bool first_line(const char *path, char *to, size_t size)
{
    FILE *f = fopen(path, "re");
    bool got = f && fgets(to, (int)size, f);
    if (f)
        fclose(f);
    if (got)
        to[strcspn(to, "\n")] = 0;
    return got;
}
