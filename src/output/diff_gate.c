/* SPDX-License-Identifier: GPL-2.0-only */
/* Gates: how they are written, and which gate a change breaks. */
#include "output/diff.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_word(const char *s, const char *word)
{
    size_t size = strlen(word);
    return strncmp(s, word, size) == 0 ? s + size : NULL;
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* Parse the limit after the metric, e.g. "> +2%". */
static bool parse_limit(const char *s, struct diff_gate *g)
{
    char *end;
    s = skip_blanks(s);
    if (*s++ != '>')
        return false;
    g->or_equal = *s == '=';
    s = skip_blanks(s + g->or_equal);
    s += *s == '+';
    if (*s < '0' || *s > '9')
        return false;
    g->limit = strtod(s, &end) / 100;
    if (*end++ != '%' || !(g->limit <= 1000))
        return false;
    end = (char *)skip_blanks(end);
    g->relative = strcmp(end, "rel") == 0;
    return g->relative || !*end;
}

int diff_gate_parse(const char *text, struct diff_gate *ret, struct error *err)
{
    static const char *const metrics[] = {"self", "total", "samples", "cpu", "wall"};
    *ret = (struct diff_gate){.text = text};
    const char *sign = strrchr(text, '>');
    const char *start = sign; /* of the metric's word: patterns may contain colons */
    while (start && start > text && start[-1] != ':')
        start--;
    for (int m = 0; start && m < DIFF_METRICS + DIFF_WHOLES; m++) {
        const char *rest = skip_word(skip_blanks(start), metrics[m]);
        ret->metric = (uint8_t)m;
        if (!rest || !parse_limit(rest, ret))
            continue;
        if (start > text && m >= DIFF_METRICS)
            return error_set(err, ERROR_FORMAT, "`%.60s': %s is of the whole, and has no pattern",
                             text, metrics[m]);
        if (start > text && !(ret->pattern = strndup(text, (size_t)(start - text) - 1)))
            return error_no_memory(err);
        return 0;
    }
    return error_set(err, ERROR_FORMAT,
                     "`%.60s' is not a gate; a gate is [PATTERN:]self>+2%%, total>=+5%% or, "
                     "relative to the function's old share, self>+20%%rel; of the whole cpu>+5%%, "
                     "wall>+5%%, samples>+5%%",
                     text);
}

void diff_gate_free(struct diff_gate *g)
{
    free(g->pattern);
    g->pattern = NULL;
}

/* A pattern matches the name alone, or the name and its source as they are printed. */
static bool matches(const char *pattern, const struct diff_row *row)
{
    if (fnmatch(pattern, row->name, 0) == 0)
        return true;
    if (!row->source)
        return false;
    struct text t = {0};
    text_printf(&t, "%s %s%c", row->name, row->source, 0);
    bool ret = !t.failed && fnmatch(pattern, t.at, 0) == 0;
    text_free(&t);
    return ret;
}

static bool applies(const struct diff_gate *g, const struct diff_row *row, enum diff_metric m)
{
    return g->metric == m && (!g->pattern || matches(g->pattern, row));
}

static double limit_of(const struct diff_gate *g, const struct diff_row *row)
{
    return g->relative ? g->limit * row->test[g->metric].mean[DIFF_BASE] : g->limit;
}

double diff_gate_limit(const struct diff *d, const struct diff_row *row, enum diff_metric m)
{
    double least = -1;
    vec_foreach (g, &d->options->gates)
        if (applies(g, row, m) && (least < 0 || limit_of(g, row) < least))
            least = limit_of(g, row);
    return least;
}

bool diff_is_allowed(const struct diff *d, const struct diff_row *row)
{
    vec_foreach (pattern, &d->options->allowed)
        if (matches(*pattern, row))
            return true;
    return false;
}

int diff_broken_gate(const struct diff *d, const struct diff_row *row, enum diff_metric m)
{
    const struct diff_test *t = &row->test[m];
    for (size_t i = 0; i < d->options->gates.nr; i++) {
        const struct diff_gate *g = &d->options->gates.at[i];
        double limit = limit_of(g, row), grown = fmin(t->change, t->corrected);
        if (applies(g, row, m) && (g->or_equal ? grown >= limit : grown > limit))
            return (int)i;
    }
    return -1;
}

int diff_broken_whole_gate(const struct diff *d, enum diff_whole w)
{
    const double grown = d->whole[w].change;
    for (size_t i = 0; i < d->options->gates.nr; i++) {
        const struct diff_gate *g = &d->options->gates.at[i];
        bool is_total = g->metric == DIFF_TOTAL && !g->pattern && w == WHOLE_WEIGHT;
        if (!is_total && g->metric != DIFF_METRICS + w)
            continue;
        if (g->or_equal ? grown >= g->limit : grown > g->limit)
            return (int)i;
    }
    return -1;
}
