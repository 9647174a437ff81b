/* SPDX-License-Identifier: GPL-2.0-only */
/* See protobuf_json.h. The descriptors that protoc-c generates say where each field is. */
#include "output/protobuf_json.h"
#include "output/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 64 };

/* stack_index -> stackIndex */
static void put_key(struct json *j, const char *name)
{
    char key[KEY_MAX];
    size_t n = 0;
    bool upper = false;
    for (; *name && n < KEY_MAX - 1; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        key[n++] = upper && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        upper = false;
    }
    key[n] = 0;
    json_key(j, key);
}

static void put_int64(struct json *j, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRId64, value);
    json_string(j, digits);
}

static void put_uint64(struct json *j, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    json_string(j, digits);
}

static void put_bytes(struct json *j, const ProtobufCBinaryData *b)
{
    enum { MOST = 64 };
    char hex[2 * MOST + 1] = "";
    for (size_t i = 0; i < b->len && i < MOST; i++)
        snprintf(hex + 2 * i, 3, "%02x", b->data[i]);
    json_string(j, hex);
}

/* Bytes that a value of this type takes in a message or array. */
static size_t value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint32_t);
    }
}

/* The types that our messages have. */
static void put_value(struct json *j, ProtobufCType type, const void *at)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
        put_int64(j, *(const int64_t *)at);
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        put_uint64(j, *(const uint64_t *)at);
        return;
    case PROTOBUF_C_TYPE_STRING:
        json_string(j, *(const char *const *)at);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        protobuf_put_json(j, *(const ProtobufCMessage *const *)at);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        put_bytes(j, at);
        return;
    default:
        json_int(j, *(const int32_t *)at);
    }
}

/* Whether a field that is not repeated is not in the message. */
static bool is_absent(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const void *at)
{
    static const char zeros[sizeof(ProtobufCBinaryData)];
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)((const char *)m + f->quantifier_offset) != f->id;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        const char *s = *(const char *const *)at;
        return !s || !*s;
    }
    return memcmp(at, zeros, value_size(f->type)) == 0;
}

static void put_field(struct json *j, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const char *at = (const char *)m + f->offset;
    if (f->label != PROTOBUF_C_LABEL_REPEATED) {
        if (is_absent(m, f, at))
            return;
        put_key(j, f->name);
        put_value(j, f->type, at);
        return;
    }
    size_t nr = *(const size_t *)((const char *)m + f->quantifier_offset);
    const char *list = *(const char *const *)at;
    if (!nr)
        return;
    put_key(j, f->name);
    json_array(j);
    for (size_t i = 0; i < nr; i++)
        put_value(j, f->type, list + i * value_size(f->type));
    json_array_end(j);
}

void protobuf_put_json(struct json *j, const ProtobufCMessage *m)
{
    json_object(j);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        put_field(j, m, &m->descriptor->fields[i]);
    json_object_end(j);
}
