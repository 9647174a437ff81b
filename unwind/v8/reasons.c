/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables of reasons. See reasons.h. */
#include "unwind/v8/reasons.h"

#include <stddef.h>

/* The versions of the tables' columns: those of the layout from Node 16 on (9.4, 10.2, 11.3, 11.8,
 * 12.4, 12.9, 13.6, 14.1, 14.6). U: the version does not have the reason. */
enum { FIRST_COLUMN = 2, COLUMNS = 9, U = 0xff };

struct reason {
    uint8_t number[COLUMNS];
    const char *text;
};

/* clang-format off */
#define DISABLED_REASONS(X) \
    X("no reason", 0, 0, 0, 0, 0, 0, 0, 0, 0) \
    X("Function is too big to be optimized", 6, 6, 6, 6, 6, 6, 6, 1, 1) \
    X("Function contains a call with too many arguments", U, U, 7, 7, 7, 7, 7, 2, 2) \
    X("Native function literal", 8, 8, 9, 9, 9, 9, 9, 3, 3) \
    X("Optimization is always disabled", 11, 11, 12, 13, 13, 13, 13, 4, 4) \
    X("Maglev optimized graph construction failed", U, U, U, U, U, U, U, 5, 5) \
    X("Maglev code generation failed", U, U, U, U, U, U, U, 6, 6) \
    X("Turbofan optimized graph construction failed", U, U, U, U, U, U, U, 7, 7) \
    X("Turbofan code generation failed", U, U, U, U, U, U, U, 8, 8) \
    X("Bailed out due to dependency change", 1, 1, 1, 1, 1, 1, 1, 9, 9) \
    X("Maps became deprecated during optimization", U, U, 2, 2, 2, 2, 2, 10, 10) \
    X("Function is being debugged", 4, 4, 4, 4, 4, 4, 4, 11, 11) \
    X("The native context is detached", U, U, U, 12, 12, 12, 12, 12, 12) \
    X("Job got cancelled", U, U, U, U, U, U, U, 13, 13) \
    X("LiveEdit", 7, 7, 8, 8, 8, 8, 8, 14, 14) \
    X("Code generation failed", 2, 2, 3, 3, 3, 3, 3, U, U) \
    X("Optimized graph construction failed", 5, 5, 5, 5, 5, 5, 5, U, U) \
    X("Optimization disabled", 10, 10, 10, 10, 10, 10, 10, U, U) \
    X("A higher tier is already available", U, U, 11, 11, 11, 11, 11, U, U) \
    X("Cyclic object state detected by escape analysis", 3, 3, U, U, U, U, U, U, U) \
    X("Not enough virtual registers (regalloc)", 9, 9, U, U, U, U, U, U, U)

#define DEOPT_REASONS(X) \
    X("out of bounds", 35, 33, 36, 41, 43, 45, 52, 0, 0) \
    X("array buffer was detached or immutable", U, U, U, U, U, U, U, U, 1) \
    X("the array length changed", 53, 51, 56, 57, 59, 62, 1, 2, 2) \
    X("BigInt too big", 1, 1, 1, 1, 1, 1, 2, 3, 3) \
    X("const tracking let constness invalidated", U, U, U, U, 2, 2, 3, 4, 4) \
    X("failed to grow elements store", 3, 3, 3, 3, 4, 4, 4, 5, 5) \
    X("copy-on-write array's elements changed", 2, 2, 2, 2, 3, 3, 5, 6, 6) \
    X("%_DeoptimizeNow", 4, 4, 5, 6, 7, 7, 6, 7, 7) \
    X("deprecated map", 48, 46, 51, 53, 55, 58, 7, 8, 8) \
    X("division by zero", 5, 5, 6, 7, 8, 8, 8, 9, 9) \
    X("float16 is not supported as machine operation", U, U, U, U, 60, 64, 9, 10, 10) \
    X("length is greater than the maximum for fast elements array", U, U, U, U, U, 63, 10, 11, 11) \
    X("hole", 8, 6, 7, 8, 9, 9, 11, 12, 12) \
    X("hole or undefined", U, U, U, U, U, U, U, U, 13) \
    X("instance migration failed", 9, 7, 8, 9, 10, 10, 12, 13, 14) \
    X("Insufficient type feedback for array literal", U, U, U, 19, 20, 20, 13, 14, 15) \
    X("Insufficient type feedback for binary operation", 13, 11, 12, 13, 14, 14, 14, 15, 16) \
    X("Insufficient type feedback for call", 10, 8, 9, 10, 11, 11, 15, 16, 17) \
    X("Insufficient type feedback for compare operation", 14, 12, 13, 14, 15, 15, 16, 17, 18) \
    X("Insufficient type feedback for construct", 11, 9, 10, 11, 12, 12, 17, 18, 19) \
    X("Insufficient type feedback for for-in", 12, 10, 11, 12, 13, 13, 18, 19, 20) \
    X("Insufficient type feedback for generic global access", U, U, U, 16, 17, 17, 19, 20, 21) \
    X("Insufficient type feedback for generic keyed access", 16, 14, 15, 17, 18, 18, 20, 21, 22) \
    X("Insufficient type feedback for generic named access", 15, 13, 14, 15, 16, 16, 21, 22, 23) \
    X("Insufficient type feedback for instanceof", U, U, U, 21, 22, 22, 22, 23, 24) \
    X("Insufficient type feedback for object literal", U, U, U, 20, 21, 21, 23, 24, 25) \
    X("Insufficient type feedback for typeof", U, U, U, U, U, 23, 24, 25, 26) \
    X("Insufficient type feedback for unary operation", 17, 15, 16, 18, 19, 19, 25, 26, 27) \
    X("unexpected name in keyed access", U, U, U, U, U, U, 26, 27, 28) \
    X("lost precision", 18, 16, 17, 22, 23, 24, 27, 28, 29) \
    X("lost precision or NaN", 19, 17, 18, 23, 24, 25, 28, 29, 30) \
    X("minus zero", 20, 18, 19, 24, 25, 26, 29, 30, 31) \
    X("NaN", 21, 19, 20, 25, 26, 27, 30, 31, 32) \
    X("no cache", 22, 20, 21, 26, 27, 28, 31, 32, 33) \
    X("no initial element", 52, 50, 55, 56, 58, 61, 32, 33, 34) \
    X("not a BigInt", 23, 21, 22, 27, 28, 29, 33, 34, 35) \
    X("not a BigInt64", U, U, 23, 28, 29, 30, 34, 35, 36) \
    X("not a heap number", 24, 22, 24, 29, 30, 31, 35, 36, 37) \
    X("not a JavaScript object", 25, 23, 25, 30, 31, 32, 36, 37, 38) \
    X("not a JavaScript object, Null or Undefined", 26, 24, 26, 31, 32, 33, 37, 38, 39) \
    X("not a Number", 27, 25, 27, 32, 33, 34, 38, 39, 40) \
    X("not a Number or Boolean", 28, 26, 28, 33, 34, 35, 39, 40, 41) \
    X("not a Number or Undefined", U, U, U, U, U, U, U, U, 42) \
    X("not a Number or Oddball", 29, 27, 29, 34, 35, 36, 40, 41, 43) \
    X("not a Smi", 31, 29, 31, 36, 37, 38, 41, 42, 44) \
    X("not a String", 32, 30, 32, 37, 38, 39, 42, 43, 45) \
    X("not a sequential one-byte String", U, U, U, U, U, U, U, 44, 46) \
    X("not a String or a string wrapper", U, U, U, U, 39, 40, 43, 45, 47) \
    X("not a string wrapper", U, U, U, U, U, U, 44, 46, 48) \
    X("not a String or oddball", U, U, U, U, U, U, U, 47, 49) \
    X("not a Symbol", 33, 31, 33, 38, 40, 41, 45, 48, 50) \
    X("not AdditiveSafeInteger", U, U, U, U, U, U, 46, 49, 51) \
    X("not an array index", 30, 28, 30, 35, 36, 37, 47, 50, 52) \
    X("not a detectable receiver", U, U, U, U, U, 42, 48, 51, 53) \
    X("not int32", 34, 32, 34, 39, 41, 43, 49, 52, 54) \
    X("not unsigned int32", U, U, 35, 40, 42, 44, 50, 53, 55) \
    X("exit from OSR'd inner loop", U, U, U, 5, 6, 6, 51, 54, 56) \
    X("overflow", 36, 34, 37, 42, 44, 46, 53, 55, 57) \
    X("prepare for on stack replacement (OSR)", U, U, 4, 4, 5, 5, 54, 56, 58) \
    X("Smi", 37, 35, 38, 43, 45, 47, 55, 57, 59) \
    X("Storing to a constant field", U, U, 39, 44, 46, 48, 56, 58, 60) \
    X("Result string larger than String::kMaxLength", U, U, U, U, U, U, 57, 59, 61) \
    X("SuspendGenerator is in a dead branch", U, U, 40, 45, 47, 49, 58, 60, 62) \
    X("unexpected context extension", U, U, U, U, U, U, 59, 61, 63) \
    X("(unknown)", 40, 38, 43, 46, 48, 50, 60, 62, 64) \
    X("First use of catch block", U, U, U, U, U, 51, 61, 63, 65) \
    X("value mismatch", 41, 39, 44, 47, 49, 52, 62, 64, 66) \
    X("wrong call target", 42, 40, 45, 48, 50, 53, 63, 65, 67) \
    X("wrong call target constructor", U, U, U, U, U, U, 64, 66, 68) \
    X("wrong enum indices", 43, 41, 46, 49, 51, 54, 65, 67, 69) \
    X("wrong feedback cell", 44, 42, 47, 50, 52, 55, 66, 68, 70) \
    X("wrong instance type", 45, 43, 48, 51, 53, 56, 67, 69, 71) \
    X("wrong map", 46, 44, 49, 52, 54, 57, 68, 70, 72) \
    X("map changed during operation", U, U, U, U, U, U, 69, 71, 73) \
    X("wrong name", 50, 48, 53, 54, 56, 59, 70, 72, 74) \
    X("wrong value", 51, 49, 54, 55, 57, 60, 71, 73, 75) \
    X("array buffer was detached", 0, 0, 0, 0, 0, 0, 0, 1, U) \
    X("IC transitioned to monomorphic", 38, 36, 41, U, U, U, U, U, U) \
    X("IC transitioned to megamorphic", 39, 37, 42, U, U, U, U, U, U) \
    X("missing map", 47, 45, 50, U, U, U, U, U, U) \
    X("wrong handler", 49, 47, 52, U, U, U, U, U, U) \
    X("dynamic check maps failed", 6, U, U, U, U, U, U, U, U) \
    X("dynamic check maps failed", 7, U, U, U, U, U, U, U, U)
/* clang-format on */

#define ROW(text, ...) {{__VA_ARGS__}, text},
static const struct reason disabled_reasons[] = {DISABLED_REASONS(ROW)};
static const struct reason deopt_reasons[] = {DEOPT_REASONS(ROW)};
enum {
    NR_DISABLED = sizeof(disabled_reasons) / sizeof(*disabled_reasons),
    NR_DEOPT = sizeof(deopt_reasons) / sizeof(*deopt_reasons),
};

static uint8_t find(const struct v8_layout *l, const struct reason *reasons, size_t nr,
                    uint32_t number)
{
    int32_t column = l->column - FIRST_COLUMN;
    if (!l->verified || column < 0 || column >= COLUMNS || number == U)
        return V8_REASON_NONE;
    for (size_t i = 0; i < nr; i++) {
        if (reasons[i].number[column] == number)
            return (uint8_t)i;
    }
    return V8_REASON_NONE;
}

uint8_t v8_disabled_reason(const struct v8_layout *l, uint32_t number)
{
    return find(l, disabled_reasons, NR_DISABLED, number);
}

uint8_t v8_deopt_reason(const struct v8_layout *l, uint32_t number)
{
    return find(l, deopt_reasons, NR_DEOPT, number);
}

const char *v8_disabled_text(uint8_t reason)
{
    return reason < NR_DISABLED ? disabled_reasons[reason].text : NULL;
}

const char *v8_deopt_text(uint8_t reason)
{
    return reason < NR_DEOPT ? deopt_reasons[reason].text : NULL;
}
