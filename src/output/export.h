/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Profiles in the formats of other programs. Each writer streams: apart from the profile, it keeps
 * data in the size of the profile's tables, not in the size of the output.
 */
#ifndef OUTPUT_EXPORT_H
#define OUTPUT_EXPORT_H

#include "base/error.h"
#include "base/hash_table.h"
#include "stacks/profile.h"

#include <stdio.h>

struct json;
struct text;

/* What a sample's labels tell, where a format has labels. */
enum export_label {
    LABEL_THREAD = 1 << 0, /* the thread's name */
    LABEL_PID = 1 << 1,
    LABEL_TID = 1 << 2,
    LABEL_TIER = 1 << 3, /* of the innermost managed frame */
    LABEL_VM_STATE = 1 << 4,
    LABEL_PROVENANCE = 1 << 5, /* of the weakest frame, unless it is exact */
    LABEL_STACK = 1 << 6,      /* how the stack ended, unless it is complete */
    LABELS_ALL = (1 << 7) - 1,
};

struct export
{
    struct profile *profile; /* finished; writers add their own strings */
    const struct replay *replay;
    bool samples;        /* count samples, not periods */
    unsigned event;      /* the event to write, if the format has room for one only */
    unsigned labels;     /* enum export_label */
    const char *service; /* in OTLP, the name of the service; NULL: the command of each process */
};

/* Each function writes one whole file. It returns -1 if memory is out. The caller checks `out` for
 * write errors. */
int export_json(const struct export *e, FILE *out, struct error *err);
int export_pprof(const struct export *e, FILE *out, struct error *err); /* not yet compressed */
/* OpenTelemetry's ProfilesData, in protobuf's binary form and as JSON. */
int export_otlp(const struct export *e, FILE *out, struct error *err);
int export_otlp_json(const struct export *e, FILE *out, struct error *err);
int export_speedscope(const struct export *e, FILE *out, struct error *err);
int export_firefox(const struct export *e, FILE *out, struct error *err);
int export_chrome(const struct export *e, FILE *out, struct error *err);
int export_callgrind(const struct export *e, FILE *out, struct error *err);

/* ---- shared by the writers ----------------------------------------------------------------- */

/* Returns the event's name, or "samples" if the recording has no event of this index. */
const char *export_event(const struct export *e, unsigned event);
/* Returns pprof's word for the unit of the event's periods: "nanoseconds", "bytes", "count". */
const char *export_unit(const struct export *e, unsigned event);
/* Append the type of an event's weights, as profile stores know them: "cpu", "off_cpu", "wall", or
 * the event's name with _ for what stores refuse in such names (- and :). */
void export_put_type(const struct export *e, unsigned event, struct text *out);
/* Returns whether the event's periods are ns of processor or wall time. */
bool export_is_time(const struct export *e, unsigned event);
/* Returns whether an event's periods are ns of processor time. */
bool export_is_cpu_time(const struct export *e, unsigned event);
/* Returns the weight of a sample. */
uint64_t export_weight(const struct export *e, const struct profile_sample *s);
/* Returns whether the sample is of the chosen event and has a stack. */
bool export_wants(const struct export *e, const struct profile_sample *s);
/* Get the dso's build id in hexadecimal; "" if it is unknown. */
void export_build_id(const struct export *e, uint32_t dso, char hex[2 * BUILD_ID_MAX + 1]);
/* Convert a sample's time to ns since 1970; 0: the recording has no wall clock time. */
uint64_t export_wall_clock(const struct export *e, uint64_t time);

const char *export_kind(uint8_t kind);
/* Returns the tier's word; NULL: none. */
const char *export_tier(uint8_t tier);
/* Writes the keys "file", "line", "column" of an executing position, as far as they are known; for
 * a frame of WebAssembly (frame.h) the keys "file", "byte". */
void export_position(struct json *j, uint8_t kind, const char *file, uint32_t line,
                     uint32_t column);
/* Returns "exact", "image" or "guess". */
const char *export_provenance(uint8_t provenance);
/* Returns the tier of the innermost managed frame, searched from the node outwards; NULL: there is
 * none. */
const char *export_stack_tier(const struct profile *p, uint32_t node);

/* Returns what the LuaJIT VM of the stack was doing, judged by the functions inside of the
 * innermost Lua frame: "interp" or "jit" (no function), "gc", "exit", "record", "opt", "asm"
 * (LuaJIT's own functions for it), "c" (only other functions). NULL: the stack is in no such VM, or
 * a function inside has no name. */
const char *export_vm_state(const struct profile *p, uint32_t node);

/* Get the nodes from the outermost one to `node`. Returns false if memory is out; the path is empty
 * then. */
typedef VEC(uint32_t) node_path;
bool export_path(const struct profile *p, uint32_t node, node_path *ret);

/* A file with frames, for formats that have mappings: it is one mapping, from its first byte on.
 * For generated code it is the perf map or jitdump. */
struct export_file {
    const char *module;
    uint32_t dso;
    uint64_t begin,
        end; /* range of addresses, in pages; of the kernel from the first that was seen */
    bool kernel, lines, inlines;
};
struct export_files {
    VEC(struct export_file) files;
    VEC(uint32_t) of; /* by location: index of its file + 1; 0: none, as of managed functions */
};
/* Find the files of all locations. `ret` is zeros, and is freed in any case. Returns false if
 * memory is out. */
bool export_files_find(const struct profile *p, struct export_files *ret);
void export_files_free(struct export_files *f);

/* The wanted samples by thread, in order. Those of thread t are order[starts[t]] up to
 * order[starts[t + 1]], which are indexes in the profile's samples. */
struct thread_samples {
    uint32_t *starts, *order;
};
bool thread_samples_make(const struct export *e, struct thread_samples *ret);
void thread_samples_free(struct thread_samples *t);

/* Numbers for strings, found by pointer. Strings are numbered from 0 in the order of first use. */
struct string_numbers {
    VEC(const char *) strings;
    struct hash_table table;
    bool failed; /* memory was out */
};
uint32_t string_number(struct string_numbers *n, const char *interned);
/* The same for a string that is not interned yet. */
uint32_t string_number_of(struct string_numbers *n, const struct export *e, const char *text);
void string_numbers_free(struct string_numbers *n);

#endif
