/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the file that the code came from. Order: the recorded path (under --symfs; without it, first
 * under the process's root), perf's build-id cache, a debuginfod server. A file whose build id is
 * not the recorded one is another file: it is skipped and reported, unless forced.
 */
#include "base/other_file.h"
#include "base/text.h"
#include "dso/dso_internal.h"
#include "dso/notes.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>

void build_id_hex(const struct build_id *id, char hex[2 * BUILD_ID_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < id->size; i++) {
        hex[2 * i] = digits[id->bytes[i] >> 4];
        hex[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    hex[2 * id->size] = 0;
}

bool build_id_from_hex(const char *hex, struct build_id *ret)
{
    *ret = (struct build_id){0};
    size_t digits = strspn(hex, "0123456789abcdef");
    if (digits % 2 || digits > 2 * BUILD_ID_MAX)
        return false;
    for (; ret->size < digits / 2; hex += 2) {
        uint8_t high = (uint8_t)(hex[0] <= '9' ? hex[0] - '0' : hex[0] - 'a' + 10);
        uint8_t low = (uint8_t)(hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10);
        ret->bytes[ret->size++] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* Like asprintf(), but returns the string; NULL: failure. */
__attribute__((format(printf, 1, 2))) static char *path_make(const char *fmt, ...)
{
    char *s;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&s, fmt, args);
    va_end(args);
    return n < 0 ? NULL : s;
}

char *dso_symfs_path(struct dsos *all, const char *path)
{
    if (!all->options.symfs)
        return strdup(path);
    return path_make("%s/%s", all->options.symfs, path + (*path == '/'));
}

char *dso_cache_path(struct dsos *all, const struct build_id *id, const char *file)
{
    char hex[2 * BUILD_ID_MAX + 1];
    if (!all->options.buildid_dir || id->size < 2)
        return NULL;
    build_id_hex(id, hex);
    return path_make("%s/.build-id/%.2s/%s/%s", all->options.buildid_dir, hex, hex + 2, file);
}

/* The state of the search. */
struct search {
    struct dso_entry *d;
    struct elf_image *found;
    struct elf_image *other; /* a file that exists, but is another file */
    const char *why_other;
};

/* Returns why a file is not the recorded one; NULL: nothing says so. */
static const char *why_another(const struct search *s, const char *path, const struct elf_image *e)
{
    const struct build_id *want = &s->d->dso.build_id;
    uint64_t inode = atomic_load(&s->d->inode);
    struct stat st;
    if (want->size)
        return build_id_equal(want, &e->build_id) ? NULL : "its build id differs";
    const struct dso_options *o = &s->d->all->options;
    if (s->d->dso.kind != DSO_FILE || o->symfs || !other_file_stat(path, &st))
        return NULL;
    if (inode && st.st_ino != inode)
        return "its inode differs, and no build id was recorded";
    if (o->recorded && st.st_mtime > o->recorded)
        return "it was written since, and no build id was recorded";
    return NULL;
}

/* Consider one candidate, which is open (-1: it is not there); frees `path`, closes `fd`. */
static void consider_open(struct search *s, char *path, int fd)
{
    struct elf_image *e = NULL;
    struct error err = {0};
    if (fd < 0)
        goto out;
    if (elf_image_take(path, fd, &e, &err)) {
        dso_set_problem(s->d, "%s", err.text);
        goto out;
    }
    const char *why = why_another(s, path, e);
    if (!why) {
        s->found = e;
    } else if (!s->other) {
        s->other = e;
        s->why_other = why;
    } else {
        elf_image_free(e);
    }
out:
    free(path);
}

/* The same for a file that is found by its path. */
static void consider(struct search *s, char *path)
{
    int fd = path && !s->found ? other_file_open(path) : -1;
    if (path && !s->found && fd < 0 && errno != ENOENT && errno != ENOTDIR)
        dso_set_problem(s->d, "%s: %s", path,
                        errno == ENOTSUP ? "this is not an ELF file" : strerror(errno));
    consider_open(s, path, fd);
}

/* Consider the file that the process has at this path, in a mount namespace of its own. */
static void consider_in_root(struct search *s, const char *name)
{
    uint32_t root = s->d->root;
    char *path = path_make("/proc/%u/root%s", root, name);
    consider_open(s, path, path && !s->found ? other_file_open_in_root((pid_t)root, name) : -1);
}

/* Returns the name without " (deleted)"; `deleted`: the name had it. The caller frees it. */
static char *plain_name(const char *name, bool *deleted)
{
    size_t size = text_undeleted(name);
    *deleted = name[size];
    return strndup(name, size);
}

static void consider_paths(struct search *s)
{
    struct dso_entry *d = s->d;
    bool deleted;
    char *name = plain_name(d->dso.name, &deleted);
    if (!name || *name != '/') {
        free(name);
        return;
    }
    const char *live = atomic_load(&d->live_path);
    if (deleted && live)
        consider(s, strdup(live));
    /* The file at a deleted file's path today is the same file only if its build id matches. */
    if (!s->found && (!deleted || d->dso.build_id.size || d->all->options.force)) {
        /* In another mount namespace, our file at that path is a stranger: try the process's
         * first. */
        if (d->root && !d->all->options.symfs)
            consider_in_root(s, name);
        consider(s, dso_symfs_path(d->all, name));
    } else if (!s->found) {
        dso_set_problem(
            d, "%s: the file was deleted, and no build id was recorded to identify a copy", name);
    }
    free(name);
}

static struct elf_image *take_found(struct search *s)
{
    struct dso_entry *d = s->d;
    if (s->other && !s->found) {
        bool force = d->all->options.force;
        dso_set_problem(d, "%s: the file was replaced since the recording (%s)%s", s->other->path,
                        s->why_other, force ? "; it is used because of -f" : "");
        if (force) {
            s->found = s->other;
            s->other = NULL;
        }
    }
    elf_image_free(s->other);
    if (!s->found)
        dso_set_problem(d, "%s: file not found", d->dso.name);
    else
        d->proven = d->dso.build_id.size && build_id_equal(&d->dso.build_id, &s->found->build_id);
    return s->found;
}

/* ---- the kernel of the recording --------------------------------------------------------- */

static bool is_guest(const struct dso *dso)
{
    return strncmp(dso->name, "[guest.", 7) == 0;
}

/* Returns the build id of the kernel that a dso belongs to: a module's own id does not identify it.
 * Size 0: not known. */
static struct build_id recorded_kernel(const struct dso_entry *d)
{
    struct dsos *all = d->all;
    struct build_id id = {0};
    if (d->dso.kind == DSO_KERNEL)
        return d->dso.build_id;
    pthread_mutex_lock(&all->lock);
    vec_foreach (e, &all->entries)
        if ((*e)->dso.kind == DSO_KERNEL && !is_guest(&(*e)->dso) && !id.size)
            id = (*e)->dso.build_id;
    pthread_mutex_unlock(&all->lock);
    return id;
}

/* Is it the running kernel, as far as known? Compare the build id, or else the release. */
static bool kernel_is_running(const struct dsos *all, const struct build_id *kernel)
{
    const char *release = all->options.release;
    struct utsname u;
    if (kernel->size) {
        const struct build_id here = notes_file_build_id("/sys/kernel/notes");
        return build_id_equal(&here, kernel);
    }
    return !release || (uname(&u) == 0 && strcmp(u.release, release) == 0);
}

/* ---- vdso -------------------------------------------------------------------------------- */

/* Returns a copy of the running kernel's vdso. */
static struct elf_image *live_vdso(void)
{
    const uint8_t *base = (const uint8_t *)getauxval(AT_SYSINFO_EHDR); // NOLINT: an address
    struct elf_image *e = NULL;
    if (!base || sizeof(void *) != 8)
        return NULL;
    Elf64_Ehdr h;
    memcpy(&h, base, sizeof(h));
    size_t size = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    uint8_t *copy = size >= sizeof(h) && size < 1 << 20 ? malloc(size) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, base, size);
    return elf_image_adopt("[vdso]", copy, size, &e, NULL) ? NULL : e;
}

static void consider_live_vdso(struct search *s)
{
    const struct build_id *want = &s->d->dso.build_id, kernel = recorded_kernel(s->d);
    if (s->found)
        return;
    if (!want->size && !kernel_is_running(s->d->all, &kernel)) {
        dso_set_problem(s->d,
                        "%s: it is not of the running kernel, and no build id was recorded to "
                        "identify a copy",
                        s->d->dso.name);
        return;
    }
    struct elf_image *e = live_vdso();
    if (e && (!want->size || build_id_equal(want, &e->build_id)))
        s->found = e;
    else
        elf_image_free(e);
}

/* ---- the whole search -------------------------------------------------------------------- */

struct elf_image *dso_find_image(struct dso_entry *d)
{
    struct search s = {.d = d};
    struct dsos *all = d->all;
    switch (d->dso.kind) {
    case DSO_PSEUDO:
        return NULL;
    case DSO_KERNEL:
        if (all->options.vmlinux)
            consider(&s, strdup(all->options.vmlinux));
        return s.found || s.other ? take_found(&s) : NULL;
    case DSO_VDSO:
        consider(&s, dso_cache_path(all, &d->dso.build_id, "vdso"));
        if (all->options.symfs) /* from an archive, if the recording has no build id of it */
            consider(&s, dso_symfs_path(all, d->dso.name));
        consider_live_vdso(&s);
        return take_found(&s);
    case DSO_FILE:
    case DSO_KMODULE:
        break;
    }
    consider_paths(&s);
    if (d->dso.build_id.size && !s.found) {
        consider(&s, dso_cache_path(all, &d->dso.build_id, "elf"));
        if (!s.found)
            consider(&s, dso_debuginfod(all, &d->dso.build_id, DEBUGINFOD_EXECUTABLE));
    }
    return take_found(&s);
}

/* ---- kallsyms ---------------------------------------------------------------------------- */

bool dso_module_name(const struct dso *dso, char *to, size_t room)
{
    const char *name = dso->short_name;
    size_t size = strcspn(name, ".]"), skip = *name == '[', at = 0;
    if (size <= skip || size - skip >= room)
        return false;
    for (size_t i = skip; i < size; i++)
        to[at++] = name[i] == '-' ? '_' : name[i];
    to[at] = 0;
    return true;
}

/* Is another module loaded by that name? Compare its notes if a build id was recorded. */
static bool other_is_loaded(const struct dso *module)
{
    char name[256], path[320];
    if (!module->build_id.size || !dso_module_name(module, name, sizeof(name)))
        return false;
    snprintf(path, sizeof(path), "/sys/module/%s/notes/.note.gnu.build-id", name);
    const struct build_id here = notes_file_build_id(path);
    return here.size && !build_id_equal(&here, &module->build_id);
}

static const char *keep_readable(struct dsos *all, char *path)
{
    const char *kept = path && access(path, R_OK) == 0 ? intern_string(all->strings, path) : NULL;
    free(path);
    return kept;
}

const char *dso_find_kallsyms(struct dso_entry *d)
{
    struct dsos *all = d->all;
    bool kernel = d->dso.kind == DSO_KERNEL, guest = is_guest(&d->dso);
    if (!kernel && d->dso.kind != DSO_KMODULE)
        return NULL;
    if (all->options.kallsyms && !guest)
        return all->options.kallsyms;
    const struct build_id id = recorded_kernel(d);
    const char *path = keep_readable(all, dso_cache_path(all, &id, "kallsyms"));
    if (path)
        return path;
    if (guest) /* /proc/kallsyms is the host's */
        return NULL;
    if (!kernel_is_running(all, &id))
        dso_set_problem(
            d,
            "%s: this is not %sthe running kernel, and the build-id cache has no kallsyms of it; "
            "use --kallsyms%s",
            d->dso.name, kernel ? "" : "of ", kernel ? " or --vmlinux" : "");
    else if (!kernel && other_is_loaded(&d->dso))
        dso_set_problem(
            d,
            "%s: the module was replaced since the recording (the loaded one's build id differs)",
            d->dso.name);
    else
        return "/proc/kallsyms";
    return NULL;
}
