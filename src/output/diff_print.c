/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the comparison for people: text for a terminal or a log, Markdown for a pull request. */
#include "output/diff.h"
#include "output/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const metric_titles[] = {"Self", "Total"};
static const char *const verdict_words[] = {
    [DIFF_SAME] = "",
    [DIFF_GROWN] = "more",
    [DIFF_SHRUNK] = "less",
    [DIFF_ALLOWED] = "more (allowed)",
    [DIFF_REGRESSION] = "REGRESSION",
};

/* ---- which rows, in which order -------------------------------------------------------------- */

static int by_verdict_and_change(const void *a, const void *b, void *context)
{
    enum diff_metric m = *(enum diff_metric *)context;
    const struct diff_row *x = *(const struct diff_row *const *)a;
    const struct diff_row *y = *(const struct diff_row *const *)b;
    int order = y->test[m].verdict - x->test[m].verdict;
    double p = fabs(x->test[m].change);
    double q = fabs(y->test[m].change);
    if (order)
        return order;
    return p < q ? 1 : p > q ? -1 : x < y ? -1 : x > y; /* equal rows keep their order */
}

/* Choose the rows to print: those that were tested or have a verdict. If `most` is not 0, print at
 * most so many, but always those with a verdict. The caller frees the table. */
static size_t choose_rows(const struct diff *d, enum diff_metric m, size_t most,
                          const struct diff_row ***ret)
{
    size_t nr = 0;
    *ret = calloc(d->rows.nr + 1, sizeof(**ret));
    for (size_t i = 0; *ret && i < d->rows.nr; i++) {
        const struct diff_test *t = &d->rows.at[i].test[m];
        if (t->tested || t->verdict != DIFF_SAME)
            (*ret)[nr++] = &d->rows.at[i];
    }
    if (nr)
        qsort_r(*ret, nr, sizeof(**ret), by_verdict_and_change, &m);
    size_t judged = 0;
    while (judged < nr && (*ret)[judged]->test[m].verdict != DIFF_SAME)
        judged++;
    return most && nr > most ? (judged > most ? judged : most) : nr;
}

/* ---- parts of both formats ------------------------------------------------------------------ */

static void put_side(const struct diff *d, enum diff_side side, const char *what, struct text *t)
{
    uint64_t samples = 0;
    vec_foreach (r, &d->recordings)
        samples += r->side == side ? r->samples : 0;
    text_printf(t, "%u %s recording%s (%" PRIu64 " samples)", d->nr[side], what,
                d->nr[side] == 1 ? "" : "s", samples);
}

static void put_account(const struct diff *d, struct text *t)
{
    const struct diff_options *o = d->options;
    put_side(d, DIFF_BASE, "base", t);
    text_string(t, ", ");
    put_side(d, DIFF_NEW, "new", t);
    text_printf(t, " of %s", d->recordings.at[0].event);
    text_printf(t,
                "; %u tests of %ss with at least %g%% of the samples; without a change, a false "
                "alarm in at most %g%% of comparisons",
                d->nr_tests, diff_level_name(o->level), 100 * o->least_weight, 100 * o->alpha);
}

/* Warn of everything that makes shares less comparable than they look. */
static void put_warnings(const struct diff *d, const char *before, struct text *t)
{
    if (d->nr[DIFF_BASE] < 2 || d->nr[DIFF_NEW] < 2)
        text_printf(t,
                    "%sone recording on a side: runs are assumed to differ by %g%% of a share; "
                    "record at least three on each side\n",
                    before, 100 * d->options->noise);
    double least = 1;
    double most = 0;
    vec_foreach (r, &d->left_out)
        text_printf(t,
                    "%s%s is left out, because %.0f%% of its samples were lost or are not exact, "
                    "unlike in others\n",
                    before, r->path, 100 * r->unknown);
    vec_foreach (r, &d->recordings) {
        least = fmin(least, r->complete);
        most = fmax(most, r->complete);
        if (r->lost * 100 > r->samples)
            text_printf(t,
                        "%s%s: %" PRIu64 " of %" PRIu64
                        " samples were lost while recording; which ones is not chance\n",
                        before, r->path, r->lost, r->lost + r->samples);
    }
    if (most - least > 0.02)
        text_printf(t,
                    "%s%.1f%% of the stacks are complete in some recordings, %.1f%% in others; "
                    "totals of outer functions differ for this reason alone\n",
                    before, 100 * least, 100 * most);
}

static void put_place(const struct diff_row *row, struct text *t)
{
    if (!row->source)
        return;
    text_string(t, "  ");
    text_symbol(t, row->source);
    if (row->line)
        text_printf(t, ":%u", row->line);
}

static void put_chance(const struct diff_test *t, struct text *out)
{
    if (!t->tested)
        text_printf(out, "%8s", "-");
    else if (t->adjusted < 0.0001)
        text_printf(out, "%8s", "<0.0001");
    else
        text_printf(out, "%8.4f", t->adjusted);
}

static void put_outcome(const struct diff *d, struct text *t)
{
    if (d->nr_regressions)
        text_printf(t, "%u regression%s", d->nr_regressions, d->nr_regressions == 1 ? "" : "s");
    else
        text_string(t, "no regression");
    const struct diff_change *c = &d->whole[WHOLE_WEIGHT];
    if (c->known && c->verdict == DIFF_GROWN) {
        text_printf(t, "; but the %s grew by %.0f%%, which no gate forbids (--fail-on '%s>+N%%')",
                    diff_whole_name(d, WHOLE_WEIGHT), 100 * c->change,
                    d->is_cpu_time ? "cpu" : "total");
    }
}

/* What shares cannot show: "# cpu time  1.02 s -> 3.06 s  +200.0% +/- 20.0  more". */
static void put_wholes(const struct diff *d, const char *before, struct text *t)
{
    for (int w = 0; w < DIFF_WHOLES; w++) {
        const struct diff_change *c = &d->whole[w];
        if (!c->known)
            continue;
        text_printf(t, "%s%-9s  ", before, diff_whole_name(d, w));
        diff_put_whole(d, w, c->mean[DIFF_BASE], t);
        text_string(t, " -> ");
        diff_put_whole(d, w, c->mean[DIFF_NEW], t);
        text_printf(t, "  %+.1f%% +/- %.1f", 100 * c->change, 100 * c->margin);
        if (c->verdict != DIFF_SAME)
            text_printf(t, "  %s", verdict_words[c->verdict]);
        if (c->verdict == DIFF_REGRESSION)
            text_printf(t, " (%s)", d->options->gates.at[c->gate].text);
        text_char(t, '\n');
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

static void put_text_row(const struct diff *d, const struct diff_row *row, enum diff_metric m,
                         struct text *t)
{
    const struct diff_test *test = &row->test[m];
    text_printf(t, "  %7.2f%% %7.2f%% %+7.2f%% %6.2f ", 100 * test->mean[DIFF_BASE],
                100 * test->mean[DIFF_NEW], 100 * test->change, 100 * test->margin);
    put_chance(test, t);
    text_printf(t, "  %-14s  ", verdict_words[test->verdict]);
    text_symbol(t, row->name);
    put_place(row, t);
    if (test->verdict == DIFF_REGRESSION)
        text_printf(t, "  (%s)", d->options->gates.at[test->gate].text);
    if (fabs(test->change - test->corrected) >= 0.005)
        text_printf(t, "  [%+.2f%% of it as other functions moved]",
                    100 * (test->change - test->corrected));
    if (row->doubtful >= 0.01)
        text_printf(t, "  [%.0f%% in stacks that are not exact]", 100 * row->doubtful);
    text_char(t, '\n');
}

void diff_put_text(const struct diff *d, size_t rows, struct text *t)
{
    text_string(t, "# ");
    put_account(d, t);
    text_char(t, '\n');
    put_warnings(d, "# ", t);
    put_wholes(d, "# ", t);
    for (int m = 0; m < DIFF_METRICS; m++) {
        const struct diff_row **chosen;
        size_t nr = choose_rows(d, m, rows, &chosen);
        if (!nr) {
            free(chosen);
            continue;
        }
        text_printf(t, "#\n# %s\n#    base      new   change     +/-        p                  ",
                    metric_titles[m]);
        text_printf(t, "%s\n", diff_level_name(d->options->level));
        for (size_t i = 0; i < nr; i++)
            put_text_row(d, chosen[i], m, t);
        free(chosen);
    }
    text_string(t, "#\n# ");
    put_outcome(d, t);
    text_char(t, '\n');
}

/* ---- Markdown ------------------------------------------------------------------------------- */

/* Write code for a cell of a table. */
static void put_code(const char *s, struct text *t)
{
    struct text plain = {0};
    text_symbol(&plain, s);
    bool ticks = plain.at && memchr(plain.at, '`', plain.size) != NULL;
    text_string(t, ticks ? "`` " : "`");
    for (size_t i = 0; plain.at && i < plain.size; i++) {
        if (plain.at[i] == '|')
            text_char(t, '\\');
        text_char(t, plain.at[i]);
    }
    text_string(t, ticks ? " ``" : "`");
    t->failed |= plain.failed;
    text_free(&plain);
}

static void put_markdown_row(const struct diff *d, const struct diff_row *row, enum diff_metric m,
                             struct text *t)
{
    const struct diff_test *test = &row->test[m];
    text_string(t, "| ");
    put_code(row->name, t);
    if (row->source) {
        text_char(t, ' ');
        put_code(row->source, t);
    }
    if (row->line)
        text_printf(t, " line %u", row->line);
    text_printf(t, " | %.2f%% | %.2f%% | %+.2f%% ± %.2f | ", 100 * test->mean[DIFF_BASE],
                100 * test->mean[DIFF_NEW], 100 * test->change, 100 * test->margin);
    put_chance(test, t);
    text_string(t, " | ");
    if (test->verdict == DIFF_REGRESSION) {
        text_string(t, "**regression** ");
        put_code(d->options->gates.at[test->gate].text, t);
    } else {
        text_string(t, verdict_words[test->verdict]);
    }
    text_string(t, " |\n");
}

void diff_put_markdown(const struct diff *d, size_t rows, struct text *t)
{
    text_string(t, "### ljperf diff: ");
    put_outcome(d, t);
    text_string(t, "\n\n");
    put_account(d, t);
    text_string(t, ".\n\n");
    put_warnings(d, "- ", t);
    put_wholes(d, "- ", t);
    for (int m = 0; m < DIFF_METRICS; m++) {
        const struct diff_row **chosen;
        size_t nr = choose_rows(d, m, rows, &chosen);
        if (!nr) {
            free(chosen);
            continue;
        }
        text_printf(t, "\n| %s | %s: base | new | change | p | |\n|---|--:|--:|--:|--:|---|\n",
                    diff_level_name(d->options->level), metric_titles[m]);
        for (size_t i = 0; i < nr; i++)
            put_markdown_row(d, chosen[i], m, t);
        free(chosen);
    }
}
