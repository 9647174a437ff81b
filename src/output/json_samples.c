/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes one JSON object per sample, one sample per line. docs/json.md describes the fields. */
#include "output/export.h"
#include "output/json.h"
#include "output/output.h"

#include <inttypes.h>
#include <stdio.h>

static void put_frame(struct json *j, const struct profile *p, const struct profile_location *l,
                      const struct profile_line *line)
{
    const struct profile_function *f = &p->functions.at[line->function];
    char address[24];
    snprintf(address, sizeof(address), "0x%" PRIx64, l->address);
    json_object(j);
    json_key_string(j, "symbol", f->symbol);
    json_key_string(j, "module", f->module);
    json_key_string(j, "address", address);
    json_key_string(j, "kind", export_kind(l->kind));
    if (export_tier(l->tier))
        json_key_string(j, "tier", export_tier(l->tier));
    if (l->trace)
        json_key_uint(j, "trace", l->trace);
    export_position(j, l->kind, line->file, line->line, line->column);
    if (profile_is_managed(l->kind) && f->file) {
        json_key(j, "defined");
        json_object(j);
        json_position(j, f->file, f->line, f->column);
        json_object_end(j);
    }
    if (line->inlined) {
        json_key(j, "inlined");
        json_bool(j, true);
    }
    if (l->provenance != PROVENANCE_EXACT)
        json_key_string(j, "provenance", export_provenance(l->provenance));
    if (l->name_guessed)
        json_key_string(j, "name_provenance", "guess");
    json_object_end(j);
}

static void put_sample(struct json *j, const struct export *e, const struct profile_sample *s)
{
    const struct profile *p = e->profile;
    const struct profile_thread *t = &p->threads.at[s->thread];
    json_object(j);
    json_key_uint(j, "time", s->time);
    json_key_string(j, "comm", t->comm);
    json_key_uint(j, "pid", t->pid);
    json_key_uint(j, "tid", t->tid);
    json_key_uint(j, "cpu", s->cpu);
    json_key_string(j, "event", export_event(e, s->event));
    json_key_uint(j, "period", s->period);
    json_key_string(j, "stack", s->unwound ? script_end_word(s->end) : "not unwound");
    if (export_vm_state(p, s->node))
        json_key_string(j, "vm_state", export_vm_state(p, s->node));
    json_key(j, "frames");
    json_array(j);
    for (uint32_t n = s->node; n; n = p->nodes.at[n].parent) {
        const struct profile_location *l = &p->locations.at[p->nodes.at[n].location];
        for (uint32_t i = 0; i < l->nr_lines; i++)
            put_frame(j, p, l, &p->lines.at[l->first_line + i]);
    }
    json_array_end(j);
    json_object_end(j);
    json_next_line(j);
}

int export_json(const struct export *e, FILE *out, struct error *err)
{
    struct json *j = json_create(out);
    if (!j)
        return error_no_memory(err);
    vec_foreach (s, &e->profile->samples)
        put_sample(j, e, s);
    return json_finish(j) ? 0 : error_no_memory(err);
}
