/* SPDX-License-Identifier: GPL-2.0-only */
/* Splits JavaScript into tokens while it is read, and collects from them: classes, and what their
 * bodies define under which name. */
#include "unwind/v8/source.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "base/vec.h"
#include "unwind/v8/object.h"

#include <stddef.h>
#include <stdlib.h>

enum { WORD_MAX = 128, DEPTH_MAX = 1 << 14, ENTRIES_MAX = 1 << 22, NO_CLASS = -1 };

/* The tokenizer's place within a token. */
enum state {
    BETWEEN,
    WORD,
    NUMBER,
    STRING,
    STRING_ESCAPE,
    STRING_RETURN, /* after an escaped carriage return: a line feed may belong to it */
    TEMPLATE,
    TEMPLATE_ESCAPE,
    TEMPLATE_DOLLAR,
    LINE_COMMENT,
    BLOCK_COMMENT,
    BLOCK_COMMENT_STAR,
    SLASH,
    REGEX,
    REGEX_ESCAPE,
    REGEX_SET,
    REGEX_SET_ESCAPE,
};

/* The last token, as far as the meaning of the next one depends on it. */
enum token {
    STATEMENT, /* a statement begins */
    OPERATOR,  /* a value comes next */
    ASSIGN,
    KEYWORD, /* a value comes next, though in a class body the word may be a name */
    HEAD,    /* if, while, for, with */
    NAME,
    PROPERTY, /* name behind a dot */
    DOT,
    VALUE,
    PARENTHESES,
    INCREMENT, /* assumed to stand behind a value */
};

enum bracket {
    PAREN,
    PAREN_HEAD, /* a statement begins behind it */
    SQUARE,
    BLOCK,
    OBJECT, /* "{" where a value is expected */
    PLACEHOLDER,
    BODY, /* body of a class */
};

/* A name within `names`. */
struct piece {
    uint32_t at, size;
};

enum member_kind {
    METHOD,
    ARROW,    /* an arrow function that is a field's value */
    COMPUTED, /* its name is that of a well-known symbol, or empty */
    WHOLE,    /* the class itself: without a constructor, V8 uses its whole text as one */
};

struct member {
    int32_t at;
    uint8_t kind;             /* enum member_kind */
    struct piece name, class; /* empty: not known */
};

/* A place where a function may begin. */
struct opening {
    int32_t at;
    uint32_t name; /* hash of the word before; 0: a function here need not have this name */
};

struct open {
    uint8_t kind; /* enum bracket */
    bool is_member;
    bool get, set;          /* SQUARE: whether the word before is "get" or "set" */
    struct opening opening; /* PAREN, PAREN_HEAD */
    struct piece class;     /* BODY: its name */
    struct member member;   /* PAREN directly in a class body or an object: the member that it may
                               begin */
};

/* A class whose "class" was read, but not yet its body. */
struct pending {
    size_t depth; /* number of open brackets there */
    int32_t at;
    struct piece name;
    bool fresh; /* the last token was "class" */
};

/* How much of "[Symbol.iterator" stands directly before. */
enum symbol_part { NO_SYMBOL, SYMBOL_BRACKET, SYMBOL_WORD, SYMBOL_DOT, SYMBOL_WHOLE };

/* The word of the current token, or of the one before. */
struct word {
    uint16_t at[WORD_MAX];
    uint32_t size; /* beyond WORD_MAX: too long to be kept */
};

struct v8_source {
    VEC(struct open) stack;
    VEC(struct pending) pending;
    VEC(struct member) members;   /* sorted by place at the end */
    VEC(struct opening) openings; /* sorted likewise */
    struct text names;
    struct word word, assigned; /* `assigned`: the name before "=" */
    int32_t at, began;          /* `at`: in characters; `began`: where the word began */
    int32_t arrow;              /* where the parameters before "=" began, if it turns out to be an
                                   arrow */
    uint8_t state, token;
    uint8_t function;   /* 2: behind "function"; 1: behind its name; 0: neither */
    uint8_t symbol;     /* enum symbol_part */
    struct piece key;   /* the "[Symbol.iterator]" that was closed last; else empty */
    uint16_t quote;     /* quote of the string */
    uint16_t last;      /* the character before, if it belongs to an operator */
    struct open closed; /* the brackets that the last token, PARENTHESES, closed */
    bool failed, no_memory;
    bool closes; /* set at the end: all brackets were closed */
};

struct v8_source *v8_source_create(void)
{
    return calloc(1, sizeof(struct v8_source));
}

void v8_source_free(struct v8_source *s)
{
    if (!s)
        return;
    vec_free(&s->stack);
    vec_free(&s->pending);
    vec_free(&s->members);
    vec_free(&s->openings);
    text_free(&s->names);
    free(s);
}

/* ---- names --------------------------------------------------------------------------------- */

static struct piece keep_word(struct v8_source *s, const struct word *w)
{
    struct piece p = {.at = (uint32_t)s->names.size};
    if (w->size > WORD_MAX || s->names.size > UINT32_MAX / 2)
        return p;
    v8_utf8(&s->names, w->at, w->size);
    s->no_memory |= s->names.failed;
    p.size = (uint32_t)s->names.size - p.at;
    return p;
}

static bool word_is(const struct word *w, const char *what)
{
    size_t i = 0;
    for (; i < w->size && what[i]; i++) {
        if (w->at[i] != (uint8_t)what[i])
            return false;
    }
    return i == w->size && !what[i];
}

static bool word_among(const struct word *w, const char *const *words, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        if (words[i][0] == w->at[0] && word_is(w, words[i]))
            return true;
    }
    return false;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Returns the class whose head is being read at this depth. */
static struct pending *pending_here(struct v8_source *s)
{
    struct pending *p = s->pending.nr ? &s->pending.at[s->pending.nr - 1] : NULL;
    return p && p->depth == s->stack.nr ? p : NULL;
}

static void begin_class(struct v8_source *s)
{
    struct pending p = {.depth = s->stack.nr, .at = s->began, .fresh = true};
    if (s->token == ASSIGN && s->assigned.size)
        p.name = keep_word(s, &s->assigned);
    s->failed |= s->pending.nr == DEPTH_MAX;
    if (!s->failed)
        s->no_memory |= !vec_push(&s->pending, p);
}

/* The word "class" was only a name: { class: 1 }. */
static void drop_fresh(struct v8_source *s)
{
    struct pending *p = pending_here(s);
    if (p && p->fresh)
        s->pending.nr--;
}

static void add_member(struct v8_source *s, const struct member *m)
{
    s->failed |= s->members.nr == ENTRIES_MAX;
    if (!s->failed)
        s->no_memory |= !vec_push(&s->members, *m);
}

static void add_opening(struct v8_source *s, struct opening o)
{
    s->failed |= s->openings.nr == ENTRIES_MAX;
    if (!s->failed)
        s->no_memory |= !vec_push(&s->openings, o);
}

/* Returns a hash that is never 0. */
static uint32_t hash_name(const char *name, size_t size)
{
    uint32_t hash = (uint32_t)hash_bytes(name, size);
    return hash ? hash : 1;
}

/* Returns the hash of the name of a function that begins behind this word. 0: the name is not
 * certain, because the word may be a keyword, or has escapes. */
static uint32_t name_by_word(const struct v8_source *s)
{
    static const char *const others[] = {"async", "constructor", "get", "set", "static"};
    const struct word *w = &s->word;
    char name[WORD_MAX];
    if (s->token != NAME || w->size > WORD_MAX || !w->size ||
        word_among(w, others, sizeof(others) / sizeof(*others)))
        return 0;
    for (size_t i = 0; i < w->size; i++) {
        if (w->at[i] >= 0x80 || w->at[i] == '\\')
            return 0;
        name[i] = (char)w->at[i];
    }
    return hash_name(name, w->size);
}

/* ---- words --------------------------------------------------------------------------------- */

static enum token classify_word(const struct word *w)
{
    static const char *const heads[] = {"if", "while", "for", "with"};
    static const char *const statements[] = {"else", "do", "try", "finally"};
    static const char *const keywords[] = {"return", "typeof", "instanceof", "in",    "of",
                                           "new",    "delete", "void",       "throw", "case",
                                           "yield",  "await",  "extends",    "class", "function"};
    enum { LONGEST = 10 };
    if (w->size < 2 || w->size > LONGEST)
        return NAME;
    if (word_among(w, heads, sizeof(heads) / sizeof(*heads)))
        return HEAD;
    if (word_among(w, statements, sizeof(statements) / sizeof(*statements)))
        return STATEMENT;
    return word_among(w, keywords, sizeof(keywords) / sizeof(*keywords)) ? KEYWORD : NAME;
}

static void end_word(struct v8_source *s)
{
    const struct word *w = &s->word;
    struct pending *p = pending_here(s);
    uint8_t before = s->token, function = s->function;
    s->function = function == 2;
    s->symbol = s->symbol == SYMBOL_BRACKET && word_is(w, "Symbol") ? SYMBOL_WORD
                : s->symbol == SYMBOL_DOT                           ? SYMBOL_WHOLE
                                                                    : NO_SYMBOL;
    if (before == DOT) {
        s->token = PROPERTY;
        return;
    }
    enum token token = classify_word(w);
    if (word_is(w, "async"))
        add_opening(s, (struct opening){.at = s->began});
    if (p && p->fresh) { /* the class's name, or what it extends */
        p->fresh = false;
        if (!word_is(w, "extends"))
            p->name = keep_word(s, w);
    } else if (token == KEYWORD && word_is(w, "class")) {
        begin_class(s);
    } else if (token == KEYWORD && word_is(w, "function")) {
        s->function = 2;
    } else if (before == HEAD && word_is(w, "await")) { /* for await ( */
        token = HEAD;
    }
    s->token = (uint8_t)token;
}

/* ---- brackets ------------------------------------------------------------------------------ */

static void push_open(struct v8_source *s, struct open o)
{
    s->failed |= s->stack.nr == DEPTH_MAX;
    if (!s->failed)
        s->no_memory |= !vec_push(&s->stack, o);
}

/* Directly in a class body or an object: prepares the member that a parenthesis may begin. In an
 * object only names of well-known symbols count. What follows the closing parenthesis decides
 * whether it is a member. */
static bool begin_member(struct v8_source *s, const struct open *body, struct member *ret)
{
    bool named =
        s->token == NAME || s->token == KEYWORD || s->token == HEAD || s->token == STATEMENT;
    const struct word *name = s->token == ASSIGN ? &s->assigned : &s->word;
    *ret = (struct member){.at = s->at, .class = body->class};
    if (s->token == VALUE && s->last == ']') {
        ret->kind = COMPUTED;
        ret->name = s->key;
        return body->kind == BODY || s->key.size;
    }
    if (body->kind != BODY)
        return false;
    ret->kind = s->token == ASSIGN ? ARROW : METHOD;
    if ((!named && s->token != ASSIGN) || s->function || !name->size)
        return false;
    ret->name = keep_word(s, name);
    return ret->name.size != 0;
}

static void open_paren(struct v8_source *s)
{
    const struct open *top = s->stack.nr ? &s->stack.at[s->stack.nr - 1] : NULL;
    struct open o = {.kind = s->token == HEAD ? PAREN_HEAD : PAREN,
                     .opening = {s->at, name_by_word(s)}};
    drop_fresh(s);
    if (top && (top->kind == BODY || top->kind == OBJECT) && begin_member(s, top, &o.member)) {
        o.is_member = true;
        o.kind = PAREN;
    }
    push_open(s, o);
    s->token = OPERATOR;
}

static void open_brace(struct v8_source *s)
{
    struct pending *p = pending_here(s);
    struct open o = {.kind = BLOCK};
    if (s->token == PARENTHESES)
        add_opening(s, s->closed.opening);
    if (p) {
        o.kind = BODY;
        o.class = p->name;
        add_opening(s, (struct opening){.at = p->at});
        add_member(s, &(struct member){p->at, WHOLE, {0}, p->name});
        s->pending.nr--;
    } else if (s->token == PARENTHESES && s->closed.is_member && s->closed.member.kind != ARROW) {
        add_member(s, &s->closed.member);
    } else if (s->token == OPERATOR || s->token == ASSIGN || s->token == KEYWORD) {
        o.kind = OBJECT;
    }
    push_open(s, o);
    s->token = o.kind == OBJECT ? OPERATOR : STATEMENT;
}

/* Keeps the name of a method that is "[Symbol.iterator]" in the source: V8 uses the same name. */
static void keep_symbol(struct v8_source *s, uint8_t symbol, const struct open *bracket)
{
    struct text *names = &s->names;
    s->key = (struct piece){.at = (uint32_t)names->size};
    if (symbol != SYMBOL_WHOLE || s->word.size > WORD_MAX || names->size > UINT32_MAX / 2)
        return;
    text_string(names, bracket->get ? "get " : bracket->set ? "set " : "");
    text_string(names, "[Symbol.");
    v8_utf8(names, s->word.at, s->word.size);
    text_char(names, ']');
    s->no_memory |= names->failed;
    s->key.size = (uint32_t)names->size - s->key.at;
}

static void close_bracket(struct v8_source *s, uint32_t c, uint8_t symbol)
{
    if (!s->stack.nr) {
        s->failed = true;
        return;
    }
    drop_fresh(s);
    struct open o = s->stack.at[--s->stack.nr];
    if (s->pending.nr && s->pending.at[s->pending.nr - 1].depth > s->stack.nr)
        s->failed = true;
    switch (o.kind) {
    case PAREN:
        s->failed |= c != ')';
        s->token = PARENTHESES;
        s->closed = o;
        break;
    case PAREN_HEAD:
        s->failed |= c != ')';
        s->token = STATEMENT;
        add_opening(s, (struct opening){.at = o.opening.at}); /* { if() {} } may be a method */
        break;
    case SQUARE:
        s->failed |= c != ']';
        keep_symbol(s, symbol, &o);
        s->token = VALUE;
        break;
    default:
        s->failed |= c != '}';
        s->token = o.kind == OBJECT ? VALUE : STATEMENT;
        s->state = o.kind == PLACEHOLDER ? TEMPLATE : BETWEEN;
    }
}

/* ---- operators ----------------------------------------------------------------------------- */

static void take_assign(struct v8_source *s)
{
    static const char others[] = "=!<>+-*/%&|^?";
    bool plain = !s->last || !strchr(others, (int)s->last);
    s->assigned.size = 0;
    s->arrow = s->token == PARENTHESES ? s->closed.opening.at : s->began;
    if (plain && s->token == NAME && s->word.size <= WORD_MAX) {
        memcpy(s->assigned.at, s->word.at, s->word.size * sizeof(*s->word.at));
        s->assigned.size = s->word.size;
    }
    s->token = plain ? ASSIGN : OPERATOR;
}

/* Handles ">". Behind an arrow, "{" begins a block. */
static void take_greater(struct v8_source *s, uint16_t last)
{
    bool arrow = last == '=';
    if (arrow)
        add_opening(s, (struct opening){.at = s->arrow});
    if (arrow && s->closed.is_member && s->closed.member.kind == ARROW)
        add_member(s, &s->closed.member);
    s->closed.is_member = false;
    s->token = arrow ? STATEMENT : OPERATOR;
}

static void take_operator(struct v8_source *s, uint32_t c)
{
    uint16_t last = s->last;
    uint8_t symbol = s->symbol;
    s->symbol = NO_SYMBOL;
    if (c != '*')
        s->function = c == '(' ? s->function : 0;
    switch (c) {
    case '(':
        open_paren(s);
        s->function = 0;
        break;
    case '[':
        push_open(s, (struct open){.kind = SQUARE,
                                   .get = s->token == NAME && word_is(&s->word, "get"),
                                   .set = s->token == NAME && word_is(&s->word, "set")});
        s->symbol = SYMBOL_BRACKET;
        s->token = OPERATOR;
        break;
    case '{':
        open_brace(s);
        break;
    case ')':
    case ']':
    case '}':
        close_bracket(s, c, symbol);
        break;
    case '=':
        drop_fresh(s);
        take_assign(s);
        break;
    case '>':
        take_greater(s, last);
        break;
    case '.':
        s->token = last == '.' ? OPERATOR : DOT;
        s->symbol = symbol == SYMBOL_WORD ? SYMBOL_DOT : NO_SYMBOL;
        break;
    case '+':
    case '-':
        s->token = last == c ? INCREMENT : OPERATOR;
        break;
    case ';':
        drop_fresh(s);
        s->token = STATEMENT;
        break;
    case ':':
    case ',':
    case '?':
        drop_fresh(s);
        s->token = OPERATOR;
        break;
    default:
        s->token = OPERATOR;
    }
    s->word.size = 0;
    s->last = (uint16_t)c;
}

/* ---- characters ---------------------------------------------------------------------------- */

static bool ends_line(uint32_t c)
{
    return c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029;
}

static bool is_blank(uint32_t c)
{
    return c <= ' ' || c == 0xa0 || c == 0xfeff || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_digit(uint32_t c)
{
    return c - '0' < 10;
}

/* Can the character be part of a word? Private names and escapes count, too. */
static bool is_word(uint32_t c)
{
    return (c | 0x20) - 'a' < 26 || is_digit(c) || c == '_' || c == '$' || c == '#' || c == '\\' ||
           (c >= 0x80 && !is_blank(c));
}

/* The characters of most words: letters, digits, "_", "$". */
static const bool is_letter[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['_'] = true, ['$'] = true};

static void take_between(struct v8_source *s, uint32_t c)
{
    if (is_blank(c)) {
        s->last = 0;
    } else if (is_digit(c)) {
        s->state = NUMBER;
    } else if (is_word(c)) {
        s->state = WORD;
        s->began = s->at;
        s->word.at[0] = (uint16_t)c;
        s->word.size = 1;
    } else if (c == '"' || c == '\'') {
        s->state = STRING;
        s->quote = (uint16_t)c;
    } else if (c == '`') {
        s->state = TEMPLATE;
    } else if (c == '/') {
        s->state = SLASH;
    } else {
        take_operator(s, c);
    }
}

static void end_value(struct v8_source *s)
{
    s->state = BETWEEN;
    s->token = VALUE;
    s->function = 0;
    s->symbol = NO_SYMBOL;
    s->last = 0;
}

static bool value_expected(const struct v8_source *s)
{
    return s->token == STATEMENT || s->token == OPERATOR || s->token == ASSIGN ||
           s->token == KEYWORD;
}

/* Handles the character behind a slash. */
static void take_slash(struct v8_source *s, uint32_t c)
{
    if (c == '/' || c == '*') {
        s->state = c == '/' ? LINE_COMMENT : BLOCK_COMMENT;
        s->last = 0;
    } else if (value_expected(s)) {
        s->state = c == '\\' ? REGEX_ESCAPE : c == '[' ? REGEX_SET : REGEX;
        s->failed |= ends_line(c);
    } else {
        s->state = BETWEEN;
        take_operator(s, '/');
        take_between(s, c);
    }
}

static void take_regex(struct v8_source *s, uint32_t c)
{
    s->failed |= ends_line(c);
    switch (s->state) {
    case REGEX_ESCAPE:
        s->state = REGEX;
        break;
    case REGEX_SET_ESCAPE:
        s->state = REGEX_SET;
        break;
    case REGEX_SET:
        s->state = c == ']' ? REGEX : c == '\\' ? REGEX_SET_ESCAPE : REGEX_SET;
        break;
    default:
        if (c == '/')
            end_value(s);
        else
            s->state = c == '\\' ? REGEX_ESCAPE : c == '[' ? REGEX_SET : REGEX;
    }
}

static void take_string(struct v8_source *s, uint32_t c)
{
    if (s->state == STRING_ESCAPE) {
        s->state = c == '\r' ? STRING_RETURN : STRING;
    } else if (s->state == STRING_RETURN && c == '\n') {
        s->state = STRING;
    } else if (c == s->quote) {
        end_value(s);
    } else {
        s->failed |= c == '\n' || c == '\r';
        s->state = c == '\\' ? STRING_ESCAPE : STRING;
    }
}

static void take_template(struct v8_source *s, uint32_t c)
{
    if (s->state == TEMPLATE_ESCAPE) {
        s->state = TEMPLATE;
    } else if (s->state == TEMPLATE_DOLLAR && c == '{') {
        push_open(s, (struct open){.kind = PLACEHOLDER});
        s->state = BETWEEN;
        s->token = OPERATOR;
    } else if (c == '`') {
        end_value(s);
    } else {
        s->state = c == '\\' ? TEMPLATE_ESCAPE : c == '$' ? TEMPLATE_DOLLAR : TEMPLATE;
    }
}

static void take_comment(struct v8_source *s, uint32_t c)
{
    if (s->state == LINE_COMMENT)
        s->state = ends_line(c) ? BETWEEN : LINE_COMMENT;
    else if (s->state == BLOCK_COMMENT_STAR && c == '/')
        s->state = BETWEEN;
    else
        s->state = c == '*' ? BLOCK_COMMENT_STAR : BLOCK_COMMENT;
}

static void take_word(struct v8_source *s, uint32_t c)
{
    if (is_word(c)) {
        if (s->word.size < WORD_MAX)
            s->word.at[s->word.size] = (uint16_t)c;
        s->word.size += s->word.size <= WORD_MAX;
        return;
    }
    s->state = BETWEEN;
    s->last = 0;
    end_word(s);
    take_between(s, c);
}

static void take_character(struct v8_source *s, uint32_t c)
{
    switch (s->state) {
    case BETWEEN:
        take_between(s, c);
        break;
    case WORD:
        take_word(s, c);
        break;
    case NUMBER:
        if (is_word(c) || c == '.')
            break;
        end_value(s);
        take_between(s, c);
        break;
    case STRING:
    case STRING_ESCAPE:
    case STRING_RETURN:
        take_string(s, c);
        break;
    case TEMPLATE:
    case TEMPLATE_ESCAPE:
    case TEMPLATE_DOLLAR:
        take_template(s, c);
        break;
    case LINE_COMMENT:
    case BLOCK_COMMENT:
    case BLOCK_COMMENT_STAR:
        take_comment(s, c);
        break;
    case SLASH:
        take_slash(s, c);
        break;
    default:
        take_regex(s, c);
    }
}

/* Returns how many of these characters change only the place: most of a text. */
static size_t skip_plain(const struct v8_source *s, const uint8_t *bytes, size_t nr)
{
    size_t i = 0;
    switch (s->state) {
    case BETWEEN:
        while (!s->last && i < nr && (bytes[i] == ' ' || bytes[i] == '\n'))
            i++;
        break;
    case LINE_COMMENT:
        while (i < nr && bytes[i] >= ' ')
            i++;
        break;
    case BLOCK_COMMENT:
        while (i < nr && bytes[i] != '*')
            i++;
        break;
    case STRING:
        while (i < nr && bytes[i] != s->quote && bytes[i] != '\\' && bytes[i] >= ' ')
            i++;
        break;
    case TEMPLATE:
        while (i < nr && bytes[i] != '`' && bytes[i] != '\\' && bytes[i] != '$')
            i++;
        break;
    default:
        break;
    }
    return i;
}

/* Reads the rest of a word; returns how many characters. */
static size_t take_letters(struct v8_source *s, const uint8_t *bytes, size_t nr)
{
    size_t i = 0;
    for (; s->state == WORD && i < nr && is_letter[bytes[i]] && s->word.size < WORD_MAX; i++)
        s->word.at[s->word.size++] = bytes[i];
    return i;
}

bool v8_source_take(struct v8_source *s, const uint8_t *bytes, size_t nr, bool wide)
{
    for (size_t i = 0; i < nr && !s->failed && !s->no_memory; i++, s->at++) {
        if (!wide) {
            size_t skipped = skip_plain(s, bytes + i, nr - i) + take_letters(s, bytes + i, nr - i);
            i += skipped;
            s->at += (int32_t)skipped;
            if (i == nr)
                break;
        }
        uint32_t c = wide ? load_u16(bytes + 2 * i, false) : bytes[i];
        if (s->at == 0 && c == '#') /* a line for the shell that runs the script */
            s->state = LINE_COMMENT;
        else
            take_character(s, c);
    }
    return !s->no_memory;
}

/* Compares members or openings: both structs begin with their place. */
static int compare_places(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}
_Static_assert(offsetof(struct member, at) == 0 && offsetof(struct opening, at) == 0,
               "what compare_places() and first_from() look at");

bool v8_source_end(struct v8_source *s)
{
    if (s->state == WORD)
        end_word(s);
    bool whole =
        s->state == BETWEEN || s->state == WORD || s->state == NUMBER || s->state == LINE_COMMENT;
    bool closes = !s->failed && whole && !s->stack.nr && !s->pending.nr;
    if (!closes)
        s->members.nr = s->openings.nr = 0;
    s->closes = closes;
    if (s->members.nr)
        qsort(s->members.at, s->members.nr, sizeof(*s->members.at), compare_places);
    if (s->openings.nr)
        qsort(s->openings.at, s->openings.nr, sizeof(*s->openings.at), compare_places);
    vec_free(&s->stack);
    vec_free(&s->pending);
    return closes;
}

/* ---- queries ------------------------------------------------------------------------------- */

static bool name_is(const struct v8_source *s, struct piece p, const char *name, size_t size)
{
    return p.size == size && size && memcmp(s->names.at + p.at, name, size) == 0;
}

/* Returns the index of the first of `nr` elements, `size` bytes each, at or behind the place
 * `start`. */
static size_t first_from(const void *list, size_t nr, size_t size, int32_t start)
{
    size_t low = 0, high = nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare_places((const uint8_t *)list + mid * size, &start) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const struct member *find_member(const struct v8_source *s, int32_t start)
{
    size_t i = first_from(s->members.at, s->members.nr, sizeof(*s->members.at), start);
    return i < s->members.nr && s->members.at[i].at == start ? &s->members.at[i] : NULL;
}

/* Returns the size of the prefix "get " or "set " that accessors have before their property's
 * name. */
static size_t accessor_prefix(const char *name, size_t size)
{
    enum { PREFIX = 4 };
    bool has =
        size > PREFIX && (memcmp(name, "get ", PREFIX) == 0 || memcmp(name, "set ", PREFIX) == 0);
    return has ? PREFIX : 0;
}

/* Is the member the constructor, which is named `new Class`? */
static bool is_constructor(const struct v8_source *s, const struct member *m, const char *name,
                           size_t size)
{
    static const char constructor[] = "constructor";
    return name_is(s, m->class, name, size) &&
           (m->kind == WHOLE ||
            (m->kind == METHOD && name_is(s, m->name, constructor, sizeof(constructor) - 1)));
}

bool v8_source_name(const struct v8_source *s, int32_t start, const char *name, size_t size,
                    struct text *ret)
{
    const struct member *m = find_member(s, start);
    bool symbol = m && m->kind == COMPUTED && m->name.size;
    if (!m || (!m->class.size && !symbol))
        return false;
    size_t prefix = accessor_prefix(name, size);
    const char *class = s->names.at + m->class.at;
    if (is_constructor(s, m, name, size)) {
        text_string(ret, "new ");
        text_bytes(ret, class, m->class.size);
        return true;
    }
    bool computed = m->kind == COMPUTED && (!size || name_is(s, m->class, name, size));
    if (!symbol && !computed && !name_is(s, m->name, name, size) &&
        !(prefix && name_is(s, m->name, name + prefix, size - prefix)))
        return false;
    text_bytes(ret, class, m->class.size);
    if (m->class.size)
        text_char(ret, '.');
    if (symbol)
        text_bytes(ret, s->names.at + m->name.at, m->name.size);
    else if (computed)
        text_string(ret, "[computed]");
    else
        text_bytes(ret, name, size);
    return true;
}

bool v8_source_fits(const struct v8_source *s, int32_t start, int32_t end, const char *name,
                    size_t size)
{
    if (!s->closes || start < 0)
        return true;
    if (end > s->at)
        return false;
    if (start == 0 && end == s->at)
        return true;
    size_t prefix = accessor_prefix(name, size);
    size_t i = first_from(s->openings.at, s->openings.nr, sizeof(*s->openings.at), start);
    for (; i < s->openings.nr && s->openings.at[i].at == start; i++) {
        const struct opening *o = &s->openings.at[i];
        if (!size || !o->name || o->name == hash_name(name, size) ||
            o->name == hash_name(name + prefix, size - prefix))
            return true;
    }
    return false;
}
