/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures unwinding alone, in nanoseconds per frame, on the stacks of one recording:
 *
 *   resident      few stacks again and again: everything is in the CPU's caches
 *   cold          every stack once, after another working set has flushed the caches; one by one,
 *                 with a prefetch of the next, and in batches
 *   first sight   addresses never seen before: the rule comes from running the CFI
 *   libdwfl       the peer, on the same stacks
 *
 * Usage: bench_unwind PERF.DATA [MACHINE ROOT], recorded with `perf record
 * --call-graph=dwarf,65528`; a plain file of this machine, or of another one whose files are below
 * ROOT. The benchmark reads the recording itself, and only what it needs, so that it measures
 * nothing but unwind/.
 *
 * The instructions of a frame: valgrind --tool=callgrind --toggle-collect=walk_batches, divided by
 * RUNS and by the frames of "cold, in batches".
 */
#include "base/hash.h"
#include "unwind/native/rule.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 5, RESIDENT_STACKS = 48, MAX_FRAMES = 1024, EVICT_BYTES = 256 << 20 };

struct module {
    char path[512];
    struct cfi *cfi;
    Elf *elf;
    uint32_t id;
};

struct map {
    uint32_t pid;
    uint64_t start, end, pgoff;
    struct module *module;
    uint64_t bias;
};

struct stack {
    uint32_t pid;
    struct unwind_input input;
};

struct data {
    const struct arch *arch;
    const char *root; /* files of the recording are below it */
    const uint8_t *bytes;
    uint64_t size;
    struct perf_event_attr attr;
    VEC(struct map) maps;
    VEC(struct module *) modules;
    VEC(struct stack) stacks;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_unwind: %s\n", what);
    exit(1);
}

/* ---- modules ------------------------------------------------------------------------------- */

static struct cfi_section section(Elf *elf, const char *name)
{
    size_t names;
    Elf_Scn *scn = NULL;
    GElf_Shdr shdr;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return (struct cfi_section){0};
    while ((scn = elf_nextscn(elf, scn))) {
        gelf_getshdr(scn, &shdr);
        const char *its = elf_strptr(elf, names, shdr.sh_name);
        Elf_Data *d = its && !strcmp(its, name) ? elf_rawdata(scn, NULL) : NULL;
        if (d && d->d_buf)
            return (struct cfi_section){d->d_buf, d->d_size, shdr.sh_addr};
    }
    return (struct cfi_section){0};
}

static struct module *module_get(struct data *d, const char *name)
{
    char path[sizeof(((struct module *)0)->path)];
    snprintf(path, sizeof(path), "%s%s", d->root, name);
    vec_foreach (m, &d->modules) {
        if (!strcmp((*m)->path, path))
            return *m;
    }
    struct module *m = calloc(1, sizeof(*m));
    if (!m || !vec_push(&d->modules, m))
        die("out of memory");
    snprintf(m->path, sizeof(m->path), "%s", path);
    m->id = (uint32_t)d->modules.nr;
    int fd = open(path, O_RDONLY);
    m->elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (!m->elf)
        return m;
    const struct cfi_source source = {.arch = d->arch,
                                      .name = path,
                                      .eh_frame = section(m->elf, ".eh_frame"),
                                      .eh_frame_hdr = section(m->elf, ".eh_frame_hdr"),
                                      .id = m->id};
    double start = now();
    if (cfi_create(&source, &m->cfi, NULL))
        m->cfi = NULL;
    else
        printf("%-60s cfi_create %7.0f us\n", path, (now() - start) / 1e3);
    return m;
}

static uint64_t module_vaddr(const struct module *m, uint64_t offset)
{
    GElf_Phdr p;
    for (int i = 0; m->elf && gelf_getphdr(m->elf, i, &p); i++) {
        if (p.p_type == PT_LOAD && offset - (p.p_offset & -4096ul) < p.p_filesz + 4096 &&
            p.p_flags & PF_X)
            return offset - p.p_offset + p.p_vaddr;
    }
    return offset;
}

/* ---- recording ----------------------------------------------------------------------------- */

static void add_map(struct data *d, const uint8_t *r)
{
    if (!(load_u32(r + 64, false) & PROT_EXEC))
        return; /* stacks and heaps grow over what they are not */
    struct map map = {.pid = load_u32(r + 8, false),
                      .start = load_u64(r + 16, false),
                      .pgoff = load_u64(r + 32, false)};
    map.end = map.start + load_u64(r + 24, false);
    map.module = module_get(d, (const char *)r + 72);
    map.bias = map.start - module_vaddr(map.module, map.pgoff);
    if (!vec_push(&d->maps, map))
        die("out of memory");
}

/* The maps of a process, sorted. */
struct process {
    VEC(struct map) maps;
};

static bool lookup(void *context, uint64_t pc, uint64_t time, struct code *ret)
{
    (void)time;
    const struct process *p = context;
    size_t low = 0, high = p->maps.nr;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->maps.at[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    const struct map *m = &p->maps.at[low];
    if (low == p->maps.nr || pc < m->start)
        return false;
    *ret =
        (struct code){CODE_ELF, m->start, m->end, m->bias, m->module->cfi, m->module->id, true, m};
    return true;
}

static int compare_maps(const void *a, const void *b)
{
    const struct map *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static struct process *process_get(struct data *d, uint32_t pid)
{
    vec_foreach (s, &d->stacks) {
        if (s->pid == pid)
            return s->input.code.context;
    }
    struct process *p = calloc(1, sizeof(*p));
    if (!p)
        die("out of memory");
    return p;
}

/* Reads the values of the registers in `mask`, in ascending order of perf's register numbers. */
static struct registers read_registers(const struct arch *arch, const uint8_t *at, uint64_t mask)
{
    struct registers r = {.arch = arch};
    for (unsigned bit = 0; bit < arch->nr_perf; bit++) {
        uint8_t reg = arch->perf[bit].reg;
        if (!(mask >> bit & 1))
            continue;
        if (reg != ARCH_NO_REGISTER) {
            r.value[reg] = load_u64(at, false);
            r.known |= REG_BIT(reg);
        }
        at += 8;
    }
    return r;
}

/* Run after reading: at each address the last map wins. */
static void sort_maps(struct data *d)
{
    vec_foreach (s, &d->stacks) {
        struct process *p = s->input.code.context;
        if (p->maps.nr > 0)
            continue;
        for (size_t i = d->maps.nr; i-- > 0;) {
            const struct map *m = &d->maps.at[i];
            bool hidden = m->pid != s->pid;
            vec_foreach (other, &p->maps)
                hidden |= m->start < other->end && other->start < m->end;
            if (!hidden && !vec_push(&p->maps, *m))
                die("out of memory");
        }
        if (p->maps.nr > 0)
            qsort(p->maps.at, p->maps.nr, sizeof(*p->maps.at), compare_maps);
    }
}

static void add_sample(struct data *d, const uint8_t *r, uint32_t size)
{
    const uint64_t type = d->attr.sample_type;
    struct cursor c = cursor_make(r + 8, size - 8, false, "", "sample", 0);
    struct stack s = {0};
    if (type & PERF_SAMPLE_IDENTIFIER)
        cursor_u64(&c);
    if (type & PERF_SAMPLE_IP)
        cursor_u64(&c);
    s.pid = cursor_u32(&c);
    cursor_u32(&c);
    cursor_skip(&c, 8 * (uint64_t)__builtin_popcountll(
                            type & (PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
                                    PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)));
    if (type & PERF_SAMPLE_CALLCHAIN)
        cursor_skip(&c, 8 * cursor_u64(&c));
    if (cursor_u64(&c) != PERF_SAMPLE_REGS_ABI_64)
        return;
    uint64_t mask = d->attr.sample_regs_user;
    const uint8_t *registers = cursor_bytes(&c, 8 * (uint64_t)__builtin_popcountll(mask));
    uint64_t stack_size = cursor_u64(&c);
    const uint8_t *stack = cursor_bytes(&c, stack_size);
    uint64_t dynamic = cursor_u64(&c);
    if (c.failed || dynamic > stack_size || dynamic == 0)
        return;
    s.input.registers = read_registers(d->arch, registers, mask);
    s.input.memory = (struct memory){.stack = stack,
                                     .stack_size = dynamic,
                                     .stack_start = s.input.registers.value[d->arch->reg.sp]};
    s.input.code = (struct codemap){.lookup = lookup, .context = process_get(d, s.pid)};
    s.input.max_frames = MAX_FRAMES;
    if (!vec_push(&d->stacks, s))
        die("out of memory");
}

static void read_recording(struct data *d, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        die("cannot open the recording");
    d->size = (uint64_t)st.st_size;
    d->bytes = mmap(NULL, d->size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (d->bytes == MAP_FAILED || d->size < 104 || memcmp(d->bytes, "PERFILE2", 8) != 0)
        die("not a perf.data file of this machine");
    uint64_t attrs = load_u64(d->bytes + 24, false), at = load_u64(d->bytes + 40, false);
    uint64_t end = at + load_u64(d->bytes + 48, false);
    if (attrs > d->size - sizeof(d->attr) || end > d->size || end < at)
        die("damaged header");
    memcpy(&d->attr, d->bytes + attrs, 128 < sizeof(d->attr) ? 128 : sizeof(d->attr));
    while (end - at >= 8) {
        const uint8_t *r = d->bytes + at;
        uint32_t type = load_u32(r, false), size = load_u16(r + 6, false);
        if (size < 8 || size > end - at)
            break;
        if (type == PERF_RECORD_MMAP2 && size > 73)
            add_map(d, r);
        else if (type == PERF_RECORD_SAMPLE)
            add_sample(d, r, size);
        at += size;
    }
    if (d->stacks.nr == 0)
        die("no samples with a stack");
    sort_maps(d);
}

/* ---- measurements -------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void evict(void)
{
    static volatile uint8_t *room;
    if (!room && !(room = malloc(EVICT_BYTES)))
        die("out of memory");
    for (size_t i = 0; i < EVICT_BYTES; i += 64)
        room[i]++;
}

/* A measured walk: walks the stacks [from, to) and returns the number of frames. */
enum { BATCH = 32 };

typedef uint64_t walker(struct unwinder *u, const struct data *d, size_t from, size_t to);

static uint64_t walk_single(struct unwinder *u, const struct data *d, size_t from, size_t to)
{
    static struct unwind_stack out;
    uint64_t frames = 0;
    for (size_t i = from; i < to; i++) {
        out.frames.nr = 0;
        unwind(u, &d->stacks.at[i].input, &out, NULL);
        frames += out.frames.nr;
    }
    return frames;
}

static uint64_t walk_prefetching(struct unwinder *u, const struct data *d, size_t from, size_t to)
{
    static struct unwind_stack out;
    uint64_t frames = 0;
    for (size_t i = from; i < to; i++) {
        out.frames.nr = 0;
        if (i + 1 < to)
            unwind_prefetch(&d->stacks.at[i + 1].input);
        unwind(u, &d->stacks.at[i].input, &out, NULL);
        frames += out.frames.nr;
    }
    return frames;
}

static void report(const char *what, double *ns, uint64_t frames)
{
    qsort(ns, RUNS, sizeof(*ns), compare_doubles);
    printf("%-28s %8.1f ns/frame  (%.1f to %.1f; %lu frames)\n", what, ns[RUNS / 2] / frames,
           ns[0] / frames, ns[RUNS - 1] / frames, frames);
}

static void measure_resident(struct unwinder *u, const struct data *d, const char *what,
                             walker *walk)
{
    double ns[RUNS];
    uint64_t frames = 0;
    for (int run = 0; run < RUNS; run++) {
        ns[run] = 0;
        frames = 0;
        for (size_t i = 0; i + RESIDENT_STACKS < d->stacks.nr; i += RESIDENT_STACKS * 8) {
            walk(u, d, i, i + RESIDENT_STACKS);
            double start = now();
            for (int again = 0; again < 8; again++)
                frames += walk(u, d, i, i + RESIDENT_STACKS);
            ns[run] += now() - start;
        }
    }
    report(what, ns, frames);
}

static uint64_t walk_batches(struct unwinder *u, const struct data *d, size_t from, size_t to)
{
    static struct unwind_stack out[BATCH];
    struct unwind_input in[BATCH];
    uint64_t frames = 0;
    for (size_t i = from; i < to; i += BATCH) {
        size_t nr = to - i < BATCH ? to - i : BATCH;
        for (size_t k = 0; k < nr; k++) {
            out[k].frames.nr = 0;
            in[k] = d->stacks.at[i + k].input;
            unwind_prefetch(&in[k]);
        }
        unwind_batch(u, in, out, nr, NULL);
        for (size_t k = 0; k < nr; k++)
            frames += out[k].frames.nr;
    }
    return frames;
}

static void measure_cold(struct unwinder *u, const struct data *d, const char *what, walker *walk)
{
    double ns[RUNS];
    uint64_t frames = 0;
    for (int run = 0; run < RUNS; run++) {
        evict();
        double start = now();
        frames = walk(u, d, 0, d->stacks.nr);
        ns[run] = now() - start;
    }
    report(what, ns, frames);
}

static int compare_addresses(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Looks up each distinct address of the recording once, with nothing cached. An address is (module
 * id, address in the module). */
static void measure_first_sight(struct unwinder *u, const struct data *d)
{
    VEC(uint64_t) pcs = {0};
    struct unwind_stack out = {0};
    vec_foreach (s, &d->stacks) {
        out.frames.nr = 0;
        unwind(u, &s->input, &out, NULL);
        vec_foreach (f, &out.frames) {
            const struct map *m = f->code;
            if (m && m->module->cfi)
                vec_push(&pcs, (uint64_t)m->module->id << 48 | (frame_lookup_pc(f) - m->bias));
        }
    }
    qsort(pcs.at, pcs.nr, sizeof(*pcs.at), compare_addresses);
    size_t nr = 0;
    for (size_t i = 0; i < pcs.nr; i++) {
        if (i == 0 || pcs.at[i] != pcs.at[i - 1])
            pcs.at[nr++] = pcs.at[i];
    }
    for (size_t i = nr - 1; i > 0; i--) { /* shuffle */
        size_t j = hash_u64(i) % (i + 1);
        uint64_t t = pcs.at[i];
        pcs.at[i] = pcs.at[j], pcs.at[j] = t;
    }
    for (int cold = 0; cold < 2; cold++) {
        double ns[RUNS];
        struct rule_cache cache = {0};
        for (int run = 0; run < RUNS; run++) {
            if (!rule_cache_init(&cache, NULL))
                die("out of memory");
            if (cold)
                evict();
            double start = now();
            for (size_t i = 0; i < nr; i++) {
                uint32_t id = (uint32_t)(pcs.at[i] >> 48);
                uint64_t address = pcs.at[i] & 0xffffffffffff;
                rule_miss(&cache, d->modules.at[id - 1]->cfi, address, rule_key_hash(id, address));
            }
            ns[run] = now() - start;
            if (run == 0 && !cold)
                printf("%zu addresses, %zu different rules, %zu rows kept whole\n", nr,
                       cache.store->nr_rules - 1, cache.store->nr_rows - 1);
            rule_cache_destroy(&cache);
        }
        report(cold ? "first sight, cold" : "first sight, resident", ns, nr);
    }
    vec_free(&pcs);
    vec_free(&out.frames);
}

/* ---- the peer ------------------------------------------------------------------------------ */

struct peer {
    const struct stack *stack;
    uint64_t frames;
};

static pid_t peer_next(Dwfl *dwfl, void *arg, void **thread)
{
    (void)dwfl;
    if (*thread)
        return 0;
    *thread = arg;
    return 1;
}

static bool peer_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, void *arg)
{
    (void)dwfl;
    const struct peer *p = arg;
    enum provenance provenance = PROVENANCE_EXACT;
    return memory_read_u64(&p->stack->input.memory, addr, result, &provenance);
}

static bool peer_registers(Dwfl_Thread *thread, void *arg)
{
    const struct peer *p = arg;
    const struct registers *r = &p->stack->input.registers;
    Dwarf_Word words[ARCH_REGISTERS_MAX];
    for (unsigned i = 0; i < r->arch->reg.columns; i++)
        words[i] = r->value[i];
    dwfl_thread_state_register_pc(thread, r->value[r->arch->reg.pc]);
    return dwfl_thread_state_registers(thread, 0, r->arch->reg.columns, words);
}

static int peer_frame(Dwfl_Frame *state, void *arg)
{
    struct peer *p = arg;
    Dwarf_Addr pc;
    bool activation;
    dwfl_frame_pc(state, &pc, &activation);
    return ++p->frames >= MAX_FRAMES ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Walks the stacks of one process with libdwfl: the process that has most. */
static void measure_peer(const struct data *d)
{
    static const Dwfl_Callbacks callbacks = {.find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = dwfl_offline_section_address,
                                             .find_elf = dwfl_build_id_find_elf};
    static const Dwfl_Thread_Callbacks threads = {.next_thread = peer_next,
                                                  .memory_read = peer_read,
                                                  .set_initial_registers = peer_registers};
    uint32_t pid = d->stacks.at[d->stacks.nr / 2].pid;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    dwfl_report_begin(dwfl);
    const struct process *process = d->stacks.at[d->stacks.nr / 2].input.code.context;
    vec_foreach (m, &process->maps) {
        /* libdwfl fails as a whole when a module is reported twice */
        bool again = false;
        for (const struct map *other = process->maps.at; other < m; other++)
            again |= other->module == m->module;
        if (!again && elf_kind(m->module->elf) == ELF_K_ELF)
            dwfl_report_elf(dwfl, m->module->path, m->module->path, -1, m->bias, true);
    }
    dwfl_report_end(dwfl, NULL, NULL);
    struct peer p = {&d->stacks.at[d->stacks.nr / 2], 0};
    Elf *any = NULL;
    vec_foreach (m, &d->modules)
        any = elf_kind((*m)->elf) == ELF_K_ELF ? (*m)->elf : any;
    if (!dwfl_attach_state(dwfl, any, (pid_t)pid, &threads, &p)) {
        printf("libdwfl: %s\n", dwfl_errmsg(-1));
        dwfl_end(dwfl);
        return;
    }
    double ns[RUNS];
    uint64_t frames = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        p.frames = 0;
        frames = 0;
        for (size_t i = 0; i < d->stacks.nr; i += 16) {
            if (d->stacks.at[i].pid != pid)
                continue;
            p.stack = &d->stacks.at[i];
            p.frames = 0;
            dwfl_getthread_frames(dwfl, 1, peer_frame, &p);
            frames += p.frames;
        }
        ns[run] = now() - start;
    }
    report("libdwfl, resident", ns, frames);
    dwfl_end(dwfl);
}

static void print_ends(struct unwinder *u, const struct data *d)
{
    static const char *const names[STACK_NR_ENDS] = {
        "complete", "truncated", "no CFI", "no code", "bad read", "loop", "limit", "no registers"};
    uint64_t ends[STACK_NR_ENDS] = {0};
    struct unwind_stack out = {0};
    vec_foreach (s, &d->stacks) {
        out.frames.nr = 0;
        unwind(u, &s->input, &out, NULL);
        ends[out.end]++;
    }
    for (int i = 0; i < STACK_NR_ENDS; i++) {
        if (ends[i])
            printf("%s %lu; ", names[i], ends[i]);
    }
    struct unwinder_stats stats = unwinder_stats(u);
    printf("%zu stacks, %lu frames, %lu guessed\n", (size_t)d->stacks.nr, stats.frames,
           stats.guesses);
    vec_free(&out.frames);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4)
        die("usage: bench_unwind PERF.DATA [MACHINE ROOT]");
    elf_version(EV_CURRENT);
    struct data d = {.arch = argc == 4 ? arch_by_name(argv[2]) : arch_of_host(),
                     .root = argc == 4 ? argv[3] : ""};
    if (!d.arch)
        die("no such machine");
    read_recording(&d, argv[1]);
    struct unwinder *u = unwinder_create(NULL);
    if (!u)
        die("out of memory");
    print_ends(u, &d);
    measure_resident(u, &d, "resident", walk_single);
    measure_cold(u, &d, "cold", walk_single);
    measure_cold(u, &d, "cold, next prefetched", walk_prefetching);
    measure_cold(u, &d, "cold, in batches", walk_batches);
    measure_first_sight(u, &d);
    measure_peer(&d);
    unwinder_free(u);
    return 0;
}
