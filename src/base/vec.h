/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A growable array. `VEC(struct thing) things;` starts as all zeros. vec_push returns false when
 * out of memory (the array is then unchanged). vec_free frees the memory. Elements move when the
 * array grows: keep indexes, not pointers.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VEC(type)   \
    struct {        \
        type *at;   \
        size_t nr;  \
        size_t cap; \
    }

/* Make room for `want` elements in all. */
#define vec_reserve(v, want) \
    ((want) <= (v)->cap || vec_grow_((void **)&(v)->at, &(v)->cap, (want), sizeof(*(v)->at)))

#define vec_push(v, ...) (vec_reserve(v, (v)->nr + 1) && ((v)->at[(v)->nr++] = (__VA_ARGS__), true))

/* Append `count` elements that are elsewhere. `from` may be NULL when `count` is 0. False: no
 * memory.
 */
#define vec_append(v, from, count)        \
    (vec_reserve(v, (v)->nr + (count)) && \
     (vec_copy_((v)->at, (v)->nr, (from), (count), sizeof(*(v)->at)), (v)->nr += (count), true))

/* Remove the first `count` elements. */
#define vec_drop(v, count) \
    ((v)->nr -= (count), vec_move_((v)->at, (v)->nr, (count), sizeof(*(v)->at)))

#define vec_foreach(p, v) \
    for (__typeof__((v)->at + 0) p = (v)->at; (v)->nr && p < (v)->at + (v)->nr; p++)

/* Texts that others own, such as words of the command line. */
typedef VEC(const char *) name_list;

#define vec_free(v)             \
    do {                        \
        free((v)->at);          \
        (v)->at = NULL;         \
        (v)->nr = (v)->cap = 0; \
    } while (0)

static inline bool vec_grow_(void **at, size_t *cap, size_t want, size_t size)
{
    size_t to = *cap + *cap / 2 + 8;
    if (to < want)
        to = want;
    void *p = reallocarray(*at, to, size);
    if (!p)
        return false;
    *at = p;
    *cap = to;
    return true;
}

static inline void vec_copy_(void *at, size_t nr, const void *from, size_t count, size_t size)
{
    if (count)
        memcpy((char *)at + nr * size, from, count * size);
}

static inline void vec_move_(void *at, size_t nr, size_t dropped, size_t size)
{
    if (nr && dropped)
        memmove(at, (char *)at + dropped * size, nr * size);
}

#endif
