/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of a recording: how each begins and ends. */
#include "record/capture.h"
#include "base/clock.h"
#include "base/text.h"
#include "dso/dso.h"
#include "record/header.h"
#include "record/output.h"
#include "record/synthesize_apart.h"

#include <inttypes.h>
#include <perf/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int capture_put(void *capture, const void *record, size_t size, struct error *err)
{
    struct capture *c = capture;
    if (perfdata_writer_record(c->w, record, size, err) == 0)
        return 0;
    c->write_failed = true;
    return -1;
}

int capture_write(struct capture *c, const void *record, size_t size, struct error *err)
{
    return capture_put(c, record, size, err);
}

int capture_write_sample(struct capture *c, const struct perf_event_header *record,
                         struct error *err)
{
    c->out->samples++;
    return capture_put(c, record, record->size, err);
}

/* ---- beginning ----------------------------------------------------------------------------- */

static void say_line(void *capture, const char *line)
{
    capture_say(capture, false, "%s", line);
}

static int synthesize_targets(struct capture *c, const struct synthesis *s, struct error *err)
{
    pid_vec all = {0};
    if (c->on_exec && !c->live.nr) /* the command will give its maps and name when it begins */
        return synthesize_comm(s, c->child.pid, err);
    const pid_vec *v = c->system_wide ? &all : c->live.nr ? &c->live : &c->pids;
    int failed = c->system_wide ? synthesize_list(&all, err) : 0;
    if (!failed)
        failed = synthesize_processes(s, v, say_line, c, err);
    vec_free(&all);
    return failed;
}

static void keep_file(void *start, int fd, const struct build_id *id)
{
    (void)start;
    (void)dso_keep_copy(fd, id);
}

static int keep_record(void *start, const void *record, size_t size, struct error *err)
{
    struct text *t = start;
    text_bytes(t, record, size);
    return t->failed ? error_no_memory(err) : 0;
}

/* Collect the records that a file begins with. A switch of files does so before it ends the old
 * file: a process that ends meanwhile has left its last samples for the new file, which needs its
 * maps. */
static int synthesize_start(struct capture *c, struct text *start, struct error *err)
{
    struct synthesis s = {.put = keep_record,
                          .context = start,
                          .data_maps = c->o->callgraph == CALLGRAPH_DWARF,
                          .build_ids = c->events.build_ids,
                          .namespaces = c->o->namespaces,
                          .keep = c->o->no_buildid_cache ? NULL : keep_file,
                          .cache = id_cache_create()};
    const struct perf_event_header end = {PERF_RECORD_FINISHED_INIT, 0, sizeof(end)};
    const pid_t *tids = c->system_wide ? NULL : c->tids.at;
    bool hidden;
    if (!s.cache)
        return error_no_memory(err);
    int failed = synthesize_lists(&s, &c->events, tids, c->tids.nr, err) < 0 ||
                 synthesize_kernel(&s, &hidden, err) < 0 ||
                 (c->o->all_cgroups && synthesize_cgroups(&s, err) < 0) ||
                 synthesize_targets(c, &s, err) < 0;
    id_cache_free(s.cache);
    if (failed)
        return -1;
    if (hidden)
        capture_say(
            c, !c->system_wide && c->events.user_only,
            "kernel addresses are hidden (sysctl kernel.kptr_restrict=0 shows them): kernel "
            "frames will have no names");
    return keep_record(start, &end, sizeof(end), err);
}

static int put_start(struct capture *c, const struct text *start, struct error *err)
{
    for (size_t at = 0; at < start->size;) {
        struct perf_event_header h;
        memcpy(&h, start->at + at, sizeof(h));
        if (capture_put(c, start->at + at, h.size, err) < 0)
            return -1;
        at += h.size;
    }
    return 0;
}

static int file_create(struct capture *c, struct error *err)
{
    struct perfdata_writer_options options = {.pipe = strcmp(c->path, "-") == 0,
                                              .zstd_level = c->o->zstd_level};
    if (!options.pipe && output_keep_old(c->path, err) < 0)
        return -1;
    if (perfdata_writer_create(c->path, &options, c->all.at, c->all.nr, &c->w, err) < 0)
        return -1;
    c->begun = true;
    return header_write_start(c->w, c->o, err) < 0 || header_write_tracing(c->w, c->o, err) < 0 ? -1
                                                                                                : 0;
}

static int begin_file(struct capture *c, const struct text *start, struct error *err)
{
    c->first = UINT64_MAX;
    c->last = 0;
    c->file_began = c->flushed = clock_ns(CLOCK_MONOTONIC);
    if (file_create(c, err) < 0 || put_start(c, start, err) < 0)
        return -1;
    if (perfdata_writer_flush(c->w, err) < 0) {
        c->write_failed = true;
        return -1;
    }
    c->start_bytes = perfdata_writer_bytes(c->w);
    return c->hooks && c->hooks->started ? c->hooks->started(c->hooks->context, c, err) : 0;
}

int capture_begin_file(struct capture *c, struct error *err)
{
    struct text start = {0};
    int r = synthesize_start(c, &start, err);
    if (!r)
        r = begin_file(c, &start, err);
    text_free(&start);
    return r;
}

/* ---- ending -------------------------------------------------------------------------------- */

/* Write LOST_SAMPLES for each event that lost some, as perf does at the end. */
static int put_lost(struct capture *c, struct error *err)
{
    for (size_t i = 0; i < c->events.nr; i++) {
        struct {
            struct perf_event_header header;
            uint64_t lost;
            uint64_t ids, time, cpu, id; /* the trailer */
        } r = {.header = {PERF_RECORD_LOST_SAMPLES, 0, sizeof(r)},
               .lost = events_lost(&c->events, i),
               .id = c->events.at[i].pub.ids[0]};
        if (!r.lost)
            continue;
        *(c->events.at[i].samples ? &c->out->samples_lost : &c->out->records_lost) += r.lost;
        if (capture_put(c, &r, sizeof(r), err) < 0)
            return -1;
    }
    return 0;
}

int capture_end_file(struct capture *c, struct error *err)
{
    struct error ignored;
    int r = c->write_failed ? -1 : 0; /* err already says why */
    if (!c->w)
        return r;
    if (c->first <= c->last)
        (void)header_write_times(c->w, c->first, c->last, &ignored);
    if (!r && c->done)
        r = put_lost(c, err);
    if (!r)
        r = perfdata_writer_finish(c->w, err);
    if (r < 0 && strcmp(c->path, "-") != 0 &&
        perfdata_writer_salvage(c->w, &c->out->given_up, &ignored) < 0)
        capture_say(c, false, "%s: %s", c->path, ignored.text);
    c->out->bytes += perfdata_writer_bytes(c->w);
    perfdata_writer_destroy(c->w);
    c->w = NULL;
    c->write_failed = r < 0;
    return r;
}

int capture_keep_few(struct capture *c, const char *path, struct error *err)
{
    if (!c->o->switch_files)
        return 0;
    char *copy = strdup(path);
    if (!copy || !vec_push(&c->parts, copy)) {
        free(copy);
        return error_no_memory(err);
    }
    if (c->parts.nr <= c->o->switch_files)
        return 0;
    unlink(c->parts.at[0]);
    free(c->parts.at[0]);
    vec_drop(&c->parts, 1);
    return 0;
}

int capture_switch_file(struct capture *c, struct error *err)
{
    struct text start = {0};
    char *stamped;
    int r = synthesize_start(c, &start, err);
    if (!r && c->hooks && c->hooks->ending)
        r = c->hooks->ending(c->hooks->context, c, err);
    if (!r)
        r = capture_end_file(c, err);
    if (!r)
        r = output_stamp(c->path, &stamped, err);
    if (!r) {
        capture_say(c, false, "[ ljperf record: Dump %s ]", stamped);
        c->begun = false;
        r = capture_keep_few(c, stamped, err);
        free(stamped);
    }
    if (!r)
        r = begin_file(c, &start, err);
    text_free(&start);
    return r;
}
