/* SPDX-License-Identifier: GPL-2.0-only */
/* Why a frame is not exact, why the stack ended, and what would have helped. */
#include "output/explain_internal.h"

#include <inttypes.h>

static const char *const mark_words[] = {"exact", "image", "guess"};

static const char *mark_word(enum provenance p)
{
    return p <= PROVENANCE_GUESS ? mark_words[p] : "?";
}

static unsigned put_reason(struct text *out, enum provenance p, const char *text, uint64_t value)
{
    text_printf(out, "    %-8s ", mark_word(p));
    explain_sentence(out, text, value, 0);
    text_char(out, '\n');
    return 1;
}

static bool counts(const struct told *x)
{
    return !x->undone && !x->again;
}

/* ---- reasons -------------------------------------------------------------------------------- */

/* Marks of the walk's frame `frame` in the step of `m`. */
static unsigned put_marks(struct text *out, const struct machine *m, size_t frame)
{
    unsigned nr = 0;
    vec_foreach (x, &m->told)
        if (!x->is_read && x->event.kind == TRACE_MARK && counts(x) && x->event.frame == frame)
            nr += put_reason(out, x->event.provenance, x->event.text, x->event.value);
    return nr;
}

/* Reads of `m` that are not exact. */
static unsigned put_weak_reads(struct text *out, const struct replay_sample *s,
                               const struct machine *m)
{
    enum { SHOWN = 4 };
    unsigned nr = 0;
    vec_foreach (x, &m->told) {
        if (!x->is_read || !counts(x) || !x->has_bytes || x->repeated ||
            x->read.provenance == PROVENANCE_EXACT)
            continue;
        if (nr++ >= SHOWN)
            continue;
        text_printf(out, "    %-8s it rests on a read: ", mark_word(x->read.provenance));
        explain_read(out, s, x);
        text_char(out, '\n');
    }
    if (nr > SHOWN)
        text_printf(out, "    %-8s and on %u more reads that are not exact\n", "", nr - SHOWN);
    return nr;
}

/* The walk itself was not exact when it came to `m`: say which step was the first. */
static unsigned put_inherited(struct text *out, const struct told_walk *t,
                              const struct replay_sample *s, const struct machine *m)
{
    const struct machine *from = NULL;
    enum provenance reached = PROVENANCE_EXACT;
    vec_foreach (k, &t->machines) {
        if (k == m)
            break;
        if (k->provenance_after > reached) {
            reached = k->provenance_after;
            from = k;
        }
    }
    if (m->provenance == PROVENANCE_EXACT || !from)
        return 0;
    text_printf(out, "    %-8s the walk came here by way of #%zu, whose step is not exact:\n",
                mark_word(m->provenance), s->nr_kernel + from->first);
    unsigned nr = put_marks(out, from, from->end);
    nr += put_marks(out, from, from->first);
    return 1 + (nr ? nr : put_weak_reads(out, s, from));
}

static unsigned put_joined(struct text *out, const struct replay_sample *s, size_t joined)
{
    text_printf(out, "    %-8s ", mark_word(PROVENANCE_STALE));
    text_string(out, "it lay beyond the copy of this stack: an earlier stack of the thread had the "
                     "frame further in with the same pc and CFA, and this caller");
    if (s->sightings && joined < s->nr_joined && s->sightings[joined].number)
        text_printf(out, " (sample %" PRIu64 ", %.3f ms before)", s->sightings[joined].number,
                    (double)(int64_t)(s->sample->time - s->sightings[joined].time) / 1e6);
    text_char(out, '\n');
    return 1;
}

/* What would have made it exact. */
static void put_help(struct text *out, const struct machine *m, const struct frame *f,
                     enum provenance p)
{
    const char *what;
    if (frame_is_managed(f) && p == PROVENANCE_STALE)
        what = "readings of these objects nearer to the sample, on both sides of it (ljperf record "
               "makes them; -v says how many samples were looked at too late)";
    else if (frame_is_managed(f))
        what = "the objects and machine code that name the function, recorded at this moment";
    else if (m && m->code.owner == CODE_ELF)
        what = "unwind information of the file whose step was guessed: its .eh_frame, or its debug "
               "file (--debug-dir)";
    else
        what = "unwind information of the generated code (a jitdump with it), or frame pointers "
               "that the walk can prove";
    text_printf(out, "    help     %s\n", what);
}

unsigned explain_marks(struct text *out, const struct told_walk *t, const struct replay_sample *s,
                       const struct frame *f, const struct frame_place *place)
{
    const struct machine *m = NULL;
    unsigned nr = 0;
    if (f->provenance == PROVENANCE_EXACT)
        return 0;
    if (place->kind == PLACE_JOINED) {
        nr = put_joined(out, s, place->joined);
        text_string(out, "    help     a deeper copy: see the end of the walk\n");
        return nr;
    }
    if (place->kind == PLACE_WALK)
        m = told_machine_of(t, place->walk);
    if (m) {
        nr += put_marks(out, m, place->walk);
        nr += put_inherited(out, t, s, m);
        if (nr == 0 || f->provenance == PROVENANCE_STALE)
            nr += put_weak_reads(out, s, m);
    }
    if (nr == 0 && place->kind == PLACE_WALK && place->part)
        nr = put_reason(out, f->provenance,
                        "the agent's record does not say at which place of the "
                        "trace the code is",
                        0);
    if (nr == 0)
        text_printf(out, "    %-8s no reason was told\n", mark_word(f->provenance));
    put_help(out, m, f, f->provenance);
    return nr;
}

/* ---- the end -------------------------------------------------------------------------------- */

enum { COPY_MAX = 65528 }; /* the most that perf_event_open() copies */

static void put_truncated(struct text *out, const struct told_walk *t,
                          const struct replay_sample *s)
{
    static const char *const failures[] = {
        [JOIN_NOT_TRIED] = "it was not tried to continue it (--no-join)",
        [JOIN_NO_PLACE] = "no earlier stack continues it: the place or the function of its last "
                          "frame is not known for certain",
        [JOIN_NOT_SEEN] = "no earlier stack continues it: none of the thread's that is complete "
                          "had its last frame",
        [JOIN_NOT_WHOLE] = "no earlier stack continues it: its last frame was seen, but not all of "
                           "its callers",
        [JOIN_DISPUTED] = "no earlier stack continues it: its last frame, or a caller of it, was "
                          "seen with different callers",
    };
    uint64_t sp = 0, copied = s->sample->stack_dyn_size, end = t->stack.end_address;
    sample_user_reg(s->sample, t->stack.registers.arch->perf_sp, &sp);
    text_printf(out,
                "    the next frame needs the word at 0x%" PRIx64 ", %" PRIu64
                " bytes above the stack pointer; the copy has %" PRIu64 " bytes, up to 0x%" PRIx64
                "\n",
                end, end - sp, copied, sp + copied);
    if (end - sp + 8 <= COPY_MAX)
        text_printf(out,
                    "    help     a copy of at least %" PRIu64
                    " bytes: --call-graph=dwarf,%d copies the most\n",
                    (end - sp + 15) & ~UINT64_C(7), COPY_MAX);
    else
        text_printf(out,
                    "    help     none: perf copies at most %d bytes of a stack; frames further "
                    "out can only be joined\n",
                    COPY_MAX);
    if (s->nr_joined) {
        text_printf(out, "    joined   %zu frames of earlier stacks of the thread continue it\n",
                    s->nr_joined);
        return;
    }
    if (s->join_failure < sizeof(failures) / sizeof(*failures))
        text_printf(out, "    %s\n", failures[s->join_failure]);
}

static void put_other_end(struct text *out, const struct told_walk *t)
{
    switch (t->stack.end) {
    case STACK_NO_CFI:
        text_printf(out,
                    "    nothing says how to leave the frame at pc 0x%" PRIx64
                    ": no unwind information, and no guess passed its checks\n"
                    "    help     the file's debug file (--debug-dir), a jitdump, or frame "
                    "pointers\n",
                    t->stack.end_pc);
        break;
    case STACK_NO_CODE:
        text_printf(
            out,
            "    pc 0x%" PRIx64
            " is in no mapping: the step before led astray, or a mapping was not recorded\n",
            t->stack.end_pc);
        break;
    case STACK_BAD_READ:
        text_printf(out,
                    "    the word at 0x%" PRIx64
                    " is neither in the copy of the stack nor in a file: the step led astray, or "
                    "the stack was switched\n",
                    t->stack.end_address);
        break;
    case STACK_NO_REGS:
        text_string(out, "    the sample has no user registers: the thread has no user stack\n");
        break;
    default:
        break;
    }
}

void explain_end(struct text *out, const struct told_walk *t, const struct replay_sample *s)
{
    if (!s->unwound) {
        text_string(out, "end: not walked: the sample has no user registers or no copy of the "
                         "stack; user frames are the kernel's callchain\n");
        return;
    }
    text_printf(out, "end of the walk: %s\n", script_end_word(t->stack.end));
    if (t->end) {
        text_string(out, "    ");
        explain_sentence(out, t->end, t->end_value, 0);
        text_char(out, '\n');
    }
    if (t->stack.end == STACK_TRUNCATED)
        put_truncated(out, t, s);
    else
        put_other_end(out, t);
    text_printf(out, "end of the stack: %s\n", script_end_word(s->end));
}
