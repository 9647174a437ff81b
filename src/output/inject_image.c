/* SPDX-License-Identifier: GPL-2.0-only */
/* See inject_image.h. The output depends only on the places, not on the order in which they came:
 * functions are sorted by name, lines by number. */
#include "output/inject_image.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/intern.h"
#include "base/vec.h"
#include "dso/elf_write.h"
#include "output/output.h"
#include "unwind/frame.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = ARCH_PAGE_MIN };
#define IMAGE_ROOM UINT64_C(0x100000000)

/* A place for the layout of its image. */
struct slot {
    const char *name, *file; /* `file` NULL: unknown */
    uint32_t line, place;
    uint32_t defined; /* line of the function's definition */
    const char *defined_in;
};

struct inject_images {
    uint16_t machine; /* e_machine of the images */
    uint64_t start;   /* address of the first image */
    struct managed_names *managed;
    struct intern *strings;
    VEC(struct inject_place) places;
    struct hash_table numbers; /* of places */
    VEC(uint64_t) addresses;   /* per place */
    struct inject_image at[INJECT_IMAGES];
    size_t nr;
};

struct inject_images *inject_images_create(struct managed_names *managed)
{
    struct inject_images *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->managed = managed;
    all->strings = intern_create();
    if (all->strings)
        return all;
    free(all);
    return NULL;
}

void inject_images_free(struct inject_images *all)
{
    if (!all)
        return;
    intern_free(all->strings);
    vec_free(&all->places);
    vec_free(&all->addresses);
    hash_table_free(&all->numbers);
    free(all);
}

/* ---- places -------------------------------------------------------------------------------- */

static bool same_place(const struct inject_place *a, const struct inject_place *b)
{
    return a->symbol == b->symbol && a->file == b->file && a->function == b->function &&
           a->line == b->line && a->language == b->language && a->provenance == b->provenance;
}

static uint64_t hash_place(const struct inject_place *p)
{
    uint64_t h = hash_combine((uintptr_t)p->symbol, (uintptr_t)p->file);
    h = hash_combine(h, p->function | (uint64_t)p->line << 32);
    return hash_combine(h, p->language | p->provenance << 8);
}

int inject_images_add(struct inject_images *all, const struct inject_place *place, uint32_t *ret,
                      struct error *err)
{
    uint64_t hash = hash_place(place);
    *ret = hash_table_find(&all->numbers, hash, i, same_place(&all->places.at[i], place));
    if (*ret != HASH_TABLE_NONE)
        return 0;
    if (all->places.nr >= ELF_WRITE_SLOTS_MAX)
        return error_set(err, ERROR_UNSUPPORTED, "the recording has too many lines of code");
    *ret = (uint32_t)all->places.nr;
    return vec_push(&all->places, *place) && hash_table_add(&all->numbers, hash, *ret)
               ? 0
               : error_no_memory(err);
}

/* ---- names of places ----------------------------------------------------------------------- */

/* Returns a symbol as frames of its kind show it. */
static const char *shown_name(struct inject_images *all, const char *symbol, bool managed)
{
    struct text t = {0};
    (managed ? text_managed_symbol : text_symbol)(&t, symbol);
    const char *name = t.failed ? NULL : intern_bytes(all->strings, t.at, t.size);
    text_free(&t);
    return name;
}

/* Returns a path instead of a URL, because readers of line tables open files. */
static const char *plain_file(const char *file)
{
    static const char url[] = "file://";
    size_t size = sizeof(url) - 1;
    if (!file || !*file)
        return NULL;
    return strncmp(file, url, size) == 0 && file[size] == '/' ? file + size : file;
}

static bool name_managed(struct inject_images *all, const struct inject_place *p, struct slot *ret)
{
    static const uint8_t kinds[] = {[INJECT_LUA] = FRAME_LUA,
                                    [INJECT_JS] = FRAME_JS,
                                    [INJECT_WASM] = FRAME_WASM,
                                    [INJECT_MANAGED] = FRAME_MANAGED};
    struct managed_function g;
    struct text symbol = {0};
    if (!p->function || !managed_get(all->managed, p->function, UINT64_MAX, &g))
        managed_unrecorded(kinds[p->language], &g);
    managed_symbol(&symbol, &g);
    text_char(&symbol, 0);
    ret->name = symbol.failed ? NULL : shown_name(all, symbol.at, true);
    text_free(&symbol);
    ret->defined = g.line;
    ret->defined_in = ret->file = plain_file(g.file);
    return ret->name;
}

static bool name_slot(struct inject_images *all, uint32_t place, struct slot *ret)
{
    const struct inject_place *p = &all->places.at[place];
    *ret = (struct slot){.line = p->line, .place = place};
    if (!p->symbol) {
        if (!name_managed(all, p, ret))
            return false;
    } else {
        ret->name = shown_name(all, p->symbol, false);
        ret->file = plain_file(p->file);
    }
    if (!ret->line)
        ret->file = NULL;
    else if (!ret->file)
        ret->line = 0;
    return ret->name;
}

static int compare_strings(const char *a, const char *b)
{
    return a == b ? 0 : !a ? -1 : !b ? 1 : strcmp(a, b);
}

static int compare_slots(const void *x, const void *y)
{
    const struct slot *a = x, *b = y;
    int by = strcmp(a->name, b->name);
    if (!by)
        by = compare_strings(a->file, b->file);
    return by ? by : (a->line > b->line) - (a->line < b->line);
}

/* ---- one image ----------------------------------------------------------------------------- */

struct layout {
    struct inject_images *all;
    VEC(struct slot) slots;
    VEC(const char *) files;
    VEC(struct elf_write_function) functions;
    VEC(struct elf_write_slot) lines;
};

static void layout_free(struct layout *l)
{
    vec_free(&l->slots);
    vec_free(&l->files);
    vec_free(&l->functions);
    vec_free(&l->lines);
}

static bool take_slots(struct layout *l, uint8_t language, uint8_t provenance)
{
    for (size_t i = 0; i < l->all->places.nr; i++) {
        const struct inject_place *p = &l->all->places.at[i];
        struct slot s;
        if (p->language != language || p->provenance != provenance)
            continue;
        if (!name_slot(l->all, (uint32_t)i, &s) || !vec_push(&l->slots, s))
            return false;
    }
    if (l->slots.nr)
        qsort(l->slots.at, l->slots.nr, sizeof(*l->slots.at), compare_slots);
    return true;
}

static int compare_files(const void *x, const void *y)
{
    return compare_strings(*(const char *const *)x, *(const char *const *)y);
}

static bool take_files(struct layout *l)
{
    size_t nr = 0;
    vec_foreach (s, &l->slots)
        if ((s->file && !vec_push(&l->files, s->file)) ||
            (s->defined_in && !vec_push(&l->files, s->defined_in)))
            return false;
    if (l->files.nr)
        qsort(l->files.at, l->files.nr, sizeof(*l->files.at), compare_files);
    for (size_t i = 0; i < l->files.nr; i++)
        if (!nr || strcmp(l->files.at[nr - 1], l->files.at[i]) != 0)
            l->files.at[nr++] = l->files.at[i];
    l->files.nr = nr;
    return true;
}

static uint32_t file_index(const struct layout *l, const char *file)
{
    const char **at = file && l->files.nr ? bsearch(&file, l->files.at, l->files.nr,
                                                    sizeof(*l->files.at), compare_files)
                                          : NULL;
    return at ? (uint32_t)(at - l->files.at) + 1 : 0;
}

/* Lay out the slots. Slots of the same name form one function; those of the same line are one
 * slot. */
static bool lay_out(struct layout *l, uint64_t start)
{
    const struct slot *before = NULL;
    vec_foreach (s, &l->slots) {
        bool same = before && strcmp(before->name, s->name) == 0;
        if (!same && !vec_push(&l->functions,
                               (struct elf_write_function){.name = s->name,
                                                           .file = file_index(l, s->defined_in),
                                                           .line = s->defined}))
            return false;
        if (!same || compare_slots(before, s) != 0) {
            if (!vec_push(&l->lines, (struct elf_write_slot){file_index(l, s->file), s->line}))
                return false;
            l->functions.at[l->functions.nr - 1].nr_slots++;
        }
        /* Readers that take a caller's address for a return address look up the byte before it. */
        l->all->addresses.at[s->place] = start + elf_write_address(l->lines.nr - 1) + 1;
        before = s;
    }
    return true;
}

static int write_file(const char *path, const struct text *bytes, struct error *err)
{
    unlink(path); /* somebody may be reading the file of an earlier run */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_system(err, errno, "%s", path);
    struct text copy = *bytes;
    bool closed = false;
    int failed = text_write(&copy, fd, &closed, err);
    if (close(fd) != 0 && !failed)
        failed = error_system(err, errno, "%s: cannot be written", path);
    return failed;
}

static int write_layout(const struct layout *l, const char *name, struct inject_image *image,
                        struct error *err)
{
    struct text bytes = {0};
    char directory[PATH_MAX];
    if (!getcwd(directory, sizeof(directory)))
        strcpy(directory, "/");
    elf_write(&bytes,
              &(struct elf_write){
                  .machine = l->all->machine,
                  .name = name,
                  .directory = directory,
                  .files = l->files.at,
                  .nr_files = l->files.nr,
                  .functions = l->functions.at,
                  .nr_functions = l->functions.nr,
                  .slots = l->lines.at,
                  .nr_slots = l->lines.nr,
              },
              &image->build_id);
    int failed = bytes.failed ? error_no_memory(err) : write_file(image->path, &bytes, err);
    text_free(&bytes);
    image->size = (elf_write_address(l->lines.nr) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    image->nr_functions = l->functions.nr;
    image->nr_places = l->lines.nr;
    return failed;
}

static const char *image_path(struct inject_images *all, const char *folder, const char *name,
                              struct error *err)
{
    char whole[PATH_MAX];
    struct text t = {0};
    if (mkdir(folder, 0777) < 0 && errno != EEXIST) {
        error_system(err, errno, "%s", folder);
        return NULL;
    }
    if (!realpath(folder, whole)) {
        error_system(err, errno, "%s", folder);
        return NULL;
    }
    text_printf(&t, "%s/%s", whole, name);
    const char *path = t.failed ? NULL : intern_bytes(all->strings, t.at, t.size);
    text_free(&t);
    if (!path)
        error_no_memory(err);
    return path;
}

static int write_image(struct inject_images *all, const char *folder, uint8_t language,
                       uint8_t provenance, struct error *err)
{
    static const char *const languages[] = {"lua", "js", "wasm", "managed", "code"};
    static const char *const doubts[] = {"", "-image", "-guess"};
    struct layout l = {.all = all};
    struct inject_image *image = &all->at[all->nr];
    char name[32];
    int failed = 0;
    if (!take_slots(&l, language, provenance)) {
        layout_free(&l);
        return error_no_memory(err);
    }
    if (l.slots.nr) {
        snprintf(name, sizeof(name), "%s%s", languages[language], doubts[provenance]);
        image->start = all->start + all->nr * IMAGE_ROOM;
        image->path = image_path(all, folder, name, err);
        failed = image->path ? 0 : -1;
        if (!failed && (!take_files(&l) || !lay_out(&l, image->start)))
            failed = error_no_memory(err);
        if (!failed)
            failed = write_layout(&l, name, image, err);
        all->nr++;
    }
    layout_free(&l);
    return failed;
}

int inject_images_write(struct inject_images *all, const struct arch *arch, const char *folder,
                        struct error *err)
{
    all->machine = arch ? arch->elf_machine : EM_NONE;
    all->start = arch ? arch->unused_addresses : UINT64_C(1) << 56;
    if (!vec_reserve(&all->addresses, all->places.nr))
        return error_no_memory(err);
    all->addresses.nr = all->places.nr;
    for (int language = 0; language < INJECT_LANGUAGES; language++)
        for (int provenance = 0; provenance < INJECT_DOUBTS; provenance++)
            if (write_image(all, folder, (uint8_t)language, (uint8_t)provenance, err) < 0)
                return -1;
    return 0;
}

uint64_t inject_images_address(const struct inject_images *all, uint32_t place)
{
    return place < all->addresses.nr ? all->addresses.at[place] : 0;
}

const struct inject_image *inject_images_at(const struct inject_images *all, size_t index)
{
    return index < all->nr ? &all->at[index] : NULL;
}
