/* SPDX-License-Identifier: GPL-2.0-only */
/* Any bytes as an ELF file: open it, look up symbols, inlined functions and lines. The first bytes
 * of the input choose the addresses. */
#include "dso/dso.h"
#include "symbols/dwarf_unit.h"
#include "symbols/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 8 };
    char path[64];
    int fd = size > HEAD ? memfd_create("fuzz", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    if (write(fd, data + HEAD, size - HEAD) != (ssize_t)(size - HEAD))
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct dso_options o = {
        .buildid_dir = "/nonexistent", .debug_dir = "/nonexistent", .no_debuginfod = true};
    struct symbols_options so = {.inlines = true, .lines = true};
    struct dsos *all = dsos_create(&o);
    struct symbols *s = symbols_create(all, &so);
    struct symbol_cache *c = symbol_cache_create(s);
    struct dso *d = dsos_get(all, DSO_FILE, path, NULL, 0);
    uint64_t step;
    memcpy(&step, data, sizeof(step));
    step &= 0xfff;
    for (uint64_t i = 0; i < 64; i++)
        if (!symbols_resolve(c, d, 0x1000 + i * (step + 1), 0x1000 + i * (step + 1)))
            abort();
    /* The same bytes, also as a .dwo file or package. */
    const struct elf_image *e = dso_image(d);
    struct dwarf_file split = {0};
    if (e && dwarf_file_open(&split, e, true, true))
        (void)dwarf_abbrevs(&split.units.at[0]);
    dwarf_file_close(&split);
    uint8_t bytes[16];
    bool proven;
    (void)dso_read(d, step, bytes, sizeof(bytes), &proven);
    symbol_cache_free(c);
    symbols_free(s);
    dsos_free(all);
    close(fd);
    return 0;
}
