/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the files of annotate share. */
#ifndef OUTPUT_ANNOTATE_INTERNAL_H
#define OUTPUT_ANNOTATE_INTERNAL_H

#include "output/annotate.h"

/* The weight of samples at a place. */
struct weight {
    uint64_t self, total; /* of code there; of code there and of what it called from there */
};

/* A source line of the function, and an instruction of it. */
struct weighed_line {
    const char *file; /* interned; NULL: not known */
    uint32_t line;
    struct weight weight;
    uint64_t seen; /* private: the last path that was counted */
};
struct weighed_address {
    uint64_t address; /* as replay_name() gives it */
    uint32_t dso;
    struct weight weight;
};

struct annotated {
    const struct annotate_options *options;
    const struct profile *profile;
    const struct replay *replay;
    const struct profile_function *function;
    const struct traces *traces; /* why LuaJIT did not compile it; NULL: not asked */
    struct weight weight, all;   /* weight of the function; weight of all samples (self) */
    uint64_t samples;            /* number of the function's own samples */
    VEC(struct weighed_line) lines;
    VEC(struct weighed_address) addresses; /* only of native code */
    uint64_t last;                         /* time of the last sample */
    uint32_t *of_line, *of_location; /* per profile line, location: index + 1 above; 0: none yet */
    FILE *out;
};

/* Print the source with its weights, or the line numbers alone if there is no file. */
int annotate_source(const struct annotated *a, struct error *err);
/* Print native code with its weights. */
int annotate_code(const struct annotated *a, struct error *err);

/* Source files that were looked for. All fields start as zeros, except `options` and `replay`. */
struct source;
struct source_files {
    const struct annotate_options *options;
    const struct replay *replay;
    VEC(struct source *) files;
};
/* The time of the recording's end in seconds since 1970; if the recording has no wall clock time,
 * that of its file. */
uint64_t annotate_recorded_at(const struct annotated *a);
/* Whether a source file that is here was changed after this time. */
bool annotate_is_newer(struct source_files *files, const char *file, uint64_t recorded);
/* Returns a line of the file that the program calls `file`, or NULL if the line was not found. The
 * line ends at its newline. It lives as long as `files`. */
const char *annotate_line(struct source_files *files, const char *file, uint32_t line);
void source_files_free(struct source_files *files);
/* Print a line up to its newline. Characters that a terminal must not get are escaped. */
void annotate_text(FILE *out, const char *line);

/* Print a share as "   12.34%", or with options.counts the part itself; or as many blanks if it is
 * 0. */
void annotate_share(const struct annotate_options *o, FILE *out, uint64_t part, uint64_t whole);
/* Whether a place of this weight is named with options.lines: as in perf, with more than half a
 * percent of the function's own samples. */
bool annotate_is_heavy(const struct annotated *a, uint64_t self);

#endif
