/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf fold: print one line per stack, for flame graph tools. */
#include "cmd/common.h"
#include "output/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: ljperf fold [options]\n"
    "\n"
    "Prints folded stacks (comm;outermost;...;innermost COUNT), for flame graph tools.\n"
    "COUNT is the event's period, or the number of samples.\n"
    "\n"
    "      --samples        count samples, not periods\n"
    "      --tidy           shorten names as stackcollapse-perf.pl does\n"
    "      --with-pid       process id behind the command's name\n"
    "      --with-tid       process and thread id behind the command's name\n"
    "      --kernel         _[k] behind kernel functions\n"
    "      --jit            _[j] behind generated code\n"
    "      --inlined        _[i] behind inlined functions\n"
    "      --all            all three\n"
    "      --addrs          addresses of unknown functions\n"
    "  -o, --output FILE    write there instead of standard output\n";

enum {
    OPT_SAMPLES = OPT_COMMON_END,
    OPT_TIDY,
    OPT_WITH_PID,
    OPT_WITH_TID,
    OPT_KERNEL,
    OPT_JIT,
    OPT_INLINED,
    OPT_ALL,
    OPT_ADDRS,
};

static const struct option options[] = {
    COMMON_LONG,
    {"samples", no_argument, NULL, OPT_SAMPLES},
    {"tidy", no_argument, NULL, OPT_TIDY},
    {"with-pid", no_argument, NULL, OPT_WITH_PID},
    {"with-tid", no_argument, NULL, OPT_WITH_TID},
    {"kernel", no_argument, NULL, OPT_KERNEL},
    {"jit", no_argument, NULL, OPT_JIT},
    {"inlined", no_argument, NULL, OPT_INLINED},
    {"all", no_argument, NULL, OPT_ALL},
    {"addrs", no_argument, NULL, OPT_ADDRS},
    {"output", required_argument, NULL, 'o'},
    {0},
};

struct fold_command {
    struct fold_options fold;
    const char *output;
};

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct fold_command *c = context;
    struct fold_options *o = &c->fold;
    (void)err;
    switch (option) {
    case OPT_SAMPLES:
        o->samples = true;
        break;
    case OPT_TIDY:
        o->tidy = true;
        break;
    case OPT_WITH_TID:
        o->tid = true;
        break;
    case OPT_WITH_PID:
        o->pid = true;
        break;
    case OPT_ALL:
        o->kernel = o->jit = o->inlined = true;
        break;
    case OPT_KERNEL:
        o->kernel = true;
        break;
    case OPT_JIT:
        o->jit = true;
        break;
    case OPT_INLINED:
        o->inlined = true;
        break;
    case OPT_ADDRS:
        o->addresses = true;
        break;
    case 'o':
        c->output = value;
        break;
    default:
        break;
    }
    return 0;
}

static int print(const struct stacks *s, const struct fold_command *fc, struct error *err)
{
    FILE *out = fc->output ? fopen(fc->output, "w") : stdout;
    if (!out)
        return error_system(err, errno, "%s: cannot write", fc->output);
    int failed = fold_print(s, &fc->fold, out, err);
    struct error at_end;
    if (common_end_output(out, fc->output, failed ? &at_end : err) < 0)
        failed = -1;
    return failed;
}

static int run(struct common *c, const struct fold_command *fc, struct error *err)
{
    struct replay *r;
    struct stacks_options kept = {
        .by_pid = fc->fold.pid, .by_tid = fc->fold.tid, .by_address = fc->fold.addresses};
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    struct stacks *s = common_collect(c, r, &kept, err);
    if (s)
        common_say_first_event(c, r, s);
    int failed = !s || print(s, fc, err) < 0;
    stacks_free(s);
    replay_free(r);
    return failed ? -1 : 0;
}

int cmd_fold(int argc, char **argv)
{
    struct common c;
    struct fold_command fc = {.fold.event = -1};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, argc, argv, COMMON_LETTERS "o:", options, usage, own_option, &fc);
    if (status < 0)
        status = run(&c, &fc, &err) < 0 ? command_error("fold", &err, EXIT_BAD_INPUT) : 0;
    common_free(&c);
    return status;
}
