/* SPDX-License-Identifier: GPL-2.0-only */
/* What a recording has of JIT compilers (VMENTRY_COMPILER, VMENTRY_V8_COMPILER), and the places
 * that it names. */
#include "replay/replay_internal.h"
#include "unwind/luajit/compiler.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/compiler.h"

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
    if (c->kind != VMENTRY_COMPILER || c->size < sizeof(*ret->state))
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

/* ---- V8 -------------------------------------------------------------------------------------- */

bool replay_v8_facts(const struct replay *r, size_t index, struct replay_v8_facts *ret)
{
    const struct memory_log_compiler *c = memory_log_compiler(r->log, index);
    if (!c)
        return false;
    *ret = (struct replay_v8_facts){.pid = c->pid, .time = c->time};
    if (c->kind != VMENTRY_V8_COMPILER)
        return true;
    ret->facts = (const struct v8_fact *)(const void *)c->bytes;
    ret->nr = c->size / sizeof(*ret->facts);
    return true;
}

static const struct v8_place *v8_of(const struct replay *r, uint32_t pid)
{
    vec_foreach (p, &r->v8s.at) {
        if (p->thread.pid == pid)
            return p;
    }
    return NULL;
}

int replay_v8_place(struct replay *r, const struct replay_v8_function *f, int32_t offset,
                    struct v8_named *ret, struct error *err)
{
    const struct v8_place *v8 = v8_of(r, f->pid);
    struct walk_memory layers;
    struct v8_sfi function;
    *ret = (struct v8_named){0};
    if (!v8)
        return 0;
    const struct walk_parts parts = {
        .thread = &v8->thread, .log = r->log, .snapshots = r->snapshots};
    struct memory m = walk_memory(&parts, &layers);
    m.time = f->time;
    struct v8_reader reader = {.memory = &m, .layout = v8->layout};
    if (!f->identity || !v8_sfi_read_name(&reader, f->sfi, &function) ||
        v8_sfi_identity(&reader, &function) != f->identity)
        return 0;
    if (!r->v8_place_names)
        r->v8_place_names = v8_names_create(r->managed);
    if (!r->v8_place_names ||
        v8_names_function(r->v8_place_names, &reader, f->pid, 0, &function, offset, ret) < 0)
        return error_no_memory(err);
    return 0;
}
