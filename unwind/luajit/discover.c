/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the blob, has its machine's reader read values from its instructions, and adds those that
 * follow from them. */
#include "unwind/luajit/discover_internal.h"

#include "unwind/native/cfi.h"

#include <string.h>

enum { BLOB_MIN = 8192, BLOB_MAX = LUAJIT_BLOB_MAX };

/* ---- the blob ------------------------------------------------------------------------------ */

struct blob_search {
    const struct luajit_code *code;
    uint64_t start, size, ffi_call, ffi_call_size;
};

static bool note_fde(void *context, const struct fde *fde, uint64_t offset)
{
    struct blob_search *s = context;
    (void)offset;
    if (fde->size <= BLOB_MAX && s->code->is_blob(&fde->program)) {
        s->start = fde->begin;
        s->size = fde->size;
    }
    return s->size == 0;
}

/* lj_vm_ffi_call's FDE stands behind the blob's, if this LuaJIT has an FFI. */
static void find_ffi_call(const struct cfi *cfi, const struct cfi_table *table,
                          struct blob_search *s)
{
    uint64_t offset, begin = s->start + s->size;
    struct fde fde;
    if (!cfi_fde_at(cfi, table, begin, &offset) || !cfi_read_fde(cfi, table, offset, &fde, NULL) ||
        fde.begin != begin || !s->code->is_ffi_call(&fde.program))
        return;
    s->ffi_call = fde.begin;
    s->ffi_call_size = fde.size;
}

/* Few functions are as large as the blob: some dozens in a large image with megabytes of CFI. */
static bool find_blob(const struct cfi *cfi, const struct luajit_code *code,
                      struct blob_search *ret)
{
    *ret = (struct blob_search){.code = code};
    for (unsigned i = 0; cfi && i < cfi->nr_tables && ret->size == 0; i++) {
        cfi_walk_large(cfi, &cfi->tables[i], BLOB_MIN, note_fde, ret);
        if (ret->size)
            find_ffi_call(cfi, &cfi->tables[i], ret);
    }
    return ret->size != 0;
}

/* ---- what follows from the mode ------------------------------------------------------------ */

static void by_gc64(struct luajit_layout *l)
{
    l->L_gct = l->gct = 9;
    l->L_stacksize = 0x58, l->L_used = 0x60;
    l->ref_size = 8, l->frame_slots = 2;
    l->func_ffid = 0xa, l->func_nupvalues = 0xb, l->func_upvalues = 0x28;
    l->proto_numparams = 0xa, l->proto_sizebc = 0xc;
    l->proto_sizekgc = 0x30, l->proto_sizekn = 0x34, l->proto_sizept = 0x38;
    l->proto_sizeuv = 0x3c, l->proto_flags = 0x3d, l->proto_trace = 0x3e;
    l->proto_chunkname = 0x40, l->proto_firstline = 0x48, l->proto_numline = 0x4c;
    l->proto_lineinfo = 0x50, l->proto_uvinfo = 0x58, l->proto_varinfo = 0x60;
    l->str_size = 0x18;
    l->upval_v = 0x20, l->tab_array = 0x10, l->tab_asize = 0x30;
    l->tab_node = 0x28, l->tab_hmask = 0x34;
    l->trace_size = 0x78, l->trace_nins = 0xc, l->trace_ir = 0x20, l->trace_nk = 0x28;
    l->trace_snap = 0x30, l->trace_snapmap = 0x38, l->trace_startpt = 0x40;
    l->trace_startpc = 0x48, l->trace_startins = 0x50, l->trace_szmcode = 0x54;
    l->trace_mcloop = 0x60, l->trace_spadjust = 0x66, l->trace_traceno = 0x68;
    l->trace_link = 0x6a, l->trace_root = 0x6c;
}

static void by_gc32(struct luajit_layout *l)
{
    l->L_gct = l->gct = 5;
    l->L_stacksize = 0x38, l->L_used = 0x40;
    l->ref_size = 4, l->frame_slots = 1;
    l->func_ffid = 6, l->func_nupvalues = 7, l->func_upvalues = 0x14;
    l->proto_numparams = 6, l->proto_sizebc = 8;
    l->proto_sizekgc = 0x18, l->proto_sizekn = 0x1c, l->proto_sizept = 0x20;
    l->proto_sizeuv = 0x24, l->proto_flags = 0x25, l->proto_trace = 0x26;
    l->proto_chunkname = 0x28, l->proto_firstline = 0x2c, l->proto_numline = 0x30;
    l->proto_lineinfo = 0x34, l->proto_uvinfo = 0x38, l->proto_varinfo = 0x3c;
    l->str_size = l->str_len == 0xc ? 0x10 : 0x14;
    l->upval_v = 0x10, l->tab_array = 8, l->tab_asize = 0x18;
    l->tab_node = 0x14, l->tab_hmask = 0x1c;
    l->trace_size = 0x60, l->trace_nins = 8, l->trace_ir = 0x10, l->trace_nk = 0x18;
    l->trace_snap = 0x20, l->trace_snapmap = 0x28, l->trace_startpt = 0x30;
    l->trace_startpc = 0x34, l->trace_startins = 0x38, l->trace_szmcode = 0x3c;
    l->trace_mcloop = 0x48, l->trace_spadjust = 0x4e, l->trace_traceno = 0x50;
    l->trace_link = 0x52, l->trace_root = 0x54;
}

/* Values at a fixed distance from others in every version. */
static void derive(struct luajit_layout *l)
{
    int32_t running = l->cur_L != LUAJIT_UNKNOWN ? l->cur_L : l->jit_L;
    if (running != LUAJIT_UNKNOWN) {
        l->bc_cfunc_int = running - 8;
        l->bc_cfunc_ext = running - 4;
    }
    if (l->trace != LUAJIT_UNKNOWN) {
        bool is_20 = l->cur_L == LUAJIT_UNKNOWN;
        l->sizetrace = l->trace + 0xc;
        if (l->machine == LUAJIT_ON_X86_64) /* others have exits in each trace */
            l->exitstubgroup = l->trace + (l->gc64 ? 0x520 : is_20 ? 0x500 : 0x518);
    }
    if (l->func_pc == LUAJIT_UNKNOWN) { /* no JIT compiler: no instruction told the values */
        l->func_pc = l->gc64 ? 0x20 : 0x10;
        l->proto_k = l->func_pc;
        l->proto_size = l->gc64 ? 0x68 : 0x40;
    }
    if (l->gc64)
        by_gc64(l);
    else
        by_gc32(l);
}

/* Is a word within the first `size` bytes? Some extracted values are signed bytes. */
static bool is_word_of(int32_t offset, int32_t size)
{
    return offset == LUAJIT_UNKNOWN || (offset >= 0 && offset <= size - 8);
}

/* Values that the mode fixes must equal the extracted ones. */
static bool is_consistent(const struct luajit_layout *l)
{
    bool state = l->gc64 ? l->L_glref == 0x10 && l->L_base == 0x20 && l->L_stack == 0x38 &&
                               l->L_cframe == 0x50 && l->L_status == 0xb
                         : l->L_glref == 8 && l->L_base == 0x10 && l->L_stack == 0x24 &&
                               l->L_cframe == 0x30 && l->L_status == 7;
    bool objects = l->func_pc == (l->gc64 ? 0x20 : 0x10) && l->func_c == l->func_pc + 8 &&
                   l->proto_size == (l->gc64 ? 0x68 : 0x40) && l->proto_framesize == l->L_status;
    bool words = is_word_of(l->L_top, l->L_used) && is_word_of(l->L_maxstack, l->L_used) &&
                 is_word_of(l->trace_mcode, l->trace_size);
    return state && objects && words && l->g2disp > 0 && l->g2disp < 1 << 16;
}

/* ---- all of it ----------------------------------------------------------------------------- */

int luajit_discover(const struct luajit_image *image, struct luajit_layout *ret, struct error *err)
{
    static const struct luajit_code *const codes[] = {&luajit_code_x86_64, &luajit_code_aarch64};
    const struct luajit_code *code = NULL;
    struct blob_search s;
    memset(ret, 0, sizeof(*ret));
#define X(name, text) ret->name = LUAJIT_UNKNOWN;
    LUAJIT_FIELDS(X)
#undef X
    for (size_t i = 0; image->cfi && i < sizeof(codes) / sizeof(*codes); i++)
        code = image->cfi->arch == codes[i]->arch ? codes[i] : code;
    if (!code || !find_blob(image->cfi, code, &s))
        return 0;
    ret->machine = code->machine;
    ret->blob = s.start;
    ret->blob_size = s.size;
    ret->ffi_call = s.ffi_call;
    ret->ffi_call_size = s.ffi_call_size;
    struct finder f = {image->bytes(image->context, s.start, s.size), (uint32_t)s.size, ret};
    if (!f.blob)
        return error_set(err, ERROR_FORMAT, "%s: the file does not hold LuaJIT's interpreter",
                         image->name);
    for (size_t i = 0; i < code->nr_steps; i++) {
        if (!code->steps[i].read(&f))
            return error_set(
                err, ERROR_UNSUPPORTED,
                "%s: this LuaJIT is unknown: its code of %s is not as in the known builds "
                "(interpreter at 0x%llx)",
                image->name, code->steps[i].what, (unsigned long long)s.start);
    }
    code->read_others(&f, image);
    derive(ret);
    if (!is_consistent(ret) || !luajit_layout_opcodes(ret))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: this LuaJIT is unknown: its values contradict each other",
                         image->name);
    return 1;
}
