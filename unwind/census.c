/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/census.h"

#include <stdlib.h>
#include <string.h>

void census_names_free(struct census_names *n)
{
    vec_foreach (e, &n->sites)
        free(e->value);
    vec_foreach (e, &n->classes)
        free(e->value);
    table_free(&n->sites);
    table_free(&n->classes);
}

void census_fields_add(struct census_fields *f, uint64_t name)
{
    if (!name)
        f->others++;
    else if (f->nr < CENSUS_SHAPE_MAX)
        f->names[f->nr++] = name;
    else
        f->is_large = true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void census_fields_put(const struct census_fields *f,
                       bool (*string)(void *heap, uint64_t address, size_t max, struct text *out),
                       void *heap, struct text *out)
{
    enum { NAME = 64 };
    char *names[CENSUS_SHAPE_MAX];
    unsigned nr = 0;
    if (f->is_large || f->others > f->nr) {
        text_string(out, f->is_large ? "{[...]=..., many}" : "{[...]=...}");
        return;
    }
    for (; nr < f->nr; nr++) {
        struct text name = {0};
        string(heap, f->names[nr], NAME, &name);
        text_char(&name, 0);
        if (name.failed)
            break;
        names[nr] = name.at;
    }
    if (nr)
        qsort(names, nr, sizeof(*names), compare_names);
    text_char(out, '{');
    for (unsigned i = 0; i < nr && i < CENSUS_FIELDS_SHOWN; i++)
        text_printf(out, "%s%s", i ? ", " : "", names[i]);
    if (nr > CENSUS_FIELDS_SHOWN)
        text_printf(out, ", and %u more", nr - CENSUS_FIELDS_SHOWN);
    if (f->others)
        text_string(out, nr ? ", [...]" : "[...]");
    if (f->is_array)
        text_string(out, nr || f->others ? ", 1, 2, ..." : "1, 2, ...");
    text_char(out, '}');
    for (unsigned i = 0; i < nr; i++)
        free(names[i]);
}
