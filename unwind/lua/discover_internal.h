/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of discovery. Private to unwind/lua and its tests. */
#ifndef UNWIND_LUA_DISCOVER_INTERNAL_H
#define UNWIND_LUA_DISCOVER_INTERNAL_H

#include "unwind/lua/discover.h"
#include "unwind/lua/flow.h"

/* ---- discover_dispatch.c: which function it is ----------------------------------------------- */

/* A place where the opcode of an instruction is cut out and jumped by. */
struct lua_dispatch {
    uint64_t at, jump;   /* the AND, the indirect jump */
    uint64_t table;      /* the jump table; 0: its address comes from elsewhere */
    uint8_t entry_size;  /* 8: addresses, 4: distances from the table */
    uint8_t mask;        /* 0x3f or 0x7f */
    uint16_t nr_opcodes; /* as a comparison before the jump has it; 0: there is none */
};

/* Find a dispatch whose AND is at `at`. `bytes`: those of `function`. */
bool lua_dispatch_at(struct lua_range function, const uint8_t *bytes, uint64_t at,
                     struct lua_dispatch *ret);

/* Returns the version that has this number of opcodes, cut out with this mask: 51 to 55; 0: none
 * has. */
unsigned lua_version_of(unsigned nr_opcodes, unsigned mask);

/* Visit each function of the file that has a dispatch, until `each` returns false. The dispatch is
 * the one in the function that fits best. */
typedef bool lua_each_candidate(void *context, struct lua_range function,
                                const struct lua_dispatch *best);
void lua_each_dispatching(const struct runtime_image *image, lua_each_candidate *each,
                          void *context);

/* Returns the number of entries in a jump table: those that lead into the function. */
unsigned lua_table_length(const struct runtime_image *image, const struct flow_code *code,
                          uint64_t table, unsigned entry_size);

/* ---- discover_places.c: where it keeps what -------------------------------------------------- */

/* What is seen in the code of one function. */
struct lua_evidence {
    struct lua_dispatch dispatch;
    uint64_t fetch;      /* the first instruction fetch */
    unsigned nr_fetches; /* from registers and slots */
    unsigned nr_memory;  /* fetches whose pc is in a field of a structure (ci->u.l.savedpc) */
    int32_t memory_at;   /* that field's offset */
    unsigned nr_calls;   /* calls in the function */
    uint64_t told_by;    /* the instruction that tells which release's fields it has; 0: none */
    const char *told;    /* what it shows; NULL: all releases of the version have the same */
    int32_t hookmask;    /* offset of lua_State.hookmask as it is used; 0: not seen */
    uint64_t hookmask_at;
    uint64_t constants_at;   /* the load of Proto.k through CI and closure; 0: not seen */
    struct flow_trail trail; /* as it is at the first dispatch, or at its end */
};

struct lua_place lua_place_in_register(unsigned reg);
struct lua_place lua_place_in_slot(int32_t offset);
uint8_t lua_dwarf_number(unsigned reg);

/* Find the pc's places by the instruction fetches; sets fetch, nr_fetches, nr_memory. `fetches`:
 * one for each instruction of the code, false; those that fetch become true. */
void lua_find_pc(const struct flow_code *code, const struct flow_frame *frame, bool *fetches,
                 struct lua_layout *ret, struct lua_evidence *ev);
/* Get the place from which the call, an index into the code, takes the argument that is passed in a
 * register. */
bool lua_argument_place(const struct flow_code *code, const struct flow_frame *frame, size_t call,
                        unsigned reg, struct lua_place *ret);
/* Find L's places; sets `calls` and `body` of the layout, too. `frame`: of the function's body;
 * `entry`: the way from the entry up to the first call. */
void lua_find_state(const struct flow_code *code, const struct flow_frame *frame,
                    const struct flow_trail *entry, struct lua_layout *ret,
                    struct lua_evidence *ev);

/* ---- discover_fetch.c: what holds around an instruction fetch ---------------------------------
 */

/* Add the fetch, an index into the code, to the layout's fetches, if there is room. */
void lua_add_fetch(const struct flow_code *code, size_t fetch, struct lua_layout *ret);

/* ---- discover_collector.c: the garbage collector ----------------------------------------------
 */

/* Set the layout's collector. Its fields are known. */
void lua_find_collector(const struct runtime_image *image, const struct flow_code *code,
                        struct lua_layout *ret);

/* ---- discover_sites.c: what holds at each call ------------------------------------------------
 */

/* Set the layout's sites. Its other places and its fields are known. `entry`: the way from the
 * entry up to the first dispatch. */
void lua_find_sites(const struct flow_code *code, const struct flow_frame *frame,
                    const struct flow_trail *entry, const bool *fetches, struct lua_layout *ret);

/* ---- discover_fields.c: which release -------------------------------------------------------- */

/* Set the fields of the layout's version, as the code has them. Returns -1 if a value is not known,
 * or contradicts the version. */
int lua_find_fields(const struct runtime_image *image, const struct flow_code *code,
                    struct lua_layout *ret, struct lua_evidence *ev, struct error *err);
/* Get the next read-only segment, from number *i (0 at first) on; *i is moved behind it. Returns
 * false if there is none. */
bool lua_next_constants(const struct runtime_image *image, size_t *i, const char **start,
                        const char **end);
/* Get the release from the text in Lua's read-only data. Returns false if there is none of the
 * version; 0: any. */
bool lua_find_release(const struct runtime_image *image, unsigned version, char ret[static 16]);

/* ---- discover.c ------------------------------------------------------------------------------ */

/* As lua_discover(), with what tells it. `ev` is large: not for a small stack. */
int lua_discover_with(const struct runtime_image *image, struct lua_layout *ret,
                      struct lua_evidence *ev, struct error *err);

#endif
