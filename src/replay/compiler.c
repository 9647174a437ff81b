/* SPDX-License-Identifier: GPL-2.0-only */
/* What a recording has of JIT compilers (VMENTRY_COMPILER), and the places that it names. */
#include "replay/replay_internal.h"
#include "unwind/luajit/compiler.h"
#include "unwind/luajit/runtime.h"

static const struct luajit_layout *layout_of(const struct replay *r, uint32_t pid, uint64_t blob)
{
    vec_foreach (p, &r->luajits.at) {
        if (p->pid == pid && p->blob.address == blob)
            return p->blob.layout;
    }
    return NULL;
}

bool replay_compiler(const struct replay *r, size_t index, struct replay_compiler *ret)
{
    const struct memory_log_compiler *c = memory_log_compiler(r->log, index);
    if (!c)
        return false;
    *ret = (struct replay_compiler){.pid = c->pid, .g = c->g, .time = c->time};
    if (c->size < sizeof(*ret->state))
        return true;
    ret->state = (const struct luajit_compiler_state *)(const void *)c->bytes;
    ret->layout = layout_of(r, c->pid, ret->state->blob);
    ret->facts = (const struct luajit_fact *)(const void *)(c->bytes + sizeof(*ret->state));
    ret->nr = (c->size - sizeof(*ret->state)) / sizeof(*ret->facts);
    return true;
}

static struct memory_log_view view_of(const struct replay *r, const struct replay_compiler *c)
{
    return (struct memory_log_view){.log = r->log, .pid = c->pid};
}

bool replay_called(const struct replay *r, const struct replay_compiler *c, uint64_t proto,
                   uint32_t position, char name[REPLAY_CALLED_MAX])
{
    const struct memory_log_view view = view_of(r, c);
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = c->time};
    return luajit_called(&m, c->layout, proto, position, name, REPLAY_CALLED_MAX);
}

int replay_place(struct replay *r, const struct replay_compiler *c, uint64_t proto,
                 uint32_t position, struct luajit_named *ret, struct error *err)
{
    const struct memory_log_view view = view_of(r, c);
    const struct memory_layer layer = memory_log_layer(&view);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = c->time};
    const struct luajit_vm vm = {.g = c->g, .blob = c->state->blob, .layout = c->layout};
    const struct luajit_names_source source = {
        .memory = &m, .vm = &vm, .space = c->pid, .provenance = PROVENANCE_STALE};
    const struct luajit_frame frame = {
        .g = c->g, .proto = proto, .position = (int32_t)position, .kind = LUAJIT_FRAME_LUA};
    if (!r->place_names)
        r->place_names = luajit_names_create(r->managed);
    if (!r->place_names)
        return error_no_memory(err);
    return luajit_names_frame(r->place_names, &source, &frame, ret, err);
}
