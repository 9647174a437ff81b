/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the V8s of different machines: a row for each (machine_x86_64.c,
 * machine_aarch64.c). Frames are alike: the caller's frame pointer and the return address are where
 * the frame pointer points to, and the slots below have the same offsets.
 */
#ifndef UNWIND_V8_MACHINE_H
#define UNWIND_V8_MACHINE_H

#include "unwind/arch.h"
#include "unwind/v8/builtin.h"

enum { V8_ENTRY_SAVED_MAX = 10 };

struct runtime_image;
struct v8_code;
struct v8_follow;
struct v8_reader;

struct v8_machine {
    const struct arch *arch;
    /* Registers, by DWARF number: the function that is being entered, the interpreter's offset into
     * the BytecodeArray, the BytecodeArray (ARCH_NO_REGISTER: as v8_layout.array_register says),
     * the instance of WebAssembly code, and the one that generated code never changes. */
    uint8_t function, offset, array, instance, root;
    uint16_t root_bias; /* bytes from the isolate to where `root` points */
    /* At a function's first instruction: where the return address is (V8_RETURN_ON_STACK), and the
     * CFA's distance from sp. */
    uint8_t return_register, frameless_offset;
    uint8_t address_bits; /* of user addresses */
    /* Whether BaselineOutOfLinePrologue makes all of the frame; else its caller begins it. */
    bool builtin_makes_frame;

    /* Where C++ calls JavaScript: the caller's registers are saved at the frame pointer + `at`. The
     * CFA is at the frame pointer + `cfa`. */
    struct {
        uint8_t nr;
        int16_t cfa;
        struct {
            uint8_t reg;
            int16_t at;
        } saved[V8_ENTRY_SAVED_MAX];
    } entry;
    /* Code of regular expressions saves the same registers at the same offsets, and the CFA is at
     * the frame pointer + this. 0: its frame is like others, and what it saves is below. */
    int16_t regexp_cfa;
    /* Bytes of registers that the deoptimizer's entry has saved above sp, below the return address:
     * of old versions, and since V8 12; 0: not known. */
    uint16_t deopt_saved[2];

    /* Follow one instruction of the code, `at` bytes from its start, to the places that it leads to
     * (builtin_internal.h). */
    void (*follow)(struct v8_follow *f, size_t at);
    /* Does the frame stand at `at`? Decides from a few bytes, without following all of the code:
     * the frame stands behind a function's prologue if no instruction shortly before `at` may take
     * it down. `code`: the first `size` bytes. `before`, `nr_before`: the bytes right before `at`,
     * V8_BYTES_BEFORE of them or all that there are. false: these bytes do not decide it. */
    bool (*has_frame)(const uint8_t *code, size_t size, size_t at, const uint8_t *before,
                      size_t nr_before);
    /* Returns the state in baseline code. NULL: its instructions show it, as those of other code
     * do. */
    struct v8_state (*baseline)(const uint8_t *code, size_t size, size_t at);
    /* Returns the type of the frame that code makes for itself, from its first V8_BYTES_LIFTOFF
     * bytes; -1: not known. */
    int32_t (*made_type)(const struct v8_layout *l, const uint8_t *code);
    /* Returns the offset behind the call by which Liftoff's code has its frame made; 0: the code is
     * not Liftoff's. `code`: its first V8_BYTES_LIFTOFF bytes. NULL: that code makes its frame
     * itself. */
    size_t (*liftoff_begun)(const uint8_t *code);
    /* Is the pc in code of a regular expression, and its frame stands? NULL: that is not known. */
    bool (*stands_in_regexp)(struct v8_reader *r, const struct v8_code *c, uint64_t pc);
    /* Does it make or remove that frame there? Get the bytes from sp to the CFA. The caller's frame
     * pointer is in its register. NULL: instructions show it as in other code. */
    bool (*begins_regexp)(struct v8_reader *r, const struct v8_code *c, uint64_t pc,
                          int64_t *to_cfa);
    /* Get the value that a function without arguments returns, at an address of the file, if all it
     * does is load a constant, an address or, with `load`, a number of four bytes. Returns false
     * for any other function. */
    bool (*returned)(const struct runtime_image *image, uint64_t address, bool load, uint64_t *ret);
};

extern const struct v8_machine v8_machine_x86_64, v8_machine_aarch64;

#endif
