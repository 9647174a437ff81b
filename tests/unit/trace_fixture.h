/* SPDX-License-Identifier: GPL-2.0-only */
/* A LuaJIT trace in memory that the test makes. */
#ifndef TRACE_FIXTURE_H
#define TRACE_FIXTURE_H

#include "memory_fixture.h"
#include "unwind/luajit/names_bytecode.h"
#include "unwind/luajit/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { ORIGIN = 0x10000, SIZE = 0x2000, REF_BIAS = LUAJIT_REF_BIAS };

struct fixture {
    uint8_t bytes[SIZE]; /* bytes at ORIGIN and after */
    struct luajit_layout l;
    struct memory_layer layer;
    struct memory memory;
    struct luajit_reader r;
    struct luajit_trace t;
    struct luajit_function f;
};

static inline bool read_fixture(void *context, const struct memory_query *q, void *to,
                                struct memory_answer *answer)
{
    const struct fixture *f = context;
    answer->provenance = PROVENANCE_EXACT;
    return memory_fixture_read(f->bytes, ORIGIN, SIZE, q->address, to, q->size);
}

static inline void put(struct fixture *f, uint64_t address, uint64_t value, size_t size)
{
    memcpy(f->bytes + (address - ORIGIN), &value, size);
}

/* Clears everything and sets up a trace without IR and snapshots: IR begins at `ir`, snapshots of
 * `snap_size` bytes at `snap`. */
static inline void fixture_begin(struct fixture *f, bool gc64, uint64_t ir, uint64_t snap,
                                 uint16_t snap_size)
{
    memset(f, 0, sizeof(*f));
    f->l = (struct luajit_layout){
        .gc64 = gc64, .ref_size = gc64 ? 8 : 4, .frame_slots = gc64 ? 2 : 1, .op_funcf = BC_FUNCF};
    assert_true(luajit_layout_opcodes(&f->l));
    f->layer = (struct memory_layer){.read = read_fixture, .context = f};
    f->memory = (struct memory){.layers = &f->layer, .nr_layers = 1};
    luajit_reader_begin(&f->r, &f->memory);
    luajit_reader_use(&f->r, &f->l);
    f->t = (struct luajit_trace){.address = 8,
                                 .ir = ir - 8 * (uint64_t)REF_BIAS,
                                 .snap = snap,
                                 .nk = REF_BIAS,
                                 .nins = REF_BIAS,
                                 .snap_size = snap_size,
                                 .has_mcofs = snap_size == 12};
}

#endif
