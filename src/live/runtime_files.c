/* SPDX-License-Identifier: GPL-2.0-only */
/* Files and the VMs in them. See runtime_files.h. */
#include "live/runtime_files.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/other_file.h"
#include "base/vec.h"
#include "live/lua_scan.h"
#include "dso/elf_image.h"
#include "dso/runtime_image.h"
#include "base/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEPT_BYTES = 1 << 20 /* size limit of the file that holds build ids for later recordings */
};

/* A file that was searched now, or (inode 0) in an earlier recording. */
struct known_file {
    struct runtime_file_key key;
    uint64_t size, mtime; /* mtime in ns; both as of the search, since inode numbers are reused */
    uint64_t compared;    /* CLOCK_MONOTONIC in ns: when these were found to be the file's */
    struct runtime_file holds;
    void *layouts[RUNTIMES_MAX]; /* owned; as in `holds` */
    char *problem;               /* why a runtime in it could not be understood; NULL: none */
    bool said;
};

struct runtime_files {
    VEC(struct known_file *) files;
    struct table by_id, by_place; /* keys: see id_key(), place_key() */
    uint64_t looks;
    /* `keeps`: for later recordings; `changed`: since it was loaded. */
    bool keeps, changed;
};

/* ---- which file ---------------------------------------------------------------------------- */

/* A build id is a digest: its first bytes suffice. find() tells ids with equal first bytes
 * apart. */
static uint64_t id_key(const struct build_id *id)
{
    uint8_t bytes[8] = {0};
    memcpy(bytes, id->bytes, id->size < sizeof(bytes) ? id->size : sizeof(bytes));
    return load_u64(bytes, false) ^ id->size;
}

static uint64_t place_key(const struct runtime_file_key *k)
{
    return k->inode ^ (uint64_t)k->major << 52 ^ (uint64_t)k->minor << 40;
}

static struct known_file *find(const struct runtime_files *f, const struct runtime_file_key *key)
{
    struct known_file *k = key->build_id.size ? table_get(&f->by_id, id_key(&key->build_id)) : NULL;
    if (k && build_id_equal(&k->key.build_id, &key->build_id))
        return k;
    k = key->inode ? table_get(&f->by_place, place_key(key)) : NULL;
    return k && k->key.inode == key->inode && k->key.major == key->major &&
                   k->key.minor == key->minor
               ? k
               : NULL;
}

unsigned runtime_files_find(const struct runtime_files *f, const struct runtime_file_key *key)
{
    const struct known_file *k = find(f, key);
    return k ? k->holds.holds : HOLDS_UNKNOWN;
}

static void file_free(struct known_file *k)
{
    for (size_t i = 0; i < nr_runtimes; i++) {
        if (k->layouts[i])
            runtimes[i]->layout_free(k->layouts[i]);
    }
    free(k->problem);
    free(k);
}

/* Add `k` in place of the file known by the same keys. The older file stays in `files`, because its
 * layout may be in use. */
static int add(struct runtime_files *f, struct known_file *k, struct error *err)
{
    bool ok = vec_push(&f->files, k);
    if (!ok) {
        file_free(k);
        return error_no_memory(err);
    }
    if (k->key.build_id.size)
        ok = table_put(&f->by_id, id_key(&k->key.build_id), k);
    if (ok && k->key.inode)
        ok = table_put(&f->by_place, place_key(&k->key), k);
    return ok ? 0 : error_no_memory(err);
}

/* ---- creation ------------------------------------------------------------------------------ */

struct runtime_files *runtime_files_create(void)
{
    return calloc(1, sizeof(struct runtime_files));
}

void runtime_files_free(struct runtime_files *f)
{
    if (!f)
        return;
    vec_foreach (k, &f->files)
        file_free(*k);
    vec_free(&f->files);
    table_free(&f->by_id);
    table_free(&f->by_place);
    free(f);
}

/* ---- searching ----------------------------------------------------------------------------- */

static struct cfi_section section(const struct elf_image *image, const char *name)
{
    struct elf_section s;
    if (!elf_image_section(image, name, &s))
        return (struct cfi_section){0};
    return (struct cfi_section){s.bytes, s.size, s.address};
}

/* Returns the file offset of an address; 0: no segment holds it. */
static uint64_t offset_of(const struct runtime_image *view, const struct elf_image *image,
                          uint64_t address)
{
    const uint8_t *at = view->bytes(view->context, address, 1);
    return at ? (uint64_t)(at - image->bytes) : 0;
}

/* A file that holds a runtime has its code at an offset above 0, behind the ELF header. */
static void take_layout(struct known_file *f, size_t number, void *layout,
                        const struct runtime_image *view, const struct elf_image *image)
{
    const struct runtime *rt = runtimes[number];
    uint64_t offset = rt->code_start ? offset_of(view, image, rt->code_start(layout)) : 1;
    if (!offset) {
        rt->layout_free(layout);
        return;
    }
    f->layouts[number] = layout;
    f->holds.layouts[number] = layout;
    f->holds.code_offset[number] = offset;
    f->holds.holds |= 1U << number;
}

/* Find the runtimes whose discovery is fast. */
static int discover(const struct elf_image *image, struct known_file *f, struct error *err)
{
    struct elf_runtime_image of = {.image = image};
    struct cfi *cfi = NULL;
    const struct cfi_source source = {.name = image->path,
                                      .arch = arch_by_elf(image->machine, image->is64),
                                      .eh_frame = section(image, ".eh_frame"),
                                      .eh_frame_hdr = section(image, ".eh_frame_hdr"),
                                      .debug_frame = section(image, ".debug_frame"),
                                      .id = 1};
    if (cfi_create(&source, &cfi, NULL) < 0)
        return 0; /* no unwind entries: nothing can be found out */
    const struct runtime_image view = elf_runtime_image(&of, cfi);
    bool no_memory = false;
    for (size_t i = 0; i < nr_runtimes && !no_memory; i++) {
        struct error why = {0};
        void *layout = NULL;
        int got = runtimes[i]->may_hold ? 0 : runtimes[i]->discover(&view, &layout, &why);
        if (got > 0)
            take_layout(f, i, layout, &view, image);
        no_memory = got < 0 && why.kind == ERROR_NO_MEMORY;
        if (got < 0 && !no_memory && !f->problem)
            f->problem = strdup(why.text);
    }
    cfi_free(cfi);
    return no_memory ? error_no_memory(err) : 0;
}

/* Note the runtimes that have a quick test. */
static void test_quickly(const struct elf_image *image, struct known_file *f)
{
    struct elf_runtime_image of = {.image = image};
    const struct runtime_image view = elf_runtime_image(&of, NULL);
    for (size_t i = 0; i < nr_runtimes; i++) {
        if (runtimes[i]->may_hold && runtimes[i]->may_hold(&view))
            f->holds.holds |= 1U << i;
    }
}

/* What a file was when it was opened: its size, and when it was changed. */
static uint64_t mtime_of(const struct stat *st)
{
    return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

/* Read the file's headers; closes `fd`. Returns NULL if it is no file that we can use. */
static struct elf_image *read_image(int fd, const struct process_map *map)
{
    struct elf_image *image;
    if (elf_image_take(map->path, fd, &image, NULL) < 0)
        return NULL;
    if (arch_by_elf(image->machine, image->is64) == arch_of_host() && arch_of_host() &&
        !image->swapped)
        return image;
    elf_image_free(image);
    return NULL;
}

/* Search the file, unless an earlier recording found nothing in it. Closes `fd`. */
static int look_into(struct runtime_files *f, int fd, const struct process_map *map,
                     struct known_file *ret, struct error *err)
{
    struct elf_image *image = read_image(fd, map);
    int failed = 0;
    if (!image)
        return 0;
    ret->key.build_id = image->build_id;
    const struct runtime_file_key id = {.build_id = image->build_id};
    if (runtime_files_find(f, &id) != 0) { /* otherwise it holds nothing, wherever it is */
        f->looks++;
        f->changed = true;
        failed = discover(image, ret, err);
        if (!failed)
            test_quickly(image, ret);
    }
    elf_image_free(image);
    return failed;
}

/* Whether a file is still what was searched. Many processes map the same files: each is asked for
 * its state once in a while. One that cannot be asked for it is taken for the same. */
static bool is_same(struct known_file *k, pid_t pid, const struct process_map *map)
{
    enum { ASK_AGAIN_NS = 100000000 };
    struct stat st;
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now - k->compared < ASK_AGAIN_NS)
        return true;
    bool there = other_file_stat_in_root(pid, map->path, &st) && st.st_ino == map->inode;
    k->compared = now;
    return !there || (k->size == (uint64_t)st.st_size && k->mtime == mtime_of(&st));
}

int runtime_files_look(struct runtime_files *f, pid_t pid, const struct process_map *map,
                       struct runtime_file *ret, struct error *err)
{
    const struct runtime_file_key key = {
        .inode = map->inode, .major = map->major, .minor = map->minor};
    struct known_file *k = find(f, &key);
    struct stat st = {0};
    *ret = (struct runtime_file){0};
    if (k && is_same(k, pid, map)) {
        *ret = k->holds;
        return 0;
    }
    k = calloc(1, sizeof(*k));
    if (!k)
        return error_no_memory(err);
    int fd = other_file_open_mapped(pid, map, NULL);
    if (fd < 0 || fstat(fd, &st) < 0)
        (void)other_file_stat_in_root(pid, map->path, &st);
    *k = (struct known_file){.key = key,
                             .size = (uint64_t)st.st_size,
                             .mtime = mtime_of(&st),
                             .compared = clock_ns(CLOCK_MONOTONIC)};
    if (look_into(f, fd, map, k, err) < 0) {
        file_free(k);
        return -1;
    }
    *ret = k->holds;
    return add(f, k, err);
}

const char *runtime_files_problem(struct runtime_files *f)
{
    vec_foreach (at, &f->files) {
        struct known_file *k = *at;
        if (!k->problem || k->said)
            continue;
        k->said = true;
        return k->problem;
    }
    return NULL;
}

uint64_t runtime_files_looks(const struct runtime_files *f)
{
    return f->looks;
}

/* ---- kept for later recordings ------------------------------------------------------------- */

/* Another build of this program may find what this one did not, so the first line identifies the
 * program's file. */
static void head_line(char *to, size_t size)
{
    struct stat st = {0};
    (void)stat("/proc/self/exe", &st);
    snprintf(to, size, "no VM for ljperf %llx %llx %llx\n", (unsigned long long)st.st_ino,
             (unsigned long long)st.st_size, (unsigned long long)mtime_of(&st));
}

/* The folder; -1: there is none that only the user can write. */
static int open_folder(bool make)
{
    char path[4096];
    struct stat st;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && cache[0] == '/';
    if (!given && (!home || home[0] != '/'))
        return -1;
    if (snprintf(path, sizeof(path), "%s%s", given ? cache : home, given ? "" : "/.cache") >=
        (int)sizeof(path) - 16)
        return -1;
    if (make)
        (void)mkdir(path, 0700);
    strcat(path, "/ljperf");
    if (make)
        (void)mkdir(path, 0700);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A shorter one could be of two files. */
static bool is_long_enough(const struct build_id *id)
{
    enum { LEAST = 8 };
    return id->size >= LEAST;
}

static void read_kept(struct runtime_files *f, FILE *in)
{
    char line[256], head[128];
    head_line(head, sizeof(head));
    if (!fgets(line, sizeof(line), in) || strcmp(line, head) != 0)
        return;
    for (size_t nr = 0; nr < RUNTIME_FILES_KEPT && fgets(line, sizeof(line), in); nr++) {
        struct known_file *k = calloc(1, sizeof(*k));
        if (!k || !build_id_from_hex(line, &k->key.build_id) || !is_long_enough(&k->key.build_id) ||
            runtime_files_find(f, &k->key) == 0) {
            free(k);
            continue;
        }
        if (add(f, k, NULL) < 0)
            return;
    }
}

void runtime_files_load(struct runtime_files *f)
{
    struct stat st;
    f->keeps = true;
    int folder = open_folder(false);
    if (folder < 0)
        return;
    int fd = openat(folder, "no-vm", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    close(folder);
    if (fd < 0)
        return;
    bool ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                !(st.st_mode & 022) && st.st_size <= KEPT_BYTES;
    FILE *in = ours ? fdopen(fd, "r") : NULL;
    if (!in) {
        close(fd);
        return;
    }
    read_kept(f, in);
    fclose(in);
}

static bool is_kept(const struct known_file *k)
{
    return is_long_enough(&k->key.build_id) && !k->holds.holds && !k->problem;
}

size_t runtime_files_empty(const struct runtime_files *f, struct build_id *ret, size_t max)
{
    struct table found = {0};
    size_t nr = 0;
    for (size_t i = f->files.nr; i-- && nr < max;) { /* newest first */
        const struct known_file *k = f->files.at[i];
        const struct build_id *id = &k->key.build_id;
        if (is_kept(k) && !table_get(&found, id_key(id)) &&
            table_put(&found, id_key(id), f->files.at[i]))
            ret[nr++] = *id;
    }
    table_free(&found);
    return nr;
}

int runtime_files_add_empty(struct runtime_files *f, const struct build_id *ids, size_t nr,
                            struct error *err)
{
    for (size_t i = 0; i < nr; i++) {
        const struct runtime_file_key key = {.build_id = ids[i]};
        if (ids[i].size > BUILD_ID_MAX || !is_long_enough(&ids[i]) ||
            !(runtime_files_find(f, &key) & HOLDS_UNKNOWN))
            continue;
        struct known_file *k = calloc(1, sizeof(*k));
        if (!k)
            return error_no_memory(err);
        k->key = key;
        f->changed = true;
        if (add(f, k, err) < 0)
            return -1;
    }
    return 0;
}

static bool write_kept(const struct runtime_files *f, FILE *out)
{
    char head[128], hex[2 * BUILD_ID_MAX + 1];
    struct build_id *ids = calloc(RUNTIME_FILES_KEPT, sizeof(*ids));
    size_t nr = ids ? runtime_files_empty(f, ids, RUNTIME_FILES_KEPT) : 0;
    head_line(head, sizeof(head));
    fputs(head, out);
    for (size_t i = 0; i < nr; i++) {
        build_id_hex(&ids[i], hex);
        fprintf(out, "%s\n", hex);
    }
    free(ids);
    return ids && !ferror(out);
}

void runtime_files_save(struct runtime_files *f)
{
    char name[64];
    if (!f->keeps || !f->changed)
        return;
    int folder = open_folder(true);
    if (folder < 0)
        return;
    snprintf(name, sizeof(name), "no-vm.%ld", (long)getpid());
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool ok = out && write_kept(f, out);
    if (out)
        ok = fclose(out) == 0 && ok;
    else if (fd >= 0)
        close(fd);
    if (ok)
        ok = renameat(folder, name, folder, "no-vm") == 0;
    if (!ok && fd >= 0)
        (void)unlinkat(folder, name, 0);
    f->changed = false;
    close(folder);
}
