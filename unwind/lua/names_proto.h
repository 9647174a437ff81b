/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A prototype that was read whole: bytecode, constants, lines, names of variables. Its arrays are
 * apart in memory and were each read once. Strings are read when somebody wants them.
 */
#ifndef UNWIND_LUA_NAMES_PROTO_H
#define UNWIND_LUA_NAMES_PROTO_H

#include "unwind/lua/names_bytecode.h"
#include "unwind/lua/object.h"

enum {
    LUA_NAME_SIZE = 128,          /* bytes; longer names count as no names */
    LUA_FILE_SIZE = 4096,         /* bytes of a chunk's name that are used */
    LUA_CODE_COPY_MAX = 16 << 20, /* bytes; of larger functions only the head is read */
};

/* The questions whose answers tell a prototype and its file, and the answers: the same answers at
 * another time tell the same. */
enum { LUA_ASKED_MAX = 20 };
struct lua_proof {
    struct lua_asked {
        uint64_t address;
        uint32_t size, at;       /* `at`: place of the answer in `bytes` */
        struct memory_span same; /* times at which the memory log has the answer */
        uint8_t provenance;
        bool is_behind; /* as the asker's */
    } asked[LUA_ASKED_MAX];
    uint32_t nr;
    bool failed; /* a question had no answer, or was not noted */
    uint8_t *bytes;
    size_t size;
};
void lua_proof_free(struct lua_proof *p);
/* Returns whether the answers are the same at the memory's time. What may differ is asked again.
 * `weakest` is raised to the provenance of all. */
bool lua_proof_holds(struct lua_proof *p, const struct memory *m, uint8_t *weakest);

/* Reads objects that do not change while they live, and notes at which times the same reads have
 * the same answers. The bytes are asked for as those of objects that were alive: a closure on the
 * stack keeps its prototype, and that its inner ones and their strings. It refers to itself: do not
 * copy it. */
struct lua_asker {
    struct lua_reader reader; /* its provenance is the weakest of all reads */
    struct memory_span same;
    struct lua_proof *proof; /* where the questions are noted; NULL: nowhere */
    bool is_behind;          /* the bytes that are read now never come with a sample */
    bool as_asked;           /* the bytes are asked for as the reader does: they may change */
    const struct memory *real;
    struct memory memory;
    struct memory_layer layer;
};

/* Begin to ask `m`. `budget`: number of reads. */
void lua_asker_begin(struct lua_asker *a, const struct memory *m, const struct lua_layout *l,
                     uint32_t budget);

enum lua_part {
    LUA_PART_CODE,
    LUA_PART_K,
    LUA_PART_LINES,
    LUA_PART_ABSLINES,
    LUA_PART_LOCALS,
    LUA_PART_UPVALUES,
    LUA_PART_PROTOS,
    LUA_NR_PARTS,
};

struct lua_code {
    struct lua_proto proto;
    const struct lua_layout *layout;
    uint8_t *copy; /* all parts, one behind the other */
    size_t at[LUA_NR_PARTS];
    uint32_t nr[LUA_NR_PARTS]; /* elements; 0: there are none, they are not recorded, or
                                are remains */
};

/* Read a prototype. Parts that no compiler writes so count as not recorded, all of them: they are
 * the remains of a dead one. Returns 1; 0: there is none; -1: memory is out. The caller frees the
 * result with lua_code_free(). */
int lua_code_read(struct lua_asker *a, uint64_t address, struct lua_code *ret);
void lua_code_free(struct lua_code *c);
/* Returns the bytes of the copy. */
size_t lua_code_size(const struct lua_code *c);
/* Returns whether a new reading would give the same: 1, 0; -1: memory is out. */
int lua_code_check(struct lua_asker *a, const struct lua_code *c);
/* The same for its head alone: addresses and sizes of its parts, lines. */
bool lua_code_check_head(struct lua_reader *r, const struct lua_code *c);

/* Returns an instruction; LUA_OP_OTHER behind the end. */
struct lua_insn lua_code_insn(const struct lua_code *c, uint32_t index);
/* Returns the line of an instruction; 0: not known. UINT32_MAX: none was executed yet, which is the
 * line of the definition. */
uint32_t lua_code_line(const struct lua_code *c, uint32_t index);
/* Returns a hash of what the head says of a function apart from its code, and of no address: the
 * sizes of all parts, and its last line. */
uint64_t lua_code_place(const struct lua_code *c);
/* Returns the address of an inner prototype; 0: there is none. */
uint64_t lua_code_child(const struct lua_code *c, uint32_t index);

/* The following write a name to `buffer` (LUA_NAME_SIZE bytes), and return it; NULL: none, or no
 * text on one line. */

/* The local variable in a register at an instruction. `budget`: number of variables that may still
 * be looked at. */
const char *lua_code_local(struct lua_asker *a, const struct lua_code *c, uint32_t reg,
                           uint32_t index, uint32_t *budget, char *buffer);
/* The same, by its number in the list of variables. `first`, `end`: the instructions that have
 * it. */
const char *lua_code_variable(struct lua_asker *a, const struct lua_code *c, uint32_t number,
                              uint32_t *first, uint32_t *end, char *buffer);
const char *lua_code_upvalue(struct lua_asker *a, const struct lua_code *c, uint32_t index,
                             char *buffer);
/* A constant that is a string. */
const char *lua_code_string(struct lua_asker *a, const struct lua_code *c, uint32_t index,
                            char *buffer);

/* Returns a hash of the code, which is equal for a function that is loaded again. For functions
 * that may share their lines with others it includes their constants (one-liners) and the functions
 * within that begin on the same line. */
uint64_t lua_code_hash(struct lua_asker *a, const struct lua_code *c);

/* Write the chunk's name as the output shows it to `buffer` (LUA_FILE_SIZE bytes): a file's path
 * without its "@", a name without its "=", source text as in Lua's own messages ([string "..."]);
 * "?" for a stripped chunk. Returns false if it could not be read. */
bool lua_code_file(struct lua_asker *a, const struct lua_code *c, char *buffer);

#endif
