/* SPDX-License-Identifier: GPL-2.0-only */
/* Writers of results, one file a format. */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include "base/error.h"
#include "base/text.h"
#include "replay/replay.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Write all of `t` to a file descriptor and empty it. EPIPE (a pager that was left) is no error
 * here: *closed is set and the caller ends quietly. */
int text_write(struct text *t, int fd, bool *closed, struct error *err);

/* A name as the output grammar has it: control characters, and an opening parenthesis at the
 * start (importers drop such lines), as %XX. */
void text_symbol(struct text *t, const char *symbol);
/* The same for what may begin with a parenthesis, a command. */
void text_name(struct text *t, const char *name);
/* The same for a module, in which blanks and parentheses are written so too: the module stands in
 * parentheses, and importers look for the last of them without a blank in it. */
void text_module(struct text *t, const char *module);

/* A managed function's symbol: as text_symbol, and without any parenthesis. */
void text_managed_symbol(struct text *t, const char *symbol);
/* One word of a note: as a module. */
void text_word(struct text *t, const char *word);

/* ---- script.c: perf script's text ----------------------------------------------------------- */

enum script_field {
    FIELD_COMM = 1 << 0,
    FIELD_TID = 1 << 1,
    FIELD_PID = 1 << 2,
    FIELD_TIME = 1 << 3,
    FIELD_CPU = 1 << 4,
    FIELD_EVENT = 1 << 5,
    FIELD_TRACE = 1 << 6,
    FIELD_IP = 1 << 7,
    FIELD_SYM = 1 << 8,
    FIELD_DSO = 1 << 9,
    FIELD_ADDR = 1 << 10,
    FIELD_SYMOFF = 1 << 11,
    FIELD_SRCLINE = 1 << 12,
    FIELD_PERIOD = 1 << 13,
    FIELD_WEIGHT = 1 << 14,
    FIELD_PHYS_ADDR = 1 << 15,
    FIELD_MISC = 1 << 16,
    FIELD_UREGS = 1 << 17,
    FIELD_UNWIND = 1 << 18,   /* ours: how the stack ended */
    FIELD_CALLNAME = 1 << 19, /* ours: what the caller calls a managed function */
    FIELD_CALLCHAIN_DEFAULTS = FIELD_IP | FIELD_SYM | FIELD_SYMOFF | FIELD_DSO,
};

/* perf's name of a field ("sym"); 0: no such field. */
uint32_t script_field(const char *name);
/* All names, separated by commas, for messages. */
const char *script_field_names(void);

struct script_options {
    uint32_t fields;      /* 0: perf's defaults, per event */
    uint32_t add, remove; /* -F +x, -x */
    bool nanoseconds;
    bool no_callchain;
    bool show_inlined;
    int fd;
};

struct script;
int script_create(const struct script_options *options, struct replay *r, struct script **ret,
                  struct error *err);
void script_free(struct script *s);
struct replay_sink script_sink(struct script *s);

/* The parts of a sample for others that print stacks: a line for each frame, and the line that says
 * how the stack ended. */
int script_put_frames(struct text *t, struct replay_worker *w, const struct replay_sample *s,
                      uint32_t fields, bool inlined, struct error *err);
void script_put_end(struct text *t, const struct replay_sample *s);
/* The word of that line for how a stack ended. */
const char *script_end_word(enum stack_end end);

/* ---- fold.c: one line a stack ---------------------------------------------------------------- */

struct fold_options {
    bool tidy;      /* shorten names as stackcollapse-perf.pl does */
    bool pid, tid;  /* in the process's name */
    bool kernel;    /* _[k] behind kernel functions */
    bool inlined;   /* _[i] behind inlined functions */
    bool jit;       /* _[j] behind generated code */
    bool addresses; /* [module <address>] for unknown functions */
    bool samples;   /* count samples, not periods */
    int event;      /* index; -1: the first event that was sampled */
};
int fold_print(const struct stacks *s, const struct fold_options *options, FILE *out,
               struct error *err);

#endif
