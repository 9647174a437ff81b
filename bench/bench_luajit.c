/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cost of a Lua frame: stacks of LuaJIT process images are walked over and over, with and without
 * the LuaJIT walker: everything is resident, nothing kept from walk to walk. The difference, over
 * the Lua frames that came out, is what one of them costs with its share of what each stack costs
 * once (the lua_State, the VM, where the innermost frame begins); what one more costs is the slope
 * of the line through all stacks' costs.
 *
 * usage: bench_luajit IMAGES BUILD... (unpacked archives of ../shared/testdata/luajit)
 */
#include "session/core_process.h"
#include "unwind/luajit/walk.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WALKS = 2000, MAX_FRAMES = 512, RUNS = 5 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct sums {
    double ns; /* one pass over all images, the fastest of RUNS each */
    uint64_t lua, native, stacks;
};

/* Of stacks: x is how many Lua frames, y what they cost. */
struct line {
    double n, x, y, xx, xy;
};

static void line_add(struct line *l, double x, double y)
{
    l->n++;
    l->x += x;
    l->y += y;
    l->xx += x * x;
    l->xy += x * y;
}

/* NAN: all have equally many frames. */
static double line_slope(const struct line *l)
{
    double spread = l->n * l->xx - l->x * l->x;
    return spread > 0 ? (l->n * l->xy - l->x * l->y) / spread : NAN;
}

static int is_core(const struct dirent *d)
{
    return strstr(d->d_name, ".core") != NULL;
}

static void measure(struct unwinder *u, const struct unwind_input *in, struct sums *sums)
{
    struct unwind_stack out = {0};
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        for (int i = 0; i < WALKS / RUNS; i++) {
            out.frames.nr = 0;
            if (unwind(u, in, &out, NULL))
                exit(1);
        }
        double ns = (now() - start) / (WALKS / RUNS);
        best = run == 0 || ns < best ? ns : best;
    }
    sums->ns += best;
    sums->stacks++;
    vec_foreach (f, &out.frames) {
        if (f->kind == FRAME_LUA)
            sums->lua++;
        else
            sums->native++;
    }
    vec_free(&out.frames);
}

/* The thread's stack from its pointer up, as a sample has it. To be freed. */
static uint8_t *copy_stack(const struct core_process *p, struct unwind_input *in)
{
    uint64_t sp = in->registers.value[DWARF_RSP];
    enum provenance ignored = PROVENANCE_EXACT;
    for (size_t i = 0; i < core_nr_mappings(p->core); i++) {
        const struct core_mapping *map = core_mapping(p->core, i);
        if (sp < map->start || sp >= map->end)
            continue;
        uint8_t *copy = malloc(map->end - sp);
        if (!copy || !memory_read(&in->memory, sp, copy, map->end - sp, &ignored)) {
            free(copy);
            return NULL;
        }
        in->memory.stack = copy;
        in->memory.stack_start = sp;
        in->memory.stack_size = map->end - sp;
        return copy;
    }
    return NULL;
}

static void bench_image(const char *path, const struct core_process_options *options,
                        struct sums *with, struct sums *without, struct line *line)
{
    struct core_process p;
    struct luajit_blob blob = {0};
    luajit_vm_list vms = {0};
    if (core_process_open(path, options, &p, NULL))
        return;
    struct memory m = {.layers = p.layers, .nr_layers = 2};
    for (size_t i = 0; i < core_nr_mappings(p.core); i++) {
        const struct core_mapping *map = core_mapping(p.core, i);
        struct code code;
        if (map->file && codemap_lookup(&p.code, map->start, 0, &code) && cfi_luajit(code.cfi))
            blob =
                (struct luajit_blob){cfi_luajit(code.cfi), cfi_luajit(code.cfi)->blob + code.bias};
    }
    for (size_t i = 0; i < core_nr_mappings(p.core) && blob.layout; i++) {
        const struct core_mapping *map = core_mapping(p.core, i);
        const struct memory_range range = {map->start, map->end};
        if (!map->file)
            luajit_vms_find(&m, &range, 1, &blob, 1, &vms, NULL);
    }
    struct luajit_process process = {
        .vms = vms.at, .nr_vms = vms.nr, .blobs = &blob, .nr_blobs = blob.layout != NULL};
    struct walker walker = luajit_walker(&process);
    struct unwinder *u = unwinder_create(NULL);
    struct unwind_input in = core_process_input(&p, core_thread(p.core, 0));
    uint8_t *stack = copy_stack(&p, &in);
    in.max_frames = MAX_FRAMES;
    if (u && blob.layout) {
        const struct sums before[2] = {*with, *without};
        measure(u, &in, without);
        in.walker = &walker;
        measure(u, &in, with);
        uint64_t native = with->native - before[0].native, all = without->native - before[1].native;
        double rest = (without->ns - before[1].ns) * (double)native / (double)(all + 1);
        line_add(line, (double)(with->lua - before[0].lua), with->ns - before[0].ns - rest);
    }
    free(stack);
    unwinder_free(u);
    vec_free(&vms);
    core_process_free(&p);
}

static void bench_build(const char *images, const char *build)
{
    char folder[2048], to[2048], lib[2048];
    struct dirent **list;
    static const char *const kinds[] = {"interp", "jit", "mixed.", "mixedoff"};
    snprintf(folder, sizeof(folder), "%s/%s", images, build);
    snprintf(to, sizeof(to), "%s/", images);
    snprintf(lib, sizeof(lib), "%s/lib/", images);
    const struct path_replacement replace[] = {{"/opt/ljt/", to},
                                               {"/usr/lib/x86_64-linux-gnu/", lib}};
    const struct core_process_options options = {replace, 2, NULL};
    int n = scandir(folder, &list, is_core, versionsort);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        struct sums with = {0}, without = {0};
        struct line line = {0};
        for (int i = 0; i < n; i++) {
            char path[4096];
            snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name);
            if (!strncmp(list[i]->d_name, kinds[k], strlen(kinds[k])))
                bench_image(path, &options, &with, &without, &line);
        }
        if (with.lua)
            printf("%-20s %-9s %4.1f Lua and %4.1f native frames a stack; %6.0f ns a stack, "
                   "%5.0f ns a Lua frame, %5.0f one more\n",
                   build, kinds[k], (double)with.lua / (double)with.stacks,
                   (double)with.native / (double)with.stacks, with.ns / (double)with.stacks,
                   (with.ns - without.ns * (double)with.native / (double)(without.native + 1)) /
                       (double)with.lua,
                   line_slope(&line));
    }
    for (int i = 0; i < n; i++)
        free(list[i]);
    if (n >= 0)
        free(list);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_luajit IMAGES BUILD...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        bench_build(argv[1], argv[i]);
    return 0;
}
