/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbol tables: order, sizes, and which symbol an address is in. perf takes the file's .symtab,
 * lets symbols without a size reach to the next, and chooses one among those at one address; then
 * the same again with .dynsym added; then the PLT. What all that comes to at one address is found
 * out here when the address is asked for.
 */
#include "symbols/demangle.h"
#include "symbols/symtab_internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes ------------------------------------------------------------------------------- */

/* How far the last symbol of all reaches: to the end of the next page. */
static uint64_t size_of_last(uint64_t start)
{
    return ((start + 4095) & ~UINT64_C(4095)) + 4096 - start;
}

static uint32_t small(uint64_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

/* Does a symbol of `of`, which is without a size, reach up to one of `table`? Those of .symtab are
 * settled before .dynsym is looked at, and the PLT comes last. */
static bool is_bound(unsigned of, unsigned table)
{
    return table == TABLE_SYMTAB || (of == TABLE_DYNSYM && table == TABLE_DYNSYM);
}

/* The size of key `i`, which has none: up to the next symbol elsewhere. Of several at one address
 * only the last of a table is followed by another one. */
static uint32_t size_to_next(const struct symtab *t, size_t i)
{
    const struct sort_key *k = t->keys.at;
    unsigned of = symtab_table(t, k[i].index);
    for (size_t n = i + 1; n < t->keys.nr; n++) {
        unsigned table = symtab_table(t, k[n].index);
        if (k[n].key == k[i].key && table == of)
            return 0;
        if (k[n].key != k[i].key && is_bound(of, table))
            return small(k[n].key - k[i].key);
    }
    return small(size_of_last(k[i].key));
}

/* Sizes in ELF files, most of which say them. */
static void settle_elf(struct symtab *t)
{
    struct sort_key *k = t->keys.at;
    for (size_t i = 0; i < t->keys.nr; i++)
        if (!k[i].extra && symtab_table(t, k[i].index) != TABLE_PLT)
            k[i].extra = size_to_next(t, i);
}

/* Sizes in kallsyms, where none has one. Nothing reaches from the kernel into a module or from one
 * to another. */
static void settle_kallsyms(struct symtab *t)
{
    struct sort_key *k = t->keys.at;
    uint32_t of_module = 0;
    for (size_t i = t->keys.nr; i-- > 0;) {
        uint32_t mine = k[i].extra;
        uint64_t start = k[i].key;
        uint64_t size = i + 1 == t->keys.nr ? size_of_last(start)
                        : mine != of_module ? ((start + 4096 + 4095) & ~UINT64_C(4095)) - start
                                            : k[i + 1].key - start;
        k[i].extra = small(size);
        of_module = mine;
    }
}

/* ---- nesting ----------------------------------------------------------------------------- */

enum { BLOCK = 16 };

static uint64_t end_of(const struct sort_key *k)
{
    uint64_t end = k->key + k->extra;
    return k->extra == UINT32_MAX || end < k->key ? UINT64_MAX : end;
}

/* How far any symbol at the address of key `i` reaches; `*next`: the first key of another. */
static uint64_t reach_of(const struct symtab *t, size_t i, size_t *next)
{
    uint64_t reach = 0;
    size_t at = i;
    for (; at < t->keys.nr && t->keys.at[at].key == t->keys.at[i].key; at++) {
        uint64_t end = end_of(&t->keys.at[at]);
        reach = end > reach ? end : reach;
    }
    *next = at;
    return reach;
}

static bool is_nested(const struct symtab *t)
{
    const struct sort_key *k = t->keys.at;
    uint64_t reach = 0;
    for (size_t i = 0; i + 1 < t->keys.nr; i++) {
        uint64_t end = end_of(&k[i]);
        reach = end > reach ? end : reach;
        if (k[i + 1].key != k[i].key && reach > k[i + 1].key)
            return true;
    }
    return false;
}

static bool make_tree(struct symtab *t)
{
    t->nr_leaves = 1;
    while (t->nr_leaves * BLOCK < t->keys.nr)
        t->nr_leaves *= 2;
    t->reach = calloc(t->nr_leaves * 2, sizeof(*t->reach));
    if (!t->reach)
        return false;
    for (size_t i = 0, next; i < t->keys.nr; i = next) {
        uint64_t reach = reach_of(t, i, &next);
        for (size_t b = i / BLOCK; b <= (next - 1) / BLOCK; b++)
            if (t->reach[t->nr_leaves + b] < reach)
                t->reach[t->nr_leaves + b] = reach;
    }
    for (size_t n = t->nr_leaves - 1; n > 0; n--) {
        uint64_t left = t->reach[2 * n], right = t->reach[2 * n + 1];
        t->reach[n] = left > right ? left : right;
    }
    return true;
}

/* The last key up to `at` in whose block something reaches beyond the address; NO_KEY: none. */
enum { NO_KEY = -1 };
static size_t back_to(const struct symtab *t, size_t at, uint64_t address)
{
    size_t node = t->nr_leaves + at / BLOCK;
    if (t->reach[node] > address)
        return at;
    do {
        while (node > 1 && !(node & 1))
            node /= 2;
        if (node <= 1)
            return (size_t)NO_KEY;
        node--;
    } while (t->reach[node] <= address);
    while (node < t->nr_leaves) {
        node = 2 * node + 1;
        node -= t->reach[node] <= address;
    }
    return (node - t->nr_leaves) * BLOCK + BLOCK - 1;
}

/* ---- choice ------------------------------------------------------------------------------ */

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

static bool is_cold_syscall(const char *name)
{
    return strncmp(name, "SyS", 3) == 0 || strncmp(name, "compat_SyS", 10) == 0;
}

/* A constructor's or destructor's variants (C1, C2...) differ in that digit alone and demangle
 * to the same name: spare demangling both. */
static bool differ_in_variant(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    return at > 3 && (a[at - 1] == 'C' || a[at - 1] == 'D') && a[at] >= '0' && a[at] <= '9' &&
           b[at] >= '0' && b[at] <= '9' && strcmp(a + at + 1, b + at + 1) == 0;
}

/* By the printed names: fewer leading underscores, then the longer. */
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

/* Of two symbols at one address: one with a size, not weak, global; then by name. */
static bool first_is_better(const struct symtab *t, const struct symbol *a, const struct symbol *b)
{
    bool sized_a = a->end > a->start, sized_b = b->end > b->start;
    if (sized_a != sized_b)
        return sized_a;
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

/* Where a symbol without a size ends whose next one is 4 GB away or more. */
static uint64_t far_end(const struct symtab *t, size_t i)
{
    const struct sort_key *k = t->keys.at;
    bool of_symtab = !t->text.at && symtab_table(t, k[i].index) == TABLE_SYMTAB;
    for (size_t next = i + 1; next < t->keys.nr; next++) {
        unsigned table = t->text.at ? (unsigned)TABLE_SYMTAB : symtab_table(t, k[next].index);
        if (k[next].key != k[i].key && table <= (of_symtab ? TABLE_SYMTAB : TABLE_DYNSYM))
            return k[next].key;
    }
    return UINT64_MAX;
}

/* The one symbol that stands for all at the address of key `at`, the last of them. */
static bool choose(struct symtab *t, size_t at, struct symbol *best)
{
    const struct sort_key *k = t->keys.at;
    size_t first = at;
    while (first > 0 && k[first - 1].key == k[at].key)
        first--;
    bool any = false;
    for (size_t i = first; i <= at; i++) {
        struct symbol s;
        if (!read_symbol(t, &k[i], &s))
            continue;
        if (s.end == s.start && k[i].extra)
            s.end = far_end(t, i);
        if (!any || !first_is_better(t, best, &s))
            *best = s;
        any = true;
    }
    best->first = first;
    return any;
}

static bool is_plt(const struct symtab *t, size_t at)
{
    return !t->text.at && symtab_table(t, t->keys.at[at].index) == TABLE_PLT;
}

/* Does key `at` stand for those at its address, or for itself (a PLT entry)? */
static bool is_candidate(const struct symtab *t, size_t at)
{
    return at + 1 == t->keys.nr || t->keys.at[at + 1].key != t->keys.at[at].key ||
           is_plt(t, at + 1) || is_plt(t, at);
}

/* What stands at key `at`; false: nothing that has a name. */
static bool find_symbol(struct symtab *t, size_t at, struct symbol *ret)
{
    if (!is_plt(t, at))
        return choose(t, at, ret);
    bool named = read_symbol(t, &t->keys.at[at], ret);
    ret->first = at;
    return named;
}

/* Under the lock. */
static struct symbol *keep_symbol(struct symtab *t, size_t at, const struct symbol *s)
{
    struct symbol *kept = malloc(sizeof(*kept));
    if (!kept || !vec_push(&t->list, kept)) {
        free(kept);
        return NULL;
    }
    *kept = *s;
    atomic_store_explicit(&t->made[at], kept, memory_order_release);
    return kept;
}

static struct symbol *make_symbol(struct symtab *t, size_t at)
{
    struct symbol s = {0}, *kept = NULL;
    bool copies_names = t->text.at; /* then choosing is for one thread, too */
    bool found = !copies_names && find_symbol(t, at, &s);
    pthread_mutex_lock(&t->lock);
    kept = atomic_load_explicit(&t->made[at], memory_order_relaxed);
    if (!kept && (copies_names ? find_symbol(t, at, &s) : found))
        kept = keep_symbol(t, at, &s);
    pthread_mutex_unlock(&t->lock);
    return kept;
}

/* The number of the last key that is not above the address; NO_KEY: none. */
static size_t last_key(const struct symtab *t, uint64_t address)
{
    const struct sort_key *base = t->keys.at;
    size_t nr = t->keys.nr;
    if (nr == 0 || address < base[0].key)
        return (size_t)NO_KEY;
    while (nr > 1) {
        size_t half = nr / 2;
        base += address >= base[half].key ? half : 0;
        nr -= half;
    }
    return (size_t)(base - t->keys.at);
}

static struct symbol *loaded_find(struct symtab *t, uint64_t address)
{
    enum { MOST = 4096 };        /* symbols around an address: far beyond any true file */
    struct symbol *label = NULL; /* the innermost one; the function around it is asked for */
    size_t at = last_key(t, address);
    for (int i = 0; at != (size_t)NO_KEY && i < MOST; i++) {
        struct symbol *s = NULL;
        uint64_t key = t->keys.at[at].key;
        if (is_candidate(t, at)) {
            s = atomic_load_explicit(&t->made[at], memory_order_acquire);
            s = s ? s : make_symbol(t, at);
        }
        if (s && address < s->end) {
            if (!s->label || !t->nested)
                return s;
            label = label ? label : s;
        }
        at = s ? s->first : at;
        if (at-- == 0)
            break;
        if (t->keys.at[at].key == key)
            continue;
        if (!t->nested)
            break;
        at = back_to(t, at, address);
    }
    return label;
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
    if (!t->keys.nr && (dso->kind == DSO_KERNEL || dso->kind == DSO_KMODULE))
        symtab_load_kallsyms(t, dso, kallsyms, in_order);
}

static bool settle(struct symtab *t)
{
    if (t->no_memory || t->keys.nr >= UINT32_MAX || !sort_keys(t->keys.at, t->keys.nr))
        return false;
    if (t->text.at)
        settle_kallsyms(t);
    else
        settle_elf(t);
    t->nested = is_nested(t);
    t->made = calloc(t->keys.nr + 1, sizeof(*t->made));
    return t->made && (!t->nested || make_tree(t));
}

static struct symtab *create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle,
                             bool in_order)
{
    struct symtab *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->demangle = !no_demangle && dso->kind != DSO_KERNEL && dso->kind != DSO_KMODULE;
    t->dso = dso;
    t->files = kallsyms;
    load(t, dso, kallsyms, in_order);
    if (!settle(t)) {
        symtab_free(t);
        return NULL;
    }
    return t;
}

struct symtab *symtab_create(struct dso *dso, struct kallsyms_files *kallsyms, bool no_demangle)
{
    return create(dso, kallsyms, no_demangle, true);
}

/* All symbols of a kernel of which only some were looked up. NULL: memory is out. */
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
    vec_free(&t->plt);
    vec_free(&t->keys);
    free(t->made);
    free(t->reach);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
