/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a slot of 8 bytes (TValue) holds. It is the same in all versions of a mode (lj_obj.h).
 * Without GC64 the upper half is the type, or the upper half of a double; the lower half is the
 * object. With GC64 the upper 17 bits are the type. Integers exist in builds with LUAJIT_NUMMODE 2
 * only. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_SLOT_H
#define UNWIND_LUAJIT_SLOT_H

#include "unwind/luajit/object.h"

/* Types of values, as in their upper bits. */
enum luajit_tag {
    LUAJIT_TAG_NIL,
    LUAJIT_TAG_FALSE,
    LUAJIT_TAG_TRUE,
    LUAJIT_TAG_LIGHTUD,
    LUAJIT_TAG_STR,
    LUAJIT_TAG_UPVAL,
    LUAJIT_TAG_THREAD,
    LUAJIT_TAG_PROTO,
    LUAJIT_TAG_FUNC,
    LUAJIT_TAG_TRACE,
    LUAJIT_TAG_CDATA,
    LUAJIT_TAG_TAB,
    LUAJIT_TAG_UDATA,
    LUAJIT_TAG_INT,
    LUAJIT_TAG_NUM, /* here only: any other content */
};

struct luajit_slot {
    enum luajit_tag tag;
    uint64_t object; /* address, of a value that is an object */
    uint64_t word;
};

enum {
    LUAJIT_SLOT = 8,  /* bytes of a slot */
    LUAJIT_NODE = 24, /* bytes of a node of a table's hash part: value, key, next */
    LUAJIT_NODE_KEY = 8,
};

static inline struct luajit_slot luajit_slot_of(const struct luajit_layout *l, uint64_t word)
{
    enum { SHIFT = 47, SHORT = 15 };
    const uint32_t not_a_number = 0xfffeffff;
    if (l->gc64) {
        const uint32_t type = (uint32_t)((int64_t)word >> SHIFT);
        return (struct luajit_slot){~type <= LUAJIT_TAG_INT ? (enum luajit_tag) ~type
                                                            : LUAJIT_TAG_NUM,
                                    word & LUAJIT_REF_MASK, word};
    }
    const uint32_t type = (uint32_t)(word >> 32);
    struct luajit_slot v = {LUAJIT_TAG_NUM, (uint32_t)word, word};
    if (type == not_a_number)
        v.tag = LUAJIT_TAG_INT;
    else if (type > not_a_number && ~type <= LUAJIT_TAG_UDATA)
        v.tag = (enum luajit_tag) ~type;
    else if ((int32_t)type >> SHORT == -2)
        v = (struct luajit_slot){LUAJIT_TAG_LIGHTUD, word & LUAJIT_REF_MASK, word};
    return v;
}

/* Returns whether the value is an object that the collector knows. */
static inline bool luajit_slot_is_object(const struct luajit_slot *v)
{
    return v->tag >= LUAJIT_TAG_STR && v->tag <= LUAJIT_TAG_UDATA;
}

/* Returns the number in a slot that holds a double. */
static inline double luajit_slot_number(const struct luajit_slot *v)
{
    double number;
    memcpy(&number, &v->word, sizeof(number));
    return number;
}

#endif
