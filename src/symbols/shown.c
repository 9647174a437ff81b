/* SPDX-License-Identifier: GPL-2.0-only */
/* A table from mangled names to the names shown. */
#include "symbols/shown.h"
#include "base/threads.h"
#include "base/hash.h"
#include "base/text.h"
#include "symbols/demangle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    uint64_t hash;
    const char *mangled; /* NULL: free */
    const char *shown;
};

struct shown {
    struct intern *strings;
    bool demangle;
    pthread_mutex_t lock;
    struct slot *slots;
    size_t nr, cap; /* cap is a power of two */
    /* Spare buffer for a name: without it, threads would wait for each other in the allocator. */
    struct text spare;
};

struct shown *shown_create(struct intern *strings, bool demangle)
{
    struct shown *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->strings = strings;
    s->demangle = demangle;
    s->cap = 1024;
    s->slots = calloc(s->cap, sizeof(*s->slots));
    if (!s->slots) {
        free(s);
        return NULL;
    }
    lock_init_short(&s->lock);
    return s;
}

void shown_free(struct shown *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    text_free(&s->spare);
    free(s->slots);
    free(s);
}

static struct slot *find(struct slot *slots, size_t cap, uint64_t hash, const char *name)
{
    size_t at = hash & (cap - 1);
    while (slots[at].mangled && (slots[at].hash != hash || strcmp(slots[at].mangled, name) != 0))
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

static bool grow(struct shown *s)
{
    size_t cap = s->cap * 2;
    struct slot *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < s->cap; i++)
        if (s->slots[i].mangled)
            *find(slots, cap, s->slots[i].hash, s->slots[i].mangled) = s->slots[i];
    free(s->slots);
    s->slots = slots;
    s->cap = cap;
    return true;
}

static const char *demangled(struct shown *s, const char *name, struct text *room)
{
    room->size = 0;
    if (!demangle(name, room))
        text_string(room, name);
    return room->failed ? NULL : intern_bytes(s->strings, room->at ? room->at : "", room->size);
}

/* Exchange the spare buffer and `room`. Call under the lock. */
static void exchange(struct shown *s, struct text *room)
{
    struct text old = s->spare;
    s->spare = *room;
    *room = old;
}

const char *shown_name(struct shown *s, const char *name)
{
    if (!s->demangle || !demangle_may(name))
        return intern_string(s->strings, name);
    struct text room = {0};
    uint64_t hash = hash_bytes(name, strlen(name));
    const char *shown = NULL;
    pthread_mutex_lock(&s->lock);
    shown = find(s->slots, s->cap, hash, name)->shown;
    if (!shown)
        exchange(s, &room);
    pthread_mutex_unlock(&s->lock);
    if (shown)
        return shown;
    /* Two threads may do this at once; both get the same string. */
    shown = demangled(s, name, &room);
    pthread_mutex_lock(&s->lock);
    if (shown && (s->nr * 2 < s->cap || grow(s))) {
        struct slot *slot = find(s->slots, s->cap, hash, name);
        s->nr += !slot->mangled;
        *slot = (struct slot){hash, name, shown};
    }
    if (!room.failed)
        exchange(s, &room);
    pthread_mutex_unlock(&s->lock);
    text_free(&room);
    return shown;
}
