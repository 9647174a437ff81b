/* SPDX-License-Identifier: GPL-2.0-only */
/* Passes a core's mappings to a session as a recording does. */
#include "session/core_process.h"
#include "dso/elf_image.h"
#include "session/session_internal.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const char *replaced(const struct core_process_options *o, const char *file, char *buffer,
                            size_t size)
{
    for (size_t i = 0; o && i < o->nr_replace; i++) {
        size_t n = strlen(o->replace[i].from);
        if (strncmp(file, o->replace[i].from, n) != 0)
            continue;
        int need = snprintf(buffer, size, "%s%s", o->replace[i].to, file + n);
        return need >= 0 && (size_t)need < size ? buffer : file;
    }
    return file;
}

/* A mapping that is not in the core at all has no recorded rights: the file's segment says what
 * rights the loader gave it. */
static uint32_t prot_from_file(struct dso *dso, uint64_t offset, uint64_t page)
{
    if (!page)
        page = ARCH_PAGE_MIN;
    const struct elf_image *e = dso ? dso_image(dso) : NULL;
    for (uint32_t i = 0; e && i < e->tables->nr_segments; i++) {
        const struct elf_phdr *p = &e->tables->segments[i];
        /* A mapping begins at the page in which its segment begins. */
        if (p->type == PT_LOAD && (p->offset & ~(page - 1)) <= offset &&
            offset < p->offset + p->filesz && p->flags & PF_X)
            return PROT_READ | PROT_EXEC;
    }
    return e ? PROT_READ : PROT_READ | PROT_EXEC;
}

static int add_mapping(struct core_process *p, const struct core_mapping *m, struct build_id *id,
                       const struct core_process_options *options, struct error *err)
{
    char buffer[PATH_MAX];
    uint32_t pid = core_pid(p->core);
    const char *name = m->file ? replaced(options, m->file, buffer, sizeof(buffer)) : "//anon";
    struct record_mmap mm = {.pid = pid,
                             .tid = pid,
                             .addr = m->start,
                             .len = m->end - m->start,
                             .pgoff = m->pgoff,
                             .prot = m->prot,
                             .flags = MAP_PRIVATE,
                             .filename = name};
    /* The first page of a file is mapped first. Its id is also the id of the mappings that
     * follow. */
    if (m->file && m->pgoff == 0)
        core_build_id(p->core, m->start, id);
    else if (!m->file)
        *id = (struct build_id){0};
    mm.build_id = *id;
    if (m->prot == CORE_PROT_UNKNOWN)
        mm.prot = prot_from_file(dsos_get(p->dsos, DSO_FILE, name, id, 0), m->pgoff, m->page);
    return session_map(p->session, &mm, 0, err);
}

static int add_mappings(struct core_process *p, const struct core_process_options *options,
                        struct error *err)
{
    struct build_id id = {0};
    const char *last = NULL;
    for (size_t i = 0; i < core_nr_mappings(p->core); i++) {
        const struct core_mapping *m = core_mapping(p->core, i);
        if (!m->file || !last || strcmp(m->file, last) != 0)
            id = (struct build_id){0};
        if (add_mapping(p, m, &id, options, err))
            return -1;
        last = m->file;
    }
    return 0;
}

int core_process_open(const char *path, const struct core_process_options *options,
                      struct core_process *ret, struct error *err)
{
    struct core_process p = {0};
    if (core_open(path, &p.core, err))
        return -1;
    p.dsos = dsos_create(options ? options->dso : NULL);
    const struct session_options no_jit = {.no_jit = true};
    if (!p.dsos)
        error_no_memory(err);
    if (!p.dsos || session_create(NULL, p.dsos, &no_jit, &p.session, err) ||
        add_mappings(&p, options, err) ||
        session_context(p.session, core_pid(p.core), core_pid(p.core), &p.thread, err)) {
        core_process_free(&p);
        return -1;
    }
    p.layers[0] = core_memory(p.core);
    p.layers[1] = session_memory(&p.thread);
    p.code = session_codemap(&p.thread);
    *ret = p;
    return 0;
}

void core_process_free(struct core_process *p)
{
    if (p->thread.space)
        thread_context_release(&p->thread);
    session_free(p->session);
    dsos_free(p->dsos);
    core_free(p->core);
    *p = (struct core_process){0};
}
