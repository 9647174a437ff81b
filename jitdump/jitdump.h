/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Names, code ranges, lines and unwind rules over time, from jitdump files and perf-PID.map
 * files. A `jitcode` holds what one process's files say; it is immutable once loaded and may be
 * asked from any thread.
 */
#ifndef JITDUMP_JITDUMP_H
#define JITDUMP_JITDUMP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitcode;

/* One function's machine code at one time. */
struct jit_function {
    uint64_t start, size;    /* code range in the target */
    uint64_t from, until;    /* alive in [from, until), ns of the recording's clock */
    uint64_t index;          /* the dump's code index; 0 for perf maps */
    const char *name;        /* inside the file's mapping */
    const uint8_t *code;     /* machine code as loaded, `size` bytes; NULL: not recorded */
    const void *lines;       /* private: DEBUG_INFO */
    const void *lua;         /* private: a LuaJIT trace, from the agent's records; NULL: none */
    const uint8_t *eh_frame; /* UNWINDING_INFO; NULL: none */
    uint32_t eh_frame_size;
    const uint8_t *eh_frame_hdr;
    uint32_t eh_frame_hdr_size;
    bool from_map;            /* a perf map's entry: no times */
    const struct jitcode *of; /* whatever it was read from */
};

struct jitdump_options {
    /* Maps the stamps of a TSC-stamped dump (flag bit 0) to the recording's clock; NULL: there is
     * no way to, so the times of such a dump are ignored. Other dumps are stamped with
     * CLOCK_MONOTONIC, which is taken to be the recording's clock. */
    uint64_t (*to_clock)(const void *context, uint64_t stamp);
    const void *context;
    bool ignore_times; /* the recording's clock is not CLOCK_MONOTONIC: ignore the times of dumps
                          that are not TSC-stamped. Without times every function lives for ever,
                          and at each address the last one loaded wins */
};

/* What a load passed over; counts. Unknown are records of ids nobody here reads. */
struct jit_loss {
    uint64_t records_bad, records_unknown, bytes_cut;
};

/* Read a jitdump. A cut tail (its writer is still running) is no error; it is counted. */
int jitdump_load(const char *path, const struct jitdump_options *options, struct jitcode **ret,
                 struct error *err);
/* Read a perf-PID.map; later lines win over earlier ones. */
int perfmap_load(const char *path, struct jitcode **ret, struct error *err);
void jitcode_free(struct jitcode *code);

/* The pid the dump's header names (in the target's own pid namespace); 0 for maps. */
uint32_t jitcode_pid(const struct jitcode *code);
/* Whose code it is, as the recording numbers processes: what is said first holds. Children that are
 * forked later have the same code. 0: nobody's so far. */
void jitcode_own(struct jitcode *code, uint32_t pid);
uint32_t jit_function_owner(const struct jit_function *f);
const struct jit_loss *jitcode_loss(const struct jitcode *code);
/* Functions are numbered from 0, in load order. */
size_t jitcode_count(const struct jitcode *code);
const struct jit_function *jitcode_at(const struct jitcode *code, size_t index);
size_t jitcode_index(const struct jitcode *code, const struct jit_function *f);
/* The dump is TSC-stamped; its times were ignored (always so for maps). */
bool jitcode_is_tsc(const struct jitcode *code);
bool jitcode_is_timeless(const struct jitcode *code);
bool jitcode_swapped(const struct jitcode *code); /* the dump's byte order is not ours */
/* First and last load, on the recording's clock, whether or not times are ignored: to detect
 * clock mismatches. Both 0 when there are none. */
void jitcode_time_range(const struct jitcode *code, uint64_t *first, uint64_t *last);

/* The function that covered `address` at `time` (0: not known; the last one that did); NULL: none.
 */
const struct jit_function *jitcode_lookup(const struct jitcode *code, uint64_t address,
                                          uint64_t time);
/* The same, and the addresses [start, end) around for which it is the answer at that time: less
 * than the function where, without times, a later one covers a part of it. */
struct jit_span {
    uint64_t start, end;
};
const struct jit_function *jitcode_lookup_span(const struct jitcode *code, uint64_t address,
                                               uint64_t time, struct jit_span *ret);

/* Source position of an address inside `f`; false: no DEBUG_INFO covers it. `column` is the
 * discriminator (V8 writes columns there). */
struct jit_position {
    const char *file;
    uint32_t line, column;
};
bool jit_function_position(const struct jit_function *f, uint64_t address,
                           struct jit_position *ret);

/* ---- LuaJIT traces, as the agent (agent/ljdump.lua) records them: docs/ljdump.md ------------ */

/* A Lua function or builtin. Texts are inside the file's mapping, are not terminated, and may hold
 * any byte. */
struct jit_lua_function {
    const char *name;  /* from where it is defined; size 0: not known */
    const char *chunk; /* as the program named it: "@FILE", "=NAME" or source text, maybe cut */
    uint32_t name_size, chunk_size;
    uint32_t first_line; /* where it is defined; 0: a main chunk, or stripped */
    uint32_t lines;      /* its last line - first_line; 0 and first_line 0: stripped */
    bool is_builtin;     /* of LuaJIT itself: `name` says which; or, without one, a C function */
    uint64_t bytecode;   /* private, like the rest: address of its first instruction */
    uint32_t instructions, width;
    const uint8_t *line_info;
    const uint8_t *code; /* the instructions, 4 bytes each; NULL: an older agent's, not written */
    bool swap;
};

struct jit_lua_frame {
    const struct jit_lua_function *function; /* NULL: not known; lives as long as the jitcode */
    uint32_t line;                           /* executing in it; 0: not known */
    uint64_t pc; /* address of the bytecode instruction executing, or of a builtin; 0: not known */
};

enum { JIT_LUA_FRAMES_MAX = 130 }; /* a trace has 250 slots, a frame at least two */

/* The Lua functions that a trace executes at an address: innermost first; the last is the one whose
 * frame the trace runs in, the others are inlined. What called that one, no trace knows. */
struct jit_lua_stack {
    uint32_t trace, root, parent, exit; /* numbers; root, parent, exit 0: a root trace */
    unsigned nr;
    /* The frames need not be those of this very address: before March 2021 LuaJIT kept no addresses
     * with snapshots, and the two that come into question differ. */
    bool guess;
    struct jit_lua_frame frames[JIT_LUA_FRAMES_MAX];
};
/* `address` lies inside the instruction in question (for a return address: one less). False: `f` is
 * no trace of the agent's, or nothing is known at the address. Any thread. */
bool jit_function_lua(const struct jit_function *f, uint64_t address, struct jit_lua_stack *ret);

#endif
