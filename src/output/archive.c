/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/archive.h"

#include "base/intern.h"
#include "base/other_file.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- asking for everything ------------------------------------------------------------------ */

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    (void)context;
    (void)err;
    *ret = w;
    return 0;
}

static int name_frames(void *worker, const struct replay_sample *s, struct error *err)
{
    for (size_t i = 0; i < s->nr_frames; i++) {
        struct named_frame n;
        if (replay_name(worker, s, &s->frames[i], &n, err) < 0)
            return -1;
    }
    return 0;
}

struct replay_sink archive_sink(void)
{
    return (struct replay_sink){.worker_create = worker_create, .sample = name_frames};
}

/* ---- which file goes where ----------------------------------------------------------------- */

struct archiver {
    struct tar *tar;
    const struct replay *replay;
    const char *symfs; /* option of this run; NULL: none */
    void (*say)(const char *line);
    struct intern *names;
    VEC(const char *) members; /* interned */
    struct archive_result result;
};

static void say(struct archiver *a, const char *what, const char *why)
{
    struct text line = {0};
    text_string(&line, "not in the archive: ");
    text_clean(&line, what);
    text_string(&line, why);
    text_char(&line, 0);
    if (!line.failed)
        a->say(line.at);
    text_free(&line);
    a->result.missing++;
}

/* Whether a name stays below the folder that the archive is unpacked to. */
static bool is_safe(const char *name)
{
    for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == 0))
            return false;
    return *name != '/' && *name;
}

/* Returns the member's name for a path of the recording: without leading slashes and "
 * (deleted)". */
static const char *member_name(struct archiver *a, const char *path)
{
    size_t size = text_undeleted(path);
    for (; size && *path == '/'; size--)
        path++;
    return intern_bytes(a->names, path, size);
}

__attribute__((format(printf, 2, 3))) static const char *make_name(struct archiver *a,
                                                                   const char *fmt, ...)
{
    char *s;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&s, fmt, args);
    va_end(args);
    if (n < 0)
        return NULL;
    const char *name = intern_string(a->names, s);
    free(s);
    return name;
}

/* Returns ".debug/.build-id/ab/cdef.../FILE", as in perf's build-id cache; NULL: no build id. */
static const char *cache_name(struct archiver *a, const struct build_id *id, const char *file)
{
    char hex[2 * BUILD_ID_MAX + 1];
    build_id_hex(id, hex);
    return id->size < 2 ? NULL : make_name(a, ".debug/.build-id/%.2s/%s/%s", hex, hex + 2, file);
}

static bool is_member(const struct archiver *a, const char *name)
{
    vec_foreach (m, &a->members)
        if (*m == name)
            return true;
    return false;
}

/* Returns 1: add it now; 0: it is in the archive, or was reported missing; -1: memory is out. */
static int new_member(struct archiver *a, const char *name, struct error *err)
{
    if (!name)
        return error_no_memory(err);
    if (is_member(a, name))
        return 0;
    if (!is_safe(name)) {
        say(a, name, ": its path leads out of the archive");
        return 0;
    }
    a->result.files++;
    return vec_push(&a->members, name) ? 1 : error_no_memory(err);
}

static int add_image(struct archiver *a, const char *name, const struct elf_image *image,
                     struct error *err)
{
    int new = new_member(a, name, err);
    if (new <= 0)
        return new;
    a->result.bytes += image->size;
    return tar_add(a->tar, name, image->bytes, image->size, err);
}

static int add_file(struct archiver *a, const char *name, const char *path, struct error *err)
{
    uint64_t size;
    int new = new_member(a, name, err);
    if (new <= 0)
        return new;
    if (tar_add_file(a->tar, name, path, &size, err) < 0)
        return -1;
    a->result.bytes += size;
    return 0;
}

/* ---- dsos ---------------------------------------------------------------------------------- */

/* Returns the member's name for the code's file. NULL: it has none, which was reported, or memory
 * is out (*failed). */
static const char *image_name(struct archiver *a, const struct dso *d,
                              const struct elf_image *image, bool *failed)
{
    const struct build_id *id = &d->build_id;
    const char *name;
    if (d->kind == DSO_VDSO) {
        name = id->size >= 2 ? cache_name(a, id, "vdso") : member_name(a, d->name);
        *failed |= !name;
        return name;
    }
    name = *d->name == '/' ? member_name(a, d->name) : NULL;
    if (name && !is_member(a, name))
        return name;
    name = cache_name(a, id, "elf"); /* another file has the same path */
    if (!name && !id->size)
        say(a, image->path,
            ": another file of this path is in it, and no build id tells them apart");
    *failed |= !name && id->size;
    return name;
}

/* Returns a debug file's name: by build id; without a build id, its path. */
static const char *debug_name(struct archiver *a, const struct elf_image *debug)
{
    char hex[2 * BUILD_ID_MAX + 1];
    const char *path = debug->path;
    size_t prefix = a->symfs ? strlen(a->symfs) : 0;
    if (debug->build_id.size >= 2) {
        build_id_hex(&debug->build_id, hex);
        return make_name(a, "usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
    }
    return member_name(a, prefix && strncmp(path, a->symfs, prefix) == 0 ? path + prefix : path);
}

/* If `path` is beside `image`, or in its folder, return the name that is beside `name` or in its
 * folder in the same way; else NULL. */
static const char *beside(struct archiver *a, const char *path, const struct elf_image *image,
                          const char *name)
{
    const char *slash = image ? strrchr(image->path, '/') : NULL;
    const char *to = name ? strrchr(name, '/') : NULL;
    size_t folder = slash ? (size_t)(slash + 1 - image->path) : 0;
    if (!folder || !to || strncmp(path, image->path, folder) != 0 || strchr(path + folder, '/'))
        return NULL;
    if (strncmp(path, image->path, strlen(image->path)) == 0) /* the file is FILE.dwp */
        return make_name(a, "%s%s", name, path + strlen(image->path));
    return make_name(a, "%.*s%s", (int)(to + 1 - name), name, path + folder);
}

/* Add a file of split DWARF. */
static int add_split(struct archiver *a, const struct elf_image *split,
                     const struct elf_image *const near[2], const char *const names[2],
                     struct error *err)
{
    const char *path = split->path;
    const char *name = beside(a, path, near[0], names[0]);
    size_t prefix = a->symfs ? strlen(a->symfs) : 0;
    if (!name)
        name = beside(a, path, near[1], names[1]);
    if (!name && prefix && strncmp(path, a->symfs, prefix) == 0)
        path += prefix;
    return add_image(a, name ? name : member_name(a, path), split, err);
}

static int add_parts(struct archiver *a, const struct dso *d, const char *name, struct error *err)
{
    const struct elf_image *debug = dso_opened(d, DSO_PART_DEBUG, 0);
    const struct elf_image *alt = dso_opened(d, DSO_PART_ALT, 0);
    const struct elf_image *dwp = dso_opened(d, DSO_PART_DWP, 0);
    const struct elf_image *const near[2] = {dso_opened(d, DSO_PART_IMAGE, 0), debug};
    const char *const names[2] = {name, debug ? debug_name(a, debug) : NULL};
    if (debug && add_image(a, names[1], debug, err) < 0)
        return -1;
    if (alt && add_image(a, debug_name(a, alt), alt, err) < 0)
        return -1;
    if (dwp && add_split(a, dwp, near, names, err) < 0)
        return -1;
    for (size_t i = 0; i < dso_nr_dwos(d); i++) {
        const struct elf_image *dwo = dso_opened(d, DSO_PART_DWO, i);
        if (dwo && add_split(a, dwo, near, names, err) < 0)
            return -1;
    }
    return 0;
}

/* Without privileges, all addresses in kallsyms are 0. */
static bool has_addresses(const char *kallsyms)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(kallsyms, "re");
    while (f && !found && fgets(line, sizeof(line), f))
        found = strtoull(line, NULL, 16) != 0;
    if (f)
        fclose(f);
    return found;
}

static int add_kernel(struct archiver *a, struct dso *d, struct error *err)
{
    const char *path = dso_kallsyms_was_asked(d) ? dso_kallsyms(d) : NULL;
    if (!dso_kallsyms_was_asked(d))
        return 0;
    if (!path || !has_addresses(path)) {
        say(a, d->name,
            path ? ": its kallsyms shows no addresses (be root, or see "
                   "kernel.kptr_restrict)"
                 : ": no kallsyms of it");
        return 0;
    }
    if (d->build_id.size >= 2)
        return add_file(a, cache_name(a, &d->build_id, "kallsyms"), path, err);
    say(a, d->name,
        ": the recording has no build id to know it by; it is in it as kallsyms, for "
        "--kallsyms");
    return add_file(a, make_name(a, "kallsyms"), path, err);
}

static int add_dso(struct archiver *a, struct dso *d, struct error *err)
{
    const struct elf_image *image = dso_opened(d, DSO_PART_IMAGE, 0);
    bool failed = false;
    if (d->kind == DSO_KERNEL && add_kernel(a, d, err) < 0)
        return -1;
    if (d->kind == DSO_KERNEL || d->kind == DSO_PSEUDO || !dso_was_asked(d))
        return 0;
    if (!image) {
        if (*d->name == '/' || d->kind == DSO_VDSO)
            say(a, dso_problem(d) ? dso_problem(d) : d->name, "");
        return 0;
    }
    const char *name = image_name(a, d, image, &failed);
    if (failed)
        return error_no_memory(err);
    if (name && add_image(a, name, image, err) < 0)
        return -1;
    return add_parts(a, d, name, err);
}

/* Add the file that was loaded, and no other: whoever owns its folder may have put a link in its
 * place. */
static int add_jit_file(struct archiver *a, const struct session_jit_file *jit, struct error *err)
{
    struct stat st;
    uint64_t size;
    const char *name = member_name(a, jit->name);
    int new = new_member(a, name, err);
    if (new <= 0)
        return new;
    int fd = other_file_open(jit->path), failed = 0;
    bool same =
        fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == jit->device && st.st_ino == jit->inode;
    if (!same)
        say(a, jit->path, ": another file is there by now");
    else if ((failed = tar_add_open(a->tar, name, fd, &size, err)) == 0)
        a->result.bytes += size;
    if (fd >= 0)
        close(fd);
    return failed;
}

/* ---- the whole archive --------------------------------------------------------------------- */

int archive_write(struct tar *tar, const struct replay *r, void (*say_line)(const char *line),
                  struct archive_result *ret, struct error *err)
{
    struct archiver a = {.tar = tar,
                         .replay = r,
                         .symfs = replay_options(r)->dso.symfs,
                         .say = say_line,
                         .names = intern_create()};
    struct session_jit_file jit;
    struct dsos *all = replay_dsos(r);
    int failed = a.names ? 0 : error_no_memory(err);
    for (size_t i = 0; i < dsos_count(all) && !failed; i++)
        failed = add_dso(&a, dsos_at(all, i), err);
    for (size_t i = 0; !failed && session_jit_file(replay_session(r), i, &jit); i++)
        failed = add_jit_file(&a, &jit, err);
    *ret = a.result;
    vec_free(&a.members);
    intern_free(a.names);
    return failed ? -1 : 0;
}
