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

struct flamegraph_command {
    struct flamegraph_options graph;
    struct common_picture picture;
};

static int take_least_width(void *target, const struct option_value *v, struct error *err)
{
    const double MOST = 1000;
    struct flamegraph_command *c = target;
    char *end;
    double pixels = strtod(v->text, &end);
    if (end == v->text || *end || !(pixels >= 0 && pixels <= MOST))
        return option_error(v, err, "expects a number from 0 to %g, not `%.60s'", MOST, v->text);
    c->graph.least_width = pixels;
    return 0;
}

static int take_argument(void *target, char *text, struct error *err)
{
    return common_picture_take(&((struct flamegraph_command *)target)->picture, text, err);
}

static const struct option_row rows[] = {
    {ROW_STRING(0, "title", "TEXT", struct flamegraph_command, graph.title,
                "Write this title above the picture.")},
    {ROW_NUMBER(0, "width", "N", struct flamegraph_command, graph.width, 200, 100000,
                "Draw the picture N pixels wide (1200).")},
    {ROW_CALL(0, "min-width", "N", take_least_width,
              "Leave out functions that are narrower than N pixels (0.1, or more if the file would "
              "exceed 4 MB).")},
    {ROW_FLAG(0, "samples", struct flamegraph_command, graph.samples,
              "Count samples, not periods.")},
    {ROW_FLAG('G', "inverted", struct flamegraph_command, graph.inverted,
              "Draw the outermost function on top, as an icicle graph.")},
    {ROW_FLAG(0, "icicle", struct flamegraph_command, graph.inverted, "The same as --inverted.")},
    {ROW_FLAG('r', "reverse", struct flamegraph_command, graph.reverse,
              "Begin with the innermost function, and draw its callers behind it.")},
    {ROW_FLAG(0, "with-pid", struct flamegraph_command, graph.pid,
              "Append the process id to the command's name.")},
    {ROW_FLAG(0, "with-tid", struct flamegraph_command, graph.tid,
              "Append the process and thread id to the command's name.")},
    {ROW_STRING(0, "diff", "BASE NEW", struct flamegraph_command, picture.base,
                "Draw the recording NEW, in colours that show how shares changed since the "
                "recording BASE.")},
    {ROW_STRING('o', "output", "FILE", struct flamegraph_command, picture.output,
                "Write to FILE instead of to standard output (flamegraph.svg, if that is a "
                "terminal).")},
    {0},
};

const struct option_set flamegraph_command_line = {
    .name = "ljperf flamegraph",
    .usage = "[options] [FILE] > FILE.svg\n"
             "[options] --diff BASE NEW > FILE.svg\n"
             "-p PID | -a [-d SECONDS] -o FILE.svg\n"
             "-o FILE.svg -- COMMAND [arguments]",
    .about =
        "Draws a flame graph as one SVG file. In a browser, a click on a function zooms in, / or\n"
        "Ctrl-F searches, and Esc ends both.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
    .argument_name = "FILE",
};

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

/* Collect the stacks of the recording that `own` reads. */
static int collect_opened(struct common *own, const struct flamegraph_command *fc, const char *path,
                          struct drawn *ret, struct error *err)
{
    struct replay *r;
    struct stacks_options kept = {
        .by_pid = fc->graph.pid, .by_tid = fc->graph.tid, .by_tier = true};
    if (replay_create(&own->replay, &r, err) < 0)
        return -1;
    ret->stacks = common_collect(own, r, &kept, err);
    if (ret->stacks) {
        const char *weight = own->replay.weight;
        const char *name = weight ? weight : common_event_name(r, ret->stacks);
        common_say_first_event(own, r, ret->stacks);
        text_string(&ret->event, name ? name : "units");
        text_char(&ret->event, 0);
        ret->about = (struct diff_recording){
            .path = path, .event = ret->event.at, .samples = replay_stats(r)->passed};
    }
    replay_free(r);
    return ret->event.failed ? error_no_memory(err) : ret->stacks ? 0 : -1;
}

/* Collect the stacks of the recording at `path`. */
static int collect(const struct common *c, const struct flamegraph_command *fc, const char *path,
                   struct drawn *ret, struct error *err)
{
    struct common own = *c;
    own.replay.input = path;
    own.replay.progress_context = &own;
    own.unpacked = NULL;
    int failed = common_unpack(&own, err) < 0 || collect_opened(&own, fc, path, ret, err) < 0;
    unpacked_free(own.unpacked);
    return failed ? -1 : 0;
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
    int failed = (fc->picture.base && collect(c, fc, fc->picture.base, &base, err) < 0) ||
                 collect(c, fc, fc->picture.base ? fc->picture.argument : c->replay.input, &drawn,
                         err) < 0 ||
                 (fc->picture.base && check_pair(&base, &drawn, err) < 0);
    fc->graph.unit = drawn.about.event;
    failed = failed || flamegraph_print(drawn.stacks, base.stacks, &fc->graph, &out, err) < 0 ||
             common_write(fc->picture.output, &out, err) < 0;
    if (!failed && fc->picture.output && !c->quiet)
        fprintf(stderr, "ljperf: wrote %s\n", fc->picture.output);
    text_free(&out);
    drawn_free(&drawn);
    drawn_free(&base);
    return failed ? -1 : 0;
}

int cmd_flamegraph(int argc, char **argv)
{
    struct common c;
    struct flamegraph_command fc = {.graph = {.width = 1200, .least_width = -1, .event = -1}};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &flamegraph_command_line, &fc, argc, argv);
    if (status < 0 && common_picture_complete(&c, &fc.picture, "flamegraph.svg", &err) < 0)
        status = command_line_error(&flamegraph_command_line, NULL, &err);
    if (status < 0)
        status = common_record_first(&c, &flamegraph_command_line, fc.picture.output);
    if (status < 0)
        status = draw(&c, &fc, &err) < 0 ? command_error("flamegraph", &err, EXIT_BAD_INPUT) : 0;
    return common_end(&c, status);
}
