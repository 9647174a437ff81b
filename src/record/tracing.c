/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The TRACING_DATA section: what libtraceevent needs to print tracepoints on another machine. In
 * order: magic, version, byte order, size of long, page size; header_page and header_event; no
 * ftrace formats; the systems with the formats of the recorded events; no kallsyms; printk formats;
 * no saved command lines (COMM records have them).
 */
#include "base/text.h"
#include "record/header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 16 << 20 };

/* Add a file of tracefs. The size of such a file is known only after reading it. Returns false if
 * it cannot be read. */
static bool add_file(struct text *t, const char *path, unsigned size_bytes)
{
    char bytes[4096];
    struct text body = {0};
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    for (size_t got; body.size < FILE_MAX && (got = fread(bytes, 1, sizeof(bytes), f));)
        text_bytes(&body, bytes, got);
    fclose(f);
    uint64_t size = body.size;
    text_bytes(t, (const char *)&size, size_bytes); /* little endian: the low bytes come first */
    text_bytes(t, body.at, body.size);
    t->failed |= body.failed;
    text_free(&body);
    return true;
}

static void add_u32(struct text *t, uint32_t v)
{
    text_bytes(t, (const char *)&v, sizeof(v));
}

static void add_start(struct text *t, const char *root)
{
    static const char magic[] = {23, 8, 68, 't', 'r', 'a', 'c', 'i', 'n', 'g', '0', '.', '6', 0};
    char path[128];
    const uint64_t zero = 0;
    text_bytes(t, magic, sizeof(magic));
    text_char(t, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    text_char(t, sizeof(long));
    add_u32(t, (uint32_t)sysconf(_SC_PAGESIZE));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "header_event" : "header_page";
        text_bytes(t, name, strlen(name) + 1);
        snprintf(path, sizeof(path), "%s/events/%s", root, name);
        if (!add_file(t, path, sizeof(uint64_t)))
            text_bytes(t, (const char *)&zero, sizeof(zero));
    }
    add_u32(t, 0); /* formats of the ftrace system */
}

/* Whether event `i` is the first of its group, or, by_name, the first of its group and name. */
static bool is_first(const event_spec_vec *v, size_t i, bool by_name)
{
    for (size_t j = 0; j < i; j++)
        if (v->at[j].group && strcmp(v->at[j].group, v->at[i].group) == 0 &&
            (!by_name || strcmp(v->at[j].member, v->at[i].member) == 0))
            return false;
    return true;
}

static int add_group(struct text *t, const char *root, const event_spec_vec *v, size_t first,
                     struct error *err)
{
    const char *group = v->at[first].group;
    uint32_t nr = 0;
    for (size_t i = first; i < v->nr; i++)
        nr += v->at[i].group && strcmp(v->at[i].group, group) == 0 && is_first(v, i, true);
    text_bytes(t, group, strlen(group) + 1);
    add_u32(t, nr);
    for (size_t i = first; i < v->nr; i++) {
        char path[512];
        if (!v->at[i].group || strcmp(v->at[i].group, group) != 0 || !is_first(v, i, true))
            continue;
        snprintf(path, sizeof(path), "%s/events/%s/%s/format", root, group, v->at[i].member);
        if (!add_file(t, path, sizeof(uint64_t)))
            return error_system(err, errno, "%s", path);
    }
    return 0;
}

static int add_groups(struct text *t, const char *root, const event_spec_vec *v, struct error *err)
{
    uint32_t groups = 0;
    for (size_t i = 0; i < v->nr; i++)
        groups += v->at[i].group && is_first(v, i, false);
    add_u32(t, groups);
    for (size_t i = 0; i < v->nr; i++)
        if (v->at[i].group && is_first(v, i, false) && add_group(t, root, v, i, err) < 0)
            return -1;
    return 0;
}

int header_write_tracing(struct perfdata_writer *w, const struct record_options *o,
                         struct error *err)
{
    const char *root = tracefs_root();
    struct text t = {0};
    char path[128];
    const uint64_t zero = 0;
    bool any = false;
    vec_foreach (s, &o->events)
        any |= s->group != NULL;
    if (!any || !root)
        return 0;
    add_start(&t, root);
    int r = add_groups(&t, root, &o->events, err);
    add_u32(&t, 0); /* kallsyms */
    snprintf(path, sizeof(path), "%s/printk_formats", root);
    if (!add_file(&t, path, sizeof(uint32_t)))
        add_u32(&t, 0);
    text_bytes(&t, (const char *)&zero, sizeof(zero)); /* saved command lines */
    if (!r && t.failed)
        r = error_no_memory(err);
    if (!r)
        r = perfdata_writer_feature(w, HEADER_TRACING_DATA, t.at, t.size, err);
    text_free(&t);
    return r;
}
