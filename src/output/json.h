/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes JSON value by value through yajl. Nothing is kept in memory. */
#ifndef OUTPUT_JSON_H
#define OUTPUT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* Returns NULL if memory is out. */
struct json *json_create(FILE *out);
/* Write the rest and free `j`. Returns false if memory was out or a value stood where none may. The
 * stream is not closed; the caller checks it for write errors. */
bool json_finish(struct json *j);

void json_object(struct json *j);
void json_object_end(struct json *j);
void json_array(struct json *j);
void json_array_end(struct json *j);
void json_key(struct json *j, const char *key);

/* Write a string. Bytes that are not UTF-8 and control characters become %XX. NULL is written as
 * null. */
void json_string(struct json *j, const char *s);
/* Write bytes that are UTF-8 as a string. Control characters are escaped as JSON does it. */
void json_text(struct json *j, const char *bytes, size_t size);
/* Write a number whose digits are given. */
void json_digits(struct json *j, const char *digits);
void json_uint(struct json *j, uint64_t value);
void json_int(struct json *j, int64_t value);
/* Write a number with `digits` digits after the point: value / 10^digits. */
void json_fixed(struct json *j, int64_t value, unsigned digits);
/* Write a share in percent, with three digits after the point. */
void json_share(struct json *j, double percent);
void json_bool(struct json *j, bool value);
void json_null(struct json *j);
/* End a whole value. The next value stands on its own line. */
void json_next_line(struct json *j);

/* Write a key and its value. */
void json_key_string(struct json *j, const char *key, const char *s);
void json_key_uint(struct json *j, const char *key, uint64_t value);
/* Write the keys "file", "line", "column", as far as they are known (NULL, 0: they are not). */
void json_position(struct json *j, const char *file, uint32_t line, uint32_t column);

#endif
