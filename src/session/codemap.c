/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the unwinder asks: which code stands at an address, and which bytes. Any thread; nothing
 * here changes an address space.
 *
 * Where a file's mapping and a jit function claim the same address the file has it: V8 lists the
 * builtins that stand inside the node binary, and what has been unmapped since leaves no
 * record. Memory without a file never hides a jit function.
 */
#include "session/internal.h"

#include <sys/mman.h>

/* ---- code -------------------------------------------------------------------------------- */

/* Whether one bias holds for the whole of a mapping: its ends' addresses lie as far apart in the
 * file's view as in memory. (A mapping's last page may hold the start of the next segment.) */
static bool same_bias(struct dso *dso, const struct mapping *m, uint64_t start, uint64_t end,
                      uint64_t bias)
{
    uint64_t first, last;
    return dso_offset_to_vaddr(dso, start - m->start + m->pgoff, &first) &&
           dso_offset_to_vaddr(dso, end - 1 - m->start + m->pgoff, &last) &&
           start - first == bias && end - 1 - last == bias;
}

static bool elf_code_slow(struct region_slot *slot, uint64_t pc, struct code *ret)
{
    const struct mapping *m = &slot->region.map;
    uint64_t vaddr;
    if (!dso_offset_to_vaddr(m->dso, pc - m->start + m->pgoff, &vaddr))
        return false;
    ret->bias = pc - vaddr;
    ret->cfi = dso_cfi(m->dso);
    if (same_bias(m->dso, m, m->start, m->end, ret->bias)) {
        atomic_store_explicit(&slot->code.bias, ret->bias, memory_order_relaxed);
        atomic_store_explicit(&slot->code.cfi, ret->cfi, memory_order_relaxed);
        atomic_store_explicit(&slot->code.ready, 1, memory_order_release);
        return true;
    }
    uint64_t page = pc & ~UINT64_C(4095);
    uint64_t start = page > m->start ? page : m->start;
    uint64_t end = page + 4095 < m->end - 1 ? page + 4096 : m->end;
    bool whole = same_bias(m->dso, m, start, end, ret->bias);
    ret->start = whole ? start : pc;
    ret->end = whole ? end : pc + 1;
    return true;
}

/* Code of a file. Without the file, or outside its segments, there is an owner but no rules. */
static void elf_code(struct region_slot *slot, uint64_t pc, struct code *ret)
{
    ret->owner = CODE_ELF;
    if (atomic_load_explicit(&slot->code.ready, memory_order_acquire)) {
        ret->bias = atomic_load_explicit(&slot->code.bias, memory_order_relaxed);
        ret->cfi = atomic_load_explicit(&slot->code.cfi, memory_order_relaxed);
    } else if (!elf_code_slow(slot, pc, ret)) {
        ret->bias = slot->region.map.start - slot->region.map.pgoff;
        ret->start = pc;
        ret->end = pc + 1;
    }
    if (ret->cfi)
        ret->cfi_id = slot->region.map.dso->id;
}

/* Narrow [start, end) around pc to where no other region's answer would be needed. */
static void clip(const struct address_space *space, const struct region_slot *at, uint64_t pc,
                 struct code *ret)
{
    if (!at)
        at = regions_next(space->regions, pc);
    if (!at)
        return;
    const struct mapping *m = &at->region.map;
    if (m->start > pc) {
        ret->end = ret->end < m->start ? ret->end : m->start;
        ret->start = pc; /* what lies before is not worth another search */
        return;
    }
    ret->start = ret->start > m->start ? ret->start : m->start;
    ret->end = ret->end < m->end ? ret->end : m->end;
}

static bool jit_code(const struct address_space *space, const struct region_slot *at, uint64_t pc,
                     uint64_t time, struct code *ret)
{
    struct jit_span span;
    struct jit_file *file;
    const struct jit_function *f = jit_set_lookup(space->jit, pc, time, &span, &file);
    if (!f)
        return false;
    *ret = (struct code){.owner = CODE_JIT,
                         .start = span.start,
                         .end = span.end,
                         .bias = f->start,
                         .executable = true,
                         .token = f};
    ret->cfi = jit_file_cfi(space->session, file, f, &ret->cfi_id);
    clip(space, at, pc, ret);
    return true;
}

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    const struct address_space *space = context;
    struct region_slot *at = regions_find(space->regions, pc);
    bool pseudo = !at || at->region.map.dso->kind == DSO_PSEUDO;
    if (pseudo && space->jit && jit_code(space, at, pc, time, ret))
        return true;
    if (!at) {
        *ret = (struct code){.owner = CODE_NONE};
        return false;
    }
    const struct mapping *m = &at->region.map;
    *ret = (struct code){.owner = CODE_ANON,
                         .start = m->start,
                         .end = m->end,
                         .bias = m->start,
                         .executable = m->prot & PROT_EXEC,
                         .token = m};
    if (!pseudo)
        elf_code(at, pc, ret);
    return true;
}

struct codemap session_codemap(const struct session_place *p)
{
    return (struct codemap){.lookup = lookup, .context = p->space};
}

const struct mapping *session_mapping(const struct session_place *p, uint64_t pc)
{
    const struct region_slot *at = regions_find(p->space->regions, pc);
    return at ? &at->region.map : NULL;
}

const struct jit_function *session_jit_function(const struct session_place *p, uint64_t pc,
                                                uint64_t time)
{
    struct jit_span span;
    struct jit_file *file;
    return jit_set_lookup(p->space->jit, pc, time, &span, &file);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Pages that must hold what the file holds: never writable, as far as is recorded. */
static bool holds_file(const struct region *r)
{
    return r->map.dso->kind == DSO_FILE && !r->written && !(r->map.prot & PROT_WRITE) &&
           (r->map.prot & (PROT_READ | PROT_EXEC));
}

static bool read_files(void *context, uint64_t address, void *to, size_t size, uint64_t time,
                       enum provenance *provenance)
{
    const struct address_space *space = context;
    uint8_t *out = to;
    (void)time;
    while (size) {
        const struct region_slot *at = regions_find(space->regions, address);
        if (!at || !holds_file(&at->region))
            return false;
        const struct mapping *m = &at->region.map;
        size_t part = m->end - address < size ? (size_t)(m->end - address) : size;
        if (!dso_read(m->dso, address - m->start + m->pgoff, out, part))
            return false;
        out += part;
        address += part;
        size -= part;
    }
    *provenance = PROVENANCE_EXACT;
    return true;
}

struct memory_layer session_memory(const struct session_place *p)
{
    return (struct memory_layer){.read = read_files, .context = p->space};
}
