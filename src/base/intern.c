/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/intern.h"
#include "base/threads.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 64 * 1024 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    char bytes[];
};

struct slot {
    uint64_t hash;
    size_t size;
    const char *text; /* NULL: free */
};

struct intern {
    pthread_mutex_t lock;
    struct chunk *chunks;
    struct slot *slots;
    size_t nr, cap; /* cap is a power of two */
};

struct intern *intern_create(void)
{
    struct intern *in = calloc(1, sizeof(*in));
    if (!in)
        return NULL;
    in->cap = 256;
    in->slots = calloc(in->cap, sizeof(*in->slots));
    if (!in->slots) {
        free(in);
        return NULL;
    }
    lock_init_short(&in->lock);
    return in;
}

void intern_free(struct intern *in)
{
    if (!in)
        return;
    while (in->chunks) {
        struct chunk *next = in->chunks->next;
        free(in->chunks);
        in->chunks = next;
    }
    free(in->slots);
    pthread_mutex_destroy(&in->lock);
    free(in);
}

static const char *store(struct intern *in, const char *text, size_t size)
{
    struct chunk *c = in->chunks;
    if (!c || c->size - c->used <= size) {
        size_t room = size >= CHUNK_SIZE / 4 ? size + 1 : CHUNK_SIZE;
        c = malloc(sizeof(*c) + room);
        if (!c)
            return NULL;
        c->used = 0;
        c->size = room;
        c->next = in->chunks;
        in->chunks = c;
    }
    char *copy = c->bytes + c->used;
    memcpy(copy, text, size);
    copy[size] = 0;
    c->used += size + 1;
    return copy;
}

static bool grow(struct intern *in)
{
    size_t cap = in->cap * 2;
    struct slot *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < in->cap; i++) {
        if (!in->slots[i].text)
            continue;
        size_t at = in->slots[i].hash & (cap - 1);
        while (slots[at].text)
            at = (at + 1) & (cap - 1);
        slots[at] = in->slots[i];
    }
    free(in->slots);
    in->slots = slots;
    in->cap = cap;
    return true;
}

const char *intern_bytes(struct intern *in, const char *text, size_t size)
{
    uint64_t hash = hash_bytes(text, size);
    const char *found = NULL;
    pthread_mutex_lock(&in->lock);
    if (in->nr * 2 < in->cap || grow(in)) {
        size_t at = hash & (in->cap - 1);
        struct slot *s;
        while ((s = &in->slots[at])->text &&
               (s->hash != hash || s->size != size || memcmp(s->text, text, size) != 0))
            at = (at + 1) & (in->cap - 1);
        if (!s->text && (found = store(in, text, size))) {
            *s = (struct slot){hash, size, found};
            in->nr++;
        }
        found = s->text;
    }
    pthread_mutex_unlock(&in->lock);
    return found;
}

const char *intern_string(struct intern *in, const char *text)
{
    return intern_bytes(in, text, strlen(text));
}
