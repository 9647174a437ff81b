/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf inject: rewrite a recording with mixed stacks as callchains, for perf and other tools. */
#include "cmd/common.h"
#include "output/inject.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static const char usage[] =
    "Usage: ljperf inject -o FILE [options]\n"
    "\n"
    "Writes the recording once more, for perf report, perf script, perf annotate and whatever\n"
    "reads perf.data: each sample with its whole stack as a callchain; functions of Lua, of\n"
    "JavaScript and of generated code in ELF files that are written for them, into FILE.d.\n"
    "\n"
    "  -o, --output FILE    where to write\n"
    "  -j, --jit            nothing more: jitdumps are always read (as perf inject has it)\n";

static const struct option options[] = {
    COMMON_LONG,
    {"output", required_argument, NULL, 'o'},
    {"jit", no_argument, NULL, 'j'},
    {0},
};

struct inject_command {
    const char *output;
};

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct inject_command *c = context;
    (void)err;
    if (option == 'o')
        c->output = value;
    return 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void say(const char *output, const struct inject_stats *st, bool verbose)
{
    fprintf(stderr,
            "ljperf: %s: %" PRIu64 " samples, %" PRIu64 " frames of %" PRIu64
            " functions of no file",
            output, st->samples, st->frames, st->functions);
    if (st->images)
        fprintf(stderr, " (now in %s.d, %" PRIu64 " files)", output, st->images);
    if (st->own)
        fprintf(stderr, "; left out: %" PRIu64 " copies and readings of VMs' memory", st->own);
    fputc('\n', stderr);
    if (verbose && st->left_out)
        fprintf(stderr, "ljperf: %" PRIu64 " records of perf's own book-keeping are left out\n",
                st->left_out);
    if (st->cut)
        fprintf(stderr,
                "ljperf: %" PRIu64
                " stacks are deeper than a record can be; their outermost frames are left out\n",
                st->cut);
    if (st->guessed)
        fprintf(stderr,
                "ljperf: %" PRIu64
                " native frames are not proven, which the output cannot say (ljperf script does)\n",
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
        failed = error_set(err, ERROR_FORMAT, "%s: is the recording that is read", ic->output);
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
    int status =
        common_parse(&c, argc, argv, COMMON_LETTERS "o:j", options, usage, own_option, &ic);
    if (status < 0 && !ic.output) {
        fprintf(stderr, "ljperf inject: -o FILE: where should it be written?\n");
        status = EXIT_BAD_USAGE;
    }
    if (status < 0) {
        c.replay.symbols.inlines = c.replay.symbols.lines = false;
        status = run(&c, &ic, &err) < 0 ? command_error("inject", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
