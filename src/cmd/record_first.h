/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recording first: `ljperf flamegraph -p PID -d 10 -o x.svg` makes a recording, and then reads it.
 * The recording is temporary, unless it is to be saved.
 */
#ifndef CMD_RECORD_FIRST_H
#define CMD_RECORD_FIRST_H

#include "base/error.h"
#include "base/options.h"
#include "base/temporary_folder.h"

#include <stdbool.h>

/* What the command line says of it. The strings are record's values; they are checked there. */
struct record_first {
    const char *pids, *events, *duration, *frequency, *save; /* NULL: not given */
    const char *off_cpu, *alloc;                             /* "": without a value */
    bool all_cpus;
    char **command; /* in argv; NULL: none */
    /* Afterwards. */
    bool done;
    int status;                      /* of the recorder, as waitpid() reports it */
    struct temporary_folder *folder; /* that the recording is in; NULL: it is saved */
    char *path;                      /* of that recording */
};

/* The options, whose target is a struct record_first. */
extern const struct option_row record_first_rows[];
/* The same for report, which has other options -p, -d and -F. */
extern const struct option_row record_first_report_rows[];

/* Whether any of it was given. */
bool record_first_is_wanted(const struct record_first *f);

/* Make the recording: `wall` is record's --wall; `quiet`: only errors are printed. The recorded
 * command's standard output is ours, or standard error if `apart`. Waits for the end; a signal that
 * ends the recording does not end us. Sets *input to the recording's path, which stays valid until
 * record_first_free(). Returns -1 to go on, or the status to exit with, if there is no recording.
 */
int record_first(struct record_first *f, bool wall, bool quiet, bool apart, const char **input);

/* The status to exit with: `status` if it is not 0, else how a recorded command ended. If a signal
 * ended it, this raises the signal. */
int record_first_status(const struct record_first *f, int status);

void record_first_free(struct record_first *f);

#endif
