/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's symbols without loading them. The kernel's own kallsyms is sorted by address up to
 * the first module's line (the kernel itself searches it by bisection), so the two lines around an
 * address are found in the text. A recording needs some hundred of 130,000 symbols.
 *
 * Addresses beyond the kernel's own first and last symbol, and a text that turns out to be in
 * another order, are left to the whole table.
 */
#include "symbols/symtab_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NEAR_LINES = 4096 }; /* successive lines that do not count: far more than in any real file */

static size_t text_size(const struct kallsyms_text *text)
{
    return (size_t)(text->end - text->at);
}

/* Returns the start of the line that contains byte `at`. */
static size_t line_start(const struct kallsyms_text *text, size_t at)
{
    const char *newline = memrchr(text->at, '\n', at);
    return newline ? (size_t)(newline - text->at) + 1 : 0;
}

/* Returns the start of a line about half way between those at `low` and `high`; `low`: none. */
static size_t line_between(const struct kallsyms_text *text, size_t low, size_t high)
{
    size_t at = line_start(text, low + (high - low) / 2);
    if (at > low)
        return at;
    const char *newline = memchr(text->at + low, '\n', high - low);
    at = newline ? (size_t)(newline - text->at) + 1 : high;
    return at < high ? at : low;
}

/* Read the line that starts at `*at`, and move `*at` to the next line. */
static bool read_line(const struct kallsyms_text *text, size_t *at, struct kallsyms_line *ret)
{
    const char *p = text->at + *at;
    bool sound = kallsyms_line_read(&p, text->end, ret);
    *at = (size_t)(p - text->at);
    return sound;
}

/* ---- the kernel's own part ----------------------------------------------------------------- */

bool symtab_order_kallsyms(struct symtab *t, uint64_t bias)
{
    struct kallsyms_line l = {0};
    struct kallsyms_text core = t->text;
    size_t low = 0, high = text_size(&core), at;
    if (!high)
        return false;
    while ((at = line_between(&core, low, high)) != low) {
        size_t next = at;
        if (!read_line(&core, &next, &l))
            return false;
        *(l.module ? &high : &low) = at;
    }
    core.end = core.at + high;
    t->core = core;
    t->bias = bias;
    return true;
}

/* ---- one address --------------------------------------------------------------------------- */

/* Find the last line whose address is not above `address`. Returns false when there is none, or
 * when the text is not sorted. */
static bool last_line(const struct kallsyms_text *core, uint64_t address, size_t *ret)
{
    struct kallsyms_line l = {0};
    size_t low = 0, high = text_size(core), at = 0;
    uint64_t least = 0, most = UINT64_MAX;
    if (!read_line(core, &at, &l) || l.address > address)
        return false;
    while ((at = line_between(core, low, high)) != low) {
        size_t next = at;
        if (!read_line(core, &next, &l) || l.address < least || l.address > most)
            return false;
        if (l.address <= address) {
            low = at;
            least = l.address;
        } else {
            high = at;
            most = l.address;
        }
    }
    *ret = low;
    return true;
}

/* Go back from the line at `at` to a line that counts. */
static bool symbol_before(const struct kallsyms_text *core, size_t at, struct sort_key *ret)
{
    struct kallsyms_line l = {0};
    uint64_t most = UINT64_MAX;
    for (int i = 0; i < NEAR_LINES; i++) {
        size_t next = at;
        if (!read_line(core, &next, &l) || l.address > most)
            return false;
        if (symtab_kallsyms_wanted(&l)) {
            *ret = (struct sort_key){.key = l.address, .index = (uint32_t)at};
            return true;
        }
        if (at == 0)
            return false;
        most = l.address;
        at = line_start(core, at - 1);
    }
    return false;
}

/* Get the address of the first line behind the line at `at` that counts. */
static bool symbol_behind(const struct kallsyms_text *core, size_t at, uint64_t *ret)
{
    struct kallsyms_line l = {0};
    uint64_t least = 0;
    for (int i = 0; at < text_size(core) && i < NEAR_LINES; i++) {
        if (!read_line(core, &at, &l) || l.address < least)
            return false;
        least = *ret = l.address;
        if (i > 0 && symtab_kallsyms_wanted(&l)) /* line 0 is the line itself */
            return true;
    }
    return false;
}

static bool look_up(struct symtab *t, uint64_t address, struct symbol *ret)
{
    struct sort_key key;
    size_t line;
    uint64_t end;
    if (!last_line(&t->core, address - t->bias, &line) || line >= UINT32_MAX ||
        !symbol_before(&t->core, line, &key) || !symbol_behind(&t->core, line, &end))
        return false;
    key.key += t->bias;
    if (!symtab_kallsyms_symbol(t, &key, ret))
        return false;
    ret->end = end + t->bias;
    return true;
}

/* ---- symbols found so far ------------------------------------------------------------------ */

/* Count the symbols of the list that begin at or below the address. */
static size_t known_below(const struct symtab *t, uint64_t address)
{
    size_t low = 0, high = t->list.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->list.at[mid]->start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Insert a copy into the list, which stays sorted. NULL: out of memory. */
static struct symbol *keep(struct symtab *t, const struct symbol *s)
{
    struct symbol *kept = malloc(sizeof(*kept));
    size_t at = known_below(t, s->start);
    if (!kept || !vec_push(&t->list, kept)) {
        free(kept);
        return NULL;
    }
    memmove(t->list.at + at + 1, t->list.at + at, (t->list.nr - 1 - at) * sizeof(*t->list.at));
    t->list.at[at] = kept;
    *kept = *s;
    return kept;
}

bool symtab_ordered_find(struct symtab *t, uint64_t address, struct symbol **ret)
{
    struct symbol found;
    pthread_mutex_lock(&t->lock);
    size_t below = known_below(t, address);
    *ret = below ? t->list.at[below - 1] : NULL;
    bool known = *ret && address < (*ret)->end;
    if (!known && look_up(t, address, &found)) {
        known = true;
        *ret = keep(t, &found);
    }
    pthread_mutex_unlock(&t->lock);
    return known;
}
