/* SPDX-License-Identifier: GPL-2.0-only */
/* Which functions of a process allocate memory. See alloc_functions.h. */
#include "live/alloc_functions.h"

#include "base/process_maps.h"
#include "base/table.h"
#include "base/vec.h"
#include "dso/elf_symbol.h"
#include "live/alloc_usdt.h"
#include "live/alloc_v8.h"
#include "live/lua_scan.h"
#include "perfdata/alloc.h"
#include "unwind/insn_x86_64.h"
#include "unwind/luajit/layout.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- by name ------------------------------------------------------------------------------- */

/* The numbers of arguments; 0: none. */
struct shape {
    unsigned size, times, old, out;
};

static const struct {
    const char *name;
    struct shape shape;
} family[] = {
    {"malloc", {.size = 1}},
    {"calloc", {.size = 1, .times = 2}},
    {"realloc", {.old = 1, .size = 2}},
    {"reallocarray", {.old = 1, .size = 2, .times = 3}},
    {"aligned_alloc", {.size = 2}},
    {"memalign", {.size = 2}},
    {"posix_memalign", {.out = 1, .size = 3}},
    {"valloc", {.size = 1}},
    {"pvalloc", {.size = 1}},
    {"mallocx", {.size = 1}},
    {"rallocx", {.old = 1, .size = 2}},
    {"free", {.old = 1}},
    {"free_sized", {.old = 1}},
    {"free_aligned_sized", {.old = 1}},
    {"dallocx", {.old = 1}},
    {"sdallocx", {.old = 1}},
};

/* Allocators whose functions have such a prefix have them for programs that call them so. */
static const char *const prefixes[] = {"je_", "mi_", "tc_"};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool family_shape(const char *name, struct shape *ret)
{
    for (size_t i = 0; i < sizeof(family) / sizeof(*family); i++) {
        *ret = family[i].shape;
        if (strcmp(family[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Operators new and delete of C++, as the Itanium C++ ABI mangles them: size_t is `m`. All forms
 * have the size, or the block, first. */
static bool operator_shape(const char *name, struct shape *ret)
{
    *ret = (struct shape){.size = 1};
    if (begins(name, "_Znwm") || begins(name, "_Znam"))
        return true;
    *ret = (struct shape){.old = 1};
    return begins(name, "_ZdlPv") || begins(name, "_ZdaPv");
}

/* V8's functions: member functions, so `this` is argument 1. New objects are put side by side into
 * an area without a call, until it is full. The object for which there is no room is, in the long
 * run, each one in proportion to its size. */
#define OF_AREA (ALLOC_AREA | ALLOC_V8_OBJECT)
#define OF_OLD_AREA (OF_AREA | ALLOC_OLD_AREA)
#define OF_RETURNED_AREA (ALLOC_RETURNS_AREA | ALLOC_V8_OBJECT)
static const struct {
    const char *mangled; /* its beginning */
    enum alloc_kind kind;
    uint64_t how; /* ALLOC_... */
    struct shape shape;
    unsigned origin;
} v8_functions[] = {
    {"_ZN2v88internal19SpaceWithLinearArea12ComputeLimitE", ALLOC_JS, OF_AREA, {0}, 0},
    {"_ZNK2v88internal19SpaceWithLinearArea12ComputeLimitE", ALLOC_JS, OF_AREA, {0}, 0},
    {"_ZNK2v88internal13MainAllocator12ComputeLimitE", ALLOC_JS, OF_OLD_AREA, {0}, 0},
    {"_ZN2v88internal25PagedSpaceAllocatorPolicy23SetLinearAllocationAreaE",
     ALLOC_JS,
     OF_OLD_AREA | ALLOC_OF_POLICY,
     {0},
     0},
    {"_ZN2v88internal25PagedSpaceAllocatorPolicy38FreeLinearAllocationAreaUnsynchronizedE",
     ALLOC_JS,
     ALLOC_NOTES | ALLOC_ENDS_AREA,
     {0},
     0},
    {"_ZN2v88internal17SemiSpaceNewSpace8AllocateE", ALLOC_JS, OF_RETURNED_AREA, {0}, 0},
    {"_ZN2v88internal8NewSpace16EnsureAllocationE", ALLOC_JS, ALLOC_NOTES, {0}, 4},
    {"_ZN2v88internal10PagedSpace16EnsureAllocationE", ALLOC_JS, ALLOC_NOTES, {0}, 4},
    {"_ZN2v88internal14PagedSpaceBase16EnsureAllocationE", ALLOC_JS, ALLOC_NOTES, {0}, 4},
    {"_ZN2v88internal17SemiSpaceNewSpace16EnsureAllocationE", ALLOC_JS, ALLOC_NOTES, {0}, 4},
    {"_ZN2v88internal32SemiSpaceNewSpaceAllocatorPolicy16EnsureAllocationE",
     ALLOC_JS,
     ALLOC_NOTES,
     {0},
     4},
    {"_ZN2v88internal25PagedSpaceAllocatorPolicy16EnsureAllocationE",
     ALLOC_JS,
     ALLOC_NOTES,
     {0},
     4},
    {"_ZN2v88internal13HeapAllocator24AllocateRawLargeInternalE",
     ALLOC_JS,
     ALLOC_RETURNS | ALLOC_V8_OBJECT,
     {.size = 2},
     4},
    {"_ZN2v88internal12BackingStore8AllocateE",
     ALLOC_JS_EXTERNAL,
     ALLOC_RETURNS | ALLOC_V8_BUFFER,
     {.out = 1, .size = 3},
     0},
    {"_ZN2v88internal12BackingStoreD", ALLOC_JS_EXTERNAL, ALLOC_V8_BUFFER, {.old = 1}, 0},
    /* Called in collections (alloc_v8.bpf.h). */
    {"_ZN2v88internal4Heap36GarbageCollectionPrologueInSafepointE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_BEGINS},
     0},
    {"_ZN2v88internal17SemiSpaceNewSpace25GarbageCollectionEpilogueE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_SCAVENGED},
     0},
    {"_ZN2v88internal18ArrayBufferSweeper12RequestSweepE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_SCAVENGED},
     0},
    {"_ZN2v88internal20MarkCompactCollector22ClearNonLiveReferencesE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_MARKED},
     0},
    {"_ZN2v88internal20MarkCompactCollector29UpdatePointersAfterEvacuationE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_EVACUATED},
     0},
    {"_ZN2v88internal4Heap36GarbageCollectionEpilogueInSafepointE",
     ALLOC_JS,
     ALLOC_COLLECTS,
     {.size = ALLOC_ENDS},
     0},
    {"_ZN2v88internal4Heap8TearDownE", ALLOC_JS, ALLOC_COLLECTS, {.size = ALLOC_TORN_DOWN}, 0},
};

static uint64_t word_of(const struct shape *s, enum alloc_kind kind)
{
    return (uint64_t)s->size << ALLOC_SIZE | (uint64_t)s->times << ALLOC_TIMES |
           (uint64_t)s->old << ALLOC_OLD | (uint64_t)s->out << ALLOC_OUT |
           (uint64_t)kind << ALLOC_KIND;
}

static bool v8_shape(const char *name, uint64_t *ret)
{
    for (size_t i = 0; i < sizeof(v8_functions) / sizeof(*v8_functions); i++) {
        if (!begins(name, v8_functions[i].mangled) || strchr(name, '.')) /* (a part of one) */
            continue;
        *ret = word_of(&v8_functions[i].shape, v8_functions[i].kind) | v8_functions[i].how |
               (uint64_t)v8_functions[i].origin << ALLOC_ORIGIN;
        if (v8_functions[i].kind == ALLOC_JS && v8_functions[i].shape.size != ALLOC_TORN_DOWN)
            *ret |= ALLOC_OF_V8;
        return true;
    }
    return false;
}

/* What a name says of a function. Returns 0 if it does not allocate. */
enum { IS_MALLOC = 1, IS_OF_FAMILY = 2, IS_OTHER = 4, IS_USDT = 8 };
static unsigned shape_of(const char *name, uint64_t *ret)
{
    struct shape shape;
    unsigned is = 0;
    /* Large programs have some 200,000 names, most of them of C++. */
    if (begins(name, "_ZN"))
        return (begins(name, "_ZN2v88internal") || begins(name, "_ZNK2v88internal")) &&
                       v8_shape(name, ret)
                   ? IS_OTHER
                   : 0;
    if (name[0] == '_' ? operator_shape(name, &shape) : family_shape(name, &shape))
        is = IS_OF_FAMILY | (strcmp(name, "malloc") == 0 ? IS_MALLOC : 0);
    for (size_t i = 0; !is && name[0] != '_' && i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (begins(name, prefixes[i]) && family_shape(name + strlen(prefixes[i]), &shape))
            is = IS_OTHER;
    *ret = word_of(&shape, ALLOC_MALLOC) | (shape.size ? ALLOC_RETURNS : 0);
    return is;
}

/* ---- the files' own ------------------------------------------------------------------------ */

/* A function of a file that allocates. */
struct file_function {
    uint64_t address, size, shape; /* virtual address; bytes; ALLOC_... */
    unsigned is;                   /* IS_... */
    uint64_t semaphore;
    struct alloc_usdt usdt;
};

struct file_functions {
    VEC(struct file_function) all;
    uint16_t machine;
    bool v8;     /* there is one */
    bool failed; /* memory is out */
};

struct alloc_files {
    struct table files; /* dso's id -> struct file_functions */
};

struct alloc_files *alloc_files_create(void)
{
    return calloc(1, sizeof(struct alloc_files));
}

void alloc_files_free(struct alloc_files *files)
{
    if (!files)
        return;
    vec_foreach (slot, &files->files) {
        struct file_functions *f = slot->value;
        vec_free(&f->all);
        free(f);
    }
    table_free(&files->files);
    free(files);
}

enum { FUNCTIONS_MOST = 4 * ALLOC_FUNCTIONS };

static bool take_symbol(void *context, const struct elf_function *f)
{
    struct file_functions *to = context;
    struct file_function new = {.address = f->address, .size = f->size};
    new.is = shape_of(f->name, &new.shape);
    to->v8 |= begins(f->name, "_ZN2v82V8");
    if (!new.is)
        return true;
    to->failed = !vec_push(&to->all, new);
    return !to->failed && to->all.nr < FUNCTIONS_MOST;
}

static bool take_usdt(void *context, const struct elf_usdt *u)
{
    struct file_functions *to = context;
    struct file_function new = {.address = u->address,
                                .size = 1,
                                .shape = (uint64_t)ALLOC_MALLOC << ALLOC_KIND | ALLOC_USDT,
                                .is = IS_USDT,
                                .semaphore = u->semaphore};
    if (!alloc_usdt_of(u, to->machine, &new.usdt))
        return true;
    to->failed = !vec_push(&to->all, new);
    return !to->failed && to->all.nr < FUNCTIONS_MOST;
}

/* Get the functions of a file, whose symbols are read once: there may be 200,000. NULL: memory is
 * out. */
static const struct file_functions *functions_of(struct alloc_files *files, const struct dso *dso,
                                                 const struct elf_image *image)
{
    struct file_functions *f = table_get(&files->files, dso->id);
    if (f)
        return f;
    f = calloc(1, sizeof(*f));
    if (f) {
        f->machine = image->machine;
        elf_usdts(image, take_usdt, f);
        elf_functions(image, take_symbol, f);
    }
    if (f && !f->failed && table_put(&files->files, dso->id, f))
        return f;
    if (f)
        vec_free(&f->all);
    free(f);
    return NULL;
}

/* ---- of a file ----------------------------------------------------------------------------- */

struct search {
    struct alloc_functions *all;
    const struct process_map *map;
    uint64_t vaddr; /* of the mapping's beginning */
    const struct elf_image *image;
    bool wants_family; /* no file before has defined malloc */
    bool has_malloc;
    bool has_usdt;
    uint32_t first;  /* of this file */
    uint64_t family; /* bits of functions, by their index: those of malloc's own names */
};

/* Registers that hold arguments, and the stack pointer, by their numbers in instructions: rdi, rsi,
 * rdx, rcx, r8, r9. */
static const uint32_t KEPT = 1 << 7 | 1 << 6 | 1 << 2 | 1 << 1 | 1 << 8 | 1 << 9 | 1 << INSN_RSP;

/* Returns the offset in a function of the first instruction that the kernel need not step through:
 * it emulates pushes and branches, at a quarter of the cost (uprobes.c of arch/x86). All calls must
 * reach it with their arguments. 0 if there is none. */
static uint64_t cheap_offset(const uint8_t *code, size_t size)
{
    enum { INSTRUCTIONS = 8, PUSH = 0x50, PUSH_LAST = 0x57, NOP = 0x90 };
    size_t at = 0;
    for (int i = 0; i < INSTRUCTIONS; i++) {
        struct insn_parts is;
        if (at >= size || !insn_parts(code + at, size - at, &is))
            return 0;
        bool pushes = !is.map && is.opcode >= PUSH && is.opcode <= PUSH_LAST;
        bool branches = insn_way(&is) == WAY_BRANCH || insn_way(&is) == WAY_JUMP ||
                        (insn_way(&is) == WAY_CALL && !is.has_modrm);
        if (pushes || branches || (!is.map && is.opcode == NOP && is.size == 1))
            return at;
        if (insn_way(&is) != WAY_NEXT || insn_written(&is) & KEPT)
            return 0;
        at += is.size;
    }
    return 0;
}

static uint64_t probed_offset(const struct search *s, uint64_t offset)
{
    enum { CODE = 64 }; /* bytes that are looked at */
    if (s->image->machine != EM_X86_64 || offset >= s->image->size)
        return offset;
    size_t left = s->image->size - offset;
    return offset + cheap_offset(s->image->bytes + offset, left < CODE ? left : CODE);
}

static bool is_known(const struct search *s, uint64_t start)
{
    for (uint32_t i = s->first; i < s->all->nr; i++)
        if (s->all->at[i].start == start)
            return true;
    return false;
}

/* Add a function, for which there is room; `size` 0: that of its code is not known. Its probe's
 * place is to be set. */
static struct alloc_function *add(const struct search *s, uint64_t start, uint64_t size,
                                  uint64_t shape)
{
    enum { SIZE = 64 };
    const struct process_map *m = s->map;
    struct alloc_function *new = &s->all->at[s->all->nr];
    *new = (struct alloc_function){.start = start,
                                   .end = start + (size ? size : SIZE),
                                   .map = m->start,
                                   .map_end = m->end,
                                   .shape = shape | s->all->nr++,
                                   .inode = m->inode,
                                   .major = m->major,
                                   .minor = m->minor};
    return new;
}

static bool take(struct search *s, const struct file_function *f)
{
    const struct process_map *m = s->map;
    const uint64_t at = f->address - s->vaddr, shape = f->shape;
    const unsigned is = f->is;
    if (f->address < s->vaddr || at >= m->end - m->start || (is & IS_OF_FAMILY && !s->wants_family))
        return true;
    s->has_malloc |= is & IS_MALLOC;
    s->has_usdt |= is & IS_USDT;
    if (is_known(s, m->start + at))
        return true;
    if (s->all->nr == ALLOC_FUNCTIONS)
        return false;
    const bool behind = s->has_usdt && !(is & IS_USDT); /* (they come first) */
    s->family |= (uint64_t)(is & IS_OF_FAMILY ? 1 : 0) << s->all->nr;
    struct alloc_function *new =
        add(s, m->start + at, f->size, shape | (behind ? ALLOC_BEHIND_USDT : 0));
    new->offset = is &IS_USDT ? m->pgoff + at : probed_offset(s, m->pgoff + at);
    new->semaphore = f->semaphore;
    new->usdt = f->usdt;
    return true;
}

_Static_assert(ALLOC_FUNCTIONS <= 64, "a bit for each function");

/* A file that defines parts of the family without malloc only passes calls on: libstdc++ does. */
static void drop_family(struct search *s)
{
    uint32_t kept = s->first;
    for (uint32_t i = s->first; i < s->all->nr; i++)
        if (!(s->family >> i & 1))
            s->all->at[kept++] = s->all->at[i];
    s->all->nr = kept;
}

/* Where V8 tells a new area in both ways, those that are returned are all of the new space. What
 * remains of the others are those of the old one. */
static void drop_areas(struct search *s)
{
    uint32_t kept = s->first;
    bool returned = false;
    for (uint32_t i = s->first; i < s->all->nr; i++)
        returned |= (s->all->at[i].shape & ALLOC_RETURNS_AREA) != 0;
    for (uint32_t i = s->first; i < s->all->nr; i++)
        if (!returned || !(s->all->at[i].shape & ALLOC_AREA) ||
            s->all->at[i].shape & ALLOC_OLD_AREA)
            s->all->at[kept++] = s->all->at[i];
    s->all->nr = kept;
}

/* Open the file of a mapping; NULL: there is none. */
static struct dso *dso_of(struct dsos *dsos, pid_t pid, const struct process_map *m)
{
    char buffer[64];
    struct dso *dso = dsos_get(dsos, DSO_FILE, m->path, NULL, (uint32_t)pid);
    const char *live = process_map_live_path(pid, m, buffer, sizeof(buffer));
    if (dso && live)
        dso_add_path(dso, live);
    if (dso)
        dso_expect_inode(dso, m->inode);
    return dso;
}

/* Returns whether the file of a mapping defines malloc. */
static bool look_at(struct alloc_functions *all, struct alloc_files *files, struct dsos *dsos,
                    const struct process_map *m, bool wants_family)
{
    struct dso *dso = dso_of(dsos, (pid_t)all->pid, m);
    if (!dso)
        return false;
    struct search s = {.all = all,
                       .map = m,
                       .image = dso_image(dso),
                       .wants_family = wants_family,
                       .first = all->nr};
    if (!s.image || !dso_offset_to_vaddr(dso, m->pgoff, &s.vaddr))
        return false;
    const struct file_functions *of = functions_of(files, dso, s.image);
    for (size_t i = 0; of && i < of->all.nr; i++)
        if (!take(&s, &of->all.at[i]))
            break;
    if (wants_family && !s.has_malloc)
        drop_family(&s);
    drop_areas(&s);
    /* (Parts of V8's file are mapped in several places.) */
    if (of && of->v8 && (all->v8.state == ALLOC_V8_NONE || all->v8.state == ALLOC_V8_STRIPPED))
        alloc_v8_find(dso, &all->at[s.first], all->nr - s.first, &all->v8);
    return s.has_malloc;
}

/* ---- of a process -------------------------------------------------------------------------- */

static bool is_c_library(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return begins(name, "libc.so") || begins(name, "libc-") || begins(name, "ld-musl");
}

int alloc_functions_find(pid_t pid, struct alloc_files *files, struct dsos *dsos,
                         struct alloc_functions *ret, struct error *err)
{
    struct process_maps maps;
    struct error why = {0};
    bool found = false;
    *ret = (struct alloc_functions){.pid = (uint32_t)pid};
    if (process_maps_read(pid, &maps, &why) < 0)
        return why.kind == ERROR_NO_MEMORY ? error_no_memory(err) : 0;
    for (int library = 0; library < 2; library++) {
        vec_foreach (m, &maps.maps) {
            if (m->prot & PROT_EXEC && m->path[0] == '/' && m->inode &&
                is_c_library(m->path) == (library == 1))
                found |= look_at(ret, files, dsos, m, !found);
        }
    }
    process_maps_free(&maps);
    return 0;
}

/* ---- LuaJIT -------------------------------------------------------------------------------- */

/* Add a lua_Alloc, void *(void *ud, void *ptr, size_t osize, size_t nsize), which any program may
 * give its VMs. */
static void add_lua_alloc(struct alloc_functions *all, struct dsos *dsos,
                          const struct process_map *m, uint64_t at)
{
    const struct shape shape = {.old = 2, .size = 4};
    struct dso *dso = dso_of(dsos, (pid_t)all->pid, m);
    struct search s = {.all = all, .map = m, .image = dso ? dso_image(dso) : NULL};
    if (!s.image || is_known(&s, at) || all->nr == ALLOC_FUNCTIONS)
        return;
    add(&s, at, 0, word_of(&shape, ALLOC_LUA) | ALLOC_RETURNS | ALLOC_OF_LUA)->offset =
        probed_offset(&s, at - m->start + m->pgoff);
}

int alloc_functions_of_luajit(pid_t pid, const struct lua_scan_vm *vms, size_t nr,
                              struct dsos *dsos, struct alloc_functions *ret, struct error *err)
{
    enum { BEFORE_TOTAL = 16 }; /* allocf and allocd stand before gc.total (lj_obj.h) */
    struct process_maps maps;
    struct process_memory *memory;
    struct error why = {0};
    *ret = (struct alloc_functions){.pid = (uint32_t)pid};
    if (process_memory_open(pid, &memory, &why) < 0)
        return why.kind == ERROR_NO_MEMORY ? error_no_memory(err) : 0;
    if (process_maps_read(pid, &maps, &why) < 0) {
        process_memory_close(memory);
        return why.kind == ERROR_NO_MEMORY ? error_no_memory(err) : 0;
    }
    for (size_t i = 0; i < nr; i++) {
        const struct luajit_vm *vm = &vms[i].vm;
        uint64_t at = 0;
        if (vm->layout->gc_total < BEFORE_TOTAL ||
            !process_memory_read(memory, vm->g + (uint64_t)vm->layout->gc_total - BEFORE_TOTAL, &at,
                                 sizeof(at)))
            continue;
        vec_foreach (m, &maps.maps)
            if (m->prot & PROT_EXEC && m->path[0] == '/' && m->inode && at >= m->start &&
                at < m->end)
                add_lua_alloc(ret, dsos, m, at);
    }
    process_maps_free(&maps);
    process_memory_close(memory);
    return 0;
}
