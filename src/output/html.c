/* SPDX-License-Identifier: GPL-2.0-only */
/* The HTML page: its frame, style and script, and between them the data as JSON. */
#include "output/html.h"
#include "output/flamegraph.h"
#include "output/json.h"
#include "output/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* html.css and html.js (included by html_page.S). */
extern const char html_style[], html_style_end[];
extern const char html_script[], html_script_end[];

/* ---- the data -------------------------------------------------------------------------------- */

static void put_column(struct json *j, const char *key, const struct text *t)
{
    json_key(j, key);
    json_text(j, t->size ? t->at : "", t->size);
}

static void put_events(struct json *j, const struct export *e, const struct html_data *d)
{
    json_key(j, "events");
    json_array(j);
    vec_foreach (r, &d->rows) {
        json_object(j);
        json_key_string(j, "name", export_event(e, r->event));
        json_key_string(j, "unit", e->samples ? "samples" : export_unit(e, r->event));
        json_key_uint(j, "samples", r->samples);
        json_key_uint(j, "weight", r->weight);
        json_key_uint(j, "each", r->each);
        put_column(j, "rows", &r->rows);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_threads(struct json *j, const struct profile *p)
{
    json_key(j, "threads");
    json_array(j);
    vec_foreach (t, &p->threads) {
        json_object(j);
        json_key_string(j, "comm", t->comm);
        json_key_uint(j, "pid", t->pid);
        json_key_uint(j, "tid", t->tid);
        json_object_end(j);
    }
    json_array_end(j);
}

/* How the stacks ended, and how many have a frame that is not exact. */
static void put_quality(struct json *j, const struct export *e)
{
    const struct profile *p = e->profile;
    uint64_t ends[STACK_NR_ENDS] = {0}, doubtful = 0;
    struct text lost = {0};
    vec_foreach (s, &p->samples) {
        ends[s->end] += s->unwound;
        doubtful += s->node && p->nodes.at[s->node].weakest != PROVENANCE_EXACT;
    }
    json_key(j, "ends");
    json_object(j);
    for (int i = 0; i < STACK_NR_ENDS; i++)
        if (ends[i])
            json_key_uint(j, script_end_word(i), ends[i]);
    json_object_end(j);
    json_key_uint(j, "doubtful", doubtful);
    if (loss_put(&lost, perfdata_loss(replay_perfdata(e->replay))))
        put_column(j, "lost", &lost);
    text_free(&lost);
}

/* Source text without what a page must not show; lines stay lines. */
static void put_clean(struct text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    for (unsigned n; *p; p += n ? n : 1) {
        n = text_utf8_size(p);
        if (n)
            text_bytes(t, (const char *)p, n);
        else if (*p == '\n' || *p == '\t')
            text_char(t, (char)*p);
        else if (*p != '\r')
            text_printf(t, "%%%02X", *p);
    }
}

static void put_source(struct json *j, const struct html_source *s)
{
    struct text clean = {0};
    put_clean(&clean, s->file.bytes);
    json_object(j);
    json_key_string(j, "name", s->name);
    put_column(j, "text", &clean);
    json_key_uint(j, "changed", (uint64_t)s->file.changed);
    json_object_end(j);
    text_free(&clean);
}

static void put_source_lines(struct json *j, const struct html_data *d,
                             const struct html_sources *s)
{
    json_key_uint(j, "nrLines", s->nr_lines);
    put_column(j, "lines", &s->lines);
    put_column(j, "lineStacks", &s->stacks);
    json_key(j, "rowStacks"); /* by event */
    json_array(j);
    vec_foreach (r, &d->rows)
        json_text(j, r->stacks.size ? r->stacks.at : "", r->stacks.size);
    json_array_end(j);
}

static int put_sources(struct json *j, const struct export *e, const struct html_data *d,
                       const struct html_options *options, struct error *err)
{
    struct html_sources found = {0};
    int failed = options->source ? html_sources_find(e, d, &options->sources, &found, err) : 0;
    json_key(j, "sources");
    json_array(j);
    vec_foreach (s, &found.files)
        put_source(j, s);
    json_array_end(j);
    if (found.files.nr)
        put_source_lines(j, d, &found);
    json_key_uint(j, "sourcesNotFound", found.not_found);
    html_sources_free(&found);
    return failed;
}

static void put_lines(struct json *j, const char *key, const struct text *lines)
{
    json_key(j, key);
    json_array(j);
    for (size_t from = 0, at = 0; at < lines->size; at++) {
        if (lines->at[at] != '\n')
            continue;
        json_text(j, lines->at + from, at - from);
        from = at + 1;
    }
    json_array_end(j);
}

/* Why functions of a language were not compiled, those of which something is known. */
static void put_reasons(struct json *j, const struct export *e, const struct traces *t,
                        enum frame_kind kind)
{
    const struct profile *p = e->profile;
    json_key(j, "functions");
    json_array(j);
    for (size_t i = 0; i < p->functions.nr; i++) {
        struct text why = {0};
        if (p->functions.at[i].kind == kind && p->functions.at[i].symbol)
            traces_put_reasons(t, p->functions.at[i].symbol, "", &why);
        if (why.size && !why.failed) {
            json_object(j);
            json_key_uint(j, "f", i);
            put_lines(j, "why", &why);
            json_object_end(j);
        }
        text_free(&why);
    }
    json_array_end(j);
}

static void put_luajit(struct json *j, const struct export *e, const struct traces *t)
{
    struct text vms = {0};
    traces_put_vms(t, "", &vms);
    if (vms.size && !vms.failed) {
        json_key(j, "luajit");
        json_object(j);
        put_lines(j, "vms", &vms);
        put_reasons(j, e, t, FRAME_LUA);
        json_key(j, "traces");
        traces_put_json_traces(t, j);
        json_object_end(j);
    }
    text_free(&vms);
}

static bool has_kind(const struct profile *p, enum frame_kind kind)
{
    vec_foreach (f, &p->functions)
        if (f->kind == kind)
            return true;
    return false;
}

static void put_v8(struct json *j, const struct export *e, const struct traces *t)
{
    struct text vms = {0};
    if (!has_kind(e->profile, FRAME_JS))
        return;
    traces_put_v8(t, "", &vms);
    json_key(j, "v8");
    json_object(j);
    put_lines(j, "vms", &vms);
    put_reasons(j, e, t, FRAME_JS);
    json_object_end(j);
    text_free(&vms);
}

static int put_recording(struct json *j, const struct export *e, const struct html_data *d,
                         const struct html_options *options, struct error *err)
{
    const struct perfdata *pd = replay_perfdata(e->replay);
    json_object(j);
    json_key_string(j, "path", perfdata_path(pd));
    json_key_string(j, "command", perfdata_cmdline(pd));
    json_key_string(j, "host", perfdata_hostname(pd));
    json_key_uint(j, "wall", export_wall_clock(e, d->first) / 1000000); /* ms since 1970 */
    json_key_uint(j, "span", d->last >= d->first ? d->last - d->first : 0);
    json_key_uint(j, "slices", d->nr_slices);
    put_quality(j, e);
    put_threads(j, e->profile);
    put_events(j, e, d);
    json_key(j, "strings");
    json_array(j);
    vec_foreach (s, &d->strings.strings)
        json_string(j, *s);
    json_array_end(j);
    json_key_uint(j, "nrFunctions", d->nr_functions);
    put_column(j, "functions", &d->functions);
    json_key_uint(j, "nrNodes", d->nr_nodes);
    put_column(j, "nodes", &d->nodes);
    int failed = put_sources(j, e, d, options, err);
    if (options->traces) {
        put_luajit(j, e, options->traces);
        put_v8(j, e, options->traces);
    }
    json_object_end(j);
    return failed;
}

/* In a page's script element `<` could end the element. In JSON it stands in strings only, where
 * its escape means the same. */
static ssize_t write_escaped(void *out, const char *bytes, size_t size)
{
    for (size_t i = 0, from = 0; i <= size; i++) {
        if (i < size && bytes[i] != '<')
            continue;
        fwrite(bytes + from, 1, i - from, out);
        if (i < size)
            fputs("\\u003c", out);
        from = i + 1;
    }
    return ferror((FILE *)out) ? 0 : (ssize_t)size;
}

/* Write the recordings; of the first one only, the sources. */
static int put_recordings(const struct export *const *each, size_t nr,
                          const struct html_options *options, FILE *escaped, struct error *err)
{
    const struct html_options without = {0};
    struct json *j = json_create(escaped);
    int failed = j ? 0 : error_no_memory(err);
    if (j)
        json_array(j);
    for (size_t i = 0; i < nr && !failed; i++) {
        struct html_data d = {0};
        failed = html_data_make(each[i], &d, err);
        if (!failed)
            failed = put_recording(j, each[i], &d, i ? &without : options, err);
        html_data_free(&d);
    }
    if (j)
        json_array_end(j);
    if (j && !json_finish(j) && !failed)
        failed = error_no_memory(err);
    return failed;
}

static int put_data(const struct export *e, const struct export *base,
                    const struct html_options *options, FILE *out, struct error *err)
{
    const struct export *each[] = {e, base};
    FILE *escaped = fopencookie(out, "w", (cookie_io_functions_t){.write = write_escaped});
    if (!escaped)
        return error_no_memory(err);
    int failed = put_recordings(each, base ? 2 : 1, options, escaped, err);
    if (fclose(escaped) && !failed && !ferror(out))
        failed = error_no_memory(err);
    return failed;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_bytes(FILE *out, const char *from, const char *end)
{
    fwrite(from, 1, (size_t)(end - from), out);
}

static int put_head(const struct export *e, const struct html_options *options, FILE *out,
                    struct error *err)
{
    struct text title = {0};
    const char *path = perfdata_path(replay_perfdata(e->replay));
    text_xml(&title, options->title ? options->title : path);
    if (!title.failed) {
        fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
              "<link rel=\"icon\" href=\"data:,\">\n<title>",
              out);
        fwrite(title.at, 1, title.size, out);
        fputs("</title>\n<style>\n", out);
        put_bytes(out, html_style, html_style_end);
        fputs("</style></head>\n<body>\n<noscript>This page draws with a script.</noscript>\n"
              "<script type=\"application/json\" id=\"data\">",
              out);
    }
    int failed = title.failed ? error_no_memory(err) : 0;
    text_free(&title);
    return failed;
}

int html_write(const struct export *e, const struct export *base,
               const struct html_options *options, FILE *out, struct error *err)
{
    int failed = put_head(e, options, out, err);
    if (!failed)
        failed = put_data(e, base, options, out, err);
    if (failed)
        return -1;
    fputs("</script>\n<script>\n", out);
    put_bytes(out, html_script, html_script_end);
    fputs("</script>\n</body></html>\n", out);
    return 0;
}
