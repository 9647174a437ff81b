/* SPDX-License-Identifier: GPL-2.0-only */
/* ljperf leaks: which code allocates memory that stays. */
#include "cmd/common.h"
#include "output/leaks.h"
#include "output/output.h"
#include "perfdata/alloc.h"

#include <stdio.h>

struct leaks_command {
    struct leaks_options options;
    bool json;
};

static int take_limit(void *target, const struct option_value *v, struct error *err)
{
    return common_take_percent(&((struct leaks_command *)target)->options.least, v, err);
}

static const struct option_row rows[] = {
    {ROW_CALL(0, "percent-limit", "PERCENT", take_limit,
              "Leave out sites with less of the memory in use. Default: 0.5.")},
    {ROW_NUMBER(0, "top", "N", struct leaks_command, options.top, 0, UINT32_MAX,
                "Print N sites at most; 0: all (20).")},
    {ROW_NUMBER(0, "callers", "N", struct leaks_command, options.depth, 0, 127,
                "Print N callers of each site, and tell sites apart by them (5).")},
    {ROW_FLAG(0, "json", struct leaks_command, json, "Print one JSON document.")},
    {0},
};

const struct option_set leaks_command_line = {
    .name = "ljperf leaks",
    .usage = "[options] [FILE]\n"
             "-p PID [-d SECONDS] [options]\n"
             "[options] -- COMMAND [arguments]",
    .about =
        "Prints which code allocated the memory that was not freed while the recording ran "
        "(ljperf\n"
        "record --alloc). What was allocated at a steady rate and stays comes first: that is a "
        "leak,\n"
        "or a cache without a limit.\n",
    .sections = {{.rows = rows}, RECORD_FIRST_SECTION(record_first_rows), COMMON_SECTION},
    .command_follows = true,
    COMMON_ARGUMENT,
};

static void put_text(const void *of, struct text *out)
{
    leaks_put_text(of, out);
}

static void put_json(const void *of, struct json *j)
{
    leaks_put_json(of, j);
}

static const struct common_document document = {put_text, put_json};

/* Kinds of allocations whose frees are seen, as leaks are told. */
static const enum alloc_kind kinds[] = {ALLOC_MALLOC, ALLOC_JS, ALLOC_JS_EXTERNAL};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static bool find_event(const struct replay *r, enum alloc_kind kind, unsigned *ret)
{
    const struct perfdata *pd = replay_perfdata(r);
    enum alloc_kind is;
    for (*ret = 0; *ret < perfdata_nr_events(pd); ++*ret)
        if (perfdata_alloc_kind(perfdata_event(pd, *ret), &is) && is == kind)
            return true;
    return false;
}

static bool has_samples(const struct profile *p, unsigned event)
{
    vec_foreach (s, &p->samples)
        if (s->event == event)
            return true;
    return false;
}

/* Get the events of allocations that have samples, malloc first, or that one if there are none.
 * Returns how many; -1: the recording has none. */
static int find_events(const struct replay *r, const struct profile *p, uint64_t until,
                       struct leaks_event ret[KINDS], struct error *err)
{
    struct leaks_event all[KINDS];
    int found = 0, nr = 0;
    for (int i = 0; i < KINDS; i++) {
        if (!find_event(r, kinds[i], &all[found].index))
            continue;
        all[found].kind = kinds[i];
        all[found].until = until;
        all[found].peak = replay_allocations_peak(r, kinds[i]);
        if (has_samples(p, all[found++].index))
            ret[nr++] = all[found - 1];
    }
    if (!found)
        return error_set(err, ERROR_NOT_FOUND,
                         "the recording has no allocations; ljperf record --alloc records them (as "
                         "root)");
    if (!nr)
        ret[nr++] = all[0];
    return nr;
}

/* If the probes of malloc were removed, it was not recorded up to the end. */
static void say_end(const struct replay *r, struct leaks_event *first)
{
    uint64_t end;
    if (first->kind != ALLOC_MALLOC || !replay_allocations_end(r, &end))
        return;
    fputs("ljperf: allocations by malloc were not recorded up to the end (record --alloc --force); "
          "this is what was in use until then\n",
          stderr);
    first->until = end < first->until ? end : first->until;
}

static int sum_up(struct common *c, struct replay *r, const struct leaks_command *lc,
                  struct error *err)
{
    struct leaks_times times;
    struct leaks_event events[KINDS];
    struct profile *p = common_profile(c, r, true, err);
    if (!p)
        return -1;
    if (!perfdata_sample_times(replay_perfdata(r), &times.from, &times.until)) {
        times.from = replay_stats(r)->first;
        times.until = replay_stats(r)->last;
    }
    const int nr = find_events(r, p, times.until, events, err);
    if (nr < 0) {
        profile_free(p);
        return -1;
    }
    say_end(r, events);
    struct leaks *l = leaks_create(p, events, (size_t)nr, &times, &lc->options);
    int failed = l ? common_print(&document, l, lc->json, err) : error_no_memory(err);
    leaks_free(l);
    profile_free(p);
    return failed;
}

static int run(struct common *c, const struct leaks_command *lc, struct error *err)
{
    struct replay *r;
    const bool all = !c->replay.events.nr;
    for (int i = 0; all && i < KINDS; i++)
        if (!vec_push(&c->replay.events, alloc_event_name(kinds[i])))
            return error_no_memory(err);
    if (replay_create(&c->replay, &r, err) < 0)
        return -1;
    int failed = sum_up(c, r, lc, err);
    replay_free(r);
    return failed ? -1 : 0;
}

int cmd_leaks(int argc, char **argv)
{
    struct common c;
    struct leaks_command lc = {.options = {.least = 0.5, .top = 20, .depth = 5}};
    struct error err = {0};
    common_init(&c);
    int status = common_parse(&c, &leaks_command_line, &lc, argc, argv);
    if (status < 0 && record_first_is_wanted(&c.first) && !c.first.alloc)
        c.first.alloc = "";
    if (status < 0)
        status = common_record_first(&c, &leaks_command_line, NULL);
    if (status < 0) {
        common_page(&c);
        status = run(&c, &lc, &err) < 0 ? command_error("leaks", &err, EXIT_BAD_INPUT) : 0;
    }
    return common_end(&c, status);
}
