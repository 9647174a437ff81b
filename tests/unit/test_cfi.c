/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tests call frame information written byte by byte: every opcode, pointer encoding, entry format
 * and expression operation, and input that must be refused. Results are compared as text:
 * "cfa=r7+16 r3=c-24 r16=c-8" (c: at the CFA, v: CFA + n itself, e: expression of n bytes, s: same,
 * u: undefined).
 */
#include "unwind/arch_x86_64.h"
#include "unwind/native/expression.h"
#include "unwind/native/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SECTION = 0x400000, FUNCTION = 0x1000, SIZE = 0x100 };

/* ---- writing ------------------------------------------------------------------------------- */

struct bytes {
    uint8_t at[2048];
    size_t nr;
};

static void put(struct bytes *b, uint64_t value, unsigned size)
{
    assert_true(b->nr + size <= sizeof(b->at));
    memcpy(b->at + b->nr, &value, size);
    b->nr += size;
}

static void put_bytes(struct bytes *b, const void *bytes, size_t size)
{
    assert_true(b->nr + size <= sizeof(b->at));
    memcpy(b->at + b->nr, bytes, size);
    b->nr += size;
}

/* The form in which to write the section. */
struct form {
    bool debug, dwarf64;
    uint8_t version, encoding, address_size;
    const char *augmentation;
    uint8_t code_align, data_align; /* each as one byte of LEB128 */
    uint8_t ra;
};

static const struct form usual = {false, false, 1, PE_ABSPTR, 8, "zR", 1, 0x78, 16};

static size_t begin_entry(struct bytes *b, const struct form *f)
{
    if (f->dwarf64)
        put(b, UINT32_MAX, 4);
    put(b, 0, f->dwarf64 ? 8 : 4);
    return b->nr;
}

static void end_entry(struct bytes *b, const struct form *f, size_t start)
{
    size_t size = b->nr - start, width = f->dwarf64 ? 8 : 4;
    memcpy(b->at + start - width, &size, width);
}

/* def_cfa r7+8, r16 at c-8 */
static const uint8_t initial[] = {0x0c, 7, 8, 0x90, 1};

static void put_cie(struct bytes *b, const struct form *f)
{
    size_t start = begin_entry(b, f);
    put(b, f->debug ? UINT64_MAX : 0, f->debug && f->dwarf64 ? 8 : 4);
    put(b, f->version, 1);
    put_bytes(b, f->augmentation, strlen(f->augmentation) + 1);
    if (f->version == 4)
        put(b, f->address_size, 2); /* then a segment selector size of 0 */
    put(b, f->code_align, 1);
    put(b, f->data_align, 1);
    put(b, f->ra, 1);
    if (f->augmentation[0] == 'z') {
        struct bytes data = {.nr = 0};
        for (const char *p = f->augmentation + 1; *p; p++) {
            if (*p == 'R')
                put(&data, f->encoding, 1);
            else if (*p == 'L')
                put(&data, PE_PCREL | PE_SDATA4, 1);
            else if (*p == 'P')
                put(&data, PE_UDATA4, 1), put(&data, 0x1234, 4);
        }
        put(b, data.nr, 1);
        put_bytes(b, data.at, data.nr);
    }
    put_bytes(b, initial, sizeof(initial));
    end_entry(b, f, start);
}

static void put_format(struct bytes *b, const struct form *f, uint64_t value)
{
    static const uint8_t widths[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8};
    uint8_t format = f->encoding & PE_FORMAT;
    if (format == PE_ULEB128 || format == PE_SLEB128) {
        for (int i = 0; i < 3; i++)
            put(b, (value >> (7 * i) & 0x7f) | (i < 2 ? 0x80 : 0), 1);
    } else {
        put(b, value, format == PE_ABSPTR ? f->address_size : widths[format]);
    }
}

static void put_fde(struct bytes *b, const struct form *f, uint64_t begin, const void *program,
                    size_t size)
{
    size_t start = begin_entry(b, f);
    if (f->debug)
        put(b, 0, f->dwarf64 ? 8 : 4);
    else
        put(b, b->nr, 4); /* distance back to the CIE at 0 */
    uint64_t base = 0;
    if ((f->encoding & PE_BASE) == PE_PCREL)
        base = SECTION + b->nr;
    else if ((f->encoding & PE_BASE) == PE_TEXTREL)
        base = 0x800;
    else if ((f->encoding & PE_BASE) == PE_DATAREL)
        base = 0x900;
    if (f->encoding == PE_ALIGNED) {
        while ((SECTION + b->nr) % 8)
            put(b, 0xee, 1);
        put(b, begin, 8), put(b, SIZE, 8);
    } else {
        put_format(b, f, begin - base), put_format(b, f, SIZE);
    }
    if (f->augmentation[0] == 'z')
        put(b, 3, 1), put(b, 0xabcdef, 3);
    put_bytes(b, program, size);
    end_entry(b, f, start);
}

static struct cfi *create(const struct bytes *b, const struct form *f)
{
    struct cfi_section s = {b->at, b->nr, SECTION};
    struct cfi_source source = {.arch = &arch_x86_64,
                                .name = "test",
                                .id = 1,
                                .text_address = 0x800,
                                .data_address = 0x900};
    if (f->debug)
        source.debug_frame = s;
    else
        source.eh_frame = s;
    struct cfi *cfi;
    struct error err;
    return cfi_create(&source, &cfi, &err) ? NULL : cfi;
}

/* ---- reading ------------------------------------------------------------------------------- */

static void print_rule(char *to, size_t size, unsigned reg, const struct reg_rule *r)
{
    size_t at = strlen(to);
    static const char kinds[] = {0, 'u', 's', 'c', 'v', 'r', 'e', 'E'};
    if (r->kind == REG_UNDEFINED || r->kind == REG_SAME)
        snprintf(to + at, size - at, " r%u=%c", reg, kinds[r->kind]);
    else if (r->kind == REG_EXPRESSION || r->kind == REG_VAL_EXPRESSION)
        snprintf(to + at, size - at, " r%u=%c%zu", reg, kinds[r->kind], r->expression.size);
    else if (r->kind == REG_REGISTER)
        snprintf(to + at, size - at, " r%u=r%ld", reg, r->offset);
    else
        snprintf(to + at, size - at, " r%u=%c%+ld", reg, kinds[r->kind], r->offset);
}

static const char *print_row(const struct cfi *cfi, uint64_t address)
{
    static char text[512];
    struct cfi_row row;
    if (!cfi_row(cfi, address, &row))
        return "none";
    if (row.cfa_is_expression)
        snprintf(text, sizeof(text), "cfa=e%zu", row.cfa_expression.size);
    else
        snprintf(text, sizeof(text), "cfa=r%lu%+ld", row.cfa_register, row.cfa_offset);
    for (unsigned reg = 0; reg < DWARF_NR; reg++) {
        if (row.regs[reg].kind != REG_UNSPECIFIED)
            print_rule(text, sizeof(text), reg, &row.regs[reg]);
    }
    if (row.signal_frame)
        strcat(text, " signal");
    return text;
}

/* ---- programs ------------------------------------------------------------------------------ */

struct program {
    const char *bytes;
    size_t size;
    unsigned at; /* offset in the function */
    const char *row;
};
#define PROGRAM(bytes, at, row)           \
    {                                     \
        bytes, sizeof(bytes) - 1, at, row \
    }

static const struct program programs[] = {
    PROGRAM("", 0, "cfa=r7+8 r16=c-8"),
    PROGRAM("", 0xff, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x00\x00", 5, "cfa=r7+8 r16=c-8"),
    /* advances: a row holds from its address on */
    PROGRAM("\x44\x0e\x10", 3, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x44\x0e\x10", 4, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x02\x80\x0e\x10", 0x7f, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x02\x80\x0e\x10", 0x80, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x03\x80\x00\x0e\x10", 0x80, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x03\x80\x01\x0e\x10", 0x80, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x04\x80\x00\x00\x00\x0e\x10", 0x80, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x04\x80\x00\x00\x01\x0e\x10", 0x80, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x1d\x80\x00\x00\x00\x00\x00\x00\x00\x0e\x10", 0x80, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x01\x20\x10\x00\x00\x00\x00\x00\x00\x0e\x10", 0x1f, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x01\x20\x10\x00\x00\x00\x00\x00\x00\x0e\x10", 0x20, "cfa=r7+16 r16=c-8"),
    /* CFA */
    PROGRAM("\x0c\x06\x10", 0, "cfa=r6+16 r16=c-8"),
    PROGRAM("\x0d\x06", 0, "cfa=r6+8 r16=c-8"),
    PROGRAM("\x0e\x80\x02", 0, "cfa=r7+256 r16=c-8"),
    PROGRAM("\x12\x06\x7e", 0, "cfa=r6+16 r16=c-8"),
    PROGRAM("\x13\x7d", 0, "cfa=r7+24 r16=c-8"),
    PROGRAM("\x0f\x03\x76\x78\x06", 0, "cfa=e3 r16=c-8"),
    PROGRAM("\x0f\x03\x76\x78\x06\x0c\x07\x20", 0, "cfa=r7+32 r16=c-8"),
    /* registers */
    PROGRAM("\x83\x03", 0, "cfa=r7+8 r3=c-24 r16=c-8"),
    PROGRAM("\x05\x0c\x04", 0, "cfa=r7+8 r12=c-32 r16=c-8"),
    PROGRAM("\x11\x0c\x7c", 0, "cfa=r7+8 r12=c+32 r16=c-8"),
    PROGRAM("\x2f\x0c\x04", 0, "cfa=r7+8 r12=c+32 r16=c-8"),
    PROGRAM("\x07\x10", 0, "cfa=r7+8 r16=u"),
    PROGRAM("\x08\x03", 0, "cfa=r7+8 r3=s r16=c-8"),
    PROGRAM("\x09\x03\x0a", 0, "cfa=r7+8 r3=r10 r16=c-8"),
    PROGRAM("\x10\x06\x02\x76\x00", 0, "cfa=r7+8 r6=e2 r16=c-8"),
    PROGRAM("\x16\x06\x02\x76\x00", 0, "cfa=r7+8 r6=E2 r16=c-8"),
    PROGRAM("\x14\x07\x02", 0, "cfa=r7+8 r7=v-16 r16=c-8"),
    PROGRAM("\x15\x07\x7e", 0, "cfa=r7+8 r7=v+16 r16=c-8"),
    PROGRAM("\x83\x03\x41\xc3", 1, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x90\x03\x41\xd0", 1, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x90\x03\x41\x06\x10", 1, "cfa=r7+8 r16=c-8"),
    PROGRAM("\xb1\x03", 0, "cfa=r7+8 r16=c-8"), /* a vector register: ignored */
    /* remember and restore state: CFA and registers come back, also when nested */
    PROGRAM("\x0a\x0e\x20\x83\x02\x41\x0b", 0, "cfa=r7+32 r3=c-16 r16=c-8"),
    PROGRAM("\x0a\x0e\x20\x83\x02\x41\x0b", 1, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x0a\x0e\x20\x0a\x0e\x30\x0b\x83\x02", 0, "cfa=r7+32 r3=c-16 r16=c-8"),
    PROGRAM("\x0a\x0e\x20\x0a\x0e\x30\x0b\x0b", 0, "cfa=r7+8 r16=c-8"),
    /* GNU */
    PROGRAM("\x2e\x90\x01\x0e\x10", 0, "cfa=r7+16 r16=c-8"),
    PROGRAM("\x2d\x0e\x10", 0, "cfa=r7+16 r16=c-8"),
    /* refused: unknown, cut, unbalanced; but only when they are reached */
    PROGRAM("\x3f", 0, "none"),
    PROGRAM("\x1c", 0, "none"),
    PROGRAM("\x17\x01", 0, "none"),
    PROGRAM("\x0e", 0, "none"),
    PROGRAM("\x0e\x80", 0, "none"),
    PROGRAM("\x0f\x05\x76\x78\x06", 0, "none"),
    PROGRAM("\x10\x06\x7f\x76", 0, "none"),
    PROGRAM("\x0b", 0, "none"),
    PROGRAM("\x41\x0b", 0, "cfa=r7+8 r16=c-8"),
    PROGRAM("\x41\x0b", 1, "none"),
    PROGRAM("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"
            "\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a",
            0, "none"),
};

static void every_opcode(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
        const struct program *p = &programs[i];
        struct bytes b = {.nr = 0};
        put_cie(&b, &usual);
        put_fde(&b, &usual, FUNCTION, p->bytes, p->size);
        struct cfi *cfi = create(&b, &usual);
        assert_non_null(cfi);
        const char *row = print_row(cfi, FUNCTION + p->at);
        if (strcmp(row, p->row) != 0)
            fail_msg("program %zu: %s, not %s", i, row, p->row);
        cfi_free(cfi);
    }
}

/* ---- formats ------------------------------------------------------------------------------- */

static void expect_found(const struct form *f, const char *what)
{
    struct bytes b = {.nr = 0};
    put_cie(&b, f);
    put_fde(&b, f, FUNCTION, "\x44\x0e\x10", 3);
    struct cfi *cfi = create(&b, f);
    if (!cfi)
        fail_msg("%s, encoding 0x%x: not read", what, f->encoding);
    const uint64_t at[] = {FUNCTION - 1, FUNCTION, FUNCTION + 4 * f->code_align,
                           FUNCTION + SIZE - 1, FUNCTION + SIZE};
    const char *const rows[] = {"none", "cfa=r7+8 r16=c-8", "cfa=r7+16 r16=c-8",
                                "cfa=r7+16 r16=c-8", "none"};
    for (int i = 0; i < 5; i++) {
        const char *row = print_row(cfi, at[i]);
        size_t same = strlen(rows[i]);
        if (strncmp(row, rows[i], same) != 0)
            fail_msg("%s, encoding 0x%x, 0x%lx: %s, not %s", what, f->encoding, at[i], row,
                     rows[i]);
    }
    cfi_free(cfi);
}

static void every_encoding(void **state)
{
    (void)state;
    static const uint8_t formats[] = {PE_ABSPTR, PE_ULEB128, PE_UDATA2, PE_UDATA4, PE_UDATA8,
                                      PE_SIGNED, PE_SLEB128, PE_SDATA2, PE_SDATA4, PE_SDATA8};
    static const uint8_t bases[] = {0, PE_PCREL, PE_TEXTREL, PE_DATAREL};
    for (size_t i = 0; i < sizeof(formats); i++) {
        for (size_t j = 0; j < sizeof(bases); j++) {
            uint8_t format = formats[i];
            /* only signed formats can reach from the section down to the function */
            bool down = format == PE_SDATA4 || format == PE_SDATA8 || format == PE_ABSPTR ||
                        format == PE_UDATA8 || format == PE_SIGNED;
            if (bases[j] == PE_PCREL && !down)
                continue;
            struct form f = usual;
            f.encoding = format | bases[j];
            expect_found(&f, "eh_frame");
        }
    }
    struct form aligned = usual;
    aligned.encoding = PE_ALIGNED;
    struct bytes b = {.nr = 0};
    put_cie(&b, &aligned);
    put_fde(&b, &aligned, FUNCTION, "", 0);
    struct cfi *cfi = create(&b, &aligned);
    assert_non_null(cfi);
    assert_string_equal(print_row(cfi, FUNCTION), "cfa=r7+8 r16=c-8");
    cfi_free(cfi);
}

static void every_format(void **state)
{
    (void)state;
    static const char *const augmentations[] = {"", "zR", "zPLR", "zRS", "zRB", "zPRLS", "zRX"};
    for (size_t i = 0; i < sizeof(augmentations) / sizeof(*augmentations); i++) {
        for (uint8_t version = 1; version <= 4; version++) {
            if (version == 2)
                continue;
            struct form f = usual;
            f.augmentation = augmentations[i];
            f.version = version;
            f.code_align = 2;
            expect_found(&f, f.augmentation);
            f.dwarf64 = true;
            expect_found(&f, "64-bit");
            f.debug = true;
            expect_found(&f, "64-bit debug_frame");
            f.dwarf64 = false;
            expect_found(&f, "debug_frame");
            f.address_size = version == 4 ? 4 : 8;
            expect_found(&f, "address size");
        }
    }
}

static void signal_flag(void **state)
{
    (void)state;
    struct form f = usual;
    f.augmentation = "zRS";
    struct bytes b = {.nr = 0};
    put_cie(&b, &f);
    put_fde(&b, &f, FUNCTION, "", 0);
    struct cfi *cfi = create(&b, &f);
    assert_string_equal(print_row(cfi, FUNCTION), "cfa=r7+8 r16=c-8 signal");
    cfi_free(cfi);
}

/* ---- refused ------------------------------------------------------------------------------- */

static void refused_forms(void **state)
{
    (void)state;
    struct form forms[6];
    for (int i = 0; i < 6; i++)
        forms[i] = usual;
    forms[0].version = 2;
    /* the pointer encoding comes after augmentation data of unknown size */
    forms[1].augmentation = "zXR";
    forms[2].encoding = PE_ABSPTR | PE_INDIRECT;
    forms[3].encoding = PE_OMIT;
    forms[4].encoding = 0x07;
    forms[5].augmentation = "X";
    for (int i = 0; i < 6; i++) {
        struct bytes b = {.nr = 0};
        put_cie(&b, &forms[i]);
        put_fde(&b, &forms[i], FUNCTION, "", 0);
        assert_null(create(&b, &forms[i]));
    }
    struct form other = usual;
    other.ra = 3; /* read, but we have no rules for it */
    struct bytes b = {.nr = 0};
    put_cie(&b, &other);
    put_fde(&b, &other, FUNCTION, "", 0);
    struct cfi *cfi = create(&b, &other);
    assert_string_equal(print_row(cfi, FUNCTION), "none");
    cfi_free(cfi);
}

/* Input cut at any byte or with any bit flipped: no crash, and reading ends. */
static void damaged(void **state)
{
    (void)state;
    struct bytes whole = {.nr = 0};
    put_cie(&whole, &usual);
    put_fde(&whole, &usual, FUNCTION, "\x44\x0e\x10\x0a\x83\x02\x0f\x03\x76\x78\x06\x41\x0b", 13);
    put_fde(&whole, &usual, FUNCTION + SIZE, "\x44\x0e\x10", 3);
    size_t read = 0;
    for (size_t i = 0; i < whole.nr; i++) {
        for (int bit = 0; bit < 9; bit++) {
            size_t size = bit == 8 ? i : whole.nr;
            struct bytes *b = malloc(sizeof(*b)); /* on the heap: ASan sees a read behind it */
            uint8_t *exact = malloc(size + 1);
            *b = whole;
            if (bit < 8)
                b->at[i] ^= (uint8_t)(1 << bit);
            memcpy(exact, b->at, size);
            struct cfi_source source = {.arch = &arch_x86_64,
                                        .name = "damaged",
                                        .id = 1,
                                        .eh_frame = {exact, size, SECTION}};
            struct cfi *cfi;
            if (cfi_create(&source, &cfi, NULL) == 0) {
                for (uint64_t at = FUNCTION; at < FUNCTION + 2 * SIZE; at += 7)
                    read += strcmp(print_row(cfi, at), "none") != 0;
                cfi_free(cfi);
            }
            free(exact);
            free(b);
        }
    }
    assert_true(read > 0);
}

/* ---- search -------------------------------------------------------------------------------- */

enum { FUNCTIONS = 20 };

static void put_functions(struct bytes *b)
{
    put_cie(b, &usual);
    for (unsigned i = 0; i < FUNCTIONS; i++) { /* in mixed order, with gaps */
        unsigned n = i * 7 % FUNCTIONS;
        uint8_t program[] = {0x0e, (uint8_t)(8 + n)};
        put_fde(b, &usual, FUNCTION + (uint64_t)n * 2 * SIZE, program, sizeof(program));
    }
}

static void expect_functions(const struct cfi *cfi)
{
    char want[64];
    for (unsigned n = 0; n < FUNCTIONS; n++) {
        uint64_t begin = FUNCTION + (uint64_t)n * 2 * SIZE;
        snprintf(want, sizeof(want), "cfa=r7+%u r16=c-8", 8 + n);
        assert_string_equal(print_row(cfi, begin - 1), "none");
        assert_string_equal(print_row(cfi, begin), want);
        assert_string_equal(print_row(cfi, begin + SIZE - 1), want);
        assert_string_equal(print_row(cfi, begin + SIZE), "none");
    }
}

static bool note_place(void *context, const struct fde *fde, uint64_t offset)
{
    struct fde_place *places = context;
    places[(fde->begin - FUNCTION) / (2 * SIZE)] = (struct fde_place){fde->begin, offset};
    return true;
}

static bool note_begin(void *context, const struct fde *fde, uint64_t offset)
{
    struct fde_place *last = context;
    (void)offset;
    assert_true(fde->begin > last->begin);
    *last = (struct fde_place){fde->begin, last->offset + 1};
    return last->offset != FUNCTIONS;
}

/* Finds all functions of at least a size, in order, once each; none that is smaller. */
static void expect_large(const struct cfi *cfi)
{
    for (uint64_t least = SIZE - 1; least <= SIZE + 1; least++) {
        struct fde_place last = {0}; /* its offset is used as a counter */
        cfi_walk_large(cfi, &cfi->tables[0], least, note_begin, &last);
        assert_int_equal(last.offset, least <= SIZE ? FUNCTIONS : 0);
    }
}

/* A header as ld writes it: the table is used. A table that is out of order is not. */
static void header(void **state)
{
    (void)state;
    enum { HEADER = 0x300000 };
    struct bytes b = {.nr = 0}, h = {.nr = 0};
    struct fde_place places[FUNCTIONS];
    put_functions(&b);
    struct cfi *cfi = create(&b, &usual);
    expect_functions(cfi);
    cfi_walk(cfi, &cfi->tables[0], note_place, places);
    cfi_free(cfi);
    put(&h, 0x3b031b01, 4);
    put(&h, SECTION - HEADER - 4, 4);
    put(&h, FUNCTIONS, 4);
    for (unsigned n = 0; n < FUNCTIONS; n++) {
        put(&h, places[n].begin - HEADER, 4);
        put(&h, SECTION + places[n].offset - HEADER, 4);
    }
    for (int damage = 0; damage < 4; damage++) {
        struct bytes x = h;
        if (damage == 1)
            memset(x.at + 12 + 8 * 9, 0, 4); /* out of order */
        if (damage == 2)
            x.at[8] = FUNCTIONS + 1; /* longer than the section */
        if (damage == 3)
            x.at[3] = PE_DATAREL | PE_SDATA8;
        struct cfi_source source = {.arch = &arch_x86_64,
                                    .name = "header",
                                    .id = 1,
                                    .eh_frame = {b.at, b.nr, SECTION},
                                    .eh_frame_hdr = {x.at, x.nr, HEADER}};
        assert_int_equal(cfi_create(&source, &cfi, NULL), 0);
        assert_int_equal(cfi->tables[0].entries != NULL, damage == 0);
        expect_functions(cfi);
        expect_large(cfi);
        cfi_free(cfi);
    }
}

/* With both sections, .eh_frame is used first, .debug_frame for functions that it lacks. */
static void both_sections(void **state)
{
    (void)state;
    struct form debug = usual;
    debug.debug = true;
    debug.augmentation = "";
    debug.version = 4;
    struct bytes eh = {.nr = 0}, d = {.nr = 0};
    put_cie(&eh, &usual);
    put_fde(&eh, &usual, FUNCTION, "\x0e\x10", 2);
    put_cie(&d, &debug);
    put_fde(&d, &debug, FUNCTION, "\x0e\x20", 2);
    put_fde(&d, &debug, FUNCTION - 2 * SIZE, "\x0e\x30", 2);
    struct cfi_source source = {.arch = &arch_x86_64,
                                .name = "both",
                                .id = 1,
                                .eh_frame = {eh.at, eh.nr, SECTION},
                                .debug_frame = {d.at, d.nr, 0}};
    struct cfi *cfi;
    assert_int_equal(cfi_create(&source, &cfi, NULL), 0);
    assert_string_equal(print_row(cfi, FUNCTION), "cfa=r7+16 r16=c-8");
    assert_string_equal(print_row(cfi, FUNCTION - 2 * SIZE), "cfa=r7+48 r16=c-8");
    assert_string_equal(print_row(cfi, FUNCTION - SIZE), "none");
    assert_true(cfi->low == FUNCTION - 2 * SIZE);
    cfi_free(cfi);
}

/* ---- lowering ------------------------------------------------------------------------------ */

static struct rule lowered(const char *program, size_t size, unsigned at)
{
    struct bytes b = {.nr = 0};
    put_cie(&b, &usual);
    put_fde(&b, &usual, FUNCTION, program, size);
    struct cfi *cfi = create(&b, &usual);
    struct cfi_row row;
    assert_true(rule_row(cfi, FUNCTION + at, &row));
    struct rule rule = rule_lower(&row);
    cfi_free(cfi);
    return rule;
}
#define LOWERED(program, at) lowered(program, sizeof(program) - 1, at)

static void lowering(void **state)
{
    (void)state;
    struct rule r = LOWERED("\x0e\x20\x83\x02\x86\x04", 0);
    assert_int_equal(r.kind, RULE_OFFSETS);
    assert_int_equal(r.saved[0], 2);
    assert_int_equal(r.saved[1], 4);
    assert_int_equal(r.ra, 1);
    assert_int_equal(r.deepest, 4);
    assert_int_equal(LOWERED("\x07\x10", 0).kind, RULE_ENDS);
    assert_int_equal(LOWERED("\x07\x00", 0).kind, RULE_OFFSETS); /* rax is lost in any case */
    /* rules that 16 bytes cannot hold */
    assert_int_equal(LOWERED("\x82\x02", 0).kind, RULE_ROW);                 /* rcx is saved */
    assert_int_equal(LOWERED("\x07\x03", 0).kind, RULE_ROW);                 /* rbx is lost */
    assert_int_equal(LOWERED("\x0e\x90\x20\x83\x80\x02", 0).kind, RULE_ROW); /* 256 slots down */
    assert_int_equal(LOWERED("\x0e\x90\x20\x83\xff\x01", 0).kind, RULE_OFFSETS);
    assert_int_equal(LOWERED("\x11\x03\x7e", 0).kind, RULE_ROW); /* above the CFA */
    assert_int_equal(LOWERED("\x09\x10\x00", 0).kind, RULE_ROW); /* return address in rax */
    assert_int_equal(LOWERED("\x14\x07\x02", 0).kind, RULE_ROW); /* rsp is not the CFA */
    assert_int_equal(LOWERED("\x0e\x80\x80\x80\x80\x08", 0).kind, RULE_ROW); /* 2^31 */
    assert_int_equal(LOWERED("\x0f\x03\x76\x78\x06", 0).kind, RULE_ROW);
    r = LOWERED("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 0); /* ld's PLT */
    assert_int_equal(r.kind, RULE_PLT);
    assert_int_equal(r.plt_from, 11);
}

/* push rbx (row 1), pop rbx (row 3): the CFI keeps rbx's rule, but the slot is now below rsp. */
static void popped_slot(void **state)
{
    (void)state;
    assert_int_equal(LOWERED("\x41\x0e\x10\x83\x02\x44\x0e\x08", 1).saved[0], 2);
    assert_int_equal(LOWERED("\x41\x0e\x10\x83\x02\x44\x0e\x08", 5).saved[0], 0);
    /* rsp was never below the slot: the slot is in the red zone */
    assert_int_equal(LOWERED("\x41\x83\x02\x44\x08\x06", 5).saved[0], 2);
    /* the CFA was relative to rbp before: a leave instruction */
    assert_int_equal(
        LOWERED("\x41\x0e\x10\x86\x02\x41\x0d\x06\x83\x03\x44\x0c\x07\x08", 6).saved[0], 0);
    assert_int_equal(
        LOWERED("\x41\x0e\x10\x86\x02\x41\x0d\x06\x83\x03\x44\x0c\x07\x08", 2).saved[0], 3);
}

/* ---- expressions --------------------------------------------------------------------------- */

struct expression {
    const char *bytes;
    size_t size;
    enum expression_result result;
    uint64_t value;
};
#define GIVES(bytes, value)                                        \
    {                                                              \
        bytes, sizeof(bytes) - 1, EXPRESSION_OK, (uint64_t)(value) \
    }
#define FAILS(bytes)                                \
    {                                               \
        bytes, sizeof(bytes) - 1, EXPRESSION_BAD, 0 \
    }

static const struct expression expressions[] = {
    GIVES("\x30", 0),
    GIVES("\x4f", 31),
    GIVES("\x03\x10\x00\x00\x00\x00\x00\x00\x00", 0x10010), /* DW_OP_addr: biased */
    GIVES("\x08\xff", 255),
    GIVES("\x09\xff", -1),
    GIVES("\x0a\xff\xff", 0xffff),
    GIVES("\x0b\xff\xff", -1),
    GIVES("\x0c\xff\xff\xff\xff", 0xffffffff),
    GIVES("\x0d\xff\xff\xff\xff", -1),
    GIVES("\x0e\x01\x02\x03\x04\x05\x06\x07\x08", 0x0807060504030201),
    GIVES("\x0f\x01\x02\x03\x04\x05\x06\x07\x08", 0x0807060504030201),
    GIVES("\x10\x80\x01", 128),
    GIVES("\x11\x7f", -1),
    GIVES("\x31\x12", 1),
    GIVES("\x31\x32\x13", 1),
    GIVES("\x31\x32\x14", 1),
    GIVES("\x31\x32\x33\x15\x02", 1),
    GIVES("\x31\x32\x16", 1),
    GIVES("\x31\x32\x33\x17", 2),
    GIVES("\x31\x32\x33\x17\x13", 1),
    GIVES("\x31\x32\x33\x17\x13\x13", 3),
    GIVES("\x09\xfe\x19", 2),
    GIVES("\x36\x33\x1a", 2),
    GIVES("\x09\xfa\x34\x1b", -1),
    GIVES("\x36\x32\x1c", 4),
    GIVES("\x37\x33\x1d", 1),
    GIVES("\x36\x33\x1e", 18),
    GIVES("\x36\x1f", -6),
    GIVES("\x30\x20", -1),
    GIVES("\x36\x33\x21", 7),
    GIVES("\x36\x33\x22", 9),
    GIVES("\x36\x23\x80\x01", 134),
    GIVES("\x31\x34\x24", 16),
    GIVES("\x31\x08\x40\x24", 0),
    GIVES("\x09\xf0\x32\x25", 0x3ffffffffffffffc),
    GIVES("\x31\x08\x40\x25", 0),
    GIVES("\x09\xf0\x32\x26", -4),
    GIVES("\x09\xf0\x08\x40\x26", -1),
    GIVES("\x36\x33\x27", 5),
    GIVES("\x32\x32\x29", 1),
    GIVES("\x33\x32\x2a", 1),
    GIVES("\x32\x32\x2b", 0),
    GIVES("\x32\x32\x2c", 1),
    GIVES("\x09\xff\x30\x2d", 1),
    GIVES("\x32\x32\x2e", 0),
    GIVES("\x0e\x00\x00\x00\x00\x00\x00\x00\x80\x09\xff\x1b",
          0x8000000000000000),                /* INT64_MIN / -1 */
    GIVES("\x31\x2f\x01\x00\x30\x96", 1),     /* skips the lit0 */
    GIVES("\x32\x31\x28\x01\x00\x30", 2),     /* branch taken */
    GIVES("\x32\x30\x28\x01\x00\x33", 3),     /* branch not taken */
    GIVES("\x33\x31\x1c\x12\x28\xfa\xff", 0), /* counts down from 3 */
    GIVES("\x77\x08", 0x1008),
    GIVES("\x92\x07\x78", 0xff8),
    GIVES("\x77\x00\x06", 0x1122334455667788),
    GIVES("\x77\x00\x94\x04", 0x55667788),
    GIVES("\x77\x00\x94\x02", 0x7788),
    GIVES("\x77\x00\x94\x01", 0x88),
    {"\x77\x10\x06", 3, EXPRESSION_BAD_READ, 0x1010},
    FAILS(""),
    FAILS("\x12"),
    FAILS("\x13"),
    FAILS("\x31\x30\x1b"),
    FAILS("\x31\x30\x1d"),
    FAILS("\x31\x15\x05"),
    FAILS("\x2f\xfd\xff"), /* endless loop */
    FAILS("\x2f\x01\x00"),
    FAILS("\x2f\xf0\xff"), /* leaves the expression */
    FAILS("\x76\x00"),     /* rbp is unknown */
    FAILS("\x92\x40\x00"),
    FAILS("\x50"),
    FAILS("\xe0"),
    FAILS("\x0e\x01"),
    FAILS("\x77"),
    FAILS("\x31\x94\x03"),
    FAILS("\x31\x2f\xfc\xff"), /* pushes until the stack is full */
};

static void every_operation(void **state)
{
    (void)state;
    const uint64_t stack[2] = {0x1122334455667788, 0};
    const struct registers registers = {
        .arch = &arch_x86_64, .value[DWARF_RSP] = 0x1000, .known = REG_BIT(DWARF_RSP)};
    const struct memory memory = {
        .stack = (const uint8_t *)stack, .stack_start = 0x1000, .stack_size = 16};
    const struct expression_input in = {&registers, &memory, 0x10000, false};
    for (size_t i = 0; i < sizeof(expressions) / sizeof(*expressions); i++) {
        const struct expression *e = &expressions[i];
        uint64_t value, failed_at;
        enum provenance provenance = PROVENANCE_EXACT;
        struct cfi_bytes bytes = {(const uint8_t *)e->bytes, e->size};
        enum expression_result got =
            expression_evaluate(bytes, &in, NULL, &value, &failed_at, &provenance);
        if (got != e->result || (got == EXPRESSION_OK && value != e->value) ||
            (got == EXPRESSION_BAD_READ && failed_at != e->value))
            fail_msg("expression %zu: result %d, value 0x%lx", i, got, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_opcode),    cmocka_unit_test(every_encoding),
        cmocka_unit_test(every_format),    cmocka_unit_test(signal_flag),
        cmocka_unit_test(refused_forms),   cmocka_unit_test(damaged),
        cmocka_unit_test(header),          cmocka_unit_test(both_sections),
        cmocka_unit_test(lowering),        cmocka_unit_test(popped_slot),
        cmocka_unit_test(every_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
