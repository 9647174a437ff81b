/* SPDX-License-Identifier: GPL-2.0-only */
/* See listing.h. */
#include "unwind/luajit/listing.h"
#include "base/cursor.h"
#include "unwind/luajit/names_bytecode.h"
#include "unwind/luajit/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CODE_MAX = 1 << 20,
    EXITS_MAX = 4096,
    JUMPS_MAX = 8192,
    OTHERS_MAX = 1024, /* traces whose constants are searched for a prototype */
    PROTOS = 16,       /* number of last prototypes kept */
    SPENT_MAX = 1 << 24,
};
enum { BC_JFORL = BC_FORL + 2, BC_JITERL = BC_JLOOP - 3 };

struct listing_reader {
    struct luajit_reader r;
    const struct luajit_names_source *source;
    struct luajit_names *names;
    struct luajit_trace trace;
    struct luajit_inlined inlined;
    enum provenance provenance;
    uint32_t begun; /* budget of the current search when it began */
    uint64_t spent; /* spent by all earlier searches: it is bounded, against hostile memory */
    uint64_t protos[PROTOS];
    unsigned nr_protos; /* prototypes met so far */
};

/* ---- bytecode ------------------------------------------------------------------------------- */

static bool has_three(uint8_t op)
{
    return (op >= BC_ADDVN && op <= BC_CAT) || (op > BC_BNOT && op <= BC_BSAR) ||
           (op >= BC_TGETV && op <= BC_TGETR) ||
           (op >= BC_TSETV && op <= BC_TSETR && op != BC_TSETM) ||
           (op >= BC_CALLM && op < BC_ISNEXT && op != BC_CALLMT && op != BC_CALLT);
}

/* Is D a jump distance from the next instruction? (In JFORL, JITERL and JLOOP it is a trace.) */
static bool is_jump(uint8_t op)
{
    return op == BC_JMP || op == BC_UCLO || op == BC_ISNEXT ||
           (op >= BC_FORI && op < BC_JLOOP && op != BC_JFORL && op != BC_JITERL);
}

static void print_bytecode(char to[LISTING_BYTECODE], uint32_t position, struct bc b)
{
    if (!bc_name(b.op))
        snprintf(to, LISTING_BYTECODE, "%04u (opcode 0x%02x)", position, b.op);
    else if (is_jump(b.op))
        snprintf(to, LISTING_BYTECODE, "%04u %-6s %3u => %04d", position, bc_name(b.op), b.a,
                 (int)position + 1 + b.d - 0x8000);
    else if (has_three(b.op))
        snprintf(to, LISTING_BYTECODE, "%04u %-6s %3u %3u %3u", position, bc_name(b.op), b.a, b.b,
                 b.c);
    else
        snprintf(to, LISTING_BYTECODE, "%04u %-6s %3u %3u", position, bc_name(b.op), b.a, b.d);
}

/* ---- places --------------------------------------------------------------------------------- */

static void raise(enum provenance *to, enum provenance from)
{
    *to = from > *to ? from : *to;
}

/* Begin a search. Each search has a budget of its own, and all searches together have one. */
static bool begin_search(struct listing_reader *l)
{
    l->spent += l->begun - l->r.budget;
    luajit_reader_begin(&l->r, l->source->memory);
    luajit_reader_use(&l->r, l->source->vm->layout);
    l->begun = l->r.budget;
    return l->spent < SPENT_MAX;
}

static bool is_in_proto(struct listing_reader *l, uint64_t proto, uint64_t pc)
{
    uint64_t code;
    uint32_t sizebc;
    return proto && luajit_code_read(&l->r, proto, &code, &sizebc) && pc > code &&
           pc - code <= 4 * (uint64_t)sizebc;
}

/* The prototype that has the instruction before `pc`: found by the function in a snapshot (0:
 * none), in the trace's own constants, or in those of other traces; 0: not found. */
static uint64_t proto_of(struct listing_reader *l, uint64_t func, uint64_t pc)
{
    struct luajit_trace other;
    uint64_t proto = func ? luajit_function_read(&l->r, func)->proto : 0;
    if (!pc || is_in_proto(l, proto, pc))
        return pc ? proto : 0;
    for (unsigned i = 0; i < PROTOS; i++)
        if (is_in_proto(l, l->protos[i], pc))
            return l->protos[i];
    proto = luajit_trace_proto_of(&l->r, &l->trace, pc);
    for (uint32_t n = 1; !proto && n < OTHERS_MAX && begin_search(l); n++) {
        luajit_spend(&l->r);
        if (luajit_trace_read(&l->r, l->source->vm->g, n, &other))
            proto = luajit_trace_proto_of(&l->r, &other, pc);
    }
    if (proto)
        l->protos[l->nr_protos++ % PROTOS] = proto;
    return proto;
}

/* Read the place of the instruction before `pc`. `instruction`: the instruction before it was
 * patched; 0: read it from memory. */
static int read_place(struct listing_reader *l, uint64_t func, uint64_t pc, uint32_t instruction,
                      struct luajit_listing_place *ret, struct error *err)
{
    uint64_t code, proto = proto_of(l, func, pc);
    uint32_t sizebc;
    struct luajit_named named;
    *ret = (struct luajit_listing_place){0};
    if (!proto || !luajit_code_read(&l->r, proto, &code, &sizebc) || pc < code + 4 || pc % 4 ||
        (pc - code) / 4 > sizebc)
        return 0;
    const struct luajit_frame frame = {.g = l->source->vm->g,
                                       .proto = proto,
                                       .position = (int32_t)((pc - code) / 4 - 1),
                                       .kind = LUAJIT_FRAME_LUA,
                                       .trace = l->trace.number};
    if (luajit_names_frame(l->names, l->source, &frame, &named, err) < 0)
        return -1;
    ret->function = named.function;
    ret->line = named.line;
    raise(&l->provenance, named.provenance);
    if (instruction || luajit_read_u32(&l->r, pc - 4, &instruction))
        print_bytecode(ret->bytecode, (uint32_t)frame.position,
                       bc_decode(instruction, l->r.layout->bytecode));
    return 0;
}

static int read_exit(struct listing_reader *l, uint32_t number, struct luajit_listing_exit *ret,
                     struct error *err)
{
    const struct luajit_trace *t = &l->trace;
    *ret = (struct luajit_listing_exit){0};
    if (!luajit_snapshot_start(&l->r, t, number, &ret->offset))
        ret->offset = 0;
    if (!luajit_snapshot_frames(&l->r, t, number, &l->inlined))
        return 0;
    ret->inlined = l->inlined.nr;
    bool inner = l->inlined.nr;
    return read_place(l, inner ? l->inlined.frames[0].func : l->inlined.start_func,
                      inner ? l->inlined.frames[0].pc : l->inlined.start_pc, 0, &ret->place, err);
}

/* ---- jumps ---------------------------------------------------------------------------------- */

static bool find_target(struct listing_reader *l, uint64_t target, struct luajit_listing_jump *ret)
{
    const struct luajit_vm *vm = l->source->vm;
    if (target - l->trace.mcode < l->trace.szmcode)
        return false;
    if (target - vm->blob < vm->layout->blob_size) {
        ret->target = LISTING_INTERPRETER;
        ret->exit = UINT32_MAX;
        return true;
    }
    bool found = begin_search(l) &&
                 luajit_trace_target(&l->r, vm->g, &l->trace, target, &ret->exit, &ret->trace);
    ret->target = ret->trace ? LISTING_TRACE : LISTING_EXIT;
    return found;
}

static bool read_jumps(struct listing_reader *l, struct luajit_listing *ret)
{
    enum { JCC = 6, JMP = 5 };
    for (uint32_t i = 0; i + JMP <= ret->size && ret->jumps.nr < JUMPS_MAX; i++) {
        const uint8_t *c = ret->code + i;
        uint32_t size = *c == 0xe9 ? JMP : *c == 0x0f && (c[1] & 0xf0) == 0x80 ? JCC : 0;
        struct luajit_listing_jump jump = {.offset = i};
        if (!size || i + size > ret->size)
            continue;
        uint64_t target =
            ret->address + i + size + (uint64_t)(int64_t)(int32_t)load_u32(c + size - 4, false);
        if (find_target(l, target, &jump) && !vec_push(&ret->jumps, jump))
            return false;
    }
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static bool read_trace(struct listing_reader *l, uint32_t number, uint64_t pc)
{
    return begin_search(l) && luajit_trace_read(&l->r, l->source->vm->g, number, &l->trace) &&
           pc - l->trace.mcode < l->trace.szmcode && l->trace.szmcode <= CODE_MAX;
}

static uint32_t read_field(struct listing_reader *l, int32_t field, size_t size)
{
    uint32_t value = 0;
    return field != LUAJIT_UNKNOWN &&
                   luajit_read(&l->r, l->trace.address + (uint64_t)field, &value, size)
               ? value
               : 0;
}

static int read_parts(struct listing_reader *l, struct luajit_listing *ret, struct error *err)
{
    const struct luajit_trace *t = &l->trace;
    const struct luajit_layout *layout = l->r.layout;
    ret->address = t->mcode;
    ret->size = t->szmcode;
    ret->number = t->number;
    ret->root = t->root;
    ret->has_offsets = t->has_mcofs;
    ret->link = (uint16_t)read_field(l, layout->trace_link, 2);
    ret->loop = read_field(l, layout->trace_mcloop, 4);
    luajit_trace_parent(&l->r, t, &ret->parent, &ret->parent_exit);
    ret->code = malloc(ret->size);
    if (!ret->code)
        return error_no_memory(err);
    if (!luajit_read(&l->r, t->mcode, ret->code, ret->size))
        return 0;
    raise(&l->provenance, l->r.provenance);
    /* The first instruction of a root trace was patched to lead into the trace. */
    uint32_t patched = t->root ? 0 : read_field(l, layout->trace_startins, 4);
    if (read_place(l, 0, t->startpc + 4, patched, &ret->start, err) < 0)
        return -1;
    for (uint32_t i = 0; i < t->nsnap && i < EXITS_MAX; i++) {
        struct luajit_listing_exit exit;
        if (read_exit(l, i, &exit, err) < 0 || !vec_push(&ret->exits, exit))
            return error_no_memory(err);
    }
    raise(&l->provenance, l->r.provenance);
    if (!read_jumps(l, ret))
        return error_no_memory(err);
    ret->provenance = (uint8_t)l->provenance;
    return 1;
}

int luajit_listing_read(const struct luajit_names_source *source, struct luajit_names *namer,
                        uint32_t number, uint64_t pc, struct luajit_listing *ret, struct error *err)
{
    struct listing_reader *l = calloc(1, sizeof(*l));
    *ret = (struct luajit_listing){0};
    if (!l)
        return error_no_memory(err);
    l->source = source;
    l->names = namer;
    int got = read_trace(l, number, pc) ? read_parts(l, ret, err) : 0;
    if (got <= 0)
        luajit_listing_free(ret);
    free(l);
    return got;
}

void luajit_listing_free(struct luajit_listing *l)
{
    free(l->code);
    vec_free(&l->exits);
    vec_free(&l->jumps);
    *l = (struct luajit_listing){0};
}
