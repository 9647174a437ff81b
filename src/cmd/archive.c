/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf archive: one tar with the files that reading a recording on another machine needs. */
#include "cmd/common.h"
#include "output/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct archive_command {
    const char *output;
    bool whole;
};

static const struct option_row rows[] = {
    {ROW_STRING('o', "output", "FILE", struct archive_command, output,
                "Write to FILE (- for standard output). The end of the name selects the "
                "compression: .tar.zst, .tar.gz, .tgz, .tar.xz or .tar.")},
    {ROW_FLAG(0, "all", struct archive_command, whole, "Also put the recording into the archive.")},
    {0},
};

const struct option_set archive_command_line = {
    .name = "ljperf archive",
    .usage = "[options] [FILE]",
    .about = "Writes the programs, libraries, debug files, kernel symbols, jitdumps and perf maps\n"
             "that a recording needs into one tar. On the other machine:\n"
             "  mkdir DIR && tar -C DIR -xf perf.data.tar.zst && ljperf report --symfs DIR\n"
             "or, if the recording is in it, too (--all): ljperf report perf.data.tar.zst\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    COMMON_ARGUMENT,
};

/* Returns the default output path, beside the recording. The caller frees it. */
static char *default_output(const char *input)
{
    char *path;
    if (strcmp(input, "-") == 0)
        input = "perf.data";
    return asprintf(&path, "%s.tar.zst", input) < 0 ? NULL : path;
}

static void say_line(const char *line)
{
    fprintf(stderr, "ljperf: %s\n", line);
}

static int fill(struct common *common, const struct archive_command *c, struct replay *r,
                struct tar *tar, struct error *err)
{
    const char *input = perfdata_path(replay_perfdata(r));
    struct replay_sink sink = archive_sink();
    struct archive_result result;
    int failed = replay_run(r, &sink, err) < 0;
    common_summary(common, r);
    if (failed || archive_write(tar, r, say_line, &result, err) < 0)
        return -1;
    if (c->whole) {
        uint64_t size;
        if (tar_add_file(tar, text_base_name(input), input, &size, err) < 0)
            return -1;
        result.files++;
        result.bytes += size;
    }
    if (common->quiet)
        return 0;
    const uint64_t mega = 1000000;
    fprintf(stderr, "ljperf: %" PRIu64 " files of %" PRIu64 ".%" PRIu64 " MB%s%s\n", result.files,
            result.bytes / mega, result.bytes % mega / (mega / 10), c->output ? " in " : "",
            c->output ? c->output : "");
    return 0;
}

static int run(struct common *common, const struct archive_command *c, struct error *err)
{
    struct replay *r;
    struct tar *tar;
    if (replay_create(&common->replay, &r, err) < 0)
        return -1;
    if (c->whole && perfdata_is_pipe(replay_perfdata(r))) {
        replay_free(r);
        return error_set(err, ERROR_UNSUPPORTED,
                         "--all cannot archive a recording that comes from a pipe");
    }
    int failed = tar_create(c->output, &tar, err);
    if (!failed) {
        failed = fill(common, c, r, tar, err);
        if (failed)
            tar_free(tar);
        else
            failed = tar_close(tar, err);
    }
    replay_free(r);
    return failed;
}

int cmd_archive(int argc, char **argv)
{
    struct common common;
    struct archive_command c = {0};
    struct error err = {0};
    char *made = NULL;
    common_init(&common);
    int status = common_parse(&common, &archive_command_line, &c, argc, argv);
    if (status >= 0)
        goto out;
    const char *input = common.named          ? common.named
                        : common.replay.input ? common.replay.input
                                              : "perf.data";
    if (!c.output)
        c.output = made = default_output(input);
    else if (strcmp(c.output, "-") == 0)
        c.output = NULL;
    if (!c.output && isatty(STDOUT_FILENO)) {
        error_set(&err, ERROR_FORMAT, "a tar is not written to a terminal; give -o FILE");
        status = command_line_error(&archive_command_line, NULL, &err);
        goto out;
    }
    common.replay.symbols.lines = common.replay.symbols.inlines = true;
    status = run(&common, &c, &err) < 0 ? command_error("archive", &err, EXIT_BAD_INPUT) : 0;
out:
    free(made);
    common_free(&common);
    return status;
}
