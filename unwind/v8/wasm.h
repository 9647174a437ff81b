/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WebAssembly: which function owns a piece of machine code. The code is outside V8's heap, in C++
 * objects of the module. A WasmFrame's instance leads to the module's script and its NativeModule.
 * The NativeModule leads to the WasmCode that contains the pc and has the function's number, and to
 * the module's own bytes, which have the names. Layouts: examined in processes of each version
 * (layout.h), and checked here: an object must belong to its module and contain the pc.
 */
#ifndef UNWIND_V8_WASM_H
#define UNWIND_V8_WASM_H

#include "unwind/v8/object.h"

struct v8_wasm {
    uint64_t script;      /* tagged */
    uint64_t native;      /* address of the NativeModule */
    uint64_t code;        /* address of the WasmCode */
    uint64_t start, size; /* of the instructions */
    int32_t index;        /* number of the function, counting imported ones; -1: glue, such as jump
                             tables */
    int32_t position;     /* place of the call in the function's body, in bytes; -1: unknown */
    enum frame_tier tier; /* TIER_BASELINE: Liftoff, TIER_TURBOFAN */
};

/* Finds the code that contains the pc, in the module of an instance (a tagged word, as a frame has
 * it). false: `instance` is none, or the pc is not in its module. */
bool v8_wasm_find(struct v8_reader *r, uint64_t instance, uint64_t pc, struct v8_wasm *ret);

/* A function at a pc of WebAssembly code: as `index` and `position` of struct v8_wasm. */
struct v8_wasm_place {
    int32_t index, position;
};
enum { V8_WASM_INLINED_MAX = 32 };
/* Finds the functions at a pc of that code, innermost first; the code's own function is the last.
 * `calls`: the pc is inside a call (V8 keeps the positions of calls, so that of the innermost
 * function is known only then). Returns how many; 0: unknown. */
unsigned v8_wasm_places(struct v8_reader *r, const struct v8_wasm *w, uint64_t pc, bool calls,
                        struct v8_wasm_place ret[V8_WASM_INLINED_MAX]);

/* Returns the place of the call in the bytes of the module, which V8's stack traces print behind
 * `wasm-function[N]:`; 0: unknown. */
uint32_t v8_wasm_offset(struct v8_reader *r, const struct v8_wasm *w);

/* Appends the function's name as V8 writes it, prefixed with the module's name, from the module's
 * name section; appends nothing when the section has no name for it. false: the section cannot be
 * read. */
bool v8_wasm_name(struct v8_reader *r, const struct v8_wasm *w, struct text *ret);

#endif
