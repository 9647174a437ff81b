/* SPDX-License-Identifier: GPL-2.0-only */
/* Each hash has one place: of two frames with the same place, the cache keeps the later one. */
#include "unwind/v8/frame_cache.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 14, FRAMES_MAX = V8_SEEN_FRAMES };

struct place {
    struct v8_frame_cache_key key;
    uint64_t from, to;
    uint32_t nr;
    struct frame frames[FRAMES_MAX];
    uint64_t bytecode[FRAMES_MAX];
};

struct v8_frame_cache {
    uint64_t keep;
    struct v8_code_states *states;
    struct place places[PLACES];
};

struct v8_frame_cache *v8_frame_cache_create(uint64_t keep)
{
    struct v8_frame_cache *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->keep = keep;
    s->states = v8_code_states_create();
    if (s->states)
        return s;
    free(s);
    return NULL;
}

void v8_frame_cache_free(struct v8_frame_cache *s)
{
    if (!s)
        return;
    v8_code_states_free(s->states);
    free(s);
}

struct v8_code_states *v8_frame_cache_states(const struct v8_frame_cache *s)
{
    return s->states;
}

void v8_frame_cache_forget(struct v8_frame_cache *s)
{
    for (size_t i = 0; i < PLACES; i++)
        s->places[i].key = (struct v8_frame_cache_key){0};
}

static size_t place_of(const struct v8_frame_cache_key *key)
{
    uint64_t h = key->word[0];
    for (size_t i = 1; i < sizeof(key->word) / sizeof(*key->word); i++)
        h = hash_combine(h, key->word[i]);
    return (size_t)(h % PLACES);
}

const struct frame *v8_frame_cache_recall(const struct v8_frame_cache *s,
                                          const struct v8_frame_cache_key *key, uint64_t time,
                                          size_t *nr, const uint64_t **bytecode)
{
    const struct place *p = &s->places[place_of(key)];
    if (memcmp(&p->key, key, sizeof(*key)) != 0 || time < p->from || time > p->to)
        return NULL;
    *nr = p->nr;
    *bytecode = p->bytecode;
    return p->frames;
}

void v8_frame_cache_note(struct v8_frame_cache *s, const struct v8_frame_cache_key *key,
                         uint64_t from, uint64_t to, const struct frame *frames,
                         const uint64_t *bytecode, size_t nr)
{
    struct place *p = &s->places[place_of(key)];
    if (nr > FRAMES_MAX && !s->keep)
        return;
    p->key = *key;
    p->from = from;
    p->to = s->keep ? from + s->keep : to;
    p->nr = nr > FRAMES_MAX ? FRAMES_MAX : (uint32_t)nr; /* recorders read no frames */
    memcpy(p->frames, frames, p->nr * sizeof(*frames));
    memcpy(p->bytecode, bytecode, p->nr * sizeof(*bytecode));
}
