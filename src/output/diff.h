/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Comparison of recordings. There are two sides of one or more recordings each. The comparison
 * computes the shares of functions (or files, modules, states), which differences are more than
 * noise, and which of these a gate forbids. ljperf-diff(1) describes the computation and its
 * reasons.
 */
#ifndef OUTPUT_DIFF_H
#define OUTPUT_DIFF_H

#include "base/error.h"
#include "base/hash_table.h"
#include "base/intern.h"
#include "base/text.h"
#include "base/vec.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A share of all samples; see diff_finish(). */
#define DIFF_UNKNOWN_MOST 0.1

enum diff_side { DIFF_BASE, DIFF_NEW, DIFF_SIDES };
enum diff_metric { DIFF_SELF, DIFF_TOTAL, DIFF_METRICS };
/* What the whole of a recording has, beside its shares. */
enum diff_whole { WHOLE_SAMPLES, WHOLE_WEIGHT, WHOLE_WALL, DIFF_WHOLES };
enum diff_level { DIFF_FUNCTION, DIFF_FILE, DIFF_MODULE, DIFF_STATE, DIFF_LEVELS };

const char *diff_level_name(enum diff_level level);

/* A rule: no row that the pattern matches may grow by more than the limit; or, for samples, cpu and
 * wall, the whole. */
struct diff_gate {
    const char *text; /* as the user gave it */
    char *pattern;    /* pattern of names; NULL: all rows. Owned */
    uint8_t metric;   /* enum diff_metric; of the whole: DIFF_METRICS + enum diff_whole */
    bool relative;    /* the limit is a share of the row's base share, not of all samples */
    bool or_equal;    /* a growth equal to the limit breaks the gate, too */
    double limit;     /* 0.02: 2 % */
};

/* Parse `[PATTERN:]self|total>[+]N%[rel]` or `samples|cpu|wall>[+]N%`; `>` may be `>=`. `text` must
 * outlive the gate. */
int diff_gate_parse(const char *text, struct diff_gate *ret, struct error *err);
void diff_gate_free(struct diff_gate *g);

struct diff_options {
    enum diff_level level;
    double alpha;        /* probability of a false alarm in the whole comparison */
    double least_weight; /* rows whose share is smaller on both sides are not tested */
    double noise;        /* assumed relative variation of shares between runs */
    bool samples;        /* count samples, not periods */
    VEC(struct diff_gate) gates;
    VEC(const char *) allowed; /* patterns of names of rows that may grow */
};

/* One recording. `path` and `event` must outlive the comparison. */
struct diff_recording {
    const char *path, *event;
    uint8_t side;
    uint64_t samples; /* samples of the event; diff_add() counts them */
    uint64_t read;    /* samples in the file, of all events and before filters */
    /* Number of samples that the file lost. diff_add() reduces it to those that would have been
     * compared, assuming that the same part of the lost samples as of the read samples were of the
     * event and passed the filters. */
    uint64_t lost;
    double complete;  /* share of user stacks that are complete; 1 if there are none */
    uint64_t weight;  /* sum of the event's weights; diff_add() adds them up */
    uint64_t wall_ns; /* from the first sample to the last; 0: not known */
    /* Share of all samples that were lost, or whose stack has a stand-in for something that was not
     * recorded, or whose innermost frame is a guess. diff_add() computes it. */
    double unknown;
};

/* A row's share in one recording. */
struct diff_share {
    double share[DIFF_METRICS];
    double variance[DIFF_METRICS]; /* variance of the share, estimated within the recording */
    double doubtful;               /* part of `total` in stacks with a frame that is not exact */
    double guessed;                /* part of self where the row's own frame may be a guess */
};

enum diff_verdict { DIFF_SAME, DIFF_GROWN, DIFF_SHRUNK, DIFF_ALLOWED, DIFF_REGRESSION };

struct diff_test {
    double mean[DIFF_SIDES];
    double change;       /* difference of the means */
    double corrected;    /* `change` without the part that goes with the other rows' change */
    double margin;       /* half of the 95 % interval of `change` */
    double between;      /* variance of a share around its side's mean, seen between recordings */
    double own;          /* degrees of freedom of `between` */
    double spread;       /* variance of `corrected`, as a multiple of a share's variance */
    double freedom;      /* degrees of freedom of the test */
    double error, limit; /* standard error; growth that the strictest gate allows, -1: no gate */
    double p, adjusted;  /* one-sided p value without a change; the same for all tests together */
    bool tested;
    uint8_t verdict; /* enum diff_verdict */
    uint16_t gate;   /* index of the broken gate, for a regression */
};

struct diff_row {
    const char *name;   /* without line and column */
    const char *source; /* module or file; NULL: none */
    uint32_t line;      /* of a managed function, on the new side if it is there; 0: unknown */
    bool kernel;        /* all of the row is kernel code */
    struct diff_test test[DIFF_METRICS];
    double doubtful;           /* the larger one of both sides' means */
    struct diff_share *shares; /* one per recording, in the order of `recordings` */
};

/* A function without a symbol has two names: that of its place (or of those without one), which
 * holds for one build of its file only, and that of all such functions of its file. diff_match()
 * leaves one of them. */
enum diff_name_kind { DIFF_NAME_PLAIN, DIFF_NAME_PLACE, DIFF_NAME_NO_PLACE, DIFF_NAME_FILE };

/* The identity of a row before the sides are matched. */
struct diff_name {
    const char *name, *source; /* interned */
    uint64_t place;            /* line in the upper half, column in the lower half; 0: none */
    bool kernel;               /* everything with this name is kernel code */
    uint8_t kind;              /* enum diff_name_kind */
    const char *build;         /* of a DIFF_NAME_PLACE, interned; "": not known. Else NULL */
    bool in[DIFF_SIDES];
    uint32_t row[DIFF_SIDES];
};

/* How the whole changed: samples, weight, time. */
struct diff_change {
    bool known;
    double mean[DIFF_SIDES]; /* geometric means; lost samples are added */
    double change,
        margin;      /* of the new mean, as a share of the base's; half of its 95 % interval */
    double p;        /* chance of so large a change in this direction without one */
    uint8_t verdict; /* enum diff_verdict */
    uint16_t gate;   /* for a regression: index of the broken gate */
};

struct diff {
    const struct diff_options *options;
    struct intern *strings;
    VEC(struct diff_recording) recordings;
    VEC(struct diff_recording) left_out; /* not comparable with the others; set by diff_finish() */
    VEC(struct diff_share *) shares;     /* per recording: one share per name known by then */
    VEC(uint32_t) nr_shares;
    VEC(struct diff_name) names;
    struct hash_table by_name; /* of indexes in `names` */
    VEC(struct diff_row) rows; /* filled by diff_finish(): regressions first, then by change */
    struct diff_share *row_shares;
    struct diff_change whole[DIFF_WHOLES];
    const char *unit;        /* of weights: "nanoseconds", "bytes", "count"; NULL: count */
    bool is_cpu_time;        /* weights are ns of processor time */
    uint32_t nr[DIFF_SIDES]; /* number of recordings per side */
    uint32_t nr_tests, nr_regressions;
};

int diff_init(struct diff *d, const struct diff_options *options, struct error *err);
void diff_free(struct diff *d);

/* Returns what stacks must keep apart for diff_add(). */
struct stacks_options diff_stacks_options(enum diff_level level);
/* Add one recording. The event is the first one that was sampled. */
int diff_add(struct diff *d, const struct diff_recording *r, const struct stacks *s,
             struct error *err);
/* Check that all recordings sampled the same event. Only their `path`, `event` and `samples` are
 * read. ERROR_NOT_FOUND: a recording has no samples. ERROR_FORMAT: a recording has samples of
 * another event. */
int diff_check_recordings(const struct diff_recording *recordings, size_t nr, struct error *err);
/* Leave out the recordings whose `unknown` share exceeds that of the better half by more than
 * DIFF_UNKNOWN_MOST: unknown samples are not a random selection, so the shares of the other samples
 * are not those of all. Then match the sides' names, test the rows and judge them. ERROR_NOT_FOUND:
 * a side has no recording left. */
int diff_finish(struct diff *d, struct error *err);

/* ---- results -------------------------------------------------------------------------------- */

/* Print at most `rows` rows, but always those with a verdict; 0: all that were tested or have a
 * verdict. */
void diff_put_text(const struct diff *d, size_t rows, struct text *t);
void diff_put_markdown(const struct diff *d, size_t rows, struct text *t);
void diff_put_junit(const struct diff *d, struct text *t);
int diff_write_json(const struct diff *d, FILE *out, struct error *err);
/* The new side's values, as github-action-benchmark's customSmallerIsBetter takes them. */
int diff_write_benchmark(const struct diff *d, FILE *out, struct error *err);

/* ---- parts ---------------------------------------------------------------------------------- */

/* diff_names.c: return the index of a function's name; UINT32_MAX: memory is out. */
uint32_t diff_name_function(struct diff *d, const struct function *f);
/* The same of the second name, DIFF_NAME_FILE; DIFF_NO_NAME: `f` has none. */
#define DIFF_NO_NAME (UINT32_MAX - 1)
uint32_t diff_name_of_file(struct diff *d, const struct function *f);
/* The same for anything that only has a name. `kernel`: it is kernel code. */
uint32_t diff_name_plain(struct diff *d, const char *name, const char *source, bool kernel);
/* Returns the source of a function: its module. The module of generated code is named after its
 * process (replay/names.c, session/maps.c), which differs in each recording; for such code the kind
 * of file that names it ("perf map", "jitdump") is returned. NULL: unknown. */
const char *diff_source(const struct function *f);
/* Assign a row to each name. Returns the number of rows; UINT32_MAX: memory is out. */
uint32_t diff_match(struct diff *d);

/* Is it the name of a stand-in for functions that were not recorded? */
bool diff_is_stand_in(const char *name);

/* significance.c: test all rows. Returns -1 if memory is out. */
int diff_test_rows(struct diff *d);
/* Returns the probability that Student's t with `freedom` degrees is greater than `t`. */
double student_above(double t, double freedom);
/* Returns the value that Student's t exceeds with probability `p` (0 < p <= 0.5). */
double student_quantile(double p, double freedom);

/* diff_factor.c: correct the row's self share for effects that move many rows at once. These
 * effects are found from the rows `heavy`, the heaviest first. Returns -1 if memory is out. */
int diff_take_factor(const struct diff *d, struct diff_row *const *heavy, size_t nr,
                     struct diff_row *row);

/* diff_whole.c: test the whole, and judge it. */
void diff_judge_whole(struct diff *d);
/* Returns the name of a part of the whole: "samples", "cpu time", "wall time" or the event. */
const char *diff_whole_name(const struct diff *d, enum diff_whole w);
/* Append a value of it, with its unit. */
void diff_put_whole(const struct diff *d, enum diff_whole w, double value, struct text *t);

/* diff_gate.c: return the index of the gate that the change of the whole breaks; -1: none. A gate
 * of totals without a pattern counts, too: the whole's total is all weight. */
int diff_broken_whole_gate(const struct diff *d, enum diff_whole w);
/* diff_gate.c: return the index of the gate that the change breaks; -1: none. */
int diff_broken_gate(const struct diff *d, const struct diff_row *row, enum diff_metric m);
/* Returns the least growth that a gate allows the row, as a share of all samples; -1: no gate
 * applies. */
double diff_gate_limit(const struct diff *d, const struct diff_row *row, enum diff_metric m);
bool diff_is_allowed(const struct diff *d, const struct diff_row *row);

#endif
