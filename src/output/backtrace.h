/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints the stacks of a process that stands still: as text in the format of ljperf script, or as
 * one JSON document (docs/bt.md).
 */
#ifndef OUTPUT_BACKTRACE_H
#define OUTPUT_BACKTRACE_H

#include "base/error.h"
#include "base/text.h"
#include "live/stopped_process.h"
#include "output/json.h"
#include "replay/replay.h"
#include "unwind/variable.h"

struct backtrace_options {
    uint32_t fields; /* FIELD_* of output.h, for text */
    bool inlines;    /* list functions inlined in native frames */
    bool registers;  /* of all threads; without: only of one that crashed */
    bool variables;
    bool json;
    struct variables_wanted wanted;
};
/* Returns options for text without variables. */
struct backtrace_options backtrace_options_default(void);

/* What is printed of one thread. */
struct backtrace_thread {
    const struct core_thread *thread;
    const char *name; /* "": not known */
    bool is_crashed;  /* the signal has hit this one */
    const struct replay_sample *stack;
    const struct memory *memory; /* of the walk */
    const struct codemap *code;
};

struct backtrace {
    const struct backtrace_options *options;
    const struct stopped_process *process;
    struct replay_worker *worker;
    struct text out;   /* without `json` */
    struct json *json; /* with it */
    struct variables variables;
    struct variable_places places; /* for replay_stopped_walk(), with `variables` */
};

/* Begin the output: the process and its signal. */
void backtrace_begin(struct backtrace *b);
/* Add a thread. Returns -1 when memory is out. */
int backtrace_thread(struct backtrace *b, const struct backtrace_thread *t, struct error *err);
void backtrace_end(struct backtrace *b);
/* Returns the places that a walk must note; NULL: no variables are wanted. */
struct variable_places *backtrace_places(struct backtrace *b);
/* Returns whether a signal of that number ends a process with a core: only a program's fault, or
 * abort(), does that. */
bool backtrace_is_crash(uint32_t signal);

#endif
