/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The V8 walker. V8's frames stand on the native stack and are linked by rbp, all but the innermost
 * one, which may be in a prologue, an epilogue, or in a builtin that makes no frame: there the
 * machine code says where the caller is (builtin.h).
 *
 * What a reader sees:
 *  - in place of the interpreter's frame the JavaScript function that runs in it; a bytecode
 *    handler without a frame of its own is that function, too, and keeps its pc;
 *  - in place of generated code its function; what is inlined in it stands before it, marked
 *    FRAME_INLINED;
 *  - WebAssembly's code is a frame of kind FRAME_WASM, its function, and what is inlined in it,
 * told by its module's tables;
 *  - builtins, stubs and entries stay native frames: their symbols name them;
 *  - a function that cannot be told (memory not recorded, or objects that disagree) is one frame of
 *    kind FRAME_JS with function 0; where a jitdump or perf map describes generated code, a frame
 *    of kind FRAME_JIT instead, which those name; they describe interpreted functions, too, by the
 *    address of their bytecode.
 *
 * How far a frame is proven: its place by the stack; its name by memory, and by the frame: the
 * BytecodeArray on the stack must be the function's own, the code object must hold the pc.
 * PROVENANCE_GUESS: the innermost frame when its machine code is not known, and every name when the
 * version of V8 is one that nobody has looked at.
 */
#ifndef UNWIND_V8_WALK_H
#define UNWIND_V8_WALK_H

#include "unwind/v8/object.h"
#include "unwind/v8/frame_cache.h"
#include "unwind/v8/wasm.h"
#include "unwind/walker.h"

/* Gives a frame its function and the position executing. `offset`: in the source, -1: unknown. What
 * is read raises the reader's provenance. false: memory is out. */
struct v8_namer {
    bool (*name)(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                 struct frame *ret);
    bool (*wasm)(void *context, struct v8_reader *r, const struct v8_wasm *w, struct frame *ret);
    void *context; /* NULL name, NULL wasm: ids stay 0 */
};

/* What is known of a process. Referred to by its walker; not to be changed meanwhile. */
struct v8_process {
    const struct v8_layout *layout; /* of the V8 whose generated code it runs; NULL: none */
    struct v8_namer namer;
    /* Nothing of the heap was recorded: functions stay the native frames that they are. */
    bool no_objects;
    /* Functions (tagged) that code with this BytecodeArray (tagged) may be of, `max` at most;
     * called with the namer's context. NULL: nobody knows. */
    size_t (*functions)(void *context, uint64_t bytecode, uint64_t *ret, size_t max);
    /* All ways to a function are read, though one is enough: another walk may need them. */
    bool thorough;
    /* Frames known from earlier walks, of this process (`space` tells it). NULL: none. */
    struct v8_frame_cache *seen;
    uint64_t space;
};

/* The walker of a process, for unwind_input. */
struct walker v8_walker(const struct v8_process *process);

#endif
