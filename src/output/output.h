/* SPDX-License-Identifier: GPL-2.0-only */
/* The writers of results, one file for each format. */
#ifndef OUTPUT_OUTPUT_H
#define OUTPUT_OUTPUT_H

#include "base/error.h"
#include "base/text.h"
#include "replay/replay.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Write all of `t` to a file descriptor and empty it. EPIPE (the user left a pager) is no error: it
 * sets *closed, and the caller ends quietly. */
int text_write(struct text *t, int fd, bool *closed, struct error *err);

/* Append a name as the output grammar requires it. What text_utf8_size() refuses becomes %XX, and
 * so does an opening parenthesis at the start, because importers drop such lines. */
void text_symbol(struct text *t, const char *symbol);
/* The same for a name that may begin with a parenthesis, such as a command. */
void text_name(struct text *t, const char *name);
/* The same for a module, where blanks and parentheses become %XX, too. The module stands in
 * parentheses, and importers look for the last parentheses without a blank inside. */
void text_module(struct text *t, const char *module);

/* Returns whether the user's `name` means this function: the whole symbol, or of a managed function
 * NAME alone for "NAME FILE:LINE". */
bool symbol_is_named(const char *symbol, bool managed, const char *name);
/* Append a managed function's symbol: like text_symbol(), but all parentheses become %XX. */
void text_managed_symbol(struct text *t, const char *symbol);
/* Append an amount with a unit that people read: "12.345 ms", "1.500 MB" (of 1024 bytes each step),
 * "12345". */
void text_amount(struct text *t, uint64_t amount, enum weight_unit unit);

/* Append one word of a note, escaped like a module. */
void text_word(struct text *t, const char *word);

/* ---- script.c: text like that of perf script ------------------------------------------------ */

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
    FIELD_UNWIND = 1 << 18,     /* ljperf's own: how the stack ended */
    FIELD_CALLNAME = 1 << 19,   /* ljperf's own: the caller's name for a managed function */
    FIELD_SAMPLE = 1 << 20,     /* ljperf's own: the sample's number, for ljperf explain */
    FIELD_KNOWN_LINE = 1 << 21, /* with SRCLINE: nothing where no line is known */
    FIELD_INSN = 1 << 22,
    FIELD_INSNLEN = 1 << 23,
    FIELD_BRSTACK = 1 << 24,
    FIELD_CGROUP = 1 << 25,
    FIELD_CALLCHAIN_DEFAULTS = FIELD_IP | FIELD_SYM | FIELD_SYMOFF | FIELD_DSO,
};

/* Returns the field of this perf name ("sym"); 0: no such field. */
uint32_t script_field(const char *name);
/* Returns all names separated by commas, for messages. */
const char *script_field_names(void);

struct script_options {
    uint32_t fields;      /* 0: perf's defaults for each event */
    uint32_t add, remove; /* -F +x, -x */
    bool nanoseconds;
    /* Times since the first sample, or since the one before. The replay must have one thread. */
    bool relative, deltas;
    bool no_callchain;
    bool show_inlined;
    name_list symbols; /* print only samples in these functions; empty: all */
    int fd;
};

struct script;
int script_create(const struct script_options *options, struct replay *r, struct script **ret,
                  struct error *err);
void script_free(struct script *s);
struct replay_sink script_sink(struct script *s);

/* Parts of a sample's text, for other code that prints stacks: the line of one frame (before it,
 * those of functions inlined in it), and the line that says how the stack ended. */
int script_put_frame(struct text *t, struct replay_worker *w, const struct replay_sample *s,
                     const struct frame *f, uint32_t fields, bool inlined, struct error *err);
void script_put_end(struct text *t, const struct replay_sample *s);
/* Returns the word for how a stack ended, as it stands in that line. */
const char *script_end_word(enum stack_end end);

/* ---- fold.c: one line for each stack --------------------------------------------------------- */

struct fold_options {
    bool tidy;      /* shorten names as stackcollapse-perf.pl does */
    bool pid, tid;  /* shown in the process's name */
    bool kernel;    /* _[k] after kernel functions */
    bool inlined;   /* _[i] after inlined functions */
    bool jit;       /* _[j] after generated code */
    bool addresses; /* [module <address>] for unknown functions */
    bool samples;   /* count samples, not periods */
    int event;      /* index; -1: the first event that was sampled */
};
int fold_print(const struct stacks *s, const struct fold_options *options, FILE *out,
               struct error *err);

/* Append what was lost while recording: "3 samples and 2 records of mappings and processes".
 * Returns false, and appends nothing, if nothing was. */
struct perfdata_loss;
bool loss_put(struct text *t, const struct perfdata_loss *l);
/* Append how to record without these losses: with a larger buffer than the recording's command line
 * names, or less often. */
struct perfdata;
void loss_put_cure(struct text *t, const struct perfdata *pd);

#endif
