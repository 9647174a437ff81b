/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf traces: what LuaJIT and V8 compiled, and why they did not compile the rest. */
#include "cmd/common.h"
#include "output/traces.h"

#include <stdio.h>

struct traces_command {
    struct traces_options options;
    bool json;
};

static int take_limit(void *target, const struct option_value *v, struct error *err)
{
    return common_take_percent(&((struct traces_command *)target)->options.least, v, err);
}

static const struct option_row rows[] = {
    {ROW_CALL(0, "percent-limit", "PERCENT", take_limit,
              "Leave out functions and traces with less of their VM's time. Default: 0.5.")},
    {ROW_FLAG(0, "samples", struct traces_command, options.samples, "Count samples, not periods.")},
    {ROW_FLAG(0, "json", struct traces_command, json, "Print one JSON document.")},
    {0},
};

const struct option_set traces_command_line = {
    .name = "ljperf traces",
    .usage = "[options] [FILE]\n"
             "-p PID | -a [-d SECONDS] [options]\n"
             "[options] -- COMMAND [arguments]",
    .about =
        "Prints, for each Lua function that LuaJIT ran, how much of its time was compiled and how\n"
        "much was interpreted; and why: loops and functions that are blacklisted, recordings\n"
        "that were given up with the reason and the place, exits that have no trace. Then the\n"
        "traces with their shares. For each JavaScript function that V8 ran: the share of each "
        "tier;\n"
        "which V8 does not optimize, and which it deoptimized, with the reason and the place "
        "where\n"
        "a sample shows them. The recording must be one of ljperf record.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    COMMON_ARGUMENT,
};

static void put_text(const void *of, struct text *out)
{
    traces_put_text(of, out);
}

static void put_json(const void *of, struct json *j)
{
    traces_put_json(of, j);
}

static const struct common_document document = {put_text, put_json};

/* Say which event the output is about, if there are others. */
static void say_others(const struct common *c, const struct replay *r, const struct traces *t)
{
    unsigned event;
    uint64_t others = traces_others(t, &event);
    if (others && !c->quiet)
        common_say_one_event(replay_weight_name(r, event), others);
}

static int run(struct common *c, const struct traces_command *tc, struct error *err)
{
    struct replay *r;
    struct traces *t = NULL;
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    int failed = traces_create(r, &tc->options, &t, err);
    if (!failed) {
        struct replay_sink sink = traces_sink(t);
        failed = replay_run(r, &sink, err);
        common_summary(c, r);
    }
    if (!failed)
        failed = traces_finish(t, err);
    if (!failed && traces_is_empty(t))
        failed = error_set(err, ERROR_NOT_FOUND,
                           "no sample ran LuaJIT, or JavaScript in V8: there is no compiler to "
                           "tell about");
    if (!failed)
        say_others(c, r, t);
    if (!failed)
        failed = common_print(&document, t, tc->json, err);
    traces_free(t);
    replay_free(r);
    return failed ? -1 : 0;
}

int cmd_traces(int argc, char **argv)
{
    struct common c;
    struct traces_command tc = {.options.least = 0.5};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &traces_command_line, &tc, argc, argv);
    if (status < 0)
        status = common_record_first(&c, &traces_command_line, NULL);
    if (status < 0) {
        common_page(&c);
        status = run(&c, &tc, &err) < 0 ? command_error("traces", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
