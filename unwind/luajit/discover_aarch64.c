/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads values from the instructions of AArch64's interpreter. LuaJIT's assembler has written them,
 * so each value is searched for by the one instruction that has it. Compared on Debian's luajit
 * (2.1, March 2022) and luajit2 (January 2023).
 *
 * Registers (vm_arm64.dasc): x19 base, x20 constants, x21 the next instruction, x22 GL = g, x23 L,
 * x27 RA, x28 RC, x17 RB.
 */
#include "base/cursor.h"
#include "unwind/arch_aarch64.h"
#include "unwind/luajit/discover_internal.h"

#include <string.h>

/* ---- unwind entries ------------------------------------------------------------------------ */

/* lr at CFA-8, x29 -16, x19 -24, ... x28 -96. */
static const uint8_t blob_program[] = {0x9e, 1, 0x9d, 2, 0x93, 3, 0x94, 4,  0x95, 5,  0x96, 6,
                                       0x97, 7, 0x98, 8, 0x99, 9, 0x9a, 10, 0x9b, 11, 0x9c, 12};

static bool is_blob(const struct cfi_bytes *p)
{
    return p->size >= sizeof(blob_program) && !memcmp(p->at, blob_program, sizeof(blob_program));
}

/* lj_vm_ffi_call's program is the beginning of the blob's. */
static bool is_ffi_call(const struct cfi_bytes *p)
{
    enum { SIZE = 8 };
    return p->size >= SIZE && !memcmp(p->at, blob_program, SIZE) && !is_blob(p);
}

/* ---- instructions -------------------------------------------------------------------------- */

enum { INSN = AARCH64_INSN, SP = AARCH64_SP };

/* A word of code with bits that are not looked at. */
struct insn {
    uint32_t value, mask;
};

/* Loads and stores with a scaled offset: of register t at [n + offset]. */
#define LDR(t, n) ((struct insn){0xf9400000 | (n) << 5 | (t), 0xffc003ff})
#define STR(t, n) ((struct insn){0xf9000000 | (n) << 5 | (t), 0xffc003ff})
#define LDR_W(t, n) ((struct insn){0xb9400000 | (n) << 5 | (t), 0xffc003ff})
#define STR_W(t, n) ((struct insn){0xb9000000 | (n) << 5 | (t), 0xffc003ff})
#define LDRB(t, n) ((struct insn){0x39400000 | (n) << 5 | (t), 0xffc003ff})
/* Of any register. */
#define ANY_LDRB(n) ((struct insn){0x39400000 | (n) << 5, 0xffc003e0})
#define ANY_LDURB(n) ((struct insn){0x38400000 | (n) << 5, 0xffe00fe0})
#define ANY_LDUR(n) ((struct insn){0xf8400000 | (n) << 5, 0xffe00fe0})
#define WORD(value) ((struct insn){(value), UINT32_MAX})

enum scale { BYTES, WORDS = 2, DOUBLE_WORDS };

/* Returns the offset in a load or store. */
static int32_t offset_of(uint32_t insn, enum scale scale)
{
    return (int32_t)((insn >> 10 & 0xfff) << scale);
}

/* The offset in one with an unscaled offset. */
static int32_t unscaled_of(uint32_t insn)
{
    return (int32_t)(insn << 11) >> 23;
}

static uint32_t word_at(const struct finder *f, uint32_t at)
{
    return load_u32(f->blob + at, false);
}

/* Find the first such instruction in [from, from + span). */
static bool find(const struct finder *f, struct insn insn, uint32_t from, uint32_t span,
                 uint32_t *ret)
{
    if (from >= f->size)
        return false;
    uint32_t end = f->size - from < span ? f->size : from + span;
    for (uint32_t at = from; at + INSN <= end; at += INSN) {
        if ((word_at(f, at) & insn.mask) == insn.value) {
            *ret = at;
            return true;
        }
    }
    return false;
}

/* Note the offset of a load or store that is found there. */
#define READ(f, field, insn, scale, from, span)                               \
    (find(f, insn, from, span, &found)                                        \
         ? (TOLD(f, field, offset_of(word_at(f, found), scale), found), true) \
         : false)

enum { ENTRY = 0xc0, NEAR = 0x40 }; /* bytes: no entry is longer; close by */

/* ---- entries ------------------------------------------------------------------------------- */

/* sub sp, sp, #size; stp x29, x30, [sp, #size - 16]; add x29, sp, #size - 16 */
static bool is_entry(const struct finder *f, uint32_t at, int32_t *size)
{
    if (f->size - at < 3 * INSN || (word_at(f, at) & 0xffc003ff) != 0xd10003ff)
        return false;
    *size = offset_of(word_at(f, at), BYTES);
    uint32_t slot = (uint32_t)*size - 16;
    return word_at(f, at + INSN) == (0xa9007bfd | (slot / 8 & 0x7f) << 15) &&
           word_at(f, at + 2 * INSN) == (0x910003fd | slot << 10);
}

/* The entries are in this order in every version; the callback's is there if there is an FFI. */
static bool find_entries(struct finder *f)
{
    uint32_t at[5] = {0};
    unsigned nr = 0;
    int32_t size = 0, first = 0;
    for (uint32_t i = 0; i + INSN <= f->size && nr < 5; i += INSN) {
        if (!is_entry(f, i, &size))
            continue;
        first = nr ? first : size;
        if (size != first)
            return false;
        at[nr++] = i;
    }
    if (nr < 4 || at[3] - at[0] > 4 * ENTRY + 0x100)
        return false;
    f->l->gc64 = true; /* there is no other kind */
    TOLD(f, frame_size, first, at[0]);
    TOLD(f, resume, (int32_t)at[0], at[0]);
    TOLD(f, pcall, (int32_t)at[1], at[1]);
    TOLD(f, call, (int32_t)at[2], at[2]);
    TOLD(f, cpcall, (int32_t)at[3], at[3]);
    if (nr == 5)
        TOLD(f, callback, (int32_t)at[4], at[4]);
    return true;
}

/* Find where an entry links its C frame into L. */
static bool find_link(struct finder *f, int32_t entry, uint32_t *ret)
{
    return find(f, STR(8, 23), (uint32_t)entry, ENTRY, ret) &&
           offset_of(word_at(f, *ret), DOUBLE_WORDS) == f->l->L_cframe;
}

/* From lj_vm_call: its C frame, and where L has g and the C frame. */
static bool read_call_frame(struct finder *f)
{
    uint32_t call = (uint32_t)f->l->call, found, second;
    if (!READ(f, L_cframe, LDR(28, 0), DOUBLE_WORDS, call, ENTRY) ||
        !READ(f, frame_nres, STR_W(2, SP), WORDS, call, ENTRY) ||
        !READ(f, L_glref, LDR(22, 23), DOUBLE_WORDS, call, ENTRY) ||
        !READ(f, frame_prev, STR(28, SP), DOUBLE_WORDS, call, ENTRY) ||
        !READ(f, frame_L, STR(0, SP), DOUBLE_WORDS, call, ENTRY))
        return false;
    second = found + INSN; /* any value of L is right in SAVE_PC there */
    if (!READ(f, frame_pc, STR(0, SP), DOUBLE_WORDS, second, ENTRY) ||
        !READ(f, frame_errf, STR_W(3, SP), WORDS, (uint32_t)f->l->pcall, ENTRY))
        return false;
    if (!find_link(f, f->l->call, &found))
        return false;
    TOLD(f, call_linked, (int32_t)found + INSN, found);
    return true;
}

/* From lj_vm_call's second part: cur_L, vmstate, base and top. */
static bool read_call_state(struct finder *f)
{
    uint32_t from = (uint32_t)f->l->call_linked, found;
    if (!READ(f, cur_L, STR(23, 22), DOUBLE_WORDS, from, ENTRY) ||
        !READ(f, vmstate, STR_W(26, 22), WORDS, found, ENTRY))
        return false;
    /* ldp x17, x0, [x23, #base]: base and top */
    if (!find(f, (struct insn){0xa94002f1, 0xffc07fff}, from, ENTRY, &found))
        return false;
    int32_t base = (int32_t)(word_at(f, found) >> 15 & 0x7f) * 8;
    TOLD(f, L_base, base, found);
    TOLD(f, L_top, base + 8, found);
    if (!find(f, WORD(0xf85f0262), found, ENTRY, &found)) /* ldur x2, [x19, #-16] */
        return false;
    TOLD(f, call_dispatch, (int32_t)found, found);
    if (!find(f, WORD(0xf81f8275), found, ENTRY, &found)) /* stur x21, [x19, #-8] */
        return false;
    TOLD(f, call_entered, (int32_t)found + INSN, found);
    return true;
}

static bool read_other_entries(struct finder *f)
{
    uint32_t found, cpcall = (uint32_t)f->l->cpcall;
    if (!READ(f, L_status, ANY_LDRB(23u), BYTES, (uint32_t)f->l->resume, ENTRY) ||
        !find_link(f, f->l->resume, &found))
        return false;
    TOLD(f, resume_linked, (int32_t)found + INSN, found);
    if (!READ(f, L_stack, LDR(27, 0), DOUBLE_WORDS, cpcall, ENTRY) ||
        !find_link(f, f->l->cpcall, &found))
        return false;
    TOLD(f, cpcall_linked, (int32_t)found + INSN, found);
    if (!find(f, WORD(0xd63f0060), found, NEAR, &found)) /* blr x3 */
        return false;
    TOLD(f, cpcall_return, (int32_t)found + INSN, found);
    return true;
}

/* ---- functions, epilogue, return ------------------------------------------------------------ */

/* BC_FUNCC: ldr x3, [x2, #f]; ldr x0, [x23, #maxstack]; blr x3. BC_FUNCCW calls a wrapper so. */
static bool read_functions(struct finder *f)
{
    const uint32_t blr_x3 = 0xd63f0060;
    uint32_t found, call, load, next;
    for (uint32_t from = 0;; from = load + INSN) {
        if (!find(f, LDR(3, 2), from, (uint32_t)f->l->resume - from, &load))
            return false;
        if (find(f, WORD(blr_x3), load, NEAR, &call) &&
            READ(f, L_maxstack, LDR(0, 23), DOUBLE_WORDS, load, call - load))
            break;
    }
    TOLD(f, func_c, offset_of(word_at(f, load), DOUBLE_WORDS), load);
    TOLD(f, funcc_return, (int32_t)call + INSN, call);
    if (find(f, WORD(blr_x3), call + INSN, 2 * NEAR, &next))
        TOLD(f, funccw_return, (int32_t)next + INSN, next);
    return true;
}

/* ldp x20, x19, [sp, #size - 32] is the first of the loads that end in a return. */
static bool read_epilogue(struct finder *f)
{
    uint32_t slot = (uint32_t)f->l->frame_size - 32, found, ret;
    if (!find(f, WORD(0xa9404ff4 | (slot / 8 & 0x7f) << 15), 0, f->size, &found) ||
        !find(f, WORD(0xd65f03c0), found, NEAR, &ret))
        return false;
    TOLD(f, leave, (int32_t)found, found);
    return true;
}

/* The return to C: and x17, x21, #~7; sub x17, x19, x17; str x17, [x23, #base]. Its end is
 * lj_vm_unwind_c: mov sp, x0; mov x0, x1. */
static bool read_return(struct finder *f)
{
    uint32_t found, next;
    for (uint32_t from = 0;; from = found + INSN) {
        if (!find(f, WORD(0x927df2b1), from, f->size, &found))
            return false;
        if (find(f, WORD(0xcb110271), found, NEAR, &next))
            break;
    }
    TOLD(f, return_c, (int32_t)found, found);
    TOLD(f, return_c_base, (int32_t)next + INSN, next);
    if (!find(f, STR(17, 23), next, NEAR, &found) ||
        offset_of(word_at(f, found), DOUBLE_WORDS) != f->l->L_base)
        return false;
    TOLD(f, return_c_stored, (int32_t)found + INSN, found);
    for (uint32_t from = found;; from = found + INSN) {
        if (!find(f, WORD(0x9100001f), from, 0x400, &found))
            return false;
        if (f->size - found >= 2 * INSN && word_at(f, found + INSN) == 0xaa0103e0)
            break;
    }
    TOLD(f, return_c_end, (int32_t)found, found);
    return true;
}

/* BC_RET: sub x2, x19, #16; in a loop that stores results "add x19, x19, #8"; ...; b.lo FILL; ...;
 * mov x19, x3. FILL: add x19, x19, #8; ...; b. Not required: some versions may do otherwise. */
static void read_ret(struct finder *f)
{
    uint32_t found, moved, fill;
    for (uint32_t from = 0; find(f, WORD(0xd1004262), from, f->size, &found); from = found + INSN) {
        if (!find(f, WORD(0xaa0303f3), found, NEAR, &moved) ||
            !find(f, WORD(0x91002273), found, moved - found, &fill))
            continue;
        TOLD(f, ret_moves, (int32_t)found + INSN, found);
        TOLD(f, ret_moved, (int32_t)moved, moved);
        if (find(f, WORD(0x91002273), moved, NEAR, &fill))
            TOLD(f, ret_fills, (int32_t)fill, fill);
        break;
    }
}

/* ---- global state ---------------------------------------------------------------------------- */

/* Each bytecode instruction ends with ldr w16, [x21], #4; add x9, x22, w16, uxtb #3; ldr x8, [x9,
 * #dispatch]. */
static bool read_dispatch(struct finder *f)
{
    uint32_t found;
    for (uint32_t from = 0; find(f, WORD(0xb84046b0), from, f->size, &found); from = found + INSN) {
        if (f->size - found >= 2 * INSN && word_at(f, found + INSN) == 0x8b300ec9)
            return READ(f, g2disp, LDR(8, 9), DOUBLE_WORDS, found, NEAR);
    }
    return false;
}

/* The collector's totals, before an allocation: ldp x0, x1, [x22, #total]; cmp x0, x1. The #
 * operator loads a string's length, and makes it a number: ldr w0, [x0, #len]; add x0, x0, x24. */
static void read_globals(struct finder *f)
{
    uint32_t found;
    for (uint32_t from = 0; find(f, (struct insn){0xa94006c0, 0xffc07fff}, from, f->size, &found);
         from = found + INSN) {
        if (f->size - found < 2 * INSN || word_at(f, found + INSN) != 0xeb01001f)
            continue;
        TOLD(f, gc_total, (int32_t)(word_at(f, found) >> 15 & 0x7f) * 8, found);
        TOLD(f, gc_root, f->l->gc_total + 0x18, found);
        break;
    }
    for (uint32_t from = 0; find(f, LDR_W(0, 0), from, f->size, &found); from = found + INSN) {
        if (f->size - found < 2 * INSN || word_at(f, found + INSN) != 0x8b180000)
            continue;
        TOLD(f, str_len, offset_of(word_at(f, found), WORDS), found);
        break;
    }
}

/* ---- traces -------------------------------------------------------------------------------- */

/* BC_JLOOP: ldr x0, [x22, #trace]; ldr x28, [x0, x28, lsl #3]; ldr x27, [x28, #mcode]; str x19,
 * [x22, #jit_base]; sub sp, sp, #16; br x27. */
static bool read_trace_entry(struct finder *f)
{
    uint32_t found, load, next;
    if (!find(f, WORD(0xf87c781c), 0, f->size, &load))
        return true; /* built without the JIT compiler */
    uint32_t from = load > NEAR ? load - NEAR : 0;
    for (; find(f, LDR(0, 22), from, load - from, &found); from = found + INSN)
        TOLD(f, trace, offset_of(word_at(f, found), DOUBLE_WORDS), found); /* the last one is it */
    if (f->l->trace == LUAJIT_UNKNOWN ||
        !READ(f, trace_mcode, LDR(27, 28), DOUBLE_WORDS, load, NEAR) ||
        !READ(f, jit_base, STR(19, 22), DOUBLE_WORDS, load, NEAR) ||
        !find(f, WORD(0xd10043ff), load, NEAR, &next))
        return false;
    TOLD(f, jloop_sub, (int32_t)next + INSN, next);
    if (!find(f, WORD(0xd61f0360), next, NEAR, &next))
        return false;
    TOLD(f, jloop_end, (int32_t)next + INSN, next);
    return true;
}

/* sub sp, sp, #512; ... str x19, [x23, #base]; str w0, [x22, #exitno]; str w1, [x22, #parent]; str
 * x23, [x22, #J->L]; add x0, x22, #J; bl lj_trace_exit; ldr x1, [x23, #cframe] */
static bool read_exit_handler(struct finder *f)
{
    uint32_t found, from;
    if (!find(f, WORD(0xd10803ff), 0, f->size, &from))
        return f->l->trace == LUAJIT_UNKNOWN;
    TOLD(f, exit_handler, (int32_t)from, from);
    TOLD(f, exit_sub, (int32_t)from + INSN, from);
    enum { SPAN = 0x120 };
    if (!find(f, STR(19, 23), from, SPAN, &found) ||
        offset_of(word_at(f, found), DOUBLE_WORDS) != f->l->L_base)
        return false;
    from = found;
    if (!READ(f, exitno, STR_W(0, 22), WORDS, from, NEAR) ||
        !READ(f, parent, STR_W(1, 22), WORDS, from, NEAR) ||
        !READ(f, J_L, STR(23, 22), DOUBLE_WORDS, from, NEAR) ||
        !READ(f, J, ((struct insn){0x910002c0, 0xffc003ff}), BYTES, from, NEAR) ||
        !find(f, (struct insn){0x94000000, 0xfc000000}, found, NEAR, &found))
        return false;
    TOLD(f, exit_return, (int32_t)found + INSN, found);
    return true;
}

/* Behind it: and sp, x1, #-4; ... ldr x1, [x1, #func_pc]; ldur x20, [x1, #k]; cmp w17, #FUNCC; cmp
 * w17, #FUNCF. */
static bool read_exit_interp(struct finder *f)
{
    const struct insn compare = {0x7100023f, 0xffc003ff}; /* cmp w17, #n */
    uint32_t found, from = (uint32_t)f->l->exit_return;
    if (f->l->exit_return == LUAJIT_UNKNOWN)
        return true;
    if (!find(f, WORD(0x927ef43f), from, NEAR, &found))
        return false;
    TOLD(f, exit_settled, (int32_t)found + INSN, found);
    if (!find(f, LDR(23, SP), found, NEAR, &found))
        return false;
    TOLD(f, exit_interp, (int32_t)found, found);
    from = found;
    if (!READ(f, func_pc, LDR(1, 1), DOUBLE_WORDS, from, 2 * NEAR) ||
        !find(f, ANY_LDUR(1u), found, NEAR, &found))
        return false;
    TOLD(f, proto_k, 0x20, found);
    TOLD(f, proto_size, 0x20 - unscaled_of(word_at(f, found)), found);
    if (!find(f, compare, from, 2 * NEAR, &found) || !find(f, compare, found + INSN, NEAR, &found))
        return false;
    TOLD(f, op_funcf, offset_of(word_at(f, found), BYTES), found);
    return true;
}

/* A Lua function's header reads the number of parameters, relative to the instruction behind the
 * header. The frame's size is the byte behind it. */
static bool read_framesize(struct finder *f)
{
    int32_t size = f->l->proto_size == LUAJIT_UNKNOWN ? 0x68 : f->l->proto_size;
    uint32_t found;
    for (uint32_t from = 0; find(f, ANY_LDURB(21u), from, f->size, &found); from = found + INSN) {
        int32_t field = unscaled_of(word_at(f, found)) + INSN + size;
        if (field + 1 == f->l->L_status) { /* behind a header of the same size */
            TOLD(f, proto_framesize, field + 1, found);
            return true;
        }
    }
    return false;
}

/* ---- callbacks, leaf helpers --------------------------------------------------------------- */

static void read_helpers(struct finder *f)
{
    const struct insn call = {0x94000000, 0xfc000000};
    uint32_t from = f->l->exit_handler > 0 ? (uint32_t)f->l->exit_handler : 0, found = 0;
    if (find(f, WORD(0x4a010003), from, f->size, &found)) /* lj_vm_modi: eor w3, w0, w1 */
        TOLD(f, leaf_start, (int32_t)found, found);
    if (f->l->callback == LUAJIT_UNKNOWN)
        return;
    from = (uint32_t)f->l->callback;
    if (READ(f, ctype_state, LDR(21, 10), DOUBLE_WORDS, from, ENTRY) &&
        find(f, call, found, ENTRY, &found))
        TOLD(f, callback_return, (int32_t)found + INSN, found);
    if (f->l->callback_return != LUAJIT_UNKNOWN && find(f, call, found + INSN, ENTRY, &found))
        TOLD(f, callback_leave_return, (int32_t)found + INSN, found);
}

/* lj_vm_ffi_call ends with ldp x29, x30, [sp, #16]; ldp x20, x19, [sp], #32; ret. */
static void read_ffi_call(const struct luajit_image *image, struct luajit_layout *l)
{
    static const uint32_t end[] = {0xa9417bfd, 0xa8c24ff4, 0xd65f03c0};
    const uint8_t *code = NULL;
    if (l->ffi_call && l->ffi_call_size <= LUAJIT_BLOB_MAX)
        code = image->bytes(image->context, l->ffi_call, l->ffi_call_size);
    for (uint64_t i = 0; code && i + sizeof(end) <= l->ffi_call_size; i += INSN) {
        if (load_u32(code + i, false) == end[0] && load_u32(code + i + INSN, false) == end[1] &&
            load_u32(code + i + 2 * INSN, false) == end[2])
            l->ffi_call_ret = l->ffi_call + i + 2 * INSN;
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

static const struct luajit_code_step steps[] = {
    {find_entries, "the entries"},
    {read_call_frame, "lj_vm_call's C frame"},
    {read_call_state, "lj_vm_call's state"},
    {read_other_entries, "lj_vm_resume and cpcall"},
    {read_functions, "function headers"},
    {read_epilogue, "the epilogue"},
    {read_return, "vm_return"},
    {read_dispatch, "the next instruction"},
    {read_trace_entry, "BC_JLOOP"},
    {read_exit_handler, "lj_vm_exit_handler"},
    {read_exit_interp, "lj_vm_exit_interp"},
    {read_framesize, "BC_IFUNCF"},
};

static void read_others(struct finder *f, const struct luajit_image *image)
{
    read_ret(f);
    read_globals(f);
    read_helpers(f);
    read_ffi_call(image, f->l);
}

const struct luajit_code luajit_code_aarch64 = {.arch = &arch_aarch64,
                                                .machine = LUAJIT_ON_AARCH64,
                                                .is_blob = is_blob,
                                                .is_ffi_call = is_ffi_call,
                                                .steps = steps,
                                                .nr_steps = sizeof(steps) / sizeof(*steps),
                                                .read_others = read_others};
