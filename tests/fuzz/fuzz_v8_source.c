/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as a script's text, in pieces of any size, of one or two bytes a character. The text
 * must be read to its end, and all cuts must give the same answer for a function, or none.
 *
 * The first byte chooses the width, the second the size of the pieces; the text follows.
 */
#include "unwind/v8/source.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct v8_source *read_text(const uint8_t *text, size_t nr, bool wide, size_t piece)
{
    struct v8_source *s = v8_source_create();
    if (!s)
        return NULL;
    for (size_t at = 0; at < nr; at += piece) {
        size_t now = nr - at < piece ? nr - at : piece;
        if (!v8_source_take(s, text + (wide ? 2 * at : at), now, wide))
            break;
    }
    v8_source_end(s);
    return s;
}

static void compare(const struct v8_source *a, const struct v8_source *b, int32_t start,
                    const char *name)
{
    struct text x = {0}, y = {0};
    bool one = v8_source_name(a, start, name, strlen(name), &x);
    bool other = v8_source_name(b, start, name, strlen(name), &y);
    if (one != other || x.size != y.size || (x.size && memcmp(x.at, y.at, x.size) != 0))
        abort();
    text_free(&x);
    text_free(&y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"", "a", "get", "constructor", "A", "#b"};
    if (size < 2)
        return 0;
    bool wide = data[0] & 1;
    size_t nr = (size - 2) / (wide ? 2 : 1);
    struct v8_source *whole = read_text(data + 2, nr, wide, nr + 1);
    struct v8_source *pieces = read_text(data + 2, nr, wide, 1 + data[1] % 16);
    for (int32_t start = -1; whole && pieces && start <= (int32_t)nr && start < 2000; start++)
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            compare(whole, pieces, start, names[i]);
    v8_source_free(whole);
    v8_source_free(pieces);
    return 0;
}
