/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables of command line options. A command declares its options once, as rows. The parser, --help,
 * the shell completions and the check of the man pages all read these rows.
 *
 * The command line works as with perf and getopt_long(): options and arguments may be mixed, unique
 * abbreviations of long options work, letters may be joined (-qv), a value may follow its letter
 * (-F99), and everything after -- is an argument. Error texts are those of perf's parse-options.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_IGNORED, /* accept the option and store nothing */
    OPTION_FLAG,    /* store `value`, 0 or 1, in a bool */
    OPTION_CHOICE,  /* store `value` in an enum */
    OPTION_STRING,  /* store the value's pointer in a const char * */
    OPTION_NUMBER,  /* store a whole number in an integer of 4 or 8 bytes */
    OPTION_WORD,    /* store which of `words` the value is in an enum */
    OPTION_NAMES,   /* split the value at commas, in place, and append to a name_list */
    OPTION_APPEND,  /* append the value to a name_list */
    OPTION_CALL,    /* call `take` */
    OPTION_HELP,    /* end parsing: the caller prints the help */
};

/* Where the value of an option may stand, if the option has one. */
enum option_place {
    VALUE_REQUIRED,   /* --name=VALUE, --name VALUE, -nVALUE, -n VALUE */
    VALUE_ATTACHED,   /* optional: --name=VALUE, -nVALUE */
    VALUE_MAY_FOLLOW, /* optional: also the next word, unless it begins with '-' (perf report -g) */
};

struct option_row;

/* One use of an option on a command line. */
struct option_value {
    const struct option_row *row;
    char *text;  /* the value, in argv; NULL: the option has none, or it was left out */
    bool letter; /* the option was given by its letter */
};

/* Take one use of an option. `target` belongs to the row's section. Returns -1 for a bad value,
 * which `err` describes (option_error()). */
typedef int option_take(void *target, const struct option_value *v, struct error *err);

/* One option. Write it with a ROW_ macro; a row may set more members after the macro. */
struct option_row {
    const char *name;     /* long name; NULL: the option has a letter only */
    const char *argument; /* name of the value in --help; NULL: the option takes no value */
    const char *help;     /* what the option does, one or more sentences without line breaks */
    char letter;          /* 0: the option has a long name only */
    enum option_kind kind;
    enum option_place place;
    bool hidden;              /* not in --help and completions: another name of a shown option */
    bool list;                /* the value is several words, separated by commas */
    unsigned value;           /* OPTION_FLAG, OPTION_CHOICE: what is stored */
    unsigned size;            /* OPTION_NUMBER: of the integer */
    size_t field;             /* offset in the section's target of what is stored */
    uint64_t least, most;     /* OPTION_NUMBER: bounds */
    option_take *take;        /* OPTION_CALL */
    const char *const *words; /* values, up to NULL; OPTION_WORD needs them, completions use them */
    const char *(*word_list)(void); /* or: returns values for completions, separated by commas */
};

/* The offset of a field, which must have the type that the row stores. */
#define OPTION_FIELD(type, field, stored) \
    (offsetof(type, field) +              \
     0 * sizeof(                          \
             char[__builtin_types_compatible_p(__typeof__(((type *)0)->field), stored) ? 1 : -1]))

/* The offset of an enum. */
#define OPTION_ENUM(type, field) \
    (offsetof(type, field) +     \
     0 * sizeof(char[sizeof(((type *)0)->field) == sizeof(unsigned) ? 1 : -1]))

#define ROW_FLAG(letter_, name_, type_, field_, help_)                                \
    .kind = OPTION_FLAG, .letter = letter_, .name = name_, .help = help_, .value = 1, \
    .field = OPTION_FIELD(type_, field_, bool)
/* An enum's value. */
#define ROW_CHOICE(letter_, name_, type_, field_, value_, help_)                             \
    .kind = OPTION_CHOICE, .letter = letter_, .name = name_, .help = help_, .value = value_, \
    .field = OPTION_ENUM(type_, field_)
/* A flag that stores false. */
#define ROW_CLEAR(letter_, name_, type_, field_, help_)                               \
    .kind = OPTION_FLAG, .letter = letter_, .name = name_, .help = help_, .value = 0, \
    .field = OPTION_FIELD(type_, field_, bool)
#define ROW_STRING(letter_, name_, argument_, type_, field_, help_)                                \
    .kind = OPTION_STRING, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .field = OPTION_FIELD(type_, field_, const char *)
#define ROW_NUMBER(letter_, name_, argument_, type_, field_, least_, most_, help_)                 \
    .kind = OPTION_NUMBER, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .least = least_, .most = most_, .field = offsetof(type_, field_),                              \
    .size = sizeof(((type_ *)0)->field_)
#define ROW_WORD(letter_, name_, argument_, type_, field_, words_, help_)                        \
    .kind = OPTION_WORD, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .words = words_, .field = OPTION_ENUM(type_, field_)
#define ROW_NAMES(letter_, name_, argument_, type_, field_, help_)                                \
    .kind = OPTION_NAMES, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .list = true, .field = OPTION_FIELD(type_, field_, name_list)
#define ROW_APPEND(letter_, name_, argument_, type_, field_, help_)                                \
    .kind = OPTION_APPEND, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .field = OPTION_FIELD(type_, field_, name_list)
/* `argument_` is NULL for an option without a value. */
#define ROW_CALL(letter_, name_, argument_, take_, help_)                                        \
    .kind = OPTION_CALL, .letter = letter_, .name = name_, .argument = argument_, .help = help_, \
    .take = take_
#define ROW_IGNORED(letter_, name_, help_) \
    .kind = OPTION_IGNORED, .letter = letter_, .name = name_, .help = help_
#define ROW_HELP .kind = OPTION_HELP, .letter = 'h', .name = "help", .help = "Print this text."

/* Rows below one title of --help. */
struct option_section {
    const char *title;             /* NULL: none */
    const struct option_row *rows; /* up to a row without a letter and a name */
    unsigned target;               /* index of the struct that the rows' fields are in */
};

/* What happens to words of the command line that are not options. */
enum option_arguments {
    ARGUMENTS_NONE,    /* they are errors */
    ARGUMENTS_TAKEN,   /* `argument` takes each, in order */
    ARGUMENTS_COMMAND, /* the first ends the options: a command begins, with its own options */
};

enum { OPTION_SECTIONS = 8 };

/* The command line of one command. */
struct option_set {
    const char *name;    /* "ljperf fold" */
    const char *usage;   /* what follows the name; several forms are separated by line breaks */
    const char *about;   /* paragraphs for --help, in lines */
    const char *closing; /* text at the end of --help; NULL: none */
    struct option_section sections[OPTION_SECTIONS]; /* up to one without rows */
    enum option_arguments arguments;
    bool command_follows; /* ARGUMENTS_TAKEN: -- ends all arguments, and a command begins */
    /* ARGUMENTS_TAKEN: take one argument; `target` is the one with this index. */
    unsigned argument_target;
    int (*argument)(void *target, char *text, struct error *err);
    /* Completes arguments: a name as in a row's `argument`; NULL: nothing. */
    const char *argument_name;
    const char *const *argument_words; /* or: the arguments that there are, up to NULL */
    /* Called after an option of the command line was taken; NULL: nobody wants to know. */
    void (*seen)(void *target, const struct option_row *row);
    /* Explains an unknown option, given as "--name" or "-n": fills `err` if it knows why the option
     * does not exist. NULL: it never does. */
    void (*unknown)(const char *option, struct error *err);
};

struct options_parsed {
    bool help; /* --help was given, and parsing ended there */
    int first; /* index in argv of the command that follows; argc: there is none */
    const struct option_row *rows[2]; /* after an error: rows that it is about; NULL: none */
};

/* Parse a command line. argv[0] is skipped. `targets` are the structs that the sections' rows store
 * in. Values stay in argv. Returns -1 for a bad command line, which `err` describes. */
int options_parse(const struct option_set *set, void *const *targets, int argc, char **argv,
                  struct options_parsed *ret, struct error *err);

/* Take one value as if the option `row` of the section `s` was given by its long name: for
 * configuration files. */
int options_take(const struct option_section *s, const struct option_row *row, void *const *targets,
                 char *value, struct error *err);

/* Describe a bad value: "option `NAME' TEXT" or "switch `N' TEXT". Always returns -1. */
int option_error(const struct option_value *v, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Split a value at commas, in place, and append the parts to `ret`, without empty ones. */
int option_names(char *text, name_list *ret, struct error *err);

/* Whether `row` is the last one of a section, which is no option. */
static inline bool option_row_is_end(const struct option_row *row)
{
    return !row->name && !row->letter;
}

/* Append what --help prints. */
void options_put_help(const struct option_set *set, struct text *out);
/* Append a message for a bad command line, as perf prints it: the error, how the command is used,
 * and the options that the error is about. `p` may be NULL. */
void options_put_error(const struct option_set *set, const struct options_parsed *p,
                       const struct error *err, struct text *out);

#endif
