/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs that tests start. */
#ifndef COMMAND_FIXTURE_H
#define COMMAND_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Starts a command without its output. It ends with the test. */
static inline pid_t start(const char *const *command)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execvp(command[0], (char *const *)(uintptr_t)command);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static inline void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Waits until the command itself has worked for some 50 ms of processor time, however busy the
 * machine is. Returns false if it has ended (it is not there). The test fails if the command does
 * not work within 20 s. */
static inline bool await_work(pid_t pid)
{
    enum { TICKS = 5, TRIES = 2000 }; /* of 10 ms */
    char path[32], line[512], ours[32] = "", theirs[32] = "";
    unsigned long user, system;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    prctl(PR_GET_NAME, ours);
    for (int i = 0; i < TRIES; i++) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return false;
        FILE *f = fopen(path, "re");
        const char *rest = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        if (f)
            fclose(f);
        if (rest && sscanf(line, "%*d (%31[^)]", theirs) == 1 && strcmp(ours, theirs) != 0 &&
            sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) ==
                2 &&
            user + system >= TICKS)
            return true;
        sleep_ms(10);
    }
    fail_msg("process %d does not work", pid);
    return false;
}

#endif
