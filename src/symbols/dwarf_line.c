/* SPDX-License-Identifier: GPL-2.0-only */
/* Line programs (DWARF 2-5): run once, rows kept in address order. */
#include "base/text.h"
#include "symbols/dwarf_index.h"
#include "symbols/sort.h"

#include <dwarf.h>
#include <stdlib.h>

/* ---- header ------------------------------------------------------------------------------ */

struct line_program {
    struct cursor c;         /* the program */
    struct dwarf_unit forms; /* the unit, with the table's own sizes, to read forms by */
    uint8_t min_length, max_ops, line_range, opcode_base;
    int8_t line_base;
    const uint8_t *opcode_lengths;
};

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

/* An entry must take room, or a count from the file could make a list of any length. */
static bool takes_room(const struct cursor *c, uint64_t nr, const struct entry_format *f)
{
    return f->nr > 0 && nr <= cursor_left(c);
}

static bool add_file(struct line_table *t, const struct dirs *dirs, const char *name, uint64_t dir)
{
    struct line_file file = {.name = name, .dir = dir < dirs->at.nr ? dirs->at.at[dir] : NULL};
    return t->files.nr >= ROW_END || vec_push(&t->files, file);
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
    t->from_zero = p->forms.version >= 5;
    struct dirs dirs = {0};
    bool ok = t->from_zero ? read_lists_5(p, &c, t, &dirs) : read_lists_old(&c, t, &dirs);
    vec_free(&dirs.at);
    return ok;
}

/* ---- program ----------------------------------------------------------------------------- */

struct sequence {
    uint64_t low;
    size_t first, nr; /* rows */
};

struct machine {
    struct line_table raw; /* rows in the program's order */
    VEC(struct sequence) sequences;
    uint64_t address, low, high;
    uint32_t line, file, column, op_index;
    size_t first; /* row of the running sequence */
    bool no_memory;
};

static void reset(struct machine *m)
{
    m->address = 0;
    m->line = m->file = 1;
    m->column = m->op_index = 0;
    m->first = m->raw.rows.nr;
}

static void emit(struct machine *m, bool end)
{
    size_t nr = m->raw.rows.nr;
    struct line_row r = {m->address, m->line, (uint16_t)(m->file < ROW_END ? m->file : ROW_END - 1),
                         (uint16_t)(m->column <= UINT16_MAX ? m->column : 0)};
    if (end)
        r.file = ROW_END;
    if (nr > m->first && m->raw.rows.at[nr - 1].address == r.address)
        m->raw.rows.at[nr - 1] = r; /* the last row of an address counts */
    else if (!vec_push(&m->raw.rows, r))
        m->no_memory = true;
    if (!end)
        return;
    /* Of code that the linker dropped only sequences at 0 or so are left. */
    nr = m->raw.rows.nr;
    uint64_t low = nr > m->first ? m->raw.rows.at[m->first].address : 0;
    if (nr < m->first + 2 || low < m->low || low >= m->high)
        m->raw.rows.nr = m->first;
    else if (!vec_push(&m->sequences, (struct sequence){low, m->first, nr - m->first}))
        m->no_memory = true;
    reset(m);
}

static void advance(const struct line_program *p, struct machine *m, uint64_t operations)
{
    if (p->max_ops <= 1) {
        m->address += p->min_length * operations;
        return;
    }
    uint64_t ops = m->op_index + operations;
    m->address += p->min_length * (ops / p->max_ops);
    m->op_index = (uint32_t)(ops % p->max_ops);
}

static void extended(struct line_program *p, struct machine *m)
{
    uint64_t size = cursor_uleb128(&p->c);
    const uint8_t *body = cursor_bytes(&p->c, size);
    if (!body || size == 0)
        return;
    struct cursor c = cursor_make(body, size, p->c.swap, p->c.source, p->c.section, 0);
    switch (cursor_u8(&c)) {
    case DW_LNE_end_sequence:
        emit(m, true);
        break;
    case DW_LNE_set_address:
        m->address = dwarf_sized(&c, size - 1 == 4 ? 4 : 8);
        m->op_index = 0;
        break;
    default:
        break;
    }
}

static void standard(struct line_program *p, struct machine *m, uint8_t opcode)
{
    switch (opcode) {
    case DW_LNS_copy:
        emit(m, false);
        break;
    case DW_LNS_advance_pc:
        advance(p, m, cursor_uleb128(&p->c));
        break;
    case DW_LNS_advance_line:
        m->line += (uint32_t)cursor_sleb128(&p->c);
        break;
    case DW_LNS_set_file:
        m->file = (uint32_t)cursor_uleb128(&p->c);
        break;
    case DW_LNS_set_column:
        m->column = (uint32_t)cursor_uleb128(&p->c);
        break;
    case DW_LNS_const_add_pc:
        advance(p, m, (255u - p->opcode_base) / p->line_range);
        break;
    case DW_LNS_fixed_advance_pc:
        m->address += cursor_u16(&p->c);
        m->op_index = 0;
        break;
    case DW_LNS_negate_stmt:
    case DW_LNS_set_basic_block:
    case DW_LNS_set_prologue_end:
    case DW_LNS_set_epilogue_begin:
        break;
    default:
        for (unsigned i = 0; i < p->opcode_lengths[opcode - 1]; i++)
            (void)cursor_uleb128(&p->c);
    }
}

static void run(struct line_program *p, struct machine *m)
{
    reset(m);
    while (cursor_left(&p->c) && !p->c.failed && !m->no_memory) {
        uint8_t opcode = cursor_u8(&p->c);
        if (opcode >= p->opcode_base) {
            unsigned adjusted = opcode - p->opcode_base;
            advance(p, m, adjusted / p->line_range);
            m->line += (uint32_t)(p->line_base + (int)(adjusted % p->line_range));
            emit(m, false);
        } else if (opcode == 0) {
            extended(p, m);
        } else {
            standard(p, m, opcode);
        }
    }
}

/* ---- rows in order ----------------------------------------------------------------------- */

static bool sort_rows(struct line_row *rows, size_t nr)
{
    size_t i = 1;
    while (i < nr && rows[i].address >= rows[i - 1].address)
        i++;
    if (i >= nr)
        return true;
    struct sort_key *keys = malloc(nr * sizeof(*keys));
    struct line_row *copy = malloc(nr * sizeof(*copy));
    bool ok = keys && copy;
    for (i = 0; ok && i < nr; i++)
        keys[i] = (struct sort_key){rows[i].address, (uint32_t)i};
    if (ok && (ok = sort_keys(keys, nr))) {
        memcpy(copy, rows, nr * sizeof(*copy));
        for (i = 0; i < nr; i++)
            rows[i] = copy[keys[i].index];
    }
    free(keys);
    free(copy);
    return ok;
}

static bool order_sequences(struct machine *m, struct line_table *t)
{
    size_t nr = m->sequences.nr;
    struct sort_key *keys = malloc((nr + 1) * sizeof(*keys));
    bool ok = keys && m->raw.rows.nr < UINT32_MAX && vec_reserve(&t->rows, m->raw.rows.nr);
    for (size_t i = 0; ok && i < nr; i++)
        keys[i] = (struct sort_key){m->sequences.at[i].low, (uint32_t)i};
    ok = ok && sort_keys(keys, nr);
    for (size_t i = 0; ok && i < nr; i++) {
        const struct sequence *s = &m->sequences.at[keys[i].index];
        /* Inside a sequence addresses ascend, or the file is odd; then all but the end is sorted.
         */
        ok = sort_rows(m->raw.rows.at + s->first, s->nr - 1);
        memcpy(t->rows.at + t->rows.nr, m->raw.rows.at + s->first, s->nr * sizeof(struct line_row));
        t->rows.nr += s->nr;
    }
    free(keys);
    /* Sequences that overlap (damaged files) still leave a table in order. */
    return ok && sort_rows(t->rows.at, t->rows.nr);
}

bool line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t low, uint64_t high)
{
    struct line_program p = {0};
    struct machine m = {.low = low, .high = high};
    if (!u->has_stmt_list || !read_header(&p, u, t))
        return true;
    run(&p, &m);
    bool ok = !m.no_memory && (m.sequences.nr == 0 || order_sequences(&m, t));
    vec_free(&m.raw.rows);
    vec_free(&m.sequences);
    return ok;
}

void line_table_free(struct line_table *t)
{
    vec_free(&t->rows);
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
    const char *path = atomic_load_explicit(&f->path, memory_order_acquire);
    if (path)
        return path;
    struct text text = {0};
    bool absolute = f->name[0] == '/', absolute_dir = f->dir && f->dir[0] == '/';
    if (!absolute && !absolute_dir && u->comp_dir)
        add_folder(&text, u->comp_dir);
    if (!absolute && f->dir)
        add_folder(&text, f->dir);
    text_string(&text, f->name);
    if (!text.failed)
        path = intern_bytes(strings, text.at ? text.at : "", text.size);
    text_free(&text);
    if (path)
        atomic_store_explicit(&f->path, path, memory_order_release);
    return path;
}
