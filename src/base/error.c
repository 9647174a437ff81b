/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void describe(struct error *err, enum error_kind kind, int sys_errno, const char *fmt,
                     va_list args)
{
    err->kind = kind;
    err->sys_errno = sys_errno;
    int used = vsnprintf(err->text, sizeof(err->text), fmt, args);
    if (sys_errno == 0 || used < 0 || (size_t)used >= sizeof(err->text))
        return;
    char reason[96];
    snprintf(err->text + used, sizeof(err->text) - (size_t)used, ": %s",
             strerror_r(sys_errno, reason, sizeof(reason)));
}

int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        describe(err, kind, 0, fmt, args);
        va_end(args);
    }
    return -1;
}

int error_system(struct error *err, int sys_errno, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        describe(err, ERROR_SYSTEM, sys_errno, fmt, args);
        va_end(args);
    }
    return -1;
}

int error_no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, "out of memory");
}
