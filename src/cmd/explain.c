/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf explain: why one sample's stack is as it is. */
#include "cmd/common.h"
#include "output/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Take a time as script prints it: seconds, with up to nine digits behind the dot. */
static int take_time(void *target, const struct option_value *v, struct error *err)
{
    struct explain_options *o = target;
    uint64_t seconds = 0, unit = 1000000000, rest = 0;
    const char *p = v->text;
    for (; *p >= '0' && *p <= '9' && seconds < UINT32_MAX; p++)
        seconds = seconds * 10 + (uint64_t)(*p - '0');
    bool good = p != v->text;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9' && unit > 1; p++) {
            unit /= 10;
            rest += (uint64_t)(*p - '0') * unit;
        }
    if (!good || (*p && strcmp(p, ":") != 0))
        return option_error(
            v, err, "expects a time as script prints it (as 12.345678), not `%.60s'", v->text);
    o->time = seconds * UINT64_C(1000000000) + rest;
    o->time_unit = unit;
    return 0;
}

static int take_frame(void *target, const struct option_value *v, struct error *err)
{
    struct explain_options *o = target;
    char *end = v->text;
    errno = 0;
    o->frame = *v->text >= '0' && *v->text <= '9' ? strtoull(v->text, &end, 10) : 0;
    if (end == v->text || *end || errno)
        return option_error(v, err, "expects the number of a frame, not `%.60s'", v->text);
    o->one_frame = true;
    return 0;
}

static const struct option_row rows[] = {
    {ROW_NUMBER(0, "sample", "N", struct explain_options, number, 1, UINT64_MAX,
                "Explain the sample of this number, as script -F +sample prints it.")},
    /* The common --time is a range; of two rows with one name the first counts. */
    {ROW_CALL(
        0, "time", "T", take_time,
        "Explain the sample of this time, as script prints it. Where several samples have it, "
        "--tid, --cpu, --event and the other filters choose.")},
    {ROW_CALL(0, "frame", "K", take_frame, "Explain only this frame (0: the innermost).")},
    {0},
};

const struct option_set explain_command_line = {
    .name = "ljperf explain",
    .usage = "--sample N [options] [FILE]\n--time T [options] [FILE]",
    .about = "Says for each frame of one sample's stack whose code it is, by which rule it was\n"
             "left, what was read where, and why it is marked; and why the stack ended.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    COMMON_ARGUMENT,
};

/* Print what was found. Returns -1 if no sample, several, or no such frame were found. */
static int print(struct explain *e, const struct explain_options *o, struct error *err)
{
    uint64_t found = explain_found(e);
    if (found == 0)
        return error_set(err, ERROR_FORMAT,
                         o->number ? "the recording has no sample of that number"
                                   : "no sample has that time and passes the filters");
    if (found > 1) {
        common_write(NULL, explain_matches(e), err);
        return error_set(err, ERROR_FORMAT,
                         "%" PRIu64 " samples have that time: choose one by --sample or --tid",
                         found);
    }
    if (o->one_frame && o->frame >= explain_nr_frames(e))
        return error_set(err, ERROR_FORMAT, "--frame: the stack has only %zu frames",
                         explain_nr_frames(e));
    if (common_write(NULL, explain_text(e), err) < 0)
        return -1;
    if (explain_differs(e))
        return error_set(err, ERROR_FORMAT,
                         "the stack, walked again, differs from the one in script: this is a bug");
    return 0;
}

static int run(struct common *c, const struct explain_options *o, struct error *err)
{
    struct replay *r;
    /* All samples are walked, as script walks them: stacks are joined from earlier ones, and names
     * come from all. The filters only choose among samples of one time. */
    struct replay_options all = c->replay;
    const struct replay_options none = {.input = NULL};
    all.comms = none.comms;
    all.events = none.events;
    all.pids = none.pids;
    all.tids = none.tids;
    all.cpus = none.cpus;
    all.times = none.times;
    all.shares = none.shares;
    all.threads = 1;
    all.explains = true;
    struct explain *e = explain_create(o);
    if (!e)
        return error_no_memory(err);
    if (replay_create(&all, &r, err) < 0) {
        explain_free(e);
        return -1;
    }
    const struct replay_sink sink = explain_sink(e);
    int failed = replay_run(r, &sink, err) < 0 || print(e, o, err) < 0 ? -1 : 0;
    replay_free(r);
    explain_free(e);
    return failed;
}

int cmd_explain(int argc, char **argv)
{
    struct common c;
    struct explain_options o = {.number = 0};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &explain_command_line, &o, argc, argv);
    if (status < 0 && !o.number == !o.time_unit) {
        error_set(&err, ERROR_FORMAT, "either --sample or --time must say which sample");
        status = command_line_error(&explain_command_line, NULL, &err);
    }
    if (status < 0) {
        o.filters = &c.replay;
        o.show_inlined = c.replay.symbols.inlines;
        common_page(&c);
        status = run(&c, &o, &err) < 0 ? command_error("explain", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
