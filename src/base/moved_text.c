/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/moved_text.h"

#include "base/other_file.h"
#include "base/proc.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    READ_MAX = 512 << 20, /* bytes of files, for one process */
    PIECE = 64 << 10,
};

/* Is the mapping anonymous, executable, and between two parts of one file that leave its place in
 * the file free? */
static bool is_in_hole(const struct process_maps *maps, size_t index)
{
    if (index == 0 || index + 1 >= maps->maps.nr)
        return false;
    const struct process_map *m = &maps->maps.at[index], *before = m - 1, *behind = m + 1;
    return (!m->path[0] || strncmp(m->path, "[anon:", 6) == 0) && m->prot & PROT_EXEC &&
           before->path[0] == '/' && process_map_same_file(before, behind) &&
           behind->start - before->start == behind->pgoff - before->pgoff;
}

/* Read all of it, or fail. */
static bool read_memory(int fd, uint64_t address, uint8_t *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = pread(fd, to + at, size - at, (off_t)(address + at));
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* A process's memory, and the file that a part of it may be equal to. */
struct compared {
    int memory, file;
    uint64_t *left; /* bytes of files that may still be read */
};

/* Read a piece of the file. Returns its size; 0: there is none, or enough was read. */
static size_t read_piece(const struct compared *c, uint64_t offset, uint8_t *to, size_t size)
{
    if (*c->left < PIECE)
        return 0;
    *c->left -= PIECE; /* for small pieces, too: their number is bounded so */
    ssize_t got = pread(c->file, to, size, (off_t)offset);
    return got > 0 ? (size_t)got : 0;
}

static void compared_close(const struct compared *c)
{
    if (c->memory >= 0)
        close(c->memory);
    if (c->file >= 0)
        close(c->file);
}

/* Returns false if one of them cannot be opened. */
static bool compared_open(pid_t pid, const struct process_map *of_file, uint64_t *left,
                          struct compared *c)
{
    c->left = left;
    c->memory = proc_open(pid, "mem");
    c->file = c->memory >= 0 ? other_file_open_mapped(pid, of_file, NULL) : -1;
    if (c->file < 0)
        compared_close(c);
    return c->file >= 0;
}

/* Compare memory with the part of the file that begins at `offset`. */
static enum moved_text compare(const struct compared *c, uint64_t offset,
                               const struct process_map *m)
{
    uint8_t file[PIECE], now[PIECE];
    for (uint64_t at = m->start; at < m->end;) {
        size_t size = m->end - at < PIECE ? (size_t)(m->end - at) : PIECE;
        size_t got = read_piece(c, offset + (at - m->start), file, size);
        if (!got || !read_memory(c->memory, at, now, got))
            return MOVED_TEXT_NONE;
        if (memcmp(file, now, got) != 0)
            return MOVED_TEXT_OTHER;
        at += got;
    }
    return MOVED_TEXT_EQUAL;
}

/* The same memory as a mapping of the file. */
static struct process_map as_file(const struct process_map *m, const struct process_map *of_file,
                                  uint64_t offset)
{
    struct process_map ret = *of_file;
    ret.start = m->start;
    ret.end = m->end;
    ret.pgoff = offset;
    ret.prot = m->prot;
    ret.text = MOVED_TEXT_EQUAL;
    return ret;
}

/* Compare the mapping, which is in a hole of a file. */
static void restore(pid_t pid, struct process_map *m, uint64_t *left)
{
    struct compared c;
    const struct process_map *before = m - 1;
    const uint64_t offset = before->pgoff + (m->start - before->start);
    if (*left < PIECE || !compared_open(pid, before, left, &c))
        return;
    m->text = (uint8_t)compare(&c, offset, m);
    compared_close(&c);
    if (m->text == MOVED_TEXT_EQUAL)
        *m = as_file(m, before, offset);
}

/* Find where in the text the memory begins that is equal to `m`, but for the last page: V8 has
 * other bytes behind the end of its builtins. */
static bool find_copy(const struct compared *c, const struct process_map *text,
                      const struct process_map *m, uint64_t *offset)
{
    enum { HEAD = 64 };
    uint8_t head[HEAD], file[PIECE];
    const uint64_t size = text->end - text->start, wanted = m->end - m->start;
    struct process_map whole_pages = *m;
    whole_pages.end -= PAGE;
    if (!read_memory(c->memory, m->start, head, sizeof(head)))
        return false;
    for (uint64_t at = 0; wanted <= size && at <= size - wanted; at += PIECE) {
        size_t got = read_piece(c, text->pgoff + at, file, PIECE);
        if (!got)
            return false;
        for (size_t page = 0; page + HEAD <= got && at + page <= size - wanted; page += PAGE) {
            *offset = text->pgoff + at + page;
            if (memcmp(file + page, head, HEAD) == 0 &&
                compare(c, *offset, &whole_pages) == MOVED_TEXT_EQUAL)
                return true;
        }
    }
    return false;
}

/* V8 maps its builtins a second time, near the code that it generates: from the moved text. */
static void restore_copies(pid_t pid, struct process_maps *maps, const struct process_map *text,
                           uint64_t *left)
{
    enum { SMALL = 64 << 10, COPIES_MAX = 16 };
    struct compared c;
    unsigned looks = 0;
    if (!compared_open(pid, text, left, &c))
        return;
    for (size_t i = 0; i < maps->maps.nr && looks < COPIES_MAX; i++) {
        struct process_map *m = &maps->maps.at[i];
        uint64_t offset;
        if (m->path[0] || !(m->prot & PROT_EXEC) || m->prot & PROT_WRITE ||
            m->end - m->start < SMALL)
            continue;
        looks++;
        if (find_copy(&c, text, m, &offset))
            *m = as_file(m, text, offset);
    }
    compared_close(&c);
}

void moved_text_restore(pid_t pid, struct process_maps *maps)
{
    uint64_t left = READ_MAX;
    for (size_t i = 0; i < maps->maps.nr; i++) {
        struct process_map *m = &maps->maps.at[i];
        if (!is_in_hole(maps, i))
            continue;
        restore(pid, m, &left);
        const struct process_map text = *m;
        if (text.text == MOVED_TEXT_EQUAL)
            restore_copies(pid, maps, &text, &left);
    }
}
