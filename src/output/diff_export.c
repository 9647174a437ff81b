/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the comparison for programs: JUnit XML for CI servers, and JSON (docs/diff.md). */
#include "output/diff.h"
#include "output/flamegraph.h"
#include "output/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const metric_names[] = {"self", "total"};

/* ---- JUnit ---------------------------------------------------------------------------------- */

static void put_case(const struct diff *d, const struct diff_row *row, enum diff_metric m,
                     struct text *t)
{
    const struct diff_test *test = &row->test[m];
    text_string(t, "    <testcase classname=\"");
    text_xml(t, row->source ? row->source : diff_level_name(d->options->level));
    text_string(t, "\" name=\"");
    text_xml(t, row->name);
    text_printf(t, " (%s)\"", metric_names[m]);
    if (test->verdict != DIFF_REGRESSION) {
        text_string(t, "/>\n");
        return;
    }
    text_string(t, ">\n      <failure type=\"regression\" message=\"");
    text_printf(t, "%s grew from %.2f%% to %.2f%% (%+.2f%%, 95%% interval %.2f to %.2f; p %.2g): ",
                metric_names[m], 100 * test->mean[DIFF_BASE], 100 * test->mean[DIFF_NEW],
                100 * test->change, 100 * (test->change - test->margin),
                100 * (test->change + test->margin), test->adjusted);
    text_xml(t, d->options->gates.at[test->gate].text);
    text_string(t, "\"/>\n    </testcase>\n");
}

static void put_whole_case(const struct diff *d, enum diff_whole w, struct text *t)
{
    const struct diff_change *c = &d->whole[w];
    text_string(t, "    <testcase classname=\"whole\" name=\"");
    text_xml(t, diff_whole_name(d, w));
    if (c->verdict != DIFF_REGRESSION) {
        text_string(t, "\"/>\n");
        return;
    }
    text_string(t, "\">\n      <failure type=\"regression\" message=\"it grew from ");
    diff_put_whole(d, w, c->mean[DIFF_BASE], t);
    text_string(t, " to ");
    diff_put_whole(d, w, c->mean[DIFF_NEW], t);
    text_printf(t, " (%+.1f%%, p %.2g): ", 100 * c->change, c->p);
    text_xml(t, d->options->gates.at[c->gate].text);
    text_string(t, "\"/>\n    </testcase>\n");
}

void diff_put_junit(const struct diff *d, struct text *t)
{
    uint32_t wholes = 0;
    for (int w = 0; w < DIFF_WHOLES; w++)
        wholes += d->whole[w].known;
    text_printf(t,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<testsuites>\n  <testsuite name=\"ljperf diff\" tests=\"%u\" failures=\"%u\" "
                "errors=\"0\" skipped=\"0\">\n",
                d->nr_tests + wholes, d->nr_regressions);
    for (int w = 0; w < DIFF_WHOLES; w++)
        if (d->whole[w].known)
            put_whole_case(d, w, t);
    vec_foreach (row, &d->rows)
        for (int m = 0; m < DIFF_METRICS; m++)
            if (row->test[m].tested)
                put_case(d, row, m, t);
    text_string(t, "  </testsuite>\n</testsuites>\n");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

enum { DIGITS = 8 }; /* of shares and probabilities */

static void put_number(struct json *j, const char *key, double value)
{
    if (key)
        json_key(j, key);
    json_fixed(j, llround(value * 1e8), DIGITS);
}

static void put_recording(struct json *j, const struct diff_recording *r)
{
    json_object(j);
    json_key_string(j, "path", r->path);
    json_key_string(j, "side", r->side == DIFF_BASE ? "base" : "new");
    json_key_uint(j, "samples", r->samples);
    json_key_uint(j, "lost", r->lost);
    json_key_uint(j, "weight", r->weight);
    json_key_uint(j, "wall_ns", r->wall_ns);
    put_number(j, "complete", r->complete);
    put_number(j, "unknown", r->unknown);
    json_object_end(j);
}

static void put_recordings(struct json *j, const struct diff *d)
{
    json_key(j, "recordings");
    json_array(j);
    vec_foreach (r, &d->recordings)
        put_recording(j, r);
    json_array_end(j);
    json_key(j, "left_out");
    json_array(j);
    vec_foreach (r, &d->left_out)
        put_recording(j, r);
    json_array_end(j);
}

static const char *const verdicts[] = {
    [DIFF_SAME] = "same",
    [DIFF_GROWN] = "more",
    [DIFF_SHRUNK] = "less",
    [DIFF_ALLOWED] = "allowed",
    [DIFF_REGRESSION] = "regression",
};

static void put_wholes(struct json *j, const struct diff *d)
{
    static const char *const names[] = {"samples", "weight", "wall_ns"};
    json_key(j, "whole");
    json_object(j);
    for (int w = 0; w < DIFF_WHOLES; w++) {
        const struct diff_change *c = &d->whole[w];
        if (!c->known)
            continue;
        json_key(j, names[w]);
        json_object(j);
        json_key_string(j, "name", diff_whole_name(d, w));
        json_key_string(j, "unit",
                        w == WHOLE_SAMPLES ? "count"
                        : w == WHOLE_WALL  ? "nanoseconds"
                        : d->unit          ? d->unit
                                           : "count");
        json_key_uint(j, "base", (uint64_t)llround(c->mean[DIFF_BASE]));
        json_key_uint(j, "new", (uint64_t)llround(c->mean[DIFF_NEW]));
        put_number(j, "change", c->change);
        put_number(j, "margin", c->margin);
        put_number(j, "p", c->p);
        json_key_string(j, "verdict", verdicts[c->verdict]);
        if (c->verdict == DIFF_REGRESSION)
            json_key_string(j, "gate", d->options->gates.at[c->gate].text);
        json_object_end(j);
    }
    json_object_end(j);
}

static void put_test(struct json *j, const struct diff *d, const struct diff_row *row,
                     enum diff_metric m)
{
    const struct diff_test *t = &row->test[m];
    json_key(j, metric_names[m]);
    json_object(j);
    put_number(j, "base", t->mean[DIFF_BASE]);
    put_number(j, "new", t->mean[DIFF_NEW]);
    put_number(j, "change", t->change);
    put_number(j, "corrected", t->corrected);
    put_number(j, "margin", t->margin);
    put_number(j, "freedom", t->freedom);
    put_number(j, "p", t->p);
    put_number(j, "adjusted", t->adjusted);
    json_key(j, "tested");
    json_bool(j, t->tested);
    json_key_string(j, "verdict", verdicts[t->verdict]);
    if (t->verdict == DIFF_REGRESSION)
        json_key_string(j, "gate", d->options->gates.at[t->gate].text);
    json_key(j, "shares");
    json_array(j);
    for (size_t i = 0; i < d->recordings.nr; i++)
        put_number(j, NULL, row->shares[i].share[m]);
    json_array_end(j);
    json_key(j, "deviations");
    json_array(j);
    for (size_t i = 0; i < d->recordings.nr; i++)
        put_number(j, NULL, sqrt(row->shares[i].variance[m]));
    json_array_end(j);
    json_object_end(j);
}

static void put_row(struct json *j, const struct diff *d, const struct diff_row *row)
{
    json_object(j);
    json_key_string(j, "name", row->name);
    json_key_string(j, "source", row->source);
    if (row->line)
        json_key_uint(j, "line", row->line);
    put_number(j, "doubtful", row->doubtful);
    for (int m = 0; m < DIFF_METRICS; m++)
        put_test(j, d, row, m);
    json_object_end(j);
}

int diff_write_json(const struct diff *d, FILE *out, struct error *err)
{
    struct json *j = json_create(out);
    if (!j)
        return error_no_memory(err);
    json_object(j);
    json_key_string(j, "level", diff_level_name(d->options->level));
    json_key_string(j, "event", d->recordings.at[0].event);
    put_number(j, "alpha", d->options->alpha);
    put_number(j, "min_weight", d->options->least_weight);
    put_number(j, "run_noise", d->options->noise);
    json_key_uint(j, "tests", d->nr_tests);
    json_key_uint(j, "regressions", d->nr_regressions);
    put_recordings(j, d);
    put_wholes(j, d);
    json_key(j, "rows");
    json_array(j);
    vec_foreach (row, &d->rows)
        put_row(j, d, row);
    json_array_end(j);
    json_object_end(j);
    return json_finish(j) ? 0 : error_no_memory(err);
}

/* ---- github-action-benchmark ---------------------------------------------------------------- */

/* One value: {"name", "unit", "value", "range", "extra"}. */
static void put_benchmark(struct json *j, const char *name, const char *unit, double value,
                          double margin, double base)
{
    char range[48], extra[64];
    snprintf(range, sizeof(range), "%.3g", margin);
    snprintf(extra, sizeof(extra), "base: %.6g", base);
    json_object(j);
    json_key_string(j, "name", name);
    json_key_string(j, "unit", unit);
    put_number(j, "value", value);
    json_key_string(j, "range", range);
    json_key_string(j, "extra", extra);
    json_object_end(j);
}

static void put_whole_benchmark(struct json *j, const struct diff *d, enum diff_whole w)
{
    const double ns_of_ms = 1e6;
    const struct diff_change *c = &d->whole[w];
    const char *unit = w == WHOLE_WEIGHT && d->unit ? d->unit : "count";
    bool is_time = w == WHOLE_WALL || strcmp(unit, "nanoseconds") == 0;
    double by = is_time ? ns_of_ms : 1;
    put_benchmark(j, diff_whole_name(d, w), is_time ? "ms" : unit, c->mean[DIFF_NEW] / by,
                  c->margin * c->mean[DIFF_BASE] / by, c->mean[DIFF_BASE] / by);
}

static void put_row_benchmark(struct json *j, const struct diff_row *row)
{
    const struct diff_test *t = &row->test[DIFF_SELF];
    struct text name = {0};
    text_printf(&name, "self %s%s%s%c", row->name, row->source ? " " : "",
                row->source ? row->source : "", 0);
    put_benchmark(j, name.failed ? row->name : name.at, "%", 100 * t->mean[DIFF_NEW],
                  100 * t->margin, 100 * t->mean[DIFF_BASE]);
    text_free(&name);
}

int diff_write_benchmark(const struct diff *d, FILE *out, struct error *err)
{
    struct json *j = json_create(out);
    if (!j)
        return error_no_memory(err);
    json_array(j);
    for (int w = 0; w < DIFF_WHOLES; w++)
        if (d->whole[w].known)
            put_whole_benchmark(j, d, w);
    vec_foreach (row, &d->rows)
        if (row->test[DIFF_SELF].tested)
            put_row_benchmark(j, row);
    json_array_end(j);
    return json_finish(j) ? 0 : error_no_memory(err);
}
