/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages of protobuf as JSON, in the form that protobuf itself defines for it (proto3's mapping).
 */
#ifndef OUTPUT_PROTOBUF_JSON_H
#define OUTPUT_PROTOBUF_JSON_H

#include <protobuf-c/protobuf-c.h>

struct json;

/* Write a message as one object: keys in camelCase, 64-bit numbers as strings, no fields that have
 * their default. Bytes are written in hexadecimal, as OpenTelemetry wants them (ids of traces). */
void protobuf_put_json(struct json *j, const ProtobufCMessage *m);

#endif
