/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads receivers and arguments. Up to V8 8.6 (Node 14) a frame holds as many arguments as its
 * function has parameters, the receiver at the highest address; further arguments are in a frame of
 * their own, which is not read. Later a frame has a slot with the number of words that were passed
 * (argc; from V8 10 on the receiver counts), and the receiver is at the lowest address.
 */
#include "unwind/v8/variables.h"

#include <stdio.h>

enum {
    ARGUMENTS_MAX = 1 << 12, /* that are listed */
    PASSED_MAX = 1 << 20,    /* words; V8 passes at most 2^16 */
    ARGC = -24,              /* frame slot: how many words were passed */
    RECEIVER = 16,           /* frame slot: the first word behind the return address */
    OLD_BYTECODE = -24,      /* where frames without argc have their BytecodeArray */
    FIRST_RECEIVER = 1024,   /* types from here on are objects with fields, V8 7.8 to 14.6 */
    PARAMETERS_MAX = 32,     /* whose names are read */
    PARAMETERS_TEXT = 1024,  /* characters of the source that are looked at */
};

enum { WORD_FP, WORD_SFI, WORD_HOW };

struct variable_place v8_variables_place(const struct v8_layout *l, uint64_t fp, uint64_t sfi,
                                         enum v8_arguments how)
{
    struct variable_place p = {.layout = l};
    p.word[WORD_FP] = fp;
    p.word[WORD_SFI] = sfi;
    p.word[WORD_HOW] = how;
    return p;
}

/* The listing of one frame. */
struct listing {
    struct v8_reader r;
    struct v8_names *names;
    uint64_t space, batch;
    struct variables *out;
};

static void put_value(struct listing *g, struct variable *of, uint64_t word);

/* ---- values -------------------------------------------------------------------------------- */

static void put_string(struct listing *g, struct variable *of, uint64_t string)
{
    struct text text = {0};
    const int64_t length = v8_string_length(&g->r, string);
    const size_t wanted = g->out->wanted.string_max;
    if (length < 0 || !v8_string(&g->r, string, wanted, &text)) {
        variable_set_unknown(of, "a string that cannot be read");
    } else {
        const bool is_whole = (uint64_t)length <= wanted;
        variable_set_string(g->out, of, text.at, text.size, is_whole ? text.size : UINT64_MAX);
        of->length = is_whole && !of->is_cut ? text.size : (uint64_t)length;
        of->has_units = true;
    }
    text_free(&text);
    of->address = v8_address(string);
}

/* undefined, null, true, false, and words of V8's own: each is an object that has its text. */
static void put_oddball(struct listing *g, struct variable *of, uint64_t object)
{
    static const char *const words[] = {"undefined", "null", "hole", "uninitialized"};
    enum { TEXT = 16, MOST = 32 };
    struct text text = {0};
    uint64_t string;
    variable_set_unknown(of, "a word of V8's own");
    if (v8_slot(&g->r, object, TEXT, &string) && v8_string(&g->r, string, MOST, &text)) {
        text_char(&text, 0);
        const char *is = text.failed ? "" : text.at;
        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
            if (strcmp(is, words[i]) == 0)
                variable_set_nil(of, words[i]);
        }
        if (strcmp(is, "true") == 0 || strcmp(is, "false") == 0)
            variable_set_boolean(of, *is == 't');
    }
    text_free(&text);
}

static void put_heap_number(struct listing *g, struct variable *of, uint64_t object)
{
    enum { VALUE = 8 };
    uint64_t word;
    double number;
    if (!v8_slot(&g->r, object, VALUE, &word)) {
        variable_set_unknown(of, "not recorded");
        return;
    }
    memcpy(&number, &word, sizeof(number));
    variable_set_number(of, VALUE_NUMBER, number);
}

static void put_function(struct listing *g, struct variable *of, uint64_t object)
{
    struct v8_sfi sfi;
    struct v8_named named;
    struct text text = {0};
    variable_set_object(of, VALUE_FUNCTION, "function", v8_address(object));
    if (v8_sfi_read(&g->r, v8_function_sfi(&g->r, object), &sfi) &&
        v8_names_function(g->names, &g->r, g->space, g->batch, &sfi, -1, &named) == 0) {
        v8_names_symbol(g->names, named.function, &text);
        variable_set_text(g->out, of, text.at, text.failed ? 0 : text.size);
    }
    text_free(&text);
}

/* Set the class: the name of the function that has constructed the object. A map leads to it, if
 * need be through the maps that it was made from. */
static void put_class(struct listing *g, struct variable *of, uint64_t object)
{
    enum { STEPS = 64, NAME_MAX_UNITS = 100 };
    const struct v8_layout *l = g->r.layout;
    struct text text = {0};
    struct v8_sfi sfi;
    struct v8_scope scope;
    uint64_t at;
    if (!v8_map_of(&g->r, object, &at) || !v8_slot(&g->r, at, l->map_constructor, &at))
        return;
    for (unsigned i = 0; i < STEPS && v8_is(&g->r, at, l->type_map); i++) {
        if (!v8_slot(&g->r, at, l->map_constructor, &at))
            return;
    }
    if (!v8_sfi_read_name(&g->r, v8_function_sfi(&g->r, at), &sfi))
        return;
    uint64_t name = sfi.name;
    if (sfi.scope && v8_scope_read(&g->r, sfi.scope, &scope))
        name = scope.name ? scope.name : scope.inferred;
    if (name && v8_string(&g->r, name, NAME_MAX_UNITS, &text))
        variable_set_text(g->out, of, text.at, text.size);
    text_free(&text);
}

static bool add_element(struct listing *g, unsigned index, unsigned depth, struct variable **ret)
{
    char name[16];
    *ret = variables_add(g->out, VARIABLE_FIELD, depth);
    if (!*ret)
        return false;
    (*ret)->name_is_written = true;
    int size = snprintf(name, sizeof(name), "%u", index);
    variable_set_name(g->out, *ret, name, (size_t)size);
    return true;
}

/* List the first elements of an array, which is the variable at `index`. */
static void put_elements(struct listing *g, uint64_t elements, size_t index, unsigned depth)
{
    enum { FIRST = 16 };
    const struct v8_layout *l = g->r.layout;
    const uint64_t nr = g->out->at.at[index].array;
    const bool is_double = v8_is(&g->r, elements, l->type_double_array);
    unsigned i = 0;
    for (; i < nr && i < g->out->wanted.fields_max; i++) {
        uint64_t word;
        double number;
        struct variable *of;
        if (is_double ? !v8_slot(&g->r, elements, FIRST + 8 * (int32_t)i, &word)
                      : !v8_array_element(&g->r, elements, (int32_t)i, &word))
            break;
        if (!add_element(g, i, depth, &of))
            break;
        memcpy(&number, &word, sizeof(number));
        if (is_double)
            variable_set_number(of, VALUE_NUMBER, number);
        else
            put_value(g, of, word);
    }
    if (i < nr)
        g->out->at.at[index].is_cut = true;
}

static void put_object(struct listing *g, struct variable *of, uint64_t object, int32_t type)
{
    enum { ELEMENTS = 16, LENGTH = 24 };
    const struct v8_layout *l = g->r.layout;
    const unsigned depth = of->depth;
    const size_t index = (size_t)(of - g->out->at.at);
    uint64_t length, elements;
    const bool is_array = type == l->type_js_array && v8_slot(&g->r, object, LENGTH, &length) &&
                          v8_is_smi(length) && v8_smi(length) >= 0;
    variable_set_object(of, is_array ? VALUE_TABLE : VALUE_USERDATA, "object", v8_address(object));
    put_class(g, of, object);
    if (!is_array)
        return;
    of->array = (uint64_t)v8_smi(length);
    of->is_cut = of->array > 0;
    if (variables_wants_fields(g->out, depth) && v8_slot(&g->r, object, ELEMENTS, &elements)) {
        of->is_cut = false;
        put_elements(g, elements, index, depth + 1);
    }
}

/* Objects that no constructor has made. */
static bool put_special(struct listing *g, struct variable *of, uint64_t object, int32_t type)
{
    const struct v8_layout *l = g->r.layout;
    const bool is_global = type == l->type_global || type == l->type_global_proxy;
    const char *class = is_global ? "globalThis" : "Proxy";
    if (!is_global && type != l->type_proxy)
        return false;
    variable_set_object(of, VALUE_USERDATA, "object", v8_address(object));
    variable_set_text(g->out, of, class, strlen(class));
    return true;
}

static void put_value(struct listing *g, struct variable *of, uint64_t word)
{
    const struct v8_layout *l = g->r.layout;
    if (v8_is_smi(word)) {
        variable_set_integer(of, v8_smi(word));
        return;
    }
    const int32_t type = v8_type(&g->r, word);
    if (type < 0)
        variable_set_unknown(of, "no value of JavaScript, or not recorded");
    else if (type < l->nonstring)
        put_string(g, of, word);
    else if (type >= l->type_function && type <= l->type_function_last)
        put_function(g, of, word);
    else if (type == l->type_heap_number)
        put_heap_number(g, of, word);
    else if (type == l->type_oddball)
        put_oddball(g, of, word);
    else if (type == l->type_symbol)
        variable_set_object(of, VALUE_OTHER, "symbol", v8_address(word));
    else if (put_special(g, of, word, type))
        return;
    else if (type >= FIRST_RECEIVER)
        put_object(g, of, word, type);
    else
        variable_set_unknown(of, "an object that is not read: a BigInt, or V8's own");
}

/* ---- parameters' names --------------------------------------------------------------------- */

/* Names of parameters as they stand in the source: nothing else in the process has them. */
struct parameters {
    char text[PARAMETERS_TEXT];
    struct {
        uint16_t at, size; /* size 0: not a plain name */
    } name[PARAMETERS_MAX];
    unsigned nr;
};

static bool is_name(char c, bool first)
{
    const unsigned char u = (unsigned char)c;
    return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u == '_' || u == '$' || u >= 0x80 ||
           (!first && u >= '0' && u <= '9');
}

static size_t skip_blanks(const char *s, size_t i, size_t size)
{
    while (i < size && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r'))
        i++;
    return i;
}

/* Read "a, b, ...rest)". Ends at the first parameter that is more than a name: what stands behind
 * it could be misread. */
static void read_names(struct parameters *p, size_t i, size_t size)
{
    while (p->nr < PARAMETERS_MAX) {
        i = skip_blanks(p->text, i, size);
        if (size - i > 3 && memcmp(p->text + i, "...", 3) == 0)
            return; /* it holds the rest of the arguments, and is none of them */
        size_t at = i;
        while (i < size && is_name(p->text[i], i == at))
            i++;
        const size_t end = i;
        i = skip_blanks(p->text, i, size);
        if (end == at || i == size)
            return;
        const bool is_plain = p->text[i] == ',' || p->text[i] == ')';
        if (!is_plain && p->text[i] != '=')
            return;
        p->name[p->nr].at = (uint16_t)at;
        p->name[p->nr++].size = (uint16_t)(end - at);
        if (p->text[i] != ',')
            return;
        i++;
    }
}

/* A ScopeInfo's start is the parenthesis of the parameters, or the name of an arrow function's only
 * parameter. */
static void read_parameters(struct listing *g, uint64_t tagged, struct parameters *p)
{
    struct v8_sfi sfi;
    struct v8_scope scope;
    uint64_t source;
    struct text text = {0};
    p->nr = 0;
    if (!v8_sfi_read_name(&g->r, tagged, &sfi) || !sfi.script || !sfi.scope ||
        !v8_scope_read(&g->r, sfi.scope, &scope) || scope.start < 0 ||
        !v8_slot(&g->r, sfi.script, g->r.layout->script_source, &source))
        return;
    const size_t wanted = (size_t)(scope.end - scope.start);
    const size_t units = wanted < PARAMETERS_TEXT / 4 ? wanted : PARAMETERS_TEXT / 4;
    if (v8_string_part(&g->r, source, (size_t)scope.start, units, &text) && text.size > 1 &&
        text.size < PARAMETERS_TEXT) {
        memcpy(p->text, text.at, text.size);
        if (p->text[0] == '(') {
            read_names(p, 1, text.size);
        } else {
            size_t end = 0;
            while (end < text.size && is_name(p->text[end], end == 0))
                end++;
            const size_t arrow = skip_blanks(p->text, end, text.size);
            if (end && text.size - arrow > 1 && memcmp(p->text + arrow, "=>", 2) == 0) {
                p->name[p->nr].at = 0;
                p->name[p->nr++].size = (uint16_t)end;
            }
        }
    }
    text_free(&text);
}

/* ---- frames -------------------------------------------------------------------------------- */

static bool read_slot(struct listing *g, uint64_t address, uint64_t *ret, uint8_t *provenance)
{
    enum provenance got = PROVENANCE_EXACT;
    if (!memory_read_frame(g->r.memory, address, ret, sizeof(*ret), &got))
        return false;
    *provenance = got > *provenance ? (uint8_t)got : *provenance;
    return true;
}

static void put_slot(struct listing *g, struct variable *of, uint64_t address, bool is_guess)
{
    uint64_t word;
    if (is_guess)
        of->provenance = PROVENANCE_GUESS;
    if (read_slot(g, address, &word, &of->provenance))
        put_value(g, of, word);
    else
        variable_set_unknown(of, "not recorded");
}

/* Returns how many words were passed, with the receiver; 0: not known. */
static uint64_t nr_passed(struct listing *g, uint64_t fp, uint64_t tagged)
{
    enum { COUNTS_RECEIVER = 10 }; /* V8's major version from which on argc counts it */
    const struct v8_layout *l = g->r.layout;
    uint64_t word;
    uint8_t ignored = 0;
    struct v8_sfi sfi;
    if (l->fp_bytecode_array != OLD_BYTECODE) {
        if (!read_slot(g, fp + (uint64_t)(int64_t)ARGC, &word, &ignored) || word > PASSED_MAX)
            return 0;
        return word + (l->version[0] < COUNTS_RECEIVER);
    }
    if (v8_sfi_read_name(&g->r, tagged, &sfi) && sfi.scope &&
        v8_slot(&g->r, sfi.scope, l->scope_data + 8, &word) && v8_is_smi(word) &&
        v8_smi(word) >= 0 && v8_smi(word) <= PASSED_MAX)
        return (uint64_t)v8_smi(word) + 1;
    return 0;
}

static void put_frame(struct listing *g, uint64_t fp, uint64_t sfi, bool is_guess)
{
    struct parameters names;
    const uint64_t nr = nr_passed(g, fp, sfi);
    const bool is_old = g->r.layout->fp_bytecode_array == OLD_BYTECODE;
    if (!nr) {
        g->out->unknown = "how many arguments it has is not known";
        return;
    }
    struct variable *of = variables_add(g->out, VARIABLE_RECEIVER, 0);
    if (!of)
        return;
    variable_set_name(g->out, of, "this", 4);
    put_slot(g, of, fp + RECEIVER + (is_old ? 8 * (nr - 1) : 0), is_guess);
    read_parameters(g, sfi, &names);
    for (uint64_t i = 1; i < nr && i <= ARGUMENTS_MAX; i++) {
        of = variables_add(g->out, VARIABLE_ARGUMENT, 0);
        if (!of)
            return;
        of->number = (uint32_t)i;
        if (i <= names.nr)
            variable_set_name(g->out, of, names.text + names.name[i - 1].at,
                              names.name[i - 1].size);
        put_slot(g, of, fp + RECEIVER + 8 * (is_old ? nr - 1 - i : i), is_guess);
    }
    if (nr > ARGUMENTS_MAX + 1)
        g->out->is_cut = true;
}

int v8_variables(struct v8_names *names, uint64_t space, uint64_t batch, const struct memory *m,
                 const struct variable_place *place, struct variables *ret)
{
    struct listing g = {.r = {.memory = m, .layout = place->layout, .same = {0, UINT64_MAX}},
                        .names = names,
                        .space = space,
                        .batch = batch,
                        .out = ret};
    const uint64_t how = place->word[WORD_HOW];
    if (how == V8_ARGUMENTS_INLINED)
        ret->unknown = "it is inlined in optimized code, which keeps its arguments in registers";
    else if (how == V8_ARGUMENTS_UNMADE || !place->word[WORD_FP])
        ret->unknown = "its frame does not stand";
    else
        put_frame(&g, place->word[WORD_FP], place->word[WORD_SFI], how == V8_ARGUMENTS_PASSED);
    return ret->failed ? -1 : 0;
}
