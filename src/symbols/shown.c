/* SPDX-License-Identifier: GPL-2.0-only */
/* A table from mangled names to the names shown. */
#include "symbols/shown.h"
#include "base/threads.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/text.h"
#include "symbols/demangle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    const char *mangled, *shown;
};

struct shown {
    struct intern *strings;
    bool demangle;
    pthread_mutex_t lock;
    VEC(struct pair) pairs;
    struct hash_table table; /* of pairs, by mangled names */
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
    lock_init_short(&s->lock);
    return s;
}

void shown_free(struct shown *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    text_free(&s->spare);
    vec_free(&s->pairs);
    hash_table_free(&s->table);
    free(s);
}

static uint32_t find(const struct shown *s, uint64_t hash, const char *name)
{
    return hash_table_find(&s->table, hash, i, strcmp(s->pairs.at[i].mangled, name) == 0);
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
    uint32_t known = find(s, hash, name);
    if (known != HASH_TABLE_NONE)
        shown = s->pairs.at[known].shown;
    else
        exchange(s, &room);
    pthread_mutex_unlock(&s->lock);
    if (shown)
        return shown;
    /* Two threads may do this at once; both get the same string. */
    shown = demangled(s, name, &room);
    pthread_mutex_lock(&s->lock);
    if (shown && find(s, hash, name) == HASH_TABLE_NONE &&
        vec_push(&s->pairs, (struct pair){name, shown}) &&
        !hash_table_add(&s->table, hash, s->pairs.nr - 1))
        s->pairs.nr--;
    if (!room.failed)
        exchange(s, &room);
    pthread_mutex_unlock(&s->lock);
    text_free(&room);
    return shown;
}
