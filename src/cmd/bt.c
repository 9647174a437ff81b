/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf bt: print the stacks of a live process or of a core, once. */
#include "live/stopped_process.h"
#include "cmd/common.h"
#include "output/output.h"
#include "session/walk_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct bt_command {
    const char *target; /* process id or path */
    bool callname;
};

static int take_pid(void *target, const struct option_value *v, struct error *err)
{
    if (!*v->text || strspn(v->text, "0123456789") != strlen(v->text))
        return option_error(v, err, "expects a process id, not `%.60s'", v->text);
    ((struct bt_command *)target)->target = v->text;
    return 0;
}

static const struct option_row rows[] = {
    {ROW_CALL('p', NULL, "PID", take_pid, "Print the stacks of this process.")},
    {ROW_STRING(0, "core", "FILE", struct bt_command, target,
                "Print the stacks in this core file.")},
    {ROW_FLAG(0, "callname", struct bt_command, callname,
              "Also print the names by which callers call Lua functions.")},
    {0},
};

const struct option_set bt_command_line = {
    .name = "ljperf bt",
    .usage = "-p PID [options]\n--core FILE [options]",
    .about = "Prints the stack of every thread of a process or a core, in the format of ljperf\n"
             "script. A live process is stopped while its stacks are read.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
};

/* Write the head line of a thread; for a live process it has the thread's command name. */
static void put_head(struct text *out, const struct stopped_process *s, uint32_t tid)
{
    char path[64], comm[32] = "";
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/comm", s->pid, tid);
    FILE *f = s->process ? fopen(path, "re") : NULL;
    if (f && fscanf(f, "%31[^\n]", comm) == 1 && *comm) {
        text_name(out, comm);
        text_char(out, ' ');
    } else {
        text_string(out, "thread ");
    }
    if (f)
        fclose(f);
    text_printf(out, "%" PRIu32 "/%" PRIu32 "\n", s->pid, tid);
}

/* The state that all threads share. */
struct bt {
    struct stopped_process process;
    struct replay_worker *worker;
    struct session_vms vms;
    struct text out;
    const struct common *common;
    uint32_t fields;
};

static int put_thread(struct bt *b, const struct core_thread *t, struct error *err)
{
    const struct stopped_process *s = &b->process;
    unsigned max_stack = b->common->replay.max_stack;
    const struct sample sample = {.pid = s->pid, .tid = t->tid};
    struct replay_sample stack;
    const struct walk_parts parts = {.thread = &s->thread, .stopped = &s->layers[0]};
    struct walk_memory memory;
    struct unwind_input in = {.registers = t->registers};
    walk_input(&parts, max_stack ? max_stack : 65536, &memory, &in);
    if (replay_stopped_walk(b->worker, &s->thread, &in, &b->vms.vms, &sample, &stack, err))
        return -1;
    put_head(&b->out, s, t->tid);
    script_put_end(&b->out, &stack);
    if (script_put_frames(&b->out, b->worker, &stack, b->fields, b->common->replay.symbols.inlines,
                          err))
        return -1;
    text_char(&b->out, '\n');
    return 0;
}

static int put_all(struct bt *b, struct error *err)
{
    struct stopped_process *s = &b->process;
    bool closed = false;
    int failed = replay_stopped_create(s->dsos, &b->common->replay.symbols, &b->worker, err);
    if (!failed) /* before the threads stop: it may take a while */
        failed = stopped_process_vms(s, &b->vms, err);
    if (!failed)
        failed = stopped_process_stop(s, err);
    for (size_t i = 0; i < s->threads.nr && !failed; i++)
        failed = put_thread(b, &s->threads.at[i], err);
    stopped_process_continue(s);
    return failed ? -1 : text_write(&b->out, STDOUT_FILENO, &closed, err);
}

static int run(const struct common *c, const struct bt_command *command, struct error *err)
{
    struct bt b = {.common = c,
                   .fields = FIELD_CALLCHAIN_DEFAULTS | (command->callname ? FIELD_CALLNAME : 0)};
    if (stopped_process_open(command->target, &c->replay.dso, &b.process, err))
        return -1;
    int failed = put_all(&b, err);
    replay_stopped_free(b.worker);
    session_vms_free(&b.vms);
    stopped_process_close(&b.process);
    text_free(&b.out);
    return failed;
}

int cmd_bt(int argc, char **argv)
{
    struct common c;
    struct error err = {0};
    struct bt_command b = {0};
    common_init(&c);
    int status = common_parse(&c, &bt_command_line, &b, argc, argv);
    if (status < 0 && !b.target) {
        error_set(&err, ERROR_FORMAT, "no process or core is named: give -p PID or --core FILE");
        status = command_line_error(&bt_command_line, NULL, &err);
    } else if (status < 0) {
        bool failed = run(&c, &b, &err) < 0;
        status = failed ? command_error("bt", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
