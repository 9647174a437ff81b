/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The census of heaps in damaged memory of real LuaJIT, Lua and Node.js processes: the input
 * decides which words are replaced (damage.h). Every census must end within its bounds, whatever it
 * finds: the objects are listed, summed up, described, and the ways to them are told. The images
 * are those beside the repository, and a core that is made of the node that is installed; without
 * them the target does nothing.
 *
 * An input is: image, rate and seed of the damage.
 */
#include "census/census.h"
#include "tests/fuzz/damage.h"
#include "unwind/lua/runtime.h"
#include "unwind/luajit/runtime.h"

#include <inttypes.h>

enum { IMAGES_MAX = 32, VMS_MAX = 4, PATHS = 64 };
/* Reads for each byte of the process's memory: a whole census needs fewer than one. */
enum { READS_A_BYTE = 32 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    struct core_process process;
    struct session_vms vms;
    runtime_vm_list found;
    uint64_t size; /* bytes of writable memory */
    uint64_t pointers[DAMAGE_POINTERS];
};

static struct image images[IMAGES_MAX];
static unsigned nr_images;
static uint64_t nr_objects, nr_censuses, reads_max;

/* ---- images -------------------------------------------------------------------------------- */

static void note_pointers(struct image *image)
{
    const struct memory memory = {.layers = image->process.layers, .nr_layers = 2};
    enum provenance ignored = PROVENANCE_EXACT;
    for (unsigned i = 0; i < DAMAGE_POINTERS; i++) {
        const struct memory_range *r =
            &image->vms.writable.at[hash_u64(i) % image->vms.writable.nr];
        uint64_t word = 0, at = r->start + hash_u64(i) % (r->end - r->start) / 8 * 8;
        if (!memory_read_u64(&memory, at, &word, &ignored) || !word)
            word = at;
        image->pointers[i] = word;
    }
}

static void add_image(const char *folder, const char *path)
{
    struct image *image = &images[nr_images];
    char to_lua[512], to_luajit[512], to_lib[512];
    const struct path_replacement replace[] = {{"/opt/lt", to_lua},
                                               {"/opt/ljt", to_luajit},
                                               {"/usr/lib/x86_64-linux-gnu", to_lib},
                                               {"/usr/bin", to_lua}};
    const struct core_process_options options = {.replace = replace, .nr_replace = 3};
    snprintf(to_lua, sizeof(to_lua), "%s/lua", folder);
    snprintf(to_luajit, sizeof(to_luajit), "%s/luajit", folder);
    snprintf(to_lib, sizeof(to_lib), "%s/lib", folder);
    if (nr_images == IMAGES_MAX || core_process_open(path, &options, &image->process, NULL))
        return;
    const struct memory memory = {.layers = image->process.layers, .nr_layers = 2};
    if (session_vms_find(&image->process.thread, &memory, &image->vms, NULL) ||
        session_vms_census(&memory, &image->vms, &image->found, NULL) || !image->found.nr) {
        session_vms_free(&image->vms);
        core_process_free(&image->process);
        return;
    }
    vec_foreach (r, &image->vms.writable)
        image->size += r->end - r->start;
    note_pointers(image);
    nr_images++;
}

/* Make a core of a node process, and add it. */
static void add_node(const char *folder)
{
    static const char make[] =
        "D='%s'; cd tests/truth && command -v node >$D/which && "
        "{ node v8_app.js stop >$D/out 2>&1 & p=$!; "
        "for t in $(seq 100); do grep -q ready $D/out && break; sleep 0.1; done; "
        "gcore -o $D/node $p >$D/gcore 2>&1; kill -9 $p; mv $D/node.$p $D/node; }";
    char command[sizeof(make) + 64], path[64];
    snprintf(command, sizeof(command), make, folder);
    snprintf(path, sizeof(path), "%s/node", folder);
    if (system(command) == 0)
        add_image(folder, path);
    else
        fprintf(stderr, "fuzz_heap: no image of node\n");
}

static void say_counts(void)
{
    fprintf(stderr,
            "fuzz_heap: %" PRIu64 " censuses of %u images, %" PRIu64
            " objects, at most %.2f reads for each byte of memory\n",
            nr_censuses, nr_images, nr_objects, (double)reads_max / 100);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char unpack[] =
        "D='%s'; mkdir -p $D/lua $D/luajit && cd ../shared/testdata 2>/dev/null && "
        "tar --zstd --sparse -xf lua/lib.tar.zst -C $D && "
        "for f in lua/[0-9]*.tar.zst; do tar --zstd --sparse -xf $f -C $D/lua || exit 1; done && "
        "for f in luajit/2.0.5 luajit/2.1b3 luajit/2.1-2308 luajit/2.1-2608-nogc64; do "
        "tar --zstd --sparse -xf $f.tar.zst -C $D/luajit || exit 1; done; "
        "ls $D/lua/*/*.[28].core $D/luajit/*/interp.1.core $D/luajit/*/mixed.[25].core >$D/list";
    char folder[] = "/tmp/fuzz_heap.XXXXXX", command[2048], path[512];
    (void)argc, (void)argv;
    if (!mkdtemp(folder))
        return 0;
    atexit(say_counts);
    snprintf(command, sizeof(command), unpack, folder);
    snprintf(path, sizeof(path), "%s/list", folder);
    FILE *f = system(command) == 0 ? fopen(path, "r") : NULL;
    while (f && fgets(path, sizeof(path), f)) {
        path[strcspn(path, "\n")] = 0;
        add_image(folder, path);
    }
    if (f)
        fclose(f);
    add_node(folder);
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0 || nr_images == 0)
        fprintf(stderr, "fuzz_heap: no images\n");
    return 0;
}

/* ---- one input ----------------------------------------------------------------------------- */

struct counted {
    struct damage damage;
    uint64_t reads, most;
};

static bool read_counted(void *context, const struct memory_query *q, void *to,
                         struct memory_answer *answer)
{
    struct counted *c = context;
    if (++c->reads > c->most)
        abort();
    return damage_read(&c->damage, q, to, answer);
}

static void count_vm(const struct image *image, const struct runtime_vm *vm,
                     struct counted *counted)
{
    const struct memory_layer layer = {.read = read_counted, .context = counted};
    const struct memory m = {.layers = &layer, .nr_layers = 1};
    const struct census_heap *heap = vm->instance->runtime->census;
    struct census c = {0};
    struct text out = {0};
    void *of;
    const struct runtime_memory all = session_vms_memory(&image->vms, &m);
    if (heap->begin(&all, vm, &of, NULL))
        return;
    struct error err = {0};
    (void)census_take(&c, heap, of, image->size, &err);
    if (c.all.bytes > image->size)
        abort();
    (void)census_reach(&c, &err);
    (void)census_group(&c, &err);
    for (uint32_t i = 0; i < c.objects.nr && i < PATHS; i++) {
        out.size = 0;
        census_path(&c, (uint32_t)(hash_u64(i) % c.objects.nr), &out);
    }
    nr_objects += c.objects.nr;
    nr_censuses++;
    text_free(&out);
    census_free(&c);
    heap->end(of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { RATES = 16 };
    if (size < 6 || !nr_images)
        return 0;
    const struct image *image = &images[data[0] % nr_images];
    uint32_t seed;
    memcpy(&seed, data + 2, sizeof(seed));
    struct counted counted = {
        .damage = {&image->process, image->pointers, hash_u64(seed), data[1] % RATES},
        .most = image->size * READS_A_BYTE};
    for (size_t i = 0; i < image->found.nr && i < VMS_MAX; i++)
        count_vm(image, &image->found.at[i], &counted);
    if (counted.reads * 100 / image->size > reads_max)
        reads_max = counted.reads * 100 / image->size;
    return 0;
}
