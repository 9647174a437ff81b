/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdio.h>

int main(void)
{
    fputs("ljperf: no commands yet\n", stderr);
    return 2;
}
