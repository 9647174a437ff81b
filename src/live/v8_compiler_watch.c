/* SPDX-License-Identifier: GPL-2.0-only */
#include "live/v8_compiler_watch.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    MS = 1000000, /* ns */
    PAUSE_MIN_NS = 20 * MS,
    FINISH_NS = 100 * MS,
    SHARE = 100,          /* a look is followed by a pause of so many times its length */
    ENTRY_MAX = 32 << 10, /* bytes of an entry: the writer does not cut it */
    FACTS = ENTRY_MAX / sizeof(struct v8_fact),
};

struct v8_compiler_watch {
    struct v8_compiler *compiler;
    uint64_t next; /* ns: of the next look */
};

struct v8_compiler_watch *v8_compiler_watch_create(const struct v8_layout *layout)
{
    struct v8_compiler_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->compiler = v8_compiler_create(layout);
    if (w->compiler)
        return w;
    free(w);
    return NULL;
}

void v8_compiler_watch_free(struct v8_compiler_watch *w)
{
    if (!w)
        return;
    v8_compiler_free(w->compiler);
    free(w);
}

struct v8_compiler *v8_compiler_watch_of(struct v8_compiler_watch *w)
{
    return w->compiler;
}

void v8_compiler_watch_rewrite(struct v8_compiler_watch *w)
{
    v8_compiler_tell_again(w->compiler);
}

void v8_compiler_watch_flush(struct v8_compiler_watch *w, struct object_log *log)
{
    size_t nr;
    const struct v8_fact *facts = v8_compiler_news(w->compiler, &nr);
    const uint64_t now = object_log_now(log);
    for (size_t at = 0; at < nr; at += FACTS) {
        size_t of = nr - at < FACTS ? nr - at : FACTS;
        const struct vmevent_entry entry = {.length = (uint32_t)(of * sizeof(*facts)),
                                            .kind = VMENTRY_V8_COMPILER,
                                            .before = now,
                                            .after = now,
                                            .bytes = (const uint8_t *)(facts + at)};
        object_log_put(log, &entry);
    }
    v8_compiler_told(w->compiler);
}

void v8_compiler_watch_look(struct v8_compiler_watch *w, struct object_log *log)
{
    const struct memory_layer layer = process_memory_layer(object_log_memory(log));
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    const uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (clock_ns(CLOCK_MONOTONIC) < w->next)
        return;
    v8_compiler_read(w->compiler, &m, object_log_now(log), false);
    v8_compiler_watch_flush(w, log);
    const uint64_t pause = SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began);
    w->next = clock_ns(CLOCK_MONOTONIC) + (pause > PAUSE_MIN_NS ? pause : PAUSE_MIN_NS);
}

void v8_compiler_watch_finish(struct v8_compiler_watch *w, struct object_log *log)
{
    const struct memory_layer layer = process_memory_layer(object_log_memory(log));
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    const uint64_t until = clock_ns(CLOCK_MONOTONIC) + FINISH_NS;
    for (size_t left = v8_compiler_rounds(w->compiler);
         left-- && clock_ns(CLOCK_MONOTONIC) < until;)
        v8_compiler_read(w->compiler, &m, object_log_now(log), false);
    v8_compiler_watch_flush(w, log);
}
