/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of annotate share. */
#ifndef OUTPUT_ANNOTATE_INTERNAL_H
#define OUTPUT_ANNOTATE_INTERNAL_H

#include "output/annotate.h"

/* What counts at a place. */
struct weight {
    uint64_t self, total; /* executing there; there or in what it called from there */
};

/* A line of the function, or an instruction. */
struct weighed_line {
    const char *file; /* interned; NULL: not known */
    uint32_t line;
    struct weight weight;
    uint64_t seen; /* private: the last path that was counted */
};
struct weighed_address {
    uint64_t address; /* replay_name()'s */
    uint32_t dso;
    struct weight weight;
};

struct annotated {
    const struct annotate_options *options;
    const struct profile *profile;
    const struct replay *replay;
    const struct profile_function *function;
    struct weight weight, all; /* the function's; of all samples (self) */
    uint64_t samples;          /* that count, of the function's own */
    VEC(struct weighed_line) lines;
    VEC(struct weighed_address) addresses; /* of native code */
    uint64_t last;                         /* time of the last sample */
    uint32_t *of_line, *of_location; /* of the profile's: index in the two above + 1; 0: none yet */
    FILE *out;
};

/* The source with its weights; lines alone where there is no file. */
int annotate_source(const struct annotated *a, struct error *err);
/* Native code with its weights. */
int annotate_code(const struct annotated *a, struct error *err);

/* Source files that were looked for. Zeroed, but for options and replay. */
struct source;
struct source_files {
    const struct annotate_options *options;
    const struct replay *replay;
    VEC(struct source *) files;
};
/* A line of a file, by the program's name for it, up to its newline; NULL: not found. It lives as
 * long as the files. */
const char *annotate_line(struct source_files *files, const char *file, uint32_t line);
void source_files_free(struct source_files *files);
/* A line, up to its newline, as a terminal may have it. */
void annotate_text(FILE *out, const char *line);

/* "  12.34%", or as many blanks. */
void annotate_percent(FILE *out, uint64_t part, uint64_t whole);

#endif
