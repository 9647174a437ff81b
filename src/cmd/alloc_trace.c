/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf alloc-trace: run a command with a library that records its allocations. */
#include "alloc/trace.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/command_line.h"
#include "cmd/installed_file.h"
#include "output/output.h"
#include "record/output.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_SHOWN = 20 };

struct trace_command {
    const char *output;
    bool quiet;
    char *const *argv; /* the command */
    char library[INSTALLED_PATH_MAX];
    char path[INSTALLED_PATH_MAX]; /* of the output, absolute */
    uint64_t run;
};

static const struct option_row rows[] = {
    {ROW_STRING(
        'o', "output", "FILE", struct trace_command, output,
        "Write to FILE (alloc.trace). An older file is renamed to FILE.old. Other processes "
        "of the command write to FILE.PID.")},
    {ROW_FLAG('q', "quiet", struct trace_command, quiet, "Print only errors.")},
    {ROW_HELP},
    {0},
};

const struct option_set alloc_trace_command_line = {
    .name = "ljperf alloc-trace",
    .usage = "[-o FILE] [--] COMMAND [ARGS]",
    .about =
        "Runs a command, and records each of its calls of malloc, calloc, realloc, free and\n"
        "their like, for ljperf alloc-replay. A call takes some 20 ns more (with several\n"
        "threads some 40), and 5 to 8 bytes of the file. Programs that are linked statically,\n"
        "or have an allocator of their own, cannot be traced: ljperf says so.\n",
    .sections = {{.rows = rows}},
    .arguments = ARGUMENTS_COMMAND,
    .argument_name = "COMMAND",
};

/* ---- before -------------------------------------------------------------------------------- */

/* Make the path of the output absolute: the command may change its folder. */
static int complete_path(struct trace_command *t, struct error *err)
{
    char folder[INSTALLED_PATH_MAX] = "";
    if (*t->output != '/' && !getcwd(folder, sizeof(folder)))
        return error_system(err, errno, "the working directory");
    const int n = snprintf(t->path, sizeof(t->path), "%s%s%s", folder, *t->output == '/' ? "" : "/",
                           t->output);
    /* (The library's path has as many bytes, and appends process ids.) */
    return n < (int)sizeof(t->path) ? 0 : error_system(err, ENAMETOOLONG, "%.100s", t->output);
}

/* Make room for the file, which the library creates. */
static int clear_path(const struct trace_command *t, struct error *err)
{
    struct stat s;
    if (output_keep_old(t->path, err))
        return -1;
    if (lstat(t->path, &s) == 0 && !S_ISREG(s.st_mode))
        return error_set(err, ERROR_UNSUPPORTED, "%.120s is no regular file", t->output);
    const int fd = open(t->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_system(err, errno, "%.120s cannot be written", t->output);
    close(fd);
    return unlink(t->path) ? error_system(err, errno, "%.120s", t->output) : 0;
}

static int prepare(struct trace_command *t, struct error *err)
{
    if (getrandom(&t->run, sizeof(t->run), 0) != sizeof(t->run))
        return error_system(err, errno, "getrandom");
    if (installed_file("ljperf-alloc.so", t->library, err) || complete_path(t, err))
        return -1;
    if (strpbrk(t->library, " :"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.120s: the dynamic linker takes no path with a blank or colon",
                         t->library);
    return clear_path(t, err);
}

/* ---- the command --------------------------------------------------------------------------- */

static int set_environment(const struct trace_command *t)
{
    struct text libraries = {0};
    char run[32];
    const char *others = getenv("LD_PRELOAD");
    snprintf(run, sizeof(run), "%" PRIx64, t->run);
    text_printf(&libraries, "%s%s%s", t->library, others ? ":" : "", others ? others : "");
    text_char(&libraries, 0);
    return libraries.failed || setenv("LD_PRELOAD", libraries.at, 1) ||
           setenv("LJPERF_ALLOC_TRACE", t->path, 1) || setenv("LJPERF_ALLOC_RUN", run, 1);
}

static void run_command(const struct trace_command *t, int why)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL); /* main() ignores it */
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!set_environment(t))
        execvp(t->argv[0], t->argv);
    const int failed = errno;
    if (write(why, &failed, sizeof(failed)) < 0)
        _exit(EXIT_FAILURE);
    _exit(EXIT_FAILURE);
}

/* Start the command. *why: 0, or the errno of exec. */
static pid_t start_command(const struct trace_command *t, int *why, struct error *err)
{
    int ends[2];
    *why = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, errno, "no pipe can be made");
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        run_command(t, ends[1]);
    const int failed = errno;
    close(ends[1]);
    if (pid > 0 && read(ends[0], why, sizeof(*why)) != sizeof(*why))
        *why = 0;
    close(ends[0]);
    if (pid < 0)
        return error_system(err, failed, "no process can be started");
    return pid;
}

/* Wait for the command, and hand signals on to it. A terminal sends its own to both. */
static int wait_for(pid_t pid, const sigset_t *signals)
{
    int status = 0;
    siginfo_t info;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (sigwaitinfo(signals, &info) < 0 || info.si_signo == SIGCHLD)
            continue;
        if (info.si_code != SI_KERNEL)
            kill(pid, info.si_signo);
    }
    return status;
}

/* ---- afterwards ---------------------------------------------------------------------------- */

/* The trace of one process, counted. */
struct process {
    char *path;
    struct alloc_trace_info info;
    struct alloc_counts counts;
    struct error bad; /* it is malformed */
};
typedef VEC(struct process) process_vec;

static void put_process(const struct process *p, bool is_command, struct text *out)
{
    const struct alloc_trace_info *i = &p->info;
    if (p->bad.kind) {
        text_printf(out, "ljperf alloc-trace: %s\n", p->bad.text);
        return;
    }
    text_string(out, "[ ljperf alloc-trace: wrote ");
    text_amount(out, i->size, UNIT_BYTES);
    text_char(out, ' ');
    text_escaped_bytes(out, p->path, strlen(p->path));
    text_string(out, ": ");
    text_escaped_bytes(out, i->program, strlen(i->program));
    text_printf(out, ", %" PRIu64 " calls of %" PRIu32 " threads, ", alloc_counts_calls(&p->counts),
                i->threads);
    text_amount(out, p->counts.peak, UNIT_BYTES);
    text_string(out, " requested at most ]\n");
    if (i->flags & TRACE_OWN_NEW)
        text_string(out, "ljperf alloc-trace: operator new is the allocator's own, and its blocks "
                         "are missing: run the command with glibc's malloc\n");
    if (is_command && !alloc_counts_calls(&p->counts))
        text_string(out, "ljperf alloc-trace: no call was seen: it makes none, or has an allocator "
                         "of its own\n");
}

/* What was lost is said of each process, also of those that are not shown. */
static void put_losses(const struct process *p, struct text *out)
{
    const struct alloc_trace_info *i = &p->info;
    if (!i->lost_full && !i->lost_within && !i->children_failed)
        return;
    text_string(out, "ljperf alloc-trace: ");
    text_escaped_bytes(out, p->path, strlen(p->path));
    text_printf(out,
                ": LOST: %" PRIu64 " calls for want of room (%s), %" PRIu64
                " of signal handlers, %" PRIu32 " forked processes\n",
                i->lost_full, strerror((int)i->full_errno), i->lost_within, i->children_failed);
}

/* Read a file, if it is a trace of this run. */
static int add_file(const struct trace_command *t, const char *path, process_vec *ret,
                    struct error *err)
{
    struct alloc_trace *trace = NULL;
    struct process p = {0};
    int failed = 0;
    if (alloc_trace_open(path, &trace, NULL))
        return 0; /* another file with such a name */
    if (alloc_trace_info(trace)->run == t->run) {
        (void)alloc_trace_count(trace, &p.bad);
        p.info = *alloc_trace_info(trace);
        p.counts = *alloc_trace_counts(trace);
        p.path = strdup(path);
        if (!p.path || !vec_push(ret, p)) {
            free(p.path);
            failed = error_no_memory(err);
        }
    }
    alloc_trace_close(trace);
    return failed;
}

static int add_files(const struct trace_command *t, process_vec *ret, struct error *err)
{
    struct text pattern = {0};
    glob_t others = {0};
    int failed = add_file(t, t->path, ret, err);
    for (const char *c = t->path; *c; c++) {
        if (strchr("*?[\\", *c))
            text_char(&pattern, '\\');
        text_char(&pattern, *c);
    }
    text_bytes(&pattern, ".*", sizeof(".*"));
    if (!failed && !pattern.failed && glob(pattern.at, 0, NULL, &others) == 0) {
        for (size_t i = 0; i < others.gl_pathc && !failed; i++)
            failed = add_file(t, others.gl_pathv[i], ret, err);
    }
    globfree(&others);
    text_free(&pattern);
    return failed;
}

/* The most calls first. */
static int compare_processes(const void *a, const void *b)
{
    const uint64_t x = alloc_counts_calls(&((const struct process *)a)->counts);
    const uint64_t y = alloc_counts_calls(&((const struct process *)b)->counts);
    return (x < y) - (x > y);
}

/* Tell the traces of this run. Returns -1 if there is none, or one is malformed. */
static int report(const struct trace_command *t, struct text *out, struct error *err)
{
    process_vec all = {0};
    int failed = add_files(t, &all, err);
    if (!failed && !all.nr)
        failed = error_set(err, ERROR_NOT_FOUND,
                           "%.80s has written no trace: it is linked statically, runs with another "
                           "user's rights, or could not write there",
                           t->argv[0]);
    if (all.nr)
        qsort(all.at, all.nr, sizeof(*all.at), compare_processes);
    for (size_t i = 0; i < all.nr; i++) {
        if (i < PROCESSES_SHOWN)
            put_process(&all.at[i], strcmp(all.at[i].path, t->path) == 0, out);
        put_losses(&all.at[i], out);
        if (all.at[i].bad.kind && !failed)
            failed = error_set(err, ERROR_FORMAT, "not all traces can be read");
        free(all.at[i].path);
    }
    if (all.nr > PROCESSES_SHOWN)
        text_printf(out, "[ ljperf alloc-trace: and %zu traces with fewer calls ]\n",
                    all.nr - PROCESSES_SHOWN);
    vec_free(&all);
    return failed;
}

static int end(const struct trace_command *t, int status)
{
    struct text out = {0};
    struct error err = {0};
    const int failed = report(t, &out, &err);
    if (out.size && (!t->quiet || failed))
        fwrite(out.at, 1, out.size, stderr);
    text_free(&out);
    if (failed)
        fprintf(stderr, "ljperf alloc-trace: %s\n", err.text);
    const int as_command = end_like(status, 0);
    return as_command ? as_command : failed ? EXIT_BAD_INPUT : 0;
}

static int run(struct trace_command *t)
{
    struct error err = {0};
    sigset_t signals;
    int why;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGQUIT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    const pid_t pid = prepare(t, &err) ? -1 : start_command(t, &why, &err);
    if (pid < 0) {
        fprintf(stderr, "ljperf alloc-trace: %s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    const int status = wait_for(pid, &signals);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    if (!why)
        return end(t, status);
    fprintf(stderr, "ljperf alloc-trace: %s: %s\n", t->argv[0], strerror(why));
    return why == ENOENT ? 127 : 126;
}

int cmd_alloc_trace(int argc, char **argv)
{
    struct trace_command t = {.output = "alloc.trace"};
    struct options_parsed parsed;
    struct error err = {0};
    int status =
        command_line_parse(&alloc_trace_command_line, (void *const[]){&t}, argc, argv, &parsed);
    if (status >= 0)
        return status;
    if (parsed.first >= argc) {
        error_set(&err, ERROR_FORMAT, "no command is given");
        return command_line_error(&alloc_trace_command_line, NULL, &err);
    }
    t.argv = argv + parsed.first;
    return run(&t);
}
