/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Comparison of recordings: two sides of one or more recordings each, the shares of functions (or
 * files, modules, states) in them, which differences are more than noise, and which of these a gate
 * forbids. ljperf-diff(1) says what is computed, and why.
 */
#ifndef OUTPUT_DIFF_H
#define OUTPUT_DIFF_H

#include "base/error.h"
#include "base/intern.h"
#include "base/text.h"
#include "base/vec.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of all samples: diff_finish(). */
#define DIFF_UNKNOWN_MOST 0.1

enum diff_side { DIFF_BASE, DIFF_NEW, DIFF_SIDES };
enum diff_metric { DIFF_SELF, DIFF_TOTAL, DIFF_METRICS };
enum diff_level { DIFF_FUNCTION, DIFF_FILE, DIFF_MODULE, DIFF_STATE, DIFF_LEVELS };

const char *diff_level_name(enum diff_level level);

/* A rule: no row that the pattern matches may grow by more than the limit. */
struct diff_gate {
    const char *text; /* as it was given */
    char *pattern;    /* of names; NULL: all. Owned */
    uint8_t metric;
    bool relative; /* the limit is a share of what the row had, not of all samples */
    bool or_equal; /* the limit itself is too much */
    double limit;  /* 0.02: 2 % */
};

/* `[PATTERN:]self|total>[+]N%[rel]`, or >=. `text` must outlive the gate. */
int diff_gate_parse(const char *text, struct diff_gate *ret, struct error *err);
void diff_gate_free(struct diff_gate *g);

struct diff_options {
    enum diff_level level;
    double alpha;        /* chance of a false alarm, of the whole comparison */
    double least_weight; /* rows with less on both sides are not tested */
    double noise;        /* how much shares vary between runs, relative; what is assumed */
    bool samples;        /* count samples, not periods */
    VEC(struct diff_gate) gates;
    VEC(const char *) allowed; /* patterns of names that may grow */
};

/* One recording. `path` and `event` must outlive the comparison. */
struct diff_recording {
    const char *path, *event;
    uint8_t side;
    uint64_t samples; /* of the event; diff_add() counts them */
    uint64_t read;    /* samples that the file has, of all events and before filters */
    /* Samples that the file lost; after diff_add(): those of them that would have been compared, if
     * as many of them were of the event and passed the filters as of those that were read. */
    uint64_t lost;
    double complete; /* share of the user stacks; of none: 1 */
    /* Share of all samples that were lost, or are in stacks with a stand-in for what was not
     * recorded, or whose innermost frame is a guess; diff_add() counts it. */
    double unknown;
};

/* A row's share in one recording. */
struct diff_share {
    double share[DIFF_METRICS];
    double variance[DIFF_METRICS]; /* of the share, by how it varies within the recording */
    double doubtful;               /* of `total`, where a frame of the stack is not exact */
    double guessed;                /* of the self share, where this very frame may be a guess */
};

enum diff_verdict { DIFF_SAME, DIFF_GROWN, DIFF_SHRUNK, DIFF_ALLOWED, DIFF_REGRESSION };

struct diff_test {
    double mean[DIFF_SIDES];
    double change;    /* of the means */
    double corrected; /* the change, without what goes with the other rows' */
    double margin;    /* half of its 95 % interval */
    double between;   /* variance of a share around its side's mean, as the recordings show it, */
    double own;       /* with so many degrees of freedom; */
    double spread;    /* of the corrected change: so many times that of a share */
    double freedom;   /* degrees of, of the test */
    double error, limit; /* standard error; what the strictest gate lets it grow, -1: no gate */
    double p, adjusted;  /* of no change, in the direction seen; for all tests together */
    bool tested;
    uint8_t verdict; /* enum diff_verdict */
    uint16_t gate;   /* of a regression */
};

struct diff_row {
    const char *name;   /* without its place */
    const char *source; /* module or file; NULL: has none */
    uint32_t line;      /* of a managed function, on the new side if it is there; 0: unknown */
    bool kernel;        /* all of it is the kernel's */
    struct diff_test test[DIFF_METRICS];
    double doubtful;           /* the larger of both sides' means */
    struct diff_share *shares; /* of each recording, in their order */
};

/* What a row is known by before the sides are matched. */
struct diff_name {
    const char *name, *source; /* interned */
    uint64_t place;            /* line, and column below; 0: none */
    bool kernel;               /* all that has this name is the kernel's */
    bool in[DIFF_SIDES];
    uint32_t row[DIFF_SIDES];
};

struct diff {
    const struct diff_options *options;
    struct intern *strings;
    VEC(struct diff_recording) recordings;
    VEC(struct diff_recording) left_out; /* diff_finish(): not comparable with the others */
    VEC(struct diff_share *) shares;     /* of each recording: one for each name known by then */
    VEC(uint32_t) nr_shares;
    VEC(struct diff_name) names;
    uint32_t *slots; /* index + 1 of names */
    size_t nr_slots;
    VEC(struct diff_row) rows; /* after diff_finish(): regressions first, then by change */
    struct diff_share *row_shares;
    uint32_t nr[DIFF_SIDES]; /* recordings */
    uint32_t nr_tests, nr_regressions;
};

int diff_init(struct diff *d, const struct diff_options *options, struct error *err);
void diff_free(struct diff *d);

/* What stacks must be kept apart by, for diff_add(). */
struct stacks_options diff_stacks_options(enum diff_level level);
/* Take one recording, of the first event that was sampled. */
int diff_add(struct diff *d, const struct diff_recording *r, const struct stacks *s,
             struct error *err);
/* All recordings must have sampled the same thing: of each, path, event and samples are looked at.
 * ERROR_NOT_FOUND: one has no samples; ERROR_FORMAT: one has samples of another event. */
int diff_check_recordings(const struct diff_recording *recordings, size_t nr, struct error *err);
/* Leave out the recordings of which DIFF_UNKNOWN_MOST more is unknown than of the better half:
 * which samples these are is not chance, and shares of the others are not those of all. Then match,
 * test, judge. ERROR_NOT_FOUND: a side has no recording left. */
int diff_finish(struct diff *d, struct error *err);

/* ---- results -------------------------------------------------------------------------------- */

/* At most `rows` of them; 0: all that changed or were judged. */
void diff_put_text(const struct diff *d, size_t rows, struct text *t);
void diff_put_markdown(const struct diff *d, size_t rows, struct text *t);
void diff_put_junit(const struct diff *d, struct text *t);
int diff_write_json(const struct diff *d, FILE *out, struct error *err);

/* ---- parts ---------------------------------------------------------------------------------- */

/* diff_names.c: the index of what a function is known by; UINT32_MAX: memory is out. */
uint32_t diff_name_function(struct diff *d, const struct function *f);
/* Of anything else: its name alone; `kernel`: it is the kernel's. */
uint32_t diff_name_plain(struct diff *d, const char *name, const char *source, bool kernel);
/* What a function is of: its module. Generated code's is named after its process (replay/names.c,
 * session/maps.c), which is another in each recording: then what names such code. NULL: unknown. */
const char *diff_source(const struct function *f);
/* Give each name its row. Returns how many rows there are; UINT32_MAX: memory is out. */
uint32_t diff_match(struct diff *d);

/* Is it the name of what stands for functions that were not recorded? */
bool diff_is_stand_in(const char *name);

/* significance.c; -1: memory is out. */
int diff_test_rows(struct diff *d);
/* Chance that Student's t with `freedom` degrees is greater than `t`. */
double student_above(double t, double freedom);
/* The t that it is greater than with chance `p` (0 < p <= 0.5). */
double student_quantile(double p, double freedom);

/* diff_factor.c: correct the row's self share for what moves many rows at once. `heavy`: the rows
 * to know that by, the heaviest first. -1: memory is out. */
int diff_take_factor(const struct diff *d, struct diff_row *const *heavy, size_t nr,
                     struct diff_row *row);

/* diff_gate.c: which gate, if any, the change breaks; -1: none. */
int diff_broken_gate(const struct diff *d, const struct diff_row *row, enum diff_metric m);
/* The least that a gate lets the row grow, as a share of all; -1: none applies. */
double diff_gate_limit(const struct diff *d, const struct diff_row *row, enum diff_metric m);
bool diff_is_allowed(const struct diff *d, const struct diff_row *row);

#endif
