/* SPDX-License-Identifier: GPL-2.0-only */
/* Symbols of the kernel and its modules from kallsyms. */
#include "symbols/symtab_internal.h"

#include <elf.h>
#include <string.h>

bool symtab_kallsyms_wanted(const struct kallsyms_line *l)
{
    switch (l->type | 0x20) {
    case 't':
    case 'w':
    case 'd':
    case 'b':
        return *l->name != '$';
    default:
        return false;
    }
}

/* Is the symbol in text? Addresses of zero are hidden, or undefined and weak. */
static bool is_text(const struct kallsyms_line *l)
{
    char type = (char)(l->type | 0x20);
    return l->address && (type == 't' || type == 'w');
}

/* Module names are in brackets. */
static bool is_of_module(const struct kallsyms_line *l, const char *module, size_t size)
{
    return l->module && (size_t)(l->module_end - l->module) == size + 2 &&
           memcmp(l->module + 1, module, size) == 0;
}

/* Add the lines of the kernel (with those of all modules, because perf sorts them together), or of
 * one module. Returns the lowest address in text; UINT64_MAX: there is none. */
static uint64_t add_lines(struct symtab *t, const char *module, uint64_t bias)
{
    uint64_t text = UINT64_MAX;
    size_t module_size = module ? strlen(module) : 0;
    const char *at = t->text.at;
    enum { USUAL_LINE = 40 };
    if (!module && !vec_reserve(&t->lines, (size_t)(t->text.end - at) / USUAL_LINE))
        t->no_memory = true;
    struct kallsyms_line l = {0};
    while (at < t->text.end && !t->no_memory) {
        const char *line = at;
        if (!kallsyms_line_read(&at, t->text.end, &l) || !symtab_kallsyms_wanted(&l))
            continue;
        if (module && !is_of_module(&l, module, module_size))
            continue;
        size_t at_byte = (size_t)(line - t->text.at);
        struct sort_key key = {l.address + bias, (uint32_t)at_byte, l.module != NULL};
        if (at_byte >= UINT32_MAX || !vec_push(&t->lines, key))
            t->no_memory = true;
        text = is_text(&l) && l.address < text ? l.address : text;
    }
    return text;
}

bool symtab_kallsyms_symbol(struct symtab *t, const struct sort_key *k, struct symbol *ret)
{
    struct kallsyms_line l = {0};
    const char *at = t->text.at + k->index;
    char *name = NULL;
    if (kallsyms_line_read(&at, t->text.end, &l))
        name = strndup(l.name, (size_t)(l.name_end - l.name));
    if (!name || !vec_push(&t->copies, name)) {
        free(name);
        return false;
    }
    uint32_t size = k->extra == UINT32_MAX ? 0 : k->extra;
    *ret = (struct symbol){.start = k->key, .end = k->key + size, .name = name};
    if (ret->end < ret->start)
        ret->end = UINT64_MAX;
    ret->sized = ret->end > ret->start; /* the last one at its address */
    bool upper = l.type >= 'A' && l.type <= 'Z';
    ret->binding = l.type == 'W' ? STB_WEAK : upper ? STB_GLOBAL : STB_LOCAL;
    return true;
}

/* The running kernel is elsewhere than the recorded one was. After a boot that may be the same
 * kernel at another address, or another kernel of the same release: only a build id tells. Symbols
 * that the user gave are the user's word. */
static bool is_recorded_kernel(struct dso *dso)
{
    if (dso->build_id.size || !dso_kallsyms_in_order(dso))
        return true;
    dso_note_problem(dso, "the running kernel is at another address than the recorded one, and no "
                          "build id was recorded that shows them to be the same; use --kallsyms or "
                          "--vmlinux");
    return false;
}

void symtab_load_kallsyms(struct symtab *t, struct dso *dso, struct kallsyms_files *files,
                          bool in_order)
{
    char module[256];
    const char *path = dso_kallsyms(dso), *reference;
    uint64_t bias = 0, recorded;
    bool kernel = dso->kind == DSO_KERNEL;
    if (!path || (!kernel && !dso_module_name(dso, module, sizeof(module))))
        return;
    t->text = kallsyms_files_text(files, path);
    if (kernel && dso_reference(dso, &reference, &recorded)) {
        uint64_t here = kallsyms_address(t->text, reference);
        bias = here ? recorded - here : 0;
        if (bias && !is_recorded_kernel(dso))
            return;
    }
    if (kernel && in_order && dso_kallsyms_in_order(dso) && symtab_order_kallsyms(t, bias))
        return;
    uint64_t text = add_lines(t, kernel ? NULL : module, bias);
    /* Hidden addresses (kptr_restrict) are all zero. */
    if (text == UINT64_MAX)
        t->lines.nr = 0;
    /* Make a module's addresses relative to the page where its text begins, which is where the
     * recording saw it. The module's data may be anywhere: below the text, and per-cpu variables at
     * no address. */
    vec_foreach (k, &t->lines)
        k->key -= kernel ? 0 : text & ~UINT64_C(4095);
}
