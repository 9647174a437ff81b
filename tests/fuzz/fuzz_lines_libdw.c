/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our reader of line programs (DWARF 2 to 5) against elfutils' (libdw): the input chooses the
 * instructions of a valid program, whose addresses ascend. At some addresses both readers say line,
 * column and file, and must agree.
 */
#include "base/hash.h"
#include "dso/elf_image.h"
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "small_elf.h"

enum { TEXT = 0x100000, LOW = 0x1000, FILES = 3, ADDRESSES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shape {
    unsigned version, min_length, max_ops, line_range, opcode_base;
    int line_base;
};

static struct shape choose_shape(struct small_choices *c)
{
    uint8_t a = small_choice(c), b = small_choice(c);
    struct shape s = {.version = 2 + a % 4,
                      .min_length = 1 + (a >> 2) % 4,
                      .max_ops = 1,
                      .line_range = 1 + (a >> 4) % 15,
                      .opcode_base = b & 1 ? 13 : 10,
                      .line_base = -(b >> 1) % 8};
    if (s.version >= 4 && b & 0x80)
        s.max_ops = 1 + (b >> 4) % 4;
    return s;
}

static void put_tables(struct small_bytes *b, const struct shape *s)
{
    if (s->version < 5) {
        small_put(b, 'd', 2); /* a directory */
        small_put(b, 0, 1);
        for (unsigned i = 0; i < FILES; i++) {
            small_put(b, 'a' + i, 2);
            small_put(b, i % 2, 1);
            small_put(b, 0, 2);
        }
        small_put(b, 0, 1);
        return;
    }
    small_put(b, 1, 1); /* directories: a path each */
    small_uleb(b, DW_LNCT_path);
    small_uleb(b, DW_FORM_string);
    small_uleb(b, 2);
    small_put(b, 'c', 2);
    small_put(b, 'd', 2);
    small_put(b, 2, 1); /* files: a path and a directory each */
    small_uleb(b, DW_LNCT_path);
    small_uleb(b, DW_FORM_string);
    small_uleb(b, DW_LNCT_directory_index);
    small_uleb(b, DW_FORM_udata);
    small_uleb(b, FILES + 1);
    for (unsigned i = 0; i <= FILES; i++) {
        small_put(b, i ? 'a' + i - 1 : 'a', 2);
        small_uleb(b, i % 2);
    }
}

/* Follows the address and the line, so that both stay where they are valid. */
struct place {
    uint64_t address;
    unsigned op_index;
    int64_t line;
};

static void advance(const struct shape *s, struct place *p, uint64_t operations)
{
    uint64_t ops = p->op_index + operations;
    p->address += s->min_length * (ops / s->max_ops);
    p->op_index = (unsigned)(ops % s->max_ops);
}

static void put_special(struct small_bytes *b, struct small_choices *c, const struct shape *s,
                        struct place *p)
{
    unsigned opcode = s->opcode_base + small_choice(c) % (256 - s->opcode_base);
    unsigned adjusted = opcode - s->opcode_base;
    int64_t line = p->line + s->line_base + (int)(adjusted % s->line_range);
    if (line < 1)
        return;
    small_put(b, opcode, 1);
    advance(s, p, adjusted / s->line_range);
    p->line = line;
}

static void put_instruction(struct small_bytes *b, struct small_choices *c, const struct shape *s,
                            struct place *p)
{
    static const uint8_t single[] = {DW_LNS_negate_stmt, DW_LNS_set_basic_block,
                                     DW_LNS_set_prologue_end, DW_LNS_set_epilogue_begin};
    uint64_t n;
    switch (small_choice(c) % 12) {
    case 0:
        n = small_number(c);
        small_put(b, DW_LNS_advance_pc, 1);
        small_uleb(b, n);
        advance(s, p, n);
        break;
    case 1:
        n = small_number(c);
        small_put(b, DW_LNS_advance_line, 1);
        small_sleb(b, (int64_t)n - (p->line > 40 ? 40 : 0));
        p->line += (int64_t)n - (p->line > 40 ? 40 : 0);
        break;
    case 2:
        small_put(b, DW_LNS_set_file, 1);
        small_uleb(b, 1 + small_choice(c) % FILES);
        break;
    case 3:
        small_put(b, DW_LNS_set_column, 1);
        small_uleb(b, small_number(c));
        break;
    case 4:
        small_put(b, DW_LNS_const_add_pc, 1);
        advance(s, p, (255 - s->opcode_base) / s->line_range);
        break;
    case 5:
        n = small_number(c);
        small_put(b, DW_LNS_fixed_advance_pc, 1);
        small_put(b, n, 2);
        p->address += n & 0xffff;
        p->op_index = 0;
        break;
    case 6:
        n = small_choice(c) % (s->opcode_base > 10 ? 4 : 2);
        small_put(b, single[n], 1);
        break;
    case 7:
        if (s->opcode_base <= 12)
            break;
        small_put(b, DW_LNS_set_isa, 1);
        small_uleb(b, small_choice(c));
        break;
    case 8:
        small_put(b, 0, 1); /* a discriminator */
        small_uleb(b, 2);
        small_put(b, DW_LNE_set_discriminator, 1);
        small_put(b, small_choice(c) & 0x7f, 1);
        break;
    case 9:
        small_put(b, DW_LNS_copy, 1);
        break;
    default:
        put_special(b, c, s, p);
    }
}

/* A few sequences, one behind the other. Returns the end of the last one. */
static uint64_t put_program(struct small_bytes *b, struct small_choices *c, const struct shape *s)
{
    uint64_t end = TEXT;
    for (unsigned i = 0; i < 3; i++) {
        struct place p = {.address = end + small_choice(c), .line = 1};
        small_put(b, 0, 1);
        small_uleb(b, 9);
        small_put(b, DW_LNE_set_address, 1);
        small_put(b, p.address, 8);
        small_put(b, DW_LNS_copy, 1);
        for (unsigned k = small_choice(c) % 64; k--;)
            put_instruction(b, c, s, &p);
        small_put(b, DW_LNS_advance_pc, 1);
        small_uleb(b, s->max_ops);
        advance(s, &p, s->max_ops);
        small_put(b, 0, 1);
        small_uleb(b, 1);
        small_put(b, DW_LNE_end_sequence, 1);
        end = p.address + 1;
    }
    return end;
}

static uint64_t put_lines(struct small_bytes *b, struct small_choices *c)
{
    static const uint8_t lengths[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    const struct shape s = choose_shape(c);
    small_put(b, 0, 4);
    small_put(b, s.version, 2);
    if (s.version >= 5)
        small_put(b, 8, 2); /* bytes of an address, no segments */
    size_t length = b->nr;
    small_put(b, 0, 4);
    small_put(b, s.min_length, 1);
    if (s.version >= 4)
        small_put(b, s.max_ops, 1);
    small_put(b, 1, 1);
    small_put(b, (uint8_t)s.line_base, 1);
    small_put(b, s.line_range, 1);
    small_put(b, s.opcode_base, 1);
    for (unsigned i = 0; i + 1 < s.opcode_base; i++)
        small_put(b, lengths[i], 1);
    put_tables(b, &s);
    uint32_t of = (uint32_t)(b->nr - length - 4);
    memcpy(b->at + length, &of, 4);
    uint64_t end = put_program(b, c, &s);
    of = (uint32_t)b->nr - 4;
    memcpy(b->at, &of, 4);
    return end;
}

/* A unit of one entry that has the line program. */
static void put_unit(struct small_bytes *info, struct small_bytes *abbrev, uint64_t end)
{
    small_put(abbrev, 1, 1);
    small_put(abbrev, DW_TAG_compile_unit, 1);
    small_put(abbrev, 0, 1);
    small_put(abbrev, DW_AT_stmt_list | DW_FORM_sec_offset << 8, 2);
    small_put(abbrev, DW_AT_low_pc | DW_FORM_addr << 8, 2);
    small_put(abbrev, DW_AT_high_pc | DW_FORM_udata << 8, 2);
    small_put(abbrev, DW_AT_comp_dir | DW_FORM_string << 8, 2);
    small_put(abbrev, 0, 3);
    small_put(info, 0, 4);
    small_put(info, 4, 2); /* version */
    small_put(info, 0, 4);
    small_put(info, 8, 1);
    small_put(info, 1, 1);
    small_put(info, 0, 4);
    small_put(info, TEXT, 8);
    small_uleb(info, end - TEXT);
    small_put(info, 'c', 2);
    info->at[0] = (uint8_t)(info->nr - 4);
}

/* The row that covers an address, as libdw's sorted rows tell: the last one at or below it. */
static Dwarf_Line *row_at(Dwarf_Lines *lines, size_t nr, uint64_t address)
{
    Dwarf_Line *best = NULL;
    for (size_t i = 0; i < nr; i++) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i);
        Dwarf_Addr at;
        if (!line || dwarf_lineaddr(line, &at) != 0)
            abort();
        if (at <= address)
            best = line;
    }
    bool ends = false;
    return best && dwarf_lineendsequence(best, &ends) == 0 && !ends ? best : NULL;
}

static void differ(uint64_t address, const char *what, long ours, long theirs)
{
    fprintf(stderr, "at %#lx: %s: ours %ld, libdw %ld\n", (unsigned long)address, what, ours,
            theirs);
    abort();
}

static void compare_row(struct line_table *t, const struct dwarf_unit *u, struct intern *strings,
                        Dwarf_Line *theirs, uint64_t address)
{
    struct line_row row;
    int line = 0, column = 0;
    bool known = line_table_row(t, address, &row);
    if (known != (theirs != NULL))
        differ(address, "a row", known, theirs != NULL);
    if (!known)
        return;
    if (dwarf_lineno(theirs, &line) != 0 || (int)row.line != line)
        differ(address, "line", (long)row.line, line);
    if (dwarf_linecol(theirs, &column) != 0 || (int)row.column != column)
        differ(address, "column", (long)row.column, column);
    const char *name = dwarf_linesrc(theirs, NULL, NULL);
    const char *path = line_table_path(t, u, row.file, strings);
    const char *last = path && strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *of = name && strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    if (!last || !of || strcmp(last, of) != 0) {
        fprintf(stderr, "%s, %s\n", path ? path : "none", name ? name : "none");
        differ(address, "file", (long)row.file, 0);
    }
}

static void compare(struct dwarf_file *ours, Dwarf *theirs, uint64_t end, uint64_t seed)
{
    Dwarf_Die die;
    Dwarf_Lines *lines;
    size_t nr = 0, header;
    Dwarf_Off next;
    struct dwarf_unit *u = &ours->units.at[0];
    struct line_table t = {0};
    struct intern *strings = intern_create();
    if (dwarf_nextcu(theirs, 0, &next, &header, NULL, NULL, NULL) != 0 ||
        !dwarf_offdie(theirs, header, &die))
        abort();
    if (!strings || !line_table_read(&t, u, LOW, UINT64_MAX))
        abort();
    if (dwarf_getsrclines(&die, &lines, &nr) != 0) {
        fprintf(stderr, "libdw: %s\n", dwarf_errmsg(-1));
        abort();
    }
    for (unsigned i = 0; i < ADDRESSES; i++) {
        uint64_t address = TEXT + hash_combine(seed, i) % (end - TEXT + 16);
        compare_row(&t, u, strings, row_at(lines, nr, address), address);
    }
    line_table_free(&t);
    intern_free(strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[SMALL_ELF_MAX];
    struct small_choices c = {data, data + size, hash_bytes(data, size), 0};
    struct small_bytes line = {.nr = 0}, info = {.nr = 0}, abbrev = {.nr = 0};
    uint64_t end = put_lines(&line, &c);
    put_unit(&info, &abbrev, end);
    const struct small_section sections[] = {{".debug_info", info.at, info.nr, 0},
                                             {".debug_abbrev", abbrev.at, abbrev.nr, 0},
                                             {".debug_line", line.at, line.nr, 0}};
    size_t bytes = small_elf(file, sections, 3);
    struct elf_image *image;
    struct dwarf_file ours = {0};
    int fd = line.nr < sizeof(line.at) && bytes ? memfd_create("fuzz", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    if (write(fd, file, bytes) != (ssize_t)bytes)
        abort();
    if (elf_image_take("fuzz", fd, &image, NULL) < 0 || !dwarf_file_open(&ours, image, false, true))
        abort();
    elf_version(EV_CURRENT);
    Elf *elf = elf_memory((char *)file, bytes);
    Dwarf *theirs = elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
    if (!theirs)
        abort();
    compare(&ours, theirs, end, hash_bytes(data, size));
    dwarf_end(theirs);
    elf_end(elf);
    dwarf_file_close(&ours);
    elf_image_free(image);
    return 0;
}
