/* SPDX-License-Identifier: GPL-2.0-only */
#include "output/alloc_replay.h"
#include "output/flamegraph.h"
#include "output/output.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the trace ----------------------------------------------------------------------------- */

static const char *const operation_names[TRACE_OPERATIONS] = {
    [TRACE_MALLOC] = "malloc", [TRACE_CALLOC] = "calloc",   [TRACE_REALLOC] = "realloc",
    [TRACE_FREE] = "free",     [TRACE_ALIGNED] = "aligned",
};

static double seconds_of(const struct alloc_trace *t)
{
    const struct alloc_trace_info *i = alloc_trace_info(t);
    const uint64_t last = alloc_trace_counts(t)->last_ticks;
    return last > i->ticks ? (double)(last - i->ticks) * i->ns_per_tick / 1e9 : 0;
}

static void put_bytes(struct text *out, uint64_t bytes)
{
    text_amount(out, bytes, UNIT_BYTES);
}

static void put_calls(const struct alloc_counts *c, struct text *out)
{
    text_string(out, "# calls:");
    for (unsigned i = TRACE_MALLOC; i < TRACE_OPERATIONS; i++) {
        if (operation_names[i])
            text_printf(out, " %s %" PRIu64 "%s", operation_names[i], c->calls[i],
                        i == TRACE_ALIGNED ? "" : ",");
    }
    if (c->failed)
        text_printf(out, "; %" PRIu64 " of them returned NULL", c->failed);
    text_string(out, "\n# requested: ");
    put_bytes(out, c->peak);
    text_string(out, " at most, ");
    put_bytes(out, c->live);
    text_string(out, " at the end, ");
    put_bytes(out, c->requested);
    text_string(out, " in all\n");
}

/* What is missing in the trace. */
static void put_lacks(const struct alloc_trace_info *i, const struct alloc_counts *c,
                      struct text *out)
{
    if (i->lost_full)
        text_printf(out,
                    "# LOST: %" PRIu64 " calls were not recorded, for want of room in the file "
                    "(%s)\n",
                    i->lost_full, strerror((int)i->full_errno));
    if (i->lost_within)
        text_printf(out, "# LOST: %" PRIu64 " calls of signal handlers were not recorded\n",
                    i->lost_within);
    if (i->children_failed)
        text_printf(out, "# LOST: %" PRIu32 " forked processes have no trace\n",
                    i->children_failed);
    if (i->flags & TRACE_OWN_NEW)
        text_string(out, "# LOST: blocks of operator new, which is the allocator's own here: trace "
                         "with glibc's malloc\n");
    if (c->unknown)
        text_printf(out, "# %" PRIu64 " blocks were freed whose allocation is not in the trace%s\n",
                    c->unknown,
                    i->flags & TRACE_FORKED ? ": the process was forked, so they are mostly of the "
                                              "parent"
                                            : "");
    if (c->unfreed)
        text_printf(out,
                    "# %" PRIu64 " blocks count as freed when their address was given out again\n",
                    c->unfreed);
}

void alloc_put_trace(const char *path, const struct alloc_trace *t, struct text *out)
{
    const struct alloc_trace_info *i = alloc_trace_info(t);
    const struct alloc_counts *c = alloc_trace_counts(t);
    const double seconds = seconds_of(t);
    text_string(out, "# ");
    text_escaped_bytes(out, path, strlen(path));
    text_string(out, ": ");
    text_escaped_bytes(out, i->program, strlen(i->program));
    text_printf(out, ", process %" PRIu32 "%s, %" PRIu32 " threads, %" PRIu64 " calls", i->pid,
                i->flags & TRACE_FORKED ? " (forked)" : "", i->threads, alloc_counts_calls(c));
    if (seconds > 0)
        text_printf(out, " in %.3f s", seconds);
    text_char(out, '\n');
    put_calls(c, out);
    put_lacks(i, c, out);
}

/* ---- table --------------------------------------------------------------------------------- */

static struct alloc_summary summary_of(const struct alloc_comparison *c, size_t i)
{
    const struct alloc_counts *counts = alloc_trace_counts(c->trace);
    return alloc_outcome_sum(&c->outcomes[i], counts->changes, counts->peak);
}

static uint64_t kilobytes(uint64_t bytes)
{
    return (bytes + 512) / 1024;
}

static void put_row(const struct alloc_comparison *c, size_t i, struct text *out)
{
    const struct alloc_summary s = summary_of(c, i);
    const char *name = text_base_name(c->outcomes[i].allocator.name);
    const size_t begin = out->size;
    text_escaped_bytes(out, name, strlen(name));
    for (size_t width = out->size - begin; width < 18; width++)
        text_char(out, ' ');
    text_printf(out, " %8.1f %8.1f %8.3f %11" PRIu64 " %11" PRIu64 " %8.2f\n", s.best_ns,
                s.median_ns, (double)s.cpu_ns / 1e9, kilobytes(s.peak), kilobytes(s.end),
                s.fragmentation);
}

void alloc_put_table(const struct alloc_comparison *c, struct text *out)
{
    alloc_put_trace(c->path, c->trace, out);
    text_printf(
        out, "#\n# replayed %u times; time: free run, best and median; memory: in order, median\n",
        c->repeat);
    text_printf(out, "%-18s %8s %8s %8s %11s %11s %8s\n", "# allocator", "ns/call", "median",
                "cpu s", "peak KB", "end KB", "peak/req");
    for (size_t i = 0; i < c->nr; i++)
        put_row(c, i, out);
    for (size_t i = 0; i < c->nr; i++) {
        const struct alloc_summary s = summary_of(c, i);
        if (s.failed) {
            text_string(out, "# ");
            text_escaped_bytes(out, c->outcomes[i].path, strlen(c->outcomes[i].path));
            text_printf(out, ": %" PRIu64 " calls returned NULL in the replay\n", s.failed);
        }
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void json_trace(const struct alloc_comparison *c, struct json *j)
{
    const struct alloc_trace_info *i = alloc_trace_info(c->trace);
    const struct alloc_counts *counts = alloc_trace_counts(c->trace);
    json_key_string(j, "file", c->path);
    json_key_string(j, "program", i->program);
    json_key_uint(j, "pid", i->pid);
    json_key(j, "forked");
    json_bool(j, i->flags & TRACE_FORKED);
    json_key_uint(j, "threads", i->threads);
    json_key_uint(j, "threads_at_once", i->writers);
    json_key_uint(j, "duration_ns", (uint64_t)(seconds_of(c->trace) * 1e9));
    json_key(j, "calls");
    json_object(j);
    for (unsigned k = TRACE_MALLOC; k < TRACE_OPERATIONS; k++) {
        if (operation_names[k])
            json_key_uint(j, operation_names[k], counts->calls[k]);
    }
    json_object_end(j);
    json_key_uint(j, "returned_null", counts->failed);
    json_key_uint(j, "lost_no_room", i->lost_full);
    json_key_uint(j, "lost_in_signal_handlers", i->lost_within);
    json_key_uint(j, "lost_processes", i->children_failed);
    json_key(j, "lost_operator_new");
    json_bool(j, i->flags & TRACE_OWN_NEW);
    json_key_uint(j, "unknown_blocks", counts->unknown);
    json_key_uint(j, "unfreed_blocks", counts->unfreed);
    json_key_uint(j, "requested_bytes", counts->requested);
    json_key_uint(j, "requested_peak_bytes", counts->peak);
    json_key_uint(j, "requested_end_bytes", counts->live);
}

static void json_free_runs(const struct alloc_outcome *o, struct json *j)
{
    json_key(j, "free_runs");
    json_array(j);
    vec_foreach (m, &o->free) {
        json_object(j);
        json_key_uint(j, "cpu_ns", m->cpu_ns);
        json_key_uint(j, "wall_ns", m->wall_ns);
        json_key_uint(j, "waits", m->waits);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_ordered_runs(const struct alloc_outcome *o, struct json *j)
{
    json_key(j, "ordered_runs");
    json_array(j);
    vec_foreach (m, &o->ordered) {
        json_object(j);
        json_key_uint(j, "base_bytes", m->base);
        json_key_uint(j, "peak_bytes", m->peak);
        json_key_uint(j, "end_bytes", m->end);
        json_key_uint(j, "requested_peak_bytes", m->requested_peak);
        json_key_uint(j, "wall_ns", m->wall_ns);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_outcome(const struct alloc_comparison *c, size_t i, struct json *j)
{
    const struct alloc_outcome *o = &c->outcomes[i];
    const struct alloc_summary s = summary_of(c, i);
    json_object(j);
    json_key_string(j, "name", o->allocator.name);
    json_key_string(j, "library", o->path);
    json_key(j, "ns_per_call");
    json_fixed(j, (int64_t)llround(s.best_ns * 1000), 3);
    json_key(j, "ns_per_call_median");
    json_fixed(j, (int64_t)llround(s.median_ns * 1000), 3);
    json_key_uint(j, "peak_bytes", s.peak);
    json_key_uint(j, "end_bytes", s.end);
    json_key_uint(j, "base_bytes", s.base);
    json_key(j, "fragmentation");
    json_fixed(j, (int64_t)llround(s.fragmentation * 1000), 3);
    json_key_uint(j, "returned_null", s.failed);
    json_free_runs(o, j);
    json_ordered_runs(o, j);
    json_object_end(j);
}

void alloc_put_json(const struct alloc_comparison *c, struct json *j)
{
    json_object(j);
    json_key(j, "trace");
    json_object(j);
    json_trace(c, j);
    json_object_end(j);
    json_key_uint(j, "replayed_calls", alloc_trace_counts(c->trace)->changes);
    json_key_uint(j, "repeat", c->repeat);
    json_key(j, "allocators");
    json_array(j);
    for (size_t i = 0; i < c->nr; i++)
        json_outcome(c, i, j);
    json_array_end(j);
    json_object_end(j);
}

/* ---- plot ---------------------------------------------------------------------------------- */

enum {
    WIDTH = 960,
    HEIGHT = 480,
    LEFT = 80,
    RIGHT = 20,
    TOP = 50,
    BOTTOM = 80,
    TICKS = 5,
    LEGEND_WIDTH = 150,
};

static const char *const colors[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728",
                                     "#9467bd", "#8c564b", "#e377c2", "#17becf"};
enum { NR_COLORS = sizeof(colors) / sizeof(*colors) };

struct plot {
    const struct alloc_comparison *c;
    struct text *out;
    double top; /* bytes at the upper edge */
};

static double x_of(const struct plot *p, uint32_t call)
{
    const uint32_t last = p->c->plan->head.calls - 1;
    return LEFT + (last ? (double)call / last : 0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *p, double bytes)
{
    return HEIGHT - BOTTOM - (p->top > 0 ? bytes / p->top : 0) * (HEIGHT - TOP - BOTTOM);
}

/* Returns a round step by which a scale has some TICKS steps up to `most`. */
static double round_step(double most)
{
    const double rough = most / TICKS, power = pow(10, floor(log10(rough)));
    const double digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void put_label(const struct plot *p, double x, double y, const char *anchor,
                      const char *text)
{
    text_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    text_xml(p->out, text);
    text_string(p->out, "</text>\n");
}

static void put_memory_scale(const struct plot *p)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    char label[64];
    double unit = 1;
    unsigned i = 0;
    for (; p->top / unit >= 1024 && i + 1 < sizeof(units) / sizeof(*units); i++)
        unit *= 1024;
    const double step = p->top > 0 ? round_step(p->top / unit) * unit : 1;
    for (double at = 0; at <= p->top; at += step) {
        text_printf(p->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(p, at),
                    WIDTH - RIGHT);
        snprintf(label, sizeof(label), "%g %s", at / unit, units[i]);
        put_label(p, LEFT - 6, y_of(p, at) + 4, "end", label);
    }
}

static void put_call_scale(const struct plot *p)
{
    char label[64];
    const double most = p->c->plan->head.calls, step = most >= TICKS ? round_step(most) : 1;
    for (double at = 0; at < most; at += step) {
        snprintf(label, sizeof(label), "%.0f", at);
        put_label(p, x_of(p, (uint32_t)at), HEIGHT - BOTTOM + 16, "middle", label);
    }
    put_label(p, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 34, "middle", "calls");
}

static void put_line(const struct plot *p, const uint64_t *bytes, const char *class,
                     const char *color)
{
    const struct alloc_plan *plan = p->c->plan;
    text_printf(p->out, "<polyline class=\"%s\" stroke=\"%s\" points=\"", class, color);
    for (uint32_t i = 0; i < plan->head.samples; i++)
        text_printf(p->out, "%s%.1f,%.1f", i ? " " : "", x_of(p, plan->samples[i]),
                    y_of(p, (double)bytes[i]));
    text_string(p->out, "\"/>\n");
}

static void put_legend(const struct plot *p, unsigned place, const char *name, const char *color,
                       const char *class)
{
    const unsigned columns = (WIDTH - LEFT - RIGHT) / LEGEND_WIDTH;
    const unsigned x = LEFT + place % columns * LEGEND_WIDTH;
    const unsigned y = HEIGHT - 26 + place / columns * 16;
    text_printf(p->out, "<path class=\"%s\" stroke=\"%s\" d=\"M%u %uh20\"/>\n", class, color, x,
                y - 4);
    put_label(p, x + 26, y, "start", name);
}

static double most_memory(const struct alloc_comparison *c)
{
    uint64_t most = alloc_trace_counts(c->trace)->peak;
    for (size_t i = 0; i < c->nr; i++) {
        vec_foreach (bytes, &c->outcomes[i].memory)
            most = *bytes > most ? *bytes : most;
    }
    return (double)most * 1.05;
}

void alloc_put_plot(const struct alloc_comparison *c, struct text *out)
{
    const struct plot p = {.c = c, .out = out, .top = most_memory(c)};
    text_printf(out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "
                "xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\">\n<style>svg{background:#fff}text{font:12px sans-serif;fill:#222}"
                ".grid{stroke:#ddd}.line{fill:none;stroke-width:1.3}.requested{fill:none;"
                "stroke-width:1.3;stroke-dasharray:5 3}</style>\n",
                WIDTH, HEIGHT, WIDTH, HEIGHT);
    text_printf(out, "<text x=\"%d\" y=\"24\" style=\"font-size:15px\">", LEFT);
    text_string(out, "Resident memory of ");
    text_xml(out, text_base_name(alloc_trace_info(c->trace)->program));
    text_string(out, "'s allocations</text>\n");
    put_memory_scale(&p);
    put_call_scale(&p);
    put_line(&p, c->plan->requested, "requested", "#000");
    put_legend(&p, 0, "requested", "#000", "requested");
    for (size_t i = 0; i < c->nr; i++) {
        const struct alloc_outcome *o = &c->outcomes[i];
        if (o->memory.nr != c->plan->head.samples)
            continue;
        put_line(&p, o->memory.at, "line", colors[i % NR_COLORS]);
        put_legend(&p, (unsigned)i + 1, text_base_name(o->allocator.name), colors[i % NR_COLORS],
                   "line");
    }
    text_string(out, "</svg>\n");
}
