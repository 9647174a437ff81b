/* SPDX-License-Identifier: GPL-2.0-only */
/* What the commands that replay a recording share: options, messages, the summary. */
#ifndef CMD_COMMON_H
#define CMD_COMMON_H

#include "base/error.h"
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "cmd/record_first.h"
#include "cmd/terminal.h"
#include "cmd/unpack.h"
#include "base/text.h"
#include "replay/replay.h"
#include "stacks/profile.h"
#include "stacks/stacks.h"

#include <stdbool.h>
#include <stdio.h>

struct common {
    struct replay_options replay;
    name_list jitdumps, snapshots;
    char *weight; /* owns the name in `replay` */
    struct record_first first;
    struct unpacked *unpacked; /* the recording, if it was packed */
    const char *named;         /* the recording as the user named it, if that is not what is read */
    bool verbose, quiet;
    bool silent; /* nothing is said of a run */
    struct terminal_options text;
    struct terminal *terminal; /* NULL: standard output is as it was at the start */
    bool progress_shown;
    int progress_percent;
};

void common_init(struct common *c);
void common_free(struct common *c);
/* From now on, what is printed on standard output is shown as text is (terminal.h). For commands
 * that print text, when they are about to read. The command ends by common_end(). */
void common_page(struct common *c);
/* The same as common_free() at the end of a command that prints text, or that may record first.
 * Returns the status to exit with: `status` if it is not 0, else as the recorded command has ended.
 */
int common_end(struct common *c, int status);
/* Print "ljperf NAME: text" on stderr; returns `status`. */
int command_error(const char *name, const struct error *err, int status);

/* The options that all commands that read a recording take; they store in a struct common, which is
 * target 1 of a command's sections. */
extern const struct option_row common_rows[];
#define COMMON_SECTION                                              \
    {                                                               \
        .title = "Common options", .rows = common_rows, .target = 1 \
    }

/* The argument of commands that read a recording: the same as -i. For an option_set's members
 * `arguments` and so on. */
#define COMMON_ARGUMENT                                                                \
    .arguments = ARGUMENTS_TAKEN, .argument = common_take_input, .argument_target = 1, \
    .argument_name = "FILE"
int common_take_input(void *target, char *text, struct error *err);

/* The recordings that a picture is made of, and its file. */
struct common_picture {
    const char *output; /* NULL: standard output */
    const char *base;   /* only with --diff */
    char *argument;     /* a recording: the one to show, with --diff the new one */
};
/* Take a command's argument. */
int common_picture_take(struct common_picture *p, char *text, struct error *err);
/* To be called after parsing. Check that --diff has both recordings. Make the argument the input,
 * and the file `name` the output instead of a terminal. */
int common_picture_complete(struct common *c, struct common_picture *p, const char *name,
                            struct error *err);

/* The options of commands that may record first, and the command behind --. */
#define RECORD_FIRST_SECTION(rows_)                                                          \
    {                                                                                        \
        .title = "To record first, and then read that recording", .rows = rows_, .target = 2 \
    }

/* Take the process or core that a command is about, as an option (a process id) or an argument (a
 * number is a process id, all else is the path of a core). `target` begins with a const char *, in
 * which the text is stored. */
int common_take_pid(void *target, const struct option_value *v, struct error *err);
int common_take_process(void *target, char *text, struct error *err);

/* Parse a percentage, with or without a percent sign. Returns false if it is none from 0 to 100. */
bool common_percent(const char *text, double *ret);

/* Take one as an option's value. */
int common_take_percent(double *ret, const struct option_value *v, struct error *err);

/* Parse a command line of the command's own options, stored in `own`, and common ones. Prints
 * --help and errors. Returns -1 to go on, or the status to exit with. */
int common_parse(struct common *c, const struct option_set *set, void *own, int argc, char **argv);

/* Make the recording first, if options or a command say so (record_first.h), and read that one.
 * `output`: where the command writes; NULL: to standard output. Returns -1 to go on, or the status
 * to exit with. */
int common_record_first(struct common *c, const struct option_set *set, const char *output);

/* If the recording at c->replay.input is packed, unpack it, and read that. `c->unpacked` must be
 * NULL; it is freed with unpacked_free(). common_parse() does this for -i. Returns -1 if it cannot
 * be unpacked. */
int common_unpack(struct common *c, struct error *err);

/* After a run: print losses, warnings and the summary of how stacks ended on stderr. */
void common_summary(const struct common *c, struct replay *r);

/* Run the whole recording into stacks, print the summary and call replay_let_go(). NULL on
 * failure. */
struct stacks *common_collect(const struct common *c, struct replay *r,
                              const struct stacks_options *kept, struct error *err);
/* Returns the name of the event whose stacks are written: the first event that was sampled. NULL:
 * none was sampled, or it has no name. */
const char *common_event_name(const struct replay *r, const struct stacks *s);
/* Say on stderr that of several events only the one named `name` was written, and how many samples
 * of the others were left out. */
void common_say_one_event(const char *name, uint64_t others);
/* Like common_say_one_event(), for output of the first event's stacks. Says nothing when quiet, or
 * when there is only one event. */
void common_say_first_event(const struct common *c, const struct replay *r, const struct stacks *s);
struct json;
/* Something that is printed as text, or as one JSON document. */
struct common_document {
    void (*put_text)(const void *of, struct text *out);
    void (*put_json)(const void *of, struct json *j);
};
/* Print it to standard output. A reader that has left is no error. */
int common_print(const struct common_document *d, const void *of, bool json, struct error *err);
/* Run the whole recording into a profile and print the summary. `blocks`: as profile_create(). NULL
 * on failure. */
struct profile *common_profile(const struct common *c, struct replay *r, bool blocks,
                               struct error *err);
/* Finish the output to `out`, which is closed unless it is standard output. `path`: the output's
 * name for errors; NULL: standard output. Returns -1 when not all output could be written. A pipe
 * whose reader has gone is no error. */
int common_end_output(FILE *out, const char *path, struct error *err);
/* Append the recording's header as perfdata_print_header() prints it. */
int common_put_header(const struct replay *r, struct text *out, struct error *err);
/* Write `out` to the file at `path`; NULL: standard output. */
int common_write(const char *path, struct text *out, struct error *err);

#endif
