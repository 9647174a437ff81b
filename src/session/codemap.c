/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Answers the unwinder: which code is at an address, and which bytes. Any thread may ask; nothing
 * here changes an address space.
 *
 * If a file's mapping and a jit function claim the same address, the file has it: V8 lists the
 * builtins that are inside the node binary, and functions that have been unmapped since leave no
 * record. Memory without a file never hides a jit function.
 */
#include "base/hash.h"
#include "dso/elf_symbol.h"
#include "session/session_internal.h"

#include <sys/mman.h>

/* ---- code -------------------------------------------------------------------------------- */

/* Gets the addresses [start, end) of the mapping around `pc` that are in the same segment of the
 * file. A mapping may go on far behind the segment: where segments are aligned to more than a page,
 * the loader leaves its first mapping, of the whole file, in the gap. Returns false if the file has
 * no segment there. */
static bool segment_range(const struct mapping *m, uint64_t pc, uint64_t *start, uint64_t *end)
{
    uint64_t offset = pc - m->start + m->pgoff, first, last;
    if (!dso_loaded_around(m->dso, offset, &first, &last))
        return false;
    *start = offset - first < pc - m->start ? pc - (offset - first) : m->start;
    *end = last - offset < m->end - pc ? pc + (last - offset) : m->end;
    return true;
}

static void code_keep(struct region_slot *slot, const struct code *c)
{
    uint32_t none = 0;
    /* 2: being filled. Other threads take the slow path meanwhile. */
    if (!atomic_compare_exchange_strong(&slot->code.ready, &none, 2))
        return;
    atomic_store_explicit(&slot->code.start, c->start, memory_order_relaxed);
    atomic_store_explicit(&slot->code.end, c->end, memory_order_relaxed);
    atomic_store_explicit(&slot->code.bias, c->bias, memory_order_relaxed);
    atomic_store_explicit(&slot->code.cfi, c->cfi, memory_order_relaxed);
    atomic_store_explicit(&slot->code.ready, 1, memory_order_release);
}

/* The first lookup finds the rules and the bias, which may open the file. */
static void elf_code_find(struct region_slot *slot, uint64_t pc, struct code *ret)
{
    const struct mapping *m = &slot->region.map;
    uint64_t vaddr;
    ret->start = pc;
    ret->end = pc + 1;
    if (!dso_offset_to_vaddr(m->dso, pc - m->start + m->pgoff, &vaddr))
        return; /* no file, or outside its segments: an owner, but no rules */
    ret->bias = pc - vaddr;
    ret->cfi = dso_cfi(m->dso);
    if (segment_range(m, pc, &ret->start, &ret->end))
        code_keep(slot, ret);
}

static void elf_code(struct region_slot *slot, uint64_t pc, struct code *ret)
{
    ret->owner = CODE_ELF;
    bool ready = atomic_load_explicit(&slot->code.ready, memory_order_acquire) == 1;
    if (ready) {
        ret->start = atomic_load_explicit(&slot->code.start, memory_order_relaxed);
        ret->end = atomic_load_explicit(&slot->code.end, memory_order_relaxed);
        ret->bias = atomic_load_explicit(&slot->code.bias, memory_order_relaxed);
        ret->cfi = atomic_load_explicit(&slot->code.cfi, memory_order_relaxed);
    }
    if (!ready || pc < ret->start || pc >= ret->end) {
        ret->cfi = NULL;
        ret->bias = slot->region.map.start - slot->region.map.pgoff;
        elf_code_find(slot, pc, ret);
    }
    if (ret->cfi)
        ret->cfi_id = slot->region.map.dso->id;
}

/* Narrow [start, end) around pc to the part where no other region's answer is needed. */
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
        ret->start = pc; /* the part before is not worth another search */
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

/* Stacks go through the same places again and again. */
static struct region_slot *find_region(struct address_space *space, uint64_t pc)
{
    struct region_slot *_Atomic *found = &space->found[(pc >> 14 ^ pc >> 20) % FOUND_MAX];
    struct region_slot *at = atomic_load_explicit(found, memory_order_relaxed);
    if (at && pc >= at->region.map.start && pc < at->region.map.end)
        return at;
    at = regions_find(space->regions, pc);
    if (at)
        atomic_store_explicit(found, at, memory_order_relaxed);
    return at;
}

/* May generated code be there? Compilers use memory without a file, files in memory, and files that
 * they have deleted: no ELF file is found for these. */
static bool is_for_generated(const struct address_space *space, const struct region_slot *at)
{
    return space->jit && (!at || at->region.map.dso->kind == DSO_PSEUDO ||
                          (at->region.map.dso->kind == DSO_FILE && !dso_image(at->region.map.dso)));
}

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    struct address_space *space = context;
    struct region_slot *at = find_region(space, pc);
    bool pseudo = !at || at->region.map.dso->kind == DSO_PSEUDO;
    if (is_for_generated(space, at) && jit_code(space, at, pc, time, ret))
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

static bool elf_function(const struct mapping *m, uint64_t pc, uint64_t *start, uint64_t *end)
{
    uint64_t vaddr;
    if (!dso_offset_to_vaddr(m->dso, pc - m->start + m->pgoff, &vaddr) ||
        !dso_function(m->dso, vaddr, start, end))
        return false;
    uint64_t bias = pc - vaddr;
    *start += bias;
    *end += *end ? bias : 0;
    return true;
}

static bool find_function(void *context, uint64_t pc, uint64_t time, uint64_t *start, uint64_t *end)
{
    struct address_space *space = context;
    const struct region_slot *at = find_region(space, pc);
    struct jit_span span;
    struct jit_file *file;
    const struct jit_function *f =
        is_for_generated(space, at) ? jit_set_lookup(space->jit, pc, time, &span, &file) : NULL;
    if (!f)
        return at && at->region.map.dso->kind != DSO_PSEUDO &&
               elf_function(&at->region.map, pc, start, end);
    *start = f->start;
    *end = f->start + f->size;
    return true;
}

/* Get the address of the only function of this name that the process's files export. */
static bool find_exported(const struct address_space *space, const char *name, uint64_t *ret)
{
    unsigned nr = 0;
    for (const struct region_slot *at = regions_next(space->regions, 0); at && nr < 2;) {
        const struct mapping *m = &at->region.map;
        const struct elf_image *image =
            m->dso->kind == DSO_FILE && m->prot & PROT_EXEC ? dso_image(m->dso) : NULL;
        uint64_t vaddr, first;
        if (image && elf_exported_function(image, name, &vaddr) &&
            dso_offset_to_vaddr(m->dso, m->pgoff, &first) && vaddr - first < m->end - m->start) {
            *ret = m->start + (vaddr - first);
            nr++;
        }
        at = m->end == UINT64_MAX ? NULL : regions_next(space->regions, m->end);
    }
    return nr == 1;
}

/* Data is mostly not recorded: the file's code mapping that is nearest tells where the file is. */
static const struct mapping *file_around(const struct address_space *space, uint64_t address)
{
    enum { FAR = 1 << 28 };
    const struct mapping *best = NULL;
    for (const struct region_slot *at = regions_next(space->regions, 0); at;) {
        const struct mapping *m = &at->region.map;
        if (m->start <= address && address - m->start < FAR && m->dso->kind == DSO_FILE)
            best = m;
        at = m->end == UINT64_MAX || m->start > address ? NULL
                                                        : regions_next(space->regions, m->end);
    }
    return best;
}

/* Returns 0 if it is not known. */
static uint64_t search_imported(const struct address_space *space, uint64_t slot)
{
    const struct mapping *m = file_around(space, slot);
    const struct elf_image *image = m ? dso_image(m->dso) : NULL;
    uint64_t first, function;
    if (!image || !dso_offset_to_vaddr(m->dso, m->pgoff, &first))
        return 0;
    const char *name = elf_imported_symbol(image, slot - m->start + first);
    return name && find_exported(space, name, &function) ? function : 0;
}

static bool find_imported(void *context, uint64_t slot, uint64_t *function)
{
    struct address_space *space = context;
    size_t i = hash_u64(slot) % IMPORTS_MAX;
    uint64_t found = atomic_load_explicit(&space->imports[i].function, memory_order_relaxed);
    if ((atomic_load_explicit(&space->imports[i].check, memory_order_relaxed) ^ found) != slot) {
        found = search_imported(space, slot);
        atomic_store_explicit(&space->imports[i].function, found, memory_order_relaxed);
        atomic_store_explicit(&space->imports[i].check, slot ^ found, memory_order_relaxed);
    }
    *function = found;
    return found != 0;
}

struct codemap session_codemap(const struct thread_context *p)
{
    return (struct codemap){.lookup = lookup,
                            .function = find_function,
                            .imported = find_imported,
                            .context = p->space};
}

/* A space does not change while a context has it, but functions of jitdumps come and go. */
const void *session_context_key(const struct thread_context *p)
{
    return jit_set_is_timeless(p->space->jit) ? p->space : NULL;
}

const struct mapping *session_mapping(const struct thread_context *p, uint64_t pc)
{
    const struct region_slot *at = regions_find(p->space->regions, pc);
    return at ? &at->region.map : NULL;
}

const struct mapping *session_mapping_next(const struct thread_context *p, uint64_t address)
{
    const struct region_slot *at = regions_next(p->space->regions, address);
    return at ? &at->region.map : NULL;
}

const struct jit_function *session_jit_function(const struct thread_context *p, uint64_t pc,
                                                uint64_t time)
{
    struct jit_span span;
    struct jit_file *file;
    return jit_set_lookup(p->space->jit, pc, time, &span, &file);
}

size_t session_jit_functions(const struct thread_context *p, uint64_t pc, uint64_t time,
                             const struct jit_function **ret, size_t max)
{
    return jit_set_lookup_all(p->space->jit, pc, time, ret, max);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Returns whether pages must hold what the file holds: they were never writable, as far as is
 * recorded. */
static bool holds_file(const struct region *r)
{
    bool file = r->map.dso->kind == DSO_FILE || r->map.dso->kind == DSO_VDSO;
    return file && !r->written && !(r->map.prot & PROT_WRITE) &&
           (r->map.prot & (PROT_READ | PROT_EXEC));
}

/* Returns how many bytes from `address` on a file's pages gave, at most `size`; 0: none. */
static size_t read_file(const struct mapping *m, const struct memory_query *q, uint64_t address,
                        void *to, size_t size, bool *proven)
{
    size_t part = m->end - address < size ? (size_t)(m->end - address) : size;
    bool is_it;
    if (!dso_read(m->dso, address - m->start + m->pgoff, to, part, &is_it))
        return 0;
    *proven &= is_it && !dso_is_doubted(m->dso, q->time);
    return part;
}

/* The same for generated code whose bytes its compiler's list has. */
static size_t read_generated(const struct address_space *space, const struct memory_query *q,
                             uint64_t address, void *to, size_t size)
{
    struct jit_span span;
    struct jit_file *file;
    const struct jit_function *f = jit_set_lookup(space->jit, address, q->time, &span, &file);
    if (!f || !f->code)
        return 0;
    uint64_t left = f->start + f->size - address;
    left = left < span.end - address ? left : span.end - address;
    size_t part = left < size ? (size_t)left : size;
    memcpy(to, f->code + (address - f->start), part);
    return part;
}

static bool read_files(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    uint64_t address = q->address;
    size_t size = q->size;
    const struct address_space *space = context;
    uint8_t *out = to;
    bool proven = true;
    while (size) {
        const struct region_slot *at = regions_find(space->regions, address);
        size_t part = 0;
        if (at && holds_file(&at->region))
            part = read_file(&at->region.map, q, address, out, size, &proven);
        if (!part && is_for_generated(space, at))
            part = read_generated(space, q, address, out, size);
        if (!part)
            return false;
        out += part;
        address += part;
        size -= part;
    }
    answer->provenance = proven ? PROVENANCE_EXACT : PROVENANCE_STALE;
    return true;
}

struct memory_layer session_memory(const struct thread_context *p)
{
    return (struct memory_layer){.name = "file", .read = read_files, .context = p->space};
}
