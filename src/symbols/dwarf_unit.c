/* SPDX-License-Identifier: GPL-2.0-only */
/* Units, abbreviations, attributes (DWARF 2-5, GNU's split and alternate-file extensions). */
#include "symbols/dwarf_unit.h"
#include "dso/elf_image.h"
#include "symbols/dwarf_package.h"

#include <dwarf.h>
#include <stdlib.h>

/* Forms that have had several names in <dwarf.h>. */
enum {
    FORM_REF_ALT = 0x1f20,
    FORM_STRP_ALT = 0x1f21,
    FORM_ADDR_INDEX = 0x1f01,
    FORM_STR_INDEX = 0x1f02
};

/* ---- abbreviations ----------------------------------------------------------------------- */

/* Returns the bytes that an attribute of that form takes; NOT_FIXED: it depends on the data. */
static uint32_t form_size(const struct dwarf_unit *u, uint16_t form)
{
    switch (form) {
    case DW_FORM_implicit_const:
    case DW_FORM_flag_present:
        return 0;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
        return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
        return 2;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        return 3;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
        return 4;
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
        return 8;
    case DW_FORM_data16:
        return 16;
    case DW_FORM_addr:
        return u->address_size;
    case DW_FORM_ref_addr:
        return u->version <= 2 ? u->address_size : u->offset_size;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_sec_offset:
    case DW_FORM_strp_sup:
    case FORM_REF_ALT:
    case FORM_STRP_ALT:
        return u->offset_size;
    default:
        return NOT_FIXED;
    }
}

static int by_code(const void *a, const void *b)
{
    const struct dwarf_abbrev *x = a, *y = b;
    return x->code < y->code ? -1 : x->code > y->code;
}

static uint8_t slot_of(uint16_t name)
{
    switch (name) {
    case DW_AT_low_pc:
        return SLOT_LOW;
    case DW_AT_high_pc:
        return SLOT_HIGH;
    case DW_AT_ranges:
        return SLOT_RANGES;
    case DW_AT_call_file:
        return SLOT_CALL_FILE;
    case DW_AT_call_line:
        return SLOT_CALL_LINE;
    case DW_AT_call_column:
        return SLOT_CALL_COLUMN;
    default:
        return SLOT_NONE;
    }
}

/* Read one declaration. Returns false at the end of the table or of the section. */
static bool read_abbrev(const struct dwarf_unit *u, struct cursor *c, struct dwarf_abbrevs *all)
{
    struct dwarf_abbrev e = {
        .code = cursor_uleb128(c), .first_attr = (uint32_t)all->attrs.nr, .sibling = NO_ATTR};
    if (c->failed || e.code == 0)
        return false;
    e.tag = (uint16_t)cursor_uleb128(c);
    e.children = cursor_u8(c) != 0;
    for (;;) {
        struct dwarf_attr a = {.name = (uint16_t)cursor_uleb128(c)};
        a.form = (uint16_t)cursor_uleb128(c);
        if (a.form == DW_FORM_implicit_const)
            a.implicit = cursor_sleb128(c);
        if (c->failed)
            return false;
        if (a.name == 0 && a.form == 0)
            break;
        a.size = form_size(u, a.form);
        a.slot = slot_of(a.name);
        e.fixed_size =
            a.size == NOT_FIXED || e.fixed_size > 1 << 20 ? NOT_FIXED : e.fixed_size + a.size;
        if (a.name == DW_AT_sibling)
            e.sibling = e.nr_attrs;
        e.has_code |= a.slot == SLOT_LOW || a.slot == SLOT_RANGES;
        e.nr_attrs++;
        if (!vec_push(&all->attrs, a))
            return false;
    }
    bool function = e.tag == DW_TAG_subprogram || e.tag == DW_TAG_inlined_subroutine;
    e.is_leaf = !e.children && !(function && e.has_code);
    return vec_push(&all->entries, e);
}

static void abbrevs_free(struct dwarf_abbrevs *a)
{
    if (!a)
        return;
    vec_free(&a->entries);
    vec_free(&a->attrs);
    free(a);
}

static struct dwarf_abbrevs *abbrevs_read(const struct dwarf_unit *u)
{
    struct dwarf_abbrevs *all = calloc(1, sizeof(*all));
    struct cursor c = dwarf_section_cursor(u->file, SEC_ABBREV, u->abbrev_offset);
    while (all && read_abbrev(u, &c, all))
        ;
    if (!all)
        return NULL;
    all->dense = true;
    for (size_t i = 0; i < all->entries.nr; i++)
        all->dense &= all->entries.at[i].code == i + 1;
    if (!all->dense && all->entries.nr)
        qsort(all->entries.at, all->entries.nr, sizeof(*all->entries.at), by_code);
    return all;
}

const struct dwarf_abbrevs *dwarf_abbrevs(struct dwarf_unit *u)
{
    struct dwarf_abbrevs *a = atomic_load_explicit(&u->abbrevs, memory_order_acquire), *none = NULL;
    if (a)
        return a;
    a = abbrevs_read(u);
    /* Two threads may have read the table: keep the first one's. */
    if (a && !atomic_compare_exchange_strong(&u->abbrevs, &none, a)) {
        abbrevs_free(a);
        a = none;
    }
    return a;
}

void dwarf_unit_release(struct dwarf_unit *u)
{
    abbrevs_free(atomic_exchange(&u->abbrevs, NULL));
}

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *a, uint64_t code)
{
    struct dwarf_abbrev key = {.code = code};
    return a->entries.nr ? bsearch(&key, a->entries.at, a->entries.nr, sizeof(key), by_code) : NULL;
}

/* ---- attributes -------------------------------------------------------------------------- */

struct cursor dwarf_cursor(const struct dwarf_unit *u, uint64_t offset)
{
    struct cursor c = dwarf_section_cursor(u->file, SEC_INFO, offset);
    if (offset < u->die || offset >= u->end)
        c.failed = true;
    if (!c.failed)
        c.end = u->file->sec[SEC_INFO].bytes + u->end;
    return c;
}

static void read_block(struct cursor *c, uint64_t size, struct dwarf_value *ret)
{
    ret->number = size;
    ret->bytes = cursor_bytes(c, size);
}

static uint64_t read_u24(const struct dwarf_unit *u, struct cursor *c)
{
    const uint8_t *p = cursor_bytes(c, 3);
    if (!p)
        return 0;
    bool big = u->file->image->swapped == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    return big ? (uint64_t)p[0] << 16 | p[1] << 8 | p[2] : (uint64_t)p[2] << 16 | p[1] << 8 | p[0];
}

bool dwarf_read_value(const struct dwarf_unit *u, struct cursor *c, const struct dwarf_attr *a,
                      struct dwarf_value *ret)
{
    *ret = (struct dwarf_value){.form = a->form};
    if (a->form == DW_FORM_indirect) {
        ret->form = (uint16_t)cursor_uleb128(c);
        if (ret->form == DW_FORM_indirect || ret->form == DW_FORM_implicit_const)
            c->failed = true;
    }
    uint32_t size;
    switch (ret->form) {
    case DW_FORM_implicit_const:
        ret->number = (uint64_t)a->implicit;
        break;
    case DW_FORM_flag_present:
        ret->number = 1;
        break;
    case DW_FORM_sdata:
        ret->number = (uint64_t)cursor_sleb128(c);
        break;
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case FORM_ADDR_INDEX:
    case FORM_STR_INDEX:
        ret->number = cursor_uleb128(c);
        break;
    case DW_FORM_string:
        ret->bytes = (const uint8_t *)cursor_string(c);
        break;
    case DW_FORM_exprloc:
    case DW_FORM_block:
        read_block(c, cursor_uleb128(c), ret);
        break;
    case DW_FORM_block1:
        read_block(c, cursor_u8(c), ret);
        break;
    case DW_FORM_block2:
        read_block(c, cursor_u16(c), ret);
        break;
    case DW_FORM_block4:
        read_block(c, cursor_u32(c), ret);
        break;
    case DW_FORM_data16:
        read_block(c, 16, ret);
        break;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        ret->number = read_u24(u, c);
        break;
    default:
        size = form_size(u, ret->form);
        if (size == NOT_FIXED)
            c->failed = true; /* an unknown form: its size is unknown too */
        else
            ret->number = dwarf_sized(c, size);
    }
    return !c->failed;
}

/* Skip a form of no fixed size; the common forms are skipped without making a value. */
static bool skip_value(const struct dwarf_unit *u, struct cursor *c, const struct dwarf_attr *a)
{
    struct dwarf_value ignored;
    switch (a->form) {
    case DW_FORM_exprloc:
    case DW_FORM_block:
        cursor_skip(c, cursor_uleb128(c));
        return !c->failed;
    case DW_FORM_block1:
        cursor_skip(c, cursor_u8(c));
        return !c->failed;
    case DW_FORM_sdata:
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
        (void)cursor_uleb128(c);
        return !c->failed;
    default:
        return dwarf_read_value(u, c, a, &ignored);
    }
}

void dwarf_skip_some(const struct dwarf_unit *u, struct cursor *c, const struct dwarf_abbrevs *all,
                     const struct dwarf_abbrev *a, uint32_t nr)
{
    const struct dwarf_attr *attr = all->attrs.at + a->first_attr;
    for (uint32_t i = 0; i < nr; i++, attr++) {
        if (attr->size != NOT_FIXED)
            cursor_skip(c, attr->size);
        else if (!skip_value(u, c, attr))
            return;
    }
}

static const char *string_at(const struct dwarf_file *f, enum dwarf_section s, uint64_t offset)
{
    struct cursor c = dwarf_section_cursor(f, s, offset);
    return cursor_string(&c);
}

static const char *indexed_string(const struct dwarf_unit *u, uint64_t index)
{
    if (index > UINT32_MAX)
        return NULL;
    struct cursor c = dwarf_section_cursor(u->file, SEC_STR_OFFSETS,
                                           u->str_offsets_base + index * u->offset_size);
    uint64_t offset = dwarf_offset(&c, u->offset_size);
    return c.failed ? NULL : string_at(u->file, SEC_STR, offset);
}

const char *dwarf_string(const struct dwarf_unit *u, const struct dwarf_value *v)
{
    switch (v->form) {
    case DW_FORM_string:
        return (const char *)v->bytes;
    case DW_FORM_strp:
        return string_at(u->file, SEC_STR, v->number);
    case DW_FORM_line_strp:
        return string_at(u->file, SEC_LINE_STR, v->number);
    case DW_FORM_strp_sup:
    case FORM_STRP_ALT:
        return u->file->alt ? string_at(u->file->alt, SEC_STR, v->number) : NULL;
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case FORM_STR_INDEX:
        return indexed_string(u, v->number);
    default:
        return NULL;
    }
}

/* The addresses of a split unit are in the file of its skeleton. */
static bool indexed_address(const struct dwarf_unit *u, uint64_t index, uint64_t *ret)
{
    const struct dwarf_unit *of = u->skeleton ? u->skeleton : u;
    if (index > UINT32_MAX)
        return false;
    struct cursor c =
        dwarf_section_cursor(of->file, SEC_ADDR, of->addr_base + index * of->address_size);
    *ret = dwarf_sized(&c, of->address_size);
    return !c.failed;
}

bool dwarf_address(const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *ret)
{
    switch (v->form) {
    case DW_FORM_addr:
        *ret = v->number;
        return true;
    case DW_FORM_addrx:
    case DW_FORM_addrx1:
    case DW_FORM_addrx2:
    case DW_FORM_addrx3:
    case DW_FORM_addrx4:
    case FORM_ADDR_INDEX:
        return indexed_address(u, v->number, ret);
    default:
        return false;
    }
}

bool dwarf_reference(const struct dwarf_unit *u, const struct dwarf_value *v,
                     struct dwarf_file **file, uint64_t *offset)
{
    *file = u->file;
    *offset = v->number;
    switch (v->form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
        *offset += u->offset;
        return true;
    case DW_FORM_ref_addr:
        return true;
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case FORM_REF_ALT:
        *file = u->file->alt;
        return *file != NULL;
    default:
        return false;
    }
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* Before DWARF 5: pairs relative to a base; (all ones, base) sets it, (0, 0) ends the list. */
static void ranges_old(const struct dwarf_unit *u, uint64_t offset, dwarf_each_range *each,
                       void *context)
{
    const struct dwarf_unit *of = u->skeleton ? u->skeleton : u;
    uint64_t base = of->low_pc, ones = of->address_size == 8 ? UINT64_MAX : UINT32_MAX;
    struct cursor c =
        dwarf_section_cursor(of->file, SEC_RANGES, offset + (u->skeleton ? of->ranges_base : 0));
    for (;;) {
        uint64_t low = dwarf_sized(&c, of->address_size), high = dwarf_sized(&c, of->address_size);
        if (c.failed || (low == 0 && high == 0))
            return;
        if (low == ones)
            base = high;
        else if (low < high)
            each(context, base + low, base + high);
    }
}

/* Read one entry of a DWARF 5 list. Returns false at its end. */
static bool range_entry(const struct dwarf_unit *u, struct cursor *c, uint64_t *base,
                        dwarf_each_range *each, void *context)
{
    uint64_t low = 0, high = 0;
    unsigned size = u->address_size;
    switch (cursor_u8(c)) {
    case DW_RLE_base_addressx:
        return indexed_address(u, cursor_uleb128(c), base) && !c->failed;
    case DW_RLE_startx_endx:
        if (!indexed_address(u, cursor_uleb128(c), &low) ||
            !indexed_address(u, cursor_uleb128(c), &high))
            return false;
        break;
    case DW_RLE_startx_length:
        if (!indexed_address(u, cursor_uleb128(c), &low))
            return false;
        high = low + cursor_uleb128(c);
        break;
    case DW_RLE_offset_pair:
        low = *base + cursor_uleb128(c);
        high = *base + cursor_uleb128(c);
        break;
    case DW_RLE_base_address:
        *base = dwarf_sized(c, size);
        return !c->failed;
    case DW_RLE_start_end:
        low = dwarf_sized(c, size);
        high = dwarf_sized(c, size);
        break;
    case DW_RLE_start_length:
        low = dwarf_sized(c, size);
        high = low + cursor_uleb128(c);
        break;
    default:
        return false;
    }
    if (!c->failed && low < high)
        each(context, low, high);
    return !c->failed;
}

static void ranges_5(const struct dwarf_unit *u, const struct dwarf_value *v,
                     dwarf_each_range *each, void *context)
{
    uint64_t at = v->number, base = u->skeleton ? u->skeleton->low_pc : u->low_pc;
    if (v->form == DW_FORM_rnglistx) {
        if (at > UINT32_MAX)
            return;
        struct cursor table =
            dwarf_section_cursor(u->file, SEC_RNGLISTS, u->rnglists_base + at * u->offset_size);
        at = u->rnglists_base + dwarf_offset(&table, u->offset_size);
        if (table.failed)
            return;
    }
    struct cursor c = dwarf_section_cursor(u->file, SEC_RNGLISTS, at);
    while (range_entry(u, &c, &base, each, context))
        ;
}

void dwarf_pc_ranges(const struct dwarf_unit *u, const struct dwarf_pcs *pcs,
                     dwarf_each_range *each, void *context)
{
    uint64_t low, high;
    if (pcs->ranges.form) {
        if (u->version >= 5)
            ranges_5(u, &pcs->ranges, each, context);
        else
            ranges_old(u, pcs->ranges.number, each, context);
        return;
    }
    if (!pcs->high.form || !dwarf_address(u, &pcs->low, &low))
        return;
    if (!dwarf_address(u, &pcs->high, &high))
        high = low + pcs->high.number;
    if (low < high)
        each(context, low, high);
}

/* ---- units ------------------------------------------------------------------------------- */

struct root {
    struct dwarf_value name, comp_dir, low, dwo_name, dwo_id;
};

static void root_attribute(struct dwarf_unit *u, uint16_t name, const struct dwarf_value *v,
                           struct root *r)
{
    switch (name) {
    case DW_AT_name:
        r->name = *v;
        break;
    case DW_AT_comp_dir:
        r->comp_dir = *v;
        break;
    case DW_AT_low_pc:
        r->low = *v;
        break;
    case DW_AT_high_pc:
        u->high_pc = *v;
        break;
    case DW_AT_ranges:
        u->ranges = *v;
        break;
    case DW_AT_stmt_list:
        u->stmt_list = v->number;
        u->has_stmt_list = true;
        break;
    case DW_AT_addr_base:
    case DW_AT_GNU_addr_base:
        u->addr_base = v->number;
        break;
    case DW_AT_str_offsets_base:
        u->str_offsets_base = v->number;
        break;
    case DW_AT_rnglists_base:
        u->rnglists_base = v->number;
        break;
    case DW_AT_GNU_ranges_base:
        u->ranges_base = v->number;
        break;
    case DW_AT_dwo_name:
    case DW_AT_GNU_dwo_name:
        r->dwo_name = *v;
        break;
    case DW_AT_GNU_dwo_id:
        u->dwo_id = v->number;
        break;
    default:
        break;
    }
}

/* Find the abbreviation of the root only; it is nearly always the first. `budget` bounds the cost
 * of many units with one long table. */
static bool root_abbrev(const struct dwarf_unit *u, uint64_t code, struct dwarf_abbrevs *all,
                        size_t *budget)
{
    struct cursor c = dwarf_section_cursor(u->file, SEC_ABBREV, u->abbrev_offset);
    while (*budget && read_abbrev(u, &c, all)) {
        --*budget;
        if (all->entries.at[all->entries.nr - 1].code == code)
            return true;
        all->entries.nr = all->attrs.nr = 0;
    }
    return false;
}

static bool read_root(struct dwarf_unit *u, struct dwarf_abbrevs *scratch, size_t *budget)
{
    struct root r = {0};
    struct cursor c = dwarf_cursor(u, u->die);
    uint64_t code = cursor_uleb128(&c);
    scratch->entries.nr = scratch->attrs.nr = 0;
    if (c.failed || !root_abbrev(u, code, scratch, budget))
        return false;
    for (size_t i = 0; i < scratch->attrs.nr; i++) {
        struct dwarf_value v;
        if (!dwarf_read_value(u, &c, &scratch->attrs.at[i], &v))
            return false;
        root_attribute(u, scratch->attrs.at[i].name, &v, &r);
    }
    u->name = dwarf_string(u, &r.name);
    u->comp_dir = dwarf_string(u, &r.comp_dir);
    u->dwo_name = dwarf_string(u, &r.dwo_name);
    if (!u->file->dwo)
        u->has_low_pc = dwarf_address(u, &r.low, &u->low_pc);
    return true;
}

/* Read a unit header. Returns false when the section ends or cannot be followed further. */
static bool read_header(struct dwarf_file *f, struct cursor *c, struct dwarf_unit *u)
{
    *u = (struct dwarf_unit){
        .file = f, .offset = cursor_offset(c), .offset_size = 4, .type = DW_UT_compile};
    uint64_t length = cursor_u32(c);
    if (length == 0xffffffff) {
        length = cursor_u64(c);
        u->offset_size = 8;
    }
    if (c->failed || length > cursor_left(c))
        return false;
    u->end = cursor_offset(c) + length;
    u->version = cursor_u16(c);
    if (u->version >= 5) {
        u->type = cursor_u8(c);
        u->address_size = cursor_u8(c);
        u->abbrev_offset = dwarf_offset(c, u->offset_size);
        if (u->type == DW_UT_skeleton || u->type == DW_UT_split_compile)
            u->dwo_id = cursor_u64(c);
    } else {
        u->abbrev_offset = dwarf_offset(c, u->offset_size);
        u->address_size = cursor_u8(c);
    }
    u->die = cursor_offset(c);
    return !c->failed;
}

/* A split unit's tables begin behind their headers; in a package, in the parts of the unit. */
static void dwo_bases(struct dwarf_unit *u, const struct dwarf_package *package)
{
    const struct dwarf_part *part = dwarf_package_find(package, u->offset);
    if (part) {
        u->abbrev_offset += part->abbrev;
        u->str_offsets_base = part->str_offsets;
        u->rnglists_base = part->rnglists;
    }
    if (u->version < 5)
        return;
    u->str_offsets_base += u->offset_size == 8 ? 16 : 8;
    u->rnglists_base += u->offset_size == 8 ? 20 : 12;
}

static bool is_readable(const struct dwarf_unit *u)
{
    return u->version >= 2 && u->version <= 5 && (u->address_size == 4 || u->address_size == 8) &&
           u->die < u->end;
}

static void read_units(struct dwarf_file *f)
{
    struct dwarf_abbrevs scratch = {0};
    struct dwarf_package package = {0};
    struct cursor c = dwarf_section_cursor(f, SEC_INFO, 0);
    struct dwarf_unit u;
    size_t budget = 4 << 20;
    if (f->dwo)
        dwarf_package_read(&package, f->image);
    while (cursor_left(&c) > 11 && read_header(f, &c, &u)) {
        bool wanted = is_readable(&u) && u.type != DW_UT_type && u.type != DW_UT_split_type;
        if (wanted && f->dwo)
            dwo_bases(&u, &package);
        if (wanted && read_root(&u, &scratch, &budget) && !vec_push(&f->units, u))
            break;
        c.at = f->sec[SEC_INFO].bytes + u.end;
    }
    vec_free(&scratch.entries);
    vec_free(&scratch.attrs);
    vec_free(&package.parts);
}

bool dwarf_file_open(struct dwarf_file *f, const struct elf_image *image, bool dwo, bool lines)
{
    static const char *const names[SEC_NR] = {
        ".debug_info",   ".debug_abbrev",   ".debug_str",  ".debug_line",        ".debug_line_str",
        ".debug_ranges", ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_aranges"};
    *f = (struct dwarf_file){.image = image, .dwo = dwo};
    for (int i = 0; i < SEC_NR; i++) {
        char name[64];
        struct elf_section s;
        size_t size = strlen(names[i]);
        if (i == SEC_LINE && !lines)
            continue;
        memcpy(name, names[i], size + 1);
        if (dwo)
            memcpy(name + size, ".dwo", 5);
        if (elf_image_section(image, name, &s) && s.bytes)
            f->sec[i] = (struct dwarf_span){s.bytes, s.size};
    }
    if (f->sec[SEC_INFO].bytes && f->sec[SEC_ABBREV].bytes)
        read_units(f);
    return f->units.nr > 0;
}

void dwarf_file_close(struct dwarf_file *f)
{
    vec_foreach (u, &f->units)
        dwarf_unit_release(u);
    vec_free(&f->units);
}

struct dwarf_unit *dwarf_unit_at(struct dwarf_file *f, uint64_t offset)
{
    size_t low = 0, high = f->units.nr;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (f->units.at[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->units.nr && f->units.at[low].die <= offset ? &f->units.at[low] : NULL;
}
