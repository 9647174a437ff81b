/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any bytes as a kallsyms file: one that is given, whose lines are loaded and sorted, and one from
 * the build-id cache, which is searched in place. If all lines are in order, both must tell the
 * same symbols.
 */
#include "dso/dso.h"
#include "symbols/kallsyms.h"
#include "symbols/symbols.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOOKUPS = 64 };

static char folder[64], path[256]; /* of the cache, and of its one file */

static void remove_cache(void)
{
    unlink(path);
    for (char *end; strlen(path) > strlen(folder) && (end = strrchr(path, '/'));) {
        *end = 0;
        rmdir(path);
    }
}

/* A build-id cache that holds one file, a link to the descriptor. */
static const char *cache_of(int fd)
{
    char to[64];
    if (folder[0])
        return folder;
    snprintf(folder, sizeof(folder), "/tmp/fuzz_kallsyms.XXXXXX");
    if (!mkdtemp(folder))
        abort();
    /* (the last folder's name is the id without its first byte) */
    static const char *const below[] = {"", "/.build-id", "/ab",
                                        "/ababababababababababababababababababab"};
    size_t used = (size_t)snprintf(path, sizeof(path), "%s", folder);
    for (size_t i = 0; i < sizeof(below) / sizeof(*below); i++) {
        used += (size_t)snprintf(path + used, sizeof(path) - used, "%s", below[i]);
        if (i && mkdir(path, 0700) < 0)
            abort();
    }
    snprintf(path + used, sizeof(path) - used, "/kallsyms");
    snprintf(to, sizeof(to), "/proc/self/fd/%d", fd);
    if (symlink(to, path) < 0 || atexit(remove_cache))
        abort();
    return folder;
}

struct lookups {
    uint64_t at[LOOKUPS];
    size_t nr;
    bool in_order;
};

/* Whether a line is as the kernel writes it: 16 digits, a letter, a name. */
static bool is_kernels(const char *at, const char *next)
{
    bool ok = next - at > 20 && next[-1] == '\n' && at[16] == ' ' && at[18] == ' ';
    for (int i = 0; ok && i < 16; i++)
        ok = (at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f');
    for (const char *c = at + 19; ok && c < next - 1; c++)
        ok = *c > ' ' && *c <= '~';
    return ok && ((at[17] | 32) >= 'a' && (at[17] | 32) <= 'z');
}

/* Addresses at and between the lines. */
static struct lookups read_lines(const char *at, const char *end)
{
    struct kallsyms_line line = {0};
    struct lookups ret = {.in_order = true};
    uint64_t last = 0;
    while (at < end) {
        const char *from = at;
        if (!kallsyms_line_read(&at, end, &line)) {
            ret.in_order = false;
            break;
        }
        if (line.name > line.name_end || line.name_end > end)
            abort();
        ret.in_order &= line.address >= last && is_kernels(from, at);
        last = line.address;
        if (ret.nr + 2 <= LOOKUPS) {
            ret.at[ret.nr++] = line.address;
            ret.at[ret.nr++] = line.address + 3;
        }
    }
    return ret;
}

struct opened {
    struct dsos *all;
    struct symbols *symbols;
    struct symbol_cache *cache;
    struct dso *dso;
};

static struct opened open_with(const char *given, const char *cached)
{
    struct build_id id = {.size = 20};
    struct dso_options o = {.kallsyms = given,
                            .buildid_dir = cached,
                            .debug_dir = "/nonexistent",
                            .no_debuginfod = true};
    struct symbols_options so = {0};
    struct opened ret = {.all = dsos_create(&o)};
    memset(id.bytes, 0xab, sizeof(id.bytes));
    ret.symbols = symbols_create(ret.all, &so);
    ret.cache = symbol_cache_create(ret.symbols);
    ret.dso = dsos_get(ret.all, DSO_KERNEL, "[kernel.kallsyms]", &id, 0);
    return ret;
}

static void close_all(struct opened *o)
{
    symbol_cache_free(o->cache);
    symbols_free(o->symbols);
    dsos_free(o->all);
}

static void compare(struct opened *given, struct opened *cached, const struct lookups *l)
{
    for (size_t i = 0; i < l->nr; i++) {
        const struct resolved *a = symbols_resolve(given->cache, given->dso, l->at[i], l->at[i]);
        const struct resolved *b = symbols_resolve(cached->cache, cached->dso, l->at[i], l->at[i]);
        if (!a || !b)
            abort();
        if (!l->in_order)
            continue;
        if (!a->symbol != !b->symbol ||
            (a->symbol && (strcmp(a->symbol, b->symbol) != 0 || a->offset != b->offset))) {
            fprintf(stderr, "%" PRIx64 ": %s+%" PRIx64 ", in place %s+%" PRIx64 "\n", l->at[i],
                    a->symbol ? a->symbol : "-", a->offset, b->symbol ? b->symbol : "-", b->offset);
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char given_path[64];
    if (fd < 0)
        fd = memfd_create("kallsyms", 0);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(given_path, sizeof(given_path), "/proc/self/fd/%d", fd);
    const struct lookups l = read_lines((const char *)data, (const char *)data + size);
    struct opened given = open_with(given_path, "/nonexistent"),
                  cached = open_with(NULL, cache_of(fd));
    compare(&given, &cached, &l);
    close_all(&given);
    close_all(&cached);
    return 0;
}
