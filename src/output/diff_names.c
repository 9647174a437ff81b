/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The identity of functions, and which functions of the two sides are the same. The same function
 * may stand at another line, may be in a file in another folder, and may have been compiled
 * differently. None of these makes it a new function.
 */
#include "base/hash.h"
#include "output/diff.h"
#include "output/doctor_names.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------------- */

static bool same_name(const struct diff_name *a, const struct diff_name *b)
{
    return a->name == b->name && a->source == b->source && a->place == b->place &&
           a->kind == b->kind && a->build == b->build;
}

/* `name` and `source` of `n` must be interned. A NULL name means that memory was out. */
static uint32_t add_name(struct diff *d, struct diff_name n)
{
    if (!n.name)
        return UINT32_MAX;
    uint64_t h = hash_combine((uintptr_t)n.name, (uintptr_t)n.source);
    uint32_t index = hash_table_intern(&d->by_name, hash_combine(h, n.place ^ n.kind), &d->names, i,
                                       same_name(&d->names.at[i], &n), n);
    if (index != HASH_TABLE_NONE)
        d->names.at[index].kernel &= n.kernel;
    return index;
}

uint32_t diff_name_plain(struct diff *d, const char *name, const char *source, bool kernel)
{
    struct diff_name n = {.name = intern_string(d->strings, name), .kernel = kernel};
    if (source && !(n.source = intern_string(d->strings, source)))
        return UINT32_MAX;
    return add_name(d, n);
}

/* Parse ":LINE" or ":LINE:COLUMN" up to the end of the string; 0: it is neither. */
static uint64_t parse_place(const char *s)
{
    char *end;
    if (*s != ':' || !isdigit((unsigned char)s[1]))
        return 0;
    uint64_t place = (uint64_t)strtoul(s + 1, &end, 10) << 32;
    if (*end == ':' && isdigit((unsigned char)end[1]))
        place |= (uint32_t)strtoul(end + 1, &end, 10);
    return *end ? 0 : place;
}

/* Returns the size of the name in a managed symbol. The symbol is `NAME FILE:LINE[:COLUMN]`, or the
 * same without the name (managed.h). */
static size_t split_managed(const char *symbol, const char *file, uint64_t *place)
{
    size_t size = file ? strlen(file) : 0;
    for (const char *at = symbol; size && (at = strstr(at, file)); at++) {
        bool starts = at == symbol || at[-1] == ' ';
        *place = parse_place(at + size);
        if (starts && (*place || !at[size]))
            return at == symbol ? 0 : (size_t)(at - symbol) - 1;
    }
    *place = 0;
    return strlen(symbol);
}

/* Find the place at the end of a name. */
static const char *find_place(const char *name, uint64_t *place)
{
    for (const char *at = name; (at = strchr(at, ':')); at++)
        if ((*place = parse_place(at)))
            return at;
    return NULL;
}

/* Returns the size of the name in V8's name of generated code, and gets the file. V8's names are
 * `NAME FILE:LINE[:COLUMN]`; NAME may be empty. Without a file, there is no place. Both NAME and
 * FILE may contain blanks; a path begins at the first " /". */
static size_t split_v8(const char *symbol, const char **file, size_t *nr_file, uint64_t *place)
{
    const char *end = find_place(symbol, place);
    size_t size = end ? (size_t)(end - symbol) : 0;
    const char *blank = memmem(symbol, size, " /", 2);
    blank = blank ? blank : memrchr(symbol, ' ', size);
    *nr_file = blank ? (size_t)(end - blank) - 1 : 0;
    *file = *nr_file ? blank + 1 : NULL;
    if (*nr_file)
        return (size_t)(blank - symbol);
    *place = 0;
    return strlen(symbol);
}

/* Returns the size of a native name without the suffixes that compilers give to copies of a
 * function. */
static size_t without_clone(const char *symbol, size_t size)
{
    static const char *const marks[] = {".constprop.", ".isra.", ".part.",  ".cold",
                                        ".lto_priv.",  ".llvm.", " [clone "};
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        const char *at = memmem(symbol, size, marks[i], strlen(marks[i]));
        if (at && at > symbol)
            size = (size_t)(at - symbol);
    }
    return size;
}

const char *diff_source(const struct function *f)
{
    if (f->module && fnmatch("/tmp/perf-[0-9]*.map", f->module, 0) == 0)
        return "perf map";
    return f->module && fnmatch("jit-[0-9]*.dump", f->module, 0) == 0 ? "jitdump" : f->module;
}

static uint32_t name_unknown(struct diff *d, const struct function *f, enum diff_name_kind kind)
{
    struct text t = {0};
    const char *source = diff_source(f);
    text_printf(&t, "[%s]%c", source ? text_base_name(source) : "unknown", 0);
    struct diff_name n = {.kernel = function_is_kernel(f), .kind = (uint8_t)kind};
    n.name = t.failed ? NULL : intern_string(d->strings, t.at);
    text_free(&t);
    if (source && !(n.source = intern_string(d->strings, source)))
        return UINT32_MAX;
    return add_name(d, n);
}

/* V8's functions are identified by their file, as if memory had named them. */
static uint32_t name_v8(struct diff *d, const char *symbol, const char *source)
{
    const char *file;
    size_t nr_file;
    struct diff_name n = {.source = source};
    size_t size = split_v8(symbol, &file, &nr_file, &n.place);
    if (nr_file && !(n.source = intern_bytes(d->strings, file, nr_file)))
        return UINT32_MAX;
    n.name = intern_bytes(d->strings, symbol, size);
    return add_name(d, n);
}

uint32_t diff_name_of_file(struct diff *d, const struct function *f)
{
    if (d->options->level != DIFF_FUNCTION || (f->symbol && !f->by_place))
        return DIFF_NO_NAME;
    return name_unknown(d, f, DIFF_NAME_FILE);
}

uint32_t diff_name_function(struct diff *d, const struct function *f)
{
    if (!f->symbol)
        return name_unknown(d, f, DIFF_NAME_NO_PLACE);
    const char *source = diff_source(f);
    struct diff_name n = {.kernel = function_is_kernel(f)};
    if (source && !(n.source = intern_string(d->strings, source)))
        return UINT32_MAX;
    n.kind = f->by_place ? DIFF_NAME_PLACE : DIFF_NAME_PLAIN;
    if (f->by_place && !(n.build = intern_string(d->strings, f->build ? f->build : "")))
        return UINT32_MAX;
    const char *v8 = f->kind == FRAME_JIT ? v8_name_function(f->symbol) : NULL;
    if (v8)
        return name_v8(d, v8, n.source);
    size_t size = strlen(f->symbol);
    if (function_is_managed(f))
        size = split_managed(f->symbol, f->module, &n.place);
    else if (f->kind != FRAME_JIT)
        size = without_clone(f->symbol, size);
    n.name = intern_bytes(d->strings, f->symbol, size);
    return add_name(d, n);
}

/* ---- functions without symbols ------------------------------------------------------------- */

/* The builds of the files of one base name. */
struct builds {
    const char *file, *build;
    bool several;
};
typedef VEC(struct builds) builds_list;

static struct builds *find_builds(const builds_list *all, const char *source)
{
    const char *file = source ? text_base_name(source) : "";
    vec_foreach (b, all)
        if (strcmp(b->file, file) == 0)
            return b;
    return NULL;
}

static int note_build(builds_list *all, const struct diff_name *n)
{
    struct builds *b = find_builds(all, n->source);
    if (b) {
        b->several |= b->build != n->build;
        return 0;
    }
    const struct builds new = {n->source ? text_base_name(n->source) : "", n->build, !*n->build};
    return vec_push(all, new) ? 0 : -1;
}

/* If all recordings have the same build of a file, functions without a symbol are the same where
 * their places are. Another build has its functions elsewhere: they count as one. */
static int choose_names(struct diff *d)
{
    builds_list all = {0};
    int failed = 0;
    for (size_t i = 0; i < d->names.nr && !failed; i++)
        if (d->names.at[i].kind == DIFF_NAME_PLACE)
            failed = note_build(&all, &d->names.at[i]);
    vec_foreach (n, &d->names) {
        const struct builds *b = n->kind != DIFF_NAME_PLAIN ? find_builds(&all, n->source) : NULL;
        const bool by_place = b && !b->several;
        if (n->kind != DIFF_NAME_PLAIN && (n->kind == DIFF_NAME_FILE) == by_place)
            n->in[DIFF_BASE] = n->in[DIFF_NEW] = false;
    }
    vec_free(&all);
    return failed;
}

/* ---- groups: names with the same function name and source ------------------------------------ */

/* A group is a run of names in an array that is sorted by group. */
struct group {
    uint32_t first, nr;
    uint32_t in[DIFF_SIDES]; /* number of its names on each side */
    uint32_t peer;           /* the other side's group + 1; on both sides: its own; 0: none */
};

/* A function whose name both sides have once. It shows how far lines moved around it. */
struct anchor {
    const char *source; /* of the base side */
    uint64_t from, to;  /* places on the two sides */
};

struct matcher {
    struct diff *d;
    uint32_t *order; /* indexes of names, sorted */
    VEC(struct group) groups;
    VEC(struct anchor) anchors;
    uint32_t nr_rows;
};

static int by_text(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a ? a : "", b ? b : "");
}

static int by_name(const void *a, const void *b, void *context)
{
    const struct diff *d = context;
    const struct diff_name *x = &d->names.at[*(const uint32_t *)a];
    const struct diff_name *y = &d->names.at[*(const uint32_t *)b];
    int order = by_text(x->source, y->source);
    order = order ? order : by_text(x->name, y->name);
    return order ? order : x->place < y->place ? -1 : x->place > y->place;
}

static int make_groups(struct matcher *m)
{
    struct diff *d = m->d;
    for (uint32_t i = 0; i < d->names.nr; i++)
        m->order[i] = i;
    qsort_r(m->order, d->names.nr, sizeof(*m->order), by_name, d);
    for (uint32_t i = 0; i < d->names.nr; i++) {
        struct diff_name *n = &d->names.at[m->order[i]];
        const struct diff_name *before = i ? &d->names.at[m->order[i - 1]] : NULL;
        bool same = before && before->name == n->name && before->source == n->source;
        if (!same && !vec_push(&m->groups, (struct group){.first = i}))
            return -1;
        struct group *g = &m->groups.at[m->groups.nr - 1];
        g->nr++;
        for (int side = 0; side < DIFF_SIDES; side++)
            g->in[side] += n->in[side];
    }
    for (uint32_t i = 0; i < m->groups.nr; i++)
        if (m->groups.at[i].in[DIFF_BASE] && m->groups.at[i].in[DIFF_NEW])
            m->groups.at[i].peer = i + 1;
    return 0;
}

static const struct diff_name *group_name(const struct matcher *m, uint32_t group)
{
    return &m->d->names.at[m->order[m->groups.at[group].first]];
}

/* Returns the size of a source's base name without a library's version: libfoo.so.1.2 is
 * libfoo.so. */
static size_t plain_size(const char *base)
{
    const char *so = strstr(base, ".so.");
    return so ? (size_t)(so - base) + 3 : strlen(base);
}

/* Compare the name and the source's base name. */
static int compare_moved(const struct matcher *m, uint32_t a, uint32_t b)
{
    const struct diff_name *x = group_name(m, a);
    const struct diff_name *y = group_name(m, b);
    const char *p = x->source ? text_base_name(x->source) : "";
    const char *q = y->source ? text_base_name(y->source) : "";
    size_t size = plain_size(p);
    int order = by_text(x->name, y->name);
    if (order)
        return order;
    order = strncmp(p, q, size < plain_size(q) ? size : plain_size(q));
    return order ? order : size < plain_size(q) ? -1 : size > plain_size(q);
}

static int by_moved(const void *a, const void *b, void *context)
{
    return compare_moved(context, *(const uint32_t *)a, *(const uint32_t *)b);
}

/* Pair groups that only one side has. Two groups are the same if exactly one group of each side has
 * this name in a source of this base name. */
static int pair_moved_groups(struct matcher *m)
{
    VEC(uint32_t) lone = {0};
    for (uint32_t i = 0; i < m->groups.nr; i++)
        if (!m->groups.at[i].peer && !vec_push(&lone, i)) {
            vec_free(&lone);
            return -1;
        }
    if (lone.nr)
        qsort_r(lone.at, lone.nr, sizeof(*lone.at), by_moved, m);
    for (size_t from = 0, end; from < lone.nr; from = end) {
        for (end = from + 1; end < lone.nr && !compare_moved(m, lone.at[from], lone.at[end]);)
            end++;
        struct group *g = &m->groups.at[lone.at[from]];
        struct group *h = &m->groups.at[lone.at[end - 1]];
        if (end - from == 2 && !g->in[DIFF_BASE] != !h->in[DIFF_BASE]) {
            g->peer = lone.at[end - 1] + 1;
            h->peer = lone.at[from] + 1;
        }
    }
    vec_free(&lone);
    return 0;
}

/* ---- places within a group ------------------------------------------------------------------- */

/* Get the names of a group that are on `side`. Returns their number. */
static size_t names_of_side(const struct matcher *m, uint32_t group, int side, uint32_t *ret)
{
    const struct group *g = &m->groups.at[group];
    size_t nr = 0;
    for (uint32_t i = 0; i < g->nr; i++)
        if (m->d->names.at[m->order[g->first + i]].in[side])
            ret[nr++] = m->order[g->first + i];
    return nr;
}

static const uint32_t UNMATCHED = UINT32_MAX;

static void make_row(struct matcher *m, uint32_t base, uint32_t new)
{
    m->d->names.at[base].row[DIFF_BASE] = m->d->names.at[new].row[DIFF_NEW] = m->nr_rows++;
}

static int by_place(const void *a, const void *b)
{
    const struct anchor *x = a;
    const struct anchor *y = b;
    int order = by_text(x->source, y->source);
    return order ? order : x->from < y->from ? -1 : x->from > y->from;
}

/* Returns where code at `place` of the base's source is expected on the new side. It moved as far
 * as the nearest anchor before it (or, if there is none, the first anchor after it). */
static uint64_t moved_place(const struct matcher *m, const char *source, uint64_t place)
{
    uint64_t lines = 0;
    bool found = false;
    for (size_t i = 0; i < m->anchors.nr; i++) {
        const struct anchor *a = &m->anchors.at[i];
        if (a->source != source)
            continue;
        if (a->from > place && found)
            break;
        lines = (a->to >> 32) - (a->from >> 32);
        found = true;
        if (a->from > place)
            break;
    }
    return place + (lines << 32);
}

/* Match names at several places. First match those whose place is the expected one. Then, if both
 * sides have equally many left, match these in order: one column more or less is no other line. */
static void match_places(struct matcher *m, uint32_t *base, size_t nr_base, uint32_t *new,
                         size_t nr_new)
{
    struct diff_name *names = m->d->names.at;
    size_t left = nr_base;
    size_t left_new = nr_new;
    for (size_t i = 0; i < nr_base; i++) {
        uint64_t to = moved_place(m, names[base[i]].source, names[base[i]].place);
        for (size_t j = 0; j < nr_new; j++)
            if (new[j] != UNMATCHED && names[new[j]].place == to) {
                make_row(m, base[i], new[j]);
                base[i] = new[j] = UNMATCHED;
                left--;
                left_new--;
                break;
            }
    }
    for (size_t i = 0, j = 0; left == left_new && i < nr_base; i++) {
        if (base[i] == UNMATCHED)
            continue;
        while (new[j] == UNMATCHED)
            j++;
        make_row(m, base[i], new[j]);
        base[i] = new[j] = UNMATCHED;
    }
}

/* Give each unmatched name its own row. */
static void own_rows(struct matcher *m, const uint32_t *names, size_t nr, int side)
{
    for (size_t i = 0; i < nr; i++)
        if (names[i] != UNMATCHED)
            m->d->names.at[names[i]].row[side] = m->nr_rows++;
}

/* Groups with one name on each side are anchors for the others. */
static int match_single(struct matcher *m, uint32_t base_group, uint32_t new_group)
{
    uint32_t base = 0;
    uint32_t new = 0;
    if (m->groups.at[base_group].in[DIFF_BASE] != 1 || m->groups.at[new_group].in[DIFF_NEW] != 1)
        return 0;
    names_of_side(m, base_group, DIFF_BASE, &base);
    names_of_side(m, new_group, DIFF_NEW, &new);
    const struct diff_name *n = &m->d->names.at[base];
    struct anchor a = {n->source, n->place, m->d->names.at[new].place};
    if (a.from && a.to && *n->name && !vec_push(&m->anchors, a))
        return -1;
    return 0;
}

static int match_group(struct matcher *m, uint32_t group)
{
    const struct group *g = &m->groups.at[group];
    uint32_t other = g->peer ? g->peer - 1 : group;
    if (other != group && !g->in[DIFF_BASE])
        return 0; /* handled with the base side's group */
    uint32_t *base = calloc(g->nr + m->groups.at[other].nr + 1, sizeof(*base));
    if (!base)
        return -1;
    size_t nr_base = names_of_side(m, group, DIFF_BASE, base);
    uint32_t *new = base + nr_base;
    size_t nr_new = names_of_side(m, other, DIFF_NEW, new);
    if (nr_base == 1 && nr_new == 1) {
        make_row(m, *base, *new);
    } else {
        match_places(m, base, nr_base, new, nr_new);
        own_rows(m, base, nr_base, DIFF_BASE);
        own_rows(m, new, nr_new, DIFF_NEW);
    }
    free(base);
    return 0;
}

static int find_anchors(struct matcher *m)
{
    for (uint32_t i = 0; i < m->groups.nr; i++) {
        const struct group *g = &m->groups.at[i];
        if (g->peer && g->in[DIFF_BASE] && match_single(m, i, g->peer - 1) < 0)
            return -1;
    }
    if (m->anchors.nr)
        qsort(m->anchors.at, m->anchors.nr, sizeof(*m->anchors.at), by_place);
    return 0;
}

uint32_t diff_match(struct diff *d)
{
    struct matcher m = {.d = d, .order = calloc(d->names.nr + 1, sizeof(*m.order))};
    bool failed = !m.order || choose_names(d) < 0 || make_groups(&m) < 0 ||
                  pair_moved_groups(&m) < 0 || find_anchors(&m) < 0;
    for (uint32_t i = 0; !failed && i < m.groups.nr; i++)
        failed = match_group(&m, i) < 0;
    free(m.order);
    vec_free(&m.groups);
    vec_free(&m.anchors);
    return failed ? UINT32_MAX : m.nr_rows;
}
