/* SPDX-License-Identifier: GPL-2.0-only */
/* The exits of optimized code, from its relocation information. See compiler.h. */
#include "unwind/v8/compiler.h"

#include <stdlib.h>

enum {
    TAG_BITS = 2,
    TAG_LONG = 3,        /* the byte's upper part is a mode, and the distance follows */
    BYTES_MAX = 1 << 20, /* of relocation information */
    CALL_MAX = 8,        /* bytes of an exit's call */
    NUMBER = 4,          /* bytes of a number */
    JUMP_SHIFT = 6,      /* of a long distance: the rest is in the record that follows */
    JUMP_BYTES_MAX = 4,  /* its bytes, of seven bits each */
};

/* Records after that of the exit's place in the source; modes count up from relocation_deopt. */
enum { PLACE, INLINING, REASON, ID, OTHER };

struct relocations {
    const uint8_t *bytes;
    size_t left;
    uint64_t pc; /* offset from the start of the code */
};

static bool take_byte(struct relocations *s, uint8_t *ret)
{
    if (!s->left)
        return false;
    *ret = s->bytes[--s->left];
    return true;
}

static bool take_number(struct relocations *s, uint32_t *ret)
{
    uint8_t byte;
    *ret = 0;
    for (unsigned i = 0; i < NUMBER; i++) {
        if (!take_byte(s, &byte))
            return false;
        *ret |= (uint32_t)byte << 8 * i;
    }
    return true;
}

static bool take_jump(struct relocations *s)
{
    uint64_t jump = 0;
    uint8_t byte;
    for (unsigned i = 0; i < JUMP_BYTES_MAX; i++) {
        if (!take_byte(s, &byte))
            return false;
        jump |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80))
            break;
    }
    s->pc += jump << JUMP_SHIFT;
    return true;
}

/* What the records of an exit say. */
struct exit_records {
    uint64_t pc;
    uint32_t place, inlining;
    uint8_t reason;
    uint8_t have; /* bits: PLACE, INLINING, REASON, ID */
};

static bool take_exit(struct relocations *s, unsigned what, struct exit_records *e)
{
    uint32_t ignored;
    if (what == PLACE) /* the first of the four */
        *e = (struct exit_records){.pc = s->pc};
    e->have |= (uint8_t)(1 << what);
    switch (what) {
    case PLACE:
        return take_number(s, &e->place);
    case INLINING:
        return take_number(s, &e->inlining);
    case REASON:
        return take_byte(s, &e->reason);
    default:
        return take_number(s, &ignored);
    }
}

/* Takes the next record. Returns 1; 0: there are no more; -1: it is malformed, or of a mode that
 * code of x86-64 does not have. */
static int take_record(struct relocations *s, const struct v8_layout *l, struct exit_records *e)
{
    uint8_t head, distance;
    if (!take_byte(s, &head))
        return 0;
    if ((head & TAG_LONG) != TAG_LONG) {
        s->pc += head >> TAG_BITS;
        return 1;
    }
    int mode = head >> TAG_BITS;
    if (mode == l->relocation_jump)
        return take_jump(s) ? 1 : -1;
    if (!take_byte(s, &distance))
        return -1;
    s->pc += distance;
    if (mode < l->relocation_deopt)
        return 1;
    return mode < l->relocation_deopt + OTHER &&
                   take_exit(s, (unsigned)(mode - l->relocation_deopt), e)
               ? 1
               : -1;
}

/* Finds the records of the exit whose call ends at offset `at` of the code. They have the address
 * of the call, or, in later versions, that behind it. */
static bool find_exit(const struct v8_layout *l, const uint8_t *bytes, size_t size, uint64_t at,
                      struct exit_records *ret)
{
    struct relocations s = {bytes, size, 0};
    struct exit_records e = {0};
    const bool behind = l->relocation_behind == 1;
    int got = 1;
    bool found = false;
    *ret = e;
    while (got > 0 && s.pc <= at) {
        got = take_record(&s, l, &e);
        if (e.have != (1 << PLACE | 1 << INLINING | 1 << REASON | 1 << ID) ||
            (behind ? e.pc != at : e.pc >= at))
            continue;
        *ret = e;
        found = true;
    }
    return got >= 0 && found && at - ret->pc <= CALL_MAX;
}

/* Finds the ByteArray with the relocation information. */
static bool find_table(struct v8_reader *r, const struct v8_code *c, uint64_t *address,
                       size_t *size)
{
    const struct v8_layout *l = r->layout;
    uint64_t table, length, stream = (c->start - (uint64_t)l->stream_first) | 1;
    bool in_code = l->code_relocations != V8_UNKNOWN;
    if (l->relocation_deopt == V8_UNKNOWN || (!in_code && l->stream_relocations == V8_UNKNOWN))
        return false;
    if (!in_code && !v8_is(r, stream, l->type_stream))
        return false;
    if (!v8_slot(r, in_code ? c->code : stream,
                 in_code ? l->code_relocations : l->stream_relocations, &table) ||
        (!v8_is(r, table, l->type_bytes) && !v8_is(r, table, l->type_trusted_bytes)) ||
        !v8_slot(r, table, l->array_length, &length) || !v8_is_smi(length) || v8_smi(length) <= 0 ||
        v8_smi(length) > BYTES_MAX)
        return false;
    *address = v8_address(table) + (uint64_t)l->array_data;
    *size = (size_t)v8_smi(length);
    return true;
}

bool v8_exit_find(struct v8_reader *r, const struct v8_code *c, uint64_t pc, struct v8_exit *ret)
{
    struct v8_inlined functions[V8_INLINED_MAX];
    struct exit_records e;
    uint64_t address;
    size_t size;
    *ret = (struct v8_exit){.offset = -1, .reason = V8_REASON_NONE};
    if (!r->layout->verified || pc - c->start > c->size || !find_table(r, c, &address, &size))
        return false;
    uint8_t *bytes = malloc(size);
    bool found = bytes && v8_read(r, address, bytes, size) &&
                 find_exit(r->layout, bytes, size, pc - c->start, &e);
    free(bytes);
    if (!found)
        return false;
    ret->reason = v8_deopt_reason(r->layout, e.reason);
    /* as V8 packs them: see v8_position_offset() and v8_position_inlining() */
    uint64_t raw = ((uint64_t)e.place + 1) << 1 | (uint64_t)(uint32_t)(e.inlining + 1) << 31;
    if (e.place < INT32_MAX / 2 && v8_code_inlined(r, c, raw, functions)) {
        ret->sfi = functions[0].sfi;
        ret->offset = functions[0].offset;
    }
    return true;
}
