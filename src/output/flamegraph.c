/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flame graph's SVG. Frames have their final positions, so that any viewer shows the picture.
 * The script (flamegraph.js) only adds zooming, searching and a line of details. Siblings are
 * sorted by name.
 */
#include "output/flamegraph.h"
#include "base/hash.h"
#include "output/flamegraph_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_HEIGHT = 16,
    MARGIN = 10,
    HEAD = 60,
    FOOT = 24,
    FONT = 12,
    SHADES = 4,
    FILE_MOST = 4 << 20, /* largest file in bytes that is made unless the user sets a width */
};
static const double DOUBT_MARKED = 0.01; /* a smaller doubt is only in the details */
static const double CHAR_WIDTH = 7.25;   /* of the monospaced font, in pixels */

static const char style[] =
    "svg{background:#fafafa}text{font:12px monospace;pointer-events:none}"
    ".page{fill:#222}#title{font-size:17px;text-anchor:middle}.end{text-anchor:end}"
    ".button{pointer-events:all;cursor:pointer}.button:hover,.typing{text-decoration:underline}"
    "#frames g{cursor:pointer}#frames g:hover rect{stroke:#000;stroke-width:.7}"
    "#frames .above{opacity:.5}.hidden{display:none}#frames .found rect{fill:#e600e6}"
    ".q rect{stroke:#444;stroke-width:.8;stroke-dasharray:3 2}"
    "@media(prefers-color-scheme:dark){svg{background:#1e1e1e}.page{fill:#ddd}"
    "#frames g:hover rect{stroke:#fff}.q rect{stroke:#eee}}\n";

/* The text of the script flamegraph.js (included by flamegraph_script.S). */
extern const char flamegraph_script[];
extern const char flamegraph_script_end[];

struct drawing {
    const struct flamegraph_options *options;
    struct flame_tree *tree;
    struct text *out;
    bool comparing;
    double scale; /* pixels per unit of weight */
    double cut;   /* narrower frames are left out, in pixels */
    uint32_t levels;
    unsigned height;
    uint32_t looks; /* one bit for each look that is drawn */
    bool doubts;
};

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

/* ---- looks: the colour says what kind of code a frame is ------------------------------------- */

enum look {
    LOOK_GROUP,
    LOOK_UNKNOWN,
    LOOK_KERNEL,
    LOOK_NATIVE,
    LOOK_INLINED,
    LOOK_LUA_INTERP,
    LOOK_LUA_TRACE,
    LOOK_JS_INTERP,
    LOOK_JS_BASELINE,
    LOOK_JS_MAGLEV,
    LOOK_JS_TURBOFAN,
    LOOK_JS_ASYNC,
    LOOK_WASM,
    LOOK_MANAGED,
    LOOK_GENERATED,
    NR_LOOKS,
};

static const struct {
    const char *word;
    uint16_t hue;
    uint8_t saturation, lightness;
} looks[NR_LOOKS] = {
    [LOOK_GROUP] = {"process", 0, 0, 78},
    [LOOK_UNKNOWN] = {"no name", 0, 0, 68},
    [LOOK_KERNEL] = {"kernel", 208, 75, 68},
    [LOOK_NATIVE] = {"native", 18, 85, 66},
    [LOOK_INLINED] = {"inlined", 48, 85, 66},
    [LOOK_LUA_INTERP] = {"Lua interpreter", 255, 70, 76},
    [LOOK_LUA_TRACE] = {"Lua trace", 285, 65, 68},
    [LOOK_JS_INTERP] = {"JS interpreter", 160, 35, 70},
    [LOOK_JS_BASELINE] = {"JS baseline", 150, 50, 62},
    [LOOK_JS_MAGLEV] = {"JS Maglev", 125, 50, 62},
    [LOOK_JS_TURBOFAN] = {"JS TurboFan", 95, 60, 56},
    [LOOK_JS_ASYNC] = {"JS that awaits", 165, 25, 84},
    [LOOK_WASM] = {"WebAssembly", 185, 55, 62},
    [LOOK_MANAGED] = {"managed", 35, 45, 60},
    [LOOK_GENERATED] = {"generated", 75, 50, 62},
};

/* In a comparison, colours show how much larger or smaller the share became, in this many steps. */
enum { CHANGE_STEPS = 5 };

static const char *const tier_words[NR_TIERS] = {
    [TIER_NONE] = "unknown how", [TIER_INTERP] = "interpreted", [TIER_BASELINE] = "baseline",
    [TIER_TRACE] = "in traces",  [TIER_MAGLEV] = "Maglev",      [TIER_TURBOFAN] = "TurboFan",
    [TIER_ASYNC] = "awaits",
};

static const struct flame_weights *weights_of(const struct drawing *d, const struct flame *f)
{
    return f->tiers ? &d->tree->tiers.at[f->tiers] : NULL;
}

/* Returns the tier with most of the time. */
static int main_tier(const struct flame_weights *w)
{
    int main = TIER_NONE;
    for (int i = 1; i < NR_TIERS; i++)
        if (w->of[i] > w->of[main])
            main = i;
    return main;
}

static enum look managed_look(const struct drawing *d, const struct flame *f)
{
    static const uint8_t js[NR_TIERS] = {
        [TIER_NONE] = LOOK_JS_INTERP,       [TIER_INTERP] = LOOK_JS_INTERP,
        [TIER_BASELINE] = LOOK_JS_BASELINE, [TIER_TRACE] = LOOK_GENERATED,
        [TIER_MAGLEV] = LOOK_JS_MAGLEV,     [TIER_TURBOFAN] = LOOK_JS_TURBOFAN,
        [TIER_ASYNC] = LOOK_JS_ASYNC,
    };
    int tier = main_tier(weights_of(d, f));
    if (*f->name == '[')
        return LOOK_UNKNOWN;
    if (f->function->kind == FRAME_WASM)
        return LOOK_WASM;
    if (f->function->kind == FRAME_MANAGED)
        return LOOK_MANAGED;
    if (f->function->kind == FRAME_LUA)
        return tier == TIER_TRACE ? LOOK_LUA_TRACE : LOOK_LUA_INTERP;
    return js[tier];
}

static enum look look_of(const struct drawing *d, const struct flame *f)
{
    const struct function *fn = f->function;
    if (!fn)
        return LOOK_GROUP;
    if (!fn->symbol)
        return LOOK_UNKNOWN;
    if (function_is_managed(fn))
        return managed_look(d, f);
    if (function_is_kernel(fn))
        return LOOK_KERNEL;
    if (fn->kind == FRAME_JIT)
        return LOOK_GENERATED;
    return fn->inlined ? LOOK_INLINED : LOOK_NATIVE;
}

static double share(uint64_t weight, uint64_t all)
{
    return all ? (double)weight / (double)all : 0;
}

/* Returns the growth of a frame's share against the base, in steps. It is the change relative to
 * the larger one of the two shares, or 0 if the chance in sampling explains the change (two
 * standard deviations). */
static int change_of(const struct drawing *d, const struct flame *f)
{
    const struct flame_tree *t = d->tree;
    double now = share(f->weight, t->flames.at[0].weight);
    double was = share(f->base_weight, t->flames.at[0].base_weight);
    double mean = (now + was) / 2;
    double luck = sqrt(mean * (1 - mean) *
                       (1 / fmax(1, (double)t->samples) + 1 / fmax(1, (double)t->base_samples)));
    if (!(fabs(now - was) > 2 * luck))
        return 0;
    double relative = (now - was) / fmax(now, was);
    return (int)(relative < 0 ? floor(relative * CHANGE_STEPS) : ceil(relative * CHANGE_STEPS));
}

/* Returns the part of a frame's weight in stacks that are not exact; 0 if the frame is always
 * exact. */
static double doubt(const struct flame *f)
{
    return f->provenance == PROVENANCE_EXACT ? 0 : share(f->doubtful, f->weight);
}

static void put_class(struct drawing *d, const struct flame *f)
{
    unsigned shade = (unsigned)(hash_bytes(f->name, strlen(f->name)) >> 8) % SHADES;
    enum look look = look_of(d, f);
    if (d->comparing) {
        int change = f->function ? change_of(d, f) : 0;
        text_printf(d->out, "%c%d", change < 0 ? 'm' : 'p', abs(change));
    } else {
        text_printf(d->out, "%c%u", 'a' + (char)look, shade);
    }
    d->looks |= 1U << look;
    if (doubt(f) >= DOUBT_MARKED) {
        text_string(d->out, " q");
        d->doubts = true;
    }
}

static void put_fill(struct text *t, char letter, unsigned number, unsigned hue,
                     unsigned saturation, unsigned lightness)
{
    text_printf(t, ".%c%u rect,rect.%c%u{fill:hsl(%u,%u%%,%u%%)}", letter, number, letter, number,
                hue, saturation, lightness);
}

static void put_style(const struct drawing *d, struct text *t)
{
    text_string(t, style);
    if (d->comparing) {
        for (unsigned i = 0; i <= CHANGE_STEPS; i++) {
            put_fill(t, 'p', i, 0, i ? 60 + 6 * i : 0, 92 - 7 * i);
            put_fill(t, 'm', i, 215, i ? 60 + 6 * i : 0, 92 - 7 * i);
        }
    } else {
        for (unsigned look = 0; look < NR_LOOKS; look++)
            for (unsigned i = 0; i < SHADES; i++)
                put_fill(t, (char)('a' + look), i, looks[look].hue + 3 * i, looks[look].saturation,
                         looks[look].lightness + 3 * i);
    }
}

/* ---- one frame ------------------------------------------------------------------------------- */

/* Returns the width of the character at `s`: East Asian characters and emoji are two columns wide.
 * flamegraph.js does the same. */
static unsigned columns(const unsigned char *s)
{
    if (*s < 0xe1)
        return 1;
    uint32_t code = *s < 0xf0 ? (uint32_t)(*s & 15) << 12 | (s[1] & 0x3f) << 6 | (s[2] & 0x3f)
                              : (uint32_t)(*s & 7) << 18 | (s[1] & 0x3f) << 12 |
                                    (s[2] & 0x3f) << 6 | (s[3] & 0x3f);
    return (code >= 0x2e80 && code < 0x1f000) || code >= 0x1f300 ||
                   (code >= 0x1100 && code < 0x1160)
               ? 2
               : 1;
}

/* Returns how many bytes of `name` fit into `room` columns. *ret is the number of columns of the
 * whole name. */
static size_t fitting(const char *name, size_t room, size_t *ret)
{
    const unsigned char *p = (const unsigned char *)name;
    size_t used = 0;
    size_t fit = 0;
    while (*p) {
        unsigned n = text_utf8_size(p);
        used += n ? columns(p) : 3; /* written as %XX */
        p += n ? n : 1;
        if (used <= room)
            fit = (size_t)(p - (const unsigned char *)name);
    }
    *ret = used;
    return fit;
}

/* Write as much of the name as fits, or nothing if too little would fit to be read. */
static void put_label(struct text *t, const struct flame *f, double x, double y, double width)
{
    size_t room = width > 6 ? (size_t)((width - 6) / CHAR_WIDTH) : 0;
    size_t all;
    if (room < 3 || !*f->name)
        return;
    size_t size = fitting(f->name, room - 2, &all);
    bool whole = all <= room;
    text_printf(t, "<text x=\"%.2f\" y=\"%.0f\">", x + 3, y + FONT);
    put_xml(t, f->name, whole ? strlen(f->name) : size);
    text_string(t, whole ? "</text>" : "..</text>");
}

static void put_tiers(struct text *t, const struct flame *f, const struct flame_weights *w)
{
    for (int i = 1; w && i < NR_TIERS; i++) {
        double part = 100 * share(w->of[i], f->weight);
        if (part >= 99.5)
            text_printf(t, ", %s", tier_words[i]);
        else if (part >= 0.5)
            text_printf(t, ", %.0f%% %s", part, tier_words[i]);
    }
}

static void put_doubt(struct text *t, const struct flame *f)
{
    bool managed = f->function && function_is_managed(f->function);
    double part = 100 * doubt(f);
    if (part <= 0)
        return;
    text_string(t, ", ");
    if (part < 99.5)
        text_printf(t, "%.1f%% ", part);
    text_string(t, f->provenance == PROVENANCE_GUESS ? "guessed"
                   : managed                         ? "read at another moment"
                                                     : "joined");
}

/* Write the name, and on a second line the details. */
static void put_title(const struct drawing *d, const struct flame *f)
{
    struct text *t = d->out;
    const struct flame *root = d->tree->flames.at;
    bool managed = f->function && function_is_managed(f->function);
    text_xml(t, f->name);
    text_char(t, '\n');
    if (f->function && f->function->inlined && !managed)
        text_string(t, "inlined, ");
    if (f->function && f->function->symbol && f->function->module) {
        text_xml(t, managed ? f->function->module : text_base_name(f->function->module));
        text_string(t, ", ");
    }
    text_printf(t, "%" PRIu64 " ", f->weight);
    text_xml(t, d->options->samples ? "samples" : d->options->unit ? d->options->unit : "units");
    text_printf(t, ", %.2f%%", 100 * share(f->weight, root->weight));
    if (d->comparing)
        text_printf(t, ", was %.2f%%", 100 * share(f->base_weight, root->base_weight));
    put_tiers(t, f, weights_of(d, f));
    put_doubt(t, f);
}

/* Returns where the position of `weight` units from the left is, in pixels. Rectangles are made
 * from rounded edges, not from a rounded position and a rounded width. So no rectangle sticks out
 * of its parent or over its neighbour. */
static double edge(const struct drawing *d, uint64_t weight)
{
    return round((MARGIN + (double)weight * d->scale) * 100) / 100;
}

static void put_flame(struct drawing *d, const struct flame *f, uint32_t level)
{
    struct text *t = d->out;
    double x = edge(d, f->start);
    double width = edge(d, f->start + f->weight) - x;
    double y = d->options->inverted ? HEAD + (double)level * FRAME_HEIGHT
                                    : (double)d->height - FOOT - (level + 1.0) * FRAME_HEIGHT;
    text_string(t, "<g class=\"");
    put_class(d, f);
    text_printf(t, "\" data-f=\"%" PRIu64 " %" PRIu64 "\"><title>", f->start, f->weight);
    put_title(d, f);
    text_printf(t, "</title><rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>", x, y,
                width, FRAME_HEIGHT - 1);
    put_label(t, f, x, y, width);
    text_string(t, "</g>\n");
}

/* Place every flame that is shown, parents first. If `put` is true, also write it. The walk does
 * not recurse, because stacks may be deep. */
static void walk(struct drawing *d, bool put)
{
    struct flame *flames = d->tree->flames.at;
    uint32_t level = 0;
    for (uint32_t at = 0;;) {
        const struct flame *f = &flames[at];
        if (put)
            put_flame(d, f, level);
        if (level >= d->levels)
            d->levels = level + 1;
        if (f->first_child) {
            flames[f->first_child].start = f->start;
            at = f->first_child;
            level++;
            continue;
        }
        for (; at && !flames[at].next; level--)
            at = flames[at].parent;
        if (!at)
            return;
        f = &flames[at];
        flames[f->next].start = f->start + f->weight;
        at = f->next;
    }
}

/* ---- which frames are drawn ------------------------------------------------------------------ */

static int by_weight(const void *a, const void *b, void *context)
{
    const struct flame *flames = context;
    uint64_t x = flames[*(const uint32_t *)a].weight;
    uint64_t y = flames[*(const uint32_t *)b].weight;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Returns about how many bytes a frame takes in the file. */
static size_t flame_size(const struct flame *f)
{
    size_t fixed = 190;
    size_t module =
        f->function && f->function->module ? strlen(text_base_name(f->function->module)) : 0;
    return fixed + module + strlen(f->name) * 5 / 4;
}

/* Returns the least weight that is drawn. If the user set no width, the heaviest flames are drawn
 * that fit into a file of a size that browsers can handle well. Returns -1 if memory is out. */
static double choose_cut(const struct drawing *d)
{
    double asked = d->options->least_width;
    double least = (asked < 0 ? FLAMEGRAPH_LEAST_WIDTH : asked) / d->scale;
    size_t nr = 0;
    size_t size = 0;
    uint32_t *order = calloc(d->tree->flames.nr + 1, sizeof(*order));
    if (!order)
        return -1;
    for (uint32_t i = 0; i < d->tree->flames.nr; i++)
        if ((double)d->tree->flames.at[i].weight >= least)
            order[nr++] = i;
    if (asked < 0 && nr > FILE_MOST / 1000) {
        qsort_r(order, nr, sizeof(*order), by_weight, d->tree->flames.at);
        for (size_t i = 0; i < nr && size <= FILE_MOST; i++) {
            size += flame_size(&d->tree->flames.at[order[i]]);
            if (size > FILE_MOST)
                least = (double)d->tree->flames.at[order[i]].weight + 1;
        }
    }
    free(order);
    return least;
}

/* ---- around the frames ----------------------------------------------------------------------- */

static void put_head(const struct drawing *d)
{
    const struct flamegraph_options *o = d->options;
    struct text *t = d->out;
    text_printf(t,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%u\" "
                "height=\"%u\" viewBox=\"0 0 %u %u\" data-width=\"%u\" data-direction=\"%d\">\n"
                "<style>",
                o->width, d->height, o->width, d->height, o->width, o->inverted ? 1 : -1);
    put_style(d, t);
    text_printf(t, "</style>\n<text id=\"title\" class=\"page\" x=\"%u\" y=\"24\">", o->width / 2);
    text_xml(t, o->title ? o->title : d->comparing ? "Differential flame graph" : "Flame graph");
    text_printf(t,
                "</text>\n<text id=\"reset\" class=\"page button hidden\" x=\"%d\" y=\"24\">Reset "
                "zoom</text>\n<text id=\"search\" class=\"page button end\" x=\"%u\" "
                "y=\"24\">Search</text>\n<text id=\"details\" class=\"page\" x=\"%d\" "
                "y=\"%u\"></text>\n<text id=\"found\" class=\"page end\" x=\"%u\" "
                "y=\"%u\"></text>\n<g id=\"frames\">\n",
                MARGIN, o->width - MARGIN, MARGIN, d->height - 8, o->width - MARGIN, d->height - 8);
}

static double put_word(struct text *t, double x, const char *class, const char *word)
{
    if (*class)
        text_printf(t, "<g class=\"%s\"><rect x=\"%.0f\" y=\"37\" width=\"12\" height=\"12\"/></g>",
                    class, x);
    x += *class ? 16 : 0;
    text_printf(t, "<text class=\"page\" x=\"%.0f\" y=\"47\">%s</text>\n", x, word);
    return x + (double)strlen(word) * CHAR_WIDTH + 14;
}

/* Explain the colours that are used, and say what was left out. */
static void put_legend(const struct drawing *d)
{
    struct text *t = d->out;
    double x = MARGIN;
    char class[8] = {0};
    char word[64];
    text_string(t, "<g id=\"legend\">\n");
    if (d->comparing) {
        x = put_word(t, x, "p5", "larger share than before");
        x = put_word(t, x, "m5", "smaller");
        x = put_word(t, x, "p0", "the same, or no more than chance");
    }
    for (int look = LOOK_UNKNOWN; look < NR_LOOKS && !d->comparing; look++) {
        class[0] = (char)('a' + look);
        class[1] = '0';
        if (d->looks >> look & 1)
            x = put_word(t, x, class, looks[look].word);
    }
    if (d->doubts)
        x = put_word(t, x, d->comparing ? "p0 q" : "a0 q", "not exact");
    snprintf(word, sizeof(word), "narrower than %.2f px left out", d->cut);
    if (d->cut > FLAMEGRAPH_LEAST_WIDTH * 1.01)
        put_word(t, x, "", word);
    text_string(t, "</g>\n");
}

static int draw(struct drawing *d, struct error *err)
{
    const struct flame *root = d->tree->flames.at;
    if (!root->weight)
        return error_set(err, ERROR_NOT_FOUND, "there are no samples to draw");
    d->scale = (double)(d->options->width - 2 * MARGIN) / (double)root->weight;
    double least = choose_cut(d);
    if (least < 0 || flame_tree_link(d->tree, least) < 0)
        return error_no_memory(err);
    d->cut = least * d->scale;
    walk(d, false);
    d->height = HEAD + FOOT + d->levels * FRAME_HEIGHT;
    put_head(d);
    walk(d, true);
    text_string(d->out, "</g>\n");
    put_legend(d);
    text_string(d->out, "<script><![CDATA[\n");
    text_bytes(d->out, flamegraph_script, (size_t)(flamegraph_script_end - flamegraph_script));
    text_string(d->out, "]]></script>\n</svg>\n");
    return d->out->failed ? error_no_memory(err) : 0;
}

int flamegraph_print(const struct stacks *s, const struct stacks *base,
                     const struct flamegraph_options *options, struct text *out, struct error *err)
{
    struct flame_tree tree;
    struct drawing d = {.options = options, .tree = &tree, .out = out, .comparing = base != NULL};
    int failed = flame_tree_init(&tree, s, base, options, err);
    if (!failed)
        failed = draw(&d, err);
    flame_tree_free(&tree);
    return failed;
}
