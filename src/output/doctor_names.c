/* SPDX-License-Identifier: GPL-2.0-only */
/* Compares the functions' names from memory, jitdump and perf map. See doctor_names.h. */
#include "output/doctor_names.h"
#include "base/hash.h"
#include "output/output.h"
#include "session/registers.h"
#include "unwind/arch.h"
#include "unwind/v8/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIFFERENCES_SHOWN = 8 };

/* ---- V8's own names ------------------------------------------------------------------------ */

const char *v8_name_function(const char *name)
{
    enum { CUT = 500 }; /* V8 keeps at most 512 bytes */
    static const char *const kinds[] = {
        "JS:", "LazyCompile:", "InterpretedFunction:", "Function:", "Eval:", "Script:"};
    static const char tiers[] = "~^+*o'"; /* from interpreter to optimizer, and variants of these */
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        size_t size = strlen(kinds[i]);
        if (strncmp(name, kinds[i], size) != 0)
            continue;
        const char *tier = name + size;
        /* 'o' is a tier only in front of another tier's mark */
        while (*tier && strchr(tiers, *tier) &&
               (*tier != 'o' || (tier[1] && strchr("*+", tier[1]))))
            tier++;
        return strlen(name) < CUT ? tier : NULL;
    }
    return NULL;
}

/* Is `part` the last part of `whole`, like "method" of "Class.method", or all of it? */
static bool is_last_part(const char *part, size_t nr_part, const char *whole, size_t nr_whole)
{
    if (nr_part > nr_whole || memcmp(whole + nr_whole - nr_part, part, nr_part) != 0)
        return false;
    char before = nr_part < nr_whole ? whole[nr_whole - nr_part - 1] : '.';
    return before == '.' || before == ' ';
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), nr = strlen(end);
    return size >= nr && strcmp(text + size - nr, end) == 0;
}

/* Names are `wasmfn-3-liftoff`, `NAME-3-turbofan`, or in older versions `wasmfn-3`. */
static bool is_wasm_of(const char *function, const struct managed_function *g)
{
    static const char *const tiers[] = {"-liftoff", "-turbofan"};
    size_t size = strlen(function);
    uint64_t index = 0;
    for (size_t i = 0; i < sizeof(tiers) / sizeof(*tiers); i++)
        if (ends_with(function, tiers[i]))
            size -= strlen(tiers[i]);
    size_t digits = size;
    while (digits && function[digits - 1] >= '0' && function[digits - 1] <= '9')
        digits--;
    if (!digits || function[digits - 1] != '-' || digits == size || size - digits > 9)
        return false;
    for (size_t i = digits; i < size; i++)
        index = 10 * index + (uint64_t)(function[i] - '0');
    return g->index && index == g->index - 1;
}

/* Returns the file as V8 writes it. Evaluated code has none there; in memory it has that of its
 * evaluator. */
static const char *v8_file(const struct managed_function *g)
{
    bool own = g->file && !ends_with(g->file, ":<eval>") && strcmp(g->file, "<anonymous>") != 0;
    return own ? g->file : "";
}

bool v8_name_is_of(const char *name, const struct managed_function *g)
{
    const char *function = v8_name_function(name);
    struct text place = {0};
    bool is = false;
    if (!function)
        return false;
    if (g->language == FRAME_WASM)
        return is_wasm_of(function, g);
    size_t size = strlen(function), nr_name = g->name ? strlen(g->name) : 0;
    for (int columns = 1; columns >= 0 && !is; columns--) { /* V8 writes columns since Node 20 */
        place.size = 0;
        text_printf(&place, " %s:%" PRIu32, v8_file(g), g->line);
        if (columns)
            text_printf(&place, ":%" PRIu32, g->column);
        if (place.failed || place.size > size ||
            memcmp(function + size - place.size, place.at, place.size) != 0)
            continue;
        size_t rest = size - place.size;
        is = rest == 0 || (nr_name && (is_last_part(function, rest, g->name, nr_name) ||
                                       is_last_part(g->name, nr_name, function, rest)));
    }
    text_free(&place);
    return is;
}

/* Whether two of V8's own names are the same, apart from the tier. */
static bool is_same(const char *a, const char *b)
{
    const char *x = v8_name_function(a), *y = v8_name_function(b);
    return x && y && strcmp(x, y) == 0;
}

/* ---- counting ------------------------------------------------------------------------------ */

void name_tally_free(struct name_tally *t)
{
    vec_free(&t->names);
    hash_table_free(&t->table);
    *t = (struct name_tally){0};
}

static bool is_same_names(const struct told_names *a, const struct told_names *b)
{
    return a->function == b->function && a->exact == b->exact && a->dump == b->dump &&
           a->map == b->map;
}

static bool count(struct name_tally *t, const struct told_names *what)
{
    uint64_t h =
        hash_combine(hash_combine(what->function << 1 | what->exact, (uintptr_t)what->dump),
                     (uintptr_t)what->map);
    struct told_names none = *what;
    none.frames = 0;
    uint32_t n =
        hash_table_intern(&t->table, h, &t->names, i, is_same_names(&t->names.at[i], what), none);
    if (n != HASH_TABLE_NONE)
        t->names.at[n].frames += what->frames;
    return n != HASH_TABLE_NONE;
}

bool name_tally_add(struct name_tally *to, const struct name_tally *from)
{
    vec_foreach (told, &from->names)
        if (!count(to, told))
            return false;
    return true;
}

/* Look up the names from jitdump and perf map of the function whose code or bytecode is at
 * `address`. */
static void look_up(const struct replay_sample *s, uint64_t address, struct told_names *ret)
{
    enum { MAX = 16 };
    const struct jit_function *found[MAX];
    size_t nr = session_jit_functions(s->thread, address, s->sample->time, found, MAX);
    for (size_t i = 0; i < nr; i++) {
        const struct jit_function **to = found[i]->from_map ? &ret->map : &ret->dump;
        if (!*to && v8_name_function(found[i]->name))
            *to = found[i];
    }
}

/* Returns the address of the first bytecode of the frame's interpreted function; 0: it cannot be
 * read. perf maps list interpreted functions by this address, since all of them run the same
 * machine code. */
static uint64_t first_bytecode(const struct replay_sample *s, const struct frame *f)
{
    size_t nr;
    const struct runtime_instance *v8 = session_runtime(s->thread, &v8_runtime, &nr);
    const struct v8_layout *l = nr ? v8->layout : NULL;
    uint64_t sp = 0;
    enum provenance provenance = PROVENANCE_EXACT;
    uint64_t bytecode;
    if (!l || !s->arch || !f->cfa || !s->sample->stack ||
        s->sample->user_abi != PERF_SAMPLE_REGS_ABI_64)
        return 0;
    sample_user_reg(s->sample, s->arch->perf_sp, &sp);
    struct memory m = sample_memory(s->sample, sp);
    uint64_t at = f->cfa - 16 + (uint64_t)(int64_t)l->fp_bytecode_array;
    if (!memory_read_u64(&m, at, &bytecode, &provenance) || (bytecode & 3) != 1)
        return 0;
    return bytecode - 1 + (uint64_t)l->bytecode_data;
}

/* Count one machine frame. Its functions are `first` to `last`; `last` is the function that owns
 * the code. */
static bool take_frame(struct name_tally *t, const struct replay_sample *s,
                       const struct frame *first, const struct frame *last)
{
    struct told_names told = {.frames = 1, .function = frame_is_managed(last) ? last->function : 0};
    told.exact = told.function && last->provenance == PROVENANCE_EXACT;
    look_up(s, frame_lookup_pc(first), &told);
    if (!told.dump && !told.map && first->tier == TIER_INTERP) {
        uint64_t bytecode = first_bytecode(s, first);
        if (bytecode)
            look_up(s, bytecode, &told);
    }
    return (!told.function && !told.dump && !told.map) || count(t, &told);
}

bool name_tally_take(struct name_tally *t, const struct replay_sample *s)
{
    for (size_t i = 0; i < s->nr_frames; i++) {
        const struct frame *f = &s->frames[i];
        if (f->kind != FRAME_JS && f->kind != FRAME_WASM && f->kind != FRAME_JIT)
            continue;
        while (s->frames[i].flags & FRAME_INLINED && i + 1 < s->nr_frames &&
               s->frames[i + 1].kind == f->kind)
            i++;
        if (!take_frame(t, s, f, &s->frames[i]))
            return false;
    }
    return true;
}

/* ---- printing ------------------------------------------------------------------------------ */

enum pair { MEMORY_DUMP, MEMORY_MAP, DUMP_MAP, NR_PAIRS };
enum source { MEMORY, DUMP, MAP, NR_SOURCES };

struct difference {
    char *text;
    uint64_t frames;
};

struct agreement {
    uint64_t agree[NR_PAIRS], differ[NR_PAIRS];
    uint64_t unmarked[NR_PAIRS]; /* part of `differ` where memory's name is marked exact */
    uint64_t alone[NR_SOURCES];
    VEC(struct difference) differences;
    bool failed;
};

static void judge(struct agreement *a, enum pair pair, bool same, const struct told_names *t)
{
    *(same ? &a->agree[pair] : &a->differ[pair]) += t->frames;
    a->unmarked[pair] += same || !t->exact ? 0 : t->frames;
}

/* Different functions may give the same text. sum_differences() adds up their frames. */
static void note_difference(struct agreement *a, const struct told_names *t,
                            const struct managed_function *g)
{
    struct text what = {0};
    if (t->function) {
        text_string(&what, "memory: ");
        managed_symbol(&what, g);
        text_string(&what, t->exact ? "" : " (marked)");
    }
    if (t->dump)
        text_printf(&what, "%sjitdump: %s", what.size ? " | " : "", t->dump->name);
    if (t->map)
        text_printf(&what, "%sperf map: %s", what.size ? " | " : "", t->map->name);
    text_char(&what, 0);
    if (what.failed || !vec_push(&a->differences, ((struct difference){what.at, t->frames}))) {
        a->failed = true;
        text_free(&what);
    }
}

static void judge_told(struct agreement *a, const struct told_names *t,
                       const struct managed_names *managed)
{
    struct managed_function g;
    const char *dump = t->dump ? t->dump->name : NULL, *map = t->map ? t->map->name : NULL;
    bool memory = t->function && managed_get(managed, t->function, UINT64_MAX, &g) &&
                  g.kind != MANAGED_UNKNOWN;
    bool of_dump = memory && dump && v8_name_is_of(dump, &g);
    bool of_map = memory && map && v8_name_is_of(map, &g);
    bool same = dump && map && is_same(dump, map);
    if (memory && dump)
        judge(a, MEMORY_DUMP, of_dump, t);
    if (memory && map)
        judge(a, MEMORY_MAP, of_map, t);
    if (dump && map)
        judge(a, DUMP_MAP, same, t);
    if (memory + !!dump + !!map == 1)
        a->alone[memory ? MEMORY : dump ? DUMP : MAP] += t->frames;
    struct told_names said = *t;
    said.function = memory ? t->function : 0;
    if ((memory && dump && !of_dump) || (memory && map && !of_map) || (dump && map && !same))
        note_difference(a, &said, &g);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct difference *)a)->text, ((const struct difference *)b)->text);
}

static int by_frames(const void *a, const void *b)
{
    const struct difference *x = a, *y = b;
    if (x->frames != y->frames)
        return x->frames < y->frames ? 1 : -1;
    return strcmp(x->text, y->text);
}

static void sum_differences(struct agreement *a)
{
    size_t nr = 0;
    if (!a->differences.nr)
        return;
    qsort(a->differences.at, a->differences.nr, sizeof(*a->differences.at), by_text);
    vec_foreach (d, &a->differences) {
        if (nr && strcmp(a->differences.at[nr - 1].text, d->text) == 0) {
            a->differences.at[nr - 1].frames += d->frames;
            free(d->text);
            continue;
        }
        a->differences.at[nr++] = *d;
    }
    a->differences.nr = nr;
    qsort(a->differences.at, nr, sizeof(*a->differences.at), by_frames);
}

static void put_pair(const struct agreement *a, enum pair i, struct text *out)
{
    static const char *const pairs[] = {"memory and jitdump", "memory and perf map",
                                        "jitdump and perf map"};
    if (!a->agree[i] && !a->differ[i])
        return;
    text_printf(out, "  named by %-21s %" PRIu64 " agree, %" PRIu64 " differ", pairs[i],
                a->agree[i], a->differ[i]);
    if (i != DUMP_MAP && a->differ[i])
        text_printf(out, ", %" PRIu64 " of these are not marked", a->unmarked[i]);
    text_char(out, '\n');
}

static void put_agreement(struct agreement *a, struct text *out)
{
    text_string(out, "\nNames of JavaScript and WebAssembly functions, counted by frames\n");
    for (int i = 0; i < NR_PAIRS; i++)
        put_pair(a, (enum pair)i, out);
    text_printf(out,
                "  named by one source only: memory %" PRIu64 ", jitdump %" PRIu64
                ", perf map %" PRIu64 "\n",
                a->alone[MEMORY], a->alone[DUMP], a->alone[MAP]);
    for (size_t i = 0; i < a->differences.nr && i < DIFFERENCES_SHOWN; i++) {
        text_printf(out, "  %10" PRIu64 "  ", a->differences.at[i].frames);
        text_symbol(out, a->differences.at[i].text);
        text_char(out, '\n');
    }
    if (a->differences.nr > DIFFERENCES_SHOWN)
        text_printf(out, "  and %zu more\n", a->differences.nr - DIFFERENCES_SHOWN);
}

bool name_tally_print(const struct name_tally *t, const struct managed_names *managed,
                      struct text *out)
{
    struct agreement a = {0};
    uint64_t files = 0;
    vec_foreach (told, &t->names) {
        files += told->dump || told->map;
        judge_told(&a, told, managed);
    }
    sum_differences(&a);
    if (files)
        put_agreement(&a, out);
    vec_foreach (d, &a.differences)
        free(d->text);
    vec_free(&a.differences);
    return !a.failed;
}
