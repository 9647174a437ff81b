/* SPDX-License-Identifier: GPL-2.0-only */
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

char scratch_folder[256];

void shell(const char *fmt, ...)
{
    char command[2304], body[1900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(body, sizeof(body), fmt, args);
    va_end(args);
    snprintf(command, sizeof(command), "cd %s && { %s ; }", scratch_folder, body);
    assert_int_equal(system(command), 0);
}

const char *path(const char *name)
{
    static char text[4][512];
    static int at;
    at = (at + 1) % 4;
    snprintf(text[at], sizeof(text[at]), "%s/%s", scratch_folder, name);
    return text[at];
}
