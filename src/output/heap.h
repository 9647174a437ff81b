/* SPDX-License-Identifier: GPL-2.0-only */
/* The census of a heap, as text and as JSON (`ljperf heap`; docs/heap.md describes the JSON). */
#ifndef OUTPUT_HEAP_H
#define OUTPUT_HEAP_H

#include "census/census.h"
#include "output/json.h"

struct heap_options {
    unsigned top;     /* rows of a table */
    const char *find; /* list objects of this address or text, with the ways to them; NULL: none */
};

/* What is printed of one VM. */
struct heap_vm {
    const char *runtime; /* "LuaJIT" */
    uint64_t address;
    struct census *census;
    const char *broken; /* why the census ends early; NULL: it is whole */
};

/* Append the census of a VM as text. */
void heap_put_text(const struct heap_options *o, const struct heap_vm *vm, struct text *out);
/* Write it as one JSON object. */
void heap_put_json(const struct heap_options *o, const struct heap_vm *vm, struct json *j);

#endif
