/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's own text and its modules, as MMAP2 records with build ids. Their names are those
 * that perf uses: "[kernel.kallsyms]_text", and the files of modules. */
#include "record/synthesize_internal.h"
#include "dso/notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

/* The address of a line of /proc/kallsyms, "ADDRESS TYPE NAME", if it is of this symbol. */
static bool is_symbol(const char *line, const char *end, const char *symbol, uint64_t *at)
{
    const size_t length = strlen(symbol);
    if ((size_t)(end - line) <= length || end[-(ptrdiff_t)length - 1] != ' ' ||
        memcmp(end - length, symbol, length) != 0)
        return false;
    *at = strtoull(line, NULL, 16);
    return true;
}

#if defined(__x86_64__)
/* Bytes from _text to _etext, as /proc/iomem says it ("Kernel code", arch/x86/kernel/setup.c); 0:
 * it does not. The kernel writes 117,000 lines of kallsyms before that of _etext, in 50 ms. */
static uint64_t text_size(void)
{
    uint64_t first = 0, last = 0, size = 0;
    char line[256];
    FILE *f = fopen("/proc/iomem", "re");
    while (f && !size && fgets(line, sizeof(line), f)) {
        if (strstr(line, " : Kernel code\n") &&
            sscanf(line, "%" SCNx64 "-%" SCNx64, &first, &last) == 2 && last > first)
            size = last + 1 - first;
    }
    if (f)
        fclose(f);
    return size;
}
#else
/* Other machines count more to "Kernel code" than _etext ends. */
static uint64_t text_size(void)
{
    return 0;
}
#endif

/* Find the addresses of _text (or _stext) and _etext. Returns false if missing or hidden. */
static bool kernel_range(const char **symbol, uint64_t *start, uint64_t *end)
{
    char line[512], buffer[1 << 16]; /* (5 MB are read; a larger buffer takes fewer calls) */
    uint64_t text = 0, stext = 0, etext = 0;
    const uint64_t size = text_size();
    FILE *f = fopen("/proc/kallsyms", "re");
    if (f)
        setvbuf(f, buffer, _IOFBF, sizeof(buffer));
    while (f && fgets(line, sizeof(line), f) && !etext) {
        const char *line_end = line + strcspn(line, "\n");
        if (!is_symbol(line, line_end, "_text", &text) &&
            !is_symbol(line, line_end, "_stext", &stext))
            (void)is_symbol(line, line_end, "_etext", &etext);
        else if (text && size)
            etext = text + size;
    }
    if (f)
        fclose(f);
    *symbol = text ? "_text" : "_stext";
    *start = text ? text : stext;
    *end = etext;
    return *start && *end > *start;
}

/* Whether a path of modules.dep is the module's file: "kernel/fs/ext4/ext4.ko.xz" holds the module
 * "ext4". Hyphens in the path equal underscores. */
static bool is_module_file(const char *path, const char *module)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    for (; *module; module++, base++)
        if (*base != *module && !(*base == '-' && *module == '_'))
            return false;
    return strncmp(base, ".ko", 3) == 0;
}

/* The file of a module, or "[name]". */
static void module_path(const char *module, char *to, size_t size)
{
    struct utsname u;
    char path[512], *line = NULL;
    size_t cap = 0;
    snprintf(to, size, "[%s]", module);
    if (uname(&u) < 0)
        return;
    snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", u.release);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &cap, f) > 0) {
        line[strcspn(line, ":\n")] = 0;
        if (is_module_file(line, module)) {
            snprintf(to, size, "/lib/modules/%s/%s", u.release, line);
            break;
        }
    }
    free(line);
    if (f)
        fclose(f);
}

static int synthesize_modules(const struct synthesis *s, struct error *err)
{
    char line[4096], name[128], path[PATH_MAX], notes[256];
    int r = 0;
    FILE *f = fopen("/proc/modules", "re");
    while (f && !r && fgets(line, sizeof(line), f)) {
        struct synth_map m = {.pid = UINT32_MAX,
                              .misc = PERF_RECORD_MISC_KERNEL,
                              .prot = PROT_READ | PROT_EXEC,
                              .flags = MAP_PRIVATE,
                              .name = path};
        if (sscanf(line, "%127s %" SCNu64 " %*s %*s %*s %" SCNx64, name, &m.size, &m.start) != 3 ||
            !m.start)
            continue;
        module_path(name, path, sizeof(path));
        snprintf(notes, sizeof(notes), "/sys/module/%s/notes/.note.gnu.build-id", name);
        if (s->build_ids)
            m.build_id = notes_file_build_id(notes);
        r = synthesize_map(s, &m, err);
    }
    if (f)
        fclose(f);
    return r;
}

int synthesize_kernel(const struct synthesis *s, bool *hidden, struct error *err)
{
    const char *symbol;
    char name[64];
    struct synth_map m = {.pid = UINT32_MAX,
                          .misc = PERF_RECORD_MISC_KERNEL,
                          .prot = PROT_READ | PROT_EXEC,
                          .flags = MAP_PRIVATE,
                          .name = name};
    uint64_t end;
    *hidden = !kernel_range(&symbol, &m.start, &end);
    if (*hidden)
        return 0;
    m.size = end - m.start;
    m.offset = m.start; /* of the reference symbol: it shows readers where the kernel is */
    snprintf(name, sizeof(name), "[kernel.kallsyms]%s", symbol);
    if (s->build_ids)
        m.build_id = notes_file_build_id("/sys/kernel/notes");
    return synthesize_map(s, &m, err) < 0 || synthesize_modules(s, err) < 0 ? -1 : 0;
}
