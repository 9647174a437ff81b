/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole of the recordings: samples, weight (of a clock: processor time) and wall time. Shares
 * cannot show a program that does the same things, and three times as much of them.
 *
 * Totals vary from run to run by a factor, so their logarithms are compared. With two recordings or
 * more on both sides, their variance within the sides is what runs vary by; else it is assumed, as
 * for shares (options.noise). It is at least what counting the samples yields.
 */
#include "output/diff.h"

#include <math.h>
#include <string.h>

/* A recording's total; 0: not known. What was lost is taken to be like what was not. */
static double total_of(const struct diff_recording *r, enum diff_whole w)
{
    const double all = 1 + (double)r->lost / fmax((double)r->samples, 1);
    switch (w) {
    case WHOLE_SAMPLES:
        return (double)r->samples * all;
    case WHOLE_WEIGHT:
        return (double)r->weight * all;
    default:
        return (double)r->wall_ns;
    }
}

/* Logarithms of a kind of total. */
struct sums {
    double mean[DIFF_SIDES], squares; /* squares: of what differs from the side's mean */
    double counting;                  /* variance of one recording that counting yields; mean */
};

static bool sum_up(const struct diff *d, enum diff_whole w, struct sums *s)
{
    *s = (struct sums){.squares = 0};
    vec_foreach (r, &d->recordings) {
        double total = total_of(r, w);
        if (!(total > 0))
            return false;
        s->mean[r->side] += log(total) / d->nr[r->side];
        s->counting += w == WHOLE_WALL ? 0 : 1 / ((double)r->samples * (double)d->recordings.nr);
    }
    vec_foreach (r, &d->recordings) {
        double off = log(total_of(r, w)) - s->mean[r->side];
        s->squares += off * off;
    }
    return true;
}

/* Whether the weights say what the samples do not: all are alike. */
static bool is_same_as_samples(const struct diff *d)
{
    vec_foreach (r, &d->recordings)
        if (r->weight != r->samples)
            return false;
    return true;
}

static void judge(struct diff *d, enum diff_whole w)
{
    struct diff_change *c = &d->whole[w];
    struct sums s;
    c->known = sum_up(d, w, &s) && !(w == WHOLE_WEIGHT && is_same_as_samples(d));
    if (!c->known)
        return;
    const double nr = (double)d->recordings.nr, wide = 1e6;
    bool seen = d->nr[DIFF_BASE] > 1 && d->nr[DIFF_NEW] > 1;
    double freedom = seen ? nr - DIFF_SIDES : wide;
    double noise = d->options->noise * d->options->noise;
    double variance = fmax(seen ? s.squares / freedom : noise + s.counting, s.counting);
    double error = sqrt(variance * (1.0 / d->nr[DIFF_BASE] + 1.0 / d->nr[DIFF_NEW]));
    double moved = s.mean[DIFF_NEW] - s.mean[DIFF_BASE];
    for (int side = 0; side < DIFF_SIDES; side++)
        c->mean[side] = exp(s.mean[side]);
    c->change = exp(moved) - 1;
    error = fmax(error, 1e-9); /* runs that are equal to the last digit */
    c->margin = exp(moved) * (exp(error * student_quantile(0.025, freedom)) - 1);
    c->p = student_above(fabs(moved) / error, freedom);
    if (c->p * DIFF_WHOLES > d->options->alpha)
        return;
    int gate = moved > 0 ? diff_broken_whole_gate(d, w) : -1;
    c->verdict = gate >= 0 ? DIFF_REGRESSION : moved > 0 ? DIFF_GROWN : DIFF_SHRUNK;
    c->gate = gate >= 0 ? (uint16_t)gate : 0;
    d->nr_regressions += gate >= 0;
}

void diff_judge_whole(struct diff *d)
{
    for (int w = 0; w < DIFF_WHOLES; w++)
        judge(d, w);
}

const char *diff_whole_name(const struct diff *d, enum diff_whole w)
{
    return w == WHOLE_SAMPLES ? "samples"
           : w == WHOLE_WALL  ? "wall time"
           : d->is_cpu_time   ? "cpu time"
                              : d->recordings.at[0].event;
}

void diff_put_whole(const struct diff *d, enum diff_whole w, double value, struct text *t)
{
    static const struct {
        double least, unit;
        const char *name;
    } times[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {0, 1e3, "us"}},
      sizes[] = {{1e9, 1e9, "GB"}, {1e6, 1e6, "MB"}, {0, 1e3, "kB"}};
    const char *unit = w == WHOLE_WEIGHT && d->unit ? d->unit : "";
    bool is_time = w == WHOLE_WALL || strcmp(unit, "nanoseconds") == 0;
    bool is_size = strcmp(unit, "bytes") == 0;
    for (size_t i = 0; (is_time || is_size) && i < sizeof(times) / sizeof(*times); i++)
        if (value >= (is_time ? times : sizes)[i].least) {
            text_printf(t, "%.3g %s", value / (is_time ? times : sizes)[i].unit,
                        (is_time ? times : sizes)[i].name);
            return;
        }
    text_printf(t, "%.0f", value);
}
