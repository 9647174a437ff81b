/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures the cost of a Lua frame in recordings of `ljperf record`, replayed by one thread as
 * every command does. Included by the benchmark of each Lua, which says by wrapped functions
 * (--wrap) when its walker works: a step. The cost is the time of the steps divided by the number
 * of Lua frames found.
 *
 *   first   each sample once, just after its bytes were read from the file; with names
 *   warm    the same sample walked again at once, the fastest of RUNS. All data is in the caches,
 *           nothing else is kept from walk to walk. Once the walk alone, once with what it takes
 *           to name the frames (function, line)
 */
#ifndef LUA_FRAMES_H
#define LUA_FRAMES_H

#include "replay/replay.h"
#include "unwind/unwind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

enum { RUNS = 5 };

/* Counters of the only thread. They are global because the wrapped functions cannot get a context
 * of ours. */
static struct {
    uint64_t ticks, steps, lua; /* of the current pass */
    bool nameless;              /* the current pass does not name frames */
} now;
static struct {
    double first, warm, nameless; /* ticks */
    double lua, steps;
} total;
static double overhead; /* ticks between two reads of the clock */

int __real_unwind_batch(struct unwinder *u, const struct unwind_input *inputs,
                        struct unwind_stack *ret, size_t nr, struct error *err);
int __wrap_unwind_batch(struct unwinder *u, const struct unwind_input *inputs,
                        struct unwind_stack *ret, size_t nr, struct error *err);

/* Runs one pass. Returns its ticks without those of the clock reads; less than 0: out of memory. */
static double pass(struct unwinder *u, const struct unwind_input *inputs, struct unwind_stack *ret,
                   size_t nr, bool nameless, struct error *err)
{
    memset(&now, 0, sizeof(now));
    now.nameless = nameless;
    for (size_t i = 0; i < nr; i++)
        ret[i].frames.nr = 0;
    if (__real_unwind_batch(u, inputs, ret, nr, err) < 0)
        return -1;
    double own = (double)now.ticks - (double)now.steps * overhead;
    return own > 0 ? own : 0;
}

/* Returns the ticks of the fastest of RUNS passes; less than 0: out of memory. */
static double fastest(struct unwinder *u, const struct unwind_input *input,
                      struct unwind_stack *ret, bool nameless, struct error *err)
{
    double least = pass(u, input, ret, 1, nameless, err);
    for (int run = 1; run < RUNS && least >= 0; run++) {
        double got = pass(u, input, ret, 1, nameless, err);
        least = got < least ? got : least;
    }
    return least;
}

int __wrap_unwind_batch(struct unwinder *u, const struct unwind_input *inputs,
                        struct unwind_stack *ret, size_t nr, struct error *err)
{
    double first = pass(u, inputs, ret, nr, false, err);
    total.first += first;
    total.lua += (double)now.lua;
    total.steps += (double)now.steps;
    for (size_t i = 0; i < nr && first >= 0; i++) {
        total.nameless += fastest(u, &inputs[i], &ret[i], true, err);
        /* the pass with names comes last: its frames are shown */
        first = fastest(u, &inputs[i], &ret[i], false, err);
        total.warm += first;
    }
    return first < 0 ? -1 : 0;
}

/* ---- a recording ---------------------------------------------------------------------------- */

static int worker_create(void *context, struct replay_worker *w, void **ret, struct error *err)
{
    (void)w, (void)err;
    *ret = context;
    return 0;
}

static void worker_free(void *worker)
{
    (void)worker;
}

static int count_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    uint64_t *with_lua = worker;
    size_t i = 0;
    (void)err;
    while (i < s->nr_frames && s->frames[i].kind != FRAME_LUA)
        i++;
    *with_lua += i < s->nr_frames;
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double measure_overhead(void)
{
    enum { TRIES = 100000 };
    uint64_t sum = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t start = __rdtsc();
        sum += __rdtsc() - start;
    }
    return (double)sum / TRIES;
}

static int bench(const char *path)
{
    const struct replay_options options = {.input = path, .threads = 1};
    uint64_t with_lua = 0;
    const struct replay_sink sink = {.context = &with_lua,
                                     .worker_create = worker_create,
                                     .worker_free = worker_free,
                                     .sample = count_sample};
    struct replay *r;
    struct error err;
    memset(&total, 0, sizeof(total));
    overhead = measure_overhead();
    double start = seconds();
    uint64_t start_ticks = __rdtsc();
    if (replay_create(&options, &r, &err) < 0)
        return fprintf(stderr, "%s\n", err.text);
    int failed = replay_run(r, &sink, &err);
    double ns = (seconds() - start) * 1e9 / (double)(__rdtsc() - start_ticks);
    replay_free(r);
    if (failed < 0 || total.lua == 0)
        return fprintf(stderr, "%s: %s\n", path, failed ? err.text : "no Lua");
    printf("%-24s %6llu samples with Lua, %4.1f frames in %3.1f steps each; ns a Lua frame: warm "
           "%4.0f, "
           "with its name %4.0f; first, with its name %4.0f\n",
           path, (unsigned long long)with_lua, total.lua / (double)with_lua,
           total.steps / (double)with_lua, total.nameless * ns / total.lua,
           total.warm * ns / total.lua, total.first * ns / total.lua);
    return 0;
}

static int bench_all(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= bench(argv[i]) != 0;
    return failed;
}

#endif
