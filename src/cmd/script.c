/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf script: print every sample with its stack, as perf script does. */
#include "cmd/common.h"
#include "output/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct script_command {
    struct script_options script;
    bool header, header_only;
};

static int take_fields(void *target, const struct option_value *v, struct error *err)
{
    struct script_options *o = &((struct script_command *)target)->script;
    char *rest = v->text;
    for (char *name; (name = strsep(&rest, ","));) {
        char sign = *name == '+' || *name == '-' ? *name++ : 0;
        uint32_t field = script_field(name);
        if (!field)
            return option_error(v, err, "has no field `%.40s'; the fields are %s", name,
                                script_field_names());
        *(sign == '+' ? &o->add : sign == '-' ? &o->remove : &o->fields) |= field;
    }
    return 0;
}

static const struct option_row rows[] = {
    {ROW_CALL(
         'F', "fields", "LIST", take_fields,
         "Print these fields; +FIELD adds to the default, -FIELD removes: comm, tid, pid, time, "
         "cpu, event, trace, ip, sym, dso, addr, symoff, srcline, period, weight, misc, "
         "phys_addr, uregs, insn, insnlen, brstack, cgroup, unwind, callname, sample."),
     .list = true, .word_list = script_field_names},
    {ROW_NAMES('S', "symbols", "NAMES", struct script_command, script.symbols,
               "Print only samples in these functions (separated by commas).")},
    {ROW_FLAG('G', "hide-call-graph", struct script_command, script.no_callchain,
              "Print only the innermost address of each stack.")},
    {ROW_FLAG(0, "ns", struct script_command, script.nanoseconds, "Print times in nanoseconds.")},
    {ROW_FLAG(0, "reltime", struct script_command, script.relative,
              "Print times since the first sample.")},
    {ROW_FLAG(0, "deltatime", struct script_command, script.deltas,
              "Print times since the sample before.")},
    {ROW_FLAG(0, "header", struct script_command, header,
              "Print the recording's header before the samples.")},
    {ROW_FLAG(0, "header-only", struct script_command, header_only, "Print only the header.")},
    {0},
};

const struct option_set script_command_line = {
    .name = "ljperf script",
    .usage = "[options] [FILE]",
    .about = "Prints every sample with its stack, in the format of perf script.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    COMMON_ARGUMENT,
};

static int print_header(const struct replay *r, struct error *err)
{
    struct text out = {0};
    int failed = common_put_header(r, &out, err) < 0 || common_write(NULL, &out, err) < 0 ? -1 : 0;
    text_free(&out);
    return failed;
}

static int run(struct common *c, struct script_command *sc, struct error *err)
{
    struct replay *r;
    struct script *s = NULL;
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    int failed = sc->header ? print_header(r, err) : 0;
    if (!failed && !sc->header_only) {
        failed = script_create(&sc->script, r, &s, err);
        if (!failed) {
            struct replay_sink sink = script_sink(s);
            failed = replay_run(r, &sink, err);
            common_summary(c, r);
        }
    }
    script_free(s);
    replay_free(r);
    return failed;
}

int cmd_script(int argc, char **argv)
{
    struct common c;
    struct script_command sc = {.script.fd = STDOUT_FILENO};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &script_command_line, &sc, argc, argv);
    if (status < 0 && sc.script.relative && sc.script.deltas) {
        error_set(&err, ERROR_FORMAT, "--reltime and --deltatime exclude each other");
        status = command_line_error(&script_command_line, NULL, &err);
    }
    if (sc.script.relative || sc.script.deltas)
        c.replay.threads = 1; /* each time depends on an earlier sample */
    if (status < 0) {
        sc.header |= sc.header_only;
        sc.script.show_inlined = c.replay.symbols.inlines;
        c.replay.symbols.lines = (sc.script.fields | sc.script.add) & FIELD_SRCLINE;
        common_page(&c);
        status = run(&c, &sc, &err) < 0 ? command_error("script", &err, EXIT_BAD_INPUT) : 0;
    }
    vec_free(&sc.script.symbols);
    return common_end(&c, status);
}
