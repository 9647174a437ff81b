/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WebAssembly: which function machine code is of. Its code stands outside V8's heap, in C++ objects
 * of the module: a WasmFrame's instance leads to the module's script and its NativeModule, that to
 * the WasmCode that holds the pc, which has the function's number, and to the module's own bytes,
 * which have names. Layouts: looked at in the processes of each version (layout.h), and checked
 * here: an object is of its module, and holds the pc.
 */
#ifndef UNWIND_V8_WASM_H
#define UNWIND_V8_WASM_H

#include "unwind/v8/object.h"

struct v8_wasm {
    uint64_t script;      /* tagged */
    uint64_t native;      /* the NativeModule */
    uint64_t code;        /* the WasmCode */
    uint64_t start, size; /* of the instructions */
    int32_t index; /* of the function, imported ones counted; -1: glue, such as jump tables */
    enum frame_tier tier; /* TIER_BASELINE: Liftoff, TIER_TURBOFAN */
};

/* The code that holds the pc in the module of an instance (as a frame has it, a tagged word).
 * false: that is none, or it is not in that module. */
bool v8_wasm_find(struct v8_reader *r, uint64_t instance, uint64_t pc, struct v8_wasm *ret);

enum { V8_WASM_INLINED_MAX = 32 };
/* The numbers of the functions at a pc (inside of the call) of that code, innermost first, the
 * code's own the last one; 0: they cannot be told. */
unsigned v8_wasm_inlined(struct v8_reader *r, const struct v8_wasm *w, uint64_t pc,
                         int32_t ret[V8_WASM_INLINED_MAX]);

/* Appends the function's name as V8 writes it, with the module's before it, from the module's name
 * section; nothing when it has none there. false: that cannot be read. */
bool v8_wasm_name(struct v8_reader *r, const struct v8_wasm *w, struct text *ret);

#endif
