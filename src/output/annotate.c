/* SPDX-License-Identifier: GPL-2.0-only */
/* Chooses the function and computes the weights of its lines. See annotate.h. */
#include "output/annotate_internal.h"
#include "output/output.h"
#include "output/traces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIKE_IT = 10 }; /* similar functions listed if none has the name */

/* The weights of all samples, by node and by function. */
struct weights {
    struct export e;
    uint64_t *nodes; /* weight of samples that end at the node */
    struct weight *functions;
    uint64_t *seen; /* by function: the last path that was counted */
    uint64_t all;
    uint64_t others; /* number of samples of other events */
};

static void weights_free(struct weights *w)
{
    free(w->nodes);
    free(w->functions);
    free(w->seen);
}

static uint32_t leaf_function(const struct profile *p, uint32_t node)
{
    return p->lines.at[p->locations.at[p->nodes.at[node].location].first_line].function;
}

static void weigh_path(struct weights *w, uint32_t leaf, uint64_t weight)
{
    const struct profile *p = w->e.profile;
    w->functions[leaf_function(p, leaf)].self += weight;
    for (uint32_t n = leaf; n; n = p->nodes.at[n].parent) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[n].location];
        for (uint32_t i = l->first_line; i < l->first_line + l->nr_lines; i++) {
            uint32_t function = p->lines.at[i].function;
            if (w->seen[function] == leaf)
                continue;
            w->seen[function] = leaf;
            w->functions[function].total += weight;
        }
    }
}

static int weigh(struct weights *w, struct error *err)
{
    const struct profile *p = w->e.profile;
    w->nodes = calloc(p->nodes.nr + 1, sizeof(*w->nodes));
    w->functions = calloc(p->functions.nr + 1, sizeof(*w->functions));
    w->seen = calloc(p->functions.nr + 1, sizeof(*w->seen));
    if (!w->nodes || !w->functions || !w->seen)
        return error_no_memory(err);
    vec_foreach (s, &p->samples) {
        w->others += s->event != w->e.event;
        if (!export_wants(&w->e, s))
            continue;
        w->nodes[s->node] += export_weight(&w->e, s);
        w->all += export_weight(&w->e, s);
    }
    for (uint32_t n = 1; n < p->nodes.nr; n++)
        if (w->nodes[n])
            weigh_path(w, n, w->nodes[n]);
    return 0;
}

/* ---- which function ------------------------------------------------------------------------- */

static bool is_wanted(const struct profile_function *f, const char *symbol, int how)
{
    if (!f->symbol)
        return false;
    return how == 0 ? strcmp(f->symbol, symbol) == 0 : symbol_is_named(f->symbol, true, symbol);
}

static bool is_heavier(const struct weights *w, uint32_t a, uint32_t b)
{
    const struct weight *x = &w->functions[a], *y = &w->functions[b];
    if (x->self != y->self)
        return x->self > y->self;
    if (x->total != y->total)
        return x->total > y->total;
    const struct profile_function *f = w->e.profile->functions.at;
    return strcmp(f[a].name, f[b].name) < 0;
}

static int no_function(const struct weights *w, const char *symbol, struct error *err)
{
    const struct profile *p = w->e.profile;
    struct text like = {0};
    unsigned nr = 0;
    for (uint32_t i = 0; symbol && i < p->functions.nr && nr < LIKE_IT; i++) {
        if (!p->functions.at[i].symbol || !strstr(p->functions.at[i].symbol, symbol))
            continue;
        text_printf(&like, "%s '%s'", nr++ ? "," : "; there is", p->functions.at[i].symbol);
    }
    text_char(&like, 0);
    error_set(err, ERROR_FORMAT, "no function%s%s%s was sampled%s", symbol ? " '" : "",
              symbol ? symbol : "", symbol ? "'" : "", like.failed || !nr ? "" : like.at);
    text_free(&like);
    return -1;
}

/* Get the wanted functions, heaviest first: all with exactly this symbol; if there are none, all
 * with this name; without a symbol, the heaviest function that has a name. */
typedef VEC(uint32_t) function_list;
static int choose_functions(const struct weights *w, const char *symbol, function_list *ret,
                            struct error *err)
{
    const struct profile *p = w->e.profile;
    for (int how = 0; symbol && how < 2 && !ret->nr; how++)
        for (uint32_t i = 0; i < p->functions.nr; i++)
            if (w->functions[i].total && is_wanted(&p->functions.at[i], symbol, how) &&
                !vec_push(ret, i))
                return error_no_memory(err);
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; !symbol && i < p->functions.nr; i++)
        if (p->functions.at[i].symbol && w->functions[i].self &&
            (best == UINT32_MAX || is_heavier(w, i, best)))
            best = i;
    if (best != UINT32_MAX && !vec_push(ret, best))
        return error_no_memory(err);
    for (size_t i = 1; i < ret->nr; i++)
        for (size_t k = i; k && is_heavier(w, ret->at[k], ret->at[k - 1]); k--) {
            uint32_t lighter = ret->at[k - 1];
            ret->at[k - 1] = ret->at[k];
            ret->at[k] = lighter;
        }
    return ret->nr ? 0 : no_function(w, symbol, err);
}

/* ---- the function's places ------------------------------------------------------------------ */

static struct weighed_line *line_of(struct annotated *a, uint32_t index)
{
    const struct profile_line *l = &a->profile->lines.at[index];
    const struct weighed_line new = {.file = l->file, .line = l->line};
    uint32_t at = a->of_line[index];
    for (uint32_t i = 0; !at && i < a->lines.nr; i++) /* columns are ignored */
        if (a->lines.at[i].file == l->file && a->lines.at[i].line == l->line)
            at = i + 1;
    if (!at && vec_push(&a->lines, new))
        at = (uint32_t)a->lines.nr;
    a->of_line[index] = at;
    return at ? &a->lines.at[at - 1] : NULL;
}

static struct weighed_address *address_of(struct annotated *a, uint32_t index)
{
    const struct profile_location *l = &a->profile->locations.at[index];
    const struct weighed_address new = {.address = l->address, .dso = l->dso};
    if (!a->of_location[index] && vec_push(&a->addresses, new))
        a->of_location[index] = (uint32_t)a->addresses.nr;
    return a->of_location[index] ? &a->addresses.at[a->of_location[index] - 1] : NULL;
}

/* Add the weight of one path to the function's places on it. */
static int take_path(struct annotated *a, const struct weights *w, uint32_t leaf)
{
    const struct profile *p = w->e.profile;
    for (uint32_t n = leaf; n; n = p->nodes.at[n].parent) {
        uint32_t location = p->nodes.at[n].location;
        const struct profile_location *l = &p->locations.at[location];
        for (uint32_t i = 0; i < l->nr_lines; i++) {
            uint32_t line = l->first_line + i;
            bool self = n == leaf && i == 0;
            if (&p->functions.at[p->lines.at[line].function] != a->function)
                continue;
            struct weighed_line *to = line_of(a, line);
            struct weighed_address *at = l->dso ? address_of(a, location) : NULL;
            if (!to || (l->dso && !at))
                return -1;
            if (to->seen != leaf)
                to->weight.total += w->nodes[leaf];
            to->seen = leaf;
            to->weight.self += self ? w->nodes[leaf] : 0;
            if (at)
                at->weight.self += self ? w->nodes[leaf] : 0;
        }
    }
    return 0;
}

static int take_places(struct annotated *a, const struct weights *w, struct error *err)
{
    const struct profile *p = w->e.profile;
    a->of_line = calloc(p->lines.nr + 1, sizeof(*a->of_line));
    a->of_location = calloc(p->locations.nr + 1, sizeof(*a->of_location));
    if (!a->of_line || !a->of_location)
        return error_no_memory(err);
    for (uint32_t n = 1; n < p->nodes.nr; n++)
        if (w->nodes[n] && take_path(a, w, n) < 0)
            return error_no_memory(err);
    vec_foreach (s, &p->samples) {
        if (!export_wants(&w->e, s))
            continue;
        a->samples += &p->functions.at[leaf_function(p, s->node)] == a->function;
        a->last = s->time > a->last ? s->time : a->last;
    }
    return 0;
}

/* ---- how it ran ----------------------------------------------------------------------------- */

/* The tier and trace in which some of a managed function's own samples were. */
struct way {
    uint8_t tier;
    uint16_t trace;
    uint64_t self;
};
typedef VEC(struct way) way_list;

static bool add_way(way_list *ways, const struct profile_location *l, uint64_t weight)
{
    vec_foreach (w, ways)
        if (w->tier == l->tier && w->trace == l->trace)
            return w->self += weight, true;
    return vec_push(ways, (struct way){l->tier, l->trace, weight});
}

static int compare_ways(const void *x, const void *y)
{
    const struct way *a = x, *b = y;
    if (a->self != b->self)
        return a->self < b->self ? 1 : -1;
    return a->tier != b->tier ? a->tier - b->tier : a->trace - b->trace;
}

static int print_ways(const struct annotated *a, const struct weights *w, struct error *err)
{
    const struct profile *p = a->profile;
    way_list ways = {0};
    bool ok = true;
    for (uint32_t n = 1; ok && n < p->nodes.nr; n++)
        if (w->nodes[n] && &p->functions.at[leaf_function(p, n)] == a->function)
            ok = add_way(&ways, &p->locations.at[p->nodes.at[n].location], w->nodes[n]);
    if (ways.nr)
        qsort(ways.at, ways.nr, sizeof(*ways.at), compare_ways);
    if (ok && ways.nr)
        fputs("# ran as:", a->out);
    vec_foreach (way, &ways) {
        const char *tier = export_tier(way->tier);
        if (way->trace)
            fprintf(a->out, " trace %u", way->trace);
        else
            fprintf(a->out, " %s", tier ? tier : "(not known)");
        fprintf(a->out, " %.2f%%%s", 100.0 * (double)way->self / (double)a->weight.self,
                way + 1 < ways.at + ways.nr ? "," : "\n");
    }
    vec_free(&ways);
    return ok ? 0 : error_no_memory(err);
}

/* ---- one function --------------------------------------------------------------------------- */

void annotate_share(const struct annotate_options *o, FILE *out, uint64_t part, uint64_t whole)
{
    if (!part || !whole)
        fputs("         ", out);
    else if (o->counts)
        fprintf(out, " %8" PRIu64, part);
    else
        fprintf(out, " %7.2f%%", 100.0 * (double)part / (double)whole);
}

bool annotate_is_heavy(const struct annotated *a, uint64_t self)
{
    return 200.0 * (double)self > (double)a->weight.self;
}

static int compare_weights(const void *x, const void *y)
{
    const struct weighed_line *a = x, *b = y;
    if (a->weight.self != b->weight.self)
        return a->weight.self < b->weight.self ? 1 : -1;
    if (a->file != b->file)
        return !a->file ? 1 : !b->file ? -1 : strcmp(a->file, b->file);
    return (a->line > b->line) - (a->line < b->line);
}

/* The heaviest lines, as perf lists them first. */
static void print_summary(struct annotated *a)
{
    struct text t = {0};
    text_string(&t, "#\n# Sorted summary for file ");
    text_name(&t, a->function->module ? a->function->module : "[unknown]");
    fprintf(a->out, "%.*s\n# .......\n", (int)t.size, t.at ? t.at : "");
    if (a->lines.nr)
        qsort(a->lines.at, a->lines.nr, sizeof(*a->lines.at), compare_weights);
    size_t nr = 0;
    for (; nr < a->lines.nr && annotate_is_heavy(a, a->lines.at[nr].weight.self); nr++) {
        const struct weighed_line *l = &a->lines.at[nr];
        t.size = 0;
        text_name(&t, l->file ? text_base_name(l->file) : "??");
        annotate_share(a->options, a->out, l->weight.self, a->weight.self);
        fprintf(a->out, "  %.*s:%" PRIu32 "\n", (int)t.size, t.at ? t.at : "", l->line);
    }
    if (!nr)
        fputs("# nothing higher than 0.5 %\n", a->out);
    text_free(&t);
}

static void print_head(const struct annotated *a, const struct weights *w)
{
    struct text name = {0};
    text_name(&name, a->function->symbol);
    fprintf(a->out, "# %.*s", (int)name.size, name.at ? name.at : "");
    text_free(&name);
    fprintf(a->out,
            "\n# %s: %" PRIu64 " samples of its own, %.2f%% of all; with what it calls %.2f%%\n",
            export_event(&w->e, w->e.event), a->samples,
            100.0 * (double)a->weight.self / (double)w->all,
            100.0 * (double)a->weight.total / (double)w->all);
}

static void print_others(const struct weights *w, FILE *out)
{
    if (w->others)
        fprintf(out, "#\n# %" PRIu64 " samples of other events than %s are left out (--event)\n",
                w->others, export_event(&w->e, w->e.event));
}

static bool is_native(const struct profile_function *f)
{
    return f->kind == FRAME_NATIVE || f->kind == FRAME_KERNEL;
}

static void print_reasons(const struct annotated *a)
{
    struct text out = {0};
    traces_put_reasons(a->traces, a->function->symbol,
                       a->function->kind == FRAME_LUA ? "# LuaJIT: " : "# V8: ", &out);
    if (!out.failed && out.size)
        fwrite(out.at, 1, out.size, a->out);
    text_free(&out);
}

static int print_function(struct annotated *a, const struct weights *w, struct error *err)
{
    if (take_places(a, w, err) < 0)
        return -1;
    print_head(a, w);
    if (profile_is_managed(a->function->kind) && print_ways(a, w, err) < 0)
        return -1;
    if ((a->function->kind == FRAME_LUA || a->function->kind == FRAME_JS) && a->function->symbol)
        print_reasons(a);
    if (a->options->lines)
        print_summary(a);
    return is_native(a->function) ? annotate_code(a, err) : annotate_source(a, err);
}

int annotate_print(const struct annotate_options *options, struct profile *profile,
                   struct replay *r, FILE *out, struct error *err)
{
    struct traces *traces;
    struct weights w = {.e = {.profile = profile, .replay = r, .samples = options->samples}};
    function_list functions = {0};
    w.e.event = UINT16_MAX;
    vec_foreach (s, &profile->samples)
        w.e.event = s->event < w.e.event ? s->event : w.e.event;
    if (traces_read(r, &traces, err) < 0)
        return -1;
    int failed = weigh(&w, err) < 0 || choose_functions(&w, options->symbol, &functions, err) < 0;
    for (size_t i = 0; !failed && i < functions.nr; i++) {
        struct annotated a = {.options = options,
                              .profile = profile,
                              .replay = r,
                              .traces = traces,
                              .function = &profile->functions.at[functions.at[i]],
                              .weight = w.functions[functions.at[i]],
                              .all = {w.all, w.all},
                              .out = out};
        if (i)
            fputc('\n', out);
        failed = print_function(&a, &w, err);
        vec_free(&a.lines);
        vec_free(&a.addresses);
        free(a.of_line);
        free(a.of_location);
    }
    if (!failed)
        print_others(&w, out);
    vec_free(&functions);
    weights_free(&w);
    traces_free(traces);
    return failed ? -1 : 0;
}
