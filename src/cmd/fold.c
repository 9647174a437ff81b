/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf fold: print one line per stack, for flame graph tools. */
#include "cmd/common.h"
#include "base/private_file.h"
#include "output/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fold_command {
    struct fold_options fold;
    const char *output;
};

static int take_all(void *target, const struct option_value *v, struct error *err)
{
    struct fold_options *o = &((struct fold_command *)target)->fold;
    (void)v;
    (void)err;
    o->kernel = o->jit = o->inlined = true;
    return 0;
}

static const struct option_row rows[] = {
    {ROW_FLAG(0, "samples", struct fold_command, fold.samples, "Count samples, not periods.")},
    {ROW_FLAG(0, "tidy", struct fold_command, fold.tidy,
              "Shorten names as stackcollapse-perf.pl does.")},
    {ROW_FLAG(0, "with-pid", struct fold_command, fold.pid,
              "Append the process id to the command's name.")},
    {ROW_FLAG(0, "with-tid", struct fold_command, fold.tid,
              "Append the process and thread id to the command's name.")},
    {ROW_FLAG(0, "kernel", struct fold_command, fold.kernel, "Append _[k] to kernel functions.")},
    {ROW_FLAG(0, "jit", struct fold_command, fold.jit, "Append _[j] to generated code.")},
    {ROW_FLAG(0, "inlined", struct fold_command, fold.inlined,
              "Append _[i] to inlined functions.")},
    {ROW_CALL(0, "all", NULL, take_all, "The same as --kernel --jit --inlined.")},
    {ROW_FLAG(0, "addrs", struct fold_command, fold.addresses,
              "Show addresses of unknown functions.")},
    {ROW_STRING('o', "output", "FILE", struct fold_command, output,
                "Write to FILE instead of to standard output.")},
    {0},
};

const struct option_set fold_command_line = {
    .name = "ljperf fold",
    .usage = "[options] [FILE]\n"
             "-p PID | -a [-d SECONDS] [options]\n"
             "[options] -- COMMAND [arguments]",
    .about = "Prints folded stacks (comm;outermost;...;innermost COUNT), for flame graph tools.\n"
             "COUNT is the sum of the event's periods, or the number of samples.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    COMMON_ARGUMENT,
};

static int print(const struct stacks *s, const struct fold_command *fc, struct error *err)
{
    FILE *out = fc->output ? callers_file_create(fc->output) : stdout;
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
    int status = common_parse(&c, &fold_command_line, &fc, argc, argv);
    if (status < 0)
        status = common_record_first(&c, &fold_command_line, fc.output);
    if (status < 0) {
        common_page(&c);
        status = run(&c, &fc, &err) < 0 ? command_error("fold", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
