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
    FILE *out;
};

/* The source with its weights; lines alone where there is no file. */
int annotate_source(const struct annotated *a, struct error *err);
/* Native code with its weights. */
int annotate_code(const struct annotated *a, struct error *err);

/* "  12.34%", or as many blanks. */
void annotate_percent(FILE *out, uint64_t part, uint64_t whole);

#endif
