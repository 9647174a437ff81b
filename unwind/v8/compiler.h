/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What V8's compilers have done, as its own objects tell: which code Maglev and TurboFan made of
 * which function, which of it was deoptimized, by which of its exits and why, and which functions
 * V8 does not optimize. V8 is only read. The recorder reads it now and then, and writes what is new
 * (VMENTRY_V8_COMPILER); `ljperf traces` prints it.
 *
 * V8 counts no deoptimizations, and does not keep their reasons. What it keeps: a flag of each Code
 * object that was deoptimized, as long as the object lives; the number of each optimization (of an
 * isolate, counted up); of each exit of code the reason and the place, in its relocation
 * information. So deoptimizations are a lower bound, and their reason is known if a sample was
 * taken while the code called the deoptimizer: the return address tells the exit. A moment later
 * only the place is known where the interpreter goes on, which may be before the exit's: the
 * interpreter's frame has been made in the stead of the code's.
 *
 * Sources: the flags and fields were found by comparing live objects before and after a
 * deoptimization, of Node 14 to 26; they stand in the layout's table. The form of relocation
 * information is V8's (reloc-info.h): records of a byte with a 2-bit tag and a 6-bit distance, or
 * of a mode, a distance and data, written backwards from the end of a ByteArray.
 */
#ifndef UNWIND_V8_COMPILER_H
#define UNWIND_V8_COMPILER_H

#include "unwind/v8/object.h"
#include "unwind/v8/reasons.h"

/* Bytes of bytecode above which V8 does not optimize a function: the default of its option
 * --max-optimized-bytecode-size, the same in Node 12 to 26. */
enum { V8_OPTIMIZED_BYTECODE_MAX = 61440 };

enum v8_fact_kind {
    V8_FACT_CODE = 1, /* optimized code of a function */
    V8_FACT_EXIT,     /* a sample was taken while optimized code of the function called the
                         deoptimizer */
    V8_FACT_FUNCTION, /* a function that ran */
    V8_FACT_RESUMED,  /* a sample was taken when optimized code had just been left in the function,
                         which may have been inlined: the interpreter is about to resume it */
};

/* Bits of v8_fact.flags. */
enum {
    V8_FACT_MARKED = 1,   /* CODE: it was deoptimized */
    V8_FACT_LAZY = 2,     /* EXIT: the code was left because it had been marked before */
    V8_FACT_PLACED = 4,   /* EXIT: `other` and `offset` are known */
    V8_FACT_CAN_TELL = 8, /* FUNCTION: this version's `reason` is known, if there is one.
                             CODE: this version's mark is known */
};

/* One fact. Unused fields are 0. A recording holds it as it stands here. */
struct v8_fact {
    uint64_t sfi;   /* the function: a SharedFunctionInfo, tagged */
    uint64_t other; /* EXIT: the function of the place, perhaps inlined; tagged */
    uint64_t time;  /* ns: when it was seen; EXIT: of the sample */
    int32_t id;     /* CODE, EXIT: number of the optimization */
    int32_t offset; /* EXIT: place in the source of `other`'s script. RESUMED: in that of `sfi`'s;
                       -1: unknown. FUNCTION: bytes of bytecode */
    uint8_t kind;   /* enum v8_fact_kind */
    uint8_t code;   /* CODE, EXIT: enum v8_code_kind */
    uint8_t reason; /* EXIT: v8_deopt_text(). FUNCTION: v8_disabled_text(). V8_REASON_NONE: none */
    uint8_t flags;
    /* v8_sfi_identity() of `sfi` and of `other`: other functions come to the same addresses. 0: not
     * known. */
    uint32_t identity, other_identity;
    uint32_t unused;
};
_Static_assert(sizeof(struct v8_fact) == 48, "a recording holds it");

/* Where code was left for the deoptimizer. */
struct v8_exit {
    uint64_t sfi;   /* tagged: the function of the place; 0: not known */
    int32_t offset; /* in the source */
    uint8_t reason; /* V8_REASON_NONE: not known */
};
/* Finds the exit of optimized code whose call of the deoptimizer returns to `pc`. Returns false if
 * the code has no such exit, or this version's relocation information is not known. */
bool v8_exit_find(struct v8_reader *r, const struct v8_code *c, uint64_t pc, struct v8_exit *ret);

/* Reads whether code was deoptimized. Returns 1: it was, 0: it was not, -1: not known. */
int v8_code_marked(struct v8_reader *r, const struct v8_code *c);

/* The compilers of one process, over time. */
struct v8_compiler;

/* Returns NULL when memory is out. `layout` must outlive it. */
struct v8_compiler *v8_compiler_create(const struct v8_layout *layout);
void v8_compiler_free(struct v8_compiler *c);

/* Note a function that a sample ran; the reader is left as it was. Does nothing when memory is out
 * or too many are known. */
void v8_compiler_note_function(struct v8_compiler *c, struct v8_reader *r,
                               const struct v8_sfi *sfi);

/* Note optimized code that a sample ran at `time` (ns); the reader is left as it was. `exit`: the
 * code has called the deoptimizer, and this is the return address; 0: it has not. `lazy`: the call
 * was that of code which must not be used any more. Returns the function of the exit's place; 0:
 * none, or it is not known. Does nothing when memory is out. */
uint64_t v8_compiler_note_code(struct v8_compiler *c, struct v8_reader *r,
                               const struct v8_code *code, uint64_t exit, bool lazy, uint64_t time);

/* Note that optimized code has just been left, and that the interpreter goes on at this place of
 * the function's source (-1: unknown). */
void v8_compiler_note_resumed(struct v8_compiler *c, struct v8_reader *r, const struct v8_sfi *sfi,
                              int32_t offset, uint64_t time);

/* Read some of the noted objects again: those that have waited longest, at most V8_COMPILER_LOOKS
 * of code and of functions. Functions that were read less than a second ago are left out, unless
 * `all`. `time`: now, ns. */
enum { V8_COMPILER_LOOKS = 256 };
void v8_compiler_read(struct v8_compiler *c, const struct memory *m, uint64_t time, bool all);
/* Returns how many calls read all of them. */
size_t v8_compiler_rounds(const struct v8_compiler *c);

/* Returns what is new since the last call of v8_compiler_told(). */
const struct v8_fact *v8_compiler_news(const struct v8_compiler *c, size_t *nr);
void v8_compiler_told(struct v8_compiler *c);
/* Everything that is known of living objects is new again: another file begins. */
void v8_compiler_tell_again(struct v8_compiler *c);

#endif
