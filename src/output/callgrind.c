/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callgrind's profile format, for KCachegrind and callgrind_annotate: the cost of functions by
 * line, and calls with the cost of the callee. Format: Valgrind's manual, "Callgrind Format
 * Specification".
 *
 * Recursion is shown like callgrind's own --separate-recs, without a limit: a function that is
 * already on the stack is shown as another function, NAME'2, NAME'3. So no call leads back, a call
 * costs as much as the function and its callees, and nothing exceeds the total. NAME itself counts
 * each stack once.
 *
 * Samples contain no calls. The number of calls is the number of samples in which the call was
 * active.
 */
#include "output/export.h"

#include "base/hash.h"
#include "base/hash_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A function at a depth of recursion. The first vertices are the profile's functions, in its
 * order. */
struct vertex {
    uint32_t function, level; /* `level` starts at 1 */
    uint32_t deeper;          /* vertex of the next level; 0: none yet (never a first level) */
};
static const uint32_t NOBODY = UINT32_MAX;

/* The cost of a line of a function: its own cost, or that of calls from it. */
struct cost {
    uint32_t at, callee; /* vertices; `callee` is NOBODY for own cost */
    const char *file;    /* of the line; NULL: unknown */
    uint32_t line;
    uint64_t cost, calls;
};

/* A node's children and its costs. */
struct place {
    uint32_t first_child, next;
    uint64_t cost, samples; /* of itself and everything below */
    uint64_t own, own_samples;
};

/* A function on the path of the walk. */
struct step {
    uint32_t at, outer; /* vertices: this one; the same function's outer one or NOBODY */
    const char *file;
    uint32_t line;
};

struct writer {
    const struct export *e;
    FILE *out;
    struct place *places;
    VEC(struct vertex) vertices;
    uint32_t *innermost; /* per function: its innermost vertex on the path; NOBODY: none */
    VEC(struct step) path;
    VEC(struct cost) costs;
    struct hash_table by_line;            /* of costs */
    struct string_numbers files, objects; /* number 0 is "???" */
    bool *named;                          /* per vertex: its name was written */
    bool *told_files, *told_objects;
};

/* ---- costs --------------------------------------------------------------------------------- */

static bool same_cost(const struct cost *a, const struct cost *b)
{
    return a->at == b->at && a->callee == b->callee && a->file == b->file && a->line == b->line;
}

/* Returns false if memory is out. */
static bool add_cost(struct writer *w, const struct cost *c)
{
    uint64_t h = hash_combine((uint64_t)c->at << 32 | c->callee, (uintptr_t)c->file + c->line);
    const struct cost none = {c->at, c->callee, c->file, c->line, 0, 0};
    uint32_t n =
        hash_table_intern(&w->by_line, h, &w->costs, i, same_cost(&w->costs.at[i], c), none);
    if (n == HASH_TABLE_NONE)
        return false;
    w->costs.at[n].cost += c->cost;
    w->costs.at[n].calls += c->calls;
    return true;
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* Returns the function's vertex inside of `outer`, its innermost vertex on the path. NOBODY: memory
 * is out. */
static uint32_t vertex_inside(struct writer *w, uint32_t function, uint32_t outer)
{
    if (outer == NOBODY)
        return function;
    const struct vertex above = w->vertices.at[outer]; /* a copy: adding a vertex moves them */
    if (above.deeper)
        return above.deeper;
    uint32_t new = (uint32_t)w->vertices.nr;
    if (!vec_push(&w->vertices, (struct vertex){function, above.level + 1, 0}))
        return NOBODY;
    w->vertices.at[outer].deeper = new;
    return new;
}

/* Walk one function further in. */
static bool push_step(struct writer *w, const struct profile_line *line, const struct place *p)
{
    const struct profile_function *f = &w->e->profile->functions.at[line->function];
    struct step s = {.outer = w->innermost[line->function],
                     .file = line->file ? line->file : f->file,
                     .line = line->line};
    s.at = vertex_inside(w, line->function, s.outer);
    if (s.at == NOBODY)
        return false;
    w->innermost[line->function] = s.at;
    if (w->path.nr) {
        const struct step *from = &w->path.at[w->path.nr - 1];
        struct cost call = {.at = from->at,
                            .callee = s.at,
                            .file = from->file,
                            .line = from->line,
                            .cost = p->cost,
                            .calls = p->samples};
        if (!add_cost(w, &call))
            return false;
    }
    return vec_push(&w->path, s);
}

static void pop_step(struct writer *w)
{
    const struct step *s = &w->path.at[--w->path.nr];
    w->innermost[w->vertices.at[s->at].function] = s->outer;
}

static const struct profile_location *location_at(const struct writer *w, uint32_t node)
{
    const struct profile *p = w->e->profile;
    return &p->locations.at[p->nodes.at[node].location];
}

static bool enter(struct writer *w, uint32_t node)
{
    const struct profile_location *l = location_at(w, node);
    const struct place *p = &w->places[node];
    for (uint32_t i = l->nr_lines; i-- > 0;)
        if (!push_step(w, &w->e->profile->lines.at[l->first_line + i], p))
            return false;
    const struct step *top = &w->path.at[w->path.nr - 1];
    if (!p->own_samples)
        return true;
    struct cost own = {
        .at = top->at, .callee = NOBODY, .file = top->file, .line = top->line, .cost = p->own};
    return add_cost(w, &own);
}

static void leave(struct writer *w, uint32_t node)
{
    for (uint32_t i = location_at(w, node)->nr_lines; i-- > 0;)
        pop_step(w);
}

static bool walk(struct writer *w)
{
    const struct profile *p = w->e->profile;
    for (uint32_t node = w->places[0].first_child; node;) {
        if (!enter(w, node))
            return false;
        if (w->places[node].first_child) {
            node = w->places[node].first_child;
            continue;
        }
        for (; node; node = p->nodes.at[node].parent) { /* go up to a node with a sibling */
            leave(w, node);
            if (w->places[node].next)
                break;
        }
        node = w->places[node].next; /* the root has no sibling */
    }
    return true;
}

/* Add up the weights of the wanted samples from the leaves up, and list the children with
 * samples. */
static void weigh(struct writer *w)
{
    const struct profile *p = w->e->profile;
    vec_foreach (s, &p->samples) {
        if (!export_wants(w->e, s))
            continue;
        w->places[s->node].own += export_weight(w->e, s);
        w->places[s->node].own_samples++;
    }
    for (uint32_t i = (uint32_t)p->nodes.nr; i-- > 0;) {
        struct place *q = &w->places[i], *parent = &w->places[p->nodes.at[i].parent];
        q->cost += q->own;
        q->samples += q->own_samples;
        if (i == 0 || !q->samples)
            continue;
        parent->cost += q->cost;
        parent->samples += q->samples;
        q->next = parent->first_child;
        parent->first_child = i;
    }
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Write "(3) name"; the next time only "(3)". */
static void put_name(struct writer *w, const char *key, uint32_t number, const char *name,
                     const char *mark, bool *told)
{
    fprintf(w->out, "%s=(%" PRIu32 ")", key, number + 1);
    if (!*told)
        fprintf(w->out, " %s%s", name, mark);
    fputc('\n', w->out);
    *told = true;
}

static void put_file(struct writer *w, const char *key, const char *file)
{
    uint32_t number = file ? string_number(&w->files, file) : 0;
    put_name(w, key, number, file ? file : "???", "", &w->told_files[number]);
}

static void put_object(struct writer *w, const char *key, const char *module)
{
    uint32_t number = module ? string_number(&w->objects, module) : 0;
    put_name(w, key, number, module ? module : "???", "", &w->told_objects[number]);
}

static const struct profile_function *function_of(const struct writer *w, uint32_t vertex)
{
    return &w->e->profile->functions.at[w->vertices.at[vertex].function];
}

static void put_vertex(struct writer *w, const char *key, uint32_t vertex)
{
    char mark[16] = "";
    if (w->vertices.at[vertex].level > 1)
        snprintf(mark, sizeof(mark), "'%" PRIu32, w->vertices.at[vertex].level);
    put_name(w, key, vertex, function_of(w, vertex)->name, mark, &w->named[vertex]);
}

static void put_cost(struct writer *w, const struct cost *c)
{
    if (c->callee != NOBODY) {
        const struct profile_function *callee = function_of(w, c->callee);
        put_object(w, "cob", callee->module);
        put_file(w, "cfi", callee->file);
        put_vertex(w, "cfn", c->callee);
        fprintf(w->out, "calls=%" PRIu64 " %" PRIu32 "\n", c->calls, callee->line);
    }
    fprintf(w->out, "%" PRIu32 " %" PRIu64 "\n", c->line, c->cost);
}

static int by_place(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    int order = x->file == y->file ? 0 : !x->file ? -1 : !y->file ? 1 : strcmp(x->file, y->file);
    if (order)
        return order;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->callee + 1 > y->callee + 1) - (x->callee + 1 < y->callee + 1); /* own cost first */
}

static void put_costs(struct writer *w)
{
    uint32_t at = NOBODY;
    const char *file = NULL;
    if (w->costs.nr)
        qsort(w->costs.at, w->costs.nr, sizeof(*w->costs.at), by_place);
    vec_foreach (c, &w->costs) {
        if (c->at != at) {
            const struct profile_function *f = function_of(w, c->at);
            fputc('\n', w->out);
            put_object(w, "ob", f->module);
            put_file(w, "fl", f->file);
            put_vertex(w, "fn", c->at);
            at = c->at;
            file = f->file;
        }
        if (c->file != file)
            put_file(w, c->file == function_of(w, at)->file ? "fe" : "fi", c->file);
        file = c->file;
        put_cost(w, c);
    }
}

/* The format requires an event name of one word. */
static void put_event(struct writer *w)
{
    const char *name = w->e->samples ? "samples" : replay_weight_name(w->e->replay, w->e->event);
    fputs("events: ", w->out);
    for (; *name; name++)
        fputc(*name > ' ' && *name < 0x7f ? *name : '_', w->out);
    fputc('\n', w->out);
}

static void put_head(struct writer *w)
{
    const char *command = perfdata_cmdline(replay_perfdata(w->e->replay));
    struct text clean = {0};
    text_clean(&clean, command ? command : "");
    text_char(&clean, 0);
    fprintf(w->out, "# callgrind format\nversion: 1\ncreator: ljperf\n");
    fprintf(w->out, "cmd: %s\n", clean.failed ? "" : clean.at);
    fprintf(w->out, "part: 1\n\npositions: line\n");
    put_event(w);
    fprintf(w->out, "summary: %" PRIu64 "\n\n", w->places[0].cost);
    text_free(&clean);
}

static bool prepare(struct writer *w)
{
    const struct profile *p = w->e->profile;
    size_t nr = p->functions.nr;
    string_number_of(&w->files, w->e, "???");
    string_number_of(&w->objects, w->e, "???");
    vec_foreach (l, &p->lines)
        if (l->file)
            string_number(&w->files, l->file);
    vec_foreach (f, &p->functions) {
        if (f->file)
            string_number(&w->files, f->file);
        if (f->module)
            string_number(&w->objects, f->module);
    }
    w->places = calloc(p->nodes.nr + 1, sizeof(*w->places));
    w->innermost = calloc(nr + 1, sizeof(*w->innermost));
    for (uint32_t i = 0; w->innermost && i < nr; i++) {
        w->innermost[i] = NOBODY;
        if (!vec_push(&w->vertices, (struct vertex){i, 1, 0}))
            return false;
    }
    w->told_files = calloc(w->files.strings.nr + 1, sizeof(bool));
    w->told_objects = calloc(w->objects.strings.nr + 1, sizeof(bool));
    return w->places && w->innermost && w->told_files && w->told_objects && !w->files.failed &&
           !w->objects.failed;
}

int export_callgrind(const struct export *e, FILE *out, struct error *err)
{
    struct writer w = {.e = e, .out = out};
    bool failed = !prepare(&w);
    if (!failed) {
        weigh(&w);
        failed = !walk(&w);
        w.named = calloc(w.vertices.nr + 1, sizeof(*w.named));
        failed |= !w.named;
    }
    if (!failed) {
        put_head(&w);
        put_costs(&w);
        fprintf(out, "\ntotals: %" PRIu64 "\n", w.places[0].cost);
    }
    free(w.places);
    free(w.innermost);
    vec_free(&w.vertices);
    free(w.named);
    free(w.told_files);
    free(w.told_objects);
    hash_table_free(&w.by_line);
    vec_free(&w.path);
    vec_free(&w.costs);
    string_numbers_free(&w.files);
    string_numbers_free(&w.objects);
    return failed ? error_no_memory(err) : 0;
}
