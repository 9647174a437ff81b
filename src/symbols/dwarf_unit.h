/* SPDX-License-Identifier: GPL-2.0-only */
/* Units, abbreviations and attributes: the encoding of DWARF. Nothing here outlives or copies the
 * sections. */
#ifndef SYMBOLS_DWARF_UNIT_H
#define SYMBOLS_DWARF_UNIT_H

#include "base/cursor.h"
#include "base/vec.h"
#include "dso/dso.h"

#include <stdatomic.h>

enum dwarf_section {
    SEC_INFO,
    SEC_ABBREV,
    SEC_STR,
    SEC_LINE,
    SEC_LINE_STR,
    SEC_RANGES,
    SEC_RNGLISTS,
    SEC_ADDR,
    SEC_STR_OFFSETS,
    SEC_ARANGES,
    SEC_NR,
};

struct dwarf_span {
    const uint8_t *bytes;
    size_t size;
};

/* The debug sections of one ELF file: the debug file, dwz's alternate file, or a .dwo. */
struct dwarf_file {
    const struct elf_image *image;
    struct dwarf_span sec[SEC_NR];
    VEC(struct dwarf_unit) units; /* in file order; does not change once read */
    struct dwarf_file *alt;       /* dwz; NULL: none */
    bool dwo;
};

struct dwarf_value {
    uint64_t number;      /* a number, offset, index or address, by form */
    const uint8_t *bytes; /* inline string or block */
    uint16_t form;        /* 0: absent */
};

/* The attributes that give the place of a function's code and of its inlined call. */
enum dwarf_slot {
    SLOT_NONE,
    SLOT_LOW,
    SLOT_HIGH,
    SLOT_RANGES,
    SLOT_CALL_FILE,
    SLOT_CALL_LINE,
    SLOT_CALL_COLUMN,
    SLOT_NR,
};

struct dwarf_attr {
    uint16_t name, form;
    uint32_t size; /* bytes of the value; NOT_FIXED: it must be read */
    uint8_t slot;  /* enum dwarf_slot */
    int64_t implicit;
};

struct dwarf_abbrev {
    uint64_t code;
    uint32_t first_attr, nr_attrs;
    uint32_t fixed_size; /* bytes of all attributes; NOT_FIXED: they must be read */
    uint32_t sibling;    /* number of the sibling attribute; NO_ATTR: none */
    uint16_t tag;
    bool children;
    bool has_code; /* has low_pc or ranges */
    bool is_leaf;  /* no children, and not a function or inlined call with code */
};

enum { NOT_FIXED = UINT32_MAX, NO_ATTR = UINT32_MAX };

struct dwarf_abbrevs {
    VEC(struct dwarf_abbrev) entries; /* sorted by code */
    VEC(struct dwarf_attr) attrs;
    bool dense; /* entry i has code i + 1 */
};

struct unit_index; /* see dwarf_index.h */

struct dwarf_unit {
    struct dwarf_file *file;
    uint64_t offset, die, end; /* in SEC_INFO: header, root, first byte behind */
    uint64_t abbrev_offset;
    uint16_t version;
    uint8_t address_size, offset_size, type;
    _Atomic(struct dwarf_abbrevs *) abbrevs;
    /* Attributes of the root entry: */
    uint64_t low_pc, stmt_list, addr_base, str_offsets_base, rnglists_base, ranges_base, dwo_id;
    struct dwarf_value high_pc, ranges;
    bool has_low_pc, has_stmt_list;
    const char *name, *comp_dir, *dwo_name;
    const struct dwarf_unit *skeleton; /* of a split unit */
    struct unit_index *index;          /* protected by its creator's lock */
};

/* Read the units of `image`. Returns false when there are none (or when out of memory). `lines`
 * false: line programs are not wanted (and not inflated). The caller frees `file`. */
bool dwarf_file_open(struct dwarf_file *file, const struct elf_image *image, bool dwo, bool lines);
void dwarf_file_close(struct dwarf_file *file);
/* Returns the unit that contains that offset of SEC_INFO; NULL: none. */
struct dwarf_unit *dwarf_unit_at(struct dwarf_file *file, uint64_t offset);

/* Returns the unit's abbreviations, read at first use; NULL: damaged. Any thread may call it. */
const struct dwarf_abbrevs *dwarf_abbrevs(struct dwarf_unit *u);
void dwarf_unit_release(struct dwarf_unit *u);
const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *a, uint64_t code);
static inline const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrevs *a,
                                                           uint64_t code)
{
    if (a->dense)
        return code - 1 < a->entries.nr ? &a->entries.at[code - 1] : NULL;
    return dwarf_abbrev_search(a, code);
}

static inline uint64_t dwarf_offset(struct cursor *c, unsigned size)
{
    return size == 8 ? cursor_u64(c) : cursor_u32(c);
}

static inline uint64_t dwarf_sized(struct cursor *c, unsigned size)
{
    switch (size) {
    case 1:
        return cursor_u8(c);
    case 2:
        return cursor_u16(c);
    case 4:
        return cursor_u32(c);
    default:
        return cursor_u64(c);
    }
}

/* Returns a cursor over the unit's DIEs from `offset` on; failed when `offset` is outside. */
struct cursor dwarf_cursor(const struct dwarf_unit *u, uint64_t offset);
bool dwarf_read_value(const struct dwarf_unit *u, struct cursor *c, const struct dwarf_attr *a,
                      struct dwarf_value *ret);
/* Like dwarf_read_value(), for an attribute of an abbreviation. */
static inline bool dwarf_read_attr(const struct dwarf_unit *u, struct cursor *c,
                                   const struct dwarf_attr *a, struct dwarf_value *ret)
{
    if (a->size == 0 || a->size > 8 || !(0x116 >> a->size & 1)) /* not 1, 2, 4, 8 */
        return dwarf_read_value(u, c, a, ret);
    ret->form = a->form;
    ret->number = dwarf_sized(c, a->size);
    return !c->failed;
}
/* Skip the first `nr` attributes of an entry; dwarf_skip() skips all. */
void dwarf_skip_some(const struct dwarf_unit *u, struct cursor *c, const struct dwarf_abbrevs *all,
                     const struct dwarf_abbrev *a, uint32_t nr);
static inline void dwarf_skip(const struct dwarf_unit *u, struct cursor *c,
                              const struct dwarf_abbrevs *all, const struct dwarf_abbrev *a)
{
    if (a->fixed_size != NOT_FIXED)
        cursor_skip(c, a->fixed_size);
    else
        dwarf_skip_some(u, c, all, a, a->nr_attrs);
}

const char *dwarf_string(const struct dwarf_unit *u, const struct dwarf_value *v); /* or NULL */
bool dwarf_address(const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *ret);
/* Get the target of a reference: a file and an offset in its SEC_INFO. */
bool dwarf_reference(const struct dwarf_unit *u, const struct dwarf_value *v,
                     struct dwarf_file **file, uint64_t *offset);

/* dwarf_pc_ranges() calls `each` for every [low, high) of an entry's low_pc/high_pc or ranges. */
struct dwarf_pcs {
    struct dwarf_value low, high, ranges;
};
typedef void dwarf_each_range(void *context, uint64_t low, uint64_t high);
void dwarf_pc_ranges(const struct dwarf_unit *u, const struct dwarf_pcs *pcs,
                     dwarf_each_range *each, void *context);

static inline struct cursor dwarf_section_cursor(const struct dwarf_file *f, enum dwarf_section s,
                                                 uint64_t offset)
{
    const struct dwarf_span *span = &f->sec[s];
    static const uint8_t nothing[1];
    bool inside = span->bytes && offset <= span->size;
    struct cursor c =
        cursor_make(inside ? span->bytes + offset : nothing, inside ? span->size - offset : 0,
                    f->image->swapped, f->image->path, "DWARF", offset);
    c.failed = !inside;
    return c;
}

#endif
