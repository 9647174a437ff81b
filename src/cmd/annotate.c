/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf annotate: a function's source or machine code, with the weight of each line. */
#include "cmd/common.h"
#include "output/annotate_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct annotate_command {
    struct annotate_options options;
    bool stdio;
    uint32_t trace;  /* 0: none */
    char *recording; /* given as an argument; NULL: none */
};

static int set_symbol(struct annotate_command *c, const char *symbol, struct error *err)
{
    if (c->options.symbol)
        return error_set(err, ERROR_FORMAT,
                         "only one function can be annotated, not both `%.80s' and `%.80s'",
                         c->options.symbol, symbol);
    c->options.symbol = symbol;
    return 0;
}

static int take_argument(void *target, char *text, struct error *err)
{
    struct annotate_command *c = target;
    if (c->recording || !looks_like_recording(text))
        return set_symbol(c, text, err);
    c->recording = text;
    return 0;
}

static int take_symbol(void *target, const struct option_value *v, struct error *err)
{
    return set_symbol(target, v->text, err);
}

static const char *const syntaxes[] = {"intel", "att", NULL}; /* enum annotate_syntax */

static const struct option_row rows[] = {
    {ROW_CALL('s', "symbol", "SYMBOL", take_symbol, "The same as the argument SYMBOL.")},
    {ROW_NUMBER(
        0, "trace", "N", struct annotate_command, trace, 1, UINT16_MAX,
        "Print the machine code of LuaJIT's trace N, with its bytecode and lines, its exits "
        "and where they lead.")},
    {ROW_STRING(0, "source-dir", "DIR", struct annotate_command, options.source_dir,
                "Look for source files below DIR first.")},
    {ROW_FLAG(0, "stdio", struct annotate_command, stdio,
              "Print text, as this command always does.")},
    {ROW_WORD('M', "disassembler-style", "STYLE", struct annotate_command, options.syntax, syntaxes,
              "Write machine code as Intel (intel, the default) or AT&T (att) does.")},
    {ROW_FLAG('l', "print-line", struct annotate_command, options.lines,
              "First list the heaviest lines, and name them beside their instructions.")},
    {ROW_FLAG('n', "show-nr-samples", struct annotate_command, options.counts,
              "Print numbers of samples, not percentages.")},
    {ROW_FLAG(0, "samples", struct annotate_command, options.samples,
              "Count samples, not periods.")},
    {0},
};

const struct option_set annotate_command_line = {
    .name = "ljperf annotate",
    .usage = "[options] [FILE] [SYMBOL]",
    .about =
        "Prints the source of a Lua or JavaScript function, or the machine code of a native one,\n"
        "with the share of the function's samples beside each line. SYMBOL is a function as\n"
        "ljperf report prints it, or its name alone. Without SYMBOL, annotate prints the\n"
        "function with the most samples of its own.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    .arguments = ARGUMENTS_TAKEN,
    .argument = take_argument,
};

static int run_function(struct common *common, const struct annotate_options *o, struct replay *r,
                        struct error *err)
{
    struct profile *p = common_profile(common, r, false, err);
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
    int status = common_parse(&c, &annotate_command_line, &ac, argc, argv);
    if (status < 0 && ac.recording &&
        (common_take_input(&c, ac.recording, &err) < 0 || common_unpack(&c, &err) < 0))
        status = command_error("annotate", &err, EXIT_BAD_USAGE);
    if (status < 0 && ac.trace && ac.options.symbol) {
        error_set(&err, ERROR_FORMAT, "a function and --trace cannot be given together");
        status = command_line_error(&annotate_command_line, NULL, &err);
    }
    ac.options.samples |= ac.options.counts;
    if (status < 0) {
        common_page(&c);
        status = run(&c, &ac, &err) < 0 ? command_error("annotate", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
