/* SPDX-License-Identifier: GPL-2.0-only */
/* See lists.h. */
#include "session/lists.h"
#include "base/intern.h"
#include "base/table.h"

#include <pthread.h>
#include <stdlib.h>

struct session_lists {
    pthread_mutex_t lock;
    struct intern *names;
    struct table cgroups; /* id -> path, in `names` */
    VEC(struct session_count) counts;
};

struct session_lists *session_lists_create(void)
{
    struct session_lists *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->names = intern_create();
    if (f->names)
        return f;
    session_lists_free(f);
    return NULL;
}

void session_lists_free(struct session_lists *f)
{
    if (!f)
        return;
    table_free(&f->cgroups);
    vec_free(&f->counts);
    intern_free(f->names);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static int apply_cgroup(struct session_lists *f, const struct perfdata *pd,
                        const struct record *rec, struct error *err)
{
    struct record_cgroup g;
    if (perfdata_cgroup(pd, rec, &g, err) < 0)
        return 1;
    const char *path = intern_string(f->names, g.path);
    pthread_mutex_lock(&f->lock);
    bool good = path && table_put(&f->cgroups, g.id, (void *)path);
    pthread_mutex_unlock(&f->lock);
    return good ? 0 : error_no_memory(err);
}

static int apply_read(struct session_lists *f, const struct perfdata *pd, const struct record *rec,
                      struct error *err)
{
    struct record_read r;
    if (perfdata_read_count(pd, rec, &r, err) < 0)
        return 1;
    const struct session_count c = {r.pid, r.tid, r.event, r.value};
    return vec_push(&f->counts, c) ? 0 : error_no_memory(err);
}

int session_lists_apply(struct session_lists *f, const struct perfdata *pd,
                        const struct record *rec, struct error *err)
{
    return rec->type == PERF_RECORD_CGROUP ? apply_cgroup(f, pd, rec, err)
                                           : apply_read(f, pd, rec, err);
}

const char *session_cgroup(const struct session_lists *f, uint64_t id)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&f->lock;
    pthread_mutex_lock(lock);
    const char *path = table_get(&f->cgroups, id);
    pthread_mutex_unlock(lock);
    return path;
}

bool session_count(const struct session_lists *f, size_t i, struct session_count *ret)
{
    if (i >= f->counts.nr)
        return false;
    *ret = f->counts.at[i];
    return true;
}
