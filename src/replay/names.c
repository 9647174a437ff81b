/* SPDX-License-Identifier: GPL-2.0-only */
/* Names one frame: what perf script would print for it, and more. */
#include "replay/replay_internal.h"

#include <inttypes.h>
#include <stdio.h>

static const struct mapping *mapping_of(const struct frame *f)
{
    return f->kind == FRAME_JIT || frame_is_managed(f) ? NULL : f->code;
}

/* Returns the address that perf prints and looks symbols up with: relative to the file for user
 * code and modules (for modules only in lookups), the pc itself in the kernel. */
static uint64_t dso_address(const struct mapping *m, uint64_t pc)
{
    return m->dso->kind == DSO_KERNEL ? pc : pc - m->start + m->pgoff;
}

/* Callers found by unwinding are shown by an address inside the call, as in perf; addresses of a
 * callchain made by the kernel are shown as they were given. */
static uint64_t shown_pc(const struct replay_sample *s, const struct frame *f)
{
    bool walked = s->unwound && (f->kind == FRAME_NATIVE || f->kind == FRAME_JIT);
    return walked ? frame_lookup_pc(f) : f->pc;
}

struct frame_key replay_frame_key(const struct frame *f)
{
    uint64_t lookup = frame_lookup_pc(f);
    const struct mapping *m = mapping_of(f);
    if (frame_is_managed(f))
        return (struct frame_key){NULL, f->function, f->line | (uint64_t)f->column << 32};
    if (m) /* a C function that a VM calls may have its name from there */
        return (struct frame_key){m->dso, dso_address(m, f->pc),
                                  dso_address(m, lookup) ^ (uint64_t)f->function << 40};
    if (f->kind == FRAME_JIT && f->code) {
        const struct jit_function *j = f->code;
        return (struct frame_key){j, f->pc - j->start, lookup - j->start};
    }
    return (struct frame_key){NULL, f->pc, lookup};
}

/* perf shows generated code in the process's perf map; a jitdump has a file of its own. A process
 * that is forked later has the file of its parent, here as well: so a frame has the same name in
 * any sample. */
static const char *jit_module(const struct replay_worker *w, const struct jit_function *j)
{
    char name[48];
    snprintf(name, sizeof(name), j->from_map ? "/tmp/perf-%" PRIu32 ".map" : "jit-%" PRIu32 ".dump",
             jit_function_owner(j));
    return intern_string(w->replay->strings, name);
}

static int name_jit(const struct replay_worker *w, const struct replay_sample *s,
                    const struct frame *f, struct named_frame *ret, struct error *err)
{
    const struct jit_function *j = f->code;
    struct jit_position position;
    ret->address = shown_pc(s, f);
    ret->symbol = j->name;
    ret->offset = ret->address - j->start;
    ret->module = ret->short_module = jit_module(w, j);
    if (jit_function_position(j, frame_lookup_pc(f), &position)) {
        ret->file = position.file;
        ret->line = position.line;
        ret->column = position.column;
    }
    return ret->module ? 0 : error_no_memory(err);
}

/* Name code in an ELF file that has no name for it: V8 lists its builtins, which are in node's
 * file. */
static void name_from_jit(const struct replay_sample *s, const struct frame *f,
                          struct named_frame *ret)
{
    const struct jit_function *j =
        session_jit_function(s->thread, frame_lookup_pc(f), s->sample->time);
    if (!j)
        return;
    ret->symbol = j->name;
    ret->offset = shown_pc(s, f) - j->start;
}

/* Name a C function that a VM calls, and whose file has no name for it, as the VM's language calls
 * it; or generated code that is the VM's own. */
static bool name_from_vm(const struct replay_worker *w, const struct replay_sample *s,
                         const struct frame *f, struct named_frame *ret)
{
    struct managed_function g;
    if (!managed_get(w->replay->managed, f->function, s->batch_number, &g) || !g.name)
        return true;
    const struct mapping *m = f->code;
    const struct cfi *cfi = m->dso->kind == DSO_FILE ? dso_cfi(m->dso) : NULL;
    uint64_t address, begin;
    ret->symbol = intern_string(w->replay->strings, g.name);
    bool known = cfi && dso_offset_to_vaddr(m->dso, dso_address(m, shown_pc(s, f)), &address) &&
                 cfi_function(cfi, address, &begin, NULL);
    ret->offset = known ? address - begin : 0;
    return ret->symbol != NULL;
}

/* Name a function without a symbol by its file and where its FDE begins: "libx.so:fn_1d9c0". So the
 * addresses of one function stay together. */
static int name_by_place(const struct replay_worker *w, const struct replay_sample *s,
                         const struct frame *f, struct named_frame *ret, struct error *err)
{
    const struct mapping *m = f->code;
    const struct cfi *cfi = m->dso->kind == DSO_FILE ? dso_cfi(m->dso) : NULL;
    uint64_t inside, shown, begin;
    if (!cfi || !dso_offset_to_vaddr(m->dso, dso_address(m, frame_lookup_pc(f)), &inside) ||
        !dso_offset_to_vaddr(m->dso, dso_address(m, shown_pc(s, f)), &shown) ||
        !cfi_function(cfi, inside, &begin, NULL))
        return 0;
    struct text symbol = {0};
    text_printf(&symbol, "%s:fn_%" PRIx64, m->dso->short_name, begin);
    ret->symbol = symbol.failed ? NULL : intern_bytes(w->replay->strings, symbol.at, symbol.size);
    ret->offset = shown - begin;
    ret->by_place = true;
    text_free(&symbol);
    char build[2 * BUILD_ID_MAX + 1];
    build_id_hex(&m->dso->build_id, build);
    ret->build = *build ? intern_string(w->replay->strings, build) : NULL;
    return ret->symbol && (ret->build || !*build) ? 0 : error_no_memory(err);
}

static int name_native(struct replay_worker *w, const struct replay_sample *s,
                       const struct frame *f, struct named_frame *ret, struct error *err)
{
    const struct mapping *m = f->code;
    uint64_t shown = dso_address(m, shown_pc(s, f));
    ret->address = f->kind == FRAME_KERNEL ? f->pc : shown;
    ret->module = m->dso->name;
    ret->short_module = m->dso->short_name;
    ret->dso = m->dso->id;
    if (m->symbol) {
        ret->symbol = m->symbol;
        ret->offset = f->pc - m->start;
    }
    if (m->symbol)
        return 0;
    if (m->dso->kind == DSO_PSEUDO)
        return !f->function || name_from_vm(w, s, f, ret) ? 0 : error_no_memory(err);
    ret->resolved = symbols_resolve(w->symbols, m->dso, shown, dso_address(m, frame_lookup_pc(f)));
    if (!ret->resolved)
        return error_no_memory(err);
    ret->symbol = ret->resolved->symbol;
    ret->offset = ret->resolved->offset;
    ret->file = ret->resolved->outer.file;
    ret->line = ret->resolved->outer.line;
    ret->column = ret->resolved->outer.column;
    if (!ret->symbol && f->kind == FRAME_NATIVE)
        name_from_jit(s, f, ret);
    if (!ret->symbol && f->function && !name_from_vm(w, s, f, ret))
        return error_no_memory(err);
    return ret->symbol ? 0 : name_by_place(w, s, f, ret, err);
}

/* ---- managed functions ----------------------------------------------------------------------- */

void replay_managed(const struct replay_worker *w, const struct replay_sample *s,
                    const struct frame *f, struct managed_function *ret)
{
    if (!f->function || !managed_get(w->replay->managed, f->function, s->batch_number, ret))
        managed_unrecorded(f->kind, ret);
}

static int name_managed(const struct replay_worker *w, const struct replay_sample *s,
                        const struct frame *f, struct named_frame *ret, struct error *err)
{
    struct managed_function g;
    struct text symbol = {0};
    replay_managed(w, s, f, &g);
    managed_symbol(&symbol, &g);
    ret->address = f->pc;
    ret->symbol = symbol.failed ? NULL : intern_bytes(w->replay->strings, symbol.at, symbol.size);
    text_free(&symbol);
    ret->module = ret->short_module = managed_module(&g);
    if (f->line) {
        ret->file = g.file;
        ret->line = f->line;
        ret->column = f->column;
    }
    return ret->symbol ? 0 : error_no_memory(err);
}

int replay_name(struct replay_worker *w, const struct replay_sample *s, const struct frame *f,
                struct named_frame *ret, struct error *err)
{
    *ret = (struct named_frame){.address = shown_pc(s, f), .kind = f->kind};
    if (frame_is_managed(f))
        return name_managed(w, s, f, ret, err);
    if (!f->code)
        return 0;
    if (f->kind == FRAME_JIT)
        return name_jit(w, s, f, ret, err);
    return name_native(w, s, f, ret, err);
}
