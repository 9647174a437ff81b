/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * speedscope's own format. Each thread and event has a sampled profile in order of time; the width
 * of a sample is its weight. Frames are functions, with the place of their definition. Format:
 * speedscope's file-format-schema.json.
 */
#include "output/export.h"
#include "output/json.h"

#include <inttypes.h>
#include <stdlib.h>

/* One profile: the samples of a thread and event. */
struct track {
    uint32_t thread;
    uint16_t event;
    uint64_t weight;
    VEC(uint32_t) samples; /* indexes of samples, in order */
};

typedef VEC(struct track) track_list;

static struct track *track_of(track_list *tracks, const struct profile_sample *s)
{
    for (size_t i = tracks->nr; i-- > 0;)
        if (tracks->at[i].thread == s->thread && tracks->at[i].event == s->event)
            return &tracks->at[i];
    struct track t = {.thread = s->thread, .event = s->event};
    return vec_push(tracks, t) ? &tracks->at[tracks->nr - 1] : NULL;
}

static int gather(const struct export *e, track_list *tracks, struct error *err)
{
    const struct profile *p = e->profile;
    for (uint32_t i = 0; i < p->samples.nr; i++) {
        const struct profile_sample *s = &p->samples.at[i];
        struct track *t = s->node ? track_of(tracks, s) : NULL;
        if (s->node && (!t || !vec_push(&t->samples, i)))
            return error_no_memory(err);
        if (t)
            t->weight += export_weight(e, s);
    }
    return 0;
}

static void put_frames(struct json *j, const struct profile *p)
{
    json_key(j, "shared");
    json_object(j);
    json_key(j, "frames");
    json_array(j);
    vec_foreach (f, &p->functions) {
        bool managed = profile_is_managed(f->kind);
        json_object(j);
        json_key_string(j, "name", f->name);
        if (managed ? f->file : f->module)
            json_key_string(j, "file", managed ? f->file : f->module);
        if (managed && f->file && f->line)
            json_key_uint(j, "line", f->line);
        if (managed && f->file && f->line && f->column)
            json_key_uint(j, "col", f->column);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

/* Write the functions, outermost first. `path` is scratch space. Returns false if memory was
 * out. */
static bool put_stack(struct json *j, const struct profile *p, uint32_t node, node_path *path)
{
    bool kept = export_path(p, node, path);
    json_array(j);
    vec_foreach (n, path) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[*n].location];
        for (uint32_t i = l->nr_lines; i-- > 0;)
            json_uint(j, p->lines.at[l->first_line + i].function);
    }
    json_array_end(j);
    return kept;
}

/* Returns false if memory was out. */
/* Speedscope's words are pprof's, but for counts. */
static const char *speedscope_unit(const struct export *e, unsigned event)
{
    return e->samples || replay_unit(e->replay, event) == UNIT_COUNT ? "none"
                                                                     : export_unit(e, event);
}

static bool put_track(struct json *j, const struct export *e, const struct track *t, bool several)
{
    const struct profile *p = e->profile;
    const struct profile_thread *thread = &p->threads.at[t->thread];
    struct text name = {0};
    node_path path = {0};
    bool kept = true;
    text_printf(&name, "%s pid: %" PRIu32 " tid: %" PRIu32 "%s%s%c", thread->comm, thread->pid,
                thread->tid, several ? " " : "", several ? export_event(e, t->event) : "", 0);
    json_object(j);
    json_key_string(j, "type", "sampled");
    json_key_string(j, "name", name.failed ? "" : name.at);
    json_key_string(j, "unit", speedscope_unit(e, t->event));
    json_key_uint(j, "startValue", 0);
    json_key_uint(j, "endValue", t->weight);
    json_key(j, "samples");
    json_array(j);
    vec_foreach (i, &t->samples)
        kept &= put_stack(j, p, p->samples.at[*i].node, &path);
    json_array_end(j);
    json_key(j, "weights");
    json_array(j);
    vec_foreach (i, &t->samples)
        json_uint(j, export_weight(e, &p->samples.at[*i]));
    json_array_end(j);
    json_object_end(j);
    kept &= !name.failed;
    text_free(&name);
    vec_free(&path);
    return kept;
}

static bool put_profile(struct json *j, const struct export *e, const track_list *tracks)
{
    size_t busiest = 0;
    bool several = false, kept = true;
    for (size_t i = 0; i < tracks->nr; i++) {
        several |= tracks->at[i].event != tracks->at[0].event;
        if (tracks->at[i].weight > tracks->at[busiest].weight)
            busiest = i;
    }
    json_object(j);
    json_key_string(j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_key_string(j, "exporter", "ljperf");
    json_key_string(j, "name", perfdata_path(replay_perfdata(e->replay)));
    json_key_uint(j, "activeProfileIndex", busiest);
    put_frames(j, e->profile);
    json_key(j, "profiles");
    json_array(j);
    vec_foreach (t, tracks)
        kept &= put_track(j, e, t, several);
    json_array_end(j);
    json_object_end(j);
    return kept;
}

int export_speedscope(const struct export *e, FILE *out, struct error *err)
{
    track_list tracks = {0};
    struct json *j = json_create(out);
    int failed = !j ? error_no_memory(err) : gather(e, &tracks, err);
    if (!failed && !put_profile(j, e, &tracks))
        failed = error_no_memory(err);
    if (j && !json_finish(j) && !failed)
        failed = error_no_memory(err);
    vec_foreach (t, &tracks)
        vec_free(&t->samples);
    vec_free(&tracks);
    return failed;
}
