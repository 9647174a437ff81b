/* SPDX-License-Identifier: GPL-2.0-only */
/* The V8 walker's steps, one frame at a time: find the code's owner, emit its frames, find the
 * caller. */
#include "unwind/v8/walk.h"

#include "base/cursor.h"
#include "base/hash.h"
#include "unwind/trace.h"
#include "unwind/v8/async.h"
#include "unwind/v8/builtin.h"
#include "unwind/v8/compiler.h"
#include "unwind/v8/machine.h"
#include "unwind/v8/runtime.h"
#include "unwind/v8/variables.h"

#include <stdlib.h>
#include <string.h>

enum { MARKER_MAX = 128, CODE_BYTES_MAX = 1 << 16, ENTRY_BYTES = 128 };

/* A function that could not be read: one of its callers may have created its closure. */
struct unmade {
    size_t frame; /* index of its frame in the output */
    uint64_t bytecode;
    int32_t offset; /* of the executing bytecode, -1: unknown */
};
enum { UNMADE_MAX = 16, SEARCHED = 64 };

struct v8_walk {
    struct walker_state head;
    const struct v8_process *process;
    struct walker_step *step;
    const struct v8_layout *layout;
    const struct v8_machine *m;     /* the layout's */
    const struct arch_registers *a; /* the sample's, of the same machine */
    struct v8_reader r;
    bool frameless;   /* the next code has not made its frame yet: the frame is its caller's */
    bool left_bare;   /* this step left the innermost frame, which had made none */
    bool bare;        /* the step before left it so (left_bare) */
    bool left_exit;   /* this step left a call of the runtime */
    bool exited;      /* the step before left such a call (left_exit) */
    bool left_deopt;  /* this step left the builtin that code calls to be deoptimized */
    bool deopted;     /* the step before left that builtin (left_deopt) */
    bool left_lazy;   /* the builtin was that of code which must not be used any more */
    bool lazy;        /* the same of the step before */
    bool left_notify; /* this step left the builtin that ends a deoptimization */
    bool resumed;     /* the step before left that builtin (left_notify) */
    bool left_await;  /* this step left a builtin that resumes JavaScript behind an await */
    bool awaited;     /* the step before left such a builtin (left_await) */
    bool failed;      /* memory is out */
    bool again;       /* the step is repeated for comparison: no function is named */
    bool moments;     /* memory has readings of several moments, to ask for */
    unsigned nr_unmade, all_unmade;    /* functions in `unmade` now, and in the whole walk */
    size_t first;                      /* index of the first frame that this step emits */
    uint64_t bytecode[V8_SEEN_FRAMES]; /* BytecodeArrays of the functions of this step's frames; 0:
                                          none */
    struct unmade unmade[UNMADE_MAX];
    struct {                 /* cleared at the first unmade function: most walks have none */
        uint64_t maker;      /* a BytecodeArray whose constants were searched */
        unsigned all_unmade; /* the walk's at that search */
    } searched[SEARCHED];
};

static bool is_exact(const struct v8_walk *w)
{
    return w->step->flags & (FRAME_LEAF | FRAME_SIGNAL);
}

static uint64_t reg(const struct v8_walk *w, unsigned i)
{
    return w->step->value[i];
}

static uint64_t step_pc(const struct v8_walk *w)
{
    return w->step->value[w->a->pc];
}

static uint64_t step_sp(const struct v8_walk *w)
{
    return w->step->value[w->a->sp];
}

static uint64_t step_fp(const struct v8_walk *w)
{
    return w->step->value[w->a->fp];
}

static bool knows(const struct v8_walk *w, unsigned i)
{
    return *w->step->known >> i & 1;
}

/* Has this machine a link register? It may still hold the return address, or not any more. */
static bool has_link(const struct v8_walk *w)
{
    return w->m->return_register != V8_RETURN_ON_STACK;
}

/* The register that holds the interpreter's BytecodeArray. */
static unsigned array_register(const struct v8_walk *w)
{
    return w->m->array != ARCH_NO_REGISTER ? w->m->array : (unsigned)w->layout->array_register;
}

/* Reads a word of a frame that is not in the stack copy's first piece. */
static __attribute__((noinline)) bool stack_word_of_layer(struct v8_walk *w, uint64_t address,
                                                          uint64_t *ret)
{
    const struct memory *m = &w->step->input->memory;
    const struct memory_query q = {
        .address = address, .size = sizeof(*ret), .time = m->time, .kind = MEMORY_FRAME};
    struct memory_answer a;
    if (!memory_ask(m, &q, ret, &a))
        return false;
    if (a.provenance > *w->step->provenance)
        *w->step->provenance = a.provenance;
    memory_span_narrow(&w->r.same, &a.same);
    return true;
}

static void say(const struct v8_walk *w, enum trace_kind kind, const char *text, uint64_t value,
                uint64_t second)
{
    trace_say(w->step->input, w->step->out, kind, text, value, second);
}

/* Says why the frame that comes next is no better than `provenance`. */
static void mark(const struct v8_walk *w, enum provenance provenance, const char *text,
                 uint64_t value)
{
    trace_mark(w->step->input, w->step->out->frames.nr, provenance, text, value);
}

static const char code_unclear[] =
    "the machine code does not show whether the frame of pc # stands; its bytes would";

/* The memory that was read for a function may be weaker than the walk. */
static void mark_reads(const struct v8_walk *w)
{
    if (w->r.provenance > *w->step->provenance)
        mark(w, w->r.provenance, "objects that were read for it are not exact: see the reads", 0);
}

static void mark_doubts(const struct v8_walk *w, bool doubtful)
{
    if (doubtful)
        mark(w, PROVENANCE_GUESS, code_unclear, step_pc(w));
    if (!w->layout->verified)
        mark(w, PROVENANCE_GUESS, "nobody has verified the layout of this version of V8", 0);
}

/* Reads a word of the stack; raises the step's provenance. */
static bool stack_word(struct v8_walk *w, uint64_t address, uint64_t *ret)
{
    return memory_read_near(&w->step->input->memory, address, ret, sizeof(*ret)) ||
           stack_word_of_layer(w, address, ret);
}

/* ---- emitting frames ----------------------------------------------------------------------- */

/* Returns room for one more frame; NULL: no more frames are allowed, or memory is out. */
static inline struct frame *next_frame(struct v8_walk *w)
{
    __typeof__(w->step->out->frames) *frames = &w->step->out->frames;
    if (*w->step->frames_left == 0)
        return NULL;
    (*w->step->frames_left)--;
    if (!vec_reserve(frames, frames->nr + 1)) {
        w->failed = true;
        return NULL;
    }
    return &frames->at[frames->nr++];
}

static void push(struct v8_walk *w, const struct frame *f)
{
    struct frame *to = next_frame(w);
    if (to)
        *to = *f;
}

/* Returns the current frame, without a function. */
static inline struct frame frame_here(const struct v8_walk *w, enum frame_kind kind, uint64_t cfa)
{
    return (struct frame){.pc = step_pc(w),
                          .cfa = cfa,
                          .code = w->step->code.token,
                          .kind = (uint8_t)kind,
                          .flags = w->step->flags,
                          .provenance = (uint8_t)*w->step->provenance};
}

/* Most frames are native: write them in place. Returns the frame; NULL: there is no room. */
static struct frame *emit_native(struct v8_walk *w, uint64_t cfa, bool doubtful)
{
    struct frame *f = next_frame(w);
    if (!f)
        return NULL;
    *f = frame_here(w, w->step->code.owner == CODE_JIT ? FRAME_JIT : FRAME_NATIVE, cfa);
    if (doubtful) {
        f->provenance = PROVENANCE_GUESS;
        trace_mark(w->step->input, w->step->out->frames.nr - 1, PROVENANCE_GUESS, code_unclear,
                   step_pc(w));
    }
    return f;
}

/* The name of code that makes frames of a type, and belongs to no function, as in V8's own perf
 * maps; NULL: the type says nothing of that kind. */
static const char *own_name(const struct v8_layout *l, int32_t type)
{
    if (type <= 0)
        return NULL;
    if (type == l->frame_regexp)
        return "RegExp";
    if (type == l->frame_js_to_wasm)
        return "js-to-wasm";
    return type == l->frame_wasm_to_js ? "wasm-to-js" : NULL;
}

/* Takes back what was read, but not that it was read: what follows depends on it. */
static void undo(struct v8_walk *w, const struct v8_reader *before)
{
    const bool by_one_reading = w->r.by_one_reading;
    const struct memory_span same = w->r.same;
    w->r = *before;
    w->r.by_one_reading = by_one_reading;
    w->r.same = same;
}

/* Is this word of a regular expression's data the code that runs, or a CodeWrapper of it (V8
 * 12.4)? */
static bool is_running_code(struct v8_walk *w, uint64_t word)
{
    enum { WRAPPED = 8 };
    const uint64_t pc = step_pc(w);
    uint64_t code;
    return v8_is_pointer(word) &&
           (v8_code_contains(&w->r, word, pc) ||
            (v8_slot(&w->r, word, WRAPPED, &code) && v8_code_contains(&w->r, code, pc)));
}

/* Is it one of these words? (Code for strings of one byte, and of two, a character.) */
static bool has_running_code(struct v8_walk *w, uint64_t data)
{
    enum { FIRST = 40, END = 80 };
    bool found = false;
    for (int32_t at = FIRST; at < END && !found; at += 8) {
        uint64_t word;
        const struct v8_reader before = w->r;
        found = v8_slot(&w->r, data, at, &word) && is_running_code(w, word);
        if (!found)
            undo(w, &before);
    }
    return found;
}

/* Finds the source of a regular expression. `object`: what its frame names. false: it is not that
 * of the code that runs: of objects that live for microseconds another may have been read. */
static bool find_source(struct v8_walk *w, uint64_t object, uint64_t *ret)
{
    const struct v8_layout *l = w->layout;
    uint64_t data = object;
    if (v8_is(&w->r, object, l->type_regexp) && !v8_slot(&w->r, object, l->regexp_data, &data))
        return false;
    bool got = v8_is(&w->r, data, l->type_regexp_data)
                   ? v8_slot(&w->r, data, l->regexp_data_source, ret)
                   : v8_array_element(&w->r, data, 1, ret);
    return got && has_running_code(w, data);
}

/* Reads the source of the regular expression in the frame at `fp`. Returns false if it cannot be
 * read, or is not proven. */
static bool read_pattern(struct v8_walk *w, uint64_t fp, struct text *ret)
{
    enum { CHARACTERS_MAX = 200 };
    const struct v8_layout *l = w->layout;
    const struct v8_reader before = w->r;
    uint64_t object, source;
    if (w->process->no_objects || l->fp_regexp == V8_UNKNOWN ||
        !stack_word(w, fp + (uint64_t)(int64_t)l->fp_regexp, &object) || !v8_is_pointer(object))
        return false;
    w->r.provenance = PROVENANCE_EXACT;
    bool got = find_source(w, object, &source) && v8_string(&w->r, source, CHARACTERS_MAX, ret) &&
               w->r.provenance == PROVENANCE_EXACT;
    if (got && v8_string_length(&w->r, source) > CHARACTERS_MAX)
        text_string(ret, "...");
    undo(w, &before);
    return got && !ret->failed;
}

/* Emits a frame of code that belongs to no function of the program's. `type`: the frame's, which
 * may name it; `name`: what the Code object says (NULL: nothing). */
static void emit_own(struct v8_walk *w, const char *name, int32_t type, uint64_t cfa, bool doubtful)
{
    const struct v8_namer *namer = &w->process->namer;
    struct text pattern = {0};
    struct frame *f = emit_native(w, cfa, doubtful);
    bool by_type = !name;
    if (by_type)
        name = own_name(w->layout, type);
    if (!f || !name || w->step->code.owner == CODE_JIT)
        return;
    if (by_type)
        say(w, TRACE_WAY, "the frame's type, #, says whose code it is", (uint64_t)type, 0);
    if (by_type && type == w->layout->frame_regexp) { /* as V8 itself names it */
        text_string(&pattern, name);
        text_char(&pattern, ':');
        bool read = read_pattern(w, cfa - 16, &pattern);
        text_char(&pattern, 0);
        if (pattern.failed)
            w->failed = true;
        else if (read)
            name = pattern.at;
    }
    if (namer->own && !namer->own(namer->context, name, f))
        w->failed = true;
    text_free(&pattern);
}

/* Emits a frame for a function whose name is unknown. */
static void emit_unknown(struct v8_walk *w, uint64_t cfa, enum frame_tier tier, bool doubtful)
{
    if (w->step->code.owner == CODE_JIT || w->process->no_objects) {
        emit_native(w, cfa, doubtful);
        return;
    }
    struct frame f = frame_here(w, FRAME_JS, cfa);
    f.tier = (uint8_t)tier;
    if (doubtful) {
        f.provenance = PROVENANCE_GUESS;
        mark(w, PROVENANCE_GUESS, code_unclear, step_pc(w));
    }
    push(w, &f);
}

/* Emits the interpreted function at `fp` if a perf map lists it, by the address of its bytecode. */
static bool emit_described(struct v8_walk *w, uint64_t fp, bool doubtful)
{
    const struct unwind_input *in = w->step->input;
    const struct v8_layout *l = w->layout;
    uint64_t bytecode;
    struct code code;
    if (!stack_word(w, fp + (uint64_t)(int64_t)l->fp_bytecode_array, &bytecode) ||
        (bytecode & 3) != 1)
        return false;
    uint64_t first = v8_address(bytecode) + (uint64_t)l->bytecode_data;
    if (!codemap_lookup(&in->code, first, in->memory.time, &code) || code.owner != CODE_JIT ||
        code.bias != first)
        return false;
    struct frame f = frame_here(w, FRAME_JIT, fp + 16);
    f.pc = first + !is_exact(w); /* a return address is looked up by the byte before */
    f.code = code.token;
    if (doubtful) {
        f.provenance = PROVENANCE_GUESS;
        mark(w, PROVENANCE_GUESS, code_unclear, step_pc(w));
    }
    say(w, TRACE_WAY, "a perf map or jitdump lists the function by its bytecode at #", first, 0);
    push(w, &f);
    return true;
}

/* Returns the source position of a bytecode; -1: unknown. */
static int32_t source_offset(struct v8_walk *w, uint64_t bytecode, int32_t offset)
{
    uint64_t table, raw;
    if (offset < 0 || !v8_slot(&w->r, bytecode, w->layout->bytecode_positions, &table) ||
        !v8_position_find(&w->r, table, offset, &raw))
        return -1;
    return v8_position_offset(raw);
}

/* Says where the function of an inner frame was found after all. */
static void trace_say_made(const struct v8_walk *w, size_t frame, uint64_t maker)
{
    const struct unwind_trace *trace = w->step->input->trace;
    if (TRACE_LIKELY_NULL(trace))
        return;
    trace_tell(trace, TRACE_WAY, frame,
               "an inner frame's function was found among the constants of the BytecodeArray #",
               maker, 0);
    if (w->r.provenance > PROVENANCE_EXACT)
        trace_tell_mark(trace, frame, w->r.provenance,
                        "the constants of its caller, which lead to it, are not exact", 0);
    if (!w->layout->verified)
        trace_tell_mark(trace, frame, PROVENANCE_GUESS,
                        "nobody has verified the layout of this version of V8", 0);
}

/* Resolve inner frames whose function could not be read because a GC moved their closure: search
 * the constants of `maker` for a SharedFunctionInfo with the same BytecodeArray. */
static void find_made(struct v8_walk *w, uint64_t maker)
{
    const struct v8_namer *namer = &w->process->namer;
    struct v8_reader before = w->r;
    __typeof__(w->searched[0]) *searched = &w->searched[hash_u64(maker) % SEARCHED];
    if (searched->maker == maker && searched->all_unmade == w->all_unmade)
        return;
    searched->maker = maker;
    searched->all_unmade = w->all_unmade;
    for (unsigned i = 0; i < w->nr_unmade;) {
        const struct unmade u = w->unmade[i];
        struct frame *f = &w->step->out->frames.at[u.frame];
        struct v8_sfi sfi;
        w->r.provenance = PROVENANCE_EXACT;
        if (!v8_constant_function(&w->r, maker, u.bytecode, &sfi)) {
            i++;
            continue;
        }
        int32_t offset = source_offset(w, u.bytecode, u.offset);
        if (namer->name && !namer->name(namer->context, &w->r, &sfi, offset, f))
            w->failed = true;
        trace_say_made(w, u.frame, maker);
        if (w->r.provenance > f->provenance) {
            trace_mark(w->step->input, u.frame, w->r.provenance,
                       "the objects that name it, from # on, were read at other moments", maker);
            f->provenance = (uint8_t)w->r.provenance;
        }
        if (!w->layout->verified)
            f->provenance = PROVENANCE_GUESS;
        w->unmade[i] = w->unmade[--w->nr_unmade];
    }
    undo(w, &before);
}

/* Returns the BytecodeArray in the frame; 0: none. */
static uint64_t frame_bytecode(struct v8_walk *w, uint64_t fp)
{
    uint64_t bytecode;
    bool is = stack_word(w, fp + (uint64_t)(int64_t)w->layout->fp_bytecode_array, &bytecode) &&
              v8_is(&w->r, bytecode, w->layout->type_bytecode);
    return is ? bytecode : 0;
}

/* Emits a function that cannot be read from its frame, and keeps it in `unmade`: its callers may
 * resolve it. `offset`: of the executing bytecode, -1: unknown. */
static void emit_unmade(struct v8_walk *w, uint64_t fp, enum frame_tier tier, int32_t offset,
                        bool doubtful)
{
    uint64_t bytecode;
    size_t frame = w->step->out->frames.nr;
    say(w, TRACE_REFUSED,
        "the frame's function cannot be read: its objects were not recorded, or disagree with the "
        "frame",
        0, 0);
    emit_unknown(w, fp + 16, tier, doubtful);
    if (w->process->no_objects || w->nr_unmade == UNMADE_MAX ||
        w->step->out->frames.nr != frame + 1 || w->step->out->frames.at[frame].kind != FRAME_JS ||
        !(bytecode = frame_bytecode(w, fp)))
        return;
    if (!w->all_unmade)
        memset(w->searched, 0, sizeof(w->searched));
    w->unmade[w->nr_unmade++] = (struct unmade){frame, bytecode, offset};
    w->all_unmade++;
}

/* What the functions of one frame have in common. */
struct emission {
    uint64_t cfa;
    uint64_t fp; /* 0: the frame does not stand */
    enum frame_tier tier;
    bool doubtful, second; /* `second`: the first function was emitted already */
};

/* Only the first function emitted stands for the machine's frame. */
static void set_second(struct frame *f)
{
    f->cfa = 0;
    f->code = NULL;
    f->flags = 0;
}

/* Sets numbers that identify the function and the position at any address: the script's number and
 * the places in the source. */
static void identify(struct v8_walk *w, const struct v8_sfi *sfi, int32_t offset, struct frame *f)
{
    uint32_t identity = v8_sfi_identity(&w->r, sfi);
    if (!identity)
        return;
    f->function = identity;
    f->line = (uint32_t)offset;
}

/* Note where the variables of the function are, whose frame `f` comes next. */
static void note_place(struct v8_walk *w, const struct emission *e, const struct v8_sfi *sfi,
                       const struct frame *f)
{
    const bool is_optimized = e->tier == TIER_MAGLEV || e->tier == TIER_TURBOFAN;
    enum v8_arguments how = is_optimized ? V8_ARGUMENTS_PASSED : V8_ARGUMENTS_HELD;
    if (f->flags & FRAME_INLINED)
        how = V8_ARGUMENTS_INLINED;
    else if (!e->fp)
        how = V8_ARGUMENTS_UNMADE;
    struct variable_place place = v8_variables_place(w->layout, e->fp, sfi->sfi, how);
    place.runtime = &v8_runtime;
    variable_places_note(w->process->places, &place, w->step->out->frames.nr, f);
}

static void emit_function(struct v8_walk *w, struct emission *e, const struct v8_sfi *sfi,
                          int32_t offset, bool inlined)
{
    struct frame f = frame_here(w, FRAME_JS, e->cfa);
    const struct v8_namer *namer = &w->process->namer;
    say(w, TRACE_WAY, "its SharedFunctionInfo is #, its BytecodeArray #", sfi->sfi, sfi->bytecode);
    if (e->second)
        set_second(&f);
    f.tier = (uint8_t)e->tier;
    f.flags |= inlined ? FRAME_INLINED : 0;
    const uint8_t named = f.provenance;
    if (w->again)
        identify(w, sfi, offset, &f);
    else if (namer->name && !namer->name(namer->context, &w->r, sfi, offset, &f))
        w->failed = true;
    if (f.provenance > named)
        mark(w, f.provenance, "the script or the text that names it was not recorded", 0);
    mark_reads(w);
    if (!sfi->scope)
        mark(w, PROVENANCE_STALE, "its ScopeInfo was not read, which a running function has", 0);
    mark_doubts(w, e->doubtful);
    if (w->r.provenance > f.provenance)
        f.provenance = (uint8_t)w->r.provenance;
    if (!sfi->scope && f.provenance == PROVENANCE_EXACT)
        f.provenance = PROVENANCE_STALE; /* a running function was compiled, and so has a
                                            ScopeInfo */
    if (e->doubtful || !w->layout->verified)
        f.provenance = PROVENANCE_GUESS;
    e->second = true;
    size_t i = w->step->out->frames.nr - w->first;
    if (i < V8_SEEN_FRAMES)
        w->bytecode[i] = sfi->bytecode;
    if (w->process->places && !w->again && e->tier != TIER_ASYNC)
        note_place(w, e, sfi, &f);
    push(w, &f);
    if (w->nr_unmade && sfi->bytecode)
        find_made(w, sfi->bytecode);
}

/* ---- leaving a frame ----------------------------------------------------------------------- */

static enum walker_result leave(struct v8_walk *w, uint64_t pc, uint64_t sp, uint64_t fp)
{
    if (w->failed)
        return WALKER_NO_MEMORY;
    w->step->value[w->a->pc] = pc;
    w->step->value[w->a->sp] = sp;
    w->step->value[w->a->fp] = fp;
    const uint64_t bits = REG_BIT(w->a->pc) | REG_BIT(w->a->sp) | REG_BIT(w->a->fp);
    *w->step->known &= bits | REG_BIT(w->m->root);
    *w->step->known |= REG_BIT(w->a->fp);
    return WALKER_STEPPED;
}

/* Is `address` behind the end of the stack's copy? */
static bool is_behind(const struct v8_walk *w, uint64_t address)
{
    const struct memory *m = &w->step->input->memory;
    uint64_t end = m->stack_start + memory_stack_size(m);
    return address + 8 > end && address - m->stack_start < ARCH_STACK_MAX;
}

/* The word at `address` says where the caller is, but it cannot be read. Behind the end of the copy
 * the walk ends; elsewhere native rules may find a way. */
static enum walker_result leave_unreadable(struct v8_walk *w, uint64_t address)
{
    w->step->unreadable = address;
    return is_behind(w, address) ? WALKER_UNREADABLE : WALKER_NO;
}

/* Leaves by the frame at `fp`. */
static enum walker_result leave_frame(struct v8_walk *w, uint64_t fp)
{
    struct {
        uint64_t caller, pc;
    } at;
    say(w, TRACE_WAY, "the frame is at #: the caller's frame pointer is there, its pc at #", fp,
        fp + 8);
    if (!memory_read_near(&w->step->input->memory, fp, &at, sizeof(at))) {
        if (!stack_word(w, fp, &at.caller))
            return leave_unreadable(w, fp);
        if (!stack_word(w, fp + 8, &at.pc))
            return leave_unreadable(w, fp + 8);
    }
    return leave(w, at.pc, fp + 16, at.caller);
}

static uint64_t state_cfa(const struct v8_walk *w, const struct v8_state *s)
{
    return s->kind == V8_STATE_FRAMED ? step_fp(w) + 16 : step_sp(w) + (uint64_t)(int64_t)s->offset;
}

/* Leaves by the state that the machine code gives. */
static enum walker_result leave_state(struct v8_walk *w, const struct v8_state *s)
{
    uint64_t cfa = state_cfa(w, s), pc, fp = step_fp(w);
    if (s->kind == V8_STATE_FRAMED)
        return leave_frame(w, fp);
    say(w, TRACE_WAY,
        "the machine code before the pc says that no frame stands: the CFA is #, sp is #", cfa,
        step_sp(w));
    w->left_bare = is_exact(w) && s->kind == V8_STATE_SP;
    if (s->return_register != V8_RETURN_ON_STACK)
        pc = reg(w, s->return_register);
    else if (!stack_word(w, cfa - 8, &pc))
        return leave_unreadable(w, cfa - 8);
    if (s->kind == V8_STATE_PUSHED && !stack_word(w, cfa - 16, &fp))
        return leave_unreadable(w, cfa - 16);
    return leave(w, pc, cfa, fp);
}

/* Leaves a frame near which the caller's registers were saved. */
static enum walker_result leave_saved(struct v8_walk *w, uint64_t fp, int16_t cfa)
{
    const __typeof__(w->m->entry) *e = &w->m->entry;
    uint64_t values[V8_ENTRY_SAVED_MAX];
    say(w, TRACE_WAY, "C++ entered JavaScript here: its registers are saved near the frame, #", fp,
        0);
    for (size_t i = 0; i < e->nr; i++) {
        uint64_t at = fp + (uint64_t)(int64_t)e->saved[i].at;
        if (!stack_word(w, at, &values[i]))
            return leave_unreadable(w, at);
    }
    enum walker_result got = leave_frame(w, fp);
    if (got != WALKER_STEPPED)
        return got;
    w->step->value[w->a->sp] = fp + (uint64_t)(int64_t)cfa;
    for (size_t i = 0; i < e->nr; i++) {
        w->step->value[e->saved[i].reg] = values[i];
        *w->step->known |= REG_BIT(e->saved[i].reg);
    }
    return got;
}

/* Leaves an entry frame, where C++ called JavaScript. */
static enum walker_result leave_entry(struct v8_walk *w, uint64_t fp)
{
    return leave_saved(w, fp, w->m->entry.cfa);
}

/* Leaves the frame of a regular expression. */
static enum walker_result leave_regexp(struct v8_walk *w, uint64_t fp)
{
    return w->m->regexp_cfa ? leave_saved(w, fp, w->m->regexp_cfa) : leave_frame(w, fp);
}

/* The same while the frame is made or removed: registers whose places are below sp have the
 * caller's values. */
static enum walker_result leave_begun_regexp(struct v8_walk *w, uint64_t cfa)
{
    const __typeof__(w->m->entry) *e = &w->m->entry;
    const uint64_t sp = step_sp(w), fp = cfa - (uint64_t)(int64_t)w->m->regexp_cfa;
    uint64_t link = w->step->value[w->m->return_register];
    for (size_t i = 0; i < e->nr; i++) {
        const uint64_t at = fp + (uint64_t)(int64_t)e->saved[i].at;
        if (at >= sp && !stack_word(w, at, &w->step->value[e->saved[i].reg]))
            return leave_unreadable(w, at);
    }
    return leave(w, link, cfa, step_fp(w));
}

/* ---- frames known from earlier walks -------------------------------------------------------- */

/* Builds a cache key from the words at two offsets of the frame and a third word. All zero: they
 * cannot be read. */
static struct v8_frame_cache_key seen_key(struct v8_walk *w, uint64_t fp, int32_t first,
                                          int32_t second, uint64_t third)
{
    struct v8_frame_cache_key key = {.word = {[2] = third, [3] = w->process->space}};
    if (!w->process->seen || *w->step->provenance != PROVENANCE_EXACT ||
        !stack_word(w, fp + (uint64_t)(int64_t)first, &key.word[0]) || !key.word[0] ||
        !stack_word(w, fp + (uint64_t)(int64_t)second, &key.word[1]))
        return (struct v8_frame_cache_key){0};
    w->r.same = (struct memory_span){0, UINT64_MAX};
    return key;
}

/* A caller's frame in optimized code depends on its pc alone, because the code has its functions.
 * (The key includes `exited`: a builtin called there may or may not lead to the runtime.) */
static struct v8_frame_cache_key optimized_key(struct v8_walk *w, uint64_t pc, int32_t type)
{
    struct v8_frame_cache_key key = {.word = {pc, 1, w->exited, w->process->space}};
    if (!w->process->seen || *w->step->provenance != PROVENANCE_EXACT || type != 0 || is_exact(w))
        return (struct v8_frame_cache_key){0};
    return key;
}

/* Returns the frames of the cache entry; NULL: there is none. */
static const struct frame *recall_seen(const struct v8_walk *w,
                                       const struct v8_frame_cache_key *key, size_t *nr,
                                       const uint64_t **bytecode)
{
    return key->word[0] && !w->again
               ? v8_frame_cache_recall(w->process->seen, key, w->r.memory->time, nr, bytecode)
               : NULL;
}

/* Emits the frames of the cache entry; false: there is none. */
static bool emit_seen(struct v8_walk *w, const struct v8_frame_cache_key *key, uint64_t cfa)
{
    size_t nr;
    const uint64_t *bytecode;
    const struct frame *frames = recall_seen(w, key, &nr, &bytecode);
    for (size_t i = 0; frames && i < nr; i++) {
        struct frame f = frames[i];
        f.pc = step_pc(w);
        f.cfa = i ? 0 : cfa;
        f.code = i ? NULL : w->step->code.token;
        f.flags = (uint8_t)((f.flags & FRAME_INLINED) | (i ? 0 : w->step->flags));
        push(w, &f);
        if (w->nr_unmade && bytecode[i])
            find_made(w, bytecode[i]);
    }
    return frames;
}

/* Adds this step's frames to the cache, if all of their functions are known. */
static void note_seen(struct v8_walk *w, const struct v8_frame_cache_key *key)
{
    const __typeof__(w->step->out->frames) *out = &w->step->out->frames;
    const uint64_t time = w->r.memory->time;
    const struct memory_span same = w->moments ? w->r.same : (struct memory_span){time, time};
    if (!key->word[0] || *w->step->provenance != PROVENANCE_EXACT || !*w->step->frames_left ||
        w->again)
        return;
    for (size_t i = w->first; i < out->nr; i++) {
        if (out->at[i].kind != FRAME_NATIVE && !out->at[i].function)
            return;
    }
    v8_frame_cache_note(w->process->seen, key, same.from, same.to, out->at + w->first, w->bytecode,
                        out->nr - w->first);
}

/* ---- JavaScript frames --------------------------------------------------------------------- */

/* Returns the type of this frame from the word below its frame pointer; 0: a function's frame; -1:
 * the word is neither. */
static int32_t frame_type(struct v8_walk *w, uint64_t fp)
{
    uint64_t word;
    if (!stack_word(w, fp - 8, &word))
        return -1;
    if (word < MARKER_MAX && !(word & 1) && word)
        return (int32_t)(word >> 1);
    return (word & 3) == 1 && v8_is_pointer(word) ? 0 : -1;
}

/* ---- what the sample itself proves ---------------------------------------------------------- */

/* Memory changes when V8 makes an object: a function gets its names and code when it is first
 * called, and code appears where there was none. Where the stack names an object from two sides,
 * what was read is what stood there, no matter how it came to be there (struct memory_query). */
static void assume_alive(struct v8_walk *w, bool on)
{
    const size_t nr_maps = sizeof(w->r.maps) / sizeof(*w->r.maps);
    if (!w->moments || w->r.moment != MEMORY_NEAREST || w->r.alive == on)
        return;
    w->r.alive = on;
    for (size_t i = 0; on && i < nr_maps; i++) { /* maps keep their provenance: read them again */
        if (w->r.maps[i].provenance != PROVENANCE_EXACT)
            w->r.maps[i].map = 0;
    }
}

/* The object that leads to this function exists and keeps it alive: a frame's closure or feedback
 * whose bytecode is also in the frame, or code. `before`: the provenance of the readings that led
 * to it. */
static void assume_function_alive(struct v8_walk *w, const struct v8_sfi *sfi,
                                  enum provenance before)
{
    struct v8_sfi again;
    enum provenance read = w->r.provenance;
    if (read == before || !w->moments)
        return;
    assume_alive(w, true);
    w->r.provenance = before;
    if (v8_sfi_read(&w->r, sfi->sfi, &again) && !memcmp(&again, sfi, sizeof(again))) {
        say(w, TRACE_WAY, "the frame keeps the function alive, so the readings of it count", 0, 0);
        return;
    }
    assume_alive(w, false);
    w->r.provenance = read;
}

/* Reads the function by the frame's FeedbackVector, for when a GC has moved the closure meanwhile:
 * the vector is old and stays where it is. One of its first words refers to the function. */
static bool read_by_feedback(struct v8_walk *w, uint64_t fp, uint64_t bytecode, struct v8_sfi *ret)
{
    enum { FIRST = 16, LAST = 48 };
    const struct v8_layout *l = w->layout;
    uint64_t vector, sfi;
    if (l->fp_feedback == V8_UNKNOWN ||
        !stack_word(w, fp + (uint64_t)(int64_t)l->fp_feedback, &vector) || (vector & 3) != 1)
        return false;
    for (int32_t at = FIRST; at <= LAST; at += 8) {
        if (v8_slot(&w->r, vector, at, &sfi) && v8_is_pointer(sfi) &&
            v8_sfi_read(&w->r, sfi, ret) && v8_is_same(&w->r, ret->bytecode, bytecode))
            return true;
    }
    return false;
}

/* Reads the function by its bytecode from the list of all functions. */
static bool read_by_list(struct v8_walk *w, uint64_t bytecode, struct v8_sfi *ret)
{
    enum { MAX = 8 };
    const struct v8_process *p = w->process;
    uint64_t sfis[MAX];
    size_t nr = p->functions ? p->functions(p->namer.context, bytecode, sfis, MAX) : 0;
    for (size_t i = 0; i < nr && i < MAX; i++)
        if (v8_sfi_read(&w->r, sfis[i], ret) && v8_is_same(&w->r, ret->bytecode, bytecode))
            return true;
    return false;
}

/* Reads the function of the frame at `fp`. The frame also has its bytecode, and both must agree.
 * Where the function's own bytecode is not recorded, takes the frame's and sets `doubtful`. */
static bool read_function(struct v8_walk *w, uint64_t fp, struct v8_sfi *ret, bool *doubtful)
{
    const struct v8_layout *l = w->layout;
    uint64_t bytecode, function;
    if (w->process->no_objects ||
        !stack_word(w, fp + (uint64_t)(int64_t)l->fp_function, &function) ||
        !stack_word(w, fp + (uint64_t)(int64_t)l->fp_bytecode_array, &bytecode) ||
        !v8_is_pointer(bytecode))
        return false;
    struct v8_sfi other;
    if (w->process->reads_all_ways)
        (void)read_by_feedback(w, fp, bytecode, &other);
    const enum provenance before = w->r.provenance;
    uint64_t sfi = v8_function_sfi(&w->r, function);
    const enum provenance closure = w->r.provenance;
    w->r.provenance = before;
    bool read = v8_sfi_read(&w->r, sfi, ret);
    if (read && v8_is_same(&w->r, ret->bytecode, bytecode)) {
        say(w, TRACE_WAY,
            "the function is the frame's closure #; the frame's bytecode # is its own", function,
            bytecode);
        assume_function_alive(w, ret, before);
        return true; /* the owner of this bytecode is proven without the closure, even if the
                        closure is young */
    }
    const enum provenance closures = w->r.provenance;
    w->r.provenance = before;
    say(w, TRACE_REFUSED, "the frame's closure # does not lead to a function with its bytecode #",
        function, bytecode);
    if (read_by_feedback(w, fp, bytecode, &other)) {
        say(w, TRACE_WAY, "the frame's FeedbackVector leads to the function with its bytecode #",
            bytecode, 0);
        assume_function_alive(w, &other, before);
        *ret = other;
        return true; /* proven without reading the closure at all */
    }
    w->r.provenance = closures > closure ? closures : closure;
    if (read_by_list(w, bytecode, &other)) {
        say(w, TRACE_WAY, "the snapshot's list of all functions has one with the bytecode #",
            bytecode, 0);
        *ret = other;
        return true;
    }
    if (!read || ret->bytecode || !v8_is(&w->r, bytecode, l->type_bytecode))
        return false;
    mark(w, PROVENANCE_GUESS,
         "the function's own bytecode was not recorded: the frame's is taken for it, #", bytecode);
    *doubtful = true;
    ret->bytecode = bytecode;
    return true;
}

/* Reads the function that is being entered, and has no frame yet. */
static bool read_entered(struct v8_walk *w, struct v8_sfi *ret)
{
    return knows(w, w->m->function) &&
           v8_sfi_read(&w->r, v8_function_sfi(&w->r, reg(w, w->m->function)), ret) && ret->bytecode;
}

/* Returns the offset of the executing bytecode: in the innermost frame from its register, else from
 * the frame's slot, which is written only before calls. -1: unknown. */
static int32_t bytecode_offset(struct v8_walk *w, uint64_t fp, uint64_t bytecode)
{
    const struct v8_layout *l = w->layout;
    uint64_t length, slot;
    if (!v8_slot(&w->r, bytecode, l->array_length, &length) || !v8_is_smi(length))
        return -1;
    uint64_t first = (uint64_t)l->bytecode_data - 1, at = reg(w, w->m->offset) - first;
    if (is_exact(w) && knows(w, w->m->offset) && reg(w, array_register(w)) == bytecode &&
        at < (uint64_t)v8_smi(length)) {
        say(w, TRACE_WAY, "the line is that of bytecode offset #, from its register", at, 0);
        return (int32_t)at;
    }
    if (!stack_word(w, fp + (uint64_t)(int64_t)l->fp_bytecode_offset, &slot) || !v8_is_smi(slot))
        return -1;
    at = (uint64_t)(int64_t)v8_smi(slot) - first;
    say(w, TRACE_WAY, "the line is that of bytecode offset #, from the frame's slot", at, 0);
    return at < (uint64_t)v8_smi(length) ? (int32_t)at : -1;
}

/* Builds the cache key of an interpreted frame from everything that its reading depends on. */
static struct v8_frame_cache_key interpreted_key(struct v8_walk *w, uint64_t fp)
{
    const struct v8_layout *l = w->layout;
    const int32_t slots[] = {l->fp_bytecode_offset, l->fp_feedback};
    uint64_t offset = is_exact(w) && knows(w, w->m->offset) ? reg(w, w->m->offset) : 0, word;
    if (!w->process->seen)
        return (struct v8_frame_cache_key){0};
    if (offset) /* it is one only if the other register holds the BytecodeArray */
        offset = hash_combine(offset, reg(w, array_register(w)));
    for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
        if (slots[i] != V8_UNKNOWN && stack_word(w, fp + (uint64_t)(int64_t)slots[i], &word))
            offset = hash_combine(offset, word);
    }
    return seen_key(w, fp, l->fp_function, l->fp_bytecode_array, offset);
}

static enum walker_result step_interpreted(struct v8_walk *w, uint64_t fp, bool doubtful)
{
    struct v8_sfi sfi;
    struct emission e = {.cfa = fp + 16, .fp = fp, .tier = TIER_INTERP, .doubtful = doubtful};
    struct v8_frame_cache_key key = interpreted_key(w, fp);
    say(w, TRACE_WAY, "V8's interpreter runs a function, whose frame is at #", fp, 0);
    bool is_told = w->resumed && w->process->namer.resumed; /* each time, not only the first */
    if (!is_told && emit_seen(w, &key, fp + 16))
        return leave_frame(w, fp);
    if (read_function(w, fp, &sfi, &e.doubtful)) {
        int32_t offset = source_offset(w, sfi.bytecode, bytecode_offset(w, fp, sfi.bytecode));
        if (is_told && !w->again)
            w->process->namer.resumed(w->process->namer.context, &w->r, &sfi, offset);
        emit_function(w, &e, &sfi, offset, false);
    } else if (!emit_described(w, fp, doubtful))
        emit_unmade(w, fp, TIER_INTERP, bytecode_offset(w, fp, frame_bytecode(w, fp)), doubtful);
    note_seen(w, &key);
    return leave_frame(w, fp);
}

static void emit_baseline(struct v8_walk *w, const struct v8_code *c, uint64_t fp,
                          struct emission *e)
{
    struct v8_sfi sfi;
    int32_t offset = -1;
    bool made =
        fp && frame_type(w, fp) == 0; /* else the builtin that completes it has not done so */
    if (made ? !read_function(w, fp, &sfi, &e->doubtful) : !read_entered(w, &sfi)) {
        if (!fp ||
            !v8_baseline_offset(&w->r, c, frame_bytecode(w, fp), step_pc(w) + is_exact(w), &offset))
            offset = -1;
        if (fp)
            emit_unmade(w, fp, TIER_BASELINE, offset, e->doubtful);
        else
            emit_unknown(w, e->cfa, TIER_BASELINE, e->doubtful);
        return;
    }
    if (!fp || !v8_baseline_offset(&w->r, c, sfi.bytecode, step_pc(w) + is_exact(w), &offset))
        offset = -1;
    emit_function(w, e, &sfi, source_offset(w, sfi.bytecode, offset), false);
}

/* Corrects the functions of Maglev's code at a call, because the table of positions is not reliable
 * there (maglev.c). Returns how many. If they cannot be found in the deoptimization data, those of
 * the table stay, without lines, and are not exact. */
static unsigned place_maglev(struct v8_walk *w, const struct v8_code *c, uint64_t pc,
                             struct v8_inlined *functions, unsigned nr)
{
    struct v8_restored restored[V8_INLINED_MAX];
    unsigned nr_restored = v8_maglev_frames(&w->r, c, pc, restored);
    for (unsigned i = 0; i < nr; i++)
        functions[i].offset = -1;
    for (unsigned i = 0; i < nr_restored; i++) {
        struct v8_sfi sfi;
        functions[i] = (struct v8_inlined){restored[i].sfi, -1, i + 1 < nr_restored};
        if (v8_sfi_read(&w->r, restored[i].sfi, &sfi) && sfi.bytecode)
            functions[i].offset = source_offset(w, sfi.bytecode, restored[i].bytecode_offset);
    }
    if (nr_restored)
        return nr_restored;
    mark(w, PROVENANCE_STALE, "Maglev's deoptimization data does not have the call at #", pc);
    if (w->r.provenance < PROVENANCE_STALE)
        w->r.provenance = PROVENANCE_STALE;
    return nr;
}

/* Is the position of TurboFan's code at this call ambiguous in the table of positions? Calls of the
 * runtime that only allocate have no position, and show the position of the code before them. */
static bool is_unplaced(const struct v8_walk *w, const struct v8_code *c)
{
    return c->kind == V8_CODE_TURBOFAN && !is_exact(w) &&
           (w->exited || w->layout->positions_behind);
}

/* Finds the functions at this call that agree with the deoptimization data. Returns how many; 0:
 * none agree. Then, if the code may inline functions, the result is not exact. */
static unsigned place_turbofan(struct v8_walk *w, const struct v8_code *c, uint64_t pc,
                               struct v8_inlined functions[V8_INLINED_MAX])
{
    uint64_t raw[2], at = pc - c->start;
    int32_t offset;
    unsigned nr_raw = 0;
    if (v8_turbofan_offset(&w->r, c, pc, &offset))
        nr_raw = w->layout->positions_behind
                     ? v8_position_call(&w->r, c->positions, (int64_t)at, raw)
                     : v8_position_find(&w->r, c->positions, (int64_t)at - 1, raw);
    for (unsigned i = 0; i < nr_raw; i++) {
        struct v8_sfi sfi;
        unsigned nr = v8_code_inlined(&w->r, c, raw[i], functions);
        if (nr && functions[0].offset >= 0 && v8_sfi_read(&w->r, functions[0].sfi, &sfi) &&
            sfi.bytecode && source_offset(w, sfi.bytecode, offset) == functions[0].offset)
            return nr;
    }
    if (!v8_code_inlines_none(&w->r, c) && w->r.provenance < PROVENANCE_STALE) {
        mark(w, PROVENANCE_STALE,
             "the code's tables do not agree on which inlined functions are at the call #", pc);
        w->r.provenance = PROVENANCE_STALE;
    }
    return 0;
}

/* Returns the return address of the frame's call as its tables have it. When the code must not be
 * used any more, the call returns to a trampoline, which the tables of positions do not have. */
static uint64_t call_of(struct v8_walk *w, const struct v8_code *c)
{
    uint64_t pc = step_pc(w), call = v8_code_call(&w->r, c, pc);
    if (!call && c->kind == V8_CODE_TURBOFAN && w->r.provenance < PROVENANCE_STALE) {
        mark(w, PROVENANCE_STALE, "the code's tables do not have the call that returns to #", pc);
        w->r.provenance = PROVENANCE_STALE;
    }
    return call ? call : pc;
}

/* Emits the functions of optimized code: those inlined at the pc, and the function itself. */
static void emit_optimized(struct v8_walk *w, const struct v8_code *c, struct emission *e)
{
    struct v8_inlined functions[V8_INLINED_MAX];
    struct v8_sfi sfi;
    uint64_t raw, pc = step_pc(w);
    unsigned nr = 0;
    if (w->r.provenance == PROVENANCE_EXACT)
        assume_alive(w, true); /* existing code keeps alive what it refers to */
    if (!is_exact(w))
        pc = call_of(w, c);
    if (is_unplaced(w, c))
        nr = place_turbofan(w, c, pc, functions);
    else if (v8_position_find(&w->r, c->positions, (int64_t)(pc - c->start) - !is_exact(w), &raw))
        nr = v8_code_inlined(&w->r, c, raw, functions);
    if (nr == 0) /* no table: the function alone, without a line */
        functions[nr++] = (struct v8_inlined){.sfi = v8_code_sfi(&w->r, c), .offset = -1};
    if (c->kind == V8_CODE_MAGLEV && !is_exact(w))
        nr = place_maglev(w, c, pc, functions, nr);
    for (unsigned i = 0; i < nr; i++) {
        if (v8_sfi_read_name(&w->r, functions[i].sfi, &sfi)) {
            emit_function(w, e, &sfi, functions[i].offset, functions[i].inlined);
            continue;
        }
        emit_unknown(w, e->second ? 0 : e->cfa, e->tier, e->doubtful);
        e->second = true;
    }
}

/* Tell the namer of optimized code, before its functions are named. */
static void tell_optimized(struct v8_walk *w, const struct v8_code *c)
{
    const struct v8_namer *namer = &w->process->namer;
    if (namer->optimized && !w->again)
        namer->optimized(namer->context, &w->r, c, w->deopted ? step_pc(w) : 0, w->lazy);
}

static void emit_code(struct v8_walk *w, const struct v8_code *c, uint64_t fp, uint64_t cfa,
                      bool doubtful)
{
    static const char *const texts[] = {
        [V8_CODE_BASELINE] = "the code object # (baseline) contains the pc; it begins at #",
        [V8_CODE_MAGLEV] = "the code object # (maglev) contains the pc; it begins at #",
        [V8_CODE_TURBOFAN] = "the code object # (turbofan) contains the pc; it begins at #",
    };
    struct emission e = {.cfa = cfa, .fp = fp, .doubtful = doubtful};
    bool known = (size_t)c->kind < sizeof(texts) / sizeof(*texts) && texts[c->kind];
    say(w, TRACE_WAY,
        known ? texts[c->kind]
              : "the code object # (no function's) contains the pc; it begins at #",
        c->code, c->start);
    switch (c->kind) {
    case V8_CODE_BASELINE:
        e.tier = TIER_BASELINE;
        emit_baseline(w, c, fp, &e);
        return;
    case V8_CODE_MAGLEV:
        e.tier = TIER_MAGLEV;
        tell_optimized(w, c);
        emit_optimized(w, c, &e);
        return;
    case V8_CODE_TURBOFAN:
        e.tier = TIER_TURBOFAN;
        tell_optimized(w, c);
        emit_optimized(w, c, &e);
        return;
    case V8_CODE_JS_TO_WASM:
        emit_own(w, "js-to-wasm", 0, cfa, doubtful);
        return;
    case V8_CODE_REGEXP:
        emit_own(w, "RegExp", 0, cfa, doubtful);
        return;
    default:
        emit_own(w, NULL, fp ? frame_type(w, fp) : -1, cfa, doubtful);
    }
}

/* ---- the state of generated code ----------------------------------------------------------- */

/* Do a few bytes of the code show that its frame stands? A recorder reads all of the code instead,
 * for later walks. */
static bool stands(struct v8_walk *w, uint64_t start, uint64_t size, size_t at)
{
    uint8_t head[V8_BYTES_HEAD], before[V8_BYTES_BEFORE];
    size_t nr_head = size < sizeof(head) ? size : sizeof(head);
    size_t nr_before = at < sizeof(before) ? at : sizeof(before);
    return !w->process->reads_all_ways && at < size && v8_read(&w->r, start, head, nr_head) &&
           v8_read(&w->r, start + at - nr_before, before, nr_before) &&
           w->m->has_frame(head, nr_head, at, before, nr_before);
}

/* Returns the state at the pc of the innermost frame, in code whose place is known. */
static struct v8_state bytes_state(struct v8_walk *w, uint64_t start, uint64_t bytes, bool baseline)
{
    struct v8_state s = {0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, true};
    size_t size = bytes < CODE_BYTES_MAX ? bytes : CODE_BYTES_MAX;
    size_t at = step_pc(w) - start;
    baseline = baseline && w->m->baseline;
    if (!baseline && stands(w, start, bytes, at))
        return (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, false};
    if (!w->process->reads_all_ways && size > ENTRY_BYTES && (baseline || at < ENTRY_BYTES / 2))
        size = ENTRY_BYTES; /* the part that makes the frame */
    uint8_t *code = malloc(size);
    if (code && v8_read(&w->r, start, code, size)) {
        const struct v8_frame_cache *seen = w->process->seen;
        struct v8_state got =
            baseline ? w->m->baseline(code, size, at)
            : seen   ? v8_code_states_get(v8_frame_cache_states(seen), w->m, code, size, at)
                     : v8_code_state(w->m, code, size, at);
        /* (behind a call that has just returned, the link register is no caller's) */
        bool called =
            got.return_register != V8_RETURN_ON_STACK && reg(w, got.return_register) == step_pc(w);
        if (got.kind != V8_STATE_UNKNOWN && !(called && got.kind == V8_STATE_SP))
            s = got;
    }
    free(code);
    return s;
}

/* The pc alone identifies the code. If the code was read only once, soon after the sample, other
 * code may have come to the same place: the frames of this step are not exact. */
static void doubt_code(struct v8_walk *w)
{
    for (size_t i = w->first; i < w->step->out->frames.nr; i++) {
        struct frame *f = &w->step->out->frames.at[i];
        trace_mark(w->step->input, i, PROVENANCE_STALE,
                   "the code was read only once, soon after the sample, and the frame does not "
                   "confirm it",
                   0);
        if (f->kind != FRAME_NATIVE && f->provenance == PROVENANCE_EXACT)
            f->provenance = PROVENANCE_STALE;
    }
}

/* ---- WebAssembly --------------------------------------------------------------------------- */

/* Emits one function of WebAssembly code; `c` NULL: the function is unknown. */
static void emit_wasm_function(struct v8_walk *w, const struct v8_wasm *c, struct emission *e,
                               bool inlined)
{
    const struct v8_namer *namer = &w->process->namer;
    struct frame f = frame_here(w, FRAME_WASM, e->cfa);
    uint64_t id;
    if (e->second)
        set_second(&f);
    f.flags |= inlined ? FRAME_INLINED : 0;
    f.tier = (uint8_t)e->tier;
    if (c && w->again) {
        f.function = v8_slot(&w->r, c->script, w->layout->script_id, &id)
                         ? v8_identity(id, (uint64_t)(uint32_t)c->index)
                         : 0;
        f.line = (uint32_t)(c->position + 1);
    } else if (c && namer->wasm && !namer->wasm(namer->context, &w->r, c, &f))
        w->failed = true;
    mark_reads(w);
    mark_doubts(w, e->doubtful);
    if (w->r.provenance > f.provenance)
        f.provenance = (uint8_t)w->r.provenance;
    if (e->doubtful || !w->layout->verified)
        f.provenance = PROVENANCE_GUESS;
    e->second = true;
    push(w, &f);
}

static void emit_wasm_unknown(struct v8_walk *w, uint64_t cfa, bool doubtful)
{
    struct emission e = {.cfa = cfa, .doubtful = doubtful};
    if (w->step->code.owner == CODE_JIT || w->process->no_objects)
        emit_native(w, cfa, doubtful);
    else
        emit_wasm_function(w, NULL, &e, false);
}

static void emit_wasm(struct v8_walk *w, const struct v8_wasm *c, uint64_t cfa, bool doubtful)
{
    struct emission e = {.cfa = cfa, .tier = c->tier, .doubtful = doubtful};
    struct v8_wasm_place places[V8_WASM_INLINED_MAX];
    bool calls = !is_exact(w);
    if (c->index < 0) {
        emit_native(w, cfa, doubtful);
        return;
    }
    unsigned nr = v8_wasm_places(&w->r, c, step_pc(w) - calls, calls, places);
    for (unsigned i = 0; i < nr; i++) {
        struct v8_wasm one = *c;
        one.index = places[i].index;
        one.position = places[i].position;
        emit_wasm_function(w, &one, &e, i + 1 < nr);
    }
    if (!nr)
        emit_wasm_unknown(w, cfa, doubtful);
}

/* Finds the code that contains the pc, in the module of the instance in the frame at `fp`. Before
 * the code has a frame, the instance is in the register in which V8 passes it. */
static bool find_wasm(struct v8_walk *w, uint64_t fp, int32_t type, struct v8_wasm *ret)
{
    enum { FRAME_INSTANCE = -16 };
    const struct v8_reader before = w->r;
    uint64_t pc = step_pc(w) - !is_exact(w), instance;
    if (is_exact(w) && knows(w, w->m->instance) &&
        v8_wasm_find(&w->r, reg(w, w->m->instance), pc, ret))
        return true;
    undo(w, &before);
    if (type == w->layout->frame_wasm && stack_word(w, fp + (uint64_t)FRAME_INSTANCE, &instance) &&
        v8_wasm_find(&w->r, instance, pc, ret))
        return true;
    undo(w, &before);
    return false;
}

/* The state of code in a module that is no function: jump tables, or glue that makes a frame. */
static struct v8_state wasm_glue_state(struct v8_walk *w, const struct v8_wasm *c)
{
    uint8_t head[V8_BYTES_LIFTOFF];
    if (c->size >= sizeof(head) && v8_read(&w->r, c->start, head, sizeof(head)) &&
        w->m->made_type(w->layout, head) >= 0)
        return bytes_state(w, c->start, c->size, false);
    return v8_frameless(w->m);
}

/* Does this code call the builtin that makes its frame? Liftoff's code calls it first. */
static bool calls_for_frame(struct v8_walk *w, const struct v8_wasm *c)
{
    uint8_t head[V8_BYTES_LIFTOFF];
    return w->m->liftoff_begun && c->size >= sizeof(head) &&
           v8_read(&w->r, c->start, head, sizeof(head)) &&
           w->m->liftoff_begun(head) == step_pc(w) - c->start;
}

static struct v8_state wasm_state(struct v8_walk *w, const struct v8_wasm *c)
{
    if (!is_exact(w) && w->bare && calls_for_frame(w, c)) /* the builtin has not made it yet */
        return v8_frameless(w->m);
    if (!is_exact(w))
        return (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, false};
    return c->index < 0 ? wasm_glue_state(w, c) : bytes_state(w, c->start, c->size, false);
}

/* Finds the state at the pc, if the instructions from `start` on lead there. */
static bool led_state(struct v8_walk *w, uint64_t start, struct v8_state *ret)
{
    size_t at = step_pc(w) - start;
    uint8_t *code = malloc(at + 1);
    bool is = code && v8_read(&w->r, start, code, at + 1);
    if (is)
        *ret = w->process->seen ? v8_code_states_get(v8_frame_cache_states(w->process->seen), w->m,
                                                     code, at + 1, at)
                                : v8_code_state(w->m, code, at + 1, at);
    free(code);
    return is && ret->kind != V8_STATE_UNKNOWN;
}

/* Finds the innermost frame's state in code that no frame's instance leads to. The glue by which a
 * module calls JavaScript belongs to no module, and a function that has taken down its frame has no
 * instance any more. Code begins aligned, and with a prologue. */
static bool find_glue(struct v8_walk *w, int32_t *type, struct v8_state *ret)
{
    enum { SEARCH_MAX = 4096, CODE_ALIGNMENT = 64 };
    uint64_t pc = step_pc(w), start = pc & ~(uint64_t)(CODE_ALIGNMENT - 1);
    uint64_t low = w->step->code.start;
    uint8_t head[V8_BYTES_LIFTOFF];
    for (; pc - start < SEARCH_MAX && start >= low && start < pc + 1; start -= CODE_ALIGNMENT) {
        if (!v8_read(&w->r, start, head, sizeof(head)))
            return false;
        *type = w->m->made_type(w->layout, head);
        if (*type >= 0)
            return led_state(w, start, ret) && !ret->doubtful;
    }
    return false;
}

static enum walker_result step_glue(struct v8_walk *w, int32_t type, const struct v8_state *s)
{
    if (type == w->layout->frame_wasm)
        emit_wasm_unknown(w, state_cfa(w, s), false);
    else
        emit_own(w, NULL, type, state_cfa(w, s), false);
    return leave_state(w, s);
}

/* A caller's frame that stands is the same at the next sample: `key` identifies it. A recorder
 * reads it again: the module's objects are proven by readings near each sample. */
static enum walker_result step_wasm(struct v8_walk *w, const struct v8_wasm *c, uint64_t fp,
                                    const struct v8_frame_cache_key *key)
{
    struct v8_state s = wasm_state(w, c);
    say(w, TRACE_WAY, "WebAssembly code at #, function # of its module", c->start,
        (uint64_t)c->index);
    emit_wasm(w, c, state_cfa(w, &s), s.doubtful);
    if (w->r.by_one_reading)
        doubt_code(w);
    if (!w->process->reads_all_ways && !is_exact(w) && s.kind == V8_STATE_FRAMED &&
        !calls_for_frame(w, c))
        note_seen(w, key);
    return s.kind == V8_STATE_FRAMED ? leave_frame(w, fp) : leave_state(w, &s);
}

/* ---- builtins ------------------------------------------------------------------------------ */

/* A step inside BaselineOutOfLinePrologue, which makes the frame of the baseline code that called
 * it. */
static enum walker_result step_prologue(struct v8_walk *w, const struct v8_state *s)
{
    const struct v8_state begun = v8_frameless(w->m);
    if (!is_exact(w) || s->kind != V8_STATE_SP || s->offset != begun.offset ||
        s->return_register != begun.return_register) {
        emit_native(w, step_fp(w) + 16, true);
        return leave_frame(w, step_fp(w));
    }
    emit_native(w, state_cfa(w, s), s->doubtful);
    w->frameless = w->m->builtin_makes_frame;
    uint64_t function =
        *w->step->known & REG_BIT(w->m->function); /* used until the frame is made (read_entered) */
    enum walker_result got = leave_state(w, s);
    w->left_bare = false;
    if (got == WALKER_STEPPED)
        *w->step->known |= function;
    return got;
}

/* Where the return address may be in a register, a frame must not be assumed: native rules follow
 * the instructions from other places, too. Not where the frame tells the function that runs. */
static bool follows_natively(const struct v8_walk *w, const struct v8_builtin *b)
{
    return has_link(w) && b->class != V8_BUILTIN_PROLOGUE && b->class != V8_BUILTIN_HANDLER &&
           b->class != V8_BUILTIN_INTERPRETER;
}

/* A step from an innermost frame that is in a builtin. */
static enum walker_result step_leaf_builtin(struct v8_walk *w, struct v8_builtin *b, uint64_t vaddr)
{
    struct v8_state s = v8_builtin_state(w->layout, b, vaddr);
    uint64_t fp = step_fp(w);
    bool doubtful = s.doubtful || s.kind == V8_STATE_UNKNOWN;
    say(w, TRACE_WAY, "a builtin of V8, which begins at # of the file, # bytes", b->start, b->size);
    if (s.kind == V8_STATE_UNKNOWN && follows_natively(w, b))
        return WALKER_NO;
    if (s.kind == V8_STATE_UNKNOWN)
        s = (struct v8_state){0, V8_STATE_FRAMED, V8_RETURN_ON_STACK, true};
    if (b->class == V8_BUILTIN_PROLOGUE)
        return step_prologue(w, &s);
    if (b->class == V8_BUILTIN_HANDLER) {
        bool own = doubtful ? frame_type(w, fp) > 0 : s.kind == V8_STATE_FRAMED;
        if (!own && s.kind != V8_STATE_PUSHED)
            return step_interpreted(w, fp, doubtful && frame_type(w, fp) != 0);
    }
    if (b->class == V8_BUILTIN_INTERPRETER && s.kind == V8_STATE_FRAMED)
        return step_interpreted(w, fp, doubtful);
    if (b->class == V8_BUILTIN_ENTRY && s.kind == V8_STATE_FRAMED) {
        emit_native(w, fp + 16, true); /* the registers may not be saved yet, or may be restored
                                          already */
        return leave_entry(w, fp);
    }
    emit_native(w, state_cfa(w, &s), doubtful);
    return leave_state(w, &s);
}

static bool is_entry(const struct v8_walk *w, int32_t type)
{
    return type == w->layout->frame_entry || type == w->layout->frame_construct_entry;
}

/* Finds the builtin that a frame is in. The deoptimizer makes frames that will continue at the very
 * start of a builtin, where a call's return address never is: behind a call there is always more of
 * the same builtin, or padding. */
static struct v8_builtin *builtin_at(const struct v8_walk *w, uint64_t vaddr)
{
    struct v8_builtin *b = v8_builtin_find(w->layout, vaddr);
    if (is_exact(w) || (b && vaddr + 1 - b->start < b->size))
        return b;
    struct v8_builtin *next = v8_builtin_find(w->layout, vaddr + 1);
    bool begins = next && next->start == vaddr + 1;
    return begins && (!b || next->class == V8_BUILTIN_INTERPRETER) ? next : b;
}

static bool is_optimized(const struct v8_code *c)
{
    return c->kind == V8_CODE_MAGLEV || c->kind == V8_CODE_TURBOFAN;
}

/* ---- functions that await -------------------------------------------------------------------- */

enum {
    AWAITERS_MAX = 256,
    FRAME_CONTEXT = -8,    /* of a builtin's frame that resumes an async function */
    REACTION_FIRST = -16,  /* words of the frame of a builtin that calls a callback; one of them */
    REACTION_SECOND = -24, /* leads to the promise that the callback settles */
    AWAITS_KEY = 3,        /* tells the entries in the frame cache from others */
};

/* Says that there may be more functions, which were not recorded. */
static void emit_unread_awaiter(struct v8_walk *w)
{
    struct frame f = frame_here(w, FRAME_JS, 0);
    set_second(&f);
    f.tier = TIER_ASYNC;
    push(w, &f);
}

/* Emits the functions that await the promise, nearest first. Returns how the chain ended. */
static enum v8_await emit_awaiters(struct v8_walk *w, enum v8_await got, uint64_t promise)
{
    struct emission e = {.second = true, .tier = TIER_ASYNC};
    struct v8_awaiter a;
    for (unsigned i = 0; got == V8_AWAIT_FOUND && promise; i++) {
        got = i < AWAITERS_MAX ? v8_await_next(&w->r, &promise, &a) : V8_AWAIT_UNREAD;
        if (got == V8_AWAIT_FOUND)
            emit_function(w, &e, &a.sfi, source_offset(w, a.sfi.bytecode, a.offset), false);
        if (got == V8_AWAIT_FOUND && a.cut)
            got = V8_AWAIT_UNREAD;
    }
    return got;
}

/* Emits them as an earlier walk has found them; false: none has, of late. */
static bool emit_seen_awaiters(struct v8_walk *w, const struct v8_frame_cache_key *key)
{
    const uint64_t *bytecode;
    size_t nr;
    const struct frame *frames = recall_seen(w, key, &nr, &bytecode);
    for (size_t i = 0; frames && i < nr; i++) {
        struct frame f = frames[i];
        f.pc = step_pc(w);
        push(w, &f);
    }
    return frames;
}

/* Finds the promise of what the builtin has called, in the builtin's frame. */
static enum v8_await called_promise(struct v8_walk *w, const struct v8_builtin *b, uint64_t fp,
                                    uint64_t *ret)
{
    static const int32_t slots[] = {REACTION_FIRST, REACTION_SECOND};
    uint64_t word;
    if (b->class == V8_BUILTIN_RESUME)
        return stack_word(w, fp + (uint64_t)FRAME_CONTEXT, &word)
                   ? v8_await_resumed(&w->r, word, ret)
                   : V8_AWAIT_END;
    for (size_t i = 0; i < sizeof(slots) / sizeof(*slots); i++) {
        if (!stack_word(w, fp + (uint64_t)(int64_t)slots[i], &word) || !v8_is_pointer(word))
            continue;
        enum v8_await got = v8_await_reaction(&w->r, word, ret);
        if (got != V8_AWAIT_END)
            return got;
    }
    return V8_AWAIT_END;
}

static enum v8_await emit_chain(struct v8_walk *w, const struct v8_builtin *b, uint64_t fp)
{
    uint64_t promise = 0;
    enum v8_await got = called_promise(w, b, fp, &promise);
    return emit_awaiters(w, got, promise);
}

/* Emits the same by the readings before the sample. A promise that is not settled loses no
 * reaction: what was found then is still so, as long as the builtin's frame stands. */
static enum v8_await emit_chain_before(struct v8_walk *w, const struct v8_builtin *b, uint64_t fp)
{
    const enum memory_moment moment = w->r.moment;
    say(w, TRACE_WAY, "it was read too late; what was read before?", 0, 0);
    w->r.moment = MEMORY_BEFORE;
    memset(w->r.maps, 0, sizeof(w->r.maps));
    enum v8_await got = emit_chain(w, b, fp);
    w->r.moment = moment;
    memset(w->r.maps, 0, sizeof(w->r.maps));
    return got;
}

/* Emits the functions that await what the builtin at `fp` has called. */
static void emit_awaiting(struct v8_walk *w, const struct v8_builtin *b, uint64_t fp)
{
    __typeof__(w->step->out->frames) *frames = &w->step->out->frames;
    const size_t first = frames->nr;
    const bool calls_back = b->class == V8_BUILTIN_REACTION && !w->awaited;
    if (!w->process->awaits || w->process->no_objects ||
        (b->class != V8_BUILTIN_RESUME && !calls_back))
        return;
    const struct v8_frame_cache_key key =
        seen_key(w, fp, FRAME_CONTEXT, REACTION_FIRST, AWAITS_KEY);
    if (emit_seen_awaiters(w, &key))
        return;
    say(w, TRACE_WAY, "the builtin at # resumes JavaScript: who awaits its result?", b->start, 0);
    const struct v8_reader before = w->r;
    enum v8_await got = emit_chain(w, b, fp);
    if (got == V8_AWAIT_UNREAD && w->moments && w->r.moment == MEMORY_NEAREST) {
        *w->step->frames_left += (unsigned)(frames->nr - first);
        frames->nr = first;
        undo(w, &before);
        got = emit_chain_before(w, b, fp);
    }
    /* That nobody awaits is not known if it was read at another moment, and no frame is marked. */
    if (got == V8_AWAIT_UNREAD || (frames->nr == first && w->r.provenance > before.provenance))
        emit_unread_awaiter(w);
    note_seen(w, &key);
    undo(w, &before);
}

/* Is it the builtin that is called by code which must not be used any more? */
static bool is_lazy(const struct v8_builtin *b)
{
    return strcmp(b->name, "DeoptimizationEntry_Lazy") == 0;
}

/* Tell the namer which exit has called the deoptimizer, from which C++ was called. The builtin has
 * saved all registers, of which those for floating point have 8 bytes each, or 16 since V8 12: the
 * return address is behind them. The word at sp is sp before it was aligned for the call. */
static void tell_exit(struct v8_walk *w, const struct v8_builtin *b)
{
    enum { ALIGNED_MAX = 32 };
    const uint16_t *areas = w->m->deopt_saved;
    const struct v8_namer *namer = &w->process->namer;
    const struct v8_reader before = w->r;
    struct v8_code c;
    struct v8_exit e;
    uint64_t sp, pc;
    if (!namer->optimized || w->again || !stack_word(w, step_sp(w), &sp) ||
        sp - step_sp(w) > ALIGNED_MAX)
        return;
    for (size_t i = 0; i < 2 && areas[i]; i++) {
        if (stack_word(w, sp + areas[i], &pc) && pc && v8_code_find(&w->r, pc - 1, 0, &c) &&
            is_optimized(&c) && v8_exit_find(&w->r, &c, pc, &e)) {
            namer->optimized(namer->context, &w->r, &c, pc, is_lazy(b));
            break;
        }
    }
    undo(w, &before);
}

/* C++ was called to deoptimize the optimized code whose frame is at `fp`; the builtin has no frame.
 * At first that frame still stands: it shows the function, but not the position or the inlined
 * functions. Later it has been taken down, up to the frame of the caller, and nothing leads to it
 * any more. */
static enum walker_result step_deoptimizer(struct v8_walk *w, const struct v8_builtin *b,
                                           uint64_t fp)
{
    enum { REGISTERS = 128 }; /* fewer bytes than the builtin first saves below the frame */
    struct emission e = {.second = true};
    struct v8_sfi sfi;
    uint64_t function;
    emit_native(w, 0, false);
    if (step_sp(w) + REGISTERS > fp) {
        mark(w, PROVENANCE_GUESS,
             "the deoptimizer has taken down the frame of the code that called it", 0);
        *w->step->provenance = PROVENANCE_GUESS;
        return leave_frame(w, fp);
    }
    tell_exit(w, b);
    mark(w, PROVENANCE_STALE,
         "the code is being deoptimized: its frame shows the function, but not the position", 0);
    if (w->r.provenance < PROVENANCE_STALE)
        w->r.provenance = PROVENANCE_STALE;
    if (stack_word(w, fp + (uint64_t)(int64_t)w->layout->fp_function, &function) &&
        v8_sfi_read_name(&w->r, v8_function_sfi(&w->r, function), &sfi))
        emit_function(w, &e, &sfi, -1, false);
    else
        emit_unknown(w, 0, TIER_NONE, false);
    return leave_frame(w, fp);
}

static enum walker_result step_builtin(struct v8_walk *w, uint64_t vaddr)
{
    struct v8_builtin *b = builtin_at(w, vaddr);
    uint64_t fp = step_fp(w);
    if (!knows(w, w->a->fp))
        return WALKER_NO;
    w->left_exit = b && b->class == V8_BUILTIN_EXIT;
    w->left_deopt = b && b->class == V8_BUILTIN_DEOPT && is_exact(w);
    w->left_lazy = w->left_deopt && is_lazy(b);
    w->left_notify = b && strcmp(b->name, "NotifyDeoptimized") == 0;
    w->left_await = b && b->class == V8_BUILTIN_RESUME;
    if (b && is_exact(w))
        return step_leaf_builtin(w, b, vaddr);
    if (b && b->class == V8_BUILTIN_INTERPRETER)
        return step_interpreted(w, fp, false);
    int32_t type = frame_type(w, fp);
    if (b && b->class == V8_BUILTIN_DEOPT && (type == 0 || step_sp(w) > fp) && !is_behind(w, fp))
        return step_deoptimizer(w, b, fp);
    if (b)
        say(w, TRACE_WAY, "a builtin of V8, which begins at # of the file, # bytes", b->start,
            b->size);
    else
        say(w, TRACE_REFUSED, "no builtin is known at # of the file", vaddr, 0);
    if (b)
        emit_awaiting(w, b, fp);
    emit_native(w, fp + 16, !b || type < 0);
    if (is_entry(w, type))
        return leave_entry(w, fp);
    return leave_frame(w, fp);
}

/* ---- generated code ------------------------------------------------------------------------ */

/* Is it the frame of a compiled regular expression? That calls no generated code: code that runs
 * under its frame is its own, and the frame stands. */
static bool is_regexp(const struct v8_walk *w, int32_t type)
{
    return type > 0 && type == w->layout->frame_regexp;
}

/* The same of versions whose frames have no type for it. */
static bool stands_in_regexp(struct v8_walk *w, const struct v8_code *c)
{
    return c->kind == V8_CODE_REGEXP && w->m->stands_in_regexp &&
           w->m->stands_in_regexp(&w->r, c, step_pc(w));
}

/* A step without the code's bytes: assumes that the code has a frame, and marks an innermost frame
 * as a guess. `type`: its frame_type(). */
static enum walker_result step_undescribed(struct v8_walk *w, int32_t type)
{
    uint64_t fp = step_fp(w);
    bool doubtful = is_exact(w) && !is_regexp(w, type);
    if (type < 0 && (is_exact(w) || !is_behind(w, fp - 8)))
        return WALKER_NO;
    if (doubtful && has_link(w))
        return WALKER_NO; /* native rules know more of where the return address is */
    say(w, TRACE_REFUSED,
        "no code object with the pc was recorded: the code is assumed to have a frame at #", fp, 0);
    if (type == w->layout->frame_wasm)
        emit_wasm_unknown(w, fp + 16, doubtful);
    else if (type == 0)
        emit_unknown(w, fp + 16, TIER_NONE, doubtful);
    else
        emit_own(w, NULL, type, fp + 16, doubtful);
    if (is_entry(w, type))
        return leave_entry(w, fp);
    return is_regexp(w, type) ? leave_regexp(w, fp) : leave_frame(w, fp);
}

/* Does the function in the frame at `fp` say that the frame belongs to this optimized code?
 * Code that is entered in the middle of a loop takes over a frame, which its instructions do
 * not show. */
static bool has_frame(struct v8_walk *w, const struct v8_code *c, uint64_t fp)
{
    uint64_t function, sfi;
    if (!is_optimized(c) || frame_type(w, fp) != 0 ||
        !stack_word(w, fp + (uint64_t)(int64_t)w->layout->fp_function, &function))
        return false;
    sfi = v8_function_sfi(&w->r, function);
    return sfi && v8_is_same(&w->r, sfi, v8_code_sfi(&w->r, c));
}

/* Is this code the code of the function in the frame (`framed`), or of the function being
 * entered? */
static bool is_code_of(struct v8_walk *w, const struct v8_code *c, bool framed)
{
    uint64_t sfi =
        framed ? 0 : v8_function_sfi(&w->r, knows(w, w->m->function) ? reg(w, w->m->function) : 0);
    return framed ? has_frame(w, c, step_fp(w))
                  : sfi && v8_is_same(&w->r, sfi, v8_code_sfi(&w->r, c));
}

/* The code was written, or other code stood there, shortly before or after. Does the frame, or the
 * function being entered, say that this code is its own? */
static bool is_claimed(struct v8_walk *w, const struct v8_code *c, uint64_t fp)
{
    uint64_t bytecode;
    if (is_optimized(c))
        return is_code_of(w, c, true) || (is_exact(w) && is_code_of(w, c, false));
    return c->kind == V8_CODE_BASELINE && frame_type(w, fp) == 0 &&
           stack_word(w, fp + (uint64_t)(int64_t)w->layout->fp_bytecode_array, &bytecode) &&
           v8_is_pointer(bytecode) && bytecode == c->deopt;
}

static bool is_same_code(const struct v8_code *a, const struct v8_code *b)
{
    return a->code == b->code && a->start == b->start && a->size == b->size &&
           a->deopt == b->deopt && a->positions == b->positions && a->kind == b->kind;
}

/* Finds the code that contains the pc. `alone`: the frame was not needed as a second proof of
 * it. */
static bool find_code(struct v8_walk *w, uint64_t pc, uint64_t low, uint64_t fp,
                      struct v8_code *ret, bool *alone)
{
    struct v8_code again;
    const enum provenance before = w->r.provenance;
    *alone = true;
    if (!v8_code_find(&w->r, pc, low, ret))
        return false;
    const enum provenance read = w->r.provenance;
    if (read == before || !w->moments)
        return true;
    *alone = false;
    assume_alive(w, true);
    if (is_claimed(w, ret, fp)) {
        w->r.provenance = before;
        if (v8_code_find(&w->r, pc, low, &again) && is_same_code(&again, ret))
            return true;
    }
    assume_alive(w, false);
    w->r.provenance = read;
    return true;
}

static enum walker_result step_frameless(struct v8_walk *w, const struct v8_code *c,
                                         const struct v8_state *s)
{
    emit_code(w, c, 0, state_cfa(w, s), s->doubtful);
    if (is_optimized(c) && (w->process->reads_all_ways || w->r.by_one_reading) &&
        !is_code_of(w, c, false))
        doubt_code(w);
    return leave_state(w, s);
}

/* A frame of generated code, as far as it is known. */
struct generated {
    uint64_t pc, fp; /* an address in the executing instruction or the call; the frame pointer */
    int32_t type;    /* frame_type() */
    bool frameless;  /* the code that runs in it has left its frame */
    struct v8_frame_cache_key key, optimized;
    struct v8_code code;   /* the Code object with the pc */
    struct v8_state state; /* where the frame is, at the very instruction */
    bool alone;            /* no other Code object has had the pc */
};

static void begin_generated(struct v8_walk *w, struct generated *g)
{
    g->pc = step_pc(w) - !is_exact(w);
    g->fp = step_fp(w);
    g->state = v8_frameless(w->m);
    g->frameless = w->frameless;
    w->frameless = false;
    if (w->deopted) { /* the code has no positions there */
        mark(w, PROVENANCE_STALE, "the code calls the deoptimizer, where it has no positions", 0);
        w->r.provenance = PROVENANCE_STALE;
    }
    w->r.by_one_reading = false;
}

/* Step by what is known without the frame's Code object: a frame that was read a moment ago, or
 * WebAssembly's. Returns false if the Code object is needed. */
static bool step_without_code(struct v8_walk *w, struct generated *g, enum walker_result *ret)
{
    struct v8_wasm wasm;
    g->key = seen_key(w, g->fp, w->layout->fp_function, -8,
                      g->pc << 2 | (uint64_t)w->exited << 1 | is_exact(w));
    g->type = frame_type(w, g->fp);
    g->optimized = optimized_key(w, g->pc, g->type);
    bool is_wasm = g->type == w->layout->frame_wasm;
    bool is_told = w->deopted && w->process->namer.optimized; /* each call, not only the first */
    if (!g->frameless && !is_told &&
        (emit_seen(w, &g->optimized, g->fp + 16) || emit_seen(w, &g->key, g->fp + 16)))
        *ret = leave_frame(w, g->fp);
    else if (!g->frameless && (is_exact(w) || is_wasm) && find_wasm(w, g->fp, g->type, &wasm))
        *ret = step_wasm(w, &wasm, g->fp, &g->key);
    else if (!is_exact(w) && is_wasm)
        *ret = step_undescribed(w, g->type);
    else
        return false;
    return true;
}

/* Find the Code object, and where its frame is. Returns false if the step is done: nothing is known
 * of the code, or it has no frame at this instruction. */
static bool find_frame_of_code(struct v8_walk *w, struct generated *g, enum walker_result *ret)
{
    const struct code *owner = &w->step->code;
    struct v8_code *c = &g->code;
    int32_t glue;
    w->r.by_one_reading = false;
    bool found =
        find_code(w, g->pc, owner->owner == CODE_JIT ? 0 : owner->start, g->fp, c, &g->alone);
    if (!found) {
        *ret = is_exact(w) && find_glue(w, &glue, &g->state) ? step_glue(w, glue, &g->state)
                                                             : step_undescribed(w, g->type);
        return false;
    }
    int64_t to_cfa;
    if (is_exact(w) && c->kind == V8_CODE_REGEXP && w->m->begins_regexp &&
        w->m->begins_regexp(&w->r, c, step_pc(w), &to_cfa)) {
        emit_code(w, c, 0, step_sp(w) + (uint64_t)to_cfa, false);
        *ret = leave_begun_regexp(w, step_sp(w) + (uint64_t)to_cfa);
        return false;
    }
    if (is_exact(w) && (is_regexp(w, g->type) || stands_in_regexp(w, c)))
        return true;
    if (is_exact(w))
        g->state = bytes_state(w, c->start, c->size, c->kind == V8_CODE_BASELINE);
    if ((!is_exact(w) && !g->frameless) || g->state.kind == V8_STATE_FRAMED)
        return true;
    *ret = step_frameless(w, c, &g->state);
    return false;
}

/* Step out of the frame that a Code object has made. */
static enum walker_result step_framed(struct v8_walk *w, struct generated *g)
{
    const struct v8_code *c = &g->code;
    bool doubtful = is_exact(w) && g->state.doubtful && !has_frame(w, c, g->fp);
    if (g->type < 0 && !is_exact(w) && !is_behind(w, g->fp - 8))
        return WALKER_NO;
    if (g->type == 0 && (c->kind == V8_CODE_INTERPRETED || c->kind == V8_CODE_OTHER)) {
        struct v8_sfi sfi; /* perhaps a copy of the interpreter's trampoline */
        bool unsure = false;
        if (read_function(w, g->fp, &sfi, &unsure) && !unsure)
            return step_interpreted(w, g->fp, doubtful);
    }
    emit_code(w, c, g->fp, g->fp + 16, doubtful);
    bool asked = is_optimized(c) && (w->process->reads_all_ways || w->r.by_one_reading);
    bool by_pc = g->optimized.word[0] && is_optimized(c) && g->alone && !asked;
    if (asked && !is_code_of(w, c, true))
        doubt_code(w);
    note_seen(w, by_pc ? &g->optimized : &g->key);
    return c->kind == V8_CODE_REGEXP || is_regexp(w, g->type) ? leave_regexp(w, g->fp)
                                                              : leave_frame(w, g->fp);
}

/* A collection takes the right to execute from the memory of code, so that it can move the code
 * (V8 up to 12). Return addresses into it are still on the stack. */
static bool is_locked(struct v8_walk *w)
{
    struct v8_code c;
    return !is_exact(w) && !w->process->no_objects &&
           v8_code_find(&w->r, step_pc(w), w->step->code.start, &c);
}

/*
 * Step out of a frame of generated code. What is asked, in this order, and who steps:
 *
 *   the memory may not be executed, nor is it a Code object of a
 *   collection, or no frame pointer is known                      -> native rules
 *   nothing of the heap was recorded                              -> step_undescribed
 *   the frame was read a moment ago                               -> leave_frame
 *   it is a frame of WebAssembly                                  -> step_wasm
 *   no Code object has the pc: glue without one                   -> step_glue
 *                              other code                         -> step_undescribed
 *   the frame does not stand (yet, or any more)                   -> step_frameless
 *   it is a copy of the interpreter's trampoline                  -> step_interpreted
 *   else the Code object names its functions                      -> leave_frame
 */
static enum walker_result step_generated(struct v8_walk *w)
{
    struct generated g;
    enum walker_result done;
    begin_generated(w, &g);
    if (!knows(w, w->a->fp) || (!w->step->code.executable && !is_locked(w)))
        return WALKER_NO;
    if (w->process->no_objects)
        return step_undescribed(w, frame_type(w, g.fp));
    if (step_without_code(w, &g, &done) || !find_frame_of_code(w, &g, &done))
        return done;
    return step_framed(w, &g);
}

/* ---- the walker ---------------------------------------------------------------------------- */

static bool wants(const void *context, const struct code *code)
{
    const struct v8_process *p = context;
    if (code->owner == CODE_ELF)
        return v8_of_module(code->cfi) != NULL;
    return code->owner != CODE_KERNEL && code->owner != CODE_NONE && p->layout;
}

static void use_layout(struct v8_walk *w, const struct v8_layout *l)
{
    w->m = l ? l->machine : NULL;
    if (w->r.layout != l) /* the cached maps were read with the other layout's offsets */
        w->r = (struct v8_reader){.memory = w->r.memory,
                                  .layout = l,
                                  .moment = w->r.moment,
                                  .alive = w->r.alive,
                                  .same = w->r.same};
    w->layout = l;
}

/* V8's own code never changes its root register, but for the builtins by which C++ enters it. */
static void note_root(struct v8_walk *w)
{
    const struct code *c = &w->step->code;
    if (!w->process->root || !(w->step->flags & FRAME_LEAF) || !knows(w, w->m->root))
        return;
    const struct v8_builtin *b =
        c->owner == CODE_ELF ? v8_builtin_find(w->layout, step_pc(w) - c->bias) : NULL;
    if (!b || b->class != V8_BUILTIN_ENTRY)
        *w->process->root = reg(w, w->m->root);
}

static enum walker_result step_code(struct v8_walk *w)
{
    const struct code *c = &w->step->code;
    use_layout(w, c->owner == CODE_ELF ? v8_of_module(c->cfi) : w->process->layout);
    if (!w->layout || w->m->arch != w->step->input->registers.arch)
        return WALKER_NO;
    if (c->owner != CODE_ELF) {
        note_root(w);
        return step_generated(w);
    }
    uint64_t vaddr = step_pc(w) - c->bias - !is_exact(w);
    if (vaddr - w->layout->blob >= w->layout->blob_size)
        return WALKER_NO;
    note_root(w);
    return step_builtin(w, vaddr);
}

/* ---- a step by readings of both sides -------------------------------------------------------- */

/* State before or after a step, as far as a JavaScript step changes it. */
struct step_state {
    uint64_t pc, sp, fp;
    uint64_t known;
    unsigned frames_left, nr_unmade, all_unmade;
    bool frameless, left_bare, left_exit;
};

static struct step_state state_of(const struct v8_walk *w)
{
    return (struct step_state){.pc = step_pc(w),
                               .sp = step_sp(w),
                               .fp = step_fp(w),
                               .known = *w->step->known,
                               .frames_left = *w->step->frames_left,
                               .nr_unmade = w->nr_unmade,
                               .all_unmade = w->all_unmade,
                               .frameless = w->frameless,
                               .left_bare = w->left_bare,
                               .left_exit = w->left_exit};
}

static void set_state(struct v8_walk *w, const struct step_state *s)
{
    w->step->value[w->a->pc] = s->pc;
    w->step->value[w->a->sp] = s->sp;
    w->step->value[w->a->fp] = s->fp;
    *w->step->known = s->known;
    *w->step->frames_left = s->frames_left;
    w->nr_unmade = s->nr_unmade;
    w->all_unmade = s->all_unmade;
    w->frameless = s->frameless;
    w->left_bare = s->left_bare;
    w->left_exit = s->left_exit;
}

enum { PROVEN_MAX = 32 }; /* frames of one step that can be proven this way */

/* Did this step emit known functions, some of them only not proven exact? */
static bool lacks_proof(const struct v8_walk *w)
{
    const __typeof__(w->step->out->frames) *out = &w->step->out->frames;
    bool lacks = false;
    if (out->nr - w->first > PROVEN_MAX || w->nr_unmade || *w->step->provenance != PROVENANCE_EXACT)
        return false;
    for (size_t i = w->first; i < out->nr; i++) {
        const struct frame *f = &out->at[i];
        bool managed = f->kind == FRAME_JS || f->kind == FRAME_WASM;
        if (managed ? !f->function || f->provenance > PROVENANCE_STALE : f->provenance)
            return false;
        lacks |= f->provenance == PROVENANCE_STALE;
    }
    return lacks;
}

/* The result of a step. */
struct step_result {
    struct step_state state;
    size_t nr;
    struct frame frames[PROVEN_MAX];
};

/* Repeats the step from `from` with the readings of one side. `exact`: all readings used must be
 * exact. false: the step cannot be repeated so. */
static bool make_again(struct v8_walk *w, const struct step_state *from, enum memory_moment moment,
                       bool exact, struct step_result *ret)
{
    const __typeof__(w->step->out->frames) *out = &w->step->out->frames;
    set_state(w, from);
    w->step->out->frames.nr = w->first;
    w->r.moment = moment;
    w->r.alive = false;
    memset(w->r.maps, 0, sizeof(w->r.maps)); /* these are of another time */
    w->r.provenance = PROVENANCE_EXACT;
    bool made = step_code(w) == WALKER_STEPPED;
    assume_alive(w, false);
    ret->state = state_of(w);
    ret->nr = out->nr - w->first;
    if (!made || w->nr_unmade || ret->nr > PROVEN_MAX || *w->step->provenance != PROVENANCE_EXACT)
        return false;
    memcpy(ret->frames, out->at + w->first, ret->nr * sizeof(*ret->frames));
    for (size_t i = 0; i < ret->nr; i++) {
        const struct frame *f = &ret->frames[i];
        bool managed = f->kind == FRAME_JS || f->kind == FRAME_WASM;
        if ((managed && !f->function) || (exact && f->provenance))
            return false;
    }
    return true;
}

static bool is_same_result(const struct step_result *a, const struct step_result *b)
{
    if (a->nr != b->nr || a->state.pc != b->state.pc || a->state.sp != b->state.sp ||
        a->state.fp != b->state.fp)
        return false;
    for (size_t i = 0; i < a->nr; i++) {
        const struct frame *f = &a->frames[i], *g = &b->frames[i];
        if (f->kind != g->kind || f->tier != g->tier || f->flags != g->flags ||
            f->function != g->function || f->line != g->line)
            return false;
    }
    return true;
}

/* Proves a step by the readings before and after the sample. A GC moves objects, so the readings
 * before and after it are of different places. If both lead to the same functions and positions,
 * the result is proven: what does not change during its life was the same all the time. */
static void prove_by_sides(struct v8_walk *w, const struct step_state *from)
{
    __typeof__(w->step->out->frames) *out = &w->step->out->frames;
    struct step_result was = {.state = state_of(w), .nr = out->nr - w->first}, now, before, after;
    memcpy(was.frames, out->at + w->first, was.nr * sizeof(*was.frames));
    w->again = true;
    say(w, TRACE_AGAIN, "the step is repeated with the readings before and after the sample", 1, 0);
    bool same = make_again(w, from, MEMORY_NEAREST, false, &now) && now.nr == was.nr &&
                make_again(w, from, MEMORY_BEFORE, true, &before) &&
                is_same_result(&before, &now) && make_again(w, from, MEMORY_AFTER, true, &after) &&
                is_same_result(&after, &now);
    w->again = false;
    say(w, TRACE_AGAIN, NULL, 0, 0);
    w->r.moment = MEMORY_NEAREST;
    memset(w->r.maps, 0, sizeof(w->r.maps));
    set_state(w, &was.state);
    out->nr = w->first;
    if (same)
        say(w, TRACE_PROVEN, "both lead to the same functions and positions: that proves them", 0,
            0);
    else
        say(w, TRACE_REFUSED, "they do not both lead to the same functions and positions", 0, 0);
    for (size_t i = 0; i < was.nr; i++) {
        if (same)
            was.frames[i].provenance = PROVENANCE_EXACT;
        out->at[out->nr++] = was.frames[i];
    }
}

static enum walker_result step_proven(struct v8_walk *w)
{
    const struct step_state from = state_of(w);
    enum walker_result got = step_code(w);
    assume_alive(w, false);
    if (got == WALKER_STEPPED && lacks_proof(w))
        prove_by_sides(w, &from);
    return got;
}

static enum walker_result step(const void *context, struct walker_state *state,
                               struct walker_step *s)
{
    struct v8_walk *w = (struct v8_walk *)state;
    if (!w->head.begun) {
        memset(w, 0, offsetof(struct v8_walk, unmade)); /* `unmade` and `searched` are set when they
                                                           are used */
        w->head.begun = true;
        w->process = context;
        w->moments = memory_has_moments(&s->input->memory);
    }
    w->step = s;
    w->a = &s->input->registers.arch->reg;
    w->first = s->out->frames.nr;
    if (w->bare | w->left_bare) {
        w->bare = w->left_bare;
        w->left_bare = false;
    }
    w->exited = w->left_exit;
    w->left_exit = false;
    w->deopted = w->left_deopt;
    w->lazy = w->left_lazy;
    w->left_deopt = w->left_lazy = false;
    w->resumed = w->left_notify;
    w->awaited = w->left_await;
    w->left_notify = w->left_await = false;
    if (w->process->seen)
        memset(w->bytecode, 0, sizeof(w->bytecode));
    w->r.memory = &s->input->memory;
    w->r.provenance = PROVENANCE_EXACT;
    size_t frames = s->out->frames.nr;
    unsigned left = *s->frames_left;
    enum provenance provenance = *s->provenance;
    enum walker_result got = w->moments ? step_proven(w) : step_code(w);
    if (got == WALKER_NO) {
        trace_say(s->input, s->out, TRACE_UNDO, "V8's walker leaves the frame to native rules", 0,
                  0);
        for (unsigned i = w->nr_unmade; i--;)
            if (w->unmade[i].frame >= frames)
                w->unmade[i] = w->unmade[--w->nr_unmade];
        s->out->frames.nr = frames;
        *s->frames_left = left;
        *s->provenance = provenance;
    }
    return got;
}

/* True if no function of the frames so far still has to be resolved. */
static bool is_stateless(const void *context, const struct walker_state *state)
{
    const struct v8_walk *w = (const struct v8_walk *)state;
    (void)context;
    return !w->head.begun || (!w->frameless && !w->nr_unmade && !w->left_await);
}

struct walker v8_walker(const struct v8_process *process)
{
    return (struct walker){.wants = wants,
                           .step = step,
                           .is_stateless = is_stateless,
                           .state_size = sizeof(struct v8_walk),
                           .context = process};
}
