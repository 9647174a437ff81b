/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf doctor: what this machine can record; with -i, how well a recording unwinds; with --vm,
 * which Lua VMs a process, core or file has. */
#include "cmd/common.h"
#include "output/doctor.h"
#include "output/output.h"

#include <stdio.h>
#include <unistd.h>

static const char usage[] =
    "Usage: ljperf doctor [options]\n"
    "\n"
    "Without -i: is this machine able to record what is needed? One line each (ok, warn,\n"
    "missing) with the cure; exit status 1 when something is missing.\n"
    "With -i FILE: how the recording's stacks ended, where and why, and what would help.\n"
    "\n"
    "      --vm TARGET      the LuaJIT and V8 of a process, a core or an ELF file: the layout "
    "found,\n"
    "                       the evidence for each value, and what each VM does; or why not\n";

enum { OPT_VM = OPT_COMMON_END };

static const struct option options[] = {COMMON_LONG, {"vm", required_argument, NULL, OPT_VM}, {0}};

static int own_option(void *context, int option, const char *value, struct error *err)
{
    const char **vm = context;
    (void)err;
    if (option == OPT_VM)
        *vm = value;
    return 0;
}

static int examine_vm(const struct common *c, const char *vm, struct text *out, struct error *err)
{
    bool closed = false, found;
    if (doctor_vm(vm, &c->replay.dso, out, &found, err) < 0 ||
        text_write(out, STDOUT_FILENO, &closed, err) < 0)
        return command_error("doctor", err, EXIT_BAD_INPUT);
    return found ? 0 : EXIT_BAD_INPUT;
}

static int examine_machine(struct text *out, struct error *err)
{
    bool able = false;
    bool closed = false;
    doctor_machine(out, &able);
    if (text_write(out, STDOUT_FILENO, &closed, err) < 0)
        return command_error("doctor", err, EXIT_BAD_INPUT);
    return able ? 0 : EXIT_BAD_INPUT;
}

static int examine_file(struct common *c, struct text *out, struct error *err)
{
    struct replay *r;
    bool closed = false;
    if (replay_create(&c->replay, &r, err) < 0)
        return command_error("doctor", err, EXIT_BAD_INPUT);
    int failed = doctor_file(r, out, err);
    c->quiet = true; /* the report already contains the summary */
    common_summary(c, r);
    failed = failed || text_write(out, STDOUT_FILENO, &closed, err) < 0;
    replay_free(r);
    return failed ? command_error("doctor", err, EXIT_BAD_INPUT) : 0;
}

int cmd_doctor(int argc, char **argv)
{
    struct common c;
    struct error err = {0};
    struct text out = {0};
    common_init(&c);
    c.replay.symbols.inlines = false;
    const char *vm = NULL;
    int status = common_parse(&c, argc, argv, COMMON_LETTERS, options, usage, own_option, &vm);
    if (status < 0 && vm)
        status = examine_vm(&c, vm, &out, &err);
    else if (status < 0)
        status = c.replay.input ? examine_file(&c, &out, &err) : examine_machine(&out, &err);
    text_free(&out);
    common_free(&c);
    return status;
}
