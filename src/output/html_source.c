/* SPDX-License-Identifier: GPL-2.0-only */
/* Source files of the HTML page, and which of their lines each stack goes through. */
#include "base/hash.h"
#include "output/html.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILES_MOST = 64,      /* the heaviest; further ones are left out */
    BYTES_MOST = 2 << 20, /* of all of them */
    FILE_BYTES_MOST = 1 << 20,
};

/* A file of the program. */
struct file {
    const char *name; /* interned */
    uint64_t weight;
    uint32_t seen; /* number of the last stack with it */
    uint32_t kept; /* 1 + its index in html_sources.files; 0: it is not there */
};

/* A line of a file that is kept. */
struct line {
    uint32_t file, line;
    uint32_t seen, node; /* number of the last stack with it, and the line's node in its path */
};

/* A node of the tree of lines. */
struct line_node {
    uint32_t parent, line; /* `line`: index in maker.lines */
};

struct maker {
    const struct export *e;
    struct html_sources *to;
    VEC(struct file) files;
    VEC(struct line) lines;
    VEC(struct line_node) nodes; /* without the root: node n is nodes[n - 1] */
    struct hash_table file_index, line_index, node_index;
    uint32_t stack; /* number of the current one; from 1 */
    node_path path;
    bool failed;
};

static struct file *file_of(struct maker *m, const char *name)
{
    uint32_t number = hash_table_intern(&m->file_index, hash_u64((uintptr_t)name), &m->files, i,
                                        m->files.at[i].name == name, (struct file){.name = name});
    m->failed |= number == HASH_TABLE_NONE;
    return m->failed ? NULL : &m->files.at[number];
}

/* ---- which files ----------------------------------------------------------------------------- */

static void weigh_stack(struct maker *m, uint32_t node, uint64_t weight)
{
    const struct profile *p = m->e->profile;
    m->stack++;
    m->failed |= !export_path(p, node, &m->path);
    vec_foreach (n, &m->path) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[*n].location];
        for (uint32_t i = 0; i < l->nr_lines && !m->failed; i++) {
            const struct profile_line *line = &p->lines.at[l->first_line + i];
            struct file *f = line->file && line->line ? file_of(m, line->file) : NULL;
            if (f && f->seen != m->stack)
                f->weight += weight;
            if (f)
                f->seen = m->stack;
        }
    }
}

static void weigh_files(struct maker *m)
{
    const struct profile *p = m->e->profile;
    uint64_t *of_node = calloc(p->nodes.nr + 1, sizeof(*of_node));
    m->failed |= !of_node;
    vec_foreach (s, &p->samples)
        if (s->node && of_node)
            of_node[s->node] += export_weight(m->e, s);
    for (uint32_t i = 1; i < p->nodes.nr && !m->failed; i++)
        if (of_node[i])
            weigh_stack(m, i, of_node[i]);
    free(of_node);
}

static int by_weight(const void *a, const void *b)
{
    const struct html_source *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : strcmp(x->name, y->name);
}

/* Read the heaviest files, and keep those that are there. */
static void read_files(struct maker *m, const struct source_place *place)
{
    struct html_sources *s = m->to;
    size_t kept = 0, room = BYTES_MOST;
    vec_foreach (f, &m->files)
        m->failed |=
            f->weight &&
            !vec_push(&s->files, ((struct html_source){.name = f->name, .weight = f->weight}));
    if (s->files.nr)
        qsort(s->files.at, s->files.nr, sizeof(*s->files.at), by_weight);
    vec_foreach (f, &s->files) {
        bool there = !m->failed && kept < FILES_MOST &&
                     source_file_read(place, f->name, &f->file) &&
                     f->file.size <= FILE_BYTES_MOST && f->file.size <= room &&
                     !memchr(f->file.bytes, 0, f->file.size);
        if (!there) {
            s->not_found++;
            source_file_free(&f->file);
            continue;
        }
        room -= f->file.size;
        file_of(m, f->name)->kept = (uint32_t)kept + 1;
        s->files.at[kept++] = *f;
    }
    s->files.nr = kept;
}

/* ---- lines of stacks ---------------------------------------------------------------------------
 */

/* The line, if its file is kept; NULL: it is not. */
static struct line *line_of(struct maker *m, const struct profile_line *l)
{
    const struct file *f = l->file && l->line ? file_of(m, l->file) : NULL;
    if (!f || !f->kept)
        return NULL;
    const uint32_t file = f->kept - 1, line = l->line;
    uint32_t number =
        hash_table_intern(&m->line_index, hash_u64((uint64_t)file << 32 | line), &m->lines, i,
                          m->lines.at[i].file == file && m->lines.at[i].line == line,
                          (struct line){.file = file, .line = line});
    m->failed |= number == HASH_TABLE_NONE;
    return m->failed ? NULL : &m->lines.at[number];
}

static uint32_t child(struct maker *m, uint32_t parent, uint32_t line)
{
    uint32_t number =
        hash_table_intern(&m->node_index, hash_u64((uint64_t)parent << 32 | line), &m->nodes, i,
                          m->nodes.at[i].parent == parent && m->nodes.at[i].line == line,
                          (struct line_node){.parent = parent, .line = line});
    m->failed |= number == HASH_TABLE_NONE;
    return m->failed ? 0 : number + 1;
}

/* Returns the inner end of the path of a stack that ends at `node` of the profile. *self: the node
 * of the innermost frame's line; 0: that is none of a file that is kept. */
static uint32_t add_path(struct maker *m, uint32_t node, uint32_t *self)
{
    const struct profile *p = m->e->profile;
    uint32_t at = 0;
    *self = 0;
    m->stack++;
    m->failed |= !export_path(p, node, &m->path);
    vec_foreach (n, &m->path) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[*n].location];
        *self = 0;
        for (uint32_t i = l->nr_lines; i-- > 0 && !m->failed;) {
            struct line *line = line_of(m, &p->lines.at[l->first_line + i]);
            if (line && line->seen != m->stack) {
                at = child(m, at, (uint32_t)(line - m->lines.at));
                line->node = at;
                line->seen = m->stack;
            }
            *self = line ? line->node : 0;
        }
    }
    return at;
}

static void put_paths(struct maker *m, const struct html_data *d)
{
    struct text *t = &m->to->stacks;
    vec_foreach (stack, &d->stacks) {
        uint32_t self, at = add_path(m, *stack, &self), further = 0;
        if (m->failed)
            return;
        for (uint32_t n = at; self && n != self; n = m->nodes.at[n - 1].parent)
            further++;
        html_number(t, at);
        html_number(t, self ? 1 + further : 0);
    }
    m->failed |= t->failed;
}

static void put_nodes(struct maker *m)
{
    struct text *t = &m->to->lines;
    for (uint32_t i = 0; i < m->nodes.nr; i++) {
        const struct line_node *n = &m->nodes.at[i];
        html_number(t, i + 1 - n->parent);
        html_number(t, m->lines.at[n->line].file);
        html_number(t, m->lines.at[n->line].line);
    }
    m->to->nr_lines = (uint32_t)m->nodes.nr + 1;
    m->failed |= t->failed;
}

int html_sources_find(const struct export *e, const struct html_data *d,
                      const struct source_place *place, struct html_sources *ret, struct error *err)
{
    struct maker m = {.e = e, .to = ret};
    weigh_files(&m);
    if (!m.failed)
        read_files(&m, place);
    if (!m.failed && ret->files.nr) {
        put_paths(&m, d);
        put_nodes(&m);
    }
    vec_free(&m.files);
    vec_free(&m.lines);
    vec_free(&m.nodes);
    vec_free(&m.path);
    hash_table_free(&m.file_index);
    hash_table_free(&m.line_index);
    hash_table_free(&m.node_index);
    return m.failed ? error_no_memory(err) : 0;
}

void html_sources_free(struct html_sources *s)
{
    vec_foreach (f, &s->files)
        source_file_free(&f->file);
    vec_free(&s->files);
    text_free(&s->lines);
    text_free(&s->stacks);
}
