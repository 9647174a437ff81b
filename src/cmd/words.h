/* SPDX-License-Identifier: GPL-2.0-only */
/* A command line that is put together. The words stay their owners'. */
#ifndef CMD_WORDS_H
#define CMD_WORDS_H

#include "base/vec.h"

#include <stdbool.h>

struct words {
    VEC(char *) all;
    bool failed; /* memory was out: words are missing */
};

/* Append a word, or the NULL that ends the command line. */
static inline void words_add(struct words *w, const char *word)
{
    w->failed |= !vec_push(&w->all, (char *)word);
}

/* Append an option with its value; nothing if `value` is NULL. */
static inline void words_option(struct words *w, const char *option, const char *value)
{
    if (!value)
        return;
    words_add(w, option);
    words_add(w, value);
}

/* Append an option without a value, if it is `given`. */
static inline void words_flag(struct words *w, const char *option, bool given)
{
    if (given)
        words_add(w, option);
}

/* Append words up to NULL; `list` may be NULL. */
static inline void words_list(struct words *w, char *const *list)
{
    while (list && *list)
        words_add(w, *list++);
}

static inline void words_free(struct words *w)
{
    vec_free(&w->all);
}

#endif
