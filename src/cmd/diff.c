/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf diff: are the recordings of a new version worse than those of the old version? */
#include "cmd/common.h"
#include "output/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: ljperf diff [options] BASE NEW [NEW...]\n"
    "       ljperf diff [options] --base BASE [--base BASE...] NEW [NEW...]\n"
    "\n"
    "Compares recordings of two versions of a program: shares of all samples, by function; says\n"
    "which differences are more than noise, and exits 1 when one of them breaks a gate. BASE and\n"
    "NEW may be several recordings, separated by commas: at least three a side tell most.\n"
    "\n"
    "      --base FILE      a recording of the old version; all other arguments are new\n"
    "      --fail-on GATE   [PATTERN:]self>+N% or total>=+N%, of all samples; with %rel of what\n"
    "                       the function had; several may be given (self>+1%)\n"
    "      --allow PATTERNS functions that may grow (comma separated)\n"
    "      --by LEVEL       compare by function, file, module or state (function)\n"
    "      --min-weight N%  what has less on both sides is not tested (0.5%)\n"
    "      --alpha P        chance of a false alarm in a whole comparison (0.05)\n"
    "      --run-noise N%   how much a share varies from run to run, as assumed (8%)\n"
    "      --samples        count samples, not periods\n"
    "      --config FILE    options from a file (.ljperf-diff, where there is one)\n"
    "      --format NAME    text, markdown, json or junit (text)\n"
    "      --limit N        rows in text and Markdown, beside those that changed; 0: all (20)\n"
    "  -o, --output FILE    write there instead of standard output\n"
    "      --markdown FILE  write Markdown there as well\n"
    "      --json FILE      write JSON there as well\n"
    "      --junit FILE     write JUnit XML there as well\n"
    "\n"
    "Exit status: 0 no regression, 1 a regression, 2 bad usage or input.\n";

enum {
    ARGUMENT = 1, /* getopt's code for an argument that is no option */
    OPT_BASE = OPT_COMMON_END,
    OPT_FAIL_ON,
    OPT_ALLOW,
    OPT_BY,
    OPT_LEAST_WEIGHT,
    OPT_ALPHA,
    OPT_NOISE,
    OPT_SAMPLES,
    OPT_CONFIG,
    OPT_FORMAT,
    OPT_LIMIT,
    OPT_MARKDOWN,
    OPT_JSON,
    OPT_JUNIT,
};

static const struct option options[] = {
    COMMON_LONG,
    {"base", required_argument, NULL, OPT_BASE},
    {"fail-on", required_argument, NULL, OPT_FAIL_ON},
    {"allow", required_argument, NULL, OPT_ALLOW},
    {"by", required_argument, NULL, OPT_BY},
    {"min-weight", required_argument, NULL, OPT_LEAST_WEIGHT},
    {"alpha", required_argument, NULL, OPT_ALPHA},
    {"run-noise", required_argument, NULL, OPT_NOISE},
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"output", required_argument, NULL, 'o'},
    {"markdown", required_argument, NULL, OPT_MARKDOWN},
    {"json", required_argument, NULL, OPT_JSON},
    {"junit", required_argument, NULL, OPT_JUNIT},
    {0},
};

enum format { FORMAT_TEXT, FORMAT_MARKDOWN, FORMAT_JSON, FORMAT_JUNIT, NR_FORMATS };
static const char *const format_names[] = {"text", "markdown", "json", "junit"};

struct diff_command {
    struct diff_options diff;
    name_list base, arguments;
    enum format format;
    size_t limit;
    const char *config, *output;
    const char *also[NR_FORMATS]; /* more files to write, by format */
    char *config_text;            /* the values from the configuration point into it */
    /* Bits of the options set on the command line; the configuration must not override them. */
    unsigned given;
};

/* ---- values --------------------------------------------------------------------------------- */

/* Parse a share, "5%" or "5"; `most` is in percent. */
static int parse_share(const char *what, const char *value, double most, double *ret,
                       struct error *err)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || (*end && strcmp(end, "%") != 0) || !(number >= 0 && number <= most))
        return error_set(err, ERROR_FORMAT, "%s: '%s' is not a share from 0%% to %g%%", what, value,
                         most);
    *ret = number / 100;
    return 0;
}

static int parse_alpha(const char *value, double *ret, struct error *err)
{
    char *end;
    *ret = strtod(value, &end);
    if (end == value || *end || !(*ret > 0 && *ret <= 0.5))
        return error_set(err, ERROR_FORMAT, "alpha: '%s' is not a chance above 0 and up to 0.5",
                         value);
    return 0;
}

static int parse_limit(const char *value, size_t *ret, struct error *err)
{
    char *end;
    *ret = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end)
        return error_set(err, ERROR_FORMAT, "--limit: '%s' is not a number", value);
    return 0;
}

static int parse_word(const char *what, const char *value, const char *const *words, int nr,
                      struct error *err)
{
    for (int i = 0; i < nr; i++)
        if (strcmp(value, words[i]) == 0)
            return i;
    return error_set(err, ERROR_FORMAT, "%s: there is no '%s'; see --help", what, value);
}

static int parse_level(const char *value, enum diff_level *ret, struct error *err)
{
    const char *names[DIFF_LEVELS];
    for (int i = 0; i < DIFF_LEVELS; i++)
        names[i] = diff_level_name(i);
    int level = parse_word("by", value, names, DIFF_LEVELS, err);
    if (level >= 0)
        *ret = (enum diff_level)level;
    return level < 0 ? -1 : 0;
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

/* ---- options of the command line and the configuration --------------------------------------- */

/* Set an option that a configuration may also set, by the same name. */
static int set_option(struct diff_command *c, int option, char *value, struct error *err)
{
    switch (option) {
    case OPT_FAIL_ON:
        return add_gate(c, value, err);
    case OPT_ALLOW: {
        name_list patterns = {0};
        int failed = parse_list(value, &patterns, err);
        vec_foreach (pattern, &patterns)
            if (!failed && !vec_push(&c->diff.allowed, *pattern))
                failed = error_no_memory(err);
        vec_free(&patterns);
        return failed;
    }
    case OPT_BY:
        return parse_level(value, &c->diff.level, err);
    case OPT_LEAST_WEIGHT:
        return parse_share("min-weight", value, 100, &c->diff.least_weight, err);
    case OPT_ALPHA:
        return parse_alpha(value, &c->diff.alpha, err);
    case OPT_NOISE:
        return parse_share("run-noise", value, 100, &c->diff.noise, err);
    default:
        return 0;
    }
}

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct diff_command *c = context;
    int format;
    if (option >= OPT_FAIL_ON && option <= OPT_NOISE) {
        c->given |= 1U << (option - OPT_FAIL_ON);
        return set_option(c, option, (char *)value, err);
    }
    switch (option) {
    case ARGUMENT:
        return vec_push(&c->arguments, value) ? 0 : error_no_memory(err);
    case OPT_BASE:
        return parse_list((char *)value, &c->base, err);
    case OPT_SAMPLES:
        c->diff.samples = true;
        return 0;
    case OPT_CONFIG:
        c->config = value;
        return 0;
    case OPT_LIMIT:
        return parse_limit(value, &c->limit, err);
    case OPT_FORMAT:
        format = parse_word("--format", value, format_names, NR_FORMATS, err);
        c->format = format < 0 ? FORMAT_TEXT : (enum format)format;
        return format < 0 ? -1 : 0;
    case 'o':
        c->output = value;
        return 0;
    case OPT_MARKDOWN:
        c->also[FORMAT_MARKDOWN] = value;
        return 0;
    case OPT_JSON:
        c->also[FORMAT_JSON] = value;
        return 0;
    case OPT_JUNIT:
        c->also[FORMAT_JUNIT] = value;
        return 0;
    default:
        return 0;
    }
}

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
        error_set(err, ERROR_FORMAT, "%s: too large for a configuration", path);
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
        return error_set(err, ERROR_FORMAT, "'%s' is not NAME = VALUE", line);
    *sign = 0;
    char *name = trim(line);
    for (const struct option *o = options; o->name; o++) {
        if (o->val < OPT_FAIL_ON || o->val > OPT_NOISE || strcmp(name, o->name) != 0)
            continue;
        bool given = c->given >> (o->val - OPT_FAIL_ON) & 1;
        return given && o->val != OPT_ALLOW ? 0 : set_option(c, o->val, trim(sign + 1), err);
    }
    return error_set(err, ERROR_FORMAT,
                     "there is no '%s' (but fail-on, allow, by, min-weight, "
                     "alpha, run-noise)",
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
        return error_set(err, ERROR_FORMAT,
                         "two sides are compared: ljperf diff BASE NEW; see: ljperf diff --help");
    return 0;
}

static double complete_share(const struct replay_stats *st)
{
    return st->user ? (double)st->ends[STACK_COMPLETE] / (double)st->user : 1;
}

static int add_stacks(struct diff *d, struct replay *r, const struct stacks *s, const char *path,
                      enum diff_side side, struct error *err)
{
    const char *name = common_event_name(r, s);
    const char *kept = intern_string(d->strings, name ? name : "unknown");
    if (!kept)
        return error_no_memory(err);
    struct diff_recording recording = {.path = path,
                                       .event = kept,
                                       .side = side,
                                       .read = replay_stats(r)->samples,
                                       .lost = perfdata_loss(replay_perfdata(r))->samples_lost,
                                       .complete = complete_share(replay_stats(r))};
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
    if (replay_create(&own.replay, &r, err) < 0)
        return -1;
    struct stacks *s = common_collect(&own, r, &kept, err);
    int failed = !s || add_stacks(d, r, s, path, side, err) < 0;
    stacks_free(s);
    replay_free(r);
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

static int write_json(const struct diff *d, const char *path, struct error *err)
{
    FILE *out = path ? fopen(path, "w") : stdout;
    if (!out)
        return error_system(err, errno, "%s: cannot write", path);
    int failed = diff_write_json(d, out, err);
    if (fflush(out) != 0 && errno != EPIPE && !failed)
        failed = error_system(err, errno, "cannot write the output");
    if (path)
        fclose(out);
    return failed;
}

static int write_format(const struct diff_command *c, const struct diff *d, enum format format,
                        const char *path, struct error *err)
{
    return format == FORMAT_JSON ? write_json(d, path, err) : write_text(c, d, format, path, err);
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
    if (c->replay.input)
        error_set(&err, ERROR_FORMAT, "recordings are no options here: ljperf diff BASE NEW");
    else if (take_config(dc, &err) == 0 &&
             (dc->diff.gates.nr || add_gate(dc, "self>+1%", &err) == 0) &&
             take_sides(dc, sides, &err) == 0)
        found = compare(c, dc, sides, &err);
    vec_free(&sides[DIFF_BASE]);
    vec_free(&sides[DIFF_NEW]);
    return found < 0 ? command_error("diff", &err, EXIT_BAD_USAGE) : found > 0;
}

int cmd_diff(int argc, char **argv)
{
    struct common c;
    struct diff_command dc = {.diff = {.alpha = 0.05, .least_weight = 0.005, .noise = 0.08},
                              .limit = 20};
    common_init(&c);
    /* '-': arguments that are no options are passed as options too */
    int status =
        common_parse(&c, argc, argv, "-" COMMON_LETTERS "o:", options, usage, own_option, &dc);
    if (status < 0)
        status = run(&c, &dc);
    vec_foreach (gate, &dc.diff.gates)
        diff_gate_free(gate);
    vec_free(&dc.diff.gates);
    vec_free(&dc.diff.allowed);
    vec_free(&dc.base);
    vec_free(&dc.arguments);
    free(dc.config_text);
    common_free(&c);
    return status;
}
