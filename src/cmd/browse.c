/* SPDX-License-Identifier: GPL-2.0-only */
/* See browse.h. */
#include "cmd/browse.h"
#include "output/annotate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report_event *browsing_events(const struct replay *r)
{
    const struct perfdata *pd = replay_perfdata(r);
    size_t nr = perfdata_nr_events(pd);
    struct report_event *events = calloc(nr + 1, sizeof(*events));
    for (size_t i = 0; events && i < nr; i++) {
        const struct perfdata_event *e = perfdata_event(pd, i);
        bool chain = e->attr.sample_type & PERF_SAMPLE_CALLCHAIN;
        events[i] = (struct report_event){
            replay_options(r)->wall ? replay_weight_name(r, (unsigned)i) : e->name, chain};
    }
    return events;
}

static void browsing_free(struct browsing *b)
{
    free(b->events);
    stacks_free(b->stacks);
    replay_free(b->replay);
}

void browsing_forget_code(struct browsing *b)
{
    profile_free(b->profile);
    replay_free(b->profiled);
    b->profile = NULL;
    b->profiled = NULL;
}

void browsing_end(struct browsing *b)
{
    browsing_free(b);
    browsing_forget_code(b);
}

/* Collect all samples in a profile, when something is first annotated. */
static int browsing_profile(struct browsing *b, struct error *err)
{
    struct common quiet = b->common;
    quiet.replay.symbols.lines = true;
    quiet.replay.progress_context = &quiet;
    struct replay *r;
    if (replay_create(&quiet.replay, &r, err) < 0)
        return -1;
    b->profile = common_profile(&quiet, r, false, err);
    if (!b->profile) {
        replay_free(r);
        return -1;
    }
    b->profiled = r;
    return 0;
}

int browsing_annotate(void *context, const char *symbol, struct text *out, struct error *err)
{
    struct browsing *b = context;
    const struct annotate_options o = {.symbol = symbol};
    char *text = NULL;
    size_t size = 0;
    if (!b->profile && browsing_profile(b, err) < 0)
        return -1;
    FILE *file = open_memstream(&text, &size);
    if (!file)
        return error_no_memory(err);
    int failed = annotate_print(&o, b->profile, b->profiled, file, err);
    if (fclose(file) != 0 && !failed)
        failed = error_no_memory(err);
    if (!failed)
        text_bytes(out, text, size);
    free(text);
    return failed;
}

int browsing_check_cgroups(const struct stacks_options *kept, const struct perfdata *pd,
                           struct error *err)
{
    bool any = !kept->by_cgroup || !perfdata_nr_events(pd);
    for (size_t i = 0; i < perfdata_nr_events(pd); i++)
        any |= (perfdata_event(pd, i)->attr.sample_type & PERF_SAMPLE_CGROUP) != 0;
    return any ? 0
               : error_set(err, ERROR_FORMAT,
                           "the recording has no control groups for the key cgroup: record with "
                           "--all-cgroups");
}

static struct stacks_options both(const struct stacks_options *a, const struct stacks_options *b)
{
    return (struct stacks_options){
        .by_pid = a->by_pid || b->by_pid,
        .by_tid = a->by_tid || b->by_tid,
        .by_cpu = a->by_cpu || b->by_cpu,
        .by_line = a->by_line || b->by_line,
        .by_address = a->by_address || b->by_address,
        .by_start = a->by_start || b->by_start,
        .by_tier = a->by_tier || b->by_tier,
        .by_state = a->by_state || b->by_state,
        .by_wait = a->by_wait || b->by_wait,
        .by_waker = a->by_waker || b->by_waker,
        .by_trace = a->by_trace || b->by_trace,
        .by_offset = a->by_offset || b->by_offset,
        .by_cgroup = a->by_cgroup || b->by_cgroup,
        .slice_ns = a->slice_ns ? a->slice_ns : b->slice_ns,
        .all_slices = a->all_slices || b->all_slices,
    };
}

int browsing_collect(void *context, const struct stacks_options *needs, struct browser_data *ret,
                     struct error *err)
{
    struct browsing *b = context;
    struct browsing new = *b;
    new.kept = both(&b->kept, needs);
    new.replay = NULL;
    new.stacks = NULL;
    new.events = NULL;
    new.common.replay.symbols.lines |= new.kept.by_line;
    new.common.replay.progress_context = &new.common;
    if (replay_create(&new.common.replay, &new.replay, err) < 0)
        return -1;
    if (browsing_check_cgroups(needs, replay_perfdata(new.replay), err) == 0)
        new.stacks = common_collect(&new.common, new.replay, &new.kept, err);
    new.events = new.stacks ? browsing_events(new.replay) : NULL;
    if (!new.events) {
        browsing_free(&new);
        return new.stacks ? error_no_memory(err) : -1;
    }
    browsing_free(b);
    *b = new;
    b->common.quiet = true; /* it was printed already */
    *ret =
        (struct browser_data){b->stacks, b->events, perfdata_nr_events(replay_perfdata(b->replay)),
                              perfdata_arch(replay_perfdata(b->replay)), replay_lists(b->replay)};
    return 0;
}

/* ---- options ------------------------------------------------------------------------------- */

/* Take a word that is a column and no key; false: it is something else. */
static bool take_column(struct report_options *o, const char *name)
{
    if (strcmp(name, "overhead") == 0)
        o->nr_before = o->nr_keys;
    else if (strcmp(name, "sample") == 0)
        o->show_samples = true;
    else if (strcmp(name, "period") == 0)
        o->show_period = true;
    else
        return strcmp(name, "overhead_children") == 0;
    return true;
}

int browsing_take_sort(struct report_options *o, const struct option_value *v, struct error *err)
{
    char *rest = v->text + (*v->text == '+');
    if (*v->text != '+')
        o->nr_keys = o->nr_before = 0;
    for (char *name; (name = strsep(&rest, ","));) {
        int key = report_key(name);
        if (take_column(o, name))
            continue;
        if (key < 0)
            return option_error(v, err, "has no key `%.60s'; the keys are %s", name,
                                report_key_names());
        bool known = false;
        for (unsigned i = 0; i < o->nr_keys; i++)
            known |= o->keys[i] == (enum report_key)key;
        if (!known)
            o->keys[o->nr_keys++] = (enum report_key)key;
    }
    if (!o->nr_keys)
        return option_error(v, err, "expects a key besides overhead");
    return 0;
}

int browsing_take_limit(struct report_options *o, const struct option_value *v, struct error *err)
{
    int failed = common_take_percent(&o->percent_limit, v, err);
    o->graph_percent = o->percent_limit;
    return failed;
}
