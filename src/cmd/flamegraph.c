/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf flamegraph: one SVG file that any browser shows. */
#include "cmd/common.h"
#include "output/flamegraph.h"
#include "output/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
    "Usage: ljperf flamegraph [options] > FILE.svg\n"
    "       ljperf flamegraph [options] --diff BASE NEW > FILE.svg\n"
    "\n"
    "Draws a flame graph: one SVG file, nothing beside it. In a browser a click zooms, / or\n"
    "Ctrl-F searches, Esc ends either.\n"
    "\n"
    "      --title TEXT     title of the picture\n"
    "      --width N        its width in pixels (1200)\n"
    "      --min-width N    leave narrower functions out, in pixels (0.1, or what makes 4 MB)\n"
    "      --samples        count samples, not periods\n"
    "  -G, --inverted       outermost function on top, as an icicle\n"
    "      --icicle         the same\n"
    "  -r, --reverse        innermost function first: who called what took the time\n"
    "      --with-pid       process id behind the command's name\n"
    "      --with-tid       process and thread id behind the command's name\n"
    "      --diff BASE NEW  draw NEW, in colours of how shares changed since BASE\n"
    "  -o, --output FILE    write there instead of standard output\n";

enum {
    ARGUMENT = 1, /* getopt's code of what is no option */
    OPT_TITLE = OPT_COMMON_END,
    OPT_WIDTH,
    OPT_LEAST_WIDTH,
    OPT_SAMPLES,
    OPT_WITH_PID,
    OPT_WITH_TID,
    OPT_DIFF,
};

static const struct option options[] = {
    COMMON_LONG,
    {"title", required_argument, NULL, OPT_TITLE},
    {"width", required_argument, NULL, OPT_WIDTH},
    {"min-width", required_argument, NULL, OPT_LEAST_WIDTH},
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {"inverted", no_argument, NULL, 'G'},
    {"icicle", no_argument, NULL, 'G'},
    {"reverse", no_argument, NULL, 'r'},
    {"with-pid", no_argument, NULL, OPT_WITH_PID},
    {"with-tid", no_argument, NULL, OPT_WITH_TID},
    {"diff", required_argument, NULL, OPT_DIFF},
    {"output", required_argument, NULL, 'o'},
    {0},
};

struct flamegraph_command {
    struct flamegraph_options graph;
    const char *output;
    const char *base, *new; /* with --diff */
};

static int parse_pixels(const char *what, const char *value, double least, double most, double *ret,
                        struct error *err)
{
    char *end;
    double pixels = strtod(value, &end);
    if (end == value || *end || !(pixels >= least && pixels <= most))
        return error_set(err, ERROR_FORMAT, "%s: '%s' is not a number from %g to %g", what, value,
                         least, most);
    *ret = pixels;
    return 0;
}

/* What is no option: the second recording of --diff, and nothing else. */
static int take_argument(struct flamegraph_command *c, const char *value, struct error *err)
{
    if (!c->base || c->new)
        return error_set(err, ERROR_FORMAT, "'%s' is no option; a recording is given with -i",
                         value);
    c->new = value;
    return 0;
}

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct flamegraph_command *c = context;
    double pixels = 0;
    switch (option) {
    case OPT_TITLE:
        c->graph.title = value;
        return 0;
    case OPT_WIDTH:
        if (parse_pixels("--width", value, 200, 100000, &pixels, err) < 0)
            return -1;
        c->graph.width = (unsigned)pixels;
        return 0;
    case OPT_LEAST_WIDTH:
        return parse_pixels("--min-width", value, 0, 1000, &c->graph.least_width, err);
    case OPT_SAMPLES:
        c->graph.samples = true;
        return 0;
    case 'G':
        c->graph.inverted = true;
        return 0;
    case 'r':
        c->graph.reverse = true;
        return 0;
    case OPT_WITH_PID:
        c->graph.pid = true;
        return 0;
    case OPT_WITH_TID:
        c->graph.tid = true;
        return 0;
    case OPT_DIFF:
        c->base = value;
        return 0;
    case ARGUMENT:
        return take_argument(c, value, err);
    case 'o':
        c->output = value;
        return 0;
    default:
        return 0;
    }
}

/* Name of the event that is drawn: the first that was sampled. */
static const char *event_name(const struct replay *r, const struct stacks *s)
{
    const struct perfdata *pd = replay_perfdata(r);
    int event = stacks_event(s, -1);
    return event >= 0 && (size_t)event < perfdata_nr_events(pd)
               ? perfdata_event(pd, (size_t)event)->name
               : NULL;
}

/* The stacks of one recording; `unit` becomes its event's name, which lives as long as `unit`. */
static struct stacks *collect(const struct common *c, const struct flamegraph_command *fc,
                              const char *input, struct text *unit, struct error *err)
{
    struct replay *r;
    struct common own = *c;
    struct stacks_options kept = {
        .by_pid = fc->graph.pid, .by_tid = fc->graph.tid, .by_tier = true};
    own.replay.input = input;
    own.replay.progress_context = &own;
    if (replay_create(&own.replay, &r, err) < 0)
        return NULL;
    struct stacks *s = common_collect(&own, r, &kept, err);
    const char *name = s ? event_name(r, s) : NULL;
    if (s)
        common_say_first_event(c, r, s);
    unit->size = 0;
    text_string(unit, name ? name : "units");
    text_char(unit, 0);
    replay_free(r);
    return s;
}

static int draw(const struct common *c, struct flamegraph_command *fc, struct error *err)
{
    struct text out = {0};
    struct text unit = {0};
    struct stacks *base = fc->base ? collect(c, fc, fc->base, &unit, err) : NULL;
    struct stacks *s =
        fc->base && !base ? NULL : collect(c, fc, fc->base ? fc->new : c->replay.input, &unit, err);
    fc->graph.unit = unit.failed ? NULL : unit.at;
    int failed = !s || flamegraph_print(s, base, &fc->graph, &out, err) < 0 ||
                 common_write(fc->output, &out, err) < 0;
    text_free(&out);
    text_free(&unit);
    stacks_free(s);
    stacks_free(base);
    return failed ? -1 : 0;
}

/* --diff has both recordings. */
static int check(const struct common *c, const struct flamegraph_command *fc, struct error *err)
{
    if (fc->base && (!fc->new || c->replay.input))
        return error_set(err, ERROR_FORMAT, "two recordings are compared: --diff BASE NEW");
    return 0;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct common c;
    struct flamegraph_command fc = {.graph = {.width = 1200, .least_width = -1, .event = -1}};
    struct error err = {0};
    common_init(&c);
    /* '-': arguments that are no options come as options, too */
    int status =
        common_parse(&c, argc, argv, "-" COMMON_LETTERS "Gro:", options, usage, own_option, &fc);
    if (status < 0 && check(&c, &fc, &err) < 0)
        status = command_error("flamegraph", &err, EXIT_BAD_USAGE);
    else if (status < 0)
        status = draw(&c, &fc, &err) < 0 ? command_error("flamegraph", &err, EXIT_BAD_INPUT) : 0;
    common_free(&c);
    return status;
}
