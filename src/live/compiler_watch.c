/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/compiler_watch.h"

#include "base/clock.h"
#include "unwind/luajit/compiler.h"

#include <stdlib.h>
#include <string.h>

enum {
    MS = 1000000, /* ns */
    VMS_MAX = 256,
    POLL_NS = MS,             /* between two looks at a VM's last recording */
    PAUSE_MIN_NS = 20 * MS,   /* between the first looks at everything */
    PAUSE_MAX_NS = 1000 * MS, /* between later looks */
    SHARE = 100,              /* a look is followed by a pause of so many times its length */
    FINISH_NS = 500 * MS,
    ENTRY_MAX = 32 << 10, /* bytes of an entry: the writer does not cut it */
};

struct watched_vm {
    struct luajit_vm vm;
    struct luajit_compiler *compiler; /* NULL: built without it */
    uint64_t polled, next, pause;     /* ns */
    bool noted;                       /* a sample ran it since the last look */
    bool listed;                      /* it is known to be there */
    bool written;                     /* the recording has its newest state */
};

struct compiler_watch {
    VEC(struct watched_vm) vms;
    uint64_t next; /* ns: of the next look at everything of any VM */
    size_t oldest; /* the VM that makes room for another one */
    size_t last;   /* the VM that was noted last */
};

struct compiler_watch *compiler_watch_create(void)
{
    return calloc(1, sizeof(struct compiler_watch));
}

void compiler_watch_free(struct compiler_watch *w)
{
    if (!w)
        return;
    vec_foreach (v, &w->vms)
        luajit_compiler_free(v->compiler);
    vec_free(&w->vms);
    free(w);
}

void compiler_watch_rewrite(struct compiler_watch *w)
{
    vec_foreach (v, &w->vms)
        v->written = false;
}

static bool is_vm(const struct watched_vm *v, const struct luajit_vm *vm)
{
    return v->vm.g == vm->g && v->vm.layout == vm->layout;
}

static struct watched_vm *vm_of(struct compiler_watch *w, const struct luajit_vm *vm)
{
    for (size_t i = 0; i < 2 && w->last < w->vms.nr; i++, w->last++) {
        if (is_vm(&w->vms.at[w->last], vm)) /* mostly the same again, or the next one */
            return &w->vms.at[w->last];
    }
    for (w->last = 0; w->last < w->vms.nr; w->last++) {
        if (is_vm(&w->vms.at[w->last], vm))
            return &w->vms.at[w->last];
    }
    struct watched_vm new = {.vm = *vm, .pause = PAUSE_MIN_NS};
    new.compiler = luajit_compiler_create(vm);
    if (w->vms.nr < VMS_MAX) {
        if (vec_push(&w->vms, new))
            return &w->vms.at[w->last];
        luajit_compiler_free(new.compiler);
        return NULL;
    }
    w->last = w->oldest++ % VMS_MAX; /* hosts make VMs that live for a moment */
    luajit_compiler_free(w->vms.at[w->last].compiler);
    w->vms.at[w->last] = new;
    return &w->vms.at[w->last];
}

void compiler_watch_list(struct compiler_watch *w, const struct luajit_vm *vm)
{
    struct watched_vm *v = vm_of(w, vm);
    if (v && v->compiler)
        v->listed = true;
}

void compiler_watch_note(struct compiler_watch *w, const struct luajit_vm *vm, uint64_t proto)
{
    struct watched_vm *v = vm_of(w, vm);
    if (!v || !v->compiler || !proto)
        return;
    v->noted = v->listed = true;
    luajit_compiler_note(v->compiler, proto);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Log the prototypes of facts, and the names of their chunks: the places get their lines from
 * them. */
static void log_proto(const struct watched_vm *v, struct object_log *log, const struct memory *m,
                      uint64_t proto, uint64_t time)
{
    const struct luajit_layout *l = v->vm.layout;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t name = 0;
    if (!proto)
        return;
    object_log_object(log, proto, time);
    if (memory_read(m, proto + (uint64_t)l->proto_chunkname, &name, (size_t)l->ref_size, &ignored))
        object_log_object(log, name, time);
}

/* The same of what the name of a call needs: what is read here is logged. */
static void log_call(const struct watched_vm *v, struct object_log *log,
                     const struct luajit_fact *f, uint64_t time)
{
    const struct memory_layer layer = object_log_layer(log);
    const struct memory m = {.layers = &layer, .nr_layers = 1, .time = time};
    char name[128];
    if (f->kind == LUAJIT_FACT_TRACE && f->other_proto)
        (void)luajit_called(&m, v->vm.layout, f->other_proto, f->other_position, name,
                            sizeof(name));
}

static void write_facts(struct watched_vm *v, struct object_log *log, const struct memory *m,
                        uint64_t before, uint64_t after)
{
    const struct luajit_compiler_state *state = luajit_compiler_state(v->compiler);
    enum { FACTS = (ENTRY_MAX - sizeof(*state)) / sizeof(struct luajit_fact) };
    uint8_t bytes[ENTRY_MAX];
    size_t nr;
    const struct luajit_fact *facts = luajit_compiler_facts(v->compiler, &nr);
    for (size_t i = 0; i < nr; i++) {
        log_proto(v, log, m, facts[i].proto, before);
        log_proto(v, log, m, facts[i].other_proto, before);
        log_call(v, log, &facts[i], before);
    }
    for (size_t at = 0; at == 0 || at < nr; at += FACTS) {
        size_t of = nr - at < FACTS ? nr - at : FACTS;
        memcpy(bytes, state, sizeof(*state));
        if (of)
            memcpy(bytes + sizeof(*state), facts + at, of * sizeof(*facts));
        const struct vmevent_entry entry = {.address = v->vm.g,
                                            .length =
                                                (uint32_t)(sizeof(*state) + of * sizeof(*facts)),
                                            .kind = VMENTRY_COMPILER,
                                            .before = before,
                                            .after = after,
                                            .bytes = bytes};
        object_log_put(log, &entry);
    }
    v->written = true;
}

static int look_at_all(struct compiler_watch *w, struct watched_vm *v, struct object_log *log,
                       struct error *err)
{
    struct memory_layer layer = process_memory_layer(object_log_memory(log));
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    uint64_t before = object_log_now(log), began = clock_ns(CLOCK_MONOTONIC);
    int changed = luajit_compiler_read(v->compiler, &m, err);
    if (changed < 0)
        return -1;
    if (changed || !v->written)
        write_facts(v, log, &m, before, object_log_now(log));
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    w->next = now + SHARE * (now - began);
    v->next = now + v->pause;
    v->pause = 2 * v->pause < PAUSE_MAX_NS ? 2 * v->pause : PAUSE_MAX_NS;
    return 0;
}

static void poll_vm(struct watched_vm *v, struct object_log *log, uint64_t now)
{
    struct memory_layer layer = process_memory_layer(object_log_memory(log));
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    if (now - v->polled < POLL_NS)
        return;
    v->polled = now;
    (void)luajit_compiler_poll(v->compiler, &m);
}

int compiler_watch_look(struct compiler_watch *w, struct object_log *log, struct error *err)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    vec_foreach (v, &w->vms) {
        if (v->noted)
            poll_vm(v, log, now);
        v->noted = false;
        if (!v->listed || now < v->next || now < w->next)
            continue;
        v->listed = false;
        if (look_at_all(w, v, log, err) < 0)
            return -1;
    }
    return 0;
}

int compiler_watch_finish(struct compiler_watch *w, struct object_log *log, struct error *err)
{
    uint64_t until = clock_ns(CLOCK_MONOTONIC) + FINISH_NS;
    vec_foreach (v, &w->vms) {
        if (!v->compiler || clock_ns(CLOCK_MONOTONIC) > until)
            continue;
        if (look_at_all(w, v, log, err) < 0)
            return -1;
    }
    return 0;
}
