/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs a fuzz target on many random inputs, fast: without the instrumentation that leads a fuzzer
 * to new paths, which takes most of its time. Usage: build/storm/fuzz_v8 SECONDS [SEED [INPUTS
 * [FIRST]]]: ends after SECONDS, or that many inputs; the first has the number FIRST (0). Prints
 * the number of inputs. When the target aborts, prints first the number and SEED of the input.
 */
#include "base/hash.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak)); /* not all have it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 };

/* The message about the current input, for the signal handler. */
static char said[64];
static volatile sig_atomic_t said_size;

static void say(int signal)
{
    (void)!write(STDERR_FILENO, said, (size_t)said_size);
    _Exit(128 + signal);
}

static size_t make_input(uint64_t seed, uint64_t nr, uint8_t *to)
{
    uint64_t h = hash_combine(seed, nr);
    size_t size = 4 + h % (INPUT_MAX - 4);
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(hash_combine(h, i) >> 24);
    return size;
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 10;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL), nr = 0;
    uint64_t most = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    const uint64_t first = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    uint8_t input[INPUT_MAX];
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    signal(SIGABRT, say);
    time_t end = time(NULL) + seconds;
    for (; time(NULL) < end && nr < most; nr++) {
        said_size = snprintf(said, sizeof(said), "storm: input %" PRIu64 " of seed %" PRIu64 "\n",
                             first + nr, seed);
        (void)LLVMFuzzerTestOneInput(input, make_input(seed, first + nr, input));
    }
    printf("%" PRIu64 " inputs of seed %" PRIu64 "\n", nr, seed);
    return 0;
}
