/* SPDX-License-Identifier: GPL-2.0-only */
/* Any bytes as a perf-PID.map. Each lookup is compared with a search through all lines, last line
 * first. */
#include "jitdump/jitdump.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct jit_function *last_over(const struct jitcode *code, uint64_t address)
{
    for (size_t i = jitcode_count(code); i--;) {
        const struct jit_function *f = jitcode_at(code, i);
        if (address - f->start < f->size)
            return f;
    }
    return NULL;
}

static void check(const struct jitcode *code, uint64_t address)
{
    const struct jit_function *f = jitcode_lookup(code, address, 1);
    if (f != last_over(code, address))
        abort();
    for (const char *c = f ? f->name : ""; *c; c++)
        if (*c == '\n')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int fd = -1;
    char path[64];
    struct jitcode *code;
    if (fd < 0)
        fd = memfd_create("perfmap", 0);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (perfmap_load(path, &code, NULL) < 0)
        return 0;
    for (size_t i = 0; i < jitcode_count(code) && i < 100; i++) {
        const struct jit_function *f = jitcode_at(code, i);
        check(code, f->start);
        check(code, f->start - 1);
        check(code, f->start + f->size - 1);
        check(code, f->start + f->size);
        check(code, f->start + f->size / 2);
    }
    jitcode_free(code);
    return 0;
}
