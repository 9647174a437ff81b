/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf report: where the time went, as perf report --stdio prints it, or interactively. */
#include "cmd/common.h"
#include "output/annotate.h"
#include "output/browser.h"
#include "output/output.h"
#include "output/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: ljperf report [options]\n"
    "\n"
    "Shows overhead by function, with call trees: on a terminal to walk about in (h: help),\n"
    "elsewhere as text in perf report's format.\n"
    "\n"
    "  -s, --sort KEYS      comm,dso,sym,pid,tgid,cpu,srcline,srcfile,state,trace,time,parent\n"
    "                       (comm,dso,sym); those before the word overhead order the rows\n"
    "      --time-quantum N  slices of key time: a number with s, ms, us or ns (100ms)\n"
    "  -p, --parent REGEX   what key parent shows: the nearest function that matches\n"
    "  -x, --exclude-other  leave samples out in which none does\n"
    "      --children       a function's share includes what it called (the default\n"
    "                       where there are call chains)\n"
    "      --no-children    only its own samples\n"
    "  -g, --call-graph WORDS  graph, fractal or none; caller or callee; the least\n"
    "                       percentage drawn (graph,0.5,caller with --children, else\n"
    "                       callee)\n"
    "  -G, --inverted       callers first: the same as -g caller\n"
    "      --callers NAME   only this function, with the trees of its callers\n"
    "      --callees NAME   only this function, with the trees of what it called\n"
    "      --percent-limit N  leave smaller rows and branches out\n"
    "      --percentage WHICH  absolute, or relative to the rows that are shown\n"
    "  -n, --show-nr-samples  a column of sample counts\n"
    "      --show-total-period  a column of periods\n"
    "  -c, --comms NAMES    show only rows of these commands\n"
    "  -d, --dsos NAMES     show only rows of these shared objects\n"
    "  -S, --symbols NAMES  show only rows of these functions\n"
    "      --symbol-filter TEXT  show only rows whose function's name contains TEXT\n"
    "  -U, --hide-unresolved  leave out functions without a name\n"
    "  -t, --field-separator C  separate columns by C, without padding\n"
    "      --header         print the recording's header first\n"
    "      --header-only    print nothing but the header\n"
    "  -q                   rows and trees only\n"
    "      --stdio          text, on a terminal too\n"
    "      --tui            to walk about in, or fail\n"
    "  -o, --output FILE    write there instead of standard output\n";

enum {
    OPT_CHILDREN = OPT_COMMON_END,
    OPT_NO_CHILDREN,
    OPT_PERCENT_LIMIT,
    OPT_PERCENTAGE,
    OPT_TOTAL_PERIOD,
    OPT_HEADER,
    OPT_HEADER_ONLY,
    OPT_STDIO,
    OPT_TUI,
    OPT_QUANTUM,
    OPT_CALLERS,
    OPT_CALLEES,
    OPT_FILTER,
};

/* Our --comms must precede the common option of the same name, which filters the samples. */
static const struct option options[] = {
    {"comms", required_argument, NULL, 'c'},
    COMMON_LONG,
    {"sort", required_argument, NULL, 's'},
    {"time-quantum", required_argument, NULL, OPT_QUANTUM},
    {"parent", required_argument, NULL, 'p'},
    {"exclude-other", no_argument, NULL, 'x'},
    {"callers", required_argument, NULL, OPT_CALLERS},
    {"callees", required_argument, NULL, OPT_CALLEES},
    {"symbol-filter", required_argument, NULL, OPT_FILTER},
    {"children", no_argument, NULL, OPT_CHILDREN},
    {"no-children", no_argument, NULL, OPT_NO_CHILDREN},
    {"call-graph", optional_argument, NULL, 'g'},
    {"inverted", no_argument, NULL, 'G'},
    {"percent-limit", required_argument, NULL, OPT_PERCENT_LIMIT},
    {"percentage", required_argument, NULL, OPT_PERCENTAGE},
    {"show-nr-samples", no_argument, NULL, 'n'},
    {"show-total-period", no_argument, NULL, OPT_TOTAL_PERIOD},
    {"dsos", required_argument, NULL, 'd'},
    {"symbols", required_argument, NULL, 'S'},
    {"hide-unresolved", no_argument, NULL, 'U'},
    {"field-separator", required_argument, NULL, 't'},
    {"header", no_argument, NULL, OPT_HEADER},
    {"header-only", no_argument, NULL, OPT_HEADER_ONLY},
    {"stdio", no_argument, NULL, OPT_STDIO},
    {"tui", no_argument, NULL, OPT_TUI},
    {"output", required_argument, NULL, 'o'},
    {0},
};

enum choice { CHOICE_DEFAULT, CHOICE_YES, CHOICE_NO };

struct report_command {
    struct report_options report;
    char **argv;
    enum choice children, callers_first;
    bool header, header_only, stdio, tui;
    regex_t parent;
    bool has_parent;
    const char *output;
};

/* ---- values -------------------------------------------------------------------------------- */

static bool parse_percent(const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    return end != text && (*end == 0 || strcmp(end, "%") == 0) && *ret >= 0 && *ret <= 100;
}

static int parse_sort(struct report_options *o, char *value, struct error *err)
{
    o->nr_keys = o->nr_before = 0;
    for (char *name; (name = strsep(&value, ","));) {
        int key = report_key(name);
        if (strcmp(name, "overhead") == 0) {
            o->nr_before = o->nr_keys;
            continue;
        }
        if (key < 0)
            return error_set(err, ERROR_FORMAT, "--sort: no key is called '%s'; there are %s", name,
                             report_key_names());
        bool known = false;
        for (unsigned i = 0; i < o->nr_keys; i++)
            known |= o->keys[i] == (enum report_key)key;
        if (!known)
            o->keys[o->nr_keys++] = (enum report_key)key;
    }
    if (!o->nr_keys)
        return error_set(err, ERROR_FORMAT, "--sort: overhead alone is no key");
    return 0;
}

/* perf's default pattern matches functions that enter the kernel; here the key has no default. */
static int parse_parent(struct report_command *c, const char *value, struct error *err)
{
    if (c->has_parent)
        regfree(&c->parent);
    int failed = regcomp(&c->parent, value, REG_EXTENDED | REG_NOSUB);
    c->has_parent = !failed;
    if (!failed)
        return 0;
    char reason[128];
    regerror(failed, &c->parent, reason, sizeof(reason));
    return error_set(err, ERROR_FORMAT, "-p: '%s': %s", value, reason);
}

/* Parse a time as perf does: a number and s, ms, us or ns. */
static int parse_quantum(struct report_options *o, const char *value, struct error *err)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    char *end;
    double number = strtod(value, &end);
    for (size_t i = 0; end != value && i < sizeof(units) / sizeof(*units); i++) {
        double ns = number * units[i].ns;
        if (strcmp(end, units[i].name) != 0 || !(ns >= 1 && ns <= 1e18))
            continue;
        o->quantum = (uint64_t)ns;
        return 0;
    }
    return error_set(err, ERROR_FORMAT,
                     "--time-quantum: '%s' is no time; one is 100ms, with s, ms, us or ns", value);
}

/* Restrict the report to one function. */
static int parse_focus(struct report_command *c, const char *name, bool callers, struct error *err)
{
    c->children = CHOICE_YES;
    c->callers_first = callers ? CHOICE_NO : CHOICE_YES;
    return vec_push(&c->report.symbols, name) ? 0 : error_no_memory(err);
}

static int graph_word(struct report_command *c, const char *word, struct error *err)
{
    struct report_options *o = &c->report;
    double least;
    if (strcmp(word, "graph") == 0)
        o->graph = GRAPH_ABSOLUTE;
    else if (strcmp(word, "fractal") == 0)
        o->graph = GRAPH_FRACTAL;
    else if (strcmp(word, "none") == 0 || strcmp(word, "no") == 0)
        o->graph = GRAPH_NONE;
    else if (strcmp(word, "caller") == 0)
        c->callers_first = CHOICE_YES;
    else if (strcmp(word, "callee") == 0)
        c->callers_first = CHOICE_NO;
    else if (parse_percent(word, &least))
        o->graph_percent = least;
    else if (strcmp(word, "function") != 0 && strcmp(word, "percent") != 0)
        return error_set(err, ERROR_FORMAT,
                         "-g: '%s' is none of graph, fractal, none, caller, callee, function, "
                         "percent or a percentage",
                         word);
    return 0;
}

/* As with perf, the words may be an argument of their own. */
static int parse_graph(struct report_command *c, const char *value, struct error *err)
{
    const char *next = c->argv[optind];
    if (!value && next && next[0] != '-') {
        value = next;
        optind++;
    }
    c->report.graph = GRAPH_ABSOLUTE;
    char *copy = strdup(value ? value : "graph");
    if (!copy)
        return error_no_memory(err);
    char *rest = copy;
    int failed = 0;
    for (char *word; !failed && (word = strsep(&rest, ","));)
        failed = *word ? graph_word(c, word, err) : 0;
    free(copy);
    return failed;
}

static int parse_limit(struct report_options *o, const char *value, struct error *err)
{
    if (!parse_percent(value, &o->percent_limit))
        return error_set(err, ERROR_FORMAT, "--percent-limit: '%s' is not a percentage", value);
    o->graph_percent = o->percent_limit;
    return 0;
}

static int parse_percentage(struct report_options *o, const char *value, struct error *err)
{
    o->relative = strcmp(value, "relative") == 0;
    if (o->relative || strcmp(value, "absolute") == 0)
        return 0;
    return error_set(err, ERROR_FORMAT, "--percentage: '%s' is neither absolute nor relative",
                     value);
}

/* Split names at commas, in place. As with perf, a name with a comma cannot be given. */
static int parse_names(char *value, name_list *list, struct error *err)
{
    for (char *name; (name = strsep(&value, ","));)
        if (*name && !vec_push(list, name))
            return error_no_memory(err);
    return 0;
}

static int flag_option(struct report_command *c, int option)
{
    struct report_options *o = &c->report;
    switch (option) {
    case OPT_CHILDREN:
        c->children = CHOICE_YES;
        break;
    case OPT_NO_CHILDREN:
        c->children = CHOICE_NO;
        break;
    case 'G':
        c->callers_first = CHOICE_YES;
        break;
    case 'n':
        o->show_samples = true;
        break;
    case OPT_TOTAL_PERIOD:
        o->show_period = true;
        break;
    case 'x':
        o->exclude_other = true;
        break;
    case 'U':
        o->hide_unresolved = true;
        break;
    case 'q':
        o->bare = true;
        break;
    case OPT_HEADER_ONLY:
        c->header_only = true;
        /* fall through */
    case OPT_HEADER:
        c->header = true;
        break;
    case OPT_STDIO:
        c->stdio = true;
        c->tui = false;
        break;
    case OPT_TUI:
        c->tui = true;
        break;
    default:
        break;
    }
    return 0;
}

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct report_command *c = context;
    struct report_options *o = &c->report;
    switch (option) {
    case 's':
        return parse_sort(o, (char *)value, err);
    case 'g':
        return parse_graph(c, value, err);
    case OPT_PERCENT_LIMIT:
        return parse_limit(o, value, err);
    case OPT_PERCENTAGE:
        return parse_percentage(o, value, err);
    case 'c':
        return parse_names((char *)value, &o->comms, err);
    case 'd':
        return parse_names((char *)value, &o->dsos, err);
    case 'S':
        return parse_names((char *)value, &o->symbols, err);
    case 't':
        if (!*value)
            return error_set(err, ERROR_FORMAT, "-t: the separator is empty");
        o->separator = value;
        return 0;
    case 'o':
        c->output = value;
        return 0;
    case 'p':
        return parse_parent(c, value, err);
    case OPT_QUANTUM:
        return parse_quantum(o, value, err);
    case OPT_CALLERS:
    case OPT_CALLEES:
        return parse_focus(c, value, option == OPT_CALLERS, err);
    case OPT_FILTER:
        o->symbol_filter = value;
        return 0;
    default:
        return flag_option(c, option);
    }
}

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
    o->children = chains && c->children != CHOICE_NO;
    o->callers_first =
        c->callers_first == CHOICE_DEFAULT ? o->children : c->callers_first == CHOICE_YES;
    if (!chains)
        o->graph = GRAPH_NONE;
}

/* Returns the events; the caller frees them. NULL: out of memory. */
static struct report_event *list_events(const struct perfdata *pd)
{
    size_t nr = perfdata_nr_events(pd);
    struct report_event *events = calloc(nr + 1, sizeof(*events));
    for (size_t i = 0; events && i < nr; i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        bool chain = e->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
        events[i] = (struct report_event){e->name, chain};
    }
    return events;
}

static int print_stacks(const struct report_command *c, struct replay *r, const struct stacks *s,
                        struct error *err)
{
    const struct perfdata *pd = replay_perfdata(r);
    struct report_event *events = list_events(pd);
    struct text out = {0};
    if (!events)
        return error_no_memory(err);
    int failed = (c->header && common_put_header(r, &out, err) < 0) ||
                 report_print(s, &c->report, events, perfdata_nr_events(pd),
                              perfdata_loss(pd)->samples_lost, &out, err) < 0 ||
                 common_write(c->output, &out, err) < 0;
    text_free(&out);
    free(events);
    return failed ? -1 : 0;
}

static int print(struct common *c, struct report_command *rc, struct replay *r, struct error *err)
{
    struct stacks_options kept = report_needs(&rc->report);
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

/* The browser's data. The browser may request it again, with more distinctions kept. */
struct browsing {
    struct common common;
    struct replay *replay;
    struct stacks *stacks;
    struct report_event *events;
    struct stacks_options kept;
    struct profile *profile; /* for annotating, with the replay it belongs to */
    struct replay *profiled;
};

static void browsing_free(struct browsing *b)
{
    free(b->events);
    stacks_free(b->stacks);
    replay_free(b->replay);
}

static void browsing_end(struct browsing *b)
{
    browsing_free(b);
    profile_free(b->profile);
    replay_free(b->profiled);
}

/* Collect all samples in a profile, when something is first annotated. */
static int browsing_profile(struct browsing *b, struct error *err)
{
    struct common quiet = b->common;
    quiet.replay.symbols.lines = true;
    quiet.replay.progress_context = &quiet;
    struct replay *r;
    if (replay_create(&quiet.replay, &r, err) < 0)
        return -1;
    b->profile = common_profile(&quiet, r, err);
    if (!b->profile) {
        replay_free(r);
        return -1;
    }
    b->profiled = r;
    return 0;
}

static int browsing_annotate(void *context, const char *symbol, struct text *out, struct error *err)
{
    struct browsing *b = context;
    const struct annotate_options o = {.symbol = symbol};
    char *text = NULL;
    size_t size = 0;
    if (!b->profile && browsing_profile(b, err) < 0)
        return -1;
    FILE *file = open_memstream(&text, &size);
    if (!file)
        return error_no_memory(err);
    int failed = annotate_print(&o, b->profile, b->profiled, file, err);
    if (fclose(file) != 0 && !failed)
        failed = error_no_memory(err);
    if (!failed)
        text_bytes(out, text, size);
    free(text);
    return failed;
}

static struct stacks_options both(const struct stacks_options *a, const struct stacks_options *b)
{
    return (struct stacks_options){
        .by_pid = a->by_pid || b->by_pid,
        .by_tid = a->by_tid || b->by_tid,
        .by_cpu = a->by_cpu || b->by_cpu,
        .by_line = a->by_line || b->by_line,
        .by_address = a->by_address || b->by_address,
        .by_start = a->by_start || b->by_start,
        .by_tier = a->by_tier || b->by_tier,
        .by_state = a->by_state || b->by_state,
        .by_trace = a->by_trace || b->by_trace,
        .slice_ns = a->slice_ns ? a->slice_ns : b->slice_ns,
        .all_slices = a->all_slices || b->all_slices,
    };
}

static int browsing_collect(void *context, const struct stacks_options *needs,
                            struct browser_data *ret, struct error *err)
{
    struct browsing *b = context;
    struct browsing new = *b;
    new.kept = both(&b->kept, needs);
    new.replay = NULL;
    new.stacks = NULL;
    new.events = NULL;
    new.common.replay.symbols.lines |= new.kept.by_line;
    new.common.replay.progress_context = &new.common;
    if (replay_create(&new.common.replay, &new.replay, err) < 0)
        return -1;
    new.stacks = common_collect(&new.common, new.replay, &new.kept, err);
    new.events = new.stacks ? list_events(replay_perfdata(new.replay)) : NULL;
    if (!new.events) {
        browsing_free(&new);
        return new.stacks ? error_no_memory(err) : -1;
    }
    browsing_free(b);
    *b = new;
    b->common.quiet = true; /* it was printed already */
    *ret =
        (struct browser_data){b->stacks, b->events, perfdata_nr_events(replay_perfdata(b->replay))};
    return 0;
}

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
    bool text = rc->stdio || rc->header || rc->output || rc->report.bare || rc->report.separator;
    return rc->tui || (!text && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
}

static int run(struct common *c, struct report_command *rc, struct error *err)
{
    struct replay *r;
    int failed = 0;
    if (wants_browser(rc))
        return browse(c, rc, err);
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    failed = rc->header_only ? print_header(rc, r, err) : print(c, rc, r, err);
    replay_free(r);
    return failed;
}

/* Check the options together. As with perf, -p adds its key. */
static int complete(struct report_command *c, struct error *err)
{
    struct report_options *o = &c->report;
    bool key = report_has_key(o, KEY_PARENT);
    if (c->tui && (c->output || c->header || o->separator))
        return error_set(err, ERROR_FORMAT, "--tui shows rows on the screen: it takes no %s",
                         c->output   ? "-o"
                         : c->header ? "--header"
                                     : "-t");
    if (!c->has_parent && (key || o->exclude_other))
        return error_set(err, ERROR_FORMAT, "%s needs a pattern: -p REGEX",
                         key ? "key parent" : "-x");
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
    struct report_command rc = {.argv = argv,
                                .report = {.keys = {KEY_COMM, KEY_DSO, KEY_SYM},
                                           .nr_keys = 3,
                                           .quantum = 100000000,
                                           .graph = GRAPH_ABSOLUTE,
                                           .graph_percent = 0.5}};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, argc, argv, COMMON_LETTERS "s:g::Gnc:d:S:Ut:qo:p:x", options,
                              usage, own_option, &rc);
    if (status < 0 && complete(&rc, &err) < 0)
        status = command_error("report", &err, EXIT_BAD_USAGE);
    if (status < 0) {
        bool lines = report_needs(&rc.report).by_line;
        c.replay.symbols.lines = lines;
        status = run(&c, &rc, &err) < 0 ? command_error("report", &err, EXIT_BAD_INPUT) : 0;
    }
    if (rc.has_parent)
        regfree(&rc.parent);
    vec_free(&rc.report.comms);
    vec_free(&rc.report.dsos);
    vec_free(&rc.report.symbols);
    common_free(&c);
    return status;
}
