/* SPDX-License-Identifier: GPL-2.0-only */
/* See record_first.h. The recorder is a process of its own: it gives up its privileges. */
#include "cmd/record_first.h"
#include "cmd/cmd.h"
#include "cmd/words.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- options ------------------------------------------------------------------------------- */

static int take_off_cpu(void *target, const struct option_value *v, struct error *err)
{
    (void)err;
    ((struct record_first *)target)->off_cpu = v->text ? v->text : "";
    return 0;
}

static int take_alloc(void *target, const struct option_value *v, struct error *err)
{
    (void)err;
    ((struct record_first *)target)->alloc = v->text ? v->text : "";
    return 0;
}

#define COMMON_ROWS                                                                           \
    {ROW_FLAG('a', "all-cpus", struct record_first, all_cpus, "Record everything first.")},   \
        {ROW_STRING('e', NULL, "LIST", struct record_first, events, "Record these events.")}, \
        {ROW_CALL(0, "off-cpu", "US", take_off_cpu, "Also record what threads wait for."),    \
         .place = VALUE_ATTACHED},                                                            \
        {ROW_CALL(0, "alloc", "BYTES", take_alloc, "Also record what allocates memory."),     \
         .place = VALUE_ATTACHED},                                                            \
    {                                                                                         \
        ROW_STRING(0, "save", "FILE", struct record_first, save,                              \
                   "Keep the recording as FILE, for other commands.")                         \
    }

const struct option_row record_first_rows[] = {
    {ROW_STRING('p', NULL, "LIST", struct record_first, pids, "Record these processes first.")},
    {ROW_STRING('d', "duration", "SECONDS", struct record_first, duration,
                "Record for this time (until Ctrl-C, or the end of what is recorded).")},
    {ROW_STRING('F', "freq", "HZ", struct record_first, frequency,
                "Take this number of samples a second (4000).")},
    COMMON_ROWS,
    {0},
};

const struct option_row record_first_report_rows[] = {
    {ROW_STRING(0, "duration", "SECONDS", struct record_first, duration,
                "Record for this time (until Ctrl-C, or the end of what is recorded). -d, too, if "
                "its value is a number.")},
    {ROW_STRING(0, "freq", "HZ", struct record_first, frequency,
                "Take this number of samples a second (4000).")},
    COMMON_ROWS,
    {0},
};

bool record_first_is_wanted(const struct record_first *f)
{
    return f->pids || f->events || f->duration || f->frequency || f->save || f->off_cpu ||
           f->alloc || f->all_cpus || f->command;
}

/* ---- the recorder -------------------------------------------------------------------------- */

/* Words that are made here. */
struct made_words {
    char off_cpu[32], alloc[32];
};

/* Make "--NAME" or "--NAME=VALUE". */
static void option_word(char to[32], const char *name, const char *value)
{
    snprintf(to, 32, "--%s%s%.16s", name, value && *value ? "=" : "", value ? value : "");
}

/* The command line of the recorder. `made` must live as long as it. */
static void make_words(const struct record_first *f, bool wall, const char *output,
                       struct words *ret, struct made_words *made)
{
    words_add(ret, "record");
    words_option(ret, "-o", output);
    words_option(ret, "-p", f->pids);
    words_option(ret, "-e", f->events);
    words_option(ret, "-d", f->duration);
    words_option(ret, "-F", f->frequency);
    words_flag(ret, "-a", f->all_cpus);
    option_word(made->off_cpu, wall ? "wall" : "off-cpu", f->off_cpu);
    words_flag(ret, made->off_cpu, wall || f->off_cpu);
    option_word(made->alloc, "alloc", f->alloc);
    words_flag(ret, made->alloc, f->alloc != NULL);
    words_flag(ret, "--", f->command);
    words_list(ret, f->command);
    words_add(ret, NULL);
}

/* Run the recorder in a process of its own, and wait. What is to end us ends the recording. Returns
 * -1 with errno set if that fails. */
static int run_recorder(const struct record_first *f, const struct words *words, bool quiet,
                        bool apart, int *status)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    enum { NR = sizeof(ends) / sizeof(*ends) };
    sigset_t set, old;
    sigemptyset(&set);
    for (size_t i = 0; i < NR; i++)
        sigaddset(&set, ends[i]);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody else would end it */
        if (apart)
            dup2(STDERR_FILENO, STDOUT_FILENO);
        exit(record_for_command((int)words->all.nr - 1, words->all.at, f->save != NULL, quiet));
    }
    const int why = errno;
    pid_t ended = pid < 0 ? -1 : 0;
    while (!ended) {
        int sig = 0;
        ended = waitpid(pid, status, WNOHANG);
        if (!ended && sigwait(&set, &sig) == 0 && sig != SIGCHLD)
            kill(pid, sig);
    }
    const struct timespec now = {0};
    while (sigtimedwait(&set, NULL, &now) > 0) /* it has ended the recording, not us */
        ;
    sigprocmask(SIG_SETMASK, &old, NULL);
    errno = why;
    return ended < 0 ? -1 : 0;
}

/* ---- the recording ------------------------------------------------------------------------- */

static int fail(const char *what)
{
    fprintf(stderr, "ljperf: %s: %s\n", what, strerror(errno));
    return EXIT_BAD_INPUT;
}

/* Choose where the recording is made. Returns -1 with errno set if that fails. */
static int choose_path(struct record_first *f)
{
    if (f->save) {
        f->path = strdup(f->save);
        return f->path ? 0 : -1;
    }
    f->folder = temporary_folder_make();
    if (!f->folder)
        return -1;
    if (asprintf(&f->path, "%s/perf.data", temporary_folder_path(f->folder)) < 0)
        f->path = NULL;
    return f->path ? 0 : -1;
}

/* What tells a file from its successor; zeros: there is none. */
struct file_identity {
    ino_t inode;
    struct timespec changed;
    off_t size;
};

static struct file_identity identity_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return (struct file_identity){0};
    return (struct file_identity){st.st_ino, st.st_mtim, st.st_size};
}

static bool is_other_file(const struct file_identity *a, const struct file_identity *b)
{
    return a->inode != b->inode || a->changed.tv_sec != b->changed.tv_sec ||
           a->changed.tv_nsec != b->changed.tv_nsec;
}

int record_first(struct record_first *f, bool wall, bool quiet, bool apart, const char **input)
{
    struct words words = {0};
    struct made_words made;
    if (choose_path(f) < 0)
        return fail("a temporary recording cannot be made (TMPDIR may name another place)");
    const struct file_identity before = identity_of(f->path);
    make_words(f, wall, f->path, &words, &made);
    int failed = words.failed || run_recorder(f, &words, quiet, apart, &f->status) < 0;
    words_free(&words);
    if (failed)
        return fail("the recorder cannot be started");
    const struct file_identity after = identity_of(f->path);
    if (!after.size || !is_other_file(&before, &after)) { /* the recorder has said why */
        int status = end_like(f->status, 0);
        return status ? status : EXIT_BAD_INPUT;
    }
    *input = f->path;
    f->done = true;
    return -1;
}

int record_first_status(const struct record_first *f, int status)
{
    if (status || !f->done)
        return status;
    /* Ctrl-C is how a recording of what runs is ended. */
    bool told = !f->command && WIFSIGNALED(f->status) && WTERMSIG(f->status) == SIGINT;
    return told ? 0 : end_like(f->status, 0);
}

void record_first_free(struct record_first *f)
{
    temporary_folder_free(f->folder);
    free(f->path);
    f->folder = NULL;
    f->path = NULL;
}
