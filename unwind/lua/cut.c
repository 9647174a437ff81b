/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deals the calls of each state out to its activations. See walk.h.
 *
 * A state's list of calls has the newest first. An activation runs the Lua functions from the one
 * that it was entered with ("fresh") up to the newest one; a C function that one of them has
 * called, and a Lua function that this C function has called, come with activations of their own.
 * So the list is a row of runs: C functions, then Lua functions that end with a fresh one. The
 * first activation has the first run, and so on. What does not fit:
 *
 *  - a call was just pushed and its activation is not entered yet, or an error is on its way down
 *    and its calls are not taken off yet: there are runs in front of the first activation's,
 *    which no activation gets;
 *  - the innermost activation's call was just taken off: it has no run;
 *  - a coroutine that had yielded within C functions was resumed: only its newest run has an
 *    activation, and the outermost activation has all older ones behind it (`rest`).
 */
#include "unwind/lua/walk.h"

/* Returns the index of the newest Lua call from `at` on; `s->end` if there is none. */
static size_t skip_c(const struct lua_walk *w, const struct lua_walk_state *s, size_t at)
{
    while (at < s->end && !w->calls.at[at].is_lua)
        at++;
    return at;
}

/* Returns the end of the run that begins at `at`. `left`: Lua functions that it has, where calls
 * have no marks (5.1). */
static size_t run_end(const struct lua_walk *w, const struct lua_walk_state *s, size_t at,
                      uint32_t left)
{
    bool counted = s->layout->fields.ci.is_array;
    for (; at < s->end; at++) {
        const struct lua_call *c = &w->calls.at[at];
        if (counted && c->is_lua && --left == 0)
            return at + 1;
        if (!counted && c->is_lua && c->is_fresh)
            return at + 1;
    }
    return s->end;
}

/* ---- runs that are marked (5.2 on) --------------------------------------------------------- */

/* Returns how many whole runs the list has. */
static size_t count_runs(const struct lua_walk *w, const struct lua_walk_state *s)
{
    size_t nr = 0;
    for (size_t i = s->first; i < s->end; i++)
        nr += w->calls.at[i].is_lua && w->calls.at[i].is_fresh;
    /* Functions beyond the last mark were entered by an activation that is gone. */
    size_t last = s->end;
    while (last > s->first && !w->calls.at[last - 1].is_lua)
        last--;
    return nr + (last > s->first && !w->calls.at[last - 1].is_fresh);
}

/* Does the activation's frame speak of the newest run? execute keeps its call's address. While that
 * call makes another one, or that one returns, the list and the frame differ by one. */
static bool has_newest_run(struct lua_walk *w, const struct lua_walk_state *s,
                           const struct lua_activation *a)
{
    size_t newest = skip_c(w, s, s->first);
    if (newest == s->end)
        return false;
    const struct lua_call *c = &w->calls.at[newest];
    return lua_activation_has(w, a, c->ci) || lua_activation_has_next(w, a, c) ||
           (!c->is_fresh && newest + 1 < s->end && lua_activation_has(w, a, c[1].ci));
}

/* Returns the run that the activation's frame speaks of. `nr`: how many runs may be tried. Returns
 * `nr`: none. */
static size_t run_in_frame(struct lua_walk *w, const struct lua_walk_state *s,
                           const struct lua_activation *a, size_t nr)
{
    if (nr && has_newest_run(w, s, a))
        return 0;
    size_t at = run_end(w, s, s->first, 0);
    for (size_t run = 1; run < nr; run++) {
        size_t newest = skip_c(w, s, at);
        if (newest < s->end && lua_activation_has(w, a, w->calls.at[newest].ci))
            return run;
        at = run_end(w, s, at, 0);
    }
    return nr;
}

/* Is the newest call one that has run nothing yet? Where a mark tells the calls that Lua itself has
 * made (CIST_REENTRY), it does not have it yet. */
static bool is_being_made(const struct lua_walk *w, const struct lua_walk_state *s)
{
    const struct lua_call *newest = &w->calls.at[s->first];
    return s->layout->fields.ci.fresh_if_clear && s->end - s->first > 1 && newest->is_lua &&
           newest->index == UINT32_MAX;
}

/* Returns how many runs are in front of the first activation's. `a`: the first activation; `nr`:
 * the number of all of the state, which has `runs` runs. *doubted: that is not sure. A call that is
 * being made is joined with the run that it belongs to. */
static size_t runs_in_front(struct lua_walk *w, const struct lua_walk_state *s,
                            const struct lua_activation *a, size_t runs, size_t nr, bool *doubted)
{
    if (!s->whole || runs <= nr)
        return 0;
    if (runs == nr + 1 && is_being_made(w, s)) {
        /* execute itself has made it, and goes on with it. */
        bool is_same = a->flags & (FRAME_LEAF | FRAME_SIGNAL) && w->calls.at[s->first + 1].is_lua;
        w->calls.at[s->first].is_fresh = !is_same;
        return !is_same;
    }
    size_t more = runs - nr, told = run_in_frame(w, s, a, more + 1);
    if (told <= more)
        return told;
    /* A coroutine has its old runs behind its activations; nothing else has. */
    *doubted = more > 1 || !s->is_main;
    return s->is_main ? more : 0;
}

/* ---- runs that activations count (5.1) ----------------------------------------------------- */

static uint32_t nr_lua(const struct lua_walk *w, const struct lua_walk_state *s)
{
    uint32_t nr = 0;
    for (size_t i = s->first; i < s->end; i++)
        nr += w->calls.at[i].is_lua;
    return nr;
}

/* ---- dealing out --------------------------------------------------------------------------- */

/* Give the activation the calls up to `end`. Returns where the next one's begin. */
static size_t give(struct lua_activation *a, size_t at, size_t end, bool doubted)
{
    a->first = at;
    a->end = end;
    a->doubted |= doubted;
    return end;
}

static void cut_marked(struct lua_walk *w, struct lua_walk_state *s, int number,
                       struct lua_activation *first, size_t nr)
{
    bool doubted = false;
    size_t runs = count_runs(w, s), at = s->first;
    /* The innermost frame of all may have just lost its call. */
    bool empty = s->whole && runs < nr && first == w->activations.at;
    bool short_of = s->whole && runs + empty < nr;
    for (size_t skip = runs_in_front(w, s, first, runs, nr, &doubted); skip; skip--)
        at = run_end(w, s, at, 0);
    vec_foreach (a, &w->activations) {
        if (a->state != number)
            continue;
        if (a == first && empty)
            at = give(a, at, at, false);
        else
            at = give(a, at, run_end(w, s, at, 0), doubted || short_of);
    }
    s->rest = at;
}

/* 5.1: all counts together must be the list's. The innermost activation's count, or the list, may
 * be ahead by one. */
static void cut_counted(struct lua_walk *w, struct lua_walk_state *s, int number,
                        const struct lua_activation *first)
{
    uint32_t count, sum = 0, all = nr_lua(w, s);
    bool known = true;
    size_t at = s->first;
    vec_foreach (a, &w->activations) {
        if (a->state == number && !lua_nr_calls(w, a, &count))
            known = false;
        else if (a->state == number)
            sum += count > LUA_CALLS_MAX ? LUA_CALLS_MAX : count;
    }
    uint32_t front = known && all > sum ? all - sum : 0;
    bool less = known && all + 1 == sum, doubted = !known || front > 1 || all + less < sum;
    if (!s->whole)
        front = 0;
    for (uint32_t left = front; left; left--)
        at = run_end(w, s, at, 1);
    vec_foreach (a, &w->activations) {
        if (a->state != number)
            continue;
        if (!lua_nr_calls(w, a, &count))
            count = 1;
        count -= a == first && less && count;
        at = give(a, at, count ? run_end(w, s, at, count) : at, s->whole && doubted);
    }
    s->rest = at;
}

/* Does a tail call move the newest call into the place of its caller's (5.2, 5.3)? The function is
 * there already, the pc not yet. A caller's pc is always known. */
static bool is_tail_in_the_making(const struct lua_walk *w, const struct lua_activation *a)
{
    const struct lua_call *call = &w->calls.at[a->first], *older = call + 1;
    return a->first + 1 < a->end && older->is_lua && call->index == UINT32_MAX &&
           older->index == UINT32_MAX && older->function.kind == LUA_FUNCTION_LUA &&
           older->function.proto == call->function.proto;
}

/* Say what the innermost activation of a state executes. A function that does not run yet, or no
 * more, is not shown; if its list is of another moment, the function is doubted. */
static void set_running(struct lua_walk *w, const struct lua_walk_state *s,
                        struct lua_activation *a)
{
    bool is_newest = a->first == s->first && a->first < a->end; /* no C function stands in front */
    struct lua_call *call = is_newest ? &w->calls.at[a->first] : NULL;
    if (!call || !call->is_lua)
        return;
    if (lua_set_running(w, a, call)) {
        if (!is_tail_in_the_making(w, a))
            return;
        call[1].is_tail = true;
    }
    if (s->provenance == PROVENANCE_EXACT)
        a->first++;
    else
        call->provenance = PROVENANCE_GUESS;
}

static void cut_state(struct lua_walk *w, struct lua_walk_state *s, int number)
{
    struct lua_activation *first = NULL, *last = NULL;
    size_t nr = 0;
    vec_foreach (a, &w->activations) {
        if (a->state != number)
            continue;
        first = first ? first : a;
        last = a;
        nr++;
    }
    if (!nr)
        return;
    w->reader.layout = s->layout;
    if (first->between) {
        first->first = first->end = s->rest = s->first;
        return;
    }
    if (s->layout->fields.ci.is_array)
        cut_counted(w, s, number, first);
    else
        cut_marked(w, s, number, first, nr);
    vec_foreach (a, &w->activations)
        if (a->state == number)
            a->lost = !s->whole && a->end == s->end;
    last->lost = !s->whole;
    set_running(w, s, first);
}

void lua_cut(struct lua_walk *w)
{
    for (size_t i = 0; i < w->states.nr; i++)
        cut_state(w, &w->states.at[i], (int)i);
}
