/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rewrites a recording for tools that know neither LuaJIT nor V8. A sample's registers and stack
 * copy become a callchain. Functions of Lua, of JavaScript and of generated code get addresses in
 * ELF images that are written for them (dso/elf_write.h). The images are mapped into their
 * processes at addresses that no process can use.
 */
#ifndef OUTPUT_INJECT_H
#define OUTPUT_INJECT_H

#include "base/error.h"
#include "replay/replay.h"

#include <stdint.h>

struct inject_stats {
    uint64_t samples;
    uint64_t images, functions, places; /* written; places are lines of functions */
    uint64_t frames;                    /* frames that got an address in an image */
    uint64_t cut;      /* stacks that lost outermost frames: too deep for a record */
    uint64_t guessed;  /* native frames that are not proven; the output does not mark them */
    uint64_t own;      /* left out: samples and losses of the copier's own events */
    uint64_t left_out; /* records left out: no longer true, or perf cannot make them */
};

struct inject;
/* The recording is written to `path`, the images into the folder `path`.d. */
int inject_create(const char *path, struct replay *r, struct inject **ret, struct error *err);
void inject_free(struct inject *in);
struct replay_sink inject_sink(struct inject *in);
/* Write the images and the recording. Call it after the run. */
int inject_finish(struct inject *in, struct error *err);
const struct inject_stats *inject_stats(const struct inject *in);

#endif
