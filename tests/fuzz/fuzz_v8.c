/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks over damaged memory of real node processes: the input decides which words are replaced (by
 * other pointers, neighbours, zeros, noise), and which registers. Every walk must end, and give the
 * same in a batch. The processes run tests/truth/v8_app.js in several tiers, with the node in the
 * path or those that FUZZ_NODES names. Without node or gcore the target does nothing. FUZZ_CORES
 * names a folder in which the cores are kept from run to run.
 *
 * An input is: image, thread, rate of the damage, whether objects were recorded, and at which
 * moments; then triples of a register and its change.
 */
#include "tests/fuzz/damage.h"
#include "tests/fuzz/variables.h"
#include "unwind/arch_x86_64.h"
#include "unwind/v8/compiler.h"
#include "unwind/v8/names.h"
#include "unwind/v8/variables.h"
#include "unwind/v8/walk.h"
#include "unwind/v8/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { IMAGES_MAX = 32, CONTEXTS = 64, MAX_FRAMES = 300 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    struct core_process process;
    const struct v8_layout *layout;
    uint64_t pointers[DAMAGE_POINTERS]; /* pointers found in its stack and heap */
};

static struct image images[IMAGES_MAX];
static unsigned nr_images;

/* ---- images -------------------------------------------------------------------------------- */

/* Notes words of the stacks (return addresses, functions, bytecode) and of the heap. */
static void note_pointers(struct image *image)
{
    const struct core *c = image->process.core;
    struct memory memory = {.layers = image->process.layers, .nr_layers = 2};
    enum provenance ignored = PROVENANCE_EXACT;
    for (unsigned i = 0; i < DAMAGE_POINTERS; i++) {
        uint64_t sp = core_thread(c, 0)->registers.value[DWARF_RSP], word = 0;
        const struct core_mapping *m = core_mapping(c, hash_u64(i) % core_nr_mappings(c));
        uint64_t at =
            i % 4 ? sp + 8 * (i * 3) : m->start + hash_u64(i) % (m->end - m->start) / 8 * 8;
        if (!memory_read_u64(&memory, at, &word, &ignored) || !word)
            word = at;
        image->pointers[i] = word;
    }
}

static void add_image(const char *path)
{
    struct image *image = &images[nr_images];
    const struct core_process_options options = {0};
    if (nr_images == IMAGES_MAX || core_process_open(path, &options, &image->process, NULL))
        return;
    size_t nr;
    const struct runtime_instance *v8 = session_runtime(&image->process.thread, &v8_runtime, &nr);
    image->layout = nr ? v8->layout : NULL;
    if (!image->layout || core_nr_threads(image->process.core) == 0) {
        core_process_free(&image->process);
        return;
    }
    note_pointers(image);
    nr_images++;
}

/* Makes cores of node processes: core1, core2 and so on in the folder. */
static void make_cores(const char *folder)
{
    static const char make[] =
        "for n in ${FUZZ_NODES:-node}; do "
        "for a in 'v8_app.js stop' '--always-sparkplug v8_app.js stop' 'v8_app.js stop hot'; do "
        "i=$((i+1)); $n $a >$D/out 2>&1 & p=$!; "
        "for t in $(seq 300); do grep -q ready $D/out && break; sleep 0.1; done; "
        "gcore -o $D/core$i $p >/dev/null 2>&1; kill -9 $p; mv $D/core$i.$p $D/core$i; done; done";
    char command[sizeof(make) + 512];
    int size =
        snprintf(command, sizeof(command), "D='%s'; cd tests/truth && { %s; }", folder, make);
    if (size < 0 || (size_t)size >= sizeof(command) || system(command) != 0)
        fprintf(stderr, "fuzz_v8: cores could not be made\n");
}

static void add_images(const char *folder)
{
    char path[512];
    for (unsigned i = 1; i <= IMAGES_MAX; i++) {
        snprintf(path, sizeof(path), "%s/core%u", folder, i);
        add_image(path);
    }
}

static uint64_t nr_contexts;

static void say_contexts(void)
{
    fprintf(stderr, "fuzz_v8: %" PRIu64 " contexts of %u images\n", nr_contexts, nr_images);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char folder[] = "/tmp/fuzz_v8.XXXXXX", command[64];
    const char *kept = getenv("FUZZ_CORES");
    (void)argc, (void)argv;
    atexit(say_contexts);
    if (kept) {
        add_images(kept);
        if (nr_images == 0) {
            make_cores(kept);
            add_images(kept);
        }
        return 0;
    }
    if (!mkdtemp(folder))
        return 0;
    make_cores(folder);
    add_images(folder);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "fuzz_v8: %s remains\n", folder);
    return 0;
}

/* ---- one input ----------------------------------------------------------------------------- */

struct namer {
    struct managed_names *managed;
    struct v8_names *names;
    struct v8_compiler *compiler; /* of this input's image */
    uint64_t space;
};

static bool name(void *context, struct v8_reader *r, const struct v8_sfi *sfi, int32_t offset,
                 struct frame *ret)
{
    const struct namer *n = context;
    struct v8_named named;
    if (v8_names_function(n->names, r, n->space, 0, sfi, offset, &named))
        return false;
    ret->function = named.function;
    return true;
}

static bool name_wasm(void *context, struct v8_reader *r, const struct v8_wasm *w,
                      struct frame *ret)
{
    const struct namer *n = context;
    struct v8_named named;
    if (v8_names_wasm(n->names, r, n->space, 0, w, &named))
        return false;
    ret->function = named.function;
    return true;
}

static bool name_own(void *context, const char *name, struct frame *ret)
{
    const struct namer *n = context;
    ret->function = v8_names_own(n->names, name);
    return ret->function != 0;
}

/* What the compilers did, as a recorder notes it. Code is taken to have left at the pc, too. */
static void note_optimized(void *context, struct v8_reader *r, const struct v8_code *code,
                           uint64_t exit, bool lazy)
{
    const struct namer *n = context;
    const uint64_t pc = code->start + hash_u64(code->code) % (code->size + 1);
    (void)v8_compiler_note_code(n->compiler, r, code, exit ? exit : pc, lazy, 1);
}

static void note_resumed(void *context, struct v8_reader *r, const struct v8_sfi *sfi,
                         int32_t offset)
{
    const struct namer *n = context;
    v8_compiler_note_function(n->compiler, r, sfi);
    v8_compiler_note_resumed(n->compiler, r, sfi, offset, 1);
}

/* Look at everything that was noted again, in the same damaged memory. */
static void look_again(struct v8_compiler *c, const struct memory *m)
{
    size_t nr;
    for (size_t left = v8_compiler_rounds(c); left--;)
        v8_compiler_read(c, m, 2, true);
    const struct v8_fact *facts = v8_compiler_news(c, &nr);
    for (size_t i = 0; i < nr; i++) {
        (void)v8_deopt_text(facts[i].reason);
        (void)v8_disabled_text(facts[i].reason);
    }
    v8_compiler_free(c);
}

/* Keeps names for some inputs, then starts anew: damaged names are without number, and sources are
 * long. */
static struct namer *namer_get(void)
{
    enum { INPUTS = 256 };
    static struct namer n;
    static unsigned nr;
    if (n.names && nr++ % INPUTS)
        return &n;
    v8_names_free(n.names);
    managed_names_free(n.managed);
    n.managed = managed_names_create();
    n.names = v8_names_create(n.managed);
    n.space = 1;
    return &n;
}

struct context {
    /* `other`: what was read of the same memory before and after */
    struct damage damage, other;
    struct memory_layer layer;
    struct unwind_input input;
};

/* Memory of which some pages were read at other moments only. */
static bool read_sided(void *context, const struct memory_query *q, void *to,
                       struct memory_answer *answer)
{
    enum { PAGE = 4096, ONE_OF = 8 };
    struct context *c = context;
    bool aside = q->moment != MEMORY_NEAREST;
    struct damage *d = aside ? &c->other : &c->damage;
    if (!damage_read(d, q, to, answer))
        return false;
    bool doubtful = hash_u64(q->address / PAGE) % ONE_OF == 0 && !aside && !q->alive;
    answer->provenance = doubtful ? PROVENANCE_STALE : PROVENANCE_EXACT;
    return true;
}

static uint64_t damaged_register(const struct image *image, const uint8_t *data, uint64_t value,
                                 uint64_t h)
{
    if (data[0] & 0x80)
        return image->pointers[(data[1] | data[2] << 8) % DAMAGE_POINTERS];
    if (data[0] & 0x40)
        return value + (uint64_t)(int64_t)((int8_t)data[1] * 8);
    if (data[0] & 0x20)
        return image->layout->blob + h % image->layout->blob_size;
    return h;
}

static void make_context(struct context *c, const struct image *image, const uint8_t *data,
                         size_t size, uint64_t seed, const struct walker *walker)
{
    size_t nr_threads = core_nr_threads(image->process.core);
    const struct core_thread *thread =
        core_thread(image->process.core, data[1] & 7 ? 0 : (data[1] >> 3) % nr_threads);
    c->damage = (struct damage){&image->process, image->pointers, seed, data[2] % 12};
    c->other = c->damage;
    if (data[3] & 0x20)
        c->other.seed = hash_u64(seed);
    c->layer =
        (struct memory_layer){.read = read_sided, .context = c, .has_moments = data[3] & 0x10};
    c->input = (struct unwind_input){.registers = thread->registers,
                                     .memory = {.layers = &c->layer, .nr_layers = 1},
                                     .code = image->process.code,
                                     .max_frames = MAX_FRAMES,
                                     .walker = walker};
    for (size_t at = 4; at + 3 <= size; at += 3) {
        uint64_t *value = &c->input.registers.value[data[at] % DWARF_NR];
        *value = damaged_register(image, data + at, *value, hash_combine(seed, at));
    }
}

static int list_variables(void *context, const struct memory *m, const struct variable_place *at,
                          struct variables *ret)
{
    const struct namer *n = context;
    return v8_variables(n->names, n->space, 0, m, at, ret);
}

static void read_variables(struct unwinder *u, const struct context *contexts,
                           const struct v8_process *process, struct namer *namer)
{
    static struct variable_places places;
    struct v8_process noting = *process;
    noting.places = &places;
    const struct walker walker = v8_walker(&noting);
    for (unsigned i = 0; i < CONTEXTS; i += 8) {
        struct unwind_input input = contexts[i].input;
        input.walker = &walker;
        fuzz_variables(u, &input, &places, list_variables, namer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct unwinder *u;
    static struct unwind_stack stacks[CONTEXTS];
    static struct context contexts[CONTEXTS];
    static struct unwind_input inputs[CONTEXTS];
    if (nr_images == 0 || size < 4)
        return 0;
    if (!u)
        u = unwinder_create(NULL);
    const struct image *image = &images[data[0] % nr_images];
    struct namer *namer = namer_get();
    namer->compiler = v8_compiler_create(image->layout);
    if (!namer->compiler)
        return 0;
    const struct v8_process process = {.layout = image->layout,
                                       .namer = {.name = name,
                                                 .wasm = name_wasm,
                                                 .own = name_own,
                                                 .optimized = note_optimized,
                                                 .resumed = note_resumed,
                                                 .context = namer},
                                       .no_objects = (data[3] & 7) == 0,
                                       .reads_all_ways = data[3] & 8,
                                       .awaits = data[3] & 16,
                                       .space = namer->space};
    const struct walker walker = v8_walker(&process);
    uint64_t seed = hash_bytes(data, size);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        make_context(&contexts[i], image, data, size, hash_combine(seed, i), &walker);
        inputs[i] = contexts[i].input;
    }
    damage_walk(u, inputs, stacks, CONTEXTS, 16, false);
    read_variables(u, contexts, &process, namer);
    look_again(namer->compiler, &contexts[0].input.memory);
    nr_contexts += CONTEXTS;
    return 0;
}
