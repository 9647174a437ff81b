/* SPDX-License-Identifier: GPL-2.0-only */
/* One function's source or machine code, with the weight of each line. */
#ifndef OUTPUT_ANNOTATE_H
#define OUTPUT_ANNOTATE_H

#include "output/export.h"

#include <stdint.h>

enum annotate_syntax { ANNOTATE_INTEL, ANNOTATE_ATT };

struct annotate_options {
    const char *symbol;     /* NULL: the function with the most samples of its own */
    const char *source_dir; /* folder to search for sources first; NULL: only the recorded paths */
    bool samples;           /* count samples, not periods */
    bool counts;            /* with samples: print their numbers, not shares */
    bool lines;             /* first list the lines with most weight, and name them beside code */
    enum annotate_syntax syntax;
};

/* Print the function. `profile` must be finished and must have lines. If there is no such function,
 * the error lists functions with similar names. */
int annotate_print(const struct annotate_options *options, struct profile *profile,
                   struct replay *r, FILE *out, struct error *err);

#endif
