/* SPDX-License-Identifier: GPL-2.0-only */
/* A note: the sizes of name and description, the type, then name and description, each padded to
 * four bytes. */
#include "dso/notes.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

bool notes_build_id(struct cursor notes, struct build_id *ret)
{
    struct cursor *c = &notes;
    while (cursor_left(c) >= 12) {
        uint32_t namesz = cursor_u32(c), descsz = cursor_u32(c), type = cursor_u32(c);
        const uint8_t *name = cursor_bytes(c, ((uint64_t)namesz + 3) & ~UINT64_C(3));
        const uint8_t *desc = cursor_bytes(c, descsz);
        if (c->failed)
            return false;
        if (type == NT_GNU_BUILD_ID && namesz == 4 && memcmp(name, "GNU", 4) == 0 && descsz > 0) {
            ret->size = descsz < BUILD_ID_MAX ? (uint8_t)descsz : BUILD_ID_MAX;
            memcpy(ret->bytes, desc, ret->size);
            return true;
        }
        cursor_skip(c, (4 - (descsz & 3)) & 3); /* the last note may end without padding */
    }
    return false;
}

struct build_id notes_file_build_id(const char *path)
{
    uint8_t bytes[4096];
    struct build_id id = {0};
    FILE *f = fopen(path, "re");
    size_t size = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
    if (f)
        fclose(f);
    notes_build_id(cursor_make(bytes, size, false, path, "note", 0), &id);
    return id;
}
