/* SPDX-License-Identifier: GPL-2.0-only */
/* Line programs (DWARF 2-5). A program is run once, keeping one row in many as a mark; a lookup
 * runs it again from a mark to the row it needs. */
#include "base/text.h"
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <stdlib.h>

/* ---- header ------------------------------------------------------------------------------ */

struct dirs {
    VEC(const char *) at;
};

/* DWARF 5: a format (content, form pairs), then entries in that format. */
struct entry_format {
    struct dwarf_attr fields[16];
    unsigned nr;
};

static bool read_format(struct cursor *c, struct entry_format *f)
{
    f->nr = cursor_u8(c);
    if (f->nr > 16)
        return false;
    for (unsigned i = 0; i < f->nr; i++) {
        f->fields[i] = (struct dwarf_attr){.name = (uint16_t)cursor_uleb128(c)};
        f->fields[i].form = (uint16_t)cursor_uleb128(c);
    }
    return !c->failed;
}

static bool read_entry(struct line_program *p, struct cursor *c, const struct entry_format *f,
                       const char **name, uint64_t *dir)
{
    *name = NULL;
    *dir = 0;
    for (unsigned i = 0; i < f->nr; i++) {
        struct dwarf_value v;
        if (!dwarf_read_value(&p->forms, c, &f->fields[i], &v))
            return false;
        if (f->fields[i].name == DW_LNCT_path)
            *name = dwarf_string(&p->forms, &v);
        else if (f->fields[i].name == DW_LNCT_directory_index)
            *dir = v.number;
    }
    return true;
}

/* An entry must take space in the file, or a count could make a list of any length. */
static bool takes_room(const struct cursor *c, uint64_t nr, const struct entry_format *f)
{
    return f->nr > 0 && nr <= cursor_left(c);
}

enum { MAX_FILES = 1 << 20 };

static bool add_file(struct line_table *t, const struct dirs *dirs, const char *name, uint64_t dir)
{
    struct line_file file = {.name = name, .dir = dir < dirs->at.nr ? dirs->at.at[dir] : NULL};
    return t->files.nr >= MAX_FILES || vec_push(&t->files, file);
}

static bool read_lists_5(struct line_program *p, struct cursor *c, struct line_table *t,
                         struct dirs *dirs)
{
    struct entry_format f;
    const char *name;
    uint64_t dir, nr;
    if (!read_format(c, &f))
        return false;
    nr = cursor_uleb128(c);
    for (uint64_t i = 0; i < nr; i++)
        if (!takes_room(c, nr - i, &f) || !read_entry(p, c, &f, &name, &dir) ||
            !vec_push(&dirs->at, name))
            return false;
    if (!read_format(c, &f))
        return false;
    nr = cursor_uleb128(c);
    for (uint64_t i = 0; i < nr; i++)
        if (!takes_room(c, nr - i, &f) || !read_entry(p, c, &f, &name, &dir) ||
            !add_file(t, dirs, name, dir))
            return false;
    return !c->failed;
}

/* Before DWARF 5: lists of strings that end with an empty one; directory 0 is the compilation's. */
static bool read_lists_old(struct cursor *c, struct line_table *t, struct dirs *dirs)
{
    const char *s;
    if (!vec_push(&dirs->at, NULL))
        return false;
    while ((s = cursor_string(c)) && *s)
        if (!vec_push(&dirs->at, s))
            return false;
    while ((s = cursor_string(c)) && *s) {
        uint64_t dir = cursor_uleb128(c);
        (void)cursor_uleb128(c);
        (void)cursor_uleb128(c);
        if (!add_file(t, dirs, s, dir))
            return false;
    }
    return !c->failed;
}

static bool read_header(struct line_program *p, const struct dwarf_unit *u, struct line_table *t)
{
    struct cursor c = dwarf_section_cursor(u->file, SEC_LINE, u->stmt_list);
    p->forms = *u;
    p->forms.offset_size = 4;
    uint64_t length = cursor_u32(&c);
    if (length == 0xffffffff) {
        length = cursor_u64(&c);
        p->forms.offset_size = 8;
    }
    if (c.failed || length > cursor_left(&c))
        return false;
    c.end = c.at + length;
    p->forms.version = cursor_u16(&c);
    if (p->forms.version < 2 || p->forms.version > 5)
        return false;
    if (p->forms.version >= 5)
        cursor_skip(&c, 2); /* address and segment selector sizes */
    uint64_t header = dwarf_offset(&c, p->forms.offset_size);
    if (c.failed || header > cursor_left(&c))
        return false;
    p->c = c;
    cursor_skip(&p->c, header);
    c.end = p->c.at;
    p->min_length = cursor_u8(&c);
    p->max_ops = p->forms.version >= 4 ? cursor_u8(&c) : 1;
    cursor_skip(&c, 1); /* default is_stmt */
    p->line_base = (int8_t)cursor_u8(&c);
    p->line_range = cursor_u8(&c);
    p->opcode_base = cursor_u8(&c);
    p->opcode_lengths = cursor_bytes(&c, p->opcode_base ? p->opcode_base - 1u : 0);
    if (c.failed || p->line_range == 0 || p->opcode_base == 0)
        return false;
    for (unsigned opcode = p->opcode_base; opcode < 256; opcode++) {
        unsigned adjusted = opcode - p->opcode_base;
        p->advance[opcode] = (uint8_t)(adjusted / p->line_range);
        p->line_step[opcode] = (int16_t)(p->line_base + (int)(adjusted % p->line_range));
    }
    t->from_zero = p->forms.version >= 5;
    struct dirs dirs = {0};
    bool ok = t->from_zero ? read_lists_5(p, &c, t, &dirs) : read_lists_old(&c, t, &dirs);
    vec_free(&dirs.at);
    return ok;
}

/* ---- program ----------------------------------------------------------------------------- */

/* The registers of the line program that make up a row. */
struct machine {
    uint64_t address;
    uint32_t line, file, column, op_index;
};

/* Why a run stopped; CAME_NOTHING: the program has ended. */
enum came { CAME_ROW, CAME_END, CAME_NOTHING };

static inline void advance(const struct line_program *p, struct machine *m, uint64_t operations)
{
    if (p->max_ops <= 1) {
        m->address += p->min_length * operations;
        return;
    }
    uint64_t ops = m->op_index + operations;
    m->address += p->min_length * (ops / p->max_ops);
    m->op_index = (uint32_t)(ops % p->max_ops);
}

static bool extended(struct cursor *c, struct machine *m)
{
    uint64_t size = cursor_uleb128(c);
    const uint8_t *body = cursor_bytes(c, size);
    if (!body || size == 0)
        return false;
    struct cursor in = cursor_make(body, size, c->swap, c->source, c->section, 0);
    uint8_t opcode = cursor_u8(&in);
    if (opcode == DW_LNE_set_address) {
        m->address = dwarf_sized(&in, size - 1 == 4 ? 4 : 8);
        m->op_index = 0;
    }
    return opcode == DW_LNE_end_sequence;
}

/* Execute an opcode that is rare; next_row() does the others. `at` is behind the opcode and moves
 * on; NULL: cut short. Returns whether the sequence ends. */
static bool seldom(const struct line_program *p, const uint8_t **at, struct machine *m,
                   uint8_t opcode)
{
    struct cursor c = p->c;
    bool end = false;
    c.at = *at;
    if (opcode == 0) {
        end = extended(&c, m);
    } else if (opcode == DW_LNS_fixed_advance_pc) {
        m->address += cursor_u16(&c);
        m->op_index = 0;
    } else {
        for (unsigned i = 0; i < p->opcode_lengths[opcode - 1]; i++)
            (void)cursor_uleb128(&c);
    }
    *at = c.failed ? NULL : c.at;
    return end && !c.failed;
}

/* Run from `*from` to the next row or the end of the sequence. Every line program that is hit goes
 * through this code completely, byte by byte: its variables must stay in registers. */
static inline __attribute__((always_inline)) enum came
next_row(const struct line_program *p, const uint8_t **from, struct machine *m)
{
    struct leb128 v = {*from, 0};
    const uint8_t *const end = p->c.end;
    enum came came = CAME_NOTHING;
    while (came == CAME_NOTHING && v.at && v.at < end) {
        uint8_t opcode = *v.at++;
        if (opcode >= p->opcode_base) {
            advance(p, m, p->advance[opcode]);
            m->line += (uint32_t)p->line_step[opcode];
            came = CAME_ROW;
            break;
        }
        switch (opcode) {
        case DW_LNS_copy:
            came = CAME_ROW;
            break;
        case DW_LNS_advance_pc:
            v = leb128_unsigned(v.at, end);
            advance(p, m, v.value);
            break;
        case DW_LNS_advance_line:
            v = leb128_signed(v.at, end);
            m->line += (uint32_t)v.value;
            break;
        case DW_LNS_set_file:
            v = leb128_unsigned(v.at, end);
            m->file = (uint32_t)v.value;
            break;
        case DW_LNS_set_column:
            v = leb128_unsigned(v.at, end);
            m->column = (uint32_t)v.value;
            break;
        case DW_LNS_const_add_pc:
            advance(p, m, p->advance[255]);
            break;
        case DW_LNS_negate_stmt:
        case DW_LNS_set_basic_block:
        case DW_LNS_set_prologue_end:
        case DW_LNS_set_epilogue_begin:
            break;
        default: {
            struct machine copy = *m;
            const uint8_t *at = v.at;
            if (seldom(p, &at, &copy, opcode))
                came = CAME_END;
            *m = copy;
            v.at = at;
        }
        }
    }
    *from = v.at ? v.at : end;
    return v.at ? came : CAME_NOTHING;
}

/* ---- sequences --------------------------------------------------------------------------- */

enum { MARK_EVERY = 48 }; /* rows */

static bool add_mark(struct line_table *t, const struct machine *m, const uint8_t *at)
{
    return vec_push(&t->marks, (struct line_mark){.address = m->address,
                                                  .at = (uint64_t)(at - t->program.c.start),
                                                  .line = m->line,
                                                  .file = m->file,
                                                  .column = m->column,
                                                  .op_index = m->op_index});
}

/* The result of scanning a sequence. */
struct found {
    struct line_sequence sequence;
    uint64_t low, high;
    bool whole; /* it has a row, and an end */
    bool no_memory;
};

static struct found scan(struct line_table *t, const uint8_t **from)
{
    struct machine m = {.line = 1, .file = 1};
    struct found f = {.sequence = {.first = t->marks.nr, .ordered = true}};
    const uint8_t *at = *from;
    uint64_t last = 0;
    unsigned to_mark = 0;
    bool any = false;
    enum came came;
    while ((came = next_row(&t->program, &at, &m)) == CAME_ROW && !f.no_memory) {
        if (!any)
            f.low = m.address;
        any = true;
        f.sequence.ordered &= m.address >= last;
        last = m.address;
        if (to_mark == 0) {
            f.no_memory = !add_mark(t, &m, at);
            to_mark = MARK_EVERY;
        }
        to_mark--;
    }
    *from = at;
    f.high = m.address;
    f.whole = any && came == CAME_END;
    f.sequence.nr = t->marks.nr - f.sequence.first;
    return f;
}

bool line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t low, uint64_t high)
{
    VEC(struct segment_range) ranges = {0};
    if (!u->has_stmt_list || !read_header(&t->program, u, t))
        return true;
    const uint8_t *at = t->program.c.at, *const end = t->program.c.end;
    bool ok = true;
    t->budget = 64 * (uint64_t)(end - at);
    while (ok && at < end) {
        struct found f = scan(t, &at);
        /* Sequences at or near address 0 are remains of code that the linker dropped. */
        if (!f.whole || f.low < low || f.low >= high || f.high <= f.low ||
            t->sequences.nr >= NO_OWNER) {
            t->marks.nr = f.sequence.first;
            ok = !f.no_memory;
            continue;
        }
        uint32_t owner = (uint32_t)t->sequences.nr;
        ok = !f.no_memory && vec_push(&t->sequences, f.sequence) &&
             vec_push(&ranges, (struct segment_range){f.low, f.high, owner});
    }
    ok = ok && segments_make(&t->segments, ranges.at, ranges.nr);
    vec_free(&ranges);
    return ok;
}

/* Returns the last mark of the sequence that is not above the address. */
static const struct line_mark *find_mark(const struct line_table *t, const struct line_sequence *s,
                                         uint64_t address)
{
    const struct line_mark *base = &t->marks.at[s->first];
    for (size_t nr = s->ordered ? s->nr : 1; nr > 1;) {
        size_t half = nr / 2;
        base += base[half].address <= address ? half : 0;
        nr -= half;
    }
    return base;
}

bool line_table_row(struct line_table *t, uint64_t address, struct line_row *ret)
{
    uint32_t owner = segments_find(&t->segments, address);
    if (owner == NO_OWNER)
        return false;
    const struct line_sequence *s = &t->sequences.at[owner];
    const struct line_mark *mark = find_mark(t, s, address);
    const uint8_t *at = t->program.c.start + mark->at, *const from = at;
    struct machine m = {mark->address, mark->line, mark->file, mark->column, mark->op_index};
    struct machine best = m;
    /* The last row at an address counts. Addresses normally ascend. Otherwise the file is odd:
     * search the whole sequence for the highest address not above `address`, until the budget is
     * used up. */
    while (next_row(&t->program, &at, &m) == CAME_ROW && (!s->ordered || m.address <= address) &&
           (s->ordered || (uint64_t)(at - from) <= t->budget))
        if (m.address <= address && m.address >= best.address)
            best = m;
    if (!s->ordered)
        t->budget -= (uint64_t)(at - from) < t->budget ? (uint64_t)(at - from) : t->budget;
    *ret = (struct line_row){.line = best.line, .file = best.file, .column = best.column};
    return true;
}

void line_table_free(struct line_table *t)
{
    vec_free(&t->sequences);
    vec_free(&t->marks);
    segments_free(&t->segments);
    vec_free(&t->files);
}

/* ---- paths ------------------------------------------------------------------------------- */

static void add_folder(struct text *t, const char *folder)
{
    text_string(t, folder);
    text_char(t, '/');
}

const char *line_table_path(struct line_table *t, const struct dwarf_unit *u, uint32_t file,
                            struct intern *strings)
{
    uint32_t index = t->from_zero ? file : file - 1;
    if (index >= t->files.nr || !t->files.at[index].name)
        return NULL;
    struct line_file *f = &t->files.at[index];
    if (f->path)
        return f->path;
    struct text text = {0};
    bool absolute = f->name[0] == '/', absolute_dir = f->dir && f->dir[0] == '/';
    if (!absolute && !absolute_dir && u->comp_dir)
        add_folder(&text, u->comp_dir);
    if (!absolute && f->dir)
        add_folder(&text, f->dir);
    text_string(&text, f->name);
    if (!text.failed)
        f->path = intern_bytes(strings, text.at ? text.at : "", text.size);
    text_free(&text);
    return f->path;
}
