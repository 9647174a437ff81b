/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks for plain Lua in damaged copies of ELF files that hold one (those of the images beside the
 * repository; without them, in the input itself as code). The input decides which bytes of the
 * files are replaced. Discovery must end, must find the same twice, and what it finds must be
 * within its bounds; its description must end, too.
 *
 * An input is: the file's number; then records of a place (4 bytes, modulo the interpreter's code
 * and what surrounds it), and a byte.
 */
#include "dso/elf_image.h"
#include "dso/runtime_image.h"
#include "unwind/lua/discover.h"
#include "unwind/native/cfi.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES_MAX = 16, RECORD = 5, MARGIN = 256 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
    uint8_t *bytes;
    size_t size;
    size_t code, code_size; /* offset and size of the interpreter's code */
};

static struct file files[FILES_MAX];
static unsigned nr_files;

static void check(const struct lua_layout *l)
{
    if (l->version < 51 || l->version > 55 || !l->nr_parts || l->nr_parts > LUA_PARTS_MAX ||
        !l->nr_state || l->nr_state > LUA_PLACES_MAX || l->nr_pc > LUA_PLACES_MAX ||
        l->nr_sites > LUA_SITES_MAX || memchr(l->release, 0, sizeof(l->release)) == NULL)
        abort();
    for (unsigned i = 0; i < l->nr_parts; i++) {
        if (l->parts[i].start >= l->parts[i].end)
            abort();
    }
    for (unsigned i = 1; i < l->nr_sites; i++) {
        if (l->sites[i - 1].at > l->sites[i].at)
            abort();
    }
}

static bool same_place(const struct lua_place *a, const struct lua_place *b)
{
    return a->kind == b->kind && a->reg == b->reg && a->offset == b->offset &&
           a->votes == b->votes && a->survives == b->survives;
}

/* Whether two layouts are equal, apart from bytes between their fields. */
static bool same_layout(const struct lua_layout *a, const struct lua_layout *b)
{
    bool same = a->version == b->version && a->nr_opcodes == b->nr_opcodes && a->body == b->body &&
                a->nr_parts == b->nr_parts && a->nr_state == b->nr_state && a->nr_pc == b->nr_pc &&
                a->nr_sites == b->nr_sites && a->nr_fetches == b->nr_fetches &&
                a->nr_collectors == b->nr_collectors && same_place(&a->calls, &b->calls) &&
                memcmp(a->release, b->release, sizeof(a->release)) == 0 &&
                memcmp(a->parts, b->parts, a->nr_parts * sizeof(*a->parts)) == 0;
    for (unsigned i = 0; same && i < a->nr_state; i++)
        same = same_place(&a->state[i], &b->state[i]);
    for (unsigned i = 0; same && i < a->nr_pc; i++)
        same = same_place(&a->pc[i], &b->pc[i]);
    for (unsigned i = 0; same && i < a->nr_sites; i++) {
        const struct lua_site *x = &a->sites[i], *y = &b->sites[i];
        same = x->at == y->at && x->saved == y->saved && x->before_fetch == y->before_fetch &&
               same_place(&x->state, &y->state) && same_place(&x->pc, &y->pc);
    }
    return same;
}

static struct cfi_section section(const struct elf_image *image, const char *name)
{
    struct elf_section s;
    if (!elf_image_section(image, name, &s))
        return (struct cfi_section){0};
    return (struct cfi_section){s.bytes, s.size, s.address};
}

/* Look for Lua in the bytes as a file. `at`: where its code is, as an offset in the file. */
static int discover(const uint8_t *bytes, size_t size, size_t *at, size_t *code_size)
{
    char path[64];
    struct elf_image *image = NULL;
    struct cfi *cfi = NULL;
    struct lua_layout first, second;
    int found = 0, fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (elf_image_open(path, &image, NULL) < 0) {
        close(fd);
        return 0;
    }
    struct elf_runtime_image of = {.image = image};
    const struct cfi_source source = {.name = "fuzz",
                                      .arch = arch_by_elf(image->machine, image->is64),
                                      .eh_frame = section(image, ".eh_frame"),
                                      .eh_frame_hdr = section(image, ".eh_frame_hdr"),
                                      .id = 1};
    if (source.arch && cfi_create(&source, &cfi, NULL) == 0) {
        const struct runtime_image view = elf_runtime_image(&of, cfi);
        found = lua_discover(&view, &first, NULL);
        if (found != lua_discover(&view, &second, NULL) ||
            (found == 1 && !same_layout(&first, &second)))
            abort();
        if (found == 1) {
            struct text text = {0};
            check(&first);
            lua_describe(&first, &view, &text);
            text_free(&text);
            const uint8_t *code = view.bytes(view.context, first.parts[0].start, 1);
            *at = code ? (size_t)(code - image->bytes) : 0;
            *code_size = first.parts[0].end - first.parts[0].start;
        }
    }
    cfi_free(cfi);
    elf_image_free(image);
    close(fd);
    return found;
}

static void add_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct file *to = &files[nr_files];
    if (!f || nr_files == FILES_MAX)
        return;
    fseek(f, 0, SEEK_END);
    to->size = (size_t)ftell(f);
    rewind(f);
    to->bytes = malloc(to->size);
    if (to->bytes && fread(to->bytes, 1, to->size, f) == to->size &&
        discover(to->bytes, to->size, &to->code, &to->code_size) == 1)
        nr_files++;
    else
        free(to->bytes);
    fclose(f);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char unpack[] =
        "d=../shared/testdata/lua; [ -d $d ] || exit 1; for a in $d/*[0-9]*.tar.zst; do "
        "b=$(basename $a .tar.zst); "
        "zstd -q --long=27 -dc $a | tar -x -C %s $b/lua && mv %s/$b/lua %s/$b.lua; done";
    char folder[] = "/tmp/fuzz-lua-XXXXXX", command[1024], path[512];
    (void)argc, (void)argv;
    if (!mkdtemp(folder))
        return 0;
    snprintf(command, sizeof(command), unpack, folder, folder, folder);
    DIR *d = system(command) == 0 ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (strstr(e->d_name, ".lua"))
            add_file(path);
    }
    if (d)
        closedir(d);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    (void)!system(command);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at, code_size;
    if (!size || !nr_files)
        return 0;
    const struct file *f = &files[data[0] % nr_files];
    uint8_t *bytes = malloc(f->size);
    if (!bytes)
        return 0;
    memcpy(bytes, f->bytes, f->size);
    for (size_t i = 1; i + RECORD <= size; i += RECORD) {
        uint32_t place;
        memcpy(&place, data + i, 4);
        /* Most damage in the code itself, every eighth anywhere. */
        size_t to = place % 8 ? f->code + place / 8 % (f->code_size + MARGIN) : place / 8;
        bytes[to % f->size] = data[i + 4];
    }
    (void)discover(bytes, f->size, &at, &code_size);
    free(bytes);
    return 0;
}
