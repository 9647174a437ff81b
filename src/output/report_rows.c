/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rows of the report: which row each node of the tree belongs to, and how many samples a row
 * and its callees had. One walk down the tree finds both. While a node of the same row is open
 * above, everything below it has already been counted, so recursion counts a sample once.
 */
#include "base/hash.h"
#include "output/output.h"
#include "output/report_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool report_has_key(const struct report_options *o, enum report_key key)
{
    for (unsigned i = 0; i < o->nr_keys; i++)
        if (o->keys[i] == key)
            return true;
    return false;
}

uint16_t report_row_event(const struct report *r, const struct report_row *row)
{
    return r->groups.at[row->group].of.event;
}

static int compare_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

int report_compare_functions(const struct function *a, const struct function *b)
{
    int order = compare_text(a->symbol, b->symbol);
    order = order ? order : compare_text(a->module, b->module);
    order = order ? order : (a->address > b->address) - (a->address < b->address);
    order = order ? order : compare_text(a->file, b->file);
    order = order ? order : (a->line > b->line) - (a->line < b->line);
    return order ? order : a->inlined - b->inlined;
}

/* ---- classes: equal keys have equal numbers ------------------------------------------------ */

enum { CLASS_WORDS = 9 };

struct class_key {
    uint64_t word[CLASS_WORDS];
};

/* Number `nr` keys: ret[i] becomes the index of the first key that equals keys[i]. */
static int number_classes(const struct class_key *keys, size_t nr, uint32_t *ret)
{
    struct hash_table table = {0};
    for (size_t i = 0; i < nr; i++) {
        uint64_t hash = hash_bytes(&keys[i], sizeof(keys[i]));
        ret[i] = hash_table_find(&table, hash, k, memcmp(&keys[k], &keys[i], sizeof(keys[i])) == 0);
        if (ret[i] != HASH_TABLE_NONE)
            continue;
        ret[i] = (uint32_t)i;
        if (!hash_table_add(&table, hash, i)) {
            hash_table_free(&table);
            return -1;
        }
    }
    hash_table_free(&table);
    return 0;
}

static uint64_t word_of(const void *interned)
{
    return (uintptr_t)interned;
}

static int class_groups(struct report *r, struct class_key *keys)
{
    const struct report_options *o = r->options;
    bool comm = report_has_key(o, KEY_COMM);
    bool trace = report_has_key(o, KEY_TRACE);
    bool thread = report_has_key(o, KEY_THREAD);
    bool process = report_has_key(o, KEY_PROCESS);
    bool cpu = report_has_key(o, KEY_CPU);
    bool time = report_has_key(o, KEY_TIME);
    bool reason = report_has_key(o, KEY_REASON), syscall = report_has_key(o, KEY_SYSCALL);
    for (size_t i = 0; i < r->groups.nr; i++) {
        const struct report_group *group = &r->groups.at[i];
        const struct stack_group *g = &group->of;
        keys[i] = (struct class_key){{
            g->event | (uint64_t)group->passes << 16 | (cpu ? (uint64_t)g->cpu << 32 : 0),
            comm ? word_of(g->comm) : 0,
            (process || trace ? g->pid : 0) | (thread ? (uint64_t)g->tid << 32 : 0),
            time ? g->block : 0,
            group->state | (uint64_t)group->trace << 16 | (uint64_t)group->parent << 32,
            (reason ? g->reason : 0) | (syscall ? (uint64_t)g->syscall << 8 : 0),
            group->own | (uint64_t)group->handler << 32,
            report_has_key(o, KEY_CGROUP) ? g->cgroup : 0,
            report_has_key(o, KEY_WAKER) ? word_of(g->waker) : 0,
        }};
    }
    return number_classes(keys, r->groups.nr, r->group_class);
}

/* The positions inside functions do not matter. */
static int class_names(struct report *r, struct class_key *keys)
{
    for (size_t i = 0; i < r->nr_functions; i++) {
        const struct function *f = &r->stacks->functions.at[i];
        bool inlined = f->inlined && !function_is_managed(f);
        keys[i] = (struct class_key){{word_of(f->symbol), word_of(f->module), f->address, inlined}};
    }
    return number_classes(keys, r->nr_functions, r->name_class);
}

/* A call tree shows functions of one class as one. */
static int class_chains(struct report *r, struct class_key *keys)
{
    const bool by_address = r->options->graph_key == GRAPH_OF_ADDRESSES;
    if (r->options->graph_key == GRAPH_OF_FUNCTIONS) {
        memcpy(r->chain_class, r->name_class, r->nr_functions * sizeof(*r->chain_class));
        return 0;
    }
    for (size_t i = 0; i < r->nr_functions; i++) {
        const struct function *f = &r->stacks->functions.at[i];
        keys[i] = (struct class_key){
            {r->name_class[i], word_of(f->file), f->line, by_address ? f->offset : 0}};
    }
    return number_classes(keys, r->nr_functions, r->chain_class);
}

/* The last part of `path` that begins behind the folder `folder`; NULL: it is in no such folder. */
static const char *behind(const char *path, const char *folder)
{
    const char *found = NULL;
    for (const char *at = path; (at = strstr(at, folder)); at++)
        if (at == path || at[-1] == '/')
            found = at + strlen(folder);
    return found;
}

static size_t part_size(const char *at)
{
    return strcspn(at, "/");
}

/* Append where a managed function comes from: the package of npm, the module of LuaRocks or
 * OpenResty, else the folder of its file. */
static void put_package(struct text *t, const char *path)
{
    const char *npm = behind(path, "node_modules/"), *lua = behind(path, "share/lua/5.1/");
    lua = lua ? lua : behind(path, "lualib/");
    if (npm) {
        size_t size = part_size(npm);
        if (*npm == '@' && npm[size])
            size += 1 + part_size(npm + size + 1);
        text_bytes(t, npm, size);
    } else if (lua) {
        size_t size = part_size(lua);
        size -= !lua[size] && size > 4 && memcmp(lua + size - 4, ".lua", 4) == 0 ? 4 : 0;
        text_bytes(t, lua, size);
    } else if (strncmp(path, "node:", 5) == 0) {
        text_string(t, "node:");
    } else if (*path == '[') {
        text_string(t, strncmp(path, "[string ", 8) ? path : "[string]");
    } else {
        const char *slash = strrchr(path, '/');
        text_bytes(t, slash ? path : ".", slash ? (size_t)(slash - path) + (slash == path) : 1);
    }
}

static int find_packages(struct report *r)
{
    r->packages = calloc(r->nr_functions + 1, sizeof(*r->packages));
    for (size_t i = 0; r->packages && i < r->nr_functions; i++) {
        const struct function *f = &r->stacks->functions.at[i];
        struct text t = {0};
        if (f->module && function_is_managed(f))
            put_package(&t, f->module);
        else
            text_string(&t, f->module ? report_module(f) : "[unknown]");
        text_char(&t, 0);
        r->packages[i] = t.failed ? NULL : intern_string(r->strings, t.at);
        text_free(&t);
        if (!r->packages[i])
            return -1;
    }
    return r->packages ? 0 : -1;
}

static int class_functions(struct report *r, struct class_key *keys)
{
    const struct report_options *o = r->options;
    for (size_t i = 0; i < r->nr_functions; i++) {
        const struct function *f = &r->stacks->functions.at[i];
        bool line = report_has_key(o, KEY_SRCLINE);
        const char *module = NULL;
        if (report_has_key(o, KEY_DSO) && f->module &&
            !(module = intern_string(r->strings, report_module(f))))
            return -1;
        /* if the line is unknown, the function takes its place */
        bool offset = report_has_key(o, KEY_SYMOFF);
        bool symbol = report_has_key(o, KEY_SYM) || offset || (line && !f->file);
        keys[i] = (struct class_key){{
            word_of(module),
            symbol ? r->name_class[i] + 1 : 0,
            line || report_has_key(o, KEY_SRCFILE) ? word_of(f->file) : 0,
            line ? f->line : 0,
            word_of(r->packages ? r->packages[i] : NULL),
            r->function_passes[i] = report_function_passes(o, f),
            offset ? f->offset : 0,
        }};
    }
    r->function_passes[r->nr_functions] = report_function_passes(o, NULL);
    keys[r->nr_functions] =
        (struct class_key){{0, 0, 0, 0, 0, r->function_passes[r->nr_functions]}};
    return number_classes(keys, r->nr_functions + 1, r->function_class);
}

static int make_classes(struct report *r)
{
    struct class_key *keys = calloc(r->nr_functions + 1, sizeof(*keys));
    r->function_passes = calloc(r->nr_functions + 1, sizeof(*r->function_passes));
    r->function_class = calloc(r->nr_functions + 1, sizeof(*r->function_class));
    r->name_class = calloc(r->nr_functions + 1, sizeof(*r->name_class));
    r->chain_class = calloc(r->nr_functions + 1, sizeof(*r->chain_class));
    int failed =
        !keys || !r->function_passes || !r->function_class || !r->name_class || !r->chain_class;
    if (!failed && report_has_key(r->options, KEY_PACKAGE))
        failed = find_packages(r);
    failed = failed || class_names(r, keys) < 0 || class_chains(r, keys) < 0 ||
             class_functions(r, keys) < 0;
    free(keys);
    return failed ? -1 : 0;
}

static int make_groups(struct report *r)
{
    if (report_make_groups(r) < 0)
        return -1;
    struct class_key *keys = calloc(r->groups.nr + 1, sizeof(*keys));
    r->group_class = calloc(r->groups.nr + 1, sizeof(*r->group_class));
    int failed = !keys || !r->group_class || class_groups(r, keys) < 0;
    free(keys);
    return failed ? -1 : 0;
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* Make a tree without functions that have no name. Stacks that end in such a function are left out,
 * because it is unknown where their time went. */
static int drop_unresolved(struct report *r)
{
    uint32_t *index = calloc(r->nr_source, sizeof(*index));
    if (!index || stack_tree_init(&r->resolved) < 0) {
        free(index);
        return -1;
    }
    for (size_t i = 1; i < r->nr_source; i++) {
        const struct stack_node *n = &r->source[i];
        bool named = n->depth == 1 || r->stacks->functions.at[n->function].symbol;
        index[i] = index[n->parent];
        if (!named)
            continue;
        index[i] = stack_tree_child(&r->resolved, index[n->parent], n->function);
        if (!index[i]) {
            free(index);
            return -1;
        }
        if (n->depth > 1) {
            r->resolved.nodes.at[index[i]].samples += n->samples;
            r->resolved.nodes.at[index[i]].period += n->period;
            r->resolved.nodes.at[index[i]].joined += n->joined;
            r->resolved.nodes.at[index[i]].guessed += n->guessed;
        }
    }
    free(index);
    r->source = r->resolved.nodes.at;
    r->nr_source = r->resolved.nodes.nr;
    return 0;
}

/* If an event has no periods, samples are counted. */
static uint64_t weight_of(const struct report *r, const struct stack_node *n)
{
    return n->period && !r->options->by_samples ? n->period : n->samples;
}

/* Compute the index of each of `nr` nodes in an order where everything below a node directly
 * follows it. `ends` must be zeros; it becomes the index after the last node below. */
static void place_nodes(const uint32_t *parents, size_t nr, uint32_t *places, uint32_t *ends)
{
    for (size_t i = nr; i-- > 1;) /* sizes of subtrees, until all nodes are placed */
        ends[parents[i]] += ++ends[i];
    places[0] = 1; /* index of the next child, until all have theirs */
    for (size_t i = 1; i < nr; i++) {
        uint32_t *next = &places[parents[i]];
        places[i] = *next + 1;
        *next += ends[i];
    }
    for (size_t i = 0; i < nr; i++) {
        uint32_t size = i ? ends[i] : places[0];
        ends[i] = places[i];
        places[i] -= size;
    }
}

/* Fill the nodes with the weight of stacks that end there. Also count the samples of each group
 * that are not exact. */
static void fill_nodes(struct report *r, const uint32_t *places, const uint32_t *ends)
{
    r->nodes[0] = (struct report_node){.function = FUNCTION_NONE, .row = ROW_NONE};
    r->parents[0] = 0;
    r->ends[0] = ends[0];
    for (size_t i = 1; i < r->nr_source; i++) {
        const struct stack_node *s = &r->source[i];
        uint32_t place = places[i], parent = places[s->parent];
        bool top = s->depth <= 1;
        struct report_node n = {
            .function = top ? FUNCTION_NONE : s->function,
            .row = ROW_NONE,
            .group = top ? s->function : r->nodes[parent].group,
            .self = weight_of(r, s),
            .samples = s->samples,
        };
        n.total = n.self;
        r->nodes[place] = n;
        r->parents[place] = parent;
        r->ends[place] = ends[i];
        r->doubts[n.group].joined += s->joined;
        r->doubts[n.group].guessed += s->guessed;
    }
}

static void sum_up(struct report *r)
{
    for (size_t i = r->nr_source; i-- > 1;) {
        struct report_node *n = &r->nodes[i];
        struct report_node *up = &r->nodes[r->parents[i]];
        n->height++;
        up->total += n->total;
        if (up->height < n->height)
            up->height = n->height;
    }
}

static int make_nodes(struct report *r)
{
    size_t nr = r->nr_source;
    uint32_t *parents = malloc(nr * sizeof(*parents)); /* in the source's order, as the next two */
    uint32_t *places = malloc(nr * sizeof(*places));
    uint32_t *ends = calloc(nr, sizeof(*ends));
    r->nodes = malloc(nr * sizeof(*r->nodes));
    r->parents = malloc(nr * sizeof(*r->parents));
    r->ends = malloc(nr * sizeof(*r->ends));
    r->doubts = calloc(r->groups.nr + 1, sizeof(*r->doubts));
    bool good = parents && places && ends && r->nodes && r->parents && r->ends && r->doubts;
    for (size_t i = 0; good && i < nr; i++)
        parents[i] = r->source[i].parent;
    if (good) {
        place_nodes(parents, nr, places, ends);
        fill_nodes(r, places, ends);
        sum_up(r);
    }
    free(parents);
    free(places);
    free(ends);
    return good ? 0 : -1;
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Returns the row of a function in a group; a new row is added. ROW_NONE: memory is out. */
static uint32_t row_get(struct report *r, uint32_t group, uint32_t function)
{
    uint32_t group_class = r->group_class[group];
    uint32_t function_class =
        r->function_class[function == FUNCTION_NONE ? r->nr_functions : function];
    const struct report_row new = {.group_class = group_class,
                                   .function_class = function_class,
                                   .group = group,
                                   .function = function};
    return hash_table_intern(
        &r->row_numbers, hash_u64((uint64_t)group_class << 32 | function_class), &r->rows, i,
        r->rows.at[i].group_class == group_class && r->rows.at[i].function_class == function_class,
        new);
}

/* A thread that changed its name is shown with the name that it had for most of the weight. Neither
 * this choice nor that of the function depends on the order of indexes. */
static void row_represent_group(struct report *r, struct report_row *row, uint32_t group,
                                uint64_t weight)
{
    const struct report_group *all = r->groups.at;
    if ((row->group == group && row->group_weight == weight) || row->group_weight > weight ||
        (row->group_weight == weight && strcmp(all[row->group].of.comm, all[group].of.comm) <= 0))
        return;
    row->group = group;
    row->group_weight = weight;
}

/* The keys' text comes from the least of the row's functions. */
static void row_represent(struct report *r, struct report_row *row, uint32_t function)
{
    const struct function *all = r->stacks->functions.at;
    if (row->function == function || function == FUNCTION_NONE)
        return;
    if (row->function == FUNCTION_NONE ||
        report_compare_functions(&all[function], &all[row->function]) < 0)
        row->function = function;
}

static int row_enter(struct report *r, uint32_t node, uint64_t group_weight)
{
    struct report_node *n = &r->nodes[node];
    n->row = row_get(r, n->group, n->function);
    if (n->row == ROW_NONE)
        return -1;
    struct report_row *row = &r->rows.at[n->row];
    row_represent(r, row, n->function);
    row_represent_group(r, row, n->group, group_weight);
    row->self += n->self;
    row->samples += n->samples;
    if (row->height < n->height)
        row->height = n->height;
    n->inner = n->total;
    n->outermost = row->open == 0;
    if (n->outermost)
        row->children += n->total;
    else
        r->nodes[row->open].inner -= n->total;
    return 0;
}

/* Samples without any frame belong to a row without a function. */
static int row_bare(struct report *r, uint32_t top)
{
    struct report_node *n = &r->nodes[top];
    if (!n->self)
        return 0;
    uint32_t index = row_get(r, n->group, FUNCTION_NONE);
    if (index == ROW_NONE)
        return -1;
    struct report_row *row = &r->rows.at[index];
    row->self += n->self;
    row->children += n->self;
    row->samples += n->samples;
    return 0;
}

/* A node that the walk is below, and the node of the same row that was open before it. */
struct opened {
    uint32_t row, before, end;
};

typedef VEC(struct opened) opened_list;

/* Close the nodes that end before node `at`. */
static void close_ended(struct report *r, opened_list *open, uint32_t at)
{
    for (; open->nr && open->at[open->nr - 1].end <= at; open->nr--) {
        const struct opened *o = &open->at[open->nr - 1];
        r->rows.at[o->row].open = o->before;
    }
}

/* Walk down all stacks, in the order of the nodes. */
static int make_rows(struct report *r)
{
    opened_list open = {0};
    uint64_t group_weight = 0;
    int failed = 0;
    for (uint32_t i = 1; i < r->nr_source && !failed; i++) {
        const struct report_node *n = &r->nodes[i];
        close_ended(r, &open, i);
        if (n->function == FUNCTION_NONE) {
            group_weight = n->total;
            failed = row_bare(r, i);
            continue;
        }
        failed = row_enter(r, i, group_weight);
        if (failed)
            break;
        struct report_row *row = &r->rows.at[n->row];
        struct opened o = {n->row, row->open, r->ends[i]};
        failed = vec_push(&open, o) ? 0 : -1;
        row->open = i;
    }
    close_ended(r, &open, (uint32_t)r->nr_source);
    vec_free(&open);
    return failed;
}

/* List the nodes of each row, next to each other. */
static int list_row_nodes(struct report *r)
{
    r->row_first = calloc(r->rows.nr + 2, sizeof(*r->row_first));
    r->row_nodes = calloc(r->nr_source, sizeof(*r->row_nodes));
    if (!r->row_first || !r->row_nodes)
        return -1;
    for (size_t i = 1; i < r->nr_source; i++)
        if (r->nodes[i].row != ROW_NONE)
            r->row_first[r->nodes[i].row + 2]++;
    for (size_t i = 2; i < r->rows.nr + 2; i++)
        r->row_first[i] += r->row_first[i - 1];
    for (uint32_t i = 1; i < r->nr_source; i++)
        if (r->nodes[i].row != ROW_NONE)
            r->row_nodes[r->row_first[r->nodes[i].row + 1]++] = i;
    return 0;
}

/* ---- names --------------------------------------------------------------------------------- */

static char level_of(const struct function *f)
{
    switch (f->kind) {
    case FRAME_KERNEL:
        return 'k';
    case FRAME_GUEST_KERNEL:
        return 'g';
    case FRAME_GUEST_USER:
        return 'u';
    case FRAME_HYPERVISOR:
        return 'H';
    default:
        return '.';
    }
}

const char *report_module(const struct function *f)
{
    return function_is_managed(f) ? f->module : text_base_name(f->module);
}

void report_put_function(struct text *t, const struct function *f, bool row)
{
    if (row) {
        text_char(t, '[');
        text_char(t, f ? level_of(f) : '.');
        text_string(t, "] ");
    }
    if (f && f->symbol) {
        if (function_is_managed(f))
            text_managed_symbol(t, f->symbol);
        else
            text_symbol(t, f->symbol);
        if (f->inlined && !function_is_managed(f))
            text_string(t, " (inlined)");
    } else {
        text_string(t, "0x");
        text_hex_zeros(t, f ? f->address : 0, row ? 16 : 1);
    }
}

void report_put_branch(struct text *t, const struct report_options *o, const struct function *f)
{
    report_put_function(t, f, false);
    if (o->graph_key == GRAPH_OF_FUNCTIONS || !f->symbol)
        return;
    if (f->file) {
        text_char(t, ' ');
        text_symbol(t, text_base_name(f->file));
        text_printf(t, ":%" PRIu32, f->line);
    } else if (!function_is_kernel(f)) {
        text_string(t, " ??:0");
    } else if (o->graph_key == GRAPH_OF_ADDRESSES) { /* as perf does */
        text_printf(t, " +%" PRIu32, f->offset);
    }
}

/* ---- creating and freeing ------------------------------------------------------------------ */

int report_create(const struct stacks *s, const struct report_options *options, struct report **ret,
                  struct error *err)
{
    struct report *r = calloc(1, sizeof(*r));
    if (!r)
        return error_no_memory(err);
    r->stacks = s;
    r->options = options;
    r->source = s->tree.nodes.at;
    r->nr_source = s->tree.nodes.nr;
    r->nr_functions = s->functions.nr;
    r->strings = intern_create();
    if (!r->strings || make_classes(r) < 0 || make_groups(r) < 0 ||
        (options->hide_unresolved && drop_unresolved(r) < 0) || make_nodes(r) < 0 ||
        make_rows(r) < 0 || list_row_nodes(r) < 0) {
        report_free(r);
        return error_no_memory(err);
    }
    *ret = r;
    return 0;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    intern_free(r->strings);
    stack_tree_deinit(&r->regrouped);
    stack_tree_deinit(&r->resolved);
    vec_free(&r->groups);
    free(r->nodes);
    free(r->parents);
    free(r->packages);
    free(r->ends);
    vec_free(&r->rows);
    hash_table_free(&r->row_numbers);
    free(r->group_class);
    free(r->function_class);
    free(r->name_class);
    free(r->chain_class);
    free(r->function_passes);
    free(r->row_first);
    free(r->row_nodes);
    free(r->doubts);
    free(r);
}
