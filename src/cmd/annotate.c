/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf annotate: a function's source or machine code, with the weight of each line. */
#include "cmd/common.h"
#include "output/annotate_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "Usage: ljperf annotate [options] [SYMBOL]\n"
    "\n"
    "Prints the source of a Lua or JavaScript function, or the machine code of a native one, with\n"
    "the share of the function's samples beside each line. SYMBOL is a function as ljperf report\n"
    "prints it, or its name alone; without it: the one with the most samples of its own.\n"
    "\n"
    "  -s, --symbol SYMBOL    the same\n"
    "      --trace N          the machine code of LuaJIT's trace N, with the bytecode and lines "
    "that\n"
    "                         it is of, its exits and where they lead\n"
    "      --source-dir DIR   look for source files below DIR first\n"
    "      --samples          count samples, not periods\n";

enum {
    ARGUMENT = 1, /* getopt's code for an argument that is no option */
    OPT_SOURCE_DIR = OPT_COMMON_END,
    OPT_SAMPLES,
    OPT_TRACE,
};

struct annotate_command {
    struct annotate_options options;
    uint32_t trace; /* 0: none */
};

static const struct option options[] = {
    COMMON_LONG,
    {"symbol", required_argument, NULL, 's'},
    {"source-dir", required_argument, NULL, OPT_SOURCE_DIR},
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {"trace", required_argument, NULL, OPT_TRACE},
    {0},
};

static int parse_trace(const char *value, uint32_t *ret, struct error *err)
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || number == 0 || number > UINT16_MAX)
        return error_set(err, ERROR_FORMAT, "--trace: '%s' is no number of a trace", value);
    *ret = (uint32_t)number;
    return 0;
}

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct annotate_command *c = context;
    struct annotate_options *o = &c->options;
    switch (option) {
    case ARGUMENT:
    case 's':
        if (o->symbol)
            return error_set(err, ERROR_FORMAT, "one function at a time, not '%s' and '%s'",
                             o->symbol, value);
        o->symbol = value;
        return 0;
    case OPT_SOURCE_DIR:
        o->source_dir = value;
        return 0;
    case OPT_SAMPLES:
        o->samples = true;
        return 0;
    case OPT_TRACE:
        return parse_trace(value, &c->trace, err);
    default:
        return 0;
    }
}

static int run_function(struct common *common, const struct annotate_options *o, struct replay *r,
                        struct error *err)
{
    struct profile *p = common_profile(common, r, err);
    int failed = p ? annotate_print(o, p, r, stdout, err) : -1;
    profile_free(p);
    return failed ? -1 : 0;
}

static int run_trace(struct common *common, const struct annotate_command *c, struct replay *r,
                     struct error *err)
{
    struct annotate_traces *t;
    if (annotate_traces_create(r, &c->options, c->trace, &t, err) < 0)
        return -1;
    struct replay_sink sink = annotate_traces_sink(t);
    int failed = replay_run(r, &sink, err);
    common_summary(common, r);
    if (!failed)
        failed = annotate_traces_print(t, stdout, err);
    annotate_traces_free(t);
    return failed;
}

static int run(struct common *common, const struct annotate_command *c, struct error *err)
{
    struct replay *r;
    common->replay.symbols.lines = !c->trace;
    if (c->trace)
        common->replay.threads = 1; /* traces are read as the replay meets them */
    if (replay_create(&common->replay, &r, err) < 0)
        return -1;
    int failed =
        c->trace ? run_trace(common, c, r, err) : run_function(common, &c->options, r, err);
    replay_free(r);
    return failed ? failed : common_end_output(stdout, NULL, err);
}

int cmd_annotate(int argc, char **argv)
{
    struct common c;
    struct annotate_command ac = {0};
    struct error err = {0};
    common_init(&c);
    /* '-': arguments that are no options are passed as options too */
    int status =
        common_parse(&c, argc, argv, "-" COMMON_LETTERS "s:", options, usage, own_option, &ac);
    if (status < 0 && ac.trace && ac.options.symbol) {
        fprintf(stderr, "ljperf annotate: either a function or a trace\n");
        status = EXIT_BAD_USAGE;
    }
    if (status < 0)
        status = run(&c, &ac, &err) < 0 ? command_error("annotate", &err, EXIT_BAD_INPUT) : 0;
    common_free(&c);
    return status;
}
