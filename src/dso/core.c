/* SPDX-License-Identifier: GPL-2.0-only */
/* Core files: turns notes into threads and mappings, and segments into memory. */
#include "dso/core.h"
#include "base/cursor.h"
#include "base/vec.h"
#include "dso/elf_image.h"
#include "dso/notes.h"

#include <elf.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A segment of memory that the file holds. */
struct load {
    uint64_t start, end; /* of the part that the file holds */
    uint64_t mem_end;
    uint32_t prot;
    const uint8_t *bytes;
};

struct core {
    struct elf_image *image;
    const struct arch *arch;
    uint32_t pid;
    char command[16];
    uint64_t vdso; /* AT_SYSINFO_EHDR; 0: not in the core */
    VEC(struct load) loads;
    VEC(struct core_thread) threads;
    VEC(struct core_mapping) mappings;
};

enum {
    /* More than any process has; bounds the memory that a malformed note makes us allocate. */
    THREADS_MAX = 1 << 20,
    MAPPINGS_MAX = 1 << 20,
};

/* ---- segments ------------------------------------------------------------------------------ */

static uint32_t prot_of(uint32_t flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
           (flags & PF_X ? PROT_EXEC : 0);
}

static int compare_loads(const void *a, const void *b)
{
    const struct load *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* A core that was cut short holds less than its headers say: use the part that is there. */
static int read_loads(struct core *core, struct error *err)
{
    const struct elf_image *e = core->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type != PT_LOAD || p->memsz == 0 || p->vaddr + p->memsz < p->vaddr)
            continue;
        uint64_t size = p->filesz < p->memsz ? p->filesz : p->memsz;
        uint64_t there = p->offset < e->size ? e->size - p->offset : 0;
        size = size < there ? size : there;
        struct load l = {p->vaddr, p->vaddr + size, p->vaddr + p->memsz, prot_of(p->flags), NULL};
        l.bytes = size ? e->bytes + p->offset : NULL;
        if (!vec_push(&core->loads, l))
            return error_no_memory(err);
    }
    if (core->loads.nr)
        qsort(core->loads.at, core->loads.nr, sizeof(*core->loads.at), compare_loads);
    return 0;
}

/* Returns the last segment that starts at or below the address, if it contains the address. */
static const struct load *find_load(const struct core *core, uint64_t address)
{
    size_t low = 0, high = core->loads.nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (core->loads.at[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low && address < core->loads.at[low - 1].mem_end ? &core->loads.at[low - 1] : NULL;
}

static bool read_at(const struct core *core, uint64_t address, void *to, size_t size)
{
    uint8_t *out = to;
    while (size) {
        const struct load *l = find_load(core, address);
        if (!l || address >= l->end)
            return false;
        size_t part = l->end - address < size ? (size_t)(l->end - address) : size;
        memcpy(out, l->bytes + (address - l->start), part);
        out += part;
        address += part;
        size -= part;
    }
    return true;
}

static bool read_core(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    (void)answer; /* exact: the process stands still */
    return read_at(context, q->address, to, q->size);
}

struct memory_layer core_memory(const struct core *core)
{
    return (struct memory_layer){.name = "core", .read = read_core, .context = (void *)core};
}

/* ---- notes --------------------------------------------------------------------------------- */

/* Offsets of the fields in struct elf_prstatus (linux/elfcore.h) on machines of 64 bits. */
enum { PRSTATUS_SIGNAL = 12, PRSTATUS_PID = 32, PRSTATUS_REGS = 112 };

void core_registers(const struct arch *arch, const uint8_t *user_regs, struct registers *ret)
{
    *ret = (struct registers){.arch = arch};
    for (unsigned i = 0; i < arch->nr_user_regs; i++) {
        unsigned reg = arch->user_regs[i];
        if (reg == ARCH_NO_REGISTER)
            continue;
        ret->value[reg] = load_u64(user_regs + 8 * i, false);
        ret->known |= REG_BIT(reg);
    }
}

static int add_thread(struct core *core, struct cursor *c, struct error *err)
{
    struct core_thread t = {0};
    const uint8_t *status = cursor_bytes(c, PRSTATUS_REGS + 8 * core->arch->nr_user_regs);
    if (!status || core->threads.nr >= THREADS_MAX)
        return 0;
    t.signal = load_u16(status + PRSTATUS_SIGNAL, c->swap);
    t.tid = load_u32(status + PRSTATUS_PID, c->swap);
    core_registers(core->arch, status + PRSTATUS_REGS, &t.registers);
    return vec_push(&core->threads, t) ? 0 : error_no_memory(err);
}

/* NT_FILE holds a count, the page size, (start, end, page offset) of each mapping, and the
 * names. */
static int add_files(struct core *core, struct cursor *c, struct error *err)
{
    uint64_t nr = cursor_u64(c), page = cursor_u64(c);
    if (nr > MAPPINGS_MAX || nr > cursor_left(c) / 24)
        return 0;
    const uint8_t *ranges = cursor_bytes(c, 24 * nr);
    for (uint64_t i = 0; ranges && i < nr; i++, ranges += 24) {
        struct core_mapping m = {.start = load_u64(ranges, c->swap),
                                 .end = load_u64(ranges + 8, c->swap),
                                 .pgoff = load_u64(ranges + 16, c->swap) * page,
                                 .prot = CORE_PROT_UNKNOWN,
                                 .file = cursor_string(c),
                                 .page = page & (page - 1) ? 0 : page};
        if (!m.file || m.end <= m.start)
            continue;
        if (!vec_push(&core->mappings, m))
            return error_no_memory(err);
    }
    return 0;
}

bool core_signal_read(const uint8_t *siginfo, size_t size, struct core_signal *ret)
{
    enum { NUMBER = 0, CODE = 8, UNION = 16, SIZE = 24 }; /* offsets in 64 bits */
    if (size < SIZE)
        return false;
    *ret = (struct core_signal){.number = load_u32(siginfo + NUMBER, false),
                                .code = (int32_t)load_u32(siginfo + CODE, false)};
    switch (ret->number) {
    case SIGILL:
    case SIGFPE:
    case SIGSEGV:
    case SIGBUS:
    case SIGTRAP:
        ret->has_address = ret->code > 0 && ret->code != SI_KERNEL;
        break;
    default:
        break;
    }
    if (ret->has_address)
        ret->address = load_u64(siginfo + UNION, false);
    if (ret->code == SI_USER || ret->code == SI_TKILL || ret->code == SI_QUEUE)
        ret->sender = load_u32(siginfo + UNION, false);
    return true;
}

/* The kernel writes one such note, behind the first thread's NT_PRSTATUS; gcore one for each
 * thread. */
static void read_signal(struct core *core, struct cursor *c)
{
    size_t size = cursor_left(c);
    const uint8_t *bytes = cursor_bytes(c, size);
    if (bytes && core->threads.nr)
        core_signal_read(bytes, size, &core->threads.at[core->threads.nr - 1].info);
}

static void read_auxv(struct core *core, struct cursor *c)
{
    while (cursor_left(c) >= 16) {
        uint64_t type = cursor_u64(c), value = cursor_u64(c);
        if (type == AT_SYSINFO_EHDR)
            core->vdso = value;
    }
}

/* Offsets of pr_pid and pr_fname in struct elf_prpsinfo. */
enum { PRPSINFO_PID = 24, PRPSINFO_FNAME = 40 };

static void read_process(struct core *core, struct cursor *c)
{
    cursor_skip(c, PRPSINFO_PID);
    core->pid = cursor_u32(c);
    cursor_skip(c, PRPSINFO_FNAME - PRPSINFO_PID - sizeof(uint32_t));
    const uint8_t *name = cursor_bytes(c, sizeof(core->command));
    if (name)
        memcpy(core->command, name, sizeof(core->command) - 1);
}

static int read_note(struct core *core, uint32_t type, struct cursor *c, struct error *err)
{
    switch (type) {
    case NT_PRSTATUS:
        return add_thread(core, c, err);
    case NT_FILE:
        return add_files(core, c, err);
    case NT_AUXV:
        read_auxv(core, c);
        return 0;
    case NT_PRPSINFO:
        read_process(core, c);
        return 0;
    case NT_SIGINFO:
        read_signal(core, c);
        return 0;
    default:
        return 0;
    }
}

static int read_notes(struct core *core, struct error *err)
{
    const struct elf_image *e = core->image;
    for (uint32_t i = 0; i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        if (p->type != PT_NOTE || p->offset >= e->size)
            continue;
        uint64_t there = e->size - p->offset;
        struct cursor c = cursor_make(e->bytes + p->offset, p->filesz < there ? p->filesz : there,
                                      e->swapped, e->path, "note", p->offset);
        while (cursor_left(&c) >= 12) {
            uint32_t namesz = cursor_u32(&c), descsz = cursor_u32(&c), type = cursor_u32(&c);
            const uint8_t *name = cursor_bytes(&c, ((uint64_t)namesz + 3) & ~UINT64_C(3));
            const uint8_t *desc = cursor_bytes(&c, descsz);
            if (c.failed)
                break;
            struct cursor d = cursor_make(desc, descsz, e->swapped, e->path, "note",
                                          p->offset + (uint64_t)(desc - (e->bytes + p->offset)));
            if (namesz == 5 && memcmp(name, "CORE", 5) == 0 && read_note(core, type, &d, err))
                return -1;
            cursor_skip(&c, (4 - (descsz & 3)) & 3);
        }
    }
    return 0;
}

/* ---- mappings ------------------------------------------------------------------------------ */

static int compare_mappings(const void *a, const void *b)
{
    const struct core_mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void sort_mappings(struct core *core)
{
    if (core->mappings.nr)
        qsort(core->mappings.at, core->mappings.nr, sizeof(*core->mappings.at), compare_mappings);
}

/* Of overlapping mappings keep the first: no kernel writes overlapping mappings. */
static void drop_overlaps(struct core *core)
{
    size_t kept = 0;
    vec_foreach (m, &core->mappings)
        if (!kept || core->mappings.at[kept - 1].end <= m->start)
            core->mappings.at[kept++] = *m;
    core->mappings.nr = kept;
}

/* Add the segments where no file was mapped; copy the protection of the others to their
 * mappings. */
static int merge_mappings(struct core *core, struct error *err)
{
    sort_mappings(core);
    drop_overlaps(core);
    size_t nr_files = core->mappings.nr, at = 0;
    vec_foreach (l, &core->loads) {
        while (at < nr_files && core->mappings.at[at].end <= l->start)
            at++;
        bool named = at < nr_files && core->mappings.at[at].start < l->mem_end;
        for (size_t i = at; i < nr_files && core->mappings.at[i].start < l->mem_end; i++)
            core->mappings.at[i].prot = l->prot;
        bool vdso = core->vdso && core->vdso >= l->start && core->vdso < l->mem_end;
        struct core_mapping m = {l->start, l->mem_end, 0, l->prot, vdso ? "[vdso]" : NULL, 0};
        if (!named && !vec_push(&core->mappings, m))
            return error_no_memory(err);
    }
    sort_mappings(core);
    drop_overlaps(core);
    return 0;
}

/* ---- open and free ------------------------------------------------------------------------- */

int core_open(const char *path, struct core **ret, struct error *err)
{
    struct core *core = calloc(1, sizeof(*core));
    if (!core)
        return error_no_memory(err);
    if (elf_image_open(path, &core->image, err)) {
        free(core);
        return -1;
    }
    const struct elf_image *e = core->image;
    int failed = 0;
    if (e->type != ET_CORE)
        failed = error_set(err, ERROR_FORMAT, "%s: this is an ELF file, but not a core file", path);
    else if (!(core->arch = arch_by_elf(e->machine, e->is64)))
        failed = error_set(err, ERROR_UNSUPPORTED,
                           "%s: this core is of ELF machine %u; only %s can be read", path,
                           e->machine, ARCH_TITLES);
    if (failed || read_loads(core, err) || read_notes(core, err) || merge_mappings(core, err)) {
        core_free(core);
        return -1;
    }
    *ret = core;
    return 0;
}

void core_free(struct core *core)
{
    if (!core)
        return;
    elf_image_free(core->image);
    vec_free(&core->loads);
    vec_free(&core->threads);
    vec_free(&core->mappings);
    free(core);
}

uint32_t core_pid(const struct core *core)
{
    return core->pid;
}

const char *core_command(const struct core *core)
{
    return core->command;
}

size_t core_nr_threads(const struct core *core)
{
    return core->threads.nr;
}

const struct core_thread *core_thread(const struct core *core, size_t index)
{
    return &core->threads.at[index];
}

size_t core_nr_mappings(const struct core *core)
{
    return core->mappings.nr;
}

const struct core_mapping *core_mapping(const struct core *core, size_t index)
{
    return &core->mappings.at[index];
}

/* ---- build ids ----------------------------------------------------------------------------- */

enum { HEADERS_MAX = 64, NOTE_MAX = 1024 };

static bool note_build_id(const struct core *core, uint64_t address, uint64_t size,
                          struct build_id *ret)
{
    uint8_t bytes[NOTE_MAX];
    size = size < NOTE_MAX ? size : NOTE_MAX;
    if (!read_at(core, address, bytes, size))
        return false;
    return notes_build_id(cursor_make(bytes, size, false, "core", "note", 0), ret);
}

bool core_build_id(const struct core *core, uint64_t start, struct build_id *ret)
{
    Elf64_Ehdr h;
    Elf64_Phdr p[HEADERS_MAX] = {0};
    *ret = (struct build_id){0};
    if (!read_at(core, start, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
        h.e_phentsize != sizeof(p[0]) || h.e_phnum == 0 || h.e_phnum > HEADERS_MAX ||
        !read_at(core, start + h.e_phoff, p, h.e_phnum * sizeof(p[0])))
        return false;
    for (unsigned i = 0; i < h.e_phnum; i++)
        /* The file's beginning is mapped at `start`, so file offsets are distances from `start`. */
        if (p[i].p_type == PT_NOTE &&
            note_build_id(core, start + p[i].p_offset, p[i].p_filesz, ret))
            return true;
    return false;
}
