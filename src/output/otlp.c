/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OpenTelemetry's profiles (ProfilesData): what its collector, Pyroscope, Parca and Elastic take.
 *
 * Receivers differ in what they understand. One form suits all of them, and time on the cpu is
 * written in it: each sample is counted by its time, without a value, and the profile's period says
 * how much processor time it stands for. Weights that differ from sample to sample have no such
 * form: they are values, summed up by stack.
 *
 * A service is a command: the samples of its processes are one resource.
 */
#include "output/export.h"
#include "output/json.h"
#include "output/output.h"
#include "output/protobuf_json.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/text.h"
#include "otlp.pb-c.h"
#include "release.h"

#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES_MAX = 8 };

/* Samples of a profile that do not differ in anything that is written but their times. */
struct row {
    uint32_t profile, node, thread; /* thread 0: not distinguished; else + 1 */
    uint8_t end, unwound;           /* 0: not distinguished */
    size_t nr;                      /* samples */
    int64_t sum;                    /* of their weights */
    uint64_t *times;                /* ns since 1970, `nr` of them; NULL: not written */
    size_t filled;
};

/* The samples of one event in one service. */
struct group {
    const char *service; /* interned */
    unsigned event;
    uint64_t first, last; /* times */
    int64_t period;       /* of all samples; 0: they differ */
    size_t nr_rows;
};

/* An attribute of the dictionary. */
struct attribute {
    const char *key;   /* a constant */
    const char *value; /* interned; NULL: a number */
    int64_t number;
};

struct writer {
    const struct export *e;
    struct arena arena;
    struct string_numbers strings;
    VEC(struct row) rows;
    struct hash_table row_numbers;
    VEC(struct group) groups;
    VEC(const char *) services; /* by thread */
    VEC(struct attribute) attributes;
    struct export_files files;
    VEC(uint32_t) stack_of;    /* by node: index of its stack; 0: none */
    VEC(uint32_t) stack_nodes; /* by stack */
    bool failed;
};

static void *get(struct writer *w, size_t nr, size_t size)
{
    void *p = arena_get(&w->arena, nr ? nr * size : 1);
    if (p)
        memset(p, 0, nr ? nr * size : 1);
    w->failed |= !p;
    return p;
}

/* An array of `nr` messages and an array of pointers to them, or NULL if memory is out. */
#define MESSAGES(w, type, nr, init)                            \
    ({                                                         \
        size_t nr_ = (nr);                                     \
        type *all_ = get(w, nr_, sizeof(type));                \
        type **list_ = get(w, nr_, sizeof(type *));            \
        for (size_t i_ = 0; all_ && list_ && i_ < nr_; i_++) { \
            init(&all_[i_]);                                   \
            list_[i_] = &all_[i_];                             \
        }                                                      \
        all_ ? list_ : NULL;                                   \
    })

static int32_t number(struct writer *w, const char *interned)
{
    return interned ? (int32_t)string_number(&w->strings, interned) : 0;
}

static int32_t number_of(struct writer *w, const char *text)
{
    return (int32_t)string_number_of(&w->strings, w->e, text);
}

/* ---- services ------------------------------------------------------------------------------ */

/* The name of the process that a thread is of: its main thread's. */
static const char *service_of(const struct profile *p, const struct profile_thread *t)
{
    vec_foreach (main, &p->threads)
        if (main->pid == t->pid && main->tid == t->pid && *main->comm)
            return main->comm;
    return t->comm;
}

static bool find_services(struct writer *w)
{
    const struct profile *p = w->e->profile;
    vec_foreach (t, &p->threads)
        if (!vec_push(&w->services, w->e->service ? w->e->service : service_of(p, t)))
            return false;
    return true;
}

/* ---- groups and rows ----------------------------------------------------------------------- */

static uint32_t group_of(struct writer *w, const struct profile_sample *s)
{
    const char *service = w->services.at[s->thread];
    for (size_t i = 0; i < w->groups.nr; i++)
        if (w->groups.at[i].event == s->event && strcmp(w->groups.at[i].service, service) == 0)
            return (uint32_t)i;
    struct group g = {
        .service = service, .event = s->event, .first = s->time, .period = (int64_t)s->period};
    if (!vec_push(&w->groups, g)) {
        w->failed = true;
        return 0;
    }
    return (uint32_t)w->groups.nr - 1;
}

static bool same_row(const struct row *a, const struct row *b)
{
    return a->profile == b->profile && a->node == b->node && a->thread == b->thread &&
           a->end == b->end && a->unwound == b->unwound;
}

static struct row *row_of(struct writer *w, const struct profile_sample *s)
{
    const unsigned labels = w->e->labels;
    struct row r = {.profile = group_of(w, s), .node = s->node};
    if (labels & (LABEL_THREAD | LABEL_PID | LABEL_TID))
        r.thread = s->thread + 1;
    if (labels & LABEL_STACK) {
        r.unwound = s->unwound ? 2 : 1;
        r.end = s->unwound ? s->end : 0;
    }
    uint64_t h = hash_combine((uint64_t)r.node << 32 | r.thread,
                              (uint64_t)r.profile << 16 | (unsigned)r.end << 8 | r.unwound);
    uint32_t n =
        hash_table_intern(&w->row_numbers, h, &w->rows, i, same_row(&w->rows.at[i], &r), r);
    w->failed |= n == HASH_TABLE_NONE;
    return n == HASH_TABLE_NONE ? NULL : &w->rows.at[n];
}

static void gather_rows(struct writer *w)
{
    vec_foreach (s, &w->e->profile->samples) {
        struct row *r = s->node ? row_of(w, s) : NULL;
        if (w->failed)
            return;
        if (!r)
            continue;
        struct group *g = &w->groups.at[r->profile];
        r->nr++;
        r->sum += (int64_t)export_weight(w->e, s);
        g->last = s->time;
        if (g->period != (int64_t)s->period)
            g->period = 0;
    }
}

/* Whether the group's samples are written by their times: they are of the processor's clock. */
static bool is_by_time(const struct writer *w, const struct group *g)
{
    return export_is_cpu_time(w->e, g->event) && g->period &&
           export_wall_clock(w->e, g->first) != 0;
}

static void gather_times(struct writer *w)
{
    vec_foreach (r, &w->rows) {
        w->groups.at[r->profile].nr_rows++;
        if (is_by_time(w, &w->groups.at[r->profile]))
            r->times = get(w, r->nr, sizeof(*r->times));
    }
    vec_foreach (s, &w->e->profile->samples) {
        struct row *r = s->node ? row_of(w, s) : NULL;
        if (w->failed)
            return;
        if (r && r->times && r->filled < r->nr)
            r->times[r->filled++] = export_wall_clock(w->e, s->time);
    }
}

/* ---- attributes ---------------------------------------------------------------------------- */

/* Returns the attribute's index. `value` is interned, or a constant; NULL: `num` is the value. */
static int32_t attribute(struct writer *w, const char *key, const char *value, int64_t num)
{
    for (size_t i = w->attributes.nr; i-- > 0;) {
        const struct attribute *a = &w->attributes.at[i];
        if (strcmp(a->key, key) == 0 && !a->value == !value &&
            (value ? strcmp(a->value, value) == 0 : a->number == num))
            return (int32_t)i + 1;
    }
    w->failed |= !vec_push(&w->attributes, ((struct attribute){key, value, num}));
    return (int32_t)w->attributes.nr;
}

/* The semantic conventions' words for kinds of frames; others are ours. */
static const char *frame_type(const struct profile_location *l)
{
    switch (l->kind) {
    case FRAME_KERNEL:
    case FRAME_GUEST_KERNEL:
        return "kernel";
    case FRAME_LUA:
        return l->plain_lua ? "lua" : "luajit";
    case FRAME_JS:
        return "v8js";
    case FRAME_WASM:
        return "wasm";
    case FRAME_JIT:
    case FRAME_MANAGED:
        return export_kind(l->kind);
    default:
        return "native";
    }
}

static void fill_any(Otlp__AnyValue *to, const char *value, int64_t num)
{
    to->value_case = value ? OTLP__ANY_VALUE__VALUE_STRING_VALUE : OTLP__ANY_VALUE__VALUE_INT_VALUE;
    if (value)
        to->string_value = (char *)value;
    else
        to->int_value = num;
}

/* ---- the dictionary ------------------------------------------------------------------------ */

static void fill_mappings(struct writer *w, Otlp__ProfilesDictionary *d)
{
    d->n_mapping_table = w->files.files.nr + 1;
    d->mapping_table = MESSAGES(w, Otlp__Mapping, d->n_mapping_table, otlp__mapping__init);
    for (size_t i = 0; i < w->files.files.nr && !w->failed; i++) {
        const struct export_file *f = &w->files.files.at[i];
        Otlp__Mapping *m = d->mapping_table[i + 1];
        char hex[2 * BUILD_ID_MAX + 1];
        export_build_id(w->e, f->dso, hex);
        m->memory_start = m->file_offset = f->begin;
        m->memory_limit = f->end;
        m->filename_strindex = number(w, f->module);
        const char *id = *hex ? intern_string(w->e->profile->strings, hex) : NULL;
        if (!id)
            continue;
        m->attribute_indices = get(w, 1, sizeof(int32_t));
        if (!m->attribute_indices)
            return;
        m->n_attribute_indices = 1;
        *m->attribute_indices = attribute(w, "process.executable.build_id.gnu", id, 0);
    }
}

static void fill_location(struct writer *w, size_t index, Otlp__Location *m)
{
    const struct profile *p = w->e->profile;
    const struct profile_location *l = &p->locations.at[index];
    m->mapping_index = (int32_t)w->files.of.at[index];
    m->address = m->mapping_index ? l->address : 0;
    m->n_lines = l->nr_lines;
    m->lines = MESSAGES(w, Otlp__Line, l->nr_lines, otlp__line__init);
    m->attribute_indices = get(w, ATTRIBUTES_MAX, sizeof(int32_t));
    if (w->failed)
        return;
    for (uint32_t i = 0; i < l->nr_lines; i++) {
        const struct profile_line *from = &p->lines.at[l->first_line + i];
        m->lines[i]->function_index = (int32_t)from->function + 1;
        m->lines[i]->line = from->line;
        m->lines[i]->column = from->line ? from->column : 0;
    }
    int32_t *to = m->attribute_indices;
    to[m->n_attribute_indices++] = attribute(w, "profile.frame.type", frame_type(l), 0);
    if (l->provenance != PROVENANCE_EXACT)
        to[m->n_attribute_indices++] =
            attribute(w, "ljperf.provenance", export_provenance(l->provenance), 0);
    if (l->name_guessed)
        to[m->n_attribute_indices++] = attribute(w, "ljperf.name", "guess", 0);
}

static void fill_locations(struct writer *w, Otlp__ProfilesDictionary *d)
{
    const struct profile *p = w->e->profile;
    d->n_location_table = p->locations.nr + 1;
    d->location_table = MESSAGES(w, Otlp__Location, d->n_location_table, otlp__location__init);
    for (size_t i = 0; i < p->locations.nr && !w->failed; i++)
        fill_location(w, i, d->location_table[i + 1]);
    d->n_function_table = p->functions.nr + 1;
    d->function_table = MESSAGES(w, Otlp__Function, d->n_function_table, otlp__function__init);
    for (size_t i = 0; i < p->functions.nr && !w->failed; i++) {
        const struct profile_function *f = &p->functions.at[i];
        Otlp__Function *m = d->function_table[i + 1];
        m->name_strindex = number(w, f->name);
        m->filename_strindex = number(w, f->file);
        m->start_line = f->line;
    }
}

/* Returns the index of the stack that ends at a node. */
static int32_t stack_index(struct writer *w, uint32_t node)
{
    if (!w->stack_of.at[node]) {
        w->failed |= !vec_push(&w->stack_nodes, node);
        w->stack_of.at[node] = (uint32_t)w->stack_nodes.nr;
    }
    return (int32_t)w->stack_of.at[node];
}

static void fill_stacks(struct writer *w, Otlp__ProfilesDictionary *d)
{
    const struct profile *p = w->e->profile;
    d->n_stack_table = w->stack_nodes.nr + 1;
    d->stack_table = MESSAGES(w, Otlp__Stack, d->n_stack_table, otlp__stack__init);
    for (size_t i = 0; i < w->stack_nodes.nr && !w->failed; i++) {
        Otlp__Stack *m = d->stack_table[i + 1];
        for (uint32_t n = w->stack_nodes.at[i]; n; n = p->nodes.at[n].parent)
            m->n_location_indices++;
        m->location_indices = get(w, m->n_location_indices, sizeof(int32_t));
        size_t at = 0;
        for (uint32_t n = w->stack_nodes.at[i]; n && !w->failed; n = p->nodes.at[n].parent)
            m->location_indices[at++] = (int32_t)p->nodes.at[n].location + 1;
    }
}

static void fill_attributes(struct writer *w, Otlp__ProfilesDictionary *d)
{
    d->n_attribute_table = w->attributes.nr + 1;
    d->attribute_table =
        MESSAGES(w, Otlp__KeyValueAndUnit, d->n_attribute_table, otlp__key_value_and_unit__init);
    Otlp__AnyValue **values = MESSAGES(w, Otlp__AnyValue, w->attributes.nr, otlp__any_value__init);
    for (size_t i = 0; i < w->attributes.nr && !w->failed; i++) {
        const struct attribute *a = &w->attributes.at[i];
        d->attribute_table[i + 1]->key_strindex = number_of(w, a->key);
        d->attribute_table[i + 1]->value = values[i];
        fill_any(values[i], a->value, a->number);
    }
}

/* No links are written. Some decoders insist on the lengths of the first one's ids. */
static void fill_links(struct writer *w, Otlp__ProfilesDictionary *d)
{
    enum { TRACE_ID = 16, SPAN_ID = 8 };
    d->n_link_table = 1;
    d->link_table = MESSAGES(w, Otlp__Link, 1, otlp__link__init);
    if (w->failed)
        return;
    d->link_table[0]->trace_id = (ProtobufCBinaryData){TRACE_ID, get(w, TRACE_ID, 1)};
    d->link_table[0]->span_id = (ProtobufCBinaryData){SPAN_ID, get(w, SPAN_ID, 1)};
}

/* ---- profiles ------------------------------------------------------------------------------ */

static void fill_labels(struct writer *w, const struct row *r, Otlp__Sample *m)
{
    const struct profile *p = w->e->profile;
    const unsigned labels = w->e->labels;
    const struct profile_thread *t = r->thread ? &p->threads.at[r->thread - 1] : NULL;
    const char *tier = labels & LABEL_TIER ? export_stack_tier(p, r->node) : NULL;
    const char *state = labels & LABEL_VM_STATE ? export_vm_state(p, r->node) : NULL;
    const uint8_t weakest = p->nodes.at[r->node].weakest;
    int32_t *to = m->attribute_indices = get(w, labels ? ATTRIBUTES_MAX : 0, sizeof(int32_t));
    size_t nr = 0;
    if (!to || !labels)
        return;
    if (t && labels & LABEL_THREAD)
        to[nr++] = attribute(w, "thread.name", t->comm, 0);
    if (t && labels & LABEL_PID)
        to[nr++] = attribute(w, "process.pid", NULL, t->pid);
    if (t && labels & LABEL_TID)
        to[nr++] = attribute(w, "thread.id", NULL, t->tid);
    if (tier)
        to[nr++] = attribute(w, "ljperf.tier", tier, 0);
    if (state)
        to[nr++] = attribute(w, "ljperf.vm_state", state, 0);
    if (labels & LABEL_PROVENANCE && weakest != PROVENANCE_EXACT)
        to[nr++] = attribute(w, "ljperf.provenance", export_provenance(weakest), 0);
    if (r->unwound == 1 || (r->unwound && r->end != STACK_COMPLETE))
        to[nr++] = attribute(w, "ljperf.stack",
                             r->unwound == 2 ? script_end_word(r->end) : "not unwound", 0);
    m->n_attribute_indices = nr;
}

static void fill_sample(struct writer *w, const struct row *r, Otlp__Sample *m)
{
    m->stack_index = stack_index(w, r->node);
    fill_labels(w, r, m);
    if (r->times) {
        m->n_timestamps_unix_nano = r->nr;
        m->timestamps_unix_nano = r->times;
        return;
    }
    m->n_values = 1;
    m->values = get(w, 1, sizeof(int64_t));
    if (m->values)
        *m->values = r->sum;
}

static Otlp__ValueType *value_type(struct writer *w, int32_t type, const char *unit)
{
    Otlp__ValueType *m = get(w, 1, sizeof(*m));
    if (!m)
        return NULL;
    otlp__value_type__init(m);
    m->type_strindex = type;
    m->unit_strindex = number_of(w, unit);
    return m;
}

static int32_t number_of_type(struct writer *w, unsigned event)
{
    struct text t = {0};
    export_put_type(w->e, event, &t);
    text_char(&t, 0);
    w->failed |= t.failed;
    int32_t n = number_of(w, t.failed ? "" : t.at);
    text_free(&t);
    return n;
}

static void fill_profile(struct writer *w, size_t index, Otlp__Profile *m)
{
    const struct group *g = &w->groups.at[index];
    const bool by_time = is_by_time(w, g);
    m->time_unix_nano = export_wall_clock(w->e, g->first);
    m->duration_nano = g->last - g->first + 1; /* times lie before the end */
    m->sample_type = by_time || w->e->samples
                         ? value_type(w, number_of(w, "samples"), "count")
                         : value_type(w, number_of_type(w, g->event), export_unit(w->e, g->event));
    if (by_time) {
        m->period_type = value_type(w, number_of_type(w, g->event), "nanoseconds");
        m->period = g->period;
    }
    m->samples = MESSAGES(w, Otlp__Sample, g->nr_rows, otlp__sample__init);
    for (size_t i = 0; i < w->rows.nr && !w->failed; i++)
        if (w->rows.at[i].profile == index)
            fill_sample(w, &w->rows.at[i], m->samples[m->n_samples++]);
}

static void add_fact(struct writer *w, Otlp__Resource *to, const char *key, const char *value)
{
    Otlp__AnyValue **any = value ? MESSAGES(w, Otlp__AnyValue, 1, otlp__any_value__init) : NULL;
    Otlp__KeyValue **pair = any ? MESSAGES(w, Otlp__KeyValue, 1, otlp__key_value__init) : NULL;
    if (!pair)
        return;
    pair[0]->key = (char *)key;
    pair[0]->value = any[0];
    fill_any(any[0], value, 0);
    to->attributes[to->n_attributes++] = pair[0];
}

static void fill_resource(struct writer *w, const char *service, Otlp__ResourceProfiles *m)
{
    enum { FACTS = 2 };
    const char *host = perfdata_hostname(replay_perfdata(w->e->replay));
    Otlp__Resource **resource = MESSAGES(w, Otlp__Resource, 1, otlp__resource__init);
    Otlp__ScopeProfiles **scope = MESSAGES(w, Otlp__ScopeProfiles, 1, otlp__scope_profiles__init);
    Otlp__InstrumentationScope **name =
        MESSAGES(w, Otlp__InstrumentationScope, 1, otlp__instrumentation_scope__init);
    if (w->failed)
        return;
    resource[0]->attributes = get(w, FACTS, sizeof(*resource[0]->attributes));
    if (w->failed)
        return;
    add_fact(w, resource[0], "service.name", service);
    add_fact(w, resource[0], "host.name",
             host ? intern_string(w->e->profile->strings, host) : NULL);
    name[0]->name = "ljperf";
    name[0]->version = LJPERF_RELEASE;
    scope[0]->scope = name[0];
    m->resource = resource[0];
    m->n_scope_profiles = 1;
    m->scope_profiles = scope;
    scope[0]->profiles = MESSAGES(w, Otlp__Profile, w->groups.nr, otlp__profile__init);
    for (size_t i = 0; i < w->groups.nr && !w->failed; i++)
        if (strcmp(w->groups.at[i].service, service) == 0)
            fill_profile(w, i, scope[0]->profiles[scope[0]->n_profiles++]);
}

/* Whether an earlier group is of the same service. */
static bool is_known_service(const struct writer *w, size_t group)
{
    for (size_t i = 0; i < group; i++)
        if (strcmp(w->groups.at[i].service, w->groups.at[group].service) == 0)
            return true;
    return false;
}

static void fill(struct writer *w, Otlp__ProfilesData *all)
{
    Otlp__ProfilesDictionary **d =
        MESSAGES(w, Otlp__ProfilesDictionary, 1, otlp__profiles_dictionary__init);
    number_of(w, ""); /* must be the first string */
    all->resource_profiles =
        MESSAGES(w, Otlp__ResourceProfiles, w->groups.nr, otlp__resource_profiles__init);
    for (size_t i = 0; i < w->groups.nr && !w->failed; i++)
        if (!is_known_service(w, i))
            fill_resource(w, w->groups.at[i].service,
                          all->resource_profiles[all->n_resource_profiles++]);
    if (w->failed)
        return;
    all->dictionary = d[0];
    fill_mappings(w, d[0]);
    fill_locations(w, d[0]);
    fill_stacks(w, d[0]);
    fill_links(w, d[0]);
    fill_attributes(w, d[0]);
    d[0]->n_string_table = w->strings.strings.nr; /* the last table: the others add strings */
    d[0]->string_table = (char **)w->strings.strings.at;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool gather(struct writer *w)
{
    w->failed = !find_services(w) || !vec_reserve(&w->stack_of, w->e->profile->nodes.nr);
    if (w->failed)
        return false;
    while (w->stack_of.nr < w->e->profile->nodes.nr)
        w->stack_of.at[w->stack_of.nr++] = 0;
    gather_rows(w);
    if (!w->failed)
        gather_times(w);
    return !w->failed && export_files_find(w->e->profile, &w->files);
}

static void write_packed(struct writer *w, const Otlp__ProfilesData *all, FILE *out)
{
    size_t size = otlp__profiles_data__get_packed_size(all);
    uint8_t *bytes = malloc(size ? size : 1);
    w->failed |= !bytes;
    if (!bytes)
        return;
    otlp__profiles_data__pack(all, bytes);
    fwrite(bytes, 1, size, out);
    free(bytes);
}

static void write_json(struct writer *w, const Otlp__ProfilesData *all, FILE *out)
{
    struct json *j = json_create(out);
    if (j) {
        protobuf_put_json(j, &all->base);
        json_next_line(j);
    }
    w->failed |= !j || !json_finish(j);
}

static int export_as(const struct export *e, FILE *out,
                     void (*write)(struct writer *, const Otlp__ProfilesData *, FILE *),
                     struct error *err)
{
    struct writer w = {.e = e};
    Otlp__ProfilesData all = OTLP__PROFILES_DATA__INIT;
    w.failed = !gather(&w);
    if (!w.failed)
        fill(&w, &all);
    w.failed |= w.strings.failed;
    if (!w.failed)
        write(&w, &all, out);
    bool failed = w.failed;
    string_numbers_free(&w.strings);
    vec_free(&w.rows);
    vec_free(&w.groups);
    vec_free(&w.services);
    vec_free(&w.attributes);
    export_files_free(&w.files);
    vec_free(&w.stack_of);
    vec_free(&w.stack_nodes);
    hash_table_free(&w.row_numbers);
    arena_free(&w.arena);
    return failed ? error_no_memory(err) : 0;
}

int export_otlp(const struct export *e, FILE *out, struct error *err)
{
    return export_as(e, out, write_packed, err);
}

int export_otlp_json(const struct export *e, FILE *out, struct error *err)
{
    return export_as(e, out, write_json, err);
}
