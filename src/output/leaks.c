/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that stays. Samples are summed up by the place that allocated: the innermost frame that is
 * neither of the allocator nor of what every program has between itself and it.
 *
 * What is in use at the end need not be lost: a cache that was filled at the beginning stays, and
 * so does what was allocated a moment ago. Of a leak some stays of each time. So sites are ordered
 * by what stays of that third of the time of which least stays.
 */
#include "output/leaks.h"

#include "base/hash.h"
#include "base/hash_table.h"
#include "output/output.h"
#include "unwind/frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { THIRDS = 3 };

struct site {
    uint32_t node;           /* of the profile: the stack down to the site */
    uint64_t all, in_use;    /* bytes: allocated, and not freed */
    uint64_t objects;        /* that are in use */
    uint64_t samples;        /* of these */
    uint64_t of[THIRDS];     /* bytes in use, by the time of their allocation */
    uint64_t growth;         /* the least of these */
    uint64_t oldest, newest; /* time of the first and the last of them, ns */
};

struct leaks {
    const struct profile *profile;
    struct leaks_options options;
    uint64_t from, until, peak_time;
    uint64_t peak;           /* bytes in use then */
    VEC(struct site) sites;  /* most growth first */
    struct hash_table nodes; /* of `sites`, by their paths */
    struct site sum;
    uint64_t all_objects;
    const char *event;
};

/* ---- the site of a stack --------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether a function passes on what others ask for: of the C or C++ library, or an allocator. */
static bool passes_on(const struct profile_function *f)
{
    static const char *const libraries[] = {"libc.so",     "libc-",       "ld-",
                                            "libstdc++.",  "libc++.",     "libjemalloc",
                                            "libtcmalloc", "libmimalloc", "libgcc_s."};
    static const char *const symbols[] = {
        "std::", "__gnu_cxx::", "operator new", "malloc", "calloc", "realloc", "je_", "mi_", "tc_"};
    if (profile_is_managed(f->kind))
        return false;
    for (size_t i = 0; f->module && i < sizeof(libraries) / sizeof(*libraries); i++)
        if (begins(base_name(f->module), libraries[i]))
            return true;
    for (size_t i = 0; f->symbol && i < sizeof(symbols) / sizeof(*symbols); i++)
        if (begins(f->symbol, symbols[i]))
            return true;
    return false;
}

static const struct profile_function *function_of(const struct profile *p, uint32_t node,
                                                  const struct profile_line **ret_line)
{
    const struct profile_location *l = &p->locations.at[p->nodes.at[node].location];
    *ret_line = &p->lines.at[l->first_line + l->nr_lines - 1]; /* the one that is not inlined */
    return &p->functions.at[(*ret_line)->function];
}

/* Whether all functions at a place pass on. */
static bool place_passes_on(const struct profile *p, uint32_t node)
{
    const struct profile_location *l = &p->locations.at[p->nodes.at[node].location];
    for (uint32_t i = 0; i < l->nr_lines; i++)
        if (!passes_on(&p->functions.at[p->lines.at[l->first_line + i].function]))
            return false;
    return true;
}

/* Whether a place may be a Lua's own code, between its allocator and the Lua function that makes an
 * object: a name of Lua's, or none. */
static bool may_be_lua(const struct profile *p, uint32_t node)
{
    static const char *const names[] = {"lua_",  "luaL_", "luaC_", "luaD_", "luaF_", "luaH_",
                                        "luaM_", "luaO_", "luaS_", "luaV_", "lj_",   "l_alloc"};
    const struct profile_line *line;
    const struct profile_function *f = function_of(p, node, &line);
    if (profile_is_managed(f->kind))
        return false;
    if (!f->symbol || strstr(f->symbol, ":fn_"))
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (begins(f->symbol, names[i]))
            return true;
    return false;
}

/* Returns the node of the site: `node` itself if all frames pass on. */
static uint32_t site_of(const struct profile *p, uint32_t node)
{
    const struct profile_line *line;
    uint32_t site = node;
    while (site && place_passes_on(p, site))
        site = p->nodes.at[site].parent;
    uint32_t caller = site;
    while (caller && may_be_lua(p, caller))
        caller = p->nodes.at[caller].parent;
    bool is_lua = caller && function_of(p, caller, &line)->kind == FRAME_LUA;
    return is_lua ? caller : site ? site : node;
}

/* ---- summing up ------------------------------------------------------------------------------ */

/* What tells a frame from others: its place; of a managed function, whose bytecode has many places
 * in a line, the line. */
static uint64_t frame_key(const struct profile *p, uint32_t node)
{
    const struct profile_line *line;
    bool managed = profile_is_managed(function_of(p, node, &line)->kind);
    return managed ? hash_combine(line->function + 1U, line->line) : p->nodes.at[node].location;
}

/* Two stacks are of one site if its frame and the callers that are told are the same. */
static uint64_t path_hash(const struct leaks *l, uint32_t node)
{
    uint64_t hash = 0;
    for (unsigned i = 0; node && i <= l->options.depth;
         i++, node = l->profile->nodes.at[node].parent)
        hash = hash_combine(hash, frame_key(l->profile, node));
    return hash;
}

static bool same_path(const struct leaks *l, uint32_t a, uint32_t b)
{
    const struct profile_node *nodes = l->profile->nodes.at;
    for (unsigned i = 0; a != b && i <= l->options.depth; i++) {
        if (!a || !b || frame_key(l->profile, a) != frame_key(l->profile, b))
            return false;
        a = nodes[a].parent;
        b = nodes[b].parent;
    }
    return true;
}

static struct site *site_get(struct leaks *l, uint32_t node)
{
    const struct site new = {.node = node, .oldest = UINT64_MAX};
    uint32_t at = hash_table_intern(&l->nodes, path_hash(l, node), &l->sites, i,
                                    same_path(l, l->sites.at[i].node, node), new);
    return at == HASH_TABLE_NONE ? NULL : &l->sites.at[at];
}

static void site_take(struct site *to, const struct profile_sample *s,
                      const struct profile_block *block, unsigned third)
{
    to->all += s->period;
    if (block->freed)
        return;
    to->in_use += s->period;
    to->objects += block->objects;
    to->samples++;
    to->of[third] += s->period;
    to->oldest = s->time < to->oldest ? s->time : to->oldest;
    to->newest = s->time > to->newest ? s->time : to->newest;
}

static int by_growth(const void *a, const void *b)
{
    const struct site *x = a, *y = b;
    if (x->growth != y->growth)
        return x->growth < y->growth ? 1 : -1;
    if (x->in_use != y->in_use)
        return x->in_use < y->in_use ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

static bool take_all(struct leaks *l, unsigned event)
{
    const struct profile *p = l->profile;
    const uint64_t time = l->until > l->from ? l->until - l->from : 1;
    l->sum.oldest = UINT64_MAX;
    for (size_t i = 0; i < p->samples.nr; i++) {
        const struct profile_sample *s = &p->samples.at[i];
        if (s->event != event || s->time < l->from)
            continue;
        uint64_t third = (s->time - l->from) * THIRDS / time;
        struct site *site = site_get(l, site_of(p, s->node));
        if (!site)
            return false;
        unsigned in = third < THIRDS ? (unsigned)third : THIRDS - 1;
        site_take(site, s, &p->blocks.at[i], in);
        site_take(&l->sum, s, &p->blocks.at[i], in);
        l->all_objects += p->blocks.at[i].objects;
        if (s->time <= l->peak_time &&
            (!p->blocks.at[i].freed || p->blocks.at[i].freed > l->peak_time))
            l->peak += s->period;
    }
    return true;
}

struct leaks *leaks_create(const struct profile *p, unsigned event, const struct leaks_times *times,
                           const struct leaks_options *options)
{
    struct leaks *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->profile = p;
    l->options = *options;
    l->from = times->from;
    l->until = times->until;
    l->peak_time = times->peak;
    if (!take_all(l, event)) {
        leaks_free(l);
        return NULL;
    }
    vec_foreach (s, &l->sites) {
        s->growth = s->of[0];
        for (int i = 1; i < THIRDS; i++)
            s->growth = s->of[i] < s->growth ? s->of[i] : s->growth;
    }
    if (l->sites.nr)
        qsort(l->sites.at, l->sites.nr, sizeof(*l->sites.at), by_growth);
    return l;
}

void leaks_free(struct leaks *l)
{
    if (!l)
        return;
    vec_free(&l->sites);
    hash_table_free(&l->nodes);
    free(l);
}

/* ---- telling --------------------------------------------------------------------------------- */

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Bytes a second of what stays. */
static uint64_t rate(const struct leaks *l, uint64_t growth)
{
    double time = seconds(l->until > l->from ? l->until - l->from : 1) / THIRDS;
    return (uint64_t)((double)growth / time);
}

/* Whether a site is told: `nr` have been told before it. */
static bool is_told(const struct leaks *l, const struct site *s, unsigned nr)
{
    return s->in_use && (!l->options.top || nr < l->options.top) &&
           100.0 * (double)s->in_use >= l->options.least * (double)l->sum.in_use;
}

static void put_right(struct text *out, const struct text *cell, unsigned width)
{
    for (size_t i = cell->size; i < width; i++)
        text_char(out, ' ');
    text_bytes(out, cell->at, cell->size);
}

static void put_amount(struct text *out, uint64_t bytes, const char *behind, unsigned width)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    struct text cell = {0};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < sizeof(units) / sizeof(*units) - 1; unit++)
        value /= 1024;
    text_printf(&cell, "%.*f %s%s", unit ? 1 : 0, value, units[unit], behind);
    put_right(out, &cell, width);
    out->failed |= cell.failed;
    text_free(&cell);
}

static void put_place(const struct leaks *l, uint32_t node, struct text *out)
{
    const struct profile_line *line;
    const struct profile_function *f = function_of(l->profile, node, &line);
    if (profile_is_managed(f->kind))
        text_managed_symbol(out, f->name);
    else
        text_symbol(out, f->name);
    if (line->file && line->line && !profile_is_managed(f->kind)) {
        text_string(out, "  ");
        text_clean(out, base_name(line->file));
        text_printf(out, ":%" PRIu32, line->line);
    } else if (line->line) {
        text_printf(out, "  line %" PRIu32, line->line);
    } else if (f->symbol && f->module && !profile_is_managed(f->kind)) {
        text_string(out, "  ");
        text_clean(out, base_name(f->module));
    }
}

static void put_site(const struct leaks *l, const struct site *s, struct text *out)
{
    enum { INDENT = 20 };
    put_amount(out, rate(l, s->growth), "/s", 10);
    put_amount(out, s->in_use, "", 9);
    text_printf(out, "%8" PRIu64 "%6.1f%%%7.1fs", s->objects,
                100.0 * (double)s->in_use / (double)s->all, seconds(l->until - s->oldest));
    text_string(out, "  ");
    put_place(l, s->node, out);
    text_char(out, '\n');
    uint32_t node = l->profile->nodes.at[s->node].parent;
    for (unsigned i = 0; node && i < l->options.depth; i++) {
        text_printf(out, "%*s<- ", INDENT, "");
        put_place(l, node, out);
        text_char(out, '\n');
        node = l->profile->nodes.at[node].parent;
    }
}

void leaks_put_text(const struct leaks *l, struct text *out)
{
    unsigned told = 0;
    text_printf(out, "# %.1f s: ", seconds(l->until - l->from));
    text_amount(out, l->sum.all, UNIT_BYTES);
    text_printf(out, " allocated, in %" PRIu64 " blocks\n# In use at the end: ", l->all_objects);
    text_amount(out, l->sum.in_use, UNIT_BYTES);
    text_printf(out, ", in %" PRIu64 " blocks (%" PRIu64 " samples)\n", l->sum.objects,
                l->sum.samples);
    if (l->peak) {
        text_string(out, "# At most in use: ");
        text_amount(out, l->peak, UNIT_BYTES);
        text_printf(out, ", at %.1f s\n", seconds(l->peak_time - l->from));
    }
    if (!l->sum.in_use)
        return;
    text_string(out, "# GROWTH: what stays, of the third of the time of which least stays.\n"
                     "# STAYS: the share of the site's memory that was not freed.\n#\n"
                     "#   GROWTH   IN USE  BLOCKS  STAYS  OLDEST  ALLOCATED BY\n#\n");
    vec_foreach (s, &l->sites) {
        if (!is_told(l, s, told))
            continue;
        put_site(l, s, out);
        told++;
    }
}

static void put_json_place(const struct leaks *l, uint32_t node, struct json *j)
{
    const struct profile_line *line;
    const struct profile_function *f = function_of(l->profile, node, &line);
    json_object(j);
    json_key_string(j, "function", f->name);
    json_key_string(j, "module", f->module);
    json_position(j, line->file, line->line, line->column);
    json_object_end(j);
}

static void put_json_site(const struct leaks *l, const struct site *s, struct json *j)
{
    json_object(j);
    json_key_uint(j, "growth_bytes_per_s", rate(l, s->growth));
    json_key_uint(j, "inuse_space", s->in_use);
    json_key_uint(j, "inuse_objects", s->objects);
    json_key_uint(j, "alloc_space", s->all);
    json_key_uint(j, "samples", s->samples);
    json_key_uint(j, "oldest_ns", l->until - s->oldest);
    json_key_uint(j, "newest_ns", l->until - s->newest);
    json_key(j, "stack");
    json_array(j);
    for (uint32_t node = s->node; node; node = l->profile->nodes.at[node].parent)
        put_json_place(l, node, j);
    json_array_end(j);
    json_object_end(j);
}

void leaks_put_json(const struct leaks *l, struct json *j)
{
    unsigned told = 0;
    json_object(j);
    json_key_uint(j, "duration_ns", l->until - l->from);
    json_key_uint(j, "alloc_space", l->sum.all);
    json_key_uint(j, "alloc_objects", l->all_objects);
    json_key_uint(j, "inuse_space", l->sum.in_use);
    json_key_uint(j, "inuse_objects", l->sum.objects);
    json_key_uint(j, "peak_space", l->peak);
    json_key_uint(j, "peak_ns", l->peak ? l->peak_time - l->from : 0);
    json_key_uint(j, "samples", l->sum.samples);
    json_key(j, "sites");
    json_array(j);
    vec_foreach (s, &l->sites) {
        if (!is_told(l, s, told))
            continue;
        put_json_site(l, s, j);
        told++;
    }
    json_array_end(j);
    json_object_end(j);
}
