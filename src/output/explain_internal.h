/* SPDX-License-Identifier: GPL-2.0-only */
/* What a walk told (explain_collect.c), for the files that print it. */
#ifndef OUTPUT_EXPLAIN_INTERNAL_H
#define OUTPUT_EXPLAIN_INTERNAL_H

#include "output/explain.h"
#include "unwind/arch.h"
#include "unwind/native/cfi.h"
#include "unwind/trace.h"

enum { TOLD_BYTES = 64 };

/* One event or read of a walk. */
struct told {
    bool is_read, again, undone;
    struct trace_event event; /* its pointers but `text` are NULL */
    struct replay_read read;  /* `bytes` points to nothing */
    uint8_t bytes[TOLD_BYTES];
    bool has_bytes, repeated; /* `repeated`: read before in the same machine frame */
    size_t frame;             /* index of the walk's frame that it is about */
};

/* Where a register's value comes from. */
enum origin_kind { ORIGIN_UNKNOWN, ORIGIN_SAMPLE, ORIGIN_READ, ORIGIN_CFA, ORIGIN_COMPUTED };
struct origin {
    enum origin_kind kind;
    uint64_t address; /* READ */
    size_t machine;   /* in whose step it got its value */
};

/* One machine frame, and the step out of it. */
struct machine {
    size_t first, end; /* its frames in the walk's output */
    struct code code;
    struct registers before, after;
    struct origin origins[ARCH_REGISTERS_MAX]; /* of `before` */
    bool has_after, has_row;
    uint8_t flags;
    enum provenance provenance, provenance_after; /* of the walk */
    struct cfi_row row;
    const char *rule;
    uint64_t cfa; /* 0: not known by a rule */
    VEC(struct told) told;
};

struct told_walk {
    VEC(struct machine) machines;
    const char *end; /* why it ended, as a sentence of trace.h; NULL: not told */
    uint64_t end_value;
    size_t nr_kernel; /* frames before the walk's in the output */
    bool again, failed;
    struct unwind_stack stack;
};

/* explain_collect.c: walk the sample and collect. */
int told_walk_make(struct replay_worker *w, const struct replay_sample *s, struct told_walk *ret,
                   struct error *err);
void told_walk_free(struct told_walk *t);
/* Returns the machine frame of a frame of the walk; NULL: none. */
const struct machine *told_machine_of(const struct told_walk *t, size_t frame);

/* Where the frame of a sample comes from. */
struct frame_place {
    enum { PLACE_KERNEL, PLACE_GIVEN, PLACE_WALK, PLACE_JOINED } kind;
    size_t walk;   /* PLACE_WALK: index of the walk's frame */
    size_t part;   /* of this frame, if it stands for several of the output */
    size_t joined; /* PLACE_JOINED: index among the joined frames */
};
struct frame_place told_place(const struct told_walk *t, const struct replay_sample *s,
                              size_t index);

/* explain_cfi.c */
void explain_rule(struct text *out, const struct machine *m);
void explain_cfa(struct text *out, const struct told_walk *t, const struct machine *m,
                 const struct frame *f);
void explain_caller(struct text *out, const struct told_walk *t, const struct machine *m);

/* Append which registers of the caller a read of this step gave. */
void explain_read_registers(struct text *out, const struct told_walk *t, const struct machine *m,
                            const struct told *read);

/* explain_marks.c: why a frame is not exact, and what would help. Returns how many reasons. */
unsigned explain_marks(struct text *out, const struct told_walk *t, const struct replay_sample *s,
                       const struct frame *f, const struct frame_place *place);
/* How and why the stack ended. */
void explain_end(struct text *out, const struct told_walk *t, const struct replay_sample *s);

/* explain_print.c */
void explain_sentence(struct text *out, const char *text, uint64_t value, uint64_t second);
void explain_read(struct text *out, const struct replay_sample *s, const struct told *t);
int explain_print(struct text *out, struct replay_worker *w, const struct replay_sample *s,
                  const struct told_walk *t, const struct explain_options *options,
                  struct error *err);
/* "sample 12: comm node, thread 3/4, cpu 1, time 1.234567890, event cycles" */
void explain_head(struct text *out, const struct replay_sample *s);

#endif
