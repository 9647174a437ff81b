/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions and positions of Maglev's code at a call. The safepoint table has the number of the
 * call's deoptimization entry. This entry has a translation: the frames that deoptimization would
 * make, each with its function and bytecode offset. Layouts: facts of V8 13.6; versions 14.1 and
 * 14.6 have the same, as the names of the operations in their binaries and the stacks of their
 * processes show.
 */
#include "unwind/v8/object.h"

/* ---- translations -------------------------------------------------------------------------- */

/* Number of operands of each operation of a translation, by its number. */
enum { OP_INTERPRETED_LAST = 1, OP_BEGIN_FIRST = 14, OP_BEGIN_LAST = 15, OP_MATCH = 44, NR_OPS };
static const uint8_t nr_operands[NR_OPS] = {
    6, 4, 3, 3, 2, 1, 3, 4, 3, 3, 3, 1, 0, 0, 3, 3, 1, 1, 1, 0, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 2, 1,
};
enum { OPERANDS_KEPT = 2, OP_FRAME_LAST = 10 };

struct translation {
    struct v8_stream own, basis; /* `basis`: an earlier translation, whose operations may be
                                    repeated */
    uint64_t repeat;             /* so many operations from `basis` are next */
    bool has_basis;
};

static int64_t signed_number(uint64_t u)
{
    return u & 1 ? -(int64_t)(u >> 1) : (int64_t)(u >> 1);
}

static bool take_operation(struct v8_stream *s, uint8_t *op, uint64_t operands[OPERANDS_KEPT])
{
    uint64_t value;
    if (!v8_stream_byte(s, op))
        return false;
    for (unsigned i = 0; *op < NR_OPS && i < nr_operands[*op]; i++) {
        if (!v8_stream_vlq(s, &value))
            return false;
        if (i < OPERANDS_KEPT)
            operands[i] = value;
    }
    return true;
}

static bool next_operation(struct translation *t, uint8_t *op, uint64_t operands[OPERANDS_KEPT])
{
    uint64_t skipped[OPERANDS_KEPT];
    uint8_t other;
    if (!t->repeat) {
        if (!take_operation(&t->own, op, operands))
            return false;
        if (*op < OP_MATCH)
            return !t->has_basis || take_operation(&t->basis, &other, skipped);
        t->repeat = *op == OP_MATCH ? operands[0] : *op - (uint64_t)NR_OPS;
    }
    if (!t->has_basis || !t->repeat)
        return false;
    t->repeat--;
    return take_operation(&t->basis, op, operands) && *op < OP_MATCH;
}

/* Opens a translation. Its first operation says where the earlier translation is that it repeats
 * parts of. */
static bool open_translation(struct v8_reader *r, const struct v8_code *c, uint64_t at,
                             struct translation *t, uint64_t *nr_frames)
{
    uint64_t table, operands[OPERANDS_KEPT], skipped[OPERANDS_KEPT];
    uint8_t op;
    *t = (struct translation){0};
    if (!v8_deopt_element(r, c, 0, &table) || !v8_stream_open(r, table, &t->own) ||
        at >= t->own.end - t->own.at)
        return false;
    t->basis = t->own;
    t->own.at += at;
    if (!take_operation(&t->own, &op, operands) || op < OP_BEGIN_FIRST || op > OP_BEGIN_LAST ||
        operands[0] > at)
        return false;
    *nr_frames = operands[1] >> 1; /* encoded as signed, but never negative */
    t->has_basis = operands[0] != 0;
    t->basis.at += at - operands[0];
    return !t->has_basis || take_operation(&t->basis, &op, skipped);
}

static uint64_t literal_sfi(struct v8_reader *r, const struct v8_code *c, uint64_t operand)
{
    const struct v8_layout *l = r->layout;
    int64_t index = signed_number(operand);
    uint64_t literals, sfi;
    bool is = index >= 0 && index <= INT32_MAX &&
              v8_deopt_element(r, c, l->deopt_literals, &literals) &&
              v8_array_element(r, literals, (int32_t)index, &sfi) && v8_is(r, sfi, l->type_sfi);
    return is ? sfi : 0;
}

/* Reads the frames of a translation, outermost first, and skips frames of builtins that would
 * continue. Returns how many; 0: unknown. */
static unsigned read_frames(struct v8_reader *r, const struct v8_code *c, uint64_t at,
                            struct v8_restored ret[V8_INLINED_MAX])
{
    enum { OPERATIONS_MAX = 1 << 14 };
    uint64_t operands[OPERANDS_KEPT], left;
    struct translation t;
    uint8_t op;
    unsigned nr = 0;
    if (!open_translation(r, c, at, &t, &left) || left == 0 || left > V8_INLINED_MAX)
        return 0;
    for (unsigned i = 0; left && i < OPERATIONS_MAX; i++) {
        if (!next_operation(&t, &op, operands) || (op >= OP_BEGIN_FIRST && op <= OP_BEGIN_LAST))
            return 0;
        left -= op <= OP_FRAME_LAST;
        if (op > OP_INTERPRETED_LAST)
            continue;
        int64_t offset = signed_number(operands[0]);
        ret[nr].sfi = literal_sfi(r, c, operands[1]);
        ret[nr].bytecode_offset = offset >= 0 && offset <= INT32_MAX ? (int32_t)offset : -1;
        if (!ret[nr++].sfi)
            return 0;
    }
    return left ? 0 : nr;
}

unsigned v8_maglev_frames(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                          struct v8_restored ret[V8_INLINED_MAX])
{
    enum { PER_PLACE = 3, TRANSLATION = 1, PLACES_MAX = 1 << 20 };
    const struct v8_layout *l = r->layout;
    struct v8_restored frames[V8_INLINED_MAX];
    struct v8_safepoint call;
    uint64_t word;
    if (v8_safepoint_find(r, c, pc, &call) <= 0 || call.place < 0 || call.place >= PLACES_MAX ||
        !v8_deopt_element(r, c, l->deopt_entries + PER_PLACE * call.place + TRANSLATION, &word) ||
        !v8_is_smi(word) || v8_smi(word) < 0)
        return 0;
    unsigned nr = read_frames(r, c, (uint64_t)v8_smi(word), frames);
    for (unsigned i = 0; i < nr; i++)
        ret[i] = frames[nr - 1 - i];
    return nr;
}
