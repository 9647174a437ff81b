/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of JavaScript and WebAssembly that more than one source names: the process's memory, a
 * jitdump, a perf map. They must agree; doctor -i counts where they do not.
 */
#ifndef OUTPUT_DOCTOR_NAMES_H
#define OUTPUT_DOCTOR_NAMES_H

#include "base/text.h"
#include "base/vec.h"
#include "replay/replay.h"

#include <stdbool.h>
#include <stdint.h>

/* What the sources say of some frames, which is the same for all of them. */
struct told_names {
    uint32_t function;                     /* by memory (managed.h); 0: it does not say */
    const struct jit_function *dump, *map; /* NULL: they say nothing */
    bool exact;                            /* memory's name is not marked */
    uint64_t frames;
};

/* By what was said; a table with open addressing. All zero: empty. */
struct name_tally {
    struct told_names *slots;
    size_t nr, cap; /* cap: 0 or a power of two */
};
void name_tally_free(struct name_tally *t);

/* Count a sample's frames. false: memory is out. */
bool name_tally_take(struct name_tally *t, const struct replay_sample *s);
bool name_tally_add(struct name_tally *to, const struct name_tally *from);

/* Say how many agree and how many do not, with the most frequent differences. Nothing where no
 * jitdump or perf map names a function of these languages. false: memory is out. */
bool name_tally_print(const struct name_tally *t, const struct managed_names *managed,
                      struct text *out);

/* Whether a name as V8 writes it into a jitdump or perf map (`JS:*method /file.js:12:7`) can be of
 * `g`: the place in the source has to be the same, and of the name the last part, since memory
 * tells classes, too. */
bool v8_name_is_of(const char *name, const struct managed_function *g);
/* The function in such a name, without its kind and tier; NULL: it is none's, or was cut. */
const char *v8_name_function(const char *name);

#endif
