/* SPDX-License-Identifier: GPL-2.0-only */
/* Prints what `ljperf traces` found of V8, as text and as JSON. */
#include "output/output.h"
#include "output/traces_internal.h"

#include <inttypes.h>

#define MARGIN "                                            "

static double share(const struct traces *t, uint64_t weight)
{
    return t->sum.js_weight ? 100.0 * (double)weight / (double)t->sum.js_weight : 0;
}

/* Returns what is known of a function; NULL: nothing. */
static const struct js_facts *facts_of(const struct traces *t, uint32_t function)
{
    size_t at = FIRST_OF(&t->js_facts, function, function);
    return function && at < t->js_facts.nr && t->js_facts.at[at].function == function
               ? &t->js_facts.at[at]
               : NULL;
}

static uint64_t all_of(const struct traced_js *f)
{
    uint64_t all = 0;
    for (int i = 0; i < NR_TIERS; i++)
        all += f->weight[i];
    return all;
}

static unsigned sum_of(const unsigned nr[NR_TIERS])
{
    return nr[TIER_MAGLEV] + nr[TIER_TURBOFAN];
}

/* ---- reasons --------------------------------------------------------------------------------- */

enum { PLACES_TOLD = 8 };

/* Append the places of the exits that are like number `first`: "at line 7 (5), line 9 of g
 * app.js:3". Returns how many samples they have. */
static uint64_t put_places(const struct traces *t, const struct js_facts *f, size_t first,
                           struct text *out)
{
    const struct js_exit *like = &f->exits.at[first];
    uint64_t samples = 0;
    unsigned nr = 0;
    for (size_t i = first; i < f->exits.nr; i++) {
        const struct js_exit *e = &f->exits.at[i];
        if (e->kind != like->kind || e->reason != like->reason)
            continue;
        samples += e->samples;
        if (!e->at.function || nr++ >= PLACES_TOLD)
            continue;
        text_string(out, nr > 1                       ? ", "
                         : e->kind == JS_EXIT_UNKNOWN ? "; the interpreter goes on at "
                                                      : ", at ");
        traces_put_place(t, &e->at, f->function, out);
        if (e->samples > 1)
            text_printf(out, " (%" PRIu64 ")", e->samples);
    }
    if (nr > PLACES_TOLD)
        text_printf(out, ", and %u other places", nr - PLACES_TOLD);
    return samples;
}

/* Is number `i` the first one of its kind and reason? */
static bool is_first(const struct js_facts *f, size_t i)
{
    const struct js_exit *e = &f->exits.at[i];
    for (size_t k = 0; k < i; k++) {
        if (f->exits.at[k].kind == e->kind && f->exits.at[k].reason == e->reason)
            return false;
    }
    return true;
}

/* Append a line for each way in which samples show that code was left: "3 samples: wrong map, at
 * line 7". Returns the number of lines. */
static unsigned put_exits(const struct traces *t, const struct js_facts *f, const char *margin,
                          struct text *out)
{
    unsigned nr = 0;
    for (size_t i = 0; i < f->exits.nr; i++) {
        const struct js_exit *e = &f->exits.at[i];
        const char *reason = v8_deopt_text(e->reason);
        struct text places = {0};
        if (!is_first(f, i))
            continue;
        uint64_t samples = put_places(t, f, i, &places);
        text_printf(out, "%s  %" PRIu64 " sample%s: %s", margin, samples, samples == 1 ? "" : "s",
                    e->kind == JS_EXIT_LAZY ? "a call returned to code that was deoptimized already"
                    : reason                ? reason
                                            : "the reason is not known");
        text_bytes(out, places.at, places.size);
        text_char(out, '\n');
        out->failed |= places.failed;
        text_free(&places);
        nr++;
    }
    return nr;
}

/* Append "deoptimized at least 12 times (3 of Maglev's code, 9 of TurboFan's)", and below it what
 * samples show. Returns the number of lines. */
static unsigned put_deoptimized(const struct traces *t, const struct js_facts *f,
                                const char *margin, struct text *out)
{
    unsigned nr = sum_of(f->marked);
    text_string(out, margin);
    if (nr)
        text_printf(out, "deoptimized at least %u time%s", nr, nr == 1 ? "" : "s");
    else
        text_string(out, "optimized code was left in it");
    if (f->marked[TIER_MAGLEV] && f->marked[TIER_TURBOFAN])
        text_printf(out, " (%u of Maglev's code, %u of TurboFan's)", f->marked[TIER_MAGLEV],
                    f->marked[TIER_TURBOFAN]);
    else if (nr)
        text_string(out, f->marked[TIER_MAGLEV] ? " (Maglev's code)" : " (TurboFan's code)");
    text_string(out, f->exits.nr ? ":\n" : "; no sample shows why\n");
    return 1 + put_exits(t, f, margin, out);
}

/* Whether it was, or may have been: without samples nobody knows whether they ran such code. */
static bool is_optimized(const struct traces *t, const struct traced_js *f,
                         const struct js_facts *of)
{
    return !t->sum.samples || sum_of(of->codes) || of->exits.nr || f->weight[TIER_MAGLEV] ||
           f->weight[TIER_TURBOFAN];
}

/* Append why a function is not optimized. Returns false if nothing is to be said. */
static bool put_disabled(const struct traces *t, const struct traced_js *f,
                         const struct js_facts *of, struct text *out)
{
    const char *reason = of->reason_told ? v8_disabled_text(of->reason) : NULL;
    if (reason)
        text_printf(out, "V8 has noted a reason not to optimize it: %s", reason);
    else if (!is_optimized(t, f, of) && of->bytecode > V8_OPTIMIZED_BYTECODE_MAX)
        text_printf(out,
                    "not seen optimized: its bytecode has %" PRIu32
                    " bytes, and V8's default limit is %d (--max-optimized-bytecode-size)",
                    of->bytecode, V8_OPTIMIZED_BYTECODE_MAX);
    else
        return false;
    return true;
}

/* A function with so much of the time, percent, is said to be not optimized even if V8 tells no
 * reason. */
#define HOT 5.0

/* Append what is known about a function. Returns the number of lines. */
static unsigned put_reasons(const struct traces *t, const struct traced_js *f, const char *margin,
                            struct text *out)
{
    const struct js_facts *of = facts_of(t, f->function);
    unsigned nr = 0;
    if (!of)
        return 0;
    const size_t before = out->size;
    text_string(out, margin);
    if (put_disabled(t, f, of, out)) {
        text_char(out, '\n');
        nr++;
    } else if (!is_optimized(t, f, of) && share(t, all_of(f)) >= HOT) {
        text_string(out, of->reason_told ? "not seen optimized: V8 has noted nothing against it\n"
                                         : "not seen optimized: this version does not tell why\n");
        nr++;
    } else {
        out->size = before;
    }
    if (sum_of(of->marked) || of->exits.nr)
        nr += put_deoptimized(t, of, margin, out);
    return nr;
}

void traces_js_put_reasons(const struct traces *t, uint32_t function, const char *margin,
                           struct text *out)
{
    struct traced_js one = {.function = function};
    vec_foreach (f, &t->sum.js)
        one = f->function == function ? *f : one;
    (void)put_reasons(t, &one, margin, out);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void sum_tiers(const struct traces *t, uint64_t ret[NR_TIERS])
{
    for (int i = 0; i < NR_TIERS; i++)
        ret[i] = 0;
    vec_foreach (f, &t->sum.js) {
        for (int i = 0; i < NR_TIERS; i++)
            ret[i] += f->weight[i];
    }
}

void traces_put_v8(const struct traces *t, const char *margin, struct text *out)
{
    unsigned codes = 0, marked = 0;
    bool told = false;
    vec_foreach (f, &t->js_facts) {
        codes += sum_of(f->codes);
        marked += sum_of(f->marked);
        told |= f->marks_told;
    }
    if (!t->has_js_facts)
        traces_put_no_facts(margin, out);
    if (!codes)
        return;
    text_printf(out, "%s%u piece%s of optimized code %s seen", margin, codes, codes == 1 ? "" : "s",
                codes == 1 ? "was" : "were");
    if (told)
        text_printf(out, "; deoptimized: %u\n", marked);
    else
        text_string(out, "; this version of V8 does not tell what was deoptimized\n");
}

static void put_head(const struct traces *t, struct text *out)
{
    uint64_t tiers[NR_TIERS];
    sum_tiers(t, tiers);
    text_printf(out,
                "# V8 ran JavaScript in %.1f %% of the samples' time. Of that, %.1f %% was "
                "interpreted, %.1f %% was baseline code, %.1f %% Maglev's, %.1f %% TurboFan's\n",
                t->sum.all ? 100.0 * (double)t->sum.js_weight / (double)t->sum.all : 0,
                share(t, tiers[TIER_INTERP]), share(t, tiers[TIER_BASELINE]),
                share(t, tiers[TIER_MAGLEV]), share(t, tiers[TIER_TURBOFAN]));
    traces_put_v8(t, "# ", out);
}

void traces_js_put_text(const struct traces *t, struct text *out)
{
    size_t left_out = 0;
    if (!t->sum.js_weight)
        return;
    put_head(t, out);
    text_string(out, "\n# Interpreted  Baseline    Maglev  TurboFan  Function\n");
    vec_foreach (f, &t->sum.js) {
        size_t at = out->size;
        text_printf(out, "    %8.2f%% %8.2f%% %8.2f%% %8.2f%%  ", share(t, f->weight[TIER_INTERP]),
                    share(t, f->weight[TIER_BASELINE]), share(t, f->weight[TIER_MAGLEV]),
                    share(t, f->weight[TIER_TURBOFAN]));
        if (!traces_put_function(t, f->function, out))
            text_string(out, "(unknown function)");
        text_char(out, '\n');
        unsigned nr = put_reasons(t, f, MARGIN, out);
        if (share(t, all_of(f)) >= t->options.least)
            continue;
        left_out += nr != 0;
        out->size = at;
    }
    traces_put_left_out(t, left_out, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void key_tiers(struct json *j, const struct traces *t, const uint64_t weight[NR_TIERS])
{
    static const struct {
        uint8_t tier;
        const char *key;
    } tiers[] = {{TIER_INTERP, "interpreted"},
                 {TIER_BASELINE, "baseline"},
                 {TIER_MAGLEV, "maglev"},
                 {TIER_TURBOFAN, "turbofan"},
                 {TIER_NONE, "unknown"}};
    for (size_t i = 0; i < sizeof(tiers) / sizeof(*tiers); i++) {
        json_key(j, tiers[i].key);
        json_share(j, share(t, weight[tiers[i].tier]));
    }
}

static void json_exit(struct json *j, const struct traces *t, const struct js_exit *e)
{
    static const char *const kinds[] = {
        [JS_EXIT_EAGER] = "eager", [JS_EXIT_LAZY] = "lazy", [JS_EXIT_UNKNOWN] = "unknown"};
    json_object(j);
    json_key_string(j, "kind", kinds[e->kind]);
    json_key_string(j, "reason", e->kind == JS_EXIT_EAGER ? v8_deopt_text(e->reason) : NULL);
    json_key_uint(j, "samples", e->samples);
    if (e->at.function)
        traces_key_place(j, t, e->kind == JS_EXIT_UNKNOWN ? "resumes_at" : "at", &e->at);
    json_object_end(j);
}

/* `key`: of two numbers, Maglev's and TurboFan's. */
static void key_codes(struct json *j, const char *key, const unsigned nr[NR_TIERS])
{
    json_key(j, key);
    json_object(j);
    json_key_uint(j, "maglev", nr[TIER_MAGLEV]);
    json_key_uint(j, "turbofan", nr[TIER_TURBOFAN]);
    json_object_end(j);
}

static void json_facts(struct json *j, const struct traces *t, const struct js_facts *of)
{
    if (of->bytecode)
        json_key_uint(j, "bytecode_bytes", of->bytecode);
    if (of->reason_told)
        json_key_string(j, "disabled", v8_disabled_text(of->reason));
    key_codes(j, "codes", of->codes);
    if (of->marks_told)
        key_codes(j, "deoptimized", of->marked);
    json_key(j, "exits");
    json_array(j);
    vec_foreach (e, &of->exits)
        json_exit(j, t, e);
    json_array_end(j);
}

void traces_js_put_json(const struct traces *t, struct json *j)
{
    uint64_t tiers[NR_TIERS];
    if (!t->sum.js_weight)
        return;
    sum_tiers(t, tiers);
    json_key(j, "v8");
    json_object(j);
    key_tiers(j, t, tiers);
    json_key(j, "functions");
    json_array(j);
    vec_foreach (f, &t->sum.js) {
        const struct js_facts *of = facts_of(t, f->function);
        json_object(j);
        traces_key_function(j, t, "function", f->function);
        key_tiers(j, t, f->weight);
        if (of)
            json_facts(j, t, of);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}
