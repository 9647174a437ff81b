/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The LuaJIT walker. A native walk meets LuaJIT in two kinds of C frames: frames of the interpreter
 * ("the blob": one C frame of fixed size for each entry into the VM, however many Lua calls run in
 * it) and frames of traces' machine code. Each of these frames is one segment of one Lua stack.
 * SAVE_L in the frame tells which Lua stack.
 *
 * The output has:
 *  - in place of the frame of the interpreter or the trace: the Lua frames of its segment,
 *    innermost first. The innermost Lua frame stands for the native frame: it has the native
 *    frame's pc and CFA, and the flags of a leaf. The other Lua frames have no CFA, and their pc is
 *    the address of their executing bytecode instruction (of builtins and C functions: the native
 *    entry);
 *  - functions that a trace has inlined, marked FRAME_INLINED. All frames that a trace executes
 *    (the inlined frames and the frame in which the trace started) have tier TIER_TRACE and the
 *    trace's number. The frames below belong to the interpreter;
 *  - a C function that Lua called: only as its native frame, without a second frame. A builtin
 *    (string.gsub) has its own frame, even where C code does its work, because that code is part of
 *    LuaJIT and has no name in a stripped file;
 *  - helpers of the VM without a Lua frame (code that enters or leaves the VM, lj_vm_cpcall, the
 *    leaf helpers, exit stubs, callback slots): as native frames;
 *  - a segment whose Lua stack of this moment is not known, if there is a list of all prototypes:
 *    the function that the program counter is in and the functions that a trace has inlined
 *    (image), with one frame of kind FRAME_LUA and function 0 below;
 *  - a segment that cannot be read (the VM's memory is not recorded, of another moment, or
 *    damaged): one frame of kind FRAME_LUA with function 0. Native frames go on behind it, because
 *    the C frame's position does not depend on the VM's memory. Traces are the exception: their C
 *    frame is then searched for, and marked as a guess.
 *
 * Provenance of a frame: the weakest of all that the walk and the segment's reads rest on. Lua
 * stacks, lua_States and the VM's current state are exact only if they came with the sample: equal
 * values before and after the sample prove nothing (memory_read_moving). PROVENANCE_GUESS: an older
 * build does not say which snapshot machine code belongs to, and more than one way of reading it
 * was tried.
 */
#ifndef UNWIND_LUAJIT_WALK_H
#define UNWIND_LUAJIT_WALK_H

#include "unwind/luajit/vm.h"
#include "unwind/variable.h"
#include "unwind/walker.h"

/* Gives a Lua frame its function's id and line (0: unknown). Called once for each frame that is
 * emitted. It may read memory, and then raises `provenance`. false: memory is out. */
struct luajit_namer {
    bool (*name)(void *context, const struct memory *m, const struct luajit_vm *vm,
                 const struct luajit_frame *frame, struct frame *ret);
    void *context; /* shared by all walking threads; NULL name: ids stay 0 */
};

/* What is known of a process. The walker refers to it from any thread, so it must not change
 * meanwhile. */
struct luajit_process {
    const struct luajit_vm *vms; /* found so far; the walk finds more through SAVE_L */
    size_t nr_vms;
    const struct luajit_blob *blobs; /* mapped interpreters; none: nobody looked for them */
    size_t nr_blobs;
    const uint64_t *gs; /* global_States of VMs that came with the sample: the recorder has checked
                           these VMs */
    size_t nr_gs;
    struct luajit_namer namer;
    /* The prototype whose block has this address, according to a list of all prototypes; 0: none.
     * Called with the namer's context. Where only Lua stacks of other moments are known, registers
     * alone then tell the running function. NULL: there is no list. */
    uint64_t (*prototype)(void *context, uint64_t address);
    /* Lua's memory is known at other moments only. The positions of native frames do not depend on
     * it as long as the frames' own words tell them. */
    bool other_moments;
    struct variable_places *places; /* unwind/variable.h; NULL: nobody asks */
};

/* Returns the walker of a process, for unwind_input. */
struct walker luajit_walker(const struct luajit_process *process);

#endif
