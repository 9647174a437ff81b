/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads perf-PID.map: lines "START SIZE name to the end of the line", with numbers in hex with or
 * without 0x, in any order. Lines are appended while the program runs and have no times: at each
 * address the last line counts. A line that the writer had not finished is ignored, because its
 * name (or size) may be incomplete.
 *
 * Maps of long-running servers are large and mostly obsolete. Therefore only names that are visible
 * somewhere are kept.
 */
#include "jitdump/jitcode.h"
#include "base/file_map.h"

#include <string.h>
#include <unistd.h>

/* Read a hexadecimal number and the blanks behind it. */
static bool parse_hex(const char **at, const char *end, uint64_t *ret)
{
    const char *p = *at;
    if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
        p += 2;
    const char *digits = p;
    uint64_t value = 0;
    for (; p < end; p++) {
        unsigned char lower = (unsigned char)*p | 0x20;
        unsigned digit = *p >= '0' && *p <= '9'         ? (unsigned)(*p - '0')
                         : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10U
                                                        : 16;
        if (digit == 16)
            break;
        if (value >> 60)
            return false;
        value = value << 4 | digit;
    }
    if (p == digits || p == end || (*p != ' ' && *p != '\t'))
        return false;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    *at = p;
    *ret = value;
    return true;
}

static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

static int read_line(struct jitcode *code, const char *at, const char *end, struct error *err)
{
    uint64_t start, size;
    if (end > at && end[-1] == '\r')
        end--;
    if (at == end)
        return 0;
    if (!parse_hex(&at, end, &start) || !parse_hex(&at, end, &size) || at == end ||
        start + size < start || memchr(at, 0, (size_t)(end - at))) {
        code->loss.records_bad++;
        return 0;
    }
    if (size == 0)
        return 0;
    struct jit_function *f = jitcode_add(code, start, size, 0, err);
    if (!f)
        return -1;
    f->from_map = true;
    f->name = at; /* until keep_names(): in the file, and ends with the line */
    return 0;
}

static int read_lines(struct jitcode *code, const char *at, const char *end, struct error *err)
{
    while (at < end) {
        const char *stop = line_end(at, end);
        if (stop == end) {
            code->loss.bytes_cut = (uint64_t)(end - at);
            break;
        }
        if (read_line(code, at, stop, err) < 0)
            return -1;
        at = stop + 1;
    }
    return 0;
}

/* Most lines of a perf map are functions. Another file with a map's name is somebody else's text.
 */
static int not_a_map(const struct jitcode *code, const char *path, struct error *err)
{
    if (code->loss.records_bad <= code->functions.nr)
        return 0;
    return error_set(err, ERROR_FORMAT, "%s: this is no perf map: most lines are no functions",
                     path);
}

static size_t name_size(const char *name, const char *end)
{
    size_t size = (size_t)(line_end(name, end) - name);
    return size && name[size - 1] == '\r' ? size - 1 : size;
}

/* Copy the names of functions that have a piece; the others get an empty name. If the file is
 * written meanwhile, names may have become longer: they are cut. */
static int keep_names(struct jitcode *code, const char *end, struct error *err)
{
    size_t total = 0;
    bool *visible = calloc(code->functions.nr + 1, 1);
    if (!visible)
        return error_no_memory(err);
    vec_foreach (p, &code->pieces) {
        if (!visible[p->function])
            total += name_size(code->functions.at[p->function].name, end) + 1;
        visible[p->function] = true;
    }
    char *to = code->names = malloc(total + 1);
    if (!to) {
        free(visible);
        return error_no_memory(err);
    }
    const char *stop = to + total;
    vec_foreach (f, &code->functions) {
        size_t size = name_size(f->name, end);
        if (!visible[f - code->functions.at]) {
            f->name = "";
            continue;
        }
        size_t left = (size_t)(stop - to);
        size = size < left ? size : left;
        memcpy(to, f->name, size);
        to[size] = 0;
        f->name = to;
        to += size < left ? size + 1 : size;
    }
    free(visible);
    return 0;
}

int perfmap_load(const char *path, struct jitcode **ret, struct error *err)
{
    int fd = jit_file_open(path, err);
    int failed = fd < 0 ? -1 : perfmap_read(fd, path, ret, err);
    if (fd >= 0)
        close(fd);
    return failed;
}

int perfmap_read(int fd, const char *path, struct jitcode **ret, struct error *err)
{
    struct jitcode *code = jitcode_create();
    void *bytes = NULL;
    size_t size = 0;
    if (!code || jit_file_map(fd, path, &bytes, &size, err) < 0) {
        int failed = code ? -1 : error_no_memory(err);
        jitcode_free(code);
        return failed;
    }
    const char *text = bytes ? bytes : "";
    code->timeless = true;
    int failed = read_lines(code, text, text + size, err) < 0 || not_a_map(code, path, err) ||
                 jitcode_index_build(code, err) < 0 || keep_names(code, text + size, err) < 0;
    if (bytes)
        file_unmap(bytes, size);
    if (failed) {
        jitcode_free(code);
        return -1;
    }
    *ret = code;
    return 0;
}
