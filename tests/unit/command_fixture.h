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
#include <sys/prctl.h>
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

#endif
