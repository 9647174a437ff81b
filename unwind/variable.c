/* SPDX-License-Identifier: GPL-2.0-only */
/* Variables of managed frames: places, and lists within bounds. See variable.h. */
#include "unwind/variable.h"

#include <math.h>
#include <stdio.h>

/* ---- places -------------------------------------------------------------------------------- */

void variable_places_clear(struct variable_places *p)
{
    p->at.nr = 0;
    p->failed = p->is_unsorted = false;
}

void variable_places_free(struct variable_places *p)
{
    vec_free(&p->at);
}

static void add_place(struct variable_places *p, const struct variable_place *place, size_t index,
                      const struct frame *f, bool is_settled)
{
    struct variable_place new = *place;
    new.frame = index;
    new.pc = f->pc;
    new.function = f->function;
    new.kind = f->kind;
    new.is_settled = is_settled;
    if (!vec_push(&p->at, new))
        p->failed = true;
}

void variable_places_note(struct variable_places *p, const struct variable_place *place,
                          size_t index, const struct frame *f)
{
    while (p->at.nr && p->at.at[p->at.nr - 1].frame >= index)
        p->at.nr--;
    add_place(p, place, index, f, false);
}

void variable_places_set(struct variable_places *p, const struct variable_place *place,
                         size_t index, const struct frame *f)
{
    const struct variable_place *last = p->at.nr ? &p->at.at[p->at.nr - 1] : NULL;
    if (last && last->is_settled && last->frame == index)
        p->at.nr--;
    p->is_unsorted = true;
    add_place(p, place, index, f, true);
}

void variable_places_moved(struct variable_places *p, size_t from, size_t by)
{
    for (size_t i = 0; i < p->at.nr && !p->at.at[i].is_settled; i++) {
        if (p->at.at[i].frame >= from)
            p->at.at[i].frame += by;
    }
}

/* Of two places for a frame, the one that was settled comes last, and is found. */
static int compare_places(const void *a, const void *b)
{
    const struct variable_place *x = a, *y = b;
    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return (int)x->is_settled - (int)y->is_settled;
}

const struct variable_place *variable_places_find(struct variable_places *p, size_t index,
                                                  const struct frame *f)
{
    if (p->is_unsorted && p->at.nr)
        qsort(p->at.at, p->at.nr, sizeof(*p->at.at), compare_places);
    p->is_unsorted = false;
    size_t low = 0, high = p->at.nr; /* the first place behind the index */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->at.at[middle].frame <= index)
            low = middle + 1;
        else
            high = middle;
    }
    const struct variable_place *at = low ? &p->at.at[low - 1] : NULL;
    bool is_same = at && at->frame == index && at->pc == f->pc && at->function == f->function &&
                   at->kind == f->kind;
    return is_same ? at : NULL;
}

/* ---- lists --------------------------------------------------------------------------------- */

struct variables_wanted variables_wanted_default(void)
{
    return (struct variables_wanted){
        .depth = 1,
        .fields_max = 16,
        .string_max = 200,
        .variables_max = 4096,
        .bytes_max = 1 << 20,
    };
}

void variables_begin(struct variables *v, const struct variables_wanted *wanted)
{
    v->wanted = *wanted;
    if (v->wanted.depth > VARIABLES_DEPTH_MAX)
        v->wanted.depth = VARIABLES_DEPTH_MAX;
    v->at.nr = 0;
    v->bytes.size = 0;
    v->unknown = NULL;
    v->is_cut = v->failed = v->bytes.failed = false;
}

void variables_free(struct variables *v)
{
    vec_free(&v->at);
    text_free(&v->bytes);
}

struct variable *variables_add(struct variables *v, enum variable_role role, unsigned depth)
{
    const unsigned deepest = v->at.nr ? v->at.at[v->at.nr - 1].depth + 1u : 0;
    depth = depth < deepest ? depth : deepest; /* a field is behind what it is a field of */
    const struct variable new = {
        .role = (uint8_t)role, .depth = (uint8_t)depth, .kind = VALUE_UNKNOWN, .type = "not known"};
    if (v->at.nr >= v->wanted.variables_max || v->bytes.size >= v->wanted.bytes_max)
        v->is_cut = true;
    if (v->is_cut || v->failed)
        return NULL;
    v->failed = !vec_push(&v->at, new);
    return v->failed ? NULL : &v->at.at[v->at.nr - 1];
}

/* Keep bytes, as many as the frame's bound lets. */
static struct variable_text keep(struct variables *v, const char *bytes, size_t size)
{
    size_t left = v->wanted.bytes_max -
                  (v->bytes.size < v->wanted.bytes_max ? v->bytes.size : v->wanted.bytes_max);
    struct variable_text t = {(uint32_t)v->bytes.size, (uint32_t)(size < left ? size : left)};
    text_bytes(&v->bytes, bytes, t.size);
    if (!v->bytes.failed)
        return t;
    v->failed = true;
    return (struct variable_text){0};
}

void variable_set_name(struct variables *v, struct variable *of, const char *bytes, size_t size)
{
    of->name = keep(v, bytes, size < VARIABLE_NAME_MAX ? size : VARIABLE_NAME_MAX);
}

void variable_set_text(struct variables *v, struct variable *of, const char *bytes, size_t size)
{
    of->text = keep(v, bytes, size);
}

void variable_set_object(struct variable *of, enum value_kind kind, const char *type,
                         uint64_t address)
{
    of->kind = (uint8_t)kind;
    of->type = type;
    of->address = address;
}

void variable_set_unknown(struct variable *of, const char *why)
{
    variable_set_object(of, VALUE_UNKNOWN, why, 0);
}

void variable_set_nil(struct variable *of, const char *type)
{
    variable_set_object(of, VALUE_NIL, type, 0);
}

void variable_set_boolean(struct variable *of, bool value)
{
    variable_set_object(of, VALUE_BOOLEAN, "boolean", 0);
    of->boolean = value;
}

void variable_set_integer(struct variable *of, int64_t value)
{
    variable_set_object(of, VALUE_INTEGER, "number", 0);
    of->integer = value;
}

void variable_set_number(struct variable *of, enum value_kind kind, double value)
{
    variable_set_object(of, kind, "number", 0);
    of->number_value = value;
}

/* Returns how many of the first `size` bytes are left when a character of UTF-8 that would be cut
 * there is left out. Any other bytes are cut anywhere. */
static size_t whole_characters(const char *bytes, size_t size)
{
    enum { FOLLOWING_MAX = 3 };
    size_t back = 0;
    while (back < size && back < FOLLOWING_MAX &&
           ((unsigned char)bytes[size - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == size)
        return size;
    const unsigned char lead = (unsigned char)bytes[size - 1 - back];
    const size_t follow = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    return follow > back ? size - 1 - back : size;
}

void variable_set_string(struct variables *v, struct variable *of, const char *bytes, size_t size,
                         uint64_t length)
{
    size_t kept = size < v->wanted.string_max ? size : v->wanted.string_max;
    if (kept < length)
        kept = whole_characters(bytes, kept);
    variable_set_object(of, VALUE_STRING, "string", 0);
    of->length = length;
    of->text = keep(v, bytes, kept);
    of->is_cut = of->text.size < length;
}

void variable_write_number(char to[VARIABLE_NUMBER_MAX], enum value_kind kind, double value)
{
    enum { DIGITS_LUA = 14, DIGITS_ALL = 17 };
    if (isnan(value)) {
        snprintf(to, VARIABLE_NUMBER_MAX, "nan");
        return;
    }
    for (int digits = DIGITS_LUA; digits <= DIGITS_ALL; digits++) {
        snprintf(to, VARIABLE_NUMBER_MAX, "%.*g", digits, value);
        if (strtod(to, NULL) == value)
            break;
    }
    if (kind == VALUE_FLOAT && !strpbrk(to, ".en"))
        strcat(to, ".0");
}
