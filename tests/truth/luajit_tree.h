/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle of the tests that walk LuaJIT: programs in which F.fA_B is the only caller of
 * F.fA_B_C, and so on up to F.froot and the main chunk. So the innermost of these functions on a
 * stack determines all true callers. A function is identified by the line of its definition in the
 * program's text, and a caller must be at a line that names the function it called.
 */
#ifndef TESTS_TRUTH_LUAJIT_TREE_H
#define TESTS_TRUTH_LUAJIT_TREE_H

#include "unwind/luajit/object.h"
#include "unwind/luajit/walk.h"

#include <stdbool.h>
#include <stdint.h>

enum { TREE_FRAMES = 512 };

enum verdict { NOT_IN_LUA, EXACT, INCOMPLETE, WRONG, WRONG_MARKED, NR_VERDICTS };

/* One frame of the walker, as the test sees it. */
struct seen {
    bool lua, unknown, has_line, inlined, c, builtin;
    int first, line; /* line of the definition; executing line, 0: unknown */
    char chunk[192];
    uint8_t provenance;
    uint16_t trace;
    uint64_t pc;
};

struct program;
struct judge {
    const struct program *program;
    struct seen seen[TREE_FRAMES];
    int nr;
    char why[256];    /* reason of a verdict other than EXACT */
    bool guess;       /* a frame is marked as a guess */
    bool no_position; /* a function of the tree has no line */
};

/* Reads the programs' text. Exits when the files are missing. */
void tree_read_programs(const char *folder);
/* The namer for the walk. Call tree_begin() before each walk. */
struct luajit_namer tree_namer(void);
void tree_begin(void);
/* Returns the verdict on a stack that was walked with the namer over this memory. */
enum verdict tree_judge(struct judge *j, const struct memory *m, const struct luajit_layout *l,
                        const struct unwind_stack *stack);
void tree_print(const struct judge *j, const struct unwind_stack *stack);
const char *tree_verdict(enum verdict v);

#endif
