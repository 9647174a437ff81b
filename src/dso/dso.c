/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of dso identities, and the data that is loaded once for each dso. */
#include "dso/dso.h"
#include "base/threads.h"
#include "base/hash.h"
#include "base/cursor.h"
#include "dso/elf_symbol.h"
#include "dso/functions.h"
#include "dso/dso_internal.h"
#include "dso/runtime_image.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the table --------------------------------------------------------------------------- */

static const char *keep(struct dsos *all, const char *s)
{
    return s && *s ? intern_string(all->strings, s) : NULL;
}

/* Returns the folder of perf's build-id cache; NULL: none. An unpacked archive brings its own. */
static const char *find_buildid_dir(struct dsos *all, const struct dso_options *o)
{
    char path[4096];
    if (o->buildid_dir)
        return keep(all, o->buildid_dir);
    int n = o->symfs ? snprintf(path, sizeof(path), "%s/.debug", o->symfs) : 0;
    if (n > 0 && (size_t)n < sizeof(path) && access(path, X_OK) == 0)
        return keep(all, path);
    if (!getenv("HOME"))
        return NULL;
    snprintf(path, sizeof(path), "%s/.debug", getenv("HOME"));
    return keep(all, path);
}

struct dsos *dsos_create(const struct dso_options *options)
{
    struct dsos *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->strings = intern_create();
    if (!all->strings) {
        free(all);
        return NULL;
    }
    lock_init_short(&all->lock);
    pthread_mutex_init(&all->debuginfod_lock, NULL);
    struct dso_options o = options ? *options : (struct dso_options){0};
    o.symfs = keep(all, o.symfs);
    o.kallsyms = keep(all, o.kallsyms);
    o.vmlinux = keep(all, o.vmlinux);
    o.release = keep(all, o.release);
    o.debug_dir = keep(all, o.debug_dir ? o.debug_dir : "/usr/lib/debug");
    o.buildid_dir = find_buildid_dir(all, &o);
    all->options = o;
    return all;
}

static void entry_free(struct dso_entry *d)
{
    struct elf_image *image = d->image.value, *debug = d->debug.value;
    cfi_free(d->cfi.value);
    functions_free(d->functions.value);
    if (debug != image && debug != d->mini)
        elf_image_free(debug);
    elf_image_free(d->mini);
    elf_image_free(d->alt.value);
    elf_image_free(d->dwp.value);
    elf_image_free(image);
    vec_foreach (r, &d->related) {
        elf_image_free(r->image);
        free(r->path);
    }
    vec_free(&d->related);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void dsos_free(struct dsos *all)
{
    if (!all)
        return;
    vec_foreach (d, &all->entries)
        entry_free(*d);
    vec_free(&all->entries);
    dso_debuginfod_free(all);
    intern_free(all->strings);
    pthread_mutex_destroy(&all->lock);
    pthread_mutex_destroy(&all->debuginfod_lock);
    hash_table_free(&all->table);
    free(all);
}

static uint64_t identity_hash(enum dso_kind kind, const char *name)
{
    return hash_combine(hash_bytes(name, strlen(name)), kind);
}

static struct dso_entry *entry_add(struct dsos *all, uint64_t hash, enum dso_kind kind,
                                   const char *name, const struct build_id *id, uint32_t root)
{
    struct dso_entry *d = calloc(1, sizeof(*d));
    const char *kept = d ? intern_string(all->strings, name) : NULL;
    if (!kept || !vec_push(&all->entries, d)) {
        free(d);
        return NULL;
    }
    if (!hash_table_add(&all->table, hash, all->entries.nr - 1)) {
        all->entries.nr--;
        free(d);
        return NULL;
    }
    d->dso = (struct dso){.id = (uint32_t)all->entries.nr,
                          .kind = kind,
                          .name = kept,
                          .short_name = kind == DSO_PSEUDO ? kept : text_base_name(kept)};
    if (id)
        d->dso.build_id = *id;
    atomic_init(&d->doubted_from, UINT64_MAX);
    d->all = all;
    d->root = root;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return d;
}

/* Does this entry serve? An entry without a build id takes the first id
 * that comes. */
static bool serves(struct dso_entry *d, enum dso_kind kind, const char *name,
                   const struct build_id *id, uint32_t root, bool apart)
{
    if (d->dso.kind != kind || strcmp(d->dso.name, name) != 0 || d->apart != apart)
        return false;
    if (d->root != root && d->dso.kind == DSO_FILE && !(id && id->size))
        return false;
    if (!id || !id->size)
        return true;
    if (!d->dso.build_id.size) {
        if (d->frozen)
            return false; /* already loaded without proof of an id */
        d->dso.build_id = *id;
        return true;
    }
    return build_id_equal(&d->dso.build_id, id);
}

static struct dso *entry_get(struct dsos *all, enum dso_kind kind, const char *name,
                             const struct build_id *build_id, uint32_t root, bool apart)
{
    struct dso_entry *found = NULL;
    pthread_mutex_lock(&all->lock);
    uint64_t hash = identity_hash(kind, name);
    uint32_t n = hash_table_find(&all->table, hash, i,
                                 serves(all->entries.at[i], kind, name, build_id, root, apart));
    if (n != HASH_TABLE_NONE)
        found = all->entries.at[n];
    else if ((found = entry_add(all, hash, kind, name, build_id, root)))
        found->apart = apart;
    pthread_mutex_unlock(&all->lock);
    return found ? &found->dso : NULL;
}

struct dso *dsos_get(struct dsos *all, enum dso_kind kind, const char *name,
                     const struct build_id *build_id, uint32_t root)
{
    return entry_get(all, kind, name, build_id, root, false);
}

struct dso *dsos_get_apart(struct dsos *all, enum dso_kind kind, const char *name, uint32_t root)
{
    return entry_get(all, kind, name, NULL, root, true);
}

void dso_add_path(struct dso *dso, const char *path)
{
    struct dso_entry *d = dso_entry(dso);
    const char *none = NULL, *kept = intern_string(d->all->strings, path);
    atomic_compare_exchange_strong(&d->live_path, &none, kept);
}

void dso_expect_inode(struct dso *dso, uint64_t inode)
{
    uint64_t none = 0;
    atomic_compare_exchange_strong(&dso_entry(dso)->inode, &none, inode);
}

size_t dsos_count(const struct dsos *all)
{
    return all->entries.nr;
}

struct dso *dsos_at(struct dsos *all, size_t index)
{
    return &all->entries.at[index]->dso;
}

void dsos_set_build_id(struct dsos *all, const char *name, const struct build_id *build_id)
{
    pthread_mutex_lock(&all->lock);
    vec_foreach (d, &all->entries)
        if (!(*d)->dso.build_id.size && !(*d)->frozen && !(*d)->apart &&
            strcmp((*d)->dso.name, name) == 0)
            (*d)->dso.build_id = *build_id;
    pthread_mutex_unlock(&all->lock);
}

/* Only files can be doubted: there is one kernel. */
void dsos_doubt_build_id(struct dsos *all, const char *name, const struct build_id *build_id,
                         uint64_t from)
{
    pthread_mutex_lock(&all->lock);
    vec_foreach (at, &all->entries) {
        struct dso_entry *d = *at;
        if (d->dso.kind != DSO_FILE || strcmp(d->dso.name, name) != 0 ||
            !build_id_equal(&d->dso.build_id, build_id))
            continue;
        atomic_store(&d->doubted_from, from);
        if (from || d->frozen)
            continue;
        d->dso.build_id.size = 0;
        d->apart = true;
    }
    pthread_mutex_unlock(&all->lock);
}

bool dso_is_doubted(const struct dso *dso, uint64_t time)
{
    uint64_t from = atomic_load(&dso_entry(dso)->doubted_from);
    return from != UINT64_MAX && time >= from;
}

void dso_set_problem(struct dso_entry *d, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    const char *none = NULL, *kept = intern_string(d->all->strings, text);
    atomic_compare_exchange_strong(&d->problem, &none, kept);
}

void dso_note_problem(struct dso *dso, const char *why)
{
    dso_set_problem(dso_entry(dso), "%s: %s", dso->name, why);
}

const char *dso_problem(const struct dso *dso)
{
    const struct elf_image *image = dso_opened(dso, DSO_PART_IMAGE, 0);
    if (image && elf_image_was_cut(image))
        dso_set_problem(dso_entry(dso),
                        "%s: somebody cut the file short while it was read; what it says may be "
                        "wrong",
                        image->path);
    return atomic_load(&dso_entry(dso)->problem);
}

const char *dso_runtime_problem(const struct dso *dso)
{
    return atomic_load(&dso_entry(dso)->runtime_problem);
}

void dso_set_reference(struct dso *dso, const char *symbol, uint64_t address)
{
    struct dso_entry *d = dso_entry(dso);
    const char *name = intern_string(d->all->strings, symbol);
    pthread_mutex_lock(&d->all->lock); /* threads that look up symbols read it meanwhile */
    d->reference_symbol = name;
    d->reference_address = address;
    pthread_mutex_unlock(&d->all->lock);
}

bool dso_reference(const struct dso *dso, const char **symbol, uint64_t *address)
{
    const struct dso_entry *d = dso_entry(dso);
    pthread_mutex_lock(&d->all->lock);
    *symbol = d->reference_symbol;
    *address = d->reference_address;
    pthread_mutex_unlock(&d->all->lock);
    return *symbol != NULL;
}

/* ---- loaded once ------------------------------------------------------------------------- */

/* Returns the value of `v`. At first use `load` makes it, under the dso's lock. */
static void *once_get(struct dso_entry *d, struct once_value *v, void *(*load)(struct dso_entry *))
{
    if (atomic_load_explicit(&v->done, memory_order_acquire))
        return v->value;
    pthread_mutex_lock(&d->lock);
    if (!atomic_load_explicit(&v->done, memory_order_relaxed)) {
        v->value = load(d);
        atomic_store_explicit(&v->done, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return v->value;
}

static void *load_image(struct dso_entry *d)
{
    pthread_mutex_lock(&d->all->lock);
    d->frozen = true;
    pthread_mutex_unlock(&d->all->lock);
    return dso_find_image(d);
}

const struct elf_image *dso_image(struct dso *dso)
{
    struct dso_entry *d = dso_entry(dso);
    return once_get(d, &d->image, load_image);
}

static void *load_debug(struct dso_entry *d)
{
    const struct elf_image *image = dso_image(&d->dso);
    return image ? dso_find_debug_image(d, image) : NULL;
}

const struct elf_image *dso_debug_image(struct dso *dso)
{
    struct dso_entry *d = dso_entry(dso);
    return once_get(d, &d->debug, load_debug);
}

static void *load_kallsyms(struct dso_entry *d)
{
    return (void *)dso_find_kallsyms(d);
}

const char *dso_kallsyms(struct dso *dso)
{
    struct dso_entry *d = dso_entry(dso);
    return once_get(d, &d->kallsyms, load_kallsyms);
}

bool dso_kallsyms_in_order(struct dso *dso)
{
    const char *given = dso_entry(dso)->all->options.kallsyms, *path = dso_kallsyms(dso);
    return path && (!given || strcmp(path, given) != 0);
}

static bool is_done(const struct once_value *v)
{
    return atomic_load_explicit(&v->done, memory_order_acquire);
}

static const struct elf_image *opened(const struct once_value *v)
{
    return is_done(v) ? v->value : NULL;
}

const struct elf_image *dso_opened(const struct dso *dso, enum dso_part part, size_t index)
{
    const struct dso_entry *d = dso_entry(dso);
    const struct elf_image *image = opened(&d->image), *debug = opened(&d->debug);
    switch (part) {
    case DSO_PART_IMAGE:
        return image;
    case DSO_PART_DEBUG:
        return debug != image && debug != d->mini ? debug : NULL;
    case DSO_PART_ALT:
        return opened(&d->alt);
    case DSO_PART_DWP:
        return opened(&d->dwp);
    case DSO_PART_DWO:
        return index < d->related.nr ? d->related.at[index].image : NULL;
    }
    return NULL;
}

size_t dso_nr_dwos(const struct dso *dso)
{
    return dso_entry(dso)->related.nr;
}

bool dso_was_asked(const struct dso *dso)
{
    return is_done(&dso_entry(dso)->image);
}

bool dso_kallsyms_was_asked(const struct dso *dso)
{
    return is_done(&dso_entry(dso)->kallsyms);
}

bool dso_offset_to_vaddr(struct dso *dso, uint64_t offset, uint64_t *vaddr)
{
    const struct elf_image *image = dso_image(dso);
    return image && elf_image_offset_to_vaddr(image, offset, vaddr);
}

bool dso_loaded_around(struct dso *dso, uint64_t offset, uint64_t *first, uint64_t *end)
{
    const struct elf_image *image = dso_image(dso);
    return image && elf_image_loaded_around(image, offset, first, end);
}

bool dso_read(struct dso *dso, uint64_t offset, void *to, size_t size, bool *proven)
{
    const struct elf_image *image = dso_image(dso);
    if (!image)
        return false;
    *proven = dso_entry(dso)->proven;
    const struct elf_tables *t = image->tables;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *p = &t->segments[i];
        if (p->type != PT_LOAD || p->flags & PF_W || offset < p->offset ||
            offset - p->offset > p->filesz || size > p->filesz - (offset - p->offset))
            continue;
        if (offset > image->size || size > image->size - offset)
            return false;
        memcpy(to, image->bytes + offset, size);
        return true;
    }
    return false;
}

/* ---- unwind rules ------------------------------------------------------------------------ */

static struct cfi_section cfi_section(const struct elf_image *e, const char *name)
{
    struct elf_section s;
    if (!e || !elf_image_section(e, name, &s) || !s.bytes)
        return (struct cfi_section){0};
    return (struct cfi_section){s.bytes, s.size, s.address};
}

/* Returns the bytes of the segment that contains `vaddr`, from `vaddr` to the segment's end in the
 * file. */
static struct cfi_section segment_from(const struct elf_image *e, uint64_t vaddr)
{
    const struct elf_tables *t = e->tables;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        const struct elf_phdr *p = &t->segments[i];
        if (p->type != PT_LOAD || vaddr < p->vaddr || vaddr - p->vaddr >= p->filesz ||
            !elf_image_holds(e, p))
            continue;
        uint64_t in = vaddr - p->vaddr;
        return (struct cfi_section){e->bytes + p->offset + in, p->filesz - in, vaddr};
    }
    return (struct cfi_section){0};
}

/* Without section headers, PT_GNU_EH_FRAME gives the search table. The table's first field (4
 * bytes, relative to itself: DW_EH_PE_pcrel|sdata4, the only form that linkers write) gives
 * .eh_frame. */
static void eh_frame_by_segment(const struct elf_image *e, struct cfi_source *s)
{
    const struct elf_tables *t = e->tables;
    for (uint32_t i = 0; i < t->nr_segments; i++) {
        if (t->segments[i].type != PT_GNU_EH_FRAME)
            continue;
        struct cfi_section hdr = segment_from(e, t->segments[i].vaddr);
        if (hdr.size > t->segments[i].filesz)
            hdr.size = t->segments[i].filesz;
        if (hdr.size < 8 || hdr.bytes[0] != 1 || hdr.bytes[1] != 0x1b)
            return;
        int32_t distance = (int32_t)load_u32(hdr.bytes + 4, e->swapped);
        s->eh_frame_hdr = hdr;
        s->eh_frame = segment_from(e, hdr.address + 4 + (uint64_t)(int64_t)distance);
        return;
    }
}

static const struct elf_image *debug_of(void *context)
{
    struct dso *dso = context;
    return dso_debug_image(dso);
}

struct runtime_image dso_runtime_image(struct dso *dso, const struct cfi *cfi,
                                       struct elf_runtime_image *ret)
{
    *ret = (struct elf_runtime_image){
        .image = dso_image(dso), .debug = debug_of, .debug_context = dso, .stays = true};
    return elf_runtime_image(ret, cfi);
}

static void find_runtimes(struct dso_entry *d, struct cfi *cfi)
{
    struct elf_runtime_image view;
    const struct runtime_image image = dso_runtime_image(&d->dso, cfi, &view);
    for (size_t i = 0; i < nr_runtimes; i++) {
        const struct runtime *rt = runtimes[i];
        struct error err = {0};
        void *layout = NULL;
        int found = rt->discover(&image, &layout, &err);
        if (found >= 0 && (found == 0 || cfi_add_runtime(cfi, rt, layout, &err) == 0))
            continue;
        dso_set_problem(d, "%s", err.text);
        if (err.kind != ERROR_NO_MEMORY)
            atomic_store(&d->runtime_problem, intern_string(d->all->strings, err.text));
    }
}

static void *load_cfi(struct dso_entry *d)
{
    const struct elf_image *e = dso_image(&d->dso);
    if (!e)
        return NULL;
    struct cfi_source s = {
        .name = e->path, .swapped = e->swapped, .id = d->dso.id, .entry = e->entry};
    s.arch = arch_by_elf(e->machine, e->is64);
    if (!s.arch)
        return NULL; /* CFI speaks of registers, whose numbers are not known */
    s.eh_frame = cfi_section(e, ".eh_frame");
    s.eh_frame_hdr = cfi_section(e, ".eh_frame_hdr");
    if (!s.eh_frame.bytes)
        eh_frame_by_segment(e, &s);
    s.debug_frame = cfi_section(e, ".debug_frame");
    /* A debug file's .debug_frame is mostly compressed, and adds nothing to .eh_frame. */
    if (!s.debug_frame.bytes && !s.eh_frame.bytes)
        s.debug_frame = cfi_section(dso_debug_image(&d->dso), ".debug_frame");
    s.text_address = cfi_section(e, ".text").address;
    struct cfi *cfi = NULL;
    struct error err = {0};
    if (cfi_create(&s, &cfi, &err)) {
        dso_set_problem(d, "%s", err.text);
        return NULL;
    }
    find_runtimes(d, cfi);
    return cfi;
}

const struct cfi *dso_cfi(struct dso *dso)
{
    struct dso_entry *d = dso_entry(dso);
    return once_get(d, &d->cfi, load_cfi);
}

static void *load_functions(struct dso_entry *d)
{
    const struct elf_image *image = dso_image(&d->dso);
    return image ? functions_load(image, dso_debug_image(&d->dso)) : NULL;
}

bool dso_function(struct dso *dso, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
    struct dso_entry *d = dso_entry(dso);
    return functions_find(once_get(d, &d->functions, load_functions), vaddr, start, end);
}
