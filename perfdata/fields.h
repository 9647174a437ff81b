/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes named values as text on one line (pid=1 comm="x") or as members of a JSON object. */
#ifndef PERFDATA_FIELDS_H
#define PERFDATA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct fields {
    FILE *out;
    bool json;
    bool first; /* the current object or list is still empty */
};

void field_dec(struct fields *f, const char *name, uint64_t value);
void field_signed(struct fields *f, const char *name, int64_t value);
/* Write a number in hexadecimal. In JSON it is a string, because JSON numbers have only 53 bits. */
void field_hex(struct fields *f, const char *name, uint64_t value);
void field_real(struct fields *f, const char *name, double value);
void field_flag(struct fields *f, const char *name, bool value); /* text: only if set */
void field_bytes(struct fields *f, const char *name, const uint8_t *bytes, size_t size);
/* Write a string of at most `size` bytes, which ends at its NUL if it has one. */
void field_string(struct fields *f, const char *name, const char *text, size_t size);
/* Begin a list of values, whose names are then NULL, or a list of objects. */
void field_open(struct fields *f, const char *name, char bracket);
void field_close(struct fields *f, char bracket);

#endif
