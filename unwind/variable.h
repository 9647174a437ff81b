/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Variables of managed frames: names and values, in terms that all runtimes share. They are read
 * only for somebody who asks (ljperf bt --locals), of a process that stands still:
 *
 * 1. The asker puts a `struct variable_places` into struct runtime_sample. A walker then notes, for
 *    each managed frame that it writes, where the frame's variables are (struct variable_place). A
 *    walk without it pays one test a frame.
 * 2. After the walk, runtime_walkers_variables() gives a frame's place to the `variables` of its
 *    runtime (runtime.h), which adds them to a `struct variables`. That is bounded here, so a
 *    runtime only has to stop when a function says that there is no more room.
 *
 * Objects may be damaged. Whoever reads them bounds its loops by itself, and follows fields only as
 * deep as variables_wants_fields() says.
 */
#ifndef UNWIND_VARIABLE_H
#define UNWIND_VARIABLE_H

#include "base/text.h"
#include "base/vec.h"
#include "unwind/frame.h"

/* ---- where a frame's variables are -------------------------------------------------------- */

enum { VARIABLE_WORDS = 8 };

struct runtime;
struct variable_place {
    const struct runtime *runtime;
    size_t frame; /* index in the frames of the walk, innermost first */
    /* The frame's own, by which it is known again: a search may have taken it back since. */
    uint64_t pc;
    uint32_t function;
    uint8_t kind;
    bool is_settled; /* by variable_places_set() */
    /* The rest is the runtime's own: the state, the function, the base, the bytecode's pc. */
    const void *layout;
    uint64_t word[VARIABLE_WORDS];
};

struct variable_places {
    VEC(struct variable_place) at;
    bool is_unsorted; /* `at` is not by rising `frame` */
    bool failed;      /* memory was out: places are missing */
};

void variable_places_clear(struct variable_places *p);
void variable_places_free(struct variable_places *p);

/* Note the place of a frame in a walker's step, right before or after it is appended. `place` has
 * no `frame`, `pc`, `function` and `kind` yet: they are set to `index` and to those of `f`. Places
 * noted before for the same or a later index are dropped: their frames were taken back. */
void variable_places_note(struct variable_places *p, const struct variable_place *place,
                          size_t index, const struct frame *f);
/* The same in a walker's finish(): `index` is that of the frame in the result, where it stays. */
void variable_places_set(struct variable_places *p, const struct variable_place *place,
                         size_t index, const struct frame *f);
/* A walker's finish() puts `by` frames in front of the frame that had the index `from`: the places
 * from there on move with their frames, those of other runtimes that is: the ones that
 * variable_places_set() has set stay. */
void variable_places_moved(struct variable_places *p, size_t from, size_t by);

/* Returns the place of a frame of the finished walk; NULL: none was noted. */
const struct variable_place *variable_places_find(struct variable_places *p, size_t index,
                                                  const struct frame *f);

/* ---- names and values --------------------------------------------------------------------- */

enum variable_role {
    VARIABLE_RECEIVER, /* "this" */
    VARIABLE_ARGUMENT, /* a parameter that is not listed as a local: it has a number, and perhaps a
                          name */
    VARIABLE_LOCAL,
    VARIABLE_VARARG,
    VARIABLE_UPVALUE,
    VARIABLE_TEMPORARY, /* a slot that no variable has at this place */
    VARIABLE_FIELD,     /* of the last variable before it whose depth is less by one */
};

enum value_kind {
    VALUE_UNKNOWN, /* `type` says why: a static text */
    VALUE_NIL,     /* the language's word for nothing is in `type`: "nil", "undefined" */
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_NUMBER,   /* in a language that has no integers apart */
    VALUE_FLOAT,    /* in a language that has integers, too: 3.0 is not 3 */
    VALUE_STRING,   /* `text`: its first bytes, `length`: how many it has; `is_cut`: `text` is not
                       all */
    VALUE_TABLE,    /* it has fields, perhaps listed behind it. `array`, `fields`: how many it has;
                       `text`: its class, if that is known (Lua: the __name of the metatable) */
    VALUE_FUNCTION, /* `text`: where it is defined, FILE:LINE, or NAME FILE:LINE; empty: unknown */
    VALUE_C_FUNCTION, /* `native`: its code; 0: unknown. `text`: its name in the language, or
                         empty */
    VALUE_USERDATA,   /* an object whose fields are not told. `text`: its class, if that is known */
    VALUE_THREAD,     /* a coroutine */
    VALUE_POINTER,    /* a light userdata: `address` is the value itself */
    VALUE_OTHER,      /* only its type is told: `type`, perhaps `text` (a cdata's type) */
};

/* Bytes of `struct variables`. Raw: whoever prints them must escape them. */
struct variable_text {
    uint32_t at, size;
};

struct variable {
    uint8_t role;       /* enum variable_role */
    uint8_t kind;       /* enum value_kind */
    uint8_t depth;      /* 0: of the frame; fields are one deeper than what they are fields of */
    uint8_t provenance; /* of the value */
    bool boolean;
    bool name_is_written; /* a field's key is no string: `name` is how it is written: 1, true */
    bool is_cut;          /* it has more fields than are listed */
    bool has_units;       /* a string's `length` counts UTF-16 units, not bytes of `text` */
    bool is_least;        /* `array` and `fields` are what was counted until a bound was reached */
    uint32_t number;      /* which of its role, from 1: of an argument, a vararg, an upvalue; of a
                             temporary its slot. 0: none */
    struct variable_text name; /* empty: none */
    const char *type; /* what the language calls the value's type: "table"; static; never NULL */
    int64_t integer;
    double number_value;
    uint64_t address; /* of the object; 0: none */
    uint64_t native;
    struct variable_text text;
    uint64_t length, array, fields;
};

/* What is asked for, and its bounds. All of the lists of a frame together are bounded. */
struct variables_wanted {
    bool temporaries;
    unsigned depth;      /* 0: only the variables; 1: fields of tables, too; 2: their fields ... */
    unsigned fields_max; /* of one table */
    unsigned string_max; /* bytes of a string */
    unsigned variables_max, bytes_max; /* of a frame */
};
enum {
    VARIABLES_DEPTH_MAX = 16,
    VARIABLE_NAME_MAX = 256, /* bytes of a name that are kept */
};
/* Returns what ljperf bt --locals asks for: depth 1, 16 fields, 200 bytes of a string. */
struct variables_wanted variables_wanted_default(void);

/* The variables of one frame, in the order in which they are to be shown. Each one's fields follow
 * it. */
struct variables {
    struct variables_wanted wanted;
    VEC(struct variable) at;
    struct text bytes;
    const char *unknown; /* why nothing, or not all, is known of the frame: a static sentence
                            without its end; NULL: it is all there */
    bool is_cut;         /* there are more: the bounds were reached */
    bool failed;         /* memory is out */
};

/* Empty the list for the next frame. */
void variables_begin(struct variables *v, const struct variables_wanted *wanted);
void variables_free(struct variables *v);

/* Add a variable, with kind VALUE_UNKNOWN and type "not known" until it is set. The result is valid
 * until the next one is added. NULL: there is no more room (`is_cut`), or memory is out. */
struct variable *variables_add(struct variables *v, enum variable_role role, unsigned depth);
/* Returns whether the fields of a value at that depth are to be listed, and there is room. */
static inline bool variables_wants_fields(const struct variables *v, unsigned depth)
{
    return depth < v->wanted.depth && !v->is_cut && !v->failed;
}

/* Set the parts of a variable that is the last of the list. Texts are cut to the bounds. */
void variable_set_name(struct variables *v, struct variable *of, const char *bytes, size_t size);
void variable_set_text(struct variables *v, struct variable *of, const char *bytes, size_t size);
/* Why its value is not known: a static text, "not recorded". */
void variable_set_unknown(struct variable *of, const char *why);
void variable_set_nil(struct variable *of, const char *type);
void variable_set_boolean(struct variable *of, bool value);
void variable_set_integer(struct variable *of, int64_t value);
/* `kind`: VALUE_NUMBER or VALUE_FLOAT. */
void variable_set_number(struct variable *of, enum value_kind kind, double value);
/* `bytes`: the first `size` of the string's `length` bytes, of which wanted.string_max are kept. A
 * character of UTF-8 is kept whole or not at all. */
void variable_set_string(struct variables *v, struct variable *of, const char *bytes, size_t size,
                         uint64_t length);
/* Any other kind. The caller sets what else the kind has. */
void variable_set_object(struct variable *of, enum value_kind kind, const char *type,
                         uint64_t address);

/* Write a number as short as it can be read back: "3", "0.1"; a VALUE_FLOAT is never written as an
 * integer: "3.0". Also "inf", "-inf", "nan". */
enum { VARIABLE_NUMBER_MAX = 40 };
void variable_write_number(char to[VARIABLE_NUMBER_MAX], enum value_kind kind, double value);

static inline const char *variable_bytes(const struct variables *v, struct variable_text t)
{
    return t.size ? v->bytes.at + t.at : "";
}

#endif
