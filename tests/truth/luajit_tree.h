/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle of the LuaJIT walking tests: programs in which a function F.fA_B_C is called by F.fA_B
 * only, and so on up to F.froot and the main chunk, so that the innermost of them on a stack tells
 * all true callers. Functions are told by the line they are defined at in the program's text, and
 * a caller must stand at a line that names the function it has called.
 */
#ifndef TESTS_TRUTH_LUAJIT_TREE_H
#define TESTS_TRUTH_LUAJIT_TREE_H

#include "unwind/luajit/object.h"
#include "unwind/luajit/walk.h"

#include <stdbool.h>
#include <stdint.h>

enum { TREE_FRAMES = 512 };

enum verdict { NOT_IN_LUA, EXACT, INCOMPLETE, WRONG, WRONG_MARKED, NR_VERDICTS };

/* A walker's frame, as the test sees it. */
struct seen {
    bool lua, unknown, has_line, inlined, c, builtin;
    int first, line; /* of the definition; executing, 0: unknown */
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
    char why[256];    /* of a verdict that is not EXACT */
    bool guess;       /* a frame is marked as one */
    bool no_position; /* a function of the tree has no line */
};

/* Read the programs' text; exits when they are not there. */
void tree_read_programs(const char *folder);
/* The namer to walk with; tree_begin() before each walk. */
struct luajit_namer tree_namer(void);
void tree_begin(void);
/* The verdict on a stack that was walked with the namer over this memory. */
enum verdict tree_judge(struct judge *j, const struct memory *m, const struct luajit_layout *l,
                        const struct unwind_stack *stack);
void tree_print(const struct judge *j, const struct unwind_stack *stack);
const char *tree_verdict(enum verdict v);

#endif
