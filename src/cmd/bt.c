/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf bt: print the stacks of a live process or of a core, once. */
#include "live/stopped_process.h"
#include "cmd/common.h"
#include "output/backtrace.h"
#include "output/output.h"
#include "session/walk_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bt_command {
    const char *target; /* process id or path: common_take_process() */
    bool callname, registers, locals, temporaries, json;
    unsigned depth, fields, string;
};

static const struct option_row rows[] = {
    {ROW_CALL('p', NULL, "PID", common_take_pid, "Print the stacks of this process.")},
    {ROW_STRING(0, "core", "FILE", struct bt_command, target,
                "Print the stacks in this core file.")},
    {ROW_FLAG(0, "callname", struct bt_command, callname,
              "Also print the names by which callers call Lua functions.")},
    {ROW_FLAG(0, "locals", struct bt_command, locals,
              "Print names and values of the variables of Lua and JavaScript functions.")},
    {ROW_FLAG(0, "temporaries", struct bt_command, temporaries,
              "With --locals: also slots that no variable has.")},
    {ROW_NUMBER(
        0, "depth", "N", struct bt_command, depth, 0, VARIABLES_DEPTH_MAX,
        "With --locals: list the fields of tables, their tables' fields and so on, N levels "
        "deep; 0: no fields. Default: 1.")},
    {ROW_NUMBER(0, "fields", "N", struct bt_command, fields, 0, 1 << 20,
                "With --locals: list at most N fields of a table. Default: 16.")},
    {ROW_NUMBER(0, "strings", "N", struct bt_command, string, 0, 4000,
                "With --locals: print at most N bytes of a string. Default: 200.")},
    {ROW_FLAG(0, "registers", struct bt_command, registers,
              "Also print the registers of all threads, as -v does. Those of a thread that has "
              "crashed are always printed.")},
    {ROW_FLAG(0, "json", struct bt_command, json, "Print one JSON document.")},
    {0},
};

const struct option_set bt_command_line = {
    .name = "ljperf bt",
    .usage = "[-p] PID [options]\n[--core] FILE [options]",
    .about = "Prints the stack of every thread of a process or a core, in the format of ljperf\n"
             "script. A live process is stopped while its stacks are read.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    .arguments = ARGUMENTS_TAKEN,
    .argument = common_take_process,
    .argument_name = "FILE",
};

/* The state that all threads share. */
struct bt {
    struct stopped_process process;
    struct replay_worker *worker;
    struct session_vms vms;
    struct backtrace out;
    const struct common *common;
    const struct backtrace_options *options;
};

static int put_thread(struct bt *b, const struct core_thread *t, bool is_crashed, struct error *err)
{
    const struct stopped_process *s = &b->process;
    unsigned max_stack = b->common->replay.max_stack;
    const struct sample sample = {.pid = s->pid, .tid = t->tid};
    struct replay_sample stack;
    const struct walk_parts parts = {.thread = &s->thread, .stopped = &s->layers[0]};
    struct walk_memory memory;
    struct unwind_input in = {.registers = t->registers};
    char name[64];
    walk_input(&parts, max_stack ? max_stack : 65536, &memory, &in);
    if (replay_stopped_walk(b->worker, &s->thread, &in, &b->vms.vms, backtrace_places(&b->out),
                            &sample, &stack, err))
        return -1;
    stopped_process_command(s, t->tid, name, sizeof(name));
    const struct backtrace_thread out = {.thread = t,
                                         .name = name,
                                         .is_crashed = is_crashed,
                                         .stack = &stack,
                                         .memory = &in.memory,
                                         .code = &in.code};
    return backtrace_thread(&b->out, &out, err);
}

/* The thread that crashed comes first. */
static int put_threads(struct bt *b, struct error *err)
{
    struct stopped_process *s = &b->process;
    const struct core_thread *crashed = stopped_process_crashed(s);
    int failed = 0;
    b->out.process = s;
    b->out.worker = b->worker;
    backtrace_begin(&b->out);
    if (crashed)
        failed = put_thread(b, crashed, true, err);
    for (size_t i = 0; i < s->threads.nr && !failed; i++) {
        if (&s->threads.at[i] != crashed)
            failed = put_thread(b, &s->threads.at[i], false, err);
    }
    backtrace_end(&b->out);
    return failed;
}

static int stop_and_put(struct bt *b, struct error *err)
{
    struct stopped_process *s = &b->process;
    int failed = replay_stopped_create(s->dsos, &b->common->replay, &b->worker, err);
    if (!failed) /* before the threads stop: it may take a while */
        failed = stopped_process_vms(s, &b->vms, err);
    if (!failed)
        failed = stopped_process_stop(s, err);
    if (!failed)
        failed = put_threads(b, err);
    stopped_process_continue(s);
    return failed;
}

/* Nothing is written while a process is stopped: whoever reads it may be slow, or be stopped. */
static int put_text(struct bt *b, struct error *err)
{
    bool closed = false;
    int failed = stop_and_put(b, err);
    return failed ? -1 : text_write(&b->out.out, STDOUT_FILENO, &closed, err);
}

static int put_json(struct bt *b, struct error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);
    struct text whole = {0};
    bool closed = false;
    b->out.json = to ? json_create(to) : NULL;
    int failed = b->out.json ? stop_and_put(b, err) : error_no_memory(err);
    if (b->out.json && !json_finish(b->out.json) && !failed)
        failed = error_no_memory(err);
    if (to && fclose(to) && !failed)
        failed = error_no_memory(err);
    text_bytes(&whole, bytes, size);
    if (!failed)
        failed = text_write(&whole, STDOUT_FILENO, &closed, err);
    text_free(&whole);
    free(bytes);
    return failed;
}

static struct backtrace_options options_of(const struct common *c, const struct bt_command *command)
{
    struct backtrace_options o = backtrace_options_default();
    o.fields |= command->callname ? FIELD_CALLNAME : 0;
    o.inlines = c->replay.symbols.inlines;
    o.registers = command->registers || c->verbose;
    o.variables = command->locals;
    o.json = command->json;
    o.wanted.temporaries = command->temporaries;
    o.wanted.depth = command->depth;
    o.wanted.fields_max = command->fields;
    o.wanted.string_max = command->string;
    return o;
}

static int run(const struct common *c, const struct bt_command *command, struct error *err)
{
    const struct backtrace_options options = options_of(c, command);
    struct bt b = {.common = c, .options = &options, .out = {.options = &options}};
    if (stopped_process_open(command->target, &c->replay.dso, &c->replay.session, &b.process, err))
        return -1;
    int failed = options.json ? put_json(&b, err) : put_text(&b, err);
    replay_stopped_free(b.worker);
    session_vms_free(&b.vms);
    stopped_process_close(&b.process);
    text_free(&b.out.out);
    return failed;
}

int cmd_bt(int argc, char **argv)
{
    struct common c;
    struct error err = {0};
    const struct variables_wanted wanted = backtrace_options_default().wanted;
    struct bt_command b = {
        .depth = wanted.depth, .fields = wanted.fields_max, .string = wanted.string_max};
    common_init(&c);
    c.replay.symbols.lines = true;
    int status = common_parse(&c, &bt_command_line, &b, argc, argv);
    if (status < 0 && !b.target) {
        error_set(&err, ERROR_FORMAT, "no process or core is named: give its PID or FILE");
        status = command_line_error(&bt_command_line, NULL, &err);
    } else if (status < 0) {
        common_page(&c);
        bool failed = run(&c, &b, &err) < 0;
        status = failed ? command_error("bt", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
