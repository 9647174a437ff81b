/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints which LuaJIT and V8 VMs are in a file, a core or a live process, with the evidence: each
 * LuaJIT layout with the instruction that gave each value, and each VM with what it was doing.
 */
#include "live/stopped_process.h"
#include "dso/runtime_image.h"
#include "unwind/luajit/crosscheck.h"
#include "output/doctor.h"
#include "output/output.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/runtime.h"
#include "unwind/v8/runtime.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Where to look for VMs. */
struct view {
    struct stopped_process *process;
    struct memory memory;
};

/* ---- layouts ------------------------------------------------------------------------------- */

static const char *bytecode_name(enum luajit_bytecode b)
{
    switch (b) {
    case LUAJIT_BC_20:
        return "LuaJIT 2.0";
    case LUAJIT_BC_21:
        return "LuaJIT 2.1 up to July 2026";
    case LUAJIT_BC_2607:
        return "LuaJIT 2.1 since July 2026";
    }
    return "?";
}

static void put_field(struct text *out, const struct luajit_field_view *f)
{
    if (f->value == LUAJIT_UNKNOWN) {
        text_printf(out, "  %-22s %10s  %-12s  %s\n", f->name, "-", "", f->text);
        return;
    }
    char value[16], evidence[24] = "";
    snprintf(value, sizeof(value), "%s0x%" PRIx32, f->value < 0 ? "-" : "",
             (uint32_t)(f->value < 0 ? -(int64_t)f->value : f->value));
    if (f->evidence)
        snprintf(evidence, sizeof(evidence), "at 0x%" PRIx64, f->evidence);
    text_printf(out, "  %-22s %10s  %-12s  %s\n", f->name, value, evidence, f->text);
}

static void put_layout(struct text *out, const char *file, struct dso *dso,
                       const struct luajit_layout *found)
{
    struct luajit_layout checked = *found;
    const struct luajit_layout *l = &checked;
    struct elf_runtime_image view;
    if (dso && dso_image(dso)) {
        const struct runtime_image image = dso_runtime_image(dso, dso_cfi(dso), &view);
        const struct luajit_image part = luajit_image_of(&image);
        luajit_crosscheck(&part, &checked);
    }
    unsigned known = 0, extracted = 0;
    const struct luajit_builtins *names = luajit_builtins_get(l->builtins);
    text_symbol(out, file);
    text_printf(out, ": LuaJIT, %s, bytecode of %s\n",
                l->gc64 ? "GC64 (64 bit references, two-slot frames)"
                        : "not GC64 (32 bit references, one-slot frames)",
                bytecode_name(l->bytecode));
    text_printf(out, "  interpreter at 0x%" PRIx64 ", %" PRIu64 " bytes", l->blob, l->blob_size);
    if (l->ffi_call)
        text_printf(out, "; lj_vm_ffi_call at 0x%" PRIx64 ", %" PRIu64 " bytes", l->ffi_call,
                    l->ffi_call_size);
    text_printf(out, "\n  names of library functions: %u by number, %u written in Lua\n",
                names ? names->nr : 0, names ? names->nr_lua : 0);
    text_printf(out, "  %-22s %10s  %-12s  %s\n", "value", "", "told by", "which is");
    for (int i = 0; i < LUAJIT_NR_FIELDS; i++) {
        struct luajit_field_view f = luajit_layout_field(l, (enum luajit_field)i);
        known += f.value != LUAJIT_UNKNOWN;
        extracted += f.value != LUAJIT_UNKNOWN && f.evidence;
        put_field(out, &f);
    }
    text_printf(out,
                "  %u of %u values known; %u read out of the instruction named, the others follow "
                "from the mode or from these\n",
                known, (unsigned)LUAJIT_NR_FIELDS, extracted);
    if (l->confirmed + l->contradicted)
        text_printf(out, "  exported C functions: %u values confirmed, %u contradicted%s%s\n",
                    l->confirmed, l->contradicted, l->contradiction ? ", first by " : "",
                    l->contradiction ? l->contradiction : "");
}

/* ---- VMs ----------------------------------------------------------------------------------- */

static uint64_t read_number(const struct view *v, uint64_t address, size_t size)
{
    uint64_t value = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(&v->memory, address, &value, size, &ignored) ? value : 0;
}

static void put_state(struct text *out, const struct luajit_layout *l, int32_t state)
{
    static const char *const states[] = {
        [LUAJIT_IN_INTERPRETER] = "in the interpreter",
        [LUAJIT_IN_C] = "in a C function",
        [LUAJIT_IN_GC] = "collecting garbage",
        [LUAJIT_IN_EXIT] = "leaving a trace",
        [LUAJIT_IN_RECORDER] = "recording a trace",
        [LUAJIT_IN_OPTIMIZER] = "optimizing a trace",
        [LUAJIT_IN_ASSEMBLER] = "assembling a trace",
    };
    enum luajit_vmstate known = luajit_vmstate(l, state);
    if (state >= 0)
        text_printf(out, "in trace %" PRId32, state);
    else if (known != LUAJIT_IN_UNKNOWN)
        text_string(out, states[known]);
    else
        text_printf(out, "in state %" PRId32, ~state);
}

/* Returns the number of traces in the VM's list. */
static unsigned count_traces(const struct view *v, const struct luajit_vm *vm)
{
    enum { TRACES_MAX = 1 << 16 };
    const struct luajit_layout *l = vm->layout;
    unsigned nr = 0;
    if (l->trace == LUAJIT_UNKNOWN || l->sizetrace == LUAJIT_UNKNOWN)
        return 0;
    uint64_t array = read_number(v, vm->g + (uint64_t)l->trace, 8);
    uint64_t size = read_number(v, vm->g + (uint64_t)l->sizetrace, 4);
    for (uint64_t i = 1; array && i < size && i < TRACES_MAX; i++)
        nr += read_number(v, array + i * (uint64_t)l->ref_size, (size_t)l->ref_size) != 0;
    return nr;
}

static void put_vm(struct text *out, const struct view *v, const struct luajit_vm *vm)
{
    const struct luajit_layout *l = vm->layout;
    text_printf(out, "VM: g=0x%" PRIx64 ", dispatch table at 0x%" PRIx64 ": ", vm->g,
                vm->g + (uint64_t)l->g2disp);
    if (l->vmstate != LUAJIT_UNKNOWN)
        put_state(out, l, (int32_t)read_number(v, vm->g + (uint64_t)l->vmstate, 4));
    text_printf(out, ", %u traces\n", count_traces(v, vm));
    if (l->cur_L == LUAJIT_UNKNOWN) {
        text_string(out, "  running lua_State: not kept by this version\n");
        return;
    }
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t L = read_number(v, vm->g + (uint64_t)l->cur_L, (size_t)l->ref_size);
    text_printf(out, "  running lua_State: cur_L=0x%" PRIx64, L);
    if (!L || !luajit_state_check(&v->memory, vm, L, &ignored)) {
        text_string(out, L ? ": no lua_State stands there now\n" : ": none\n");
        return;
    }
    uint64_t cframe = read_number(v, L + (uint64_t)l->L_cframe, 8) & ~UINT64_C(3);
    uint64_t base = read_number(v, L + (uint64_t)l->L_base, 8);
    uint64_t stack = read_number(v, L + (uint64_t)l->L_stack, (size_t)l->ref_size);
    if (cframe)
        text_printf(out,
                    ", on the C stack at 0x%" PRIx64 ", %" PRIu64 " of %" PRIu64
                    " slots below its base\n",
                    cframe, base >= stack ? (base - stack) / 8 : 0,
                    read_number(v, L + (uint64_t)l->L_stacksize, 4));
    else
        text_string(out, ", not entered\n");
}

/* Print why files could not be searched, each problem once. Returns the number of mapped pieces of
 * code. */
static unsigned put_problems(struct text *out, const struct view *v, bool *any)
{
    VEC(const struct dso *) printed = {0};
    unsigned files = 0;
    const struct mapping *m = session_mapping_next(&v->process->thread, 0);
    for (; m; m = session_mapping_next(&v->process->thread, m->end)) {
        bool code = m->dso->kind == DSO_FILE && m->prot & PROT_EXEC;
        files += code;
        bool known = false;
        vec_foreach (dso, &printed)
            known |= *dso == m->dso;
        if (code && !known && !dso_cfi(m->dso) && dso_problem(m->dso)) {
            text_printf(out, "%s\n", dso_problem(m->dso));
            (void)vec_push(&printed, m->dso); /* out of memory: it is printed again */
        }
        if (m->end == UINT64_MAX)
            break;
    }
    *any = printed.nr != 0;
    vec_free(&printed);
    return files;
}

/* Print each mapped V8. Returns the last one; NULL: none. */
static const struct v8_layout *put_v8(struct text *out, const struct view *v)
{
    const struct v8_layout *last = NULL;
    const struct mapping *m = session_mapping_next(&v->process->thread, 0);
    for (; m; m = session_mapping_next(&v->process->thread, m->end)) {
        bool code = m->dso->kind == DSO_FILE && m->prot & PROT_EXEC;
        const struct v8_layout *l = code ? v8_of_module(dso_cfi(m->dso)) : NULL;
        if (l && l != last)
            doctor_put_v8(out, m->dso->name, l);
        last = l ? l : last;
        if (m->end == UINT64_MAX)
            break;
    }
    return last;
}

/* Print every mapped LuaJIT, every VM, and every V8. */
static int put_process(struct text *out, const struct view *v, bool *found, struct error *err)
{
    lua_scan_blob_list blobs = {0};
    luajit_vm_list vms = {0};
    bool problems;
    int failed = stopped_process_luajit(v->process, &blobs, &vms, err);
    unsigned files = put_problems(out, v, &problems);
    *found = blobs.nr;
    const struct v8_layout *v8 = put_v8(out, v);
    *found |= v8 != NULL;
    vec_foreach (b, &blobs) {
        const struct mapping *m = session_mapping(&v->process->thread, b->address);
        put_layout(out, m ? m->dso->name : "?", m ? m->dso : NULL, b->layout);
        text_printf(out, "  loaded at 0x%" PRIx64 "\n\n", b->address);
    }
    vec_foreach (vm, &vms)
        put_vm(out, v, vm);
    if (!failed && !blobs.nr && !v8)
        text_printf(out, "No LuaJIT in the %u pieces of files whose code is mapped%s\n", files,
                    problems ? "; files that were moved are found with --symfs ROOT" : "");
    else if (!failed && blobs.nr && !vms.nr)
        text_string(out, "No VM: no dispatch table in writable memory leads into an interpreter\n");
    vec_free(&blobs);
    vec_free(&vms);
    return failed;
}

/* ---- files --------------------------------------------------------------------------------- */

static int put_file(struct text *out, const char *path, const struct dso_options *options,
                    bool *found, struct error *err)
{
    /* Names of dsos are absolute, as in recordings. */
    char *absolute = realpath(path, NULL);
    struct dsos *all = dsos_create(options);
    struct dso *dso = absolute && all ? dsos_get(all, DSO_FILE, absolute, NULL, 0) : NULL;
    int failed = dso ? 0 : error_no_memory(err);
    if (!absolute)
        failed = error_system(err, errno, "%s", path);
    const struct luajit_layout *l = dso ? luajit_of_module(dso_cfi(dso)) : NULL;
    const struct v8_layout *v8 = dso ? v8_of_module(dso_cfi(dso)) : NULL;
    *found = l || v8;
    if (l)
        put_layout(out, path, dso, l);
    if (v8)
        doctor_put_v8(out, path, v8);
    if (!*found && dso && dso_problem(dso))
        text_printf(out, "%s\n", dso_problem(dso));
    else if (!*found && dso)
        text_printf(out,
                    "%s: no LuaJIT (no function has the interpreter's unwind entry), and no V8\n",
                    path);
    dsos_free(all);
    free(absolute);
    return failed;
}

static bool is_core(const char *path)
{
    struct elf_image *e;
    if (elf_image_open(path, &e, NULL))
        return false;
    bool core = e->type == ET_CORE;
    elf_image_free(e);
    return core;
}

int doctor_vm(const char *target, const struct dso_options *options, struct text *out, bool *found,
              struct error *err)
{
    struct stopped_process process;
    bool live = *target && strspn(target, "0123456789") == strlen(target);
    *found = false;
    if (!live && !is_core(target))
        return put_file(out, target, options, found, err);
    if (stopped_process_open(target, options, &process, err))
        return -1;
    struct view v = {&process, {.layers = process.layers, .nr_layers = process.nr_layers}};
    int failed = put_process(out, &v, found, err);
    stopped_process_close(&process);
    return failed;
}
