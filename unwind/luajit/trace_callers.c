/* SPDX-License-Identifier: GPL-2.0-only */
#include "unwind/luajit/trace_callers.h"

#include "unwind/luajit/branch.h"
#include "unwind/luajit/trace_calls.h"
#include "unwind/luajit/names_builtins.h"
#include "unwind/luajit/names_bytecode.h"

#include <string.h>

/* ---- the way to a call ----------------------------------------------------------------------- */

enum {
    STEPS_MAX = 64,
    SLOTS = 256,
    JUMP_BIAS = 0x8000,
};

/* Slots whose values depend on no argument. */
struct slots {
    bool own[SLOTS];
};

/* The effect of an instruction on the slots; false: control may go elsewhere, or something else is
 * called. (Metamethods may be called: they are functions that the trace knew.) */
static bool pass(const struct bc *b, struct slots *s)
{
    if (b->op == BC_MOV)
        s->own[b->a] = s->own[b->d % SLOTS];
    else if ((b->op >= BC_KSTR && b->op <= BC_KPRI) || b->op == BC_UGET || b->op == BC_GGET)
        s->own[b->a] = true;
    else if (b->op == BC_TGETV || b->op == BC_TGETR)
        s->own[b->a] = s->own[b->b] && s->own[b->c];
    else if (b->op > BC_TGETV && b->op < BC_TGETR)
        s->own[b->a] = s->own[b->b];
    else if (b->op >= BC_UNM && b->op <= BC_POW)
        s->own[b->a] = false;
    else
        return b->op == BC_LOOP;
    return true;
}

/* Starting at instruction `at` of a function, is the call at `call` the first one in any case?
 * `same`: does it also call the same function at any time? */
static bool leads_to_call(struct luajit_reader *r, const struct luajit_function *f, uint32_t at,
                          uint32_t call, bool same)
{
    struct slots s = {0};
    for (unsigned i = 0; i < STEPS_MAX && at < f->sizebc && luajit_spend(r); i++) {
        uint32_t instruction;
        enum provenance ignored = PROVENANCE_EXACT;
        if (!memory_read(r->m, f->code + 4 * (uint64_t)at, &instruction, 4, &ignored))
            return false;
        struct bc b = bc_decode(instruction, r->layout->bytecode);
        if (bc_calls(b.op))
            return at == call && (!same || s.own[b.a]);
        if (b.op == BC_JMP)
            at += (uint32_t)b.d - JUMP_BIAS;
        else if (!pass(&b, &s))
            return false;
        at++;
    }
    return false;
}

/* Index of the `nr`th instruction before `pc`. UINT32_MAX: not in the function. */
static uint32_t index_before(const struct luajit_function *f, uint64_t pc, unsigned nr)
{
    bool inside = luajit_pc_inside(f, pc) && pc - f->code >= 4 * (uint64_t)nr;
    return inside ? (uint32_t)(pc - f->code) / 4 - nr : UINT32_MAX;
}

/* ---- two snapshots --------------------------------------------------------------------------- */

enum { NEW_MAX = 8 };

/* Frames of the second snapshot that the first one does not have, innermost first. */
struct entered {
    struct luajit_function at[NEW_MAX];
    unsigned nr;
    uint64_t from_pc; /* pc of the frame below them, in the first snapshot */
};

static uint64_t frame_pc(const struct luajit_inlined *in, unsigned i)
{
    return i < in->nr ? in->frames[i].pc : in->start_pc;
}

/* Are the frames of `before` the same as those that `behind` has below its new frames? */
static bool has_same_below(const struct luajit_inlined *before, const struct luajit_inlined *behind)
{
    unsigned nr = behind->nr - before->nr;
    for (unsigned i = 0; i < before->nr; i++) {
        if (before->frames[i].func != behind->frames[nr + i].func || !before->frames[i].func ||
            before->frames[i].base_slot != behind->frames[nr + i].base_slot)
            return false;
    }
    for (unsigned i = 1; i <= before->nr; i++)
        if (frame_pc(before, i) != frame_pc(behind, nr + i))
            return false;
    return before->start_func == behind->start_func;
}

static bool find_entered(struct luajit_reader *r, const struct luajit_trace *t,
                         const struct luajit_call *call, struct luajit_inlined *behind,
                         struct entered *ret)
{
    struct luajit_inlined before;
    if (!luajit_snapshot_frames(r, t, call->before, &before) ||
        !luajit_snapshot_frames(r, t, call->behind, behind) || behind->nr < before.nr ||
        behind->nr - before.nr > NEW_MAX || !has_same_below(&before, behind))
        return false;
    ret->nr = behind->nr - before.nr;
    ret->from_pc = frame_pc(&before, 0);
    for (unsigned i = 0; i < ret->nr; i++) {
        if (!behind->frames[i].func)
            return false;
        ret->at[i] = *luajit_function_alive(r, behind->frames[i].func);
        if (!ret->at[i].address || !ret->at[i].lua)
            return false;
        for (unsigned k = 0; k < i; k++)
            if (ret->at[k].proto == ret->at[i].proto)
                return false;
    }
    return true;
}

/* The call instruction of frame `i` of the second snapshot. In the innermost frame it may be the
 * call of C. The innermost frame's pc is at an instruction that was not executed. The other frames'
 * pcs are behind their calls. */
static uint32_t index_of_call(const struct luajit_function *f, const struct luajit_inlined *behind,
                              unsigned i)
{
    return index_before(f, frame_pc(behind, i), i == 0 ? 2 : 1);
}

/* Does the only way from the first snapshot's place lead to the second's? The first snapshot's
 * place may be the branch of a comparison that was not recorded. */
static bool is_one_way(struct luajit_reader *r, const struct luajit_call *call,
                       const struct luajit_inlined *behind, const struct entered *e)
{
    uint32_t from = index_before(&call->from, e->from_pc, 1);
    uint32_t to = index_of_call(&call->from, behind, e->nr);
    if (from == UINT32_MAX || to == UINT32_MAX || !leads_to_call(r, &call->from, from, to, !e->nr))
        return false;
    for (unsigned i = 0; i < e->nr; i++) {
        to = index_of_call(&e->at[i], behind, i);
        if (to == UINT32_MAX || !leads_to_call(r, &e->at[i], 1, to, true))
            return false;
    }
    return true;
}

/* ---- functions the trace knew ---------------------------------------------------------------- */

/* Is it a builtin that calls no function, or only what the FFI finds for the object at hand? */
static bool calls_nobody(const struct luajit_reader *r, const struct luajit_function *f)
{
    static const char *const known[] = {"ffi.meta.", "ffi.clib.", "math.", "bit.", "tonumber"};
    const struct luajit_builtins *b = luajit_builtins_get(r->layout->builtins);
    if (!b || !f->address || f->lua || f->dummy)
        return false;
    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strncmp(b->name[f->ffid], known[i], strlen(known[i])))
            return true;
    return false;
}

/* Is the constant a function that the new frames may call, and none of the new frames' own? */
static bool is_other(struct luajit_reader *r, const struct luajit_constant *k,
                     const struct entered *e)
{
    if (!k->object)
        return false;
    for (unsigned i = 0; i < e->nr; i++)
        if (k->type == IRT_FUNC && k->value == e->at[i].address)
            return false;
    return k->type == IRT_PROTO || !calls_nobody(r, luajit_function_alive(r, k->value));
}

/* Did the trace know no other functions at the time of the call? After the first call of C it
 * cannot be told which functions the trace has known since. */
static bool knew_no_others(struct luajit_reader *r, const struct luajit_trace *t,
                           const struct luajit_call *call, const struct entered *e)
{
    bool found = false, others = false;
    if (LUAJIT_REF_BIAS - t->nk > LUAJIT_CONSTANTS_MAX)
        return false;
    /* From the constant made last to the one made first. The loop goes on to the end, so that a
     * recorder records all reads. */
    for (uint32_t ref = t->nk; ref + 1 < LUAJIT_REF_BIAS; ref++) {
        struct luajit_constant k;
        if (!luajit_trace_constant(r, t, ref, &k) || !luajit_spend(r))
            return false;
        bool is_target = !k.object && k.value == call->target;
        others |= (found || !call->is_first) && is_other(r, &k, e);
        found |= is_target;
    }
    return found && !others;
}

bool luajit_caller_is_proven(struct luajit_reader *r, const struct luajit_trace *t,
                             const struct luajit_call *call)
{
    enum provenance before = r->provenance;
    struct luajit_inlined behind;
    struct entered e;
    bool proven = r->layout->gc64 && find_entered(r, t, call, &behind, &e) &&
                  luajit_recorded_pc(r, t, call->before, &call->from, e.from_pc) == e.from_pc &&
                  is_one_way(r, call, &behind, &e) && knew_no_others(r, t, call, &e);
    r->provenance = before; /* a frame's provenance rests on its snapshot and its functions */
    return proven;
}
