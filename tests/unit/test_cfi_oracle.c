/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compares rules of real ELF files with libdw's: for every FDE at every row boundary (for large
 * files, for a part of the FDEs), and at random addresses, also outside of FDEs. It compares the
 * lowered rule where there is one, else the row. Each file is read with its .eh_frame_hdr and
 * without it.
 */
#include "unwind/arch_x86_64.h"
#include "unwind/native/expression.h"
#include "unwind/native/rule.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <unistd.h>
#include <cmocka.h>

enum { ROWS_WANTED = 100000 };

struct file {
    const char *path;
    int fd;
    Elf *elf;
    Dwarf_CFI *oracle;
    struct cfi *with_header, *without;
    uint64_t end; /* end of the addresses */
    size_t fdes, rows, skip, checked;
    uint64_t seed;
    struct rule_cache cache;
};

static struct cfi_section section(Elf *elf, const char *name)
{
    size_t names;
    Elf_Scn *scn = NULL;
    GElf_Shdr shdr;
    elf_getshdrstrndx(elf, &names);
    while ((scn = elf_nextscn(elf, scn))) {
        gelf_getshdr(scn, &shdr);
        Elf_Data *data;
        if (strcmp(elf_strptr(elf, names, shdr.sh_name), name) == 0 && shdr.sh_type != SHT_NOBITS &&
            (data = elf_rawdata(scn, NULL)))
            return (struct cfi_section){data->d_buf, data->d_size, shdr.sh_addr};
    }
    return (struct cfi_section){0};
}

static bool open_file(struct file *f, const char *path)
{
    *f = (struct file){.path = path, .fd = open(path, O_RDONLY), .seed = 88172645463325252u};
    elf_version(EV_CURRENT);
    f->elf = f->fd < 0 ? NULL : elf_begin(f->fd, ELF_C_READ, NULL);
    f->oracle = f->elf ? dwarf_getcfi_elf(f->elf) : NULL;
    if (!f->oracle)
        return false;
    struct cfi_source source = {.arch = &arch_x86_64,
                                .name = path,
                                .eh_frame = section(f->elf, ".eh_frame"),
                                .eh_frame_hdr = section(f->elf, ".eh_frame_hdr"),
                                .id = 1};
    f->end = source.eh_frame.address + source.eh_frame.size;
    assert_int_equal(cfi_create(&source, &f->with_header, NULL), 0);
    assert_non_null(f->with_header->tables[0].entries);
    source.eh_frame_hdr = (struct cfi_section){0};
    source.id = 2;
    assert_int_equal(cfi_create(&source, &f->without, NULL), 0);
    assert_non_null(f->without->tables[0].index);
    assert_true(rule_cache_init(&f->cache, NULL));
    return true;
}

static void close_file(struct file *f)
{
    cfi_free(f->with_header);
    cfi_free(f->without);
    rule_cache_destroy(&f->cache);
    if (f->oracle)
        dwarf_cfi_end(f->oracle);
    elf_end(f->elf);
    close(f->fd);
}

/* Returns whether libdw decoded the bytes that we kept. */
static bool same_expression(struct cfi_bytes bytes, const Dwarf_Op *ops, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        if (ops[i].offset >= bytes.size || bytes.at[ops[i].offset] != ops[i].atom)
            return false;
    }
    return nr > 0;
}

static bool same_cfa(const struct cfi_row *row, const struct rule *rule, Dwarf_Frame *frame)
{
    Dwarf_Op *ops;
    size_t nr;
    if (dwarf_frame_cfa(frame, &ops, &nr) != 0)
        return false;
    if (row->cfa_is_expression)
        return same_expression(row->cfa_expression, ops, nr) &&
               (rule->kind == RULE_ROW || rule->kind == RULE_PLT);
    uint64_t reg = row->cfa_register;
    int64_t offset = row->cfa_offset;
    if (rule->kind == RULE_OFFSETS || rule->kind == RULE_ENDS) {
        reg = rule->cfa_register;
        offset = rule->cfa_offset;
    }
    if (nr != 1)
        return false;
    if (ops[0].atom == DW_OP_bregx)
        return ops[0].number == reg && (int64_t)ops[0].number2 == offset;
    return ops[0].atom == DW_OP_breg0 + reg && (int64_t)ops[0].number == offset;
}

/* Returns the rule of one register, from the lowered rule where that has one. */
static struct reg_rule register_rule(const struct cfi_row *row, const struct rule *rule,
                                     unsigned reg)
{
    if (rule->kind == RULE_ROW || row->regs[reg].kind == REG_UNSPECIFIED)
        return row->regs[reg];
    if (reg == DWARF_RIP)
        return rule->kind == RULE_ENDS ? (struct reg_rule){.kind = REG_UNDEFINED}
                                       : (struct reg_rule){REG_OFFSET, -8 * rule->ra, {0}};
    for (unsigned i = 0; i < X86_64_SAVED_NR; i++) {
        if (arch_x86_64.reg.saved[i] == reg)
            return rule->saved[i] ? (struct reg_rule){REG_OFFSET, -8 * rule->saved[i], {0}}
                                  : (struct reg_rule){.kind = REG_SAME};
    }
    return (struct reg_rule){.kind = REG_UNSPECIFIED};
}

static bool same_offset(int64_t offset, const Dwarf_Op *ops, size_t nr)
{
    if (nr == 0 || ops[0].atom != DW_OP_call_frame_cfa)
        return false;
    return nr > 1 ? ops[1].atom == DW_OP_plus_uconst && (int64_t)ops[1].number == offset
                  : offset == 0;
}

/* Returns whether the slot is below rsp. Then rule.c has replaced its rule, because the register
 * was restored already. */
static bool below_stack(const struct cfi_row *row, const Dwarf_Op *ops, size_t nr)
{
    return !row->cfa_is_expression && row->cfa_register == DWARF_RSP && nr == 2 &&
           ops[1].atom == DW_OP_plus_uconst && -(int64_t)ops[1].number > row->cfa_offset;
}

static bool same_register(const struct cfi_row *row, struct reg_rule rule, unsigned reg,
                          Dwarf_Frame *frame)
{
    Dwarf_Op mem[3], *ops;
    size_t nr;
    if (dwarf_frame_register(frame, (int)reg, mem, &ops, &nr) != 0)
        return false;
    bool same = nr == 0 && ops == NULL, undefined = nr == 0 && ops == mem;
    bool is_value = nr > 0 && ops[nr - 1].atom == DW_OP_stack_value;
    bool popped = row->regs[reg].kind == REG_SAME && below_stack(row, ops, nr);
    switch (rule.kind) {
    case REG_UNSPECIFIED: /* libdw has its own defaults; ours are the ABI's */
        return same || undefined || (reg == DWARF_RSP && is_value && same_offset(0, ops, nr - 1));
    case REG_UNDEFINED:
        return undefined;
    case REG_SAME:
        return same || popped;
    case REG_OFFSET:
        return !is_value && same_offset(rule.offset, ops, nr);
    case REG_VAL_OFFSET:
        return is_value && same_offset(rule.offset, ops, nr - 1);
    case REG_REGISTER:
        return nr == 1 && (ops[0].atom == DW_OP_regx ? (int64_t)ops[0].number == rule.offset
                                                     : ops[0].atom == DW_OP_reg0 + rule.offset);
    case REG_EXPRESSION:
        return !is_value && nr > 1 && ops[0].atom == DW_OP_call_frame_cfa &&
               same_expression(rule.expression, ops + 1, nr - 1);
    case REG_VAL_EXPRESSION:
        return is_value && nr > 2 && same_expression(rule.expression, ops + 1, nr - 2);
    }
    return false;
}

/* A rule kept from whole FDEs must equal the rule from running the program up to the address. */
static void check_kept(struct file *f, const struct cfi *cfi, uint64_t address,
                       const struct rule *rule)
{
    uint64_t hash = rule_key_hash(cfi->id, address - cfi->low);
    const struct rule *kept = rule_miss(&f->cache, cfi, address, hash);
    assert_non_null(kept);
    if (kept->kind != rule->kind ||
        (rule->kind != RULE_ROW && memcmp(kept, rule, sizeof(*rule)) != 0))
        fail_msg("%s: 0x%lx: the kept rule differs", f->path, address);
}

static void check_address(struct file *f, const struct cfi *cfi, uint64_t address)
{
    struct cfi_row row;
    Dwarf_Frame *frame = NULL;
    bool found = rule_row(cfi, address, &row);
    bool wanted = dwarf_cfi_addrframe(f->oracle, address, &frame) == 0;
    Dwarf_Addr start, end;
    bool signal;
    f->checked++;
    if (wanted && dwarf_frame_info(frame, &start, &end, &signal) == 16 &&
        (address < start || address >= end))
        wanted = false; /* in a gap, libdw gives the FDE below the address */
    if (found != wanted)
        fail_msg("%s: 0x%lx: found %d, libdw %d", f->path, address, found, wanted);
    if (!found) {
        free(frame);
        return;
    }
    struct rule rule = rule_lower(&row);
    if (address >= cfi->low)
        check_kept(f, cfi, address, &rule);
    if (rule.kind != RULE_NONE) {
        if (!same_cfa(&row, &rule, frame) || row.signal_frame != signal)
            fail_msg("%s: 0x%lx: CFA or signal flag differs", f->path, address);
        for (unsigned reg = 0; reg < DWARF_NR; reg++) {
            if (!same_register(&row, register_rule(&row, &rule, reg), reg, frame))
                fail_msg("%s: 0x%lx: register %u differs", f->path, address, reg);
        }
    }
    free(frame);
}

static bool count_fde(void *context, const struct fde *fde, uint64_t offset)
{
    (void)fde, (void)offset;
    struct file *f = context;
    f->fdes++;
    return true;
}

static bool check_fde(void *context, const struct fde *fde, uint64_t offset)
{
    struct file *f = context;
    (void)offset;
    if (f->skip > 0 && f->rows++ % f->skip != 0)
        return true;
    uint64_t end = fde->begin + fde->size;
    for (uint64_t at = fde->begin; at < end;) {
        check_address(f, f->with_header, at);
        at = cfi_next_row(f->with_header, &f->with_header->tables[0], fde, at);
        check_address(f, f->without, at - 1);
    }
    return true;
}

static void check_random(struct file *f)
{
    for (int i = 0; i < 5000; i++) {
        f->seed ^= f->seed << 13, f->seed ^= f->seed >> 7, f->seed ^= f->seed << 17;
        check_address(f, i & 1 ? f->with_header : f->without, f->seed % f->end);
    }
}

static void check_file(const char *path)
{
    struct file f;
    if (!open_file(&f, path)) {
        print_message("%s: not here\n", path);
        close(f.fd);
        return;
    }
    cfi_walk(f.without, &f.without->tables[0], count_fde, &f);
    f.skip = f.fdes / (ROWS_WANTED / 10);
    cfi_walk(f.without, &f.without->tables[0], check_fde, &f);
    check_random(&f);
    print_message("%s: %zu FDEs, %zu addresses compared\n", path, f.fdes, f.checked);
    assert_true(f.checked > 5000);
    close_file(&f);
}

static const char *loaded_path(const void *in)
{
    Dl_info info;
    assert_true(dladdr(in, &info));
    return info.dli_fname;
}

static void libc(void **state)
{
    (void)state;
    check_file(loaded_path((const void *)&qsort));
}

static void libdw(void **state)
{
    (void)state;
    check_file(loaded_path((const void *)&dwarf_cfi_end));
}

static void this_program(void **state)
{
    (void)state;
    check_file("/proc/self/exe");
}

static void others(void **state)
{
    (void)state;
    const char *const paths[] = {
        "/lib64/ld-linux-x86-64.so.2",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2",
        "/usr/bin/perf",
        "/usr/bin/node",
        "/usr/bin/luajit",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        check_file(paths[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libc),
        cmocka_unit_test(libdw),
        cmocka_unit_test(this_program),
        cmocka_unit_test(others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
