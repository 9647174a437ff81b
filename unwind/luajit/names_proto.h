/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A GCproto that was read whole and checked: bytecode, constants, lines, variable names. All its
 * fields count as hostile until they fit into its own block: everything but strings and child
 * prototypes stands in the one block [proto, proto + sizept).
 *
 * Facts: the form of GCproto and of its line, variable and upvalue information is that of 2.0.5 to
 * August 2026. Between builds only offsets (layout.h) and the numbering of opcodes (one of three,
 * names_bytecode.h) differ.
 */
#ifndef UNWIND_LUAJIT_NAMES_PROTO_H
#define UNWIND_LUAJIT_NAMES_PROTO_H

#include "unwind/luajit/layout.h"
#include "unwind/luajit/names_bytecode.h"
#include "unwind/memory.h"

enum {
    PROTO_MAX = 1 << 22,   /* bytes; of larger prototypes only the header is read */
    PROTO_NAME_MAX = 128,  /* bytes; longer names count as no names */
    PROTO_FILE_MAX = 4096, /* bytes of a chunk's name that are used */
};

/* The fields of a GCproto's header that do not change while the prototype lives. Together with the
 * head of the chunk's name they are its fingerprint. */
struct luajit_proto_head {
    uint64_t k, chunkname, lineinfo, uvinfo, varinfo;
    uint32_t sizebc, sizekgc, sizekn, sizept;
    int32_t firstline;              /* -1: a Lua function that is part of LuaJIT; main chunks: 0 */
    int32_t numline;                /* 0 with firstline 0: stripped */
    uint32_t chunk_hash, chunk_len; /* hash and length of the chunk name's string */
    uint8_t numparams, sizeuv;
};

struct luajit_proto {
    uint64_t address;
    const struct luajit_layout *layout;
    struct luajit_proto_head head;
    uint8_t *copy; /* the block, head.sizept bytes; NULL: not recorded, or too large */
    bool sound;    /* the block is valid output of the bytecode compiler */
    bool another;  /* another prototype with the same header, but with other code or names, was at
                      this address shortly before or after */
    enum provenance provenance; /* provenance, at the time of reading, of everything but the lines:
                                   new code may have the same header at the same address. At best
                                   `image` when the block is not sound or was not read */
};

/* Read and check a header. `provenance` as for memory_read. */
bool luajit_proto_head_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                            struct luajit_proto_head *ret, enum provenance *provenance);
bool luajit_proto_head_equal(const struct luajit_proto_head *a, const struct luajit_proto_head *b);

/* Read a prototype whole; only its header if the rest is not recorded. false: there is no
 * prototype. The caller frees the result with luajit_proto_free(). */
bool luajit_proto_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                       struct luajit_proto *ret);
void luajit_proto_free(struct luajit_proto *p);
/* Set `provenance` and `another` after the header and the block were read again and are equal: how
 * well this proves that the same prototype was there at the memory's time. `head`, `block`:
 * provenance of the two readings. `same` is narrowed to the times that have the same answer. */
void luajit_proto_prove(struct luajit_proto *p, const struct memory *m, enum provenance head,
                        enum provenance block, struct memory_span *same);

/* Is this newly read block (head.sizept bytes) equal to the copy? The changing fields of the header
 * do not count. false without a copy. */
bool luajit_proto_block_equal(const struct luajit_proto *p, const uint8_t *block);

/* One instruction, with its opcode in the numbering of names_bytecode.h (BC_NONE behind the end, or
 * without a copy). */
struct bc luajit_proto_bc(const struct luajit_proto *p, uint32_t position);

/* The line of a bytecode position (0: the function's header; sizebc: behind its end). Returns 0 if
 * it is not known. The line is read from memory that came with the sample, else from the block, or
 * from other memory if the block was too large to be read. `provenance` as for memory_read. */
uint32_t luajit_proto_line(const struct luajit_proto *p, const struct memory *m, uint32_t position,
                           enum provenance *provenance);

/* The name of the local variable in a slot at a position, or NULL. `buffer` holds PROTO_NAME_MAX
 * bytes. `budget`: number of variables that may still be looked at, which bounds the cost of many
 * calls. */
const char *luajit_proto_local(const struct luajit_proto *p, uint32_t slot, uint32_t position,
                               char *buffer, uint32_t *budget);
/* The name of an upvalue, or NULL. `buffer` as for luajit_proto_local(). */
const char *luajit_proto_upvalue(const struct luajit_proto *p, uint32_t index, char *buffer);
/* The address of an object constant (a string, a child prototype); 0: there is none. */
uint64_t luajit_proto_constant(const struct luajit_proto *p, uint32_t index);
/* The text of a string constant; NULL: no string, or longer than a name. */
const char *luajit_proto_string(const struct luajit_proto *p, const struct memory *m,
                                uint32_t index, char *buffer);

/* A hash of the code that does not depend on patches of the JIT compiler. Equal for a function that
 * is loaded again. It includes the constants of stripped functions and of one-liners, which may
 * share their place with other functions, and of the latter the functions within that begin on the
 * same line. */
uint64_t luajit_proto_hash(const struct luajit_proto *p, const struct memory *m);

/* A hash of what the header says of a function apart from its code, and of no address: the sizes of
 * all parts, and its lines. Functions of one chunk mostly have different ones; two one-liners, or a
 * function of code that was loaded anew, may have the same. */
uint64_t luajit_proto_place(const struct luajit_proto *p);

/* If the header and the chunk's whole name came with the sample: a hash of this name, not 0. They
 * prove where the function is defined, whatever else was read. Else 0. */
uint64_t luajit_proto_sampled_chunk(const struct luajit_proto *p, const struct memory *m);

/* Read a string object's text: at most `cap` - 1 bytes, and a NUL behind them. `length`: the real
 * length. false: there is no string. */
bool luajit_string_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                        char *buffer, size_t cap, uint32_t *length, enum provenance *provenance);

/* The chunk's name as the output shows it: a file's path without its "@", a name without its "=",
 * source text and built-in functions as in LuaJIT's own messages ([string "..."], [builtin:name]).
 * `buffer` holds PROTO_FILE_MAX bytes. false: it could not be read. `doubtful` becomes true if
 * readings near the memory's time do not agree, or if none has a whole name. `same` is narrowed to
 * the times that have the same answer. */
bool luajit_proto_file(const struct luajit_proto *p, const struct memory *m, char *buffer,
                       enum provenance *provenance, struct memory_span *same, bool *doubtful);

#endif
