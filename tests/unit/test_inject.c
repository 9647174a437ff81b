/* SPDX-License-Identifier: GPL-2.0-only */
/* Samples rewritten with callchains and read back; ELF images, read back by elfutils. */
#include "base/cursor.h"
#include "dso/elf_write.h"
#include "output/inject_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <string.h>

/* ---- samples ------------------------------------------------------------------------------ */

static const uint64_t chain[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000000,
                                 (uint64_t)PERF_CONTEXT_USER, 0x401000, 0x402000};
enum { NR_CHAIN = sizeof(chain) / sizeof(*chain) };

static struct sample sample_of(const struct perfdata_event *e, const uint8_t *bytes)
{
    return (struct sample){
        .present = e->attr.sample_type,
        .event = e,
        .misc = PERF_RECORD_MISC_USER,
        .id = 11,
        .ip = 0x401000,
        .time = 13,
        .addr = 14,
        .stream_id = 15,
        .period = 16,
        .phys_addr = 17,
        .cgroup = 18,
        .data_src = 19,
        .transaction = 20,
        .data_page_size = 21,
        .code_page_size = 22,
        .weight = 23,
        .pid = 24,
        .tid = 25,
        .cpu = 26,
        .raw = bytes,
        .raw_size = 12,
        .branches = bytes,
        .nr_branches = 2,
        .intr_abi = 2,
        .intr_regs = bytes,
        .intr_mask = e->attr.sample_regs_intr,
    };
}

static void assert_kept(const struct sample *was, const struct sample *is)
{
    uint64_t type = is->present;
#define KEPT(bit, field)                         \
    if (type & PERF_SAMPLE_##bit) {              \
        assert_int_equal(was->field, is->field); \
    }
    KEPT(IDENTIFIER, id) KEPT(ID, id) KEPT(IP, ip) KEPT(TID, pid) KEPT(TID, tid) KEPT(TIME, time);
    KEPT(ADDR, addr) KEPT(STREAM_ID, stream_id) KEPT(CPU, cpu) KEPT(PERIOD, period);
    KEPT(WEIGHT, weight) KEPT(DATA_SRC, data_src) KEPT(TRANSACTION, transaction);
    KEPT(PHYS_ADDR, phys_addr) KEPT(CGROUP, cgroup) KEPT(DATA_PAGE_SIZE, data_page_size);
    KEPT(CODE_PAGE_SIZE, code_page_size) KEPT(RAW, raw_size) KEPT(BRANCH_STACK, nr_branches);
#undef KEPT
    if (type & PERF_SAMPLE_RAW)
        assert_memory_equal(was->raw, is->raw, was->raw_size);
    if (type & PERF_SAMPLE_BRANCH_STACK)
        assert_memory_equal(was->branches, is->branches, 24 * was->nr_branches);
    if (type & PERF_SAMPLE_REGS_INTR)
        assert_memory_equal(was->intr_regs, is->intr_regs, 3 * 8);
}

/* Any fields in any order that perf records: reading gives what was written. */
static void test_fields(void **state)
{
    uint8_t bytes[64];
    (void)state;
    srand(1);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(3 * i + 1);
    for (int i = 0; i < 5000; i++) {
        struct perfdata_event e = {.name = "e", .attr = {.sample_regs_intr = 0x103}}, now = e;
        e.attr.sample_type = (((uint64_t)rand() << 12) ^ (uint64_t)rand()) & ((1 << 25) - 1);
        e.attr.sample_type &= ~(uint64_t)(PERF_SAMPLE_WEIGHT_STRUCT);
        e.attr.branch_sample_type = (uint64_t)1 << 17 | 1;
        struct sample was = sample_of(&e, bytes), is;
        struct text t = {0};
        size_t chain_at, ip_at;
        size_t nr = inject_put_sample(&t, &was, chain, NR_CHAIN, &chain_at, &ip_at);
        now.attr = inject_attr(&e.attr);
        assert_int_equal(perfdata_sample_parse(&now, t.at, t.size, &is, &(struct error){0}), 0);
        assert_int_equal(load_u16(t.at + 6, false), t.size);
        assert_kept(&was, &is);
        bool has = e.attr.sample_type & (PERF_SAMPLE_STACK_USER | PERF_SAMPLE_CALLCHAIN);
        assert_int_equal(nr, has ? NR_CHAIN : 0);
        assert_int_equal(is.nr_callchain, nr);
        for (size_t k = 0; k < nr; k++)
            assert_int_equal(load_u64(t.at + chain_at + 8 * k, false), chain[k]);
        if (e.attr.sample_type & PERF_SAMPLE_IP)
            assert_int_equal(load_u64(t.at + ip_at, false), was.ip);
        text_free(&t);
    }
}

/* A record's size has 16 bits. */
static void test_deep(void **state)
{
    enum { DEEP = 20000 };
    uint64_t *deep = calloc(DEEP, sizeof(*deep));
    struct perfdata_event e = {.name = "e",
                               .attr.sample_type =
                                   PERF_SAMPLE_IP | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_DATA_SRC},
                          now = e;
    struct sample was = sample_of(&e, NULL), is;
    struct text t = {0};
    size_t chain_at, ip_at;
    (void)state;
    for (size_t i = 0; i < DEEP; i++)
        deep[i] = i;
    size_t nr = inject_put_sample(&t, &was, deep, DEEP, &chain_at, &ip_at);
    now.attr = inject_attr(&e.attr);
    assert_in_range(nr, 8000, 8191);
    assert_int_equal(perfdata_sample_parse(&now, t.at, t.size, &is, &(struct error){0}), 0);
    assert_int_equal(is.nr_callchain, nr);
    assert_int_equal(sample_callchain_at(&is, nr - 1), nr - 1);
    assert_int_equal(is.data_src, was.data_src);
    text_free(&t);
    free(deep);
}

/* ---- images ------------------------------------------------------------------------------- */

static const char *const files[] = {"/src/a.lua", "b.lua"};
static const struct elf_write_function functions[] = {
    {"first /src/a.lua:2", 1, 2, 3}, {"builtin", 0, 0, 1}, {"second b.lua:70000", 2, 70000, 2}};
static const struct elf_write_slot slots[] = {{0, 0}, {1, 3}, {1, 5}, {0, 0}, {2, 70001}, {1, 1}};
static const struct elf_write image = {"lua", "/folder", files, 2,        functions,
                                       3,     slots,     6,     EM_X86_64};

static void test_symbols(void **state)
{
    struct text t = {0};
    struct build_id id;
    (void)state;
    elf_version(EV_CURRENT);
    elf_write(&t, &image, &id);
    assert_false(t.failed);
    Elf *e = elf_memory(t.at, t.size);
    assert_non_null(e);
    size_t slot = 0, nr = 0;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(e, s));) {
        GElf_Shdr h;
        assert_non_null(gelf_getshdr(s, &h));
        if (h.sh_type != SHT_SYMTAB)
            continue;
        for (size_t i = 1; i < h.sh_size / h.sh_entsize; i++, nr++) {
            GElf_Sym y;
            assert_non_null(gelf_getsym(elf_getdata(s, NULL), (int)i, &y));
            assert_string_equal(elf_strptr(e, h.sh_link, y.st_name), functions[nr].name);
            assert_int_equal(y.st_value, elf_write_address(slot));
            assert_int_equal(y.st_size, ELF_WRITE_SLOT * functions[nr].nr_slots);
            slot += functions[nr].nr_slots;
        }
    }
    assert_int_equal(nr, 3);
    elf_end(e);
    text_free(&t);
}

/* Expects FILE:LINE at a slot when elfutils reads the tables; line 0: none. */
static void assert_line(Dwarf_Die *unit, size_t slot, const char *file, int line)
{
    Dwarf_Line *l = dwarf_getsrc_die(unit, elf_write_address(slot) + 1);
    int got = 0;
    if (l)
        assert_int_equal(dwarf_lineno(l, &got), 0);
    assert_int_equal(got, line);
    if (line)
        assert_string_equal(dwarf_linesrc(l, NULL, NULL), file);
}

static void test_lines(void **state)
{
    struct text t = {0};
    struct build_id id;
    Dwarf_Off next;
    size_t header;
    Dwarf_Die unit, function;
    (void)state;
    elf_version(EV_CURRENT);
    elf_write(&t, &image, &id);
    Elf *e = elf_memory(t.at, t.size);
    Dwarf *d = dwarf_begin_elf(e, DWARF_C_READ, NULL);
    assert_non_null(d);
    assert_int_equal(dwarf_nextcu(d, 0, &next, &header, NULL, NULL, NULL), 0);
    assert_non_null(dwarf_offdie(d, header, &unit));
    assert_line(&unit, 0, NULL, 0);
    assert_line(&unit, 1, "/src/a.lua", 3);
    assert_line(&unit, 2, "/src/a.lua", 5);
    assert_line(&unit, 3, NULL, 0);
    assert_line(&unit, 4, "/folder/b.lua", 70001);
    assert_line(&unit, 5, "/src/a.lua", 1);
    assert_int_equal(dwarf_child(&unit, &function), 0);
    for (int i = 0; i < 3; i++) {
        int line = 0;
        assert_string_equal(dwarf_diename(&function), functions[i].name);
        if (functions[i].line)
            assert_int_equal(dwarf_decl_line(&function, &line), 0);
        assert_int_equal(line, functions[i].line);
        assert_int_equal(dwarf_siblingof(&function, &function), i == 2);
    }
    dwarf_end(d);
    elf_end(e);
    text_free(&t);
}

/* Other functions give another build id; the same functions give the same id. */
static void test_build_id(void **state)
{
    struct elf_write_slot other[6];
    struct elf_write changed = image;
    struct build_id ids[3];
    (void)state;
    memcpy(other, slots, sizeof(other));
    other[1].line++;
    changed.slots = other;
    for (int i = 0; i < 3; i++) {
        struct text t = {0};
        elf_write(&t, i == 2 ? &changed : &image, &ids[i]);
        text_free(&t);
    }
    assert_memory_equal(ids[0].bytes, ids[1].bytes, BUILD_ID_MAX);
    assert_memory_not_equal(ids[0].bytes, ids[2].bytes, BUILD_ID_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),   cmocka_unit_test(test_deep),
        cmocka_unit_test(test_symbols),  cmocka_unit_test(test_lines),
        cmocka_unit_test(test_build_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
