/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The layout of the LuaJIT in one binary: offsets, the C frame, landmarks of the interpreter. This
 * is data only, and no version number decides anything: discover.h reads the values out of the
 * interpreter's own code. Two types that other files of this folder share are here, too: a VM and a
 * Lua frame.
 *
 * Terms: `g` is the address of global_State (lua_State.glref holds it). DISPATCH is g + g2disp; it
 * is in r14 in the interpreter, and also in traces of GC64 builds. GG_State is one block that holds
 * the main lua_State, g, jit_State and the dispatch table. GC64 builds have 64 bit references and
 * two-slot frames (FR2). The other builds have 32 bit references and one-slot frames. x86-64 has no
 * third kind. "The blob" is the interpreter: one assembled block of 14 to 18 KiB with one unwind
 * entry.
 */
#ifndef UNWIND_LUAJIT_LAYOUT_H
#define UNWIND_LUAJIT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Every value with its meaning (ljperf doctor --vm prints this). LUAJIT_UNKNOWN: not found.
 *
 * Sources: "extracted" values come from the blob's instructions, and the evidence is the
 * instruction's address. The other values are the same in every LuaJIT of that mode from 2.0.0 to
 * August 2026 (DWARF of 15 builds). Their evidence is the code that tells the mode: L->glref in
 * lj_vm_call.
 */
#define LUAJIT_FIELDS(X)                                                                        \
    /* the blob: offsets from its start; extracted */                                           \
    X(jloop_sub, "BC_JLOOP: behind the instruction that makes 16 bytes of room before a trace") \
    X(jloop_end, "BC_JLOOP: behind its jump into the trace")                                    \
    X(funcc_return, "BC_FUNCC: return address of the C function")                               \
    X(funccw_return, "BC_FUNCCW: return address of the C function's wrapper")                   \
    X(resume, "lj_vm_resume")                                                                   \
    X(pcall, "lj_vm_pcall")                                                                     \
    X(call, "lj_vm_call")                                                                       \
    X(cpcall, "lj_vm_cpcall")                                                                   \
    X(call_linked, "lj_vm_call: behind the store that links its C frame into L->cframe")        \
    X(call_dispatch, "vm_call_dispatch: where pcall and the like join lj_vm_call's end")        \
    X(call_entered, "lj_vm_call: behind the store that completes the new Lua frame")            \
    X(resume_linked, "lj_vm_resume: as call_linked")                                            \
    X(cpcall_linked, "lj_vm_cpcall: the same")                                                  \
    X(cpcall_return, "lj_vm_cpcall: return address of the C function")                          \
    X(return_c, "vm_return: from here the returning frame is gone, the caller is C")            \
    X(return_c_base, "vm_return: the frame below is in a register from here ...")               \
    X(return_c_stored, "... and in L->base from here")                                          \
    X(return_c_end, "end of that code (lj_vm_unwind_c)")                                        \
    X(ret_moves, "BC_RET: from here on BASE moves up while results are stored (AArch64) ...")   \
    X(ret_moved, "... up to here, where it becomes the caller's")                               \
    X(ret_fills, "BC_RET: where it moves on to fill up results with nil")                       \
    X(leave, "lj_vm_leave_unw: the epilogue")                                                   \
    X(rethrow, "lj_vm_unwind_rethrow's epilogue; may be absent")                                \
    X(exit_handler, "lj_vm_exit_handler")                                                       \
    X(exit_sub, "lj_vm_exit_handler: behind the subtraction that completes its frame")          \
    X(exit_return, "lj_vm_exit_handler: return address of lj_trace_exit")                       \
    X(exit_interp, "lj_vm_exit_interp")                                                         \
    X(exit_settled, "lj_vm_exit_interp: sp is the C frame again from here")                     \
    X(leaf_start, "first of the leaf helpers")                                                  \
    X(callback, "lj_vm_ffi_callback, and end of the leaf helpers; absent without FFI")          \
    X(callback_return, "lj_vm_ffi_callback: return address of lj_ccallback_enter")              \
    X(callback_leave_return, "lj_cont_ffi_callback: return address of lj_ccallback_leave")      \
    /* the C frame of an entry into the VM: offsets from rsp in the interpreter ("si") */       \
    X(frame_size, "bytes of the C frame: CFA = si + this; extracted")                           \
    X(frame_L, "SAVE_L: the lua_State; extracted")                                              \
    X(frame_pc, "SAVE_PC: next bytecode instruction, right at some calls only; extracted")      \
    X(frame_prev, "SAVE_CFRAME: the lua_State's next outer C frame; extracted")                 \
    X(frame_nres, "SAVE_NRES: negative in lj_vm_cpcall as long as no Lua frame is there")       \
    X(frame_errf, "SAVE_ERRF: handler of a protected call")                                     \
    /* lua_State */                                                                             \
    X(L_gct, "lua_State.gct: type 6")                                                           \
    X(L_status, "lua_State.status; extracted")                                                  \
    X(L_glref, "lua_State.glref -> g; extracted")                                               \
    X(L_base, "lua_State.base; extracted")                                                      \
    X(L_top, "lua_State.top; extracted")                                                        \
    X(L_maxstack, "lua_State.maxstack: last usable slot; extracted")                            \
    X(L_stack, "lua_State.stack: the slots' start; extracted")                                  \
    X(L_cframe, "lua_State.cframe: innermost C frame; its low two bits are flags; extracted")   \
    X(L_stacksize, "lua_State.stacksize: u32, in slots")                                        \
    X(L_used, "bytes of a lua_State that are described here")                                   \
    /* global_State: offsets from g; extracted */                                               \
    X(g2disp, "the dispatch table is at g + this")                                              \
    X(cur_L, "g->cur_L: running lua_State; in 2.0 (which has none) unknown")                    \
    X(jit_L, "2.0 only: g->jit_L, lua_State of the running trace")                              \
    X(jit_base, "g->jit_base: base of the running trace, 0: none")                              \
    X(vmstate, "g->vmstate: s32, trace number or ~state")                                       \
    X(hookmask, "g->hookmask: u8")                                                              \
    X(gc_total, "g->gc.total")                                                                  \
    X(gc_root, "g->gc.root: all objects")                                                       \
    X(ctype_state, "g->ctype_state: CTState; absent without FFI")                               \
    X(bc_cfunc_int, "g->bc_cfunc_int: header instruction of library functions in C")            \
    X(bc_cfunc_ext, "g->bc_cfunc_ext: header instruction of other C functions")                 \
    /* jit_State: offsets from g; absent where the JIT compiler is */                           \
    X(J, "jit_State; extracted")                                                                \
    X(J_L, "J->L; extracted")                                                                   \
    X(trace, "J->trace: array of references by trace number; extracted")                        \
    X(sizetrace, "J->sizetrace: u32")                                                           \
    X(parent, "J->parent: trace that exited last; extracted")                                   \
    X(exitno, "J->exitno: its exit; extracted")                                                 \
    X(exitstubgroup, "J->exitstubgroup: 16 pointers to groups of 32 exit stubs")                \
    X(state, "J->state: u32; as far as exported functions told")                                \
    X(mcarea, "J->mcarea: newest machine code area; as far as known")                           \
    /* objects */                                                                               \
    X(ref_size, "bytes of a reference to an object")                                            \
    X(gct, "type byte of an object")                                                            \
    X(func_ffid, "GCfunc.ffid: u8, 0 Lua, 1 C, else builtin")                                   \
    X(func_nupvalues, "GCfunc.nupvalues: u8")                                                   \
    X(func_pc, "GCfunc.pc: of a Lua function, its bytecode = GCproto + proto_size; extracted")  \
    X(func_upvalues, "GCfuncL.uvptr")                                                           \
    X(func_c, "GCfuncC.f: the C function; extracted")                                           \
    X(proto_size, "sizeof(GCproto): where the bytecode begins; extracted")                      \
    X(proto_numparams, "GCproto.numparams: u8")                                                 \
    X(proto_framesize, "GCproto.framesize: u8; extracted")                                      \
    X(proto_sizebc, "GCproto.sizebc: u32, instructions")                                        \
    X(proto_k, "GCproto.k: between object constants (below) and numbers (above); extracted")    \
    X(proto_sizekgc, "GCproto.sizekgc: u32")                                                    \
    X(proto_sizekn, "GCproto.sizekn: u32")                                                      \
    X(proto_sizept, "GCproto.sizept: u32, bytes of the whole object")                           \
    X(proto_sizeuv, "GCproto.sizeuv: u8")                                                       \
    X(proto_flags, "GCproto.flags: u8")                                                         \
    X(proto_trace, "GCproto.trace: u16, first root trace")                                      \
    X(proto_chunkname, "GCproto.chunkname: GCstr")                                              \
    X(proto_firstline, "GCproto.firstline: s32")                                                \
    X(proto_numline, "GCproto.numline: s32")                                                    \
    X(proto_lineinfo, "GCproto.lineinfo")                                                       \
    X(proto_uvinfo, "GCproto.uvinfo")                                                           \
    X(proto_varinfo, "GCproto.varinfo")                                                         \
    X(str_len, "GCstr.len: u32; extracted")                                                     \
    X(str_size, "sizeof(GCstr): where the text begins, with a NUL behind it")                   \
    X(upval_v, "GCupval.v: address of the value")                                               \
    X(tab_array, "GCtab.array")                                                                 \
    X(tab_asize, "GCtab.asize: u32")                                                            \
    X(tab_node, "GCtab.node: Node is value, key, next")                                         \
    X(tab_hmask, "GCtab.hmask: u32")                                                            \
    X(frame_slots, "slots of a Lua frame's header: 2 with FR2, else 1")                         \
    /* GCtrace: fields that are the same in all versions of a mode. Each object tells the rest  \
     * (nsnap, nsnapmap, the form of snapshots): trace.h */                                     \
    X(trace_size, "bytes of a GCtrace that are described here")                                 \
    X(trace_nins, "GCtrace.nins: u32, biased")                                                  \
    X(trace_ir, "GCtrace.ir: biased by 8 x 0x8000")                                             \
    X(trace_nk, "GCtrace.nk: u32, lowest constant, biased")                                     \
    X(trace_snap, "GCtrace.snap")                                                               \
    X(trace_snapmap, "GCtrace.snapmap")                                                         \
    X(trace_startpt, "GCtrace.startpt: GCproto")                                                \
    X(trace_startpc, "GCtrace.startpc")                                                         \
    X(trace_startins, "GCtrace.startins: u32, the instruction that was patched")                \
    X(trace_szmcode, "GCtrace.szmcode: u32")                                                    \
    X(trace_mcode, "GCtrace.mcode; extracted")                                                  \
    X(trace_mcloop, "GCtrace.mcloop: u32")                                                      \
    X(trace_spadjust, "GCtrace.spadjust: u16")                                                  \
    X(trace_traceno, "GCtrace.traceno: u16; 0 after a flush")                                   \
    X(trace_link, "GCtrace.link: u16")                                                          \
    X(trace_root, "GCtrace.root: u16, 0: is a root")                                            \
    /* bytecode */                                                                              \
    X(op_funcf, "opcode FUNCF; extracted")                                                      \
    X(op_funcc, "opcode FUNCC; extracted")                                                      \
    X(op_callm, "opcode CALLM")                                                                 \
    X(op_call, "opcode CALL")                                                                   \
    X(op_iterc, "opcode ITERC")                                                                 \
    X(op_itern, "opcode ITERN")                                                                 \
    X(op_jloop, "opcode JLOOP")

enum { LUAJIT_UNKNOWN = INT32_MIN };

/* Numbering of bytecode instructions. op_funcc identifies it (0x5b, 0x5f, 0x66). */
enum luajit_bytecode {
    LUAJIT_BC_20,   /* 2.0 */
    LUAJIT_BC_21,   /* 2.1 up to July 2026, OpenResty, Tarantool */
    LUAJIT_BC_2607, /* 2.1 since 20 July 2026: bit operators */
};

enum luajit_field {
#define X(name, text) LUAJIT_F_##name,
    LUAJIT_FIELDS(X)
#undef X
        LUAJIT_NR_FIELDS
};

/* The machine whose code the interpreter is. */
enum luajit_machine_id { LUAJIT_ON_X86_64, LUAJIT_ON_AARCH64 };

struct luajit_builtins; /* names_builtins.h */

struct luajit_layout {
#define X(name, text) int32_t name;
    LUAJIT_FIELDS(X)
#undef X
    enum luajit_machine_id machine;
    bool gc64; /* 64 bit references, and FR2 */
    enum luajit_bytecode bytecode;
    uint64_t blob, blob_size; /* addresses in the module (ELF vaddr) */
    uint64_t ffi_call;        /* lj_vm_ffi_call, which has its own unwind entry; 0: absent */
    uint64_t ffi_call_size, ffi_call_ret; /* ret: address of its return instruction, 0: unknown */
    /* Names of library functions; NULL: not known. Not owned; they live as long as the layout. */
    const struct luajit_builtins *builtins;
    /* Result of crosscheck.h: how many of the values above the exported functions use, and how many
     * they seem not to use. */
    uint16_t confirmed, contradicted;
    const char *contradiction;           /* first function that contradicted a value; NULL: none */
    uint32_t evidence[LUAJIT_NR_FIELDS]; /* the instruction that a value was read from: its offset
                                            in the blob + 1; 0: the value follows from the mode or
                                            from another field */
};

/* One field, for printing. `evidence`: vaddr of an instruction; 0: the value follows from
 * others. */
struct luajit_field_view {
    const char *name, *text;
    int32_t value; /* LUAJIT_UNKNOWN: not found, or absent in this build */
    uint64_t evidence;
};
struct luajit_field_view luajit_layout_field(const struct luajit_layout *l, enum luajit_field f);

/* Set the opcodes and their numbering according to l->op_funcf; false: the numbering is unknown. */
bool luajit_layout_opcodes(struct luajit_layout *l);

/* A VM of a process. */
struct luajit_vm {
    uint64_t g;
    uint64_t blob; /* where the blob is loaded */
    const struct luajit_layout *layout;
};

/* The kind of a Lua frame. */
enum luajit_frame_kind {
    LUAJIT_FRAME_LUA,
    LUAJIT_FRAME_C,       /* a C function (ffid 1): its native symbol names it */
    LUAJIT_FRAME_BUILTIN, /* a library function in C or assembler (ffid > 1) */
    LUAJIT_FRAME_UNKNOWN, /* a frame whose function is not recorded */
};

/* One Lua frame as the walker passes it to the namer (names.h). The walker has checked the type of
 * the object behind each pointer, and no more. */
struct luajit_frame {
    uint64_t g, L;
    uint64_t func;    /* GCfunc; 0: not known (an inlined function that is no constant of its
                         trace) */
    uint64_t proto;   /* GCproto; 0: C or builtin */
    int32_t position; /* index of the executing bytecode instruction; 0: the header (the function
                         was just entered); -1: unknown */
    uint8_t kind;     /* enum luajit_frame_kind */
    uint8_t ffid;
    bool inlined;          /* from a trace's snapshot, not on the Lua stack */
    uint16_t trace;        /* trace that executes the frame; 0: interpreter */
    uint64_t caller_pc;    /* bytecode address behind the call instruction in the caller (a Lua
                              function); 0: the caller is not Lua, or unknown */
    uint64_t caller_proto; /* GCproto of the caller; 0: as for caller_pc */
    uint64_t caller_func;  /* GCfunc of the caller; 0: not known */
    uint64_t caller_base;  /* where the slots of the caller's variables begin on the Lua stack; 0:
                              not known */
};

#endif
