/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of recorded processes that was read outside the recording: files of `ljperf snapshot`, and
 * ELF cores. Each must be of a recorded process, with the same files mapped at the same addresses.
 */
#ifndef SESSION_SNAPSHOTS_H
#define SESSION_SNAPSHOTS_H

#include "session/session.h"
#include "session/recorded_memory.h"

struct snapshots;

/* Read `paths` and the recording's mappings (once, from start to end). Errors: a file is neither a
 * snapshot nor a core; its process was not recorded, or was another program; mapped files
 * differ. */
int snapshots_open(const char *const *paths, size_t nr, const struct perfdata *pd,
                   struct dsos *dsos, const struct dso_options *options, struct snapshots **ret,
                   struct error *err);
void snapshots_free(struct snapshots *s);

/* Returns a line for stderr; NULL: no more. */
const char *snapshots_warning(const struct snapshots *s, size_t index);

/* ---- lookups: any thread ------------------------------------------------------------------ */

enum { SNAPSHOT_LAYERS = 6 }; /* of one process */
struct snapshot_layers {
    struct memory_log_view views[2];
    struct memory_layer at[SNAPSHOT_LAYERS];
    size_t nr;
};
/* Get the layers of a process. `ret` must stay valid as long as the layers are used. */
void snapshots_layers(const struct snapshots *s, uint32_t pid, struct snapshot_layers *ret);

/* Like memory_log_globals(), memory_log_functions() and memory_log_prototype(). */
uint64_t snapshots_prototype(const struct snapshots *s, uint32_t pid, uint64_t address);
size_t snapshots_globals(const struct snapshots *s, uint32_t pid, uint64_t *ret, size_t max);
size_t snapshots_functions(const struct snapshots *s, uint32_t pid, uint64_t bytecode,
                           uint64_t *ret, size_t max);
/* Like memory_log_code_file() and memory_log_text(). */
bool snapshots_code_file(const struct snapshots *s, uint32_t pid, uint8_t kind, char path[32]);
const struct vmentry_text *snapshots_text(const struct snapshots *s, uint32_t pid, uint64_t start,
                                          uint64_t end);

#endif
