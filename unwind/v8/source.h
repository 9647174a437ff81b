/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Facts about functions that only the text of their script has: the class of a method. V8 calls a
 * method by its own name only. The class surrounds the method in the source, so it is the same for
 * all calls.
 *
 * The text is read as tokens: strings, templates, comments, regular expressions, brackets. The
 * result is used only when it proves itself: each bracket of the text is closed by its own kind,
 * and the function in question begins at the very parenthesis that was seen, under the name that
 * stands before it. Otherwise functions keep their own names.
 */
#ifndef UNWIND_V8_SOURCE_H
#define UNWIND_V8_SOURCE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct v8_source;

/* Returns NULL when memory is out. */
struct v8_source *v8_source_create(void);
void v8_source_free(struct v8_source *s);

/* Reads the next characters of the text (as in v8_characters). false: memory is out. */
bool v8_source_take(struct v8_source *s, const uint8_t *bytes, size_t nr, bool wide);
/* Ends the text, and keeps the result if it is proven. false: it is not, since some brackets do not
 * close. */
bool v8_source_end(struct v8_source *s);

/* Appends the qualified name, in UTF-8, of the function whose parameters begin at `start`, in
 * characters (for a class without a constructor of its own: the class begins at `start`). `name` is
 * what V8 calls the function. The result is `Class.method`, `Class.get property`, `new Class`,
 * `Class.[Symbol.iterator]`, or `Class.[computed]` for a method whose name is known only when its
 * class is evaluated. For a method of an object it is `[Symbol.iterator]`: V8 names such a method
 * after what the object is assigned to. false: the function is none of these. */
bool v8_source_name(const struct v8_source *s, int32_t start, const char *name, size_t size,
                    struct text *ret);

/* Can this be the text that contains a function? It can if a function begins at `start` (as above)
 * and ends within the text, and if the word before `start` does not contradict `name` (empty: any
 * name). Returns true when that cannot be decided: the brackets of the text do not close, or
 * `start` is -1. The function of the whole text begins at 0 and ends at the end of the text. */
bool v8_source_fits(const struct v8_source *s, int32_t start, int32_t end, const char *name,
                    size_t size);

#endif
