/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Removes effects that move many rows at once between runs. A neighbour on the same core slows code
 * that keeps its units busy, but hardly code that waits for its own results. A lower clock and a
 * full memory bus have such effects, too. The shares of all rows then move together in one
 * direction.
 *
 * For each row this direction is found from the other rows, as shares of what is left without the
 * row, so that a change of the row itself does not move these shares. The direction is their first
 * principal component, around each side's mean, in units of sampling chance. A recording's
 * coordinate along the direction is its position. A least-squares fit within the sides says how the
 * row changes with the position. The part of the difference between the sides that follows from the
 * difference of their positions is subtracted. The uncertainty of the slope adds to the error by
 * the square of that difference over the sum of the positions' squares, and the slope takes one
 * degree of freedom (analysis of covariance). The direction depends neither on the row nor on the
 * difference of the sides. So, if nothing changed, the test is as right as without the correction.
 */
#include "output/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 64, ROWS_LEAST = 3, ROUNDS = 60, RECORDINGS_LEAST = DIFF_SIDES + 3 };

struct matrix {
    size_t nr, columns; /* rows; a column per recording, and one more: the sides' difference */
    double *at;
    double *weights, *positions; /* of rows; of recordings */
};

static double *row_of(const struct matrix *x, size_t row)
{
    return &x->at[row * (x->columns + 1)];
}

static double self_share(const struct diff_row *row, size_t recording)
{
    return row->shares[recording].share[DIFF_SELF];
}

static double off_mean(const struct diff *d, const struct diff_row *row, size_t recording)
{
    return self_share(row, recording) - row->test[DIFF_SELF].mean[d->recordings.at[recording].side];
}

/* Add another row: its share of what is left without `row`. */
static void take_row(const struct diff *d, const struct diff_row *row, const struct diff_row *other,
                     struct matrix *x)
{
    double mean[DIFF_SIDES] = {0}, luck = 0;
    double *to = row_of(x, x->nr);
    for (size_t i = 0; i < x->columns; i++) {
        const struct diff_recording *r = &d->recordings.at[i];
        double share = self_share(other, i);
        to[i] = share / fmax(1 - self_share(row, i), 1e-9);
        mean[r->side] += to[i] / d->nr[r->side];
        luck += fmax(share * (1 - share), 1 / (double)r->samples) / (double)r->samples;
    }
    double unit = 1 / sqrt(luck / (double)x->columns);
    for (size_t i = 0; i < x->columns; i++)
        to[i] = (to[i] - mean[d->recordings.at[i].side]) * unit;
    to[x->columns] = (mean[DIFF_NEW] - mean[DIFF_BASE]) * unit;
    x->nr++;
}

static double normalize(double *v, size_t nr)
{
    double sum = 0;
    for (size_t i = 0; i < nr; i++)
        sum += v[i] * v[i];
    for (size_t i = 0; i < nr && sum > 0; i++)
        v[i] /= sqrt(sum);
    return sum;
}

/* Do one round: compute weights from positions, then positions from weights. After the last round
 * the weights fit the positions. */
static void project(struct matrix *x)
{
    for (size_t r = 0; r < x->nr; r++) {
        x->weights[r] = 0;
        for (size_t i = 0; i < x->columns; i++)
            x->weights[r] += row_of(x, r)[i] * x->positions[i];
    }
    normalize(x->weights, x->nr);
    memset(x->positions, 0, x->columns * sizeof(*x->positions));
    for (size_t r = 0; r < x->nr; r++)
        for (size_t i = 0; i < x->columns; i++)
            x->positions[i] += row_of(x, r)[i] * x->weights[r];
}

/* Find the first principal component by iteration. It starts with the row that moves most. */
static void find_positions(struct matrix *x)
{
    double most = -1;
    for (size_t r = 0; r < x->nr; r++) {
        double sum = 0;
        for (size_t i = 0; i < x->columns; i++)
            sum += row_of(x, r)[i] * row_of(x, r)[i];
        if (sum > most)
            memcpy(x->positions, row_of(x, r), x->columns * sizeof(*x->positions));
        most = fmax(most, sum);
    }
    for (int i = 0; i < ROUNDS; i++) {
        normalize(x->positions, x->columns);
        project(x);
    }
}

/* Subtract from the row what goes with the positions. */
static void correct(const struct diff *d, struct diff_row *row, const struct matrix *x)
{
    struct diff_test *t = &row->test[DIFF_SELF];
    double difference = 0, squares = 0, along = 0, rest = 0;
    for (size_t r = 0; r < x->nr; r++)
        difference += x->weights[r] * row_of(x, r)[x->columns];
    for (size_t i = 0; i < x->columns; i++) {
        squares += x->positions[i] * x->positions[i];
        along += x->positions[i] * off_mean(d, row, i);
    }
    if (!(squares > 0))
        return;
    for (size_t i = 0; i < x->columns; i++) {
        double left = off_mean(d, row, i) - along / squares * x->positions[i];
        rest += left * left;
    }
    t->own--;
    t->between = rest / t->own;
    t->corrected -= along / squares * difference;
    t->spread += difference * difference / squares;
}

int diff_take_factor(const struct diff *d, struct diff_row *const *heavy, size_t nr,
                     struct diff_row *row)
{
    size_t columns = d->recordings.nr;
    if (columns < RECORDINGS_LEAST || nr <= ROWS_LEAST)
        return 0;
    size_t rows = nr < ROWS_MOST ? nr : ROWS_MOST;
    double *room = calloc(rows * (columns + 1) + rows + columns, sizeof(*room));
    if (!room)
        return -1;
    struct matrix x = {.columns = columns,
                       .at = room,
                       .weights = room + rows * (columns + 1),
                       .positions = room + rows * (columns + 1) + rows};
    for (size_t i = 0; i < nr && x.nr < rows; i++)
        if (heavy[i] != row)
            take_row(d, row, heavy[i], &x);
    if (x.nr >= ROWS_LEAST) {
        find_positions(&x);
        correct(d, row, &x);
    }
    free(room);
    return 0;
}
