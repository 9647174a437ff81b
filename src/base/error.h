/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors are values. A function that can fail returns 0 (or a count) on success and -1 on failure,
 * and describes the failure in the `struct error` that its caller passed last. Libraries never
 * print and never exit; commands do.
 *
 * An error text names what was wrong, where (file, offset, record) and the cure if there is one. It
 * has no trailing newline or full stop.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

enum error_kind {
    ERROR_NONE,
    ERROR_NO_MEMORY,   /* an allocation failed */
    ERROR_SYSTEM,      /* a system call failed; sys_errno holds errno */
    ERROR_FORMAT,      /* the input is not what its format says */
    ERROR_TRUNCATED,   /* the input ends before it should */
    ERROR_UNSUPPORTED, /* valid input that this program does not handle */
    ERROR_NOT_FOUND,   /* the thing asked for does not exist */
};

struct error {
    enum error_kind kind;
    int sys_errno;
    char text[248];
};

/* Describe a failure. `err` may be NULL (the caller does not care). Always returns -1. */
int error_set(struct error *err, enum error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Like error_set() with kind ERROR_SYSTEM; appends ": " and the text of `sys_errno`. Returns -1. */
int error_system(struct error *err, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Like error_set() with kind ERROR_NO_MEMORY and a fixed text. Returns -1. */
int error_no_memory(struct error *err);

#endif
