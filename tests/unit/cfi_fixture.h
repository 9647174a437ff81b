/* SPDX-License-Identifier: GPL-2.0-only */
/* An .eh_frame section that a test writes by itself. Include it behind cmocka.h. */
#ifndef TESTS_CFI_FIXTURE_H
#define TESTS_CFI_FIXTURE_H

#include "unwind/unwind.h"

#include <stdlib.h>
#include <string.h>

/* A section that grows. All zeros: empty. Free `at`. */
struct bytes {
    uint8_t *at;
    size_t nr, cap;
};

static inline void put(struct bytes *b, const void *bytes, size_t size)
{
    if (b->cap - b->nr < size) {
        b->cap = b->cap * 2 + size + 256;
        b->at = realloc(b->at, b->cap);
        assert_non_null(b->at);
    }
    memcpy(b->at + b->nr, bytes, size);
    b->nr += size;
}

/* Put the FDE of the function at `begin`; its CIE, without augmentation, begins the section. */
static inline void put_fde(struct bytes *b, uint64_t begin, uint64_t size, const void *program,
                           size_t program_size)
{
    const uint32_t head[2] = {(uint32_t)(4 + 16 + program_size), (uint32_t)b->nr + 4};
    const uint64_t range[2] = {begin, size};
    put(b, head, 8);
    put(b, range, 16);
    put(b, program, program_size);
}

/* Put the FDE of a function of 0x100 bytes in a module that is loaded at MODULE. */
#define FDE(b, function, program) put_fde(b, (function)-MODULE, 0x100, program, sizeof(program) - 1)

static inline struct cfi *create_cfi(const struct bytes *b, const struct arch *arch, uint32_t id)
{
    const struct cfi_source source = {
        .arch = arch, .name = "test", .id = id, .eh_frame = {b->at, b->nr, 0x800000}};
    struct cfi *cfi = NULL;
    assert_int_equal(cfi_create(&source, &cfi, NULL), 0);
    return cfi;
}

#endif
