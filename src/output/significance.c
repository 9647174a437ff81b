/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is a difference more than noise? The unit is the recording: the samples within one recording are
 * not independent, and two runs of one program differ by more than sampling chance.
 *
 * The variance of a row's share m between runs is estimated from two sources:
 *   - The recordings give s2, the variance around each side's mean, with d = N - 2 degrees of
 *     freedom for N recordings.
 *   - Prior knowledge gives v, which counts as PRIOR_FREEDOM degrees. It has two parts. One is the
 *     variance that independent samples would have, times how much more blocks of time within the
 *     recordings vary (the median over all rows). The other is the variance of a share if the time
 *     of each row varies between runs by an assumed part c (options.noise; at least KERNEL_NOISE
 *     for the kernel):
 *     m^2 * ((1 - m)^2 c^2 + the sum over other rows of m_j^2 c_j^2).
 *     The assumption counts as ASSUMED_FREEDOM degrees. It is weighed against how much more than
 *     sampling chance all rows together vary between the recordings.
 *     If the recordings vary more than v says (the median row), v is raised accordingly.
 * Effects that move many rows at once between runs are removed first (diff_factor.c). The mean of
 * s2 and v, weighed by degrees of freedom, gives the standard error e of the difference of the
 * sides' means. difference / e is taken as Student's t with the sum of the degrees.
 *
 * Samples that are not exact may belong to another row, and which ones do is not chance. If
 * recordings differ by d1 in how many such samples a row has, and by d2 in how many there are in
 * all, the difference may be off by d1 + m * d2. This counts as an error that is evenly spread
 * within these bounds: a third of their square, which more recordings do not lessen.
 *
 * A gate is broken if the difference exceeds its limit and a false alarm is unlikely. The chance
 * that any of the tested rows would exceed its own limit with as large a t, if nothing had changed,
 * must be at most alpha. This chance is the sum over rows of P(T > max(t, limit_j / e_j)). So rows
 * that are too light to exceed their limit by chance do not weaken the test of the others. Other
 * changes are found by Holm's method.
 */
#include "output/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Student's t ---------------------------------------------------------------------------- */

/* The continued fraction of the incomplete beta function (Lentz's method). */
static double beta_fraction(double a, double b, double x)
{
    enum { STEPS = 500 };
    static const double least = 1e-300;
    double c = 1;
    double d = 1 / fmax(1 - (a + b) * x / (a + 1), least);
    double h = d;
    for (int m = 1; m <= STEPS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double steps[] = {even, odd};
        double factor = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + steps[i] * d;
            c = 1 + steps[i] / c;
            d = 1 / (fabs(d) < least ? least : d);
            c = fabs(c) < least ? least : c;
            factor = c * d;
            h *= factor;
        }
        if (fabs(factor - 1) < 1e-14)
            break;
    }
    return h;
}

/* The regularized incomplete beta function. */
static double beta_below(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x > 0;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_above(double t, double freedom)
{
    double tail = beta_below(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2;
    return t > 0 ? tail : 1 - tail;
}

double student_quantile(double p, double freedom)
{
    double low = 0;
    double high = 1;
    while (student_above(high, freedom) > p && high < 1e9)
        high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        if (student_above(middle, freedom) > p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* ---- variances ------------------------------------------------------------------------------ */

static const double PRIOR_FREEDOM = 12;
/* How much the assumption about runs counts against what the runs show, in degrees of freedom. */
static const double ASSUMED_FREEDOM = 4;
/* If no side has two recordings, nothing shows whether the prior is right. */
static const double PRIOR_FREEDOM_ALONE = 6;
/* Kernel time depends on other activity of the machine: interrupts, switches, memory. */
static const double KERNEL_NOISE = 0.5;

/* The known variances of a row, without how its own recordings differ. */
struct variances {
    double independent; /* that independent samples would have */
    double blocks;      /* as blocks of time show it */
    double assumed;     /* that runs are assumed to have */
};

/* Factors over all rows. */
struct scales {
    double clustering; /* variance of blocks to that of independent samples; at least 1 */
    double runs;       /* variance of recordings to the prior; at least 1 */
    double noise;      /* sum of (m c)^2 */
    double assumed;    /* real noise of the runs to the assumed noise; squared */
};

static double square(double x)
{
    return x * x;
}

static void take_means(const struct diff *d, struct diff_row *row, enum diff_metric m)
{
    struct diff_test *t = &row->test[m];
    for (size_t i = 0; i < d->recordings.nr; i++)
        t->mean[d->recordings.at[i].side] += row->shares[i].share[m];
    for (int side = 0; side < DIFF_SIDES; side++)
        t->mean[side] /= d->nr[side];
    t->change = t->corrected = t->mean[DIFF_NEW] - t->mean[DIFF_BASE];
    t->spread = 1.0 / d->nr[DIFF_BASE] + 1.0 / d->nr[DIFF_NEW];
    t->own = (double)(d->recordings.nr - DIFF_SIDES);
    t->between = 0;
    for (size_t i = 0; i < d->recordings.nr && t->own > 0; i++)
        t->between += square(row->shares[i].share[m] - t->mean[d->recordings.at[i].side]) / t->own;
}

/* The mean of both sides, so that exchanged sides give the same result. */
static double row_mean(const struct diff_row *row, enum diff_metric m)
{
    return (row->test[m].mean[DIFF_BASE] + row->test[m].mean[DIFF_NEW]) / 2;
}

static double row_noise(const struct diff *d, const struct diff_row *row)
{
    return row->kernel ? fmax(KERNEL_NOISE, d->options->noise) : d->options->noise;
}

static struct variances row_variances(const struct diff *d, const struct diff_row *row,
                                      enum diff_metric m, const struct scales *scales)
{
    size_t nr = d->recordings.nr;
    struct variances v = {0};
    double mean = row_mean(row, m);
    for (size_t i = 0; i < nr; i++) {
        const struct diff_recording *r = &d->recordings.at[i];
        double samples = (double)r->samples;
        v.independent += fmax(mean * (1 - mean), 1 / samples) / samples / (double)nr;
        v.blocks += row->shares[i].variance[m] / (double)nr;
    }
    double noise = square(row_noise(d, row));
    v.assumed = square(mean) * (square(1 - mean) * noise +
                                fmax(0, scales->noise - square(row_mean(row, DIFF_SELF)) * noise));
    return v;
}

static double prior(const struct variances *v, const struct scales *s)
{
    return (v->independent * s->clustering + v->assumed * s->assumed) * s->runs;
}

static void widen(double value, double *low, double *high)
{
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

/* Returns the variance that samples which are not exact add to the difference of the sides'
 * means. */
static double doubt(const struct diff *d, const struct diff_row *row, enum diff_metric m)
{
    double low = 1, high = 0, low_all = 1, high_all = 0;
    for (size_t i = 0; i < d->recordings.nr; i++) {
        const struct diff_share *s = &row->shares[i];
        widen(m == DIFF_SELF ? s->guessed : s->doubtful, &low, &high);
        widen(d->recordings.at[i].unknown, &low_all, &high_all);
    }
    return square(high - low + row_mean(row, m) * (high_all - low_all)) / 3;
}

static bool is_heavy(const struct diff *d, const struct diff_row *row, enum diff_metric m)
{
    return fmax(row->test[m].mean[DIFF_BASE], row->test[m].mean[DIFF_NEW]) >=
           d->options->least_weight;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t nr)
{
    if (!nr)
        return 0;
    qsort(values, nr, sizeof(*values), by_size);
    return nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
}

/* Returns how much more than sampling chance the rows vary between recordings, relative to the
 * assumed variance. Kernel rows are skipped, since their assumed noise exceeds the real one. */
static double weigh_assumed(const struct diff *d, const struct scales *s)
{
    double more = 0, assumed = 0, own = 0;
    vec_foreach (row, &d->rows) {
        struct variances v = row_variances(d, row, DIFF_SELF, s);
        if (!is_heavy(d, row, DIFF_SELF) || row->kernel)
            continue;
        more += row->test[DIFF_SELF].between - v.independent * s->clustering;
        assumed += v.assumed;
        own = row->test[DIFF_SELF].own;
    }
    if (!(assumed > 0))
        return 1;
    return (ASSUMED_FREEDOM + own * fmax(0, more / assumed)) / (ASSUMED_FREEDOM + own);
}

/* `values` has room for one per row. */
static struct scales find_scales(const struct diff *d, double *values)
{
    struct scales s = {.clustering = 1, .runs = 1, .assumed = 1};
    vec_foreach (row, &d->rows)
        s.noise += square(row_mean(row, DIFF_SELF) * row_noise(d, row));
    size_t nr = 0;
    vec_foreach (row, &d->rows) {
        struct variances v = row_variances(d, row, DIFF_SELF, &s);
        if (is_heavy(d, row, DIFF_SELF))
            values[nr++] = v.blocks / v.independent;
    }
    s.clustering = fmax(1, median(values, nr));
    s.assumed = weigh_assumed(d, &s);
    nr = 0;
    vec_foreach (row, &d->rows) {
        struct variances v = row_variances(d, row, DIFF_SELF, &s);
        const struct diff_test *t = &row->test[DIFF_SELF];
        /* the median of chi-square with d degrees, divided by d, is (1 - 2 / 9d)^3 */
        if (t->own > 0 && is_heavy(d, row, DIFF_SELF))
            values[nr++] = t->between / prior(&v, &s) / pow(1 - 2 / (9 * t->own), 3);
    }
    s.runs = fmax(1, median(values, nr));
    return s;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_row(const struct diff *d, struct diff_row *row, enum diff_metric m,
                     const struct scales *scales)
{
    struct diff_test *t = &row->test[m];
    struct variances v = row_variances(d, row, m, scales);
    double known = t->own > 0 ? PRIOR_FREEDOM : PRIOR_FREEDOM_ALONE;
    t->freedom = known + t->own;
    double mixed = (known * prior(&v, scales) + t->own * t->between) / t->freedom;
    t->error = sqrt(mixed * t->spread + doubt(d, row, m));
    t->margin = t->error * student_quantile(0.025, t->freedom);
    /* one-sided, in the direction seen */
    t->p = student_above((t->change > 0 ? 1 : -1) * t->corrected / t->error, t->freedom);
    t->adjusted = 1;
    t->limit = diff_gate_limit(d, row, m);
    /* Rows that may grow are not tested, because they would weaken the other tests. */
    t->tested = is_heavy(d, row, m) && t->limit >= 0 && !diff_is_stand_in(row->name) &&
                !diff_is_allowed(d, row);
}

static int by_chance(const void *a, const void *b)
{
    const struct diff_test *x = *(struct diff_test *const *)a;
    const struct diff_test *y = *(struct diff_test *const *)b;
    return x->p < y->p ? -1 : x->p > y->p;
}

/* Holm's method: the smallest of n p values is multiplied by n, the next one by n - 1, and so on.
 * Rows that changed in the other direction belong to the family, with p values above 1/2. */
static void adjust(struct diff_test **tests, size_t nr, size_t family)
{
    double worst = 0;
    qsort(tests, nr, sizeof(struct diff_test *), by_chance);
    for (size_t i = 0; i < nr; i++) {
        worst = fmax(worst, fmin(1, tests[i]->p * (double)(family - i)));
        tests[i]->adjusted = worst;
    }
}

/* Get the tests whose rows grew, or those whose rows did not. */
static size_t tests_in_direction(const struct diff *d, bool grown, struct diff_test **ret)
{
    size_t nr = 0;
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++)
            if (row->test[m].tested && (row->test[m].change > 0) == grown)
                ret[nr++] = &row->test[m];
    return nr;
}

/* Returns the chance that any row exceeds its limit with so large a t if nothing changed. */
static double alarm_chance(const struct diff *d, double t)
{
    double sum = 0;
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++)
            if (row->test[m].tested)
                sum += student_above(fmax(t, row->test[m].limit / row->test[m].error),
                                     row->test[m].freedom);
    return fmin(1, sum);
}

static void judge(struct diff *d, struct diff_row *row, enum diff_metric m)
{
    struct diff_test *t = &row->test[m];
    if (!t->tested) {
        bool grew = t->change > 0 && is_heavy(d, row, m) && t->p <= d->options->alpha;
        t->verdict = grew && diff_is_allowed(d, row) ? DIFF_ALLOWED : DIFF_SAME;
        return;
    }
    int gate = t->change > 0 ? diff_broken_gate(d, row, m) : -1;
    if (gate >= 0)
        t->adjusted = alarm_chance(d, t->corrected / t->error);
    if (t->adjusted > d->options->alpha)
        return;
    t->verdict = gate >= 0 ? DIFF_REGRESSION : t->change > 0 ? DIFF_GROWN : DIFF_SHRUNK;
    t->gate = gate >= 0 ? (uint16_t)gate : 0;
    d->nr_regressions += gate >= 0;
}

static int by_weight(const void *a, const void *b)
{
    double x = row_mean(*(struct diff_row *const *)a, DIFF_SELF);
    double y = row_mean(*(struct diff_row *const *)b, DIFF_SELF);
    return x > y ? -1 : x < y;
}

/* Correct the rows for effects that move them together. `heavy` has room for one per row. */
static int take_factors(struct diff *d, struct diff_row **heavy)
{
    size_t nr = 0;
    int failed = 0;
    vec_foreach (row, &d->rows)
        if (is_heavy(d, row, DIFF_SELF))
            heavy[nr++] = row;
    qsort(heavy, nr, sizeof(struct diff_row *), by_weight);
    for (size_t i = 0; i < nr && !failed; i++)
        failed = diff_take_factor(d, heavy, nr, heavy[i]);
    return failed;
}

static int test_all(struct diff *d, double *values, struct diff_row **heavy,
                    struct diff_test **tests)
{
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++)
            take_means(d, row, m);
    if (take_factors(d, heavy) < 0)
        return -1;
    struct scales scales = find_scales(d, values);
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++) {
            test_row(d, row, m, &scales);
            d->nr_tests += row->test[m].tested;
        }
    for (int grown = 0; grown < 2; grown++)
        adjust(tests, tests_in_direction(d, grown, tests), d->nr_tests);
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++)
            judge(d, row, m);
    return 0;
}

int diff_test_rows(struct diff *d)
{
    double *values = calloc(d->rows.nr + 1, sizeof(*values));
    struct diff_row **heavy = calloc(d->rows.nr + 1, sizeof(struct diff_row *));
    struct diff_test **tests = calloc(d->rows.nr * DIFF_METRICS + 1, sizeof(struct diff_test *));
    int failed = values && heavy && tests ? test_all(d, values, heavy, tests) : -1;
    free(values);
    free(heavy);
    free(tests);
    return failed;
}
