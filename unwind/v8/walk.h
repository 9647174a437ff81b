/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The V8 walker. V8's frames are on the native stack and are linked by rbp. The innermost frame is
 * an exception: it may be in a prologue, an epilogue, or a builtin that makes no frame. There the
 * machine code says where the caller is (builtin.h).
 *
 * What the stack contains after the walk:
 *  - The interpreter's frame becomes the JavaScript function that it runs. A bytecode handler
 *    without a frame of its own also becomes that function, and keeps its pc.
 *  - Generated code becomes its function. Functions inlined in it come before it, marked
 *    FRAME_INLINED.
 *  - WebAssembly code becomes a frame of kind FRAME_WASM for its function, and one for each inlined
 *    function, from the tables of its module.
 *  - Builtins, stubs and entries stay native frames: their symbols name them.
 *  - With `awaits`, the functions that await the result of an async function, or of a callback of
 *    then(), come behind it, of the tier TIER_ASYNC, before the builtin that has called it. One
 *    without a function (id 0) says that there may be more, which were not recorded.
 *  - A function that cannot be resolved (memory not recorded, or objects that disagree) becomes one
 *    frame of kind FRAME_JS with function 0. Where a jitdump or perf map describes generated code,
 *    it becomes a frame of kind FRAME_JIT instead, and the jitdump or map names it. They describe
 *    interpreted functions, too, by the address of their bytecode.
 *
 * How far a frame is proven: the stack proves its place. Memory and the frame together prove its
 * name: the BytecodeArray on the stack must be the function's own, and the code object must contain
 * the pc. PROVENANCE_GUESS: the innermost frame when its machine code is not known, and every name
 * when nobody has verified the layout of this version of V8.
 */
#ifndef UNWIND_V8_WALK_H
#define UNWIND_V8_WALK_H

#include "unwind/v8/object.h"
#include "unwind/v8/frame_cache.h"
#include "unwind/v8/wasm.h"
#include "unwind/variable.h"
#include "unwind/walker.h"

/* Sets a frame's function and executing position. `offset`: in the source, -1: unknown. Readings
 * raise the reader's provenance. false: memory is out. */
struct v8_namer {
    bool (*name)(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                 struct frame *ret);
    bool (*wasm)(void *context, struct v8_reader *r, const struct v8_wasm *w, struct frame *ret);
    /* Names code that V8 has generated for itself. */
    bool (*own)(void *context, const char *name, struct frame *ret);
    /* Gets each piece of optimized code that a frame is found in. `exit`: the code has called the
     * deoptimizer (`lazy`: because it must not be used any more), and this is the return address;
     * 0: it has not. The reader is left as it was. */
    void (*optimized)(void *context, struct v8_reader *r, const struct v8_code *code, uint64_t exit,
                      bool lazy);
    /* Gets the function that the interpreter goes on with, because optimized code has just been
     * left, and the place in its source (-1: unknown). The reader is left as it was. */
    void (*resumed)(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset);
    void *context; /* a function is NULL: the ids that it would give stay 0 */
};

/* What is known of a process. Its walker refers to it; it must not change while the walker is
 * used. */
struct v8_process {
    const struct v8_layout *layout; /* of the V8 whose generated code the process runs; NULL:
                                       none */
    struct v8_namer namer;
    /* Nothing of the heap was recorded: functions stay native frames. */
    bool no_objects;
    /* Finds functions (tagged) that may have this BytecodeArray (tagged), at most `max`; called
     * with the namer's context. Returns how many. NULL: there is no such list. */
    size_t (*functions)(void *context, uint64_t bytecode, uint64_t *ret, size_t max);
    uint64_t *root; /* set when the innermost frame is V8's: what its root register has; may be
                       NULL */
    bool awaits;    /* emit the functions that await the result (async.h), too */
    /* Read all ways to a function, though one is enough: another walk may need the others. */
    bool reads_all_ways;
    /* Frames known from earlier walks; `space` identifies this process in it. NULL: none. */
    struct v8_frame_cache *seen;
    uint64_t space;
    struct variable_places *places; /* unwind/variable.h; NULL: nobody asks */
};

/* Returns the walker of a process, for unwind_input. */
struct walker v8_walker(const struct v8_process *process);

#endif
