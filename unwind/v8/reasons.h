/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Why V8 does not optimize a function, and why it leaves optimized code: the reasons' numbers in
 * each version, and V8's own words. Both were read from the tables of strings in the binaries of
 * Node 16 to 26; that a number means its words was checked with the output of the same binaries'
 * --trace-opt and --trace-deopt.
 */
#ifndef UNWIND_V8_REASONS_H
#define UNWIND_V8_REASONS_H

#include "unwind/v8/layout.h"

/* No reason is known. */
enum { V8_REASON_NONE = 0xff };

/* Return the number by which recordings know a reason, in all versions: an index of our tables, to
 * which reasons are only appended. V8_REASON_NONE: it is not known, as nobody has read the tables
 * of this version. `number`: V8's own, of this version. */
uint8_t v8_disabled_reason(const struct v8_layout *l, uint32_t number);
uint8_t v8_deopt_reason(const struct v8_layout *l, uint32_t number);

/* Return V8's words for such an index; NULL: there is no such reason. */
const char *v8_disabled_text(uint8_t reason);
const char *v8_deopt_text(uint8_t reason);

#endif
