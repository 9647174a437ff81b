/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/json.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_gen.h>

struct json {
    yajl_gen gen;
    struct text scratch;
    bool failed;
};

static void print(void *context, const char *bytes, size_t size)
{
    fwrite(bytes, 1, size, context);
}

struct json *json_create(FILE *out)
{
    struct json *j = calloc(1, sizeof(*j));
    if (!j || !(j->gen = yajl_gen_alloc(NULL))) {
        free(j);
        return NULL;
    }
    yajl_gen_config(j->gen, yajl_gen_print_callback, print, out);
    yajl_gen_config(j->gen, yajl_gen_validate_utf8, 1);
    return j;
}

bool json_finish(struct json *j)
{
    bool good = !j->failed && !j->scratch.failed;
    yajl_gen_free(j->gen);
    text_free(&j->scratch);
    free(j);
    return good;
}

static void check(struct json *j, yajl_gen_status status)
{
    j->failed |= status != yajl_gen_status_ok;
}

void json_object(struct json *j)
{
    check(j, yajl_gen_map_open(j->gen));
}

void json_object_end(struct json *j)
{
    check(j, yajl_gen_map_close(j->gen));
}

void json_array(struct json *j)
{
    check(j, yajl_gen_array_open(j->gen));
}

void json_array_end(struct json *j)
{
    check(j, yajl_gen_array_close(j->gen));
}

static void put_string(struct json *j, const char *s, size_t size)
{
    check(j, yajl_gen_string(j->gen, (const unsigned char *)s, size));
}

void json_key(struct json *j, const char *key)
{
    put_string(j, key, strlen(key));
}

static bool is_clean(const char *s)
{
    for (unsigned n; *s; s += n)
        if (!(n = text_utf8_size((const unsigned char *)s)))
            return false;
    return true;
}

void json_string(struct json *j, const char *s)
{
    if (!s) {
        json_null(j);
    } else if (is_clean(s)) {
        put_string(j, s, strlen(s));
    } else {
        j->scratch.size = 0;
        text_clean(&j->scratch, s);
        if (!j->scratch.failed)
            put_string(j, j->scratch.at, j->scratch.size);
    }
}

static void put_number(struct json *j, const char *digits, int size)
{
    check(j, yajl_gen_number(j->gen, digits, (size_t)size));
}

void json_text(struct json *j, const char *bytes, size_t size)
{
    put_string(j, bytes, size);
}

void json_digits(struct json *j, const char *digits)
{
    put_number(j, digits, (int)strlen(digits));
}

void json_uint(struct json *j, uint64_t value)
{
    char digits[24];
    put_number(j, digits, snprintf(digits, sizeof(digits), "%" PRIu64, value));
}

void json_int(struct json *j, int64_t value)
{
    check(j, yajl_gen_integer(j->gen, value));
}

void json_fixed(struct json *j, int64_t value, unsigned digits)
{
    char text[48];
    int64_t unit = 1;
    for (unsigned i = 0; i < digits; i++)
        unit *= 10;
    int64_t rest = value % unit;
    int size = snprintf(text, sizeof(text), "%s%" PRId64 ".%0*" PRId64,
                        value < 0 && value / unit == 0 ? "-" : "", value / unit, (int)digits,
                        rest < 0 ? -rest : rest);
    put_number(j, text, size);
}

void json_share(struct json *j, double percent)
{
    json_fixed(j, (int64_t)(percent * 1000 + 0.5), 3);
}

void json_bool(struct json *j, bool value)
{
    check(j, yajl_gen_bool(j->gen, value));
}

void json_null(struct json *j)
{
    check(j, yajl_gen_null(j->gen));
}

void json_next_line(struct json *j)
{
    yajl_gen_reset(j->gen, "\n");
}

void json_key_string(struct json *j, const char *key, const char *s)
{
    json_key(j, key);
    json_string(j, s);
}

void json_key_uint(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint(j, value);
}

void json_position(struct json *j, const char *file, uint32_t line, uint32_t column)
{
    if (file)
        json_key_string(j, "file", file);
    if (line)
        json_key_uint(j, "line", line);
    if (line && column)
        json_key_uint(j, "column", column);
}
