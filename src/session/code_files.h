/* SPDX-License-Identifier: GPL-2.0-only */
/* Perf maps and jitdumps that a recording holds: of each process, the bytes that were written, put
 * together in an unnamed file. */
#ifndef SESSION_CODE_FILES_H
#define SESSION_CODE_FILES_H

#include "base/error.h"
#include "base/vec.h"
#include "perfdata/vmevent.h"

#include <stdbool.h>
#include <stdint.h>

struct code_file {
    uint32_t pid;
    uint8_t kind; /* VMENTRY_PERF_MAP, VMENTRY_JITDUMP */
    int fd;
};

struct code_files {
    VEC(struct code_file) at;
};

/* Add an entry of one of these kinds. What is out of bounds is left out. Returns -1 when memory is
 * out, or no temporary file can be made. */
int code_files_add(struct code_files *f, uint32_t pid, const struct vmevent_entry *entry,
                   struct error *err);
void code_files_free(struct code_files *f);
/* Get a path by which this process can open the file. Returns false if the recording has none. */
bool code_files_path(const struct code_files *f, uint32_t pid, uint8_t kind, char path[32]);

#endif
