/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions that the writers of exports share. */
#include "output/export.h"

#include "base/hash.h"
#include "base/text.h"
#include "output/json.h"
#include "perfdata/resident.h"

#include <stdlib.h>
#include <string.h>

const char *export_event(const struct export *e, unsigned event)
{
    const struct perfdata *pd = replay_perfdata(e->replay);
    return event < perfdata_nr_events(pd) ? perfdata_event(pd, event)->name : "samples";
}

const char *export_unit(const struct export *e, unsigned event)
{
    static const char *const words[] = {
        [UNIT_COUNT] = "count", [UNIT_NS] = "nanoseconds", [UNIT_BYTES] = "bytes"};
    return words[replay_unit(e->replay, event)];
}

/* Whether a name is EVENT, or EVENT:MODIFIERS. */
static bool is_event(const char *name, const char *event)
{
    size_t size = strlen(event);
    return strncmp(name, event, size) == 0 && (!name[size] || name[size] == ':');
}

/* The name that stores have for the weights of an event; NULL: none. */
static const char *usual_type(const struct export *e, unsigned event)
{
    static const struct {
        const char *event, *type;
    } usual[] = {{"cpu-clock", "cpu"},       {"task-clock", "cpu"},
                 {"offcpu-time", "off_cpu"}, {"wall-clock", "wall"},
                 {"malloc", "alloc_space"},  {RESIDENT_NAME, RESIDENT_WEIGHT}};
    const char *name = replay_weight_name(e->replay, event);
    for (size_t i = 0; name && i < sizeof(usual) / sizeof(*usual); i++)
        if (is_event(name, usual[i].event))
            return usual[i].type;
    return NULL;
}

void export_put_type(const struct export *e, unsigned event, struct text *out)
{
    const char *type = usual_type(e, event);
    for (unsigned other = 0; type && other < event; other++)
        if (usual_type(e, other) == type) /* two types of one name would be one */
            type = NULL;
    if (type) {
        text_string(out, type);
        return;
    }
    const char *name = replay_weight_name(e->replay, event);
    for (const char *c = name ? name : "event"; *c; c++) {
        bool plain =
            (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        text_char(out, plain ? *c : '_');
    }
}

bool export_is_cpu_time(const struct export *e, unsigned event)
{
    const char *type = usual_type(e, event);
    return type && strcmp(type, "cpu") == 0;
}

bool export_is_time(const struct export *e, unsigned event)
{
    return replay_unit(e->replay, event) == UNIT_NS;
}

uint64_t export_weight(const struct export *e, const struct profile_sample *s)
{
    return e->samples || !s->period ? 1 : s->period;
}

bool export_wants(const struct export *e, const struct profile_sample *s)
{
    return s->event == e->event && s->node;
}

void export_build_id(const struct export *e, uint32_t dso, char hex[2 * BUILD_ID_MAX + 1])
{
    *hex = 0;
    if (dso)
        build_id_hex(&dsos_at(replay_dsos(e->replay), dso - 1)->build_id, hex);
}

uint64_t export_wall_clock(const struct export *e, uint64_t time)
{
    uint64_t wall, clock;
    if (!perfdata_clock_data(replay_perfdata(e->replay), &wall, &clock))
        return 0;
    return wall + (time - clock); /* correct for times before `clock`, too: numbers wrap */
}

const char *export_kind(uint8_t kind)
{
    static const char *const words[] = {
        [FRAME_NATIVE] = "native",
        [FRAME_KERNEL] = "kernel",
        [FRAME_GUEST_KERNEL] = "guest-kernel",
        [FRAME_GUEST_USER] = "guest-user",
        [FRAME_HYPERVISOR] = "hypervisor",
        [FRAME_JIT] = "jit",
        [FRAME_LUA] = "lua",
        [FRAME_JS] = "js",
        [FRAME_WASM] = "wasm",
        [FRAME_MANAGED] = "managed",
        [FRAME_STUB] = "stub",
    };
    return kind < sizeof(words) / sizeof(*words) ? words[kind] : "native";
}

const char *export_tier(uint8_t tier)
{
    static const char *const words[] = {
        [TIER_NONE] = NULL,     [TIER_INTERP] = "interp", [TIER_BASELINE] = "baseline",
        [TIER_TRACE] = "trace", [TIER_MAGLEV] = "maglev", [TIER_TURBOFAN] = "turbofan",
        [TIER_ASYNC] = "async",
    };
    return tier < sizeof(words) / sizeof(*words) ? words[tier] : NULL;
}

void export_position(struct json *j, uint8_t kind, const char *file, uint32_t line, uint32_t column)
{
    if (kind != FRAME_WASM) {
        json_position(j, file, line, column);
        return;
    }
    json_position(j, file, 0, 0);
    if (line)
        json_key_uint(j, "byte", line);
}

const char *export_provenance(uint8_t provenance)
{
    return provenance == PROVENANCE_EXACT   ? "exact"
           : provenance == PROVENANCE_STALE ? "image"
                                            : "guess";
}

const char *export_stack_tier(const struct profile *p, uint32_t node)
{
    for (; node; node = p->nodes.at[node].parent) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[node].location];
        if (profile_is_managed(l->kind))
            return export_tier(l->tier);
    }
    return NULL;
}

/* Returns the state of the LuaJIT part that a function belongs to; NULL: no part that is
 * distinguished. */
static const char *luajit_part(const char *symbol)
{
    static const struct {
        const char *begins, *state;
    } parts[] = {
        {"lj_gc_", "gc"},          {"lj_trace_exit", "exit"}, {"lj_record_", "record"},
        {"lj_ffrecord", "record"}, {"lj_opt_", "opt"},        {"lj_asm_", "asm"},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (strncmp(symbol, parts[i].begins, strlen(parts[i].begins)) == 0)
            return parts[i].state;
    return NULL;
}

const char *export_vm_state(const struct profile *p, uint32_t node)
{
    const char *part = NULL;
    bool inside = false, known = true;
    for (; node; node = p->nodes.at[node].parent) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[node].location];
        if (l->kind == FRAME_LUA && inside)
            return part ? part : known ? "c" : NULL;
        if (l->kind == FRAME_LUA)
            return l->tier == TIER_TRACE ? "jit" : l->tier == TIER_INTERP ? "interp" : NULL;
        for (uint32_t i = 0; i < l->nr_lines; i++) {
            const char *symbol = p->functions.at[p->lines.at[l->first_line + i].function].symbol;
            known &= symbol != NULL;
            if (symbol && !part)
                part = luajit_part(symbol);
        }
        inside = true;
    }
    return NULL;
}

bool export_path(const struct profile *p, uint32_t node, node_path *ret)
{
    ret->nr = 0;
    for (; node; node = p->nodes.at[node].parent)
        if (!vec_push(ret, node)) {
            ret->nr = 0;
            return false;
        }
    for (size_t i = 0; i < ret->nr / 2; i++) {
        uint32_t other = ret->at[i];
        ret->at[i] = ret->at[ret->nr - 1 - i];
        ret->at[ret->nr - 1 - i] = other;
    }
    return true;
}

bool thread_samples_make(const struct export *e, struct thread_samples *ret)
{
    const struct profile *p = e->profile;
    size_t nr = p->threads.nr;
    ret->starts = calloc(nr + 1, sizeof(*ret->starts));
    ret->order = calloc(p->samples.nr + 1, sizeof(*ret->order));
    if (!ret->starts || !ret->order)
        return false;
    vec_foreach (s, &p->samples)
        ret->starts[s->thread] += export_wants(e, s);
    for (size_t i = 1; i <= nr; i++)
        ret->starts[i] += ret->starts[i - 1]; /* the end of each; filled downwards from there */
    for (size_t i = p->samples.nr; i-- > 0;)
        if (export_wants(e, &p->samples.at[i]))
            ret->order[--ret->starts[p->samples.at[i].thread]] = (uint32_t)i;
    return true;
}

void thread_samples_free(struct thread_samples *t)
{
    free(t->starts);
    free(t->order);
}

/* ---- numbers for strings ------------------------------------------------------------------- */

uint32_t string_number(struct string_numbers *n, const char *interned)
{
    uint32_t number = HASH_TABLE_NONE;
    if (!n->failed)
        number = hash_table_intern(&n->table, hash_u64((uintptr_t)interned), &n->strings, i,
                                   n->strings.at[i] == interned, interned);
    n->failed |= number == HASH_TABLE_NONE;
    return n->failed ? 0 : number;
}

uint32_t string_number_of(struct string_numbers *n, const struct export *e, const char *text)
{
    struct text t = {0};
    text_clean(&t, text);
    const char *kept =
        t.failed ? NULL : intern_bytes(e->profile->strings, t.at ? t.at : "", t.size);
    text_free(&t);
    n->failed |= !kept;
    return kept ? string_number(n, kept) : 0;
}

void string_numbers_free(struct string_numbers *n)
{
    vec_free(&n->strings);
    hash_table_free(&n->table);
}

/* ---- files --------------------------------------------------------------------------------- */

enum { PAGE = 4096 };

static uint32_t file_index(struct export_files *to, const struct profile_location *l,
                           const char *module)
{
    for (size_t i = to->files.nr; i-- > 0;)
        if (to->files.at[i].module == module && to->files.at[i].dso == l->dso)
            return (uint32_t)i;
    struct export_file f = {.module = module,
                            .dso = l->dso,
                            .begin = UINT64_MAX,
                            .kernel = l->kind == FRAME_KERNEL || l->kind == FRAME_GUEST_KERNEL};
    return vec_push(&to->files, f) ? (uint32_t)to->files.nr - 1 : UINT32_MAX;
}

static bool take_location(const struct profile *p, const struct profile_location *l,
                          struct export_files *to)
{
    const struct profile_line *line = &p->lines.at[l->first_line + l->nr_lines - 1];
    const char *module = p->functions.at[line->function].module;
    if (!module || profile_is_managed(l->kind)) /* these are in no file that has addresses */
        return vec_push(&to->of, 0);
    uint32_t at = file_index(to, l, module);
    if (at == UINT32_MAX || !vec_push(&to->of, at + 1))
        return false;
    struct export_file *f = &to->files.at[at];
    f->begin = l->address < f->begin ? l->address : f->begin;
    f->end = l->address > f->end ? l->address : f->end;
    f->lines |= line->line != 0;
    f->inlines |= l->nr_lines > 1;
    return true;
}

bool export_files_find(const struct profile *p, struct export_files *ret)
{
    for (size_t i = 0; i < p->locations.nr; i++)
        if (!take_location(p, &p->locations.at[i], ret))
            return false;
    vec_foreach (f, &ret->files) {
        f->begin = f->kernel ? f->begin & -(uint64_t)PAGE : 0;
        f->end = (f->end | (PAGE - 1)) + 1;
    }
    return true;
}

void export_files_free(struct export_files *f)
{
    vec_free(&f->files);
    vec_free(&f->of);
}
