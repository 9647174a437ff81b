/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording rewritten for tools that know neither LuaJIT nor V8: a sample's registers and stack
 * copy become a callchain; functions of Lua, of JavaScript and of generated code get addresses in
 * ELF images that are written for them (dso/elf_write.h) and mapped into their processes where no
 * process can have anything.
 */
#ifndef OUTPUT_INJECT_H
#define OUTPUT_INJECT_H

#include "base/error.h"
#include "replay/replay.h"

#include <stdint.h>

struct inject_stats {
    uint64_t samples;
    uint64_t images, functions, places; /* written; places: functions' lines */
    uint64_t frames;                    /* given an address in an image */
    uint64_t cut;      /* stacks that are deeper than a record may be: their outermost frames */
    uint64_t guessed;  /* native frames that are not proven: they look as any other in the output */
    uint64_t own;      /* samples and losses of the copier's own events, left out */
    uint64_t left_out; /* records that say what is no longer so, or that perf makes none of */
};

struct inject;
/* Beside the recording `path`, images go to the folder `path`.d. */
int inject_create(const char *path, struct replay *r, struct inject **ret, struct error *err);
void inject_free(struct inject *in);
struct replay_sink inject_sink(struct inject *in);
/* After the run: write images and recording. */
int inject_finish(struct inject *in, struct error *err);
const struct inject_stats *inject_stats(const struct inject *in);

#endif
