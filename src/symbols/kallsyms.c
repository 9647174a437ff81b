/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads kallsyms files: ordinary files are mapped; files in /proc have no size and are read. */
#include "symbols/kallsyms.h"
#include "base/cursor.h"
#include "base/file_map.h"
#include "base/vec.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KALLSYMS_MAX = 256 << 20 };

struct kallsyms_file {
    char *path, *text;
    size_t size;
    bool mapped;
};

struct kallsyms_files {
    pthread_mutex_t lock;
    VEC(struct kallsyms_file) files;
};

struct kallsyms_files *kallsyms_files_create(void)
{
    struct kallsyms_files *all = calloc(1, sizeof(*all));
    if (all)
        pthread_mutex_init(&all->lock, NULL);
    return all;
}

void kallsyms_files_free(struct kallsyms_files *all)
{
    if (!all)
        return;
    vec_foreach (f, &all->files) {
        if (f->mapped)
            file_unmap(f->text, f->size);
        else
            free(f->text);
        free(f->path);
    }
    vec_free(&all->files);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* Read all of a file of unknown size. */
static void read_all(struct kallsyms_file *f, int fd)
{
    size_t cap = 0;
    ssize_t got = 1;
    while (got > 0 && f->size < KALLSYMS_MAX) {
        if (cap - f->size < 65536) {
            char *more = realloc(f->text, cap = cap * 2 + (8 << 20));
            if (!more)
                break;
            f->text = more;
        }
        got = read(fd, f->text + f->size, cap - f->size);
        f->size += got > 0 ? (size_t)got : 0;
    }
    if (got == 0)
        return;
    free(f->text);
    f->text = NULL;
    f->size = 0;
}

static void file_read(struct kallsyms_file *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size < KALLSYMS_MAX) {
        f->text = file_map(fd, (size_t)st.st_size);
        f->mapped = f->text;
        f->size = f->mapped ? (size_t)st.st_size : 0;
    } else {
        read_all(f, fd);
    }
    close(fd);
}

struct kallsyms_text kallsyms_files_text(struct kallsyms_files *all, const char *path)
{
    struct kallsyms_text text = {"", ""};
    const struct kallsyms_file *found = NULL;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; !found && i < all->files.nr; i++)
        if (strcmp(all->files.at[i].path, path) == 0)
            found = &all->files.at[i];
    if (!found) {
        struct kallsyms_file f = {.path = strdup(path)};
        if (f.path && vec_push(&all->files, f)) {
            file_read(&all->files.at[all->files.nr - 1]);
            found = &all->files.at[all->files.nr - 1];
        } else {
            free(f.path);
        }
    }
    if (found && found->text)
        text = (struct kallsyms_text){found->text, found->text + found->size};
    pthread_mutex_unlock(&all->lock);
    return text;
}

/* ---- lines ------------------------------------------------------------------------------- */

static const char *read_hex(const char *p, const char *end, uint64_t *ret)
{
    uint64_t v = 0;
    for (; p < end; p++) {
        unsigned c = (unsigned char)*p;
        unsigned digit = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
        if (digit > 15)
            break;
        v = v << 4 | digit;
    }
    *ret = v;
    return p;
}

/* Convert eight digits at once. Returns false unless all are lower-case hexadecimal digits. */
static bool read_hex8(const char *p, uint64_t *ret)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x = load_u64(p, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__); /* first digit lowest */
    uint64_t letter = x >> 6 & ones;
    uint64_t digit = (x & 0x0f * ones) + 9 * letter;
    /* '0' is 0x30, 'a' 0x61; letters must give 10 to 15, other characters less */
    uint64_t bad = (x & 0xf0 * ones) ^ (0x30 * ones + 0x30 * letter);
    bad |= (digit & 0x10 * ones) | (((digit + 6 * ones) & 0x10 * ones) ^ letter << 4);
    digit = bswap_64(digit);
    digit = (digit | digit >> 4) & UINT64_C(0x00ff00ff00ff00ff);
    digit = (digit | digit >> 8) & UINT64_C(0x0000ffff0000ffff);
    *ret = (digit | digit >> 16) & UINT32_MAX;
    return bad == 0;
}

/* Read the address of a line, nearly always 16 digits. Returns the position behind it. */
static const char *read_address(const char *p, const char *end, struct kallsyms_line *ret)
{
    uint64_t digits, high, low;
    if (end - p <= 16 || p[16] != ' ')
        return read_hex(p, end, &ret->address);
    memcpy(&digits, p, sizeof(digits));
    if (digits != ret->high_digits || digits == 0) {
        if (!read_hex8(p, &high))
            return read_hex(p, end, &ret->address);
        ret->high_digits = digits;
        ret->high = high;
    }
    if (!read_hex8(p + 8, &low))
        return read_hex(p, end, &ret->address);
    ret->address = ret->high << 32 | low;
    return p + 16;
}

bool kallsyms_line_read(const char **at, const char *end, struct kallsyms_line *ret)
{
    const char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));
    const char *stop = newline ? newline : end;
    *at = newline ? newline + 1 : end;
    const char *p = read_address(line, stop, ret);
    if (p == line || stop - p < 4 || p[0] != ' ' || p[2] != ' ')
        return false;
    ret->type = p[1];
    ret->name = p + 3;
    ret->name_end = stop;
    ret->module = NULL;
    /* Most lines end without a bracket; for them there is no need to search for a tab. */
    if (stop[-1] == ']') {
        const char *tab = memchr(ret->name, '\t', (size_t)(stop - ret->name));
        ret->name_end = tab ? tab : stop;
        ret->module = tab ? tab + 1 : NULL;
        ret->module_end = stop;
    }
    return ret->name_end > ret->name;
}

uint64_t kallsyms_address(struct kallsyms_text text, const char *symbol)
{
    size_t size = strlen(symbol);
    const char *found = text.at;
    /* Search for the name, then check the line that must contain it. */
    while (size && (found = memmem(found, (size_t)(text.end - found), symbol, size))) {
        enum { BEFORE = 32 }; /* address and type are shorter */
        size_t room = (size_t)(found - text.at) < BEFORE ? (size_t)(found - text.at) : BEFORE;
        const char *before = memrchr(found - room, '\n', room);
        const char *line = before ? before + 1 : found - room;
        struct kallsyms_line l = {0};
        if (kallsyms_line_read(&line, text.end, &l) && l.name == found &&
            l.name_end == found + size && !l.module)
            return l.address;
        found += size;
    }
    return 0;
}
