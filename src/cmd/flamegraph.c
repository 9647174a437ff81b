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
    "\n"
    "Draws a flame graph: one SVG file, nothing beside it. In a browser a click zooms,\n"
    "Ctrl-F searches.\n"
    "\n"
    "      --title TEXT     title of the picture\n"
    "      --width N        its width in pixels (1200)\n"
    "      --min-width N    leave narrower functions out, in pixels (0.1)\n"
    "      --samples        count samples, not periods\n"
    "  -G, --inverted       outermost function on top\n"
    "  -o, --output FILE    write there instead of standard output\n";

enum {
    OPT_TITLE = OPT_COMMON_END,
    OPT_WIDTH,
    OPT_LEAST_WIDTH,
    OPT_SAMPLES,
};

static const struct option options[] = {
    COMMON_LONG,
    {"title", required_argument, NULL, OPT_TITLE},
    {"width", required_argument, NULL, OPT_WIDTH},
    {"min-width", required_argument, NULL, OPT_LEAST_WIDTH},
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {"inverted", no_argument, NULL, 'G'},
    {"output", required_argument, NULL, 'o'},
    {0},
};

struct flamegraph_command {
    struct flamegraph_options graph;
    const char *output;
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
    size_t event = SIZE_MAX;
    for (size_t i = 0; i < stacks_nr_groups(s); i++)
        if (stacks_group(s, i)->event < event)
            event = stacks_group(s, i)->event;
    return event < perfdata_nr_events(pd) ? perfdata_event(pd, event)->name : NULL;
}

static int collect(struct common *c, struct flamegraph_command *fc, struct replay *r,
                   struct error *err)
{
    struct stacks_options kept = {0};
    struct text out = {0};
    struct stacks *s = common_collect(c, r, &kept, err);
    if (!s)
        return -1;
    fc->graph.unit = event_name(r, s);
    int failed =
        flamegraph_print(s, &fc->graph, &out, err) < 0 || common_write(fc->output, &out, err) < 0;
    text_free(&out);
    stacks_free(s);
    return failed ? -1 : 0;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct common c;
    struct flamegraph_command fc = {.graph = {.width = 1200, .least_width = 0.1, .event = -1}};
    struct error err = {0};
    common_init(&c);
    int status =
        common_parse(&c, argc, argv, COMMON_LETTERS "Go:", options, usage, own_option, &fc);
    if (status < 0) {
        struct replay *r;
        int failed = replay_create(&c.replay, &r, &err);
        if (!failed) {
            failed = collect(&c, &fc, r, &err);
            replay_free(r);
        }
        status = failed ? command_error("flamegraph", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
