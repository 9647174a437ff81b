/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * V8's row in the table of runtimes (unwind/runtime.h). Passes the part of an ELF file that may be
 * V8's to layout.c: a node binary has a hundred thousand symbols, and V8's layout needs a thousand.
 */
#include "unwind/v8/runtime.h"
#include "base/cursor.h"
#include "unwind/native/cfi.h"
#include "unwind/v8/census.h"
#include "unwind/v8/heap.h"
#include "unwind/v8/machine.h"
#include "unwind/v8/names.h"
#include "unwind/v8/variables.h"
#include "unwind/v8/walk.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* Symbol tables that are searched: the file's own two, and its debug file's. */
enum { EXPORTED, TABLES = 3 };
struct source {
    const struct runtime_image *image;
    const struct v8_machine *machine;
    struct runtime_symbols tables[TABLES];
    uint64_t blob, blob_size; /* address range of the builtins; size 0: not known */
};

/* Symbols of V8 that matter are local functions, and data: numbers of 4 bytes, and a table of three
 * rows with one or four bytes for each bytecode. The names of all other symbols are not read, which
 * saves a cache miss each; undefined symbols are skipped too. */
static bool may_be_v8(const struct runtime_symbols *t, const uint8_t *at)
{
    enum { BYTECODES_MIN = 100, ROWS = 3 };
    bool local = ELF64_ST_BIND(at[4]) == STB_LOCAL;
    uint64_t size = load_u64(at + 16, false);
    switch (ELF64_ST_TYPE(at[4])) {
    case STT_FUNC:
        if (!local)
            return false;
        break;
    case STT_OBJECT:
        if (size != 4 && (size < ROWS * BYTECODES_MIN || size % ROWS))
            return false;
        break;
    default:
        break;
    }
    return (at[6] || at[7]) && load_u32(at, false) < t->strings_size; /* at[6], at[7]: st_shndx */
}

/* Metadata, versions and tables are exported data. Builtins are local functions of the one object
 * file that contains the blob, among ten times as many other local functions. */
static bool is_likely(const struct source *s, size_t table, const uint8_t *at)
{
    return table == EXPORTED ? at[4] == ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT)
                             : at[4] == ELF64_ST_INFO(STB_LOCAL, STT_FUNC) &&
                                   load_u64(at + 8, false) - s->blob < s->blob_size;
}

static bool symbol_next(void *context, bool all, size_t *index, struct v8_symbol *ret)
{
    const struct source *s = context;
    size_t first = 0; /* index of the table's first symbol */
    for (size_t i = 0; (all || s->blob_size) && i < TABLES; first += s->tables[i++].nr) {
        const struct runtime_symbols *t = &s->tables[i];
        size_t from = *index > first ? *index - first : 0;
        for (size_t n = from; n < (all ? t->nr : t->nr_local); n++) {
            const uint8_t *at = t->entries + n * sizeof(Elf64_Sym);
            if ((!all && !is_likely(s, i, at)) || !may_be_v8(t, at))
                continue;
            *ret = (struct v8_symbol){t->strings + load_u32(at, false), load_u64(at + 8, false),
                                      load_u64(at + 16, false)};
            *index = first + n + 1;
            return true;
        }
    }
    return false;
}

static const uint8_t *bytes_at(void *context, uint64_t address, size_t size)
{
    const struct runtime_image *i = ((const struct source *)context)->image;
    return i->bytes(i->context, address, size);
}

static uint64_t word_at(void *context, uint64_t address)
{
    const struct runtime_image *i = ((const struct source *)context)->image;
    return i->word(i->context, address);
}

static bool segment_at(void *context, size_t index, struct v8_segment *ret)
{
    const struct runtime_image *i = ((const struct source *)context)->image;
    struct runtime_segment s;
    if (!i->segment(i->context, index, &s))
        return false;
    *ret = (struct v8_segment){s.address, s.size, s.executable, s.writable};
    return true;
}

/* ---- where the blob is --------------------------------------------------------------------- */

/* Get what a function without arguments returns. */
static bool returned(struct source *s, const char *name, bool load, uint64_t *ret)
{
    uint64_t address;
    return s->image->exported(s->image->context, name, &address) &&
           s->machine->returned(s->image, address, load, ret);
}

/* V8 8.5 and later export functions that return the address and the size of the blob. */
static void find_blob(struct source *s)
{
    if (!returned(s, "_ZN2v88internal23DefaultEmbeddedBlobCodeEv", false, &s->blob) ||
        !returned(s, "_ZN2v88internal27DefaultEmbeddedBlobCodeSizeEv", true, &s->blob_size))
        s->blob_size = 0;
}

/* ---- the row ------------------------------------------------------------------------------- */

/* Every V8 since 2010 exports this symbol. */
static bool may_hold(const struct runtime_image *image)
{
    uint64_t ignored;
    return image->exported(image->context, "v8dbg_frametype_EntryFrame", &ignored);
}

/* Returns the row of the file's machine; NULL: it has none. (A file without unwind rules is of
 * x86-64: AArch64's always have some.) */
static const struct v8_machine *machine_of(const struct runtime_image *image)
{
    static const struct v8_machine *const machines[] = {&v8_machine_x86_64, &v8_machine_aarch64};
    if (!image->cfi)
        return machines[0];
    for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++)
        if (image->cfi->arch == machines[i]->arch)
            return machines[i];
    return NULL;
}

static int discover(const struct runtime_image *image, void **ret, struct error *err)
{
    struct source s = {.image = image, .machine = machine_of(image)};
    struct v8_layout *layout = NULL;
    if (!may_hold(image))
        return 0;
    if (!s.machine)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: V8 of %s is not read, only that of x86-64 and AArch64", image->name,
                         image->cfi->arch->title);
    image->symbols(image->context, s.tables);
    find_blob(&s);
    const struct v8_image view = {image->name, s.machine,  symbol_next, bytes_at,
                                  word_at,     segment_at, &s};
    int found = v8_layout_create(&view, &layout, err);
    *ret = layout;
    return found;
}

static void layout_free(void *layout)
{
    v8_layout_free(layout);
}

/* ---- objects ------------------------------------------------------------------------------- */

struct listing {
    struct v8_reader r;
    runtime_add_object *add;
    void *context;
    int failed;
    struct error *err;
};

static bool list_function(void *context, uint64_t tagged)
{
    struct listing *l = context;
    struct v8_sfi sfi;
    if (v8_sfi_read(&l->r, tagged, &sfi) && sfi.bytecode)
        l->failed = l->add(l->context, RUNTIME_LIST_FUNCTIONS, sfi.bytecode, 0, sfi.sfi, l->err);
    return !l->failed;
}

static bool pass_code(void *context, uint64_t pc, uint64_t low)
{
    (void)context;
    (void)pc;
    (void)low;
    return true;
}

/* List which function each BytecodeArray of the heap belongs to. */
static int list_objects(const struct runtime_memory *m, const struct runtime_instance *at,
                        const struct runtime_vm *vms, size_t nr_vms, runtime_add_object *add,
                        void *context, struct error *err)
{
    struct listing l = {.r = {.memory = m->memory, .layout = at->layout},
                        .add = add,
                        .context = context,
                        .err = err};
    const struct v8_heap_visitor visitor = {list_function, pass_code, &l};
    (void)vms;
    (void)nr_vms;
    int failed = v8_heap_scan(m->memory, at->layout, m->anonymous, m->nr_anonymous, &visitor, err);
    return failed ? failed : l.failed;
}

/* ---- the walk of a sample ------------------------------------------------------------------ */

struct tables {
    struct v8_names *names;
    struct v8_frame_cache *frames; /* NULL: no memory log, so each frame is read anew */
};

static void tables_free(void *tables)
{
    struct tables *t = tables;
    if (!t)
        return;
    v8_names_free(t->names);
    v8_frame_cache_free(t->frames);
    free(t);
}

static void *tables_create(struct managed_names *managed, bool has_log)
{
    struct tables *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->names = v8_names_create(managed);
    if (has_log)
        t->frames = v8_frame_cache_create(0);
    if (t->names && (t->frames || !has_log))
        return t;
    tables_free(t);
    return NULL;
}

struct sample_walk {
    struct v8_process process;
    const struct runtime_sample *sample;
    struct v8_names *names;
};

static bool name_frame(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                       struct frame *ret)
{
    struct sample_walk *w = context;
    struct v8_named named;
    if (v8_names_function(w->names, r, w->sample->pid, w->sample->batch, sfi, offset, &named) < 0)
        return false;
    ret->function = named.function;
    if (named.function && ret->tier == TIER_ASYNC)
        ret->function = v8_names_awaiting(w->names, named.function, w->sample->batch);
    if (named.function && !ret->function)
        return false;
    ret->line = named.line;
    ret->column = named.column;
    if (named.bare && ret->provenance == PROVENANCE_EXACT)
        ret->provenance = PROVENANCE_STALE;
    return true;
}

static bool name_wasm(void *context, struct v8_reader *r, const struct v8_wasm *wasm,
                      struct frame *ret)
{
    struct sample_walk *w = context;
    struct v8_named named;
    if (v8_names_wasm(w->names, r, w->sample->pid, w->sample->batch, wasm, &named) < 0)
        return false;
    ret->function = named.function;
    ret->line = named.line;
    return true;
}

static bool name_own(void *context, const char *name, struct frame *ret)
{
    const struct sample_walk *w = context;
    ret->function = v8_names_own(w->names, name);
    return ret->function != 0;
}

/* Look functions up in snapshots by the BytecodeArray, which stays where it is while closures come
 * and go. */
static size_t find_functions(void *context, uint64_t bytecode, uint64_t *ret, size_t max)
{
    const struct runtime_sample *s = ((const struct sample_walk *)context)->sample;
    return s->find(s->context, RUNTIME_LIST_FUNCTIONS, bytecode, ret, max);
}

static void look_up(void *walk)
{
    struct sample_walk *w = walk;
    size_t nr;
    const struct runtime_instance *at = w->sample->instances(w->sample->context, &v8_runtime, &nr);
    w->process.layout = nr ? at->layout : NULL;
}

static void walk_begin(void *walk, void *tables, const struct runtime_sample *s, struct walker *ret)
{
    struct sample_walk *w = walk;
    const struct tables *t = tables;
    w->sample = s;
    w->names = t->names;
    w->process = (struct v8_process){
        .namer = {.name = name_frame, .wasm = name_wasm, .own = name_own, .context = w},
        .functions = s->find ? find_functions : NULL,
        .no_objects = s->no_objects,
        .awaits = s->awaits,
        .seen = s->reads_anew || s->places ? NULL : t->frames,
        .places = s->places,
        .space = s->pid};
    *ret = v8_walker(&w->process);
}

static int variables(void *walk, const struct memory *m, const struct variable_place *at,
                     struct variables *ret)
{
    struct sample_walk *w = walk;
    return v8_variables(w->names, w->sample->pid, w->sample->batch, m, at, ret);
}

const struct runtime v8_runtime = {.name = "V8",
                                   .may_hold = may_hold,
                                   .discover = discover,
                                   .layout_free = layout_free,
                                   .describe = v8_describe,
                                   .tables_create = tables_create,
                                   .tables_free = tables_free,
                                   .list_objects = list_objects,
                                   .walk_begin = walk_begin,
                                   .walk_size = sizeof(struct sample_walk),
                                   .look_up = look_up,
                                   .variables = variables,
                                   .census = &v8_census};
