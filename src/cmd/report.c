/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf report: where the time went, as perf report --stdio prints it, or interactively. */
#include "cmd/browse.h"
#include "cmd/common.h"
#include "output/output.h"
#include "output/report.h"
#include "session/lists.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum choice { CHOICE_DEFAULT, CHOICE_YES, CHOICE_NO };
enum percentage { PERCENTAGE_ABSOLUTE, PERCENTAGE_RELATIVE };

struct report_command {
    struct report_options report;
    enum choice children, callers_first;
    enum percentage percentage;
    bool header, header_only, stdio, tui, fields, threads;
    regex_t parent, ignore_callees;
    bool has_parent, has_ignore_callees;
    const char *output;
    const char *pids, *duration; /* -p and -d with numbers: what to record first */
};

/* ---- values -------------------------------------------------------------------------------- */

static int take_sort(void *target, const struct option_value *v, struct error *err)
{
    return browsing_take_sort(&((struct report_command *)target)->report, v, err);
}

/* perf's list of columns. Here the shares come first whatever the list says, and the rows are in
 * the order of their shares. */
static int take_fields(void *target, const struct option_value *v, struct error *err)
{
    struct report_options *o = &((struct report_command *)target)->report;
    int failed = take_sort(target, v, err);
    o->nr_before = 0;
    ((struct report_command *)target)->fields = true;
    return failed;
}

static bool is_number_list(const char *text)
{
    return *text && strspn(text, "0123456789,.") == strlen(text);
}

/* The last of several patterns counts. */
static int take_pattern(regex_t *to, bool *has, const struct option_value *v, struct error *err)
{
    if (*has)
        regfree(to);
    int failed = regcomp(to, v->text, REG_EXTENDED | REG_NOSUB);
    *has = !failed;
    if (!failed)
        return 0;
    char reason[128];
    regerror(failed, to, reason, sizeof(reason));
    return option_error(v, err, "expects a regular expression, not `%.60s': %s", v->text, reason);
}

/* perf's default pattern matches functions that enter the kernel; here the key has no default.
 * Other commands record with -p PID: no function's name is a number. */
static int take_parent(void *target, const struct option_value *v, struct error *err)
{
    struct report_command *c = target;
    if (v->letter && is_number_list(v->text)) {
        c->pids = v->text;
        return 0;
    }
    return take_pattern(&c->parent, &c->has_parent, v, err);
}

static int take_ignored(void *target, const struct option_value *v, struct error *err)
{
    struct report_command *c = target;
    return take_pattern(&c->ignore_callees, &c->has_ignore_callees, v, err);
}

/* Take a time as perf does: a number and s, ms, us or ns. */
static int take_quantum(void *target, const struct option_value *v, struct error *err)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    struct report_command *c = target;
    char *end;
    double number = strtod(v->text, &end);
    for (size_t i = 0; end != v->text && i < sizeof(units) / sizeof(*units); i++) {
        double ns = number * units[i].ns;
        if (strcmp(end, units[i].name) != 0 || !(ns >= 1 && ns <= 1e18))
            continue;
        c->report.quantum = (uint64_t)ns;
        return 0;
    }
    return option_error(v, err, "expects a time such as 100ms, in s, ms, us or ns, not `%.60s'",
                        v->text);
}

/* As with -p, -d of a number is how long to record. */
static int take_dsos(void *target, const struct option_value *v, struct error *err)
{
    struct report_command *c = target;
    if (!v->letter || !is_number_list(v->text))
        return option_names(v->text, &c->report.dsos, err);
    c->duration = v->text;
    return 0;
}

/* Restrict the report to one function. */
static int focus(struct report_command *c, const char *name, bool callers, struct error *err)
{
    c->children = CHOICE_YES;
    c->callers_first = callers ? CHOICE_NO : CHOICE_YES;
    return vec_push(&c->report.symbols, name) ? 0 : error_no_memory(err);
}

static int take_callers(void *target, const struct option_value *v, struct error *err)
{
    return focus(target, v->text, true, err);
}

static int take_callees(void *target, const struct option_value *v, struct error *err)
{
    return focus(target, v->text, false, err);
}

/* A word of -g that stands for itself. */
static const struct {
    const char *word;
    enum { OF_GRAPH, OF_ORDER, OF_VALUE, OF_KEY, OF_NOTHING } of;
    unsigned value;
} graph_choices[] = {
    {"graph", OF_GRAPH, GRAPH_ABSOLUTE},
    {"flat", OF_GRAPH, GRAPH_FLAT},
    {"fractal", OF_GRAPH, GRAPH_FRACTAL},
    {"folded", OF_GRAPH, GRAPH_FOLDED},
    {"none", OF_GRAPH, GRAPH_NONE},
    {"no", OF_GRAPH, GRAPH_NONE},
    {"caller", OF_ORDER, CHOICE_YES},
    {"callee", OF_ORDER, CHOICE_NO},
    {"percent", OF_VALUE, VALUE_PERCENT},
    {"period", OF_VALUE, VALUE_PERIOD},
    {"count", OF_VALUE, VALUE_COUNT},
    {"function", OF_KEY, GRAPH_OF_FUNCTIONS},
    {"address", OF_KEY, GRAPH_OF_ADDRESSES},
    {"srcline", OF_KEY, GRAPH_OF_LINES},
    {"branch", OF_NOTHING, 0},
};

static const char *graph_words(void)
{
    return "graph,flat,fractal,folded,none,caller,callee,function,address,srcline,percent,period,"
           "count";
}

static int take_graph_choice(struct report_command *c, size_t i, const struct option_value *v,
                             struct error *err)
{
    struct report_options *o = &c->report;
    switch (graph_choices[i].of) {
    case OF_GRAPH:
        o->graph = (enum report_graph)graph_choices[i].value;
        return 0;
    case OF_ORDER:
        c->callers_first = (enum choice)graph_choices[i].value;
        return 0;
    case OF_VALUE:
        o->graph_value = (enum report_value)graph_choices[i].value;
        return 0;
    case OF_KEY:
        o->graph_key = (enum report_graph_key)graph_choices[i].value;
        return 0;
    default:
        return option_error(v, err, "does not know `%s': ljperf script -F +brstack prints branches",
                            graph_choices[i].word);
    }
}

/* As in perf, the first number is the least percentage, and the second is how many branches of a
 * place are drawn at most. */
static bool take_graph_number(struct report_options *o, const char *word, unsigned *numbers)
{
    char *end;
    double least;
    if (*numbers == 0 && common_percent(word, &least)) {
        o->graph_percent = least;
    } else if (*numbers == 1 && *word >= '0' && *word <= '9') {
        unsigned long most = strtoul(word, &end, 10);
        if (*end)
            return false;
        o->graph_limit = most < UINT_MAX ? (unsigned)most : UINT_MAX;
    } else {
        return false;
    }
    ++*numbers;
    return true;
}

static int take_graph_word(struct report_command *c, const char *word, unsigned *numbers,
                           const struct option_value *v, struct error *err)
{
    for (size_t i = 0; i < sizeof(graph_choices) / sizeof(*graph_choices); i++)
        if (strcmp(word, graph_choices[i].word) == 0)
            return take_graph_choice(c, i, v, err);
    if (take_graph_number(&c->report, word, numbers))
        return 0;
    return option_error(v, err, "expects %s, a percentage and a number of branches, not `%.60s'",
                        graph_words(), word);
}

static int take_graph(void *target, const struct option_value *v, struct error *err)
{
    struct report_command *c = target;
    char *rest = v->text;
    unsigned numbers = 0;
    c->report.graph = GRAPH_ABSOLUTE;
    for (char *word; (word = strsep(&rest, ","));)
        if (*word && take_graph_word(c, word, &numbers, v, err) < 0)
            return -1;
    return 0;
}

/* perf's widths, from the first column on. 0 stands for a column that is as wide as it needs to be.
 */
static int take_widths(void *target, const struct option_value *v, struct error *err)
{
    enum { WIDTH_MOST = 10000 };
    struct report_options *o = &((struct report_command *)target)->report;
    const char *at = v->text;
    o->nr_widths = 0;
    for (;;) {
        char *end;
        unsigned long width = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : WIDTH_MOST + 1;
        if (width > WIDTH_MOST || (*end && *end != ',') || o->nr_widths == REPORT_WIDTHS)
            return option_error(v, err, "expects numbers of columns (as 0,20,30), not `%.60s'",
                                v->text);
        o->widths[o->nr_widths++] = (unsigned)width;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

static int take_limit(void *target, const struct option_value *v, struct error *err)
{
    return browsing_take_limit(&((struct report_command *)target)->report, v, err);
}

static int take_separator(void *target, const struct option_value *v, struct error *err)
{
    if (!*v->text)
        return option_error(v, err, "expects a separator that is not empty");
    ((struct report_command *)target)->report.separator = v->text;
    return 0;
}

/* Select text, unless a later --tui does not. */
static int take_stdio(void *target, const struct option_value *v, struct error *err)
{
    struct report_command *c = target;
    (void)v;
    (void)err;
    c->stdio = true;
    c->tui = false;
    return 0;
}

/* ---- options ------------------------------------------------------------------------------- */

/* In the order of enum percentage. */
static const char *const percentages[] = {"absolute", "relative", NULL};

static const struct option_row rows[] = {
    {ROW_CALL(
         's', "sort", "KEYS", take_sort,
         "Make one row of samples with equal keys: comm, dso, sym, pid, tgid, cpu, srcline, "
         "srcfile, state, trace, time, parent, package, own, handler, reason, syscall, waker, "
         "symoff, "
         "cgroup (comm,dso,sym). Keys before the word overhead order the rows; sample and period "
         "are columns; +KEY adds one."),
     .list = true, .word_list = report_key_names},
    {ROW_CALL('F', "fields", "FIELDS", take_fields,
              "perf's list of columns: overhead, sample, period, and the keys of --sort."),
     .list = true, .word_list = report_key_names},
    {ROW_CALL(0, "time-quantum", "N", take_quantum,
              "Divide the key time into slices of this length: a number with s, ms, us or ns "
              "(100ms).")},
    {ROW_CALL('p', "parent", "REGEX", take_parent,
              "Show for the key parent the nearest function that matches. -p with a number: see "
              "below.")},
    {ROW_FLAG('x', "exclude-other", struct report_command, report.exclude_other,
              "Leave out samples in which no function matches --parent.")},
    {ROW_CALL(0, "ignore-callees", "REGEX", take_ignored,
              "Leave out what functions that match have called: it counts for them.")},
    {ROW_CHOICE(0, "children", struct report_command, children, CHOICE_YES,
                "Add to a function's share the functions that it called (the default where there "
                "are call chains).")},
    {ROW_CHOICE(0, "no-children", struct report_command, children, CHOICE_NO,
                "Count only a function's own samples.")},
    {ROW_CALL('g', "call-graph", "WORDS", take_graph,
              "Draw call trees: graph, fractal, flat (each stack), folded (in a line) or none; the "
              "least "
              "percentage and the most branches of a place that are drawn; caller or callee; "
              "function, address or srcline; "
              "percent, period or count (graph,0.5,caller with --children, else callee)."),
     .place = VALUE_MAY_FOLLOW, .list = true, .word_list = graph_words},
    {ROW_CHOICE('G', "inverted", struct report_command, callers_first, CHOICE_YES,
                "Draw callers first. The same as -g caller.")},
    {ROW_CALL(0, "callers", "NAME", take_callers,
              "Show only this function, with the trees of its callers.")},
    {ROW_CALL(0, "callees", "NAME", take_callees,
              "Show only this function, with the trees of the functions that it called.")},
    {ROW_CALL(0, "percent-limit", "N", take_limit, "Leave out rows and branches below N percent.")},
    {ROW_WORD(0, "percentage", "WHICH", struct report_command, percentage, percentages,
              "Show percentages of all samples (absolute) or of the rows that are shown "
              "(relative).")},
    {ROW_FLAG('n', "show-nr-samples", struct report_command, report.show_samples,
              "Add a column with the number of samples.")},
    {ROW_FLAG(0, "show-total-period", struct report_command, report.show_period,
              "Add a column with the sum of the periods.")},
    {ROW_NAMES('c', "comms", "NAMES", struct report_command, report.comms,
               "Show only rows of these commands (separated by commas).")},
    {ROW_CALL('d', "dsos", "NAMES", take_dsos, "Show only rows of these shared objects."),
     .list = true},
    {ROW_NAMES('S', "symbols", "NAMES", struct report_command, report.symbols,
               "Show only rows of these functions.")},
    {ROW_STRING(0, "symbol-filter", "TEXT", struct report_command, report.symbol_filter,
                "Show only rows whose function's name contains TEXT.")},
    {ROW_FLAG('U', "hide-unresolved", struct report_command, report.hide_unresolved,
              "Leave out functions without a name.")},
    /* perf's long name is --threads, which is a common option here. */
    {ROW_FLAG('T', NULL, struct report_command, threads,
              "Print behind the rows what each thread had counted when it ended (record -s).")},
    {ROW_FLAG(
        0, "hierarchy", struct report_command, report.hierarchy,
        "Print rows with the same first key below one line with their sum, those with the same "
        "second key below a second, and so on.")},
    {ROW_CALL('w', "column-widths", "LIST", take_widths,
              "Make columns as wide as this, from the first one on (0: as wide as needed)."),
     .list = true},
    {ROW_CALL('t', "field-separator", "C", take_separator,
              "Separate columns by C, without padding.")},
    {ROW_FLAG(0, "header", struct report_command, header,
              "Print the recording's header before the report.")},
    {ROW_FLAG(0, "header-only", struct report_command, header_only, "Print only the header.")},
    {ROW_FLAG('q', NULL, struct report_command, report.bare, "Print only rows and trees.")},
    {ROW_CALL(0, "stdio", NULL, take_stdio, "Print text, also on a terminal.")},
    {ROW_FLAG(0, "tui", struct report_command, tui,
              "Open the browser, or fail if there is no terminal.")},
    {ROW_STRING('o', "output", "FILE", struct report_command, output,
                "Write to FILE instead of to standard output.")},
    {0},
};

/* The own --comms precedes the common option of this name, which filters the samples. */
const struct option_set report_command_line = {
    .name = "ljperf report",
    .usage = "[options] [FILE]\n"
             "-p PID | -a [-d SECONDS] [options]\n"
             "[options] -- COMMAND [arguments]",
    .about = "Shows overhead by function, with call trees. On a terminal, report opens a browser\n"
             "(press h for help). Elsewhere it prints text in the format of perf report.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_report_rows), COMMON_SECTION},
    .command_follows = true,
    COMMON_ARGUMENT,
};

/* ---- running ------------------------------------------------------------------------------- */

static bool has_callchain(const struct perfdata *pd)
{
    for (size_t i = 0; i < perfdata_nr_events(pd); i++)
        if (perfdata_event(pd, i)->attr.sample_type & PERF_SAMPLE_CALLCHAIN)
            return true;
    return false;
}

/* Choose defaults, which depend on the recording. */
static void choose_defaults(struct report_command *c, const struct perfdata *pd)
{
    struct report_options *o = &c->report;
    bool chains = has_callchain(pd);
    o->children = chains && c->children != CHOICE_NO && !o->hierarchy; /* as in perf */
    o->callers_first =
        c->callers_first == CHOICE_DEFAULT ? o->children : c->callers_first == CHOICE_YES;
    if (!chains)
        o->graph = GRAPH_NONE;
}

static int print_stacks(const struct report_command *c, struct replay *r, const struct stacks *s,
                        struct error *err)
{
    const struct perfdata *pd = replay_perfdata(r);
    struct report_event *events = browsing_events(r);
    struct text out = {0};
    if (!events)
        return error_no_memory(err);
    struct report_options options = c->report;
    options.machine = perfdata_arch(pd);
    options.lists = replay_lists(r);
    struct session_count any;
    if (c->threads && !session_count(options.lists, 0, &any)) {
        free(events);
        return error_set(err, ERROR_FORMAT,
                         "the recording has no counts of threads for -T: record with -s");
    }
    int failed = (c->header && common_put_header(r, &out, err) < 0) ||
                 report_print(s, &options, events, perfdata_nr_events(pd),
                              perfdata_loss(pd)->samples_lost, &out, err) < 0 ||
                 (c->threads && report_put_threads(options.lists, events, perfdata_nr_events(pd),
                                                   &out, err) < 0) ||
                 common_write(c->output, &out, err) < 0;
    text_free(&out);
    free(events);
    return failed ? -1 : 0;
}

static int print(struct common *c, struct report_command *rc, struct replay *r, struct error *err)
{
    struct stacks_options kept = report_needs(&rc->report);
    if (browsing_check_cgroups(&kept, replay_perfdata(r), err) < 0)
        return -1;
    rc->report.threads = replay_threads(r);
    struct stacks *s = common_collect(c, r, &kept, err);
    choose_defaults(rc, replay_perfdata(r)); /* in a pipe, events may be announced late */
    int failed = !s || print_stacks(rc, r, s, err) < 0;
    stacks_free(s);
    return failed ? -1 : 0;
}

static int print_header(const struct report_command *rc, const struct replay *r, struct error *err)
{
    struct text out = {0};
    int failed =
        common_put_header(r, &out, err) < 0 || common_write(rc->output, &out, err) < 0 ? -1 : 0;
    text_free(&out);
    return failed;
}

/* ---- interactive browser --------------------------------------------------------------------- */

static int open_browser(struct browsing *b, struct report_command *rc, struct error *err)
{
    struct stacks_options nothing = {0};
    struct browser_data data;
    struct browser *model = browser_create(&rc->report);
    if (!model)
        return error_no_memory(err);
    struct stacks_options needs = browser_needs(model);
    browser_free(model);
    b->kept = nothing;
    if (browsing_collect(b, &needs, &data, err) < 0)
        return -1;
    choose_defaults(rc, replay_perfdata(b->replay));
    model = browser_create(&rc->report);
    struct browser_screen screen = {.browser = model,
                                    .symfs = b->common.replay.dso.symfs,
                                    .context = b,
                                    .collect = browsing_collect,
                                    .annotate = browsing_annotate};
    int failed = model ? browser_set_data(model, &data, err) : error_no_memory(err);
    failed = failed ? failed : browser_run(&screen, err);
    browser_free(model);
    return failed;
}

/* Print text if the terminal cannot be drawn on, unless --tui was given. */
static int browse(struct common *c, struct report_command *rc, struct error *err)
{
    struct browsing b = {.common = *c};
    int failed = open_browser(&b, rc, err);
    if (failed && err->kind == ERROR_UNSUPPORTED && b.stacks && !rc->tui) {
        *err = (struct error){0};
        failed = print_stacks(rc, b.replay, b.stacks, err);
    }
    browsing_end(&b);
    return failed;
}

/* An option that shapes text output selects text, unless --tui was given. */
static bool wants_browser(const struct report_command *rc)
{
    bool text = rc->stdio || rc->header || rc->output || rc->report.bare || rc->report.separator ||
                rc->report.hierarchy || rc->threads;
    return rc->tui || (!text && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
}

static int run(struct common *c, struct report_command *rc, struct error *err)
{
    struct replay *r;
    int failed = 0;
    if (wants_browser(rc))
        return browse(c, rc, err);
    common_page(c);
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    failed = rc->header_only ? print_header(rc, r, err) : print(c, rc, r, err);
    replay_free(r);
    return failed;
}

/* Check the options together. As with perf, -p adds its key. */
static int complete(struct report_command *c, struct common *common, struct error *err)
{
    struct record_first *first = &common->first;
    struct report_options *o = &c->report;
    bool key = report_has_key(o, KEY_PARENT);
    c->header |= c->header_only;
    first->pids = c->pids;
    first->duration = c->duration ? c->duration : first->duration;
    o->relative = c->percentage == PERCENTAGE_RELATIVE;
    o->weight = common->replay.wall ? "wall-clock" : common->replay.weight;
    o->weight_unit = common->replay.wall ? UNIT_NS : common->replay.weight_unit;
    if (c->tui && (c->output || c->header || o->separator || o->hierarchy))
        return error_set(err, ERROR_FORMAT, "option `tui' cannot be used with %s",
                         c->output      ? "-o"
                         : c->header    ? "--header"
                         : o->separator ? "-t"
                                        : "--hierarchy");
    if (o->hierarchy && c->fields)
        return error_set(err, ERROR_FORMAT, "--hierarchy and --fields cannot be used together");
    if (!c->has_parent && (key || o->exclude_other))
        return error_set(err, ERROR_FORMAT, "%s needs a pattern: give -p REGEX",
                         key ? "the key parent" : "option `exclude-other'");
    if (c->has_ignore_callees)
        o->ignore_callees = &c->ignore_callees;
    if (c->has_parent) {
        o->parent = &c->parent;
        if (!key)
            o->keys[o->nr_keys++] = KEY_PARENT;
    }
    return 0;
}

int cmd_report(int argc, char **argv)
{
    struct common c;
    struct report_command rc = {.report = {.keys = {KEY_COMM, KEY_DSO, KEY_SYM},
                                           .nr_keys = 3,
                                           .quantum = 100000000,
                                           .graph = GRAPH_ABSOLUTE,
                                           .graph_percent = 0.5}};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &report_command_line, &rc, argc, argv);
    if (status < 0 && complete(&rc, &c, &err) < 0)
        status = command_line_error(&report_command_line, NULL, &err);
    if (status < 0)
        status = common_record_first(&c, &report_command_line, rc.output);
    if (status < 0) {
        bool lines = report_needs(&rc.report).by_line;
        c.replay.symbols.lines = lines;
        status = run(&c, &rc, &err) < 0 ? command_error("report", &err, EXIT_BAD_INPUT) : 0;
    }
    if (rc.has_parent)
        regfree(&rc.parent);
    if (rc.has_ignore_callees)
        regfree(&rc.ignore_callees);
    vec_free(&rc.report.comms);
    vec_free(&rc.report.dsos);
    vec_free(&rc.report.symbols);
    return common_end(&c, status);
}
