/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/heap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is listed ------------------------------------------------------------------------ */

/* Objects that are listed one by one, the largest first. */
struct listed {
    uint32_t at[512];
    unsigned nr, most;
    uint64_t all; /* how many there are */
};

static void list_object(struct listed *l, const struct census *c, uint32_t number)
{
    const uint64_t size = c->objects.at[number].size;
    l->all++;
    if (l->nr == l->most && (!l->nr || size <= c->objects.at[l->at[l->nr - 1]].size))
        return;
    unsigned at = l->nr < l->most ? l->nr++ : l->nr - 1;
    for (; at > 0 && c->objects.at[l->at[at - 1]].size < size; at--)
        l->at[at] = l->at[at - 1];
    l->at[at] = number;
}

static struct listed listed_of(const struct heap_options *o)
{
    const unsigned most = sizeof(((struct listed *)0)->at) / sizeof(uint32_t);
    return (struct listed){.most = o->top < most ? o->top : most};
}

static struct listed largest(const struct heap_options *o, const struct census *c)
{
    struct listed l = listed_of(o);
    for (uint32_t i = 0; i < c->objects.nr; i++)
        list_object(&l, c, i);
    return l;
}

/* Whether an object is one that is looked for: by its address, or by a part of its description. */
static bool is_wanted(const struct census *c, const struct census_object *object, const char *find,
                      struct text *work)
{
    if (strncmp(find, "0x", 2) == 0)
        return object->address == strtoull(find, NULL, 16);
    work->size = 0;
    c->heap->describe(c->of, object, work);
    return work->size && memmem(work->at, work->size, find, strlen(find));
}

static struct listed wanted(const struct heap_options *o, const struct census *c)
{
    struct listed l = listed_of(o);
    struct text work = {0};
    for (uint32_t i = 0; i < c->objects.nr; i++) {
        if (is_wanted(c, &c->objects.at[i], o->find, &work))
            list_object(&l, c, i);
    }
    text_free(&work);
    return l;
}

/* The tables of groups, in this order. */
static const struct {
    uint8_t type;
    const char *title, *key;
} sections[] = {
    {CENSUS_TABLE, "tables, by class and fields", "tables"},
    {CENSUS_OBJECT, "objects, by constructor and fields", "instances"},
    {CENSUS_FUNCTION, "closures, by where the function is defined", "functions"},
    {CENSUS_USERDATA, "userdata, by class", "userdata"},
    {CENSUS_CDATA, "cdata, by type", "cdata"},
    {CENSUS_PROTO, "code, by where the function is defined", "code"},
};
enum { NR_SECTIONS = sizeof(sections) / sizeof(*sections) };

static const char *group_text(const struct census *c, const struct census_group *g)
{
    return g->length ? c->texts.at + g->text : "";
}

/* ---- text ---------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

static void put_size(struct text *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof(units) / sizeof(*units); unit++)
        value /= 1024;
    text_printf(out, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

static void put_row(struct text *out, uint64_t nr, uint64_t bytes, const struct census *c)
{
    text_printf(out, "%6.2f%% %14" PRIu64 " %10" PRIu64 "  ", percent(bytes, c->all.bytes), bytes,
                nr);
}

static void put_type_rows(struct text *out, const struct census *c)
{
    bool put[CENSUS_TYPES] = {0};
    text_printf(out, "#\n# %5s %14s %10s  %s\n", "share", "bytes", "objects", "type");
    for (unsigned i = 0; i < CENSUS_TYPES; i++) {
        unsigned most = CENSUS_TYPES;
        for (unsigned k = 0; k < CENSUS_TYPES; k++) {
            if (!put[k] && (most == CENSUS_TYPES || c->types[k].bytes > c->types[most].bytes))
                most = k;
        }
        put[most] = true;
        if (!c->types[most].nr)
            continue;
        put_row(out, c->types[most].nr, c->types[most].bytes, c);
        text_printf(out, "%s\n", census_type_name((enum census_type)most));
    }
}

/* Rows of an order, those with most bytes first. */
struct ordered {
    uint64_t bytes;
    unsigned number;
};

static int compare_ordered(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

typedef VEC(struct ordered) ordered_list;

/* List the subtypes that objects have. */
static void list_subtypes(const struct census *c, ordered_list *ret)
{
    for (size_t i = 0; i < c->subtypes.nr; i++) {
        if (c->subtypes.at[i].nr &&
            !vec_push(ret, (struct ordered){c->subtypes.at[i].bytes, (unsigned)i}))
            break;
    }
    if (ret->nr)
        qsort(ret->at, ret->nr, sizeof(*ret->at), compare_ordered);
}

static void put_subtype_rows(struct text *out, const struct heap_options *o, const struct census *c,
                             const char *runtime)
{
    ordered_list list = {0};
    list_subtypes(c, &list);
    if (list.nr)
        text_printf(out, "#\n# %5s %14s %10s  %s's type\n", "share", "bytes", "objects", runtime);
    for (size_t i = 0; i < list.nr && i < o->top; i++) {
        const unsigned type = list.at[i].number;
        put_row(out, c->subtypes.at[type].nr, c->subtypes.at[type].bytes, c);
        text_printf(out, "%s\n", c->heap->subtype(c->of, type));
    }
    if (list.nr > o->top)
        text_printf(out, "# and %zu more types (--top)\n", list.nr - o->top);
    vec_free(&list);
}

static void put_path(struct text *out, const struct census *c, uint32_t object)
{
    struct text path = {0};
    if (!c->heap->roots)
        return;
    text_string(out, "  ");
    census_path(c, object, &path);
    if (path.size)
        text_bytes(out, path.at, path.size);
    else
        text_string(out, "(no way to it was found)");
    text_free(&path);
}

static void put_groups(struct text *out, const struct heap_options *o, const struct census *c,
                       unsigned section)
{
    unsigned nr = 0;
    uint64_t left = 0;
    vec_foreach (g, &c->groups) {
        if (g->type != sections[section].type)
            continue;
        if (nr++ >= o->top) {
            left++;
            continue;
        }
        if (nr == 1)
            text_printf(out, "#\n# %s\n# %5s %14s %10s  what%s\n", sections[section].title, "share",
                        "bytes", "objects", c->heap->roots ? ", and the largest one of them" : "");
        put_row(out, g->nr, g->bytes, c);
        if (g->length)
            text_escaped_bytes(out, group_text(c, g), g->length);
        else
            text_string(out, "(no name)");
        put_path(out, c, g->example);
        text_char(out, '\n');
    }
    if (left)
        text_printf(out, "# and %" PRIu64 " more kinds (--top)\n", left);
}

static const char *type_name(const struct census *c, const struct census_object *o)
{
    return c->heap->subtype ? c->heap->subtype(c->of, o->subtype)
                            : census_type_name((enum census_type)o->type);
}

/* Strings of which there are several. */
static void put_strings(struct text *out, const struct heap_options *o, const struct census *c)
{
    struct text what = {0};
    if (c->strings.nr)
        text_printf(out, "#\n# strings that repeat\n# %5s %14s %10s  text\n", "share", "bytes",
                    "objects");
    for (size_t i = 0; i < c->strings.nr && i < o->top; i++) {
        const struct census_strings *s = &c->strings.at[i];
        put_row(out, s->nr, s->bytes, c);
        what.size = 0;
        c->heap->describe(c->of, &c->objects.at[s->example], &what);
        text_char(out, '"');
        text_escaped_bytes(out, what.size ? what.at : "", what.size);
        text_string(out, what.size < CENSUS_STRING_SHOWN ? "\"\n" : "\"...\n");
    }
    text_free(&what);
}

static void put_object(struct text *out, const struct census *c, uint32_t number)
{
    const struct census_object *object = &c->objects.at[number];
    struct text what = {0};
    c->heap->describe(c->of, object, &what);
    text_printf(out, "%14" PRIu64 "  %-10s 0x%" PRIx64, object->size, type_name(c, object),
                object->address);
    put_path(out, c, number);
    if (what.size) {
        text_string(out, object->type == CENSUS_STRING ? "  \"" : "  ");
        text_escaped_bytes(out, what.at, what.size);
        if (object->type == CENSUS_STRING)
            text_string(out, what.size < CENSUS_STRING_SHOWN ? "\"" : "\"...");
    }
    text_char(out, '\n');
    text_free(&what);
}

static void put_listed(struct text *out, const struct census *c, const struct listed *l)
{
    text_printf(out, "# %12s  %-10s address         %swhat it is\n", "bytes", "type",
                c->heap->roots ? "the way to it, and " : "");
    for (unsigned i = 0; i < l->nr; i++)
        put_object(out, c, l->at[i]);
}

static const struct {
    const char *what, *key;
} outsides[CENSUS_OUTSIDES] = {[CENSUS_BUFFERS] = {"ArrayBuffers", "array_buffers"},
                               [CENSUS_STRINGS_OUTSIDE] = {"external strings", "external_strings"}};

static void put_outside(struct text *out, const struct census *c)
{
    for (unsigned i = 0; i < CENSUS_OUTSIDES && c->heap->outside; i++) {
        text_printf(out, "# outside of this heap: %" PRIu64 " %s with ", c->outside[i].nr,
                    outsides[i].what);
        put_size(out, c->outside[i].bytes);
        text_char(out, '\n');
    }
}

static void put_head(struct text *out, const struct heap_vm *vm)
{
    const struct census *c = vm->census;
    text_printf(out, "# %s VM at 0x%" PRIx64 ": %" PRIu64 " objects, ", vm->runtime, vm->address,
                c->all.nr);
    put_size(out, c->all.bytes);
    if (c->total) {
        text_string(out, ", with ");
        put_size(out, c->own);
        text_printf(out, " of %s; by its own count %" PRIu64 " bytes, of which this is %.2f%%",
                    c->heap->own_name, c->total, percent(c->all.bytes + c->own, c->total));
    }
    text_char(out, '\n');
    if (vm->broken)
        text_printf(out, "# not whole: %s\n", vm->broken);
    put_outside(out, c);
    if (!c->heap->roots)
        return;
    const uint64_t bytes = c->all.bytes - c->reached.bytes, nr = c->all.nr - c->reached.nr;
    text_printf(out, "# not reached from the VM's roots: %" PRIu64 " objects, ", nr);
    put_size(out, bytes);
    text_printf(out, " (%.1f%%): mostly garbage that is not collected yet\n",
                percent(bytes, c->all.bytes));
}

void heap_put_text(const struct heap_options *o, const struct heap_vm *vm, struct text *out)
{
    const struct census *c = vm->census;
    put_head(out, vm);
    if (o->find) {
        const struct listed l = wanted(o, c);
        text_printf(out, "#\n# objects with \"");
        text_escaped_bytes(out, o->find, strlen(o->find));
        text_printf(out, "\": %" PRIu64 "%s\n", l.all, l.nr < l.all ? ", the largest:" : "");
        put_listed(out, c, &l);
        return;
    }
    put_type_rows(out, c);
    put_subtype_rows(out, o, c, vm->runtime);
    for (unsigned i = 0; i < NR_SECTIONS; i++)
        put_groups(out, o, c, i);
    put_strings(out, o, c);
    const struct listed l = largest(o, c);
    text_string(out, "#\n# the largest objects\n");
    put_listed(out, c, &l);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* Write bytes of the program as a string. */
static void json_bytes(struct json *j, const char *key, const char *bytes, size_t size)
{
    struct text copy = {0};
    text_escaped_bytes(&copy, bytes, size);
    text_char(&copy, 0);
    json_key(j, key);
    json_string(j, copy.failed ? NULL : copy.at);
    text_free(&copy);
}

static void json_address(struct json *j, uint64_t address)
{
    char text[24];
    snprintf(text, sizeof(text), "0x%" PRIx64, address);
    json_key_string(j, "address", text);
}

static void json_counts(struct json *j, uint64_t nr, uint64_t bytes)
{
    json_key_uint(j, "objects", nr);
    json_key_uint(j, "bytes", bytes);
}

static void json_path(struct json *j, const struct census *c, uint32_t object)
{
    struct text path = {0};
    census_path(c, object, &path);
    if (path.size) {
        text_char(&path, 0);
        json_key_string(j, "path", path.failed ? NULL : path.at);
    }
    text_free(&path);
}

static void json_groups(struct json *j, const struct heap_options *o, const struct census *c,
                        unsigned section)
{
    unsigned nr = 0;
    json_key(j, sections[section].key);
    json_array(j);
    vec_foreach (g, &c->groups) {
        if (g->type != sections[section].type || nr++ >= o->top)
            continue;
        json_object(j);
        json_bytes(j, "what", group_text(c, g), g->length);
        json_counts(j, g->nr, g->bytes);
        json_path(j, c, g->example);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_listed(struct json *j, const char *key, const struct census *c,
                        const struct listed *l)
{
    json_key(j, key);
    json_array(j);
    for (unsigned i = 0; i < l->nr; i++) {
        const struct census_object *object = &c->objects.at[l->at[i]];
        struct text what = {0};
        c->heap->describe(c->of, object, &what);
        json_object(j);
        json_key_string(j, "type", type_name(c, object));
        json_key_uint(j, "bytes", object->size);
        json_address(j, object->address);
        json_bytes(j, "what", what.size ? what.at : "", what.size);
        json_path(j, c, l->at[i]);
        json_object_end(j);
        text_free(&what);
    }
    json_array_end(j);
}

static void json_outside(struct json *j, const struct census *c)
{
    for (unsigned i = 0; i < CENSUS_OUTSIDES && c->heap->outside; i++) {
        json_key(j, outsides[i].key);
        json_object(j);
        json_counts(j, c->outside[i].nr, c->outside[i].bytes);
        json_object_end(j);
    }
}

static void json_subtypes(struct json *j, const struct census *c)
{
    if (!c->heap->subtype)
        return;
    json_key(j, "subtypes");
    json_array(j);
    for (unsigned i = 0; i < c->subtypes.nr; i++) {
        if (!c->subtypes.at[i].nr)
            continue;
        json_object(j);
        json_key_string(j, "type", c->heap->subtype(c->of, i));
        json_counts(j, c->subtypes.at[i].nr, c->subtypes.at[i].bytes);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_strings(struct json *j, const struct heap_options *o, const struct census *c)
{
    struct text what = {0};
    if (!c->heap->string_identity)
        return;
    json_key(j, "repeated_strings");
    json_array(j);
    for (size_t i = 0; i < c->strings.nr && i < o->top; i++) {
        what.size = 0;
        c->heap->describe(c->of, &c->objects.at[c->strings.at[i].example], &what);
        json_object(j);
        json_bytes(j, "what", what.size ? what.at : "", what.size);
        json_counts(j, c->strings.at[i].nr, c->strings.at[i].bytes);
        json_object_end(j);
    }
    json_array_end(j);
    text_free(&what);
}

void heap_put_json(const struct heap_options *o, const struct heap_vm *vm, struct json *j)
{
    const struct census *c = vm->census;
    json_object(j);
    json_key_string(j, "runtime", vm->runtime);
    json_address(j, vm->address);
    json_counts(j, c->all.nr, c->all.bytes);
    if (c->total)
        json_key_uint(j, "counted_by_vm", c->total);
    json_key_uint(j, "own_tables", c->own);
    if (vm->broken)
        json_key_string(j, "not_whole", vm->broken);
    if (c->heap->roots) {
        json_key(j, "reached");
        json_object(j);
        json_counts(j, c->reached.nr, c->reached.bytes);
        json_object_end(j);
    }
    json_outside(j, c);
    if (o->find) {
        const struct listed l = wanted(o, c);
        json_key_uint(j, "found", l.all);
        json_listed(j, "found_objects", c, &l);
        json_object_end(j);
        return;
    }
    json_key(j, "types");
    json_object(j);
    for (unsigned i = 0; i < CENSUS_TYPES; i++) {
        if (!c->types[i].nr)
            continue;
        json_key(j, census_type_name((enum census_type)i));
        json_object(j);
        json_counts(j, c->types[i].nr, c->types[i].bytes);
        json_object_end(j);
    }
    json_object_end(j);
    json_subtypes(j, c);
    for (unsigned i = 0; i < NR_SECTIONS; i++)
        json_groups(j, o, c, i);
    json_strings(j, o, c);
    const struct listed l = largest(o, c);
    json_listed(j, "largest", c, &l);
    json_object_end(j);
}
