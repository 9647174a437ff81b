/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf diff: are the recordings of a new version worse than those of the old version? */
#include "cmd/common.h"
#include "base/private_file.h"
#include "output/diff.h"
#include "output/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum format {
    FORMAT_TEXT,
    FORMAT_MARKDOWN,
    FORMAT_JSON,
    FORMAT_JUNIT,
    FORMAT_BENCHMARK,
    NR_FORMATS
};
static const char *const format_names[] = {"text", "markdown", "json", "junit", "benchmark", NULL};
/* In the order of enum diff_level. */
static const char *const level_names[] = {"function", "file", "module", "state", NULL};
_Static_assert(sizeof(level_names) / sizeof(*level_names) == DIFF_LEVELS + 1, "a name a level");

struct diff_command {
    struct diff_options diff;
    name_list base, arguments;
    enum format format;
    size_t limit;
    const char *config, *output;
    const char *also[NR_FORMATS]; /* more files to write, by format */
    char *config_text;            /* the values from the configuration point into it */
    /* Bits of the settings on the command line; the configuration must not override them. */
    unsigned given;
};

/* ---- values --------------------------------------------------------------------------------- */

/* Take a share of 0 to 100 percent, "5%" or "5". */
static int take_share(const struct option_value *v, double *ret, struct error *err)
{
    char *end;
    double number = strtod(v->text, &end);
    if (end == v->text || (*end && strcmp(end, "%") != 0) || !(number >= 0 && number <= 100))
        return option_error(v, err, "expects a share from 0%% to 100%%, not `%.60s'", v->text);
    *ret = number / 100;
    return 0;
}

static int take_least_weight(void *target, const struct option_value *v, struct error *err)
{
    return take_share(v, &((struct diff_command *)target)->diff.least_weight, err);
}

static int take_noise(void *target, const struct option_value *v, struct error *err)
{
    return take_share(v, &((struct diff_command *)target)->diff.noise, err);
}

static int take_alpha(void *target, const struct option_value *v, struct error *err)
{
    struct diff_command *c = target;
    char *end;
    c->diff.alpha = strtod(v->text, &end);
    if (end == v->text || *end || !(c->diff.alpha > 0 && c->diff.alpha <= 0.5))
        return option_error(v, err, "expects a probability above 0 and up to 0.5, not `%.60s'",
                            v->text);
    return 0;
}

static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    size_t size = strlen(s);
    while (size && strchr(" \t\r", s[size - 1]))
        s[--size] = 0;
    return s;
}

/* Split at commas and trim blanks, which make a list easier to read. */
static int parse_list(char *value, name_list *list, struct error *err)
{
    for (char *name; (name = strsep(&value, ","));) {
        name = trim(name);
        if (*name && !vec_push(list, name))
            return error_no_memory(err);
    }
    return 0;
}

static int add_gate(struct diff_command *c, const char *value, struct error *err)
{
    struct diff_gate gate;
    if (diff_gate_parse(value, &gate, err) < 0)
        return -1;
    if (vec_push(&c->diff.gates, gate))
        return 0;
    diff_gate_free(&gate);
    return error_no_memory(err);
}

static int take_gate(void *target, const struct option_value *v, struct error *err)
{
    return add_gate(target, v->text, err);
}

static int take_allowed(void *target, const struct option_value *v, struct error *err)
{
    struct diff_command *c = target;
    name_list patterns = {0};
    int failed = parse_list(v->text, &patterns, err);
    vec_foreach (pattern, &patterns)
        if (!failed && !vec_push(&c->diff.allowed, *pattern))
            failed = error_no_memory(err);
    vec_free(&patterns);
    return failed;
}

static int take_base(void *target, const struct option_value *v, struct error *err)
{
    return parse_list(v->text, &((struct diff_command *)target)->base, err);
}

static int take_argument(void *target, char *text, struct error *err)
{
    struct diff_command *c = target;
    return vec_push(&c->arguments, text) ? 0 : error_no_memory(err);
}

/* ---- options ------------------------------------------------------------------------------- */

static const struct option_row rows[] = {
    {ROW_CALL(
        0, "base", "FILE", take_base,
        "Use FILE as a recording of the old version. All arguments are then recordings of the "
        "new version.")},
    {ROW_FLAG(0, "samples", struct diff_command, diff.samples, "Count samples, not periods.")},
    {ROW_STRING(0, "config", "FILE", struct diff_command, config,
                "Read settings from FILE (.ljperf-diff, if it exists).")},
    {ROW_WORD(
        0, "format", "NAME", struct diff_command, format, format_names,
        "Print text, markdown, json, junit or benchmark (for github-action-benchmark) (text).")},
    {ROW_NUMBER(
        0, "limit", "N", struct diff_command, limit, 0, SIZE_MAX,
        "Print at most N rows besides those that changed, in text and Markdown. 0 prints all "
        "(20).")},
    {ROW_STRING('o', "output", "FILE", struct diff_command, output,
                "Write to FILE instead of to standard output.")},
    {ROW_STRING(0, "markdown", "FILE", struct diff_command, also[FORMAT_MARKDOWN],
                "Also write Markdown to FILE.")},
    {ROW_STRING(0, "json", "FILE", struct diff_command, also[FORMAT_JSON],
                "Also write JSON to FILE.")},
    {ROW_STRING(0, "junit", "FILE", struct diff_command, also[FORMAT_JUNIT],
                "Also write JUnit XML to FILE.")},
    {ROW_STRING(0, "benchmark", "FILE", struct diff_command, also[FORMAT_BENCHMARK],
                "Also write the new version's values to FILE, for github-action-benchmark.")},
    {0},
};

/* Options that a configuration may also set, by the same names. */
static const struct option_row settings[] = {
    {ROW_CALL(
        0, "fail-on", "GATE", take_gate,
        "Fail if a function grows by more than GATE: [PATTERN:]self>+N% or total>=+N%, as a "
        "share of all samples, or with %rel of what the function had before; or if the whole does: "
        "cpu>+N%, wall>+N%, samples>+N%. The option may be "
        "repeated (self>+1%).")},
    {ROW_CALL(0, "allow", "PATTERNS", take_allowed,
              "Let these functions grow (separated by commas)."),
     .list = true},
    {ROW_WORD(0, "by", "LEVEL", struct diff_command, diff.level, level_names,
              "Compare by function, file, module or state (function).")},
    {ROW_CALL(0, "min-weight", "N%", take_least_weight,
              "Do not test what has a smaller share on both sides (0.5%).")},
    {ROW_CALL(0, "alpha", "P", take_alpha,
              "Accept this probability of a false alarm in a whole comparison (0.05).")},
    {ROW_CALL(0, "run-noise", "N%", take_noise,
              "Assume that a share varies this much from run to run (8%).")},
    {0},
};

static void note_setting(void *target, const struct option_row *row)
{
    struct diff_command *c = target;
    for (unsigned i = 0; !option_row_is_end(&settings[i]); i++)
        if (row == &settings[i])
            c->given |= 1U << i;
}

const struct option_set diff_command_line = {
    .name = "ljperf diff",
    .usage = "[options] BASE NEW [NEW...]\n[options] --base BASE [--base BASE...] NEW [NEW...]",
    .about =
        "Compares the recordings of two versions of a program by the share of all samples that\n"
        "each function has. It tells which differences are more than noise, and exits 1 when\n"
        "one of them breaks a gate. BASE and NEW may be several recordings, separated by\n"
        "commas. At least three recordings a side are recommended.\n",
    .sections = {{.rows = rows},
                 {.title = "Settings, also in a configuration file", .rows = settings},
                 COMMON_SECTION},
    .closing = "Exit status: 0 no regression, 1 a regression, 2 bad usage or input.\n",
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
    .argument_name = "FILE",
    .seen = note_setting,
};

/* ---- the configuration ----------------------------------------------------------------------- */

/* Returns the text of the file; NULL without an error: no file, and none was required. */
static char *read_config(const char *path, bool must, struct error *err)
{
    enum { SIZE_MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    if (!file) {
        if (must || errno != ENOENT)
            error_system(err, errno, "%s: cannot read", path);
        return NULL;
    }
    char *text = calloc(1, SIZE_MOST + 1);
    size_t size = text ? fread(text, 1, SIZE_MOST, file) : 0;
    if (!text)
        error_no_memory(err);
    else if (ferror(file))
        error_system(err, errno, "%s: cannot read", path);
    else if (size == SIZE_MOST)
        error_set(err, ERROR_FORMAT, "%s: the configuration is larger than 1 MiB", path);
    fclose(file);
    return text;
}

/* Take one line `NAME = VALUE`; lines that begin with # and empty lines are ignored. Options from
 * the command line override the configuration, except --allow: its patterns add up. */
static int take_config_line(struct diff_command *c, char *line, struct error *err)
{
    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    char *sign = strchr(line, '=');
    if (!sign)
        return error_set(err, ERROR_FORMAT, "expected NAME = VALUE, not `%.100s'", line);
    *sign = 0;
    char *name = trim(line);
    for (unsigned i = 0; !option_row_is_end(&settings[i]); i++) {
        const struct option_row *row = &settings[i];
        if (strcmp(name, row->name) != 0)
            continue;
        bool given = c->given >> i & 1;
        if (given && row->take != take_allowed)
            return 0;
        return options_take(&diff_command_line.sections[0], row, (void *const[]){c}, trim(sign + 1),
                            err);
    }
    return error_set(err, ERROR_FORMAT,
                     "unknown setting `%.60s'; the settings are fail-on, allow, by, min-weight, "
                     "alpha and run-noise",
                     name);
}

static int take_config(struct diff_command *c, struct error *err)
{
    const char *path = c->config ? c->config : ".ljperf-diff";
    unsigned number = 1;
    c->config_text = read_config(path, c->config != NULL, err);
    if (err->kind != ERROR_NONE)
        return -1;
    char *rest = c->config_text;
    for (char *line; rest && (line = strsep(&rest, "\n")); number++) {
        struct error why = {0};
        if (take_config_line(c, line, &why) < 0)
            return error_set(err, ERROR_FORMAT, "%s:%u: %s", path, number, why.text);
    }
    return 0;
}

/* ---- sides ---------------------------------------------------------------------------------- */

/* Put the recordings of each side into `sides`. */
static int take_sides(struct diff_command *c, name_list *sides, struct error *err)
{
    size_t first_new = c->base.nr ? 0 : 1;
    for (size_t i = 0; i < c->base.nr; i++)
        if (!vec_push(&sides[DIFF_BASE], c->base.at[i]))
            return error_no_memory(err);
    for (size_t i = 0; i < c->arguments.nr; i++)
        if (parse_list((char *)c->arguments.at[i], &sides[i < first_new ? DIFF_BASE : DIFF_NEW],
                       err) < 0)
            return -1;
    if (!sides[DIFF_BASE].nr || !sides[DIFF_NEW].nr)
        return error_set(err, ERROR_FORMAT, "diff needs two recordings: ljperf diff BASE NEW");
    return 0;
}

static double complete_share(const struct replay_stats *st)
{
    return st->user ? (double)st->ends[STACK_COMPLETE] / (double)st->user : 1;
}

/* A gate that can never break is a mistake. */
static int check_whole_gates(const struct diff *d, const char *event, struct error *err)
{
    vec_foreach (g, &d->options->gates)
        if (g->metric == DIFF_METRICS + WHOLE_WEIGHT && !d->is_cpu_time)
            return error_set(err, ERROR_FORMAT,
                             "`%.60s': %.60s counts no processor time; its gate is total>+N%%",
                             g->text, event ? event : "the event");
    return 0;
}

static int add_stacks(struct diff *d, struct replay *r, const struct stacks *s, const char *path,
                      enum diff_side side, struct error *err)
{
    const char *name = common_event_name(r, s);
    const struct replay_stats *st = replay_stats(r);
    const char *kept = intern_string(d->strings, name ? name : "unknown");
    if (!kept)
        return error_no_memory(err);
    struct diff_recording recording = {.path = path,
                                       .event = kept,
                                       .side = side,
                                       .read = replay_stats(r)->samples,
                                       .lost = perfdata_loss(replay_perfdata(r))->samples_lost,
                                       .wall_ns = st->last > st->first ? st->last - st->first : 0,
                                       .complete = complete_share(st)};
    const struct export e = {.replay = r};
    const unsigned event = (unsigned)stacks_event(s, -1);
    d->unit = export_unit(&e, event);
    d->is_cpu_time = export_is_cpu_time(&e, event);
    if (check_whole_gates(d, name, err) < 0)
        return -1;
    return diff_add(d, &recording, s, err);
}

static int add_recording(const struct common *c, struct diff *d, const char *path,
                         enum diff_side side, struct error *err)
{
    struct replay *r;
    struct common own = *c;
    struct stacks_options kept = diff_stacks_options(d->options->level);
    own.replay.input = path;
    own.replay.symbols.lines = kept.by_line;
    own.replay.progress_context = &own;
    own.quiet = !c->verbose;
    own.unpacked = NULL;
    if (common_unpack(&own, err) < 0)
        return -1;
    if (replay_create(&own.replay, &r, err) < 0) {
        unpacked_free(own.unpacked);
        return -1;
    }
    struct stacks *s = common_collect(&own, r, &kept, err);
    int failed = !s || add_stacks(d, r, s, path, side, err) < 0;
    stacks_free(s);
    replay_free(r);
    unpacked_free(own.unpacked);
    return failed ? -1 : 0;
}

/* ---- output --------------------------------------------------------------------------------- */

static int write_text(const struct diff_command *c, const struct diff *d, enum format format,
                      const char *path, struct error *err)
{
    struct text out = {0};
    if (format == FORMAT_JUNIT)
        diff_put_junit(d, &out);
    else if (format == FORMAT_MARKDOWN)
        diff_put_markdown(d, c->limit, &out);
    else
        diff_put_text(d, c->limit, &out);
    int failed = common_write(path, &out, err);
    text_free(&out);
    return failed;
}

static int write_json(const struct diff *d, enum format format, const char *path, struct error *err)
{
    FILE *out = path ? callers_file_create(path) : stdout;
    if (!out)
        return error_system(err, errno, "%s: cannot write", path);
    int failed = format == FORMAT_BENCHMARK ? diff_write_benchmark(d, out, err)
                                            : diff_write_json(d, out, err);
    if (fflush(out) != 0 && errno != EPIPE && !failed)
        failed = error_system(err, errno, "cannot write the output");
    if (path)
        fclose(out);
    return failed;
}

static int write_format(const struct diff_command *c, const struct diff *d, enum format format,
                        const char *path, struct error *err)
{
    return format == FORMAT_JSON || format == FORMAT_BENCHMARK
               ? write_json(d, format, path, err)
               : write_text(c, d, format, path, err);
}

static int write_all(const struct diff_command *c, const struct diff *d, struct error *err)
{
    for (int f = 0; f < NR_FORMATS; f++)
        if (c->also[f] && write_format(c, d, (enum format)f, c->also[f], err) < 0)
            return -1;
    return write_format(c, d, c->format, c->output, err);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns the number of regressions, or -1. */
static int compare(const struct common *c, const struct diff_command *dc, const name_list *sides,
                   struct error *err)
{
    struct diff d;
    if (diff_init(&d, &dc->diff, err) < 0)
        return -1;
    int failed = 0;
    for (int side = 0; side < DIFF_SIDES; side++)
        for (size_t i = 0; !failed && i < sides[side].nr; i++)
            failed = add_recording(c, &d, sides[side].at[i], (enum diff_side)side, err);
    failed = failed || diff_finish(&d, err) < 0 || write_all(dc, &d, err) < 0;
    int ret = failed ? -1 : (int)d.nr_regressions;
    diff_free(&d);
    return ret;
}

static int run(const struct common *c, struct diff_command *dc)
{
    name_list sides[DIFF_SIDES] = {0};
    struct error err = {0};
    int found = -1;
    if (take_config(dc, &err) == 0 && (dc->diff.gates.nr || add_gate(dc, "self>+1%", &err) == 0) &&
        take_sides(dc, sides, &err) == 0)
        found = compare(c, dc, sides, &err);
    vec_free(&sides[DIFF_BASE]);
    vec_free(&sides[DIFF_NEW]);
    return found < 0 ? command_error("diff", &err, EXIT_BAD_USAGE) : found > 0;
}

/* Check that two sides are given. Returns -1, or the status to exit with. */
static int check(const struct common *c, const struct diff_command *dc)
{
    struct error err = {0};
    if (c->replay.input)
        error_set(&err, ERROR_FORMAT, "option `input' is not used here: ljperf diff BASE NEW");
    else if (dc->arguments.nr < (dc->base.nr ? 1 : 2))
        error_set(&err, ERROR_FORMAT, "two sides are needed: ljperf diff BASE NEW");
    else
        return -1;
    return command_line_error(&diff_command_line, NULL, &err);
}

int cmd_diff(int argc, char **argv)
{
    struct common c;
    struct diff_command dc = {.diff = {.alpha = 0.05, .least_weight = 0.005, .noise = 0.08},
                              .limit = 20};
    common_init(&c);
    int status = common_parse(&c, &diff_command_line, &dc, argc, argv);
    if (status < 0)
        status = check(&c, &dc);
    if (status < 0) {
        common_page(&c);
        status = run(&c, &dc);
    }
    vec_foreach (gate, &dc.diff.gates)
        diff_gate_free(gate);
    vec_free(&dc.diff.gates);
    vec_free(&dc.diff.allowed);
    vec_free(&dc.base);
    vec_free(&dc.arguments);
    free(dc.config_text);
    return common_end(&c, status);
}
