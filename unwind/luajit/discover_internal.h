/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the parts of discovery: discover.c, and a reader of the interpreter's code for each
 * machine (discover_x86_64.c, discover_aarch64.c). */
#ifndef UNWIND_LUAJIT_DISCOVER_INTERNAL_H
#define UNWIND_LUAJIT_DISCOVER_INTERNAL_H

#include "unwind/luajit/discover.h"
#include "unwind/native/cfi.h"

enum { LUAJIT_BLOB_MAX = 1 << 16 };

/* The reader of one machine's interpreter. */
struct luajit_code {
    const struct arch *arch;
    enum luajit_machine_id machine;
    /* Is it the unwind program of the blob, or of lj_vm_ffi_call? */
    bool (*is_blob)(const struct cfi_bytes *program);
    bool (*is_ffi_call)(const struct cfi_bytes *program);
    /* Read the values that instructions tell. `blob`: ret->blob_size bytes. Returns false if a part
     * of the code is not as in the known builds; `missing` says which. */
    bool (*read)(const struct luajit_image *image, const uint8_t *blob, struct luajit_layout *ret,
                 const char **missing);
};
extern const struct luajit_code luajit_code_x86_64, luajit_code_aarch64;

/* Note a value and the instruction from which it was read, its offset in the blob. */
#define TOLD(f, field, told, place) \
    ((f)->l->field = (told), (f)->l->evidence[LUAJIT_F_##field] = (place) + 1)

#endif
