/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/native/explore.h"

#include "base/cursor.h"
#include "base/hash.h"

#include <stdlib.h>

enum {
    PENDING_MAX = 48, /* ways that wait; of more the rest is not followed */
    VISITED_BITS = 13,
    VISITED_MAX = 1 << VISITED_BITS,
    WINDOW = 256, /* bytes of code read at once */
    TABLE_MAX = 512,
    NEAR = 1 << 20, /* a jump of a table goes no further than this */
};

struct explorer {
    struct execution at;                   /* the way that is followed */
    struct execution pending[PENDING_MAX]; /* a queue */
    unsigned first, nr;
    struct {
        uint64_t pc;
        uint32_t run; /* the exploration that was there */
        bool unsure;  /* it came only by unsure ways */
    } visited[VISITED_MAX];
    unsigned nr_visited;
    uint32_t run;
    bool left_out; /* some way was not followed */
    unsigned left; /* instructions, and words of tables, that may still be followed */
    /* The last code that was read. */
    uint64_t start;
    size_t size;
    uint8_t bytes[WINDOW];
    /* The explored code's machine and memory. */
    struct walk *walk;
    enum provenance provenance;
    struct way_cache *cache;
};

struct explorer *explorer_of(struct walk *w)
{
    if (!*w->explorer)
        *w->explorer = calloc(1, sizeof(**w->explorer));
    return *w->explorer;
}

void explorer_free(struct explorer *e)
{
    if (e)
        free(e->cache);
    free(e);
}

struct way_cache **explorer_cache(struct explorer *e)
{
    return &e->cache;
}

static void copy(const struct arch *arch, struct execution *to, const struct execution *from)
{
    memcpy(to, from, offsetof(struct execution, reg));
    memcpy(to->reg, from->reg, arch->reg.nr * sizeof(*to->reg));
    memcpy(to->stored, from->stored, from->nr_stored * sizeof(*to->stored));
}

/* ---- ways ---------------------------------------------------------------------------------- */

/* Was the instruction followed before, by a way as sure as this one? If not, note it. */
static bool visit(struct explorer *e, uint64_t pc, bool unsure)
{
    size_t i = hash_u64(pc) >> (64 - VISITED_BITS);
    while (e->visited[i].run == e->run && e->visited[i].pc != pc)
        i = (i + 1) % VISITED_MAX;
    bool known = e->visited[i].run == e->run;
    if (known && (unsure || !e->visited[i].unsure))
        return true;
    if (!known && e->nr_visited == VISITED_MAX / 2) {
        e->left_out = true;
        return true;
    }
    e->nr_visited += !known;
    e->visited[i].pc = pc;
    e->visited[i].run = e->run;
    e->visited[i].unsure = unsure;
    return false;
}

/* Let the present way wait with `pc` as its next instruction. */
static void wait_at(struct explorer *e, uint64_t pc)
{
    if (e->nr == PENDING_MAX) {
        e->left_out = true;
        return;
    }
    struct execution *to = &e->pending[(e->first + e->nr++) % PENDING_MAX];
    copy(e->walk->arch, to, &e->at);
    to->pc = pc;
}

/* Returns the code at `pc` and how much of it is known; NULL: none. */
static const uint8_t *code_at(struct explorer *e, uint64_t pc, size_t *left)
{
    enum { INSTRUCTION = 16 };
    uint64_t in = pc - e->start;
    if (in >= e->size || (e->size - in < INSTRUCTION && in)) {
        size_t size = WINDOW;
        enum provenance of_file = PROVENANCE_EXACT, *proven = &e->provenance;
        const struct code *code = &walk_code(e->walk, pc)->code;
        e->size = 0;
        if (!code->executable)
            return NULL;
        if (code->owner == CODE_ELF) /* the file's code is as good as its CFI is */
            proven = &of_file;
        while (size && !memory_read(&e->walk->in->memory, pc, e->bytes, size, proven))
            size /= 2;
        e->start = pc;
        e->size = size;
        in = 0;
    }
    *left = e->size - in;
    return *left ? e->bytes + in : NULL;
}

/* ---- jumps by tables ----------------------------------------------------------------------- */

/* A compiler's table ends where another begins, or data of other kinds. What is there is followed,
 * too, if it may be code's address: the wrong ways show no frame that fits. */
static void follow_table(struct explorer *e, const struct held *table, uint64_t pc)
{
    uint64_t from = (uint64_t)table->add, before = 0;
    for (unsigned i = 0; i < TABLE_MAX && e->left; i++) {
        uint8_t word[8];
        uint64_t to;
        e->left--;
        if (!memory_read(&e->walk->in->memory, from + (uint64_t)i * table->reg, word, table->reg,
                         &e->provenance))
            break;
        to = table->reg == 8 ? load_u64(word, false)
                             : from + (uint64_t)(int64_t)(int32_t)load_u32(word, false);
        if (to - (pc - NEAR) > 2 * NEAR || !walk_code(e->walk, to)->code.executable)
            break;
        if (to != before)
            wait_at(e, to);
        before = to;
    }
}

/* ---- following ----------------------------------------------------------------------------- */

/* Is `pc`, behind a call, outside of the function? Then the call does not return. */
static bool is_past_end(struct explorer *e, const struct explore_goal *goal, uint64_t pc)
{
    uint64_t begin;
    size_t left;
    if (goal->end && pc == goal->end)
        return true;
    const uint8_t *bytes = code_at(e, pc, &left);
    if (bytes && e->walk->arch->begins_function(bytes, left, pc))
        return true;
    const struct code *code = &walk_code(e->walk, pc)->code;
    return code->cfi && cfi_function(code->cfi, pc - code->bias, &begin, NULL) &&
           begin == pc - code->bias;
}

/* Follow one instruction. Returns false when the way ends there; `found`: the goal was reached. */
static bool follow(struct explorer *e, const struct explore_goal *goal, bool *found)
{
    struct execution *x = &e->at;
    struct effect_of effect;
    size_t left;
    const uint64_t at = x->pc;
    const uint8_t *code = code_at(e, at, &left);
    if (!code) {
        e->left_out = true;
        return false;
    }
    switch (e->walk->arch->execute(x, code, left, &effect)) {
    case EFFECT_NEXT:
        return true;
    case EFFECT_BRANCH:
        wait_at(e, effect.target);
        return true;
    case EFFECT_JUMP:
        x->pc = effect.target;
        return true;
    case EFFECT_CALL:
        *found = goal->pc && x->pc == goal->pc && goal->look(goal->context, x);
        return !*found && !is_past_end(e, goal, x->pc);
    case EFFECT_RETURN:
        *found = !goal->pc && goal->look(goal->context, x);
        return false;
    case EFFECT_TABLE:
        follow_table(e, &effect.table, x->pc);
        return false;
    case EFFECT_JUMP_UNKNOWN:
        if (walk_imported(e->walk, code, left, at, &x->pc))
            return true;
        e->left_out = true;
        return false;
    default:
        return false;
    }
}

static void begin(struct explorer *e, struct walk *w, uint64_t pc, const struct explore_goal *goal)
{
    if (++e->run == 0) { /* what is noted would look like this exploration's */
        memset(e->visited, 0, sizeof(e->visited));
        e->run = 1;
    }
    e->nr_visited = 0;
    e->left_out = false;
    e->size = 0; /* it may be of another process */
    e->walk = w;
    e->first = e->nr = 0;
    execution_begin(&e->at, w->arch, pc);
    e->at.read = goal->read;
    e->at.context = goal->context;
    wait_at(e, pc);
}

enum explored explore(struct explorer *e, struct walk *w, uint64_t pc,
                      const struct explore_goal *goal, unsigned *left, enum provenance *provenance)
{
    struct execution *x = &e->at;
    bool found = false;
    e->provenance = *provenance;
    e->left = *left;
    begin(e, w, pc, goal);
    while (e->nr && e->left && !found) {
        copy(w->arch, x, &e->pending[e->first]);
        e->first = (e->first + 1) % PENDING_MAX;
        e->nr--;
        bool goes_on = true;
        while (goes_on && !found && e->left) {
            found = goal->pc && x->pc == goal->pc && goal->look(goal->context, x);
            goes_on = !found && !visit(e, x->pc, x->unsure) && follow(e, goal, &found);
            e->left -= e->left != 0;
        }
    }
    *provenance = e->provenance;
    *left = e->left;
    if (found)
        return EXPLORED_FOUND;
    return e->left_out || !e->left ? EXPLORED_PART : EXPLORED_ALL;
}
