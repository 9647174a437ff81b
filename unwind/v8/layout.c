/* SPDX-License-Identifier: GPL-2.0-only */
/* Fills a layout from symbols and from the table by version. */
#include "unwind/v8/layout.h"

#include "base/cursor.h"
#include "base/vec.h"
#include "unwind/v8/blob.h"
#include "unwind/v8/builtin.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ----------------------------------------------------------------------------- */

enum { COLUMNS = 11 };

static const struct {
    int32_t major, minor;
    const char *node;
} columns[COLUMNS] = {
    {7, 8, "12"},  {8, 4, "14"},  {9, 4, "16"},  {10, 2, "18"}, {11, 3, "20"}, {11, 8, "21"},
    {12, 4, "22"}, {12, 9, "23"}, {13, 6, "24"}, {14, 1, "25"}, {14, 6, "26"},
};

static const struct {
    const char *name, *symbol;
    int32_t values[COLUMNS];
    const char *text;
} fields[V8_NR_FIELDS] = {
#define X(name, symbol, a, b, c, d, e, f, g, h, i, j, k, text) \
    {#name, symbol, {a, b, c, d, e, f, g, h, i, j, k}, text},
    V8_FIELDS(X, V8_UNKNOWN)
#undef X
};

static int32_t *field_of(struct v8_layout *l, size_t i)
{
    int32_t *const at[V8_NR_FIELDS] = {
#define X(name, ...) &l->name,
        V8_FIELDS(X, 0)
#undef X
    };
    return at[i];
}

struct v8_field_view v8_layout_field(const struct v8_layout *l, enum v8_field field)
{
    return (struct v8_field_view){
        .name = fields[field].name,
        .symbol = fields[field].symbol,
        .text = fields[field].text,
        .value = *field_of((struct v8_layout *)l, field),
        .metadata = l->metadata[field / 64] >> (field % 64) & 1,
    };
}

/* Uses the newest column that is not newer than the version. false: the version is older than
 * all. */
static bool use_table(struct v8_layout *l)
{
    int column = -1;
    for (int i = 0; i < COLUMNS; i++) {
        bool newer = columns[i].major > l->version[0] ||
                     (columns[i].major == l->version[0] && columns[i].minor > l->version[1]);
        column = newer ? column : i;
    }
    if (column < 0)
        return false;
    l->node = columns[column].node;
    l->column = column;
    l->verified = columns[column].major == l->version[0] && columns[column].minor == l->version[1];
    for (size_t i = 0; i < V8_NR_FIELDS; i++)
        *field_of(l, i) = fields[i].values[column];
    return true;
}

/* ---- symbols ------------------------------------------------------------------------------- */

struct found_symbol {
    const char *name;
    uint64_t address, size;
};

struct found {
    VEC(struct found_symbol) metadata; /* names without "v8dbg_" */
    VEC(struct found_symbol) builtins; /* names without "Builtins_" */
    uint64_t version[4];
    unsigned nr_version;
    struct found_symbol sizes; /* the table of bytecode sizes */
};

static bool take_symbol(struct found *f, const struct v8_symbol *s)
{
    static const char *const versions[] = {
        "_ZN2v88internal7Version6major_E", "_ZN2v88internal7Version6minor_E",
        "_ZN2v88internal7Version6build_E", "_ZN2v88internal7Version6patch_E"};
    /* there are a hundred thousand names, nearly all of them mangled */
    if (s->name[0] == 'v' && strncmp(s->name, "v8dbg_", 6) == 0)
        return vec_push(&f->metadata, (struct found_symbol){s->name + 6, s->address, s->size});
    if (s->name[0] == 'B' && strncmp(s->name, "Builtins_", 9) == 0)
        return vec_push(&f->builtins, (struct found_symbol){s->name + 9, s->address, s->size});
    if (s->name[0] != '_' || strncmp(s->name, "_ZN2v88internal", 15) != 0)
        return true;
    if (strcmp(s->name, "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE") == 0)
        f->sizes = (struct found_symbol){s->name, s->address, s->size};
    for (size_t i = 0; s->name[15] == '7' && i < 4; i++) {
        if (strcmp(s->name, versions[i]) != 0)
            continue;
        f->nr_version += !f->version[i];
        f->version[i] = s->address;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct found_symbol *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int compare_addresses(const void *a, const void *b)
{
    const struct found_symbol *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* Are the symbols in order? Assemblers write them so, and sorting would cost more than reading. */
static bool in_order(const struct found_symbol *s, size_t nr)
{
    size_t i = 1;
    while (i < nr && s[i - 1].address <= s[i].address)
        i++;
    return i >= nr;
}

static int32_t value_at(const struct v8_image *image, uint64_t address)
{
    const uint8_t *bytes = image->bytes(image->context, address, 4);
    return bytes ? (int32_t)load_u32(bytes, false) : 0;
}

/* Returns the first symbol that begins with the prefix: the type at the end of the name differs
 * between versions. */
static const struct found_symbol *find_metadata(const struct found *f, const char *prefix)
{
    size_t low = 0, high = f->metadata.nr, length = strlen(prefix);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(f->metadata.at[mid].name, prefix) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == f->metadata.nr || strncmp(f->metadata.at[low].name, prefix, length) != 0)
        return NULL;
    char next = f->metadata.at[low].name[length];
    /* Accept a whole name, the part before its type, or a field whose name grew at its end. */
    return !next || next == '_' || prefix[length - 1] == '_' ? &f->metadata.at[low] : NULL;
}

static void use_metadata(struct v8_layout *l, const struct v8_image *image, const struct found *f)
{
    for (size_t i = 0; i < V8_NR_FIELDS; i++) {
        const struct found_symbol *s =
            *fields[i].symbol ? find_metadata(f, fields[i].symbol) : NULL;
        if (!s)
            continue;
        *field_of(l, i) = value_at(image, s->address);
        l->metadata[i / 64] |= UINT64_C(1) << (i % 64);
    }
    if (l->code_first !=
        V8_UNKNOWN) { /* the metadata's name is then that of a part of the object */
        if (v8_layout_field(l, V8_F_code_start).metadata)
            l->code_first = l->code_start; /* of Node 18, 128 on x86-64, 96 on AArch64 */
        l->code_start = V8_UNKNOWN;
    }
}

/* Note the names of instance types: type_JSArray__JS_ARRAY_TYPE. */
static bool use_types(struct v8_layout *l, const struct v8_image *image, const struct found *f)
{
    static const char prefix[] = "type_";
    l->types = calloc(f->metadata.nr + 1, sizeof(*l->types));
    if (!l->types)
        return false;
    vec_foreach (s, &f->metadata) {
        const char *name = s->name + sizeof(prefix) - 1;
        if (strncmp(s->name, prefix, sizeof(prefix) - 1) != 0 || !strstr(name, "__"))
            continue;
        l->types[l->nr_types++] =
            (struct v8_type_name){.type = value_at(image, s->address),
                                  .length = (uint32_t)(strstr(name, "__") - name),
                                  .name = name};
    }
    return true;
}

/* ---- builtins ------------------------------------------------------------------------------ */

static bool ends_with(const char *name, const char *end)
{
    size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

/* The builtins that an await makes, as AsyncFunctionAwaitResolveClosure. */
static bool is_resume(const char *name)
{
    static const char *const begins[] = {"AsyncFunctionAwait", "AsyncGenerator"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return ends_with(name, "Closure");
    return false;
}

static enum v8_builtin_class classify(const char *name)
{
    static const char *const interpreter[] = {"InterpreterEntryTrampoline", "InterpreterEnterAt",
                                              "BaselineOrInterpreterEnterAt"};
    for (size_t i = 0; i < sizeof(interpreter) / sizeof(*interpreter); i++) {
        if (strncmp(name, interpreter[i], strlen(interpreter[i])) == 0)
            return V8_BUILTIN_INTERPRETER;
    }
    if (ends_with(name, "Handler"))
        return V8_BUILTIN_HANDLER;
    if (strcmp(name, "JSEntry") == 0 || strcmp(name, "JSConstructEntry") == 0 ||
        strcmp(name, "JSRunMicrotasksEntry") == 0)
        return V8_BUILTIN_ENTRY;
    if (strcmp(name, "BaselineOutOfLinePrologue") == 0)
        return V8_BUILTIN_PROLOGUE;
    if (strncmp(name, "CEntry", 6) == 0)
        return V8_BUILTIN_EXIT;
    if (strncmp(name, "DeoptimizationEntry", 19) == 0)
        return V8_BUILTIN_DEOPT;
    if (strcmp(name, "PromiseFulfillReactionJob") == 0 ||
        strcmp(name, "PromiseRejectReactionJob") == 0 ||
        strcmp(name, "PromiseResolveThenableJob") == 0)
        return V8_BUILTIN_REACTION;
    if (is_resume(name))
        return V8_BUILTIN_RESUME;
    return strcmp(name, "BaselineLeaveFrame") == 0 ? V8_BUILTIN_LEAVE : V8_BUILTIN_OTHER;
}

static bool take_builtin(void *context, const struct v8_found_builtin *b)
{
    struct found *f = context;
    return vec_push(&f->builtins, (struct found_symbol){b->name, b->address, b->size});
}

/* Makes an index of blocks, each of about one builtin. */
static bool index_builtins(struct v8_layout *l)
{
    while (l->blob_size >> l->block_shift > l->nr_builtins)
        l->block_shift++;
    size_t nr_blocks = (size_t)(l->blob_size >> l->block_shift) + 1, nr = 0;
    l->begun = malloc(nr_blocks * sizeof(*l->begun));
    for (size_t block = 0; l->begun && block < nr_blocks; block++) {
        while (nr < l->nr_builtins && (l->builtins[nr].start - l->blob) >> l->block_shift <= block)
            nr++;
        l->begun[block] = (uint32_t)nr;
    }
    return l->begun != NULL;
}

/* Makes the table of builtins by address. Without sizes (V8 7.8) each builtin reaches up to the
 * next. */
static bool use_builtins(struct v8_layout *l, const struct v8_image *image, struct found *f)
{
    enum { BUILTIN_MAX = 1 << 20, LAST_SIZE = 64 };
    if (!f->builtins.nr && v8_blob_find(image, l, take_builtin, f) < 0)
        return false;
    if (!f->builtins.nr)
        return true;
    if (!in_order(f->builtins.at, f->builtins.nr))
        qsort(f->builtins.at, f->builtins.nr, sizeof(*f->builtins.at), compare_addresses);
    l->builtins = calloc(f->builtins.nr, sizeof(*l->builtins));
    if (!l->builtins)
        return false;
    vec_foreach (s, &f->builtins) {
        const struct found_symbol *next = s + 1;
        bool last = next == f->builtins.at + f->builtins.nr;
        if (!last && next->address == s->address && next->size >= s->size)
            continue;
        uint64_t size = s->size ? s->size : last ? LAST_SIZE : next->address - s->address;
        if (size > BUILTIN_MAX ||
            (!last && size > next->address - s->address && next->address != s->address))
            continue;
        struct v8_builtin *b = &l->builtins[l->nr_builtins++];
        b->start = s->address;
        b->size = (uint32_t)size;
        b->name = s->name;
        b->class = (uint8_t)classify(s->name);
    }
    if (!l->nr_builtins)
        return true;
    const struct v8_builtin *end = &l->builtins[l->nr_builtins - 1];
    l->blob = l->builtins[0].start;
    l->blob_size = end->start + end->size - l->blob;
    l->code = image->bytes(image->context, l->blob, l->blob_size);
    return index_builtins(l);
}

struct v8_builtin *v8_builtin_find(const struct v8_layout *l, uint64_t vaddr)
{
    uint64_t block = (vaddr - l->blob) >> l->block_shift;
    if (vaddr - l->blob >= l->blob_size)
        return NULL;
    size_t low = block ? l->begun[block - 1] : 0, high = l->begun[block];
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->builtins[mid].start <= vaddr)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || vaddr - l->builtins[low - 1].start >= l->builtins[low - 1].size)
        return NULL;
    return &l->builtins[low - 1];
}

/* Finds the table of bytecode sizes. V8 8.4 and older have numbers of four bytes. */
static void use_bytecodes(struct v8_layout *l, const struct v8_image *image, const struct found *f)
{
    enum { BYTECODES_MAX = 256 };
    uint64_t width = l->version[0] < 9 ? 4 : 1, nr = f->sizes.size / (3 * width);
    if (!f->sizes.name) {
        l->bytecode_sizes = v8_blob_bytecodes(image, l, &l->nr_bytecodes);
        l->nr_bytecodes = l->bytecode_sizes ? l->nr_bytecodes : 0;
        l->bytecode_width = 1;
        return;
    }
    if (nr == 0 || nr > BYTECODES_MAX || f->sizes.size % (3 * width))
        return;
    l->bytecode_sizes = image->bytes(image->context, f->sizes.address, f->sizes.size);
    l->nr_bytecodes = l->bytecode_sizes ? (uint32_t)nr : 0;
    l->bytecode_width = (uint32_t)width;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Checks that the layout has everything that any reading needs. */
static int check(const struct v8_layout *l, const struct v8_image *image, struct error *err)
{
    const int32_t types[] = {l->type_function, l->type_sfi,   l->type_scope, l->type_script,
                             l->type_bytecode, l->type_code,  l->type_map,   l->type_array,
                             l->type_bytes,    l->frame_entry};
    if (l->smi_shift != 31)
        return error_set(err, ERROR_FORMAT,
                         "%s: V8 %d.%d has compressed pointers, so its frames are not walked",
                         image->name, l->version[0], l->version[1]);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (types[i] == V8_UNKNOWN)
            return error_set(err, ERROR_FORMAT,
                             "%s: V8 %d.%d has no metadata (v8dbg_*) that tells its types",
                             image->name, l->version[0], l->version[1]);
    }
    if (!l->code)
        return error_set(err, ERROR_FORMAT,
                         "%s: V8 %d.%d has no symbols of its builtins, and they were not found "
                         "otherwise, so its "
                         "frames are not walked",
                         image->name, l->version[0], l->version[1]);
    return 0;
}

static int fill(struct v8_layout *l, const struct v8_image *image, struct found *f,
                struct error *err)
{
    l->machine = image->machine;
    for (size_t i = 0; i < 4; i++)
        l->version[i] = value_at(image, f->version[i]);
    if (!use_table(l))
        return error_set(err, ERROR_FORMAT,
                         "%s: V8 %d.%d is older than 7.8, the oldest known version", image->name,
                         l->version[0], l->version[1]);
    qsort(f->metadata.at, f->metadata.nr, sizeof(*f->metadata.at), compare_names);
    use_metadata(l, image, f);
    use_bytecodes(l, image, f);
    if (!use_types(l, image, f) || !use_builtins(l, image, f))
        return error_no_memory(err);
    return check(l, image, err);
}

enum { METADATA_MIN = 100, BUILTINS_MIN = 1000 };

static int find_symbols(const struct v8_image *image, bool all, struct found *f, struct error *err)
{
    struct v8_symbol s;
    int got = 0;
    f->metadata.nr = f->builtins.nr = 0;
    for (size_t i = 0; got == 0 && image->symbol(image->context, all, &i, &s);)
        got = take_symbol(f, &s) ? 0 : error_no_memory(err);
    return got;
}

static bool has_all(const struct found *f)
{
    return f->metadata.nr >= METADATA_MIN && f->nr_version == 4 && f->sizes.name &&
           f->builtins.nr >= BUILTINS_MIN;
}

int v8_layout_create(const struct v8_image *image, struct v8_layout **ret, struct error *err)
{
    struct found f = {0};
    int got = find_symbols(image, false, &f, err);
    if (!got && !has_all(&f))
        got = find_symbols(image, true, &f, err);
    if (!got && f.metadata.nr >= METADATA_MIN && f.nr_version == 4) {
        struct v8_layout *l = calloc(1, sizeof(*l));
        got = l ? fill(l, image, &f, err) : error_no_memory(err);
        if (got)
            v8_layout_free(l);
        else
            *ret = l;
        got = got ? -1 : 1;
    }
    vec_free(&f.metadata);
    vec_free(&f.builtins);
    return got;
}

void v8_layout_free(struct v8_layout *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->nr_builtins; i++)
        v8_states_free(l->builtins[i].states);
    free(l->builtins);
    free(l->begun);
    free(l->types);
    free(l);
}
