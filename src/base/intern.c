/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/intern.h"
#include "base/threads.h"
#include "base/hash.h"
#include "base/hash_table.h"

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

struct string {
    size_t size;
    const char *text;
};

struct intern {
    pthread_mutex_t lock;
    struct chunk *chunks;
    VEC(struct string) strings;
    struct hash_table table; /* of indexes in `strings` */
};

struct intern *intern_create(void)
{
    struct intern *in = calloc(1, sizeof(*in));
    if (!in)
        return NULL;
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
    vec_free(&in->strings);
    hash_table_free(&in->table);
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

static bool is_string(const struct string *s, const char *text, size_t size)
{
    return s->size == size && memcmp(s->text, text, size) == 0;
}

const char *intern_bytes(struct intern *in, const char *text, size_t size)
{
    uint64_t hash = hash_bytes(text, size);
    const char *found = NULL;
    pthread_mutex_lock(&in->lock);
    uint32_t n = hash_table_find(&in->table, hash, i, is_string(&in->strings.at[i], text, size));
    if (n != HASH_TABLE_NONE)
        found = in->strings.at[n].text;
    else if ((found = store(in, text, size)) &&
             !(vec_push(&in->strings, (struct string){size, found}) &&
               hash_table_add(&in->table, hash, in->strings.nr - 1)))
        found = NULL;
    pthread_mutex_unlock(&in->lock);
    return found;
}

const char *intern_string(struct intern *in, const char *text)
{
    return intern_bytes(in, text, strlen(text));
}
