/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf export: write a recording as a file for another profile viewer. */
#include "cmd/common.h"
#include "base/private_file.h"
#include "output/export.h"
#include "output/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct format {
    const char *name, *file; /* default name of the output */
    const char *ending;      /* end of such names (before .gz); without a dot: their start */
    int (*write)(const struct export *e, FILE *out, struct error *err); /* NULL: folded */
    bool lines;                                                         /* can hold line numbers */
    bool gzip;                                                          /* always compressed */
    bool one_event; /* can hold one event only */
};

static const struct format formats[] = {
    {"pprof", "profile.pb.gz", ".pb", export_pprof, true, true, false},
    {"otlp", "profile.otlp", ".otlp", export_otlp, true, false, false},
    {"otlp-json", "profile.otlp.json", ".otlp.json", export_otlp_json, true, false, false},
    {"speedscope", "profile.speedscope.json", ".speedscope.json", export_speedscope, false, false,
     false},
    {"firefox", "profile.firefox.json", ".firefox.json", export_firefox, true, false, true},
    {"chrome", "profile.cpuprofile", ".cpuprofile", export_chrome, true, false, true},
    {"callgrind", "callgrind.out.ljperf", "callgrind.out", export_callgrind, true, false, true},
    {"json", "profile.jsonl", ".jsonl", export_json, true, false, false},
    {"folded", "profile.folded", ".folded", NULL, false, false, true},
};

enum { NR_FORMATS = sizeof(formats) / sizeof(*formats) };

struct export_command {
    const struct format *format;
    const char *output;
    bool samples;
    unsigned labels; /* enum export_label */
    bool has_labels; /* --labels was given */
    const char *service;
};

/* ---- options ------------------------------------------------------------------------------- */

static const char *format_names(void)
{
    return "pprof,otlp,otlp-json,speedscope,firefox,chrome,callgrind,json,folded";
}

static int take_format(void *target, const struct option_value *v, struct error *err)
{
    struct export_command *c = target;
    for (int i = 0; i < NR_FORMATS; i++)
        if (strcmp(formats[i].name, v->text) == 0) {
            c->format = &formats[i];
            return 0;
        }
    return option_error(v, err, "expects one of %s, not `%.60s'", format_names(), v->text);
}

static const char *label_names(void)
{
    return "thread,pid,tid,tier,vm_state,provenance,stack,all,none";
}

static int take_labels(void *target, const struct option_value *v, struct error *err)
{
    /* In the order of enum export_label. */
    static const char *const names[] = {"thread",   "pid",        "tid",  "tier",
                                        "vm_state", "provenance", "stack"};
    struct export_command *c = target;
    char *rest = v->text;
    c->labels = 0;
    c->has_labels = true;
    for (char *name; (name = strsep(&rest, ","));) {
        unsigned label = strcmp(name, "all") == 0 ? LABELS_ALL : 0;
        for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (strcmp(name, names[i]) == 0)
                label = 1U << i;
        if (!label && strcmp(name, "none") != 0)
            return option_error(v, err, "expects some of %s, not `%.60s'", label_names(), name);
        c->labels |= label;
    }
    return 0;
}

static const struct option_row rows[] = {
    {ROW_CALL(0, "format", "FORMAT", take_format,
              "Write one of these formats. Without this option, the end of the output's name "
              "selects the format."),
     .word_list = format_names},
    {ROW_STRING('o', "output", "FILE", struct export_command, output,
                "Write to FILE (- for standard output). FILE.gz is compressed.")},
    {ROW_FLAG(0, "samples", struct export_command, samples, "Count samples, not periods.")},
    {ROW_CALL(0, "labels", "LIST", take_labels,
              "In pprof and otlp, give samples these labels: thread, pid, tid, tier, vm_state, "
              "provenance, stack, or all or none (pprof: all; otlp: none)."),
     .list = true, .word_list = label_names},
    {ROW_STRING(0, "service", "NAME", struct export_command, service,
                "In otlp, call the service NAME (the command of each process).")},
    {0},
};

const struct option_set export_command_line = {
    .name = "ljperf export",
    .usage = "--format FORMAT [options] [FILE]\n"
             "-o FILE [options] [FILE]\n"
             "-o FILE -p PID | -a [-d SECONDS]\n"
             "-o FILE [options] -- COMMAND [arguments]",
    .about =
        "Writes a recording as a file that other programs read:\n"
        "  pprof        profile.pb.gz            go tool pprof and services that read its files\n"
        "  otlp         profile.otlp             OpenTelemetry's profiles, in protobuf's form\n"
        "  otlp-json    profile.otlp.json        the same as JSON\n"
        "  speedscope   profile.speedscope.json  speedscope.app\n"
        "  firefox      profile.firefox.json     profiler.firefox.com\n"
        "  chrome       profile.cpuprofile       Chrome's developer tools, VS Code\n"
        "  callgrind    callgrind.out.ljperf     KCachegrind, callgrind_annotate\n"
        "  json         profile.jsonl            one JSON object a line for each sample\n"
        "  folded       profile.folded           the output of ljperf fold\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    COMMON_ARGUMENT,
};

static bool ends_with(const char *name, size_t size, const char *ending)
{
    size_t n = strlen(ending);
    return size > n && memcmp(name + size - n, ending, n) == 0;
}

static bool is_gzip_name(const char *name)
{
    return ends_with(name, strlen(name), ".gz");
}

/* Returns the format that a file's name implies; NULL: none. */
static const struct format *format_of_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t size = strlen(name) - (is_gzip_name(name) ? 3 : 0);
    for (int i = 0; i < NR_FORMATS; i++)
        if (ends_with(name, size, formats[i].ending) ||
            (*formats[i].ending != '.' && strncmp(name, formats[i].ending, 13) == 0))
            return &formats[i];
    return NULL;
}

/* Returns -1 to go on, or the status to exit with. */
static int complete_options(struct export_command *c)
{
    struct error err = {0};
    if (!c->format && c->output)
        c->format = format_of_name(c->output);
    if (!c->format) {
        error_set(&err, ERROR_FORMAT,
                  c->output ? "the output's name selects no format: give --format FORMAT"
                            : "no format is named: give --format FORMAT or -o FILE");
        return command_line_error(&export_command_line, NULL, &err);
    }
    if (!c->output)
        c->output = c->format->file;
    if (!c->has_labels && c->format->write == export_pprof)
        c->labels = LABELS_ALL;
    if (strcmp(c->output, "-") == 0)
        c->output = NULL;
    if (!c->output && c->format->gzip && isatty(STDOUT_FILENO)) {
        error_set(&err, ERROR_FORMAT, "%s is not written to a terminal; give -o FILE",
                  c->format->name);
        return command_line_error(&export_command_line, NULL, &err);
    }
    return -1;
}

/* ---- the file ------------------------------------------------------------------------------ */

static ssize_t gzip_write(void *file, const char *bytes, size_t size)
{
    unsigned most = size < 1 << 30 ? (unsigned)size : 1 << 30;
    return gzwrite(file, bytes, most);
}

static int gzip_close(void *file)
{
    return gzclose(file) == Z_OK ? 0 : EOF;
}

/* Returns a stream that compresses to `fd`; closing the stream closes `fd`. */
static FILE *open_gzip(int fd)
{
    gzFile file = fd < 0 ? NULL : gzdopen(fd, "wb");
    FILE *out = file
                    ? fopencookie(file, "w",
                                  (cookie_io_functions_t){.write = gzip_write, .close = gzip_close})
                    : NULL;
    if (file && !out)
        gzclose(file);
    else if (!file && fd >= 0)
        close(fd);
    return out;
}

static FILE *open_output(const struct export_command *c)
{
    bool gzip = c->format->gzip || (c->output && is_gzip_name(c->output));
    FILE *plain = c->output ? callers_file_create(c->output) : NULL;
    if (c->output && !plain)
        return NULL;
    if (!gzip && plain)
        return plain;
    int fd = dup(plain ? fileno(plain) : STDOUT_FILENO);
    if (plain)
        fclose(plain);
    if (gzip)
        return open_gzip(fd);
    FILE *out = fdopen(fd, "w");
    if (!out)
        close(fd);
    return out;
}

/* ---- the work ------------------------------------------------------------------------------ */

/* Choose the event for a format that can hold only one, like fold: the first that was sampled. Says
 * which samples are left out. */
static unsigned choose_event(const struct profile *p, const struct export_command *c,
                             const struct replay *r)
{
    unsigned event = UINT16_MAX;
    uint64_t others = 0, without = 0;
    vec_foreach (s, &p->samples)
        event = s->event < event ? s->event : event;
    vec_foreach (s, &p->samples) {
        others += s->event != event;
        without += !s->node;
    }
    if (others && c->format->one_event)
        common_say_one_event(export_event(&(struct export){.replay = r}, event), others);
    if (without && c->format->write != export_json)
        fprintf(stderr, "ljperf: %" PRIu64 " samples without a stack are left out\n", without);
    return event;
}

static int write_profile(struct profile *p, const struct export_command *c, struct replay *r,
                         FILE *out, struct error *err)
{
    struct export e = {.profile = p,
                       .replay = r,
                       .samples = c->samples,
                       .labels = c->labels,
                       .service = c->service};
    e.event = choose_event(p, c, r);
    return c->format->write(&e, out, err);
}

static int collect_profile(struct common *common, const struct export_command *c, struct replay *r,
                           FILE *out, struct error *err)
{
    struct profile *p = common_profile(common, r, c->format->write == export_pprof, err);
    int failed = p ? write_profile(p, c, r, out, err) : -1;
    profile_free(p);
    return failed ? -1 : 0;
}

static int collect_folded(struct common *common, const struct export_command *c, struct replay *r,
                          FILE *out, struct error *err)
{
    struct stacks_options kept = {0};
    struct fold_options fold = {.event = -1, .samples = c->samples};
    struct stacks *s = common_collect(common, r, &kept, err);
    int failed = !s || fold_print(s, &fold, out, err) < 0;
    stacks_free(s);
    return failed ? -1 : 0;
}

enum { OUTPUT_BUFFER = 256 << 10 };

static int run(struct common *common, const struct export_command *c, struct error *err)
{
    struct replay *r;
    const char *name = c->output ? c->output : "standard output";
    if (replay_create(&common->replay, &r, err) < 0)
        return -1;
    FILE *out = open_output(c);
    int failed;
    if (out) {
        setvbuf(out, NULL, _IOFBF, OUTPUT_BUFFER);
        failed = c->format->write ? collect_profile(common, c, r, out, err)
                                  : collect_folded(common, c, r, out, err);
        bool bad = ferror(out);
        bad |= fclose(out) != 0;
        if (!failed && bad && errno != EPIPE)
            failed = error_system(err, errno, "%s: cannot write", name);
    } else {
        failed = error_system(err, errno, "%s: cannot write", name);
    }
    replay_free(r);
    if (!failed && c->output && !common->quiet)
        fprintf(stderr, "ljperf: wrote %s\n", c->output);
    return failed;
}

int cmd_export(int argc, char **argv)
{
    struct common common;
    struct export_command c = {0};
    struct error err = {0};
    common_init(&common);
    int status = common_parse(&common, &export_command_line, &c, argc, argv);
    if (status < 0)
        status = complete_options(&c);
    if (status < 0)
        status = common_record_first(&common, &export_command_line, c.output);
    if (status < 0) {
        common.replay.symbols.lines = c.format->lines;
        status = run(&common, &c, &err) < 0 ? command_error("export", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&common, status);
}
