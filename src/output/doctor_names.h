/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * JavaScript and WebAssembly functions that have a name from more than one source: the process's
 * memory, a jitdump, a perf map. The names must agree; doctor -i counts the frames where they do
 * not.
 */
#ifndef OUTPUT_DOCTOR_NAMES_H
#define OUTPUT_DOCTOR_NAMES_H

#include "base/hash_table.h"
#include "base/text.h"
#include "base/vec.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stdint.h>

/* The names that the sources give to some frames. All these frames have the same names. */
struct told_names {
    uint32_t function;                     /* id from memory (managed.h); 0: memory has no name */
    const struct jit_function *dump, *map; /* NULL: the file has no name */
    bool exact;                            /* the name from memory is not marked as doubtful */
    uint64_t frames;
};

/* Frame counts by names. All zeros: empty. */
struct name_tally {
    VEC(struct told_names) names;
    struct hash_table table; /* of indexes in `names` */
};
void name_tally_free(struct name_tally *t);

/* Count a sample's frames. Returns false if memory is out. */
bool name_tally_take(struct name_tally *t, const struct replay_sample *s);
bool name_tally_add(struct name_tally *to, const struct name_tally *from);

/* Print how many frames agree and how many do not, with the most frequent differences. Print
 * nothing if no jitdump or perf map names a function of these languages. Returns false if memory is
 * out. */
bool name_tally_print(const struct name_tally *t, const struct managed_names *managed,
                      struct text *out);

/* Whether a name as V8 writes it into a jitdump or perf map (`JS:*method /file.js:12:7`) can belong
 * to `g`. The place in the source must be the same. Only the last part of the function's name must
 * be the same, since memory has class names, too. */
bool v8_name_is_of(const char *name, const struct managed_function *g);
/* Returns the function's part of such a name, without its kind and tier. NULL: the name is not of
 * this form, or was cut. */
const char *v8_name_function(const char *name);

#endif
