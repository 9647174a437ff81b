/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sources: src/objects/ of V8 10.2 to 14.6: SizeFor() and AllocatedSize() of each class,
 * instance-type.h for the order of types. Numbers of types come from metadata; those that it lacks
 * follow from their neighbours, because types are numbered in the order of their declarations.
 */
#include "unwind/v8/size.h"

#include "base/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the table of layouts. */
enum { V10_2 = 3, V11_3 = 4, V12_4 = 6, V12_9 = 7, V13_6 = 8, V14_1 = 9, V14_6 = 10, NEWEST = 99 };

/* How a size follows from an object's fields. */
enum rule {
    RULE_NONE,
    RULE_ARRAY_2, /* so many words, then one for each of the Smi at 8 */
    RULE_ARRAY_3,
    RULE_ARRAY_4,
    RULE_ARRAY_5,
    RULE_BYTES,
    RULE_BYTECODES,
    RULE_FREE_BYTES,
    RULE_FREE_WORDS,
    RULE_PROPERTIES,
    RULE_DESCRIPTORS,
    RULE_BIGINT,
    RULE_FEEDBACK,
    RULE_FEEDBACK_METADATA,
    RULE_SCOPE,
    RULE_PREPARSE,
    RULE_STREAM,
    RULE_CODE,
    RULE_NUMBER_STRINGS,
    RULE_TYPE_INFO,
    RULE_DISPATCH,
    RULE_IMPORTS,
};

/* ---- types --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint8_t rule, kind;
    int8_t from, to; /* columns */
} known[] = {
    {"FixedDoubleArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"WeakFixedArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"TrustedFixedArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"ProtectedFixedArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"TrustedWeakFixedArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"ProtectedWeakFixedArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"EmbedderDataArray", RULE_ARRAY_2, CENSUS_ARRAY, 0, NEWEST},
    {"ClosureFeedbackCellArray", RULE_ARRAY_2, CENSUS_PROTO, 0, NEWEST},
    {"ObjectBoilerplateDescription", RULE_ARRAY_2, CENSUS_PROTO, 0, V11_3 + 1},
    {"ObjectBoilerplateDescription", RULE_ARRAY_4, CENSUS_PROTO, V12_4, NEWEST},
    {"ScriptContextTable", RULE_ARRAY_2, CENSUS_CONTEXT, 0, V11_3 + 1},
    {"ScriptContextTable", RULE_ARRAY_4, CENSUS_CONTEXT, V12_4, NEWEST},
    {"ArrayList", RULE_ARRAY_3, CENSUS_ARRAY, V12_4, NEWEST},
    {"RegExpMatchInfo", RULE_ARRAY_5, CENSUS_OTHER, V12_4, NEWEST},
    {"SloppyArgumentsElements", RULE_ARRAY_4, CENSUS_ARRAY, 0, NEWEST},
    {"WeakArrayList", RULE_ARRAY_3, CENSUS_ARRAY, 0, NEWEST},
    {"ByteArray", RULE_BYTES, CENSUS_ARRAY, 0, NEWEST},
    {"TrustedByteArray", RULE_BYTES, CENSUS_PROTO, 0, NEWEST},
    {"BytecodeArray", RULE_BYTECODES, CENSUS_PROTO, 0, NEWEST},
    {"PropertyArray", RULE_PROPERTIES, CENSUS_ARRAY, 0, NEWEST},
    {"DescriptorArray", RULE_DESCRIPTORS, CENSUS_SHAPE, 0, NEWEST},
    {"StrongDescriptorArray", RULE_DESCRIPTORS, CENSUS_SHAPE, 0, NEWEST},
    {"FeedbackVector", RULE_FEEDBACK, CENSUS_PROTO, 0, NEWEST},
    {"ScopeInfo", RULE_SCOPE, CENSUS_PROTO, 0, NEWEST},
    {"PreparseData", RULE_PREPARSE, CENSUS_PROTO, 0, NEWEST},
    {"InstructionStream", RULE_STREAM, CENSUS_PROTO, 0, NEWEST},
    {"Code", RULE_CODE, CENSUS_PROTO, 0, V10_2},
    {"Code", RULE_NONE, CENSUS_PROTO, V11_3, NEWEST},
    {"DoubleStringCache", RULE_NUMBER_STRINGS, CENSUS_OTHER, 0, NEWEST},
    {"ExternalPointerArray", RULE_ARRAY_2, CENSUS_OTHER, 0, NEWEST},
    {"WasmTypeInfo", RULE_TYPE_INFO, CENSUS_OTHER, 0, NEWEST},
    {"Map", RULE_NONE, CENSUS_SHAPE, 0, NEWEST},
    {"SharedFunctionInfo", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"UncompiledDataWithPreparseData", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"UncompiledDataWithoutPreparseData", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"FeedbackCell", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"Script", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"BytecodeWrapper", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"CodeWrapper", RULE_NONE, CENSUS_PROTO, 0, NEWEST},
    {"HeapNumber", RULE_NONE, CENSUS_NUMBER, 0, NEWEST},
    {"WeakCell", RULE_NONE, CENSUS_OTHER, 0, NEWEST},
};

static bool is_named(const struct v8_type_name *t, const char *name)
{
    return strlen(name) == t->length && memcmp(t->name, name, t->length) == 0;
}

static void set_type(struct v8_types *t, int32_t type, const char *name, enum rule rule,
                     enum census_type kind)
{
    if (type < 0 || type >= V8_TYPES_MAX)
        return;
    if (!t->names[type])
        t->names[type] = strdup(name);
    t->rules[type] = (uint8_t)rule;
    t->kinds[type] = (uint8_t)kind;
}

/* Types that metadata names. */
static void set_named(struct v8_types *t, const struct v8_layout *l, const struct v8_type_name *n)
{
    bool is_known = false;
    if (n->type < 0 || n->type >= V8_TYPES_MAX)
        return;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (l->column < known[i].from || l->column > known[i].to || !is_named(n, known[i].name))
            continue;
        t->rules[n->type] = known[i].rule;
        t->kinds[n->type] = known[i].kind;
        is_known = true;
    }
    t->is_uncompiled[n->type] |= strncmp(n->name, "UncompiledData", 14) == 0;
    char *old = t->names[n->type];
    if (!old || is_known) { /* a type may have two names */
        free(old);
        t->names[n->type] = strndup(n->name, n->length);
    }
}

/* FixedArray, and the types behind it up to ByteArray, which have its form. */
static void set_arrays(struct v8_types *t, const struct v8_layout *l)
{
    static const char *const names[] = {"FixedArray",         "HashTable",
                                        "EphemeronHashTable", "GlobalDictionary",
                                        "NameDictionary",     "NameToIndexHashTable",
                                        "NumberDictionary",   "OrderedHashMap",
                                        "OrderedHashSet",     "OrderedNameDictionary"};
    enum { NAMES = sizeof(names) / sizeof(*names), MOST = 32 };
    for (int32_t i = 0; i < MOST && l->type_array + i < l->type_bytes; i++) {
        const int32_t type = l->type_array + i;
        if (!t->rules[type])
            set_type(t, type, i < NAMES ? names[i] : "HashTable", RULE_ARRAY_2, CENSUS_ARRAY);
    }
}

static void set_contexts(struct v8_types *t, const struct v8_layout *l)
{
    static const char *const names[] = {
        "AwaitContext",    "BlockContext",  "CatchContext",  "DebugEvaluateContext", "EvalContext",
        "FunctionContext", "ModuleContext", "NativeContext", "ScriptContext",        "WithContext"};
    enum { NATIVE = 7 }; /* it has one more word */
    for (int32_t i = 0; i < (int32_t)(sizeof(names) / sizeof(*names)); i++)
        set_type(t, l->type_context + i, names[i], i == NATIVE ? RULE_ARRAY_3 : RULE_ARRAY_2,
                 CENSUS_CONTEXT);
}

/* A string's type is bits: how it is made, and whether it is one of its text only. */
static void set_strings(struct v8_types *t, const struct v8_layout *l)
{
    enum {
        REPRESENTATION = 7,
        THIN = 5,
        ONE_BYTE = 8,
        UNCACHED = 16,
        NOT_INTERNALIZED = 32,
        SHARED = 64
    };
    static const char *const made[] = {"Seq", "Cons", "External", "Sliced", "", "Thin", "", ""};
    for (int32_t i = 0; i < l->nonstring && i < V8_TYPES_MAX; i++) {
        char name[64];
        /* A thin string's width is that of the string that it stands for. */
        const char *width = (i & REPRESENTATION) == THIN ? ""
                            : i & ONE_BYTE               ? "OneByte"
                                                         : "TwoByte";
        const bool is_seq = (i & REPRESENTATION) == 0, is_internalized = !(i & NOT_INTERNALIZED);
        snprintf(name, sizeof(name), "%s%s%s%s%sString", i & SHARED ? "Shared" : "",
                 i & UNCACHED ? "Uncached" : "",
                 is_seq && is_internalized ? "" : made[i & REPRESENTATION],
                 is_internalized ? "Internalized" : "", width);
        free(t->names[i]);
        t->names[i] = NULL;
        set_type(t, i, name, RULE_NONE, CENSUS_STRING);
    }
}

/* The first type behind JSObject is that of objects that C++ makes from a template. */
static void set_api_objects(struct v8_types *t)
{
    for (int32_t i = 0; i + 1 < V8_TYPES_MAX; i++) {
        if (t->names[i] && strcmp(t->names[i], "JSObject") == 0) {
            set_type(t, i + 1, "JSApiObject", RULE_NONE, CENSUS_OBJECT);
            return;
        }
    }
}

static void set_raw(struct v8_types *t, const struct v8_layout *l)
{
    const int32_t raw[] = {l->type_bytes,  l->type_trusted_bytes, l->type_double_array,
                           l->type_stream, l->type_heap_number,   l->type_symbol + 1,
                           t->filler,      t->free_space,         l->type_feedback - 1};
    for (size_t i = 0; i < sizeof(raw) / sizeof(*raw); i++) {
        if (raw[i] >= 0 && raw[i] < V8_TYPES_MAX)
            t->is_raw[raw[i]] = true;
    }
}

bool v8_types_known(const struct v8_layout *l)
{
    enum { NEIGHBOURS = 32 };
    const int32_t types[] = {l->type_array, l->type_bytes,   l->type_feedback,  l->type_symbol,
                             l->type_proxy, l->type_context, l->type_weak_array};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (types[i] <= 0 || types[i] >= V8_TYPES_MAX - NEIGHBOURS)
            return false;
    }
    return true;
}

struct v8_types *v8_types_create(const struct v8_layout *l)
{
    struct v8_types *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->filler = l->type_feedback + 1;
    t->free_space = l->type_feedback + 2;
    for (size_t i = 0; i < V8_TYPES_MAX; i++)
        t->kinds[i] = CENSUS_OTHER;
    for (int32_t i = l->type_proxy; i >= 0 && i < V8_TYPES_MAX; i++)
        t->kinds[i] = CENSUS_OBJECT; /* the first type of objects */
    for (int32_t i = l->type_function; i >= 0 && i <= l->type_function_last && i < V8_TYPES_MAX;
         i++)
        t->kinds[i] = CENSUS_FUNCTION;
    for (size_t i = 0; i < l->nr_types; i++)
        set_named(t, l, &l->types[i]);
    set_arrays(t, l);
    set_contexts(t, l);
    set_strings(t, l);
    set_type(t, l->type_symbol + 1, "BigInt", RULE_BIGINT, CENSUS_NUMBER);
    set_type(t, l->type_weak_array + 1, "TransitionArray", RULE_ARRAY_2, CENSUS_SHAPE);
    set_type(t, l->type_feedback - 1, "FeedbackMetadata", RULE_FEEDBACK_METADATA, CENSUS_PROTO);
    set_type(t, l->type_dispatch, "WasmDispatchTable", RULE_DISPATCH, CENSUS_PROTO);
    set_type(t, l->type_imports, "WasmDispatchTableForImports", RULE_IMPORTS, CENSUS_PROTO);
    set_type(t, t->filler, "Filler", RULE_NONE, CENSUS_OTHER);
    set_type(t, t->free_space, "FreeSpace", l->column < V13_6 ? RULE_FREE_BYTES : RULE_FREE_WORDS,
             CENSUS_OTHER);
    set_api_objects(t);
    set_raw(t, l);
    return t;
}

void v8_types_free(struct v8_types *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < V8_TYPES_MAX; i++)
        free(t->names[i]);
    free(t);
}

/* ---- sizes --------------------------------------------------------------------------------- */

/* An object that is measured. A field that is not in its bytes makes `missing` true. */
struct object {
    struct v8_reader *r;
    const uint8_t *bytes;
    size_t nr;
    bool missing;
};

static uint64_t word(struct object *o, uint64_t at)
{
    o->missing |= at > o->nr || o->nr - at < 8;
    return o->missing ? 0 : load_u64(o->bytes + at, false);
}

static uint32_t half(struct object *o, uint64_t at)
{
    o->missing |= at > o->nr || o->nr - at < 4;
    return o->missing ? 0 : load_u32(o->bytes + at, false);
}

/* A Smi that is a length. */
static uint64_t length(struct object *o, uint64_t at)
{
    const uint64_t w = word(o, at);
    o->missing |= !v8_is_smi(w) || v8_smi(w) < 0;
    return o->missing ? 0 : (uint64_t)v8_smi(w);
}

static uint64_t words_up(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

static uint64_t string_size(struct object *o, uint16_t type)
{
    enum { REPRESENTATION = 7, SEQUENTIAL = 0, ONE_BYTE = 8, DATA = 16 };
    if ((type & REPRESENTATION) != SEQUENTIAL)
        return 0;
    return words_up(DATA + (uint64_t)half(o, (uint64_t)o->r->layout->string_length) *
                               (type & ONE_BYTE ? 1 : 2));
}

/* Slots' kinds stand six to a word of four bytes. Since 12.9 the numbers of parameters of closures
 * follow. */
static uint64_t feedback_metadata_size(struct object *o)
{
    enum { HEAD = 16, SLOTS_A_WORD = 6 };
    const uint64_t slots = half(o, 8), closures = half(o, 12);
    const uint64_t size = HEAD + (slots + SLOTS_A_WORD - 1) / SLOTS_A_WORD * 4;
    return words_up(size + (o->r->layout->column >= V12_9 ? 2 * closures : 0));
}

/* Returns the number of words of a module's variables in the scope's words behind `at`. */
static uint64_t module_words(struct object *o, uint64_t at)
{
    enum { VARIABLE = 3 };
    const struct v8_layout *l = o->r->layout;
    const uint64_t data = (uint64_t)l->scope_data;
    if (l->column >= V12_4) /* the count is the first behind the fixed elements */
        return 1 + VARIABLE * length(o, data + 8 * (uint64_t)l->scope_first);
    return 2 + VARIABLE * length(o, data + 8 * (at + 1));
}

static uint64_t scope_size(struct object *o)
{
    enum { OUTER = 22, LAST_WITH_POSITIONS = 4, MODULE_UP_TO_11 = 3, NAMES_MAX = 1 << 20 };
    const struct v8_layout *l = o->r->layout;
    const uint64_t data = (uint64_t)l->scope_data;
    const uint64_t flags_word = word(o, data), names = length(o, data + 16);
    const uint32_t flags = flags_word >> 32 ? (uint32_t)(flags_word >> 32) : (uint32_t)flags_word;
    const int32_t type = (int32_t)(flags & 15);
    const bool is_module =
        type == (l->scope_module == V8_UNKNOWN ? MODULE_UP_TO_11 : l->scope_module);
    if (names > NAMES_MAX)
        return 0;
    uint64_t at = (uint64_t)l->scope_first + (is_module && l->column >= V12_4);
    at += names + (names >= (uint64_t)l->scope_names_max ? 1 : names);
    at += flags >> l->scope_saved_class & 1;
    at += flags >> l->scope_function & 3 ? 2 : 0;
    at += flags >> l->scope_inferred & 1;
    if (l->column >= V14_6 && type == l->scope_module - 1) /* which parameters a function uses */
        at++;
    if (l->column < V12_9 && type <= LAST_WITH_POSITIONS)
        at += 2;
    at += flags >> OUTER & 1;
    if (is_module)
        at += module_words(o, at);
    return data + 8 * at;
}

/* Instructions have 64 bytes of alignment, with the metadata behind them. Up to 11.8 their Code
 * says how many there are. */
static uint64_t stream_size(struct object *o)
{
    enum { ALIGNMENT = 64, BODY = 24 };
    const struct v8_layout *l = o->r->layout;
    uint64_t body = half(o, BODY), code;
    if (l->column < V12_4) {
        uint32_t sizes[2]; /* instructions, metadata */
        code = word(o, (uint64_t)l->stream_code);
        if (o->missing || !v8_is_pointer(code) ||
            !v8_read(o->r, v8_address(code) + (uint64_t)l->code_size, sizes, sizeof(sizes)))
            return 0;
        body = (uint64_t)sizes[0] + sizes[1];
    }
    return ((uint64_t)l->stream_first + body + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static uint64_t code_size(struct object *o)
{
    enum { ALIGNMENT = 64 };
    const struct v8_layout *l = o->r->layout;
    const uint64_t instructions = half(o, (uint64_t)l->code_size);
    const uint64_t metadata = half(o, (uint64_t)l->code_size + 4);
    return ((uint64_t)l->code_first + instructions + metadata + ALIGNMENT - 1) &
           ~(uint64_t)(ALIGNMENT - 1);
}

/* The supertypes of a type of WebAssembly. */
static uint64_t type_info_size(struct object *o)
{
    enum { LENGTH_12 = 32, LENGTH_13 = 16 };
    const uint64_t at = o->r->layout->column < V13_6 ? LENGTH_12 : LENGTH_13;
    return at + 8 + 8 * length(o, at);
}

/* The functions of a table of WebAssembly. */
static uint64_t dispatch_size(struct object *o)
{
    enum { CAPACITY = 12, HEAD_12 = 16, HEAD_13 = 40, LONG_ENTRY = 24, ENTRY = 16 };
    const int32_t column = o->r->layout->column;
    return (uint64_t)(column < V13_6 ? HEAD_12 : HEAD_13) +
           (uint64_t)half(o, CAPACITY) * (column < V14_1 ? LONG_ENTRY : ENTRY);
}

static uint64_t size_by(struct object *o, enum rule rule)
{
    enum { IMPORTS = 24, IMPORT = 16 };
    enum { LENGTH = 8, DATA = 16, DESCRIPTOR = 24, PROPERTIES_MASK = 1023, NUMBER_STRING = 16 };
    const struct v8_layout *l = o->r->layout;
    switch (rule) {
    case RULE_ARRAY_2:
    case RULE_ARRAY_3:
    case RULE_ARRAY_4:
    case RULE_ARRAY_5:
        return 8 * ((uint64_t)(rule - RULE_ARRAY_2) + 2 + length(o, LENGTH));
    case RULE_BYTES:
        return words_up(DATA + length(o, LENGTH));
    case RULE_BYTECODES:
        return words_up((uint64_t)l->bytecode_data + length(o, LENGTH));
    case RULE_FREE_BYTES:
        return length(o, LENGTH) & ~UINT64_C(7);
    case RULE_FREE_WORDS:
        return 8 * length(o, LENGTH);
    case RULE_PROPERTIES:
        return DATA + 8 * (word(o, LENGTH) >> 32 & PROPERTIES_MASK);
    case RULE_DESCRIPTORS:
        return (uint64_t)l->descriptors_first + DESCRIPTOR * (half(o, LENGTH) & 0x7fff);
    case RULE_BIGINT:
        return DATA + 8 * ((uint64_t)half(o, LENGTH) >> 1 & 0x3fffffff);
    case RULE_FEEDBACK:
        return (uint64_t)l->feedback_slots + 8 * (uint64_t)half(o, LENGTH);
    case RULE_FEEDBACK_METADATA:
        return feedback_metadata_size(o);
    case RULE_SCOPE:
        return scope_size(o);
    case RULE_PREPARSE:
        return words_up(DATA + (uint64_t)half(o, LENGTH)) + 8 * (uint64_t)half(o, LENGTH + 4);
    case RULE_STREAM:
        return stream_size(o);
    case RULE_CODE:
        return code_size(o);
    case RULE_NUMBER_STRINGS:
        return DATA + NUMBER_STRING * (uint64_t)half(o, LENGTH);
    case RULE_TYPE_INFO:
        return type_info_size(o);
    case RULE_DISPATCH:
        return dispatch_size(o);
    case RULE_IMPORTS:
        return IMPORTS + IMPORT * (uint64_t)half(o, LENGTH);
    default:
        return 0;
    }
}

uint64_t v8_object_size(struct v8_reader *r, const struct v8_types *t, const struct v8_shape *s,
                        const uint8_t *bytes, size_t nr)
{
    struct object o = {.r = r, .bytes = bytes, .nr = nr};
    if (s->words)
        return 8 * (uint64_t)s->words;
    const uint64_t size = s->type < r->layout->nonstring ? string_size(&o, s->type)
                          : s->type < V8_TYPES_MAX       ? size_by(&o, (enum rule)t->rules[s->type])
                                                         : 0;
    return o.missing ? 0 : size;
}
