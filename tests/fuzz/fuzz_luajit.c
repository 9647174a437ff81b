/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks over damaged memory of real LuaJIT processes: the input decides which words are replaced
 * (by other pointers, neighbours, zeros, noise), and which registers. Every walk must end, must
 * give the same twice, and the same in a batch. The images are those of the version matrix beside
 * the repository; without them, or without the tools to unpack them, the target does nothing. It
 * also lists traces from the same memory. If the input says so, Lua stacks and other memory are
 * given in place, like memory that came with a sample, and threads are put into C functions that a
 * trace has called.
 *
 * An input is: image, thread, rate and seed of the damage, flags (enum how); then pairs of a
 * register and a word.
 */
#include "tests/fuzz/damage.h"
#include "tests/fuzz/variables.h"
#include "unwind/arch_x86_64.h"
#include "unwind/luajit/compiler.h"
#include "unwind/luajit/variables.h"
#include "unwind/luajit/trace_calls.h"
#include "unwind/luajit/trace_callers.h"
#include "unwind/luajit/listing.h"
#include "unwind/luajit/walk.h"
#include "unwind/native/cfi.h"
#include "unwind/luajit/runtime.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IMAGES_MAX = 32, CONTEXTS = 16, MAX_FRAMES = 300, PLACES = 128, TRACES = 64 };

/* How to walk an input. */
enum how {
    HOW_VMS = 1,    /* the VMs are known */
    HOW_COPIED = 2, /* memory came with the sample and is given in place */
    HOW_CALLED = 4, /* the thread is at the entry of a C function that a trace called */
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    struct core_process process;
    struct luajit_blob blob;
    luajit_vm_list vms;
    /* pointers found in the process's memory, to be put elsewhere */
    uint64_t pointers[DAMAGE_POINTERS];
    /* addresses at which the stack's top is the return address */
    uint64_t entries[PLACES];
    unsigned nr_entries;
    uint64_t returns[PLACES]; /* addresses behind calls in traces */
    unsigned nr_returns;
};

static struct image images[IMAGES_MAX];
static unsigned nr_images;

/* ---- images -------------------------------------------------------------------------------- */

static void note_blob(struct image *image, const struct core_mapping *m)
{
    struct code code;
    if (!m->file || !codemap_lookup(&image->process.code, m->start, 0, &code) ||
        !luajit_of_module(code.cfi))
        return;
    const struct luajit_layout *l = luajit_of_module(code.cfi);
    image->blob = (struct luajit_blob){l, l->blob + code.bias};
}

static void note_memory(struct image *image, const struct core_mapping *m)
{
    struct memory memory = {.layers = image->process.layers, .nr_layers = 2};
    const struct memory_range range = {m->start, m->end};
    enum provenance ignored = PROVENANCE_EXACT;
    if (m->file)
        return;
    luajit_vms_find(&memory, &range, 1, &image->blob, 1, &image->vms, NULL);
    for (unsigned i = 0; i < DAMAGE_POINTERS / 8; i++) {
        uint64_t word, at = m->start + hash_u64(i) % (m->end - m->start) / 8 * 8;
        if (memory_read_u64(&memory, at, &word, &ignored) && word)
            image->pointers[hash_u64(at) % DAMAGE_POINTERS] = i % 4 ? word : at;
    }
}

/* Notes places of functions of a file (LuaJIT's own, too) where the return address is at the top of
 * the stack. */
static void note_entries(struct image *image, const struct core_mapping *m)
{
    enum { TRIES = 4096, OF_A_FILE = 32 };
    struct code code;
    struct cfi_row row;
    unsigned nr = 0;
    for (unsigned i = 0; m->file && i < TRIES && nr < OF_A_FILE; i++) {
        uint64_t at = m->start + hash_u64(i) % (m->end - m->start);
        if (image->nr_entries == PLACES || !codemap_lookup(&image->process.code, at, 0, &code) ||
            !code.cfi || !code.executable || !cfi_row(code.cfi, at - code.bias, &row) ||
            row.cfa_is_expression || row.cfa_register != DWARF_RSP || row.cfa_offset != 8)
            continue;
        image->entries[image->nr_entries++] = at;
        nr++;
    }
}

/* Returns an address in trace `number`'s machine code; 0: it has none. */
static uint64_t trace_code(const struct memory *m, const struct luajit_vm *vm, uint32_t number)
{
    const struct luajit_layout *l = vm->layout;
    enum provenance ignored = PROVENANCE_EXACT;
    uint64_t traces = 0, trace = 0, code = 0;
    size_t ref = (size_t)l->ref_size;
    if (l->J == LUAJIT_UNKNOWN || l->trace == LUAJIT_UNKNOWN ||
        !memory_read(m, vm->g + (uint64_t)(int64_t)l->trace, &traces, ref, &ignored) ||
        !memory_read(m, traces + ref * number, &trace, ref, &ignored) || !trace ||
        !memory_read_u64(m, trace + (uint64_t)l->trace_mcode, &code, &ignored))
        return 0;
    return code;
}

static void note_returns(struct image *image, uint32_t number)
{
    enum { CODE = 4096 };
    const struct memory m = {.layers = image->process.layers, .nr_layers = 2};
    uint8_t code[CODE];
    uint64_t ignored, start = trace_code(&m, &image->vms.at[0], number);
    enum provenance any = PROVENANCE_EXACT;
    unsigned reg;
    if (!start || !memory_read(&m, start, code, sizeof(code), &any))
        return;
    for (size_t at = X86_64_DIRECT_CALL; at < CODE && image->nr_returns < PLACES; at++) {
        const uint8_t *end = code + at;
        if (x86_64_direct_call(end, X86_64_DIRECT_CALL, start + at, &ignored) ||
            x86_64_register_call(end, X86_64_DIRECT_CALL, &reg))
            image->returns[image->nr_returns++] = start + at;
    }
}

static void add_image(const char *folder, const char *build, const char *core)
{
    char path[4096], to[2048], lib[2048];
    struct image *image = &images[nr_images];
    snprintf(path, sizeof(path), "%s/%s/%s", folder, build, core);
    snprintf(to, sizeof(to), "%s/", folder);
    snprintf(lib, sizeof(lib), "%s/lib/", folder);
    const struct path_replacement replace[] = {{"/opt/ljt/", to},
                                               {"/usr/lib/x86_64-linux-gnu/", lib}};
    const struct core_process_options options = {replace, 2, NULL};
    if (core_process_open(path, &options, &image->process, NULL))
        return;
    const struct core *c = image->process.core;
    for (size_t i = 0; i < core_nr_mappings(c); i++)
        note_blob(image, core_mapping(c, i));
    for (size_t i = 0; i < core_nr_mappings(c) && image->blob.layout; i++)
        note_memory(image, core_mapping(c, i));
    for (size_t i = 0; i < core_nr_mappings(c) && image->vms.nr; i++)
        note_entries(image, core_mapping(c, i));
    for (uint32_t number = 1; number < TRACES && image->vms.nr; number++)
        note_returns(image, number);
    if (image->vms.nr)
        nr_images++;
    else
        core_process_free(&image->process);
}

static bool unpack(const char *folder, const char *name)
{
    char command[8192];
    snprintf(command, sizeof(command),
             "tar --zstd --sparse -xf ../shared/testdata/luajit/%s.tar.zst -C %s 2>/dev/null", name,
             folder);
    return system(command) == 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const builds[] = {"2.0.5", "2.1b3", "2.1-2308", "2.1-2608"};
    static const char *const kinds[] = {"interp.1.core", "jit.3.core",   "mixed.2.core",
                                        "mixed.5.core",  "mixed.7.core", "mixedoff.2.core"};
    char folder[] = "/tmp/fuzz_luajit.XXXXXX", command[64];
    (void)argc, (void)argv;
    if (!mkdtemp(folder) || !unpack(folder, "lib"))
        return 0;
    for (size_t b = 0; b < sizeof(builds) / sizeof(*builds); b++) {
        for (size_t k = 0; unpack(folder, builds[b]) && k < sizeof(kinds) / sizeof(*kinds); k++)
            add_image(folder, builds[b], kinds[k]);
    }
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (nr_images == 0 || system(command) != 0)
        fprintf(stderr, "fuzz_luajit: no images\n");
    return 0;
}

/* ---- one input ----------------------------------------------------------------------------- */

/* Reads what a namer would read first, and stores part of the frame in the result. */
static bool name(void *context, const struct memory *m, const struct luajit_vm *vm,
                 const struct luajit_frame *frame, struct frame *ret)
{
    enum provenance provenance = PROVENANCE_EXACT;
    uint64_t word;
    (void)context;
    if (frame->proto && memory_read_u64(m, frame->proto + (uint64_t)vm->layout->proto_chunkname,
                                        &word, &provenance))
        ret->line = (uint32_t)word;
    ret->function = (uint32_t)hash_combine(frame->func, (uint64_t)(int64_t)frame->position) | 1;
    return true;
}

/* Copies of pages, damaged as in reads, to be given in place. */
enum { PAGE = 4096, COPIED = 16 };
struct copied {
    const struct damage *damage;
    uint64_t starts[COPIED];
    uint8_t pages[COPIED][PAGE];
    unsigned nr;
};

struct context {
    struct damage damage;
    struct memory_layer layers[2];
    struct copied copied;
    uint64_t called; /* a return address, the top of the stack */
    struct unwind_input input;
};

static struct context contexts[CONTEXTS];

/* Returns bytes of one page; NULL when the range crosses the page's end. */
static const uint8_t *copied_piece(void *context, uint64_t address, size_t size,
                                   struct memory_piece *ret)
{
    struct copied *c = context;
    const uint64_t start = address & ~(uint64_t)(PAGE - 1);
    enum provenance ignored = PROVENANCE_EXACT;
    unsigned i = 0;
    if (address - start + size > PAGE)
        return NULL;
    while (i < c->nr && c->starts[i] != start)
        i++;
    if (i == COPIED)
        return NULL;
    if (i == c->nr) {
        if (!damage_bytes(c->damage, start, c->pages[i], PAGE, &ignored))
            return NULL;
        c->starts[c->nr++] = start;
    }
    if (ret)
        *ret = (struct memory_piece){start, PAGE};
    return c->pages[i] + (address - start);
}

static bool copied_read(void *context, const struct memory_query *q, void *to,
                        struct memory_answer *answer)
{
    const uint8_t *at = copied_piece(context, q->address, q->size, NULL);
    (void)answer;
    if (at)
        memcpy(to, at, q->size);
    return at != NULL;
}

/* Puts the thread at the entry of a function that a trace has just called. */
static void be_called(struct context *c, const struct image *image, uint64_t seed)
{
    uint64_t *value = c->input.registers.value, h = hash_u64(seed);
    if (!image->nr_entries || !image->nr_returns)
        return;
    c->called = image->returns[h % image->nr_returns];
    value[DWARF_RIP] = image->entries[(h >> 32) % image->nr_entries];
    value[DWARF_RSP] -= 8;
    c->input.memory.stack = (const uint8_t *)&c->called;
    c->input.memory.stack_start = value[DWARF_RSP];
    c->input.memory.stack_size = sizeof(c->called);
}

static void make_context(struct context *c, const struct image *image, const uint8_t *data,
                         size_t size, uint64_t seed, const struct walker *walker)
{
    size_t nr_threads = core_nr_threads(image->process.core);
    const struct core_thread *thread =
        core_thread(image->process.core, (size > 1 ? data[1] : 0) % nr_threads);
    c->damage =
        (struct damage){&image->process, image->pointers, seed, size > 2 ? data[2] % 12 : 6};
    c->copied.damage = &c->damage;
    c->copied.nr = 0;
    c->layers[0] = (struct memory_layer){.read = copied_read,
                                         .piece = copied_piece,
                                         .context = &c->copied,
                                         .when = MEMORY_OF_SAMPLE};
    c->layers[1] = (struct memory_layer){.read = damage_read, .context = &c->damage};
    bool copied = size > 3 && data[3] & HOW_COPIED;
    c->input = (struct unwind_input){
        .registers = thread->registers,
        .memory = {.layers = c->layers + !copied, .nr_layers = copied ? 2 : 1},
        .code = image->process.code,
        .max_frames = MAX_FRAMES,
        .walker = walker};
    if (size > 3 && data[3] & HOW_CALLED)
        be_called(c, image, seed);
    for (size_t at = 4; at + 3 <= size; at += 3) {
        unsigned reg = data[at] % DWARF_NR;
        uint64_t *value = &c->input.registers.value[reg];
        uint64_t h = hash_combine(seed, at);
        if (data[at] & 0x80)
            *value = image->pointers[(data[at + 1] | data[at + 2] << 8) % DAMAGE_POINTERS];
        else if (data[at] & 0x40)
            *value += (uint64_t)(int64_t)((int8_t)data[at + 1] * 8);
        else if (data[at] & 0x20)
            *value = image->blob.address + h % image->blob.layout->blob_size;
        else
            *value = h;
    }
}

/* Checks that a listing's offsets lie inside its code, and that its strings end. */
static void check_listing(const struct luajit_listing *l)
{
    uint8_t sum = 0;
    for (uint32_t i = 0; i < l->size; i++)
        sum ^= l->code[i];
    vec_foreach (jump, &l->jumps)
        if (jump->offset >= l->size || (l->size && sum == l->code[jump->offset] + 256))
            abort();
    vec_foreach (exit, &l->exits)
        if (!memchr(exit->place.bytecode, 0, sizeof(exit->place.bytecode)))
            abort();
}

static void list_traces(const struct context *c, const struct image *image)
{
    enum { LISTED = 8 };
    struct managed_names *managed = managed_names_create();
    struct luajit_names *names = managed ? luajit_names_create(managed) : NULL;
    const struct luajit_names_source source = {
        .memory = &c->input.memory, .vm = &image->vms.at[0], .space = 1};
    for (uint32_t number = 1; names && number <= LISTED; number++) {
        struct luajit_listing l;
        uint64_t pc = trace_code(&c->input.memory, source.vm, number);
        if (pc && luajit_listing_read(&source, names, number, pc, &l, NULL) > 0) {
            check_listing(&l);
            luajit_listing_free(&l);
        }
    }
    luajit_names_free(names);
    managed_names_free(managed);
}

/* Reads a damaged compiler twice: facts must lie in the bounds that their kind has, and the second
 * reading must be like the first. */
static void read_compiler(const struct context *c, const struct image *image, uint64_t seed)
{
    struct luajit_compiler *of = luajit_compiler_create(&image->vms.at[0]);
    char name[64];
    size_t nr;
    if (!of)
        return;
    for (unsigned i = 0; i < 8; i++)
        luajit_compiler_note(of, image->pointers[hash_combine(seed, i) % DAMAGE_POINTERS]);
    (void)luajit_compiler_poll(of, &c->input.memory);
    (void)luajit_compiler_read(of, &c->input.memory, NULL);
    (void)luajit_compiler_read(of, &c->input.memory, NULL);
    const struct luajit_fact *f = luajit_compiler_facts(of, &nr);
    if (nr != luajit_compiler_state(of)->nr_facts)
        abort();
    for (size_t i = 0; i < nr; i++) {
        if ((!f[i].proto && f[i].kind != LUAJIT_FACT_TRACE) || f[i].kind < LUAJIT_FACT_TRACE ||
            f[i].kind > LUAJIT_FACT_ABORT ||
            (f[i].kind == LUAJIT_FACT_TRACE && f[i].what >= LUAJIT_NR_ENDS))
            abort();
        if (f[i].other_proto)
            (void)luajit_called(&c->input.memory, image->vms.at[0].layout, f[i].other_proto,
                                f[i].other_position, name, sizeof(name));
    }
    luajit_compiler_free(of);
}

/* Makes all queries about one C call, which few walks get to. Returns a hash of the answers. */
static uint64_t ask_of_call(struct luajit_reader *r, const struct luajit_trace *t,
                            const struct image *image, uint64_t h)
{
    uint64_t own = image->blob.address, place = image->returns[h % PLACES] - t->mcode;
    uint32_t snapshots[CALL_SNAPSHOTS] = {0}, nr = t->nins > t->nk ? t->nins - t->nk : 1;
    uint32_t offset = place < t->szmcode ? (uint32_t)place : (uint32_t)(h >> 40) % 4096;
    struct luajit_constant k = {0};
    struct luajit_call call = {.is_first = h >> 8 & 1, .before = (uint32_t)(h >> 16) % 16};
    call.behind = call.before + 1 + (h >> 9 & 7 ? 0 : (uint32_t)(h >> 48) % 8);
    (void)luajit_trace_constant(r, t, t->nk + (uint32_t)(h >> 24) % nr, &k);
    call.target = h >> 12 & 3 ? k.value : image->pointers[(h >> 32) % DAMAGE_POINTERS];
    if (k.object && h >> 14 & 1)
        call.from = *luajit_function_read(r, k.value);
    if (!call.from.lua) {
        call.from = (struct luajit_function){.proto = t->startpt};
        call.from.lua = luajit_code_read(r, t->startpt, &call.from.code, &call.from.sizebc);
    }
    uint64_t sum = luajit_caller_is_proven(r, t, &call);
    sum = hash_combine(sum, luajit_trace_names(r, t, call.target));
    sum = hash_combine(sum, luajit_call_by_ffi(r, t, offset));
    sum = hash_combine(sum, luajit_call_snapshots(r, t, offset, call.before, own, snapshots));
    sum = hash_combine(sum, snapshots[0] + snapshots[1]);
    sum = hash_combine(sum, luajit_call_is_first(r, t, offset, own));
    sum = hash_combine(sum, luajit_trace_knows_others(r, t, &call.from.proto, 1));
    return hash_combine(sum, luajit_call_pc(r, &call.from, call.from.code + (h >> 20) % 256));
}

/* Makes the queries twice over the same memory: the answers must be equal. */
static void ask_of_calls(const struct context *c, const struct image *image, uint64_t seed)
{
    enum { ASKED = 8 };
    static struct luajit_reader readers[2];
    for (unsigned i = 0; i < ASKED; i++) {
        uint64_t sums[2] = {0}, h = hash_combine(seed, i);
        for (unsigned k = 0; k < 2; k++) {
            struct luajit_trace t;
            luajit_reader_begin(&readers[k], &c->input.memory);
            luajit_reader_use(&readers[k], image->vms.at[0].layout);
            if (luajit_trace_read(&readers[k], image->vms.at[0].g, 1 + i, &t))
                sums[k] = ask_of_call(&readers[k], &t, image, h);
        }
        if (sums[0] != sums[1])
            abort();
    }
}

static int list_variables(void *context, const struct memory *m, const struct variable_place *at,
                          struct variables *ret)
{
    (void)context;
    return luajit_variables(m, at, ret);
}

static void read_variables(struct unwinder *u, const struct luajit_process *process)
{
    static struct variable_places places;
    struct luajit_process noting = *process;
    noting.places = &places;
    const struct walker walker = luajit_walker(&noting);
    for (unsigned i = 0; i < CONTEXTS; i += 8) {
        struct unwind_input input = contexts[i].input;
        input.walker = &walker;
        fuzz_variables(u, &input, &places, list_variables, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct unwinder *u;
    static struct unwind_stack stacks[CONTEXTS];
    struct unwind_input inputs[CONTEXTS];
    if (nr_images == 0 || size < 4)
        return 0;
    if (!u)
        u = unwinder_create(NULL);
    const struct image *image = &images[data[0] % nr_images];
    const struct luajit_process process = {.vms = image->vms.at,
                                           .nr_vms = data[3] & HOW_VMS ? image->vms.nr : 0,
                                           .blobs = &image->blob,
                                           .nr_blobs = 1,
                                           .namer = {name, NULL}};
    const struct walker walker = luajit_walker(&process);
    uint64_t seed = hash_bytes(data, size);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        make_context(&contexts[i], image, data, size, hash_combine(seed, i), &walker);
        inputs[i] = contexts[i].input;
    }
    damage_walk(u, inputs, stacks, CONTEXTS, 4, true);
    list_traces(&contexts[0], image);
    read_compiler(&contexts[1], image, seed);
    read_variables(u, &process);
    for (unsigned i = 0; i < CONTEXTS; i += 4)
        ask_of_calls(&contexts[i], image, hash_combine(seed, CONTEXTS + i));
    return 0;
}
