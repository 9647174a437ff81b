/* SPDX-License-Identifier: GPL-2.0-only */
/* Source files of the HTML page, and the weights of their lines in the whole recording. */
#include "base/hash.h"
#include "output/html.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILES_MOST = 64,      /* the heaviest; further ones are left out */
    BYTES_MOST = 2 << 20, /* of all of them */
    FILE_BYTES_MOST = 1 << 20,
};

/* A line of a program's file. */
struct line {
    const char *file;
    uint32_t line, seen; /* seen: number of the last stack with it */
    uint64_t self, total;
};

struct weigher {
    const struct export *e;
    VEC(struct line) lines;
    struct hash_table index;
    uint64_t *of_node; /* weight of the samples that end at each node */
    uint32_t stack;    /* number of the current one */
    node_path path;
    bool failed;
};

static uint64_t line_hash(const char *file, uint32_t line)
{
    return hash_u64((uintptr_t)file ^ hash_u64(line));
}

static struct line *line_of(struct weigher *w, const struct profile_line *l)
{
    if (!l->file || !l->line)
        return NULL;
    uint64_t hash = line_hash(l->file, l->line);
    uint32_t number =
        hash_table_intern(&w->index, hash, &w->lines, i,
                          w->lines.at[i].line == l->line && w->lines.at[i].file == l->file,
                          (struct line){.file = l->file, .line = l->line});
    w->failed |= number == HASH_TABLE_NONE;
    return w->failed ? NULL : &w->lines.at[number];
}

static void weigh_stack(struct weigher *w, uint32_t node, uint64_t weight)
{
    const struct profile *p = w->e->profile;
    w->stack++;
    w->failed |= !export_path(p, node, &w->path);
    for (size_t n = w->path.nr; n-- > 0 && !w->failed;) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[w->path.at[n]].location];
        for (uint32_t i = 0; i < l->nr_lines; i++) {
            struct line *line = line_of(w, &p->lines.at[l->first_line + i]);
            if (!line)
                continue;
            if (n + 1 == w->path.nr && i == 0)
                line->self += weight;
            if (line->seen != w->stack)
                line->total += weight;
            line->seen = w->stack;
        }
    }
}

static void weigh_event(struct weigher *w, unsigned event)
{
    const struct profile *p = w->e->profile;
    memset(w->of_node, 0, p->nodes.nr * sizeof(*w->of_node));
    vec_foreach (l, &w->lines)
        l->self = l->total = 0;
    vec_foreach (s, &p->samples)
        if (s->node && s->event == event)
            w->of_node[s->node] += export_weight(w->e, s);
    for (uint32_t i = 1; i < p->nodes.nr && !w->failed; i++)
        if (w->of_node[i])
            weigh_stack(w, i, w->of_node[i]);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int by_file(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = x->file == y->file ? 0 : strcmp(x->file, y->file);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static int by_weight(const void *a, const void *b)
{
    const struct html_source *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : strcmp(x->name, y->name);
}

static struct html_source *source_of(struct html_sources *s, const char *name)
{
    vec_foreach (known, &s->files)
        if (known->name == name)
            return known;
    struct html_source added = {.name = name, .events = calloc(s->nr_events, sizeof(struct text))};
    if (!added.events || !vec_push(&s->files, added)) {
        free(added.events);
        return NULL;
    }
    return &s->files.at[s->files.nr - 1];
}

/* Add the lines, sorted, to their files. */
static void put_lines(struct weigher *w, struct html_sources *to, size_t event)
{
    struct html_source *source = NULL;
    uint32_t last = 0;
    vec_foreach (l, &w->lines) {
        if (!l->total)
            continue;
        if (!source || source->name != l->file) {
            source = source_of(to, l->file);
            last = 0;
        }
        if (!source) {
            w->failed = true;
            return;
        }
        struct text *t = &source->events[event];
        html_number(t, l->line - last);
        html_number(t, l->self);
        html_number(t, l->total);
        last = l->line;
        source->weight += l->total;
        w->failed |= t->failed;
    }
}

static void rehash(struct weigher *w)
{
    hash_table_free(&w->index);
    w->index = (struct hash_table){0};
    for (size_t i = 0; i < w->lines.nr && !w->failed; i++) {
        const struct line *l = &w->lines.at[i];
        w->failed |= !hash_table_add(&w->index, line_hash(l->file, l->line), i);
    }
}

static void source_free(struct html_source *f, size_t nr_events)
{
    source_file_free(&f->file);
    for (size_t i = 0; i < nr_events; i++)
        text_free(&f->events[i]);
    free(f->events);
}

/* Read the heaviest files, and keep those that are there. */
static void read_files(const struct source_place *place, struct html_sources *s)
{
    size_t kept = 0, room = BYTES_MOST;
    if (s->files.nr)
        qsort(s->files.at, s->files.nr, sizeof(*s->files.at), by_weight);
    vec_foreach (f, &s->files) {
        bool there = kept < FILES_MOST && source_file_read(place, f->name, &f->file) &&
                     f->file.size <= FILE_BYTES_MOST && f->file.size <= room &&
                     !memchr(f->file.bytes, 0, f->file.size);
        if (!there) {
            s->not_found++;
            source_free(f, s->nr_events);
            continue;
        }
        room -= f->file.size;
        s->files.at[kept++] = *f;
    }
    s->files.nr = kept;
}

int html_sources_find(const struct export *e, const struct html_data *d,
                      const struct source_place *place, struct html_sources *ret, struct error *err)
{
    struct weigher w = {.e = e, .of_node = calloc(e->profile->nodes.nr + 1, sizeof(uint64_t))};
    w.failed = !w.of_node;
    ret->nr_events = d->rows.nr;
    for (size_t i = 0; i < d->rows.nr && !w.failed; i++) {
        weigh_event(&w, d->rows.at[i].event);
        if (w.lines.nr)
            qsort(w.lines.at, w.lines.nr, sizeof(*w.lines.at), by_file);
        put_lines(&w, ret, i);
        rehash(&w);
    }
    if (!w.failed)
        read_files(place, ret);
    vec_free(&w.lines);
    vec_free(&w.path);
    hash_table_free(&w.index);
    free(w.of_node);
    return w.failed ? error_no_memory(err) : 0;
}

void html_sources_free(struct html_sources *s)
{
    vec_foreach (f, &s->files)
        source_free(f, s->nr_events);
    vec_free(&s->files);
}
