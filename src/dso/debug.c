/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Find the files that debuggers read: the separate debug file (build id, .gnu_debuglink, build-id
 * cache, debuginfod), MiniDebugInfo, dwz's alternate file, split DWARF.
 */
#include "base/cursor.h"
#include "dso/dso_internal.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

/* ---- debuginfod -------------------------------------------------------------------------- */

/* libdebuginfod pulls in libcurl, so it is loaded only when the user configured servers. */
struct debuginfod {
    void *library, *client;
    int (*find[2])(void *client, const unsigned char *id, int id_size, char **path);
    void (*end)(void *client);
};

static struct debuginfod *debuginfod_open(void)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    if (!urls || !*urls)
        return NULL;
    struct debuginfod *s = calloc(1, sizeof(*s));
    if (!s || !(s->library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL))) {
        free(s);
        return NULL;
    }
    void *(*begin)(void) = (void *(*)(void))dlsym(s->library, "debuginfod_begin");
    *(void **)&s->end = dlsym(s->library, "debuginfod_end");
    *(void **)&s->find[DEBUGINFOD_EXECUTABLE] = dlsym(s->library, "debuginfod_find_executable");
    *(void **)&s->find[DEBUGINFOD_DEBUGINFO] = dlsym(s->library, "debuginfod_find_debuginfo");
    if (begin && s->end && s->find[0] && s->find[1] && (s->client = begin()))
        return s;
    dlclose(s->library);
    free(s);
    return NULL;
}

char *dso_debuginfod(struct dsos *all, const struct build_id *id, enum debuginfod_what what)
{
    char *path = NULL;
    if (all->options.no_debuginfod || !id->size)
        return NULL;
    pthread_mutex_lock(&all->debuginfod_lock);
    if (!all->debuginfod_tried) {
        all->debuginfod = debuginfod_open();
        all->debuginfod_tried = true;
    }
    struct debuginfod *s = all->debuginfod;
    if (s) {
        int fd = s->find[what](s->client, id->bytes, id->size, &path);
        if (fd >= 0)
            close(fd);
        else
            path = NULL;
    }
    pthread_mutex_unlock(&all->debuginfod_lock);
    return path;
}

void dso_debuginfod_free(struct dsos *all)
{
    struct debuginfod *s = all->debuginfod;
    if (!s)
        return;
    s->end(s->client);
    dlclose(s->library);
    free(s);
}

/* ---- separate debug files ---------------------------------------------------------------- */

struct debug_search {
    struct dsos *all;
    const struct elf_image *image;
    /* Checksum of .gnu_debuglink, in our byte order; NULL: the build id must match. */
    const uint32_t *crc;
    struct elf_image *found;
};

static uint32_t file_crc(const struct elf_image *e)
{
    uLong crc = crc32(0, NULL, 0);
    for (size_t at = 0; at < e->size;) {
        size_t step = e->size - at < 1 << 30 ? e->size - at : 1 << 30;
        crc = crc32(crc, e->bytes + at, (uInt)step);
        at += step;
    }
    return (uint32_t)crc;
}

/* Does the file belong to the image? Compare the build ids if both have one, else the checksum. */
static bool belongs(const struct debug_search *s, const struct elf_image *e)
{
    if (s->image->build_id.size && e->build_id.size)
        return build_id_equal(&s->image->build_id, &e->build_id);
    return s->crc && file_crc(e) == *s->crc;
}

/* Consider one candidate; frees `path`. */
static void consider(struct debug_search *s, char *path)
{
    struct elf_image *e = NULL;
    if (!path || s->found || strcmp(path, s->image->path) == 0 ||
        elf_image_open(path, &e, NULL) < 0) {
        free(path);
        return;
    }
    free(path);
    if (belongs(s, e) && (elf_image_has(e, ".symtab") || elf_image_has(e, ".debug_info")))
        s->found = e;
    else
        elf_image_free(e);
}

__attribute__((format(printf, 2, 3))) static void consider_format(struct debug_search *s,
                                                                  const char *fmt, ...)
{
    char *path;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&path, fmt, args);
    va_end(args);
    if (n >= 0)
        consider(s, path);
}

/* Returns the folder of a path, without a trailing slash. The caller frees it. */
static char *folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
}

static void consider_debuglink(struct debug_search *s, const char *folder_of_image)
{
    struct elf_section link;
    if (!elf_image_section(s->image, ".gnu_debuglink", &link) || !link.bytes)
        return;
    struct cursor c = cursor_make(link.bytes, link.size, s->image->swapped, s->image->path,
                                  ".gnu_debuglink", link.offset);
    const char *name = cursor_string(&c);
    if (!name || !*name || strchr(name, '/'))
        return;
    size_t pad = (4 - (strlen(name) + 1) % 4) % 4;
    cursor_skip(&c, pad);
    uint32_t crc = cursor_u32(&c);
    if (c.failed)
        return;
    s->crc = &crc;
    consider_format(s, "%s/%s", folder_of_image, name);
    consider_format(s, "%s/.debug/%s", folder_of_image, name);
    consider_format(s, "%s/%s/%s", s->all->options.debug_dir, folder_of_image, name);
    if (s->all->options.symfs)
        consider_format(s, "%s/%s/%s/%s", s->all->options.symfs, s->all->options.debug_dir,
                        folder_of_image, name);
    s->crc = NULL;
}

static void consider_build_id(struct debug_search *s)
{
    char hex[2 * BUILD_ID_MAX + 1];
    struct dsos *all = s->all;
    if (s->image->build_id.size < 2)
        return;
    build_id_hex(&s->image->build_id, hex);
    if (all->options.symfs)
        consider_format(s, "%s/%s/.build-id/%.2s/%s.debug", all->options.symfs,
                        all->options.debug_dir, hex, hex + 2);
    consider_format(s, "%s/.build-id/%.2s/%s.debug", all->options.debug_dir, hex, hex + 2);
    consider(s, dso_cache_path(all, &s->image->build_id, "debug"));
}

/* Try /usr/lib/debug/PATH.debug, where PATH is the path of the image as the recording names it. */
static void consider_by_path(struct debug_search *s, const char *name)
{
    if (*name != '/')
        return;
    consider_format(s, "%s%s.debug", s->all->options.debug_dir, name);
    consider_format(s, "%s%s", s->all->options.debug_dir, name);
}

struct elf_image *dso_find_debug_image(struct dso_entry *d, const struct elf_image *image)
{
    struct debug_search s = {.all = d->all, .image = image};
    bool symbols = elf_image_has(image, ".symtab"), dwarf = elf_image_has(image, ".debug_info");
    if (symbols && dwarf)
        return (struct elf_image *)image;
    consider_build_id(&s);
    char *at = folder(image->path), *recorded = folder(d->dso.name);
    if (at)
        consider_debuglink(&s, at);
    /* A copy in the cache is in another folder than the original file. */
    if (recorded && at && d->dso.name[0] == '/' && strcmp(at, recorded) != 0)
        consider_debuglink(&s, recorded);
    free(at);
    free(recorded);
    consider_by_path(&s, d->dso.name);
    if (!s.found)
        consider(&s, dso_debuginfod(d->all, &image->build_id, DEBUGINFOD_DEBUGINFO));
    if (s.found && (elf_image_has(s.found, ".debug_info") || !dwarf) &&
        (elf_image_has(s.found, ".symtab") || !symbols))
        return s.found;
    elf_image_free(s.found);
    if (!symbols && !dwarf && (d->mini = elf_image_minidebuginfo(image)))
        return d->mini;
    return (struct elf_image *)image;
}

/* ---- files that a debug file refers to --------------------------------------------------- */

static void *once(struct dso_entry *d, struct once_value *v,
                  struct elf_image *(*load)(struct dso_entry *, const struct elf_image *))
{
    if (atomic_load_explicit(&v->done, memory_order_acquire))
        return v->value;
    const struct elf_image *debug = dso_debug_image(&d->dso);
    pthread_mutex_lock(&d->lock);
    if (!atomic_load_explicit(&v->done, memory_order_relaxed)) {
        v->value = debug ? load(d, debug) : NULL;
        atomic_store_explicit(&v->done, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return v->value;
}

/* .gnu_debugaltlink holds a path, then the build id that the file must have. */
static struct elf_image *load_alt(struct dso_entry *d, const struct elf_image *debug)
{
    struct elf_section s;
    if (!elf_image_section(debug, ".gnu_debugaltlink", &s) || !s.bytes)
        return NULL;
    struct cursor c = cursor_make(s.bytes, s.size, false, debug->path, ".gnu_debugaltlink", 0);
    const char *name = cursor_string(&c);
    struct build_id id = {0};
    if (!name || !*name || cursor_left(&c) < 2)
        return NULL;
    id.size = cursor_left(&c) < BUILD_ID_MAX ? (uint8_t)cursor_left(&c) : BUILD_ID_MAX;
    memcpy(id.bytes, c.at, id.size);
    struct elf_image like = {.path = "", .build_id = id};
    struct debug_search search = {.all = d->all, .image = &like};
    char *at = folder(debug->path);
    if (*name == '/')
        consider(&search, dso_symfs_path(d->all, name));
    else if (at)
        consider_format(&search, "%s/%s", at, name);
    free(at);
    consider_build_id(&search);
    if (!search.found)
        consider(&search, dso_debuginfod(d->all, &id, DEBUGINFOD_DEBUGINFO));
    return search.found;
}

const struct elf_image *dso_alt_image(struct dso *dso)
{
    return once(dso_entry(dso), &dso_entry(dso)->alt, load_alt);
}

static struct elf_image *load_dwp(struct dso_entry *d, const struct elf_image *debug)
{
    const struct elf_image *near[2] = {dso_image(&d->dso), debug};
    struct elf_image *e = NULL;
    for (int i = 0; i < 2 && !e; i++) {
        char *path;
        if (asprintf(&path, "%s.dwp", near[i]->path) < 0)
            return NULL;
        if (elf_image_open(path, &e, NULL))
            e = NULL;
        free(path);
    }
    return e;
}

const struct elf_image *dso_dwp_image(struct dso *dso)
{
    return once(dso_entry(dso), &dso_entry(dso)->dwp, load_dwp);
}

/* Open the file once per path; frees or keeps `path`. The dso owns the image. */
static const struct elf_image *related(struct dso_entry *d, char *path)
{
    if (!path)
        return NULL;
    vec_foreach (r, &d->related)
        if (strcmp(r->path, path) == 0) {
            free(path);
            return r->image;
        }
    struct elf_image *e = NULL;
    if (elf_image_open(path, &e, NULL))
        e = NULL;
    if (!vec_push(&d->related, (struct related){path, e})) {
        elf_image_free(e);
        free(path);
        return NULL;
    }
    return e;
}

const struct elf_image *dso_dwo_image(struct dso *dso, const char *comp_dir, const char *name)
{
    struct dso_entry *d = dso_entry(dso);
    const struct elf_image *debug = dso_debug_image(dso), *e = NULL;
    char *path = NULL, *at = debug ? folder(debug->path) : NULL;
    if (!at)
        return NULL;
    pthread_mutex_lock(&d->lock);
    if (*name == '/' || !comp_dir) {
        path = dso_symfs_path(d->all, name);
    } else {
        char *joined;
        if (asprintf(&joined, "%s/%s", comp_dir, name) >= 0) {
            path = dso_symfs_path(d->all, joined);
            free(joined);
        }
    }
    e = related(d, path);
    const char *slash = strrchr(name, '/');
    if (!e && asprintf(&path, "%s/%s", at, slash ? slash + 1 : name) >= 0)
        e = related(d, path);
    pthread_mutex_unlock(&d->lock);
    free(at);
    return e;
}
