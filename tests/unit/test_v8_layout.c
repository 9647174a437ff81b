/* SPDX-License-Identifier: GPL-2.0-only */
/* V8's layout from an image's symbols: which symbols are asked for, and builtins by address. */
#include "unwind/v8/layout.h"
#include "unwind/v8/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BUILTINS = 1500, BLOB = 0x40000, VALUES = 0x1000, NAME = 48, OTHERS = 80 };

static const char *const metadata[] = {
#define X(name, symbol, ...) symbol,
    V8_FIELDS(X, 0)
#undef X
};
enum {
    METADATA = sizeof(metadata) / sizeof(*metadata),
    SYMBOLS = METADATA + OTHERS + 5 + BUILTINS
};

struct image {
    struct v8_symbol symbols[SYMBOLS];
    char names[SYMBOLS][3 * NAME];
    /* the first `nr_likely` symbols are given without `all` */
    size_t nr, nr_likely;
    unsigned asked_all;
    uint8_t values[4 * SYMBOLS + 4096], code[1 << 20];
};

static bool next_symbol(void *context, bool all, size_t *index, struct v8_symbol *ret)
{
    struct image *m = context;
    m->asked_all += all && *index == 0;
    if (*index >= (all ? m->nr : m->nr_likely))
        return false;
    *ret = m->symbols[(*index)++];
    return true;
}

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    struct image *m = context;
    if (address >= BLOB)
        return address - BLOB + size <= sizeof(m->code) ? m->code + (address - BLOB) : NULL;
    uint64_t at = address - VALUES;
    return at + size <= sizeof(m->values) ? m->values + at : NULL;
}

static struct v8_symbol *add(struct image *m, const char *prefix, const char *name, uint64_t size)
{
    char *to = m->names[m->nr];
    snprintf(to, sizeof(m->names[0]), "%s%s", prefix, name);
    m->symbols[m->nr] = (struct v8_symbol){to, VALUES + 4 * m->nr, size};
    return &m->symbols[m->nr++];
}

static void add_number(struct image *m, const char *prefix, const char *name, uint32_t value)
{
    memcpy(m->values + 4 * m->nr, &value, sizeof(value));
    add(m, prefix, name, sizeof(value));
}

/* Sizes of many lengths, with gaps between them; a few long ones. */
static uint64_t builtin_size(unsigned i)
{
    return i % 100 == 7 ? 9000 : 24 + i * 37 % 700;
}

static void add_builtins(struct image *m)
{
    uint64_t at = BLOB;
    for (unsigned i = 0; i < BUILTINS; i++) {
        char name[NAME];
        snprintf(name, sizeof(name), "Some%u", i);
        struct v8_symbol *s = add(m, "Builtins_", name, builtin_size(i));
        s->address = at;
        at += (s->size + 63) & ~UINT64_C(63);
    }
}

static void fill(struct image *m)
{
    static const char *const versions[] = {"major", "minor", "build", "patch"};
    static const uint32_t version[] = {12, 4, 254, 21};
    memset(m, 0, sizeof(*m));
    for (int i = 0; i < 4; i++) {
        char name[NAME];
        snprintf(name, sizeof(name), "_ZN2v88internal7Version6%s_E", versions[i]);
        add_number(m, "", name, version[i]);
    }
    for (size_t i = 0; i < METADATA; i++)
        if (*metadata[i])
            add_number(m, "v8dbg_", metadata[i], strcmp(metadata[i], "SmiShiftSize") ? 100 : 31);
    for (int i = 0; i < OTHERS; i++) {
        char name[NAME];
        snprintf(name, sizeof(name), "class_Other__%d", i);
        add_number(m, "v8dbg_", name, 8);
    }
    add(m, "", "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE", 600);
    add_builtins(m);
    m->nr_likely = m->nr;
}

static struct v8_layout *discover(struct image *m)
{
    const struct v8_image image = {.name = "image",
                                   .machine = &v8_machine_x86_64,
                                   .symbol = next_symbol,
                                   .bytes = bytes_at,
                                   .context = m};
    struct v8_layout *l = NULL;
    struct error err = {0};
    m->asked_all = 0;
    assert_int_equal(v8_layout_create(&image, &l, &err), 1);
    assert_int_equal(l->version[0], 12);
    assert_int_equal(l->nr_builtins, BUILTINS);
    assert_int_equal(l->nr_bytecodes, 200);
    return l;
}

static struct image image;

/* All symbols are asked for only when the likely ones lack something, and then make up for it. */
static void likely_first(void **state)
{
    (void)state;
    fill(&image);
    v8_layout_free(discover(&image));
    assert_int_equal(image.asked_all, 0);
    const size_t less[] = {0, 3, 50, image.nr - BUILTINS - 1, image.nr - BUILTINS + 900};
    for (size_t i = 0; i < sizeof(less) / sizeof(*less); i++) {
        image.nr_likely = less[i];
        v8_layout_free(discover(&image));
        assert_int_equal(image.asked_all, 1);
    }
}

/* The builtin at each address must be that of a search through all builtins. */
static void builtin_at_address(void **state)
{
    (void)state;
    fill(&image);
    struct v8_layout *l = discover(&image);
    size_t nr = 0, found = 0;
    for (uint64_t at = BLOB - 100; at < BLOB + l->blob_size + 10000; at++) {
        while (nr < l->nr_builtins && l->builtins[nr].start <= at)
            nr++;
        const struct v8_builtin *b = nr ? &l->builtins[nr - 1] : NULL;
        if (b && at - b->start >= b->size)
            b = NULL;
        found += b != NULL;
        if (v8_builtin_find(l, at) != b)
            fail_msg("at 0x%llx", (unsigned long long)at);
    }
    assert_true(found > BUILTINS * 24);
    assert_null(v8_builtin_find(l, 0));
    assert_null(v8_builtin_find(l, UINT64_MAX));
    v8_layout_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likely_first),
        cmocka_unit_test(builtin_at_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
