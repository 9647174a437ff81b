/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks over damaged memory of real processes of plain Lua: the input decides which words are
 * replaced (by other pointers, neighbours, zeros, noise), and which registers. Every walk must end
 * within its bounds, also in reads, and must give the same in a batch. Names of functions and
 * variables of frames are read, too. The images are the version matrix beside the repository;
 * without it, or without the tools to unpack it, the target does nothing.
 *
 * An input is: image, thread and flags, rate of the damage, what is damaged; then triples of a
 * register and its change.
 */
#include "tests/fuzz/damage.h"
#include "tests/fuzz/variables.h"
#include "unwind/arch_x86_64.h"
#include "unwind/lua/runtime.h"
#include "unwind/managed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    IMAGES_MAX = 44,
    CONTEXTS = 64,
    OF_A_MEMORY = 32, /* contexts with the same damage, but other registers */
    MAX_FRAMES = 300,
    INPUTS_A_NAMER = 64,
    /* Reads of one walk over memory that holds no more than a few hundred calls. */
    READS_MAX = 3 << 20,
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    struct core_process process;
    const struct runtime_instance *lua;
    uint64_t pointers[DAMAGE_POINTERS];
};

static struct image images[IMAGES_MAX];
static unsigned nr_images;
static uint64_t nr_contexts, nr_lua_frames, reads_max;

/* ---- images -------------------------------------------------------------------------------- */

/* Notes words of the native stack and of the heap: return addresses, states, calls, closures. */
static void note_pointers(struct image *image)
{
    const struct core *c = image->process.core;
    struct memory memory = {.layers = image->process.layers, .nr_layers = 2};
    enum provenance ignored = PROVENANCE_EXACT;
    for (unsigned i = 0; i < DAMAGE_POINTERS; i++) {
        uint64_t sp = core_thread(c, 0)->registers.value[DWARF_RSP], word = 0;
        const struct core_mapping *m = core_mapping(c, hash_u64(i) % core_nr_mappings(c));
        uint64_t at =
            i % 2 ? sp + 8 * (uint64_t)i : m->start + hash_u64(i) % (m->end - m->start) / 8 * 8;
        if (!memory_read_u64(&memory, at, &word, &ignored) || !word)
            word = at;
        image->pointers[i] = word;
    }
}

static void add_image(const char *root, const char *path)
{
    struct image *image = &images[nr_images];
    char to_lua[512], to_lib[512], to_usr[512];
    const struct path_replacement replace[] = {
        {"/opt/lt", to_lua}, {"/usr", to_usr}, {"/lib", to_lib}};
    const struct core_process_options options = {.replace = replace, .nr_replace = 3};
    snprintf(to_lua, sizeof(to_lua), "%s/opt/lt", root);
    snprintf(to_usr, sizeof(to_usr), "%s/usr", root);
    snprintf(to_lib, sizeof(to_lib), "%s/usr/lib", root);
    if (nr_images == IMAGES_MAX || core_process_open(path, &options, &image->process, NULL))
        return;
    size_t nr;
    image->lua = session_runtime(&image->process.thread, &lua_runtime, &nr);
    if (nr == 0 || core_nr_threads(image->process.core) == 0) {
        core_process_free(&image->process);
        return;
    }
    note_pointers(image);
    nr_images++;
}

static bool run(const char *format, const char *a, const char *b)
{
    char command[1024];
    int size = snprintf(command, sizeof(command), format, a, b);
    return size > 0 && (size_t)size < sizeof(command) && system(command) == 0;
}

static void say_contexts(void)
{
    fprintf(stderr,
            "fuzz_lua: %" PRIu64 " contexts of %u images, %" PRIu64 " Lua frames, at most %" PRIu64
            " reads in a walk\n",
            nr_contexts, nr_images, nr_lua_frames, reads_max);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char unpack_lib[] =
        "D='%s'; cd ../shared/testdata/lua 2>/dev/null && mkdir -p $D/opt/lt $D/usr/lib && "
        "tar --zstd --sparse -xf lib.tar.zst -C $D && mv $D/lib $D/usr/lib/x86_64-linux-gnu && "
        "cp $D/usr/lib/x86_64-linux-gnu/ld-linux* $D/usr/lib/%s";
    static const char unpack_builds[] =
        "cd ../shared/testdata/lua && for f in [0-9]*.tar.zst deb*.tar.zst; do "
        "tar --zstd --sparse -xf $f -C '%s/opt/lt' %s|| exit 1; done";
    static const char list[] = "ls %s/opt/lt/*/*[1357].core | sort -t. -k4 >%s/list";
    char root[] = "/tmp/fuzz_lua.XXXXXX", path[512];
    (void)argc, (void)argv;
    if (!mkdtemp(root))
        return 0;
    atexit(say_contexts);
    snprintf(path, sizeof(path), "%s/list", root);
    FILE *f = run(unpack_lib, root, "") && run(unpack_builds, root, "") && run(list, root, root)
                  ? fopen(path, "r")
                  : NULL;
    while (f && fgets(path, sizeof(path), f)) {
        path[strcspn(path, "\n")] = 0;
        add_image(root, path);
    }
    if (f)
        fclose(f);
    if (!run("rm -rf '%s'%s", root, "") || nr_images == 0)
        fprintf(stderr, "fuzz_lua: no images\n");
    return 0;
}

/* ---- one input ----------------------------------------------------------------------------- */

/* Tables are kept for some inputs, then made anew: damaged names are without number. */
static void *tables_get(void)
{
    static struct managed_names *managed;
    static void *tables;
    static unsigned nr;
    if (tables && nr++ % INPUTS_A_NAMER)
        return tables;
    lua_runtime.tables_free(tables);
    managed_names_free(managed);
    managed = managed_names_create();
    return tables = managed ? lua_runtime.tables_create(managed, false) : NULL;
}

struct context {
    const struct image *image;
    struct damage damage;
    struct memory_layer layer;
    uint64_t reads;
    struct runtime_sample sample;
    struct walker walker;
    void *walk; /* of lua_runtime.walk_size bytes */
    struct unwind_input input;
};

static struct context contexts[CONTEXTS];

static bool read_counted(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    struct context *c = context;
    if (++c->reads > READS_MAX)
        abort();
    return damage_read(&c->damage, q, to, answer);
}

static const struct runtime_instance *instances(void *context, const struct runtime *rt, size_t *nr)
{
    const struct context *c = context;
    *nr = rt == &lua_runtime;
    return *nr ? c->image->lua : NULL;
}

static uint64_t damaged_register(const struct context *c, const uint8_t *data, uint64_t value,
                                 uint64_t h)
{
    const struct lua_layout *l = c->image->lua->layout;
    const struct lua_range *part = &l->parts[h % l->nr_parts];
    if (data[0] & 0x80)
        return c->image->pointers[(data[1] | data[2] << 8) % DAMAGE_POINTERS];
    if (data[0] & 0x40)
        return value + (uint64_t)(int64_t)((int8_t)data[1] * 8);
    if (data[0] & 0x20)
        return c->image->lua->bias + part->start + (h >> 8) % (part->end - part->start);
    return h;
}

static void make_context(unsigned number, const struct image *image, const uint8_t *data,
                         size_t size, uint64_t seed, void *tables)
{
    struct context *c = &contexts[number];
    const struct core_thread *thread = core_thread(image->process.core, 0);
    c->image = image;
    c->damage = (struct damage){&image->process, image->pointers,
                                hash_combine(seed, number / OF_A_MEMORY), data[2] % 13};
    c->layer = (struct memory_layer){.read = read_counted, .context = c};
    c->reads = 0;
    /* Memory of one process at one time does not change: each memory is a process of its own. */
    c->sample = (struct runtime_sample){.pid = (uint32_t)(nr_contexts + number) / OF_A_MEMORY + 1,
                                        .batch = nr_contexts / CONTEXTS,
                                        .instances = instances,
                                        .context = c};
    if (!c->walk)
        c->walk = calloc(1, lua_runtime.walk_size);
    if (!c->walk)
        abort();
    lua_runtime.walk_begin(c->walk, tables, &c->sample, &c->walker);
    c->input = (struct unwind_input){.registers = thread->registers,
                                     .memory = {.layers = &c->layer, .nr_layers = 1},
                                     .code = image->process.code,
                                     .max_frames = MAX_FRAMES,
                                     .walker = &c->walker};
    for (size_t at = 4; at + 3 <= size; at += 3) {
        const uint8_t change[] = {data[at], (uint8_t)(data[at + 1] + number), data[at + 2]};
        uint64_t *value = &c->input.registers.value[(data[at] + number / 4) % DWARF_NR];
        *value = damaged_register(c, change, *value, hash_combine(hash_combine(seed, number), at));
    }
}

static int list_variables(void *context, const struct memory *m, const struct variable_place *at,
                          struct variables *ret)
{
    struct context *c = context;
    c->reads = 0;
    return lua_runtime.variables(c->walk, m, at, ret);
}

/* Walks once more alone with places noted, and reads the variables of all frames. */
static void read_variables(struct unwinder *u, struct context *c, void *tables)
{
    static struct variable_places places;
    c->sample.places = &places;
    lua_runtime.walk_begin(c->walk, tables, &c->sample, &c->walker);
    fuzz_variables(u, &c->input, &places, list_variables, c);
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
    void *tables = tables_get();
    uint64_t seed = hash_bytes(data, size);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        make_context(i, image, data, size, seed, tables);
        inputs[i] = contexts[i].input;
    }
    damage_walk(u, inputs, stacks, CONTEXTS, 8, false);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].reads > reads_max)
            reads_max = contexts[i].reads;
        vec_foreach (f, &stacks[i].frames)
            nr_lua_frames += f->kind == FRAME_LUA;
    }
    if (data[3] & 1)
        read_variables(u, &contexts[0], tables);
    nr_contexts += CONTEXTS;
    return 0;
}
