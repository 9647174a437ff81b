/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mappings of user processes: what each name means, which mappings change anything, and which file
 * is behind an address.
 */
#include "base/intern.h"
#include "base/text.h"
#include "dso/elf_image.h"
#include "session/recorded_memory.h"
#include "session/session_internal.h"
#include "session/snapshots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* ---- names ------------------------------------------------------------------------------- */

/* Returns whether this is memory of one process, without a file. */
static bool is_anonymous(const struct record_mmap *mm)
{
    static const char *const names[] = {"//anon", "/dev/zero", "/anon_hugepage", "[heap]",
                                        "[stack", "[anon:",    "/SYSV"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (begins(mm->filename, names[i]))
            return true;
    return mm->flags & MAP_HUGETLB;
}

/* Files below /dev/ are devices, whose mappings hold no code of theirs. But /dev/shm is a file
 * system like others, where programs and libraries can be. An unlinked file there is memory that a
 * program shares with itself (to write code at one address and run it at another). */
static bool is_device(const char *name)
{
    return begins(name, "/dev/") && (!begins(name, "/dev/shm/") || name[text_undeleted(name)]);
}

static enum dso_kind kind_of(const struct record_mmap *mm, bool anonymous)
{
    const char *name = mm->filename;
    if (strcmp(name, "[vdso]") == 0 || begins(name, "[vdso32]") || begins(name, "[vdsox32]"))
        return DSO_VDSO;
    /* "[aio]" and the like are files made by the kernel whose names are written as paths. */
    if (anonymous || name[0] != '/' || begins(name, "/memfd:") || begins(name, "/[") ||
        is_device(name) || begins(name, "/i915 ") || begins(name, "/drm "))
        return DSO_PSEUDO;
    return DSO_FILE;
}

/* Executable memory without a file is named after the perf map that may describe it, as perf does:
 * perf's report and script print this name. */
static bool has_map_name(const struct region *r)
{
    return r->anonymous && (r->map.prot & PROT_EXEC) && !begins(r->name, "[anon:");
}

/* ---- build ids --------------------------------------------------------------------------- */

static struct named_file *file_named(struct session *s, const char *name)
{
    struct named_file *f = table_get(&s->files, (uintptr_t)name);
    if (f)
        return f;
    f = calloc(1, sizeof(*f));
    if (!f || table_put(&s->files, (uintptr_t)name, f))
        return f;
    free(f);
    return NULL;
}

const struct build_id *build_id_for(const struct session *s, const struct record_mmap *mm,
                                    const char *name)
{
    const struct named_file *f = table_get(&s->files, (uintptr_t)name);
    if (mm->build_id.size)
        return &mm->build_id;
    return f && f->id.size && !f->several ? &f->id : NULL;
}

/* Note that several files have one name. It is not recorded which of them has the id that is given
 * for the name, so no file is believed to have it. The id that samples may have used already is
 * doubted only for later samples, no matter how far each thread is. If mappings give ids, the ids
 * stand: a file that has the name's id from a mapping cannot be distinguished from a file that has
 * it by name. */
static void files_are_several(struct session *s, struct named_file *f, const char *name,
                              uint64_t time)
{
    if (!f->several && f->id.size && !f->id_recorded)
        dsos_doubt_build_id(s->dsos, name, &f->id, s->placed ? time : 0);
    f->several = true;
}

int build_id_add(struct session *s, const struct record_build_id *b, struct error *err)
{
    const char *name = intern_string(s->names, b->filename);
    struct named_file *f = name ? file_named(s, name) : NULL;
    if (!f)
        return error_no_memory(err);
    if (f->id.size && !build_id_equal(&f->id, &b->build_id))
        f->several = true;
    if (f->id.size || f->several)
        return 0;
    f->id = b->build_id;
    dsos_set_build_id(s->dsos, name, &f->id);
    return 0;
}

/* Records that perf makes from /proc/PID/maps have no generation. */
static bool is_same_file(const struct named_file *f, const struct record_mmap *mm)
{
    return f->maj == mm->maj && f->min == mm->min && f->ino == mm->ino &&
           (f->ino_generation == mm->ino_generation || !f->ino_generation || !mm->ino_generation);
}

/* Note a mapped file, and whether it is the only one of its name. Containers have other files of
 * the same names, and files are replaced. perf lists the names of files that had samples: the id of
 * a name may be that of any of its files. A file that shows differently in several mount namespaces
 * counts as several files: less is claimed then. */
static void note_file(struct session *s, struct named_file *f, const struct record_mmap *mm,
                      const char *name, uint64_t time)
{
    f->id_recorded |= mm->build_id.size;
    if (!mm->ino)
        return;
    if (f->ino && !is_same_file(f, mm))
        files_are_several(s, f, name, time);
    if (f->ino && f->ino_generation)
        return;
    f->maj = mm->maj;
    f->min = mm->min;
    f->ino = mm->ino;
    f->ino_generation = mm->ino_generation;
}

/* ---- equal maps -------------------------------------------------------------------------- */

static bool same_build_id(const struct region *r, const struct build_id *id)
{
    return id->size == 0 || build_id_equal(id, &r->map.dso->build_id);
}

/* Returns whether `r` holds what `mm` maps, in the part that they share. Anonymous memory may have
 * been given fewer rights than before: generated code is made writable and executable in turns, and
 * return addresses may point to memory that was once executable. */
static bool agrees(const struct region *r, const struct record_mmap *mm)
{
    if (strcmp(r->name, mm->filename) != 0)
        return false;
    if (r->anonymous)
        return (mm->prot & ~r->map.prot) == 0;
    return mm->prot == r->map.prot && mm->flags == r->map.flags && mm->ino == r->inode &&
           mm->addr - r->map.start + r->map.pgoff == mm->pgoff && same_build_id(r, &mm->build_id);
}

/* Only a few pieces are looked at: if there are more, replacing them leaves one. */
enum { PIECES_MAX = 8 };

static bool changes_nothing(struct regions regions, const struct record_mmap *mm, uint64_t end)
{
    uint64_t at = mm->addr;
    for (unsigned i = 0; at < end && i < PIECES_MAX; i++) {
        const struct region_slot *slot = regions_find(regions, at);
        if (!slot || !agrees(&slot->region, mm))
            return false;
        at = slot->region.map.end;
        if (!slot->region.anonymous)
            break;
    }
    return at >= end;
}

/* ---- what a mapping replaces ------------------------------------------------------------- */

enum { HUGE_PAGE = 1 << 21 };

/* If anonymous memory lies wholly inside one executable mapping of a file, the session remembers
 * that the place was this file's. */
static void note_under(struct regions regions, struct region *r)
{
    const struct region_slot *slot = regions_find(regions, r->map.start);
    if (!slot || slot->region.map.end < r->map.end)
        return;
    const struct region *below = &slot->region;
    uint64_t offset = r->map.start - below->map.start;
    if (below->under) {
        r->under = below->under;
        r->under_pgoff = below->under_pgoff + offset;
    } else if (below->map.dso->kind == DSO_FILE && (below->map.prot & PROT_EXEC)) {
        r->under = below->map.dso;
        r->under_pgoff = below->map.pgoff + offset;
    }
}

/* Where nobody has compared bytes, only memory with the borders of huge pages is taken to hold the
 * text of the file whose place it has. */
static bool has_huge_borders(const struct region *r)
{
    return r->map.start % HUGE_PAGE == 0 && r->map.end % HUGE_PAGE == 0;
}

/* Programs that move their text to huge pages (V8's --use-largepages, Intel's iodlr, ...) map
 * anonymous memory over a part of the text, copy the text back, and make the memory executable. The
 * recorder has compared it with the file. */
static void note_text(const struct session *s, uint32_t pid, struct regions regions,
                      struct region *r)
{
    if (!r->anonymous)
        return;
    note_under(regions, r);
    if (!(r->map.prot & PROT_EXEC))
        return;
    const struct vmentry_text *text =
        memory_log_text(s->options.log, pid, r->map.start, r->map.end);
    if (!text)
        text = snapshots_text(s->options.snapshots, pid, r->map.start, r->map.end);
    if (!text && r->under && has_huge_borders(r)) {
        r->map.dso = r->under;
        r->map.pgoff = r->under_pgoff;
    }
    if (!text || text->offset == VMENTRY_TEXT_OTHER)
        return;
    const struct region_slot *like = text->like ? regions_find(regions, text->like) : NULL;
    struct dso *dso = like ? like->region.map.dso : r->under;
    if (!dso || dso->kind != DSO_FILE)
        return;
    r->map.dso = dso;
    r->map.pgoff = text->offset;
}

/* A process that was there before has its mappings told in order: the memory before `r` may be in a
 * hole of the file whose next part `r` is. Returns false when out of memory. */
static bool note_hole(struct regions *regions, const struct region *r)
{
    const struct region_slot *hole = r->map.start ? regions_find(*regions, r->map.start - 1) : NULL;
    const struct region_slot *first =
        hole && hole->region.map.start ? regions_find(*regions, hole->region.map.start - 1) : NULL;
    if (!first || r->map.dso->kind != DSO_FILE || !hole->region.anonymous ||
        hole->region.map.end != r->map.start || !(hole->region.map.prot & PROT_EXEC) ||
        first->region.map.dso != r->map.dso || first->region.map.end != hole->region.map.start ||
        r->map.start - first->region.map.start != r->map.pgoff - first->region.map.pgoff ||
        !has_huge_borders(&hole->region))
        return true;
    struct region text = hole->region;
    text.under = text.map.dso = r->map.dso;
    text.under_pgoff = text.map.pgoff = r->map.pgoff - (r->map.start - text.map.start);
    return regions_put(regions, &text);
}

/* Pages of a private file mapping that could be written before are no longer equal to the file: the
 * loader relocates them, then removes the right to write. */
static void note_written(struct regions regions, struct region *r)
{
    const struct region_slot *slot = regions_find(regions, r->map.start);
    if (!slot || r->map.dso->kind != DSO_FILE || strcmp(slot->region.name, r->name) != 0)
        return;
    const struct mapping *m = &slot->region.map;
    r->written = (slot->region.written || (m->prot & PROT_WRITE)) &&
                 r->map.start - m->start + m->pgoff == r->map.pgoff;
}

/* ---- applying ---------------------------------------------------------------------------- */

static struct dso *dso_of_file(struct session *s, struct process *p, const struct record_mmap *mm,
                               const char *name, uint64_t time)
{
    struct named_file *f = file_named(s, name);
    if (!f)
        return NULL;
    note_file(s, f, mm, name, time);
    uint32_t root = process_root(s, p);
    if (!mm->build_id.size && f->several && f->id.size)
        return dsos_get_apart(s->dsos, DSO_FILE, name, root);
    struct dso *dso = dsos_get(s->dsos, DSO_FILE, name, build_id_for(s, mm, name), root);
    if (dso && mm->live_path)
        dso_add_path(dso, mm->live_path);
    if (dso && s->pd && !build_id_for(s, mm, name) && !f->several && mm->ino)
        dso_expect_inode(dso, mm->ino);
    return dso;
}

static struct dso *dso_for(struct session *s, struct process *p, const struct record_mmap *mm,
                           const char *name, enum dso_kind kind, bool map_name, uint64_t time)
{
    char path[48];
    if (map_name) {
        snprintf(path, sizeof(path), "/tmp/perf-%" PRIu32 ".map", p->pid);
        return dsos_get(s->dsos, DSO_PSEUDO, path, NULL, 0);
    }
    if (kind == DSO_FILE)
        return dso_of_file(s, p, mm, name, time);
    return dsos_get(s->dsos, kind, name, build_id_for(s, mm, name), 0);
}

static int region_put(struct session *s, struct process *p, const struct region *r,
                      struct error *err)
{
    struct space_runtimes *managed = space_runtimes_beside(p->space, r);
    struct address_space *space = process_space(s, p);
    if (!space || !regions_put(&space->regions, r)) {
        free(managed);
        return error_no_memory(err);
    }
    atomic_store_explicit(&space->runtimes, managed, memory_order_release);
    s->stats.maps++;
    return 0;
}

/* An anonymous mapping in exactly the place of another one: their rights add up. */
static void add_rights(struct regions regions, struct region *r)
{
    const struct region_slot *slot = regions_find(regions, r->map.start);
    if (r->anonymous && slot && slot->region.anonymous && slot->region.name == r->name &&
        slot->region.map.start == r->map.start && slot->region.map.end == r->map.end)
        r->map.prot |= slot->region.map.prot;
}

int maps_apply(struct session *s, struct machine *m, const struct record_mmap *mm, uint64_t time,
               struct error *err)
{
    uint64_t end = mm->addr + mm->len;
    if (mm->len == 0 || end <= mm->addr) {
        s->stats.records_bad++;
        return 0;
    }
    struct process *p = process_get(s, m, mm->pid);
    if (!p)
        return error_no_memory(err);
    struct regions regions = p->space->regions;
    if (changes_nothing(regions, mm, end)) {
        s->stats.maps_equal++;
        return 0;
    }
    bool anonymous = is_anonymous(mm);
    enum dso_kind kind = kind_of(mm, anonymous);
    const char *name = intern_string(s->names, mm->filename);
    if (!name)
        return error_no_memory(err);
    struct region r = {.map = {mm->addr, end, mm->pgoff, NULL, mm->prot, mm->flags, NULL},
                       .name = name,
                       .inode = mm->ino,
                       .anonymous = anonymous};
    add_rights(regions, &r);
    r.map.dso = dso_for(s, p, mm, name, kind, has_map_name(&r), time);
    if (!r.map.dso)
        return error_no_memory(err);
    note_text(s, p->pid, regions, &r);
    note_written(regions, &r);
    if (region_put(s, p, &r, err) < 0)
        return -1;
    if (!note_hole(&p->space->regions, &r))
        return error_no_memory(err);
    return mm->prot & PROT_EXEC ? jit_on_mapping(s, p, mm, kind, time, err) : 0;
}
