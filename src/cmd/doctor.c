/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf doctor: what this machine can record; with -i, how well a recording unwinds; with --vm,
 * which Lua VMs a process, core or file has. */
#include "cmd/common.h"
#include "output/doctor.h"
#include "output/output.h"

#include <stdio.h>
#include <unistd.h>

struct doctor_command {
    const char *vm; /* NULL: none */
};

static const struct option_row rows[] = {
    {ROW_STRING(
        0, "vm", "TARGET", struct doctor_command, vm,
        "Examine LuaJIT, Lua and V8 in a process, a core or an ELF file: print the layout that "
        "was found, the evidence for each value and what each VM does, or the reason why "
        "no layout was found.")},
    {0},
};

const struct option_set doctor_command_line = {
    .name = "ljperf doctor",
    .usage = "[options] [FILE]",
    .about =
        "Without -i, doctor tells whether this machine can record what is needed. It prints one\n"
        "line for each need (ok, warn, missing) with the cure, and exits 1 when something is\n"
        "missing. With -i FILE, it tells how the recording's stacks ended, where and why, and\n"
        "what would help.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    COMMON_ARGUMENT,
};

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
    struct doctor_command dc = {0};
    int status = common_parse(&c, &doctor_command_line, &dc, argc, argv);
    if (status < 0)
        common_page(&c);
    if (status < 0 && dc.vm)
        status = examine_vm(&c, dc.vm, &out, &err);
    else if (status < 0)
        status = c.replay.input ? examine_file(&c, &out, &err) : examine_machine(&out, &err);
    text_free(&out);
    return common_end(&c, status);
}
