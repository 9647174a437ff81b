/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the text of a script says of the functions in it that their objects do not say: of which
 * class a method is. V8 calls a method by its own name only; the class stands around it in the
 * source, for all calls the same.
 *
 * The text is read as tokens: strings, templates, comments, regular expressions, brackets. That is
 * believed only where it proves itself: all brackets of the text close, each by its own kind, and
 * the function that is asked for begins at the very parenthesis that was seen, under the name that
 * stands before it. Anything else leaves functions their own names.
 */
#ifndef UNWIND_V8_SOURCE_H
#define UNWIND_V8_SOURCE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct v8_source;

/* NULL when memory is out. */
struct v8_source *v8_source_create(void);
void v8_source_free(struct v8_source *s);

/* The next characters of the text (as in v8_characters). false: memory is out. */
bool v8_source_take(struct v8_source *s, const uint8_t *bytes, size_t nr, bool wide);
/* The text is over: what was gathered is kept if it is proven. false: it is not, since not all
 * brackets close. */
bool v8_source_end(struct v8_source *s);

/* Appends the name, in UTF-8, of the function whose parameters (of a class without a constructor of
 * its own: whose class) begin at `start`, in characters, when `name` is what V8 calls it:
 * `Class.method`, `Class.get property`, `new Class`, `Class.[Symbol.iterator]`, and
 * `Class.[computed]` of a method whose name only its class's evaluation tells; of an object's
 * methods `[Symbol.iterator]`, which V8 itself calls by what the object is assigned to. false: it
 * is none of these. */
bool v8_source_name(const struct v8_source *s, int32_t start, const char *name, size_t size,
                    struct text *ret);

/* Can this be the text that a function is of? At `start` (as above), and nowhere behind the text's
 * `end`, one begins, which is called `name` (empty: it may have any) if the word before it says so.
 * What cannot be decided fits: a text whose brackets do not close, a `start` of -1. The function of
 * the whole text begins at 0 and ends where that does. */
bool v8_source_fits(const struct v8_source *s, int32_t start, int32_t end, const char *name,
                    size_t size);

#endif
