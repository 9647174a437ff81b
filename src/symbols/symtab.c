/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbol tables: order, sizes, and which symbol covers an address. perf reads the file's .symtab,
 * lets symbols without a size reach to the next symbol, and chooses one of the symbols at the same
 * address. It does the same again with .dynsym added, then adds the PLT. The code here gives perf's
 * result for one address when that address is looked up.
 */
#include "symbols/demangle.h"
#include "base/threads.h"
#include "symbols/symtab_internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* ---- choice ------------------------------------------------------------------------------ */

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

static bool is_cold_syscall(const char *name)
{
    return strncmp(name, "SyS", 3) == 0 || strncmp(name, "compat_SyS", 10) == 0;
}

/* The variants of a constructor or destructor (C1, C2...) differ only in that digit and demangle to
 * the same name: avoid demangling both. */
static bool differ_in_variant(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return at > 3 && (a[at - 1] == 'C' || a[at - 1] == 'D') && a[at] >= '0' && a[at] <= '9' &&
           b[at] >= '0' && b[at] <= '9' && strcmp(a + at + 1, b + at + 1) == 0;
}

/* Compare the printed names: prefer fewer leading underscores, then the longer name. */
static bool first_name_is_better(const struct symtab *t, const char *a, const char *b)
{
    struct text text[2] = {0};
    const char *names[2] = {a, b};
    bool mangled = t->demangle && (demangle_may(a) || demangle_may(b));
    if (strcmp(a, b) == 0 || (mangled && differ_in_variant(a, b)))
        return true;
    for (int i = 0; mangled && i < 2; i++)
        if (demangle(names[i], &text[i])) {
            text_char(&text[i], 0);
            names[i] = text[i].failed ? names[i] : text[i].at;
        }
    unsigned under_a = underscores(names[0]), under_b = underscores(names[1]);
    size_t size_a = strlen(names[0]), size_b = strlen(names[1]);
    bool first = under_a != under_b ? under_a < under_b
                 : size_a != size_b ? size_a > size_b
                                    : !is_cold_syscall(names[0]);
    text_free(&text[0]);
    text_free(&text[1]);
    return first;
}

/* Of two symbols at one address prefer one with a size, not weak, global; then decide by name. */
static bool first_is_better(const struct symtab *t, const struct symbol *a, const struct symbol *b)
{
    if (a->sized != b->sized)
        return a->sized;
    bool weak_a = a->binding == STB_WEAK, weak_b = b->binding == STB_WEAK;
    if (weak_a != weak_b)
        return weak_b;
    bool global_a = a->binding == STB_GLOBAL, global_b = b->binding == STB_GLOBAL;
    if (global_a != global_b)
        return global_a;
    return first_name_is_better(t, a->name, b->name);
}

static bool read_symbol(struct symtab *t, const struct sort_key *k, struct symbol *ret)
{
    return t->text.at ? symtab_kallsyms_symbol(t, k, ret) : symtab_elf_symbol(t, k, ret);
}

/* Choose the one symbol that represents all at the address of key `at`, the last of them. */
static bool choose(struct symtab *t, const struct symtab_part *part, size_t at, struct symbol *best)
{
    const struct sort_key *k = part->keys;
    size_t first = at;
    while (first > 0 && k[first - 1].key == k[at].key)
        first--;
    bool any = false;
    uint64_t reach = 0; /* of those without a size */
    for (size_t i = first; i <= at; i++) {
        struct symbol s;
        if (!read_symbol(t, &k[i], &s))
            continue;
        if (s.end == s.start && k[i].extra && !symtab_bound(t, part, i, &s.end))
            s.end = UINT64_MAX; /* without a size, and the next symbol is 4 GB away or more */
        if (!s.sized && s.end > reach)
            reach = s.end;
        if (!any || !first_is_better(t, best, &s))
            *best = s;
        any = true;
    }
    /* Only the last one of a table has the distance to the next symbol. */
    if (any && !best->sized && reach > best->end)
        best->end = reach;
    best->first = first;
    return any;
}

static bool is_plt(const struct symtab *t, const struct symtab_part *part, size_t at)
{
    return symtab_table(t, part->keys[at].index) == TABLE_PLT;
}

/* Does key `at` represent the symbols at its address, or only itself (a PLT entry)? */
static bool is_candidate(const struct symtab *t, const struct symtab_part *part, size_t at)
{
    return at + 1 == part->nr || part->keys[at + 1].key != part->keys[at].key ||
           is_plt(t, part, at + 1) || is_plt(t, part, at);
}

/* Get the symbol at key `at`. Returns false when there is none that has a name. */
static bool find_symbol(struct symtab *t, const struct symtab_part *part, size_t at,
                        struct symbol *ret)
{
    if (!is_plt(t, part, at))
        return choose(t, part, at, ret);
    bool named = read_symbol(t, &part->keys[at], ret);
    ret->first = at;
    return named;
}

/* A search for a symbol. It first searches the symbols that are already made, without the lock, so
 * that no thread waits while another one reads pages of a file for the first time; if a match is
 * not made yet, it repeats under the lock. */
struct search {
    uint64_t address;
    struct symbol *label; /* the innermost label; used if no function contains the address */
    unsigned steps;
    bool locked;
    bool unmade; /* search without lock: a possible match is not made yet */
};
enum { MOST_STEPS = 4096 }; /* symbols around an address: far more than in any real file */

/* Returns the symbol at key `at`, made at first need; NULL: none, or out of memory. */
static struct symbol *symbol_at(struct symtab *t, struct symtab_part *part, size_t at,
                                struct search *search)
{
    struct symbol s = {0}, *kept = atomic_load_explicit(&part->made[at], memory_order_acquire);
    if (kept || !is_candidate(t, part, at))
        return kept;
    search->unmade = !search->locked;
    if (search->unmade || !find_symbol(t, part, at, &s))
        return NULL;
    kept = malloc(sizeof(*kept));
    if (!kept || !vec_push(&t->list, kept)) {
        free(kept);
        return NULL;
    }
    *kept = s;
    atomic_store_explicit(&part->made[at], kept, memory_order_release);
    return kept;
}

/* Count the keys that are not above the address. */
static size_t keys_below(const struct symtab_part *part, uint64_t address)
{
    size_t low = 0, high = part->nr;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (part->keys[mid].key <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the innermost symbol of the part that is not a label. */
static struct symbol *part_find(struct symtab *t, struct symtab_part *part, struct search *search)
{
    size_t at = keys_below(part, search->address);
    while (!search->unmade && at-- > 0 && search->steps++ < MOST_STEPS) {
        struct symbol *s = symbol_at(t, part, at, search);
        uint64_t key = part->keys[at].key;
        if (s && search->address < s->end) {
            if (!s->label)
                return s;
            search->label = search->label ? search->label : s;
        } else if (s && search->label && !s->label && s->end > search->label->start) {
            search->label =
                NULL; /* it is within this function, which has ended before the address */
        }
        at = s ? s->first : at;
        if (!part->nested && at && part->keys[at - 1].key != key)
            break;
    }
    return NULL;
}

static struct symbol *buckets_find(struct symtab *t, struct search *search)
{
    struct symbol *found = NULL;
    uint32_t into = symtab_bucket_of(&t->buckets, search->address), bucket = into;
    do {
        struct symtab_part *part = NULL;
        if (search->locked)
            part = symtab_part_get(t, bucket);
        else
            search->unmade = !symtab_part_ready(&t->buckets, bucket, &part);
        found = part ? part_find(t, part, search) : NULL;
    } while (!found && !search->unmade && search->steps < MOST_STEPS &&
             symtab_bucket_before(&t->buckets, bucket, into, &bucket));
    return found ? found : search->label;
}

static struct symbol *loaded_find(struct symtab *t, uint64_t address)
{
    struct search search = {.address = address};
    if (!t->any)
        return NULL;
    struct symbol *found = buckets_find(t, &search);
    if (!search.unmade)
        return found;
    search = (struct search){.address = address, .locked = true};
    pthread_mutex_lock(&t->lock);
    found = buckets_find(t, &search);
    pthread_mutex_unlock(&t->lock);
    return found;
}

const char *symtab_name(const struct symtab *t, struct symbol *s, struct intern *strings,
                        struct shown *shown)
{
    const char *name = atomic_load_explicit(&s->shown, memory_order_acquire);
    if (name)
        return name;
    name = t->demangle ? shown_name(shown, s->name) : intern_string(strings, s->name);
    if (name && s->plt) {
        struct text text = {0};
        text_string(&text, name);
        text_string(&text, "@plt");
        name = text.failed ? NULL : intern_bytes(strings, text.at, text.size);
        text_free(&text);
    }
    if (name)
        atomic_store_explicit(&s->shown, name, memory_order_release);
    return name;
}

/* ---- the table --------------------------------------------------------------------------- */

static void load(struct symtab *t, struct dso *dso, struct kallsyms_files *kallsyms, bool in_order)
{
    const struct elf_image *vmlinux = dso->kind == DSO_KERNEL ? dso_image(dso) : NULL;
    if (vmlinux)
        symtab_load_vmlinux(t, dso, vmlinux);
    else if (dso->kind != DSO_KERNEL && dso->kind != DSO_PSEUDO)
        symtab_load_elf(t, dso);
    if (!t->any && (dso->kind == DSO_KERNEL || dso->kind == DSO_KMODULE))
        symtab_load_kallsyms(t, dso, kallsyms, in_order);
}

/* Make one bucket of the lines loaded from kallsyms. */
static bool finish_kallsyms(struct symtab *t)
{
    if (t->no_memory || !t->lines.nr)
        return !t->no_memory;
    struct sort_key *keys = t->lines.at;
    t->any = true;
    t->lines.at = NULL;
    return symtab_buckets_adopt(t, keys, t->lines.nr);
}

static struct symtab *create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle,
                             bool in_order)
{
    struct symtab *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    lock_init_short(&t->lock);
    t->demangle = !no_demangle && dso->kind != DSO_KERNEL && dso->kind != DSO_KMODULE;
    t->dso = dso;
    t->files = kallsyms;
    load(t, dso, kallsyms, in_order);
    if (!finish_kallsyms(t)) {
        symtab_free(t);
        return NULL;
    }
    return t;
}

struct symtab *symtab_create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle)
{
    return create(dso, kallsyms, no_demangle, true);
}

/* Returns a table of all symbols of a kernel whose text is otherwise searched in place. NULL: out
 * of memory. */
static struct symtab *whole_table(struct symtab *t)
{
    pthread_mutex_lock(&t->lock);
    struct symtab *whole = atomic_load_explicit(&t->whole, memory_order_relaxed);
    if (!whole) {
        whole = create(t->dso, t->files, !t->demangle, false);
        atomic_store_explicit(&t->whole, whole, memory_order_release);
    }
    pthread_mutex_unlock(&t->lock);
    return whole;
}

struct symbol *symtab_find(struct symtab *t, uint64_t address)
{
    struct symbol *found;
    if (!t->core.at)
        return loaded_find(t, address);
    if (symtab_ordered_find(t, address, &found))
        return found;
    struct symtab *whole = whole_table(t);
    return whole ? loaded_find(whole, address) : NULL;
}

void symtab_free(struct symtab *t)
{
    if (!t)
        return;
    symtab_free(atomic_load_explicit(&t->whole, memory_order_relaxed));
    vec_foreach (s, &t->list)
        free(*s);
    vec_foreach (c, &t->copies)
        free(*c);
    vec_free(&t->list);
    vec_free(&t->copies);
    vec_free(&t->lines);
    symtab_elf_free(t);
    symtab_buckets_free(&t->buckets);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
