/* SPDX-License-Identifier: GPL-2.0-only */
/* See inject_twin.h. */
#include "output/inject_twin.h"
#include "base/hash.h"

#include <sys/mman.h>

static bool holds(const struct mapping *larger, const struct mapping *m)
{
    return larger->dso == m->dso && (larger->prot & PROT_EXEC) && larger->pgoff <= m->pgoff &&
           m->pgoff - larger->pgoff < larger->end - larger->start &&
           m->end - m->start <= larger->end - larger->start - (m->pgoff - larger->pgoff) &&
           m->end - m->start < larger->end - larger->start;
}

static struct inject_twin look(const struct thread_context *p, const struct mapping *m)
{
    struct inject_twin found = {.dso = m->dso, .start = m->start, .pgoff = m->pgoff, .pid = p->pid};
    const struct mapping *other = session_mapping_next(p, 0);
    while (other && !found.has_other) {
        found.has_other = holds(other, m);
        found.other_start = other->start;
        found.other_pgoff = other->pgoff;
        other = session_mapping_next(p, other->end);
    }
    return found;
}

/* The mapping that was found earlier may be gone. */
static bool still_there(const struct inject_twin *k, const struct thread_context *p, uint64_t at)
{
    const struct mapping *other = session_mapping(p, at);
    return other && other->dso == k->dso &&
           at - other->start + other->pgoff == at - k->other_start + k->other_pgoff;
}

uint64_t inject_twin_address(struct inject_twins *t, const struct thread_context *p,
                             const struct mapping *m, uint64_t pc)
{
    if (!m->dso || m->dso->kind != DSO_FILE)
        return pc;
    struct inject_twin *k = &t->known[hash_combine(m->start, p->pid) % INJECT_TWINS];
    if (k->dso != m->dso || k->start != m->start || k->pgoff != m->pgoff || k->pid != p->pid)
        *k = look(p, m);
    if (!k->has_other)
        return pc;
    uint64_t at = pc - m->start + m->pgoff - k->other_pgoff + k->other_start;
    return still_there(k, p, at) ? at : pc;
}
