/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's code: its text and modules as the recorder listed them, and the code that BPF,
 * ftrace and others register and remove while it runs.
 *
 * Samples are named later than they are read: the records that follow a sample may have been
 * applied already. So each map keeps the times between which it existed, and maps that ended lately
 * are kept in the order in which they ended. All maps stay as long as the session.
 */
#include "base/intern.h"
#include "session/session_internal.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void kernel_init(struct kernel *k)
{
    pthread_rwlock_init(&k->lock, NULL);
}

void kernel_free(struct kernel *k)
{
    regions_release(&k->regions);
    while (k->all) {
        struct kernel_map *next = k->all->next;
        free(k->all);
        k->all = next;
    }
    pthread_rwlock_destroy(&k->lock);
}

/* ---- changing: one thread, under the lock -------------------------------------------------- */

static void map_end(struct kernel *k, struct kernel_map *m, uint64_t time)
{
    if (m->until != UINT64_MAX)
        return;
    m->until = time;
    k->ended[k->nr_ended++ % DEAD_MAX] = m;
}

/* Symbols in a place where a new one is registered have ended: the record of their end was lost. */
static void symbols_end(struct kernel *k, uint64_t start, uint64_t end, uint64_t time)
{
    struct region_slot *s;
    while ((s = regions_next(k->regions, start)) && s->region.map.start < end) {
        struct kernel_map *m = (struct kernel_map *)s->region.kernel;
        if (m->map.symbol)
            map_end(k, m, time);
        start = s->region.map.end;
    }
}

static bool map_put(struct kernel *k, const struct kernel_map *m)
{
    struct region r = {.map = m->map, .kernel = m};
    return regions_put(&k->regions, &r);
}

static int map_add(struct session *s, struct kernel *k, const struct mapping *map, uint64_t from,
                   struct error *err)
{
    struct kernel_map *m = malloc(sizeof(*m));
    if (!m)
        return error_no_memory(err);
    *m = (struct kernel_map){.map = *map, .from = from, .until = UINT64_MAX, .next = k->all};
    pthread_rwlock_wrlock(&k->lock);
    k->all = m;
    const struct region_slot *at = regions_find(k->regions, map->start);
    if (at && at->region.map.end >= map->end && !at->region.kernel->map.symbol)
        m->below = at->region.kernel;
    symbols_end(k, map->start, map->end, from);
    bool done = map_put(k, m);
    pthread_rwlock_unlock(&k->lock);
    s->stats.maps++;
    return done ? 0 : error_no_memory(err);
}

static bool equal_map(const struct kernel *k, const struct mapping *map)
{
    const struct region_slot *at = regions_find(k->regions, map->start);
    if (!at)
        return false;
    const struct mapping *m = &at->region.kernel->map;
    return m->start == map->start && m->end == map->end && m->pgoff == map->pgoff &&
           m->dso == map->dso && m->symbol == map->symbol;
}

/* ---- records ----------------------------------------------------------------------------- */

/* "[kernel.kallsyms]_text" is the kernel, and _text tells its load address; guests' names begin
 * with "[guest.kernel.kallsyms". Returns the length of the part in brackets; 0: a module. */
static size_t kernel_name(const char *name)
{
    const char *close = strchr(name, ']');
    bool kernel = strncmp(name, "[kernel.", 8) == 0 || strncmp(name, "[guest.kernel.", 14) == 0;
    return kernel && close ? (size_t)(close + 1 - name) : 0;
}

int kernel_mmap(struct session *s, struct kernel *k, const struct record_mmap *mm,
                struct error *err)
{
    size_t bracket = kernel_name(mm->filename);
    const char *name = bracket ? intern_bytes(s->names, mm->filename, bracket)
                               : intern_string(s->names, mm->filename);
    if (!name)
        return error_no_memory(err);
    const struct build_id *id = build_id_for(s, mm, name);
    /* The kernel's length is not always known. If not, the kernel reaches to the end of memory. */
    uint64_t room = UINT64_MAX - mm->addr;
    struct mapping map = {.start = mm->addr,
                          .end = mm->addr + (mm->len && mm->len < room ? mm->len : room),
                          .pgoff = mm->pgoff,
                          .prot = PROT_READ | PROT_EXEC};
    map.dso = dsos_get(s->dsos, bracket ? DSO_KERNEL : DSO_KMODULE, name, id, 0);
    if (!map.dso)
        return error_no_memory(err);
    if (equal_map(k, &map)) {
        s->stats.maps_equal++;
        return 0;
    }
    const char *symbol;
    uint64_t address;
    if (bracket && mm->filename[bracket] && !dso_reference(map.dso, &symbol, &address))
        dso_set_reference(map.dso, mm->filename + bracket, mm->pgoff);
    return map_add(s, k, &map, 0, err);
}

static int ksymbol_unregister(struct session *s, struct kernel *k, uint64_t addr, uint64_t time,
                              struct error *err)
{
    bool done = true;
    (void)s;
    pthread_rwlock_wrlock(&k->lock);
    struct region_slot *at = regions_find(k->regions, addr);
    if (at && at->region.kernel->map.symbol) {
        struct kernel_map *m = (struct kernel_map *)at->region.kernel;
        struct region below = {.map = m->map, .kernel = m->below};
        map_end(k, m, time);
        done = m->below ? regions_put(&k->regions, &below)
                        : regions_clear(&k->regions, m->map.start, m->map.end);
    }
    pthread_rwlock_unlock(&k->lock);
    return done ? 0 : error_no_memory(err);
}

int kernel_ksymbol(struct session *s, struct kernel *k, const struct record_ksymbol *y,
                   uint64_t time, struct error *err)
{
    if (y->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER)
        return ksymbol_unregister(s, k, y->addr, time, err);
    if (y->len == 0 || y->addr + y->len < y->addr) {
        s->stats.records_bad++;
        return 0;
    }
    const char *name = intern_string(s->names, y->name);
    struct dso *dso = name ? dsos_get(s->dsos, DSO_PSEUDO, name, NULL, 0) : NULL;
    if (!dso)
        return error_no_memory(err);
    struct mapping map = {.start = y->addr,
                          .end = y->addr + y->len,
                          .dso = dso,
                          .prot = PROT_READ | PROT_EXEC,
                          .symbol = name};
    return equal_map(k, &map) ? 0 : map_add(s, k, &map, time, err);
}

/* ---- lookups: any thread ------------------------------------------------------------------- */

static const struct kernel_map *ended_lookup(const struct kernel *k, uint64_t pc, uint64_t time)
{
    uint64_t kept = k->nr_ended < DEAD_MAX ? k->nr_ended : DEAD_MAX;
    for (uint64_t i = 1; i <= kept; i++) {
        const struct kernel_map *m = k->ended[(k->nr_ended - i) % DEAD_MAX];
        if (m->until <= time)
            break;
        if (m->from <= time && pc >= m->map.start && pc < m->map.end)
            return m;
    }
    return NULL;
}

const struct mapping *kernel_lookup(struct kernel *k, uint64_t pc, uint64_t time)
{
    pthread_rwlock_rdlock(&k->lock);
    const struct region_slot *at = regions_find(k->regions, pc);
    const struct kernel_map *m = at ? at->region.kernel : NULL;
    if (time) {
        const struct kernel_map *ended = ended_lookup(k, pc, time);
        if (ended)
            m = ended;
        else if (m && m->from > time)
            m = m->below;
    }
    pthread_rwlock_unlock(&k->lock);
    return m ? &m->map : NULL;
}
