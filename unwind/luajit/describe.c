/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Describes a LuaJIT to a person: its layout, with the instruction that gave each value, and its
 * VMs, with what each was doing.
 */
#include "unwind/luajit/crosscheck.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/runtime.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the layout ---------------------------------------------------------------------------- */

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

void luajit_describe(const void *layout, const struct runtime_image *image, struct text *out)
{
    struct luajit_layout checked = *(const struct luajit_layout *)layout;
    const struct luajit_layout *l = &checked;
    if (image) {
        const struct luajit_image part = luajit_image_of(image);
        luajit_crosscheck(&part, &checked);
    }
    unsigned known = 0, extracted = 0;
    const struct luajit_builtins *names = luajit_builtins_get(l->builtins);
    text_printf(out, "LuaJIT, %s, bytecode of %s\n",
                l->gc64 ? "GC64 (64 bit references, two-slot frames)"
                        : "not GC64 (32 bit references, one-slot frames)",
                bytecode_name(l->bytecode));
    text_printf(out, "  interpreter at 0x%" PRIx64 ", %" PRIu64 " bytes", l->blob, l->blob_size);
    if (l->ffi_call)
        text_printf(out, "; lj_vm_ffi_call at 0x%" PRIx64 ", %" PRIu64 " bytes", l->ffi_call,
                    l->ffi_call_size);
    text_printf(out, "\n  names of library functions: %u by number, %u written in Lua\n",
                names ? names->nr : 0, names ? names->nr_lua : 0);
    text_printf(out, "  %-22s %10s  %-12s  %s\n", "name", "value", "instruction", "meaning");
    for (int i = 0; i < LUAJIT_NR_FIELDS; i++) {
        struct luajit_field_view f = luajit_layout_field(l, (enum luajit_field)i);
        known += f.value != LUAJIT_UNKNOWN;
        extracted += f.value != LUAJIT_UNKNOWN && f.evidence;
        put_field(out, &f);
    }
    text_printf(out,
                "  %u of %u values are known; %u are read from the given instructions, the others "
                "follow from these or from the mode\n",
                known, (unsigned)LUAJIT_NR_FIELDS, extracted);
    if (l->confirmed + l->contradicted)
        text_printf(out, "  exported C functions confirm %u values and contradict %u%s%s\n",
                    l->confirmed, l->contradicted, l->contradiction ? ", the first in " : "",
                    l->contradiction ? l->contradiction : "");
}

/* ---- a VM ---------------------------------------------------------------------------------- */

static uint64_t read_number(const struct memory *m, uint64_t address, size_t size)
{
    uint64_t value = 0;
    enum provenance ignored = PROVENANCE_EXACT;
    return memory_read(m, address, &value, size, &ignored) ? value : 0;
}

static void put_state(struct text *out, const struct luajit_layout *l, int32_t state)
{
    static const char *const states[] = {
        [RUNTIME_IN_INTERPRETER] = "in the interpreter",
        [RUNTIME_IN_C] = "in a C function",
        [RUNTIME_IN_GC] = "collecting garbage",
        [RUNTIME_IN_EXIT] = "leaving a trace",
        [RUNTIME_IN_RECORDER] = "recording a trace",
        [RUNTIME_IN_OPTIMIZER] = "optimizing a trace",
        [RUNTIME_IN_ASSEMBLER] = "assembling a trace",
    };
    enum runtime_activity known = luajit_vmstate(l, state);
    if (state >= 0)
        text_printf(out, "in trace %" PRId32, state);
    else if (known != RUNTIME_IN_UNKNOWN)
        text_string(out, states[known]);
    else
        text_printf(out, "in state %" PRId32, ~state);
}

/* Returns the number of traces in the VM's list. */
static unsigned count_traces(const struct memory *m, const struct luajit_vm *vm)
{
    enum { TRACES_MAX = 1 << 16 };
    const struct luajit_layout *l = vm->layout;
    unsigned nr = 0;
    if (l->trace == LUAJIT_UNKNOWN || l->sizetrace == LUAJIT_UNKNOWN)
        return 0;
    uint64_t array = read_number(m, vm->g + (uint64_t)l->trace, 8);
    uint64_t size = read_number(m, vm->g + (uint64_t)l->sizetrace, 4);
    for (uint64_t i = 1; array && i < size && i < TRACES_MAX; i++)
        nr += read_number(m, array + i * (uint64_t)l->ref_size, (size_t)l->ref_size) != 0;
    return nr;
}

void luajit_describe_vm(const struct memory *m, const struct runtime_vm *which, struct text *out)
{
    const struct luajit_blob blob = luajit_blob_of(which->instance);
    const struct luajit_layout *l = blob.layout;
    const struct luajit_vm of = {.g = which->address, .blob = blob.address, .layout = l};
    const struct luajit_vm *vm = &of;
    text_printf(out, "VM: g=0x%" PRIx64 ", dispatch table at 0x%" PRIx64 ": ", vm->g,
                vm->g + (uint64_t)l->g2disp);
    if (l->vmstate != LUAJIT_UNKNOWN)
        put_state(out, l, (int32_t)read_number(m, vm->g + (uint64_t)l->vmstate, 4));
    text_printf(out, ", %u traces\n", count_traces(m, vm));
    if (l->cur_L == LUAJIT_UNKNOWN) {
        text_string(out, "  running lua_State: this version does not keep it\n");
        return;
    }
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t L = read_number(m, vm->g + (uint64_t)l->cur_L, (size_t)l->ref_size);
    text_printf(out, "  running lua_State: cur_L=0x%" PRIx64, L);
    if (!L || !luajit_state_check(m, vm, L, &ignored)) {
        text_string(out, L ? ": there is no lua_State at this address now\n" : ": none\n");
        return;
    }
    uint64_t cframe = read_number(m, L + (uint64_t)l->L_cframe, 8) & ~UINT64_C(3);
    uint64_t base = read_number(m, L + (uint64_t)l->L_base, 8);
    uint64_t stack = read_number(m, L + (uint64_t)l->L_stack, (size_t)l->ref_size);
    if (cframe)
        text_printf(out,
                    ", on the C stack at 0x%" PRIx64 ", %" PRIu64 " of %" PRIu64
                    " slots below its base\n",
                    cframe, base >= stack ? (base - stack) / 8 : 0,
                    read_number(m, L + (uint64_t)l->L_stacksize, 4));
    else
        text_string(out, ", which no C frame has entered\n");
}
