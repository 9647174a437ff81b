/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The safepoint table of optimized code, behind its instructions. For each call it has the return
 * address, the number of the call's deoptimization entry, and the call's trampoline. When code must
 * not be used any more, V8 makes the calls that are under way return to their trampolines: the
 * frame then has an address at the very end of the code, where no table of positions means
 * anything. Layouts: facts of V8 10.2 to 14.6, and, in another form, of 7.8, 8.4 and 9.4. In that
 * form, when all entries of a table are equal except for the return address, one entry stands for
 * all and has -1 as its return address.
 */
#include "unwind/v8/object.h"

struct safepoints {
    uint64_t first; /* address of the first entry */
    uint32_t nr;
    unsigned pc_size, place_size, entry_size;
    uint32_t live_size; /* bytes of each entry that are behind all entries */
    bool wide;          /* each number has 32 bits and is stored as it is */
};

enum { NUMBER_MAX = 4, ENTRY_MAX = 3 * NUMBER_MAX + 1 + NUMBER_MAX, ENTRIES_MAX = 1 << 16 };

static uint32_t number_at(const uint8_t *bytes, unsigned size)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < size; i++)
        n |= (uint32_t)bytes[i] << 8 * i;
    return n;
}

static bool read_number(struct v8_reader *r, uint64_t address, uint32_t *ret)
{
    return v8_read(r, address, ret, sizeof(*ret));
}

/* Opens a table of V8 up to 9.4: it begins with the number of entries, and the size of each entry's
 * bits of live slots. */
static bool open_wide(struct v8_reader *r, const struct v8_code *c, struct safepoints *ret)
{
    enum { LIVE_SIZE = 4, FIRST = 8, LIVE_MAX = 1 << 16 };
    const struct v8_layout *l = r->layout;
    uint32_t at = c->size;
    if (c->kind != V8_CODE_TURBOFAN ||
        (l->code_safepoints != V8_UNKNOWN &&
         (!read_number(r, v8_address(c->code) + (uint64_t)l->code_safepoints, &at) ||
          at > c->size)) ||
        !read_number(r, c->start + at, &ret->nr) || ret->nr > ENTRIES_MAX ||
        !read_number(r, c->start + at + LIVE_SIZE, &ret->live_size))
        return false;
    ret->first = c->start + at + FIRST;
    ret->pc_size = ret->place_size = NUMBER_MAX;
    ret->entry_size = 3 * NUMBER_MAX;
    ret->wide = true;
    return ret->live_size <= LIVE_MAX;
}

/* Opens the table of any version. Code without deoptimization entries has no
 * safepoint entries of this form: `nr` is 0. */
static bool open_safepoints(struct v8_reader *r, const struct v8_code *c, struct safepoints *ret)
{
    enum { CONFIGURATION = 4, FIRST = 8, SPILLS = 1 };
    const struct v8_layout *l = r->layout;
    const bool maglev = c->kind == V8_CODE_MAGLEV;
    uint64_t table = c->start + c->size + (uint64_t)l->safepoints;
    uint32_t configuration;
    *ret = (struct safepoints){0};
    if (l->safepoints_form == 1)
        return open_wide(r, c, ret);
    if (l->safepoints == V8_UNKNOWN || (maglev && l->safepoints_first == V8_UNKNOWN) ||
        (!maglev && c->kind != V8_CODE_TURBOFAN) || !read_number(r, table, &ret->nr) ||
        ret->nr > ENTRIES_MAX || !read_number(r, table + CONFIGURATION, &configuration))
        return false;
    unsigned registers = configuration >> 1 & 7;
    ret->first = table + (maglev ? (uint64_t)l->safepoints_first : FIRST);
    ret->pc_size = configuration >> 4 & 7;
    ret->place_size = configuration >> 7 & 7;
    ret->entry_size = 2 * ret->pc_size + ret->place_size + (maglev ? SPILLS : 0) + registers;
    if (!(configuration & 1))
        ret->nr = 0;
    return ret->pc_size <= NUMBER_MAX && ret->place_size <= NUMBER_MAX && registers <= NUMBER_MAX;
}

uint64_t v8_safepoints_end(struct v8_reader *r, const struct v8_code *c)
{
    struct safepoints s;
    if (!open_safepoints(r, c, &s))
        return c->start + c->size;
    return s.first + (uint64_t)s.nr * (s.entry_size + s.live_size);
}

/* Reads an entry. Numbers that may be -1 are stored plus one, except in the wide form. */
static bool read_entry(struct v8_reader *r, const struct safepoints *s, uint32_t index,
                       struct v8_safepoint *ret)
{
    uint8_t bytes[ENTRY_MAX];
    if (!v8_read(r, s->first + (uint64_t)index * s->entry_size, bytes, s->entry_size))
        return false;
    ret->pc = number_at(bytes, s->pc_size);
    ret->place = (int32_t)(number_at(bytes + s->pc_size, s->place_size) - 1);
    ret->trampoline = number_at(bytes + s->pc_size + s->place_size, s->pc_size) - !s->wide;
    if (s->wide) /* in the wide form this field has other data, by version */
        ret->place = -1;
    return true;
}

int v8_safepoint_find(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                      struct v8_safepoint *ret)
{
    const uint64_t at = pc - c->start;
    struct safepoints s;
    if (!open_safepoints(r, c, &s))
        return -1;
    for (uint32_t i = 0; i < s.nr; i++) {
        if (!read_entry(r, &s, i, ret))
            return -1;
        if (ret->pc == at || ret->trampoline == at)
            return 1;
    }
    return 0;
}

uint64_t v8_code_call(struct v8_reader *r, const struct v8_code *c, uint64_t pc)
{
    struct safepoints s;
    struct v8_safepoint last, call;
    if (!open_safepoints(r, c, &s) || (s.nr && !read_entry(r, &s, s.nr - 1, &last)))
        return 0;
    if (!s.nr || pc - c->start <= last.pc) /* trampolines are behind all calls */
        return pc;
    int found = v8_safepoint_find(r, c, pc, &call);
    return found < 0 ? 0 : found ? c->start + call.pc : pc;
}
