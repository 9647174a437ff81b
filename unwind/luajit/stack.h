/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lua stacks: an array of 8-byte slots, in which a frame is named by its base (slot 0); its header
 * lies right below: the function, and a link that tells the frame below. With FR2 each is a slot of
 * its own, else both share one.
 *
 * A link with low bits 00 is the address of the bytecode instruction behind the call; its operand
 * A gives the distance to the caller's base. Other links are a type (3 bits) and a distance in
 * bytes. A segment is what one entry into the VM (one C frame) has put onto a Lua stack: it ends at
 * a frame that C called. Private to unwind/luajit.
 */
#ifndef UNWIND_LUAJIT_STACK_H
#define UNWIND_LUAJIT_STACK_H

#include "unwind/luajit/object.h"

enum {
    LUAJIT_LINK_LUA = 0, /* the low two bits only: a program counter */
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

/* A place on a Lua stack: a frame and what it executes. */
struct lua_position {
    uint64_t base;
    uint64_t pc; /* next instruction; 0: not known, or not needed (C function, builtin) */
};

/* Takes the frames of a segment, innermost first; false ends the walk. Of `at`, base is where the
 * function's variables are. */
struct luajit_sink {
    bool (*frame)(void *context, const struct luajit_function *f, struct lua_position at);
    void *context;
};

enum luajit_segment_end {
    LUAJIT_SEGMENT_C,      /* ends where C called: `next` is the frame below */
    LUAJIT_SEGMENT_BOTTOM, /* the thread's first frame was reached */
    LUAJIT_SEGMENT_UNREAD, /* the frame at `next` is not recorded; the ones before it hold */
    LUAJIT_SEGMENT_BAD,    /* what stands there are no frames */
    LUAJIT_SEGMENT_FULL,   /* the sink wants no more */
};

/* Walk from the frame at `at` (when `f` is not NULL: that function runs there, whatever the header
 * says) to the segment's end. */
enum luajit_segment_end luajit_segment_walk(struct luajit_reader *r, const struct luajit_state *L,
                                            struct lua_position at, const struct luajit_function *f,
                                            const struct luajit_sink *sink,
                                            struct lua_position *next);

/* The function in the header at `base`; address 0 when there is none. `link` (may be NULL). */
const struct luajit_function *luajit_function_at(struct luajit_reader *r,
                                                 const struct luajit_state *L, uint64_t base,
                                                 uint64_t *link);
/* Whether the link may be one: a program counter behind a call, or a distance within the stack. */
bool luajit_link_sane(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                      uint64_t link);
/* A continuation frame's own two words, below its header: what is called, and where the function
 * below goes on. */
bool luajit_continuation_read(struct luajit_reader *r, const struct luajit_state *L, uint64_t base,
                              uint64_t *cont, uint64_t *pc);
/* The base of the frame that called by the instruction before `pc`; 0: that is no call. */
uint64_t luajit_caller_base(struct luajit_reader *r, uint64_t base, uint64_t pc);
/* The lowest frame's base: its header holds the lua_State itself. */
uint64_t luajit_bottom(const struct luajit_reader *r, const struct luajit_state *L);

#endif
