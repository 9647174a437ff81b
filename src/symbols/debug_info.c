/* SPDX-License-Identifier: GPL-2.0-only */
/* Looks up the unit of an address, the unit's index, and the frames at the address. */
#include "symbols/debug_info.h"
#include "dso/elf_image.h"
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>

enum { NR_LOCKS = 16, MAX_ORIGINS = 16 };

/* A .dwo file that some unit needed. */
struct split_file {
    const struct elf_image *image;
    struct dwarf_file file;
};

struct dwarf {
    struct dso *dso;
    struct intern *strings;
    struct shown *shown;
    bool lines;
    uint64_t low, high; /* bounds of the code */
    struct dwarf_file file, alt;
    struct segments segments;        /* of the address space; the owners are unit numbers */
    pthread_mutex_t locks[NR_LOCKS]; /* protect units' indexes, by unit number */
    pthread_mutex_t split_lock;
    VEC(struct split_file *) splits;
};

/* ---- units by address -------------------------------------------------------------------- */

struct collect {
    VEC(struct segment_range) ranges;
    const struct dwarf *d;
    uint32_t unit;
    size_t max;
    bool no_memory;
};

static void add_range(void *context, uint64_t low, uint64_t high)
{
    struct collect *c = context;
    if (low < c->d->low || low >= c->d->high || c->ranges.nr >= c->max)
        return;
    if (!vec_push(&c->ranges, (struct segment_range){low, high, c->unit}))
        c->no_memory = true;
}

/* Read one set of .debug_aranges, for units whose root entry does not give their code ranges. */
static bool read_arange_set(struct dwarf *d, struct cursor *c, struct collect *to,
                            const bool *known)
{
    unsigned offset_size = 4;
    uint64_t set = cursor_offset(c), length = cursor_u32(c);
    if (length == 0xffffffff) {
        length = cursor_u64(c);
        offset_size = 8;
    }
    if (c->failed || length > cursor_left(c))
        return false;
    struct cursor body = *c;
    body.end = c->at + length;
    cursor_skip(c, length);
    cursor_skip(&body, 2);
    uint64_t info = dwarf_offset(&body, offset_size);
    unsigned size = cursor_u8(&body);
    cursor_skip(&body, 1);
    if (body.failed || (size != 4 && size != 8) || info > UINT64_MAX - 64)
        return true;
    /* Pairs are aligned to their own size, counted from the start of the set. */
    cursor_skip(&body, (2 * size - (cursor_offset(&body) - set) % (2 * size)) % (2 * size));
    struct dwarf_unit *u = NULL;
    for (unsigned header = 11; header <= 40 && !u; header++)
        u = dwarf_unit_at(&d->file, info + header);
    if (!u || u->offset != info || known[u - d->file.units.at])
        return true;
    to->unit = (uint32_t)(u - d->file.units.at);
    while (!body.failed && cursor_left(&body)) {
        uint64_t low = dwarf_sized(&body, size), span = dwarf_sized(&body, size);
        if (!body.failed && span && low + span > low)
            add_range(to, low, low + span);
    }
    return true;
}

static bool collect_units(struct dwarf *d, struct collect *c)
{
    size_t nr = d->file.units.nr;
    bool *known = calloc(nr + 1, sizeof(*known));
    if (!known)
        return false;
    for (size_t i = 0; i < nr && !c->no_memory; i++) {
        const struct dwarf_unit *u = &d->file.units.at[i];
        struct dwarf_pcs pcs = {.high = u->high_pc, .ranges = u->ranges};
        size_t before = c->ranges.nr;
        c->unit = (uint32_t)i;
        pcs.low =
            (struct dwarf_value){.form = u->has_low_pc ? DW_FORM_addr : 0, .number = u->low_pc};
        dwarf_pc_ranges(u, &pcs, add_range, c);
        known[i] = c->ranges.nr > before;
    }
    struct cursor aranges = dwarf_section_cursor(&d->file, SEC_ARANGES, 0);
    while (cursor_left(&aranges) && read_arange_set(d, &aranges, c, known))
        ;
    free(known);
    return !c->no_memory;
}

static bool index_units(struct dwarf *d)
{
    struct collect c = {.d = d};
    c.max = 1024 + (d->file.sec[SEC_INFO].size + d->file.sec[SEC_RANGES].size +
                    d->file.sec[SEC_RNGLISTS].size + d->file.sec[SEC_ARANGES].size) /
                       2;
    bool ok = collect_units(d, &c) && segments_make(&d->segments, c.ranges.at, c.ranges.nr);
    vec_free(&c.ranges);
    return ok;
}

/* ---- creation ---------------------------------------------------------------------------- */

/* Find where code is loaded: code outside belongs to functions that the linker dropped. */
static void code_bounds(struct dwarf *d, const struct elf_image *image)
{
    const struct elf_tables *t = image->tables;
    d->low = UINT64_MAX;
    for (uint32_t i = 1; i < t->nr_sections; i++) {
        const struct elf_shdr *s = &t->sections[i];
        if (!(s->flags & SHF_EXECINSTR) || !(s->flags & SHF_ALLOC))
            continue;
        d->low = s->addr < d->low ? s->addr : d->low;
        d->high = s->addr + s->size > d->high ? s->addr + s->size : d->high;
    }
    for (uint32_t i = 0; i < t->nr_segments && d->low > d->high; i++) {
        const struct elf_phdr *p = &t->segments[i];
        if (p->type == PT_LOAD && p->flags & PF_X) {
            d->low = p->vaddr;
            d->high = p->vaddr + p->memsz;
        }
    }
}

struct dwarf *dwarf_create(struct dso *dso, struct intern *strings, struct shown *shown, bool lines)
{
    const struct elf_image *image = dso_image(dso), *debug = dso_debug_image(dso);
    struct dwarf *d = image && debug ? calloc(1, sizeof(*d)) : NULL;
    if (!d)
        return NULL;
    *d = (struct dwarf){.dso = dso, .strings = strings, .shown = shown, .lines = lines};
    for (int i = 0; i < NR_LOCKS; i++)
        pthread_mutex_init(&d->locks[i], NULL);
    pthread_mutex_init(&d->split_lock, NULL);
    code_bounds(d, image);
    if (!dwarf_file_open(&d->file, debug, false, lines)) {
        dwarf_free(d);
        return NULL;
    }
    const struct elf_image *alt = dso_alt_image(dso);
    if (alt && dwarf_file_open(&d->alt, alt, false, lines))
        d->file.alt = &d->alt;
    if (!index_units(d)) {
        dwarf_free(d);
        return NULL;
    }
    return d;
}

static void file_free(struct dwarf_file *f)
{
    vec_foreach (u, &f->units)
        unit_index_free(u->index);
    dwarf_file_close(f);
}

void dwarf_free(struct dwarf *d)
{
    if (!d)
        return;
    file_free(&d->file);
    file_free(&d->alt);
    vec_foreach (s, &d->splits) {
        file_free(&(*s)->file);
        free(*s);
    }
    vec_free(&d->splits);
    segments_free(&d->segments);
    for (int i = 0; i < NR_LOCKS; i++)
        pthread_mutex_destroy(&d->locks[i]);
    pthread_mutex_destroy(&d->split_lock);
    free(d);
}

/* ---- split DWARF ------------------------------------------------------------------------- */

/* Returns the file's units, read at first need; an empty file is kept too. Call under
 * split_lock. */
static struct split_file *split_open(struct dwarf *d, const struct elf_image *image)
{
    vec_foreach (s, &d->splits)
        if ((*s)->image == image)
            return *s;
    struct split_file *s = calloc(1, sizeof(*s));
    if (!s || !vec_push(&d->splits, s)) {
        free(s);
        return NULL;
    }
    s->image = image;
    dwarf_file_open(&s->file, image, true, false);
    return s;
}

static struct dwarf_unit *split_unit(struct dwarf *d, const struct dwarf_unit *skeleton)
{
    struct dwarf_unit *found = NULL;
    pthread_mutex_lock(&d->split_lock);
    const struct elf_image *image = dso_dwo_image(d->dso, skeleton->comp_dir, skeleton->dwo_name);
    if (!image)
        image = dso_dwp_image(d->dso);
    struct split_file *s = image ? split_open(d, image) : NULL;
    for (size_t i = 0; s && !found && i < s->file.units.nr; i++) {
        struct dwarf_unit *u = &s->file.units.at[i];
        if (u->dwo_id == skeleton->dwo_id && (!u->skeleton || u->skeleton == skeleton))
            found = u;
    }
    if (found && !found->skeleton)
        found->skeleton = skeleton;
    pthread_mutex_unlock(&d->split_lock);
    return found;
}

/* ---- the index of a unit ----------------------------------------------------------------- */

/* Returns the unit whose entries describe the code: the unit itself, or its split unit if it is a
 * skeleton. */
static struct dwarf_unit *entries_unit(struct dwarf *d, struct dwarf_unit *u)
{
    struct dwarf_unit *split = u->dwo_name ? split_unit(d, u) : NULL;
    return split ? split : u;
}

/* Call under the unit's lock. */
static struct unit_index *index_get(struct dwarf *d, struct dwarf_unit *u)
{
    if (!u->index)
        u->index = unit_index_create(entries_unit(d, u), u, d->low, d->high);
    return u->index;
}

/* ---- names ------------------------------------------------------------------------------- */

/* The name attributes of one entry, and the entry whose instance or definition it is. */
struct entry_names {
    struct dwarf_value name, linkage, origin;
};

static bool read_names(struct dwarf_unit *u, uint64_t die, struct entry_names *ret)
{
    const struct dwarf_abbrevs *all = dwarf_abbrevs(u);
    struct cursor c = dwarf_cursor(u, die);
    uint64_t code = cursor_uleb128(&c);
    const struct dwarf_abbrev *a = all && !c.failed ? dwarf_abbrev_find(all, code) : NULL;
    if (!a)
        return false;
    for (uint32_t i = 0; i < a->nr_attrs; i++) {
        const struct dwarf_attr *attr = &all->attrs.at[a->first_attr + i];
        struct dwarf_value v;
        if (!dwarf_read_value(u, &c, attr, &v))
            return false;
        if (attr->name == DW_AT_name)
            ret->name = v;
        else if (attr->name == DW_AT_linkage_name || attr->name == DW_AT_MIPS_linkage_name)
            ret->linkage = v;
        else if (attr->name == DW_AT_abstract_origin || attr->name == DW_AT_specification)
            ret->origin = v;
    }
    return true;
}

/* Prefer a linkage name from anywhere in the chain of origins; else take the first plain name. */
static const char *find_name(struct dwarf_unit *u, uint64_t die)
{
    struct dwarf_value plain = {0};
    const struct dwarf_unit *plain_in = NULL;
    for (int i = 0; u && i < MAX_ORIGINS; i++) {
        struct entry_names e = {0};
        struct dwarf_file *file;
        if (!read_names(u, die, &e))
            break;
        const char *linkage = e.linkage.form ? dwarf_string(u, &e.linkage) : NULL;
        if (linkage)
            return linkage;
        if (!plain_in && e.name.form) {
            plain = e.name;
            plain_in = u;
        }
        if (!e.origin.form || !dwarf_reference(u, &e.origin, &file, &die))
            break;
        u = dwarf_unit_at(file, die);
    }
    return plain_in ? dwarf_string(plain_in, &plain) : NULL;
}

static const char *node_name(struct dwarf *d, struct dwarf_unit *u, struct function_node *n)
{
    if (!n->name) {
        const char *name = find_name(u, n->die);
        n->name = name ? shown_name(d->shown, name) : NULL;
    }
    return n->name;
}

/* ---- look up ----------------------------------------------------------------------------- */

static struct dwarf_unit *unit_of(struct dwarf *d, uint64_t vaddr)
{
    uint32_t unit = segments_find(&d->segments, vaddr);
    return unit == NO_NODE ? NULL : &d->file.units.at[unit];
}

/* Collect the functions around `vaddr`, innermost first. The caller has set the position in
 * `ret[0]`; the position in each outer function is the call of the inner function. `lines` NULL:
 * positions are not wanted. */
static unsigned unroll(struct dwarf *d, struct unit_index *x, struct line_table *lines,
                       uint64_t vaddr, struct source_frame *ret)
{
    unsigned nr = 0;
    struct function_tree *tree = unit_index_tree(x, vaddr);
    for (uint32_t at = tree ? segments_find(&tree->segments, vaddr) : (uint32_t)NO_NODE;
         at != NO_NODE && nr < DWARF_MAX_FRAMES;) {
        struct function_node *n = &tree->nodes.at[at];
        ret[nr].name = node_name(d, x->entries, n);
        nr++;
        if (n->parent == NO_NODE || nr == DWARF_MAX_FRAMES)
            break;
        ret[nr] = (struct source_frame){0};
        if (lines) {
            ret[nr].file = line_table_path(lines, x->lines_of, n->call_file, d->strings);
            ret[nr].line = n->call_line;
            ret[nr].column = n->call_column;
        }
        at = n->parent;
    }
    return nr;
}

/* Call under the unit's lock. */
static unsigned find_in_unit(struct dwarf *d, struct dwarf_unit *u, uint64_t vaddr, bool inlines,
                             struct source_frame *ret)
{
    struct unit_index *x = index_get(d, u);
    if (!x)
        return 0;
    ret[0] = (struct source_frame){0};
    struct line_table *lines = d->lines ? unit_index_lines(x) : NULL;
    struct line_row row;
    bool known = lines && line_table_row(lines, vaddr, &row);
    if (known) {
        ret[0].file = line_table_path(lines, u, row.file, d->strings);
        ret[0].line = row.line;
        ret[0].column = row.column;
    }
    unsigned nr = inlines ? unroll(d, x, lines, vaddr, ret) : 0;
    return nr ? nr : known;
}

unsigned dwarf_find(struct dwarf *d, uint64_t vaddr, bool inlines,
                    struct source_frame ret[DWARF_MAX_FRAMES])
{
    struct dwarf_unit *u = unit_of(d, vaddr);
    if (!u)
        return 0;
    pthread_mutex_t *lock = &d->locks[(size_t)(u - d->file.units.at) % NR_LOCKS];
    pthread_mutex_lock(lock);
    unsigned nr = find_in_unit(d, u, vaddr, inlines, ret);
    pthread_mutex_unlock(lock);
    return nr;
}
