/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Variables as text and as JSON. Names and strings are bytes of the process: in text, everything
 * but printable UTF-8 is escaped as in Lua and C; in JSON, what is not UTF-8 is written in hex.
 */
#include "output/variables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_utf8(const char *s, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned n = text_sequence_size(s + i, size - i);
        if (!n)
            return false;
        i += n;
    }
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

static void put_text(struct text *out, const struct variables *v, struct variable_text t)
{
    text_escaped_bytes(out, variable_bytes(v, t), t.size);
}

static void put_string(struct text *out, const struct variables *v, const struct variable *of)
{
    text_char(out, '"');
    put_text(out, v, of->text);
    text_char(out, '"');
    if (of->is_cut)
        text_printf(out, "... (%" PRIu64 " %s)", of->length,
                    of->has_units ? "characters" : "bytes");
}

/* "2 elements, 1 field" */
static void put_counts(struct text *out, const struct variable *of)
{
    const char *least = of->is_least ? "at least " : "";
    if (!of->array && !of->fields && !of->is_least)
        text_string(out, " (empty)");
    else if (!of->fields && !of->is_least)
        text_printf(out, " (%" PRIu64 " element%s)", of->array, of->array == 1 ? "" : "s");
    else if (!of->array && !of->is_least)
        text_printf(out, " (%" PRIu64 " field%s)", of->fields, of->fields == 1 ? "" : "s");
    else
        text_printf(out, " (%s%" PRIu64 " element%s, %" PRIu64 " field%s)", least, of->array,
                    of->array == 1 ? "" : "s", of->fields, of->fields == 1 ? "" : "s");
}

static void put_object(struct text *out, const struct variables *v, const struct variable *of)
{
    if (of->text.size && of->kind != VALUE_FUNCTION && of->kind != VALUE_OTHER) {
        put_text(out, v, of->text);
        text_char(out, ' ');
    }
    text_string(out, of->type);
    if (of->text.size && (of->kind == VALUE_FUNCTION || of->kind == VALUE_OTHER)) {
        text_char(out, ' ');
        put_text(out, v, of->text);
    } else if (of->address) {
        text_printf(out, " 0x%" PRIx64, of->address);
    }
    if (of->kind == VALUE_TABLE)
        put_counts(out, of);
}

static void put_c_function(struct text *out, const struct variables *v, const struct variable *of,
                           const struct variables_symbols *symbols)
{
    const char *symbol =
        of->native && symbols ? symbols->symbol(symbols->context, of->native) : NULL;
    text_string(out, "C function");
    if (of->text.size) {
        text_char(out, ' ');
        put_text(out, v, of->text);
    } else if (symbol) {
        text_char(out, ' ');
        text_escaped_bytes(out, symbol, strlen(symbol));
    } else if (of->native || of->address) {
        text_printf(out, " 0x%" PRIx64, of->native ? of->native : of->address);
    }
}

static void put_value(struct text *out, const struct variables *v, const struct variable *of,
                      const struct variables_symbols *symbols)
{
    char number[VARIABLE_NUMBER_MAX];
    switch (of->kind) {
    case VALUE_UNKNOWN:
        text_printf(out, "? (%s)", of->type);
        break;
    case VALUE_NIL:
        text_string(out, of->type);
        break;
    case VALUE_BOOLEAN:
        text_string(out, of->boolean ? "true" : "false");
        break;
    case VALUE_INTEGER:
        text_printf(out, "%" PRId64, of->integer);
        break;
    case VALUE_NUMBER:
    case VALUE_FLOAT:
        variable_write_number(number, of->kind, of->number_value);
        text_string(out, number);
        break;
    case VALUE_STRING:
        put_string(out, v, of);
        break;
    case VALUE_C_FUNCTION:
        put_c_function(out, v, of, symbols);
        break;
    default:
        put_object(out, v, of);
    }
    if (of->provenance != PROVENANCE_EXACT)
        text_string(out, of->provenance == PROVENANCE_STALE ? " (image)" : " (guess)");
}

static const char *const roles[] = {
    [VARIABLE_RECEIVER] = "receiver", [VARIABLE_ARGUMENT] = "argument",
    [VARIABLE_LOCAL] = "local",       [VARIABLE_VARARG] = "vararg",
    [VARIABLE_UPVALUE] = "upvalue",   [VARIABLE_TEMPORARY] = "temporary",
    [VARIABLE_FIELD] = "field",
};

static const char *role_name(uint8_t role)
{
    return role < sizeof(roles) / sizeof(*roles) ? roles[role] : "variable";
}

/* "local x", "vararg 2", "argument 1 path"; of a field, its key as Lua writes it. */
static void put_name(struct text *out, const struct variables *v, const struct variable *of)
{
    if (of->role == VARIABLE_FIELD) {
        text_string(out, of->name_is_written ? "[" : "");
        put_text(out, v, of->name);
        text_string(out, of->name_is_written ? "]" : "");
        return;
    }
    text_string(out, role_name(of->role));
    if (of->number && (!of->name.size || of->role == VARIABLE_ARGUMENT))
        text_printf(out, " %" PRIu32, of->number);
    if (of->name.size) {
        text_char(out, ' ');
        put_text(out, v, of->name);
    }
}

static void put_tabs(struct text *out, unsigned depth)
{
    for (unsigned i = 0; i < depth + 2; i++)
        text_char(out, '\t');
}

void variables_put_text(struct text *out, const struct variables *v,
                        const struct variables_symbols *symbols)
{
    for (size_t i = 0; i < v->at.nr; i++) {
        const struct variable *of = &v->at.at[i];
        put_tabs(out, of->depth);
        put_name(out, v, of);
        text_string(out, " = ");
        put_value(out, v, of, symbols);
        const bool has_listed = i + 1 < v->at.nr && v->at.at[i + 1].depth > of->depth;
        text_string(out, of->kind == VALUE_TABLE && of->is_cut && has_listed ? " ...\n" : "\n");
    }
    if (v->unknown) {
        put_tabs(out, 0);
        text_printf(out, "# %s\n", v->unknown);
    }
    if (v->is_cut) {
        put_tabs(out, 0);
        text_string(out, "# more variables are left out\n");
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_address(struct json *j, const char *key, uint64_t address)
{
    char text[24];
    if (!address)
        return;
    snprintf(text, sizeof(text), "0x%" PRIx64, address);
    json_key_string(j, key, text);
}

/* Write a member whose value is bytes of the process: as a string if they are UTF-8, else with
 * "_hex" behind its name, in hex. */
static void json_member(struct json *j, const char *key, const struct variables *v,
                        struct variable_text t)
{
    const char *bytes = variable_bytes(v, t);
    struct text hex = {0};
    char name[32];
    if (is_utf8(bytes, t.size)) {
        json_key(j, key);
        json_text(j, bytes, t.size);
        return;
    }
    snprintf(name, sizeof(name), "%s_hex", key);
    for (uint32_t i = 0; i < t.size; i++)
        text_hex_zeros(&hex, (unsigned char)bytes[i], 2);
    json_key(j, name);
    json_text(j, hex.failed ? "" : hex.at, hex.failed ? 0 : hex.size);
    text_free(&hex);
}

static const char *type_name(const struct variable *of)
{
    if (of->kind == VALUE_UNKNOWN)
        return "unknown";
    return of->type;
}

static void json_number(struct json *j, const struct variable *of)
{
    char number[VARIABLE_NUMBER_MAX];
    variable_write_number(number, of->kind, of->number_value);
    json_key(j, "value");
    if (strpbrk(number, "in")) /* inf and nan are no numbers of JSON */
        json_string(j, number);
    else
        json_digits(j, number);
}

static void json_table(struct json *j, const struct variables *v, const struct variable *of)
{
    json_key_uint(j, "elements", of->array);
    json_key_uint(j, "nr_fields", of->fields);
    if (of->is_least) {
        json_key(j, "counted_in_part");
        json_bool(j, true);
    }
    if (of->text.size)
        json_member(j, "class", v, of->text);
}

static void json_string_value(struct json *j, const struct variables *v, const struct variable *of)
{
    json_member(j, "value", v, of->text);
    if (of->is_cut)
        json_key_uint(j, "length", of->length);
}

static void json_function(struct json *j, const struct variables *v, const struct variable *of,
                          const struct variables_symbols *symbols)
{
    const char *symbol =
        of->native && symbols ? symbols->symbol(symbols->context, of->native) : NULL;
    const bool is_c = of->kind == VALUE_C_FUNCTION;
    if (is_c) {
        json_key(j, "native");
        json_bool(j, true);
        json_address(j, "code", of->native);
    }
    if (symbol)
        json_key_string(j, "symbol", symbol);
    if (of->text.size)
        json_member(j, is_c ? "function" : "defined", v, of->text);
}

static void json_value(struct json *j, const struct variables *v, const struct variable *of,
                       const struct variables_symbols *symbols)
{
    json_key_string(j, "type", type_name(of));
    switch (of->kind) {
    case VALUE_UNKNOWN:
        json_key_string(j, "reason", of->type);
        break;
    case VALUE_NIL:
        json_key(j, "value");
        json_null(j);
        break;
    case VALUE_BOOLEAN:
        json_key(j, "value");
        json_bool(j, of->boolean);
        break;
    case VALUE_INTEGER:
        json_key(j, "value");
        json_int(j, of->integer);
        break;
    case VALUE_NUMBER:
    case VALUE_FLOAT:
        json_number(j, of);
        break;
    case VALUE_STRING:
        json_string_value(j, v, of);
        break;
    case VALUE_TABLE:
        json_table(j, v, of);
        break;
    case VALUE_FUNCTION:
    case VALUE_C_FUNCTION:
        json_function(j, v, of, symbols);
        break;
    default:
        if (of->text.size)
            json_member(j, "class", v, of->text);
    }
    if (of->kind != VALUE_STRING)
        json_address(j, "address", of->address);
}

static void json_variable(struct json *j, const struct variables *v, const struct variable *of,
                          const struct variables_symbols *symbols)
{
    const bool is_field = of->role == VARIABLE_FIELD;
    json_object(j);
    if (!is_field)
        json_key_string(j, "role", role_name(of->role));
    if (of->name.size || is_field)
        json_member(j, is_field ? "key" : "name", v, of->name);
    if (of->name_is_written) {
        json_key(j, "key_is_written");
        json_bool(j, true);
    }
    if (of->number)
        json_key_uint(j, "number", of->number);
    json_value(j, v, of, symbols);
    if (of->provenance != PROVENANCE_EXACT)
        json_key_string(j, "provenance", of->provenance == PROVENANCE_STALE ? "image" : "guess");
    if (of->is_cut) {
        json_key(j, "cut");
        json_bool(j, true);
    }
}

/* The list is flat; JSON nests it. */
static void json_list(struct json *j, const struct variables *v,
                      const struct variables_symbols *symbols)
{
    json_array(j);
    for (size_t i = 0; i < v->at.nr; i++) {
        const unsigned depth = v->at.at[i].depth;
        const unsigned next = i + 1 < v->at.nr ? v->at.at[i + 1].depth : 0;
        json_variable(j, v, &v->at.at[i], symbols);
        if (next > depth) {
            json_key(j, "fields");
            json_array(j);
            continue;
        }
        json_object_end(j);
        for (unsigned d = depth; d > next; d--) {
            json_array_end(j);
            json_object_end(j);
        }
    }
    json_array_end(j);
}

void variables_put_json(struct json *j, const struct variables *v,
                        const struct variables_symbols *symbols)
{
    if (v->at.nr) {
        json_key(j, "variables");
        json_list(j, v, symbols);
    }
    if (v->unknown)
        json_key_string(j, "variables_unknown", v->unknown);
    if (v->is_cut) {
        json_key(j, "variables_cut");
        json_bool(j, true);
    }
}
