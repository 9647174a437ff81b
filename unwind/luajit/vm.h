/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The VMs of a process: found by their dispatch tables, which are long runs of pointers into the
 * blob and stand in GG_State right where g + g2disp says. No symbol is needed.
 */
#ifndef UNWIND_LUAJIT_VM_H
#define UNWIND_LUAJIT_VM_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"

/* A blob of the process: layout and where it is loaded. */
struct luajit_blob {
    const struct luajit_layout *layout;
    uint64_t address;
};

typedef VEC(struct luajit_vm) luajit_vm_list;

/* Append every VM found in `ranges` (the writable memory: heaps, anonymous mappings, data) to
 * `ret`. Reads each range once, in pieces; what cannot be read is passed over. Of a table that was
 * found, g must hold the main lua_State's own address as well. Any number of blobs is looked for
 * in one pass. -1: memory is out. */
int luajit_vms_find(const struct memory *m, const struct memory_range *ranges, size_t nr_ranges,
                    const struct luajit_blob *blobs, size_t nr_blobs, luajit_vm_list *ret,
                    struct error *err);

/* Is there a VM of that layout at g: does its dispatch table point into the blob, does its main
 * lua_State lead back to it? What is read raises `provenance`. */
bool luajit_vm_check(const struct memory *m, const struct luajit_vm *vm,
                     enum provenance *provenance);

/* What a VM is at by its g->vmstate, as upstream numbers it, or Tarantool. */
enum luajit_vmstate {
    LUAJIT_IN_UNKNOWN, /* a trace, or a number of nobody known */
    LUAJIT_IN_INTERPRETER,
    LUAJIT_IN_C,
    LUAJIT_IN_GC,
    LUAJIT_IN_EXIT, /* leaving a trace */
    LUAJIT_IN_RECORDER,
    LUAJIT_IN_OPTIMIZER,
    LUAJIT_IN_ASSEMBLER,
};
enum luajit_vmstate luajit_vmstate(const struct luajit_layout *l, int32_t value);

/* Is this a lua_State of the VM (its type, glref, base, top and stack in order)? */
bool luajit_state_check(const struct memory *m, const struct luajit_vm *vm, uint64_t L,
                        enum provenance *provenance);

#endif
