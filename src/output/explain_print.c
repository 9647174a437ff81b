/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The text of an explanation. A frame begins with '#', its number and its lines as script prints
 * them; what belongs to it follows, indented.
 */
#include "output/explain_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- parts ---------------------------------------------------------------------------------- */

void explain_sentence(struct text *out, const char *text, uint64_t value, uint64_t second)
{
    for (; *text; text++) {
        if (*text != '#') {
            text_char(out, *text);
            continue;
        }
        text_printf(out, "0x%" PRIx64, value);
        value = second;
    }
}

/* Append a moment as its distance from the sample. */
static void put_moment(struct text *out, const struct replay_sample *s, uint64_t moment)
{
    bool before = moment < s->sample->time;
    uint64_t away = before ? s->sample->time - moment : moment - s->sample->time;
    text_printf(out, " %.3f ms %s", (double)away / 1e6, before ? "before" : "after");
}

/* Append when something was read. */
static void put_age(struct text *out, const struct replay_sample *s, const struct memory_span *when)
{
    if (when->from > when->to)
        return;
    text_string(out, ", read");
    put_moment(out, s, when->from);
    if (when->from != when->to) {
        text_string(out, " and");
        put_moment(out, s, when->to);
    }
    text_string(out, when->from != when->to ? " the sample, equal" : " the sample");
}

void explain_read(struct text *out, const struct replay_sample *s, const struct told *t)
{
    enum { SMALL = 16 };
    static const char *const words[] = {"exact", "image", "guess"};
    const struct replay_read *r = &t->read;
    text_printf(out, "0x%" PRIx64 ", %zu byte%s", r->address, r->size, r->size == 1 ? "" : "s");
    if (!t->has_bytes) {
        text_string(out, ": recorded nowhere");
        return;
    }
    uint64_t word;
    if (r->size == sizeof(word)) {
        memcpy(&word, t->bytes, sizeof(word));
        text_printf(out, " = 0x%" PRIx64, word);
    } else if (r->size <= SMALL) {
        text_string(out, " =");
        for (size_t i = 0; i < r->size; i++)
            text_printf(out, " %02x", t->bytes[i]);
    }
    text_printf(out, "; %s", r->source);
    put_age(out, s, &r->when);
    text_printf(out, ", %s", words[r->provenance <= PROVENANCE_GUESS ? r->provenance : 2]);
}

static void put_time(struct text *out, uint64_t time)
{
    text_dec(out, time / 1000000000, 0);
    text_char(out, '.');
    text_dec_zeros(out, time % 1000000000, 9);
}

void explain_head(struct text *out, const struct replay_sample *s)
{
    text_printf(out, "sample %" PRIu64 ": ", s->number);
    text_name(out, s->comm);
    text_printf(out, ", thread %" PRIu32 "/%" PRIu32 ", cpu %" PRIu32 ", time ", s->sample->pid,
                s->sample->tid, s->sample->cpu);
    put_time(out, s->sample->time);
    text_string(out, ", event ");
    text_name(out, s->sample->event ? s->sample->event->name : "?");
    text_char(out, '\n');
}

/* ---- who owns the pc ------------------------------------------------------------------------ */

static void put_mapping(struct text *out, const struct mapping *m, uint64_t pc,
                        const struct code *code)
{
    char hex[2 * BUILD_ID_MAX + 1];
    text_module(out, m->dso->name);
    text_printf(out, "+0x%" PRIx64, pc - m->start + m->pgoff);
    if (code && code->owner == CODE_ELF)
        text_printf(out, " (address 0x%" PRIx64 " of the file)", pc - code->bias);
    if (m->dso->build_id.size) {
        build_id_hex(&m->dso->build_id, hex);
        text_printf(out, ", build id %s", hex);
    } else if (m->dso->kind == DSO_FILE) {
        text_string(out, ", no build id recorded");
    }
    text_printf(out, ", mapped at 0x%" PRIx64 "-0x%" PRIx64 " from 0x%" PRIx64, m->start, m->end,
                m->pgoff);
    if (m->dso->kind == DSO_FILE && code && !code->cfi)
        text_string(out, "; no unwind information was found for it");
}

static void put_jit(struct text *out, const struct jit_function *j, uint64_t pc)
{
    text_string(out,
                j->from_map ? "generated code of a perf map: " : "generated code of a jitdump: ");
    text_name(out, j->name);
    text_printf(out, "+0x%" PRIx64 ", at 0x%" PRIx64 "-0x%" PRIx64, pc - j->start, j->start,
                j->start + j->size);
    text_string(out, j->eh_frame ? ", with unwind information" : ", without unwind information");
}

static void put_owner(struct text *out, const struct replay_sample *s, const struct frame *f,
                      const struct code *code)
{
    uint64_t pc = frame_lookup_pc(f);
    text_string(out, "    owner    ");
    if (code && code->owner == CODE_JIT && code->token)
        put_jit(out, code->token, pc);
    else if (!code && f->kind == FRAME_JIT && f->code)
        put_jit(out, f->code, pc);
    else if (code ? code->token != NULL : f->code && !frame_is_managed(f))
        put_mapping(out, code ? code->token : f->code, pc, code);
    else if (session_mapping(s->thread, pc))
        put_mapping(out, session_mapping(s->thread, pc), pc, NULL);
    else
        text_string(out, "no mapping contains the pc");
    text_char(out, '\n');
}

/* ---- names ---------------------------------------------------------------------------------- */

static void put_managed_name(struct text *out, struct replay_worker *w,
                             const struct replay_sample *s, const struct frame *f)
{
    static const char *const ranks[] = {
        [NAME_RANK_NONE] = "no name was found",
        [NAME_RANK_UNTOLD_WEAK] = ("the variable at a call that may have been another function's, "
                                   "by a tail call"),
        [NAME_RANK_UNTOLD] = ("the global, method or field at a call that may have been another "
                              "function's, by a tail call"),
        [NAME_RANK_TAIL] = "another function was called there, which tail-called this one",
        [NAME_RANK_DOUBTFUL_WEAK] = "the variable at a call in a frame that is not exact",
        [NAME_RANK_DOUBTFUL] = "the global, method or field at a call in a frame that is not exact",
        [NAME_RANK_NAMELESS] = "its definition gives it no name",
        [NAME_RANK_CALL_WEAK] = "the local variable, upvalue or metamethod at a call of it",
        [NAME_RANK_CALL] = "the global, method or field at a call of it",
        [NAME_RANK_STORED] = "the global or the field that the VM has it in",
        [NAME_RANK_DEFINED] = "its definition",
    };
    struct managed_function g;
    replay_managed(w, s, f, &g);
    bool known = g.rank < sizeof(ranks) / sizeof(*ranks);
    text_string(out, "    name     ");
    if (!f->function)
        text_string(out, "none: what names the function was not recorded");
    else if (g.kind == MANAGED_BUILTIN)
        text_string(out, "the runtime's own name of a builtin");
    else if (g.kind == MANAGED_MAIN)
        text_string(out, "the code of a whole file or chunk");
    else if (g.kind == MANAGED_UNKNOWN)
        text_string(out, "none: the function's identity could not be read");
    else
        text_printf(out, "%s (rank %u of %u)", known ? ranks[g.rank] : "?", g.rank,
                    NAME_RANK_DEFINED);
    if (f->callname)
        text_printf(out, "; this caller calls it by \"%s\"", f->callname);
    text_char(out, '\n');
    if (g.name && g.borrowed)
        text_string(out,
                    "    guess-name  of this function no more than its place was recorded; the "
                    "name is that of a function that was found at this place\n");
    else if (g.name && g.disputed)
        text_string(out, "    guess-name  its definition was also read with another name or "
                         "other code, of another function at the same addresses\n");
    else if (managed_name_is_guessed(&g))
        text_string(out, "    guess-name  frames that are exact do not confirm that the name is "
                         "this function's\n");
}

static int put_inlined(struct text *out, struct replay_worker *w, const struct replay_sample *s,
                       const struct frame *f, struct error *err)
{
    struct named_frame n;
    if (replay_name(w, s, f, &n, err) < 0)
        return -1;
    uint32_t nr = n.resolved ? n.resolved->nr_inlined : 0;
    if (nr)
        text_printf(out,
                    "    inlined  %" PRIu32
                    " functions, by the file's debug information: they have "
                    "no frames of their own\n",
                    nr);
    return 0;
}

/* ---- a frame -------------------------------------------------------------------------------- */

static void put_told(struct text *out, const struct told_walk *t, const struct machine *m,
                     const struct replay_sample *s, const struct told *x)
{
    const char *again = x->again ? "again: " : "";
    if (x->is_read) {
        if (x->repeated)
            return;
        text_printf(out, "    read     %s", again);
        explain_read(out, s, x);
        if (!x->again)
            explain_read_registers(out, t, m, x);
        text_char(out, '\n');
        return;
    }
    if (x->event.kind == TRACE_MARK || !x->event.text)
        return;
    text_printf(out, "    %-8s %s",
                x->event.kind == TRACE_REFUSED || x->event.kind == TRACE_UNDO ? "refused" : "step",
                again);
    explain_sentence(out, x->event.text, x->event.value, x->event.second);
    text_char(out, '\n');
}

/* What was told of the machine frame while the walk wrote its frame `frame`. The last frame has all
 * that came later, too. */
static void put_all_told(struct text *out, const struct told_walk *t, const struct replay_sample *s,
                         const struct machine *m, size_t frame)
{
    bool first = frame == m->first, last = frame + 1 >= m->end;
    vec_foreach (x, &m->told)
        if ((first || x->frame >= frame) && (last || x->frame <= frame))
            put_told(out, t, m, s, x);
}

static void put_walked(struct text *out, const struct replay_sample *s, const struct told_walk *t,
                       const struct frame *f, const struct frame_place *p)
{
    const struct machine *m = told_machine_of(t, p->walk);
    if (!m)
        return;
    bool first = p->walk == m->first && p->part == 0;
    if (!first) {
        text_printf(out,
                    "    owner    no frame of the machine of its own: it shares that of #%zu\n",
                    s->nr_kernel + m->first);
        if (p->part == 0)
            put_all_told(out, t, s, m, p->walk);
        return;
    }
    put_owner(out, s, f, &m->code);
    explain_rule(out, m);
    explain_cfa(out, t, m, &t->stack.frames.at[m->first]);
    put_all_told(out, t, s, m, p->walk);
    if (replay_frames_of(&t->stack.frames.at[m->first]) > 1)
        text_string(out,
                    "    step     the agent's jitdump says which Lua functions the machine code "
                    "executes\n");
    explain_caller(out, t, m);
}

static int put_frame(struct text *out, struct replay_worker *w, const struct replay_sample *s,
                     const struct told_walk *t, size_t i, bool show_inlined, struct error *err)
{
    const struct frame *f = &s->frames[i];
    const struct frame_place p = told_place(t, s, i);
    text_printf(out, "#%zu", i);
    if (script_put_frame(out, w, s, f, FIELD_CALLCHAIN_DEFAULTS, show_inlined, err) < 0)
        return -1;
    if (p.kind == PLACE_WALK) {
        put_walked(out, s, t, f, &p);
    } else {
        put_owner(out, s, f, NULL);
        text_string(out, p.kind == PLACE_JOINED ? "    step     joined: not in this sample's copy\n"
                         : p.kind == PLACE_KERNEL
                             ? "    step     none: the address is in the kernel's callchain\n"
                             : "    step     none: the kernel followed frame pointers\n");
    }
    if (frame_is_managed(f))
        put_managed_name(out, w, s, f);
    else if (show_inlined && put_inlined(out, w, s, f, err) < 0)
        return -1;
    explain_marks(out, t, s, f, &p);
    return out->failed ? error_no_memory(err) : 0;
}

/* ---- the sample ----------------------------------------------------------------------------- */

static void put_inputs(struct text *out, const struct replay_sample *s)
{
    text_printf(out, "frames: %zu: %zu of the kernel, %zu walked, %zu joined\n", s->nr_frames,
                s->nr_kernel, s->unwound ? s->nr_own : 0, s->nr_joined);
    if (!s->unwound)
        return;
    text_printf(out, "stack copy: %" PRIu64 " bytes", s->sample->stack_dyn_size);
    text_string(out, s->copy           ? "; the VM's stack came with the sample (vmstack)\n"
                     : s->copy_differs ? "; a vmstack came, of another moment: it is not used\n"
                                       : "; no vmstack came with the sample\n");
}

int explain_print(struct text *out, struct replay_worker *w, const struct replay_sample *s,
                  const struct told_walk *t, const struct explain_options *o, struct error *err)
{
    explain_head(out, s);
    put_inputs(out, s);
    for (size_t i = 0; i < s->nr_frames; i++)
        if ((!o->one_frame || i == o->frame) &&
            put_frame(out, w, s, t, i, o->show_inlined, err) < 0)
            return -1;
    if (!o->one_frame || o->frame + 1 == s->nr_frames)
        explain_end(out, t, s);
    return out->failed ? error_no_memory(err) : 0;
}
