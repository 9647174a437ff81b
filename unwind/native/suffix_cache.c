/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/native/suffix_cache.h"

#include "base/bits.h"
#include "base/hash.h"
#include "unwind/native/walk.h"

#include <string.h>

/* ---- the cache ----------------------------------------------------------------------------- */

static void clear(struct suffix_cache *t)
{
    t->steps.nr = t->frames.nr = t->words.nr = t->image.nr = 0;
    t->version++;
}

struct suffix_cache *suffix_cache_of(struct suffix_cache *caches, uint64_t epoch,
                                     const struct unwind_input *in)
{
    if (!in->context_key || !in->memory.reads)
        return NULL;
    struct suffix_cache *t = &caches[hash_u64(in->thread) % SUFFIX_CACHES];
    if (t->context_key != in->context_key || t->epoch != epoch || t->thread != in->thread) {
        clear(t);
        t->context_key = in->context_key;
        t->epoch = epoch;
        t->thread = in->thread;
    }
    return t;
}

void suffix_cache_free(struct suffix_cache *t)
{
    vec_free(&t->steps);
    vec_free(&t->frames);
    vec_free(&t->words);
    vec_free(&t->image);
}

static void forget_notes(struct suffix_cache_walk *n)
{
    n->nr = n->nr_words = 0;
    n->open = false;
}

static void look_anew(struct suffix_cache_walk *n)
{
    n->version = n->suffixes->version;
    n->at = n->limit = n->suffixes->steps.nr;
    n->verified = 0;
    n->compared = false;
}

void suffix_cache_begin(struct suffix_cache_walk *n, struct suffix_cache *t,
                        const struct unwind_input *in)
{
    enum { NOTED = 4, NOTED_SHORT = 16 }; /* noting costs a third of a step */
    n->suffixes = t;
    look_anew(n);
    forget_notes(n);
    n->taken = 0;
    size_t nr = t->steps.nr;
    bool is_short = !nr || t->steps.at[nr - 1].worth < SUFFIX_WORTH_MIN;
    n->noting = t->walks++ % (is_short ? NOTED_SHORT : NOTED) == 0;
    in->memory.reads->nr = 0;
    in->memory.reads->on = n->noting;
}

static unsigned first_word(uint64_t words)
{
    return (unsigned)__builtin_ctzll(words);
}

static unsigned last_word(uint64_t words)
{
    return 63 - (unsigned)__builtin_clzll(words);
}

/* ---- taking over --------------------------------------------------------------------------- */

/* Does the stack have these words at the window's places? Returns the end of the words; NULL: it
 * does not. All of them must be in the recorded part of the stack. */
static const uint64_t *held_words(const struct memory *m, const struct memory_window *window,
                                  const uint64_t *words)
{
    uint64_t at = window->start - m->stack_start, first = at + 8 * first_word(window->words);
    uint64_t size = 8 * (1 + last_word(window->words) - first_word(window->words));
    bool near = first < m->stack_size && m->stack_size - first >= size;
    for (uint64_t left = window->words; left; left &= left - 1, words++) {
        uint64_t word, offset = 8 * first_word(left);
        if (near)
            memcpy(&word, m->stack + (at + offset), sizeof(word));
        else if (!memory_read_stack(m, window->start + offset, &word, sizeof(word)))
            return NULL;
        if (word != *words)
            return NULL;
    }
    return words;
}

enum { IMAGE_PART = 256 };
static bool same_part(const struct memory *m, uint64_t address, const uint8_t *part)
{
    uint8_t held[IMAGE_PART];
    uint64_t at = address - m->stack_start;
    if (at < m->stack_size && m->stack_size - at >= IMAGE_PART)
        return memcmp(m->stack + at, part, IMAGE_PART) == 0;
    return memory_read_stack(m, address, held, IMAGE_PART) && memcmp(held, part, IMAGE_PART) == 0;
}

/* Returns the lowest address from which on the stack equals the image. */
static uint64_t image_begin(const struct suffix_cache *t, const struct memory *m)
{
    uint64_t left = t->image.nr;
    while (left >= IMAGE_PART &&
           same_part(m, t->image_start + left - IMAGE_PART, t->image.at + (left - IMAGE_PART)))
        left -= IMAGE_PART;
    return t->image_start + left;
}

/* Verifies the outermost steps whose words are in the part of the stack that equals the image. */
static void verify_by_image(struct suffix_cache_walk *n, const struct memory *m)
{
    const struct suffix_cache *t = n->suffixes;
    uint64_t same = image_begin(t, m);
    n->compared = true;
    while (n->verified < t->steps.nr && t->steps.at[n->verified].low >= same)
        n->verified++;
}

/* Do the `nr` outermost steps find the same words in this stack? */
static bool verify(struct suffix_cache_walk *n, const struct memory *m, size_t nr)
{
    const struct suffix_cache *t = n->suffixes;
    if (!n->compared)
        verify_by_image(n, m);
    const uint64_t *at = t->words.at + (n->verified ? t->steps.at[n->verified - 1].words : 0);
    for (; n->verified < nr; n->verified++) {
        const uint64_t *end = t->words.at + t->steps.at[n->verified].words;
        while (at && at < end) {
            const struct memory_window window = {at[0], at[1]};
            at = held_words(m, &window, at + 2);
        }
        if (!at) {
            n->limit = n->verified;
            return false;
        }
    }
    return true;
}

static uint64_t saved_register(const struct walk *w, unsigned i)
{
    unsigned reg = w->arch->reg.saved[i];
    return w->known & REG_BIT(reg) ? w->value[reg] : 0;
}

static bool same_registers(const struct walk *w, const struct suffix_cache_step *s)
{
    bool same = s->pc == walk_pc(w) && s->sp == walk_sp(w) && s->known == w->known;
    for (unsigned i = 0; same && i < w->arch->reg.nr_saved; i++)
        same = s->saved[i] == saved_register(w, i);
    return same;
}

/* Does the rest of the walk depend only on registers and stack? Only registers that calls preserve
 * are compared, so no others may be known. */
static bool is_plain(const struct walk *w)
{
    const struct walker *walker = w->in->walker;
    return w->flags == 0 && w->provenance == PROVENANCE_EXACT &&
           !(w->known & ~w->arch->reg.survives) &&
           (!w->managed_begun ||
            (walker->is_stateless && walker->is_stateless(walker->context, w->managed->state)));
}

bool suffix_cache_take(struct walk *w)
{
    struct suffix_cache_walk *n = w->suffixes;
    struct suffix_cache *t = n->suffixes;
    if (n->version != t->version) {
        if (t->context_key != w->in->context_key) { /* another thread has taken the cache's place */
            w->in->memory.reads->on = false;
            w->suffixes = NULL;
            return false;
        }
        look_anew(n);
        if (!suffix_cache_meets(n, walk_pc(w), walk_sp(w)))
            return false;
    }
    const struct suffix_cache_step *s = &t->steps.at[n->at - 1];
    __typeof__(w->out->frames) *out = &w->out->frames;
    if (!same_registers(w, s) || !is_plain(w) || w->frames_left <= s->frames ||
        !verify(n, &w->in->memory, n->at) || !vec_reserve(out, out->nr + s->frames))
        return false;
    n->taken = n->at;
    for (size_t i = s->frames; i-- > 0;)
        out->at[out->nr++] = t->frames.at[i];
    memcpy(w->value, t->end.value, sizeof(w->value));
    w->known = t->end.known;
    walk_end(w, STACK_COMPLETE, 0);
    return true;
}

/* ---- noting -------------------------------------------------------------------------------- */

/* Notes the window's words as the stack has them. */
static void note_words(struct suffix_cache_walk *n, const struct memory *m,
                       const struct memory_window *window)
{
    uint64_t *to = n->words + n->nr_words;
    if (n->nr_words + 2 + 64 > SUFFIX_WORDS_NOTED) {
        forget_notes(n);
        return;
    }
    *to++ = window->start;
    *to++ = window->words;
    for (uint64_t left = window->words; left; left &= left - 1)
        if (!memory_read_stack(m, window->start + 8 * first_word(left), to++, 8)) {
            forget_notes(n);
            return;
        }
    n->nr_words = (uint32_t)(to - n->words);
    struct suffix_cache_step *s = &n->steps[n->nr - 1];
    uint64_t low = window->start + 8 * first_word(window->words);
    s->low = low < s->low ? low : s->low;
}

void suffix_cache_note(struct walk *w, bool managed)
{
    struct suffix_cache_walk *n = w->suffixes;
    if (!is_plain(w)) {
        forget_notes(n);
        return;
    }
    if (n->nr == SUFFIX_STEPS_NOTED)
        forget_notes(n);
    struct suffix_cache_step *s = &n->steps[n->nr++];
    *s = (struct suffix_cache_step){.pc = walk_pc(w),
                                    .sp = walk_sp(w),
                                    .known = w->known,
                                    .frames = (uint32_t)w->out->frames.nr,
                                    .words = n->nr_words,
                                    .low = UINT64_MAX,
                                    .worth = managed ? SUFFIX_MANAGED : 1};
    for (unsigned i = 0; i < w->arch->reg.nr_saved; i++)
        s->saved[i] = saved_register(w, i);
    w->in->memory.reads->nr = 0;
    w->in->memory.reads->lost = false;
    n->open = true;
}

void suffix_cache_noted(struct walk *w)
{
    struct suffix_cache_walk *n = w->suffixes;
    const struct memory *m = &w->in->memory;
    const struct memory_reads *r = m->reads;
    bool exact = w->provenance == PROVENANCE_EXACT && !r->lost;
    for (size_t i = n->steps[n->nr - 1].frames; exact && i < w->out->frames.nr; i++)
        exact = w->out->frames.at[i].provenance == PROVENANCE_EXACT;
    for (uint32_t i = 0; i < r->nr && n->open; i++)
        note_words(n, m, &r->at[i]);
    if (!exact)
        forget_notes(n);
    n->open = false;
}

/* Makes step `i` of the notes the cache's innermost step. false: memory is out. */
static bool add_step(struct suffix_cache *t, const struct suffix_cache_walk *n, uint32_t i,
                     const struct frame *frames, size_t end_frames, uint32_t end_words)
{
    struct suffix_cache_step s = n->steps[i];
    size_t nr_words = end_words - s.words;
    if (!vec_reserve(&t->words, t->words.nr + nr_words))
        return false;
    for (size_t k = 0; k < nr_words; k++)
        t->words.at[t->words.nr++] = n->words[s.words + k];
    for (size_t f = end_frames; f-- > s.frames;)
        if (!vec_push(&t->frames, frames[f]))
            return false;
    s.worth += t->steps.nr ? t->steps.at[t->steps.nr - 1].worth : 0;
    s.frames = (uint32_t)t->frames.nr;
    s.words = (uint32_t)t->words.nr;
    return vec_push(&t->steps, s);
}

/* Copies the stack between the lowest and the highest word of all steps. Without an image, single
 * words are compared. */
static void take_image(struct suffix_cache *t, const struct memory *m)
{
    enum { MOST = 1 << 14 };
    uint64_t low = UINT64_MAX, end = 0;
    vec_foreach (s, &t->steps)
        low = s->low < low ? s->low : low;
    for (size_t at = 0; at < t->words.nr; at += 2 + (size_t)bits_count(t->words.at[at + 1])) {
        uint64_t last = t->words.at[at] + 8 * (1 + last_word(t->words.at[at + 1]));
        end = last > end ? last : end;
    }
    uint64_t size = end - low;
    t->image.nr = 0;
    t->image_start = low;
    if (low < end && size <= MOST && vec_reserve(&t->image, size) &&
        memory_read_stack(m, low, t->image.at, size))
        t->image.nr = size;
}

/* Replaces the cache's steps: its outermost `kept` steps stay, then come the noted ones. */
static void renew(struct suffix_cache *t, const struct walk *w, size_t kept, size_t own_frames)
{
    const struct suffix_cache_walk *n = w->suffixes;
    size_t frames = own_frames;
    uint32_t words = n->nr_words;
    t->steps.nr = kept;
    t->frames.nr = kept ? t->steps.at[kept - 1].frames : 0;
    t->words.nr = kept ? t->steps.at[kept - 1].words : 0;
    t->version++;
    for (uint32_t i = n->nr; i-- > 0;) {
        if (!add_step(t, n, i, w->out->frames.at, frames, words)) {
            clear(t);
            return;
        }
        frames = n->steps[i].frames;
        words = n->steps[i].words;
    }
    if (!kept)
        t->end = w->out->registers;
    take_image(t, &w->in->memory);
}

size_t suffix_cache_end(struct walk *w)
{
    struct suffix_cache_walk *n = w->suffixes;
    struct suffix_cache *t = n->suffixes;
    size_t all = w->out->frames.nr, taken = n->taken ? t->steps.at[n->taken - 1].frames : 0;
    if (n->open) /* the last step read no return address */
        suffix_cache_noted(w);
    if (t->context_key != w->in->context_key || w->out->end != STACK_COMPLETE)
        return taken;
    if (n->noting && n->nr)
        renew(t, w, n->taken, all - taken);
    return taken;
}
