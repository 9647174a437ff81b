/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A Lua stack is an array of 8-byte slots. A frame is identified by its base (slot 0). The frame's
 * header lies right below the base: the function, and a link that tells where the frame below is.
 * With FR2 each of the two has its own slot, else both share one slot.
 *
 * A link with low bits 00 is the address of the bytecode instruction behind the call. Operand A of
 * the call gives the distance to the caller's base. Other links hold a type (3 bits) and a distance
 * in bytes. A segment is the part of a Lua stack that one entry into the VM (one C frame) has put
 * there. A segment ends at a frame that C called. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_STACK_H
#define UNWIND_LUAJIT_STACK_H

#include "unwind/luajit/object.h"

enum {
    LUAJIT_LINK_LUA = 0, /* low two bits only: the link is a program counter */
    LUAJIT_LINK_C = 1,   /* lua_call */
    LUAJIT_LINK_CONT = 2,
    LUAJIT_LINK_VARG = 3,
    LUAJIT_LINK_CP = 5, /* lua_pcall, lua_resume and the like */
    LUAJIT_LINK_PCALL = 6,
    LUAJIT_LINK_PCALLH = 7,
};

static inline unsigned luajit_link_type(uint64_t link)
{
    return (link & 3) == 0 ? LUAJIT_LINK_LUA : (unsigned)(link & 7);
}

/* A position on a Lua stack: a frame and its program counter. */
struct lua_position {
    uint64_t base;
    uint64_t pc; /* next instruction; 0: not known, or not needed (C function or builtin) */
};

/* Receives the frames of a segment, innermost first; false ends the walk. at.base is where the
 * function's variables are. */
struct luajit_sink {
    bool (*frame)(void *context, const struct luajit_function *f, struct lua_position at);
    void *context;
};

enum luajit_segment_end {
    LUAJIT_SEGMENT_C,      /* ends at a frame that C called: `next` is the frame below */
    LUAJIT_SEGMENT_BOTTOM, /* the thread's first frame was reached */
    LUAJIT_SEGMENT_UNREAD, /* the frame at `next` is not recorded; the frames before it are valid */
    LUAJIT_SEGMENT_BAD,    /* the memory holds no valid frames */
    LUAJIT_SEGMENT_FULL,   /* the sink wants no more frames */
};

/* Walk from the frame at `at` to the end of the segment. If `f` is not NULL, it is the function of
 * the first frame, whatever the header says. */
enum luajit_segment_end luajit_segment_walk(struct luajit_reader *r, const struct luajit_state *L,
                                            struct lua_position at, const struct luajit_function *f,
                                            const struct luajit_sink *sink,
                                            struct lua_position *next);

/* The function in the header at `base`; its address is 0 when there is none. `link` may be NULL. */
const struct luajit_function *luajit_function_at(struct luajit_reader *r,
                                                 const struct luajit_state *L, uint64_t base,
                                                 uint64_t *link);
/* Is the link valid: a program counter behind a call, or a distance within the stack? */
bool luajit_link_sane(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                      uint64_t link);
/* Read the two extra words of a continuation frame, which lie below its header: the continuation to
 * call, and the program counter of the function below. */
bool luajit_continuation_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                              uint64_t *cont, uint64_t *pc);
/* The base of the frame whose instruction before `pc` made the call; 0: it is no call
 * instruction. */
uint64_t luajit_caller_base(struct luajit_reader *r, uint64_t base, uint64_t pc);
/* The base of the lowest frame, whose header holds the lua_State itself. */
uint64_t luajit_bottom(const struct luajit_reader *r, const struct luajit_state *L);

#endif
