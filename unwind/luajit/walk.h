/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The LuaJIT walker. A native walk meets LuaJIT in C frames of two kinds: the interpreter's ("the
 * blob": one fixed C frame for each entry into the VM, whatever number of Lua calls runs in it) and
 * machine code of traces. Each such frame is one segment of one Lua stack; SAVE_L in it says whose.
 *
 * What a reader sees:
 *  - in place of the interpreter's or trace's frame the Lua frames of its segment, innermost first.
 *    The innermost stands for the native frame: it has its pc and CFA, and the leaf's flags. The
 *    others have the address of their executing bytecode instruction as pc (builtins and C
 *    functions: their native entry) and no CFA;
 *  - functions that a trace has inlined are marked FRAME_INLINED; tier TIER_TRACE and the trace's
 *    number stand in all frames that a trace executes, which are the inlined ones and the one it
 *    started in. Below them the stack is the interpreter's;
 *  - a C function that Lua called is its native frame, and no second one; a builtin (string.gsub)
 *    has a frame of its own, also where C code does its work, since that code is LuaJIT's own and
 *    has no name in a stripped file;
 *  - helpers of the VM that hold no Lua frame (entry and exit of an entry, lj_vm_cpcall, the leaf
 *    helpers, exit stubs, callback slots) stay native frames;
 *  - a segment of which no Lua stack of this moment is known, but a list of all prototypes is: the
 *    function that the program counter is in, and what a trace has inlined (image), with such a
 *    frame below;
 *  - a segment that cannot be told (VM memory not recorded, of another moment, or damaged) is one
 *    frame of kind FRAME_LUA with function 0. Native frames go on behind it: the C frame's
 *    place does not depend on the VM's memory, but for traces, where it is then searched for and
 *    marked as a guess.
 *
 * How far a frame is proven: the weakest of what the walk and the segment's reads rest on, of which
 * Lua stacks, lua_States and what the VM is at are exact only where they came with the sample: that
 * they were equal before and after it proves nothing (memory_read_moving); where an
 * older build does not say which snapshot machine code belongs to and more than one way of reading
 * it was tried, PROVENANCE_GUESS.
 */
#ifndef UNWIND_LUAJIT_WALK_H
#define UNWIND_LUAJIT_WALK_H

#include "unwind/luajit/vm.h"
#include "unwind/walker.h"

/* Gives a Lua-side frame its function's id and line (0: unknown). Called once for each frame that
 * is emitted; may read memory, and raises `provenance` when it does. false: memory is out. */
struct luajit_namer {
    bool (*name)(void *context, const struct memory *m, const struct luajit_vm *vm,
                 const struct luajit_frame *frame, struct frame *ret);
    void *context; /* shared by all threads that walk; NULL name: ids stay 0 */
};

/* What is known of a process. Referred to by its walker; any thread, not to be changed meanwhile.
 */
struct luajit_process {
    const struct luajit_vm *vms; /* found so far; more are met through SAVE_L */
    size_t nr_vms;
    const struct luajit_blob *blobs; /* interpreters that are mapped; none: that was not asked */
    size_t nr_blobs;
    const uint64_t *gs; /* VMs, by their global_States, that came with the sample: whoever recorded
                           it has looked at them */
    size_t nr_gs;
    struct luajit_namer namer;
    /* The prototype that a list of all has with this address in its block, 0: none; called with the
     * namer's context. Where Lua stacks of other moments only are known, the function that runs is
     * then told by registers alone. NULL: there is no list. */
    uint64_t (*prototype)(void *context, uint64_t address);
    /* What is known of Lua's memory is of other moments: where native frames stand does not rest on
     * it as long as their own words say. */
    bool apart;
};

/* The walker of a process, for unwind_input. */
struct walker luajit_walker(const struct luajit_process *process);

#endif
