/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The Firefox Profiler's "processed profile", version 61 (the viewer upgrades profiles of older
 * versions than its own). A frame is a position of the profile (profile_line). A stack is a frame
 * with its callers. All threads share both tables. Format: the profiler's docs-developer/ and
 * src/types/profile.ts.
 */
#include "output/export.h"
#include "output/json.h"

#include <inttypes.h>
#include <stdlib.h>

enum { VERSION = 61, GECKO_VERSION = 27, DOUBTS = PROVENANCE_GUESS + 1 };

/* The categories that frame kinds map to. The first one must be grey. */
static const struct {
    const char *name, *color;
} categories[] = {
    {"Other", "grey"},        {"Native", "blue"},        {"Kernel", "orange"},     {"Lua", "green"},
    {"JavaScript", "yellow"}, {"WebAssembly", "purple"}, {"Generated", "magenta"},
};

static unsigned category_of(uint8_t kind)
{
    switch (kind) {
    case FRAME_NATIVE:
    case FRAME_GUEST_USER:
        return 1;
    case FRAME_KERNEL:
    case FRAME_GUEST_KERNEL:
    case FRAME_HYPERVISOR:
        return 2;
    case FRAME_LUA:
        return 3;
    case FRAME_JS:
        return 4;
    case FRAME_WASM:
        return 5;
    case FRAME_MANAGED:
    case FRAME_JIT:
    case FRAME_STUB:
        return 6;
    default:
        return 0;
    }
}

struct resource {
    const char *module;
    uint32_t dso;
};

struct writer {
    const struct export *e;
    struct json *j;
    struct string_numbers strings, sources;
    VEC(struct resource) resources; /* also the libs, which have the same order */
    uint32_t *resource_of;          /* per function: index + 1; 0: none */
    uint32_t *location_of;          /* per line: index of its location */
    uint32_t *stack_of;             /* per node: the stack of the node's outermost line */
    struct thread_samples by_thread;
    uint64_t start; /* time of the first sample */
    bool failed;
};

/* ---- columns ------------------------------------------------------------------------------- */

typedef void (*put_cell)(struct writer *w, size_t row);

static void put_column(struct writer *w, const char *name, size_t nr, put_cell put)
{
    json_key(w->j, name);
    json_array(w->j);
    for (size_t i = 0; i < nr; i++)
        put(w, i);
    json_array_end(w->j);
}

static void put_length(struct writer *w, size_t nr)
{
    json_key_uint(w->j, "length", nr);
}

static void put_null(struct writer *w, size_t row)
{
    (void)row;
    json_null(w->j);
}

static void put_no_address(struct writer *w, size_t row)
{
    (void)row;
    json_int(w->j, -1);
}

static void put_one(struct writer *w, size_t row)
{
    (void)row;
    json_uint(w->j, 1);
}

static void put_false(struct writer *w, size_t row)
{
    (void)row;
    json_bool(w->j, false);
}

static void put_or_null(struct writer *w, uint32_t value)
{
    if (value)
        json_uint(w->j, value);
    else
        json_null(w->j);
}

/* ---- frames -------------------------------------------------------------------------------- */

static const struct profile_line *line_at(const struct writer *w, size_t row)
{
    return &w->e->profile->lines.at[row];
}

static const struct profile_location *location_at(const struct writer *w, size_t row)
{
    return &w->e->profile->locations.at[w->location_of[row]];
}

/* 0: the outermost function of its address. */
static void put_inline_depth(struct writer *w, size_t row)
{
    const struct profile_location *l = location_at(w, row);
    json_uint(w->j, l->first_line + l->nr_lines - 1 - row);
}

static void put_category(struct writer *w, size_t row)
{
    json_uint(w->j, category_of(location_at(w, row)->kind));
}

static void put_subcategory(struct writer *w, size_t row)
{
    const struct profile_location *l = location_at(w, row);
    json_uint(w->j, l->tier * DOUBTS + l->provenance);
}

static void put_frame_func(struct writer *w, size_t row)
{
    json_uint(w->j, line_at(w, row)->function);
}

static void put_frame_line(struct writer *w, size_t row)
{
    put_or_null(w, line_at(w, row)->line);
}

static void put_frame_column(struct writer *w, size_t row)
{
    put_or_null(w, line_at(w, row)->column);
}

static void put_frames(struct writer *w)
{
    size_t nr = w->e->profile->lines.nr;
    json_key(w->j, "frameTable");
    json_object(w->j);
    put_column(w, "address", nr, put_no_address);
    put_column(w, "inlineDepth", nr, put_inline_depth);
    put_column(w, "category", nr, put_category);
    put_column(w, "subcategory", nr, put_subcategory);
    put_column(w, "func", nr, put_frame_func);
    put_column(w, "nativeSymbol", nr, put_null);
    put_column(w, "innerWindowID", nr, put_null);
    put_column(w, "line", nr, put_frame_line);
    put_column(w, "column", nr, put_frame_column);
    put_length(w, nr);
    json_object_end(w->j);
}

/* ---- functions and their sources ----------------------------------------------------------- */

static const struct profile_function *function_at(const struct writer *w, size_t row)
{
    return &w->e->profile->functions.at[row];
}

static void put_name(struct writer *w, size_t row)
{
    json_uint(w->j, string_number(&w->strings, function_at(w, row)->name));
}

static void put_is_js(struct writer *w, size_t row)
{
    json_bool(w->j, function_at(w, row)->kind == FRAME_JS);
}

static void put_resource(struct writer *w, size_t row)
{
    json_int(w->j, (int64_t)w->resource_of[row] - 1);
}

static void put_source(struct writer *w, size_t row)
{
    const char *file = function_at(w, row)->file;
    if (file)
        json_uint(w->j, string_number(&w->sources, file));
    else
        json_null(w->j);
}

static void put_defined_line(struct writer *w, size_t row)
{
    put_or_null(w, function_at(w, row)->line);
}

static void put_defined_column(struct writer *w, size_t row)
{
    put_or_null(w, function_at(w, row)->column);
}

static void put_functions(struct writer *w)
{
    size_t nr = w->e->profile->functions.nr;
    json_key(w->j, "funcTable");
    json_object(w->j);
    put_column(w, "name", nr, put_name);
    put_column(w, "isJS", nr, put_is_js);
    put_column(w, "relevantForJS", nr, put_false);
    put_column(w, "resource", nr, put_resource);
    put_column(w, "source", nr, put_source);
    put_column(w, "lineNumber", nr, put_defined_line);
    put_column(w, "columnNumber", nr, put_defined_column);
    put_length(w, nr);
    json_object_end(w->j);
}

static void put_resource_name(struct writer *w, size_t row)
{
    json_uint(w->j,
              string_number_of(&w->strings, w->e, text_base_name(w->resources.at[row].module)));
}

static void put_index(struct writer *w, size_t row)
{
    json_uint(w->j, row);
}

static void put_resources(struct writer *w)
{
    size_t nr = w->resources.nr;
    json_key(w->j, "resourceTable");
    json_object(w->j);
    put_column(w, "type", nr, put_one); /* a library */
    put_column(w, "lib", nr, put_index);
    put_column(w, "name", nr, put_resource_name);
    put_column(w, "host", nr, put_null);
    put_length(w, nr);
    json_object_end(w->j);
}

static void put_source_file(struct writer *w, size_t row)
{
    json_uint(w->j, string_number(&w->strings, w->sources.strings.at[row]));
}

static void put_sources(struct writer *w)
{
    size_t nr = w->sources.strings.nr;
    json_key(w->j, "sources");
    json_object(w->j);
    put_column(w, "id", nr, put_null);
    put_column(w, "filename", nr, put_source_file);
    put_column(w, "startLine", nr, put_one);
    put_column(w, "startColumn", nr, put_one);
    put_column(w, "sourceMapURL", nr, put_null);
    put_length(w, nr);
    json_object_end(w->j);
}

static void put_native_symbols(struct writer *w)
{
    static const char *const columns[] = {"libIndex", "address", "name", "functionSize"};
    json_key(w->j, "nativeSymbols");
    json_object(w->j);
    for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
        put_column(w, columns[i], 0, put_null);
    put_length(w, 0);
    json_object_end(w->j);
}

static void put_libs(struct writer *w)
{
    const char *arch = perfdata_arch(replay_perfdata(w->e->replay));
    json_key(w->j, "libs");
    json_array(w->j);
    vec_foreach (r, &w->resources) {
        char hex[2 * BUILD_ID_MAX + 1];
        const char *name = text_base_name(r->module);
        export_build_id(w->e, r->dso, hex);
        json_object(w->j);
        json_key_string(w->j, "arch", arch ? arch : "");
        json_key_string(w->j, "name", name);
        json_key_string(w->j, "path", r->module);
        json_key_string(w->j, "debugName", name);
        json_key_string(w->j, "debugPath", r->module);
        json_key_string(w->j, "breakpadId", "");
        json_key_string(w->j, "codeId", *hex ? hex : NULL);
        json_object_end(w->j);
    }
    json_array_end(w->j);
}

/* ---- stacks -------------------------------------------------------------------------------- */

static void put_stack_frames(struct writer *w, size_t node)
{
    const struct profile *p = w->e->profile;
    const struct profile_location *l = &p->locations.at[p->nodes.at[node + 1].location];
    for (uint32_t i = l->nr_lines; i-- > 0;)
        json_uint(w->j, l->first_line + i);
}

/* Returns the stack of a node's innermost line. */
static uint32_t stack_at(const struct writer *w, uint32_t node)
{
    const struct profile *p = w->e->profile;
    return w->stack_of[node] + p->locations.at[p->nodes.at[node].location].nr_lines - 1;
}

static void put_stack_prefixes(struct writer *w, size_t node)
{
    const struct profile *p = w->e->profile;
    const struct profile_node *n = &p->nodes.at[node + 1];
    if (n->parent)
        json_uint(w->j, stack_at(w, n->parent));
    else
        json_null(w->j);
    for (uint32_t i = 1; i < p->locations.at[n->location].nr_lines; i++)
        json_uint(w->j, w->stack_of[node + 1] + i - 1);
}

static void put_stacks(struct writer *w)
{
    const struct profile *p = w->e->profile;
    size_t nr = p->nodes.nr - 1; /* without the root */
    json_key(w->j, "stackTable");
    json_object(w->j);
    put_column(w, "frame", nr, put_stack_frames);
    put_column(w, "prefix", nr, put_stack_prefixes);
    put_length(w, nr ? stack_at(w, (uint32_t)nr) + 1 : 0);
    json_object_end(w->j);
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { NS_PER_MS_DIGITS = 6 };

/* Write one column of a thread's wanted samples. */
static void put_samples_column(struct writer *w, const char *name, uint32_t thread, put_cell put)
{
    json_key(w->j, name);
    json_array(w->j);
    for (uint32_t i = w->by_thread.starts[thread]; i < w->by_thread.starts[thread + 1]; i++)
        put(w, w->by_thread.order[i]);
    json_array_end(w->j);
}

static void put_sample_stack(struct writer *w, size_t sample)
{
    json_uint(w->j, stack_at(w, w->e->profile->samples.at[sample].node));
}

static void put_sample_time(struct writer *w, size_t sample)
{
    uint64_t time = w->e->profile->samples.at[sample].time;
    json_fixed(w->j, (int64_t)(time - w->start), NS_PER_MS_DIGITS);
}

static void put_sample_ms(struct writer *w, size_t sample)
{
    json_fixed(w->j, (int64_t)export_weight(w->e, &w->e->profile->samples.at[sample]),
               NS_PER_MS_DIGITS);
}

static void put_sample_ns(struct writer *w, size_t sample)
{
    json_uint(w->j, w->e->profile->samples.at[sample].period);
}

static size_t count_samples(const struct writer *w, uint32_t thread)
{
    return w->by_thread.starts[thread + 1] - w->by_thread.starts[thread];
}

static void put_sample_bytes(struct writer *w, size_t sample)
{
    json_uint(w->j, export_weight(w->e, &w->e->profile->samples.at[sample]));
}

/* A sample weighs its time or its bytes. One of another event weighs one, because the viewer's only
 * units are milliseconds, bytes and samples. */
static void put_samples(struct writer *w, uint32_t thread)
{
    static const char *const types[] = {
        [UNIT_COUNT] = "samples", [UNIT_NS] = "tracing-ms", [UNIT_BYTES] = "bytes"};
    enum weight_unit unit = w->e->samples ? UNIT_COUNT : replay_unit(w->e->replay, w->e->event);
    json_key(w->j, "samples");
    json_object(w->j);
    put_samples_column(w, "stack", thread, put_sample_stack);
    put_samples_column(w, "time", thread, put_sample_time);
    if (unit == UNIT_COUNT) {
        json_key(w->j, "weight");
        json_null(w->j);
    } else {
        put_samples_column(w, "weight", thread, unit == UNIT_NS ? put_sample_ms : put_sample_bytes);
    }
    if (unit == UNIT_NS && !replay_options(w->e->replay)->weight)
        put_samples_column(w, "threadCPUDelta", thread, put_sample_ns);
    json_key_string(w->j, "weightType", types[unit]);
    put_length(w, count_samples(w, thread));
    json_object_end(w->j);
}

static void put_markers(struct writer *w)
{
    static const char *const columns[] = {"data",    "name",  "startTime",
                                          "endTime", "phase", "category"};
    json_key(w->j, "markers");
    json_object(w->j);
    for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
        put_column(w, columns[i], 0, put_null);
    put_length(w, 0);
    json_object_end(w->j);
}

static void put_thread(struct writer *w, uint32_t index)
{
    const struct profile_thread *t = &w->e->profile->threads.at[index];
    char pid[16];
    snprintf(pid, sizeof(pid), "%" PRIu32, t->pid);
    json_object(w->j);
    json_key_string(w->j, "processType", "default");
    json_key_uint(w->j, "processStartupTime", 0);
    json_key_string(w->j, "processShutdownTime", NULL);
    json_key_uint(w->j, "registerTime", 0);
    json_key_string(w->j, "unregisterTime", NULL);
    json_key(w->j, "pausedRanges");
    json_array(w->j);
    json_array_end(w->j);
    json_key_string(w->j, "name", t->comm);
    json_key(w->j, "isMainThread");
    json_bool(w->j, t->pid == t->tid);
    json_key_string(w->j, "processName", t->comm);
    json_key_string(w->j, "pid", pid);
    json_key_uint(w->j, "tid", t->tid);
    put_samples(w, index);
    put_markers(w);
    json_object_end(w->j);
}

/* ---- the whole file ------------------------------------------------------------------------ */

static void put_subcategories(struct writer *w)
{
    json_key(w->j, "subcategories");
    json_array(w->j);
    for (unsigned tier = 0; tier < NR_TIERS; tier++)
        for (unsigned doubt = 0; doubt < DOUBTS; doubt++) {
            struct text t = {0};
            const char *word = export_tier((uint8_t)tier);
            if (doubt)
                text_printf(&t, "%s%s%s", word ? word : "", word ? ", " : "",
                            export_provenance((uint8_t)doubt));
            else
                text_string(&t, word ? word : "Other");
            text_char(&t, 0);
            json_string(w->j, t.failed ? "" : t.at);
            w->failed |= t.failed;
            text_free(&t);
        }
    json_array_end(w->j);
}

static void put_categories(struct writer *w)
{
    json_key(w->j, "categories");
    json_array(w->j);
    for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
        json_object(w->j);
        json_key_string(w->j, "name", categories[i].name);
        json_key_string(w->j, "color", categories[i].color);
        put_subcategories(w);
        json_object_end(w->j);
    }
    json_array_end(w->j);
}

/* Returns the requested time between samples in ns; a millisecond if the event does not measure
 * time. */
static uint64_t interval(const struct writer *w)
{
    const struct perfdata *pd = replay_perfdata(w->e->replay);
    const uint64_t second = 1000000000;
    if (w->e->event >= perfdata_nr_events(pd))
        return second / 1000;
    const struct perf_event_attr *a = &perfdata_event(pd, w->e->event)->attr;
    if (a->freq && a->sample_freq)
        return second / a->sample_freq;
    return export_is_time(w->e, w->e->event) && a->sample_period ? a->sample_period : second / 1000;
}

static void put_meta(struct writer *w)
{
    const struct perfdata *pd = replay_perfdata(w->e->replay);
    json_key(w->j, "meta");
    json_object(w->j);
    put_categories(w);
    json_key(w->j, "interval");
    json_fixed(w->j, (int64_t)interval(w), NS_PER_MS_DIGITS);
    json_key(w->j, "startTime");
    json_fixed(w->j, (int64_t)export_wall_clock(w->e, w->start), NS_PER_MS_DIGITS);
    json_key_uint(w->j, "processType", 0);
    json_key_string(w->j, "product", perfdata_path(pd));
    json_key_uint(w->j, "stackwalk", 1);
    json_key_uint(w->j, "version", GECKO_VERSION);
    json_key_uint(w->j, "preprocessedProfileVersion", VERSION);
    json_key(w->j, "symbolicated");
    json_bool(w->j, true);
    json_key_string(w->j, "importedFrom", "ljperf");
    if (perfdata_cmdline(pd))
        json_key_string(w->j, "arguments", perfdata_cmdline(pd));
    if (perfdata_osrelease(pd))
        json_key_string(w->j, "oscpu", perfdata_osrelease(pd));
    json_key(w->j, "sourceCodeIsNotOnSearchfox");
    json_bool(w->j, true);
    json_key(w->j, "markerSchema");
    json_array(w->j);
    json_array_end(w->j);
    json_key(w->j, "sampleUnits");
    json_object(w->j);
    json_key_string(w->j, "time", "ms");
    json_key_string(w->j, "eventDelay", "ms");
    json_key_string(w->j, "threadCPUDelta", "ns");
    json_object_end(w->j);
    json_object_end(w->j);
}

/* The strings come last, because the other tables give them their numbers. */
static void put_shared(struct writer *w)
{
    json_key(w->j, "shared");
    json_object(w->j);
    put_stacks(w);
    put_frames(w);
    put_functions(w);
    put_resources(w);
    put_native_symbols(w);
    put_sources(w);
    json_key(w->j, "stringArray");
    json_array(w->j);
    vec_foreach (s, &w->strings.strings)
        json_string(w->j, *s);
    json_array_end(w->j);
    json_object_end(w->j);
}

static void put_profile(struct writer *w)
{
    json_object(w->j);
    put_meta(w);
    put_libs(w);
    put_shared(w);
    json_key(w->j, "threads");
    json_array(w->j);
    for (uint32_t i = 0; i < w->e->profile->threads.nr; i++)
        if (count_samples(w, i))
            put_thread(w, i);
    json_array_end(w->j);
    json_object_end(w->j);
}

/* Returns the index + 1 of a module's resource; 0: memory is out. */
static uint32_t resource_of(struct writer *w, const char *module, uint32_t dso)
{
    for (size_t i = w->resources.nr; i-- > 0;)
        if (w->resources.at[i].module == module && w->resources.at[i].dso == dso)
            return (uint32_t)i + 1;
    return vec_push(&w->resources, (struct resource){module, dso}) ? (uint32_t)w->resources.nr : 0;
}

static bool prepare(struct writer *w)
{
    const struct profile *p = w->e->profile;
    uint32_t stack = 0;
    w->resource_of = calloc(p->functions.nr + 1, sizeof(*w->resource_of));
    w->location_of = calloc(p->lines.nr + 1, sizeof(*w->location_of));
    w->stack_of = calloc(p->nodes.nr + 1, sizeof(*w->stack_of));
    if (!w->resource_of || !w->location_of || !w->stack_of ||
        !thread_samples_make(w->e, &w->by_thread))
        return false;
    for (uint32_t i = 0; i < p->locations.nr; i++) {
        const struct profile_location *l = &p->locations.at[i];
        for (uint32_t k = l->first_line; k < l->first_line + l->nr_lines; k++) {
            uint32_t function = p->lines.at[k].function;
            const char *module = p->functions.at[function].module;
            w->location_of[k] = i;
            if (module && !w->resource_of[function] &&
                !(w->resource_of[function] = resource_of(w, module, l->dso)))
                return false;
        }
    }
    for (size_t i = 1; i < p->nodes.nr; i++) {
        w->stack_of[i] = stack;
        stack += p->locations.at[p->nodes.at[i].location].nr_lines;
    }
    w->start = p->samples.nr ? p->samples.at[0].time : 0;
    return true;
}

int export_firefox(const struct export *e, FILE *out, struct error *err)
{
    struct writer w = {.e = e, .j = json_create(out)};
    w.failed = !w.j || !prepare(&w);
    if (!w.failed)
        put_profile(&w);
    if (w.j && !json_finish(w.j))
        w.failed = true;
    bool failed = w.failed || w.strings.failed || w.sources.failed;
    string_numbers_free(&w.strings);
    string_numbers_free(&w.sources);
    vec_free(&w.resources);
    thread_samples_free(&w.by_thread);
    free(w.resource_of);
    free(w.location_of);
    free(w.stack_of);
    return failed ? error_no_memory(err) : 0;
}
