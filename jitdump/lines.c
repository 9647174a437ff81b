/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds source positions in DEBUG_INFO. */
#include "base/cursor.h"
#include "jitdump/jitcode.h"

struct row {
    uint64_t address;
    const char *file;
    uint32_t line, column;
    uint32_t order; /* place in the file: the last row for an address counts */
};

struct jit_rows {
    size_t nr;
    struct row at[];
};

static int by_address(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

enum { ROW_MIN = 17 }; /* u64 address, u32 line, u32 discriminator, NUL */

/* Read the rows. In a damaged record they end where the damage begins. */
static struct jit_rows *rows_read(const struct jit_lines *l)
{
    uint64_t most = l->size / ROW_MIN;
    uint64_t count = l->count < most ? l->count : most;
    struct jit_rows *rows = malloc(sizeof(*rows) + count * sizeof(struct row));
    if (!rows)
        return NULL;
    struct cursor c = cursor_make(l->bytes, l->size, l->swap, "jitdump", "DEBUG_INFO", 0);
    const char *before = NULL;
    bool sorted = true;
    rows->nr = 0;
    while (rows->nr < count) {
        struct row r = {.address = cursor_u64(&c), .order = (uint32_t)rows->nr};
        r.line = cursor_u32(&c);
        r.column = cursor_u32(&c);
        r.file = cursor_string(&c);
        if (c.failed)
            break;
        if ((uint8_t)r.file[0] == 0xff && !r.file[1])
            r.file = before;
        before = r.file;
        sorted &= rows->nr == 0 || rows->at[rows->nr - 1].address <= r.address;
        rows->at[rows->nr++] = r;
    }
    if (!sorted)
        qsort(rows->at, rows->nr, sizeof(*rows->at), by_address);
    return rows;
}

static const struct jit_rows *rows_of(struct jit_lines *l)
{
    struct jit_rows *rows = atomic_load_explicit(&l->rows, memory_order_acquire);
    if (rows)
        return rows;
    struct jit_rows *made = rows_read(l);
    if (made && !atomic_compare_exchange_strong(&l->rows, &rows, made)) {
        free(made);
        return rows;
    }
    return made;
}

void jit_lines_free(struct jit_lines *l)
{
    if (l)
        free(atomic_load(&l->rows));
    free(l);
}

bool jit_function_position(const struct jit_function *f, uint64_t address, struct jit_position *ret)
{
    struct jit_lines *l = (struct jit_lines *)f->lines;
    const struct jit_rows *rows = l && address - f->start < f->size ? rows_of(l) : NULL;
    if (!rows)
        return false;
    uint64_t wanted = address - f->start + l->base;
    size_t low = 0, high = rows->nr; /* rows before `low` are at or below `wanted` */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (rows->at[mid].address <= wanted)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || !rows->at[low - 1].file)
        return false;
    const struct row *r = &rows->at[low - 1];
    *ret = (struct jit_position){r->file, r->line, r->column};
    return true;
}
