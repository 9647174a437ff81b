/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints which runtimes and VMs are in a file, a core or a live process, as each runtime describes
 * them: its layout with the evidence, and what each VM was doing.
 */
#include "live/stopped_process.h"
#include "dso/runtime_image.h"
#include "output/doctor.h"
#include "output/output.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Where to look for VMs. */
struct view {
    struct stopped_process *process;
    struct memory memory;
};

/* Say which relatives of the runtimes a file holds. Returns how many. */
static unsigned put_relatives(struct text *out, struct dso *dso)
{
    unsigned nr = 0;
    struct elf_runtime_image view;
    if (!dso_image(dso))
        return 0;
    const struct runtime_image image = dso_runtime_image(dso, dso_cfi(dso), &view);
    for (size_t i = 0; i < nr_runtimes; i++) {
        const struct runtime *rt = runtimes[i];
        const char *name = rt->relative ? rt->relative(&image) : NULL;
        if (!name)
            continue;
        text_symbol(out, dso->name);
        text_printf(out, ": %s is not supported: its virtual machine is not that of %s\n", name,
                    rt->name);
        nr++;
    }
    return nr;
}

/* Print why a file could not be searched, or what it holds that is not supported. Returns whether
 * it could not be searched. */
static bool put_problem(struct text *out, struct dso *dso)
{
    const char *problem = dso_problem(dso);
    if (!problem)
        put_relatives(out, dso);
    else if (!dso_cfi(dso))
        text_printf(out, "%s\n", problem);
    return problem && !dso_cfi(dso);
}

/* Print why files could not be searched, each problem once. Returns the number of mapped pieces of
 * code. */
static unsigned put_problems(struct text *out, const struct view *v, bool *any)
{
    VEC(const struct dso *) seen = {0};
    unsigned files = 0;
    *any = false;
    const struct mapping *m = session_mapping_next(&v->process->thread, 0);
    for (; m; m = session_mapping_next(&v->process->thread, m->end)) {
        bool code = m->dso->kind == DSO_FILE && m->prot & PROT_EXEC;
        files += code;
        bool known = false;
        vec_foreach (dso, &seen)
            known |= *dso == m->dso;
        if (code && !known) {
            *any |= put_problem(out, m->dso);
            (void)vec_push(&seen, m->dso); /* out of memory: it is printed again */
        }
        if (m->end == UINT64_MAX)
            break;
    }
    vec_free(&seen);
    return files;
}

static void put_layout(struct text *out, const char *file, struct dso *dso,
                       const struct runtime *rt, const void *layout)
{
    struct elf_runtime_image view;
    struct runtime_image image;
    bool has_image = dso && dso_image(dso);
    if (has_image)
        image = dso_runtime_image(dso, dso_cfi(dso), &view);
    text_symbol(out, file);
    text_string(out, ": ");
    rt->describe(layout, has_image ? &image : NULL, out);
}

/* Print a runtime that is mapped. The mappings of one file have one layout. */
static void put_instance(struct text *out, const struct view *v, const struct runtime_instance *i)
{
    const struct runtime *rt = i->runtime;
    const struct mapping *m = session_mapping(&v->process->thread, i->start);
    put_layout(out, m ? m->dso->name : "?", m ? m->dso : NULL, rt, i->layout);
    if (rt->code_start)
        text_printf(out, "  loaded at 0x%" PRIx64 "\n", rt->code_start(i->layout) + i->bias);
    text_char(out, '\n');
}

/* Append the names of all runtimes: "LuaJIT, V8". */
static void put_names(struct text *out)
{
    for (size_t i = 0; i < nr_runtimes; i++)
        text_printf(out, "%s%s", i ? ", " : "", runtimes[i]->name);
}

static void put_none(struct text *out, unsigned files, bool problems)
{
    text_string(out, "No known runtime (");
    put_names(out);
    text_printf(out, ") is in the %u mapped pieces of code%s\n", files,
                problems ? "; if files were moved, give their root with --symfs" : "");
}

/* Print every runtime that is mapped, and every VM. */
static int put_process(struct text *out, const struct view *v, bool *found, struct error *err)
{
    struct session_vms vms = {0};
    bool problems;
    int failed = stopped_process_vms(v->process, &vms, err);
    unsigned files = put_problems(out, v, &problems);
    const void *last = NULL;
    bool needs_vm = false;
    *found = vms.instances.nr;
    vec_foreach (i, &vms.instances) {
        if (i->layout != last || i->runtime->code_start)
            put_instance(out, v, i);
        last = i->layout;
        needs_vm |= i->runtime->find_vms != NULL;
    }
    vec_foreach (vm, &vms.vms)
        vm->instance->runtime->describe_vm(&v->memory, vm, out);
    if (!failed && !vms.instances.nr)
        put_none(out, files, problems);
    else if (!failed && needs_vm && !vms.vms.nr)
        text_string(
            out,
            "No VM was found: no dispatch table in writable memory leads into an interpreter\n");
    session_vms_free(&vms);
    return failed;
}

/* ---- files --------------------------------------------------------------------------------- */

static bool put_runtimes(struct text *out, const char *path, struct dso *dso)
{
    bool found = false;
    for (size_t i = 0; i < nr_runtimes; i++) {
        const void *layout = cfi_runtime(dso_cfi(dso), runtimes[i]);
        if (!layout)
            continue;
        put_layout(out, path, dso, runtimes[i], layout);
        found = true;
    }
    if (found)
        return true;
    if (dso_problem(dso)) {
        text_printf(out, "%s\n", dso_problem(dso));
        return false;
    }
    if (put_relatives(out, dso))
        return false;
    text_printf(out, "%s: the file holds no known runtime (", path);
    put_names(out);
    text_string(out, ")\n");
    return false;
}

static int put_file(struct text *out, const char *path, const struct dso_options *options,
                    bool *found, struct error *err)
{
    /* Names of dsos are absolute, as in recordings. */
    char *absolute = realpath(path, NULL);
    struct dsos *all = dsos_create(options);
    struct dso *dso = absolute && all ? dsos_get(all, DSO_FILE, absolute, NULL, 0) : NULL;
    int failed = dso ? 0 : error_no_memory(err);
    if (!absolute)
        failed = error_system(err, errno, "%s", path);
    *found = dso && put_runtimes(out, path, dso);
    dsos_free(all);
    free(absolute);
    return failed;
}

static bool is_core(const char *path)
{
    struct elf_image *e;
    if (elf_image_open(path, &e, NULL))
        return false;
    bool core = e->type == ET_CORE;
    elf_image_free(e);
    return core;
}

int doctor_vm(const char *target, const struct dso_options *options, struct text *out, bool *found,
              struct error *err)
{
    struct stopped_process process;
    bool live = *target && strspn(target, "0123456789") == strlen(target);
    *found = false;
    if (!live && !is_core(target))
        return put_file(out, target, options, found, err);
    if (stopped_process_open(target, options, NULL, &process, err))
        return -1;
    struct view v = {&process, {.layers = process.layers, .nr_layers = process.nr_layers}};
    int failed = put_process(out, &v, found, err);
    stopped_process_close(&process);
    return failed;
}
