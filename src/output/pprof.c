/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pprof's profile.proto. Samples with equal stacks and labels are merged. The message is written in
 * pieces, because protobuf reads consecutive messages as one message with the fields of all.
 *
 * Addresses are addresses in files. Every file's mapping starts at its first byte, so that a file
 * is one mapping, wherever processes mapped it.
 */
#include "output/export.h"
#include "output/output.h"

#include "base/hash.h"
#include "base/hash_table.h"
#include "perfdata/alloc.h"
#include "pprof.pb-c.h"

#include <stdlib.h>
#include <string.h>

enum { LABELS_MAX = 8 };

/* Samples that do not differ in anything that is written. */
struct row {
    uint32_t node, thread;
    uint8_t end;
    bool unwound;
};

struct writer {
    const struct export *e;
    FILE *out;
    struct string_numbers strings;
    VEC(struct row) rows;
    VEC(int64_t) values; /* nr_types values per row */
    struct hash_table row_numbers;
    struct export_files files;
    size_t first_file;    /* the one that is written first */
    VEC(unsigned) events; /* events that were sampled, ascending */
    /* Sample types: a count and a period for each event; of allocations whose frees are seen, two
     * more, of what is in use. */
    size_t nr_types;
    bool has_blocks;    /* there are such allocations, */
    unsigned blocks_of; /* and this is their event */
    VEC(uint8_t) packed;
    bool failed;
};

static int64_t number(struct writer *w, const char *interned)
{
    return interned ? string_number(&w->strings, interned) : 0;
}

static int64_t number_of(struct writer *w, const char *text)
{
    return string_number_of(&w->strings, w->e, text);
}

/* Write a part of the whole message. */
static void put(struct writer *w, const Pprof__Profile *part)
{
    size_t size = pprof__profile__get_packed_size(part);
    if (!vec_reserve(&w->packed, size)) {
        w->failed = true;
        return;
    }
    pprof__profile__pack(part, w->packed.at);
    fwrite(w->packed.at, 1, size, w->out);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static bool same_row(const struct row *a, const struct row *b)
{
    return a->node == b->node && a->thread == b->thread && a->end == b->end &&
           a->unwound == b->unwound;
}

/* Returns the row's values; a new row is added. NULL: memory is out. */
static int64_t *row_values(struct writer *w, const struct profile_sample *s)
{
    struct row r = {.node = s->node, .thread = s->thread, .unwound = s->unwound};
    if (s->unwound)
        r.end = s->end;
    uint64_t h = hash_combine((uint64_t)r.node << 32 | r.thread, r.end * 2U + r.unwound);
    if (!vec_reserve(&w->values, (w->rows.nr + 1) * w->nr_types))
        return NULL;
    uint32_t n =
        hash_table_intern(&w->row_numbers, h, &w->rows, i, same_row(&w->rows.at[i], &r), r);
    if (n == HASH_TABLE_NONE)
        return NULL;
    while (w->values.nr < w->rows.nr * w->nr_types)
        w->values.at[w->values.nr++] = 0;
    return w->values.at + n * w->nr_types;
}

static size_t event_place(const struct writer *w, unsigned event)
{
    size_t i = 0;
    while (i < w->events.nr && w->events.at[i] < event)
        i++;
    return i;
}

/* Find the event of allocations whose frees are seen. Where another weight was asked for, that is
 * what the periods are. */
static void find_allocations(struct writer *w)
{
    const struct replay *r = w->e->replay;
    enum alloc_kind kind;
    if (!w->e->profile->wants_blocks || replay_options(r)->weight)
        return;
    vec_foreach (event, &w->events) {
        if (*event >= perfdata_nr_events(replay_perfdata(r)) ||
            !perfdata_alloc_kind(perfdata_event(replay_perfdata(r), *event), &kind) ||
            kind != ALLOC_MALLOC)
            continue;
        w->has_blocks = true;
        w->blocks_of = *event;
    }
}

static bool find_events(struct writer *w)
{
    vec_foreach (s, &w->e->profile->samples) {
        size_t at = event_place(w, s->event);
        if (at < w->events.nr && w->events.at[at] == s->event)
            continue;
        if (!vec_push(&w->events, 0))
            return false;
        memmove(w->events.at + at + 1, w->events.at + at,
                (w->events.nr - 1 - at) * sizeof(*w->events.at));
        w->events.at[at] = s->event;
    }
    find_allocations(w);
    w->nr_types = 2 * w->events.nr + (w->has_blocks ? 2 : 0);
    return true;
}

static void add(int64_t *value, uint64_t more)
{
    *value = (int64_t)((uint64_t)*value + more);
}

/* Add a sample of an allocation: `count` stands before its event's weights. */
static void add_block(const struct writer *w, int64_t *values, int64_t *count,
                      const struct profile_sample *s, const struct profile_block *block)
{
    int64_t *in_use = values + w->nr_types - 2;
    add(count, block->objects);
    add(count + 1, s->period);
    if (block->freed)
        return;
    add(in_use, block->objects);
    add(in_use + 1, s->period);
}

static bool gather_rows(struct writer *w)
{
    vec_foreach (s, &w->e->profile->samples) {
        int64_t *values = s->node ? row_values(w, s) : NULL;
        if (s->node && !values)
            return false;
        size_t at = 2 * event_place(w, s->event);
        if (!values)
            continue;
        if (w->has_blocks && s->event == w->blocks_of) {
            add_block(w, values, values + at, s,
                      &w->e->profile->blocks.at[s - w->e->profile->samples.at]);
        } else {
            values[at]++;
            add(&values[at + 1], s->period ? s->period : 1);
        }
    }
    return true;
}

/* ---- files --------------------------------------------------------------------------------- */

static void put_file(struct writer *w, uint64_t id, const struct export_file *f)
{
    char hex[2 * BUILD_ID_MAX + 1];
    Pprof__Mapping m = PPROF__MAPPING__INIT;
    export_build_id(w->e, f->dso, hex);
    m.id = id;
    m.memory_start = m.file_offset = f->begin;
    m.memory_limit = f->end;
    m.filename = number(w, f->module);
    m.build_id = number_of(w, hex);
    m.has_functions = true;
    m.has_filenames = m.has_line_numbers = f->lines;
    m.has_inline_frames = f->inlines;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = &(Pprof__Mapping *){&m};
    put(w, &part);
}

/* By pprof's convention the first mapping is the program: the file with the name of a process. */
static bool is_program(const struct writer *w, const struct export_file *f)
{
    const char *slash = strrchr(f->module, '/');
    vec_foreach (t, &w->e->profile->threads)
        if (f->dso && slash && t->pid == t->tid && *t->comm &&
            strncmp(slash + 1, t->comm, strlen(t->comm)) == 0)
            return true;
    return false;
}

static void choose_first_file(struct writer *w)
{
    for (size_t i = w->files.files.nr; i-- > 0;)
        if (is_program(w, &w->files.files.at[i]))
            w->first_file = i;
}

/* The id of a file's mapping. Stores want ids to be 1, 2, 3, ... in the order of the message. */
static uint64_t mapping_id(const struct writer *w, size_t file)
{
    return (file + w->files.files.nr - w->first_file) % w->files.files.nr + 1;
}

static void put_files(struct writer *w)
{
    size_t nr = w->files.files.nr;
    for (size_t i = w->first_file; i < w->first_file + nr; i++)
        put_file(w, mapping_id(w, i % nr), &w->files.files.at[i % nr]);
}

/* ---- locations, functions ------------------------------------------------------------------ */

static void put_location(struct writer *w, size_t index)
{
    const struct profile *p = w->e->profile;
    const struct profile_location *l = &p->locations.at[index];
    Pprof__Line *lines = calloc(l->nr_lines, sizeof(*lines));
    Pprof__Line **list = calloc(l->nr_lines, sizeof(*list));
    Pprof__Location m = PPROF__LOCATION__INIT;
    for (uint32_t i = 0; lines && list && i < l->nr_lines; i++) {
        const struct profile_line *from = &p->lines.at[l->first_line + i];
        pprof__line__init(&lines[i]);
        lines[i].function_id = from->function + 1;
        lines[i].line = from->line;
        list[i] = &lines[i];
    }
    m.id = index + 1;
    m.mapping_id = w->files.of.at[index] ? mapping_id(w, w->files.of.at[index] - 1) : 0;
    m.address = m.mapping_id ? l->address : 0;
    m.n_line = l->nr_lines;
    m.line = list;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_location = 1;
    part.location = &(Pprof__Location *){&m};
    if (lines && list)
        put(w, &part);
    w->failed |= !lines || !list;
    free(lines);
    free(list);
}

static void put_function(struct writer *w, size_t index)
{
    const struct profile_function *f = &w->e->profile->functions.at[index];
    Pprof__Function m = PPROF__FUNCTION__INIT;
    m.id = index + 1;
    m.name = m.system_name = number(w, f->name);
    m.filename = number(w, f->file);
    m.start_line = f->line;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_function = 1;
    part.function = &(Pprof__Function *){&m};
    put(w, &part);
}

/* ---- samples ------------------------------------------------------------------------------- */

struct labels {
    Pprof__Label at[LABELS_MAX], *list[LABELS_MAX];
    size_t nr;
};

static Pprof__Label *add_label(struct writer *w, struct labels *l, const char *key)
{
    Pprof__Label *label = &l->at[l->nr];
    pprof__label__init(label);
    label->key = number_of(w, key);
    l->list[l->nr++] = label;
    return label;
}

static void label_text(struct writer *w, struct labels *l, const char *key, const char *text)
{
    if (!text)
        return;
    Pprof__Label *label = add_label(w, l, key);
    label->str = number_of(w, text);
}

static void make_labels(struct writer *w, const struct row *r, struct labels *l)
{
    const struct profile *p = w->e->profile;
    const struct profile_thread *t = &p->threads.at[r->thread];
    const unsigned which = w->e->labels;
    uint8_t weakest = p->nodes.at[r->node].weakest;
    if (which & LABEL_THREAD)
        label_text(w, l, "thread", t->comm);
    if (which & LABEL_PID)
        add_label(w, l, "pid")->num = t->pid;
    if (which & LABEL_TID)
        add_label(w, l, "tid")->num = t->tid;
    if (which & LABEL_TIER)
        label_text(w, l, "tier", export_stack_tier(p, r->node));
    if (which & LABEL_VM_STATE)
        label_text(w, l, "vm_state", export_vm_state(p, r->node));
    if (which & LABEL_PROVENANCE && weakest != PROVENANCE_EXACT)
        label_text(w, l, "provenance", export_provenance(weakest));
    if (which & LABEL_STACK && !r->unwound)
        label_text(w, l, "stack", "not unwound");
    else if (which & LABEL_STACK && r->end != STACK_COMPLETE)
        label_text(w, l, "stack", script_end_word(r->end));
}

static void put_row(struct writer *w, size_t index, node_path *path)
{
    const struct row *r = &w->rows.at[index];
    const struct profile *p = w->e->profile;
    struct labels labels = {.nr = 0};
    VEC(uint64_t) ids = {0};
    make_labels(w, r, &labels);
    w->failed |= !export_path(p, r->node, path);
    for (size_t i = path->nr; i-- > 0 && !w->failed;)
        w->failed = !vec_push(&ids, p->nodes.at[path->at[i]].location + 1);
    Pprof__Sample m = PPROF__SAMPLE__INIT;
    m.n_location_id = ids.nr;
    m.location_id = ids.at;
    m.n_value = w->nr_types;
    m.value = w->values.at + index * w->nr_types;
    m.n_label = labels.nr;
    m.label = labels.list;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_sample = 1;
    part.sample = &(Pprof__Sample *){&m};
    put(w, &part);
    vec_free(&ids);
}

/* ---- the whole profile --------------------------------------------------------------------- */

static void put_type(struct writer *w, int64_t type, const char *unit)
{
    Pprof__ValueType m = PPROF__VALUE_TYPE__INIT;
    m.type = type;
    m.unit = number_of(w, unit);
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_sample_type = 1;
    part.sample_type = &(Pprof__ValueType *){&m};
    put(w, &part);
}

/* The type of an event's weights, or of the number of its samples. Names of both follow what stores
 * accept: NAME:TYPE:UNIT would be ambiguous with a colon in a name. The number of samples of the
 * only event is "samples", of others "TYPE_samples". */
static int64_t number_of_type(struct writer *w, unsigned event, bool samples)
{
    struct text t = {0};
    if (!samples || w->events.nr > 1)
        export_put_type(w->e, event, &t);
    if (samples)
        text_string(&t, w->events.nr > 1 ? "_samples" : "samples");
    text_char(&t, 0);
    w->failed |= t.failed;
    int64_t number = number_of(w, t.failed ? "" : t.at);
    text_free(&t);
    return number;
}

/* Write two types for each event: its samples and its weights. Of allocations, pprof's usual ones.
 */
static void put_types(struct writer *w)
{
    vec_foreach (event, &w->events) {
        const bool blocks = w->has_blocks && *event == w->blocks_of;
        put_type(w, blocks ? number_of(w, "alloc_objects") : number_of_type(w, *event, true),
                 "count");
        put_type(w, number_of_type(w, *event, false), export_unit(w->e, *event));
    }
    if (!w->has_blocks)
        return;
    put_type(w, number_of(w, "inuse_objects"), "count");
    put_type(w, number_of(w, "inuse_space"), "bytes");
}

/* The period of the event's first sample; 0: it has no sample. */
static int64_t first_period(const struct profile *p, unsigned event)
{
    vec_foreach (s, &p->samples)
        if (s->event == event)
            return (int64_t)s->period;
    return 0;
}

static void put_facts(struct writer *w)
{
    const struct profile *p = w->e->profile;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    Pprof__ValueType period = PPROF__VALUE_TYPE__INIT;
    const char *command = perfdata_cmdline(replay_perfdata(w->e->replay));
    int64_t comment = command ? number_of(w, command) : 0;
    if (p->samples.nr) {
        uint64_t first = p->samples.at[0].time;
        uint64_t wall = export_wall_clock(w->e, first);
        part.time_nanos = (int64_t)wall;
        part.duration_nanos = (int64_t)(p->samples.at[p->samples.nr - 1].time - first);
    }
    period.type = number_of_type(w, w->e->event, false);
    part.default_sample_type = w->e->samples ? number_of_type(w, w->e->event, true) : period.type;
    period.unit = number_of(w, export_unit(w->e, w->e->event));
    part.period_type = &period;
    part.period = first_period(p, w->e->event);
    part.n_comment = command != NULL;
    part.comment = &comment;
    put(w, &part);
}

static void put_strings(struct writer *w)
{
    for (size_t i = 0; i < w->strings.strings.nr; i++) {
        Pprof__Profile part = PPROF__PROFILE__INIT;
        char *s = (char *)w->strings.strings.at[i];
        part.n_string_table = 1;
        part.string_table = &s;
        put(w, &part);
    }
}

static void put_all(struct writer *w)
{
    const struct profile *p = w->e->profile;
    node_path path = {0};
    number_of(w, ""); /* must be the first string */
    choose_first_file(w);
    put_types(w);
    for (size_t i = 0; i < w->rows.nr && !w->failed; i++)
        put_row(w, i, &path);
    put_files(w);
    for (size_t i = 0; i < p->locations.nr; i++)
        put_location(w, i);
    for (size_t i = 0; i < p->functions.nr; i++)
        put_function(w, i);
    put_facts(w);
    put_strings(w);
    vec_free(&path);
}

int export_pprof(const struct export *e, FILE *out, struct error *err)
{
    struct writer w = {.e = e, .out = out};
    w.failed = !find_events(&w) || !gather_rows(&w) || !export_files_find(e->profile, &w.files);
    if (!w.failed)
        put_all(&w);
    bool failed = w.failed || w.strings.failed;
    string_numbers_free(&w.strings);
    vec_free(&w.rows);
    vec_free(&w.values);
    export_files_free(&w.files);
    vec_free(&w.events);
    vec_free(&w.packed);
    hash_table_free(&w.row_numbers);
    return failed ? error_no_memory(err) : 0;
}
