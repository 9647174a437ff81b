/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf bt: print the stacks of a live process or of a core, once. */
#include "live/stopped_process.h"
#include "cmd/common.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "Usage: ljperf bt [options]\n"
                            "\n"
                            "Prints the stack of every thread of a process or a core, in the form "
                            "of ljperf script. A live\n"
                            "process is stopped while its stacks are read.\n"
                            "\n"
                            "  -p PID               of this process\n"
                            "      --core FILE      of this core file\n"
                            "      --callname       also what callers call Lua functions\n";

enum { OPT_CALLNAME = OPT_COMMON_END, OPT_CORE };

static const struct option options[] = {COMMON_LONG,
                                        {"core", required_argument, NULL, OPT_CORE},
                                        {"callname", no_argument, NULL, OPT_CALLNAME},
                                        {0}};

struct bt_command {
    const char *target; /* process id or path */
    uint32_t fields;
};

static int own_option(void *context, int option, const char *value, struct error *err)
{
    struct bt_command *b = context;
    switch (option) {
    case OPT_CALLNAME:
        b->fields |= FIELD_CALLNAME;
        return 0;
    case 'p':
        if (!*value || strspn(value, "0123456789") != strlen(value))
            return error_set(err, ERROR_FORMAT, "-p %s: that is no process id", value);
        b->target = value;
        return 0;
    case OPT_CORE:
        b->target = value;
        return 0;
    default:
        return 0;
    }
}

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
    const struct unwind_input in = {
        .registers = t->registers,
        .memory = {.layers = s->layers, .nr_layers = s->nr_layers},
        .code = s->code,
        .max_frames = max_stack ? max_stack : 65536,
    };
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
    struct bt b = {.common = c, .fields = command->fields};
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
    struct bt_command b = {.fields = FIELD_CALLCHAIN_DEFAULTS};
    common_init(&c);
    int status = common_parse(&c, argc, argv, COMMON_LETTERS "p:", options, usage, own_option, &b);
    if (status < 0 && !b.target) {
        fprintf(stderr, "ljperf bt: of what? -p PID or --core FILE\n");
        status = EXIT_BAD_USAGE;
    } else if (status < 0) {
        bool failed = run(&c, &b, &err) < 0;
        status = failed ? command_error("bt", &err, EXIT_BAD_INPUT) : 0;
    }
    common_free(&c);
    return status;
}
