/* SPDX-License-Identifier: GPL-2.0-only */
/* Any bytes as a jitdump: load it, look up everywhere, read each function's lines and rules. */
#include "jitdump/jitdump.h"
#include "unwind/unwind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static uint64_t halve(const void *context, uint64_t stamp)
{
    (void)context;
    return stamp / 2;
}

/* Checks what lookups promise: the function covers the address, within its span and at its time. */
static void check(const struct jitcode *code, uint64_t address, uint64_t time)
{
    struct jit_span span;
    const struct jit_function *f = jitcode_lookup_span(code, address, time, &span);
    if (f != jitcode_lookup(code, address, time))
        abort();
    if (!f)
        return;
    if (address - f->start >= f->size || address < span.start || address >= span.end)
        abort();
    if (time && (time < f->from || time >= f->until))
        abort();
    struct jit_position p;
    if (jit_function_position(f, address, &p) && strlen(p.file) > 1 << 24)
        abort();
}

static void use_lua(const struct jit_function *f)
{
    struct jit_lua_stack stack;
    unsigned char sum = 0;
    for (uint64_t at = 0; f->lua && at < f->size && at < 4096; at += 1 + at / 64) {
        if (!jit_function_lua(f, f->start + at, &stack))
            continue;
        if (stack.nr == 0 || stack.nr > JIT_LUA_FRAMES_MAX)
            abort();
        for (unsigned i = 0; i < stack.nr; i++) {
            const struct jit_lua_function *g = stack.frames[i].function;
            for (uint32_t b = 0; g && b < g->name_size; b++)
                sum ^= (unsigned char)g->name[b];
            for (uint32_t b = 0; g && b < g->chunk_size; b++)
                sum ^= (unsigned char)g->chunk[b];
        }
    }
    if (sum == 1 && f->size == 0)
        abort();
}

static void use_rules(const struct jit_function *f)
{
    struct cfi_source source = {.arch = &arch_x86_64, .name = f->name, .id = 1};
    struct cfi *cfi;
    if (!f->eh_frame)
        return;
    source.eh_frame = (struct cfi_section){f->eh_frame, f->eh_frame_size, f->size};
    source.eh_frame_hdr =
        (struct cfi_section){f->eh_frame_hdr, f->eh_frame_hdr_size, f->size + f->eh_frame_size};
    if (cfi_create(&source, &cfi, NULL) == 0)
        cfi_free(cfi);
}

static void use(const struct jitcode *code)
{
    size_t nr = jitcode_count(code);
    unsigned char sum = 0;
    for (size_t i = 0; i < nr && i < 200; i++) {
        const struct jit_function *f = jitcode_at(code, i);
        if (jitcode_index(code, f) != i)
            abort();
        check(code, f->start, f->from);
        check(code, f->start + f->size - 1, 0);
        check(code, f->start + f->size, f->until - 1);
        check(code, f->start + f->size / 2, f->from + 1);
        for (uint64_t at = 0; f->code && at < f->size; at++)
            sum ^= f->code[at];
        for (const char *c = f->name; c && *c; c++)
            sum ^= (unsigned char)*c;
        use_rules(f);
        use_lua(f);
    }
    check(code, sum, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int fd = -1;
    char path[64];
    struct jitcode *code;
    struct jitdump_options options = {.to_clock = size % 2 ? halve : NULL,
                                      .ignore_times = size % 3 == 0};
    if (fd < 0)
        fd = memfd_create("jitdump", 0);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (jitdump_load(path, &options, &code, NULL) == 0) {
        use(code);
        jitcode_free(code);
    }
    return 0;
}
