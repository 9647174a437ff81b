/* SPDX-License-Identifier: GPL-2.0-only */
/* Scripts with their lines, and functions with their names. Both are in tables that grow up to a
 * limit, at which they are emptied. */
#include "unwind/v8/names.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "unwind/v8/source.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_CHARACTERS = 1024,
    SOURCE_MAX = 1 << 28, /* most characters of a source whose lines are counted */
    ENTRIES_MAX = 1 << 16,
    TRIES_MAX = 16,
    LONG = 1 << 18, /* characters of a source: a recorder reads a longer source only once */
};

struct script {
    uint64_t space, address, source;
    uint64_t id;                /* the tagged word */
    const char *file;           /* owned by `managed`; NULL: it has no name */
    int32_t line, column;       /* place in the file where the source begins */
    VEC(int32_t) ends;          /* ends of lines */
    struct v8_source *text;     /* NULL: not read yet */
    bool lines_known, doubtful; /* `doubtful`: the source may contain another object's bytes */
    bool sure;                  /* readings of both sides prove that the text stood there */
    bool again;                 /* its name must be read once more */
    uint8_t tries;              /* attempts to read the lines: they may be recorded only at other
                                   times */
};

struct function {
    uint64_t space, sfi, name, script; /* tagged words */
    uint64_t script_id; /* tells apart functions that a GC moves to the same place; 0: unknown */
    int32_t from, to;   /* the same by place in the source; -1: unknown */
    uint32_t id, script_index;
    int32_t start; /* place in the source; code without a place of its own is reported as before
                      it */
    bool bare;     /* as in struct v8_named */
};

struct v8_names {
    struct managed_names *managed;
    VEC(struct script) scripts;
    VEC(struct function) functions;
    struct hash_table function_table; /* of indexes in `functions` */
    uint64_t batch;
    bool only_read;
    VEC(uint64_t) searched; /* hashes of what this batch already looked up at other moments */
    struct hash_table searched_table;
};

struct v8_names *v8_names_create(struct managed_names *managed)
{
    struct v8_names *n = calloc(1, sizeof(*n));
    if (n)
        n->managed = managed;
    return n;
}

void v8_names_only_read(struct v8_names *n)
{
    n->only_read = true;
}

static void forget_functions(struct v8_names *n)
{
    n->functions.nr = 0;
    hash_table_clear(&n->function_table);
}

void v8_names_forget(struct v8_names *n)
{
    vec_foreach (s, &n->scripts) {
        vec_free(&s->ends);
        v8_source_free(s->text);
    }
    n->scripts.nr = 0;
    forget_functions(n);
}

void v8_names_again(struct v8_names *n)
{
    vec_foreach (s, &n->scripts) {
        s->again = true;
        s->tries = 0; /* a GC may have been under way, which uses the heads of objects */
    }
    forget_functions(n);
}

void v8_names_free(struct v8_names *n)
{
    if (!n)
        return;
    v8_names_forget(n);
    vec_free(&n->scripts);
    vec_free(&n->functions);
    hash_table_free(&n->function_table);
    vec_free(&n->searched);
    hash_table_free(&n->searched_table);
    free(n);
}

/* What is read here never changes as long as the function lives, and its frame proves that it
 * lives. It is read at the first request only, so it must not change a frame's provenance: the
 * provenance must not depend on which frame asked first. */
struct proof {
    enum provenance provenance;
    bool by_one_reading;
};

static struct proof keep_proof(const struct v8_reader *r)
{
    return (struct proof){r->provenance, r->by_one_reading};
}

static void restore_proof(struct v8_reader *r, const struct proof *p)
{
    r->provenance = p->provenance;
    r->by_one_reading = p->by_one_reading;
}

/* ---- other moments ------------------------------------------------------------------------- */

/* What does not change during its life, but is not recorded for this moment, is looked up at other
 * moments, nearest first. Without this, the result would depend on what was asked before, and so on
 * which thread was asked. The caller must check that the very same object stood there. */
struct moments {
    const struct v8_reader *of;
    struct memory memory;
    unsigned next;
    /* Addresses whose versions give further moments, at which other bytes are known to have stood
     * there: a moved object stays at its old place for as long as it is referred to. */
    uint64_t words[2];
    unsigned word; /* next of `words`, each twice: versions before, then versions after */
    unsigned nr;   /* versions tried for this word and direction */
    uint64_t last;
};

static struct moments moments_begin(const struct v8_reader *r, uint64_t word, uint64_t other)
{
    struct moments m = {.of = r, .memory = *r->memory, .words = {word, other}};
    return m;
}

/* Steps ever farther away, up to half a minute. */
static bool moments_next_step(struct moments *m)
{
    enum { STEPS = 16 };
    const uint64_t time = m->of->memory->time;
    while (m->next < 2 * STEPS) {
        uint64_t away = UINT64_C(1000000) << m->next / 2; /* ns */
        bool later = m->next++ % 2;
        if (!later && away > time)
            continue;
        m->memory.time = later ? time + away : time - away;
        return true;
    }
    return false;
}

static bool moments_next_version(struct moments *m)
{
    enum { VERSIONS = 32 };
    while (m->word < 2 * sizeof(m->words) / sizeof(*m->words)) {
        uint64_t from = m->nr ? m->last : m->of->memory->time;
        if (m->nr++ < VERSIONS &&
            memory_version(m->of->memory, m->words[m->word / 2], from, m->word % 2, &m->last)) {
            m->memory.time = m->last;
            return true;
        }
        m->word++;
        m->nr = 0;
    }
    return false;
}

static bool moments_next(struct moments *m, struct v8_reader *ret)
{
    if (!moments_next_step(m) && !moments_next_version(m))
        return false;
    *ret = (struct v8_reader){.memory = &m->memory,
                              .layout = m->of->layout,
                              .moment = m->of->moment,
                              .alive = m->of->alive};
    return true;
}

/* Returns the address of a field. */
static uint64_t slot_address(uint64_t object, int32_t offset)
{
    return v8_address(object) + (uint64_t)(int64_t)offset;
}

/* Forgets the searches of the batch before: another thread may have had that batch. */
static void begin_batch(struct v8_names *n, uint64_t batch)
{
    if (n->batch != batch) {
        n->searched.nr = 0;
        hash_table_clear(&n->searched_table);
    }
    n->batch = batch;
}

/* May other moments be searched for the object with this hash? Once in each batch. (A budget for
 * all searches of a batch would be spent on objects that another thread knows already, so only one
 * thread would spend it.) */
static bool may_search(struct v8_names *n, uint64_t hash)
{
    size_t nr = n->searched.nr;
    return hash_table_intern(&n->searched_table, hash, &n->searched, i, n->searched.at[i] == hash,
                             hash) == nr;
}

/* ---- what a text must fit ------------------------------------------------------------------ */

/* What a function knows about its script's text. */
struct witness {
    int32_t start, end; /* in the source; -1: unknown */
    struct text name;   /* the name in the source; empty: none, or unknown */
};

/* Does the text fit the function? A GC may have put another text at this place, whose brackets all
 * close as well, but it has no such function at this place. */
static bool fits(const struct script *s, const struct witness *w)
{
    return !w || s->sure || !s->text ||
           v8_source_fits(s->text, w->start, w->end, w->name.at, w->name.size);
}

static void witness_read(struct v8_reader *r, const struct v8_sfi *sfi,
                         const struct v8_scope *scope, struct witness *ret)
{
    const uint64_t names[] = {sfi->name, scope->name};
    *ret = (struct witness){.start = -1, .end = -1};
    if (scope->members || scope->statics) /* versions differ in where these functions begin */
        return;
    ret->start = scope->start;
    ret->end = scope->end;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !ret->name.size; i++) {
        int32_t type = v8_is_pointer(names[i]) ? v8_type(r, names[i]) : -1;
        bool is = type >= 0 && type < r->layout->nonstring;
        if (is && !v8_string(r, names[i], NAME_MAX_CHARACTERS, &ret->name))
            ret->name.size = 0;
    }
    if (ret->name.size && *ret->name.at == '<') /* a name made by V8: <static_initializer> */
        ret->start = ret->end = -1;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Counts the lines of a source while its characters are read. */
struct line_counter {
    struct script *script;
    int32_t at;
    bool carriage; /* the last character was a carriage return: it ends a line, unless a line feed
                      follows */
    bool failed;
    const struct v8_reader *exact; /* stop when this reader is not exact; NULL: read in any case */
};

static void end_line(struct line_counter *c, int32_t at)
{
    c->failed |= !vec_push(&c->script->ends, at);
}

static bool take_lines(void *context, const uint8_t *bytes, size_t nr, bool wide)
{
    struct line_counter *c = context;
    if (c->exact && c->exact->provenance != PROVENANCE_EXACT)
        return false;
    for (size_t i = 0; i < nr; i++, c->at++) {
        uint32_t u = wide ? load_u16(bytes + 2 * i, false) : bytes[i];
        if (c->carriage && u != '\n')
            end_line(c, c->at - 1);
        c->carriage = u == '\r';
        if (u == '\n' || u == 0x2028 || u == 0x2029)
            end_line(c, c->at);
    }
    return !c->failed && v8_source_take(c->script->text, bytes, nr, wide);
}

/* Is it proven that what was read since restore_proof() stood there at that time? Memory of one
 * moment gives no reason to doubt it. */
static bool is_sure(const struct v8_reader *r)
{
    return !memory_has_moments(r->memory) ||
           (r->provenance == PROVENANCE_EXACT && !r->by_one_reading);
}

/* Reads the source as a text; false: it cannot be read. Where another object may have come to its
 * place, all brackets of the text must close, and it must have a function where the caller's
 * function is. Where another object is known to have come there, the text is used only as a `last`
 * resort: the other object may stand where a comment was. */
static bool read_text(struct v8_reader *r, struct script *s, const struct witness *w,
                      const struct v8_characters *to, bool last)
{
    const struct proof none = {PROVENANCE_EXACT, false};
    uint64_t source;
    restore_proof(r, &none); /* callers that ask for names keep their own provenance */
    bool is = v8_string_each(r, s->source, SOURCE_MAX, to);
    bool sure = is_sure(r), exact = r->provenance == PROVENANCE_EXACT;
    if (!is || !(v8_source_end(s->text) || sure) || !(last || exact))
        return false;
    s->sure = v8_slot(r, s->address, r->layout->script_source, &source) && source == s->source &&
              is_sure(r);
    return fits(s, w);
}

/* Reads the lines from the source, which also has the classes. */
static bool read_source(struct v8_reader *r, struct script *s, const struct witness *w, bool last)
{
    const bool others = memory_has_moments(r->memory); /* at which it may be exact */
    struct line_counter c = {.script = s, .exact = last || !others ? NULL : r};
    const struct v8_characters to = {take_lines, &c};
    s->ends.nr = 0;
    s->text = v8_source_create();
    if (!s->text || !read_text(r, s, w, &to, last)) {
        v8_source_free(s->text);
        s->text = NULL;
        s->sure = false;
        return false;
    }
    if (c.carriage)
        end_line(&c, c.at - 1);
    end_line(&c, c.at);
    return !c.failed;
}

/* Reads the lines from the array that V8 may have made, where the source is not recorded. */
static bool read_lines(struct v8_reader *r, struct script *s, const struct witness *w)
{
    enum { LINES_MAX = 1 << 24 };
    const struct v8_layout *l = r->layout;
    uint64_t array, length, word;
    if (!v8_slot(r, s->address, l->script_line_ends, &array) || !v8_is(r, array, l->type_array) ||
        !v8_slot(r, array, l->array_length, &length) || !v8_is_smi(length) || v8_smi(length) <= 0 ||
        v8_smi(length) > LINES_MAX)
        return false;
    int32_t last = -1;
    s->ends.nr = 0;
    for (int32_t i = 0; i < v8_smi(length); i++) {
        if (!v8_slot(r, array, l->array_data + 8 * i, &word) || !v8_is_smi(word) ||
            v8_smi(word) <= last || !vec_push(&s->ends, v8_smi(word)))
            return false;
        last = v8_smi(word);
    }
    return !w || w->end <= last;
}

/* Reads the lines as they are recorded for one moment: the source moves, its script's id stays. */
static bool read_lines_then(struct v8_reader *r, struct script *s, const struct witness *w,
                            bool last)
{
    uint64_t now = s->source, id;
    bool same = v8_slot(r, s->address, r->layout->script_id, &id) && id == s->id &&
                v8_slot(r, s->address, r->layout->script_source, &s->source);
    bool known = same && (read_source(r, s, w, last) || (!last && read_lines(r, s, w)));
    s->source = now;
    return known;
}

/* Reads the lines of other moments: a script keeps its source. */
static bool read_lines_of_other_times(const struct v8_reader *r, struct script *s,
                                      const struct witness *w, bool last)
{
    struct moments m = moments_begin(r, slot_address(s->address, r->layout->script_source),
                                     slot_address(s->source, 0));
    struct v8_reader other;
    while (moments_next(&m, &other))
        if (read_lines_then(&other, s, w, last))
            return true;
    return false;
}

static bool pass_over(void *context, const uint8_t *bytes, size_t nr, bool wide)
{
    (void)context;
    (void)bytes;
    (void)nr;
    (void)wide;
    return true;
}

/* Reads all of the source, so that it is recorded for replay. */
static bool read_for_others(struct v8_reader *r, struct script *s)
{
    const struct v8_characters nobody = {pass_over, NULL};
    bool read = v8_string_each(r, s->source, SOURCE_MAX, &nobody) || read_lines(r, s, NULL);
    s->ends.nr = 0;
    return read;
}

/* Does the script, or its source, move all the time? */
static bool is_restless(const struct v8_names *n, const struct script *s)
{
    enum { MOVES = 3 };
    unsigned places = 0;
    vec_foreach (known, &n->scripts)
        places += known->id == s->id && known->space == s->space;
    return places > MOVES;
}

/* Reads the source at many other moments, also later ones: the readings made here prove later
 * samples. */
static void read_again_for_others(struct v8_reader *r, struct script *s)
{
    struct moments m = moments_begin(r, 0, 0);
    struct v8_reader other;
    uint64_t now = s->source, id;
    while (moments_next(&m, &other)) {
        if (v8_slot(&other, s->address, r->layout->script_id, &id) && id == s->id &&
            v8_slot(&other, s->address, r->layout->script_source, &s->source))
            (void)read_for_others(&other, s);
        s->source = now;
    }
}

/* Reads the source for a recorder: once. If the script moves all the time, reads it again at other
 * moments, unless the source is long. (A program has many scripts at its start, and its first
 * samples wait.) */
static void know_nothing(const struct v8_names *n, struct v8_reader *r, struct script *s)
{
    s->lines_known = read_for_others(r, s);
    s->doubtful = true; /* it is read again wherever a GC moves it */
    if (is_restless(n, s) && v8_string_length(r, s->source) <= LONG)
        read_again_for_others(r, s);
}

static void know_lines(const struct v8_names *n, struct v8_reader *r, struct script *s,
                       const struct witness *w)
{
    if (s->lines_known || s->tries >= TRIES_MAX)
        return;
    s->tries++;
    if (n->only_read) {
        know_nothing(n, r, s);
        return;
    }
    s->lines_known = read_source(r, s, w, false) || read_lines(r, s, w) ||
                     read_lines_of_other_times(r, s, w, false);
    s->doubtful = !s->lines_known;
    s->lines_known |=
        s->doubtful && (read_source(r, s, w, true) || read_lines_of_other_times(r, s, w, true));
    s->ends.nr = s->lines_known ? s->ends.nr : 0;
}

/* Finds line and column, both from 1, of a place in the source; false: unknown. */
static bool find_line(const struct script *s, int32_t offset, uint32_t *line, uint32_t *column)
{
    size_t low = 0, high = s->ends.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->ends.at[mid] < offset)
            low = mid + 1;
        else
            high = mid;
    }
    if (offset < 0 || low == s->ends.nr)
        return false;
    int64_t in_line = offset - (low ? s->ends.at[low - 1] + 1 : 0);
    *line = (uint32_t)((int64_t)low + 1 + s->line);
    *column = (uint32_t)(in_line + 1 + (low ? 0 : s->column));
    return true;
}

/* ---- scripts ------------------------------------------------------------------------------- */

static int32_t smi_slot(struct v8_reader *r, uint64_t object, int32_t offset)
{
    uint64_t word;
    bool is = v8_slot(r, object, offset, &word) && v8_is_smi(word) && v8_smi(word) > 0;
    return is ? v8_smi(word) : 0;
}

static bool string_slot(struct v8_reader *r, uint64_t object, int32_t offset, struct text *t)
{
    uint64_t word;
    size_t before = t->size;
    return v8_slot(r, object, offset, &word) && v8_string(r, word, NAME_MAX_CHARACTERS, t) &&
           t->size > before;
}

/* Reads the script's own name, or the name that a comment in it gives. `lost`: it may have a name
 * that is not recorded. */
static bool own_name(struct v8_reader *r, uint64_t script, struct text *t, bool *lost)
{
    const int32_t offsets[] = {r->layout->script_name, r->layout->script_url};
    uint64_t word;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets) && !*lost; i++) {
        if (string_slot(r, script, offsets[i], t))
            return true;
        t->size = 0;
        if (!v8_slot(r, script, offsets[i], &word))
            *lost = true;
        int32_t type = *lost || v8_is_smi(word) ? r->layout->nonstring : v8_type(r, word);
        *lost |= type < 0 || (type < r->layout->nonstring && v8_string_length(r, word) != 0);
    }
    return false;
}

/* Does the word stand for nothing? It is a Smi, or the word that a script without a name has as its
 * name or its URL. */
static bool is_undefined(struct v8_reader *r, uint64_t script, uint64_t word)
{
    uint64_t name, url;
    return v8_is_smi(word) || (v8_slot(r, script, r->layout->script_name, &name) && word == name) ||
           (v8_slot(r, script, r->layout->script_url, &url) && word == url);
}

/* Names a script. A script made by eval gets the name of the file in which eval was called. */
static bool script_name(struct v8_reader *r, uint64_t script, struct text *t)
{
    enum { NESTED_MAX = 8 };
    const struct v8_layout *l = r->layout;
    struct v8_sfi caller;
    uint64_t from = 0;
    bool lost = false;
    for (unsigned i = 0; i < NESTED_MAX; i++) {
        if (own_name(r, script, t, &lost)) {
            if (i)
                text_string(t, ":<eval>");
            return true;
        }
        if (lost || !v8_slot(r, script, l->script_eval_from, &from) ||
            (!v8_is_smi(from) && v8_type(r, from) < 0))
            return false;
        if (!v8_is(r, from, l->type_sfi)) {
            if (!is_undefined(r, script, from))
                return false; /* the word is no longer this script's */
            break;
        }
        if (!v8_sfi_read(r, from, &caller))
            return false;
        if (!caller.script)
            break;
        script = caller.script;
    }
    text_string(t, "<anonymous>");
    return true;
}

static bool script_read(struct v8_names *n, struct v8_reader *r, struct script *s)
{
    struct text name = {0};
    s->file = NULL;
    s->line = smi_slot(r, s->address, r->layout->script_line);
    s->column = smi_slot(r, s->address, r->layout->script_column);
    if (script_name(r, s->address, &name) && !name.failed)
        s->file = managed_string(n->managed, name.at, name.size);
    text_free(&name);
    s->again = !s->file; /* the name is unknown until it is read */
    return s->file;
}

/* Reads the script as it stood there at another moment: its id must be the same. */
enum reading { READING_NONE, READING_UNPROVEN, READING_EXACT, READING_SURE };
static enum reading script_read_then(struct v8_names *n, struct v8_reader *r, struct script *s)
{
    const struct proof none = {PROVENANCE_EXACT, false};
    uint64_t id;
    restore_proof(r, &none); /* callers that ask for names keep their own provenance */
    if (!v8_slot(r, s->address, r->layout->script_id, &id) || id != s->id || !script_read(n, r, s))
        return READING_NONE;
    return is_sure(r)                          ? READING_SURE
           : r->provenance == PROVENANCE_EXACT ? READING_EXACT
                                               : READING_UNPROVEN;
}

/* Reads the script as recorded for a moment at which no other object may have come to its place, if
 * there is one; else as it is now, or was at a moment when the reading was exact. */
static bool script_read_surely(struct v8_names *n, struct v8_reader *r, struct script *s)
{
    struct moments m = moments_begin(r, slot_address(s->address, r->layout->script_name),
                                     slot_address(s->address, r->layout->script_url));
    struct v8_reader other;
    enum reading best = script_read_then(n, r, s);
    uint64_t what = hash_combine(hash_combine(s->address, s->id), s->space);
    bool search =
        best != READING_SURE && may_search(n, hash_combine(what, best ? r->memory->time : 0));
    while (search && best != READING_SURE && moments_next(&m, &other)) {
        struct script then = *s;
        enum reading got = script_read_then(n, &other, &then);
        if (got != READING_SURE && (best || got != READING_EXACT))
            continue;
        *s = then;
        best = got;
    }
    return best;
}

/* V8 names the script of a WebAssembly module by its URL, else "wasm://wasm/" and a hash. Any other
 * string is an object that came to the name's place. */
static bool may_be_named(const struct script *s, enum frame_kind of)
{
    return of != FRAME_WASM || strstr(s->file, "://");
}

/* Was the code made from a string? There may be any number of other scripts at the same place. */
static bool is_evaluated(const char *file)
{
    static const char *const ends[] = {":<eval>", "<anonymous>"};
    size_t size = file ? strlen(file) : 0;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        size_t nr = strlen(ends[i]);
        if (size >= nr && memcmp(file + size - nr, ends[i], nr) == 0)
            return true;
    }
    return false;
}

/* Finds the same script, whose lines are known, after a GC moved it or its source. Scripts of one
 * file have ids of their own; in other isolates they have the same text. */
static struct script *script_moved(struct v8_names *n, const struct script *s,
                                   const struct witness *w)
{
    vec_foreach (known, &n->scripts) {
        if (known->id != s->id || known->space != s->space || known->file != s->file || !s->file ||
            known->line != s->line || known->column != s->column || !known->lines_known ||
            known->doubtful || is_evaluated(s->file) || !fits(known, w))
            continue;
        known->address = s->address;
        known->source = s->source;
        return known;
    }
    return NULL;
}

/* Returns the script of a function of the kind `of`. `w`: the function (NULL: unknown). NULL: the
 * script cannot be read (or memory is out). If the known text does not fit the function, adds
 * another entry, whose lines are unknown yet. */
static struct script *script_get(struct v8_names *n, struct v8_reader *r, uint64_t space,
                                 uint64_t script, enum frame_kind of, const struct witness *w)
{
    const struct v8_layout *l = r->layout;
    struct script s = {.space = space, .address = script};
    size_t unknown = SIZE_MAX;
    if (!script || !v8_slot(r, script, l->script_source, &s.source) ||
        !v8_slot(r, script, l->script_id, &s.id))
        return NULL;
    for (size_t i = n->scripts.nr; i-- > 0;) {
        struct script *known = &n->scripts.at[i];
        if (known->address == script && known->space == space && known->source == s.source &&
            known->id == s.id && (!known->again || script_read_surely(n, r, known)) &&
            may_be_named(known, of) && fits(known, w)) {
            if (known->lines_known)
                return known;
            unknown = i;
        }
    }
    if (unknown != SIZE_MAX)
        return &n->scripts.at[unknown];
    if (!script_read_surely(n, r, &s) || !may_be_named(&s, of))
        return NULL;
    struct script *moved = script_moved(n, &s, w);
    if (moved)
        return moved;
    bool added = vec_push(&n->scripts, s);
    return added ? &n->scripts.at[n->scripts.nr - 1] : NULL;
}

/* ---- functions ----------------------------------------------------------------------------- */

/* A function that initializes the fields of a class has no name in the source. */
static const char instance_initializer[] = "<instance_members_initializer>",
                  static_initializer[] = "<static_initializer>";

static bool text_is(const struct text *t, const char *what)
{
    return t->at && t->size == strlen(what) && memcmp(t->at, what, t->size) == 0;
}

/* Reads V8's name of the function; false: it has a name that is not recorded. */
static bool read_own_name(struct v8_reader *r, const struct v8_sfi *sfi,
                          const struct v8_scope *scope, struct text *ret)
{
    const uint64_t names[] = {sfi->name, scope->name, scope->inferred};
    if (scope->members || scope->statics) {
        text_string(ret, scope->members ? instance_initializer : static_initializer);
        return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        ret->size = 0;
        if (!v8_is_pointer(names[i]))
            continue;
        int32_t type = v8_type(r, names[i]);
        if (type >= r->layout->nonstring)
            continue;
        if (type < 0 || !v8_string(r, names[i], NAME_MAX_CHARACTERS, ret))
            return false;
        if (ret->size)
            return true;
    }
    return true;
}

/* Reads the same name, qualified with the method's class. */
static bool read_name(struct v8_reader *r, const struct script *script, const struct v8_sfi *sfi,
                      const struct v8_scope *scope, struct text *ret)
{
    struct text own = {0};
    bool read = read_own_name(r, sfi, scope, &own);
    if (read && (!script || !script->text ||
                 !v8_source_name(script->text, scope->start, own.at, own.size, ret)))
        text_bytes(ret, own.at, own.size);
    ret->failed |= own.failed;
    text_free(&own);
    return read;
}

/* Returns the function's script, and reads its lines if they can be read. */
static struct script *function_script(struct v8_names *n, struct v8_reader *r, uint64_t space,
                                      const struct v8_sfi *sfi, const struct v8_scope *scope)
{
    struct witness w;
    witness_read(r, sfi, scope, &w);
    struct script *s = script_get(n, r, space, sfi->script, FRAME_JS, &w);
    if (s)
        know_lines(n, r, s, &w);
    text_free(&w.name);
    return s;
}

/* Makes a new function. When something is not recorded the id stays 0: it may be recorded at
 * another time. */
static int function_new(struct v8_names *n, struct v8_reader *r, uint64_t batch,
                        const struct v8_sfi *sfi, struct function *f)
{
    struct v8_scope scope = {.start = -1, .end = -1};
    struct managed_identity identity = {.kind = MANAGED_FUNCTION, .language = FRAME_JS};
    struct text name = {0};
    f->script_index = UINT32_MAX;
    if (sfi->scope && !v8_scope_read(r, sfi->scope, &scope))
        return 0;
    struct script *script = function_script(n, r, f->space, sfi, &scope);
    if (sfi->script && !script)
        return 0;
    f->start = scope.start > 0 ? scope.start : 0;
    if (script) {
        identity.file = script->file;
        f->script_index = (uint32_t)(script - n->scripts.at);
        if (!find_line(script, scope.start, &identity.line, &identity.column) && scope.start >= 0 &&
            !script->lines_known && script->tries < TRIES_MAX)
            return 0;
    }
    if (!identity.line) /* without a line, several functions of a file stay apart */
        identity.salt = hash_combine(f->space, sfi->sfi);
    if (!read_name(r, script, sfi, &scope, &name)) {
        text_free(&name);
        return 0;
    }
    /* Up to V8 11.3 an initializer begins where its class does, and the class may be a function,
     * too. */
    if (text_is(&name, instance_initializer) || text_is(&name, static_initializer))
        identity.salt = hash_bytes(name.at, name.size);
    /* webpack's hooks: `_next0`, `_next1` and `_next2` are all at 6:16, each in a text of its
     * own. */
    if (name.size && is_evaluated(identity.file))
        identity.salt = hash_combine(identity.salt, hash_bytes(name.at, name.size));
    bool has = name.size != 0;
    f->bare = !has && !identity.line;
    text_char(&name, 0);
    f->id = managed_intern(n->managed, &identity);
    int failed =
        !f->id || name.failed ||
        (has && managed_propose_name(n->managed, f->id, NAME_RANK_DEFINED, name.at, batch));
    text_free(&name);
    return failed ? -1 : 0;
}

/* Hash of the words that the function refers to. */
static uint64_t function_hash(const struct function *f)
{
    uint64_t hash = hash_combine(hash_combine(f->sfi, f->name), hash_combine(f->script, f->space));
    return hash_combine(hash, hash_combine(f->script_id, (uint32_t)f->from));
}

static bool same_function(const struct v8_sfi *a, const struct v8_sfi *b)
{
    return a->scope == b->scope && a->name == b->name && a->script == b->script;
}

static int function_of_other_times(struct v8_names *n, struct v8_reader *r, uint64_t batch,
                                   const struct v8_sfi *sfi, struct function *f)
{
    struct moments m =
        moments_begin(r, slot_address(sfi->sfi, r->layout->sfi_name), slot_address(f->name, 0));
    struct v8_reader other;
    struct v8_sfi then;
    if (!may_search(n, function_hash(f)))
        return 0;
    while (!f->id && moments_next(&m, &other))
        if (v8_sfi_read(&other, sfi->sfi, &then) && same_function(&then, sfi) &&
            function_new(n, &other, batch, &then, f))
            return -1;
    return 0;
}

static bool same_words(const struct function *a, const struct function *b)
{
    return a->sfi == b->sfi && a->name == b->name && a->script == b->script &&
           a->space == b->space && a->script_id == b->script_id && a->from == b->from &&
           a->to == b->to;
}

/* Returns the entry with the same words as `f`; NULL: none. */
static struct function *function_find(struct v8_names *n, const struct function *f)
{
    if (n->functions.nr == ENTRIES_MAX || n->scripts.nr == ENTRIES_MAX)
        v8_names_forget(n);
    uint32_t known = hash_table_find(&n->function_table, function_hash(f), i,
                                     same_words(&n->functions.at[i], f));
    return known != HASH_TABLE_NONE ? &n->functions.at[known] : NULL;
}

static struct function *function_add(struct v8_names *n, const struct function *f)
{
    if (!vec_push(&n->functions, *f))
        return NULL;
    if (hash_table_add(&n->function_table, function_hash(f), n->functions.nr - 1))
        return &n->functions.at[n->functions.nr - 1];
    n->functions.nr--;
    return NULL;
}

static int function_get(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                        const struct v8_sfi *sfi, struct function **ret)
{
    struct function f = {.space = space,
                         .sfi = sfi->sfi,
                         .name = sfi->scope ? sfi->scope : sfi->name,
                         .script = sfi->script};
    struct v8_scope scope = {.start = -1, .end = -1};
    if (sfi->scope && !v8_scope_read(r, sfi->scope, &scope))
        scope.start = scope.end = -1;
    if (sfi->script && !v8_slot(r, sfi->script, r->layout->script_id, &f.script_id))
        f.script_id = 0;
    f.from = scope.start;
    f.to = scope.end;
    *ret = function_find(n, &f);
    if (*ret)
        return 0;
    if (function_new(n, r, batch, sfi, &f) ||
        (!f.id && function_of_other_times(n, r, batch, sfi, &f)))
        return -1;
    if (!f.id)
        return 0;
    *ret = function_add(n, &f);
    return *ret ? 0 : -1;
}

static int name_function(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                         const struct v8_sfi *sfi, int32_t offset, struct v8_named *ret)
{
    struct function *f;
    uint32_t column = 0;
    *ret = (struct v8_named){0};
    if (function_get(n, r, space, batch, sfi, &f))
        return -1;
    if (!f)
        return 0;
    ret->function = f->id;
    ret->bare = f->bare;
    if (offset < f->start || f->script_index == UINT32_MAX)
        return 0;
    const struct script *s = &n->scripts.at[f->script_index];
    if (find_line(s, offset, &ret->line, &column))
        ret->column = column <= UINT16_MAX ? (uint16_t)column : 0;
    return 0;
}

int v8_names_function(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                      const struct v8_sfi *sfi, int32_t offset, struct v8_named *ret)
{
    const struct proof proof = keep_proof(r);
    begin_batch(n, batch);
    int failed = name_function(n, r, space, batch, sfi, offset, ret);
    restore_proof(r, &proof);
    return failed;
}

/* ---- WebAssembly --------------------------------------------------------------------------- */

static int wasm_new(struct v8_names *n, struct v8_reader *r, uint64_t batch,
                    const struct v8_wasm *w, struct function *f)
{
    const struct script *script = script_get(n, r, f->space, w->script, FRAME_WASM, NULL);
    struct text name = {0};
    int failed = 0;
    if (script && v8_wasm_name(r, w, &name)) {
        const struct managed_identity identity = {.kind = MANAGED_FUNCTION,
                                                  .language = FRAME_WASM,
                                                  .file = script->file,
                                                  .index = (uint32_t)w->index + 1};
        bool has = name.size != 0;
        text_char(&name, 0);
        f->id = managed_intern(n->managed, &identity);
        failed =
            !f->id || name.failed ||
            (has && managed_propose_name(n->managed, f->id, NAME_RANK_DEFINED, name.at, batch));
    }
    text_free(&name);
    return failed ? -1 : 0;
}

/* Reads a WebAssembly function at other moments: its script keeps its id. */
static int wasm_of_other_times(struct v8_names *n, struct v8_reader *r, uint64_t batch,
                               const struct v8_wasm *w, struct function *f)
{
    const int32_t id_slot = r->layout->script_id;
    struct moments m =
        moments_begin(r, slot_address(w->script, id_slot), slot_address(w->native, 0));
    struct v8_reader other;
    uint64_t id, then;
    if (!v8_slot(r, w->script, id_slot, &id) || !may_search(n, function_hash(f)))
        return 0;
    while (!f->id && moments_next(&m, &other))
        if (v8_slot(&other, w->script, id_slot, &then) && then == id &&
            wasm_new(n, &other, batch, w, f))
            return -1;
    return 0;
}

int v8_names_wasm(struct v8_names *n, struct v8_reader *r, uint64_t space, uint64_t batch,
                  const struct v8_wasm *w, struct v8_named *ret)
{
    const struct proof proof = keep_proof(r);
    struct function f = {.space = space,
                         .sfi = w->native,
                         .name = (uint64_t)w->index + 1,
                         .script = w->script,
                         .script_index = UINT32_MAX};
    begin_batch(n, batch);
    const struct function *known = function_find(n, &f);
    int failed = known ? 0 : wasm_new(n, r, batch, w, &f);
    if (!failed && !known && !f.id)
        failed = wasm_of_other_times(n, r, batch, w, &f);
    const uint32_t line = v8_wasm_offset(r, w);
    restore_proof(r, &proof);
    *ret = (struct v8_named){.function = known ? known->id : f.id, .line = line};
    if (failed || known || !f.id)
        return failed;
    return function_add(n, &f) ? 0 : -1;
}

void v8_names_symbol(const struct v8_names *n, uint32_t function, struct text *to)
{
    struct managed_function g;
    if (managed_get(n->managed, function, UINT64_MAX, &g))
        managed_symbol(to, &g);
}

uint32_t v8_names_awaiting(struct v8_names *n, uint32_t function, uint64_t batch)
{
    static const char async[] = "async"; /* as V8 writes it in an error's stack */
    struct managed_function g;
    struct text name = {0};
    if (!managed_get(n->managed, function, batch, &g))
        return 0;
    const struct managed_identity identity = {.kind = g.kind,
                                              .language = g.language,
                                              .file = g.file,
                                              .line = g.line,
                                              .column = g.column,
                                              .salt = hash_combine(function, sizeof(async))};
    text_string(&name, async);
    if (g.name) {
        text_char(&name, ' ');
        text_string(&name, g.name);
    }
    text_char(&name, 0);
    const uint32_t id = managed_intern(n->managed, &identity);
    const bool failed = !id || name.failed ||
                        managed_propose_name(n->managed, id, NAME_RANK_DEFINED, name.at, batch);
    text_free(&name);
    return failed ? 0 : id;
}

uint32_t v8_names_own(struct v8_names *n, const char *name)
{
    const struct managed_identity own = {
        .kind = MANAGED_BUILTIN, .language = FRAME_JS, .file = "[builtin]", .name = name};
    return managed_intern(n->managed, &own);
}
