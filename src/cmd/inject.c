/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf inject: rewrite a recording with mixed stacks as callchains, for perf and other tools. */
#include "cmd/common.h"
#include "output/inject.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

struct inject_command {
    const char *output;
};

static const struct option_row rows[] = {
    {ROW_STRING('o', "output", "FILE", struct inject_command, output,
                "Write the new recording to FILE. This option is required.")},
    {ROW_IGNORED('j', "jit", "Accepted as in perf inject. Jitdumps are always read.")},
    {0},
};

const struct option_set inject_command_line = {
    .name = "ljperf inject",
    .usage = "-o FILE [options] [FILE]",
    .about = "Writes the recording again, for perf report, perf script, perf annotate and other\n"
             "readers of perf.data. Each sample gets its whole stack as a callchain. Functions of\n"
             "Lua, of JavaScript and of generated code are put into ELF files in FILE.d.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    COMMON_ARGUMENT,
};

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void say(const char *output, const struct inject_stats *st, bool verbose)
{
    fprintf(stderr,
            "ljperf: %s: %" PRIu64 " samples, %" PRIu64 " frames of %" PRIu64
            " functions that have no file",
            output, st->samples, st->frames, st->functions);
    if (st->images)
        fprintf(stderr, " (now in %s.d, %" PRIu64 " files)", output, st->images);
    if (st->own)
        fprintf(stderr, "; %" PRIu64 " records of VM memory are left out", st->own);
    fputc('\n', stderr);
    if (verbose && st->left_out)
        fprintf(stderr, "ljperf: %" PRIu64 " records of perf's own book-keeping are left out\n",
                st->left_out);
    if (st->cut)
        fprintf(stderr,
                "ljperf: %" PRIu64
                " stacks are too deep for a record; their outermost frames are left out\n",
                st->cut);
    if (st->guessed)
        fprintf(
            stderr,
            "ljperf: %" PRIu64
            " native frames are not proven; the output cannot mark them, but ljperf script does\n",
            st->guessed);
}

static int run(struct common *c, const struct inject_command *ic, struct error *err)
{
    struct replay *r;
    struct inject *in = NULL;
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    int failed = 0;
    if (is_same_file(perfdata_path(replay_perfdata(r)), ic->output))
        failed = error_set(err, ERROR_FORMAT, "%s: the output is the recording that is read",
                           ic->output);
    if (!failed)
        failed = inject_create(ic->output, r, &in, err);
    if (!failed) {
        struct replay_sink sink = inject_sink(in);
        failed = replay_run(r, &sink, err);
        common_summary(c, r);
    }
    if (!failed)
        failed = inject_finish(in, err);
    if (!failed && !c->quiet)
        say(ic->output, inject_stats(in), c->verbose);
    inject_free(in);
    replay_free(r);
    return failed;
}

int cmd_inject(int argc, char **argv)
{
    struct common c;
    struct inject_command ic = {0};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &inject_command_line, &ic, argc, argv);
    if (status < 0 && !ic.output) {
        error_set(&err, ERROR_FORMAT, "option `output' is required");
        status = command_line_error(&inject_command_line, NULL, &err);
    }
    if (status < 0) {
        c.replay.symbols.inlines = c.replay.symbols.lines = false;
        status = run(&c, &ic, &err) < 0 ? command_error("inject", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
