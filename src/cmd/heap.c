/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf heap: count the objects of VMs' heaps, in a live process or a core. */
#include "base/clock.h"
#include "census/census.h"
#include "cmd/common.h"
#include "live/memory_copy.h"
#include "live/stopped_process.h"
#include "output/heap.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct heap_command {
    const char *target; /* process id or path: common_take_process() */
    struct heap_options options;
    bool json;
    uint64_t max_memory; /* MiB */
};

static const struct option_row rows[] = {
    {ROW_CALL('p', NULL, "PID", common_take_pid, "Count the objects of this process's VMs.")},
    {ROW_STRING(0, "core", "FILE", struct heap_command, target,
                "Count the objects of the VMs in this core file.")},
    {ROW_NUMBER(0, "top", "N", struct heap_command, options.top, 1, 500,
                "Print at most N rows of each table. Default: 10.")},
    {ROW_STRING(0, "path", "WHAT", struct heap_command, options.find,
                "Instead of tables, list the objects of an address (0x...), or whose description "
                "has WHAT in it, with the ways on which they are reached.")},
    {ROW_NUMBER(0, "max-memory", "MIB", struct heap_command, max_memory, 1, 1 << 24,
                "Refuse a process with more memory of its own: all of it is copied. Default: "
                "4096.")},
    {ROW_FLAG(0, "json", struct heap_command, json, "Print one JSON document.")},
    {0},
};

const struct option_set heap_command_line = {
    .name = "ljperf heap",
    .usage = "[-p] PID [options]\n[--core] FILE [options]",
    .about =
        "Counts the objects on the heaps of LuaJIT, Lua and V8 (Node.js): bytes by type,\n"
        "functions by where they are defined, tables and objects by their fields, the largest\n"
        "objects, and how each is reached. A live process is stopped while its memory\n"
        "is copied, and goes on while the copy is counted.\n",
    .sections = {{.rows = rows}, COMMON_SECTION},
    .arguments = ARGUMENTS_TAKEN,
    .argument = common_take_process,
    .argument_name = "FILE",
};

struct heap {
    struct stopped_process process;
    struct session_vms vms;
    struct memory_copy copy;
    uint64_t stopped_ns;
    const struct heap_command *command;
    struct text out;
    struct json *json;
    unsigned nr;          /* VMs that were counted */
    struct error not_one; /* why the last one was not */
};

/* Copy a live process's memory: first while it runs, so that our pages are there, then once more
 * while it stands still. */
static int copy_memory(struct heap *h, struct error *err)
{
    struct stopped_process *s = &h->process;
    const uint64_t most = h->command->max_memory << 20;
    if (!s->process)
        return 0;
    if (memory_copy_take(&h->copy, (pid_t)s->pid, s->process, most, err))
        return -1;
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    int failed = stopped_process_stop(s, err);
    if (!failed)
        failed = memory_copy_take(&h->copy, (pid_t)s->pid, s->process, most, err);
    stopped_process_continue(s);
    h->stopped_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    s->layers[0] = memory_copy_layer(&h->copy);
    return failed;
}

/* Returns how many bytes the process's writable memory has. */
static uint64_t memory_size(const struct heap *h)
{
    uint64_t size = h->copy.size;
    vec_foreach (r, &h->vms.writable)
        size += h->process.process ? 0 : r->end - r->start;
    return size;
}

/* Of a core: the data of files may refer to objects, too. */
static int note_data(struct heap *h, struct error *err)
{
    const size_t nr = h->vms.anonymous.nr;
    vec_foreach (w, &h->vms.writable) {
        bool is_known = false;
        for (size_t i = 0; i < nr && !is_known; i++)
            is_known = h->vms.anonymous.at[i].start == w->start;
        if (!is_known && !vec_push(&h->vms.anonymous, *w))
            return error_no_memory(err);
    }
    return 0;
}

/* A live process's memory is that of the copy: what was mapped meanwhile is in it. */
static int note_copied(struct heap *h, struct error *err)
{
    if (!h->process.process)
        return note_data(h, err);
    h->vms.anonymous.nr = 0;
    vec_foreach (r, &h->copy.ranges) {
        if (!vec_push(&h->vms.anonymous, (struct memory_range){r->start, r->start + r->size}))
            return error_no_memory(err);
    }
    return 0;
}

/* The census of one VM. */
static int count_vm(struct heap *h, const struct memory *m, const struct runtime_vm *vm,
                    struct error *err)
{
    const struct runtime *rt = vm->instance->runtime;
    const struct runtime_memory all = session_vms_memory(&h->vms, m);
    struct census c = {.heap = rt->census};
    struct error broken = {0};
    void *of = NULL;
    int failed = 0;
    const bool begun = !rt->census->begin(&all, vm, &of, &broken);
    const bool whole = begun && !census_take(&c, rt->census, of, memory_size(h), &broken);
    if (broken.kind == ERROR_NO_MEMORY)
        failed = error_no_memory(err);
    else if (begun)
        failed =
            census_reach(&c, err) || (!h->command->options.find &&
                                      (census_group(&c, err) || census_compare_strings(&c, err)));
    const struct heap_vm out = {.runtime = rt->name,
                                .address = vm->address,
                                .census = &c,
                                .broken = whole ? NULL : broken.text};
    if (!failed && h->json) {
        heap_put_json(&h->command->options, &out, h->json);
    } else if (!failed) {
        if (h->nr)
            text_char(&h->out, '\n');
        heap_put_text(&h->command->options, &out, &h->out);
    }
    h->nr += begun && !failed;
    census_free(&c);
    if (begun)
        rt->census->end(of);
    else
        h->not_one = broken;
    return failed ? -1 : 0;
}

static int count_all(struct heap *h, struct error *err)
{
    const struct memory m = {.layers = h->process.layers, .nr_layers = h->process.nr_layers};
    runtime_vm_list vms = {0};
    int failed = note_copied(h, err);
    if (!failed)
        failed = session_vms_census(&m, &h->vms, &vms, err);
    vec_foreach (vm, &vms) {
        if (!failed)
            failed = count_vm(h, &m, vm, err);
    }
    vec_free(&vms);
    if (!failed && !h->nr)
        failed = h->not_one.kind
                     ? error_set(err, h->not_one.kind, "%s", h->not_one.text)
                     : error_set(err, ERROR_NOT_FOUND, "no VM of LuaJIT, Lua or V8 was found");
    return failed;
}

static void put_process(struct heap *h)
{
    char name[64];
    const struct stopped_process *s = &h->process;
    stopped_process_command(s, s->pid, name, sizeof(name));
    text_printf(&h->out, "# process %" PRIu32 " ", s->pid);
    text_escaped_bytes(&h->out, name, strlen(name));
    if (s->process)
        text_printf(&h->out, ": stopped for %.1f ms, while %.1f MiB were copied",
                    (double)h->stopped_ns / 1e6, (double)h->copy.size / (1 << 20));
    text_char(&h->out, '\n');
}

static void begin_json(struct heap *h)
{
    const struct stopped_process *s = &h->process;
    json_object(h->json);
    json_key_uint(h->json, "pid", s->pid);
    if (s->process) {
        json_key_uint(h->json, "stopped_ns", h->stopped_ns);
        json_key_uint(h->json, "copied_bytes", h->copy.size);
    }
    json_key(h->json, "vms");
    json_array(h->json);
}

static int put_text(struct heap *h, struct error *err)
{
    bool closed = false;
    put_process(h);
    return count_all(h, err) ? -1 : text_write(&h->out, STDOUT_FILENO, &closed, err);
}

static int put_json(struct heap *h, struct error *err)
{
    h->json = json_create(stdout);
    if (!h->json)
        return error_no_memory(err);
    begin_json(h);
    int failed = count_all(h, err);
    json_array_end(h->json);
    json_object_end(h->json);
    if (!json_finish(h->json) && !failed)
        failed = error_no_memory(err);
    if (fflush(stdout) && !failed)
        failed = error_set(err, ERROR_SYSTEM, "the output could not be written");
    return failed;
}

static int run(const struct common *c, const struct heap_command *command, struct error *err)
{
    struct heap h = {.command = command};
    if (stopped_process_open(command->target, &c->replay.dso, &c->replay.session, &h.process, err))
        return -1;
    int failed = stopped_process_vms(&h.process, &h.vms, err);
    if (!failed)
        failed = copy_memory(&h, err);
    if (!failed)
        failed = command->json ? put_json(&h, err) : put_text(&h, err);
    session_vms_free(&h.vms);
    stopped_process_close(&h.process);
    memory_copy_free(&h.copy);
    text_free(&h.out);
    return failed;
}

int cmd_heap(int argc, char **argv)
{
    struct common c;
    struct error err = {0};
    struct heap_command h = {.options = {.top = 10}, .max_memory = 4096};
    common_init(&c);
    int status = common_parse(&c, &heap_command_line, &h, argc, argv);
    if (status < 0 && !h.target) {
        error_set(&err, ERROR_FORMAT, "no process or core is named: give its PID or FILE");
        status = command_line_error(&heap_command_line, NULL, &err);
    } else if (status < 0) {
        common_page(&c);
        bool failed = run(&c, &h, &err) < 0;
        status = failed ? command_error("heap", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
