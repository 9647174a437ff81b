/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf flamegraph: draw one SVG file that any browser shows. */
#include "cmd/common.h"
#include "output/diff.h"
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
    ARGUMENT = 1, /* getopt's code for an argument that is no option */
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
    const char *base, *new; /* only with --diff */
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

/* Take an argument that is no option: only the second recording of --diff may be one. */
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

/* One recording to draw or compare. */
struct drawn {
    struct diff_recording about;
    struct text event; /* the event's name */
    struct stacks *stacks;
};

static void drawn_free(struct drawn *d)
{
    text_free(&d->event);
    stacks_free(d->stacks);
}

/* Collect the stacks of the recording at `path`. */
static int collect(const struct common *c, const struct flamegraph_command *fc, const char *path,
                   struct drawn *ret, struct error *err)
{
    struct replay *r;
    struct common own = *c;
    struct stacks_options kept = {
        .by_pid = fc->graph.pid, .by_tid = fc->graph.tid, .by_tier = true};
    own.replay.input = path;
    own.replay.progress_context = &own;
    if (replay_create(&own.replay, &r, err) < 0)
        return -1;
    ret->stacks = common_collect(&own, r, &kept, err);
    if (ret->stacks) {
        const char *name = common_event_name(r, ret->stacks);
        common_say_first_event(c, r, ret->stacks);
        text_string(&ret->event, name ? name : "units");
        text_char(&ret->event, 0);
        ret->about = (struct diff_recording){
            .path = path, .event = ret->event.at, .samples = replay_stats(r)->passed};
    }
    replay_free(r);
    return ret->event.failed ? error_no_memory(err) : ret->stacks ? 0 : -1;
}

static int check_pair(const struct drawn *base, const struct drawn *drawn, struct error *err)
{
    struct diff_recording both[] = {base->about, drawn->about};
    return diff_check_recordings(both, 2, err);
}

static int draw(const struct common *c, struct flamegraph_command *fc, struct error *err)
{
    struct text out = {0};
    struct drawn drawn = {0};
    struct drawn base = {0};
    int failed = (fc->base && collect(c, fc, fc->base, &base, err) < 0) ||
                 collect(c, fc, fc->base ? fc->new : c->replay.input, &drawn, err) < 0 ||
                 (fc->base && check_pair(&base, &drawn, err) < 0);
    fc->graph.unit = drawn.about.event;
    failed = failed || flamegraph_print(drawn.stacks, base.stacks, &fc->graph, &out, err) < 0 ||
             common_write(fc->output, &out, err) < 0;
    text_free(&out);
    drawn_free(&drawn);
    drawn_free(&base);
    return failed ? -1 : 0;
}

/* Check that --diff has both recordings. */
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
    /* '-': arguments that are no options are passed as options too */
    int status =
        common_parse(&c, argc, argv, "-" COMMON_LETTERS "Gro:", options, usage, own_option, &fc);
    if (status < 0 && check(&c, &fc, &err) < 0)
        status = command_error("flamegraph", &err, EXIT_BAD_USAGE);
    else if (status < 0)
        status = draw(&c, &fc, &err) < 0 ? command_error("flamegraph", &err, EXIT_BAD_INPUT) : 0;
    common_free(&c);
    return status;
}
