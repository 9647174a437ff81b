/* SPDX-License-Identifier: GPL-2.0-only */
#include "session/walk_input.h"

#include "session/registers.h"

/* What came with the sample comes first: nothing else is of its moment. */
struct memory walk_memory(const struct walk_parts *parts, struct walk_memory *ret)
{
    size_t nr = 0;
    if (parts->vmstack && parts->vmstack->nr)
        ret->layers[nr++] = vmstack_layer(parts->vmstack);
    if (parts->stopped)
        ret->layers[nr++] = *parts->stopped;
    if (parts->log) {
        ret->view = (struct memory_log_view){
            .log = parts->log, .pid = parts->thread->pid, .recent = parts->recent};
        ret->layers[nr++] = memory_log_layer(&ret->view);
    }
    if (parts->snapshots) {
        snapshots_layers(parts->snapshots, parts->thread->pid, &ret->snapshots);
        for (size_t i = 0; i < ret->snapshots.nr; i++)
            ret->layers[nr++] = ret->snapshots.at[i];
    }
    ret->layers[nr++] = session_memory(parts->thread);
    if (parts->live)
        ret->layers[nr++] = *parts->live;
    return (struct memory){
        .time = parts->sample ? parts->sample->time : 0, .layers = ret->layers, .nr_layers = nr};
}

void walk_input(const struct walk_parts *parts, unsigned max_frames, struct walk_memory *memory,
                struct unwind_input *ret)
{
    const struct memory behind = walk_memory(parts, memory);
    bool only_files = behind.nr_layers == 1;
    ret->memory = parts->sample ? sample_memory(parts->sample, registers_sp(&ret->registers))
                                : (struct memory){0};
    ret->memory.layers = behind.layers;
    ret->memory.nr_layers = behind.nr_layers;
    ret->code = session_codemap(parts->thread);
    ret->max_frames = max_frames;
    ret->walker = NULL;
    ret->trace = NULL;
    ret->thread = parts->thread->tid;
    ret->context_key = only_files ? session_context_key(parts->thread) : NULL;
}
