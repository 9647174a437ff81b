/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that stays. Samples are summed up by the place that allocated: the innermost frame that is
 * neither of the allocator nor of what every program has between itself and it. What V8 allocates
 * is of the innermost JavaScript function.
 *
 * What is in use at the end need not be lost: a cache that was filled at the beginning stays, and
 * so does what was allocated a moment ago. Of a leak some stays of each time. So sites are ordered
 * by what stays of that third of the time of which least stays.
 *
 * Of V8's objects nobody knows whether they are garbage until a full collection has looked. What
 * was allocated after the last one is not judged: it is in no site, and the time ends there.
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

/* Frames have the functions that are inlined in them; each is a place. */
struct place {
    uint32_t node; /* of the profile; 0: there is none */
    uint32_t line; /* of its location's lines, 0: the innermost */
};

struct site {
    struct place place; /* with its callers */
    uint32_t line;      /* of the place, if any of its samples tells it */
    bool lines;         /* there are several */
    enum alloc_kind kind;
    uint64_t all, in_use;    /* bytes: allocated and judged; not freed */
    uint64_t objects;        /* that are in use */
    uint64_t samples;        /* of these */
    uint64_t of[THIRDS];     /* bytes in use, by the time of their allocation */
    uint64_t growth;         /* the least of these */
    uint64_t oldest, newest; /* time of the first and the last of them, ns */
    uint64_t not_judged;     /* bytes that were not freed, but not judged, */
    uint64_t after;          /* of so many that were allocated after the last look */
    uint64_t end;            /* from which ages count, ns */
    uint64_t time;           /* for which it is known what is in use, ns */
};

/* All of an event. */
struct sum {
    const struct leaks_event *event;
    uint64_t from; /* of what V8 allocates: the first of it, ns */
    struct site all;
    uint64_t objects;      /* that were allocated */
    uint64_t peak;         /* bytes in use at the event's peak */
    uint64_t until;        /* up to when it is known what is in use, ns */
    uint64_t not_judged;   /* bytes that were allocated after the last look at them */
    uint64_t not_followed; /* bytes whose free would not have been seen */
};

struct leaks {
    const struct profile *profile;
    struct leaks_options options;
    uint64_t from, until;
    VEC(struct site) sites;  /* most growth first */
    struct hash_table nodes; /* of `sites`, by their paths */
    VEC(struct sum) sums;    /* of each event */
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

static const struct profile_location *location_of(const struct profile *p, struct place at)
{
    return &p->locations.at[p->nodes.at[at.node].location];
}

static const struct profile_line *line_of(const struct profile *p, struct place at)
{
    return &p->lines.at[location_of(p, at)->first_line + at.line];
}

static const struct profile_function *function_of(const struct profile *p, struct place at)
{
    return &p->functions.at[line_of(p, at)->function];
}

/* Returns the place that called another one. */
static struct place caller_of(const struct profile *p, struct place at)
{
    const struct place inlined = {at.node, at.line + 1}, next = {p->nodes.at[at.node].parent, 0};
    return inlined.line < location_of(p, at)->nr_lines ? inlined : next;
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
static bool may_be_lua(const struct profile *p, struct place at)
{
    static const char *const names[] = {"lua_",  "luaL_", "luaC_", "luaD_", "luaF_", "luaH_",
                                        "luaM_", "luaO_", "luaS_", "luaV_", "lj_",   "l_alloc"};
    const struct profile_function *f = function_of(p, at);
    if (profile_is_managed(f->kind))
        return false;
    if (!f->symbol || strstr(f->symbol, ":fn_"))
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (begins(f->symbol, names[i]))
            return true;
    return false;
}

/* Returns the last of a frame's places, which is not inlined. */
static struct place outermost(const struct profile *p, uint32_t node)
{
    struct place at = {node, 0};
    if (node)
        at.line = location_of(p, at)->nr_lines - 1;
    return at;
}

/* Returns the site of a stack: the Lua function, if a Lua allocates; its innermost frame if all
 * frames pass on. */
static struct place site_of(const struct profile *p, uint32_t node)
{
    uint32_t site = node;
    while (site && place_passes_on(p, site))
        site = p->nodes.at[site].parent;
    uint32_t caller = site;
    while (caller && may_be_lua(p, outermost(p, caller)))
        caller = p->nodes.at[caller].parent;
    bool is_lua = caller && function_of(p, outermost(p, caller))->kind == FRAME_LUA;
    return outermost(p, is_lua ? caller : site ? site : node);
}

/* Whether a function of Node.js only makes what its caller wants: a Buffer. */
static bool makes_buffers(const struct profile_line *line)
{
    static const char *const files[] = {"node:buffer", "node:internal/buffer"};
    for (size_t i = 0; line->file && i < sizeof(files) / sizeof(*files); i++)
        if (strcmp(line->file, files[i]) == 0)
            return true;
    return false;
}

/* Whether a function is one of V8's own. */
static bool is_inside_v8(const struct profile_function *f)
{
    static const char *const symbols[] = {"v8::internal::", "Builtins_", "_ZN2v88internal"};
    for (size_t i = 0; f->symbol && i < sizeof(symbols) / sizeof(*symbols); i++)
        if (begins(f->symbol, symbols[i]))
            return true;
    return passes_on(f);
}

/* The same of what V8 allocates: the innermost managed function. If there is none, who calls V8. */
static struct place v8_site_of(const struct profile *p, uint32_t node)
{
    struct place at = {node, 0}, first = {0, 0};
    for (; at.node; at = caller_of(p, at)) {
        if (!profile_is_managed(function_of(p, at)->kind))
            continue;
        if (!first.node)
            first = at;
        if (!makes_buffers(line_of(p, at)))
            return at;
    }
    for (at = (struct place){node, 0}; !first.node && at.node; at = caller_of(p, at))
        if (!is_inside_v8(function_of(p, at)))
            return at;
    return first.node ? first : outermost(p, node);
}

static bool is_of_v8(enum alloc_kind kind)
{
    return kind == ALLOC_JS || kind == ALLOC_JS_EXTERNAL;
}

/* ---- summing up ------------------------------------------------------------------------------ */

/* What tells places apart: V8 has several pieces of code for one function, and moves them; a
 * bytecode has many places in a line. Of V8's sites themselves it is the function alone: optimized
 * code does not tell which line allocates. */
static uint64_t identity(const struct profile *p, struct place at, bool itself)
{
    enum { MANAGED = 63 }; /* (neither functions nor locations are so many) */
    const struct profile_line *line = line_of(p, at);
    if (profile_is_managed(p->functions.at[line->function].kind))
        return UINT64_C(1) << MANAGED | (uint64_t)line->function << 32 | (itself ? 0 : line->line);
    return (uint64_t)p->nodes.at[at.node].location << 32 | at.line;
}

/* Two stacks are of one site if its frame and the callers that are told are the same. */
static uint64_t path_hash(const struct leaks *l, const struct site *s)
{
    struct place at = s->place;
    uint64_t hash = s->kind;
    for (unsigned i = 0; at.node && i <= l->options.depth; i++, at = caller_of(l->profile, at))
        hash = hash_combine(hash, identity(l->profile, at, !i && is_of_v8(s->kind)));
    return hash;
}

static bool same_path(const struct leaks *l, const struct site *x, const struct site *y)
{
    const struct profile *p = l->profile;
    struct place a = x->place, b = y->place;
    for (unsigned i = 0; i <= l->options.depth && (a.node != b.node || a.line != b.line); i++) {
        const bool itself = !i && is_of_v8(x->kind);
        if (!a.node || !b.node || identity(p, a, itself) != identity(p, b, itself))
            return false;
        a = caller_of(p, a);
        b = caller_of(p, b);
    }
    return x->kind == y->kind;
}

static struct site *site_get(struct leaks *l, enum alloc_kind kind, uint32_t node)
{
    struct site new = {.place = is_of_v8(kind) ? v8_site_of(l->profile, node)
                                               : site_of(l->profile, node),
                       .kind = kind,
                       .oldest = UINT64_MAX};
    const uint32_t line = new.place.node ? line_of(l->profile, new.place)->line : 0;
    uint32_t at = hash_table_intern(&l->nodes, path_hash(l, &new), &l->sites, i,
                                    same_path(l, &l->sites.at[i], &new), new);
    if (at == HASH_TABLE_NONE)
        return NULL;
    struct site *site = &l->sites.at[at];
    if (line && !site->line)
        site->line = line;
    site->lines |= line && line != site->line;
    return site;
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
    if (x->kind != y->kind)
        return x->kind > y->kind ? 1 : -1;
    return (x->place.node > y->place.node) - (x->place.node < y->place.node);
}

static struct sum *sum_of(struct leaks *l, unsigned event)
{
    vec_foreach (sum, &l->sums)
        if (sum->event->index == event)
            return sum;
    return NULL;
}

static bool take(struct leaks *l, struct sum *sum, const struct profile_sample *s,
                 const struct profile_block *block)
{
    const uint64_t end = sum->event->until;
    const uint64_t until = block->known < end ? block->known : end;
    sum->from = sum->from || !is_of_v8(sum->event->kind) ? sum->from : s->time;
    const uint64_t from = sum->from ? sum->from : l->from;
    const uint64_t time = until > from ? until - from : 1;
    sum->all.all += s->period;
    sum->objects += block->objects;
    if (s->time <= sum->event->peak && block->known &&
        (!block->freed || block->freed > sum->event->peak))
        sum->peak += s->period;
    if (!block->followed) {
        sum->not_followed += s->period;
        return true;
    }
    /* What was allocated later may be known to be freed, but then the rest is not known. */
    struct site *site = site_get(l, sum->event->kind, s->node);
    if (!site)
        return false;
    if (s->time > until && is_of_v8(sum->event->kind)) {
        sum->not_judged += block->freed ? 0 : s->period;
        site->not_judged += block->freed ? 0 : s->period;
        site->after += s->period;
        return true;
    }
    uint64_t third = (s->time - from) * THIRDS / time;
    unsigned in = third < THIRDS ? (unsigned)third : THIRDS - 1;
    const uint64_t all = sum->all.all;
    site->end = end;
    site->time = time > site->time ? time : site->time;
    sum->until = until > sum->until ? until : sum->until;
    site_take(site, s, block, in);
    site_take(&sum->all, s, block, in);
    sum->all.all = all;
    return true;
}

static bool take_all(struct leaks *l)
{
    const struct profile *p = l->profile;
    for (size_t i = 0; i < p->samples.nr; i++) {
        const struct profile_sample *s = &p->samples.at[i];
        struct sum *sum = sum_of(l, s->event);
        if (sum && s->time >= l->from && !take(l, sum, s, &p->blocks.at[i]))
            return false;
    }
    return true;
}

struct leaks *leaks_create(const struct profile *p, const struct leaks_event *events, size_t nr,
                           const struct leaks_times *times, const struct leaks_options *options)
{
    struct leaks *l = calloc(1, sizeof(*l));
    bool ok = l != NULL;
    if (!ok)
        return NULL;
    l->profile = p;
    l->options = *options;
    l->from = times->from;
    l->until = times->until;
    for (size_t i = 0; ok && i < nr; i++) {
        const struct sum sum = {.event = &events[i],
                                .all = {.kind = events[i].kind, .oldest = UINT64_MAX}};
        ok = vec_push(&l->sums, sum);
    }
    if (!ok || !take_all(l)) {
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
    vec_free(&l->sums);
    hash_table_free(&l->nodes);
    free(l);
}

/* ---- telling --------------------------------------------------------------------------------- */

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Bytes a second of what stays. */
static uint64_t rate(const struct site *s)
{
    return s->time ? (uint64_t)((double)s->growth / (seconds(s->time) / THIRDS)) : 0;
}

/* Returns the sum of a site's kind. */
static const struct sum *sum_of_kind(const struct leaks *l, const struct site *s)
{
    const struct sum *sum = l->sums.at;
    while (sum->event->kind != s->kind)
        sum++;
    return sum;
}

/* Whether these bytes of a site are told, of so many of its kind: `nr` sites have been told before
 * it. */
static bool are_told(const struct leaks *l, uint64_t bytes, uint64_t all, unsigned nr)
{
    return bytes && (!l->options.top || nr < l->options.top) &&
           100.0 * (double)bytes >= l->options.least * (double)all;
}

/* Whether a site is told. */
static bool is_told(const struct leaks *l, const struct site *s, unsigned nr)
{
    return are_told(l, s->in_use, sum_of_kind(l, s)->all.in_use, nr);
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

/* Returns the line of a site; 0: it is not known, or not one. */
static uint32_t site_line(const struct site *s)
{
    return s->lines ? 0 : s->line;
}

static void put_place(const struct leaks *l, struct place at, uint32_t number, struct text *out)
{
    const struct profile_line *line = line_of(l->profile, at);
    const struct profile_function *f = function_of(l->profile, at);
    if (profile_is_managed(f->kind))
        text_managed_symbol(out, f->name);
    else
        text_symbol(out, f->name);
    if (line->file && number && !profile_is_managed(f->kind)) {
        text_string(out, "  ");
        text_clean(out, base_name(line->file));
        text_printf(out, ":%" PRIu32, number);
    } else if (number) {
        text_printf(out, "  line %" PRIu32, number);
    } else if (f->symbol && f->module && !profile_is_managed(f->kind)) {
        text_string(out, "  ");
        text_clean(out, base_name(f->module));
    }
}

/* A site and its callers. */
static void put_path(const struct leaks *l, const struct site *s, struct text *out)
{
    enum { INDENT = 20 };
    if (l->sums.nr > 1)
        text_printf(out, "  %-11s", alloc_event_name(s->kind));
    text_string(out, "  ");
    put_place(l, s->place, site_line(s), out);
    text_char(out, '\n');
    struct place at = caller_of(l->profile, s->place);
    for (unsigned i = 0; at.node && i < l->options.depth; i++) {
        text_printf(out, "%*s<- ", INDENT, "");
        put_place(l, at, line_of(l->profile, at)->line, out);
        text_char(out, '\n');
        at = caller_of(l->profile, at);
    }
}

static void put_site(const struct leaks *l, const struct site *s, struct text *out)
{
    put_amount(out, rate(s), "/s", 10);
    put_amount(out, s->in_use, "", 9);
    if (s->kind == ALLOC_JS) /* what was sampled are areas, which hold several objects */
        text_string(out, "       -");
    else
        text_printf(out, "%8" PRIu64, s->objects);
    text_printf(out, "%6.1f%%%7.1fs", 100.0 * (double)s->in_use / (double)s->all,
                seconds(s->end - s->oldest));
    put_path(l, s, out);
}

static int by_not_judged(const void *a, const void *b)
{
    const struct site *x = *(const struct site *const *)a, *y = *(const struct site *const *)b;
    if (x->not_judged != y->not_judged)
        return x->not_judged < y->not_judged ? 1 : -1;
    return (x->place.node > y->place.node) - (x->place.node < y->place.node);
}

/* Whether a site is told with what is not judged of it. */
static bool is_candidate(const struct leaks *l, const struct site *s, unsigned nr)
{
    return are_told(l, s->not_judged, sum_of_kind(l, s)->not_judged, nr);
}

/* What V8's last full collection has not seen. It may be garbage. */
static void put_not_judged(const struct leaks *l, struct text *out)
{
    VEC(const struct site *) sites = {0};
    unsigned told = 0;
    vec_foreach (s, &l->sites)
        if (s->not_judged && !vec_push(&sites, s))
            out->failed = true;
    if (sites.nr) {
        qsort(sites.at, sites.nr, sizeof(*sites.at), by_not_judged);
        text_string(out, "#\n# Not judged: what no collection has freed since V8's last full one. "
                         "It may be garbage.\n"
                         "# STAYS: the share of what the site has allocated since then.\n#\n"
                         "#               BYTES         STAYS          ");
        text_string(out, l->sums.nr > 1 ? "KIND         ALLOCATED BY\n#\n" : "ALLOCATED BY\n#\n");
    }
    vec_foreach (at, &sites) {
        const struct site *s = *at;
        if (!is_candidate(l, s, told++))
            continue;
        put_amount(out, s->not_judged, "", 21);
        text_printf(out, "%13.1f%%%8s", 100.0 * (double)s->not_judged / (double)s->after, "");
        put_path(l, s, out);
    }
    vec_free(&sites);
}

/* What is not known of an event's memory. */
static void put_unknown(const struct leaks *l, const struct sum *sum, struct text *out)
{
    if (sum->not_judged && sum->until) {
        text_string(out, "# Not judged, because allocated after V8's last full collection, ");
        text_printf(out, "%.1f s before the end:\n#   ", seconds(l->until - sum->until));
        text_amount(out, sum->not_judged, UNIT_BYTES);
        text_char(out, '\n');
    } else if (sum->not_judged) {
        text_string(out, "# Not judged, because V8 made no full collection in this time: ");
        text_amount(out, sum->not_judged, UNIT_BYTES);
        text_string(out, "\n#   (it is not known what of it is garbage: record for longer)\n");
    }
    if (sum->not_followed) {
        text_string(out, "# Not followed (the recorder said why): ");
        text_amount(out, sum->not_followed, UNIT_BYTES);
        text_char(out, '\n');
    }
}

static void put_sum(const struct leaks *l, const struct sum *sum, struct text *out)
{
    const bool blocks = sum->event->kind != ALLOC_JS;
    text_printf(out, "# %.1f s", seconds(l->until - l->from));
    if (l->sums.nr > 1)
        text_printf(out, ", %s", alloc_event_name(sum->event->kind));
    text_string(out, ": ");
    text_amount(out, sum->all.all, UNIT_BYTES);
    text_string(out, " allocated");
    if (blocks)
        text_printf(out, ", in %" PRIu64 " blocks", sum->objects);
    text_string(out, "\n# In use at the end: ");
    text_amount(out, sum->all.in_use, UNIT_BYTES);
    if (blocks)
        text_printf(out, ", in %" PRIu64 " blocks", sum->all.objects);
    text_printf(out, " (%" PRIu64 " samples)\n", sum->all.samples);
    if (sum->peak) {
        text_string(out, "# At most in use: ");
        text_amount(out, sum->peak, UNIT_BYTES);
        text_printf(out, ", at %.1f s\n", seconds(sum->event->peak - l->from));
    }
    put_unknown(l, sum, out);
}

static void put_sites(const struct leaks *l, struct text *out)
{
    unsigned told = 0;
    text_string(out, "# GROWTH: what stays, of the third of the time of which least stays.\n"
                     "# STAYS: the share of the site's memory that was not freed.\n#\n"
                     "#   GROWTH   IN USE  BLOCKS  STAYS  OLDEST  ");
    text_string(out, l->sums.nr > 1 ? "KIND         ALLOCATED BY\n#\n" : "ALLOCATED BY\n#\n");
    vec_foreach (s, &l->sites) {
        if (!is_told(l, s, told))
            continue;
        put_site(l, s, out);
        told++;
    }
}

void leaks_put_text(const struct leaks *l, struct text *out)
{
    uint64_t in_use = 0;
    vec_foreach (sum, &l->sums) {
        put_sum(l, sum, out);
        in_use += sum->all.in_use;
    }
    if (in_use)
        put_sites(l, out);
    put_not_judged(l, out);
}
static void put_json_place(const struct leaks *l, struct place at, uint32_t number, struct json *j)
{
    const struct profile_line *line = line_of(l->profile, at);
    const struct profile_function *f = function_of(l->profile, at);
    json_object(j);
    json_key_string(j, "function", f->name);
    json_key_string(j, "module", f->module);
    json_position(j, line->file, number, number == line->line ? line->column : 0);
    json_object_end(j);
}

static void put_json_site(const struct leaks *l, const struct site *s, struct json *j)
{
    json_object(j);
    json_key_string(j, "kind", alloc_event_name(s->kind));
    json_key_uint(j, "growth_bytes_per_s", rate(s));
    json_key_uint(j, "inuse_space", s->in_use);
    if (s->kind != ALLOC_JS)
        json_key_uint(j, "inuse_objects", s->objects);
    json_key_uint(j, "alloc_space", s->all);
    json_key_uint(j, "samples", s->samples);
    json_key_uint(j, "not_judged_space", s->not_judged);
    if (s->in_use) {
        json_key_uint(j, "oldest_ns", s->end - s->oldest);
        json_key_uint(j, "newest_ns", s->end - s->newest);
    }
    json_key(j, "stack");
    json_array(j);
    put_json_place(l, s->place, site_line(s), j);
    for (struct place at = caller_of(l->profile, s->place); at.node; at = caller_of(l->profile, at))
        put_json_place(l, at, line_of(l->profile, at)->line, j);
    json_array_end(j);
    json_object_end(j);
}

static void put_json_sum(const struct leaks *l, const struct sum *sum, struct json *j)
{
    json_key_uint(j, "alloc_space", sum->all.all);
    if (sum->event->kind != ALLOC_JS) {
        json_key_uint(j, "alloc_objects", sum->objects);
        json_key_uint(j, "inuse_objects", sum->all.objects);
    }
    json_key_uint(j, "inuse_space", sum->all.in_use);
    json_key_uint(j, "peak_space", sum->peak);
    json_key_uint(j, "peak_ns", sum->peak ? sum->event->peak - l->from : 0);
    json_key_uint(j, "samples", sum->all.samples);
    json_key_uint(j, "not_judged_space", sum->not_judged);
    json_key_uint(j, "not_followed_space", sum->not_followed);
}

void leaks_put_json(const struct leaks *l, struct json *j)
{
    unsigned told = 0;
    json_object(j);
    json_key_uint(j, "duration_ns", l->until - l->from);
    json_key(j, "kinds");
    json_array(j);
    vec_foreach (sum, &l->sums) {
        json_object(j);
        json_key_string(j, "kind", alloc_event_name(sum->event->kind));
        put_json_sum(l, sum, j);
        json_object_end(j);
    }
    json_array_end(j);
    /* (Those of the first kind have stood here alone.) */
    if (l->sums.nr && l->sums.at[0].event->kind == ALLOC_MALLOC)
        put_json_sum(l, &l->sums.at[0], j);
    json_key(j, "sites");
    json_array(j);
    vec_foreach (s, &l->sites) {
        if (!is_told(l, s, told) && !is_candidate(l, s, told))
            continue;
        put_json_site(l, s, j);
        told++;
    }
    json_array_end(j);
    json_object_end(j);
}
