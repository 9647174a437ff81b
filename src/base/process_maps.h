/* SPDX-License-Identifier: GPL-2.0-only */
/* The mappings of a live process, as /proc/PID/maps lists them. */
#ifndef BASE_PROCESS_MAPS_H
#define BASE_PROCESS_MAPS_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Is anonymous executable memory that lies in a hole of a file equal to the file? */
enum moved_text {
    MOVED_TEXT_NONE,  /* no such memory, or nobody has compared it */
    MOVED_TEXT_OTHER, /* its bytes are others */
    MOVED_TEXT_EQUAL, /* it is told as a mapping of the file (moved_text_restore()) */
};

/* A line of /proc/PID/maps. */
struct process_map {
    uint64_t start, end, pgoff; /* bytes */
    uint64_t inode;
    uint32_t major, minor;
    uint32_t prot; /* PROT_* */
    bool shared;
    uint8_t text;     /* enum moved_text */
    const char *path; /* "" for anonymous memory; points into process_maps.text */
};

struct process_maps {
    VEC(struct process_map) maps;
    char *text;
};

int process_maps_read(pid_t pid, struct process_maps *ret, struct error *err);
/* The same from a descriptor as proc_open(pid, "maps") returns it (-1: errno says why there is
 * none), which this function closes. */
int process_maps_take(pid_t pid, int fd, struct process_maps *ret, struct error *err);
void process_maps_free(struct process_maps *maps);
/* Returns whether both are of one file. */
bool process_map_same_file(const struct process_map *a, const struct process_map *b);
/* Get where the process has the file of a mapping whose file was deleted or replaced: a link that
 * needs CAP_SYS_ADMIN, or /proc/PID/exe. NULL: the file is not deleted. `buffer`: at least 64
 * bytes. */
const char *process_map_live_path(pid_t pid, const struct process_map *map, char *buffer,
                                  size_t size);

#endif
