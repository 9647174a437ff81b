/* SPDX-License-Identifier: GPL-2.0-only */
/* Named values on a line of text ("pid=1 comm="x"") or as members of a JSON object. */
#ifndef PERFDATA_FIELDS_H
#define PERFDATA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct fields {
    FILE *out;
    bool json;
    bool first; /* nothing stands in the current object or list yet */
};

void field_dec(struct fields *f, const char *name, uint64_t value);
void field_signed(struct fields *f, const char *name, int64_t value);
/* Hexadecimal; a string in JSON, whose numbers have 53 bits. */
void field_hex(struct fields *f, const char *name, uint64_t value);
void field_real(struct fields *f, const char *name, double value);
void field_flag(struct fields *f, const char *name, bool value); /* text: only when set */
void field_bytes(struct fields *f, const char *name, const uint8_t *bytes, size_t size);
/* A string of at most `size` bytes, ending at its NUL if it has one. */
void field_string(struct fields *f, const char *name, const char *text, size_t size);
/* A list of values, whose names are then NULL; or of objects. */
void field_open(struct fields *f, const char *name, char bracket);
void field_close(struct fields *f, char bracket);

#endif
