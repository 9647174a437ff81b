/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the parts of discovery: discover.c, and a reader of the interpreter's code for each
 * machine (discover_x86_64.c, discover_aarch64.c). */
#ifndef UNWIND_LUAJIT_DISCOVER_INTERNAL_H
#define UNWIND_LUAJIT_DISCOVER_INTERNAL_H

#include "unwind/luajit/discover.h"
#include "unwind/native/cfi.h"

enum { LUAJIT_BLOB_MAX = 1 << 16 };

/* Searches for instructions in the blob, and notes what they tell. */
struct finder {
    const uint8_t *blob;
    uint32_t size;
    struct luajit_layout *l;
};

/* Reads some values. Returns false if the code is not as in the known builds; `what`: of what. */
struct luajit_code_step {
    bool (*read)(struct finder *f);
    const char *what;
};

/* The reader of one machine's interpreter. */
struct luajit_code {
    const struct arch *arch;
    enum luajit_machine_id machine;
    /* Is it the unwind program of the blob, or of lj_vm_ffi_call? */
    bool (*is_blob)(const struct cfi_bytes *program);
    bool (*is_ffi_call)(const struct cfi_bytes *program);
    const struct luajit_code_step *steps; /* in this order */
    size_t nr_steps;
    /* Read the values that may be missing, afterwards. */
    void (*read_others)(struct finder *f, const struct luajit_image *image);
};
extern const struct luajit_code luajit_code_x86_64, luajit_code_aarch64;

/* Note a value and the instruction from which it was read, its offset in the blob. */
#define TOLD(f, field, told, place) \
    ((f)->l->field = (told), (f)->l->evidence[LUAJIT_F_##field] = (place) + 1)

#endif
