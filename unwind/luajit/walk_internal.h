/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the LuaJIT walker share: blob.c (interpreter frames), position.c (where an
 * interpreter frame's segment begins), mcode.c (traces, stubs, callback slots), emit.c (frames
 * out).
 */
#ifndef UNWIND_LUAJIT_WALK_INTERNAL_H
#define UNWIND_LUAJIT_WALK_INTERNAL_H

#include "unwind/arch.h"
#include "unwind/luajit/trace.h"
#include "unwind/luajit/walk.h"

enum { DWARF_RDX = 1, DWARF_RCX = 2 };

/* A Lua stack the walk has met: its state, and where its next segment begins. */
struct segment {
    uint64_t L;
    struct lua_position next;
    uint64_t si; /* the C frame expected next: the lua_State's own chain; 0: its end */
    bool lost;   /* a segment could not be told: neither can those below */
    bool begun;  /* `next` is valid: a segment was walked */
};

enum { SEGMENTS_MAX = 224, KNOWN_VMS = 16 };

/* State of one walk. */
struct luajit_walk {
    struct walker_state head;
    const struct luajit_process *process;
    struct walker_step *step; /* the step at hand */
    struct luajit_vm vm;      /* of the frame at hand */
    struct segment segments[SEGMENTS_MAX];
    unsigned nr_segments;
    struct luajit_vm vms[KNOWN_VMS]; /* met in this walk */
    unsigned nr_vms;
    struct luajit_reader r;
    uint64_t unrecorded; /* a lua_State of which nothing is recorded; 0: none was met */
};

/* ---- registers and native frames ----------------------------------------------------------- */

static inline bool walk_is_exact(const struct luajit_walk *w)
{
    return w->step->flags & (FRAME_LEAF | FRAME_SIGNAL);
}

static inline uint64_t walk_register(const struct luajit_walk *w, unsigned reg)
{
    return w->step->value[reg];
}

static inline bool walk_knows(const struct luajit_walk *w, unsigned reg)
{
    return *w->step->known >> reg & 1;
}

/* Leave the interpreter's C frame at `si`: registers of its caller. false: it is not recorded. */
bool walk_leave_block(struct luajit_walk *w, uint64_t si);
/* Leave a frame that has pushed nothing but what stands below `cfa`. `saved`: registers in their
 * slots of the C frame, as far as they were pushed (bytes from the CFA down). */
bool walk_leave_partial(struct luajit_walk *w, uint64_t cfa, uint64_t saved);

/* ---- emit.c -------------------------------------------------------------------------------- */

/* Frames of one segment on their way out. */
struct emitter {
    struct luajit_walk *w;
    uint64_t L, pc, cfa; /* pc and cfa: of the native frame that the first one stands for */
    uint16_t trace;      /* which executes; 0: the interpreter */
    bool trace_once;     /* it executes the next frame only */
    bool inlined;        /* what comes is inlined in it */
    bool omit_c;         /* the first, when it is a C function: its native frame is out already */
    bool certain_below;  /* `weakest` holds up to the frame that the trace started in */
    enum provenance weakest; /* at least this weak */
    size_t first;            /* index of the first frame out */
    unsigned left;           /* frames_left before it */
    struct luajit_frame pending;
    uint64_t pending_code; /* its executing instruction or native entry */
    bool has_pending, omitted, no_memory;
};

void emit_begin(struct emitter *e, struct luajit_walk *w, uint64_t L, uint64_t cfa);
struct luajit_sink emit_sink(struct emitter *e);
/* A frame; its base is where its variables are (0: on no Lua stack), pc 0: unknown or not needed.
 * false: no more are wanted. */
bool emit_function(struct emitter *e, const struct luajit_function *f, struct lua_position at);
/* The last frame out. */
bool emit_end(struct emitter *e);
/* Take back what came out. */
void emit_undo(struct emitter *e);
static inline bool emit_nothing(const struct emitter *e)
{
    return !e->has_pending && e->w->step->out->frames.nr == e->first;
}

/* The native frame as it is; a Lua frame nobody can tell. false: memory is out. */
bool emit_native(struct luajit_walk *w, uint64_t cfa);
bool emit_unknown(struct luajit_walk *w, uint64_t cfa);

/* ---- pc_only.c: without a Lua stack of this moment --------------------------------------------
 */

/* Whether a list of prototypes knows the interpreter's program counter. */
bool pc_is_listed(struct luajit_walk *w);
/* The function whose bytecode the program counter is in, if a list of prototypes tells; and then,
 * or else, a frame nobody can tell. false: memory is out. */
bool emit_alone(struct luajit_walk *w, uint64_t cfa);
/* The same of trace `t`, at its exit `number`, or (UINT32_MAX) where the frame executes it. */
bool emit_trace_alone(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number,
                      uint64_t cfa);

/* ---- segments ------------------------------------------------------------------------------ */

/* The walk's entry for L; NULL: not met yet. */
struct segment *segment_find(struct luajit_walk *w, uint64_t L);
/* The same, made with `si` as the next expected C frame; NULL: too many. */
struct segment *segment_get(struct luajit_walk *w, uint64_t L, uint64_t si);
/* The C frame at si has been passed: its link names the next. */
void segment_pass(struct luajit_walk *w, struct segment *s, uint64_t si);

/* ---- position.c -------------------------------------------------------------------------------
 */

/* Where the innermost segment of L may begin, best first; each stood a check of its own. Tried in
 * stages: mostly the first is it. */
enum { PLACES_MAX = 24 };
struct position_search {
    struct luajit_walk *w;
    const struct luajit_state *L;
    uint64_t bases[3]; /* candidates in order; rdx first when it is known */
    unsigned nr_bases, stage;
    bool has_rdx;
    uint64_t rbx, saved_pc; /* 0: unknown */
    struct lua_position at[PLACES_MAX];
    unsigned nr, next;
    bool weak; /* the last one given is a guess: in a leaf L->base and SAVE_PC are often stale */
};
/* `o`: the pc's offset in the blob. */
void positions_begin(struct luajit_walk *w, const struct luajit_state *L, uint64_t si, uint64_t o,
                     struct position_search *s);
bool positions_next(struct position_search *s, struct lua_position *ret);
/* PC of the Lua function at `base` whose C frame is at si: from rbx, else SAVE_PC; 0: neither. */
uint64_t place_pc(struct luajit_walk *w, const struct luajit_state *L, uint64_t base, uint64_t si);
/* SAVE_PC; 0 when it is not recorded. */
uint64_t read_saved_pc(struct luajit_walk *w, uint64_t si);
/* A register as wide as the VM's references: upper halves are garbage in 32 bit builds. */
uint64_t vm_register(const struct luajit_walk *w, unsigned reg);

/* ---- steps --------------------------------------------------------------------------------- */

/* The VM at g with this blob: remembered. false: there is none. */
bool walk_use_vm(struct luajit_walk *w, uint64_t g, const struct luajit_layout *layout,
                 uint64_t blob);

/* blob.c: a frame in the blob, at offset `o`. */
enum walker_result step_blob(struct luajit_walk *w, uint64_t o);
/* mcode.c: a frame in memory that no file is mapped to. */
enum walker_result step_mcode(struct luajit_walk *w);
/* blob.c: the C frame that L's chain has next in this walk. */
uint64_t next_block(struct luajit_walk *w, const struct luajit_state *L);
/* blob.c: the next C frame on the stack, from `from` on and near it, whose lua_State's chain goes
 * on with it; 0: none. */
uint64_t find_linked_block(struct luajit_walk *w, uint64_t from, struct luajit_state *L);
/* mcode.c: where the builds do not say which snapshot covers the code, the one of the next guard
 * may be one too late: are the functions the same in the one before? */
bool same_functions_before(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number);
/* mcode.c: a frame at or below the exit handler, whose state on the trace was at S. */
enum walker_result step_exit(struct luajit_walk *w, uint64_t S, bool exact);
/* mcode.c: without the VM's memory, the C frame that is next on the stack from `from` on: one with
 * a return address behind a call of the blob's entries. 0: none near. */
uint64_t find_block(struct luajit_walk *w, const struct luajit_layout *l, uint64_t blob,
                    uint64_t from);

#endif
