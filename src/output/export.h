/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Profiles in the formats of other programs. Each writer streams: what it keeps beside the profile
 * is of the size of the profile's tables, not of the output.
 */
#ifndef OUTPUT_EXPORT_H
#define OUTPUT_EXPORT_H

#include "base/error.h"
#include "stacks/profile.h"

#include <stdio.h>

struct export
{
    struct profile *profile; /* finished; writers add strings of their own */
    const struct replay *replay;
    bool samples;   /* count samples, not periods */
    unsigned event; /* the one that is written where a format has room for one only */
};

/* Each writes one whole file. -1 when memory is out; errors of `out` are the caller's to look for.
 */
int export_json(const struct export *e, FILE *out, struct error *err);
int export_pprof(const struct export *e, FILE *out, struct error *err); /* not yet compressed */
int export_speedscope(const struct export *e, FILE *out, struct error *err);
int export_firefox(const struct export *e, FILE *out, struct error *err);
int export_chrome(const struct export *e, FILE *out, struct error *err);
int export_callgrind(const struct export *e, FILE *out, struct error *err);

/* ---- what writers share -------------------------------------------------------------------- */

/* The event's name; "samples" when its index is none of the recording's. */
const char *export_event(const struct export *e, unsigned event);
/* Its periods are ns of processor or wall time. */
bool export_is_time(const struct export *e, unsigned event);
/* What the sample counts for. */
uint64_t export_weight(const struct export *e, const struct profile_sample *s);
/* Whether the sample is of the chosen event, and has a stack. */
bool export_wants(const struct export *e, const struct profile_sample *s);
/* The dso's build id in hexadecimal; "" when none is known. */
void export_build_id(const struct export *e, uint32_t dso, char hex[2 * BUILD_ID_MAX + 1]);
/* Time of day of a sample's time, ns since 1970; 0: the recording does not tell. */
uint64_t export_wall_clock(const struct export *e, uint64_t time);

const char *export_kind(uint8_t kind);
/* NULL: none */
const char *export_tier(uint8_t tier);
/* "exact", "image", "guess" */
const char *export_provenance(uint8_t provenance);
/* Tier of the innermost managed frame from the node outwards; NULL: there is none. */
const char *export_stack_tier(const struct profile *p, uint32_t node);

/* What the LuaJIT VM that the stack is in was doing, told by what stands inside of the innermost
 * Lua frame: "interp", "jit" (nothing), "gc", "exit", "record", "opt", "asm" (LuaJIT's functions
 * for it), "c" (only other functions). NULL: in no such VM, or a function inside has no name. */
const char *export_vm_state(const struct profile *p, uint32_t node);

/* The nodes from the outermost to `node`. False: memory is out, and the path empty. */
typedef VEC(uint32_t) node_path;
bool export_path(const struct profile *p, uint32_t node, node_path *ret);

/* The wanted samples by thread, in order: those of thread t are order[starts[t]] up to
 * order[starts[t + 1]], indexes of the profile's. */
struct thread_samples {
    uint32_t *starts, *order;
};
bool thread_samples_make(const struct export *e, struct thread_samples *ret);
void thread_samples_free(struct thread_samples *t);

/* Numbers for strings, by pointer, from 0 in the order they are first asked for. */
struct string_numbers {
    VEC(const char *) strings;
    uint32_t *slots;
    size_t nr_slots;
    bool failed; /* memory was out */
};
uint32_t string_number(struct string_numbers *n, const char *interned);
/* The same of a string that is not interned yet. */
uint32_t string_number_of(struct string_numbers *n, const struct export *e, const char *text);
void string_numbers_free(struct string_numbers *n);

#endif
