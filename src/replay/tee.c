/* SPDX-License-Identifier: GPL-2.0-only */
#include "replay/tee.h"

#include <stdlib.h>

struct tee_worker {
    struct replay_tee *tee;
    void *main, *beside; /* the sinks' workers */
};

static void worker_free(void *worker)
{
    struct tee_worker *w = worker;
    if (w->main && w->tee->main.worker_free)
        w->tee->main.worker_free(w->main);
    if (w->beside && w->tee->beside.worker_free)
        w->tee->beside.worker_free(w->beside);
    free(w);
}

static int worker_create(void *context, struct replay_worker *of, void **ret, struct error *err)
{
    struct replay_tee *t = context;
    struct tee_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return error_no_memory(err);
    w->tee = t;
    if (t->main.worker_create(t->main.context, of, &w->main, err) < 0 ||
        t->beside.worker_create(t->beside.context, of, &w->beside, err) < 0) {
        worker_free(w);
        return -1;
    }
    *ret = w;
    return 0;
}

static int take_sample(void *worker, const struct replay_sample *s, struct error *err)
{
    const struct tee_worker *w = worker;
    int r = w->tee->main.sample(w->main, s, err);
    return r < 0 ? -1 : w->tee->beside.sample(w->beside, s, err);
}

static int take_record(void *worker, const struct record *rec, struct error *err)
{
    const struct tee_worker *w = worker;
    return w->tee->main.record(w->main, rec, err);
}

static int flush(void *worker, struct text *text, struct error *err)
{
    const struct tee_worker *w = worker;
    return w->tee->main.flush(w->main, text, err);
}

static int write_text(void *context, struct text *text, struct error *err)
{
    const struct replay_tee *t = context;
    return t->main.write(t->main.context, text, err);
}

struct replay_sink replay_tee_sink(struct replay_tee *t)
{
    return (struct replay_sink){.context = t,
                                .worker_create = worker_create,
                                .worker_free = worker_free,
                                .sample = take_sample,
                                .folds_idle = t->main.folds_idle,
                                .record = t->main.record ? take_record : NULL,
                                .flush = t->main.flush ? flush : NULL,
                                .write = t->main.write ? write_text : NULL};
}
