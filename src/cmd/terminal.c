/* SPDX-License-Identifier: GPL-2.0-only */
/* See terminal.h. */
#include "cmd/terminal.h"
#include "base/private_file.h"
#include "base/threads.h"
#include "cmd/cmd.h"
#include "output/color.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

/* What ends the program while a pager shows its text. */
static const int ENDS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { NR_ENDS = sizeof(ENDS) / sizeof(*ENDS) };

struct terminal {
    const char *pager; /* a command; NULL: none */
    bool colors;
    pthread_t thread;
    int from;      /* what was standard output is written to the other end */
    int out, err;  /* standard output and standard error as they were */
    int to;        /* where the text goes: the pager or `out` */
    pid_t pid;     /* of the pager; 0: none runs */
    int failed;    /* errno of a failed write; 0: none */
    bool catching; /* `before` is to be restored */
    struct sigaction before[NR_ENDS];
};

/* ---- what is wanted ------------------------------------------------------------------------- */

const char *const terminal_colors[] = {"auto", "always", "never", NULL};

int terminal_take_color(enum terminal_color *field, const struct option_value *v, struct error *err)
{
    *field = COLOR_ALWAYS;
    if (!v->text)
        return 0;
    for (unsigned i = 0; terminal_colors[i]; i++)
        if (strcmp(v->text, terminal_colors[i]) == 0) {
            *field = (enum terminal_color)i;
            return 0;
        }
    return option_error(v, err, "expects auto, always or never, not `%.60s'", v->text);
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

static bool wants_colors(const struct terminal_options *o)
{
    if (o->color != COLOR_AUTO)
        return o->color == COLOR_ALWAYS;
    return isatty(STDOUT_FILENO) && !is_dumb() && !colors_are_unwanted();
}

/* Returns the pager's command; NULL: none is wanted, or may be started. */
static const char *choose_pager(const struct terminal_options *o)
{
    const char *own = getenv("LJPERF_PAGER"), *all = getenv("PAGER");
    const char *pager = own ? own : all ? all : "less";
    if (o->no_pager || !isatty(STDOUT_FILENO) || is_dumb() || !has_callers_rights_only())
        return NULL;
    return *pager && strcmp(pager, "cat") != 0 ? pager : NULL;
}

/* ---- the pager ------------------------------------------------------------------------------ */

/* Returns the environment, with less told to show colors, to end by itself when one screen has room
 * for all, and to leave the text there. A user's own settings count. NULL: no memory. */
static char **pager_environment(void)
{
    static char less[] = "LESS=FRX", lv[] = "LV=-c";
    size_t nr = 0;
    while (environ[nr])
        nr++;
    char **ret = calloc(nr + 3, sizeof(*ret));
    if (!ret)
        return NULL;
    memcpy(ret, environ, nr * sizeof(*ret));
    if (!getenv("LESS"))
        ret[nr++] = less;
    if (!getenv("LV"))
        ret[nr++] = lv;
    return ret;
}

/* Start the pager with `in` as its input. Returns 0 if it does not start. The shell reads the
 * user's command, which may have options; the default needs none. */
static pid_t spawn_pager(const struct terminal *t, int in)
{
    char *const by_shell[] = {"sh", "-c", (char *)t->pager, NULL};
    char *const direct[] = {(char *)t->pager, NULL};
    char *const *words = strcmp(t->pager, "less") == 0 ? direct : by_shell;
    char **environment = pager_environment();
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    pid_t pid = 0;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE); /* which ljperf ignores */
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, t->out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, t->err, STDERR_FILENO);
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (environment && posix_spawnp(&pid, words[0], &files, &how, words, environment) != 0)
        pid = 0;
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return pid;
}

/* Whoever ends the program by Ctrl-C still reads what is there: the pager gets the end of the text,
 * and the program ends when the pager does. All that is called is safe in a signal's handler. The
 * pager is the only child that is left. */
static void end_after_pager(int sig)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    signal(sig, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(sig);
}

static void catch_ends(struct terminal *t)
{
    struct sigaction act = {.sa_handler = end_after_pager};
    for (unsigned i = 0; i < NR_ENDS; i++)
        sigaddset(&act.sa_mask, ENDS[i]);
    for (unsigned i = 0; i < NR_ENDS; i++) {
        sigaction(ENDS[i], NULL, &t->before[i]);
        if (t->before[i].sa_handler == SIG_DFL)
            sigaction(ENDS[i], &act, NULL);
    }
    t->catching = true;
}

static void start_pager(struct terminal *t)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    t->pid = spawn_pager(t, ends[0]);
    close(ends[0]);
    if (!t->pid) {
        close(ends[1]);
        return;
    }
    t->to = ends[1];
    catch_ends(t);
}

/* ---- the text's way ------------------------------------------------------------------------- */

/* The text begins. Messages then take the same way, so that they stand where they belong. */
static void begin(struct terminal *t)
{
    static const char clear_progress[] = "\r\033[K";
    if (isatty(t->err) && isatty(t->out)) {
        (void)!write(t->err, clear_progress, sizeof(clear_progress) - 1);
        dup2(STDOUT_FILENO, STDERR_FILENO);
    }
    t->to = t->out;
    if (t->pager)
        start_pager(t);
}

/* Write a piece of the text. Returns false when nobody reads it any more. */
static bool pass(struct terminal *t, struct text *piece)
{
    int failed = piece->failed ? ENOMEM : 0;
    if (!failed && file_write_all(t->to, piece->at, piece->size) < 0)
        failed = errno;
    piece->size = 0;
    t->failed = failed;
    return !failed;
}

static void *pass_text(void *context)
{
    struct terminal *t = context;
    struct coloring colors = {0};
    struct text piece = {0};
    char block[BLOCK];
    ssize_t size;
    while ((size = read(t->from, block, sizeof(block))) > 0 || (size < 0 && errno == EINTR)) {
        if (size < 0)
            continue;
        if (t->to < 0)
            begin(t);
        if (t->colors)
            coloring_put(&colors, block, (size_t)size, &piece);
        else
            text_bytes(&piece, block, (size_t)size);
        if (!pass(t, &piece))
            break;
    }
    coloring_end(&colors, &piece);
    if (piece.size && !t->failed)
        (void)pass(t, &piece);
    text_free(&piece);
    close(t->from); /* the command is told by EPIPE */
    if (t->pid)
        close(t->to);
    return NULL;
}

static void restore_outputs(struct terminal *t)
{
    dup2(t->out, STDOUT_FILENO);
    dup2(t->err, STDERR_FILENO);
}

static void close_outputs(struct terminal *t)
{
    close(t->out);
    close(t->err);
}

/* ---- from outside --------------------------------------------------------------------------- */

/* Put a pipe in the place of standard output. Returns -1 if that fails. */
static int lead(struct terminal *t)
{
    int ends[2];
    t->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    t->err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (t->out >= 0 && t->err >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
        t->from = ends[0];
        fflush(stdout);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[1]);
        if (thread_without_signals(&t->thread, pass_text, t) == 0)
            return 0;
        close(t->from);
        restore_outputs(t);
    }
    close_outputs(t);
    return -1;
}

struct terminal *terminal_open(const struct terminal_options *o)
{
    struct terminal *t = NULL;
    const char *pager = choose_pager(o);
    bool colors = wants_colors(o);
    if (pager || colors)
        t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->pager = pager;
    t->colors = colors;
    t->to = -1;
    if (lead(t) == 0)
        return t;
    free(t);
    return NULL;
}

int terminal_close(struct terminal *t, int status)
{
    if (!t)
        return status;
    fflush(stdout);
    restore_outputs(t);
    pthread_join(t->thread, NULL);
    close_outputs(t);
    while (t->pid && waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    for (unsigned i = 0; t->catching && i < NR_ENDS; i++)
        sigaction(ENDS[i], &t->before[i], NULL);
    if (t->failed && t->failed != EPIPE) {
        fprintf(stderr, "ljperf: standard output cannot be written completely: %s\n",
                strerror(t->failed));
        status = EXIT_BAD_INPUT;
    }
    free(t);
    return status;
}
