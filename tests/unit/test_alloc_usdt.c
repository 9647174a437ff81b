/* SPDX-License-Identifier: GPL-2.0-only */
/* An allocator's own probes: where their arguments are, and their notes in a file. */
#include "live/alloc_usdt.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool parse(const char *name, const char *arguments, uint16_t machine, struct alloc_usdt *ret)
{
    const struct elf_usdt usdt = {.provider = "otel_memory", .name = name, .arguments = arguments};
    return alloc_usdt_of(&usdt, machine, ret);
}

static void is_place(const struct alloc_place *p, uint8_t kind, int size, uint32_t at,
                     int64_t value)
{
    assert_int_equal(p->kind, kind);
    assert_int_equal(p->is_signed ? -p->size : p->size, size);
    assert_int_equal(p->at, at);
    assert_int_equal(p->value, value);
}

static void arguments_of_x86(void **state)
{
    struct alloc_usdt u;
    (void)state;
    assert_true(parse("alloc", "8@%rdi -4@-12(%rbp) 8@$4096", EM_X86_64, &u));
    assert_false(u.frees);
    is_place(&u.block, PLACE_REGISTER, 8, 112, 0);
    is_place(&u.size, PLACE_MEMORY, -4, 32, -12);
    is_place(&u.weight, PLACE_CONSTANT, 8, 0, 4096);
    assert_true(parse("alloc", "8@(%r15) 4@%r8d 2@%ax", EM_X86_64, &u));
    is_place(&u.block, PLACE_MEMORY, 8, 0, 0);
    is_place(&u.size, PLACE_REGISTER, 4, 72, 0);
    is_place(&u.weight, PLACE_REGISTER, 2, 80, 0);
    assert_true(parse("alloc", "  %rsp   8@0x10(%rsp)  1@%sil ", EM_X86_64, &u));
    is_place(&u.block, PLACE_REGISTER, 8, 152, 0);
    is_place(&u.size, PLACE_MEMORY, 8, 152, 16);
    is_place(&u.weight, PLACE_REGISTER, 1, 104, 0);
    assert_true(parse("free", "8@%rbx", EM_X86_64, &u));
    assert_true(u.frees);
    is_place(&u.block, PLACE_REGISTER, 8, 40, 0);
    assert_true(alloc_usdt_is_valid(&u));
}

static void arguments_of_aarch64(void **state)
{
    struct alloc_usdt u;
    (void)state;
    assert_true(parse("alloc", "8@x0 -4@[sp, 12] 8@-5", EM_AARCH64, &u));
    is_place(&u.block, PLACE_REGISTER, 8, 0, 0);
    is_place(&u.size, PLACE_MEMORY, -4, 248, 12);
    is_place(&u.weight, PLACE_CONSTANT, 8, 0, -5);
    assert_true(parse("free", "8@[x30]", EM_AARCH64, &u));
    is_place(&u.block, PLACE_MEMORY, 8, 240, 0);
}

static void what_is_not_known_is_refused(void **state)
{
    static const char *const rows[] = {"",
                                       "8@%rdi",
                                       "8@%rdi 8@%rsi",
                                       "8@%rdi 8@%rsi 8@",
                                       "8@%rdi 8@%rsi 8@%xmm0",
                                       "8@%rdi 8@%rsi 8@4(%rax,%rbx,8)",
                                       "8@%rdi 8@%rsi 8@counter(%rip)",
                                       "8@%rdi 8@%rsi 8@$",
                                       "8@%rdi 8@%rsi 8@%rax)",
                                       "8@%rdi 8@%rsi 3@%rax",
                                       "8@%rdi 8@%rsi 0@%rax",
                                       "8@%rdi 8@%rsi 8f@%rax",
                                       "8@x0 8@x1 8@x2"};
    struct alloc_usdt u;
    char all[400];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_false(parse("alloc", rows[i], EM_X86_64, &u));
    assert_false(parse("alloc", "8@x0 8@x1 8@x31", EM_AARCH64, &u));
    assert_false(parse("alloc", "8@[x0 8@x1 8@x2", EM_AARCH64, &u));
    assert_false(parse("alloc", "8@x0 8@x1 8@x2", EM_386, &u));
    assert_false(parse("mmap", "8@%rdi 8@%rsi 8@%rax", EM_X86_64, &u));
    memset(all, ' ', sizeof(all));
    all[sizeof(all) - 1] = 0;
    assert_false(parse("free", all, EM_X86_64, &u));
    const struct elf_usdt other = {.provider = "libc", .name = "free", .arguments = "8@%rdi"};
    assert_false(alloc_usdt_of(&other, EM_X86_64, &u));
}

static void what_a_reader_says_is_checked(void **state)
{
    const struct alloc_place good = {.kind = PLACE_MEMORY, .size = 8, .at = 152};
    struct alloc_usdt u = {.block = good, .size = good, .weight = good};
    (void)state;
    assert_true(alloc_usdt_is_valid(&u));
    u.weight.at = 4096;
    assert_false(alloc_usdt_is_valid(&u));
    u.weight = good;
    u.size.at = 153;
    assert_false(alloc_usdt_is_valid(&u));
    u.size = good;
    u.block.kind = 3;
    assert_false(alloc_usdt_is_valid(&u));
    u.block = good;
    u.block.size = 0;
    assert_false(alloc_usdt_is_valid(&u));
    u.block = good;
    u.frees = 2;
    assert_false(alloc_usdt_is_valid(&u));
}

/* ---- notes: of this program ------------------------------------------------------------------ */

__attribute__((used)) static volatile unsigned short listens = 1;

__asm__(".pushsection .text\n"
        "test_probe: nop\n"
        ".popsection\n"
        ".pushsection .note.stapsdt, \"\", %note\n .balign 4\n .4byte 2f - 1f, 4f - 3f, 3\n"
        "1: .asciz \"stapsdt\"\n2: .balign 4\n3: .8byte test_probe, 0, listens\n"
        ".asciz \"otel_memory\"\n .asciz \"free\"\n .asciz \"8@5\"\n4: .balign 4\n .popsection\n");

struct found {
    size_t nr;
    struct elf_usdt last;
};

static bool take(void *context, const struct elf_usdt *usdt)
{
    struct found *to = context;
    to->nr++;
    to->last = *usdt;
    return true;
}

static void notes_of_a_file_are_found(void **state)
{
    struct elf_image *image;
    struct error err;
    struct found found = {0};
    uint64_t address;
    (void)state;
    assert_int_equal(elf_image_open("/proc/self/exe", &image, &err), 0);
    elf_usdts(image, take, &found);
    assert_int_equal(found.nr, 1);
    assert_string_equal(found.last.provider, "otel_memory");
    assert_string_equal(found.last.name, "free");
    assert_string_equal(found.last.arguments, "8@5");
    assert_true(found.last.address != 0);
    /* The semaphore is where the file has `listens`. */
    unsigned short value;
    assert_true(found.last.semaphore && found.last.semaphore + sizeof(value) <= image->size);
    memcpy(&value, image->bytes + found.last.semaphore, sizeof(value));
    assert_int_equal(value, 1);
    assert_true(elf_image_offset_to_vaddr(image, found.last.semaphore, &address));
    elf_image_free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_x86),
        cmocka_unit_test(arguments_of_aarch64),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(what_a_reader_says_is_checked),
        cmocka_unit_test(notes_of_a_file_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
