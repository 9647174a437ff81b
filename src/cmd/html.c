/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf html: write a recording as one page that a browser shows without a network. */
#include "cmd/common.h"
#include "base/private_file.h"
#include "output/diff.h"
#include "output/html.h"
#include "output/output.h"
#include "replay/tee.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct html_command {
    struct html_options page;
    struct common_picture picture;
    bool samples;
    bool any_source, no_source; /* --source, --no-source */
};

static int take_argument(void *target, char *text, struct error *err)
{
    return common_picture_take(&((struct html_command *)target)->picture, text, err);
}

static const struct option_row rows[] = {
    {ROW_STRING(0, "title", "TEXT", struct html_command, page.title,
                "Write this title above the page (the recording's name).")},
    {ROW_FLAG(0, "samples", struct html_command, samples, "Count samples, not periods.")},
    {ROW_FLAG(0, "no-source", struct html_command, no_source, "Leave source files out.")},
    {ROW_FLAG(0, "source", struct html_command, any_source,
              "Put source files in even if others may not read them (root: only files that "
              "everybody may read; under sudo: that the user may read).")},
    {ROW_STRING(0, "source-dir", "DIR", struct html_command, page.sources.folder,
                "Look for source files below DIR first.")},
    {ROW_STRING(0, "diff", "BASE NEW", struct html_command, picture.base,
                "Show the recording NEW, with colours and columns that show how shares changed "
                "since the recording BASE.")},
    {ROW_STRING('o', "output", "FILE", struct html_command, picture.output,
                "Write to FILE instead of to standard output (ljperf.html, if that is a "
                "terminal).")},
    {0},
};

const struct option_set html_command_line = {
    .name = "ljperf html",
    .usage = "[options] [FILE] > FILE.html\n"
             "[options] --diff BASE NEW > FILE.html\n"
             "-p PID | -a [-d SECONDS] -o FILE.html\n"
             "-o FILE.html -- COMMAND [arguments]",
    .about =
        "Writes one HTML page, which needs no network: flame graph, table of functions,\n"
        "callers and callees, and the time of each thread. The page's help (?) has its keys.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
    .argument_name = "FILE",
};

/* One recording to show or compare with. */
struct shown {
    struct common own;
    struct replay *replay;
    struct profile *profile;
    struct traces *traces; /* NULL: not wanted */
};

static void shown_free(struct shown *s)
{
    profile_free(s->profile);
    traces_free(s->traces);
    replay_free(s->replay);
    unpacked_free(s->own.unpacked);
}

/* Read the samples in one run for both, the profile and the traces. */
static int run_both(struct shown *s, const struct traces_options *options, struct error *err)
{
    s->profile = profile_create(false);
    if (!s->profile)
        return error_no_memory(err);
    if (traces_create(s->replay, options, &s->traces, err) < 0)
        return -1;
    struct replay_tee tee = {.main = profile_sink(s->profile), .beside = traces_sink(s->traces)};
    struct replay_sink sink = replay_tee_sink(&tee);
    int failed = replay_run(s->replay, &sink, err);
    if (!failed)
        failed = profile_finish(s->profile, err);
    common_summary(&s->own, s->replay);
    return failed < 0 ? -1 : traces_finish(s->traces, err);
}

/* Read the recording at `path`. `traces`: also what was compiled; NULL: not. */
static int collect(const struct common *c, const char *path, const struct traces_options *traces,
                   struct shown *ret, struct error *err)
{
    ret->own = *c;
    ret->own.replay.input = path;
    ret->own.replay.progress_context = &ret->own;
    ret->own.unpacked = NULL;
    if (common_unpack(&ret->own, err) < 0 || replay_create(&ret->own.replay, &ret->replay, err) < 0)
        return -1;
    if (traces)
        return run_both(ret, traces, err);
    ret->profile = common_profile(&ret->own, ret->replay, false, err);
    return ret->profile ? 0 : -1;
}

static int check_pair(const struct shown *base, const struct shown *shown, struct error *err)
{
    struct diff_recording both[2];
    const struct shown *each[] = {base, shown};
    for (int i = 0; i < 2; i++) {
        const struct profile *p = each[i]->profile;
        const struct export e = {.replay = each[i]->replay};
        unsigned event = UINT16_MAX; /* the first that was sampled */
        vec_foreach (s, &p->samples)
            event = s->event < event ? s->event : event;
        both[i] = (struct diff_recording){.path = each[i]->own.replay.input,
                                          .event = export_event(&e, event),
                                          .samples = replay_stats(each[i]->replay)->passed};
    }
    return diff_check_recordings(both, 2, err);
}

static int write_page(const struct common *c, const struct html_command *hc,
                      const struct shown *shown, const struct shown *base, struct error *err)
{
    const struct export e = {
        .profile = shown->profile, .replay = shown->replay, .samples = hc->samples};
    const struct export b = {
        .profile = base->profile, .replay = base->replay, .samples = hc->samples};
    FILE *out = hc->picture.output ? callers_file_create(hc->picture.output) : stdout;
    if (!out)
        return error_system(err, errno, "%s: cannot write", hc->picture.output);
    int failed = html_write(&e, base->profile ? &b : NULL, &hc->page, out, err);
    struct error at_end;
    if (common_end_output(out, hc->picture.output, failed ? &at_end : err) < 0)
        failed = -1;
    if (!failed && hc->picture.output && !c->quiet)
        fprintf(stderr, "ljperf: wrote %s\n", hc->picture.output);
    return failed;
}

static int run(const struct common *c, struct html_command *hc, struct error *err)
{
    hc->page.source = !hc->no_source;
    hc->page.sources.symfs = c->replay.session.symfs;
    hc->page.sources.for_others = !hc->any_source;
    struct shown base = {0}, shown = {0};
    const struct traces_options traces = {.samples = hc->samples};
    int failed = (hc->picture.base && collect(c, hc->picture.base, NULL, &base, err) < 0) ||
                 collect(c, hc->picture.base ? hc->picture.argument : c->replay.input, &traces,
                         &shown, err) < 0 ||
                 (hc->picture.base && check_pair(&base, &shown, err) < 0);
    hc->page.traces = shown.traces;
    failed = failed || write_page(c, hc, &shown, &base, err) < 0;
    shown_free(&shown);
    shown_free(&base);
    return failed ? -1 : 0;
}

int cmd_html(int argc, char **argv)
{
    struct common c;
    struct html_command hc = {0};
    struct error err = {0};
    common_init(&c);
    c.replay.symbols.lines = true;
    int status = common_parse(&c, &html_command_line, &hc, argc, argv);
    if (status < 0 && common_picture_complete(&c, &hc.picture, "ljperf.html", &err) < 0)
        status = command_line_error(&html_command_line, NULL, &err);
    if (status < 0)
        status = common_record_first(&c, &html_command_line, hc.picture.output);
    if (status < 0)
        status = run(&c, &hc, &err) < 0 ? command_error("html", &err, EXIT_BAD_INPUT) : 0;
    return common_end(&c, status);
}
