/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A GCproto read whole and checked: bytecode, constants, lines, variable names. Whatever it says of
 * itself is hostile until it fits its own block: everything but strings and child prototypes
 * stands in the one block [proto, proto + sizept).
 *
 * Facts: GCproto, line, variable and upvalue information of 2.0.5 to August 2026; only offsets
 * differ between builds (layout.h), the numbering of opcodes in three ways (names_bytecode.h).
 */
#ifndef UNWIND_LUAJIT_NAMES_PROTO_H
#define UNWIND_LUAJIT_NAMES_PROTO_H

#include "unwind/luajit/layout.h"
#include "unwind/luajit/names_bytecode.h"
#include "unwind/memory.h"

enum {
    PROTO_MAX = 1 << 22,   /* larger ones (bytes) are known by their header only */
    PROTO_NAME_MAX = 128,  /* longer names (bytes) are no names */
    PROTO_FILE_MAX = 4096, /* of a chunk's name, the bytes that are used */
};

/* What does not change in a GCproto's header as long as it lives: with the head of the chunk's
 * name, its fingerprint. */
struct luajit_proto_head {
    uint64_t k, chunkname, lineinfo, uvinfo, varinfo;
    uint32_t sizebc, sizekgc, sizekn, sizept;
    int32_t firstline;              /* -1: a Lua function that is part of LuaJIT; main chunks: 0 */
    int32_t numline;                /* 0 with firstline 0: stripped */
    uint32_t chunk_hash, chunk_len; /* of the chunk's name: its string's hash and length */
    uint8_t numparams, sizeuv;
};

struct luajit_proto {
    uint64_t address;
    const struct luajit_layout *layout;
    struct luajit_proto_head head;
    uint8_t *copy; /* the block, head.sizept bytes; NULL: not recorded, or too large */
    bool sound;    /* the block is what the bytecode compiler makes */
    bool another;  /* one of the same header, but other code or names, stood there shortly before or
                      after */
    enum provenance provenance; /* of all but the lines, at the time of reading: code that is made
                                   anew may have the same header at the same place. `image` at best
                                   when it is not sound or could not be had */
};

/* Read and check a header. `provenance` as memory_read. */
bool luajit_proto_head_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                            struct luajit_proto_head *ret, enum provenance *provenance);
bool luajit_proto_head_equal(const struct luajit_proto_head *a, const struct luajit_proto_head *b);

/* Read it whole; with the header only when the rest is not recorded. false: this is no prototype.
 * To be freed. */
bool luajit_proto_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                       struct luajit_proto *ret);
void luajit_proto_free(struct luajit_proto *p);
/* Its header was read anew and is equal, and so is the block: how far that proves that this is what
 * stood there at the memory's time, as `provenance` and `another` have it. `head`, `block`: what
 * these readings said. */
void luajit_proto_prove(struct luajit_proto *p, const struct memory *m, enum provenance head,
                        enum provenance block);

/* Would reading these head.sizept bytes anew give the same copy? The header's changing parts do not
 * count. false without a copy. */
bool luajit_proto_block_equal(const struct luajit_proto *p, const uint8_t *block);

/* One instruction, opcode in the numbering of names_bytecode.h (BC_NONE behind the end, or without
 * a copy). */
struct bc luajit_proto_bc(const struct luajit_proto *p, uint32_t position);

/* The line of a bytecode position (0: the function's header; sizebc: behind its end); 0: not
 * known. What came with the sample says it, else the block, or memory when there is none because it
 * is too large. `provenance` as memory_read. */
uint32_t luajit_proto_line(const struct luajit_proto *p, const struct memory *m, uint32_t position,
                           enum provenance *provenance);

/* Name of the local variable in a slot at a position, or NULL. `buffer` holds PROTO_NAME_MAX.
 * `budget`: the variables that may still be looked at, which bounds what many calls cost. */
const char *luajit_proto_local(const struct luajit_proto *p, uint32_t slot, uint32_t position,
                               char *buffer, uint32_t *budget);
/* Name of an upvalue, likewise. */
const char *luajit_proto_upvalue(const struct luajit_proto *p, uint32_t index, char *buffer);
/* Address of an object constant (a string, a child prototype); 0: there is none. */
uint64_t luajit_proto_constant(const struct luajit_proto *p, uint32_t index);
/* Text of a string constant; NULL: it is none, or longer than a name. */
const char *luajit_proto_string(const struct luajit_proto *p, const struct memory *m,
                                uint32_t index, char *buffer);

/* A hash of the code that no patch of the JIT compiler changes; of functions that may share their
 * lines with others also of their constants (one-liners) and of the functions within that begin on
 * the same line. Equal for a function that is loaded again. */
uint64_t luajit_proto_hash(const struct luajit_proto *p, const struct memory *m);

/* A string object's text, at most `cap` - 1 bytes of it, NUL behind; its real length. false: no
 * string there. */
bool luajit_string_read(const struct memory *m, const struct luajit_layout *l, uint64_t address,
                        char *buffer, size_t cap, uint32_t *length, enum provenance *provenance);

/* The chunk's name as output has it: a file's path without its "@", a name without its "=", source
 * text and built-in functions as LuaJIT's own messages show them ([string "..."],
 * [builtin:name]). `buffer` holds PROTO_FILE_MAX. false: it could not be read. `doubtful` becomes
 * true where readings near the memory's time do not agree, or none is a whole name. */
bool luajit_proto_file(const struct luajit_proto *p, const struct memory *m, char *buffer,
                       enum provenance *provenance, bool *doubtful);

#endif
