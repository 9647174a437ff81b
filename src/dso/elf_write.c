/* SPDX-License-Identifier: GPL-2.0-only */
/* See elf_write.h. Layouts: <elf.h>, DWARF 4. */
#include "dso/elf_write.h"
#include "base/hash.h"

#include <dwarf.h>
#include <elf.h>

/* Sections, in the order of the section headers. */
enum {
    S_NULL,
    S_NOTE,
    S_TEXT,
    S_SYMTAB,
    S_STRTAB,
    S_ABBREV,
    S_INFO,
    S_LINE,
    S_NAMES,
    NR_SECTIONS,
};

enum {
    NR_SEGMENTS = 2,
    NOTE_AT = sizeof(Elf64_Ehdr) + NR_SEGMENTS * sizeof(Elf64_Phdr),
    NOTE_SIZE = sizeof(Elf64_Nhdr) + 4 + BUILD_ID_MAX,
    /* The line program's parameters. */
    LINE_BASE = -5,
    LINE_RANGE = 14,
    OPCODE_BASE = 13,
    FIXED_DWARF = 4,
};

/* Abbreviations. */
enum { A_UNIT = 1, A_FUNCTION };

struct elf_parts {
    const struct elf_write *what;
    struct text sections[NR_SECTIONS]; /* all but .text and the note */
    size_t name_at[NR_SECTIONS];
};

/* ---- numbers ------------------------------------------------------------------------------ */

static void put_u8(struct text *t, unsigned v)
{
    text_char(t, (char)v);
}

static void put_u16(struct text *t, uint16_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void put_u32(struct text *t, uint32_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void put_u64(struct text *t, uint64_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void put_uleb(struct text *t, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_u8(t, (v & 0x7f) | 0x80);
    put_u8(t, (unsigned)v);
}

static void put_sleb(struct text *t, int64_t v)
{
    bool more = true;
    while (more) {
        unsigned byte = v & 0x7f;
        v >>= 7;
        more = !((v == 0 && !(byte & 0x40)) || (v == -1 && (byte & 0x40)));
        put_u8(t, byte | (more ? 0x80 : 0));
    }
}

static void put_string(struct text *t, const char *s)
{
    text_bytes(t, s, strlen(s) + 1);
}

/* Begin a field with the length of the data that follows it; end_length() sets the length. */
static size_t begin_length(struct text *t)
{
    put_u32(t, 0);
    return t->size;
}

static void end_length(struct text *t, size_t begun)
{
    uint32_t length = (uint32_t)(t->size - begun);
    if (!t->failed)
        memcpy(t->at + begun - sizeof(length), &length, sizeof(length));
}

/* ---- symbols and units -------------------------------------------------------------------- */

static void write_symbols(struct elf_parts *p)
{
    struct text *symbols = &p->sections[S_SYMTAB], *names = &p->sections[S_STRTAB];
    const Elf64_Sym none = {0};
    size_t slot = 0;
    put_u8(names, 0);
    text_bytes(symbols, (const char *)&none, sizeof(none));
    for (size_t i = 0; i < p->what->nr_functions; i++) {
        const struct elf_write_function *f = &p->what->functions[i];
        const Elf64_Sym s = {.st_name = (uint32_t)names->size,
                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                             .st_shndx = S_TEXT,
                             .st_value = elf_write_address(slot),
                             .st_size = (uint64_t)f->nr_slots * ELF_WRITE_SLOT};
        text_bytes(symbols, (const char *)&s, sizeof(s));
        put_string(names, f->name);
        slot += f->nr_slots;
    }
}

static void write_abbrevs(struct text *t)
{
    static const uint8_t abbrevs[] = {
        A_UNIT,
        DW_TAG_compile_unit,
        DW_CHILDREN_yes, //
        DW_AT_name,
        DW_FORM_string,
        DW_AT_comp_dir,
        DW_FORM_string, //
        DW_AT_low_pc,
        DW_FORM_addr,
        DW_AT_high_pc,
        DW_FORM_data8, //
        DW_AT_stmt_list,
        DW_FORM_sec_offset,
        0,
        0, //
        A_FUNCTION,
        DW_TAG_subprogram,
        DW_CHILDREN_no, //
        DW_AT_name,
        DW_FORM_string,
        DW_AT_decl_file,
        DW_FORM_udata, //
        DW_AT_decl_line,
        DW_FORM_udata,
        DW_AT_low_pc,
        DW_FORM_addr, //
        DW_AT_high_pc,
        DW_FORM_data8,
        0,
        0, //
        0,
    };
    text_bytes(t, (const char *)abbrevs, sizeof(abbrevs));
}

static void write_unit(struct elf_parts *p)
{
    struct text *t = &p->sections[S_INFO];
    const struct elf_write *what = p->what;
    size_t begun = begin_length(t), slot = 0;
    put_u16(t, FIXED_DWARF);
    put_u32(t, 0); /* offset of the abbreviations */
    put_u8(t, sizeof(uint64_t));
    put_u8(t, A_UNIT);
    put_string(t, what->name);
    put_string(t, what->directory);
    put_u64(t, elf_write_address(0));
    put_u64(t, (uint64_t)what->nr_slots * ELF_WRITE_SLOT);
    put_u32(t, 0); /* offset of the line program */
    for (size_t i = 0; i < what->nr_functions; i++) {
        const struct elf_write_function *f = &what->functions[i];
        put_u8(t, A_FUNCTION);
        put_string(t, f->name);
        put_uleb(t, f->file);
        put_uleb(t, f->line);
        put_u64(t, elf_write_address(slot));
        put_u64(t, (uint64_t)f->nr_slots * ELF_WRITE_SLOT);
        slot += f->nr_slots;
    }
    put_u8(t, 0);
    end_length(t, begun);
}

/* ---- lines -------------------------------------------------------------------------------- */

static void write_line_header(struct text *t, const struct elf_write *what)
{
    static const uint8_t operands[OPCODE_BASE - 1] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    put_u16(t, FIXED_DWARF);
    size_t begun = begin_length(t);
    put_u8(t, 1); /* smallest instruction size */
    put_u8(t, 1); /* operations per instruction */
    put_u8(t, 1); /* rows are statements */
    put_u8(t, (uint8_t)LINE_BASE);
    put_u8(t, LINE_RANGE);
    put_u8(t, OPCODE_BASE);
    text_bytes(t, (const char *)operands, sizeof(operands));
    put_u8(t, 0); /* no folders */
    for (size_t i = 0; i < what->nr_files; i++) {
        put_string(t, what->files[i]);
        put_uleb(t, 0); /* folder 0: the unit's own */
        put_uleb(t, 0); /* time: not known */
        put_uleb(t, 0); /* size: not known */
    }
    put_u8(t, 0);
    end_length(t, begun);
}

static void write_extended(struct text *t, unsigned opcode, unsigned operands)
{
    put_u8(t, 0);
    put_uleb(t, 1 + operands);
    put_u8(t, opcode);
}

/* Write one sequence for a function: of its slots with known lines and the slots between. */
static void write_sequence(struct text *t, const struct elf_write_slot *slots, size_t first,
                           size_t nr)
{
    uint32_t file = 1, line = 1;
    write_extended(t, DW_LNE_set_address, sizeof(uint64_t));
    put_u64(t, elf_write_address(first));
    for (size_t i = first; i < first + nr; i++) {
        const struct elf_write_slot *s = &slots[i];
        if (s->file && s->file != file) {
            put_u8(t, DW_LNS_set_file);
            put_uleb(t, file = s->file);
        }
        put_u8(t, DW_LNS_advance_line);
        put_sleb(t, (int64_t)(s->file ? s->line : 0) - line);
        line = s->file ? s->line : 0;
        put_u8(t, DW_LNS_copy);
        put_u8(t, DW_LNS_advance_pc);
        put_uleb(t, ELF_WRITE_SLOT);
    }
    write_extended(t, DW_LNE_end_sequence, 0);
}

static bool has_lines(const struct elf_write_slot *slots, size_t nr)
{
    bool has = false;
    for (size_t i = 0; i < nr && !has; i++)
        has = slots[i].file != 0;
    return has;
}

static void write_lines(struct elf_parts *p)
{
    struct text *t = &p->sections[S_LINE];
    const struct elf_write *what = p->what;
    size_t begun = begin_length(t), slot = 0;
    write_line_header(t, what);
    for (size_t i = 0; i < what->nr_functions; i++) {
        size_t nr = what->functions[i].nr_slots;
        if (has_lines(what->slots + slot, nr))
            write_sequence(t, what->slots, slot, nr);
        slot += nr;
    }
    end_length(t, begun);
}

/* ---- the file ----------------------------------------------------------------------------- */

static void write_names(struct elf_parts *p)
{
    static const char *const names[NR_SECTIONS] = {
        "",          ".note.gnu.build-id", ".text",       ".symtab",
        ".strtab",   ".debug_abbrev",      ".debug_info", ".debug_line",
        ".shstrtab",
    };
    struct text *t = &p->sections[S_NAMES];
    for (int i = 0; i < NR_SECTIONS; i++) {
        p->name_at[i] = t->size;
        put_string(t, names[i]);
    }
}

/* Make the build id from everything that describes the functions and their places. */
static void make_build_id(const struct elf_parts *p, struct build_id *ret)
{
    uint64_t h = hash_bytes(p->what->name, strlen(p->what->name));
    uint64_t words[3] = {0};
    for (int i = S_SYMTAB; i <= S_LINE; i++) {
        const struct text *t = &p->sections[i];
        h = hash_combine(h, hash_bytes(t->at, t->size));
    }
    for (int i = 0; i < 3; i++)
        words[i] = h = hash_combine(h, (uint64_t)i);
    ret->size = BUILD_ID_MAX;
    memcpy(ret->bytes, words, BUILD_ID_MAX);
}

static void write_head(struct text *out, uint16_t machine, uint64_t text_size, uint64_t headers_at)
{
    const Elf64_Ehdr h = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = machine,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(h),
        .e_shoff = headers_at,
        .e_ehsize = sizeof(h),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = NR_SEGMENTS,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = NR_SECTIONS,
        .e_shstrndx = S_NAMES,
    };
    const Elf64_Phdr segments[NR_SEGMENTS] = {
        {.p_type = PT_LOAD,
         .p_flags = PF_R | PF_X,
         .p_filesz = ELF_WRITE_TEXT + text_size,
         .p_memsz = ELF_WRITE_TEXT + text_size,
         .p_align = ELF_WRITE_TEXT},
        {.p_type = PT_NOTE,
         .p_flags = PF_R,
         .p_offset = NOTE_AT,
         .p_vaddr = NOTE_AT,
         .p_paddr = NOTE_AT,
         .p_filesz = NOTE_SIZE,
         .p_memsz = NOTE_SIZE,
         .p_align = 4},
    };
    text_bytes(out, (const char *)&h, sizeof(h));
    text_bytes(out, (const char *)segments, sizeof(segments));
}

static void write_note(struct text *out, const struct build_id *id)
{
    const Elf64_Nhdr h = {4, BUILD_ID_MAX, NT_GNU_BUILD_ID};
    text_bytes(out, (const char *)&h, sizeof(h));
    text_bytes(out, "GNU", 4);
    text_bytes(out, (const char *)id->bytes, BUILD_ID_MAX);
}

static void write_padding(struct text *out, size_t align)
{
    while (out->size % align && !out->failed)
        put_u8(out, 0);
}

static void write_code(struct text *out, size_t nr_slots)
{
    static const char nop[ELF_WRITE_SLOT] = {0x0f, 0x1f, 0x40, 0x00};
    for (size_t i = 0; i < nr_slots && !out->failed; i++)
        text_bytes(out, nop, sizeof(nop));
}

static void write_section_headers(struct text *out, const struct elf_parts *p)
{
    uint64_t text_size = (uint64_t)p->what->nr_slots * ELF_WRITE_SLOT;
    uint64_t at = ELF_WRITE_TEXT + text_size;
    Elf64_Shdr h[NR_SECTIONS] = {0};
    for (int i = S_SYMTAB; i < NR_SECTIONS; i++) {
        h[i] = (Elf64_Shdr){.sh_type = i == S_STRTAB || i == S_NAMES ? SHT_STRTAB : SHT_PROGBITS,
                            .sh_offset = at,
                            .sh_size = p->sections[i].size,
                            .sh_addralign = 1};
        at += p->sections[i].size;
    }
    h[S_NOTE] = (Elf64_Shdr){.sh_type = SHT_NOTE,
                             .sh_flags = SHF_ALLOC,
                             .sh_addr = NOTE_AT,
                             .sh_offset = NOTE_AT,
                             .sh_size = NOTE_SIZE,
                             .sh_addralign = 4};
    h[S_TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                             .sh_addr = ELF_WRITE_TEXT,
                             .sh_offset = ELF_WRITE_TEXT,
                             .sh_size = text_size,
                             .sh_addralign = 16};
    h[S_SYMTAB].sh_type = SHT_SYMTAB;
    h[S_SYMTAB].sh_link = S_STRTAB;
    h[S_SYMTAB].sh_info = 1; /* index of the first symbol that is not local */
    h[S_SYMTAB].sh_entsize = sizeof(Elf64_Sym);
    h[S_SYMTAB].sh_addralign = 8;
    for (int i = 1; i < NR_SECTIONS; i++)
        h[i].sh_name = (uint32_t)p->name_at[i];
    text_bytes(out, (const char *)h, sizeof(h));
}

void elf_write(struct text *out, const struct elf_write *what, struct build_id *id)
{
    struct elf_parts p = {.what = what};
    uint64_t size = ELF_WRITE_TEXT + (uint64_t)what->nr_slots * ELF_WRITE_SLOT;
    write_symbols(&p);
    write_abbrevs(&p.sections[S_ABBREV]);
    write_unit(&p);
    write_lines(&p);
    write_names(&p);
    make_build_id(&p, id);
    for (int i = S_SYMTAB; i < NR_SECTIONS; i++)
        size += p.sections[i].size;
    write_head(out, what->machine, (uint64_t)what->nr_slots * ELF_WRITE_SLOT, size + (-size & 7));
    write_note(out, id);
    write_padding(out, ELF_WRITE_TEXT);
    write_code(out, what->nr_slots);
    for (int i = S_SYMTAB; i < NR_SECTIONS; i++) {
        text_bytes(out, p.sections[i].at, p.sections[i].size);
        out->failed |= p.sections[i].failed;
    }
    write_padding(out, 8);
    write_section_headers(out, &p);
    for (int i = 0; i < NR_SECTIONS; i++)
        text_free(&p.sections[i]);
}
