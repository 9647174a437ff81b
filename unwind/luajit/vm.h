/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the VMs of a process by their dispatch tables, which are long runs of pointers into the
 * blob and stand in GG_State right at g + g2disp. No symbol is needed.
 */
#ifndef UNWIND_LUAJIT_VM_H
#define UNWIND_LUAJIT_VM_H

#include "base/error.h"
#include "base/vec.h"
#include "unwind/luajit/layout.h"
#include "unwind/memory.h"
#include "unwind/runtime.h"
#include "unwind/unwind.h"

/* A blob of the process: its layout, and the address where it is loaded. */
struct luajit_blob {
    const struct luajit_layout *layout;
    uint64_t address;
};

typedef VEC(struct luajit_vm) luajit_vm_list;

/* Append every VM found in `ranges` (the writable memory: heaps, anonymous mappings, data) to
 * `ret`. Each range is read once, in pieces; unreadable memory is skipped. A dispatch table counts
 * only if the main lua_State near it refers to its g. One pass looks for any number of blobs.
 * Returns -1 when memory is out. */
int luajit_vms_find(const struct memory *m, const struct memory_range *ranges, size_t nr_ranges,
                    const struct luajit_blob *blobs, size_t nr_blobs, luajit_vm_list *ret,
                    struct error *err);

/* Is there a VM of that layout at g: does its dispatch table point into the blob, and does its main
 * lua_State lead back to g? Reads raise `provenance`. */
bool luajit_vm_check(const struct memory *m, const struct luajit_vm *vm,
                     enum provenance *provenance);

/* Returns the main lua_State of a VM, whose `layout` and `g` are set; 0: there is none. Reads raise
 * `provenance`. */
uint64_t luajit_main_thread(const struct memory *m, const struct luajit_vm *vm,
                            enum provenance *provenance);

/* Get where the VM is that a register names in the interpreter, usually in its helpers, and in
 * traces (x86-64: DISPATCH; AArch64: GL). Nothing says that it is one. Returns false when the
 * register is not known. */
bool luajit_vm_of_registers(const struct registers *r, const struct luajit_layout *layout,
                            uint64_t *ret_g);

/* Returns what a VM does, by its g->vmstate, in the numbering of upstream or of Tarantool. */
enum runtime_activity luajit_vmstate(const struct luajit_layout *l, int32_t value);

/* Is this a lua_State of the VM: are its type, glref, base, top and stack valid? */
bool luajit_state_check(const struct memory *m, const struct luajit_vm *vm, uint64_t L,
                        enum provenance *provenance);

#endif
