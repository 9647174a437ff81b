/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the parts of the LuaJIT walker: blob.c (interpreter frames; blob_x86_64.c and
 * blob_aarch64.c, what differs between machines), position.c (where an
 * interpreter frame's segment begins), mcode.c (traces, stubs, callback slots), emit.c (output of
 * frames). */
#ifndef UNWIND_LUAJIT_WALK_INTERNAL_H
#define UNWIND_LUAJIT_WALK_INTERNAL_H

#include "unwind/arch_x86_64.h"
#include "unwind/luajit/trace.h"
#include "unwind/trace.h"
#include "unwind/luajit/walk.h"

/* A Lua stack that the walk has met: its state, and where its next segment begins. */
struct segment {
    uint64_t L;
    struct lua_position next;
    uint64_t si; /* the C frame that the lua_State's own chain has next; 0: end of the chain */
    bool lost;   /* a segment could not be read, so the segments below cannot be, either */
    bool begun;  /* a segment was walked, so `next` is valid */
};

enum { SEGMENTS_MAX = 224, KNOWN_VMS = 16 };

/* State of one walk. */
struct luajit_walk {
    struct walker_state head;
    const struct luajit_process *process;
    struct walker_step *step; /* the current step */
    struct luajit_vm vm;      /* VM of the current frame */
    struct segment segments[SEGMENTS_MAX];
    unsigned nr_segments;
    struct luajit_vm vms[KNOWN_VMS]; /* VMs met in this walk */
    unsigned nr_vms;
    struct luajit_reader r;
    uint64_t unrecorded; /* a lua_State of which nothing is recorded; 0: none met */
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

/* Tell the walk's trace, if there is one. */
static inline void walk_say(const struct luajit_walk *w, enum trace_kind kind, const char *text,
                            uint64_t value, uint64_t second)
{
    trace_say(w->step->input, w->step->out, kind, text, value, second);
}
static inline void walk_mark(const struct luajit_walk *w, enum provenance provenance,
                             const char *text, uint64_t value)
{
    trace_mark(w->step->input, w->step->out->frames.nr, provenance, text, value);
}

/* The machine's registers by what they are for every frame. */
static inline const struct arch_registers *walk_registers(const struct luajit_walk *w)
{
    return &w->step->input->registers.arch->reg;
}
static inline uint64_t step_pc(const struct luajit_walk *w)
{
    return walk_register(w, walk_registers(w)->pc);
}
static inline uint64_t step_sp(const struct luajit_walk *w)
{
    return walk_register(w, walk_registers(w)->sp);
}

/* Read a word of the native stack. */
static inline bool walk_read_stack(struct luajit_walk *w, uint64_t address, uint64_t *ret)
{
    return memory_read_slot(&w->step->input->memory, address, ret, w->step->provenance);
}

/* Leave the interpreter's C frame at `si`: set the registers of its caller. false: the frame is not
 * recorded. */
bool walk_leave_block(struct luajit_walk *w, uint64_t si);
/* blob_x86_64.c: step from native code whose only words on the stack are right below `cfa`.
 * `saved`: how many bytes, from the CFA down, hold pushed registers (in their slots of the C
 * frame). */
enum walker_result step_partial(struct luajit_walk *w, uint64_t cfa, uint64_t saved);

/* Why a trace's functions may be a guess. */
extern const char snapshot_unsure[];

/* ---- emit.c -------------------------------------------------------------------------------- */

/* The output of one segment's frames. */
struct emitter {
    struct luajit_walk *w;
    uint64_t L, pc, cfa; /* pc and cfa of the native frame that the first Lua frame stands for */
    uint16_t trace;      /* trace that executes the frames; 0: the interpreter */
    bool trace_once;     /* the trace executes the next frame only */
    bool inlined;        /* the next frames are inlined in the trace */
    bool omit_c;         /* omit the first frame if it is a C function: its native frame is already
                            out */
    bool certain_below;  /* `weakest` applies up to the frame that the trace started in */
    enum provenance weakest; /* frames are at least this weak */
    const char *why;         /* a sentence of trace.h, if `weakest` is not exact */
    size_t first;            /* index of the first frame in the output */
    unsigned left;           /* frames_left before the first frame */
    struct luajit_frame pending;
    uint64_t pending_code;  /* address of its executing instruction or native entry */
    uint64_t pending_base;  /* where its variables are; 0: on no Lua stack */
    uint64_t inner_base;    /* of the frame further in; 0: not known */
    uint64_t trace_address; /* the trace and the snapshot that tell the next frames, and the base of
                               the frame that the trace started in; 0: the interpreter */
    uint64_t trace_base;
    uint32_t snapshot;
    bool has_pending, omitted, no_memory;
};

void emit_begin(struct emitter *e, struct luajit_walk *w, uint64_t L, uint64_t cfa);
struct luajit_sink emit_sink(struct emitter *e);
/* Emit a frame. at.base is where its variables are (0: on no Lua stack); at.pc 0: unknown or not
 * needed. false: no more frames are wanted. */
bool emit_function(struct emitter *e, const struct luajit_function *f, struct lua_position at);
/* Emit the last frame. false: memory is out. */
bool emit_end(struct emitter *e);
/* Take back the emitted frames. */
void emit_undo(struct emitter *e);
/* The next frames are at least this weak. */
static inline void emit_weaken(struct emitter *e, enum provenance provenance, const char *why)
{
    e->weakest = provenance;
    e->why = why;
}
static inline bool emit_nothing(const struct emitter *e)
{
    return !e->has_pending && e->w->step->out->frames.nr == e->first;
}

/* Emit the native frame itself, or a Lua frame whose function is unknown. false: memory is out. */
bool emit_native(struct luajit_walk *w, uint64_t cfa);
bool emit_unknown(struct luajit_walk *w, uint64_t cfa);

/* ---- pc_only.c: without a Lua stack of this moment ------------------------------------------ */

/* Is the interpreter's program counter in a prototype of the list? */
bool pc_is_listed(struct luajit_walk *w);
/* Emit the function whose bytecode holds the program counter, if a list of prototypes has it. Then,
 * or else, emit a Lua frame whose function is unknown. false: memory is out. */
bool emit_alone(struct luajit_walk *w, uint64_t cfa);
/* As emit_alone(), for trace `t` at its exit `number`, or (UINT32_MAX) at the place where the frame
 * executes the trace. */
bool emit_trace_alone(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number,
                      uint64_t cfa);

/* ---- segments ------------------------------------------------------------------------------ */

/* The walk's entry for L; NULL: L was not met yet. */
struct segment *segment_find(struct luajit_walk *w, uint64_t L);
/* As segment_find(), but creates the entry, with `si` as the next expected C frame. NULL: there are
 * too many. */
struct segment *segment_get(struct luajit_walk *w, uint64_t L, uint64_t si);
/* Note that the walk has passed the C frame at si: its link names the next C frame. */
void segment_pass(struct luajit_walk *w, struct segment *s, uint64_t si);

/* ---- position.c ----------------------------------------------------------------------------- */

/* Search of the places where the innermost segment of L may begin, best first. Each place has
 * passed a check of its own. The search runs in stages, because mostly the first place is right. */
enum { PLACES_MAX = 24 };
struct position_search {
    struct luajit_walk *w;
    const struct luajit_state *L;
    uint64_t bases[3]; /* candidate bases in order; the base's register first when it is known */
    unsigned nr_bases, stage;
    bool has_base;         /* the base's register is known: bases[0] is its value */
    uint64_t pc, saved_pc; /* the next instruction's register, and SAVE_PC; 0: unknown */
    struct lua_position at[PLACES_MAX];
    unsigned nr, next;
    bool weak; /* the last place returned is a guess: in a leaf, L->base and SAVE_PC are often
                  stale */
};
/* Begin a search. `o`: the pc's offset in the blob. */
void positions_begin(struct luajit_walk *w, const struct luajit_state *L, uint64_t si, uint64_t o,
                     struct position_search *s);
bool positions_next(struct position_search *s, struct lua_position *ret);
/* Program counter of the Lua function at `base`, whose C frame is at si: from its register, else
 * SAVE_PC; 0: neither is in the function. */
uint64_t place_pc(struct luajit_walk *w, const struct luajit_state *L, uint64_t base, uint64_t si);
/* SAVE_PC; 0: not recorded. */
uint64_t read_saved_pc(struct luajit_walk *w, uint64_t si);
/* A register, cut to the width of the VM's references: in 32 bit builds the upper half is
 * garbage. */
uint64_t vm_register(const struct luajit_walk *w, unsigned reg);

/* ---- machines ------------------------------------------------------------------------------- */

/* What differs between the interpreters of different machines: a row for each (blob_x86_64.c,
 * blob_aarch64.c). */
struct luajit_machine {
    const struct arch *arch;
    /* Registers of the interpreter: the running frame's base (known in leaves only, if C functions
     * do not keep it), the next instruction, and the base before a call or in a C helper ("RB"). */
    uint8_t base, pc, old_base;
    /* The register by which code finds its VM: g is its value - g2disp, or its value (is_g). */
    uint8_t vm;
    bool vm_is_g;

    /* Returns the running frame's base, whose register may have another value at offset `o` of the
     * blob. NULL: it never has. */
    uint64_t (*base_at)(const struct luajit_walk *w, uint64_t o);

    /* As walk_leave_block(). */
    bool (*leave_block)(struct luajit_walk *w, uint64_t si);
    /* Places where the C frame is not as the unwind entry says, for a pc at offset `o` of the blob.
     * Returns true if the step was taken (`result`), else gets the C frame. */
    bool (*place)(struct luajit_walk *w, uint64_t o, uint64_t *si, enum walker_result *result);
    uint8_t leave_size, rethrow_size; /* bytes of the epilogues */
    /* Has the code that returns to C already removed the frame, or has the code that C called not
     * made it yet? `next`: the frame below. */
    bool (*is_between)(struct luajit_walk *w, const struct luajit_state *L, uint64_t o,
                       struct lua_position *next);
    /* Step from a frame in lj_vm_ffi_call or code behind the blob, at the module's address `at`. */
    enum walker_result (*step_ffi_call)(struct luajit_walk *w, uint64_t at);
    /* Step from a frame in memory that no file is mapped to. */
    enum walker_result (*step_mcode)(struct luajit_walk *w);

    /* Find the C frame of a frame in trace `t`, or in its exit stub, which has pushed that many
     * bytes. Returns false if the lua_State's chain has another one next. */
    bool (*trace_block)(struct luajit_walk *w, const struct luajit_trace *t,
                        const struct luajit_state *L, uint64_t pushed, uint64_t *si);
    /* The same below the exit handler, with its lua_State. S: sp on the trace that exits. */
    bool (*exit_block)(struct luajit_walk *w, uint64_t S, struct luajit_state *L, uint64_t *si);
    /* Has the exit handler, of which offset `o` runs, stored the numbers of the trace and the exit?
     * If not: get the trace and the exit. S as above. */
    bool (*exit_is_told)(const struct luajit_layout *l, uint64_t o);
    bool (*early_exit)(struct luajit_walk *w, uint64_t S, struct luajit_trace *t, uint32_t *exitno);
    /* Find the trace and the exit in whose stub the pc is, where each trace has stubs of its own.
     * NULL: groups of stubs serve all traces. */
    bool (*exit_stub)(struct luajit_walk *w, uint64_t pc, struct luajit_trace *t, uint32_t *exitno);
    /* As leave_block(), for the C frame of a trace. */
    bool (*leave_trace)(struct luajit_walk *w, uint64_t si);
    /* Does the code have a store of a register's word at [the VM's register + displacement]? The
     * instruction has `store_size` bytes. */
    bool (*has_store)(const uint8_t *code, uint32_t size, uint32_t displacement);
    uint8_t store_size;
    /* There are readers of its generated code: calls in traces (trace_calls.h), exit stubs, and
     * lj_trace_exit. What only these can tell is not told without them. */
    bool reads_code;
};
extern const struct luajit_machine luajit_x86_64, luajit_aarch64;

static inline const struct luajit_machine *luajit_machine(const struct luajit_layout *l)
{
    return l->machine == LUAJIT_ON_X86_64 ? &luajit_x86_64 : &luajit_aarch64;
}
/* The row of the current frame's interpreter. */
static inline const struct luajit_machine *walk_machine(const struct luajit_walk *w)
{
    return luajit_machine(w->vm.layout);
}

/* blob.c: is the C frame complete at that offset, but not yet or no more one of its lua_State? Is
 * the code there a leaf helper's, or the exit handler's? */
bool blob_is_unlinked(const struct luajit_layout *l, uint64_t o);
bool blob_is_leaf_helper(const struct luajit_layout *l, uint64_t o);
bool blob_is_exit(const struct luajit_layout *l, uint64_t o);
/* mcode.c: read the lua_State that runs the VM's trace. */
bool running_state(struct luajit_walk *w, int32_t field, struct luajit_state *ret);
int32_t running_field(const struct luajit_layout *l);
/* mcode.c: the word of SAVE_L in the C frame at si; 0: not recorded. */
uint64_t block_L(struct luajit_walk *w, uint64_t si);
/* blob.c: may `pc` be a return address? Machine code areas are not executable while they are
 * written to: `mcode` accepts them. */
bool walk_is_executable(struct luajit_walk *w, uint64_t pc, bool mcode);
/* blob.c: read the lua_State of SAVE_L in the C frame at si; false: it is not a lua_State of a VM
 * with this blob. */
bool block_state(struct luajit_walk *w, uint64_t si, struct luajit_state *ret);

/* ---- steps --------------------------------------------------------------------------------- */

/* Use the VM at g with this blob, and remember it. false: there is no such VM. */
bool walk_use_vm(struct luajit_walk *w, uint64_t g, const struct luajit_layout *layout,
                 uint64_t blob);

/* blob.c: step from a frame in the blob, at offset `o`. */
enum walker_result step_blob(struct luajit_walk *w, uint64_t o);
/* blob.c: the C frame that L's chain has next in this walk. */
uint64_t next_block(struct luajit_walk *w, const struct luajit_state *L);
/* blob.c: the first C frame on the stack at or near above `from` which the chain of its own
 * lua_State has next; 0: none. */
uint64_t find_linked_block(struct luajit_walk *w, uint64_t from, struct luajit_state *L);
/* mcode.c: does the snapshot before `number` have the same functions? Builds that do not say which
 * snapshot covers the code need this: the snapshot of the next guard may be one too late. */
bool same_functions_before(struct luajit_walk *w, const struct luajit_trace *t, uint32_t number);
/* mcode.c: step from a frame in memory that no file is mapped to. */
enum walker_result step_mcode_x86_64(struct luajit_walk *w);
enum walker_result step_mcode_aarch64(struct luajit_walk *w);
/* blob_aarch64.c: step from a slot of an FFI callback, which jumps into that blob. */
enum walker_result step_callback_aarch64(struct luajit_walk *w, const struct luajit_blob *blob);
/* mcode.c: step from a frame at or below the exit handler. S: rsp on the trace that exits. */
enum walker_result step_exit(struct luajit_walk *w, uint64_t S, bool exact);
/* mcode.c: without the VM's memory, find the next C frame on the stack from `from` on: a frame with
 * a return address behind a call of one of the blob's entries. 0: none near. */
uint64_t find_block(struct luajit_walk *w, const struct luajit_layout *l, uint64_t blob,
                    uint64_t from);

#endif
