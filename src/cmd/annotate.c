/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf annotate: a function's source, or machine code, with what each line of it weighs. */
#include "cmd/common.h"
#include "output/annotate.h"

#include <errno.h>
#include <stdio.h>

static const char usage[] =
    "Usage: ljperf annotate [options] [SYMBOL]\n"
    "\n"
    "Prints the source of a Lua or JavaScript function, or the machine code of a native one, with\n"
    "the share of the function's samples beside each line. SYMBOL is a function as ljperf report\n"
    "prints it, or its name alone; without it: the one with the most samples of its own.\n"
    "\n"
    "  -s, --symbol SYMBOL    the same\n"
    "      --source-dir DIR   look for source files below DIR first\n"
    "      --samples          count samples, not periods\n";

enum {
    ARGUMENT = 1, /* getopt's code of what is no option */
    OPT_SOURCE_DIR = OPT_COMMON_END,
    OPT_SAMPLES,
};

static const struct option options[] = {
    COMMON_LONG,
    {"symbol", required_argument, NULL, 's'},
    {"source-dir", required_argument, NULL, OPT_SOURCE_DIR},
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {0},
};

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct annotate_options *o = context;
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
    default:
        return 0;
    }
}

static int run(struct common *common, const struct annotate_options *o, struct error *err)
{
    struct replay *r;
    if (replay_create(&common->replay, &r, err) < 0)
        return -1;
    struct profile *p = profile_create();
    int failed = p ? 0 : error_no_memory(err);
    if (p) {
        struct replay_sink sink = profile_sink(p);
        failed = replay_run(r, &sink, err) < 0 || profile_finish(p, err) < 0;
        common_summary(common, r);
    }
    if (!failed)
        failed = annotate_print(o, p, r, stdout, err);
    profile_free(p);
    replay_free(r);
    if (!failed && fflush(stdout) != 0 && errno != EPIPE)
        failed = error_system(err, errno, "cannot write the output");
    return failed;
}

int cmd_annotate(int argc, char **argv)
{
    struct common c;
    struct annotate_options o = {0};
    struct error err = {0};
    common_init(&c);
    /* '-': arguments that are no options come as options, too */
    int status =
        common_parse(&c, argc, argv, "-" COMMON_LETTERS "s:", options, usage, own_option, &o);
    if (status < 0) {
        c.replay.symbols.lines = true;
        status = run(&c, &o, &err) < 0 ? command_error("annotate", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
