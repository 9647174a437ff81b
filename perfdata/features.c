/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the feature sections, and interprets those that other parts of ljperf ask for. */
#include "perfdata/perfdata_internal.h"

#include <inttypes.h>
#include <stdlib.h>

int feature_add(struct perfdata *pd, unsigned number, const uint8_t *bytes, uint64_t size,
                uint64_t offset, struct error *err)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return error_no_memory(err);
    memcpy(copy, bytes, size);
    pd->features[number] = (struct feature){copy, copy, size, offset, true};
    return 0;
}

/* Read the table of (offset, size) pairs behind the data; it has one pair for each bit set in
 * `bitmap`. Returns how many sections lie outside the file. */
int features_find(struct perfdata *pd, const uint64_t bitmap[FEATURES / 64], const uint8_t *map,
                  uint64_t size)
{
    int outside = 0;
    struct cursor c = cursor_make(map, size, pd->swap, pd->path, "feature table", 0);
    cursor_skip(&c, pd->feature_offset);
    for (unsigned i = 0; i < FEATURES; i++) {
        if (!(bitmap[i / 64] >> (i % 64) & 1))
            continue;
        uint64_t at = cursor_u64(&c), length = cursor_u64(&c);
        if (c.failed || at > size || length > size - at)
            outside++;
        else
            pd->features[i] = (struct feature){map + at, NULL, length, at, true};
    }
    return outside;
}

const char *feature_string(struct cursor *c)
{
    uint32_t size = cursor_u32(c);
    const char *p = (const char *)cursor_bytes(c, size);
    if (p && !memchr(p, 0, size))
        c->failed = true;
    return c->failed ? NULL : p;
}

static int string_copy(const struct perfdata *pd, unsigned number, char **ret, struct error *err)
{
    struct cursor c = feature_cursor(pd, number, "string");
    const char *text = pd->features[number].present ? feature_string(&c) : NULL;
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? error_no_memory(err) : 0;
}

/* Copy the arguments as perf prints them: each is followed by a blank, and only quotes are
 * escaped. */
static int cmdline_copy(struct perfdata *pd, struct error *err)
{
    struct cursor c = feature_cursor(pd, HEADER_CMDLINE, "command line");
    size_t size;
    FILE *out = pd->features[HEADER_CMDLINE].present ? open_memstream(&pd->cmdline, &size) : NULL;
    if (!out)
        return 0;
    for (uint32_t nr = cursor_u32(&c); nr && !c.failed; nr--) {
        const char *arg = feature_string(&c), *quote;
        if (!arg)
            break;
        for (; (quote = strchr(arg, '\'')); arg = quote + 1)
            fprintf(out, "%.*s\\'", (int)(quote - arg), arg);
        fprintf(out, "%s ", arg);
    }
    return fclose(out) ? error_no_memory(err) : 0;
}

/* ---- build ids ---------------------------------------------------------------------------- */

int build_id_parse(struct cursor *c, uint16_t misc, struct record_build_id *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->misc = misc;
    ret->pid = (int32_t)cursor_u32(c);
    const uint8_t *id = cursor_bytes(c, BUILD_ID_MAX);
    uint8_t size = cursor_u8(c);
    cursor_skip(c, 3);
    ret->filename = cursor_string(c);
    if (c->failed)
        return -1;
    ret->build_id.size = misc & PERF_RECORD_MISC_BUILD_ID_SIZE ? size : BUILD_ID_MAX;
    if (ret->build_id.size > BUILD_ID_MAX)
        return -1;
    memcpy(ret->build_id.bytes, id, ret->build_id.size);
    return 0;
}

/* Files from before 2010 have no pid, so the first name begins 4 bytes earlier. */
static bool build_ids_lack_pid(const struct feature *f)
{
    const size_t name = RECORD_HEADER + 28;
    return f->size > name + 13 && !memcmp(f->bytes + name, "nel.kallsyms]", 13);
}

static int build_id_next(struct cursor *c, bool no_pid, struct record_build_id *ret)
{
    const uint8_t *start = c->at;
    cursor_skip(c, 4);
    uint16_t misc = 0, size = 0;
    misc = cursor_u16(c);
    size = cursor_u16(c);
    c->at = start;
    const uint8_t *p = cursor_bytes(c, size);
    if (!p || size < RECORD_HEADER)
        return -1;
    struct cursor r = *c;
    r.at = p + RECORD_HEADER;
    r.end = p + size;
    if (!no_pid)
        return build_id_parse(&r, misc, ret);
    memset(ret, 0, sizeof(*ret));
    ret->misc = misc;
    ret->pid = -1;
    const uint8_t *id = cursor_bytes(&r, 24);
    ret->filename = cursor_string(&r);
    ret->build_id.size = BUILD_ID_MAX;
    if (!r.failed)
        memcpy(ret->build_id.bytes, id, BUILD_ID_MAX);
    return r.failed ? -1 : 0;
}

static int build_ids_complete(struct perfdata *pd, struct error *err)
{
    const struct feature *f = &pd->features[HEADER_BUILD_ID];
    struct cursor c = feature_cursor(pd, HEADER_BUILD_ID, "build ids");
    bool no_pid = f->present && build_ids_lack_pid(f);
    while (cursor_left(&c) > 0) {
        struct record_build_id id;
        if (build_id_next(&c, no_pid, &id) < 0) {
            pd->loss.records_bad++;
            return 0;
        }
        if (!vec_push(&pd->build_ids, id))
            return error_no_memory(err);
    }
    return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

/* EVENT_DESC: u32 nr, attr size; nr x (attr, u32 nr_ids, name, ids). These are the header's events,
 * in the same order. */
static int event_desc_complete(struct perfdata *pd, struct error *err)
{
    struct cursor c = feature_cursor(pd, HEADER_EVENT_DESC, "EVENT_DESC");
    if (!pd->features[HEADER_EVENT_DESC].present)
        return 0;
    uint32_t nr = cursor_u32(&c), size = cursor_u32(&c);
    for (uint32_t i = 0; i < nr && i < pd->nr_events && !c.failed; i++) {
        struct event *e = event_at(pd, i);
        struct perf_event_attr attr;
        if (attr_parse(&c, size, &attr) < 0)
            break;
        uint32_t nr_ids = cursor_u32(&c);
        const char *name = feature_string(&c);
        cursor_skip(&c, 8 * (uint64_t)nr_ids);
        if (!name || attr.type != e->pub.attr.type || attr.config != e->pub.attr.config)
            continue;
        if (!e->name && event_set_name(e, name, strlen(name), err) < 0)
            return -1;
    }
    if (c.failed)
        pd->loss.records_bad++;
    return 0;
}

/* GROUP_DESC: u32 nr; nr x (name, u32 leader's index, u32 members). */
static void group_desc_complete(struct perfdata *pd)
{
    struct cursor c = feature_cursor(pd, HEADER_GROUP_DESC, "GROUP_DESC");
    if (!pd->features[HEADER_GROUP_DESC].present)
        return;
    for (uint32_t nr = cursor_u32(&c); nr && !c.failed; nr--) {
        if (!feature_string(&c))
            break;
        uint32_t leader = cursor_u32(&c), members = cursor_u32(&c);
        if (c.failed || leader >= pd->nr_events || members > pd->nr_events - leader)
            break;
        for (uint32_t i = 0; i < members; i++)
            event_at(pd, leader + i)->pub.leader = leader;
    }
}

int features_complete(struct perfdata *pd, struct error *err)
{
    const struct {
        unsigned number;
        char **to;
    } strings[] = {{HEADER_HOSTNAME, &pd->hostname},
                   {HEADER_OSRELEASE, &pd->osrelease},
                   {HEADER_ARCH, &pd->arch},
                   {HEADER_VERSION, &pd->version}};
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        if (string_copy(pd, strings[i].number, strings[i].to, err) < 0)
            return -1;
    const struct feature *t = &pd->features[HEADER_TRACING_DATA];
    if (t->present && t->size && !pd->tracing &&
        tracing_create(t->bytes, t->size, &pd->tracing, err) < 0)
        return -1;
    group_desc_complete(pd);
    if (cmdline_copy(pd, err) < 0 || build_ids_complete(pd, err) < 0 ||
        event_desc_complete(pd, err) < 0)
        return -1;
    return events_name(pd, err);
}

void features_free(struct perfdata *pd)
{
    for (unsigned i = 0; i < FEATURES; i++)
        free(pd->features[i].owned);
    free(pd->hostname);
    free(pd->osrelease);
    free(pd->arch);
    free(pd->version);
    free(pd->cmdline);
    vec_free(&pd->build_ids);
}

/* ---- the interface ------------------------------------------------------------------------ */

const struct record_build_id *perfdata_build_ids(const struct perfdata *pd, size_t *nr)
{
    *nr = pd->build_ids.nr;
    return pd->build_ids.at;
}

const void *perfdata_feature(const struct perfdata *pd, unsigned number, size_t *size)
{
    const struct feature *f = number < FEATURES ? &pd->features[number] : NULL;
    *size = f && f->present ? f->size : 0;
    return f && f->present ? f->bytes : NULL;
}

const char *perfdata_hostname(const struct perfdata *pd)
{
    return pd->hostname;
}

const char *perfdata_osrelease(const struct perfdata *pd)
{
    return pd->osrelease;
}

const char *perfdata_arch(const struct perfdata *pd)
{
    return pd->arch;
}

const char *perfdata_perf_version(const struct perfdata *pd)
{
    return pd->version;
}

const char *perfdata_cmdline(const struct perfdata *pd)
{
    return pd->cmdline;
}

bool perfdata_clockid(const struct perfdata *pd, int *ret)
{
    for (size_t i = 0; i < pd->nr_events; i++) {
        const struct perf_event_attr *attr = &event_at(pd, i)->pub.attr;
        if (attr->use_clockid) {
            *ret = attr->clockid;
            return true;
        }
    }
    return false;
}

bool perfdata_clock_data(const struct perfdata *pd, uint64_t *wall_ns, uint64_t *clock_ns)
{
    struct cursor c = feature_cursor(pd, HEADER_CLOCK_DATA, "CLOCK_DATA");
    cursor_skip(&c, 8); /* version, clockid */
    *wall_ns = cursor_u64(&c);
    *clock_ns = cursor_u64(&c);
    return !c.failed;
}

bool perfdata_sample_times(const struct perfdata *pd, uint64_t *first, uint64_t *last)
{
    struct cursor c = feature_cursor(pd, HEADER_SAMPLE_TIME, "SAMPLE_TIME");
    *first = cursor_u64(&c);
    *last = cursor_u64(&c);
    return !c.failed && *first <= *last && *last;
}

const struct perfdata_time_conv *perfdata_time_conv(const struct perfdata *pd)
{
    return pd->has_time_conv ? &pd->time_conv : NULL;
}
