/* SPDX-License-Identifier: GPL-2.0-only */
/* JSON as it is written, value by value, through yajl: nothing of it is kept in memory. */
#ifndef OUTPUT_JSON_H
#define OUTPUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* NULL when memory is out. */
struct json *json_create(FILE *out);
/* Write the rest. False: memory was out, or a value stood where none may. The stream is not closed;
 * its own errors are the caller's to look for. */
bool json_finish(struct json *j);

void json_object(struct json *j);
void json_object_end(struct json *j);
void json_array(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);

/* Bytes that are not UTF-8, and control characters, as %XX. NULL: null. */
void json_string(struct json *j, const char *s);
void json_uint(struct json *j, uint64_t value);
void json_int(struct json *j, int64_t value);
/* A number with `digits` digits behind the point: value / 10^digits. */
void json_fixed(struct json *j, int64_t value, unsigned digits);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);
/* The value is whole: another follows, on a line of its own. */
void json_next_line(struct json *j);

/* A key and its value. */
void json_key_string(struct json *j, const char *key, const char *s);
void json_key_uint(struct json *j, const char *key, uint64_t value);

#endif
