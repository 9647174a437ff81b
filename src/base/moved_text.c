/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/moved_text.h"

#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    COMPARED_MAX = 256 << 20, /* bytes */
    PIECE = 64 << 10,
};

static bool is_same_file(const struct process_map *a, const struct process_map *b)
{
    return a->inode && a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* Is the mapping anonymous, executable, and between two parts of one file that leave its place in
 * the file free? */
static bool is_in_hole(const struct process_maps *maps, size_t index)
{
    if (index == 0 || index + 1 >= maps->maps.nr)
        return false;
    const struct process_map *m = &maps->maps.at[index], *before = m - 1, *behind = m + 1;
    return (!m->path[0] || strncmp(m->path, "[anon:", 6) == 0) && m->prot & PROT_EXEC &&
           before->path[0] == '/' && is_same_file(before, behind) &&
           behind->start - before->start == behind->pgoff - before->pgoff;
}

/* Open the file of a mapping. Returns -1 if it cannot be found by now. */
static int open_file(pid_t pid, const struct process_map *m)
{
    char path[96];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start,
             m->end);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        fd = proc_open_in_root((uint32_t)pid, m->path);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m->inode))
        return fd;
    close(fd);
    return -1;
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
};

static void compared_close(const struct compared *c)
{
    if (c->memory >= 0)
        close(c->memory);
    if (c->file >= 0)
        close(c->file);
}

/* Returns false if one of them cannot be opened. */
static bool compared_open(pid_t pid, const struct process_map *of_file, struct compared *c)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    c->memory = open(path, O_RDONLY | O_CLOEXEC);
    c->file = c->memory >= 0 ? open_file(pid, of_file) : -1;
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
        ssize_t got = pread(c->file, file, size, (off_t)(offset + (at - m->start)));
        if (got <= 0 || !read_memory(c->memory, at, now, (size_t)got))
            return MOVED_TEXT_NONE;
        if (memcmp(file, now, (size_t)got) != 0)
            return MOVED_TEXT_OTHER;
        at += (uint64_t)got;
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
    ret.is_moved = true;
    return ret;
}

enum moved_text moved_text_look(pid_t pid, const struct process_maps *maps, size_t index,
                                struct process_map *ret)
{
    struct compared c;
    if (!is_in_hole(maps, index))
        return MOVED_TEXT_NONE;
    const struct process_map *m = &maps->maps.at[index], *before = m - 1;
    *ret = as_file(m, before, before->pgoff + (m->start - before->start));
    if (m->end - m->start > COMPARED_MAX || !compared_open(pid, before, &c))
        return MOVED_TEXT_NONE;
    enum moved_text found = compare(&c, ret->pgoff, m);
    compared_close(&c);
    return found;
}

/* Find where in the text the memory begins that is equal to `m`, but for the last page: V8 has
 * other bytes behind the end of its builtins. */
static enum moved_text find_copy(const struct compared *c, const struct process_map *text,
                                 const struct process_map *m, uint64_t *offset)
{
    enum { HEAD = 64 };
    uint8_t head[HEAD], file[PIECE];
    const uint64_t size = text->end - text->start, wanted = m->end - m->start;
    struct process_map whole_pages = *m;
    whole_pages.end -= PAGE;
    if (!read_memory(c->memory, m->start, head, sizeof(head)))
        return MOVED_TEXT_NONE;
    for (uint64_t at = 0; wanted <= size && at <= size - wanted; at += PIECE) {
        ssize_t got = pread(c->file, file, PIECE, (off_t)(text->pgoff + at));
        for (ssize_t page = 0; page + HEAD <= got && at + (uint64_t)page <= size - wanted;
             page += PAGE) {
            *offset = text->pgoff + at + (uint64_t)page;
            if (memcmp(file + page, head, HEAD) == 0 &&
                compare(c, *offset, &whole_pages) == MOVED_TEXT_EQUAL)
                return MOVED_TEXT_EQUAL;
        }
    }
    return MOVED_TEXT_OTHER;
}

/* V8 maps its builtins a second time, near the code that it generates: from the moved text. */
static void restore_copies(pid_t pid, struct process_maps *maps, const struct process_map *text)
{
    enum { SMALL = 64 << 10, COPIES_MAX = 16 };
    struct compared c;
    unsigned looks = 0;
    if (!compared_open(pid, text, &c))
        return;
    for (size_t i = 0; i < maps->maps.nr && looks < COPIES_MAX; i++) {
        struct process_map *m = &maps->maps.at[i];
        uint64_t offset;
        if (m->path[0] || !(m->prot & PROT_EXEC) || m->prot & PROT_WRITE ||
            m->end - m->start < SMALL)
            continue;
        looks++;
        if (find_copy(&c, text, m, &offset) == MOVED_TEXT_EQUAL)
            *m = as_file(m, text, offset);
    }
    compared_close(&c);
}

void moved_text_restore(pid_t pid, struct process_maps *maps)
{
    struct process_map file;
    for (size_t i = 0; i < maps->maps.nr; i++) {
        if (moved_text_look(pid, maps, i, &file) != MOVED_TEXT_EQUAL)
            continue;
        maps->maps.at[i] = file;
        restore_copies(pid, maps, &file);
    }
}
