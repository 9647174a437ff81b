/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A .cpuprofile for Chrome's developer tools, VS Code and V8 itself. It has a tree of functions,
 * and for each sample its node and the time since the previous sample. The format has only one
 * thread. So each thread becomes a child of the root, and the threads follow one another in time.
 *
 * In the format, a sample lasts from its time to that of the next sample. Time in which a thread
 * has no samples is "(idle)".
 */
#include "output/export.h"
#include "output/json.h"
#include "stacks/stacks_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE = 1, FIRST_ID = 1 }; /* indexes in the tree; an id is the index plus one */

struct tick {
    uint32_t node, line;
};

struct step {
    uint32_t node;
    uint64_t at; /* ns since the start */
};

struct writer {
    const struct export *e;
    struct json *j;
    struct stack_tree tree; /* `function`: index of the function; below the root: thread + IDLE */
    VEC(struct tick) ticks;
    VEC(struct step) steps;
    uint32_t *first_child, *next;
    uint64_t end;
    bool failed;
};

/* ---- the tree ------------------------------------------------------------------------------ */

/* Returns the tree's node for a stack of a thread; 0: memory is out. The first two nodes are the
 * root and the idle node, which are made at the start. */
static uint32_t tree_node(struct writer *w, uint32_t thread_node, uint32_t node, node_path *path)
{
    const struct profile *p = w->e->profile;
    uint32_t at = thread_node;
    if (!export_path(p, node, path))
        return 0;
    vec_foreach (n, path) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[*n].location];
        for (uint32_t i = l->nr_lines; at && i-- > 0;)
            at = stack_tree_child(&w->tree, at, p->lines.at[l->first_line + i].function);
    }
    return at;
}

static bool link_children(struct writer *w)
{
    size_t nr = w->tree.nodes.nr;
    w->first_child = calloc(nr, sizeof(*w->first_child));
    w->next = calloc(nr, sizeof(*w->next));
    for (uint32_t i = (uint32_t)nr; w->first_child && w->next && i-- > 1;) {
        uint32_t parent = w->tree.nodes.at[i].parent;
        w->next[i] = w->first_child[parent];
        w->first_child[parent] = i;
    }
    return w->first_child && w->next;
}

/* ---- time ---------------------------------------------------------------------------------- */

/* Returns how long one sample lasts, in ns: the period of a clock, or else the time that the
 * frequency gives. The period of a counted event is not a time; its samples last a millisecond
 * each. */
static uint64_t duration_of(const struct export *e, const struct profile_sample *s)
{
    const struct perfdata *pd = replay_perfdata(e->replay);
    if (s->event < perfdata_nr_events(pd)) {
        const struct perf_event_attr *a = &perfdata_event(pd, s->event)->attr;
        if (export_is_time(e, s->event) && s->period)
            return s->period;
        if (a->freq && a->sample_freq)
            return 1000000000 / a->sample_freq;
    }
    return 1000000;
}

static void add_step(struct writer *w, uint32_t node, uint64_t at)
{
    w->failed |= !vec_push(&w->steps, (struct step){node, at});
}

static void add_tick(struct writer *w, const struct profile_sample *s, uint32_t node)
{
    const struct profile *p = w->e->profile;
    const struct profile_location *l = &p->locations.at[p->nodes.at[s->node].location];
    uint32_t line = p->lines.at[l->first_line].line;
    w->tree.nodes.at[node].samples++;
    if (line)
        w->failed |= !vec_push(&w->ticks, (struct tick){node, line});
}

/* A clock's sample is taken at the end of the time that it stands for. A gap of more than half a
 * sample is idle time; smaller gaps are jitter. */
static void add_thread(struct writer *w, const struct thread_samples *by, uint32_t thread)
{
    const struct profile *p = w->e->profile;
    uint64_t base = 0, from = w->end, end = w->end;
    uint32_t thread_node = 0, known = 0, node = 0;
    node_path path = {0};
    for (uint32_t i = by->starts[thread]; i < by->starts[thread + 1]; i++) {
        const struct profile_sample *s = &p->samples.at[by->order[i]];
        uint64_t lasts = duration_of(w->e, s);
        if (!thread_node) {
            base = s->time - lasts;
            thread_node = stack_tree_child(&w->tree, 0, thread + IDLE);
        }
        uint64_t start = from + (s->time - lasts - base);
        if (s->node != known)
            node = thread_node ? tree_node(w, thread_node, s->node, &path) : 0;
        known = s->node;
        w->failed |= !node;
        if (w->failed)
            break;
        if ((int64_t)(start - end) > (int64_t)(lasts / 2)) {
            add_step(w, IDLE, end);
            end = start;
        }
        add_step(w, node, end);
        add_tick(w, s, node);
        end += lasts;
    }
    w->end = end;
    vec_free(&path);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void put_place(struct json *j, const char *name, const char *url, int64_t line,
                      int64_t column)
{
    json_key(j, "callFrame");
    json_object(j);
    json_key_string(j, "functionName", name);
    json_key_string(j, "scriptId", "0");
    json_key_string(j, "url", url ? url : "");
    json_key(j, "lineNumber"); /* counted from 0; -1: unknown */
    json_int(j, line - 1);
    json_key(j, "columnNumber");
    json_int(j, column - 1);
    json_object_end(j);
}

static void put_function(struct json *j, const struct profile_function *f)
{
    struct text url = {0};
    bool managed = profile_is_managed(f->kind);
    const char *file = managed ? f->file : f->module;
    text_printf(&url, "%s%s%c", managed && file && *file == '/' ? "file://" : "", file ? file : "",
                0);
    put_place(j, f->name, url.failed ? "" : url.at, f->line, f->column);
    text_free(&url);
}

static void put_call_frame(struct writer *w, uint32_t node)
{
    const struct profile *p = w->e->profile;
    const struct stack_node *n = &w->tree.nodes.at[node];
    if (node == 0 || node == IDLE) {
        put_place(w->j, node == IDLE ? "(idle)" : "(root)", "", 0, 0);
    } else if (n->parent == 0) {
        const struct profile_thread *t = &p->threads.at[n->function - IDLE];
        struct text name = {0};
        text_printf(&name, "%s %" PRIu32 "/%" PRIu32 "%c", t->comm, t->pid, t->tid, 0);
        put_place(w->j, name.failed ? "" : name.at, "", 0, 0);
        text_free(&name);
    } else {
        put_function(w->j, &p->functions.at[n->function]);
    }
}

static int by_node(const void *a, const void *b)
{
    const struct tick *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node)
                              : (x->line > y->line) - (x->line < y->line);
}

/* Write the lines of the node's own samples. *at is the position in the sorted ticks. */
static void put_ticks(struct writer *w, uint32_t node, size_t *at)
{
    if (*at == w->ticks.nr || w->ticks.at[*at].node != node)
        return;
    json_key(w->j, "positionTicks");
    json_array(w->j);
    while (*at < w->ticks.nr && w->ticks.at[*at].node == node) {
        uint32_t line = w->ticks.at[*at].line;
        size_t from = *at;
        while (*at < w->ticks.nr && w->ticks.at[*at].node == node && w->ticks.at[*at].line == line)
            ++*at;
        json_object(w->j);
        json_key_uint(w->j, "line", line);
        json_key_uint(w->j, "ticks", *at - from);
        json_object_end(w->j);
    }
    json_array_end(w->j);
}

static void put_nodes(struct writer *w)
{
    size_t tick = 0;
    json_key(w->j, "nodes");
    json_array(w->j);
    for (uint32_t i = 0; i < w->tree.nodes.nr; i++) {
        json_object(w->j);
        json_key_uint(w->j, "id", i + FIRST_ID);
        put_call_frame(w, i);
        json_key_uint(w->j, "hitCount", w->tree.nodes.at[i].samples);
        json_key(w->j, "children");
        json_array(w->j);
        for (uint32_t c = w->first_child[i]; c; c = w->next[c])
            json_uint(w->j, c + FIRST_ID);
        json_array_end(w->j);
        put_ticks(w, i, &tick);
        json_object_end(w->j);
    }
    json_array_end(w->j);
}

/* Times are microseconds. Positions are rounded, not durations, so that errors do not add up. */
static void put_steps(struct writer *w)
{
    enum { NS_PER_US = 1000 };
    uint64_t last = 0;
    add_step(w, IDLE, w->end); /* gives the last step its end */
    json_key_uint(w->j, "startTime", 0);
    json_key_uint(w->j, "endTime", w->end / NS_PER_US);
    json_key(w->j, "samples");
    json_array(w->j);
    vec_foreach (s, &w->steps)
        json_uint(w->j, s->node + FIRST_ID);
    json_array_end(w->j);
    json_key(w->j, "timeDeltas");
    json_array(w->j);
    vec_foreach (s, &w->steps) {
        json_uint(w->j, s->at / NS_PER_US - last);
        last = s->at / NS_PER_US;
    }
    json_array_end(w->j);
}

static void gather(struct writer *w)
{
    struct thread_samples by = {0};
    w->failed |= stack_tree_init(&w->tree) < 0 || stack_tree_child(&w->tree, 0, 0) != IDLE ||
                 !thread_samples_make(w->e, &by);
    for (uint32_t i = 0; i < w->e->profile->threads.nr && !w->failed; i++)
        add_thread(w, &by, i);
    thread_samples_free(&by);
    w->failed = w->failed || !link_children(w);
    if (w->ticks.nr)
        qsort(w->ticks.at, w->ticks.nr, sizeof(*w->ticks.at), by_node);
}

int export_chrome(const struct export *e, FILE *out, struct error *err)
{
    struct writer w = {.e = e, .j = json_create(out)};
    w.failed = !w.j;
    if (!w.failed)
        gather(&w);
    if (!w.failed) {
        json_object(w.j);
        put_nodes(&w);
        put_steps(&w);
        json_object_end(w.j);
    }
    if (w.j && !json_finish(w.j))
        w.failed = true;
    stack_tree_deinit(&w.tree);
    vec_free(&w.ticks);
    vec_free(&w.steps);
    free(w.first_child);
    free(w.next);
    return w.failed ? error_no_memory(err) : 0;
}
