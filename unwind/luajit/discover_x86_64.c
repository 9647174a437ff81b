/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads values from the instructions of x86-64's interpreter. The byte sequences were compared on
 * 27 binaries from 2.0.5 to August 2026. The resulting values were compared with DWARF on 15 of
 * them.
 */
#include "unwind/arch_x86_64.h"
#include "unwind/luajit/discover_internal.h"

#include <string.h>

enum { FFI_CALL_MAX = 8192 };

/* ---- unwind entries ------------------------------------------------------------------------ */

/* The FDE's program: CFA = rsp + N, rbp at CFA-16, rbx -24, r15 -32, r14 -40. */
static const uint8_t fde_tail[] = {0x86, 2, 0x83, 3, 0x8f, 4, 0x8e, 5};
/* The FDE's program of lj_vm_ffi_call, right behind the blob: CFA = rsp+16, rbp -16, CFA by rbp,
 * rbx -24. */
static const uint8_t ffi_call_program[] = {0x0e, 0x10, 0x86, 2, 0x0d, 6, 0x83, 3};

static bool is_padding(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (at[i] != 0)
            return false;
    }
    return true;
}

static bool is_blob(const struct cfi_bytes *p)
{
    return p->size >= 2 + sizeof(fde_tail) && p->at[0] == 0x0e && p->at[1] < 0x80 &&
           !memcmp(p->at + 2, fde_tail, sizeof(fde_tail)) &&
           is_padding(p->at + 2 + sizeof(fde_tail), p->size - 2 - sizeof(fde_tail));
}

static bool is_ffi_call(const struct cfi_bytes *p)
{
    return p->size >= sizeof(ffi_call_program) &&
           !memcmp(p->at, ffi_call_program, sizeof(ffi_call_program));
}

/* ---- byte patterns ------------------------------------------------------------------------- */

/* Patterns are hexadecimal bytes. ?? is any byte, bb a byte and DD four bytes (little endian,
 * signed) to capture, in order. */
enum { CAPTURES = 4, LITERAL_MAX = 16 };

struct match {
    uint32_t at, end; /* offset of the first byte, and offset behind the last byte */
    int32_t value[CAPTURES];
};

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static bool match_at(const struct finder *f, const char *pattern, uint32_t at, struct match *ret)
{
    unsigned captures = 0;
    ret->at = at;
    for (const char *p = pattern; *p; p += 2) {
        p += *p == ' ';
        uint32_t size = p[0] == 'D' ? 4 : 1;
        if (f->size - at < size || at > f->size)
            return false;
        if (p[0] == 'D') {
            int32_t value;
            memcpy(&value, f->blob + at, 4);
            ret->value[captures++] = value;
        } else if (p[0] == 'b' && p[1] == 'b') {
            ret->value[captures++] = (int8_t)f->blob[at];
        } else if (p[0] != '?' && f->blob[at] != (hex_digit(p[0]) << 4 | hex_digit(p[1]))) {
            return false;
        }
        at += size;
    }
    ret->end = at;
    return true;
}

/* Get the literal bytes at the beginning of a pattern. Returns how many. */
static size_t literal_of(const char *pattern, uint8_t ret[LITERAL_MAX])
{
    size_t n = 0;
    for (const char *p = pattern; *p && n < LITERAL_MAX; p += 2, n++) {
        p += *p == ' ';
        if (p[0] == 'D' || p[0] == '?' || (p[0] == 'b' && p[1] == 'b'))
            break;
        ret[n] = (uint8_t)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
    }
    return n;
}

/* Find the first match that begins in [from, from + span). */
static bool find(const struct finder *f, const char *pattern, uint32_t from, uint32_t span,
                 struct match *ret)
{
    uint8_t literal[LITERAL_MAX];
    size_t n = literal_of(pattern, literal);
    if (from >= f->size)
        return false;
    uint32_t end = f->size - from < span ? f->size : from + span;
    for (uint32_t at = from; at < end; at++) {
        /* (all bytes of the match except the first may lie behind `end`) */
        const uint8_t *next = memmem(f->blob + at, f->size - at, literal, n);
        if (!next || (at = (uint32_t)(next - f->blob)) >= end)
            return false;
        if (match_at(f, pattern, at, ret))
            return true;
    }
    return false;
}

/* The pattern for the current mode. */
static const char *by_mode(const struct finder *f, const char *gc64, const char *gc32)
{
    return f->l->gc64 ? gc64 : gc32;
}

/* The offset of a field of g, from an operand [r14 + displacement]. */
static int32_t of_g(const struct finder *f, int32_t displacement)
{
    return f->l->g2disp + displacement;
}

/* ---- entries ------------------------------------------------------------------------------- */

enum { ENTRY = 0x80 }; /* no entry is longer */

/* The four entries begin with the same code, and are in this order in every version. */
static bool find_entries(struct finder *f)
{
    struct match m;
    uint32_t at[4], from = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (!find(f, "55 53 41 57 41 56 48 83 ec bb", from, f->size, &m))
            return false;
        at[i] = m.at;
        from = m.end;
    }
    TOLD(f, frame_size, m.value[0] + 5 * 8, m.at);
    TOLD(f, resume, (int32_t)at[0], at[0]);
    TOLD(f, pcall, (int32_t)at[1], at[1]);
    TOLD(f, call, (int32_t)at[2], at[2]);
    TOLD(f, cpcall, (int32_t)at[3], at[3]);
    return at[3] - at[0] < 4 * ENTRY + 0x100;
}

/* From lj_vm_call: the mode, glref, C frame, DISPATCH. */
static bool read_call_frame(struct finder *f)
{
    struct match m;
    uint32_t call = (uint32_t)f->l->call;
    if (find(f, "49 81 c6 DD", call, ENTRY, &m))
        f->l->gc64 = true;
    else if (!find(f, "41 81 c6 DD", call, ENTRY, &m))
        return false;
    TOLD(f, g2disp, m.value[0], m.at);
    if (!find(f, by_mode(f, "4c 8b 75 bb", "44 8b 75 bb"), call, ENTRY, &m))
        return false;
    TOLD(f, L_glref, m.value[0], m.at);
    if (!find(f, "48 89 65 bb", call, ENTRY, &m))
        return false;
    TOLD(f, L_cframe, m.value[0], m.at);
    TOLD(f, call_linked, (int32_t)m.end, m.at);
    if (!find(f, by_mode(f, "48 89 7c 24 bb", "89 7c 24 bb"), call, ENTRY, &m))
        return false;
    TOLD(f, frame_L, m.value[0], m.at);
    if (!find(f, by_mode(f, "48 89 6c 24 bb", "89 6c 24 bb"), call, ENTRY, &m))
        return false;
    TOLD(f, frame_pc, m.value[0], m.at);
    if (!find(f, "4c 8b 7d bb", call, ENTRY, &m) || m.value[0] != f->l->L_cframe ||
        !find(f, "4c 89 7c 24 bb", m.end, 32, &m))
        return false;
    TOLD(f, frame_prev, m.value[0], m.at);
    if (!find(f, "89 54 24 bb", call, ENTRY, &m))
        return false;
    TOLD(f, frame_nres, m.value[0], m.at);
    if (!find(f, "89 4c 24 bb", (uint32_t)f->l->pcall, ENTRY, &m))
        return false;
    TOLD(f, frame_errf, m.value[0], m.at);
    return true;
}

/* From lj_vm_call's second part: cur_L (2.0 has none), vmstate, base and top. */
static bool read_call_state(struct finder *f)
{
    struct match m, base;
    uint32_t from = (uint32_t)f->l->call;
    if (!find(f, "41 c7 86 DD ff ff ff ff", from, ENTRY, &m))
        return false;
    TOLD(f, vmstate, of_g(f, m.value[0]), m.at);
    if (!find(f, by_mode(f, "48 8b 55 bb", "8b 55 bb"), m.end, 32, &base))
        return false;
    TOLD(f, L_base, base.value[0], base.at);
    if (!find(f, by_mode(f, "48 8b 45 bb", "8b 45 bb"), base.end, 32, &base))
        return false;
    TOLD(f, L_top, base.value[0], base.at);
    if (!find(f, by_mode(f, "48 8b 69 f0", "8b 69 f8"), base.end, ENTRY, &base))
        return false;
    TOLD(f, call_dispatch, (int32_t)base.at, base.at);
    if (!find(f, by_mode(f, "48 89 5a f8", "89 5a fc"), base.end, ENTRY, &base))
        return false;
    TOLD(f, call_entered, (int32_t)base.end, base.at);
    if (find(f, by_mode(f, "49 89 ae DD", "41 89 ae DD"), from, m.at - from, &m))
        TOLD(f, cur_L, of_g(f, m.value[0]), m.at);
    return true;
}

static bool read_other_entries(struct finder *f)
{
    struct match m;
    uint32_t resume = (uint32_t)f->l->resume, cpcall = (uint32_t)f->l->cpcall;
    if (!find(f, "38 45 bb", resume, ENTRY, &m))
        return false;
    TOLD(f, L_status, m.value[0], m.at);
    if (!find(f, "4c 89 7d bb", resume, ENTRY, &m) || m.value[0] != f->l->L_cframe)
        return false;
    TOLD(f, resume_linked, (int32_t)m.end, m.at);
    if (!find(f, by_mode(f, "4c 8b 7d bb 4c 2b 7d bb", "44 8b 7d bb 44 2b 7d bb"), cpcall, ENTRY,
              &m) ||
        m.value[1] != f->l->L_top)
        return false;
    TOLD(f, L_stack, m.value[0], m.at);
    if (!find(f, "48 89 65 bb", cpcall, ENTRY, &m) || m.value[0] != f->l->L_cframe)
        return false;
    TOLD(f, cpcall_linked, (int32_t)m.end, m.at);
    if (!find(f, "ff d1", m.end, 32, &m))
        return false;
    TOLD(f, cpcall_return, (int32_t)m.end, m.at);
    return true;
}

/* ---- calls, growth, epilogues -------------------------------------------------------------- */

static bool read_functions(struct finder *f)
{
    struct match m, next;
    uint32_t entries = (uint32_t)f->l->resume;
    if (!find(f, by_mode(f, "48 8d 88 a0 00 00 00 48 3b 4d bb", "8d 88 a0 00 00 00 3b 4d bb"), 0,
              entries, &m))
        return false;
    TOLD(f, L_maxstack, m.value[0], m.at);
    if (m.at < 48 || !find(f, "4c 8b 7d bb", m.at - 48, 48, &next))
        return false;
    TOLD(f, func_c, next.value[0], next.at);
    if (!find(f, "41 ff d7", m.end, 48, &next))
        return false;
    TOLD(f, funcc_return, (int32_t)next.end, next.at);
    if (find(f, "41 ff 96 DD", next.end, 0x100, &next))
        TOLD(f, funccw_return, (int32_t)next.end, next.at);
    /* The code that grows the stack for a Lua function reads framesize, relative to the instruction
     * behind the header. */
    if (!find(f, by_mode(f, "0f b6 4b bb 48 83 c3 04 48 89 55", "0f b6 4b bb 83 c3 04 89 55"), 0,
              f->size, &m))
        return false;
    int32_t size = f->l->gc64 ? 0x68 : 0x40;
    TOLD(f, proto_framesize, m.value[0] + 4 + size, m.at);
    return true;
}

static bool read_epilogues(struct finder *f)
{
    struct match m;
    if (!find(f, "48 83 c4 bb 41 5e 41 5f 5b 5d c3", 0, f->size, &m) ||
        m.value[0] + 5 * 8 != f->l->frame_size)
        return false;
    TOLD(f, leave, (int32_t)m.at, m.at);
    if (find(f, "48 83 c4 bb 41 5e 41 5f 5b 5d e9", 0, f->size, &m) &&
        m.value[0] + 5 * 8 == f->l->frame_size)
        TOLD(f, rethrow, (int32_t)m.at, m.at);
    return true;
}

/* The return to C: the code subtracts the distance from the base, and stores the result in
 * L->base. */
static bool read_return(struct finder *f)
{
    struct match m, next;
    if (!find(f, by_mode(f, "48 83 e3 f8 48 29 d3 48 f7 db", "83 e3 f8 29 d3 f7 db"), 0, f->size,
              &m))
        return false;
    TOLD(f, return_c, (int32_t)m.at, m.at);
    TOLD(f, return_c_base, (int32_t)m.end, m.at);
    if (!find(f, by_mode(f, "48 89 5d bb", "89 5d bb"), m.end, 0x40, &next) ||
        next.value[0] != f->l->L_base)
        return false;
    TOLD(f, return_c_stored, (int32_t)next.end, next.at);
    if (!find(f, "89 f0 48 89 fc", (uint32_t)f->l->leave, 0x80, &next))
        return false;
    TOLD(f, return_c_end, (int32_t)next.at, next.at);
    return true;
}

/* The collector's totals: a fast function tests them before it allocates. */
static void read_globals(struct finder *f)
{
    struct match m;
    if (find(f, by_mode(f, "49 8b ae DD 49 3b ae DD 72 05 e8", "41 8b ae DD 41 3b ae DD 72 05 e8"),
             0, f->size, &m)) {
        TOLD(f, gc_total, of_g(f, m.value[0]), m.at);
        TOLD(f, gc_root, f->l->gc_total + (f->l->gc64 ? 0x18 : 0x10), m.at);
    }
    if (find(f, "41 0f b6 86 DD a8", 0, f->size, &m))
        TOLD(f, hookmask, of_g(f, m.value[0]), m.at);
    /* The # operator and string functions load a string's length as a number. */
    if (find(f, by_mode(f, "f2 0f 2a 45 bb", "f2 0f 2a 40 bb"), 0, f->size, &m) ||
        find(f, by_mode(f, "f2 0f 2a 40 bb", "f2 0f 2a 45 bb"), 0, f->size, &m))
        TOLD(f, str_len, m.value[0], m.at);
}

/* ---- traces -------------------------------------------------------------------------------- */

static bool read_trace_entry(struct finder *f)
{
    struct match m, next;
    if (!find(f,
              by_mode(f, "49 8b 8e DD 48 8b 04 c1 48 8b 40 bb", "41 8b 8e DD 8b 04 81 48 8b 40 bb"),
              0, f->size, &m))
        return true; /* built without the JIT compiler */
    TOLD(f, trace, of_g(f, m.value[0]), m.at);
    TOLD(f, trace_mcode, m.value[1], m.at);
    if (!find(f, by_mode(f, "49 89 96 DD", "41 89 96 DD"), m.end, 32, &next))
        return false;
    TOLD(f, jit_base, of_g(f, next.value[0]), next.at);
    if (f->l->cur_L == LUAJIT_UNKNOWN && find(f, "41 89 ae DD", next.end, 16, &next))
        TOLD(f, jit_L, of_g(f, next.value[0]), next.at);
    if (!find(f, "48 83 ec 10", m.end, 64, &next))
        return false;
    TOLD(f, jloop_sub, (int32_t)next.end, next.at);
    if (!find(f, "ff e0", next.end, 16, &next))
        return false;
    TOLD(f, jloop_end, (int32_t)next.end, next.at);
    return true;
}

static bool read_exit_handler(struct finder *f)
{
    struct match m, next;
    if (!find(f, "41 55 41 54 41 53 41 52 41 51 41 50 57 56 55 48 8d 6c 24 58", 0, f->size, &m))
        return f->l->trace == LUAJIT_UNKNOWN;
    TOLD(f, exit_handler, (int32_t)m.at, m.at);
    if (!find(f, "48 81 ec 80 00 00 00", m.end, 0x60, &next))
        return false;
    TOLD(f, exit_sub, (int32_t)next.end, next.at);
    if (!find(f, "41 89 86 DD 41 89 8e DD", m.end, 0x60, &m))
        return false;
    TOLD(f, exitno, of_g(f, m.value[0]), m.at);
    TOLD(f, parent, of_g(f, m.value[1]), m.at);
    if (!find(f,
              by_mode(f, "49 8b ae DD 49 8b 96 DD 49 89 ae DD",
                      "41 8b ae DD 41 8b 96 DD 49 89 ae DD"),
              next.end, 0x80, &m) ||
        of_g(f, m.value[1]) != f->l->jit_base)
        return false;
    int32_t running = f->l->cur_L != LUAJIT_UNKNOWN ? f->l->cur_L : f->l->jit_L;
    if (of_g(f, m.value[0]) != running)
        return false;
    TOLD(f, J_L, of_g(f, m.value[2]), m.at);
    if (!find(f, by_mode(f, "49 8d be DD", "41 8d be DD"), m.end, 0x30, &next))
        return false;
    TOLD(f, J, of_g(f, next.value[0]), next.at);
    /* The call of lj_trace_exit, and the code that takes the return value. */
    if (!find(f, "e8 ?? ?? ?? ?? 48 8b 4d bb 48 83 e1 fc", m.end, 0x40, &next) ||
        next.value[0] != f->l->L_cframe)
        return false;
    TOLD(f, exit_return, (int32_t)next.at + 5, next.at);
    return true;
}

static bool read_exit_interp(struct finder *f)
{
    struct match m;
    if (f->l->exit_return == LUAJIT_UNKNOWN)
        return true;
    uint32_t from = (uint32_t)f->l->exit_return;
    if (f->l->gc64 ? !find(f, "48 8d 4c 24 10", from, 0x30, &m)
                   : !find(f, "48 83 c4 10", from, 0x30, &m))
        return false;
    TOLD(f, exit_interp, (int32_t)m.at, m.at);
    if (f->l->gc64 && !find(f, "48 89 cc", m.end, 16, &m))
        return false;
    TOLD(f, exit_settled, (int32_t)m.end, m.at);
    if (!find(f, by_mode(f, "4d 8b 7f bb 4d 8b 7f bb", "45 8b 7f bb 45 8b 7f bb"), m.end, 0x40, &m))
        return false;
    TOLD(f, func_pc, m.value[0], m.at);
    TOLD(f, proto_k, (f->l->gc64 ? 0x20 : 0x10), m.at);
    TOLD(f, proto_size, f->l->proto_k - m.value[1], m.at);
    if (!find(f, "83 fd bb 72 ?? 83 fd bb 73", m.end, 0x60, &m) &&
        !find(f, "83 fd bb 72", m.end, 0x60, &m))
        return false;
    TOLD(f, op_funcf, m.value[0], m.at);
    return true;
}

/* ---- callbacks, leaf helpers --------------------------------------------------------------- */

static void read_helpers(struct finder *f)
{
    struct match m, next;
    uint32_t from = f->l->exit_handler > 0 ? (uint32_t)f->l->exit_handler : 0;
    if (find(f, "48 b8 ff ff ff ff ff ff ff 7f 66 48 0f 6e d0", from, f->size, &m))
        TOLD(f, leaf_start, (int32_t)m.at, m.at);
    for (; find(f, "53 41 57 41 56 48 83 ec bb", from, f->size, &m); from = m.end) {
        if (m.at && f->blob[m.at - 1] == 0x55)
            continue;
        if (!find(f, by_mode(f, "4c 8d b5 DD", "44 8d b5 DD"), m.end, 8, &next) ||
            next.value[0] != f->l->g2disp)
            continue;
        TOLD(f, callback, (int32_t)m.at, m.at);
        if (find(f, by_mode(f, "48 8b 9d DD", "8b 9d DD"), next.end, 8, &next))
            TOLD(f, ctype_state, next.value[0], next.at);
        if (find(f, "e8 ?? ?? ?? ?? 41 c7 86", next.end, 0x100, &next) ||
            find(f, "e8 ?? ?? ?? ??", next.end, 0x100, &next))
            TOLD(f, callback_return, (int32_t)next.at + 5, next.at);
        if (find(f, "e8 ?? ?? ?? ??", next.end, 0x100, &next))
            TOLD(f, callback_leave_return, (int32_t)next.at + 5, next.at);
        return;
    }
}

/* lj_vm_ffi_call ends with pop rbx (or a load of it), leave, ret. */
static void read_ffi_call(const struct luajit_image *image, struct luajit_layout *l)
{
    const uint8_t *code = NULL;
    if (l->ffi_call && l->ffi_call_size <= FFI_CALL_MAX)
        code = image->bytes(image->context, l->ffi_call, l->ffi_call_size);
    for (uint64_t i = 1; code && i < l->ffi_call_size; i++) {
        if (code[i - 1] == 0xc9 && code[i] == 0xc3)
            l->ffi_call_ret = l->ffi_call + i;
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

static const struct luajit_code_step steps[] = {
    {find_entries, "the entries"},
    {read_call_frame, "lj_vm_call's C frame"},
    {read_call_state, "lj_vm_call's state"},
    {read_other_entries, "lj_vm_resume and cpcall"},
    {read_functions, "function headers"},
    {read_epilogues, "the epilogue"},
    {read_return, "vm_return"},
    {read_trace_entry, "BC_JLOOP"},
    {read_exit_handler, "lj_vm_exit_handler"},
    {read_exit_interp, "lj_vm_exit_interp"},
};

static void read_others(struct finder *f, const struct luajit_image *image)
{
    read_globals(f);
    read_helpers(f);
    read_ffi_call(image, f->l);
}

const struct luajit_code luajit_code_x86_64 = {.arch = &arch_x86_64,
                                               .machine = LUAJIT_ON_X86_64,
                                               .is_blob = is_blob,
                                               .is_ffi_call = is_ffi_call,
                                               .steps = steps,
                                               .nr_steps = sizeof(steps) / sizeof(*steps),
                                               .read_others = read_others};
