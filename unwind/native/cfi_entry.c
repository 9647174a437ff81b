/* SPDX-License-Identifier: GPL-2.0-only */
/* Decodes CIEs, FDEs and encoded pointers. */
#include "unwind/native/cfi.h"

static struct cursor table_cursor(const struct cfi *cfi, const struct cfi_table *table,
                                  uint64_t offset)
{
    const char *section = table->is_eh ? ".eh_frame" : ".debug_frame";
    struct cursor c =
        cursor_make(table->section.bytes, table->section.size, cfi->swapped, cfi->name, section, 0);
    cursor_skip(&c, offset);
    return c;
}

static uint64_t read_format(struct cursor *c, uint8_t format, unsigned address_size)
{
    switch (format) {
    case PE_ABSPTR:
        return address_size == 4 ? cursor_u32(c) : cursor_u64(c);
    case PE_SIGNED:
        return address_size == 4 ? (uint64_t)(int64_t)(int32_t)cursor_u32(c) : cursor_u64(c);
    case PE_ULEB128:
        return cursor_uleb128(c);
    case PE_SLEB128:
        return (uint64_t)cursor_sleb128(c);
    case PE_UDATA2:
        return cursor_u16(c);
    case PE_SDATA2:
        return (uint64_t)(int64_t)(int16_t)cursor_u16(c);
    case PE_UDATA4:
        return cursor_u32(c);
    case PE_SDATA4:
        return (uint64_t)(int64_t)(int32_t)cursor_u32(c);
    case PE_UDATA8:
    case PE_SDATA8:
        return cursor_u64(c);
    default:
        c->failed = true;
        return 0;
    }
}

bool cfi_read_pointer(const struct cfi *cfi, struct cursor *c, uint64_t address, uint8_t encoding,
                      unsigned address_size, uint64_t *ret)
{
    *ret = 0;
    if (encoding == PE_OMIT)
        return true;
    uint64_t place = address + (uint64_t)(c->at - c->start);
    if (encoding == PE_ALIGNED) { /* cannot be combined: an absolute address at the next multiple of
                                     the address size */
        cursor_skip(c, -place & (address_size - 1));
        *ret = read_format(c, PE_ABSPTR, address_size);
        return !c->failed;
    }
    uint64_t base = 0;
    switch (encoding & PE_BASE) {
    case 0:
        break;
    case PE_PCREL:
        base = place;
        break;
    case PE_TEXTREL:
        base = cfi->text_address;
        break;
    case PE_DATAREL:
        base = cfi->data_address;
        break;
    case PE_FUNCREL: /* only inside an FDE's language data, which this project does not read */
        break;
    default:
        return false;
    }
    *ret = base + read_format(c, encoding & PE_FORMAT, address_size);
    return !c->failed;
}

/* An entry: the length field, and the bytes that it covers. */
struct entry {
    struct cursor c; /* starts at the id, ends with the entry */
    bool is64;
    uint64_t next;
};

static bool read_entry(const struct cfi *cfi, const struct cfi_table *table, uint64_t offset,
                       struct entry *ret)
{
    struct cursor c = table_cursor(cfi, table, offset);
    uint64_t length = cursor_u32(&c);
    ret->is64 = length == UINT32_MAX;
    if (ret->is64)
        length = cursor_u64(&c);
    ret->next = table->section.size;
    if (c.failed || length > cursor_left(&c))
        return false;
    c.end = c.at + length;
    ret->c = c;
    ret->next = (uint64_t)(c.end - c.start);
    return length > 0;
}

/* Reads the augmentation's letters after 'z' (or without 'z'). Stops at an unknown letter: with 'z'
 * its data can be skipped, but only if no 'R' or 'S' may follow. */
static bool read_augmentation(const struct cfi *cfi, const struct cfi_table *table,
                              struct cursor *c, const char *letters, struct cie *cie)
{
    for (; *letters; letters++) {
        uint64_t ignored;
        switch (*letters) {
        case 'R':
            cie->pointer_encoding = cursor_u8(c);
            break;
        case 'L':
            cursor_skip(c, 1);
            break;
        case 'P':
            if (!cfi_read_pointer(cfi, c, table->section.address, cursor_u8(c), cie->address_size,
                                  &ignored))
                return false;
            break;
        case 'S':
            cie->signal_frame = true;
            break;
        case 'B': /* aarch64: signed with the B key */
        case 'G': /* aarch64: tagged frame */
            break;
        default:
            return cie->has_augmentation && !strchr(letters, 'R') && !strchr(letters, 'S');
        }
    }
    return true;
}

static bool read_cie(const struct cfi *cfi, const struct cfi_table *table, uint64_t offset,
                     struct cie *ret)
{
    struct entry e;
    if (!read_entry(cfi, table, offset, &e))
        return false;
    struct cursor *c = &e.c;
    /* In .eh_frame the id has 4 bytes even behind an extended length (LSB). */
    uint64_t id = e.is64 && !table->is_eh ? cursor_u64(c) : cursor_u32(c);
    uint64_t want = table->is_eh ? 0 : e.is64 ? UINT64_MAX : UINT32_MAX;
    uint8_t version = cursor_u8(c);
    const char *augmentation = cursor_string(c);
    if (c->failed || id != want || (version != 1 && version != 3 && version != 4))
        return false;

    *ret = (struct cie){.address_size = 8, .pointer_encoding = PE_ABSPTR};
    if (version == 4) {
        ret->address_size = cursor_u8(c);
        if (cursor_u8(c) != 0) /* segment selectors */
            return false;
    }
    if (ret->address_size != 8 && ret->address_size != 4)
        return false;
    if (!strncmp(augmentation, "eh", 2)) { /* GCC 2: a pointer to its exception table */
        cursor_skip(c, ret->address_size);
        augmentation += 2;
    }
    ret->code_align = cursor_uleb128(c);
    ret->data_align = cursor_sleb128(c);
    ret->ra_register = version == 1 ? cursor_u8(c) : cursor_uleb128(c);
    if (*augmentation == 'z') {
        ret->has_augmentation = true;
        const uint8_t *data = cursor_bytes(c, cursor_uleb128(c));
        if (!data)
            return false;
        struct cursor inside = *c;
        inside.at = data;
        inside.end = c->at;
        if (!read_augmentation(cfi, table, &inside, augmentation + 1, ret) || inside.failed)
            return false;
    } else if (!read_augmentation(cfi, table, c, augmentation, ret)) {
        return false;
    }
    ret->program = (struct cfi_bytes){c->at, cursor_left(c)};
    return !c->failed;
}

/* Reads the offset of an FDE's CIE from the field at the cursor; false: this entry is a CIE
 * itself. */
static bool read_cie_offset(const struct cfi_table *table, struct entry *e, uint64_t *ret)
{
    uint64_t field = (uint64_t)(e->c.at - e->c.start);
    if (table->is_eh) {
        uint64_t back = cursor_u32(&e->c);
        *ret = field - back;
        return !e->c.failed && back != 0 && back <= field;
    }
    uint64_t id = e->is64 ? cursor_u64(&e->c) : cursor_u32(&e->c);
    *ret = id;
    return !e->c.failed && id != (e->is64 ? UINT64_MAX : UINT32_MAX);
}

bool cfi_read_fde(const struct cfi *cfi, const struct cfi_table *table, uint64_t offset,
                  struct fde *ret, uint64_t *next)
{
    struct entry e;
    bool sound = read_entry(cfi, table, offset, &e);
    if (next)
        *next = e.next;
    uint64_t cie_offset;
    if (!sound || !read_cie_offset(table, &e, &cie_offset) ||
        !read_cie(cfi, table, cie_offset, &ret->cie))
        return false;

    struct cursor *c = &e.c;
    const struct cie *cie = &ret->cie;
    uint8_t encoding = cie->pointer_encoding;
    if (encoding & PE_INDIRECT || encoding == PE_OMIT)
        return false;
    if (!cfi_read_pointer(cfi, c, table->section.address, encoding, cie->address_size, &ret->begin))
        return false;
    ret->size = read_format(c, encoding & PE_FORMAT, cie->address_size);
    if (cie->has_augmentation)
        cursor_skip(c, cursor_uleb128(c));
    if (c->failed || ret->size > UINT64_MAX - ret->begin)
        return false;
    ret->program = (struct cfi_bytes){c->at, cursor_left(c)};
    return true;
}
