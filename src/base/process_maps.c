/* SPDX-License-Identifier: GPL-2.0-only */
#include "base/process_maps.h"

#include "base/proc.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPS_MAX = 64 << 20 }; /* bytes of a /proc/PID/maps that are read at most */

/* Closes `fd`. */
static int read_all(pid_t pid, int fd, char **ret, struct error *err)
{
    size_t size = 0, cap = 64 << 10;
    char *text = malloc(cap + 1);
    const int why = errno;
    ssize_t n = -1;
    if (fd < 0 || !text) {
        free(text);
        if (fd < 0)
            return error_system(err, why, "/proc/%d/maps", (int)pid);
        close(fd);
        return error_no_memory(err);
    }
    while ((n = read(fd, text + size, cap - size)) > 0) {
        size += (size_t)n;
        if (size < cap || cap >= MAPS_MAX)
            continue;
        char *more = realloc(text, 2 * cap + 1);
        if (!more)
            break;
        text = more;
        cap *= 2;
    }
    close(fd);
    text[size] = 0;
    *ret = text;
    return 0;
}

/* Read a number that ends with this character, and go behind it. */
static bool take_number(char **at, int base, char end, uint64_t *ret)
{
    char *behind;
    if (!isxdigit((unsigned char)**at))
        return false;
    *ret = strtoull(*at, &behind, base);
    if (*behind != end)
        return false;
    *at = behind + 1;
    return true;
}

/* Parse one line, "START-END rwxp OFFSET MAJ:MIN INODE   PATH". (A recorder reads many: sscanf()
 * takes five times as long.) */
static bool parse_map(char *line, struct process_map *ret)
{
    uint64_t major, minor;
    *ret = (struct process_map){0};
    if (!take_number(&line, 16, '-', &ret->start) || !take_number(&line, 16, ' ', &ret->end) ||
        strcspn(line, " ") != 4)
        return false;
    const char *prot = line;
    line += 5;
    if (!take_number(&line, 16, ' ', &ret->pgoff) || !take_number(&line, 16, ':', &major) ||
        !take_number(&line, 16, ' ', &minor) || !isdigit((unsigned char)*line) ||
        ret->start >= ret->end)
        return false;
    ret->inode = strtoull(line, &line, 10);
    ret->major = (uint32_t)major;
    ret->minor = (uint32_t)minor;
    ret->prot = (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0) |
                (prot[2] == 'x' ? PROT_EXEC : 0);
    ret->shared = prot[3] == 's';
    ret->path = line + strspn(line, " ");
    return true;
}

int process_maps_take(pid_t pid, int fd, struct process_maps *ret, struct error *err)
{
    char *save = NULL;
    struct process_map map;
    *ret = (struct process_maps){0};
    if (read_all(pid, fd, &ret->text, err) < 0)
        return -1;
    for (char *line = strtok_r(ret->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (parse_map(line, &map) && !vec_push(&ret->maps, map)) {
            process_maps_free(ret);
            return error_no_memory(err);
        }
    }
    return 0;
}

int process_maps_read(pid_t pid, struct process_maps *ret, struct error *err)
{
    return process_maps_take(pid, proc_open(pid, "maps"), ret, err);
}

void process_maps_free(struct process_maps *maps)
{
    vec_free(&maps->maps);
    free(maps->text);
    maps->text = NULL;
}

bool process_map_same_file(const struct process_map *a, const struct process_map *b)
{
    return a->inode && a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

const char *process_map_live_path(pid_t pid, const struct process_map *map, char *buffer,
                                  size_t size)
{
    struct proc_place program;
    if (map->path[0] != '/' || !map->path[text_undeleted(map->path)])
        return NULL;
    snprintf(buffer, size, "/proc/%d/exe", (int)pid);
    if (proc_place(pid, "exe", &program) && program.ino == map->inode)
        return buffer;
    snprintf(buffer, size, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, map->start,
             map->end);
    return buffer;
}
