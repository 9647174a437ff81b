/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks every thread of LuaJIT process images and compares with what their programs tell
 * (luajit_tree.h). Walks again without the VM's memory, where the native side must still come out.
 *
 * usage: luajit_images [-v] PROGRAMS LIB IMAGES BUILD...   (IMAGES/BUILD/KIND.N.core)
 */
#include "luajit_tree.h"
#include "session/core_process.h"
#include "unwind/arch_x86_64.h"
#include "unwind/luajit/object.h"
#include "unwind/luajit/walk.h"
#include "unwind/luajit/runtime.h"
#include "unwind/luajit/crosscheck.h"
#include "dso/runtime_image.h"
#include "session/walk_input.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = TREE_FRAMES };

static void die(const char *what, const char *why)
{
    fprintf(stderr, "luajit_images: %s: %s\n", what, why);
    exit(1);
}

/* ---- one image ----------------------------------------------------------------------------- */

struct totals {
    int counts[5], images, no_position, guess, bare;
};

/* Known offsets in these builds, from debug information (of builds of the same commits). */
static void check_layout(const char *name, const struct luajit_layout *l)
{
    static const struct {
        const char *build;
        int32_t g2disp, running, jit_base, trace, state;
    } known[] = {
        {"2.0.5/", 0xbb8, 0xf4, 0xf8, 0x2c8, 0x254},
        {"2.1b3/", 0xc28, 0xf8, 0xfc, 0x310, 0x274},
        {"2.1b3-gc64/", 0xf50, 0x158, 0x160, 0x428, 0x38c},
        {"2.1-2203-nogc64", 0xc68, 0x120, 0x124, 0x350, 0x2bc},
        {"2.1-2308/", 0xf80, 0x170, 0x178, 0x458, 0x3c4},
        {"2.1-2608/", 0xfa0, 0x178, 0x180, 0x468, 0x3d4},
        {"2.1-2608-host/", 0xfa0, 0x178, 0x180, 0x468, 0x3d4},
        {"2.1-2608-nogc64/", 0xc88, 0x128, 0x12c, 0x360, 0x2cc},
        {"or-1905/", 0xc28, 0xf8, 0xfc, 0x310, 0x274},
        {"or-2403/", 0xfa8, 0x170, 0x178, 0x460, 0x3cc},
    };
    int32_t running = l->cur_L != LUAJIT_UNKNOWN ? l->cur_L : l->jit_L;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strncmp(name, known[i].build, strlen(known[i].build)) != 0)
            continue;
        if (l->g2disp != known[i].g2disp || running != known[i].running ||
            l->jit_base != known[i].jit_base || l->trace != known[i].trace ||
            l->state != known[i].state || l->contradicted || !l->confirmed)
            die(name, "the layout is not what debug information says");
        return;
    }
    die(name, "a build whose layout is not known");
}

static size_t find_blobs(const struct core_process *p, struct luajit_blob *blobs, size_t max)
{
    size_t nr = 0;
    for (size_t i = 0; i < core_nr_mappings(p->core) && nr < max; i++) {
        const struct core_mapping *m = core_mapping(p->core, i);
        struct code code;
        if (!m->file || !codemap_lookup(&p->code, m->start, 0, &code) ||
            !luajit_of_module(code.cfi))
            continue;
        const struct luajit_layout *l = luajit_of_module(code.cfi);
        bool known = false;
        for (size_t k = 0; k < nr; k++)
            known |= blobs[k].layout == l;
        if (!known)
            blobs[nr++] = (struct luajit_blob){l, l->blob + code.bias};
    }
    return nr;
}

static void find_vms(const struct core_process *p, const struct luajit_blob *blobs, size_t nr,
                     luajit_vm_list *ret)
{
    struct memory m = {.layers = p->layers, .nr_layers = 2};
    for (size_t i = 0; i < core_nr_mappings(p->core); i++) {
        const struct core_mapping *map = core_mapping(p->core, i);
        const struct memory_range range = {map->start, map->end};
        if (!map->file && luajit_vms_find(&m, &range, 1, blobs, nr, ret, NULL))
            die("vms", "out of memory");
    }
}

/* ---- without the VM's memory --------------------------------------------------------------- */

/* The memory of a plain recording: the thread's own stack, and files. */
struct bare {
    const struct core_process *p;
    uint64_t start, end; /* of the stack */
};

static bool read_bare(void *context, const struct memory_query *q, void *to,
                      struct memory_answer *answer)
{
    const struct bare *b = context;
    const struct memory_layer *layers = b->p->layers;
    if (q->address >= b->start && q->address < b->end && b->end - q->address >= q->size)
        return layers[0].read(layers[0].context, q, to, answer);
    return layers[1].read(layers[1].context, q, to, answer);
}

/* Collects the native frames of a stack that are not the VM's own. Returns their number. */
static size_t plain_frames(const struct core_process *p, const struct unwind_stack *stack,
                           uint64_t *pcs)
{
    size_t nr = 0;
    vec_foreach (f, &stack->frames) {
        struct code code;
        if (f->kind == FRAME_LUA || !codemap_lookup(&p->code, f->pc - 1, 0, &code))
            continue;
        const struct luajit_layout *l = luajit_of_module(code.cfi);
        bool own = code.owner != CODE_ELF || (l && f->pc - code.bias - l->blob <= l->blob_size);
        if (!own && nr < FRAMES)
            pcs[nr++] = f->pc;
    }
    return nr;
}

/* Returns whether the walk finds the native side of the whole walk, up to the entry, and says that
 * Lua is missing. */
static bool walk_bare(const struct core_process *p, struct unwind_input in, struct unwinder *u,
                      const struct unwind_stack *whole)
{
    struct bare b = {.p = p};
    uint64_t sp = in.registers.value[DWARF_RSP], all[FRAMES], some[FRAMES];
    for (size_t i = 0; i < core_nr_mappings(p->core); i++) {
        const struct core_mapping *m = core_mapping(p->core, i);
        if (sp >= m->start && sp < m->end)
            b.start = sp, b.end = m->end;
    }
    struct memory_layer layer = {.read = read_bare, .context = &b};
    in.memory = (struct memory){.layers = &layer, .nr_layers = 1};
    struct unwind_stack stack = {0};
    if (unwind(u, &in, &stack, NULL))
        die("bare", "out of memory");
    bool lua = false, named = false;
    vec_foreach (f, &stack.frames) {
        lua |= f->kind == FRAME_LUA;
        named |= f->kind == FRAME_LUA && f->function != 0;
    }
    size_t nr = plain_frames(p, whole, all);
    bool same = stack.end == STACK_COMPLETE && plain_frames(p, &stack, some) == nr &&
                !memcmp(all, some, nr * sizeof(*all));
    vec_free(&stack.frames);
    return same && lua && !named;
}

static void walk_thread(const struct core_process *p, const struct core_thread *thread,
                        const struct walker *walker, const struct luajit_layout *l,
                        struct unwinder *u, const char *name, struct totals *t, int verbose)
{
    static struct judge j;
    struct unwind_stack stack = {0};
    const struct walk_parts parts = {.thread = &p->thread, .stopped = &p->layers[0]};
    struct walk_memory memory;
    struct unwind_input in = {.registers = thread->registers};
    walk_input(&parts, FRAMES, &memory, &in);
    in.walker = walker;
    tree_begin();
    if (unwind(u, &in, &stack, NULL))
        die(name, "out of memory");
    enum verdict v = tree_judge(&j, &in.memory, l, &stack);
    t->counts[v]++;
    if (v != NOT_IN_LUA && walk_bare(p, in, u, &stack))
        t->bare++;
    t->no_position += j.no_position;
    t->guess += j.guess;
    if (v > EXACT || verbose)
        printf("  %s tid %u: %s %s\n", name, thread->tid, tree_verdict(v), j.why);
    if ((v > EXACT && verbose) || verbose > 1)
        tree_print(&j, &stack);
    vec_free(&stack.frames);
}

static void walk_image(const char *path, const char *name,
                       const struct core_process_options *options, struct totals *t, int verbose)
{
    struct core_process p;
    struct error err;
    struct luajit_blob blobs[4];
    luajit_vm_list vms = {0};
    if (core_process_open(path, options, &p, &err))
        die(name, err.text);
    size_t nr_blobs = find_blobs(&p, blobs, 4);
    if (nr_blobs == 0)
        die(name, "no LuaJIT found");
    const struct mapping *m = session_mapping(&p.thread, blobs[0].address);
    struct luajit_layout layout = *blobs[0].layout;
    struct elf_runtime_image view;
    const struct runtime_image image = dso_runtime_image(m->dso, dso_cfi(m->dso), &view);
    const struct luajit_image part = luajit_image_of(&image);
    luajit_crosscheck(&part, &layout);
    check_layout(name, &layout);
    find_vms(&p, blobs, nr_blobs, &vms);
    struct luajit_process process = {.vms = vms.at,
                                     .nr_vms = vms.nr,
                                     .blobs = blobs,
                                     .nr_blobs = nr_blobs,
                                     .namer = tree_namer()};
    struct walker walker = luajit_walker(&process);
    struct unwinder *u = unwinder_create(NULL);
    for (size_t i = 0; i < core_nr_threads(p.core); i++)
        walk_thread(&p, core_thread(p.core, i), &walker, blobs[0].layout, u, name, t, verbose);
    t->images++;
    unwinder_free(u);
    vec_free(&vms);
    core_process_free(&p);
}

static int is_core(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".core");
}

static void walk_build(const char *images, const char *lib, const char *build, const char *only,
                       struct totals *sum, int verbose)
{
    char folder[2048], to[2048], liblib[2048];
    struct totals t = {0};
    struct dirent **list;
    snprintf(folder, sizeof(folder), "%s/%s", images, build);
    snprintf(to, sizeof(to), "%s/", images);
    snprintf(liblib, sizeof(liblib), "%s/", lib);
    const struct path_replacement replace[] = {{"/opt/ljt/", to},
                                               {"/usr/lib/x86_64-linux-gnu/", liblib},
                                               {"/lib/x86_64-linux-gnu/", liblib}};
    const struct core_process_options options = {replace, 3, NULL};
    int n = scandir(folder, &list, is_core, versionsort);
    if (n <= 0)
        die(folder, "no images");
    for (int i = 0; i < n; i++) {
        char path[4096], name[512];
        snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name);
        snprintf(name, sizeof(name), "%s/%s", build, list[i]->d_name);
        if (!only || strstr(name, only))
            walk_image(path, name, &options, &t, verbose);
        free(list[i]);
    }
    free(list);
    int in_lua = t.counts[EXACT] + t.counts[INCOMPLETE] + t.counts[WRONG] + t.counts[WRONG_MARKED];
    printf(
        "%-22s %3d images, in Lua %3d: exact %3d, incomplete %d, wrong unmarked %d, wrong marked "
        "%d; guess %d, a position unknown %d; other threads %d; native side without memory %d\n",
        build, t.images, in_lua, t.counts[EXACT], t.counts[INCOMPLETE], t.counts[WRONG],
        t.counts[WRONG_MARKED], t.guess, t.no_position, t.counts[NOT_IN_LUA], t.bare);
    for (int i = 0; i < 5; i++)
        sum->counts[i] += t.counts[i];
    sum->images += t.images;
    sum->guess += t.guess;
    sum->no_position += t.no_position;
    sum->bare += t.bare;
}

int main(int argc, char **argv)
{
    int verbose = 0, at = 1;
    while (at < argc && !strcmp(argv[at], "-v"))
        verbose++, at++;
    if (argc - at < 4)
        die("usage", "luajit_images [-v] PROGRAMS LIB IMAGES BUILD...");
    tree_read_programs(argv[at]);
    struct totals sum = {0};
    for (int i = at + 3; i < argc; i++)
        walk_build(argv[at + 2], argv[at + 1], argv[i], getenv("ONLY"), &sum, verbose);
    int in_lua =
        sum.counts[EXACT] + sum.counts[INCOMPLETE] + sum.counts[WRONG] + sum.counts[WRONG_MARKED];
    printf(
        "all: %d images, %d stacks in Lua, exact %d (%.2f %%), incomplete %d, wrong unmarked %d, "
        "wrong marked %d\n",
        sum.images, in_lua, sum.counts[EXACT], 100.0 * sum.counts[EXACT] / (in_lua ? in_lua : 1),
        sum.counts[INCOMPLETE], sum.counts[WRONG], sum.counts[WRONG_MARKED]);
    printf("native side whole without the VM's memory: %d\n", sum.bare);
    return sum.counts[WRONG] || in_lua == 0 || 1000 * sum.counts[EXACT] < 995 * in_lua;
}
