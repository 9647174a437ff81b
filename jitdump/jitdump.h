/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names, code ranges, lines and unwind rules over time, from jitdump files and perf-PID.map files.
 * A `jitcode` holds the data from the files of one process. Once loaded it never changes, and any
 * thread may use it.
 */
#ifndef JITDUMP_JITDUMP_H
#define JITDUMP_JITDUMP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitcode;

/* The machine code of one function at one time. */
struct jit_function {
    uint64_t start, size;    /* code range in the target */
    uint64_t from, until;    /* lifetime [from, until), in ns of the recording's clock */
    uint64_t index;          /* code index in the dump; 0 for perf maps */
    const char *name;        /* points into the file's mapping */
    const uint8_t *code;     /* machine code as loaded, `size` bytes; NULL: not recorded */
    const void *lines;       /* private: DEBUG_INFO */
    const void *lua;         /* private: a LuaJIT trace from the agent's records; NULL: none */
    const uint8_t *eh_frame; /* UNWINDING_INFO; NULL: none */
    uint32_t eh_frame_size;
    const uint8_t *eh_frame_hdr;
    uint32_t eh_frame_hdr_size;
    bool from_map;            /* from a perf map: it has no times */
    const struct jitcode *of; /* the jitcode that it belongs to */
};

struct jitdump_options {
    /* Converts the stamps of a TSC-stamped dump (flag bit 0) to the recording's clock. NULL: this
     * is impossible, and the times of such dumps are ignored. Other dumps are stamped with
     * CLOCK_MONOTONIC, which is assumed to be the recording's clock. */
    uint64_t (*to_clock)(const void *context, uint64_t stamp);
    const void *context;
    bool ignore_times; /* the recording's clock is not CLOCK_MONOTONIC: ignore the times of
                          dumps that are not TSC-stamped. Without times every function lives for
                          ever, and at each address the last loaded function wins */
};

/* Counts of what a load skipped. Unknown records are those with an id that this reader does not
 * know. */
struct jit_loss {
    uint64_t records_bad, records_unknown, bytes_cut;
};

/* Read a jitdump. An incomplete end (the writer is still running) is counted, but is no error.
 * jitdump_read() and perfmap_read() read an open file, which the caller closes. */
int jitdump_load(const char *path, const struct jitdump_options *options, struct jitcode **ret,
                 struct error *err);
int jitdump_read(int fd, const char *path, const struct jitdump_options *options,
                 struct jitcode **ret, struct error *err);
/* Read a perf-PID.map; later lines win over earlier ones. */
int perfmap_load(const char *path, struct jitcode **ret, struct error *err);
int perfmap_read(int fd, const char *path, struct jitcode **ret, struct error *err);
void jitcode_free(struct jitcode *code);

/* Returns the pid in the dump's header (in the target's own pid namespace); 0 for maps. */
uint32_t jitcode_pid(const struct jitcode *code);
/* Set the process that the code belongs to, with its pid in the recording. The first call wins.
 * Children forked later have the same code. jit_function_owner() returns 0 if it was not set. */
void jitcode_own(struct jitcode *code, uint32_t pid);
uint32_t jit_function_owner(const struct jit_function *f);
const struct jit_loss *jitcode_loss(const struct jitcode *code);
/* Functions are numbered from 0 in load order. */
size_t jitcode_count(const struct jitcode *code);
const struct jit_function *jitcode_at(const struct jitcode *code, size_t index);
size_t jitcode_index(const struct jitcode *code, const struct jit_function *f);
/* jitcode_is_tsc(): the dump is TSC-stamped. jitcode_is_timeless(): its times were ignored (always
 * true for maps). */
bool jitcode_is_tsc(const struct jitcode *code);
bool jitcode_is_timeless(const struct jitcode *code);
bool jitcode_swapped(const struct jitcode *code); /* the dump's byte order is not ours */
/* Returns the machine of the code, as ELF files number it (e_machine); 0: not known. */
uint32_t jitcode_machine(const struct jitcode *code);
/* Get the times of the first and last load, on the recording's clock, even if times are ignored:
 * used to detect clock mismatches. Both are 0 when there are no loads. */
void jitcode_time_range(const struct jitcode *code, uint64_t *first, uint64_t *last);

/* Returns the function that covered `address` at `time` (0: unknown time; the last one that did).
 * NULL: none. */
const struct jit_function *jitcode_lookup(const struct jitcode *code, uint64_t address,
                                          uint64_t time);
/* The same, with the addresses [start, end) around `address` for which the answer holds at that
 * time. The span is smaller than the function where, without times, a later function covers a part
 * of it. */
struct jit_span {
    uint64_t start, end;
};
const struct jit_function *jitcode_lookup_span(const struct jitcode *code, uint64_t address,
                                               uint64_t time, struct jit_span *ret);

/* Get the source position of an address inside `f`. Returns false if no DEBUG_INFO covers it.
 * `column` is the discriminator (V8 writes columns there). */
struct jit_position {
    const char *file;
    uint32_t line, column;
};
bool jit_function_position(const struct jit_function *f, uint64_t address,
                           struct jit_position *ret);

/* ---- LuaJIT traces, as the agent (agent/ljdump.lua) records them: docs/ljdump.md ------------ */

/* A Lua function or builtin. Texts point into the file's mapping, are not NUL-terminated, and may
 * hold any byte. */
struct jit_lua_function {
    const char *name;  /* name from the function's definition; size 0: unknown */
    const char *chunk; /* as the program named it: "@FILE", "=NAME" or source text, perhaps cut */
    uint32_t name_size, chunk_size;
    uint32_t first_line; /* line of the definition; 0: a main chunk, or stripped */
    uint32_t lines;      /* last line - first_line; if this and first_line are 0: stripped */
    bool is_builtin;     /* a LuaJIT builtin with this `name`; or, without a name, a C function */
    uint64_t bytecode;   /* private, like the fields below: address of the first instruction */
    uint32_t instructions, width;
    const uint8_t *line_info;
    const uint8_t *code; /* the instructions, 4 bytes each; NULL: not written (older agent) */
    bool swap;
};

struct jit_lua_frame {
    const struct jit_lua_function *function; /* lives as long as the jitcode; NULL: unknown */
    uint32_t line;                           /* line that executes in the function; 0: unknown */
    uint64_t pc; /* address of the executing bytecode instruction, or of a builtin; 0: unknown */
};

enum { JIT_LUA_FRAMES_MAX = 130 }; /* a trace has 250 slots, and a frame at least two */

/* The Lua functions that a trace executes at an address, innermost first. The trace runs in the
 * frame of the last function; the others are inlined. No trace knows the caller of the last. */
struct jit_lua_stack {
    uint32_t trace, root, parent, exit; /* numbers; root, parent and exit are 0: a root trace */
    unsigned nr;
    /* The frames may be wrong for this exact address: before March 2021 LuaJIT kept no addresses
     * with snapshots, and the two possible snapshots differ. */
    bool guess;
    struct jit_lua_frame frames[JIT_LUA_FRAMES_MAX];
};
/* Get the Lua functions at `address`, which lies inside the instruction in question (for a return
 * address, pass one less). Returns false if `f` is not a trace of the agent or nothing is known at
 * the address. Any thread. */
bool jit_function_lua(const struct jit_function *f, uint64_t address, struct jit_lua_stack *ret);

#endif
