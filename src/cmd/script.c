/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf script: print every sample with its stack, as perf script does. */
#include "cmd/common.h"
#include "output/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: ljperf script [options]\n"
    "\n"
    "Prints every sample with its stack, in perf script's format.\n"
    "\n"
    "  -F, --fields LIST    what to print, or +FIELD,-FIELD to change the default:\n"
    "                       comm,tid,pid,time,cpu,event,trace,ip,sym,dso,addr,symoff,\n"
    "                       srcline,period,weight,misc,phys_addr,uregs,unwind,callname\n"
    "  -G, --hide-call-graph  only the innermost address\n"
    "      --ns             times in nanoseconds\n"
    "      --header         print the recording's header first\n"
    "      --header-only    print nothing but the header\n";

enum { OPT_NS = OPT_COMMON_END, OPT_HEADER, OPT_HEADER_ONLY };

static const struct option options[] = {
    COMMON_LONG,
    {"fields", required_argument, NULL, 'F'},
    {"hide-call-graph", no_argument, NULL, 'G'},
    {"ns", no_argument, NULL, OPT_NS},
    {"header", no_argument, NULL, OPT_HEADER},
    {"header-only", no_argument, NULL, OPT_HEADER_ONLY},
    {0},
};

struct script_command {
    struct script_options script;
    bool header, header_only;
};

static int parse_fields(struct script_options *o, const char *value, struct error *err)
{
    char *copy = strdup(value);
    char *rest = copy;
    if (!copy)
        return error_no_memory(err);
    for (char *name; (name = strsep(&rest, ","));) {
        char sign = *name == '+' || *name == '-' ? *name++ : 0;
        uint32_t field = script_field(name);
        if (!field) {
            error_set(err, ERROR_FORMAT, "-F: no field is called '%s'; there are %s", name,
                      script_field_names());
            break;
        }
        *(sign == '+' ? &o->add : sign == '-' ? &o->remove : &o->fields) |= field;
    }
    free(copy);
    return err->kind == ERROR_NONE ? 0 : -1;
}

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct script_command *c = context;
    switch (option) {
    case 'F':
        return parse_fields(&c->script, value, err);
    case 'G':
        c->script.no_callchain = true;
        return 0;
    case OPT_NS:
        c->script.nanoseconds = true;
        return 0;
    case OPT_HEADER:
        c->header = true;
        return 0;
    case OPT_HEADER_ONLY:
        c->header = c->header_only = true;
        return 0;
    default:
        return 0;
    }
}

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
    int status =
        common_parse(&c, argc, argv, COMMON_LETTERS "F:G", options, usage, own_option, &sc);
    if (status < 0) {
        sc.script.show_inlined = c.replay.symbols.inlines;
        c.replay.symbols.lines = (sc.script.fields | sc.script.add) & FIELD_SRCLINE;
        status = run(&c, &sc, &err) < 0 ? command_error("script", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
