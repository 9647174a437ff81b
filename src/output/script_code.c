/* SPDX-License-Identifier: GPL-2.0-only */
/* The fields of a sample that are about machine code: the instruction that it hit, and the branches
 * before it. */
#include "output/script_internal.h"
#include "session/session.h"

#include <inttypes.h>

static bool is_kernel(uint16_t misc)
{
    return (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
}

/* ---- branches ------------------------------------------------------------------------------- */

/* Bits of struct perf_branch_entry (linux/perf_event.h). */
enum {
    BRANCH_MISPREDICTED = 1 << 0,
    BRANCH_PREDICTED = 1 << 1,
    BRANCH_IN_TX = 1 << 2,
    BRANCH_ABORT = 1 << 3,
    BRANCH_CYCLES_SHIFT = 4,
    BRANCH_TYPE_SHIFT = 20,
};

/* perf's names of the types (PERF_BR_...). */
static const char *type_name(uint64_t flags)
{
    static const char *const names[16] = {
        "",       "COND",      "UNCOND",   "IND",  "CALL", "IND_CALL", "RET",   "SYSCALL",
        "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ",  "SERROR",   "NO_TX", "EXTEND_ABI"};
    return names[flags >> BRANCH_TYPE_SHIFT & 15];
}

static void put_end(struct text *t, const struct replay_sample *s, const struct session *session,
                    uint64_t address, uint32_t fields)
{
    text_printf(t, "0x%" PRIx64, address);
    if (!(fields & FIELD_DSO))
        return;
    const struct mapping *m = session_mapping(s->thread, address);
    if (!m)
        m = session_kernel_mapping(session, address, s->sample->time);
    text_char(t, '(');
    text_module(t, m ? m->dso->name : "[unknown]");
    text_char(t, ')');
}

static void put_flags(struct text *t, uint64_t flags)
{
    char predicted = flags & BRANCH_PREDICTED ? 'P' : flags & BRANCH_MISPREDICTED ? 'M' : '-';
    text_printf(t, "/%c/%c/%c/%" PRIu64 "/%s ", predicted, flags & BRANCH_IN_TX ? 'X' : '-',
                flags & BRANCH_ABORT ? 'A' : '-', flags >> BRANCH_CYCLES_SHIFT & UINT16_MAX,
                type_name(flags));
}

void script_put_branches(struct text *t, const struct replay_sample *s,
                         const struct session *session, uint32_t fields)
{
    struct sample_branch b;
    for (uint64_t i = 0; sample_branch_at(s->sample, i, &b); i++) {
        text_char(t, ' ');
        put_end(t, s, session, b.from, fields);
        text_char(t, '/');
        put_end(t, s, session, b.to, fields);
        put_flags(t, b.flags);
    }
}

/* ---- the instruction ------------------------------------------------------------------------ */

enum { INSN_MAX = 16 };

/* Read the instruction of user code in a file. Returns its size; 0: it is not known. */
static unsigned read_instruction(const struct replay_sample *s, uint8_t code[INSN_MAX])
{
    const uint64_t ip = s->sample->ip;
    const struct mapping *m = is_kernel(s->sample->misc) ? NULL : session_mapping(s->thread, ip);
    bool proven;
    if (!m || !s->arch || !s->arch->insn_size)
        return 0;
    /* near the end of a file's code there are fewer bytes */
    for (unsigned size = INSN_MAX; size; size /= 2)
        if (dso_read(m->dso, ip - m->start + m->pgoff, code, size, &proven))
            return s->arch->insn_size(code, size);
    return 0;
}

void script_put_instruction(struct text *t, const struct replay_sample *s, uint32_t fields)
{
    uint8_t code[INSN_MAX];
    unsigned size = read_instruction(s, code);
    if (fields & FIELD_INSNLEN)
        text_printf(t, " ilen: %u", size);
    if (!(fields & FIELD_INSN) || !size)
        return;
    text_string(t, " insn:");
    for (unsigned i = 0; i < size; i++)
        text_printf(t, " %02x", code[i]);
}
