/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flame graph's SVG. Frames stand at their final places, so that any viewer shows the picture;
 * the script only adds zooming (click), searching (Ctrl-F or the corner) and a line of details.
 * Siblings are in the order of their names.
 */
#include "base/intern.h"
#include "output/flamegraph.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_HEIGHT = 16,
    MARGIN = 10,
    HEAD = 40,
    FOOT = 24,
    FONT = 12,
};
static const double CHAR_WIDTH = 7.0; /* of the monospaced font, pixels */

static const char style[] =
    "text{font:12px monospace;pointer-events:none}#title{font-size:17px;text-anchor:middle}"
    ".button{pointer-events:all;cursor:pointer}#frames g{cursor:pointer}"
    "#frames g:hover rect{stroke:#000;stroke-width:.7}.above{opacity:.5}.hidden{display:none}"
    ".found rect{fill:#e600e6}";

/* Every frame's <g> carries data-f="start weight" in the total's units; the first line of its
 * <title> is the function's name. */
static const char script[] =
    "'use strict';\n"
    "(function () {\n"
    "var svg = document.documentElement, M = 10, C = 7, W = +svg.getAttribute('data-width') - 2 * "
    "M;\n"
    "var dir = +svg.getAttribute('data-direction');\n"
    "function el(id) { return document.getElementById(id); }\n"
    "var all = Array.from(document.querySelectorAll('#frames g')).map(function (g) {\n"
    "  var v = g.getAttribute('data-f').split(' '), r = g.querySelector('rect');\n"
    "  var lines = g.querySelector('title').textContent.split('\\n');\n"
    "  return {g: g, r: r, t: g.querySelector('text'), s: +v[0], w: +v[1],\n"
    "          y: +r.getAttribute('y'), name: lines[0], says: lines.join('  ')};\n"
    "});\n"
    "var root = all[0];\n"
    "function place(f, x, w) {\n"
    "  var n = Math.floor((w - 6) / C);\n"
    "  f.r.setAttribute('x', x);\n"
    "  f.r.setAttribute('width', w);\n"
    "  if (!f.t) {\n"
    "    f.t = document.createElementNS('http://www.w3.org/2000/svg', 'text');\n"
    "    f.t.setAttribute('y', f.y + 12);\n"
    "    f.g.appendChild(f.t);\n"
    "  }\n"
    "  f.t.setAttribute('x', x + 3);\n"
    "  f.t.textContent = n < 3 ? '' : f.name.length <= n ? f.name : f.name.slice(0, n - 2) + "
    "'..';\n"
    "}\n"
    "function zoom(z) {\n"
    "  var e = z.w * 1e-9, k = W / z.w;\n"
    "  all.forEach(function (f) {\n"
    "    var deeper = (f.y - z.y) * dir >= 0;\n"
    "    var inside = deeper && f.s >= z.s - e && f.s + f.w <= z.s + z.w + e;\n"
    "    var above = !deeper && f.s <= z.s + e && f.s + f.w >= z.s + z.w - e;\n"
    "    f.g.classList.toggle('hidden', !inside && !above);\n"
    "    f.g.classList.toggle('above', above);\n"
    "    if (above) place(f, M, W);\n"
    "    else if (inside) place(f, M + (f.s - z.s) * k, f.w * k);\n"
    "  });\n"
    "  el('reset').classList.toggle('hidden', z === root);\n"
    "}\n"
    "function find(pattern) {\n"
    "  var re = pattern ? new RegExp(pattern) : null, end = -1, sum = 0;\n"
    "  all.filter(function (f) {\n"
    "    var hit = re !== null && f !== root && re.test(f.name);\n"
    "    f.g.classList.toggle('found', hit);\n"
    "    return hit;\n"
    "  }).sort(function (a, b) { return a.s - b.s || b.w - a.w; }).forEach(function (f) {\n"
    "    var from = Math.max(f.s, end), to = f.s + f.w;\n"
    "    if (to > from) { sum += to - from; end = to; }\n"
    "  });\n"
    "  el('found').textContent = re ? 'Found: ' + (100 * sum / root.w).toFixed(2) + '%' : '';\n"
    "}\n"
    "function search() {\n"
    "  var pattern = prompt('Find functions (a regular expression):', '');\n"
    "  if (pattern === null) return;\n"
    "  try { find(pattern); } catch (error) { alert(error.message); }\n"
    "}\n"
    "all.forEach(function (f) {\n"
    "  f.g.addEventListener('click', function () { zoom(f); });\n"
    "  f.g.addEventListener('mouseover', function () { el('details').textContent = f.says; });\n"
    "  f.g.addEventListener('mouseout', function () { el('details').textContent = ''; });\n"
    "});\n"
    "el('reset').addEventListener('click', function () { zoom(root); });\n"
    "el('search').addEventListener('click', search);\n"
    "window.addEventListener('keydown', function (e) {\n"
    "  if ((e.ctrlKey || e.metaKey) && e.key === 'f') { e.preventDefault(); search(); }\n"
    "});\n"
    "})();\n";

/* ---- XML ----------------------------------------------------------------------------------- */

static void put_xml(struct text *t, const char *s, size_t size)
{
    const unsigned char *p = (const unsigned char *)s;
    for (const unsigned char *end = p + size; p < end;) {
        unsigned n = text_utf8_size(p);
        if (!n)
            text_printf(t, "%%%02X", *p);
        else if (*p == '&')
            text_string(t, "&amp;");
        else if (*p == '<')
            text_string(t, "&lt;");
        else if (*p == '>')
            text_string(t, "&gt;");
        else if (*p == '"')
            text_string(t, "&quot;");
        else
            text_bytes(t, (const char *)p, n);
        p += n ? n : 1;
    }
}

void text_xml(struct text *t, const char *s)
{
    put_xml(t, s, strlen(s));
}

/* ---- the tree of what is shown -------------------------------------------------------------- */

struct flame {
    uint32_t parent, first_child, next;
    uint64_t start;  /* where it begins, in units of weight from the left */
    uint64_t weight; /* itself and everything below */
    const char *name;
    const struct function *function; /* NULL: the root or a command */
    uint8_t provenance;
};

struct drawing {
    const struct stacks *stacks;
    const struct flamegraph_options *options;
    struct flame *flames; /* of each node of the stacks */
    size_t nr;
    struct intern *strings; /* names of unknown functions */
    struct text *out;
    double scale; /* pixels per unit */
    uint32_t levels;
    unsigned height;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* As fold writes it: an unknown function is "[module]". NULL when memory is out. */
static const char *flame_name(const struct drawing *d, const struct stack_node *n)
{
    if (n->depth == 1)
        return stacks_group(d->stacks, n->function)->comm;
    const struct function *f = stacks_function(d->stacks, n->function);
    if (f->symbol || !f->module)
        return f->symbol ? f->symbol : "[unknown]";
    struct text t = {0};
    text_printf(&t, "[%s]", base_name(f->module));
    const char *name = t.failed ? NULL : intern_bytes(d->strings, t.at, t.size);
    text_free(&t);
    return name;
}

/* Fill weights from the leaves up; nodes of other events stay without. */
static int weigh(struct drawing *d)
{
    const struct flamegraph_options *o = d->options;
    int event = stacks_event(d->stacks, o->event);
    for (size_t i = d->nr; i-- > 1;) {
        const struct stack_node *n = stacks_node(d->stacks, i);
        struct flame *f = &d->flames[i];
        f->parent = n->parent;
        f->weight += o->samples || !n->period ? n->samples : n->period;
        f->name = flame_name(d, n);
        if (!f->name)
            return -1;
        f->provenance = n->provenance;
        f->function = n->depth > 1 ? stacks_function(d->stacks, n->function) : NULL;
        if (n->depth == 1 && stacks_group(d->stacks, n->function)->event != event)
            f->weight = 0;
        d->flames[n->parent].weight += f->weight;
    }
    d->flames[0].name = "all";
    return 0;
}

static int compare(const struct flame *a, const struct flame *b)
{
    int order = strcmp(a->name, b->name);
    if (order || !a->function || !b->function)
        return order;
    const struct function *f = a->function;
    const struct function *g = b->function;
    order = strcmp(f->module ? f->module : "", g->module ? g->module : "");
    order = order ? order : f->kind - g->kind;
    order = order ? order : f->tier - g->tier;
    return order ? order : f->inlined - g->inlined;
}

static int by_parent_and_name(const void *a, const void *b, void *context)
{
    const struct drawing *d = context;
    const struct flame *x = &d->flames[*(const uint32_t *)a];
    const struct flame *y = &d->flames[*(const uint32_t *)b];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return compare(x, y);
}

/* Link siblings in the order of their names. */
static int link_siblings(struct drawing *d)
{
    uint32_t *order = calloc(d->nr, sizeof(*order));
    size_t nr = 0;
    if (!order)
        return -1;
    for (uint32_t i = 1; i < d->nr; i++)
        if ((double)d->flames[i].weight * d->scale >= d->options->least_width &&
            d->flames[i].weight)
            order[nr++] = i;
    qsort_r(order, nr, sizeof(*order), by_parent_and_name, d);
    for (size_t i = nr; i-- > 0;) {
        struct flame *up = &d->flames[d->flames[order[i]].parent];
        d->flames[order[i]].next = up->first_child;
        up->first_child = order[i];
    }
    free(order);
    return 0;
}

/* ---- drawing ------------------------------------------------------------------------------- */

/* Hue and lightness say the kind of code; a little noise by name tells neighbours apart. */
static void put_color(struct text *t, const struct flame *f)
{
    unsigned noise = (unsigned)(hash_bytes(f->name, strlen(f->name)) >> 8) & 15;
    const struct function *fn = f->function;
    unsigned hue = 20; /* native: warm */
    bool guest = fn && function_is_guest(fn);
    if (!fn || !fn->symbol || (guest && *fn->symbol == '[')) {
        text_printf(t, "hsl(0,0%%,%u%%)", 78 + noise / 2);
        return;
    }
    if (fn->kind == FRAME_KERNEL || fn->kind == FRAME_GUEST_KERNEL)
        hue = 205;
    else if (fn->kind == FRAME_LUA)
        hue = 250;
    else if (fn->kind == FRAME_JIT || guest)
        hue = 105;
    else if (fn->inlined)
        hue = 50;
    text_printf(t, "hsl(%u,%u%%,%u%%)", hue + noise, 75 + noise, 62 + noise / 2);
}

/* As much of the name as fits; nothing when that is too little to read. */
static void put_label(struct text *t, const struct flame *f, double x, double y, double width)
{
    size_t room = width > 6 ? (size_t)((width - 6) / CHAR_WIDTH) : 0;
    size_t size = strlen(f->name);
    bool whole = size <= room;
    if (room < 3 || !size)
        return;
    size = whole ? size : room - 2;
    while (!whole && size && ((unsigned char)f->name[size] & 0xc0) == 0x80)
        size--; /* not inside a character */
    text_printf(t, "<text x=\"%.1f\" y=\"%.0f\">", x + 3, y + FONT);
    put_xml(t, f->name, size);
    text_string(t, whole ? "</text>" : "..</text>");
}

/* The name, and on a line of its own what there is to say about it. */
static void put_title(const struct drawing *d, const struct flame *f)
{
    static const char *const doubts[] = {"", ", joined", ", guessed"};
    bool guest = f->function && function_is_guest(f->function);
    const char *doubt = f->provenance <= PROVENANCE_GUESS ? doubts[f->provenance] : "";
    if (guest && f->provenance == PROVENANCE_IMAGE)
        doubt = ", read at another moment";
    struct text *t = d->out;
    text_xml(t, f->name);
    text_char(t, '\n');
    if (f->function && f->function->inlined)
        text_string(t, "inlined, ");
    if (f->function && f->function->symbol && f->function->module) {
        text_xml(t, function_is_guest(f->function) ? f->function->module
                                                   : base_name(f->function->module));
        text_string(t, ", ");
    }
    text_printf(t, "%" PRIu64 " ", f->weight);
    text_xml(t, d->options->samples ? "samples" : d->options->unit ? d->options->unit : "units");
    text_printf(t, ", %.2f%%%s", 100.0 * (double)f->weight / (double)d->flames[0].weight, doubt);
}

static void put_flame(const struct drawing *d, const struct flame *f, uint32_t level)
{
    struct text *t = d->out;
    double x = MARGIN + (double)f->start * d->scale;
    double width = (double)f->weight * d->scale;
    double y = d->options->inverted ? HEAD + (double)level * FRAME_HEIGHT
                                    : (double)d->height - FOOT - (level + 1.0) * FRAME_HEIGHT;
    text_printf(t, "<g data-f=\"%" PRIu64 " %" PRIu64 "\"><title>", f->start, f->weight);
    put_title(d, f);
    text_printf(t, "</title><rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"", x, y,
                width, FRAME_HEIGHT - 1);
    put_color(t, f);
    text_string(t, "\"/>");
    put_label(t, f, x, y, width);
    text_string(t, "</g>\n");
}

/* Place every flame that is shown, parents first; `put`: write it, too. Without recursion: stacks
 * may be deep. */
static void walk(struct drawing *d, bool put)
{
    uint32_t level = 0;
    for (uint32_t at = 0;;) {
        const struct flame *f = &d->flames[at];
        if (put)
            put_flame(d, f, level);
        if (level >= d->levels)
            d->levels = level + 1;
        if (f->first_child) {
            d->flames[f->first_child].start = f->start;
            at = f->first_child;
            level++;
            continue;
        }
        for (; at && !d->flames[at].next; level--)
            at = d->flames[at].parent;
        if (!at)
            return;
        f = &d->flames[at];
        d->flames[f->next].start = f->start + f->weight;
        at = f->next;
    }
}

static void put_head(const struct drawing *d)
{
    const struct flamegraph_options *o = d->options;
    struct text *t = d->out;
    text_printf(t,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%u\" "
                "height=\"%u\" viewBox=\"0 0 %u %u\" data-width=\"%u\" data-direction=\"%d\">\n"
                "<style>%s</style>\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#f8f8f8\"/>\n"
                "<text id=\"title\" x=\"%u\" y=\"24\">",
                o->width, d->height, o->width, d->height, o->width, o->inverted ? 1 : -1, style,
                o->width / 2);
    text_xml(t, o->title ? o->title : "Flame graph");
    text_printf(
        t,
        "</text>\n<text id=\"reset\" class=\"button hidden\" x=\"%d\" y=\"24\">Reset "
        "zoom</text>\n<text id=\"search\" class=\"button\" x=\"%u\" y=\"24\" "
        "text-anchor=\"end\">Search</text>\n<text id=\"details\" x=\"%d\" y=\"%u\"></text>\n"
        "<text id=\"found\" x=\"%u\" y=\"%u\" text-anchor=\"end\"></text>\n"
        "<g id=\"frames\">\n",
        MARGIN, o->width - MARGIN, MARGIN, d->height - 8, o->width - MARGIN, d->height - 8);
}

int flamegraph_print(const struct stacks *s, const struct flamegraph_options *options,
                     struct text *out, struct error *err)
{
    struct drawing d = {.stacks = s, .options = options, .out = out, .nr = stacks_nr_nodes(s)};
    d.flames = calloc(d.nr, sizeof(*d.flames));
    d.strings = intern_create();
    int failed = 0;
    if (!d.flames || !d.strings || weigh(&d) < 0) {
        failed = error_no_memory(err);
    } else if (!d.flames[0].weight) {
        failed = error_set(err, ERROR_NOT_FOUND, "there are no samples to draw");
    } else {
        d.scale = (double)(options->width - 2 * MARGIN) / (double)d.flames[0].weight;
        failed = link_siblings(&d) < 0 ? error_no_memory(err) : 0;
    }
    if (!failed) {
        walk(&d, false);
        d.height = HEAD + FOOT + d.levels * FRAME_HEIGHT;
        put_head(&d);
        walk(&d, true);
        text_printf(out, "</g>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", script);
        failed = out->failed ? error_no_memory(err) : 0;
    }
    free(d.flames);
    intern_free(d.strings);
    return failed;
}
