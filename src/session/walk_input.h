/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one place where all that is known of a process at one time becomes the input of a walk: of a
 * recorded sample, of a sample that the recorder has just read, and of a thread that stands still.
 * Whoever walks says what it has; the order in which the parts are asked is decided here.
 */
#ifndef SESSION_WALK_INPUT_H
#define SESSION_WALK_INPUT_H

#include "session/recorded_memory.h"
#include "session/session.h"
#include "session/snapshots.h"

/* What is known of a process at one time. All of it must stay as long as the walk goes on. */
struct walk_parts {
    const struct thread_context *thread; /* the thread; its process's code and files */
    const struct sample *sample;   /* its time, and a copy of the stack; NULL: there is none */
    const struct vmstack *vmstack; /* came with the sample; NULL: none */
    /* The memory of a process that stands still: a core, or a stopped process. It knows more than
     * the files, which have what a core leaves out. NULL: the process runs. */
    const struct memory_layer *stopped;
    const struct memory_log *log;      /* NULL: none */
    struct memory_log_recent *recent;  /* of the log; NULL: none */
    const struct snapshots *snapshots; /* NULL: none */
    /* The memory of a process that runs. It changes, so it is asked for what nothing else has.
     * NULL: nobody looks at the process. */
    const struct memory_layer *live;
};

/* The layers of one walk's memory. */
enum { WALK_LAYERS_MAX = 5 + SNAPSHOT_LAYERS };
struct walk_memory {
    struct memory_layer layers[WALK_LAYERS_MAX];
    struct memory_log_view view;
    struct snapshot_layers snapshots;
};

/* Returns the process's memory behind the stack copy. `ret` must stay as long as it is used. */
struct memory walk_memory(const struct walk_parts *parts, struct walk_memory *ret);

/* Make the input of a walk. Set `ret->registers` before. The caller adds the walker, a trace, and
 * notes of what is read (memory.reads), if it wants them. `memory` must stay until the walk has
 * ended. */
void walk_input(const struct walk_parts *parts, unsigned max_frames, struct walk_memory *memory,
                struct unwind_input *ret);

#endif
